// library_choice.c - what libworkbook_all.so chooses, on GPUs of many sizes, in shapes drawn by chance: a kernel that
// can do it, the same each time; and each kernel of solutions/kernels.h somewhere. With an argument, how much work:
// a case for each kernel that is chosen for so little, and the worker that has its function. Run by library.sh.
#include "dice.h"
#include "predict.h"
#include "problems.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double wb_library_microseconds(const char *function, const char *source, const void *shape, const wb_device *device);
const char *wb_library_kernel_on(const char *function, const void *shape, const wb_device *device);

#define KERNEL(takes, function, source, of, form)    {#function, "solutions/" source ".cu", .in_memory = false},
#define KERNEL_IN(takes, function, source, of, form) {#function, "solutions/" source ".cu", .in_memory = true},
#define DECODE(takes, function, source, of, form)    KERNEL(takes, function, source, of, form)
#define BY_HOPPER(function)
static struct {
    const char *function, *source;
    bool in_memory, chosen;
    double work;  // of the case
    char text[100];
} kernels[] = {
#include "../solutions/kernels.h"
};
enum { KERNELS = sizeof kernels / sizeof *kernels, DRAWS = 2000 };

// An H200 and an H100, parts of one, older and later ones, one that says nothing of itself.
static const wb_device devices[] = {
    {9, 132, 1980, 4814, 0}, {9, 132, 1980, 3352, 0},  {9, 114, 1755, 2039, 0},
    {9, 78, 1700, 4000, 0},  {9, 16, 1980, 600, 0},    {8, 108, 1410, 1555, 0},
    {7, 72, 1590, 320, 0},   {12, 188, 2600, 1792, 0}, {8, 1, 1, 1, 0},
};

static int chance(int from, int to) { return from + below(to - from + 1); }
static int log_uniform(double from, double to)
{
    return (int)(from * pow(to / from, chance(0, 1 << 20) / (double)(1 << 20)));
}

// Whether the kernel that is chosen can do it, or none can and the function's key is to say so.
static bool asked(const char *function, const void *shape, const wb_device *device, const char *what)
{
    char source[200];
    snprintf(source, sizeof source, "%s", wb_library_kernel_on(function, shape, device));
    const double time = wb_library_microseconds(function, source, shape, device);
    bool some = false;
    for (int k = 0; k < KERNELS; k++) {
        if (strcmp(kernels[k].function, function)) continue;
        const double other = wb_library_microseconds(function, kernels[k].source, shape, device);
        if (!(other > 0)) return printf("%s: %s says %g of %s\n", function, kernels[k].source, other, what), false;
        if (device->capability != 9 && isfinite(other) && strstr(kernels[k].source, "hopper"))
            return printf("%s: %s is for another GPU: %s\n", function, kernels[k].source, what), false;
        if (other < time) return printf("%s: %s would take less: %s\n", function, kernels[k].source, what), false;
        some |= isfinite(other);
        if (isfinite(time) && strcmp(kernels[k].source, source) == 0) kernels[k].chosen = true;
    }
    if (!*source || (some && !(time > 0 && isfinite(time))))
        return printf("%s: %s cannot do %s\n", function, *source ? source : "nothing", what), false;
    if (strcmp(source, wb_library_kernel_on(function, shape, device)))
        return printf("%s: two kernels for %s\n", function, what), false;
    return true;
}

#define EACH_FUNCTION(f) /* by its first kernel */ \
    for (int f = 0; f < KERNELS; f++) \
        if (f == 0 || strcmp(kernels[f - 1].function, kernels[f].function))

static const char *fastest(const char *function) { return strstr(function, "_fastest"); }
static const wb_problem *problem_of(const char *function)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", fastest(function) ? (int)(fastest(function) - function) : 63, function);
    return wb_find_problem(name);
}

// A shape as a function reads it: of attention, or of a cache.
typedef struct drawn {
    attention_shape shape;
    decode_shape cache;
    char text[200];
} drawn;
#define READ(p, d) ((p)->signature == WB_DECODE ? (const void *)&(d).cache : &(d).shape)
static drawn draw(const wb_problem *p, int longest, int most_heads)
{
    drawn d;
    const int group = !p->grouped ? 1 : log_uniform(1, 17), heads = log_uniform(1, most_heads / group + 1);
    const int D = wb_head_dim(p, 16) != 16 || chance(0, 7) ? 64 << chance(0, 1) : 16 << chance(0, 1);
    const int batch = log_uniform(1, 129), N = log_uniform(17, longest), rows = chance(1, 16);
    const bool causal = p->mask == WB_CAUSAL || (p->mask == WB_CAUSAL_OPTIONAL && chance(0, 1));
    const int W = p->window && chance(0, 3) ? log_uniform(1, N + 1) : N;
    const int sinks = p->sinks && chance(0, 1) ? log_uniform(1, 65) : 0;
    d.shape = (attention_shape){batch, heads * group, heads, N, N, D, 1, causal, W, sinks};
    d.cache = (decode_shape){batch, heads * group, heads, rows, D, 1, 16, 0, N / 16 + 2};
    d.cache.pages = d.cache.batch * d.cache.max_pages;
    int at = snprintf(d.text, sizeof d.text, "B=%d,Hq=%d,Hkv=%d,Nq=%d,D=%d", batch, heads * group, heads,
                      p->signature == WB_DECODE ? rows : N, D);
    if (!causal) at += snprintf(d.text + at, sizeof d.text - at, ",Nk=%d", N);
    if (p->mask == WB_CAUSAL_OPTIONAL) at += snprintf(d.text + at, sizeof d.text - at, ",causal=%d", causal);
    if (p->window) at += snprintf(d.text + at, sizeof d.text - at, ",W=%d", W);
    if (sinks) snprintf(d.text + at, sizeof d.text - at, ",sinks=%d", sinks);
    return d;
}

// Cases of about so many products, at most five times as many.
static int cases(double about)
{
    EACH_FUNCTION(f)
    {
        const char *const function = kernels[f].function;
        const wb_problem *const p = problem_of(function);
        for (int n = 0; n < 20000 && p->signature != WB_BLOCK_MASK; n++) {
            const drawn d = draw(p, 2600, 700);
            const attention_shape *s = &d.shape;
            const double pairs = p->signature == WB_DECODE
                                     ? (double)d.cache.q_len * s->kv_len
                                     : (double)s->q_len * fmin(s->window + s->sinks + 64, s->kv_len);
            const double work = s->batch * s->q_heads * pairs * s->head_dim * (wb_is_backward(p) ? 2.5 : 1);
            if (work > 5 * about) continue;
            const char *source = wb_library_kernel_on(function, READ(p, d), NULL);
            for (int k = f; k < KERNELS && strcmp(kernels[k].function, function) == 0; k++)
                if (strcmp(kernels[k].source, source) == 0 &&
                    fabs(log(work / about)) < fabs(log(kernels[k].work / about))) {
                    kernels[k].work = work;
                    snprintf(kernels[k].text, sizeof kernels[k].text, "%.99s", d.text);
                }
        }
    }
    for (int k = 0; k < KERNELS; k++) {
        if (!*kernels[k].text) continue;
        const int number = problem_of(kernels[k].function)->number;
        const char *const form = fastest(kernels[k].function);
        printf("%02d%s %s %s\n", number, form ? form : "", kernels[k].text, kernels[k].source);
        if (kernels[k].in_memory && !form) printf("%02d_in %s %s\n", number, kernels[k].text, kernels[k].source);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) return cases(atof(argv[1]));
    for (int n = 0; n < DRAWS; n++) EACH_FUNCTION(f)
        {
            const wb_problem *const p = problem_of(kernels[f].function);
            const drawn d = draw(p, 200000, 2048);
            for (size_t k = 0; k < sizeof devices / sizeof *devices; k++) {
                char what[300];
                snprintf(what, sizeof what, "%s, on %d multiprocessors of %d", d.text, devices[k].processors,
                         devices[k].capability);
                if (!asked(kernels[f].function, READ(p, d), &devices[k], what)) return 1;
            }
        }
    int never = 0;
    for (int k = 0; k < KERNELS; k++)
        if (!kernels[k].chosen) never++, printf("%s: never %s\n", kernels[k].function, kernels[k].source);
    return never > 0;
}
