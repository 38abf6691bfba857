// rings.c - problems 17 and 18: of products that another makes nothing is seen. So the answer is made again, in doubles
// and in the order of the lesson, with one mistake at a time. If these are the numbers of one of them, on every rank
// and in all cases, and of no other, it is named. What goes wrong between ranks, and not in numbers, the layer tells
// itself.
#include "evidence.h"

#include "case/shards.h"

enum { MOST_KEYS = 256 };  // of a case

typedef struct mistake {
    const char *id, *gap, *says;
} mistake;

// -------------------------------------------------------------------------------------------------- the case, on ranks

static wb_tensor tensors[WB_MAX_TENSORS];
static int tensor_count;

// A rank's rows of D numbers, or of one. Those beyond its end are NaN, and nothing is added there.
typedef struct rows {
    double *at;
    size_t count;  // of numbers
} rows;
static size_t depth(void) { return (size_t)e.s->head_dim; }
static const double *row_of(const rows *x, size_t row)
{
    static double nowhere[WB_MAX_HEAD_DIM];
    for (size_t d = 0; d < WB_MAX_HEAD_DIM; d++) nowhere[d] = NAN;
    return (row + 1) * depth() <= x->count ? x->at + row * depth() : nowhere;
}
static double number(const rows *x, size_t i) { return i < x->count ? x->at[i] : NAN; }
static void add_row(rows *to, size_t row, double factor, const double *x)
{
    for (size_t d = 0; d < depth() && (row + 1) * depth() <= to->count; d++) to->at[row * depth() + d] += factor * x[d];
}
static rows zeros(size_t count) { return (rows){allocate(count, sizeof(double)), count}; }

// What a rank has of a tensor, flat as it lies there.
static const wb_tensor *tensor_named(const char *name)
{
    return &tensors[wb_tensor_named(tensors, tensor_count, name)];
}
static rows shard(const char *name, const float *whole, int rank)
{
    wb_case part = *e.c;
    part.part = rank + 1;
    rows mine = zeros(wb_shard_of(&part, tensor_named(name)).count);
    for (size_t i = 0; i < mine.count; i++) mine.at[i] = whole[wb_shard_place(e.c, tensor_named(name), rank, i)];
    return mine;
}

static int ranks(void) { return e.c->ranks; }
static size_t q_heads(void) { return (size_t)e.s->batch * (size_t)e.s->q_heads; }
static size_t kv_heads(void) { return (size_t)e.s->batch * (size_t)e.s->kv_heads; }
// Rows of K, of any rank: no chunk has more rows than the first.
static size_t most_keys(void) { return 2 * kv_heads() * (size_t)wb_chunk_rows(e.c, 0); }
static int modulo(int x) { return (x + 2 * ranks()) % ranks(); }

// ------------------------------------------------------------------------------------------------------------ mistakes

// clang-format off
#define SAYS_SENDS_OWN \
    "each rank sends its own keys in every step, not those at hand: of the others only the rank before is " \
    "ever seen"
#define SAYS_SENDS_KEYS_TWICE "what arrives as V is K"
#define SAYS_ADDS_NOTHING \
    "dK and dV have what the rank itself found in one of the two steps with its own keys: what others find " \
    "does not stay in the sum"

#define MISTAKES_OF_17(M) \
    M(HALVES, "merge_by_halves", "merge", "both parts count the same, whatever their L is") \
    M(WEIGHTS_SWAPPED, "merge_weights_swapped", "merge", "each of both parts has the other's weight") \
    M(NOT_DIVIDED, "merge_not_divided", "merge", \
        "the weighted sum of both parts is not divided by l, the sum of the weights") \
    M(OLD_NOT_WEIGHTED, "merge_old_not_weighted", "merge", "what was found until then is added without its weight") \
    M(NEW_NOT_WEIGHTED, "merge_new_not_weighted", "merge", "what is found now is added without its weight") \
    M(LAST_PART, "merge_keeps_the_last", "merge", "O is that of the last part alone, and L is of all") \
    M(FIRST_PART, "merge_keeps_the_first", "merge", "O is that of the first part alone, and L is of all") \
    M(L_OF_LAST, "merge_L_of_the_last", "merge", \
        "L becomes that of the part that came last: the next merge takes all before for that") \
    M(L_WITHOUT_LOG, "merge_L_without_log", "merge", \
        "L becomes m, the larger of both, without log(l): the next merge takes all before for less than it is") \
    M(L_WITHOUT_MAX, "merge_L_without_max", "merge", "L becomes log(l), without m") \
    M(L_IN_BASE_2, "merge_L_in_base_2", "merge", "L becomes m + log2(l), and is a natural logarithm") \
    M(WEIGHTS_IN_BASE_2, "merge_weights_in_base_2", "merge", \
        "the weights are 2^(L - m), and L is a natural logarithm") \
    M(ALL_IN_BASE_2, "merge_in_base_2", "merge", \
        "the weights are 2^(L - m) and L becomes m + log2(l), and all L are natural logarithms") \
    M(DIAGONAL_WHOLE, "diagonal_is_whole", "pairs", "under the causal mask a chunk sees all of itself") \
    M(DIAGONAL_EMPTY, "diagonal_is_empty", "pairs", "under the causal mask a chunk sees nothing of itself") \
    M(EARLIER_EMPTY, "earlier_are_empty", "pairs", \
        "under the causal mask a chunk sees itself, and nothing of those before it") \
    M(EARLIER_CAUSAL, "earlier_are_causal", "pairs", \
        "under the causal mask a chunk sees of those before it what it sees of itself: half") \
    M(LATER_WHOLE, "later_are_whole", "pairs", "under the causal mask a chunk sees those after it") \
    M(REVERSED, "pairs_reversed", "pairs", \
        "under the causal mask a chunk sees those after it, and not those before it") \
    M(ALWAYS_CAUSAL, "mask_always", "pairs", "without a mask chunks see what they would see under the causal one") \
    M(NEVER_CAUSAL, "mask_never", "pairs", "under the causal mask all chunks see all") \
    M(CONTIGUOUS, "chunks_contiguous", "zigzag", \
        "rank r takes its chunks for 2 r and 2 r + 1; it has r and 2 R - 1 - r") \
    M(DEALT, "chunks_dealt", "zigzag", "rank r takes its chunks for r and R + r; it has r and 2 R - 1 - r") \
    M(CHUNKS_SWAPPED, "chunks_swapped", "zigzag", \
        "rank r takes its first chunk for 2 R - 1 - r, and its second for r") \
    M(LONGER_LAST, "longer_chunks_last", "chunk table", \
        "the last chunks have the rows that are left over; it is the first ones") \
    M(ROUNDED_DOWN, "rows_left_over", "chunk table", \
        "all chunks have N / (2 R) rows: those that are left over are in none") \
    M(NEXT_RANK, "keys_of_the_next_rank", "owner", \
        "the keys at hand are taken for those of rank me + step; they come from the rank before") \
    M(OWNER_STAYS, "keys_taken_for_own", "owner", "the keys at hand are taken for the rank's own in every step") \
    M(SENDS_OWN, "sends_its_own_keys", "travel", SAYS_SENDS_OWN) \
    M(SENDS_KEYS_TWICE, "sends_keys_as_values", "travel", SAYS_SENDS_KEYS_TWICE) \
    M(NO_VALUES, "values_do_not_come", "travel", \
        "no V comes: in all steps but the first V is what lay in the workspace, here 0")

#define MISTAKES_OF_18(M) \
    M(DELTA_ZERO, "delta_is_0", "delta", "delta is 0, not the sum of dO times O") \
    M(DELTA_ONE_COLUMN, "delta_of_one_column", "delta", "delta has of each thread's columns the first alone") \
    M(DELTA_OF_DO, "delta_without_O", "delta", "delta is the sum of dO, without O") \
    M(DELTA_OF_O, "delta_without_dO", "delta", "delta is the sum of O, without dO") \
    M(DELTA_OF_SQUARES, "delta_of_squares", "delta", "delta is the sum of dO times dO") \
    M(DELTA_MINUS, "delta_of_the_wrong_sign", "delta", "delta has the wrong sign") \
    M(ADDS_NOTHING, "one_step_alone", "add|gradients", SAYS_ADDS_NOTHING) \
    M(ADDS_TWICE, "adds_twice", "add", "what a step finds is added to what has come twice") \
    M(ADDS_SCALED, "scaled_twice", "add", \
        "what a step finds is divided by sqrt(D) before it is added: the products have scaled it") \
    M(REPLACES, "one_step_alone", "add|gradients", SAYS_ADDS_NOTHING) \
    M(SUBTRACTS, "found_is_subtracted", "add", "what a step finds is subtracted from what has come") \
    M(STAYS, "stays_on_the_way", "gradients", \
        "the last message is missing: dK and dV have come to the rank before their owner, and not home") \
    M(OWN_NONE, "own_pairs_left_out", "when", \
        "pairs of a rank's own chunks are worked on neither in the first step nor in the last") \
    M(OWN_DIAGONAL, "own_others_left_out", "when", \
        "of the pairs of a rank's own chunks those of a chunk with itself alone are worked on") \
    M(OWN_OTHERS, "own_diagonal_left_out", "when", \
        "of the pairs of a rank's own chunks those of a chunk with itself are left out") \
    M(OWN_TWICE, "own_pairs_twice", "when", \
        "all pairs of a rank's own chunks are worked on in the first step, and once more in the last") \
    M(SWAPPED, "dk_and_dv_swapped", "share", "dK and dV have changed places") \
    M(DV_ONTO_DK, "dv_onto_dk", "share", "dV is added to dK: it lies behind dK of all keys at hand") \
    M(DV_BEHIND_MINE, "dv_behind_my_own", "share", \
        "dV is added where it would lie if the keys at hand had as many rows as one's own") \
    M(DQ_OF_FIRST, "dq_of_one_chunk", "share", "what both chunks of queries find is added to dQ of the first") \
    M(DK_OF_FIRST, "dk_of_one_chunk", "share", "what both chunks of keys get is added to dK of the first") \
    M(DV_OF_FIRST, "dv_of_one_chunk", "share", "what both chunks of keys get is added to dV of the first") \
    M(DKV_OF_FIRST, "dk_and_dv_of_one_chunk", "share", \
        "what both chunks of keys get is added to dK and dV of the first") \
    M(Q_OF_FIRST, "q_of_the_first_chunk", "share", "the second chunk of queries takes Q of the first") \
    M(DO_OF_FIRST, "do_of_the_first_chunk", "share", "the second chunk of queries takes dO of the first") \
    M(K_OF_FIRST, "k_of_the_first_chunk", "share", "the second chunk of keys takes K of the first") \
    M(V_OF_FIRST, "v_of_the_first_chunk", "share", "the second chunk of keys takes V of the first") \
    M(L_OF_FIRST, "l_of_the_first_chunk", "share", "the second chunk of queries takes L of the first") \
    M(DELTA_OF_FIRST, "delta_of_the_first_chunk", "share", "the second chunk of queries takes delta of the first") \
    M(OWN_K, "own_k_in_each_step", "share", "each step takes the rank's own K, not the K at hand") \
    M(OWN_KV, "own_keys_in_each_step", "share", "each step takes the rank's own K and V, not those at hand") \
    M(PASSES_OWN, "sends_its_own_keys", "keys", SAYS_SENDS_OWN) \
    M(PASSES_KEYS_TWICE, "sends_keys_as_values", "keys", SAYS_SENDS_KEYS_TWICE) \
    M(PASSES_NO_VALUES, "values_do_not_come", "keys", \
        "no V comes: in all steps but the first and the last V is what lay in the workspace, here 0") \
    M(DO_IS_Q, "q_as_do", "share", "Q stands where dO belongs") \
    M(V_IS_K, "k_as_v", "share", "K stands where V belongs") \
    M(L_IS_DELTA, "l_and_delta_swapped", "share", "L and delta have changed places")

#define NAME(name, ...) name,
enum { RIGHT, MISTAKES_OF_17(NAME) MISTAKES_OF_18(NAME) MISTAKES, BACKWARD = DELTA_ZERO };
#define ROW(name, ...) [name] = {__VA_ARGS__},
static const mistake mistakes[MISTAKES] = {MISTAKES_OF_17(ROW) MISTAKES_OF_18(ROW)};
// clang-format on

static int of_mistake;  // which one is made
static bool make(int which) { return of_mistake == which; }

// ------------------------------------------------------------------------------------------------------------- forward

static int rows_by(int chunk)
{
    const int all = 2 * ranks(), more = e.s->q_len % all;
    return e.s->q_len / all + (make(ROUNDED_DOWN) ? 0 : make(LONGER_LAST) ? all - 1 - chunk < more : chunk < more);
}

static int chunk_by(int rank, int which)
{
    if (make(CONTIGUOUS)) return 2 * rank + which;
    if (make(DEALT)) return rank + which * ranks();
    return wb_chunk_of(e.c, rank, make(CHUNKS_SWAPPED) ? 1 - which : which);
}

typedef enum seen { EMPTY, WHOLE, CAUSAL } seen;
static seen pair_by(int mine, int theirs)
{
    const bool causal = e.s->causal ? !make(NEVER_CAUSAL) : make(ALWAYS_CAUSAL);
    if (!causal) return WHOLE;
    if (theirs == mine) return make(DIAGONAL_WHOLE) ? WHOLE : make(DIAGONAL_EMPTY) ? EMPTY : CAUSAL;
    if (theirs > mine) return make(LATER_WHOLE) || make(REVERSED) ? WHOLE : EMPTY;
    return make(EARLIER_EMPTY) || make(REVERSED) ? EMPTY : make(EARLIER_CAUSAL) ? CAUSAL : WHOLE;
}

// A row of a rank: what is found, and what it is made of in absolute values.
typedef struct one_row {
    double O[WB_MAX_HEAD_DIM], size[WB_MAX_HEAD_DIM], L;
} one_row;

// Of a query the part that some keys give: those at row kv_at and on in a rank's K and V.
static void part(one_row *f, const double *q, const rows *K, const rows *V, size_t kv_at, int keys)
{
    double S[MOST_KEYS], m = -INFINITY, l = 0;
    memset(f, 0, sizeof *f);
    for (int j = 0; j < keys; j++) {
        const double *k = row_of(K, kv_at + (size_t)j);
        S[j] = 0;
        for (size_t d = 0; d < depth(); d++) S[j] += q[d] * k[d];
        S[j] *= (double)e.s->scale;
        m = fmax(m, S[j]);
    }
    for (int j = 0; j < keys; j++) {
        const double *v = row_of(V, kv_at + (size_t)j), p = exp(S[j] - m);
        l += p;
        for (size_t d = 0; d < depth(); d++) f->O[d] += p * v[d], f->size[d] += p * fabs(v[d]);
    }
    for (size_t d = 0; d < depth(); d++) f->O[d] /= l, f->size[d] /= l;
    f->L = m + log(l);
}

static void merge(one_row *sum, const one_row *now, bool first)
{
    const double old_L = first ? -INFINITY : sum->L, m = fmax(old_L, now->L);
    const double base = make(WEIGHTS_IN_BASE_2) || make(ALL_IN_BASE_2) ? 2 : exp(1);
    const double w_old = pow(base, old_L - m), w_new = pow(base, now->L - m), l = w_old + w_new;
    for (size_t d = 0; d < depth(); d++) {
        const double a = first ? 0 : sum->O[d], b = now->O[d], size = first ? 0 : sum->size[d];
        sum->O[d] = make(HALVES)             ? (a + b) / (first ? 1 : 2)
                    : make(WEIGHTS_SWAPPED)  ? (w_new * a + w_old * b) / l
                    : make(NOT_DIVIDED)      ? w_old * a + w_new * b
                    : make(OLD_NOT_WEIGHTED) ? (a + w_new * b) / l
                    : make(NEW_NOT_WEIGHTED) ? (w_old * a + b) / l
                    : make(LAST_PART)        ? b
                    : make(FIRST_PART)       ? (first ? b : a)
                                             : (w_old * a + w_new * b) / l;
        sum->size[d] = (w_old * size + w_new * now->size[d]) / l;
    }
    sum->L = make(L_OF_LAST)                            ? now->L
             : make(L_WITHOUT_LOG)                      ? m
             : make(L_WITHOUT_MAX)                      ? log(l)
             : make(L_IN_BASE_2) || make(ALL_IN_BASE_2) ? m + log2(l)
                                                        : m + log(l);
}

// What a rank finds. What is not written is 0, as the cases have it.
static void find_forward(int me, const rows *K, const rows *V, rows *O, rows *size, rows *L)
{
    const size_t group = (size_t)(e.s->q_heads / e.s->kv_heads);
    rows Q = shard("Q", e.Q, me), none = zeros(most_keys() * depth());
    for (int mine = 0; mine < 2; mine++) {
        const int chunk = chunk_by(me, mine), q_rows = rows_by(chunk);
        const size_t q_at = mine ? q_heads() * (size_t)rows_by(chunk_by(me, 0)) : 0;
        int parts = 0;
        for (int k = 0; k < 2 * ranks(); k++) parts += rows_by(k) > 0 && pair_by(chunk, k) != EMPTY;
        for (size_t n = 0; n < q_heads() * (size_t)q_rows; n++) {
            const size_t head = n / (size_t)q_rows, row = q_at + n;
            one_row sum, now;
            int left = parts;
            for (int turn = 0; turn < ranks(); turn++)
                for (int theirs = 0; theirs < 2; theirs++) {
                    const int from = turn && make(SENDS_OWN) ? modulo(me - 1) : modulo(me - turn);
                    const int whose = make(NEXT_RANK) ? modulo(me + turn) : make(OWNER_STAYS) ? me : modulo(me - turn);
                    const int other = chunk_by(whose, theirs), keys = rows_by(other);
                    const seen what = pair_by(chunk, other);
                    if (what == EMPTY || keys == 0) continue;
                    const size_t kv_at = theirs ? kv_heads() * (size_t)rows_by(chunk_by(whose, 0)) : 0;
                    const rows *const values = !turn                    ? &V[from]
                                               : make(SENDS_KEYS_TWICE) ? &K[from]
                                               : make(NO_VALUES)        ? &none
                                                                        : &V[from];
                    part(&now, row_of(&Q, row), &K[from], values, kv_at + head / group * (size_t)keys,
                         what == CAUSAL ? min_int(keys, (int)(n % (size_t)q_rows) + 1) : keys);
                    merge(&sum, &now, left == parts);
                    if (--left != 0 || row >= L->count) continue;
                    add_row(O, row, 1, sum.O), add_row(size, row, 1, sum.size);
                    L->at[row] = sum.L;
                }
        }
    }
    free(Q.at), free(none.at);
}

// ------------------------------------------------------------------------------------------------------------ backward

typedef struct side {
    rows Q, K, V, O, L, dO, delta, dQ;
    rows sum[2], found;  // dK, and behind it dV
    rows none;           // of V, where none comes
} side;

// Which of a rank's own pairs of chunks it works on in the first step: the lesson leaves that open. The others in the
// last.
enum { DIAGONAL_FIRST, OTHERS_FIRST, ALL_FIRST, ONE_CHUNK_FIRST, THEIRS_FIRST, NONE_FIRST, SCHEDULES };
static bool in_step(int schedule, int turn, int mine, int theirs)
{
    const bool same = mine == theirs, last = turn != 0;
    if (make(OWN_NONE)) return false;
    if (make(OWN_TWICE)) return true;
    if (make(OWN_DIAGONAL)) return same && !last;
    if (make(OWN_OTHERS)) return !same && !last;
    const bool first[SCHEDULES] = {same, !same, true, mine == 0, theirs == 0, false};
    return first[schedule] != last;
}

static size_t of_rank(int rank) { return kv_heads() * (size_t)wb_rank_rows(e.c, rank); }  // rows of K

static void find_delta(side *x)
{
    for (size_t n = 0; n < x->delta.count; n++)
        for (size_t d = 0; d < depth(); d++) {
            const double o = row_of(&x->O, n)[d], g = row_of(&x->dO, n)[d];
            const bool counts = !make(DELTA_ZERO) && !(make(DELTA_ONE_COLUMN) && d % 8);
            const double term = make(DELTA_OF_DO) ? g : make(DELTA_OF_O) ? o : make(DELTA_OF_SQUARES) ? g * g : o * g;
            x->delta.at[n] += !counts ? 0 : make(DELTA_MINUS) ? -term : term;
        }
}

// A pair of chunks, on rank `me`, whose keys are `from`'s.
static void add_pair(side *all, int me, int from, rows *found, int mine, int theirs, bool causal)
{
    side *const x = &all[me];
    const side *const came = me == from || !make(PASSES_OWN) ? &all[from] : &all[modulo(me - 1)];
    const rows *const K = make(OWN_K) || make(OWN_KV) ? &x->K : &came->K;
    const bool other = me != from;
    const rows *const V = make(OWN_KV)                       ? &x->V
                          : make(V_IS_K)                     ? K
                          : other && make(PASSES_KEYS_TWICE) ? &came->K
                          : other && make(PASSES_NO_VALUES)  ? &x->none
                                                             : &came->V;
    const size_t q_rows = (size_t)wb_chunk_rows(e.c, wb_chunk_of(e.c, me, mine));
    const size_t keys = (size_t)wb_chunk_rows(e.c, wb_chunk_of(e.c, from, theirs));
    const size_t group = (size_t)(e.s->q_heads / e.s->kv_heads);
    const size_t q_at = mine ? q_heads() * (size_t)wb_chunk_rows(e.c, me) : 0;
    const size_t kv_at = theirs ? kv_heads() * (size_t)wb_chunk_rows(e.c, from) : 0;
    const size_t dV_at = make(DV_ONTO_DK) ? 0 : make(DV_BEHIND_MINE) ? of_rank(me) : of_rank(from);
    const double scale = (double)e.s->scale;
    for (size_t n = 0; n < q_heads() * q_rows; n++)
        for (size_t j = 0; j < (causal ? n % q_rows + 1 : keys); j++) {
            const size_t key = n / q_rows / group * keys + j;
            const double *q = row_of(&x->Q, (make(Q_OF_FIRST) ? 0 : q_at) + n);
            const double *g = row_of(make(DO_IS_Q) ? &x->Q : &x->dO, (make(DO_OF_FIRST) ? 0 : q_at) + n);
            const double *k = row_of(K, (make(K_OF_FIRST) ? 0 : kv_at) + key);
            const double *v = row_of(V, (make(V_OF_FIRST) ? 0 : kv_at) + key);
            double S = 0, dP = 0;
            for (size_t d = 0; d < depth(); d++) S += q[d] * k[d], dP += g[d] * v[d];
            const double L = number(&x->L, (make(L_OF_FIRST) ? 0 : q_at) + n);
            const double delta = number(&x->delta, (make(DELTA_OF_FIRST) ? 0 : q_at) + n);
            const double P = exp(scale * S - (make(L_IS_DELTA) ? delta : L));
            const double dS = scale * P * (dP - (make(L_IS_DELTA) ? L : delta));
            const size_t to = (make(DK_OF_FIRST) || make(DKV_OF_FIRST) ? 0 : kv_at) + key;
            const size_t to_dV = dV_at + (make(DV_OF_FIRST) || make(DKV_OF_FIRST) ? 0 : kv_at) + key;
            add_row(&x->dQ, (make(DQ_OF_FIRST) ? 0 : q_at) + n, dS, k);
            add_row(found, make(SWAPPED) ? to_dV : to, dS, q);
            add_row(found, make(SWAPPED) ? to : to_dV, P, g);
        }
}

static double added(double sum, double found)
{
    if (make(ADDS_NOTHING)) return sum;
    if (make(ADDS_SCALED)) return sum + found / sqrt((double)depth());
    return make(REPLACES) ? found : sum + found * (make(ADDS_TWICE) ? 2 : make(SUBTRACTS) ? -1 : 1);
}

static void find_backward(side *all, int schedule)
{
    const int R = ranks();
    for (int turn = 0; turn <= R; turn++) {
        const int here = R == 1 ? 0 : turn % 2, there = 1 - here;
        // messages: what left each rank's hands in the step before comes to the next one
        for (int me = 0; me < R && R > 1 && turn > 0 && !(make(STAYS) && turn == R); me++)
            memcpy(all[me].sum[here].at, all[modulo(me - 1)].sum[there].at,
                   2 * of_rank(modulo(me - turn)) * depth() * sizeof(double));
        for (int me = 0; me < R; me++) {
            const int from = modulo(me - turn);
            rows *found = turn == 0 || R == 1 ? &all[me].sum[0] : &all[me].found;
            if (turn == 0 || R > 1) memset(found->at, 0, found->count * sizeof(double));
            for (int mine = 0; mine < 2; mine++)
                for (int theirs = 0; theirs < 2; theirs++) {
                    const seen what = pair_by(wb_chunk_of(e.c, me, mine), wb_chunk_of(e.c, from, theirs));
                    if (what == EMPTY || (turn % R == 0 && !in_step(schedule, turn, mine, theirs))) continue;
                    add_pair(all, me, from, found, mine, theirs, what == CAUSAL);
                }
            for (size_t i = 0; i < 2 * of_rank(from) * depth() && turn > 0 && R > 1; i++)
                all[me].sum[here].at[i] = added(all[me].sum[here].at[i], found->at[i]);
        }
    }
}

// ------------------------------------------------------------------------------------------------------- what was seen

static fit fits[SCHEDULES];  // 17 has one

static int first_mistake(void) { return wb_is_backward(e.problem) ? BACKWARD : RIGHT + 1; }
static int last_mistake(void) { return wb_is_backward(e.problem) ? MISTAKES : BACKWARD; }

// A rank's output against what each mistake would make of it; made[0] is right. tolerance: of each number.
static void compare(fit *f, const char *name, int output, int me, const rows *made, const double *tolerance)
{
    form forms[MAX_FORMS] = {{"", "", 0}};
    const int count = last_mistake() - first_mistake() + 1;
    for (int n = 1; n < count; n++) forms[n].id = mistakes[first_mistake() + n - 1].id;
    const wb_tensor *t = tensor_named(name);
    const bool vector = t->count == q_heads() * (size_t)e.s->q_len;
    for (size_t i = 0; i < made[0].count; i++) {
        const size_t at = wb_shard_place(e.c, t, me, i), row = vector ? at : at / depth();
        const double got = e.out[output][at];
        for (int n = 0; n < count; n++) forms[n].is = number(&made[n], i);
        if (!fit_add(f, got, tolerance[i] + 0x1p-8 * fabs(got), forms, count)) continue;
        const int query = (int)(row % (size_t)e.s->q_len), head = (int)(row / (size_t)e.s->q_len);
        char column[32] = "";
        if (!vector) snprintf(column, sizeof column, ", d = %d,", (int)(at % depth()));
        fit_says(f, "%s of row %d of head %d (chunk %d, on rank %d)%s is %.4g where %.4g belongs", name, query, head,
                 wb_chunk_with(e.c, query), me, column, got, forms[0].is);
    }
}

static void look_at_forward_ranks(void)
{
    rows K[WB_MOST_RANKS], V[WB_MOST_RANKS];
    for (int r = 0; r < ranks(); r++) K[r] = shard("K", e.K, r), V[r] = shard("V", e.V, r);
    for (int me = 0; me < ranks(); me++) {
        const size_t mine = q_heads() * (size_t)wb_rank_rows(e.c, me);
        rows O[MAX_FORMS], L[MAX_FORMS], size[MAX_FORMS];
        for (int n = 0; n < BACKWARD; n++) {
            O[n] = zeros(mine * depth()), size[n] = zeros(mine * depth()), L[n] = zeros(mine);
            of_mistake = n;
            find_forward(me, K, V, &O[n], &size[n], &L[n]);
        }
        // Each part and O are rounded to bfloat16 (judge/tolerance.h), whoever is right; L is in float32.
        double *of_O = allocate(mine * depth(), sizeof *of_O), *of_L = allocate(mine, sizeof *of_L);
        for (int n = 0; n < BACKWARD; n++)
            for (size_t i = 0; i < O[n].count; i++) of_O[i] = fmax(of_O[i], 0x1p-7 * size[n].at[i]);
        for (size_t i = 0; i < mine; i++) of_L[i] = 1e-4;
        compare(&fits[0], "O", 0, me, O, of_O);
        compare(&fits[0], "L", 1, me, L, of_L);
        free(of_O), free(of_L);
        for (int n = 0; n < BACKWARD; n++) free(O[n].at), free(size[n].at), free(L[n].at);
    }
    for (int r = 0; r < ranks(); r++) free(K[r].at), free(V[r].at);
}

static void look_at_backward_ranks(int schedule)
{
    static side all[MAX_FORMS][WB_MOST_RANKS];
    const int R = ranks(), count = MISTAKES - BACKWARD + 1;
    const size_t room = 2 * most_keys() * depth();
    for (int n = 0; n < count; n++) {
        of_mistake = n ? BACKWARD + n - 1 : RIGHT;
        for (int r = 0; r < R; r++) {
            side *x = &all[n][r];
            *x = (side){.Q = shard("Q", e.Q, r), .K = shard("K", e.K, r), .V = shard("V", e.V, r)};
            x->O = shard("O", e.O, r), x->L = shard("L", e.L, r), x->dO = shard("dO", e.dO, r);
            x->delta = zeros(x->L.count), x->dQ = zeros(x->Q.count), x->found = zeros(room), x->none = zeros(room);
            for (int k = 0; k < 2; k++) x->sum[k] = zeros(room);
            find_delta(x);
        }
        find_backward(all[n], schedule);
    }
    for (int me = 0; me < R; me++) {
        rows dQ[MAX_FORMS], dK[MAX_FORMS], dV[MAX_FORMS], delta[MAX_FORMS];
        const size_t keys = of_rank(me) * depth();
        for (int n = 0; n < count; n++) {
            side *x = &all[n][me];
            double *home = x->sum[R == 1 ? 0 : R % 2].at;
            dQ[n] = x->dQ, dK[n] = (rows){home, keys}, dV[n] = (rows){home + keys, keys}, delta[n] = x->delta;
        }
        const struct {
            const char *name;
            const rows *made;
        } outputs[] = {{"dQ", dQ}, {"dK", dK}, {"dV", dV}, {"delta", delta}};
        for (int k = COUNT(outputs) - 1; k >= 0; k--) {  // float32, and rounded once
            const rows *right = &outputs[k].made[0];
            double squares = 0, *tolerance = allocate(right->count, sizeof *tolerance);
            for (size_t i = 0; i < right->count; i++) squares += right->at[i] * right->at[i];
            for (size_t i = 0; i < right->count; i++) tolerance[i] = 1e-4 * sqrt(squares / (double)right->count);
            compare(&fits[schedule], outputs[k].name, k, me, outputs[k].made, tolerance);
            free(tolerance);
        }
    }
    for (int n = 0; n < count; n++)
        for (int r = 0; r < R; r++) {
            side *x = &all[n][r];
            rows *const of[] = {&x->Q,     &x->K,  &x->V,     &x->O,      &x->L,      &x->dO,
                                &x->delta, &x->dQ, &x->found, &x->sum[0], &x->sum[1], &x->none};
            for (int k = 0; k < COUNT(of); k++) free(of[k]->at);
        }
}

// Whether none of these gaps is as shipped: what they do would be taken for something else.
static bool are_filled(const char *const *gaps)
{
    for (; *gaps; gaps++)
        if (!worth_naming(*gaps)) return false;
    return true;
}

void look_at_ranks(void)
{
    // clang-format off
    static const char *const alone[2][5] = {{"chunk table", "zigzag", "pairs", "merge"}, {"delta", "share"}};
    static const char *const ring[2][7] = {{"owner", "wait", "travel"},
    {"add", "behind", "keys", "gradients", "arrived", "done"}};
    // clang-format on
    const bool backward = wb_is_backward(e.problem), open = worth_naming("when");
    if (!are_filled(alone[backward]) || (ranks() > 1 && !are_filled(ring[backward])) || e.s->q_len > MOST_KEYS) return;
    tensor_count = wb_case_tensors(e.problem, e.c, tensors);
    if (!backward) look_at_forward_ranks();
    for (int n = 0; n < SCHEDULES && backward; n++)
        if (open || n == ALL_FIRST) look_at_backward_ranks(n);  // so it is shipped
}

// A mistake is named if its numbers are those seen, all of them, and no other's are.
void conclude_ranks(void)
{
    const mistake *is = NULL;
    const fit *of = NULL;
    for (int s = 0; s < SCHEDULES; s++)
        for (int n = 1; n < fits[s].count && fits[s].wrong >= 16; n++) {
            const mistake *m = &mistakes[first_mistake() + n - 1];
            if (fits[s].misses[n] > 0 || (is && strcmp(m->id, is->id) == 0)) continue;
            if (is) return;
            is = m, of = &fits[s];
        }
    if (!is) return;
    memcpy(e.text, of->shown, sizeof e.text);
    find(BY_END, is->id, is->gap, "%s: %s", of->says, is->says);
}
