// hopper_window.cu - flash_sink_logits_backward by 09's kernel for short windows on a Hopper GPU, without sink tokens:
// D = 64, W <= 129. L contains the sink, so only ds remains to be computed. Everything else uses the reference
// solution.
// Random shapes that it is chosen for: 18 of 123 with sink logits (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

namespace beyond_the_window
{
#include "../flash_sink_logits_backward.cu"
}
namespace short_window
{
#define SINK_LOGITS
#include "../../09/variants/hopper.cu"
}

wb_status flash_sink_logits_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
    wb_stream stream)
{
    const char *name = "flash_sink_logits_backward";
    wb_status status = wb_check_sink_backward(name, dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape);
    if (status != WB_OK) return status;
    if (!short_window::suits(name, shape))
        return beyond_the_window::flash_sink_logits_backward(
            dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape, stream);
    status = short_window::launch_stretches<false>(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, 0, stream);
    if (status != WB_OK) return status;
    beyond_the_window::dsinks_kernel<1024>
        <<<shape->q_heads, 1024, 0, stream>>>(dsinks, sink_logits, L, delta, shape->batch, shape->q_len);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

double flash_sink_logits_backward_microseconds(const attention_shape *shape, const wb_device *device)
{
    return short_window::stretch_microseconds(shape, device) + wb_summing(shape->batch * ceil(shape->q_len / 1024.0));
}
