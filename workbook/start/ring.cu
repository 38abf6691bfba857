// ring.cu - flash_ring, or with BACKWARD flash_ring_backward (ring_backward.cu), on this machine, each rank a process
// of this program; on GPUs each has one, and NCCL carries. It draws a sequence, has it attended to, looks at drawn
// rows, and on GPUs times it. NCCL's connections are not protected: the network between ranks must be trusted.
//
//   ring RANKS=4 [N=4096 D=128 B=1 HEADS=32/8 CAUSAL=0 SEED=7 RUNS=10]
//   ring ... TO=FILE AS=key      a row of a table is written behind the last of FILE (bench/ring.sh)
//
// What is compared: drawn rows with those of wb_attention or wb_attention_backward on all that the row meets, in one
// piece. The rounding to bf16 is 2^-9, and parts in bf16 are merged, so 1 in 50 of a row's length is far more than
// that, and what is wrong is far more than this.
#include "layer_requests.h"
#include "rank.h"

#include <algorithm>

#include <errno.h>
#include <math.h>
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

static struct asked {
    long RANKS, N, D, B, Hq, Hkv, CAUSAL, SEED, RUNS;
} ask = {2, 0, 128, 1, 8, 2, 1, 7, 10};

static const char *table, *implementation = "yours";

static const struct {
    const char *name;
    long *value, least, most;
} names[] = {{"RANKS", &ask.RANKS, 1, 64}, {"N", &ask.N, 1, 1 << 28},     {"D", &ask.D, 64, 128},
             {"B", &ask.B, 1, 65535},      {"CAUSAL", &ask.CAUSAL, 0, 1}, {"SEED", &ask.SEED, 0, 1 << 30},
             {"RUNS", &ask.RUNS, 1, 1000}};

static wb_status read_words(int count, char **words)
{
    for (int i = 0; i < count; i++) {
        const char *is = strchr(words[i], '=');
        bool known = sscanf(words[i], "HEADS=%5ld/%5ld", &ask.Hq, &ask.Hkv) == 2;
        for (const auto &n : names) {
            if (!is || strlen(n.name) != (size_t)(is - words[i]) || strncmp(words[i], n.name, is - words[i])) continue;
            char *end;
            *n.value = strtol(is + 1, &end, 10);
            if (end == is + 1 || *end || *n.value < n.least || *n.value > n.most)
                return wb_fail(WB_BAD_ARGUMENT, "%.60s: %s must be a number from %ld to %ld", words[i], n.name, n.least,
                               n.most);
            known = true;
        }
        if (strncmp(words[i], "TO=", 3) == 0) table = words[i] + 3, known = true;
        if (strncmp(words[i], "AS=", 3) == 0) implementation = words[i] + 3, known = true;
        if (!known)
            return wb_fail(WB_BAD_ARGUMENT, "%.60s: must be one of RANKS, N, D, B, HEADS (as 8/2), CAUSAL, SEED, RUNS",
                           words[i]);
    }
    return WB_OK;
}

// ------------------------ the inputs

// What is in a tensor: what is drawn, or an output of bf16, of float32, or of a number a row.
enum { Q_DRAWN, K_DRAWN, V_DRAWN, O_DRAWN, DO_DRAWN, L_DRAWN, DELTA_DRAWN, OUTPUT, SUMS, STATISTIC };

// Element d of row i of a head, whoever asks: nearly a normal number.
__device__ static float drawn(unsigned long long seed, unsigned tensor, size_t head, size_t i, int d, int D)
{
    unsigned long long x = seed * 8 + tensor + 0x9e3779b97f4a7c15ull * ((head << 36) + i * D + d + 1);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    int sum = 0;
    for (int k = 0; k < 4; k++) sum += (int)(x >> (16 * k) & 0xffff);
    return (float)(sum - 2 * 65535) / 37837.f;  // four even ones have a standard deviation of 37837
}

// to [heads, rows, D]: rows `from` and on of heads `head` and on.
__global__ void draw_kernel(bf16 *to, unsigned long long seed, unsigned tensor, size_t head, size_t heads, size_t from,
                            size_t rows, int D)
{
    for (size_t n = blockIdx.x * (size_t)blockDim.x + threadIdx.x; n < heads * rows * D;
         n += (size_t)gridDim.x * blockDim.x)
        to[n] = __float2bfloat16(drawn(seed, tensor, head + n / D / rows, from + n / D % rows, (int)(n % D), D));
}

// For gradients L, or delta, of the same rows, [heads, rows], a thread a row.
__global__ void statistics_kernel(float *to, bool is_L, unsigned long long seed, size_t head, size_t heads, size_t from,
                                  size_t rows, int D, bool causal, size_t N)
{
    const size_t n = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (n >= heads * rows) return;
    const size_t h = head + n / rows, i = from + n % rows;
    float sum = 0;
    for (int d = 0; d < D && !is_L; d++)
        sum += __bfloat162float(__float2bfloat16(drawn(seed, O_DRAWN, h, i, d, D))) *
               __bfloat162float(__float2bfloat16(drawn(seed, DO_DRAWN, h, i, d, D)));
    to[n] = is_L ? logf((float)(causal ? i + 1 : N)) + 0.5f : sum;
}

static wb_status draw(void *to, int tensor, size_t head, size_t heads, size_t from, size_t rows, wb_stream stream)
{
    const auto seed = (unsigned long long)ask.SEED;
    if (heads * rows == 0) return WB_OK;
    if (tensor == L_DRAWN || tensor == DELTA_DRAWN) {
        statistics_kernel<<<(unsigned)((heads * rows - 1) / 128 + 1), 128, 0, stream>>>(
            (float *)to, tensor == L_DRAWN, seed, head, heads, from, rows, (int)ask.D, ask.CAUSAL, (size_t)ask.N);
    } else {
        const unsigned blocks = (unsigned)std::min<size_t>((heads * rows * (size_t)ask.D - 1) / 256 + 1, 4096);
        draw_kernel<<<blocks, 256, 0, stream>>>((bf16 *)to, seed, (unsigned)tensor, head, heads, from, rows,
                                                (int)ask.D);
    }
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}

// The contract's chunks, written down once more: what is compared with should not ask what is looked at.
static size_t chunk_rows(long k) { return (size_t)(ask.N / (2 * ask.RANKS) + (k < ask.N % (2 * ask.RANKS))); }
static size_t chunk_begin(long k)
{
    return (size_t)(k * (ask.N / (2 * ask.RANKS)) + std::min(k, ask.N % (2 * ask.RANKS)));
}

#define DO(call) \
    do { \
        const wb_status done_ = (call); \
        if (done_ != WB_OK) return done_; \
    } while (0)

// Device memory, given back with this.
struct device_memory {
    std::vector<void *> all;
    size_t bytes = 0;
    template <class Type> wb_status allocate(Type **at, size_t count)
    {
        DO(wb_device_alloc((void **)at, (count + !count) * sizeof(Type)));
        all.push_back(*at), bytes += count * sizeof(Type);
        return WB_OK;
    }
    ~device_memory()
    {
        for (void *p : all) wb_device_free(p);
    }
};

static size_t my_rows(int rank) { return chunk_rows(rank) + chunk_rows(2 * ask.RANKS - 1 - rank); }

// Tensors of so many heads a sequence, and what is in them: a rank's rows, first those of its first chunk, or with rank
// -1 all.
struct tensor_of {
    void *at;  // of a pointer
    long heads;
    int what;
};
static wb_status make_tensors(device_memory &memory, std::initializer_list<tensor_of> tensors, int rank,
                              wb_stream stream)
{
    for (const tensor_of &t : tensors) {
        const bool a_number = t.what == L_DRAWN || t.what == DELTA_DRAWN || t.what == STATISTIC;
        const size_t heads = (size_t)(ask.B * t.heads), rows = rank < 0 ? (size_t)ask.N : my_rows(rank);
        const size_t row = a_number ? 4 : (size_t)ask.D * (t.what == SUMS ? 4 : 2);
        char **const at = (char **)t.at;
        DO(memory.allocate(at, heads * rows * row));
        if (t.what >= OUTPUT) continue;
        if (rank < 0) {
            DO(draw(*at, t.what, 0, heads, 0, rows, stream));
            continue;
        }
        const long second = 2 * ask.RANKS - 1 - rank;
        DO(draw(*at, t.what, 0, heads, chunk_begin(rank), chunk_rows(rank), stream));
        DO(draw(*at + heads * chunk_rows(rank) * row, t.what, 0, heads, chunk_begin(second), chunk_rows(second),
                stream));
    }
    return WB_OK;
}

// ------------------------ what is compared

// Some rows of a rank: from both chunks by turns, the last ones first.
struct row_of_rank {
    size_t head, i, at;  // of so many heads; in the sequence; and which row of the rank's tensor it is
    bool any;            // not of an empty chunk
};
static row_of_rank draw_row(int rank, int n, size_t heads)
{
    static unsigned random;
    if (n == 0) random = (unsigned)ask.SEED * 2654435761u + (unsigned)rank;
    const auto below = [&](size_t count) {
        random = random * 1664525u + 1013904223u;
        return (size_t)(((unsigned long long)(random >> 4) * count) >> 28);
    };
    const long chunk = n % 2 ? 2 * ask.RANKS - 1 - rank : rank;
    const size_t rows = chunk_rows(chunk), before = n % 2 ? chunk_rows(rank) : 0;
    if (rows == 0) return {};
    const size_t head = below(heads), row = n < 2 ? rows - 1 : below(rows);
    return {head, chunk_begin(chunk) + row, heads * before + head * rows + row, true};
}

[[maybe_unused]] static float as_float(uint16_t b)
{
    const uint32_t bits = (uint32_t)b << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
[[maybe_unused]] static float as_float(float x) { return x; }

// How far a row of bf16 in device memory is from one that should be the same, as a part of its length. NaN is further
// than anything.
template <class Type> static wb_status distance(const bf16 *got, const Type *want, float *far)
{
    const size_t D = (size_t)ask.D;
    std::vector<uint16_t> x(D);
    std::vector<typename std::conditional<sizeof(Type) == 2, uint16_t, float>::type> y(D);
    DO(wb_copy_to_host(x.data(), got, D * sizeof(bf16)));
    DO(wb_copy_to_host(y.data(), want, D * sizeof(Type)));
    double difference = 0, length = 0;
    for (size_t d = 0; d < D; d++) {
        const double right = as_float(y[d]), e = as_float(x[d]) - right;
        difference += e * e, length += right * right;
    }
    const float off = (float)sqrt(difference / length);
    if (!(off <= *far)) *far = off;
    return WB_OK;
}

// ------------------------ a rank

#include "passes.cuh"

// The largest of all ranks; it brings them together, too.
static wb_status largest(const wb_ring &ring, float *values, int count, wb_stream stream)
{
    if (ring.ranks == 1) return WB_OK;
    device_memory memory;
    float *at;
    DO(memory.allocate(&at, (size_t)count));
    for (int i = 0; i < count; i++)
        if (!(values[i] <= 1e30f)) values[i] = 1e30f;
    WB_CUDA(cudaMemcpyAsync(at, values, (size_t)count * sizeof(float), cudaMemcpyHostToDevice, stream));
    WB_NCCL(ncclAllReduce(at, at, (size_t)count, ncclFloat, ncclMax, ring.comm, stream));
    WB_CUDA(cudaStreamSynchronize(stream));
    return wb_copy_to_host(values, at, (size_t)count * sizeof(float));
}

// Of a GPU, where all take so many milliseconds.
static double tflops(double ms)
{
    const double pairs = (double)ask.N * (double)(ask.CAUSAL ? ask.N + 1 : 2 * ask.N) / 2;
    return ring_pass::FLOPS * 1e-9 * (double)(ask.B * ask.Hq * ask.D) * pairs / ms / (double)ask.RANKS;
}

// What was timed: of all runs, sorted. alone: of one GPU with the whole sequence, a part of it for each rank.
struct times {
    std::vector<float> ring, alone;
};

// A row with the columns of bench's tables that a chart needs. bytes: of rank 0's tensors, and its workspace besides.
static void write_row(FILE *file, const char *what, const std::vector<float> &ms, size_t io_bytes, size_t peak_bytes)
{
    const size_t n = ms.size();
    char time[96] = "-\t-\t-\t-", bytes[64] = "-\t-";
    if (n > 0)
        snprintf(time, sizeof time, "%.5g\t%.5g\t%.5g\t%.5g", ms[n / 2], ms[n / 10], ms[n - 1 - n / 10],
                 tflops(ms[n / 2]));
    if (io_bytes > 0) snprintf(bytes, sizeof bytes, "%zu\t%zu", io_bytes, peak_bytes);
    fprintf(file, "%d\t%s\t%ld\t%ld\t%ld\t%ld\t%ld\t%ld\t%ld\t%ld\t%s\t%s\n", ring_pass::NUMBER, what, ask.B, ask.Hq,
            ask.Hkv, ask.N, ask.N, ask.D, ask.CAUSAL, ask.RANKS, time, bytes);
}

static wb_status write_table(const ring_pass &pass, const times &t)
{
    FILE *file = fopen(table, "a");
    if (!file) return wb_fail(WB_BAD_ARGUMENT, "TO=%.200s: %s", table, strerror(errno));
    write_row(file, implementation, t.ring, pass.bytes - pass.needed, pass.bytes);
    if (!t.alone.empty() && strcmp(implementation, "key") == 0) write_row(file, "alone", t.alone, 0, 0);
    return fclose(file) == 0 ? WB_OK : wb_fail(WB_BAD_ARGUMENT, "TO=%.200s: %s", table, strerror(errno));
}

#ifndef __CUDACPU__
// Keeps a GPU busy for some milliseconds, in which the host queues what is timed.
__global__ void spend()
{
    for (const long long begin = clock64(); clock64() - begin < 10 * 1000 * 1000;) {}
}

// The ring, and the same on each GPU alone, take turns.
static wb_status time_it(const wb_ring &ring, const ring_pass &pass, const attention_shape &shape, wb_stream stream,
                         times &t)
{
    cudaEvent_t begin, end;
    ring_pass alone;
    DO(alone.make(-1, stream));
    WB_CUDA(cudaEventCreate(&begin));
    WB_CUDA(cudaEventCreate(&end));
    for (long run = ask.RUNS > 2 ? -2 : 0; run < ask.RUNS; run++)  // the ring has been called before
        for (std::vector<float> *ms : {&t.ring, &t.alone}) {
            float now = 0;
            DO(largest(ring, &now, 1, stream));  // all begin together
            spend<<<1, 1, 0, stream>>>();
            WB_CUDA(cudaGetLastError());
            WB_CUDA(cudaEventRecord(begin, stream));
            DO(ms == &t.ring ? pass.call(ring, shape, stream) : alone.call_alone(shape, stream));
            WB_CUDA(cudaEventRecord(end, stream));
            WB_CUDA(cudaEventSynchronize(end));
            WB_CUDA(cudaEventElapsedTime(&now, begin, end));
            DO(largest(ring, &now, 1, stream));
            if (run >= 0) ms->push_back(ms == &t.ring ? now : now / (float)ring.ranks);
        }
    std::sort(t.ring.begin(), t.ring.end());
    std::sort(t.alone.begin(), t.alone.end());
    const float median = t.ring[t.ring.size() / 2];
    if (ring.rank == 0)
        printf("%.3f ms (the slowest rank, median of %zu runs; %.3f to %.3f), %.0f TFLOP/s per GPU\n"
               "efficiency %.2f: one GPU's time for the whole sequence / (ranks x this time)\n",
               median, t.ring.size(), t.ring.front(), t.ring.back(), tflops(median),
               t.alone[t.alone.size() / 2] / median);
    return WB_OK;
}
#endif

static wb_status attend(const wb_ring &ring, bool *right)
{
    const int N = (int)ask.N, D = (int)ask.D;
    attention_shape shape = {(int)ask.B, (int)ask.Hq, (int)ask.Hkv, N, N, D, 1 / sqrtf((float)D), 0, 0, 0};
    shape.causal = (int)ask.CAUSAL;
    wb_stream stream;
    WB_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ring_pass pass;
    DO(pass.make(ring.rank, stream));
    pass.needed = ring_pass::needs(shape, ring);
    DO(pass.allocate(&pass.workspace, pass.needed));
    DO(pass.call(ring, shape, stream));
    WB_CUDA(cudaStreamSynchronize(stream));
    DO(wb_device_synchronize());
    float far[ring_pass::NAMES] = {};
    DO(pass.compare(ring, shape, stream, far));
    DO(largest(ring, far, ring_pass::NAMES, stream));
    *right = true;
    for (const float f : far) *right = *right && f <= 0.02f;
    if (ring.rank == 0) {
        printf("%d rank%s on %s: B %ld, %ld heads on %ld, N %ld, D %ld, %s\n8 rows of each against one piece:",
               ring.ranks, ring.ranks > 1 ? "s" : "", wb_device_name(), ask.B, ask.Hq, ask.Hkv, ask.N, ask.D,
               ask.CAUSAL ? "causal" : "full");
        for (int x = 0; x < ring_pass::NAMES; x++)
            printf("%s %s off by %.1e%s", x ? "," : "", ring_pass::names[x], far[x] < 1e30f ? far[x] : NAN,
                   *ring_pass::names[x] == 'L' ? "" : " of its length");
        printf(": %s\nworkspace of a rank: %.1f MiB\n", *right ? "right" : "WRONG", (double)pass.needed / (1 << 20));
    }
    times t;
#ifndef __CUDACPU__
    if (*right) DO(time_it(ring, pass, shape, stream, t));
#endif
    if (table && *right && ring.rank == 0) DO(write_table(pass, t));
    WB_CUDA(cudaStreamDestroy(stream));
    return WB_OK;
}

// board: shared memory of all ranks, of so many bytes.
static wb_status be_rank(int rank, void *board, size_t bytes, bool *right)
{
    wb_ring ring = {nullptr, rank, (int)ask.RANKS, nullptr};
    DO(wb_rank_device(ring.rank, ring.ranks));
    DO(wb_rank_join(board, bytes, &ring));
    DO(attend(ring, right));
    return wb_rank_leave(&ring);
}

enum { WRONG = 3 };  // an exit status of a rank that has come to its end

// One rank, in this process: its exit status.
static int rank_status(int rank, void *board, size_t bytes)
{
    bool right = false;
    const wb_status status = be_rank(rank, board, bytes, &right);
    if (status != WB_OK) fprintf(stderr, "rank %d: %s\n", rank, wb_last_message());
    fflush(NULL);
    return status != WB_OK ? 2 : right ? 0 : WRONG;
}

int main(int argc, char **argv)
{
    if (read_words(argc - 1, argv + 1) != WB_OK) {
        fprintf(stderr, "ring: %s\n", wb_last_message());
        return 2;
    }
#ifdef __CUDACPU__
    const long usual = 256;
#else
    const long usual = 32768;
#endif
    if (ask.N == 0) ask.N = usual;

    // so many processes, and shared memory for what they tell one another
    size_t bytes = WB_RANK_ID;
#ifdef __CUDACPU__
    const size_t travels = (size_t)(ask.B * ask.Hkv * ask.D) * 2 * (ring_pass::NUMBER == 18 ? 6 : 2);  // of a row
    bytes = wb_board_bytes(travels * (size_t)ask.N * (size_t)ask.RANKS + (1 << 20));
#endif
    void *board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (board == MAP_FAILED) {
        fprintf(stderr, "ring: out of memory for the messages of %ld ranks\n", ask.RANKS);
        return 2;
    }
    std::vector<pid_t> ranks;
    for (long r = 0; r < ask.RANKS; r++) {
        fflush(NULL);
        const pid_t child = fork();
        if (child < 0) perror("ring: fork");
        if (child > 0) ranks.push_back(child);
        if (child) continue;
        _exit(rank_status((int)r, board, bytes));
    }
    // The first that fails ends all: the others would wait for it.
    int worst = (long)ranks.size() < ask.RANKS ? 2 : 0, status;
    for (size_t left = ranks.size(); left > 0; left--) {
        const pid_t ended = wait(&status);
        const int is = WIFEXITED(status) ? WEXITSTATUS(status) : 2;
        for (pid_t &p : ranks)
            if (p == ended)
                p = 0;
            else if (p && is != 0 && is != WRONG)
                kill(p, SIGTERM);
        worst = std::max(worst, is);
    }
    return worst;
}
