"""Masks that are data: lists of tiles and bits for problem 15, made on the device from intervals, or from
FlexAttention's BlockMask."""
from typing import NamedTuple

import torch
from torch import Tensor

from .library import operators, refuse

KEYS = 64  # kv_tile
NONE, SOME, ALL = 0, 1, 2  # what a tile of queries may see of a tile of keys: SOME has to be looked at, pair by pair


class Mask(NamedTuple):
    """block_mask of workbook.h, its lists on the device where the tensors lie. `masks` are one for all sequences, or
    one each."""

    q_len: int
    kv_len: int
    q_tile: int
    whole_start: Tensor  # [masks, q_tiles + 1], int32 like the others
    whole: Tensor
    part_start: Tensor
    part: Tensor
    bits: Tensor  # [parts, q_tile, 2]

    def fitting(self, Q, K):
        """The operator's arguments, if this is a mask for such tensors."""
        if (Q.shape[2], K.shape[2]) != (self.q_len, self.kv_len) or self.whole_start.shape[0] not in (1, Q.shape[0]):
            raise ValueError(f"the mask is for {self.whole_start.shape[0]} x {self.q_len} x {self.kv_len} (batch x "
                             f"queries x keys), which does not fit Q {list(Q.shape)} and K {list(K.shape)}")
        if self.bits.device != Q.device:
            raise ValueError(f"the mask is on {self.bits.device}, the tensors are on {Q.device}")
        return self[3:] + (self.q_tile,)

    @staticmethod
    def of(mask):
        """Of FlexAttention's BlockMask of [B or 1, 1, Nq, Nk], with blocks of multiples of 64, for attention(). Make it
        once, outside of torch.compile: mask_mod is asked for each pair of each block that is not full. A mask a head,
        or other blocks, raise Refused, anything else TypeError. Source: FlexAttention (2024)."""
        if not hasattr(mask, "kv_num_blocks"):
            raise TypeError(f"block_mask is {type(mask).__name__}, expected FlexAttention's BlockMask")
        if torch.compiler.is_compiling():
            refuse("build the mask outside of compiled code: mask = flash_workbook.block_mask(BlockMask), then call "
                   "attention(..., block_mask=mask)")
        (batch, heads, rows), (q_block, kv_block) = mask.kv_num_blocks.shape, mask.BLOCK_SIZE
        q_len, kv_len = mask.seq_lengths
        if heads != 1:
            refuse(f"the BlockMask has H={heads}, but only one mask for all heads, H=None, is supported")
        if q_block % 64 or kv_block % KEYS:
            refuse(f"the BlockMask has BLOCK_SIZE={mask.BLOCK_SIZE}, but both sizes must be multiples of 64")
        q_tile, columns = 64 if q_block % 128 else 128, (kv_len - 1) // kv_block + 1
        # the last column: what is no block
        state = torch.zeros(batch, rows, columns + 1, dtype=torch.uint8, device=mask.kv_indices.device)
        for number, blocks, kind in ((mask.kv_num_blocks, mask.kv_indices, SOME),
                                     (mask.full_kv_num_blocks, mask.full_kv_indices, ALL)):
            if number is not None:
                listed = torch.arange(blocks.shape[-1], device=blocks.device) < number[..., None]
                state.scatter_(2, torch.where(listed, blocks, columns)[:, 0].long(), kind)
        state = state[:, :, :columns].repeat_interleave(q_block // q_tile, 1).repeat_interleave(kv_block // KEYS, 2)
        state = state[:, : (q_len - 1) // q_tile + 1, : (kv_len - 1) // KEYS + 1]
        ask = torch.vmap(mask.mask_mod, in_dims=(0, None, 0, 0))

        def sees(b, i, j):
            b, i, j = torch.broadcast_tensors(b, i, j)
            return ask(b.flatten(), b.new_zeros(()), i.flatten(), j.flatten()).view(b.shape)

        return lists(state, sees, q_len, kv_len, q_tile)


def lists(state, sees, q_len, kv_len, q_tile):
    """state [masks, q_tiles, kv_tiles]; sees(b, i, j) says of index tensors which query of mask b sees which key, and
    is asked where state is SOME."""
    device = state.device
    b, t, c = state.nonzero(as_tuple=True)
    kind = state[b, t, c]
    whole = (kind == ALL) & ((c + 1) * KEYS <= kv_len)
    part = torch.zeros_like(whole)
    bit = torch.tensor([1 << k for k in range(31)] + [-(1 << 31)], device=device)
    bits = [torch.zeros(0, q_tile, KEYS // 32, dtype=torch.int32, device=device)]
    for some in (~whole).nonzero()[:, 0].split(2048):  # a pair takes some tens of bytes meanwhile
        bs, ts, cs = (x[some, None, None] for x in (b, t, c))
        i, j = ts * q_tile + torch.arange(q_tile, device=device)[:, None], cs * KEYS + torch.arange(KEYS, device=device)
        seen = (kind[some, None, None] == ALL) | sees(bs, i.clamp(max=q_len - 1), j.clamp(max=kv_len - 1))
        seen = seen & (i < q_len) & (j < kv_len)
        whole[some] = (seen | (i >= q_len)).flatten(1).all(1)
        part[some] = seen.flatten(1).any(1) & ~whole[some]
        bits.append((seen[part[some]].unflatten(-1, (-1, 32)) * bit).sum(-1).int())

    def listed(which):
        rows = state.shape[0] * state.shape[1]
        end = torch.bincount((b * state.shape[1] + t)[which], minlength=rows).cumsum(0).view(state.shape[:2])
        start = torch.cat([end.flatten().roll(1).view_as(end)[:, :1], end], 1)
        start[0, 0] = 0
        return start.int(), torch.nn.functional.pad(c[which], (0, 0 if which.any() else 1)).int()  # no pointer is null

    bits = torch.cat(bits)
    mask = Mask(q_len, kv_len, q_tile, *listed(whole), *listed(part),
                bits if len(bits) else bits.new_zeros(1, *bits.shape[1:]))
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()  # it may be kept, and used on any stream
    return mask


def intervals(first, last, kv_len, q_tile=128):
    """Query i sees the keys first[i] ... last[i], which is none where first > last. Both int64 [Nq]."""
    q_len, device = len(first), first.device
    ends = torch.nn.functional.pad(torch.stack([first, last]).double(), (0, -q_len % q_tile),
                                   mode="replicate").long().view(2, -1, q_tile, 1)
    (first_min, last_min), (first_max, last_max) = ends.amin(2), ends.amax(2)
    from_ = torch.arange(0, kv_len, KEYS, device=device)
    to = from_ + KEYS - 1
    state = ((from_ <= last_max) & (to >= first_min)).to(torch.uint8) + ((from_ >= first_max) & (to <= last_min))
    return lists(state[None], lambda b, i, j: (j >= first[i]) & (j <= last[i]), q_len, kv_len, q_tile)


block_mask = Mask.of

masked = operators.masked.default


def forget_mask():
    """flash_attn_varlen_func keeps the mask of its last lengths: the next call reads cu_seqlens anew."""
    operators.forget_mask()
