// nccl.cpp - messages between ranks. All that ranks know of one another lies on a board in shared memory: their
// messages, in groups, in the order of the calls, and what was sent. A group begins when what its streams have before
// it is over, and is over when all partners of its messages have begun. So a deadlock is known, not timed out: all
// ranks wait, no group is over, and no rank has anything else to run. A rank's code can write on the board, so no
// verdict rests on it.
#include "flight.h"
#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#include <pthread.h>
#include <stdarg.h>

namespace cudacpu
{
enum { RANKS = 16, MESSAGES = 4096, NAME = 64 };

struct board_message {
    int group, peer, turn;  // see flight_item
    bool send, all, begun;
    size_t bytes, data;  // data: where in the arena
    char file[NAME], call[24];
    int line;
    call_trace by;
    call_site site() const { return {file, line, keep_trace(by)}; }
};
struct board_rank {
    int messages, waits_for;  // waits_for: a group, or -1
    bool left;
    long tried;  // when nothing had happened since board.happened was this, it had nothing else to run
    board_message message_of[MESSAGES];
    const board_message *begin() const { return message_of; }
    const board_message *end() const { return message_of + std::clamp(messages, 0, int{MESSAGES}); }
};
struct board {
    int ranks;
    pthread_mutex_t mutex;
    pthread_cond_t news;
    std::atomic<int> made;    // 1: somebody is at it, 2: it is
    size_t arena, used;       // bytes
    long happened;            // messages that have begun, and ranks that have left
    std::atomic<bool> ended;  // somebody has reported
    board_rank rank_of[RANKS];
    char data[];
};
static_assert(sizeof(board) <= 16 << 20, "case/shards.c makes so much room for it");

struct part : flight_item {        // one message of a group
    size_t whole;                  // of the collective call whose it is
    int id = 0;                    // on the board
    std::vector<char> taken = {};  // what is sent; what is received where `at` is null
};
struct collective {
    enum { GATHER, REDUCE } kind;
    const char *from;
    char *to;
    size_t bytes;  // of a rank's part
    ncclDataType_t type;
    ncclRedOp_t op;
    std::vector<char> mine;  // what this rank gives
};
struct group {
    std::vector<part> parts;
    std::vector<collective> wholes;
    std::vector<cudaStream_t> streams;
    std::vector<flight_range> ranges;
    bool over;
};
}
using namespace cudacpu;

struct ncclComm {
    int rank, ranks;
    int sent[2][RANKS], received[2][RANKS];  // by `all`
};

static struct {
    board *b;
    ncclComm comm;
    std::vector<group *> groups;  // all of this rank's, by number
    group *open;
    int depth;
    uint64_t sent;
    char refused[256];
} mine;

static board_rank &me() { return mine.b->rank_of[mine.comm.rank]; }

// ------------------------ the board

extern "C" size_t wb_board_bytes(size_t arena) { return sizeof(board) + arena; }

extern "C" void wb_board_make(void *at, size_t arena, int ranks)
{
    board *b = static_cast<board *>(at);
    int none = 0;
    if (!b->made.compare_exchange_strong(none, 1)) {
        while (b->made != 2) usleep(100);
        return;
    }
    pthread_mutexattr_t m;
    pthread_mutexattr_init(&m), pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&b->mutex, &m);
    pthread_condattr_t c;
    pthread_condattr_init(&c), pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&b->news, &c);
    b->ranks = ranks, b->arena = arena;
    for (int r = 0; r < ranks; r++) b->rank_of[r].waits_for = b->rank_of[r].tried = -1;
    b->made = 2;
}

extern "C" ncclComm *wb_rank_begin(void *at, int rank, int ranks)
{
    flight_begin();
    mine.b = static_cast<board *>(at);
    mine.comm = {rank, ranks, {}, {}};
    mine.sent = 0, mine.depth = 0;
    return at ? &mine.comm : nullptr;
}

static void lock() { pthread_mutex_lock(&mine.b->mutex); }
static void unlock() { pthread_mutex_unlock(&mine.b->mutex); }
struct locked {
    locked() { lock(); }
    ~locked() { unlock(); }
};
static void tell()
{
    mine.b->happened++;
    pthread_cond_broadcast(&mine.b->news);
}

extern "C" void wb_rank_end(void)
{
    flight_end();
    if (mine.b) {
        const locked board;
        me().left = true;
        tell();
    }
    for (group *g : mine.groups) delete g;
    mine.groups.clear();
    delete mine.open;
    mine.open = nullptr;
    mine.b = nullptr;
}

uint64_t cudacpu::nccl_sent() { return mine.sent; }
int cudacpu::nccl_rank() { return mine.b && mine.comm.ranks > 1 ? mine.comm.rank : -1; }

// The other end of a message; null: not asked for yet. With the board locked.
static const board_message *partner(int rank, const board_message &m)
{
    for (const board_message &o : mine.b->rank_of[m.peer])
        if (o.peer == rank && o.send != m.send && o.all == m.all && o.turn == m.turn) return &o;
    return nullptr;
}

// Whether a group of that rank's has begun with all its partners. With the board locked.
static bool is_over(int rank, int g)
{
    for (const board_message &m : mine.b->rank_of[rank]) {
        if (m.group != g) continue;
        const board_message *p = partner(rank, m);
        if (!m.begun || !p || !p->begun) return false;
    }
    return true;
}

bool cudacpu::nccl_available(int g)
{
    const locked board;
    return is_over(mine.comm.rank, g);
}

// Of ranks that report at a time one is heard; the others wait for their end, even with the board locked: the one that
// is heard locks it no more.
void cudacpu::nccl_alone()
{
    if (!mine.b || !mine.b->ended.exchange(true)) return;
    for (;;) pause();
}

// ------------------------ deadlock

static void describe(int rank)
{
    const board_rank &s = mine.b->rank_of[rank];
    if (s.waits_for < 0) {
        report_line(s.left ? "rank %d has returned" : "rank %d is still running", rank);
        return;
    }
    for (const board_message &m : s) {
        const board_message *p = partner(rank, m);
        if (m.group != s.waits_for || (p && p->begun)) continue;
        char why[160];
        if (p)
            snprintf(why, sizeof why, "whose %s at %s waits for an earlier operation", p->call, leaf(p->site()));
        else
            snprintf(why, sizeof why, "which has not %s",
                     m.all    ? "made the same call"
                     : m.send ? "posted the matching receive"
                              : "posted the matching send");
        report_line("rank %d waits: its %s at %s, %zu bytes %s rank %d, %s", rank, m.call, leaf(m.site()), m.bytes,
                    m.send ? "to" : "from", m.peer, why);
        for (const board_message &o : mine.b->rank_of[m.peer]) {
            if (p || o.send == m.send || o.peer == rank || partner(m.peer, o)) continue;
            report_line("   instead, rank %d %s rank %d at %s, which has no matching call", m.peer,
                        o.send ? "sends to" : "receives from", o.peer, leaf(o.site()));
            break;
        }
        return;
    }
}

// Waits until a group of this rank's is over. Where all ranks wait in vain, one after the other runs what else it
// could; when none has anything, the last one tells.
static void wait_until_over(int g)
{
    board *b = mine.b;
    lock();
    while (!is_over(mine.comm.rank, g)) {
        if (me().waits_for != g) pthread_cond_broadcast(&b->news);  // whoever else waits looks whether all do
        me().waits_for = g;
        bool stuck = true, tried = true, first = true;
        for (int r = 0; r < b->ranks && r < RANKS; r++) {
            const board_rank &s = b->rank_of[r];
            if (s.left) continue;
            stuck = stuck && s.waits_for >= 0 && !is_over(r, s.waits_for);
            if (s.tried == b->happened) continue;
            tried = false;
            first = first && r >= mine.comm.rank;
        }
        if (stuck && first && me().tried != b->happened) {
            const long happened = b->happened;
            me().waits_for = -1;
            unlock();
            const bool did = flight_another();
            lock();
            if (!did) {
                me().tried = happened;
                pthread_cond_broadcast(&b->news);
            }
            continue;
        }
        if (stuck && tried) {
            report_begin("deadlock between ranks, seen");
            for (int r = 0; r < b->ranks && r < RANKS; r++) describe(r);
            const group &mine_now = *mine.groups[g];
            unlock();
            report_place(mine_now.parts[0].site);
            report_end();
        }
        timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        pthread_cond_timedwait(&b->news, &b->mutex, &until);
    }
    me().waits_for = -1;
    unlock();
}

// ------------------------ sums of all

template <class Type>
static void combine_as(std::vector<char> &into, const std::vector<std::vector<char>> &all, ncclRedOp_t op)
{
    into = all[0];
    Type *a = reinterpret_cast<Type *>(into.data());
    for (size_t i = 0; i < into.size() / sizeof(Type); i++) {
        for (size_t r = 1; r < all.size(); r++) {
            const Type b = reinterpret_cast<const Type *>(all[r].data())[i];
            a[i] = op == ncclMax ? std::max(a[i], b) : Type(a[i] + b);
        }
        if (op == ncclAvg) a[i] = Type(a[i] / static_cast<Type>(all.size()));
    }
}

// ------------------------ messages

// All that its streams have before it is over: what is sent is read, what is received is NaN.
static void begin(group &g)
{
    for (collective &c : g.wholes) {
        c.mine.resize(c.bytes);
        peek(c.mine.data(), c.from, c.bytes);
    }
    for (part &p : g.parts)
        if (p.send) p.taken.resize(p.bytes), peek(p.taken.data(), p.at, p.bytes);
    for (const flight_range &r : g.ranges)
        if (r.write) poke(const_cast<char *>(r.at), nullptr, r.bytes);
    board *b = mine.b;
    lock();
    for (part &p : g.parts) {
        board_message &m = me().message_of[p.id];
        if (p.send && b->used + p.bytes > b->arena) {
            unlock();
            report("too much is sent", p.site, "all messages together may have at most %zu MB", b->arena >> 20);
        }
        if (p.send) {
            m.data = b->used, b->used += (p.bytes + 63) / 64 * 64;
            memcpy(b->data + m.data, p.taken.data(), p.bytes);
        }
        m.begun = true;
    }
    tell();
    unlock();
}

void cudacpu::nccl_arrive(int number)
{
    group &g = *mine.groups[number];
    if (!g.parts.empty()) wait_until_over(number);
    if (g.over) return;  // while it waited
    g.over = true;
    for (part &p : g.parts) {
        lock();
        const board_message *other = partner(mine.comm.rank, me().message_of[p.id]);
        const size_t data = other ? other->data : 0;
        unlock();
        if (p.send && !p.all) {
            std::vector<char> now(p.bytes);
            peek(now.data(), p.at, p.bytes);
            if (!memcmp(now.data(), p.taken.data(), p.bytes)) continue;
            report("a send buffer was overwritten in flight", p.site,
                   "the data sent to rank %d changed after it was sent", p.peer);
        }
        if (!p.send && data <= mine.b->arena && p.bytes <= mine.b->arena - data) {
            if (p.at)
                poke(const_cast<char *>(p.at), mine.b->data + data, p.bytes);
            else
                p.taken.assign(mine.b->data + data, mine.b->data + data + p.bytes);
        }
    }
    for (size_t k = 0; k < g.wholes.size(); k++) {
        collective &c = g.wholes[k];
        const size_t rank = mine.comm.rank;
        if (c.kind == collective::GATHER) {
            poke(c.to + rank * c.bytes, c.mine.data(), c.bytes);
            continue;
        }
        std::vector<char> sum;
        std::vector<std::vector<char>> all(mine.comm.ranks);  // in the order of ranks, on each
        all[rank] = c.mine;
        for (const part &p : g.parts)
            if (p.whole == k && p.all && !p.send) all[p.peer] = p.taken;
        const auto combine = c.type == ncclFloat64  ? combine_as<double>
                             : c.type == ncclUint32 ? combine_as<uint32_t>
                                                    : combine_as<float>;  // all that ncclAllReduce() lets through
        combine(sum, all, c.op);
        poke(c.to, sum.data(), sum.size());
    }
    for (part &p : g.parts) p.taken = {};
}

// The open group is complete: its messages stand on the board, and it is queued.
static ncclResult_t queue_group()
{
    group *g = mine.open;
    mine.open = nullptr;
    if (!g) return ncclSuccess;
    const int number = mine.groups.size();
    mine.groups.push_back(g);
    lock();
    for (part &p : g->parts) {
        board_rank &s = me();
        if (s.messages >= MESSAGES)
            unlock(), report("too many messages", p.site, "at most %d messages per rank", MESSAGES);
        p.id = s.messages;
        board_message &m = s.message_of[p.id];
        p.turn = (p.send ? mine.comm.sent : mine.comm.received)[p.all][p.peer]++;
        m = {number, p.peer, p.turn, p.send, p.all, false, p.bytes, 0, "", "", p.site.line, called(p.site.reached)};
        const char *slash = strrchr(p.site.file, '/');
        snprintf(m.file, sizeof m.file, "%s", slash ? slash + 1 : p.site.file);
        snprintf(m.call, sizeof m.call, "%s", p.call);
        s.messages++;
        const board_message *other = partner(mine.comm.rank, m);
        if (other && other->bytes != m.bytes) {
            const board_message o = *other;
            unlock();
            report("a message of another size", p.site, "rank %d %s %zu bytes, but rank %d %s %zu, by %s at %s",
                   mine.comm.rank, p.send ? "sends" : "expects", p.bytes, p.peer, p.send ? "expects" : "sends", o.bytes,
                   o.call, leaf(o.site()));
        }
    }
    unlock();
    for (size_t i = 0; i < g->ranges.size(); i++)
        for (size_t k = 0; k < i; k++) {
            const flight_range &x = g->ranges[i], &y = g->ranges[k];
            if (!meets(x, y)) continue;
            if (x.peer < 0 && y.peer < 0 && x.write != y.write && x.site.line == y.site.line)
                report("two messages in one buffer", x.site,
                       "the input and output of %s overlap: they must be the same memory, or disjoint", x.call);
            report("two messages in one buffer", x.site,
                   "this %s, with %s, and %s in line %d, with %s, use the same memory at the same time", x.call,
                   flight_peer(x.peer).c_str(), y.call, y.site.line, flight_peer(y.peer).c_str());
        }
    flight_messages(g->streams, g->ranges, {g->parts.begin(), g->parts.end()}, number, [g] { begin(*g); });
    return ncclSuccess;
}

__attribute__((format(printf, 2, 3))) static ncclResult_t refuse(call_site site, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(mine.refused, sizeof mine.refused, format, arguments);
    va_end(arguments);
    fprintf(stderr, "cudacpu: nccl: %s  at %s:%d\n", mine.refused, site.file, site.line);
    return ncclInvalidArgument;
}

static unsigned size_of(ncclDataType_t type)
{
    static const unsigned bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type <= ncclBfloat16 ? bytes[type] : 4;
}

struct call {  // one of the functions below
    const char *name;
    ncclComm_t comm;
    cudaStream_t stream;
    call_site site;
    int peer;              // 0 where there is none
    unsigned element = 0;  // bytes of a number
};

static bool may(const call &c)
{
    if (current) report("a message in a kernel", c.site, "%s may only be called on the host", c.name);
    if (!c.comm || c.comm != &mine.comm || !mine.b)
        return refuse(c.site, "%s: the argument is not a communicator", c.name), false;
    if (c.peer < 0 || c.peer >= c.comm->ranks)
        return refuse(c.site, "%s: rank %d is not one of the %d ranks", c.name, c.peer, c.comm->ranks), false;
    if (!mine.open) mine.open = new group{};
    std::vector<cudaStream_t> &s = mine.open->streams;
    if (std::find(s.begin(), s.end(), c.stream) == s.end()) s.push_back(c.stream);
    return true;
}

static void add_range(const call &c, const void *at, size_t bytes, bool write, int peer)
{
    char why[256];
    if (inside_one_buffer(at, bytes, why, sizeof why)) {
        mine.open->ranges.push_back({chars(at), bytes, write, c.name, c.site, peer, c.element});
        return;
    }
    report("a message extends past its buffer", c.site, "%s %s %zu bytes: %s", c.name,
           write ? "is to receive" : "is to send", bytes, why);
}
static void add_part(const call &c, bool send, const void *at, size_t bytes, int peer, bool all)
{
    const size_t whole = mine.open->wholes.size() - all;
    mine.open->parts.push_back({{send, all, peer, 0, bytes, chars(at), c.name, c.site}, whole});
}
static ncclResult_t done() { return mine.depth ? ncclSuccess : queue_group(); }

static ncclResult_t between_two(const call &c, bool send, const void *at, size_t count)
{
    const size_t bytes = count * c.element;
    if (!may(c)) return ncclInvalidArgument;
    add_range(c, at, bytes, !send, c.peer);
    add_part(c, send, at, bytes, c.peer, false);
    mine.sent += send && c.peer != c.comm->rank ? bytes : 0;
    return done();
}

// Each rank sends its part to all others. all: where theirs go, one behind the other; null: into a sum.
static ncclResult_t of_all(const call &c, const collective &whole, char *all)
{
    mine.open->wholes.push_back(whole);
    for (int r = 0; r < c.comm->ranks; r++) {
        if (r == c.comm->rank) continue;
        add_part(c, true, whole.from, whole.bytes, r, true);
        add_part(c, false, all ? all + size_t(r) * whole.bytes : nullptr, whole.bytes, r, true);
    }
    return done();
}

#pragma GCC visibility push(default)

ncclResult_t ncclGroupStart() { return mine.depth++, ncclSuccess; }
ncclResult_t ncclGroupEnd()
{
    if (mine.depth < 1) return ncclInvalidUsage;
    return --mine.depth ? ncclSuccess : queue_group();
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream, call_site site)
{
    return between_two({"ncclSend()", comm, stream, reached(site), peer, size_of(type)}, true, from, count);
}
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream,
                      call_site site)
{
    return between_two({"ncclRecv()", comm, stream, reached(site), peer, size_of(type)}, false, to, count);
}

// What a collective call costs is counted as a ring's.
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream, call_site site)
{
    const call c = {"ncclAllGather()", comm, stream, site, 0};
    const size_t bytes = count * size_of(type);
    if (!may(c)) return ncclInvalidArgument;
    const size_t ranks = comm->ranks, rank = comm->rank;
    char *all = static_cast<char *>(to);
    if (from == all + rank * bytes) {  // in place
        if (rank) add_range(c, all, rank * bytes, true, -1);
        add_range(c, from, bytes, false, -1);
        if (rank + 1 < ranks) add_range(c, all + (rank + 1) * bytes, (ranks - rank - 1) * bytes, true, -1);
    } else {
        add_range(c, from, bytes, false, -1);
        add_range(c, all, ranks * bytes, true, -1);
    }
    mine.sent += (ranks - 1) * bytes;
    return of_all(c, {collective::GATHER, chars(from), all, bytes, type, ncclSum, {}}, all);
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream, call_site site)
{
    const call c = {"ncclAllReduce()", comm, stream, site, 0};
    if ((type != ncclFloat32 && type != ncclFloat64 && type != ncclUint32) || op == ncclProd || op == ncclMin)
        return refuse(site, "%s: only sums, maxima and means of float, double and unsigned are emulated", c.name);
    if (!may(c)) return ncclInvalidArgument;
    const size_t ranks = comm->ranks, bytes = count * size_of(type);
    const char *given = chars(from);
    if (from != to) add_range(c, from, bytes, false, -1);
    add_range(c, to, bytes, true, -1);
    mine.sent += 2 * (ranks - 1) * bytes / ranks;
    return of_all(c, {collective::REDUCE, given, static_cast<char *>(to), bytes, type, op, {}}, nullptr);
}

// Of an invalid argument it says which, too.
const char *ncclGetErrorString(ncclResult_t result)
{
    static char refused[sizeof mine.refused + 20];
    static const char *const texts[] = {
        "no error",         "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage",        "remote process exited",  "NCCL operation in progress"};
    snprintf(refused, sizeof refused, "invalid argument: %s", mine.refused);
    if (result == ncclInvalidArgument && *mine.refused) return refused;
    return result >= 0 && result <= ncclInProgress ? texts[result] : "unknown result code";
}
const char *ncclGetLastError(ncclComm_t) { return mine.refused; }

#pragma GCC visibility pop
