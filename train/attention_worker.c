// attention_worker.c - problems 07 and 09 on the CPU layer, each in a process of its own: the workers that the suites run, asked once a
// call (exchange.h, session.h). What a kernel does to its process the training survives, and says.
#include "attention.h"
#include "judge/session.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct kernel {
    const char *name, *path;
    const wb_problem *problem;
    session worker;
    int file;      // the memory that is shared
    size_t bytes;  // of it
    char *copy;    // ours
    wb_tensor tensors[WB_MAX_TENSORS];
    wb_zone zones[WB_MAX_TENSORS];
    int count;
} kernel;
static kernel forward_07 = {.name = "07"}, backward_09 = {.name = "09"};
static char failure[512], not_finite[256];

const char *kernel_failure(void) { return failure; }
const char *kernel_not_finite(void) { return not_finite; }

static void give_up(const char *what)
{
    perror(what);
    exit(2);
}

// Makes room for this shape, and lays its tensors out in it.
static wb_case lay_out(kernel *k, const attention_shape *shape)
{
    const wb_case c = {.shape = *shape};
    k->count = wb_case_tensors(k->problem, &c, k->tensors);
    const size_t bytes = wb_exchange_layout(k->tensors, k->count, 0, 0, k->zones);
    if (bytes != k->bytes) {
        if (k->bytes) close(k->file), free(k->copy);
        k->file = session_memory(k->bytes = bytes);
        k->copy = malloc(bytes);
        if (k->file < 0 || !k->copy) give_up("train: memory to share with a kernel");
    }
    memset(k->copy, 0, sizeof(wb_exchange));
    return c;
}

static char *zone(const kernel *k, int t) { return k->copy + k->zones[t].start; }
static void put(kernel *k, int t, const real *x)
{
    for (size_t i = 0; i < k->tensors[t].count; i++) wb_put(k->tensors[t].type, zone(k, t), i, x[i]);
}
static void get(const kernel *k, int t, real *x)
{
    const wb_tensor *const tensor = &k->tensors[t];
    size_t bad = 0;
    for (size_t i = 0; i < tensor->count; i++) {
        x[i] = wb_get(tensor->type, zone(k, t), i);
        bad += !isfinite(x[i]);
    }
    if (bad && !*not_finite)
        snprintf(not_finite, sizeof not_finite, "%s of %s is NaN or infinite in %zu of %zu numbers", tensor->name,
                 k->name, bad, tensor->count);
}

static void fail(const kernel *k, const char *what, const session_said *said)
{
    const size_t end = said->count < sizeof said->text ? said->count : sizeof said->text - 1;
    snprintf(failure, sizeof failure, "%s (%s): %s", k->name, k->path, what);
    if (end) fprintf(stderr, "%.*s%s", (int)end, said->text, said->text[end - 1] == '\n' ? "" : "\n");
}

// Has the worker run the case. The outputs are then in our copy; zeros if it failed, now or earlier.
static void call(kernel *k, const wb_case *c)
{
    session_said said = {.count = 0};
    wb_exchange *const x = (wb_exchange *)k->copy;
    char ending[256] = "";
    if (!*failure) {
        if (pwrite(k->file, k->copy, k->bytes, 0) != (ssize_t)k->bytes) give_up("train: memory to share with a kernel");
        if (!k->worker.pid && !session_start(&k->worker, k->path)) give_up("train: starting a kernel");
        const double timeout = session_timeout(), deadline = session_now() + timeout;
        const wb_answer answer = session_ask(&k->worker, k->problem, c, k->file, deadline, &said);
        bool in_time = true;
        int status = 0;
        if (answer != WB_ANSWERED)
            in_time = session_end(&k->worker, answer == WB_ANSWER_NEVER ? deadline : 0, &said, &status);
        if (pread(k->file, k->copy, k->bytes, 0) != (ssize_t)k->bytes) give_up("train: memory to share with a kernel");
        if (answer == WB_ANSWER_DAMAGED)
            fail(k, "something answered in the place of the kernel", &said);
        else if (answer != WB_ANSWERED)
            fail(k, session_ending(ending, sizeof ending, x->stage, status, in_time), &said);
        else if (x->status != WB_OK || x->device_status != WB_OK) {
            const bool returned = x->status != WB_OK;
            x->message[sizeof x->message - 1] = x->device_message[sizeof x->device_message - 1] = 0;
            snprintf(ending, sizeof ending, "%s: %.200s", wb_status_text(returned ? x->status : x->device_status),
                     returned ? x->message : x->device_message);
            fail(k, ending, &said);
        }
    }
    if (*failure) memset(k->copy, 0, k->bytes);
}

static void forward(act *O, real *L, const act *Q, const act *K, const act *V, const attention_shape *shape)
{
    kernel *const k = &forward_07;
    const wb_case c = lay_out(k, shape);
    put(k, 2, Q), put(k, 3, K), put(k, 4, V);
    call(k, &c);
    get(k, 0, O), get(k, 1, L);
}

static void backward(act *dQ, act *dK, act *dV, const act *Q, const act *K, const act *V, const act *O, const real *L,
                     const act *dO, const attention_shape *shape)
{
    kernel *const k = &backward_09;
    const wb_case c = lay_out(k, shape);
    put(k, 4, Q), put(k, 5, K), put(k, 6, V), put(k, 7, O), put(k, 8, L), put(k, 9, dO);
    call(k, &c);
    get(k, 0, dQ), get(k, 1, dK), get(k, 2, dV);
}

const attention *kernel_attention(const char *forward_path, const char *backward_path)
{
    static const attention kernels = {"kernels", forward, backward};
    setenv("WB_EXACT", "1", 1);  // no guard zones: what is wrong is not looked for here
    forward_07.path = forward_path, backward_09.path = backward_path;
    forward_07.problem = wb_problem_number(7), backward_09.problem = wb_problem_number(9);
    return &kernels;
}
