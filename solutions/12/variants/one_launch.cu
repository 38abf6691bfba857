// one_launch.cu - flash_sink_logits_backward on a Hopper GPU for short sequences: 08's kernel of the same name, which
// needs nothing of the sinks but L, and a second, small one for ds, which starts while the first ends. D = 64 or 128;
// everything else uses the reference solution.
// Random shapes that it is chosen for: 23 of 123 with sink logits (records of `make duel`, 2026-11-28).
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

namespace for_other_shapes
{
#include "../flash_sink_logits_backward.cu"
}
namespace of_08
{
#define OF_ANOTHER
#include "../../08/variants/one_launch.cu"
}

// ds = -sum over the rows of a head, in all batches, of exp(s - L) delta, a block a head. As in the key, but a
// thread's rows are of all sequences: one that is short would leave most threads idle.
template <int THREADS> __global__ __launch_bounds__(THREADS) void dsinks_of_all_kernel(
    float *dsinks,             // [Hq]
    const float *sink_logits,  // [Hq]
    const float *L,            // [B, Hq, N]
    const float *delta,        // [B, Hq, N]
    int rows, int N)           // B N
{
    __shared__ float sums[32];
    const int head = blockIdx.x, q_heads = gridDim.x;
    const float s = sink_logits[head];
    before_is_done();
    float sum = 0;
#pragma unroll 4
    for (int n = threadIdx.x; n < rows; n += THREADS) {
        const size_t row = ((size_t)(n / N) * q_heads + head) * N + n % N;
        sum -= exp2_fast((s - L[row]) * LOG2_E) * delta[row];
    }
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (lane_id() == 0) sums[warp_id()] = sum;
    __syncthreads();  // the sums of all warps are there
    if (warp_id() > 0) return;
    sum = lane_id() < THREADS / 32 ? sums[lane_id()] : 0;
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (lane_id() == 0) dsinks[head] = sum;
}

wb_status flash_sink_logits_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
    wb_stream stream)
{
    const char *name = "flash_sink_logits_backward";
    wb_status status = wb_check_sink_backward(name, dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape);
    if (status != WB_OK) return status;
    if (!of_08::suits(name, shape))
        return for_other_shapes::flash_sink_logits_backward(
            dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape, stream);
    attention_shape masked = *shape;
    masked.sinks = 0;  // 12 does not read it
    status = of_08::launch_any(dQ, dK, dV, delta, Q, K, V, O, L, dO, &masked, stream);
    if (status != WB_OK) return status;
    return launch_after(
        dsinks_of_all_kernel<256>, dim3(shape->q_heads), 256, 0, stream, dsinks, sink_logits, L, delta,
        shape->batch * shape->q_len, shape->q_len);
}

double flash_sink_logits_backward_microseconds(const attention_shape *shape, const wb_device *device)
{
    return of_08::one_launch_microseconds(shape, device) + wb_summing(ceil((double)shape->batch * shape->q_len / 256));
}
