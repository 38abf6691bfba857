// editor.h - for editors alone (compile_commands.sh): clang's own CUDA mode over the layer's headers, so that a .cu
// file is understood as it stands, launches included, where there is no CUDA Toolkit. Every function is for host and
// device alike, as on the layer; but operator new and what can be thrown, which clang declares for the host beforehand.
#include <exception>
#include <new>
#define __CLANG_CUDA_WRAPPERS_NEW
#pragma clang force_cuda_host_device begin
#include <cuda_runtime.h>
#undef __global__
#undef __shared__
#undef __align__
#define __global__     __attribute__((global))
#define __shared__     __attribute__((shared))
#define __align__(...) __attribute__((aligned(__VA_ARGS__)))
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0,
                                                cudaStream_t stream = nullptr);
