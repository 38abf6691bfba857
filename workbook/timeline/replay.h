// replay.h - the record of one block, replayed with costs.
//
// There is no time on the CPU layer: it records who did what, in which order, and what had to be over before. Here each of these costs
// what it would cost an H100 that does nothing else, counted from bytes and operations. The rest costs nothing: masks, arrivals, the
// issue of a product or copy. A unit does one thing at a time, in the order in which it is asked. So this is no measurement; it shows
// which event waits for which.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Of one multiprocessor, a cycle. Products: 989 TFLOP/s by 132 multiprocessors at 1.83 GHz. Exponentials: 4 a quarter. A tile costs its
// latency, then 5120 bytes a cycle from the L2 cache for 132 multiprocessors.
enum { FLOPS = 4096, EXPONENTIALS = 16, ARITHMETIC = 128, COPY_BYTES = 40, COPY_LATENCY = 600 };
// Operations on an element of scores beside its exponential, that cannot run under other exponentials of its warp: its part in the
// maximum before, and its rounding after.
enum { BESIDE_EXPONENTIAL = 2 };

typedef enum bar_kind { COPY, PRODUCT, SCORES, SCALE, WAIT } bar_kind;

typedef struct bar {
    bar_kind kind;
    int warp;  // whose it is; of a PRODUCT the last of its group to issue it
    double from, to;
    char label[16];   // "K7": box 7 of K
    char reason[64];  // of a WAIT: "K.full[1]", "a product", "exponentials", "barrier 2"
    int line;         // of the source
    int after;  // the bar whose end a WAIT waits for, and after which its warp asked for a COPY or PRODUCT; -1: none
} bar;

typedef struct timeline {
    double cycles;
    bar *bars;
    size_t count;
    int groups[8], group_count;  // warpgroups that multiply
} timeline;

// False, with a sentence on stderr, if the file is no record, or its events wait for each other.
bool timeline_replay(const char *path, timeline *t);
