// mistakes.h - known mistakes, and what a kernel that makes one of them would return. Double precision and obvious loops, as in the
// oracle, but over tiles, since many mistakes show only from one tile to the next.
//
// A kernel is described by what it does differently from a right one (`kernel` below, all zero if nothing). A mistake is a name, a
// sentence, and such a description; where its results depend on tile sizes, which nobody outside the kernel knows, several are tried.
#ifndef DIAGNOSE_MISTAKES_H
#define DIAGNOSE_MISTAKES_H

#include "problems.h"
#include "workbook.h"

// clang-format off
typedef struct kernel {
    // tiles
    int BC, BR;    // keys in a key tile, queries in a query tile; of a sum: BC threads a row, BR neighbouring columns in a load
    int SC;        // keys in a tile of sinks; 0: BC
    int ROWS;      // queries of a warp, which passes over tiles that none of them sees; 0: no warp does
    double slack;  // m stays until a score of the warp exceeds it by this much

    // which heads
    enum { MAP_RIGHT, MAP_MODULO, MAP_INVERTED, MAP_INVERTED_WRAPPED, MAP_FIRST_HEAD, MAP_FIRST_OF_ALL, MAP_NO_BATCH,
        MAP_BATCH_OF_QUERY_HEADS, MAP_OWN_HEAD, MAP_OWN_HEAD_CLAMPED, MAP_BACKWARDS, MAP_PAIRS, MAP_SHIFTED,
        MAP_COUNTED_IN_QUERY_HEADS } map_K,
        map_V;

    // the logit; SCALE_NONE: nor log2(e), in an exponent of base 2
    enum { SCALE_RIGHT, SCALE_NONE, SCALE_LN2, SCALE_LOG2E, SCALE_TWICE } scale;
    enum { M_EXACT, M_UNSCALED, M_RAW, M_SCALED, M_WITHOUT_LOG2E } m_units;  // of the maximum that is subtracted

    // the online softmax
    enum { MAX_RUNNING, MAX_FROM_0, MAX_NONE, MAX_OF_TILE, MAX_NOT_KEPT, MAX_NEVER_STORED, MAX_NEVER_STORED_BUT_USED,
        MAX_OF_OWN_COLUMNS, MAX_FIRST_TILE } max;
    enum { ALPHA_RIGHT, ALPHA_INVERTED, ALPHA_INVERTED_GUARDED, ALPHA_EXP2, ALPHA_EXP } alpha;
    bool O_not_rescaled, l_not_rescaled, l_rescaled_late, own_max;  // own_max: weights under the maximum of their tile
    int twice;                                                      // bits, OF_O, OF_L: rescaled twice
    // L_OF_ALL_SCORES: those of hidden keys too, -infinity
    enum { L_SUM, L_LAST_TILE, L_OLD_MAX, L_OF_SCORES, L_OF_ALL_SCORES, L_OF_OWN_COLUMNS, L_COMPLETED_AFTER_O,
        L_COMPLETED_AFTER_L, L_COMPLETED_TWICE, L_COMPLETED_IN_LOOP, L_NEVER } l;
    enum { DIVIDE_AT_END, DIVIDE_NEVER, DIVIDE_IN_LOOP, DIVIDE_IN_LOOP_AND_AT_END, DIVIDE_TWICE, DIVIDE_UPSIDE_DOWN }
        divide;
    // LSE_BASE_4: times log2(e) where it is times ln(2)
    enum { LSE_RIGHT, LSE_BASE_2, LSE_BASE_4, LSE_M_BASE_2, LSE_M_BASE_4, LSE_L_BASE_2, LSE_L_TIMES_LN2, LSE_TIMES_LN2,
        LSE_M_TIMES_LN2, LSE_NO_M, LSE_NO_M_BASE_2, LSE_NO_M_TIMES_LN2, LSE_ONLY_M, LSE_ONLY_M_BASE_2, LSE_M_PLUS_L,
        LSE_M_PLUS_L_BASE_2, LSE_ONLY_L, LSE_MINUS, LSE_MINUS_M, LSE_EXP, LSE_NOT_SET } lse;

    // the sink logit. LOGIT_2: as if it were to base 2; LOGIT_NO_0: 0 counts as none; LOGIT_FROM_0: a negative one as 0; LOGIT_1: exp(s) is 1
    enum { LOGIT_RIGHT, LOGIT_NONE, LOGIT_SCALED, LOGIT_2, LOGIT_LOG2E, LOGIT_NO_0, LOGIT_FROM_0, LOGIT_1, LOGIT_MINUS, LOGIT_CLAMPED,
        LOGIT_FIRST_HEAD, LOGIT_KEY_HEAD, LOGIT_OF_ALL_HEADS } logit;
    // how often it counts: once, twice or four times, once for each tile; LOGIT_ON_SCORES: as a bias; LOGIT_EXP2: 2^(s - L)
    enum { LOGIT_ONCE, LOGIT_TWICE, LOGIT_DIVIDES_TWICE, LOGIT_IN_LANES, LOGIT_IN_TILES, LOGIT_ON_SCORES, LOGIT_EXP2 } logit_counts;
    int logit_of;  // OF_O or OF_L: the mistake is there alone; 0: in both
    enum { LOGIT_SAFE, LOGIT_UNDER_M, LOGIT_UNDER_L, LOGIT_BY_ITSELF } logit_sum;  // how L is summed: the others overflow

    // the mask and the walk over the tiles
    enum { EVERYWHERE, ON_DIAGONAL, OFF_DIAGONAL, AMONG_SINKS } where;  // in which mask the mistake is; others are right
    // CAUSAL_BEFORE_BLOCK: the walk ends before the block's first key; CAUSAL_END_ONE_EARLY: before its last; CAUSAL_WINDOW: the future
    // is hidden from W keys on
    enum { CAUSAL_RIGHT, CAUSAL_NONE, CAUSAL_ONE_MORE, CAUSAL_ONE_LESS, CAUSAL_TRANSPOSED, CAUSAL_LOCAL, CAUSAL_LOCAL_QUERY,
        CAUSAL_LOCAL_KEY, CAUSAL_LOCAL_WARP, CAUSAL_NO_WARP, CAUSAL_OF_WARP, CAUSAL_OF_BLOCK, CAUSAL_BEFORE_BLOCK,
        CAUSAL_TESTED_BY_FIRST_ROW, CAUSAL_END_ONE_EARLY, CAUSAL_WINDOW } causal;
    bool one_mask;  // in all tiles alike, not only where there is something to hide
    enum { HIDE_RIGHT, HIDE_BY_0, HIDE_OLD_BY_0, HIDE_FUTURE_BY_0, HIDE_SINKS_BY_0, HIDE_AFTER_MAX } hide;
    enum { WINDOW_RIGHT, WINDOW_NONE, WINDOW_ONE_MORE, WINDOW_ONE_LESS, WINDOW_OF_BLOCK, WINDOW_OF_WARP,
        WINDOW_OF_BLOCK_END, WINDOW_TESTED_BY_FIRST_ROW, WINDOW_HALF, WINDOW_PLUS_SINKS, WINDOW_MINUS_SINKS, WINDOW_TWICE,
        WINDOW_LOCAL, WINDOW_AND_FUTURE } window;
    // SINKS_HIDDEN: sinks are hidden, wherever they are; SINKS_HIDDEN_ALONE: of what is too old, sinks alone; SINKS_ALONE: all but sinks
    enum { SINKS_RIGHT, SINKS_NONE, SINKS_ONE_MORE, SINKS_ONE_LESS, SINKS_WHOLE_TILE, SINKS_NOT_CAUSAL, SINKS_HIDDEN,
        SINKS_HIDDEN_ALONE, SINKS_ALONE, SINKS_FIRST_ONLY, SINKS_IN_KEY_TILES } sinks;
    enum { WALK_RIGHT, WALK_DIAGONAL_SKIPPED, WALK_LAST_SKIPPED, WALK_DIAGONAL_TWICE, WALK_ONE_ON_DIAGONAL,
        WALK_END_IN_BLOCKS, WALK_BLOCK_WHOLE_TILES, WALK_FULL_ONE_MORE, WALK_FULL_OF_LAST_ROW, WALK_FULL_ROUNDED_UP,
        WALK_ALL_FULL, WALK_WINDOW_FROM_LAST_ROW, WALK_WINDOW_ROUNDED_UP, WALK_WINDOW_ONE_MORE, WALK_WINDOW_IN_TILES,
        WALK_WINDOW_FROM_BLOCK, WALK_SINKS_TWICE, WALK_SINKS_TWICE_TO_BLOCK, WALK_SINKS_TWICE_CAUSAL,
        WALK_SINKS_ROUNDED_DOWN, WALK_SINKS_OF_FIRST_TILE, WALK_ONE_SINK_TILE, WALK_NO_SINK_TILES, WALK_END_IN_TILES, WALK_QUERIES_OF_FIRST_KEY,
        WALK_NO_FAR_QUERIES, WALK_LAST_TILE_ALONE, WALK_FIRST_TILE_ALONE, WALK_SKIPS_FIRST_TILE } walk;
    // keys that do not exist, or that do
    enum { GHOST_NONE, GHOST_ZERO, GHOST_ONE_ZERO, GHOST_STALE, GHOST_LAST_OF_TAIL, GHOST_BUT_IN_ONE_TILE, GHOST_BY_ROW }
        ghost;

    // the backward
    enum { P_RIGHT, P_L_IN_BASE_E, P_L_TIMES_LOG2E, P_WITHOUT_L, P_PLUS_L, P_FROM_DELTA, P_ROW_MAX, P_TILE_MAX, P_BASE_2, P_BASE_E,
        P_OVER_L } P;
    enum { DP_RIGHT, DP_FROM_O, DP_FROM_K, DP_FROM_Q } dP;
    enum { DS_RIGHT, DS_NO_DELTA, DS_PLUS_DELTA, DS_FROM_L, DS_IS_P, DS_IS_DP, DS_WITHOUT_P, DS_MINUS, DS_P_DP, DS_DP_P,
        DS_DP_DP, DS_DP_SCALED } dS;
    enum { OUT_RIGHT, OUT_NO_SCALE, OUT_SCALE_TWICE, OUT_LOG2E, OUT_NOTHING } out;  // the factor of dQ and dK
    enum { DV_RIGHT, DV_FROM_DS, DV_FROM_DP, DV_FROM_Q, DV_SCALED } dV;
    bool dQ_from_V;  // dS meets V where K is meant, dO where Q is
    // from GROUP_TOO_FAR to GROUP_NOT_ON: when a head is done, the walk goes on in the wrong row
    enum { GROUP_ALL, GROUP_FIRST, GROUP_LAST, GROUP_MEAN, GROUP_FIRST_REPEATED, GROUP_TOO_FAR, GROUP_NOT_BACK,
        GROUP_NOT_TO_FIRST, GROUP_NOT_ON, GROUP_IN_KEY_HEADS, GROUP_OF_KEY_HEADS, GROUP_OF_QUERY_HEADS } group;
    enum { PARTS_RIGHT, PARTS_FIRST, PARTS_LAST, PARTS_ALL_DO_ALL, PARTS_FROM_FIRST, PARTS_TO_LAST, PARTS_ROUNDED, PARTS_MOVED,
        PARTS_MEAN } parts;
    enum { DELTA_RIGHT, DELTA_OF_8, DELTA_OF_HALF, DELTA_OF_EVEN_LANES, DELTA_OF_EVEN_COLUMNS, DELTA_OF_HALF_LANES,
        DELTA_OF_WARP, DELTA_SCALED, DELTA_OF_DO, DELTA_OF_O, DELTA_MEAN, DELTA_MINUS } delta;

    // the sum over the rows of a head, BC threads a block: first the weight of the sink, then which rows, then what is made of the sum
    enum { DSINKS_RIGHT, DSINKS_BASE_2, DSINKS_L_BASE_E, DSINKS_S_BASE_E, DSINKS_LOG2E, DSINKS_SCALED, DSINKS_BOTH_SCALED,
        DSINKS_APART, DSINKS_NO_L, DSINKS_NO_S, DSINKS_IN_FRONT, DSINKS_NO_WEIGHT, DSINKS_REST, DSINKS_OVER_REST, DSINKS_EXPONENT,
        DSINKS_NO_DELTA, DSINKS_OF_KEY_HEAD, DSINKS_OF_FIRST_HEAD, DSINKS_FIRST_BATCH, DSINKS_LAST_BATCH, DSINKS_ROWS_OF_FIRST_BATCH,
        DSINKS_BATCH_OF_KEY_HEADS, DSINKS_KEY_HEADS, DSINKS_FIRST_ROWS, DSINKS_LAST_ROWS, DSINKS_WHOLE_ROUNDS, DSINKS_FIRST_THREAD,
        DSINKS_FIRST_WARP, DSINKS_ONE_LANE, DSINKS_HALF_WARPS, DSINKS_HALF_OF_WARPS, DSINKS_EVEN_LANES, DSINKS_LAST_ROW_LOST,
        DSINKS_FIRST_ROW_LOST, DSINKS_PLUS, DSINKS_TIMES_SCALE, DSINKS_TIMES_LOG2E, DSINKS_TIMES_LN2, DSINKS_MEAN, DSINKS_MEAN_OF_ROWS,
        DSINKS_MEAN_OF_BATCHES, DSINKS_32_TIMES, DSINKS_0_IS_NONE, DSINKS_BF16, DSINKS_SUM_IN_BF16 } dsinks;

    // decoding: shares, pages, packed rows, the merge. GHOST: keys that do not exist are seen, too
    enum { DECODE_RIGHT, DECODE_REST_LEFT, DECODE_FIRST_SEQUENCE, DECODE_TABLE_PACKED, DECODE_COLUMN_IN_TILES,
        DECODE_COLUMN_IN_TILES_WRAPPED, DECODE_NO_TABLE, DECODE_NO_TABLE_COLUMNS, DECODE_TOKENS_FIRST, DECODE_ROW_OF_TILE,
        DECODE_ONE_LESS, DECODE_ONE_MORE, DECODE_ONE_MORE_GHOST, DECODE_FROM_START, DECODE_FUTURE_SEEN, DECODE_NO_MASK, DECODE_MEAN,
        DECODE_BASE_2, DECODE_FIRST_PART_LEFT, DECODE_LAST_PART_LEFT, DECODE_NO_MAX, DECODE_NO_MAX_FOR_O, DECODE_UNDER_LAST,
        DECODE_UNDER_FIRST } decode;

    // scales of an int8 cache: which are multiplied into S, into l and into P; ROWS: queries of a block; or where they are looked for
    enum { SCALES_RIGHT, SCALES_NOT_ON_S, SCALES_V_ON_S, SCALES_ROWS_ON_S, SCALES_FIRST_ON_S, SCALES_ALL_ON_P, SCALES_ALL_ON_P_K_IN_L,
        SCALES_NOT_ON_P, SCALES_K_ON_P, SCALES_ROWS_ON_P, SCALES_FIRST_ON_P, SCALES_V_IN_L, SCALES_EXCHANGED, SCALES_NO_L,
        SCALES_L_COMPLETED, SCALES_OF_FIRST_HEAD, SCALES_OF_FIRST_ROWS, SCALES_OF_FIRST_PAGES, SCALES_OF_ONE_HEAD, SCALES_OF_KEY,
        SCALES_OF_TAIL } scales;

    // lists of tiles: which, where their keys begin, bits, what comes of rows without keys
    enum { LISTS_RIGHT, LISTS_FIRST_MASK, LISTS_NO_END, LISTS_TILES_OF_128, LISTS_ENDS_ARE_COUNTS, LISTS_PART_ENDS_ARE_COUNTS,
        LISTS_STARTS_OF_WHOLE, LISTS_WHOLE_FROM_FIRST, LISTS_PART_FROM_FIRST, LISTS_WHOLE_ALONE, LISTS_PART_ALONE, LISTS_LAST_PART_LEFT,
        LISTS_STEPS_ARE_TILES, LISTS_ALL_STEPS_ARE_TILES, LISTS_FIRST_HALF_TWICE, LISTS_TILES_OF_BC, LISTS_BITS_OF_FIRST_TILE,
        LISTS_FIRST_HALF_OF_BITS, LISTS_BITS_FROM_LEFT, LISTS_BITS_FROM_LEFT_OF_LANE, LISTS_BITS_SHIFTED_TWICE, LISTS_BITS_OF_NEIGHBOURS,
        LISTS_FIRST_WORD, LISTS_OTHER_ROW, LISTS_BITS_UPSIDE_DOWN, LISTS_HIDDEN_BY_0, LISTS_NOT_MASKED, LISTS_NO_BITS, LISTS_EMPTY_NAN,
        LISTS_EMPTY_L_FINITE, LISTS_L_IN_BASE_2 } lists;

    // the sum
    int dims;  // of a mistake with lanes: which
    // SUM_WITHOUT_ONE_SHUFFLE: that over `dims` lanes
    enum { SUM_RIGHT, SUM_TAIL_DROPPED, SUM_HALF_WARP, SUM_LANE_0, SUM_THREAD_0, SUM_FIRST_WARP, SUM_LAST_WARP_LOST,
        SUM_WARP_STRIDE, SUM_LAST_COLUMN_LOST, SUM_COLUMN_TWICE, SUM_NO_W, SUM_W_OF_ROW, SUM_W_WITHOUT_HEAD,
        SUM_STRIDE_OF_ROWS, SUM_TRANSPOSED, SUM_FIRST_ROW, SUM_NEXT_ROW, SUM_ROWS_LOST, SUM_ROWS_LOST_BUT_FIRST,
        SUM_READS_PAST_ROW, SUM_READS_PAST_END, SUM_LOADS_PAST_ROW, SUM_HEAD_TWICE, SUM_NOT_WRITTEN, SUM_TWICE, SUM_32_TIMES, SUM_BLOCK_ONCE,
        SUM_ALL_ROWS, SUM_FIRST_ROW_OF_BLOCK, SUM_ROWS_OVERLAP, SUM_WITHOUT_ONE_SHUFFLE, SUM_HALF_BLOCK,
        SUM_FIRST_COLUMN_LOST, SUM_FIRST_OF_LOAD, SUM_TAIL_BY_ALL, SUM_ALIGNED_DOWN, SUM_W_OF_THREAD, SUM_NO_X,
        SUM_X_PLUS_W, SUM_OF_SQUARES, SUM_MEAN, SUM_OVER_W, SUM_PRODUCTS_IN_BF16, SUM_IN_BF16, SUM_AND_SHUFFLES_IN_BF16,
        SUM_ALL_IN_BF16, SUM_RESULT_IN_BF16 } sum;
} kernel;
// clang-format on

enum { OF_O = 1, OF_L = 2 };

typedef struct mistake {
    const char *id, *says,
        *look;  // says: "your result matches a kernel that ..."; look: the gaps where it can be made, "max|rescale";
                // all null: another way to make the one before
    unsigned needs;  // which problems can have it
    unsigned tries;  // which tile sizes and the like matter
    kernel k;
} mistake;

extern const mistake mistakes[];
extern const size_t mistakes_count;

// Whether a function of this problem can make it: it has what the mistake is about, and one of its gaps (`gaps`: a line each).
bool mistake_applies(const mistake *m, const wb_problem *problem, const char *gaps);

// Whether `gap` is one of those that m->look lists.
bool mistake_is_in(const mistake *m, const char *gap, size_t length);

// Variant 0, 1, ... of a mistake: the kernel with tile sizes filled in; false when there are no more. BR 0: not worth a look.
bool mistake_variant(const mistake *m, const wb_problem *problem, int variant, kernel *k);

// Of a query and a key, and the sums of the absolute terms.
struct dots {
    float QK, dOV, abs_QK, abs_dOV;
};

// The inputs of a case as floats, laid out as in workbook.h; those that a problem does not have are null. `type` of O: 4 or 2 bytes.
typedef struct model_inputs {
    const wb_problem *problem;
    const attention_shape *shape;
    const float *Q, *K, *V, *O, *L, *dO, *sink_logits, *x, *w;
    int rows, cols;
    bool bf16_output;
    const struct dots *dots;  // [B, Hq, Nq, Nk], of a query and the keys of its head, or null
    // of 13: blocks, as many as its workspace has room for
    decode_shape decode;
    const int *table, *kv_len;
    int blocks;
    const float *K_scale, *V_scale;  // [pages, Hkv, page_size], of 14 alone
    // of 15: the lists in host memory, and how long they are
    block_mask lists;
    int wholes, parts;
    size_t bit_words;
} model_inputs;

// One row of an output: D elements, or 1. A value that is not finite: any such value, or 0, will do.
typedef struct model_row {
    double value[WB_MAX_HEAD_DIM], tolerance[WB_MAX_HEAD_DIM];
} model_row;

enum { MODEL_ROWS = 32 };                           // at most this many rows at once
enum { MODEL_UNWRITTEN = -1, MODEL_UNKNOWN = -2 };  // in place of a tolerance: not written at all; it could be anything

// How many neighbouring rows, from a multiple of that number on, this model computes at once.
int model_group(const model_inputs *in, const kernel *k);

// Rows row ... row + count - 1 (counted through batches and heads; of the same head) of output number `output` of the problem.
void model_rows(const model_inputs *in, const kernel *k, int output, size_t row, int count, model_row *out);

// Pairs of a query and a key that this thread's models have looked at so far: what a search is bounded by.
extern _Thread_local long long model_pairs;

#endif
