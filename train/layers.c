// layers.c - see layers.h. On the host: products by OpenBLAS, all else in plain loops that the compiler vectorises.
#include "layers.h"

#include <cblas.h>
#include <string.h>
#include <tgmath.h>  // exp of a float is expf

static size_t all_bytes;
size_t array_bytes(void) { return all_bytes; }
void *new_array(size_t bytes)
{
    void *const array = calloc(bytes ? bytes : 1, 1);
    all_bytes += bytes;
    if (!array) FAIL("no memory for %zu bytes more", bytes);
    return array;
}
void to_array(void *array, const void *host, size_t bytes) { memcpy(array, host, bytes); }
void from_array(void *host, const void *array, size_t bytes) { memcpy(host, array, bytes); }
void acts_to_array(act *array, const real *host, size_t n) { memcpy(array, host, n * sizeof *array); }
void acts_from_array(real *host, const act *array, size_t n) { memcpy(host, array, n * sizeof *host); }
void clear(real *x, size_t n) { memset(x, 0, n * sizeof *x); }
void narrow(act *y, const real *x, size_t n) { memmove(y, x, n * sizeof *y); }

void embed(real *x, const act *table, const unsigned char *text, int n, int width)
{
    for (int i = 0; i < n; i++) narrow(x + (size_t)i * width, table + (size_t)text[i] * width, width);
}
void embed_backward(real *dtable, const real *dx, const unsigned char *text, int n, int width)
{
    for (int i = 0; i < n; i++)
        for (int c = 0; c < width; c++) dtable[(size_t)text[i] * width + c] += dx[(size_t)i * width + c];
}

// c [m, n] = keep * c + a b. ta: a lies as [k, m]; tb: b lies as [n, k].
static void product(bool ta, bool tb, int m, int n, int k, const real *a, const real *b, real keep, real *c)
{
    _Generic((real)0, float
             : cblas_sgemm, double
             : cblas_dgemm)(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n, k, 1,
                            a, ta ? m : k, b, tb ? k : n, keep, c, n);
}
void linear_add(real *y, const real *base, const act *x, const act *w, int n, int out, int in)
{
    if (base) memcpy(y, base, (size_t)n * out * sizeof *y);
    product(false, true, n, out, in, x, w, base ? 1 : 0, y);
}
void linear(act *y, const act *x, const act *w, int n, int out, int in) { linear_add(y, NULL, x, w, n, out, in); }
void linear_backward(act *dx, real *dw, const act *dy, const act *x, const act *w, int n, int out, int in)
{
    product(false, false, n, in, out, dy, w, 0, dx);  // dx = dy w
    product(true, false, out, in, n, dy, x, 1, dw);   // dw += dy^T x
}

void rmsnorm(act *y, real *r, const real *x, const real *g, int n, int width)
{
    for (int i = 0; i < n; i++, x += width, y += width) {
        real sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int c = 0; c < width; c++) sum += x[c] * x[c];
        r[i] = 1 / sqrt(sum / width + (real)1e-5);
        for (int c = 0; c < width; c++) y[c] = g[c] * x[c] * r[i];
    }
}
void rmsnorm_backward(real *dx, act *dx_act, real *dg, const act *dy, const real *x, const real *r, const real *g,
                      int n, int width)
{
    for (int i = 0; i < n; i++, x += width, dx += width, dx_act += width, dy += width) {
        real dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int c = 0; c < width; c++) dot += dy[c] * g[c] * x[c];
        const real pull = dot * r[i] * r[i] / width;  // r depends on x as well
        for (int c = 0; c < width; c++) dg[c] += dy[c] * x[c] * r[i];
        for (int c = 0; c < width; c++) dx[c] += r[i] * (dy[c] * g[c] - x[c] * pull);
        narrow(dx_act, dx, width);
    }
}

// What RoPE rotates tokens by, before the position `end`: cosines and sines [end, D / 2].
static const real (*angles(int end, int D))[2]
{
    static real(*table)[2];
    static int made_for, made_until;
    if (made_for == D && made_until >= end) return (const real(*)[2])table;
    free(table);
    table = new_array((size_t)end * (D / 2) * sizeof *table), made_for = D, made_until = end;
    for (int d = 0; d < D / 2; d++)
        for (int t = 0; t < end; t++) {
            const double angle = t * pow(10000, -2.0 * d / D);
            table[(size_t)t * (D / 2) + d][0] = (real)cos(angle), table[(size_t)t * (D / 2) + d][1] = (real)sin(angle);
        }
    return (const real(*)[2])table;
}
static void move_heads(act *heads, act *rows, bool into_heads, int stride, const pieces *p, int H, int D, int turn)
{
    const int T = p->T, room = p->room, last = p->position[0] > p->position[1] ? p->position[0] : p->position[1];
    const real(*const table)[2] = angles(last + T, D);
    for (int at = 0; at < p->B * H * (T + room); at++, heads += D) {
        const int h = at / (T + room) % H, b = at / (T + room) / H, begin = p->position[b >= p->B / 2];
        const int t = at % (T + room) - (begin > 0 ? room : 0);
        if (t < 0 || t >= T) {
            if (into_heads) memset(heads, 0, (size_t)D * sizeof *heads);
            continue;
        }
        const real(*const angle)[2] = table + (size_t)(begin + t) * (D / 2);
        act *const row = rows + ((size_t)b * T + t) * stride + h * D, *const from = into_heads ? row : heads,
                   *const to = into_heads ? heads : row;
        for (int d = 0; d < D / 2; d++) {
            const real x = from[d], y = from[d + D / 2], cosine = turn ? angle[d][0] : 1, sine = turn * angle[d][1];
            to[d] = x * cosine - y * sine;
            to[d + D / 2] = x * sine + y * cosine;
        }
    }
}
void to_heads(act *heads, const act *rows, int stride, const pieces *p, int H, int D, int turn)
{
    move_heads(heads, (act *)rows, true, stride, p, H, D, turn);
}
void from_heads(act *rows, const act *heads, int stride, const pieces *p, int H, int D, int turn)
{
    move_heads((act *)heads, rows, false, stride, p, H, D, turn);
}
void copy_runs(act *y, size_t y_apart, const act *x, size_t x_apart, size_t n, int count)
{
    for (int i = 0; i < count; i++) memcpy(y + i * y_apart, x + i * x_apart, n * sizeof *y);
}
void add_runs(act *y, size_t y_apart, const act *x, size_t step, int many, size_t n, int count)
{
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < n; k++)
            for (int part = 0; part < many; part++) y[i * y_apart + k] += x[part * step + i * n + k];
}

void swiglu(act *a, const act *gu, int n, int hidden)
{
    for (int i = 0; i < n; i++, a += hidden, gu += 2 * hidden)
        for (int c = 0; c < hidden; c++) a[c] = gu[c] / (1 + exp(-gu[c])) * gu[hidden + c];
}
void swiglu_backward(act *dgu, const act *da, const act *gu, int n, int hidden)
{
    for (int i = 0; i < n; i++, da += hidden, gu += 2 * hidden, dgu += 2 * hidden)
        for (int c = 0; c < hidden; c++) {
            const real gate = gu[c], up = gu[hidden + c], s = 1 / (1 + exp(-gate));  // silu(gate) = gate * s
            dgu[c] = da[c] * up * s * (1 + gate * (1 - s));
            dgu[hidden + c] = da[c] * gate * s;
        }
}

double cross_entropy(act *dlogits, const real *logits, const unsigned char *target, int n, int width)
{
    double loss = 0;
    for (int i = 0; i < n; i++, logits += width, dlogits += width) {
        real max = logits[0], sum = 0;
        for (int c = 1; c < width; c++) max = logits[c] > max ? logits[c] : max;
        for (int c = 0; c < width; c++) sum += dlogits[c] = exp(logits[c] - max);
        loss += log((double)sum) - (logits[target[i]] - max);
        for (int c = 0; c < width; c++) dlogits[c] /= sum * n;
        dlogits[target[i]] -= (real)1 / n;
    }
    return loss / n;
}

void adamw(real *p, act *w, const real *dp, real *m, real *v, size_t count, int step, real rate, real decay)
{
    const real b1 = (real)0.9, b2 = (real)0.99;
    const real m_whole = 1 - (real)pow(0.9, step), v_whole = 1 - (real)pow(0.99, step);
    for (size_t i = 0; i < count; i++) {
        m[i] = b1 * m[i] + (1 - b1) * dp[i];
        v[i] = b2 * v[i] + (1 - b2) * dp[i] * dp[i];
        p[i] -= rate * (m[i] / m_whole / (sqrt(v[i] / v_whole) + (real)1e-8) + decay * p[i]);
    }
    narrow(w, p, count);
}
