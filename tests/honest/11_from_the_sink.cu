// A warp a query, a lane every 32nd key. The online softmax begins with the sink, in the first lane alone: m = s, l = 1. Lanes are merged at the end.
#include "workbook.h"

__global__ void from_the_sink(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sinks, int N,
                              int group, int D, int W, float scale)
{
    const int i = blockIdx.x, h = blockIdx.y, lane = threadIdx.x;
    const size_t head = blockIdx.z * (size_t)gridDim.y + h;
    const size_t kv = blockIdx.z * (size_t)(gridDim.y / group) + h / group;
    const bf16 *q = Q + (head * N + i) * D;
    float m = lane == 0 ? sinks[h] : -INFINITY, l = m > -INFINITY ? 1 : 0, o[128];
    for (int d = 0; d < D; d++) o[d] = 0;
    for (int j = (i >= W ? i - W + 1 : 0) + lane; j <= i; j += 32) {
        float s = 0;
        for (int d = 0; d < D; d++) s = fmaf(float(q[d]), float(K[(kv * N + j) * D + d]), s);
        s *= scale;
        const float larger = fmaxf(m, s), a = m == -INFINITY ? 0 : expf(m - larger), p = expf(s - larger);
        m = larger, l = l * a + p;
        for (int d = 0; d < D; d++) o[d] = o[d] * a + p * float(V[(kv * N + j) * D + d]);
    }
    __shared__ float O_of[32][128];
    float top = m;
    for (int x = 16; x; x >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, x));
    const float a = m == -INFINITY ? 0 : expf(m - top);
    l *= a;
    for (int x = 16; x; x >>= 1) l += __shfl_xor_sync(0xffffffff, l, x);
    for (int d = 0; d < D; d++) O_of[lane][d] = o[d] * a;
    for (int half = 16; half > 0; half /= 2) {  // the first `half` lanes take over what the others have
        __syncwarp();
        for (int d = 0; d < D && lane < half; d++) O_of[lane][d] += O_of[lane + half][d];
    }
    __syncwarp();
    for (int d = lane; d < D; d += 32) O[(head * N + i) * D + d] = bf16(O_of[0][d] / l);
    if (lane == 0) L[head * N + i] = top + logf(l);
}

wb_status flash_sink_logits(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
                            const attention_shape *s, wb_stream stream)
{
    const wb_status status = wb_check_sink_forward("flash_sink_logits", O, L, Q, K, V, sink_logits, s);
    if (status != WB_OK) return status;
    from_the_sink<<<dim3(s->q_len, s->q_heads, s->batch), 32, 0, stream>>>(
        O, L, Q, K, V, sink_logits, s->q_len, s->q_heads / s->kv_heads, s->head_dim, s->window, s->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
