// One warp a row, one column a lane and step, a butterfly of shuffles; eight warps a block, rows by strides of the grid.
#include "workbook.h"

__global__ void row_kernel(float *y, const bf16 *x, const bf16 *w, int rows, int cols)
{
    const int lane = threadIdx.x & 31, warps = gridDim.x * (blockDim.x >> 5);
    for (long row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5); row < rows; row += warps) {
        float sum = 0.f;
        for (int j = lane; j < cols; j += 32)
            sum = fmaf(__bfloat162float(x[(size_t)row * cols + j]), __bfloat162float(w[j]), sum);
        for (int step = 1; step < 32; step <<= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (lane == 0) y[row] = sum;
    }
}

wb_status weighted_row_sum(float *y, const bf16 *x, const bf16 *w, int rows, int cols, wb_stream stream)
{
    const wb_status status = wb_check_row_sum("weighted_row_sum", y, x, w, rows, cols);
    if (status != WB_OK) return status;
    const int blocks = min((rows + 7) / 8, 64);
    row_kernel<<<blocks, 256, 0, stream>>>(y, x, w, rows, cols);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
