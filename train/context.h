// context.h - context parallel: of each sequence a rank has two chunks of 2 * ranks.all, as 17 wants them. What looks
// at one token alone needs nothing of others. Attention does: a layer that sees all is 17 and 18, where keys go round a
// ring; a layer with a window needs of other chunks only what its first queries see, the W - 1 keys before it and the
// sinks.
//
// Behind these a chunk is a sequence of its own: sinks, tail, chunk. Windows begin where they should, the sinks are
// those of the sequence, and nothing that is hidden becomes visible. So 07 and 09 take it as it is. The first chunk has
// its sinks itself, and nothing before it.
#pragma once

#include "attention.h"
#include "ranks.h"

// This rank's pieces of B sequences of `length` tokens: first chunks of all, then second ones.
pieces context_pieces(int B, int length, int room);

// The room of K and V, sinks + W - 1 rows, gets what lies on other ranks; and afterwards what it got of dK and dV is
// added where it belongs. dO is 0 in the room, so its own queries add nothing. Without room there is nothing to do.
void context_borrow(const heads *x);
void context_return(const heads *x);
