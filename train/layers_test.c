// layers_test.c - do the two halves of layers.h agree? Compiled with layers.c in double it writes what each layer makes
// of inputs that bf16 can hold; compiled with layers.cu it makes the same on the GPU, and compares.
//   layers_test write FILE | layers_test compare FILE        exit status 1 if they differ by more than rounding
#include "case/case.h"
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, T = 70, N = B * T, W = 96, H = 40, HEADS = 3, D = 32, STRIDE = 128, BYTES = 256 };  // no size is a tile's
static FILE *file;
static bool writes, wrong;

static double *room(size_t n)
{
    double *const x = malloc(n * sizeof *x);
    if (!x) abort();
    return x;
}
static double draw(void) { return wb_from_bf16(wb_to_bf16((float)(2 * drand48() - 1))); }
static real *reals(size_t n)
{
    real *const host = (real *)room(n), *const array = new_array(n * sizeof *array);
    for (size_t i = 0; i < n; i++) host[i] = (real)draw();
    to_array(array, host, n * sizeof *array);
    return free(host), array;
}
static act *acts(size_t n)
{
    real *const x = reals(n);
    act *const array = new_array(n * sizeof *array);
    narrow(array, x, n);
    return array;
}

// Writes this output, or compares it with what was written. An act may be off by twice of what rounding to bf16 does on
// average. Of 8 significant bits the last half unit is 2^-8 of a power of two; a number is 1 to 2 times that power, all
// of these alike on a logarithmic scale, and the root mean square of 1 / them is 0.735; that of a number between -1 and
// 1 is 1 / sqrt(3).
static void output(const char *name, const void *array, size_t n, bool is_act)
{
    double *const got = room(n), *const want = room(n), error_allowed = is_act ? 2 * 0.735 * 0x1p-8 / 1.7320508 : 1e-5;
    real *const host = (real *)room(n);
    if (is_act)
        acts_from_array(host, array, n);
    else
        from_array(host, array, n * sizeof *host);
    for (size_t i = 0; i < n; i++) got[i] = host[i];
    if (writes ? fwrite(got, sizeof *got, n, file) != n : fread(want, sizeof *want, n, file) != n) {
        fprintf(stderr, "layers_test: the file ends too early\n");
        exit(2);
    }
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) error += pow(got[i] - want[i], 2), size += pow(want[i], 2);
    error = sqrt(error / size);
    if (!writes) {
        if (!(error <= error_allowed)) wrong = true;
        printf("%s  %-30s error %.1e, limit %.1e\n", error <= error_allowed ? "ok   " : "WRONG", name, error,
               error_allowed);
    }
    free(got), free(want), free(host);
}
#define REALS(x, n) output(#x, x, n, false)
#define ACTS(x, n)  output(#x, x, n, true)

static void attention_layout(void)
{
    const pieces cut = {B, T, 9, {0, 300}};  // one begins a sequence, the other does not
    enum { ALL = B * HEADS * (T + 9) * D, APART = (T + 9) * D, RUN = 2 * D, MANY = 3 };
    act *const columns = acts(N * STRIDE), *const heads = acts(ALL);
    to_heads(heads, columns, STRIDE, &cut, HEADS, D, 1);
    ACTS(heads, ALL);
    act *const back = acts(N * STRIDE), *const given = acts(ALL);
    from_heads(back, given, STRIDE, &cut, HEADS, D, -1);
    ACTS(back, N * STRIDE);
    act *const runs = acts(MANY * B * HEADS * RUN);
    copy_runs(heads + D, APART, runs, RUN, RUN, B * HEADS);
    add_runs(heads + 2 * D, APART, runs, B * HEADS * RUN, MANY, RUN, B * HEADS);
    ACTS(heads, ALL);
}

int main(int count, char **arguments)
{
    writes = count == 3 && strcmp(arguments[1], "write") == 0;
    file = count == 3 ? fopen(arguments[2], writes ? "wb" : "rb") : NULL;
    if (!file) {
        fprintf(stderr, "layers_test write FILE | layers_test compare FILE\n");
        return 2;
    }
    srand48(1);
    unsigned char bytes[N];
    for (int i = 0; i < N; i++) bytes[i] = (unsigned char)(i % 5 ? lrand48() % BYTES : 7);
    unsigned char *const text = new_array(N);
    to_array(text, bytes, N);

    act *const table = acts(BYTES * W), *const x = acts(N * W), *const w = acts(H * W), *const dy = acts(N * H);
    real *const stream = reals(N * W), *const g = reals(W), *const dtable = reals(BYTES * W), *const dw = reals(H * W);
    real *const embedded = new_array(N * W * sizeof(real));
    embed(embedded, table, text, N, W);
    REALS(embedded, N * W);
    embed_backward(dtable, stream, text, N, W);
    REALS(dtable, BYTES * W);

    act *const y = new_array(N * H * sizeof(act)), *const dx = new_array(N * W * sizeof(act));
    real *const base = reals(N * H), *const added = reals(N * H);
    linear(y, x, w, N, H, W);
    ACTS(y, N * H);
    linear_add(added, base, x, w, N, H, W);
    REALS(added, N * H);
    linear_backward(dx, dw, dy, x, w, N, H, W);
    ACTS(dx, N * W);
    REALS(dw, H * W);

    act *const normed = new_array(N * W * sizeof(act));
    real *const r = new_array(N * sizeof(real)), *const dstream = reals(N * W), *const dg = reals(W);
    rmsnorm(normed, r, stream, g, N, W);
    ACTS(normed, N * W);
    REALS(r, N);
    act *const rounded_dstream = new_array(N * W * sizeof(act));
    rmsnorm_backward(dstream, rounded_dstream, dg, x, stream, r, g, N, W);
    REALS(dstream, N * W);
    ACTS(rounded_dstream, N * W);
    REALS(dg, W);

    attention_layout();

    act *const gu = acts(N * 2 * H), *const a = new_array(N * H * sizeof(act)),
               *const dgu = new_array(N * 2 * H * sizeof(act));
    swiglu(a, gu, N, H);
    ACTS(a, N * H);
    swiglu_backward(dgu, dy, gu, N, H);
    ACTS(dgu, N * 2 * H);

    real *const logits = reals(N * BYTES), *const loss = new_array(sizeof(real));
    act *const dlogits = new_array(N * BYTES * sizeof(act));
    const real mean = (real)cross_entropy(dlogits, logits, text, N, BYTES);
    to_array(loss, &mean, sizeof mean);
    REALS(loss, 1);
    ACTS(dlogits, N * BYTES);

    real *const p = reals(N), *const dp = reals(N), *const m = reals(N), *const v = new_array(N * sizeof(real));
    act *const rounded = sizeof(act) == sizeof(real) ? (act *)p : new_array(N * sizeof(act));
    adamw(p, rounded, dp, m, v, N, 3, (real)0.01, (real)0.1);
    REALS(p, N);
    REALS(m, N);
    REALS(v, N);
    ACTS(rounded, N);
    fclose(file);
    return wrong;
}
