// errors.c - how far attention over rounded numbers is from attention over the numbers themselves: relative error of O
// against the number of keys. By `make errors` and `make errors-16`:
//
//   errors 14 bf16=13.so int8=14.so [LONGEST] >FILE.tsv   of a cache in bf16 (problem 13) and in int8 (14)
//   errors 16 bf16=10.so e4m3=16.so [LONGEST] >FILE.tsv   of bf16 (10) and of e4m3 (16): in one level, in two, and in
//                                                         two with rows of Q and K that went through wb_hadamard
//
// LONGEST: no more keys than that, where there is little time. The truth is the oracle's: in 14 of Q rounded to bf16,
// of K and V as they were drawn; in 16 all are rounded first. The error is |O - truth| / |truth| over all rows, in the
// Euclidean norm. Exit status 1 if a function failed, 2 if the command line is wrong.
#include "bench.h"

#include "case/pages.h"
#include "reference/oracle.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { D = 128, SHORTEST = 64, LONGEST = 16384 };

static uint64_t dice;
static double uniform(void)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return ((double)(dice >> 11) + 1) * 0x1p-53;
}
static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()); }
static float rounded(double x) { return wb_from_bf16(wb_to_bf16((float)x)); }
static float *floats(size_t count) { return bench_alloc(count * sizeof(float)); }

// What a call has on the device: given back by error_of.
static void *held[16];
static int holds;

static void *sent(const void *data, size_t bytes)
{
    void *at;
    bench_must(wb_device_alloc(&at, bytes ? bytes : 1));
    if (data) bench_must(wb_copy_to_device(at, data, bytes));
    return held[holds++] = at;
}

static void *sent_bf16(const float *x, size_t count)
{
    uint16_t *bits = bench_alloc(count * sizeof *bits);
    for (size_t i = 0; i < count; i++) bits[i] = wb_to_bf16(x[i]);
    void *at = sent(bits, count * sizeof *bits);
    free(bits);
    return at;
}

// Of a call that returned `status` and left its bf16 at O, beside `count` numbers of the truth.
static double error_of(wb_status status, const void *O, const double *truth, size_t count)
{
    uint16_t *got = bench_alloc(count * sizeof *got);
    double off = 0, size = 0;
    bench_must(status);
    bench_must(wb_device_synchronize());
    bench_must(wb_copy_to_host(got, O, count * sizeof *got));
    for (size_t i = 0; i < count; i++) off += pow(wb_from_bf16(got[i]) - truth[i], 2), size += pow(truth[i], 2);
    while (holds > 0) bench_must(wb_device_free(held[--holds]));
    free(got);
    return sqrt(off / size);
}

// LABEL=PATH.so: what it has under this name.
static wb_function find(const char *text, const char *label, const char *name)
{
    const size_t length = strlen(label);
    void *library = strncmp(text, label, length) == 0 && text[length] == '='
                        ? dlopen(text + length + 1, RTLD_NOW | RTLD_LOCAL)
                        : NULL;
    const wb_function function = library ? (wb_function)dlsym(library, name) : NULL;
    if (function) return function;
    bench_say("errors: %s: expected %s=PATH.so with %s in it\n", text, label, name);
    exit(2);
}

// ------------------------ 14: a cache in pages

enum { B = 4, HQ = 8, HKV = 2, PAGE = 64, ROWS = B * HQ };

// outliers: one column of K and V, the same in all rows, is 20 times as large, as some columns of real keys are.
static const char *const cache_inputs[] = {"normal", "outliers"};
static const float OUTLIER = 20;

typedef struct cache {
    wb_case c;
    size_t count;      // numbers of K, or of V
    float *Q, *K, *V;  // K and V [B * pages of a sequence, PAGE, HKV, D]: page p of sequence b is b * pages + p
    double *truth;     // [B, HQ, 1, D]
    decode_shape shape;
} cache;

static cache draw_cache(int keys, bool outliers)
{
    const int pages = (keys - 1) / PAGE + 1;
    cache n = {.c = {.shape = {B, HQ, HKV, 1, keys, D, .scale = 1 / sqrtf(D)},
                     .page = PAGE,
                     .pages = B * pages,
                     .max_pages = pages}};
    n.shape = wb_decode_shape(&n.c);
    n.count = (size_t)n.shape.pages * PAGE * HKV * D;
    n.Q = floats(ROWS * D), n.K = floats(n.count), n.V = floats(n.count);
    n.truth = bench_alloc(ROWS * D * sizeof(double));
    dice = (uint64_t)keys;
    for (size_t i = 0; i < ROWS * D; i++) n.Q[i] = rounded(normal());
    for (size_t i = 0; i < n.count; i++) {
        const float factor = outliers && i % D == 5 ? OUTLIER : 1;
        n.K[i] = factor * (float)normal(), n.V[i] = factor * (float)normal();
    }
    for (size_t i = 5; outliers && i < ROWS * D; i += D)  // else it alone would decide about the weights
        n.Q[i] = rounded(n.Q[i] / OUTLIER);

    int *table = bench_alloc((size_t)pages * sizeof *table);
    float *K = floats((size_t)keys * D), *V = floats((size_t)keys * D);
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

// K or V as int8, and its scales, [pages, HKV, PAGE].
static void sent_int8(const cache *n, const float *x, void **q, void **scale)
{
    const size_t rows = n->count / D;
    int8_t *bytes = bench_alloc(rows * D);
    float *scales = floats(rows);
    for (size_t row = 0; row < rows; row++)
        scales[(row / HKV / PAGE * HKV + row % HKV) * PAGE + row / HKV % PAGE] =
            wb_quantise_row(bytes + row * D, x + row * D, D);
    *q = sent(bytes, rows * D), *scale = sent(scales, rows * sizeof *scales);
    free(bytes), free(scales);
}

static double error_of_cache(int number, wb_function function, wb_workspace_function workspace, const cache *n)
{
    wb_workspace memory = {.bytes = workspace(&n->shape)};
    void *p[10] = {sent(NULL, ROWS * D * 2), sent(NULL, ROWS * 4), sent_bf16(n->Q, ROWS * D)};
    const size_t pages = (size_t)n->shape.pages;
    int lens[B], *numbers = bench_alloc(pages * sizeof *numbers), at = 5;
    for (int b = 0; b < B; b++) lens[b] = n->c.shape.kv_len;
    for (size_t page = 0; page < pages; page++) numbers[page] = (int)page;
    if (number == 14)
        sent_int8(n, n->K, &p[3], &p[5]), sent_int8(n, n->V, &p[4], &p[6]), at = 7;
    else
        p[3] = sent_bf16(n->K, n->count), p[4] = sent_bf16(n->V, n->count);
    memory.at = sent(NULL, memory.bytes);
    p[at] = sent(numbers, pages * sizeof *numbers), p[at + 1] = sent(lens, sizeof lens), p[at + 2] = &memory;
    free(numbers);
    return error_of(wb_call(wb_problem_number(number), function, &n->c, p, NULL), p[0], n->truth, ROWS * D);
}

static void errors_of_caches(char **argv, int longest)
{
    const wb_function plain = find(argv[2], "bf16", "flash_decode"), int8 = find(argv[3], "int8", "flash_decode_int8");
    const wb_workspace_function of_bf16 = (wb_workspace_function)find(argv[2], "bf16", "flash_decode_workspace");
    const wb_workspace_function of_int8 = (wb_workspace_function)find(argv[3], "int8", "flash_decode_int8_workspace");
    for (int kind = 0; kind < 2; kind++)
        for (int keys = SHORTEST; keys <= longest; keys *= 2) {
            cache n = draw_cache(keys, kind == 1);
            const double error[] = {error_of_cache(13, plain, of_bf16, &n), error_of_cache(14, int8, of_int8, &n)};
            for (int k = 0; k < 2; k++)
                printf("14\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.4g\n", k ? "int8" : "bf16", cache_inputs[kind], B, HQ, HKV,
                       keys, D, error[k]);
            fflush(stdout);
            bench_say("errors: %s, %d keys\n", cache_inputs[kind], keys);
            free(n.Q), free(n.K), free(n.V), free(n.truth);
        }
}

// ------------------------ 16: in eight bits

enum { QUERIES = 192 };

// mean_one: V has mean 1. outliers: one element of 1000 has a normal deviate of 10 more (Shah et al. 2024). column: one
// column of K is 16 times as large, and the same of Q as much smaller, so that the scores are what they were.
enum kind { NORMAL, MEAN_ONE, OUTLIERS, COLUMN, KINDS };
static const char *const inputs[] = {"normal", "mean_one", "outliers", "column"};

static float *draw(size_t rows, double mean, bool outliers)
{
    float *x = floats(rows * D);
    for (size_t i = 0; i < rows * D; i++) {
        const double more = uniform() < 0.001 ? 10 * normal() : 0;
        x[i] = rounded(normal() + mean + (outliers ? more : 0));
    }
    return x;
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
    float *y = floats((size_t)rows * D);
    memcpy(y, x, (size_t)rows * D * sizeof *y);
    for (int r = 0; r < rows; r++) wb_hadamard(y + (size_t)r * D, D);
    for (size_t i = 0; i < (size_t)rows * D; i++) y[i] *= factor;
    return y;
}

enum way { BF16, ONE_LEVEL, TWO_LEVELS, HADAMARD, WAYS };  // the last: two levels, too
static const char *const labels[] = {"bf16", "one_level", "two_levels", "hadamard"};

static double error_of_way(wb_function function, enum way way, const float *Q, const float *K, const float *V,
                           const attention_shape *s, const double *truth)
{
    const wb_case c = {.shape = *s, .levels = way == ONE_LEVEL ? 1 : 2};
    const int keys = s->kv_len;
    void *p[8] = {sent(NULL, QUERIES * D * 2), sent(NULL, QUERIES * 4)};
    if (way == BF16) {
        p[2] = sent_bf16(Q, QUERIES * D), p[3] = sent_bf16(K, (size_t)keys * D), p[4] = sent_bf16(V, (size_t)keys * D);
    } else {
        float *spread_Q = spread(Q, QUERIES, 1.0f / D), *spread_K = spread(K, keys, 1);
        sent_fp8(way == HADAMARD ? spread_Q : Q, QUERIES, 1, false, &p[2], &p[5]);
        sent_fp8(way == HADAMARD ? spread_K : K, keys, WB_FP8_KEYS, false, &p[3], &p[6]);
        sent_fp8(V, keys, WB_FP8_KEYS, true, &p[4], &p[7]);
        free(spread_Q), free(spread_K);
    }
    const wb_problem *problem = wb_problem_number(way == BF16 ? 10 : 16);
    return error_of(wb_call(problem, function, &c, p, NULL), p[0], truth, QUERIES * D);
}

static void errors_of_eight_bits(char **argv, int longest)
{
    const wb_function plain = find(argv[2], "bf16", "flash_hopper"), fp8 = find(argv[3], "e4m3", "flash_fp8");
    const wb_problem no_mask = {.mask = WB_NO_MASK};
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
                       error_of_way(way == BF16 ? plain : fp8, way, Q, K, V, &s, truth));
            fflush(stdout);
            bench_say("errors: %s, %d keys\n", inputs[kind], keys);
            free(Q), free(K), free(V);
        }
    free(truth);
}

int main(int argc, char **argv)
{
    const int problem = argc > 1 ? atoi(argv[1]) : 0;
    if (argc < 4 || argc > 5 || (problem != 14 && problem != 16)) {
        bench_say("usage: errors 14 bf16=13.so int8=14.so [LONGEST], or errors 16 bf16=10.so e4m3=16.so [LONGEST]\n");
        return 2;
    }
    const int longest = argc == 5 ? atoi(argv[4]) : LONGEST;
    char machine[192], commit[128], date[64];
    bench_machine(machine, sizeof machine);
    bench_commit(commit, sizeof commit);
    bench_date(date, sizeof date);
    printf("# commit: %s\n# machine: %s\n# device: %s\n# date: %s\n# command: make errors%s\n", commit, machine,
           wb_device_name(), date, problem == 16 ? "-16" : "");
    printf("problem\timpl\tinput\tB\tHq\tHkv\tNk\tD\terror\n");
    if (problem == 14)
        errors_of_caches(argv, longest);
    else
        errors_of_eight_bits(argv, longest);
    return 0;
}
