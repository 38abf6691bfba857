// delta.cuh - what three variants begin with, as the keys do.
#pragma once

#define LOG2_E 1.44269504f  // exp(x) = exp2(LOG2_E x)

// delta = rowsum(dO * O): D / 8 neighbouring lanes share a row, each of them 16 bytes of it.
template <int D> __global__ __launch_bounds__(256) void delta_kernel(
    float *delta,    // [B, Hq, N]
    const bf16 *O,   // [B, Hq, N, D]
    const bf16 *dO,  // [B, Hq, N, D]
    size_t rows)     // B Hq N
{
    constexpr int LANES = D / 8;
    const size_t at = (size_t)blockIdx.x * 256 + threadIdx.x, row = at / LANES;
    uint4 O_reg = {}, dO_reg = {};  // eight bf16 each; nothing beyond the last row
    if (row < rows) {
        O_reg = reinterpret_cast<const uint4 *>(O)[at];
        dO_reg = reinterpret_cast<const uint4 *>(dO)[at];
    }
    const auto *o = reinterpret_cast<const __nv_bfloat162 *>(&O_reg),
               *g = reinterpret_cast<const __nv_bfloat162 *>(&dO_reg);
    float sum = 0;
    for (int k = 0; k < 4; k++) {
        const float2 a = __bfloat1622float2(o[k]), b = __bfloat1622float2(g[k]);
        sum += a.x * b.x + a.y * b.y;
    }
    for (int lane = LANES / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (row < rows && at % LANES == 0) delta[row] = sum;
}
