// pairs.c - what 17 and 18 call in the library for a pair of chunks, between ranks (workbook.h).
#include "workbook.h"

#include <limits.h>
#include <stdbool.h>

// In memory of the stream's pool, where it says that it needs some; and the workbook's own,
// workbook/attention_backward.cu.
typedef __typeof__(wb_attention_backward) pair_backward;
pair_backward flash_gqa_backward_add_hopper, flash_gqa_backward_add_hopper_same_bits, wb_attention_backward_anywhere;
typedef __typeof__(flash_gqa_backward_workspace) workspace;
workspace flash_gqa_backward_add_workspace_hopper, flash_gqa_backward_add_workspace_hopper_same_bits;

// 17's: 10 where it runs. On other GPUs 05 under a mask; without one 03, to which the query heads of a group, which see
// the same keys, are rows of one head.
wb_status wb_attention(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_forward("flash_hopper", O, L, Q, K, V, shape);
    if (status != WB_OK) return status;
    if (wb_device_capability() == 9) return flash_hopper(O, L, Q, K, V, shape, stream);
    if (shape->causal) return flash_gqa(O, L, Q, K, V, shape, stream);
    const int group = shape->q_heads / shape->kv_heads;
    if (shape->q_len > INT_MAX / group)
        return wb_fail(WB_UNSUPPORTED, "wb_attention: more than %d rows of queries of one key head", INT_MAX);
    attention_shape rows = *shape;
    rows.q_heads = shape->kv_heads, rows.q_len = group * shape->q_len;
    return flash_forward(O, L, Q, K, V, &rows, stream);
}

static _Thread_local bool in_any_order;  // while flash_ring_backward_fastest queues

// 18's: the form of 08's kernels for it, where they run. The same bits each time, as all of a ring, unless told
// otherwise.
wb_status wb_attention_backward(
    float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *dO, const float *L,
    const float *delta, const attention_shape *shape, wb_stream stream)
{
    const wb_status status = wb_check_attention_backward(dQ, dK, dV, Q, K, V, dO, L, delta, shape);
    if (status != WB_OK) return status;
    const bool any_order = in_any_order, hopper = wb_device_capability() == 9;
    workspace *needs =
        any_order ? flash_gqa_backward_add_workspace_hopper : flash_gqa_backward_add_workspace_hopper_same_bits;
    pair_backward *add = any_order ? flash_gqa_backward_add_hopper : flash_gqa_backward_add_hopper_same_bits;
    if (!hopper || needs(shape) == 0) add = wb_attention_backward_anywhere;
    return add(dQ, dK, dV, Q, K, V, dO, L, delta, shape, stream);
}

wb_status wb_attention_backward_fastest(
    float *dQ, float *dK, float *dV, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *dO, const float *L,
    const float *delta, const attention_shape *shape, wb_stream stream)
{
    const bool before = in_any_order;
    in_any_order = true;
    const wb_status status = wb_attention_backward(dQ, dK, dV, Q, K, V, dO, L, delta, shape, stream);
    in_any_order = before;
    return status;
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
