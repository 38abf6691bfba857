// check.c - are the gradients right? Compiled with REAL=double: each layer alone, then the whole model, against finite
// differences. Prints a line each; exit status 1 if a relative error exceeds 1e-6.
#include "model.h"

#include <math.h>

enum { N = 6, W = 8, H = 5, B = 2, T = 3, HEADS = 2, D = 16 };  // N = B T rows; heads take HEADS D columns
static bool wrong;
static double (*loss)(void);

static double draw(void) { return 2 * drand48() - 1; }
static void fill(real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = draw();
}

// Whether dx is the gradient of loss() at x, in `tries` of its n elements.
static void check(const char *name, real *x, const real *dx, size_t n, int tries)
{
    double error = 0, size = 0;
    for (int k = 0; k < tries; k++) {
        const size_t i = (size_t)lrand48() % n;
        const double at = x[i], h = 1e-5;
        x[i] = at + h;
        const double above = loss();
        x[i] = at - h;
        const double want = (above - loss()) / (2 * h);
        x[i] = at;
        error += pow(want - dx[i], 2), size += want * want;
    }
    const double relative = sqrt(error / size);
    if (!(relative <= 1e-6)) wrong = true;
    printf("%s  %-30s relative error %.1e\n", relative <= 1e-6 ? "ok   " : "WRONG", name, relative);
}

// A layer's inputs, output and gradients; the loss of a layer is the sum of its output times u.
enum { ROOM = N * 2 * HEADS * D };
static real x[ROOM], w[ROOM], y[ROOM], u[ROOM], dx[ROOM], dw[ROOM], r[N];
static const pieces halves = {B, T, 0, {0, 7}};
static const unsigned char bytes[N] = {1, 3, 1, 0, 2, 3};
static double sum(size_t n)
{
    double s = 0;
    for (size_t i = 0; i < n; i++) s += y[i] * u[i];
    return s;
}
static void begin(double (*of)(void))
{
    loss = of;
    fill(x, ROOM), fill(w, ROOM), fill(u, ROOM);
    clear(dx, ROOM), clear(dw, ROOM);
}

static double embed_loss(void) { return embed(y, w, bytes, N, W), sum(N * W); }
static double linear_loss(void) { return linear(y, x, w, N, H, W), sum(N * H); }
static double add_loss(void)
{
    real base[N * H];
    for (int i = 0; i < N * H; i++) base[i] = 0.5 * i;
    return linear_add(y, base, x, w, N, H, W), sum(N * H);
}
static double rmsnorm_loss(void) { return rmsnorm(y, r, x, w, N, W), sum(N * W); }
static double to_heads_loss(void) { return to_heads(y, x, HEADS * D, &halves, HEADS, D, 1), sum(ROOM / 2); }
static double from_heads_loss(void) { return from_heads(y, x, HEADS * D, &halves, HEADS, D, 0), sum(ROOM / 2); }
static double swiglu_loss(void) { return swiglu(y, x, N, H), sum(N * H); }
static double entropy_loss(void) { return cross_entropy(y, x, bytes, N, W); }

static void check_layers(void)
{
    begin(embed_loss);
    embed_backward(dw, u, bytes, N, W);
    check("embed: table", w, dw, 4 * W, 40);
    begin(linear_loss);
    linear_backward(dx, dw, u, x, w, N, H, W);
    check("linear: x", x, dx, N * W, 40), check("linear: w", w, dw, H * W, 40);
    begin(add_loss);
    linear_backward(dx, dw, u, x, w, N, H, W);
    check("linear_add: x", x, dx, N * W, 40), check("linear_add: w", w, dw, H * W, 40);
    begin(rmsnorm_loss);
    loss();  // r
    rmsnorm_backward(dx, dx, dw, u, x, r, w, N, W);
    check("rmsnorm: x", x, dx, N * W, 40), check("rmsnorm: g", w, dw, W, 40);
    begin(to_heads_loss);
    from_heads(dx, u, HEADS * D, &halves, HEADS, D, -1);
    check("to_heads, RoPE: x", x, dx, ROOM / 2, 60);
    begin(from_heads_loss);
    to_heads(dx, u, HEADS * D, &halves, HEADS, D, 0);
    check("from_heads: x", x, dx, ROOM / 2, 60);
    begin(swiglu_loss);
    swiglu_backward(dx, u, x, N, H);
    check("swiglu: gate and up", x, dx, N * 2 * H, 60);
    begin(entropy_loss);
    cross_entropy(dx, x, bytes, N, W);
    check("cross_entropy: logits", x, dx, N * W, 40);
}

// AdamW has no backward: its first step, with m^ = dp and v^ = dp^2, moves p by the rate and the decay whatever the
// gradient's size.
static void check_adamw(void)
{
    real p[2] = {2, -3}, step[2] = {4, -1e-4}, m[2] = {0}, v[2] = {0};
    adamw(p, p, step, m, v, 2, 1, 0.01, 0.1);
    const double error = fmax(fabs(p[0] - (2 - 0.01 * (1 + 0.2))), fabs(p[1] - (-3 - 0.01 * (-1 - 0.3))));
    if (!(error < 1e-5)) wrong = true;  // 1e-8 beside 1e-4
    adamw(p, p, step, m, v, 2, 2, 0.01, 0);
    const double second = fabs(p[0] - (2 - 0.01 * 1.2 - 0.01));  // the same gradient again: the same m^ and v^
    if (!(second < 1e-5)) wrong = true;
    printf("%s  adamw: two steps                error %.1e\n", error < 1e-5 && second < 1e-5 ? "ok   " : "WRONG",
           fmax(error, second));
}

static model whole;
enum { BATCH = 2, CONTEXT = 21 };
static unsigned char text[BATCH * CONTEXT], target[BATCH * CONTEXT];
static double model_now(void) { return model_loss(&whole, text, target, BATCH, CONTEXT); }

static void check_model(void)
{
    const config c = {.layers = 2,
                      .width = 24,
                      .q_heads = 4,
                      .kv_heads = 2,
                      .head_dim = 16,
                      .hidden = 20,
                      .context = CONTEXT,
                      .window = 5,
                      .sinks = 2,
                      .full = 2};
    model *const m = &whole;
    model_create(m, &c, &naive_attention, BATCH * CONTEXT, 0, 1);
    for (size_t i = 0; i < m->at.count; i++) m->p[i] += 0.15 * draw();  // scores of a size that a softmax feels
    for (int i = 0; i < BATCH * CONTEXT; i++)
        text[i] = (unsigned char)(lrand48() % 256), target[i] = (unsigned char)(lrand48() % 256);
    loss = model_now;
    loss();
    model_backward(m, BATCH, CONTEXT);
    real *const d = malloc(m->at.count * sizeof *d);  // loss() leaves dp alone, but let nobody depend on it
    if (!d) FAIL("no memory");
    from_array(d, m->dp, m->at.count * sizeof *d);
    const size_t C = 24, Q = 64 * C, K = 32 * C;
    const struct {
        const char *name;
        size_t at, n;
    } kinds[] = {{"model: embedding", m->at.embedding, 256 * C},
                 {"model: Wq", m->at.layer[0].q, Q},
                 {"model: Wk", m->at.layer[0].k, K},
                 {"model: Wv", m->at.layer[0].v, K},
                 {"model: Wo", m->at.layer[0].out, Q},
                 {"model: norm1", m->at.layer[0].norm1, C},
                 {"model: norm2", m->at.layer[0].norm2, C},
                 {"model: up", m->at.layer[0].up, 40 * C},
                 {"model: down", m->at.layer[0].down, 20 * C},
                 {"model: Wq Wk Wv of layer 1", m->at.layer[1].q, 128 * C},
                 {"model: norm", m->at.norm, C}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        check(kinds[k].name, m->p + kinds[k].at, d + kinds[k].at, kinds[k].n, 40);
    free(d);
}

int main(void)
{
    srand48(1);
    check_layers();
    check_adamw();
    check_model();
    printf("%s\n", wrong ? "some gradients are WRONG" : "all gradients are correct");
    return wrong;
}
