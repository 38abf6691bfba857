// results.c - rows of O that are right elsewhere, where no product was written down.
#include "evidence.h"

// Rows of O that are right for the same query of another head, or another query of the same head.
static void look_at_rows(const worker_run *run, int k, const expected *want)
{
    const size_t D = (size_t)e.s->head_dim, N = (size_t)e.s->q_len, rows = (size_t)all_rows();
    size_t looked = 0, known = 0, row = 0, first = 0, of = 0;
    for (; row < rows && looked < 300; row += rows / 300 + 1) {
        const size_t head = row / N * N;
        bool wrong = false, same = false;
        for (size_t n = row; !same && n < row + 1 + rows / N + N; n++) {  // its own first
            const size_t by = n - row - 1, other = n == row ? row : by < N ? head + by : (by - N) * N + row % N;
            same = n == row || other != row;
            for (size_t d = 0; d < D && same; d++)
                same = fabs(wb_get(run->tensors[k].type, worker_tensor(run, k), row * D + d) -
                            want->want[other * D + d]) <= want->tolerance[other * D + d];
            wrong |= n == row && !same;
            if (n > row && same && known++ == 0) first = row, of = other;
        }
        looked += wrong;
    }
    if (known < 3 || 10 * known < 9 * looked) return;
    find(BY_HEADS, "rows of others", NULL,
         "each wrong row of O is correct for another query or head: query %zu of head %zu of sequence %zu has the "
         "result of query %zu of head %zu of sequence %zu",
         first % N, first / N % (size_t)e.s->q_heads, first / N / (size_t)e.s->q_heads, of % N,
         of / N % (size_t)e.s->q_heads, of / N / (size_t)e.s->q_heads);
}

void look_at_results(const worker_run *run, int k, const expected *want)
{
    if (strcmp(run->tensors[k].name, "O") == 0) look_at_rows(run, k, want);
}
