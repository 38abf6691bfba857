"""flash_workbook's functions under flash-attn's names, its masks and its caches, beside attention written out in
float64, on shapes that SEED draws.

    SEED=7 python3 -m pytest reference/flash_attn_test.py      from the workbook's root after make lib; on the CPU
              layer, or a GPU as torch_test.py

The limit of |x - want| / |want| is torch_test.py's, 2^-7. For a cache of bytes `want` is of what these
stand for, and the limit 2^-6: where such a cache is copied, K and V are rounded to bf16 once more.
"""
import contextlib, copy, ctypes, inspect, itertools, os, pickle, random

import numpy as np
import pytest
import torch

import flash_workbook
from flash_workbook import Refused, arguments, flash_attn, masks
from flash_workbook.library import BlockMask as BlockMaskStruct
from torch_test import Asked
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, create_mask

device = "cuda" if torch.cuda.is_available() and os.environ.get("BACKEND") != "cpu" else "cpu"
SEED = os.environ.get("SEED") or "1"
LIMIT, ALL = 2**-7, arguments.MOST
torch.set_num_threads(1)  # of tensors as small as these a second one costs more than it does


def drawn(times):
    """A generator for each of so many cases; the case's number is its name."""

    def with_chance(test):
        def run(draw):
            torch.manual_seed(draw)
            test(random.Random(f"{SEED} {test.__name__} {draw}"))

        return pytest.mark.parametrize("draw", range(times))(run)

    return with_chance


def randn(*sizes, wants=False):
    return torch.randn(*sizes, device=device).bfloat16().requires_grad_(wants)


def oracle(Q, K, V, visible, scale, sinks=None, cap=0, bias=0):
    """O and L of [B, H, N, D] in float64; visible [..., Nq, Nk]."""
    group = Q.shape[1] // K.shape[1]
    K, V = (x.double().repeat_interleave(group, 1) for x in (K, V))
    S = Q.double() @ K.mT * scale
    S = ((cap * (S / cap).tanh() if cap else S) + bias).masked_fill(~visible, -torch.inf)
    if sinks is not None:
        S = torch.cat([S, sinks.double()[:, None, None].expand(*S.shape[:3], 1)], -1)
    L = S.logsumexp(-1)
    P = torch.where(L[..., None] == -torch.inf, 0, (S - L.masked_fill(L == -torch.inf, 0)[..., None]).exp())
    return P[..., : K.shape[2]] @ V, L


def bottom_right(Nq, Nk, left=ALL, right=ALL, chunk=0):
    at = torch.arange(Nk - Nq, Nk, device=device)[:, None]
    key = torch.arange(Nk, device=device)
    return (key >= at - left) & (key <= at + right) & (key // chunk == at // chunk if chunk else key >= 0)


def other_scores(chance, B, Hq):
    """softcap and alibi_slopes, most often none."""
    slopes = torch.rand(*chance.choice([(Hq,), (B, Hq)]), device=device) * chance.choice([0.01, 0.3])
    return {"softcap": chance.choice([0.0, 0.0, 10 ** chance.uniform(-0.5, 6)]),
            "alibi_slopes": chance.choice([None, None, slopes])}


def bias_of(slopes, Nq, Nk):
    """[..., Nq, Nk] of slopes [...]."""
    at, key = torch.arange(Nk - Nq, Nk, device=device)[:, None], torch.arange(Nk, device=device)
    return 0 if slopes is None else -slopes.double()[..., None, None] * (key - at).abs()


def far(got, want):
    return ((got.double() - want).norm() / want.norm().clamp(min=1e-30)).item()


def close(got, want, limit=LIMIT):
    assert got.shape == want.shape and torch.isfinite(got).all() and far(got, want) <= limit, far(got, want)


def close_logs(got, want):
    assert torch.equal(got == -torch.inf, want == -torch.inf)
    assert ((got.double() - want).nan_to_num().abs() <= 2e-3).all()  # S is of bf16 products summed in float32


def full_has_gradients():
    return flash_workbook.library().lib.wb_device_capability() == 9


def gradients_of_logs(chance, L):
    """None, or some, as large as those of O."""
    return chance.choice([None, torch.randn_like(L) * chance.choice([1, 8, 30])])


def close_gradients(got, O, L, exact, dO, dL):
    """Beside the oracle's. The sinks' are sums whose terms may cancel: their errors are measured against the terms'
    sizes."""
    seen = L != -torch.inf
    dL = torch.zeros_like(L) if dL is None else dL.double()
    want = torch.autograd.grad((O, L[seen]), exact, (dO, dL[seen]))
    # what float32 leaves of a gradient that cancels, as where a query sees one key
    rest = 2**-18 * ((dO.norm() + dL.norm()) * exact[1].norm()).item()
    for x, wanted in zip(got[:3], want):
        assert x.shape == wanted.shape and torch.isfinite(x).all()
        assert (x.double() - wanted).norm() <= LIMIT * wanted.norm() + rest, far(x, wanted)
    for x, wanted in zip(got[3:], want[3:]):
        terms = (exact[3][:, None] - L).exp() * (dO.norm(dim=-1) * O.norm(dim=-1) + dL.abs())
        assert ((x.double() - wanted).abs() <= LIMIT * terms.sum((0, 2))).all()


def sizes(chance, most=150):
    """B, Hq, Hkv, Nq, Nk, D."""
    Hkv, Nq = chance.randint(1, 3), chance.randint(1, most)
    Nk = chance.choice([Nq, chance.randint(1, most)])
    D = chance.choice([16, 32, 64, 128, 8 * chance.randint(1, 16)])
    return chance.randint(1, 2), Hkv * chance.randint(1, 3), Hkv, Nq, Nk, D


def laid_out(chance, B, N, H, D):
    """[B, N, H, D] as callers have it: in one piece, as a view of [B, H, N, D], as a third of one tensor, with a stride
    in D."""
    way = chance.randrange(4)
    if way == 0:
        return randn(B, N, H, D, wants=True)
    if way == 1:
        return randn(B, H, N, D).transpose(1, 2).requires_grad_()
    if way == 2:
        return randn(B, N, H, 3, D)[:, :, :, 1].requires_grad_()
    return randn(B, N, H, 2 * D)[..., ::2].requires_grad_()


def with_sinks(chance, *tensors):
    """Sinks, or None; the tensors and these; all of them in float64."""
    sinks = chance.choice([None, torch.randn(tensors[0].shape[-2], device=device, requires_grad=True)])
    tensors = [*tensors, *([] if sinks is None else [sinks])]
    return sinks, tensors, [x.detach().double().requires_grad_() for x in tensors]


def band(chance):
    """causal, window_size."""
    left, right = chance.randint(0, 60), chance.randint(1, 40)
    return chance.choice([(False, (-1, -1)), (True, (-1, -1)), (True, (left, chance.choice([0, -1, 5]))),
                          (False, (left, 0)), (False, (left, right)), (False, (-1, right)), (False, (None, -left)),
                          (False, (-left, None))])


def chunks(chance):
    return chance.choice([0, 0, 0, chance.randint(1, 90)])


def test_oracle_is_torchs_and_has_its_own_gradient():
    Q, K, V = (torch.randn(1, h, n, 3, dtype=torch.float64, requires_grad=True) for h, n in ((4, 5), (2, 7), (2, 7)))
    s, visible = torch.randn(4, dtype=torch.float64, requires_grad=True), bottom_right(5, 7, 4, 0).cpu()
    same = torch.nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=visible, enable_gqa=True)
    assert torch.allclose(oracle(Q, K, V, visible, 3**-0.5)[0], same)
    assert torch.autograd.gradcheck(lambda *x: oracle(*x[:3], visible, 0.7, x[3])[0], (Q, K, V, s))


# ------------------------ flash_attn_func


@drawn(40)
def test_flash_attn_func(chance):
    (B, Hq, Hkv, Nq, Nk, D), (causal, window) = sizes(chance), band(chance)
    Dv = chance.choice([D, D, 8 * chance.randint(1, 16), 8 * chance.randint(16, 40)])
    q, k, v = (laid_out(chance, B, n, h, d) for n, h, d in ((Nq, Hq, D), (Nk, Hkv, D), (Nk, Hkv, Dv)))
    sinks, tensors, exact = with_sinks(chance, q, k, v)
    scale = chance.choice([None, 0.3])
    chunk, (left, right) = chunks(chance), flash_attn.ends_of(causal, window)
    scores = other_scores(chance, B, Hq)
    how = dict(softmax_scale=scale, causal=causal, window_size=window, deterministic=True, s_aux=sinks,
               attention_chunk=chunk, **scores)
    visible, bias = bottom_right(Nq, Nk, left, right, chunk), bias_of(scores["alibi_slopes"], Nq, Nk)
    want, L = oracle(*(x.transpose(1, 2) for x in exact[:3]), visible, scale or D**-0.5, exact[3] if exact[3:] else
                     None, scores["softcap"], bias)
    with torch.no_grad():
        O, logs, nothing = flash_workbook.flash_attn_func(q, k, v, return_attn_probs=True, **how)
    assert nothing is None
    close(O, want.transpose(1, 2))
    close_logs(logs, L)
    O, logs, _ = flash_workbook.flash_attn_func(q, k, v, return_attn_probs=True, **how)
    close(O, want.transpose(1, 2))
    dO, dL = torch.randn_like(O), gradients_of_logs(chance, logs)
    dO[:, :: chance.randint(1, 9)] = 0
    got = torch.autograd.grad(O if dL is None else (O, logs), tensors, dO if dL is None else (dO, dL))
    close_gradients(got, want, L, exact, dO.double().transpose(1, 2), dL)


@drawn(16)
def test_gradients_of_logs(chance):
    """attention's, with each mask that it has. Where all values are the same, dP - delta is 0, and dL alone is left: in
    float32, or it were lost beside them."""
    (B, Hq, Hkv, N, Nk, D), causal = sizes(chance), chance.random() < 0.8
    window = chance.choice([0, chance.randint(1, 60)]) if causal else 0
    Nk, tokens = N if causal else Nk, chance.choice([0, chance.randint(1, 9)]) if window else 0
    tensors, sinks = [randn(B, h, n, D, wants=True) for h, n in ((Hq, N), (Hkv, Nk), (Hkv, Nk))], None
    if causal and not tokens and chance.random() < 0.5:
        tensors.append(sinks := torch.randn(Hq, device=device, requires_grad=True))
    alone = sinks is None and chance.random() < 0.5
    if alone:
        tensors[2].data.copy_(tensors[2].data[:, :, :1].expand_as(tensors[2]))
    exact = [x.detach().double().requires_grad_() for x in tensors]
    visible = bottom_right(N, Nk, window - 1 if window else ALL, 0 if causal else ALL)
    visible = visible | (bottom_right(N, Nk, ALL, 0) & (torch.arange(Nk, device=device) < tokens))
    want, L = oracle(*exact[:3], visible, D**-0.5, exact[3] if sinks is not None else None)
    O, logs = flash_workbook.attention(*tensors[:3], causal=causal, window=window, sink_tokens=tokens,
                                       sink_logits=sinks, return_lse=True)
    dO = torch.randn_like(O) * (8 if alone else chance.choice([0, 1]))
    dL = torch.randn_like(logs) * (1 if alone else chance.choice([1, 8, 30]))
    got = torch.autograd.grad((O, logs), tensors, (dO, dL))
    close_gradients(got, want, L, exact, dO.double(), dL)


@drawn(24)
def test_wide_heads(chance):
    """Forward alone, on Hopper: attention, flash_attn_func, and a call a sequence in flash_attn_varlen_func. Gradients,
    windows and what else there is not are refused by name."""
    B, Hq, Hkv, Nq, Nk, _ = sizes(chance, 300)
    D, causal = chance.choice([136, 192, 192, 200, 256]), chance.random() < 0.5
    DV, Nk = chance.choice([D, 128, 96]), max(Nq, Nk) if causal else Nk
    if flash_workbook.library().lib.wb_device_capability() != 9:
        pytest.skip("only on sm_90")
    q, k, v = (laid_out(chance, B, n, h, d).detach() for n, h, d in ((Nq, Hq, D), (Nk, Hkv, D), (Nk, Hkv, DV)))
    Q, K, V = (x.transpose(1, 2) for x in (q, k, v))
    sinks, scale = chance.choice([None, torch.randn(Hq, device=device)]), chance.choice([None, 0.05])
    visible = bottom_right(Nq, Nk, ALL, 0 if causal else ALL)
    for s in (None, sinks):
        want, logs = oracle(Q, K, V, visible, scale or D**-0.5, s)
        O, L, _ = flash_workbook.flash_attn_func(q, k, v, 0.0, scale, causal, return_attn_probs=True, s_aux=s)
        close(O, want.transpose(1, 2)), close_logs(L, logs)
        starts = dict(zip(("cu_seqlens_q", "cu_seqlens_k"), map(flash_attn.starts_of, (q, k))))
        packed = flash_workbook.flash_attn_varlen_func(*(x.flatten(0, 1) for x in (q, k, v)), **starts, s_aux=s,
                                                       softmax_scale=scale, causal=causal)
        close(packed, want.transpose(1, 2).flatten(0, 1))
        if s is None:
            assert torch.equal(packed, O.flatten(0, 1))
        if s is None and (not causal or Nq == Nk):
            assert torch.equal(flash_workbook.attention(Q, K, V, causal=causal, scale=scale), O.transpose(1, 2))
    more = visible.roll(1, 1)  # a mistake that is seen
    assert Nk < 3 or not causal or far(O, oracle(Q, K, V, more, scale or D**-0.5, sinks)[0].transpose(1, 2)) > LIMIT
    window = [({"window_size": (3, 0)}, "head_dim")] if Nq > 4 else []  # else it is none
    for refused, word in (*window, ({"softcap": 2.0}, "head_dim"), ({}, "no_grad")):
        for leaf in (q, k, v):
            leaf.requires_grad_(not refused)
        with pytest.raises(NotImplementedError, match=word):
            flash_workbook.flash_attn_func(q, k, v, causal=causal, **refused)
        with pytest.raises(NotImplementedError, match=word):
            flash_workbook.flash_attn_varlen_func(*(x.flatten(0, 1) for x in (q, k, v)), **starts, **refused)


@drawn(8)
def test_wide_sequences(chance):
    """Of any lengths, also none, and of more queries than keys."""
    if flash_workbook.library().lib.wb_device_capability() != 9:
        pytest.skip("only on sm_90")
    lengths = [[chance.choice([0, chance.randint(1, 150)]) for _ in range(4)] for _ in range(2)]
    cu = [torch.tensor([0, *itertools.accumulate(x)], dtype=torch.int32, device=device) for x in lengths]
    (D, DV), causal = chance.choice([(192, 128), (256, 256), (144, 80)]), chance.random() < 0.5
    q, k, v = (randn(sum(x), h, d) for x, h, d in zip((lengths[0], lengths[1], lengths[1]), (4, 2, 2), (D, D, DV)))
    O, L, _ = flash_workbook.flash_attn_varlen_func(q, k, v, *cu, causal=causal, return_attn_probs=True)
    for nq, nk, *at in zip(*lengths, *(x.tolist() for x in cu)):
        of = zip((q, k, v), (at[0], at[1], at[1]), (nq, nk, nk))
        Q, K, V = (x[i : i + n].transpose(0, 1)[None] for x, i, n in of)
        want, logs = oracle(Q, K, V, bottom_right(nq, nk, ALL, 0 if causal else ALL), D**-0.5)
        close(O[at[0] : at[0] + nq].transpose(0, 1)[None], want), close_logs(L[:, at[0] : at[0] + nq][None], logs)


def test_other_alignments_are_seen():
    q, k, v = (randn(1, n, 2, 64) for n in (50, 120, 120))
    O = flash_workbook.flash_attn_func(q, k, v, causal=True).transpose(1, 2)
    for shift in (-70, -1, 1):
        visible = torch.arange(120, device=device) <= torch.arange(70, 120, device=device)[:, None] + shift
        assert far(O, oracle(*(x.transpose(1, 2) for x in (q, k, v)), visible, 1 / 8)[0]) > LIMIT


def asked_of_each():
    """Three calls, and for each argument that they may leave out another value than its own, of rotary_cos and so on
    one that a caller might have."""
    q, k, cu = randn(1, 5, 2, 64), randn(1, 32, 2, 64), torch.tensor([0, 5], dtype=torch.int32, device=device)
    sinks, one, ints = torch.ones(2, device=device), torch.ones(1, device=device), torch.ones_like(cu[:1])
    calls = {"flash_attn_func": dict(q=q, k=q, v=q),
             "flash_attn_varlen_func": dict(q=q[0], k=q[0], v=q[0], cu_seqlens_q=cu, cu_seqlens_k=cu),
             "flash_attn_with_kvcache": dict(q=q, k_cache=k, v_cache=k, causal=True, cache_seqlens=24)}
    values = dict(dropout_p=0.5, softmax_scale=0.3, causal=True, window_size=(2, 0), softcap=3.0, alibi_slopes=sinks,
        deterministic=True, return_attn_probs=True, s_aux=sinks, learnable_sink=sinks, qv=q, q_descale=one,
        k_descale=one * 2, v_descale=one * 2, attention_chunk=4, num_splits=2, pack_gqa=True, sm_margin=8,
        max_seqlen_q=5, max_seqlen_k=5, block_table=ints[:, None] * 0, seqused_q=ints, seqused_k=ints, k=q[:, :1],
        v=q[:, :1], rotary_cos=q, rotary_sin=q, cache_seqlens=9, cache_batch_idx=ints * 0, cache_leftpad=ints,
        rotary_interleaved=False, return_softmax_lse=True, k_scale=one, v_scale=one, page_table=ints[:, None] * 0,
        cu_seqlens_q=cu, cu_seqlens_k_new=cu // 5, rotary_seqlens=ints, scheduler_metadata=ints)
    return calls, values


def what_becomes_of(function, given, name, values):
    """served, refused or not read: by what the function does. A k wants a v, and one scale the other."""
    both = {"k": "v", "v": "k", "k_scale": "v_scale", "v_scale": "k_scale"}.get(name)
    more = {x: values[x] for x in (name, both) if x}
    # of gradients, of bytes, of more queries than one: other tests look
    if name == "deterministic" or "scale" in name and both or name == "causal" and "k_cache" in given:
        return "served"
    if "descale" in name and "k_cache" in given:
        given = {**given, **{x: given[x].to(flash_attn.E4M3) for x in ("k_cache", "v_cache")}}
    # here they say what is so without them
    tables = name in ("block_table", "page_table", "cache_batch_idx", "cu_seqlens_q")
    if name.startswith("cu_seqlens"):
        more.update({"q": given["q"][0]} if name == "cu_seqlens_q" else {x: values[x][0] for x in "kv"})
    if tables and "cu_seqlens_k" in given:
        more.update(k=given["k"][None], v=given["v"][None])
    if name in ("block_table", "page_table") and "k_cache" in given:  # one sequence whose first page is its only one
        given = {**given, **{x: given[x][:, :16] for x in ("k_cache", "v_cache")}, "cache_seqlens": 16}
    try:
        outputs = [getattr(flash_workbook, function)(**{x: y.clone() if x.endswith("_cache") else y
                                                        for x, y in {**given, **extra}.items()})
                   for extra in ({}, more)]
    except Refused as refused:
        assert name in str(refused), refused
        return "refused"
    other = isinstance(outputs[1], tuple) or not torch.equal(*outputs)
    return "served" if other or tables else "not read"


def test_arguments_are_as_the_page_says():
    """arguments.md is what this makes; WRITE=1 writes it."""
    calls, values = asked_of_each()
    rows = {}
    for function, given in calls.items():
        for name in inspect.signature(getattr(flash_workbook, function)).parameters:
            rows.setdefault(name, {})[function] = "served" if name in given else what_becomes_of(function, given, name,
                                                                                                values)
    lines = [f"| `{name}` | {' | '.join(of.get(function, '') for function in calls)} |\n" for name, of in rows.items()]
    page = os.path.join(os.path.dirname(__file__), "arguments.md")
    head = ("# flash-attn's arguments\n\nserved: as in flash-attn, within the limits on shapes and masks in README.md. "
            "refused: a value other\nthan the default raises a NotImplementedError that names the argument. "
            "not read: a hint to\nflash-attn's kernels. `WRITE=1 make torch` generates this page by calling the "
            "functions\n(flash_attn_test.py).\n\nA cache is bf16, int8 (with `k_scale` and `v_scale`) or e4m3 (with "
            "`k_descale` and `v_descale`).\nQueries are bf16. For a forward pass in e4m3 use `attention_fp8`.\n\n"
            f"| | {' | '.join(f'`{x}`' for x in calls)} |\n" + "|---" * 4 + "|\n")
    if os.environ.get("WRITE"):
        open(page, "w").write(head + "".join(lines))
    assert open(page).read() == head + "".join(lines)


def test_refusals_name_the_argument():
    q = randn(1, 5, 2, 64)
    with pytest.raises(Refused, match="dropout_p=0.125"):  # flash-attn 3 has its scale there
        flash_workbook.flash_attn_func(q, q, q, 0.125)
    with pytest.raises(TypeError, match="bfloat16"):
        flash_workbook.flash_attn_func(q.half(), q.half(), q.half())
    for wrong in ({"softcap": -1.0}, {"softcap": float("inf")}, {"alibi_slopes": torch.ones(3, device=device)}):
        with pytest.raises(ValueError, match=list(wrong)[0]):
            flash_workbook.flash_attn_func(q, q, q, **wrong)


WRONG = [None, "x", -5, 2**70, 1.5, float("nan"), [1, 2, 3], torch.ones(3), torch.ones(2, 2, dtype=torch.int32),
         torch.empty(1, 2, 3, 16, device="meta"), torch.full((1,), 99, dtype=torch.int32), object()]


def test_taken_in_any_form():
    q = randn(1, 9, 2, 16)
    want = flash_workbook.flash_attn_func(q, q, q, causal=True)
    buffer = torch.empty(q.numel() + 1, dtype=q.dtype, device=device)[1:].view_as(q).copy_(q)  # off by two bytes
    assert torch.equal(want, flash_workbook.flash_attn_func(buffer, buffer, buffer, causal=np.bool_(True),
                                                            dropout_p=np.float64(0), softcap=torch.tensor(0.0)))
    lib = flash_workbook.library()
    assert copy.deepcopy({"lib": lib})["lib"].path == lib.path and lib.device_type in flash_workbook.check()
    for nq, nk in ((0, 3), (3, 0), (0, 0)):
        x = [randn(2, n, 2, 16, wants=True) for n in (nq, nk, nk)]
        O, L, _ = flash_workbook.flash_attn_func(*x, causal=True, return_attn_probs=True)
        O.sum().backward()
        assert not O.any() and (L == -torch.inf).all() and not any(y.grad.any() for y in x)


def test_any_arguments():
    """Calls with one argument that may be wrong: numbers that are right, or an error that is meant. None ends the
    process."""
    chance, seen = random.Random(f"{SEED} any"), {"right": 0, "refused": 0}
    number = lambda x: chance.choice([x, np.asarray(x)[()], torch.tensor(x)])

    def tell():  # what on a GPU the next call would
        if device != "cpu":
            torch.cuda.synchronize()
            arguments.raise_what_was_told(torch.device(device, torch.cuda.current_device()))

    for turn in range(2000):
        Nq, Nk, left = chance.randint(0, 9), chance.randint(0, 9), chance.randint(-1, 5)
        causal, scale, kind = chance.random() < 0.5, chance.choice([0.25, 1.0]), chance.randrange(3)
        q, k, v = (randn(1, n, 2, 16) for n in (Nq, Nk, Nk))
        window = chance.choice([list, tuple, np.array, torch.tensor])([left, -1])
        how = {"softmax_scale": number(scale), "causal": number(causal), "window_size": window}
        if kind == 2:
            causal, left, how["window_size"], how["causal"], Nk = True, -1, None, number(True), chance.randint(0, 16)
            k, v = randn(1, 16, 2, 16), randn(1, 16, 2, 16)
            given = {"q": q, "k_cache": k, "v_cache": v, "cache_seqlens": number(Nk), **how,
                     "block_table": torch.zeros(1, 1, dtype=torch.int32, device=device)}
        elif kind == 1:
            cu = [torch.tensor([0, n], dtype=torch.int32, device=device) for n in (Nq, Nk)]
            given = {"q": q[0], "k": k[0], "v": v[0], "cu_seqlens_q": cu[0], "cu_seqlens_k": cu[1], **how}
        else:
            given = {"q": q, "k": k, "v": v, **how}
        wrong = chance.choice(list(given)) if chance.random() < 0.5 else None
        if wrong:
            given[wrong] = chance.choice(WRONG)
        name = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")[kind]
        try:
            O = getattr(flash_workbook, name)(**given)
            tell()
        except (RuntimeError, TypeError, ValueError) as error:
            assert wrong and str(error) and "unpack" not in str(error), (SEED, turn, name, wrong, given, error)
            with contextlib.suppress(RuntimeError):
                tell()
            seen["refused"] += 1
            continue
        assert O.shape == given["q"].shape, (SEED, turn, name, wrong)
        if not wrong:
            Q, K, V = (x.transpose(1, 2) for x in (q, k[:, :Nk], v[:, :Nk]))
            visible = bottom_right(Nq, Nk, ALL if left < 0 else left, 0 if causal else ALL)
            want = oracle(Q, K, V, visible, scale)[0].transpose(1, 2)
            assert (O.reshape(want.shape).double() - want).norm() <= LIMIT * want.norm(), (SEED, turn, name, given)
            seen["right"] += 1
    print(f"SEED={SEED}: {seen}")
    assert min(seen.values()) > 200


@pytest.mark.parametrize("flag", [False, True])
def test_deterministic_is_obeyed(flag):
    q, cu = randn(1, 70, 2, 64, wants=True), torch.tensor([0, 30, 70], dtype=torch.int32, device=device)
    with Asked() as asked:
        flash_workbook.flash_attn_func(q, q, q, causal=True, deterministic=flag).sum().backward()
        flash_workbook.flash_attn_varlen_func(q[0], q[0], q[0], cu, cu, 40, 40, causal=True,
                                              deterministic=flag).sum().backward()
    backward = "flash_workbook.attention_backward", "flash_workbook.varlen_backward"
    assert [x[-2] for name, x in asked.calls if name.startswith(backward)] == [flag] * 2


@drawn(2)
def test_flash_attn_func_compiles_whole(chance):
    torch._dynamo.reset()
    (B, Hq, Hkv, Nq, Nk, D), causal = sizes(chance, 70), chance.choice([(True, (-1, -1)), (True, (9, 0))])
    q, k, v = (randn(B, n, h, D, wants=True) for n, h in ((Nq, Hq), (Nk, Hkv), (Nk, Hkv)))
    call = lambda q, k, v: flash_workbook.flash_attn_func(q, k, v, causal=causal[0], window_size=causal[1],
                                                          deterministic=True)
    compiled = torch.compile(call, fullgraph=True)
    for a, b in zip(*(torch.autograd.grad(f(q, k, v).sum(), (q, k, v)) for f in (call, compiled))):
        assert torch.equal(a, b)
    with torch.no_grad():
        assert torch.equal(call(q, k, v), compiled(q, k, v))


def test_opcheck_of_band():
    Q, K = randn(1, 4, 20, 16), randn(1, 2, 70, 16)
    for slopes, cap in ((None, 0.0), (torch.rand(1, 4, 20, device=device), 2.0)):
        torch.library.opcheck(flash_attn.band, (Q.requires_grad_(), K, K, slopes, 5, 3, 0, cap, 0.25, ""))
    seen = torch.tensor([[3], [50], [9]], dtype=torch.int32, device=device).expand(3, 20).contiguous()
    torch.library.opcheck(flash_attn.scored, (Q.detach(), K, K, seen, slopes, 2.0, 0.25, ""))


@drawn(8)
def test_same_bits_in_any_batch(chance):
    """O, L and gradients of a sequence, whatever the batch, where the library takes the same kernels for both; but for
    hopper_split, which cuts the keys into as many parts as there are multiprocessors for."""
    (_, Hq, Hkv, N, _, D), B, lib = sizes(chance, 300), chance.randint(2, 5), flash_workbook.library().lib
    D, lib.wb_library_kernel.restype = chance.choice([16, 32, 64, 128]), ctypes.c_char_p
    how, names = chance.choice([({}, ("gqa", "gqa_backward")), ({"window": 17}, ("window", "sinks_backward"))])
    kernels = [[lib.wb_library_kernel(f"flash_{name}".encode(), ctypes.byref(flash_workbook.Shape(
        b, Hq, Hkv, N, N, D, D**-0.5, 1, how.get("window", 0), 0))) for name in names] for b in (1, B)]
    x, one, dO = [randn(B, h, N, D, wants=True) for h in (Hq, Hkv, Hkv)], chance.randrange(B), randn(B, Hq, N, D)
    got = []
    for of in (x, [y[one :][:1].detach().requires_grad_() for y in x]):
        O, L = flash_workbook.attention(*of, **how, same_bits=True, return_lse=True)
        got.append([O, L, *torch.autograd.grad(O, of, dO if of is x else dO[one :][:1])])
    same = [torch.equal(a[one :][:1], b) for a, b in zip(*got)]
    other = kernels[0] != kernels[1] or b"split" in kernels[0][0]
    assert all(same) or other, (kernels, same)


# ------------------------ flash_attn_varlen_func


def packed(chance, same):
    """Lengths of queries and keys, some of them 0; where each begins; and how many rows it has of those, or None."""
    lengths = [(chance.choice([0, chance.randint(1, 70)]), chance.choice([0, chance.randint(1, 70)]))
               for _ in range(chance.randint(1, 5))] + [(9, 9)]
    lengths, more = [(n, n) for n, _ in lengths] if same else lengths, chance.choice([0, 9])
    ints = lambda x: torch.tensor(x, dtype=torch.int32, device=device)
    starts = [ints([0, *itertools.accumulate(n + chance.randint(0, more) for n in x)]) for x in zip(*lengths)]
    return lengths, *starts, [ints(x) if more else None for x in zip(*lengths)]


def packed_visible(lengths, cu_q, cu_k, Tq, Tk, *band):
    visible = torch.zeros(Tq, Tk, dtype=torch.bool, device=device)
    for (nq, nk), q, k in zip(lengths, cu_q.tolist(), cu_k.tolist()):
        visible[q : q + nq, k : k + nk] = bottom_right(nq, nk, *band)
    return visible


@drawn(24)
def test_varlen(chance):
    (_, Hq, Hkv, _, _, D), (causal, window), extra = sizes(chance), band(chance), chance.choice([0, 3])
    lengths, cu_q, cu_k, (used_q, used_k) = packed(chance, same=chance.random() < 0.5)
    Tq, Tk = cu_q[-1].item() + extra, cu_k[-1].item() + extra
    q, k, v = (laid_out(chance, 1, n, h, D)[0].detach().requires_grad_() for n, h in ((Tq, Hq), (Tk, Hkv), (Tk, Hkv)))
    sinks, tensors, exact = with_sinks(chance, q, k, v)
    for (_, nk), start, end in zip(lengths, cu_k.tolist(), cu_k.tolist()[1:]):
        for x in (k, v):
            x.data[start + nk : end] = torch.nan
    chunk, (left, right) = chunks(chance), flash_attn.ends_of(causal, window)
    scores = other_scores(chance, len(lengths), Hq)
    how = dict(causal=causal, window_size=window, s_aux=sinks, deterministic=True, seqused_q=used_q, seqused_k=used_k,
               attention_chunk=chunk, **scores)
    bias = torch.zeros(Hq, Tq, Tk, dtype=torch.float64, device=device)
    for s, (nq, nk) in enumerate(lengths if scores["alibi_slopes"] is not None else []):
        slopes = scores["alibi_slopes"].expand(len(lengths), Hq)[s]
        bias[:, cu_q[s] : cu_q[s] + nq, cu_k[s] : cu_k[s] + nk] = bias_of(slopes, nq, nk)
    heads_first = [x.transpose(0, 1)[None] for x in exact[:3]]
    want, L = oracle(*heads_first, packed_visible(lengths, cu_q, cu_k, Tq, Tk, left, right, chunk), D**-0.5,
                     exact[3] if exact[3:] else None, scores["softcap"], bias)
    with torch.no_grad():
        O, logs, _ = flash_workbook.flash_attn_varlen_func(q, k, v, cu_q, cu_k, 70, 70, return_attn_probs=True, **how)
    close(O, want[0].transpose(0, 1))
    close_logs(logs, L[0])
    O, logs, _ = flash_workbook.flash_attn_varlen_func(q, k, v, cu_q, cu_k, 70, 70, return_attn_probs=True, **how)
    dO, dL = torch.randn_like(O), gradients_of_logs(chance, logs)
    # the sinks of rows of no sequence learn nothing of them: their O is zero whatever they are
    if extra and sinks is not None:
        assert not O[-extra:].any()
    got = torch.autograd.grad(O if dL is None else (O, logs), tensors, dO if dL is None else (dO, dL))
    close_gradients(got, want, L, exact, dO.double().transpose(0, 1)[None], None if dL is None else dL[None])


@drawn(8)
def test_varlen_of_pages(chance):
    """block_table: as the same call without one."""
    (_, Hq, Hkv, _, _, D), (causal, window) = sizes(chance), band(chance)
    lengths, cu_q, cu_k, (_, used_k) = packed(chance, same=False)
    how, call = dict(causal=causal, window_size=window), flash_workbook.flash_attn_varlen_func
    q, k, v = (randn(int(cu[-1]), h, D) for h, cu in ((Hq, cu_q), (Hkv, cu_k), (Hkv, cu_k)))
    want, size = call(q, k, v, cu_q, cu_k, seqused_k=used_k, **how), chance.choice([1, 16, 100, 256])
    table = torch.randperm(len(lengths) * (80 // size + 1), device=device).int().view(len(lengths), -1)
    pages = [randn(table.numel(), size, Hkv, D) * torch.nan for _ in range(2)]
    for s, (cache, x) in itertools.product(range(len(lengths)), zip(pages, (k, v))):
        at = torch.arange(int(cu_k[s + 1] - cu_k[s]), device=device)
        cache[table[s].long()[at // size], at % size] = x[cu_k[s] : cu_k[s + 1]]
    close(call(q, *pages, cu_q, cu_k, seqused_k=used_k, block_table=table, **how), want.double())
    if used_k is not None:
        close(call(q, *pages, cu_q, None, seqused_k=used_k, page_table=table, **how), want.double())
        with pytest.raises(RuntimeError, match=r"seqused_k\[0\] = 9999"):
            call(q, k, v, cu_q, cu_k, seqused_k=torch.full_like(used_k, 9999))
    if device == "cpu":  # on a GPU the next call tells
        with pytest.raises(RuntimeError, match=r"block_table, of sequence \d+, column \d+, = 9999"):
            call(q, *pages, cu_q, cu_k, block_table=torch.full_like(table, 9999), **how)


def test_varlen_sees_new_lengths_in_the_same_tensor():
    q = randn(60, 2, 64)
    cu = torch.tensor([0, 20, 60], dtype=torch.int32, device=device)
    first = flash_workbook.flash_attn_varlen_func(q, q, q, cu, cu, 60, 60, causal=True)
    cu[1] = 40
    second = flash_workbook.flash_attn_varlen_func(q, q, q, cu, cu, 60, 60, causal=True)
    again = flash_workbook.flash_attn_varlen_func(q, q, q, cu.clone(), cu.clone(), 60, 60, causal=True)
    assert torch.equal(second, again) and not torch.equal(first, second)


def test_opcheck_of_varlen():
    Q, K, cu = randn(1, 4, 40, 64, wants=True), randn(1, 2, 40, 64, wants=True), torch.tensor([0, 15, 40],
        dtype=torch.int32, device=device)
    used, sinks = torch.tensor([9, 25], dtype=torch.int32, device=device), torch.randn(4, device=device)
    for used_k, slopes in ((None, None), (used, torch.rand(1, 4, 40, device=device))):
        torch.library.opcheck(flash_attn.varlen, (Q, K, K, sinks, cu, None, cu, used_k, slopes, ALL, 0, 0, 0.0, 0.25,
                                                  True, ""))
    torch._dynamo.reset()
    call = lambda *x: flash_workbook.flash_attn_varlen_func(*x, cu, cu, 25, 25, causal=True, deterministic=True)
    x = [randn(40, 2, 64, wants=True) for _ in range(3)]
    for a, b in zip(*(torch.autograd.grad(f(*x).sum(), x) for f in (call, torch.compile(call, fullgraph=True)))):
        assert torch.equal(a, b)


# ------------------------ flash_attn_with_kvcache


def in_bytes(kind, x, descale):
    """Of [..., rows, Hkv, D]: as a cache keeps it, its scales, or None, and what it stands for. descale [..., 1,
    Hkv]."""
    if kind == "int8":
        q, scales = flash_workbook.quantise_cache(x)
        return q, scales, q * scales.transpose(-1, -2)[..., None]
    if kind == "bf16":
        return x, None, x
    q = (x / descale[..., None]).clamp(-448, 448).to(flash_attn.E4M3)
    return q, None, q.float() * descale[..., None]


@drawn(48)
def test_kvcache(chance):
    (B, Hq, Hkv, _, _, D), Nq, how = sizes(chance), chance.choice([1, 1, 2, 5, 16, 20]), (True, (-1, -1))
    causal, window = chance.choice([how, band(chance)])
    left, right = flash_attn.ends_of(causal, window)
    size, most = chance.choice([16, 32, 64, 128, 256, 1, 48, 100]), chance.randint(1, 3)
    if chance.random() < 0.5:
        size, most = 16, chance.randint(2, 9)
    q, kind = laid_out(chance, B, Nq, Hq, D).detach(), chance.choice(["bf16", "bf16", "int8", "e4m3"])
    paged = chance.random() < 0.6
    news = chance.choice([0, 0, Nq])
    most = max(most, -(-news // size))
    lengths = torch.tensor([chance.randint(0, most * size - news) for _ in range(B)], dtype=torch.int32, device=device)
    rows = B + 2
    table = torch.randperm(rows * most, device=device).int().view(rows, most)
    index = None if paged and chance.random() < 0.5 else torch.tensor(chance.sample(range(rows), B), dtype=torch.int32,
                                                                      device=device)
    caches = [randn(rows * most, size, Hkv, d) for d in (D, chance.choice([D, D, 8 * chance.randint(1, 16)]))]
    k, v = ([randn(B, news, Hkv, x.shape[3]) for x in caches] if news else (None, None))
    sinks, scale = chance.choice([None, torch.randn(Hq, device=device)]), chance.choice([None, 0.3])
    leftpad = chance.choice([None, None, torch.tensor([chance.randint(0, n + news) for n in lengths.tolist()],
                                                      dtype=torch.int32, device=device)])
    if not paged:
        caches = [x.view(rows, most * size, *x.shape[2:]) for x in caches]
        table = torch.arange(rows, device=device).int()[:, None]
    used = table[:B] if index is None else table[index.long()]
    # some of the queries and new keys of each, as one tensor
    packed, chunk = chance.random() < 0.3, chunks(chance)
    some = lambda n: [chance.randint(min(n, 1), n) if packed else n for _ in range(B)]
    nq, nk, given = some(Nq), some(news), {}
    starts = lambda x: torch.tensor([0, *itertools.accumulate(x)], dtype=torch.int32, device=device)
    in_one = lambda x, n: torch.cat([one[:m] for one, m in zip(x, n)])
    if packed:
        given = {"cu_seqlens_q": starts(nq), "max_seqlen_q": chance.choice([None, Nq])}
        given.update({"cu_seqlens_k_new": starts(nk)} if news else {})
    # what is wanted: the keys gathered, the new ones behind them
    wanted, tensors, scores = [], [], other_scores(chance, B, Hq)
    for which, cache, new in zip("kv", caches, (k, v)):
        descale, one = torch.rand(B, Hkv, device=device) / 32 + 0.01, chance.choice([0.002, 0.03])
        if kind == "e4m3":  # of 0.002 times 448 some are cut
            given[f"{which}_descale"] = of = chance.choice([descale, one, torch.tensor([one], device=device), None])
            if of is not descale:
                descale.fill_(1 if of is None else one)
        bytes_, scales, _ = in_bytes(kind, cache, descale.mean(0, keepdim=True))
        tensors.append(bytes_)
        meant = [bytes_.float() * d[:, None] if kind == "e4m3" else in_bytes(kind, cache, None)[2] for d in descale]
        if scales is not None:
            given[f"{which}_scale"] = scales
        if news:
            new = in_bytes(kind, new, descale[:, None])[2]
        gathered = [torch.cat([meant[b][used[b].long()].flatten(0, 1)[: lengths[b]]] + ([new[b][: nk[b]]] if news else
                              [])) for b in range(B)]
        wanted.append([x if leftpad is None else x[leftpad[b] :] for b, x in enumerate(gathered)])
    if paged:
        given["block_table"] = table[:B] if index is None else table
    new = [in_one(x, nk) if packed and news else x for x in (k, v)]
    O, logs = flash_workbook.flash_attn_with_kvcache(in_one(q, nq) if packed else q, *tensors, *new,
                                                     cache_seqlens=lengths, cache_batch_idx=index, causal=causal,
                                                     window_size=window, softmax_scale=scale, cache_leftpad=leftpad,
                                                     return_softmax_lse=True, s_aux=sinks, attention_chunk=chunk,
                                                     **scores, **given)
    if packed:
        O, logs = O.split(nq), logs.split(nq, 1)
    for b in range(B):
        visible = bottom_right(nq[b], len(wanted[0][b]), left, right, chunk)
        K, V = (x[b].transpose(0, 1)[None] for x in wanted)
        slopes = scores["alibi_slopes"]
        bias = bias_of(slopes if slopes is None else slopes.expand(B, Hq)[b], nq[b], len(wanted[0][b]))
        want, L = oracle(q[b, : nq[b]].transpose(0, 1)[None], K, V, visible, scale or D**-0.5, sinks, scores["softcap"],
                         bias)
        close(O[b], want[0].transpose(0, 1), LIMIT if kind == "bf16" else 2**-6)
        if kind == "bf16":
            close_logs(logs[b], L[0])


def test_each_byte_of_e4m3():
    """As keys, which L shows, and as values, of two sequences of two heads with a key each; the NaN apart."""
    bytes_ = torch.arange(256, dtype=torch.uint8, device=device)
    cache = bytes_.masked_fill(bytes_ % 128 == 127, 0).view(flash_attn.E4M3).view(2, 1, 2, 64)
    q = torch.eye(64, device=device).bfloat16().repeat(2, 1, 2, 1)
    scales = torch.tensor([[0.75, 6], [3, 1.5]], device=device)
    O, L = flash_workbook.flash_attn_with_kvcache(q, *[cache.expand(2, 16, 2, 64).contiguous()] * 2, cache_seqlens=1,
                                                  softmax_scale=0.5, k_descale=scales, v_descale=scales.T,
                                                  return_softmax_lse=True)
    meant = cache[:, 0].float()
    assert torch.equal(O[:, 0].float(), (meant * scales.T[..., None]).repeat_interleave(64, 1))
    assert torch.allclose(L[..., 0], (meant * scales[..., None]).flatten(1) * 0.5, rtol=1e-6, atol=0)


def test_quantise_cache_is_the_librarys():
    lib, x = flash_workbook.library().lib, torch.cat([torch.randn(3, 4, 2, 64), torch.zeros(1, 4, 2, 64),
                                                      torch.full((1, 4, 2, 64), 1e-39)]).bfloat16()
    lib.wb_quantise_row.restype = ctypes.c_float
    q, scale = flash_workbook.quantise_cache(x.to(device))
    for page, row, head in itertools.product(range(5), range(4), range(2)):
        floats, bytes_ = x[page, row, head].float().contiguous(), torch.empty(64, dtype=torch.int8)
        one = lib.wb_quantise_row(ctypes.c_void_p(bytes_.data_ptr()), ctypes.c_void_p(floats.data_ptr()), 64)
        assert one == scale[page, head, row].item() and bytes_.equal(q[page, row, head].cpu())


def test_kvcache_refuses_by_name():
    q, cache = randn(1, 2, 2, 64), randn(1, 64, 2, 64)
    call = flash_workbook.flash_attn_with_kvcache
    for given, word in (({"rotary_cos": q}, "rotary_cos"), ({"k_cache": cache[:, :0]}, "without keys"),
                        ({"causal": True, "k_cache": randn(1, 64, 2, 128)[..., ::2]}, "contiguous")):
        with pytest.raises(Refused, match=word):
            given = {"k_cache": cache, **given}
            call(q, *[given.pop("k_cache")] * 2, **given)
    with pytest.raises(TypeError, match="int8"):
        call(q, cache.to(torch.int8), cache.to(torch.int8), causal=True)
    bytes_, scales = flash_workbook.quantise_cache(cache)
    eight = cache.to(flash_attn.E4M3)
    with pytest.raises(Refused, match="q in float8_e4m3fn"):
        call(q.to(eight.dtype), eight, eight)
    for given, word in (({"k_descale": scales}, "k_descale"), ({"v_descale": scales[0, :, 0].double()}, "v_descale"),
                        ({"v_scale": scales}, "k_scale")):
        with pytest.raises(ValueError, match=word + " must be"):
            call(q, eight, eight, **given)
    for wrong in (None, scales[..., 1:], scales.double()):
        with pytest.raises(ValueError, match="v_scale must be"):
            call(q, bytes_, bytes_, causal=True, k_scale=scales, v_scale=wrong)
    with pytest.raises(Refused, match="head_dim = 136"):
        call(randn(1, 1, 2, 136), *[randn(1, 64, 2, 136)] * 2)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("which, at, word", [("block_table", (1, 2), r"block_table, of sequence 1, column 2, = "),
                                             ("cache_seqlens", 2, r"cache_seqlens\[2\] = "),
                                             ("cache_batch_idx", 0, r"cache_batch_idx\[0\] = ")])
def test_kvcache_tells_what_is_out_of_range(which, at, word, dtype):
    """On a GPU no kernel follows it, and the next call raises."""
    q, cache, other = randn(3, 1, 4, 64), randn(12, 16, 2, 64), 0 if which == "block_table" else 1
    given = {"block_table": torch.arange(12).view(4, 3), "cache_seqlens": torch.tensor([48, 40, 17]),
             "cache_batch_idx": torch.tensor([3, 1, 2])}
    given = {name: x.to(device, dtype) for name, x in given.items()}
    call = lambda given: flash_workbook.flash_attn_with_kvcache(q, cache, cache, causal=True, **given)
    want = call(given)
    for value in (-5, 99, *[2**32 + 1] * (dtype is torch.int64)):
        wrong = {**given, which: given[which].clone()}
        wrong[which][at] = value
        if device != "cpu":
            assert call(wrong)[other].equal(want[other])
            torch.cuda.synchronize()
        with pytest.raises(RuntimeError, match=word):
            call(wrong if device == "cpu" else given)
        assert call(given).equal(want)


def test_in_range_leaves_right_ones():
    table, n, rows = torch.randint(0, 9, (5, 7)), torch.tensor([0, 100, 33]), torch.tensor([4, 0, 4])
    table, n, rows = (x.to(device, torch.int64) for x in (table, n, rows))
    for index in (None, rows):
        args = (table if index is not None else table[:3], n, index, 12, 16, 9)
        table_out, n_out = arguments.in_range_now(*args)
        used = torch.arange(7, device=device) * 16 < (n + 12)[:, None]
        assert n_out.equal((n + 12).int()) and table_out.equal(torch.where(used, args[0][index] if index is not None
                                                                           else args[0], 0).int())
        torch.library.opcheck(arguments.in_range, args)
    arguments.raise_what_was_told(table.device)


def test_opcheck_of_decode_and_compiled():
    Q, K, table, n = randn(2, 4, 1, 64), randn(5, 16, 2, 64), torch.tensor([[0, 1], [4, 2]], dtype=torch.int32,
        device=device), torch.tensor([5, 30], dtype=torch.int32, device=device)
    torch.library.opcheck(flash_attn.decode, (Q, K, K, None, None, table, n, 0.1, ""))
    (K8, scales), torch_q, new = flash_workbook.quantise_cache(K), Q.transpose(1, 2), randn(2, 1, 2, 64)
    torch.library.opcheck(flash_attn.decode, (Q, K8, K8, scales, scales, table, n, 0.1, ""))
    torch._dynamo.reset()
    call = lambda q, cache, new: flash_workbook.flash_attn_with_kvcache(q, cache, cache, new, new, cache_seqlens=n,
        block_table=table)
    one, other = K.clone(), K.clone()
    assert torch.equal(call(torch_q, one, new), torch.compile(call, fullgraph=True)(torch_q, other,
        new)) and torch.equal(one, other) and not torch.equal(one, K)


# ------------------------ block masks


def mask_mod(chance, B, Nq, Nk):
    document = torch.randint(0, 40, (B, max(Nq, Nk)), device=device).eq(0).cumsum(1)
    table = torch.rand(B, Nq, Nk, device=device) < 0.3
    prefix, width = chance.randint(0, Nk), chance.randint(1, 100)
    return chance.choice([
        lambda b, h, i, j: (document[b, i] == document[b, j]) & (j <= i),
        lambda b, h, i, j: (j <= i) | (j < prefix),
        lambda b, h, i, j: (i - j).abs() < width,
        lambda b, h, i, j: table[b, i, j],
        lambda b, h, i, j: i >= prefix,
    ])


def matrix_lists(visible, q_tile):
    """The library's own lists, from a matrix [masks, Nq, Nk], as Python's lists."""
    lib, host = flash_workbook.library().lib, BlockMaskStruct()
    lib.wb_block_mask_free.restype = None
    matrix, (count, Nq, Nk) = visible.cpu().to(torch.uint8).contiguous(), visible.shape
    assert lib.wb_block_mask_from_matrix(ctypes.byref(host), q_tile, 64, count, Nq, Nk,
                                         ctypes.c_void_p(matrix.data_ptr())) == 0
    read = lambda name, n: list((ctypes.c_int32 * n).from_address(getattr(host, name))) if n else []
    starts = count * ((Nq - 1) // q_tile + 2)
    whole_start, part_start = read("whole_start", starts), read("part_start", starts)
    all_ = whole_start, read("whole", whole_start[-1]), part_start, read("part", part_start[-1]), read("bits",
        part_start[-1] * q_tile * 2)
    lib.wb_block_mask_free(ctypes.byref(host))
    return all_


@drawn(12)
def test_block_mask(chance):
    B, Hq, Hkv, Nq, Nk, D = sizes(chance, 330)
    own = chance.random() < 0.5
    mod = mask_mod(chance, B if own else 1, Nq, Nk)
    blocks = create_block_mask(mod, B if own else None, None, Nq, Nk, device=device,
                               BLOCK_SIZE=chance.choice([64, 128, (128, 64), (256, 128), (192, 128)]))
    visible = create_mask(mod, B if own else 1, 1, Nq, Nk, device=device)
    mask = flash_workbook.block_mask(blocks)
    whole_start, whole, part_start, part, bits = matrix_lists(visible[:, 0], mask.q_tile)
    assert mask.whole_start.flatten().tolist() == whole_start and mask.part_start.flatten().tolist() == part_start
    assert mask.whole[: len(whole)].tolist() == whole and mask.part[: len(part)].tolist() == part
    assert not bits or mask.bits.flatten().tolist() == bits
    Q, K, V = (laid_out(chance, B, n, h, D).detach().transpose(1, 2) for n, h in ((Nq, Hq), (Nk, Hkv), (Nk, Hkv)))
    want, L = oracle(Q, K, V, visible, D**-0.5)
    O, logs = flash_workbook.attention(Q, K, V, block_mask=blocks, return_lse=True)
    close(O, want)
    close_logs(logs, L)
    assert torch.equal(O, flash_workbook.attention(Q, K, V, block_mask=mask))


def test_block_mask_as_listed_and_refusals():
    # Lists that no mask_mod made: the full block counts whole though mask_mod would hide half of it, and it ends with
    # the last key.
    number, index = (torch.tensor(x, dtype=torch.int32, device=device) for x in ([[[1, 0]]], [[[[1, 0], [1, 0]]]]))
    blocks = BlockMask.from_kv_blocks(number, index, number.flip(-1), index, BLOCK_SIZE=128, mask_mod=lambda b, h, i,
                                      j: (i + j) % 2 == 0, seq_lengths=(256, 200))
    Q, K = randn(1, 2, 256, 64), randn(1, 2, 200, 64)
    i, j = torch.arange(256, device=device)[:, None], torch.arange(200, device=device)
    visible = (j >= 128) & ((i >= 128) | ((i + j) % 2 == 0))
    close(flash_workbook.attention(Q, K, K, block_mask=blocks), oracle(Q, K, K, visible, 1 / 8)[0])
    causal = lambda b, h, i, j: j <= i
    mask = create_block_mask(causal, None, 2, 256, 200, device=device)
    with pytest.raises(Refused, match="H=2"):
        flash_workbook.attention(Q, K, K, block_mask=mask)
    with pytest.raises(Refused, match="BLOCK_SIZE"):
        flash_workbook.attention(Q, K, K, block_mask=create_block_mask(causal, None, None, 256, 200, device=device,
            BLOCK_SIZE=32))
    mask = create_block_mask(causal, None, None, 256, 200, device=device)
    with pytest.raises(Refused, match="no gradients"):
        flash_workbook.attention(Q.requires_grad_(), K, K, block_mask=mask)
    with pytest.raises(ValueError, match="256 x 200"):
        flash_workbook.attention(K, K, K, block_mask=mask)
    with pytest.raises(Exception, match="build the mask outside"):
        torch.compile(flash_workbook.attention, fullgraph=True)(K, K, K, block_mask=mask)


def test_opcheck_of_masked_and_compiled():
    Q, K = randn(1, 4, 130, 64), randn(1, 2, 200, 64)
    mask = flash_workbook.block_mask(create_block_mask(lambda b, h, i, j: j <= i, None, None, 130, 200, device=device))
    torch.library.opcheck(masks.masked, (Q, K, K, *mask.fitting(Q, K), 0.1, ""))
    torch._dynamo.reset()
    call = lambda q: flash_workbook.attention(q, K, K, block_mask=mask)
    assert torch.equal(call(Q), torch.compile(call, fullgraph=True)(Q))


# ------------------------ eight bits


def of_many_sizes(chance, *sizes):
    """Rows, and tiles of 64, from 2^-30 to 2^6; now and then the least and the largest that there are, and zeros."""
    x = torch.randn(*sizes) * torch.randint(-18, 4, (*sizes[:3], 1)).float().exp2() * torch.randint(-12, 3,
        (*sizes[:2], 1, 1)).float().exp2()
    if chance.random() < 0.3:
        x[0, 0, 0] = chance.choice([0.0, -0.0, 1e-40, 1.5e38, 448 * 2.0**100, 449 * 2.0**-20])
    return x


@drawn(12)
def test_quantise_fp8_is_the_librarys(chance):
    lib, at = flash_workbook.library().lib, lambda x: ctypes.c_void_p(x.data_ptr())
    B, Hq, Hkv, Nq, Nk, _ = sizes(chance)
    D = chance.choice([64, 128, 256])
    Q, K, V = (of_many_sizes(chance, B, h, n, D) for h, n in ((Hq, Nq), (Hkv, Nk), (Hkv, Nk)))
    eight = [x.cpu() for x in flash_workbook.quantise_fp8(*(x.to(device) for x in (Q, K, V)))]
    eight[:3] = [x.view(torch.uint8) for x in eight[:3]]
    for b, h, i in itertools.product(range(B), range(Hq), range(Nq)):
        q = torch.empty(D, dtype=torch.uint8)
        assert lib.wb_quantise_fp8(at(q), at(Q[b, h, i].contiguous()), 1, D) == eight[3][b, h,
            i] and q.equal(eight[0][b, h, i])
    for b, h, t in itertools.product(range(B), range(Hkv), range((Nk - 1) // 64 + 1)):
        k, v = (x[b, h, 64 * t :][:64].contiguous() for x in (K, V))
        K8, V8 = torch.empty(len(k), D, dtype=torch.uint8), torch.empty(D, 64, dtype=torch.uint8)
        assert lib.wb_quantise_fp8(at(K8), at(k), len(k), D) == eight[4][b, h,
            t] and K8.equal(eight[1][b, h, 64 * t :][:64])
        assert lib.wb_quantise_fp8_values(at(V8), at(v), len(v), D) == eight[5][b, h, t] and V8.equal(eight[2][b, h, t])


@drawn(8)
@pytest.mark.skipif(not full_has_gradients(), reason="needs sm_90")
def test_quantise_fp8_at_once(chance):
    """In bf16, by one kernel: the bits that torch makes of the same numbers in float32; and what Hadamard leaves as it
    was."""
    (B, Hq, Hkv, Nq, Nk, _), D = sizes(chance), chance.choice([64, 128, 256])
    Q, K, V = (of_many_sizes(chance, B, h, n, D).clamp(-(2.0**119), 2.0**119).bfloat16().to(device)
               for h, n in ((Hq, Nq), (Hkv, Nk), (Hkv, Nk)))
    for one, other in zip(flash_workbook.quantise_fp8(Q, K, V),
                          flash_workbook.quantise_fp8(*(x.float() for x in (Q, K, V)))):
        assert one.shape == other.shape and torch.equal(one.view(torch.uint8), other.view(torch.uint8))
    Q, K, V = (randn(B, h, n, D) for h, n in ((Hq, Nq), (Hkv, Nk), (Hkv, Nk)))
    spread = flash_workbook.quantise_fp8(Q, K, V, hadamard=True)
    assert torch.equal(spread.V_exponent, flash_workbook.quantise_fp8(Q, K, V).V_exponent)
    close(flash_workbook.attention_fp8(*spread, causal=False),
          oracle(Q, K, V, bottom_right(Nq, Nk), D**-0.5)[0], 2**-3)
    with pytest.raises(Refused, match="in bf16"):
        flash_workbook.quantise_fp8(Q.float(), K, V, hadamard=True)


@pytest.mark.skipif(not full_has_gradients(), reason="needs sm_90")
def test_fp8_compiles_whole():
    Q, K = randn(1, 4, 130, 64).transpose(1, 2).contiguous().transpose(1, 2), randn(1, 2, 130, 64)
    call = lambda q: flash_workbook.attention_fp8(q, K, K)
    torch._dynamo.reset()
    assert torch.equal(call(Q), torch.compile(call, fullgraph=True)(Q))
    tries = ("test_autograd_registration", "test_faketensor")
    torch.library.opcheck(flash_workbook.fp8.quantised, (Q, K, K, True, ""), test_utils=tries)


def meant(eight, Nk):
    """The numbers that an Eight stands for, in float64."""
    power = lambda e: torch.exp2(e.double())
    V = torch.empty(*eight.V.shape[:3], 64, eight.V.shape[3], dtype=torch.float64, device=device)
    order = [16 * (i // 16) + (0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)[i % 16] for i in range(64)]
    V[:, :, :, order] = eight.V.double().mT * power(eight.V_exponent)[..., None, None]
    K = eight.K.double() * power(eight.K_exponent).repeat_interleave(64, 2)[:, :, :Nk, None]
    return eight.Q.double() * power(eight.Q_exponent)[..., None], K, V.flatten(2, 3)[:, :, :Nk]


@drawn(8)
@pytest.mark.skipif(not full_has_gradients(), reason="needs sm_90")
def test_fp8(chance):
    (B, Hq, Hkv, Nq, Nk, _), D, causal = sizes(chance), chance.choice([64, 128]), chance.random() < 0.5
    Nq = Nk if causal else Nq
    Q, K, V = (randn(B, h, n, D) for h, n in ((Hq, Nq), (Hkv, Nk), (Hkv, Nk)))
    eight = flash_workbook.quantise_fp8(Q, K, V)
    levels, visible = chance.choice([1, 2]), bottom_right(Nq, Nk, ALL, 0 if causal else ALL)
    O, logs = flash_workbook.attention_fp8(*eight, causal=causal, levels=levels, return_lse=True)
    # P meets V in e4m3, 2^-4 of it off at most; tests/16_flash_fp8.c derives this element by element.
    close(O, oracle(*meant(eight, Nk), visible, D**-0.5)[0], 2**-4)
    assert torch.equal(O, flash_workbook.attention_fp8(Q, K, V, causal=causal, levels=levels))
    shuffled = eight._replace(V=eight.V.view(torch.uint8).flip(-1).view(eight.V.dtype))
    assert Nk == 1 or far(flash_workbook.attention_fp8(*shuffled, causal=causal),
                          oracle(*meant(eight, Nk), visible, D**-0.5)[0]) > 2**-4
    # test_schema multiplies e4m3 numbers, which torch cannot
    tries = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(flash_workbook.fp8.fp8, (*eight, levels, causal, 0.1, ""), test_utils=tries)


def test_fp8_refuses_by_name():
    Q, K = randn(1, 2, 70, 64), randn(1, 2, 70, 32)
    eight = flash_workbook.quantise_fp8(Q, Q, Q)
    with pytest.raises(ValueError, match="V is .* 5 dimensions"):
        flash_workbook.attention_fp8(*eight._replace(V=eight.K))
    with pytest.raises(ValueError, match="K_exponent"):
        flash_workbook.attention_fp8(*eight._replace(K_exponent=eight.K_exponent.int()))
    with pytest.raises(Refused, match="head_dim|sm_90|capability"):
        flash_workbook.attention_fp8(K, K, K)
    with pytest.raises(Refused, match="levels|sm_90|capability"):
        flash_workbook.attention_fp8(*eight, levels=3)
    with pytest.raises(Refused, match="no gradients"):
        flash_workbook.attention_fp8(Q.requires_grad_(), Q, Q)


# ------------------------ wrong once


def test_shapes_are_one_where_kernels_read_them():
    Q, K = randn(2, 2, 8, 64), randn(2, 2, 8, 64)
    for name, x in (("K", K[:1]), ("V", K[:, :, :4]), ("V", K[:, :1]), ("V", randn(2, 2, 8, 128)),
                    ("K", randn(2, 2, 8, 128)), ("K", randn(2, 3, 8, 64))):
        given = {"Q": Q, "K": K, "V": K, name: x}
        for call in (flash_workbook.attention_fp8, flash_workbook.quantise_fp8):
            with pytest.raises(ValueError, match="is .*is .*"):
                call(**given)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_default_dtype_and_device_are_not_the_kernels(dtype):
    q, cache = torch.zeros(1, 1, 1, 16, device=device).bfloat16(), torch.ones(1, 16, 1, 16, device=device)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        torch.set_default_device("meta")
        O = flash_workbook.flash_attn_with_kvcache(q, *[cache.to(flash_attn.E4M3)] * 2)
        arguments.told.cache_clear()
        more = [flash_workbook.flash_attn_with_kvcache(q, *[cache.bfloat16()] * 2, window_size=(3, 0)),
                flash_workbook.flash_attn_func(q, *[cache.bfloat16()] * 2, window_size=(2, 1)),
                flash_workbook.flash_attn_varlen_func(q, *[cache.bfloat16()] * 2, softcap=3.0)]
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(before)
    assert all((x == 1).all() for x in (O, *more))


def test_lengths_that_nobody_counted():
    """Written to through .data: seen on the host, and on a GPU after forget_mask()."""
    v = torch.arange(1, 13, device=device).bfloat16()[:, None, None].expand(12, 1, 16)
    cu, q = torch.tensor([0, 3, 12], dtype=torch.int32, device=device), torch.zeros_like(v)
    call = lambda: flash_workbook.flash_attn_varlen_func(q, q, v, cu, cu)[[0, 11], 0, 0].tolist()
    assert call() == [2, 8]
    cu.data[1] = 6
    if device != "cpu":
        flash_workbook.forget_mask()
    assert call() == [3.5, 9.5]
    with torch.inference_mode():
        inside = cu.clone()
        assert [flash_workbook.flash_attn_varlen_func(q, q, v, inside, inside)[0, 0, 0].item() for _ in "12"] == [3.5] * 2


def test_derivatives_that_there_are_not():
    q = randn(1, 5, 2, 16)
    cu = torch.tensor([0, 2, 5], dtype=torch.int32, device=device)
    calls = (lambda x: flash_workbook.flash_attn_func(x, q, q, causal=True), lambda x: flash_workbook.attention(x, q, q),
             lambda x: flash_workbook.flash_attn_varlen_func(x[0], q[0], q[0], cu, cu),
             lambda x: flash_workbook.flash_attn_func(x, q, q, softcap=2.0),
             lambda x: flash_workbook.flash_attn_with_kvcache(x, q.repeat(1, 16, 1, 1), q.repeat(1, 16, 1, 1)))
    for call in calls:
        total = lambda x: call(x).float().sum()
        for wrong in (lambda: torch.func.jvp(call, (q,), (q,)), lambda: torch.func.grad(total)(q),
                      lambda: torch.func.vmap(torch.func.grad(total))(q[None])):
            with pytest.raises(NotImplementedError, match="torch.func|forward-mode"):
                wrong()
        with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward-mode"):
            call(torch.autograd.forward_ad.make_dual(q, q))
    for call in calls[:4]:
        x = q.clone().requires_grad_()
        first, = torch.autograd.grad(call(x).float().square().sum(), x, create_graph=True)
        with pytest.raises(NotImplementedError, match="second derivatives|not implemented"):
            first.float().square().sum().backward()


def test_numbers_that_want_a_gradient():
    q, one = randn(1, 5, 2, 16), torch.tensor(0.25, requires_grad=True)
    cu, wide = torch.tensor([0, 5], dtype=torch.int32, device=device), torch.ones(2, device=device, requires_grad=True)
    calls = (lambda **how: flash_workbook.flash_attn_func(q, q, q, **how),
             lambda **how: flash_workbook.flash_attn_varlen_func(q[0], q[0], q[0], cu, cu, **how),
             lambda **how: flash_workbook.flash_attn_with_kvcache(q, *[q.repeat(1, 16, 1, 1)] * 2, **how))
    for call, _ in itertools.product(calls, "12"):
        for how in ({"softmax_scale": one}, {"alibi_slopes": wide}):
            with pytest.raises(Refused, match="has no gradient"):
                call(**how)
    with pytest.raises(Refused, match="scale has no gradient"):
        flash_workbook.attention(q, q, q, scale=one)


@drawn(24)
def test_other_rows_do_not_reach_a_sequence(chance):
    """NaN and infinities in rows of one sequence, and in those of none before, between and behind: each other has what
    it has alone."""
    D, Hkv, causal, softcap = chance.choice([16, 32, 64, 128]), chance.randint(1, 2), *chance.choices([0, 0, 1, 2], k=2)
    Hq, window, how = 2 * Hkv, chance.choice([(-1, -1), (-1, -1), (40, 9)]), {"return_attn_probs": True}
    lengths = [(n, chance.choice([n, n, chance.randint(0, 150)])) for n in (chance.randint(1, 150) for _ in range(3))]
    bad, dirty = chance.choice([torch.nan, torch.inf, -torch.inf]), chance.choice([0, 1, 2, None])
    ends = [list(itertools.accumulate(chance.choice([0, 0, 9]) + n for n in (0, *x))) for x in zip(*lengths)]
    used = [torch.tensor(x, dtype=torch.int32, device=device) for x in zip(*lengths)]
    cu = [torch.tensor(x, dtype=torch.int32, device=device) for x in ends]
    q, k, v, dO = (torch.full((x[-1] + chance.choice([0, 30]), h, D), bad, device=device).bfloat16()
                   for h, x in ((Hq, ends[0]), (Hkv, ends[1]), (Hkv, ends[1]), (Hq, ends[0])))
    k, v, dO = k[: min(len(k), len(v))], v[: min(len(k), len(v))], torch.full_like(q, bad)
    how |= {"softcap": float(softcap), "causal": bool(causal), "window_size": window}
    if chance.random() < 0.3:
        how["alibi_slopes"] = torch.rand(Hq, device=device)
    each = [[slice(at, at + n) for at, n in zip(x, y)] for x, y in zip(ends, zip(*lengths))]
    for s, (rows, keys) in enumerate(zip(*each)):
        for x, at in ((q, rows), (k, keys), (v, keys), (dO, rows)):
            if s != dirty or chance.random() < 0.2:
                x[at] = randn(*x[at].shape)
    x = [y.clone().requires_grad_() for y in (q, k, v)]
    O, L, _ = flash_workbook.flash_attn_varlen_func(*x, *cu, seqused_q=used[0], seqused_k=used[1], **how)
    got = [O.clone(), L.T.clone(), *torch.autograd.grad(O, x, dO)]
    for s, at in enumerate(zip(*each)):
        at = [at[i] for i in (0, 0, 0, 1, 1)]
        if s != dirty:
            alone = [y[i].detach()[None].requires_grad_() for y, i in zip(x, (at[0], at[3], at[3]))]
            O, L, _ = flash_workbook.flash_attn_func(*alone, **how)
            want = [O, L.mT, *torch.autograd.grad(O, alone, dO[None, at[0]])]
            close_logs(got[1][at[0]], want[1][0])
            for y, i, wanted in zip(got[::2] + got[3::2], at[::2] + at[3::2], want[::2] + want[3::2]):
                assert y[i].isfinite().all() and (y[i] - wanted[0]).norm() <= LIMIT * wanted.norm() + 2**-9
        for y, i in zip(got, at):
            y[i] = -torch.inf if y is got[1] else 0
    assert not any(y.any() for y in got[::2] + got[3::2]) and (got[1] == -torch.inf).all()
    q[:, :], q[len(q) // 2 :], cu = 1.0, bad, torch.tensor([0, len(q) // 2], dtype=torch.int32, device=device)
    for _ in "12":  # the second by the mask that the first has made
        O = flash_workbook.flash_attn_varlen_func(*[q.detach()] * 3, cu, cu)
        assert (O[: len(q) // 2] == 1).all() and not O[len(q) // 2 :].any()


def test_starts_are_named():
    q, cache = randn(4, 1, 16), randn(2, 16, 1, 16)
    ints = lambda *x: torch.tensor(x, dtype=torch.int32, device=device)
    call = lambda **how: flash_workbook.flash_attn_with_kvcache(q, cache, cache, **{"cu_seqlens_q": ints(0, 2, 4), **how})
    news = {"k": q, "v": q, "cache_seqlens": ints(3, 3)}
    assert call(cu_seqlens_k_new=ints(0, 2, 4), **news).shape == q.shape
    for cu, entry in ((ints(0, 2, 9), r"\[2\] = 9"), (ints(0, 4, 2), r"\[2\] = 2"), (ints(-3, 2, 4), r"\[0\] = -3")):
        with pytest.raises(RuntimeError, match="cu_seqlens_q" + entry):
            call(cu_seqlens_q=cu)
        if device == "cpu":
            with pytest.raises(RuntimeError, match="cu_seqlens_k_new" + entry):
                call(cu_seqlens_k_new=cu, **news)
        with pytest.raises(RuntimeError, match="cu_seqlens_q" + entry):
            flash_workbook.flash_attn_varlen_func(q, q, q, cu, cu)
    for most in (1, 0, -1) if device == "cpu" else (-1,):
        with pytest.raises(ValueError, match=f"max_seqlen_q = {most}"):
            call(max_seqlen_q=most)
    with pytest.raises(ValueError, match="cu_seqlens_q is empty"):
        call(cu_seqlens_q=ints())
    with pytest.raises(ValueError, match="cu_seqlens_q is empty"):
        flash_workbook.flash_attn_varlen_func(q, q, q, ints(), ints())


def test_kvcache_under_autocast():
    q, new, cache = torch.randn(1, 1, 2, 16, device=device), torch.randn(1, 1, 2, 16, device=device), randn(1, 16, 2, 16)
    call = lambda q, k, v: flash_workbook.flash_attn_with_kvcache(q, cache.clone(), cache.clone(), k, v, cache_seqlens=3)
    with torch.autocast(device, torch.bfloat16):
        assert torch.equal(call(q, new, new), call(*(x.bfloat16() for x in (q, new, new))))
        for k, v, name in ((new.half(), new, "k"), (new, new.half(), "v")):
            with pytest.raises(TypeError, match=f"{name} is float16, expected bfloat16"):
                call(q, k, v)


def test_pointers_that_are_null():
    lib, shape = flash_workbook.library().lib, flash_workbook.Shape(1, 1, 1, 64, 64, 64, 0.1, 1, 0, 0)
    lib.wb_library_kernel.restype, lib.wb_block_mask_free.restype = ctypes.c_char_p, None
    assert lib.wb_device_alloc(None, ctypes.c_size_t(16)) and b"null" in lib.wb_last_message()
    lib.wb_block_mask_free(None)
    assert lib.wb_library_kernel(b"flash_gqa", ctypes.byref(shape))
    shape.head_dim = 2**20
    for name, of in ((None, ctypes.byref(shape)), (b"flash_gqa", None), (b"flash_gqa", ctypes.byref(shape))):
        assert lib.wb_library_kernel(name, of) == b"" and lib.wb_last_message()
    again = pickle.loads(pickle.dumps(Refused(3, "so")))
    assert (again.status, str(again)) == (3, "so") and copy.copy(again).status == 3


# ------------------------ GPUs


@pytest.mark.skipif(device == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("what", ["func", "varlen", "kvcache"])
def test_captured_in_a_graph(what):
    q, k = randn(2, 3, 4, 64), randn(2, 64, 2, 64)
    cu_q, cu_k = (torch.tensor([0, n, 2 * n], dtype=torch.int32, device=device) for n in (3, 64))
    calls = {"func": lambda: flash_workbook.flash_attn_func(q, k, k, causal=True),
             "varlen": lambda: flash_workbook.flash_attn_varlen_func(q.flatten(0, 1), k.flatten(0, 1), k.flatten(0, 1),
                                                                     cu_q, cu_k, 3, 64, causal=True),
             "kvcache": lambda: flash_workbook.flash_attn_with_kvcache(q, k, k, causal=True)}
    want, graph = calls[what](), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        got = calls[what]()
    flash_attn.band_mask.cache_clear()  # the graph keeps what it reads
    calls["varlen"] = lambda q=q: flash_workbook.flash_attn_varlen_func(
        q.flatten(0, 1), k.flatten(0, 1), k.flatten(0, 1), cu_q.clone(), cu_k, causal=True)
    calls[what](), q.copy_(randn(*q.shape))
    graph.replay()
    assert torch.equal(got, calls[what]()) and not torch.equal(got, want)
