// rows.c - what 02 adds up: how often each column, or each eight, counts. These are the unknowns; a row is an equation.
#include "evidence.h"

enum { APART = 8, LANES = 32 };  // rows so far apart begin at addresses that are alike

// Rows that nobody writes, which are NaN as before; or each row that is wrong is the sum of another one.
static void look_at_places(void)
{
    const int rows = (int)e.c->rows, cols = (int)e.c->cols;
    double *const y = allocate((size_t)rows * 2, sizeof *y), *const size = y + rows;
    int unwritten = 0, wrong = 0, moved = 0, first = -1, from = -1;
    for (int at = 0; at < rows * cols; at++) {
        const double term = (double)e.Q[at] * e.K[at % cols];
        y[at / cols] += term, size[at / cols] += fabs(term);
    }
    for (int row = 0; row < rows; row++) {
        const double is = e.out[0][row];
        if (!isfinite(y[row]) || fabs(is - y[row]) <= 1e-5 * size[row]) continue;
        int other = rows;
        for (int r = 0; r < rows && other == rows; r++)
            if (r != row && fabs(is - y[r]) <= 1e-6 * size[r]) other = r;
        if (wrong++ == 0) first = row, from = other;
        unwritten += isnan(is), moved += other < rows;
    }
    if (wrong && unwritten == wrong)
        find(BY_END, "rows left out", "launch|who|store", "y[%d] is not written (%d of %d)", first, wrong, rows);
    else if (wrong && moved == wrong)
        find(BY_END, "stored elsewhere", "who|store", "y[%d] is the sum of row %d", first, from);
}

static bool is_whole(double x) { return fabs(x - rint(x)) < 0.02; }

void look_at_rows(void)
{
    const int rows = (int)e.c->rows, cols = (int)e.c->cols, width = cols > 128 ? 8 : 1;
    const int unknowns = (cols - 1) / width + 1;
    double *const terms = allocate((size_t)rows * (size_t)unknowns, sizeof *terms);
    double *of[MOST_TERMS], count[MOST_TERMS], *y = allocate((size_t)rows, sizeof *y);
    for (int apart = 1; apart <= APART && unknowns <= MOST_TERMS; apart += APART - 1) {
        int used = 0;
        memset(terms, 0, (size_t)rows * (size_t)unknowns * sizeof *terms);
        for (int u = 0; u < unknowns; u++) of[u] = terms + u * rows;
        for (int row = apart > 1; row < rows; row += apart, used++) {
            y[used] = e.out[0][row];
            for (int j = 0; j < cols; j++) of[j / width][used] += (double)e.Q[row * cols + j] * e.K[j];
        }
        if (used < unknowns + 4 || !(shares_in(y, of, unknowns, (size_t)used, count) < 1e-3)) continue;
        int first = 0, last;
        while (first < unknowns && fabs(count[first] - 1) < 0.02) first++;
        for (last = first; last + 1 < unknowns && fabs(count[last + 1] - count[first]) < 0.02;) last++;
        // Else it is no count, but what rounding leaves.
        if (first == unknowns || (!is_whole(count[first]) && !is_whole(1 / count[first]))) continue;
        bool lanes = width > 1 && unknowns > LANES;  // each lane's loads are off by the same
        for (int u = LANES; u < unknowns; u++) lanes &= fabs(count[u] - count[u % LANES]) < 0.02;
        const int begin = first * width, end = min_int(cols, begin + (last - first + 1) * width);
        char columns[60], which[60] = "";
        snprintf(columns, sizeof columns, end - begin > 1 ? "columns %d to %d" : "column %d", begin, end - 1);
        if (lanes)
            snprintf(which, sizeof which, " (lanes %d to %d; so in each %d columns)", first, last, LANES * width);
        find(BY_SUM, "columns",
             end == cols && end - begin < 8 ? "ends|load"
             : lanes                        ? "reduce|load"
             : begin && count[first] > 1    ? "ends|load"
             : begin                        ? "load|reduce|ends"
                                            : "load|reduce",
             "%s of %s%s %s added to y %.3g times, but must be added once", columns,
             apart > 1 ? "rows 1, 9, 17, ..." : "each row", which, end - begin > 1 ? "are" : "is",
             rounded(count[first]));
        break;
    }
    look_at_places();
}
