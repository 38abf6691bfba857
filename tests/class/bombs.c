// bombs.c - what tests/class/run.sh puts into submissions, a part a bomb: behind its name the rule that it proves and
// what its report has to say, @ROOT@, @CANARY@ and @BASE@ being paths there. No part is compiled with another.

// bomb: allocates_100_GB
// rule: memory is limited
// expect: Cannot allocate memory
static wb_status bomb(void)
{
    const size_t piece = (size_t)64 << 20;
    for (int i = 0; i < 1600; i++) {
        volatile char *more = malloc(piece);
        if (!more) perror("100 GB, in pieces"), abort();
        *more = 1;  // the limit is one of addresses: filling 2 GB in each test took a minute and showed no more
    }
    return WB_OK;
}

// bomb: asks_the_kernel
// rule: a worker has the system calls of a program that computes, and nobody to send a signal to
// expect: 0 of 21 known, the same cores
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

// bomb: colours_its_texts
// rule: what is printed is never believed; nothing that colours, turns or hides text reaches a report
// expect: ?[2J?]0;passed? 750 ?05?7 /?05?7 :erocS?
// expect: warning: ?[2J 750
// From the function, by its output, and by the linker.
__asm__(".section .gnu.warning, \"\", @progbits\n.string \"\\033[2J 750\"\n.text");

static wb_status bomb(void)
{
    puts("\n\n  ok    O_of_one_tile\n27 passed, 0 failed, 0 skipped\n\nScore: 200/200 (+ bonus 200/200)\n"
         "\"score\": 200, \"tests\": []} ]]> </system-out><testcase name=\"O\"/> \033[2J\xff\xfe\x80 \r200");
    return wb_fail(WB_UNSUPPORTED, "\033[2J\033]0;passed\a 750 \xe2\x80\xae"
                                   "05\xe2\x80\x8b"
                                   "7 /\xe2\x81\xa6"
                                   "05\xd8\x9c"
                                   "7 :erocS\xef\xbb\xbf");
}

// bomb: endless_output
// rule: every case has a time limit, and each problem; what is printed without end costs nothing
// expect: no answer in
// expect: used up the 1 s of this problem
static wb_status bomb(void)
{
    for (;;) puts("Score: 100/100");
}

// bomb: fills_the_disk
// rule: what the compiler writes is limited
// expect: File size limit exceeded
// The compiler writes every byte of it.
static const char much[(size_t)1 << 31] = {1};

static wb_status bomb(void) { return much[wb_last_message()[0] != 0] ? WB_OK : WB_UNSUPPORTED; }

// bomb: hoards_before_main
// rule: memory from before main counts: a matrix of scores may not lie there
// expect: is a matrix of scores stored?
static char *volatile hoard;
__attribute__((constructor)) static void before_main(void)
{
    hoard = (char *)malloc((size_t)150 << 20);
    if (hoard) memset(hoard, 1, (size_t)150 << 20);
}

// bomb: hoards_in_the_check_build
// rule: the memory of a check build is limited, and what nobody can count is too much: its first thread has gone
// expect: the worker died of signal 9
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static void *hoard(void *unused)
{
    for (char *piece; (piece = malloc((size_t)64 << 20));) memset(piece, 1, (size_t)64 << 20);
    return unused;
}
__attribute__((constructor)) static void two_threads(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, hoard, NULL) == 0) syscall(SYS_exit, 0);
}
#endif

// bomb: includes_the_key
// rule: the compiler sees no reference solution, and what it says is shown without colours
// expect: #error ?[2J 750
// expect: @ROOT@/solutions/01/tiled_attention.c: No such file or directory
#error [2J 750
#include "@ROOT@/solutions/01/tiled_attention.c"
#include "../../solutions/01/tiled_attention.c"

static wb_status bomb(void) { return WB_OK; }

// bomb: keeps_the_compiler_busy
// rule: compiling has a time limit
// expect: the compiler was stopped
// The assembler repeats nothing, a thousand million million times.
__asm__(".rept 100000\n.rept 100000\n.rept 100000\n.endr\n.endr\n.endr");

static wb_status bomb(void) { return WB_OK; }

// bomb: leaves_the_check_build
// rule: a check build that ends early is not clean, whatever it prints
// expect: before it called the function
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
__attribute__((constructor)) static void leave(void)
{
    printf("returned: ok\n  nothing found in 7 cases\n");
    fflush(stdout);
    _exit(0);
}
#endif

// bomb: quotes_a_file
// rule: a report of a check build is shown, and opens no file but the workbook's own
// expect: does it at /etc/passwd:1
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
__attribute__((constructor)) static void quote(void)
{
    printf("\n/etc/passwd:1: runtime error: index 1 out of bounds\n");
    fflush(stdout);
    _exit(66);
}
#endif

// bomb: reaches_out
// rule: no file of the judge or of the sandbox's own process is open, nothing can be written, no other process is seen
// expect: 0 open, 0 written, 2 processes
// What a test expects is in its own memory alone. The processes are the sandbox's first one and this one.
static const char to_read[] =
    "@ROOT@/solutions/01/tiled_attention.c /proc/1/root@ROOT@/solutions/01/tiled_attention.c "
    "/proc/self/cwd/../solutions/01/tiled_attention.c @BASE@/tests/01_tiled_attention.c @BASE@/build/cpu/tests/01_test "
    "@CANARY@/canary /proc/1/mem /proc/1/environ /proc/1/fd/0";
// oom_score_adj: who is ended first when memory runs out. clear_refs: the peak of its memory.
static const char to_write[] =
    "/written /etc/written /usr/written /var/tmp/written /root/written @ROOT@/written @CANARY@/written /tmp/written "
    "/dev/shm/written written @CANARY@/canary /worker /usr/bin/true /proc/self/oom_score_adj /proc/self/mem "
    "/proc/self/clear_refs";

static int opened(const char *places, int how)
{
    char all[4096];
    int count = 0;
    snprintf(all, sizeof all, "%s", places);
    for (char *place = strtok(all, " "); place; place = strtok(NULL, " ")) count += open(place, how, 0666) >= 0;
    return count;
}

static wb_status bomb(void)
{
    const int written = opened(to_write, O_WRONLY) + opened(to_write, O_WRONLY | O_CREAT);
    int processes = 0;
    DIR *const all = opendir("/proc");
    for (struct dirent *entry; all && (entry = readdir(all));)
        processes += entry->d_name[0] >= '1' && entry->d_name[0] <= '9';
    return wb_fail(WB_UNSUPPORTED, "%d open, %d written, %d processes", opened(to_read, O_RDONLY), written, processes);
}

// bomb: sets_the_layer
// rule: the settings of the CPU layer are the judge's
// expect: barrier that some threads never reach
__attribute__((constructor)) static void before_main(void) { setenv("CUDACPU_EARLY_EXIT", "1", 1); }

__global__ void leaves_early(int *)
{
    if (threadIdx.x) return;
    __syncthreads();
}

static wb_status bomb(void)
{
    leaves_early<<<1, 64>>>(nullptr);
    return WB_OK;
}
