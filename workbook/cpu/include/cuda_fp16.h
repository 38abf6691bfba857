// cuda_fp16.h - __half: IEEE binary16. NVIDIA's own header is never used here, so no toolkit is needed.
#pragma once

#include "cuda_runtime.h"
#include "cudacpu/sixteen_bits.h"

CUDACPU_SIXTEEN_BITS(__half, __half2, __half_raw, __half2_raw, half_from_float, float_from_half)
CUDACPU_SIXTEEN_CONVERSIONS(__half, __half2, __half_raw, half)
typedef __half half;
typedef __half2 half2;
