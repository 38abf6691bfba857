// evidence.h - what the execution layer saw a function do, against what it should have done. A finding is of the first
// wrong step: one relation from a short list (`form`) that explains it, or what was seen.
#pragma once

#include "diagnose/cases.h"
#include "case/case.h"
#include "judge/expect.h"
#include "reference/oracle.h"

#include <stdio.h>

#define LIKE_PRINTF(n) __attribute__((format(printf, n, n + 1)))
#define LOG2E          1.4426950408889634
#define LN2            0.6931471805599453

// All pairs of a row and a column; all walks, each with its steps read (read_steps).
#define EACH_PAIR(i, rows, c, cols) \
    for (int i = 0; i < (rows); i++) \
        for (int c = 0; c < (cols); c++)
#define EACH_WALK(r, n) for (int n = 0; n < (r)->walk_count && (read_steps(&(r)->walks[n]), true); n++)

static inline int min_int(int a, int b) { return a < b ? a : b; }
static inline int max_int(int a, int b) { return a > b ? a : b; }
static inline double rounded(double x) { return fabs(x) < 0.02 ? 0 : x; }
static inline bool near_to(double a, double b, double part) { return isfinite(b) && fabs(a - b) <= part * fabs(b); }

// One case: inputs as floats, as in workbook.h, or null; what came out, in the order of the function's arguments; and
// the record of products (layer_requests.h). delta and dsinks are among `out`, too.
typedef struct evidence {
    const wb_problem *problem;
    const wb_case *c;
    char text[WB_CASE_TEXT];  // the case
    const attention_shape *s;
    const float *Q, *K, *V, *O, *L, *dO, *sink_logits, *K_scale, *V_scale;
    const int *table, *kv_len;
    const int8_t *Q_exponent, *K_exponent, *V_exponent;
    const float *out[5], *delta, *dsinks, *products;
    size_t product_count;              // numbers in the record
    const float *held[WB_MOST_RANKS];  // of ranks the record of each
    bool wrong;                        // whether the answer is; at the end, whether any was
    int widest;                        // keys in the widest tile of a forward
    bool alike;                        // rows of the case are: it cannot tell whose a factor is
} evidence;
extern evidence e;
static inline bool is_backward(void) { return e.problem->signature == WB_BACKWARD; }
static inline bool is_listed(void) { return e.problem->signature == WB_BLOCK_MASK; }
static inline const float *row_of_O(int row) { return e.out[0] + row * e.s->head_dim; }  // what came out

// Zeros, which stay until the program ends.
void *allocate(size_t count, size_t size);

// Writes behind what an array of characters has, as much as there is room for.
#define APPEND(text, ...) snprintf((text) + strlen(text), sizeof(text) - strlen(text), __VA_ARGS__)

// The lower the rank, the earlier the step.
enum { BY_DELTA = 5, BY_HEADS = 10, BY_SCALES = 15, BY_WALK = 20, BY_FACTOR = 25, BY_MASK = 30, BY_VALUE = 35 };
enum { BY_EXPONENT = 40, BY_MAXIMUM = 45, BY_DS = 45, BY_RESCALING = 50, BY_SUM = 55, BY_END = 56, BY_L = 58 };
enum { BY_WASTE = 60 };  // and what else does not show in each answer

// gaps: where it can come from, the likeliest first. id: of the form that pins it down, or "". relation: of a fit.
typedef struct finding {
    int rank;
    bool relation;
    const char *id, *gaps;
    char says[1400], shown[WB_CASE_TEXT];  // shown: the case
} finding;
extern finding best;  // the first step that is wrong, in all cases so far; rank 0: nothing was found

bool has_gap(const char *gaps);  // whether the problem has one of these
// Whether none of these gaps is as shipped, or, where the problem has none of them, none of all.
bool worth_naming(const char *gaps);
// Keeps a finding that comes before `best`, or is as early and pinned down where that is not, and returns whether it
// does. Of a case whose answer passes nothing is kept but waste.
LIKE_PRINTF(4) bool find(int rank, const char *id, const char *gaps, const char *format, ...);

// A relation: how it reads, and what it says of what is looked at. The first of a list is the right one.
typedef struct form {
    const char *says;
    double is;
} form;
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))
enum { MAX_FORMS = 800 };

// What was seen of one step: how often each form was off, and the sentence of the first wrong observation. It is said,
// with `joint` (", which equals ") and the form; of "0" `zero`, of no form `none`. others: gaps if no form fits; by: of
// forms that contain a text, or are what is behind its "=". mute: another says it. pinned: only said if a form fits.
typedef struct fit {
    int rank;
    const char *gaps, *others, *joint, *zero, *none, *by[6][2];
    bool known, mute, pinned;  // known: something was seen of it
    form forms[MAX_FORMS];
    int count, wrong, looks, misses[MAX_FORMS];  // looks: see_sum takes some of those that are right, or many
    char says[700], shown[WB_CASE_TEXT];
    bool fails, exact;  // the answer of that case; whether a form has to explain all, and not nearly all
} fit;
#define FIT(RANK, ...) \
    { \
        .rank = RANK, .gaps = __VA_ARGS__ \
    }
// One observation, and what each form says; without forms it is wrong.
LIKE_PRINTF(6) void see(fit *f, double seen, double tolerance, const form *forms, int count, const char *format, ...);
// A sum of terms, "+n m| l": those with a sign belong in it, times scale (s), log2(e) (l) or ln(2) (n). One or all may
// be gone, or have another factor, and another be there. The formula is the id.
LIKE_PRINTF(6)
void see_sum(fit *f, double seen, double tolerance, const char *names, const double *values, const char *format, ...);

// What may stand for exp(x - y), each with `rest` behind it, for see_sum; n = 0 is right.
enum { POWERS = 8 };
#define POWERS_OF(x, y, rest) \
    "2^(" x " - " y ")" rest "| 2^(" x " log2(e) - " y ")" rest "| 2^(" x " - " y " log2(e))" rest "| exp(" x " - " y \
    " log2(e))" rest "| exp(" x " log2(e) - " y ")" rest "| exp(" y " - " x ")" rest "| exp(" x ")" rest
double power(int n, double x, double y);
static inline double cut(double x) { return wb_from_bf16(wb_to_bf16((float)x)); }
bool in_bf16(const float *x, size_t count);  // whether all of these are, and some not 0
// What may stand for a sum that was rounded, for see_sum: seen, if it is near, and a bf16, or not.
#define ROUNDED(sum) \
    "| " sum ", rounded to bf16 where float32 belongs| " sum ", but for an error like bf16's: is a part of it " \
    "rounded?"
double nearly(double seen, double right, double size, bool rounded);
// What is behind an L that is wrongly infinite, of a sum that has exp(exponent), or "".
const char *overflow_of(double L, double exponent);
// A row's O and L from those of parts. false: there is one, and neither fits.
bool see_merge(double *const *O_of, const double *L_of, double kept, int parts, const float *O, double L, double slack,
               const char *where);
void mute_merge(void);

// The form that explains what was wrong but for one in fifty, or in ten, if all others are far worse; or null.
const form *fit_form(const fit *f);
// One more form of those of a fit, which is written down once.
LIKE_PRINTF(5) void add_form(const fit *f, form *forms, int *count, double is, const char *format, ...);

// The shares of terms in y, by least squares; returns what is left of y, as a part of it.
enum { MOST_TERMS = 128 };
double shares_in(const double *y, double *const *terms, int count, size_t length, double *share);
void conclude(void);  // finds what all fits say

// The record of products.
enum { NO_ROW = -1, NOBODYS_ROW = -2 };  // zeros; numbers that are no row of any input
typedef enum owner { NOBODY, OF_Q, OF_K, OF_V, OF_dO } owner;
extern const char *const owner_names[];
bool of_keys(owner of);

typedef struct product {
    int walker, rows, cols, depth;
    const float *a, *b, *before, *after;
    bool scores;  // A B^T: B's columns are rows of a tensor, not its rows
    owner left, right;
    int *a_row, *b_row;  // which rows, counted over the whole tensor
} product;

// What one warp, or one tile of 01, does: its products in order, all scores with the same left rows.
typedef struct walk {
    const product *at;
    int count, block;
    const product *first;  // the first scores
} walk;

typedef struct record {
    product *products;
    walk *walks;
    int count, walk_count;
    bool dQ_elsewhere;  // dQ is also summed up beside its own walks
} record;

// False if there is none, or not all of it, or rows are alike. Stays until the next call.
bool record_read(record *r);
// The first and last query, or key, that walk n's block has on the left, of the walk's head.
void block_of(const record *r, int n, int *low, int *high);
// Of rows of tensors: which query, or key, of its head; which head through all batches. Of a page that no sequence has,
// NOBODYS_ROW.
int query_of(int row), head_of(int row), key_of(int row), key_head_of(int row);
const char *name_of(int row);  // "query 3 of head 1", without a head that is the only one; stays for a while
// Through all batches: the key head that query head `head` reads, or the query in this row of Q.
int right_key_head(int head), head_of_query(int row);
bool sees(int row, int j);             // whether the query in this row of Q sees key j of its sequence
bool meets(int q, int k);              // whether the key in row k of K is of the head that query reads
bool was_written(const float *x);      // this number of an output, by the function
int keys_of(int row), all_rows(void);  // how many keys that sequence has; rows of Q

// A tile of a walk: its scores and their products, P V, or dP and the sums from P and from dS.
typedef struct step {
    const product *S, *P, *dP, *dS;
    int first;  // its first key, or query where keys are on the left
} step;
enum { STEPS = 4096 };
extern step steps[STEPS];  // of the walk that was read last
extern int step_count;
extern bool by_keys;  // keys are on the left: the kernel of dK and dV
#define EACH_STEP(t) for (const step *t = steps; t < steps + step_count; t++)
void read_steps(const walk *w);
static inline int rows_of_walk(void) { return step_count ? steps[0].S->rows : 0; }  // whose steps were read last
static inline double score_at(const step *t, int i, int c) { return t->S->after[i * t->S->cols + c]; }
static inline double weight_at(const step *t, int i, int c) { return t->P->a[i * t->P->depth + c]; }
double base2_scale(void);                                        // scores in base 2: S times this
void name_pair(const product *S, int i, int c, int *q, int *k);  // the rows of Q and K that an element of S has
void look_at_walks(const record *r, bool keys);                  // which tiles each block meets
const char *kernel(bool keys);                                   // "in the kernel of dQ, ", "" in a forward

// A tile of pairs that one warp had: its queries and keys (-1: none), and what became of each pair.
typedef enum fate { WEIGHT, HIDDEN, UNCLEAR } fate;
typedef struct pairs {
    int queries, keys, row0, key0;  // row0: of Q, where its queries begin
    int of_block;                   // the first of its block
    int *query, *key;
    unsigned char *fate;  // [queries, keys]
} pairs;
// Of a step, and the first row of its block; their fates are left open.
pairs pairs_of(const step *t, int first_row);

// What each kind of mask hid against what it should have hidden, over all its tiles in all cases.
typedef enum mask_kind { DIAGONAL, WINDOW, SINKS, TAIL, DKDV, DQ, PACKED, BITS, MASKS } mask_kind;
void add_to_mask(mask_kind kind, const pairs *tile);
void look_at_hidden_nan(mask_kind kind, const step *t);  // weights of a forward

// Each looks at a case; 17 and 18 have ranks, 02 has rows.
void look_at_forward(void), look_at_backward(void), look_at_delta(void), look_at_ranks(void), look_at_rows(void);
// What fits say may hang on what others have seen: settled at the end.
void settle_masks(void), settle_softmax(void), settle_backward(void);
// Parts of these; false: something is wrong.
bool look_at_heads(const record *r, bool of_V), look_at_pages(const record *r), look_at_scales(const record *r);
void look_at_softmax(const record *r), look_at_merge(const record *r), look_at_e4m3(const record *r);
void look_at_fragments(const record *r);  // of products that are one mma each
void see_empty_row(int row);              // that sees no key
double scale_of_key(int row);             // what the scores of this row of K are to be multiplied by
// By what a row of O was multiplied between two products; NaN: it is no multiple; -infinity: not finite.
double rescaled_by(const step *from, const step *to, int i);
