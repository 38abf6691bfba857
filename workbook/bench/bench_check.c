// bench_check.c - what is timed is right: the judge of the suites, at the very shape, on as many rows as its budget
// allows.
#include "bench.h"

#include "judge/expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double BUDGET = 5e7, DEVICE_BUDGET = 1e9;  // multiplications of the oracle: see expect_budget

struct bench_wanted {
    expected of[WB_MAX_TENSORS];  // outputs alone
};

bench_wanted *bench_wanted_make(const bench_inputs *in)
{
    bench_wanted *wanted = bench_alloc(sizeof *wanted);
    worker_run run = {.problem = in->problem, .c = in->c, .count = in->count, .original = in->block};
    memset(wanted, 0, sizeof *wanted);
    memcpy(run.tensors, in->tensor, sizeof run.tensors);
    memcpy(run.zones, in->zone, sizeof run.zones);
    expect_budget = wb_timer_available() ? DEVICE_BUDGET : BUDGET;
    expect_outputs(&run, wanted->of);
    return wanted;
}

void bench_wanted_free(bench_wanted *wanted)
{
    for (int k = 0; k < WB_MAX_TENSORS; k++) free(wanted->of[k].want), free(wanted->of[k].tolerance);
    free(wanted);
}

wb_status bench_wanted_compare(const bench_wanted *wanted, const bench_inputs *in, void *const pointers[],
                               double *max_error)
{
    wb_status verdict = WB_OK;
    *max_error = 0;
    for (int k = 0; k < in->count; k++) {
        const wb_tensor *tensor = &in->tensor[k];
        const expected *e = &wanted->of[k];
        if (!tensor->output) continue;
        void *got = in->problem->on_host ? pointers[k] : bench_alloc(tensor->bytes);
        const wb_status status = got == pointers[k] ? WB_OK : wb_copy_to_host(got, pointers[k], tensor->bytes);
        if (status != WB_OK) verdict = status;
        for (size_t i = 0; status == WB_OK && i < tensor->count; i++) {
            const double value = wb_get(tensor->type, got, i), error = fabs(value - e->want[i]);
            const bool judged = !isinf(e->tolerance[i]) && isfinite(e->want[i]);
            if (judged && !(error <= *max_error)) *max_error = isnan(*max_error) ? NAN : error;
            if (verdict == WB_OK && !expected_is(e, i, value))
                verdict = wb_fail(WB_BAD_ARGUMENT, "%s[%zu] = %g, but the oracle has %g +- %.2g", tensor->name, i,
                                  value, e->want[i], e->tolerance[i]);
        }
        if (got != pointers[k]) free(got);
    }
    return verdict;
}
