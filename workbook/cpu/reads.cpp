// reads.cpp - the record of reads.h. Asynchronous copies pass by here; for each block of threads it is noted which queries and which
// keys it has copied so far, and each new pair of spans goes into the record.
#include "../reads.h"
#include "layer.h"

namespace cudacpu
{
struct watched {
    const char *at;
    size_t bytes;
    int rows;  // of a head
};

static wb_reads *record;  // null: nobody asked
static watched tensors[3];
static size_t row_bytes;
static __thread uint64_t queries_of_block, keys_of_block;  // spans; the block under way on this host thread

void reads_begin_block() { queries_of_block = keys_of_block = 0; }

void note_read(const char *from)
{
    if (!record) return;
    for (int k = 0; k < 3; k++) {
        const watched &t = tensors[k];
        if (from < t.at || from >= t.at + t.bytes) continue;
        const size_t row = (from - t.at) / row_bytes % t.rows;
        uint64_t &spans = k == 0 ? queries_of_block : keys_of_block;
        const uint64_t bit = static_cast<uint64_t>(1) << row / record->span;
        if (spans & bit) return;
        spans |= bit;
        for (int q = 0; q < WB_READ_SPANS; q++)  // other blocks may be at it too
            if (queries_of_block >> q & 1) __atomic_fetch_or(&record->keys[q], keys_of_block, __ATOMIC_RELAXED);
        return;
    }
}
}

extern "C" void wb_record_reads(wb_reads *to, const void *const at[3], const size_t bytes[3], size_t bytes_of_row,
                                int q_len, int kv_len)
{
    using namespace cudacpu;
    *to = {};
    to->span = ((q_len > kv_len ? q_len : kv_len) - 1) / WB_READ_SPANS + 1;
    for (int k = 0; k < 3; k++) tensors[k] = {static_cast<const char *>(at[k]), bytes[k], k == 0 ? q_len : kv_len};
    row_bytes = bytes_of_row;
    record = to;
}
