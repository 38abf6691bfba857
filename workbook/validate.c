// validate.c - the one place that says which arguments are wrong, and in which words.
#include "problems.h"
#include "workbook.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[256];

const char *wb_last_message(void) { return message; }

wb_status wb_fail(wb_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return status;
}

const char *wb_status_text(wb_status status)
{
    static const char *const texts[] = {"ok",          "not implemented", "bad argument",
                                        "unsupported", "out of memory",   "device error"};
    return (unsigned)status <= WB_DEVICE_ERROR ? texts[status] : "unknown status";
}

// What is said of the arguments of `problem`; what a function returns if one of its checks has failed.
#define BAD(...)         refuse(WB_BAD_ARGUMENT, problem, __VA_ARGS__)
#define UNSUPPORTED(...) refuse(WB_UNSUPPORTED, problem, __VA_ARGS__)
#define CHECK(call) \
    do { \
        const wb_status status_ = (call); \
        if (status_ != WB_OK) return status_; \
    } while (0)

__attribute__((format(printf, 3, 4))) static wb_status refuse(wb_status status, const char *problem, const char *format,
                                                              ...)
{
    char text[sizeof message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return wb_fail(status, "%s: %s", problem, text);
}

// Checks in this order: POINTERS(AT(O, 16), AT(L, 4)), each with its alignment; SIZES(OF(rows, rows)), at least 1 each.
typedef struct named_pointer {
    const char *name;
    const void *at;
    unsigned alignment;
} named_pointer;
typedef struct named_size {
    const char *name;
    int value;
} named_size;
// clang-format off
#define AT(pointer, alignment) {#pointer, pointer, alignment}
#define OF(name, value)        {#name, value}
// clang-format on
#define POINTERS(...) CHECK(check_pointers(problem, (const named_pointer[]){__VA_ARGS__, {NULL, NULL, 0}}))
#define SIZES(...)    CHECK(check_sizes(problem, (const named_size[]){__VA_ARGS__, {NULL, 0}}))

static wb_status check_pointers(const char *problem, const named_pointer *p)
{
    for (; p->name; p++) {
        if (!p->at) return BAD("%s is null", p->name);
        if ((uintptr_t)p->at % p->alignment) return BAD("%s is not aligned to %u bytes", p->name, p->alignment);
    }
    return WB_OK;
}

static wb_status check_sizes(const char *problem, const named_size *s)
{
    for (; s->name; s++)
        if (s->value < 1) return BAD("%s = %d, must be at least 1", s->name, s->value);
    return WB_OK;
}

// Whether a tensor of these sizes has fewer than 2^62 bytes in float32.
static bool fits(int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t bytes = 4 * a;
    return !__builtin_mul_overflow(bytes, b, &bytes) && !__builtin_mul_overflow(bytes, c, &bytes) &&
           !__builtin_mul_overflow(bytes, d, &bytes) && bytes < (int64_t)1 << 62;
}
#define TOO_LARGE BAD("a tensor of this shape would have more bytes than a 64-bit size can count")

static wb_status check_heads_and_scale(const char *problem, int q_heads, int kv_heads, float scale)
{
    if (q_heads % kv_heads) return BAD("q_heads = %d is not a multiple of kv_heads = %d", q_heads, kv_heads);
    if (!isfinite(scale) || scale <= 0) return BAD("scale = %g, must be finite and positive", scale);
    return WB_OK;
}

static wb_status check_supported(const wb_problem *p, int batch, int q_heads, int head_dim)
{
    const char *const problem = p->name;
    if (wb_head_dim(p, head_dim) != head_dim) {
        char supported[64] = "";
        size_t used = 0;
        for (const int *D = p->head_dims; *D && used < sizeof supported; D++)
            used += snprintf(supported + used, sizeof supported - used, "%s%d",
                             D == p->head_dims ? ""
                             : D[1]            ? ", "
                                               : " and ",
                             *D);
        return UNSUPPORTED("head_dim = %d is not supported, use %s", head_dim, supported);
    }
    if (batch > 65535 || q_heads > 65535)
        return UNSUPPORTED("batch = %d and q_heads = %d: each must be at most 65535", batch, q_heads);
    return WB_OK;
}

wb_status wb_check_shape(const char *problem, const attention_shape *s)
{
    const wb_problem *p = wb_find_problem(problem);
    if (!p) return BAD("there is no such problem");
    if (!s) return BAD("shape is null");
    SIZES(OF(batch, s->batch), OF(q_heads, s->q_heads), OF(kv_heads, s->kv_heads), OF(q_len, s->q_len),
          OF(kv_len, s->kv_len), OF(head_dim, s->head_dim));
    CHECK(check_heads_and_scale(problem, s->q_heads, s->kv_heads, s->scale));
    if (p->window && s->window < 1) return BAD("window = %d, must be at least 1", s->window);
    if (p->sinks && s->sinks < 0) return BAD("sinks = %d, must not be negative", s->sinks);
    if (p->mask != WB_NO_MASK && s->causal && s->q_len != s->kv_len)
        return BAD("causal needs q_len = kv_len, got %d and %d", s->q_len, s->kv_len);
    if (!fits(s->batch, s->q_heads, s->q_len, s->head_dim) || !fits(s->batch, s->kv_heads, s->kv_len, s->head_dim))
        return TOO_LARGE;
    CHECK(check_supported(p, s->batch, s->q_heads, s->head_dim));
    if (!p->grouped && s->q_heads != s->kv_heads)
        return UNSUPPORTED("q_heads = %d and kv_heads = %d must be equal: this function has no grouped heads",
                           s->q_heads, s->kv_heads);
    if (p->signature == WB_BLOCK_MASK && s->causal)
        return UNSUPPORTED("causal must be 0: the mask, or the scores, determine which pairs are visible");
    if (p->mask == WB_NO_MASK && s->causal) return UNSUPPORTED("causal must be 0, this function has no mask");
    if (p->mask == WB_CAUSAL && !s->causal) return UNSUPPORTED("causal must be 1, this function is always causal");
    return WB_OK;
}

wb_status wb_check_row_sum(const char *problem, const void *y, const void *x, const void *w, int rows, int cols)
{
    POINTERS(AT(y, 4), AT(x, 2), AT(w, 2));
    SIZES(OF(rows, rows), OF(cols, cols));
    return WB_OK;
}

wb_status wb_check_forward(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                           const void *V, const attention_shape *shape)
{
    const wb_problem *p = wb_find_problem(problem);
    const unsigned tensor = p && p->on_host ? 4 : 16;  // device tensors are copied 16 bytes at a time
    POINTERS(AT(O, tensor), AT(L, 4), AT(Q, tensor), AT(K, tensor), AT(V, tensor));
    return wb_check_shape(problem, shape);
}

wb_status wb_check_sink_forward(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                                const void *V, const void *sink_logits, const attention_shape *shape)
{
    POINTERS(AT(sink_logits, 4));
    return wb_check_forward(problem, O, L, Q, K, V, shape);
}

wb_status wb_check_block_mask(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                              const void *V, const block_mask *mask, const attention_shape *shape)
{
    if (!mask) return BAD("mask is null");
    POINTERS({"whole_start", mask->whole_start, 4}, {"whole", mask->whole, 4}, {"part_start", mask->part_start, 4},
             {"part", mask->part, 4}, {"bits", mask->bits, 16});
    CHECK(wb_check_forward(problem, O, L, Q, K, V, shape));
    if (mask->masks != 1 && mask->masks != shape->batch)
        return BAD("masks = %d, must be 1 or batch = %d", mask->masks, shape->batch);
    if (mask->q_tile < 1 || mask->kv_tile < 1)
        return BAD("q_tile = %d, kv_tile = %d, must be at least 1", mask->q_tile, mask->kv_tile);
    if ((mask->q_tile != 64 && mask->q_tile != 128) || mask->kv_tile != 64)
        return UNSUPPORTED("q_tile = %d, kv_tile = %d: q_tile must be 64 or 128, kv_tile must be 64", mask->q_tile,
                           mask->kv_tile);
    return WB_OK;
}

wb_status wb_check_fp8(const char *problem, const void *O, const void *L, const void *Q, const void *K, const void *V,
                       const void *Q_exponent, const void *K_exponent, const void *V_exponent, int levels,
                       const attention_shape *shape)
{
    POINTERS(AT(Q_exponent, 1), AT(K_exponent, 1), AT(V_exponent, 1));
    CHECK(wb_check_forward(problem, O, L, Q, K, V, shape));
    return levels < 1 || levels > 2 ? BAD("levels = %d, must be 1 or 2", levels) : WB_OK;
}

wb_status wb_check_backward(const char *problem, const void *dQ, const void *dK, const void *dV, const void *delta,
                            const void *Q, const void *K, const void *V, const void *O, const void *L, const void *dO,
                            const attention_shape *shape)
{
    POINTERS(AT(dQ, 16), AT(dK, 16), AT(dV, 16), AT(delta, 4), AT(Q, 16), AT(K, 16), AT(V, 16), AT(O, 16), AT(L, 4),
             AT(dO, 16));
    return wb_check_shape(problem, shape);
}

wb_status wb_check_sink_backward(const char *problem, const void *dQ, const void *dK, const void *dV,
                                 const void *dsinks, const void *delta, const void *Q, const void *K, const void *V,
                                 const void *sink_logits, const void *O, const void *L, const void *dO,
                                 const attention_shape *shape)
{
    POINTERS(AT(dsinks, 4), AT(sink_logits, 4));
    return wb_check_backward(problem, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
}

wb_status wb_check_attention_backward(const void *dQ, const void *dK, const void *dV, const void *Q, const void *K,
                                      const void *V, const void *dO, const void *L, const void *delta,
                                      const attention_shape *shape)
{
    const char *const problem = "wb_attention_backward";
    POINTERS(AT(dQ, 16), AT(dK, 16), AT(dV, 16), AT(Q, 16), AT(K, 16), AT(V, 16), AT(dO, 16), AT(L, 4), AT(delta, 4));
    return wb_check_shape("flash_hopper", shape);
}

wb_status wb_check_workspace(const char *problem, const void *workspace, size_t bytes, size_t needed)
{
    if (needed == 0) return WB_OK;
    if (bytes < needed) return BAD("the workspace has %zu bytes, but this shape needs %zu", bytes, needed);
    POINTERS(AT(workspace, 256));
    return WB_OK;
}

wb_status wb_check_decode_shape(const char *problem, const decode_shape *s)
{
    const wb_problem *p = wb_find_problem(problem);
    if (!p) return BAD("there is no such problem");
    if (!s) return BAD("shape is null");
    SIZES(OF(batch, s->batch), OF(q_heads, s->q_heads), OF(kv_heads, s->kv_heads), OF(q_len, s->q_len),
          OF(head_dim, s->head_dim), OF(page_size, s->page_size), OF(pages, s->pages), OF(max_pages, s->max_pages));
    CHECK(check_heads_and_scale(problem, s->q_heads, s->kv_heads, s->scale));
    if ((long long)s->max_pages * s->page_size > INT32_MAX)
        return BAD("max_pages = %d pages of %d keys have more keys than an int can hold", s->max_pages, s->page_size);
    if (!fits(s->batch, s->q_heads, s->q_len, s->head_dim) || !fits(s->pages, s->page_size, s->kv_heads, s->head_dim) ||
        !fits(s->batch, s->max_pages, 1, 1))
        return TOO_LARGE;
    CHECK(check_supported(p, s->batch, s->q_heads, s->head_dim));
    if (s->q_len > 16) return UNSUPPORTED("q_len = %d, must be at most 16 new tokens", s->q_len);
    if (s->page_size < 16 || s->page_size > 256 || (s->page_size & (s->page_size - 1)) != 0)
        return UNSUPPORTED("page_size = %d, must be 16, 32, 64, 128 or 256", s->page_size);
    return WB_OK;
}

wb_status wb_check_decode(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                          const void *V, const void *page_table, const void *kv_len, const void *workspace,
                          size_t workspace_bytes, size_t needed, const decode_shape *shape)
{
    POINTERS(AT(O, 16), AT(L, 4), AT(Q, 16), AT(K, 16), AT(V, 16), AT(page_table, 4), AT(kv_len, 4));
    CHECK(wb_check_decode_shape(problem, shape));
    return wb_check_workspace(problem, workspace, workspace_bytes, needed);
}

wb_status wb_check_decode_int8(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                               const void *V, const void *K_scale, const void *V_scale, const void *page_table,
                               const void *kv_len, const void *workspace, size_t workspace_bytes, size_t needed,
                               const decode_shape *shape)
{
    POINTERS(AT(K_scale, 16), AT(V_scale, 16));
    return wb_check_decode(problem, O, L, Q, K, V, page_table, kv_len, workspace, workspace_bytes, needed, shape);
}

wb_status wb_check_ring_shape(const char *problem, const attention_shape *shape, const wb_ring *ring)
{
    CHECK(wb_check_shape(problem, shape));
    if (shape->q_len != shape->kv_len)
        return BAD("a ring needs q_len = kv_len, got %d and %d", shape->q_len, shape->kv_len);
    if (!ring) return BAD("ring is null");
    SIZES(OF(ranks, ring->ranks));
    if (ring->rank < 0 || ring->rank >= ring->ranks)
        return BAD("rank = %d, must be from 0 to %d", ring->rank, ring->ranks - 1);
    return ring->ranks > 65535 ? UNSUPPORTED("ranks = %d, must be at most 65535", ring->ranks) : WB_OK;
}

// Of a call whose pointers and shape are good.
static wb_status check_ring(const char *problem, const void *workspace, size_t workspace_bytes, size_t needed,
                            const attention_shape *shape, const wb_ring *ring)
{
    CHECK(wb_check_ring_shape(problem, shape, ring));
    if (!ring->comm && ring->ranks > 1) return BAD("comm is null, but there are %d ranks", ring->ranks);
    return wb_check_workspace(problem, workspace, workspace_bytes, needed);
}

wb_status wb_check_ring(const char *problem, const void *O, const void *L, const void *Q, const void *K, const void *V,
                        const void *workspace, size_t workspace_bytes, size_t needed, const attention_shape *shape,
                        const wb_ring *ring)
{
    CHECK(wb_check_forward(problem, O, L, Q, K, V, shape));
    return check_ring(problem, workspace, workspace_bytes, needed, shape, ring);
}

wb_status wb_check_ring_backward(const char *problem, const void *dQ, const void *dK, const void *dV, const void *delta,
                                 const void *Q, const void *K, const void *V, const void *O, const void *L,
                                 const void *dO, const void *workspace, size_t workspace_bytes, size_t needed,
                                 const attention_shape *shape, const wb_ring *ring)
{
    CHECK(wb_check_backward(problem, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape));
    return check_ring(problem, workspace, workspace_bytes, needed, shape, ring);
}
