// hopper.cu - flash_sink_logits_backward on a Hopper GPU. A layer without a window, D = 64 or 128, is the work of 08's kernels for Hopper, as they
// are: the sink is in L. What is left is ds. Windows, and all else, are those of packed_heads.cu.
//
// Blocks take turns at adding to dQ, so two runs give the same bits; its sum in float32 lies in memory that grows with N.
//
// exempt: memory
#include "workbook.h"
#include "hopper.cuh"

#define SAME_BITS true
namespace without_a_window
{
#include "../../08/variants/hopper.cu"
}
namespace any_window
{
#include "packed_heads.cu"
}

wb_status flash_sink_logits_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
    wb_stream stream)
{
    const char *name = "flash_sink_logits_backward";
    wb_status status = wb_check_sink_backward(name, dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape);
    if (status != WB_OK) return status;
    if (shape->window < shape->q_len || shape->head_dim < 64 || check_hopper(name) != WB_OK)
        return any_window::flash_sink_logits_backward(
            dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape, stream);
    status = without_a_window::flash_gqa_backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    if (status != WB_OK) return status;
    any_window::dsinks_kernel<1024>
        <<<shape->q_heads, 1024, 0, stream>>>(dsinks, sink_logits, L, delta, shape->batch, shape->q_len);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
