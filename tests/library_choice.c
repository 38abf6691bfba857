// library_choice.c - what libworkbook_all.so chooses, on GPUs of many sizes, in shapes drawn by chance: a kernel that
// can do it, the same each time; and each kernel of solutions/kernels.h somewhere. With an argument, how much work:
// a case for each kernel that is chosen for so little, and the worker that has its function. Run by library.sh.
#include "dice.h"
#include "predict.h"

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

// Of each function: its worker, whether it is a backward pass, what of a shape it reads, and what it does not take.
static const struct function {
    const char *name, *worker;
    bool backward, full, causal, window, sinks, cache, no_groups, no_small_dims;
} functions[] = {
    {"flash_forward", "03", .full = true, .no_groups = true},
    {"flash_causal", "04", .causal = true, .no_groups = true},
    {"flash_gqa", "05", .causal = true},
    {"flash_window", "06", .window = true},
    {"flash_sinks", "07", .window = true, .sinks = true},
    {"flash_gqa_backward", "08", .backward = true, .causal = true},
    {"flash_gqa_backward_fastest", "08_fastest", .backward = true, .causal = true},
    {"flash_sinks_backward", "09", .backward = true, .window = true, .sinks = true},
    {"flash_hopper", "10", .causal = true, .full = true, .no_small_dims = true},
    {"flash_sink_logits", "11", .window = true, .causal = true},
    {"flash_sink_logits_backward", "12", .backward = true, .window = true, .causal = true},
    {"flash_decode", "13", .cache = true},
    {"flash_decode_int8", "14", .cache = true},
    {"flash_block_mask", NULL, .full = true},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

// A shape as a function reads it: of attention, or of a cache.
typedef struct drawn {
    attention_shape shape;
    decode_shape cache;
    char text[200];
} drawn;
static drawn draw(const struct function *f, int longest, int most_heads)
{
    drawn d;
    const int group = f->no_groups ? 1 : log_uniform(1, 17), heads = log_uniform(1, most_heads / group + 1);
    const int D = f->no_small_dims || chance(0, 7) ? 64 << chance(0, 1) : 16 << chance(0, 1),
              batch = log_uniform(1, 129);
    const int N = log_uniform(17, longest), W = log_uniform(1, N + 1), rows = chance(1, 16);
    const bool causal = f->causal && (!(f->full || f->window) || chance(0, 1)), window = f->window && !causal;
    const int sinks = f->sinks && chance(0, 1) ? log_uniform(1, 65) : 0;
    d.shape = (attention_shape){batch, heads * group, heads, N, N, D, 1, causal || window, window ? W : N, sinks};
    d.cache = (decode_shape){batch, heads * group, heads, rows, D, 1, 16, 0, N / 16 + 2};
    d.cache.pages = d.cache.batch * d.cache.max_pages;
    int at = snprintf(d.text, sizeof d.text, "B=%d,Hq=%d,Hkv=%d,Nq=%d,D=%d", batch, heads * group, heads,
                      f->cache ? rows : N, D);
    if (f->cache || (f->full && !causal)) at += snprintf(d.text + at, sizeof d.text - at, ",Nk=%d", N);
    if (f->full && f->causal) at += snprintf(d.text + at, sizeof d.text - at, ",causal=%d", causal);
    if (f->window) at += snprintf(d.text + at, sizeof d.text - at, ",W=%d", d.shape.window);
    if (sinks) snprintf(d.text + at, sizeof d.text - at, ",sinks=%d", sinks);
    return d;
}

// Cases of about so many products, at most five times as many.
static int cases(double about)
{
    for (const struct function *f = functions; f < functions + FUNCTIONS; f++)
        for (int n = 0; n < 20000 && f->worker; n++) {
            const drawn d = draw(f, 2600, 700);
            const attention_shape *s = &d.shape;
            const double pairs = f->cache ? (double)d.cache.q_len * s->kv_len
                                          : (double)s->q_len * fmin(s->window + s->sinks + 64, s->kv_len);
            const double work = s->batch * s->q_heads * pairs * s->head_dim * (f->backward ? 2.5 : 1);
            if (work > 5 * about) continue;
            const char *source = wb_library_kernel_on(f->name, f->cache ? (const void *)&d.cache : s, NULL);
            for (int k = 0; k < KERNELS; k++)
                if (strcmp(kernels[k].function, f->name) == 0 && strcmp(kernels[k].source, source) == 0 &&
                    fabs(log(work / about)) < fabs(log(kernels[k].work / about))) {
                    kernels[k].work = work;
                    snprintf(kernels[k].text, sizeof kernels[k].text, "%.99s", d.text);
                }
        }
    for (const struct function *f = functions; f < functions + FUNCTIONS; f++)
        for (int k = 0; k < KERNELS; k++) {
            if (strcmp(kernels[k].function, f->name) || !*kernels[k].text) continue;
            printf("%s %s %s\n", f->worker, kernels[k].text, kernels[k].source);
            if (kernels[k].in_memory && strlen(f->worker) == 2)
                printf("%s_in %s %s\n", f->worker, kernels[k].text, kernels[k].source);
        }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) return cases(atof(argv[1]));
    for (int n = 0; n < DRAWS; n++)
        for (const struct function *f = functions; f < functions + FUNCTIONS; f++) {
            const drawn d = draw(f, 200000, 2048);
            for (size_t k = 0; k < sizeof devices / sizeof *devices; k++) {
                char what[300];
                snprintf(what, sizeof what, "%s, on %d multiprocessors of %d", d.text, devices[k].processors,
                         devices[k].capability);
                if (!asked(f->name, f->cache ? (const void *)&d.cache : &d.shape, &devices[k], what)) return 1;
            }
        }
    int never = 0;
    for (int k = 0; k < KERNELS; k++)
        if (!kernels[k].chosen) never++, printf("%s: never %s\n", kernels[k].function, kernels[k].source);
    return never > 0;
}
