// mistakes_table.c - the mistakes by name, in which gaps they can be made, and which tile sizes to try: see mistakes.h. They are
// those of the lessons ("Common mistakes") and relatives of theirs, as far as the gaps leave room for them.
#include "mistakes.h"

#include <stddef.h>
#include <string.h>

#define LN2 0.6931471805599453

// What a problem must have for a mistake to be possible.
enum { FWD = 1, BWD = 2, SUM = 4, MASK = 8, WINDOW = 16, SINKS = 32 };

// What to try, if the results depend on it.
enum {
    T_BC = 1,     // tile sizes
    T_BR = 2,     // ... with warps that pass over tiles
    T_SLACK = 4,  // a maximum that stays until it is exceeded by 2^8
    T_ALL = 8,    // of a backward: one mask for all tiles
    T_WHERE = 16  // of a forward: in which mask the mistake is, and whether tiles have it that need none
};
#define STEP   T_BC | T_SLACK
#define TILES  T_BC | T_BR
#define MASKED T_BC | T_BR | T_ALL

// Where masks are made.
#define MASKS       "mask|mask of the diagonal|recompute|recompute for dQ|mask of dK and dV|mask of dQ"
#define WINDOW_MASK "mask of the window|mask of the diagonal|mask of dK and dV|mask of dQ"
#define SINK_MASKS  "mask of the sinks|" WINDOW_MASK

// Another way to make the mistake above.
#define ALSO NULL, NULL, NULL

// clang-format off
const mistake mistakes[] = {
    // --- what a comparison of outputs does not show: diagnose.c looks for these itself
    {"writes_past_the_end", "writes rows that do not exist, past the end of an output", "store", FWD | BWD | SUM, 0, {0}},
    {"future_not_skipped", "computes whole tiles of keys that lie in the future of its queries, where a mask hides them",
     "bound|bounds|keys", MASK, 0, {0}},
    {"window_not_skipped", "computes whole tiles of keys that lie before the window of its queries, where a mask hides them",
     "first tile|sink tiles|keys", WINDOW, 0, {0}},
    {"queries_not_skipped", "walks over queries that see no key of the tile, where a mask hides them", "queries", BWD | WINDOW, 0, {0}},

    // --- the online softmax
    {"O_not_rescaled", "does not rescale O when the running maximum grows",
     "rescale", FWD, STEP, {.O_not_rescaled = true}},
    {"l_not_rescaled", "does not rescale l when the running maximum grows",
     "rescale", FWD, STEP, {.l_not_rescaled = true}},
    {"nothing_rescaled", "rescales neither O nor l when the running maximum grows",
     "rescale", FWD, STEP, {.O_not_rescaled = true, .l_not_rescaled = true}},
    {"rescaled_after_adding", "rescales l after it has added the new tile's sum, which is under the new maximum already",
     "rescale|accumulate", FWD, STEP, {.l_rescaled_late = true}},
    {"rescaled_twice", "rescales O or l twice in a tile: the correction exp(m - m') is squared",
     "rescale", FWD, STEP, {.twice = OF_O}},
    {ALSO, FWD, STEP, {.twice = OF_L}},
    {ALSO, FWD, STEP, {.twice = OF_O | OF_L}},
    {"new_tile_under_its_own_max", "takes the weights of a tile under the tile's own maximum, where the maximum of all tiles so far is meant",
     "max|accumulate", FWD, STEP, {.own_max = true}},
    {"rescaled_upside_down", "rescales by exp(m' - m), the inverse of the correction exp(m - m')",
     "rescale", FWD, STEP, {.alpha = ALPHA_INVERTED}},
    {ALSO, FWD, STEP, {.alpha = ALPHA_INVERTED_GUARDED}},
    {"exp_mixed_with_exp2", "takes exp in one place and exp2 in another: the correction and the weights have different bases",
     "rescale|accumulate", FWD, STEP, {.alpha = ALPHA_EXP2}},
    {ALSO, FWD, STEP, {.alpha = ALPHA_EXP}},
    {ALSO, FWD, STEP, {.alpha = ALPHA_EXP, .scale = SCALE_LN2}},
    {ALSO, FWD, STEP, {.alpha = ALPHA_EXP2, .scale = SCALE_LOG2E}},
    {"m_starts_at_0", "starts the running maximum at 0, so that very negative scores all become weights of 0",
     "max", FWD, T_BC, {.max = MAX_FROM_0}},
    {"no_max", "does not subtract the maximum: large scores overflow, very negative ones vanish",
     "max|accumulate", FWD, T_BC, {.max = MAX_NONE}},
    {"max_of_this_tile_only", "takes the maximum of this tile alone, and forgets the one so far",
     "max|rescale", FWD, T_BC, {.max = MAX_OF_TILE}},
    {"max_of_the_first_tile", "keeps the maximum of the first tile for all tiles",
     "max|rescale", FWD, T_BC, {.max = MAX_FIRST_TILE}},
    {"last_tile_only", "forgets all but the last key tile: O and l start anew in each tile",
     "rescale", FWD, T_BC, {.max = MAX_NOT_KEPT}},
    {"m_not_kept", "never stores the new maximum: m stays where it began",
     "max|rescale", FWD, T_BC, {.max = MAX_NEVER_STORED}},
    {ALSO, FWD, T_BC, {.max = MAX_NEVER_STORED_BUT_USED}},
    {"max_of_own_columns", "does not complete the row's maximum over the lanes that share a row",
     "max|rescale", FWD, STEP, {.max = MAX_OF_OWN_COLUMNS}},
    {"scale_after_max", "takes the maximum of scores without the scale, but the weights of scores with it",
     "max", FWD, STEP, {.m_units = M_RAW}},
    {ALSO, FWD, STEP, {.m_units = M_UNSCALED}},
    {ALSO, FWD, STEP, {.m_units = M_WITHOUT_LOG2E}},
    {"scale_in_the_max_only", "takes the maximum of scores with the scale, but the weights of scores without it",
     "accumulate", FWD, STEP, {.scale = SCALE_NONE, .m_units = M_SCALED}},
    {ALSO, FWD, STEP, {.scale = SCALE_LN2, .m_units = M_SCALED}},
    {"scale_forgotten", "does not multiply the scores by the scale",
     "max|accumulate|recompute|recompute for dQ", FWD | BWD, STEP, {.scale = SCALE_NONE}},
    {"scale_twice", "multiplies the scores by the scale twice",
     "max|accumulate|recompute|recompute for dQ", FWD | BWD, STEP, {.scale = SCALE_TWICE}},
    {"exp2_without_log2e", "takes exp2 of scores that were not multiplied by log2(e)",
     "max|accumulate|recompute|recompute for dQ", FWD | BWD, STEP, {.scale = SCALE_LN2}},
    {ALSO, BWD, 0, {.P = P_BASE_2}},
    {"log2e_without_exp2", "takes exp of scores that were multiplied by log2(e)",
     "max|accumulate|recompute|recompute for dQ", FWD | BWD, STEP, {.scale = SCALE_LOG2E}},
    {ALSO, BWD, 0, {.P = P_BASE_E}},
    {"l_of_the_last_tile", "sets l to the sum of the current tile's weights instead of adding it",
     "accumulate", FWD, STEP, {.l = L_LAST_TILE}},
    {"l_under_the_old_max", "sums l from weights under the old maximum, O from weights under the new one",
     "accumulate", FWD, STEP, {.l = L_OLD_MAX}},
    {"l_before_exp", "sums scores into l, before they have become weights",
     "accumulate", FWD, STEP, {.l = L_OF_SCORES}},
    {ALSO, FWD, STEP, {.l = L_OF_ALL_SCORES}},
    {"l_never_summed", "never adds the weights to l",
     "accumulate", FWD, STEP, {.l = L_NEVER}},
    {"l_of_own_columns", "does not complete l over the lanes that share a row",
     "finalize", FWD, STEP, {.l = L_OF_OWN_COLUMNS}},
    {"l_completed_too_late", "completes l over the lanes that share a row after it was used, for O or for L",
     "finalize", FWD, STEP, {.l = L_COMPLETED_AFTER_O}},
    {ALSO, FWD, STEP, {.l = L_COMPLETED_AFTER_L}},
    {"l_completed_twice", "completes l over the lanes that share a row twice: it is 4 times as large as it should be",
     "accumulate|finalize", FWD, STEP, {.l = L_COMPLETED_TWICE}},
    {ALSO, FWD, STEP, {.l = L_COMPLETED_IN_LOOP}},
    {"never_normalised", "does not divide O by l at the end",
     "finalize", FWD, STEP, {.divide = DIVIDE_NEVER}},
    {"normalised_in_the_loop", "divides O by l inside the loop over the tiles",
     "accumulate|rescale|finalize", FWD, STEP, {.divide = DIVIDE_IN_LOOP}},
    {ALSO, FWD, STEP, {.divide = DIVIDE_IN_LOOP_AND_AT_END}},
    {"normalised_twice", "divides O by l twice",
     "finalize", FWD, STEP, {.divide = DIVIDE_TWICE}},
    {"multiplied_by_l", "multiplies O by l where it is divided",
     "finalize", FWD, STEP, {.divide = DIVIDE_UPSIDE_DOWN}},
    {"L_in_base_2", "stores L in base 2 where the natural logarithm is meant",
     "finalize", FWD, 0, {.lse = LSE_BASE_2}},
    {"L_times_log2e", "multiplies L by log2(e) where it is multiplied by ln(2): base 2 becomes no natural logarithm",
     "finalize", FWD, 0, {.lse = LSE_BASE_4}},
    {"L_half_in_base_2", "adds a maximum and a logarithm of different bases in L",
     "finalize", FWD, 0, {.lse = LSE_M_BASE_2}},
    {ALSO, FWD, 0, {.lse = LSE_M_BASE_4}},
    {ALSO, FWD, 0, {.lse = LSE_L_BASE_2}},
    {ALSO, FWD, 0, {.lse = LSE_L_TIMES_LN2}},
    {ALSO, FWD, 0, {.lse = LSE_M_TIMES_LN2}},
    {ALSO, FWD, 0, {.lse = LSE_TIMES_LN2}},
    {"L_without_m", "stores log(l) as L, without the maximum",
     "finalize", FWD, 0, {.lse = LSE_NO_M}},
    {ALSO, FWD, 0, {.lse = LSE_NO_M_BASE_2}},
    {ALSO, FWD, 0, {.lse = LSE_NO_M_TIMES_LN2}},
    {"L_without_l", "stores the maximum as L, without log(l)",
     "finalize", FWD, 0, {.lse = LSE_ONLY_M}},
    {ALSO, FWD, 0, {.lse = LSE_ONLY_M_BASE_2}},
    {"L_without_log", "stores m + l as L, without the logarithm",
     "finalize", FWD, 0, {.lse = LSE_M_PLUS_L}},
    {ALSO, FWD, 0, {.lse = LSE_M_PLUS_L_BASE_2}},
    {"L_is_l", "stores l as L: neither the logarithm nor the maximum",
     "finalize", FWD, 0, {.lse = LSE_ONLY_L}},
    {"L_minus_m", "subtracts the maximum from log(l) in L",
     "finalize", FWD, 0, {.lse = LSE_MINUS_M}},
    {"L_minus_log", "subtracts log(l) from the maximum in L",
     "finalize", FWD, 0, {.lse = LSE_MINUS}},
    {"L_is_the_sum", "stores the sum of all weights as L, without the logarithm",
     "finalize", FWD, 0, {.lse = LSE_EXP}},
    {"L_never_set", "does not set L",
     "finalize", FWD, 0, {.lse = LSE_NOT_SET}},

    // --- keys that do not exist
    {"ragged_keys_in_l", "counts keys that do not exist, in the last tile",
     "tail|max|accumulate", FWD, STEP, {.ghost = GHOST_ZERO}},
    {ALSO, FWD, STEP, {.ghost = GHOST_STALE}},
    {"ragged_keys_off_by_one", "counts one key too many in the last tile",
     "tail", FWD, STEP, {.ghost = GHOST_ONE_ZERO}},
    {"last_key_masked", "hides the last key",
     "tail", FWD, T_BC, {.ghost = GHOST_LAST_OF_TAIL}},
    {"tail_forgets_the_tile", "compares a column of the tile with the number of all keys: only a tail in the first tile is hidden",
     "tail", FWD, STEP, {.ghost = GHOST_BUT_IN_ONE_TILE}},
    {"tail_by_rows", "hides rows of the last tile, where columns are keys",
     "tail", FWD, T_BC | T_BR, {.ghost = GHOST_BY_ROW}},

    // --- heads
    {"kv_head_modulo", "takes key head h % Hkv for query head h, where h / (Hq / Hkv) is meant",
     "head mapping", FWD, 0, {.map_K = MAP_MODULO, .map_V = MAP_MODULO}},
    {"kv_group_inverted", "takes key head h / Hkv for query head h, where h / (Hq / Hkv) is meant",
     "head mapping", FWD, 0, {.map_K = MAP_INVERTED, .map_V = MAP_INVERTED}},
    {ALSO, FWD, 0, {.map_K = MAP_INVERTED_WRAPPED, .map_V = MAP_INVERTED_WRAPPED}},
    {"kv_head_unmapped", "takes key head h for query head h: heads are not grouped",
     "head mapping", FWD, 0, {.map_K = MAP_OWN_HEAD, .map_V = MAP_OWN_HEAD}},
    {ALSO, FWD, 0, {.map_K = MAP_OWN_HEAD_CLAMPED, .map_V = MAP_OWN_HEAD_CLAMPED}},
    {"kv_head_backwards", "counts the key heads backwards",
     "head mapping", FWD, 0, {.map_K = MAP_BACKWARDS, .map_V = MAP_BACKWARDS}},
    {"kv_groups_of_two", "takes groups to have two heads always",
     "head mapping", FWD, 0, {.map_K = MAP_PAIRS, .map_V = MAP_PAIRS}},
    {"kv_group_shifted", "shifts the groups by one query head",
     "head mapping", FWD, 0, {.map_K = MAP_SHIFTED, .map_V = MAP_SHIFTED}},
    {"kv_head_in_query_heads", "counts key heads in query heads",
     "head mapping", FWD, 0, {.map_K = MAP_COUNTED_IN_QUERY_HEADS, .map_V = MAP_COUNTED_IN_QUERY_HEADS}},
    {"kv_batch_in_query_heads", "skips Hq heads of K and V for each batch, where there are Hkv",
     "head mapping", FWD, 0, {.map_K = MAP_BATCH_OF_QUERY_HEADS, .map_V = MAP_BATCH_OF_QUERY_HEADS}},
    {"first_head_for_all", "reads K and V of the first head for every head",
     "head mapping", FWD, 0, {.map_K = MAP_FIRST_HEAD, .map_V = MAP_FIRST_HEAD}},
    {ALSO, FWD, 0, {.map_K = MAP_FIRST_OF_ALL, .map_V = MAP_FIRST_OF_ALL}},
    {"batch_forgotten", "reads K and V of the first batch in every batch",
     "head mapping", FWD, 0, {.map_K = MAP_NO_BATCH, .map_V = MAP_NO_BATCH}},
    {"V_batch_forgotten", "takes V of the first batch in every batch",
     "head mapping", FWD, 0, {.map_V = MAP_NO_BATCH}},
    {"V_of_another_head", "takes V of another head than K",
     "head mapping", FWD, 0, {.map_V = MAP_MODULO}},
    {ALSO, FWD, 0, {.map_V = MAP_INVERTED}},
    {ALSO, FWD, 0, {.map_V = MAP_OWN_HEAD}},
    {ALSO, FWD, 0, {.map_V = MAP_FIRST_HEAD}},
    {"K_of_another_head", "takes K of another head than V",
     "head mapping", FWD, 0, {.map_K = MAP_MODULO}},
    {ALSO, FWD, 0, {.map_K = MAP_FIRST_HEAD}},

    // --- the causal mask
    {"causal_one_too_many", "lets a query see one key of the future",
     MASKS, MASK, MASKED, {.causal = CAUSAL_ONE_MORE}},
    {"causal_without_itself", "hides a query's own key: j >= i where j > i is meant",
     MASKS, MASK, 0, {.causal = CAUSAL_ONE_LESS}},
    {"causal_transposed", "hides the past instead of the future",
     MASKS, MASK, MASKED, {.causal = CAUSAL_TRANSPOSED}},
    {"never_masked", "does not hide the keys of the future, in some or all tiles on the diagonal",
     "bounds|" MASKS, MASK, TILES, {.causal = CAUSAL_NONE}},
    {ALSO, MASK, TILES, {.walk = WALK_FULL_ONE_MORE}},
    {ALSO, MASK, TILES, {.walk = WALK_FULL_OF_LAST_ROW}},
    {ALSO, MASK, TILES, {.walk = WALK_FULL_ROUNDED_UP}},
    {ALSO, MASK, TILES, {.walk = WALK_ALL_FULL}},
    {ALSO, BWD | MASK, TILES, {.causal = CAUSAL_TESTED_BY_FIRST_ROW}},
    {ALSO, WINDOW, TILES, {.causal = CAUSAL_NONE, .window = WINDOW_NONE, .where = ON_DIAGONAL}},
    {"mask_forgets_the_tile", "compares positions in the tile, where positions in the sequence are meant",
     MASKS, MASK, MASKED, {.causal = CAUSAL_LOCAL}},
    {ALSO, MASK, MASKED, {.causal = CAUSAL_LOCAL_QUERY}},
    {ALSO, MASK, MASKED, {.causal = CAUSAL_LOCAL_KEY}},
    {ALSO, MASK, MASKED, {.causal = CAUSAL_LOCAL_WARP}},
    {ALSO, WINDOW, TILES | T_WHERE, {.window = WINDOW_LOCAL}},
    {ALSO, WINDOW, TILES, {.causal = CAUSAL_LOCAL_WARP, .window = WINDOW_LOCAL}},
    {"mask_forgets_the_warp", "counts the queries of every warp from the block's first one in the mask",
     MASKS, MASK, TILES, {.causal = CAUSAL_NO_WARP}},
    {"mask_of_the_first_row", "takes the position of the block's or the warp's first query for all its queries, in the mask",
     MASKS, MASK, MASKED, {.causal = CAUSAL_OF_WARP}},
    {ALSO, MASK, MASKED, {.causal = CAUSAL_OF_BLOCK}},
    {ALSO, WINDOW, TILES | T_WHERE, {.window = WINDOW_OF_WARP}},
    {ALSO, WINDOW, TILES | T_WHERE, {.window = WINDOW_OF_BLOCK}},
    {ALSO, WINDOW, TILES | T_WHERE, {.window = WINDOW_OF_BLOCK_END}},
    {"mask_is_0", "gives hidden keys the score 0 instead of -infinity",
     MASKS "|mask of the window|mask of the sinks|tail", MASK, MASKED | T_WHERE, {.hide = HIDE_BY_0}},
    {ALSO, WINDOW, MASKED, {.hide = HIDE_OLD_BY_0}},
    {ALSO, WINDOW, MASKED, {.hide = HIDE_FUTURE_BY_0}},
    {ALSO, SINKS, TILES, {.hide = HIDE_SINKS_BY_0}},
    {"mask_after_max", "masks after it has taken the maximum",
     "mask|mask of the diagonal", FWD | MASK, TILES | T_SLACK, {.hide = HIDE_AFTER_MAX}},
    {"diagonal_skipped", "leaves out the last tile, on the diagonal",
     "bounds|keys", MASK, TILES, {.walk = WALK_DIAGONAL_SKIPPED}},
    {ALSO, MASK, TILES, {.walk = WALK_LAST_SKIPPED}},
    {"diagonal_twice", "counts the tiles on the diagonal twice",
     "bounds", MASK, TILES, {.walk = WALK_DIAGONAL_TWICE}},
    {"end_too_early", "ends its walk over the key tiles too early: some queries miss their last keys",
     "bound|bounds|keys", MASK, TILES, {.walk = WALK_ONE_ON_DIAGONAL}},
    {ALSO, MASK, TILES, {.walk = WALK_END_IN_BLOCKS}},
    {ALSO, MASK, TILES, {.walk = WALK_BLOCK_WHOLE_TILES}},
    {ALSO, MASK, TILES, {.causal = CAUSAL_END_ONE_EARLY}},
    {ALSO, MASK, TILES, {.causal = CAUSAL_BEFORE_BLOCK}},
    {ALSO, FWD | MASK, TILES, {.walk = WALK_FIRST_TILE_ALONE}},
    {ALSO, BWD | WINDOW, TILES, {.walk = WALK_END_IN_TILES}},

    // --- window
    {"no_window", "does not hide the keys before the window",
     WINDOW_MASK, WINDOW, TILES, {.window = WINDOW_NONE}},
    {"no_window_on_the_diagonal", "forgets the window in the mask of the diagonal",
     "mask of the diagonal", WINDOW, TILES, {.window = WINDOW_NONE, .where = ON_DIAGONAL}},
    {"window_of_whole_tiles", "leaves out whole tiles before the window, but does not mask the tile where it begins",
     "mask of the window|mask of dK and dV|mask of dQ", WINDOW, TILES, {.window = WINDOW_NONE, .where = OFF_DIAGONAL}},
    {"window_one_too_many", "has a window of one key too many: j < i - W is hidden where j <= i - W is meant",
     WINDOW_MASK, WINDOW, TILES | T_WHERE, {.window = WINDOW_ONE_MORE}},
    {"window_one_too_few", "has a window of one key too few: j <= i - W + 1 is hidden where j <= i - W is meant",
     WINDOW_MASK, WINDOW, TILES | T_WHERE, {.window = WINDOW_ONE_LESS}},
    {"window_tested_by_the_first_row", "leaves out the mask of the window where the warp's first query sees the whole tile; its last one may not",
     "mask of the window|mask of dK and dV|mask of dQ", WINDOW, TILES, {.window = WINDOW_TESTED_BY_FIRST_ROW}},
    {"window_doubled", "has a window twice as long",
     WINDOW_MASK, WINDOW, TILES | T_WHERE, {.window = WINDOW_TWICE}},
    {"window_into_the_future", "lets a query see the keys of the future that are less than W away",
     MASKS, WINDOW, TILES, {.causal = CAUSAL_WINDOW}},
    {ALSO, WINDOW, TILES, {.causal = CAUSAL_WINDOW, .window = WINDOW_NONE}},
    {"window_both_ways", "splits the window between both sides of the query: half of it lies in the past",
     WINDOW_MASK, WINDOW, TILES | T_WHERE, {.window = WINDOW_HALF}},
    {"window_starts_too_late", "starts its walk over the window too late: some queries miss their first keys",
     "first tile|keys", WINDOW, TILES, {.walk = WALK_WINDOW_FROM_LAST_ROW}},
    {ALSO, WINDOW, TILES, {.walk = WALK_WINDOW_ROUNDED_UP}},
    {ALSO, WINDOW, TILES, {.walk = WALK_WINDOW_ONE_MORE}},
    {ALSO, WINDOW, TILES, {.walk = WALK_WINDOW_IN_TILES}},
    {ALSO, WINDOW, TILES, {.walk = WALK_WINDOW_FROM_BLOCK}},

    // --- sinks
    {"no_sinks", "does not see the sinks outside the window",
     SINK_MASKS "|sink tiles|keys", SINKS, TILES, {.sinks = SINKS_NONE}},
    {"sinks_not_visited", "does not visit the sinks to the left of the window",
     "sink tiles|keys", SINKS, TILES, {.walk = WALK_NO_SINK_TILES}},
    {"no_sinks_in_the_window_tiles", "forgets the sinks in the mask of the window",
     "mask of the window", SINKS, TILES, {.sinks = SINKS_NONE, .where = OFF_DIAGONAL}},
    {"no_sinks_on_the_diagonal", "forgets the sinks in the mask of the diagonal",
     "mask of the diagonal", SINKS, TILES, {.sinks = SINKS_NONE, .where = ON_DIAGONAL}},
    {"one_sink_too_many", "sees one sink too many",
     SINK_MASKS, SINKS, TILES | T_WHERE, {.sinks = SINKS_ONE_MORE}},
    {"one_sink_too_few", "sees one sink too few",
     SINK_MASKS, SINKS, TILES | T_WHERE, {.sinks = SINKS_ONE_LESS}},
    {"first_sink_only", "sees the first sink alone",
     SINK_MASKS, SINKS, TILES, {.sinks = SINKS_FIRST_ONLY}},
    {"sink_tile_is_whole", "takes all keys of the last sink tile for sinks",
     SINK_MASKS, SINKS, TILES | T_WHERE, {.sinks = SINKS_WHOLE_TILE}},
    {"sink_keys_in_key_tiles", "counts the keys of a sink tile by BC, where a tile of sinks has SC",
     "mask of the sinks", FWD | SINKS, TILES, {.sinks = SINKS_IN_KEY_TILES}},
    {"sinks_not_causal", "lets a query see sinks of the future",
     SINK_MASKS, SINKS, MASKED, {.sinks = SINKS_NOT_CAUSAL}},
    {"only_sinks_visible", "hides what is too old or no sink, where what is too old and no sink is meant",
     SINK_MASKS, SINKS, TILES | T_WHERE, {.sinks = SINKS_ALONE}},
    {"sinks_hidden", "hides the sinks: j < sinks where j >= sinks is meant",
     SINK_MASKS, SINKS, TILES | T_WHERE, {.sinks = SINKS_HIDDEN_ALONE}},
    {ALSO, SINKS, TILES | T_WHERE, {.sinks = SINKS_HIDDEN}},
    {"sinks_twice", "counts sinks twice, as sinks and as part of the window",
     "sink tiles|keys", SINKS, TILES, {.walk = WALK_SINKS_TWICE}},
    {ALSO, SINKS, TILES, {.walk = WALK_SINKS_TWICE_TO_BLOCK}},
    {ALSO, SINKS, TILES, {.walk = WALK_SINKS_TWICE_CAUSAL}},
    {"sink_tiles_rounded_down", "rounds the number of sink tiles down, and loses the last sinks",
     "sink tiles|keys", SINKS, TILES, {.walk = WALK_SINKS_ROUNDED_DOWN}},
    {"one_sink_tile", "looks at the first sink tile alone, or at too few",
     "sink tiles|keys", SINKS, TILES, {.walk = WALK_ONE_SINK_TILE}},
    {ALSO, SINKS, TILES, {.walk = WALK_SINKS_OF_FIRST_TILE}},
    {"window_beside_the_sinks", "makes the window longer by the number of sinks",
     WINDOW_MASK, SINKS, TILES, {.window = WINDOW_PLUS_SINKS}},
    {"sinks_move_the_window", "sees S keys before the window instead of the first S keys",
     WINDOW_MASK, SINKS, TILES, {.window = WINDOW_PLUS_SINKS, .sinks = SINKS_NONE}},
    {"sinks_shorten_the_window", "makes the window shorter by the number of sinks",
     WINDOW_MASK, SINKS, TILES, {.window = WINDOW_MINUS_SINKS}},

    // --- backward
    {"delta_forgotten", "forgets delta: dS = P dP where dS = P (dP - delta) is meant",
     "dS|dS for dQ", BWD, 0, {.dS = DS_NO_DELTA}},
    {"delta_added", "adds delta where it is subtracted: dS = P (dP - delta)",
     "dS|dS for dQ", BWD, 0, {.dS = DS_PLUS_DELTA}},
    {"L_for_delta", "subtracts L where delta is meant: dS = P (dP - delta)",
     "dS|dS for dQ", BWD, 0, {.dS = DS_FROM_L}},
    {"dS_without_P", "forgets the factor P of dS = P (dP - delta)",
     "dS|dS for dQ", BWD, 0, {.dS = DS_WITHOUT_P}},
    {ALSO, BWD, 0, {.dS = DS_IS_DP}},
    {"dS_negative", "has dS with the wrong sign: delta - dP where dP - delta is meant",
     "dS|dS for dQ", BWD, 0, {.dS = DS_MINUS}},
    {"dS_brackets", "puts the brackets of dS = P (dP - delta) elsewhere: P dP - delta, or dP (P - delta)",
     "dS|dS for dQ", BWD, 0, {.dS = DS_P_DP}},
    {ALSO, BWD, 0, {.dS = DS_DP_P}},
    {"dP_for_P", "multiplies by dP where P is meant: dS = P (dP - delta)",
     "dS|dS for dQ", BWD, 0, {.dS = DS_DP_DP}},
    {"dP_scaled", "multiplies dP by the scale, but not delta",
     "dS|dS for dQ", BWD, 0, {.dS = DS_DP_SCALED}},
    {"P_not_dS", "multiplies P by K or Q where dS is meant",
     "dS|dS for dQ|dK|dQ", BWD, 0, {.dS = DS_IS_P}},
    {"dP_from_O", "computes dP from O in the place of dO",
     "dS|dS for dQ", BWD, 0, {.dP = DP_FROM_O}},
    {"dP_from_Q", "computes dP from Q in the place of dO",
     "dS|dS for dQ", BWD, 0, {.dP = DP_FROM_Q}},
    {"dP_from_K", "computes dP from K in the place of V",
     "dS|dS for dQ", BWD, 0, {.dP = DP_FROM_K}},
    {"no_output_scale", "leaves the scale out of dQ or dK",
     "dK scale|dQ scale|dK|dQ|dS|dS for dQ", BWD, 0, {.out = OUT_NO_SCALE}},
    {"output_scale_twice", "multiplies dQ or dK by the scale twice",
     "dK scale|dQ scale|dK|dQ|dS|dS for dQ", BWD, 0, {.out = OUT_SCALE_TWICE}},
    {"output_scale_in_base_2", "multiplies dQ or dK by log2(e), which belongs in the exponent alone",
     "dK scale|dQ scale|dK|dQ|dS|dS for dQ", BWD, 0, {.out = OUT_LOG2E}},
    {"L_times_log2e_twice", "multiplies L by log2(e) twice: it comes in base 2",
     "recompute|recompute for dQ", BWD, 0, {.P = P_L_TIMES_LOG2E}},
    {"L_in_base_e", "subtracts L in base e in an exponent of base 2",
     "recompute|recompute for dQ", BWD, 0, {.P = P_L_IN_BASE_E}},
    {"L_forgotten", "recomputes P without L",
     "recompute|recompute for dQ", BWD, 0, {.P = P_WITHOUT_L}},
    {"L_added", "adds L to the exponent, where exp(score - L) is meant",
     "recompute|recompute for dQ", BWD, 0, {.P = P_PLUS_L}},
    {"delta_for_L", "subtracts delta in the exponent, where L is meant",
     "recompute|recompute for dQ", BWD, 0, {.P = P_FROM_DELTA}},
    {"P_divided_by_L", "divides exp(score) by L, where exp(score - L) is meant",
     "recompute|recompute for dQ", BWD, 0, {.P = P_OVER_L}},
    {"row_max_for_L", "recomputes P from the row's maximum where L is meant",
     "recompute|recompute for dQ", BWD, 0, {.P = P_ROW_MAX}},
    {ALSO, BWD, T_BC, {.P = P_TILE_MAX}},
    {"dV_from_dS", "sums dV from dS where P is meant",
     "dV", BWD, 0, {.dV = DV_FROM_DS}},
    {"dV_from_dP", "sums dV from dP where P is meant",
     "dV", BWD, 0, {.dV = DV_FROM_DP}},
    {"dV_from_Q", "sums dV from Q in the place of dO",
     "dV", BWD, 0, {.dV = DV_FROM_Q}},
    {"dV_scaled", "multiplies dV by the scale, which dQ and dK alone have",
     "dV|dK scale", BWD, 0, {.dV = DV_SCALED}},
    {"dQ_from_V", "multiplies dS by V or dO, where K or Q is meant",
     "dQ|dK", BWD, 0, {.dQ_from_V = true}},
    {"one_query_head", "sums dK and dV over one query head of the group alone",
     "group|next head", BWD, 0, {.group = GROUP_FIRST}},
    {ALSO, BWD, 0, {.group = GROUP_LAST}},
    {"first_query_head_repeated", "takes the group's first query head in the place of each of its heads, in dK and dV",
     "next head", BWD, 0, {.group = GROUP_FIRST_REPEATED}},
    {"next_head_in_the_wrong_row", "goes on in the wrong row when a query head is done: all heads of a group but the first are read from other rows than the mask thinks",
     "next head", BWD, TILES, {.group = GROUP_TOO_FAR}},
    {ALSO, BWD, TILES, {.group = GROUP_NOT_TO_FIRST}},
    {ALSO, BWD, TILES, {.group = GROUP_NOT_BACK}},
    {ALSO, BWD, TILES, {.group = GROUP_NOT_ON}},
    {"group_forgotten", "counts query heads from the key head's own number, where kv_head * group is meant",
     "group|next head", BWD, 0, {.group = GROUP_IN_KEY_HEADS}},
    {"too_many_heads", "sums dK and dV over another number of query heads than Hq / Hkv",
     "group", BWD, 0, {.group = GROUP_OF_KEY_HEADS}},
    {ALSO, BWD, 0, {.group = GROUP_OF_QUERY_HEADS}},
    {"group_averaged", "divides dK and dV by the heads of the group",
     "group|dK scale", BWD, 0, {.group = GROUP_MEAN}},
    {"delta_of_some_columns", "sums delta over some of the columns alone",
     "delta", BWD, 0, {.delta = DELTA_OF_8}},
    {ALSO, BWD, 0, {.delta = DELTA_OF_HALF}},
    {ALSO, BWD, 0, {.delta = DELTA_OF_EVEN_LANES}},
    {ALSO, BWD, 0, {.delta = DELTA_OF_EVEN_COLUMNS}},
    {ALSO, BWD, 0, {.delta = DELTA_OF_HALF_LANES}},
    {"delta_of_several_rows", "adds up delta over all lanes of a warp, which hold several rows",
     "delta", BWD, 0, {.delta = DELTA_OF_WARP}},
    {"delta_scaled", "multiplies delta by the scale",
     "delta", BWD, 0, {.delta = DELTA_SCALED}},
    {"delta_from_dO", "sums delta from dO * dO or O * O where dO * O is meant",
     "delta", BWD, 0, {.delta = DELTA_OF_DO}},
    {ALSO, BWD, 0, {.delta = DELTA_OF_O}},
    {"delta_averaged", "takes the mean of dO * O where the sum is meant",
     "delta", BWD, 0, {.delta = DELTA_MEAN}},
    {"delta_negative", "stores delta with the wrong sign",
     "delta", BWD, 0, {.delta = DELTA_MINUS}},
    {"nothing_added", "adds nothing to a gradient, or zeros alone: it stays 0",
     "dV|dK|dQ|dS|dS for dQ", BWD, 0, {.out = OUT_NOTHING}},
    {"last_tile_of_a_gradient", "keeps a gradient's last tile alone: it is overwritten where it should grow",
     "dV|dK|dQ", BWD, TILES, {.walk = WALK_LAST_TILE_ALONE}},
    {"queries_of_the_first_key", "ends the walk over the queries with the window of the tile's first key",
     "queries", BWD | WINDOW, TILES, {.walk = WALK_QUERIES_OF_FIRST_KEY}},
    {"no_far_queries", "forgets the queries that see a sink from outside the window, in dK and dV",
     "queries", BWD | SINKS, TILES, {.walk = WALK_NO_FAR_QUERIES}},
    {"queries_end_too_early", "ends the walk over the queries with those of the tile itself",
     "queries", BWD | WINDOW, TILES, {.walk = WALK_LAST_SKIPPED}},
    {"one_part_only", "keeps one part of what a sink gets from its queries, without the others",
     "parts|sum of the parts", BWD | SINKS, TILES, {.parts = PARTS_FIRST}},
    {ALSO, BWD | SINKS, TILES, {.parts = PARTS_LAST}},
    {"every_part_does_all", "has every part walk over all queries, or over those of other parts too: a sink gets them several times",
     "parts", BWD | SINKS, TILES, {.parts = PARTS_ALL_DO_ALL}},
    {ALSO, BWD | SINKS, TILES, {.parts = PARTS_FROM_FIRST}},
    {ALSO, BWD | SINKS, TILES, {.parts = PARTS_TO_LAST}},
    {ALSO, BWD | SINKS, TILES, {.parts = PARTS_MOVED}},
    {"parts_rounded_down", "makes all parts equally long, and forgets the tiles of queries that are left over",
     "parts", BWD | SINKS, TILES, {.parts = PARTS_ROUNDED}},
    {"parts_averaged", "divides the sum of the parts by their number",
     "sum of the parts", BWD | SINKS, TILES, {.parts = PARTS_MEAN}},

    // --- the row sum
    {"tail_dropped", "leaves out the columns after the last whole load, or round of the loop",
     "ends", SUM, T_BC | T_BR, {.sum = SUM_TAIL_DROPPED}},
    {"one_shuffle_missing", "leaves out a step of the reduction: the shuffles start too late, at 8 where 16 is meant, or end too "
     "early",
     "reduce", SUM, T_BC | T_BR, {.sum = SUM_HALF_WARP}},
    {ALSO, SUM, T_BC | T_BR, {.dims = 2, .sum = SUM_WITHOUT_ONE_SHUFFLE}},
    {ALSO, SUM, T_BC | T_BR, {.dims = 4, .sum = SUM_WITHOUT_ONE_SHUFFLE}},
    {ALSO, SUM, T_BC | T_BR, {.dims = 8, .sum = SUM_WITHOUT_ONE_SHUFFLE}},
    {ALSO, SUM, T_BC | T_BR, {.dims = 24, .sum = SUM_WITHOUT_ONE_SHUFFLE}},
    {ALSO, SUM, T_BC | T_BR, {.dims = 3, .sum = SUM_WITHOUT_ONE_SHUFFLE}},
    {"every_second_column", "adds up every second column alone: the last step of the reduction is missing, or half of each load of two",
     "reduce", SUM, T_BC | T_BR, {.dims = 1, .sum = SUM_WITHOUT_ONE_SHUFFLE}},
    {ALSO, SUM, 0, {.BR = 2, .sum = SUM_FIRST_OF_LOAD}},
    {"lane_0_only", "stores the sum of one lane, without those of the others",
     "reduce", SUM, T_BC | T_BR, {.sum = SUM_LANE_0}},
    {ALSO, SUM, T_BC | T_BR, {.sum = SUM_THREAD_0}},
    {"half_a_block", "adds up half of the block's threads",
     "reduce", SUM, T_BC | T_BR, {.sum = SUM_HALF_BLOCK}},
    {"product_in_bf16", "rounds each product to bfloat16 before it is added",
     "load", SUM, 0, {.sum = SUM_PRODUCTS_IN_BF16}},
    {"sum_in_bf16", "keeps sums in bfloat16, where float32 is meant",
     "load", SUM, T_BC | T_BR, {.sum = SUM_IN_BF16}},
    {ALSO, SUM, T_BC | T_BR, {.sum = SUM_AND_SHUFFLES_IN_BF16}},
    {ALSO, SUM, T_BC | T_BR, {.sum = SUM_ALL_IN_BF16}},
    {"y_in_bf16", "rounds the sum to bfloat16 before it is stored",
     "store", SUM, 0, {.sum = SUM_RESULT_IN_BF16}},
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
    {"first_column_dropped", "leaves out the first column",
     "ends", SUM, 0, {.sum = SUM_FIRST_COLUMN_LOST}},
    {"first_of_each_load", "takes the first column of each load alone",
     "load", SUM, T_BR, {.dims = 2, .sum = SUM_FIRST_OF_LOAD}},
    {"tail_by_all_lanes", "counts the ragged end once in each lane",
     "ends", SUM, T_BC | T_BR, {.sum = SUM_TAIL_BY_ALL}},
    {"aligned_down", "reads from the multiple of 16 bytes, or less, before the row's begin",
     "load", SUM, T_BR, {.sum = SUM_ALIGNED_DOWN}},
    {"column_twice", "counts a column twice, where the ragged end meets the whole loads",
     "ends", SUM, T_BR, {.sum = SUM_COLUMN_TWICE}},
    {ALSO, SUM, 0, {.BR = 8, .sum = SUM_HEAD_TWICE}},
    {"w_forgotten", "adds up x without the weights w",
     "load", SUM, 0, {.sum = SUM_NO_W}},
    {"w_of_the_thread", "takes w of the thread's number where w of the column is meant",
     "load", SUM, T_BC, {.sum = SUM_W_OF_THREAD}},
    {"x_forgotten", "adds up w without x",
     "load", SUM, 0, {.sum = SUM_NO_X}},
    {"x_plus_w", "adds w to x where the product is meant",
     "load", SUM, 0, {.sum = SUM_X_PLUS_W}},
    {"x_squared", "adds up squares of x where x times w is meant",
     "load", SUM, 0, {.sum = SUM_OF_SQUARES}},
    {"mean_of_the_row", "divides the sum by the number of columns",
     "store", SUM, 0, {.sum = SUM_MEAN}},
    {"divided_by_w", "divides the sum by the sum of w",
     "store", SUM, 0, {.sum = SUM_OVER_W}},
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
    {"first_row_of_the_block", "reads the block's first row for all its rows",
     "who", SUM, T_BC, {.sum = SUM_FIRST_ROW_OF_BLOCK}},
    {"row_off_by_one", "reads the next row",
     "who", SUM, 0, {.sum = SUM_NEXT_ROW}},
    {"last_rows_dropped", "launches too few blocks: the last rows are never written",
     "launch", SUM, T_BC, {.sum = SUM_ROWS_LOST}},
    {ALSO, SUM, T_BC, {.sum = SUM_ROWS_LOST_BUT_FIRST}},
    {ALSO, SUM, T_BC, {.sum = SUM_ROWS_OVERLAP}},
    {"reads_past_the_row", "reads past the end of its row",
     "load|ends", SUM, T_BC | T_BR, {.sum = SUM_READS_PAST_ROW}},
    {ALSO, SUM, 0, {.BR = 8, .sum = SUM_LOADS_PAST_ROW}},
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

bool mistake_is_in(const mistake *m, const char *gap, size_t length)
{
    for (const char *name = m->look; name; name = strchr(name, '|') ? strchr(name, '|') + 1 : NULL)
        if (strcspn(name, "|") == length && strncmp(name, gap, length) == 0) return true;
    return false;
}

bool mistake_applies(const mistake *m, const wb_problem *p, const char *gaps)
{
    const unsigned signature = p->signature == WB_FORWARD ? FWD : p->signature == WB_BACKWARD ? BWD : SUM;
    if (m->needs & (FWD | BWD | SUM) && !(m->needs & signature)) return false;
    if (m->needs & (MASK | WINDOW | SINKS) && signature == SUM) return false;
    if (m->needs & MASK && p->mask == WB_NO_MASK) return false;
    if ((m->needs & WINDOW && !p->window) || (m->needs & SINKS && !p->sinks)) return false;
    while (!m->id) m--;
    for (; *gaps; gaps += strcspn(gaps, "\n"), gaps += *gaps == '\n')
        if (mistake_is_in(m, gaps, strcspn(gaps, "\n"))) return true;
    return false;
}

// The next of `count` choices, counted by *left.
static int choice(int *left, int count)
{
    const int n = *left % count;
    *left /= count;
    return n;
}

bool mistake_variant(const mistake *m, const wb_problem *problem, int variant, kernel *k)
{
    static const int BC[] = {64, 32, 128, 48, 16}, BR[] = {128, 64, 32};
    static const int threads[] = {128, 32, 64, 256, 512, 1024, 1, 4, 8, 16, 2}, wide[] = {1, 2, 4, 8};
    const bool sum = problem->signature == WB_ROW_SUM, forward = problem->signature == WB_FORWARD;
    const bool host = problem->on_host, masked = problem->mask != WB_NO_MASK;
    int left = variant;
    *k = m->k;
    k->BC = sum ? 128 : 64;
    if (k->BR == 0) k->BR = sum ? 1 : 64;
    // What the loads leave of a tile beyond the last key is 0; a mask hides it, unless that is where the mistake is.
    if (forward && masked && !host && !k->ghost) k->ghost = GHOST_ZERO;
    if (m->tries & T_BC && sum)
        k->BC = threads[choice(&left, 11)];
    else if (m->tries & T_BC)
        k->BC = BC[choice(&left, 5)];
    if (m->tries & T_BR && sum)
        k->BR = wide[choice(&left, 4)];
    else if (m->tries & T_BR) {
        k->BR = BR[choice(&left, 3)];
        if (!host) k->ROWS = choice(&left, 2) ? k->BR / 2 : k->BR / 4;
        if (k->ROWS == 8) k->BR = 0;
    }
    if (forward && problem->sinks && m->tries & T_BC) k->SC = choice(&left, 2) ? k->BC : 16;
    if (m->tries & T_SLACK && !host && forward) {
        const int n = choice(&left, 3);
        if (n > 0) k->slack = 8 * LN2, k->BR = k->ROWS = n == 1 ? 32 : 16;
    }
    if (m->tries & T_ALL && !forward) k->one_mask = choice(&left, 2);
    if (m->tries & T_WHERE && problem->window && forward) {
        k->where = choice(&left, problem->sinks ? 4 : 3);
        k->one_mask = choice(&left, 2);
    }
    if (k->sum == SUM_HALF_WARP && k->BC < 4) k->BR = 0;                        // every second column
    if (k->sum == SUM_HALF_BLOCK && k->BC <= 32) k->BR = 0;                     // half of a warp
    if (k->sum == SUM_FIRST_OF_LOAD && k->dims && k->BR <= k->dims) k->BR = 0;  // all columns, or every second one
    if (k->sum == SUM_WITHOUT_ONE_SHUFFLE && k->BC <= k->dims) k->BR = 0;
    return left == 0;
}
