// sync.h - barriers, shuffles, votes and reductions: all the places where a thread may have to wait for others; and
// atomics.
#pragma once

#include "vectors.h"

namespace cudacpu
{
// ------------------------ the whole block
enum barrier_kind { BARRIER, BARRIER_COUNT, BARRIER_AND, BARRIER_OR };

// Waits for all threads of the block; returns what `kind` asks about everybody's predicate.
int block_barrier(barrier_kind kind_, bool predicate_, call_site site_);

// ------------------------ lanes of a warp
// clang-format off
#define CUDACPU_WARP_OPERATIONS(row_) \
    row_(SYNC_WARP, "__syncwarp()") \
    row_(SHUFFLE, "__shfl_sync()") \
    row_(SHUFFLE_UP, "__shfl_up_sync()") \
    row_(SHUFFLE_DOWN, "__shfl_down_sync()") \
    row_(SHUFFLE_XOR, "__shfl_xor_sync()") \
    row_(BALLOT, "__ballot_sync()") \
    row_(ANY, "__any_sync()") \
    row_(ALL, "__all_sync()") \
    row_(ADD, "__reduce_add_sync()") \
    row_(MIN_INT, "__reduce_min_sync()") \
    row_(MAX_INT, "__reduce_max_sync()") \
    row_(MIN_UNSIGNED, "__reduce_min_sync()") \
    row_(MAX_UNSIGNED, "__reduce_max_sync()") \
    row_(AND_BITS, "__reduce_and_sync()") \
    row_(OR_BITS, "__reduce_or_sync()") \
    row_(XOR_BITS, "__reduce_xor_sync()") \
    row_(CALL, "an operation of the whole warp")
// clang-format on
#define CUDACPU_FIRST(name_, ...) name_,
enum warp_operation { CUDACPU_WARP_OPERATIONS(CUDACPU_FIRST) };

// Waits until all lanes of the mask have called with the same operation and mask; returns this lane's result.
uint64_t warp_wait(warp_operation operation_, unsigned mask_, uint64_t value_, int argument_, int width_,
                   call_site site_);

// All lanes of a warp call this together with the same function. When the last one arrives, f runs once and is given
// every lane's `mine`, in lane order; count is 32, less in the last warp of a block that is no multiple of 32. The way
// to emulate an instruction of the whole warp.
void warp_call(void (*f_)(void **lanes_, int count_), void *mine_, call_site site_ = here());

template <class Value_> CUDACPU_INLINE uint64_t to_word(Value_ value_)
{
    static_assert(sizeof(Value_) <= 8, "a shuffle takes values of at most 8 bytes: shuffle the parts of a larger one");
    uint64_t word_ = 0;
    memcpy(&word_, static_cast<const void *>(&value_), sizeof(Value_));
    return word_;
}

template <class Value_> CUDACPU_INLINE Value_ from_word(uint64_t word_)
{
    Value_ value_;
    memcpy(static_cast<void *>(&value_), &word_, sizeof(Value_));
    return value_;
}
}

inline void __syncthreads(cudacpu::call_site site_ = cudacpu::here())
{
    cudacpu::block_barrier(cudacpu::BARRIER, false, site_);
}
#define CUDACPU_BARRIER(name_, kind_) \
    inline int name_(int predicate_, cudacpu::call_site site_ = cudacpu::here()) \
    { \
        return cudacpu::block_barrier(cudacpu::kind_, predicate_ != 0, site_); \
    }
CUDACPU_BARRIER(__syncthreads_count, BARRIER_COUNT)
CUDACPU_BARRIER(__syncthreads_and, BARRIER_AND)
CUDACPU_BARRIER(__syncthreads_or, BARRIER_OR)

inline void __syncwarp(unsigned mask_ = 0xffffffffu, cudacpu::call_site site_ = cudacpu::here())
{
    cudacpu::warp_wait(cudacpu::SYNC_WARP, mask_, 0, 0, 32, site_);
}

// Threads of a block take turns on one host thread and blocks share one memory: nothing is ever out of order between
// them but what the host's processor does, and that a fence orders.
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"  // the check build has a fence of its own (check/entry.cpp)
#endif
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#define CUDACPU_SHUFFLE(name_, operation_, argument_type_) \
    template <class Value_> CUDACPU_INLINE Value_ name_(unsigned mask_, Value_ value_, argument_type_ argument_, \
                                                        int width_ = 32, cudacpu::call_site site_ = cudacpu::here()) \
    { \
        return cudacpu::from_word<Value_>(cudacpu::warp_wait(cudacpu::operation_, mask_, cudacpu::to_word(value_), \
                                                             static_cast<int>(argument_), width_, site_)); \
    }
CUDACPU_SHUFFLE(__shfl_sync, SHUFFLE, int)
CUDACPU_SHUFFLE(__shfl_up_sync, SHUFFLE_UP, unsigned)
CUDACPU_SHUFFLE(__shfl_down_sync, SHUFFLE_DOWN, unsigned)
CUDACPU_SHUFFLE(__shfl_xor_sync, SHUFFLE_XOR, int)

#define CUDACPU_VOTE(type_, name_, operation_) \
    inline type_ name_(unsigned mask_, int predicate_, cudacpu::call_site site_ = cudacpu::here()) \
    { \
        return static_cast<type_>(cudacpu::warp_wait(cudacpu::operation_, mask_, predicate_ != 0, 0, 32, site_)); \
    }
CUDACPU_VOTE(unsigned, __ballot_sync, BALLOT)
CUDACPU_VOTE(int, __any_sync, ANY)
CUDACPU_VOTE(int, __all_sync, ALL)

#define CUDACPU_REDUCE(type_, name_, operation_) \
    inline type_ name_(unsigned mask_, type_ value_, cudacpu::call_site site_ = cudacpu::here()) \
    { \
        return cudacpu::from_word<type_>( \
            cudacpu::warp_wait(cudacpu::operation_, mask_, cudacpu::to_word(value_), 0, 32, site_)); \
    }
CUDACPU_REDUCE(int, __reduce_add_sync, ADD)
CUDACPU_REDUCE(int, __reduce_min_sync, MIN_INT)
CUDACPU_REDUCE(int, __reduce_max_sync, MAX_INT)
CUDACPU_REDUCE(unsigned, __reduce_add_sync, ADD)
CUDACPU_REDUCE(unsigned, __reduce_min_sync, MIN_UNSIGNED)
CUDACPU_REDUCE(unsigned, __reduce_max_sync, MAX_UNSIGNED)
CUDACPU_REDUCE(unsigned, __reduce_and_sync, AND_BITS)
CUDACPU_REDUCE(unsigned, __reduce_or_sync, OR_BITS)
CUDACPU_REDUCE(unsigned, __reduce_xor_sync, XOR_BITS)

#define __activemask() \
    ([] { \
        static_assert(false, "__activemask() does not guarantee which lanes arrive: name the lanes you mean"); \
        return 0u; \
    }())

// ------------------------ atomics, in shared and in global memory, which return the old value

#define CUDACPU_ATOMIC_INTEGER(type_) \
    type_ atomicAdd(type_ *at_, type_ value_); \
    type_ atomicExch(type_ *at_, type_ value_); \
    type_ atomicCAS(type_ *at_, type_ expected_, type_ value_); \
    type_ atomicMin(type_ *at_, type_ value_); \
    type_ atomicMax(type_ *at_, type_ value_); \
    type_ atomicAnd(type_ *at_, type_ value_); \
    type_ atomicOr(type_ *at_, type_ value_); \
    type_ atomicXor(type_ *at_, type_ value_);
CUDACPU_ATOMIC_INTEGER(int)
CUDACPU_ATOMIC_INTEGER(unsigned int)
CUDACPU_ATOMIC_INTEGER(unsigned long long)

int atomicSub(int *at_, int value_);
unsigned int atomicSub(unsigned int *at_, unsigned int value_);
unsigned int atomicInc(unsigned int *at_, unsigned int limit_);  // old >= limit ? 0 : old + 1
unsigned int atomicDec(unsigned int *at_, unsigned int limit_);  // old == 0 || old > limit ? limit : old - 1
float atomicAdd(float *at_, float value_);
float atomicExch(float *at_, float value_);
double atomicAdd(double *at_, double value_);

// One machine, one scope.
template <class Type_> Type_ atomicAdd_block(Type_ *at_, Type_ value_) { return atomicAdd(at_, value_); }
template <class Type_> Type_ atomicAdd_system(Type_ *at_, Type_ value_) { return atomicAdd(at_, value_); }
