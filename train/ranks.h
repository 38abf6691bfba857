// ranks.h - training by several ranks, a process each. Each has the whole model and a part of every batch: some of its
// sequences, or of each sequence a part (context.h). The mean of their gradients is that of the batch; then all make
// the same update. ranks.c starts them. Numbers travel through shared memory (ranks_host.c), or by NCCL while the
// backward pass goes on (ranks_device.cu). With one rank nothing does.
#pragma once

#include "layers.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_RANKS = 64 };
extern struct ranks {
    int mine, all;  // which of how many this process is: 0 of 1 at first
} ranks;

// From here on this process is one of `count` that it starts on this machine; the one that called does not return.
// Whichever dies ends all. Rank 0 alone prints to stdout.
void ranks_begin(int count);
void ranks_end(void);  // when all have come here, this process is rank 0 of 1 again

// x [n] becomes the mean of that of all ranks, added up in the same order each time. All call it for the same arrays,
// in the same order, each when it has queued what makes x. Until the next ranks_mean returns nobody touches x.
void ranks_average(real *x, size_t n);

// What `out` of rank `from` has, n numbers, comes into `in` of rank `to`. All ranks name the same moves; an array of
// another rank is not looked at. It goes behind what is queued, and what is queued next finds it there.
typedef struct move {
    int from, to;
    size_t n;
    const act *out;
    act *in;
} move;
void ranks_move(const move *moves, int count);
wb_ring ranks_ring(void);  // for 17 and 18

double ranks_mean(double x);  // of all ranks' x; waits for all ranks, and for what is to be averaged

// What ranks_host.c and ranks_device.cu have besides: before there are ranks, and in each of them.
void ranks_prepare(int count);
void ranks_connect(void);

#ifdef __cplusplus
}
#endif
