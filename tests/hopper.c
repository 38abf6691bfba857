/* hopper.c - the words of hopper.cuh, one by one, against loops that anyone can check; and on the CPU execution layer what it says of a
 * pipeline in which one thing is wrong. Elsewhere than on sm_90 and the layer every test is skipped. */
#include "apart.h"
#include "hopper_kernels.h"
#include "case/case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state;

/* Uniform between -1 and 1, rounded to bf16; every test starts from the same numbers. */
static uint16_t noise(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return wb_to_bf16((float)((double)(int32_t)(state >> 32) / 0x1p31));
}

static void start(void)
{
    state = 1;
    if (!hopper_here()) cr_skip_test("hopper.cuh needs sm_90 or the CPU execution layer");
}

TestSuite(hopper, .init = start, .timeout = 60);

static uint16_t *numbers(size_t count)
{
    uint16_t *p = calloc(count, sizeof *p);
    cr_assert(p, "out of memory");
    for (size_t i = 0; i < count; i++) p[i] = noise();
    return p;
}

static void expect(double got, double want, double tolerance, const char *what, int row, int col)
{
    cr_assert(isfinite(got) && fabs(got - want) <= tolerance, "%s [%d][%d] is %.9g, should be %.9g", what, row, col,
              got, want);
}

/* ------------------------------------------------------------------------------------------------------------- the words */

Test(hopper, a_tile_ends_with_zeros_where_the_head_ends)
{
    enum { HEADS = 3, N = 100 };
    static const int rows[] = {0, 36, 37, 64, 99, 100, 1000, -5};
    uint16_t *x = numbers((size_t)HEADS * N * 128);
    static float out[64 * 128];
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        for (int head = 0; head < HEADS; head++) {
            hopper_load(out, x, HEADS, N, rows[n], head);
            for (int r = 0; r < 64; r++)
                for (int c = 0; c < 128; c++) {
                    const int row = rows[n] + r;
                    const double want = row < 0 || row >= N ? 0 : wb_from_bf16(x[(head * N + row) * 128 + c]);
                    expect(out[r * 128 + c], want, 0, "tile", r, c);
                }
        }
    free(x);
}

Test(hopper, a_store_ends_where_the_head_ends)
{
    enum { HEADS = 3, N = 100 };
    static float x[64 * 128];
    for (int i = 0; i < 64 * 128; i++) x[i] = wb_from_bf16(noise());
    uint16_t *before = numbers((size_t)HEADS * N * 128), *y = calloc((size_t)HEADS * N * 128, sizeof *y);
    for (int row = 0; row < N; row += 20) {
        memcpy(y, before, (size_t)HEADS * N * 128 * sizeof *y);
        hopper_store(y, x, HEADS, N, row, 1);
        for (int i = 0; i < HEADS * N; i++)
            for (int c = 0; c < 128; c++) {
                const int r = i - N - row;
                const bool sent = i >= N && i < 2 * N && r >= 0 && r < 64;
                expect(wb_from_bf16(y[i * 128 + c]), sent ? x[r * 128 + c] : wb_from_bf16(before[i * 128 + c]), 0, "y",
                       i, c);
            }
    }
    free(before);
    free(y);
}

/* The rows of a tile of several heads stand head by head; a head ends where it ends. And a part of a tile is a tile. A load may begin before a
   head; a store may not, and sends that tile to the head's beginning. */
Test(hopper, a_tile_of_several_heads)
{
    enum { HEADS = 16, N = 37 };
    uint16_t *x = numbers((size_t)HEADS * N * 64), *y = calloc((size_t)HEADS * N * 64, sizeof *y);
    static float c[64 * 16];
    for (int box_heads = 2; box_heads <= 8; box_heads *= 2)
        for (int row = -3; row < N; row += 8) {
            const int rows = 64 / box_heads, head = 16 - box_heads, row0 = (row + 3) % 48;
            memset(y, 0, (size_t)HEADS * N * 64 * sizeof *y);
            hopper_heads(y, c, x, HEADS, N, box_heads, row, head, row0);
            for (int i = 0; i < HEADS * N; i++)
                for (int d = 0; d < 64; d++) {
                    const int to = row < 0 ? 0 : row, r = i % N - to;  // of the tile
                    const bool sent = i / N >= head && r >= 0 && r < rows && row + r >= 0;
                    expect(wb_from_bf16(y[i * 64 + d]), sent ? wb_from_bf16(x[(i + row - to) * 64 + d]) : 0, 0, "y", i,
                           d);
                }
            for (int i = 0; i < 64; i++)
                for (int j = 0; j < 16; j++) {
                    const int a = row + i % rows, b = row + (row0 + j) % rows;
                    const int of_a = (head + i / rows) * N + a, of_b = (head + (row0 + j) / rows) * N + b;
                    double want = 0;
                    for (int d = 0; d < 64 && a >= 0 && a < N && b >= 0 && b < N; d++)
                        want += (double)wb_from_bf16(x[of_a * 64 + d]) * wb_from_bf16(x[of_b * 64 + d]);
                    expect(c[i * 16 + j], want, 1e-4, "C", i, j);
                }
        }
    free(x);
    free(y);
}

static void check_product(hopper_form form, int cols)
{
    enum { DEPTH = 128 };
    uint16_t *a = numbers(64 * DEPTH), *b = numbers((size_t)cols * DEPTH);
    float *c = calloc((size_t)(64 * cols), sizeof *c), *before = calloc((size_t)(64 * cols), sizeof *c);
    for (int i = 0; i < 64 * cols; i++) before[i] = c[i] = wb_from_bf16(noise());
    hopper_product(form, cols, a, b, c);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < cols; j++) {
            double want = form == HOPPER_ABt || form == HOPPER_AB_FIRST ? 0 : before[i * cols + j];
            for (int k = 0; k < DEPTH; k++)
                want += (double)wb_from_bf16(a[i * DEPTH + k]) *
                        wb_from_bf16(b[form <= HOPPER_ABt_MORE ? j * DEPTH + k : k * cols + j]);
            expect(c[i * cols + j], want, 1e-4, "C", i, j);
        }
    free(a), free(b), free(c), free(before);
}

Test(hopper, product_ABt)
{
    for (int cols = 64; cols <= 192; cols += 32) check_product(HOPPER_ABt, cols);
    check_product(HOPPER_ABt, 16);
    check_product(HOPPER_ABt, 144);
    for (int cols = 64; cols <= 192; cols += 32) check_product(HOPPER_ABt_MORE, cols);
}
Test(hopper, product_AB)
{
    for (int cols = 64; cols <= 192; cols += 64) check_product(HOPPER_AB_REGISTERS, cols);
    for (int cols = 64; cols <= 192; cols += 64) check_product(HOPPER_AB_SHARED, cols);
    for (int cols = 64; cols <= 192; cols += 64) check_product(HOPPER_AB_FIRST, cols);
}

Test(hopper, two_products_in_flight)
{
    uint16_t *x = numbers(128 * 64);
    static float early[64 * 64], late[64 * 64];
    hopper_pending(early, late, x);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) {
            double want = 0;
            for (int k = 0; k < 64; k++)
                want += (double)wb_from_bf16(x[i * 64 + k]) * wb_from_bf16(x[(64 + j) * 64 + k]);
            expect(early[i * 64 + j], want, 1e-4, "early", i, j);
            expect(late[j * 64 + i], want, 1e-4, "late", j, i);
        }
    free(x);
}

Test(hopper, warpgroups_take_turns)
{
    enum { ROUNDS = 5 };
    int order[3 * ROUNDS];
    for (int groups = 2; groups <= 3; groups++) {
        memset(order, 0xff, sizeof order);
        hopper_turns(order, groups, ROUNDS);
        for (int i = 0; i < groups * ROUNDS; i++) expect(order[i], i % groups, 0, "turn", groups, i);
    }
}

Test(hopper, one_warpgroup_waits_for_the_others)
{
    enum { ROUNDS = 12 };
    int came[ROUNDS + 1] = {0};
    hopper_gather(came, ROUNDS);
    for (int i = 0; i <= ROUNDS; i++) expect(came[i], 3, 0, "came", i, 0);
}

Test(hopper, a_left_factor_is_stored_transposed)
{
    uint16_t *x = numbers(64 * 128);
    static float out[128 * 64];
    hopper_transpose(out, x);
    for (int i = 0; i < 128; i++)
        for (int j = 0; j < 64; j++) expect(out[i * 64 + j], wb_from_bf16(x[j * 128 + i]), 0, "transposed", i, j);
    free(x);
}

Test(hopper, bytes_come_beside_a_tile)
{
    enum { T = 5 };
    uint16_t *x = numbers(T * 64 * 64);
    static float beside[T * 64], out[T * 64];
    for (int i = 0; i < T * 64; i++) beside[i] = wb_from_bf16(noise());
    hopper_send_with(out, x, beside, T);
    for (int t = 0; t < T; t++)
        for (int i = 0; i < 64; i++)
            expect(out[t * 64 + i], beside[t * 64 + i] + wb_from_bf16(x[(t * 64 + i) * 64]), 0, "sum", t, i);
    free(x);
}

enum { BLOCKS = 6 };
static float summands[2 * BLOCKS][64 * 64], sum[64 * 64];

/* So unlike in size that each order of the additions gives another sum. */
static void make_summands(void)
{
    for (int n = 0; n < 2 * BLOCKS; n++)
        for (int i = 0; i < 64 * 64; i++) summands[n][i] = ldexpf(wb_from_bf16(noise()), n * 7 % 24);
}

Test(hopper, blocks_add_in_turns)
{
    make_summands();
    hopper_sum(SUM_RIGHT, sum, summands[0], BLOCKS);
    for (int i = 0; i < 64 * 64; i++) {
        float want = summands[0][i];
        for (int n = 1; n < 2 * BLOCKS; n++) want += summands[n][i];
        expect(sum[i], want, 0, "sum", i / 64, i % 64);
    }
}

enum { TILES = 7 };
static uint16_t *Q, *K, *V;
static float O[128 * 64];

static void make_inputs(void) { Q = numbers(128 * 64), K = numbers(TILES * 64 * 64), V = numbers(TILES * 64 * 64); }

Test(hopper, pipeline)
{
    make_inputs();
    hopper_pipeline(NOTHING_WRONG, O, Q, K, V, TILES);
    for (int i = 0; i < 128; i++)
        for (int d = 0; d < 64; d++) {
            double want = 0, terms = 0;
            for (int j = 0; j < TILES * 64; j++) {
                double s = 0;
                for (int k = 0; k < 64; k++) s += (double)wb_from_bf16(Q[i * 64 + k]) * wb_from_bf16(K[j * 64 + k]);
                const double term = (double)wb_from_bf16(wb_to_bf16((float)s)) * wb_from_bf16(V[j * 64 + d]);
                want += term, terms += fabs(term);
            }
            expect(O[i * 64 + d], want, 1.0 / 256 * fabs(want) + 2e-4 * terms, "O", i, d);
        }
}

/* ------------------------------------------------------------------------------- what the CPU execution layer says of mistakes */

static int wrong; /* in what runs apart */
static void pipeline_apart(void) { hopper_pipeline((hopper_hazard)wrong, O, Q, K, V, TILES); }
static void sum_apart(void) { hopper_sum((sum_hazard)wrong, sum, summands[0], BLOCKS); }

/* A report, exit status 66, with this kind, these words, and this line of the kernel. */
static void check_report(void (*run)(void), const char *kind, const char *words, const char *line)
{
    if (getenv("WB_BACKEND") && strcmp(getenv("WB_BACKEND"), "cuda") == 0)
        cr_skip_test("a GPU says nothing of this: it hangs, or computes");
    make_inputs(), make_summands();
    check_reported(run_apart(run));
    char first[128];
    snprintf(first, sizeof first, "cudacpu: %s in kernel", kind);
    cr_assert(strstr(printed, first) == printed, "not \"%s\":\n%s", first, printed);
    check_printed(words);
    check_printed(line);
}

#define SAYS(name, hazard, kind, words, line)                                                                          \
    Test(hopper, says_##name) { wrong = hazard, check_report(pipeline_apart, kind, words, line); }
#define SAYS_OF_SUM(name, hazard, kind, words, line)                                                                   \
    Test(hopper, says_##name) { wrong = hazard, check_report(sum_apart, kind, words, line); }

#define SCORES "| mma_ABt_async(S, Q, s.K.tile[K.stage]);"
SAYS(no_wait_on_full, NO_WAIT_ON_FULL, "tile used before it arrived", "phase 0 of K.full[0]", SCORES)
SAYS(other_ring_waited_for, OTHER_RING_WAITED_FOR, "tile used before it arrived", "phase 0 of K.full[0]", SCORES)
SAYS(K_released_too_early, K_RELEASED_TOO_EARLY, "tile overwritten too early", "the copy engine overwrites K.tile[",
     "K.send(")
SAYS(V_released_too_early, V_RELEASED_TOO_EARLY, "tile overwritten too early", "the copy engine overwrites V.tile[",
     "V.send(")
SAYS(scores_read_too_early, SCORES_READ_TOO_EARLY, "result read too early", "products_done is missing before", SCORES)
SAYS(weights_changed, WEIGHTS_CHANGED_IN_FLIGHT, "registers changed in flight", "the weights of this product",
     "mma_AB_async(O, P")
SAYS(result_scaled, RESULT_SCALED_IN_FLIGHT, "result read too early", "products_done is missing before", "o *= 2")
SAYS(sender_phase, SENDER_BEGINS_WITH_PHASE_0, "deadlock",
     "for K.empty[0], phase 0; 0 are over: 8 of 8 arrivals missing", "K.send(")
SAYS(receiver_phase, RECEIVER_BEGINS_WITH_PHASE_1, "tile used before it arrived", "K.tile[0]", SCORES)
SAYS(Q_not_waited_for, ONE_GROUP_DOES_NOT_WAIT_FOR_Q, "tile used before it arrived", "phase 0 of Q_full", SCORES)
SAYS(one_arrival_less, ONE_ARRIVAL_LESS, "tile overwritten too early", "its end was never announced", "K.send(")
SAYS(one_arrival_more, ONE_ARRIVAL_MORE, "deadlock", "for K.empty[0], phase 0; 0 are over: 1 of 9 arrivals missing",
     "K.send(")
SAYS(never_released, ONE_WARP_NEVER_RELEASES, "warps of a group disagree", "V.tile[1]", "mma_AB_async(O, P")
SAYS(fewer_bytes_promised, FEWER_BYTES_PROMISED, "bytes not promised", "have come to Q_full, only", "copy_in(")
SAYS(twice_the_bytes, TWICE_THE_BYTES, "deadlock",
     "for Q_full, phase 0; 0 are over: 32768 bytes promised, 16384 have come", "s.Q_full.wait(0)")
SAYS(signals_ready_forgotten, SIGNALS_READY_FORGOTTEN, "signal not ready", "signals_ready() is missing",
     "load_async(s.Q[g]")
SAYS(no_barrier_after_init, NO_BARRIER_AFTER_INIT, "signal not ready", "__syncthreads() is missing", "s.V.init(8)")
SAYS(store_in_flight, STORE_INTO_Q_IN_FLIGHT, "tile overwritten too early", "store() overwrites Q[", "store(Q, O)")
SAYS(hand_written_store, HAND_WRITTEN_STORE_IN_FLIGHT, "tile changed in flight", "Q[", SCORES)
SAYS(no_fence, NO_FENCE, "written tile not visible", "without a fence", "copy_out(")
SAYS(no_group_barrier, NO_GROUP_BARRIER, "written tile not visible", "has not met this warp since", "copy_out(")
SAYS(stores_read_forgotten, STORES_READ_FORGOTTEN, "returned too early", "stores_read() is missing",
     "store_async(O_map")
SAYS(turn_never_passed, TURN_NEVER_PASSED, "deadlock", "for 256 threads: 128 are missing", "turn.wait()")
SAYS(too_many_registers, TOO_MANY_REGISTERS, "deadlock", "registers a thread more", "registers_up<240>")
SAYS(a_warp_skips_a_product, ONE_WARP_SKIPS_A_PRODUCT, "warps of a group disagree",
     "the four warps of a group issue the same", "products_done<1>(S)")
SAYS(products_done_forgotten, PRODUCTS_DONE_FORGOTTEN, "result read too early", "products_done is missing",
     "mma_AB_async(O, P")
SAYS(first_scores_not_done, FIRST_SCORES_NOT_DONE, "result read too early",
     "products_done<1> names a result that is not done: 1 product is in flight, and 1 may be", SCORES)
SAYS(result_thrown_away, RESULT_THROWN_AWAY, "result thrown away", "no products_done names the result",
     "mma_ABt_async(nobody, Q, Q)")
SAYS(result_overwritten, RESULT_OVERWRITTEN, "result thrown away", "another product writes its result",
     "mma_ABt_async(nobody, Q, Q)")
SAYS(one_load_too_many, ONE_LOAD_TOO_MANY, "returned too early", "V.tile[1]: nobody waited for it", "V.send(")
SAYS(one_load_too_few, ONE_LOAD_TOO_FEW, "deadlock", "1 of 1 arrivals missing", "mma_AB_async(O, P")
SAYS(shuffle_under_if, SHUFFLE_UNDER_IF, "deadlock", "__shfl_sync()", "warp_in_group()")
SAYS(box_of_another_size, BOX_OF_ANOTHER_SIZE, "box of another size", "K.tile[0] has 8192 bytes", "K.send(")
SAYS(store_before_row_0, STORE_BEFORE_ROW_0, "store before the tensor", "would begin at row -1 of head 0",
     "store_async(O_map")

SAYS_OF_SUM(sum_without_fence, SUM_WITHOUT_FENCE, "written tile not visible", "without a fence", "put_async(sum, s.x)")
SAYS_OF_SUM(sum_not_waited_for, SUM_NOT_WAITED_FOR, "written tile not visible", "has not met this warp since",
            "put_async(sum, s.x)")
SAYS_OF_SUM(sum_freed_too_early, SUM_FREED_TOO_EARLY, "tile overwritten too early", "the copy engine may still read it",
            "store(s.x, mine)")
SAYS_OF_SUM(announced_too_early, SUM_ANNOUNCED_TOO_EARLY, "announced too early", "stores_done() is missing",
            "announce(&counters[1])")
SAYS_OF_SUM(never_announced, SUM_NEVER_ANNOUNCED, "deadlock", "for a counter in device memory to become",
            "await(&counters[1], turn)")
SAYS_OF_SUM(sum_not_read, SUM_NOT_READ, "returned too early", "stores_read() is missing", "put_async(sum, s.x)")
