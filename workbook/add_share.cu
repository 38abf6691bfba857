// add_share.cu - what was found over some of the keys becomes part of what was found before: O and L of more keys, or a
// gradient's sum. A thread has 8 columns of a row.
#include "workbook.h"

#include <limits.h>

namespace
{
constexpr int THREADS = 256, COLUMNS = 8;
template <class T> struct alignas(16) columns {
    T of[COLUMNS];
};

template <class T> __global__ __launch_bounds__(THREADS) void add_kernel(wb_share s)
{
    const unsigned lanes = (unsigned)s.head_dim / COLUMNS, all = (unsigned)s.heads * s.rows;
    const unsigned row = blockIdx.x * (THREADS / lanes) + threadIdx.x / lanes, lane = threadIdx.x % lanes;
    const unsigned head = row / s.rows;
    const size_t from = (size_t)row * lanes + lane, to_row = (size_t)head * s.n + s.first + row % s.rows;
    columns<T> *const to = (columns<T> *)s.to + to_row * lanes + lane;
    float kept = 1, taken = 1, both = 0;
    if (s.L && row < all) {
        const float before = s.L[to_row], here = s.logs[row], m = fmaxf(before, here);
        const float a = expf(before - m), b = expf(here - m);
        kept = a / (a + b), taken = b / (a + b), both = m + logf(a + b);
    }
    __syncthreads();  // all threads of a row have read its L
    if (row >= all) return;
    if (s.L && lane == 0) s.L[to_row] = both;
    columns<T> sum = *to;
    const columns<bf16> part = ((const columns<bf16> *)s.part)[from];
    columns<bf16> more;
    if (s.more) more = ((const columns<bf16> *)s.more)[from];
    for (int c = 0; c < COLUMNS; c++) {
        float x = kept * (float)sum.of[c] + taken * (float)part.of[c];
        if (s.more) x += (float)more.of[c];
        sum.of[c] = (T)x;
    }
    *to = sum;
}
}  // namespace

wb_status wb_add_share(const wb_share *s, wb_stream stream)
{
    const char *const us = "wb_add_share";
    if (!s || !s->to || !s->part || (s->L && (!s->logs || s->more)))
        return wb_fail(WB_BAD_ARGUMENT, "%s: a pointer is null, or one is not allowed here", us);
    if (s->heads < 1 || s->rows < 1 || s->first < 0 || s->rows > s->n - s->first)
        return wb_fail(WB_BAD_ARGUMENT, "%s: rows %d to %d of %d, of %d heads", us, s->first, s->first + s->rows - 1,
                       s->n, s->heads);
    const int D = s->head_dim;
    const bool aligned = ((uintptr_t)s->to | (uintptr_t)s->part | (uintptr_t)s->more) % 16 == 0;
    if ((D != 16 && D != 32 && D != 64 && D != 128) || !aligned || s->rows > (INT_MAX - THREADS) / s->heads)
        return wb_fail(WB_UNSUPPORTED, "%s: head_dim = %d, %d x %d rows, aligned to 16 bytes: %d", us, D, s->heads,
                       s->rows, aligned);
    const unsigned a_block = THREADS / ((unsigned)D / COLUMNS), all = (unsigned)s->heads * s->rows;
    const auto kernel = s->to_is_float ? add_kernel<float> : add_kernel<bf16>;
    kernel<<<(all - 1) / a_block + 1, THREADS, 0, stream>>>(*s);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
