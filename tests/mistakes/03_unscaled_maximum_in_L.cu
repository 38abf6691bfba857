// mistake: takes the maximum of the products q . k into L before it was multiplied by the scale
#include "workbook.h"

#include <math.h>

constexpr int QUERIES = 64;  // of a block, one a thread
constexpr int KEYS = 16;     // in shared memory at a time

template <int D> struct key_tile {
    float k[KEYS][D], v[KEYS][D];
};

template <int D>
__global__ void attention(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int Nq, int Nk, float scale)
{
    __shared__ key_tile<D> tile;
    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    const int i = blockIdx.x * QUERIES + threadIdx.x;
    const bool alive = i < Nq;  // the others help to load
    const size_t row = head * Nq + (alive ? i : 0);
    float q[D], o[D], m = -INFINITY, l = 0;
    for (int d = 0; d < D; d++) {
        q[d] = __bfloat162float(Q[row * D + d]);
        o[d] = 0;
    }

    for (int j0 = 0; j0 < Nk; j0 += KEYS) {
        const int n = min(KEYS, Nk - j0);
        __syncthreads();  // nobody reads the last tile any more
        for (int x = threadIdx.x; x < n * D; x += QUERIES) {
            const size_t at = (head * Nk + j0) * D + x;
            tile.k[x / D][x % D] = __bfloat162float(K[at]);
            tile.v[x / D][x % D] = __bfloat162float(V[at]);
        }
        __syncthreads();  // the tile is there

        float s[KEYS], top = m;
        for (int j = 0; j < n; j++) {
            s[j] = 0;
            for (int d = 0; d < D; d++) s[j] += q[d] * tile.k[j][d];
            top = fmaxf(top, s[j]);
        }
        // scale > 0, so the largest product is the largest score too: the scale can wait until the exponent
        const float c = expf(scale * (m - top));
        l *= c;
        for (int d = 0; d < D; d++) o[d] *= c;
        for (int j = 0; j < n; j++) {
            const float p = expf(scale * (s[j] - top));
            l += p;
            for (int d = 0; d < D; d++) o[d] += p * tile.v[j][d];
        }
        m = top;
    }

    if (!alive) return;
    for (int d = 0; d < D; d++) O[row * D + d] = __float2bfloat16(o[d] / l);
    L[row] = m + logf(l);
}

template <int D> static wb_status start(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                        const attention_shape *s, wb_stream stream)
{
    const dim3 blocks((s->q_len - 1) / QUERIES + 1, s->q_heads, s->batch);
    attention<D><<<blocks, QUERIES, 0, stream>>>(O, L, Q, K, V, s->q_len, s->kv_len, s->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    switch (shape->head_dim) {
    case 16: return start<16>(O, L, Q, K, V, shape, stream);
    case 32: return start<32>(O, L, Q, K, V, shape, stream);
    case 64: return start<64>(O, L, Q, K, V, shape, stream);
    default: return start<128>(O, L, Q, K, V, shape, stream);
    }
}
