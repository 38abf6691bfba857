// flash_ring.cu - attention over a sequence that is sharded over several GPUs: Q stays on its GPU, K and V circulate
// around a ring, and every GPU attends to the K and V that it holds while the next ones are in flight. Partial results
// are merged by means of L.
#include "workbook.h"
#include <initializer_list>
#include <nccl.h>

// ------------------------------------------------------------------------------------------------------ who holds what

// The whole sequence, N rows in 2 * ranks chunks.
struct sequence {
    int N, ranks;

    // How many rows a chunk has.
    int rows(int chunk) const
    {
        //{ chunk table
        // TODO(17) chunk table: N / (2 * ranks) rows, one more in as many first chunks as rows remain.  (about 1 line)
        (void)chunk;
        return 0;
        //}
    }
    // The number of a rank's first (which = 0) or second chunk.
    int chunk(int rank, int which) const
    {
        //{ zigzag
        // TODO(17) zigzag: the chunks of this rank; under a causal mask all ranks have equal work.  (about 1 line)
        (void)rank, (void)which;
        return 0;
        //}
    }
    int rows_of(int rank) const { return rows(chunk(rank, 0)) + rows(chunk(rank, 1)); }
};

// What the queries of chunk `mine` see of the keys of chunk `theirs`.
enum pair { EMPTY, WHOLE, CAUSAL };
static pair pair_of(int mine, int theirs, bool causal)
{
    //{ pairs
    // TODO(17) pairs: what the queries of one chunk see of the keys of another, under either mask.  (about 2 lines)
    (void)mine, (void)theirs, (void)causal;
    return EMPTY;
    //}
}

// --------------------------------------------------------------------------------------------------------------- merge

constexpr int THREADS = 128, COLUMNS = 8;  // of a block; of a thread, which takes so many of a row
struct alignas(16) bf16_columns {
    bf16 of[COLUMNS];
};
struct alignas(16) float_columns {
    float of[COLUMNS];
};

// Adds what was found in one more chunk of keys. `first`: there is nothing yet; `last`: nothing comes after it, so it
// is the result.
__global__ void merge_kernel(
    bf16 *O,              // [rows, D]
    float *L,             // [rows]
    float *O_sum,         // [rows, D]: of all chunks before
    float *L_sum,         // [rows]
    const bf16 *O_part,   // [rows, D]: of this one
    const float *L_part,  // [rows]
    size_t rows, int D, bool first, bool last)
{
    const int lanes = D / COLUMNS;
    const size_t row = (size_t)blockIdx.x * (THREADS / lanes) + threadIdx.x / lanes,
                 at = row * lanes + threadIdx.x % lanes;
    float_columns x = {};
    float L_both = 0;
    if (row < rows) {
        const bf16_columns part = ((const bf16_columns *)O_part)[at];
        if (!first) x = ((const float_columns *)O_sum)[at];
        const float L_old = first ? -INFINITY : L_sum[row], L_new = L_part[row];
        //{ merge
        // TODO(17) merge: x.of and L_both of all keys so far, from two partial results and their L.  (about 3 lines)
        (void)part, (void)L_old, (void)L_new;
        //}
    }
    __syncthreads();  // all threads of a row have read its L_sum
    if (row >= rows) return;
    if (threadIdx.x % lanes == 0) (last ? L : L_sum)[row] = L_both;
    if (!last) {
        ((float_columns *)O_sum)[at] = x;
        return;
    }
    bf16_columns rounded;
    for (int c = 0; c < COLUMNS; c++) rounded.of[c] = __float2bfloat16(x.of[c]);
    ((bf16_columns *)O)[at] = rounded;
}

// ---------------------------------------------------------------------------------------------------------------- ring

// The workspace. No chunk has more rows than the first, so no rank has more than twice as many.
struct ring_memory {
    bf16 *K[2], *V[2];     // [2, B, Hkv, chunk, D] each: while one is read the other is filled
    bf16 *O_part;          // [B, Hq, chunk, D]
    float *L_part;         // [B, Hq, chunk]
    float *O_sum, *L_sum;  // of both chunks
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
        }
        O_part = (bf16 *)take(q_rows * D * sizeof(bf16));
        L_part = (float *)take(q_rows * sizeof(float));
        O_sum = (float *)take(2 * q_rows * D * sizeof(float));
        L_sum = (float *)take(2 * q_rows * sizeof(float));
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

size_t flash_ring_workspace(const attention_shape *shape, const wb_ring *ring)
{
    if (wb_check_ring_shape("flash_ring", shape, ring) != WB_OK) return 0;
    return ring_memory(nullptr, *shape, ring->ranks).bytes;
}

wb_status flash_ring(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, void *workspace, size_t workspace_bytes,
    const attention_shape *shape, const wb_ring *ring, wb_stream stream)
{
    const size_t needed = flash_ring_workspace(shape, ring);
    wb_status status = wb_check_ring("flash_ring", O, L, Q, K, V, workspace, workspace_bytes, needed, shape, ring);
    if (status != WB_OK) return status;
    const ring_memory room((char *)workspace, *shape, ring->ranks);

    // who am I
    const int ranks = ring->ranks, me = ring->rank, D = shape->head_dim;
    const int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;  // whom I send to, and whom I receive from
    const sequence all = {shape->q_len, ranks};
    const size_t q_heads = (size_t)shape->batch * shape->q_heads, kv_heads = (size_t)shape->batch * shape->kv_heads;
    int parts[2] = {0, 0};  // that are still to be merged for each of my chunks
    for (int which = 0; which < 2; which++)
        for (int k = 0; k < 2 * ranks; k++)
            parts[which] += all.rows(k) > 0 && pair_of(all.chunk(me, which), k, shape->causal) != EMPTY;
    bool first[2] = {true, true};

    // what is sent is there when the stream of the call has come this far
    const wb_stream wire = ring->wire;
    event begun, arrived[2], read[2];  // two of each: of the two buffers
    for (event *e : {&begun, &arrived[0], &arrived[1], &read[0], &read[1]}) WB_CUDA(e->make());
    WB_CUDA(cudaEventRecord(begun.it, stream));
    if (ranks > 1) WB_CUDA(cudaStreamWaitEvent(wire, begun.it, 0));

    for (int step = 0; step < ranks; step++) {
        // load: whose keys are at hand in this step, and where they lie
        //{ owner
        // TODO(17) owner: whose keys this rank has in this step, and whose it has in the next.  (about 1 line)
        const int owner = me, comes = me;
        //}
        const int here = step % 2, there = (step + 1) % 2;
        const bf16 *K_here = step ? room.K[here] : K, *V_here = step ? room.V[here] : V;

        // sync: the products of this step wait for its keys
        //{ wait
        // TODO(17) wait: before the products of a step read keys that came over the wire.  (about 1 line)
        (void)arrived;
        //}

        // send: they go on to the next rank, while new ones come into the other buffer
        if (step + 1 < ranks) {
            const size_t leaving = kv_heads * all.rows_of(owner) * D, coming = kv_heads * all.rows_of(comes) * D;
            //{ travel
            // TODO(17) travel: send K and V of this step to the next rank, receive those of the next step into the
            // other buffer, and record an event when they have arrived. What is still read must not be
            // overwritten.  (about 12 lines)
            (void)K_here, (void)V_here, (void)leaving, (void)coming, (void)there, (void)next, (void)before;
            //}
        }

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

        // done: what comes after the next step may overwrite these keys
        //{ release
        // TODO(17) release: tell the wire when the products of this step have read their keys.  (about 1 line)
        (void)read;
        //}
    }
    return WB_OK;
}
