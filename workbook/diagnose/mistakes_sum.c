// mistakes_sum.c - what a weighted row sum with a mistake returns: how often each column counts.
#include "mistakes_model.h"

// How often column j of row i counts. A thread takes BR neighbouring columns at a time, from the row's first multiple of 16 bytes on
// if BR is more than 1; BC threads share the row. The ends go to the first threads, a column each.
static double count_of(const model_inputs *in, const kernel *k, int i, int j)
{
    const int cols = in->cols, T = k->BC, V = k->BR;
    int head = 0;
    if (V == 8) head = min_int(cols, (int)((8 - (size_t)i * (size_t)cols % 8) % 8));
    const int loads = (cols - head) / V, load = (j - head) / V;
    const bool in_loads = j >= head && load < loads;
    const int thread = in_loads ? load % T : j < head ? j : j - loads * V;
    switch (k->sum) {
    case SUM_TAIL_DROPPED: return (j - head) < (cols - head) / (T * V) * (T * V) ? 1 : 0;
    case SUM_HALF_WARP: return thread % min_int(T, 32) < min_int(T, 32) / 2;
    case SUM_LANE_0: return thread % 32 == 0;
    case SUM_THREAD_0: return thread == 0;
    case SUM_FIRST_WARP: return thread < 32;
    case SUM_LAST_WARP_LOST: return thread < T - 32;
    case SUM_WARP_STRIDE: return in_loads ? min_int(max_int(1, T / 32), load / 32 + 1) : 1;
    case SUM_BLOCK_ONCE: return in_loads ? load < T : 1;
    case SUM_LAST_COLUMN_LOST: return j < cols - 1;
    case SUM_COLUMN_TWICE:
        return V == 1      ? (j == 0 ? 2 : 1)
               : V == 2    ? (j == cols - 1 ? 2 : 1)
               : V == 4    ? (j == 1 ? 2 : 1)
               : j == head ? 2
                           : 1;
    case SUM_HEAD_TWICE: return loads == 0 ? 1 : j == head ? 2 : j == loads * V + head ? 0 : 1;
    case SUM_WITHOUT_ONE_SHUFFLE: return (thread & k->dims) == 0;
    case SUM_HALF_BLOCK: return thread < T / 2;
    case SUM_FIRST_COLUMN_LOST: return j > 0;
    case SUM_FIRST_OF_LOAD: return in_loads ? (j - head) % V == 0 : 1;
    case SUM_TAIL_BY_ALL: return in_loads ? 1 : min_int(T, 32);
    case SUM_TWICE: return 2;
    case SUM_32_TIMES: return 32;
    default: return 1;
    }
}

// Thread by thread, in the order of count_of, with sums that are rounded to bfloat16: each thread's own, those of shuffles, all.
static double rounded_sum(const model_inputs *in, const kernel *k, int i)
{
    static _Thread_local double part[1024];
    const int cols = in->cols, T = k->BC, V = k->BR;
    const int head = V == 8 ? min_int(cols, (int)((8 - (size_t)i * (size_t)cols % 8) % 8)) : 0;
    const int loads = (cols - head) / V;
    memset(part, 0, sizeof part);
    for (int j = 0; j < cols; j++) {
        const int load = (j - head) / V;
        const int thread = j >= head && load < loads ? load % T : (j < head ? j : j - head - loads * V) % T;
        const float product = in->x[(size_t)i * (size_t)cols + (size_t)j] * in->w[j];
        part[thread] = as_bf16((float)part[thread] + product);
    }
    for (int far = min_int(T, 32) / 2; far > 0; far /= 2)
        for (int t = 0; t < T; t++)
            if (t % 32 < far) {
                const double sum = part[t] + part[t + far];
                part[t] = k->sum >= SUM_AND_SHUFFLES_IN_BF16 ? as_bf16(sum) : sum;
            }
    double sum = 0;
    for (int t = 0; t < T; t += 32) sum = k->sum == SUM_ALL_IN_BF16 ? as_bf16(sum + part[t]) : sum + part[t];
    return sum;
}

void sum_row(const model_inputs *in, const kernel *k, int i, model_row *out)
{
    const size_t rows = (size_t)in->rows, cols = (size_t)in->cols;
    double sum = 0, size = 0, all_w = 0;
    model_pairs += in->cols;
    const int from = k->sum == SUM_ALL_ROWS ? i / k->BC * k->BC : i,
              to = k->sum == SUM_ALL_ROWS ? min_int(from + k->BC, in->rows) : i + 1;
    for (int r = from; r < to; r++)
        for (size_t j = 0; j < cols; j++) {
            const double count = count_of(in, k, i, (int)j);
            size_t at = (size_t)r * cols + j, w_at = j;
            if (k->sum == SUM_STRIDE_OF_ROWS) at = (size_t)r * rows + j;
            if (k->sum == SUM_TRANSPOSED) at = j * rows + (size_t)r;
            if (k->sum == SUM_FIRST_ROW) at = j;
            if (k->sum == SUM_FIRST_ROW_OF_BLOCK) at = (size_t)(i / k->BC * k->BC) * cols + j;
            if (k->sum == SUM_NEXT_ROW) at += cols;
            if (k->sum == SUM_W_OF_ROW) w_at = (size_t)r;
            if (k->sum == SUM_W_OF_THREAD) w_at = j % (size_t)k->BC;
            if (k->sum == SUM_ALIGNED_DOWN) at = (size_t)r * cols / (size_t)k->BR * (size_t)k->BR + j;
            if (k->sum == SUM_W_WITHOUT_HEAD) {
                const size_t head = (8 - (size_t)r * cols % 8) % 8, loads = head < cols ? (cols - head) / 8 : 0;
                if (j >= head && j < head + loads * 8) w_at = j - head;
            }
            if (count == 0) continue;
            const double x = k->sum == SUM_NO_X ? 1 : at < rows * cols ? in->x[at] : NAN;
            const double w = k->sum == SUM_NO_W ? 1 : w_at < cols ? in->w[w_at] : NAN;
            double term = count * x * w;
            if (k->sum == SUM_X_PLUS_W) term = x + w;
            if (k->sum == SUM_OF_SQUARES) term = x * x;
            if (k->sum == SUM_PRODUCTS_IN_BF16) term = as_bf16((float)term);
            sum += term, size += k->sum == SUM_X_PLUS_W ? fabs(x) + fabs(w) : fabs(term), all_w += w;
        }
    if (k->sum == SUM_MEAN) sum /= in->cols, size /= in->cols;
    if (k->sum == SUM_OVER_W) sum /= all_w, size = size / fabs(all_w) * (1 + cols * 0x1p-6);
    if (k->sum == SUM_RESULT_IN_BF16) sum = as_bf16((float)sum);
    if (k->sum >= SUM_IN_BF16 && k->sum <= SUM_ALL_IN_BF16) sum = rounded_sum(in, k, i);
    out->value[0] = sum;
    out->tolerance[0] = tolerance_row_sum(size, in->cols);
    const size_t head = k->BR == 8 ? (size_t)min_int(in->cols, (int)((8 - (size_t)i * cols % 8) % 8)) : 0;
    const size_t step = (size_t)(k->BC * k->BR), end = head + (cols - head + step - 1) / step * step;
    const size_t reach = k->BR == 8 ? (cols - head) / 8 * 8 + (size_t)k->BC : end;
    if (k->sum == SUM_READS_PAST_ROW && end > cols) out->value[0] = NAN;
    if (k->sum == SUM_LOADS_PAST_ROW && head + cols / 8 * 8 > cols) out->value[0] = NAN;
    if (k->sum == SUM_READS_PAST_END && (size_t)i * cols + reach > rows * cols) out->value[0] = NAN;
    if (k->sum == SUM_ROWS_OVERLAP && i >= (in->rows - 1) / k->BC + k->BC) out->tolerance[0] = MODEL_UNWRITTEN;
    if (k->sum == SUM_ROWS_LOST_BUT_FIRST && i >= max_int(1, in->rows / k->BC) * k->BC)
        out->tolerance[0] = MODEL_UNWRITTEN;
    if (k->sum == SUM_NOT_WRITTEN || (k->sum == SUM_ROWS_LOST && i >= in->rows / k->BC * k->BC))
        out->tolerance[0] = MODEL_UNWRITTEN;
}
