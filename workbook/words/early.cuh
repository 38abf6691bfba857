// SPDX-License-Identifier: MIT
// early.cuh - launches of sm_90 (CUDA C++ Programming Guide): of a kernel that takes its place on the GPU while the one
// before it ends (programmatic dependent launch), and in clusters of blocks.
#pragma once
#include "tile.cuh"

// A kernel launched early may begin when all blocks of the one before have called after_may_begin() or ended. All its
// blocks call before_is_done(), and before they touch what that one reads or writes: what comes behind waits for both
// only so. Elsewhere than on sm_90 and later: nothing to do.
TILE_FN void before_is_done()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
TILE_FN void after_may_begin()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// kernel<<<grid, threads, bytes, stream>>>(arguments...), early, or in clusters of grid.y; cudaGetLastError() tells how
// it went. False, and nothing is launched, where that is not to be had: on the CPU layer, where kernels run one after
// another, and where the kernel was compiled for a GPU before sm_90.
enum launch_kind { EARLY, IN_CLUSTERS };
#ifdef __CUDACPU__
template <launch_kind kind, class... Launch> static bool launch_as(const Launch &...) { return false; }
#else
template <launch_kind kind, class... Parameters, class... Arguments>
static bool launch_as(void (*kernel)(Parameters...), dim3 grid, int threads, size_t bytes, cudaStream_t stream,
                      Arguments... arguments)
{
    static thread_local struct {
        const void *kernel;
        int device;
    } asked;  // last, and it was compiled for this: the driver needs 0.5 us to say so
    int device;
    if (cudaGetDevice(&device) != cudaSuccess) return false;
    if (asked.kernel != reinterpret_cast<const void *>(kernel) || asked.device != device) {
        cudaFuncAttributes made;
        if (cudaFuncGetAttributes(&made, kernel) != cudaSuccess || made.ptxVersion < 90) return false;
        asked = {reinterpret_cast<const void *>(kernel), device};
    }
    cudaLaunchAttribute as = {};
    as.id = kind == EARLY ? cudaLaunchAttributeProgrammaticStreamSerialization : cudaLaunchAttributeClusterDimension;
    if (kind == EARLY)
        as.val.programmaticStreamSerializationAllowed = 1;
    else
        as.val.clusterDim.x = as.val.clusterDim.z = 1, as.val.clusterDim.y = grid.y;
    cudaLaunchConfig_t how = {};
    how.gridDim = grid, how.blockDim = dim3(threads), how.dynamicSmemBytes = bytes, how.stream = stream;
    how.attrs = &as, how.numAttrs = 1;
    cudaLaunchKernelEx(&how, kernel, Parameters(arguments)...);
    return true;
}
#endif
template <class... Launch> static bool launch_early(Launch... launch) { return launch_as<EARLY>(launch...); }
