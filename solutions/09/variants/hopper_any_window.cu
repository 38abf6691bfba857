// hopper_any_window.cu - flash_sinks_backward on a Hopper GPU, for windows and sinks of any size: the kernels of 08's
// variant for Hopper, in which a tile of keys also has a last query. Other cases, and other GPUs, use the
// reference solution.
//
// Blocks take turns at adding to dQ, so two runs give the same bits; its sum in float32 lies in memory that grows with
// N.
//
// The items of work for sinks that are seen from afar are as many for each tile of keys: one that has no queries left
// fetches its tile and passes the sum on, which drawn cases take amiss where sinks are many.
// Random shapes that it is chosen for: 120 of 215 backward passes with a window, 16 of 34 with sinks (records of `make
// duel`, 2026-11-28).
//
// exempt: memory drawn_sizes hidden_tiles_are_not_loaded
#include "workbook.h"
#include "predict.h"
#include "hopper.cuh"

namespace not_hopper
{
#include "../flash_sinks_backward.cu"
}
#define WINDOWS
#define SAME_BITS true
namespace of_08
{
#include "../../08/variants/hopper.cu"
}

// Bytes of device memory that the next function needs beyond inputs and outputs.
extern "C" size_t flash_sinks_backward_workspace(const attention_shape *shape)
{
    const char *name = "flash_sinks_backward";
    return wb_check_shape(name, shape) == WB_OK && of_08::suits(name, shape) ? of_08::bytes_of(shape) : 0;
}

// flash_sinks_backward in memory of the caller's.
extern "C" wb_status flash_sinks_backward_in(
    void *memory, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    const char *name = "flash_sinks_backward";
    wb_status status = wb_check_backward(name, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status == WB_OK) status = wb_check_workspace(name, memory, bytes, flash_sinks_backward_workspace(shape));
    if (status != WB_OK) return status;
    if (!of_08::suits(name, shape))
        return not_hopper::flash_sinks_backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    return of_08::launch_any(memory, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
}

wb_status flash_sinks_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)
{
    wb_status status = wb_check_backward("flash_sinks_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);
    if (status != WB_OK) return status;
    return of_08::with_memory(flash_sinks_backward_workspace(shape), stream, [&](void *memory, size_t bytes) {
        return flash_sinks_backward_in(memory, bytes, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);
    });
}

double flash_sinks_backward_microseconds(const attention_shape *shape, const wb_device *device)
{
    return of_08::three_launches_microseconds(shape, device);
}
