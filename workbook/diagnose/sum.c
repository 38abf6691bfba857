// sum.c - which columns of which rows a weighted row sum counts, under which weights: read from sums of numbers chosen
// for that.
#include "evidence.h"

enum { BY_ROWS = 10, BY_COUNT = 30, BY_WEIGHT = 40, BY_NUMBERS = 50 };
enum { MOST_ROWS = 64, MOST_COLS = 2300, WIDE = 8, ROWS = 4, THREADS = 128 };

static bool (*run)(int rows, int cols, wb_input input, int seed, float *y);
static float y[MOST_ROWS];                // as it was run last
static int counts[MOST_ROWS][MOST_COLS];  // how often y[i] has column j, of whatever row
static fit fit_rows, fit_counts, fit_w;

// Which rows are never written, if there are other numbers of blocks.
static int row_forms(int i, int rows, form *forms)
{
    static const char *const many[] = {"", "there are (rows - 1) / 4 + 1 blocks",
                                       "there are (rows - 1) / 32 + 1 blocks", "there are rows / 32 * 8 blocks",
                                       "there are (rows - 1) / 32 * 8 blocks"};
    const int team = ROWS * WIDE, all = (rows - 1) / team + 1;
    const int blocks[] = {all * WIDE, (rows - 1) / ROWS + 1, all, max_int(WIDE, rows / team * WIDE), (all - 1) * WIDE};
    int n = 0;
    for (int m = 0; m < COUNT(many); m++) {
        bool taken = false;
        for (int b = 0; b < blocks[m] * ROWS; b++)
            taken |= b / ROWS / WIDE * team + b / ROWS % WIDE + b % ROWS * WIDE == i;
        add_form(&fit_rows, forms, &n, !taken, "%s", many[m]);
    }
    add_form(&fit_rows, forms, &n, true, "y is never written, or added to what was there before");
    return n;
}

static bool look_at_rows(int rows, int cols)
{
    bool lost[MOST_ROWS] = {false}, tell = false;
    if (!run(rows, cols, WB_DIGITS, 0, y)) return false;
    for (int i = 0; i < rows; i++) {
        uint32_t bits;
        form forms[MAX_FORMS];
        memcpy(&bits, &y[i], sizeof bits);
        lost[i] = bits == 0xffffffffu;
        tell |= fit_add(&fit_rows, lost[i], 0, forms, row_forms(i, rows, forms));
    }
    if (tell)
        fit_says(&fit_rows, "of %d rows with %d columns these are never written, or NaN: %s", rows, cols,
                 list_of(lost, rows, 200));
    return true;
}

// The first column of row i that begins a whole load.
static int first_load(int i, int cols) { return min_int(cols, (WIDE - i * cols % WIDE) % WIDE); }

// How the columns of a row may be shared out among threads and their sums added up: by how much each number is off.
typedef struct way {
    const char *says, *gaps;
    int stride, end, ends;          // of a thread's loop over whole loads; which columns beside these are left out
    int no_lanes, no_warps, times;  // lanes whose numbers have one of these bits; warps by bits; what counts more often
} way;
enum { RIGHT, NO_HEAD, NO_TAIL, NONE, TWICE };
static const way ways[] = {
    {.says = "", .gaps = ""},
    {"a thread goes on by 32 whole loads: a block has 128 threads", "load", .stride = 32 - THREADS},
    {"a thread goes on by 8 whole loads: a block has 128 threads", "load", .stride = WIDE - THREADS},
    {"a thread goes on by one whole load: a block has 128 threads", "load", .stride = 1 - THREADS},
    {"a thread takes one whole load, and does not go on, or by 1024 loads", "load", .stride = 1 << 20},
    {"the last whole load is left out", "load", .end = -1},
    {"the columns before the first whole load are left out", "ends", .ends = NO_HEAD},
    {"the columns behind the last whole load are left out", "ends", .ends = NO_TAIL},
    {"the columns beside the whole loads are left out", "ends", .ends = NONE},
    {"the first column of the whole loads is taken for one before them, too", "ends", .ends = TWICE},
    {"the first warp counts four times, and no other", "reduce|store", .no_warps = 14, .times = 3}};

static const char *const lists_of[] = {"0", "1",    "0, 1", "2",       "0, 2", "1, 2",    "0, 1, 2",
                                       "3", "0, 3", "1, 3", "0, 1, 3", "2, 3", "0, 2, 3", "1, 2, 3"};

static void count_columns(const way *by, int i, int cols, int *count)
{
    const int head = first_load(i, cols), loads = (cols - head) / WIDE;
    memset(count, 0, (size_t)cols * sizeof *count);
    for (int t = 0; t < THREADS; t++) {
        const int lane = t % 32, warp = t / 32, before = by->ends == TWICE ? t <= head : t < head;
        if (by->no_warps >> warp & 1 || by->no_lanes & lane) continue;
        for (int n = t; n < loads + by->end; n += THREADS + by->stride)
            for (int k = 0; k < WIDE; k++) count[head + n * WIDE + k] += 1 + by->times;
        const int j = t + (before ? 0 : loads * WIDE);
        const bool none = by->ends == NONE || by->ends == (before ? NO_HEAD : NO_TAIL);
        if (j < cols && !none) count[j] += 1 + by->times;
    }
}

static bool look_at_counts(int rows, int cols)
{
    enum { LANES = COUNT(ways), WARPS = LANES + 31, ALL = WARPS + 14 };
    static int by[ALL][MOST_COLS];
    bool right = true;
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
    e.wrong = true;  // the answer of the case before was
    for (int i = 0; i < rows; i++) {
        bool none[MOST_COLS] = {false}, many[MOST_COLS] = {false}, tell = false, some = false;
        const int head = first_load(i, cols);
        for (int n = 0; n < ALL; n++) {
            const way lost = n < WARPS ? (way){.no_lanes = n - LANES + 1} : (way){.no_warps = n - WARPS + 1};
            count_columns(n < LANES ? &ways[n] : &lost, i, cols, by[n]);
        }
        for (int j = 0; j < cols; j++) {
            form forms[MAX_FORMS];
            none[j] = counts[i][j] == 0, many[j] = counts[i][j] > 1, some |= none[j] || many[j];
            int count = 0;
            while (count < ALL)
                if (count < LANES)
                    forms[count] = (form){ways[count].says, by[count][j]}, count++;
                else if (count < WARPS)
                    add_form(&fit_counts, forms, &count, by[count][j],
                             "lanes are left out whose numbers have bits of %d: so far apart no shuffle adds",
                             count - LANES + 1);
                else
                    add_form(&fit_counts, forms, &count, by[count][j], "warps are left out: %s",
                             lists_of[count - WARPS]);
            tell |= fit_add(&fit_counts, counts[i][j], 0, forms, ALL);
        }
        right &= !some;
        if (!tell) continue;
        char what[400] = "";
        if (memchr(none, true, sizeof none)) APPEND(what, "leaves out columns %s", list_of(none, cols, 120));
        if (memchr(many, true, sizeof many))
            APPEND(what, "%scounts more than once columns %s", *what ? " and " : "", list_of(many, cols, 120));
        fit_says(&fit_counts,
                 "with %d rows of %d columns, y[%d] %s (%d columns stand before its first whole load, %d behind the "
                 "last)",
                 rows, cols, i, what, head, (cols - head) % WIDE);
    }
    return right;
}

// Whether each column is taken under its own weight.
static void look_at_weights(int rows, int cols)
{
    for (int j = 0; j < cols; j++) {
        if (!run(rows, cols, WB_COLUMN_NUMBERS, j, y)) return;
        for (int i = 0; i < rows; i++) {
            const int head = first_load(i, cols), tail = head + (cols - head) / WIDE * WIDE, is = (int)y[i] - 1;
            const bool in = j >= head && j < tail;
            form forms[MAX_FORMS];
            fit_see(&fit_w, is, 0, forms,
                    list_forms(&fit_w, forms,
                               "|w[j], without k, for all columns of a load|w from the first whole load on: the "
                               "columns before it are not counted",
                               (double[]){j, in ? j - (j - head) % WIDE : j, in ? j - head : j}),
                    "with %d rows of %d columns, y[%d] multiplies column %d by w[%d]", rows, cols, i, j, is);
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
    static const int shapes[][2] = {{9, 2203}, {37, 33}, {40, 64}, {64, 5}};
    run = run_;
    for (int n = 0; n < COUNT(shapes); n++)
        if (!look_at_rows(shapes[n][0], shapes[n][1])) return;
    const form *is = fit_form(&fit_rows);
    e.wrong = fit_rows.wrong;
    fit_conclude(&fit_rows, BY_ROWS, is && !strstr(is->says, "block") ? "store" : "launch|who|store",
                 "launch|who|reduce|store", ": ");
    for (int n = 0; n < COUNT(shapes) && (!best.rank || best.rank == BY_NUMBERS); n++) {
        const int rows = shapes[n][0], cols = shapes[n][1];
        if (!look_at_numbers(rows, cols) && look_at_counts(rows, cols) && cols < 256) look_at_weights(rows, cols);
    }
    is = fit_form(&fit_counts);
    e.wrong = true;
    const int n = is ? (int)(is - fit_counts.forms) : 0;
    fit_conclude(&fit_counts, BY_COUNT, n < COUNT(ways) ? ways[n].gaps : "reduce|who|store",
                 "who|load|ends|reduce|store", ": ");
    fit_conclude(&fit_w, BY_WEIGHT, "who|load|ends", NULL, ": that is ");
}
