// lists.c - what 15 has of its own: which tiles a block takes from its two lists, and which bits of a tile hide which
// pairs.
#include "evidence.h"

static fit fit_lists, fit_bits;

static const block_mask *mask(void) { return &wb_case_mask_of(e.c)->lists; }

static int q_tiles(void) { return (e.s->q_len - 1) / mask()->q_tile + 1; }

// How the lists may be read, but for what is right.
enum { FROM_0 = 1, OF_WHOLE, AS_TILES };
typedef struct reading {
    const char *says;
    int mask, more, q_tile;             // the first mask's lists; how many more starts a mask has; 0: the mask's own
    int whole, part, steps, key, less;  // where they begin; what a step stands for; where its keys do; parts left out
} reading;
static const reading readings[] = {
    {.says = ""},
    {.says = "it takes the lists of the first mask for all sequences", .mask = 1},
    {.says = "it takes a mask to have as many starts as tiles of queries: there is one more, the end", .more = -1},
    {.says = "it looks for queries in tiles of 128, where the mask has tiles of q_tile", .q_tile = 128},
    {.says = "it looks for queries in tiles of 64, where the mask has tiles of q_tile", .q_tile = 64},
    {.says = "it reads the list of whole tiles from the beginning of its array", .whole = FROM_0},
    {.says = "it reads the list of tiles seen in part from the beginning of its array", .part = FROM_0},
    {.says = "it begins in the list of tiles seen in part where that of whole ones begins", .part = OF_WHOLE},
    {.says = "it does not subtract the steps of the whole tiles in the list of tiles seen in part", .part = AS_TILES},
    {.says = "it counts a whole tile as one step", .steps = 1},
    {.says = "it counts a tile seen in part as one step", .steps = 2},
    {.says = "it leaves out the tiles that are seen in part", .less = 1 << 20},
    {.says = "it leaves out the last tile that is seen in part", .less = 1},
    {.says = "it begins both steps of a tile at its first key", .key = FROM_0},
    {.says = "it takes a tile for as many keys as a step", .key = AS_TILES}};

// The first keys of all steps of a block, read so, into `keys`, and which step of all tiles in part each is, or -1.
// Returns how many; -1: it reads outside of the arrays.
static int steps_by(const reading *as, int head, int block_row, int BC, int *keys, int *place, int room)
{
    const block_mask *m = mask();
    const int all = m->masks * (q_tiles() + 1), per_mask = q_tiles() + 1 + as->more;
    const int of_mask = m->masks == 1 || as->mask ? 0 : head / e.s->q_heads;
    const int list = of_mask * per_mask + block_row / (as->q_tile ? as->q_tile : m->q_tile), per_tile = 64 / BC;
    if (list + 1 >= all) return -1;
    const int *whole = m->whole_start + list, *part = m->part_start + list;
    const int whole_steps = (whole[1] - whole[0]) * (as->steps == 1 ? 1 : per_tile);
    const int w0 = as->whole == FROM_0 ? 0 : whole[0];
    const int p0 = as->part == FROM_0 ? 0 : as->part == OF_WHOLE ? whole[0] : part[0];
    const int parts = max_int(0, part[1] - part[0] - as->less) * (as->steps == 2 ? 1 : per_tile);
    for (int turn = 0; turn < whole_steps + parts; turn++) {
        const bool is_whole = turn < whole_steps;
        const int n = is_whole || as->part == AS_TILES ? turn : turn - whole_steps;
        const int at = (is_whole ? w0 : p0) + n / per_tile;
        if (at >= (is_whole ? m->whole_start : m->part_start)[all - 1] || turn >= room) return -1;
        keys[turn] = (is_whole ? m->whole : m->part)[at] * (as->key == AS_TILES ? BC : 64) +
                     (as->key == FROM_0 ? 0 : turn % per_tile * BC);
        place[turn] = is_whole ? -1 : at * per_tile + (turn - whole_steps) % per_tile;
    }
    return whole_steps + parts;
}

// Whether a bit is set in this step of the tiles in part, for the block's rows.
static bool any_bit(int place, int block_row, int BC)
{
    const block_mask *m = mask();
    const int tile = place * BC / 64, first = place * BC % 64;
    uint32_t any = 0;
    for (int row = block_row % m->q_tile; row < m->q_tile; row++)
        for (int c = first; c < first + BC; c += 32)
            any |= m->bits[((size_t)tile * (size_t)m->q_tile + (size_t)row) * 2 + (size_t)c / 32];
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
            for (int t = 0; t < step_count; t++) {
                const int key = steps[t].S->b_row[0];  // of another head: a tile beyond the keys
                if (key >= 0 && key_head_of(key) == right_key_head(head) && steps[t].first / BC < MOST)
                    mine[steps[t].first / BC]++;
            }
            for (int k = 0; k < MOST; k++) met[k] = max_int(met[k], mine[k]);
        }
        form forms[MAX_FORMS];
        char text[2][120] = {"", ""};
        bool hard = false;
        for (int f = 0; f < COUNT(readings); f++) {
            const int count = steps_by(&readings[f], head, low, BC, keys, place, STEPS);
            int want[MOST] = {0}, whole[MOST] = {0}, least[MOST] = {0};
            bool same = count >= 0;
            for (int turn = 0; turn < count; turn++) {
                const int key = keys[turn], k = key / BC;
                if (key >= e.s->kv_len || k >= MOST) continue;
                want[k]++, whole[k] += place[turn] < 0;
                least[k] += place[turn] < 0 || (met[k] == 0 && any_bit(place[turn], low, BC));
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
            forms[f] = (form){readings[f].says, !same};
        }
        more_than_skipped |= hard;
        fit_see(&fit_lists, 0, 0, forms, COUNT(readings),
                "the block from query %d on, of head %d, needs the keys from%s on, and takes those from%s on", low,
                head, *text[1] ? text[1] : " nowhere", *text[0] ? text[0] : " nowhere");
    }
}

// Whether a bit hides its pair: of a word of a row, in the tile in place n of `count` tiles from `first` on, which
// lie so many rows apart; 2: nobody knows.
static int hides(int first, int count, int n, int rows, int row, int word, int bit)
{
    const block_mask *m = mask();
    const size_t at = ((size_t)(first * m->q_tile + n * rows) + (size_t)row) * 2 + (size_t)word;
    if (n >= count || at >= (size_t)m->part_start[m->masks * (q_tiles() + 1) - 1] * (size_t)m->q_tile * 2) return 2;
    return !(m->bits[at] >> bit & 1);
}

static const char bit_names[] =
    "|what has its bit set is hidden, where that is what is seen|all keys of a step are hidden by its first word, of "
    "32 keys|each tile is hidden by the bits of the first in its list|a row is hidden by the bits of the row eight "
    "away|no pair is hidden";
// Which bits of its word may be those that hide column c of it, as far as pairs tell.
static uint32_t may_hide[32];
static bool some_bits;

void look_at_bits(const pairs *t)
{
    const block_mask *m = mask();
    const int b = head_of(t->row0) / e.s->q_heads, tile = t->key0 / 64, half = t->key0 % 64 / t->keys;
    const int list = (m->masks > 1 ? b : 0) * (q_tiles() + 1) + t->query[0] / m->q_tile, first = m->part_start[list],
              parts = m->part_start[list + 1] - first, rows = m->q_tile;
    int place = -1;
    for (int k = 0; k < parts; k++)
        if (m->part[first + k] == tile) place = k;
    for (int c = 0; c < 32 && !some_bits; c++) may_hide[c] = 0xffffffff;
    some_bits = true;
    EACH_PAIR (a, t->queries, c, t->keys) {
        const int got = t->fate[a * t->keys + c];
        if (t->query[a] < 0 || t->key[c] < 0 || t->key[c] >= e.s->kv_len || got == UNCLEAR) continue;
        const bool seen = sees(t->row0 - query_of(t->row0) + t->query[a], t->key[c]);
        const int row = t->query[a] % rows, other_row = row + (a % 16 >= 8 ? -8 : 8), n = place;
        const int word = (half * t->keys + c) / 32, bit = c % 32;
        for (int k = 0; k < 32 && place >= 0; k++)
            if (hides(first, parts, n, rows, row, word, k) != (got == HIDDEN)) may_hide[bit] &= ~(1u << k);
        if (seen == (got == WEIGHT) && (13 * a + c) % 8) continue;  // of those that are right, some will do

#define HIDES(...) hides(first, parts, __VA_ARGS__)
        form forms[MAX_FORMS];
        const int count =
            list_forms(&fit_bits, forms, bit_names,
                       (double[]){!seen, !HIDES(n, rows, row, word, bit), HIDES(n, rows, row, half * t->keys / 32, bit),
                                  HIDES(0, rows, row, word, bit), HIDES(n, rows, other_row, word, bit), 0});
#undef HIDES
        for (int f = 1; f < count; f++)
            if (place < 0 || forms[f].is == 2) forms[f].is = place < 0 ? !seen : got == HIDDEN;
        fit_see(&fit_bits, got == HIDDEN, 0, forms, count,
                "query %d sees key %d%s, but %s, in the tile of keys from %d on", t->query[a], t->key[c],
                seen ? "" : " not", got == HIDDEN ? "gives it no weight" : "gives it a weight", t->key0);
    }
}

// Says of columns by which bit they are hidden, where nearly each has one that explains all.
static bool conclude_columns(void)
{
    char text[200] = "";
    int ones = 0;
    for (int c = 0; c < 32; c++) {
        const bool one = may_hide[c] != 0 && (may_hide[c] & (may_hide[c] - 1)) == 0;
        const int bit = one ? __builtin_ctz(may_hide[c]) : c;
        ones += one;
        if (bit != c && strlen(text) < 120) APPEND(text, "%s key %d by bit %d", *text ? "," : "", c, bit);
    }
    if (!*text || ones < 24) return false;
    memcpy(e.text, fit_bits.shown, sizeof e.text);
    find(BY_MASK, "bits_of_other_columns", "mask|load bits", "%s: of each 32 keys are hidden%s", fit_bits.says, text);
    return true;
}

void conclude_lists(void)
{
    const form *list = fit_form(&fit_lists), *bits = fit_form(&fit_bits);
    const reading *is = list ? &readings[list - fit_lists.forms] : NULL;
    const bool by_key = is && (is->key || is->part == AS_TILES);
    const bool by_load = bits && strstr(bits->says, "of the first in its list");
    if (list || more_than_skipped)
        fit_conclude(&fit_lists, BY_WALK, by_key ? "first key" : "lists", "lists|first key", ": ");
    if (*fit_bits.says && !bits && some_bits && conclude_columns()) return;
    fit_conclude(&fit_bits, BY_MASK, by_load ? "load bits" : "mask|load bits", "mask|load bits", ": ");
}
