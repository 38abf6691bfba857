// gather.cu - 17 as in Llama 3: one collective call gathers the keys and values of all ranks, overlapped with the
// products of the own chunks; then the other chunks follow one by one. Each rank needs memory for the whole sequence's
// K and V, and most products wait for the whole gather. If chunks differ in size, a rank sends more than a ring needs.
// exempt: memory bytes_and_overlap drawn_sizes
#include "workbook.h"

#define flash_ring           in_steps
#define flash_ring_workspace workspace_in_steps
#include "../flash_ring.cu"
#undef flash_ring
#undef flash_ring_workspace

// The workspace.
struct gather_memory {
    bf16 *K, *V;           // [rank][2, B, Hkv, chunk, D] each, of all ranks at equal distances
    size_t part;           // that distance, in numbers
    bf16 *O_part;          // [B, Hq, chunk, D]
    float *L_part;         // [B, Hq, chunk]
    float *O_sum, *L_sum;  // of both chunks
    size_t bytes = 0;

    gather_memory(char *begin, const attention_shape &shape, int ranks)
    {
        const size_t chunk = sequence{shape.q_len, ranks}.rows(0), D = shape.head_dim;
        const size_t q_rows = shape.batch * (size_t)shape.q_heads * chunk,
                     kv_rows = shape.batch * (size_t)shape.kv_heads * chunk;
        const auto take = [&](size_t n) {
            char *at = begin + bytes;
            bytes += (n + 255) / 256 * 256 + 4096;  // no two share a page, by which the CPU layer tells them apart
            return at;
        };
        part = 2 * kv_rows * D;
        K = (bf16 *)take(ranks * part * sizeof(bf16));
        V = (bf16 *)take(ranks * part * sizeof(bf16));
        O_part = (bf16 *)take(q_rows * D * sizeof(bf16));
        L_part = (float *)take(q_rows * sizeof(float));
        O_sum = (float *)take(2 * q_rows * D * sizeof(float));
        L_sum = (float *)take(2 * q_rows * sizeof(float));
    }
};

size_t flash_ring_workspace(const attention_shape *shape, const wb_ring *ring)
{
    if (wb_check_ring_shape("flash_ring", shape, ring) != WB_OK) return 0;
    return gather_memory(nullptr, *shape, ring->ranks).bytes;
}

wb_status flash_ring(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, void *workspace, size_t workspace_bytes,
    const attention_shape *shape, const wb_ring *ring, wb_stream stream)
{
    const size_t needed = flash_ring_workspace(shape, ring);
    wb_status status = wb_check_ring("flash_ring", O, L, Q, K, V, workspace, workspace_bytes, needed, shape, ring);
    if (status != WB_OK) return status;
    const gather_memory room((char *)workspace, *shape, ring->ranks);

    // who am I
    const int ranks = ring->ranks, me = ring->rank, D = shape->head_dim;
    const sequence all = {shape->q_len, ranks};
    const size_t q_heads = (size_t)shape->batch * shape->q_heads, kv_heads = (size_t)shape->batch * shape->kv_heads;
    int parts[2] = {0, 0};  // that are still to be merged for each of my chunks
    for (int which = 0; which < 2; which++)
        for (int k = 0; k < 2 * ranks; k++)
            parts[which] += all.rows(k) > 0 && pair_of(all.chunk(me, which), k, shape->causal) != EMPTY;
    bool first[2] = {true, true};

    // to all ranks, when the stream of the call has come this far
    const wb_stream wire = ring->wire;
    event begun, arrived;
    for (event *e : {&begun, &arrived}) WB_CUDA(e->make());
    if (ranks > 1) {
        WB_CUDA(cudaEventRecord(begun.it, stream));
        WB_CUDA(cudaStreamWaitEvent(wire, begun.it, 0));
        const size_t mine = kv_heads * all.rows_of(me) * D * sizeof(bf16);
        WB_CUDA(cudaMemcpyAsync(room.K + me * room.part, K, mine, cudaMemcpyDeviceToDevice, wire));
        WB_CUDA(cudaMemcpyAsync(room.V + me * room.part, V, mine, cudaMemcpyDeviceToDevice, wire));
        WB_NCCL(ncclGroupStart());
        WB_NCCL(ncclAllGather(room.K + me * room.part, room.K, room.part, ncclBfloat16, ring->comm, wire));
        WB_NCCL(ncclAllGather(room.V + me * room.part, room.V, room.part, ncclBfloat16, ring->comm, wire));
        WB_NCCL(ncclGroupEnd());
        WB_CUDA(cudaEventRecord(arrived.it, wire));
    }

    for (int step = 0; step < ranks; step++) {
        const int owner = (me + step) % ranks;
        const bf16 *K_here = step ? room.K + owner * room.part : K, *V_here = step ? room.V + owner * room.part : V;
        if (step == 1) WB_CUDA(cudaStreamWaitEvent(stream, arrived.it, 0));

        // compute: each of my two chunks with each of the two at hand
        for (int mine = 0; mine < 2; mine++)
            for (int theirs = 0; theirs < 2; theirs++) {
                const pair what = pair_of(all.chunk(me, mine), all.chunk(owner, theirs), shape->causal);
                attention_shape square = *shape;
                square.q_len = all.rows(all.chunk(me, mine));
                square.kv_len = all.rows(all.chunk(owner, theirs));
                square.causal = what == CAUSAL;
                if (what == EMPTY || square.q_len == 0 || square.kv_len == 0) continue;
                const size_t q_at = mine ? q_heads * all.rows(all.chunk(me, 0)) : 0;
                const size_t kv_at = theirs ? kv_heads * all.rows(all.chunk(owner, 0)) * D : 0;
                status = wb_attention(
                    room.O_part, room.L_part, Q + q_at * D, K_here + kv_at, V_here + kv_at, &square, stream);
                if (status != WB_OK) return status;
                const size_t rows = q_heads * square.q_len, rows_a_block = THREADS / (D / COLUMNS);
                merge_kernel<<<(unsigned)((rows - 1) / rows_a_block + 1), THREADS, 0, stream>>>(
                    O + q_at * D, L + q_at, room.O_sum + q_at * D, room.L_sum + q_at, room.O_part, room.L_part, rows, D,
                    first[mine], --parts[mine] == 0);
                WB_CUDA(cudaGetLastError());
                first[mine] = false;
            }
    }
    return WB_OK;
}
