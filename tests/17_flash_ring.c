// 17_flash_ring.c - flash_ring: attention over a sequence that lies on several ranks. The harness has a worker for each, cuts the inputs into zigzag
// chunks, joins what comes back, and compares it with the oracle of the whole.
#define HEAD_DIMS 64, 128
#include "contract.h"

TEST_PROBLEM(flash_ring)

static wb_case of(int R, int causal, int B, int Hq, int Hkv, int N, int D)
{
    return (wb_case){.shape = {.batch = B, .q_heads = Hq, .kv_heads = Hkv, .q_len = N, .head_dim = D, .causal = causal},
                     .ranks = R};
}

// Full, then causal.
#define EACH_MASK(...)                                                                                                 \
    for (int causal = 0; causal < 2; causal++) __VA_ARGS__
// With these numbers of ranks, as far as there can be so many.
#define EACH_R(...)                                                                                                    \
    for (int R = 2; R <= WB_MOST_RANKS && may_have_ranks(R); R++) __VA_ARGS__

// 10's numbers, four of whose rows are on each of three ranks; the first rank has the first row and the last one.
Test(flash_ring, worked_by_hand)
{
    const int R = may_have_ranks(3) ? 3 : 1;
    const wb_case c = worked(of(R, 1, 1, 2, 1, 6, 64));
    check_worked(c, "O", (double[]){1, 0}, 2, 4e-3);
    check_worked(c, "L", (double[]){0.4596, 0.9211}, 2, 3e-3);
}

// ------------------------------------------------------------------------------------------------------------ one rank

// Its two chunks, and nobody to talk to.
Test(flash_ring, one_rank) { EACH_D(EACH_MASK(check(1, causal, 1, 2, 2, 64, D), check(1, causal, 2, 4, 2, 50, D))); }

Test(flash_ring, one_rank_ragged)
{
    const int N[] = {1, 2, 3, 7, 15, 17, 33, 63, 65, 101};
    for (size_t i = 0; i < COUNT(N); i++) EACH_MASK(check(1, causal, 1, 2, 1, N[i], head_dims[i % 2]));
}

// ---------------------------------------------------------------------------------------------------------- several ranks

Test(flash_ring, two_ranks)
{
    if (!may_have_ranks(2)) cr_skip_test("needs two ranks");
    EACH_D(EACH_MASK(check(2, causal, 1, 2, 2, 64, D)));
}

// From three on whom a rank sends to is not whom it receives from; from four on a buffer is used again.
Test(flash_ring, three_ranks)
{
    if (!may_have_ranks(3)) cr_skip_test("needs three ranks");
    EACH_D(EACH_MASK(check(3, causal, 1, 2, 2, 96, D)));
}

Test(flash_ring, more_ranks) { EACH_R(EACH_MASK(check(R, causal, 1, 2, 1, 16 * R, head_dims[R % 2]))); }

// Chunks of unlike length: the first N % 2R have a row more.
Test(flash_ring, ragged)
{
    EACH_R(EACH_MASK({
        check(R, causal, 1, 2, 1, 8 * R + 1, head_dims[R % 2]);
        check(R, causal, 1, 1, 1, 10 * R - 1, head_dims[(R + 1) % 2]);
    }));
}

// Fewer rows than chunks: some have none, and so have some ranks.
Test(flash_ring, empty_chunks)
{
    EACH_R(EACH_MASK({
        check(R, causal, 1, 2, 1, 1, 64);
        check(R, causal, 1, 2, 1, R, 64);
        check(R, causal, 1, 1, 1, 2 * R - 1, 128);
    }));
}

// ------------------------------------------------------------------------------------------------------- heads and batches

Test(flash_ring, every_group_size)
{
    const int R = may_have_ranks(3) ? 3 : 1;
    for (int group = 1; group <= 8; group *= 2)
        EACH_MASK(check(R, causal, 1, 8, 8 / group, 40, head_dims[group % 4 / 2]));
    check(R, 1, 1, 6, 2, 31, 64);
    check(R, 0, 1, 15, 3, 20, 64);
}

// Where a chunk ends another head begins.
Test(flash_ring, groups_and_batches)
{
    const int R = may_have_ranks(4) ? 4 : 1;
    EACH_MASK(check(R, causal, 3, 4, 2, 27, 64));
    EACH_MASK(check(R, causal, 2, 3, 3, 35, 128));
}

// ----------------------------------------------------------------------------------------------------------------- numbers

// Partial results whose denominators are as far apart as they come.
Test(flash_ring, every_input)
{
    const int R = may_have_ranks(3) ? 3 : 1;
    check_every_input(of(R, 1, 1, 2, 1, 75, 64));
    check_every_input(of(R, 0, 1, 1, 1, 75, 128));
}

Test(flash_ring, scales) { check_scales(of(may_have_ranks(2) ? 2 : 1, 1, 1, 2, 1, 45, ANY_D)); }
Test(flash_ring, other_seeds) { check_seeds(of(may_have_ranks(4) ? 4 : 1, 1, 2, 4, 2, 41, 64)); }

// Whatever the seed says.
Test(flash_ring, drawn_sizes)
{
    uint64_t dice = run_seed() * 0x9e3779b97f4a7c15u + 17;
    for (int n = 0; n < 10; n++) {
        int drawn[7];
        for (int k = 0; k < 7; k++) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            drawn[k] = (int)(dice >> 40);
        }
        const int R = 1 + drawn[0] % WB_MOST_RANKS, Hkv = 1 + drawn[1] % 2, N = 1 + drawn[2] % (n % 3 ? 70 : 3 * R);
        if (may_have_ranks(R))
            check(R, drawn[3] % 2, 1 + drawn[4] % 2, Hkv * (1 + drawn[5] % 3), Hkv, N, head_dims[drawn[6] % 2]);
    }
}

// ---------------------------------------------------------------------------------------------------------------- promises

// See harness.h: no more is sent than passes by, no pair of chunks is looked at that is hidden, what comes is under way while what is there is
// worked on, and nobody waits.
Test(flash_ring, bytes_and_overlap)
{
    const int R[] = {2, 3, 4, 6};
    for (size_t i = 0; i < COUNT(R) && may_have_ranks(R[i]); i++) {
        EACH_MASK(check_ranks(of(R[i], causal, 1, 2, 1, 16 * R[i], 64)));
        EACH_MASK(check_ranks(of(R[i], causal, 1, 2, 2, 9 * R[i] + 1, 128)));
    }
}

// Nor is what is hidden computed by a kernel of one's own.
Test(flash_ring, hidden_chunks_are_not_computed)
{
    check_skips(of(may_have_ranks(2) ? 2 : 1, 1, 1, 2, 1, 640, 64), 160);
}

// Inputs come late on the stream of the call, what is on it afterwards changes K and V, and meanwhile the results are fetched there: the wire waits
// for the stream, and the stream for the wire. Then a call before it, in the same buffers.
Test(flash_ring, own_stream)
{
    EACH_R({
        if (R > 4) break;
        check_stream(of(R, R % 2, 1, 2, 1, 12 * R + 1, 64));
        check_stream(of(R, 1 - R % 2, 1, 2, 2, 8 * R + 3, 128));
    });
    check_stream(of(1, 1, 1, 2, 1, 40, 64));
}

Test(flash_ring, same_twice)
{
    const int R = may_have_ranks(4) ? 4 : 1;
    EACH_MASK(check_same_twice(of(R, causal, 1, 2, 1, 67, 64)));
}

static size_t workspace_of(int R, int rows) { return measure_memory(of(R, 1, 1, 4, 2, R * rows, 64)).workspace_bytes; }

// Nothing but inputs, outputs and the workspace in device memory, and that is as large for many ranks as for two: what is gathered grows.
Test(flash_ring, memory)
{
    const int most = may_have_ranks(8) ? 8 : may_have_ranks(4) ? 4 : 2;
    if (!may_have_ranks(2)) cr_skip_test("needs two ranks");
    check_no_memory(of(2, 1, 1, 4, 2, 200, 64));
    check_no_memory(of(most, 0, 1, 2, 1, 20 * most, 128));
    const size_t few = workspace_of(2, 32), many = workspace_of(most, 32);
    cr_assert(many <= few + few / 20,
              "the workspace for 32 rows on each rank has %zu bytes with 2 ranks, and %zu with %d: is all of K or V "
              "gathered?",
              few, many, most);
    const size_t rows = 32 * 64 * (8 * 2 + 6 * 4) * 2;  // workbook.h: 8 rows of Hkv D, 6 of Hq D
    cr_assert(few <= rows + 16384, "the workspace for 32 rows on each rank has %zu bytes, and %zu should do", few,
              rows);
}

Test(flash_ring, shifted_tensors) { check_shifted(of(may_have_ranks(2) ? 2 : 1, 1, 1, 4, 2, 53, ANY_D)); }

Test(flash_ring, bad_input_null)
{
    refuses_null();
    refuses_null_for("workspace");
    refuses_null_for("ring");
}

Test(flash_ring, bad_input_sizes) { refuses_sizes(); }
Test(flash_ring, bad_input_scale) { refuses_scales(); }
Test(flash_ring, bad_input_lengths) { refuses_other_lengths(); }
Test(flash_ring, bad_input_workspace) { REFUSED(short_workspace, 1, WB_BAD_ARGUMENT, "workspace has"); }
Test(flash_ring, bad_input_alignment) { refuses_misaligned(); }

Test(flash_ring, bad_input_ring)
{
    REFUSED(stray, 1, WB_BAD_ARGUMENT, "ranks");
    REFUSED(stray, 2, WB_BAD_ARGUMENT, "rank");
    REFUSED(stray, 3, WB_BAD_ARGUMENT, "rank");
    wb_case c = good_case();
    c.ranks = 2;
    strcpy(c.null, "comm");
    if (may_have_ranks(2)) check_rejected(c, WB_BAD_ARGUMENT, "comm is null");
}
