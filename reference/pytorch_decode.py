# pytorch_decode.py [LIBRARY] - one step of decoding with the library's flash_decode on a paged cache of PyTorch tensors, checked against attention
# written out in float32 on the same keys, gathered. With the library of the CPU layer where there is no GPU.
#   make lib BACKEND=cuda && python3 reference/pytorch_decode.py
import ctypes
import sys
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
lib = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else f"build/{device}/lib/libworkbook.so")
lib.wb_last_message.restype = ctypes.c_char_p
lib.flash_decode_workspace.restype = ctypes.c_size_t
class Shape(ctypes.Structure):  # decode_shape of workbook/workbook.h
    names = "batch q_heads kv_heads q_len head_dim scale page_size pages max_pages".split()
    _fields_ = [(name, ctypes.c_float if name == "scale" else ctypes.c_int) for name in names]
class Decode:  # keeps its workspace from step to step
    workspace = None
    def __call__(self, Q, K, V, page_table, kv_len):  # Q [B, Hq, Nq, D], K and V [pages, page_size, Hkv, D], all bf16; int32 [B, max_pages], [B]
        (B, Hq, Nq, D), (pages, page_size, Hkv, _) = Q.shape, K.shape
        shape = Shape(B, Hq, Hkv, Nq, D, D ** -0.5, page_size, pages, page_table.shape[1])
        needed = lib.flash_decode_workspace(ctypes.byref(shape))
        if self.workspace is None or self.workspace.numel() < needed:
            memory = torch.empty(needed + 255, dtype=torch.uint8, device=Q.device)
            self.workspace = memory[-memory.data_ptr() % 256:][:needed]  # aligned to 256 bytes
        O, L = torch.empty_like(Q), torch.empty(B, Hq, Nq, device=Q.device)
        tensors = [x.contiguous() for x in (O, L, Q, K, V, page_table, kv_len, self.workspace)]
        pointers = [ctypes.c_void_p(x.data_ptr()) for x in tensors]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream if Q.is_cuda else None)
        if lib.flash_decode(*pointers, ctypes.c_size_t(self.workspace.numel()), ctypes.byref(shape), stream) != 0:
            raise RuntimeError(lib.wb_last_message().decode())
        return O, L

def written_out(Q, K, V, page_table, kv_len):
    B, Hq, Nq, D = Q.shape
    O = torch.zeros(B, Hq, Nq, D, device=Q.device)
    for b, n in enumerate(kv_len.tolist()):
        if n == 0:
            continue
        pages = page_table[b, : (n + K.shape[1] - 1) // K.shape[1]].long()
        k, v = (x[pages].flatten(0, 1)[:n].float().transpose(0, 1).repeat_interleave(Hq // K.shape[2], 0) for x in (K, V))
        i, j = torch.arange(Nq, device=Q.device)[:, None], torch.arange(n, device=Q.device)
        S = (Q[b].float() @ k.mT * D ** -0.5).masked_fill(j > n - Nq + i, -torch.inf)
        O[b] = S.softmax(-1).nan_to_num() @ v  # a row that sees nothing: 0
    return O

if __name__ == "__main__":
    B, Hq, Hkv, Nq, D, page_size, max_pages = 9, 64, 8, 2, 128, 64, 40 if device == "cuda" else 4
    torch.manual_seed(1)
    kv_len = torch.randint(0, max_pages * page_size + 1, (B,), device=device, dtype=torch.int32)
    page_table = torch.randperm(B * max_pages, device=device).to(torch.int32).view(B, max_pages)
    Q = torch.randn(B, Hq, Nq, D, device=device, dtype=torch.bfloat16)
    K, V = (torch.randn(B * max_pages, page_size, Hkv, D, device=device, dtype=torch.bfloat16) for _ in range(2))
    O, L = Decode()(Q, K, V, page_table, kv_len)
    want = written_out(Q, K, V, page_table, kv_len)
    print(f"relative error {((O.float() - want).norm() / want.norm()).item():.1e}")  # of O: bf16 has 8 bits, 4e-3
