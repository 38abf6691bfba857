// rule: a worker has the system calls of a program that computes, and nobody to send a signal to
// expect: 0 of 21 known, the same cores
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static wb_status bomb(void)
{
    static const long calls[] = {SYS_ptrace,      SYS_process_vm_readv, SYS_mount,       SYS_unshare, SYS_setns,
                                 SYS_bpf,         SYS_perf_event_open,  SYS_keyctl,      SYS_socket,  SYS_userfaultfd,
                                 SYS_request_key, SYS_io_uring_setup,   SYS_personality, SYS_clone3,  SYS_memfd_create,
                                 SYS_shmget,      SYS_mq_open,          SYS_pipe2,       SYS_add_key, SYS_fork,
                                 SYS_clone};
    const pid_t self = getpid();
    kill(getppid(), SIGKILL);
    kill(1, SIGKILL);
    kill(-1, SIGKILL);
    int known = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        known += syscall(calls[i], calls[i] == SYS_clone ? SIGCHLD : 0, 0, 0, 0, 0, 0) >= 0 || errno != ENOSYS;
        if (getpid() != self) _exit(0);
    }
    cpu_set_t before, one, after;  // all of them, or one of those that it has
    int moved = 0;
    sched_getaffinity(0, sizeof before, &before);
    for (int tries = 0; tries < 2; tries++) {
        memset(&one, tries ? 0 : 0xff, sizeof one);
        for (int k = 0; tries && k < CPU_SETSIZE && !CPU_COUNT(&one); k++)
            if (CPU_ISSET(k, &before)) CPU_SET(k, &one);
        sched_setaffinity(0, sizeof one, &one);
        sched_getaffinity(0, sizeof after, &after);
        moved += !CPU_EQUAL(&before, &after);
    }
    return wb_fail(WB_UNSUPPORTED, "%d of 21 known, %s cores", known, moved ? "other" : "the same");
}
