// vectors.h - float4 and its relatives, dim3, and the four variables that tell a thread who it is.
#pragma once

#include "keywords.h"

// Type name, stem of the vector's name, alignment of the vectors of two and of four.
#define CUDACPU_VECTOR(type_, stem_, align2_, align4_) \
    struct stem_##1 { type_ x; }; \
    struct alignas(align2_) stem_##2 { type_ x, y; }; \
    struct stem_##3 { type_ x, y, z; }; \
    struct alignas(align4_) stem_##4 { type_ x, y, z, w; }; \
    inline stem_##1 make_##stem_##1(type_ x_) { return {x_}; } \
    inline stem_##2 make_##stem_##2(type_ x_, type_ y_) { return {x_, y_}; } \
    inline stem_##3 make_##stem_##3(type_ x_, type_ y_, type_ z_) { return {x_, y_, z_}; } \
    inline stem_##4 make_##stem_##4(type_ x_, type_ y_, type_ z_, type_ w_) { return {x_, y_, z_, w_}; }

CUDACPU_VECTOR(signed char, char, 2, 4)
CUDACPU_VECTOR(unsigned char, uchar, 2, 4)
CUDACPU_VECTOR(short, short, 4, 8)
CUDACPU_VECTOR(unsigned short, ushort, 4, 8)
CUDACPU_VECTOR(int, int, 8, 16)
CUDACPU_VECTOR(unsigned int, uint, 8, 16)
CUDACPU_VECTOR(long, long, 16, 16)
CUDACPU_VECTOR(unsigned long, ulong, 16, 16)
CUDACPU_VECTOR(long long, longlong, 16, 16)
CUDACPU_VECTOR(unsigned long long, ulonglong, 16, 16)
CUDACPU_VECTOR(float, float, 8, 16)
CUDACPU_VECTOR(double, double, 16, 16)

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v_) : x(v_.x), y(v_.y), z(v_.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// Set by the scheduler before a thread runs; to the thread itself they are constants. Each host thread has its own, in
// the static part of thread-local memory even when a kernel lives in a shared object: one instruction, no call.
#ifdef CUDACPU_LAYER
#define CUDACPU_INDEX extern __thread __attribute__((tls_model("initial-exec")))
#else
#define CUDACPU_INDEX extern const __thread __attribute__((tls_model("initial-exec")))
#endif
CUDACPU_INDEX uint3 threadIdx;
CUDACPU_INDEX uint3 blockIdx;
CUDACPU_INDEX dim3 blockDim;
CUDACPU_INDEX dim3 gridDim;

constexpr int warpSize = 32;
