// lists.c - what 15 has of its own: which tiles a block takes from its two lists.
#include "evidence.h"

static const block_mask *mask(void) { return &wb_case_mask_of(e.c)->lists; }

// Where the two lists begin of the tile of queries that this one of a head is in.
static int list_of_block(int head, int query)
{
    const int q_tiles = (e.s->q_len - 1) / mask()->q_tile + 1;
    return (mask()->masks > 1 ? head / e.s->q_heads : 0) * (q_tiles + 1) + query / mask()->q_tile;
}

// Whether a bit of these keys is set in a tile seen in part, for a block's queries.
static bool any_bit(int tile, int first, int keys, int low, int high)
{
    const block_mask *m = mask();
    uint32_t any = 0;
    for (int row = low % m->q_tile; row <= low % m->q_tile + high - low && row < m->q_tile; row++)
        for (int c = first; c < first + keys; c += 32)
            any |= m->bits[((size_t)tile * (size_t)m->q_tile + (size_t)row) * 2 + (size_t)c / 32];
    return any;
}

// How often the walk of a block meets each step of BC keys by its lists: at most, of tiles that are seen whole, and at
// least, since of the others it may leave out what no row sees.
enum { MOST = 512 };
static void read_lists(int head, int low, int high, int BC, int *most, int *whole, int *least)
{
    const block_mask *m = mask();
    const int list = list_of_block(head, low);
    for (int part = 0; part < 2; part++) {
        const int *start = (part ? m->part_start : m->whole_start) + list, *tiles = part ? m->part : m->whole;
        for (int at = start[0]; at < start[1]; at++)
            for (int first = 0; first < 64; first += BC) {
                const int key = tiles[at] * 64 + first, k = key / BC;
                if (key >= e.s->kv_len || k >= MOST) continue;
                most[k]++, whole[k] += !part, least[k] += !part || any_bit(at, first, BC, low, high);
            }
    }
}

void look_at_lists(const record *r)
{
    for (int n = 0; n < r->walk_count; n++) {
        int met[MOST] = {0}, most[MOST] = {0}, whole[MOST] = {0}, least[MOST] = {0}, low, high;
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
        read_lists(head, low, high, BC, most, whole, least);
        char text[2][120] = {"", ""};
        bool wrong = false, hard = false;  // hard: of more than what it may skip
        for (int k = 0; k < min_int(MOST, e.s->kv_len / BC + 1); k++) {
            wrong |= met[k] > most[k] || met[k] < least[k];
            hard |= met[k] > most[k] || met[k] < whole[k];
            const int shown[2] = {met[k], met[k] ? most[k] : least[k]};
            for (int which = 0; which < 2; which++)
                for (int i = 0; i < shown[which] && strlen(text[which]) < 100; i++) APPEND(text[which], " %d", k * BC);
        }
        if (wrong)
            find(hard ? BY_WALK : BY_MASK + 1, "", "lists|first key",
                 "the block from query %d on, of head %d, needs the keys from%s on, and takes those from%s on", low,
                 head, *text[1] ? text[1] : " nowhere", *text[0] ? text[0] : " nowhere");
    }
}
