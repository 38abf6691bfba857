// cuda_fp16.h - __half: IEEE binary16. NVIDIA's own header is never used here, so no toolkit is needed.
#ifndef CUDACPU_CUDA_FP16_H
#define CUDACPU_CUDA_FP16_H

#include "cuda_runtime.h"
#include "cudacpu/sixteen_bits.h"

CUDACPU_SIXTEEN_BITS(__half, __half2, __half_raw, __half2_raw, half_from_float, float_from_half)
typedef __half half;
typedef __half2 half2;

inline __half __float2half(float x_) { return __half(x_); }
inline __half __float2half_rn(float x_) { return __half(x_); }
inline __half __double2half(double x_) { return __half(x_); }
inline __half __int2half_rn(int x_) { return __half(x_); }
inline float __half2float(__half x_) { return x_; }
inline int __half2int_rn(__half x_) { return __float2int_rn(x_); }

inline __half2 __floats2half2_rn(float x_, float y_) { return __half2(x_, y_); }
inline __half2 __float22half2_rn(float2 v_) { return __half2(v_.x, v_.y); }
inline __half2 __float2half2_rn(float x_) { return __half2(x_, x_); }
inline __half2 __half2half2(__half x_) { return __half2(x_, x_); }
inline __half2 __halves2half2(__half x_, __half y_) { return __half2(x_, y_); }
inline __half2 make_half2(__half x_, __half y_) { return __half2(x_, y_); }
inline float2 __half22float2(__half2 v_) { return {v_.x, v_.y}; }
inline __half __low2half(__half2 v_) { return v_.x; }
inline __half __high2half(__half2 v_) { return v_.y; }
inline float __low2float(__half2 v_) { return v_.x; }
inline float __high2float(__half2 v_) { return v_.y; }
inline __half2 __lowhigh2highlow(__half2 v_) { return __half2(v_.y, v_.x); }

inline short __half_as_short(__half x_) { return static_cast<short>(x_.bits_); }
inline unsigned short __half_as_ushort(__half x_) { return x_.bits_; }
inline __half __short_as_half(short x_) { return __half_raw{static_cast<unsigned short>(x_)}; }
inline __half __ushort_as_half(unsigned short x_) { return __half_raw{x_}; }

#endif
