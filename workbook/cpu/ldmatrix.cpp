// ldmatrix.cpp - four blocks of 8 x 8 from shared memory into the registers of a warp. Each row comes from where one
// lane says; the eight rows of a block are fetched together, in as many passes as two of them share banks.
#include "hooks.h"

namespace cudacpu
{
enum { BLOCKS = 4, ROWS = 8, ROW_BYTES = 16, GROUPS = 8 };  // 32 banks of 4 bytes: a row takes one group of four

struct matrix_request {
    uint32_t *to;
    const char *row;
    bool transposed;
    call_site site;
    void *code;  // where the call returns to
};

static std::atomic<uint64_t> fetches, passes;  // since it was asked last, and of the worst: passes, line, two lanes
static std::atomic<uint64_t> worst;

void count_fetches(wb_asked &since)
{
    const uint64_t w = worst.exchange(0);
    since.fetches = fetches.exchange(0), since.passes = passes.exchange(0);
    since.worst = static_cast<int>(w >> 42), since.worst_line = w >> 10 & 0xffffffff;
    since.worst_lanes[0] = w >> 5 & 31, since.worst_lanes[1] = w & 31;
}

// How many rows of the same group of banks the fullest group has; rows at the same address are read once.
static void count_passes(const matrix_request *const *rows, int lane0)
{
    uint64_t needed = 1, pair[2] = {0, 0};
    for (int i = 0; i < ROWS; i++) {
        uint64_t in_group = 1, other = 0;
        for (int j = 0; j < i; j++) {
            const uintptr_t apart = static_cast<uintptr_t>(rows[i]->row - rows[j]->row);
            if (!apart) in_group = 0;
            if (!apart) break;
            if (apart / ROW_BYTES % GROUPS == 0) in_group++, other = static_cast<uint64_t>(j);
        }
        if (in_group > needed) needed = in_group, pair[0] = other, pair[1] = static_cast<uint64_t>(i);
    }
    fetches++, passes += needed;
    if (needed == 1) return;
    const uint64_t lanes = (static_cast<uint64_t>(lane0) + pair[0]) << 5 | (static_cast<uint64_t>(lane0) + pair[1]);
    const uint64_t this_one = needed << 42 | static_cast<uint64_t>(rows[0]->site.line) << 10 | lanes;
    uint64_t w = worst;  // of several as bad that of the last line: the same whichever thread comes first
    while (this_one > w && !worst.compare_exchange_weak(w, this_one)) {}
}

static void check_row(thread &t, const matrix_request &r)
{
    const unsigned lane = t.number % WARP;
    const size_t past = reinterpret_cast<uintptr_t>(r.row) % ROW_BYTES;
    block &b = *current;
    b.running = &t;
    const bool dynamic = r.row >= b.dynamic_shared && r.row + ROW_BYTES <= b.dynamic_shared + b.config->shared;
    if (!dynamic && !(r.row >= b.static_shared && r.row + ROW_BYTES <= b.static_shared + b.static_used)) {
        char where[256] = "not in shared memory";
        describe_shared_address(b, r.row, where, sizeof where);
        report("bad matrix row", r.site, "ldmatrix: the address from lane %u is %s", lane, where);
    }
    if (past)
        report("misaligned matrix row", r.site, "ldmatrix: the address from lane %u is %zu bytes past a multiple of 16",
               lane, past);
    hook_matrix_row(r.row, ROW_BYTES, r.code);
}

static void load(void **lanes, int count)
{
    const matrix_request *const *all = reinterpret_cast<matrix_request **>(lanes);
    thread *const me = current->running;
    if (count < WARP) report("absent lanes", all[0]->site, "ldmatrix needs all 32 lanes, but only %d call it", count);
    for (int lane = 0; lane < WARP; lane++) check_row(warp_of(*current, *me).threads[lane], *all[lane]);
    current->running = me;
    for (int block = 0; block < BLOCKS; block++) {
        uint16_t x[ROWS][ROWS];
        for (int row = 0; row < ROWS; row++) memcpy(x[row], all[block * ROWS + row]->row, ROW_BYTES);
        for (int lane = 0; lane < WARP; lane++) {
            const int g = lane / 4, t = lane % 4 * 2;
            const bool across = all[lane]->transposed;
            const uint32_t low = across ? x[t][g] : x[g][t], high = across ? x[t + 1][g] : x[g][t + 1];
            all[lane]->to[block] = low | high << 16;
        }
        count_passes(all + block * ROWS, block * ROWS);
    }
}
static void load_transposed(void **lanes, int count) { load(lanes, count); }

// Two functions, so that lanes that call one do not meet lanes that call the other.
void load_matrices(uint32_t *to, const void *row, bool transposed, call_site site)
{
    matrix_request mine = {to, static_cast<const char *>(row), transposed, site, __builtin_return_address(0)};
    warp_call(transposed ? load_transposed : load, &mine, site);
}
}
