// layer_requests.h - what a test may ask of the CPU execution layer for one run; the worker passes it on. On the cuda
// backend there is no layer: these are null.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef CUDACPU_LAYER
#define WB_OF_THE_LAYER  // there they are
#else
#define WB_OF_THE_LAYER __attribute__((weak))
#endif

__BEGIN_DECLS

// From here on what only another machine would punish is played: the stack of the process is closed while a kernel
// runs (cpu/launch.cpp), and a thread's first product of matrices is late. The library does without.
void wb_play_strictly(void) WB_OF_THE_LAYER;

// In which order blocks, warps and lanes run that nothing orders: 0 forward, 1 backward, else shuffled by this.
void wb_run_in_order(long order) WB_OF_THE_LAYER;

// How many multiprocessors it plays; 0: as many as always.
void wb_have_processors(int count) WB_OF_THE_LAYER;

// How many KB of shared memory a block may ask for; 0: as many as WB_SHARED_KB says.
void wb_have_shared_kb(int count) WB_OF_THE_LAYER;

// What was asked of the layer since the last call of this.
typedef struct wb_asked {
    unsigned launches;
    uint64_t blocks;             // of the last launch
    uint64_t multiplied;         // numbers, by all warps in products of matrices; of problem 01 by OpenBLAS
    uint64_t products;           // numbers, by products that run on their own (hopper.cuh)
    uint64_t of_first, of_last;  // how many of these by the first and by the last block of a launch that had any
    bool waited;                 // the host, for a stream
    bool astray;                 // something was put on a stream that does not wait for what another had queued
    uint64_t sent;               // bytes, by this rank to others, since it is one
    unsigned kernels;           // of a rank: that have run, all or, once wb_count_next() was called, those of it alone,
    unsigned under_messages;    // and how many of these need not wait for a message that may be under way with them
    unsigned messages, hidden;  // of a rank: groups of them, and under how many such a kernel may run
    unsigned bare;              // since it is one, the first under which none may: its number from 1 on, or 0,
    bool bare_waited;           // and whether kernels that are queued behind it, before the next one, wait for it
    // Of ldmatrix: fetches of eight rows, and passes over the banks, as many where no two rows of a fetch lie in the
    // same banks. Of the worst fetch its passes, its line, and two lanes whose rows collide.
    uint64_t fetches, passes;
    int worst, worst_line, worst_lanes[2];
} wb_asked;
wb_asked wb_what_was_asked(void) WB_OF_THE_LAYER;
// What a rank holds: pieces of memory of wb_attention (Q, K, V; O, L), of wb_attention_backward (Q, K, V, dO, L, delta;
// dQ, dK, dV, which it reads, too), or of a message. `over`: how many groups of messages are over before it begins.
typedef enum wb_held_kind { WB_ATTENDS = 1, WB_GRADIENTS, WB_SENDS, WB_TAKES } wb_held_kind;
enum { WB_PIECES = 9 };
typedef struct wb_held {
    wb_held_kind kind;
    long order;                 // in which the host has queued what it has
    int over, peer;             // peer: of a message
    int q_len, kv_len, causal;  // of a product
    float scale;
    int element;         // of a message: bytes of a number
    int inputs, pieces;  // the first of them are read
    const void *at[WB_PIECES];
    size_t bytes[WB_PIECES];
} wb_held;
// Of a rank's kernels the next one counts, and none besides. Its FLOPs, for pictures; with no pieces, it is the first
// of two of one call.
void wb_count_next(double flops, const wb_held *held) WB_OF_THE_LAYER;

// The next allocation of device memory begins where every one with this number does, from 0 on, if nothing is in the
// way.
void wb_place_next(int number) WB_OF_THE_LAYER;

// The next allocation begins and ends with a guard of so many bytes. Whole pages of a guard are filled when a kernel
// first touches one. wb_open_guard: how many bytes, next to what is guarded, may have been touched.
void wb_guard_next(size_t before, size_t behind) WB_OF_THE_LAYER;
size_t wb_open_guard(const void *buffer, bool behind) WB_OF_THE_LAYER;

// Device memory may be touched by all of the process until it is closed again, as if a kernel ran.
void wb_open_memory(bool open) WB_OF_THE_LAYER;

// What is asked for on this stream from here on is astray: it is another call's. Null: no more.
void wb_not_on(const void *stream) WB_OF_THE_LAYER;

// As long as this allocation lasts no kernel may write to it.
void wb_constant(const void *at) WB_OF_THE_LAYER;

// To which descriptor a report writes what it is of, in so many bytes: its kind, the places that it names, each "
// FILE:LINE", and, of the check build, the section of problems/when-it-is-wrong-but-runs.md that tells more, with tabs
// between. The judge's own have no tab: "no answer", "not run", "overrun".
enum { WB_FINDING = 1024 };
void wb_report_to(int file) WB_OF_THE_LAYER;
static inline bool wb_finding_is(const char *finding, const char *kind)
{
    return strncmp(finding, kind, strlen(kind)) == 0 && finding[strlen(kind)] == '\t';
}

// Of a launch's blocks only `most` run: the first, the last, and any; 0: none, and memory is not filled.
void wb_launch_few(unsigned most) WB_OF_THE_LAYER;

// Which keys a tile of queries may rightly read, in spans of `span` rows. Tiles have up to WB_NEAR queries and keys,
// wherever they start.
enum { WB_SPANS = 64, WB_NEAR = 128 };
typedef struct wb_watch {
    int span;
    uint64_t near[WB_SPANS];  // bit k of near[q]: a tile that has a query of span q may read keys of span k
    bool both_ways;           // a backward: blocks that walk over keys, and blocks that walk over queries
    bool exact;               // near has the tiles that a mask as data names, and no neighbours of theirs
    bool on_host;             // the tensors are host memory, and the function's own threads read them
    int shares;  // of decoding: a block may read any keys, but no more than one and a half of so many equal shares
} wb_watch;

// A tensor [.., rows, row_bytes], of keys or of queries.
typedef struct wb_watched {
    const void *at;
    size_t bytes, row_bytes;
    int rows;
    bool keys;
} wb_watched;

// Until wb_watch_end() whoever touches keys for queries that do not see them, nor have a neighbour within a tile that
// does, ends the process with a report. Once each, and only the worker.
void wb_watch_pages(const wb_watch *watch, const wb_watched *tensors, int count) WB_OF_THE_LAYER;
void wb_watch_end(void) WB_OF_THE_LAYER;

// Until wb_overlap_end() it is counted under how many of the tiles of scores that a warp works on a product of its own
// is in flight (cpu/record.cpp). Fewer than three quarters end the process with a report. Once each, as above.
void wb_overlap_begin(void) WB_OF_THE_LAYER;
void wb_overlap_end(void) WB_OF_THE_LAYER;

// What the warps of one block do with signals, copies and products, as rows in a file, for pictures: of the last launch
// that has such a block. Block -1: what ranks queue, this process and those that it forks, between
// wb_record_queued(true) and (false). False, with a sentence on stderr at the end, if it cannot.
bool wb_record_begin(const char *path, long block) WB_OF_THE_LAYER;
void wb_record_queued(bool from_here_on) WB_OF_THE_LAYER;
bool wb_record_end(void) WB_OF_THE_LAYER;

// One of several ranks, each a process. A board of wb_board_bytes(arena) bytes of shared memory, zeros at first, is
// what they tell one another by; arena: what they send at most in all. The first call makes it, others wait for that.
// From wb_rank_begin() to wb_rank_end(), which waits for the device, this process is a rank (cpu/flight.h). Returns its
// communicator; without a board, of one rank, null.
size_t wb_board_bytes(size_t arena) WB_OF_THE_LAYER;
void wb_board_make(void *at, size_t arena, int ranks) WB_OF_THE_LAYER;
struct ncclComm *wb_rank_begin(void *board, int rank, int ranks) WB_OF_THE_LAYER;
void wb_rank_end(void) WB_OF_THE_LAYER;

// Writes down the products of matrices from here on, as numbers, into zeros; null ends it. The first is 0, or 1 if
// there was no room for all products. Each product begins with WB_PRODUCT_HEAD numbers: who made it (a warp, counted
// over the launch, or a thread of the host), rows, cols, depth. Then come A [rows, depth], B [depth, cols], and
// C [rows, cols] before and after. Of a rank it has what each product and each message held, a wb_held and behind it
// the pieces, each in as many numbers as it takes; the last has another kind.
enum { WB_PRODUCT_HEAD = 4 };
void wb_record_products(float *at, size_t count) WB_OF_THE_LAYER;

__END_DECLS
