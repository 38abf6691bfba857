"""flash_attn_func, flash_attn_varlen_func and flash_attn_with_kvcache, as callers of flash-attn 2 and 3 know them:
tokens before heads, causal masks and windows aligned at the bottom right. What no function of the library does is
refused by the argument's name.
"""
import functools, weakref
from typing import List, Optional, Tuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .arguments import (expect_starts, in_range, in_range_now, integers, is_off, number, pair, raise_what_was_told,
                        tensors)
from .dense import ERRORS, at_best, attention, backward, taken, wants_gradients
from .library import DecodeShape, library, like_forward, operator, refuse
from .masks import intervals, masked


def plain(function, **given):
    """Refuses what is given and is not off."""
    for name, value in given.items():
        if not is_off(value):
            refuse(f"{function}: {name}={'...' if isinstance(value, Tensor) else value} is not served: leave it out")


def ends_of(causal, window_size):
    """How many keys to the left and to the right a query sees besides its own; -1: all."""
    left, right = pair("window_size", window_size)
    return left, 0 if number("causal", causal, bool) else right


def with_sink(O, L, s):
    """O and L as they are with one more term exp(s) in the denominators. O [..., N, D], L [..., N], s that broadcasts
    with L."""
    share = torch.where(L == -torch.inf, 0, torch.sigmoid(L - s))
    return (O * share[..., None]).to(O.dtype), torch.logaddexp(L, s.expand_as(L))


def sinks_of(s_aux, learnable_sink):
    sinks = s_aux if s_aux is not None else learnable_sink
    return None if sinks is None else sinks.float()


def refuse_gradients(name, left, right, sinks):
    refuse(f"{name}: window_size=({left}, {right}){' with s_aux' * (sinks is not None)} and no causal mask has no "
           "gradients. Call it under torch.no_grad()")


def bounds(q_len, kv_len, left, right):
    """The first and last key that each query sees, if the last query stands at the last key."""
    at = torch.arange(kv_len - q_len, kv_len)
    return (at - left if left >= 0 else torch.zeros_like(at)).clamp(min=0), (at + right if right >= 0
        else torch.full_like(at, kv_len)).clamp(max=kv_len - 1)


# ------------------------ one length

captured = []  # masks whose memory is in a CUDA graph's kernels


@functools.lru_cache(64)
def band_mask(q_len, kv_len, left, right, device):
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        refuse("the first call with these lengths makes a mask and waits for the GPU: call it once before it is "
               "captured in a CUDA graph")
    return intervals(*(x.to(device) for x in bounds(q_len, kv_len, left, right)), kv_len)


@operator("band")
def band(Q: Tensor, K: Tensor, V: Tensor, left: int, right: int, scale: float, path: str) -> Tuple[Tensor, Tensor]:
    if not Q.numel() or not K.numel():
        return torch.zeros_like(Q, memory_format=torch.contiguous_format), Q.new_full(Q.shape[:3], -torch.inf,
            dtype=torch.float32)
    mask = band_mask(Q.shape[2], K.shape[2], left, right, Q.device)
    if Q.is_cuda and torch.cuda.is_current_stream_capturing():
        captured.append(mask)
    return masked(Q, K, V, *mask.fitting(Q, K), scale, path)


band.register_fake(like_forward)


def banded(name, Q, K, V, left, right, scale, same_bits, sinks):
    """Attention of [B, H, N, D] and its L, of queries that stand at the last keys."""
    Nq, Nk = Q.shape[2], K.shape[2]
    how = {"scale": scale, "same_bits": same_bits, "return_lse": True}
    left, right = -1 if left >= Nk - 1 else left, -1 if right >= Nq - 1 and right else right
    gradients = wants_gradients(Q, K, V, sinks)
    if right == 0 and Nq == 1 and not gradients:  # sees all keys, or the last of them
        K, V = (x[:, :, -1 - left :] if left >= 0 else x for x in (K, V))
        left = right = -1
    if right == 0 and Nq == Nk:
        return attention(Q, K, V, window=left + 1 if left >= 0 else None, sink_logits=sinks, **how)
    if right == 0 and Nq > Nk:  # the first queries stand before the first key and see none
        O, L = banded(name, Q[:, :, Nq - Nk :], K, V, left, 0, scale, same_bits, sinks)
        nothing = L.new_full((), -torch.inf) if sinks is None else sinks[:, None]
        return pad(O, (0, 0, Nq - Nk, 0)), torch.cat([nothing.expand(*L.shape[:2], Nq - Nk), L], 2)
    if right == 0 and gradients:  # queries of zeros go before, and what no query sees is cut off: then it is a square
        unseen = max(0, Nk - Nq - left) if left >= 0 else 0
        K, V, before = K[:, :, unseen:], V[:, :, unseen:], Nk - unseen - Nq
        O, L = banded(name, pad(Q, (0, 0, before, 0)), K, V, left, 0, scale, same_bits, sinks)
        return O[:, :, before:], L[:, :, before:]
    if gradients and (sinks is not None or left >= 0 or right >= 0):
        refuse_gradients(name, left, right, sinks)
    if left == right == -1:
        O, L = attention(Q, K, V, causal=False, **how)
    else:
        O, L = band(Q, K, V, left, right, scale, "")
    return (O, L) if sinks is None else with_sink(O, L, sinks[:, None])


def square_window(q, k, causal, window_size):
    """The operator's window, 0 for none, where it has such a mask; an error where the rest of this file makes one."""
    left, right = window_size or (-1, -1)
    N = q.shape[1]
    if causal is True and N == k.shape[1]:
        return left + 1 if 0 <= left < N - 1 else 0
    if causal is not False or left != -1 or right != -1:
        raise ValueError
    return 0


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False,
                    return_attn_probs=False, *, s_aux=None, learnable_sink=None, qv=None, q_descale=None,
                    k_descale=None, v_descale=None, attention_chunk=0,
                    num_splits=1, pack_gqa=None, sm_margin=0):
    """q [B, Nq, Hq, D], k and v [B, Nk, Hkv, D], in bf16. s_aux (learnable_sink): gpt-oss's sink logits [Hq].

    window_size: how many keys before and behind its own a query sees, -1: all. Gradients: those of full attention, on
    sm_90, and of causal attention with or without a left window. return_attn_probs: O, the logarithm of the
    denominators [B, Hq, Nq] (-infinity where nothing is seen), and None. num_splits, pack_gqa and sm_margin are hints,
    and not read.
    """
    if not torch.compiler.is_compiling() and (alibi_slopes is qv is q_descale is k_descale is v_descale is None):
        try:
            if sinks_of(s_aux, learnable_sink) is None and dropout_p == softcap == attention_chunk == 0:
                window = square_window(q, k, causal, window_size)
                O, L = at_best(q, k, v, None, causal, window, 0, softmax_scale, deterministic or None, None, True)
                return (O, L, None) if return_attn_probs else O
        except ERRORS:  # it is put right, or what is wrong is said, below
            pass
    plain("flash_attn_func", dropout_p=dropout_p, softcap=softcap, alibi_slopes=alibi_slopes, qv=qv,
          q_descale=q_descale, k_descale=k_descale,
          v_descale=v_descale, attention_chunk=attention_chunk)
    tensors("flash_attn_func", q=(q, 4), k=(k, 4), v=(v, 4))
    sinks = sinks_of(s_aux, learnable_sink)
    Q, K, V = taken("flash_attn_func", *(x.transpose(1, 2) for x in (q, k, v)), sinks)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else number("softmax_scale", softmax_scale, float)
    O, L = banded("flash_attn_func", Q, K, V, *ends_of(causal, window_size), scale, deterministic or None, sinks)
    return (O.transpose(1, 2), L, None) if return_attn_probs else O.transpose(1, 2)


# ------------------------ many lengths
# The queries and keys of all sequences lie one behind the other. Forward they are one sequence under a mask of
# documents: one call of problem 15, with as many tiles as a call for each sequence would walk over, and one launch
# where there would be one each. It has no backward: that is a call a sequence.

last_packed = []  # the mask of the last call, and of which tensors, as they were: a model's layers all ask for the same


def kept_mask(starts, key):
    """That of the last call, if it was of the same tensors, as they were, and of the same key."""
    # another thread may make another one meanwhile; tensors of inference_mode do not say whether they have changed
    last = last_packed[:]
    if last and last[1] == key and all(ref() is x and not x.is_inference() and version == x._version
                                       for (ref, version), x in zip(last[0], starts)):
        return last[2]


def packed_mask(Q, K, starts, left, right):
    key = Q.shape[2], K.shape[2], left, right, Q.device
    if mask := kept_mask(starts, key):
        return mask
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        refuse("flash_attn_varlen_func reads cu_seqlens, and waits for the GPU: call it once with the same tensors "
               "before it is captured in a CUDA graph")
    first, last = torch.ones(Q.shape[2], dtype=torch.int64), torch.zeros(Q.shape[2], dtype=torch.int64)
    for at, nq, of, nk in sequences(*starts, Q.shape[2], K.shape[2]):
        a, b = bounds(nq, nk, left, right)
        first[at : at + nq], last[at : at + nq] = torch.where(a > b, 1, a + of), torch.where(a > b, 0, b + of)
    mask = intervals(first.to(Q.device), last.to(Q.device), K.shape[2])
    if not any(x.is_inference() for x in starts):
        last_packed[:] = [(weakref.ref(x), x._version) for x in starts], key, mask
    return mask


def sequences(cu_q, cu_k, Tq, Tk):
    """Where each begins among the queries, how many it has, and the same of the keys."""
    (q, k) = (x.tolist() for x in (cu_q, cu_k))
    if len(q) != len(k):
        raise ValueError(f"cu_seqlens_q has {len(q)} entries, and cu_seqlens_k has {len(k)}")
    expect_starts("cu_seqlens_q", q, Tq)
    expect_starts("cu_seqlens_k", k, Tk)
    return [(q[s], q[s + 1] - q[s], k[s], k[s + 1] - k[s]) for s in range(len(q) - 1)]


@operator("varlen", waits=True)
def varlen(Q: Tensor, K: Tensor, V: Tensor, sinks: Optional[Tensor], cu_q: Tensor, cu_k: Tensor, left: int, right: int,
           scale: float, same_bits: bool,
           path: str) -> Tuple[Tensor, Tensor]:
    if not Q.numel() or not K.numel():
        sequences(cu_q, cu_k, Q.shape[2], K.shape[2])
        O, L = torch.zeros_like(Q, memory_format=torch.contiguous_format), Q.new_full(Q.shape[:3], -torch.inf,
            dtype=torch.float32)
        return (O, L) if sinks is None else with_sink(O, L, sinks[:, None])
    mask = packed_mask(Q, K, (cu_q, cu_k), left, right)
    if Q.is_cuda and torch.cuda.is_current_stream_capturing():
        captured.append(mask)
    O, L = masked(Q, K, V, *mask.fitting(Q, K), scale, path)
    return (O, L) if sinks is None else with_sink(O, L, sinks[:, None])


varlen.register_fake(like_forward)


@operator("varlen_backward", waits=True)
def varlen_backward(dO: Tensor, Q: Tensor, K: Tensor, V: Tensor, sinks: Optional[Tensor], O: Tensor, L: Tensor,
                    cu_q: Tensor, cu_k: Tensor, left: int,
                    right: int, scale: float, same_bits: bool, path: str) -> List[Tensor]:
    gradients = [torch.zeros_like(x) for x in (Q, K, V, sinks) if x is not None]
    for at, nq, of, nk in sequences(cu_q, cu_k, Q.shape[2], K.shape[2]):
        if right == 0:  # as in banded: a square of the queries that see a key and the keys that are seen
            late, unseen = max(0, nq - nk), max(0, nk - nq - left) if left >= 0 else 0
            at, nq, of, nk = at + late, nq - late, of + unseen, nk - unseen
        if min(nq, nk) == 0:
            continue
        before = nk - nq if right == 0 else 0
        rows = [pad(x[:, :, at : at + nq], (0, 0, before, 0)) for x in (dO, Q, O)]
        keys, l = [x[:, :, of : of + nk] for x in (K, V)], pad(L[:, :, at : at + nq], (before, 0))
        dQ, dK, dV, *dsinks = backward(rows[0], rows[1], *keys, sinks, rows[2], l, right == 0,
                                       left + 1 if left >= 0 else 0, 0, scale, same_bits, path)
        gradients[0][:, :, at : at + nq] = dQ[:, :, before:]
        gradients[1][:, :, of : of + nk], gradients[2][:, :, of : of + nk] = dK, dV
        if dsinks:
            gradients[3] += dsinks[0]
    return gradients


@varlen_backward.register_fake
def like_varlen_backward(dO, Q, K, V, sinks, *_):
    return [torch.empty_like(x) for x in (Q, K, V, sinks) if x is not None]


def keep(ctx, inputs, output):
    *tensors, ctx.left, ctx.right, ctx.scale, ctx.same_bits, ctx.path = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*tensors, *output)


def differentiate(ctx, dO, _):
    Q, K, V, sinks, cu_q, cu_k, O, L = ctx.saved_tensors
    gradients = varlen_backward(dO, Q, K, V, sinks, O, L, cu_q, cu_k, ctx.left, ctx.right, ctx.scale, ctx.same_bits,
                                ctx.path)
    return *gradients, *[None] * (11 - len(gradients))


varlen.register_autograd(differentiate, setup_context=keep)


def packed_at_best(q, k, v, starts, causal, window_size, scale):
    """O and L by the operator of C++ under the last call's mask; an error if that is another, or gradients are
    wanted."""
    left, right = window_size or (-1, -1)
    mask = kept_mask(starts, (len(q), len(k), left, 0 if number("causal", causal, bool) else right, q.device))
    if mask is None or wants_gradients(q, k, v) or q.is_cuda and torch.cuda.is_current_stream_capturing():
        raise ValueError
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return masked._op(q, k, v, *mask[3:], mask.q_tile, scale, "", True)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q=None, max_seqlen_k=None, dropout_p=0.0,
                           softmax_scale=None, causal=False,
                           window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                           return_attn_probs=False, block_table=None, *,
                           s_aux=None, learnable_sink=None, seqused_q=None, seqused_k=None, qv=None, q_descale=None,
                           k_descale=None, v_descale=None,
                           attention_chunk=0, num_splits=1, pack_gqa=None, sm_margin=0):
    """q [Tq, Hq, D], k and v [Tk, Hkv, D]: sequence s has the rows cu_seqlens[s] ... cu_seqlens[s + 1] - 1 of them.
    Rows of no sequence get zeros.

    cu_seqlens are read: the first call with new ones waits for the GPU. The largest lengths are not. Everything else as
    in flash_attn_func; the logarithms are [Hq, Tq].
    """
    if not torch.compiler.is_compiling() and (alibi_slopes is block_table is seqused_q is seqused_k is qv is None
                                              and q_descale is k_descale is v_descale is None):
        try:
            if sinks_of(s_aux, learnable_sink) is None and dropout_p == softcap == attention_chunk == 0:
                O, L = packed_at_best(q, k, v, (cu_seqlens_q, cu_seqlens_k), causal, window_size, softmax_scale)
                return (O, L, None) if return_attn_probs else O
        except ERRORS:  # as the first time: it is made, or what is wrong is said, below
            pass
    plain("flash_attn_varlen_func", dropout_p=dropout_p, softcap=softcap, alibi_slopes=alibi_slopes,
          block_table=block_table, seqused_q=seqused_q,
          seqused_k=seqused_k, qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale,
          attention_chunk=attention_chunk)
    tensors("flash_attn_varlen_func", q=(q, 3), k=(k, 3), v=(v, 3))
    for which, starts in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)):
        integers(which, starts, getattr(starts, "device", None), None)
    sinks = sinks_of(s_aux, learnable_sink)
    Q, K, V = taken("flash_attn_varlen_func", *(x.transpose(0, 1)[None] for x in (q, k, v)), sinks)
    left, right = ends_of(causal, window_size)
    if wants_gradients(Q, K, V, sinks) and right != 0 and (left >= 0 or right > 0 or sinks is not None):
        refuse_gradients("flash_attn_varlen_func", left, right, sinks)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else number("softmax_scale", softmax_scale, float)
    same_bits = bool(deterministic or torch.are_deterministic_algorithms_enabled())
    O, L = varlen(Q, K, V, sinks, cu_seqlens_q, cu_seqlens_k, left, right, scale, same_bits, "")
    O = O[0].transpose(0, 1)
    return (O, L[0], None) if return_attn_probs else O


# ------------------------ decoding


@operator("decode")
def decode(Q: Tensor, K: Tensor, V: Tensor, K_scale: Optional[Tensor], V_scale: Optional[Tensor], page_table: Tensor,
           kv_len: Tensor, scale: float,
           path: str) -> Tuple[Tensor, Tensor]:
    """flash_decode, or with scales flash_decode_int8, of problems 13 and 14."""
    name, outputs = "flash_decode" if K_scale is None else "flash_decode_int8", like_forward(Q)
    (B, Hq, Nq, D), (pages, page_size, Hkv, _) = Q.shape, K.shape
    if not Q.numel() or not page_table.numel():
        return torch.zeros_like(Q, memory_format=torch.contiguous_format), outputs[1].fill_(-torch.inf)
    shape = DecodeShape(B, Hq, Hkv, Nq, D, scale, page_size, pages, page_table.shape[1])
    address, bytes, _memory = library(path).workspace(name, shape, Q.device)
    caches = [x for x in (K, V, K_scale, V_scale) if x is not None]
    if not all(x.is_contiguous() for x in caches):
        refuse("decoding from a cache that is not contiguous: to copy it at each step would cost more than the step")
    library(path).call(name, [*outputs, Q.contiguous(), *caches, page_table.contiguous(), kv_len.contiguous()], shape,
                       after=[address, bytes])
    return outputs


decode.register_fake(like_forward)


def quantise_cache(x):
    """Of a cache [pages, page_size, Hkv, D], or tokens [..., H, D]: int8 of the same shape, and scales [pages, Hkv,
    page_size]. wb_quantise_row's bits."""
    most = x.float().abs().amax(-1, keepdim=True)
    scale = most / torch.full_like(most, 127)  # by a number PyTorch divides as by its reciprocal on a GPU: other bits
    scale = torch.where(scale < torch.finfo(torch.float32).tiny, 0, scale)
    q = torch.where(scale > 0, (x.float() / scale).round(), 0).to(torch.int8)  # round: ties to even
    return q, scale.squeeze(-1).transpose(-1, -2).contiguous()


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None,
                            cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
                            window_size=(-1, -1), softcap=0.0,
                            rotary_interleaved=True, alibi_slopes=None, num_splits=0, return_softmax_lse=False, *,
                            s_aux=None, learnable_sink=None,
                            k_scale=None, v_scale=None, page_table=None, qv=None, q_descale=None, k_descale=None,
                            v_descale=None, cu_seqlens_q=None,
                            cu_seqlens_k_new=None, max_seqlen_q=None, rotary_seqlens=None, attention_chunk=0,
                            scheduler_metadata=None, pack_gqa=None,
                            sm_margin=0):
    """q [B, Nq, Hq, D], the newest tokens of each sequence, 16 at most. k_cache and v_cache: pages [pages, page_size,
    Hkv, D] with block_table int32 [B, max_pages], and page_size a power of two from 16 to 256; or, without one, [B, N,
    Hkv, D], with N a multiple of 16. In bf16; or in int8, with k_scale and v_scale float32 [pages, Hkv, page_size] (or
    [B, Hkv, N], which wants N itself as a page), as quantise_cache makes them.

    cache_seqlens int32 [B], or a number: how many keys are there; unless given, all. k and v [B, n, Hkv, D]: new keys,
    written behind these before attention is computed. More than one query wants causal=True. It has no gradients.
    """
    plain("flash_attn_with_kvcache", rotary_cos=rotary_cos, rotary_sin=rotary_sin, cache_leftpad=cache_leftpad,
          softcap=softcap, alibi_slopes=alibi_slopes,
          qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale, cu_seqlens_q=cu_seqlens_q,
          cu_seqlens_k_new=cu_seqlens_k_new,
          rotary_seqlens=rotary_seqlens, attention_chunk=attention_chunk)
    name = "flash_attn_with_kvcache"
    tensors(name, q=(q, 4), k_cache=(k_cache, 4), v_cache=(v_cache, 4), k=(k, -4), v=(v, -4))
    (B, Nq, _, D), device, causal = q.shape, q.device, number("causal", causal, bool)
    if ends_of(causal, window_size)[0] >= 0 or ends_of(False, window_size)[1] > 0:
        refuse(f"{name}: window_size={pair('window_size', window_size)} is not served: problem 13 reads all keys")
    if Nq > 1 and not causal:
        refuse(f"{name}: {Nq} queries with causal=False are not served: of new tokens each sees the keys up to its own")
    if wants_gradients(q, k_cache, v_cache, k, v):
        refuse(f"{name} has no gradients. Call it under torch.no_grad()")
    if q.dtype != torch.bfloat16 or k_cache.dtype != v_cache.dtype or k_cache.dtype != (torch.bfloat16
            if k_scale is None else torch.int8):
        raise TypeError(f"{name} takes q in bfloat16, and a cache in bfloat16, or in int8 with k_scale and v_scale")
    if k_cache.shape != v_cache.shape or k_cache.shape[3] != D or (q.shape[2] % k_cache.shape[2]
            if k_cache.shape[2] else q.shape[2]):
        raise ValueError(f"{name}: q {list(q.shape)}, k_cache {list(k_cache.shape)}, v_cache {list(v_cache.shape)}: "
                         "[B, Nq, Hq, D], and [.., .., Hkv, D] twice")
    if (k is None) != (v is None) or k is not None and (k.shape != v.shape or len(k) != B
                                                        or k.shape[2:] != k_cache.shape[2:]):
        raise ValueError(f"{name}: k and v are [B, n, Hkv, D], both or none")
    table = block_table if block_table is not None else page_table
    if table is not None:
        integers("block_table", table, device, None, None)
    if cache_batch_idx is not None:
        integers("cache_batch_idx", cache_batch_idx, device, B)
    if table is None:  # each row of the cache is so many pages in a row
        if not k_cache.shape[1]:
            refuse(f"{name}: a cache without keys: flash_attn_func takes k and v of no keys")
        size = next((s for s in (256, 128, 64, 32, 16) if k_cache.shape[1] % s == 0),
                    0) if k_scale is None else k_cache.shape[1]
        if not size or not k_cache.is_contiguous() or not v_cache.is_contiguous():
            refuse(f"{name}: a cache {list(k_cache.shape)} without block_table: a contiguous one of a multiple of 16 "
                   f"keys is served")
        count = k_cache.shape[1] // size
        table = torch.arange(k_cache.shape[0] * count, dtype=torch.int32, device=device).view(-1, count)
        k_cache, v_cache = (x.view(-1, size, *x.shape[2:]) for x in (k_cache, v_cache))
    size, new = k_cache.shape[1], 0 if k is None else k.shape[1]
    if len(table if cache_batch_idx is None else cache_batch_idx) != B:
        raise ValueError(f"{name}: {len(table)} sequences in the cache or in block_table, and {B} of q")
    if isinstance(cache_seqlens, Tensor) and cache_seqlens.dim():
        integers("cache_seqlens", cache_seqlens, device, B)
    elif cache_seqlens is not None:
        cache_seqlens = number("cache_seqlens", cache_seqlens, int)
    lengths, most = table.shape[1] * size if cache_seqlens is None else cache_seqlens, table.shape[1] * size - new
    if not isinstance(lengths, Tensor):
        if not torch.compiler.is_compiling() and not 0 <= lengths <= most:
            raise RuntimeError(f"{name}: cache_seqlens = {lengths}, and 0 to {most} is allowed")
        lengths = torch.full((B,), lengths, dtype=torch.int32, device=device)
    if torch.compiler.is_compiling():
        table, lengths = in_range(table, lengths, cache_batch_idx, new, size, len(k_cache))
    else:
        raise_what_was_told(device)
        table, lengths = in_range_now(table, lengths, cache_batch_idx, new, size, len(k_cache))
        if device.type == "cpu":
            raise_what_was_told(device)
    if k is not None:
        at = (lengths - new)[:, None].long() + torch.arange(new, device=device)  # [B, n]
        page, row = table.long().gather(1, at // size), at % size
        for cache, scales, new_keys in ((k_cache, k_scale, k), (v_cache, v_scale, v)):
            if scales is not None:
                new_keys, new_scales = quantise_cache(new_keys)
                scales[page, :, row] = new_scales.transpose(1, 2)
            cache[page, row] = new_keys
    O, L = decode(q.transpose(1, 2), k_cache, v_cache, k_scale, v_scale, table.to(torch.int32), lengths,
                  D**-0.5 if softmax_scale is None else number("softmax_scale", softmax_scale, float), "")
    if (sinks := sinks_of(s_aux, learnable_sink)) is not None:
        O, L = with_sink(O, L, sinks[:, None])
    O = O.transpose(1, 2)
    return (O, L) if return_softmax_lse else O
