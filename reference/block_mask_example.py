# block_mask_example.py - problem 15 from PyTorch: any boolean matrix becomes lists of tiles
# (wb_block_mask_from_matrix), which serve all heads and calls.
# Checked against attention written out in float32: two sequences of packed documents, and a row that sees nothing.
#   make lib BACKEND=cuda && python3 reference/block_mask_example.py
import ctypes
import os
import torch

lib = ctypes.CDLL(os.environ.get("WB_LIBRARY", "build/cuda/lib/libworkbook.so"))
lib.wb_last_message.restype = ctypes.c_char_p
class Shape(ctypes.Structure):  # attention_shape of workbook/workbook.h
    names = "batch q_heads kv_heads q_len kv_len head_dim scale causal window sinks".split()
    _fields_ = [(name, ctypes.c_float if name == "scale" else ctypes.c_int) for name in names]
class BlockMask(ctypes.Structure):  # block_mask of workbook/workbook.h
    lists = "whole_start whole part_start part bits".split()
    _fields_ = [(name, ctypes.c_int) for name in "q_tile kv_tile masks".split()] + [(name, ctypes.c_void_p)
        for name in lists]
def must(status):
    if status != 0:
        raise RuntimeError(lib.wb_last_message().decode())
# visible [masks, Nq, Nk], bool; returns the struct, and the tensors that it points to
def block_mask(visible, q_tile=128, kv_tile=64):
    masks, Nq, Nk = visible.shape
    matrix, host = visible.contiguous().to("cpu", torch.uint8), BlockMask()
    must(lib.wb_block_mask_from_matrix(ctypes.byref(host), q_tile, kv_tile, masks, Nq, Nk,
                                       ctypes.c_void_p(matrix.data_ptr())))
    def array(name, count):  # copied to the GPU
        numbers = (ctypes.c_int32 * max(count, 1)).from_address(getattr(host, name))
        return torch.frombuffer(numbers, dtype=torch.int32).cuda()
    starts = masks * ((Nq - 1) // q_tile + 2)
    tensors = [array("whole_start", starts), None, array("part_start", starts)]
    wholes, parts = tensors[0][-1].item(), tensors[2][-1].item()
    tensors[1:2] = [array("whole", wholes)]
    tensors += [array("part", parts), array("bits", max(parts, 1) * q_tile * kv_tile // 32)]
    lib.wb_block_mask_free(ctypes.byref(host))
    return BlockMask(q_tile, kv_tile, masks, *[t.data_ptr() for t in tensors]), tensors
def attention(Q, K, V, mask):  # Q [B, Hq, Nq, D], K and V [B, Hkv, Nk, D], all bf16 and contiguous
    (B, Hq, Nq, D), Hkv, Nk = Q.shape, K.shape[1], K.shape[2]
    O, L = torch.empty_like(Q), torch.empty(B, Hq, Nq, device=Q.device)
    shape, stream = Shape(B, Hq, Hkv, Nq, Nk, D, D ** -0.5, 0, 0,
                          0), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    must(lib.flash_block_mask(*[ctypes.c_void_p(t.data_ptr()) for t in (O, L, Q, K, V)], ctypes.byref(mask),
                              ctypes.byref(shape), stream))
    return O, L

if __name__ == "__main__":
    N = 1000
    # which one a token belongs to: a new one begins at one token in a hundred
    document = torch.randint(0, 100, (2, N)).eq(0).cumsum(1)
    visible = (document[:, :, None] == document[:, None, :]) & torch.ones(N, N, dtype=torch.bool).tril()
    visible[1, 300] = False
    Q, K, V = (torch.randn(2, h, N, 64, device="cuda", dtype=torch.bfloat16) for h in (8, 2, 2))
    mask, tensors = block_mask(visible)
    O, L = attention(Q, K, V, mask)
    S = (Q.float() @ K.float().repeat_interleave(4, 1).mT / 8).masked_fill(~visible[:, None].cuda(), -torch.inf)
    want = S.softmax(-1).nan_to_num(0) @ V.float().repeat_interleave(4, 1)
    print(f"{tensors[1].numel()} tiles seen whole, {tensors[3].numel()} in part, of {2 * (N // 128 + 1) * (N // 64 + 1)}")
    print(f"relative error {((O.float() - want).norm() / want.norm()).item():.1e}")  # bf16 has 8 bits, 4e-3
    print("the row that sees nothing:", O[1, :, 300].abs().max().item(), L[1, 0, 300].item())
