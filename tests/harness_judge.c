#include "harness_judge.h"

#include "mask/picture.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

const char *only;
bool may_not_wait;

void say(report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(r->text + r->used, sizeof r->text - r->used, format, arguments);
    va_end(arguments);
    if (n > 0) r->used += (size_t)n < sizeof r->text - r->used ? (size_t)n : sizeof r->text - r->used - 1;
}

// Text that the worker wrote, perhaps without an end: on one line, and without the mark of record.h.
static void say_theirs(report *r, const char *text, size_t room)
{
    for (size_t i = 0; i < room && text[i]; i++)
        say(r, "%c", (unsigned char)text[i] < 32 || text[i] == 127 ? '?' : text[i]);
}

void say_case(report *r, const worker_run *run)
{
    wb_case_print(run->problem, &run->c, r->given);
    snprintf(r->finding, sizeof r->finding, "%s",
             !*run->said.finding && run->shared && worker_exchange(run)->overrun ? "overrun" : run->said.finding);
    if (run->said.count) {
        say(r, "\n  it printed  ");
        for (const char *p = run->said.text; *p; p++) {
            if (*p == '\n' && p[1])
                say(r, "\n              ");
            else if (*p != '\n')
                say(r, "%c", (unsigned char)*p < 32 || *p == 127 ? '?' : *p);
        }
        if (run->said.count >= sizeof run->said.text)
            say(r, "\n              ... (%zu characters in all)", run->said.count);
    }
}

// The rows of queries that one block of the kernel owned, where its launch tells: as many blocks as tiles in all heads,
// and more than one tile. 0 if it does not. On the host they are the lesson's.
static size_t tile_of(const worker_run *run)
{
    const attention_shape *s = &run->c.shape;
    const wb_asked asked = worker_exchange(run)->asked;
    const uint64_t heads = (uint64_t)s->q_heads * (uint64_t)s->batch;
    if (wb_has_ranks(run->problem)) return 0;  // a launch has a pair of chunks
    if (run->problem->on_host) return (size_t)run->problem->tile;
    if (run->problem->signature == WB_BLOCK_MASK) return (size_t)run->c.q_tile;
    if ((run->problem->signature != WB_FORWARD && run->problem->signature != WB_FP8) || asked.launches != 1 ||
        asked.blocks < 2 * heads)
        return 0;
    for (uint64_t rows = 8; rows <= 256; rows *= 2)
        if (((uint64_t)s->q_len - 1) / rows + 1 == asked.blocks / heads && asked.blocks % heads == 0) return rows;
    return 0;
}

static void say_tile(report *r, const worker_run *run, size_t row)
{
    const size_t tile = tile_of(run);
    if (tile) say(r, " (row %zu of tile %zu, of %zu rows)", row % tile, row / tile, tile);
    if (!wb_has_ranks(run->problem)) return;
    const int chunk = wb_chunk_with(&run->c, (int)row);
    say(r, " (row %d of chunk %d, on rank %d)", (int)row - wb_chunk_begin(&run->c, chunk), chunk,
        wb_rank_with(&run->c, chunk));
}

void say_rank(report *r, const worker_run *run, int rank)
{
    if (worker_count(run) > 1) say(r, "rank %d: ", rank);
}

void say_place(report *r, const worker_run *run, const wb_tensor *t, size_t i)
{
    const size_t d = i % t->dim[3], c = i / t->dim[3] % t->dim[2], b = i / t->dim[3] / t->dim[2] % t->dim[1];
    const size_t a = i / t->dim[3] / t->dim[2] / t->dim[1];
    if (strstr(t->name, "sink"))
        say(r, "%s[h %zu]", t->name, d);
    else if (run->problem->signature == WB_ROW_SUM && t->dim[2] > 1)
        say(r, "%s[row %zu, column %zu]", t->name, c, d);
    else if (run->problem->signature == WB_ROW_SUM)
        say(r, "%s[%zu]", t->name, d);
    else if (t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3] == t->count && strchr("Ld", *t->name) &&
             t->type == WB_FLOAT32 && t->dim[0] == 1)
        say(r, "%s[b %zu, h %zu, i %zu]", t->name, b, c, d), say_tile(r, run, d);
    else
        say(r, "%s[b %zu, h %zu, i %zu, d %zu]", t->name, a, b, c, d), say_tile(r, run, c);
}

// ------------------------ judge

// What the worker says was written outside of a buffer (exchange.h).
static void say_overrun(report *r, const worker_run *run)
{
    const wb_exchange *x = worker_exchange(run);
    const bool tensor = x->overrun_of >= 0 && x->overrun_of < run->count;
    const wb_tensor *t = tensor ? &run->tensors[x->overrun_of] : NULL;
    const long long size = t && x->overrun > 0 ? (long long)wb_type_bytes(t->type) : 1;
    const long long off = x->overrun < 0 ? -x->overrun : (x->overrun - 1) / size + 1;
    say(r, "the function wrote outside of %s: %lld %s%s %s", t ? t->name : "the workspace", off,
        t && x->overrun > 0 ? "element" : "byte", off == 1 ? "" : "s",
        x->overrun < 0 ? t ? "before its first element" : "before its first byte"
        : t            ? "past its last one"
                       : "past its last byte");
}

// Guards and inputs are as they were; when nothing may be written, outputs too. Else says what is not.
static bool part_untouched(report *r, const worker_run *whole, int rank, bool outputs_too)
{
    const worker_run *const run = worker_part(whole, rank);
    if (worker_exchange(run)->overrun) {
        say_rank(r, whole, rank);
        say_overrun(r, run);
        return false;
    }
    for (int k = 0; k < run->count; k++) {
        const wb_tensor *t = &run->tensors[k];
        const char *now = worker_tensor(run, k), *before = original_tensor(run, k);
        if ((t->output && !outputs_too) || memcmp(now, before, t->bytes) == 0) continue;
        size_t i = 0;
        while (now[i] == before[i]) i++;
        i /= wb_type_bytes(t->type);
        say_rank(r, whole, rank);
        say(r, "%s ", t->output ? "the function refused the arguments, but wrote" : "the function changed an input:");
        say_place(r, whole, &whole->tensors[k],
                  run == whole ? i : wb_shard_place(&whole->c, &whole->tensors[k], rank, i));
        return false;
    }
    return true;
}

static bool judge_untouched(report *r, const worker_run *run, bool outputs_too)
{
    for (int rank = 0; rank < worker_count(run); rank++)
        if (!part_untouched(r, run, rank, outputs_too)) return false;
    return true;
}

// "2 to 7" for the first of the flags to the last one, or "all".
static void say_range(report *r, const char *what, const int *flags, int count)
{
    int first = 0, last = count - 1, set = 0;
    while (first < count - 1 && !flags[first]) first++;
    while (last > 0 && !flags[last]) last--;
    for (int i = 0; i < count; i++) set += flags[i] != 0;
    if (set == count)
        say(r, " all %d %s", count, what);
    else if (first == last)
        say(r, " %s %d (counted from 0) of %d", what, first, count);
    else
        say(r, "%s %s %d to %d (counted from 0) of %d", set == last - first + 1 ? "" : " some of", what, first, last,
            count);
}

// Whether each wrong row of O is a multiple of the right one: no key of its own has come or gone.
static bool only_divided(const worker_run *run, int k, const expected *e)
{
    const wb_tensor *t = &run->tensors[k];
    const size_t D = (size_t)run->c.shape.head_dim;
    size_t telling = 0, rows = 0;  // telling: not one number in all columns
    for (size_t row = 0; row < t->count / D; row++) {
        double right = 0, both = 0, largest = 0, least = INFINITY, most = -INFINITY, off = 0;
        bool wrong = false;
        for (size_t i = row * D; i < (row + 1) * D; i++) {
            const double got = element(t, worker_tensor(run, k), i), want = e->want[i];
            wrong |= !expected_is(e, i, got);
            right += want * want, both += want * got, largest = fmax(largest, fabs(got)), least = fmin(least, want),
                                                      most = fmax(most, want);
        }
        if (!wrong) continue;
        if (!(right > 0) || !isfinite(both)) return false;
        for (size_t i = row * D; i < (row + 1) * D; i++) {
            const double got = element(t, worker_tensor(run, k), i), left = fabs(got - both / right * e->want[i]);
            off = fmax(off, left - e->tolerance[i]);
            if (left > e->tolerance[i] && left > fabs(got - e->want[i]) / 4) return false;  // no factor explains it
        }
        if (off > 0.01 * largest || largest == 0) return false;
        rows++, telling += most - least > 0.1 * fmax(most, -least);
    }
    return 2 * telling > rows;
}

// For a problem with a mask: the mask, its wrong rows marked, and which heads and columns are wrong.
static void say_picture(report *r, const worker_run *run, int k, const expected *e)
{
    enum { LARGEST = 8192 };  // the picture looks at every pair
    const wb_tensor *t = &run->tensors[k];
    const attention_shape *s = &run->c.shape;
    const bool given = run->problem->signature == WB_BLOCK_MASK;
    const wb_signature takes = run->problem->signature;
    const bool formula =
        (takes == WB_FORWARD || takes == WB_FP8 || takes == WB_RING) && run->problem->mask != WB_NO_MASK && s->causal;
    if ((!given && !formula) || s->q_len > LARGEST || s->kv_len > LARGEST) return;
    const bool is_O = t->dim[2] == (size_t)s->q_len && t->dim[3] == (size_t)s->head_dim && *t->name == 'O';
    const int width = is_O ? s->head_dim : 1;
    if (!is_O && !only && *t->name == 'L') return;  // O is right, and so is the mask
    if (is_O && only_divided(run, k, e)) {
        say(r, "\n  each wrong row of O is a multiple of the correct one: either the divisor is wrong, or keys past "
               "the last one have nonzero weights (their V is 0)");
        return;
    }
    int *rows = calloc((size_t)s->q_len, sizeof *rows), *heads = calloc((size_t)s->q_heads, sizeof *heads);
    int columns[WB_MAX_HEAD_DIM] = {0}, wrong = 0;
    char text[8192];
    if (!rows || !heads) abort();
    for (size_t i = 0; i < t->count; i++) {
        if (expected_is(e, i, element(t, worker_tensor(run, k), i))) continue;
        const size_t row = i / (size_t)width;
        rows[row % (size_t)s->q_len] = heads[row / (size_t)s->q_len % (size_t)s->q_heads] = 1;
        columns[i % (size_t)width] = 1;
    }
    for (int i = 0; i < s->q_len; i++) wrong += rows[i];
    const wb_picture p = {.problem = run->problem,
                          .shape = s,
                          .named = given ? &wb_case_mask_of(&run->c)->named : NULL,
                          .wrong = rows,
                          .nan_from = run->c.nan_from,
                          .nan_keys = run->c.nan_keys,
                          .indent = "  ",
                          .max_rows = wrong == s->q_len ? 8 : 32,  // all rows: no pattern
                          .max_width = 64};
    wb_picture_print(&p, text, sizeof text);
    if (s->q_heads > 1) say(r, "\n  wrong in"), say_range(r, "heads", heads, s->q_heads);
    if (is_O) say(r, "\n  wrong in"), say_range(r, "columns", columns, width);
    say(r, "\n  the mask (# visible, . masked, + both%s), with the wrong queries of %s marked:\n%s",
        run->c.nan_keys ? "; N: V is NaN" : "", t->name, text);
    r->used--;  // the last newline
    r->text[r->used] = 0;
    free(rows);
    free(heads);
}

// ------------------------ what is regular about what is wrong

// The bytes that an output has before the call: nobody wrote it.
static bool is_unwritten(const worker_run *run, const wb_tensor *t, const char *data, size_t i)
{
    const size_t size = wb_type_bytes(t->type);
    bool same = !run->c.prior;
    for (size_t n = 0; n < size; n++) same &= (unsigned char)data[i * size + n] == WB_NAN_BYTE;
    return same;
}

// "queries 0, 4, 8 ... are right": if those of whom it is true are one in so many, or follow each other.
static void say_which(report *r, const char *rows, const bool *is, size_t count, const char *what)
{
    size_t some = 0, first = 0, step = 1;
    bool regular = true;
    for (size_t i = 0; i < count; i++) {
        if (!is[i]) continue;
        if (some == 0) first = i;
        if (some == 1) step = i - first;
        regular &= i == first + some++ * step;
    }
    if (some < 2 || some == count || !regular || (step > 1 && (first >= step || first + some * step < count))) return;
    if (step == 1)
        say(r, "\n  %s %zu to %zu %s", rows, first, first + some - 1, what);
    else
        say(r, "\n  %s %zu, %zu, %zu ... %s", rows, first, first + step, first + 2 * step, what);
}

// Sums of a row of 02 that lack columns, or have some several times. load: which of the block's; lanes: a thread whose
// number in the block has one of these bits adds nothing.
enum { ONE_TURN = 5, NO_ENDS, NO_HEAD, NO_TAIL, NO_TAIL_OF_LOADS, W_OF_LOAD, STEPS_OF_32, COLUMNS };
static const struct {
    int lanes;
    const char *says;
} columns[COLUMNS] = {
    {~31, "contains only the columns of the first warp of its block"},
    {16, "contains only the columns of lanes 0 to 15 of each warp"},
    {24, "contains only the columns of lanes 0 to 7 of each warp"},
    {31, "contains only the columns of lane 0 of each warp"},
    {~0, "contains only the columns of thread 0 of its block"},
    {0, "contains only the columns that a block of 128 threads loads in its first iteration"},
    {0, "omits the head and tail columns, outside of the 16-byte loads"},
    {0, "omits the columns before the first 16-byte load"},
    {0, "omits the columns behind the last 16-byte load"},
    {0, "omits the columns behind the last 16-byte load; rows without such a load are right"},
    {0, "multiplies the columns of a 16-byte load by the first elements of w: its first column by w[0], and so on"},
    {0,
     "contains columns up to four times: the loop strides by 32 instead of 128, so four warps add the same columns"}};
static int times_met(int form, long load, bool end, bool head, bool has_loads)
{
    switch (form) {
    case ONE_TURN: return end || load < 128;
    case NO_ENDS: return !end;
    case NO_HEAD: return !head;
    case NO_TAIL: return !end || head;
    case NO_TAIL_OF_LOADS: return !end || head || !has_loads;
    case STEPS_OF_32: return end ? 1 : load < 96 ? 1 + (int)load / 32 : 4;
    default: return !(load % 128 & columns[form].lanes);
    }
}
static void say_columns(report *r, const worker_run *run, int k, const expected *e)
{
    const int at_x = worker_named(run, "x"), at_w = worker_named(run, "w");
    const wb_tensor *x = &run->tensors[at_x], *w = &run->tensors[at_w];
    const size_t cols = w->count, rows = run->tensors[k].count;
    for (int n = 0; n < 2 * COLUMNS; n++) {
        const int form = n / 2;
        const size_t wide = n % 2 ? 8 : 1;  // columns in a load
        size_t wrong = 0, fits = 0, met = 0;
        for (size_t row = 0; row < rows && fits == wrong; row++) {  // it has to explain the right ones, too
            const double got = element(&run->tensors[k], worker_tensor(run, k), row);
            const size_t begin = row * cols, skip = (wide - begin % wide) % wide,
                         loads = cols < skip ? 0 : (cols - skip) / wide;
            const bool right = expected_is(e, row, got), has_loads = loads > 0;
            double sum = 0;
            for (size_t j = 0; j < cols; j++) {
                const bool end = j < skip || j >= skip + loads * wide;
                const size_t load = end ? j < skip ? j : j - loads * wide : (j - skip) / wide;
                const int times = times_met(form, (long)load, end, j < skip, has_loads);
                const size_t of_w = form == W_OF_LOAD && !end ? (j - skip) % 8 : j;
                met += times > 0;
                if (times)
                    sum += times * element(x, original_tensor(run, at_x), begin + j) *
                           element(w, original_tensor(run, at_w), of_w);
            }
            const bool fit = fabs(got - sum) <= 4 * e->tolerance[row] || (right && !isfinite(got));
            wrong += !right || !fit, fits += !right && fit;
        }
        if (fits < wrong || !met) continue;
        say(r, "\n  each wrong sum %s", columns[form].says);
        return;
    }
    bool close = cols <= 64;  // of more columns one that is missing is as little
    for (size_t row = 0; row < rows && close; row++) {
        double terms = 0;
        for (size_t j = 0; j < cols; j++)
            terms += fabs(element(x, original_tensor(run, at_x), row * cols + j) *
                          element(w, original_tensor(run, at_w), j));
        close = fabs(element(&run->tensors[k], worker_tensor(run, k), row) - e->want[row]) <= terms / 128;
    }
    if (close) say(r, "\n  each wrong sum is off by less than 1 %% of sum |x w|, as if rounded to bf16 on the way");
}

static void say_pattern(report *r, const worker_run *run, int k, const expected *e, bool blank)
{
    const wb_tensor *t = &run->tensors[k];
    const char *data = worker_tensor(run, k);
    const bool sums = run->problem->signature == WB_ROW_SUM,
               O = t->dim[3] == (size_t)run->c.shape.head_dim && t->dim[3] > 1;
    const size_t D = O ? t->dim[3] : 1, N = sums ? t->count : O ? t->dim[2] : t->dim[3];
    bool *right = malloc(N), *unwritten = calloc(N, 1);
    if (!right || !unwritten) abort();
    memset(right, true, N);
    for (size_t i = 0; i < t->count; i++) {
        const bool is = expected_is(e, i, element(t, data, i)), blank_is = !is && is_unwritten(run, t, data, i);
        right[i / D % N] &= is, unwritten[i / D % N] |= blank_is;
    }
    const char *rows = sums ? "rows" : *t->name == 'd' && strchr("KV", t->name[1]) ? "keys" : "queries";
    say_which(r, rows, right, N, "are right");
    say_which(r, rows, unwritten, N, "were not written");
    const double factor = blank ? NAN : expected_factor(run, k, e);
    if (factor == 0) say(r, "\n  each wrong element is 0");
    if (fabs(factor) > 0) say(r, "\n  each wrong element is %.4g times the correct one", factor);
    if (sums && !blank && (isnan(factor) || factor == 0)) say_columns(r, run, k, e);
    free(right), free(unwritten);
}

// What is unusual about a case, and may be why its results are wrong.
static void say_circumstances(report *r, const worker_run *run, bool not_finite)
{
    const wb_case *const c = &run->c;
    static const char *const skipped = "a tile was computed that should have been skipped (0 * NaN is NaN)";
    const int last_key = c->nan_from + c->nan_keys - 1, last_query = c->nan_from + c->nan_queries - 1;
    if (c->prior)
        say(r, "\n  before the call each byte of the outputs%s was %d: a function must not use these old contents",
            run->problem->signature == WB_DECODE ? " and workspace" : "", WB_NAN_BYTE - c->prior);
    if (c->late > 1)
        say(r, "\n  another call runs at the same time, on another stream: memory that both calls use, such as a "
               "__device__ variable, may be overwritten");
    else if (c->late && not_finite)
        say(r, "\n  the inputs arrive on the stream that the function gets as an argument. If the same case without "
               "late=1 is right, work on another stream did not wait for them, and read NaN");
    if (c->nan_keys && not_finite && run->problem->signature == WB_BLOCK_MASK)
        say(r, "\n  V of keys %d to %d is NaN, but the wrong queries' lists contain no tile with these keys:\n  %s",
            c->nan_from, last_key, skipped);
    else if (c->nan_keys && not_finite)
        say(r,
            "\n  V of keys %d to %d is NaN. Neither the wrong queries nor others within %d rows see these keys:\n  %s",
            c->nan_from, last_key, EXCUSED - 1, skipped);
    if (c->nan_head)
        say(r, "\n  V of key head %d of sequence %d is NaN: the results of other heads must not depend on it",
            (c->nan_head - 1) % c->shape.kv_heads, (c->nan_head - 1) / c->shape.kv_heads);
    if (c->nan_queries && not_finite)
        say(r,
            "\n  dO of queries %d to %d is NaN. Neither these queries nor others within %d rows see a wrong key:\n  %s",
            c->nan_from, last_query, EXCUSED - 1, skipped);
}

// Every element of every output is where the oracle says. Says what is not, and returns whether all is.
static bool judge_outputs(report *r, const worker_run *run)
{
    expected outputs[WB_MAX_TENSORS] = {{0}};
    bool right = true;
    int picture_of = -1;
    expect_outputs(run, outputs);
    for (int k = 0; k < run->count; k++) {
        const wb_tensor *t = &run->tensors[k];
        if (!t->output || (only && strcmp(only, t->name))) continue;
        const char *data = worker_tensor(run, k);
        const double *want = outputs[k].want, *tolerance = outputs[k].tolerance;
        size_t wrong = 0, not_finite = 0, blank = 0, first = 0, worst = 0;
        double worst_ratio = 0;
        for (size_t i = 0; i < t->count; i++) {
            const double got = element(t, data, i);
            if (expected_is(&outputs[k], i, got)) continue;
            const double ratio = isfinite(got) ? fabs(got - want[i]) / tolerance[i] : INFINITY;
            if (wrong++ == 0) first = i;
            if (!isfinite(got)) not_finite++, blank += is_unwritten(run, t, data, i);
            if (ratio > worst_ratio) worst_ratio = ratio, worst = i;
        }
        if (wrong && right) {
            right = false;
            say(r, "%s differs from the oracle in %zu of %zu elements (%.3g %%)", t->name, wrong, t->count,
                100.0 * (double)wrong / (double)t->count);
            const size_t shown[2] = {first, worst};
            for (int n = 0; n < (first == worst ? 1 : 2); n++) {
                const size_t i = shown[n];
                const double got = element(t, data, i);
                say(r, "\n  %s wrong ", n ? "worst" : "first");
                say_place(r, run, t, i);
                say(r, " is %.6g, should be %.6g +- %.2g", isnan(got) ? NAN : got, want[i], tolerance[i]);
            }
            if (blank) say(r, "\n  %zu of the wrong elements %s not written", blank, blank == 1 ? "was" : "were");
            if (not_finite > blank)
                say(r, "\n  %zu of the wrong elements %s NaN or infinite%s", not_finite - blank,
                    not_finite - blank == 1 ? "is" : "are", run->c.prior ? "" : ", although the function wrote them");
            say_pattern(r, run, k, &outputs[k], blank == wrong);
            say_circumstances(r, run, not_finite > 0);
            picture_of = k;
        } else if (wrong) {
            say(r, "\n  and %s in %zu of %zu elements", t->name, wrong, t->count);
        } else if (!right) {
            say(r, "\n  %s is right", t->name);
        }
    }
    if (picture_of >= 0) say_picture(r, run, picture_of, &outputs[picture_of]);
    for (int k = 0; k < run->count; k++) free(outputs[k].want), free(outputs[k].tolerance);
    return right;
}

void gpus(int *count, int *capability)
{
    typedef int (*init)(unsigned flags);
    typedef int (*get)(int *value);
    typedef int (*get_device)(int *device, int number);
    typedef int (*get_attribute)(int *value, int attribute, int device);
    enum { MAJOR = 75 };  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    const init cuInit = driver ? (init)dlsym(driver, "cuInit") : NULL;
    int device;
    *count = *capability = 0;
    if (!cuInit || cuInit(0)) return;
    const get cuDeviceGetCount = (get)dlsym(driver, "cuDeviceGetCount");
    const get_device cuDeviceGet = (get_device)dlsym(driver, "cuDeviceGet");
    const get_attribute cuDeviceGetAttribute = (get_attribute)dlsym(driver, "cuDeviceGetAttribute");
    if (!cuDeviceGetCount || cuDeviceGetCount(count)) *count = 0;
    if (!cuDeviceGet || !cuDeviceGetAttribute || cuDeviceGet(&device, 0) ||
        cuDeviceGetAttribute(capability, MAJOR, device))
        *capability = 0;
}

// Where a rank has not answered, which of the others had given up before.
static void say_others(report *r, const worker_run *run)
{
    for (int rank = 0; run->parts && rank < worker_count(run); rank++) {
        const wb_exchange *x = worker_exchange(&run->parts[rank]);
        if (rank == run->whose || x->status == WB_OK) continue;
        say(r, "\n  on rank %d the function returned '%s': ", rank, wb_status_text(x->status));
        say_theirs(r, x->message, sizeof x->message);
    }
}

bool judge_ending(report *r, const worker_run *run)
{
    const wb_exchange *x = worker_exchange(run);
    if (x->status == WB_UNSUPPORTED && harness_capability && !on_cpu_backend()) {
        int count, here;
        gpus(&count, &here);
        if (here && here != harness_capability)  // no points, and nothing is wrong
            cr_skip_test("this problem needs a GPU of compute capability %d, but this one has %d; use BACKEND=cpu",
                         harness_capability, here);
    }
    const bool wrong = run->ending[0] || x->status != WB_OK || x->device_status != WB_OK;
    if (wrong && !worker_not_run(run)) say_rank(r, run, run->whose);
    if (run->ending[0])
        say(r, "%s", run->ending), say_others(r, run);
    else if (x->status != WB_OK)
        say(r, "the function returned '%s': ", wb_status_text(x->status)), say_theirs(r, x->message, sizeof x->message);
    else if (x->device_status != WB_OK)
        say(r, "a kernel failed: "), say_theirs(r, x->device_message, sizeof x->device_message);
    else if (run->c.dry && on_cpu_backend() && !x->asked.launches)
        say(r, "the function launched no kernel");
    else if (may_not_wait && x->asked.waited)
        say(r, "the function waited for work on the device, but should return as soon as its own work is queued");
    else if (run->c.late && x->asked.astray)
        say(r, "a kernel, copy or memset was queued on another stream than the argument 'stream', without waiting for "
               "'stream'");
    else
        return true;
    return false;
}

static bool judge_refusal(report *r, const worker_run *run, const refusal *wanted, int rank)
{
    const wb_exchange *x = worker_exchange(worker_part(run, rank));
    char message[sizeof x->message];  // which the worker may have written without an end
    snprintf(message, sizeof message, "%.*s", (int)sizeof message - 1, x->message);
    if (run->ending[0])
        say(r, "%s, although the function should have refused the arguments", run->ending);
    else if (x->status != wanted->status)
        say(r, "bad input: the function returned '%s' for invalid arguments; it must return '%s'%s%s",
            wb_status_text(x->status), wb_status_text(wanted->status),
            *wanted->word ? ", with a message that names " : "", wanted->word);
    else if (!strstr(message, wanted->word))
        say(r, "bad input: the message '"), say_theirs(r, message, sizeof message),
            say(r, "' does not name '%s'", wanted->word);
    else if (x->device_status != WB_OK)
        say(r, "bad input: a kernel was launched, although the arguments are invalid, and failed: "),
            say_theirs(r, x->device_message, sizeof x->device_message);
    else
        return part_untouched(r, run, rank, true);
    return false;
}

double products_of(const wb_case *c, int rows, int keys)
{
    const attention_shape *s = &c->shape;
    double pairs = 0;
    for (int row = 0; row < s->q_len; row += rows) {
        const int seen = s->causal && row + rows < s->kv_len ? row + rows : s->kv_len;
        pairs += (double)rows * ((seen - 1) / keys + 1) * keys;
    }
    return 2.0 * s->batch * s->q_heads * pairs * s->head_dim;
}

// Where the lesson is products that run on their own, these have made the outputs. Seen on the cpu backend.
static bool judge_products(report *r, const worker_run *run)
{
    const double did = (double)worker_exchange(run)->asked.products, wanted = products_of(&run->c, 1, 1);
    if (!harness_capability || !on_cpu_backend() || did >= wanted) return true;
    say(r,
        "the outputs are correct, but the asynchronous products of hopper.cuh performed only %.3g multiplications; Q "
        "K^T and P V of this case need %.3g",
        did, wanted);
    return false;
}

bool judge(report *r, const worker_run *run, const refusal *wanted)
{
    const bool dry = run->c.dry && on_cpu_backend();
    bool right =
        wanted || (judge_ending(r, run) &&
                   (dry || (judge_untouched(r, run, false) && judge_outputs(r, run) && judge_products(r, run))));
    for (int rank = 0; wanted && right && rank < worker_count(run); rank++) right = judge_refusal(r, run, wanted, rank);
    if (!right) say_case(r, run);
    return right;
}
