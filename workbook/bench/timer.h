// timer.h - how long device work takes, by device events, and how fast the device can be at all.
#pragma once

#include "roofline.h"

__BEGIN_DECLS

// Whether there is a device whose time means anything: false on the cpu backend, where the functions below return
// WB_UNSUPPORTED.
bool wb_timer_available(void);

// Between the two calls, launches on the default stream are timed and nothing else is. wb_timer_start empties the
// caches of the last run's data, then holds the device for about a millisecond, so that by the time it starts
// everything is queued and no launch overhead is measured. wb_timer_stop waits, and reports what went wrong in any
// kernel.
wb_status wb_timer_start(void);
wb_status wb_timer_stop(double *ms);

wb_status wb_device_free_bytes(size_t *bytes);
wb_status wb_timer_device(roofline_device *device);

// The roofs of this machine: a large copy from device memory to device memory, counting what is read and what is
// written; and cuBLAS's product of two 8192 x 8192 bf16 matrices of random numbers.
wb_status wb_roof_copy(double *gb_per_s);
wb_status wb_roof_gemm(double *tflop_per_s);

__END_DECLS
