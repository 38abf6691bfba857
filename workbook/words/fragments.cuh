// SPDX-License-Identifier: MIT
// fragments.cuh - what a warp can ask of the machine: three instructions of the tensor cores, and a few small things
// beside them. tile.cuh is written with them, and so is problem 19.
//
// A fragment is one lane's share of a block of a matrix: lane 4 g + t holds
//   of a left factor A [16, 16]   f[0]: row g, columns 2 t, 2 t + 1      f[2]: the same row, columns 2 t + 8, 2 t + 9
//                                 f[1]: row g + 8, the same columns      f[3]: row g + 8, columns 2 t + 8, 2 t + 9
//   of a right factor B [16, 8]   f[0]: column g, rows 2 t, 2 t + 1      f[1]: column g, rows 2 t + 8, 2 t + 9
//   of a result C [16, 8]         c[0], c[1]: row g, columns 2 t, 2 t + 1     c[2], c[3]: row g + 8, the same columns
// Two bf16 share a register, the first in its lower half; c are floats. All 32 lanes call together.
#pragma once
#include "workbook.h"

#include <cuda_pipeline_primitives.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TILE_FN __device__ __forceinline__
#ifdef __CUDACC__
#define TILE_UNROLL _Pragma("unroll")  // so that every index into registers is a constant
#else
#define TILE_UNROLL
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define TILE_TENSOR_CORES
#endif

TILE_FN int lane_id() { return threadIdx.x % 32; }
TILE_FN int warp_id() { return threadIdx.x / 32; }

TILE_FN float exp2_fast(float x)  // 2^x with a relative error below 2^-22; exp2_fast(-INFINITY) is 0
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));  // one instruction of the special function unit
    return y;
#else
    return exp2f(x);
#endif
}

// Whether the device allows a block a Tiles of shared memory. It allows 64 KB on sm_75, 99 KB on sm_86, 227 KB on
// sm_90; above 48 KB a kernel must also ask for its part, by cudaFuncSetAttribute. If it does not say, it allows none.
template <class Tiles> static bool fits()
{
    int device, limit;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
           sizeof(Tiles) <= (size_t)limit;
}

namespace tile_machine
{
TILE_FN uint32_t bits(__nv_bfloat162 pair)
{
    uint32_t u;
    memcpy(&u, &pair, 4);
    return u;
}
// Rounds two neighbours to bf16, into one register.
TILE_FN uint32_t pack(float low, float high) { return bits(__floats2bfloat162_rn(low, high)); }
TILE_FN uint32_t pack(bf16 low, bf16 high) { return bits(__halves2bfloat162(low, high)); }

TILE_FN float as_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}
TILE_FN float low(uint32_t pair) { return as_float(pair << 16); }  // a bf16 is the upper half of a float
TILE_FN float high(uint32_t pair) { return as_float(pair & 0xffff0000u); }

// ldmatrix: four 8 x 8 blocks from shared memory, f[i] from the i-th. Lane 8 i + j hands in where row j of block i
// begins: 16 bytes, at a multiple of 16. Lane 4 g + t receives columns 2 t, 2 t + 1 of row g; with .trans rows 2 t,
// 2 t + 1 of column g.
//
// mma: C += A B for fragments of A [16, 16], B [16, 8] and C [16, 8].
#ifdef __CUDACPU__

TILE_FN void ldmatrix(uint32_t f[4], const void *row, bool transposed, cudacpu::call_site from)
{
#ifdef CUDACPU_SEES_LOADS
    cudacpu::matrix_load(row);
    cudacpu::matrix_load(nullptr);
#endif
    cudacpu::load_matrices(f, row, transposed, from);
}
TILE_FN void ldmatrix_x4(uint32_t f[4], const void *row, cudacpu::call_site from = cudacpu::here())
{
    ldmatrix(f, row, false, from);
}
TILE_FN void ldmatrix_x4_trans(uint32_t f[4], const void *row, cudacpu::call_site from = cudacpu::here())
{
    ldmatrix(f, row, true, from);
}
TILE_FN void mma_m16n8k16(float c[4], const uint32_t a[4], const uint32_t b[2],
                          cudacpu::call_site from = cudacpu::here())
{
    cudacpu::warp_product mine = {1, 1, 1, c, a, b};
    cudacpu::warp_call(cudacpu::multiply, &mine, from);
}

#else

#define TILE_LDMATRIX(type) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" type ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]) \
                 : "r"((uint32_t)__cvta_generic_to_shared(row)) \
                 : "memory")
TILE_FN void ldmatrix_x4(uint32_t f[4], const void *row) { TILE_LDMATRIX(""); }
TILE_FN void ldmatrix_x4_trans(uint32_t f[4], const void *row) { TILE_LDMATRIX(".trans"); }

#ifdef TILE_TENSOR_CORES

TILE_FN void mma_m16n8k16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else  // before sm_80: shuffles and ordinary arithmetic. One copy for all: inlined, it would take minutes to compile.

inline __device__ __noinline__ float4 multiply_by_shuffles(float4 result, uint4 left, uint2 right)
{
    const uint32_t a[4] = {left.x, left.y, left.z, left.w}, b[2] = {right.x, right.y};
    float c[4] = {result.x, result.y, result.z, result.w};
    // The first lanes that hold our rows of A and our columns of B. The k-th from there holds, of A, columns 2 k, 2 k
    // + 1, 2 k + 8 and 2 k + 9, and of B these rows.
    const int row = lane_id() & ~3, col = lane_id() % 4 * 8;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 4; i++)
            for (int beside = 0; beside < 2; beside++) {
                const uint32_t q = __shfl_sync(0xffffffffu, b[beside], col + 4 * (i % 2) + k);
                const uint32_t r = __shfl_sync(0xffffffffu, a[i / 2 + 2 * beside], row + k);
                c[i] += low(q) * low(r) + high(q) * high(r);
            }
    return make_float4(c[0], c[1], c[2], c[3]);
}

TILE_FN void mma_m16n8k16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    const float4 sum = multiply_by_shuffles(make_float4(c[0], c[1], c[2], c[3]), make_uint4(a[0], a[1], a[2], a[3]),
                                            make_uint2(b[0], b[1]));
    c[0] = sum.x, c[1] = sum.y, c[2] = sum.z, c[3] = sum.w;
}

#endif
#endif
}  // namespace tile_machine
