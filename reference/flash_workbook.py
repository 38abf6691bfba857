"""The workbook's attention for PyTorch: the functions of libworkbook.so, by ctypes, as operators that torch.compile, autograd and autocast know.

    from flash_workbook import attention                       after pip install . , or with reference/ in sys.path, after make lib
    O = attention(Q, K, V)                                     causal, grouped heads: 05 and 08
    O = attention(Q, K, V, causal=False)                       every query sees every key: 03, or 10, and 08's kernels for Hopper
    O = attention(Q, K, V, window=128, sink_tokens=4)          06 or 07, and 09
    O = attention(Q, K, V, window=128, sink_logits=s)          as in gpt-oss: 11 and 12, with the gradient of s

The library is WB_LIBRARY's, or the one that was installed beside this file, or build/BACKEND/lib/libworkbook.so.
"""
import ctypes, functools, os
from typing import List, Optional, Tuple

import torch
from torch import Tensor


class Shape(ctypes.Structure):  # attention_shape of workbook/workbook.h
    names = "batch q_heads kv_heads q_len kv_len head_dim scale causal window sinks".split()
    _fields_ = [(name, ctypes.c_float if name == "scale" else ctypes.c_int) for name in names]


class Refused(RuntimeError):
    """A function's status that is not WB_OK; its text is wb_last_message()."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Library:
    """Functions of workbook.h on torch tensors: of libworkbook.so, or of another library that has some of them."""

    def __init__(self, path):
        self.path, self.lib = path, ctypes.CDLL(path)
        self.lib.wb_last_message.restype = self.lib.wb_device_name.restype = ctypes.c_char_p

    def has(self, name):
        return hasattr(self.lib, name)

    @functools.cached_property
    def device_type(self):
        return "cpu" if self.lib.wb_device_name() == b"CPU execution layer" else "cuda"

    def call(self, name, tensors, shape, *before):
        """On torch's current stream of the tensors' device; `before` are arguments that come before the tensors."""
        device = tensors[0].device
        if device.type != self.device_type:
            raise ValueError(f"{self.path} works on tensors of device {self.device_type}, and these are on {device.type}")
        on_gpu = device.type == "cuda"  # else the CPU execution layer, whose device memory is the host's
        with torch.cuda.device(device if on_gpu else -1):  # -1: as it is
            stream = torch.cuda.current_stream().cuda_stream if on_gpu else None
            pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
            status = getattr(self.lib, name)(*before, *pointers, ctypes.byref(shape), ctypes.c_void_p(stream))
        if status != 0:
            raise Refused(status, self.lib.wb_last_message().decode())

    def call_in_workspace(self, name, form, tensors, shape):
        """NAME_FORM, with a workspace of torch's; NAME where the library has no such form, or needs no workspace."""
        if not self.has(f"{name}_{form}"):
            return self.call(name, tensors, shape)
        device = tensors[0].device
        with torch.cuda.device(device if device.type == "cuda" else -1):
            size = getattr(self.lib, name + "_workspace")
            size.restype = ctypes.c_size_t
            bytes = size(ctypes.byref(shape))
        # Freed when we return, it goes to nobody but who comes after us on this stream.
        memory = torch.empty(bytes + 256, dtype=torch.uint8, device=device)
        aligned = ctypes.c_void_p((memory.data_ptr() + 255) // 256 * 256)
        self.call(f"{name}_{form}", tensors, shape, aligned, ctypes.c_size_t(bytes))


@functools.lru_cache(None)
def library(path=None):
    beside = os.path.join(os.path.dirname(__file__), "libworkbook.so")
    built = f"build/{os.environ.get('BACKEND') or ('cuda' if torch.cuda.is_available() else 'cpu')}/lib/libworkbook.so"
    return Library(path or os.environ.get("WB_LIBRARY") or (beside if os.path.exists(beside) else built))


# ---------------------------------------------------------------------------------------------------------------- the operators
# Opaque to torch.compile, which sees their schema and what their fakes say. window 0: none. path "": library()'s own.


def shape_of(Q, K, sink_logits, causal, window, sink_tokens, scale):
    (B, Hq, N, D), Hkv, Nk = Q.shape, K.shape[1], K.shape[2]
    window = window or (N if sink_logits is not None else 0)
    return Shape(B, Hq, Hkv, N, Nk, D, scale, causal, window, sink_tokens if window else 0)


@torch.library.custom_op("flash_workbook::attention", mutates_args=())
def forward(Q: Tensor, K: Tensor, V: Tensor, sink_logits: Optional[Tensor], causal: bool, window: int, sink_tokens: int, scale: float,
            same_bits: bool, path: str) -> Tuple[Tensor, Tensor]:
    shape, outputs = shape_of(Q, K, sink_logits, causal, window, sink_tokens, scale), like_forward(Q)
    if sink_logits is not None:
        name = "flash_sink_logits"
    elif not causal:
        name = "flash_forward" if shape.q_heads == shape.kv_heads else "flash_hopper"
    elif window:
        name = "flash_sinks" if sink_tokens else "flash_window"
    else:
        name = "flash_gqa"
    inputs = [x.contiguous() for x in (Q, K, V, sink_logits) if x is not None]
    library(path).call(name, [*outputs, *inputs], shape)
    return outputs


@forward.register_fake
def like_forward(Q, *_):
    return Q.new_empty(Q.shape), Q.new_empty(Q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("flash_workbook::attention_backward", mutates_args=())
def backward(dO: Tensor, Q: Tensor, K: Tensor, V: Tensor, sink_logits: Optional[Tensor], O: Tensor, L: Tensor, causal: bool, window: int,
             sink_tokens: int, scale: float, same_bits: bool, path: str) -> List[Tensor]:
    shape, gradients = shape_of(Q, K, sink_logits, causal, window, sink_tokens, scale), like_backward(dO, Q, K, V, sink_logits)
    tensors = [*gradients, torch.empty_like(L), *(x.contiguous() for x in (Q, K, V, sink_logits, O, L, dO) if x is not None)]
    if sink_logits is not None:
        library(path).call_in_workspace("flash_sink_logits_backward", "in", tensors, shape)
    elif window:
        library(path).call_in_workspace("flash_sinks_backward", "in", tensors, shape)
    else:
        library(path).call_in_workspace("flash_gqa_backward", "in" if same_bits else "fastest", tensors, shape)
    return gradients


@backward.register_fake
def like_backward(dO, Q, K, V, sink_logits, *_):
    return [x.new_empty(x.shape) for x in (Q, K, V, sink_logits) if x is not None]


def keep(ctx, inputs, output):
    Q, K, V, sink_logits, *ctx.how = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(Q, K, V, sink_logits, *output)


def differentiate(ctx, dO, _):
    gradients = backward(dO, *ctx.saved_tensors, *ctx.how)
    return *gradients, *[None] * (4 - len(gradients)), *[None] * len(ctx.how)


forward.register_autograd(differentiate, setup_context=keep)


class Attention(torch.autograd.Function):  # the same where nothing is compiled: by way of what is registered each call takes 0.1 ms longer
    @staticmethod
    def forward(ctx, *arguments):
        outputs = forward(*arguments)
        keep(ctx, arguments, outputs)
        return outputs

    backward = staticmethod(differentiate)


def attention(Q, K, V, *, causal=True, window=None, sink_tokens=0, sink_logits=None, scale=None, same_bits=None, lib=None):
    """softmax(scale Q K^T) V over the keys that a query sees. Q [B, Hq, N, D], K and V [B, Hkv, N, D]: bf16; sink_logits [Hq]: float32.

    window: query i sees the `window` keys up to its own, and the first sink_tokens keys. sink_logits: one more term a head of the softmax's
    denominator. scale: 1 / sqrt(D) unless given. same_bits: of gradients, each time; unless given, what
    torch.use_deterministic_algorithms says. Tensors may lie in memory in any way; what is not contiguous is copied. Under torch.autocast float32 is
    taken for bf16. What no function of the library does raises Refused, with its words.
    """
    if torch.is_autocast_enabled(Q.device.type):
        Q, K, V = (x.to(torch.get_autocast_dtype(Q.device.type)) if x.dtype == torch.float32 else x for x in (Q, K, V))
    if any(x.dtype != torch.bfloat16 for x in (Q, K, V)) or (sink_logits is not None and sink_logits.dtype != torch.float32):
        raise TypeError("attention takes Q, K and V in bfloat16, and sink_logits in float32")
    if any(x.device != Q.device for x in (K, V) + (() if sink_logits is None else (sink_logits,))):
        raise ValueError("attention takes tensors of one device")
    (B, Hq, _, D), (Bk, _, _, Dk) = Q.shape, K.shape
    if K.shape != V.shape or Bk != B or Dk != D or (sink_logits is not None and sink_logits.shape != (Hq,)):
        raise ValueError(f"attention of Q {list(Q.shape)}, K {list(K.shape)}, V {list(V.shape)}: [B, Hq, N, D], [B, Hkv, N, D] twice, and sink_logits [Hq]")
    if not causal and (window or sink_tokens or sink_logits is not None):
        raise ValueError("a window, sink_tokens and sink_logits are for causal attention")
    if sink_logits is not None and sink_tokens:
        raise ValueError("no function of the library has both sink_tokens and sink_logits")
    if same_bits is None:
        same_bits = torch.are_deterministic_algorithms_enabled()
    scale = D ** -0.5 if scale is None else scale
    apply = forward if torch.compiler.is_compiling() else Attention.apply
    return apply(Q, K, V, sink_logits, causal, window or 0, sink_tokens, scale, same_bits, lib.path if lib else "")[0]
