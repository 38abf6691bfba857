// memory.h - how much device memory this process has allocated, now and at most. Both backends count the same allocations.
#pragma once

#include "workbook.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t wb_memory_current(void);  // bytes
size_t wb_memory_peak(void);     // the highest value of wb_memory_current since the last reset
void wb_memory_reset_peak(void);

// Arrays and other variables of this program that outlive functions, in bytes; __device__ ones have a shadow among them. The machinery's
// own are small, and more where g++ adds what it says of misaligned accesses (the Makefile's KERNEL): what exceeds WB_FREE_STATICS is a
// submission's.
#if __GNUC__ >= 15
enum { WB_FREE_STATICS = 512 << 10 };
#else
enum { WB_FREE_STATICS = 256 << 10 };
#endif
size_t wb_static_memory(void);

// Each byte of device memory from `at` on; by device.cu.
wb_status wb_device_fill(void *at, int byte, size_t bytes);

// The most memory that this process has ever had resident, in bytes: it never falls.
size_t wb_host_memory_peak(void);

#ifdef __cplusplus
}
#endif
