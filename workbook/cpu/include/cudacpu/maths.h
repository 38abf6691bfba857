// maths.h - loads with cache hints, fast-math intrinsics, bits, and min and max as nvcc overloads them. The fast
// functions are the exact ones here: results agree with a GPU's to a tolerance, never bit by bit.
#pragma once

#include "vectors.h"

// ------------------------ loads and stores

#define CUDACPU_LOAD(name_) \
    template <class Type_> inline Type_ name_(const Type_ *at_) { return *at_; }
CUDACPU_LOAD(__ldg)
CUDACPU_LOAD(__ldcg)
CUDACPU_LOAD(__ldcs)

#define CUDACPU_STORE(name_) \
    template <class Type_> inline void name_(Type_ *at_, Type_ value_) { *at_ = value_; }
CUDACPU_STORE(__stcg)
CUDACPU_STORE(__stcs)

inline size_t __cvta_generic_to_shared(const void *at_) { return reinterpret_cast<size_t>(at_); }

// ------------------------ float32

// Macros, because glibc declares functions of these names that do not exist.
#define __expf(x_)     expf(x_)
#define __logf(x_)     logf(x_)
#define __log2f(x_)    log2f(x_)
#define __powf(x_, y_) powf(x_, y_)

inline float rsqrtf(float x_) { return 1.0f / sqrtf(x_); }
inline double rsqrt(double x_) { return 1.0 / sqrt(x_); }
inline float __fdividef(float x_, float y_) { return x_ / y_; }
inline float __saturatef(float x_) { return x_ > 0 ? (x_ < 1 ? x_ : 1) : 0; }  // NaN gives 0

inline float __fadd_rn(float x_, float y_) { return x_ + y_; }
inline float __fsub_rn(float x_, float y_) { return x_ - y_; }
inline float __fmul_rn(float x_, float y_) { return x_ * y_; }
inline float __fdiv_rn(float x_, float y_) { return x_ / y_; }
inline float __fmaf_rn(float x_, float y_, float z_) { return fmaf(x_, y_, z_); }
inline float __frcp_rn(float x_) { return 1.0f / x_; }
inline float __fsqrt_rn(float x_) { return sqrtf(x_); }
inline float __frsqrt_rn(float x_) { return 1.0f / sqrtf(x_); }

// ------------------------ conversions and bits

namespace cudacpu
{
template <class To_, class From_> CUDACPU_INLINE To_ same_bits(From_ from_)
{
    static_assert(sizeof(To_) == sizeof(From_), "a bit cast needs two types of the same size");
    To_ to_;
    memcpy(&to_, &from_, sizeof to_);
    return to_;
}

// Outside the range of the integer the nearest one, and 0 for NaN, as the GPU's instructions do.
template <class To_> To_ to_integer(double x_)
{
    if (x_ != x_) return 0;
    const double low_ = static_cast<double>(std::numeric_limits<To_>::min());
    const double high_ = static_cast<double>(std::numeric_limits<To_>::max());
    if (x_ <= low_) return std::numeric_limits<To_>::min();
    return x_ >= high_ ? std::numeric_limits<To_>::max() : static_cast<To_>(x_);
}
}

inline float __int_as_float(int x_) { return cudacpu::same_bits<float>(x_); }
inline int __float_as_int(float x_) { return cudacpu::same_bits<int>(x_); }
inline float __uint_as_float(unsigned x_) { return cudacpu::same_bits<float>(x_); }
inline unsigned __float_as_uint(float x_) { return cudacpu::same_bits<unsigned>(x_); }

inline int __float2int_rn(float x_) { return cudacpu::to_integer<int>(rintf(x_)); }
inline int __float2int_rz(float x_) { return cudacpu::to_integer<int>(truncf(x_)); }
inline int __float2int_ru(float x_) { return cudacpu::to_integer<int>(ceilf(x_)); }
inline int __float2int_rd(float x_) { return cudacpu::to_integer<int>(floorf(x_)); }
inline float __int2float_rn(int x_) { return static_cast<float>(x_); }

inline int __popc(unsigned x_) { return __builtin_popcount(x_); }
inline int __clz(int x_) { return x_ ? __builtin_clz(static_cast<unsigned>(x_)) : 32; }
inline int __ffs(int x_) { return __builtin_ffs(x_); }
inline int __mulhi(int x_, int y_) { return static_cast<int>((static_cast<long long>(x_) * y_) >> 32); }
CUDACPU_INLINE unsigned __byte_perm(unsigned x_, unsigned y_, unsigned selector_)
{
    const uint64_t both_ = static_cast<uint64_t>(y_) << 32 | x_;
    unsigned result_ = 0;
    for (int byte_ = 0; byte_ < 4; byte_++)
        result_ |= static_cast<unsigned>(both_ >> 8 * (selector_ >> 4 * byte_ & 7) & 0xff) << 8 * byte_;
    return result_;
}

// ------------------------ min and max

#define CUDACPU_MIN_MAX(result_, first_, second_) \
    inline result_ min(first_ x_, second_ y_) \
    { \
        return static_cast<result_>(x_) < static_cast<result_>(y_) ? static_cast<result_>(x_) \
                                                                   : static_cast<result_>(y_); \
    } \
    inline result_ max(first_ x_, second_ y_) \
    { \
        return static_cast<result_>(x_) > static_cast<result_>(y_) ? static_cast<result_>(x_) \
                                                                   : static_cast<result_>(y_); \
    }
#define CUDACPU_MIN_MAX_INTEGER(signed_, unsigned_) \
    CUDACPU_MIN_MAX(signed_, signed_, signed_) \
    CUDACPU_MIN_MAX(unsigned_, unsigned_, unsigned_) \
    CUDACPU_MIN_MAX(unsigned_, signed_, unsigned_) \
    CUDACPU_MIN_MAX(unsigned_, unsigned_, signed_)
CUDACPU_MIN_MAX_INTEGER(int, unsigned int)
CUDACPU_MIN_MAX_INTEGER(long, unsigned long)
CUDACPU_MIN_MAX_INTEGER(long long, unsigned long long)

// With one NaN the result is the other number.
#define CUDACPU_MIN_MAX_FLOAT(result_, first_, second_, fmin_, fmax_) \
    inline result_ min(first_ x_, second_ y_) { return fmin_(x_, y_); } \
    inline result_ max(first_ x_, second_ y_) { return fmax_(x_, y_); }
CUDACPU_MIN_MAX_FLOAT(float, float, float, fminf, fmaxf)
CUDACPU_MIN_MAX_FLOAT(double, double, double, fmin, fmax)
CUDACPU_MIN_MAX_FLOAT(double, float, double, fmin, fmax)
CUDACPU_MIN_MAX_FLOAT(double, double, float, fmin, fmax)

// ------------------------ the clock

inline long long clock64()
{
    timespec now_;
    clock_gettime(CLOCK_MONOTONIC, &now_);
    return now_.tv_sec * 1000000000LL + now_.tv_nsec;
}

namespace cudacpu
{
[[noreturn]] void trap(call_site site_);
}
[[noreturn]] inline void __trap(cudacpu::call_site site_ = cudacpu::here()) { cudacpu::trap(site_); }
