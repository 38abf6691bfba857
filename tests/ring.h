// ring.h - the tests of both passes over a sequence that lies on several ranks: of 17 and 18. A suite says what it is
// called, SUITE, and how a case of it is written, of(), and includes this among its own tests. The harness has a worker
// for each rank, cuts the inputs into zigzag chunks, joins what comes back, and compares it with the whole's oracle.
#pragma once

#include "contract.h"

// With these numbers of ranks, as far as there can be so many: the fewest, an odd number, one where a buffer is used
// again, and many.
static const int some_ranks[] = {2, 3, 4, 6};
#define EACH_R(...) \
    for (size_t each_R = 0; each_R < COUNT(some_ranks) && may_have_ranks(some_ranks[each_R]); each_R++) { \
        const int R = some_ranks[each_R]; \
        __VA_ARGS__; \
    }

// ------------------------ one rank

// Its two chunks, and nobody to talk to.
Test(SUITE, one_rank) { EACH_D(EACH_MASK(check(1, causal, 1, 2, 2, 64, D), check(1, causal, 2, 4, 2, 50, D))); }

// ------------------------ several ranks

Test(SUITE, two_ranks)
{
    if (!may_have_ranks(2)) cr_skip_test("needs two ranks");
    EACH_D(EACH_MASK(check(2, causal, 1, 2, 2, 64, D)));
}

// From three on whom a rank sends to is not whom it receives from; from four on a buffer is used again.
Test(SUITE, three_ranks)
{
    if (!may_have_ranks(3)) cr_skip_test("needs three ranks");
    EACH_D(EACH_MASK(check(3, causal, 1, 2, 2, 96, D)));
}

Test(SUITE, more_ranks) { EACH_R(EACH_MASK(check(R, causal, 1, 2, 1, 16 * R, dim(R)))); }

// Chunks of unlike length: the first N % 2R have a row more.
Test(SUITE, ragged)
{
    EACH_R({
        check(R, R % 2, 1, 2, 1, 8 * R + 1, dim(R));
        check(R, 1 - R % 2, 1, 1, 1, 10 * R - 1, dim(R + 1));
    });
}

// Fewer rows than chunks: some have none, and so have some ranks.
Test(SUITE, empty_chunks)
{
    EACH_R({
        check(R, R % 2, 1, 2, 1, 1, 64);
        check(R, 1 - R % 2, 1, 1, 1, 2 * R - 1, 128);
    });
}

// ------------------------ heads and batches

Test(SUITE, every_group_size)
{
    const int R = ranks_or_one(3);
    for (int group = 1; group <= 8; group *= 2) {
        const int kv_heads = group < 8 ? 2 : 1;
        EACH_MASK(check(R, causal, 1, kv_heads * group, kv_heads, 40, dim(group % 4 / 2)));
    }
    check(R, 1, 1, 6, 2, 31, 64);
    check(R, 0, 1, 15, 3, 20, 64);
}

// ------------------------ numbers

// Partial results whose denominators are as far apart as they come.
Test(SUITE, every_input)
{
    check_every_input(of(ranks_or_one(3), 1, 1, 2, 1, 50, 64));
    check_every_input(of(ranks_or_one(3), 0, 1, 1, 1, 40, 128));
}

Test(SUITE, scales) { check_scales(of(ranks_or_one(2), 1, 1, 2, 1, 45, ANY_D)); }

// ------------------------ promises

// See harness.h: no more is sent than passes by, no pair of chunks is looked at that is hidden, what comes is under way
// while what is there is worked on, and nobody waits.
Test(SUITE, bytes_and_overlap)
{
    for (int R = 2; R <= 4 && may_have_ranks(R); R++) {
        EACH_MASK(check_ranks(of(R, causal, 1, 2, 1, 16 * R, 64)));
        check_ranks(of(R, R % 2, 1, 2, 2, 9 * R + 1, 128));
        check_ranks(of(R, 1 - R % 2, 1, 2, 1, 4 * R, 64));
    }
}

// Nor is what is hidden computed by a kernel of one's own.
Test(SUITE, hidden_chunks_are_not_computed) { check_skips(of(ranks_or_one(2), 1, 1, 1, 1, 560, 64), 280); }

// Inputs come late on the stream of the call, what is on it afterwards changes K and V, and meanwhile the results are
// fetched there: the wire waits for the stream, and the stream for the wire. Then a call before it, in the same
// buffers.
Test(SUITE, own_stream)
{
    for (int R = 1; R <= 4 && may_have_ranks(R); R++) check_stream(of(R, R % 2, 1, 2, 1, 12 * R + 1, dim(R / 2)));
}

Test(SUITE, same_twice) { EACH_MASK(check_same_twice(of(ranks_or_one(4), causal, 1, 2, 1, 43, 64))); }

// Nothing but inputs, outputs and the workspace in device memory, and that no larger for more ranks (harness.c,
// judge_workspace). most_bytes: of the workspace for one of a rank's rows with 4 heads on 2 of D = 64.
static inline void check_memory_of_ranks(size_t most_bytes)
{
    const int most = may_have_ranks(4) ? 4 : 2, B = 1 + (int)(run_seed() % 2);
    if (!may_have_ranks(2)) cr_skip_test("needs two ranks");
    check_no_memory(of(2, 1, 1, 4, 2, 200, 64));
    check_no_memory(of(most, 0, 1, 2, 1, 20 * most, 128));
    EACH_D({
        const size_t bytes = measure_memory(of(2, 1, B, 4, 2, 64, D)).workspace_bytes;
        const size_t may = 32 * most_bytes * (size_t)(D / 64 * B) + 16384;
        cr_assert(bytes <= may, "the workspace for 32 rows of D = %d on each rank has %zu bytes, but %zu suffice", D,
                  bytes, may);
    });
}

Test(SUITE, shifted_tensors) { check_shifted(of(ranks_or_one(2), 1, 1, 4, 2, 53, ANY_D)); }

BAD_INPUT(SUITE)
Test(SUITE, bad_input_lengths) { refuses_other_lengths(); }
Test(SUITE, bad_input_workspace) { REFUSED(short_workspace, 1, WB_BAD_ARGUMENT, "workspace has"); }

Test(SUITE, bad_input_ring)
{
    REFUSED(stray, 1, WB_BAD_ARGUMENT, "ranks");
    REFUSED(stray, 2, WB_BAD_ARGUMENT, "rank");
    REFUSED(stray, 3, WB_BAD_ARGUMENT, "rank");
    wb_case c = good_case();
    c.ranks = 2;
    strcpy(c.null, "comm");
    if (may_have_ranks(2)) check_rejected(c, WB_BAD_ARGUMENT, "comm is null");
}
