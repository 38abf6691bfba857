// mistake: takes x as stored column by column instead of row by row
#include "workbook.h"

// One warp a row, eight rows a block.
__global__ void weighted_row_sum_kernel(float *y, const bf16 *x, const bf16 *w, int rows, int cols)
{
    const int lane = threadIdx.x & 31;
    const int row = blockIdx.x * 8 + (threadIdx.x >> 5);
    if (row >= rows) return;  // a whole warp at a time

    float sum = 0.0f;
    for (int j = lane; j < cols; j += 32) {
        const size_t at = (size_t)j * rows + row;
        sum += __bfloat162float(x[at]) * __bfloat162float(w[j]);
    }
    for (int mask = 16; mask > 0; mask >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (lane == 0) y[row] = sum;
}

wb_status weighted_row_sum(float *y, const bf16 *x, const bf16 *w, int rows, int cols, wb_stream stream)
{
    const wb_status status = wb_check_row_sum("weighted_row_sum", y, x, w, rows, cols);
    if (status != WB_OK) return status;
    weighted_row_sum_kernel<<<(rows - 1) / 8 + 1, 256, 0, stream>>>(y, x, w, rows, cols);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
