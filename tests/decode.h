// decode.h - what is asked of a kernel that decodes from a paged cache, whatever the cache holds: 13 and 14. A suite
// names these tests one by one, PAGED(flash_decode, one_tile), and adds its own.
#pragma once

#include "contract.h"

// Gives a suite the test `name` of this file.
#define PAGED(suite, name)                                                                                             \
    Test(suite, name) { name(); }

static inline wb_case of(int B, int Hq, int Hkv, int Nq, int Nk, int D, int page, wb_lens lens)
{
    return (wb_case){.shape = {B, Hq, Hkv, Nq, Nk, .head_dim = D}, .page = page, .lens = lens};
}

static inline void one_tile(void)
{
    EACH_D(check(1, 1, 1, 1, 64, D, 64, WB_LENS_SAME), check(1, 2, 2, 1, 64, D, 64, WB_LENS_SAME));
    EACH_D(check(1, 1, 1, 1, 16, D, 16, WB_LENS_SAME));
}

static inline void one_key(void) { check(2, 2, 2, 1, 1, 64, 16, WB_LENS_SAME); }

// More tiles than blocks, so that a block's share is a part of a head, and fewer.
static inline void long_sequence(void)
{
    EACH_D(check(1, 1, 1, 1, 128, D, 64, WB_LENS_SAME), check(1, 1, 1, 1, 3000 + (int)each, D, 64, WB_LENS_SAME));
    check(1, 2, 2, 1, 700, 64, 16, WB_LENS_SAME);
    check(1, 2, 2, 1, 200, 64, 16, WB_LENS_SAME);
}

// What one block a head would read alone.
static inline void keys_are_shared(void)
{
    check_reads(of(1, 4, 1, 2, 3000, 128, 64, WB_LENS_SAME));
    wb_case c = of(1, 4, 1, 2, 132 * 128, 128, 64, WB_LENS_SAME);
    c.processors = 132;
    check_reads(c);
}

// As on an H200: a sequence has more parts than a warp has lanes, and of many sequences no team has more than a tile.
static inline void many_processors(void)
{
    wb_case c = of(1, 1, 1, 1, 9100, 16, 16, WB_LENS_SAME);
    c.processors = 132;
    check_case(c);
    c = of(9, 2, 1, 2, 600, 64, 32, WB_LENS_MIXED);
    c.processors = 132;
    check_case(c);
}

static inline void every_length(void)
{
    const int N[] = {2, 7, 15, 17, 31, 33, 47, 49, 63, 64, 65, 79, 95, 127, 128, 129, 191, 193, 255, 257, 511, 513};
    for (size_t i = 0; i < COUNT(N); i++) check(1, 2, 1, 1, N[i], dim(i), 16 << i % 5, WB_LENS_SAME);
}

static inline void every_page_size(void)
{
    for (int page = 16; page <= 256; page *= 2) check(3, 2, 1, 1, 600, 64, page, WB_LENS_SAME);
    for (int page = 16; page <= 256; page *= 2) check(3, 2, 2, 1, 333, 16, page, WB_LENS_MIXED);
    wb_case c = of(2, 2, 1, 1, 512, 64, 64, WB_LENS_SAME);
    c.pages = 16, c.max_pages = 8;  // none to spare
    check_case(c);
    // Behind the last key of the last page is nothing that could be read.
    for (int page = 64; page <= 256; page *= 2) {
        c = of(2, 2, 1, 1, page + 49, page / 2, page, WB_LENS_SAME);
        c.cut = 1, c.offset = 16;
        check_case(c);
    }
    // Nor behind the page table: the last tile has room for more pages than the last row has columns, and the table
    // ends with its memory.
    c = of(64, 1, 1, 1, 70, 16, 16, WB_LENS_SAME);
    c.cut = 1, c.max_pages = 5;
    check_case(c);
}

// Sequences of other lengths, none among them: shares begin and end anywhere.
static inline void mixed_lengths(void)
{
    check(7, 2, 1, 1, 900, 64, 32, WB_LENS_MIXED);
    check(33, 1, 1, 1, 300, 16, 16, WB_LENS_MIXED);
    check(12, 4, 2, 1, 2000, 32, 128, WB_LENS_ZIPF);
    for (int page = 16; page <= 256; page *= 4) check(17, 2, 1, 1, 2 * page + 1, 32, page, WB_LENS_EDGES);
    wb_case c = of(12, 4, 2, 2, 700, 32, 32, WB_LENS_MIXED);
    c.shared = 1;  // a prompt that several have in common
    check_case(c);
}

// More sequences than a warp has lanes, or a block threads.
static inline void many_sequences(void)
{
    check(1030, 1, 1, 1, 3, 16, 16, WB_LENS_MIXED);
    check(100, 1, 1, 1, 40, 16, 16, WB_LENS_MIXED);
    check(65, 2, 2, 1, 20, 16, 16, WB_LENS_SAME);
    check_many_heads(of(1, 1, 1, 1, 1, 16, 16, WB_LENS_SAME));
}

static inline void no_keys(void)
{
    check(1, 1, 1, 1, 50, 64, 16, WB_LENS_EMPTY);
    check(40, 4, 2, 3, 50, 32, 16, WB_LENS_EMPTY);
    check(5, 4, 2, 1, 50, 32, 16, WB_LENS_EDGES);  // some have none
}

// Query i sees keys up to its own; with fewer keys than tokens the first see none.
static inline void new_tokens(void)
{
    for (int Nq = 1; Nq <= 16; Nq++) check(2, 2, 1, Nq, 90 + Nq, dim(Nq), 16, WB_LENS_SAME);
    for (int Nq = 2; Nq <= 16; Nq += 7) check(3, 8, 2, Nq, 400, 64, 64, WB_LENS_MIXED);
}

// More rows than a tile of 32, of 64, of 128 and of 192 has, and as many; of sequences whole and in parts, and with
// fewer keys than tokens.
static inline void many_rows(void)
{
    const int sizes[][2] = {{11, 3}, {4, 16}, {5, 13}, {8, 12}, {16, 8}, {43, 3}, {12, 16}, {16, 16}, {29, 9}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const int group = sizes[i][0], Nq = sizes[i][1];
        const bool is_much = group * Nq > 200;  // for whoever takes a thread a row, or merges parts a row
        for (int D = 64; D <= 128; D *= 2) {
            check(is_much ? 1 : 3, 2 * group, 2, Nq, 330 + 7 * (int)i, D, 16 << (i + D / 64) % 5, WB_LENS_MIXED);
            check(1, group, 1, Nq, 1300 + 37 * (int)i, D, 16 << i % 5, WB_LENS_SAME);
            check(is_much ? 3 : 9, group, 1, Nq, 33 + (int)i, D, 16, WB_LENS_EDGES);
            check_input(of(1, group, 1, Nq, 700, D, 32, WB_LENS_SAME), WB_RISING);  // each tile has the largest scores
        }
    }
}

// The last tile of a sequence may be a part of its own, in which the first tokens see nothing.
static inline void parts_that_see_nothing(void)
{
    for (int over = 1; over <= 13; over += 4) check(1, 1, 1, 16, 64 * 8 + over, 64, 64, WB_LENS_SAME);
    for (int over = 1; over <= 13; over += 4) check(1, 2, 1, 9, 64 * 16 + over, 16, 16, WB_LENS_SAME);
}

static inline void every_input(void)
{
    check_every_input(of(2, 4, 2, 2, 300, 64, 16, WB_LENS_MIXED));
    check_every_input(of(1, 2, 1, 1, 1100, 16, 64, WB_LENS_SAME));
}

static inline void scales(void) { check_scales(of(2, 4, 2, 3, 260, ANY_D, 32, WB_LENS_MIXED)); }

// A layer of a model with 64 query heads over 8; on the CPU layer an eighth of it.
static inline void layer_of_a_model(void)
{
    const int part = on_cpu_backend() ? 8 : 1;
    check(4, 64 / part, 8 / part, 1, on_cpu_backend() ? 1000 : 8192, 128, 64, WB_LENS_SAME);
    check(9, 64 / part, 8 / part, 1, on_cpu_backend() ? 1500 : 20000, 128, 64, WB_LENS_ZIPF);
}

static inline void drawn_sizes(void) { check_drawn(1500); }

// Lengths and table arrive late as well.
static inline void own_stream(void) { check_stream(of(3, 4, 2, 1, 350, 64, 16, WB_LENS_MIXED)); }
static inline void same_twice(void) { EACH_D(check_same_twice(of(3, 4, 2, 2, 900, D, 64, WB_LENS_MIXED))); }

static inline size_t workspace_of(wb_case c)
{
    const size_t bytes = measure_memory(c).workspace_bytes;
    cr_assert(bytes <= (size_t)32 << 20, "the workspace has %zu bytes", bytes);
    return bytes;
}

// Nothing but inputs, outputs and the workspace in device memory, and that no larger for longer sequences or more of
// them.
static inline void memory(void)
{
    check_no_memory(of(2, 4, 2, 1, 400, 64, 16, WB_LENS_SAME));
    check(1, 64, 1, 16, 8300, 16, 16, WB_LENS_SAME);  // 32 MiB hold less than these scores
    const size_t small = workspace_of(of(1, 2, 1, 1, 20, 64, 16, WB_LENS_SAME));
    const size_t large = workspace_of(of(6, 2, 1, 1, 4000, 64, 16, WB_LENS_SAME));
    cr_assert(small == large, "the workspace of one sequence of 20 keys has %zu bytes, that of 6 of 4000 has %zu",
              small, large);
    for (int Nq = 1; Nq <= 16; Nq += 15) workspace_of(of(2, 24, 3, Nq, 100, 128, 16, WB_LENS_SAME));
    check_beyond_int(of(8, 8, 8, 1, 270001, 128, 256, WB_LENS_SAME));
}

static inline void shifted_tensors(void) { check_shifted(of(2, 4, 2, 2, 273, ANY_D, 32, WB_LENS_MIXED)); }

static inline void bad_input_null(void)
{
    refuses_null();
    refuses_null_for("workspace");
}

static inline void bad_input_sizes(void)
{
    refuses_sizes();
    REFUSED(shape.q_len, 17, WB_UNSUPPORTED, "q_len");
    REFUSED(page, 8, WB_UNSUPPORTED, "page_size");
    REFUSED(page, 48, WB_UNSUPPORTED, "page_size");
    REFUSED(page, 512, WB_UNSUPPORTED, "page_size");
    REFUSED(page, -16, WB_BAD_ARGUMENT, "page_size");
    REFUSED(pages, -1, WB_BAD_ARGUMENT, "pages");
    REFUSED(max_pages, -1, WB_BAD_ARGUMENT, "max_pages");
}

static inline void bad_input_scale(void) { refuses_scales(); }
static inline void bad_input_workspace(void) { REFUSED(short_workspace, 1, WB_BAD_ARGUMENT, "workspace has"); }
static inline void bad_input_alignment(void) { refuses_misaligned(); }
