// warp.cpp - shuffles, votes, reductions and calls of a whole warp. The last lane that arrives does the work for all.
#include "engine.h"

namespace cudacpu
{
const char *operation_name(warp_operation operation)
{
#define NAME(operation, name) name,
    static const char *const names[] = {CUDACPU_WARP_OPERATIONS(NAME)};
    return names[operation];
}

// ------------------------ the work, once all are there
// `lanes` are those that take part: the mask without lanes that have returned from the kernel.

// for (unsigned lane : each(lanes)) runs over the bits of a mask, lowest first.
struct each {
    unsigned left;
    explicit each(unsigned lanes) : left(lanes) {}
    each begin() const { return *this; }
    each end() const { return each(0); }
    bool operator!=(each other) const { return left != other.left; }
    void operator++() { left &= left - 1; }
    unsigned operator*() const { return __builtin_ctz(left); }
};

// The lane that lane `own` reads from: itself, if the shuffle leads out of its part of the warp.
static int source_lane(const warp_request &r, int own)
{
    const int first = own & ~(r.width - 1), last = first + r.width - 1;
    const unsigned by = r.argument;
    switch (r.operation) {
    case SHUFFLE: return first + (r.argument & (r.width - 1));
    case SHUFFLE_UP: return by <= unsigned(own - first) ? own - r.argument : own;
    case SHUFFLE_DOWN: return by <= unsigned(last - own) ? own + r.argument : own;
    default: return (own ^ r.argument) >= 0 && (own ^ r.argument) <= last ? own ^ r.argument : own;
    }
}

static void shuffle(block &b, warp &w, unsigned lanes)
{
    for (unsigned lane : each(lanes)) {
        thread &me = w.threads[lane];
        const int source = source_lane(me.request, lane);
        if (!(lanes >> source & 1)) {
            b.running = &me;
            char absent[120];
            lane_list(me.request.mask & ~lanes, absent, sizeof absent);
            report("absent lane", me.site,
                   "%s: lane %u reads from lane %d, which is not in the mask%s%s%s: the value "
                   "is undefined",
                   operation_name(me.request.operation), lane, source, *absent ? " or, as lanes " : "", absent,
                   *absent ? " of it, has returned or does not exist" : "");
        }
        me.request.result = w.threads[source].request.value;
    }
}

static uint64_t vote(const warp &w, unsigned lanes, warp_operation operation)
{
    unsigned yes = 0;
    for (unsigned lane : each(lanes))
        if (w.threads[lane].request.value) yes |= 1u << lane;
    return operation == BALLOT ? yes : operation == ANY ? yes != 0 : yes == lanes;
}

static uint32_t combine(warp_operation operation, uint32_t x, uint32_t y)
{
    const int32_t a = int32_t(x), c = int32_t(y);
    switch (operation) {
    case MIN_INT: return a < c ? x : y;
    case MAX_INT: return a > c ? x : y;
    case MIN_UNSIGNED: return x < y ? x : y;
    case MAX_UNSIGNED: return x > y ? x : y;
    case AND_BITS: return x & y;
    case OR_BITS: return x | y;
    case XOR_BITS: return x ^ y;
    default: return x + y;  // unsigned, so that an overflow wraps
    }
}

static uint64_t reduce(const warp &w, unsigned lanes, warp_operation operation)
{
    uint32_t total = w.threads[__builtin_ctz(lanes)].request.value;
    for (unsigned lane : each(lanes & (lanes - 1))) total = combine(operation, total, w.threads[lane].request.value);
    return total;
}

static void call(warp &w, unsigned lanes, const warp_request &any)
{
    void *pointers[WARP];
    int count = 0;
    for (unsigned lane : each(lanes))
        pointers[count++] = reinterpret_cast<void *>(uintptr_t(w.threads[lane].request.value));
    any.function(pointers, count);
}

static void perform(block &b, warp &w, unsigned lanes, const warp_request &any)
{
    uint64_t result = 0;
    switch (any.operation) {
    case SYNC_WARP: return;
    case SHUFFLE:
    case SHUFFLE_UP:
    case SHUFFLE_DOWN:
    case SHUFFLE_XOR: shuffle(b, w, lanes); return;
    case CALL: call(w, lanes, any); return;
    case BALLOT:
    case ANY:
    case ALL: result = vote(w, lanes, any.operation); break;
    default: result = reduce(w, lanes, any.operation); break;
    }
    for (unsigned lane : each(lanes)) w.threads[lane].request.result = result;
}

// ------------------------ arriving, leaving

// If everybody whom `any`, a waiting lane, waits for has come, does the work and makes them all ready. Lanes that came
// with another mask or operation count as absent; if they never part, the scheduler reports it.
static bool complete(block &b, warp &w, const thread &any)
{
    const unsigned lanes = any.request.mask & w.all & ~w.exited;
    if (lanes & ~w.waiting) return false;
    for (unsigned lane : each(lanes)) {
        const warp_request &r = w.threads[lane].request;
        if (r.operation != any.request.operation || r.mask != any.request.mask || r.function != any.request.function)
            return false;
    }
    perform(b, w, lanes, any.request);
    hook_warp(b, w, lanes, any.request.operation);
    if (any.request.operation == SYNC_WARP) engine_warp(b, w, lanes);
    w.waiting &= ~lanes;
    w.ready |= lanes;
    return true;
}

// The lane has said in its request what it came for. The last one to come completes.
static inline uint64_t arrive(thread &me)
{
    block &b = *current;
    warp &w = warp_of(b, me);
    w.waiting |= lane_bit(me);
    if (!(me.request.mask & w.all & ~w.exited & ~w.waiting) && complete(b, w, me))
        w.ready &= ~lane_bit(me);  // runs on
    else
        give_way(b);
    return me.request.result;
}

uint64_t warp_wait(warp_operation operation, unsigned mask, uint64_t value, int argument, int width, call_site site)
{
    if (!current || !current->running) report_on_host(operation_name(operation), site);
    thread &me = *current->running;
    me.code = __builtin_return_address(0);
    if (!(mask & lane_bit(me)))
        report("lane not in its own mask", site, "%s: lane %u calls with mask 0x%08x", operation_name(operation),
               me.number % WARP, mask);
    if (width < 1 || width > WARP || (width & (width - 1)))
        report("bad width", site, "%s: width %d is not a power of two up to 32", operation_name(operation), width);
    me.site = site;
    me.request = {operation, mask, argument, width, value, 0, nullptr};
    return arrive(me);
}

void warp_call(void (*f)(void **, int), void *mine, call_site site)
{
    thread &me = running_thread("an operation of the whole warp", site);
    me.code = __builtin_return_address(0);
    me.site = site;
    me.request = {CALL, 0xffffffffu, 0, WARP, address_of(mine), 0, f};
    arrive(me);
}

void thread_left_warp(block &b, thread &t)
{
    warp &w = warp_of(b, t);
    for (unsigned lane : each(w.waiting))
        if (w.waiting >> lane & 1) complete(b, w, w.threads[lane]);
}
}
