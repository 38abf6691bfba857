// harness.h - what a suite may say. Each check gives a worker (exchange.h) one case, waits for it, and judges what came
// back; the student's code runs in the worker alone. A failed check ends the test with a report.
//
//   #include "harness.h"
//   TEST_PROBLEM(flash_forward)
//   Test(flash_forward, one_tile) { check_case((wb_case){.shape = {.q_len = 128, .kv_len = 64, .head_dim = 64}}); }
//
// What suites of attention ask alike stands in contract.h.
//
// Environment: WB_WORKER the worker's path; SEED other inputs; WB_BACKEND cpu or cuda; WB_TIMEOUT how many seconds
// of its own (spent.h) a worker has for a case, 20 unless set; WB_PROBLEM_SECONDS for all together; WB_SPENT the file
// that says how many they had (after three without an answer no more are run); CASE one case, which then is the only
// thing checked, behind others if colons stand between, or `small`, those of random_case.c, in buffers that end with
// their tensors, for workers that look at every access.
#pragma once

#include "case/case.h"

#include <criterion/criterion.h>

// Names the problem of a file, and gives it the test that CASE runs and, last, that of random cases.
#define TEST_PROBLEM(name) TEST_PROBLEM_FOR(name, 0)

// The same for a function that needs a GPU of this major compute capability: on any other GPU its tests are skipped.
#define TEST_PROBLEM_FOR(name, capability) \
    const char *const harness_problem = #name; \
    const int harness_capability = capability; \
    TestSuite(name); \
    Test(name, given_case) { check_given_case(); } \
    TEST_AT(name, drawn_sizes, 1 << 20) { check_random(); }

// A test ends with the ends of its workers, which are judged too. Tests start in the order in which they are defined
// (judge/record.c), also where one header defines some of several suites.
#undef Test
#define Test(suite, name) TEST_AT(suite, name, __COUNTER__ + 1)
#define TEST_AT(suite, name, place) \
    static void harness_test_##name(void); \
    CR_TEST_BASE(suite, name, .data = (void *)(size_t)(place)) \
    { \
        harness_test_##name(); \
        harness_end(); \
    } \
    static void harness_test_##name(void)

extern const char *const harness_problem;
extern const int harness_capability;
void harness_end(void);

// Every element of every output is within its tolerance (tolerance.h) of the oracle; guard zones and inputs are
// unchanged. Fields of the case that are 0 take the defaults of case.h.
void check_case(wb_case c);

// The same in a process of its own, with the environment as it is now.
void check_case_alone(wb_case c);

// The same for each kind of input (case.h) but the worked ones.
void check_every_input(wb_case c);

// The first `count` elements of output `name` are these numbers, as a lesson prints them; and check_case.
void check_worked(wb_case c, const char *name, const double *numbers, int count, double tolerance);

// Only this output is judged: what a student has done so far.
void check_output(wb_case c, const char *name);

// Twice the dO gives twice of each output of a backward, to the bit; and check_case of both.
void check_doubles(wb_case c);

// dQ, dK and dV are the gradient of the oracle's forward: they say how a small step changes the loss sum(dO * O).
void check_descends(wb_case c);

// A case gives the same bits again: in the same process after other calls, of which one is refused, and in a process of
// its own. On the CPU execution layer lanes, warps and blocks run shuffled there, and backward in a third; give each
// row at least three tiles, since a + b is b + a.
void check_same_twice(wb_case c);

// The function works on the stream that it is given, which is not the default one, and does not wait for it, also while
// another call is under way on another; and check_case.
void check_stream(wb_case c);

// What no test before has asked: a few random cases of the problem's contract (case/random_case.c), the same for
// everybody, and as many more of this run's seed if it has one; and whether a grid has room for 66,000 heads. Of a
// random case that fails a smaller one is looked for, and reported.
void check_random(void);

// Calls the function, whatever comes of it.
void run_unjudged(wb_case c);

// The function refuses these arguments with this status and a message that contains `word`, and writes nothing. No
// defaults are filled in.
void check_rejected(wb_case c, wb_status status, const char *word);

// The call needs at most this much memory beyond its tensors, on the device and on the host, and gives all of the
// device's back; and check_case, in a process of its own.
void check_memory(wb_case c, size_t device_bytes, size_t host_bytes);

// Tiles that nobody sees are not computed. V of one block of keys is NaN, so a computed tile of it gives 0 * NaN = NaN
// in its rows, whatever its mask; every block of keys, `block` of them, that leaves something to judge takes its turn.
// The margin: a query is excused if it shares a tile of up to 128 queries x 128 keys with a query that sees one of
// these keys, or a neighbour of them, that is if a query less than 128 away sees a key less than 128 away. All other
// queries must be right. In a backward that may show in dQ of such queries; and then dO of a block of queries is NaN,
// which may show in dK and dV of keys near those that it sees.
void check_skips(wb_case c, int block);
// The same, but false if a mask leaves nothing to judge.
bool has_skips(wb_case c, int block);

// Such tiles are not even read, with the same margin; and no block of a decoding kernel reads more than half of all
// keys, or, where the case says how many multiprocessors there are, more than one and a half of as many equal shares,
// which should be a few pages of memory each; and check_case. On the cpu backend, where their pages may not be touched
// (layer_requests.h); skipped on a GPU.
void check_reads(wb_case c);

// check_case; and how many numbers the warps have multiplied in products of matrices. 0 if they are not counted.
uint64_t multiplied_in(wb_case c);

// What ranks are asked beyond right results (17 and 18): none sends more than K and V of all others but the one that
// the ring turns to, and of a backward all gradients of K and V; none calls wb_attention or wb_attention_backward for
// pairs of chunks that it need not look at; from three ranks on, and in a backward from two, a product may run under
// each message, and half of them under some; nobody waits for the device; and check_case. All but the last on the cpu
// backend, which counts. The case that is printed asks the same when it is given (CASE).
void check_ranks(wb_case c);

// Whether so many ranks can be tried here; if not, that is said, once. On the cpu backend they always can.
bool may_have_ranks(int ranks);

// check_case of a tensor with more than 2^31 elements, where that is asked for (make test-03 LARGE=1), on a
// GPU whose machine has the memory; else nothing, and where memory is why, it says so.
void check_beyond_int(wb_case c);

// While a warp works on a tile of scores a product of its own is in flight: for three quarters of its tiles, so give it
// eight tiles of keys or more; and check_case. On the cpu backend, which sees it (layer_requests.h); skipped on a GPU.
void check_overlap(wb_case c);

// No two of the eight rows that ldmatrix fetches together lie in the same banks, and fragments are fetched by it; and
// check_case. On the cpu backend, which counts; skipped on a GPU.
void check_fetches(wb_case c);

// Of a causal case whose length each tile of queries divides: 64 rows multiply no tile of keys beyond the last of them,
// tiles of up to 128 keys, and the blocks that begin first do not have the least to do; and check_case. On the cpu
// backend, which counts; skipped on a GPU.
void check_triangle(wb_case c);

// What the call needed, and check_case.
typedef struct memory_use {
    size_t device_bytes, host_bytes, workspace_bytes;  // the last: what flash_decode_workspace said
} memory_use;
memory_use measure_memory(wb_case c);

void check_given_case(void);

uint64_t run_seed(void);    // SEED, for what a test draws itself
bool on_cpu_backend(void);  // shapes are scaled down there
