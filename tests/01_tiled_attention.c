// Problem 01, tiled attention on the CPU.
#include "contract.h"

TEST_PROBLEM(tiled_attention)

enum { TILE = 128 };

static wb_case of(int batch, int heads, int N, int D, int causal)
{
    return (wb_case){.shape = {.batch = batch, .q_heads = heads, .q_len = N, .head_dim = D, .causal = causal}};
}

// By hand, see the lesson: scores .5, .8, .1; weights .7408, 1, .4966; their sum 2.2374.
Test(tiled_attention, worked_one_query)
{
    const wb_case c = {.shape = {.q_len = 1, .kv_len = 3, .head_dim = 16, .scale = 1}, .input = WB_WORKED_1};
    check_worked(c, "O", (double[]){0.4421, 0.5579, 0}, 3, 1e-4);
    check_worked(c, "L", (double[]){1.6053}, 1, 1e-4);
}

// Six causal queries: the first sees one key, so its output is that key's V; the second sees two.
Test(tiled_attention, worked_causal)
{
    const wb_case c = worked((wb_case){.shape = {.q_len = 6, .head_dim = 16, .causal = 1}});
    const double O[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.4489, 0.5511};
    check_worked(c, "O", O, 18, 1e-4);
    check_worked(c, "L", (double[]){0.4596, 0.9211}, 2, 1e-4);
}

// Checkpoints on the way: O of one pair of tiles, of many, then L.
Test(tiled_attention, O_of_one_tile) { check_output((wb_case){.shape = {.q_len = TILE, .head_dim = 64}}, "O"); }

Test(tiled_attention, O_of_many_tiles)
{
    const wb_input inputs[] = {WB_NORMAL, WB_HUGE, WB_TINY, WB_EARLY_MAX, WB_LATE_MAX, WB_STAIRS};
    for (size_t n = 0; n < COUNT(inputs); n++)
        check_output((wb_case){.shape = {.q_len = TILE, .kv_len = 4 * TILE, .head_dim = 64}, .input = inputs[n]}, "O");
}

Test(tiled_attention, L_of_many_tiles)
{
    check_output((wb_case){.shape = {.q_len = TILE, .kv_len = 4 * TILE, .head_dim = 64}}, "L");
}

Test(tiled_attention, one_tile) { EACH_MASK(check(1, 1, TILE, 64, causal)); }

// One tile of queries against four tiles of keys: nothing but the online update.
Test(tiled_attention, many_key_tiles)
{
    check_case((wb_case){.shape = {.q_len = TILE, .kv_len = 4 * TILE, .head_dim = 64}});
}

Test(tiled_attention, many_tiles) { EACH_MASK(check(1, 1, 4 * TILE, 32, causal)); }
Test(tiled_attention, every_head_dim) { EACH_D(EACH_MASK(check(1, 2, 200, D, causal))); }
Test(tiled_attention, ragged) { EACH_N(EACH_MASK(check(1, 2, N, D, causal))); }

// Logits beyond 88, all far below 0, the maximum in the first tile or the last, towers behind the mask, ...
Test(tiled_attention, hostile_numbers)
{
    check_every_input((wb_case){.shape = {.q_len = 300, .kv_len = 389, .head_dim = 64}});
    check_every_input((wb_case){.shape = {.q_len = 16, .kv_len = 1000, .head_dim = 128}});
}

// In one tile too: there rising logits put keys 200 above the visible ones behind the mask.
Test(tiled_attention, hostile_numbers_causal)
{
    check_every_input(of(1, 1, TILE, 64, 1));
    check_every_input(of(1, 1, 389, 64, 1));
}

Test(tiled_attention, other_scales) { check_scales(of(1, 1, 200, ANY_D, 1)); }

// Pointers of float32 need no more than 4 bytes of alignment.
Test(tiled_attention, any_alignment)
{
    wb_case c = of(1, 2, 150, 64, 1);
    c.offset = 4;
    check_case(c);
}

// Tiles of hidden keys are skipped: NaN in V of a block of keys reaches no query far before it.
Test(tiled_attention, hidden_tiles_are_skipped)
{
    check_skips(of(1, 2, 5 * TILE, 16, 1), TILE);
    check_skips(of(1, 1, 5 * TILE + 37, 32, 1), 50);
}

// Nor are they read: the first queries do not touch the last keys, whatever they would do with them.
Test(tiled_attention, hidden_tiles_are_not_read)
{
    check_reads(of(1, 2, 1024, 64, 1));
    check_reads(of(1, 1, 1500, 16, 1));
}

Test(tiled_attention, same_twice) { check_same_twice(of(2, 3, 389, 64, 1)); }

// One thread, and more than there are cores.
Test(tiled_attention, any_number_of_threads)
{
    const char *const numbers[] = {"1", "3", "8"};
    for (int n = 0; n < 3; n++) {
        setenv("OPENBLAS_NUM_THREADS", numbers[n], 1);
        check_case_alone(of(1, 3, 389, 32, n % 2));
    }
}

// A single tile of queries needs the same memory whether it sees 4096 keys or 65536. Its scores alone would be 32 MiB.
Test(tiled_attention, memory_does_not_grow)
{
    const size_t MiB = 1 << 20;
    setenv("OPENBLAS_NUM_THREADS", "2", 1);
    check_memory((wb_case){.shape = {.q_len = TILE, .kv_len = 4096, .head_dim = 16}}, 0, 4 * MiB);
    check_memory((wb_case){.shape = {.q_len = TILE, .kv_len = 65536, .head_dim = 16}}, 0, 4 * MiB);
}

// The score matrix of a head would be 36 MiB.
Test(tiled_attention, memory_of_a_square)
{
    setenv("OPENBLAS_NUM_THREADS", "2", 1);
    EACH_MASK(check_memory(of(1, 1, 3072, 16, causal), 0, 4 << 20));
}

Test(tiled_attention, bad_pointers)
{
    refuses_null();
    REFUSED(offset, 2, WB_BAD_ARGUMENT, "aligned");
}
Test(tiled_attention, bad_sizes)
{
    refuses_sizes();
    REFUSED(shape.kv_len, 10, WB_BAD_ARGUMENT, "causal");
}
Test(tiled_attention, bad_scale) { refuses_scales(); }
Test(tiled_attention, bad_unsupported)
{
    refuses_head_dims();
    REFUSED(shape.kv_heads, 1, WB_UNSUPPORTED, "kv_heads");
    wb_case c = good_case();
    c.shape.batch = 65536, c.shape.q_len = c.shape.kv_len = 1;
    check_rejected(c, WB_UNSUPPORTED, "batch");
}
