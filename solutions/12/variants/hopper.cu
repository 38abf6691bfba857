// hopper.cu - flash_sink_logits_backward on a Hopper GPU, with any window or none: 08's kernels for Hopper, in which a
// tile of keys also has a last query, as for 09's windows. L contains the sink, so only ds remains to be computed.
// Everything else, and other GPUs, use the reference solution.
//
// Blocks take turns at adding to dQ, so two runs give the same bits; its sum in float32 lies in memory that grows with
// N.
// Random shapes that it is chosen for: 77 of 123 with sink logits (records of `make duel`, 2026-11-28).
//
// exempt: memory
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

namespace not_hopper
{
#include "../flash_sink_logits_backward.cu"
}
#define WINDOWS
#define SAME_BITS true
namespace of_08
{
#include "../../08/variants/hopper.cu"
}

// What 08's kernels are to do: 12 does not read shape->sinks.
static attention_shape without_sinks(const attention_shape *shape)
{
    attention_shape masked = *shape;
    masked.sinks = 0;
    return masked;
}

// Bytes of device memory that the next function needs beyond inputs and outputs.
extern "C" size_t flash_sink_logits_backward_workspace(const attention_shape *shape)
{
    const char *name = "flash_sink_logits_backward";
    if (wb_check_shape(name, shape) != WB_OK || !of_08::suits(name, shape)) return 0;
    const attention_shape masked = without_sinks(shape);
    return of_08::bytes_of(&masked);
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
    if (!of_08::suits(name, shape))
        return not_hopper::flash_sink_logits_backward(
            dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape, stream);
    const attention_shape masked = without_sinks(shape);
    status = of_08::launch_any(memory, dQ, dK, dV, delta, Q, K, V, O, L, dO, &masked, stream);
    if (status != WB_OK) return status;
    not_hopper::dsinks_kernel<1024>
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
    return of_08::with_memory(flash_sink_logits_backward_workspace(shape), stream, [&](void *memory, size_t bytes) {
        return flash_sink_logits_backward_in(
            memory, bytes, dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape, stream);
    });
}

double flash_sink_logits_backward_microseconds(const attention_shape *shape, const wb_device *device)
{
    return of_08::three_launches_microseconds(shape, device) + wb_summing(shape->batch * ceil(shape->q_len / 1024.0));
}
