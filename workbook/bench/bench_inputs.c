// bench_inputs.c - the inputs of a case, and sets of tensors in the memory where functions want them.
#include "bench.h"

#include "reference/naive.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct fill_job {
    const bench_inputs *inputs;
    int tensor;
} fill_job;

static void *fill(void *argument)
{
    const fill_job *job = argument;
    wb_case_fill(job->inputs->problem, &job->inputs->c, &job->inputs->tensor[job->tensor],
                 job->inputs->host[job->tensor]);
    return NULL;
}

// O and L of a backward, by the naive forward, a head at a time: the score matrix of all would often not fit.
static void fill_forward(bench_inputs *in)
{
    enum { Q, K, V, O, L, SINK, COUNT };
    static const char *const names[COUNT] = {"Q", "K", "V", "O", "L", "sink_logits"};
    attention_shape one = in->c.shape;
    const size_t Hq = (size_t)one.q_heads, heads = (size_t)one.batch * Hq, group = (size_t)(one.q_heads / one.kv_heads);
    const int count = in->problem->sink_logits ? COUNT : SINK;
    size_t bytes[COUNT];        // of a head
    void *device[COUNT] = {0};  // no sink logits: null
    char *host[COUNT];
    one.batch = one.q_heads = one.kv_heads = 1;
    for (int k = 0; k < count; k++) {
        const int at = wb_tensor_named(in->tensor, in->count, names[k]);
        host[k] = in->host[at];
        bytes[k] = in->tensor[at].bytes / (k == SINK ? Hq : k == K || k == V ? heads / group : heads);
        bench_must(wb_device_alloc(&device[k], bytes[k]));
    }
    for (size_t h = 0; h < heads; h++) {
        const size_t from[COUNT] = {[Q] = h, [K] = h / group, [V] = h / group, [SINK] = h % Hq};
        for (int k = 0; k < count; k++)
            if (k != O && k != L) bench_must(wb_copy_to_device(device[k], host[k] + from[k] * bytes[k], bytes[k]));
        bench_must(
            naive_gpu_sink_attention(device[O], device[L], device[Q], device[K], device[V], device[SINK], &one, NULL));
        bench_must(wb_device_synchronize());
        for (int k = O; k <= L; k++) bench_must(wb_copy_to_host(host[k] + h * bytes[k], device[k], bytes[k]));
    }
    bench_must(naive_gpu_release());
    for (int k = 0; k < count; k++) bench_must(wb_device_free(device[k]));
}

void bench_inputs_make(bench_inputs *in, const wb_problem *problem, const wb_case *c)
{
    pthread_t thread[WB_MAX_TENSORS];
    fill_job job[WB_MAX_TENSORS];
    bool started[WB_MAX_TENSORS] = {false};
    memset(in, 0, sizeof *in);
    in->problem = problem;
    in->c = *c;
    in->count = wb_case_tensors(problem, c, in->tensor);
    in->block = bench_alloc(wb_exchange_layout(in->tensor, in->count, &(wb_case){0}, 0, in->zone));
    for (int k = 0; k < in->count; k++) {
        in->io_bytes += in->tensor[k].bytes;
        if (in->tensor[k].output) continue;
        in->host[k] = in->block + in->zone[k].start;
        job[k] = (fill_job){in, k};
        started[k] = pthread_create(&thread[k], NULL, fill, &job[k]) == 0;
        if (!started[k]) fill(&job[k]);
    }
    for (int k = 0; k < in->count; k++)
        if (started[k]) pthread_join(thread[k], NULL);
    if (problem->signature == WB_BACKWARD) fill_forward(in);
}

void bench_inputs_free(bench_inputs *in) { free(in->block); }

void bench_set_spoil(const bench_inputs *in, const bench_set *set)
{
    for (int k = 0; k < in->count; k++) {
        if (!in->tensor[k].output) continue;
        if (in->problem->on_host) {
            memset(set->at[k], 0xff, in->tensor[k].bytes);
            continue;
        }
        void *nan = bench_alloc(in->tensor[k].bytes);
        memset(nan, 0xff, in->tensor[k].bytes);
        bench_must(wb_copy_to_device(set->at[k], nan, in->tensor[k].bytes));
        free(nan);
    }
}

void bench_set_make(const bench_inputs *in, bench_set *set)
{
    for (int k = 0; k < in->count; k++) {
        const size_t bytes = in->tensor[k].bytes;
        if (in->problem->on_host) {
            set->at[k] = in->tensor[k].output ? bench_alloc(bytes) : in->host[k];
            continue;
        }
        bench_must(wb_device_alloc(&set->at[k], bytes));
        if (in->host[k]) bench_must(wb_copy_to_device(set->at[k], in->host[k], bytes));
    }
    bench_set_spoil(in, set);
}

void bench_set_free(const bench_inputs *in, bench_set *set)
{
    for (int k = 0; k < in->count; k++) {
        if (!in->problem->on_host)
            bench_must(wb_device_free(set->at[k]));
        else if (in->tensor[k].output)
            free(set->at[k]);
    }
}
