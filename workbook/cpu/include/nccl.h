// nccl.h - messages between ranks, played by the CPU execution layer: NCCL's own names, between processes of this
// machine (cpu/nccl.cpp). What is received is NaN until something that is ordered after the call runs.
#ifndef CUDACPU_NCCL_H
#define CUDACPU_NCCL_H
#include <cuda_runtime.h>

#include "nccl_types.h"

ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void *from_, size_t count_, ncclDataType_t type_, int peer_, ncclComm_t comm_,
                      cudaStream_t stream_, cudacpu::call_site site_ = cudacpu::here());
ncclResult_t ncclRecv(void *to_, size_t count_, ncclDataType_t type_, int peer_, ncclComm_t comm_, cudaStream_t stream_,
                      cudacpu::call_site site_ = cudacpu::here());
ncclResult_t ncclAllGather(const void *from_, void *to_, size_t count_, ncclDataType_t type_, ncclComm_t comm_,
                           cudaStream_t stream_, cudacpu::call_site site_ = cudacpu::here());
ncclResult_t ncclAllReduce(const void *from_, void *to_, size_t count_, ncclDataType_t type_, ncclRedOp_t op_,
                           ncclComm_t comm_, cudaStream_t stream_, cudacpu::call_site site_ = cudacpu::here());

const char *ncclGetErrorString(ncclResult_t result_);
const char *ncclGetLastError(ncclComm_t comm_);  // what the last call was refused for
#endif
