// mistake: does not multiply dQ by scale
#include "workbook.h"

// Tiles of 32 rows in shared memory, in float32, and a thread a row of the result. Q is scaled when it is loaded.
#define T 32

template <int D> __device__ static void fetch(float (*tile)[D + 1], const bf16 *src, int rows, float factor)
{
    for (int x = threadIdx.x; x < T * D; x += T)
        tile[x / D][x % D] = x / D < rows ? factor * __bfloat162float(src[x]) : 0.0f;
}

template <int D> __global__ __launch_bounds__(T) void queries_kernel(bf16 *dQ, float *delta, const bf16 *Q,
                                                                     const bf16 *K, const bf16 *V, const bf16 *O,
                                                                     const float *L, const bf16 *dO, int Hq, int Hkv,
                                                                     int N, float scale)
{
    __shared__ float k_tile[T][D + 1], v_tile[T][D + 1];
    const int i0 = blockIdx.x * T, i = i0 + threadIdx.x;
    const size_t head = (size_t)blockIdx.z * Hq + blockIdx.y;
    const size_t row = head * N + min(i, N - 1);
    const size_t keys = ((size_t)blockIdx.z * Hkv + blockIdx.y / (Hq / Hkv)) * N;

    float q[D], g[D], grad[D], rowsum = 0;
    for (int d = 0; d < D; d++) {
        q[d] = scale * __bfloat162float(Q[row * D + d]);
        g[d] = __bfloat162float(dO[row * D + d]);
        rowsum += g[d] * __bfloat162float(O[row * D + d]);
        grad[d] = 0;
    }
    const float lse = L[row];
    for (int j0 = 0; j0 <= i0; j0 += T) {
        fetch<D>(k_tile, K + (keys + j0) * D, N - j0, 1);
        fetch<D>(v_tile, V + (keys + j0) * D, N - j0, 1);
        __syncthreads();  // the tiles are full
        for (int j = 0; j < T && j0 + j <= i; j++) {
            float s = 0, dp = 0;
            for (int d = 0; d < D; d++) s += q[d] * k_tile[j][d], dp += g[d] * v_tile[j][d];
            const float ds = expf(s - lse) * (dp - rowsum);
            for (int d = 0; d < D; d++) grad[d] += ds * k_tile[j][d];
        }
        __syncthreads();  // the tiles are free
    }
    if (i >= N) return;
    delta[row] = rowsum;
    for (int d = 0; d < D; d++) dQ[row * D + d] = __float2bfloat16(grad[d]);
}

template <int D> __global__ __launch_bounds__(T) void keys_kernel(bf16 *dK, bf16 *dV, const float *delta, const bf16 *Q,
                                                                  const bf16 *K, const bf16 *V, const float *L,
                                                                  const bf16 *dO, int Hq, int Hkv, int N, float scale)
{
    __shared__ float q_tile[T][D + 1], g_tile[T][D + 1];
    const int j0 = blockIdx.x * T, j = j0 + threadIdx.x, group = Hq / Hkv;
    const size_t row = ((size_t)blockIdx.z * Hkv + blockIdx.y) * N + min(j, N - 1);

    float k[D], v[D], k_grad[D], v_grad[D];
    for (int d = 0; d < D; d++) {
        k[d] = __bfloat162float(K[row * D + d]);
        v[d] = __bfloat162float(V[row * D + d]);
        k_grad[d] = v_grad[d] = 0;
    }
    for (int h = blockIdx.y * group; h < ((int)blockIdx.y + 1) * group; h++)
        for (int i0 = j0; i0 < N; i0 += T) {
            const size_t first = ((size_t)blockIdx.z * Hq + h) * N + i0;
            fetch<D>(q_tile, Q + first * D, N - i0, scale);
            fetch<D>(g_tile, dO + first * D, N - i0, 1);
            __syncthreads();  // the tiles are full
            for (int i = max(0, j - i0); i < T && i0 + i < N; i++) {
                float s = 0, dp = 0;
                for (int d = 0; d < D; d++) s += q_tile[i][d] * k[d], dp += g_tile[i][d] * v[d];
                const float p = expf(s - L[first + i]), ds = p * (dp - delta[first + i]);
                for (int d = 0; d < D; d++) v_grad[d] += p * g_tile[i][d], k_grad[d] += ds * q_tile[i][d];
            }
            __syncthreads();  // the tiles are free
        }
    if (j >= N) return;
    for (int d = 0; d < D; d++) {
        dK[row * D + d] = __float2bfloat16(k_grad[d]);
        dV[row * D + d] = __float2bfloat16(v_grad[d]);
    }
}

template <int D> static wb_status run(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K,
                                      const bf16 *V, const bf16 *O, const float *L, const bf16 *dO,
                                      const attention_shape *s, wb_stream stream)
{
    const int Hq = s->q_heads, Hkv = s->kv_heads, N = s->q_len, tiles = (N - 1) / T + 1;
    queries_kernel<D><<<dim3(tiles, Hq, s->batch), T, 0, stream>>>(dQ, delta, Q, K, V, O, L, dO, Hq, Hkv, N, s->scale);
    WB_CUDA(cudaGetLastError());
    keys_kernel<D><<<dim3(tiles, Hkv, s->batch), T, 0, stream>>>(dK, dV, delta, Q, K, V, L, dO, Hq, Hkv, N, s->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_gqa_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                             const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
                             wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_gqa_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    switch (shape->head_dim) {
    case 16: return run<16>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    case 32: return run<32>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    case 64: return run<64>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    default: return run<128>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    }
}
