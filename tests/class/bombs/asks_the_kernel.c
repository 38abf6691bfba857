// rule: a worker has the system calls of a program that computes
// expect: 0 of 19 known
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static wb_status bomb(void)
{
    static const long calls[] = {SYS_ptrace,
                                 SYS_process_vm_readv,
                                 SYS_mount,
                                 SYS_unshare,
                                 SYS_setns,
                                 SYS_bpf,
                                 SYS_perf_event_open,
                                 SYS_keyctl,
                                 SYS_socket,
                                 SYS_userfaultfd,
                                 SYS_request_key,
                                 SYS_io_uring_setup,
                                 SYS_personality,
                                 SYS_clone3,
                                 SYS_memfd_create,
                                 SYS_shmget,
                                 SYS_mq_open,
                                 SYS_sched_setaffinity,
                                 SYS_pipe2};
    int known = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        known += syscall(calls[i], 0, 0, 0, 0, 0, 0) >= 0 || errno != ENOSYS;
    return wb_fail(WB_UNSUPPORTED, "%d of 19 known", known);
}
