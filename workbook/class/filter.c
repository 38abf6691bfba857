// filter.c - which system calls a submission may make: filter worker|tools, the program for the kernel on standard
// output.
//
// What is not in the table is answered by ENOSYS, as by a kernel that does not know it, so that libraries fall back:
// keys (add_key, request_key, keyctl), ptrace, process_vm_*, mount and its family, bpf, perf_event_open, userfaultfd,
// io_uring, kexec, modules, namespaces (unshare, setns, clone3 and clone's flags), sockets of any kind, files that
// exist in memory alone (memfd_create, shmget, mq_open), personality, and whatever kernels yet to come will offer.
//
// `worker`: a student's function, a program that computes, and makes no files: what is in one is memory that nobody
// counts. `tools`: what compiles or unpacks it, which starts programs and makes files.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

enum { WORKER = 1, TOOLS = 2, BOTH = WORKER | TOOLS };

// Names that a machine does not have are passed over.
static const struct {
    int who;
    const char *calls, *reason;
} allowed[] = {
    {BOTH, "read readv pread64 write writev pwrite64 close lseek fcntl poll ppoll dup",
     "files and pipes that are open"},
    {BOTH,
     "access faccessat faccessat2 stat lstat fstat newfstatat statx readlink readlinkat getcwd "
     "getdents64 chdir",
     "files to read: which there are is the sandbox's business"},
    {BOTH, "mmap munmap mprotect mremap madvise brk", "memory, which RLIMIT_AS bounds; the layer's guard pages"},
    {BOTH, "futex set_robust_list rseq set_tid_address arch_prctl membarrier", "threads (clone: see below)"},
    {BOTH,
     "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack "
     "restart_syscall pause kill tkill tgkill",
     "signals: faults that the layer reports, abort; nobody else is there to get one"},
    {BOTH, "getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp getpgid",
     "who am I"},
    {BOTH,
     "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage alarm setitimer "
     "getitimer",
     "clocks"},
    {BOTH, "sched_yield sched_getaffinity getcpu sysinfo uname getrlimit setrlimit prlimit64 getrandom get_mempolicy",
     "how large the machine is; limits, which it can lower alone"},
    {BOTH, "execve exit exit_group", "begin and end"},
    {WORKER, "recvmsg recvfrom sendmsg sendto",
     "the socket on which a test sends cases and gets answers; it can open no other"},
    {TOOLS, "execveat fork vfork wait4 waitid setpgid setsid pipe pipe2 dup2 dup3 select pselect6 eventfd2",
     "make, a shell and the compiler start programs"},
    {TOOLS,
     "creat truncate ftruncate fallocate fsync unlink unlinkat rename renameat renameat2 link linkat symlink "
     "symlinkat mkdir mkdirat rmdir chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes "
     "utimensat futimesat umask statfs fstatfs fchdir getdents copy_file_range sendfile fadvise64 flock "
     "getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr",
     "and make files"},
    {TOOLS, "setresuid setresgid setreuid setregid setuid setgid",
     "make sets its own user again before it starts a program"},
    {TOOLS, "getpriority setpriority sched_getparam sched_getscheduler capget", "asked for by compilers and shells"},
};

static scmp_filter_ctx filter;

static void check(int error, const char *what)
{
    if (error == 0) return;
    fprintf(stderr, "filter: %s: %s\n", what, strerror(-error));
    _Exit(1);
}

static void allow(const char *name, unsigned conditions, struct scmp_arg_cmp condition)
{
    const int call = seccomp_syscall_resolve_name(name);
    if (call >= 0) check(seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, conditions, &condition), name);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"worker", "tools"};
    int who = 0;
    for (int i = 0; i < 2; i++)
        if (argc == 2 && strcmp(argv[1], names[i]) == 0) who = 1 << i;
    if (!who) return fprintf(stderr, "usage: filter worker|tools >FILE\n"), 2;
    filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!filter) return fprintf(stderr, "filter: no memory\n"), 1;
    const struct scmp_arg_cmp always = {0};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        char calls[512], *rest = calls;
        if (!(allowed[i].who & who)) continue;
        snprintf(calls, sizeof calls, "%s", allowed[i].calls);
        for (char *name; (name = strtok_r(rest, " ", &rest));) allow(name, 0, always);
    }

    // A thread is one that shares all with the others, a process one that gets no namespace.
    const scmp_datum_t namespaces =
        CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP;
    const scmp_datum_t thread = who == TOOLS ? 0 : CLONE_THREAD;
    allow("clone", 1, SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces | thread, thread));
    // Files are opened; whether they may be made as well is asked of two bits.
    const scmp_datum_t makes = who == WORKER ? O_CREAT | (O_TMPFILE & ~O_DIRECTORY) : 0;
    allow("open", 1, SCMP_A1_32(SCMP_CMP_MASKED_EQ, makes, 0));
    allow("openat", 1, SCMP_A2_32(SCMP_CMP_MASKED_EQ, makes, 0));
    // Is this a terminal, and how wide?
    allow("ioctl", 1, SCMP_A1_32(SCMP_CMP_EQ, TCGETS, 0));
    allow("ioctl", 1, SCMP_A1_32(SCMP_CMP_EQ, TIOCGWINSZ, 0));
    // Names of threads and of memory; not PR_SET_PDEATHSIG, nor what would undo this filter's neighbours.
    static const int prctls[] = {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_CAPBSET_READ,
                                 0x53564d41 /* PR_SET_VMA */};
    for (size_t i = 0; i < sizeof prctls / sizeof *prctls; i++)
        allow("prctl", 1, SCMP_A0_32(SCMP_CMP_EQ, (scmp_datum_t)prctls[i], 0));

    // Cores are shared out. A thread that asks for one of them starts, and stays where it is.
    check(seccomp_rule_add(filter, SCMP_ACT_ERRNO(0), SCMP_SYS(sched_setaffinity), 0), "sched_setaffinity");

    check(seccomp_export_bpf(filter, 1), "the program");
    return 0;
}
