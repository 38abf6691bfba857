// reads.h - which keys the blocks of a kernel copy to shared memory: the CPU execution layer's record, from outside of the kernel.
//
// It sees asynchronous copies (load_async) alone; ordinary loads leave no trace in the plain build.
#ifndef WORKBOOK_READS_H
#define WORKBOOK_READS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Queries and keys are counted in spans of `span`. Bit k of keys[q]: some block of threads copied a query of span q, and K or V of a
// key of span k, in whichever heads.
enum { WB_READ_SPANS = 64 };
typedef struct wb_reads {
    int span;
    uint64_t keys[WB_READ_SPANS];
} wb_reads;

// What is copied from here on is recorded: Q [.., q_len, D], K and V [.., kv_len, D] in device memory, each of so many bytes, a row of
// them of row_bytes. The record starts empty. On the cpu backend only.
void wb_record_reads(wb_reads *record, const void *const tensors[3], const size_t bytes[3], size_t row_bytes, int q_len,
                     int kv_len) __attribute__((weak));

#ifdef __cplusplus
}
#endif
#endif
