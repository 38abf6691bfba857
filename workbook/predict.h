// predict.h - what a call of a kernel takes, as a picture of it, so that the library can take the kernel that takes
// least (solutions/library.c). Beside its kernel each file that the library has says what the blocks of a launch do:
// NAME_microseconds, INFINITY where it does not do the case. What a step of that costs is a row of coefficients for
// each GPU, kernel and head dimension, which reference/fit.py fits to times of reference/duel.py.
#ifndef WORKBOOK_PREDICT_H
#define WORKBOOK_PREDICT_H

#include "workbook.h"

#include <math.h>
#include <stdbool.h>

// Of a kernel with one head dimension.
typedef struct wb_costs {
    float launch;     // microseconds: what begins and ends a call
    float step;       // microseconds of a step of a walk, where as many blocks run at a time as can
    float busy;       // what it adds to the time of a multiprocessor, which the blocks on it share
    float beginning;  // what begins and ends a walk, in steps
    float megabyte;   // microseconds
    float more;       // what a kernel has beside: its NAME_microseconds says
} wb_costs;

typedef struct wb_device {
    int capability;         // major; 0: no device
    int processors;         // multiprocessors
    int clock, bandwidth;   // MHz, GB/s
    const wb_costs *costs;  // of the kernel that is asked, with this head dimension
} wb_device;

__BEGIN_DECLS
#pragma GCC visibility push(default)
// The current device, as the driver says; asked once. The CPU layer plays an H200.
wb_device wb_this_device(void);

typedef double wb_microseconds(const attention_shape *shape, const wb_device *device);
typedef double wb_decode_microseconds(const decode_shape *shape, const wb_device *device);
wb_microseconds flash_forward_microseconds, flash_gqa_microseconds, flash_hopper_microseconds, flash_sinks_microseconds,
    flash_sink_logits_microseconds, flash_block_mask_microseconds, flash_gqa_backward_microseconds,
    flash_sinks_backward_microseconds, flash_sink_logits_backward_microseconds;
wb_decode_microseconds flash_decode_microseconds, flash_decode_int8_microseconds;
#pragma GCC visibility pop
__END_DECLS

static inline int wb_group_of(const attention_shape *shape) { return shape->q_heads / shape->kv_heads; }
// How many heads of a group stand side by side: a power of two that divides the group, `most` at most.
static inline int wb_pack_of(const attention_shape *shape, int most)
{
    while (wb_group_of(shape) % most) most /= 2;
    return most;
}

// ------------------------ walks

// What the blocks of a launch do, in steps: the least, the mean and the most of a block. Long ones begin first, in each
// section of heads.
typedef struct wb_walks {
    double blocks, least, mean, most;
    int at_once;    // blocks of a multiprocessor
    double before;  // the share of the blocks that come before the last section
} wb_walks;

// The walks of tiles of `rows` over what they see of the other side, in tiles of `columns`; a row sees a window of it.
static inline wb_walks wb_walks_of(const attention_shape *shape, double heads, int length, int others, int rows,
                                   int columns, int at_once)
{
    const double tiles = ceil((double)length / rows), W = shape->causal ? fmin(shape->window, others) : others;
    wb_walks w = {heads * tiles, 0, 0, 0, at_once, 0};
    w.most = ceil(fmin(others, shape->causal ? W + rows - 1 : W) / columns);
    w.least = shape->causal ? ceil(fmin(others, rows) / columns) : w.most;
    // the edge cuts short some: one has a tile of its side, the next two, and so on
    const double of_one = (double)rows / columns, some = shape->causal ? fmin(tiles, floor(w.most / of_one)) : 0;
    w.mean = w.most - (some * w.most - of_one * some * (some + 1) / 2) / tiles;
    return w;
}
// Of tiles of `rows` queries over their keys, sinks too; and of `rows` keys over the queries of their group.
static inline wb_walks wb_over_keys(const attention_shape *shape, int rows, int columns, int at_once)
{
    wb_walks w =
        wb_walks_of(shape, (double)shape->batch * shape->q_heads, shape->q_len, shape->kv_len, rows, columns, at_once);
    const double far = fmax(0, fmin(shape->sinks, (double)shape->kv_len - shape->window));
    if (shape->causal) w.most += ceil(far / columns), w.mean += ceil(far / columns);
    return w;
}
static inline wb_walks wb_over_queries(const attention_shape *shape, int rows, int columns, int at_once)
{
    const int group = wb_group_of(shape);
    wb_walks w =
        wb_walks_of(shape, (double)shape->batch * shape->kv_heads, shape->kv_len, shape->q_len, rows, columns, at_once);
    w.least *= group, w.mean *= group, w.most *= group;
    return w;
}

// Of keys that are sinks, in tiles of `rows`: over all queries, in parts about as long as other walks, `parts` at most.
static inline wb_walks wb_over_all_queries(const attention_shape *shape, int rows, int columns, int at_once, int parts)
{
    wb_walks w = {0, 0, 0, 0, at_once, 0};
    if (!shape->sinks || shape->window >= shape->q_len) return w;
    const double cut = fmax(1, fmin(parts, floor(shape->q_len / ((double)shape->window + rows))));
    w.blocks = (double)shape->batch * shape->kv_heads * ceil((double)shape->sinks / rows) * cut;
    w.least = w.mean = w.most = ceil(wb_group_of(shape) * ceil((double)shape->q_len / columns) / cut);
    return w;
}

// When the last block ends, in steps, if each of so many takes the next walk when it is done with one.
static inline double wb_rounds(const wb_walks *w, double beginning, double at_a_time)
{
    const double most = w->most + beginning, mean = w->mean + beginning, all = w->blocks / at_a_time;
    if (all <= 1) return most;
    if (w->least == w->most) return ceil(all) * most;
    const double rounds = all * (1 - w->before);
    return all * w->before * mean + fmax(most, fmin(ceil(rounds) * most, rounds * mean + (w->least + beginning) / 2));
}
// Microseconds of two things at a time, such as products and loads: the longer, and more where both are about as long.
static inline double wb_both(double a, double b) { return hypot(a, b); }
// Of such walks.
static inline double wb_walking(const wb_walks *w, const wb_costs *c, const wb_device *device)
{
    return wb_both(c->step * wb_rounds(w, c->beginning, (double)device->processors * w->at_once),
                   c->busy * wb_rounds(w, c->beginning, device->processors));
}

// So many numbers of each element of Q and of K, in bf16.
static inline double wb_megabytes(const attention_shape *shape, double of_queries, double of_keys)
{
    return 2e-6 * shape->batch * shape->head_dim *
           (of_queries * shape->q_heads * shape->q_len + of_keys * shape->kv_heads * shape->kv_len);
}

// Of what blocks read, in megabytes, that which the L2 cache no longer has: `apart` lie between two reads of the same.
// It has 50 MB on an H100 and an H200, but each half of the multiprocessors keeps its own copy in half of it.
static inline double wb_missed(double read, double apart) { return fmax(0, read) * fmin(1, fmax(0, apart / 25 - 1)); }
// Microseconds: memory gives nine tenths of what it could.
static inline double wb_from_memory(double megabytes, const wb_device *device)
{
    return megabytes * 1e3 / (0.9 * device->bandwidth);
}
// Megabytes of K and V that come from memory again, in tiles of `rows` and `columns`: between two of a head come those
// of `side` key heads.
static inline double wb_again(const attention_shape *shape, const wb_device *device, const wb_walks *w, int rows,
                              int columns, double side)
{
    const double group = wb_group_of(shape), row = 4e-6 * shape->head_dim, seen = w->mean * columns;
    const double read = w->blocks / group * seen - (double)shape->batch * shape->kv_heads * shape->kv_len;
    const double beside = fmax(1, w->at_once * device->processors / (side * group));  // blocks of a head
    return wb_missed(row * read, row * side * (seen + group * rows) / beside);
}
// A forward pass in one launch: it reads Q, K and V, and so many megabytes again, and writes O.
static inline double wb_forward_again(const attention_shape *shape, const wb_device *device, wb_walks walks,
                                      double again)
{
    const wb_costs *c = device->costs;
    const double time = wb_walking(&walks, c, device) + c->megabyte * wb_megabytes(shape, 2, 2);
    return c->launch + wb_both(time, wb_from_memory(again, device));
}
static inline double wb_forward(const attention_shape *shape, const wb_device *device, wb_walks walks)
{
    return wb_forward_again(shape, device, walks, 0);
}
// A block that sums up so many rows, each after a wait for what it loads.
static inline double wb_summing(double rows) { return 0.33 * rows; }
// A backward pass in three: delta, then dK and dV, then dQ, of which a step takes `more` times as long.
static inline double wb_backward(const attention_shape *shape, const wb_device *device, wb_walks over_queries,
                                 wb_walks over_keys)
{
    const wb_costs *c = device->costs;
    return c->launch + wb_walking(&over_queries, c, device) + c->more * wb_walking(&over_keys, c, device) +
           c->megabyte * wb_megabytes(shape, 8, 6);
}
// How many blocks a sequence's rows of queries have, each 16 of a key head, or 32 where that has more.
static inline double wb_members(const decode_shape *shape)
{
    const int rows = shape->q_heads / shape->kv_heads * shape->q_len;
    return shape->kv_heads * ceil(rows / (rows <= 16 ? 16.0 : 32));
}

#endif
