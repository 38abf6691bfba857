// layers.c - see layers.h. On the host: products by OpenBLAS, all else in plain loops that the compiler vectorises.
#include "layers.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *new_array(size_t bytes)
{
    void *const array = calloc(bytes ? bytes : 1, 1);
    if (array) return array;
    fprintf(stderr, "train: no memory for %zu bytes more\n", bytes);
    exit(2);
}
void to_array(void *array, const void *host, size_t bytes) { memcpy(array, host, bytes); }
void from_array(void *host, const void *array, size_t bytes) { memcpy(host, array, bytes); }
void copy(real *y, const real *x, size_t n) { memcpy(y, x, n * sizeof *y); }
void clear(real *x, size_t n) { memset(x, 0, n * sizeof *x); }
void narrow(act *y, const real *x, size_t n)
{
    if (y != x) memcpy(y, x, n * sizeof *y);
}

void embed(real *x, const act *table, const unsigned char *text, int n, int width)
{
    for (int i = 0; i < n; i++) copy(x + (size_t)i * width, table + (size_t)text[i] * width, width);
}
void embed_backward(real *dtable, const real *dx, const unsigned char *text, int n, int width)
{
    for (int i = 0; i < n; i++)
        for (int c = 0; c < width; c++) dtable[(size_t)text[i] * width + c] += dx[(size_t)i * width + c];
}

// c [m, n] = keep * c + a b, each of them transposed first where it says so.
static void product(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, const real *a, const real *b,
                    real keep, real *c)
{
    const int lda = ta == CblasNoTrans ? k : m, ldb = tb == CblasNoTrans ? n : k;
    if (sizeof(real) == sizeof(double))
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, (const double *)a, lda, (const double *)b, ldb, keep,
                    (double *)c, n);
    else
        cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, (const float *)a, lda, (const float *)b, ldb, (float)keep,
                    (float *)c, n);
}
void linear_add(real *y, const act *x, const act *w, int n, int out, int in, real keep)
{
    product(CblasNoTrans, CblasTrans, n, out, in, x, w, keep, y);
}
void linear(act *y, const act *x, const act *w, int n, int out, int in) { linear_add(y, x, w, n, out, in, 0); }
void linear_backward(act *dx, real *dw, const act *dy, const act *x, const act *w, int n, int out, int in)
{
    product(CblasNoTrans, CblasNoTrans, n, in, out, dy, w, 0, dx);  // dx = dy w
    product(CblasTrans, CblasNoTrans, out, in, n, dy, x, 1, dw);    // dw += dy^T x
}

void rmsnorm(act *y, real *r, const real *x, const real *g, int n, int width)
{
    for (int i = 0; i < n; i++, x += width, y += width) {
        real sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int c = 0; c < width; c++) sum += x[c] * x[c];
        r[i] = 1 / (real)sqrt(sum / width + (real)1e-5);
        for (int c = 0; c < width; c++) y[c] = g[c] * x[c] * r[i];
    }
}
void rmsnorm_backward(real *dx, act *dx_act, real *dg, const act *dy, const real *x, const real *r, const real *g,
                      int n, int width)
{
    real *const all = dx;
    for (int i = 0; i < n; i++, x += width, dx += width, dy += width) {
        real dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int c = 0; c < width; c++) dot += dy[c] * g[c] * x[c];
        const real pull = dot * r[i] * r[i] / width;  // r depends on x as well
        for (int c = 0; c < width; c++) dg[c] += dy[c] * x[c] * r[i];
        for (int c = 0; c < width; c++) dx[c] += r[i] * (dy[c] * g[c] - x[c] * pull);
    }
    narrow(dx_act, all, (size_t)n * width);
}

// y [D] = x [D], rotated by the angles of the token at t.
static void rotate(act *y, const act *x, int t, int D, int turn)
{
    enum { MOST_T = 4096, MOST_D = 128 };
    static real table[MOST_T][MOST_D / 2][2];  // cosine and sine, made as far as they were asked for
    static int made, made_for;
    if (made_for != D) made = 0, made_for = D;
    for (; made <= t; made++)
        for (int d = 0; d < D / 2; d++) {
            const double angle = made * pow(10000, -2.0 * d / D);
            table[made][d][0] = (real)cos(angle), table[made][d][1] = (real)sin(angle);
        }
    for (int d = 0; d < D / 2; d++) {
        const real a = x[d], b = x[d + D / 2], cosine = turn ? table[t][d][0] : 1, sine = turn * table[t][d][1];
        y[d] = a * cosine - b * sine;
        y[d + D / 2] = a * sine + b * cosine;
    }
}
void to_heads(act *heads, const act *rows, int stride, int B, int T, int H, int D, int turn)
{
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int t = 0; t < T; t++)
                rotate(heads + (((size_t)b * H + h) * T + t) * D, rows + ((size_t)b * T + t) * stride + h * D, t, D,
                       turn);
}
void from_heads(act *rows, const act *heads, int stride, int B, int T, int H, int D, int turn)
{
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int t = 0; t < T; t++)
                rotate(rows + ((size_t)b * T + t) * stride + h * D, heads + (((size_t)b * H + h) * T + t) * D, t, D,
                       turn);
}

static real e_to(real x) { return sizeof(real) == sizeof(double) ? (real)exp(x) : (real)expf((float)x); }
void swiglu(act *a, const act *gu, int n, int hidden)
{
    for (int i = 0; i < n; i++, a += hidden, gu += 2 * hidden)
        for (int c = 0; c < hidden; c++) a[c] = gu[c] / (1 + e_to(-gu[c])) * gu[hidden + c];
}
void swiglu_backward(act *dgu, const act *da, const act *gu, int n, int hidden)
{
    for (int i = 0; i < n; i++, da += hidden, gu += 2 * hidden, dgu += 2 * hidden)
        for (int c = 0; c < hidden; c++) {
            const real gate = gu[c], up = gu[hidden + c], s = 1 / (1 + e_to(-gate));  // silu(gate) = gate * s
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
        for (int c = 0; c < width; c++) sum += dlogits[c] = e_to(logits[c] - max);
        loss += log(sum) - (logits[target[i]] - max);
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
        const real root = sizeof(real) == sizeof(double) ? (real)sqrt(v[i] / v_whole) : sqrtf((float)(v[i] / v_whole));
        p[i] -= rate * (m[i] / m_whole / (root + (real)1e-8) + decay * p[i]);
    }
    narrow(w, p, count);
}
