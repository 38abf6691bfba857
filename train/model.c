// model.c - see model.h. The layers in order, and in the opposite order; no loop over numbers but the first weights.
#include "model.h"
#include "context.h"
#include "ranks.h"

#include <math.h>

static places place(const config *c)
{
    places at = {.embedding = 0};
    const size_t C = (size_t)c->width, QD = (size_t)c->q_heads * c->head_dim, KD = QD / c->q_heads * c->kv_heads;
    size_t n = VOCABULARY * C;
#define TAKE(tensor, size) (at.tensor = n, n += (size))
    for (int l = 0; l < c->layers; l++) {
        TAKE(layer[l].q, QD * C);
        TAKE(layer[l].k, KD * C);
        TAKE(layer[l].v, KD * C);
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

static void first_weights(model *m, unsigned seed)
{
    real *const p = malloc(m->at.count * sizeof *p);
    if (!p) FAIL("no memory for the first weights");
    srand48(seed);
    for (size_t i = 0; i < m->at.count; i++) {
        double normal = -6;  // the sum of twelve uniform numbers
        for (int k = 0; k < 12; k++) normal += drand48();
        p[i] = i < m->at.matrices ? (real)(0.02 * normal) : 1;
    }
    to_array(m->p, p, m->at.count * sizeof *p);
    narrow(m->w, m->p, m->at.count);
    free(p);
}

void model_create(model *m, const config *c, const attention *by, int max_rows, int more, unsigned seed)
{
#define REALS(n) new_array((n) * sizeof(real))
#define ACTS(n)  new_array((n) * sizeof(act))
    const size_t n = (size_t)max_rows, C = (size_t)c->width, QD = (size_t)c->q_heads * c->head_dim,
                 KD = (size_t)c->kv_heads * c->head_dim, H = (size_t)c->hidden;
    *m = (model){.c = *c, .at = place(c), .attention = by};
    const size_t count = m->at.count;
    m->p = REALS(3 * count), m->m = m->p + count, m->v = m->m + count, m->dp = REALS(count);
    m->w = sizeof(act) == sizeof(real) ? (act *)m->p : ACTS(count);
    first_weights(m, seed);
    m->x = REALS(n * C), m->r = REALS(n), m->logits = REALS(n * VOCABULARY), m->dx = REALS(n * C);
    m->h = ACTS(n * C), m->dlogits = ACTS(n * VOCABULARY), m->dx_act = ACTS(n * C), m->dh = ACTS(n * (C > QD ? C : QD));
    m->dqkv = ACTS(n * (QD + 2 * KD)), m->dgu = ACTS(n * 2 * H), m->da = ACTS(n * H);
    m->text = new_array(n), m->target = new_array(n);
    const size_t rows = n + (size_t)more;
    heads one = {.dQ = ACTS(rows * QD), .dK = ACTS(rows * KD), .dV = ACTS(rows * KD), .dO = ACTS(rows * QD)};
    for (saved *s = m->layer; s < m->layer + c->layers; s++) {
        one.Q = ACTS(rows * QD), one.K = ACTS(rows * KD), one.V = ACTS(rows * KD), one.O = ACTS(rows * QD);
        one.L = REALS(rows * c->q_heads);
        *s = (saved){.x = REALS(n * C), .r1 = REALS(n), .x2 = REALS(n * C), .r2 = REALS(n), .heads = one};
        s->h1 = ACTS(n * C), s->o = ACTS(n * QD), s->h2 = ACTS(n * C), s->gu = ACTS(n * 2 * H), s->a = ACTS(n * H);
    }
}

static int model_rows(const model *m, int B, int T) { return B * T / (m->split ? ranks.all : 1); }

// What layer l's attention is of: its pieces and its shape. One that sees all has a window of all, or where split is a
// ring's.
static void see_layer(model *m, int l, int B, int T)
{
    const config *const c = &m->c;
    heads *const x = &m->layer[l].heads;
    const bool full = c->full > 0 && (l + 1) % c->full == 0;
    x->whole = m->split && full;
    x->pieces = m->split ? context_pieces(B, T, full ? 0 : c->sinks + c->window - 1) : (pieces){B, T, 0, {0, 0}};
    const int rows = x->whole ? T : x->pieces.T + x->pieces.room;
    x->shape = (attention_shape){.batch = x->whole ? B : x->pieces.B,
                                 .q_heads = c->q_heads,
                                 .kv_heads = c->kv_heads,
                                 .q_len = rows,
                                 .kv_len = rows,
                                 .head_dim = c->head_dim,
                                 .scale = (float)(1 / sqrt(c->head_dim)),
                                 .causal = 1,
                                 .window = full ? T : c->window,
                                 .sinks = full ? 0 : c->sinks};
}

void model_forward(model *m, const unsigned char *text, int B, int T)
{
    const config *const c = &m->c;
    const int n = model_rows(m, B, T), C = c->width, Hq = c->q_heads, Hkv = c->kv_heads, D = c->head_dim, H = c->hidden,
              columns = (Hq + 2 * Hkv) * D;

    to_array(m->text, text, (size_t)n);
    embed(m->layer[0].x, m->w + m->at.embedding, m->text, n, C);
    for (int l = 0; l < c->layers; l++) {
        saved *const s = &m->layer[l];
        heads *const a = &s->heads;
        const struct layer_places *const at = &m->at.layer[l];
        act *const qkv = m->dqkv;  // not needed yet
        see_layer(m, l, B, T);

        rmsnorm(s->h1, s->r1, s->x, m->p + at->norm1, n, C);
        linear(qkv, s->h1, m->w + at->q, n, columns, C);
        to_heads(a->Q, qkv, columns, &a->pieces, Hq, D, 1);
        to_heads(a->K, qkv + Hq * D, columns, &a->pieces, Hkv, D, 1);
        to_heads(a->V, qkv + (Hq + Hkv) * D, columns, &a->pieces, Hkv, D, 0);
        if (m->split) context_borrow(a);
        (a->whole ? m->ring : m->attention)->forward(a);  // problem 07
        from_heads(s->o, a->O, Hq * D, &a->pieces, Hq, D, 0);
        linear_add(s->x2, s->x, s->o, m->w + at->out, n, C, Hq * D);

        rmsnorm(s->h2, s->r2, s->x2, m->p + at->norm2, n, C);
        linear(s->gu, s->h2, m->w + at->up, n, 2 * H, C);
        swiglu(s->a, s->gu, n, H);
        linear_add(l + 1 < c->layers ? s[1].x : m->x, s->x2, s->a, m->w + at->down, n, C, H);
    }
    rmsnorm(m->h, m->r, m->x, m->p + m->at.norm, n, C);
    linear_add(m->logits, NULL, m->h, m->w + m->at.embedding, n, VOCABULARY, C);
}

double model_loss(model *m, const unsigned char *text, const unsigned char *target, int B, int T)
{
    model_forward(m, text, B, T);
    const int n = model_rows(m, B, T);
    to_array(m->target, target, (size_t)n);
    return cross_entropy(m->dlogits, m->logits, m->target, n, VOCABULARY);
}

void model_backward(model *m, int B, int T)
{
    const config *const c = &m->c;
    const int n = model_rows(m, B, T), C = c->width, Hq = c->q_heads, Hkv = c->kv_heads, D = c->head_dim, H = c->hidden,
              columns = (Hq + 2 * Hkv) * D;
    real *const p = m->p, *const dp = m->dp, *const dx = m->dx;
    act *const w = m->w;

    clear(dp, m->at.count);
    clear(dx, (size_t)n * C);
    linear_backward(m->dh, dp + m->at.embedding, m->dlogits, m->h, w + m->at.embedding, n, VOCABULARY, C);
    rmsnorm_backward(dx, m->dx_act, dp + m->at.norm, m->dh, m->x, m->r, p + m->at.norm, n, C);
    for (int l = c->layers - 1; l >= 0; l--) {
        const saved *const s = &m->layer[l];
        const heads *const a = &s->heads;
        const struct layer_places *const at = &m->at.layer[l];

        linear_backward(m->da, dp + at->down, m->dx_act, s->a, w + at->down, n, C, H);
        swiglu_backward(m->dgu, m->da, s->gu, n, H);
        linear_backward(m->dh, dp + at->up, m->dgu, s->h2, w + at->up, n, 2 * H, C);
        rmsnorm_backward(dx, m->dx_act, dp + at->norm2, m->dh, s->x2, s->r2, p + at->norm2, n, C);

        linear_backward(m->dh, dp + at->out, m->dx_act, s->o, w + at->out, n, C, Hq * D);
        to_heads(a->dO, m->dh, Hq * D, &a->pieces, Hq, D, 0);
        (a->whole ? m->ring : m->attention)->backward(a);  // problem 09
        if (m->split) context_return(a);
        from_heads(m->dqkv, a->dQ, columns, &a->pieces, Hq, D, -1);
        from_heads(m->dqkv + Hq * D, a->dK, columns, &a->pieces, Hkv, D, -1);
        from_heads(m->dqkv + (Hq + Hkv) * D, a->dV, columns, &a->pieces, Hkv, D, 0);
        linear_backward(m->dh, dp + at->q, m->dqkv, s->h1, w + at->q, n, columns, C);
        rmsnorm_backward(dx, m->dx_act, dp + at->norm1, m->dh, s->x, s->r1, p + at->norm1, n, C);
        const size_t end = l + 1 < c->layers ? at[1].q : m->at.matrices;
        ranks_average(dp + at->q, end - at->q);  // on a GPU under what comes next
    }
    embed_backward(dp + m->at.embedding, dx, m->text, n, C);
    ranks_average(dp + m->at.embedding, m->at.layer[0].q);
    ranks_average(dp + m->at.matrices, m->at.count - m->at.matrices);
}

void model_update(model *m, int step, double rate)
{
    adamw(m->p, m->w, m->dp, m->m, m->v, m->at.count, step, (real)rate, (real)0.1);
}
