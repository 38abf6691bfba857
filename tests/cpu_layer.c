/* cpu_layer.c - the CPU execution layer (workbook/cpu): every feature computes what a GPU would, every mistake is reported in the right
 * words. Kernels and their launches are in cpu_layer_kernels.cu. */
#include "apart.h"
#include "cpu_layer_kernels.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(cpu_layer, .timeout = 60);

#define COMPARE(condition, got, want, ...)                                                                             \
    do {                                                                                                               \
        const double got_ = (double)(got), want_ = (double)(want);                                                     \
        char where_[96];                                                                                               \
        snprintf(where_, sizeof where_, __VA_ARGS__);                                                                  \
        cr_assert(condition, "%s, %s: got %.9g, want %.9g", #got, where_, got_, want_);                                \
    } while (0)
#define EXPECT(got, want, ...) COMPARE(got_ == want_, got, want, __VA_ARGS__)
#define NEAR(got, want, ...)                                                                                           \
    COMPARE(isfinite(got_) && fabs(got_ - want_) <= 1e-6 * (1 + fabs(want_)), got, want, __VA_ARGS__)

/* ------------------------------------------------------------------------------------------------------------------- features */

Test(cpu_layer, indices_in_three_dimensions)
{
    int out[12][24];
    layer_indices(&out[0][0]);
    for (int b = 0; b < 12; b++)
        for (int t = 0; t < 24; t++) EXPECT(out[b][t], 1000 * b + t, "block %d, thread %d", b, t);
}

Test(cpu_layer, arguments_are_copied_for_each_thread_and_evaluated_once)
{
    float out[8];
    int evaluations;
    layer_arguments(out, &evaluations);
    EXPECT(evaluations, 2, "two launches");
    for (int t = 0; t < 2; t++) {
        EXPECT(out[t], (1 + t) * 100 + 2 + 2, "thread %d", t);
        EXPECT(out[2 + t], (3 + t) * 100 + 4 + 1, "thread %d, argument in braces", t);
    }
    for (int t = 0; t < 4; t++) EXPECT(out[4 + t], (1 + t) * 100 + 2 + 3 + 1, "thread %d, template in an argument", t);
}

Test(cpu_layer, shared_variables_belong_to_the_block)
{
    float out[3][64];
    layer_static_shared(&out[0][0]);
    for (int b = 0; b < 3; b++)
        for (int t = 0; t < 64; t++) EXPECT(out[b][t], 63 - t + 1000 * b + 0.5, "block %d, thread %d", b, t);
}

Test(cpu_layer, shared_memory_starts_as_nan_in_every_block)
{
    int out[2];
    layer_shared_is_nan(out);
    EXPECT(out[0], 4 * 2 * 33, "static");
    EXPECT(out[1], 4 * 2 * 50, "dynamic");
}

Test(cpu_layer, dynamic_shared_memory)
{
    int out[100];
    layer_dynamic_shared(out);
    for (int t = 0; t < 100; t++) EXPECT(out[t], t * (t + 1) / 2, "running sum %d", t);
}

Test(cpu_layer, barriers_that_count)
{
    int out[96][3];
    layer_barrier_votes(&out[0][0]);
    for (int t = 0; t < 96; t++) {
        EXPECT(out[t][0], 32, "count, thread %d", t);
        EXPECT(out[t][1], 1, "and, thread %d", t);
        EXPECT(out[t][2], 1, "or, thread %d", t);
    }
}

Test(cpu_layer, shuffles)
{
    int out[32][8];
    layer_shuffles(&out[0][0]);
    for (int l = 0; l < 32; l++) {
        EXPECT(out[l][0], 15, "lane %d", l);
        EXPECT(out[l][1], l < 2 ? l : l - 2, "up, lane %d", l);
        EXPECT(out[l][2], l % 16 < 13 ? l + 3 : l, "down in halves, lane %d", l);
        EXPECT(out[l][3], l ^ 9, "xor, lane %d", l);
        EXPECT(out[l][4], l / 8 * 8 + (l + 1) % 8, "in eights, lane %d", l);
        EXPECT(out[l][5], l % 4 ? l - 1 : l, "up in fours, lane %d", l);
        EXPECT(out[l][6], l < 16 ? l : l - 16, "xor out of a half, lane %d", l);
        EXPECT(out[l][7], l == 0 ? 31 : l, "down 31, lane %d", l);
    }
}

Test(cpu_layer, shuffles_of_every_type)
{
    double out[32][4];
    layer_shuffle_types(&out[0][0]);
    for (int l = 0; l < 32; l++) {
        EXPECT(out[l][0], (l ^ 1) + 0.25, "double, lane %d", l);
        EXPECT(out[l][1], (l ^ 1) + 0.5, "float, lane %d", l);
        EXPECT(out[l][2], (double)(1ull << 40) + (l ^ 1), "64 bits, lane %d", l);
        EXPECT(out[l][3], l ^ 1, "bf16, lane %d", l);
    }
}

Test(cpu_layer, votes)
{
    unsigned out[32][6];
    layer_votes(&out[0][0]);
    for (int l = 0; l < 32; l++) {
        const unsigned want[] = {0x49249249u, 1, 0, 1, 0, 0x11111111u << l % 4};
        for (int i = 0; i < 6; i++) EXPECT(out[l][i], want[i], "lane %d, vote %d", l, i);
    }
}

Test(cpu_layer, warp_reductions)
{
    int out[32][9];
    layer_reductions(&out[0][0]);
    const int want[] = {496 - 640, -20, 11, 496, 0, 1, 0x100, 0x7f, 32};
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 9; i++) EXPECT(out[l][i], want[i], "lane %d, reduction %d", l, i);
}

Test(cpu_layer, last_warp_may_be_partial)
{
    int out[40];
    layer_partial_warp(out);
    for (int t = 0; t < 40; t++) EXPECT(out[t], 8 * (t / 8 * 8) + 28, "thread %d", t);
}

Test(cpu_layer, returned_lanes_are_not_waited_for)
{
    int out[32];
    layer_returned_lanes(out);
    for (int l = 0; l < 32; l++) EXPECT(out[l], l < 20 ? 20 : 0, "lane %d", l);
}

Test(cpu_layer, halves_of_a_warp_shuffle_apart)
{
    int out[32];
    layer_half_masks(out);
    for (int l = 0; l < 32; l++) EXPECT(out[l], l < 16 ? l ^ 1 : l ^ 2, "lane %d", l);
}

Test(cpu_layer, warp_call_sees_every_lane_in_order)
{
    int out[40];
    layer_warp_call(out);
    for (int w = 0; w < 2; w++) {
        const int count = w ? 8 : 32;
        int sum = 0;
        for (int i = 0; i < count; i++) sum = 10 * sum % 1000003 + ((32 * w + i) * 7 + 3) % 10;
        for (int i = 0; i < count; i++) EXPECT(out[32 * w + i], 100 * sum + count, "warp %d, lane %d", w, i);
    }
}

Test(cpu_layer, every_thread_keeps_its_own_stack)
{
    int out[64];
    layer_local_arrays(out);
    for (int t = 0; t < 64; t++) EXPECT(out[t], 0, "thread %d", t);
}

Test(cpu_layer, atomics)
{
    double out[16];
    layer_atomics(out);
    const double want[] = {336, 168, 672, 671, -671, 7, -1344, 0, 31, 0, 72, 17, 672 * 8589934592.0};
    for (int i = 0; i < 13; i++) EXPECT(out[i], want[i], "atomic %d", i);
}

Test(cpu_layer, every_block_runs_once)
{
    int out[1000];
    layer_every_block_once(out);
    for (int b = 0; b < 1000; b++) EXPECT(out[b], 3, "block %d after three launches", b);
}

Test(cpu_layer, vector_types)
{
    float out[64];
    size_t sizes[6][2];
    const size_t want[6][2] = {{8, 8}, {12, 4}, {16, 16}, {4, 4}, {16, 16}, {4, 4}};
    layer_vectors(out, &sizes[0][0]);
    for (int t = 0; t < 16; t++) {
        EXPECT(out[4 * t], t, "x of thread %d", t);
        EXPECT(out[4 * t + 3], t + 8, "w of thread %d", t);
    }
    for (int i = 0; i < 6; i++) {
        EXPECT(sizes[i][0], want[i][0], "size of type %d", i);
        EXPECT(sizes[i][1], want[i][1], "alignment of type %d", i);
    }
}

Test(cpu_layer, bf16_rounds_to_nearest_even)
{
    const float in[] = {1.0f, 1.00390625f, 1.01171875f, 1.0039065f, -2.5f, 3.4e38f, INFINITY, 0.0f, -0.0f, 1e-40f};
    const unsigned short want[] = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xc020, 0x7f80, 0x7f80, 0, 0x8000, 0x0001};
    unsigned short out[10], nan;
    layer_bf16(out, in, 10);
    for (int i = 0; i < 10; i++) EXPECT(out[i], want[i], "%g", (double)in[i]);
    layer_bf16(&nan, (float[]){NAN}, 1);
    EXPECT(nan & 0x7fff, 0x7fff, "NaN stays NaN");
}

Test(cpu_layer, half_rounds_to_nearest_even)
{
    const float in[] = {1.0f,      1.00048828125f, 1.00146484375f,   65504.0f,
                        65519.0f,  65520.0f,       6.103515625e-05f, 5.9604645e-08f,
                        2.98e-08f, 2.99e-08f,      -0.333333343f,    6.0975552e-05f};
    const unsigned short want[] = {0x3c00, 0x3c00, 0x3c02, 0x7bff, 0x7bff, 0x7c00,
                                   0x0400, 0x0001, 0,      0x0001, 0xb555, 0x03ff};
    unsigned short out[12], nan;
    layer_half(out, in, 12);
    for (int i = 0; i < 12; i++) EXPECT(out[i], want[i], "%.9g", (double)in[i]);
    layer_half(&nan, (float[]){NAN}, 1);
    EXPECT(nan & 0x7fff, 0x7fff, "NaN stays NaN");
}

Test(cpu_layer, all_16_bit_patterns_survive) { EXPECT(layer_sixteen_bits_round_trip(), 0, "patterns that do not"); }

Test(cpu_layer, half_arithmetic)
{
    float out[12];
    layer_half_arithmetic(out);
    const float want[] = {1.75f, 0.375f, -6, 1.875f, 42, 1609, 3, 1, 43, -3, 8, 1};
    for (int i = 0; i < 12; i++) EXPECT(out[i], want[i], "result %d", i);
}

Test(cpu_layer, maths)
{
    float out[16];
    layer_maths(out);
    const double want[] = {exp(2), 4, log(2), 1, 1 / sqrt(2), 0.5, 0.5, 5, 8, 1.5, sin(2), 2, 0};
    for (int i = 0; i < 13; i++) NEAR(out[i], want[i], "result %d", i);
    EXPECT(out[13], nextafterf(2, 3), "bits of a float");
    EXPECT(out[14], INFINITY, "bits of infinity");
    EXPECT(out[15], 0, "isfinite");
}

Test(cpu_layer, bits)
{
    int out[16];
    layer_bits(out);
    const int want[] = {2, 25, 32, 5, (int)0x80000000u, 64, 0x77114422, 256, 2, -2, -3, 3, 32};
    for (int i = 0; i < 13; i++) EXPECT(out[i], want[i], "result %d", i);
}

Test(cpu_layer, min_and_max_of_mixed_types)
{
    double out[8];
    layer_min_max(out);
    const double want[] = {-3, 2, 4000000000.0, 1099511627776.0, 1.5, 2.5, 4294967293.0, 3};
    for (int i = 0; i < 8; i++) EXPECT(out[i], want[i], "result %d", i);
}

Test(cpu_layer, asynchronous_copies_arrive_when_waited_for)
{
    float out[4][32];
    layer_async_copy(&out[0][0]);
    for (int t = 0; t < 32; t++) {
        cr_assert(isnan(out[0][t]), "element %d of the first group is there before the wait", t);
        EXPECT(out[1][t], 31 - t, "first group, %d", t);
        cr_assert(isnan(out[2][t]), "element %d of the second group is there before its wait", t);
        EXPECT(out[3][t], 63 - t, "second group, %d", t);
    }
}

Test(cpu_layer, asynchronous_copies_fill_with_zeros)
{
    float out[4];
    layer_async_zero_fill(out);
    for (int i = 0; i < 4; i++) EXPECT(out[i], i < 2 ? 5 : 0, "element %d", i);
}

Test(cpu_layer, device_and_constant_variables)
{
    float out[2];
    layer_symbols(out);
    EXPECT(out[0], 31, "__constant__");
    EXPECT(out[1], 19, "__device__");
}

Test(cpu_layer, kernels_by_any_name)
{
    int out[6];
    const int want[] = {4, 5, 3, 6, 2, 2};
    layer_kernel_names(out);
    for (int i = 0; i < 6; i++) EXPECT(out[i], want[i], "launch %d", i);
}

Test(cpu_layer, cooperative_groups)
{
    int out[64][3];
    layer_cooperative_groups(&out[0][0]);
    for (int t = 0; t < 64; t++) {
        EXPECT(out[t][0], 8 * (t / 8 * 8) + 28, "sum, thread %d", t);
        EXPECT(out[t][1], (t / 8 * 8 + 2) * 100 + t % 8, "shuffle, thread %d", t);
        EXPECT(out[t][2], t / 8 * 1000 + 0xaa, "ballot, thread %d", t);
    }
}

Test(cpu_layer, events_measure_time)
{
    const float ms = layer_events_and_streams();
    cr_assert(ms > 0 && ms < 10000, "100 launches took %g ms", (double)ms);
}

/* --------------------------------------------------------------------------------------------------------------------- memory */

Test(cpu_layer, memory_is_counted)
{
    size_t out[5];
    const size_t want[] = {6000, 1000, 6000, 1000, 0};
    layer_memory_counts(out);
    for (int i = 0; i < 5; i++) EXPECT(out[i], want[i], "count %d", i);
}

Test(cpu_layer, fresh_device_memory_is_nan)
{
    unsigned char out[1000];
    layer_fresh_memory(out);
    for (int i = 0; i < 1000; i++) EXPECT(out[i], 0xff, "byte %d", i);
}

Test(cpu_layer, wrong_copies_are_refused)
{
    int out[9];
    layer_memory_errors(out);
    const int want[] = {1, 1, 1, 1, 0, 0, 0, 0, 0};
    for (int i = 0; i < 9; i++) EXPECT(out[i], want[i], "call %d (%s)", i, layer_error_name(out[i]));
}

Test(cpu_layer, memory_runs_out)
{
    cr_assert_str_eq(layer_error_name(layer_too_much_memory()), "cudaErrorMemoryAllocation");
}

Test(cpu_layer, properties)
{
    int out[4];
    const int want[] = {1024, 227 * 1024, 32, 227 * 1024};
    layer_properties(out);
    for (int i = 0; i < 4; i++) EXPECT(out[i], want[i], "property %d", i);
}

Test(cpu_layer, works_in_a_child_after_its_parent_used_it)
{
    EXPECT(layer_library_like(3), 240, "parent");
    const pid_t child = fork();
    if (child == 0) {
        alarm(10);
        _exit(layer_library_like(5) == 400 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status %#x", (unsigned)status);
}

/* ------------------------------------------------------------------------------------------------------------ what is printed */

#define PRINTS(...)                                                                                                    \
    do {                                                                                                               \
        const char *words_[] = {__VA_ARGS__};                                                                          \
        for (size_t i_ = 0; i_ < sizeof words_ / sizeof *words_; i_++) check_printed(words_[i_]);                      \
    } while (0)

/* f must end with a report, status 66, that holds all these words. */
#define REPORTS(f, ...)                                                                                                \
    do {                                                                                                               \
        check_reported(run_apart(f));                                                                                  \
        PRINTS(__VA_ARGS__);                                                                                           \
    } while (0)

static int launch_grid_y, launch_threads, launch_shared, launch_errors[2];
static void launch_as_set(void)
{
    layer_launch(launch_grid_y, launch_threads, launch_shared, launch_errors);
    _exit(launch_errors[1] == 0 ? launch_errors[0] : 99);
}

static void refused(int grid_y, int threads, int shared, const char *error)
{
    launch_grid_y = grid_y;
    launch_threads = threads;
    launch_shared = shared;
    const int status = run_apart(launch_as_set);
    cr_assert(WIFEXITED(status));
    cr_assert_str_eq(layer_error_name(WEXITSTATUS(status)), error);
}

Test(cpu_layer, too_many_threads)
{
    refused(1, 1024, 0, "cudaSuccess");
    refused(1, 1025, 0, "cudaErrorInvalidConfiguration");
    PRINTS("launch of nothing refused", "1025 x 1 x 1 threads", "cpu_layer_kernels.cu:");
    refused(1, 0, 0, "cudaErrorInvalidConfiguration");
}

Test(cpu_layer, too_many_blocks)
{
    refused(65536, 1, 0, "cudaErrorInvalidConfiguration");
    PRINTS("launch of nothing refused", "1 x 65536 x 1 blocks");
    refused(0, 1, 0, "cudaErrorInvalidConfiguration");
}

Test(cpu_layer, too_much_shared_memory)
{
    refused(1, 1, 49152, "cudaSuccess");
    refused(1, 1, 49153, "cudaErrorInvalidValue");
    PRINTS("launch of nothing refused", "49153 bytes of dynamic shared memory", "cudaFuncSetAttribute");
}

Test(cpu_layer, shared_memory_opt_in_is_per_kernel)
{
    int errors[4];
    layer_shared_opt_in(errors);
    const int want[] = {0, 0, 1, 1};
    for (int i = 0; i < 4; i++) EXPECT(errors[i], want[i], "call %d", i);
}

Test(cpu_layer, report_different_barriers)
{
    REPORTS(broken_barrier, "divergent barriers in kernel two_barriers, block (", "threads 0-31: at __syncthreads()",
            "threads 32-63", "cpu_layer_kernels.cu:", "__syncthreads();  // the first warp's",
            "__syncthreads();  // the others'");
}

Test(cpu_layer, report_early_return)
{
    REPORTS(broken_early_return, "barrier after an early return in kernel early_return",
            "threads 50-63: returned from the kernel", "__syncthreads();  // not for everybody");
}

Test(cpu_layer, report_deadlock)
{
    REPORTS(broken_deadlock, "deadlock", "kernel deadlock, block (0,0,0)",
            "threads 0-15: at __shfl_sync(), for lanes 0-31 of warp 0", "// half of the warp",
            "threads 16-31: at __syncthreads()");
}

Test(cpu_layer, report_absent_lane)
{
    REPORTS(broken_absent_lane, "absent lane", "kernel absent_lane, block (0,0,0), thread (8,0,0)",
            "lane 8 reads from lane 16", "is not in the mask", "// lane 8 reads from lane 16");
}

Test(cpu_layer, report_returned_lane)
{
    REPORTS(broken_returned_lane, "absent lane", "reads from lane 31", "has returned", "// which is gone");
}

Test(cpu_layer, report_lane_not_in_its_mask)
{
    REPORTS(broken_mask, "lane not in its own mask", "lane 0 calls with mask 0xfffffffe", "__syncwarp(0xfffffffeu)");
}

Test(cpu_layer, report_bad_width) { REPORTS(broken_width, "bad width", "width 12"); }

Test(cpu_layer, report_null_pointer)
{
    REPORTS(broken_null, "illegal address in kernel write_at, block (0,0,0), thread (3,0,0)",
            "address 0: a null pointer", "at tests/cpu_layer_kernels.cu:", "// the wild write");
}

Test(cpu_layer, report_past_the_end)
{
    REPORTS(broken_past_end, "illegal address", "4 bytes past the end of the 4096 bytes of cudaMalloc at",
            "// the wild write");
}

Test(cpu_layer, report_misaligned_vector)
{
#if defined(__x86_64__)
    REPORTS(broken_misaligned, "misaligned access in kernel read_vector", "// not at a multiple of 16");
#endif
}

Test(cpu_layer, sixteen_bytes_are_aligned_enough)
{
    float out[36];
    layer_aligned_at_sixteen(out);
    for (int i = 0; i < 36; i++) EXPECT(out[i], i < 4 ? 0 : 1 + i % 4, "element %d", i);
}

Test(cpu_layer, report_use_after_free)
{
    REPORTS(broken_freed, "illegal address", "byte 20 of the 4096 bytes", "have been freed");
}

Test(cpu_layer, report_past_the_end_of_dynamic_shared)
{
    REPORTS(broken_dynamic_past_end, "illegal address", "16 bytes past the end of extern __shared__ rows (1024 bytes)",
            "// too far");
}

Test(cpu_layer, report_no_dynamic_shared)
{
    REPORTS(broken_no_dynamic, "illegal address", "rows has no memory", "<<<");
}

Test(cpu_layer, report_too_much_static_shared)
{
    REPORTS(broken_static_shared, "too much static shared memory",
            "b brings the kernel's __shared__ variables to 56000 bytes");
}

Test(cpu_layer, report_host_access)
{
    REPORTS(broken_host_read, "host code touched device memory", "byte 12 of the 4096 bytes", "use cudaMemcpy",
            "// on the host");
}

Test(cpu_layer, report_stack_overflow)
{
    REPORTS(broken_stack, "stack overflow", "kernel large_local_array", "CUDACPU_STACK_KB");
}

void wb_launch_seconds(long seconds);  // workbook/cpu/watchdog.cpp

Test(cpu_layer, report_timeout)
{
    wb_launch_seconds(1);
    REPORTS(broken_spin, "timeout", "kernel spin, block (0,0,0), thread (0,0,0)", "// for thread 1");
}

Test(cpu_layer, report_misaligned_asynchronous_copy)
{
    REPORTS(broken_async_misaligned, "misaligned asynchronous copy", "destination lies 4", "// 4 bytes off");
}

Test(cpu_layer, report_asynchronous_copy_to_global)
{
    REPORTS(broken_async_destination, "bad asynchronous copy", "must be shared memory");
}

static void divide_by_zero(void) { broken_division(0); }
Test(cpu_layer, report_division_by_zero)
{
#if defined(__x86_64__)
    REPORTS(divide_by_zero, "integer division by zero", "kernel divide");
#endif
}

static void host_null(void)
{
    signal(SIGSEGV, SIG_DFL);
    broken_host_null();
}
Test(cpu_layer, faults_of_the_host_are_left_alone)
{
    const int status = run_apart(host_null);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %#x:\n%s", (unsigned)status, printed);
}
