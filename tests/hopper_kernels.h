/* hopper_kernels.h - kernels that use the words of hopper.cuh one by one, called by hopper.c with host memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hopper_form {
    HOPPER_ABt,
    HOPPER_ABt_MORE,
    HOPPER_AB_REGISTERS,
    HOPPER_AB_SHARED,
    HOPPER_AB_FIRST
} hopper_form;

/* false where the GPU is none of sm_90: then nothing else here works. */
bool hopper_here(void);

/* out [64, 128] = the tile of x [heads, N, 128] at (row, head), as shared memory has it, unexchanged. */
void hopper_load(float *out, const uint16_t *x, int heads, int N, int row, int head);

/* The tile x [64, 128] is sent to y [heads, N, 128] at (row, head). */
void hopper_store(uint16_t *y, const float *x, int heads, int N, int row, int head);

/* The tile of 64 / box_heads rows of each of box_heads heads of x [heads, N, 64] at (row, head) is brought, and sent to the same place of y;
 * c [64, 16] = its product with its own rows row0 ... row0 + 15, transposed. */
void hopper_heads(uint16_t *y, float *c, const uint16_t *x, int heads, int N, int box_heads, int row, int head,
                  int row0);

/* c [64, cols] = a b^T for ABt, c += a b^T for MORE, b [cols, 128]; c += a b for AB, = a b for FIRST, b [128, cols] and cols 64, 128 or 192; a [64, 128]. */
void hopper_product(hopper_form form, int cols, const uint16_t *a, const uint16_t *b, float *c);

/* early [64, 64] = x0 x1^T read after products_done<1>, late after products_done<0> = x1 x0^T; x [2, 64, 64]. */
void hopper_pending(float *early, float *late, const uint16_t *x);

/* order [groups * rounds]: who came when; the warpgroups take turns. */
void hopper_turns(int *order, int groups, int rounds);

/* came [rounds + 1]: how many of the three warpgroups had come when number i % 3 went on from the i-th gathering; and in all, at last. */
void hopper_gather(int *came, int rounds);

/* out [128, 64] = the transposed matrix of x [64, 128], which warps hold as a left factor. */
void hopper_transpose(float *out, const uint16_t *x);

/* out [tiles, 64] = beside [tiles, 64] + the first column of each tile of x [tiles, 64, 64]; both come through one ring. */
void hopper_send_with(float *out, const uint16_t *x, const float *beside, int tiles);

/* sum [64, 64] = x[0] + x[1] + ... in this order; x [2 * blocks, 64, 64], two of each block, by the copy engine. One thing is wrong. */
typedef enum sum_hazard {
    SUM_RIGHT,
    SUM_WITHOUT_FENCE,
    SUM_NOT_WAITED_FOR,
    SUM_FREED_TOO_EARLY,
    SUM_ANNOUNCED_TOO_EARLY,
    SUM_NEVER_ANNOUNCED,
    SUM_NOT_READ
} sum_hazard;
void hopper_sum(sum_hazard hazard, float *sum, const float *x, int blocks);

/* A whole pipeline: O [128, 64] = sum over tiles t of bf16(Q K_t^T) V_t, Q [128, 64], K and V [tiles * 64, 64]. One thing is wrong. */
typedef enum hopper_hazard {
    NOTHING_WRONG,
    NO_WAIT_ON_FULL,
    OTHER_RING_WAITED_FOR,
    K_RELEASED_TOO_EARLY,
    V_RELEASED_TOO_EARLY,
    SCORES_READ_TOO_EARLY,
    WEIGHTS_CHANGED_IN_FLIGHT,
    RESULT_SCALED_IN_FLIGHT,
    SENDER_BEGINS_WITH_PHASE_0,
    RECEIVER_BEGINS_WITH_PHASE_1,
    ONE_GROUP_DOES_NOT_WAIT_FOR_Q,
    ONE_ARRIVAL_LESS,
    ONE_ARRIVAL_MORE,
    ONE_WARP_NEVER_RELEASES,
    FEWER_BYTES_PROMISED,
    TWICE_THE_BYTES,
    SIGNALS_READY_FORGOTTEN,
    NO_BARRIER_AFTER_INIT,
    STORE_INTO_Q_IN_FLIGHT,
    HAND_WRITTEN_STORE_IN_FLIGHT,
    NO_FENCE,
    NO_GROUP_BARRIER,
    STORES_READ_FORGOTTEN,
    TURN_NEVER_PASSED,
    TOO_MANY_REGISTERS,
    ONE_WARP_SKIPS_A_PRODUCT,
    PRODUCTS_DONE_FORGOTTEN,
    FIRST_SCORES_NOT_DONE,
    RESULT_THROWN_AWAY,
    RESULT_OVERWRITTEN,
    ONE_LOAD_TOO_MANY,
    ONE_LOAD_TOO_FEW,
    SHUFFLE_UNDER_IF,
    BOX_OF_ANOTHER_SIZE,
    STORE_BEFORE_ROW_0
} hopper_hazard;
void hopper_pipeline(hopper_hazard hazard, float *O, const uint16_t *Q, const uint16_t *K, const uint16_t *V,
                     int tiles);

#ifdef __cplusplus
}
#endif
