// lists.c - what 15 has of its own: which tiles a block takes from its two lists, and which bits of a tile hide which
// pairs.
#include "evidence.h"

static fit fit_lists, fit_bits;

static const block_mask *mask(void) { return &wb_case_mask_of(e.c)->lists; }

static int q_tiles(void) { return (e.s->q_len - 1) / mask()->q_tile + 1; }

// clang-format off
enum { RIGHT, FIRST_MASK, NO_ENDS, TILES_OF_128, WHOLE_FROM_0,
       WHOLE_ALONE, NOT_LAST, HALF_TWICE, READINGS };
static const form list_forms[READINGS] = {
    [RIGHT] = {"", "", 0}, [FIRST_MASK] = {"first_mask", "it takes the lists of the first mask for all sequences", 0},
    [NO_ENDS] = {"starts_without_end",
        "it takes a mask to have as many starts as tiles of queries: there is one more, the end", 0},
    [TILES_OF_128] = {"tiles_of_128", "it looks for queries in tiles of 128, where the mask has tiles of q_tile", 0},
    [WHOLE_FROM_0] = {"whole_from_first", "it reads the list of whole tiles from the beginning of its array", 0},
    [WHOLE_ALONE] = {"whole_alone", "it leaves out the tiles that are seen in part", 0},
    [NOT_LAST] = {"last_part_left", "it leaves out the last tile that is seen in part", 0},
    [HALF_TWICE] = {"first_half_twice", "it begins both steps of a tile at its first key", 0}};
// clang-format on

// The first keys of all steps of a block, by this form, into `keys`, and where in the list of tiles in part each
// stands, or -1. Returns how many; -1: it reads outside of the arrays.
static int steps_by(int as, int b, int block_row, int BC, int *keys, int *place, int room)
{
    const block_mask *m = mask();
    const int per_mask = q_tiles() + (as != NO_ENDS), all = m->masks * (q_tiles() + 1),
              of_mask = as == FIRST_MASK ? 0 : b;
    const int list = (m->masks > 1 ? of_mask : 0) * per_mask + block_row / (as == TILES_OF_128 ? 128 : m->q_tile);
    if (list + 1 >= all) return -1;
    const int *whole = m->whole_start + list, *part = m->part_start + list, in_part = part[1] - part[0];
    const int w0 = as == WHOLE_FROM_0 ? 0 : whole[0], wholes = whole[1] - whole[0];
    const int parts = as == WHOLE_ALONE ? 0 : in_part - (as == NOT_LAST && in_part);
    const int per_tile = 64 / BC, whole_steps = wholes * per_tile;
    for (int turn = 0; turn < whole_steps + parts * per_tile; turn++) {
        const bool is_whole = turn < whole_steps;
        const int at = is_whole ? w0 + turn / per_tile : part[0] + (turn - whole_steps) / per_tile;
        if (at >= (is_whole ? m->whole_start : m->part_start)[all - 1] || turn >= room) return -1;
        keys[turn] = (is_whole ? m->whole : m->part)[at] * 64 + (as == HALF_TWICE ? 0 : turn % per_tile * BC);
        place[turn] = is_whole ? -1 : at;
    }
    return whole_steps + parts * per_tile;
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
        form forms[READINGS];
        memcpy(forms, list_forms, sizeof forms);
        char text[2][120] = {"", ""};
        bool hard = false;
        for (int f = 0; f < READINGS; f++) {
            const int count = steps_by(f, head / e.s->q_heads, low, BC, keys, place, STEPS);
            int want[MOST] = {0}, whole[MOST] = {0}, least[MOST] = {0};
            bool same = count >= 0;
            for (int turn = 0; turn < count; turn++) {
                const int key = keys[turn], k = key / BC;
                if (key >= e.s->kv_len || k >= MOST) continue;
                want[k]++, whole[k] += place[turn] < 0;
                least[k] += place[turn] < 0 || (met[k] == 0 && any_bit(place[turn], low, key, BC));
            }
            for (int k = 0; k < min_int(MOST, e.s->kv_len / BC + 1); k++) {
                same &= met[k] <= want[k] && met[k] >= least[k];
                if (f > 0) continue;
                hard |= met[k] > want[k] || met[k] < whole[k];
                const int shown[2] = {met[k], met[k] ? want[k] : least[k]};
                for (int which = 0; which < 2; which++)
                    for (int i = 0; i < shown[which] && strlen(text[which]) < 100; i++)
                        APPEND(text[which], " %d", k * BC);
            }
            forms[f].is = !same;
        }
        more_than_skipped |= hard;
        fit_see(&fit_lists, 0, 0, FORMS(forms),
                "the block from query %d on, of head %d, needs the keys from%s on, and takes those from%s on", low,
                head, *text[1] ? text[1] : " nowhere", *text[0] ? text[0] : " nowhere");
    }
}

// ---------------------------------------------------------------------------------------------------------------- bits

// Whether a bit hides its pair: of a word of a row, in the tile in place n of `count` tiles from `first` on; 2: nobody
// knows.
static int hides(int first, int count, int n, int row, int word, int bit)
{
    const block_mask *m = mask();
    if (bit > 31) return 1;  // shifted out
    if (n >= count) return 2;
    return !(m->bits[((size_t)(first + n) * (size_t)m->q_tile + (size_t)row) * 2 + (size_t)word] >> bit & 1);
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
        if (seen == (got == WEIGHT) && (13 * a + c) % 8) continue;  // of those that are right, some will do
        const int row = t->query[a] % m->q_tile, other_row = row + (a % 16 >= 8 ? -8 : 8), n = place;
        const int word = (half * t->keys + c) / 32, bit = c % 32, lane = c % 8 / 2, slot = (c / 8 * 2 + c % 2) % 8;

#define HIDES(...) hides(first, parts, __VA_ARGS__)
        // clang-format off
        form forms[] = {
            {"", "", !seen},
            {"bits_inverted", "what has its bit set is hidden, where that is what is seen", !HIDES(n, row, word, bit)},
            {"bits_of_first_word", "all keys of a step are hidden by its first word, of 32 keys",
                HIDES(n, row, half * t->keys / 32, bit)},
            {"bits_of_first_tile", "each tile is hidden by the bits of the first in its list",
                HIDES(0, row, word, bit)},
            {"bits_side_by_side", "the columns of a lane are taken to lie side by side: they are two of every eight",
                HIDES(n, row, word, 2 * lane + slot)},
            {"bits_shifted_twice", "a word is shifted for its lane twice", HIDES(n, row, word, 2 * lane + bit)},
            {"bits_of_other_row", "a row is hidden by the bits of the row eight away", HIDES(n, other_row, word, bit)},
            {"all_seen", "no pair is hidden", 0}};
        // clang-format on
#undef HIDES
        for (int f = 1; f < COUNT(forms); f++)
            if (place < 0 || forms[f].is == 2) forms[f].is = place < 0 ? !seen : got == HIDDEN;
        fit_see(&fit_bits, got == HIDDEN, 0, FORMS(forms),
                "query %d sees key %d%s, but %s, in the tile of keys from %d on", t->query[a], t->key[c],
                seen ? "" : " not", got == HIDDEN ? "gives it no weight" : "gives it a weight", t->key0);
    }
}

void conclude_lists(void)
{
    const form *list = fit_form(&fit_lists), *bits = fit_form(&fit_bits);
    const bool by_key = is_one_of(list, "first_half_twice");
    const bool by_load = is_one_of(bits, "bits_of_first_tile");
    if (list || more_than_skipped)
        fit_conclude(&fit_lists, BY_WALK, by_key ? "first key" : "lists", "lists|first key", ": ");
    fit_conclude(&fit_bits, BY_MASK, by_load ? "load bits" : "mask|load bits", "mask|load bits", ": ");
}
