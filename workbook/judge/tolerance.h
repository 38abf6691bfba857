// tolerance.h - how far a right answer may be from the oracle, by its arithmetic: the only tolerances in the workbook.
//
// u is the unit roundoff of a format: 2^-24 for float32, 2^-8 for bfloat16. A sum of n terms, in any order, is off by
// at most n u times the sum of their absolute values (Higham 2002, chapter 4). Tensor cores may truncate where a CPU
// rounds, which doubles u: hence 2^-23 below.
#pragma once

#include "case/case.h"

#define U_FLOAT 0x1p-23
#define U_BF16  0x1p-8

// How far a logit scale * q . k, in float32, may be off. `largest`: the sum over d of scale |q[d] k[d]| (oracle.h).
// D products and sums, then a few operations more: the scale, log2(e), the subtraction of the maximum; 2^-22 for an
// approximate exp2.
static inline double tolerance_logit(double largest, int D) { return U_FLOAT * (D + 16) * largest + 0x1p-22; }

// An element of O. A logit that is off by e changes each weight, numerator and denominator, by a factor of 1 + e at
// most: hence 2 e abs_V, with abs_V the sum over j of P[j] |V[j, d]|. Weights are rounded to bf16 before they meet V,
// the result once more. The sum has Nk terms in float32.
static inline double tolerance_O(double O, double abs_V, double largest, int D, int Nk, wb_type type)
{
    const double rounding = type == WB_BFLOAT16 ? U_BF16 * (1 + U_BF16) * ((O < 0 ? -O : O) + abs_V) : 0;
    return rounding + abs_V * (2 * tolerance_logit(largest, D) + U_FLOAT * (Nk + 8)) + 1e-30;
}

// L = m + log(l): the logit's own error, the relative error of a sum of Nk positive terms, and the rounding of L
// itself. That of a row without keys is -infinity, and nothing else.
static inline double tolerance_L(double L, double largest, int D, int Nk)
{
    if (!isfinite(L)) return 0;
    return tolerance_logit(largest, D) + U_FLOAT * (Nk / 2 + 8) + U_FLOAT * 2 * (L < 0 ? -L : L);
}

// 17. What is lost beside where O and L come from as many parts: each part of O is rounded to bf16, and its weight is
// as exact as its L is, to which each merge adds a rounding.
static inline double tolerance_parts_L(double L, int parts) { return U_FLOAT * parts * ((L < 0 ? -L : L) + 8); }
static inline double tolerance_parts_O(double abs_V, double L, int parts)
{
    return (U_BF16 + 2 * tolerance_parts_L(L, parts)) * abs_V;
}

// 16. What its sums of products of e4m3 lose: the tensor cores cut each of 32 products, and what was there before, to
// 14 bits of the largest of them. So a logit is off by some 2^-13 of its terms' absolute values, by 2^-10 where one of
// them is far larger than the others, and by up to 2^-16 for each of its D terms where all have one sign; and O, as was
// measured on an H200, by 8e-6 of itself with each key of a sum, of which two levels have 1536.
static inline double tolerance_fp8_logit(double largest, int D)
{
    return 0x1p-16 * (D > 128 ? D : 128) * largest + 0x1p-22;
}

// An element of O: the weights are rounded to e4m3, by up to 2^-4 of themselves; below 2^-6 by 2^-10, whatever they
// are, where the largest, with the power of two of its tile of V, is 2^3 at least. steps: that largest times the sum
// over keys of |V[j, d]| without these powers.
static inline double tolerance_fp8_O(double O, double abs_V, double steps, double lost, double largest, int D, int Nk,
                                     int levels)
{
    const double added_up = 8e-6 * (levels == 2 && Nk > 1536 ? 1536 : Nk);
    const double weights = 0x1p-4 + added_up + tolerance_fp8_logit(largest, D) + U_FLOAT * (Nk + 8) + lost;
    return weights * abs_V + 0x1p-13 * steps + U_BF16 * (1 + U_BF16) * (O < 0 ? -O : O) + 1e-30;
}

// L; lost: of the weights, those that are too small for float32 with the power of two of their tile; exponent: the
// largest of these powers, either sign, which a maximum may have been kept with and must be taken off again.
static inline double tolerance_fp8_L(double L, double lost, double largest, double exponent, int D, int Nk)
{
    return tolerance_fp8_logit(largest, D) + lost + U_FLOAT * (Nk / 2 + 8 + exponent) + U_FLOAT * 2 * (L < 0 ? -L : L);
}

// An element of dK or dQ, a sum of `terms` terms scale dS q (or k), with dS = P (dP - delta) and P = exp2(logit - L);
// of dV, with terms P dO. What goes wrong, each part with its sum of absolute values (oracle.h):
//   size      dS or P is rounded to bf16 once, the sum has `terms` terms in float32, exp2 is approximate
//   exponent  the logit has D products and sums in float32, then as in tolerance_logit, the maximum being L
//   cancel    dP and delta have D products and sums each, and may be much larger than their difference
// The result is rounded to bf16 at the end.
static inline double tolerance_gradient(double value, double size, double exponent, double cancel, int D, double terms)
{
    const double rounding = U_BF16 * (1 + U_BF16) * ((value < 0 ? -value : value) + size);
    return rounding + (U_FLOAT * (terms + 8) + 0x1p-22) * size + U_FLOAT * (D + 16) * exponent +
           (1 + U_BF16) * U_FLOAT * (D + 8) * cancel + 1e-30;
}

// An element of dsinks: a sum of `terms` terms exp(s - L) delta in float32, in any order; the sums of absolute values
// as above. exp2 is approximate, its exponent has a product with log2(e) and a subtraction; delta has D products and
// sums. Nothing is rounded to bf16.
static inline double tolerance_dsink(double size, double exponent, double cancel, int D, double terms)
{
    return (U_FLOAT * (terms + 8) + 0x1p-22) * size + U_FLOAT * 8 * exponent + U_FLOAT * (D + 2) * cancel + 1e-30;
}

// delta: D products, exact in float32, and their sum. terms: the sum of |dO O|.
static inline double tolerance_delta(double terms, int D) { return U_FLOAT * (D + 2) * terms + 1e-30; }

// y of weighted_row_sum: the 32 lanes of a warp share a row, so the longest chain of additions has cols / 32 links, and
// a few for the reduction. terms: the sum of |x w|. Products of two bf16 are exact in float32.
static inline double tolerance_row_sum(double terms, int cols)
{
    return U_FLOAT / 2 * (cols / 32 + 48) * terms + 1e-30;
}
