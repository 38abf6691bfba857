// block_mask.c - the lists of a block mask say what the function says that they were made of, with no tile too many;
// and masks by name are what named_mask.h says.
#include "case/case.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static wb_named_mask drawn(wb_mask_name name, int size, uint64_t seed, int masks, int q_len, int kv_len)
{
    wb_named_mask m = {.name = name, .size = size, .seed = seed, .masks = masks, .q_len = q_len, .kv_len = kv_len};
    wb_named_mask_draw(&m);
    return m;
}

// Whether these lists show query i key j, of tile r of the queries: found as a kernel finds it.
static bool listed(const block_mask *m, int r, int i, int j)
{
    bool sees = false;
    for (int n = m->whole_start[r]; n < m->whole_start[r + 1]; n++) sees = sees || m->whole[n] == j / m->kv_tile;
    for (int n = m->part_start[r]; n < m->part_start[r + 1]; n++) {
        if (m->part[n] != j / m->kv_tile) continue;
        const size_t row = (size_t)n * (size_t)m->q_tile + (size_t)(i % m->q_tile);
        const int column = j % m->kv_tile;
        sees = sees || (m->bits[row * (size_t)(m->kv_tile / 32) + (size_t)column / 32] >> column % 32 & 1);
    }
    return sees;
}

// A tile is listed because of something: a whole one with keys that all exist, one in part with a visible pair and,
// unless keys end in it, a hidden one; bits of rows and keys that do not exist are 0.
static void check_part(const block_mask *m, const wb_named_mask *named, int t, int n)
{
    int visible = 0, pairs = 0;
    for (int i = 0; i < m->q_tile; i++)
        for (int j = 0; j < m->kv_tile; j++) {
            const size_t row = (size_t)n * (size_t)m->q_tile + (size_t)i;
            const int bit = m->bits[row * (size_t)(m->kv_tile / 32) + (size_t)j / 32] >> j % 32 & 1;
            const bool exists = t * m->q_tile + i < named->q_len && m->part[n] * m->kv_tile + j < named->kv_len;
            cr_assert(exists || !bit, "query tile %d, key tile %d: a bit is set for a pair that does not exist", t,
                      m->part[n]);
            visible += bit, pairs += exists;
        }
    cr_assert(visible > 0, "tile %d is listed but has no visible pair", m->part[n]);
    cr_assert(visible < pairs || (m->part[n] + 1) * m->kv_tile > named->kv_len, "tile %d is whole", m->part[n]);
}

// matrix: the lists are made of a byte a pair.
static void check_lists(const wb_named_mask *named, int q_tile, int kv_tile, bool matrix)
{
    block_mask m;
    const int masks = named->masks, Nq = named->q_len, Nk = named->kv_len;
    unsigned char *visible = calloc((size_t)masks * (size_t)Nq * (size_t)Nk, 1);
    for (int row = 0; row < masks * Nq; row++)
        for (int j = 0; j < Nk; j++)
            if (wb_named_mask_sees(named, row / Nq, row % Nq, j)) visible[row * Nk + j] = (unsigned char)(1 + j % 255);
    cr_assert((matrix ? wb_block_mask_from_matrix(&m, q_tile, kv_tile, masks, Nq, Nk, visible)
                      : wb_block_mask_build(&m, q_tile, kv_tile, masks, Nq, Nk, wb_named_mask_sees, named)) == WB_OK);
    free(visible);
    const int q_tiles = (named->q_len - 1) / q_tile + 1, kv_tiles = (named->kv_len - 1) / kv_tile + 1;
    cr_assert(m.q_tile == q_tile && m.kv_tile == kv_tile && m.masks == named->masks);
    for (int b = 0; b < named->masks; b++) {
        const int first = b * (q_tiles + 1);
        if (b > 0)
            cr_assert(m.whole_start[first] == m.whole_start[first - 1] &&
                      m.part_start[first] == m.part_start[first - 1]);
        for (int i = 0; i < named->q_len; i++)
            for (int j = 0; j < named->kv_len; j++)
                cr_assert(listed(&m, first + i / q_tile, i, j) == !!wb_named_mask_sees(named, b, i, j),
                          "%s: mask %d, query %d, key %d", wb_mask_names[named->name], b, i, j);
        for (int t = 0; t < q_tiles; t++) {
            bool *seen = calloc((size_t)kv_tiles, sizeof *seen);
            for (int side = 0; side < 2; side++) {
                const int *start = side ? m.part_start : m.whole_start, *list = side ? m.part : m.whole;
                for (int n = start[first + t]; n < start[first + t + 1]; n++) {
                    cr_assert(list[n] >= 0 && list[n] < kv_tiles && !seen[list[n]],
                              "a listed tile does not exist, or is listed twice");
                    seen[list[n]] = true;
                    if (side) check_part(&m, named, t, n);
                    if (!side)
                        cr_assert((list[n] + 1) * kv_tile <= named->kv_len, "a full tile has keys that do not exist");
                }
            }
            free(seen);
        }
    }
    wb_block_mask_free(&m);
    cr_assert(!m.bits && !m.whole_start && !m.whole && !m.part_start && !m.part);
}

Test(block_mask, lists_say_what_the_function_says)
{
    const int lengths[][2] = {{128, 128}, {1, 1}, {70, 200}, {200, 70}, {129, 65}, {256, 300}};
    for (int name = 0; name < WB_MASK_NAMES; name++)
        for (size_t n = 0; n < COUNT(lengths); n++) {
            const int size = n % 2 ? 0 : 5 * (int)n;  // 0: as the mask has it
            wb_named_mask m = drawn((wb_mask_name)name, size, 3 + n, n % 2 ? 1 : 3, lengths[n][0], lengths[n][1]);
            check_lists(&m, n % 2 ? 64 : 128, 64, false);
            check_lists(&m, 16, 32, true);
            wb_named_mask_free(&m);
        }
}

Test(block_mask, bad_arguments)
{
    const wb_named_mask named = {.name = WB_MASK_FULL};
    block_mask m;
    const int good[] = {64, 64, 1, 10, 10};
    for (int k = 0; k < 5; k++)
        for (int value = 0; value >= -1; value--) {
            int size[5];
            for (int n = 0; n < 5; n++) size[n] = n == k ? value : good[n];
            cr_assert(wb_block_mask_build(&m, size[0], size[1], size[2], size[3], size[4], wb_named_mask_sees,
                                          &named) == WB_BAD_ARGUMENT);
        }
    cr_assert(wb_block_mask_build(&m, 64, 48, 1, 10, 10, wb_named_mask_sees, &named) == WB_BAD_ARGUMENT);
    cr_assert(wb_block_mask_build(&m, 64, 64, 1, 10, 10, NULL, &named) == WB_BAD_ARGUMENT);
    cr_assert(wb_block_mask_build(NULL, 64, 64, 1, 10, 10, wb_named_mask_sees, &named) == WB_BAD_ARGUMENT);
    cr_assert(wb_block_mask_from_matrix(&m, 64, 64, 1, 10, 10, NULL) == WB_BAD_ARGUMENT);
    cr_assert(wb_block_mask_build(&m, 1, 32, 65535, 1 << 20, 1 << 20, wb_named_mask_sees, &named) == WB_BAD_ARGUMENT);
}

// The lesson's example: 200 queries, 160 keys, a causal mask whose last query is the last key's.
Test(block_mask, lists_of_the_lesson)
{
    const wb_named_mask named = {.name = WB_MASK_CAUSAL, .masks = 1, .q_len = 200, .kv_len = 160};
    block_mask m;
    cr_assert(wb_block_mask_build(&m, 128, 64, 1, 200, 160, wb_named_mask_sees, &named) == WB_OK);
    cr_expect_arr_eq(m.whole_start, ((int[]){0, 0, 1}), 3 * sizeof(int));
    cr_expect_arr_eq(m.part_start, ((int[]){0, 2, 4}), 3 * sizeof(int));
    cr_expect_arr_eq(m.whole, ((int[]){0}), sizeof(int));
    cr_expect_arr_eq(m.part, ((int[]){0, 1, 1, 2}), 4 * sizeof(int));
    wb_block_mask_free(&m);
}

// The lesson's table of what masks cost: N = 8192, seed 7.
Test(block_mask, counts_of_the_lesson)
{
    const struct {
        wb_mask_name name;
        int size, wholes, parts;
        double computed[2];  // scores for one that is needed, with tiles of 128 queries and of 64
    } all[] = {{WB_MASK_DOCUMENTS, 1024, 441, 299, {1.28, 1.17}},
               {WB_MASK_DOCUMENTS, 128, 1, 229, {2.86, 2.20}},
               {WB_MASK_WINDOW, 128, 0, 254, {2.00, 1.50}},
               {WB_MASK_STRIDED, 512, 672, 128, {1.09, 1.04}},
               {WB_MASK_PREFIX, 2048, 4104, 120, {1.01, 1.01}}};
    for (size_t k = 0; k < COUNT(all); k++)
        for (int small = 0; small < 2; small++) {
            wb_case c = {
                .shape = {.batch = 1, .q_heads = 1, .kv_heads = 1, .q_len = 8192, .kv_len = 8192, .head_dim = 64},
                .seed = 7,
                .mask = all[k].name,
                .mask_size = all[k].size,
                .masks = 1,
                .q_tile = small ? 64 : 128,
                .kv_tile = 64};
            const block_mask *m = &wb_case_mask_of(&c)->lists;
            const int end = 8192 / c.q_tile, wholes = m->whole_start[end], parts = m->part_start[end];
            const double needed = wb_case_visible_pairs(wb_find_problem("flash_block_mask"), &c);
            const double computed = (wholes + parts) * 64.0 * c.q_tile / needed;
            if (!small)
                cr_expect(wholes == all[k].wholes && parts == all[k].parts, "%s: %d, %d", wb_mask_names[c.mask], wholes,
                          parts);
            cr_expect(computed > all[k].computed[small] - 0.005 && computed < all[k].computed[small] + 0.005,
                      "%s: %.4f", wb_mask_names[c.mask], computed);
        }
}

// As text; what a case says twice is the same mask, and other words another.
Test(block_mask, cases)
{
    const wb_problem *problem = wb_find_problem("flash_block_mask");
    wb_case c, again;
    cr_assert(wb_case_parse(problem, "B=2,Hq=4,Hkv=2,Nq=300,D=64,mask=tree/20,masks=2,q_tile=64", &c) == WB_OK);
    cr_expect(c.mask == WB_MASK_TREE && c.mask_size == 20 && c.masks == 2 && c.q_tile == 64 && c.kv_tile == 64);
    cr_expect(wb_case_sees(&c, 1, 299, 299) && !wb_case_sees(&c, 0, 298, 299));
    const char *const bad[] = {"Nq=9,D=64,mask=trees", "Nq=9,D=64,mask=tree/", "Nq=9,D=64,mask=tree/0",
                               "Nq=9,D=64,mask=tree/2x", "Nq=60000000,Nk=60000000,D=64"};
    for (size_t k = 0; k < COUNT(bad); k++)
        cr_expect(wb_case_parse(problem, bad[k], &again) == WB_BAD_ARGUMENT, "%s", bad[k]);

    double pairs = 0;
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 300; i++)
            for (int j = 0; j < 300; j++) pairs += wb_case_sees(&c, b, i, j);
    cr_expect(wb_case_visible_pairs(problem, &c) == pairs / 2);
}
