"""flash_attn_func, flash_attn_varlen_func and flash_attn_with_kvcache, as callers of flash-attn 2 and 3 know them:
tokens before heads, causal masks and windows aligned at the bottom right. What no function of the library does is
refused by the argument's name.
"""
import ctypes, functools, itertools, os
from typing import List, Optional, Tuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .arguments import (MOST, autocast, integers, is_off, number, pair, scale_of, starts as starts_in, tensors,
                        told_in_range)
from .dense import BF16, ERRORS, at_best, attention, backward, forward, taken, wants_gradients, with_zeros
from .library import DecodeShape, Scores, Shape, library, like_forward, operator, operators, refuse
from .masks import Mask, intervals, masked

packed_at_best = operators.packed.default._op  # under the last call's mask; an error where that is another


def plain(function, **given):
    """Refuses what is given and is not off."""
    for name, value in given.items():
        if not is_off(value):
            hint = ("; flash-attn 3's fourth argument must be passed as softmax_scale=" if name == "dropout_p" and
                    isinstance(value, float) else "")
            refuse(f"{function}: {name}={'...' if isinstance(value, Tensor) else value} is not supported: leave it "
                   f"out{hint}")


def ends_of(causal, window_size):
    """How many keys to the left and to the right a query sees besides its own; MOST: all."""
    left, right = pair("window_size", window_size)
    return left, 0 if number("causal", causal, bool) else right


def chunk_of(attention_chunk):
    return max(0, number("attention_chunk", attention_chunk, int))


def with_sink(O, L, s):
    """O and L as they are with one more term exp(s) in the denominators. O [..., N, D], L [..., N], s that broadcasts
    with L."""
    share = torch.where(L == -torch.inf, 0, torch.sigmoid(L - s))
    return (O * share[..., None]).to(O.dtype), torch.logaddexp(L, s.expand_as(L))


def nothing(*tensors):
    """O and L of no keys."""
    O, L = like_forward(*tensors)
    return O.zero_(), L.fill_(-torch.inf)


def sinks_of(s_aux, learnable_sink):
    sinks = s_aux if s_aux is not None else learnable_sink
    if not isinstance(sinks, (Tensor, type(None))):
        raise TypeError(f"s_aux is {type(sinks).__name__}, expected a float32 tensor [Hq]")
    return None if sinks is None else sinks.float()


def bounds(q_len, kv_len, left, right, chunk):
    """The first and last key that each query sees, and where it stands: the last at the last key. chunk: of so many
    keys, counted from the first, it sees those in its own alone; 0: of all."""
    at = torch.arange(kv_len - q_len, kv_len, device="cpu")
    first, last = at - left, at + right
    if chunk:
        first, last = first.maximum(at - at % chunk), last.minimum(at - at % chunk + chunk - 1)
    return first.clamp(min=0), last.clamp(max=kv_len - 1), at


# ------------------------ any score
# `seen` [3, Nq] has the first and last key that each query sees, and where it stands; slopes [B, Hq, Nq], or None.


graphs_read = []  # CUDA graphs


def scores_of(seen, slopes, softcap):
    if seen.is_cuda and torch.cuda.is_current_stream_capturing():
        graphs_read.append(seen)
    return Scores(*(x.data_ptr() for x in seen), None if slopes is None else slopes.data_ptr(), softcap, 0)


def shape_of(Q, K, scale):
    return Shape(*Q.shape[:2], K.shape[1], Q.shape[2], K.shape[2], Q.shape[3], scale, 0, 0, 0)


@operator("scored")
def scored(Q: Tensor, K: Tensor, V: Tensor, seen: Tensor, slopes: Optional[Tensor], softcap: float, scale: float,
           path: str) -> Tuple[Tensor, Tensor]:
    outputs, inputs, scores = like_forward(Q, K, V), [in_one(x) for x in (Q, K, V)], scores_of(seen, slopes, softcap)
    library(path).call("wb_scored", [*outputs, *inputs], shape_of(Q, K, scale), after=[ctypes.byref(scores)])
    return outputs


scored.register_fake(like_forward)


def in_one(x):
    """In one piece, at an address that the library takes."""
    return x.clone() if (x := x.contiguous()).data_ptr() % 16 else x


def gradients(dO, dL, Q, K, V, O, L, seen, slopes, softcap, scale, path):
    """dQ, dK and dV; L may have a sink in it."""
    if not Q.numel() or not K.numel():
        return [torch.zeros_like(x) for x in (Q, K, V)]
    outputs, scores = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in (Q, K, V, L)], scores_of(
        seen, slopes, softcap)
    inputs = [in_one(x) for x in (Q, K, V, O, L, dO)]
    dL = None if dL is None else dL.float().contiguous()
    library(path).call("wb_scored_backward", [*outputs, *inputs], shape_of(Q, K, scale), after=[
        ctypes.c_void_p(None if dL is None else dL.data_ptr()), ctypes.byref(scores)])
    return outputs[:3]


def slopes_of(alibi_slopes, B, H, device):
    """[B, H] or None."""
    if alibi_slopes is None:
        return None
    if not isinstance(alibi_slopes, Tensor) or alibi_slopes.dtype != torch.float32 or alibi_slopes.device != device:
        raise TypeError(f"alibi_slopes: expected a float32 tensor on {device}")
    if alibi_slopes.shape not in ((H,), (B, H)):
        raise ValueError(f"alibi_slopes is {list(alibi_slopes.shape)}, expected [{H}] or [{B}, {H}]")
    if wants_gradients(alibi_slopes):
        refuse("alibi_slopes has no gradient: pass alibi_slopes.detach()")
    return alibi_slopes.detach().expand(B, H)


def cap_of(softcap):
    if not 0 <= (cap := number("softcap", softcap, float)) < float("inf"):
        raise ValueError(f"softcap = {softcap}: must be 0 (off) or a positive number")
    return cap


# ------------------------ one length

@functools.lru_cache(64)
def band_mask(q_len, kv_len, left, right, chunk, device):
    """As lists, and as what is seen."""
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        refuse("the first call with these lengths builds a mask and waits for the GPU: make one call before you "
               "capture it in a CUDA graph")
    seen = torch.stack(bounds(q_len, kv_len, left, right, chunk)).to(device)
    return intervals(*seen[:2], kv_len), seen.int()


@operator("band")
def band(Q: Tensor, K: Tensor, V: Tensor, slopes: Optional[Tensor], left: int, right: int, chunk: int, softcap: float,
         scale: float, path: str) -> Tuple[Tensor, Tensor]:
    if not Q.numel() or not K.numel():
        return nothing(Q, K, V)
    mask, seen = band_mask(Q.shape[2], K.shape[2], left, right, chunk, Q.device)
    if softcap or slopes is not None:
        return scored(Q, K, V, seen, slopes, softcap, scale, path)
    return masked(Q, K, V, *mask.fitting(Q, K), scale, path)


band.register_fake(like_forward)


@operator("band_backward")
def band_backward(dO: Tensor, dL: Optional[Tensor], Q: Tensor, K: Tensor, V: Tensor, O: Tensor, L: Tensor,
                  slopes: Optional[Tensor], left: int, right: int, chunk: int, softcap: float, scale: float,
                  path: str) -> List[Tensor]:
    seen = band_mask(Q.shape[2], K.shape[2], left, right, chunk, Q.device)[1] if Q.numel() and K.numel() else None
    return gradients(dO, dL, Q, K, V, O, L, seen, slopes, softcap, scale, path)


@band_backward.register_fake
def like_band_backward(dO, dL, Q, K, V, *_):
    return [torch.empty_like(x, memory_format=torch.contiguous_format) for x in (Q, K, V)]


def keep(ctx, inputs, output):
    """What backward functions of band and varlen want: tensors, numbers, O and L."""
    ctx.numbers = [x for x in inputs if x is not None and not isinstance(x, Tensor)]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*(x for x in inputs if x is None or isinstance(x, Tensor)), *output)


def gradients_by(function, dO, dL, tensors, others, O, L, numbers):
    """Of tensors; None for what else the forward pass was given."""
    got = [] if dO is dL is None else function(torch.zeros_like(O) if dO is None else dO, dL, *tensors, O, L, *others,
                                               *numbers)
    if dO is None and got:
        got[2] = torch.zeros_like(got[2])  # V is not in L
    return *got, *[None] * (len(tensors) - len(got) + len(others) + len(numbers))


def differentiate_band(ctx, dO, dL):
    *tensors, slopes, O, L = ctx.saved_tensors
    return gradients_by(band_backward, dO, dL, tensors, (slopes,), O, L, ctx.numbers)


band.register_autograd(differentiate_band, setup_context=keep)


def no_second(ctx, *_):
    refuse("attention has no second derivatives")


band_backward.register_autograd(no_second)


def banded(name, Q, K, V, left, right, chunk, scale, same_bits, sinks, slopes, cap):
    """Attention of [B, H, N, D] and its L, of queries that stand at the last keys."""
    Nq, Nk = Q.shape[2], K.shape[2]
    if V.shape[3] > 128 >= Q.shape[3]:  # so many columns of V at a time
        parts = [banded(name, Q, K, v, left, right, chunk, scale, same_bits, sinks, slopes, cap)
                 for v in V.split(128, 3)]
        return torch.cat([O for O, _ in parts], 3), parts[0][1]
    how = {"scale": scale, "same_bits": same_bits, "return_lse": True}
    left, right = MOST if left >= Nk - 1 else left, MOST if right >= Nq - 1 and right else right
    chunk = 0 if chunk >= Nk >= Nq else chunk
    usual, causal = slopes is None and not cap, right == 0 <= left and not chunk
    wide = usual and causal and left == MOST and Q.shape[3] > 128 and Nq <= Nk
    if Q.shape[3] > 128 and not wide and not (usual and left == right == MOST and not chunk):
        refuse(f"{name}: head_dim = {Q.shape[3]}: above 128, only full and causal masks are supported, with at "
               "least as many keys as queries, without softcap or slopes")
    if usual and causal and Nq == 1 and not wants_gradients(Q, K, V, sinks):  # sees all keys, or the last of them
        K, V = (x[:, :, -1 - left :] if left < MOST else x for x in (K, V))
        left, right, causal = MOST, MOST, False
    if usual and causal and Nq == Nk and not wide:
        return attention(Q, K, V, window=left + 1 if left < MOST else None, sink_logits=sinks, **how)
    if wide or usual and left == right == MOST and not chunk:
        O, L = attention(Q, K, V, causal=right == 0, **how)
    else:
        slopes = None if slopes is None else slopes[..., None].expand(*Q.shape[:3]).contiguous()
        D, (Q, K, V) = V.shape[3], (with_zeros(x, Q, V) for x in (Q, K, V))
        O, L = band(Q, K, V, slopes, left, right, chunk, cap, scale, "")
        O = O[..., :D]
    return (O, L) if sinks is None else with_sink(O, L, sinks[:, None])


def usual_window(window_size):
    """ends_of() of two ints, -1 for all, or of two None; an error for what is to be looked at."""
    left, right = window_size or (-1, -1)
    if left is right is None:
        return MOST, MOST
    return MOST if left == -1 else left + 0, MOST if right == -1 else right + 0  # None + 0 is an error


def square_window(q, k, causal, window_size):
    """The operator's window, 0 for none, where it has such a mask; an error where the rest of this file makes one."""
    left, right = usual_window(window_size)
    N = q.shape[1]
    if causal is True and N == k.shape[1] and left >= 0:
        return left + 1 if left < N - 1 else 0
    if causal is not False or left != MOST or right != MOST:
        raise ValueError
    return 0


def flash_attn_func(q: Tensor, k: Tensor, v: Tensor, dropout_p=0.0, softmax_scale: Optional[float] = None, causal=False,
                    window_size=(-1, -1), softcap=0.0, alibi_slopes: Optional[Tensor] = None, deterministic=False,
                    return_attn_probs=False, *, s_aux: Optional[Tensor] = None, learnable_sink=None,
                    qv=None, q_descale=None, k_descale=None, v_descale=None, attention_chunk=0, num_splits=1,
                    pack_gqa=None, sm_margin=0):
    """q [B, Nq, Hq, D], k and v [B, Nk, Hkv, D], in bf16. s_aux (learnable_sink): gpt-oss's sink logits [Hq].

    window_size: how many keys before and behind its own a query sees, -1 or None: all. attention_chunk: of keys in
    chunks of so many, those of its own. return_attn_probs: O, the logarithm of the denominators
    [B, Hq, Nq] (-infinity where nothing is seen), and None. num_splits, pack_gqa and sm_margin are hints, and not read.
    Query i stands at key Nk - Nq + i: causal masks and windows are aligned at the bottom right. softcap: scores x
    become softcap * tanh(x / softcap); alibi_slopes [Hq] or [B, Hq], float32, times the distance are taken from them.
    Returns O [B, Nq, Hq, Dv] in bf16; logarithms are natural, in float32. What is not served raises Refused, a
    NotImplementedError that names the argument; wrong shapes ValueError, wrong types TypeError. Arguments: those of
    flash-attn 2.8, 3 and 4 (Dao and others); formulas: FlashAttention-2 (2023), ALiBi (Press and others, 2021),
    Gemma 2 (2024) for softcap.
    """
    if not torch.compiler.is_compiling() and (alibi_slopes is qv is q_descale is k_descale is v_descale is None):
        try:
            if sinks_of(s_aux, learnable_sink) is None and dropout_p == softcap == attention_chunk == 0:
                window = square_window(q, k, causal, window_size)
                O, L = at_best(q, k, v, None, causal, window, 0, softmax_scale, deterministic or None, None, True)
                return (O, L, None) if return_attn_probs else O
        except ERRORS:  # it is put right, or what is wrong is said, below
            pass
    plain("flash_attn_func", dropout_p=dropout_p, qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    tensors("flash_attn_func", q=(q, "B Nq Hq D"), k=(k, "B Nk Hkv D"), v=(v, "B Nk Hkv Dv"))
    sinks = sinks_of(s_aux, learnable_sink)
    Q, K, V = taken("flash_attn_func", *(x.transpose(1, 2) for x in (q, k, v)), sinks)
    scale = scale_of("softmax_scale", softmax_scale, q.shape[-1])
    deterministic = deterministic is not None and number("deterministic", deterministic, bool)
    O, L = banded("flash_attn_func", Q, K, V, *ends_of(causal, window_size), chunk_of(attention_chunk), scale,
                  deterministic or None, sinks, slopes_of(alibi_slopes, *Q.shape[:2], Q.device), cap_of(softcap))
    return (O.transpose(1, 2), L, None) if return_attn_probs else O.transpose(1, 2)


# ------------------------ many lengths
# The queries and keys of all sequences lie one behind the other. Forward they are one sequence under a mask of
# documents: one call of problem 15, with as many tiles as a call for each sequence would walk over, and one launch
# where there would be one each. Backward, too, but for sequences of causal squares, or without a mask: 08's and 09's
# kernels, a call each.

isolated, TILE = os.environ.get("WB_ISOLATE") == "1", 128  # no kernel's tiles are larger


def isolate(on=True):
    """Whether NaN and infinities in one sequence may reach rows of another in flash_attn_varlen_func and, with softcap,
    alibi_slopes or more than 16 queries, flash_attn_with_kvcache: from now on, or with WB_ISOLATE=1 in the environment,
    they do not: each sequence is copied to tiles of its own. Rows of no sequence never reach any."""
    global isolated
    isolated = on
    operators.forget_mask()


def in_tiles(n):
    return -(-n // TILE) * TILE if isolated else n


def apart(placed, *counts):
    """What sequences() has found, where each begins in tiles of its own; and four times rows and which of them are of
    none: of the queries there and the keys there, which of `counts` each is, and of these, where it is."""
    there, here, parts = [], [], list(zip(*placed))
    for which, count in enumerate(counts):
        starts, lengths = parts[2 * which : 2 * which + 2] or ((), ())
        *begins, end = itertools.accumulate(map(in_tiles, lengths), initial=0)
        to, back = (torch.full((n,), -1, device="cpu") for n in (end or TILE, count))
        for begin, start, n in zip(begins, starts, lengths):
            to[begin : begin + n], back[start : start + n] = (torch.arange(x, x + n, device="cpu")
                                                              for x in (start, begin))
        there, here = [*there, to], [*here, back]
        parts[2 * which : 2 * which + 1] = [begins] * bool(placed)
    return list(zip(*parts)), [y for x in there + here for y in (x.clamp(min=0), (x < 0).nonzero()[:, 0])]


def moved(x, rows, none=0):
    """x [B, H, N, ...] or None; without rows as it is."""
    if x is None or not rows:
        return x
    return x.index_select(2, rows[0]).index_fill_(2, rows[1], none)


def packed_mask(Q, K, starts, *how):
    """As lists; what is seen; `foreign` [end, 1]: which rows of K no sequence has, up to the last that one has, [end,
    0]: none; and where isolated the rows of apart(), which the mask is of, else four times none."""
    of = Q, *starts, (Q.shape[2], K.shape[2], *how, *[1] * isolated)  # operators.cpp asks for the mask without the last
    if not (lists := operators.kept_mask(*of)):
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            refuse("flash_attn_varlen_func reads cu_seqlens and waits for the GPU: call it once with the same tensors "
                   "before you capture it in a CUDA graph"
                   + ", and create these tensors outside of torch.inference_mode, because inside it changes cannot be "
                     "detected" * any(x is not None and x.is_inference() for x in starts))
        (Nq, Nk), rows = (Q.shape[2], K.shape[2]), []
        placed = sequences(starts, Nq, Nk)
        if isolated:
            placed, rows = apart(placed, Nq, Nk)
            Nq, Nk = len(rows[0]), len(rows[2])
        foreign, end = torch.ones(Nk, 1, dtype=torch.bool, device="cpu"), 1
        seen = torch.tensor([1, 0, 0], device="cpu")[:, None].repeat(1, Nq)
        for at, nq, start, nk in placed:
            foreign[start : start + nk], end = False, max(end, start + nk)
            first, last, place = bounds(nq, nk, *how)
            some = first <= last
            seen[:, at : at + nq] = torch.where(some, torch.stack([first, last, place]) + start, seen[:, at : at + nq])
        seen = seen.to(Q.device)
        mask, foreign = intervals(*seen[:2], end), foreign[:end]
        foreign = foreign if foreign.any() and not isolated else foreign[:, :0]
        lists = [*mask[3:], seen.int(), foreign.to(Q.device), *(x.to(Q.device) for x in rows)]
        operators.keep_mask(*of, lists)
    rows = [lists[n : n + 2] for n in (7, 9, 11, 13)]
    return Mask(lists[5].shape[1], len(lists[6]), 128, *lists[:5]), lists[5], lists[6], rows


def used_alone(x, foreign):
    """x [.., end, D] with zeros in the rows that no sequence uses: 0 times NaN is NaN."""
    x = x[..., : len(foreign), :]
    return x.masked_fill(foreign, 0) if foreign.numel() else x


def sequences(starts, Tq, Tk):
    """Where each begins among the queries, how many it has, and the same of the keys. starts: cu_seqlens and seqused
    of queries, and of keys."""
    cu_q, used_q, cu_k, used_k = starts
    cu_q, cu_k = starts_in("cu_seqlens_q", cu_q, Tq), starts_in("cu_seqlens_k", cu_k, Tk)
    used_q, used_k, found = *(x if x is None else x.tolist() for x in (used_q, used_k)), []
    for which, cu, used in (("q", cu_q, used_q), ("k", cu_k, used_k)):
        lengths = [b - a for a, b in zip(cu, cu[1:])]
        for s, (n, most) in enumerate(zip(used or [], lengths)):
            if not 0 <= n <= most:
                raise RuntimeError(f"seqused_{which}[{s}] = {n}, but must be between 0 and {most}")
        found += cu, lengths if used is None else used
    return list(zip(*found))


@operator("varlen", waits=True)
def varlen(Q: Tensor, K: Tensor, V: Tensor, sinks: Optional[Tensor], cu_q: Tensor, used_q: Optional[Tensor],
           cu_k: Tensor, used_k: Optional[Tensor], slopes: Optional[Tensor], left: int, right: int, chunk: int,
           softcap: float, scale: float, same_bits: bool, path: str) -> Tuple[Tensor, Tensor]:
    starts = cu_q, used_q, cu_k, used_k
    if not Q.numel() or not K.numel():
        sequences(starts, Q.shape[2], K.shape[2])
        O, L = nothing(Q, K, V)
    elif Q.shape[3] > 128 and slopes is None and not softcap and not chunk and left == MOST and right in (0, MOST):
        O, L = nothing(Q, K, V)  # and a call a sequence: 15 has no such D
        for at, nq, of, nk in sequences(starts, Q.shape[2], K.shape[2]):
            rows = slice(at + (max(0, nq - nk) if right == 0 else 0), at + nq)  # those before see nothing
            if nk and rows.start < rows.stop:
                q, k, v = Q[:, :, rows], *(x[:, :, of : of + nk] for x in (K, V))
                O[:, :, rows], L[:, :, rows] = forward(q, k, v, None, right == 0, 0, 0, scale, same_bits, path)
    else:
        mask, seen, foreign, (q_rows, k_rows, back, _) = packed_mask(Q, K, starts, left, right, chunk)
        V, K = used_alone(moved(V, k_rows), foreign), moved(K, k_rows)[:, :, : len(foreign)]
        Q, slopes = moved(Q, q_rows), moved(slopes, q_rows)
        O, L = (scored(Q, K, V, seen, slopes, softcap, scale, path) if softcap or slopes is not None else
                masked(Q, K, V, *mask.fitting(Q, K), scale, path))
        O, L = moved(O, back), moved(L, back, -torch.inf)
    return (O, L) if sinks is None else with_sink(O, L, sinks[:, None])


varlen.register_fake(like_forward)


@operator("varlen_backward", waits=True)
def varlen_backward(dO: Tensor, dL: Optional[Tensor], Q: Tensor, K: Tensor, V: Tensor, sinks: Optional[Tensor],
                    O: Tensor, L: Tensor, cu_q: Tensor, used_q: Optional[Tensor], cu_k: Tensor,
                    used_k: Optional[Tensor], slopes: Optional[Tensor], left: int, right: int, chunk: int,
                    softcap: float, scale: float, same_bits: bool, path: str) -> List[Tensor]:
    starts, got = (cu_q, used_q, cu_k, used_k), [torch.zeros_like(x) for x in (Q, K, V)]
    full = left == right == MOST and library(path).lib.wb_device_capability() == 9
    each = sequences(starts, Q.shape[2], K.shape[2]) if (full or right == 0 <= left) and not chunk and not softcap and (
        slopes is dL is None) else []
    if each and (full or all(nq == nk for _, nq, _, nk in each)):
        window = 0 if full or left == MOST else left + 1
        for at, nq, of, nk in each:
            if min(nq, nk) == 0:
                continue
            do, q, o, l = (x[:, :, at : at + nq] for x in (dO, Q, O, L))
            k, v = (x[:, :, of : of + nk] for x in (K, V))
            parts = backward(do, q, k, v, None, o, l, not full, window, 0, scale, same_bits, path)
            for whole, part, i, n in zip(got, parts, (at, of, of), (nq, nk, nk)):
                whole[:, :, i : i + n] = part
    elif Q.numel() and K.numel():
        _, seen, foreign, (q_rows, k_rows, *back) = packed_mask(Q, K, starts, left, right, chunk)
        none, (k, v) = (seen[0] > seen[1])[:, None], (used_alone(moved(x, k_rows), foreign) for x in (K, V))
        q, do, o, dl, some = (moved(x, q_rows) for x in (Q, dO, O, dL, slopes))
        got = gradients(do.masked_fill(none, 0), dl, q.masked_fill(none, 0), k, v, o, moved(L, q_rows, -torch.inf),
                        seen, some, softcap, scale, path)
        if not isolated:
            got[1:] = (pad(x, (0, 0, 0, K.shape[2] - len(foreign))) for x in got[1:])
        got = [moved(x, back[n > 0]) for n, x in enumerate(got)]
    if sinks is None:
        return got
    delta = torch.where(O == 0, 0, dO.float() * O).sum(3) - (0 if dL is None else dL)
    return [*got, -((sinks[:, None] - L).exp() * delta).sum((0, 2))]


@varlen_backward.register_fake
def like_varlen_backward(dO, dL, Q, K, V, sinks, *_):
    return [torch.empty_like(x) for x in (Q, K, V, sinks) if x is not None]


def differentiate(ctx, dO, dL):
    *others, O, L = ctx.saved_tensors
    return gradients_by(varlen_backward, dO, dL, others[:4], others[4:], O, L, ctx.numbers)


varlen.register_autograd(differentiate, setup_context=keep)
varlen_backward.register_autograd(no_second)


def sequence_of(cu, T, used=None):
    """Of each of T rows the sequence, or another where there is none, and whether there is none."""
    t = torch.arange(T, device=cu.device)
    if len(cu) < 2:
        return t, t >= 0
    s = torch.searchsorted(cu[1:], t.to(cu.dtype), right=True).clamp(max=len(cu) - 2)
    return s, (t < cu[s]) | (t >= (cu[s + 1] if used is None else cu[s] + used[s]))


def starts_of(x):
    """cu_seqlens of [B, N, H, D]."""
    return torch.arange(x.shape[0] + 1, dtype=torch.int32, device=x.device) * x.shape[1]


def flash_attn_varlen_func(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Optional[Tensor] = None,
                           cu_seqlens_k: Optional[Tensor] = None, max_seqlen_q=None, max_seqlen_k=None,
                           dropout_p=0.0, softmax_scale: Optional[float] = None, causal=False, window_size=(-1, -1),
                           softcap=0.0, alibi_slopes: Optional[Tensor] = None, deterministic=False,
                           return_attn_probs=False, block_table: Optional[Tensor] = None, *,
                           s_aux=None, learnable_sink=None, seqused_q=None, seqused_k=None, page_table=None, qv=None,
                           q_descale=None, k_descale=None, v_descale=None, attention_chunk=0, num_splits=1,
                           pack_gqa=None, sm_margin=0, scheduler_metadata=None):
    """q [Tq, Hq, D], k and v [Tk, Hkv, D]: sequence s has the rows cu_seqlens[s] ... cu_seqlens[s + 1] - 1 of them, or
    the first seqused[s] of these. Rows of no sequence get zeros. Without cu_seqlens they are [B, N, H, D], as
    flash-attn 4 has it: each sequence has N rows, or seqused[s]. With a block_table k and v are pages [pages,
    page_size, Hkv, D]: they are copied, as many as the table has columns, and seqused_k or cu_seqlens_k say how many
    keys there are.

    cu_seqlens and seqused are read: the first call with new ones waits for the GPU, and keeps a mask for the next
    calls with the same tensors. On a GPU that is unless PyTorch has counted a write to them: after one that it does not
    see (through .data, DLPack, another library's kernel, a graph that is replayed) call flash_workbook.forget_mask().
    The largest lengths are not read.
    Everything else, errors too, as in flash_attn_func; the logarithms are [Hq, Tq]. Lengths that are wrong are a
    RuntimeError that names the entry. A sequence has what it has alone, whatever stands in rows of none; after
    flash_workbook.isolate() also where another has NaN or infinities.
    """
    if not torch.compiler.is_compiling() and (alibi_slopes is block_table is page_table is qv is q_descale is k_descale
                                              is v_descale is None):
        try:
            if (s_aux is learnable_sink is seqused_k is None and dropout_p == softcap == attention_chunk == 0 and
                    causal in (True, False) and type(softmax_scale) in (float, type(None)) and
                    not (q.requires_grad and torch.is_grad_enabled())):
                left, right = usual_window(window_size)
                O, L = packed_at_best(q, k, v, cu_seqlens_q, seqused_q, cu_seqlens_k, left, 0 if causal else right,
                                      softmax_scale)
                return (O, L, None) if return_attn_probs else O
        except ERRORS:  # as the first time: it is made, or what is wrong is said, below
            pass
    plain("flash_attn_varlen_func", dropout_p=dropout_p, qv=qv, q_descale=q_descale, k_descale=k_descale,
          v_descale=v_descale)
    table = block_table if block_table is not None else page_table
    rows = q.shape[:2] if cu_seqlens_q is None and isinstance(q, Tensor) and q.dim() == 4 else None
    if rows:
        q, cu_seqlens_q = q.flatten(0, 1), starts_of(q)
    if cu_seqlens_k is table is None and all(isinstance(x, Tensor) and x.dim() == 4 for x in (k, v)):
        k, v, cu_seqlens_k = k.flatten(0, 1), v.flatten(0, 1), starts_of(k)
    rows_of = "Tk" if table is None else "pages page_size"
    tensors("flash_attn_varlen_func", q=(q, "Tq Hq D"), k=(k, rows_of + " Hkv D"), v=(v, rows_of + " Hkv Dv"))
    integers("cu_seqlens_q", cu_seqlens_q, where := getattr(cu_seqlens_q, "device", None), None)
    B = max(0, len(cu_seqlens_q) - 1)
    for which, x, n in (("cu_seqlens_k", cu_seqlens_k, len(cu_seqlens_q)), ("seqused_q", seqused_q, B),
                        ("seqused_k", seqused_k, B)):
        if x is not None or which == "cu_seqlens_k" and (table is None or seqused_k is None):
            integers(which, x, where, n)
    if table is not None:
        integers("block_table", table, q.device, B, None)
        q, k, v = autocast(q, k, v)
        tensors("flash_attn_varlen_func", k=(k, rows_of + " Hkv D", BF16), v=(v, rows_of + " Hkv Dv", BF16))
        seqused_k = cu_seqlens_k.diff() if seqused_k is None else seqused_k
        most, lengths = table.shape[1] * k.shape[1], seqused_k.to(q.device)
        table, lengths = told_in_range(table, lengths, None, 0, k.shape[1], len(k))
        k, v = (keys_of(x, None, table, lengths * 0, lengths, most).flatten(0, 1) for x in (k, v))
        cu_seqlens_k = torch.arange(B + 1, dtype=torch.int32, device=where) * most
    sinks = sinks_of(s_aux, learnable_sink)
    Q, K, V = taken("flash_attn_varlen_func", *(x.transpose(0, 1)[None] for x in (q, k, v)), sinks)
    (left, right), chunk = ends_of(causal, window_size), chunk_of(attention_chunk)
    scale, cap, parts = scale_of("softmax_scale", softmax_scale, q.shape[-1]), cap_of(softcap), []
    slopes = slopes_of(alibi_slopes, B, Q.shape[1], q.device)
    if q.shape[-1] > 128 and wants_gradients(q, k, v, sinks):
        refuse(f"flash_attn_varlen_func: head_dim = {q.shape[-1]}: gradients need at most 128. Call it "
               "under torch.no_grad()")
    if q.shape[-1] > 128 and (slopes is not None or cap or chunk or left < MOST or 0 < right < MOST):
        refuse(f"flash_attn_varlen_func: head_dim = {q.shape[-1]}: above 128, only full and causal masks are "
               "supported, without softcap, slopes or chunks")
    same_bits = deterministic is not None and number("deterministic", deterministic, bool)
    same_bits = same_bits or torch.are_deterministic_algorithms_enabled()
    if slopes is not None and B:
        slopes = slopes[sequence_of(cu_seqlens_q.to(q.device), len(q))[0]].T.contiguous()[None]
    for some in V.split(128 if Q.shape[3] <= 128 else V.shape[3], 3):  # so many columns of V at a time
        O, L = varlen(*(with_zeros(x, Q, some) for x in (Q, K, some)), sinks, cu_seqlens_q, seqused_q, cu_seqlens_k,
                      seqused_k, slopes, left, right, chunk, cap, scale, same_bits, "")
        parts.append((O[0, ..., : some.shape[3]].transpose(0, 1), L[0]))
    O, L = torch.cat([x for x, _ in parts], 2) if len(parts) > 1 else parts[0][0], parts[0][1]
    if sinks is not None and return_attn_probs:
        used = None if seqused_q is None else seqused_q.to(q.device)
        L = L.masked_fill(sequence_of(cu_seqlens_q.to(q.device), len(q), used)[1], -torch.inf)
    if rows:
        O, L = O.unflatten(0, rows), L.unflatten(1, rows).transpose(0, 1)
    return (O, L, None) if return_attn_probs else O


# ------------------------ decoding

MOST_QUERIES, PAGE_SIZES = 16, (256, 128, 64, 32, 16)  # of the kernels
E4M3 = torch.float8_e4m3fn


@operator("decode")
def decode(Q: Tensor, K: Tensor, V: Tensor, K_scale: Optional[Tensor], V_scale: Optional[Tensor], page_table: Tensor,
           kv_len: Tensor, scale: float, path: str) -> Tuple[Tensor, Tensor]:
    """flash_decode; or with scales, of a cache of bytes, flash_decode_int8, and with scales [B, Hkv]
    flash_decode_e4m3."""
    name, outputs = "flash_decode", like_forward(Q, K, V)
    if K_scale is not None:
        name += "_e4m3" if K_scale.dim() == 2 else "_int8"
    (B, Hq, Nq, D), (pages, page_size, Hkv, _) = Q.shape, K.shape
    if not Q.numel() or not page_table.numel():
        return nothing(Q, K, V)
    shape = DecodeShape(B, Hq, Hkv, Nq, D, scale, page_size, pages, page_table.shape[1])
    address, bytes, _memory = library(path).workspace(name, shape, Q.device)
    caches = [x.contiguous() for x in (K, V)]
    inputs = [in_one(Q), *caches, *(in_one(x) for x in (K_scale, V_scale, page_table, kv_len) if x is not None)]
    library(path).call(name, [*outputs, *inputs], shape, after=[address, bytes])
    return outputs


decode.register_fake(like_forward)


def keys_of(cache, scales, table, first, lengths, count):
    """Copies `count` keys of each sequence from its key first[b] on, zeros behind lengths[b] of them: [B, count, Hkv,
    D], in bf16."""
    size, ahead = cache.shape[1], torch.arange(count, device=table.device)
    at = (first[:, None].long() + ahead).clamp(max=table.shape[1] * size - 1)
    page, row = table.long().gather(1, at // size), at % size
    keys = cache[page, row]
    if scales is not None:
        by_sequence = scales.dim() == 2
        scales = scales[:, None] if by_sequence else scales[page, :, row]
        keys = ((keys.view(E4M3).float() if by_sequence else keys) * scales[..., None]).bfloat16()
    return keys.masked_fill((ahead >= lengths[:, None])[..., None, None], 0)


def from_cache(Q, K, V, K_scale, V_scale, table, lengths, first, left, right, chunk, slopes, cap, scale):
    """O and L of Q [B, Hq, Nq, D]. Of a cache of bytes K_scale and V_scale are [pages, Hkv, page_size], of one of e4m3,
    as int8, [B, Hkv]. first: which key of each sequence is its first; None: 0.

    Of causal masks the cache is read where it lies, if kernels have such pages and head dimensions. Else what is seen
    of it is copied: under a window so many keys a query, which then is a sequence of its own."""
    (B, Hq, Nq, D), size, device, wide = Q.shape, K.shape[1], Q.device, lambda x: with_zeros(x, Q, V)
    if not Q.numel() or not table.numel():
        return nothing(Q, K, V)
    if cap or slopes is not None:
        return scored_from_cache(Q, K, V, K_scale, V_scale, table, lengths, first, left, right, chunk, slopes, cap,
                                 scale)
    most, copied = table.shape[1] * size, first is not None or not K.shape[3] == V.shape[3] == D
    packed, each = Nq > MOST_QUERIES, Nq <= MOST_QUERIES and (right != 0 or left < most or chunk)
    by_sequence = K_scale is not None and K_scale.dim() == 2
    if each:
        at = lengths[:, None] - Nq + torch.arange(Nq, device=device)  # where the queries stand
        begin = torch.zeros_like(at) if first is None else first[:, None].expand(B, Nq)
        start, end = at - left, lengths[:, None].minimum(at + right + 1)
        if chunk:
            begin_of = at - (at - begin) % chunk
            start, end = start.maximum(begin_of), end.minimum(begin_of + chunk)
        lengths = end.flatten().clamp(min=0)
        if left < most or chunk or first is not None:
            first, copied = start.maximum(begin).flatten(), True
            most = max(1, min(most, left + 1 + min(right, Nq - 1), chunk or most))
        if B * Nq > 65535:
            refuse(f"flash_attn_with_kvcache: {B} sequences of {Nq} queries: here each query is treated as a "
                   "sequence, and at most 65535 are supported (any number with causal=True and no window)")
        Q, table = Q.transpose(1, 2).reshape(B * Nq, Hq, 1, D), table.repeat_interleave(Nq, 0)
        if by_sequence:
            K_scale, V_scale = (x.repeat_interleave(Nq, 0) for x in (K_scale, V_scale))
    served = next((x for x in PAGE_SIZES if size % x == 0 and (K_scale is None or by_sequence or size == x)), None)
    if copied or packed or not served:
        first = torch.zeros_like(lengths) if first is None else first
        lengths, size = (lengths - first).clamp(min=0), -(-most // 16) * 16
        K, V = (wide(keys_of(*x, table, first, lengths, size)) for x in ((K, K_scale), (V, V_scale)))
        K_scale, V_scale, table = None, None, torch.arange(len(lengths), device=device)[:, None]
        served = next(x for x in PAGE_SIZES if size % x == 0)
    elif not K.is_contiguous() or not V.is_contiguous():
        refuse("decoding from a non-contiguous cache is not supported: copying the cache at each step would cost "
               "more than the step itself")
    if packed:
        cu_q, cu_k = (torch.arange(B + 1, dtype=torch.int32, device=device) * n for n in (Nq, size))
        O, L = varlen(*(x.flatten(0, 1).transpose(0, 1)[None] for x in (Q.transpose(1, 2), K, V)), None, cu_q, None,
                      cu_k, lengths, None, left, right, chunk, 0.0, scale, False, "")
        return tuple(x[0].unflatten(1, (B, Nq)).transpose(0, 1) for x in (O, L))
    if served != size:
        table = (table[..., None] * (size // served) + torch.arange(size // served, device=device)).flatten(1)
        K, V = (x.reshape(-1, served, *x.shape[2:]) for x in (K, V))
    O, L = decode(Q, K, V, K_scale, V_scale, table.to(torch.int32), lengths.to(torch.int32), scale, "")
    return tuple(x.view(B, Nq, *x.shape[1:]).squeeze(3).transpose(1, 2) for x in (O, L)) if each else (O, L)


def scored_from_cache(Q, K, V, K_scale, V_scale, table, lengths, first, left, right, chunk, slopes, cap, scale):
    """Of all scores, from a copy: the sequences lie one behind the other, each with as many keys as the table has."""
    (B, Hq, Nq, D), most = Q.shape, in_tiles(table.shape[1] * K.shape[1])
    rows = in_tiles(Nq)  # of a sequence; what is behind its queries is dropped
    first = torch.zeros_like(lengths) if first is None else first
    lengths = lengths - first  # counted from the first
    K, V = (with_zeros(keys_of(*x, table, first, lengths, most), Q, V).flatten(0, 1).transpose(0, 1)[None]
            for x in ((K, K_scale), (V, V_scale)))
    at = (lengths[:, None] - Nq + torch.arange(rows, device=Q.device)).long()
    start, end = (at - left).clamp(min=0), torch.minimum(at + right, lengths[:, None] - 1)
    if chunk:
        start, end = start.maximum(at - at % chunk), end.minimum(at - at % chunk + chunk - 1)
    offset = torch.arange(B, device=Q.device)[:, None] * most
    start, end = start + offset, torch.where(start > end, -1, end + offset)
    seen = torch.stack([start, end, at + offset])  # a query may stand before the first key
    slopes = None if slopes is None else slopes.T[None, ..., None].expand(1, Hq, B, rows).flatten(2).contiguous()
    Q = pad(Q, (0, 0, 0, rows - Nq)).transpose(0, 1).flatten(1, 2)[None]
    found = scored(Q, K, V, seen.flatten(1).int(), slopes, cap, scale, "")
    return tuple(x[0].unflatten(1, (B, rows)).transpose(0, 1)[:, :, :Nq] for x in found)


def looks_at(device):
    """Whether numbers are looked at before the call: on a GPU that would wait, in what is compiled nobody is told."""
    return device.type == "cpu" and not torch.compiler.is_compiling()


def behind(x, cu, most):
    """[B, most, ...]: the rows of each sequence of x [T, ...], with zeros before them."""
    at = torch.arange(most, device=x.device) + cu[1:, None] - most
    return x[at.clamp(min=0, max=len(x) - 1)].masked_fill((at < cu[:-1, None])[..., None, None], 0)


def in_rows(x, cu, T, value):
    """What behind() was given, `value` in rows of no sequence; NaN in those of sequences longer than the first says."""
    if not len(x) or not x.shape[1]:
        return x.new_full((T, *x.shape[2:]), value)
    (s, none), most = sequence_of(cu, T), x.shape[1]
    at = torch.arange(T, device=x.device) + most - cu[s + 1]
    whole = lambda y: y.view(T, *[1] * (x.dim() - 2))
    return x[s, at.clamp(0, most - 1)].masked_fill(whole(at < 0), torch.nan).masked_fill(whole(none), value)


def quantise_cache(x: Tensor) -> Tuple[Tensor, Tensor]:
    """Of a cache [pages, page_size, Hkv, D], or tokens [..., H, D], of floats: int8 of the same shape, and scales
    [pages, Hkv, page_size] in float32, each row's largest |x| / 127. x is some int8 * scale. wb_quantise_row's bits."""
    most = x.float().abs().amax(-1, keepdim=True)
    scale = most / torch.full_like(most, 127)  # by a number PyTorch divides as by its reciprocal on a GPU: other bits
    scale = torch.where(scale < torch.finfo(torch.float32).tiny, 0, scale)
    q = torch.where(scale > 0, (x.float() / scale).round(), 0).to(torch.int8)  # round: ties to even
    return q, scale.squeeze(-1).transpose(-1, -2).contiguous()


def descale_of(name, x, B, Hkv, device):
    """[B, Hkv], of a number, a tensor of one, [B, Hkv], or None, which is 1."""
    if not isinstance(x, Tensor):
        return torch.full((B, Hkv), 1.0 if x is None else number(name, x, float), dtype=torch.float32, device=device)
    if x.dtype != torch.float32 or x.device != device or x.numel() != 1 and x.shape != (B, Hkv):
        raise ValueError(f"{name} must be float32, {[B, Hkv]} or one number, on {device}")
    return (x.view(1, 1) if x.numel() == 1 else x).detach().expand(B, Hkv)


def flash_attn_with_kvcache(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Optional[Tensor] = None,
                            v: Optional[Tensor] = None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None,
                            causal=False, window_size=(-1, -1), softcap=0.0, rotary_interleaved=True,
                            alibi_slopes=None, num_splits=0, return_softmax_lse=False, *, s_aux=None,
                            learnable_sink=None, k_scale=None, v_scale=None, page_table=None, qv=None, q_descale=None,
                            k_descale=None, v_descale=None, cu_seqlens_q=None, cu_seqlens_k_new=None,
                            max_seqlen_q=None, rotary_seqlens=None, attention_chunk=0, scheduler_metadata=None,
                            pack_gqa=None, sm_margin=0):
    """q [B, Nq, Hq, D], the newest tokens of each sequence. k_cache and v_cache: pages [pages, page_size, Hkv, D] with
    block_table int32 [B, max_pages]; or, without one, [B, N, Hkv, D]. In bf16; in int8, with k_scale and v_scale
    float32 [pages, Hkv, page_size] (or [B, Hkv, N]), as quantise_cache makes them; or in float8_e4m3fn, with k_descale
    and v_descale float32 [B, Hkv] or one number: what is stored times these is meant. No NaN is looked for there.

    cache_seqlens int32 [B], or a number: how many keys are there; unless given, all. k and v [B, n, Hkv, D]: new keys,
    written behind these before attention is computed. cache_leftpad int32 [B]: the first key of each. It has no
    gradients. With cu_seqlens_q q is [Tq, Hq, D] as in flash_attn_varlen_func, and with cu_seqlens_k_new so are k and
    v; without max_seqlen_q the call waits for the GPU. Fast, from the cache as it lies: a causal mask or one query, up
    to 16 queries, pages (or N) of multiples of 16, in int8 of a power of two to 256, D 16, 32, 64 or 128. Else, with a
    window and with cache_leftpad, what is seen of it is copied at each call, in bf16, and more than 16 queries make it
    wait for the GPU. Everything else, errors too, as in flash_attn_func: query i stands i - Nq behind the last key.
    Returns O as q, in bf16; with return_softmax_lse the logarithms [B, Hq, Nq] as well, with cu_seqlens_q [Hq, Tq].
    """
    name = "flash_attn_with_kvcache"
    e4m3 = getattr(k_cache, "dtype", None) == E4M3
    plain(name, rotary_cos=rotary_cos, rotary_sin=rotary_sin, qv=qv, q_descale=q_descale,
          **{} if e4m3 else {"k_descale": k_descale, "v_descale": v_descale})
    of_new = -4 if cu_seqlens_k_new is None else -3
    of_q, of_k = "B Nq Hq D" if cu_seqlens_q is None else "Tq Hq D", "?B n Hkv" if of_new == -4 else "?n Hkv"
    if isinstance(q, Tensor):
        q, k, v = autocast(q, k, v)
    tensors(name, q=(q, of_q), k_cache=(k_cache, "pages page_size Hkv D"), v_cache=(v_cache, "pages page_size Hkv Dv"),
            k=(k, of_k + " D"), v=(v, of_k + " Dv"), s_aux=(s_aux if s_aux is not None else learnable_sink, "?Hq"),
            **{} if k_scale is v_scale is None else {which: (x, "pages Hkv page_size", [torch.float32])
                                                     for which, x in (("k_scale", k_scale), ("v_scale", v_scale))})
    if q.dtype == E4M3:
        refuse(f"{name}: q in float8_e4m3fn is not supported: pass q in bfloat16, whatever the type of the cache")
    new_in = [torch.bfloat16] + [E4M3] * e4m3
    tensors(name, q=(q, of_q, [torch.bfloat16]), k=(k, of_k + " D", new_in), v=(v, of_k + " Dv", new_in))
    if k_cache.dtype != v_cache.dtype or k_cache.dtype not in (
            (torch.bfloat16, E4M3) if k_scale is None else (torch.int8,)):
        raise TypeError(f"{name}: k_cache is {k_cache.dtype}, v_cache {v_cache.dtype}: a cache must be bfloat16, int8 "
                        "with k_scale and v_scale, or float8_e4m3fn")
    device, (left, right), chunk, Tq = q.device, ends_of(causal, window_size), chunk_of(attention_chunk), len(q)
    if cu_seqlens_q is not None:
        integers("cu_seqlens_q", cu_seqlens_q, device, None)
        Nq = None if max_seqlen_q is None else number("max_seqlen_q", max_seqlen_q, int)
        if Nq is None or looks_at(device):
            cu = starts_in("cu_seqlens_q", cu_seqlens_q, Tq)
            longest = max((b - a for a, b in zip(cu, cu[1:])), default=0)
            if Nq is not None and Nq < longest:
                raise ValueError(f"{name}: max_seqlen_q = {Nq}, but a sequence has {longest} queries")
            Nq = longest if Nq is None else Nq
        if Nq < 0:
            raise ValueError(f"{name}: max_seqlen_q = {Nq}, but must not be negative")
        q = behind(q, cu_seqlens_q, Nq)
    (B, Nq, Hq, D), (pages, size, Hkv, _) = q.shape, k_cache.shape
    if wants_gradients(q, k_cache, v_cache, k, v):
        refuse(f"{name} has no gradients. Call it under torch.no_grad()")
    if Hq % Hkv if Hkv else Hq:
        raise ValueError(f"{name}: {Hq} heads of q are not a multiple of {Hkv} heads of k_cache")
    if (k is None) != (v is None) or k is not None and of_new == -4 and len(k) != B:
        raise ValueError(f"{name}: pass both k and v, as [B, n, Hkv, D], or neither")
    if cu_seqlens_k_new is not None:
        integers("cu_seqlens_k_new", cu_seqlens_k_new, device, B + 1)
        if looks_at(device):
            starts_in("cu_seqlens_k_new", cu_seqlens_k_new, 0 if k is None else len(k))
    if e4m3:  # from here on bytes, whose scales have two dimensions
        k_cache, v_cache = k_cache.view(torch.int8), v_cache.view(torch.int8)
        k_scale = descale_of("k_descale", k_descale, B, Hkv, device)
        v_scale = descale_of("v_descale", v_descale, B, Hkv, device)
    table = block_table if block_table is not None else page_table
    if table is not None:
        integers("block_table", table, device, None, None)
    for which, x in (("cache_batch_idx", cache_batch_idx), ("cache_leftpad", cache_leftpad)):
        if x is not None:
            integers(which, x, device, B)
    # all that may be wrong is said before new keys are written
    slopes, cap = slopes_of(alibi_slopes, B, Hq, device), cap_of(softcap)
    scale = scale_of("softmax_scale", softmax_scale, D or 1)
    if not min(D, Dv := v_cache.shape[3]):
        refuse(f"{name}: head_dim = 0 in q or v_cache")
    usual = slopes is None and not cap and not chunk and left == MOST and right in (0, MOST)
    if max(D, Dv) > 128 and (Nq <= MOST_QUERIES or not usual):
        refuse(f"{name}: head_dim = {max(D, Dv)}: above 128, a call needs more than {MOST_QUERIES} queries and a "
               "full or causal mask, and softcap and slopes are not supported")
    if not size or not Hkv:
        refuse(f"{name}: the cache has no keys or no heads; only flash_attn_func accepts k and v without keys")
    if table is None:  # each row of the cache is so many pages in a row
        fits = (k_scale is None or e4m3) and k_cache.is_contiguous() and v_cache.is_contiguous()
        rows, row, size = pages, size, next((x for x in PAGE_SIZES if size % x == 0), size) if fits else size
        k_cache, v_cache = (x.view(-1, size, *x.shape[2:]) if fits else x for x in (k_cache, v_cache))
        pages = rows * (row // size)
        table = torch.arange(pages, dtype=torch.int32, device=device).view(rows, row // size)
    new = 0 if k is None or of_new == -3 else k.shape[1]
    if len(table if cache_batch_idx is None else cache_batch_idx) != B:
        raise ValueError(f"{name}: {len(table)} sequences in the cache or in block_table, but {B} in q")
    if isinstance(cache_seqlens, Tensor) and cache_seqlens.dim():
        integers("cache_seqlens", cache_seqlens, device, B)
    elif cache_seqlens is not None:
        cache_seqlens = number("cache_seqlens", cache_seqlens, int)
    most = table.shape[1] * size
    lengths = most if cache_seqlens is None else cache_seqlens
    if not isinstance(lengths, Tensor):
        if not torch.compiler.is_compiling() and not 0 <= lengths <= most - new:
            raise RuntimeError(f"{name}: cache_seqlens = {lengths}, but must be between 0 and {most - new}")
        lengths = torch.full((B,), lengths, dtype=torch.int32, device=device)
    if cu_seqlens_k_new is not None and k is not None:
        lengths = lengths + cu_seqlens_k_new.diff()
    table, lengths = told_in_range(table, lengths, cache_batch_idx, new, size, pages)
    if k is not None and k.numel():
        if of_new == -4:
            s = torch.arange(B, device=device)[:, None]
            at = (lengths - new)[:, None].long() + torch.arange(new, device=device)  # [B, n]
        else:  # rows of no sequence write again what the last of one has written
            last, cu = cu_seqlens_k_new[-1:] - 1, cu_seqlens_k_new
            t = torch.arange(len(k), device=device).minimum(last).clamp(min=0)
            s = torch.searchsorted(cu[1:], t.to(cu.dtype), right=True).clamp(max=B - 1)
            at, k, v = (lengths[s] - cu[s + 1] + t).clamp(min=0, max=most - 1), k[t], v[t]
        page, row = table.long()[s, at // size], at % size
        for cache, scales, new_keys in ((k_cache, k_scale, k), (v_cache, v_scale, v)):
            if e4m3:
                if new_keys.dtype != E4M3:
                    new_keys = (new_keys / scales[s][..., None]).clamp(-448, 448).to(E4M3)
                new_keys = new_keys.view(torch.int8)
            elif scales is not None:
                new_keys, new_scales = quantise_cache(new_keys)
                new_scales = new_scales.transpose(-1, -2)
                scales[page, :, row] = new_scales if of_new == -4 else torch.where(last[:, None] >= 0, new_scales,
                                                                                  scales[page, :, row])
            if of_new == -3:  # of no rows at all it writes what is there
                new_keys = torch.where(last[:, None, None] >= 0, new_keys, cache[page, row])
            cache[page, row] = new_keys
    first = None if cache_leftpad is None else cache_leftpad.clamp(min=0)
    O, L = from_cache(with_zeros(q.transpose(1, 2), q, v_cache), k_cache, v_cache, k_scale, v_scale, table, lengths,
                      first, left, 0 if Nq == 1 and right > 0 else right, chunk, slopes, cap, scale)
    O = O[..., :Dv]
    if (sinks := sinks_of(s_aux, learnable_sink)) is not None:
        O, L = with_sink(O, L, sinks[:, None])
    O = O.transpose(1, 2)
    if cu_seqlens_q is not None:
        O, L = in_rows(O, cu_seqlens_q, Tq, 0), in_rows(L.transpose(1, 2), cu_seqlens_q, Tq, -torch.inf).T
    return (O, L) if return_softmax_lse else O


# ------------------------ one tensor of two or three


def unpacked(name, x, letters, count):
    """The `count` parts of x, before its last two dimensions."""
    tensors(name, **{"qkv" if count == 3 else "kv": (x, letters)})
    if x.shape[-3] != count:
        raise ValueError(f"{name}: {list(x.shape)}, expected [{letters}] with {count} parts")
    return x.unbind(-3)


def flash_attn_qkvpacked_func(qkv: Tensor, *args, **how):
    """flash_attn_func of qkv [B, N, 3, H, D]: q, k and v are parts of one tensor, and so is the gradient."""
    return flash_attn_func(*unpacked("flash_attn_qkvpacked_func", qkv, "B N parts H D", 3), *args, **how)


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, *args, **how):
    """flash_attn_func of q [B, Nq, Hq, D] and kv [B, Nk, 2, Hkv, D]."""
    return flash_attn_func(q, *unpacked("flash_attn_kvpacked_func", kv, "B Nk parts Hkv D", 2), *args, **how)


def flash_attn_varlen_qkvpacked_func(qkv: Tensor, cu_seqlens: Tensor, max_seqlen=None, *args, **how):
    """flash_attn_varlen_func of qkv [T, 3, H, D]."""
    parts = unpacked("flash_attn_varlen_qkvpacked_func", qkv, "T parts H D", 3)
    return flash_attn_varlen_func(*parts, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *args, **how)


def flash_attn_varlen_kvpacked_func(q: Tensor, kv: Tensor, *args, **how):
    """flash_attn_varlen_func of q [Tq, Hq, D] and kv [Tk, 2, Hkv, D]."""
    parts = unpacked("flash_attn_varlen_kvpacked_func", kv, "Tk parts Hkv D", 2)
    return flash_attn_varlen_func(q, *parts, *args, **how)
