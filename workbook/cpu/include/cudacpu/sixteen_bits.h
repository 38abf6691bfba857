// sixteen_bits.h - what __half and __nv_bfloat16 have in common. They hold 16 bits; arithmetic goes through float32
// and rounds to the nearest, ties to even, which gives the GPU's bits for + - * / and fma.
#pragma once

#include "maths.h"

namespace cudacpu
{
inline unsigned short bfloat16_from_float(float x_)
{
    const uint32_t bits_ = same_bits<uint32_t>(x_);
    if (x_ != x_) return 0x7fff;
    return static_cast<unsigned short>((bits_ + 0x7fff + (bits_ >> 16 & 1)) >> 16);
}

CUDACPU_INLINE float float_from_bfloat16(unsigned short bits_)
{
    return same_bits<float>(static_cast<uint32_t>(bits_) << 16);
}

// half: 1 sign, 5 exponent (bias 15), 10 fraction bits.
inline unsigned short half_from_float(float x_)
{
    const uint32_t bits_ = same_bits<uint32_t>(x_), sign_ = bits_ >> 16 & 0x8000, size_ = bits_ & 0x7fffffff;
    if (size_ > 0x7f800000) return 0x7fff;                                        // NaN
    if (size_ >= 0x477ff000) return static_cast<unsigned short>(sign_ | 0x7c00);  // 65520 and more: infinity
    if (size_ < 0x33000000) return static_cast<unsigned short>(sign_);            // less than 2^-25: zero
    uint32_t kept_, lost_, half_way_;
    if (size_ < 0x38800000) {  // below 2^-14: a subnormal, the exponent becomes a shift
        const uint32_t fraction_ = (size_ & 0x7fffff) | 0x800000, shift_ = 126 - (size_ >> 23);
        kept_ = fraction_ >> shift_;
        lost_ = fraction_ & ((1u << shift_) - 1);
        half_way_ = 1u << (shift_ - 1);
    } else {
        kept_ = (size_ - 0x38000000) >> 13;
        lost_ = size_ & 0x1fff;
        half_way_ = 0x1000;
    }
    if (lost_ > half_way_ || (lost_ == half_way_ && (kept_ & 1))) kept_++;
    return static_cast<unsigned short>(sign_ | kept_);
}

inline float float_from_half(unsigned short bits_)
{
    const uint32_t sign_ = (bits_ & 0x8000u) << 16, exponent_ = bits_ >> 10 & 31, fraction_ = bits_ & 1023;
    if (exponent_ == 31) return same_bits<float>(sign_ | 0x7f800000 | fraction_ << 13);
    if (exponent_) return same_bits<float>(sign_ | (exponent_ + 112) << 23 | fraction_ << 13);
    const float size_ = static_cast<float>(fraction_) * 0x1p-24f;
    return sign_ ? -size_ : size_;
}

// A float32 product of two is exact, a double sum of it and a third nearly so: rounding to 16 bits then happens once.
template <class Half_> Half_ fused_multiply_add(Half_ x_, Half_ y_, Half_ z_)
{
    return Half_(static_cast<float>(static_cast<double>(static_cast<float>(x_)) * static_cast<float>(y_) +
                                    static_cast<float>(z_)));
}
}

// The type, its pair, its raw form, and the two conversions.
#define CUDACPU_SIXTEEN_BITS(half_, pair_, raw_, pair_raw_, from_float_, to_float_)                                    \
    struct raw_ {                                                                                                      \
        unsigned short x;                                                                                              \
    };                                                                                                                 \
    struct pair_raw_ {                                                                                                 \
        unsigned short x, y;                                                                                           \
    };                                                                                                                 \
    struct half_ {                                                                                                     \
        unsigned short bits_;                                                                                          \
        half_() = default;                                                                                             \
        half_(raw_ from_) : bits_(from_.x) {}                                                                          \
        template <class Number_, class = std::enable_if_t<std::is_arithmetic_v<Number_>>> half_(Number_ x_)            \
            : bits_(cudacpu::from_float_(static_cast<float>(x_)))                                                      \
        {                                                                                                              \
        }                                                                                                              \
        CUDACPU_INLINE operator float() const { return cudacpu::to_float_(bits_); }                                    \
        operator raw_() const { return {bits_}; }                                                                      \
        half_ &operator+=(half_ y_) { return *this = half_(float(*this) + float(y_)); }                                \
        half_ &operator-=(half_ y_) { return *this = half_(float(*this) - float(y_)); }                                \
        half_ &operator*=(half_ y_) { return *this = half_(float(*this) * float(y_)); }                                \
        half_ &operator/=(half_ y_) { return *this = half_(float(*this) / float(y_)); }                                \
    };                                                                                                                 \
    struct alignas(4) pair_ {                                                                                          \
        half_ x, y;                                                                                                    \
        pair_() = default;                                                                                             \
        pair_(half_ x_, half_ y_) : x(x_), y(y_) {}                                                                    \
    };                                                                                                                 \
    CUDACPU_HALF_ARITHMETIC(half_, pair_, operator+, __hadd, __hadd2, +)                                               \
    CUDACPU_HALF_ARITHMETIC(half_, pair_, operator-, __hsub, __hsub2, -)                                               \
    CUDACPU_HALF_ARITHMETIC(half_, pair_, operator*, __hmul, __hmul2, *)                                               \
    CUDACPU_HALF_ARITHMETIC(half_, pair_, operator/, __hdiv, __h2div, /)                                               \
    CUDACPU_HALF_COMPARISON(half_, operator==, __heq, ==)                                                              \
    CUDACPU_HALF_COMPARISON(half_, operator!=, __hne, !=)                                                              \
    CUDACPU_HALF_COMPARISON(half_, operator<, __hlt, <)                                                                \
    CUDACPU_HALF_COMPARISON(half_, operator<=, __hle, <=)                                                              \
    CUDACPU_HALF_COMPARISON(half_, operator>, __hgt, >)                                                                \
    CUDACPU_HALF_COMPARISON(half_, operator>=, __hge, >=)                                                              \
    inline half_ operator-(half_ x_) { return half_(raw_{static_cast<unsigned short>(x_.bits_ ^ 0x8000)}); }           \
    inline pair_ operator-(pair_ x_) { return pair_(-x_.x, -x_.y); }                                                   \
    inline half_ __hfma(half_ x_, half_ y_, half_ z_) { return cudacpu::fused_multiply_add(x_, y_, z_); }              \
    inline pair_ __hfma2(pair_ x_, pair_ y_, pair_ z_)                                                                 \
    {                                                                                                                  \
        return pair_(__hfma(x_.x, y_.x, z_.x), __hfma(x_.y, y_.y, z_.y));                                              \
    }                                                                                                                  \
    inline bool __hisnan(half_ x_) { return float(x_) != float(x_); }                                                  \
    inline int __hisinf(half_ x_) { return float(x_) == HUGE_VALF ? 1 : float(x_) == -HUGE_VALF ? -1 : 0; }            \
    CUDACPU_HALF_UNARY(half_, pair_, __hneg, __hneg2, -)                                                               \
    CUDACPU_HALF_UNARY(half_, pair_, __habs, __habs2, fabsf)                                                           \
    CUDACPU_HALF_UNARY(half_, pair_, hexp, h2exp, expf)                                                                \
    CUDACPU_HALF_UNARY(half_, pair_, hexp2, h2exp2, exp2f)                                                             \
    CUDACPU_HALF_UNARY(half_, pair_, hlog, h2log, logf)                                                                \
    CUDACPU_HALF_UNARY(half_, pair_, hlog2, h2log2, log2f)                                                             \
    CUDACPU_HALF_UNARY(half_, pair_, hsqrt, h2sqrt, sqrtf)                                                             \
    CUDACPU_HALF_UNARY(half_, pair_, hrsqrt, h2rsqrt, rsqrtf)                                                          \
    CUDACPU_HALF_UNARY(half_, pair_, hrcp, h2rcp, 1.0f /)                                                              \
    inline half_ __hmax(half_ x_, half_ y_) { return half_(fmaxf(x_, y_)); }                                           \
    inline half_ __hmin(half_ x_, half_ y_) { return half_(fminf(x_, y_)); }                                           \
    inline pair_ __hmax2(pair_ x_, pair_ y_) { return pair_(__hmax(x_.x, y_.x), __hmax(x_.y, y_.y)); }                 \
    inline pair_ __hmin2(pair_ x_, pair_ y_) { return pair_(__hmin(x_.x, y_.x), __hmin(x_.y, y_.y)); }

// What is called after the type: name_ is bfloat16 for __float2bfloat16, half for __float2half.
#define CUDACPU_SIXTEEN_CONVERSIONS(half_, pair_, raw_, name_)                                                         \
    inline half_ __float2##name_(float x_) { return half_(x_); }                                                       \
    inline half_ __float2##name_##_rn(float x_) { return half_(x_); }                                                  \
    inline half_ __double2##name_(double x_) { return half_(x_); }                                                     \
    inline half_ __int2##name_##_rn(int x_) { return half_(x_); }                                                      \
    inline float __##name_##2float(half_ x_) { return x_; }                                                            \
    inline int __##name_##2int_rn(half_ x_) { return __float2int_rn(x_); }                                             \
    inline pair_ __floats2##name_##2_rn(float x_, float y_) { return pair_(x_, y_); }                                  \
    inline pair_ __float22##name_##2_rn(float2 v_) { return pair_(v_.x, v_.y); }                                       \
    inline pair_ __float2##name_##2_rn(float x_) { return pair_(x_, x_); }                                             \
    inline pair_ __##name_##2##name_##2(half_ x_) { return pair_(x_, x_); }                                            \
    inline pair_ __halves2##name_##2(half_ x_, half_ y_) { return pair_(x_, y_); }                                     \
    inline pair_ make_##name_##2(half_ x_, half_ y_) { return pair_(x_, y_); }                                         \
    inline float2 __##name_##22float2(pair_ v_) { return {v_.x, v_.y}; }                                               \
    inline half_ __low2##name_(pair_ v_) { return v_.x; }                                                              \
    inline half_ __high2##name_(pair_ v_) { return v_.y; }                                                             \
    inline float __low2float(pair_ v_) { return v_.x; }                                                                \
    inline float __high2float(pair_ v_) { return v_.y; }                                                               \
    inline pair_ __lowhigh2highlow(pair_ v_) { return pair_(v_.y, v_.x); }                                             \
    inline short __##name_##_as_short(half_ x_) { return static_cast<short>(x_.bits_); }                               \
    inline unsigned short __##name_##_as_ushort(half_ x_) { return x_.bits_; }                                         \
    inline half_ __short_as_##name_(short x_) { return raw_{static_cast<unsigned short>(x_)}; }                        \
    inline half_ __ushort_as_##name_(unsigned short x_) { return raw_{x_}; }

#define CUDACPU_HALF_ARITHMETIC(half_, pair_, operator_, name_, name2_, sign_)                                         \
    inline half_ operator_(half_ x_, half_ y_) { return half_(float(x_) sign_ float(y_)); }                            \
    inline pair_ operator_(pair_ x_, pair_ y_) { return pair_(x_.x sign_ y_.x, x_.y sign_ y_.y); }                     \
    inline half_ name_(half_ x_, half_ y_) { return x_ sign_ y_; }                                                     \
    inline pair_ name2_(pair_ x_, pair_ y_) { return x_ sign_ y_; }

#define CUDACPU_HALF_COMPARISON(half_, operator_, name_, sign_)                                                        \
    inline bool operator_(half_ x_, half_ y_) { return float(x_) sign_ float(y_); }                                    \
    inline bool name_(half_ x_, half_ y_) { return float(x_) sign_ float(y_); }

#define CUDACPU_HALF_UNARY(half_, pair_, name_, name2_, function_)                                                     \
    inline half_ name_(half_ x_) { return half_(function_(float(x_))); }                                               \
    inline pair_ name2_(pair_ x_) { return pair_(name_(x_.x), name_(x_.y)); }
