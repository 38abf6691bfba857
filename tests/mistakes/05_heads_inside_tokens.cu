// mistake: takes Q, K, V and O as [B, N, H, D] instead of [B, H, N, D]
#include "workbook.h"

// A thread a query. Tensors are addressed by strides, in elements, as in PyTorch.
struct strides {
    size_t batch, head, token;
};

static strides strides_of(int heads, int N, int D)
{
    strides s;
    s.batch = (size_t)heads * N * D;
    s.token = (size_t)heads * D;
    s.head = (size_t)D;
    return s;
}

__global__ void flash_gqa_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, strides q_stride,
                                 strides kv_stride, int Hq, int Hkv, int N, int D, size_t total, float scale)
{
    const size_t id = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= total) return;
    const int i = (int)(id % N), h = (int)(id / N % Hq), b = (int)(id / N / Hq);
    const int group = Hq / Hkv;

    const bf16 *const q = Q + b * q_stride.batch + h * q_stride.head + i * q_stride.token;
    bf16 *const out = O + b * q_stride.batch + h * q_stride.head + i * q_stride.token;
    const bf16 *k = K + b * kv_stride.batch + h / group * kv_stride.head;
    const bf16 *v = V + b * kv_stride.batch + h / group * kv_stride.head;

    float o[128], m = -INFINITY, l = 0;
    for (int d = 0; d < D; d++) o[d] = 0;
    for (int j = 0; j <= i; j++, k += kv_stride.token, v += kv_stride.token) {
        float s = 0;
        for (int d = 0; d < D; d++) s += __bfloat162float(q[d]) * __bfloat162float(k[d]);
        s *= scale;
        const float m_new = s > m ? s : m;
        const float a = expf(m - m_new), p = expf(s - m_new);
        l = l * a + p;
        for (int d = 0; d < D; d++) o[d] = o[d] * a + p * __bfloat162float(v[d]);
        m = m_new;
    }
    for (int d = 0; d < D; d++) out[d] = __float2bfloat16(o[d] / l);
    L[id] = m + logf(l);
}

wb_status flash_gqa(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,
                    wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_gqa", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    const int N = shape->q_len, D = shape->head_dim, Hq = shape->q_heads, Hkv = shape->kv_heads;
    const size_t total = (size_t)shape->batch * Hq * N;
    flash_gqa_kernel<<<(unsigned)((total + 95) / 96), 96, 0, stream>>>(
        O, L, Q, K, V, strides_of(Hq, N, D), strides_of(Hkv, N, D), Hq, Hkv, N, D, total, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
