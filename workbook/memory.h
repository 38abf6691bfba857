// memory.h - how much device memory this process has allocated, now and at most. Both backends count the same
// allocations.
#pragma once

#include "workbook.h"

#include <stddef.h>

__BEGIN_DECLS

size_t wb_memory_current(void);  // bytes
size_t wb_memory_peak(void);     // the highest value of wb_memory_current since the last reset
void wb_memory_reset_peak(void);

// Arrays and other variables of the function's own object that outlive functions, in bytes, as the linker counted
// them: __device__ ones, or their shadows, are among them. The Makefile's statics_of sets it. What kernels bring
// without asking stays below WB_FREE_STATICS; g++ from 15 on keeps there what it says of misaligned accesses (the
// Makefile's KERNEL).
#if __GNUC__ >= 15
enum { WB_FREE_STATICS = 256 << 10 };
#else
enum { WB_FREE_STATICS = 2 << 10 };
#endif
size_t wb_static_memory(void);

// Each byte of device memory from `at` on; by device.cu.
wb_status wb_device_fill(void *at, int byte, size_t bytes);

// The most memory that this process has ever had resident, in bytes: it never falls.
size_t wb_host_memory_peak(void);

__END_DECLS
