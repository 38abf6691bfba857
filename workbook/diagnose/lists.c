// lists.c - what 15 has of its own: which tiles a block takes from its two lists, and which bits of a tile hide which pairs.
#include "evidence.h"

#include <stdio.h>

// What may be seen of each step.
// clang-format off
static const form list_forms[] = {
    {"", ""}, {"first_mask", "it takes the lists of the first mask for all sequences"},
    {"starts_without_end", "it takes a mask to have as many starts as tiles of queries: there is one more, the end"},
    {"tiles_of_128", "it looks for queries in tiles of 128, where the mask has tiles of q_tile"},
    {"end_as_count", "it takes the end of the list of whole tiles for its length"},
    {"part_end_as_count", "it takes the end of the list of tiles in part for its length"},
    {"starts_of_whole", "it begins the list of tiles in part where that of whole tiles begins"},
    {"whole_from_first", "it reads the list of whole tiles from the beginning of its array"},
    {"part_from_first", "it reads the list of tiles in part from the beginning of its array"},
    {"whole_alone", "it leaves out the tiles that are seen in part"}, {"part_alone", "it leaves out the tiles that are seen whole"},
    {"last_part_left", "it leaves out the last tile that is seen in part"},
    {"last_whole_left", "it leaves out the last tile that is seen whole"},
    {"whole_steps_are_tiles", "it counts a whole tile as one step where it takes two"},
    {"steps_are_tiles", "it counts a tile as one step where it takes two"},
    {"part_steps_are_tiles", "it counts a tile in part as one step where it takes two"},
    {"first_half_twice", "it begins both steps of a tile at its first key"},
    {"tiles_of_a_step", "it multiplies the number of a tile by the keys of a step, where tiles have 64"},
    {"index_not_divided", "it takes each step for a tile of its own where it looks into the list"},
    {"next_list", "it takes the lists of the next tile of queries"},
    {"whole_as_part", "it looks for tiles in part in the list of whole tiles"},
    {"part_step_not_reduced", "it counts tiles in part from the first step of all, not from the first of theirs"},
    {"halves_exchanged", "it begins with the second half of a tile"},
    {"first_list", "it takes the lists of the first tile of queries for all"}, {"one_more_part", "it takes one tile in part too many"},
    {"lists_exchanged", "it takes the lists of whole tiles and of tiles in part for each other"}};
static const form bit_forms[] = {
    {"", ""}, {"bits_reversed", "the highest bit of a word is taken for its first key, which has the lowest"},
    {"bits_inverted", "what has its bit set is hidden, where that is what is seen"},
    {"bits_of_first_word", "all keys of a step are hidden by its first word, of 32 keys"},
    {"bits_of_first_half", "both steps of a tile are hidden by the bits of the first"},
    {"bits_of_first_tile", "each tile is hidden by the bits of the first in its list"},
    {"bits_of_one_row", "all rows of a warp are hidden by the bits of its first eight"},
    {"bits_side_by_side", "the columns of a lane are taken to lie side by side: they are two of every eight"},
    {"bits_shifted_twice", "a word is shifted for its lane twice"},
    {"bits_of_other_row", "a row is hidden by the bits of the row eight away"},
    {"words_exchanged", "the words of the first and the second 32 keys are exchanged"},
    {"bits_of_next_tile", "each tile is hidden by the bits of the next in its list"},
    {"bits_of_steps", "each step is taken for a tile of its own where the bits are looked for"},
    {"bits_without_words", "a row of a tile is taken to have one word, where it has two"},
    {"bits_in_fours", "the pairs of a lane's columns are taken to lie four apart, where they lie eight apart"},
    {"bits_even_odd", "the two columns of a pair are exchanged"},
    {"bits_of_other_half", "the steps of a tile are hidden by each other's bits"},
    {"bits_reversed_in_lane", "the bits of a lane are taken from the highest down"}, {"all_seen", "no pair is hidden"},
    {"bits_of_first_query", "all rows of a block are hidden by the bits of its first"}};
// clang-format on
static fit fit_lists = {FIT(list_forms)}, fit_bits = {FIT(bit_forms)};

static const block_mask *mask(void) { return &wb_case_mask_of(e.c)->lists; }

static int q_tiles(void) { return (e.s->q_len - 1) / mask()->q_tile + 1; }

// The first keys of all steps of a block, by this form, into `keys`, and where in the list of tiles in part each stands, or -1. Returns
// how many; -1: it reads outside of the arrays.
static int steps_by(int rel, int b, int block_row, int BC, int *keys, int *place, int room)
{
    const block_mask *m = mask();
    const int per_mask = q_tiles() + (rel == 2 ? 0 : 1), all = m->masks * (q_tiles() + 1), STEPS_ = 64 / BC;
    const int wholes = m->whole_start[all - 1], in_part = m->part_start[all - 1];
    int list = (m->masks > 1 && rel != 1 ? b : 0) * per_mask + block_row / (rel == 3 ? 128 : m->q_tile) + (rel == 19);
    if (rel == 23) list -= block_row / m->q_tile;
    if (list + 1 >= all) return -1;
    const int *whole_start = rel == 25 ? m->part_start : m->whole_start,
              *part_start = rel == 25 ? m->whole_start : m->part_start;
    int w0 = whole_start[list], wn = whole_start[list + 1] - w0, p0 = part_start[list], pn = part_start[list + 1] - p0;
    switch (rel) {
    // clang-format off
    case 4: wn = whole_start[list + 1]; break; case 5: pn = part_start[list + 1]; break; case 6: p0 = w0; break;
    case 7: w0 = 0; break; case 8: p0 = 0; break; case 9: pn = 0; break; case 10: wn = 0; break; case 11: pn -= pn != 0; break;
    case 12: wn -= wn != 0; break; case 24: pn++; break;
    // clang-format on
    default: break;
    }
    const int whole_steps = wn * (rel == 13 || rel == 14 ? 1 : STEPS_),
              end = whole_steps + pn * (rel == 14 || rel == 15 ? 1 : STEPS_);
    for (int turn = 0; turn < end; turn++) {
        const bool whole = turn < whole_steps || rel == 20;
        const int n = turn - (turn < whole_steps || rel == 21 ? 0 : whole_steps),
                  at = (whole ? w0 : p0) + (rel == 18 ? n : n / STEPS_);
        const int *from = whole != (rel == 25) ? m->whole : m->part, most = whole != (rel == 25) ? wholes : in_part;
        if (at >= most || turn >= room) return -1;
        const int half = rel == 16 ? 0 : rel == 22 ? STEPS_ - 1 - turn % STEPS_ : turn % STEPS_;
        keys[turn] = from[at] * (rel == 17 ? BC : 64) + half * BC;
        place[turn] = from == m->part ? at : -1;
    }
    return end;
}

// Whether a query of the block sees one of these keys.
static bool any_seen(int head, int low, int high, int key, int BC)
{
    for (int i = low; i <= high; i++)
        for (int c = 0; c < BC; c++)
            if (sees(head * e.s->q_len + i, key + c)) return true;
    return false;
}

// Whether a bit is set of these keys, in the tile that stands in this place of its list, for the block's rows.
static bool any_bit(int place, int block_row, int key, int BC)
{
    const block_mask *m = mask();
    uint32_t any = 0;
    for (int row = block_row % m->q_tile; row < m->q_tile; row++)
        for (int c = key % 64; c < key % 64 + BC; c += 32)
            any |= m->bits[((size_t)place * (size_t)m->q_tile + (size_t)row) * 2 + (size_t)c / 32];
    return any;
}

static bool more_than_skipped;  // a block takes tiles that it should not, or leaves out whole ones

// A step of tiles in part that a warp passes over hides all of its pairs.
static void look_at_skipped(const record *r, int block, int block_row, int key, int BC)
{
    for (int n = 0; n < r->walk_count; n++) {
        const product *S = r->walks[n].first;
        bool met = r->walks[n].block != block || !S || S->a_row[0] < 0, sees_any = false;
        read_steps(&r->walks[n]);
        for (int t = 0; t < step_count && !met; t++) met = steps[t].first == key;
        for (int i = 0; i < S->rows && !met; i++)
            for (int c = 0; c < BC && !sees_any; c++) sees_any = sees(S->a_row[i], key + c);
        if (met || !sees_any) continue;
        pairs p = pairs_new(S->rows, BC);
        p.row0 = S->a_row[0], p.key0 = key, p.block_query = block_row;
        for (int i = 0; i < S->rows; i++) p.query[i] = S->a_row[i] >= 0 ? query_of(S->a_row[i]) : -1;
        for (int c = 0; c < BC; c++) p.key[c] = key + c;
        memset(p.fate, HIDDEN, (size_t)(S->rows * BC));
        look_at_bits(&p);
    }
}

void look_at_lists(const record *r)
{
    enum { MOST = 512 };
    static int keys[STEPS], place[STEPS];
    for (int n = 0; n < r->walk_count; n++) {
        int met[MOST] = {0}, low, high;
        block_of(r, n, &low, &high);
        bool first = high >= 0;
        for (int m = 0; m < n; m++) first &= r->walks[m].block != r->walks[n].block;
        if (!first) continue;
        const int head = head_of(r->walks[n].first->a_row[0]), BC = e.widest;
        for (int m = n; m < r->walk_count; m++) {
            int mine[MOST] = {0};
            if (r->walks[m].block != r->walks[n].block) continue;
            read_steps(&r->walks[m]);
            for (int t = 0; t < step_count; t++)
                if (steps[t].first >= 0 && steps[t].first / BC < MOST) mine[steps[t].first / BC]++;
            for (int k = 0; k < MOST; k++) met[k] = max_int(met[k], mine[k]);
        }
        double values[COUNT(list_forms)];
        char text[2][120] = {"", ""};
        bool hard = false;
        for (int f = 0; f < COUNT(list_forms); f++) {
            const int count = steps_by(f, head / e.s->q_heads, low, BC, keys, place, STEPS);
            int want[MOST] = {0}, least[MOST] = {0};
            bool same = count >= 0;
            for (int k = 0; k < count; k++)
                if (keys[k] < e.s->kv_len && keys[k] / BC < MOST)
                    want[keys[k] / BC]++, least[keys[k] / BC] += place[k] < 0 || (met[keys[k] / BC] == 0 &&
                                                                                  any_bit(place[k], low, keys[k], BC));
            for (int k = 0; k < min_int(MOST, e.s->kv_len / BC + 1); k++) {
                if (f == 0) {
                    int whole = 0;
                    for (int turn = 0; turn < count; turn++)
                        whole += keys[turn] / BC == k && keys[turn] < e.s->kv_len && place[turn] < 0;
                    hard |= met[k] > want[k] || met[k] < whole;
                }
                const bool seen = f == 0 && any_seen(head, low, high, k * BC, BC);
                same &= met[k] <= want[k] && met[k] >= least[k];
                for (int which = 0; which < 2 && f == 0; which++)
                    for (int i = 0; i < (which ? seen && want[k] : met[k]) && strlen(text[which]) < 100; i++)
                        snprintf(text[which] + strlen(text[which]), sizeof text[which] - strlen(text[which]), " %d",
                                 k * BC);
            }
            values[f] = !same;
            for (int turn = 0; f == 0 && turn < count && !hard; turn++)
                if (place[turn] >= 0 && keys[turn] < e.s->kv_len)
                    look_at_skipped(r, r->walks[n].block, low, keys[turn], BC);
        }
        more_than_skipped |= hard;
        fit_see(&fit_lists, 0, values, 0,
                "the block from query %d on, of head %d, needs the keys from%s on, and takes those from%s on", low,
                head, *text[1] ? text[1] : " nowhere", *text[0] ? text[0] : " nowhere");
    }
}

// ---------------------------------------------------------------------------------------------------------------------- bits

// Whether this form hides a pair of the tile in place n of its list: row of the tile of queries, column of the step. -1: unknown.
static int hides_bit(int rel, int first, int n, int count, int row, int block_row, int r, int half, int steps_of_tile,
                     int c)
{
    const block_mask *m = mask();
    const int BC = 64 / steps_of_tile, lane = c % 8 / 2, slot = c / 8 * 2 + c % 2;
    int tile = n, word = (half * BC + c) / 32, bit = c % 32;
    switch (rel) {
    // clang-format off
    case 1: bit = 31 - bit; break; case 3: word = half * BC / 32; break; case 4: word = c / 32; break; case 5: tile = 0; break;
    case 6: row -= r / 8 * 8; break; case 7: bit = 2 * lane + slot % 8; break; case 8: bit = 2 * lane + c % 32; break;
    case 9: row += r % 16 >= 8 ? -8 : 8; break; case 10: word ^= 1; break; case 11: tile = n + 1; break;
    case 12: tile = n * steps_of_tile + half; break; case 14: bit = 2 * lane + slot % 8 / 2 * 4 + slot % 2; break; case 15: bit ^= 1; break;
    case 16: word = ((steps_of_tile - 1 - half) * BC + c) / 32; break; case 17: bit = 2 * lane + 24 - slot % 8 / 2 * 8 + slot % 2; break;
    // clang-format on
    case 19: row = block_row; break;
    default: break;
    }
    if (rel == 18) return 0;
    if (bit > 31) return 1;  // shifted out
    if (tile >= count) return -1;
    const size_t at = rel == 13 ? (size_t)(first + tile) * (size_t)m->q_tile * 2 + (size_t)row + (size_t)word
                                : ((size_t)(first + tile) * (size_t)m->q_tile + (size_t)row) * 2 + (size_t)word;
    return (m->bits[at] >> bit & 1) == (rel == 2);
}

void look_at_bits(const pairs *t)
{
    const block_mask *m = mask();
    const int b = head_of(t->row0) / e.s->q_heads, tile = t->key0 / 64, half = t->key0 % 64 / t->keys;
    const int list = (m->masks > 1 ? b : 0) * (q_tiles() + 1) + t->query[0] / m->q_tile, first = m->part_start[list],
              parts = m->part_start[list + 1] - first;
    int place = -1;
    for (int k = 0; k < parts; k++)
        if (m->part[first + k] == tile) place = k;
    EACH_PAIR (a, t->queries, c, t->keys) {
        const int got = t->fate[a * t->keys + c];
        if (t->query[a] < 0 || t->key[c] < 0 || t->key[c] >= e.s->kv_len || got == UNCLEAR) continue;
        const bool seen = sees(t->row0 - query_of(t->row0) + t->query[a], t->key[c]);
        double values[COUNT(bit_forms)];
        if (seen == (got == WEIGHT) && (13 * a + c) % 8) continue;  // of those that are right, some will do
        for (int f = 0; f < COUNT(bit_forms); f++) {
            const int hides = place < 0 ? !seen
                                        : hides_bit(f, first, place, parts, t->query[a] % m->q_tile,
                                                    t->block_query % m->q_tile, a, half, 64 / t->keys, c);
            values[f] = hides < 0 ? got == HIDDEN : hides;
        }
        values[0] = !seen;
        fit_see(&fit_bits, got == HIDDEN, values, 0, "query %d sees key %d%s, but %s, in the tile of keys from %d on",
                t->query[a], t->key[c], seen ? "" : " not", got == HIDDEN ? "gives it no weight" : "gives it a weight",
                t->key0);
    }
}

void conclude_lists(void)
{
    const form *list = fit_form(&fit_lists), *bits = fit_form(&fit_bits);
    const bool by_key = list && strstr("first_half_twice tiles_of_a_step index_not_divided whole_as_part "
                                       "part_step_not_reduced halves_exchanged",
                                       list->id);
    const bool by_load = bits && strstr("bits_of_first_half bits_of_first_tile bits_of_next_tile bits_of_steps "
                                        "bits_without_words bits_of_other_half",
                                        bits->id);
    if (list || more_than_skipped)
        fit_conclude(&fit_lists, BY_WALK, by_key ? "first key" : "lists", "lists|first key", ": ");
    fit_conclude(&fit_bits, BY_MASK, by_load ? "load bits" : "mask|load bits", "mask|load bits", ": ");
}
