// library.c - which kernel serves a function of libworkbook.so: of those that can do the case (kernels.h) the one that
// takes least, as its file says (predict.h; keys.c says it of the keys), with what a step costs on this GPU
// (coefficients.h, which reference/fit.py makes). Nothing is timed here: on one GPU a shape has the same kernel in each
// process.
#include "predict.h"
#include "coefficients.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

// What the functions of workbook.h take, and what they hand on.
#define FORWARD_TAKES bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V
#define TO_FORWARD    O, L, Q, K, V
#define GRADIENTS     bf16 *dQ, bf16 *dK, bf16 *dV
#define GRADIENTS_OF  const bf16 *Q, const bf16 *K, const bf16 *V
#define OUTPUTS       const bf16 *O, const float *L, const bf16 *dO
#define FOR_SHAPE     const attention_shape *shape, wb_stream stream
#define FOR_CACHE     void *memory, size_t bytes, const decode_shape *shape, wb_stream stream
#define TO_BACKWARD   dQ, dK, dV, delta, Q, K, V, O, L, dO
#define TO_SINKS      dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO

typedef __typeof__(flash_gqa) forward;
typedef __typeof__(flash_sink_logits) sink_forward;
typedef __typeof__(flash_block_mask) block_mask_forward;
typedef __typeof__(flash_gqa_backward) backward;
typedef __typeof__(flash_gqa_backward_in) backward_in;
typedef __typeof__(flash_sink_logits_backward) sink_backward;
typedef __typeof__(flash_sink_logits_backward_in) sink_backward_in;
typedef __typeof__(flash_gqa_backward_workspace) workspace;
typedef __typeof__(flash_decode) decode;
typedef __typeof__(flash_decode_int8) decode_int8;
typedef __typeof__(flash_decode_workspace) decode_workspace;

// ------------------------------------------------------------------------------------------------------------ kernels

#define NAME(of, form) of##_##form
#define KERNEL(takes, function, source, of, form) \
    takes NAME(of, form); \
    wb_microseconds NAME(of##_microseconds, form);
#define KERNEL_IN(takes, function, source, of, form) \
    takes##_in NAME(of##_in, form); \
    workspace NAME(of##_workspace, form); \
    KERNEL(takes, function, source, of, form)
#define DECODE(takes, function, source, of, form) \
    takes NAME(of, form); \
    decode_workspace NAME(of##_workspace, form); \
    wb_decode_microseconds NAME(of##_microseconds, form);
#define BY_HOPPER(function)
#include "kernels.h"

typedef struct kernel {
    const char *function, *source;
    wb_microseconds *microseconds;
    wb_decode_microseconds *decode_microseconds;
    forward *forward;
    sink_forward *sink_forward;
    block_mask_forward *block_mask_forward;
    backward *backward;
    backward_in *backward_in;  // of a kernel that needs a workspace, and how much of one
    sink_backward *sink_backward;
    sink_backward_in *sink_backward_in;
    workspace *workspace;
    decode *decode;
    decode_int8 *decode_int8;
    decode_workspace *decode_workspace;
} kernel;
static wb_microseconds hopper_microseconds;

#define KERNEL(takes, function, source, of, form) \
    {#function, "solutions/" source ".cu", NAME(of##_microseconds, form), .takes = NAME(of, form)},
#define KERNEL_IN(takes, function, source, of, form) \
    {#function, \
     "solutions/" source ".cu", \
     NAME(of##_microseconds, form), \
     .takes = NAME(of, form), \
     .takes##_in = NAME(of##_in, form), \
     .workspace = NAME(of##_workspace, form)},
#define DECODE(takes, function, source, of, form) \
    {#function, "solutions/" source ".cu", .decode_microseconds = NAME(of##_microseconds, form), \
     .takes = NAME(of, form), .decode_workspace = NAME(of##_workspace, form)},
#define BY_HOPPER(function) {#function, "", hopper_microseconds, .forward = flash_hopper},
static const kernel kernels[] = {
#include "kernels.h"
};
enum { KERNELS = sizeof kernels / sizeof *kernels, SOURCES = sizeof coefficients / sizeof *coefficients };

// -------------------------------------------------------------------------------------------------------------- choice

// For tests, reference/duel.py and fit.py: libworkbook.so keeps them to itself. `shape`: a decode_shape where the
// function takes one; `device`: null is the current one, and one with costs is asked with these.
double wb_library_microseconds(const char *function, const char *source, const void *shape, const wb_device *device);
const char *wb_library_kernel_on(const char *function, const void *shape, const wb_device *device);
const char *wb_library_decode_kernel(const char *function, const decode_shape *shape);

// Of this kernel and head dimension, on this device: those of the recorded one, scaled. What is not recorded is dear.
static wb_costs costs_of(const kernel *k, int head_dim, const wb_device *device)
{
    static _Atomic unsigned char known[KERNELS];  // where in coefficients.h the source stands, from 1
    const size_t n = (size_t)(k - kernels);
    int at = known[n];
    for (int i = 0; !at && i < SOURCES; i++)
        if (strcmp(coefficients[i].source, k->source) == 0) known[n] = (unsigned char)(at = i + 1);
    if (!at) return (wb_costs){100, 100, 100, 100, 100, 100};
    const float clock = (float)recorded.clock / device->clock;
    wb_costs costs = coefficients[at - 1].of[head_dim == 128 ? 3 : head_dim / 32];
    costs.launch *= clock, costs.step *= clock, costs.busy *= clock;
    costs.megabyte *= (float)recorded.bandwidth / device->bandwidth;
    return costs;
}

// Without a mask the queries of a group see the same, and its heads are neighbours: they are as good as one head.
static attention_shape of_key_heads(attention_shape shape)
{
    const long long rows = (long long)shape.q_heads / shape.kv_heads * shape.q_len;
    if (!shape.causal && rows <= INT_MAX) shape.q_len = (int)rows, shape.q_heads = shape.kv_heads;
    return shape;
}

// Microseconds, of the shape as the function reads it.
static double takes(const kernel *k, const void *shape, const wb_device *device)
{
    wb_device with = *device;
    attention_shape read;
    if (k->microseconds) {
        read = *(const attention_shape *)shape;
        const bool sinks = strncmp(k->function, "flash_sinks", 11) == 0;
        const bool windows = sinks || strstr(k->function, "window") || strstr(k->function, "sink");
        if (!sinks) read.sinks = 0;
        if (!windows || read.window > read.kv_len) read.window = read.kv_len;
        if (strcmp(k->function, "flash_hopper") == 0) read = of_key_heads(read);
    }
    const int head_dim = k->microseconds ? read.head_dim : ((const decode_shape *)shape)->head_dim;
    const wb_costs costs = costs_of(k, head_dim, device);
    if (!with.costs) with.costs = &costs;
    return k->microseconds ? k->microseconds(&read, &with) : k->decode_microseconds(shape, &with);
}

// Of those that can do it, the one that takes least; where none can, the last, which says so. Null: there is none.
static const kernel *choose_on(const char *function, const void *shape, const wb_device *device)
{
    const kernel *best = NULL;
    double least = INFINITY;
    for (const kernel *k = kernels; k < kernels + KERNELS; k++) {
        if (strcmp(k->function, function)) continue;
        const double time = takes(k, shape, device);
        if (time < least || isinf(least)) best = k, least = time;
    }
    return best;
}
static const kernel *choose(const char *function, const void *shape)
{
    const wb_device device = wb_this_device();
    return choose_on(function, shape, &device);
}
static double hopper_microseconds(const attention_shape *shape, const wb_device *device)
{
    wb_device with = *device;
    with.costs = NULL;  // each has its own
    return takes(choose_on("flash_hopper", shape, &with), shape, &with);
}

// Whether a prediction may be asked for: what functions refuse has none.
static bool has_sizes(const char *function, const void *shape)
{
    if (!function || !shape) return wb_fail(WB_BAD_ARGUMENT, "wb_library: function or shape is null"), false;
    const decode_shape *d = shape;
    const attention_shape *a = shape;
    const bool decodes = strncmp(function, "flash_decode", 12) == 0;
    const int D = decodes ? d->head_dim : a->head_dim;
    const bool positive = decodes ? d->batch > 0 && d->q_heads > 0 && d->kv_heads > 0 && d->q_len > 0 &&
                                        d->page_size > 0 && d->max_pages > 0
                                  : a->batch > 0 && a->q_heads > 0 && a->kv_heads > 0 && a->q_len > 0 && a->kv_len > 0;
    if (positive && (D == 16 || D == 32 || D == 64 || D == 128)) return true;
    wb_fail(WB_UNSUPPORTED, "%s: head_dim = %d must be 16, 32, 64 or 128, and all other sizes at least 1", function, D);
    return false;
}

const char *wb_library_kernel_on(const char *function, const void *shape, const wb_device *device)
{
    if (!has_sizes(function, shape)) return "";
    const wb_device here = wb_this_device();
    const kernel *k = choose_on(function, shape, device ? device : &here);
    if (k && k->forward == flash_hopper) k = choose_on("flash_hopper", shape, device ? device : &here);
    return k ? k->source : "";
}
const char *wb_library_kernel(const char *function, const attention_shape *shape)
{
    return !function || strncmp(function, "flash_decode", 12) ? wb_library_kernel_on(function, shape, NULL) : "";
}
const char *wb_library_decode_kernel(const char *function, const decode_shape *shape)
{
    return wb_library_kernel_on(function, shape, NULL);
}
double wb_library_microseconds(const char *function, const char *source, const void *shape, const wb_device *device)
{
    if (!has_sizes(function, shape) || !source) return NAN;
    const wb_device here = wb_this_device();
    for (const kernel *k = kernels; k < kernels + KERNELS; k++) {
        if (strcmp(k->function, function)) continue;
        if (strcmp(k->source, source) == 0) return takes(k, shape, device ? device : &here);
        const double other = *k->source ? NAN : wb_library_microseconds("flash_hopper", source, shape, device);
        if (!isnan(other)) return other;
    }
    return NAN;
}

const char *wb_version(void) { return WB_VERSION; }

// ----------------------------------------------------------------------------------------------------------- functions

// A function refuses in its own name what it does not take.
#define CHECKED(check) \
    const wb_status status = check; \
    if (status != WB_OK) return status

#define SERVE_FORWARD(name) \
    wb_status name(FORWARD_TAKES, FOR_SHAPE) \
    { \
        CHECKED(wb_check_forward(#name, TO_FORWARD, shape)); \
        return choose(#name, shape)->forward(TO_FORWARD, shape, stream); \
    }
SERVE_FORWARD(flash_forward)
SERVE_FORWARD(flash_causal)
SERVE_FORWARD(flash_gqa)
SERVE_FORWARD(flash_sinks)

wb_status flash_hopper(FORWARD_TAKES, FOR_SHAPE)
{
    CHECKED(wb_check_forward("flash_hopper", TO_FORWARD, shape));
    const attention_shape taken = of_key_heads(*shape);
    return choose("flash_hopper", &taken)->forward(TO_FORWARD, &taken, stream);
}
wb_status flash_window(FORWARD_TAKES, FOR_SHAPE)
{
    CHECKED(wb_check_forward("flash_window", TO_FORWARD, shape));
    attention_shape without = *shape;
    without.sinks = 0;  // the kernels of 07 read it
    return choose("flash_window", shape)->forward(TO_FORWARD, &without, stream);
}
wb_status flash_sink_logits(FORWARD_TAKES, const float *sink_logits, FOR_SHAPE)
{
    CHECKED(wb_check_sink_forward("flash_sink_logits", TO_FORWARD, sink_logits, shape));
    return choose("flash_sink_logits", shape)->sink_forward(TO_FORWARD, sink_logits, shape, stream);
}
wb_status flash_block_mask(FORWARD_TAKES, const block_mask *mask, FOR_SHAPE)
{
    CHECKED(wb_check_block_mask("flash_block_mask", TO_FORWARD, mask, shape));
    return choose("flash_block_mask", shape)->block_mask_forward(TO_FORWARD, mask, shape, stream);
}

wb_status flash_decode(FORWARD_TAKES, const int *page_table, const int *kv_len, FOR_CACHE)
{
    CHECKED(wb_check_decode_shape("flash_decode", shape));
    const kernel *k = choose("flash_decode", shape);
    return k->decode(TO_FORWARD, page_table, kv_len, memory, bytes, shape, stream);
}
wb_status flash_decode_int8(
    bf16 *O, float *L, const bf16 *Q, const int8_t *K, const int8_t *V, const float *K_scale, const float *V_scale,
    const int *page_table, const int *kv_len, FOR_CACHE)
{
    CHECKED(wb_check_decode_shape("flash_decode_int8", shape));
    const kernel *k = choose("flash_decode_int8", shape);
    return k->decode_int8(TO_FORWARD, K_scale, V_scale, page_table, kv_len, memory, bytes, shape, stream);
}
#define SIZE_OF_DECODE(name) \
    size_t name##_workspace(const decode_shape *shape) \
    { \
        return wb_check_decode_shape(#name, shape) == WB_OK ? choose(#name, shape)->decode_workspace(shape) : 0; \
    }
SIZE_OF_DECODE(flash_decode)
SIZE_OF_DECODE(flash_decode_int8)

#define SERVE_BACKWARD(name) \
    wb_status name(GRADIENTS, float *delta, GRADIENTS_OF, OUTPUTS, FOR_SHAPE) \
    { \
        CHECKED(wb_check_backward(#name, TO_BACKWARD, shape)); \
        return choose(#name, shape)->backward(TO_BACKWARD, shape, stream); \
    }
SERVE_BACKWARD(flash_gqa_backward)
SERVE_BACKWARD(flash_sinks_backward)

wb_status flash_sink_logits_backward(
    GRADIENTS, float *dsinks, float *delta, GRADIENTS_OF, const float *sink_logits, OUTPUTS, FOR_SHAPE)
{
    CHECKED(wb_check_sink_backward("flash_sink_logits_backward", TO_SINKS, shape));
    return choose("flash_sink_logits_backward", shape)->sink_backward(TO_SINKS, shape, stream);
}

// In the caller's memory. `taken`: the shape as the validator may see it, which knows of no 08 without a mask.
static const attention_shape *with_mask(attention_shape *masked, const attention_shape *shape)
{
    if (!shape) return NULL;
    *masked = *shape;
    if (masked->causal == 0) masked->causal = 1;
    return masked;
}
#define SERVE_BACKWARD_IN(name, problem, chosen, taken) \
    wb_status name(void *memory, size_t bytes, GRADIENTS, float *delta, GRADIENTS_OF, OUTPUTS, FOR_SHAPE) \
    { \
        CHECKED(wb_check_backward(problem, TO_BACKWARD, taken)); \
        const kernel *k = choose(chosen, shape); \
        return k->backward_in ? k->backward_in(memory, bytes, TO_BACKWARD, shape, stream) \
                              : k->backward(TO_BACKWARD, shape, stream); \
    }
#define WITH_MASK with_mask(&(attention_shape){0}, shape)
SERVE_BACKWARD_IN(flash_gqa_backward_in, "flash_gqa_backward", "flash_gqa_backward", WITH_MASK)
SERVE_BACKWARD_IN(flash_gqa_backward_fastest, "flash_gqa_backward", "flash_gqa_backward_fastest", WITH_MASK)
SERVE_BACKWARD_IN(flash_sinks_backward_in, "flash_sinks_backward", "flash_sinks_backward", shape)

wb_status flash_sink_logits_backward_in(
    void *memory, size_t bytes, GRADIENTS, float *dsinks, float *delta, GRADIENTS_OF, const float *sink_logits, OUTPUTS,
    FOR_SHAPE)
{
    CHECKED(wb_check_sink_backward("flash_sink_logits_backward", TO_SINKS, shape));
    const kernel *k = choose("flash_sink_logits_backward", shape);
    return k->sink_backward_in ? k->sink_backward_in(memory, bytes, TO_SINKS, shape, stream)
                               : k->sink_backward(TO_SINKS, shape, stream);
}

static size_t
needs(const char *problem, const char *function, const attention_shape *shape, const attention_shape *taken)
{
    if (wb_check_shape(problem, taken) != WB_OK) return 0;
    const kernel *k = choose(function, shape);
    return k->workspace ? k->workspace(shape) : 0;
}
size_t flash_gqa_backward_workspace(const attention_shape *shape)
{
    const char *name = "flash_gqa_backward";
    const size_t same_bits = needs(name, name, shape, WITH_MASK);
    const size_t fastest = needs(name, "flash_gqa_backward_fastest", shape, WITH_MASK);
    return same_bits > fastest ? same_bits : fastest;
}
size_t flash_sinks_backward_workspace(const attention_shape *shape)
{
    return needs("flash_sinks_backward", "flash_sinks_backward", shape, shape);
}
size_t flash_sink_logits_backward_workspace(const attention_shape *shape)
{
    return needs("flash_sink_logits_backward", "flash_sink_logits_backward", shape, shape);
}
