// layers.h - what a language model has besides attention: a forward and a backward a layer. Arrays are row-major, of n
// rows (tokens). Backward functions take the gradient of the output and give that of the input; gradients of parameters
// are added up.
//
// layers.c has them for the host, layers.cu for a GPU; model.c, which calls them, never looks into an array. So there
// are two types: `real` of parameters, gradients and the residual stream, and `act` of whatever goes into a product:
// bf16 on a GPU, on the host `real`.
#pragma once

#include "workbook.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef REAL
#define REAL float  // double in check.c, where finite differences want the digits
#endif
typedef REAL real;
#if defined(TRAIN_CUDA) || defined(__CUDACC__) || defined(__CUDACPU__)
typedef bf16 act;
#else
typedef real act;
#endif

// Whatever this program cannot go on from ends it with a sentence.
#define FAIL(...) (fprintf(stderr, "train: " __VA_ARGS__), fputc('\n', stderr), exit(2))

#ifdef __cplusplus
extern "C" {
#endif

// Arrays of these functions: zeros at first. `reals` on the host stand for acts there.
void *new_array(size_t bytes);
size_t array_bytes(void);  // of all together
void to_array(void *array, const void *host, size_t bytes);
void from_array(void *host, const void *array, size_t bytes);
// Ends the training by SIGALRM, with whoever hangs in it, after so many seconds of this thread's own, which spins while
// it waits for a device, or thirty times as many of a clock. from_array, which has waited, sets 0: no end.
void answer_within(double seconds);
void acts_to_array(act *array, const real *host, size_t n);
void acts_from_array(real *host, const act *array, size_t n);
void clear(real *x, size_t n);
void narrow(act *y, const real *x, size_t n);  // y = x, rounded to act

// x [n, width] = rows of the table [256, width] that text [n] names;  dtable [256, width] += dx where they came from
void embed(real *x, const act *table, const unsigned char *text, int n, int width);
void embed_backward(real *dtable, const real *dx, const unsigned char *text, int n, int width);

// y [n, out] = x [n, in] w^T,  w [out, in];  linear_add: y = base + x w^T, base NULL for none
void linear(act *y, const act *x, const act *w, int n, int out, int in);
void linear_add(real *y, const real *base, const act *x, const act *w, int n, int out, int in);
void linear_backward(act *dx, real *dw, const act *dy, const act *x, const act *w, int n, int out, int in);

// y [n, width] = g [width] * x * r,  r [n] = 1 / sqrt(mean of x^2 + 1e-5).  dx is added to: the residual stream goes
// around the norm; dx_act = dx, rounded. Zhang and Sennrich 2019, arXiv:1910.07467.
void rmsnorm(act *y, real *r, const real *x, const real *g, int n, int width);
void rmsnorm_backward(real *dx, act *dx_act, real *dg, const act *dy, const real *x, const real *r, const real *g,
                      int n, int width);

// B pieces of T tokens each, of as many sequences or fewer. The first half of them begins at position[0] of its
// sequence, the others at position[1]. Where heads have room for so many rows more, it lies in front of a piece, and
// behind one that begins its sequence.
typedef struct pieces {
    int B, T, room, position[2];
} pieces;
// heads [B, H, T + room, D] <-> H * D columns of rows [B * T, stride]. turn = 1 rotates by RoPE on the way, -1 rotates
// back, 0 does not: the pair (x[d], x[d + D / 2]) of the token at position t by t * 10000^(-2 d / D). Su et al. 2021,
// arXiv:2104.09864. to_heads clears the room.
void to_heads(act *heads, const act *rows, int stride, const pieces *p, int H, int D, int turn);
void from_heads(act *rows, const act *heads, int stride, const pieces *p, int H, int D, int turn);

// `count` runs of n numbers, which lie so far apart. add_runs: y += x, x + step, ... x + (many - 1) step, rounded once.
// All are multiples of 8.
void copy_runs(act *y, size_t y_apart, const act *x, size_t x_apart, size_t n, int count);
void add_runs(act *y, size_t y_apart, const act *x, size_t step, int many, size_t n, int count);

// a [n, hidden] = silu(gate) * up,  gu [n, 2 hidden] = gate and up side by side. Shazeer 2020, arXiv:2002.05202.
void swiglu(act *a, const act *gu, int n, int hidden);
void swiglu_backward(act *dgu, const act *da, const act *gu, int n, int hidden);

// Returns the mean of -log softmax(logits)[target], in nats;  dlogits [n, width] = its gradient.
double cross_entropy(act *dlogits, const real *logits, const unsigned char *target, int n, int width);

// p -= rate * (m^ / (sqrt(v^) + 1e-8) + decay * p), with betas 0.9 and 0.99, step from 1 on; w = p, rounded. Loshchilov
// and Hutter 2017, arXiv:1711.05101.
void adamw(real *p, act *w, const real *dp, real *m, real *v, size_t count, int step, real rate, real decay);

#ifdef __cplusplus
}
#endif
