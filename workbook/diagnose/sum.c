// sum.c - which columns of which rows a weighted row sum counts, under which weights: read from sums of numbers chosen for that.
#include "evidence.h"

#include <stdio.h>

// What may be seen of each step.
// clang-format off
static const form count_forms[] = {
    {"", "all once"}, {"ends_left_out", "the columns before and behind the whole loads are left out"},
    {"tail_left_out", "the columns behind the last whole load are left out"},
    {"head_left_out", "the columns before the first whole load are left out"},
    {"upper_lanes_lost", "lanes 16 to 31 of each warp are left out of the sum"},
    {"odd_lanes_lost", "every second lane is left out of the sum: its last step is missing"},
    {"lane_0_alone", "lane 0 of each warp alone counts"}, {"first_warp_alone", "the first warp alone counts"},
    {"last_warp_lost", "the last warp is left out"}, {"thread_0_alone", "the first thread alone counts"},
    {"one_round", "each thread takes one load: the loop over the rest is missing"},
    {"first_of_each_load", "the first column of each load alone counts"}, {"last_of_each_load", "the last column of each load is left out"},
    {"every_second_column", "every second column alone counts"}, {"all_twice", "every column counts twice"},
    {"all_32_times", "every column counts 32 times"}, {"all_4_times", "every column counts four times, once for each warp"},
    {"last_load_lost", "the last whole load is left out"}, {"first_load_lost", "the first whole load is left out"},
    {"last_column_lost", "the last column is left out"}, {"first_column_lost", "the first column is left out"},
    {"lanes_mod_8_lost", "lanes with bit 3 of their number are left out: the step over 8 lanes is missing"},
    {"lanes_mod_4_lost", "lanes with bit 2 of their number are left out: the step over 4 lanes is missing"},
    {"lanes_mod_2_lost", "lanes with bit 1 of their number are left out: the step over 2 lanes is missing"},
    {"tail_twice", "the columns behind the last whole load count twice"},
    {"head_twice", "the columns before the first whole load count twice"},
    {"upper_threads_lost", "the upper half of the block's threads is left out"},
    {"last_of_each_load_alone", "the last column of each load alone counts: each is assigned over the one before"}};
static const form number_forms[] = {
    {"", ""}, {"w_forgotten", "it is the sum over x, without w"}, {"x_forgotten", "it is the sum over w, without x"},
    {"x_plus_w", "it is the sum over x + w"}, {"x_squared", "it is the sum over x * x"}, {"w_squared", "it is the sum over x * w * w"},
    {"mean_of_the_row", "it is divided by the number of columns"}, {"divided_by_w", "it is divided by the sum over w"},
    {"w_of_the_row", "it is multiplied by w of the row's number, where w of the column is right"},
    {"sum_negative", "it has the wrong sign"}, {"sum_doubled", "it is twice as much"}, {"y_in_bf16", "it is that, rounded to bfloat16"},
    {"products_in_bf16", "each product is rounded to bfloat16 before it is added"},
    {"w_of_the_first", "all columns are multiplied by w[0]"}};
// clang-format on

enum { BY_ROWS = 10, BY_SOURCE = 20, BY_COUNT = 30, BY_WEIGHT = 40, BY_NUMBERS = 50 };
enum { MOST_ROWS = 64, MOST_COLS = 1200, WIDE = 8 };

static bool (*run)(int rows, int cols, wb_input input, int seed, float *y);
static float y[MOST_ROWS];  // as it was run last

// Numbers as "3, 5 to 9", as many as there is room for.
static void list(const bool *in, int count, char *text, size_t size)
{
    size_t at = 0;
    *text = 0;
    for (int n = 0; n < count; n++) {
        if (!in[n]) continue;
        int last = n;
        while (last + 1 < count && in[last + 1]) last++;
        if (at + 40 > size) {
            snprintf(text + at, size - at, " ...");
            return;
        }
        at += (size_t)snprintf(text + at, size - at, last > n ? "%s%d to %d" : "%s%d", at ? ", " : "", n, last);
        n = last;
    }
}

// Rows that no thread has written. A block takes ROWS of them, WIDE apart, WIDE blocks the rows between.
enum { ROWS = 4, THREADS = 128 };
static const form row_forms[] = {
    {"rows_lost", ""},
    {"rows_side_by_side", ": a block begins at its number times 4, as if its rows lay side by side: they lie 8 apart"},
    {"stored_side_by_side", ": a block's sums are stored in rows that follow one another, where its rows lie 8 apart"},
    {"one_row_of_block", ": each block stores the first of its rows alone"},
    {"blocks_rounded_down", ": there are no blocks for the rows behind the last whole 32"},
    {"blocks_without_wide", ": there is one block for each 32 rows, where 8 are needed"},
    {"rows_from_block", ": a block begins with the row of its number"},
    {"rows_of_32", ": a block begins at its number times 32"}};

static bool is_stored(int rel, int rows, int row)
{
    const int blocks = rel == 4   ? rows / (ROWS * WIDE) * WIDE
                       : rel == 5 ? (rows - 1) / (ROWS * WIDE) + 1
                                  : ((rows - 1) / (ROWS * WIDE) + 1) * WIDE;
    for (int b = 0; b < blocks; b++) {
        const int first = rel == 1   ? b * ROWS
                          : rel == 6 ? b
                          : rel == 7 ? b * ROWS * WIDE
                                     : b / WIDE * ROWS * WIDE + b % WIDE;
        for (int r = 0; r < (rel == 3 ? 1 : ROWS) && first < rows; r++)
            if (row == first + r * (rel == 2 ? 1 : WIDE)) return true;
    }
    return false;
}

static bool look_at_rows(int rows, int cols)
{
    bool lost[MOST_ROWS] = {false}, some = false;
    char text[200];
    if (!run(rows, cols, WB_DIGITS, 0, y)) return false;
    for (int i = 0; i < rows; i++) {
        uint32_t bits;
        memcpy(&bits, &y[i], sizeof bits);
        some |= lost[i] = bits == 0xffffffffu;
    }
    list(lost, rows, text, sizeof text);
    const form *is = row_forms;
    for (int rel = 1; rel < COUNT(row_forms) && is == row_forms; rel++) {
        bool same = true;
        for (int i = 0; i < rows; i++) same &= lost[i] == !is_stored(rel, rows, i);
        if (same) is = &row_forms[rel];
    }
    if (some)
        find(BY_ROWS, is->id, "launch|who|reduce|store",
             "of %d rows with %d columns these are never written, or NaN: %s%s", rows, cols, text, is->says);
    return !some;
}

static int count_by(int rel, int j, int head, int tail, int cols)
{
    const bool in = j >= head && j < tail;
    const int load = in         ? (j - head) / WIDE
                     : j < head ? 0
                                : (j - tail + head),
              thread = (in         ? load
                        : j < head ? j
                                   : j - tail + head) %
                       THREADS,
              lane = thread % 32;
    switch (rel) {
    // clang-format off
    case 1: return in; case 2: return j < tail; case 3: return j >= head; case 4: return lane < 16; case 5: return lane % 2 == 0;
    case 6: return lane == 0; case 7: return thread < 32; case 8: return thread < THREADS - 32; case 9: return thread == 0;
    case 10: return !in || load < THREADS; case 11: return !in || (j - head) % WIDE == 0;
    case 12: return !in || (j - head) % WIDE != WIDE - 1; case 13: return j % 2 == 0; case 14: return 2; case 15: return 32;
    case 16: return 4; case 17: return !in || j < tail - WIDE; case 18: return !in || j >= head + WIDE; case 19: return j < cols - 1;
    case 20: return j > 0; case 21: return !(lane & 8); case 22: return !(lane & 4); case 23: return !(lane & 2);
    case 24: return j >= tail ? 2 : 1; case 25: return j < head ? 2 : 1; case 26: return thread < THREADS / 2;
    case 27: return !in || (j - head) % WIDE == WIDE - 1;
    // clang-format on
    default: return 1;
    }
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
    fit f = {FIT(count_forms)};
    for (int i = 0; i < rows; i++) {
        const int head = min_int(cols, (WIDE - i * cols % WIDE) % WIDE), tail = head + (cols - head) / WIDE * WIDE;
        for (int j = 0; j < cols; j++) {
            double values[COUNT(count_forms)];
            for (int n = 0; n < COUNT(count_forms); n++) values[n] = count_by(n, j, head, tail, cols);
            fit_add(&f, counts[i][j], values, 0);
        }
    }
    const form *is = NULL;  // of all columns of all rows
    for (int n = 1; n < COUNT(count_forms) && !is && f.wrong; n++)
        if (f.misses[n] == 0) is = &count_forms[n];
    for (int i = 0; i < rows; i++) {
        bool none[MOST_COLS] = {false}, many[MOST_COLS] = {false}, ends = true, by_load = true, some = false,
             some_none = false, some_many = false;
        const int head = min_int(cols, (WIDE - i * cols % WIDE) % WIDE), tail = head + (cols - head) / WIDE * WIDE;
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
        char nones[120], manys[120], where[160] = "";
        list(none, cols, nones, sizeof nones), list(many, cols, manys, sizeof manys);
        if (head > 0 || tail < cols)
            snprintf(where, sizeof where, " (%d columns stand before its first whole load, %d behind the last)", head,
                     cols - tail);
        const char *id = some_many && !some_none ? "columns_twice" : "columns_lost";
        const char *gaps = by_load ? "reduce|load|store" : "load|reduce|ends";
        find(BY_COUNT, is ? is->id : id, ends ? "ends" : gaps, "with %d rows of %d columns, y[%d] %s%s%s%s%s%s%s%s",
             rows, cols, i, some_none ? "leaves out columns " : "", some_none ? nones : "",
             some_none && some_many ? " and " : "", some_many ? "counts more than once columns " : "",
             some_many ? manys : "", where, is ? ": " : "", is ? is->says : "");
        return false;
    }
    return true;
}

// Whether each column is taken from its own row, under its own weight.
static void look_at_sources(int rows, int cols)
{
    for (int j = 0; j < cols; j++) {
        if (!run(rows, cols, WB_ROW_NUMBERS, j, y)) return;
        for (int i = 0; i < rows; i++) {
            const int from = (int)y[i] - 1, head = min_int(cols, (WIDE - i * cols % WIDE) % WIDE);
            bool ends = true;
            if (y[i] == (float)(i + 1)) continue;
            for (int other = head; other < head + (cols - head) / WIDE * WIDE && ends; other++)
                ends = run(rows, cols, WB_ROW_NUMBERS, other, y) && y[i] == (float)(i + 1);
            const bool next = from == 2 * i + 2, one = !next && !ends && from >= 0 && from < rows;
            static const char *const ids[] = {"next_row_too", "ends_of_other_rows", "row_of_another", "other_rows_too"};
            char row[80];
            snprintf(row, sizeof row, "%s", next ? "of the next row in it, too" : "of other rows in it");
            if (one) snprintf(row, sizeof row, "from row %d", from);
            find(BY_SOURCE,
                 ids[next   ? 0
                     : ends ? 1
                     : one  ? 2
                            : 3],
                 next   ? "load|ends"
                 : ends ? "ends"
                        : "who|reduce|store",
                 "with %d rows of %d columns, y[%d] %s column %d %s%s", rows, cols, i, one ? "takes" : "has", j, row,
                 ends && !next ? ", and all that are in whole loads from its own" : "");
            return;
        }
        if (!run(rows, cols, WB_COLUMN_NUMBERS, j, y)) return;
        int i = 0;
        while (i < rows && y[i] == (float)(j + 1)) i++;
        if (i == rows) continue;
        find(BY_WEIGHT, "w_of_another_column", "load|ends",
             "with %d rows of %d columns, y[%d] multiplies column %d by w[%g]", rows, cols, i, j, (double)y[i] - 1);
        return;
    }
}

// What a row's terms are made of, and in which numbers they are added up. True if all is right.
static bool look_at_numbers(int rows, int cols)
{
    fit f = {FIT(number_forms)};
    int wrong = -1, coarse = 0, nan = 0;
    double want = 0;
    if (!run(rows, cols, WB_NORMAL, 7, y)) return false;
    for (int i = rows; i-- > 0;) {
        double sum = 0, x = 0, w = 0, xx = 0, xww = 0, rounded = 0, size = 0;
        for (int j = 0; j < cols; j++) {
            const double a = e.x[i * cols + j], b = e.w[j];
            sum += a * b, x += a, w += b, xx += a * a, xww += a * b * b, size += fabs(a * b),
                rounded += wb_from_bf16(wb_to_bf16((float)(a * b)));
        }
        VALUES(values, number_forms, sum, x, w, x + w, xx, xww, sum / cols, sum / w, x * e.w[i < cols ? i : 0], -sum,
               2 * sum, wb_from_bf16(wb_to_bf16((float)sum)), rounded, x * e.w[0]);
        const double tolerance = 4e-6 * size + 1e-6 * fabs(y[i]);
        fit_add(&f, y[i], values, tolerance);
        coarse += y[i] == wb_from_bf16(wb_to_bf16(y[i])), nan += isnan(y[i]);
        if (!(fabs(y[i] - sum) <= tolerance)) wrong = i, want = sum;
    }
    const form *is = fit_form(&f);
    static const form in_bf16 = {"sum_in_bf16", "all y are numbers that bfloat16 has, so sums are kept in it"};
    const char *gaps = is && strchr("ymd", is->id[0]) ? "store|reduce|load" : "load|ends|reduce|store";
    if (!is && coarse == rows) is = &in_bf16;
    if (wrong >= 0 && !nan)
        find(BY_NUMBERS, is ? is->id : "", gaps,
             "with %d rows of %d columns of any numbers, y[%d] is %.7g, where the sum over x * w is %.7g%s%s", rows,
             cols, wrong, y[wrong], want, is ? ": " : "", is ? is->says : "");
    return wrong < 0;
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
        if (look_at_counts(rows, cols) && cols < 256) look_at_sources(rows, cols);
    }
}
