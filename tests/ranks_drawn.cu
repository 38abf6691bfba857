// ranks_drawn.cu - what the CPU execution layer says of several ranks (cpu/flight.h, cpu/nccl.cpp), in programs that
// are drawn: kernels, copies and messages on streams of every kind, ordered by events and by the host. A program in
// which everything that has to be is ordered runs to its end. Without one of its events or waits it is reported if that
// leaves two pieces of work that may meet, these two are named, and it is not if it leaves none. Without one of its
// messages it is a deadlock. That the right bytes arrive show ranks.cu, train_ranks.sh, and the suites of 17 and 18.
//
// What may meet is found here from sets of what is over; the layer has counters.
#include "in_a_child.h"
#include "dice.h"

#ifndef __CUDACPU__  // elsewhere NCCL is NVIDIA's, and tells none of this
Test(ranks_drawn, of_the_layer) { cr_skip_test("the CPU execution layer's: BACKEND=cpu"); }
#else

#include <algorithm>
#include <bitset>
#include <nccl.h>
#include <set>
#include <stdint.h>
#include <utility>
#include <vector>

enum { MOST_RANKS = 4, AREAS = 3, MOST_STREAMS = 4, EVENTS = 5, MOST_WORK = 64, BY_RANK = 1000 };

// ------------------------ programs

struct range {  // of an area, in bytes, multiples of 4
    int area, at, bytes;
    bool meets(const range &r) const { return area == r.area && at < r.at + r.bytes && r.at < at + bytes; }
};
enum kind {
    KERNEL,     // first = (added ? 5 first : 0) + 3 second + third + number, in numbers of 4 bytes
    COPY,       // first from second
    SET,        // first, to `number`
    FROM_HOST,  // first, bytes of `number`
    TO_HOST,    // of first
    FREE,       // first, all of an area
    MESSAGES,
    RECORD,
    WAIT,
    SYNC_STREAM,
    SYNC_EVENT,
    SYNC_DEVICE
};
struct message {
    bool sent;
    range where;
    int peer, stream;
};
struct op {
    kind what;
    int id, stream, event;
    bool added, grouped;
    unsigned number;
    range first, second, third;
    std::vector<message> messages;
    bool works() const { return what <= MESSAGES; }
};
struct touch {
    range where;
    bool write;
};

static struct {
    int R, streams, area_bytes[AREAS];
    bool waits[MOST_STREAMS];  // a stream of the old kind: the default one and it wait for one another
    std::vector<op> ops[MOST_RANKS];
    unsigned program;  // its seed
    int left_out;      // the id of what is left out, or changed
} g;

static unsigned draw(unsigned n) { return (unsigned)below((int)n); }

static std::vector<touch> touches(const op &o)
{
    std::vector<touch> all;
    const auto add = [&](const range &r, bool write) {
        if (r.bytes) all.push_back({r, write});
    };
    switch (o.what) {
    case KERNEL:
        add(o.first, true);
        add({o.second.area, o.second.at, std::min(o.first.bytes, o.second.bytes)}, false);
        add({o.third.area, o.third.at, std::min(o.first.bytes, o.third.bytes)}, false);
        break;
    case COPY: add(o.first, true), add(o.second, false); break;
    case SET:
    case FREE:
    case FROM_HOST: add(o.first, true); break;
    case TO_HOST: add(o.first, false); break;
    case MESSAGES:
        for (const message &m : o.messages) add(m.where, !m.sent);
        break;
    default: break;
    }
    return all;
}

// ------------------------ what is over when a piece of work begins

typedef std::bitset<MOST_WORK> set_of_work;
struct order {
    set_of_work streams[MOST_STREAMS + 1], events[EVENTS], host;  // stream 0: the default one
    std::vector<const op *> work;
    std::vector<std::pair<const op *, const op *>> may_meet;  // of work that is not ordered and touches the same bytes

    void tick(int s)
    {
        streams[s] |= host;
        if (s && g.waits[s - 1]) streams[s] |= streams[0];
        for (int other = 1; !s && other <= g.streams; other++)
            if (g.waits[other - 1]) streams[0] |= streams[other];
    }
    std::vector<int> streams_of(const op &o)
    {
        std::vector<int> all;
        if (o.what != MESSAGES) all.push_back(o.stream);
        for (const message &m : o.messages) all.push_back(m.stream);
        return all;
    }
    set_of_work known(const op &o)  // what is over when this one, if it is queued now, begins
    {
        set_of_work all;
        for (int s : streams_of(o)) tick(s), all |= streams[s];
        return all;
    }
    std::vector<const op *> met(const op &o)  // by this one, if it is queued now
    {
        std::vector<const op *> all;
        const set_of_work over = known(o);
        for (size_t i = 0; i < work.size(); i++) {
            bool meet = false;
            for (const touch &x : touches(o))
                for (const touch &y : touches(*work[i]))
                    meet = meet || ((x.write || y.write) && x.where.meets(y.where));
            if (meet && !over[i]) all.push_back(work[i]);
        }
        return all;
    }
    void queue(const op &o)
    {
        if (o.works()) {
            for (const op *other : met(o)) may_meet.push_back({other, &o});
            set_of_work over = known(o);
            over[work.size()] = true;
            work.push_back(&o);
            for (int s : streams_of(o)) streams[s] = over;
        }
        if (o.what == TO_HOST || o.what == SYNC_STREAM) tick(o.stream), host |= streams[o.stream];
        if (o.what == RECORD) tick(o.stream), events[o.event] = streams[o.stream];
        if (o.what == WAIT) streams[o.stream] |= events[o.event];
        if (o.what == SYNC_EVENT) host |= events[o.event];
        for (int s = 0; s <= g.streams && o.what == SYNC_DEVICE; s++) host |= streams[s];
    }
};

// ------------------------ drawing a program

static range draw_range()
{
    range r;
    r.area = (int)draw(AREAS);
    const int words = g.area_bytes[r.area] / 4;
    switch (draw(4)) {
    case 0: r.at = 0, r.bytes = words; break;                               // all of it
    case 1: r.at = (int)draw(8) * (words / 8), r.bytes = words / 8; break;  // side by side with others
    default: r.at = (int)draw((unsigned)words), r.bytes = 1 + (int)draw((unsigned)(words - r.at)); break;
    }
    r.at *= 4, r.bytes *= 4;
    return r;
}

// A range of another rank, or of this one, of so many bytes; false: there was no room.
static bool range_of(int bytes, range *r)
{
    for (int tries = 0; tries < 20; tries++) {
        *r = draw_range();
        const int room = g.area_bytes[r->area] - r->at;
        r->bytes = bytes;
        if (bytes <= room) return true;
    }
    return false;
}

static bool draw_messages(op group[MOST_RANKS])
{
    const int count = 1 + (int)draw(2 * (unsigned)g.R);
    for (int i = 0; i < count; i++) {
        const int from = (int)draw((unsigned)g.R), to = (int)draw((unsigned)g.R);
        message s = {true, draw_range(), to, (int)draw((unsigned)g.streams + 1)};
        message t = {false, {}, from, (int)draw((unsigned)g.streams + 1)};
        if (!range_of(s.where.bytes, &t.where)) return false;
        group[from].messages.push_back(s);
        group[to].messages.push_back(t);
    }
    return true;
}

// Of one group nothing that is received meets anything else.
static bool is_sound(const op &o)
{
    for (size_t i = 0; i < o.messages.size(); i++)
        for (size_t k = 0; k < i; k++)
            if (!(o.messages[i].sent && o.messages[k].sent) && o.messages[i].where.meets(o.messages[k].where))
                return false;
    return true;
}

static order known[MOST_RANKS];  // while a program is drawn

static op *add(op o, int rank)
{
    o.id = rank * BY_RANK + (int)g.ops[rank].size();
    g.ops[rank].push_back(o);
    known[rank].queue(g.ops[rank].back());
    return &g.ops[rank].back();
}

// Adds it, and before it what makes it wait for all that it would meet, in one of the ways that there are.
static op *add_in_order(const op &o, int rank)
{
    order &now = known[rank];
    for (std::vector<const op *> met; !(met = now.met(o)).empty();) {
        const op &other = *met[draw((unsigned)met.size())];
        const std::vector<int> theirs = now.streams_of(other), its = now.streams_of(o);
        op record = {}, wait = {};
        record.what = RECORD, record.stream = theirs[draw((unsigned)theirs.size())];
        wait.what = WAIT, wait.stream = its[draw((unsigned)its.size())];
        record.event = wait.event = (int)draw(EVENTS);
        const unsigned way = draw(8);
        if (way == 0) wait.what = SYNC_EVENT;
        if (way == 1) record.what = SYNC_STREAM;
        if (way == 2) wait.what = SYNC_DEVICE;
        if (way < 2 || way > 3) add(record, rank);  // 3: for what the event has by now, if that is enough
        if (way != 1) add(wait, rank);
    }
    return add(o, rank);
}

static void draw_program()
{
    g.R = 1 + (int)draw(MOST_RANKS), g.streams = 1 + (int)draw(MOST_STREAMS);
    for (bool &w : g.waits) w = draw(4) == 0;
    for (int &bytes : g.area_bytes) bytes = 4 * (64 + (int)draw(draw(2) ? 512 : 5000));
    const unsigned together_of = 2 + draw(6);
    for (int r = 0; r < g.R; r++) g.ops[r].clear(), g.ops[r].reserve(2000), known[r] = order();
    const int steps = 4 + (int)draw(30);  // fewer than MOST_WORK
    for (int step = 0; step < steps; step++) {
        op group[MOST_RANKS] = {};
        const bool together = draw(together_of) == 0;
        bool sound = true;
        for (bool more = together; more; more = draw(3) == 0) sound = sound && draw_messages(group);
        const int alone = (int)draw((unsigned)g.R);
        for (int r = 0; r < g.R; r++) {
            op &o = group[r];
            o.what = MESSAGES, o.grouped = o.messages.size() != 1 || draw(2);
            if (together) {
                sound = sound && is_sound(o);
                continue;
            }
            o.messages.clear();
            if (r != alone) continue;
            o.what = (kind)draw(FREE + 3);
            if (o.what >= FREE) o.what = KERNEL;
            o.stream = (int)draw((unsigned)g.streams + 1), o.number = draw(1 << 20), o.added = draw(2);
            o.first = draw_range();
            if (o.what == COPY && !range_of(o.first.bytes, &o.second)) sound = false;
            if (o.what == KERNEL && draw(2)) o.second = draw_range();
            if (o.what == KERNEL && draw(2)) o.third = draw_range();
            sound = sound && !(o.second.bytes && o.first.meets(o.second)) && !(o.third.bytes && o.first.meets(o.third));
        }
        if (!sound) continue;
        for (int r = 0; r < g.R; r++)
            if (together ? !group[r].messages.empty() : r == alone) add_in_order(group[r], r);
    }
    for (int r = 0; r < g.R; r++)
        for (int a = 0; a < AREAS; a++) {
            if (draw(3)) continue;
            op o = {};
            o.what = FREE, o.stream = (int)draw((unsigned)g.streams + 1), o.first = {a, 0, g.area_bytes[a]};
            add_in_order(o, r);
        }
}

// ------------------------ running a program

__global__ void mix(unsigned *to, int n, const unsigned *a, int na, const unsigned *b, int nb, unsigned number,
                    int added)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    to[i] = number + (added ? 5u * to[i] : 0) + (na ? 3u * a[i % na] : 0) + (nb ? b[i % nb] : 0);
}

static char *area[AREAS];
static cudaStream_t stream_of[MOST_STREAMS + 1];
static cudaEvent_t event_of[EVENTS];
static char *at(const range &r) { return r.bytes ? area[r.area] + r.at : nullptr; }

#define RIGHT(call)                                                                                                    \
    if ((int)(call) != 0) fprintf(stderr, "line %d: refused\n", __LINE__), _exit(3)

static void launch_mix(const op &o, cudacpu::call_site site)
{
    const int n = o.first.bytes / 4, na = o.second.bytes / 4, nb = o.third.bytes / 4;
    unsigned *to = (unsigned *)at(o.first);
    const unsigned *a = (const unsigned *)at(o.second), *b = (const unsigned *)at(o.third);
    cudacpu::kernel what = CUDACPU_KERNEL(mix);
    what.site = site;
    const unsigned number = o.number;
    const int added = o.added;
    cudacpu::launch(what, cudacpu::launch_config((n + 63) / 64, 64, 0, stream_of[o.stream]),
                    [=] { mix(to, n, a, na, b, nb, number, added); });
}

static void send_and_receive(const op &o, ncclComm_t comm, cudacpu::call_site site)
{
    if (o.grouped) RIGHT(ncclGroupStart());
    for (const message &m : o.messages) {
        const size_t count = (size_t)m.where.bytes / 4;
        const cudaStream_t s = stream_of[m.stream];
        RIGHT(m.sent ? ncclSend(at(m.where), count, ncclUint32, m.peer, comm, s, site)
                     : ncclRecv(at(m.where), count, ncclUint32, m.peer, comm, s, site));
    }
    if (o.grouped) RIGHT(ncclGroupEnd());
}

static void be_rank(void *board, int rank)
{
    std::vector<unsigned char> host(1 << 16);
    for (int a = 0; a < AREAS; a++) {
        RIGHT(cudaMalloc(&area[a], (size_t)g.area_bytes[a]));
        RIGHT(cudaMemset(area[a], rank, (size_t)g.area_bytes[a]));
    }
    ncclComm_t comm = wb_rank_begin(board, rank, g.R);
    for (int s = 1; s <= g.streams; s++)
        RIGHT(cudaStreamCreateWithFlags(&stream_of[s], g.waits[s - 1] ? cudaStreamDefault : cudaStreamNonBlocking));
    for (cudaEvent_t &e : event_of) RIGHT(cudaEventCreate(&e));
    for (const op &o : g.ops[rank]) {
        const cudacpu::call_site site = {"drawn", o.id};
        const cudaStream_t s = stream_of[o.stream];
        switch (o.what) {
        case KERNEL: launch_mix(o, site); break;
        case COPY:
            RIGHT(cudaMemcpyAsync(at(o.first), at(o.second), (size_t)o.first.bytes, cudaMemcpyDeviceToDevice, s, site));
            break;
        case SET: RIGHT(cudaMemsetAsync(at(o.first), (int)(o.number & 255), (size_t)o.first.bytes, s, site)); break;
        case FROM_HOST:
            memset(host.data(), (int)(o.number & 127) + 128, (size_t)o.first.bytes);
            RIGHT(cudaMemcpyAsync(at(o.first), host.data(), (size_t)o.first.bytes, cudaMemcpyHostToDevice, s, site));
            memset(host.data(), 0, (size_t)o.first.bytes);
            break;
        case TO_HOST:
            RIGHT(cudaMemcpyAsync(host.data(), at(o.first), (size_t)o.first.bytes, cudaMemcpyDeviceToHost, s, site));
            break;
        case FREE: RIGHT(cudaFreeAsync(at(o.first), s, site)); break;
        case MESSAGES: send_and_receive(o, comm, site); break;
        case RECORD: RIGHT(cudaEventRecord(event_of[o.event], s)); break;
        case WAIT: RIGHT(cudaStreamWaitEvent(s, event_of[o.event], 0)); break;
        case SYNC_STREAM: RIGHT(cudaStreamSynchronize(s)); break;
        case SYNC_EVENT: RIGHT(cudaEventSynchronize(event_of[o.event])); break;
        case SYNC_DEVICE: RIGHT(cudaDeviceSynchronize()); break;
        }
    }
    wb_rank_end();
}

// ------------------------ tests

// Draws the programs of a seed, of which each is a seed of its own; SEED=, PROGRAMS=.
static void with_each(void (*look)(void))
{
    unsigned seed = 0;
    FILE *file = fopen("/dev/urandom", "r");
    cr_assert(file && fread(&seed, sizeof seed, 1, file) == 1);
    fclose(file);
    seed = getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : seed % 1000000000;
    const int count = getenv("PROGRAMS") ? atoi(getenv("PROGRAMS")) : 40;
    for (int i = 0; i < count; i++) {
        dice_state = g.program = seed + (unsigned)i * 7919u, g.left_out = -1;
        draw_program();
        look();
    }
}

static void expect(bool is_right, const char *what, int status)
{
    cr_expect(is_right, "SEED=%u PROGRAMS=1: without %d (-1: nothing): %s; status %#x\n%s", g.program, g.left_out, what,
              (unsigned)status, printed);
}
static bool is_report(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 66; }

// Of the ops that `suits` takes one is drawn; null: there is none.
static op *draw_op(bool (*suits)(const op &o), int *rank)
{
    std::vector<op *> all;
    for (int r = 0; r < g.R; r++)
        for (op &o : g.ops[r])
            if (suits(o)) all.push_back(&o);
    if (all.empty()) return nullptr;
    op *const one = all[draw((unsigned)all.size())];
    *rank = one->id / BY_RANK, g.left_out = one->id;
    return one;
}

// Which pairs may meet, now.
static std::vector<std::pair<const op *, const op *>> may_meet()
{
    std::vector<std::pair<const op *, const op *>> pairs;
    for (int r = 0; r < g.R; r++) {
        order all;
        for (const op &o : g.ops[r]) all.queue(o);
        pairs.insert(pairs.end(), all.may_meet.begin(), all.may_meet.end());
    }
    return pairs;
}

Test(ranks_drawn, what_is_ordered_is_right)
{
    with_each([] {
        const int status = run_in_a_child([] { play_ranks(g.R, be_rank); });
        expect(status == 0, "all is in order", status);
    });
}

// Whether a kernel's touches of one of the other's ranges cannot be missed: a page of them lies in that range
// (cpu/README.md).
static bool by_whole_pages(const op &kernel, const op &other)
{
    const auto both = [](const range &r, const range &s) {
        const int body = (g.area_bytes[r.area] + 255) / 256 * 256, from = std::max(r.at, s.at),
                  first = from + (body - from) % 4096;  // where a page begins: an area ends where one ends
        return r.area == s.area && first + 4096 <= std::min(r.at + r.bytes, s.at + s.bytes);
    };
    bool found = false;
    for (const touch &x : touches(kernel))
        for (const touch &y : touches(other)) found = found || ((x.write || y.write) && both(x.where, y.where));
    return found;
}
static bool is_told(const op &a, const op &b)
{
    if (a.what == KERNEL && b.what == KERNEL) return false;
    return a.what == KERNEL ? by_whole_pages(a, b) : b.what != KERNEL || by_whole_pages(b, a);
}

// Of a message that a kernel writes to between pages the bytes tell, when it arrives, and who wrote is not known.
static bool by_bytes_alone(const op &message, const op &kernel, const std::set<int> &named)
{
    return message.what == MESSAGES && kernel.what == KERNEL && !by_whole_pages(kernel, message) &&
           named.count(message.id) && strstr(printed, "changed after it was sent");
}

Test(ranks_drawn, what_may_meet_is_told)
{
    static int met, told;
    with_each([] {
        int rank;
        for (bool more = true; more; more = draw(2)) {
            op *const one = draw_op([](const op &o) { return !o.works(); }, &rank);
            if (!one) break;
            g.ops[rank].erase(g.ops[rank].begin() + (one - g.ops[rank].data()));
        }
        const auto pairs = may_meet();
        const int status = run_in_a_child([] { play_ranks(g.R, be_rank); });
        if (pairs.empty()) return expect(status == 0, "nothing may meet", status);
        std::set<int> named;
        for (const char *at = printed; (at = strstr(at, "drawn:")); at++) named.insert(atoi(at + 6));
        bool is_named = false, must = false;
        for (const auto &p : pairs) {
            is_named = is_named || (named.count(p.first->id) && named.count(p.second->id)) ||
                       by_bytes_alone(*p.first, *p.second, named) || by_bytes_alone(*p.second, *p.first, named);
            must = must || is_told(*p.first, *p.second);
        }
        char what[64];
        snprintf(what, sizeof what, "%d and %d may meet", pairs[0].first->id, pairs[0].second->id);
        expect(is_report(status) ? is_named : status == 0 && !must, what, status);
        met++, told += is_report(status);
    });
    cr_expect(told > met / 2, "of %d that may meet %d are told", met, told);
}

Test(ranks_drawn, a_message_less_is_a_deadlock)
{
    with_each([] {
        int rank;
        op *const one = draw_op([](const op &o) { return o.what == MESSAGES && g.R > 1; }, &rank);
        if (!one) return;
        one->messages.erase(one->messages.begin() + draw((unsigned)one->messages.size()));
        one->grouped = true;
        const bool is_in_order = may_meet().empty();  // its streams may have waited for one another by that message
        const int status = run_in_a_child([] { play_ranks(g.R, be_rank); });
        expect(is_report(status) && (!is_in_order || strstr(printed, "deadlock between ranks") ||
                                     strstr(printed, "a message of another size")),
               "one of its messages", status);
    });
}
#endif
