// attention.h - the kernels of attention_backward.cu by their own name: the library calls them where none is faster.
#pragma once

#include "layer_requests.h"
#include "workbook.h"

__BEGIN_DECLS

// wb_attention_backward of arguments that have been checked, on any GPU.
wb_status wb_attention_backward_anywhere(float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V,
                                         const bf16 *dO, const float *L, const float *delta,
                                         const attention_shape *shape, wb_stream stream);

// How many pairs of a query and a key such a call looks at.
static inline uint64_t wb_pairs(const attention_shape *shape)
{
    const uint64_t N = (uint64_t)shape->q_len, pairs = shape->causal ? N * (N + 1) / 2 : N * (uint64_t)shape->kv_len;
    return pairs * (uint64_t)shape->batch * (uint64_t)shape->q_heads;
}

// What such a call holds: of each tensor q, of queries, k, of keys, l, a number a row of queries; large: in float32.
static inline wb_held wb_held_by(wb_held_kind kind, const attention_shape *s, const char *tensors, int inputs,
                                 const void *const *at)
{
    wb_held h = {kind, 0, 0, 0, s->q_len, s->kv_len, s->causal, s->scale, 0, inputs, 0, {NULL}, {0}};
    for (; tensors[h.pieces]; h.pieces++) {
        const char of = tensors[h.pieces];
        const size_t rows = (size_t)s->batch * (of == 'k' || of == 'K' ? (size_t)s->kv_heads * (size_t)s->kv_len
                                                                       : (size_t)s->q_heads * (size_t)s->q_len);
        h.at[h.pieces] = at[h.pieces];
        h.bytes[h.pieces] = rows * (of == 'l' ? 4 : (size_t)s->head_dim * (of == 'Q' || of == 'K' ? 4 : 2));
    }
    return h;
}

__END_DECLS
