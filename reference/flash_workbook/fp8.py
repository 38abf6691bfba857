"""Problem 16: attention of Q, K and V in e4m3, floats of eight bits, with an exponent a row of Q and a tile of 64 keys;
forward alone."""
import ctypes
from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .arguments import scale_of, tensors
from .dense import wants_gradients
from .library import Shape, library, operator, refuse
from .masks import KEYS

class Eight(NamedTuple):
    """What problem 16 takes: an element is its e4m3 times 2^exponent. Rounds like wb_quantise_fp8 and
    wb_quantise_fp8_values, to the bit."""

    Q: Tensor  # [B, Hq, Nq, D], float8_e4m3fn
    K: Tensor  # [B, Hkv, Nk, D]
    # [B, Hkv, tiles, D, 64], each 16 keys in the order 0 1 8 9 2 3 10 11 4 5 ..., 0 for those that do not exist
    V: Tensor
    Q_exponent: Tensor  # [B, Hq, Nq], int8
    K_exponent: Tensor  # [B, Hkv, tiles]
    V_exponent: Tensor  # [B, Hkv, tiles]


def exponent_of(largest):
    """The least integer e, -118 at least, for which largest <= 448 * 2^e; float32 in, int32 out."""
    mantissa, e = torch.frexp(largest)  # largest = mantissa * 2^e, mantissa in [1/2, 1); 448 = 7/8 * 2^9
    return torch.where(largest > 0, e - 9 + (mantissa > 0.875).int(), -118).clamp(min=-118)


def rounded(x, exponent):
    """x * 2^-exponent in e4m3. By two factors: 2^118 has a float32, and x * 2^-119 that of a denormal x has not."""
    half = exponent.div(2, rounding_mode="floor")
    return (x * torch.exp2(-half.float()) * torch.exp2(-(exponent - half).float())).to(torch.float8_e4m3fn)


def quantise_fp8(Q, K, V, hadamard=False, lib=None):
    """Eight, of Q [B, Hq, Nq, D], K and V [B, Hkv, Nk, D]; in bf16 by wb_quantise_fp8_inputs, in one launch, in float32
    by torch, to the same bits.

    hadamard: rows of Q and K go through wb_hadamard first, which leaves the scores as they were and spreads outliers;
    in bf16 alone. Wrong shapes raise ValueError, wrong types TypeError. Source: FlashAttention-3 (2024)."""
    kinds = torch.bfloat16, torch.float32
    tensors("quantise_fp8", Q=(Q, "B Hq Nq D", kinds), K=(K, "B Hkv Nk D", kinds), V=(V, "B Hkv Nk D", kinds))
    if 0 in K.shape or Q.shape[1] % K.shape[1]:
        raise ValueError(f"quantise_fp8: K is {list(K.shape)}, Q is {list(Q.shape)}: the number of Q's heads must be "
                         f"a multiple of K's, and there must be at least one key")
    if Q.dtype == K.dtype == V.dtype == torch.bfloat16 and Q.shape[3] in (64, 128, 256):
        return Eight(*quantised(*(x.detach() for x in (Q, K, V)), hadamard, lib.path if lib else ""))
    if hadamard:
        refuse("quantise_fp8: hadamard requires Q, K and V in bf16 with D 64, 128 or 256")
    Q, K, V = (x.detach().float() for x in (Q, K, V))
    Nk = K.shape[2]
    K, V = (pad(x, (0, 0, 0, -Nk % KEYS)).unflatten(2, (-1, KEYS)) for x in (K, V))  # [B, Hkv, tiles, 64, D]
    Qe, Ke, Ve = exponent_of(Q.abs().amax(3)), *(exponent_of(x.abs().amax((3, 4))) for x in (K, V))
    V = V.unflatten(3, (-1, 2, 4, 2)).transpose(4, 5).flatten(3, 6)
    V = rounded(V.mT, Ve[..., None, None]).contiguous()
    return Eight(rounded(Q, Qe[..., None]), rounded(K, Ke[..., None, None]).flatten(2, 3)[:, :, :Nk].contiguous(), V,
                 *(x.to(torch.int8) for x in (Qe, Ke, Ve)))


@operator("quantise_fp8")
def quantised(Q: Tensor, K: Tensor, V: Tensor, hadamard: bool, path: str) -> Tuple[Tensor, Tensor, Tensor, Tensor,
        Tensor, Tensor]:
    (B, Hq, Nq, D), (Hkv, Nk), eight = Q.shape, K.shape[1:3], like_eight(Q, K)
    tensors = [*eight, *(x.contiguous() for x in (Q, K, V))]
    library(path).call("wb_quantise_fp8_inputs", tensors, Shape(B, Hq, Hkv, Nq, Nk, D, D**-0.5, 0, 0, 0),
                       after=[ctypes.c_int(hadamard)])
    return eight


@quantised.register_fake
def like_eight(Q, K, *_):
    (B, Hq, Nq, D), (Hkv, Nk) = Q.shape, K.shape[1:3]
    tiles = (Nk - 1) // KEYS + 1
    eight = [Q.new_empty(size, dtype=torch.float8_e4m3fn)
             for size in ((B, Hq, Nq, D), (B, Hkv, Nk, D), (B, Hkv, tiles, D, KEYS))]
    return *eight, *(Q.new_empty(size, dtype=torch.int8) for size in ((B, Hq, Nq), (B, Hkv, tiles), (B, Hkv, tiles)))


@operator("attention_fp8")
def fp8(Q: Tensor, K: Tensor, V: Tensor, Q_exponent: Tensor, K_exponent: Tensor, V_exponent: Tensor, levels: int,
        causal: bool, scale: float, path: str) -> Tuple[Tensor, Tensor]:
    (B, Hq, Nq, D), Hkv, Nk = Q.shape, K.shape[1], K.shape[2]
    outputs, tensors = like_fp8(Q), [x.contiguous() for x in (Q, K, V, Q_exponent, K_exponent, V_exponent)]
    library(path).call("flash_fp8", [*outputs, *tensors], Shape(B, Hq, Hkv, Nq, Nk, D, scale, causal, 0, 0),
                       after=[ctypes.c_int(levels)])
    return outputs


@fp8.register_fake
def like_fp8(Q, *_):
    return Q.new_empty(Q.shape, dtype=torch.bfloat16), Q.new_empty(Q.shape[:3], dtype=torch.float32)


def attention_fp8(Q: Tensor, K: Tensor, V: Tensor, *exponents: Tensor, causal=True, levels=2,
                  scale: Optional[float] = None, return_lse=False, lib=None):
    """softmax(scale Q K^T) V of e4m3 tensors and their exponents, as Eight holds them: attention_fp8(*quantise_fp8(Q,
    K, V)). Given Q, K and V alone, in bf16 or float32, it quantises them. levels: 2 adds O up in float32 every 1536
    keys or sooner, 1 leaves all of it to the tensor cores, whose sums keep some 14 bits. D 64, 128 or 256, on sm_90; no
    gradients. Returns O [B, Hq, Nq, D] in bf16; with return_lse also L [B, Hq, Nq], natural logarithms in float32. A
    causal mask needs Nq = Nk. Refused, TypeError and ValueError as from attention(). Exponents: OCP's microscaling
    formats; levels: DeepSeek-V3 (2024).
    """
    if len(exponents) not in (0, 3):
        raise TypeError("attention_fp8: pass Q, K and V, or the six tensors that quantise_fp8() returns")
    given = dict(zip(Eight._fields, (Q, K, V, *exponents)))
    of = "B Hq Nq D", "B Hkv Nk D", "B Hkv tiles D keys" if exponents else "B Hkv Nk D", "B Hq Nq", *["B Hkv tiles"] * 2
    kinds = [[torch.float8_e4m3fn]] * 3 + [[torch.int8]] * 3 if exponents else [[torch.bfloat16, torch.float32]] * 3
    tensors("attention_fp8", **{name: x for name, *x in zip(given, given.values(), of, kinds)})
    if wants_gradients(Q, K, V):
        refuse("attention_fp8 has no gradients. Call it under torch.no_grad()")
    if not exponents:
        Q, K, V, *exponents = quantise_fp8(Q, K, V)
    if not K.shape[1] or Q.shape[1] % K.shape[1]:
        raise ValueError(f"attention_fp8: K is {list(K.shape)}, Q is {list(Q.shape)}: the number of Q's heads must "
                         f"be a multiple of K's")
    if V.shape[2:5:2] != ((K.shape[2] - 1) // KEYS + 1, KEYS):
        raise ValueError(f"attention_fp8: V is {list(V.shape)}, K is {list(K.shape)}: V must be in tiles of {KEYS} "
                         f"keys")
    O, L = fp8(Q, K, V, *exponents, levels, causal, scale_of("scale", scale, Q.shape[3] or 1), lib.path if lib else "")
    return (O, L) if return_lse else O
