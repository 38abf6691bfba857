// mistake: columns are read in pairs and the last column of an odd number of columns is never added
#include "workbook.h"

// one warp per row, eight rows per block
static const int WARPS_PER_BLOCK = 8;

__device__ float warp_sum(float v)
{
    for (int mask = 16; mask >= 1; mask >>= 1) v += __shfl_xor_sync(0xffffffffu, v, mask);
    return v;
}

__global__ void row_sum_kernel(float *y, const bf16 *x, const bf16 *w, int rows, int cols)
{
    const int lane = threadIdx.x & 31;
    const int row = blockIdx.x * WARPS_PER_BLOCK + (threadIdx.x >> 5);
    if (row >= rows) return;

    const bf16 *xr = x + (size_t)row * cols;
    float even = 0.f, odd = 0.f;
    for (int j = 2 * lane; j + 1 < cols; j += 64) {
        even += __bfloat162float(xr[j]) * __bfloat162float(w[j]);
        odd += __bfloat162float(xr[j + 1]) * __bfloat162float(w[j + 1]);
    }

    const float total = warp_sum(even + odd);
    if (lane == 0) y[row] = total;
}

wb_status weighted_row_sum(float *y, const bf16 *x, const bf16 *w, int rows, int cols, wb_stream stream)
{
    const wb_status status = wb_check_row_sum("weighted_row_sum", y, x, w, rows, cols);
    if (status != WB_OK) return status;
    const int blocks = (rows - 1) / WARPS_PER_BLOCK + 1;
    row_sum_kernel<<<blocks, 32 * WARPS_PER_BLOCK, 0, stream>>>(y, x, w, rows, cols);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
