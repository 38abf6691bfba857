// A fourth kernel for dsinks, a warp a head, after the three of 08.
#include "parts/three_kernels.cu"

__device__ bool sees(const attention_shape &s, int i, int j) { return j <= i && i - j < s.window; }

__global__ void sinks_side(gradients g, float *dsinks, const float *sinks)
{
    const int h = blockIdx.x, N = g.s.q_len;
    const long rows = (long)g.s.batch * N;
    float sum = 0, lost = 0;
    for (long n = threadIdx.x; n < rows; n += 32) {
        const long row = (n / N * g.s.q_heads + h) * N + n % N;
        const float term = expf(sinks[h] - g.L[row]) * g.delta[row] - lost, next = sum + term;
        lost = next - sum - term;
        sum = next;
    }
    for (int lane = 1; lane < 32; lane *= 2) sum += __shfl_xor_sync(~0u, sum, lane);
    if (threadIdx.x == 0) dsinks[h] = -sum;
}

wb_status flash_sink_logits_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q,
                                     const bf16 *K, const bf16 *V, const float *sinks, const bf16 *O, const float *L,
                                     const bf16 *dO, const attention_shape *s, wb_stream stream)
{
    wb_status status =
        wb_check_sink_backward("flash_sink_logits_backward", dQ, dK, dV, dsinks, delta, Q, K, V, sinks, O, L, dO, s);
    if (status != WB_OK) return status;
    const gradients g = {dQ, dK, dV, delta, Q, K, V, O, L, dO, *s};
    status = run(g, stream);
    if (status != WB_OK) return status;
    sinks_side<<<s->q_heads, 32, 0, stream>>>(g, dsinks, sinks);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
