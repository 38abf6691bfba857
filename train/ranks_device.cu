// ranks_device.cu - see ranks.h. NCCL adds up gradients on a stream of its own, the wire, behind what makes them in the default stream, while that one
// goes on with the layer below. The wire's blocks come first: else they would wait for room until a product has ended, and all ranks with them.
#include "ranks.h"

#include "asks.h"

#include <arpa/inet.h>
#include <initializer_list>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

static ncclComm_t comm;
static cudaStream_t wire;
static cudaEvent_t made, arrived;
static double *number;  // on the device
static bool of_launcher = true;

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != WB_OK) FAIL("rank %d of %d: %s", ranks.mine, ranks.all, wb_last_message());                      \
    } while (0)

#ifdef __CUDACPU__
static void *board;
void ranks_prepare(wb_start *start)
{
    const size_t arena = (size_t)1 << 30;  // what a test sends
    board =
        mmap(NULL, wb_board_bytes(arena), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (board == MAP_FAILED) FAIL("no memory that %d ranks could share", start->ranks);
    wb_board_make(board, arena, start->ranks);
    of_launcher = false;
}
static wb_status join(const wb_start *start)
{
    comm = wb_rank_begin(board, start->rank, start->ranks);
    return WB_OK;
}
#else
// Rank 0 will listen at a port of this machine that is free now.
void ranks_prepare(wb_start *start)
{
    sockaddr_in at = {};
    at.sin_family = AF_INET, at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (sockaddr *)&at, length) != 0 || getsockname(s, (sockaddr *)&at, &length) != 0)
        FAIL("there is no free port on this machine");
    close(s);
    snprintf(start->host, sizeof start->host, "127.0.0.1");
    snprintf(start->port, sizeof start->port, "%d", ntohs(at.sin_port));
    of_launcher = false;
}
static wb_status join(const wb_start *start)
{
    int devices = 0;
    ncclUniqueId id;
    cudaGetDeviceCount(&devices);
    if (!of_launcher && start->local > devices) pause();  // the first that has none says so, and all end
    if (devices == 0 || (!of_launcher && start->local == devices))
        return wb_fail(WB_UNSUPPORTED, "a GPU each is needed, and here are %d", devices);
    WB_CUDA(cudaSetDevice(start->local % devices));
    if (start->rank == 0) WB_NCCL(ncclGetUniqueId(&id));
    const wb_status status = wb_start_share(start, &id, sizeof id, 60);
    if (status != WB_OK) return status;
    WB_NCCL(ncclCommInitRank(&comm, start->ranks, id, start->rank));
    return WB_OK;
}
#endif

static wb_status connect_rank(const wb_start *start)
{
    int least = 0, most = 0;
    const wb_status status = join(start);
    if (status != WB_OK) return status;
    WB_CUDA(cudaDeviceGetStreamPriorityRange(&least, &most));
    WB_CUDA(cudaStreamCreateWithPriority(&wire, cudaStreamNonBlocking, most));
    for (cudaEvent_t *e : {&made, &arrived}) WB_CUDA(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
    WB_CUDA(cudaMalloc(&number, sizeof *number));
    return WB_OK;
}
void ranks_connect(const wb_start *start) { MUST(connect_rank(start)); }

static wb_status leave(void)
{
#ifdef __CUDACPU__
    wb_rank_end();
#else
    WB_NCCL(ncclCommDestroy(comm));
#endif
    return WB_OK;
}
void ranks_end(void)
{
    if (ranks.all > 1) {
        ranks_mean(0);
        MUST(leave());
    }
    ranks = {0, 1};
}

// What comes next on the wire waits for what is queued.
static wb_status behind(void)
{
    WB_CUDA(cudaEventRecord(made, nullptr));
    WB_CUDA(cudaStreamWaitEvent(wire, made, 0));
    return WB_OK;
}

static wb_status average(real *x, size_t n)
{
    MUST(behind());
    WB_NCCL(ncclAllReduce(x, x, n, ncclFloat, ncclAvg, comm, wire));
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
        if (m->from == ranks.mine) WB_NCCL(ncclSend(m->out, m->n, ncclBfloat16, m->to, comm, wire));
        if (m->to == ranks.mine) WB_NCCL(ncclRecv(m->in, m->n, ncclBfloat16, m->from, comm, wire));
    }
    WB_NCCL(ncclGroupEnd());
    WB_CUDA(cudaEventRecord(arrived, wire));
    WB_CUDA(cudaStreamWaitEvent(nullptr, arrived, 0));
    return WB_OK;
}
void ranks_move(const move *moves, int count)
{
    for (const move *m = moves; m < moves + count; m++)
        if (m->from == ranks.mine && m->to == ranks.mine) copy_runs(m->in, 0, m->out, 0, m->n, 1);
    if (ranks.all > 1) MUST(travel(moves, count));
}
wb_ring ranks_ring(void) { return {comm, ranks.mine, ranks.all, wire}; }

static wb_status mean(double *x)
{
    WB_CUDA(cudaMemcpyAsync(number, x, sizeof *x, cudaMemcpyHostToDevice, wire));
    WB_NCCL(ncclAllReduce(number, number, 1, ncclDouble, ncclSum, comm, wire));
    WB_CUDA(cudaMemcpyAsync(x, number, sizeof *x, cudaMemcpyDeviceToHost, wire));
    WB_CUDA(cudaStreamSynchronize(wire));
    alarm(0);  // what travelled was made by the backward pass, kernels of 09 too (attention_device.c)
    *x /= ranks.all;
    return WB_OK;
}
double ranks_mean(double x)
{
    if (ranks.all > 1) MUST(mean(&x));
    return x;
}
