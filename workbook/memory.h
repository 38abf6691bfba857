// memory.h - how much device memory this process has allocated, now and at most. Both backends count the same allocations.
#ifndef WORKBOOK_MEMORY_H
#define WORKBOOK_MEMORY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t wb_memory_current(void);  // bytes
size_t wb_memory_peak(void);     // the highest value of wb_memory_current since the last reset
void wb_memory_reset_peak(void);

// The most memory that this process has ever had resident, in bytes: it never falls.
size_t wb_host_memory_peak(void);

#ifdef __cplusplus
}
#endif
#endif
