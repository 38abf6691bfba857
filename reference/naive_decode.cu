// naive_decode.cu - decoding with one block per query head: a warp takes a key at a time, its lanes share the head
// dimension.
#include "naive.h"

#include <float.h>

enum { WARPS = 8, COLUMNS = 4 };  // columns of a lane at most

// Element `at` of a cache, of bf16 or of int8, where it is times the scale of its row.
__device__ static float element_of(const bf16 *cache, const float *, size_t, size_t at)
{
    return __bfloat162float(cache[at]);
}
__device__ static float element_of(const int8_t *cache, const float *scale, size_t scale_at, size_t at)
{
    return scale[scale_at] * (float)cache[at];
}

template <class T> __global__ void __launch_bounds__(32 * WARPS)
    naive_decode_kernel(bf16 *O,                                     // [B, Hq, Nq, D]
                        float *L,                                    // [B, Hq, Nq]
                        const bf16 *Q,                               // [B, Hq, Nq, D]
                        const T *K,                                  // [pages, page_size, Hkv, D]
                        const T *V,                                  // likewise
                        const float *K_scale, const float *V_scale,  // [pages, Hkv, page_size], of int8
                        const int *page_table,                       // [B, max_pages]
                        const int *kv_len,                           // [B]
                        decode_shape shape)
{
    __shared__ float m_smem[WARPS], l_smem[WARPS], O_smem[WARPS][32 * COLUMNS];
    const int b = blockIdx.y, h = blockIdx.x, kv_head = h / (shape.q_heads / shape.kv_heads), D = shape.head_dim;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, keys = kv_len[b];
    page_table += (size_t)b * shape.max_pages;
    for (int i = 0; i < shape.q_len; i++) {
        const size_t row = ((size_t)b * shape.q_heads + h) * shape.q_len + i;
        float q[COLUMNS], o[COLUMNS] = {}, m = -FLT_MAX, l = 0;
        for (int c = 0; c < COLUMNS; c++) {
            const int d = 32 * c + lane;
            q[c] = d < D ? __bfloat162float(Q[row * D + d]) : 0;
        }
        for (int j = warp; j <= keys - shape.q_len + i; j += WARPS) {
            const size_t page = page_table[j / shape.page_size];
            const size_t kv_row = (page * shape.page_size + j % shape.page_size) * shape.kv_heads + kv_head;
            const size_t at = kv_row * D + lane;
            const size_t scale_at = (page * shape.kv_heads + kv_head) * shape.page_size + j % shape.page_size;
            float s = 0;
            for (int c = 0; c < COLUMNS; c++)
                if (32 * c + lane < D) s += q[c] * element_of(K, K_scale, scale_at, at + 32 * c);
            for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
            const float m_new = fmaxf(m, shape.scale * s), alpha = expf(m - m_new), p = expf(shape.scale * s - m_new);
            m = m_new;
            l = l * alpha + p;
            for (int c = 0; c < COLUMNS; c++)
                if (32 * c + lane < D) o[c] = o[c] * alpha + p * element_of(V, V_scale, scale_at, at + 32 * c);
        }
        if (lane == 0) m_smem[warp] = m, l_smem[warp] = l;
        for (int c = 0; c < COLUMNS; c++) O_smem[warp][32 * c + lane] = o[c];
        __syncthreads();  // what each warp has is there for the first ones
        float m_all = -FLT_MAX, l_all = 0, sum = 0;
        for (int w = 0; w < WARPS; w++) m_all = fmaxf(m_all, m_smem[w]);
        for (int w = 0; w < WARPS; w++) {
            const float alpha = expf(m_smem[w] - m_all);
            l_all += l_smem[w] * alpha;
            if ((int)threadIdx.x < D) sum += O_smem[w][threadIdx.x] * alpha;
        }
        if ((int)threadIdx.x < D) O[row * D + threadIdx.x] = __float2bfloat16(l_all > 0 ? sum / l_all : 0);
        if (threadIdx.x == 0) L[row] = m_all + logf(l_all);
        __syncthreads();  // all of it has been read
    }
}

extern "C" wb_status naive_gpu_decode(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V,
                                      const int *page_table, const int *kv_len, void *, size_t,
                                      const decode_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_decode_shape("flash_decode", shape);
    if (status != WB_OK) return status;
    naive_decode_kernel<<<dim3(shape->q_heads, shape->batch), 32 * WARPS, 0, stream>>>(O, L, Q, K, V, nullptr, nullptr,
                                                                                       page_table, kv_len, *shape);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

extern "C" wb_status naive_gpu_decode_int8(bf16 *O, float *L, const bf16 *Q, const int8_t *K, const int8_t *V,
                                           const float *K_scale, const float *V_scale, const int *page_table,
                                           const int *kv_len, void *, size_t, const decode_shape *shape,
                                           wb_stream stream)
{
    const wb_status status = wb_check_decode_shape("flash_decode_int8", shape);
    if (status != WB_OK) return status;
    naive_decode_kernel<<<dim3(shape->q_heads, shape->batch), 32 * WARPS, 0, stream>>>(O, L, Q, K, V, K_scale, V_scale,
                                                                                       page_table, kv_len, *shape);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
