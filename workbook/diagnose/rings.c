// rings.c - problems 17 and 18: what each rank held when it multiplied, and what it sent (layer_requests.h), against
// what the lesson has it hold. What a sum of gradients contains, and how often, is solved for by least squares.
#include "evidence.h"

// In the order in which wb_attention_backward is given them, but O.
typedef enum tensor { TQ, TK, TV, TdO, TL, TDELTA, TO, TdK, TdV, TENSORS } tensor;
static const char *const names[TENSORS] = {"Q", "K", "V", "dO", "L", "delta", "O", "dK", "dV"};
enum { MOST = 512, TERMS = 16 };

static int ranks(void) { return e.c->ranks; }
static bool backward(void) { return wb_is_backward(e.problem); }
static int modulo(int x) { return (x + 4 * ranks()) % ranks(); }
static size_t width_of(int t) { return t == TL || t == TDELTA ? 1 : (size_t)e.s->head_dim; }
// Rows of a rank, and of its first chunk.
static size_t rows_of(int t, int rows)
{
    return (size_t)e.s->batch * (size_t)(t == TK || t == TV || t > TO ? e.s->kv_heads : e.s->q_heads) * (size_t)rows;
}
static size_t all_of(int t, int rank) { return rows_of(t, wb_rank_rows(e.c, rank)); }
static size_t numbers(int rank) { return all_of(TK, rank) * width_of(TK); }  // of its K

// Each rank's part of each tensor, as it lies there; null where the problem has none.
static float *shards[WB_MOST_RANKS][TENSORS];

static void cut_tensors(void)
{
    const bool back = backward();
    const float *const whole[TENSORS] = {
        e.Q, e.K, e.V, e.dO, back ? e.L : e.out[1], e.delta, back ? e.O : e.out[0], e.out[1], e.out[2]};
    wb_tensor tensors[WB_MAX_TENSORS];
    const int count = wb_case_tensors(e.problem, e.c, tensors);
    for (int n = 0; n < WB_MOST_RANKS * TENSORS; n++) {
        const int r = n / TENSORS, t = n % TENSORS, k = wb_tensor_named(tensors, count, names[t]);
        const size_t all = r < ranks() && k >= 0 ? all_of(t, r) * width_of(t) : 0;
        shards[r][t] = all ? allocate(all, sizeof(float)) : NULL;
        for (size_t i = 0; i < all; i++) shards[r][t][i] = whole[t][wb_shard_place(e.c, &tensors[k], r, i)];
    }
}

enum { ELSE = -1, ZEROS = -2, NANS = -3 };
typedef struct place {
    int of, rank;
    size_t row, run;
} place;

static place place_of(const float *x, size_t rows, int likely)
{
    const size_t width = width_of(likely);
    place found = {ELSE, 0, 0, 0};
    for (int n = 0; n < ranks() * TENSORS; n++) {
        const int r = n / TENSORS, t = n % TENSORS;
        const size_t all = all_of(t, r);
        for (size_t row = 0, run; shards[r][t] && width_of(t) == width && row < all; row++) {
            const float *at = shards[r][t] + row * width;
            for (run = 0; run < rows && row + run < all && !memcmp(at + run * width, x + run * width, 4 * width);)
                run++;
            if (run > found.run || (run && run == found.run && t == likely && found.of != t))
                found = (place){t, r, row, run};
        }
    }
    if (!found.run && rows) found.of = isnan(x[0]) ? NANS : x[0] == 0 && x[1] == 0 ? ZEROS : ELSE;
    return found;
}

static int chunk_at(place p) { return wb_chunk_of(e.c, p.rank, p.row > 0); }
static place of_rank(int t, int rank) { return (place){t, rank, 0, all_of(t, rank)}; }
static place of_chunk(int t, int chunk)
{
    const int rank = wb_rank_with(e.c, chunk);
    return (place){t, rank, rank == chunk ? 0 : rows_of(t, wb_chunk_rows(e.c, rank)),
                   rows_of(t, wb_chunk_rows(e.c, chunk))};
}
static bool same(place a, place b)
{
    const float *x = a.of < 0 ? NULL : shards[a.rank][a.of], *y = b.of < 0 ? NULL : shards[b.rank][b.of];
    const size_t width = x ? width_of(a.of) : 0;
    return a.of == b.of && a.run == b.run &&
           (!x || (y && !memcmp(x + a.row * width, y + b.row * width, 4 * a.run * width)));
}

static const char *called(place p)
{
    static char texts[4][80];
    static int turn;
    char *text = texts[turn = (turn + 1) % 4];
    if (p.of < 0)
        return p.of == NANS ? "NaN" : p.of == ZEROS ? "memory that was never written" : "rows that belong to no input";
    if (same(p, of_chunk(p.of, chunk_at(p))))
        snprintf(text, 80, "%s of chunk %d", names[p.of], chunk_at(p));
    else
        snprintf(text, 80, "%s%s of rank %d", same(p, of_rank(p.of, p.rank)) ? "" : "a part of ", names[p.of], p.rank);
    return text;
}

// A product or a message. step: by the messages that a product has waited for. mine, theirs: chunks.
typedef struct held {
    wb_held h;
    const char *data;
    int rank, step, mine, theirs;
    place at[6];
} held;
static held calls[MOST], messages[MOST];
static int call_count, message_count, way;  // way: 1 where keys go to the next rank, -1 to the one before
#define EACH_CALL(c) for (held *c = calls; c < calls + call_count; c++)

static int whose(int rank, int turn) { return modulo(rank - way * turn); }
static bool in_steps(void) { return ranks() == 1 || message_count > 0; }  // messages are those of a ring

// Piece n as numbers of so many bytes.
static float *floats_of(const held *x, int n, size_t element)
{
    const char *at = x->data;
    for (int k = 0; k < n; k++) at += (x->h.bytes[k] + 3) / 4 * 4;
    float *to = allocate(x->h.bytes[n] / element, sizeof *to);
    for (size_t i = 0; i < x->h.bytes[n] / element; i++)
        to[i] = (float)wb_get(element == 1 ? WB_INT8 : element == 2 ? WB_BFLOAT16 : WB_FLOAT32, at, i);
    return to;
}

// False where there was no room for all.
static bool read_record(void)
{
    call_count = message_count = 0, way = 1;
    for (int r = 0; r < ranks(); r++) {
        int first = -1;
        bool others = false;  // has it had their keys
        held x = {.rank = r, .data = (const char *)(e.held[r] + 1)};
        // What a worker has left there is checked before it is believed.
        for (size_t room = 4 * (e.product_count - 1), size; e.held[r][0] == 0 && room > sizeof x.h; room -= size) {
            memcpy(&x.h, x.data, sizeof x.h), x.data += sizeof x.h, room -= sizeof x.h, size = 0;
            const bool is_call = x.h.kind == (backward() ? WB_GRADIENTS : WB_ATTENDS);
            if (!is_call && x.h.kind != WB_SENDS && x.h.kind != WB_TAKES) break;
            if (x.h.pieces != (!is_call ? 1 : backward() ? 9 : 5)) break;
            for (int n = 0; n < x.h.pieces && size <= room; n++)
                size = x.h.bytes[n] > room ? room + 1 : size + (x.h.bytes[n] + 3) / 4 * 4;
            if (size > room || (!is_call && x.h.element != 1 && x.h.element != 2 && x.h.element != 4)) break;
            if (call_count == MOST || message_count == MOST) break;
            for (int n = 0; n < (!is_call ? 1 : backward() ? 6 : 3); n++) {
                const size_t element = !is_call ? (size_t)x.h.element : n >= TL ? 4 : 2;
                const int likely = is_call ? n : TK;
                x.at[n] = place_of(floats_of(&x, n, element), x.h.bytes[n] / element / width_of(likely), likely);
            }
            if (is_call && first < 0) first = x.h.over;
            others |= is_call && x.at[TK].of == TK && x.at[TK].rank != r;
            x.step = backward() && others && x.at[TK].rank == r ? ranks() : x.h.over - max_int(first, 0);
            if (is_call) x.mine = chunk_at(x.at[TQ]), x.theirs = chunk_at(x.at[TK]);
            if (x.h.kind == WB_SENDS && x.h.peer != modulo(r + 1)) way = -1;
            *(is_call ? &calls[call_count++] : &messages[message_count++]) = x;
            x.data += size;
        }
        if (e.held[r][0] != 0) return false;
    }
    for (held *m = messages; m < messages + message_count; m++) {  // a message is of the step that comes behind it
        m->step = ranks();
        EACH_CALL(c) if (c->rank == m->rank && c->h.order > m->h.order) m->step = min_int(m->step, c->step);
    }
    return true;
}

// The n-th message of a step, of one kind; null: there is none.
static const held *message(int rank, int turn, wb_held_kind kind, bool sums, int n)
{
    for (const held *m = messages; m < messages + message_count; m++)
        if (m->rank == rank && m->step == turn && m->h.kind == kind && sums == (m->h.element == 4) && n-- == 0)
            return m;
    return NULL;
}

// What is sent: in each step but the last what is at hand.
static void see_keys_sent(int rank, int turn, tensor t)
{
    const place want = of_rank(t, whose(rank, turn)), beside = of_rank(t == TK ? TV : TK, want.rank);
    const held *other = NULL, *m;
    for (int n = 0, besides = 0; (m = message(rank, turn, WB_SENDS, false, n)); n++) {
        if (same(m->at[0], want)) return;
        if ((!same(m->at[0], beside) || besides++) && (!other || m->at[0].of == (int)t)) other = m;
    }
    find(BY_WALK + 2 * turn, "keys_sent", backward() ? "keys" : "travel",
         "in step %d, rank %d sends %s, but should send %s", turn, rank, other ? called(other->at[0]) : "nothing",
         called(want));
}

typedef enum seen { EMPTY, WHOLE, CAUSAL, SEVERAL } seen;
static const char *const what_is_seen[] = {"no pairs", "all pairs", "the causal half of the pairs", "some pairs twice"};

static seen right_of(int mine, int theirs)
{
    return !e.s->causal || theirs < mine ? WHOLE : theirs == mine ? CAUSAL : EMPTY;
}

// Whose the keys of a step are taken for, where that explains all pairs.
static void see_owner(const seen *is)
{
    static const char *const steps_on[] = {" - step", "", " + step"}, *const more[] = {" - 1", "", " + 1"};
    const int R = ranks();
    EACH_PAIR (a, 3, b, 3) {
        bool all = has_gap("owner");
        for (int n = 0; n < 4 * R * R && all; n++) {
            const int me = n / 4 / R, from = n / 4 % R, of = modulo(me + (a - 1) * modulo(way * (me - from)) + b - 1);
            all = is[n] == right_of(wb_chunk_of(e.c, me, n / 2 % 2), wb_chunk_of(e.c, of, n % 2));
        }
        if (all)
            find(BY_HEADS - 1, "owner", "owner",
                 "each rank computes the pairs that are right for the keys of rank (rank%s%s) %% R", steps_on[a],
                 more[b]);
    }
}

// What each rank made of each pair of chunks; and if that is right, of how many rows.
static void see_pairs(void)
{
    const int rank = backward() ? BY_VALUE : BY_HEADS, R = ranks();
    EACH_CALL(c)
    if (c->at[TQ].of != TQ || c->at[TK].of != TK || (in_steps() && c->at[TK].rank != whose(c->rank, c->step))) return;
    bool right = true;
    seen all[4 * WB_MOST_RANKS * WB_MOST_RANKS];
    for (int n = 0; n < 4 * R * R; n++) {
        const int me = n / 4 / R, from = n / 4 % R;
        const int mine = wb_chunk_of(e.c, me, n / 2 % 2), theirs = wb_chunk_of(e.c, from, n % 2);
        seen is = EMPTY;
        EACH_CALL(c)
        if (c->rank == me && c->mine == mine && c->theirs == theirs) is = is ? SEVERAL : c->h.causal ? CAUSAL : WHOLE;
        all[n] = is;
        if (is == right_of(mine, theirs)) continue;
        right = false;
        find(rank, "pairs_of_chunks", "zigzag|pairs|owner|when",
             "in step %d, rank %d, with the keys of rank %d: of queries of chunk %d and keys of chunk %d it computes "
             "%s, but should compute %s",
             modulo(way * (me - from)), me, from, mine, theirs, what_is_seen[is], what_is_seen[right_of(mine, theirs)]);
    }
    if (!right) see_owner(all);
    EACH_CALL(c)
    for (int n = 0; n < 2 && right; n++) {
        const int chunk = n ? c->theirs : c->mine, rows = n ? c->h.kv_len : c->h.q_len;
        if (rows != wb_chunk_rows(e.c, chunk))
            find(rank + 1, "chunk_rows", "chunk table|share",
                 "N = %d: on rank %d, chunk %d has %d rows; the first N %% (2 R) must have N / (2 R) + 1, others one "
                 "less",
                 e.s->q_len, c->rank, chunk, rows);
    }
}

static void see_merges(int rank, int chunk)
{
    const size_t D = width_of(TQ);
    const place queries = of_chunk(TQ, chunk);
    float *O[TERMS], *L[TERMS];
    double terms[TERMS][WB_MAX_HEAD_DIM], *O_of[TERMS], L_of[TERMS];
    int parts = 0;
    EACH_CALL(c)
    if (c->rank == rank && c->mine == chunk && c->h.bytes[3] == queries.run * D * 2 &&
        c->h.bytes[4] == queries.run * 4 && parts < TERMS)
        O[parts] = floats_of(c, 3, 2), L[parts++] = floats_of(c, 4, 4);
    for (size_t row = 0; row < queries.run; row++) {
        const size_t at = queries.row + row;
        char where[120];
        for (size_t d = 0; d < D * (size_t)parts; d++) terms[d / D][d % D] = O[d / D][row * D + d % D];
        for (int n = 0; n < parts; n++) O_of[n] = terms[n], L_of[n] = L[n][row];
        snprintf(where, sizeof where, "row %zu of chunk %d", row, chunk);
        if (parts) see_merge(O_of, L_of, NAN, parts, shards[rank][TO] + at * D, shards[rank][TL][at], 2e-3, where);
    }
}

// What the call for a pair of chunks is given, and where it adds: as far from others as it should.
static void see_given(const held *c)
{
    const int rank = BY_WALK + 2 * c->step + 1;
    char pair[96];
    snprintf(pair, sizeof pair, "in step %d, rank %d, queries of chunk %d, keys of chunk %d:", c->step, c->rank,
             c->mine, c->theirs);
    for (int n = 0; n < (backward() ? 9 : 3); n++) {
        const bool keys = n == TK || n == TV || n > 6;
        const int t = n < 6 ? n : keys ? TK : TQ;
        const place right = of_chunk(t, keys ? c->theirs : c->mine), is = c->at[n % 6];
        const held *came = keys ? message(c->rank, c->step - 1, WB_TAKES, false, n == TV) : NULL;
        const char *const at = c->h.at[n], *const to = came ? came->h.at[0] : NULL;
        const bool there = to && at >= to && at < to + came->h.bytes[0], own = is.of == n && is.rank == c->rank;
        const bool its = is.of == n && is.rank == right.rank;  // of that rank, then, but of another chunk
        char where[120] = "";
        for (const held *o = calls; o < c && !*where && !to; o++) {
            const int other = keys ? o->theirs : o->mine;
            const ptrdiff_t apart = (at - (const char *)o->h.at[n]) / (n > 3 ? 4 : 2);
            const ptrdiff_t want = (ptrdiff_t)(right.row - of_chunk(t, other).row) * (ptrdiff_t)width_of(t);
            if (n >= 6 && o->rank == c->rank && (!keys || o->step == c->step) && apart != want)
                snprintf(where, sizeof where, " %td elements past chunk %d's, but should be %td past it", apart, other,
                         want);
        }
        if (n >= 6 && *where)
            find(BY_MASK, "adds_elsewhere", "share", "%s %s is added%s", pair, n == 6 ? "dQ" : names[n], where);
        if (n >= 6 || same(is, right) || (!backward() && n != TV && its)) continue;
        const bool others = to && !own && !its;
        find(rank - there, "given",
             !backward() ? its ? "" : "travel"
             : others    ? "keys"
                         : "share",
             "%s the argument for %s is %s", pair, names[n], called(is));
    }
}

// A call's chunks are those of most of what it is given.
static void settle_chunks(held *c)
{
    int votes = 0, same_K = 0, same_V = 0;
    for (int n = 0; n < 6; n++)
        if (n != TK && n != TV && c->at[n].of == n && c->at[n].rank == c->rank) votes += c->at[n].row > 0 ? 1 : -1;
    EACH_CALL(o)
    if (o != c && o->rank == c->rank && o->step == c->step)
        same_K += o->at[TK].row == c->at[TK].row, same_V += o->at[TV].row == c->at[TV].row;
    const bool by_V = c->at[TK].of != TK || (c->at[TV].of == TV && same_V < same_K);
    c->mine = wb_chunk_of(e.c, c->rank, votes > 0);
    c->theirs = wb_chunk_of(e.c, whose(c->rank, c->step), c->at[by_V ? TV : TK].row > 0);
}

// What rank `from` found of dK and dV of rank `of`, in the first step with its own, or later.
static double *found_by(int from, int of, bool later_on)
{
    double *sum = allocate(2 * numbers(of), sizeof *sum);
    EACH_CALL(c)
    for (int n = 7; n < 9 && c->rank == from && wb_rank_with(e.c, c->theirs) == of && (c->step > 0) == later_on; n++) {
        float *is = floats_of(c, n, 4);  // with what calls before it in this step have added
        const size_t at = (n == 8 ? numbers(of) : 0) + of_chunk(TK, c->theirs).row * width_of(TK);
        for (size_t i = 0; i < c->h.bytes[n] / 4 && at + i < 2 * numbers(of); i++) sum[at + i] = is[i];
    }
    return sum;
}

// A sum of gradients of the keys of rank `of`, to which `added` ranks have added.
static void see_gradients(const float *is, int of, int added, const char *where, bool elsewhere)
{
    const int count = ranks() + 1;
    const size_t length = 2 * numbers(of);
    double *terms[WB_MOST_RANKS + 1] = {0}, share[WB_MOST_RANKS + 1], *y = allocate(length, sizeof *y);
    char text[400] = "";
    for (int n = 0; n < count; n++) terms[n] = found_by(modulo(of + way * n), of, n > 0);
    for (size_t i = 0; i < length; i++) y[i] = is[i];
    const double left = shares_in(y, terms, count, length, share);
    for (int n = 0; n < count && left < 0.05; n++)
        if (fabs(share[n] - (n < added)) > 0.02 && (share[n] != 0 || n < added))
            APPEND(text, "%s %.2g times rank %d's contribution%s", *text ? "," : " contains", rounded(share[n]),
                   modulo(of + way * n),
                   n % ranks() ? ""
                   : n         ? " from the last step"
                               : " from step 0");
    if (!(left < 0.05)) APPEND(text, isnan(left) ? " is NaN" : " is not a sum of the ranks' contributions");
    if (!*text && added > 1 && added <= ranks() && in_bf16(is, length))
        APPEND(text, " is rounded to bf16, where float32 belongs");
    if (*text)
        find(BY_RESCALING + added - 1, elsewhere ? "sum_elsewhere" : "sum",
             elsewhere || added == 1 ? "gradients" : "add|gradients", "%s%s", where,
             elsewhere ? " is not in the buffer to which the kernels have added" : text);
}

// What rank r sends in a step, behind the keys.
static void see_gradients_sent(int r, int turn)
{
    const int of = whose(r, turn - 1);
    const held *sum = message(r, turn, WB_SENDS, true, 0),
               *kv = message(r, turn, WB_SENDS, false, turn + 1 < ranks() ? 2 : 0);
    const held *m = sum ? sum : kv, *from = turn > 1 ? message(r, turn - 1, WB_TAKES, true, 0) : NULL;
    const char *made = from ? from->h.at[0] : NULL;  // where it was added to
    char where[120];
    if (message(r, turn, WB_SENDS, true, 1)) return;
    if (!m || m->h.bytes[0] != 8 * numbers(of)) {
        find(BY_RESCALING + turn - 1, m ? "gradients_size" : "no_gradients", "gradients",
             "in step %d, rank %d sends %zu elements of %d bytes as gradients of rank %d's keys; they are %zu of 4",
             turn, r, m ? m->h.bytes[0] / (size_t)m->h.element : 0, m ? m->h.element : 4, of, 2 * numbers(of));
        return;
    }
    EACH_CALL(c)
    if (c->rank == r && c->step == 0 && turn == 1)
        made = (const char *)c->h.at[7] - 4 * of_chunk(TK, c->theirs).row * width_of(TK);
    snprintf(where, sizeof where, "in step %d, the sum that rank %d sends as gradients of rank %d's keys", turn, r, of);
    see_gradients(floats_of(m, 0, 4), of, turn, where, made && m->h.at[0] != made);
}

void look_at_ranks(void)
{
    const int R = ranks(), back = backward();
    if (!worth_naming(back ? "delta|share" : "chunk table|zigzag|pairs|merge")) return;
    if (R > 1 && !worth_naming(back ? "behind|keys|arrived|done" : "owner|wait|travel")) return;
    const bool sums = back && R > 1 && worth_naming("add|gradients");
    if (!wb_chunk_rows(e.c, 2 * R - 1)) return;  // of steps in which a rank has nothing to do nothing is known
    cut_tensors();
    if (!read_record() || !e.wrong) return;
    if (!back) see_pairs();
    if (back) look_at_delta();
    for (int n = 0; n < 2 * R * (R - 1) && in_steps(); n++) see_keys_sent(n / 2 % R, n / 2 / R, n % 2 ? TV : TK);
    EACH_CALL(c) if (in_steps()) settle_chunks(c);
    if (back) see_pairs();
    EACH_CALL(c) if (in_steps()) see_given(c);
    for (int r = 0; r < R; r++) {
        for (int n = 0; n < 2 && !back; n++) see_merges(r, wb_chunk_of(e.c, r, n));
        for (int turn = 1; turn <= R && sums && in_steps(); turn++) see_gradients_sent(r, turn);
    }
    for (int r = 0; r < R && sums; r++) {
        float *home = allocate(2 * numbers(r), sizeof *home);
        memcpy(home, shards[r][TdK], 4 * numbers(r)), memcpy(home + numbers(r), shards[r][TdV], 4 * numbers(r));
        see_gradients(home, r, R + 1, "the final sum of dK and dV", false);
    }
}
