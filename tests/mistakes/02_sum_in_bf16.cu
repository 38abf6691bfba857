// mistake: uses bfloat16 instead of float32 for each thread's running sum
#include "workbook.h"

#define THREADS 128

// A block a row; rows beyond the grid are taken in further turns.
__global__ void weighted_row_sum_kernel(float *y, const bf16 *x, const bf16 *w, int rows, int cols)
{
    __shared__ float part[THREADS];
    const int t = threadIdx.x;

    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const bf16 *const x_row = x + (size_t)row * cols;
        bf16 acc = __float2bfloat16(0.0f);
        for (int j = t; j < cols; j += THREADS) {
            const float product = __bfloat162float(x_row[j]) * __bfloat162float(w[j]);
            acc = __float2bfloat16(__bfloat162float(acc) + product);
        }
        part[t] = __bfloat162float(acc);
        __syncthreads();  // all parts are there
        for (int half = THREADS / 2; half >= 1; half /= 2) {
            if (t < half) part[t] += part[t + half];
            __syncthreads();  // this level of the tree is done
        }
        if (t == 0) y[row] = part[0];
        __syncthreads();  // part[0] was read before the next row overwrites it
    }
}

wb_status weighted_row_sum(float *y, const bf16 *x, const bf16 *w, int rows, int cols, wb_stream stream)
{
    const wb_status status = wb_check_row_sum("weighted_row_sum", y, x, w, rows, cols);
    if (status != WB_OK) return status;
    const int blocks = rows < 4096 ? rows : 4096;
    weighted_row_sum_kernel<<<blocks, THREADS, 0, stream>>>(y, x, w, rows, cols);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
