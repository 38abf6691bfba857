// 15_flash_block_mask.c - what flash_block_mask must do: each query sees what the mask's function says, whose lists it
// is given, and nothing of any other tile is loaded. The oracle asks the function and never reads a list.
#include "harness.h"

// With tiles of 128 queries and of 64: kernels of their own.
static void check_tiles(wb_case c)
{
    check_case(c);
    c.q_tile = 64;
    check_case(c);
}

#define CHECK_CASE check_tiles
#include "contract.h"

TEST_PROBLEM(flash_block_mask)

static wb_case of(int B, int Hq, int Hkv, int Nq, int Nk, int D, wb_mask_name mask, int size)
{
    return (wb_case){.shape = {B, Hq, Hkv, Nq, Nk, .head_dim = D}, .mask = mask, .mask_size = size};
}

// With tiles of one of the two sizes: n and the seed say which. Of two neighbours each has another.
static void check_drawn_tiles(wb_case c, unsigned n)
{
    c.q_tile = (n + (unsigned)run_seed()) % 2 ? 64 : 128;
    check_case(c);
}

// Each sequence has a mask of its own.
static wb_case with_masks(wb_case c)
{
    c.masks = c.shape.batch;
    return c;
}

// Seven drafts that follow each other as in the lesson, no prompt; each sees the drafts on its way to the root, and
// itself. The first six are the tokens of problem 04's example, the seventh is zero: its four scores are 0.
Test(flash_block_mask, worked_by_hand)
{
    wb_case c = worked(of(1, 1, 1, 7, 7, 16, WB_MASK_TREE, 7));
    const double O[7][16] = {{1, 0},           {0.4489, 0.5511}, {0.7491, 0.2509}, {0.6230, 0.3770},
                             {0.4404, 0.5596}, {0.7019, 0.2981}, {0.525, 0.225}};
    for (c.q_tile = 64; c.q_tile <= 128; c.q_tile *= 2) {
        check_worked(c, "O", O[0], 7 * 16, 4e-3);
        check_worked(c, "L", (double[]){0.4596, 0.9211, 1.1846, 1.0714, 1.5380, 0.8737, 1.3863}, 7, 3e-3);
    }
}

// Tiles seen whole, and nothing else: no bit to be read.
Test(flash_block_mask, whole_tiles)
{
    EACH_D(check(1, 1, 1, 128, 64, D, WB_MASK_FULL, 0));
    check(1, 2, 2, 256, 192, 64, WB_MASK_FULL, 0);
    check(1, 1, 1, 130, 640, 32, WB_MASK_FULL, 0);
}

// One tile, seen in part.
Test(flash_block_mask, tile_in_part)
{
    EACH_D(check(1, 1, 1, 64, 64, D, WB_MASK_CAUSAL, 0), check(1, 1, 1, 60, 60, D, WB_MASK_TREE, 40));
}

// Each query sees one key: of each row one bit, and each bit in its turn.
Test(flash_block_mask, every_bit)
{
    EACH_D(check(1, 1, 1, 320, 320, D, WB_MASK_WINDOW, 1));
    check(1, 1, 1, 320, 351, 64, WB_MASK_WINDOW, 1);
}

// Some tiles whole, some in part, others not at all; of each more than one.
Test(flash_block_mask, many_tiles)
{
    EACH_D(check(1, 1, 1, 384, 320, D, WB_MASK_RANDOM, 0), check(1, 1, 1, 330, 330, D, WB_MASK_CAUSAL, 0));
    // On a GPU with less shared memory a block may have a part of a tile's queries.
    wb_case c = of(1, 2, 1, 300, 320, 128, WB_MASK_RANDOM, 0);
    c.shared_kb = 99;
    check_case(c);
}

Test(flash_block_mask, every_mask)
{
    for (unsigned mask = 0; mask < WB_MASK_NAMES; mask++)
        for (unsigned d = 0; d < head_dims(); d++)
            check_drawn_tiles(of(1, 1, 1, 200, 260, dim(d), (wb_mask_name)mask, 0), mask + d);
    // Which of the tiles that are seen whole are called parts is drawn, and some choices are rare.
    for (unsigned n = 0; n < 12; n++) {
        wb_case c = of(1, 1, 1, 130, 260, 16, WB_MASK_LOOSE, 0);
        c.seed = 12 * run_seed() + n;
        check_drawn_tiles(c, n);
    }
}

// Lists that are longer than a warp, a page of the list after the other.
Test(flash_block_mask, long_lists)
{
    check(1, 1, 1, 130, 4000, 32, WB_MASK_STRIDED, 70);
    check(1, 1, 1, 3, 17000, 16, WB_MASK_STRIDED, 70);
}

// Each sequence has a mask of its own, or all have one.
Test(flash_block_mask, a_mask_a_sequence)
{
    const wb_mask_name names[] = {WB_MASK_DOCUMENTS, WB_MASK_RANDOM, WB_MASK_TREE, WB_MASK_PADDED};
    for (unsigned k = 0; k < COUNT(names); k++) {
        const int N = k % 2 ? 150 : 128;  // whole tiles, too: a sequence's lists begin where the last one's end
        const wb_case c = of(3, 4, 2, N, N, dim(k), names[k], 0);
        check_drawn_tiles(c, k);
        check_drawn_tiles(with_masks(c), k + 1);
    }
    check_tiles(with_masks(of(260, 1, 1, 20, 70, 16, WB_MASK_RANDOM, 0)));
}

// O = 0 and L = -infinity: rows of tiles that are in no list, and rows within tiles that are.
Test(flash_block_mask, rows_that_see_nothing)
{
    EACH_D(check(2, 1, 1, 150, 90, D, WB_MASK_EMPTY, 0), check(1, 1, 1, 300, 300, D, WB_MASK_GAPS, 0));
    EACH_D(check(1, 1, 1, 300, 300, D, WB_MASK_PADDED, 0), check(1, 1, 1, 300, 100, D, WB_MASK_CAUSAL, 0));
}

// Keys end within a tile, within its first half, with it.
Test(flash_block_mask, end_of_keys)
{
    EACH_N(check(1, 1, 1, 70, N, D, WB_MASK_LAST, 0), check(1, 1, 1, 70, N, D, WB_MASK_RANDOM, 0));
}

Test(flash_block_mask, end_of_queries) { EACH_N(check(1, 2, 1, N, 150, D, WB_MASK_CAUSAL, 0)); }

// Among them WB_RISING and WB_FALLING: hidden keys tower above the visible ones, wherever those are.
Test(flash_block_mask, every_input)
{
    check_every_input(of(1, 1, 1, 260, 260, 64, WB_MASK_RANDOM, 0));
    check_every_input(of(1, 1, 1, 260, 260, 32, WB_MASK_GAPS, 0));
}

Test(flash_block_mask, scales) { check_scales(of(1, 2, 1, 200, 200, ANY_D, WB_MASK_RANDOM, 0)); }

Test(flash_block_mask, hidden_tiles_are_not_computed)
{
    wb_case c = of(1, 1, 1, 512, 512, ONE_D, WB_MASK_DOCUMENTS, 0),
            random = of(1, 1, 1, 512, 512, ONE_D, WB_MASK_RANDOM, 0);
    for (c.q_tile = 64; c.q_tile <= 128; c.q_tile *= 2) {
        random.q_tile = c.q_tile;
        if (run_seed() % 2 == 0 || !has_skips(random, 64)) check_skips(c, 160);  // some seeds hide no tile
    }
    check_skips(with_masks(of(2, 1, 1, 300, 300, 64, WB_MASK_DOCUMENTS, 30)), 100);
}

Test(flash_block_mask, hidden_tiles_are_not_loaded)
{
    const wb_mask_name names[] = {WB_MASK_DOCUMENTS, WB_MASK_RANDOM, WB_MASK_STRIDED};
    for (int n = 0; n < 2; n++) {
        wb_case c = of(1, 2, 1, 640, 640, dim(n + run_seed()), names[(n + run_seed()) % COUNT(names)], 200);
        c.q_tile = n % 2 ? 64 : 128;
        check_reads(c);
    }
    check_reads(of(1, 1, 1, 300, 3000, 64, WB_MASK_TREE, 300));
}

// The lists arrive late as well.
Test(flash_block_mask, own_stream) { check_stream(with_masks(of(2, 4, 2, 150, 150, 64, WB_MASK_DOCUMENTS, 0))); }

Test(flash_block_mask, same_twice) { check_same_twice(of(1, 2, 1, 320, 320, ONE_D, WB_MASK_RANDOM, 0)); }

// No mask written out, and no matrix of scores.
Test(flash_block_mask, memory)
{
    check_no_memory(of(1, 1, 1, SQUARE, SQUARE, 16, WB_MASK_DOCUMENTS, 100));
    check_beyond_int(of(1, 64, 64, 2, 300001, 128, WB_MASK_FULL, 0));
}

// The lists are shifted as well.
Test(flash_block_mask, shifted_tensors) { check_shifted(of(1, 4, 2, 153, 153, ANY_D, WB_MASK_RANDOM, 0)); }

Test(flash_block_mask, other_fields_are_not_read) { check_unread(of(1, 4, 2, 150, 150, 32, WB_MASK_DOCUMENTS, 0)); }

BAD_INPUT(flash_block_mask)

// Who sees whom is the mask's to say; of its tiles there are two sizes.
Test(flash_block_mask, bad_input_mask)
{
    REFUSED(shape.causal, 1, WB_UNSUPPORTED, "causal must be 0");
    REFUSED(masks, 0, WB_BAD_ARGUMENT, "masks");
    REFUSED(masks, 2, WB_BAD_ARGUMENT, "masks");
    REFUSED(q_tile, 0, WB_BAD_ARGUMENT, "q_tile");
    REFUSED(kv_tile, -64, WB_BAD_ARGUMENT, "kv_tile");
    REFUSED(q_tile, 32, WB_UNSUPPORTED, "q_tile");
    REFUSED(q_tile, 256, WB_UNSUPPORTED, "q_tile");
    REFUSED(kv_tile, 128, WB_UNSUPPORTED, "kv_tile");
}
