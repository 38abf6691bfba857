// ranks.cu - what the CPU execution layer says of several ranks (cpu/flight.h, cpu/nccl.cpp): each of its sentences
// once, with the line that made the mistake; and of each two kinds of work, ordered in each way and not at all, whether
// they may meet. Whole rings are problems 17 and 18, and sums of floats and doubles what train_ranks.sh trains with.
//
// A mistake is a number, and the lines that it is to be told by are marked: // @mark.
#include "in_a_child.h"

#ifndef __CUDACPU__  // elsewhere NCCL is NVIDIA's, and tells none of this
Test(ranks, of_the_layer) { cr_skip_test("the CPU execution layer's: BACKEND=cpu"); }
#else

#include <nccl.h>

// A mistake, words of what is said of it, and the mark.
#define MISTAKES(X) \
    X(NO_WAIT, "a buffer was touched before it arrived", "receive") \
    X(NO_ROOM, "a message overwrites what is still needed", "receive") \
    X(ALL_SEND_FIRST, "deadlock between ranks", "send") \
    X(ONE_MESSAGE_LESS, "deadlock between ranks", "send") \
    X(ZEROED, "a send buffer was overwritten in flight", "zeroed") \
    X(RESULTS_EARLY, "two operations are not in order", "results") \
    X(OTHER_SIZE, "a message of another size", "receive") \
    X(SENDS_PAST, "a message extends past its buffer", "send") \
    X(HOST_MEMORY, "the address is not in device memory", "send") \
    X(IN_PLACE, "two messages in one buffer", "receive") \
    X(BEFORE_INPUTS, "a message is sent before it is written", "inputs") \
    X(ONE_SUM_LESS, "deadlock between ranks", "sum") \
    X(SUM_EARLY, "a buffer was touched before it arrived", "sum")
#define NAME(name, ...) name,
enum mistake { NONE, NO_SUCH_RANK, QUEUED_FIRST, MISTAKES(NAME) };
enum { NUMBERS = 2048 };  // that a rank has: whole pages

static struct {
    int mistake, R;
} g;

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
#define CUDA(call)      cuda(call, __LINE__)
#define NCCL(call)      nccl(call, __LINE__)

__global__ void add(float *total, const float *x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) total[i] += x[i];
}
__global__ void scale_by(float *x, int n, float by)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}

// What each rank has goes round, and every rank adds up all of it.
static void ring(float *total, float *mine, int r, ncclComm_t comm, cudaStream_t wire, cudaStream_t stream)
{
    const int R = g.R, next = (r + 1) % R, before = (r + R - 1) % R, wrong = g.mistake;
    const size_t bytes = NUMBERS * sizeof(float);
    static float of_host[2 * NUMBERS];
    float *come[2];
    cudaEvent_t begun, arrived[2], read[2];
    for (cudaEvent_t *e : {&begun, &arrived[0], &arrived[1], &read[0], &read[1]}) CUDA(cudaEventCreate(e));
    for (float *&p : come) CUDA(cudaMalloc(&p, bytes));
    CUDA(cudaEventRecord(begun, stream));
    if (wrong != BEFORE_INPUTS) CUDA(cudaStreamWaitEvent(wire, begun, 0));
    for (int s = 0; s < R; s++) {
        const int to = (s + 1) % 2;
        float *here = s ? come[s % 2] : mine;
        if (s > 0 && wrong != NO_WAIT) CUDA(cudaStreamWaitEvent(stream, arrived[s % 2], 0));
        if (s + 1 < R) {
            if (s > 1 && wrong != NO_ROOM) CUDA(cudaStreamWaitEvent(wire, read[to], 0));
            const float *from = wrong == HOST_MEMORY ? of_host : here;
            float *into = wrong == IN_PLACE && s ? here : come[to];
            const int peer = wrong == NO_SUCH_RANK ? R : next;
            const size_t out = wrong == SENDS_PAST ? 2 * NUMBERS : NUMBERS;
            const size_t in = wrong == OTHER_SIZE ? NUMBERS / 2 : NUMBERS;
            if (wrong != ALL_SEND_FIRST) NCCL(ncclGroupStart());
            NCCL(ncclSend(from, out, ncclFloat, peer, comm, wire));  // @send
            if (wrong != ONE_MESSAGE_LESS || r != 1)
                NCCL(ncclRecv(into, in, ncclFloat, before, comm, wire));  // @receive
            if (wrong != ALL_SEND_FIRST) NCCL(ncclGroupEnd());
            CUDA(cudaEventRecord(arrived[to], wire));
            if (wrong == ZEROED) CUDA(cudaMemsetAsync(here, 0, 64, stream));  // @zeroed
        }
        add<<<NUMBERS / 32, 32, 0, stream>>>(total, here, NUMBERS);
        if (s > 0) CUDA(cudaEventRecord(read[s % 2], stream));
    }
    if (wrong == RESULTS_EARLY) stream = wire;
    CUDA(cudaMemcpyAsync(of_host, total, bytes, cudaMemcpyDeviceToHost, stream));  // @results
    for (const float x : of_host)
        if (&x < of_host + NUMBERS && x != (float)(R * (R + 1) / 2)) fprintf(stderr, "a wrong sum: %g\n", x), _exit(4);
}

// What is received is waited for by a kernel that all ranks queue before any of them sends: no send waits for that.
static void queued_first(int r, ncclComm_t comm, cudaStream_t wire, cudaStream_t stream)
{
    cudaStream_t out;
    cudaEvent_t arrived;
    float *x, *y;
    CUDA(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&arrived));
    CUDA(cudaMalloc(&x, 4)), CUDA(cudaMalloc(&y, 4));
    const float mine = (float)r, want = 2 * (float)((r + g.R - 1) % g.R);
    float got;
    CUDA(cudaMemcpyAsync(x, &mine, 4, cudaMemcpyHostToDevice, out));
    NCCL(ncclRecv(y, 1, ncclFloat, (r + g.R - 1) % g.R, comm, wire));
    CUDA(cudaEventRecord(arrived, wire));
    CUDA(cudaStreamWaitEvent(stream, arrived, 0));
    scale_by<<<1, 1, 0, stream>>>(y, 1, 2);
    NCCL(ncclSend(x, 1, ncclFloat, (r + 1) % g.R, comm, out));
    CUDA(cudaMemcpyAsync(&got, y, 4, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    if (got != want) fprintf(stderr, "%g came, not %g\n", (double)got, (double)want), _exit(4);
}

// ------------------------ judge

static void be_rank(void *board, int r)
{
    static float host[NUMBERS];
    const size_t bytes = sizeof host;
    float *x[3];  // the total, what a rank has, and that before it is there
    for (float *&p : x) CUDA(cudaMalloc(&p, bytes));
    CUDA(cudaMemset(x[0], 0, bytes));
    for (float &h : host) h = (float)(r + 1);
    CUDA(cudaMemcpy(x[2], host, bytes, cudaMemcpyHostToDevice));
    ncclComm_t comm = wb_rank_begin(board, r, g.R);
    cudaStream_t stream, wire;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&wire, cudaStreamNonBlocking));
    CUDA(cudaMemcpyAsync(x[1], x[2], bytes, cudaMemcpyDeviceToDevice, stream));  // @inputs
    if (g.mistake == QUEUED_FIRST)
        queued_first(r, comm, wire, stream);
    else if (g.mistake == ONE_SUM_LESS || g.mistake == SUM_EARLY) {
        if (g.mistake == SUM_EARLY || r != 1)
            NCCL(ncclAllReduce(x[0], x[0], NUMBERS, ncclFloat, ncclSum, comm, wire));  // @sum
        if (g.mistake == SUM_EARLY) scale_by<<<NUMBERS / 32, 32, 0, stream>>>(x[0], NUMBERS, 2);
    } else
        ring(x[0], x[1], r, comm, wire, stream);
    wb_rank_end();
}

static int try_ranks(int mistake, int R)
{
    g.mistake = mistake, g.R = R;
    return run_in_a_child([] { play_ranks(g.R, be_rank); });
}

static void expect_right(int mistake)
{
    for (int R = 1; R <= 4; R++) {
        const int status = try_ranks(mistake, R);
        cr_expect(status == 0, "R=%d: status %#x\n%s", R, (unsigned)status, printed);
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

// The report has these words, and this line.
static void expect_told(int mistake, const char *words, const char *mark)
{
    check_reported(try_ranks(mistake, 4));
    check_printed(words);
    char line[64];
    snprintf(line, sizeof line, "ranks.cu:%d", line_of(mark));
    check_printed(line);
}

Test(ranks, a_ring) { expect_right(NONE); }
Test(ranks, queued_before_it_is_sent) { expect_right(QUEUED_FIRST); }

#define TOLD(mistake, words, mark) \
    Test(ranks, told_##mistake) { expect_told(mistake, words, mark); }
MISTAKES(TOLD)

Test(ranks, no_such_rank)
{
    const int status = try_ranks(NO_SUCH_RANK, 3);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3, "status %#x:\n%s", (unsigned)status, printed);
    check_printed("ncclSend(): rank 3 is not one of the 3 ranks");
}

// ------------------------ two pieces of work

// What a piece does with the first array: these read it, the others write to it.
enum work { KERNEL_READS, COPY_READS, TO_HOST, SENDS, KERNEL_WRITES, COPY_WRITES, SETS, FROM_HOST, RECEIVES, FREES };
static bool writes(int work) { return work >= KERNEL_WRITES; }

// How the first piece comes before the second. From EVENT_BEFORE on it does not.
enum order {
    SAME_STREAM,
    EVENT,
    EVENT_AND_HOST,
    STREAM_AND_HOST,
    DEVICE_AND_HOST,
    THIRD_STREAM,
    GROUP_OF_MESSAGES,
    DEFAULT_THEN_BLOCKING,
    BLOCKING_THEN_DEFAULT,
    EVENT_BEFORE,
    OTHER_STREAM_AND_HOST,
    DEFAULT_THEN_OTHER,
    NOTHING,
    ORDERS
};
static struct {
    int first, second, order, apart;
} pair_of;

__global__ void put(float *to, const float *from)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[i];
}

// x[0] is what both pieces touch, each has another one besides. A report has a line for each: ten times the order, and
// which of both it is.
static void queue(int work, int id, float *const *x, int offset, cudaStream_t stream, ncclComm_t comm)
{
    static float host[NUMBERS];
    const cudacpu::call_site site = {"pair", 10 * pair_of.order + id};
    float *mine = x[0] + offset, *other = x[id] + offset;
    const size_t count = (size_t)(NUMBERS / (1 + pair_of.apart)), bytes = count * sizeof *host;
    if (work == KERNEL_READS || work == KERNEL_WRITES) {
        cudacpu::kernel what = CUDACPU_KERNEL(put);
        what.site = site;
        float *to = work == KERNEL_READS ? other : mine, *from = work == KERNEL_READS ? mine : other;
        cudacpu::launch(what, cudacpu::launch_config((int)count / 32, 32, 0, stream), [=] { put(to, from); });
    } else if (work == SENDS || work == RECEIVES) {
        NCCL(ncclGroupStart());
        NCCL(ncclSend(work == SENDS ? mine : other, count, ncclFloat, 0, comm, stream, site));
        NCCL(ncclRecv(work == SENDS ? other : mine, count, ncclFloat, 0, comm, stream, site));
        NCCL(ncclGroupEnd());
    } else if (work == COPY_READS || work == COPY_WRITES) {
        float *to = work == COPY_READS ? other : mine, *from = work == COPY_READS ? mine : other;
        CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream, site));
    } else if (work == TO_HOST)
        CUDA(cudaMemcpyAsync(host, mine, bytes, cudaMemcpyDeviceToHost, stream, site));
    else if (work == FROM_HOST)
        CUDA(cudaMemcpyAsync(mine, host, bytes, cudaMemcpyHostToDevice, stream, site));
    else if (work == SETS)
        CUDA(cudaMemsetAsync(mine, 0, bytes, stream, site));
    else
        CUDA(cudaFreeAsync(mine, stream, site));
}

static void queue_pair(ncclComm_t comm)
{
    const int order = pair_of.order;
    float *x[6];
    cudaEvent_t event[2];
    cudaStream_t s[4];  // the first piece's, the second's, another, one that the default stream waits for
    for (float *&p : x) CUDA(cudaMalloc(&p, NUMBERS * sizeof *p));
    for (cudaEvent_t &e : event) CUDA(cudaEventCreate(&e));
    for (int n = 0; n < 4; n++)
        CUDA(cudaStreamCreateWithFlags(&s[n], n < 3 ? cudaStreamNonBlocking : cudaStreamDefault));
    cudaStream_t first = s[0], second = order == SAME_STREAM ? s[0] : s[1];
    if (order == DEFAULT_THEN_BLOCKING || order == DEFAULT_THEN_OTHER) first = nullptr;
    if (order == DEFAULT_THEN_BLOCKING) second = s[3];
    if (order == BLOCKING_THEN_DEFAULT) first = s[3], second = nullptr;
    CUDA(cudaMemsetAsync(x[5], 0, 4, s[2]));  // while that has not run, what has is not forgotten
    CUDA(cudaEventRecord(event[0], first));
    queue(pair_of.first, 1, x, 0, first, comm);
    if (order != EVENT_BEFORE) CUDA(cudaEventRecord(event[0], first));
    if (order == EVENT || order == EVENT_BEFORE) CUDA(cudaStreamWaitEvent(second, event[0], 0));
    if (order == EVENT_AND_HOST) CUDA(cudaEventSynchronize(event[0]));
    if (order == STREAM_AND_HOST) CUDA(cudaStreamSynchronize(first));
    if (order == OTHER_STREAM_AND_HOST) CUDA(cudaStreamSynchronize(s[2]));
    if (order == DEVICE_AND_HOST) CUDA(cudaDeviceSynchronize());
    if (order == THIRD_STREAM) {
        CUDA(cudaStreamWaitEvent(s[2], event[0], 0));
        CUDA(cudaEventRecord(event[1], s[2]));
        CUDA(cudaStreamWaitEvent(second, event[1], 0));
    }
    if (order == GROUP_OF_MESSAGES) {
        NCCL(ncclGroupStart());
        NCCL(ncclSend(x[3], 1, ncclFloat, 0, comm, first));
        NCCL(ncclRecv(x[4], 1, ncclFloat, 0, comm, second));
        NCCL(ncclGroupEnd());
    }
    queue(pair_of.second, 2, x, pair_of.apart * NUMBERS / 2, second, comm);
    CUDA(cudaDeviceSynchronize());
    for (float *p : x)
        if (p != x[0] || pair_of.second != FREES) CUDA(cudaFree(p));
    for (cudaStream_t stream : s) CUDA(cudaStreamDestroy(stream));
    for (cudaEvent_t e : event) CUDA(cudaEventDestroy(e));
}

// The pairs that may meet, one order of each and all orders of copies, or those that may not, one after the other.
static bool next_pair(bool meets)
{
    do {
        if (++pair_of.second > FREES) pair_of.second = 0, pair_of.first++;
        if (pair_of.first > RECEIVES) pair_of.first = 0, pair_of.order++;
        if (pair_of.order == ORDERS) pair_of.order = 0, pair_of.apart++;
        if (pair_of.apart == 2) return false;
        const bool ordered = pair_of.order < EVENT_BEFORE || pair_of.first == TO_HOST;
        const bool may_meet = !ordered && !pair_of.apart && (writes(pair_of.first) || writes(pair_of.second));
        if (may_meet && pair_of.order != NOTHING && pair_of.first != COPY_WRITES) continue;
        if (may_meet == meets && !(pair_of.apart && pair_of.second == FREES)) return true;
    } while (true);
}
static void from_the_beginning() { pair_of = {0, -1, 0, 0}; }

Test(ranks, pairs_that_are_ordered_or_apart)
{
    const int status = run_in_a_child([] {
        play_ranks(1, [](void *board, int) {
            ncclComm_t comm = wb_rank_begin(board, 0, 1);
            for (from_the_beginning(); next_pair(false);) queue_pair(comm);
            wb_rank_end();
        });
    });
    cr_assert(status == 0, "status %#x\n%s", (unsigned)status, printed);
}

Test(ranks, pairs_that_may_meet)
{
    for (from_the_beginning(); next_pair(true);) {
        const int status = run_in_a_child([] {
            play_ranks(1, [](void *board, int) {
                queue_pair(wb_rank_begin(board, 0, 1));
                wb_rank_end();
            });
        });
        check_reported(status);
        char of_first[32], of_second[32];
        snprintf(of_first, sizeof of_first, "pair:%d", 10 * pair_of.order + 1);
        snprintf(of_second, sizeof of_second, "pair:%d", 10 * pair_of.order + 2);
        check_printed(of_first), check_printed(of_second);
    }
}
#endif
