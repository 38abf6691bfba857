// naive_ring.cu - the baselines of 17 and 18: K and V of all ranks come to all, and nothing is computed meanwhile.
// Then, for each of a rank's chunks, the keys of all chunks before it are put in order, so that one launch sees them,
// and one more sees its own. Backward, each rank so finds what its queries add to the gradients of all keys, in
// float32; then these are added up over all ranks. All of it is on one stream.
#include "workbook.h"
#include <algorithm>
#include <nccl.h>

// N rows in 2 * ranks chunks, of which a rank has `rank` and 2 * ranks - 1 - rank, one behind the other.
struct sequence {
    int N, ranks;

    int rows(int chunk) const { return N / (2 * ranks) + (chunk < N % (2 * ranks)); }
    int begin(int chunk) const { return chunk * (N / (2 * ranks)) + std::min(chunk, N % (2 * ranks)); }
    int mirror(int chunk) const { return 2 * ranks - 1 - chunk; }
    int owner(int chunk) const { return std::min(chunk, mirror(chunk)); }
    int before(int chunk) const { return chunk < ranks ? 0 : rows(mirror(chunk)); }  // rows of its owner's first chunk
    int rows_of(int rank) const { return rows(rank) + rows(mirror(rank)); }
};

// Pieces of a workspace, or of none, to count its bytes.
struct pieces {
    char *begin;
    size_t bytes;

    template <class Type> void take(Type *&piece, size_t numbers)
    {
        piece = (Type *)(begin + bytes);
        bytes += (numbers * sizeof(Type) + 255) / 256 * 256 + 4096;  // no two share a page: the CPU layer asks for it
    }
};

enum { THREADS = 128 };
inline unsigned blocks_for(size_t threads) { return (unsigned)std::min<size_t>((threads - 1) / THREADS + 1, 1 << 16); }

// `count` numbers of each head, copied or, with ADD, added. Heads are so many numbers apart.
template <bool ADD, class Type> __global__ void strips_kernel(Type *to, size_t to_stride, const Type *from,
                                                              size_t from_stride, size_t count, size_t heads)
{
    for (size_t n = blockIdx.x * (size_t)THREADS + threadIdx.x; n < heads * count; n += (size_t)gridDim.x * THREADS) {
        Type *at = to + n / count * to_stride + n % count;
        const Type x = from[n / count * from_stride + n % count];
        if constexpr (ADD)
            *at += x;
        else
            *at = x;
    }
}

// K and V of all ranks, on each.
struct gathered {
    bf16 *K, *V;            // [rank][chunk][heads, rows, D]: ranks are `part` numbers apart
    bf16 *K_seen, *V_seen;  // [heads, keys, D]: of the first keys
    size_t part, heads, D;

    gathered(pieces &from, const attention_shape &shape, int ranks)
        : heads(shape.batch * (size_t)shape.kv_heads), D((size_t)shape.head_dim)
    {
        part = heads * 2 * (size_t)sequence{shape.q_len, ranks}.rows(0) * D;  // no chunk has more rows than the first
        for (bf16 **x : {&K, &V}) from.take(*x, ranks * part);
        for (bf16 **x : {&K_seen, &V_seen}) from.take(*x, heads * shape.q_len * D);
    }

    // Where a chunk begins, in numbers.
    size_t at(const sequence &all, int chunk) const { return all.owner(chunk) * part + heads * all.before(chunk) * D; }

    wb_status gather(const bf16 *K_mine, const bf16 *V_mine, const sequence &all, const wb_ring *ring, wb_stream stream)
    {
        const size_t mine = heads * (size_t)all.rows_of(ring->rank) * D * sizeof(bf16);
        bf16 *const K_to = K + ring->rank * part, *const V_to = V + ring->rank * part;
        WB_CUDA(cudaMemcpyAsync(K_to, K_mine, mine, cudaMemcpyDeviceToDevice, stream));
        WB_CUDA(cudaMemcpyAsync(V_to, V_mine, mine, cudaMemcpyDeviceToDevice, stream));
        if (ring->ranks == 1) return WB_OK;
        WB_NCCL(ncclGroupStart());
        WB_NCCL(ncclAllGather(K_to, K, part, ncclBfloat16, ring->comm, stream));
        WB_NCCL(ncclAllGather(V_to, V, part, ncclBfloat16, ring->comm, stream));
        WB_NCCL(ncclGroupEnd());
        return WB_OK;
    }

    // K_seen and V_seen: all keys of the first chunks.
    wb_status see(const sequence &all, int chunks, wb_stream stream)
    {
        const size_t keys = all.begin(chunks);
        for (int c = 0; c < chunks; c++) {
            const size_t count = all.rows(c) * D / 8;  // sixteen bytes each
            if (count == 0) continue;
            for (const bool of_V : {false, true}) {
                strips_kernel<false><<<blocks_for(heads * count), THREADS, 0, stream>>>(
                    (int4 *)((of_V ? V_seen : K_seen) + all.begin(c) * D), keys * D / 8,
                    (const int4 *)((of_V ? V : K) + at(all, c)), count, count, heads);
                WB_CUDA(cudaGetLastError());
            }
        }
        return WB_OK;
    }
};

// ------------------------ forward

// O = a weighted by exp(L_a), and b by exp(L_b); L of both. O is where a is.
__global__ void merge_two_kernel(bf16 *O, float *L, const bf16 *O_b, const float *L_b, size_t rows, int D)
{
    const size_t row = blockIdx.x * (size_t)blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const float a = L[row], b = L_b[row], m = fmaxf(a, b), l = expf(a - m) + expf(b - m);
    for (int d = threadIdx.x; d < D; d += 32) {
        const size_t at = row * D + d;
        O[at] = __float2bfloat16((expf(a - m) * __bfloat162float(O[at]) + expf(b - m) * __bfloat162float(O_b[at])) / l);
    }
    __syncwarp();  // all of the row's threads have read L
    if (threadIdx.x == 0) L[row] = m + logf(l);
}

struct forward_memory : pieces {
    gathered keys;
    bf16 *O_own;   // [B, Hq, chunk, D]
    float *L_own;  // [B, Hq, chunk]

    forward_memory(void *at, const attention_shape &shape, int ranks) : pieces{(char *)at, 0}, keys(*this, shape, ranks)
    {
        const size_t rows = shape.batch * (size_t)shape.q_heads * sequence{shape.q_len, ranks}.rows(0);
        take(O_own, rows * shape.head_dim);
        take(L_own, rows);
    }
};

size_t flash_ring_workspace(const attention_shape *shape, const wb_ring *ring)
{
    if (wb_check_ring_shape("flash_ring", shape, ring) != WB_OK) return 0;
    return forward_memory(nullptr, *shape, ring->ranks).bytes;
}

wb_status flash_ring(bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, void *workspace,
                     size_t workspace_bytes, const attention_shape *shape, const wb_ring *ring, wb_stream stream)
{
    const size_t needed = flash_ring_workspace(shape, ring);
    wb_status status = wb_check_ring("flash_ring", O, L, Q, K, V, workspace, workspace_bytes, needed, shape, ring);
    if (status != WB_OK) return status;
    forward_memory room(workspace, *shape, ring->ranks);
    const sequence all = {shape->q_len, ring->ranks};
    const size_t D = shape->head_dim, heads = shape->batch * (size_t)shape->q_heads;
    status = room.keys.gather(K, V, all, ring, stream);
    if (status != WB_OK) return status;

    for (const int chunk : {ring->rank, all.mirror(ring->rank)}) {
        const size_t rows = heads * (size_t)all.rows(chunk), from = heads * (size_t)all.before(chunk);
        const int whole = shape->causal ? chunk : 2 * ring->ranks;  // so many chunks are seen whole
        attention_shape part = *shape;
        part.q_len = all.rows(chunk), part.kv_len = all.begin(whole), part.causal = 0;
        if (rows == 0) continue;
        if (part.kv_len > 0) {
            status = room.keys.see(all, whole, stream);
            if (status != WB_OK) return status;
            status =
                wb_attention(O + from * D, L + from, Q + from * D, room.keys.K_seen, room.keys.V_seen, &part, stream);
            if (status != WB_OK) return status;
        }
        if (!shape->causal) continue;
        const bool alone = part.kv_len == 0;
        const size_t own = room.keys.at(all, chunk);
        bf16 *const O_own = alone ? O + from * D : room.O_own;
        float *const L_own = alone ? L + from : room.L_own;
        part.kv_len = part.q_len, part.causal = 1;
        status = wb_attention(O_own, L_own, Q + from * D, room.keys.K + own, room.keys.V + own, &part, stream);
        if (status != WB_OK) return status;
        if (alone) continue;
        merge_two_kernel<<<(unsigned)((rows - 1) / 4 + 1), dim3(32, 4), 0, stream>>>(O + from * D, L + from, O_own,
                                                                                     L_own, rows, (int)D);
        WB_CUDA(cudaGetLastError());
    }
    return WB_OK;
}

// ------------------------ backward

// delta [rows] = rowsum(dO * O), of O, dO [rows, D]: a warp a row.
__global__ void delta_kernel(float *delta, const bf16 *O, const bf16 *dO, size_t rows, int D)
{
    const size_t row = blockIdx.x * (size_t)blockDim.y + threadIdx.y;
    float sum = 0;
    for (int d = threadIdx.x; row < rows && d < D; d += 32)
        sum += __bfloat162float(O[row * D + d]) * __bfloat162float(dO[row * D + d]);
    for (int l = 16; l > 0; l /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, l);
    if (row < rows && threadIdx.x == 0) delta[row] = sum;
}

__global__ void round_kernel(bf16 *to, const float *from, size_t numbers)
{
    for (size_t n = blockIdx.x * (size_t)THREADS + threadIdx.x; n < numbers; n += (size_t)gridDim.x * THREADS)
        to[n] = __float2bfloat16(from[n]);
}

struct backward_memory : pieces {
    gathered keys;
    float *dQ;       // [chunk][B, Hq, rows, D]
    float *sum;      // [rank][dK, dV][chunk][B, Hkv, rows, D]: ranks are 2 * part apart
    float *seen[2];  // of dK and dV, [B, Hkv, keys, D]: of the first keys

    backward_memory(void *at, const attention_shape &shape, int ranks)
        : pieces{(char *)at, 0}, keys(*this, shape, ranks)
    {
        const size_t D = (size_t)shape.head_dim, rows = 2 * (size_t)sequence{shape.q_len, ranks}.rows(0);
        take(dQ, shape.batch * (size_t)shape.q_heads * rows * D);
        take(sum, ranks * 2 * keys.part);
        for (float *&s : seen) take(s, keys.heads * shape.q_len * D);
    }

    // Where a chunk's dK (which = 0) or dV is summed up.
    float *sum_of(const sequence &all, int chunk, int which) const
    {
        const size_t owner = all.owner(chunk);
        return sum + (owner + which) * keys.part + keys.at(all, chunk);
    }
};

size_t flash_ring_backward_workspace(const attention_shape *shape, const wb_ring *ring)
{
    if (wb_check_ring_shape("flash_ring_backward", shape, ring) != WB_OK) return 0;
    return backward_memory(nullptr, *shape, ring->ranks).bytes;
}

wb_status flash_ring_backward(bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V,
                              const bf16 *O, const float *L, const bf16 *dO, void *workspace, size_t workspace_bytes,
                              const attention_shape *shape, const wb_ring *ring, wb_stream stream)
{
    const size_t needed = flash_ring_backward_workspace(shape, ring);
    wb_status status = wb_check_ring_backward("flash_ring_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, workspace,
                                              workspace_bytes, needed, shape, ring);
    if (status != WB_OK) return status;
    backward_memory room(workspace, *shape, ring->ranks);
    const sequence all = {shape->q_len, ring->ranks};
    const size_t D = shape->head_dim, q_heads = shape->batch * (size_t)shape->q_heads, heads = room.keys.heads;
    const size_t rows = q_heads * (size_t)all.rows_of(ring->rank), part = room.keys.part;
    status = room.keys.gather(K, V, all, ring, stream);
    if (status != WB_OK) return status;
    WB_CUDA(cudaMemsetAsync(room.sum, 0, ring->ranks * 2 * part * sizeof(float), stream));
    if (rows > 0) {
        WB_CUDA(cudaMemsetAsync(room.dQ, 0, rows * D * sizeof(float), stream));
        delta_kernel<<<(unsigned)((rows - 1) / 4 + 1), dim3(32, 4), 0, stream>>>(delta, O, dO, rows, (int)D);
        WB_CUDA(cudaGetLastError());
    }

    for (const int chunk : {ring->rank, all.mirror(ring->rank)}) {
        const size_t from = q_heads * (size_t)all.before(chunk);
        const int whole = shape->causal ? chunk : 2 * ring->ranks;  // so many chunks are seen whole
        attention_shape square = *shape;
        square.q_len = all.rows(chunk), square.kv_len = all.begin(whole), square.causal = 0;
        if (square.q_len == 0) continue;
        if (square.kv_len > 0) {
            status = room.keys.see(all, whole, stream);
            if (status != WB_OK) return status;
            for (float *s : room.seen)
                WB_CUDA(cudaMemsetAsync(s, 0, heads * square.kv_len * D * sizeof(float), stream));
            status =
                wb_attention_backward(room.dQ + from * D, room.seen[0], room.seen[1], Q + from * D, room.keys.K_seen,
                                      room.keys.V_seen, dO + from * D, L + from, delta + from, &square, stream);
            if (status != WB_OK) return status;
            for (int c = 0; c < whole; c++)
                for (int which = 0; which < 2; which++) {
                    const size_t count = all.rows(c) * D;
                    if (count == 0) continue;
                    strips_kernel<true><<<blocks_for(heads * count), THREADS, 0, stream>>>(
                        room.sum_of(all, c, which), count, room.seen[which] + all.begin(c) * D, square.kv_len * D,
                        count, heads);
                    WB_CUDA(cudaGetLastError());
                }
        }
        if (!shape->causal) continue;
        const size_t own = room.keys.at(all, chunk);
        square.kv_len = square.q_len, square.causal = 1;
        status = wb_attention_backward(room.dQ + from * D, room.sum_of(all, chunk, 0), room.sum_of(all, chunk, 1),
                                       Q + from * D, room.keys.K + own, room.keys.V + own, dO + from * D, L + from,
                                       delta + from, &square, stream);
        if (status != WB_OK) return status;
    }

    float *const mine = room.sum + ring->rank * 2 * part;
    if (ring->ranks > 1) WB_NCCL(ncclReduceScatter(room.sum, mine, 2 * part, ncclFloat, ncclSum, ring->comm, stream));
    const size_t own = heads * (size_t)all.rows_of(ring->rank) * D;
    const struct {
        bf16 *to;
        const float *from;
        size_t numbers;
    } results[] = {{dQ, room.dQ, rows * D}, {dK, mine, own}, {dV, mine + part, own}};
    for (const auto &r : results) {
        if (r.numbers == 0) continue;
        round_kernel<<<blocks_for(r.numbers), THREADS, 0, stream>>>(r.to, r.from, r.numbers);
        WB_CUDA(cudaGetLastError());
    }
    return WB_OK;
}
