// attention.h - the model's attention, forward and backward.
#pragma once

#include "layers.h"

// What a layer's attention reads and writes: arrays of layers.h, the gradients where a backward pass is under way.
typedef struct heads {
    attention_shape shape;
    pieces pieces;           // what its rows are: T below is T + room of these
    bool whole;              // shape is that of whole sequences, of which these are pieces
    act *Q, *K, *V, *O;      // [B, Hq, T, D] [B, Hkv, T, D] [B, Hkv, T, D] [B, Hq, T, D]
    real *L;                 // [B, Hq, T]
    act *dQ, *dK, *dV, *dO;  // as Q, K, V and O
} heads;

typedef struct attention {
    const char *name;
    void (*forward)(const heads *x);   // O and L
    void (*backward)(const heads *x);  // dQ, dK and dV
} attention;

// As it is written, in `real`: one query after another, on the host.
extern const attention naive_attention;

// How it rounds. ROUNDED: to bf16 what the types of the contract round, that is what the kernels take and give. The
// other two: also what a kernel must round for its products, P in the forward pass, or P and dS in the backward pass.
// Kernels round different multiples of these: online softmax has another in each row and tile. Here a row has one
// between 1 and 2, which naive_draw decides. How far a gradient then is from the ROUNDED one is what rounding explains.
extern enum rounding { PLAIN, ROUNDED, P_ROUNDED, P_AND_DS_ROUNDED } naive_rounding;
extern unsigned naive_draw;

// Problems 07 and 09. On the CPU layer in processes of their own: the worker programs of 07 and 09. On a GPU loaded:
// 07.so and 09.so.
const attention *kernel_attention(const char *forward, const char *backward);

// Problems 17 and 18, for layers that see all where a sequence lies on several ranks: shape is the whole sequence's. On
// GPUs, loaded.
const attention *kernel_ring(const char *forward, const char *backward);

// Not "" once a kernel has failed for good, in one sentence; what it gave from then on is zero. Or a number was not
// finite: the first.
const char *kernel_failure(void);
const char *kernel_not_finite(void);
