// mistakes_table.c - the mistakes by name, which problems can have them, and which tile sizes to try: see mistakes.h. They are
// those of the lessons ("Common mistakes") and relatives of theirs.
#include "mistakes.h"

#include <stddef.h>

#define LN2 0.6931471805599453

// What a problem must have for a mistake to be possible. LONE: keys that do not exist are hidden by no causal mask.
enum { FWD = 1, BWD = 2, SUM = 4, MASK = 8, GROUPS = 16, WINDOW = 32, SINKS = 64, LONE = 128 };

// What to try, if the results depend on it.
enum {
    T_BC = 1,      // tile sizes
    T_BR = 2,      //
    T_ROWS = 4,    // warps that pass over tiles
    T_SLACK = 8,   // a maximum that stays until it is exceeded by 2^8
    T_LSE = 16,    // whatever L is made of
    T_ALL = 32,    // one mask for all tiles, with and without a bound of the walk
    T_GHOST = 64,  // zeros for keys that do not exist
    RARE = 128     // nothing: the mistake gives way to another that explains as much
};
#define STEP  T_BC | T_SLACK
#define TILES T_BC | T_BR | T_ROWS

// Another way to make the mistake above.
#define ALSO NULL, NULL, NULL

// clang-format off
const mistake mistakes[] = {
    // --- what a comparison of outputs does not show: diagnose.c looks for these itself
    {"writes_past_the_end", "writes rows that do not exist, past the end of an output",
     "store", FWD | BWD | SUM, 0, {0}},
    {"future_not_skipped", "computes whole tiles of keys that lie in the future of its queries, where a mask hides "
     "them",
     "bounds", MASK, 0, {0}},
    {"window_not_skipped", "computes whole tiles of keys that lie before the window of its queries, where a mask "
     "hides them",
     "first tile", WINDOW, 0, {0}},
    {"queries_not_skipped", "walks over queries that see no key of the tile, where a mask hides them",
     "queries", BWD | WINDOW, 0, {0}},

    // --- the online softmax
    {"O_not_rescaled", "does not rescale O when the running maximum grows",
     "rescale", FWD, STEP, {.O_not_rescaled = true}},
    {"l_not_rescaled", "does not rescale l when the running maximum grows",
     "rescale", FWD, STEP, {.l_not_rescaled = true}},
    {"nothing_rescaled", "rescales neither O nor l when the running maximum grows",
     "rescale", FWD, STEP, {.O_not_rescaled = true, .l_not_rescaled = true}},
    {"rescaled_after_adding", "rescales O after it has added the new tile's P V, which is under the new maximum "
     "already",
     "rescale", FWD, STEP, {.O_rescaled_late = true}},
    {"rescaled_upside_down", "rescales by exp(m' - m), the inverse of the correction exp(m - m')",
     "rescale", FWD, STEP, {.alpha = ALPHA_INVERTED}},
    {ALSO, FWD, STEP, {.alpha = ALPHA_INVERTED_GUARDED}},
    {"correction_without_scale", "leaves the scale out of the correction exp(m - m')",
     "rescale", FWD, STEP | T_LSE, {.alpha = ALPHA_UNSCALED}},
    {"exp_mixed_with_exp2", "takes exp in one place and exp2 in another: the correction and the weights have "
     "different bases",
     "rescale", FWD, STEP | T_LSE, {.alpha = ALPHA_EXP2}},
    {ALSO, FWD, STEP | T_LSE, {.alpha = ALPHA_EXP}},
    {ALSO, FWD, STEP | T_LSE, {.alpha = ALPHA_EXP, .scale = SCALE_LN2}},
    {ALSO, FWD, STEP | T_LSE, {.alpha = ALPHA_EXP2, .scale = SCALE_LOG2E}},
    {"m_starts_at_0", "starts the running maximum at 0, so that very negative scores all become weights of 0",
     "max", FWD, T_BC, {.max = MAX_FROM_0}},
    {"no_max", "does not subtract the maximum: large scores overflow, very negative ones vanish",
     "max", FWD, T_BC, {.max = MAX_NONE}},
    {"max_of_this_tile_only", "takes the maximum of this tile alone, and forgets the one so far",
     "max", FWD, T_BC, {.max = MAX_OF_TILE}},
    {"max_of_the_first_tile", "keeps the maximum of the first tile for all tiles",
     "max", FWD, T_BC, {.max = MAX_FIRST_TILE}},
    {"last_tile_only", "forgets all but the last key tile: m is not kept, or O and l start anew in each tile",
     "max", FWD, T_BC | T_LSE, {.max = MAX_NOT_KEPT}},
    {"m_not_kept", "never stores the new maximum: m stays where it began",
     "max", FWD, 0, {.max = MAX_NEVER_STORED}},
    {"max_of_own_columns", "does not complete the row's maximum over the lanes that share a row",
     "max", FWD, STEP, {.max = MAX_OF_OWN_COLUMNS}},
    {"scale_after_max", "takes the maximum of scores without the scale, but the weights of scores with it",
     "max", FWD, STEP, {.m_units = M_UNSCALED}},
    {ALSO, FWD, STEP, {.m_units = M_WITHOUT_LOG2E}},
    {"l_of_the_last_tile", "sets l to the sum of the current tile's weights instead of adding it",
     "accumulate", FWD, STEP, {.l = L_LAST_TILE}},
    {"l_under_the_old_max", "sums l from weights under the old maximum, O from weights under the new one",
     "accumulate", FWD, STEP, {.l = L_OLD_MAX}},
    {"l_before_exp", "sums scores into l, before they have become weights",
     "accumulate", FWD, STEP, {.l = L_OF_SCORES}},
    {ALSO, FWD, STEP, {.l = L_OF_SHIFTED_SCORES}},
    {ALSO, FWD, STEP, {.l = L_OF_ALL_SCORES}},
    {ALSO, FWD, STEP, {.l = L_OF_ALL_SCALED_SCORES}},
    {"l_never_summed", "never adds the weights to l",
     "accumulate", FWD, STEP, {.l = L_NEVER}},
    {"l_of_own_columns", "does not complete l over the lanes that share a row",
     "finalize", FWD, STEP, {.l = L_OF_OWN_COLUMNS}},
    {ALSO, FWD, STEP, {.l = L_OF_EVERY_32ND}},
    {"never_normalised", "does not divide O by l at the end",
     "finalize", FWD, STEP, {.divide = DIVIDE_NEVER}},
    {"normalised_in_the_loop", "divides O by l inside the loop over the tiles",
     "finalize", FWD, STEP, {.divide = DIVIDE_IN_LOOP}},
    {ALSO, FWD, STEP, {.divide = DIVIDE_IN_LOOP_AND_AT_END}},
    {"normalised_twice", "divides O by l twice",
     "finalize", FWD, STEP, {.divide = DIVIDE_TWICE}},
    {"divided_by_the_keys", "divides O by the number of keys instead of l",
     "finalize", FWD, STEP, {.divide = DIVIDE_BY_N}},
    {"L_in_base_2", "stores L in base 2 where the natural logarithm is meant",
     "finalize", FWD, STEP, {.lse = LSE_BASE_2}},
    {"L_half_in_base_2", "adds a maximum and a logarithm of different bases in L",
     "finalize", FWD, STEP, {.lse = LSE_M_BASE_2}},
    {ALSO, FWD, STEP, {.lse = LSE_L_BASE_2}},
    {ALSO, FWD, STEP, {.lse = LSE_M_TIMES_LN2}},
    {ALSO, FWD, STEP, {.lse = LSE_TIMES_LN2}},
    {"L_without_m", "stores log(l) as L, without the maximum",
     "finalize", FWD, STEP, {.lse = LSE_NO_M}},
    {ALSO, FWD, STEP, {.lse = LSE_NO_M_BASE_2}},
    {"L_without_l", "stores the maximum as L, without log(l)",
     "finalize", FWD, STEP, {.lse = LSE_ONLY_M}},
    {ALSO, FWD, STEP, {.lse = LSE_ONLY_M_BASE_2}},
    {"L_without_log", "stores m + l as L, without the logarithm",
     "finalize", FWD, STEP, {.lse = LSE_M_PLUS_L}},
    {"L_is_l", "stores l as L: neither the logarithm nor the maximum",
     "finalize", FWD, STEP, {.lse = LSE_ONLY_L}},
    {"L_without_scale", "adds a maximum without the scale in L",
     "finalize", FWD, STEP, {.lse = LSE_M_UNSCALED}},
    {"L_minus_log", "subtracts log(l) from the maximum in L",
     "finalize", FWD, STEP, {.lse = LSE_MINUS}},

    // --- the logit
    {"scale_forgotten", "does not multiply the scores by the scale",
     "scale", FWD | BWD, T_LSE, {.scale = SCALE_NONE}},
    {"scale_twice", "multiplies the scores by the scale twice",
     "scale", FWD | BWD, T_LSE, {.scale = SCALE_TWICE}},
    {"exp2_without_log2e", "takes exp2 of scores that were not multiplied by log2(e)",
     "scale", FWD | BWD, T_LSE, {.scale = SCALE_LN2}},
    {ALSO, BWD, 0, {.P = P_BASE_2}},
    {"log2e_without_exp2", "takes exp of scores that were multiplied by log2(e)",
     "scale", FWD | BWD, T_LSE, {.scale = SCALE_LOG2E}},
    {ALSO, BWD, 0, {.P = P_BASE_E}},
    {"scale_from_head_dim", "uses 1 / sqrt(D) where the shape says another scale",
     "scale", FWD | BWD, T_LSE, {.scale = SCALE_ROOT_D}},
    {"scale_inverted", "divides the scores by the scale",
     "scale", FWD | BWD, T_LSE, {.scale = SCALE_INVERTED}},
    {"scale_one_over_D", "scales by 1 / D",
     "scale", FWD | BWD, T_LSE, {.scale = SCALE_ONE_OVER_D}},
    {"scale_root", "scales by the square root of the scale",
     "scale", FWD | BWD, T_LSE, {.scale = SCALE_ROOT}},
    {"half_of_the_head_dim", "sums q . k over the first half of D, or less",
     "scores", FWD | BWD, T_LSE, {.dims = -2}},
    {ALSO, FWD | BWD, T_LSE, {.dims = 16}},

    // --- which keys and values
    {"V_is_K", "multiplies P by K where V is meant",
     "accumulate", FWD, 0, {.operands = PAIR_QK_K}},
    {"K_is_V", "multiplies Q by V where K is meant",
     "scores", FWD, 0, {.operands = PAIR_QV_V}},
    {"K_and_V_swapped", "takes K for V and V for K",
     "scores", FWD, 0, {.operands = PAIR_QV_K}},
    {"V_of_another_tile", "multiplies P by V of another tile",
     "accumulate", FWD, T_BC, {.V_tile = V_NEXT_TILE}},
    {ALSO, FWD, T_BC, {.V_tile = V_LAST_TILE}},
    {ALSO, FWD, T_BC, {.V_tile = V_FIRST_TILE}},
    {"first_tile_for_all", "reads K and V of the first tile in every step",
     "load", FWD, T_BC | T_BR, {.V_tile = V_FIRST_TILE, .K_first_tile = true}},
    {ALSO, FWD, T_BC | T_BR, {.V_tile = V_RIGHT, .K_first_tile = true}},
    {"kv_head_modulo", "takes key head h % Hkv for query head h, where h / (Hq / Hkv) is meant",
     "head mapping", GROUPS, 0, {.map_K = MAP_MODULO, .map_V = MAP_MODULO}},
    {"kv_group_inverted", "takes key head h / Hkv for query head h, where h / (Hq / Hkv) is meant",
     "head mapping", GROUPS, 0, {.map_K = MAP_INVERTED, .map_V = MAP_INVERTED}},
    {ALSO, GROUPS, 0, {.map_K = MAP_INVERTED_WRAPPED, .map_V = MAP_INVERTED_WRAPPED}},
    {"kv_head_unmapped", "takes key head h for query head h: heads are not grouped",
     "head mapping", GROUPS, 0, {.map_K = MAP_OWN_HEAD, .map_V = MAP_OWN_HEAD}},
    {ALSO, GROUPS, 0, {.map_K = MAP_OWN_HEAD_CLAMPED, .map_V = MAP_OWN_HEAD_CLAMPED}},
    {"kv_head_backwards", "counts the key heads backwards",
     "head mapping", GROUPS, 0, {.map_K = MAP_BACKWARDS, .map_V = MAP_BACKWARDS}},
    {"kv_groups_of_two", "takes groups to have two heads always",
     "head mapping", GROUPS, 0, {.map_K = MAP_PAIRS, .map_V = MAP_PAIRS}},
    {"kv_group_shifted", "shifts the groups by one query head",
     "head mapping", GROUPS, 0, {.map_K = MAP_SHIFTED, .map_V = MAP_SHIFTED}},
    {"kv_head_in_query_heads", "counts key heads in query heads",
     "head mapping", GROUPS, 0, {.map_K = MAP_COUNTED_IN_QUERY_HEADS, .map_V = MAP_COUNTED_IN_QUERY_HEADS}},
    {"kv_batch_in_query_heads", "skips Hq heads of K and V for each batch, where there are Hkv",
     "who am I", GROUPS, 0, {.map_K = MAP_BATCH_OF_QUERY_HEADS, .map_V = MAP_BATCH_OF_QUERY_HEADS}},
    {"V_of_another_head", "takes V of another head than K",
     "who am I", GROUPS, 0, {.map_V = MAP_MODULO}},
    {ALSO, GROUPS, 0, {.map_V = MAP_INVERTED}},
    {ALSO, GROUPS, 0, {.map_V = MAP_OWN_HEAD}},
    {ALSO, FWD, 0, {.map_V = MAP_FIRST_HEAD}},
    {ALSO, FWD, 0, {.map_V = MAP_FIRST_OF_ALL}},
    {"K_of_another_head", "takes K of another head than V",
     "who am I", GROUPS, 0, {.map_K = MAP_MODULO}},
    {ALSO, FWD, 0, {.map_K = MAP_FIRST_OF_ALL}},
    {ALSO, FWD, 0, {.map_K = MAP_FIRST_HEAD}},
    {"V_batch_forgotten", "takes V of the first batch in every batch",
     "who am I", FWD, 0, {.map_V = MAP_NO_BATCH}},
    {"K_batch_forgotten", "takes K of the first batch in every batch",
     "who am I", FWD, 0, {.map_K = MAP_NO_BATCH}},
    {"first_head_for_all", "reads K and V of the first head for every head",
     "who am I", FWD | BWD, 0, {.map_K = MAP_FIRST_OF_ALL, .map_V = MAP_FIRST_OF_ALL}},
    {ALSO, FWD | BWD, 0, {.map_K = MAP_FIRST_HEAD, .map_V = MAP_FIRST_HEAD}},
    {"batch_forgotten", "reads K and V of the first batch in every batch",
     "who am I", FWD | BWD, 0, {.map_K = MAP_NO_BATCH, .map_V = MAP_NO_BATCH}},
    {"batch_and_head_swapped", "counts heads and batches in the wrong order: h * B + b where b * H + h is meant",
     "who am I", FWD | BWD, 0, {.map_K = MAP_SWAPPED, .map_V = MAP_SWAPPED}},

    // --- the causal mask
    {"causal_one_too_many", "lets a query see one key of the future",
     "mask of the diagonal", MASK, TILES | T_ALL | T_GHOST, {.causal = CAUSAL_ONE_MORE}},
    {"causal_without_itself", "hides a query's own key: j >= i where j > i is meant",
     "mask of the diagonal", MASK, 0, {.causal = CAUSAL_ONE_LESS}},
    {"causal_transposed", "hides the past instead of the future",
     "mask of the diagonal", MASK, TILES | T_ALL | T_GHOST, {.causal = CAUSAL_TRANSPOSED}},
    {"never_masked", "does not hide the keys of the future, in some or all tiles on the diagonal",
     "mask of the diagonal", MASK, TILES | T_ALL | T_GHOST, {.causal = CAUSAL_NONE}},
    {ALSO, MASK, TILES | T_GHOST, {.walk = WALK_FULL_ONE_MORE}},
    {ALSO, MASK, TILES | T_GHOST, {.walk = WALK_FULL_OF_LAST_ROW}},
    {"mask_forgets_the_tile", "compares positions in the tile, where positions in the sequence are meant",
     "mask of the diagonal", MASK, TILES | T_ALL | T_GHOST, {.causal = CAUSAL_LOCAL}},
    {ALSO, MASK, TILES | T_ALL | T_GHOST, {.causal = CAUSAL_LOCAL_QUERY}},
    {ALSO, MASK, TILES | T_ALL | T_GHOST, {.causal = CAUSAL_LOCAL_KEY}},
    {ALSO, MASK, TILES | T_ALL | T_GHOST, {.causal = CAUSAL_LOCAL_WARP}},
    {"mask_forgets_the_warp", "counts the queries of every warp from the block's first one in the mask",
     "mask of the diagonal", MASK, TILES | T_GHOST, {.causal = CAUSAL_NO_WARP}},
    {"mask_is_0", "gives hidden keys the score 0 instead of -infinity",
     "mask of the diagonal", MASK, TILES | T_ALL | T_GHOST, {.hide = HIDE_BY_0}},
    {ALSO, WINDOW, TILES | T_ALL, {.hide = HIDE_OLD_BY_0}},
    {ALSO, WINDOW, TILES | T_ALL | T_GHOST, {.hide = HIDE_FUTURE_BY_0}},
    {ALSO, SINKS, TILES, {.hide = HIDE_SINKS_BY_0}},
    {"mask_after_max", "masks after it has taken the maximum",
     "mask of the diagonal", FWD | MASK, TILES | T_SLACK | T_ALL | T_GHOST, {.hide = HIDE_AFTER_MAX}},
    {"hidden_keys_in_l", "masks after it has summed l, which counts hidden keys too",
     "mask of the diagonal", FWD | MASK, TILES | T_SLACK | T_ALL | T_GHOST, {.hide = HIDE_AFTER_SUM}},
    {"diagonal_skipped", "leaves out the last tile, on the diagonal",
     "bounds", MASK, TILES | T_GHOST | RARE, {.walk = WALK_DIAGONAL_SKIPPED}},
    {ALSO, MASK, TILES | T_GHOST | RARE, {.walk = WALK_LAST_SKIPPED}},
    {ALSO, MASK, TILES | T_GHOST | RARE, {.walk = WALK_DIAGONAL_SKIPPED_BUT_FIRST}},
    {ALSO, MASK, TILES | T_GHOST | RARE, {.walk = WALK_LAST_SKIPPED_BUT_FIRST}},
    {"diagonal_twice", "counts the tiles on the diagonal twice",
     "bounds", MASK, TILES, {.walk = WALK_DIAGONAL_TWICE}},
    {"end_too_early", "ends its walk over the key tiles too early: some queries miss their last keys",
     "bounds", MASK, TILES, {.walk = WALK_ONE_ON_DIAGONAL}},
    {ALSO, MASK, TILES, {.walk = WALK_END_IN_BLOCKS}},

    // --- the ends
    {"last_tile_skipped", "leaves out the last tile of keys if it is not whole",
     "bounds", FWD, T_BC | T_BR, {.walk = WALK_WHOLE_TILES}},
    {ALSO, FWD, T_BC | T_BR, {.walk = WALK_WHOLE_TILES_BUT_FIRST}},
    {ALSO, FWD | MASK, TILES, {.walk = WALK_BLOCK_WHOLE_TILES}},
    {"first_tile_only", "looks at the first tile of keys alone",
     "bounds", FWD, T_BC | T_BR, {.walk = WALK_FIRST_TILE_ALONE}},
    {"first_tile_skipped", "leaves out the first tile of keys",
     "bounds", FWD, T_BC | T_BR, {.walk = WALK_SKIPS_FIRST_TILE}},
    {"ragged_keys_in_l", "counts keys that do not exist, in the last tile",
     "tail", LONE, STEP, {.ghost = GHOST_ZERO}},
    {ALSO, LONE, STEP, {.ghost = GHOST_STALE}},
    {ALSO, LONE, STEP, {.ghost = GHOST_CLAMPED}},
    {ALSO, LONE, STEP, {.ghost = GHOST_NEXT}},
    {"ragged_keys_off_by_one", "counts one key too many in the last tile",
     "tail", LONE, STEP, {.ghost = GHOST_ONE_ZERO}},
    {"last_key_masked", "hides the last key",
     "tail", LONE, T_BC, {.ghost = GHOST_LAST_MISSING}},
    {ALSO, LONE, T_BC, {.ghost = GHOST_LAST_OF_TAIL}},
    {"O_not_written", "does not write O",
     "store", FWD, 0, {.writes = WRITES_NO_O}},
    {"L_not_written", "does not write L",
     "store", FWD, 0, {.writes = WRITES_NO_L}},
    {"last_rows_not_written", "leaves out the last tile of queries if it is not whole",
     "launch", FWD, T_BR, {.writes = WRITES_WHOLE_TILES}},
    {"first_rows_only_written", "writes the first tile of queries alone",
     "store", FWD, T_BR, {.writes = WRITES_FIRST_TILE}},
    {"first_batch_only_written", "writes the first batch alone",
     "who am I", FWD, 0, {.writes = WRITES_FIRST_BATCH}},
    {"first_head_only_written", "writes the first head alone",
     "who am I", FWD, 0, {.writes = WRITES_FIRST_HEAD}},
    {"one_query_head_a_group", "writes one query head of each group",
     "who am I", GROUPS, 0, {.writes = WRITES_FIRST_OF_GROUP}},
    {ALSO, GROUPS, 0, {.writes = WRITES_KV_HEADS}},
    {"half_of_D_written", "writes the first half of the columns, or less",
     "store", FWD, 0, {.writes = WRITES_HALF_OF_D, .dims = 0}},

    // --- window
    {"no_window", "does not hide the keys before the window",
     "mask of the window", WINDOW, TILES | T_ALL, {.window = WINDOW_NONE}},
    {"window_one_too_many", "has a window of one key too many: j < i - W is hidden where j <= i - W is meant",
     "mask of the window", WINDOW, TILES | T_ALL, {.window = WINDOW_ONE_MORE}},
    {"window_one_too_few", "has a window of one key too few: j <= i - W + 1 is hidden where j <= i - W is meant",
     "mask of the window", WINDOW, 0, {.window = WINDOW_ONE_LESS}},
    {"no_window_on_the_diagonal", "forgets the window in the mask of the diagonal",
     "mask of the diagonal", WINDOW, TILES | T_ALL | RARE, {.window = WINDOW_NOT_ON_DIAGONAL}},
    {ALSO, WINDOW, TILES | RARE, {.window = WINDOW_ONE_MORE_ON_DIAGONAL}},
    {"window_of_whole_tiles", "leaves out whole tiles before the window, but does not mask the tile where it begins",
     "mask of the window", WINDOW, TILES, {.window = WINDOW_ON_DIAGONAL_ALONE}},
    {"window_tested_by_the_first_row", "leaves out the mask of the window where the warp's first query sees the "
     "whole tile; its last one may not",
     "mask of the window", WINDOW, TILES, {.window = WINDOW_TESTED_BY_FIRST_ROW}},
    {"window_of_the_block", "takes the window of the block's first query for all its queries",
     "mask of the window", WINDOW, TILES | T_ALL, {.window = WINDOW_OF_BLOCK}},
    {"window_both_ways", "splits the window between both sides of the query: half of it lies in the past",
     "mask of the window", WINDOW, 0, {.window = WINDOW_HALF}},
    {"window_in_tiles", "counts the window in tiles where tokens are meant",
     "mask of the window", WINDOW, TILES, {.window = WINDOW_IN_TILES}},
    {"window_starts_too_late", "starts its walk over the window too late: some queries miss their first keys",
     "first tile", WINDOW, TILES, {.walk = WALK_WINDOW_FROM_LAST_ROW}},
    {ALSO, WINDOW, TILES, {.walk = WALK_WINDOW_ROUNDED_UP}},
    {ALSO, WINDOW, TILES, {.walk = WALK_WINDOW_IN_TILES}},

    // --- sinks
    {"no_sinks", "does not see the sinks outside the window",
     "sink tiles", SINKS, TILES, {.sinks = SINKS_NONE}},
    {"one_sink_too_many", "sees one sink too many",
     "mask of the sinks", SINKS, TILES | T_ALL, {.sinks = SINKS_ONE_MORE}},
    {"one_sink_too_few", "sees one sink too few",
     "mask of the sinks", SINKS, 0, {.sinks = SINKS_ONE_LESS}},
    {"first_sink_only", "sees the first sink alone",
     "mask of the sinks", SINKS, 0, {.sinks = SINKS_FIRST_ONLY}},
    {"sink_tile_is_whole", "takes all keys of the last sink tile for sinks",
     "mask of the sinks", SINKS, TILES | T_ALL, {.sinks = SINKS_WHOLE_TILE}},
    {ALSO, SINKS, TILES, {.sinks = SINKS_WHOLE_TILE_AMONG_SINKS}},
    {"no_sinks_in_the_window_tiles", "forgets the sinks in the mask of the window",
     "mask of the window", SINKS, TILES | RARE, {.sinks = SINKS_NOT_IN_WINDOW_TILES}},
    {ALSO, SINKS, TILES | RARE, {.sinks = SINKS_AMONG_SINKS_ALONE}},
    {"no_sinks_on_the_diagonal", "forgets the sinks in the mask of the diagonal",
     "mask of the diagonal", SINKS, TILES | RARE, {.sinks = SINKS_NOT_ON_DIAGONAL}},
    {"sinks_not_causal", "lets a query see sinks of the future",
     "mask of the diagonal", SINKS, TILES | T_ALL | T_GHOST, {.sinks = SINKS_NOT_CAUSAL}},
    {"sinks_hidden_in_the_window", "hides sinks that lie in the window",
     "mask of the window", SINKS, TILES | T_ALL, {.sinks = SINKS_HIDDEN_IN_WINDOW}},
    {"sinks_twice", "counts sinks twice, as sinks and as part of the window",
     "sink tiles", SINKS, TILES, {.walk = WALK_SINKS_TWICE}},
    {ALSO, SINKS, TILES, {.walk = WALK_SINKS_TWICE_CAUSAL}},
    {ALSO, SINKS, TILES, {.walk = WALK_SINKS_TWICE_IN_TILES}},
    {"sink_tiles_rounded_down", "rounds the number of sink tiles down, and loses the last sinks",
     "sink tiles", SINKS, TILES, {.walk = WALK_SINKS_ROUNDED_DOWN}},
    {"one_sink_tile", "looks at the first sink tile alone",
     "sink tiles", SINKS, TILES, {.walk = WALK_ONE_SINK_TILE}},
    {"window_beside_the_sinks", "makes the window longer by the number of sinks",
     "mask of the window", SINKS, TILES | T_ALL, {.window = WINDOW_PLUS_SINKS}},
    {"sinks_move_the_window", "sees S keys before the window instead of the first S keys",
     "mask of the window", SINKS, TILES | T_ALL, {.window = WINDOW_PLUS_SINKS, .sinks = SINKS_NONE}},
    {"sinks_shorten_the_window", "makes the window shorter by the number of sinks",
     "mask of the window", SINKS, 0, {.window = WINDOW_MINUS_SINKS}},

    // --- backward
    {"delta_forgotten", "forgets delta: dS = P dP where dS = P (dP - delta) is meant",
     "dS", BWD, 0, {.dS = DS_NO_DELTA}},
    {"delta_added", "adds delta where it is subtracted: dS = P (dP - delta)",
     "dS", BWD, 0, {.dS = DS_PLUS_DELTA}},
    {"dS_without_P", "forgets the factor P of dS = P (dP - delta)",
     "dS", BWD, 0, {.dS = DS_WITHOUT_P}},
    {"dS_negative", "has dS with the wrong sign: delta - dP where dP - delta is meant",
     "dS", BWD, 0, {.dS = DS_MINUS}},
    {"P_not_dS", "multiplies P by K or Q where dS is meant",
     "dQ", BWD, 0, {.dS = DS_IS_P}},
    {"dP_from_O", "computes dP from O in the place of dO",
     "dS", BWD, 0, {.dP = DP_FROM_O}},
    {"dP_from_K", "computes dP from K in the place of V",
     "dS", BWD, 0, {.dP = DP_FROM_K}},
    {"no_output_scale", "leaves the scale out of dQ or dK",
     "scale", BWD, 0, {.out = OUT_NO_SCALE}},
    {"output_scale_twice", "multiplies dQ or dK by the scale twice",
     "scale", BWD, 0, {.out = OUT_SCALE_TWICE}},
    {"output_scale_in_base_2", "multiplies dQ or dK by log2(e), which belongs in the exponent alone",
     "scale", BWD, 0, {.out = OUT_LOG2E}},
    {ALSO, BWD, 0, {.out = OUT_LN2}},
    {"L_in_base_e", "subtracts L in base e in an exponent of base 2",
     "recompute", BWD, 0, {.P = P_L_IN_BASE_E}},
    {ALSO, BWD, 0, {.P = P_L_TIMES_LOG2E}},
    {"L_forgotten", "recomputes P without L",
     "recompute", BWD, 0, {.P = P_WITHOUT_L}},
    {"row_max_for_L", "recomputes P from the row's maximum where L is meant",
     "recompute", BWD, 0, {.P = P_ROW_MAX}},
    {ALSO, BWD, T_BC | T_BR, {.P = P_TILE_MAX}},
    {"L_scaled", "multiplies L by the scale",
     "recompute", BWD, 0, {.P = P_L_SCALED}},
    {"dV_from_dS", "sums dV from dS where P is meant",
     "dV", BWD, 0, {.dV = DV_FROM_DS}},
    {"dV_from_dP", "sums dV from dP where P is meant",
     "dV", BWD, 0, {.dV = DV_FROM_DP}},
    {"dV_from_O", "sums dV from O in the place of dO",
     "dV", BWD, 0, {.dV = DV_FROM_O}},
    {"dV_from_Q", "sums dV from Q in the place of dO",
     "dV", BWD, 0, {.dV = DV_FROM_Q}},
    {"dQ_and_dK_swapped", "multiplies dS by Q where K is meant, or by K where Q is",
     "dQ", BWD, 0, {.dQ = DQ_FROM_Q}},
    {ALSO, BWD, 0, {.dQ = DQ_FROM_OWN}},
    {"dQ_from_V", "multiplies dS by V or dO, where K or Q is meant",
     "dQ", BWD, 0, {.dQ = DQ_FROM_V}},
    {"one_query_head", "sums dK and dV over one query head of the group alone",
     "group", BWD, 0, {.group = GROUP_FIRST}},
    {ALSO, BWD, 0, {.group = GROUP_LAST}},
    {"group_averaged", "divides dK and dV by the heads of the group",
     "group", BWD, 0, {.group = GROUP_MEAN}},
    {"delta_of_some_columns", "sums delta over some of the columns alone",
     "delta", BWD, 0, {.delta = DELTA_OF_8}},
    {ALSO, BWD, 0, {.delta = DELTA_OF_HALF}},
    {"delta_scaled", "multiplies delta by the scale",
     "delta", BWD, 0, {.delta = DELTA_SCALED}},
    {"delta_from_dO", "sums delta from dO * dO or O * O where dO * O is meant",
     "delta", BWD, 0, {.delta = DELTA_OF_DO}},
    {ALSO, BWD, 0, {.delta = DELTA_OF_O}},
    {"delta_averaged", "takes the mean of dO * O where the sum is meant",
     "delta", BWD, 0, {.delta = DELTA_MEAN}},
    {"delta_not_written", "does not write delta",
     "delta", BWD, 0, {.writes = WRITES_NO_DELTA}},
    {"last_queries_forgotten", "leaves out the last tile if it is not whole",
     "bounds", BWD, T_BC | T_BR, {.walk = WALK_WHOLE_TILES}},
    {ALSO, BWD, T_BC | T_BR, {.walk = WALK_WHOLE_TILES_BUT_FIRST}},
    {ALSO, BWD, T_BC | T_BR, {.walk = WALK_BLOCK_WHOLE_TILES}},
    {"queries_of_the_first_key", "ends the walk over the queries with the window of the tile's first key",
     "queries", BWD | WINDOW, TILES, {.walk = WALK_QUERIES_OF_FIRST_KEY}},
    {"no_far_queries", "forgets the queries that see a sink from outside the window, in dK and dV",
     "queries", BWD | SINKS, TILES, {.walk = WALK_NO_FAR_QUERIES}},

    // --- the row sum
    {"tail_dropped", "leaves out the columns after the last whole load, or round of the loop",
     "ends", SUM, T_BC | T_BR, {.sum = SUM_TAIL_DROPPED}},
    {"half_a_warp", "adds up half of a warp: the shuffles start at 8",
     "reduce", SUM, T_BC | T_BR, {.sum = SUM_HALF_WARP}},
    {"lane_0_only", "stores the sum of one lane, without those of the others",
     "reduce", SUM, T_BC | T_BR, {.sum = SUM_LANE_0}},
    {ALSO, SUM, T_BC | T_BR, {.sum = SUM_THREAD_0}},
    {"first_warp_only", "stores the sum of one warp, without those of the others",
     "reduce", SUM, T_BC | T_BR, {.sum = SUM_FIRST_WARP}},
    {"last_warp_forgotten", "forgets the sum of the last warp",
     "reduce", SUM, T_BC | T_BR, {.sum = SUM_LAST_WARP_LOST}},
    {"strides_by_a_warp", "strides by a warp where all threads of the block share a row: columns are counted more "
     "than once",
     "load", SUM, T_BC | T_BR, {.sum = SUM_WARP_STRIDE}},
    {"one_round_only", "takes one column, or one load, a thread: the loop over the rest is missing",
     "load", SUM, T_BC | T_BR, {.sum = SUM_BLOCK_ONCE}},
    {"last_column_dropped", "leaves out the last column",
     "ends", SUM, 0, {.sum = SUM_LAST_COLUMN_LOST}},
    {"column_twice", "counts a column twice, where the ragged end meets the whole loads",
     "ends", SUM, T_BR, {.sum = SUM_COLUMN_TWICE}},
    {ALSO, SUM, 0, {.BR = 8, .sum = SUM_HEAD_TWICE}},
    {"w_forgotten", "adds up x without the weights w",
     "load", SUM, 0, {.sum = SUM_NO_W}},
    {"w_of_the_row", "takes w of the row where w of the column is meant",
     "load", SUM, 0, {.sum = SUM_W_OF_ROW}},
    {"w_ignores_the_head", "takes w from the load's number where w of the column is meant",
     "load", SUM, T_BR, {.sum = SUM_W_WITHOUT_HEAD}},
    {"strides_by_rows", "multiplies the row by the number of rows where the number of columns is meant",
     "who", SUM, 0, {.sum = SUM_STRIDE_OF_ROWS}},
    {"x_transposed", "takes x for a matrix stored by columns",
     "who", SUM, 0, {.sum = SUM_TRANSPOSED}},
    {"first_row_for_all", "reads the first row for every row",
     "who", SUM, 0, {.sum = SUM_FIRST_ROW}},
    {"row_off_by_one", "reads the next row",
     "who", SUM, 0, {.sum = SUM_NEXT_ROW}},
    {"last_rows_dropped", "launches too few blocks: the last rows are never written",
     "launch", SUM, T_BC, {.sum = SUM_ROWS_LOST}},
    {ALSO, SUM, T_BC, {.sum = SUM_ROWS_LOST_BUT_FIRST}},
    {"reads_past_the_row", "reads past the end of its row",
     "ends", SUM, T_BC | T_BR, {.sum = SUM_READS_PAST_ROW}},
    {"masks_by_zero", "reads past the end of x and multiplies by 0: NaN times 0 is NaN",
     "ends", SUM, T_BC | T_BR, {.sum = SUM_READS_PAST_END}},
    {"y_not_written", "does not write y, or adds to what was in it before",
     "store", SUM, 0, {.sum = SUM_NOT_WRITTEN}},
    {"sum_doubled", "counts every column more than once",
     "reduce", SUM, 0, {.sum = SUM_TWICE}},
    {ALSO, SUM, 0, {.sum = SUM_32_TIMES}},
    {"rows_added_up", "adds up several rows into one",
     "reduce", SUM, T_BC, {.sum = SUM_ALL_ROWS}},
};
// clang-format on
const size_t mistakes_count = sizeof mistakes / sizeof *mistakes;

bool mistake_applies(const mistake *m, const wb_problem *p)
{
    const unsigned needs = m->needs;
    const unsigned signature = p->signature == WB_FORWARD ? FWD : p->signature == WB_BACKWARD ? BWD : SUM;
    if (needs & (FWD | BWD | SUM) && !(needs & signature)) return false;
    if (needs & (FWD | LONE) && !(needs & BWD) && signature != FWD) return false;
    if (needs & (GROUPS | MASK | WINDOW | SINKS) && signature == SUM) return false;
    if (needs & MASK && p->mask == WB_NO_MASK) return false;
    if (needs & LONE && p->mask == WB_CAUSAL) return false;
    return (p->grouped || !(needs & GROUPS)) && (p->window || !(needs & WINDOW)) && (p->sinks || !(needs & SINKS));
}

bool mistake_variant(const mistake *m, const wb_problem *problem, int variant, kernel *k)
{
    static const int BC[] = {64, 32, 128, 16, 1, 48, 8, 256, 96}, BR[] = {64, 128, 32, 16, 1, 96, 8, 192},
                     ROWS[] = {0, 32, 16};
    static const int threads[] = {32, 64, 128, 256, 512, 1024, 1, 4, 8, 16, 2}, wide[] = {1, 2, 4, 8};
    const bool sum = problem->signature == WB_ROW_SUM;
    *k = m->k;
    k->BC = 64;
    if (k->BR == 0) k->BR = sum ? 1 : 64;
    if (sum) k->BC = 128;
    int left = variant;
    if (m->tries & T_BC) {
        const int n = sum ? 11 : 9;
        k->BC = sum ? threads[left % n] : BC[left % n];
        left /= n;
    }
    if (m->tries & T_BR) {
        const int n = sum ? 4 : 8;
        k->BR = sum ? wide[left % n] : BR[left % n];
        left /= n;
    }
    if (m->tries & T_ROWS) k->ROWS = ROWS[left % 3], left /= 3;
    if (m->tries & T_SLACK && !problem->on_host) {
        if (left % 3) k->slack = 8 * LN2, k->BR = k->ROWS = left % 3 == 1 ? 32 : 16;
        left /= 3;
    }
    if (m->tries & T_LSE && problem->signature == WB_FORWARD) k->lse = left % LSE_FORMS, left /= LSE_FORMS;
    if (m->tries & T_ALL) {
        if (left % 3 == 1) k->walk = WALK_ALL;
        k->one_mask = left % 3;
        left /= 3;
    }
    if (m->tries & T_GHOST) {
        if (left % 2) k->ghost = GHOST_ZERO;
        left /= 2;
    }
    if (k->ROWS >= k->BR && k->ROWS && !k->slack) k->BR = 0;
    if (k->P == P_TILE_MAX && k->BC == 1) k->BR = 0;                         // P is 1
    if (k->causal >= CAUSAL_LOCAL && (k->BC == 1 || k->BR == 1)) k->BR = 0;  // the same as no mask
    return left == 0;
}
