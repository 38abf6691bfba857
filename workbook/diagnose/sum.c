// sum.c - which columns of which rows a weighted row sum counts, under which weights: read from sums of numbers chosen
// for that.
#include "evidence.h"

enum { BY_ROWS = 10, BY_COUNT = 30, BY_WEIGHT = 40, BY_NUMBERS = 50 };
enum { MOST_ROWS = 64, MOST_COLS = 1200, WIDE = 8 };

static bool (*run)(int rows, int cols, wb_input input, int seed, float *y);
static float y[MOST_ROWS];  // as it was run last

// Numbers as "3, 5 to 9", as many as there is room for. Stays until the next call.
static const char *list(const bool *in, int count, size_t room)
{
    static char text[200];
    *text = 0;
    for (int n = 0, last; n < count; n = last + 1) {
        for (last = n; in[n] && last + 1 < count && in[last + 1]; last++) continue;
        if (!in[n]) continue;
        if (strlen(text) + 40 > room) return APPEND(text, " ..."), text;
        APPEND(text, last > n ? "%s%d to %d" : "%s%d", *text ? ", " : "", n, last);
    }
    return text;
}

// Rows that no thread has written. A block takes ROWS of them, WIDE apart, WIDE blocks the rows between.
enum { ROWS = 4, THREADS = 128 };

static bool look_at_rows(int rows, int cols)
{
    bool lost[MOST_ROWS] = {false}, some = false;
    if (!run(rows, cols, WB_DIGITS, 0, y)) return false;
    for (int i = 0; i < rows; i++) {
        uint32_t bits;
        memcpy(&bits, &y[i], sizeof bits);
        some |= lost[i] = bits == 0xffffffffu;
    }
    const int whole = rows / (ROWS * WIDE) * (ROWS * WIDE);
    bool rounded = whole < rows;  // what is lost are the rows behind the last whole 32
    for (int i = 0; i < rows; i++) rounded &= lost[i] == (i >= whole);
    if (some)
        find(BY_ROWS, rounded ? "blocks_rounded_down" : "rows_lost", "launch|who|reduce|store",
             "of %d rows with %d columns these are never written, or NaN: %s%s", rows, cols, list(lost, rows, 200),
             rounded ? ": there are no blocks for the rows behind the last whole 32" : "");
    return !some;
}

// The first column of row i that begins a whole load.
static int first_load(int i, int cols) { return min_int(cols, (WIDE - i * cols % WIDE) % WIDE); }

// How often column j of a row counts, by each form: whole loads lie from `head` to `tail`.
static int count_forms(int j, int head, int tail, form *forms)
{
    const bool in = j >= head && j < tail;
    const int load = in ? (j - head) / WIDE : j < head ? 0 : j - tail + head;
    const int thread = (in || j >= tail ? load : j) % THREADS, lane = thread % 32;
    // clang-format off
    const form list[] = {
        {"", "all once", 1},
        {"tail_left_out", "the columns behind the last whole load are left out", j < tail},
        {"upper_lanes_lost", "lanes 16 to 31 of each warp are left out of the sum", lane < 16},
        {"lane_0_alone", "lane 0 of each warp alone counts", lane == 0},
        {"last_warp_lost", "the last warp is left out", thread < THREADS - 32}};
    // clang-format on
    return copy_forms(forms, FORMS(list));
}

static bool look_at_counts(int rows, int cols)
{
    static int counts[MOST_ROWS][MOST_COLS];
    for (int seed = 0; seed <= (cols - 1) / 4; seed++) {
        if (!run(rows, cols, WB_DIGITS, seed, y)) return false;
        for (int i = 0; i < rows; i++) {
            if (!(y[i] >= 0 && y[i] < 1 << 24) || y[i] != floorf(y[i])) {
                int nan = 0;
                for (int other = 0; other < rows; other++) nan += isnan(y[other]);
                if (isnan(y[i]))
                    find(BY_COUNT, "reads_too_far", nan < rows ? "load|ends|who" : "load|ends|who|reduce|store",
                         "with %d rows of %d columns, y[%d] is NaN, as %d others: something past the end of a row of x "
                         "or of w is read, or what nobody wrote",
                         rows, cols, i, nan - 1);
                return false;
            }
            for (int k = 0; k < 4 && 4 * seed + k < cols; k++) counts[i][4 * seed + k] = (int)y[i] >> 6 * k & 63;
        }
    }
    fit f = {0};
    for (int i = 0; i < rows; i++) {
        const int head = first_load(i, cols), tail = head + (cols - head) / WIDE * WIDE;
        for (int j = 0; j < cols; j++) {
            form forms[MAX_FORMS];
            const int count = count_forms(j, head, tail, forms);
            fit_add(&f, counts[i][j], 0, forms, count);
        }
    }
    const form *is = NULL;  // of all columns of all rows
    for (int n = 1; n < f.count && !is && f.wrong; n++)
        if (f.misses[n] == 0) is = &f.forms[n];
    for (int i = 0; i < rows; i++) {
        bool none[MOST_COLS] = {false}, many[MOST_COLS] = {false}, ends = true, by_load = true, some = false,
             some_none = false, some_many = false;
        const int head = first_load(i, cols), tail = head + (cols - head) / WIDE * WIDE;
        int first = -1;
        for (int j = 0; j < cols; j++) {
            none[j] = counts[i][j] == 0, many[j] = counts[i][j] > 1;
            if (counts[i][j] == 1) continue;
            if (first < 0) first = j;
            some = true, ends &= j < head || j >= tail, some_none |= none[j], some_many |= many[j];
        }
        for (int j = head; j < tail; j++) by_load &= counts[i][j] == counts[i][head + (j - head) / WIDE * WIDE];
        if (!some) continue;
        if (!run(rows, cols, WB_ROW_NUMBERS, first, y) || y[i] != (float)(counts[i][first] * (i + 1))) return true;
        char what[400] = "";
        if (some_none) APPEND(what, "leaves out columns %s", list(none, cols, 120));
        if (some_many) APPEND(what, "%scounts more than once columns %s", *what ? " and " : "", list(many, cols, 120));
        if (head > 0 || tail < cols)
            APPEND(what, " (%d columns stand before its first whole load, %d behind the last)", head, cols - tail);
        const char *id = some_many && !some_none ? "columns_twice" : "columns_lost";
        const char *gaps = by_load ? "who|reduce|load|store" : "who|load|reduce|ends";
        find(BY_COUNT, is ? is->id : id, ends ? "who|ends" : gaps, "with %d rows of %d columns, y[%d] %s%s%s", rows,
             cols, i, what, is ? ": " : "", is ? is->says : "");
        return false;
    }
    return true;
}

// Whether each column is taken under its own weight.
static void look_at_weights(int rows, int cols)
{
    for (int j = 0; j < cols; j++) {
        if (!run(rows, cols, WB_COLUMN_NUMBERS, j, y)) return;
        for (int i = 0; i < rows; i++)
            if (y[i] != (float)(j + 1))
                find(BY_WEIGHT, "w_of_another_column", "who|load|ends",
                     "with %d rows of %d columns, y[%d] multiplies column %d by w[%g]", rows, cols, i, j,
                     (double)y[i] - 1);
    }
}

// Whether sums of any numbers are right.
static bool look_at_numbers(int rows, int cols)
{
    if (!run(rows, cols, WB_NORMAL, 7, y)) return false;
    for (int i = 0; i < rows; i++) {
        double sum = 0, size = 0;
        for (int j = 0; j < cols; j++) {
            const double term = (double)e.x[i * cols + j] * e.w[j];
            sum += term, size += fabs(term);
        }
        if (fabs(y[i] - sum) <= 4e-6 * size + 1e-6 * fabs(y[i])) continue;
        if (!isnan(y[i]))
            find(BY_NUMBERS, "", "who|load|ends|reduce|store",
                 "with %d rows of %d columns of any numbers, y[%d] is %.7g, where the sum over x * w is %.7g", rows,
                 cols, i, y[i], sum);
        return false;
    }
    return true;
}

void look_at_sum(bool (*run_)(int rows, int cols, wb_input input, int seed, float *y))
{
    static const int shapes[][2] = {{37, 33}, {40, 64}, {9, 1097}, {64, 5}};
    run = run_;
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes && best.rank == 0; n++) {
        const int rows = shapes[n][0], cols = shapes[n][1];
        if (!look_at_rows(rows, cols)) return;
        if (look_at_numbers(rows, cols)) continue;
        if (best.rank && *best.id) return;
        if (look_at_counts(rows, cols) && cols < 256) look_at_weights(rows, cols);
    }
}
