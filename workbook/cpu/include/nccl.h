// nccl.h - messages between ranks, played by the CPU execution layer: NCCL's own names, between processes of this machine (cpu/nccl.cpp).
// What is received is NaN until something that is ordered after the call runs.
#ifndef CUDACPU_NCCL_H
#define CUDACPU_NCCL_H
#include <cuda_runtime.h>

#define NCCL_MAJOR           2
#define NCCL_MINOR           28
#define NCCL_PATCH           9
#define NCCL_VERSION_CODE    22809
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
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9
} ncclDataType_t;

ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void *from_, size_t count_, ncclDataType_t type_, int peer_, ncclComm_t comm_,
                      cudaStream_t stream_, cudacpu::call_site site_ = cudacpu::here());
ncclResult_t ncclRecv(void *to_, size_t count_, ncclDataType_t type_, int peer_, ncclComm_t comm_, cudaStream_t stream_,
                      cudacpu::call_site site_ = cudacpu::here());
ncclResult_t ncclBroadcast(const void *from_, void *to_, size_t count_, ncclDataType_t type_, int root_,
                           ncclComm_t comm_, cudaStream_t stream_, cudacpu::call_site site_ = cudacpu::here());
ncclResult_t ncclAllGather(const void *from_, void *to_, size_t count_, ncclDataType_t type_, ncclComm_t comm_,
                           cudaStream_t stream_, cudacpu::call_site site_ = cudacpu::here());
ncclResult_t ncclReduceScatter(const void *from_, void *to_, size_t count_, ncclDataType_t type_, ncclRedOp_t op_,
                               ncclComm_t comm_, cudaStream_t stream_, cudacpu::call_site site_ = cudacpu::here());
ncclResult_t ncclAllReduce(const void *from_, void *to_, size_t count_, ncclDataType_t type_, ncclRedOp_t op_,
                           ncclComm_t comm_, cudaStream_t stream_, cudacpu::call_site site_ = cudacpu::here());

ncclResult_t ncclCommCount(ncclComm_t comm_, int *count_);
ncclResult_t ncclCommUserRank(ncclComm_t comm_, int *rank_);
ncclResult_t ncclCommCuDevice(ncclComm_t comm_, int *device_);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm_, ncclResult_t *error_);
ncclResult_t ncclGetVersion(int *version_);
const char *ncclGetErrorString(ncclResult_t result_);
const char *ncclGetLastError(ncclComm_t comm_);  // what the last call was refused for
#endif
