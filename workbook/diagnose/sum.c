// sum.c - which columns of which rows a weighted row sum counts, under which weights: read from sums of numbers chosen
// for that.
#include "evidence.h"

enum { BY_ROWS = 10, BY_COUNT = 30, BY_WEIGHT = 40, BY_NUMBERS = 50 };
enum { MOST_ROWS = 64, MOST_COLS = 1200, WIDE = 8 };

static bool (*run)(int rows, int cols, wb_input input, int seed, float *y);
static float y[MOST_ROWS];                // as it was run last
static int counts[MOST_ROWS][MOST_COLS];  // how often y[i] has column j, of whatever row

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
    // Whether it is as if there were too few blocks: row i is of block i / 32 * 8 + i % 8.
    int blocks = 0;
    for (int i = 0; i < rows; i++)
        if (!lost[i]) blocks = max_int(blocks, i / (ROWS * WIDE) * WIDE + i % WIDE + 1);
    bool few = blocks > 0;
    for (int i = 0; i < rows; i++) few &= lost[i] == (i / (ROWS * WIDE) * WIDE + i % WIDE >= blocks);
    char text[160] = "";
    if (few)
        APPEND(text, ": as if there were %d blocks%s, where (rows - 1) / 32 + 1 teams of 8 are %d", blocks,
               blocks == (rows - 1) / ROWS + 1         ? ", (rows - 1) / 4 + 1"
               : blocks == rows / (ROWS * WIDE) * WIDE ? ", rows / 32 of them rounded down"
                                                       : "",
               ((rows - 1) / (ROWS * WIDE) + 1) * WIDE);
    if (some)
        find(BY_ROWS, few ? "too_few_blocks" : "rows_lost", few ? "launch" : "launch|who|reduce|store",
             "of %d rows with %d columns these are never written, or NaN: %s%s", rows, cols, list(lost, rows, 200),
             text);
    return !some;
}

// The first column of row i that begins a whole load.
static int first_load(int i, int cols) { return min_int(cols, (WIDE - i * cols % WIDE) % WIDE); }

// Which of its kind has column j of a row, whose whole loads lie from `head` to `tail`.
enum { LANE, WARP, END, COLUMN, KINDS };
static const char *const kinds[KINDS] = {"lanes", "warps",
                                         "parts (0: before the first whole load, 1: whole loads, 2: behind the last)",
                                         "columns of each load"};
static int part_of(int kind, int j, int head, int tail)
{
    const bool in = j >= head && j < tail;
    const int thread = (in ? (j - head) / WIDE : j < head ? j : j - tail + head) % THREADS;
    const int parts[] = {thread % 32, thread / 32, j < head ? 0 : in ? 1 : 2, in ? (j - head) % WIDE : WIDE};
    return parts[kind];
}

// If how often the columns of a row count goes by such a part alone, says which parts do not count once.
static const char *by_parts(int kind, int i, int cols)
{
    static char text[300];
    const int head = first_load(i, cols), tail = head + (cols - head) / WIDE * WIDE;
    int of[33];
    bool none[33] = {false}, many[33] = {false};
    memset(of, -1, sizeof of), *text = 0;
    for (int j = 0; j < cols; j++) {
        int *is = &of[part_of(kind, j, head, tail)];
        if (*is >= 0 && *is != counts[i][j]) return "";
        *is = counts[i][j];
    }
    for (int n = 0; n < 33; n++) none[n] = of[n] == 0, many[n] = of[n] > 1;
    if (memchr(none, true, sizeof none)) APPEND(text, ": %s %s are left out", kinds[kind], list(none, 33, 100));
    if (memchr(many, true, sizeof many)) APPEND(text, ": %s %s count more than once", kinds[kind], list(many, 33, 100));
    return text;
}

static bool look_at_counts(int rows, int cols)
{
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
    static const char *const ids[KINDS] = {"by_lanes", "by_warps", "by_ends", "by_columns"};
    bool behind = true;
    EACH_PAIR (i, rows, j, cols) {
        const int head = first_load(i, cols), tail = head + (cols - head) / WIDE * WIDE;
        behind &= counts[i][j] == !(j >= tail && j < tail + head);
    }
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
        char what[400] = "";
        if (some_none) APPEND(what, "leaves out columns %s", list(none, cols, 120));
        if (some_many) APPEND(what, "%scounts more than once columns %s", *what ? " and " : "", list(many, cols, 120));
        if (head > 0 || tail < cols)
            APPEND(what, " (%d columns stand before its first whole load, %d behind the last)", head, cols - tail);
        const char *is = "";
        int kind = -1;
        while (!*is && ++kind < KINDS) is = by_parts(kind, i, cols);
        if (behind)
            kind = KINDS, is = ": the first columns behind the last whole load, as many as stand before the first";
        const char *id = some_many && !some_none ? "columns_twice" : "columns_lost";
        const char *gaps = by_load ? "who|reduce|load|store" : "who|load|reduce|ends";
        int counted = -1;  // a column that is there
        for (int j = cols; j-- > 0;)
            if (counts[i][j]) counted = j;
        if (counted >= 0 && run(rows, cols, WB_ROW_NUMBERS, counted, y) &&
            y[i] != (float)(counts[i][counted] * (i + 1)))
            APPEND(what, "; column %d is counted %d times, of rows whose numbers sum up to %d", counted,
                   counts[i][counted], (int)y[i] - counts[i][counted]);
        e.wrong = true;  // the answer of the case before was
        find(BY_COUNT, *is && kind < KINDS ? ids[kind] : id, ends ? "who|ends" : gaps,
             "with %d rows of %d columns, y[%d] %s%s", rows, cols, i, what, is);
        return false;
    }
    return true;
}

// Whether each column is taken of its own row, and under its own weight.
static void look_at_weights(int rows, int cols)
{
    for (int at = 0; at < 2 * cols; at++) {
        const int j = at / 2, of_w = at % 2;
        if (!run(rows, cols, of_w ? WB_COLUMN_NUMBERS : WB_ROW_NUMBERS, j, y)) return;
        for (int i = 0; i < rows; i++) {
            const int n = counts[i][j], sum = (int)y[i] - n;
            if (n == 0 || (of_w && n > 1) || y[i] == (float)(n * ((of_w ? j : i) + 1))) continue;
            if (of_w)
                find(BY_WEIGHT, "w_of_another_column", "who|load|ends",
                     "with %d rows of %d columns, y[%d] multiplies column %d by w[%d]", rows, cols, i, j, sum);
            else
                find(BY_COUNT, "x_of_another_row", "who|load|ends|reduce|store",
                     "with %d rows of %d columns, y[%d] has column %d of row%s %d", rows, cols, i, j,
                     n > 1 ? "s whose numbers sum up to" : "", sum);
        }
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
    static const int shapes[][2] = {{9, 1097}, {37, 33}, {40, 64}, {64, 5}};
    run = run_;
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes && !(best.rank && *best.id); n++) {
        const int rows = shapes[n][0], cols = shapes[n][1];
        if (!look_at_rows(rows, cols)) return;
        if (look_at_numbers(rows, cols)) continue;
        if (best.rank && *best.id) return;
        if (look_at_counts(rows, cols) && cols < 256) look_at_weights(rows, cols);
    }
}
