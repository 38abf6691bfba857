// 13_flash_decode.c - flash_decode: equal shares of all keys, pages, packed rows, the merge.
#include "bad_input.h"

TEST_PROBLEM(flash_decode)

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int head_dims[] = {16, 32, 64, 128};

static wb_case of(int B, int Hq, int Hkv, int Nq, int Nk, int D, int page, wb_lens lens)
{
    return (wb_case){.page = page,
                     .lens = lens,
                     .shape = {.batch = B, .q_heads = Hq, .kv_heads = Hkv, .q_len = Nq, .kv_len = Nk, .head_dim = D}};
}

static void check(int B, int Hq, int Hkv, int Nq, int Nk, int D, int page, wb_lens lens)
{
    check_case(of(B, Hq, Hkv, Nq, Nk, D, page, lens));
}

// The lesson's six keys, and its two new tokens.
Test(flash_decode, worked_by_hand)
{
    wb_case c = of(1, 1, 1, 1, 6, 16, 16, WB_LENS_SAME);
    c.shape.scale = 0.70710678f;
    c.input = WB_WORKED_2;
    check_worked(c, "O", (double[]){0.5084, 0.4916}, 2, 4e-3);
    check_worked(c, "L", (double[]){2.1957}, 1, 4e-3);
    c.shape.q_len = 2;
    check_worked(c, "O", (double[]){0.4919, 0.5081}, 2, 4e-3);
    check_worked(c, "L", (double[]){2.0296, 2.0040}, 2, 4e-3);
}

Test(flash_decode, one_tile)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check(1, 1, 1, 1, 64, head_dims[d], 64, WB_LENS_SAME);
    for (size_t d = 0; d < COUNT(head_dims); d++) check(1, 1, 1, 1, 16, head_dims[d], 16, WB_LENS_SAME);
}

Test(flash_decode, one_key) { check(2, 2, 2, 1, 1, 64, 16, WB_LENS_SAME); }

// More tiles than blocks, so that a block's share is a part of a head, and fewer.
Test(flash_decode, long_sequence)
{
    for (size_t d = 0; d < COUNT(head_dims); d++) check(1, 1, 1, 1, 3000 + (int)d, head_dims[d], 64, WB_LENS_SAME);
    check(1, 2, 2, 1, 700, 64, 16, WB_LENS_SAME);
    check(1, 2, 2, 1, 200, 64, 16, WB_LENS_SAME);
}

// What one block a head would read alone.
Test(flash_decode, keys_are_shared) { check_shares(of(1, 4, 1, 2, 3000, 128, 64, WB_LENS_SAME)); }

// As on an H200: a sequence has more parts than a warp has lanes, and of many sequences no team has more than a tile.
Test(flash_decode, many_processors)
{
    wb_case c = of(1, 1, 1, 1, 9100, 16, 16, WB_LENS_SAME);
    c.processors = 132;
    check_case(c);
    c = of(9, 2, 1, 2, 600, 64, 32, WB_LENS_MIXED);
    c.processors = 132;
    check_case(c);
}

Test(flash_decode, every_length)
{
    const int N[] = {2, 7, 15, 17, 31, 33, 47, 49, 63, 64, 65, 79, 95, 127, 128, 129, 191, 193, 255, 257, 511, 513};
    for (size_t i = 0; i < COUNT(N); i++) check(1, 2, 1, 1, N[i], head_dims[i % 4], 16 << i % 5, WB_LENS_SAME);
}

Test(flash_decode, every_page_size)
{
    for (int page = 16; page <= 256; page *= 2) check(3, 2, 1, 1, 600, 64, page, WB_LENS_SAME);
    for (int page = 16; page <= 256; page *= 2) check(3, 2, 2, 1, 333, 16, page, WB_LENS_MIXED);
    wb_case c = of(2, 2, 1, 1, 512, 64, 64, WB_LENS_SAME);
    c.pages = 16, c.max_pages = 8;  // none to spare
    check_case(c);
}

// Sequences of other lengths, none among them: shares begin and end anywhere.
Test(flash_decode, mixed_lengths)
{
    check(7, 2, 1, 1, 900, 64, 32, WB_LENS_MIXED);
    check(33, 1, 1, 1, 300, 16, 16, WB_LENS_MIXED);
    check(12, 4, 2, 1, 2000, 32, 128, WB_LENS_ZIPF);
    for (int page = 16; page <= 256; page *= 4) check(17, 2, 1, 1, 2 * page + 1, 32, page, WB_LENS_EDGES);
}

// Any number of key heads, more than run at a time too, with one tile of rows each or several: no number of blocks is a multiple of all of them.
Test(flash_decode, every_number_of_heads)
{
    const int heads[] = {3, 5, 7, 9, 11, 40};
    for (size_t i = 0; i < COUNT(heads); i++) check(2, heads[i], heads[i], 1, 400, head_dims[i % 4], 32, WB_LENS_MIXED);
    check(1, 6, 3, 1, 700, 64, 32, WB_LENS_SAME);
    check(2, 15, 3, 9, 330, 16, 16, WB_LENS_MIXED);  // 45 rows a head
    check(1, 24, 3, 12, 500, 32, 64, WB_LENS_SAME);  // 96
    check(2, 20, 20, 16, 200, 16, 16, WB_LENS_SAME);
}

// More sequences than a warp has lanes, or a block threads.
Test(flash_decode, many_sequences)
{
    check(1030, 1, 1, 1, 3, 16, 16, WB_LENS_MIXED);
    check(100, 1, 1, 1, 40, 16, 16, WB_LENS_MIXED);
    check(65, 2, 2, 1, 20, 16, 16, WB_LENS_SAME);
}

Test(flash_decode, no_keys)
{
    check(1, 1, 1, 1, 50, 64, 16, WB_LENS_EMPTY);
    check(40, 4, 2, 3, 50, 32, 16, WB_LENS_EMPTY);
}

Test(flash_decode, every_group_size)
{
    const int group[] = {1, 2, 3, 5, 8, 15, 16, 17, 33};
    for (size_t i = 0; i < COUNT(group); i++) check(2, 2 * group[i], 2, 1, 170, head_dims[i % 4], 32, WB_LENS_MIXED);
}

// Query i sees keys up to its own; with fewer keys than tokens the first see none.
Test(flash_decode, new_tokens)
{
    for (int Nq = 1; Nq <= 16; Nq++) check(2, 2, 1, Nq, 90 + Nq, head_dims[Nq % 4], 16, WB_LENS_SAME);
    for (int Nq = 2; Nq <= 16; Nq += 7) check(3, 8, 2, Nq, 400, 64, 64, WB_LENS_MIXED);
}

Test(flash_decode, fewer_keys_than_tokens)
{
    for (int Nk = 1; Nk <= 16; Nk += 5) check(1, 3, 1, 16, Nk, 32, 16, WB_LENS_SAME);
    check(17, 2, 1, 16, 70, 16, 32, WB_LENS_EDGES);
}

// The last tile of a sequence may be a part of its own, in which the first tokens see nothing.
Test(flash_decode, parts_that_see_nothing)
{
    for (int over = 1; over <= 13; over += 4) check(1, 1, 1, 16, 64 * 8 + over, 64, 64, WB_LENS_SAME);
    for (int over = 1; over <= 13; over += 4) check(1, 2, 1, 9, 64 * 16 + over, 16, 16, WB_LENS_SAME);
}

Test(flash_decode, every_input)
{
    check_every_input(of(2, 4, 2, 2, 300, 64, 16, WB_LENS_MIXED));
    check_every_input(of(1, 2, 1, 1, 1100, 16, 64, WB_LENS_SAME));
}

Test(flash_decode, scales)
{
    const float scales[] = {0.001f, 0.7f, 3};
    for (size_t i = 0; i < COUNT(scales); i++) {
        wb_case c = of(2, 4, 2, 3, 260, head_dims[i], 32, WB_LENS_MIXED);
        c.shape.scale = scales[i];
        check_case(c);
    }
}

Test(flash_decode, other_seeds)
{
    for (uint64_t seed = 2; seed < 6; seed++) {
        wb_case c = of(5, 8, 2, 2, 500, 64, 64, WB_LENS_MIXED);
        c.seed = seed;
        check_case(c);
    }
}

// A layer of a model with 64 query heads over 8; on the CPU layer an eighth of it.
Test(flash_decode, layer_of_a_model)
{
    const int part = on_cpu_backend() ? 8 : 1;
    check(4, 64 / part, 8 / part, 1, on_cpu_backend() ? 1000 : 8192, 128, 64, WB_LENS_SAME);
    check(9, 64 / part, 8 / part, 1, on_cpu_backend() ? 1500 : 20000, 128, 64, WB_LENS_ZIPF);
}

// See harness.h: sizes that change with the seed.
Test(flash_decode, drawn_sizes) { check_drawn(1500); }

// On a stream of the caller's, inputs that arrive there late, lengths and table among them.
Test(flash_decode, own_stream) { check_stream(of(3, 4, 2, 1, 350, 64, 16, WB_LENS_MIXED)); }

Test(flash_decode, same_twice)
{
    for (size_t d = 0; d < COUNT(head_dims); d++)
        check_same_twice(of(3, 4, 2, 2, 900, head_dims[d], 64, WB_LENS_MIXED));
}

// Nothing but inputs, outputs and the workspace in device memory, and that no larger for longer sequences or more of them.
Test(flash_decode, memory)
{
    check_memory(of(2, 4, 2, 1, 400, 64, 16, WB_LENS_SAME), 0, (size_t)64 << 20);
    check(1, 64, 1, 16, 8300, 16, 16, WB_LENS_SAME);  // 32 MiB hold less than these scores
    const size_t small = measure_memory(of(1, 2, 1, 1, 20, 64, 16, WB_LENS_SAME)).workspace_bytes;
    const size_t large = measure_memory(of(6, 2, 1, 1, 4000, 64, 16, WB_LENS_SAME)).workspace_bytes;
    cr_assert(small == large, "the workspace of one sequence of 20 keys has %zu bytes, that of 6 of 4000 has %zu",
              small, large);
    for (int Nq = 1; Nq <= 16; Nq += 15) {
        const size_t bytes = measure_memory(of(2, 24, 3, Nq, 100, 128, 16, WB_LENS_SAME)).workspace_bytes;
        cr_assert(bytes <= (size_t)32 << 20, "the workspace has %zu bytes", bytes);
    }
}

// Tensors may start at any multiple of 16 bytes.
Test(flash_decode, shifted_tensors)
{
    for (int offset = 16; offset <= 48; offset += 16) {
        wb_case c = of(2, 4, 2, 2, 273, head_dims[offset / 16], 32, WB_LENS_MIXED);
        c.offset = offset;
        check_case(c);
    }
}

static wb_case good_decode(void)
{
    wb_case c = of(2, 2, 2, 2, 40, 16, 16, WB_LENS_SAME);
    c.shape.scale = 0.25f;
    c.pages = c.max_pages = 10;
    return c;
}

#define REFUSED_DECODE(field, value, status, word)                                                                     \
    do {                                                                                                               \
        wb_case spoiled = good_decode();                                                                               \
        spoiled.field = value;                                                                                         \
        check_rejected(spoiled, status, word);                                                                         \
    } while (0)

Test(flash_decode, bad_input_null)
{
    static const char *const names[] = {"O", "L", "Q", "K", "V", "page_table", "kv_len", "workspace"};
    for (size_t n = 0; n < COUNT(names); n++) {
        wb_case c = good_decode();
        char word[32];
        strcpy(c.null, names[n]);
        snprintf(word, sizeof word, "%s is null", names[n]);
        check_rejected(c, WB_BAD_ARGUMENT, word);
    }
}

Test(flash_decode, bad_input_sizes)
{
    REFUSED_DECODE(shape.batch, 0, WB_BAD_ARGUMENT, "batch");
    REFUSED_DECODE(shape.q_heads, -1, WB_BAD_ARGUMENT, "q_heads");
    REFUSED_DECODE(shape.kv_heads, 0, WB_BAD_ARGUMENT, "kv_heads");
    REFUSED_DECODE(shape.q_heads, 3, WB_BAD_ARGUMENT, "multiple");
    REFUSED_DECODE(shape.q_len, 0, WB_BAD_ARGUMENT, "q_len");
    REFUSED_DECODE(shape.q_len, 17, WB_UNSUPPORTED, "q_len");
    REFUSED_DECODE(shape.head_dim, 48, WB_UNSUPPORTED, "head_dim");
    REFUSED_DECODE(page, 8, WB_UNSUPPORTED, "page_size");
    REFUSED_DECODE(page, 48, WB_UNSUPPORTED, "page_size");
    REFUSED_DECODE(page, 512, WB_UNSUPPORTED, "page_size");
    REFUSED_DECODE(page, -16, WB_BAD_ARGUMENT, "page_size");
    REFUSED_DECODE(pages, -1, WB_BAD_ARGUMENT, "pages");
    REFUSED_DECODE(max_pages, -1, WB_BAD_ARGUMENT, "max_pages");
}

Test(flash_decode, bad_input_scale)
{
    REFUSED_DECODE(shape.scale, NAN, WB_BAD_ARGUMENT, "scale");
    REFUSED_DECODE(shape.scale, -1, WB_BAD_ARGUMENT, "scale");
}

Test(flash_decode, bad_input_workspace) { REFUSED_DECODE(short_workspace, 1, WB_BAD_ARGUMENT, "workspace has"); }

Test(flash_decode, bad_input_alignment) { REFUSED_DECODE(offset, 8, WB_BAD_ARGUMENT, "aligned"); }
