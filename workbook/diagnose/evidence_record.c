// evidence_record.c - see evidence_record.h.
#include "mistakes_model.h"

#include "asks.h"
#include "evidence_record.h"

#include <stdarg.h>
#include <stdio.h>

enum { SLOTS = 1 << 15 };

static struct {
    const float *row;
    owner owner;
    int number;
} slots[SLOTS];
static size_t row_bytes;

static void *get(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (!memory) exit(2);
    return memory;
}

static size_t slot_of(const float *row)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < row_bytes / sizeof *row; i++) {
        uint32_t bits;
        memcpy(&bits, &row[i], sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
    }
    return (hash ^ hash >> 29) % SLOTS;
}

static void add_rows(const float *X, owner owner, int rows)
{
    for (int i = 0; X && i < rows && i < SLOTS / 8; i++) {
        const float *row = X + (size_t)i * (row_bytes / sizeof *row);
        size_t at = slot_of(row);
        while (slots[at].row) at = (at + 1) % SLOTS;
        slots[at].row = row, slots[at].owner = owner, slots[at].number = i;
    }
}

static owner owner_of(const float *row, int *number)
{
    *number = NO_ROW;
    bool zero = true;
    for (size_t i = 0; i < row_bytes / sizeof *row; i++) zero &= row[i] == 0;
    if (zero) return NOBODY;
    *number = NOBODYS_ROW;
    for (size_t at = slot_of(row); slots[at].row; at = (at + 1) % SLOTS)
        if (memcmp(slots[at].row, row, row_bytes) == 0) {
            *number = slots[at].number;
            return slots[at].owner;
        }
    return NOBODY;
}

// Rows, or columns, of a matrix [.., stride]: whose are they? Those of another owner than the first are nobody's. Returns how many are somebody's.
static int rows_of(const float *X, int count, int D, int step, int stride, owner *whose, int *number)
{
    float row[WB_MAX_HEAD_DIM];
    int found = 0;
    *whose = NOBODY;
    for (int i = 0; i < count; i++) {
        for (int d = 0; d < D; d++) row[d] = X[(size_t)i * (size_t)step + (size_t)d * (size_t)stride];
        const owner o = owner_of(row, &number[i]);
        if (*whose == NOBODY) *whose = o;
        if (o != *whose && number[i] >= 0) number[i] = NOBODYS_ROW;
        found += number[i] >= 0;
    }
    return found;
}

static void read_product(product *p, int D)
{
    int *by_rows = get((size_t)p->depth, sizeof *by_rows), *by_cols = get((size_t)p->cols, sizeof *by_cols);
    owner of_rows = NOBODY, of_cols = NOBODY;
    p->a_row = get((size_t)p->rows, sizeof *p->a_row);
    if (p->depth == D) rows_of(p->a, p->rows, D, D, 1, &p->left, p->a_row);
    const int rows = p->cols == D ? rows_of(p->b, p->depth, D, D, 1, &of_rows, by_rows) : 0;
    const int cols = p->depth == D ? rows_of(p->b, p->cols, D, 1, p->cols, &of_cols, by_cols) : 0;
    p->scores = cols > rows || (cols == rows && p->left != NOBODY);
    p->right = p->scores ? of_cols : of_rows, p->b_row = p->scores ? by_cols : by_rows;
}

static int by_walker(const void *a, const void *b)
{
    const product *x = a, *y = b;
    return x->walker != y->walker ? (x->walker < y->walker ? -1 : 1) : x->a < y->a ? -1 : x->a > y->a;
}

static bool read_record(const evidence *e, record *r, bool whole)
{
    const attention_shape *s = e->in.shape;
    const float *at = e->products, *end = at + e->product_count;
    *r = (record){0};
    if (!at || (*at++ != 0 && whole)) return false;
    for (const float *p = at; p + WB_PRODUCT_HEAD < end && p[0] >= 0; r->count++) {
        const double size = ((double)p[1] + p[2]) * p[3] + 2.0 * p[1] * p[2];
        if (!(p[1] > 0 && p[2] > 0 && p[3] > 0) || size > (double)(end - p - WB_PRODUCT_HEAD)) return false;
        p += WB_PRODUCT_HEAD + (size_t)size;
    }
    if (r->count == 0) return false;
    r->products = get((size_t)r->count, sizeof *r->products), r->walks = get((size_t)r->count, sizeof *r->walks);
    memset(slots, 0, sizeof slots);
    row_bytes = (size_t)s->head_dim * sizeof(float);
    const int queries = s->batch * s->q_heads * s->q_len, keys = s->batch * s->kv_heads * s->kv_len;
    add_rows(e->in.Q, OF_Q, queries), add_rows(e->in.dO, OF_dO, queries);
    add_rows(e->in.K, OF_K, keys), add_rows(e->in.V, OF_V, keys);
    for (int n = 0; n < r->count; n++) {
        product *p = &r->products[n];
        p->walker = (int)at[0], p->rows = (int)at[1], p->cols = (int)at[2], p->depth = (int)at[3];
        p->a = at + WB_PRODUCT_HEAD, p->b = p->a + p->rows * p->depth, p->before = p->b + p->depth * p->cols;
        p->after = p->before + p->rows * p->cols, at = p->after + p->rows * p->cols;
        read_product(p, s->head_dim);
    }
    qsort(r->products, (size_t)r->count, sizeof *r->products, by_walker);
    // A walk begins with another walker, or with scores of other rows; scores of dO and of V have those of Q and of K beside them.
    for (int n = 0; n < r->count; n++) {
        const product *p = &r->products[n];
        walk *w = r->walk_count ? &r->walks[r->walk_count - 1] : NULL;
        const bool begins = p->scores && (p->left == OF_Q || p->left == OF_K);
        if (!w || w->at->walker != p->walker ||
            (begins && w->first &&
             (w->first->rows != p->rows || w->first->left != p->left ||
              memcmp(w->first->a_row, p->a_row, (size_t)p->rows * sizeof *p->a_row) != 0))) {
            w = &r->walks[r->walk_count++];
            *w = (walk){p, 0, e->in.problem->on_host ? r->walk_count : p->walker / 32, NULL};
        }
        w->count++;
        if (begins && !w->first) w->first = p;
    }
    return true;
}

bool record_read(const evidence *e, record *r) { return read_record(e, r, true); }

// Of a function that does not come back: which tile a warp meets again and again.
void evidence_of_hang(const evidence *e, judge_of_gaps may_say, finding *best)
{
    record r;
    const attention_shape *s = e->in.shape;
    if (!read_record(e, &r, false)) return;
    for (int n = 0; n < r.walk_count; n++) {
        const walk *w = &r.walks[n];
        int met = 0;
        const product *last = NULL;
        for (const product *p = w->at + w->count - 1; w->first && p >= w->at && !last; p--)
            if (p->scores && p->left == w->first->left && p->right == w->first->right && p->b_row[0] >= 0) last = p;
        for (const product *p = w->at; last && p < w->at + w->count; p++)
            met += p->scores && p->left == last->left && p->right == last->right && p->b_row[0] == last->b_row[0];
        if (met < 4) continue;
        const bool queries = last->left == OF_Q;
        find(best, may_say, 1, queries ? "keys|bounds|bound|first tile|sink tiles" : "queries|parts|group|next head",
             "a loop does not end: the warp of %s %d meets the tile of %s from %d on again and again, %d times so far",
             queries ? "query" : "key", last->a_row[0] % (queries ? s->q_len : s->kv_len), queries ? "keys" : "queries",
             last->b_row[0] % (queries ? s->kv_len : s->q_len), met);
    }
}

void find(finding *best, judge_of_gaps may_say, int rank, const char *gaps, const char *format, ...)
{
    if ((best->rank && best->rank <= rank) || !may_say(gaps)) return;
    best->rank = rank, best->gaps = gaps;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(best->says, sizeof best->says, format, arguments);
    va_end(arguments);
}

const char *name_of(double x, const named_number *numbers, int count, double part)
{
    for (int n = 0; n < count; n++)
        if (near_to(x, numbers[n].value, part)) return numbers[n].says;
    return "";
}

line line_through(const double *x, const double *y, int count)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int n = 0; n < count; n++) sx += x[n], sy += y[n];
    sx /= count, sy /= count;
    for (int n = 0; n < count; n++) sxx += (x[n] - sx) * (x[n] - sx), sxy += (x[n] - sx) * (y[n] - sy);
    line l = {sxx > 0 ? sxy / sxx : 0, 0, 0};
    l.at = sy - l.slope * sx;
    for (int n = 0; n < count; n++) l.off = fmax(l.off, fabs(y[n] - l.slope * x[n] - l.at));
    return l;
}
