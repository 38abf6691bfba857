"""flash_attn_func, flash_attn_varlen_func and flash_attn_with_kvcache, as callers of flash-attn 2 and 3 know them:
tokens before heads, causal masks and windows aligned at the bottom right. What no function of the library does is
refused by the argument's name.
"""
import functools
from typing import List, Optional, Tuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .arguments import integers, is_off, number, pair, tensors, told_in_range
from .dense import ERRORS, at_best, attention, backward, taken, wants_gradients, with_zeros
from .library import DecodeShape, library, like_forward, operator, operators, refuse
from .masks import Mask, intervals, masked

packed_at_best = operators.packed.default._op  # under the last call's mask; an error where that is another


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


def nothing(*tensors):
    """O and L of no keys."""
    O, L = like_forward(*tensors)
    return O.zero_(), L.fill_(-torch.inf)


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

@functools.lru_cache(64)
def band_mask(q_len, kv_len, left, right, device):
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        refuse("the first call with these lengths makes a mask and waits for the GPU: call it once before it is "
               "captured in a CUDA graph")
    return intervals(*(x.to(device) for x in bounds(q_len, kv_len, left, right)), kv_len)


@operator("band")
def band(Q: Tensor, K: Tensor, V: Tensor, left: int, right: int, scale: float, path: str) -> Tuple[Tensor, Tensor]:
    if not Q.numel() or not K.numel():
        return nothing(Q, K, V)
    return masked(Q, K, V, *band_mask(Q.shape[2], K.shape[2], left, right, Q.device).fitting(Q, K), scale, path)


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
                    alibi_slopes=None, deterministic=False, return_attn_probs=False, *, s_aux=None, learnable_sink=None,
                    qv=None, q_descale=None, k_descale=None, v_descale=None, attention_chunk=0, num_splits=1,
                    pack_gqa=None, sm_margin=0):
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
          q_descale=q_descale, k_descale=k_descale, v_descale=v_descale, attention_chunk=attention_chunk)
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

def packed_mask(Q, K, starts, left, right):
    of = Q, K.shape[2], *starts, left, right
    if lists := operators.kept_mask(*of):
        return Mask(Q.shape[2], K.shape[2], 128, *lists)
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        refuse("flash_attn_varlen_func reads cu_seqlens, and waits for the GPU: call it once with the same tensors "
               "before it is captured in a CUDA graph")
    first, last = torch.ones(Q.shape[2], dtype=torch.int64), torch.zeros(Q.shape[2], dtype=torch.int64)
    for at, nq, of_, nk in sequences(starts, Q.shape[2], K.shape[2]):
        a, b = bounds(nq, nk, left, right)
        first[at : at + nq], last[at : at + nq] = torch.where(a > b, 1, a + of_), torch.where(a > b, 0, b + of_)
    mask = intervals(first.to(Q.device), last.to(Q.device), K.shape[2])
    operators.keep_mask(*of, mask[3:])
    return mask


def sequences(starts, Tq, Tk):
    """Where each begins among the queries, how many it has, and the same of the keys. starts: cu_seqlens and seqused
    of queries, and of keys."""
    cu_q, used_q, cu_k, used_k = (x if x is None else x.tolist() for x in starts)
    found = []
    for which, cu, used, total in (("q", cu_q, used_q, Tq), ("k", cu_k, used_k, Tk)):
        for s, (before, start) in enumerate(zip([0, *cu], cu)):
            if not before <= start <= total:
                raise RuntimeError(f"cu_seqlens_{which}[{s}] = {start}, and {before} to {total} is allowed")
        lengths = [b - a for a, b in zip(cu, cu[1:])]
        for s, (n, most) in enumerate(zip(used or [], lengths)):
            if not 0 <= n <= most:
                raise RuntimeError(f"seqused_{which}[{s}] = {n}, and 0 to {most} is allowed")
        found += cu, lengths if used is None else used
    return list(zip(*found))


@operator("varlen", waits=True)
def varlen(Q: Tensor, K: Tensor, V: Tensor, sinks: Optional[Tensor], cu_q: Tensor, used_q: Optional[Tensor],
           cu_k: Tensor, used_k: Optional[Tensor], left: int, right: int, scale: float, same_bits: bool,
           path: str) -> Tuple[Tensor, Tensor]:
    starts = cu_q, used_q, cu_k, used_k
    if not Q.numel() or not K.numel():
        sequences(starts, Q.shape[2], K.shape[2])
        O, L = nothing(Q, K, V)
        return (O, L) if sinks is None else with_sink(O, L, sinks[:, None])
    mask = packed_mask(Q, K, starts, left, right)
    if used_k is not None and len(used_k):  # what is not used may be NaN, which no P of 0 makes 0
        row, start, used = torch.arange(K.shape[2], device=Q.device), cu_k.to(Q.device), used_k.to(Q.device)
        s = torch.searchsorted(start[1:], row, right=True).clamp(max=len(used) - 1)
        V = V.masked_fill((row - start[s] >= used[s])[:, None], 0)
    O, L = masked(Q, K, V, *mask.fitting(Q, K), scale, path)
    return (O, L) if sinks is None else with_sink(O, L, sinks[:, None])


varlen.register_fake(like_forward)


@operator("varlen_backward", waits=True)
def varlen_backward(dO: Tensor, dL: Optional[Tensor], Q: Tensor, K: Tensor, V: Tensor, sinks: Optional[Tensor],
                    O: Tensor, L: Tensor, cu_q: Tensor, used_q: Optional[Tensor], cu_k: Tensor,
                    used_k: Optional[Tensor], left: int, right: int, scale: float, same_bits: bool,
                    path: str) -> List[Tensor]:
    gradients = [torch.zeros_like(x) for x in (Q, K, V, sinks) if x is not None]
    unseen = None if dL is None else dL.clone()  # of rows that see no key: their L is the sink
    for at, nq, of, nk in sequences((cu_q, used_q, cu_k, used_k), Q.shape[2], K.shape[2]):
        if right == 0:  # as in banded: a square of the queries that see a key and the keys that are seen
            late, early = max(0, nq - nk), max(0, nk - nq - left) if left >= 0 else 0
            at, nq, of, nk = at + late, nq - late, of + early, nk - early
        if min(nq, nk) == 0:
            continue
        before = nk - nq if right == 0 else 0
        rows = [pad(x[:, :, at : at + nq], (0, 0, before, 0)) for x in (dO, Q, O)]
        keys = [x[:, :, of : of + nk] for x in (K, V)]
        l, dl = (x if x is None else pad(x[:, :, at : at + nq], (before, 0)) for x in (L, dL))
        dQ, dK, dV, *dsinks = backward(rows[0], rows[1], *keys, sinks, rows[2], l, right == 0,
                                       left + 1 if left >= 0 else 0, 0, scale, same_bits, path, dl)
        gradients[0][:, :, at : at + nq] = dQ[:, :, before:]
        gradients[1][:, :, of : of + nk], gradients[2][:, :, of : of + nk] = dK, dV
        if dsinks:
            gradients[3] += dsinks[0]
        if dL is not None:
            unseen[:, :, at : at + nq] = 0
    if dL is not None and sinks is not None:
        gradients[3] += unseen.sum((0, 2))
    return gradients


@varlen_backward.register_fake
def like_varlen_backward(dO, dL, Q, K, V, sinks, *_):
    return [torch.empty_like(x) for x in (Q, K, V, sinks) if x is not None]


def keep(ctx, inputs, output):
    *tensors, ctx.left, ctx.right, ctx.scale, ctx.same_bits, ctx.path = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors, *output)


def differentiate(ctx, dO, dL):
    *tensors, cu_q, used_q, cu_k, used_k, O, L = ctx.saved_tensors
    gradients = [] if dO is dL is None else varlen_backward(torch.zeros_like(O) if dO is None else dO, dL, *tensors, O,
        L, cu_q, used_q, cu_k, used_k, ctx.left, ctx.right, ctx.scale, ctx.same_bits, ctx.path)
    return *gradients, *[None] * (13 - len(gradients))


varlen.register_autograd(differentiate, setup_context=keep)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q=None, max_seqlen_k=None, dropout_p=0.0,
                           softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                           deterministic=False, return_attn_probs=False, block_table=None, *, s_aux=None,
                           learnable_sink=None, seqused_q=None, seqused_k=None, page_table=None, qv=None,
                           q_descale=None, k_descale=None, v_descale=None, attention_chunk=0, num_splits=1,
                           pack_gqa=None, sm_margin=0):
    """q [Tq, Hq, D], k and v [Tk, Hkv, D]: sequence s has the rows cu_seqlens[s] ... cu_seqlens[s + 1] - 1 of them, or
    the first seqused[s] of these. Rows of no sequence get zeros. With a block_table k and v are pages [pages,
    page_size, Hkv, D]: they are copied, as many as the table has columns, and seqused_k or cu_seqlens_k say how many
    keys there are.

    cu_seqlens and seqused are read: the first call with new ones waits for the GPU. The largest lengths are not.
    Everything else as in flash_attn_func; the logarithms are [Hq, Tq].
    """
    if not torch.compiler.is_compiling() and (alibi_slopes is block_table is page_table is qv is q_descale is k_descale
                                              is v_descale is None):
        try:
            if (s_aux is learnable_sink is seqused_k is None and dropout_p == softcap == attention_chunk == 0 and
                    causal in (True, False) and not (q.requires_grad and torch.is_grad_enabled())):
                left, right = window_size or (-1, -1)
                O, L = packed_at_best(q, k, v, cu_seqlens_q, seqused_q, cu_seqlens_k, left, 0 if causal else right,
                                      softmax_scale)
                return (O, L, None) if return_attn_probs else O
        except ERRORS:  # as the first time: it is made, or what is wrong is said, below
            pass
    plain("flash_attn_varlen_func", dropout_p=dropout_p, softcap=softcap, alibi_slopes=alibi_slopes, qv=qv,
          q_descale=q_descale, k_descale=k_descale, v_descale=v_descale, attention_chunk=attention_chunk)
    table = block_table if block_table is not None else page_table
    tensors("flash_attn_varlen_func", q=(q, 3), k=(k, 3 if table is None else 4), v=(v, 3 if table is None else 4))
    integers("cu_seqlens_q", cu_seqlens_q, where := getattr(cu_seqlens_q, "device", None), None)
    B = max(0, len(cu_seqlens_q) - 1)
    for which, x, n in (("cu_seqlens_k", cu_seqlens_k, len(cu_seqlens_q)), ("seqused_q", seqused_q, B),
                        ("seqused_k", seqused_k, B)):
        if x is not None or which == "cu_seqlens_k" and (table is None or seqused_k is None):
            integers(which, x, where, n)
    if table is not None:
        integers("block_table", table, q.device, B, None)
        if k.shape[:3] != v.shape[:3]:
            raise ValueError(f"flash_attn_varlen_func: k {list(k.shape)} and v {list(v.shape)} are other pages")
        seqused_k = cu_seqlens_k.diff() if seqused_k is None else seqused_k
        most, lengths = table.shape[1] * k.shape[1], seqused_k.to(q.device)
        table, lengths = told_in_range(table, lengths, None, 0, k.shape[1], len(k))
        k, v = (keys_of(x, None, table, lengths * 0, lengths, most)[0].flatten(0, 1) for x in (k, v))
        cu_seqlens_k = torch.arange(B + 1, dtype=torch.int32, device=where) * most
    sinks = sinks_of(s_aux, learnable_sink)
    Q, K, V = (with_zeros(x, q, v) for x in taken("flash_attn_varlen_func", *(x.transpose(0, 1)[None]
                                                                             for x in (q, k, v)), sinks))
    left, right = ends_of(causal, window_size)
    if wants_gradients(Q, K, V, sinks) and right != 0 and (left >= 0 or right > 0 or sinks is not None):
        refuse_gradients("flash_attn_varlen_func", left, right, sinks)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else number("softmax_scale", softmax_scale, float)
    same_bits = bool(deterministic or torch.are_deterministic_algorithms_enabled())
    O, L = varlen(Q, K, V, sinks, cu_seqlens_q, seqused_q, cu_seqlens_k, seqused_k, left, right, scale, same_bits, "")
    O = O[0, ..., : v.shape[-1]].transpose(0, 1)
    return (O, L[0], None) if return_attn_probs else O


# ------------------------ decoding

MOST_QUERIES, PAGE_SIZES = 16, (256, 128, 64, 32, 16)  # of the kernels


@operator("decode")
def decode(Q: Tensor, K: Tensor, V: Tensor, K_scale: Optional[Tensor], V_scale: Optional[Tensor], page_table: Tensor,
           kv_len: Tensor, scale: float, path: str) -> Tuple[Tensor, Tensor]:
    """flash_decode, or with scales flash_decode_int8, of problems 13 and 14."""
    name, outputs = "flash_decode" if K_scale is None else "flash_decode_int8", like_forward(Q, K, V)
    (B, Hq, Nq, D), (pages, page_size, Hkv, _) = Q.shape, K.shape
    if not Q.numel() or not page_table.numel():
        return nothing(Q, K, V)
    shape = DecodeShape(B, Hq, Hkv, Nq, D, scale, page_size, pages, page_table.shape[1])
    address, bytes, _memory = library(path).workspace(name, shape, Q.device)
    inputs = [x.contiguous() for x in (Q, K, V, K_scale, V_scale, page_table, kv_len) if x is not None]
    library(path).call(name, [*outputs, *inputs], shape, after=[address, bytes])
    return outputs


decode.register_fake(like_forward)


def keys_of(cache, scales, table, first, lengths, count):
    """Copies `count` keys of each sequence from its key first[b] on, zeros behind lengths[b] of them: [B, count, Hkv,
    D], and the scales [B, Hkv, count]."""
    size, ahead = cache.shape[1], torch.arange(count, device=table.device)
    at = (first[:, None].long() + ahead).clamp(max=table.shape[1] * size - 1)
    page, row, none = table.long().gather(1, at // size), at % size, (ahead >= lengths[:, None])[..., None, None]
    return cache[page, row].masked_fill(none, 0), scales if scales is None else scales[page, :, row].transpose(1, 2)


def from_cache(Q, K, V, K_scale, V_scale, table, lengths, first, left, right, scale):
    """O and L of Q [B, Hq, Nq, D]. first: which key of each sequence is its first; None: 0.

    Of causal masks the cache is read where it lies, if kernels have such pages and head dimensions. Else what is seen
    of it is copied: under a window so many keys a query, which then is a sequence of its own."""
    (B, Hq, Nq, D), size, device, wide = Q.shape, K.shape[1], Q.device, lambda x: with_zeros(x, Q, V)
    if not Q.numel() or not table.numel():
        return nothing(Q, K, V)
    most, copied = table.shape[1] * size, first is not None or not K.shape[3] == V.shape[3] == D
    packed, each = Nq > MOST_QUERIES, Nq <= MOST_QUERIES and (right != 0 or 0 <= left < most)
    if packed and K_scale is not None:
        refuse(f"flash_attn_with_kvcache: {Nq} queries and a cache of int8: {MOST_QUERIES} at most are served")
    if each:
        at = lengths[:, None] - Nq + torch.arange(Nq, device=device)  # where the queries stand
        ends = lengths[:, None].expand(B, Nq)
        lengths = (ends if right < 0 else ends.minimum(at + right + 1)).flatten().clamp(min=0)
        first = None if first is None else first.repeat_interleave(Nq)
        if 0 <= left < most:
            first, copied = (at - left).flatten().clamp(min=0 if first is None else first), True
            most = min(most, left + 1 + (Nq - 1 if right < 0 else min(right, Nq - 1)))
        Q, table = Q.transpose(1, 2).reshape(B * Nq, Hq, 1, D), table.repeat_interleave(Nq, 0)
    served = next((x for x in PAGE_SIZES if size % x == 0 and (K_scale is None or size == x)), None)
    if copied or packed or not served:
        first = torch.zeros_like(lengths) if first is None else first
        lengths, size = (lengths - first).clamp(min=0), -(-most // 16) * 16
        (K, K_scale), (V, V_scale) = (keys_of(*x, table, first, lengths, size) for x in ((K, K_scale), (V, V_scale)))
        K, V, table = wide(K), wide(V), torch.arange(len(lengths), device=device)[:, None]
        served = next(x for x in PAGE_SIZES if size % x == 0)
    elif not K.is_contiguous() or not V.is_contiguous():
        refuse("decoding from a cache that is not contiguous: to copy it at each step would cost more than the step")
    if packed:
        cu_q, cu_k = (torch.arange(B + 1, dtype=torch.int32, device=device) * n for n in (Nq, size))
        O, L = varlen(*(x.flatten(0, 1).transpose(0, 1)[None] for x in (Q.transpose(1, 2), K, V)), None, cu_q, None,
                      cu_k, lengths, left, right, scale, False, "")
        return tuple(x[0].unflatten(1, (B, Nq)).transpose(0, 1) for x in (O, L))
    if served != size:
        table = (table[..., None] * (size // served) + torch.arange(size // served, device=device)).flatten(1)
        K, V = (x.reshape(-1, served, *x.shape[2:]) for x in (K, V))
    if K_scale is not None:
        K_scale, V_scale = (x.unflatten(2, (-1, served)).transpose(1, 2).flatten(0, 1) for x in (K_scale, V_scale))
    O, L = decode(Q, K, V, K_scale, V_scale, table.to(torch.int32), lengths.to(torch.int32), scale, "")
    return tuple(x.view(B, Nq, *x.shape[1:]).squeeze(3).transpose(1, 2) for x in (O, L)) if each else (O, L)


def quantise_cache(x):
    """Of a cache [pages, page_size, Hkv, D], or tokens [..., H, D]: int8 of the same shape, and scales [pages, Hkv,
    page_size]. wb_quantise_row's bits."""
    most = x.float().abs().amax(-1, keepdim=True)
    scale = most / torch.full_like(most, 127)  # by a number PyTorch divides as by its reciprocal on a GPU: other bits
    scale = torch.where(scale < torch.finfo(torch.float32).tiny, 0, scale)
    q = torch.where(scale > 0, (x.float() / scale).round(), 0).to(torch.int8)  # round: ties to even
    return q, scale.squeeze(-1).transpose(-1, -2).contiguous()


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None,
                            causal=False, window_size=(-1, -1), softcap=0.0, rotary_interleaved=True,
                            alibi_slopes=None, num_splits=0, return_softmax_lse=False, *, s_aux=None,
                            learnable_sink=None, k_scale=None, v_scale=None, page_table=None, qv=None, q_descale=None,
                            k_descale=None, v_descale=None, cu_seqlens_q=None, cu_seqlens_k_new=None,
                            max_seqlen_q=None, rotary_seqlens=None, attention_chunk=0, scheduler_metadata=None,
                            pack_gqa=None, sm_margin=0):
    """q [B, Nq, Hq, D], the newest tokens of each sequence. k_cache and v_cache: pages [pages, page_size, Hkv, D] with
    block_table int32 [B, max_pages]; or, without one, [B, N, Hkv, D]. In bf16; or in int8, with k_scale and v_scale
    float32 [pages, Hkv, page_size] (or [B, Hkv, N]), as quantise_cache makes them, and 16 queries at most.

    cache_seqlens int32 [B], or a number: how many keys are there; unless given, all. k and v [B, n, Hkv, D]: new keys,
    written behind these before attention is computed. cache_leftpad int32 [B]: the first key of each. It has no
    gradients. Fast, from the cache as it lies: a causal mask or one query, up to 16 queries, pages (or N) of multiples
    of 16, in int8 of a power of two to 256, D 16, 32, 64 or 128. Else, with a window and with cache_leftpad, what is
    seen of it is copied at each call, and more than 16 queries make it wait for the GPU.
    """
    name = "flash_attn_with_kvcache"
    plain(name, rotary_cos=rotary_cos, rotary_sin=rotary_sin, softcap=softcap, alibi_slopes=alibi_slopes, qv=qv,
          q_descale=q_descale, k_descale=k_descale, v_descale=v_descale, cu_seqlens_q=cu_seqlens_q,
          cu_seqlens_k_new=cu_seqlens_k_new, rotary_seqlens=rotary_seqlens, attention_chunk=attention_chunk)
    tensors(name, q=(q, 4), k_cache=(k_cache, 4), v_cache=(v_cache, 4), k=(k, -4), v=(v, -4))
    (B, Nq, Hq, D), device, (left, right) = q.shape, q.device, ends_of(causal, window_size)
    if wants_gradients(q, k_cache, v_cache, k, v):
        refuse(f"{name} has no gradients. Call it under torch.no_grad()")
    if q.dtype != torch.bfloat16 or k_cache.dtype != v_cache.dtype or k_cache.dtype != (torch.bfloat16
            if k_scale is None else torch.int8):
        raise TypeError(f"{name} takes q in bfloat16, and a cache in bfloat16, or in int8 with k_scale and v_scale")
    if k_cache.shape[:3] != v_cache.shape[:3] or k_cache.shape[3] != D or (
            Hq % k_cache.shape[2] if k_cache.shape[2] else Hq):
        raise ValueError(f"{name}: q {list(q.shape)}, k_cache {list(k_cache.shape)}, v_cache {list(v_cache.shape)}: "
                         "[B, Nq, Hq, D], and [.., .., Hkv, D] twice")
    if (k is None) != (v is None) or k is not None and any(
            x.shape[:2] != k.shape[:2] or len(x) != B or x.shape[2:] != cache.shape[2:]
            for x, cache in ((k, k_cache), (v, v_cache))):
        raise ValueError(f"{name}: k and v are [B, n, Hkv, D], both or none")
    pages, size, Hkv = k_cache.shape[:3]
    for which, x in (("k_scale", k_scale), ("v_scale", v_scale)):
        if (k_scale is not None or x is not None) and not (isinstance(x, Tensor) and x.dtype == torch.float32 and
                x.shape == (pages, Hkv, size) and x.device == device):
            raise ValueError(f"{name}: {which} is to be float32, {[pages, Hkv, size]}, on {device}")
    table = block_table if block_table is not None else page_table
    if table is not None:
        integers("block_table", table, device, None, None)
    for which, x in (("cache_batch_idx", cache_batch_idx), ("cache_leftpad", cache_leftpad)):
        if x is not None:
            integers(which, x, device, B)
    if not size:
        refuse(f"{name}: a cache without keys: flash_attn_func takes k and v of no keys")
    if table is None:  # each row of the cache is so many pages in a row
        fits = k_scale is None and k_cache.is_contiguous() and v_cache.is_contiguous()
        rows, row, size = pages, size, next((x for x in PAGE_SIZES if size % x == 0), size) if fits else size
        k_cache, v_cache = (x.view(-1, size, *x.shape[2:]) if fits else x for x in (k_cache, v_cache))
        pages = rows * (row // size)
        table = torch.arange(pages, dtype=torch.int32, device=device).view(rows, row // size)
    new = 0 if k is None else k.shape[1]
    if len(table if cache_batch_idx is None else cache_batch_idx) != B:
        raise ValueError(f"{name}: {len(table)} sequences in the cache or in block_table, and {B} of q")
    if isinstance(cache_seqlens, Tensor) and cache_seqlens.dim():
        integers("cache_seqlens", cache_seqlens, device, B)
    elif cache_seqlens is not None:
        cache_seqlens = number("cache_seqlens", cache_seqlens, int)
    most = table.shape[1] * size
    lengths = most if cache_seqlens is None else cache_seqlens
    if not isinstance(lengths, Tensor):
        if not torch.compiler.is_compiling() and not 0 <= lengths <= most - new:
            raise RuntimeError(f"{name}: cache_seqlens = {lengths}, and 0 to {most - new} is allowed")
        lengths = torch.full((B,), lengths, dtype=torch.int32, device=device)
    table, lengths = told_in_range(table, lengths, cache_batch_idx, new, size, pages)
    if k is not None:
        at = (lengths - new)[:, None].long() + torch.arange(new, device=device)  # [B, n]
        page, row = table.long().gather(1, at // size), at % size
        for cache, scales, new_keys in ((k_cache, k_scale, k), (v_cache, v_scale, v)):
            if scales is not None:
                new_keys, new_scales = quantise_cache(new_keys)
                scales[page, :, row] = new_scales.transpose(1, 2)
            cache[page, row] = new_keys
    scale = D**-0.5 if softmax_scale is None else number("softmax_scale", softmax_scale, float)
    first = None if cache_leftpad is None else cache_leftpad.clamp(min=0)
    O, L = from_cache(with_zeros(q.transpose(1, 2), q, v_cache), k_cache, v_cache, k_scale, v_scale, table, lengths,
                      first, left, 0 if Nq == 1 else right, scale)
    O = O[..., : v_cache.shape[3]]
    if (sinks := sinks_of(s_aux, learnable_sink)) is not None:
        O, L = with_sink(O, L, sinks[:, None])
    O = O.transpose(1, 2)
    return (O, L) if return_softmax_lse else O
