// nccl.h - messages between ranks, played by the CPU execution layer: NCCL's own names, between processes of this
// machine (cpu/nccl.cpp). What is received is NaN until something that is ordered after the call runs.
#ifndef CUDACPU_NCCL_H
#define CUDACPU_NCCL_H
#include <cuda_runtime.h>

#define NCCL_MAJOR        2
#define NCCL_MINOR        28
#define NCCL_PATCH        9
#define NCCL_VERSION_CODE 22809
#include "nccl_types.h"

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
