// ranks.cu - what the CPU execution layer says of several ranks (cpu/flight.h, cpu/nccl.cpp): attention over a ring of R processes is right, in
// each way that is right, and each mistake of a ring is told, with the line that made it.
//
// A mistake is a number, and the lines that it is to be told by are marked: // @mark.
#include "play_ranks.h"

TestSuite(ranks, .timeout = 60);

#ifndef __CUDACPU__  // elsewhere NCCL is NVIDIA's, and tells none of this
Test(ranks, of_the_layer) { cr_skip_test("the CPU execution layer's: BACKEND=cpu"); }
#else

#include <cuda_bf16.h>
#include <math.h>
#include <nccl.h>

enum { D = 16, MOST = 8 };

enum mistake {
    NONE,
    // what is right, too
    HOST_WAITS,
    ONE_STREAM,
    TWO_GROUPS,
    EVEN_ODD,
    TWO_COMPUTE,
    RECEIVED_LATER,
    BLOCKING,
    GATHERED,
    FIRST_WRONG,
    NO_WAIT = FIRST_WRONG,
    NO_ROOM,
    WRONG_PEER,
    ALL_SEND_FIRST,
    OTHER_EVENT,
    MERGE_ASTRAY,
    ZEROED,
    DEFAULT_STREAM,
    NOT_JOINED,
    OTHER_SIZE,
    SENDS_PAST,
    RECEIVES_PAST,
    HOST_MEMORY,
    ONE_LEAVES,
    IN_PLACE,
    BEFORE_INPUTS,
    COPIED_EARLY,
    EARLY_EVENT,
    NOT_GATHERED,
    ONE_SUM_LESS,
    ADDED_EARLY,
    SENT_EARLY,
    FREED,
    NO_SUCH_RANK,
    TWO_RECEIVE,
    // no attention
    SUMS,
    QUEUED_FIRST
};

static struct {
    int mistake, R, N, H, causal;
    float *Q, *K, *V, *O, *L;  // the whole, shared: [H, N, D], L [H, N]
    unsigned seed;
} g;

static unsigned draw(unsigned n)  // 0 to n - 1
{
    g.seed = g.seed * 1664525u + 1013904223u;
    return (g.seed >> 8) % n;
}

static int chunk_rows(int k) { return g.N / (2 * g.R) + (k < g.N % (2 * g.R)); }
static int chunk_of(int rank, int half) { return half ? 2 * g.R - 1 - rank : rank; }
static int rows_of(int rank) { return chunk_rows(chunk_of(rank, 0)) + chunk_rows(chunk_of(rank, 1)); }
static int first_row(int k)
{
    int at = 0;
    for (int i = 0; i < k; i++) at += chunk_rows(i);
    return at;
}

static void cuda(cudaError_t error, int line)
{
    if (error == cudaSuccess) return;
    fprintf(stderr, "%s, line %d\n", cudaGetErrorString(error), line);
    _exit(3);
}
static void nccl(ncclResult_t result, int line)
{
    if (result == ncclSuccess) return;
    fprintf(stderr, "refused: %s, line %d\n", ncclGetLastError(nullptr), line);
    _exit(3);
}
#define CUDA(call) cuda(call, __LINE__)
#define NCCL(call) nccl(call, __LINE__)

// ------------------------------------------------------------------------------------------------------------------ the ring

// One thread a row: Q [rows, D] of one head against K, V [keys, D] of it; what was known before, in O and L, is merged in.
__global__ void attend(float *O, float *L, const float *Q, const float *K, const float *V, int rows, int keys,
                       int diagonal, int first)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, h = blockIdx.y;
    if (i >= rows) return;
    const float *q = Q + (h * rows + i) * D;
    float m = first ? -INFINITY : L[h * rows + i], l = first ? 0 : 1, o[D];
    for (int d = 0; d < D; d++) o[d] = first ? 0 : O[(h * rows + i) * D + d];
    for (int j = 0; j < (diagonal ? i + 1 : keys); j++) {
        const float *k = K + (h * keys + j) * D, *v = V + (h * keys + j) * D;
        float s = 0;
        for (int d = 0; d < D; d++) s += q[d] * k[d] / 4;
        const float now = fmaxf(m, s), scale = m == -INFINITY ? 0 : expf(m - now), p = expf(s - now);
        m = now, l = l * scale + p;
        for (int d = 0; d < D; d++) o[d] = o[d] * scale + p * v[d];
    }
    for (int d = 0; d < D; d++) O[(h * rows + i) * D + d] = o[d] / l;
    L[h * rows + i] = m + logf(l);
}

__global__ void scale_by(float *x, int n, float by)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}

// Calls on the chunks of `rank` with those of `owner`; `first`: nothing is known yet.
static void products(float *O, float *L, const float *Q, const float *K, const float *V, int rank, int owner,
                     bool seen[2], cudaStream_t stream, cudaStream_t second)
{
    for (int q = 0; q < 2; q++)
        for (int half = 0; half < 2; half++) {
            const int mine = chunk_of(rank, q), theirs = chunk_of(owner, half), rows = chunk_rows(mine),
                      keys = chunk_rows(theirs);
            if (g.causal && theirs > mine) continue;
            const size_t q_at = q ? (size_t)g.H * chunk_rows(chunk_of(rank, 0)) : 0,
                         kv_at = half ? (size_t)g.H * chunk_rows(chunk_of(owner, 0)) * D : 0;
            const int diagonal = g.causal && theirs == mine;
            const dim3 grid((rows + 31) / 32, g.H);
            float *o = O + q_at * D, *l = L + q_at;
            const float *k = K + kv_at, *v = V + kv_at;
            const cudaStream_t on = q ? second : stream;
            attend<<<grid, 32, 0, on>>>(o, l, Q + q_at * D, k, v, rows, keys, diagonal, !seen[q]);  // @attend
            seen[q] = true;
        }
}

static void ring(float *O, float *L, const float *Q, float *K, float *V, int r, ncclComm_t comm, cudaStream_t wire,
                 cudaStream_t stream)
{
    const int R = g.R, next = (r + 1) % R, before = (r + R - 1) % R, wrong = g.mistake;
    const size_t most = (size_t)g.H * ((g.N - 1) / (2 * R) + 1) * 2 * D;  // of K, or V, of any rank
    float *come[2][2];
    cudaEvent_t begun, arrived[2], read[2], joined;
    for (cudaEvent_t *e : {&begun, &arrived[0], &arrived[1], &read[0], &read[1], &joined})
        CUDA(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    for (int b = 0; b < 4; b++) CUDA(cudaMalloc(&come[b / 2][b % 2], most * sizeof(float)));
    cudaStream_t second = stream, given = stream;
    if (wrong == ONE_STREAM) wire = stream;
    if (wrong == TWO_COMPUTE || wrong == MERGE_ASTRAY || wrong == NOT_JOINED)
        CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    if (wrong == NOT_JOINED) stream = second;
    if (wrong == DEFAULT_STREAM || wrong == BLOCKING) stream = second = nullptr;
    CUDA(cudaEventRecord(begun, given));
    if (wrong != BEFORE_INPUTS) CUDA(cudaStreamWaitEvent(wire, begun, 0));
    if (second != given) CUDA(cudaStreamWaitEvent(second, begun, 0));
    bool seen[2] = {false, false};
    for (int s = 0; s < R; s++) {
        const int owner = (r - s + R) % R, to = (s + 1) % 2;
        float *here[2] = {s ? come[s % 2][0] : K, s ? come[s % 2][1] : V};
        if (wrong == RECEIVED_LATER && s > 0) CUDA(cudaStreamWaitEvent(wire, read[to], 0));
        if (s > 0 && wrong != NO_WAIT) {
            if (wrong == HOST_WAITS) CUDA(cudaEventSynchronize(arrived[s % 2]));
            CUDA(cudaStreamWaitEvent(stream, arrived[wrong == OTHER_EVENT ? to : s % 2], 0));
            if (wrong == TWO_COMPUTE) CUDA(cudaStreamWaitEvent(second, arrived[s % 2], 0));
        }
        if (s + 1 < R && !(wrong == ONE_LEAVES && r == 1 && s > 0)) {
            if (s > 1 && wrong != NO_ROOM) CUDA(cudaStreamWaitEvent(wire, read[to], 0));
            if (s > 1 && wrong == HOST_WAITS) CUDA(cudaStreamSynchronize(stream));
            const size_t leaves = (size_t)g.H * rows_of(owner) * D,
                         comes = (size_t)g.H * rows_of(wrong == OTHER_SIZE ? owner : (owner + R - 1) % R) * D;
            if (wrong == EARLY_EVENT) CUDA(cudaEventRecord(arrived[to], wire));
            const bool last_first = wrong == EVEN_ODD && r % 2;
            if (wrong != ALL_SEND_FIRST && wrong != EVEN_ODD) NCCL(ncclGroupStart());
            const int peer = wrong == WRONG_PEER ? before : wrong == NO_SUCH_RANK ? R : next;
            const size_t out = leaves + (wrong == SENDS_PAST ? most : 0),
                         in = comes + (wrong == RECEIVES_PAST ? most : 0);
            for (int x = 0; x < 2; x++) {
                const float *from = wrong == HOST_MEMORY ? g.K : here[x];
                float *into = wrong == IN_PLACE && s ? here[x] : wrong == TWO_RECEIVE ? come[to][0] : come[to][x];
                if (last_first) NCCL(ncclRecv(into, in, ncclFloat, before, comm, wire));
                NCCL(ncclSend(from, out, ncclFloat, peer, comm, wire));                    // @send
                if (!last_first) NCCL(ncclRecv(into, in, ncclFloat, before, comm, wire));  // @receive
                if (wrong == TWO_GROUPS && x == 0) NCCL(ncclGroupEnd()), NCCL(ncclGroupStart());
            }
            if (wrong != ALL_SEND_FIRST && wrong != EVEN_ODD) NCCL(ncclGroupEnd());
            if (wrong != EARLY_EVENT) CUDA(cudaEventRecord(arrived[to], wire));
            if (wrong == ZEROED) CUDA(cudaMemsetAsync(here[0], 0, 64, stream));  // @zeroed
            if (wrong == COPIED_EARLY)
                CUDA(cudaMemcpyAsync(O, come[to][0], 64, cudaMemcpyDeviceToDevice, stream));  // @copied
            if (wrong == FREED) CUDA(cudaFreeAsync(come[to][1], stream));                     // @freed
        }
        products(O, L, Q, here[0], here[1], r, owner, seen, wrong == MERGE_ASTRAY && s % 2 ? second : stream,
                 wrong == TWO_COMPUTE ? second : stream);
        if (wrong == TWO_COMPUTE) {
            CUDA(cudaEventRecord(joined, second));
            CUDA(cudaStreamWaitEvent(stream, joined, 0));
        }
        if (s > 0) CUDA(cudaEventRecord(read[s % 2], stream));
    }
    for (cudaEvent_t e : {begun, arrived[0], arrived[1], read[0], read[1], joined}) CUDA(cudaEventDestroy(e));
}

// Keys and values of all, then one call after the other. What is gathered has the ranks' parts at equal distances.
static void gathered(float *O, float *L, const float *Q, float *K, float *V, int r, ncclComm_t comm, cudaStream_t wire,
                     cudaStream_t stream)
{
    const size_t most = (size_t)g.H * ((g.N - 1) / (2 * g.R) + 1) * 2 * D;
    float *all[2], *part[2];
    cudaEvent_t begun, arrived;
    CUDA(cudaEventCreate(&begun)), CUDA(cudaEventCreate(&arrived));
    CUDA(cudaEventRecord(begun, stream));
    CUDA(cudaStreamWaitEvent(wire, begun, 0));
    for (int x = 0; x < 2; x++) {
        CUDA(cudaMalloc(&all[x], g.R * most * sizeof(float)));
        CUDA(cudaMalloc(&part[x], most * sizeof(float)));
        CUDA(cudaMemcpyAsync(part[x], x ? V : K, (size_t)g.H * rows_of(r) * D * sizeof(float), cudaMemcpyDeviceToDevice,
                             wire));
        NCCL(ncclAllGather(part[x], all[x], most, ncclFloat, comm, wire));  // @gather
    }
    CUDA(cudaEventRecord(arrived, wire));
    bool seen[2] = {false, false};
    products(O, L, Q, K, V, r, r, seen, stream, stream);
    if (g.mistake != NOT_GATHERED) CUDA(cudaStreamWaitEvent(stream, arrived, 0));
    for (int owner = 0; owner < g.R; owner++)
        if (owner != r) products(O, L, Q, all[0] + owner * most, all[1] + owner * most, r, owner, seen, stream, stream);
}

// A gradient goes round, and each rank adds to it.
static void travelling(int r, ncclComm_t comm, cudaStream_t wire, cudaStream_t stream)
{
    float *x[MOST + 1];
    cudaEvent_t arrived, added;
    CUDA(cudaEventCreate(&arrived)), CUDA(cudaEventCreate(&added));
    for (float *&p : x) CUDA(cudaMalloc(&p, 4096));
    CUDA(cudaMemsetAsync(x[0], 0, 4096, wire));
    for (int s = 0; s < g.R; s++) {
        NCCL(ncclGroupStart());
        NCCL(ncclSend(x[s], 1024, ncclFloat, (r + 1) % g.R, comm, wire));            // @home
        NCCL(ncclRecv(x[s + 1], 1024, ncclFloat, (r + g.R - 1) % g.R, comm, wire));  // @comes
        NCCL(ncclGroupEnd());
        CUDA(cudaEventRecord(arrived, wire));
        if (g.mistake != ADDED_EARLY) CUDA(cudaStreamWaitEvent(stream, arrived, 0));
        scale_by<<<32, 32, 0, stream>>>(x[s + 1], 1024, 2);  // @add
        CUDA(cudaEventRecord(added, stream));
        if (g.mistake != SENT_EARLY) CUDA(cudaStreamWaitEvent(wire, added, 0));
    }
}

// Every rank has rank + 1, and more of it further on: what a collective call makes of that is known.
static void expect_each(const char *what, const void *device, int count, int type, const double *want)
{
    char host[256];
    CUDA(cudaMemcpy(host, device,
                    (size_t)count * (type == ncclFloat64    ? 8
                                     : type == ncclBfloat16 ? 2
                                                            : 4),
                    cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) {
        const double got = type == ncclFloat64    ? ((double *)host)[i]
                           : type == ncclBfloat16 ? __bfloat162float(((__nv_bfloat16 *)host)[i])
                           : type == ncclInt32    ? ((int *)host)[i]
                                                  : ((float *)host)[i];
        if (got == want[i]) continue;
        fprintf(stderr, "%s, type %d: element %d is %g, not %g\n", what, type, i, got, want[i]);
        _exit(4);
    }
}

static void sums(int r, ncclComm_t comm, cudaStream_t wire)
{
    const int R = g.R;
    for (ncclDataType_t type : {ncclFloat32, ncclFloat64, ncclInt32, ncclBfloat16}) {
        const size_t size = type == ncclFloat64 ? 8 : type == ncclBfloat16 ? 2 : 4;
        char given[256], *x, *y;
        for (int i = 0; i < 4 * R; i++) {
            const int value = (r + 1) * (i + 1);
            const float f = (float)value;
            const double d = value;
            const __nv_bfloat16 b = __float2bfloat16(f);
            memcpy(given + i * size,
                   type == ncclFloat64    ? (const void *)&d
                   : type == ncclBfloat16 ? (const void *)&b
                   : type == ncclInt32    ? (const void *)&value
                                          : (const void *)&f,
                   size);
        }
        CUDA(cudaMalloc(&x, 4 * R * size));
        CUDA(cudaMalloc(&y, 4 * R * size));
        const auto again = [&] { CUDA(cudaMemcpyAsync(x, given, 4 * R * size, cudaMemcpyHostToDevice, wire)); };
        double all[32], most[32], least[32], root[32], part[4], parts[32];
        for (int i = 0; i < 4 * R; i++) {
            all[i] = R * (R + 1) / 2 * (i + 1), most[i] = R * (i + 1), least[i] = i + 1,
            root[i] = (R / 2 + 1) * (i + 1);
            parts[i] = (i / 4 + 1) * (i % 4 + 1);
        }
        for (int i = 0; i < 4; i++) part[i] = all[4 * r + i];
        again();
        NCCL(ncclAllReduce(x, y, 4 * R, type, ncclSum, comm, wire));
        CUDA(cudaStreamSynchronize(wire));
        expect_each("a sum", y, 4 * R, type, all);
        NCCL(ncclAllReduce(x, x, 4 * R, type, ncclMax, comm, wire));
        CUDA(cudaStreamSynchronize(wire));
        expect_each("the most, in place", x, 4 * R, type, most);
        again();
        NCCL(ncclAllReduce(x, y, 4 * R, type, ncclMin, comm, wire));
        CUDA(cudaStreamSynchronize(wire));
        expect_each("the least", y, 4 * R, type, least);
        NCCL(ncclReduceScatter(x, y, 4, type, ncclSum, comm, wire));
        CUDA(cudaStreamSynchronize(wire));
        expect_each("a part of a sum", y, 4, type, part);
        NCCL(ncclReduceScatter(x, x + 4 * r * size, 4, type, ncclSum, comm, wire));
        CUDA(cudaStreamSynchronize(wire));
        expect_each("a part of a sum, in place", x + 4 * r * size, 4, type, part);
        again();
        NCCL(ncclBroadcast(x, y, 4 * R, type, R / 2, comm, wire));
        CUDA(cudaStreamSynchronize(wire));
        expect_each("a broadcast", y, 4 * R, type, root);
        NCCL(ncclAllGather(x, y, 4, type, comm, wire));
        CUDA(cudaStreamSynchronize(wire));
        expect_each("all", y, 4 * R, type, parts);
        CUDA(cudaMemcpyAsync(x + 4 * r * size, given, 4 * size, cudaMemcpyHostToDevice, wire));
        NCCL(ncclAllGather(x + 4 * r * size, x, 4, type, comm, wire));
        CUDA(cudaStreamSynchronize(wire));
        expect_each("all, in place", x, 4 * R, type, parts);
    }
}

// What is received is waited for by a kernel that all ranks queue before any of them sends: nothing makes a send wait for that.
static void queued_first(int r, ncclComm_t comm, cudaStream_t wire, cudaStream_t stream)
{
    cudaStream_t out;
    cudaEvent_t arrived;
    float *x, *y;
    const double want = 2 * ((r + g.R - 1) % g.R);
    CUDA(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&arrived));
    CUDA(cudaMalloc(&x, 4)), CUDA(cudaMalloc(&y, 4));
    const float mine = (float)r;
    CUDA(cudaMemcpyAsync(x, &mine, 4, cudaMemcpyHostToDevice, out));
    NCCL(ncclRecv(y, 1, ncclFloat, (r + g.R - 1) % g.R, comm, wire));
    CUDA(cudaEventRecord(arrived, wire));
    CUDA(cudaStreamWaitEvent(stream, arrived, 0));
    scale_by<<<1, 1, 0, stream>>>(y, 1, 2);
    NCCL(ncclSend(x, 1, ncclFloat, (r + 1) % g.R, comm, out));
    CUDA(cudaStreamSynchronize(stream));
    expect_each("what came", y, 1, ncclFloat32, &want);
}

// --------------------------------------------------------------------------------------------------------------------- judge

// Between the whole [H, N, width] and a rank's chunks.
static void shard(float *whole, float *mine, int rank, int width, bool back)
{
    for (int half = 0; half < 2; half++) {
        const int k = chunk_of(rank, half), rows = chunk_rows(k);
        for (int h = 0; h < g.H; h++, mine += rows * width) {
            float *there = whole + ((size_t)h * g.N + first_row(k)) * width;
            memcpy(back ? there : mine, back ? mine : there, sizeof(float) * rows * width);
        }
    }
}

static void be_rank(void *board, int r)
{
    const size_t rows = (size_t)g.H * rows_of(r);
    float *host = (float *)malloc(rows * D * sizeof(float)), *x[3], *late[3], *O, *L, *sum;
    CUDA(cudaMalloc(&O, rows * D * sizeof(float)));
    CUDA(cudaMalloc(&L, rows * sizeof(float)));
    CUDA(cudaMalloc(&sum, 64));
    for (int k = 0; k < 3; k++) {
        CUDA(cudaMalloc(&x[k], rows * D * sizeof(float)));
        CUDA(cudaMalloc(&late[k], rows * D * sizeof(float)));
        shard(k == 0 ? g.Q : k == 1 ? g.K : g.V, host, r, D, false);
        CUDA(cudaMemcpy(late[k], host, rows * D * sizeof(float), cudaMemcpyHostToDevice));
    }
    ncclComm_t comm = wb_rank_begin(board, r, g.R);
    cudaStream_t stream, wire;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&wire, cudaStreamNonBlocking));
    for (int k = 0; k < 3; k++)
        CUDA(cudaMemcpyAsync(x[k], late[k], rows * D * sizeof(float), cudaMemcpyDeviceToDevice, stream));  // @inputs
    if (g.mistake == BLOCKING) {  // each of these waits for the default stream, and that for each of them
        CUDA(cudaStreamSynchronize(stream));
        CUDA(cudaStreamCreate(&wire));
        CUDA(cudaStreamCreate(&stream));
    }
    if (g.mistake >= SUMS) {
        g.mistake == SUMS ? sums(r, comm, wire) : queued_first(r, comm, wire, stream);
        wb_rank_end();
        return;
    }
    if (g.mistake == ADDED_EARLY || g.mistake == SENT_EARLY) travelling(r, comm, wire, stream);
    if (g.mistake == ONE_SUM_LESS && r != 1) NCCL(ncclAllReduce(sum, sum, 8, ncclFloat, ncclSum, comm, wire));  // @sum
    (g.mistake == GATHERED || g.mistake == NOT_GATHERED ? gathered : ring)(O, L, x[0], x[1], x[2], r, comm, wire,
                                                                           stream);
    CUDA(cudaMemcpyAsync(host, O, rows * D * sizeof(float), cudaMemcpyDeviceToHost, stream));  // @results
    shard(g.O, host, r, D, true);
    CUDA(cudaMemcpyAsync(host, L, rows * sizeof(float), cudaMemcpyDeviceToHost, stream));
    shard(g.L, host, r, 1, true);
    wb_rank_end();
    const wb_asked asked = wb_what_was_asked();
    const size_t least = (size_t)g.H * (g.N - rows_of((r + 1) % g.R)) * 2 * D * sizeof(float);
    if (g.mistake < GATHERED && asked.sent != (g.R > 1 ? least : 0))
        fprintf(stderr, "%llu bytes sent, not %zu\n", (unsigned long long)asked.sent, least), _exit(4);
    if (g.mistake == NONE && g.R > 1 && 2 * asked.under_messages < asked.kernels)
        fprintf(stderr, "%u of %u kernels under messages\n", asked.under_messages, asked.kernels), _exit(4);
    if (g.mistake == ONE_STREAM && asked.under_messages)
        fprintf(stderr, "%u kernels under messages\n", asked.under_messages), _exit(4);
}

static int wrong_numbers()  // how many
{
    int wrong = 0;
    for (int h = 0; h < g.H; h++)
        for (int i = 0; i < g.N; i++) {
            const float *q = g.Q + ((size_t)h * g.N + i) * D;
            double l = 0, o[D] = {0};
            for (int j = 0; j < (g.causal ? i + 1 : g.N); j++) {
                double s = 0;
                for (int d = 0; d < D; d++) s += (double)q[d] * g.K[((size_t)h * g.N + j) * D + d] / 4;
                l += exp(s);
                for (int d = 0; d < D; d++) o[d] += exp(s) * g.V[((size_t)h * g.N + j) * D + d];
            }
            for (int d = 0; d < D; d++) wrong += !(fabs(g.O[((size_t)h * g.N + i) * D + d] - o[d] / l) < 1e-4);
            wrong += !(fabs(g.L[(size_t)h * g.N + i] - log(l)) < 1e-4);
        }
    return wrong;
}

static void play()
{
    play_ranks(g.R, 20, be_rank);
    const int wrong = g.mistake >= SUMS ? 0 : wrong_numbers();
    if (wrong) fprintf(stderr, "%d numbers are wrong\n", wrong);
    _exit(wrong != 0);
}

static float *shared(size_t count)
{
    float *at =
        (float *)mmap(nullptr, count * sizeof(float), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < count; i++) at[i] = (float)draw(2000) / 500 - 2;
    return at;
}

static int try_ranks(int mistake, int R, int N)
{
    g.mistake = mistake, g.R = R, g.N = N, g.H = 1 + (int)draw(2), g.causal = (int)draw(2);
    const size_t n = (size_t)g.H * g.N;
    g.Q = shared(n * D), g.K = shared(n * D), g.V = shared(n * D), g.O = shared(n * D), g.L = shared(n);
    const int status = run_apart(play);
    for (float *p : {g.Q, g.K, g.V, g.O}) munmap(p, n * D * sizeof(float));
    munmap(g.L, n * sizeof(float));
    return status;
}

static void from_seed() { g.seed = getenv("WB_SEED") ? (unsigned)atoi(getenv("WB_SEED")) : 7; }

static void expect_right(int mistake)
{
    from_seed();
    for (int R = 1; R <= 4; R++) {
        const int N = 2 * R + (int)draw(120);
        const int status = try_ranks(mistake, R, N);
        cr_expect(status == 0, "R=%d N=%d H=%d causal=%d: status %#x\n%s", R, N, g.H, g.causal, (unsigned)status,
                  printed);
    }
}

// The line of this file that has the mark.
static int line_of(const char *mark)
{
    char text[512], wanted[64];
    snprintf(wanted, sizeof wanted, "// @%s\n", mark);
    FILE *file = fopen(__FILE__, "r");
    int found = 0;
    for (int line = 1; file && fgets(text, sizeof text, file); line++)
        if (strstr(text, wanted)) found = line;
    if (file) fclose(file);
    return found;
}

// Of three or four ranks with unlike chunks: the report has these words, and this line.
static void expect_told(int mistake, const char *words, const char *mark)
{
    from_seed();
    g.seed += (unsigned)mistake;
    const int R = 4 + (int)draw(2), N = 2 * R * (4 + (int)draw(12)) + 1 + (int)draw(2);
    check_reported(try_ranks(mistake, R, N));
    check_printed(words);
    char line[64];
    snprintf(line, sizeof line, "ranks.cu:%d", line_of(mark));
    check_printed(line);
}

#define RIGHT(name, mistake)                                                                                           \
    Test(ranks, name) { expect_right(mistake); }
RIGHT(a_ring, NONE)
RIGHT(the_host_waits, HOST_WAITS)
RIGHT(one_stream_for_all, ONE_STREAM)
RIGHT(two_groups, TWO_GROUPS)
RIGHT(odd_ranks_receive_first, EVEN_ODD)
RIGHT(a_stream_a_chunk, TWO_COMPUTE)
RIGHT(it_waits_more_often, RECEIVED_LATER)
RIGHT(streams_of_the_old_kind, BLOCKING)
RIGHT(all_is_gathered, GATHERED)
RIGHT(sums_of_all, SUMS)
RIGHT(queued_before_it_is_sent, QUEUED_FIRST)

#define TOLD(name, mistake, words, mark)                                                                               \
    Test(ranks, name) { expect_told(mistake, words, mark); }
TOLD(no_wait_for_keys, NO_WAIT, "a buffer was touched before it arrived", "receive")
TOLD(no_room_for_keys, NO_ROOM, "a message overwrites what is still needed", "receive")
TOLD(wrong_peer, WRONG_PEER, "deadlock between ranks", "send")
TOLD(all_send_first, ALL_SEND_FIRST, "deadlock between ranks", "send")
TOLD(the_other_event, OTHER_EVENT, "a buffer was touched before it arrived", "receive")
TOLD(a_kernel_astray, MERGE_ASTRAY, "two pieces of work are not in order", "attend")
TOLD(sent_is_zeroed, ZEROED, "a buffer was overwritten while it travels", "zeroed")
TOLD(the_default_stream, DEFAULT_STREAM, "two pieces of work are not in order", "results")
TOLD(a_stream_never_joined, NOT_JOINED, "two pieces of work are not in order", "results")
TOLD(another_size, OTHER_SIZE, "a message of another size", "receive")
TOLD(sends_past_the_end, SENDS_PAST, "a message runs out of its buffer", "send")
TOLD(receives_past_the_end, RECEIVES_PAST, "a message runs out of its buffer", "receive")
TOLD(sends_host_memory, HOST_MEMORY, "that is not device memory", "send")
TOLD(one_leaves, ONE_LEAVES, "deadlock between ranks", "send")
TOLD(in_place, IN_PLACE, "two messages in one buffer", "receive")
TOLD(sent_before_it_is_there, BEFORE_INPUTS, "a message is sent before it is written", "inputs")
TOLD(copied_early, COPIED_EARLY, "a buffer was touched before it arrived", "copied")
TOLD(recorded_early, EARLY_EVENT, "a buffer was touched before it arrived", "receive")
TOLD(not_gathered_yet, NOT_GATHERED, "a buffer was touched before it arrived", "gather")
TOLD(one_sum_less, ONE_SUM_LESS, "deadlock between ranks", "sum")
TOLD(added_early, ADDED_EARLY, "a buffer was touched before it arrived", "comes")
TOLD(sent_early, SENT_EARLY, "a message is sent before it is written", "home")
TOLD(freed_early, FREED, "a buffer was touched before it arrived", "freed")
TOLD(two_receive_into_one, TWO_RECEIVE, "two messages in one buffer", "receive")

Test(ranks, no_such_rank)
{
    from_seed();
    const int status = try_ranks(NO_SUCH_RANK, 3, 40);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3, "status %#x:\n%s", (unsigned)status, printed);
    check_printed("ncclSend(): there is no rank 3 among 3");
}
#endif
