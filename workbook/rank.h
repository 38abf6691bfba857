// rank.h - what a worker is as one of several ranks (problem 17): a device, a communicator, a stream for messages.
#pragma once

#include "workbook.h"

__BEGIN_DECLS

// On GPUs rank r has device r: before anything else.
wb_status wb_rank_device(int rank, int ranks);

// Becomes a rank. `board`: shared memory of all ranks, zeros at first; null where there is one. On GPUs the first
// rank's NCCL says there how the others find it; on the CPU layer it is as layer_requests.h says. ring: comm and wire
// are made.
wb_status wb_rank_join(void *board, size_t board_bytes, wb_ring *ring);

enum { WB_RANK_ID = 256 };                     // bytes of a board on GPUs
wb_status wb_rank_leave(const wb_ring *ring);  // after everything

// Queues a copy to host memory behind the work on a stream.
wb_status wb_copy_to_host_behind(void *host, const void *device, size_t bytes, wb_stream stream);

// For how many pairs of queries and keys, in all heads, wb_attention and wb_attention_backward have been called since
// the last call of this (attention.cu).
uint64_t wb_attended(void);

__END_DECLS
