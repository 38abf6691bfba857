// errors.c - how far attention over a rounded cache is from attention over the numbers themselves: relative error of O against the length of
// the cache, of problem 13's cache (bf16) and of problem 14's (int8).
//
//   errors bf16=build/cpu/solutions/13.so int8=build/cpu/solutions/14.so >FILE.tsv      in this order; by `make errors`
//   errors ... 256 >FILE.tsv                       no sequence is longer than 256 keys, where there is little time
//
// Q, K and V are drawn as floats. The truth is the oracle's, of Q rounded to bf16, which both functions get, and of K and V as they were
// drawn. The error is |O - truth| / |truth| over all rows, in the Euclidean norm. Exit status 1 if a function failed.
#include "bench.h"

#include "reference/oracle.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { B = 4, HQ = 8, HKV = 2, D = 128, PAGE = 64, SHORTEST = 64, LONGEST = 16384 };

// normal: all standard normal. outliers: one column of K and V, the same in all rows, is 20 times as large, as some columns of real keys are.
static const char *const inputs[] = {"normal", "outliers"};
static const float OUTLIER = 20;

static uint64_t dice;
static double uniform(void)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return ((double)(dice >> 11) + 1) * 0x1p-53;
}
static float normal(void) { return (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform())); }

typedef struct numbers {
    int keys;
    float *Q, *K, *V;  // K and V [B * pages of a sequence, PAGE, HKV, D]: page p of sequence b is b * pages + p
    double *truth;     // [B, HQ, 1, D]
    decode_shape shape;
} numbers;

static size_t cache_of(const numbers *n) { return (size_t)n->shape.pages * PAGE * HKV * D; }

static numbers draw(int keys, bool outliers)
{
    const int pages = (keys - 1) / PAGE + 1;
    numbers n = {.keys = keys, .shape = {B, HQ, HKV, 1, D, 1 / sqrtf(D), PAGE, B * pages, pages}};
    const size_t cache = cache_of(&n);
    n.Q = bench_alloc(B * HQ * D * sizeof(float));
    n.K = bench_alloc(cache * sizeof(float)), n.V = bench_alloc(cache * sizeof(float));
    n.truth = bench_alloc(B * HQ * D * sizeof(double));
    dice = (uint64_t)keys;
    for (size_t i = 0; i < B * HQ * D; i++) n.Q[i] = wb_from_bf16(wb_to_bf16(normal()));
    for (size_t i = 0; i < cache; i++) {
        const float factor = outliers && i % D == 5 ? OUTLIER : 1;
        n.K[i] = factor * normal(), n.V[i] = factor * normal();
    }
    if (outliers)  // else it alone would decide about the weights
        for (size_t i = 5; i < B * HQ * D; i += D) n.Q[i] = wb_from_bf16(wb_to_bf16(n.Q[i] / OUTLIER));

    int *table = bench_alloc((size_t)pages * sizeof *table);
    float *K = bench_alloc((size_t)keys * D * sizeof *K), *V = bench_alloc((size_t)keys * D * sizeof *V);
    for (int bh = 0; bh < B * HKV; bh++) {
        for (int p = 0; p < pages; p++) table[p] = bh / HKV * pages + p;
        oracle_gather(&n.shape, n.K, table, bh % HKV, keys, K);
        oracle_gather(&n.shape, n.V, table, bh % HKV, keys, V);
        for (int r = bh * HQ / HKV; r < (bh + 1) * HQ / HKV; r++) {
            double L, logit, abs_V[D];
            oracle_decode_row(&n.shape, n.Q + r * D, K, V, keys, n.truth + r * D, &L, abs_V, &logit);
        }
    }
    free(table), free(K), free(V);
    return n;
}

// A tensor on the device.
static void *sent(const void *data, size_t bytes)
{
    void *at;
    bench_must(wb_device_alloc(&at, bytes));
    if (data) bench_must(wb_copy_to_device(at, data, bytes));
    return at;
}

static void *sent_bf16(const float *x, size_t count)
{
    uint16_t *rounded = bench_alloc(count * sizeof *rounded);
    for (size_t i = 0; i < count; i++) rounded[i] = wb_to_bf16(x[i]);
    void *at = sent(rounded, count * sizeof *rounded);
    free(rounded);
    return at;
}

// K or V as int8, and its scales, [pages, HKV, PAGE].
static void sent_int8(const numbers *n, const float *x, void **q, void **scale)
{
    const size_t rows = cache_of(n) / D;
    int8_t *bytes = bench_alloc(rows * D);
    float *scales = bench_alloc(rows * sizeof *scales);
    for (size_t row = 0; row < rows; row++)
        scales[(row / HKV / PAGE * HKV + row % HKV) * PAGE + row / HKV % PAGE] =
            wb_quantise_row(bytes + row * D, x + row * D, D);
    *q = sent(bytes, rows * D), *scale = sent(scales, rows * sizeof *scales);
    free(bytes), free(scales);
}

typedef struct implementation {
    const char *label;
    bool int8;
    wb_function function;
    wb_workspace_function workspace;
} implementation;

static double error_of(const implementation *impl, const numbers *n)
{
    typedef wb_status decode(void *, void *, void *, void *, void *, void *, void *, void *, size_t,
                             const decode_shape *, wb_stream);
    typedef wb_status decode_int8(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *,
                                  size_t, const decode_shape *, wb_stream);
    enum { O, L, Q, K, V, K_SCALE, V_SCALE, TABLE, LENS, WORKSPACE, COUNT };
    const size_t bytes = impl->workspace(&n->shape), rows = B * HQ;
    int lens[B], *table = bench_alloc((size_t)n->shape.pages * sizeof *table);
    for (int b = 0; b < B; b++) lens[b] = n->keys;
    for (int p = 0; p < n->shape.pages; p++) table[p] = p;
    void *p[COUNT] = {[O] = sent(NULL, rows * D * 2),   [L] = sent(NULL, rows * 4),
                      [Q] = sent_bf16(n->Q, rows * D),  [TABLE] = sent(table, (size_t)n->shape.pages * sizeof *table),
                      [LENS] = sent(lens, sizeof lens), [WORKSPACE] = sent(NULL, bytes ? bytes : 1)};
    if (impl->int8)
        sent_int8(n, n->K, &p[K], &p[K_SCALE]), sent_int8(n, n->V, &p[V], &p[V_SCALE]);
    else
        p[K] = sent_bf16(n->K, cache_of(n)), p[V] = sent_bf16(n->V, cache_of(n));
    const wb_status status =
        impl->int8 ? ((decode_int8 *)impl->function)(p[O], p[L], p[Q], p[K], p[V], p[K_SCALE], p[V_SCALE], p[TABLE],
                                                     p[LENS], p[WORKSPACE], bytes, &n->shape, NULL)
                   : ((decode *)impl->function)(p[O], p[L], p[Q], p[K], p[V], p[TABLE], p[LENS], p[WORKSPACE], bytes,
                                                &n->shape, NULL);
    bench_must(status);
    bench_must(wb_device_synchronize());
    uint16_t *got = bench_alloc(rows * D * sizeof *got);
    bench_must(wb_copy_to_host(got, p[O], rows * D * sizeof *got));
    double off = 0, size = 0;
    for (size_t i = 0; i < rows * D; i++) {
        off += pow(wb_from_bf16(got[i]) - n->truth[i], 2);
        size += pow(n->truth[i], 2);
    }
    for (int k = 0; k < COUNT; k++)
        if (p[k]) bench_must(wb_device_free(p[k]));
    free(got), free(table);
    return sqrt(off / size);
}

static implementation load(const char *text, const char *label, const char *name, bool int8)
{
    char workspace[64];
    const size_t length = strlen(label);
    void *library = strncmp(text, label, length) == 0 && text[length] == '='
                        ? dlopen(text + length + 1, RTLD_NOW | RTLD_LOCAL)
                        : NULL;
    snprintf(workspace, sizeof workspace, "%s_workspace", name);
    implementation impl = {label, int8, NULL, NULL};
    if (library) impl.function = (wb_function)dlsym(library, name);
    if (library) impl.workspace = (wb_workspace_function)dlsym(library, workspace);
    if (impl.function && impl.workspace) return impl;
    bench_say("errors: %s: expected %s=PATH.so with %s in it\n", text, label, name);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        bench_say("usage: errors bf16=13.so int8=14.so [LONGEST]\n");
        return 2;
    }
    const implementation impls[] = {load(argv[1], "bf16", "flash_decode", false),
                                    load(argv[2], "int8", "flash_decode_int8", true)};
    const int longest = argc == 4 ? atoi(argv[3]) : LONGEST;
    char machine[192], commit[128], date[64];
    const time_t now = time(NULL);
    bench_machine(machine, sizeof machine);
    bench_commit(commit, sizeof commit);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime(&now));
    printf("# commit: %s\n# machine: %s\n# device: %s\n# date: %s\n# command: make errors\n", commit, machine,
           wb_device_name(), date);
    printf("problem\timpl\tinput\tB\tHq\tHkv\tNk\tD\terror\n");
    for (int kind = 0; kind < 2; kind++)
        for (int keys = SHORTEST; keys <= longest; keys *= 2) {
            numbers n = draw(keys, kind == 1);
            for (int k = 0; k < 2; k++)
                printf("14\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.4g\n", impls[k].label, inputs[kind], B, HQ, HKV, keys, D,
                       error_of(&impls[k], &n));
            fflush(stdout);
            bench_say("errors: %s, %d keys\n", inputs[kind], keys);
            free(n.Q), free(n.K), free(n.V), free(n.truth);
        }
    return 0;
}
