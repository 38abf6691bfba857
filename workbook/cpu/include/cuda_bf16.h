// cuda_bf16.h - __nv_bfloat16: the upper half of a float32. NVIDIA's own header is never used here, so no toolkit is needed.
#ifndef CUDACPU_CUDA_BF16_H
#define CUDACPU_CUDA_BF16_H

#include "cuda_runtime.h"
#include "cudacpu/sixteen_bits.h"

CUDACPU_SIXTEEN_BITS(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, __nv_bfloat162_raw, bfloat16_from_float,
                     float_from_bfloat16)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

inline __nv_bfloat16 __float2bfloat16(float x_) { return __nv_bfloat16(x_); }
inline __nv_bfloat16 __float2bfloat16_rn(float x_) { return __nv_bfloat16(x_); }
inline __nv_bfloat16 __double2bfloat16(double x_) { return __nv_bfloat16(x_); }
inline __nv_bfloat16 __int2bfloat16_rn(int x_) { return __nv_bfloat16(x_); }
inline float __bfloat162float(__nv_bfloat16 x_) { return x_; }
inline int __bfloat162int_rn(__nv_bfloat16 x_) { return __float2int_rn(x_); }

inline __nv_bfloat162 __floats2bfloat162_rn(float x_, float y_) { return __nv_bfloat162(x_, y_); }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v_) { return __nv_bfloat162(v_.x, v_.y); }
inline __nv_bfloat162 __float2bfloat162_rn(float x_) { return __nv_bfloat162(x_, x_); }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x_) { return __nv_bfloat162(x_, x_); }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x_, __nv_bfloat16 y_) { return __nv_bfloat162(x_, y_); }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x_, __nv_bfloat16 y_) { return __nv_bfloat162(x_, y_); }
inline float2 __bfloat1622float2(__nv_bfloat162 v_) { return {v_.x, v_.y}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v_) { return v_.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v_) { return v_.y; }
inline float __low2float(__nv_bfloat162 v_) { return v_.x; }
inline float __high2float(__nv_bfloat162 v_) { return v_.y; }
inline __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 v_) { return __nv_bfloat162(v_.y, v_.x); }

inline short __bfloat16_as_short(__nv_bfloat16 x_) { return static_cast<short>(x_.bits_); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x_) { return x_.bits_; }
inline __nv_bfloat16 __short_as_bfloat16(short x_) { return __nv_bfloat16_raw{static_cast<unsigned short>(x_)}; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x_) { return __nv_bfloat16_raw{x_}; }

#endif
