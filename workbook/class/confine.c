// confine.c - starts a program that nobody trusts, waits for it, and ends with its exit status (128 + n after signal
// n). It is the last that is trusted before the program: under bwrap the first process of the sandbox, without bwrap
// a process of root.
//
//   confine calls=worker|tools memory=MB processes=N files=MB seconds=S [user=N] [all=1] [resident=1] [NAME=VALUE...]
//       PROGRAM ARGUMENT...
//
//   calls       which system calls it may make: see `allowed`
//   memory      of address space, for each process         files       the largest file it may write, MB
//   processes   and threads, of its user                   seconds     of processor time, for each process
//   user        for root: whose it is                      all         what else this user runs ends with it
//   resident    for check builds, whose shadows of memory need terabytes of addresses at places of their own: memory
//               is what the program, one process, has of the machine, page tables included, looked at every 5 ms; and
//               addresses are not random
//
// The program gets the environment of the capital NAMEs alone, which it cannot change for others either
// (/proc/self/environ), no privilege, and no way to get one. It cannot reach this process, which is why what the
// kernel tells about its children (memory, processor time) can be believed.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REFUSED = 125, OPEN_FILES = 256 };

static void fail(const char *what)
{
    fprintf(stderr, "confine: %s: %s\n", what, strerror(errno));
    _exit(REFUSED);
}

// What is not in this table is answered by ENOSYS, as by a kernel that does not know it, so that libraries fall back:
// keys, ptrace, namespaces, sockets of any kind, files that exist in memory alone (memfd_create, shmget, mq_open), and
// whatever kernels yet to come will offer.
//
// `worker`: a student's function, a program that computes, and makes no files: what is in one is memory that nobody
// counts. `tools`: what compiles or unpacks it, which starts programs and makes files.
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
    if (error < 0) errno = -error, fail(what);
}

static void allow(const char *name, unsigned conditions, struct scmp_arg_cmp condition)
{
    const int call = seccomp_syscall_resolve_name(name);
    if (call >= 0) check(seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, conditions, &condition), name);
}

static void make_filter(int who)
{
    const struct scmp_arg_cmp always = {0};
    filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    // Without this, older kernels would slow down all that it computes.
    check(filter ? seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1) : -ENOMEM, "system calls");
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
}

static void limit(__rlimit_resource_t what, const char *name, long long most)
{
    struct rlimit now;
    if (getrlimit(what, &now)) fail(name);
    if ((rlim_t)most < now.rlim_max) now.rlim_max = (rlim_t)most;  // who called may want less
    now.rlim_cur = now.rlim_max;
    if (setrlimit(what, &now)) fail(name);
}

static void become(uid_t user)
{
    const gid_t group = user;
    if (setgroups(0, NULL) || setresgid(group, group, group) || setresuid(user, user, user)) fail("another user");
}

// Ends whatever is left of the namespace whose first process this is, or of the user.
static void end_all(uid_t user)
{
    if (getpid() == 1) {
        kill(-1, SIGKILL);
    } else if (user) {
        const pid_t killer = fork();
        if (killer == 0) {
            become(user);
            kill(-1, SIGKILL);
            _exit(0);
        }
    }
    while (wait(NULL) > 0 || errno == EINTR) {}
}

// Pages and page tables of a process, in MB. Of one whose first thread has gone nobody knows: that is too much.
static long long resident_MB(pid_t process)
{
    char path[64], line[256];
    long long sum = 0, KB, known = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %lld", &KB) == 1 || sscanf(line, "VmPTE: %lld", &KB) == 1 ||
            sscanf(line, "VmSwap: %lld", &KB) == 1)
            sum += KB, known++;
    if (status) fclose(status);
    return known ? sum >> 10 : LLONG_MAX;
}

// Ends the process when it has more than this, and returns when it has ended.
static void watch_memory(pid_t process, long long most)
{
    siginfo_t ended = {.si_pid = 0};
    while (waitid(P_PID, (id_t)process, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0) {
        if (resident_MB(process) > most) kill(process, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

// What the program becomes before it is one.
static void start(char **command, char **environment, uid_t user)
{
    if (user) become(user);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    check(seccomp_load(filter), "system calls");  // and no new privileges
    execve(command[0], command, environment);
    fail(command[0]);
}

int main(int argc, char **argv)
{
    enum { CALLS, MEMORY, PROCESSES, FILES, SECONDS, USER, ALL, RESIDENT, WORDS };
    static const char *const words[] = {"calls", "memory", "processes", "files", "seconds", "user", "all", "resident"};
    long long value[WORDS] = {0};
    char *environment[8] = {NULL};
    int at = 1, named = 0;
    bool whole = true;
    for (char *equals; at < argc && argv[at][0] != '/' && (equals = strchr(argv[at], '=')); at++) {
        if (argv[at][0] >= 'A' && argv[at][0] <= 'Z' && named < 7) {
            environment[named++] = argv[at];
            continue;
        }
        *equals = 0;
        for (int i = 0; i < WORDS; i++)
            if (strcmp(argv[at], words[i]) == 0)
                value[i] = i != CALLS ? atoll(equals + 1) : strcmp(equals + 1, "worker") == 0 ? WORKER : TOOLS;
    }
    for (int i = 0; i <= SECONDS; i++) whole &= value[i] > 0;
    if (at >= argc || !whole) return fprintf(stderr, "usage: see confine.c\n"), REFUSED;
    make_filter((int)value[CALLS]);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // nobody looks into this process, not even its own user
    if (!value[RESIDENT])
        limit(RLIMIT_AS, "memory", value[MEMORY] << 20);
    else if (personality(ADDR_NO_RANDOMIZE) < 0)
        fail("places of memory");
    limit(RLIMIT_FSIZE, "files", value[FILES] << 20);
    limit(RLIMIT_CPU, "seconds", value[SECONDS]);
    limit(RLIMIT_CORE, "no core", 0);
    limit(RLIMIT_MSGQUEUE, "no queues", 0);
    limit(RLIMIT_NOFILE, "open files", OPEN_FILES);
    limit(RLIMIT_NPROC, "processes", value[PROCESSES] + 1);

    const pid_t program = fork();
    if (program < 0) fail("fork");
    if (program == 0) start(argv + at, environment, (uid_t)value[USER]);
    for (int i = 0; i < OPEN_FILES; i++) close(i);  // its output ends with it
    if (value[RESIDENT]) watch_memory(program, value[MEMORY]);
    int status = 0, of_another;
    for (pid_t ended; (ended = wait(&of_another)) != program || (status = of_another, 0);)
        if (ended < 0 && errno != EINTR) break;
    end_all(value[ALL] ? (uid_t)value[USER] : 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
