// flash_ring_backward.cu - the gradients of flash_ring: K and V circulate around the ring once more. dK and dV
// circulate one step behind them, accumulate on each rank, and return to their owner.
#include "workbook.h"
#include <initializer_list>
#include <nccl.h>

// ------------------------------------------------------------------------------------------------------ who holds what

// The whole sequence, N rows in 2 * ranks chunks, zigzag: as in 17.
struct sequence {
    int N, ranks;

    // How many rows a chunk has.
    int rows(int chunk) const
    {
        // chunk table
        return N / (2 * ranks) + (chunk < N % (2 * ranks));
    }
    // The number of a rank's first (which = 0) or second chunk.
    int chunk(int rank, int which) const
    {
        // zigzag
        return which == 0 ? rank : 2 * ranks - 1 - rank;
    }
    int rows_of(int rank) const { return rows(chunk(rank, 0)) + rows(chunk(rank, 1)); }
};

// What the queries of chunk `mine` see of the keys of chunk `theirs`.
enum pair { EMPTY, WHOLE, CAUSAL };
static pair pair_of(int mine, int theirs, bool causal)
{
    if (!causal || theirs < mine) return WHOLE;
    return theirs == mine ? CAUSAL : EMPTY;
}

// ----------------------------------------------------------------------------------- small kernels

constexpr int THREADS = 128, COLUMNS = 8;  // of a block; of a thread, which takes so many of a row
struct alignas(16) bf16_columns {
    bf16 of[COLUMNS];
};
struct alignas(16) float_columns {
    float of[COLUMNS];
};

// delta [rows] = rowsum(dO * O), of O, dO [rows, D]: D / 8 neighbouring threads share a row.
__global__ void delta_kernel(float *delta, const bf16 *O, const bf16 *dO, size_t rows, int D)
{
    const int lanes = D / COLUMNS;
    const size_t row = (size_t)blockIdx.x * (THREADS / lanes) + threadIdx.x / lanes,
                 at = row * lanes + threadIdx.x % lanes;
    float sum = 0;
    if (row < rows) {
        const bf16_columns o = ((const bf16_columns *)O)[at], g = ((const bf16_columns *)dO)[at];
        //{ delta
        for (int c = 0; c < COLUMNS; c++) sum += __bfloat162float(g.of[c]) * __bfloat162float(o.of[c]);
        //}
    }
    for (int l = lanes / 2; l > 0; l /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, l);
    if (row < rows && threadIdx.x % lanes == 0) delta[row] = sum;
}

// sum += found, a thread for COLUMNS numbers of each.
__global__ void add_kernel(float *sum, const float *found, size_t columns)
{
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= columns) return;
    float_columns x = ((const float_columns *)sum)[at];
    const float_columns y = ((const float_columns *)found)[at];
    //{ add
    for (int c = 0; c < COLUMNS; c++) x.of[c] += y.of[c];
    //}
    ((float_columns *)sum)[at] = x;
}

__global__ void round_kernel(bf16 *to, const float *from, size_t columns)
{
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= columns) return;
    const float_columns x = ((const float_columns *)from)[at];
    bf16_columns rounded;
    for (int c = 0; c < COLUMNS; c++) rounded.of[c] = __float2bfloat16(x.of[c]);
    ((bf16_columns *)to)[at] = rounded;
}

static unsigned blocks_for(size_t columns) { return (unsigned)((columns - 1) / THREADS + 1); }

// ---------------------------------------------------------------------------------------------------------------- ring

// The workspace. No chunk has more rows than the first, so no rank has more than twice as many.
struct ring_memory {
    bf16 *K[2], *V[2];  // [2, B, Hkv, chunk, D] each: while one is read the other is filled
    float *sum[2];      // dK, then dV, of the keys at hand: what has come, with what is added here; and what leaves
    float *found;       // dK, then dV: what this step's products find
    float *dQ;          // [2, B, Hq, chunk, D]
    size_t bytes = 0;

    ring_memory(char *begin, const attention_shape &shape, int ranks)
    {
        const size_t chunk = sequence{shape.q_len, ranks}.rows(0), D = shape.head_dim;
        const size_t q_rows = shape.batch * (size_t)shape.q_heads * chunk,
                     kv_rows = shape.batch * (size_t)shape.kv_heads * chunk;
        const auto take = [&](size_t n) {
            char *at = begin + bytes;
            bytes += (n + 255) / 256 * 256 + 4096;  // no two share a page, by which the CPU layer tells them apart
            return at;
        };
        for (int i = 0; i < 2; i++) {
            K[i] = (bf16 *)take(2 * kv_rows * D * sizeof(bf16));
            V[i] = (bf16 *)take(2 * kv_rows * D * sizeof(bf16));
            sum[i] = (float *)take(2 * 2 * kv_rows * D * sizeof(float));
        }
        found = (float *)take(2 * 2 * kv_rows * D * sizeof(float));
        dQ = (float *)take(2 * q_rows * D * sizeof(float));
    }
};

struct event {
    cudaEvent_t it = nullptr;
    cudaError_t make() { return cudaEventCreateWithFlags(&it, cudaEventDisableTiming); }
    ~event()
    {
        if (it) cudaEventDestroy(it);
    }
};

// So many numbers go to the next rank, and so many come from the one before. Between ncclGroupStart and ncclGroupEnd.
static wb_status
pass_on(const wb_ring *ring, ncclDataType_t type, const void *leaves, size_t leaving, void *comes, size_t coming)
{
    const int next = (ring->rank + 1) % ring->ranks, before = (ring->rank + ring->ranks - 1) % ring->ranks;
    if (leaving > 0) WB_NCCL(ncclSend(leaves, leaving, type, next, ring->comm, ring->wire));
    if (coming > 0) WB_NCCL(ncclRecv(comes, coming, type, before, ring->comm, ring->wire));
    return WB_OK;
}

size_t flash_ring_backward_workspace(const attention_shape *shape, const wb_ring *ring)
{
    if (wb_check_ring_shape("flash_ring_backward", shape, ring) != WB_OK) return 0;
    return ring_memory(nullptr, *shape, ring->ranks).bytes;
}

wb_status flash_ring_backward(
    bf16 *dQ, bf16 *dK, bf16 *dV, float *delta, const bf16 *Q, const bf16 *K, const bf16 *V, const bf16 *O,
    const float *L, const bf16 *dO, void *workspace, size_t workspace_bytes, const attention_shape *shape,
    const wb_ring *ring, wb_stream stream)
{
    const size_t needed = flash_ring_backward_workspace(shape, ring);
    wb_status status = wb_check_ring_backward(
        "flash_ring_backward", dQ, dK, dV, delta, Q, K, V, O, L, dO, workspace, workspace_bytes, needed, shape, ring);
    if (status != WB_OK) return status;
    const ring_memory room((char *)workspace, *shape, ring->ranks);

    // who am I
    const int ranks = ring->ranks, me = ring->rank, D = shape->head_dim;
    const bool alone = ranks == 1;
    const sequence all = {shape->q_len, ranks};
    const size_t q_heads = (size_t)shape->batch * shape->q_heads, kv_heads = (size_t)shape->batch * shape->kv_heads;
    const auto numbers = [&](int rank) { return kv_heads * all.rows_of(rank) * D; };  // of its K, as many as of its V
    const size_t q_rows = q_heads * all.rows_of(me), mine_all = numbers(me);

    // what is sent is there when the stream of the call has come this far
    const wb_stream wire = ring->wire;
    event begun, arrived, done;
    for (event *e : {&begun, &arrived, &done}) WB_CUDA(e->make());
    WB_CUDA(cudaEventRecord(begun.it, stream));
    if (!alone) WB_CUDA(cudaStreamWaitEvent(wire, begun.it, 0));

    // before: delta of my rows, and nothing yet in dQ
    if (q_rows > 0) {
        delta_kernel<<<blocks_for(q_rows * (D / COLUMNS)), THREADS, 0, stream>>>(delta, O, dO, q_rows, D);
        WB_CUDA(cudaGetLastError());
        WB_CUDA(cudaMemsetAsync(room.dQ, 0, q_rows * D * sizeof(float), stream));
    }

    for (int step = 0; step <= ranks; step++) {
        // load: whose keys are at hand. In the first step my own are, and in the last one, in which their gradients
        // come home
        const bool own = step == 0 || step == ranks;
        const int owner = (me - step + ranks) % ranks,  // in this step,
            left = (owner + 1) % ranks,                 // in the step before,
            comes = (owner - 1 + ranks) % ranks;        // and in the next
        const int here = alone ? 0 : step % 2, there = 1 - here;
        const bf16 *const K_here = own ? K : room.K[here], *const V_here = own ? V : room.V[here];

        // send: the keys at hand go on, and so do the gradients of those that were at hand before
        if (!alone) {
            //{ behind
            if (step > 0) WB_CUDA(cudaStreamWaitEvent(wire, done.it, 0));  // the step before has ended
            //}
            WB_NCCL(ncclGroupStart());
            //{ keys
            if (step + 1 < ranks) {
                status = pass_on(ring, ncclBfloat16, K_here, numbers(owner), room.K[there], numbers(comes));
                if (status != WB_OK) return status;
                status = pass_on(ring, ncclBfloat16, V_here, numbers(owner), room.V[there], numbers(comes));
                if (status != WB_OK) return status;
            }
            //}
            //{ gradients
            if (step > 0) {
                status =
                    pass_on(ring, ncclFloat, room.sum[there], 2 * numbers(left), room.sum[here], 2 * numbers(owner));
                if (status != WB_OK) return status;
            }
            //}
            WB_NCCL(ncclGroupEnd());
            WB_CUDA(cudaEventRecord(arrived.it, wire));
        }

        // compute: each of my two chunks with each of the two at hand
        float *found = step == 0 || alone ? room.sum[0] : room.found;
        const size_t count = 2 * numbers(owner);
        if ((step == 0 || !alone) && count > 0) WB_CUDA(cudaMemsetAsync(found, 0, count * sizeof(float), stream));
        for (int mine = 0; mine < 2; mine++)
            for (int theirs = 0; theirs < 2; theirs++) {
                const pair what = pair_of(all.chunk(me, mine), all.chunk(owner, theirs), shape->causal);
                attention_shape square = *shape;
                square.q_len = all.rows(all.chunk(me, mine));
                square.kv_len = all.rows(all.chunk(owner, theirs));
                square.causal = what == CAUSAL;
                if (what == EMPTY || square.q_len == 0 || square.kv_len == 0) continue;
                //{ when
                if (own && (mine == theirs) != (step == 0)) continue;  // half of my own now, half under the way home
                //}
                const size_t q_at = mine ? q_heads * all.rows(all.chunk(me, 0)) : 0;
                const size_t kv_at = theirs ? kv_heads * all.rows(all.chunk(owner, 0)) * D : 0;
                //{ share
                status = wb_attention_backward(
                    room.dQ + q_at * D, found + kv_at, found + numbers(owner) + kv_at, Q + q_at * D, K_here + kv_at,
                    V_here + kv_at, dO + q_at * D, L + q_at, delta + q_at, &square, stream);
                //}
                if (status != WB_OK) return status;
            }
        if (alone) continue;

        // sync: what has come in this step is needed from here on
        //{ arrived
        WB_CUDA(cudaStreamWaitEvent(stream, arrived.it, 0));
        //}
        if (step > 0 && count > 0) {
            add_kernel<<<blocks_for(count / COLUMNS), THREADS, 0, stream>>>(room.sum[here], found, count / COLUMNS);
            WB_CUDA(cudaGetLastError());
        }
        // done: the next step may send what is here, and overwrite it
        //{ done
        WB_CUDA(cudaEventRecord(done.it, stream));
        //}
    }

    // after: the sums are whole
    const float *home = room.sum[alone ? 0 : ranks % 2];
    const struct {
        bf16 *to;
        const float *from;
        size_t count;
    } results[] = {{dQ, room.dQ, q_rows * D}, {dK, home, mine_all}, {dV, home + mine_all, mine_all}};
    for (const auto &r : results) {
        if (r.count == 0) continue;
        round_kernel<<<blocks_for(r.count / COLUMNS), THREADS, 0, stream>>>(r.to, r.from, r.count / COLUMNS);
        WB_CUDA(cudaGetLastError());
    }
    return WB_OK;
}
