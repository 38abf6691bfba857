// nccl.h - of NVIDIA's NCCL what the workbook calls, with its own message: names, numbers and argument lists are the
// library's, whose documentation says what they do. For machines on which its header is not installed; where there is
// one of NVIDIA's, that is read. And for the CPU execution layer, which plays it between processes of this machine
// (cpu/nccl.cpp): what is received is NaN there until something that is ordered after the call runs.
#ifndef NCCL_H_
#define NCCL_H_
#include <cuda_runtime.h>

#define NCCL_UNIQUE_ID_BYTES 128

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
} ncclResult_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 } ncclRedOp_t;

typedef enum {
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9
} ncclDataType_t;

#ifdef __CUDACPU__
#define NCCL_FROM , cudacpu::call_site site_ = cudacpu::here()
#else
#define NCCL_FROM
__BEGIN_DECLS

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
#endif
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclSend(const void *from_, size_t count_, ncclDataType_t type_, int peer_, ncclComm_t comm_,
                      cudaStream_t stream_ NCCL_FROM);
ncclResult_t ncclRecv(void *to_, size_t count_, ncclDataType_t type_, int peer_, ncclComm_t comm_,
                      cudaStream_t stream_ NCCL_FROM);
ncclResult_t ncclAllGather(const void *from_, void *to_, size_t count_, ncclDataType_t type_, ncclComm_t comm_,
                           cudaStream_t stream_ NCCL_FROM);
ncclResult_t ncclAllReduce(const void *from_, void *to_, size_t count_, ncclDataType_t type_, ncclRedOp_t op_,
                           ncclComm_t comm_, cudaStream_t stream_ NCCL_FROM);
const char *ncclGetErrorString(ncclResult_t result_);
const char *ncclGetLastError(ncclComm_t comm_);  // what the last call was refused for
#undef NCCL_FROM
#ifndef __CUDACPU__
__END_DECLS
#endif
#endif
