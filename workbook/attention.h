// attention.h - what attention.cu and attention_backward.cu share; and the latter's kernels by their own name: the
// library calls them where none is faster.
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

#if defined(__CUDACC__) || defined(__CUDACPU__)
// A thread has a row, and a block walks over tiles of as many rows of others.
constexpr int ROWS = 32;

struct alignas(16) eight {
    bf16 of[8];
};

// A tile of two tensors [.., N, D], `rows` rows from row `start` on; by all threads, which have read the tile before.
template <int D> static __device__ void fetch(eight (&A_tile)[ROWS][D / 8], eight (&B_tile)[ROWS][D / 8], const bf16 *A,
                                              const bf16 *B, size_t start, int rows)
{
    for (int n = threadIdx.x; n < rows * (D / 8); n += ROWS) {
        const size_t at = start * (D / 8) + n;
        A_tile[n / (D / 8)][n % (D / 8)] = ((const eight *)A)[at];
        B_tile[n / (D / 8)][n % (D / 8)] = ((const eight *)B)[at];
    }
}

template <int D> static __device__ void read(float (&x)[D], const bf16 *tensor, size_t row)
{
    for (int c = 0; c < D / 8; c++) {
        const eight piece = ((const eight *)(tensor + row * D))[c];
        for (int d = 0; d < 8; d++) x[8 * c + d] = __bfloat162float(piece.of[d]);
    }
}

template <int D> static __device__ float dot(const float (&x)[D], const eight (&row)[D / 8])
{
    float sum = 0;
    for (int d = 0; d < D; d++) sum += x[d] * __bfloat162float(row[d / 8].of[d % 8]);
    return sum;
}

template <int D> static __device__ void add_times(float (&sum)[D], float x, const eight (&row)[D / 8])
{
    for (int d = 0; d < D; d++) sum[d] += x * __bfloat162float(row[d / 8].of[d % 8]);
}
#endif
