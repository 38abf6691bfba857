# pytorch_example.py - the answer keys of 07 and 09 as a differentiable PyTorch function, checked against attention written out.
#   make lib BACKEND=cuda && python3 reference/pytorch_example.py
import ctypes
import torch

lib = ctypes.CDLL("build/cuda/lib/libworkbook.so")
lib.wb_last_message.restype = ctypes.c_char_p
class Shape(ctypes.Structure):  # attention_shape of workbook/workbook.h
    names = "batch q_heads kv_heads q_len kv_len head_dim scale causal window sinks".split()
    _fields_ = [(name, ctypes.c_float if name == "scale" else ctypes.c_int) for name in names]
def call(function, tensors, shape):
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    if function(*pointers, ctypes.byref(shape), stream) != 0:
        raise RuntimeError(lib.wb_last_message().decode())
class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, Q, K, V, window, sinks):  # Q [B, Hq, N, D], K and V [B, Hkv, N, D], all bf16 and contiguous
        (B, Hq, N, D), Hkv = Q.shape, K.shape[1]
        ctx.shape = Shape(B, Hq, Hkv, N, N, D, D ** -0.5, 1, window, sinks)
        O, L = torch.empty_like(Q), torch.empty(B, Hq, N, device=Q.device)
        call(lib.flash_sinks, [O, L, Q, K, V], ctx.shape)
        ctx.save_for_backward(Q, K, V, O, L)
        return O
    @staticmethod
    def backward(ctx, dO):
        Q, K, V, O, L = ctx.saved_tensors
        gradients = [torch.empty_like(x) for x in (Q, K, V)] + [torch.empty_like(L)]
        call(lib.flash_sinks_backward, [*gradients, Q, K, V, O, L, dO.contiguous()], ctx.shape)
        return (*gradients[:3], None, None)

Q, K, V, dO = (torch.randn(2, h, 1000, 64, device="cuda", dtype=torch.bfloat16) for h in (8, 2, 2, 8))
i, j = torch.arange(1000, device="cuda")[:, None], torch.arange(1000, device="cuda")
ours, naive = ([x.to(t).requires_grad_() for x in (Q, K, V)] for t in (torch.bfloat16, torch.float32))
O = Attention.apply(*ours, 128, 4)
S = (naive[0] @ naive[1].repeat_interleave(4, 1).mT / 8).masked_fill((j > i) | ((j <= i - 128) & (j >= 4)), -torch.inf)
want = S.softmax(-1) @ naive[2].repeat_interleave(4, 1)
for a, b in zip([O, *torch.autograd.grad(O, ours, dO)], [want, *torch.autograd.grad(want, naive, dO.float())]):
    print(f"relative error {((a.float() - b).norm() / b.norm()).item():.1e}")  # of O, dQ, dK, dV: bf16 has 8 bits, 4e-3
