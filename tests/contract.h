// contract.h - what every suite of attention asks alike, so that a suite says what is its problem's own: how a case of
// it is written, of(), and of which case each of these tests asks.
//
//   #include "contract.h"
//   TEST_PROBLEM(flash_causal)
//   #define of(B, H, N, D) causal_case(B, H, H, N, D, 0, 0)
//
//   Test(flash_causal, two_tiles) { check(1, 1, 256, 64); }
//   Test(flash_causal, every_head_dim) { EACH_D(check(1, 2, 384, D)); }
//   Test(flash_causal, scales) { check_scales(of(1, 2, 131, ANY_D)); }
//
// Which scales, offsets and bad arguments these are stands here and nowhere else.
#pragma once

#include "harness.h"

#include <limits.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// How many head dimensions the problem supports, and the n-th, modulo their number: cases take turns.
static inline size_t head_dims(void)
{
    size_t count = 0;
    while (problem()->head_dims[count]) count++;
    return count;
}
static inline int nth_dim(size_t n) { return problem()->head_dims[n % head_dims()]; }
#define dim(n) nth_dim((size_t)(n))

// The same with each of them, D. Where a test of this file chooses them itself, a case says ANY_D.
#define EACH_D(...) \
    for (size_t each = 0; each < head_dims(); each++) { \
        const int D = dim(each); \
        __VA_ARGS__; \
    }
enum { ANY_D = 0 };
#define ONE_D dim(run_seed())  // where others are among the drawn cases

// Where a mask is optional: full, then causal.
#define EACH_MASK(...) \
    for (int causal = 0; causal < 2; causal++) __VA_ARGS__

// The same with each length N around the sizes that matter, fragments of 8 and 16, tiles of 32 to 128; D takes turns,
// with other seeds others. Any length, with anything else, is among the random cases (check_random).
static const int lengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 193, 257};
#define EACH_N(...) \
    for (size_t each = 0; each < COUNT(lengths); each++) { \
        const int N = lengths[each], D = dim(each + run_seed()); \
        __VA_ARGS__; \
    }

// How a suite checks a case, unless it says otherwise before it includes this.
#ifndef CHECK_CASE
#define CHECK_CASE check_case
#endif
#define check(...) CHECK_CASE(of(__VA_ARGS__))

// ------------------------ numbers

static inline void check_input(wb_case c, wb_input input)
{
    c.input = input;
    CHECK_CASE(c);
}

// A lesson's few tokens: two columns, padded with zeros to 16. Keys and weights are rounded to bf16, so numbers agree
// to two or three digits.
static inline wb_case worked(wb_case c)
{
    c.shape.scale = 0.70710678f;
    c.input = WB_WORKED_2;
    return c;
}

// Of a problem with sink logits: the same in every head, or one of each kind.
static inline wb_case with_logit(wb_case c, float logit)
{
    c.logits = WB_LOGITS_GIVEN, c.sink_logit = logit;
    return c;
}

static inline wb_case with_mixed_logits(wb_case c)
{
    c.logits = WB_LOGITS_MIXED;
    return c;
}

// The scale is the caller's: large, small, and nothing like 1 / sqrt(D).
static inline void check_scales(wb_case c)
{
    const float scales[] = {1, 0.3f, 0.01f, 30, 1e-6f};
    for (size_t i = 0; i < COUNT(scales); i++) {
        c.shape.scale = scales[i], c.shape.head_dim = dim(i);
        CHECK_CASE(c);
    }
    // And the logits whatever they are: a million, a hundred million below 0.
    c.shape.scale = 0, c.shape.head_dim = dim(1);
    if (wb_is_backward(problem())) return;
    c.input = WB_SUMMIT, CHECK_CASE(c);
    c.input = WB_TRENCH, CHECK_CASE(c);
}

// A window of half of the sequence leaves three quarters of the pairs to be multiplied, and a little more of the tiles.
static inline void check_less_work(wb_case c)
{
    c.shape.window = c.shape.q_len;
    const uint64_t all = multiplied_in(c);
    c.shape.window = c.shape.q_len / 2;
    const uint64_t part = multiplied_in(c);
    cr_assert(5 * all <= 7 * part,
              "without a window the kernel computes %.2f times as many products as with a window of half the sequence: "
              "does it compute tiles past the end?",
              (double)all / (double)part);
}

// ------------------------ promises

// Tensors may start at any multiple of 16 bytes.
static inline void check_shifted(wb_case c)
{
    for (c.offset = 16; c.offset <= 48; c.offset += 16) {
        c.shape.head_dim = dim(c.offset / 16);
        CHECK_CASE(c);
    }
}

// Nothing but inputs and outputs in device memory, and not much on the host. On a GPU a matrix of scores shows wherever
// it lies if it is large: of 2560 queries and keys it has 25 MiB, half of that in bf16. The CPU layer counts each byte
// that is allocated.
#define SQUARE (on_cpu_backend() ? 1024 : 2560)
static inline void check_no_memory(wb_case c) { check_memory(c, 0, (size_t)12 << 20); }

// Where a problem has no window or no sinks, these fields are not read, whatever they are.
static inline void check_unread(wb_case c)
{
    const int anything[][2] = {{-3, -3}, {5, 40}};
    for (size_t i = 0; i < COUNT(anything); i++) {
        if (!problem()->window) c.shape.window = anything[i][0];
        if (!problem()->sinks) c.shape.sinks = anything[i][1];
        CHECK_CASE(c);
    }
}

// ------------------------ bad input
// Refused, in words, before anything is written. Each takes a good case, complete, and spoils it.

static inline wb_case good_case(void)
{
    static bool called;  // that it was right before must not make it right
    static const char text[] = "Hq=2,Hkv=2,Nq=9,D=1,causal=1,W=4,sinks=1,pages=10,max_pages=10";
    wb_case c;
    cr_assert_eq(wb_case_fit(problem(), text, &c), WB_OK);
    if (!called) called = true, run_unjudged(c);
    return c;
}

// One field of a good case replaced.
#define REFUSED(field, value, status, word) \
    do { \
        wb_case spoiled = good_case(); \
        spoiled.field = value; \
        check_rejected(spoiled, status, word); \
    } while (0)

// Every tensor of the problem, and what else it takes.
static inline void refuses_null(void)
{
    const bool ranks = wb_has_ranks(problem()), decode = problem()->signature == WB_DECODE;
    const char *names[WB_MAX_TENSORS + 3] = {decode || ranks ? "workspace" : NULL, ranks ? "ring" : NULL,
                                             problem()->signature == WB_BLOCK_MASK ? "mask" : NULL};
    wb_case c = good_case();
    wb_tensor tensors[WB_MAX_TENSORS];
    const int count = wb_case_tensors(problem(), &c, tensors);
    for (int n = 0; n < count; n++) names[3 + n] = tensors[n].name;
    for (int n = 0; n < 3 + count; n++) {
        char word[32];
        if (!names[n]) continue;
        strcpy(c.null, names[n]);
        snprintf(word, sizeof word, "%s is null", names[n]);
        check_rejected(c, WB_BAD_ARGUMENT, word);
    }
}

static inline void refuses_head_dims(void)
{
    const int others[] = {1, 8, dim(0) / 4, dim(0) / 2, 48, 2 * dim(head_dims() - 1)};
    for (size_t i = 0; i < COUNT(others); i++) REFUSED(shape.head_dim, others[i], WB_UNSUPPORTED, "head_dim");
}

static inline void refuses_sizes(void)
{
    for (int size = -1; size <= 0; size++) {
        REFUSED(shape.batch, size, WB_BAD_ARGUMENT, "batch");
        REFUSED(shape.q_heads, size, WB_BAD_ARGUMENT, "q_heads");
        REFUSED(shape.kv_heads, size, WB_BAD_ARGUMENT, "kv_heads");
        REFUSED(shape.q_len, size, WB_BAD_ARGUMENT, "q_len");
        REFUSED(shape.head_dim, size, WB_BAD_ARGUMENT, "head_dim");
        // Of a paged cache lengths are data.
        if (!good_case().page) REFUSED(shape.kv_len, size, WB_BAD_ARGUMENT, "kv_len");
    }
    REFUSED(shape.q_heads, 3, WB_BAD_ARGUMENT, "multiple");
    REFUSED(shape.kv_heads, 4, WB_BAD_ARGUMENT, "multiple");
    refuses_head_dims();
}

static inline void refuses_scales(void)
{
    const float scales[] = {0, -1, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < COUNT(scales); i++) REFUSED(shape.scale, scales[i], WB_BAD_ARGUMENT, "scale");
}

static inline void refuses_windows(void)
{
    REFUSED(shape.window, 0, WB_BAD_ARGUMENT, "window");
    REFUSED(shape.window, -1, WB_BAD_ARGUMENT, "window");
    REFUSED(shape.window, INT_MIN, WB_BAD_ARGUMENT, "window");
}

static inline void refuses_sinks(void)
{
    REFUSED(shape.sinks, -1, WB_BAD_ARGUMENT, "sinks");
    REFUSED(shape.sinks, INT_MIN, WB_BAD_ARGUMENT, "sinks");
    wb_case wide = good_case();
    wide.shape.window = INT_MAX, wide.shape.sinks = -1;
    check_rejected(wide, WB_BAD_ARGUMENT, "sinks");
}

// Query i is the i-th token and so is key i: there must be as many of both.
static inline void refuses_other_lengths(void)
{
    REFUSED(shape.kv_len, 10, WB_BAD_ARGUMENT, "q_len = kv_len");
    REFUSED(shape.q_len, 8, WB_BAD_ARGUMENT, "q_len = kv_len");
    REFUSED(shape.q_len, 10, WB_BAD_ARGUMENT, "q_len = kv_len");
}

// Nor can the mask be switched off.
static inline void refuses_what_is_not_causal(void)
{
    refuses_other_lengths();
    REFUSED(shape.causal, 0, WB_UNSUPPORTED, "causal must be 1");
}

// All tensors, and each alone.
static inline void refuses_misaligned(void)
{
    wb_case c = good_case();
    wb_tensor tensors[WB_MAX_TENSORS];
    const int count = wb_case_tensors(problem(), &c, tensors);
    REFUSED(offset, 8, WB_BAD_ARGUMENT, "aligned");
    for (int k = 0; k < count; k++)
        if (wb_tensor_alignment(&tensors[k]) == 16)
            REFUSED(offset, 16 * ((16 / count + 1) * count + k) + 8, WB_BAD_ARGUMENT, "aligned");
}

// The tests of bad input that suites have alike. Behind the suite: what else is refused of sizes.
#define BAD_INPUT(suite, ...) \
    Test(suite, bad_input_null) { refuses_null(); } \
    Test(suite, bad_input_sizes) \
    { \
        refuses_sizes(); \
        __VA_ARGS__; \
    } \
    Test(suite, bad_input_scale) { refuses_scales(); } \
    Test(suite, bad_input_alignment) { refuses_misaligned(); }

// ------------------------ causal problems (04 to 09, 11, 12)

// W, S: 0 where the problem has no window, no sinks.
static inline wb_case causal_case(int B, int Hq, int Hkv, int N, int D, int W, int S)
{
    return (wb_case){.shape = {B, Hq, Hkv, .q_len = N, .head_dim = D, .window = W, .sinks = S}};
}

// A case of any of them, with a window of 20 keys and 4 sinks where it has such.
static inline wb_case any_causal(int B, int Hq, int Hkv, int N, int D)
{
    const int W = problem()->window ? 20 : 0, S = problem()->sinks ? 4 : 0;
    return causal_case(B, Hq, problem()->grouped ? Hkv : Hq, N, D, W, S);
}

// What all of them promise; and those with a window.
#define PROMISES(suite) \
    Test(suite, own_stream) { check_stream(any_causal(2, 4, 2, 150, 64)); } \
    Test(suite, shifted_tensors) { check_shifted(any_causal(1, 4, 2, 73, ANY_D)); } \
    BAD_INPUT(suite) \
    Test(suite, bad_input_mask) { refuses_what_is_not_causal(); }
#define PROMISES_WITH_A_WINDOW(suite) \
    PROMISES(suite) \
    Test(suite, bad_input_window) { refuses_windows(); } \
    Test(suite, memory) \
    { \
        check_no_memory(any_causal(1, 4, 1, SQUARE, 16)); \
        if (!wb_is_backward(problem())) check_beyond_int(any_causal(1, 64, 1, 270001, 128)); \
    }

// Of a backward: a sink logit is not scaled. No gradient comes in, none goes out; and gradients are linear in it. The
// oracle's forward changes as these gradients say, as if both were one function.
#define GRADIENTS(suite) \
    Test(suite, scales) { check_scales(any_causal(1, 2, 1, 81, ANY_D)); } \
    Test(suite, twice_do) \
    { \
        EACH_D(check_input(any_causal(1, 2, 1, 167, D), WB_ZERO_DO), check_doubles(any_causal(1, 2, 1, 167, D))); \
    } \
    Test(suite, descends) \
    { \
        check_descends(any_causal(2, 2, 2, 23, 16)); \
        check_descends(any_causal(1, 4, 1, 41, 64)); \
    }

// Of 07 and 09. All windows and sinks over a few tokens: where they meet, overlap, and cover all. And over N the window
// reaches into the sinks, begins where they end, or misses them by one, in the middle of a tile and at its edge.
#define SINKS(suite, N) \
    Test(suite, every_pair_over_a_few_tokens) \
    { \
        for (int W = 1; W <= 10; W++) \
            for (int S = 0; S <= 10; S += 2 + W % 2) check(1, 2, 1, 9, dim(W + S), W, S); \
    } \
    Test(suite, window_meets_sinks) \
    { \
        const int sinks[] = {4, 16, 60, 64, 130}; \
        for (size_t i = 0; i < COUNT(sinks); i++) \
            for (int gap = -1; gap <= 1; gap++) check(1, 1, 1, N, dim(i), N - sinks[i] + gap, sinks[i]); \
    }
