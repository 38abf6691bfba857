#include "worker/run.h"

#include "memory.h"
#include "rank.h"

#include <stdio.h>

// In the check build (cpu/check): what the bytes at `at` are called.
extern void wb_name_buffer(const void *at, const char *name, const char *type, size_t element, const size_t dim[4])
    __attribute__((weak));

// ------------------------ buffers

void *run_address(const wb_case *c, const char *tensor, char *zone, size_t data)
{
    return strcmp(c->null, tensor) == 0 ? NULL : zone + data;
}

// Memory, on the device or from malloc, of which the first `filled` bytes are NaN; with guards of so many bytes.
static wb_status new_memory(bool on_host, void **buffer, size_t bytes, size_t filled, int place, size_t before,
                            size_t behind)
{
    if (wb_place_next && place >= 0) wb_place_next(place);
    if (wb_guard_next && !on_host) wb_guard_next(before, behind);
    if (on_host && posix_memalign(buffer, 256, bytes)) return WB_OUT_OF_MEMORY;
    const wb_status status = on_host ? WB_OK : wb_device_alloc(buffer, bytes);
    if (on_host) memset(*buffer, WB_NAN_BYTE, filled);
    if (on_host || wb_what_was_asked || status != WB_OK)
        return status;  // on the CPU layer all of it is, from the start
    return wb_device_fill(*buffer, WB_NAN_BYTE, filled);
}

// Whether what lies around the `bytes` of a buffer is NaN as it was; says in the exchange if not. of: exchange.h.
static wb_status look_around(wb_exchange *x, bool on_host, const char *buffer, size_t before, size_t bytes,
                             size_t behind, int of)
{
    char *now = malloc((before > behind ? before : behind) + 1);
    wb_status status = now ? WB_OK : WB_OUT_OF_MEMORY;
    for (int after = 0; after < 2 && status == WB_OK && !x->overrun; after++) {
        size_t guard = after ? behind : before;
        const size_t open = on_host || !wb_open_guard ? guard : wb_open_guard(buffer, after);
        guard = open < guard ? open : guard;
        const char *at = buffer + (after ? before + bytes : before - guard);
        if (guard && on_host) memcpy(now, at, guard);
        if (guard && !on_host) status = wb_copy_to_host(now, at, guard);
        now[guard] = (char)WB_NAN_BYTE;
        if (status != WB_OK || memcmp(now, now + 1, guard) == 0) continue;
        size_t i = 0;
        while (now[i] == now[guard]) i++;
        x->overrun = after ? (int64_t)i + 1 : -(int64_t)(guard - i), x->overrun_of = of;
    }
    free(now);
    return status;
}

// Whether nothing may be read behind a tensor of a cache that is cut (case.h): the CPU layer has a guard page there.
static bool ends(const wb_case *c, const wb_tensor *t)
{
    return wb_what_was_asked && (wb_case_cut(c, t) || (c->cut && t->type == WB_INT32));
}

// How many bytes tensor k's buffer has behind it.
static size_t behind(const wb_run *r, int k)
{
    return ends(&r->c, &r->tensors[k]) ? 0 : r->zones[k].bytes - r->zones[k].data - r->tensors[k].bytes;
}

wb_status run_new_buffer(const wb_run *r, int k, bool filled, int place, void **buffer)
{
    const wb_zone *z = &r->zones[k];
    const bool on_host = r->problem->on_host;
    const size_t bytes = z->data + r->bytes[k] + behind(r, k), room = bytes + (bytes == 0);  // a rank may have no rows
    const wb_status status = new_memory(on_host, buffer, room, r->exact ? z->data : bytes, place,
                                        r->exact ? 0 : z->data, r->exact ? 0 : behind(r, k));
    if (status != WB_OK || !filled || r->bytes[k] == 0) return status;
    const char *from = zone_data(r->shared, z);
    char *to = (char *)*buffer + z->data;
    if (!on_host) return wb_copy_to_device(to, from, r->bytes[k]);
    memcpy(to, from, r->bytes[k]);
    return WB_OK;
}

static wb_status make_buffers(wb_run *r)
{
    const wb_case *c = &r->c;
    for (int k = 0; k < r->count; k++) {
        const wb_tensor *t = &r->tensors[k];
        const wb_zone *z = &r->zones[k];
        const int place = c->place && !r->exact && !r->problem->on_host ? k : -1;
        r->bytes[k] = t->bytes - (ends(c, t) ? wb_case_cut(c, t) : 0);
        r->buffers[k] = r->shared + z->start;
        if (r->moved) {
            const wb_status status = run_new_buffer(r, k, !c->dry && !(r->exact && t->output), place, &r->buffers[k]);
            if (status != WB_OK) return status;
        } else {
            memset(r->buffers[k], WB_NAN_BYTE, z->data);
            memset((char *)r->buffers[k] + z->data + t->bytes, WB_NAN_BYTE, behind(r, k));
        }
        r->pointers[k] = run_address(c, t->name, r->buffers[k], z->data);
        if (wb_name_buffer && r->exact && !r->problem->on_host)
            wb_name_buffer((char *)r->buffers[k] + z->data, t->name, wb_type_name(t->type), wb_type_bytes(t->type),
                           t->dim);
    }
    return WB_OK;
}

static wb_status end_buffers(wb_run *r)
{
    const bool on_host = r->problem->on_host, ran = r->x->device_status == WB_OK && !r->c.dry;
    const bool fetched = r->moved && ran && !(r->is_rank && r->x->status == WB_OK);
    wb_status status = WB_OK;
    for (int k = 0; k < r->count && status == WB_OK; k++) {
        const wb_zone *z = &r->zones[k];
        char *const own = (char *)r->buffers[k] + z->data, *const to = zone_data(r->shared, z);
        if (fetched && on_host) memcpy(to, own, r->bytes[k]);
        if (fetched && !on_host) status = wb_copy_to_host(to, own, r->bytes[k]);
        if (ran && status == WB_OK)
            status = look_around(r->x, on_host, r->buffers[k], z->data, r->bytes[k], behind(r, k), k);
        if (r->moved && on_host)
            free(r->buffers[k]);
        else if (r->moved)
            wb_device_free(r->buffers[k]);
    }
    return status;
}

// ------------------------ workspace

// What of a workspace's size may not hang on: how many keys and sequences there are, or ranks.
static size_t least_workspace(const wb_case *c, const wb_ring *ring)
{
    decode_shape shape = wb_decode_shape(c);
    attention_shape whole = c->shape;
    shape.batch = shape.pages = shape.max_pages = 1;
    if (!ring) return wb_under_test.workspace(&shape, NULL);
    wb_ring two = *ring;
    whole.q_len = whole.kv_len = 4 * ((c->shape.q_len - 1) / (2 * ring->ranks) + 1);
    two.rank %= two.ranks = 2;
    return wb_under_test.workspace(&whole, &two);
}

wb_status run_scratch_begin(const wb_case *c, const wb_ring *ring, int place, run_scratch *s)
{
    const decode_shape shape = wb_decode_shape(c);
    wb_workspace *w = &s->given;
    w->bytes = ring ? wb_under_test.workspace(&c->shape, ring) : wb_under_test.workspace(&shape, NULL);
    const size_t guard = s->guard, bytes = (guard + w->bytes + guard + 4095) / 4096 * 4096;
    const wb_status status = w->bytes > (size_t)1 << 48
                                 ? WB_OUT_OF_MEMORY
                                 : new_memory(false, (void **)&s->buffer, guard ? bytes : w->bytes + !w->bytes,
                                              guard ? bytes : 0, place, guard, guard ? bytes - guard - w->bytes : 0);
    if (status == WB_OUT_OF_MEMORY)
        return wb_fail(WB_OUT_OF_MEMORY, "%s_workspace needs %zu bytes of memory, more than there is",
                       wb_under_test.name, w->bytes);
    if (status != WB_OK) return status;
    w->at = s->buffer + guard;
    if (guard && c->prior) {
        const wb_status filled = wb_device_fill(w->at, WB_NAN_BYTE - c->prior, w->bytes);
        if (filled != WB_OK) return filled;
    }
    const size_t dim[4] = {1, 1, 1, w->bytes / 4};
    if (wb_name_buffer && guard == 0 && w->bytes > 0)
        wb_name_buffer(w->at, "workspace", wb_type_name(WB_FLOAT32), 4, dim);
    return WB_OK;
}

static wb_status make_scratch(wb_run *r)
{
    const wb_ring *ring = r->is_rank ? &r->ring : NULL;
    if ((r->problem->signature != WB_DECODE && !r->is_rank) || !wb_under_test.workspace) return WB_OK;
    r->scratch.guard = r->exact ? 0 : WB_GUARD;
    const wb_status status = run_scratch_begin(&r->c, ring, r->c.place && !r->exact ? WB_MAX_TENSORS : -1, &r->scratch);
    if (status != WB_OK) return status;
    wb_workspace *w = &r->scratch.given;
    w->at = run_address(&r->c, "workspace", w->at, 0);
    if (r->c.short_workspace) w->bytes -= w->bytes < 16 ? w->bytes : 16;
    r->pointers[r->count] = w;
    r->x->workspace_bytes = w->bytes;
    r->x->workspace_least = least_workspace(&r->c, ring);
    return WB_OK;
}

static wb_status end_scratch(wb_run *r)
{
    const run_scratch *s = &r->scratch;
    if (!s->buffer) return WB_OK;
    const wb_status status = r->x->device_status != WB_OK
                                 ? WB_OK
                                 : look_around(r->x, false, s->buffer, s->guard, s->given.bytes, s->guard, r->count);
    wb_device_free(s->buffer);
    return status;
}

// ------------------------ the call

// What the function is told of the rank that this process is.
static wb_status join_ring(wb_run *r)
{
    const int stray = r->c.stray;
    const wb_status status = r->is_rank ? wb_rank_join(r->board, r->board_bytes, &r->ring) : WB_OK;
    r->told = r->ring;
    if (strcmp(r->c.null, "comm") == 0) r->told.comm = NULL;
    if (stray == 1) r->told.ranks = 0;
    if (stray > 1) r->told.rank = stray == 2 ? -1 : r->ring.ranks;
    r->pointers[r->count + 1] = run_address(&r->c, "ring", (char *)&r->told, 0);
    return status;
}

// The function, which may not write to the shape: it is the caller's.
static wb_status call(const wb_problem *problem, const wb_case *c, void *const pointers[], wb_stream stream)
{
    const attention_shape given = c->shape;
    const wb_status status = wb_call(problem, wb_under_test.function, c, pointers, stream);
    if (memcmp(&given, &c->shape, sizeof given) == 0) return status;
    return wb_fail(WB_BAD_ARGUMENT, "%s has changed the shape, the caller's const argument", problem->name);
}

// The call that is judged; the one beside it comes before or after.
static wb_status call_all(wb_run *r)
{
    wb_exchange *x = r->x;
    const run_beside *beside = &r->beside;
    const bool two = run_has_beside(r);
    const int mine = two && (r->c.seed + (uint64_t)r->c.shape.batch) % 2;
    x->stage = WB_STAGE_CALLING;
    x->status = WB_OK;
    if (r->is_rank && r->stream && r->c.late == 2) {  // a call with other contents, and then these
        wb_status status = run_inputs_late(r, r->buffers, 2, &r->stream);
        x->status = call(r->problem, &r->c, r->pointers, r->stream);
        if (status == WB_OK) status = run_inputs_late(r, r->buffers, 1, &r->stream);
        if (status != WB_OK) return status;
    }
    if (wb_record_queued && r->is_rank) wb_record_queued(true);
    for (int n = 0; n <= two && x->status == WB_OK; n++) {
        if (two && wb_not_on) wb_not_on(n == mine ? beside->stream : r->stream);
        x->status = n == mine ? call(r->problem, &r->c, r->pointers, r->stream)
                              : call(r->problem, &beside->c, beside->pointers, beside->stream);
    }
    if (two && wb_not_on) wb_not_on(NULL);
    if (wb_record_queued && r->is_rank) wb_record_queued(false);
    if (x->status != WB_OK && *wb_last_message()) snprintf(x->message, sizeof x->message, "%s", wb_last_message());
    if (wb_what_was_asked) x->asked = wb_what_was_asked();
    return WB_OK;
}

static void wait_for_all(wb_run *r)
{
    wb_exchange *x = r->x;
    x->stage = WB_STAGE_WAITING;
    if (r->is_rank && x->status == WB_OK && r->stream) run_inputs_late(r, r->buffers, 1, &r->stream);
    for (int k = 0; r->is_rank && x->status == WB_OK && k < r->count; k++)  // when its stream's work is done, all is
        if (r->bytes[k])
            wb_copy_to_host_behind(zone_data(r->shared, &r->zones[k]), (char *)r->buffers[k] + r->zones[k].data,
                                   r->bytes[k], r->stream);
    if (r->problem->on_host) return;
    x->device_status = wb_device_synchronize();
    if (x->device_status != WB_OK) snprintf(x->device_message, sizeof x->device_message, "%s", wb_last_message());
}

// What was queued is done only when all is waited for.
static void add_what_was_queued(wb_asked *asked)
{
    const wb_asked done = wb_what_was_asked();
    asked->sent = done.sent, asked->kernels += done.kernels, asked->under_messages += done.under_messages;
    asked->messages += done.messages, asked->hidden += done.hidden;
    asked->bare = done.bare, asked->bare_waited = done.bare_waited;
    asked->multiplied += done.multiplied, asked->products += done.products;
    asked->of_first += done.of_first, asked->of_last += done.of_last;
}

// All shared pages were touched when the test filled them; this makes them resident here, before a peak is read.
static void touch_pages(const wb_run *r)
{
    for (int k = 0; k < r->count && !r->c.dry; k++)
        for (size_t i = 0; i < r->tensors[k].bytes; i += 4096)
            (void)*(volatile char *)(zone_data(r->shared, &r->zones[k]) + i);
}

// Between what is prepared and what is released: the call, and the memory that it takes.
static wb_status call_and_count(wb_run *r)
{
    wb_exchange *x = r->x;
    touch_pages(r);
    const size_t host_before = wb_host_memory_peak(), device_before = wb_memory_current();
    wb_memory_reset_peak();
    wb_fail(WB_OK, "%s", "");  // no message of an earlier call
    wb_status status = run_conditions(r, RUN_BEGIN);
    if (wb_what_was_asked) wb_what_was_asked();
    if (status == WB_OK) status = call_all(r);
    if (status != WB_OK) return status;
    wait_for_all(r);
    run_conditions(r, RUN_END);
    if (r->is_rank && x->device_status == WB_OK && (status = wb_rank_leave(&r->ring)) != WB_OK) return status;
    x->attended = r->is_rank ? wb_attended() : 0;
    if (wb_what_was_asked && (r->stream || r->is_rank)) add_what_was_queued(&x->asked);
    const size_t statics = wb_static_memory() > WB_FREE_STATICS ? wb_static_memory() : 0, held = wb_memory_current();
    x->host_bytes = wb_host_memory_peak() - host_before + (r->problem->on_host ? statics : 0);
    x->device_bytes = wb_memory_peak() - device_before + (r->problem->on_host ? 0 : statics);
    x->device_kept = held > device_before ? held - device_before : 0;
    return WB_OK;
}

wb_status wb_run_case(wb_run *r)
{
    r->x = (wb_exchange *)r->shared;
    r->is_rank = wb_has_ranks(r->problem);
    r->moved = !r->problem->on_host || r->exact;
    r->ring = (wb_ring){NULL, r->c.part - 1, r->c.ranks, NULL};
    wb_status status = r->is_rank ? wb_rank_device(r->ring.rank, r->ring.ranks) : WB_OK;
    if (status == WB_OK) status = run_conditions(r, RUN_SET);
    if (wb_open_memory) wb_open_memory(true);
    if (status == WB_OK) status = make_buffers(r);
    if (status == WB_OK) status = make_scratch(r);
    if (wb_open_memory) wb_open_memory(false);
    if (status == WB_OK) status = join_ring(r);
    if (status == WB_OK) status = run_conditions(r, RUN_PREPARE);
    if (status == WB_OK) status = call_and_count(r);
    if (status == WB_OK && r->x->device_status == WB_OK) status = run_conditions(r, RUN_RELEASE);
    if (wb_open_memory) wb_open_memory(true);
    if (status == WB_OK) status = end_scratch(r);
    if (status == WB_OK) status = end_buffers(r);
    if (wb_open_memory) wb_open_memory(false);
    if (status == WB_OK) r->x->stage = WB_STAGE_DONE;
    return status;
}
