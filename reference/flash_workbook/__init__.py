"""The workbook's attention for PyTorch: the functions of libworkbook.so, by ctypes, as operators that torch.compile,
autograd and autocast know.

    from flash_workbook import attention                       after pip install . (or make lib, from reference/)
    O = attention(Q, K, V)                                     causal, grouped heads: 05 and 08
    O = attention(Q, K, V, causal=False)                       every query sees every key: 03 or 10, and 08 on Hopper
    O = attention(Q, K, V, window=128, sink_tokens=4)          06 or 07, and 09
    O = attention(Q, K, V, window=128, sink_logits=s)          as in gpt-oss: 11 and 12, with the gradient of s
    O = attention(Q, K, V, block_mask=BlockMask)               FlexAttention's own: 15
    O = attention_fp8(Q, K, V)                                 in eight bits: 16
    o = ring_attention(q, k, v, group=group)                   one sequence on several GPUs, cut by shard()

and under the names and arguments of flash-attn: flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache (13,
14 from int8, and from e4m3). The library is WB_LIBRARY's, or the one that was installed beside this file, or
build/BACKEND/lib/libworkbook.so.
"""
from .dense import attention, backward, forward
from .flash_attn import (flash_attn_func, flash_attn_kvpacked_func, flash_attn_qkvpacked_func, flash_attn_varlen_func,
                         flash_attn_varlen_kvpacked_func, flash_attn_varlen_qkvpacked_func, flash_attn_with_kvcache,
                         isolate, quantise_cache)
from .fp8 import Eight, attention_fp8, quantise_fp8
from .library import Library, Refused, Shape, check, library
from .masks import Mask, block_mask, forget_mask

__all__ = """attention attention_fp8 quantise_fp8 Eight flash_attn_func flash_attn_kvpacked_func
    flash_attn_qkvpacked_func flash_attn_varlen_func flash_attn_varlen_kvpacked_func flash_attn_varlen_qkvpacked_func
    flash_attn_with_kvcache quantise_cache block_mask forget_mask isolate Mask ring_attention shard unshard Library
    Refused Shape check library""".split()


def __getattr__(name):
    """The ring when it is asked for: it imports torch._dynamo, which takes as long as PyTorch itself."""
    if name == "__version__":
        return library().version
    if name not in ("ring_attention", "shard", "unshard"):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from . import ring
    return getattr(ring, name)
