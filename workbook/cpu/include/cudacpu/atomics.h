// atomics.h - atomic read-modify-write, in shared and in global memory. They return the old value.
#pragma once

#include "keywords.h"

#define CUDACPU_ATOMIC_INTEGER(type_) \
    type_ atomicAdd(type_ *at_, type_ value_); \
    type_ atomicExch(type_ *at_, type_ value_); \
    type_ atomicCAS(type_ *at_, type_ expected_, type_ value_); \
    type_ atomicMin(type_ *at_, type_ value_); \
    type_ atomicMax(type_ *at_, type_ value_); \
    type_ atomicAnd(type_ *at_, type_ value_); \
    type_ atomicOr(type_ *at_, type_ value_); \
    type_ atomicXor(type_ *at_, type_ value_);
CUDACPU_ATOMIC_INTEGER(int)
CUDACPU_ATOMIC_INTEGER(unsigned int)
CUDACPU_ATOMIC_INTEGER(unsigned long long)

int atomicSub(int *at_, int value_);
unsigned int atomicSub(unsigned int *at_, unsigned int value_);
unsigned int atomicInc(unsigned int *at_, unsigned int limit_);  // old >= limit ? 0 : old + 1
unsigned int atomicDec(unsigned int *at_, unsigned int limit_);  // old == 0 || old > limit ? limit : old - 1
float atomicAdd(float *at_, float value_);
float atomicExch(float *at_, float value_);
double atomicAdd(double *at_, double value_);

// One machine, one scope.
template <class Type_> Type_ atomicAdd_block(Type_ *at_, Type_ value_) { return atomicAdd(at_, value_); }
template <class Type_> Type_ atomicAdd_system(Type_ *at_, Type_ value_) { return atomicAdd(at_, value_); }
