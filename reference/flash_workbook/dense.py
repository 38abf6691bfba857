"""attention(): operators that torch.compile, autograd and autocast know, for the functions of problems 03 to 12."""
from typing import Optional

import torch

from .arguments import autocast, number, scale_of, tensors
from .library import Refused, operators, refuse
from .masks import Mask, masked

BF16 = [torch.bfloat16]
forward, backward = operators.attention.default, operators.attention_backward.default


def taken(what, Q, K, V, sink_logits):
    """Q, K and V as the library takes them, or an error: of attention, with heads before tokens."""
    if all(isinstance(x, torch.Tensor) for x in (Q, K, V)):
        Q, K, V = autocast(Q, K, V)
    names = ("q", "k", "v", "s_aux") if what.startswith("flash_attn") else ("Q", "K", "V", "sink_logits")
    tensors(what, **{name: (x, of, kind) for name, x, of, kind in zip(names, (Q, K, V, sink_logits), (
        "B Hq Nq D", "B Hkv Nk D", "B Hkv Nk Dv", "?Hq"), (BF16, BF16, BF16, [torch.float32]))})
    Hq, D = Q.shape[1], Q.shape[3]
    if 0 in (D, V.shape[3]):
        refuse(f"{what}: head_dim = 0")
    if (Hq % K.shape[1] if K.shape[1] else Hq):
        raise ValueError(f"{what}: {Hq} heads of Q are not a multiple of {K.shape[1]} heads of K")
    return Q, K, V


def with_zeros(x, q, v):
    """x with zeros up to the head dimension, to 128, of a kernel that q and v fit into; else itself."""
    D = max(q.shape[-1], v.shape[-1])
    wide = next((d for d in (16, 32, 64, 128) if D <= d), x.shape[-1])
    return x if x.shape[-1] == wide else torch.nn.functional.pad(x, (0, wide - x.shape[-1]))


# what a call with unusual arguments, or with wrong ones, may end with
ERRORS = AttributeError, IndexError, RuntimeError, TypeError, ValueError


def at_best(Q, K, V, sink_logits, causal, window, sink_tokens, scale, same_bits, lib, tokens_first=False):
    """O and L by the operator of C++, which looks at all of it; an error where something is unusual."""
    if (Q.dtype is not torch.bfloat16 or type(scale) not in (float, type(None)) or
            torch._C._functorch.peek_interpreter_stack() is not None):  # no time for an exception from C++
        raise TypeError
    if same_bits is None:
        same_bits = torch.are_deterministic_algorithms_enabled()
    return forward._op(Q, K, V, sink_logits, causal, window, sink_tokens, scale, same_bits, lib.path if lib else "",
                       tokens_first)


def wants_gradients(*tensors):
    if torch.is_grad_enabled():
        for x in tensors:
            if x is not None and x.requires_grad:
                return True
    return False


def attention(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, *, causal=True, window: Optional[int] = None,
              sink_tokens=0, sink_logits: Optional[torch.Tensor] = None, block_mask=None, scale: Optional[float] = None,
              same_bits: Optional[bool] = None, return_lse=False, lib=None):
    """softmax(scale Q K^T) V over the keys that a query sees. Q [B, Hq, N, D], K and V [B, Hkv, N, D]: bf16;
    sink_logits [Hq]: float32.

    window: query i sees the `window` keys up to its own, and the first sink_tokens keys. sink_logits: one more term a
    head of the softmax's denominator. block_mask: FlexAttention's BlockMask, or what flash_workbook.block_mask made of
    it, instead of these; it has no gradients. scale: 1 / sqrt(D) unless given. same_bits: of gradients, each time;
    unless given, what torch.use_deterministic_algorithms says. return_lse: O, and L [B, Hq, N], the logarithm of each
    row's denominator, which has a gradient, too. D to 128, V's may be another; the next of 16, 32, 64 and 128 is
    computed, with zeros. D to 256 has no gradients, windows, sinks or masks, and is for Hopper: 192 with V of 128, or
    256; a causal mask of fewer queries than keys is aligned at the bottom right there. Tensors may lie in memory in any
    way; what is not contiguous is copied. Under torch.autocast float32 is taken for bf16. What no function of the
    library does raises Refused, wrong shapes ValueError, and wrong types TypeError. Returns O [B, Hq, N, Dv] in bf16; L
    is in float32, natural logarithms. Sources: FlashAttention-2 (Dao, 2023), StreamingLLM (Xiao
    and others, 2023) for sink_tokens, gpt-oss (2025) for sink_logits.
    """
    if not torch.compiler.is_compiling() and block_mask is None:
        try:
            O, L = at_best(Q, K, V, sink_logits, causal, window or 0, sink_tokens, scale, same_bits, lib)
            return (O, L) if return_lse else O
        except ERRORS:  # it is put right, or what is wrong is said, below
            pass
    Q, K, V = taken("attention", Q, K, V, sink_logits)
    causal, window, sink_tokens = (number(name, x, kind) for name, x, kind in (("causal", causal, bool), ("window",
        0 if window is None else window, int), ("sink_tokens", sink_tokens, int)))
    scale, path = None if scale is None else scale_of("scale", scale, 1), lib.path if lib else ""
    if block_mask is not None:
        if window or sink_tokens or sink_logits is not None:
            raise ValueError("block_mask cannot be combined with window, sink_tokens or sink_logits")
        if wants_gradients(Q, K, V):
            refuse("attention under a block_mask has no gradients. Call it under torch.no_grad()")
        mask = block_mask if isinstance(block_mask, Mask) else Mask.of(block_mask)
        O, L = masked(Q, K, V, *mask.fitting(Q, K), Q.shape[3] ** -0.5 if scale is None else scale, path)
        return (O, L) if return_lse else O
    if not causal and (window or sink_tokens or sink_logits is not None):
        raise ValueError("window, sink_tokens and sink_logits require causal attention")
    if sink_logits is not None and sink_tokens:
        raise ValueError("sink_tokens and sink_logits cannot be combined")
    if causal and Q.shape[2] != K.shape[2] and (Q.shape[3] <= 128 or Q.shape[2] > K.shape[2]):
        refuse(f"attention: {Q.shape[2]} queries and {K.shape[2]} keys: a causal mask requires equal numbers; "
               "flash_attn_func accepts other numbers, and aligns the mask at the bottom right")
    if Q.shape[3] > 128 and (window or sink_logits is not None):
        refuse(f"attention: head_dim = {Q.shape[3]}: above 128, window, sink_tokens and sink_logits are not supported")
    if same_bits is None:
        same_bits = torch.are_deterministic_algorithms_enabled()
    arguments = Q, K, V, sink_logits, causal, window, sink_tokens, scale, same_bits, path
    if torch.compiler.is_compiling():
        O, L = forward(*arguments)
    else:
        try:
            O, L = forward(*arguments)
        except NotImplementedError as said:
            raise Refused(3, str(said)) from None
    return (O, L) if return_lse else O
