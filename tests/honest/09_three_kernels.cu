// The three kernels of 08 under another mask.
#include "parts/three_kernels.cu"

__device__ bool sees(const attention_shape &s, int i, int j) { return j <= i && (j > i - s.window || j < s.sinks); }

wb_status flash_sinks_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                               const bf16 *O, const float *L, const bf16 *dO, const attention_shape *s,
                               wb_stream stream)
{
    const wb_status status = wb_check_backward("flash_sinks_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, s);
    return status == WB_OK ? run({dQ, dK, dV, delta, Q, K, V, O, L, dO, *s}, stream) : status;
}
