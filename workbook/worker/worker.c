// worker.c - a program that holds one implementation of one problem, and calls it. It never judges: the test that
// starts it does, and gives it one case after the other (exchange.h). Run by hand it makes the inputs itself and prints
// what came out:
//
//   build/cpu/problems/03_worker --case B=1,Hq=2,Nq=256,D=64,seed=7    also under gdb, compute-sanitizer, a profiler
//   ... --case A:B              one after the other in one process: does a call leave anything that changes the next?
//   --guard 0 ...               buffers end with their tensors, outputs are left unwritten: for tools that see accesses
//   --count FILE ...            what the layer counts in each case, as a row of that file (layer_requests.h)
//   --record FILE --block 0     what block 0 does with signals, copies and products (cpu/record.cpp), in one case
//   ... --cases list            prints a few small cases, ragged at the edges, one a line (small_cases.h)
//   ... --cases CASE            calls nothing: status 0, or says why: 1 the function has to refuse it, 2 it is no case
//
// Of problems 17 and 18 a worker is a rank. By hand it starts the others, for each case, and prints the whole of what
// they leave.
// --record FILE has what each of them queues then (cpu/queued.cpp).
//
// Compiled once a problem, with WB_NAME as the function's name.
#include "layer_requests.h"
#include "worker/exchange.h"
#include "worker/late_inputs.h"
#include "memory.h"
#include "rank.h"
#include "case/pages.h"
#include "case/shards.h"
#include "case/small_cases.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

// Of OpenBLAS; null in a worker that has none.
extern void openblas_set_num_threads(int count) __attribute__((weak));
extern void omp_set_num_threads(int count) __attribute__((weak));  // of OpenMP

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--guard 0] --case NAME=VALUE,... [--case ...]   for example B=1,Hq=2,Nq=256,D=64,seed=7\n",
            program);
    return 2;
}

// A null pointer where the case asks for one, the tensor's address elsewhere.
static void *address(const wb_case *c, const wb_tensor *tensor, char *zone, size_t data)
{
    return strcmp(c->null, tensor->name) == 0 ? NULL : zone + data;
}

// How many bytes of workspace the function of a WB_DECODE, or of ranks, wants: its companion, WB_NAME with _workspace
// behind it.
extern size_t workspace_of(const void *shape, const wb_ring *ring) __asm__(STRING(WB_NAME) "_workspace")
    __attribute__((weak));

// In the check build (cpu/check): what the bytes at `at` are called.
extern void wb_name_buffer(const void *at, const char *name, const char *type, size_t element, const size_t dim[4])
    __attribute__((weak));

// A buffer for one zone, on the device or, for a problem on the host, from malloc; its first `filled` bytes are those
// of the zone. place: of layer_requests.h, or -1.
static wb_status new_buffer(bool on_host, void **buffer, const char *zone, size_t bytes, size_t filled, int place)
{
    if (wb_place_next && place >= 0) wb_place_next(place);
    const wb_status status = !on_host                             ? wb_device_alloc(buffer, bytes)
                             : posix_memalign(buffer, 256, bytes) ? WB_OUT_OF_MEMORY
                                                                  : WB_OK;
    if (status != WB_OK || filled == 0) return status;
    if (!on_host) return wb_copy_to_device(*buffer, zone, filled);
    memcpy(*buffer, zone, filled);
    return WB_OK;
}

static wb_status end_buffer(bool on_host, void *buffer, char *zone, size_t bytes, bool fetched)
{
    wb_status status = WB_OK;
    if (fetched && on_host) memcpy(zone, buffer, bytes);
    if (fetched && !on_host) status = wb_copy_to_host(zone, buffer, bytes);
    if (on_host)
        free(buffer);
    else
        wb_device_free(buffer);
    return status;
}

// What of a workspace's size may not hang on: how many keys and sequences there are, or ranks.
static size_t least_workspace(const wb_case *c, const wb_ring *ring)
{
    decode_shape shape = wb_decode_shape(c);
    attention_shape whole = c->shape;
    shape.batch = shape.pages = shape.max_pages = 1;
    if (!ring) return workspace_of(&shape, NULL);
    wb_ring two = *ring;
    whole.q_len = whole.kv_len = 4 * ((c->shape.q_len - 1) / (2 * ring->ranks) + 1);
    two.rank %= two.ranks = 2;
    return workspace_of(&whole, &two);
}

// A workspace of as many bytes as its function asks for, `guard` bytes of WB_NAN_BYTE on both sides of them; inside it
// is what the case says.
static wb_status workspace_begin(const wb_case *c, const wb_ring *ring, size_t guard, int place, char **buffer,
                                 wb_workspace *w)
{
    const decode_shape shape = wb_decode_shape(c);
    *w = (wb_workspace){NULL, ring ? workspace_of(&c->shape, ring) : workspace_of(&shape, NULL)};
    const size_t bytes = (guard + w->bytes + guard + 4095) / 4096 * 4096;
    const wb_status status = w->bytes > (size_t)1 << 48 ? WB_OUT_OF_MEMORY
                                                        : new_buffer(false, (void **)buffer, NULL,
                                                                     guard ? bytes : w->bytes + !w->bytes, 0, place);
    if (status == WB_OUT_OF_MEMORY)
        return wb_fail(WB_OUT_OF_MEMORY, "%s needs %zu bytes of memory, more than there is",
                       STRING(WB_NAME) "_workspace", w->bytes);
    if (status != WB_OK) return status;
    w->at = *buffer + guard;
    if (guard && !wb_what_was_asked) {  // on the CPU layer it is so from the start
        const wb_status filled = wb_device_fill(*buffer, WB_NAN_BYTE, bytes);
        if (filled != WB_OK) return filled;
    }
    if (guard && c->prior) {
        const wb_status filled = wb_device_fill(w->at, WB_NAN_BYTE - c->prior, w->bytes);
        if (filled != WB_OK) return filled;
    }
    const size_t dim[4] = {1, 1, 1, w->bytes / 4};
    if (wb_name_buffer && guard == 0 && w->bytes > 0)
        wb_name_buffer(w->at, "workspace", wb_type_name(WB_FLOAT32), 4, dim);
    return WB_OK;
}

// Whether the guards are as they were; says in `x` if not.
static wb_status workspace_end(size_t guard, char *buffer, const wb_workspace *w, wb_exchange *x)
{
    char *now = malloc(guard + 1);
    if (!now) return WB_OUT_OF_MEMORY;
    wb_status status = WB_OK;
    for (int after = 0; after < 2 && x->device_status == WB_OK && !x->workspace_overrun; after++) {
        if (guard) status = wb_copy_to_host(now, buffer + (after ? guard + w->bytes : 0), guard);
        if (status != WB_OK) break;
        for (size_t i = 0; i < guard && !x->workspace_overrun; i++)
            if ((unsigned char)now[i] != WB_NAN_BYTE)
                x->workspace_overrun = after ? (int64_t)i + 1 : -(int64_t)(guard - i);
    }
    free(now);
    wb_device_free(buffer);
    return status;
}

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
static void watch_pages(const wb_problem *problem, const wb_case *c, const wb_tensor *tensors, int count,
                        void *const pointers[])
{
    if (problem->signature == WB_DECODE) {
        const wb_watch shares = {.span = 1, .shares = c->processors ? c->processors : 3};  // 3: half of all keys
        wb_watched caches[2];
        for (int k = 0; k < 2; k++) {
            const int n = wb_tensor_named(tensors, count, k ? "V" : "K");
            const size_t rows = tensors[n].count / tensors[n].dim[3];
            caches[k] =
                (wb_watched){pointers[n], tensors[n].bytes, tensors[n].bytes / rows, (int)rows, true, true, false};
        }
        wb_watch_pages(&shares, caches, 2);
        return;
    }
    const bool backward = wb_is_backward(problem);
    enum { WATCHED = 8, TELL = 4 };
    static const char *const which[2][WATCHED] = {{"O", "Q", "K", "V", "L"},
                                                  {"Q", "dO", "K", "V", "dQ", "delta", "dK", "dV"}};
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
    int number = 0;
    for (; number < (problem->on_host ? TELL : WATCHED) && which[backward][number]; number++) {
        const char *name = which[backward][number];
        const int n = wb_tensor_named(tensors, count, name);
        const wb_tensor *t = &tensors[n];
        const bool tiles =
            problem->signature == WB_FP8 && *name == 'V';  // of 64 keys each, as many bytes as that many rows
        const bool vectors =
            !tiles && t->dim[2] != (size_t)s->q_len && t->dim[2] != (size_t)s->kv_len;  // L and delta [.., N]
        const size_t rows = vectors ? t->dim[3] : t->dim[2] * (tiles ? WB_FP8_KEYS : 1);
        watched[number] = (wb_watched){pointers[n],
                                       t->bytes,
                                       tiles ? (size_t)s->head_dim : t->bytes / t->count * (vectors ? 1 : t->dim[3]),
                                       (int)rows,
                                       strpbrk(name, "KV") != NULL,
                                       number < TELL,
                                       t->output};
    }
    if (problem->on_host && openblas_set_num_threads) openblas_set_num_threads(1);  // one thread, one tile at a time
    wb_watch_pages(&watch, watched, number);
}

// late_inputs.h, for the inputs, K and V last. again: they have arrived before; 2: now with the contents of these two
// swapped.
static wb_status inputs_late(const wb_tensor *tensors, const wb_zone *zones, void *const buffers[], int count,
                             int again, wb_stream *stream)
{
    void *inputs[WB_MAX_TENSORS] = {0};
    size_t bytes[WB_MAX_TENSORS] = {0};
    int n = 0;
    for (int last = 0; last < 2; last++)
        for (int k = 0; k < count; k++) {
            const bool travels = strcmp(tensors[k].name, "K") == 0 || strcmp(tensors[k].name, "V") == 0;
            if (!tensors[k].output && travels == last) inputs[n] = buffers[k], bytes[n++] = zones[k].bytes;
        }
    return again ? wb_late_again(inputs, bytes, n, again == 2, *stream) : wb_late_begin(inputs, bytes, n, stream);
}

// A call beside the one that is judged, on a stream of its own: of tensors like those, at another scale. Nobody looks
// at its results.
typedef struct second_call {
    wb_case c;
    void *buffers[WB_MAX_TENSORS], *pointers[WB_MAX_TENSORS + 1];
    char *workspace_buffer;
    wb_workspace workspace;
    wb_stream stream;
} second_call;

static wb_status second_begin(const wb_case *c, const wb_tensor *tensors, const wb_zone *zones, int count, char *shared,
                              bool has_workspace, second_call *s)
{
    *s = (second_call){.c = *c};
    s->c.shape.scale *= 2;
    wb_status status = WB_OK;
    for (int k = 0; k < count && status == WB_OK; k++) {
        status = new_buffer(false, &s->buffers[k], shared + zones[k].start, zones[k].bytes, zones[k].bytes, -1);
        s->pointers[k] = address(c, &tensors[k], s->buffers[k], zones[k].data);
    }
    s->pointers[count] = &s->workspace;
    if (has_workspace && status == WB_OK) status = workspace_begin(c, NULL, 0, -1, &s->workspace_buffer, &s->workspace);
    return status == WB_OK ? inputs_late(tensors, zones, s->buffers, count, 0, &s->stream) : status;
}

static void second_end(const second_call *s, int count)
{
    wb_late_end(s->stream);
    for (int k = 0; k < count; k++) wb_device_free(s->buffers[k]);
    wb_device_free(s->workspace_buffer);
}

// Whether nothing may be read behind a tensor of a cache that is cut, pages.h: where the CPU layer has a guard page
// behind it.
static bool ends(const wb_case *c, const wb_tensor *t)
{
    return wb_what_was_asked && (wb_case_cut(c, t) || (c->cut && t->type == WB_INT32));
}

// What the function is told of the rank that this process is.
static wb_ring ring_of(const wb_case *c, wb_ring ring)
{
    if (strcmp(c->null, "comm") == 0) ring.comm = NULL;
    if (c->stray == 1) ring.ranks = 0;
    if (c->stray > 1) ring.rank = c->stray == 2 ? -1 : ring.ranks;
    return ring;
}

// The function, which may not write to the shape: it is the caller's.
static wb_status call(const wb_problem *problem, const wb_case *c, void *const pointers[], wb_stream stream)
{
    const attention_shape given = c->shape;
    const wb_status status = wb_call(problem, (wb_function)WB_NAME, c, pointers, stream);
    if (memcmp(&given, &c->shape, sizeof given) == 0) return status;
    return wb_fail(WB_BAD_ARGUMENT, "%s has changed the shape, the caller's const argument", problem->name);
}

// How many threads a case may ask for. OpenBLAS tries without end to get a buffer where addresses have run out: each of
// its threads and of ours takes some 200 MB of them.
static int most_threads(void)
{
    struct rlimit addresses;
    getrlimit(RLIMIT_AS, &addresses);
    return (int)fmin(40, 1 + (double)(addresses.rlim_cur >> 29));
}

// Copies the zones to the device, calls, waits, copies back. Tensors of a problem on the host stay where they are.
// `exact`: they move too, each to a buffer that ends with it, and outputs are not filled, but for what an offset puts
// before them.
static wb_status run(const wb_problem *problem, const wb_case *c, const wb_tensor *tensors, const wb_zone *zones,
                     int count, char *shared, bool exact, wb_exchange *x, void *board, size_t board_bytes)
{
    void *buffers[WB_MAX_TENSORS] = {0}, *pointers[WB_MAX_TENSORS + 2];
    const bool is_rank = wb_has_ranks(problem);
    wb_ring ring = {NULL, c->part - 1, c->ranks, NULL};
    const bool moved = !problem->on_host || exact;
    wb_zone zones_here[WB_MAX_TENSORS];
    memcpy(zones_here, zones, sizeof *zones * (size_t)count);
    wb_status status = is_rank ? wb_rank_device(ring.rank, ring.ranks) : WB_OK;
    if (status != WB_OK) return status;
    if (wb_launch_few && c->dry) wb_launch_few(0);
    if (c->products) count--;  // the last: the record stays where it is
    for (int k = 0; k < count; k++) {
        char *zone = shared + zones[k].start;
        if (moved) {
            if (ends(c, &tensors[k]))
                zones_here[k].bytes = zones[k].data + tensors[k].bytes - wb_case_cut(c, &tensors[k]);
            const size_t filled = c->dry ? 0 : exact && tensors[k].output ? zones[k].data : zones_here[k].bytes;
            const int place = c->place && !exact && !problem->on_host ? k : -1;
            const size_t room = zones_here[k].bytes + (zones_here[k].bytes == 0);  // a rank may have no rows
            status = new_buffer(problem->on_host, &buffers[k], zone, room, filled, place);
            if (status != WB_OK) return status;
            zone = buffers[k];
        }
        pointers[k] = address(c, &tensors[k], zone, zones[k].data);
        if (wb_name_buffer && exact && !problem->on_host) {
            const wb_type type = tensors[k].type;
            wb_name_buffer(zone + zones[k].data, tensors[k].name, wb_type_name(type), wb_type_bytes(type),
                           tensors[k].dim);
        }
    }

    if (exact && problem->on_host && openblas_set_num_threads)
        openblas_set_num_threads(4);  // however few cores there are: a race needs two

    const int threads = problem->on_host && c->processors ? 1 + c->processors % most_threads() : 0;
    if (threads && openblas_set_num_threads) openblas_set_num_threads(threads);
    if (threads && omp_set_num_threads) omp_set_num_threads(threads);
    if (wb_have_processors) wb_have_processors(c->processors), wb_have_shared_kb(c->shared_kb);
    wb_workspace workspace;
    char *workspace_buffer = NULL;
    const size_t workspace_guard = exact ? 0 : WB_GUARD;
    const bool has_workspace = (problem->signature == WB_DECODE || is_rank) && workspace_of;
    if (has_workspace) {
        const int place = c->place && !exact ? WB_MAX_TENSORS : -1;
        status = workspace_begin(c, is_rank ? &ring : NULL, workspace_guard, place, &workspace_buffer, &workspace);
        if (status != WB_OK) return status;
        const wb_tensor scratch = {.name = "workspace"};
        workspace.at = address(c, &scratch, workspace.at, 0);
        if (c->short_workspace) workspace.bytes -= workspace.bytes < 16 ? workspace.bytes : 16;
        pointers[count] = &workspace;
        x->workspace_bytes = workspace.bytes;
        x->workspace_least = least_workspace(c, is_rank ? &ring : NULL);
    }

    wb_stream stream = NULL;
    if (is_rank && (status = wb_rank_join(board, board_bytes, &ring)) != WB_OK) return status;
    const wb_ring given = ring_of(c, ring);
    pointers[count + 1] = strcmp(c->null, "ring") == 0 ? NULL : (void *)&given;
    if (c->late && !problem->on_host && (status = inputs_late(tensors, zones, buffers, count, 0, &stream)) != WB_OK)
        return status;
    second_call beside;
    const bool two = c->late == 2 && !is_rank && !problem->on_host;
    if (two && (status = second_begin(c, tensors, zones, count, shared, has_workspace, &beside)) != WB_OK)
        return status;

    // All shared pages were touched when the test filled them; this makes them resident here, before the peak is read.
    for (int k = 0; k < count && !c->dry; k++)
        for (size_t i = 0; i < zones[k].bytes; i += 4096) (void)*(volatile char *)(shared + zones[k].start + i);
    const size_t host_before = wb_host_memory_peak(), device_before = wb_memory_current();
    wb_memory_reset_peak();
    wb_fail(WB_OK, "%s", "");  // no message of an earlier call

    const bool watched = wb_watch_pages && c->watched &&
                         (c->shape.causal || problem->signature == WB_BLOCK_MASK || problem->signature == WB_DECODE);
    if (watched) watch_pages(problem, c, tensors, count, pointers);
    for (int k = 0; k < count && wb_constant && !watched && !exact && !c->late && !is_rank && !problem->on_host; k++)
        if (!tensors[k].output) wb_constant(buffers[k]);
    const bool overlapped = wb_overlap_begin && c->overlapped && !is_rank;
    if (overlapped) wb_overlap_begin();
    if (wb_run_in_order && c->order) wb_run_in_order(c->order);
    if (wb_record_products && c->products)
        wb_record_products((float *)(shared + zones[count].start + zones[count].data), (size_t)c->products);
    if (wb_what_was_asked) wb_what_was_asked();
    x->stage = WB_STAGE_CALLING;
    x->status = WB_OK;
    if (is_rank && stream && c->late == 2) {  // a call with other contents, and then these
        status = inputs_late(tensors, zones, buffers, count, 2, &stream);
        x->status = call(problem, c, pointers, stream);
        if (status == WB_OK) status = inputs_late(tensors, zones, buffers, count, 1, &stream);
        if (status != WB_OK) return status;
    }
    if (wb_record_queued && is_rank) wb_record_queued(true);
    const int mine = two && (c->seed + (uint64_t)c->shape.batch) % 2;
    for (int n = 0; n <= two && x->status == WB_OK; n++) {
        if (two && wb_not_on) wb_not_on(n == mine ? beside.stream : stream);
        x->status =
            n == mine ? call(problem, c, pointers, stream) : call(problem, &beside.c, beside.pointers, beside.stream);
    }
    if (two && wb_not_on) wb_not_on(NULL);
    if (wb_record_queued && is_rank) wb_record_queued(false);
    if (x->status != WB_OK && *wb_last_message()) snprintf(x->message, sizeof x->message, "%s", wb_last_message());
    if (wb_what_was_asked) x->asked = wb_what_was_asked();
    x->stage = WB_STAGE_WAITING;
    if (is_rank && x->status == WB_OK && stream) inputs_late(tensors, zones, buffers, count, 1, &stream);
    for (int k = 0; is_rank && x->status == WB_OK && k < count; k++)  // when the work on its stream is done, all is
        wb_copy_to_host_behind(shared + zones[k].start, buffers[k], zones_here[k].bytes, stream);
    if (!problem->on_host) {
        x->device_status = wb_device_synchronize();
        if (x->device_status != WB_OK) snprintf(x->device_message, sizeof x->device_message, "%s", wb_last_message());
    }
    if (watched) wb_watch_end();
    if (overlapped) wb_overlap_end();
    if (wb_record_products) wb_record_products(NULL, 0);
    if (is_rank && x->device_status == WB_OK && (status = wb_rank_leave(&ring)) != WB_OK) return status;
    x->attended = is_rank ? wb_attended() : 0;
    if (wb_what_was_asked && (stream || is_rank)) {  // what was queued is done only now
        const wb_asked done = wb_what_was_asked();
        x->asked.sent = done.sent, x->asked.kernels += done.kernels, x->asked.under_messages += done.under_messages;
        x->asked.messages += done.messages, x->asked.hidden += done.hidden;
        x->asked.bare = done.bare, x->asked.bare_waited = done.bare_waited;
        x->asked.multiplied += done.multiplied, x->asked.products += done.products;
        x->asked.of_first += done.of_first, x->asked.of_last += done.of_last;
    }
    const size_t statics = wb_static_memory() > WB_FREE_STATICS ? wb_static_memory() : 0;
    x->host_bytes = wb_host_memory_peak() - host_before + (problem->on_host ? statics : 0);
    x->device_bytes = wb_memory_peak() - device_before + (problem->on_host ? 0 : statics);
    x->device_kept = wb_memory_current() > device_before ? wb_memory_current() - device_before : 0;

    if (two && x->device_status == WB_OK) second_end(&beside, count);
    if (stream && x->device_status == WB_OK && (status = wb_late_end(stream)) != WB_OK) return status;
    if (has_workspace && (status = workspace_end(workspace_guard, workspace_buffer, &workspace, x)) != WB_OK)
        return status;
    for (int k = 0; moved && k < count; k++) {
        const bool fetched = x->device_status == WB_OK && !(is_rank && x->status == WB_OK) && !c->dry;
        status = end_buffer(problem->on_host, buffers[k], shared + zones[k].start, zones_here[k].bytes, fetched);
        if (status != WB_OK) return status;
    }
    x->stage = WB_STAGE_DONE;
    return WB_OK;
}

static float value_at(const wb_tensor *tensor, const char *data, size_t i)
{
    return (float)wb_get(tensor->type, data, i);
}

// One row of an output, eight numbers a line. Zeros at its end, as those that pad a worked example, are not printed.
static void print_row(const char *name, const float *row, size_t width, bool all)
{
    enum { IN_A_LINE = 8 };
    size_t end = width;
    while (end > 1 && row[end - 1] == 0) end--;
    if (end + 2 > width) end = width;  // there are hardly any
    for (size_t i = 0; i < end && (all || i < IN_A_LINE); i++) {
        if (i % IN_A_LINE == 0) printf("%s  %-12s", i ? "\n" : "", i ? "" : name);
        printf(" %10.6f", row[i]);
    }
    printf("%s\n", all && end < width ? "  then 0" : !all && width > IN_A_LINE ? " ..." : "");
}

// For a run by hand: each output by its rows, all of a small one, as a lesson's tables have them.
static void print_outputs(const wb_tensor *tensors, const wb_zone *zones, int count, const char *shared)
{
    enum { SMALL = 768, FIRST_ROWS = 4 };
    for (int k = 0; k < count; k++) {
        const wb_tensor *t = &tensors[k];
        const size_t width = t->dim[3], rows = t->count / width;
        const bool all = t->count <= SMALL;
        // y and dsinks are vectors; L and delta have a number a row of Q, and one dimension less.
        const bool vector = strcmp(t->name, "y") == 0 || strcmp(t->name, "dsinks") == 0;
        const int first = vector ? 3 : strcmp(t->name, "L") == 0 || strcmp(t->name, "delta") == 0;
        const char *data = shared + zones[k].start + zones[k].data;
        float *row = t->output ? malloc(width * sizeof *row) : NULL;
        size_t bad = 0;
        double sum = 0;
        if (!row) continue;
        for (size_t r = 0; r < rows; r++) {
            for (size_t i = 0; i < width; i++) {
                row[i] = value_at(t, data, r * width + i);
                if (isfinite(row[i]))
                    sum += fabsf(row[i]);
                else
                    bad++;
            }
            char name[64];
            int n = snprintf(name, sizeof name, "%s", t->name);
            for (int i = first; i < 3; i++)
                n += snprintf(name + n, sizeof name - (size_t)n, "[%zu]",
                              r / (i < 1 ? t->dim[1] : 1) / (i < 2 ? t->dim[2] : 1) % t->dim[i]);
            if (all || r < FIRST_ROWS) print_row(name, row, width, all);
        }
        printf("  %-12s mean |.| %.6f, NaN or infinite %zu of %zu%s\n", t->name, sum / (double)t->count, bad, t->count,
               all                 ? ""
               : rows > FIRST_ROWS ? ", the first rows above"
                                   : ", the first columns above");
        free(row);
    }
}

// For a run by hand of a backward: O and L, computed from Q, K and V. A test brings those of its oracle instead.
static void fill_forward(const wb_problem *problem, const wb_case *c, const wb_tensor *tensors, const wb_zone *zones,
                         int count, char *shared)
{
    const attention_shape *s = &c->shape;
    const size_t D = (size_t)s->head_dim, N = (size_t)s->q_len;
    const int Q = wb_tensor_named(tensors, count, "Q"), K = Q + 1, V = Q + 2;
    const int O = wb_tensor_named(tensors, count, "O"), L = O + 1;
    const int sinks = wb_tensor_named(tensors, count, "sink_logits");
    char *at[WB_MAX_TENSORS];
    for (int k = 0; k < count; k++) at[k] = shared + zones[k].start + zones[k].data;
    if (s->batch < 1 || s->kv_heads < 1 || s->q_heads % s->kv_heads || s->kv_len != s->q_len || D > WB_MAX_HEAD_DIM)
        return;
    for (size_t row = 0; row < tensors[L].count; row++) {
        const size_t i = row % N, kv_row = row / N / (size_t)(s->q_heads / s->kv_heads) * N;
        const double sink = sinks < 0 ? -INFINITY : value_at(&tensors[sinks], at[sinks], row / N % (size_t)s->q_heads);
        double o[WB_MAX_HEAD_DIM] = {0}, l = 0, m = sink;
        for (int pass = 0; pass < 2; pass++) {  // the maximum, then the sums
            if (pass == 1 && m > -INFINITY) l = exp(sink - m);
            for (size_t j = 0; j < (s->causal ? i + 1 : N); j++) {
                const bool in_window = !problem->window || i - j < (size_t)s->window;
                if (!in_window && !(problem->sinks && (int)j < s->sinks)) continue;
                double dot = 0;
                for (size_t d = 0; d < D; d++)
                    dot += (double)value_at(&tensors[Q], at[Q], row * D + d) *
                           value_at(&tensors[K], at[K], (kv_row + j) * D + d);
                if (pass == 0) {
                    m = fmax(m, s->scale * dot);
                    continue;
                }
                const double p = exp(s->scale * dot - m);
                l += p;
                for (size_t d = 0; d < D; d++) o[d] += p * value_at(&tensors[V], at[V], (kv_row + j) * D + d);
            }
        }
        for (size_t d = 0; d < D; d++) ((uint16_t *)at[O])[row * D + d] = wb_to_bf16((float)(o[d] / l));
        ((float *)at[L])[row] = (float)(m + log(l));
    }
}

// Runs it once, as one worker or rank does. Returns the exit status that the worker deserves.
static int try_run(const wb_problem *problem, const wb_case *c, const wb_tensor *tensors, const wb_zone *zones,
                   int count, char *shared, size_t guard, int board_file)
{
    struct stat board = {.st_size = 0};
    void *at = NULL;
    if (board_file >= 0) {
        if (fstat(board_file, &board) == 0)
            at = mmap(NULL, (size_t)board.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, board_file, 0);
        close(board_file);
        if (!at || at == MAP_FAILED) return fprintf(stderr, "worker: no board: %s\n", strerror(errno)), 3;
    }
    const wb_status status =
        run(problem, c, tensors, zones, count, shared, guard == 0, (wb_exchange *)shared, at, (size_t)board.st_size);
    if (at) munmap(at, (size_t)board.st_size);
    if (status == WB_OK) return 0;
    fprintf(stderr, "worker: %s: %s\n", wb_status_text(status),
            wb_last_message());  // the machinery failed, not the student
    return 3;
}

// A rank of a run by hand.
typedef struct rank_process {
    pid_t pid;  // 0: it has ended
    wb_case c;
    wb_tensor tensors[WB_MAX_TENSORS];
    wb_zone zones[WB_MAX_TENSORS];
    size_t bytes;
    char *memory;
} rank_process;

// Inputs of the whole to the rank, or its outputs home.
static void copy_part(const rank_process *rank, const wb_case *c, const wb_tensor *tensors, const wb_zone *zones,
                      int count, char *shared, bool outputs)
{
    for (int k = 0; k < count; k++)
        if (tensors[k].output == outputs)
            wb_shard_copy(c, &tensors[k], shared + zones[k].start + zones[k].data, rank->c.part - 1,
                          rank->memory + rank->zones[k].start + rank->zones[k].data, outputs);
}

// By hand: starts a process for each rank, cuts and joins. The first that ends badly ends all.
static int run_ranks(const wb_problem *problem, const wb_case *c, const wb_tensor *tensors, const wb_zone *zones,
                     int count, char *shared, size_t guard)
{
    static rank_process ranks[WB_MOST_RANKS];
    int status = 0;
    char name[] = "/tmp/workbook-XXXXXX";
    const int board = mkstemp(name);
    if (board < 0 || unlink(name) || ftruncate(board, (off_t)wb_board_room(problem, c, tensors)))
        return fprintf(stderr, "a board: %s\n", strerror(errno)), 3;
    for (int r = 0; r < c->ranks; r++) {
        rank_process *rank = &ranks[r];
        rank->c = *c, rank->c.part = r + 1;
        wb_case_tensors(problem, &rank->c, rank->tensors);
        rank->bytes = wb_exchange_layout(rank->tensors, count, c, guard, rank->zones);
        rank->memory = mmap(NULL, rank->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (rank->memory == MAP_FAILED) return fprintf(stderr, "%zu bytes: %s\n", rank->bytes, strerror(errno)), 3;
        memset(rank->memory, WB_NAN_BYTE, rank->bytes);
        memset(rank->memory, 0, sizeof(wb_exchange));
        copy_part(rank, c, tensors, zones, count, shared, false);
        fflush(NULL);
        rank->pid = fork();
        if (rank->pid < 0) return perror("fork"), 3;
        if (rank->pid == 0) {
            const int ended = try_run(problem, &rank->c, rank->tensors, rank->zones, count, rank->memory, guard, board);
            fflush(NULL);
            _exit(ended);
        }
    }
    for (int left = c->ranks, ended; left && status == 0; left--) {
        const pid_t who = wait(&ended);
        int r = 0;
        while (r < c->ranks - 1 && ranks[r].pid != who) r++;
        ranks[r].pid = 0;
        status = WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
        if (status) fprintf(stderr, "rank %d ended with %d\n", r, status);
    }
    for (int r = 0; r < c->ranks; r++) {
        if (ranks[r].pid) kill(ranks[r].pid, SIGKILL);
        wb_exchange *x = (wb_exchange *)shared;
        const wb_exchange *y = (const wb_exchange *)ranks[r].memory;
        const uint64_t sent = r ? x->asked.sent : 0;  // by those before
        if (r == 0 || (x->status == WB_OK && x->device_status == WB_OK)) *x = *y;
        x->asked.sent = sent + y->asked.sent;
        copy_part(&ranks[r], c, tensors, zones, count, shared, true);
        printf("rank %d: %d rows; %llu bytes sent, %u of %u kernels overlapped with messages\n", r, wb_rank_rows(c, r),
               (unsigned long long)y->asked.sent, y->asked.under_messages, y->asked.kernels);
        munmap(ranks[r].memory, ranks[r].bytes);
    }
    return status;
}

static FILE *counts;  // --count: a row a case, read by score/next.c

// Runs a case: on the memory in this file, or by hand, without one. Returns the exit status that the worker deserves.
static int try_case(const wb_problem *problem, const char *text, int file, int board, size_t guard)
{
    wb_case c;
    if (wb_case_parse(problem, text, &c) != WB_OK) {
        fprintf(stderr, "%s\n", wb_last_message());
        return 2;
    }
    const bool by_hand = file < 0;
    if (by_hand && wb_has_ranks(problem)) c.part = 0;
    wb_tensor tensors[WB_MAX_TENSORS];
    wb_zone zones[WB_MAX_TENSORS];
    const int count = wb_case_tensors(problem, &c, tensors);
    const size_t bytes = wb_exchange_layout(tensors, count, &c, guard, zones);
    char *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, by_hand ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
    if (!by_hand) close(file);
    if (shared == MAP_FAILED) {
        fprintf(stderr, "%zu bytes for this case: %s\n", bytes, strerror(errno));
        return 2;
    }
    if (by_hand) {
        memset(shared, WB_NAN_BYTE, bytes);
        memset(shared, 0, sizeof(wb_exchange));
        for (int k = 0; k < count; k++)
            if (!tensors[k].output) wb_case_fill(problem, &c, &tensors[k], shared + zones[k].start + zones[k].data);
        if (wb_is_backward(problem)) fill_forward(problem, &c, tensors, zones, count, shared);
    }

    wb_exchange *x = (wb_exchange *)shared;
    const int status = by_hand && wb_has_ranks(problem)
                           ? run_ranks(problem, &c, tensors, zones, count, shared, guard)
                           : try_run(problem, &c, tensors, zones, count, shared, guard, board);
    if (status) return status;
    const wb_asked *a = &x->asked;
    if (counts)
        fprintf(counts, "%llu\t%llu\t%llu\t%llu\n", (unsigned long long)a->blocks, (unsigned long long)a->multiplied,
                (unsigned long long)a->products, (unsigned long long)a->sent);
    if (by_hand) {
        char printed[WB_CASE_TEXT];
        wb_case_print(problem, &c, printed);
        printf("%s on %s\n%s\n", problem->name, problem->on_host ? "this CPU" : wb_device_name(), printed);
        printf("returned: %s%s%s\n", wb_status_text(x->status), x->status == WB_OK ? "" : ": ", x->message);
        if (x->device_status != WB_OK) printf("device: %s\n", x->device_message);
        if (x->status == WB_OK && x->device_status == WB_OK) print_outputs(tensors, zones, count, shared);
        printf("memory beyond the tensors: device %.1f KiB, host %.1f KiB\n", (double)x->device_bytes / 1024,
               (double)x->host_bytes / 1024);
        if (x->device_kept) printf("of which device memory not freed: %.1f KiB\n", (double)x->device_kept / 1024);
    }
    munmap(shared, bytes);
    return 0;
}

// Of a worker that counts what runs coverage.c has another.
__attribute__((weak)) void coverage_write(void) {}

// For a test: case after case, until there are no more.
static int serve(const wb_problem *problem, int socket, size_t guard)
{
    char text[WB_CASE_TEXT];
    int board;
    for (int served = 0, file; (file = wb_exchange_receive(socket, text, &board)) >= 0; served++) {
        const int status = try_case(problem, text, file, board, guard);
        if (status) return status;
        fflush(NULL);  // what was printed belongs to this case
        coverage_write();
        wb_exchange_answer(socket, served);
    }
    return 0;
}

// Whether a case is one that can be asked of the function, without asking it.
static int tell_case(const wb_problem *problem, const char *text)
{
    wb_case c;
    const bool is_one = wb_case_parse(problem, text, &c) == WB_OK;
    if (is_one && wb_case_is_valid(problem, &c)) return 0;
    fprintf(stderr, "%s\n", wb_last_message());
    return is_one ? 1 : 2;
}

int main(int argc, char **argv)
{
    const wb_problem *problem = wb_find_problem(STRING(WB_NAME));
    size_t guard = WB_GUARD;
    const char *record = NULL;
    long block = 0;
    if (wb_play_strictly) wb_play_strictly();
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) return usage(argv[0]);
        if (strcmp(argv[i], "--exchange") == 0) return serve(problem, atoi(argv[i + 1]), guard);
        if (strcmp(argv[i], "--record") == 0)
            record = argv[i + 1];
        else if (strcmp(argv[i], "--block") == 0)
            block = atol(argv[i + 1]);
        else if (strcmp(argv[i], "--count") == 0) {
            if (!(counts = fopen(argv[i + 1], "w"))) return perror(argv[i + 1]), 2;
            fprintf(counts, "blocks\tmultiplied\tproducts\tsent\n");
        } else if (strcmp(argv[i], "--guard") == 0)
            guard = (size_t)atol(argv[i + 1]);
        else if (strcmp(argv[i], "--cases") == 0) {
            if (strcmp(argv[i + 1], "list")) return tell_case(problem, argv[i + 1]);
            wb_small_cases_print(problem);
            return 0;
        } else if (strcmp(argv[i], "--case"))
            return usage(argv[0]);
    }
    int status = 0, cases = 0;
    if (record && !wb_record_begin) {
        fprintf(stderr, "%s: only the CPU execution layer records a block or a rank: use BACKEND=cpu\n", argv[0]);
        return 2;
    }
    if (record && !wb_record_begin(record, wb_has_ranks(problem) ? -1 : block)) return perror(record), 2;
    for (int i = 1; i < argc; i += 2) {
        char *rest = strcmp(argv[i], "--case") == 0 ? argv[i + 1] : NULL, *text;
        while (status == 0 && (text = strsep(&rest, ":"))) cases++, status = try_case(problem, text, -1, -1, guard);
    }
    if (cases == 0)
        status = try_case(problem,
                          problem->signature == WB_ROW_SUM  ? "rows=4,cols=100"
                          : problem->signature == WB_DECODE ? "B=2,Hq=2,Nq=1,Nk=100,D=64"
                          : wb_has_ranks(problem)           ? "B=1,Hq=2,Nq=100,D=64,causal=1,ranks=2"
                                                            : "B=1,Hq=2,Nq=100,D=64",
                          -1, -1, guard);
    return record && !wb_record_end() ? 2 : status;
}
