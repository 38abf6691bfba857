/* cpu_layer_kernels.h - what tests/cpu_layer.c asks tests/cpu_layer_kernels.cu to run. Results come back in host memory. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Features. */
void layer_indices(int *out /* [12][24] */);
void layer_arguments(float *out /* [8] */, int *evaluations);
void layer_static_shared(float *out /* [3][64] */);
void layer_shared_is_nan(int *out /* [2] */);
void layer_dynamic_shared(int *out /* [100] */);
void layer_aligned_at_sixteen(float *out /* [36] */);
void layer_barrier_votes(int *out /* [96][3] */);
void layer_shuffles(int *out /* [32][8] */);
void layer_shuffle_types(double *out /* [32][4] */);
void layer_votes(unsigned *out /* [32][6] */);
void layer_reductions(int *out /* [32][9] */);
void layer_partial_warp(int *out /* [40] */);
void layer_returned_lanes(int *out /* [32] */);
void layer_half_masks(int *out /* [32] */);
void layer_atomics(double *out /* [16] */);
void layer_every_block_once(int *out /* [1000] */);
void layer_vectors(float *out /* [64] */, size_t *sizes /* [6][2] */);
void layer_bf16(unsigned short *out, const float *in, int count);
void layer_half(unsigned short *out, const float *in, int count);
int layer_sixteen_bits_round_trip(void); /* how many of 2 x 65536 patterns do not survive */
void layer_half_arithmetic(float *out /* [12] */);
void layer_maths(float *out /* [16] */);
void layer_bits(int *out /* [16] */);
void layer_min_max(double *out /* [8] */);
void layer_async_copy(float *out /* [4][32] */);
void layer_async_zero_fill(float *out /* [4] */);
void layer_symbols(float *out /* [2] */);
void layer_kernel_names(int *out /* [6] */);
void layer_cooperative_groups(int *out /* [64][3] */);
void layer_warp_call(int *out /* [40] */);
void layer_local_arrays(int *out /* [64] */);
float layer_events_and_streams(void);
int layer_library_like(int x); /* launches k, once; for fork */

/* Memory. The numbers are cudaError_t. */
void layer_memory_counts(size_t *out /* [5] */);
void layer_fresh_memory(unsigned char *out /* [1000] */);
void layer_memory_errors(int *out /* [9] */);
int layer_too_much_memory(void);
void layer_properties(int *out /* [4] */);

/* Launches that are refused: the error of cudaGetLastError, then of a second call. */
void layer_launch(int grid_y, int threads, int shared_bytes, int *errors /* [2] */);
void layer_shared_opt_in(int *errors /* [4] */);
const char *layer_error_name(int error);

/* Broken kernels and host code. Each ends the process, but the last. */
void broken_barrier(void);
void broken_early_return(void);
void broken_deadlock(void);
void broken_absent_lane(void);
void broken_returned_lane(void);
void broken_mask(void);
void broken_width(void);
void broken_null(void);
void broken_past_end(void);
void broken_freed(void);
void broken_misaligned(void);
void broken_dynamic_past_end(void);
void broken_no_dynamic(void);
void broken_static_shared(void);
void broken_host_read(void);
void broken_stack(void);
void broken_spin(void);
void broken_async_misaligned(void);
void broken_async_destination(void);
void broken_division(int zero);
void broken_host_null(void);

#ifdef __cplusplus
}
#endif
