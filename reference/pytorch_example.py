# pytorch_example.py [causal] - the library's attention as a differentiable PyTorch function, checked against attention
# written out: with a sliding window and sinks (07 and 09), or causal (05 and 08). Which kernel serves that on this GPU
# is the library's choice (solutions/library.c): it is said.
#   make lib BACKEND=cuda && python3 reference/pytorch_example.py
import ctypes
import sys
import torch

lib = ctypes.CDLL("build/cuda/lib/libworkbook.so")
lib.wb_last_message.restype = lib.wb_library_kernel.restype = ctypes.c_char_p
class Shape(ctypes.Structure):  # attention_shape of workbook/workbook.h
    names = "batch q_heads kv_heads q_len kv_len head_dim scale causal window sinks".split()
    _fields_ = [(name, ctypes.c_float if name == "scale" else ctypes.c_int) for name in names]
def call(name, tensors, shape):
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    if getattr(lib, name)(*pointers, ctypes.byref(shape), stream) != 0:
        raise RuntimeError(lib.wb_last_message().decode())
    print(name, "by", lib.wb_library_kernel(name.encode(), ctypes.byref(shape)).decode() or "its key")
class Attention(torch.autograd.Function):
    @staticmethod
    # Q [B, Hq, N, D], K and V [B, Hkv, N, D], all bf16 and contiguous; window None: causal
    def forward(ctx, Q, K, V, window, sinks):
        (B, Hq, N, D), Hkv = Q.shape, K.shape[1]
        ctx.shape, ctx.window = Shape(B, Hq, Hkv, N, N, D, D ** -0.5, 1, window or 0, sinks), window
        O, L = torch.empty_like(Q), torch.empty(B, Hq, N, device=Q.device)
        call("flash_sinks" if window else "flash_gqa", [O, L, Q, K, V], ctx.shape)
        ctx.save_for_backward(Q, K, V, O, L)
        return O
    @staticmethod
    def backward(ctx, dO):
        Q, K, V, O, L = ctx.saved_tensors
        gradients = [torch.empty_like(x) for x in (Q, K, V)] + [torch.empty_like(L)]
        tensors = [*gradients, Q, K, V, O, L, dO.contiguous()]
        call("flash_sinks_backward" if ctx.window else "flash_gqa_backward", tensors, ctx.shape)
        return (*gradients[:3], None, None)

window, sinks = (None, 0) if "causal" in sys.argv[1:] else (128, 4)
Q, K, V, dO = (torch.randn(2, h, 1000, 64, device="cuda", dtype=torch.bfloat16) for h in (8, 2, 2, 8))
i, j = torch.arange(1000, device="cuda")[:, None], torch.arange(1000, device="cuda")
hidden = (j > i) | ((j <= i - window) & (j >= sinks)) if window else j > i
ours, naive = ([x.to(t).requires_grad_() for x in (Q, K, V)] for t in (torch.bfloat16, torch.float32))
O = Attention.apply(*ours, window, sinks)
S = (naive[0] @ naive[1].repeat_interleave(4, 1).mT / 8).masked_fill(hidden, -torch.inf)
want = S.softmax(-1) @ naive[2].repeat_interleave(4, 1)
for a, b in zip([O, *torch.autograd.grad(O, ours, dO)], [want, *torch.autograd.grad(want, naive, dO.float())]):
    print(f"relative error {((a.float() - b).norm() / b.norm()).item():.1e}")  # of O, dQ, dK, dV: bf16 has 8 bits, 4e-3
