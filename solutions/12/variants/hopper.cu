// hopper.cu - flash_sink_logits_backward on a Hopper GPU. A layer without a window, D = 64 or 128, is the work of 08's kernels for Hopper, as they
// are: the sink is in L. What is left is ds. Windows, and all else, are those of packed_heads.cu.
//
// Blocks take turns at adding to dQ, so two runs give the same bits; its sum in float32 lies in memory that grows with N.
//
// exempt: memory
#include "workbook.h"
#include "hopper.cuh"

// In names of their own: 08's are declared in workbook.h.
#define flash_gqa_backward_workspace workspace_without_a_window
#define flash_gqa_backward_in        in_without_a_window
#define SAME_BITS                    true
namespace without_a_window
{
#include "../../08/variants/hopper.cu"
}
namespace any_window
{
#include "packed_heads.cu"
}

static bool without(const attention_shape *shape)
{
    return shape->window >= shape->q_len && shape->head_dim >= 64 &&
           check_hopper("flash_sink_logits_backward") == WB_OK;
}

// Bytes of device memory that the next function needs beyond inputs and outputs.
extern "C" size_t flash_sink_logits_backward_workspace(const attention_shape *shape)
{
    if (wb_check_shape("flash_sink_logits_backward", shape) != WB_OK || !without(shape)) return 0;
    return without_a_window::flash_gqa_backward_workspace(shape);
}

// flash_sink_logits_backward in memory of the caller's.
extern "C" wb_status flash_sink_logits_backward_in(
    void *memory, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q, const bf16 *K,
    const bf16 *V, const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO,
    const attention_shape *shape, wb_stream stream)
{
    const char *name = "flash_sink_logits_backward";
    wb_status status = wb_check_sink_backward(name, dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape);
    if (status == WB_OK) status = wb_check_workspace(name, memory, bytes, flash_sink_logits_backward_workspace(shape));
    if (status != WB_OK) return status;
    if (!without(shape))
        return any_window::flash_sink_logits_backward(
            dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape, stream);
    status =
        without_a_window::flash_gqa_backward_in(memory, bytes, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    if (status != WB_OK) return status;
    any_window::dsinks_kernel<1024>
        <<<shape->q_heads, 1024, 0, stream>>>(dsinks, sink_logits, L, delta, shape->batch, shape->q_len);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

wb_status flash_sink_logits_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
    wb_stream stream)
{
    const char *name = "flash_sink_logits_backward";
    wb_status status = wb_check_sink_backward(name, dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape);
    if (status != WB_OK) return status;
    const size_t bytes = flash_sink_logits_backward_workspace(shape);
    void *memory = nullptr;
    if (bytes) WB_CUDA(cudaMallocAsync(&memory, bytes, stream));
    status = flash_sink_logits_backward_in(
        memory, bytes, dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape, stream);
    if (bytes) WB_CUDA(cudaFreeAsync(memory, stream));
    return status;
}
