// ranks_device.cu - see ranks.h. NCCL adds up gradients on a stream of its own, the wire, behind what makes them in the
// default stream, while that one goes on with the layer below. The wire's blocks come first: else they would wait for
// room until a product has ended, and all ranks with them.
#include "ranks.h"

#include "layer_requests.h"
#include "rank.h"

#include <initializer_list>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

static wb_ring ring;
static cudaEvent_t made, arrived;
static double *number;  // on the device
static void *board;     // shared memory of all ranks, of so many bytes
static size_t board_bytes;

#define MUST(call) \
    do { \
        if ((call) != WB_OK) FAIL("rank %d of %d: %s", ranks.mine, ranks.all, wb_last_message()); \
    } while (0)

void ranks_prepare(int count)
{
#ifdef __CUDACPU__
    board_bytes = wb_board_bytes((size_t)1 << 30);  // what a test sends
#else
    board_bytes = WB_RANK_ID;
#endif
    board = mmap(NULL, board_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (board == MAP_FAILED) FAIL("no memory that %d ranks could share", count);
}

static wb_status have_device(void)
{
#ifndef __CUDACPU__
    int devices = 0;
    cudaGetDeviceCount(&devices);
    if (ranks.mine > devices) pause();  // the first that has none says so, and all end
    if (ranks.mine == devices) return wb_fail(WB_UNSUPPORTED, "each rank needs a GPU, but there are %d", devices);
    WB_CUDA(cudaSetDevice(ranks.mine));
#endif
    return WB_OK;
}

static wb_status connect_rank(void)
{
    ring = {nullptr, ranks.mine, ranks.all, nullptr};
    MUST(have_device());
    MUST(wb_rank_join(board, board_bytes, &ring));
    for (cudaEvent_t *e : {&made, &arrived}) WB_CUDA(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    WB_CUDA(cudaMalloc(&number, sizeof *number));
    return WB_OK;
}
void ranks_connect(void) { MUST(connect_rank()); }

void ranks_end(void)
{
    if (ranks.all > 1) {
        ranks_mean(0);
        MUST(wb_rank_leave(&ring));
    }
    ranks = {0, 1};
}

// What comes next on the wire waits for what is queued.
static wb_status behind(void)
{
    WB_CUDA(cudaEventRecord(made, nullptr));
    WB_CUDA(cudaStreamWaitEvent(ring.wire, made, 0));
    return WB_OK;
}

static wb_status average(real *x, size_t n)
{
    MUST(behind());
    WB_NCCL(ncclAllReduce(x, x, n, ncclFloat, ncclAvg, ring.comm, ring.wire));
    return WB_OK;
}
void ranks_average(real *x, size_t n)
{
    if (ranks.all > 1) MUST(average(x, n));
}

static wb_status travel(const move *moves, int count)
{
    MUST(behind());
    WB_NCCL(ncclGroupStart());
    for (const move *m = moves; m < moves + count; m++) {
        if (m->from == m->to || m->n == 0) continue;
        if (m->from == ranks.mine) WB_NCCL(ncclSend(m->out, m->n, ncclBfloat16, m->to, ring.comm, ring.wire));
        if (m->to == ranks.mine) WB_NCCL(ncclRecv(m->in, m->n, ncclBfloat16, m->from, ring.comm, ring.wire));
    }
    WB_NCCL(ncclGroupEnd());
    WB_CUDA(cudaEventRecord(arrived, ring.wire));
    WB_CUDA(cudaStreamWaitEvent(nullptr, arrived, 0));
    return WB_OK;
}
void ranks_move(const move *moves, int count)
{
    for (const move *m = moves; m < moves + count; m++)
        if (m->from == ranks.mine && m->to == ranks.mine) copy_runs(m->in, 0, m->out, 0, m->n, 1);
    if (ranks.all > 1) MUST(travel(moves, count));
}
wb_ring ranks_ring(void) { return {ring.comm, ranks.mine, ranks.all, ring.wire}; }

static wb_status mean(double *x)
{
    WB_CUDA(cudaMemcpyAsync(number, x, sizeof *x, cudaMemcpyHostToDevice, ring.wire));
    WB_NCCL(ncclAllReduce(number, number, 1, ncclDouble, ncclSum, ring.comm, ring.wire));
    WB_CUDA(cudaMemcpyAsync(x, number, sizeof *x, cudaMemcpyDeviceToHost, ring.wire));
    WB_CUDA(cudaStreamSynchronize(ring.wire));
    answer_within(0);  // what travelled was made by the backward pass, kernels of 09 too (attention_device.c)
    *x /= ranks.all;
    return WB_OK;
}
double ranks_mean(double x)
{
    if (ranks.all > 1) MUST(mean(&x));
    return x;
}
