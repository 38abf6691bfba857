// timeline.h - a record of the CPU layer, replayed with costs (README.md): what each part of a block, or each stream of
// a ring's ranks, does over time, and for what it waits. Costs are those of a GPU that does nothing else; what is not
// below costs nothing: masks, arrivals, the issue of a product or copy. Messages do not slow each other down, nor
// products.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// Of a block: one multiprocessor of an H100, a cycle. Products: 989 TFLOP/s by 132 multiprocessors at 1.83 GHz.
// Exponentials: 4 a quarter. A tile costs its latency, then 5120 bytes a cycle from the L2 cache for 132
// multiprocessors. Beside its exponential an element of scores takes 2 operations that cannot run under other
// exponentials of its warp: its part in the maximum before, and its rounding after.
enum { FLOPS = 4096, EXPONENTIALS = 16, ARITHMETIC = 128, BESIDE_EXPONENTIAL = 2, COPY_BYTES = 40, COPY_LATENCY = 600 };

// Of a ring: H200s, as plots/ring_model.awk has them. Products in TFLOP/s, and what a call takes beyond them; other
// kernels by the bytes of the pages that they touch; messages, both ways at once. GB/s and microseconds. What was
// recorded is short: it is drawn as if it were longer and wider, 512 rows and 8 heads of 64 as 32768 rows and 32
// heads of 128.
enum { TFLOPS = 700, CALL_US = 32, GRADIENTS_TFLOPS = 600, GRADIENTS_CALL_US = 16, MEMORY_GBS = 4000, LAUNCH_US = 4 };
enum { WIRE_GBS = 153, MESSAGE_US = 30, LONGER = 64, WIDER = 8 };

typedef enum bar_kind { MOVE, PRODUCT, SCORES, OTHER, WAIT, BAR_KINDS } bar_kind;

typedef struct bar {
    bar_kind kind;
    int lane, group;
    double from, to;
    char label[16];    // "K7": box 7 of K; of a ring the ranks whose keys a product reads, or whose keys come
    char name[64];     // of a ring: "merge_kernel"
    char reason[128];  // of a WAIT: "K.full[1]", "a product"
    char source[64];   // "flash_hopper.cu:25"
} bar;

// A line of the picture: a unit of the block, a warpgroup, of which the first warp is shown, since the other three
// do the same at the same time; or a stream of a rank.
typedef struct lane_name {
    char name[32];
    int group;  // warpgroup or rank; -1: a unit
} lane_name;

enum { MOST_LANES = 128 };
typedef struct timeline {
    bool of_ring;
    double end;  // cycles; of a ring ms
    bar *bars;
    size_t count;
    lane_name lanes[MOST_LANES + 1];
    int lane_count;
} timeline;

// False, with a sentence on stderr, if the file is no record, or its events wait for each other.
bool timeline_replay(const char *path, timeline *t);
