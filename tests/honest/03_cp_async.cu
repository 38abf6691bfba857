// A thread a query, K and V by cp.async written by hand, two stages of 16 keys.
#include "workbook.h"

#include <float.h>

#include <cuda_pipeline.h>

template <int D> struct stage {
    alignas(16) bf16 k[16][D], v[16][D];
};

template <int D> __device__ void fetch(stage<D> &to, const bf16 *K, const bf16 *V, int keys)
{
    for (int n = threadIdx.x; n < 16 * D / 8; n += blockDim.x) {
        const int j = n / (D / 8), c = n % (D / 8) * 8;
        const bool there = j < keys;
        __pipeline_memcpy_async(&to.k[j][c], there ? K + (size_t)j * D + c : K, 16, there ? 0 : 16);
        __pipeline_memcpy_async(&to.v[j][c], there ? V + (size_t)j * D + c : V, 16, there ? 0 : 16);
    }
    __pipeline_commit();
}

template <int D> __global__ void cp_async_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int H,
                                                 int Nq, int Nk, float scale)
{
    __shared__ stage<D> ring[2];
    const size_t head = blockIdx.z * (size_t)H + blockIdx.y;
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    float q[D], o[D], m = -FLT_MAX, l = 0;
    for (int d = 0; d < D; d++) o[d] = 0, q[d] = row < Nq ? scale * float(Q[(head * Nq + row) * D + d]) : 0;
    K += head * Nk * D, V += head * Nk * D;
    fetch(ring[0], K, V, Nk);
    for (int j0 = 0, at = 0; j0 < Nk; j0 += 16, at ^= 1) {
        if (j0 + 16 < Nk) {
            fetch(ring[at ^ 1], K + (size_t)(j0 + 16) * D, V + (size_t)(j0 + 16) * D, Nk - j0 - 16);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        const int n = min(16, Nk - j0);
        float s[16], top = m;
        for (int j = 0; j < n; j++) {
            s[j] = 0;
            for (int d = 0; d < D; d++) s[j] += q[d] * float(ring[at].k[j][d]);
            top = fmaxf(top, s[j]);
        }
        const float a = expf(m - top);
        l *= a, m = top;
        for (int d = 0; d < D; d++) o[d] *= a;
        for (int j = 0; j < n; j++) {
            const float p = expf(s[j] - m);
            l += p;
            for (int d = 0; d < D; d++) o[d] += p * float(ring[at].v[j][d]);
        }
        __syncthreads();
    }
    if (row >= Nq) return;
    for (int d = 0; d < D; d++) O[(head * Nq + row) * D + d] = bf16(o[d] / l);
    L[head * Nq + row] = m + logf(l);
}

template <int D> static wb_status go(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                     const attention_shape *s, wb_stream stream)
{
    const dim3 grid((s->q_len + 63) / 64, s->q_heads, s->batch);
    WB_CUDA(cudaMemsetAsync(O, 0, (size_t)s->batch * s->q_heads * s->q_len * D * sizeof *O, stream));  // for nothing
    cp_async_kernel<D><<<grid, 64, 0, stream>>>(O, L, Q, K, V, s->q_heads, s->q_len, s->kv_len, s->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    return s->head_dim == 16   ? go<16>(O, L, Q, K, V, s, stream)
           : s->head_dim == 32 ? go<32>(O, L, Q, K, V, s, stream)
           : s->head_dim == 64 ? go<64>(O, L, Q, K, V, s, stream)
                               : go<128>(O, L, Q, K, V, s, stream);
}
