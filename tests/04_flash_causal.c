// 04_flash_causal.c - what flash_causal must do: query i sees the keys 0 to i.
#include "bad_input.h"
#include "harness.h"

TEST_PROBLEM(flash_causal)

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int head_dims[] = {16, 32, 64, 128};

static wb_case of(int batch, int heads, int N, int D)
{
    return (wb_case){.shape = {.batch = batch, .q_heads = heads, .q_len = N, .head_dim = D}};
}

static void check(int batch, int heads, int N, int D) { check_case(of(batch, heads, N, D)); }

// Six tokens, as the lesson computes them: the first sees itself alone, so its output is its value; the second sees two keys.
// Two columns, padded with zeros to 16. In the first row a mask with < for <= would leave nothing.
Test(flash_causal, worked_by_hand)
{
    wb_case c = of(1, 1, 6, 16);
    c.shape.scale = 0.70710678f;
    c.input = WB_WORKED_2;
    const double O[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.449, 0.551};
    check_worked(c, "O", O, COUNT(O), 4e-3);
    check_worked(c, "L", (double[]){0.4596, 0.9211}, 2, 3e-3);
}

Test(flash_causal, one_token)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check(1, 2, 1, head_dims[d]);
}

// Nothing but a diagonal tile.
Test(flash_causal, one_tile)
{
    check(1, 1, 64, 64);
    check(1, 1, 128, 64);
}

Test(flash_causal, two_tiles) { check(1, 1, 256, 64); }

Test(flash_causal, many_tiles) { check(1, 1, 768, 64); }

Test(flash_causal, every_head_dim)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check(1, 2, 384, head_dims[d]);
}

// Around the sizes that matter: a fragment of 8 and 16; tiles of 32, 48, 64 and 128; and primes. With two heads, a row written
// beyond the end of one head is the next head's first row.
Test(flash_causal, ragged)
{
    const int N[] = {2,  3,  7,  8,  9,   15,  16,  17,  31,  33,  47,  48,  49,  61,
                     63, 65, 95, 97, 113, 127, 129, 131, 143, 145, 191, 193, 255, 257};
    for (size_t i = 0; i < COUNT(N); i++) check(1, 2, N[i], head_dims[i % 4]);
    for (size_t i = 0; i < COUNT(N); i++) check(1, 2, N[i], head_dims[(i + 2) % 4]);
}

Test(flash_causal, ragged_and_long)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check(1, 1, 389, head_dims[d]), check(1, 1, 521, head_dims[d]);
}

Test(flash_causal, heads_and_batches)
{
    check(1, 5, 130, 32);
    check(5, 1, 70, 16);
    check(3, 4, 101, 64);
    check(2, 3, 65, 128);
}

// The lengths of the longest walks, in whatever order the blocks start, over more heads than one row of the grid may want.
Test(flash_causal, very_many_heads)
{
    check(1, 300, 5, 16);
    check(300, 1, 3, 16);
    check(3, 11, 150, 16);
}

// Among them WB_RISING: hidden keys tower up to 200 above all visible ones, so a mask that comes after exp, or a weight of 0
// that has already moved the maximum, shows.
Test(flash_causal, every_input)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check_every_input(of(1, 2, 299, head_dims[d]));
}

Test(flash_causal, every_input_in_one_tile)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check_every_input(of(1, 1, 41, head_dims[d]));
}

Test(flash_causal, scales)
{
    const float scales[] = {1, 0.3f, 0.01f, 3, 1e-6f};
    for (size_t i = 0; i < COUNT(scales); i++) {
        wb_case c = of(1, 2, 131, head_dims[i % 4]);
        c.shape.scale = scales[i];
        check_case(c);
    }
}

// Weights sum up to 1, so V = 1 gives O = 1.
Test(flash_causal, values_of_one)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) {
        wb_case c = of(1, 2, 301, head_dims[d]);
        c.input = WB_ONES;
        check_case(c);
    }
}

Test(flash_causal, other_seeds)
{
    for (uint64_t seed = 2; seed < 6; seed++) {
        wb_case c = of(2, 2, 110, 64);
        c.seed = seed;
        check_case(c);
    }
}

// The assignment's own shapes; on the CPU layer a quarter of the heads and of the length.
Test(flash_causal, assignment)
{
    const int shapes[][2] = {{8, 512}, {8, 1024}, {16, 2048}, {16, 4096}};
    const int part = on_cpu_backend() ? 4 : 1;
    for (size_t i = 0; i < COUNT(shapes); i++) check(1, shapes[i][0] / part, shapes[i][1] / part, 16);
}

// A long way over the keys.
Test(flash_causal, many_tokens) { check(1, 1, on_cpu_backend() ? 2003 : 20011, 64); }

// window and sinks belong to later problems: whatever they are, they are not read.
Test(flash_causal, other_fields_are_not_read)
{
    wb_case c = of(1, 2, 150, 32);
    c.shape.window = -3;
    c.shape.sinks = -3;
    check_case(c);
    c.shape.window = 5;
    c.shape.sinks = 2;
    check_case(c);
}

// See harness.h: tiles right of the diagonal are not computed, nor loaded.
Test(flash_causal, hidden_tiles_are_not_computed)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check_skips(of(1, 1, 640, head_dims[d]), 128);
    check_skips(of(2, 2, 577, 16), 100);
}

Test(flash_causal, hidden_tiles_are_not_loaded)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check_reads(of(1, 2, 1024, head_dims[d]));
    check_reads(of(1, 1, 999, 16));
}

// See harness.h: sizes that change with the seed.
Test(flash_causal, drawn_sizes) { check_drawn(2100); }

// On a stream of the caller's, inputs that arrive there late.
Test(flash_causal, own_stream) { check_stream(of(2, 2, 150, 64)); }

Test(flash_causal, same_twice)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check_same_twice(of(1, 1, 420, head_dims[d]));
}

// Nothing but inputs and outputs in device memory: S of this case alone would be 256 KB.
Test(flash_causal, memory)
{
    check_memory(of(1, 1, 256, 64), 0, (size_t)64 << 20);
    check_memory(of(2, 2, 129, 128), 0, (size_t)64 << 20);
    // A matrix of scores would be 25 MiB, half of it in bf16, wherever it lay.
    check_memory(of(1, 1, 2560, 16), 0, (size_t)64 << 20);
}

// Tensors may start at any multiple of 16 bytes.
Test(flash_causal, shifted_tensors)
{
    for (int offset = 16; offset <= 48; offset += 16) {
        wb_case c = of(1, 2, 53, head_dims[offset / 16]);
        c.offset = offset;
        check_case(c);
    }
}

Test(flash_causal, bad_input_null) { refuses_null(); }
Test(flash_causal, bad_input_sizes) { refuses_sizes(); }
Test(flash_causal, bad_input_scale) { refuses_scales(); }
Test(flash_causal, bad_input_mask) { refuses_what_is_not_causal(); }
Test(flash_causal, bad_input_alignment) { refuses_misaligned(); }
Test(flash_causal, bad_input_groups) { REFUSED(kv_heads, 1, WB_UNSUPPORTED, "grouped"); }
