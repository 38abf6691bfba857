// rows.c - what 02 adds up: how often each column, or each eight, counts. These are the unknowns; a row is an equation.
#include "evidence.h"

enum { APART = 8, LANES = 32 };  // rows so far apart begin at addresses that are alike

// A count, or one through a count; else it is what rounding leaves.
static bool is_count(double x)
{
    const double n = x > 0.02 && x < 1 ? 1 / x : x;
    return n > -0.02 && n < 100 && fabs(n - rint(n)) < 0.02;
}

// How often each group of columns, of a row and of `near` beside it, counts in every `apart`-th y; false: it is no sum.
static bool counts_of(int groups, int near, int from, int apart, double count[MOST_TERMS])
{
    const int rows = (int)e.c->rows, cols = (int)e.c->cols, width = (cols - 1) / groups + 1;
    const int used = (cols - 1) / width + 1, unknowns = used * (2 * near + 1);
    double *const y = allocate((size_t)rows * (MOST_TERMS + 1), sizeof *y), *of[MOST_TERMS];
    int n = 0;
    for (int u = 0; u < unknowns; u++) of[u] = y + (u + 1) * rows;
    for (int row = from + near; row < rows - near; row += apart) {
        y[n] = e.out[0][row];
        EACH_PAIR (k, 2 * near + 1, j, cols)
            of[k * used + j / width][n] += (double)e.Q[(row + k - near) * cols + j] * e.K[j];
        n++;
    }
    const bool is = n >= unknowns + 4 && shares_in(y, of, unknowns, (size_t)n, count) < 1e-3;
    free(y);
    return is;
}

// Names a run of columns that count too often, or not, in all rows, or in those that lie `apart`.
static void look_at_columns(int apart)
{
    const int cols = (int)e.c->cols, width = cols > MOST_TERMS ? (cols - 1) / MOST_TERMS + 1 : 1;
    const int unknowns = (cols - 1) / width + 1;
    double count[MOST_TERMS];
    char right[40] = "";
    int first = unknowns, last, of = -1, known = 0;
    for (int from = 0; from < apart; from++) {
        double is[MOST_TERMS];
        int at = 0, strange = 0;
        if (!counts_of(MOST_TERMS, 0, from, apart, is)) continue;
        for (int u = 0; u < unknowns; u++) strange += !is_count(is[u]);
        if (strange > unknowns / 16) continue;
        while (at < unknowns && fabs(is[at] - 1) < 0.02) at++;
        if (at == unknowns) APPEND(right, "%s%d", *right ? ", " : "", from);
        if (at < unknowns && is_count(is[at]) && of < 0) of = from, first = at, memcpy(count, is, sizeof is);
        known++;
    }
    if (of < 0 || known < apart) return;
    for (last = first; last + 1 < unknowns && fabs(count[last + 1] - count[first]) < 0.02;) last++;
    bool lanes = width > 1 && unknowns > LANES;  // each lane's loads are off by the same
    for (int u = LANES; u < unknowns; u++) lanes &= fabs(count[u] - count[u % LANES]) < 0.02;
    const int begin = first * width, end = min_int(cols, begin + (last - first + 1) * width);
    char columns[60], which[60] = "", whose[60] = "each row";
    snprintf(columns, sizeof columns, end - begin > 1 ? "columns %d to %d" : "column %d", begin, end - 1);
    if (lanes && last < LANES)
        snprintf(which, sizeof which, " (lanes %d to %d; so in each %d columns)", first, last, LANES * width);
    if (apart > 1) snprintf(whose, sizeof whose, "rows %d, %d, %d, ...", of, of + apart, of + 2 * apart);
    find(BY_SUM, "columns",
         *right && cols % APART == 0 ? "reduce|store|who"  // alike addresses
         : (end == cols && end - begin < 8) || (begin && count[first] > 1 && !lanes) ? "ends|load"
         : begin && !lanes                                                           ? "load|reduce|ends"
                                                                                     : "reduce|load",
         "%s of %s%s %s added to y %.3g times, but must be added once%s%s", columns, whose, which,
         end - begin > 1 ? "are" : "is", rounded(count[first]),
         *right ? "; only these of each eight rows are right: " : "", right);
}

// Whether y has columns of rows beside its own.
static void look_beside(void)
{
    enum { NEAR = 3, GROUPS = 16 };
    double count[MOST_TERMS];
    const int cols = (int)e.c->cols, width = (cols - 1) / GROUPS + 1, used = (cols - 1) / width + 1;
    char text[300] = "";
    if (!counts_of(GROUPS, NEAR, 0, 1, count)) return;
    for (int g = 0, next; g < used; g = next) {
        int own = -1, several = 0;
        for (int k = 0; k <= 2 * NEAR; k++)
            if (fabs(count[k * used + g]) > 0.02) several += own >= 0, own = k;
        for (next = g + 1; next < used && own >= 0 && fabs(count[own * used + next] - 1) < 0.02;) next++;
        if (own < 0 || several || fabs(count[own * used + g] - 1) > 0.02) return;
        if (g == 0 && next == used && own == NEAR) return;
        APPEND(text, "%s columns %d to %d of row i", g ? "," : "", g * width, min_int(cols, next * width) - 1);
        if (own != NEAR) APPEND(text, " %c %d", own < NEAR ? '-' : '+', abs(own - NEAR));
    }
    find(BY_SUM, "rows beside", "who|reduce|store|load", "y[i] is the sum of%s: all must be of row i", text);
}

void look_at_rows(void)
{
    look_at_columns(1), look_at_columns(APART);
    look_beside();
}
