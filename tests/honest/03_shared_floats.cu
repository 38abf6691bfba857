// Tiles of 32 x 32 in shared memory, as floats; the scores too. 8 threads a query, each with every eighth column.
#include "workbook.h"

constexpr int B = 32, PER_ROW = 8;

__global__ void shared_floats(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int Nq, int Nk, int D,
                              float scale)
{
    extern __shared__ float memory[];
    float *q = memory, *k = q + B * (D + 1), *v = k + B * (D + 1), *o = v + B * (D + 1), *s = o + B * (D + 1);
    const int t = threadIdx.x, r = t / PER_ROW, part = t % PER_ROW, row0 = blockIdx.y * B;
    const size_t head = blockIdx.x;
    for (int n = t; n < B * D; n += blockDim.x) {
        const int i = n / D, d = n % D;
        q[i * (D + 1) + d] = row0 + i < Nq ? __bfloat162float(Q[(head * Nq + row0 + i) * D + d]) * scale : 0.f;
        o[i * (D + 1) + d] = 0.f;
    }
    float m = -1e38f, l = 0;
    for (int j0 = 0; j0 < Nk; j0 += B) {
        const int n_keys = min(B, Nk - j0);
        __syncthreads();
        for (int n = t; n < n_keys * D; n += blockDim.x) {
            k[n / D * (D + 1) + n % D] = __bfloat162float(K[(head * Nk + j0) * D + n]);
            v[n / D * (D + 1) + n % D] = __bfloat162float(V[(head * Nk + j0) * D + n]);
        }
        __syncthreads();
        for (int j = part; j < n_keys; j += PER_ROW) {
            float dot = 0;
            for (int d = 0; d < D; d++) dot += q[r * (D + 1) + d] * k[j * (D + 1) + d];
            s[r * B + j] = dot;
        }
        __syncthreads();
        float m_new = m;  // all 8 threads of a row do the same
        for (int j = 0; j < n_keys; j++) m_new = fmaxf(m_new, s[r * B + j]);
        const float a = __expf(m - m_new);
        l *= a;
        for (int d = part; d < D; d += PER_ROW) o[r * (D + 1) + d] *= a;
        for (int j = 0; j < n_keys; j++) {
            const float p = __expf(s[r * B + j] - m_new);
            l += p;
            for (int d = part; d < D; d += PER_ROW) o[r * (D + 1) + d] += p * v[j * (D + 1) + d];
        }
        m = m_new;
    }
    if (row0 + r >= Nq) return;
    for (int d = part; d < D; d += PER_ROW)
        O[(head * Nq + row0 + r) * D + d] = __float2bfloat16(o[r * (D + 1) + d] / l);
    if (part == 0) L[head * Nq + row0 + r] = m + __logf(l);
}

wb_status flash_forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                        wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_forward", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    const int bytes = (4 * B * (s->head_dim + 1) + B * B) * 4;
    WB_CUDA(cudaFuncSetAttribute(shared_floats, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const dim3 grid(s->batch * s->q_heads, (s->q_len + B - 1) / B);
    if (grid.y > 65535) return wb_fail(WB_UNSUPPORTED, "too many queries");
    shared_floats<<<grid, B * PER_ROW, bytes, stream>>>(O, L, Q, K, V, s->q_len, s->kv_len, s->head_dim, s->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
