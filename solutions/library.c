// library.c - which kernel serves a function of libworkbook.so, by shape and GPU: the one place where that is decided.
// A function that does not stand here is its key. library.mk reads the rows of the table below, each source with its
// "solutions/" in one word, and links these kernels under the names that stand here, NAME_key, NAME_VARIANT; and the
// lines of the forms with a workspace, NN_in, which get workers.
//
// What a function's suite asks for beyond that, and these give up: a workspace is memory, and the fastest has other
// bits each time. exempt 08: memory
// exempt 08_in: memory
// exempt 08_fastest: memory same_twice
// exempt 09: memory
// exempt 09_in: memory
// exempt 12: memory
// exempt 12_in: memory
#include "workbook.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef wb_status
forward(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream);
typedef wb_status backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream);
typedef wb_status sink_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
    wb_stream stream);
typedef wb_status sink_forward(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream);
typedef wb_status decode(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const int *page_table, const int *kv_len,
    void *workspace, size_t workspace_bytes, const decode_shape *shape, wb_stream stream);
typedef wb_status decode_int8(
    bf16 *O, float *L, const bf16 *Q, const int8_t *K, const int8_t *V, const float *K_scale, const float *V_scale,
    const int *page_table, const int *kv_len, void *workspace, size_t workspace_bytes, const decode_shape *shape,
    wb_stream stream);
typedef wb_status block_mask_forward(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const block_mask *mask,
    const attention_shape *shape, wb_stream stream);

// The same in memory of the caller's, and how much they need.
typedef size_t workspace(const attention_shape *shape);
typedef wb_status backward_in(
    void *memory, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream);
typedef wb_status sink_backward_in(
    void *memory, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q, const bf16 *K,
    const bf16 *V, const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO,
    const attention_shape *shape, wb_stream stream);

forward flash_forward_key, flash_forward_hopper, flash_causal_key, flash_gqa_key, flash_gqa_hopper,
    flash_gqa_shared_tile;
forward flash_hopper_key, flash_hopper_hopper_short, flash_hopper_hopper_split, flash_hopper_hopper_walk,
    flash_hopper_hopper_walk_wide;
forward flash_window_key, flash_sinks_key, flash_sinks_packed_heads, flash_sinks_hopper, flash_sinks_hopper_any_window,
    flash_sinks_hopper_short;
sink_forward flash_sink_logits_key, flash_sink_logits_hopper, flash_sink_logits_hopper_window,
    flash_sink_logits_hopper_any_window, flash_sink_logits_hopper_short;
decode flash_decode_key, flash_decode_one_block, flash_decode_hopper;
decode_int8 flash_decode_int8_key, flash_decode_int8_one_block;
typedef size_t decode_workspace(const decode_shape *shape);
decode_workspace flash_decode_workspace_key, flash_decode_workspace_hopper, flash_decode_int8_workspace_key;
block_mask_forward flash_block_mask_key, flash_block_mask_hopper;
backward flash_gqa_backward_key, flash_gqa_backward_hopper_same_bits, flash_gqa_backward_one_launch;
backward flash_sinks_backward_one_launch, flash_sinks_backward_key, flash_sinks_backward_packed_heads,
    flash_sinks_backward_hopper;
backward flash_sinks_backward_hopper_any_window;
backward_in flash_gqa_backward_in_one_launch, flash_gqa_backward_in_hopper, flash_gqa_backward_in_hopper_same_bits,
    flash_gqa_backward_in_atomic_dq, flash_sinks_backward_in_hopper_any_window;
sink_backward flash_sink_logits_backward_one_launch, flash_sink_logits_backward_packed_heads,
    flash_sink_logits_backward_hopper, flash_sink_logits_backward_hopper_window;
sink_backward_in flash_sink_logits_backward_in_hopper;
workspace flash_gqa_backward_workspace_one_launch, flash_gqa_backward_workspace_hopper,
    flash_gqa_backward_workspace_hopper_same_bits, flash_gqa_backward_workspace_atomic_dq,
    flash_sinks_backward_workspace_hopper_any_window, flash_sink_logits_backward_workspace_hopper;

// For pairs of chunks: in memory of the stream's pool, where it says that it needs some; and the workbook's own,
// workbook/attention_backward.cu.
typedef wb_status pair_backward(
    float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *dO, const float *L,
    const float *delta, const attention_shape *shape, wb_stream stream);
pair_backward flash_gqa_backward_add_hopper, flash_gqa_backward_add_hopper_same_bits, wb_attention_backward_anywhere;
workspace flash_gqa_backward_add_workspace_hopper, flash_gqa_backward_add_workspace_hopper_same_bits;

static bool is_64_or_128(const attention_shape *shape) { return shape->head_dim == 64 || shape->head_dim == 128; }
static bool is_full_64_or_128(const attention_shape *shape)
{
    return is_64_or_128(shape) && shape->window >= shape->q_len;
}
static int group_of(const attention_shape *shape) { return shape->q_heads / shape->kv_heads; }
// What the kernels for any window are for, backward. With D 16 and 32 not windows far shorter than their tiles.
static bool has_any_window(const attention_shape *shape)
{
    return is_64_or_128(shape) || (shape->q_len > 128 && shape->window >= (shape->head_dim == 16 ? 192 : 128));
}
// A backward pass whose sum of dQ is large beside its work: blocks that take turns at it put where others would have
// to find zeros.
static bool is_short_of_many_heads(const attention_shape *shape)
{
    const size_t heads = (size_t)shape->batch * shape->q_heads;
    return shape->q_len <= 8 * shape->head_dim && heads * shape->head_dim >= 32768 &&
           (shape->q_len <= 256 || group_of(shape) <= 4);
}
// How long one of 10's kernels would take on an H200, as a picture of it: a block walks over the tiles of keys of each
// tile of queries, and what begins and ends a walk counts as some steps more. Where blocks share a multiprocessor a
// step takes longer, the more they are. Fitted to 632 shapes drawn by chance (2026-11-22, H200). In 311 others it
// takes over 3 % longer than the fastest of these in 21, over 6 % in 4; before the key's last section was in the
// picture in 47 and 26 (B1 H6/3 N22400 D64 causal 0.865, of the best 0.659).
typedef struct picture {
    int queries, keys;               // of a tile
    int groups;                      // that share out the keys
    int blocks;                      // of a multiprocessor
    double launch, step, busy_step;  // microseconds
    double beginning;                // steps
} picture;
enum hopper_kernel { KEY, SHORT, SPLIT, WALK, WIDE, HOPPER_KERNELS };
static const picture pictures[2][HOPPER_KERNELS] = {
    // D 64
    {[KEY] = {192, 128, 1, 1, 5.27, 1.346, 0, 1.54},
     [SHORT] = {64, 64, 1, 4, 4.29, 0.642, 0.250, 2.04},
     [SPLIT] = {64, 64, 4, 1, 4.00, 1.220, 0, 1.88},
     [WALK] = {128, 64, 1, 1, 6.08, 0.575, 0, 2.13},
     [WIDE] = {192, 128, 1, 1, 6.74, 1.402, 0, 1.11}},
    // D 128
    {[KEY] = {128, 128, 1, 1, 6.26, 1.465, 0, 1.69},
     [SHORT] = {64, 64, 1, 3, 4.24, 0.733, 0.360, 2.68},
     [SPLIT] = {64, 64, 3, 1, 4.54, 1.288, 0, 1.94},
     [WALK] = {128, 64, 1, 1, 6.77, 0.747, 0, 1.89},
     [WIDE] = {192, 64, 1, 1, 6.25, 0.992, 0, 2.26}},
};
// The key's blocks under a mask, which come section by section, the longest walks of each first: in the last section,
// which may be short of heads, a block has walks of several heads, and the longest of these may end alone. The numbers
// are those of 10's launch.
static double steps_of_key(const attention_shape *shape, int tiles, double first, double longest, int at_once)
{
    const int heads = shape->batch * shape->q_heads, group = group_of(shape);
    int section = group, bunch = 4;
    while (2 * section <= heads && 2ll * section / group * shape->kv_len * shape->head_dim * 4 <= 32 << 20)
        section *= 2;
    while (bunch > 1 && (long long)tiles * (section / bunch) * 2 < at_once * 3) bunch /= 2;
    const int last = (heads - 1) % section + 1;
    const double head = (first + longest) / 2 * tiles / at_once;  // a head's steps, shared out
    return (heads - last) * head + fmax(bunch * longest, last * head + 0.1 * bunch * longest + first / 2);
}
// The steps of the block that ends last, where so many run at a time.
static double steps(const attention_shape *shape, const picture *p, bool is_key, int at_once)
{
    const int tiles = (shape->q_len - 1) / p->queries + 1;
    const int first_keys = shape->causal && p->queries < shape->kv_len ? p->queries : shape->kv_len;
    const double walks = (double)shape->batch * shape->q_heads * tiles;
    const double longest = ((shape->kv_len - 1) / p->keys + p->groups) / p->groups + p->beginning;
    const double first = ((first_keys - 1) / p->keys + p->groups) / p->groups + p->beginning;
    if (walks <= at_once) return longest;
    if (is_key && shape->causal) return steps_of_key(shape, tiles, first, longest, at_once);
    return shape->causal ? fmax(longest, walks / at_once * (first + longest) / 2 + first / 2)
                         : ceil(walks / at_once) * longest;
}
static double microseconds(const attention_shape *shape, enum hopper_kernel kernel)
{
    const int processors = 132;
    const picture *p = &pictures[shape->head_dim == 128][kernel];
    return p->launch + hypot(
                           p->step * steps(shape, p, kernel == KEY, processors * p->blocks),
                           p->busy_step * steps(shape, p, kernel == KEY, processors));
}
static bool is_fastest(enum hopper_kernel kernel, const attention_shape *shape)
{
    if (!is_64_or_128(shape)) return false;
    const double mine = microseconds(shape, kernel);
    for (int k = 0; k < HOPPER_KERNELS; k++)
        if (microseconds(shape, k) < mine) return false;
    return true;
}
static bool is_short_on_hopper(const attention_shape *shape) { return is_fastest(SHORT, shape); }
static bool is_split_on_hopper(const attention_shape *shape) { return is_fastest(SPLIT, shape); }
// But where each head has its own keys, tiles of 64 fetch too much: B16 H16 N1024 D128 causal 0.167 ms, and 0.156 the
// key.
static bool walks_on_hopper(const attention_shape *shape)
{
    const bool fetches_much = shape->causal && shape->head_dim == 128 && group_of(shape) == 1 && shape->q_len > 768;
    return !fetches_much && is_fastest(WALK, shape);
}
static bool walks_wide_on_hopper(const attention_shape *shape) { return is_fastest(WIDE, shape); }
// Over all sequences and heads.
static size_t keys_of(const attention_shape *shape) { return (size_t)shape->batch * shape->kv_heads * shape->kv_len; }
static size_t queries_of(const attention_shape *shape) { return (size_t)shape->batch * shape->q_heads * shape->q_len; }
// Forward the kernels for Hopper have tiles of 192 queries by 128 keys at D 16 and 32: for long walks over the keys.
static bool is_much_of_16_or_32(const attention_shape *shape)
{
    return (shape->head_dim == 32 && shape->q_len >= 512) || (shape->head_dim == 16 && shape->q_len >= 3000);
}
static bool has_any_window_and_much(const attention_shape *shape)
{
    return is_64_or_128(shape) || (shape->window >= 768 && is_much_of_16_or_32(shape));
}
static bool suits_shared_tile(const attention_shape *shape) { return group_of(shape) >= 4 && shape->head_dim == 16; }
static bool is_long_16(const attention_shape *shape)
{
    return shape->head_dim == 16 && shape->q_len >= 2048 && keys_of(shape) >= 8192 && shape->causal;
}
// Heads side by side gain nothing where a group has few.
static bool is_brief_or_small_alone(const attention_shape *shape)
{
    return shape->q_len <= 512 || (shape->head_dim < 64 && group_of(shape) < shape->head_dim / 8);
}
static bool is_brief_or_vast_and_small(const attention_shape *shape)
{
    return shape->head_dim < 64 && (shape->q_len <= 512 || keys_of(shape) >= 24576);
}
// The kernels for short windows of 07, 09 and 11.
static bool has_short_window(const attention_shape *shape)
{
    return shape->head_dim == 64 && shape->window <= 129 && shape->sinks <= 16;
}
// A little more than a tile of 64 queries, for which heads side by side leave less idle than all others.
static bool is_one_tile_in_groups(const attention_shape *shape)
{
    return is_64_or_128(shape) && shape->q_len > 64 && shape->q_len <= 96 && shape->window < shape->q_len &&
           group_of(shape) % 4 == 0 && queries_of(shape) > 24000;
}
// Too little for blocks of groups of heads.
static bool is_little(const attention_shape *shape)
{
    const size_t queries = queries_of(shape);
    return shape->q_len <= 96 || (shape->q_len <= 320 && queries <= 60000) ||
           (shape->q_len <= 1024 && queries <= 20480);
}
static bool has_short_window_in_groups(const attention_shape *shape)
{
    return has_short_window(shape) && group_of(shape) % 4 == 0 && !is_little(shape);
}
// 06, 11 and 12 do not read shape->sinks.
static bool has_short_window_of_logits(const attention_shape *shape)
{
    return shape->head_dim == 64 && shape->window <= 129;
}
static bool has_short_window_of_logits_in_groups(const attention_shape *shape)
{
    return has_short_window_of_logits(shape) && group_of(shape) % 4 == 0 && !is_little(shape);
}
// How long a short backward pass would take on an H200, as a picture of it, in microseconds: in one launch, or in 08's
// three. In one, a block meets 64 keys with the queries of its group, or 64 queries with their keys; where blocks are
// few, its warpgroups share that out. Under a window 08's query heads hand their sums on. Fitted to 252 passes in
// shapes drawn by chance (2026-11-23, H200, N 64 to 700): in 26 it takes over 5 % longer than the fastest of these;
// without it in 98.
typedef struct short_picture {
    int at_once;                // warpgroups of a multiprocessor
    double launch, step, item;  // in one launch
    double launches, step128, megabyte, head,
        sink_logits;  // in three; the last two: more under a window for each head, and for 12
} short_picture;
static const short_picture short_pictures[2] = {
    {3, 6.3, 2.1, 2.8, 12.2, 2.45, 4.9, 1.4, 3.5},  // D 64
    {2, 6.9, 2.2, 4.3, 13.0, 2.5, 3.9, 1.4, 3.1}};  // D 128
// The last query that sees one of the keys before `end`, from its window.
static int last_that_sees(const attention_shape *shape, int end)
{
    const int N = shape->q_len;
    return !shape->causal || shape->window > N - end ? N - 1 : end + shape->window - 2;
}
static bool is_shortest_in_one_launch(const attention_shape *shape, double beside)
{
    if (!is_64_or_128(shape) || shape->q_len > 704) return false;
    const short_picture *p = &short_pictures[shape->head_dim == 128];
    const int processors = 132, slots = processors * p->at_once, group = group_of(shape), N = shape->q_len;
    const int tiles = (N - 1) / 64 + 1, rows = shape->head_dim == 128 ? 64 : 128;  // rows: queries of one of 08's steps
    const double heads = (double)shape->batch * shape->q_heads, key_tiles = heads / group * tiles;
    int pairs = 0, most = 0, steps = 0, longest = 0;
    for (int key = 0; key < N; key += 64) {
        const int last = key < shape->sinks ? N - 1 : last_that_sees(shape, key + 64);
        const int seen = last / 64 - (shape->causal ? key / 64 : 0) + 1;
        pairs += seen, most = seen > most ? seen : most;
    }
    for (int key = 0; key < N; key += 128) {
        const int seen = last_that_sees(shape, key + 128) / rows - (shape->causal ? key / rows : 0) + 1;
        steps += seen, longest = seen > longest ? seen : longest;
    }
    const bool shared = key_tiles <= processors && (group > 1 || N > 64);
    const double chain = ceil((double)group * most / (shared ? p->at_once : 1)), all = heads * pairs * 1.8 / slots;
    const double one = p->launch + p->step * fmax(chain, all) + p->item * (key_tiles + heads * tiles) / slots;
    const double three = p->launches + p->step128 * fmax(longest, heads * steps / processors) +
                         p->megabyte * heads * N * shape->head_dim * 1e-6 + (shape->window < N ? p->head * group : 0) +
                         beside;
    return one < three;
}
static bool is_whole_one_launch_long(const attention_shape *shape, double beside)
{
    attention_shape whole = *shape;
    whole.window = shape->q_len, whole.sinks = 0;
    return is_shortest_in_one_launch(&whole, beside);
}
static bool is_one_launch_long(const attention_shape *shape) { return is_whole_one_launch_long(shape, 0); }
// The others' blocks would take turns.
static bool is_one_launch_long_in_turns(const attention_shape *shape) { return is_whole_one_launch_long(shape, 5); }
// Where 09's kernel for short windows would serve, it is faster unless a group's heads would be a long walk of few
// blocks.
static bool is_window_one_launch_long(const attention_shape *shape)
{
    const double blocks = (double)shape->batch * shape->kv_heads * ((shape->q_len - 1) / 64 + 1);
    if (has_short_window(shape) && (shape->sinks ? shape->q_len > 320 : blocks > 90)) return false;
    return is_shortest_in_one_launch(shape, 0);
}
static bool is_logits_one_launch_long(const attention_shape *shape)
{
    attention_shape without = *shape;
    without.sinks = 0;
    const double blocks = (double)shape->batch * shape->kv_heads * ((shape->q_len - 1) / 64 + 1);
    if (has_short_window_of_logits(shape) && blocks > 90 && (group_of(shape) > 2 || shape->q_len > 256)) return false;
    return is_shortest_in_one_launch(&without, short_pictures[shape->head_dim == 128].sink_logits);
}
// Windows in which the small tiles of the keys leave less idle than those of a kernel for Hopper.
static bool suits_small_tiles(const attention_shape *shape)
{
    const int N = shape->q_len, W = shape->window;
    const size_t queries = queries_of(shape);
    if (W >= N || is_one_tile_in_groups(shape)) return false;
    if (shape->head_dim == 128) return N <= 64 || (N <= 96 && queries <= 20000) || (W <= 128 && queries <= 8192);
    return shape->head_dim == 64 && (W <= 36 || N <= 256 || (W <= 112 && N <= 2600) || (W <= 128 && N <= 512));
}
// Short sequences under a window, for blocks of one warpgroup, which leave least idle. With D 64 until there is enough
// for 07's kernel for heads in groups; with D 128 where all blocks run at a time, or have one tile.
static bool is_short_window_of_logits(const attention_shape *shape)
{
    const int N = shape->q_len;
    const size_t queries = queries_of(shape), blocks = queries / (size_t)N * (size_t)((N - 1) / 64 + 1);
    if (N > 704) return false;
    if (shape->head_dim == 128)
        return N <= 64 || blocks <= 3 * 132 ||
               (N <= 104 && blocks <= 2000 && !(N <= 80 && is_one_tile_in_groups(shape)));
    const bool in_groups = has_short_window_of_logits(shape) && group_of(shape) % 4 == 0;
    return shape->head_dim == 64 && !(in_groups && N > 128 && queries > 100000);
}
static bool is_short_window(const attention_shape *shape)
{
    if (shape->head_dim == 64 && shape->sinks > 16) return shape->q_len <= 704;
    return is_short_window_of_logits(shape);
}
static bool suits_small_tiles_and_sinks(const attention_shape *shape)
{
    return suits_small_tiles(shape) || (shape->head_dim == 64 && shape->sinks > 0 && shape->window <= 64);
}
static bool is_small_in_groups(const attention_shape *shape)
{
    const size_t queries = queries_of(shape);
    const int group = group_of(shape);
    return (shape->head_dim < 64 && group % 4 == 0 && queries >= 1 << 15) ||
           (shape->head_dim == 16 && group >= 2 && queries >= 200000);
}
// Windows a little longer, for which heads side by side are faster than tiles of one head. Sinks take a tile of their
// own there.
static bool has_medium_window_of_logits_in_groups(const attention_shape *shape)
{
    return is_one_tile_in_groups(shape) ||
           (shape->head_dim == 64 && shape->window <= 160 && group_of(shape) % 4 == 0 && queries_of(shape) >= 150000);
}
static bool has_medium_window_in_groups(const attention_shape *shape)
{
    return has_medium_window_of_logits_in_groups(shape) ||
           (shape->sinks > 0 && shape->head_dim == 64 && shape->window < 320 && group_of(shape) % 4 == 0);
}
static bool is_full_or_medium(const attention_shape *shape)
{
    return is_full_64_or_128(shape) || has_medium_window_of_logits_in_groups(shape);
}
static bool any(const attention_shape *shape) { return shape != NULL; }
static long long packed_rows(const decode_shape *shape)
{
    return (long long)shape->q_heads / shape->kv_heads * shape->q_len;
}
// A cache so short that a block for each head of a sequence has read its keys before more blocks would have shared and
// merged them, even where the other sequences have hardly any: with few blocks they would have more of the GPU.
static bool is_short_cache(const decode_shape *shape)
{
    const long long rows = packed_rows(shape);
    const long long blocks = (long long)shape->batch * shape->kv_heads * ((rows - 1) / (rows <= 16 ? 16 : 32) + 1);
    return (long long)shape->max_pages * shape->page_size <= (blocks < 16 ? 1024 : blocks < 64 ? 1280 : 2048);
}
// More rows than the key's tiles have, which would fetch the keys again for each 32; and more keys than all blocks
// take at once. Of a few the key's shares are smaller: B2 H16/2 Nq15 N4502 D128 0.029 ms, hopper 0.033.
static bool packs_many_rows(const decode_shape *shape)
{
    const long long keys = (long long)shape->batch * shape->kv_heads * shape->max_pages * shape->page_size;
    return (shape->head_dim == 64 || shape->head_dim == 128) && packed_rows(shape) > 32 && keys >= 32768;
}
static bool any_cache(const decode_shape *shape) { return shape != NULL; }

typedef struct choice {
    const char *function;  // of workbook.h
    int capability;        // the major compute capability that the GPU must have; 0: any
    bool (*serves)(const attention_shape *shape);
    const char *source;
    forward *forward;
    backward *backward;
    sink_forward *sink_forward;
    sink_backward *sink_backward;
    block_mask_forward *block_mask_forward;
    backward_in *backward_in;  // of a kernel that needs a workspace, and how much of one
    sink_backward_in *sink_backward_in;
    workspace *workspace;
    bool (*decodes)(const decode_shape *shape);  // instead of serves, for 13 and 14
    decode *decode;
    decode_workspace *decode_workspace;  // null: as much as the key
    decode_int8 *decode_int8;
} choice;

// The first row that fits is taken; the last of each function always does. Why: on one H200 (plots/data/h200,
// 2026-11-21, commit a958b3c), TFLOP/s of the row's kernel and of the function's key; ms for 07, 09, 11, 12 and 15.
// Where it says 31b35ee, 2026-11-21 too, that commit; where it says duel, ms of shapes drawn by chance
// (reference/duel.py, 2026-11-22, and 262 of the day before).
static const choice choices[] = {
    // 10's kernels, by the time that each would take: see microseconds()
    {"flash_hopper", 9, is_short_on_hopper, "solutions/10/variants/hopper_short.cu",
     .forward = flash_hopper_hopper_short},
    {"flash_hopper", 9, is_split_on_hopper, "solutions/10/variants/hopper_split.cu",
     .forward = flash_hopper_hopper_split},
    {"flash_hopper", 9, walks_on_hopper, "solutions/10/variants/hopper_walk.cu", .forward = flash_hopper_hopper_walk},
    {"flash_hopper", 9, walks_wide_on_hopper, "solutions/10/variants/hopper_walk_wide.cu",
     .forward = flash_hopper_hopper_walk_wide},
    {"flash_hopper", 0, any, "solutions/10/flash_hopper.cu", .forward = flash_hopper_key},
    // .forward = flash_hopper: one of those above. B4 H16 N4096 D128 756, 388; N1024 649, 347. B4 H32 N4096 D64 580,
    // 344; N1024 465, 316
    {"flash_forward", 9, is_64_or_128, "solutions/10/flash_hopper.cu", .forward = flash_hopper},
    // 2026-11-23 (commit 3320b05), ms, of Hopper's at D 16 and 32 and the fastest other. Forward: B4 H4 N3036 D32 full
    // 0.0655, 0.0847; B64 H2/1 N30336 D16 18.8, 20.2; D32 20.0, 26.9; but B29 H32/4 N2048 D16 0.852, 0.754. Backward:
    // the same 44.4, 47.9; 48.8, 63.9; 1.83, 1.89
    {"flash_forward", 9, is_much_of_16_or_32, "solutions/03/variants/hopper.cu", .forward = flash_forward_hopper},
    {"flash_forward", 0, any, "solutions/03/flash_forward.cu", .forward = flash_forward_key},
    // B4 H16 N4096 D128 692, 374; N1024 451, 277. B4 H32 N4096 D64 512, 336; N1024 310, 262
    {"flash_causal", 9, is_64_or_128, "solutions/10/flash_hopper.cu", .forward = flash_hopper},
    {"flash_causal", 9, is_much_of_16_or_32, "solutions/05/variants/hopper.cu", .forward = flash_gqa_hopper},
    {"flash_causal", 0, any, "solutions/04/flash_causal.cu", .forward = flash_causal_key},
    // B2 H64/8 N4096 D128 710, 377; D64 523, 342
    {"flash_gqa", 9, is_64_or_128, "solutions/10/flash_hopper.cu", .forward = flash_hopper},
    {"flash_gqa", 9, is_much_of_16_or_32, "solutions/05/variants/hopper.cu", .forward = flash_gqa_hopper},
    // 31b35ee, D16, us, of it and the key. H16/2: N512 11.0, 11.5; N2048 31.6, 32.9; N16384 745, 755. H8/2: N512 10.6,
    // 11.2. duel: as above
    {"flash_gqa", 0, suits_shared_tile, "solutions/05/variants/shared_tile.cu", .forward = flash_gqa_shared_tile},
    {"flash_gqa", 0, any, "solutions/05/flash_gqa.cu", .forward = flash_gqa_key},
    // 2026-11-23 (commit 3320b05), us, of it, the next row's and hopper.cu: H64 N64 D128 8.8, 18.8, 18.2; B8 H32/8 N64
    // D64 13.1, 24.2, 26.1; B5 H16 N512 D64 39.7, 48.1, 48.5; but H16/1 N128 D128 45.0, 21.2, 19.7; B32 H16 N256 D128
    // 178, 152, 167
    {"flash_gqa_backward", 9, is_one_launch_long_in_turns, "solutions/08/variants/one_launch.cu",
     .backward = flash_gqa_backward_one_launch, .backward_in = flash_gqa_backward_in_one_launch,
     .workspace = flash_gqa_backward_workspace_one_launch},
    // The same bits each time. B4 H16 N4096 D128 572, 234; N1024 382, 190. B4 H32 N4096 D64 494, 237; B64 N256 112,
    // 99. B2 H64/8 N4096 D128 557, 240. duel: B38 H88/11 N64 D128 0.321, 0.231; B8 H32 N64 D64 0.0243, 0.0225.
    // 2026-11-22, ms, as it was before and since it is cut into parts for few blocks: B1 H8/1 N1024 D128 full 0.267,
    // 0.057; B2 H16/2 N256 0.077, 0.029; B8 H30/2 N4736 D128 causal 9.42, 6.31
    {"flash_gqa_backward", 9, any, "solutions/08/variants/hopper_same_bits.cu",
     .backward = flash_gqa_backward_hopper_same_bits, .backward_in = flash_gqa_backward_in_hopper_same_bits,
     .workspace = flash_gqa_backward_workspace_hopper_same_bits},
    {"flash_gqa_backward", 0, any, "solutions/08/flash_gqa_backward.cu", .backward = flash_gqa_backward_key},
    {"flash_gqa_backward_fastest", 9, is_one_launch_long, "solutions/08/variants/one_launch.cu",
     .backward_in = flash_gqa_backward_in_one_launch, .workspace = flash_gqa_backward_workspace_one_launch},
    // Any bits, against the same: B64 H16 N256 D128 129, 137; B16 N1024 375, 382; B64 H32 N256 D64 103, 112; then B8
    // H16 N2048 D128 497, 494; B4 N4096 588, 572; B1 N16384 681, 645; B2 H64/8 N4096 D128 600, 557; D64 535, 501.
    // 2026-11-22, ms: B64 H32/4 N64 D128 0.192, 0.132; B16 H56/14 N384 D64 0.233, 0.212, but B57 H16/2 N640 D128
    // 0.787, 0.893. Where they are not chosen so, 5 of 178 shapes drawn take over 3 % longer than they need, 5 % at
    // most
    {"flash_gqa_backward_fastest", 9, is_short_of_many_heads, "solutions/08/variants/hopper_same_bits.cu",
     .backward_in = flash_gqa_backward_in_hopper_same_bits, .workspace = flash_gqa_backward_workspace_hopper_same_bits},
    {"flash_gqa_backward_fastest", 9, any, "solutions/08/variants/hopper.cu",
     .backward_in = flash_gqa_backward_in_hopper, .workspace = flash_gqa_backward_workspace_hopper},
    // 31b35ee, D16, ms, of it and the key. H16/8: N1024 0.0454, 0.0455; N2048 0.0836, 0.0896; N16384 1.78, 2.12. H16
    // N4096 0.135, 0.168, but H16/1 0.97, 0.84: too few blocks, one for 64 keys of a kv head. duel: B29 H32/4 N2048
    // 1.89, 2.19; B1 H28/2 N47978 27.3, 32.2
    {"flash_gqa_backward_fastest", 0, is_long_16, "solutions/08/variants/atomic_dq.cu",
     .backward_in = flash_gqa_backward_in_atomic_dq, .workspace = flash_gqa_backward_workspace_atomic_dq},
    {"flash_gqa_backward_fastest", 0, any, "solutions/08/flash_gqa_backward.cu", .backward = flash_gqa_backward_key},
    // 2026-11-23 (commit 3320b05), us, of it and the fastest other: B7 H16/2 N202 D64 W127 10.4, 12.8; B2 H16/4 N128
    // D128 W64 7.8, 8.9; but B64 H64/8 N217 D64 W32 154, 119
    {"flash_window", 9, is_short_window_of_logits, "solutions/07/variants/hopper_short.cu",
     .forward = flash_sinks_hopper_short},
    // 06 is 07 without sinks, whose rows say why. B1 H64/8 N65536 D64 W128, of the first and the key: 0.354, 0.991
    {"flash_window", 9, has_short_window_of_logits_in_groups, "solutions/07/variants/hopper.cu",
     .forward = flash_sinks_hopper},
    {"flash_window", 9, suits_small_tiles, "solutions/06/flash_window.cu", .forward = flash_window_key},
    {"flash_window", 9, has_medium_window_of_logits_in_groups, "solutions/07/variants/packed_heads.cu",
     .forward = flash_sinks_packed_heads},
    {"flash_window", 9, has_any_window_and_much, "solutions/07/variants/hopper_any_window.cu",
     .forward = flash_sinks_hopper_any_window},
    // 3a8b979, of it and the key, us: B2 H16/2 N1408 D32 W133 12.5, 13.3; but B4 H64/8 N64 D32 W32 7.4, 6.9. duel: B16
    // H32/4 N512 D16 W64 24.1, 30.2
    {"flash_window", 0, is_small_in_groups, "solutions/07/variants/packed_heads.cu",
     .forward = flash_sinks_packed_heads},
    {"flash_window", 0, any, "solutions/06/flash_window.cu", .forward = flash_window_key},
    {"flash_sinks", 9, is_short_window, "solutions/07/variants/hopper_short.cu", .forward = flash_sinks_hopper_short},
    // 31b35ee, B1 H64/8 D64 W128, 4 sinks, of it and packed_heads: N1024 0.0148, 0.0221; N4096 0.0360, 0.0617; N65536
    // 0.442, 0.847
    {"flash_sinks", 9, has_short_window_in_groups, "solutions/07/variants/hopper.cu", .forward = flash_sinks_hopper},
    // 3a8b979, 124 shapes drawn with windows, us, of the key and hopper_any_window.cu, D 64: B64 H64/32 N64 W52 41,
    // 87; B16 H18 N128 W64, 2 sinks 13.6, 15.8; B1 H32 N512 W32 8.8, 10.4; B1 H1 N39552 W33 12.6, 15.5; B1 H18/9 N479
    // W128 9.7, 10.6; B16 H2/1 N2566 W105 27.3,
    // 29.5; but B32 H1 N4736 W128, 2 sinks 7 % slower. D 128: B8 H32/8 N64 W47 10.3, 12.2. Of the key and hopper.cu:
    // B17 H8/1 N128 W59, 2 sinks
    // 10.4, 14.2; B5 H64/8 N225 W32 18.2, 21.7. With the rows of suits_small_tiles, is_little and is_small_in_groups 6
    // of the 124 take over 3 % longer than they need; without them 44
    // f93120a, of the kernel that is named now and of the one before: B64 H32/4 N101 D64 W64 38.0, 46.6; B64 H16/8 N82
    // D128 W32 31.9, 38.4; B32 H64/8 N80 D64 W66 31.0, 41.9; B1 H16/2 N512 D64 W128 9.5, 12.2; B2 H4/2 N19968 D64 W49,
    // 2 sinks 40.8, 48.8; B1 H16/2 N64346 D64 W188 244, 286; B8 H4/2 N135360 D16 W32 332, 402. Of 978 windows drawn 29
    // take over 3 % longer than they need, 66 before
    {"flash_sinks", 9, suits_small_tiles_and_sinks, "solutions/07/flash_sinks.cu", .forward = flash_sinks_key},
    // 2026-11-22, B1 H64/8 N32768 D64, of it and the next row's: W160 0.479, 0.481; W224, 4 sinks 0.576, 0.683; W256,
    // 4 sinks 0.657, 0.669; but W192 0.549, 0.471. 3a8b979: B32 H32/8 N281 W161 8 % faster, duel, B4 H16/2 N1024 W182
    // 0.0306, 0.0235
    {"flash_sinks", 9, has_medium_window_in_groups, "solutions/07/variants/packed_heads.cu",
     .forward = flash_sinks_packed_heads},
    // 2026-11-22, B1, of it and packed_heads. D128: H32/8 N32768 W4096 2.60, 5.40; H16/8 N8192 W1024 0.113, 0.231; H16
    // N28160 W128 0.143, 0.258; with 4 sinks H32/8 N8192 W1024 0.227, 0.412. D64: H64/8 N32768 W4096 3.50, 5.99; H64
    // N8192 W128 0.112, 0.192. Of it and the key: B8 H8 N280 D128 W128 0.0151, 0.0173
    {"flash_sinks", 9, has_any_window_and_much, "solutions/07/variants/hopper_any_window.cu",
     .forward = flash_sinks_hopper_any_window},
    // 31b35ee, W128, 8 sinks, us, of it and packed_heads: H16/2 D16 N256 7.0, 7.4; N512 7.3, 7.3; N1024 8.2, 7.7; H8/2
    // D32 N512 8.5, 8.9 f93120a, us, of packed_heads and the key: B8 H16/4 N512 D16 W86, 12 sinks 12.6, 15.0; windows,
    // D 32, H1 and H2/1: 1.15 to 1.4 times as long
    {"flash_sinks", 0, is_small_in_groups, "solutions/07/variants/packed_heads.cu",
     .forward = flash_sinks_packed_heads},
    {"flash_sinks", 0, is_brief_or_small_alone, "solutions/07/flash_sinks.cu", .forward = flash_sinks_key},
    // 31b35ee, of it and the key: H16/2 D16 N4096 12.2, 15.7 us; N16384 32.2, 42.5; H64/8 D64 N65536 0.847, 1.087 ms
    {"flash_sinks", 0, any, "solutions/07/variants/packed_heads.cu", .forward = flash_sinks_packed_heads},
    // 2026-11-23 (commit 3320b05), us, of it and the fastest other: B8 H8/2 N128 D128 W64 18.9, 30.8; H8 N256 D128 W64
    // 10.1, 19.3; but B64 H32/4 N101 D64 W64 92, 57
    {"flash_sinks_backward", 9, is_window_one_launch_long, "solutions/09/variants/one_launch.cu",
     .backward = flash_sinks_backward_one_launch},
    // 5e4c505, B1 H64/8 D64 W128, 4 sinks, of it and packed_heads: N512 0.059, 0.075; N1024 0.062, 0.093; N4096 0.140,
    // 0.237; N65536 1.62, 3.11; without sinks N512 0.0456, 0.0629; N4096 0.105, 0.214; N65536 1.18, 2.68
    {"flash_sinks_backward", 9, has_short_window, "solutions/09/variants/hopper.cu",
     .backward = flash_sinks_backward_hopper},
    // 2026-11-22, of it and packed_heads, ms, without sinks. D128: B1 H32/8 N8192 W4096 1.76, 5.46; W32 0.222, 0.257;
    // H16/8 W1024 0.40, 1.12; B1 H8 N256 W64 0.019, 0.027. D64: B1 H64/8 N8192 W256 0.377, 0.584; W130 0.361, 0.415;
    // W1024, 4 sinks 0.87, 1.83; H16/8 N4096 W128, 64 sinks
    // 0.089, 0.099; no window, H64/8 N4096 0.75, 2.03
    {"flash_sinks_backward", 9, has_any_window, "solutions/09/variants/hopper_any_window.cu",
     .backward = flash_sinks_backward_hopper_any_window, .backward_in = flash_sinks_backward_in_hopper_any_window,
     .workspace = flash_sinks_backward_workspace_hopper_any_window},
    // 31b35ee, H16/8 D16 W256, 4 sinks, us, of it and packed_heads: N256 20.4, 22.1; N512 29.7, 33.8; N1024 45.0,
    // 34.3; N16384 160, 170. duel, W128, ms: B1 H2/1 N195452 0.126, 0.158; H12/3 N188336 0.629, 0.714. f93120a: H16
    // N3014 W64 24.8, 28.3; B2 H16/2 N1408 W512, 1 sink 201, 118. D32: B8 H2 N384 W46 14.6, 19.3; B2 H4/2 N7552 W32
    // 27.0, 33.3; B32 H2/1 N20096 W512 1274, 1410; B1 H16/2 N23552 W231 255, 274
    {"flash_sinks_backward", 0, is_brief_or_vast_and_small, "solutions/09/flash_sinks_backward.cu",
     .backward = flash_sinks_backward_key},
    // B1 H64/8 D64 W128, 4 sinks: N1024 0.093, 0.145; N4096 0.235, 0.300; N65536 3.10, 3.42. 31b35ee, H16/1 D16 N4096
    // 0.132, 0.227
    {"flash_sinks_backward", 0, any, "solutions/09/variants/packed_heads.cu",
     .backward = flash_sinks_backward_packed_heads},
    {"flash_sink_logits", 9, is_short_window_of_logits, "solutions/11/variants/hopper_short.cu",
     .sink_forward = flash_sink_logits_hopper_short},
    // 31b35ee, B1 H64/8 D64 W128, of it and the next row's: N1024 0.0144, 0.0225; N4096 0.0366, 0.0604; N65536 0.455,
    // 0.802
    {"flash_sink_logits", 9, has_short_window_of_logits_in_groups, "solutions/11/variants/hopper_window.cu",
     .sink_forward = flash_sink_logits_hopper_window},
    {"flash_sink_logits", 9, suits_small_tiles, "solutions/11/flash_sink_logits.cu",
     .sink_forward = flash_sink_logits_key},
    // B1 H64/8 D64, without a window: N4096 0.287, 0.427; N16384 3.55, 6.16; W128, N4096: 0.061, 0.070; N65536 0.80,
    // 1.01
    {"flash_sink_logits", 9, is_full_or_medium, "solutions/11/variants/hopper.cu",
     .sink_forward = flash_sink_logits_hopper},
    // 2026-11-22, B1, of it and hopper.cu: H64/8 D64 N8192 W512 0.209, 0.259; N32768 W4096 3.52, 6.12, but W160 0.518,
    // 0.480; H16/8 N4096 W128
    // 0.0228, 0.0269; H64/8 N16384 D128 W128 0.275, 0.419; W4096 2.46, 5.17
    {"flash_sink_logits", 9, has_any_window_and_much, "solutions/11/variants/hopper_any_window.cu",
     .sink_forward = flash_sink_logits_hopper_any_window},
    // 3a8b979, of it and the key: B4 H4/1 N145484 D16 W64 0.197, 0.251; B16 H8/2 N2432 D32 W256 0.068, 0.074
    {"flash_sink_logits", 9, is_small_in_groups, "solutions/11/variants/hopper.cu",
     .sink_forward = flash_sink_logits_hopper},
    {"flash_sink_logits", 0, any, "solutions/11/flash_sink_logits.cu", .sink_forward = flash_sink_logits_key},
    // 2026-11-23 (commit 3320b05), us, of it and the fastest other: B2 H16/1 N128 D64 W64 34.9, 41.7; B76 H1 N270 D128
    // W128 42.8, 82.6
    {"flash_sink_logits_backward", 9, is_logits_one_launch_long, "solutions/12/variants/one_launch.cu",
     .sink_backward = flash_sink_logits_backward_one_launch},
    // 1582f4c, B1 H64/8 D64 W128, of it and packed_heads: N1024 0.0510, 0.0785; N4096 0.110, 0.212; N65536 1.22, 2.67
    {"flash_sink_logits_backward", 9, has_short_window_of_logits, "solutions/12/variants/hopper_window.cu",
     .sink_backward = flash_sink_logits_backward_hopper_window},
    // B1 H64/8 D64, without a window: N1024 0.100, 0.393; N4096 0.741, 2.12; N65536 172, 367
    // 2026-11-22: under a window they are the kernels of 09's row.
    {"flash_sink_logits_backward", 9, has_any_window, "solutions/12/variants/hopper.cu",
     .sink_backward = flash_sink_logits_backward_hopper, .sink_backward_in = flash_sink_logits_backward_in_hopper,
     .workspace = flash_sink_logits_backward_workspace_hopper},
    // B1 H64/8 D64 W128: N4096 0.213, 0.226; N65536 2.66, 2.86
    {"flash_sink_logits_backward", 0, any, "solutions/12/variants/packed_heads.cu",
     .sink_backward = flash_sink_logits_backward_packed_heads},
    // 31b35ee, B4 H16 N8192 D128, documents/1024: 0.411, 0.644; N8256 tree/64 1.57, 3.06; B1 H64/8 N16384 D64
    // window/128 0.264, 0.311. Lists for tiles of 64 queries are left to the key there
    {"flash_block_mask", 9, is_64_or_128, "solutions/15/variants/hopper.cu",
     .block_mask_forward = flash_block_mask_hopper},
    {"flash_block_mask", 0, any, "solutions/15/flash_block_mask.cu", .block_mask_forward = flash_block_mask_key},
    // ad294c7, us, of it and the key: B4 H32/4 N128 D64 6.2, 10.6; B16 H16/2 N1024 D128 13.4, 17.3; B16 H64/8 N2048
    // 36.5, 44.0; B97 H16/2 N1074 D64, 14 tokens 45.7, 78.4; but B1 H32/4 N2048 20.2, 15.4. int8: B16 H16/2 N128 D128
    // 8.2, 11.7; B8 H32/16 N1216 18.2, 24.4. 429 of 530 drawn are short in this sense, 256 of them of unequal lengths:
    // in 3 it takes over 3 % longer than the key, and in half of them at most 0.68 of its time
    {"flash_decode", 9, NULL, "solutions/13/variants/one_block.cu", .decodes = is_short_cache,
     .decode = flash_decode_one_block},
    // 2026-11-23 (commit 3320b05), ms, of it and the key: B64 H32/4 Nq12 N13127 D64 0.299, 0.588; B32 H64/8 Nq8 N8192
    // D128 0.261, 0.339; B8 H16/1 Nq16 N32768 D64 0.064, 0.135
    {"flash_decode", 9, NULL, "solutions/13/variants/hopper.cu", .decodes = packs_many_rows,
     .decode = flash_decode_hopper, .decode_workspace = flash_decode_workspace_hopper},
    {"flash_decode", 0, NULL, "solutions/13/flash_decode.cu", .decodes = any_cache, .decode = flash_decode_key},
    {"flash_decode_int8", 9, NULL, "solutions/14/variants/one_block.cu", .decodes = is_short_cache,
     .decode_int8 = flash_decode_int8_one_block},
    {"flash_decode_int8", 0, NULL, "solutions/14/flash_decode_int8.cu", .decodes = any_cache,
     .decode_int8 = flash_decode_int8_key},
};

// By one of the two shapes.
static const choice *choose_by(const char *function, const attention_shape *shape, const decode_shape *cache)
{
    const int capability = wb_device_capability();
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const choice *c = &choices[i];
        if (strcmp(c->function, function) == 0 && (!c->capability || c->capability == capability) &&
            (cache ? c->decodes && c->decodes(cache) : c->serves && c->serves(shape)))
            return c;
    }
    return NULL;
}
static const choice *choose(const char *function, const attention_shape *shape)
{
    return choose_by(function, shape, NULL);
}

const char *wb_version(void) { return WB_VERSION; }

const char *wb_library_kernel(const char *function, const attention_shape *shape)
{
    const choice *c = choose(function, shape);
    if (c && c->forward == flash_hopper) c = choose("flash_hopper", shape);
    return c ? c->source : "";
}

// The same of a cache. For reference/duel.py: libworkbook.so keeps it to itself.
const char *wb_library_decode_kernel(const char *function, const decode_shape *shape);
const char *wb_library_decode_kernel(const char *function, const decode_shape *shape)
{
    const choice *c = choose_by(function, NULL, shape);
    return c ? c->source : "";
}

// A function refuses in its own name what it does not take.
#define FORWARD(name)                                                                                                  \
    wb_status name(                                                                                                    \
        bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape,                  \
        wb_stream stream)                                                                                              \
    {                                                                                                                  \
        const wb_status status = wb_check_forward(#name, O, L, Q, K, V, shape);                                        \
        return status != WB_OK ? status : choose(#name, shape)->forward(O, L, Q, K, V, shape, stream);                 \
    }
#define BACKWARD(name)                                                                                                 \
    wb_status name(                                                                                                    \
        bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,        \
        const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)                                \
    {                                                                                                                  \
        const wb_status status = wb_check_backward(#name, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape);                \
        return status != WB_OK ? status                                                                                \
                               : choose(#name, shape)->backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);  \
    }
FORWARD(flash_forward)
FORWARD(flash_causal)
FORWARD(flash_gqa)
FORWARD(flash_hopper)
FORWARD(flash_sinks)
BACKWARD(flash_gqa_backward)
BACKWARD(flash_sinks_backward)

wb_status flash_window(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_window", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    attention_shape without = *shape;
    without.sinks = 0;  // the kernels of 07 read it
    return choose("flash_window", shape)->forward(O, L, Q, K, V, &without, stream);
}

wb_status flash_sink_logits_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
    const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape,
    wb_stream stream)
{
    const char *name = "flash_sink_logits_backward";
    const wb_status status =
        wb_check_sink_backward(name, dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape);
    return status != WB_OK
               ? status
               : choose(name, shape)
                     ->sink_backward(dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape, stream);
}

wb_status flash_sink_logits(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const float *sink_logits,
    const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_sink_forward("flash_sink_logits", O, L, Q, K, V, sink_logits, shape);
    if (status != WB_OK) return status;
    return choose("flash_sink_logits", shape)->sink_forward(O, L, Q, K, V, sink_logits, shape, stream);
}

wb_status flash_block_mask(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const block_mask *mask,
    const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_block_mask("flash_block_mask", O, L, Q, K, V, mask, shape);
    if (status != WB_OK) return status;
    return choose("flash_block_mask", shape)->block_mask_forward(O, L, Q, K, V, mask, shape, stream);
}

wb_status flash_decode(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const int *page_table, const int *kv_len,
    void *memory, size_t bytes, const decode_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_decode_shape("flash_decode", shape);
    if (status != WB_OK) return status;
    return choose_by("flash_decode", NULL, shape)
        ->decode(O, L, Q, K, V, page_table, kv_len, memory, bytes, shape, stream);
}
size_t flash_decode_workspace(const decode_shape *shape)
{
    if (wb_check_decode_shape("flash_decode", shape) != WB_OK) return 0;
    const choice *c = choose_by("flash_decode", NULL, shape);
    return (c->decode_workspace ? c->decode_workspace : flash_decode_workspace_key)(shape);
}

wb_status flash_decode_int8(
    bf16 *O, float *L, const bf16 *Q, const int8_t *K, const int8_t *V, const float *K_scale, const float *V_scale,
    const int *page_table, const int *kv_len, void *memory, size_t bytes, const decode_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_decode_shape("flash_decode_int8", shape);
    if (status != WB_OK) return status;
    return choose_by("flash_decode_int8", NULL, shape)
        ->decode_int8(O, L, Q, K, V, K_scale, V_scale, page_table, kv_len, memory, bytes, shape, stream);
}
size_t flash_decode_int8_workspace(const decode_shape *shape) { return flash_decode_int8_workspace_key(shape); }

// -------------------------------------------------------------------------- in the caller's memory

static size_t needs(const char *function, const attention_shape *shape)
{
    const choice *c = choose(function, shape);
    return c->workspace ? c->workspace(shape) : 0;
}

// For the validator, which knows of no 08 without a mask: the same shape with one.
static const attention_shape *with_mask(attention_shape *masked, const attention_shape *shape)
{
    if (!shape) return NULL;
    *masked = *shape;
    if (masked->causal == 0) masked->causal = 1;
    return masked;
}

size_t flash_gqa_backward_workspace(const attention_shape *shape)
{
    attention_shape masked;
    if (wb_check_shape("flash_gqa_backward", with_mask(&masked, shape)) != WB_OK) return 0;
    const size_t same_bits = needs("flash_gqa_backward", shape), fastest = needs("flash_gqa_backward_fastest", shape);
    return same_bits > fastest ? same_bits : fastest;
}

// `taken`: the shape as the validator may see it.
#define BACKWARD_IN(name, problem, chosen, taken)                                                                      \
    wb_status name(                                                                                                    \
        void *memory, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K,          \
        const bf16 *V, const bf16 *O, const float *L, const bf16 *dO, const attention_shape *shape, wb_stream stream)  \
    {                                                                                                                  \
        const wb_status status = wb_check_backward(problem, dQ, dK, dV, delta, Q, K, V, O, L, dO, taken);              \
        if (status != WB_OK) return status;                                                                            \
        const choice *c = choose(chosen, shape);                                                                       \
        return c->backward_in ? c->backward_in(memory, bytes, dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream)     \
                              : c->backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, shape, stream);                      \
    }
#define WITH_MASK with_mask(&(attention_shape){0}, shape)
BACKWARD_IN(flash_gqa_backward_in, "flash_gqa_backward", "flash_gqa_backward", WITH_MASK)
BACKWARD_IN(flash_gqa_backward_fastest, "flash_gqa_backward", "flash_gqa_backward_fastest", WITH_MASK)
BACKWARD_IN(flash_sinks_backward_in, "flash_sinks_backward", "flash_sinks_backward", shape)

#define WORKSPACE(name)                                                                                                \
    size_t name##_workspace(const attention_shape *shape)                                                              \
    {                                                                                                                  \
        return wb_check_shape(#name, shape) == WB_OK ? needs(#name, shape) : 0;                                        \
    }
WORKSPACE(flash_sinks_backward)
WORKSPACE(flash_sink_logits_backward)

wb_status flash_sink_logits_backward_in(
    void *memory, size_t bytes, bf16 *dQ, bf16 *dK, bf16 *dV, float *dsinks, float *delta, const bf16 *Q, const bf16 *K,
    const bf16 *V, const float *sink_logits, const bf16 *O, const float *L, const bf16 *dO,
    const attention_shape *shape, wb_stream stream)
{
    const char *name = "flash_sink_logits_backward";
    const wb_status status =
        wb_check_sink_backward(name, dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape);
    if (status != WB_OK) return status;
    const choice *c = choose(name, shape);
    return c->sink_backward_in
               ? c->sink_backward_in(
                     memory, bytes, dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape, stream)
               : c->sink_backward(dQ, dK, dV, dsinks, delta, Q, K, V, sink_logits, O, L, dO, shape, stream);
}

// ----------------------------------------------------------------------------------- between ranks

// 17's pairs of chunks: 10 where it runs. On other GPUs 05 under a mask; without one 03, to which the query heads of a
// group, which see the same keys, are rows of one head.
wb_status wb_attention(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_hopper", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    if (wb_device_capability() == 9) return flash_hopper(O, L, Q, K, V, shape, stream);
    if (shape->causal) return flash_gqa(O, L, Q, K, V, shape, stream);
    const int group = group_of(shape);
    if (shape->q_len > INT_MAX / group)
        return wb_fail(WB_UNSUPPORTED, "wb_attention: more than %d rows of queries of one key head", INT_MAX);
    attention_shape rows = *shape;
    rows.q_heads = shape->kv_heads, rows.q_len = group * shape->q_len;
    return flash_forward(O, L, Q, K, V, &rows, stream);
}

// 18's: the form of 08's kernels for it, where they run.
static wb_status pair_backward_by(
    pair_backward *add, workspace *needs_memory, float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K,
    const bf16 *V, const bf16 *dO, const float *L, const float *delta, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_attention_backward(dQ, dK, dV, Q, K, V, dO, L, delta, shape);
    if (status != WB_OK) return status;
    if (wb_device_capability() != 9 || needs_memory(shape) == 0) add = wb_attention_backward_anywhere;
    return add(dQ, dK, dV, Q, K, V, dO, L, delta, shape, stream);
}

wb_status wb_attention_backward_fastest(
    float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *dO, const float *L,
    const float *delta, const attention_shape *shape, wb_stream stream)
{
    return pair_backward_by(
        flash_gqa_backward_add_hopper, flash_gqa_backward_add_workspace_hopper, dQ, dK, dV, Q, K, V, dO, L, delta,
        shape, stream);
}

static _Thread_local bool in_any_order;  // while flash_ring_backward_fastest queues

// The same bits each time, as all of a ring, unless told otherwise.
wb_status wb_attention_backward(
    float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *dO, const float *L,
    const float *delta, const attention_shape *shape, wb_stream stream)
{
    if (in_any_order) return wb_attention_backward_fastest(dQ, dK, dV, Q, K, V, dO, L, delta, shape, stream);
    return pair_backward_by(
        flash_gqa_backward_add_hopper_same_bits, flash_gqa_backward_add_workspace_hopper_same_bits, dQ, dK, dV, Q, K, V,
        dO, L, delta, shape, stream);
}

wb_status flash_ring_backward_fastest(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, void *memory, size_t bytes, const attention_shape *shape, const wb_ring *ring,
    wb_stream stream)
{
    in_any_order = true;
    const wb_status status =
        flash_ring_backward(dQ, dK, dV, delta, Q, K, V, O, L, dO, memory, bytes, shape, ring, stream);
    in_any_order = false;
    return status;
}
