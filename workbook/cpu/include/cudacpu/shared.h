// shared.h - what cuda_to_cpp.awk makes of declarations of shared memory.
//
//   __shared__ float sums[32];     ->  a constant description of the variable, and a reference to the block's copy of
//                                  it:
//                                      float (&sums)[32] = *static_cast<float (*)[32]>(cudacpu::shared_address(...));
//   extern __shared__ float x[];   ->  float *const x = static_cast<float *>(cudacpu::dynamic_shared(...));
//
// Both kinds hold NaN when a block starts.
#pragma once

#include "keywords.h"

namespace cudacpu
{
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
