# pytorch_decode.py [LIBRARY] - one step of decoding with the library's flash_decode on a paged cache of PyTorch
# tensors, and with flash_decode_int8 on the same cache, quantised; both checked against attention written out in
# float32 on the keys in bf16, gathered. With the library of the CPU layer where there is no GPU.
#   make lib BACKEND=cuda && python3 reference/pytorch_decode.py
import ctypes
import os
import sys
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
given = sys.argv[1:2] if __name__ == "__main__" else []
lib = ctypes.CDLL(given[0] if given else os.environ.get("WB_LIBRARY", f"build/{device}/lib/libworkbook.so"))
lib.wb_last_message.restype = ctypes.c_char_p
lib.wb_quantise_row.restype = ctypes.c_float
class Shape(ctypes.Structure):  # decode_shape of workbook/workbook.h
    names = "batch q_heads kv_heads q_len head_dim scale page_size pages max_pages".split()
    _fields_ = [(name, ctypes.c_float if name == "scale" else ctypes.c_int) for name in names]
class Decode:  # keeps its workspace from step to step
    workspace = None
    def __init__(self, kernel=""):  # "_key", ...: this kernel of libworkbook_all.so, not the library's choice
        self.kernel = kernel
    # Q [B, Hq, Nq, D] bf16; K and V [pages, page_size, Hkv, D], bf16, or int8 with their scales as quantised() gives
    # them; int32 [B, max_pages], [B]
    def __call__(self, Q, K, V, page_table, kv_len, *scales):
        name = "flash_decode_int8" if scales else "flash_decode"
        (B, Hq, Nq, D), (pages, page_size, Hkv, _) = Q.shape, K.shape
        shape = Shape(B, Hq, Hkv, Nq, D, D ** -0.5, page_size, pages, page_table.shape[1])
        size = getattr(lib, name + "_workspace" + self.kernel)
        size.restype = ctypes.c_size_t
        needed = size(ctypes.byref(shape))
        if self.workspace is None or self.workspace.numel() < needed:
            memory = torch.empty(needed + 255, dtype=torch.uint8, device=Q.device)
            self.workspace = memory[-memory.data_ptr() % 256:][:needed]  # aligned to 256 bytes
        O, L = torch.empty_like(Q), torch.empty(B, Hq, Nq, device=Q.device)
        tensors = [x.contiguous() for x in (O, L, Q, K, V, *scales, page_table, kv_len, self.workspace)]
        pointers = [ctypes.c_void_p(x.data_ptr()) for x in tensors]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream if Q.is_cuda else None)
        if getattr(lib, name + self.kernel)(*pointers, ctypes.c_size_t(self.workspace.numel()), ctypes.byref(shape),
                                            stream) != 0:
            raise RuntimeError(lib.wb_last_message().decode())
        return O, L

# wb_quantise_row of each row of [pages, page_size, Hkv, D]: int8 of that shape, and scales [pages, Hkv, page_size]
def quantised(x):
    a = x.float().abs().amax(-1, keepdim=True)
    scale = a / torch.full_like(a, 127)  # by a number PyTorch divides as by its reciprocal on a GPU: other bits
    scale[scale < torch.finfo(torch.float32).tiny] = 0
    q = torch.where(scale > 0, (x.float() / scale).round(), 0).to(torch.int8)  # round: ties to even
    return q, scale.squeeze(-1).transpose(1, 2).contiguous()

def check_quantised(x, q, scale):  # the same bits as the library's own, of a page
    for row in range(x.shape[1]):
        for head in range(x.shape[2]):
            floats, bytes_ = x[0, row, head].float().cpu().contiguous(), torch.empty(x.shape[3], dtype=torch.int8)
            one = lib.wb_quantise_row(ctypes.c_void_p(bytes_.data_ptr()), ctypes.c_void_p(floats.data_ptr()),
                                      ctypes.c_int(x.shape[3]))
            assert one == scale[0, head, row].item() and bytes_.equal(q[0, row, head].cpu()), (row, head)

def written_out(Q, K, V, page_table, kv_len):
    B, Hq, Nq, D = Q.shape
    O = torch.zeros(B, Hq, Nq, D, device=Q.device)
    for b, n in enumerate(kv_len.tolist()):
        if n == 0:
            continue
        pages = page_table[b, : (n + K.shape[1] - 1) // K.shape[1]].long()
        k, v = (x[pages].flatten(0, 1)[:n].float().transpose(0, 1).repeat_interleave(Hq // K.shape[2], 0)
                for x in (K, V))
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
    (K8, K_scale), (V8, V_scale) = quantised(K), quantised(V)
    check_quantised(K, K8, K_scale)
    O, L = Decode()(Q, K8, V8, page_table, kv_len, K_scale, V_scale)
    print(f"relative error {((O.float() - want).norm() / want.norm()).item():.1e} with a cache of int8")  # about 1e-2
