// cuda_pipeline.h - asynchronous copies to shared memory (cp.async). The bytes arrive when the thread waits for them
// and not before: until then the destination holds NaN, so that a forgotten wait shows.
#pragma once

#include "cuda_runtime.h"

// Copies bytes - zeros bytes (4, 8 or 16 in all) and fills the rest with zeros.
void __pipeline_memcpy_async(void *to_, const void *from_, size_t bytes_, size_t zeros_ = 0,
                             cudacpu::call_site site_ = cudacpu::here());

// Closes a group of copies, possibly an empty one.
void __pipeline_commit(cudacpu::call_site site_ = cudacpu::here());

// Waits for this thread's groups but the last `pending`.
void __pipeline_wait_prior(size_t pending_, cudacpu::call_site site_ = cudacpu::here());
