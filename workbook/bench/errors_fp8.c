// errors_fp8.c - how far attention in eight bits is from attention over the numbers themselves: relative error of O against the number of keys, of
// problem 10 (bf16) and of problem 16 (e4m3): in one level, in two, and in two with rows of Q and K that have gone through wb_hadamard.
//
//   errors_fp8 bf16=build/cpu/solutions/10.so e4m3=build/cpu/solutions/16.so >FILE.tsv        in this order; by `make errors-16`
//   errors_fp8 ... 256 >FILE.tsv                                                              no more than 256 keys, where there is little time
//
// Q, K and V are drawn and rounded to bf16, which 10 gets; the truth is the oracle's of these. The error is |O - truth| / |truth| over all rows, in
// the Euclidean norm. Exit status 1 if a function failed.
#include "bench.h"

#include "reference/oracle.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUERIES = 192, D = 128, SHORTEST = 64, LONGEST = 16384 };

// normal: all standard normal. mean_one: V has mean 1. outliers: one element of 1000 has a normal deviate of 10 more (Shah et al. 2024).
// column: one column of K is 16 times as large, and the same of Q as much smaller, so that the scores are what they were.
enum kind { NORMAL, MEAN_ONE, OUTLIERS, COLUMN, KINDS };
static const char *const inputs[] = {"normal", "mean_one", "outliers", "column"};

static uint64_t dice;
static double uniform(void)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return ((double)(dice >> 11) + 1) * 0x1p-53;
}
static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()); }

static float *draw(size_t rows, double mean, bool outliers)
{
    float *x = bench_alloc(rows * D * sizeof *x);
    for (size_t i = 0; i < rows * D; i++) {
        const double more = uniform() < 0.001 ? 10 * normal() : 0;
        x[i] = wb_from_bf16(wb_to_bf16((float)(normal() + mean + (outliers ? more : 0))));
    }
    return x;
}

static void *sent(const void *data, size_t bytes)
{
    void *at;
    bench_must(wb_device_alloc(&at, bytes));
    if (data) bench_must(wb_copy_to_device(at, data, bytes));
    return at;
}

static void *sent_bf16(const float *x, size_t rows)
{
    uint16_t *rounded = bench_alloc(rows * D * sizeof *rounded);
    for (size_t i = 0; i < rows * D; i++) rounded[i] = wb_to_bf16(x[i]);
    void *at = sent(rounded, rows * D * sizeof *rounded);
    free(rounded);
    return at;
}

// Rows, or tiles of keys, as e4m3, and their exponents; values: transposed.
static void sent_fp8(const float *x, int rows, int most, bool values, void **q, void **exponents)
{
    const int tiles = (rows - 1) / most + 1;
    uint8_t *bytes = bench_alloc((size_t)tiles * (size_t)most * D);
    int8_t *exponent = bench_alloc((size_t)tiles);
    for (int t = 0; t < tiles; t++) {
        const int count = rows - t * most < most ? rows - t * most : most;
        const float *from = x + (size_t)t * (size_t)most * D;
        uint8_t *to = bytes + (size_t)t * (size_t)most * D;
        exponent[t] =
            (int8_t)(values ? wb_quantise_fp8_values(to, from, count, D) : wb_quantise_fp8(to, from, count, D));
    }
    *q = sent(bytes, (size_t)(values ? tiles * most : rows) * D), *exponents = sent(exponent, (size_t)tiles);
    free(bytes), free(exponent);
}

// Rows that have gone through wb_hadamard, then times `factor`.
static float *spread(const float *x, int rows, float factor)
{
    float *y = bench_alloc((size_t)rows * D * sizeof *y);
    memcpy(y, x, (size_t)rows * D * sizeof *y);
    for (int r = 0; r < rows; r++) wb_hadamard(y + (size_t)r * D, D);
    for (size_t i = 0; i < (size_t)rows * D; i++) y[i] *= factor;
    return y;
}

enum way { BF16, ONE_LEVEL, TWO_LEVELS, HADAMARD, WAYS };  // the last: two levels, too
static const char *const labels[] = {"bf16", "one_level", "two_levels", "hadamard"};

static double error_of(wb_function function, enum way way, const float *Q, const float *K, const float *V, int keys,
                       const double *truth)
{
    typedef wb_status forward(void *, void *, void *, void *, void *, const attention_shape *, wb_stream);
    typedef wb_status fp8(void *, void *, void *, void *, void *, void *, void *, void *, int, const attention_shape *,
                          wb_stream);
    const attention_shape s = {1, 1, 1, QUERIES, keys, D, .scale = 1 / sqrtf(D)};
    void *p[8] = {sent(NULL, QUERIES * D * 2), sent(NULL, QUERIES * 4)};
    if (way == BF16) {
        p[2] = sent_bf16(Q, QUERIES), p[3] = sent_bf16(K, (size_t)keys), p[4] = sent_bf16(V, (size_t)keys);
        bench_must(((forward *)function)(p[0], p[1], p[2], p[3], p[4], &s, NULL));
    } else {
        float *spread_Q = spread(Q, QUERIES, 1.0f / D), *spread_K = spread(K, keys, 1);
        sent_fp8(way == HADAMARD ? spread_Q : Q, QUERIES, 1, false, &p[2], &p[5]);
        sent_fp8(way == HADAMARD ? spread_K : K, keys, WB_FP8_KEYS, false, &p[3], &p[6]);
        sent_fp8(V, keys, WB_FP8_KEYS, true, &p[4], &p[7]);
        bench_must(
            ((fp8 *)function)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], way == ONE_LEVEL ? 1 : 2, &s, NULL));
        free(spread_Q), free(spread_K);
    }
    bench_must(wb_device_synchronize());
    uint16_t *got = bench_alloc(QUERIES * D * sizeof *got);
    bench_must(wb_copy_to_host(got, p[0], QUERIES * D * sizeof *got));
    double off = 0, size = 0;
    for (size_t i = 0; i < QUERIES * D; i++) off += pow(wb_from_bf16(got[i]) - truth[i], 2), size += pow(truth[i], 2);
    for (int k = 0; k < 8; k++)
        if (p[k]) bench_must(wb_device_free(p[k]));
    free(got);
    return sqrt(off / size);
}

static wb_function load(const char *text, const char *label, const char *name)
{
    const size_t length = strlen(label);
    void *library = strncmp(text, label, length) == 0 && text[length] == '='
                        ? dlopen(text + length + 1, RTLD_NOW | RTLD_LOCAL)
                        : NULL;
    const wb_function function = library ? (wb_function)dlsym(library, name) : NULL;
    if (function) return function;
    bench_say("errors_fp8: %s: expected %s=PATH.so with %s in it\n", text, label, name);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        bench_say("usage: errors_fp8 bf16=10.so e4m3=16.so [LONGEST]\n");
        return 2;
    }
    const wb_function plain = load(argv[1], "bf16", "flash_hopper"), fp8 = load(argv[2], "e4m3", "flash_fp8");
    const int longest = argc == 4 ? atoi(argv[3]) : LONGEST;
    const wb_problem no_mask = {.mask = WB_NO_MASK};
    char machine[192], commit[128], date[64];
    const time_t now = time(NULL);
    bench_machine(machine, sizeof machine);
    bench_commit(commit, sizeof commit);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime(&now));
    printf("# commit: %s\n# machine: %s\n# device: %s\n# date: %s\n# command: make errors-16\n", commit, machine,
           wb_device_name(), date);
    printf("problem\timpl\tinput\tB\tHq\tHkv\tNk\tD\terror\n");
    double *truth = bench_alloc(QUERIES * D * sizeof *truth);
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (int keys = SHORTEST; keys <= longest; keys *= 2) {
            const attention_shape s = {1, 1, 1, QUERIES, keys, D, .scale = 1 / sqrtf(D)};
            dice = (uint64_t)(keys + kind);
            float *Q = draw(QUERIES, 0, kind == OUTLIERS), *K = draw((size_t)keys, 0, kind == OUTLIERS),
                  *V = draw((size_t)keys, kind == MEAN_ONE, kind == OUTLIERS);
            for (int i = 0; kind == COLUMN && i < QUERIES; i++) Q[i * D + D / 3] /= 16;
            for (int j = 0; kind == COLUMN && j < keys; j++) K[j * D + D / 3] *= 16;
#pragma omp parallel for schedule(dynamic, 1)
            for (int i = 0; i < QUERIES; i++) {
                double L;
                oracle_attention_row(&no_mask, &s, Q, K, V, NULL, 0, 0, i, truth + i * D, &L);
            }
            for (enum way way = 0; way < WAYS; way++)
                printf("16\t%s\t%s\t1\t1\t1\t%d\t%d\t%.4g\n", labels[way], inputs[kind], keys, D,
                       error_of(way == BF16 ? plain : fp8, way, Q, K, V, keys, truth));
            fflush(stdout);
            bench_say("errors_fp8: %s, %d keys\n", inputs[kind], keys);
            free(Q), free(K), free(V);
        }
    free(truth);
    return 0;
}
