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
    // TODO(02) who: this thread's number in its block, its lane and its warp; the block's ROWS rows, of which the last
    // may not exist.  (about 3 lines)
    (void)rows;
    //}

    // load and multiply: the columns that fill whole loads
    //{ load
    // TODO(02) load: this thread's share of each row, x[row, j] * w[j] summed in float32. Neighbouring threads read
    // neighbouring columns, and w[j] is read once for all rows. First one column at a time; in 16-byte loads, type
    // `wide`, when everything passes.  (about 4 lines, then 10)
    (void)x, (void)w, (void)cols;
    //}

    // the ragged ends: up to 7 columns before the whole loads and up to 7 behind them, one a thread
    //{ ends
    // TODO(02) ends: in version two, the columns that 16-byte loads leave over at both ends of a row.  (about 3 lines)
    //}

    // reduce: the lanes of a warp by shuffles, the warps of the block through shared memory
    //{ reduce
    // TODO(02) reduce: one sum per row and warp over 32 lanes, stored where thread r finds it.  (about 6 lines)
    //}

    // store: thread r adds up and writes the block's row r
    //{ store
    // TODO(02) store: one thread per row; only rows that exist.  (about 5 lines)
    (void)y;
    //}
}

wb_status weighted_row_sum(float *y, const bf16 *x, const bf16 *w, int rows, int cols, wb_stream stream)
{
    const wb_status status = wb_check_row_sum("weighted_row_sum", y, x, w, rows, cols);
    if (status != WB_OK) return status;
    //{ launch
    // TODO(02) launch: how many blocks cover every row, for any number of rows.  (1 line)
    const int blocks = 1;
    //}
    weighted_row_sum_kernel<<<blocks, THREADS, 0, stream>>>(y, x, w, rows, cols);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
