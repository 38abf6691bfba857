// mistakes.h - known mistakes, and what a kernel that makes one of them would return. Double precision and obvious loops, as in the
// oracle, but over tiles, since many mistakes show only from one tile to the next.
//
// A kernel is described by what it does differently from a right one (`kernel` below, all zero if nothing). A mistake is a name, a
// sentence, and such a description; where its results depend on tile sizes, which nobody outside the kernel knows, several are tried.
#ifndef DIAGNOSE_MISTAKES_H
#define DIAGNOSE_MISTAKES_H

#include "problems.h"
#include "workbook.h"

typedef struct kernel {
    // tiles
    int BC,
        BR;  // keys in a key tile, queries in a query tile; of a sum: BC threads a row, BR neighbouring columns in a load
    int SC;        // keys in a tile of sinks; 0: BC
    int ROWS;      // queries of a warp, which passes over tiles that none of them sees; 0: no warp does
    double slack;  // m stays until a score of the warp exceeds it by this much

    // which keys, values and rows
    enum {
        MAP_RIGHT,
        MAP_MODULO,
        MAP_INVERTED,
        MAP_INVERTED_WRAPPED,
        MAP_FIRST_HEAD,
        MAP_FIRST_OF_ALL,
        MAP_NO_BATCH,
        MAP_BATCH_OF_QUERY_HEADS,
        MAP_OWN_HEAD,
        MAP_OWN_HEAD_CLAMPED,
        MAP_BACKWARDS,
        MAP_PAIRS,
        MAP_SHIFTED,
        MAP_SWAPPED,
        MAP_COUNTED_IN_QUERY_HEADS
    } map_K,
        map_V;
    enum { PAIR_QK_V, PAIR_QK_K, PAIR_QV_V, PAIR_QV_K } operands;  // S from Q and ..., O from P and ...
    enum { V_RIGHT, V_NEXT_TILE, V_LAST_TILE, V_FIRST_TILE, V_NEXT_KEY, V_KEY_BEFORE } V_tile;
    bool K_first_tile;  // K of the first tile in all
    enum { Q_RIGHT, Q_FIRST_TILE, Q_FIRST_WARP, Q_FIRST_HEAD, Q_FIRST_BATCH } Q;
    int layout;  // bits, LAYOUT_...: tensors taken as [B, N, H, D]
    enum {
        POSITION_RIGHT,
        POSITION_REVERSED,     // query tiles are counted from the end
        POSITION_STACKED,      // heads of a group lie one behind the other
        POSITION_INTERLEAVED,  // ... or take turns
        POSITION_OF_ALL_HEADS
    } position;             // of a query, for the mask
    bool position_in_mask;  // and for the mask alone: the walk is right
    int dims;               // of a dot product; 0: all
    enum {
        WRITES_ALL,
        WRITES_NO_O,
        WRITES_NO_L,
        WRITES_WHOLE_TILES,
        WRITES_FIRST_TILE,
        WRITES_FIRST_BATCH,
        WRITES_FIRST_HEAD,
        WRITES_FIRST_OF_GROUP,
        WRITES_KV_HEADS,
        WRITES_HALF_OF_D,
        WRITES_NO_DELTA
    } writes;

    // the logit
    enum {
        SCALE_RIGHT,
        SCALE_NONE,
        SCALE_TWICE,
        SCALE_LN2,
        SCALE_LOG2E,
        SCALE_ROOT_D,
        SCALE_INVERTED,
        SCALE_ONE_OVER_D,
        SCALE_ROOT,
        SCALE_TIMES_ROOT_D,
        SCALE_ROOT_N
    } scale;
    enum { M_EXACT, M_UNSCALED, M_WITHOUT_LOG2E } m_units;  // of the maximum that is subtracted

    enum {
        ROUNDED_RIGHT,
        ROUNDED_Q,         // scale * Q
        ROUNDED_Q_BASE_2,  // and log2(e)
        ROUNDED_S,
        ROUNDED_S_SCALED,
        ROUNDED_S_BASE_2,
        ROUNDED_O,  // after each tile; of a backward: the gradients
        ROUNDED_L_SUM,
        ROUNDED_P,  // in l
        ROUNDED_L
    } rounded;  // to bfloat16

    // the online softmax
    enum {
        MAX_RUNNING,
        MAX_INFINITE,  // from -infinity on, and a row may see no key of its first tile
        MAX_FROM_0,
        MAX_NONE,
        MAX_OF_TILE,
        MAX_NOT_KEPT,
        MAX_NEVER_STORED,
        MAX_OF_OWN_COLUMNS,
        MAX_FIRST_TILE
    } max;
    enum { ALPHA_RIGHT, ALPHA_INVERTED, ALPHA_INVERTED_GUARDED, ALPHA_UNSCALED, ALPHA_EXP2, ALPHA_EXP } alpha;
    bool O_not_rescaled, l_not_rescaled;
    bool O_overwritten;
    int late, twice,
        own_max;  // bits, OF_O, OF_L, OF_LATER: rescaled after adding; twice; added under the tile's maximum
    enum { COLUMNS_ALL, COLUMNS_HALF_RESCALED, COLUMNS_HALF_NORMALISED } columns;
    bool packed;  // tiles are made of the keys that a query sees, from its first one on
    enum { PARTS_NONE, PARTS_TILES, PARTS_RUNS, PARTS_OF_SEEN, PARTS_TURNS } parts;  // each with a softmax of its own
    enum {
        MERGE_RIGHT,
        MERGE_MEAN,
        MERGE_HALVES,
        MERGE_SUM,
        MERGE_BY_MAXIMA,
        MERGE_BY_MAXIMA_IN_TURN,
        MERGE_BY_SUMS,
        MERGE_BY_L,
        MERGE_BY_KEYS,
        MERGE_NOT_DIVIDED,
        MERGE_L_NOT_SHIFTED,
        MERGE_SUMS_OVER_L,  // O from unweighted sums, l from weighted ones
        MERGE_L_OF_SUMS,    // the other way round
        MERGE_EMPTY,        // a part without keys is NaN
        MERGE_FIRST,
        MERGE_LAST
    } merge;
    enum {
        MERGED_L_RIGHT,
        MERGED_L_AS_O,
        MERGED_L_MAX,
        MERGED_L_SUM,
        MERGED_L_MEAN,
        MERGED_L_FIRST,
        MERGED_L_LAST
    } merged_L;
    enum {
        L_SUM,
        L_LAST_TILE,
        L_OLD_MAX,
        L_OF_SCORES,
        L_OF_SHIFTED_SCORES,
        L_OF_ALL_SCORES,  // those of hidden keys too, -infinity
        L_OF_ALL_SCALED_SCORES,
        L_OF_OWN_COLUMNS,
        L_OF_EVERY_32ND,
        L_NEVER,
        L_PLUS_ONE
    } l;
    enum {
        DIVIDE_AT_END,
        DIVIDE_NEVER,
        DIVIDE_IN_LOOP,
        DIVIDE_IN_LOOP_AND_AT_END,
        DIVIDE_TWICE,
        DIVIDE_BY_N,
        DIVIDE_AND_SCALE,
        DIVIDE_UPSIDE_DOWN
    } divide;
    enum {
        LSE_RIGHT,
        LSE_BASE_2,
        LSE_M_BASE_2,
        LSE_L_BASE_2,
        LSE_TIMES_LN2,
        LSE_M_TIMES_LN2,
        LSE_NO_M,
        LSE_NO_M_BASE_2,
        LSE_ONLY_M,
        LSE_ONLY_M_BASE_2,
        LSE_M_PLUS_L,
        LSE_ONLY_L,
        LSE_M_UNSCALED,
        LSE_MINUS,
        LSE_M_SCALED,
        LSE_MINUS_M,
        LSE_EXP,
        LSE_FORMS
    } lse;

    // the mask and the walk over the tiles
    enum {
        CAUSAL_RIGHT,
        CAUSAL_NONE,
        CAUSAL_ONE_MORE,
        CAUSAL_ONE_LESS,
        CAUSAL_TRANSPOSED,
        CAUSAL_LOCAL,
        CAUSAL_LOCAL_QUERY,
        CAUSAL_LOCAL_KEY,
        CAUSAL_LOCAL_WARP,
        CAUSAL_NO_WARP,
        CAUSAL_ALWAYS,
        CAUSAL_END_ONE_EARLY,  // of the block's keys the last is missing
        CAUSAL_BEFORE_BLOCK,
        CAUSAL_WINDOW  // the future is hidden from W keys on
    } causal;
    bool one_mask;  // in all tiles alike, not on the diagonal alone
    enum {
        HIDE_RIGHT,
        HIDE_BY_0,
        HIDE_OLD_BY_0,
        HIDE_FUTURE_BY_0,
        HIDE_SINKS_BY_0,
        HIDE_AFTER_MAX,
        HIDE_AFTER_SUM
    } hide;
    enum {
        WINDOW_RIGHT,
        WINDOW_NONE,
        WINDOW_ONE_MORE,
        WINDOW_ONE_LESS,
        WINDOW_NOT_ON_DIAGONAL,
        WINDOW_ON_DIAGONAL_ALONE,
        WINDOW_OF_BLOCK,
        WINDOW_TESTED_BY_FIRST_ROW,
        WINDOW_HALF,
        WINDOW_PLUS_SINKS,
        WINDOW_MINUS_SINKS,
        WINDOW_IN_TILES,
        WINDOW_ONE_MORE_ON_DIAGONAL,
        WINDOW_CHUNKS,
        WINDOW_TWO_CHUNKS,
        WINDOW_OF_BLOCK_END,
        WINDOW_TWICE,
        WINDOW_LOCAL
    } window;
    enum {
        SINKS_RIGHT,
        SINKS_NONE,
        SINKS_ONE_MORE,
        SINKS_ONE_LESS,
        SINKS_WHOLE_TILE,
        SINKS_WHOLE_TILE_AMONG_SINKS,
        SINKS_NOT_IN_WINDOW_TILES,
        SINKS_NOT_ON_DIAGONAL,
        SINKS_AMONG_SINKS_ALONE,
        SINKS_NOT_CAUSAL,
        SINKS_HIDDEN_IN_WINDOW,
        SINKS_FIRST_ONLY,
        SINKS_EMPTY,  // S scores of 0 without a value
        SINKS_WITHOUT_V,
        SINKS_NOT_IN_L
    } sinks;
    enum {
        WALK_RIGHT,
        WALK_ALL,
        WALK_DIAGONAL_SKIPPED,
        WALK_DIAGONAL_SKIPPED_BUT_FIRST,
        WALK_LAST_SKIPPED_BUT_FIRST,
        WALK_LAST_SKIPPED,
        WALK_DIAGONAL_TWICE,
        WALK_ONE_ON_DIAGONAL,
        WALK_END_IN_BLOCKS,
        WALK_WHOLE_TILES,
        WALK_WHOLE_TILES_BUT_FIRST,
        WALK_BLOCK_WHOLE_TILES,
        WALK_FULL_ONE_MORE,
        WALK_FULL_OF_LAST_ROW,
        WALK_FIRST_TILE_ALONE,
        WALK_SKIPS_FIRST_TILE,
        WALK_WINDOW_FROM_LAST_ROW,
        WALK_WINDOW_ROUNDED_UP,
        WALK_WINDOW_IN_TILES,
        WALK_SINKS_TWICE,
        WALK_SINKS_TWICE_CAUSAL,
        WALK_SINKS_TWICE_IN_TILES,
        WALK_SINKS_ROUNDED_DOWN,
        WALK_ONE_SINK_TILE,
        WALK_QUERIES_OF_FIRST_KEY,
        WALK_NO_FAR_QUERIES,
        WALK_EVERY_SECOND,
        WALK_LAST_TILE_ALONE
    } walk;
    // keys that do not exist, or that do
    enum {
        GHOST_NONE,
        GHOST_ZERO,
        GHOST_ONE_ZERO,
        GHOST_CLAMPED,
        GHOST_NEXT,
        GHOST_STALE,
        GHOST_LAST_MISSING,
        GHOST_LAST_OF_TAIL,
        GHOST_FIRST_MISSING
    } ghost;

    // the backward
    enum {
        P_RIGHT,
        P_L_IN_BASE_E,
        P_L_TIMES_LOG2E,
        P_WITHOUT_L,
        P_ROW_MAX,
        P_TILE_MAX,
        P_L_SCALED,
        P_BASE_2,
        P_BASE_E,
        P_OVER_L,
        P_TIMES_L,
        P_PLUS_L
    } P;
    enum { DP_RIGHT, DP_FROM_O, DP_FROM_K } dP;
    enum {
        DS_RIGHT,
        DS_NO_DELTA,
        DS_PLUS_DELTA,
        DS_IS_P,
        DS_WITHOUT_P,
        DS_MINUS,
        DS_P_DP,
        DS_DP_P,
        DS_SIGMOID,
        DS_DP_SCALED
    } dS;
    enum {
        OUT_RIGHT,
        OUT_NO_SCALE,
        OUT_SCALE_TWICE,
        OUT_LN2,
        OUT_LOG2E,
        OUT_AS_LOGIT,
        OUT_ROOT_D
    } out;  // the factor of dQ and dK
    enum { DV_RIGHT, DV_FROM_DS, DV_FROM_DP, DV_FROM_O, DV_FROM_Q, DV_SCALED } dV;
    enum { DQ_RIGHT, DQ_FROM_Q, DQ_FROM_OWN, DQ_FROM_V } dQ;  // what dS meets: K, Q, V; of dK: Q, K, dO
    bool dK_and_dV_swapped;
    enum { STATS_RIGHT, STATS_OF_KV_HEAD, STATS_OF_KEY, STATS_OF_FIRST_HEAD } L_row, delta_row;
    enum { GROUP_ALL, GROUP_FIRST, GROUP_LAST, GROUP_MEAN, GROUP_FIRST_REPEATED } group;
    enum {
        DELTA_RIGHT,
        DELTA_OF_8,
        DELTA_OF_HALF,
        DELTA_SCALED,
        DELTA_OF_DO,
        DELTA_OF_O,
        DELTA_MEAN,
        DELTA_MINUS,
        DELTA_IN_BF16
    } delta;

    // the sum
    enum {
        SUM_RIGHT,
        SUM_TAIL_DROPPED,
        SUM_HALF_WARP,
        SUM_LANE_0,
        SUM_THREAD_0,
        SUM_FIRST_WARP,
        SUM_LAST_WARP_LOST,
        SUM_WARP_STRIDE,
        SUM_LAST_COLUMN_LOST,
        SUM_COLUMN_TWICE,
        SUM_NO_W,
        SUM_W_OF_ROW,
        SUM_W_WITHOUT_HEAD,
        SUM_STRIDE_OF_ROWS,
        SUM_TRANSPOSED,
        SUM_FIRST_ROW,
        SUM_NEXT_ROW,
        SUM_ROWS_LOST,
        SUM_ROWS_LOST_BUT_FIRST,
        SUM_READS_PAST_ROW,
        SUM_READS_PAST_END,
        SUM_HEAD_TWICE,
        SUM_NOT_WRITTEN,
        SUM_TWICE,
        SUM_32_TIMES,
        SUM_BLOCK_ONCE,
        SUM_ALL_ROWS,
        SUM_FIRST_ROW_OF_BLOCK,
        SUM_ROWS_OVERLAP,
        SUM_WITHOUT_ONE_SHUFFLE,  // that over `dims` lanes
        SUM_HALF_BLOCK,
        SUM_FIRST_COLUMN_LOST,
        SUM_FIRST_OF_LOAD,
        SUM_TAIL_BY_ALL,
        SUM_ALIGNED_DOWN,
        SUM_W_OF_THREAD,
        SUM_NO_X,
        SUM_X_PLUS_W,
        SUM_OF_SQUARES,
        SUM_MEAN,
        SUM_OVER_W,
        SUM_PRODUCTS_IN_BF16,
        SUM_IN_BF16,
        SUM_AND_SHUFFLES_IN_BF16,
        SUM_ALL_IN_BF16,
        SUM_RESULT_IN_BF16
    } sum;
} kernel;

enum { LAYOUT_Q = 1, LAYOUT_KV = 2, LAYOUT_O = 4, LAYOUT_L = 8 };
enum { OF_O = 1, OF_L = 2, OF_LATER = 4 };  // OF_LATER: from the second tile on

typedef struct mistake {
    const char *id, *says,
        *look;       // says: "your result matches a kernel that ..."; all null: another way to make the one before
    unsigned needs;  // which problems can have it
    unsigned tries;  // which tile sizes and the like matter
    kernel k;
} mistake;

extern const mistake mistakes[];
extern const size_t mistakes_count;

bool mistake_applies(const mistake *m, const wb_problem *problem);

// Variant 0, 1, ... of a mistake: the kernel with tile sizes filled in, unusual ones if `rare`; false when there are no more. BR 0:
// not worth a look.
bool mistake_variant(const mistake *m, const wb_problem *problem, bool rare, int variant, kernel *k);

// The inputs of a case as floats, laid out as in workbook.h; those that a problem does not have are null. `type` of O: 4 or 2 bytes.
typedef struct model_inputs {
    const wb_problem *problem;
    const attention_shape *shape;
    const float *Q, *K, *V, *O, *L, *dO, *x, *w;
    int rows, cols;
    bool bf16_output;
    const float *dots;  // [B, Hq, Nq, Nk] q . k of the right heads, or null
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

#endif
