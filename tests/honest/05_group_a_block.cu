// A block has one query of all query heads that share a key head, a warp each; keys 32 at a time through shared memory.
#include "workbook.h"

__global__ void group_kernel(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int N, int Hq, int group,
                             int D, float scale)
{
    __shared__ bf16 keys[32 * 128], values[32 * 128];
    __shared__ float weights[4][32];  // of a warp each
    const int i = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const size_t kv = blockIdx.z * (size_t)gridDim.y + blockIdx.y;
    for (int first = 0; first < group; first += warps) {  // some groups have more heads than a block has warps
        const int member = first + warp;
        const bool works = member < group;
        const size_t head = blockIdx.z * (size_t)Hq + blockIdx.y * group + (works ? member : 0), row = head * N + i;
        float m = -3e38f, l = 0, o[4] = {};
        for (int j0 = 0; j0 <= i; j0 += 32) {
            const int n = min(32, i + 1 - j0);
            __syncthreads();
            for (int e = threadIdx.x; e < n * D; e += blockDim.x) {
                keys[e] = K[(kv * N + j0) * D + e];
                values[e] = V[(kv * N + j0) * D + e];
            }
            __syncthreads();
            float s = -INFINITY;
            if (lane < n) {
                s = 0;
                for (int d = 0; d < D; d++) s += float(Q[row * D + d]) * float(keys[lane * D + d]);
                s *= scale;
            }
            float top = s;
            for (int x = 1; x < 32; x *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, x));
            const float m_new = fmaxf(m, top), a = expf(m - m_new), p = expf(s - m_new);
            l = l * a + p;  // of this lane's keys
            m = m_new;
            for (int c = 0; c < 4; c++) o[c] *= a;
            weights[warp][lane] = p;
            __syncwarp();
            for (int j = 0; j < n; j++)
                for (int c = 0; c * 32 + lane < D; c++) o[c] += weights[warp][j] * float(values[j * D + c * 32 + lane]);
        }
        for (int x = 1; x < 32; x *= 2) l += __shfl_xor_sync(0xffffffff, l, x);
        for (int c = 0; works && c * 32 + lane < D; c++) O[row * D + c * 32 + lane] = bf16(o[c] / l);
        if (works && lane == 0) L[row] = m + logf(l);
    }
}

wb_status flash_gqa(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                    wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_gqa", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    const int group = s->q_heads / s->kv_heads;
    group_kernel<<<dim3(s->q_len, s->kv_heads, s->batch), 32 * (group < 4 ? group : 4), 0, stream>>>(
        O, L, Q, K, V, s->q_len, s->q_heads, group, s->head_dim, s->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
