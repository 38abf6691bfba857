// cooperative_groups.h - thread_block, tiles of a warp, and reduce. No grid-wide groups: blocks do not run all at the
// same time.
#pragma once

#include "cuda_runtime.h"

namespace cooperative_groups
{
class thread_block
{
  public:
    void sync(cudacpu::call_site site_ = cudacpu::here()) const { __syncthreads(site_); }
    static unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
    static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned num_threads() { return size(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 dim_threads() { return blockDim; }
};

inline thread_block this_thread_block() { return {}; }

// Size_ neighbouring lanes of a warp.
template <unsigned Size_, class Parent_ = void> class thread_block_tile
{
    static_assert(Size_ >= 1 && Size_ <= 32 && (Size_ & (Size_ - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

    static unsigned first_lane_() { return thread_block::thread_rank() % 32 / Size_ * Size_; }
    static unsigned lanes_() { return (Size_ == 32 ? 0xffffffffu : (1u << Size_ % 32) - 1) << first_lane_(); }

  public:
    static unsigned thread_rank() { return thread_block::thread_rank() % Size_; }
    static constexpr unsigned size() { return Size_; }
    static constexpr unsigned num_threads() { return Size_; }
    static unsigned meta_group_rank() { return thread_block::thread_rank() / Size_; }
    static unsigned meta_group_size() { return (thread_block::size() + Size_ - 1) / Size_; }

    void sync(cudacpu::call_site site_ = cudacpu::here()) const { __syncwarp(lanes_(), site_); }
#define CUDACPU_TILE_SHUFFLE(name_, of_warp_, argument_type_) \
    template <class Value_> \
    Value_ name_(Value_ value_, argument_type_ by_, cudacpu::call_site site_ = cudacpu::here()) const \
    { \
        return of_warp_(lanes_(), value_, by_, Size_, site_); \
    }
    CUDACPU_TILE_SHUFFLE(shfl, __shfl_sync, int)
    CUDACPU_TILE_SHUFFLE(shfl_up, __shfl_up_sync, unsigned)
    CUDACPU_TILE_SHUFFLE(shfl_down, __shfl_down_sync, unsigned)
    CUDACPU_TILE_SHUFFLE(shfl_xor, __shfl_xor_sync, int)
#undef CUDACPU_TILE_SHUFFLE
    unsigned ballot(int predicate_, cudacpu::call_site site_ = cudacpu::here()) const
    {
        return __ballot_sync(lanes_(), predicate_, site_) >> first_lane_();
    }
    int any(int x_, cudacpu::call_site site_ = cudacpu::here()) const { return __any_sync(lanes_(), x_, site_); }
    int all(int x_, cudacpu::call_site site_ = cudacpu::here()) const { return __all_sync(lanes_(), x_, site_); }
};

template <unsigned Size_, class Group_> thread_block_tile<Size_> tiled_partition(const Group_ &) { return {}; }

template <class Group_> void sync(const Group_ &group_, cudacpu::call_site site_ = cudacpu::here())
{
    group_.sync(site_);
}

template <class Type_ = void> struct plus {
    template <class Value_> Value_ operator()(Value_ x_, Value_ y_) const { return x_ + y_; }
};
template <class Type_ = void> struct less {  // the smaller one: this is how CUDA names the minimum
    template <class Value_> Value_ operator()(Value_ x_, Value_ y_) const { return y_ < x_ ? y_ : x_; }
};
template <class Type_ = void> struct greater {
    template <class Value_> Value_ operator()(Value_ x_, Value_ y_) const { return x_ < y_ ? y_ : x_; }
};

template <unsigned Size_, class Parent_, class Value_, class Function_>
Value_ reduce(const thread_block_tile<Size_, Parent_> &tile_, Value_ value_, Function_ function_,
              cudacpu::call_site site_ = cudacpu::here())
{
    for (unsigned by_ = Size_ / 2; by_; by_ /= 2)
        value_ = function_(value_, tile_.shfl_xor(value_, static_cast<int>(by_), site_));
    return value_;
}
}
