// model.h - a decoder of the kind in use: RMSNorm, RoPE, grouped heads, a window with sinks, SwiGLU, tied embedding; no biases.
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "attention.h"

enum { VOCABULARY = 256, MAX_LAYERS = 32 };

typedef struct config {
    int layers, width, q_heads, kv_heads, head_dim, hidden, context, window, sinks;
} config;

// Where each tensor begins in an array of all parameters. C = width, qkv columns = (Hq + 2 Hkv) D. Matrices first, gains last.
typedef struct places {
    size_t embedding;  // [256, C]
    struct {
        size_t qkv, out, up, down, norm1, norm2;
    } layer[MAX_LAYERS];           // [columns, C] [C, Hq D] [2 hidden, C] [C, hidden] [C] [C]
    size_t norm, matrices, count;  // [C]; all parameters of matrices; all
} places;

typedef struct saved {  // what the backward pass needs of a layer's forward pass
    real *x, *r1, *L, *x2, *r2;
    act *h1, *Q, *K, *V, *O, *o, *h2, *gu, *a;
} saved;

typedef struct model {
    config c;
    places at;
    const attention *attention;
    real *p, *dp, *m, *v;  // [count]: parameters, their gradients, AdamW's two moments
    act *w;                // [count]: the parameters as products read them
    saved layer[MAX_LAYERS];
    real *x, *r, *logits, *dx;  // after the last layer; logits [n, 256]; the residual stream's gradient on its way down
    act *h, *dlogits, *dx_act, *dh, *dqkv, *dQ, *dK, *dV, *dO, *dgu, *da;
    unsigned char *text, *target;
    double attention_seconds;
} model;

// For at most max_rows tokens at a time. First weights are normal numbers of deviation 0.02, drawn by the seed.
void model_create(model *m, const config *c, const attention *attention, int max_rows, unsigned seed);
void model_forward(model *m, const unsigned char *text, int B, int T);  // text [B, T]; gives m->logits
double model_loss(model *m, const unsigned char *text, const unsigned char *target, int B, int T);  // in nats a byte
void model_backward(model *m, int B, int T);         // after model_loss; gives m->dp
void model_update(model *m, int step, double rate);  // by AdamW, decay 0.1
const char *config_fault(const config *c);           // what is impossible about it, or NULL
double seconds(void);

#endif
