// cuda_bf16.h - __nv_bfloat16: the upper half of a float32. Arithmetic goes through float32 and rounds to the nearest,
// ties to even, which gives the GPU's bits for + - * / and fma. NVIDIA's own header is never used here, so no toolkit
// is needed.
#pragma once

#include "cuda_runtime.h"

struct __nv_bfloat16 {
    unsigned short bits_;
    __nv_bfloat16() = default;
    template <class Number_, class = std::enable_if_t<std::is_arithmetic_v<Number_>>> __nv_bfloat16(Number_ x_)
    {
        const float rounded_ = static_cast<float>(x_);
        const uint32_t all_ = cudacpu::same_bits<uint32_t>(rounded_);
        bits_ = rounded_ != rounded_ ? 0x7fff : static_cast<unsigned short>((all_ + 0x7fff + (all_ >> 16 & 1)) >> 16);
    }
    CUDACPU_INLINE operator float() const { return cudacpu::same_bits<float>(static_cast<uint32_t>(bits_) << 16); }
    __nv_bfloat16 &operator+=(__nv_bfloat16 y_) { return *this = float(*this) + float(y_); }
    __nv_bfloat16 &operator-=(__nv_bfloat16 y_) { return *this = float(*this) - float(y_); }
    __nv_bfloat16 &operator*=(__nv_bfloat16 y_) { return *this = float(*this) * float(y_); }
    __nv_bfloat16 &operator/=(__nv_bfloat16 y_) { return *this = float(*this) / float(y_); }
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    __nv_bfloat162(__nv_bfloat16 x_, __nv_bfloat16 y_) : x(x_), y(y_) {}
};
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

// ------------------------ conversions

inline __nv_bfloat16 __float2bfloat16(float x_) { return x_; }
inline __nv_bfloat16 __float2bfloat16_rn(float x_) { return x_; }
inline float __bfloat162float(__nv_bfloat16 x_) { return x_; }
CUDACPU_INLINE __nv_bfloat162 __floats2bfloat162_rn(float x_, float y_) { return {x_, y_}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v_) { return {v_.x, v_.y}; }
CUDACPU_INLINE __nv_bfloat162 __float2bfloat162_rn(float x_) { return {x_, x_}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x_) { return {x_, x_}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x_, __nv_bfloat16 y_) { return {x_, y_}; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x_, __nv_bfloat16 y_) { return {x_, y_}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v_) { return {v_.x, v_.y}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v_) { return v_.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v_) { return v_.y; }
inline float __low2float(__nv_bfloat162 v_) { return v_.x; }
inline float __high2float(__nv_bfloat162 v_) { return v_.y; }

// ------------------------ arithmetic

#define CUDACPU_BF16_ARITHMETIC(operator_, name_, name2_, sign_) \
    inline __nv_bfloat16 operator_(__nv_bfloat16 x_, __nv_bfloat16 y_) { return float(x_) sign_ float(y_); } \
    inline __nv_bfloat162 operator_(__nv_bfloat162 x_, __nv_bfloat162 y_) \
    { \
        return {x_.x sign_ y_.x, x_.y sign_ y_.y}; \
    } \
    inline __nv_bfloat16 name_(__nv_bfloat16 x_, __nv_bfloat16 y_) { return x_ sign_ y_; } \
    inline __nv_bfloat162 name2_(__nv_bfloat162 x_, __nv_bfloat162 y_) { return x_ sign_ y_; }
CUDACPU_BF16_ARITHMETIC(operator+, __hadd, __hadd2, +)
CUDACPU_BF16_ARITHMETIC(operator-, __hsub, __hsub2, -)
CUDACPU_BF16_ARITHMETIC(operator*, __hmul, __hmul2, *)
CUDACPU_BF16_ARITHMETIC(operator/, __hdiv, __h2div, /)

#define CUDACPU_BF16_COMPARISON(operator_) \
    inline bool operator operator_(__nv_bfloat16 x_, __nv_bfloat16 y_) { return float(x_) operator_ float(y_); }
CUDACPU_BF16_COMPARISON(==)
CUDACPU_BF16_COMPARISON(!=)
CUDACPU_BF16_COMPARISON(<)
CUDACPU_BF16_COMPARISON(<=)
CUDACPU_BF16_COMPARISON(>)
CUDACPU_BF16_COMPARISON(>=)

inline __nv_bfloat16 operator-(__nv_bfloat16 x_) { return -float(x_); }
inline __nv_bfloat162 operator-(__nv_bfloat162 x_) { return {-x_.x, -x_.y}; }
// A float32 product of two is exact, a double sum of it and a third nearly so: rounding to 16 bits then happens once.
CUDACPU_INLINE __nv_bfloat16 __hfma(__nv_bfloat16 x_, __nv_bfloat16 y_, __nv_bfloat16 z_)
{
    return static_cast<double>(float(x_) * float(y_)) + float(z_);
}
inline __nv_bfloat16 __hmax(__nv_bfloat16 x_, __nv_bfloat16 y_) { return fmaxf(x_, y_); }
inline __nv_bfloat16 __hmin(__nv_bfloat16 x_, __nv_bfloat16 y_) { return fminf(x_, y_); }
CUDACPU_INLINE __nv_bfloat162 __hfma2(__nv_bfloat162 x_, __nv_bfloat162 y_, __nv_bfloat162 z_)
{
    return {__hfma(x_.x, y_.x, z_.x), __hfma(x_.y, y_.y, z_.y)};
}
inline __nv_bfloat162 __hmax2(__nv_bfloat162 x_, __nv_bfloat162 y_) { return {__hmax(x_.x, y_.x), __hmax(x_.y, y_.y)}; }
inline __nv_bfloat162 __hmin2(__nv_bfloat162 x_, __nv_bfloat162 y_) { return {__hmin(x_.x, y_.x), __hmin(x_.y, y_.y)}; }
