// 17_flash_ring.c - flash_ring: attention over a sequence that lies on several ranks (ring.h).
#include "ring.h"

TEST_PROBLEM(flash_ring)

// 10's numbers, four of whose rows are on each of three ranks; the first rank has the first row and the last one.
Test(flash_ring, worked_by_hand)
{
    const int R = may_have_ranks(3) ? 3 : 1;
    const wb_case c = worked(of(R, 1, 1, 2, 1, 6, 64));
    check_worked(c, "O", (double[]){1, 0}, 2, 4e-3);
    check_worked(c, "L", (double[]){0.4596, 0.9211}, 2, 3e-3);
}

RING(flash_ring, one_rank)

RING(flash_ring, two_ranks)
RING(flash_ring, three_ranks)
RING(flash_ring, more_ranks)
RING(flash_ring, ragged)
RING(flash_ring, empty_chunks)

RING(flash_ring, every_group_size)

RING(flash_ring, every_input)
RING(flash_ring, scales)
RING(flash_ring, drawn_sizes)

RING(flash_ring, bytes_and_overlap)

// Nor is what is hidden computed by a kernel of one's own.
Test(flash_ring, hidden_chunks_are_not_computed)
{
    check_skips(of(may_have_ranks(2) ? 2 : 1, 1, 1, 2, 1, 640, 64), 160);
}

RING(flash_ring, own_stream)
RING(flash_ring, same_twice)

// workbook.h: 8 rows of Hkv D numbers of 2 bytes, 6 of Hq D.
Test(flash_ring, memory) { memory(64 * (8 * 2 + 6 * 4) * 2); }
RING(flash_ring, shifted_tensors)

RING(flash_ring, bad_input_null)
RING(flash_ring, bad_input_sizes)
RING(flash_ring, bad_input_scale)
RING(flash_ring, bad_input_lengths)
RING(flash_ring, bad_input_workspace)
RING(flash_ring, bad_input_alignment)
RING(flash_ring, bad_input_ring)
