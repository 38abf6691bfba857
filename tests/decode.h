// decode.h - the tests of a kernel that decodes from a paged cache, whatever the cache holds: 13 and 14. A suite says
// what it is called, SUITE, and how a case of it is written, of(), and includes this among its own tests.
#pragma once

#include "contract.h"

// On a GPU with as many multiprocessors as an H200.
static inline wb_case on_132(wb_case c) { return c.processors = 132, c; }

Test(SUITE, one_tile)
{
    EACH_D(check(1, 1, 1, 1, 64, D, 64, WB_LENS_SAME), check(1, 2, 2, 1, 64, D, 64, WB_LENS_SAME));
    EACH_D(check(1, 1, 1, 1, 16, D, 16, WB_LENS_SAME));
}

// More tiles than blocks, so that a block's share is a part of a head, and fewer.
Test(SUITE, long_sequence)
{
    EACH_D(check(1, 1, 1, 1, 128, D, 64, WB_LENS_SAME), check(1, 1, 1, 1, 3000 + (int)each, D, 64, WB_LENS_SAME));
    check(1, 2, 2, 1, 700, 64, 16, WB_LENS_SAME);
    wb_case c = of(1, 20, 1, 1, 4500, 64, 16, WB_LENS_SAME);
    c.processors = 1, check_case(c);  // shares of more tiles than a warp has lanes
    c = of(2, 8, 1, 4, 1600, 128, 64, WB_LENS_SAME);
    c.processors = 2, check_case(c);  // no share is shorter than a sequence: it need not be cut
    c.lens = WB_LENS_MIXED, check_case(c);
}

// What one block a head would read alone.
Test(SUITE, keys_are_shared)
{
    check_reads(of(1, 4, 1, 2, 3000, 128, 64, WB_LENS_SAME));
    const int B = run_seed() % 2 ? 8 : 1;
    check_reads(on_132(of(B, 4, 1, 2, 132 * 128 / B, 128, 64, WB_LENS_SAME)));
}

// A sequence has more parts than a warp has lanes, and of many sequences no team has more than a tile.
Test(SUITE, many_processors)
{
    check_case(on_132(of(1, 1, 1, 1, 9100, 16, 16, WB_LENS_SAME)));
    check_case(on_132(of(9, 2, 1, 2, 600, 64, 32, WB_LENS_MIXED)));
}

Test(SUITE, every_length) { EACH_N(check(1, 2, 1, 1, N, D, 16 << each % 5, WB_LENS_SAME)); }

Test(SUITE, every_page_size)
{
    for (int page = 16; page <= 256; page *= 2) check(3, 2, 1, 1, 600, 64, page, WB_LENS_SAME);
    // Behind the last key of the last page is nothing that could be read, nor behind the page table: the last tile has
    // room for more pages than the last row has columns, whose last page may be full.
    for (int page = 64; page <= 256; page *= 2) {
        wb_case c = of(2, 2, 1, 1, page + 49, page / 2, page, WB_LENS_SAME);
        c.cut = 1, c.offset = 16;
        check_case(c);
    }
    wb_case c = of(64, 1, 1, 1, 80, 16, 16, WB_LENS_SAME);
    c.cut = 1, c.max_pages = 5;
    check_case(c);
}

// Sequences of other lengths, none among them: shares begin and end anywhere.
Test(SUITE, mixed_lengths)
{
    check(7, 2, 1, 1, 900, 64, 32, WB_LENS_MIXED);
    check(17, 2, 1, 1, 129, 32, 64, WB_LENS_EDGES);
    wb_case c = of(12, 4, 2, 2, 700, 32, 32, WB_LENS_MIXED);
    c.shared = 1;  // a prompt that several have in common
    check_case(c);
}

// More sequences than a block has threads. With two keys each, rounding errors of their weights do not average out.
Test(SUITE, many_sequences)
{
    check(1030, 1, 1, 1, 3, 16, 16, WB_LENS_MIXED);
    check(1030, 2, 1, 1, 2, 64, 16, WB_LENS_SAME);
}

Test(SUITE, no_keys)
{
    check(1, 1, 1, 1, 50, 64, 16, WB_LENS_EMPTY);
    check(5, 4, 2, 3, 50, 32, 16, WB_LENS_EDGES);  // some have none
}

// Query i sees keys up to its own; with fewer keys than tokens the first see none.
Test(SUITE, new_tokens)
{
    for (int Nq = 1; Nq <= 16; Nq++) check(2, 2, 1, Nq, 90 + Nq, dim(Nq), 16, WB_LENS_SAME);
    check(3, 8, 2, 9, 400, 64, 64, WB_LENS_MIXED);
}

// The last tile of a sequence may be a part of its own, in which the first tokens see nothing.
Test(SUITE, parts_that_see_nothing)
{
    for (int over = 1; over <= 13; over += 4) {
        check(1, 1, 1, 16, 64 * 8 + over, 64, 64, WB_LENS_SAME);
        check(1, 2, 1, 9, 64 * 16 + over, 16, 16, WB_LENS_SAME);
    }
}

Test(SUITE, every_input) { check_every_input(of(1, 4, 2, 2, 700, 64, 16, WB_LENS_MIXED)); }
Test(SUITE, scales) { check_scales(of(2, 4, 2, 3, 260, ANY_D, 32, WB_LENS_MIXED)); }

// A layer of a model with 64 query heads over 8; on the CPU layer an eighth of it.
Test(SUITE, layer_of_a_model)
{
    const int part = on_cpu_backend() ? 8 : 1;
    check(4, 64 / part, 8 / part, 1, 8192 / part, 128, 64, WB_LENS_SAME);
    check(9, 64 / part, 8 / part, 1, 8192 / part, 128, 64, WB_LENS_ZIPF);
}

// Lengths and table arrive late as well.
Test(SUITE, own_stream) { check_stream(of(3, 4, 2, 1, 350, 64, 16, WB_LENS_MIXED)); }
Test(SUITE, same_twice) { check_same_twice(of(3, 4, 2, 2, 900, ONE_D, 64, WB_LENS_MIXED)); }

// Nothing but inputs, outputs and the workspace in device memory, and that no larger for longer sequences or more of
// them (harness.c, judge_workspace).
Test(SUITE, memory)
{
    check_no_memory(of(2, 4, 2, 1, 400, 64, 16, WB_LENS_SAME));
    check(1, 64, 1, 16, 8300, 16, 16, WB_LENS_SAME);  // 32 MiB hold less than these scores
    check_beyond_int(of(8, 8, 8, 1, 270001, 128, 256, WB_LENS_SAME));
}

Test(SUITE, shifted_tensors) { check_shifted(of(2, 4, 2, 2, 273, ANY_D, 32, WB_LENS_MIXED)); }

BAD_INPUT(SUITE, {
    REFUSED(shape.q_len, 17, WB_UNSUPPORTED, "q_len");
    REFUSED(page, 8, WB_UNSUPPORTED, "page_size");
    REFUSED(page, 48, WB_UNSUPPORTED, "page_size");
    REFUSED(page, 512, WB_UNSUPPORTED, "page_size");
    REFUSED(page, -16, WB_BAD_ARGUMENT, "page_size");
    REFUSED(pages, -1, WB_BAD_ARGUMENT, "pages");
    REFUSED(max_pages, -1, WB_BAD_ARGUMENT, "max_pages");
})
Test(SUITE, bad_input_workspace) { REFUSED(short_workspace, 1, WB_BAD_ARGUMENT, "workspace has"); }
