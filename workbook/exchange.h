// exchange.h - the memory that a test and its worker share: a header, then each tensor between two guard zones.
//
//   0               4096
//   | wb_exchange   | guard  offset  tensor 0  guard | guard  offset  tensor 1  guard | ...
//
// The test fills everything with NaN, then the inputs; the worker copies guards and all to the device, calls the function, and
// copies everything back. What a kernel writes outside its tensors therefore shows, and so does a changed input.
#ifndef WORKBOOK_EXCHANGE_H
#define WORKBOOK_EXCHANGE_H

#include "case.h"
#include "reads.h"

enum { WB_GUARD = 1 << 16, WB_NAN_BYTE = 0xff, WB_REPORT_STATUS = 66 };  // 66: exit status after a report on stderr

// How far the worker has come.
typedef enum wb_stage { WB_STAGE_STARTING, WB_STAGE_CALLING, WB_STAGE_WAITING, WB_STAGE_DONE } wb_stage;

typedef struct wb_exchange {
    wb_stage stage;
    wb_status status;         // what the function returned
    char message[256];        // wb_last_message() after it
    wb_status device_status;  // what the device said after the work was done
    char device_message[256];
    uint64_t device_bytes;  // the most device memory the call held beyond the tensors
    uint64_t host_bytes;    // by how much the call raised the process's peak of resident memory
    wb_reads reads;         // on the cpu backend, of a forward's kernels; elsewhere empty
} wb_exchange;

// Where tensor k's zone (guard, offset, tensor, guard) starts and how long it is.
typedef struct wb_zone {
    size_t start, bytes;
    size_t data;  // the tensor's own first byte, from `start`
} wb_zone;

// Lays out the tensors of a case, with `guard` bytes on both sides of each; returns the bytes of the whole.
static inline size_t wb_exchange_layout_guarded(const wb_tensor *tensors, int count, int offset, size_t guard,
                                                wb_zone zones[WB_MAX_TENSORS])
{
    size_t at = 4096;
    for (int k = 0; k < count; k++) {
        zones[k].start = at;
        zones[k].data = guard + (size_t)offset;
        zones[k].bytes = zones[k].data + tensors[k].bytes + guard;
        if (guard) zones[k].bytes = (zones[k].bytes + 255) / 256 * 256;
        at += (zones[k].bytes + 255) / 256 * 256;
    }
    return at;
}

static inline size_t wb_exchange_layout(const wb_tensor *tensors, int count, int offset, wb_zone zones[WB_MAX_TENSORS])
{
    return wb_exchange_layout_guarded(tensors, count, offset, WB_GUARD, zones);
}

#endif
