"""attention(): operators that torch.compile, autograd and autocast know, for the functions of problems 03 to 12."""
from typing import List, Optional, Tuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .arguments import number, tensors
from .library import Refused, Shape, library, like_forward, operator, operators, refuse
from .masks import Mask, masked

# Opaque to torch.compile, which sees their schema and what their fakes say. window 0: none. scale None: 1 / sqrt(D).
# path "": library()'s own. operators.cpp has the same, and is what is called where it could be built. The schemas are
# the same, too: what torch.compile has cached knows no difference.


def shape_of(Q, K, sink_logits, causal, window, sink_tokens, scale):
    (B, Hq, N, D), Hkv, Nk = Q.shape, K.shape[1], K.shape[2]
    window, scale = window or (N if sink_logits is not None else 0), D**-0.5 if scale is None else scale
    return Shape(B, Hq, Hkv, N, Nk, D, scale, causal, window, sink_tokens if window else 0)


def contiguous(*tensors):
    return [x.contiguous() for x in tensors if x is not None]


def aligned(*tensors):
    """contiguous(), at addresses that the library takes: a part of another tensor may begin anywhere."""
    return [x.clone() if x.data_ptr() % 16 and x.dim() == 4 else x for x in contiguous(*tensors)]


def nothing_seen(outputs, sink_logits=None):
    """O and L where there is no query, or no key: 0, and -infinity or what a sink leaves."""
    O, L = outputs
    L.copy_(L.new_full((), -torch.inf) if sink_logits is None else sink_logits[:, None])
    return O.zero_(), L


def attend(Q: Tensor, K: Tensor, V: Tensor, sink_logits: Optional[Tensor], causal: bool, window: int, sink_tokens: int,
           scale: Optional[float], same_bits: bool, path: str,
           tokens_first: bool = False) -> Tuple[Tensor, Tensor]:
    if tokens_first:
        refuse("flash_workbook::attention: tokens_first is for the operator in C++, which is not here")
    shape, outputs = shape_of(Q, K, sink_logits, causal, window, sink_tokens, scale), like_forward(Q)
    if not Q.numel() or not K.numel():
        return nothing_seen(outputs, sink_logits)
    if sink_logits is not None:
        name = "flash_sink_logits"
    elif causal and window:
        name = "flash_sinks" if sink_tokens else "flash_window"
    elif causal:
        name = "flash_gqa"
    elif shape.q_heads != shape.kv_heads and library(path).lib.wb_device_capability() == 9 and shape.head_dim in (64,
        128):
        name = "flash_hopper"
    else:  # without a mask the rows of a group's heads, which lie one behind the other, are rows of one head
        name, shape.q_len = "flash_forward", shape.q_len * (shape.q_heads // shape.kv_heads)
        shape.q_heads = shape.kv_heads
    library(path).call(name, [*outputs, *aligned(Q, K, V, sink_logits)], shape)
    return outputs


def attend_backward(dO: Tensor, Q: Tensor, K: Tensor, V: Tensor, sink_logits: Optional[Tensor], O: Tensor, L: Tensor,
                    causal: bool, window: int,
                    sink_tokens: int, scale: Optional[float], same_bits: bool, path: str) -> List[Tensor]:
    if not Q.numel() or not K.numel():
        return [torch.zeros_like(x, memory_format=torch.contiguous_format)
                for x in (Q, K, V, sink_logits) if x is not None]
    shape = shape_of(Q, K, sink_logits, causal, window, sink_tokens, scale)
    Nq, Nk = shape.q_len, shape.kv_len
    if not causal:
        if library(path).lib.wb_device_capability() != 9:
            refuse("attention without a causal mask has gradients on sm_90 alone")
        # The library wants as many queries as keys. Rows of zeros, whose dO is 0, add nothing to any gradient; every Nk
        # rows are those of one more head.
        more = -Nq % Nk
        dO, Q, O, L = *(pad(x, (0, 0, 0, more)) for x in (dO, Q, O)), pad(L, (0, more))
        shape.q_len, shape.q_heads = Nk, shape.q_heads * ((Nq + more) // Nk)
    gradients = like_backward(dO, Q, K, V, sink_logits)
    tensors = [*gradients, torch.empty_like(L), *aligned(Q, K, V, sink_logits, O, L, dO)]
    if sink_logits is not None:
        library(path).call_in_workspace("flash_sink_logits_backward", "in", tensors, shape)
    elif window:
        library(path).call_in_workspace("flash_sinks_backward", "in", tensors, shape)
    else:
        library(path).call_in_workspace("flash_gqa_backward", "in" if same_bits else "fastest", tensors, shape)
    return [gradients[0][:, :, :Nq].contiguous(), *gradients[1:]]


def like_backward(dO, Q, K, V, sink_logits, *_):
    return [x.new_empty(x.shape) for x in (Q, K, V, sink_logits) if x is not None]


def keep(ctx, inputs, output):
    Q, K, V, sink_logits, *rest = inputs
    ctx.how, ctx.rest = rest[:6], len(rest)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(Q, K, V, sink_logits, *output)


def differentiate(ctx, dO, _):
    gradients = (attend_backward if at_once(dO) else backward)(dO, *ctx.saved_tensors, *ctx.how)
    return *gradients, *[None] * (4 - len(gradients) + ctx.rest)


def at_once(x):
    """Whether nobody listens between the caller and the library: no tracing, no gradients of gradients, no tensor that
    stands for another. The operator alone takes 0.1 ms."""
    return type(x) is Tensor and not torch.is_grad_enabled() and not torch._C._len_torch_dispatch_stack()


if operators:
    forward, backward = operators.attention.default, operators.attention_backward.default
else:
    forward, backward = operator("attention")(attend), operator("attention_backward")(attend_backward)
    forward.register_fake(like_forward)
    backward.register_fake(like_backward)
    forward.register_autograd(differentiate, setup_context=keep)


# the same where nothing is compiled: by way of what Python has registered each call takes 0.1 ms longer
class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, Q, K, V, *rest):
        arguments = *contiguous(Q, K, V), *rest  # copied once, also for what comes back
        outputs = (attend if at_once(Q) else forward)(*arguments)
        keep(ctx, arguments, outputs)
        return outputs

    backward = staticmethod(differentiate)


def taken(what, Q, K, V, sink_logits):
    """Q, K and V as the library takes them, or an error: of attention, with heads before tokens."""
    tensors(what, Q=(Q, 4), K=(K, 4), V=(V, 4), sink_logits=(sink_logits, -1))
    if torch.is_autocast_enabled(Q.device.type):
        Q, K, V = (x.to(torch.get_autocast_dtype(Q.device.type)) if x.dtype == torch.float32 else x for x in (Q, K, V))
    if any(x.dtype != torch.bfloat16 for x in (Q, K, V)) or (sink_logits is not None
                                                             and sink_logits.dtype != torch.float32):
        raise TypeError(f"{what} takes Q, K and V in bfloat16, and sink_logits in float32")
    (B, Hq, _, D), (Bk, _, _, Dk) = Q.shape, K.shape
    if K.shape != V.shape or Bk != B or Dk != D or (sink_logits is not None and sink_logits.shape != (Hq,)):
        raise ValueError(f"{what} of Q {list(Q.shape)}, K {list(K.shape)}, V {list(V.shape)}: "
                         "[B, Hq, N, D], [B, Hkv, N, D] twice, and sink_logits [Hq]")
    if D == 0:
        refuse(f"{what}: head_dim = 0")
    if (Hq % K.shape[1] if K.shape[1] else Hq):
        raise ValueError(f"{what}: {Hq} heads of Q are no multiple of {K.shape[1]} of K")
    return Q, K, V


# what a call with unusual arguments, or with wrong ones, may end with
ERRORS = AttributeError, IndexError, RuntimeError, TypeError, ValueError


def at_best(Q, K, V, sink_logits, causal, window, sink_tokens, scale, same_bits, lib, tokens_first=False):
    """O and L by the operator of C++, which looks at all of it; an error where something is unusual."""
    if Q.dtype is not torch.bfloat16:  # as under autocast: no time for an exception from C++
        raise TypeError
    if same_bits is None:
        same_bits = torch.are_deterministic_algorithms_enabled()
    return forward._op(Q, K, V, sink_logits, causal, window, sink_tokens, scale, same_bits, lib.path if lib else "",
                       tokens_first)


def wants_gradients(*tensors):
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def attention(Q, K, V, *, causal=True, window=None, sink_tokens=0, sink_logits=None, block_mask=None, scale=None,
              same_bits=None, return_lse=False, lib=None):
    """softmax(scale Q K^T) V over the keys that a query sees. Q [B, Hq, N, D], K and V [B, Hkv, N, D]: bf16;
    sink_logits [Hq]: float32.

    window: query i sees the `window` keys up to its own, and the first sink_tokens keys. sink_logits: one more term a
    head of the softmax's denominator. block_mask: FlexAttention's BlockMask, or what flash_workbook.block_mask made of
    it, instead of these; it has no gradients. scale: 1 / sqrt(D) unless given. same_bits: of gradients, each time;
    unless given, what torch.use_deterministic_algorithms says. return_lse: O, and L [B, Hq, N], the logarithm of each
    row's denominator. Tensors may lie in memory in any way; what is not contiguous is copied. Under torch.autocast
    float32 is taken for bf16. What no function of the library does raises Refused.
    """
    if not torch.compiler.is_compiling() and operators and block_mask is None:
        try:
            O, L = at_best(Q, K, V, sink_logits, causal, window or 0, sink_tokens, scale, same_bits, lib)
            return (O, L) if return_lse else O
        except ERRORS:  # it is put right, or what is wrong is said, below
            pass
    Q, K, V = taken("attention", Q, K, V, sink_logits)
    causal, window, sink_tokens = (number(name, x, kind) for name, x, kind in (("causal", causal, bool), ("window",
        window or 0, int), ("sink_tokens", sink_tokens, int)))
    scale, path = None if scale is None else number("scale", scale, float), lib.path if lib else ""
    if block_mask is not None:
        if window or sink_tokens or sink_logits is not None:
            raise ValueError("a block_mask stands alone: no window, sink_tokens or sink_logits beside it")
        if wants_gradients(Q, K, V):
            refuse("attention under a block_mask has no gradients: the library has none of problem 15. Call it under "
                   "torch.no_grad()")
        mask = block_mask if isinstance(block_mask, Mask) else Mask.of(block_mask)
        O, L = masked(Q, K, V, *mask.fitting(Q, K), Q.shape[3] ** -0.5 if scale is None else scale, path)
        return (O, L) if return_lse else O
    if not causal and (window or sink_tokens or sink_logits is not None):
        raise ValueError("a window, sink_tokens and sink_logits are for causal attention")
    if sink_logits is not None and sink_tokens:
        raise ValueError("no function of the library has both sink_tokens and sink_logits")
    if same_bits is None:
        same_bits = torch.are_deterministic_algorithms_enabled()
    arguments = Q, K, V, sink_logits, causal, window, sink_tokens, scale, same_bits, path
    if torch.compiler.is_compiling():
        O, L = forward(*arguments)
    elif operators is None:
        O, L = Attention.apply(*arguments)
    else:
        try:
            O, L = forward(*arguments)
        except NotImplementedError as said:
            raise Refused(3, str(said)) from None
    return (O, L) if return_lse else O
