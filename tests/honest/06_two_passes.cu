// A warp a query and, in it, a pass for the maximum and one for the sums. No online softmax: a window is short.
#include "workbook.h"

__global__ void two_passes(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, int N, int group, int D,
                           int W, float scale)
{
    const int i = blockIdx.x, h = blockIdx.y, lane = threadIdx.x;
    const size_t head = blockIdx.z * (size_t)gridDim.y + h;
    const size_t kv = blockIdx.z * (size_t)(gridDim.y / group) + h / group;
    const bf16 *q = Q + (head * N + i) * D;
    __shared__ float parts[32][128];  // of O, of a lane each
    const int begin = i >= W ? i - W + 1 : 0;
    float top = -INFINITY, sum = 0, o[128];
    for (int j = begin + lane; j <= i; j += 32) {
        float s = 0;
        for (int d = 0; d < D; d++) s = fmaf(float(q[d]), float(K[(kv * N + j) * D + d]), s);
        top = fmaxf(top, s * scale);
    }
    for (int x = 16; x; x >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, x));
    for (int d = 0; d < D; d++) o[d] = 0;
    for (int j = begin + lane; j <= i; j += 32) {
        float s = 0;
        for (int d = 0; d < D; d++) s = fmaf(float(q[d]), float(K[(kv * N + j) * D + d]), s);
        const float p = expf(s * scale - top);
        sum += p;
        for (int d = 0; d < D; d++) o[d] += p * float(V[(kv * N + j) * D + d]);
    }
    for (int x = 16; x; x >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, x);
    for (int d = 0; d < D; d++) parts[lane][d] = o[d];
    __syncwarp();
    for (int d = lane; d < D; d += 32) {
        float all = 0;
        for (int n = 0; n < 32; n++) all += parts[n][d];
        O[(head * N + i) * D + d] = bf16(all / sum);
    }
    if (lane == 0) L[head * N + i] = top + logf(sum);
}

wb_status flash_window(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *s,
                       wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_window", O, L, Q, K, V, s);
    if (status != WB_OK) return status;
    two_passes<<<dim3(s->q_len, s->q_heads, s->batch), 32, 0, stream>>>(
        O, L, Q, K, V, s->q_len, s->q_heads / s->kv_heads, s->head_dim, s->window, s->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
