// block_mask.c - the lists of a block mask, and the cases that have one.
#include "case/case.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static wb_named_mask drawn(wb_mask_name name, int size, uint64_t seed, int masks, int q_len, int kv_len)
{
    wb_named_mask m = {.name = name, .size = size, .seed = seed, .masks = masks, .q_len = q_len, .kv_len = kv_len};
    wb_named_mask_draw(&m);
    return m;
}

static void same(const int *a, const int *b, int count) { cr_assert_arr_eq(a, b, (size_t)count * sizeof *a); }

// Of a byte a pair the same lists are made as of the function. What these say the suite of 15 proves, whose oracle asks
// the function and whose kernels read lists; and that no tile is too many the lesson's counts.
Test(block_mask, of_a_matrix)
{
    const int lengths[][2] = {{128, 128}, {1, 1}, {70, 200}, {200, 70}, {129, 65}, {256, 300}};
    for (int name = 0; name < WB_MASK_NAMES; name++)
        for (size_t n = 0; n < COUNT(lengths); n++) {
            const int Nq = lengths[n][0], Nk = lengths[n][1], masks = n % 2 ? 1 : 3, q_tile = n % 2 ? 64 : 16;
            wb_named_mask named = drawn((wb_mask_name)name, n % 2 ? 0 : 5 * (int)n, 3 + n, masks, Nq, Nk);
            block_mask a, b;
            unsigned char *visible = calloc((size_t)(masks * Nq), (size_t)Nk);
            for (int row = 0; row < masks * Nq; row++)
                for (int j = 0; j < Nk; j++)
                    if (wb_named_mask_sees(&named, row / Nq, row % Nq, j))
                        visible[row * Nk + j] = (unsigned char)(1 + j % 255);
            cr_assert(wb_block_mask_build(&a, q_tile, 32, masks, Nq, Nk, wb_named_mask_sees, &named) == WB_OK);
            cr_assert(wb_block_mask_from_matrix(&b, q_tile, 32, masks, Nq, Nk, visible) == WB_OK);
            const int starts = masks * ((Nq - 1) / q_tile + 2), wholes = a.whole_start[starts - 1],
                      parts = a.part_start[starts - 1];
            same(a.whole_start, b.whole_start, starts), same(a.part_start, b.part_start, starts);
            same(a.whole, b.whole, wholes), same(a.part, b.part, parts);
            same((int *)a.bits, (int *)b.bits, parts * q_tile);
            free(visible), wb_block_mask_free(&a), wb_block_mask_free(&b), wb_named_mask_free(&named);
            cr_assert(!a.bits && !a.whole_start && !a.whole && !a.part_start && !a.part);
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
