// confine.c - starts a program that nobody trusts, waits for it, and ends with its exit status (128 + n after signal
// n). It is the last that is trusted before the program: under bwrap the first process of the sandbox, without bwrap
// a process of root.
//
//   confine filter=FILE memory=MB processes=N files=MB seconds=S [user=N] [all=1] [resident=1] [NAME=VALUE...]
//       PROGRAM ARGUMENT...
//
//   filter      what filter.c has made: which system calls it may make
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
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REFUSED = 125, OPEN_FILES = 256 };

static void fail(const char *what)
{
    fprintf(stderr, "confine: %s: %s\n", what, strerror(errno));
    _exit(REFUSED);
}

static struct sock_fprog read_filter(const char *path)
{
    static struct sock_filter code[4096];
    const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const ssize_t bytes = file < 0 ? -1 : read(file, code, sizeof code);
    if (bytes <= 0 || bytes == sizeof code) fail(path ? path : "no filter");
    close(file);
    return (struct sock_fprog){(unsigned short)((size_t)bytes / sizeof *code), code};
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
static void start(char **command, char **environment, struct sock_fprog *filter, uid_t user)
{
    if (user) become(user);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("no new privileges");
    // Without the flag, older kernels would slow down all that it computes.
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, filter)) fail("system calls");
    execve(command[0], command, environment);
    fail(command[0]);
}

int main(int argc, char **argv)
{
    enum { MEMORY, PROCESSES, FILES, SECONDS, USER, ALL, RESIDENT, WORDS };
    static const char *const words[WORDS] = {"memory", "processes", "files", "seconds", "user", "all", "resident"};
    long long value[WORDS] = {0};
    const char *filter_file = NULL;
    char *environment[8] = {NULL};
    int at = 1, named = 0;
    for (char *equals; at < argc && argv[at][0] != '/' && (equals = strchr(argv[at], '=')); at++) {
        if (argv[at][0] >= 'A' && argv[at][0] <= 'Z' && named < 7) {
            environment[named++] = argv[at];
            continue;
        }
        *equals = 0;
        if (strcmp(argv[at], "filter") == 0) filter_file = equals + 1;
        for (int i = 0; i < WORDS; i++)
            if (strcmp(argv[at], words[i]) == 0) value[i] = atoll(equals + 1);
    }
    if (at >= argc || !filter_file || value[MEMORY] < 1 || value[PROCESSES] < 1 || value[FILES] < 1 ||
        value[SECONDS] < 1) {
        fprintf(stderr, "usage: confine filter=FILE memory=MB processes=N files=MB seconds=S [user=N] /PROGRAM "
                        "...\n");
        return REFUSED;
    }
    struct sock_fprog filter = read_filter(filter_file);
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
    if (program == 0) start(argv + at, environment, &filter, (uid_t)value[USER]);
    for (int i = 0; i < OPEN_FILES; i++) close(i);  // its output ends with it
    if (value[RESIDENT]) watch_memory(program, value[MEMORY]);
    int status = 0, of_another;
    for (pid_t ended; (ended = wait(&of_another)) != program || (status = of_another, 0);)
        if (ended < 0 && errno != EINTR) break;
    end_all(value[ALL] ? (uid_t)value[USER] : 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
