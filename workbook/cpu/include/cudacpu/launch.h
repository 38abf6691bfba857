// launch.h - what cuda_to_cpp.awk makes of launches and of declarations of shared memory.
//
//   scale<64><<<grid, 128>>>(x, n + 1);
//   ->  cudacpu::launch(CUDACPU_KERNEL(scale<64>), cudacpu::launch_config(grid, 128),
//                       [=, cudacpu_0 = (x), cudacpu_1 = (n + 1)] { scale<64>(cudacpu_0, cudacpu_1); });
//
// So arguments are evaluated once, on the host, and every thread gets its own copies of them, as on a GPU.
//
//   __shared__ float sums[32];     ->  a constant description of the variable, and float (&sums)[32], a reference to
//                                      the block's copy of it
//   extern __shared__ float x[];   ->  float *const x = static_cast<float *>(cudacpu::dynamic_shared(...));
//
// Both kinds hold NaN when a block starts.
#pragma once

#include "runtime_api.h"
#include "vectors.h"

namespace cudacpu
{
struct kernel {
    const char *name;     // as written in the launch: "scale<64>"
    const void *address;  // null if the name is overloaded
    call_site site;       // of the launch
};

struct launch_config {
    dim3 grid, block;
    size_t shared;  // dynamic shared memory, in bytes
    cudaStream_t stream;
    launch_config(dim3 grid_, dim3 block_, size_t shared_ = 0, cudaStream_t stream_ = nullptr)
        : grid(grid_), block(block_), shared(shared_), stream(stream_)
    {
    }
};

// Runs body(arguments) once in every thread of the grid, or sets the error that cudaGetLastError returns. Back when
// all is done.
void run_grid(const kernel &kernel_, const launch_config &config_, void (*body_)(void *), void *arguments_,
              size_t argument_bytes_);

template <class Call_> void launch(const kernel &kernel_, const launch_config &config_, Call_ call_)
{
    run_grid(
        kernel_, config_, [](void *at_) { (*static_cast<Call_ *>(at_))(); }, &call_, sizeof call_);
}

// For arguments that the filter cannot take apart, such as f<a, b>(c): launch_later(...)(arguments).
template <class Call_> auto launch_later(const kernel &kernel_, const launch_config &config_, Call_ call_)
{
    return [=](auto... arguments_) { launch(kernel_, config_, [=] { call_(arguments_...); }); };
}

struct take_address {
    template <class Result_, class... Parameters_> const void *operator()(Result_ (*function_)(Parameters_...)) const
    {
        return reinterpret_cast<const void *>(function_);
    }
};

// A kernel that is overloaded, or whose template arguments only its call tells, has a name and no address of its own:
// asking for one must then be impossible, and no error. There are two ways to ask, for no compiler takes both where a
// kernel<s.ROWS> is named by what a lambda around the launch was called with. g++ from 13 on and clang before 17 lose
// sight of s in a trailing return type; clang from 17 on has no requires in C++17, and 18 dies of one. The Makefile's
// DIALECT gives each what it understands. Clang before 17 compiles it, and finds no address of such a kernel: as with
// overloaded ones, what any kernel was granted counts for it.
#ifdef __cpp_concepts
#define CUDACPU_KERNEL(...) \
    [=](auto cudacpu_take, ::cudacpu::call_site cudacpu_site) -> ::cudacpu::kernel { \
        if constexpr (requires { cudacpu_take(__VA_ARGS__); }) \
            return {#__VA_ARGS__, cudacpu_take(__VA_ARGS__), cudacpu_site}; \
        else \
            return {#__VA_ARGS__, nullptr, cudacpu_site}; \
    }(::cudacpu::take_address{}, ::cudacpu::here())
#else
template <class Attempt_> kernel describe(const char *name_, Attempt_ attempt_, call_site site_ = here())
{
    if constexpr (std::is_invocable_v<Attempt_, take_address>)
        return {name_, attempt_(take_address{}), site_};
    else
        return {name_, nullptr, site_};
}
#define CUDACPU_KERNEL(...) \
    ::cudacpu::describe(#__VA_ARGS__, [=](auto cudacpu_take) -> decltype(cudacpu_take(__VA_ARGS__)) { \
        return cudacpu_take(__VA_ARGS__); \
    })
#endif

// ------------------------ shared memory

// One declaration, in one kernel. Its own address is what tells it from all others.
struct shared_variable {
    const char *name;
    size_t bytes;    // of the whole variable
    size_t element;  // of one element of the outermost kind: 4 for float x[2][3]
    size_t extent;   // of x[0]: 12 for float x[2][3]
    size_t alignment;
    call_site site;
};

// The block's copy of a variable. Every thread of a block gets the same address.
void *shared_address(const shared_variable &variable_);

// The block's dynamic shared memory, whose size was the third number between <<< and >>>.
void *dynamic_shared(const char *name_, size_t element_, call_site site_);

constexpr bool inside_function(const char *function_) { return function_[0] != 0; }
}

#define CUDACPU_SHARED_IN_FUNCTION() \
    static_assert(::cudacpu::inside_function(__builtin_FUNCTION()), "declare extern __shared__ inside the kernel")
