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
    switch (status) {
    case WB_OK: return "ok";
    case WB_NOT_IMPLEMENTED: return "not implemented";
    case WB_BAD_ARGUMENT: return "bad argument";
    case WB_UNSUPPORTED: return "unsupported";
    case WB_OUT_OF_MEMORY: return "out of memory";
    case WB_DEVICE_ERROR: return "device error";
    }
    return "unknown status";
}

typedef struct named_pointer {
    const char *name;
    const void *at;
    unsigned alignment;
} named_pointer;

static wb_status check_pointers(const char *problem, const named_pointer *pointers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const named_pointer p = pointers[i];
        if (!p.at) return wb_fail(WB_BAD_ARGUMENT, "%s: %s is null", problem, p.name);
        if ((uintptr_t)p.at % p.alignment)
            return wb_fail(WB_BAD_ARGUMENT, "%s: %s is not aligned to %u bytes", problem, p.name, p.alignment);
    }
    return WB_OK;
}

typedef struct named_size {
    const char *name;
    int value;
} named_size;

static wb_status check_sizes(const char *problem, const named_size *sizes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sizes[i].value < 1)
            return wb_fail(WB_BAD_ARGUMENT, "%s: %s = %d, must be at least 1", problem, sizes[i].name, sizes[i].value);
    return WB_OK;
}

// Whether a tensor of these sizes has fewer than 2^62 bytes in float32.
static bool fits(int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t bytes = 4 * a;
    return !__builtin_mul_overflow(bytes, b, &bytes) && !__builtin_mul_overflow(bytes, c, &bytes) &&
           !__builtin_mul_overflow(bytes, d, &bytes) && bytes < (int64_t)1 << 62;
}

static wb_status check_heads_and_scale(const char *problem, int q_heads, int kv_heads, float scale)
{
    if (q_heads % kv_heads)
        return wb_fail(WB_BAD_ARGUMENT, "%s: q_heads = %d is not a multiple of kv_heads = %d", problem, q_heads,
                       kv_heads);
    if (!isfinite(scale) || scale <= 0)
        return wb_fail(WB_BAD_ARGUMENT, "%s: scale = %g, must be finite and positive", problem, scale);
    return WB_OK;
}

static wb_status check_supported(const wb_problem *p, int batch, int q_heads, int head_dim)
{
    if (wb_head_dim(p, head_dim) != head_dim) {
        char supported[64] = "";
        size_t used = 0;
        for (const int *D = p->head_dims; *D && used < sizeof supported; D++)
            used += (size_t)snprintf(supported + used, sizeof supported - used, "%s%d",
                                     D == p->head_dims ? ""
                                     : D[1]            ? ", "
                                                       : " and ",
                                     *D);
        return wb_fail(WB_UNSUPPORTED, "%s: head_dim = %d is not supported, use %s", p->name, head_dim, supported);
    }
    if (batch > 65535 || q_heads > 65535)
        return wb_fail(WB_UNSUPPORTED, "%s: batch = %d and q_heads = %d: each must be at most 65535", p->name, batch,
                       q_heads);
    return WB_OK;
}

wb_status wb_check_shape(const char *problem, const attention_shape *s)
{
    const wb_problem *p = wb_find_problem(problem);
    if (!p) return wb_fail(WB_BAD_ARGUMENT, "%s: there is no such problem", problem);
    if (!s) return wb_fail(WB_BAD_ARGUMENT, "%s: shape is null", problem);

    const named_size sizes[] = {{"batch", s->batch}, {"q_heads", s->q_heads}, {"kv_heads", s->kv_heads},
                                {"q_len", s->q_len}, {"kv_len", s->kv_len},   {"head_dim", s->head_dim}};
    wb_status status = check_sizes(problem, sizes, sizeof sizes / sizeof *sizes);
    if (status != WB_OK) return status;
    status = check_heads_and_scale(problem, s->q_heads, s->kv_heads, s->scale);
    if (status != WB_OK) return status;
    if (p->window && s->window < 1)
        return wb_fail(WB_BAD_ARGUMENT, "%s: window = %d, must be at least 1", problem, s->window);
    if (p->sinks && s->sinks < 0)
        return wb_fail(WB_BAD_ARGUMENT, "%s: sinks = %d, must not be negative", problem, s->sinks);
    if (p->mask != WB_NO_MASK && s->causal && s->q_len != s->kv_len)
        return wb_fail(WB_BAD_ARGUMENT, "%s: causal needs q_len = kv_len, got %d and %d", problem, s->q_len, s->kv_len);
    if (!fits(s->batch, s->q_heads, s->q_len, s->head_dim) || !fits(s->batch, s->kv_heads, s->kv_len, s->head_dim))
        return wb_fail(WB_BAD_ARGUMENT, "%s: a tensor of this shape would have more bytes than a 64-bit size can count",
                       problem);

    status = check_supported(p, s->batch, s->q_heads, s->head_dim);
    if (status != WB_OK) return status;
    if (!p->grouped && s->q_heads != s->kv_heads)
        return wb_fail(WB_UNSUPPORTED,
                       "%s: q_heads = %d and kv_heads = %d must be equal: this function has no grouped heads", problem,
                       s->q_heads, s->kv_heads);
    if (p->signature == WB_BLOCK_MASK && s->causal)
        return wb_fail(WB_UNSUPPORTED,
                       "%s: causal must be 0: the mask, or the scores, determine which pairs are visible", problem);
    if (p->mask == WB_NO_MASK && s->causal)
        return wb_fail(WB_UNSUPPORTED, "%s: causal must be 0, this function has no mask", problem);
    if (p->mask == WB_CAUSAL && !s->causal)
        return wb_fail(WB_UNSUPPORTED, "%s: causal must be 1, this function is always causal", problem);
    return WB_OK;
}

wb_status wb_check_row_sum(const char *problem, const void *y, const void *x, const void *w, int rows, int cols)
{
    const named_pointer pointers[] = {{"y", y, 4}, {"x", x, 2}, {"w", w, 2}};
    const wb_status status = check_pointers(problem, pointers, sizeof pointers / sizeof *pointers);
    if (status != WB_OK) return status;
    if (rows < 1) return wb_fail(WB_BAD_ARGUMENT, "%s: rows = %d, must be at least 1", problem, rows);
    if (cols < 1) return wb_fail(WB_BAD_ARGUMENT, "%s: cols = %d, must be at least 1", problem, cols);
    return WB_OK;
}

wb_status wb_check_forward(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                           const void *V, const attention_shape *shape)
{
    const wb_problem *p = wb_find_problem(problem);
    const unsigned tensor = p && p->on_host ? 4 : 16;  // device tensors are copied 16 bytes at a time
    const named_pointer pointers[] = {
        {"O", O, tensor}, {"L", L, 4}, {"Q", Q, tensor}, {"K", K, tensor}, {"V", V, tensor}};
    const wb_status status = check_pointers(problem, pointers, sizeof pointers / sizeof *pointers);
    return status != WB_OK ? status : wb_check_shape(problem, shape);
}

wb_status wb_check_sink_forward(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                                const void *V, const void *sink_logits, const attention_shape *shape)
{
    const named_pointer sinks = {"sink_logits", sink_logits, 4};
    const wb_status status = check_pointers(problem, &sinks, 1);
    return status != WB_OK ? status : wb_check_forward(problem, O, L, Q, K, V, shape);
}

wb_status wb_check_block_mask(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                              const void *V, const block_mask *mask, const attention_shape *shape)
{
    if (!mask) return wb_fail(WB_BAD_ARGUMENT, "%s: mask is null", problem);
    const named_pointer lists[] = {{"whole_start", mask->whole_start, 4},
                                   {"whole", mask->whole, 4},
                                   {"part_start", mask->part_start, 4},
                                   {"part", mask->part, 4},
                                   {"bits", mask->bits, 16}};
    wb_status status = check_pointers(problem, lists, sizeof lists / sizeof *lists);
    if (status == WB_OK) status = wb_check_forward(problem, O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    if (mask->masks != 1 && mask->masks != shape->batch)
        return wb_fail(WB_BAD_ARGUMENT, "%s: masks = %d, must be 1 or batch = %d", problem, mask->masks, shape->batch);
    if (mask->q_tile < 1 || mask->kv_tile < 1)
        return wb_fail(WB_BAD_ARGUMENT, "%s: q_tile = %d, kv_tile = %d, must be at least 1", problem, mask->q_tile,
                       mask->kv_tile);
    if ((mask->q_tile != 64 && mask->q_tile != 128) || mask->kv_tile != 64)
        return wb_fail(WB_UNSUPPORTED, "%s: q_tile = %d, kv_tile = %d: q_tile must be 64 or 128, kv_tile must be 64",
                       problem, mask->q_tile, mask->kv_tile);
    return WB_OK;
}

wb_status wb_check_fp8(const char *problem, const void *O, const void *L, const void *Q, const void *K, const void *V,
                       const void *Q_exponent, const void *K_exponent, const void *V_exponent, int levels,
                       const attention_shape *shape)
{
    const named_pointer exponents[] = {
        {"Q_exponent", Q_exponent, 1}, {"K_exponent", K_exponent, 1}, {"V_exponent", V_exponent, 1}};
    wb_status status = check_pointers(problem, exponents, sizeof exponents / sizeof *exponents);
    if (status == WB_OK) status = wb_check_forward(problem, O, L, Q, K, V, shape);
    if (status == WB_OK && (levels < 1 || levels > 2))
        status = wb_fail(WB_BAD_ARGUMENT, "%s: levels = %d, must be 1 or 2", problem, levels);
    return status;
}

wb_status wb_check_backward(const char *problem, const void *dQ, const void *dK, const void *dV, const void *delta,
                            const void *Q, const void *K, const void *V, const void *O, const void *L, const void *dO,
                            const attention_shape *shape)
{
    const named_pointer pointers[] = {{"dQ", dQ, 16}, {"dK", dK, 16}, {"dV", dV, 16}, {"delta", delta, 4},
                                      {"Q", Q, 16},   {"K", K, 16},   {"V", V, 16},   {"O", O, 16},
                                      {"L", L, 4},    {"dO", dO, 16}};
    const wb_status status = check_pointers(problem, pointers, sizeof pointers / sizeof *pointers);
    return status != WB_OK ? status : wb_check_shape(problem, shape);
}

wb_status wb_check_sink_backward(const char *problem, const void *dQ, const void *dK, const void *dV,
                                 const void *dsinks, const void *delta, const void *Q, const void *K, const void *V,
                                 const void *sink_logits, const void *O, const void *L, const void *dO,
                                 const attention_shape *shape)
{
    const named_pointer sinks[] = {{"dsinks", dsinks, 4}, {"sink_logits", sink_logits, 4}};
    const wb_status status = check_pointers(problem, sinks, sizeof sinks / sizeof *sinks);
    return status != WB_OK ? status : wb_check_backward(problem, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
}

wb_status wb_check_attention_backward(const void *dQ, const void *dK, const void *dV, const void *Q, const void *K,
                                      const void *V, const void *dO, const void *L, const void *delta,
                                      const attention_shape *shape)
{
    const named_pointer pointers[] = {{"dQ", dQ, 16}, {"dK", dK, 16}, {"dV", dV, 16}, {"Q", Q, 16},       {"K", K, 16},
                                      {"V", V, 16},   {"dO", dO, 16}, {"L", L, 4},    {"delta", delta, 4}};
    const wb_status status = check_pointers("wb_attention_backward", pointers, sizeof pointers / sizeof *pointers);
    return status != WB_OK ? status : wb_check_shape("flash_hopper", shape);
}

wb_status wb_check_workspace(const char *problem, const void *workspace, size_t bytes, size_t needed)
{
    if (needed == 0) return WB_OK;
    if (bytes < needed)
        return wb_fail(WB_BAD_ARGUMENT, "%s: the workspace has %zu bytes, but this shape needs %zu", problem, bytes,
                       needed);
    const named_pointer pointer = {"workspace", workspace, 256};
    return check_pointers(problem, &pointer, 1);
}

wb_status wb_check_decode_shape(const char *problem, const decode_shape *s)
{
    const wb_problem *p = wb_find_problem(problem);
    if (!p) return wb_fail(WB_BAD_ARGUMENT, "%s: there is no such problem", problem);
    if (!s) return wb_fail(WB_BAD_ARGUMENT, "%s: shape is null", problem);
    const named_size sizes[] = {{"batch", s->batch}, {"q_heads", s->q_heads},    {"kv_heads", s->kv_heads},
                                {"q_len", s->q_len}, {"head_dim", s->head_dim},  {"page_size", s->page_size},
                                {"pages", s->pages}, {"max_pages", s->max_pages}};
    wb_status status = check_sizes(problem, sizes, sizeof sizes / sizeof *sizes);
    if (status != WB_OK) return status;
    status = check_heads_and_scale(problem, s->q_heads, s->kv_heads, s->scale);
    if (status != WB_OK) return status;
    if ((long long)s->max_pages * s->page_size > INT32_MAX)
        return wb_fail(WB_BAD_ARGUMENT, "%s: max_pages = %d pages of %d keys have more keys than an int can hold",
                       problem, s->max_pages, s->page_size);
    if (!fits(s->batch, s->q_heads, s->q_len, s->head_dim) || !fits(s->pages, s->page_size, s->kv_heads, s->head_dim) ||
        !fits(s->batch, s->max_pages, 1, 1))
        return wb_fail(WB_BAD_ARGUMENT, "%s: a tensor of this shape would have more bytes than a 64-bit size can count",
                       problem);
    status = check_supported(p, s->batch, s->q_heads, s->head_dim);
    if (status != WB_OK) return status;
    if (s->q_len > 16)
        return wb_fail(WB_UNSUPPORTED, "%s: q_len = %d, must be at most 16 new tokens", problem, s->q_len);
    if (s->page_size < 16 || s->page_size > 256 || (s->page_size & (s->page_size - 1)) != 0)
        return wb_fail(WB_UNSUPPORTED, "%s: page_size = %d, must be 16, 32, 64, 128 or 256", problem, s->page_size);
    return WB_OK;
}

wb_status wb_check_decode(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                          const void *V, const void *page_table, const void *kv_len, const void *workspace,
                          size_t workspace_bytes, size_t needed, const decode_shape *shape)
{
    const named_pointer pointers[] = {{"O", O, 16},         {"L", L, 4},  {"Q", Q, 16},
                                      {"K", K, 16},         {"V", V, 16}, {"page_table", page_table, 4},
                                      {"kv_len", kv_len, 4}};
    wb_status status = check_pointers(problem, pointers, sizeof pointers / sizeof *pointers);
    if (status == WB_OK) status = wb_check_decode_shape(problem, shape);
    return status != WB_OK ? status : wb_check_workspace(problem, workspace, workspace_bytes, needed);
}

wb_status wb_check_decode_int8(const char *problem, const void *O, const void *L, const void *Q, const void *K,
                               const void *V, const void *K_scale, const void *V_scale, const void *page_table,
                               const void *kv_len, const void *workspace, size_t workspace_bytes, size_t needed,
                               const decode_shape *shape)
{
    const named_pointer scales[] = {{"K_scale", K_scale, 16}, {"V_scale", V_scale, 16}};
    const wb_status status = check_pointers(problem, scales, sizeof scales / sizeof *scales);
    return status != WB_OK
               ? status
               : wb_check_decode(problem, O, L, Q, K, V, page_table, kv_len, workspace, workspace_bytes, needed, shape);
}

wb_status wb_check_ring_shape(const char *problem, const attention_shape *shape, const wb_ring *ring)
{
    const wb_status status = wb_check_shape(problem, shape);
    if (status != WB_OK) return status;
    if (shape->q_len != shape->kv_len)
        return wb_fail(WB_BAD_ARGUMENT, "%s: a ring needs q_len = kv_len, got %d and %d", problem, shape->q_len,
                       shape->kv_len);
    if (!ring) return wb_fail(WB_BAD_ARGUMENT, "%s: ring is null", problem);
    if (ring->ranks < 1) return wb_fail(WB_BAD_ARGUMENT, "%s: ranks = %d, must be at least 1", problem, ring->ranks);
    if (ring->rank < 0 || ring->rank >= ring->ranks)
        return wb_fail(WB_BAD_ARGUMENT, "%s: rank = %d, must be from 0 to %d", problem, ring->rank, ring->ranks - 1);
    if (ring->ranks > 65535)
        return wb_fail(WB_UNSUPPORTED, "%s: ranks = %d, must be at most 65535", problem, ring->ranks);
    return WB_OK;
}

// Of a call whose pointers and shape are good.
static wb_status check_ring(const char *problem, const void *workspace, size_t workspace_bytes, size_t needed,
                            const attention_shape *shape, const wb_ring *ring)
{
    wb_status status = wb_check_ring_shape(problem, shape, ring);
    if (status == WB_OK && !ring->comm && ring->ranks > 1)
        status = wb_fail(WB_BAD_ARGUMENT, "%s: comm is null, but there are %d ranks", problem, ring->ranks);
    return status != WB_OK ? status : wb_check_workspace(problem, workspace, workspace_bytes, needed);
}

wb_status wb_check_ring(const char *problem, const void *O, const void *L, const void *Q, const void *K, const void *V,
                        const void *workspace, size_t workspace_bytes, size_t needed, const attention_shape *shape,
                        const wb_ring *ring)
{
    const wb_status status = wb_check_forward(problem, O, L, Q, K, V, shape);
    return status != WB_OK ? status : check_ring(problem, workspace, workspace_bytes, needed, shape, ring);
}

wb_status wb_check_ring_backward(const char *problem, const void *dQ, const void *dK, const void *dV, const void *delta,
                                 const void *Q, const void *K, const void *V, const void *O, const void *L,
                                 const void *dO, const void *workspace, size_t workspace_bytes, size_t needed,
                                 const attention_shape *shape, const wb_ring *ring)
{
    const wb_status status = wb_check_backward(problem, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    return status != WB_OK ? status : check_ring(problem, workspace, workspace_bytes, needed, shape, ring);
}
