// keywords.h - CUDA's words for the host compiler. Nearly all mean nothing here: host and device are the same machine.
//
// A rule for every header of this folder: students call things N, D, tile or lane, sometimes as macros. So parameters,
// locals and template parameters end in an underscore, and macros begin with CUDACPU_.
#pragma once

#ifdef __CUDACC__
#error "these headers are for the host compiler: remove workbook/cpu/include from nvcc's include path"
#endif
#ifdef __CUDA_ARCH__
#error "__CUDA_ARCH__ is defined, but this build has no GPU code; test __CUDACPU__ instead"
#endif
#ifndef __CUDACPU__
#define __CUDACPU__ 1
#endif

// What nvcc includes before a .cu file.
#include <assert.h>
#include <limits.h>
#include <limits>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS  // Bessel functions and the like: half the time that all these headers take
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __forceinline__ inline  // not always_inline: g++ rejects that behind a function pointer
#define CUDACPU_INLINE  __attribute__((always_inline)) inline  // for a few small words: kernels are compiled in a hurry
#define __noinline__  // a hint; the standard library uses the same word inside __attribute__(( ))
#define __align__(...) alignas(__VA_ARGS__)

// cuda_to_cpp.awk turns each declaration of shared memory into a call (see launch.h). One that it does not understand,
// or in a header that it never saw, becomes this: still one variable for the whole block, since a block stays on one
// host thread.
#define __shared__ static thread_local

// cuda_to_cpp.awk puts this in the place of inline assembly. It does no harm in a branch that the preprocessor drops.
#define CUDACPU_NO_PTX() \
    static_assert(false, "inline PTX needs a GPU: put it under #ifdef __CUDACC__, with plain C++ in the #else")

namespace cudacpu
{
// Where in the student's source something was called, for reports.
struct call_site {
    const char *file;
    int line;
    int reached = 0;  // of a call of the host's, how: report.h
};

// As a default argument it is evaluated where the outermost call stands.
constexpr call_site here(const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE()) { return {file_, line_}; }
}
