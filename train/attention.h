// attention.h - the model's attention, on arrays (layers.h) Q, O, dQ, dO [B, Hq, T, D], K, V, dK, dV [B, Hkv, T, D], L [B, Hq, T].
#ifndef TRAIN_ATTENTION_H
#define TRAIN_ATTENTION_H

#include "layers.h"

typedef struct attention {
    const char *name;
    void (*forward)(act *O, real *L, const act *Q, const act *K, const act *V, const attention_shape *shape);
    void (*backward)(act *dQ, act *dK, act *dV, const act *Q, const act *K, const act *V, const act *O, const real *L,
                     const act *dO, const attention_shape *shape);
} attention;

// As it is written, in `real`: one query after another, on the host.
extern const attention naive_attention;

// The same in the types of the contract: what the kernels take and give is rounded to bf16, and nothing else.
extern const attention rounded_attention;
// And once more, but P and dS, which a kernel rounds to bf16 for its products, are moved at random as far as rounding moves them. How far
// a gradient is then from that of rounded_attention is what rounding explains.
extern const attention shaken_attention;

// Problems 07 and 09. On the CPU layer in processes of their own: the worker programs of 07 and 09. On a GPU loaded: 07.so and 09.so.
const attention *kernel_attention(const char *forward, const char *backward);

// Not "" once a kernel has failed for good, in one sentence; what it gave from then on is zero. Or a number was not finite: the first.
const char *kernel_failure(void);
const char *kernel_not_finite(void);

#endif
