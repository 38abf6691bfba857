// record.c - the record of products (asks.h), each with the rows of Q, K, V or dO that its factors are; and what rows
// are.
#include "evidence.h"

#include "layer_requests.h"
#include "case/pages.h"

enum { SLOTS = 1 << 16 };

// A row by the sum of its elements' hashes: a kernel may multiply the columns of both factors in another order
// (int8.cuh does).
static struct {
    uint64_t hash;
    owner owner;
    int number;
} slots[SLOTS];

static wb_pages pages;
static void *kept[3];  // of the last record
static int *kept_rows;
static size_t rows_used;

static uint64_t hash_of(const float *row, int count, int stride)
{
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &row[(size_t)i * (size_t)stride], sizeof bits);
        uint64_t x = ((bits == 0x80000000u ? 0 : bits) + 1) * 0x9e3779b97f4a7c15ull;
        x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
        sum += x ^ x >> 29;
    }
    return sum | 1;
}

static uint64_t *hashes[OF_dO + 1];  // of each owner's rows
static int row_counts[OF_dO + 1];

static void add_rows(const float *X, owner whose, int rows)
{
    const int D = e.s->head_dim;
    free(hashes[whose]);
    hashes[whose] = allocate((size_t)rows, sizeof *hashes[whose]), row_counts[whose] = X ? min_int(rows, SLOTS / 8) : 0;
    for (int i = 0; i < row_counts[whose]; i++) {
        const uint64_t hash = hashes[whose][i] = hash_of(X + (size_t)i * (size_t)D, D, 1);
        size_t at = hash >> 8 & (SLOTS - 1);
        while (slots[at].hash) at = (at + 1) & (SLOTS - 1);
        slots[at].hash = hash, slots[at].owner = whose, slots[at].number = i;
    }
}

static bool is_row(uint64_t hash, owner whose, int number)
{
    return number >= 0 && number < row_counts[whose] && hashes[whose][number] == hash;
}

// The number of the row with this hash, of this owner unless that is nobody, whose owner it then is.
static int find_row(uint64_t hash, owner *whose)
{
    for (size_t at = hash >> 8 & (SLOTS - 1); slots[at].hash; at = (at + 1) & (SLOTS - 1))
        if (slots[at].hash == hash && (*whose == NOBODY || *whose == slots[at].owner)) {
            *whose = slots[at].owner;
            return slots[at].number;
        }
    return NOBODYS_ROW;
}

// Rows, or columns, of a matrix: whose are they? Those of another owner than the first are nobody's. Returns how many
// are somebody's.
static int rows_of(const float *X, int count, int apart, int stride, owner *whose, int *number)
{
    const int D = e.s->head_dim;
    uint64_t hash[256];
    int found = 0;
    *whose = NOBODY;
    if (count > 256) return memset(number, 0xff, (size_t)count * sizeof *number), 0;  // NO_ROW
    for (int i = 0; i < count; i++) {
        const float *row = X + (size_t)i * (size_t)apart;
        bool zero = true;
        for (int d = 0; d < D; d++) zero &= row[(size_t)d * (size_t)stride] == 0;
        number[i] = NO_ROW;
        if (zero) continue;
        hash[i] = hash_of(row, D, stride);
        number[i] = find_row(hash[i], whose);
        found += number[i] >= 0;
    }
    // Of rows that are alike those are meant that follow one another: from `base` on, as most do.
    bool follow = true;
    int most = 0, base = 0, tried = 0;
    for (int i = 1; i < count; i++)
        follow &= number[i] < 0 || number[i - 1] < 0 || number[i] == number[i - 1] + e.row_step;
    for (int i = 0; i < count && !follow && tried < 4; i++) {
        if (number[i] < 0) continue;
        tried++;
        for (size_t at = hash[i] >> 8 & (SLOTS - 1); slots[at].hash; at = (at + 1) & (SLOTS - 1)) {
            if (slots[at].hash != hash[i] || slots[at].owner != *whose) continue;
            const int from = slots[at].number - i * e.row_step;
            int alike = 0;
            for (int k = 0; k < count; k++) alike += number[k] >= 0 && is_row(hash[k], *whose, from + k * e.row_step);
            if (alike > most) most = alike, base = from;
        }
    }
    for (int i = 0; i < count && most > found / 2; i++)
        if (number[i] >= 0 && is_row(hash[i], *whose, base + i * e.row_step)) number[i] = base + i * e.row_step;
    return found;
}

static int *some_rows(int count)
{
    int *rows = kept_rows + rows_used;
    rows_used += (size_t)count;
    return rows;
}

static bool of_keys(owner of) { return of == OF_K || of == OF_V; }

static void read_product(product *p)
{
    const int D = e.s->head_dim;
    owner of_rows = NOBODY, of_cols = NOBODY;
    int *by_rows = some_rows(p->depth), *by_cols = some_rows(p->cols);
    p->a_row = some_rows(p->rows);
    if (p->depth == D) rows_of(p->a, p->rows, D, 1, &p->left, p->a_row);
    const int rows = p->cols == D ? rows_of(p->b, p->depth, D, 1, &of_rows, by_rows) : 0;
    const int cols = p->depth == D ? rows_of(p->b, p->cols, 1, p->cols, &of_cols, by_cols) : 0;
    p->scores = cols > rows || (cols == rows && p->left != NOBODY);
    p->right = p->scores ? of_cols : of_rows, p->b_row = p->scores ? by_cols : by_rows;
    if (!p->scores) return;
    // Scores are of queries and keys. A forward has its queries on the left; else the numbers count what is not asked
    // for.
    const bool left = of_keys(p->left) && e.problem->signature != WB_BACKWARD;
    const bool right = p->right != NOBODY && of_keys(p->right) == of_keys(p->left);
    for (int i = 0; i < p->rows && left; i++) p->a_row[i] = NOBODYS_ROW;
    for (int c = 0; c < p->cols && right; c++) p->b_row[c] = NOBODYS_ROW;
}

static int by_walker(const void *a, const void *b)
{
    const product *x = a, *y = b;
    return x->walker != y->walker ? (x->walker < y->walker ? -1 : 1) : x->a < y->a ? -1 : x->a > y->a;
}

static void ask_for_mask(void);

bool record_read(record *r, bool whole)
{
    const attention_shape *s = e.s;
    const bool paged = e.problem->signature == WB_DECODE;
    const float *at = e.products, *end = at + e.product_count;
    *r = (record){0};
    if (!at || (*at++ != 0 && whole)) return false;
    size_t numbers = 0;
    for (const float *p = at; p + WB_PRODUCT_HEAD < end && p[0] >= 0; r->count++) {
        const double size = ((double)p[1] + p[2]) * p[3] + 2.0 * p[1] * p[2];
        // The record lies where the function could have written, too.
        for (int n = 0; n < 4; n++)
            if (!(p[n] >= (n > 0) && p[n] <= 1 << 24) || p[n] != floorf(p[n])) return false;
        if (size > (double)(end - p - WB_PRODUCT_HEAD)) return false;
        numbers += (size_t)(p[1] + p[2] + p[3]);
        p += WB_PRODUCT_HEAD + (size_t)size;
    }
    if (r->count == 0) return false;
    for (int n = 0; n < 3; n++) free(kept[n]);
    if (pages.owner) wb_pages_free(&pages);
    pages = (wb_pages){0};
    if (paged)
        pages = wb_pages_make(e.c);
    else
        ask_for_mask();
    kept[0] = r->products = allocate((size_t)r->count, sizeof *r->products);
    kept[1] = r->walks = allocate((size_t)r->count, sizeof *r->walks);
    kept[2] = kept_rows = allocate(numbers, sizeof *kept_rows), rows_used = 0;
    memset(slots, 0, sizeof slots);
    e.row_step = paged ? s->kv_heads : 1;
    const int keys =
        paged ? pages.shape.pages * pages.shape.page_size * s->kv_heads : s->batch * s->kv_heads * s->kv_len;
    add_rows(e.Q, OF_Q, all_rows()), add_rows(e.dO, OF_dO, all_rows());
    add_rows(e.K, OF_K, keys), add_rows(e.V, OF_V, keys);
    for (int n = 0; n < r->count; n++) {
        product *p = &r->products[n];
        p->walker = (int)at[0], p->rows = (int)at[1], p->cols = (int)at[2], p->depth = (int)at[3];
        p->a = at + WB_PRODUCT_HEAD, p->b = p->a + p->rows * p->depth, p->before = p->b + p->depth * p->cols;
        p->after = p->before + p->rows * p->cols, at = p->after + p->rows * p->cols;
        read_product(p);
    }
    qsort(r->products, (size_t)r->count, sizeof *r->products, by_walker);
    // A walk begins with another walker, or with scores of other rows; scores of dO and of V have those of Q and of K
    // beside them.
    for (int n = 0; n < r->count; n++) {
        const product *p = &r->products[n];
        walk *w = r->walk_count ? &r->walks[r->walk_count - 1] : NULL;
        const bool begins = p->scores && (p->left == OF_Q || p->left == OF_K);
        if (!w || w->at->walker != p->walker ||
            (begins && w->first &&
             (w->first->rows != p->rows || w->first->left != p->left ||
              memcmp(w->first->a_row, p->a_row, (size_t)p->rows * sizeof *p->a_row) != 0))) {
            w = &r->walks[r->walk_count++];
            *w = (walk){p, 0, e.problem->on_host ? r->walk_count : p->walker / 32, NULL};
        }
        w->count++;
        if (begins && !w->first) w->first = p;
    }
    return true;
}

// ------------------------------------------------------------------------------------------------------- what rows are

int all_rows(void) { return e.s->batch * e.s->q_heads * e.s->q_len; }
int query_of(int row) { return row % e.s->q_len; }
int head_of(int row) { return row / e.s->q_len; }
int right_key_head(int head)
{
    return head / e.s->q_heads * e.s->kv_heads + head % e.s->q_heads / (e.s->q_heads / e.s->kv_heads);
}

int head_of_query(int row) { return right_key_head(head_of(row)); }

static int owner_of_page(int row) { return pages.owner[row / e.s->kv_heads / pages.shape.page_size]; }

int key_of(int row)
{
    if (row < 0) return row;
    if (!pages.owner) return row % e.s->kv_len;
    const int size = pages.shape.page_size, of = owner_of_page(row);
    return of < 0 ? NOBODYS_ROW : of % pages.shape.max_pages * size + row / e.s->kv_heads % size;
}

int key_head_of(int row)
{
    if (!pages.owner) return row / e.s->kv_len;
    const int of = owner_of_page(row);
    return of < 0 ? NOBODYS_ROW : of / pages.shape.max_pages * e.s->kv_heads + row % e.s->kv_heads;
}

int keys_of(int row) { return e.kv_len ? e.kv_len[head_of(row) / e.s->q_heads] : e.s->kv_len; }

void block_of(const record *r, int n, int *low, int *high)
{
    const product *mine = r->walks[n].first;
    const bool keys = mine && mine->left == OF_K;
    *low = keys ? e.s->kv_len : e.s->q_len, *high = -1;
    for (int m = 0; m < r->walk_count; m++) {
        const product *p = r->walks[m].first;
        if (!p || !mine || r->walks[m].block != r->walks[n].block || p->left != mine->left) continue;
        for (int i = 0; i < p->rows; i++) {
            const int row = p->a_row[i], first = mine->a_row[0], at = keys ? key_of(row) : query_of(row);
            if (row >= 0 && first >= 0 &&
                (keys ? key_head_of(row) == key_head_of(first) : head_of(row) == head_of(first)))
                *low = min_int(*low, at), *high = max_int(*high, at);
        }
    }
}

static unsigned char *visible;  // [masks, Nq, Nk] of this case, asked once

static void ask_for_mask(void)
{
    const bool listed = e.problem->signature == WB_BLOCK_MASK;
    const size_t Nq = (size_t)e.s->q_len, Nk = (size_t)e.s->kv_len, masks = listed ? (size_t)e.s->batch : 1;
    free(visible);
    visible = allocate(masks * Nq * Nk, 1);
    for (size_t at = 0; at < masks * Nq * Nk; at++) {
        const int i = (int)(at / Nk % Nq), j = (int)(at % Nk);
        visible[at] = listed ? wb_case_sees(e.c, (int)(at / Nk / Nq), i, j) : oracle_visible(e.problem, e.s, i, j);
    }
}

bool sees(int row, int j)
{
    if (row < 0 || j < 0 || j >= keys_of(row)) return false;
    if (e.kv_len) return j <= keys_of(row) - e.s->q_len + query_of(row);
    const int b = e.problem->signature == WB_BLOCK_MASK ? head_of(row) / e.s->q_heads : 0;
    return visible[((size_t)b * (size_t)e.s->q_len + (size_t)query_of(row)) * (size_t)e.s->kv_len + (size_t)j];
}

// -------------------------------------------------------------------------------------------------------------- a hang

// Of a function that does not come back: which tile a warp meets again and again.
void look_at_hang(void)
{
    record r;
    if (!record_read(&r, false)) return;
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
        find(1, "endless",
             queries ? "keys|bounds|bound|first tile|sink tiles|lists|first key|skip" : "queries|parts|group|next head",
             "a loop does not end: the warp of %s %d meets the tile of %s from %d on again and again, %d times so far",
             queries ? "query" : "key", queries ? query_of(last->a_row[0]) : key_of(last->a_row[0]),
             queries ? "keys" : "queries", queries ? key_of(last->b_row[0]) : query_of(last->b_row[0]), met);
    }
}
