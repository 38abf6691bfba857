// nccl.cu - finds NVIDIA's NCCL when it is first called, so that nothing needs it that calls none of it: a build on a
// machine without it, problems 01 to 16. A process that has one already, PyTorch's for example, goes on with that one,
// whose communicators no other understands. Else it is looked for where WB_NCCL says, in the system, and beside CUDA;
// where the system has none, make lets WB_NCCL be Python's nvidia-nccl. The CPU layer has messages of its own
// (cpu/nccl.cpp).
#include "workbook.h"

#include <dlfcn.h>
#include <nccl.h>
#include <stdlib.h>

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

static const char *const missing = "NCCL not found: libnccl.so.2 is not in the system, in CUDA's folder or in "
                                   "Python's nvidia-nccl; WB_NCCL=path gives its location";

static void *open_nccl(void)
{
    if (void *there = dlopen("libnccl.so.2", RTLD_NOLOAD | RTLD_NOW)) return there;
    if (const char *path = getenv("WB_NCCL")) return dlopen(path, RTLD_NOW);
    void *found = dlopen("libnccl.so.2", RTLD_NOW);
#ifdef WB_CUDA_HOME
    if (!found) found = dlopen(STRING(WB_CUDA_HOME) "/lib64/libnccl.so.2", RTLD_NOW);
#endif
    return found;
}

static void *look_up(const char *name)
{
    static void *const library = open_nccl();
    return library ? dlsym(library, name) : nullptr;
}

// Each is called through a pointer to NVIDIA's own, which is found once.
#define FORWARD(name, arguments, values) \
    extern "C" __attribute__((visibility("default"))) ncclResult_t name arguments \
    { \
        static const auto found = reinterpret_cast<ncclResult_t(*) arguments>(look_up(#name)); \
        return found ? found values : ncclSystemError; \
    }
FORWARD(ncclGetUniqueId, (ncclUniqueId * id), (id))
FORWARD(ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank), (comm, ranks, id, rank))
FORWARD(ncclCommDestroy, (ncclComm_t comm), (comm))
FORWARD(ncclCommAbort, (ncclComm_t comm), (comm))
FORWARD(ncclGroupStart, (void), ())
FORWARD(ncclGroupEnd, (void), ())
FORWARD(ncclSend, (const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream),
        (from, n, type, peer, comm, stream))
FORWARD(ncclRecv, (void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream),
        (to, n, type, peer, comm, stream))
FORWARD(ncclAllGather,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream),
        (from, to, n, type, comm, stream))
FORWARD(ncclAllReduce,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
         cudaStream_t stream),
        (from, to, n, type, op, comm, stream))

extern "C" __attribute__((visibility("default"))) const char *ncclGetErrorString(ncclResult_t result)
{
    static const auto found = reinterpret_cast<const char *(*)(ncclResult_t)>(look_up("ncclGetErrorString"));
    return found ? found(result) : missing;
}
extern "C" __attribute__((visibility("default"))) const char *ncclGetLastError(ncclComm_t comm)
{
    static const auto found = reinterpret_cast<const char *(*)(ncclComm_t)>(look_up("ncclGetLastError"));
    return found ? found(comm) : missing;
}
