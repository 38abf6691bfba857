// watch.cpp - who reads which keys: pages of the watched tensors may not be touched, the first touch faults, is noted,
// and opens its page. A page that no query in hand may need ends the process with a report.
//
// Queries are in hand once a page of theirs (Q, or O) was touched: the last few tiles of each host thread, since a
// block may take one tile after the other, prefetch, or give its warps rows apart; of a block with many threads as many
// rows, since each may have one. Keys that none of them needs were read ahead, for the next tile of queries, or in
// vain: that tile shows it, or the block's end. With each new tile, and each block, all pages close again, but for
// those of keys that two heads share. Launches run on one host thread here.
#include "report.h"

namespace cudacpu
{
enum { TENSORS = 8, SETS = 4, MOST_SETS = MAX_THREADS / WB_NEAR, HANDS = 64, NOTED = 512 };

struct row_range {
    int first, last;
    row_range with(row_range o) const { return {std::min(first, o.first), std::max(last, o.last)}; }
};

static wb_watch watch;
static wb_watched tensors[TENSORS];
static int count;                            // of tensors; 0: nobody watches
static long touched, in_block;               // pages of keys; by this block
static row_range in_hand[HANDS][MOST_SETS];  // of each host thread; its newest first
static int hands, sets[HANDS];
static struct {
    row_range rows;
    bool ahead;     // of the queries that need them
    void *code;     // that touched them
} noted[2][NOTED];  // of queries, of keys: pages that the block has touched, one of all heads that have these rows
static int noted_count[2];
static bool queries_came;  // since keys were read ahead

bool watching() { return count > 0; }

static void judge_share()
{
    long pages = 0;
    for (int k = 0; k < count; k++)
        if (tensors[k].keys) pages += tensors[k].bytes / page_size();
    if (2 * in_block * watch.shares > 3 * pages)
        report("a block reads more than its share", {},
               "this block reads %ld of %ld pages of keys (limit %ld) while other blocks have nothing to do", in_block,
               pages, 3 * pages / (2 * watch.shares));
}

// Which rows a page holds: if they are of one head and nothing else is there. Of queries those at the ends of two
// heads, too: both. Returns how many ranges.
static int rows_of_page(const wb_watched &t, const char *page, row_range rows[2])
{
    const char *begin = chars(t.at), *end = begin + t.bytes, *after = page + page_size();
    const bool alone = t.keys || watch.on_host;
    if (after <= begin || page >= end || (alone && (page < begin || after > end))) return 0;
    const size_t head = t.row_bytes * size_t(t.rows);
    const size_t from = page < begin ? 0 : size_t(page - begin);
    const size_t to = size_t((after < end ? after : end) - begin) - 1, between = to / head - from / head;
    if (between && alone) return 0;
    const int first = from % head / t.row_bytes, last = to % head / t.row_bytes;
    rows[0] = {first, between ? t.rows - 1 : last};
    rows[1] = {0, between > 1 ? t.rows - 1 : last};
    return between ? 2 : 1;
}

static void protect_pages(int protection)
{
    for (int k = 0; k < count; k++) {
        const char *end = chars(tensors[k].at) + tensors[k].bytes;
        row_range rows[2];
        char *from = nullptr, *page = page_of(tensors[k].at);
        for (;; page += page_size()) {
            const bool whole = rows_of_page(tensors[k], page, rows);
            if (whole && !from) from = page;
            if (!whole && from) mprotect(from, page - from, protection), from = nullptr;
            if (page >= end) break;
        }
    }
}

static uint64_t spans(row_range rows)
{
    uint64_t bits = 0;
    for (int n = rows.first / watch.span; n <= rows.last / watch.span && n < WB_SPANS; n++) bits |= uint64_t{1} << n;
    return bits;
}

static bool queries_in_hand()
{
    bool any = false;
    for (int h = 0; h < hands; h++) any = any || sets[h] > 0;
    return any;
}

// The keys that some tile in hand may need.
static uint64_t near_in_hand()
{
    uint64_t near = 0;
    for (int h = 0; h < hands; h++)
        for (int n = 0; n < sets[h]; n++)
            for (uint64_t left = spans(in_hand[h][n]); left; left &= left - 1)
                near |= watch.near[__builtin_ctzll(left)];
    return near;
}

[[noreturn]] static void report_pair(row_range newest, row_range keys, void *code)
{
    report_begin("a tile was read that should have been skipped");
    report_line("keys %d to %d were read for queries %d to %d, but %s", keys.first, keys.last, newest.first,
                newest.last,
                watch.exact ? "the lists of these queries contain no tile with these keys"
                            : "none of these queries sees one of these keys.");
    if (!watch.exact)
        report_line(
            "Nor does any query less than %d rows away see a key less than %d away: no tile up to this size needs them",
            WB_NEAR, WB_NEAR);
    if (code) report_code(code);
    report_end();
}

static void note(bool keys, row_range rows, bool ahead, void *code)
{
    int n = 0;
    while (n < noted_count[keys] && (noted[keys][n].rows.first != rows.first || noted[keys][n].rows.last != rows.last))
        n++;
    if (n == NOTED && ahead && !watch.both_ways) report_pair(in_hand[0][0], rows, code);
    if (n == NOTED) return;
    if (n == noted_count[keys]) noted[keys][noted_count[keys]++] = {rows, false, code};
    noted[keys][n].ahead |= ahead;
}

// What lies in a tile with any of these rows; from queries to keys, or from keys to queries.
static uint64_t near_spans(uint64_t mine, bool keys)
{
    uint64_t near = 0;
    for (int q = 0; q < WB_SPANS; q++) {
        if (!keys && mine >> q & 1) near |= watch.near[q];
        if (keys && watch.near[q] & mine) near |= uint64_t{1} << q;
    }
    return near;
}

// A block of a backward has one tile of queries and walks over keys, or the other way round: which, is seen only at
// its end. One that has neither is judged by what it writes alone.
static void judge_both_ways()
{
    for (int side = 0; side < 2; side++) {
        const bool keys = side;
        row_range one = {INT_MAX, -1};  // from the first row to the last one that was noted
        for (int n = 0; n < noted_count[keys]; n++) one = one.with(noted[keys][n].rows);
        if (one.last < 0) return;
        if (one.last - one.first >= WB_NEAR + 2 * (noted[keys][0].rows.last - noted[keys][0].rows.first + 1)) continue;
        const uint64_t near = near_spans(spans(one), keys);
        for (int n = 0; n < noted_count[!keys]; n++) {
            const row_range rows = noted[!keys][n].rows;
            if (!(spans(rows) & near)) report_pair(keys ? rows : one, keys ? one : rows, nullptr);
        }
        return;
    }
}

// Keys read ahead of the queries that need them: now these are in hand.
static void judge_ahead()
{
    const uint64_t near = near_in_hand();
    for (int n = 0; n < noted_count[true] && queries_in_hand(); n++) {
        if (noted[true][n].ahead && !(spans(noted[true][n].rows) & near))
            report_pair(in_hand[0][0], noted[true][n].rows, noted[true][n].code);
        noted[true][n].ahead = false;
    }
    queries_came = false;
}

static void judge_noted()
{
    if (watch.both_ways)
        judge_both_ways();
    else
        judge_ahead();
    noted_count[false] = noted_count[true] = 0;
}

void watch_block_end()
{
    if (count) judge_noted();
}

void watch_block()
{
    if (!count) return;
    hands = 0;
    in_block = 0;
    queries_came = false;
    memset(sets, 0, sizeof sets);
    protect_pages(PROT_NONE);
}

// This host thread's place in in_hand; beyond HANDS they share the last.
static int my_hand()
{
    static __thread int mine = -1;
    if (current) mine = 0;
    if (mine < 0) mine = hands < HANDS ? hands : HANDS - 1;
    if (hands <= mine) hands = mine + 1;
    return mine;
}

static void take_in_hand(row_range rows)
{
    const int h = my_hand(), pages = 2 * (rows.last - rows.first + 1);
    row_range *mine = in_hand[h];
    const int threads = current ? int(current->thread_count) : 0;
    const int most = threads > SETS * WB_NEAR ? threads / WB_NEAR : SETS;
    queries_came = true;
    for (int n = 0; n < sets[h]; n++) {
        const row_range both = mine[n].with(rows);
        if (both.last - both.first >= WB_NEAR + pages) continue;
        mine[n] = both;
        return;
    }
    memmove(mine + 1, mine, (MOST_SETS - 1) * sizeof *mine);
    mine[0] = rows;
    if (sets[h] < most) sets[h]++;
    protect_pages(PROT_NONE);
}

bool watch_touched(const char *at, void *code)
{
    static volatile char busy;
    if (!count || !at || (!current && !watch.on_host)) return false;
    char *page = page_of(at);
    for (int k = 0; k < count; k++) {
        row_range rows[2];
        const int ranges = rows_of_page(tensors[k], page, rows);
        if (!ranges) continue;
        while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) {}
        const bool keys = tensors[k].keys;
        touched += keys, in_block += keys;
        if (watch.shares)
            judge_share();
        else if (watch.both_ways) {
            if (ranges == 1) note(keys, rows[0], true, code);
        } else if (keys) {
            if (queries_came) judge_ahead();
            note(true, rows[0], !(queries_in_hand() && spans(rows[0]) & near_in_hand()), code);
        } else
            for (int n = 0; n < ranges; n++) take_in_hand(rows[n]);
        mprotect(page, page_size(), PROT_READ | PROT_WRITE);
        __atomic_clear(&busy, __ATOMIC_RELEASE);
        return true;
    }
    return false;
}

void watch_copied(const void *from, size_t bytes, call_site site)
{
    const char *at = chars(from);
    for (int k = 0; k < count; k++) {
        const char *keys = chars(tensors[k].at);
        if (tensors[k].keys && at < keys + tensors[k].bytes && at + bytes > keys)
            report("keys were copied", site, "a copy reads these keys whether a query attends to them or not");
    }
}

extern "C" void wb_watch_pages(const wb_watch *how, const wb_watched *what, int number)
{
    static bool begun;  // once in a process: who ended it early cannot begin another
    if (begun) report("a call reserved for the tests", {}, "wb_watch_pages() was called twice");
    begun = true;
    catch_faults();
    watch = *how;
    count = number;
    memcpy(tensors, what, size_t(number) * sizeof *tensors);
    if (watch.on_host) protect_pages(PROT_NONE);
}

extern "C" void wb_watch_end(void)
{
    if (!count) report("a call reserved for the tests", {}, "wb_watch_end() was called twice");
    open_device_memory(true);
    judge_noted();
    open_device_memory(false);
    if (watch.on_host) protect_pages(PROT_READ | PROT_WRITE);
    if (!touched) report("keys were never read", {}, "no page of K or V was read");
    count = 0;
    hands = 0;
    touched = 0;
}
}
