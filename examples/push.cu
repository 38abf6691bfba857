// push.cu - attention over a sequence that lies on several GPUs of one host, one launch a GPU and no merge: copy engines bring each rank's keys to all
// others, and the threads that fetch wait for a rank's keys where their walk comes to them. The chunks are problem 17's, the kernel is problem 10's. It is
// checked, and timed beside 17's ring and one GPU's share alone, which take turns with it.
//
//   make build/cuda/examples/push BACKEND=cuda ARCH=90a
//   build/cuda/examples/push                      all GPUs that are here, B 1, 32 heads on 8, D 128, N 32768 and 131072, causal and full
//   build/cuda/examples/push 2 32768 64 causal 9  ranks, N, D, mask, runs
//   make build/cpu/examples/push && build/cpu/examples/push 2 512 64 causal    without a GPU: what is walked over, with all there beforehand
//
// A rank is a thread of the host: with peer access its GPU writes into all others' memory as if it were its own. Processes would have to exchange
// cudaIpcMemHandle_t first, and both have to say before each call that the keys of the call before are no longer read; here a barrier of threads says it.
//
// Why it is no kernel of the library: its blocks fill all multiprocessors and wait there. That ends only because what they wait for needs none. A copy
// that is done by a kernel (NCCL's), a kernel queued behind these blocks for which another rank waits before it sends, a rank that has died: each means that
// it never ends. A library cannot know what its caller has queued. Besides, each GPU needs room for all keys.
#include "workbook.h"
#include "../solutions/17/flash_ring.cu"
#include "../solutions/10/flash_hopper.cu"
#include <algorithm>
#include <math.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <unistd.h>
#include <vector>

enum { MOST = 8 };  // ranks

// ------------------------------------------------------------------------------------------------------------- the kernel

// What a rank's two chunks of queries walk over: chunks of keys, side by side as if they were a sequence, of which each sees the end first: its own.
struct walk {
    int chunks[2];            // that each of the two sees
    short slot[2][2 * MOST];  // where they lie: those of rank r in 2 r and 2 r + 1
    const unsigned *arrived;  // [ranks]: the last turn whose keys have come from that rank
    unsigned turn;
};

// One thread: until what a copy engine has written, here or from another GPU, can be fetched.
TILE_FN void wait_for(const unsigned *arrived, unsigned turn)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    unsigned last;
    do asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(last) : "l"(arrived) : "memory");
    while ((int)(last - turn) < 0);
    asm volatile("fence.proxy.async.global;" ::: "memory");  // for the copies into shared memory, too
#endif
    (void)arrived, (void)turn;
}

// 10's forward_kernel but for what is marked NEW. c is a multiple of BC.
template <int D, int BC, int GROUPS, bool CAUSAL> __global__ __launch_bounds__(128 * (1 + GROUPS), 1) void push_kernel(
    const __grid_constant__ tensor_map O_map,  // [2, B, Hq, c, D]
    const __grid_constant__ tensor_map Q_map,  // [2, B, Hq, c, D]
    const __grid_constant__ tensor_map K_map,  // [2 ranks, B, Hkv, c, D]
    const __grid_constant__ tensor_map V_map,  // [2 ranks, B, Hkv, c, D]
    float *L,                                  // [2, B, Hq, c]
    const __grid_constant__ walk over, int heads, int bunch, int side_by_side, int group_size, int c, float scale)
{
    constexpr int BR = 64 * GROUPS;
    using registers = register_shares<GROUPS, GROUPS == 2 ? 40 : 32, GROUPS == 2 ? 232 : 160>;
    auto &tiles = shared_memory<forward_tiles<D, BC, GROUPS>>();

    // who am I: of the later chunk, which sees more, all sections come first
    const int tiles_of_chunk = (c - 1) / BR + 1, section = blockIdx.x / (side_by_side * tiles_of_chunk);
    const int n = blockIdx.x % (side_by_side * tiles_of_chunk);                                     // in the section
    const int sections = (heads - 1) / (side_by_side * bunch) + 1, chunk = 1 - section / sections;  // NEW
    const int first_head = (section % sections * side_by_side + n % side_by_side) * bunch;
    const int last_head = min(first_head + bunch, heads);
    const int block_row = (tiles_of_chunk - 1 - n / side_by_side) * BR;
    const int T = c / BC, before = over.chunks[chunk] - 1;  // NEW: chunks before the own one
    const int own = CAUSAL ? (min(c, block_row + BR) - 1) / BC + 1 : T, end = before * T + own;  // NEW: tiles of keys

    if (threadIdx.x == 0) {
        tiles.Q.init(4);
        tiles.K.init(4 * GROUPS);
        tiles.V.init(4 * GROUPS);
        signals_ready();
    }
    __syncthreads();  // the signals are there for all

    // fetch: one thread the queries, one the keys, one the values
    if (warpgroup_id() == 0) {
        registers::give();
        ring_end Q(tiles.Q);
        ring_end K(tiles.K), V(tiles.V);
        const auto fetch = [&](auto &to, const tensor_map &map) {  // NEW
            for (int head = first_head; head < last_head; head++)
                for (int k = before, t = own - 1; k >= 0; k--, t = T - 1) {
                    const int slot = over.slot[chunk][k];
                    wait_for(over.arrived + slot / 2, over.turn);
                    for (; t >= 0; t--) to.send(map, t * BC, (slot * heads + head) / group_size);
                }
        };
        if (threadIdx.x == 0) {
            for (int head = first_head; head < last_head; head++)
                for (int g = 0; g < GROUPS; g++) Q.send(Q_map, block_row + 64 * g, chunk * heads + head);
        } else if (threadIdx.x == 32) {
            fetch(K, K_map);
        } else if (threadIdx.x == 64) {
            fetch(V, V_map);
        }
        return;
    }

    registers::take();
    const int group = warpgroup_id() - 1, group_row = block_row + 64 * group, row = group_row + 16 * warp_in_group();
    const float scale2 = scale * 1.44269504f;  // times log2(e): the scores in base 2, for exp2
    const auto &Q = tiles.Q.tile[group];
    ring_end K(tiles.K), V(tiles.V);
    turns<GROUPS == 2 ? 1 : GROUPS> turn(GROUPS == 2 ? 0 : group);  // two groups are faster without

    const auto mask = [&](reg_tile<16, BC> &S,
                          int t) {  // NEW: no chunk ends within a tile, and the last is the own one
        const int left = row + 1 - (t - before * T) * BC;
        if (CAUSAL && left < BC)
            each(S, [&](float &s, element e) {
                if (e.col >= left + e.row) s = -INFINITY;
            });
    };

    for (int head = first_head; head < last_head; head++) {
        reg_tile<16, D> O = {};
        row_vec<16> m, l = {}, alpha;
        fill(m, -FLT_MAX);  // not -infinity: "nothing yet" minus "nothing yet" must be 0, not NaN
        weights<BC> P;
        int t = end - 1;
        tiles.Q.full[group].wait((head - first_head) & 1);
        for (; CAUSAL && (t - before * T) * BC >= group_row + 64; t--) {  // NEW
            K.receive(), K.release();
            V.receive(), V.release();
            turn.wait(), turn.pass();
        }
        {  // the first tile: nothing to overlap with
            reg_tile<16, BC> S;
            mma_ABt_async(S, Q, K.receive());  // S = Q K^T
            products_done<0>(S);
            K.release();
            mask(S, t);
            softmax_step(S, m, l, alpha, scale2);
            round_to(P, S);
        }
        while (--t >= 0) {
            reg_tile<16, BC> S;
            const auto &K_tile = K.receive();
            turn.wait();
            mma_ABt_async(S, Q, K_tile);      // S = Q K^T
            mma_AB_async(O, P, V.receive());  // O += P V, of the tile before
            turn.pass();
            products_done<1>(S);  // all but one: S is there, O is not
            K.release();
            mask(S, t);
            const bool outgrown = softmax_step(S, m, l, alpha, scale2);
            products_done<0>(O);
            V.release();
            round_to(P, S);  // P V no longer reads the old one
            if (outgrown) scale_rows(O, alpha);
        }
        if (lane_id() == 0) tiles.Q.empty[group].arrive();  // the next head's queries may come
        mma_AB_async(O, P, V.receive());
        products_done<0>(O);
        V.release();

        // finalize
        l = row_sum_whole(l);
        divide_rows(O, l);
        const row_vec<16> L_row = (m + log2(l)) * 0.69314718f;  // ln(2): base e

        // store
        store(L + (size_t)(chunk * heads + head) * c + row, L_row, c - row);
        stores_read();
        warpgroup_meets();  // the tile's last O has left
        store(tiles.O[group], O);
        store_async(O_map, group_row, chunk * heads + head, tiles.O[group]);
    }
    stores_read();  // the block may not end before
}

#define DO(call)                                                                                                       \
    do {                                                                                                               \
        const wb_status done_ = (call);                                                                                \
        if (done_ != WB_OK) return done_;                                                                              \
    } while (0)

// As 10's launch. c: rows of a chunk.
template <int D, int GROUPS, bool CAUSAL> static wb_status launch_push(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const walk &over, int ranks, int c,
    const attention_shape *shape, wb_stream stream)
{
    constexpr int BC = 128, BR = 64 * GROUPS;
    const auto kernel = push_kernel<D, BC, GROUPS, CAUSAL>;
    const int bytes = sizeof(forward_tiles<D, BC, GROUPS>);
    const int heads = shape->batch * shape->q_heads, kv_heads = shape->batch * shape->kv_heads,
              group_size = heads / kv_heads;
    tensor_map O_map, Q_map, K_map, V_map;
    DO(describe(O_map, O, 2 * heads, c, D, 64));
    DO(describe(Q_map, Q, 2 * heads, c, D, 64));
    DO(describe(K_map, K, 2 * ranks * kv_heads, c, D, BC));
    DO(describe(V_map, V, 2 * ranks * kv_heads, c, D, BC));
    int device, processors;
    WB_CUDA(cudaGetDevice(&device));
    WB_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    int section = group_size, bunch = 4;
    const long long tiles = (c - 1) / BR + 1, keys = (long long)c * over.chunks[1];
    while (2 * section <= heads && 2ll * section / group_size * keys * D * 4 <= 32 << 20) section *= 2;
    const auto rounds = [&](long long blocks) { return (blocks - 1) / processors + 1; };
    while (bunch > 1 && (CAUSAL ? 2 * tiles * (section / bunch) * 2 < processors * 3
                                : rounds(2 * tiles * ((heads - 1) / bunch + 1)) * bunch > rounds(2 * tiles * heads)))
        bunch /= 2;
    const int side = CAUSAL ? (section - 1) / bunch + 1 : 1;
    const long long blocks = 2 * tiles * side * ((heads - 1) / (side * bunch) + 1);
    WB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<(unsigned)blocks, 128 * (1 + GROUPS), bytes, stream>>>(
        O_map, Q_map, K_map, V_map, L, over, heads, bunch, side, group_size, c, shape->scale);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

// 17's pairs of chunks, for its ring beside this: what the library's wb_attention is for long chunks on a Hopper GPU.
extern "C" wb_status wb_attention(
    bf16 *O, float *L, const bf16 *Q, const bf16 *K, const bf16 *V, const attention_shape *shape, wb_stream stream)
{
    return flash_hopper(O, L, Q, K, V, shape, stream);
}

// ----------------------------------------------------------------------------------------------------------- inputs, and a check

// Element d of row i of a head, the same on every rank: nearly a normal number.
__global__ void draw_kernel(
    bf16 *to, unsigned tensor, size_t numbers, size_t rows, size_t first,
    int D)  // [heads, rows, D]
{
    for (size_t n = blockIdx.x * (size_t)blockDim.x + threadIdx.x; n < numbers; n += (size_t)gridDim.x * blockDim.x) {
        const size_t head = n / D / rows, i = first + n / D % rows;
        unsigned long long x = tensor + 0x9e3779b97f4a7c15ull * ((head << 36) + i * D + n % D + 1);
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        x ^= x >> 31;
        int sum = 0;
        for (int k = 0; k < 4; k++) sum += (int)(x >> (16 * k) & 0xffff);
        to[n] = __float2bfloat16((float)(sum - 2 * 65535) / 37837.f);
    }
}

// far: of a chunk's rows the largest distance from those of the whole sequence, as a part of their length, and of L. A thread a row.
__global__ void compare_kernel(
    int *far, const bf16 *O, const float *L, const bf16 *O_whole, const float *L_whole, size_t count, size_t c,
    size_t first, size_t N, int D)
{
    const size_t n = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (n >= count) return;
    const size_t at = n / c * N + first + n % c;
    float difference = 0, length = 0;
    for (int d = 0; d < D; d++) {
        const float right = __bfloat162float(O_whole[at * D + d]), e = __bfloat162float(O[n * D + d]) - right;
        difference += e * e, length += right * right;
    }
    const float off = sqrtf(difference / length), L_off = fabsf(L[n] - L_whole[at]);
    atomicMax(&far[0], __float_as_int(off <= 1e30f ? off : 1e30f));  // NaN is further than anything
    atomicMax(&far[1], __float_as_int(L_off <= 1e30f ? L_off : 1e30f));
}

// Keeps a GPU busy for some milliseconds: in them the host queues what is timed; and one rank is late.
__global__ void spend()
{
#ifdef __CUDACC__
    for (const long long begin = clock64(); clock64() - begin < 10 * 1000 * 1000;) {}
#endif
}

// ---------------------------------------------------------------------------------------------------------------- the ranks

static int ranks, runs = 20;
static struct room {
    bf16 *K, *V;        // [2 ranks, B, Hkv, c, D]: all keys, by the rank whose they are
    unsigned *arrived;  // [ranks]
} rooms[MOST];          // of each rank, into which all others write
static float shared[MOST];

#ifdef __CUDACPU__
static void meet() {}  // ranks take turns there
#else
static pthread_barrier_t all_ranks;
static void meet() { pthread_barrier_wait(&all_ranks); }
#endif

template <class Type> static wb_status allocate(Type **at, size_t count)
{
    return wb_device_alloc((void **)at, count * sizeof(Type));
}

// The largest of all ranks.
static float largest(int me, float value)
{
    shared[me] = value;
    meet();
    const float most = *std::max_element(shared, shared + ranks);
    meet();
    return most;
}

// Behind what is on the stream: a word of any GPU's memory, and all that the stream has written is there before it.
static wb_status write_behind(unsigned *at, unsigned value, wb_stream stream)
{
#ifdef __CUDACPU__
    (void)stream;
    return wb_copy_to_device(at, &value, sizeof value);
#else
    typedef CUresult (*writer)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    cudaDriverEntryPointQueryResult found;
    void *function = nullptr;
#if CUDART_VERSION >= 12050
    WB_CUDA(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &function, 12000, cudaEnableDefault, &found));
#else
    WB_CUDA(cudaGetDriverEntryPoint("cuStreamWriteValue32", &function, cudaEnableDefault, &found));
#endif
    if (!function) return wb_fail(WB_DEVICE_ERROR, "the driver has no cuStreamWriteValue32");
    const CUresult result = ((writer)function)(stream, (CUdeviceptr)at, value, 0);
    return result == CUDA_SUCCESS ? WB_OK : wb_fail(WB_DEVICE_ERROR, "cuStreamWriteValue32: error %d", (int)result);
#endif
}

struct rank {
    int me;
    wb_stream stream, wire;
    wb_ring ring;
    attention_shape shape;
    sequence chunks;  // 17's
    int c;            // rows of a chunk: of each as many
    size_t q_chunk, kv_chunk;
    bf16 *Q, *O;  // [2, B, Hq, c, D]
    float *L;
    bf16 *O_whole, *Q_whole, *K_whole, *V_whole;  // of the whole sequence
    float *L_whole;
    char *workspace;
    size_t workspace_bytes;
    int *far;

    // My chunks to all others: first to the one behind me, which walks over them first.
    wb_status send(unsigned turn)
    {
        const room &mine = rooms[me];
        const size_t at = 2 * (size_t)me * kv_chunk, bytes = 2 * kv_chunk * sizeof(bf16);
        for (int step = 1; step < ranks; step++) {
            const room &to = rooms[(me + step) % ranks];
            WB_CUDA(cudaMemcpyAsync(to.K + at, mine.K + at, bytes, cudaMemcpyDeviceToDevice, wire));
            WB_CUDA(cudaMemcpyAsync(to.V + at, mine.V + at, bytes, cudaMemcpyDeviceToDevice, wire));
            DO(write_behind(to.arrived + me, turn, wire));
        }
        return WB_OK;
    }
    // One launch over all chunks, in the order in which they come.
    wb_status attend(unsigned turn)
    {
        walk over = {};
        over.arrived = rooms[me].arrived, over.turn = turn;
        for (int mine = 0; mine < 2; mine++) {
            std::vector<int> slots;
            slots.push_back(2 * me + mine);
            for (int step = 0; step < ranks; step++)
                for (int theirs = 0; theirs < 2; theirs++) {
                    const int owner = (me - step + ranks) % ranks;
                    const auto sees = pair_of(chunks.chunk(me, mine), chunks.chunk(owner, theirs), shape.causal);
                    if (sees != EMPTY && 2 * owner + theirs != slots[0]) slots.push_back(2 * owner + theirs);
                }
            over.chunks[mine] = (int)slots.size();
            std::copy(slots.rbegin(), slots.rend(), over.slot[mine]);  // walks go from right to left
        }
        auto go = shape.causal ? launch_push<128, 2, true> : launch_push<128, 2, false>;
        if (shape.head_dim == 64) go = shape.causal ? launch_push<64, 3, true> : launch_push<64, 3, false>;
        return go(O, L, Q, rooms[me].K, rooms[me].V, over, ranks, c, &shape, stream);
    }
    wb_status push(unsigned turn)
    {
        event begun, sent;
        for (event *e : {&begun, &sent}) WB_CUDA(e->make());
        WB_CUDA(cudaEventRecord(begun.it, stream));
        WB_CUDA(cudaStreamWaitEvent(wire, begun.it, 0));  // what is sent is there
        DO(send(turn));
        WB_CUDA(cudaEventRecord(sent.it, wire));
        DO(attend(turn));
        WB_CUDA(cudaStreamWaitEvent(stream, sent.it, 0));  // and may be overwritten behind it
        return WB_OK;
    }
    wb_status ring_of_17()
    {
        const size_t at = 2 * (size_t)me * kv_chunk;
        return flash_ring(
            O, L, Q, rooms[me].K + at, rooms[me].V + at, workspace, workspace_bytes, &shape, &ring, stream);
    }
    wb_status alone() { return flash_hopper(O_whole, L_whole, Q_whole, K_whole, V_whole, &shape, stream); }

    wb_status draw(bf16 *to, unsigned tensor, int heads, size_t rows, size_t first)
    {
        draw_kernel<<<1024, 256, 0, stream>>>(to, tensor, heads * rows * shape.head_dim, rows, first, shape.head_dim);
        WB_CUDA(cudaGetLastError());
        return WB_OK;
    }
    wb_status make(int N, int D, bool causal)
    {
        shape = {1, 32, 8, N, N, D, 1 / sqrtf((float)D), causal, 0, 0};
#ifdef __CUDACPU__
        shape.q_heads = 6, shape.kv_heads = 2;
#endif
        chunks = {N, ranks}, c = chunks.rows(0);
        q_chunk = (size_t)shape.q_heads * c * D, kv_chunk = (size_t)shape.kv_heads * c * D;
        const size_t q_whole = (size_t)shape.q_heads * N * D, kv_whole = (size_t)shape.kv_heads * N * D;
        room &mine = rooms[me];
        for (bf16 **t : {&Q, &O}) DO(allocate(t, 2 * q_chunk));
        for (bf16 **t : {&Q_whole, &O_whole}) DO(allocate(t, q_whole));
        for (bf16 **t : {&mine.K, &mine.V, &K_whole, &V_whole}) DO(allocate(t, kv_whole));
        DO(allocate(&L, 2 * q_chunk / D));
        DO(allocate(&L_whole, q_whole / D));
        DO(allocate(&mine.arrived, MOST));
        DO(allocate(&far, 2));
        workspace_bytes = flash_ring_workspace(&shape, &ring);
        DO(allocate(&workspace, workspace_bytes));

        const unsigned always = 1u << 30;  // my own have come
        WB_CUDA(cudaMemsetAsync(mine.arrived, 0, MOST * sizeof *mine.arrived, stream));
        WB_CUDA(cudaMemsetAsync(far, 0, 2 * sizeof *far, stream));
        for (bf16 *t : {mine.K, mine.V})  // NaN, until it comes
            WB_CUDA(cudaMemsetAsync(t, 0xff, kv_whole * sizeof(bf16), stream));
        WB_CUDA(cudaMemsetAsync(O, 0xff, 2 * q_chunk * sizeof(bf16), stream));
        DO(draw(Q_whole, 0, shape.q_heads, N, 0));
        DO(draw(K_whole, 1, shape.kv_heads, N, 0));
        DO(draw(V_whole, 2, shape.kv_heads, N, 0));
        for (int which = 0; which < 2; which++) {
            const size_t first = (size_t)chunks.chunk(me, which) * c, at = (2 * me + which) * kv_chunk;
            DO(draw(Q + which * q_chunk, 0, shape.q_heads, c, first));
            DO(draw(mine.K + at, 1, shape.kv_heads, c, first));
            DO(draw(mine.V + at, 2, shape.kv_heads, c, first));
        }
        WB_CUDA(cudaStreamSynchronize(stream));
        DO(wb_copy_to_device(mine.arrived + me, &always, sizeof always));
        return WB_OK;
    }
    // Against the whole sequence on this GPU, which has been attended to.
    wb_status compare(float off[2])
    {
        WB_CUDA(cudaMemsetAsync(far, 0, 2 * sizeof *far, stream));
        const size_t rows = (size_t)shape.q_heads * c;
        for (int which = 0; which < 2; which++)
            compare_kernel<<<(unsigned)((rows - 1) / 128 + 1), 128, 0, stream>>>(
                far, O + which * q_chunk, L + which * rows, O_whole, L_whole, rows, c,
                (size_t)chunks.chunk(me, which) * c, shape.q_len, shape.head_dim);
        WB_CUDA(cudaGetLastError());
        WB_CUDA(cudaStreamSynchronize(stream));
        DO(wb_copy_to_host(off, far, 2 * sizeof *off));
        for (int i = 0; i < 2; i++) off[i] = largest(me, off[i]);
        return WB_OK;
    }
    wb_status end()
    {
        WB_CUDA(cudaDeviceSynchronize());
        meet();  // nobody writes into my memory any more
        const room &mine = rooms[me];
        for (void *p :
             {(void *)Q, (void *)O, (void *)L, (void *)Q_whole, (void *)K_whole, (void *)V_whole, (void *)O_whole,
              (void *)L_whole, (void *)workspace, (void *)far, (void *)mine.K, (void *)mine.V, (void *)mine.arrived})
            DO(wb_device_free(p));
        return WB_OK;
    }
};

static wb_status refuse(int N, int D)
{
    const int rows = 2 * ranks * 128;
    if (N < rows || N % rows) return wb_fail(WB_UNSUPPORTED, "N %d: %d ranks take multiples of %d", N, ranks, rows);
    if (D != 64 && D != 128) return wb_fail(WB_UNSUPPORTED, "D %d: 64 and 128 are taken", D);
    return WB_OK;
}

static void say(int N, const char *what, const float off[2])
{
    const bool right = off[0] <= 0.02f && off[1] <= 0.02f;  // rounding to bf16 is 2^-9
    printf(
        "# %s, %d ranks, N %d: O off by %.1e of a row's length, L by %.1e: %s\n", what, ranks, N, off[0], off[1],
        right ? "right" : "WRONG");
    fflush(stdout);
    if (!right) _exit(3);
}

#ifdef __CUDACPU__

// One process plays one GPU: it is all ranks in turn, and all keys have come before any is walked over.
static wb_status run(int N, int D, bool causal)
{
    std::vector<rank> all(ranks);
    float off[2] = {}, now[2];
    for (int me = 0; me < ranks; me++) {
        all[me].me = me, all[me].ring = {nullptr, me, ranks, nullptr};
        WB_CUDA(cudaStreamCreateWithFlags(&all[me].stream, cudaStreamNonBlocking));
        all[me].wire = all[me].stream;
        DO(all[me].make(N, D, causal));
    }
    for (rank &r : all) DO(r.send(1));
    WB_CUDA(cudaDeviceSynchronize());
    for (rank &r : all) {
        DO(r.attend(1));
        DO(r.alone());
        DO(r.compare(now));
        for (int i = 0; i < 2; i++) off[i] = std::max(off[i], now[i]);
    }
    say(N, "push", off);
    for (rank &r : all) DO(r.end());
    return WB_OK;
}

#else

static ncclUniqueId id;
static bool with_ring;  // where there is NCCL

// Keys of others that have come before are NaN again.
static wb_status forget(const rank &r)
{
    const size_t mine = 2 * (size_t)r.me * r.kv_chunk, behind = mine + 2 * r.kv_chunk,
                 all = 2 * (size_t)ranks * r.kv_chunk;
    for (bf16 *t : {rooms[r.me].K, rooms[r.me].V}) {
        WB_CUDA(cudaMemsetAsync(t, 0xff, mine * sizeof(bf16), r.stream));
        WB_CUDA(cudaMemsetAsync(t + behind, 0xff, (all - behind) * sizeof(bf16), r.stream));
    }
    WB_CUDA(cudaMemsetAsync(r.O, 0xff, 2 * r.q_chunk * sizeof(bf16), r.stream));
    WB_CUDA(cudaStreamSynchronize(r.stream));
    meet();
    return WB_OK;
}

enum { PUSH, RING, ALONE, WAYS };

static wb_status time_it(rank &r, unsigned &turn, int N, bool causal)
{
    static const char *const names[WAYS] = {"push", "key", "alone"};
    std::vector<float> ms[WAYS];
    cudaEvent_t begin, end;
    WB_CUDA(cudaEventCreate(&begin));
    WB_CUDA(cudaEventCreate(&end));
    for (int run = -2; run < runs; run++)
        for (int way = 0; way < WAYS; way++) {
            float now;
            if (way == RING && !with_ring) continue;
            meet();
            spend<<<1, 1, 0, r.stream>>>();
            WB_CUDA(cudaGetLastError());
            WB_CUDA(cudaEventRecord(begin, r.stream));
            DO(way == PUSH ? r.push(++turn) : way == RING ? r.ring_of_17() : r.alone());
            WB_CUDA(cudaEventRecord(end, r.stream));
            WB_CUDA(cudaEventSynchronize(end));
            WB_CUDA(cudaEventElapsedTime(&now, begin, end));
            now = largest(r.me, now);
            if (run >= 0) ms[way].push_back(way == ALONE ? now / (float)ranks : now);
        }
    WB_CUDA(cudaEventDestroy(begin));
    WB_CUDA(cudaEventDestroy(end));
    const double pairs = causal ? 0.5 * N * (N + 1.0) : 1.0 * N * N;
    const attention_shape &s = r.shape;
    const size_t all_keys = 2 * (size_t)ranks * r.kv_chunk * 2 * sizeof(bf16);
    const size_t own = all_keys / ranks + 2 * r.q_chunk * 2 * sizeof(bf16) + 2 * r.q_chunk / s.head_dim * sizeof(float);
    const size_t peak[WAYS] = {own + all_keys - all_keys / ranks, own + r.workspace_bytes, 0};
    for (int way = 0; way < WAYS && r.me == 0; way++) {
        if (ms[way].empty()) continue;
        std::sort(ms[way].begin(), ms[way].end());
        const size_t n = ms[way].size();
        printf(
            "17\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.5g\t%.5g\t%.5g\t%.5g\t%zu\t%zu\n", names[way], s.batch,
            s.q_heads, s.kv_heads, N, N, s.head_dim, causal, ranks, ms[way][n / 2], ms[way][n / 10],
            ms[way][n - 1 - n / 10], 4e-9 * s.q_heads * s.head_dim * pairs / ms[way][n / 2] / ranks,
            way == ALONE ? 0 : own, peak[way]);
    }
    fflush(stdout);
    return WB_OK;
}

static wb_status run(rank &r, unsigned &turn, int N, int D, bool causal)
{
    float off[2];
    DO(r.make(N, D, causal));
    meet();
    // In the first turn all keys are there before any launch: kernels are loaded at their first one, which may wait for what runs.
    DO(r.send(++turn));
    WB_CUDA(cudaStreamSynchronize(r.wire));
    meet();
    spend<<<1, 1, 0, r.stream>>>();
    DO(r.attend(turn));
    if (with_ring) DO(r.ring_of_17());
    DO(r.alone());
    WB_CUDA(cudaStreamSynchronize(r.stream));
    if (with_ring) {
        DO(forget(r));
        DO(r.ring_of_17());
        DO(r.compare(off));
        if (r.me == 0) say(N, "17's ring", off);
    }
    // What rank 0 sends comes late, when all others wait for it.
    DO(forget(r));
    if (r.me == 0) spend<<<1, 1, 0, r.stream>>>();
    DO(r.push(++turn));
    DO(r.compare(off));
    if (r.me == 0) say(N, "push", off);
    DO(time_it(r, turn, N, causal));
    return r.end();
}

struct asked {
    int N, D;
    bool causal;
};

static wb_status be(int me, const std::vector<asked> &rows)
{
    rank r = {};
    unsigned turn = 0;
    int least = 0, most = 0;  // where products fill a GPU, what travels has to come first
    r.me = me;
    WB_CUDA(cudaSetDevice(me));
    DO(check_hopper("push"));
    for (int to = 0; to < ranks; to++)
        if (to != me) WB_CUDA(cudaDeviceEnablePeerAccess(to, 0));
    WB_CUDA(cudaDeviceGetStreamPriorityRange(&least, &most));
    WB_CUDA(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
    WB_CUDA(cudaStreamCreateWithPriority(&r.wire, cudaStreamNonBlocking, most));
    r.ring = {nullptr, me, ranks, r.wire};
    if (with_ring) WB_NCCL(ncclCommInitRank(&r.ring.comm, ranks, id, me));
    for (const asked &row : rows) DO(run(r, turn, row.N, row.D, row.causal));
    if (with_ring) WB_NCCL(ncclCommDestroy(r.ring.comm));
    return WB_OK;
}

static wb_status begin()
{
    int devices = 0;
    WB_CUDA(cudaGetDeviceCount(&devices));
    if (ranks == 0) ranks = std::min<int>(devices, MOST);
    if (ranks < 2 || devices < ranks)
        return wb_fail(WB_UNSUPPORTED, "%d GPUs are wanted, and %d are here", std::max(ranks, 2), devices);
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++) {
            int can = a == b;
            if (a != b) WB_CUDA(cudaDeviceCanAccessPeer(&can, a, b));
            if (!can)
                return wb_fail(
                    WB_UNSUPPORTED,
                    "GPU %d has no access to the memory of %d: copies would need "
                    "multiprocessors, and the wait would never end",
                    a, b);
        }
    with_ring = ncclGetUniqueId(&id) == ncclSuccess;
    if (!with_ring) printf("# without 17's ring: %s\n", ncclGetErrorString(ncclSystemError));
    return WB_OK;
}

#endif

int main(int argc, char **argv)
{
    if (argc > 1) ranks = atoi(argv[1]);
    const int N = argc > 2 ? atoi(argv[2]) : 0, D = argc > 3 ? atoi(argv[3]) : 128;
    const bool full = argc > 4 && !strcmp(argv[4], "full");
    if (argc > 5) runs = std::max(1, atoi(argv[5]));
    wb_status status = WB_OK;
    if ((argc > 4 && !full && strcmp(argv[4], "causal")) || ranks < 0 || ranks > MOST || argc > 6)
        status = wb_fail(WB_BAD_ARGUMENT, "push [RANKS [N [D [causal|full [RUNS]]]]], %d ranks at most", MOST);
#ifdef __CUDACPU__
    if (ranks == 0) ranks = 2;
    const int length = N ? N : 512;
    if (status == WB_OK) status = refuse(length, D);
    if (status == WB_OK) status = run(length, D, !full);
#else
    if (status == WB_OK) status = begin();
    std::vector<asked> rows;
    for (const int length : {32768, 131072})
        for (const bool causal : {true, false}) rows.push_back({length, D, causal});
    if (N) rows = {{N, D, !full}};
    for (const asked &row : rows)
        if (status == WB_OK) status = refuse(row.N, row.D);
    if (status == WB_OK) {
        pthread_barrier_init(&all_ranks, nullptr, (unsigned)ranks);
        printf(
            "problem\timpl\tB\tHq\tHkv\tNq\tNk\tD\tcausal\tranks\tms\tms_p10\tms_p90\ttflops\tio_bytes\tpeak_bytes\n");
        std::vector<std::thread> threads;
        for (int me = 0; me < ranks; me++)
            threads.emplace_back([&rows, me] {
                if (be(me, rows) == WB_OK) return;
                fprintf(stderr, "push: rank %d: %s\n", me, wb_last_message());
                _exit(2);  // the others wait for it
            });
        for (std::thread &t : threads) t.join();
    }
#endif
    if (status != WB_OK) fprintf(stderr, "push: %s\n", wb_last_message());
    return status == WB_OK ? 0 : 2;
}
