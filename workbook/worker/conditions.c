// conditions.c - what a case asks for around a call. `conditions`, below, has a row for each: whether a case asks
// for it, and what is done for it at which moment (run_moment, run.h).
#include "worker/run.h"

#include <sys/resource.h>

// Of OpenBLAS and of OpenMP; null in a worker that has none.
extern void openblas_set_num_threads(int count) __attribute__((weak));
extern void omp_set_num_threads(int count) __attribute__((weak));

// A moment's work that cannot fail.
#define DOES(name, ...) \
    static wb_status name(__attribute__((unused)) wb_run *r) { return __VA_ARGS__, WB_OK; }

// ------------------------ the machine

// How many threads a case may ask for. OpenBLAS tries without end to get a buffer where addresses have run out: each of
// its threads and of ours takes some 200 MB of them.
static int most_threads(void)
{
    struct rlimit addresses;
    getrlimit(RLIMIT_AS, &addresses);
    return (int)fmin(40, 1 + (double)(addresses.rlim_cur >> 29));
}

static bool has_threads(const wb_run *r) { return r->problem->on_host && (r->exact || r->c.processors); }
static wb_status set_threads(wb_run *r)
{
    const int few = 4;  // of an exact run, however few cores there are: a race needs two
    const int count = r->c.processors ? 1 + r->c.processors % most_threads() : few;
    if (openblas_set_num_threads) openblas_set_num_threads(count);
    if (r->c.processors && omp_set_num_threads) omp_set_num_threads(count);
    return WB_OK;
}

static bool on_layer(__attribute__((unused)) const wb_run *r) { return wb_have_processors; }
DOES(set_layer, wb_have_processors(r->c.processors), wb_have_shared_kb(r->c.shared_kb),
     wb_launch_few(r->c.dry ? 0 : ~0u))

// ------------------------ late inputs

wb_status run_inputs_late(const wb_run *r, void *const buffers[], int again, wb_stream *stream)
{
    void *inputs[WB_MAX_TENSORS] = {0};
    size_t bytes[WB_MAX_TENSORS] = {0};
    int n = 0;
    for (int last = 0; last < 2; last++)
        for (int k = 0; k < r->count; k++) {
            const bool travels = strcmp(r->tensors[k].name, "K") == 0 || strcmp(r->tensors[k].name, "V") == 0;
            if (r->tensors[k].output || travels != last) continue;
            inputs[n] = (char *)buffers[k] + r->zones[k].data;
            bytes[n++] = r->bytes[k] + (r->bytes[k] == 0);  // of a rank without rows
        }
    return again ? wb_late_again(inputs, bytes, n, again == 2, *stream) : wb_late_begin(inputs, bytes, n, stream);
}

static bool is_late(const wb_run *r) { return r->c.late && !r->problem->on_host; }
static wb_status prepare_late(wb_run *r) { return run_inputs_late(r, r->buffers, 0, &r->stream); }
static wb_status release_late(wb_run *r) { return wb_late_end(r->stream); }

bool run_has_beside(const wb_run *r) { return r->c.late == 2 && !r->is_rank && !r->problem->on_host; }

static wb_status prepare_beside(wb_run *r)
{
    run_beside *s = &r->beside;
    wb_status status = WB_OK;
    s->c = r->c;
    s->c.shape.scale *= 2;
    for (int k = 0; k < r->count && status == WB_OK; k++) {
        status = run_new_buffer(r, k, true, -1, &s->buffers[k]);
        s->pointers[k] = run_address(&r->c, r->tensors[k].name, s->buffers[k], r->zones[k].data);
    }
    s->pointers[r->count] = &s->scratch.given;
    if (r->scratch.buffer && status == WB_OK) status = run_scratch_begin(&r->c, NULL, -1, &s->scratch);
    return status == WB_OK ? run_inputs_late(r, s->buffers, 0, &s->stream) : status;
}

static wb_status release_beside(wb_run *r)
{
    const wb_status status = wb_late_end(r->beside.stream);
    for (int k = 0; k < r->count; k++) wb_device_free(r->beside.buffers[k]);
    wb_device_free(r->beside.scratch.buffer);
    return status;
}

// ------------------------ watched pages

// Under this mask the keys that queries `from` to `to` see, and what lies in a tile with one of these: bits of spans.
static uint64_t near(const wb_problem *problem, const attention_shape *s, int span, int from, int to)
{
    const int first = from - WB_NEAR + 1, last = to + WB_NEAR - 1;  // queries that may share a tile with these
    const int reach = problem->window && s->window < s->q_len ? s->window : s->q_len;
    const int begin = first - reach + 1 - WB_NEAR + 1, end = last + WB_NEAR;
    const int sinks = s->sinks < s->q_len ? s->sinks : s->q_len;
    const int sinks_end = problem->sinks && sinks > 0 ? sinks + WB_NEAR - 1 : 0;
    uint64_t bits = 0;
    for (int k = 0; k < WB_SPANS; k++)
        if ((k * span < end && k * span + span > begin) || k * span < sinks_end) bits |= (uint64_t)1 << k;
    return bits;
}

// The same from the lists of a mask as data, where the tiles are known.
static uint64_t listed(const block_mask *m, int q_len, int span, int from, int to)
{
    const int q_tiles = (q_len - 1) / m->q_tile + 1;
    uint64_t bits = 0;
    for (int b = 0; b < m->masks; b++)
        for (int t = from / m->q_tile; t <= to / m->q_tile && t < q_tiles; t++)
            for (int part = 0; part < 2; part++) {
                const int *list = part ? m->part : m->whole, *start = part ? m->part_start : m->whole_start;
                const int r = b * (q_tiles + 1) + t;
                for (int k = start[r]; k < start[r + 1]; k++)
                    for (int n = list[k] * m->kv_tile / span; n <= ((list[k] + 1) * m->kv_tile - 1) / span; n++)
                        if (n < WB_SPANS) bits |= (uint64_t)1 << n;
            }
    return bits;
}

// layer_requests.h: keys are not touched by queries that do not see them. Under a causal mask, or one as data; there a
// span is a tile of the keys or some of them, so that nothing but what the lists name is allowed.
static wb_status begin_watch(wb_run *r)
{
    const wb_problem *const problem = r->problem;
    const wb_case *const c = &r->c;
    const wb_tensor *const tensors = r->tensors;
    void *const *const pointers = r->pointers;
    if (problem->signature == WB_DECODE) {
        const wb_watch shares = {.span = 1, .shares = c->processors ? c->processors : 3};  // 3: half of all keys
        wb_watched caches[2];
        for (int k = 0; k < 2; k++) {
            const int n = wb_tensor_named(tensors, r->count, k ? "V" : "K");
            const size_t rows = tensors[n].count / tensors[n].dim[3];
            caches[k] = (wb_watched){pointers[n], tensors[n].bytes, tensors[n].bytes / rows, (int)rows, true};
        }
        wb_watch_pages(&shares, caches, 2);
        return WB_OK;
    }
    const bool backward = wb_is_backward(problem);
    enum { WATCHED = 4 };
    static const char *const which[2][WATCHED] = {{"O", "Q", "K", "V"}, {"Q", "dO", "K", "V"}};
    const attention_shape *s = &c->shape;
    wb_watch watch = {.span = (s->q_len - 1) / WB_SPANS + 1, .both_ways = backward, .on_host = problem->on_host};
    if (problem->signature == WB_BLOCK_MASK) {
        const block_mask *m = &wb_case_mask_of(c)->lists;
        const int longest = s->q_len > s->kv_len ? s->q_len : s->kv_len;
        watch.exact = true;
        watch.span = m->kv_tile * ((longest - 1) / m->kv_tile / WB_SPANS + 1);
        for (int q = 0; q < WB_SPANS; q++)
            watch.near[q] = listed(m, s->q_len, watch.span, q * watch.span, (q + 1) * watch.span - 1);
    }
    for (int q = 0; q < WB_SPANS && !watch.exact; q++)
        watch.near[q] = near(problem, s, watch.span, q * watch.span, q * watch.span + watch.span - 1);
    wb_watched watched[WATCHED];
    for (int number = 0; number < WATCHED; number++) {
        const char *name = which[backward][number];
        const int n = wb_tensor_named(tensors, r->count, name);
        const wb_tensor *t = &tensors[n];
        const bool tiles =
            problem->signature == WB_FP8 && *name == 'V';  // of 64 keys each, as many bytes as that many rows
        const size_t rows = t->dim[2] * (tiles ? WB_FP8_KEYS : 1);
        watched[number] =
            (wb_watched){pointers[n], t->bytes, tiles ? (size_t)s->head_dim : t->bytes / t->count * t->dim[3],
                         (int)rows, strpbrk(name, "KV") != NULL};
    }
    if (problem->on_host && openblas_set_num_threads) openblas_set_num_threads(1);  // one thread, one tile at a time
    wb_watch_pages(&watch, watched, WATCHED);
    return WB_OK;
}

static bool is_watched(const wb_run *r)
{
    const wb_signature takes = r->problem->signature;
    return wb_watch_pages && r->c.watched && (r->c.shape.causal || takes == WB_BLOCK_MASK || takes == WB_DECODE);
}
DOES(end_watch, wb_watch_end())

// ------------------------ what else the layer looks at

// Inputs are constant, where nothing else changes or watches them.
static bool has_constants(const wb_run *r)
{
    return wb_constant && !is_watched(r) && !r->exact && !r->c.late && !r->is_rank && !r->problem->on_host;
}
static wb_status begin_constants(wb_run *r)
{
    for (int k = 0; k < r->count; k++)
        if (!r->tensors[k].output) wb_constant(r->buffers[k]);
    return WB_OK;
}

static bool is_overlapped(const wb_run *r) { return wb_overlap_begin && r->c.overlapped && !r->is_rank; }
DOES(begin_overlap, wb_overlap_begin())
DOES(end_overlap, wb_overlap_end())

static bool has_order(const wb_run *r) { return wb_run_in_order && r->c.order; }
DOES(begin_order, wb_run_in_order(r->c.order))

// The record is the last tensor, behind those of the function, and stays where it is.
static bool has_record(const wb_run *r) { return wb_record_products && r->c.products; }
DOES(begin_record, wb_record_products((float *)zone_data(r->shared, &r->zones[r->count]), (size_t)r->c.products))
DOES(end_record, wb_record_products(NULL, 0))

// ------------------------ the table

static const struct condition {
    bool (*holds)(const wb_run *);
    wb_status (*at[RUN_MOMENTS])(wb_run *);
} conditions[] = {
    {has_threads, {[RUN_SET] = set_threads}},
    {on_layer, {[RUN_SET] = set_layer}},
    {is_late, {[RUN_PREPARE] = prepare_late, [RUN_RELEASE] = release_late}},
    {run_has_beside, {[RUN_PREPARE] = prepare_beside, [RUN_RELEASE] = release_beside}},
    {is_watched, {[RUN_BEGIN] = begin_watch, [RUN_END] = end_watch}},
    {has_constants, {[RUN_BEGIN] = begin_constants}},
    {is_overlapped, {[RUN_BEGIN] = begin_overlap, [RUN_END] = end_overlap}},
    {has_order, {[RUN_BEGIN] = begin_order}},
    {has_record, {[RUN_BEGIN] = begin_record, [RUN_END] = end_record}},
};

wb_status run_conditions(wb_run *r, run_moment when)
{
    enum { COUNT = sizeof conditions / sizeof *conditions };
    wb_status status = WB_OK;
    for (int n = 0; n < COUNT && status == WB_OK; n++) {
        const struct condition *is = &conditions[when >= RUN_END ? COUNT - 1 - n : n];
        if (is->at[when] && is->holds(r)) status = is->at[when](r);
    }
    return status;
}
