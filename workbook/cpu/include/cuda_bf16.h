// cuda_bf16.h - __nv_bfloat16: the upper half of a float32. NVIDIA's own header is never used here, so no toolkit is
// needed.
#pragma once

#include "cuda_runtime.h"
#include "cudacpu/sixteen_bits.h"

CUDACPU_SIXTEEN_BITS(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, __nv_bfloat162_raw, bfloat16_from_float,
                     float_from_bfloat16)
CUDACPU_SIXTEEN_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, bfloat16)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
