// rank.cu - see rank.h.
#include "rank.h"

extern "C" wb_status wb_copy_to_host_behind(void *host, const void *device, size_t bytes, wb_stream stream)
{
    WB_CUDA(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream));
    return WB_OK;
}

#ifdef __CUDACPU__
#include "layer_requests.h"

extern "C" wb_status wb_rank_device(int, int) { return WB_OK; }

static wb_status join(void *board, size_t bytes, wb_ring *ring)
{
    const size_t least = wb_board_bytes(0);
    if (board && bytes < least) return wb_fail(WB_OUT_OF_MEMORY, "the ranks' shared memory needs %zu bytes", least);
    if (board) wb_board_make(board, bytes - least, ring->ranks);
    ring->comm = wb_rank_begin(board, ring->rank, ring->ranks);
    return WB_OK;
}

static wb_status leave(const wb_ring *) { return wb_rank_end(), WB_OK; }

#else
#include <nccl.h>
#include <unistd.h>

extern "C" wb_status wb_rank_device(int rank, int ranks)
{
    int devices;
    WB_CUDA(cudaGetDeviceCount(&devices));
    if (devices < ranks) return wb_fail(WB_UNSUPPORTED, "%d ranks need as many GPUs, but there are %d", ranks, devices);
    WB_CUDA(cudaSetDevice(rank));
    return WB_OK;
}

struct id_board {  // what the board is here
    int written;
    ncclUniqueId id;
};
static_assert(sizeof(id_board) <= WB_RANK_ID, "the shared memory can hold NCCL's id");

static wb_status said(const char *call, ncclResult_t result)
{
    return result == ncclSuccess ? WB_OK : wb_fail(WB_DEVICE_ERROR, "%s: %s", call, ncclGetErrorString(result));
}

static wb_status join(void *board, size_t, wb_ring *ring)
{
    if (!board) return WB_OK;
    id_board *b = static_cast<id_board *>(board);
    if (ring->rank == 0) {
        const wb_status made = said("ncclGetUniqueId()", ncclGetUniqueId(&b->id));
        if (made != WB_OK) return made;
        __atomic_store_n(&b->written, 1, __ATOMIC_RELEASE);
    }
    while (!__atomic_load_n(&b->written, __ATOMIC_ACQUIRE)) usleep(100);  // to which the judge has an end
    return said("ncclCommInitRank()", ncclCommInitRank(&ring->comm, ring->ranks, b->id, ring->rank));
}

static wb_status leave(const wb_ring *ring)
{
    return ring->comm ? said("ncclCommDestroy()", ncclCommDestroy(ring->comm)) : WB_OK;
}
#endif

extern "C" wb_status wb_rank_join(void *board, size_t board_bytes, wb_ring *ring)
{
    const wb_status status = join(ring->ranks > 1 ? board : nullptr, board_bytes, ring);
    if (status != WB_OK) return status;
    int least = 0, most = 0;  // where products fill a GPU, what travels has to come first
    WB_CUDA(cudaDeviceGetStreamPriorityRange(&least, &most));
    WB_CUDA(cudaStreamCreateWithPriority(&ring->wire, cudaStreamNonBlocking, most));
    return WB_OK;
}

extern "C" wb_status wb_rank_leave(const wb_ring *ring)
{
    const wb_status status = leave(ring);
    if (status != WB_OK) return status;
    WB_CUDA(cudaStreamDestroy(ring->wire));
    return WB_OK;
}
