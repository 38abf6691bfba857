// harness.h - what a suite may say. Each check gives a worker (exchange.h) a case, and judges what comes back; the
// student's code runs there alone. A failed check ends the test with a report.
//
//   #include "harness.h"
//   TEST_PROBLEM(flash_forward)
//   Test(flash_forward, one_tile) { check_case((wb_case){.shape = {.q_len = 128, .kv_len = 64, .head_dim = 64}}); }
//
// What suites of attention ask alike stands in contract.h.
//
// Environment: WB_WORKER the worker's path; SEED other inputs; WB_BACKEND cpu or cuda; WB_TIMEOUT seconds of its own
// (spent.h) that a worker has for a case, 20 unless set; WB_PROBLEM_SECONDS for all together; WB_SPENT the file that
// gets a line with how many they had; CASE one case, the only one that is checked, behind others if colons stand
// between, or `small`, those of random_case.c, in buffers that end with their tensors.
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

// A test ends with the ends of its workers, which are judged too. Tests start in the order of their definitions.
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
const wb_problem *problem(void);  // of harness_problem
void harness_end(void);

// Every element of every output is within its tolerance (tolerance.h) of the oracle; guards and inputs are unchanged.
// Fields that are 0 take the defaults of case.h. The checks below judge that, too, unless they say otherwise.
void check_case(wb_case c);

// The same in a process of its own, with the environment as it is now.
void check_case_alone(wb_case c);

// The same for each kind of input (case.h) but the worked ones.
void check_every_input(wb_case c);

// And the first `count` elements of output `name` are these numbers, as a lesson prints them.
void check_worked(wb_case c, const char *name, const double *numbers, int count, double tolerance);

// Only this output is judged: what a student has done so far.
void check_output(wb_case c, const char *name);

// Twice the dO gives twice of each output of a backward, to the bit; and check_case of both.
void check_doubles(wb_case c);

// dQ, dK and dV are the gradient of the oracle's forward: they say how a small step changes the loss sum(dO * O).
void check_descends(wb_case c);

// A case gives the same bits again: in the same process after other calls, of which one is refused, and in a new one,
// where on the CPU layer threads run shuffled, or backward. Give each row three tiles, since a + b is b + a.
void check_same_twice(wb_case c);

// The function works on the stream that it is given, and does not wait for it, also while another call is under way.
void check_stream(wb_case c);

// A few random cases of the problem's contract (case/random_case.c), the same for everybody, and as many of this run's
// seed if it has one; and whether a grid has room for 66,000 heads. Of one that fails a smaller one is reported.
void check_random(void);

// Calls the function, whatever comes of it.
void run_unjudged(wb_case c);

// The function refuses these arguments, without defaults, by this status and a message with `word`, and writes nothing.
void check_rejected(wb_case c, wb_status status, const char *word);

// The call needs at most this much memory beyond its tensors, and gives all of the device's back.
void check_memory(wb_case c, size_t device_bytes, size_t host_bytes);

// Tiles that nobody sees are not computed. V of each block of `block` keys in turn is NaN, so a computed tile of it
// gives 0 * NaN = NaN in its rows. A query is excused if one less than 128 away sees a key less than 128 away from the
// block: a tile may have 128 x 128. Of a backward dO of each block of queries is NaN, too, and keys are excused so.
void check_skips(wb_case c, int block);
// False if a mask leaves nothing to judge.
bool has_skips(wb_case c, int block);

// Such tiles are not even read, with the same margin; and no block of a decoding kernel reads more than half of all
// keys, or one and a half of as many equal shares as the case has processors: a few pages of memory each. Pages may not
// be touched (layer_requests.h). This and what follows of the cpu backend is skipped on a GPU.
void check_reads(wb_case c);

// check_case; and how many numbers the warps have multiplied in products of matrices. 0 if they are not counted.
uint64_t multiplied_in(wb_case c);

// Of ranks (17 and 18), as the cpu backend counts: none sends more than K and V of all others but the one that the ring
// turns to, and of a backward all gradients; none attends to pairs of chunks that it need not look at; from three ranks
// on, and in a backward from two, a product may run under each message, and half of them under some; nobody waits for
// the device. The case that is printed asks the same when it is given (CASE).
void check_ranks(wb_case c);

// Whether so many ranks can be tried here; if not, that is said, once. On the cpu backend they always can.
bool may_have_ranks(int ranks);
static inline int ranks_or_one(int ranks) { return may_have_ranks(ranks) ? ranks : 1; }

// A tensor with more than 2^31 elements, where that is asked for (make test-03 LARGE=1), on a GPU; else nothing.
void check_beyond_int(wb_case c);

// While a warp works on a tile of scores a product of its own is in flight, in three of four: give it eight tiles.
void check_overlap(wb_case c);

// Fragments are fetched by ldmatrix, and no two of its eight rows lie in the same banks. On the cpu backend.
void check_fetches(wb_case c);

// Of a causal case whose length each tile of queries divides: 64 rows multiply no tile of up to 128 keys beyond the
// last of them, and the blocks that begin first do not have the least to do. On the cpu backend.
void check_triangle(wb_case c);

// What the call needed, and check_case.
typedef struct memory_use {
    size_t device_bytes, host_bytes, workspace_bytes;  // the last: what flash_decode_workspace said
} memory_use;
memory_use measure_memory(wb_case c);

void check_given_case(void);

uint64_t run_seed(void);    // SEED, for what a test draws itself
bool on_cpu_backend(void);  // shapes are scaled down there
