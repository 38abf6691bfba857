// flight.cpp - see flight.h.
#include "flight.h"

#include <map>

namespace cudacpu
{
bool flying;

enum { CELL = 2 };  // bytes; a cell is the smallest thing that a kernel reads or writes, but for int8

struct touched_page {  // by a kernel: where it was read first, and where it was written first, or null
    const char *read, *write;
};

struct work {
    long order;  // of the host's calls
    int stream;  // whose number `number` it is
    long number;
    flight_clock before;  // what is over when it begins
    std::string name;     // "merge_kernel", "cudaMemcpyAsync()"; empty: messages
    call_site site;
    std::function<void()> run;
    bool is_kernel, ran, over;  // over: of messages, that they have arrived
    bool counts;                // of a kernel
    wb_held held;               // by a kernel that counts
    int group;                  // of messages
    size_t message;             // their number among all
    std::vector<flight_range> ranges;
    std::map<char *, touched_page> pages;  // of a kernel
    flight_row *row;                       // where somebody draws it
    bool is_message() const { return group >= 0; }
};

static flight_clock clocks[STREAMS + 1];
static std::vector<work *> &live = *new std::vector<work *>;  // in the order of the host's calls
static work *running;                                         // a kernel
static bool opened;                                           // device memory, for the kernels of one wait of the host
static long calls;
static unsigned kernels, under_messages, messages, hidden;
static bool some_count, next_counts;  // wb_count_next
static double next_flops;
static wb_held next_held;

struct sent_group {  // of messages
    int stream;
    long number;
    bool hidden, followed, waited;  // kernels that count: one may run under it; is behind it; the first there waits
};
static std::vector<sent_group> &groups = *new std::vector<sent_group>;  // since this is a rank

struct event_wait {
    long order;  // of the host's calls: how many were queued before
    int stream;
    flight_clock event;
    void *code, *recorded;  // null: it never was
};
static std::vector<event_wait> &waits = *new std::vector<event_wait>;

static bool covers(const flight_clock &c, const work &w) { return c.at[w.stream] >= w.number; }
static bool unordered(const work &a, const work &b)
{
    return &a != &b && (a.order < b.order ? !covers(b.before, a) : !covers(a.before, b));
}
static void join(flight_clock &a, const flight_clock &b) { raise(a.at, b.at, STREAMS); }

// ------------------------ what is a hazard

std::string flight_peer(int peer) { return peer < 0 ? "the other ranks" : "rank " + std::to_string(peer); }

static std::string called(const work &w)
{
    return w.is_kernel ? w.name + ", launched at " + leaf(w.site) + "," : w.name + " at " + leaf(w.site);
}

static const char freed[] = "the memory may be freed first: free it on a stream that waits for this operation";
static bool frees(const work &w) { return w.name == "cudaFreeAsync()"; }
static const char *does(const work &w, bool write) { return frees(w) ? "frees" : write ? "writes" : "reads"; }
static const char *is_to_do(const work &w, bool write)
{
    return frees(w) ? "have to free" : write ? "have to write" : "be reading";
}

// What the stream of the later of two waits for, where it waits at all: too late, for nothing, or for what is earlier.
static void report_waits(const work &first, const work &second)
{
    const event_wait *early = nullptr, *late = nullptr;
    for (const event_wait &w : waits) {
        if (w.stream != second.stream) continue;
        if (w.order <= second.order) early = &w;
        if (w.order > second.order && !late && covers(w.event, first)) late = &w;
    }
    if (!early && !late) return;
    report_line(
        "%s",
        late ? "it does so, but only after the later operation was queued:"
        : early->recorded
            ? "the latest event that it waits for was recorded too early, or on another stream, or is another one:"
            : "the event that it waits for was never recorded, so it waits for nothing:");
    report_code(late ? late->code : early->recorded ? early->recorded : early->code);
}

// `w`, a kernel or a copy, touches what a message has; or both are messages.
[[noreturn]] static void report_message(const work &w, const work &message, const flight_range &r, const char *at,
                                        bool write, void *code)
{
    const bool later = w.order > message.order;
    const std::string who = called(w), peer = flight_peer(r.peer);
    char place[96];
    snprintf(place, sizeof place, "byte %td of the %zu that", at - r.at, r.bytes);
    report_begin(r.write
                     ? (later ? "a buffer was touched before it arrived" : "a message overwrites what is still needed")
                     : (later ? "a send buffer was overwritten in flight" : "a message is sent before it is written"));
    report_line("%s %s%s %s %s at %s %s %s", who.c_str(), later ? "" : "may still ",
                later ? does(w, write) : is_to_do(w, write), place, r.call, leaf(r.site),
                r.write ? "receives from" : "sends to", peer.c_str());
    bool other = false;  // it is another buffer, or so it seems
    for (const flight_range &x : w.ranges) {
        const ptrdiff_t begins = x.at - r.at, ends = begins + ptrdiff_t(x.bytes) - ptrdiff_t(r.bytes);
        if (other || frees(w) || at < x.at || at >= x.at + x.bytes || begins == 0 || (begins > 0 && ends <= 0))
            continue;
        report_line("its %zu bytes begin %td bytes %s those of the message: do two buffers of a workspace overlap?",
                    x.bytes, std::abs(begins), begins > 0 ? "behind" : "before");
        other = true;
    }
    report_line("%s%s", other ? "if not, " : "",
                later      ? "this operation's stream must wait, by cudaStreamWaitEvent(), for an event recorded after "
                             "the message"
                : frees(w) ? freed
                           : "the message's stream must wait, by cudaStreamWaitEvent(), for an event recorded after "
                             "this operation");
    if (!frees(w)) later ? report_waits(message, w) : report_waits(w, message);
    report_place(later ? w.site : r.site);
    if (code) report_code(code);
    report_end();
}

[[noreturn]] static void report_works(const work &a, const work &b, bool a_writes, bool b_writes, void *code)
{
    const work &first = a.order < b.order ? a : b, &second = a.order < b.order ? b : a;
    const bool writes = a.order < b.order ? b_writes : a_writes, wrote = a.order < b.order ? a_writes : b_writes;
    report_begin("two operations are not in order");
    report_line("%s %s memory that %s %s on another stream", called(second).c_str(), does(second, writes),
                called(first).c_str(),
                frees(first) ? "has freed"
                : wrote      ? "may not have written yet"
                             : "may still be reading");
    report_line(frees(first) ? freed
                             : "the later operation's stream must wait, by cudaStreamWaitEvent(), for an event "
                               "recorded after the earlier one");
    if (!frees(first)) report_waits(first, second);
    report_place(second.site);
    if (code) report_code(code);
    report_end();
}

bool meets(const flight_range &a, const flight_range &b)
{
    return (a.write || b.write) && a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

// Where a page that was touched there first was touched in a range, as far as it is known; null: nowhere.
static const char *in_range(const char *first, const char *page, const char *from, const char *to)
{
    const bool inside = (page >= from && page + page_size() <= to) || (first >= from && first < to);
    return first && inside ? first : nullptr;
}

// Whether a kernel has a touch in a range that minds.
static const char *touched_in(const work &k, const flight_range &r, bool &write)
{
    for (auto p = k.pages.lower_bound(page_of(r.at)); p != k.pages.end() && p->first < r.at + r.bytes; ++p) {
        const char *wrote = in_range(p->second.write, p->first, r.at, r.at + r.bytes);
        const char *read = r.write ? in_range(p->second.read, p->first, r.at, r.at + r.bytes) : nullptr;
        write = wrote != nullptr;
        if (wrote || read) return wrote ? wrote : read;
    }
    return nullptr;
}

// A message or a copy is queued: does it meet what is known of others?
static void check_ranges(const work &w)
{
    for (const flight_range &r : w.ranges)
        for (const work *o : live) {
            if (!unordered(w, *o)) continue;
            bool write = false;
            if (const char *at = o->is_kernel && o->ran ? touched_in(*o, r, write) : nullptr) {
                if (w.is_message()) report_message(*o, w, r, at, write, nullptr);
                report_works(*o, w, write, r.write, nullptr);
            }
            for (const flight_range &other : o->ranges) {
                if (!meets(r, other)) continue;
                const char *at = std::max(r.at, other.at);
                if (w.is_message() && o->is_message()) {
                    report_begin("two messages in one buffer");
                    report_line("%s at %s, with %s, and %s at %s, with %s, use the same %td bytes", other.call,
                                leaf(other.site), flight_peer(other.peer).c_str(), r.call, leaf(r.site),
                                flight_peer(r.peer).c_str(), std::min(r.at + r.bytes, other.at + other.bytes) - at);
                    report_line("and neither stream waits for the other");
                    report_place(r.site);
                    report_end();
                }
                if (w.is_message()) report_message(*o, w, r, at, other.write, nullptr);
                if (o->is_message()) report_message(w, *o, other, at, r.write, nullptr);
                report_works(*o, w, other.write, r.write, nullptr);
            }
        }
}

// The running kernel touches this address.
static void check_touch(const work &k, const char *at, bool write, void *code)
{
    for (const work *o : live) {
        if (!unordered(k, *o)) continue;
        for (const flight_range &r : o->ranges) {
            if (at < r.at || at >= r.at + r.bytes || !(write || r.write)) continue;
            if (o->is_message()) report_message(k, *o, r, at, write, code);
            report_works(k, *o, write, r.write, code);
        }
        const auto p = o->pages.find(page_of(at));
        if (p == o->pages.end()) continue;
        const char *cell = at - address_of(at) % CELL;
        const bool wrote = in_range(p->second.write, p->first, cell, cell + CELL),
                   read = in_range(p->second.read, p->first, cell, cell + CELL);
        if (wrote || (write && read)) report_works(k, *o, write, wrote, code);
    }
}

bool flight_touched(const char *at, bool write, void *code)
{
    if (!running) return false;
    check_touch(*running, at, write, code);  // or it may have been freed too early
    if (!protect_pages_of(at, 1, write ? PROT_READ | PROT_WRITE : PROT_READ)) return false;
    touched_page &t = running->pages[page_of(at)];
    (write ? t.write : t.read) = at;
    return true;
}

// ------------------------ what is queued

static void tick(cudaStream_t stream)  // what is over for whatever is queued on it next
{
    const int s = stream_number(stream);
    join(clocks[s], clocks[HOST]);
    if (s && stream_waits(s)) join(clocks[s], clocks[0]);
    for (int other = 1; !s && other < STREAMS; other++)
        if (stream_waits(other)) join(clocks[0], clocks[other]);
}

static work *queue(cudaStream_t stream, const char *name, call_site site, std::vector<flight_range> ranges,
                   std::function<void()> run)
{
    tick(stream);
    const int s = stream_number(stream);
    work *w = new work{};
    w->order = calls++, w->stream = s, w->before = clocks[s], w->name = name, w->site = site, w->run = std::move(run);
    w->group = -1, w->ranges = std::move(ranges);
    w->number = ++clocks[s].at[s];
    live.push_back(w);
    if (queued_wanted()) w->row = queued_add({s, w->number, w->before, "copy", name, site, 0, nullptr, {}});
    return w;
}

void flight_kernel(const kernel &what, cudaStream_t stream, std::function<void()> run)
{
    work *w = queue(stream, what.name, what.site, {}, std::move(run));
    w->is_kernel = true, w->counts = next_counts;
    if (next_counts) w->held = next_held, w->site = reached(w->site);
    if (w->row) w->row->kind = !next_counts ? "kernel" : w->held.kind == WB_GRADIENTS ? "gradients" : "attention";
    if (w->row && next_counts) w->row->cost = next_flops, w->row->keys = w->held.at[1];
    if (sent_group *g = next_counts && !groups.empty() ? &groups.back() : nullptr)
        g->waited |= !g->followed && w->before.at[g->stream] >= g->number, g->followed = true;
    next_counts = false;
}

void flight_work(const char *call, call_site site, cudaStream_t stream, std::vector<flight_range> ranges,
                 std::function<void()> run)
{
    work *w = queue(stream, call, site, std::move(ranges), std::move(run));
    for (const flight_range &r : w->ranges)
        if (w->row) w->row->cost += r.bytes;
    check_ranges(*w);
}

// A group of messages waits for all its streams, and all of them for it.
void flight_messages(const std::vector<cudaStream_t> &streams, std::vector<flight_range> ranges,
                     std::vector<flight_item> items, int group, std::function<void()> run)
{
    for (cudaStream_t s : streams) {
        tick(s);
        join(clocks[stream_number(streams[0])], clocks[stream_number(s)]);
    }
    const call_site site = ranges[0].site;
    work *w = queue(streams[0], "", site, std::move(ranges), std::move(run));
    w->group = group, w->message = groups.size(), messages++;
    groups.push_back({w->stream, w->number, false, false, false});
    if (w->row) w->row->kind = "messages", w->row->items = std::move(items);
    for (cudaStream_t s : streams) join(clocks[stream_number(s)], clocks[stream_number(streams[0])]);
    check_ranges(*w);
}

void flight_record(flight_clock &event, cudaStream_t stream)
{
    tick(stream);
    event = clocks[stream_number(stream)];
}
void flight_wait(cudaStream_t stream, const flight_clock &event, void *code, void *recorded)
{
    join(clocks[stream_number(stream)], event);
    waits.push_back({calls, stream_number(stream), event, code, recorded});
}

// ------------------------ what happens

// Of open device memory closes what other work, not ordered with this kernel, writes, and locks what it reads; null:
// opens it. It stays so for the next kernel, since most have the same.
static void close_ranges(const work *w)
{
    static std::vector<const flight_range *> closed;
    std::vector<const flight_range *> now;
    for (int write = 0; w && write < 2; write++)
        for (const work *o : live)
            for (const flight_range &r : o->ranges)
                if (r.write == write && unordered(*w, *o)) now.push_back(&r);
    if (now == closed) return;
    for (const flight_range *r : closed) protect_pages_of(r->at, r->bytes, PROT_READ | PROT_WRITE);
    for (const flight_range *r : now) protect_pages_of(r->at, r->bytes, r->write ? PROT_NONE : PROT_READ);
    closed.swap(now);
}

static void arrive(const flight_clock &c)  // what this clock covers is over: messages arrive now, no earlier
{
    for (size_t i = 0; i < live.size(); i++)
        if (live[i]->is_message() && !live[i]->over && covers(c, *live[i]))
            close_ranges(nullptr), nccl_arrive(live[i]->group), live[i]->over = true;
}

static void count_kernel(const work &k)
{
    if (some_count && !k.counts) return;
    bool under = false;
    for (work *o : live) {
        if (!o->is_message() || !unordered(k, *o)) continue;
        hidden += !groups[o->message].hidden;
        under = groups[o->message].hidden = true;
    }
    kernels++, under_messages += under;
}

// What a product or a message holds, for whoever records it (../layer_requests.h).
static void note(const work &w, wb_held held)
{
    held.order = w.order;
    for (const sent_group &g : groups) held.over += w.before.at[g.stream] >= g.number;
    size_t bytes = sizeof held;
    for (int n = 0; n < held.pieces; n++) bytes += (held.bytes[n] + 3) / 4 * 4;
    char *to = record_room(bytes);
    if (!to) return;
    memcpy(to, &held, sizeof held);
    to += sizeof held;
    for (int n = 0; n < held.pieces; to += (held.bytes[n] + 3) / 4 * 4, n++)
        if (held.bytes[n]) peek(to, held.at[n], held.bytes[n]);
}

static void perform(work &w)
{
    if (!w.is_kernel) close_ranges(nullptr);
    arrive(w.before);
    if (w.ran) return;  // meanwhile, by flight_another()
    w.ran = true;
    for (const flight_range &r : w.ranges) {
        if (!w.is_message() || r.peer < 0) continue;
        wb_held message = {};
        message.kind = r.write ? WB_TAKES : WB_SENDS, message.peer = r.peer;
        message.element = r.element;
        message.pieces = 1, message.at[0] = r.at, message.bytes[0] = r.bytes;
        note(w, message);
    }
    // What the host waits for is ordered with all that is queued later. If it is with other kernels, too, only touches
    // matter that meet messages and copies: all other pages are open.
    bool only_ranges = w.is_kernel && covers(clocks[HOST], w) && !w.row;
    for (const work *o : live) only_ranges = only_ranges && !(o->is_kernel && unordered(w, *o));
    if (w.is_kernel) running = &w, count_kernel(w);
    if (w.is_kernel && opened != only_ranges) close_ranges(nullptr), open_device_memory(opened = only_ranges);
    if (only_ranges) close_ranges(&w);
    for (int n = 0; n < w.held.pieces; n++)
        hook_held(chars(w.held.at[n]), w.held.bytes[n], n < w.held.inputs, w.name.c_str(), w.site);
    w.run();
    w.run = nullptr;
    running = nullptr;
    for (const auto &p : w.pages) mprotect(p.first, page_size(), PROT_NONE);
    if (only_ranges && !w.pages.empty()) close_ranges(nullptr);
    if (w.held.pieces) note(w, w.held);
    for (const auto &p : w.pages)
        if (w.row && !w.row->keys) w.row->cost += double(page_size()) * (!!p.second.read + !!p.second.write);
}

// What the host knows to be over and nothing that is still to run may meet.
static void forget()
{
    std::vector<work *> kept, gone;
    for (work *w : live) {
        bool needed = !w->ran || !covers(clocks[HOST], *w) || (w->is_message() && !w->over);
        for (const work *o : live) needed = needed || (!o->ran && unordered(*o, *w));
        (needed ? kept : gone).push_back(w);
    }
    live.swap(kept);
    for (work *w : gone) delete w;
}

void flight_host_waits(const flight_clock &clock)
{
    join(clocks[HOST], clock);
    // in the order of the calls, so that whatever one waits for comes before it
    for (size_t i = 0; i < live.size(); i++)
        if (!live[i]->ran && covers(clocks[HOST], *live[i])) perform(*live[i]);
    close_ranges(nullptr);
    if (opened) open_device_memory(opened = false);
    arrive(clocks[HOST]);
    forget();
}
void flight_host_waits_for(cudaStream_t stream)
{
    flight_clock c;
    flight_record(c, stream);
    flight_host_waits(c);
}
void flight_host_waits_for_all()
{
    flight_clock all = clocks[HOST];
    for (int s = 0; s < STREAMS; s++) join(all, clocks[s]);
    flight_host_waits(all);
}

bool flight_another()
{
    for (work *w : live) {
        bool ready = !w->ran;
        for (const work *o : live)
            if (ready && o != w && covers(w->before, *o))
                ready = o->ran && (!o->is_message() || o->over || nccl_available(o->group));
        if (!ready) continue;
        perform(*w);
        close_ranges(nullptr);
        return true;
    }
    return false;
}
void flight_count(wb_asked &since)
{
    since.kernels = kernels, since.under_messages = under_messages;
    since.messages = messages, since.hidden = hidden;
    kernels = under_messages = messages = hidden = 0;
    since.bare = 0;
    for (size_t n = groups.size(); n-- > 0;)
        if (!groups[n].hidden) since.bare = unsigned(n) + 1, since.bare_waited = groups[n].waited;
}

extern "C" void wb_count_next(double flops, const wb_held *held)
{
    some_count = next_counts = true;
    next_flops = flops, next_held = *held;
}

void flight_begin()
{
    catch_faults();
    flying = true;
    groups.clear();
}
void flight_end()
{
    if (flying) flight_host_waits_for_all(), queued_write(), hook_rank_end();
    flying = false;
}
}
