// mistake: rounds each product to bfloat16 instead of keeping it in float32 before it is added
// weighted_row_sum.cu - y[i] = sum over j of x[i, j] w[j]. A block sums four rows, so that it fetches w once for four.
#include "workbook.h"

enum {
    ROWS = 4,              // of a block
    WARPS = 4,             // of a block
    THREADS = 32 * WARPS,  // of a block
};

__global__ void weighted_row_sum_kernel(float *y,       // [rows]
                                        const bf16 *x,  // [rows, cols]
                                        const bf16 *w,  // [cols]
                                        int rows,
                                        size_t cols)  // size_t, so that row * cols cannot overflow
{
    // who am I: a thread of a block, and the block's rows
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    const int row0 = blockIdx.x * ROWS;
    const int n = min(ROWS, rows - row0);

    // load and multiply
    float sum[ROWS] = {0, 0, 0, 0};
    for (size_t j = t; j < cols; j += THREADS) {
        const bf16 weight = w[j];
        for (int r = 0; r < n; r++) {
            const bf16 product = __float2bfloat16((float)x[(size_t)(row0 + r) * cols + j] * (float)weight);
            sum[r] += (float)product;
        }
    }

    // reduce: the lanes of a warp by shuffles, the warps of the block through shared memory
    __shared__ float part[WARPS][ROWS];
    for (int r = 0; r < ROWS; r++) {
        float s = sum[r];
        s += __shfl_down_sync(0xffffffff, s, 16);
        s += __shfl_down_sync(0xffffffff, s, 8);
        s += __shfl_down_sync(0xffffffff, s, 4);
        s += __shfl_down_sync(0xffffffff, s, 2);
        s += __shfl_down_sync(0xffffffff, s, 1);
        if (lane == 0) part[warp][r] = s;
    }
    __syncthreads();

    // store: thread r adds up and writes the block's row r
    if (t < n) y[row0 + t] = part[0][t] + part[1][t] + part[2][t] + part[3][t];
}

wb_status weighted_row_sum(float *y, const bf16 *x, const bf16 *w, int rows, int cols, wb_stream stream)
{
    const wb_status status = wb_check_row_sum("weighted_row_sum", y, x, w, rows, cols);
    if (status != WB_OK) return status;
    const int blocks = (rows + ROWS - 1) / ROWS;
    weighted_row_sum_kernel<<<blocks, THREADS, 0, stream>>>(y, x, w, rows, cols);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
