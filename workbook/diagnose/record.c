// record.c - the record of products (layer_requests.h), with the rows that their factors are; and what rows are.
#include "evidence.h"

const char *const owner_names[] = {"no input", "Q", "K", "V", "dO"};

// A row by the sum of its elements' hashes: columns may be in another order (int8.cuh).
typedef struct slot {
    uint64_t hash;
    owner owner;
    int number;
} slot;
static slot *slots;
static size_t slot_count;  // a power of two, more than twice the rows

static wb_pages pages;
static int *kept_rows;
static size_t rows_used;

// 0 of zeros.
static uint64_t hash_of(const float *row, int count, int stride)
{
    uint64_t sum = 0;
    bool zero = true;
    for (int i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &row[(size_t)i * (size_t)stride], sizeof bits);
        uint64_t x = ((bits == 0x80000000u ? 0 : bits) + 1) * 0x9e3779b97f4a7c15ull;
        x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull, zero &= bits << 1 == 0;
        sum += x ^ x >> 29;
    }
    return zero ? 0 : sum | 1;
}

// Where this row is of this owner, or of anybody; or where it would stand.
static slot *slot_of(uint64_t hash, owner whose)
{
    size_t at = hash >> 8 & (slot_count - 1);
    while (slots[at].hash && (slots[at].hash != hash || (whose && slots[at].owner != whose)))
        at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

static int owner_of_page(int row) { return pages.owner[row / e.s->kv_heads / pages.shape.page_size]; }

// False if a row is another's as well, or zeros: nobody can tell whose a factor is. That of no key may be.
static bool add_rows(const float *X, owner whose, int rows)
{
    const int D = e.s->head_dim;
    for (int i = 0; i < rows && X; i++) {
        const float *row = X + (size_t)i * (size_t)D;
        const uint64_t hash = hash_of(row, D, 1);
        slot *at = slot_of(hash, NOBODY);
        const bool taken = at->hash || !hash, paged = pages.owner && (whose == OF_K || whose == OF_V);
        const int of = paged ? owner_of_page(i) : 0;
        if (taken && (!paged || (of >= 0 && key_of(i) < e.kv_len[of / pages.shape.max_pages]))) return false;
        if (hash) *at = (slot){hash, whose, taken ? NO_ROW : i};
    }
    return true;
}

// Whose rows, or columns, are in a matrix? Those of another owner than the first's are nobody's. How many are not?
static int rows_of(const float *X, int count, int apart, int stride, owner *whose, int *number)
{
    const int D = e.s->head_dim;
    int found = 0;
    *whose = NOBODY;
    for (int i = 0; i < count; i++) {
        const float *row = X + (size_t)i * (size_t)apart;
        const uint64_t hash = hash_of(row, D, stride);
        const slot *at = slot_of(hash, *whose);
        number[i] = at->hash ? at->number : hash ? NOBODYS_ROW : NO_ROW;
        if (number[i] >= 0) *whose = at->owner, found++;
    }
    return found;
}

bool of_keys(owner of) { return of == OF_K || of == OF_V; }

static void read_product(product *p)
{
    const int D = e.s->head_dim;
    owner of_rows = NOBODY, of_cols = NOBODY;
    int *by_rows = kept_rows + rows_used, *by_cols = by_rows + p->depth;
    p->a_row = by_cols + p->cols, rows_used += (size_t)(p->depth + p->cols + p->rows);
    if (p->depth == D) rows_of(p->a, p->rows, D, 1, &p->left, p->a_row);
    const int rows = p->cols == D ? rows_of(p->b, p->depth, D, 1, &of_rows, by_rows) : 0;
    const int cols = p->depth == D ? rows_of(p->b, p->cols, 1, p->cols, &of_cols, by_cols) : 0;
    p->scores = cols > rows || (cols == rows && p->left != NOBODY);
    p->right = p->scores ? of_cols : of_rows, p->b_row = p->scores ? by_cols : by_rows;
    if (!p->scores) return;
    // Scores are of queries and keys. A forward has its queries on the left; other rows are nobody's.
    const bool left = of_keys(p->left) && !is_backward();
    const bool right = p->right != NOBODY && of_keys(p->right) == of_keys(p->left);
    for (int i = 0; i < p->rows && left; i++) p->a_row[i] = NOBODYS_ROW;
    for (int c = 0; c < p->cols && right; c++) p->b_row[c] = NOBODYS_ROW;
}

static int by_walker(const void *a, const void *b)
{
    const product *x = a, *y = b;
    return x->walker != y->walker ? (x->walker < y->walker ? -1 : 1) : x->a < y->a ? -1 : x->a > y->a;
}

static bool of_no_row(const product *p)
{
    bool none = p->scores && (p->right == OF_K || (p->right == OF_Q && is_backward()));
    for (int i = 0; i < p->rows; i++) none &= p->a_row[i] == NO_ROW;
    return none;
}

// Walks of the first rows come first, as in what a failure shows.
static int by_row(const void *a, const void *b)
{
    const walk *x = a, *y = b;
    const int of_x = x->first ? x->first->a_row[0] : NO_ROW, of_y = y->first ? y->first->a_row[0] : NO_ROW;
    return of_x != of_y ? (of_x < of_y ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

static struct {
    int row;
    char says[60];
} names[1024];  // of queries: observations are many

bool record_read(record *r)
{
    memset(names, 0, sizeof names);
    const attention_shape *s = e.s;
    const bool paged = e.problem->signature == WB_DECODE;
    const float *at = e.products, *end = at + e.product_count;
    *r = (record){0};
    if (!at || *at++ != 0) return false;
    size_t numbers = 0;
    for (const float *p = at; p + WB_PRODUCT_HEAD < end && p[1] > 0; r->count++) {
        const double size = ((double)p[1] + p[2]) * p[3] + 2.0 * p[1] * p[2];
        // The record lies where the function could have written, too.
        for (int n = 0; n < 4; n++)
            if (!(p[n] >= (n > 0) && p[n] <= 1 << 24) || p[n] != floorf(p[n])) return false;
        if (size > (double)(end - p - WB_PRODUCT_HEAD)) return false;
        numbers += (size_t)(p[1] + p[2] + p[3]);
        p += WB_PRODUCT_HEAD + (size_t)size;
    }
    if (r->count == 0) return false;
    pages = paged ? wb_pages_make(e.c) : (wb_pages){0};
    r->products = allocate((size_t)r->count, sizeof *r->products);
    r->walks = allocate((size_t)r->count, sizeof *r->walks);
    kept_rows = allocate(numbers, sizeof *kept_rows), rows_used = 0;
    const int keys =
        paged ? pages.shape.pages * pages.shape.page_size * s->kv_heads : s->batch * s->kv_heads * s->kv_len;
    for (slot_count = 1; slot_count < 4 * ((size_t)all_rows() + (size_t)keys); slot_count *= 2) continue;
    slots = allocate(slot_count, sizeof *slots);
    if (!add_rows(e.Q, OF_Q, all_rows()) || !add_rows(e.dO, OF_dO, all_rows()) || !add_rows(e.K, OF_K, keys) ||
        !add_rows(e.V, OF_V, keys)) {
        e.alike = true;
        return false;
    }
    for (int n = 0; n < r->count; n++) {
        product *p = &r->products[n];
        p->walker = (int)at[0], p->rows = (int)at[1], p->cols = (int)at[2], p->depth = (int)at[3];
        p->a = at + WB_PRODUCT_HEAD, p->b = p->a + p->rows * p->depth, p->before = p->b + p->depth * p->cols;
        p->after = p->before + p->rows * p->cols, at = p->after + p->rows * p->cols;
        read_product(p);
    }
    qsort(r->products, (size_t)r->count, sizeof *r->products, by_walker);
    // A walk begins with another walker, or with scores of other rows.
    for (int n = 0; n < r->count; n++) {
        const product *p = &r->products[n];
        walk *w = r->walk_count ? &r->walks[r->walk_count - 1] : NULL;
        const bool begins = p->scores && (p->left == OF_Q || p->left == OF_K);
        if (!w || w->at->walker != p->walker ||
            (begins && w->first &&
             (w->first->rows != p->rows || w->first->left != p->left ||
              memcmp(w->first->a_row, p->a_row, (size_t)p->rows * sizeof *p->a_row) != 0)) ||
            (begins && of_no_row(w->at)) || (w->first && of_no_row(p))) {
            w = &r->walks[r->walk_count++];
            *w = (walk){p, 0, e.problem->on_host ? r->walk_count : p->walker / (e.problem->head_dims[0] == 64 ? 4 : 32),
                        NULL};
        }
        w->count++;
        r->dQ_elsewhere |= is_backward() && !p->scores && p->right == OF_K && w->first &&
                           (w->first->left == OF_K || p->depth != w->first->cols);
        if (begins && !w->first) w->first = p;
    }
    qsort(r->walks, (size_t)r->walk_count, sizeof *r->walks, by_row);
    return true;
}

int all_rows(void) { return e.s->batch * e.s->q_heads * e.s->q_len; }
int query_of(int row) { return row % e.s->q_len; }
int head_of(int row) { return row / e.s->q_len; }

const char *name_of(int row)
{
    const int heads = e.s->q_heads, h = head_of(row), at = row & (COUNT(names) - 1);
    char *const says = names[at].says;
    if (*says && names[at].row == row) return says;
    names[at].row = row;
    const int n = snprintf(says, 60, heads > 1 ? "query %d of head %d" : "query %d", query_of(row), h % heads);
    if (e.s->batch > 1) snprintf(says + n, 60 - (size_t)n, " of sequence %d", h / heads);
    return says;
}

int right_key_head(int head)
{
    return head / e.s->q_heads * e.s->kv_heads + head % e.s->q_heads / (e.s->q_heads / e.s->kv_heads);
}

int head_of_query(int row) { return right_key_head(head_of(row)); }
bool meets(int q, int k) { return q >= 0 && k >= 0 && head_of_query(q) == key_head_of(k); }

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

bool was_written(const float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    return bits >> 16 != WB_NAN_BYTE * 0x101;  // bf16 or float
}

bool sees(int row, int j)
{
    if (row < 0 || j < 0 || j >= keys_of(row)) return false;
    if (e.kv_len) return j <= keys_of(row) - e.s->q_len + query_of(row);
    return is_listed() ? wb_case_sees(e.c, head_of(row) / e.s->q_heads, query_of(row), j)
                       : oracle_visible(e.problem, e.s, query_of(row), j);
}
