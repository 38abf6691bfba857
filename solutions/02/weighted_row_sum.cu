// weighted_row_sum.cu - y[i] = sum over j of x[i, j] w[j]. A block sums four rows, so that it loads w once for all.
#include "workbook.h"

enum {
    ROWS = 4,              // of a block
    WARPS = 4,             // of a block
    THREADS = 32 * WARPS,  // of a block
    WIDE = 8,              // columns in 16 bytes, the most that one load of one thread can fetch
};

// WIDE neighbouring columns, at an address that is a multiple of 16.
struct alignas(16) wide {
    bf16 at[WIDE];
};

__global__ void weighted_row_sum_kernel(
    float *y,       // [rows]
    const bf16 *x,  // [rows, cols]
    const bf16 *w,  // [cols]
    int rows,
    size_t cols)  // size_t, so that row * cols cannot overflow
{
    // who am I: a thread of a block, and the block's rows
    //{ who
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    // Eight rows are 16 * cols bytes: rows eight apart lie alike between the multiples of 16. A block takes such rows.
    const int first_row = blockIdx.x / WIDE * (ROWS * WIDE) + blockIdx.x % WIDE;
    if (first_row >= rows) return;  // the whole block leaves: no barrier waits for it
    const bf16 *x_row[ROWS];
    for (int r = 0; r < ROWS; r++) {
        const int row = first_row + r * WIDE;
        x_row[r] = x + (row < rows ? row : first_row) * cols;  // past the last row: read one that exists, store nothing
    }
    //}

    // load and multiply: the columns that fill whole loads
    //{ load
    float sum[ROWS] = {};  // over this thread's columns
    const size_t skip = (16 - (uintptr_t)x_row[0] % 16) % 16 / sizeof(bf16);
    const int head = min(skip, cols);  // columns before the row's first multiple of 16
    const int loads = (cols - head) / WIDE;
    for (int i = thread; i < loads; i += THREADS) {
        const size_t j = head + (size_t)i * WIDE;
        wide x_reg[ROWS];
        for (int r = 0; r < ROWS; r++) x_reg[r] = *reinterpret_cast<const wide *>(x_row[r] + j);
        for (int k = 0; k < WIDE; k++) {
            const float w_reg = w[j + k];
            for (int r = 0; r < ROWS; r++) sum[r] += (float)x_reg[r].at[k] * w_reg;
        }
    }
    //}

    // the ragged ends: up to 7 columns before the whole loads and up to 7 behind them, one a thread
    //{ ends
    const size_t j = (thread < head ? 0 : (size_t)loads * WIDE) + thread;
    if (j < cols)
        for (int r = 0; r < ROWS; r++) sum[r] += (float)x_row[r][j] * (float)w[j];
    //}

    // reduce: the lanes of a warp by shuffles, the warps of the block through shared memory
    //{ reduce
    __shared__ float sum_smem[ROWS][WARPS];
    for (int r = 0; r < ROWS; r++) {
        for (int distance = 16; distance > 0; distance /= 2) sum[r] += __shfl_down_sync(0xffffffff, sum[r], distance);
        if (lane == 0) sum_smem[r][warp] = sum[r];
    }
    __syncthreads();  // the sums of every warp have arrived
    //}

    // store: thread r adds up and writes the block's row r
    //{ store
    const int row = first_row + thread * WIDE;
    if (thread < ROWS && row < rows) {
        float total = 0;
        for (int i = 0; i < WARPS; i++) total += sum_smem[thread][i];
        y[row] = total;
    }
    //}
}

wb_status weighted_row_sum(float *y, const bf16 *x, const bf16 *w, int rows, int cols, wb_stream stream)
{
    const wb_status status = wb_check_row_sum("weighted_row_sum", y, x, w, rows, cols);
    if (status != WB_OK) return status;
    //{ launch
    const int blocks = ((rows - 1) / (ROWS * WIDE) + 1) * WIDE;
    //}
    weighted_row_sum_kernel<<<blocks, THREADS, 0, stream>>>(y, x, w, rows, cols);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
