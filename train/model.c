// model.c - see model.h. The layers in order, and in the opposite order; no loop over numbers but the first weights.
#include "model.h"
#include "supervise.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int qkv_columns(const config *c) { return (c->q_heads + 2 * c->kv_heads) * c->head_dim; }

const char *config_fault(const config *c)
{
    const int *const sizes[] = {&c->layers,   &c->width,  &c->q_heads, &c->kv_heads,
                                &c->head_dim, &c->hidden, &c->context};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (*sizes[i] < 1 || *sizes[i] > 65536) return "layers, width, heads, hidden and context are from 1 to 65536";
    if (c->layers > MAX_LAYERS) return "there can be 32 layers at most";
    if (c->q_heads % c->kv_heads) return "kv_heads divides q_heads";
    if (c->head_dim != 16 && c->head_dim != 32 && c->head_dim != 64 && c->head_dim != 128)
        return "head_dim is 16, 32, 64 or 128";
    if (c->context > 4096) return "context is 4096 at most";
    if (c->window < 1 || c->sinks < 0) return "window is 1 at least, sinks 0";
    return NULL;
}

static places place(const config *c)
{
    places at = {.embedding = 0};
    const size_t C = (size_t)c->width, QD = (size_t)c->q_heads * c->head_dim;
    size_t n = VOCABULARY * C;
#define TAKE(tensor, size) (at.tensor = n, n += (size))
    for (int l = 0; l < c->layers; l++) {
        TAKE(layer[l].qkv, qkv_columns(c) * C);
        TAKE(layer[l].out, C * QD);
        TAKE(layer[l].up, 2 * c->hidden * C);
        TAKE(layer[l].down, C * c->hidden);
    }
    at.matrices = n;
    for (int l = 0; l < c->layers; l++) TAKE(layer[l].norm1, C), TAKE(layer[l].norm2, C);
    TAKE(norm, C);
    at.count = n;
    return at;
}

static real normal(void)  // the sum of twelve uniform numbers
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += drand48();
    return (real)sum;
}
static void first_weights(model *m, unsigned seed)
{
    real *const p = malloc(m->at.count * sizeof *p);
    if (!p) abort();
    srand48(seed);
    for (size_t i = 0; i < m->at.count; i++) p[i] = i < m->at.matrices ? (real)0.02 * normal() : 1;
    to_array(m->p, p, m->at.count * sizeof *p);
    narrow(m->w, m->p, m->at.count);
    free(p);
}

void model_create(model *m, const config *c, const attention *attention, int max_rows, unsigned seed)
{
#define REALS(n) new_array((n) * sizeof(real))
#define ACTS(n)  new_array((n) * sizeof(act))
    const size_t n = (size_t)max_rows, C = (size_t)c->width, QD = (size_t)c->q_heads * c->head_dim,
                 KD = (size_t)c->kv_heads * c->head_dim, H = (size_t)c->hidden;
    *m = (model){.c = *c, .at = place(c), .attention = attention};
    const size_t count = m->at.count;
    m->p = REALS(count), m->dp = REALS(count), m->m = REALS(count), m->v = REALS(count);
    m->w = sizeof(act) == sizeof(real) ? (act *)m->p : ACTS(count);
    first_weights(m, seed);
    for (saved *s = m->layer; s < m->layer + c->layers; s++) {
        s->x = REALS(n * C), s->r1 = REALS(n), s->x2 = REALS(n * C), s->r2 = REALS(n), s->L = REALS(n * c->q_heads);
        s->h1 = ACTS(n * C), s->Q = ACTS(n * QD), s->K = ACTS(n * KD), s->V = ACTS(n * KD), s->O = ACTS(n * QD);
        s->o = ACTS(n * QD), s->h2 = ACTS(n * C), s->gu = ACTS(n * 2 * H), s->a = ACTS(n * H);
    }
    m->x = REALS(n * C), m->r = REALS(n), m->logits = REALS(n * VOCABULARY), m->dx = REALS(n * C);
    m->h = ACTS(n * C), m->dlogits = ACTS(n * VOCABULARY), m->dx_act = ACTS(n * C);
    m->dh = ACTS(n * (C > QD ? C : QD)), m->dqkv = ACTS(n * qkv_columns(c));
    m->dQ = ACTS(n * QD), m->dK = ACTS(n * KD), m->dV = ACTS(n * KD), m->dO = ACTS(n * QD);
    m->dgu = ACTS(n * 2 * H), m->da = ACTS(n * H);
    m->text = new_array(n), m->target = new_array(n);
}

static attention_shape shape_of(const config *c, int B, int T)
{
    return (attention_shape){.batch = B,
                             .q_heads = c->q_heads,
                             .kv_heads = c->kv_heads,
                             .q_len = T,
                             .kv_len = T,
                             .head_dim = c->head_dim,
                             .scale = (float)(1 / sqrt(c->head_dim)),
                             .causal = 1,
                             .window = c->window,
                             .sinks = c->sinks};
}

void model_forward(model *m, const unsigned char *text, int B, int T)
{
    const config *const c = &m->c;
    const int n = B * T, C = c->width, Hq = c->q_heads, Hkv = c->kv_heads, D = c->head_dim, H = c->hidden,
              columns = qkv_columns(c);
    const attention_shape shape = shape_of(c, B, T);

    to_array(m->text, text, (size_t)n);
    embed(m->layer[0].x, m->w + m->at.embedding, m->text, n, C);
    for (int l = 0; l < c->layers; l++) {
        saved *const s = &m->layer[l];
        real *const next = l + 1 < c->layers ? s[1].x : m->x;
        act *const qkv = m->dqkv;  // not needed yet

        rmsnorm(s->h1, s->r1, s->x, m->p + m->at.layer[l].norm1, n, C);
        linear(qkv, s->h1, m->w + m->at.layer[l].qkv, n, columns, C);
        to_heads(s->Q, qkv, columns, B, T, Hq, D, 1);
        to_heads(s->K, qkv + Hq * D, columns, B, T, Hkv, D, 1);
        to_heads(s->V, qkv + (Hq + Hkv) * D, columns, B, T, Hkv, D, 0);
        const double start = seconds();
        still_alive();
        m->attention->forward(s->O, s->L, s->Q, s->K, s->V, &shape);  // problem 07
        m->attention_seconds += seconds() - start;
        from_heads(s->o, s->O, Hq * D, B, T, Hq, D, 0);
        copy(s->x2, s->x, (size_t)n * C);
        linear_add(s->x2, s->o, m->w + m->at.layer[l].out, n, C, Hq * D, 1);

        rmsnorm(s->h2, s->r2, s->x2, m->p + m->at.layer[l].norm2, n, C);
        linear(s->gu, s->h2, m->w + m->at.layer[l].up, n, 2 * H, C);
        swiglu(s->a, s->gu, n, H);
        copy(next, s->x2, (size_t)n * C);
        linear_add(next, s->a, m->w + m->at.layer[l].down, n, C, H, 1);
    }
    rmsnorm(m->h, m->r, m->x, m->p + m->at.norm, n, C);
    linear_add(m->logits, m->h, m->w + m->at.embedding, n, VOCABULARY, C, 0);
}

double model_loss(model *m, const unsigned char *text, const unsigned char *target, int B, int T)
{
    model_forward(m, text, B, T);
    to_array(m->target, target, (size_t)B * T);
    return cross_entropy(m->dlogits, m->logits, m->target, B * T, VOCABULARY);
}

void model_backward(model *m, int B, int T)
{
    const config *const c = &m->c;
    const int n = B * T, C = c->width, Hq = c->q_heads, Hkv = c->kv_heads, D = c->head_dim, H = c->hidden,
              columns = qkv_columns(c);
    const attention_shape shape = shape_of(c, B, T);
    const size_t stream = (size_t)n * C;
    real *const dx = m->dx;

    clear(m->dp, m->at.count);
    clear(dx, stream);
    linear_backward(m->dh, m->dp + m->at.embedding, m->dlogits, m->h, m->w + m->at.embedding, n, VOCABULARY, C);
    rmsnorm_backward(dx, m->dx_act, m->dp + m->at.norm, m->dh, m->x, m->r, m->p + m->at.norm, n, C);
    for (int l = c->layers - 1; l >= 0; l--) {
        const saved *const s = &m->layer[l];

        linear_backward(m->da, m->dp + m->at.layer[l].down, m->dx_act, s->a, m->w + m->at.layer[l].down, n, C, H);
        swiglu_backward(m->dgu, m->da, s->gu, n, H);
        linear_backward(m->dh, m->dp + m->at.layer[l].up, m->dgu, s->h2, m->w + m->at.layer[l].up, n, 2 * H, C);
        rmsnorm_backward(dx, m->dx_act, m->dp + m->at.layer[l].norm2, m->dh, s->x2, s->r2, m->p + m->at.layer[l].norm2,
                         n, C);

        linear_backward(m->dh, m->dp + m->at.layer[l].out, m->dx_act, s->o, m->w + m->at.layer[l].out, n, C, Hq * D);
        to_heads(m->dO, m->dh, Hq * D, B, T, Hq, D, 0);
        const double start = seconds();
        still_alive();
        m->attention->backward(m->dQ, m->dK, m->dV, s->Q, s->K, s->V, s->O, s->L, m->dO, &shape);  // problem 09
        m->attention_seconds += seconds() - start;
        from_heads(m->dqkv, m->dQ, columns, B, T, Hq, D, -1);
        from_heads(m->dqkv + Hq * D, m->dK, columns, B, T, Hkv, D, -1);
        from_heads(m->dqkv + (Hq + Hkv) * D, m->dV, columns, B, T, Hkv, D, 0);
        linear_backward(m->dh, m->dp + m->at.layer[l].qkv, m->dqkv, s->h1, m->w + m->at.layer[l].qkv, n, columns, C);
        rmsnorm_backward(dx, m->dx_act, m->dp + m->at.layer[l].norm1, m->dh, s->x, s->r1, m->p + m->at.layer[l].norm1,
                         n, C);
    }
    embed_backward(m->dp + m->at.embedding, dx, m->text, n, C);
}

void model_update(model *m, int step, double rate)
{
    adamw(m->p, m->w, m->dp, m->m, m->v, m->at.count, step, (real)rate, (real)0.1);
}
