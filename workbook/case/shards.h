// shards.h - which rows of a sequence lie on which rank in a case of problem 17; cuts and joins its tensors.
//
// The rows are cut into 2 * ranks chunks, of which the first N % (2 * ranks) have a row more. Rank r has the chunks r
// and 2 * ranks - 1 - r, one behind the other, each with all its heads (workbook.h).
#pragma once

#include "case/case.h"

int wb_chunk_rows(const wb_case *c, int chunk);
int wb_chunk_begin(const wb_case *c, int chunk);                     // its first row
static inline int wb_chunk_of(const wb_case *c, int rank, int half)  // the first that it has, or the second
{
    return half ? 2 * c->ranks - 1 - rank : rank;
}
int wb_chunk_with(const wb_case *c, int row);
static inline int wb_rank_with(const wb_case *c, int chunk)
{
    return chunk < c->ranks ? chunk : 2 * c->ranks - 1 - chunk;
}
int wb_rank_rows(const wb_case *c, int rank);

// Of a whole tensor that of rank c->part - 1: all its rows, heads and batches in one dimension. It may have no
// elements.
wb_tensor wb_shard_of(const wb_case *c, const wb_tensor *whole);

// Copies the rows of `rank` out of a whole tensor, or, `join`, into it.
void wb_shard_copy(const wb_case *c, const wb_tensor *whole, void *data, int rank, void *shard, bool join);

// Where element i of a rank's tensor is in the whole one.
size_t wb_shard_place(const wb_case *c, const wb_tensor *whole, int rank, size_t i);

// How many bytes ranks need to tell one another what they do, and for four times K and V, twice what they have to send;
// and as many again of their gradients. `whole`: the case's tensors.
size_t wb_board_room(const wb_problem *problem, const wb_case *c, const wb_tensor *whole);
