// attention_worker.c - problems 07 and 09 on the CPU layer, each in a process of its own: the workers that the suites
// run, asked once a call (exchange.h, session.h). What a kernel does to its process the training survives, and says.
#include "attention.h"
#include "judge/session.h"
#include "model.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct kernel {
    const char *name, *path;
    int number;
    session worker;
} kernel;
static kernel forward_07 = {.name = "07", .number = 7}, backward_09 = {.name = "09", .number = 9};
static char failure[512], not_finite[256];

const char *kernel_failure(void) { return failure; }
const char *kernel_not_finite(void) { return not_finite; }

// Has the worker run the case that lies in this memory, x.
static void ask(kernel *k, const wb_problem *problem, const wb_case *c, int file, const wb_exchange *x)
{
    session_said said = {.count = 0};
    char what[256];
    session_outcome how;
    int whose;
    const session_turn turn = {&k->worker, c, file, &said};
    if (!k->worker.pid && !session_start(&k->worker, k->path)) FAIL("a kernel cannot be started");
    if (!*session_serve(&turn, 1, problem, -1, what, &how, &whose) && x->status != WB_OK)
        snprintf(what, sizeof what, "%s: %.200s", wb_status_text(x->status), x->message);
    else if (!*what && x->device_status != WB_OK)
        snprintf(what, sizeof what, "%s: %.200s", wb_status_text(x->device_status), x->device_message);
    if (!*what) return;
    snprintf(failure, sizeof failure, "%s (%s): %s", k->name, k->path, plain_text(what));
    const size_t end = said.count < sizeof said.text ? said.count : sizeof said.text - 1;
    said.text[end] = 0;
    fprintf(stderr, "%s%s", plain_text(said.text), end && said.text[end - 1] != '\n' ? "\n" : "");
}

// Calls the function with these arrays, outputs and then inputs, in the order of its arguments. What it does not write
// is zero.
static void call(kernel *k, const attention_shape *shape, real *outputs[], real *inputs[])
{
    const wb_problem *const problem = wb_problem_number(k->number);
    const wb_case c = {.shape = *shape};
    wb_tensor tensors[WB_MAX_TENSORS];
    wb_zone zones[WB_MAX_TENSORS];
    const int count = wb_case_tensors(problem, &c, tensors);
    const size_t bytes = wb_exchange_layout(tensors, count, &c, 0, zones);
    const int file = session_memory(bytes);
    char *const memory = file < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) FAIL("no memory to share with a kernel");
    int first_input = 0;
    while (tensors[first_input].output) first_input++;
    for (int t = first_input; t < count; t++)
        for (size_t i = 0; i < tensors[t].count; i++)
            wb_put(tensors[t].type, memory + zones[t].start, i, inputs[t - first_input][i]);
    if (!*failure) ask(k, problem, &c, file, (const wb_exchange *)memory);
    if (*failure) memset(memory, 0, bytes);
    for (int t = 0; t < first_input; t++) {
        size_t bad = 0;
        for (size_t i = 0; outputs[t] && i < tensors[t].count; i++)
            bad += !isfinite(outputs[t][i] = (real)wb_get(tensors[t].type, memory + zones[t].start, i));
        if (bad && !*not_finite)
            snprintf(not_finite, sizeof not_finite, "%s of %s is NaN or infinite in %zu of %zu numbers",
                     tensors[t].name, k->name, bad, tensors[t].count);
    }
    munmap(memory, bytes);
    close(file);
}

static void forward(const heads *x)
{
    call(&forward_07, &x->shape, (real *[]){x->O, x->L}, (real *[]){x->Q, x->K, x->V});
}
static void backward(const heads *x)
{
    real *const delta = NULL;  // nobody reads it
    call(&backward_09, &x->shape, (real *[]){x->dQ, x->dK, x->dV, delta},
         (real *[]){x->Q, x->K, x->V, x->O, x->L, x->dO});
}

const attention *kernel_ring(const char *forward_path, const char *backward_path)
{
    (void)forward_path, (void)backward_path;
    FAIL("training uses 17 and 18 only on GPUs");
}
const attention *kernel_attention(const char *forward_path, const char *backward_path)
{
    static const attention kernels = {"kernels", forward, backward};
    session_exact = true;  // no guard zones: what is wrong is not looked for here
    forward_07.path = forward_path, backward_09.path = backward_path;
    return &kernels;
}
