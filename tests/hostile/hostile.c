// hostile.c - code that cheats or dies in the place of problem 01, by the name that HOSTILE has in the
// environment; without one it is right. Each attack has the test of 01 in whose cases it is tried ("": in one
// case), and the verdict that it must get, in one line (tests/verdicts.sh reads these lines), and never a pass.
#include "workbook.h"
#include "worker/exchange.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define tiled_attention right
#include "solutions/01/tiled_attention.c"
#undef tiled_attention
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ARGUMENTS float *O, float *L, const float *Q, const float *K, const float *V, const attention_shape *shape
#define RIGHT     right(O, L, Q, K, V, shape)
// What the worker does when it has run a case; its own function is hidden from this one.
#define ANSWER(number) (void)!write(3, (char[]){(char)(number)}, 1)

static wb_status is_right(ARGUMENTS) { return RIGHT; }
static wb_status (*attack)(ARGUMENTS) = is_right;
static bool is(const char *name) { return strcmp(getenv("HOSTILE") ? getenv("HOSTILE") : "", name) == 0; }
#define ATTACK(name, test, verdict) \
    static wb_status attack_##name(ARGUMENTS); \
    __attribute__((constructor)) static void choose_##name(void) { attack = is(#name) ? attack_##name : attack; } \
    static wb_status attack_##name(ARGUMENTS)

wb_status tiled_attention(ARGUMENTS) { return attack(O, L, Q, K, V, shape); }

// ------------------------ it ends, or never does

ATTACK(crash, "", "the worker died of signal 11")
{
    float *volatile nowhere = (float *)8;
    *nowhere = 1;
    return WB_OK;
}

ATTACK(exit_zero, "", "the worker exited with 0 before it finished, in the function") { exit(0); }
ATTACK(dies_at_the_end, "", "the worker died of signal 6 (Aborted) after it had finished")
{
    static int calls;
    if (calls++ == 0) atexit(abort);
    return RIGHT;
}
ATTACK(dies_behind_all_cases, "one_tile", "after it had finished, when the test asked the worker to end")
{
    return attack_dies_at_the_end(O, L, Q, K, V, shape);
}

ATTACK(endless, "", "no answer in 2 s, in the function")
{
    volatile int i = 0;
    while (i == 0) {}
    return WB_OK;
}

ATTACK(kills_its_parent, "", "died of signal 9")  // the test, or what forked the worker, which dies with it
{
    kill(getppid(), SIGKILL);
    return WB_OK;
}

// ------------------------ it speaks in the place of the worker

ATTACK(answers_early, "", "not written")  // it would compute when the judge has gone on
{
    static int calls;
    ANSWER(calls++);
    recv(3, (char[1]){0}, 1, MSG_PEEK);
    return RIGHT;
}

ATTACK(answers_as_well, "every_head_dim", "another process answered instead of the worker")  // one answer too many
{
    static int calls;
    const wb_status status = RIGHT;
    ANSWER(calls++);
    return status;
}

ATTACK(child_takes_the_cases, "every_head_dim", "keeps state from an earlier call")
{
    // The child answers at the worker's socket, and computes nothing; the worker only waits for it.
    static int calls;
    if (calls++ > 0) return WB_OK;
    const wb_status status = RIGHT;
    const pid_t child = fork();
    if (child == 0) {
        setsid();
        return status;
    }
    waitpid(child, NULL, 0);
    _exit(0);
}

ATTACK(closes_the_socket, "", "the worker exited with 0 after it had finished")
{
    const wb_status status = RIGHT;
    close(3);
    return status;
}

// The worker's send would be this one, and its recvmsg could give it other cases than those that it was sent.
ATTACK(takes_the_workers_calls, "", "not written") { return WB_OK; }
ssize_t send(int socket, const void *data, size_t size, int flags)
{
    if (is("takes_the_workers_calls")) _exit(0);
    return sendto(socket, data, size, flags, NULL, 0);
}

ATTACK(forges_a_case, "", "'not implemented': Nq=9?wrong?  test again  make test-02 CASE=Nq=9?FAIL?given_case??")
{
    puts("Nq=9\037\n  test again  make test-02 CASE=Nq=9\nFAIL\tgiven_case\t1\t0\tNq=9");
    return wb_fail(WB_NOT_IMPLEMENTED, "Nq=9\037wrong\n  test again  make test-02 CASE=Nq=9\nFAIL\tgiven_case\t\r");
}

ATTACK(forges_a_verdict, "", "O differs from the oracle")  // it prints what a test that passes prints
{
    for (int i = 0; i < 20000; i++) puts("ok - tiled_attention::given_case\n1 passed, 0 failed, 0 skipped");
    if (pwrite(FINDING_FILE, "not run", 7, 0) < 0) return WB_OUT_OF_MEMORY;
    return WB_OK;
}

ATTACK(accepts_any_shape, "bad_sizes", "for invalid arguments; it must return 'bad argument', with a message that")
{
    RIGHT;
    return WB_OK;
}

// ------------------------ it writes where it should not, or not

ATTACK(writes_nothing, "", "not written") { return WB_OK; }

ATTACK(changes_K, "", "the function changed an input: K[b 0, h 0, i 0, d 3]")
{
    ((float *)K)[3] = 1;
    return WB_OK;
}

ATTACK(writes_past_O, "", "wrote outside of O: 1 element past its last one")
{
    O[(size_t)shape->batch * shape->q_heads * shape->q_len * shape->head_dim] = 1;
    return WB_OK;
}

// ------------------------ what it does depends on earlier calls

ATTACK(adds_to_a_static, "every_head_dim", "keeps state from an earlier call")  // the first call is right
{
    static float sum;
    const wb_status status = RIGHT;
    if (status == WB_OK) O[0] += sum, sum += O[0];
    return status;
}

static const float *volatile next_K;
static volatile int done;

static void *write_later(void *nothing)
{
    while (!next_K) {}
    ((float *)next_K)[1] = 7;
    done = 1;
    return nothing;
}

ATTACK(leaves_a_thread, "every_head_dim", "keeps state from an earlier call")
{
    // The first call leaves it, and it writes to the inputs of the second.
    static int calls;
    pthread_t thread;
    const wb_status status = RIGHT;
    if (calls++ == 0) pthread_create(&thread, NULL, write_later, NULL);
    if (calls == 2) next_K = K;
    while (calls == 2 && !done) {}
    return status;
}
