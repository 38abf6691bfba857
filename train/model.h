// model.h - a decoder of the kind in use: RMSNorm, RoPE, grouped heads, a window with sinks, SwiGLU, tied embedding; no
// biases.
#pragma once

#include "attention.h"

enum { VOCABULARY = 256, MAX_LAYERS = 32 };

typedef struct config {
    int layers, width, q_heads, kv_heads, head_dim, hidden, context, window, sinks;
    int full;  // each full-th layer sees all; 0: none does
} config;

// Where each tensor begins in an array of all parameters. C = width. Matrices first, gains last.
typedef struct places {
    size_t embedding;  // [256, C]
    struct layer_places {
        size_t q, k, v, out, up, down, norm1, norm2;
    } layer[MAX_LAYERS];           // [Hq D, C] [Hkv D, C] [Hkv D, C] [C, Hq D] [2 hidden, C] [C, hidden] [C] [C]
    size_t norm, matrices, count;  // [C]; all parameters of matrices; all
} places;

typedef struct saved {  // what the backward pass needs of a layer's forward pass
    real *x, *r1, *x2, *r2;
    act *h1, *o, *h2, *gu, *a;
    heads heads;  // its dQ, dK, dV and dO are the same in all layers
} saved;

typedef struct model {
    config c;
    places at;
    const attention *attention, *ring;  // ring: of layers that see all, where split
    bool split;                         // each sequence lies on all ranks: context.h
    real *p, *m, *v, *dp;               // [count]: parameters, AdamW's two moments behind them, and gradients
    act *w;                             // [count]: the parameters as products read them
    saved layer[MAX_LAYERS];
    real *x, *r, *logits, *dx;  // after the last layer; logits [n, 256]; the residual stream's gradient on its way down
    act *h, *dlogits, *dx_act, *dh, *dqkv, *dgu, *da;
    unsigned char *text, *target;
} model;

// For at most max_rows tokens at a time; heads get room for `more` rows besides. First weights are normal numbers of
// deviation 0.02, drawn by the seed.
void model_create(model *m, const config *c, const attention *attention, int max_rows, int more, unsigned seed);
// text [B, T], or where m->split this rank's pieces of it; gives m->logits
void model_forward(model *m, const unsigned char *text, int B, int T);
double model_loss(model *m, const unsigned char *text, const unsigned char *target, int B, int T);  // in nats a byte
void model_backward(model *m, int B, int T);         // after model_loss; gives m->dp, with ranks.h of all ranks
void model_update(model *m, int step, double rate);  // by AdamW, decay 0.1

// checkpoint.c - a run that was interrupted goes on from a file, bit for bit as if it had not been. The recipe is what
// a run is made of, in words NAME=VALUE: two runs with the same recipe and kernels give the same bits. The file appears
// whole or not at all.
void checkpoint_write(const char *path, const char *recipe, const model *m, int step);
// Returns the step that the file was written after, its parameters and moments in m; 0 if there is no such file. Ends
// the program with a sentence if it is damaged or of another run.
int checkpoint_read(const char *path, const char *recipe, model *m);
char *plain_text(
    char *text);  // what a file or a kernel said, as it is shown: all but ASCII and newlines becomes '?', in place
#define HASH_BEGIN 0xcbf29ce484222325u
uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes);  // FNV-1a; the first with HASH_BEGIN

// compare.c - what a loss curve cannot show: are the gradients right? One step's gradients of all attention weights by
// naive attention, and the same with the forward or the backward of its kernels in the place of naive attention's. Each
// may be off by 2.5 times what rounding explains (attention.h), in relation to its size: sqrt(sum of squared
// differences / sum of squares). Prints a table and PASS, or FAIL and which gradient is off; writes problem, layer,
// gradient, error and bound to the table, if there is one. Returns whether all are right.
bool compare_gradients(model *m, const unsigned char *text, const unsigned char *target, int B, int T,
                       const char *table);
