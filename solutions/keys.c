// keys.c - what the reference solutions take (predict.h). A key differs from its skeleton in the gaps alone, so it does
// not say so itself. Tiles are those of its launch.
#include "predict.h"

wb_microseconds flash_forward_microseconds_key, flash_causal_microseconds_key, flash_gqa_microseconds_key,
    flash_hopper_microseconds_key, flash_window_microseconds_key, flash_sinks_microseconds_key,
    flash_sink_logits_microseconds_key, flash_block_mask_microseconds_key, flash_gqa_backward_microseconds_key,
    flash_sinks_backward_microseconds_key, flash_sink_logits_backward_microseconds_key;
wb_decode_microseconds flash_decode_microseconds_key, flash_decode_int8_microseconds_key;

// By head dimension.
static int of(const attention_shape *shape, int d16, int d32, int d64, int d128)
{
    return shape->head_dim == 16 ? d16 : shape->head_dim == 32 ? d32 : shape->head_dim == 64 ? d64 : d128;
}

#define TAKES_AS(name, picture) \
    double name##_microseconds_key(const attention_shape *shape, const wb_device *device) \
    { \
        return picture(shape, device); \
    }

// 03, 04, 05 and 15, which is taken as if all tiles were seen.
static double forward_key(const attention_shape *shape, const wb_device *device)
{
    return wb_forward(shape, device, wb_over_keys(shape, 128, 64, of(shape, 4, 3, 2, 2)));
}
TAKES_AS(flash_forward, forward_key)
TAKES_AS(flash_causal, forward_key)
TAKES_AS(flash_gqa, forward_key)
TAKES_AS(flash_block_mask, forward_key)

// 06, 07 and 11. `more`: a step with large tiles, of long windows, beside one with small ones.
static double window_key(const attention_shape *shape, const wb_device *device)
{
    if (shape->window <= 512)
        return wb_forward(shape, device, wb_over_keys(shape, 64, of(shape, 64, 32, 32, 32), of(shape, 5, 6, 5, 3)));
    wb_walks w = wb_over_keys(shape, 128, of(shape, 64, 64, 64, 48), of(shape, 4, 3, 2, 2));
    const double more = device->costs->more;
    w.least *= more, w.mean *= more, w.most *= more;
    return wb_forward(shape, device, w);
}
TAKES_AS(flash_window, window_key)
TAKES_AS(flash_sinks, window_key)
TAKES_AS(flash_sink_logits, window_key)

// 10. Under a mask its blocks come section by section, the longest walks of each first: in the last section, which may
// be short of heads, a block has walks of several heads, and the longest of these may end alone.
double flash_hopper_microseconds_key(const attention_shape *shape, const wb_device *device)
{
    if (device->capability != 9 || shape->head_dim < 64) return INFINITY;
    const wb_costs *c = device->costs;
    wb_walks w = wb_over_keys(shape, of(shape, 0, 0, 192, 128), 128, 1);
    if (!shape->causal || w.blocks <= device->processors) return wb_forward(shape, device, w);
    const int heads = shape->batch * shape->q_heads, group = wb_group_of(shape);
    const double tiles = w.blocks / heads, most = w.most + c->beginning, least = w.least + c->beginning;
    int section = group, bunch = 4;
    while (2 * section <= heads && 2ll * section / group * shape->kv_len * shape->head_dim * 4 <= 32 << 20)
        section *= 2;
    while (bunch > 1 && tiles * (section / bunch) * 2 < device->processors * 3) bunch /= 2;
    const int last = (heads - 1) % section + 1;
    // a head's steps, shared out; K and V that the cache does not hold come from memory again
    const bool again = 4ll * shape->kv_len * shape->head_dim > 64 << 20;
    const double head = (again ? 1.08 : 1) * (least + most) / 2 * tiles / device->processors;
    return c->launch +
           c->step * ((heads - last) * head + fmax(bunch * most, last * head + 0.1 * bunch * most + least / 2));
}

double flash_gqa_backward_microseconds_key(const attention_shape *shape, const wb_device *device)
{
    if (!shape->causal) return INFINITY;
    return wb_backward(
        shape, device,
        wb_over_queries(shape, of(shape, 64, 64, 64, 32), of(shape, 64, 64, 32, 32), of(shape, 4, 2, 2, 2)),
        wb_over_keys(shape, 128, of(shape, 64, 64, 32, 32), of(shape, 3, 2, 2, 2)));
}
double flash_sinks_backward_microseconds_key(const attention_shape *shape, const wb_device *device)
{
    const int BK = of(shape, 64, 32, 32, 32), at_once = of(shape, 5, 8, 6, 3);
    const wb_walks far = wb_over_all_queries(shape, BK, BK, at_once, 128);
    const double first = far.blocks ? device->costs->launch / 2 + wb_walking(&far, device->costs, device) : 0;
    return first + wb_backward(
                       shape, device, wb_over_queries(shape, BK, BK, at_once),
                       wb_over_keys(shape, 64, of(shape, 32, 32, 16, 16), of(shape, 6, 5, 5, 3)));
}

double flash_sink_logits_backward_microseconds_key(const attention_shape *shape, const wb_device *device)
{
    return flash_sinks_backward_microseconds_key(shape, device) +
           wb_summing(shape->batch * ceil(shape->q_len / 1024.0));
}

// 13 and 14: blocks for all rows of a key head, two of a multiprocessor, share the tiles of all sequences. The host
// does not know how many keys there are: as many as have room. `more`: steps that end a sequence.
static double decode_key(const decode_shape *shape, const wb_device *device, int tile, double bytes)
{
    const wb_costs *c = device->costs;
    const double keys = (double)shape->batch * shape->max_pages * shape->page_size;
    const double members = wb_members(shape), slots = 2.0 * device->processors;
    const double teams = fmax(1, floor(slots / members));
    const double steps = c->beginning + ceil(keys / tile / teams) + c->more * ceil(shape->batch / teams);
    return c->launch + wb_both(c->step * steps, c->megabyte * 2e-6 * bytes * keys * members * shape->head_dim);
}
double flash_decode_microseconds_key(const decode_shape *shape, const wb_device *device)
{
    return decode_key(shape, device, shape->head_dim < 64 ? 128 : 64, 2);
}
double flash_decode_int8_microseconds_key(const decode_shape *shape, const wb_device *device)
{
    return decode_key(shape, device, 128, 1);
}
