// bench_quantise.c - what the time of 16 leaves out: how long wb_quantise_fp8_inputs takes to make its inputs from bf16.
#include "bench.h"

#include "timer.h"

#include <stdlib.h>

enum { RUNS = 11, WARM_UPS = 2 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantise(const bench_inputs *in, const bench_set *set, bool hadamard, double *gb_per_s)
{
    enum { O, L, Q8, K8, V8, Q_EXPONENT, K_EXPONENT, V_EXPONENT };  // as 16's function takes them
    const attention_shape *s = &in->c.shape;
    const size_t heads[] = {(size_t)s->q_heads, (size_t)s->kv_heads, (size_t)s->kv_heads};
    void *x[3];
    size_t elements = 0;
    double ms[RUNS];
    for (int k = 0; k < 3; k++) {  // zeros: what is quantised changes nothing of the time
        const size_t count = (size_t)s->batch * heads[k] * (size_t)(k ? s->kv_len : s->q_len) * (size_t)s->head_dim;
        void *zeros = calloc(count, sizeof(uint16_t));
        bench_must(zeros ? wb_device_alloc(&x[k], count * sizeof(uint16_t)) : WB_OUT_OF_MEMORY);
        bench_must(wb_copy_to_device(x[k], zeros, count * sizeof(uint16_t)));
        free(zeros);
        elements += count;
    }
    for (int run = -WARM_UPS; run < RUNS; run++) {
        bench_must(wb_timer_start());
        bench_must(wb_quantise_fp8_inputs(set->at[Q8], set->at[K8], set->at[V8], set->at[Q_EXPONENT],
                                          set->at[K_EXPONENT], set->at[V_EXPONENT], x[0], x[1], x[2], hadamard, s,
                                          NULL));
        bench_must(wb_timer_stop(&ms[run < 0 ? 0 : run]));
    }
    for (int k = 0; k < 3; k++) bench_must(wb_device_free(x[k]));
    qsort(ms, RUNS, sizeof *ms, by_value);
    *gb_per_s = 3.0 * (double)elements / ms[RUNS / 2] * 1e-6;
    return ms[RUNS / 2];
}
