// evidence_sum.c - which columns of which rows a weighted row sum counts, under which weights: read from sums of numbers chosen for that.
#include "mistakes_model.h"

#include "evidence_record.h"

#include <stdio.h>

enum { BY_ROWS = 10, BY_SOURCE = 20, BY_COUNT = 30, BY_WEIGHT = 40, MOST_ROWS = 64, MOST_COLS = 1200, WIDE = 8 };

static bool (*run)(int rows, int cols, wb_input input, int seed, float *y);

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

// Rows that no thread has written.
static bool look_at_rows(int rows, int cols, judge_of_gaps may, finding *best)
{
    static float y[MOST_ROWS];
    bool lost[MOST_ROWS] = {false}, some = false;
    char text[200];
    if (!run(rows, cols, WB_DIGITS, 0, y)) return false;
    for (int i = 0; i < rows; i++) {
        uint32_t bits;
        memcpy(&bits, &y[i], sizeof bits);
        some |= lost[i] = bits == 0xffffffffu;
    }
    list(lost, rows, text, sizeof text);
    if (some)
        find(best, may, BY_ROWS, "launch|who|reduce|store",
             "of %d rows with %d columns these are never written, or NaN: %s", rows, cols, text);
    return !some;
}

static bool look_at_counts(int rows, int cols, judge_of_gaps may, finding *best)
{
    static float y[MOST_ROWS];
    static int counts[MOST_ROWS][MOST_COLS];
    for (int seed = 0; seed <= (cols - 1) / 4; seed++) {
        if (!run(rows, cols, WB_DIGITS, seed, y)) return false;
        for (int i = 0; i < rows; i++) {
            if (!(y[i] >= 0 && y[i] < 1 << 24) || y[i] != floorf(y[i])) {
                int nan = 0;
                for (int other = 0; other < rows; other++) nan += isnan(y[other]);
                if (isnan(y[i]))
                    find(best, may, BY_COUNT, nan < rows ? "load|ends|who" : "load|ends|who|reduce|store",
                         "with %d rows of %d columns, y[%d] is NaN, as %d others: something past the end of a row of x "
                         "or of w is read, or what nobody wrote",
                         rows, cols, i, nan - 1);
                return false;
            }
            for (int k = 0; k < 4 && 4 * seed + k < cols; k++) counts[i][4 * seed + k] = (int)y[i] >> 6 * k & 63;
        }
    }
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
        // Alone it counts as often? Sums that are rounded on the way look like columns that are left out.
        if (!run(rows, cols, WB_ROW_NUMBERS, first, y) || y[i] != (float)(counts[i][first] * (i + 1))) return true;
        char nones[120], manys[120], where[160] = "";
        list(none, cols, nones, sizeof nones), list(many, cols, manys, sizeof manys);
        if (head > 0 || tail < cols)
            snprintf(where, sizeof where, " (%d columns stand before its first whole load, %d behind the last)", head,
                     cols - tail);
        find(best, may, BY_COUNT,
             ends      ? "ends"
             : by_load ? "reduce|load|store"
                       : "load|reduce|ends",
             "with %d rows of %d columns, y[%d] %s%s%s%s%s%s", rows, cols, i, some_none ? "leaves out columns " : "",
             some_none ? nones : "", some_none && some_many ? " and " : "",
             some_many ? "counts more than once columns " : "", some_many ? manys : "", where);
        return false;
    }
    return true;
}

static void look_at_sources(int rows, int cols, judge_of_gaps may, finding *best)
{
    static float y[MOST_ROWS];
    for (int j = 0; j < cols; j++) {
        if (!run(rows, cols, WB_ROW_NUMBERS, j, y)) return;
        for (int i = 0; i < rows; i++)
            if (y[i] != (float)(i + 1)) {
                const int from = (int)y[i] - 1, head = min_int(cols, (WIDE - i * cols % WIDE) % WIDE);
                bool ends = true;
                for (int other = 0; other < cols && ends; other++)
                    if (other >= head && other < head + (cols - head) / WIDE * WIDE)
                        ends = run(rows, cols, WB_ROW_NUMBERS, other, y) && y[i] == (float)(i + 1);
                if (from == 2 * i + 2)
                    find(best, may, BY_SOURCE, "load|ends",
                         "with %d rows of %d columns, y[%d] has column %d of the next row in it, too", rows, cols, i,
                         j);
                else if (ends)
                    find(best, may, BY_SOURCE, "ends",
                         "with %d rows of %d columns, y[%d] has column %d of other rows in it, and all that are in "
                         "whole loads from its own",
                         rows, cols, i, j);
                else if (from >= 0 && from < rows)
                    find(best, may, BY_SOURCE, "who|reduce|store",
                         "with %d rows of %d columns, y[%d] takes column %d from row %d", rows, cols, i, j, from);
                else
                    find(best, may, BY_SOURCE, "who|reduce|store",
                         "with %d rows of %d columns, y[%d] has column %d of other rows in it", rows, cols, i, j);
                return;
            }
        if (!run(rows, cols, WB_COLUMN_NUMBERS, j, y)) return;
        for (int i = 0; i < rows; i++)
            if (y[i] != (float)(j + 1)) {
                find(best, may, BY_WEIGHT, "load|ends",
                     "with %d rows of %d columns, y[%d] multiplies column %d by w[%g]", rows, cols, i, j,
                     (double)y[i] - 1);
                return;
            }
    }
}

void evidence_of_sum(bool (*run_)(int rows, int cols, wb_input input, int seed, float *y), judge_of_gaps may,
                     finding *best)
{
    static const int shapes[][2] = {{37, 33}, {40, 64}, {9, 1097}};
    run = run_;
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes && best->rank == 0; n++) {
        const int rows = shapes[n][0], cols = shapes[n][1];
        if (!look_at_rows(rows, cols, may, best)) return;
        if (look_at_counts(rows, cols, may, best) && cols < 256) look_at_sources(rows, cols, may, best);
    }
}
