"""import flash_workbook.transformers, and attn_implementation="workbook" is this library in Hugging Face's models:

    import flash_workbook.transformers
    model = AutoModelForCausalLM.from_pretrained(NAME, dtype=torch.bfloat16, attn_implementation="workbook")

Causal masks, windows, sinks (gpt-oss), softcap (Gemma 2); padding on either side, packed sequences by position_ids or
cu_seq_lens, prefill in chunks, dynamic and static caches. A mask_function that is neither causal nor a window is not
asked, as under transformers' own flash_attention_2. The name is not flash_workbook: what has "flash" in it transformers
looks for itself. What is refused is refused as from flash_attn_func.
"""
import torch
from torch.nn.functional import pad
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from .flash_attn import flash_attn_func, flash_attn_varlen_func


def mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=None, attention_mask=None,
         device="cpu", **_):
    """None; or bool [B, 1, 2, Nk]: which keys there are for the newest query, and where the queries stand; or of packed
    sequences, whose queries do not see the key before theirs, int32: where each begins, in all rows, and the end."""
    at = torch.arange(kv_length, device=device) + kv_offset
    if attention_mask is None and q_length == kv_length and mask_function is not None:
        b = torch.arange(batch_size, device=device)[:, None]
        begins = pad(~mask_function(b, 0, at[None, 1:], at[None, :-1]).expand(batch_size, -1), (1, 0), value=True)
        if begins[:, 1:].any():
            return pad(begins.flatten().nonzero()[:, 0], (0, 1), value=begins.numel()).int()
    there = (at < q_offset + q_length).expand(batch_size, -1)
    if attention_mask is not None:
        given = attention_mask.to(device=device, dtype=torch.bool)
        there = there & pad(given, (0, max(0, kv_offset + kv_length - given.shape[1])))[:, at]
    if there.all():
        return None
    stands = (at >= q_offset) & (at < q_offset + q_length)
    return torch.stack([there, stands.expand(batch_size, -1)], 1)[:, None]  # of four dimensions: generate hands it on


def attend(module, query, key, value, attention_mask, scaling=None, dropout=0.0, sliding_window=None, softcap=None,
           is_causal=None, s_aux=None, cu_seq_lens_q=None, cu_seq_lens_k=None, **_):
    """Of query [B, Hq, Nq, D], key and value [B, Hkv, Nk, D]: O [B, Nq, Hq, D], and None."""
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    causal = bool(module.is_causal if is_causal is None else is_causal)
    left = -1 if sliding_window is None else sliding_window - 1
    how = dict(dropout_p=dropout, softmax_scale=scaling, causal=causal, window_size=(left, 0 if causal else left),
               softcap=softcap or 0.0, s_aux=s_aux)
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        cu_seq_lens_q = cu_seq_lens_k = attention_mask
    elif attention_mask is not None:
        there, stands = attention_mask[:, 0].unbind(1)
        asks = there[stands].view(q.shape[:2])
        starts = [pad(x.sum(1).cumsum(0), (1, 0)).int() for x in (asks, there)]
        O = q.new_zeros(*q.shape[:3], v.shape[3])
        O[asks] = flash_attn_varlen_func(q[asks], k[there], v[there], *starts, **how)
        return O, None
    if cu_seq_lens_q is None:
        return flash_attn_func(q, k, v, **how), None
    O = flash_attn_varlen_func(*(x.flatten(0, 1) for x in (q, k, v)), cu_seq_lens_q, cu_seq_lens_k, **how)
    return O.view(*q.shape[:2], *O.shape[1:]), None


AttentionInterface.register("workbook", attend)
AttentionMaskInterface.register("workbook", mask)
