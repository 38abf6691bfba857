"""flash_workbook's functions on calls that hypothesis draws, beside attention written out in float64; and what PyTorch
asks of its operators.

    SEED=7 EXAMPLES=3000 python3 -m pytest reference/flash_attn_test.py    from the workbook's root after make lib; on
              the CPU layer, or on a GPU where torch finds one and BACKEND is not cpu. SEED: else drawn; a failure
              names it. EXAMPLES: 300

The limit of |x - want| / |want| is 2^-7: a number rounded to bf16 is off by 2^-9 at most, and no more than four
roundings add up in any result: of P or dS before it enters a product, of O and then delta, of what dS was made of, and
of the result itself. For a cache of bytes `want` is of what these stand for, and the limit 2^-6: where such a cache is
copied, K and V are rounded to bf16 once more.
"""
import contextlib, copy, ctypes, importlib.util, inspect, itertools, os, pickle, random, re, subprocess, sys

import hypothesis
import numpy as np
import pytest
import torch

import flash_workbook
from flash_workbook import (Refused, arguments, attention, attention_fp8, flash_attn, flash_attn_func,
                            flash_attn_varlen_func, flash_attn_with_kvcache, isolate, library, masks, quantise_cache,
                            quantise_fp8)
from hypothesis.internal.conjecture.engine import ConjectureRunner
from timing import distances
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, create_mask
from torch.utils._python_dispatch import TorchDispatchMode

device = "cuda" if torch.cuda.is_available() and os.environ.get("BACKEND") != "cpu" else "cpu"
SEED, EXAMPLES = (int(os.environ.get(x) or y) for x, y in (("SEED", random.randrange(2**32)), ("EXAMPLES", 300)))
LIMIT, ALL = 2**-7, arguments.MOST
needs_gpu = pytest.mark.skipif(device == "cpu", reason="needs a GPU")
torch.set_num_threads(1)  # of tensors as small as these a second one costs more than it does


# It would draw five of six calls with parts of the one before: of 300, 73 were distinct.
ConjectureRunner.generate_mutations_from = lambda *_: None


@pytest.fixture(autouse=True)
def not_isolated():
    yield
    isolate(False)


def drawn(share):
    """hypothesis has the chance, and shrinks what fails; `share` examples where EXAMPLES is 300."""

    def with_chance(test):
        def run(chance):
            hypothesis.note(f"SEED={SEED}")
            torch.manual_seed(chance.randrange(2**32))
            test(chance)

        how = hypothesis.settings(max_examples=-(-share * EXAMPLES // 300), deadline=None, database=None,
                                  suppress_health_check=list(hypothesis.HealthCheck))
        run.__name__ = run.__qualname__ = test.__name__
        chance = hypothesis.strategies.randoms(use_true_random=False)
        return hypothesis.seed(f"{SEED} {test.__name__}")(how(hypothesis.given(chance=chance)(run)))

    return with_chance


def randn(*sizes, wants=False):
    return torch.randn(*sizes, device=device).bfloat16().requires_grad_(wants)


def ints(*x):
    return torch.tensor(x, dtype=torch.int32, device=device)


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
    return library().lib.wb_device_capability() == 9


def close_gradients(got, want, exact, dO, dL):
    # what float32 leaves of a gradient that cancels, as where a query sees one key
    rest = 2**-18 * ((dO.norm() + dL.norm()) * exact[1].norm()).item()
    for x, wanted in zip(got, want):
        assert x.shape == wanted.shape and torch.isfinite(x).all()
        assert (x.double() - wanted).norm() <= LIMIT * wanted.norm() + rest, far(x, wanted)


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


def band(chance):
    """causal, window_size."""
    left, right = chance.randint(0, 60), chance.randint(1, 40)
    return chance.choice([(False, (-1, -1)), (True, (-1, -1)), (True, (left, chance.choice([0, -1, 5]))),
                          (False, (left, 0)), (False, (left, right)), (False, (-1, right)), (False, (None, -left)),
                          (False, (-left, None))])


def chunks(chance):
    return chance.choice([0, 0, 0, chance.randint(1, 90)])


# ------------------------ any call

WRONG = [None, "x", -5, 2**70, 1.5, float("nan"), [1, 2, 3], torch.ones(3), torch.ones(2, 2, dtype=torch.int32),
         torch.empty(1, 2, 3, 16, device="meta"), torch.full((1,), 99, dtype=torch.int32), object()]


def tell():
    """What on a GPU the next call would."""
    if device != "cpu":
        torch.cuda.synchronize()
        arguments.raise_what_was_told(torch.device(device, torch.cuda.current_device()))


def with_one_that_is_wrong(chance, call, given):
    """An error that is meant, or a result; none ends the process."""
    wrong = chance.choice(list(given))
    value = chance.choice(WRONG)
    try:
        call(**{**given, wrong: value})
        tell()
    except (RuntimeError, TypeError, ValueError) as error:
        assert str(error) and "unpack" not in str(error) and "has no attribute" not in str(error), (wrong, value, error)
        with contextlib.suppress(RuntimeError):
            tell()


def in_forms(chance, given):
    """As people's programs have them: numbers of Python, NumPy, or tensors of one; pairs of all kinds."""
    number = lambda x: chance.choice([x, np.asarray(x)[()], torch.tensor(x)])
    pair = lambda x: x if None in x else chance.choice([list, tuple, np.array, torch.tensor])(x)
    return {name: pair(x) if type(x) is tuple else number(x) if type(x) in (bool, int, float) else x
            for name, x in given.items()}


def packed(chance, lengths):
    """Where each sequence begins, maybe with rows between; how many it has, None if none are between; all rows."""
    gap = chance.choice([0, 0, 9])
    ends = [*itertools.accumulate((n + chance.randint(0, gap) for n in lengths), initial=chance.randint(0, gap))]
    return ints(*ends), ints(*lengths) if gap else None, ends[-1] + chance.choice([0, 3])


@drawn(300)
def test_calls(chance):
    """attention, flash_attn_func, flash_attn_varlen_func: each sequence has what it has alone, whatever stands in rows
    of none, or of one that is all NaN; and its gradients. Then a call with one argument that may be wrong."""
    kind, causal = chance.choice(["attention", "func", "varlen", "varlen"]), chance.random() < 0.6
    own, wide = kind == "attention", full_has_gradients() and chance.random() < 0.1
    Hkv, B = chance.randint(1, 3), chance.randint(1, 4 if kind == "varlen" else 2)
    N = chance.choice([150, 150, 330 if device == "cpu" else 1000])
    Hq, tokens = Hkv * chance.randint(1, 3), 0
    D = chance.choice([136, 192, 256] if wide else [16, 32, 64, 128, 8 * chance.randint(1, 16)])
    odd = [8 * chance.randint(1, n) for n in (16, 16 if own else 40)]
    Dv = chance.choice([D, D, 96, 128] if wide else [D, D, *odd])
    # what is seen
    if own:
        left = chance.choice([ALL, chance.randint(0, 60)]) if causal and not wide else ALL
        right, chunk = 0 if causal else ALL, 0
        tokens = chance.choice([0, chance.randint(1, 9)]) if left < ALL else 0
    else:
        causal, window = (causal, (-1, -1)) if wide else band(chance)
        (left, right), chunk = flash_attn.ends_of(causal, window), 0 if wide else chunks(chance)
    n = lambda: chance.choice([0, *[chance.randint(1, N)] * 6])
    lengths = [(nq, nq if own and causal or chance.random() < 0.5 else n()) for nq in (n() for _ in range(B))]
    lengths = [(nq, max(nq, nk) if wide and causal and kind == "func" else nk) for nq, nk in lengths]
    lengths = lengths if kind == "varlen" else lengths[:1] * B
    sinks = torch.randn(Hq, device=device, requires_grad=True) if chance.random() < 0.3 and (causal and not wide and
        not tokens or not own) else None
    scale, same_bits = chance.choice([None, 0.3]), chance.random() < 0.8
    scores = {} if own or wide else other_scores(chance, B, Hq)
    if own:
        given = dict(causal=causal, window=left + 1 if left < ALL else None, sink_tokens=tokens, sink_logits=sinks,
                     scale=scale, same_bits=same_bits, return_lse=True)
    else:
        given = dict(softmax_scale=scale, causal=causal, window_size=window, s_aux=sinks, attention_chunk=chunk,
                     deterministic=same_bits, return_attn_probs=True, **scores)
    same_v = sinks is None and chance.random() < 0.1
    hypothesis.note(f"{kind} {lengths} Hq {Hq} Hkv {Hkv} D {D} Dv {Dv} same_v {same_v} {given}")
    # tensors, and where each sequence has its rows of these and of what comes back
    bad, dirty = chance.choice([torch.nan, torch.inf, -torch.inf]), None
    if kind == "varlen":
        (cu_q, used_q, Tq), (cu_k, used_k, Tk) = (packed(chance, x) for x in zip(*lengths))
        dirty = chance.choice([None, chance.randrange(B)]) if sinks is None else None
        isolate(dirty is not None)
        given.update(cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, seqused_q=used_q, seqused_k=used_k)
        at = [[slice(i, i + m) for i, m in zip(cu.tolist(), x)] for cu, x in zip((cu_q, cu_k), zip(*lengths))]
        q, k, v = (laid_out(chance, 1, T, h, d).detach()[0] for T, h, d in ((Tq, Hq, D), (Tk, Hkv, D), (Tk, Hkv, Dv)))
    else:
        at = [range(B)] * 2
        nq, nk = lengths[0]
        q, k, v = (laid_out(chance, B, *x).detach() for x in ((nq, Hq, D), (nk, Hkv, D), (nk, Hkv, Dv)))
    dO = torch.randn(*q.shape[:-1], Dv, device=device).bfloat16() * chance.choice([0, 1, 1, 8])
    dL = chance.choice([None, 1, 8, 30])
    if same_v:  # dP - delta is 0 then, and dL alone is left: in float32, or it were lost beside them
        v[:] = v[:1] if kind == "varlen" else v[:, :1]
    none = [torch.full(x.shape[:1], kind == "varlen", device=device) for x in (q, k)]
    for x, rows in zip(none, at):
        for r in rows:
            x[r] = False
    for x, i in ((q, 0), (k, 1), (v, 1), (dO, 0)):
        x[none[i]] = bad
        if dirty is not None:
            x[at[i][dirty]] = bad
    function = {"attention": attention, "func": flash_attn_func, "varlen": flash_attn_varlen_func}[kind]
    names, given = "QKV" if own else "qkv", in_forms(chance, given)
    given.update(zip(names, (x.transpose(1, 2) if own else x for x in (q, k, v))))
    with torch.no_grad():
        results = [function(**given)[:2]]
    leaves = [x.requires_grad_() for x in (q, k, v)] + [sinks] * (sinks is not None)
    if not wide:
        given.update(zip(names, (x.transpose(1, 2) if own else x for x in leaves)))
        results += [function(**given)[:2], function(**given)[:2]]
    got, want_sinks, terms = [], 0, 0
    for O, L in results[:2]:
        O, L = O.transpose(1, 2) if own else O, L.transpose(0, 1) if kind == "varlen" else L
        if O.requires_grad:
            if dL is not None:
                dL = torch.randn_like(L) * dL
            to = (dO.transpose(1, 2) if own else dO, None if dL is None else dL.T if kind == "varlen" else dL)
            got = [torch.autograd.grad([y for y, z in zip(found, to) if z is not None], leaves,
                                       [z for z in to if z is not None]) for found in results[1:]]
            assert not same_bits or all(torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in zip(*got))
        for s, (i, j) in enumerate(zip(*at)):
            if s == dirty:
                continue
            alone = lambda *x: [y[r].detach().transpose(0, 1)[None] for y, r in zip(x, (i, j, j))]
            exact = [x.double().requires_grad_() for x in alone(q, k, v)]
            exact += [] if sinks is None else [sinks.detach().double().requires_grad_()]
            (nq, nk), slopes = (x.shape[2] for x in exact[:2]), scores.get("alibi_slopes")
            visible = bottom_right(nq, nk, left, right, chunk)
            visible = visible | (bottom_right(nq, nk, ALL, 0) & (torch.arange(nk, device=device) < tokens))
            bias = bias_of(None if slopes is None else slopes.expand(B, Hq)[s], nq, nk)
            want, logs = oracle(*exact[:3], visible, scale or D**-0.5, exact[3] if exact[3:] else None,
                                scores.get("softcap", 0), bias)
            close(*alone(O), want)
            of_L = L[i].T[None] if kind == "varlen" else L[i][None]
            close_logs(of_L, logs)
            if O.requires_grad:
                seen, dOs = logs != -torch.inf, alone(dO)[0].double()
                dLs = torch.zeros_like(logs) if dL is None else (dL[i].T if kind == "varlen" else dL[i]).double()[None]
                dLs = dLs - (dOs * (alone(O)[0].double() - want.detach())).sum(-1)  # delta is of O as returned, in bf16
                wanted = torch.autograd.grad((want, logs[seen]), exact, (dOs, dLs[seen]))
                close_gradients(alone(*got[0]), wanted, exact, dOs, dLs)
                if sinks is not None:  # sums whose terms may cancel: errors are measured against the terms' sizes
                    want_sinks = want_sinks + wanted[3]
                    terms = terms + ((exact[3][:, None] - logs).exp() * (dOs.norm(dim=-1) * want.norm(dim=-1) +
                                                                         dLs.abs())).sum((0, 2))
        if kind == "varlen":  # rows of none
            assert not O[none[0]].any() and (L[none[0]] == -torch.inf).all()
            assert not any(x[y].any() for x, y in zip(got[0][:3] if got else (), (none[0], none[1], none[1])))
    if got and sinks is not None:
        assert ((got[0][3].double() - want_sinks).abs() <= LIMIT * terms).all()
    if wide:
        with pytest.raises(NotImplementedError, match="no_grad"):
            function(**given)
    with_one_that_is_wrong(chance, function, given)


# ------------------------ flash_attn_func


def test_one_tensor_of_two_or_three():
    f, x = flash_workbook, randn(2, 9, 3, 2, 16, wants=True)
    (q, kv), cu = (x[:, :, 0], x[:, :, 1:]), ints(0, 9, 18)
    want = f.flash_attn_func(*x.unbind(2), causal=True)
    gradient, = torch.autograd.grad(want.sum(), x, retain_graph=True)
    for O in (f.flash_attn_qkvpacked_func(x, 0.0, None, True), f.flash_attn_kvpacked_func(q, kv, causal=True)):
        assert torch.equal(O, want) and torch.equal(torch.autograd.grad(O.sum(), x, retain_graph=True)[0], gradient)
    for O in (f.flash_attn_varlen_qkvpacked_func(x.flatten(0, 1), cu, 9, 0.0, None, True),
              f.flash_attn_varlen_kvpacked_func(q.flatten(0, 1), kv.flatten(0, 1), cu, cu, 9, 9, causal=True)):
        close(O, want.flatten(0, 1).double())
    assert torch.equal(torch.vmap(lambda y: f.flash_attn_qkvpacked_func(y[None], causal=True)[0])(x.detach()), want)
    with pytest.raises(ValueError, match="with 2 parts"):
        f.flash_attn_kvpacked_func(q, x)


def test_arguments_are_as_the_page_says():
    """What is served the drawn tests give."""
    q, k, cu = randn(1, 5, 2, 64), randn(1, 32, 2, 64), ints(0, 5)
    calls = {"flash_attn_func": dict(q=q, k=q, v=q),
             "flash_attn_varlen_func": dict(q=q[0], k=q[0], v=q[0], cu_seqlens_q=cu, cu_seqlens_k=cu),
             "flash_attn_with_kvcache": dict(q=q, k_cache=k, v_cache=k, causal=True, cache_seqlens=24)}
    page, found = open(os.path.join(os.path.dirname(__file__), "README.md")).read(), set()
    refused, hints = (re.findall("`(.*?)`", page.split(word)[1].split(".")[0]) for word in ("Refused:", "not read:"))
    for function, given in calls.items():
        call = getattr(flash_workbook, function)
        for name in inspect.signature(call).parameters:
            found.add(name)
            if name in refused and not (name[1:] == "_descale" and name[0] in "kv" and "k_cache" in given):
                with pytest.raises(Refused, match=name):
                    call(**given, **{name: 0.5 if name == "dropout_p" else q})
            elif name in hints:
                assert torch.equal(call(**given), call(**given, **{name: 8}))
    assert {*refused, *hints} < found and len(refused) == 7 and len(hints) == 8


@drawn(8)
def test_same_bits_in_any_batch(chance):
    """O, L and gradients of a sequence, whatever the batch, where the library takes the same kernels for both; but for
    hopper_split, which cuts the keys into as many parts as there are multiprocessors for."""
    (_, Hq, Hkv, N, _, D), B, lib = sizes(chance, 300), chance.randint(2, 5), library().lib
    D, lib.wb_library_kernel.restype = chance.choice([16, 32, 64, 128]), ctypes.c_char_p
    how, names = chance.choice([({}, ("gqa", "gqa_backward")), ({"window": 17}, ("window", "sinks_backward"))])
    kernels = [[lib.wb_library_kernel(f"flash_{name}".encode(), ctypes.byref(flash_workbook.Shape(
        b, Hq, Hkv, N, N, D, D**-0.5, 1, how.get("window", 0), 0))) for name in names] for b in (1, B)]
    x, one, dO = [randn(B, h, N, D, wants=True) for h in (Hq, Hkv, Hkv)], chance.randrange(B), randn(B, Hq, N, D)
    got = []
    for of in (x, [y[one :][:1].detach().requires_grad_() for y in x]):
        O, L = attention(*of, **how, same_bits=True, return_lse=True)
        got.append([O, L, *torch.autograd.grad(O, of, dO if of is x else dO[one :][:1])])
    same = [torch.equal(a[one :][:1], b) for a, b in zip(*got)]
    other = kernels[0] != kernels[1] or b"split" in kernels[0][0]
    assert all(same) or other, (kernels, same)


# ------------------------ flash_attn_with_kvcache


def in_bytes(kind, x, descale):
    """Of [..., rows, Hkv, D]: as a cache keeps it, its scales, or None, and what it stands for. descale [..., 1,
    Hkv]."""
    if kind == "int8":
        q, scales = quantise_cache(x)
        return q, scales, q * scales.transpose(-1, -2)[..., None]
    if kind == "bf16":
        return x, None, x
    q = (x / descale[..., None]).clamp(-448, 448).to(flash_attn.E4M3)
    return q, None, q.float() * descale[..., None]


@drawn(100)
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
    lengths = ints(*(chance.randint(0, most * size - news) for _ in range(B)))
    rows = B + 2
    table = torch.randperm(rows * most, device=device).int().view(rows, most)
    index = None if paged and chance.random() < 0.5 else ints(*chance.sample(range(rows), B))
    caches = [randn(rows * most, size, Hkv, d) for d in (D, chance.choice([D, D, 8 * chance.randint(1, 16)]))]
    k, v = ([randn(B, news, Hkv, x.shape[3]) for x in caches] if news else (None, None))
    dirty = chance.choice([None, chance.randrange(B)]) if kind == "bf16" else None
    isolate(dirty is not None)
    sinks, scale = chance.choice([None, torch.randn(Hq, device=device)]), chance.choice([None, 0.3])
    leftpad = chance.choice([None, None, ints(*(chance.randint(0, n + news) for n in lengths.tolist()))])
    if not paged:
        caches = [x.view(rows, most * size, *x.shape[2:]) for x in caches]
        table = torch.arange(rows, device=device).int()[:, None]
    used = table[:B] if index is None else table[index.long()]
    for x in caches if dirty is not None else ():
        x[used[dirty].long()] = torch.nan
    # some of the queries and new keys of each, as one tensor
    packed, chunk = chance.random() < 0.3, chunks(chance)
    some = lambda n: [chance.randint(min(n, 1), n) if packed else n for _ in range(B)]
    nq, nk, given = some(Nq), some(news), {}
    starts = lambda x: ints(0, *itertools.accumulate(x))
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
    given.update(zip(("k_cache", "v_cache", "k", "v"), [*tensors, *new]), q=in_one(q, nq) if packed else q, s_aux=sinks,
                 cache_seqlens=lengths, cache_batch_idx=index, cache_leftpad=leftpad, attention_chunk=chunk, **scores,
                 return_softmax_lse=True)
    given.update(in_forms(chance, dict(causal=causal, window_size=window, softmax_scale=scale)))
    short = {x: y if not isinstance(y, torch.Tensor) or y.numel() < 9 else list(y.shape) for x, y in given.items()}
    hypothesis.note(f"{kind} {lengths} {short}")
    O, logs = flash_attn_with_kvcache(**given)
    if packed:
        O, logs = O.split(nq), logs.split(nq, 1)
    for b in set(range(B)) - {dirty}:
        visible = bottom_right(nq[b], len(wanted[0][b]), left, right, chunk)
        K, V = (x[b].transpose(0, 1)[None] for x in wanted)
        slopes = scores["alibi_slopes"]
        bias = bias_of(slopes if slopes is None else slopes.expand(B, Hq)[b], nq[b], len(wanted[0][b]))
        want, L = oracle(q[b, : nq[b]].transpose(0, 1)[None], K, V, visible, scale or D**-0.5, sinks, scores["softcap"],
                         bias)
        close(O[b], want[0].transpose(0, 1), LIMIT if kind == "bf16" else 2**-6)
        if kind == "bf16":
            close_logs(logs[b], L[0])
    with_one_that_is_wrong(chance, flash_attn_with_kvcache, given)


def test_quantise_cache_is_the_librarys():
    x = torch.cat([torch.randn(3, 4, 2, 64), torch.zeros(1, 4, 2, 64), torch.full((1, 4, 2, 64), 1e-39)]).bfloat16()
    lib = library().lib
    lib.wb_quantise_row.restype = ctypes.c_float
    q, scale = quantise_cache(x.to(device))
    for page, row, head in itertools.product(range(5), range(4), range(2)):
        floats, bytes_ = x[page, row, head].float().contiguous(), torch.empty(64, dtype=torch.int8)
        one = lib.wb_quantise_row(ctypes.c_void_p(bytes_.data_ptr()), ctypes.c_void_p(floats.data_ptr()), 64)
        assert one == scale[page, head, row].item() and bytes_.equal(q[page, row, head].cpu())


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("which, at, word", [("block_table", (1, 2), r"block_table\[1, 2\] = "),
                                             ("cache_seqlens", 2, r"cache_seqlens\[2\] = "),
                                             ("cache_batch_idx", 0, r"cache_batch_idx\[0\] = ")])
def test_kvcache_tells_what_is_out_of_range(which, at, word, dtype):
    """On a GPU no kernel follows it, and the next call raises."""
    q, cache, other = randn(3, 1, 4, 64), randn(12, 16, 2, 64), 0 if which == "block_table" else 1
    given = {"block_table": torch.arange(12).view(4, 3), "cache_seqlens": torch.tensor([48, 40, 17]),
             "cache_batch_idx": torch.tensor([3, 1, 2])}
    given = {name: x.to(device, dtype) for name, x in given.items()}
    call = lambda given: flash_attn_with_kvcache(q, cache, cache, causal=True, **given)
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


@drawn(12)
def test_block_mask(chance):
    B, Hq, Hkv, Nq, Nk, D = sizes(chance, 330)
    own = chance.random() < 0.5
    mod = mask_mod(chance, B if own else 1, Nq, Nk)
    blocks = create_block_mask(mod, B if own else None, None, Nq, Nk, device=device,
                               BLOCK_SIZE=chance.choice([64, 128, (128, 64), (256, 128), (192, 128)]))
    visible = create_mask(mod, B if own else 1, 1, Nq, Nk, device=device)
    mask = flash_workbook.block_mask(blocks)
    Q, K, V = (laid_out(chance, B, n, h, D).detach().transpose(1, 2) for n, h in ((Nq, Hq), (Nk, Hkv), (Nk, Hkv)))
    want, L = oracle(Q, K, V, visible, D**-0.5)
    O, logs = attention(Q, K, V, block_mask=blocks, return_lse=True)
    close(O, want)
    close_logs(logs, L)
    assert torch.equal(O, attention(Q, K, V, block_mask=mask))


def test_block_mask_as_listed():
    # Lists that no mask_mod made: the full block counts whole though mask_mod would hide half of it, and it ends with
    # the last key.
    number, index = (ints(x) for x in ([[1, 0]], [[[1, 0], [1, 0]]]))
    blocks = BlockMask.from_kv_blocks(number, index, number.flip(-1), index, BLOCK_SIZE=128, mask_mod=lambda b, h, i,
                                      j: (i + j) % 2 == 0, seq_lengths=(256, 200))
    Q, K = randn(1, 2, 256, 64), randn(1, 2, 200, 64)
    i, j = torch.arange(256, device=device)[:, None], torch.arange(200, device=device)
    visible = (j >= 128) & ((i >= 128) | ((i + j) % 2 == 0))
    close(attention(Q, K, K, block_mask=blocks), oracle(Q, K, K, visible, 1 / 8)[0])


# ------------------------ eight bits


def of_many_sizes(chance, *sizes):
    """Rows, and tiles of 64, from 2^-30 to 2^6; now and then the least and the largest that there are, and zeros."""
    x = torch.randn(*sizes) * torch.randint(-18, 4, (*sizes[:3], 1)).float().exp2() * torch.randint(-12, 3,
        (*sizes[:2], 1, 1)).float().exp2()
    if chance.random() < 0.3:
        x[0, 0, 0] = chance.choice([0.0, -0.0, 1e-40, 1.5e38, 448 * 2.0**100, 449 * 2.0**-20])
    return x


@drawn(16)
def test_quantise_fp8_is_the_librarys(chance):
    """The bits that the library's own functions make, of float32 and of bf16; and what Hadamard leaves as it was."""
    lib, at = library().lib, lambda x: ctypes.c_void_p(x.data_ptr())
    (B, Hq, Hkv, Nq, Nk, _), D = sizes(chance), chance.choice([64, 128, 256])
    given = [of_many_sizes(chance, B, h, n, D) for h, n in ((Hq, Nq), (Hkv, Nk), (Hkv, Nk))]
    if bf16 := chance.random() < 0.5:  # which one kernel does
        given = [x.clamp(-(2.0**119), 2.0**119).bfloat16() for x in given]
    eight = [x.cpu() for x in quantise_fp8(*(x.to(device) for x in given))]
    eight[:3], (Q, K, V) = [x.view(torch.uint8) for x in eight[:3]], (x.float() for x in given)
    for b, h, i in itertools.product(range(B), range(Hq), range(Nq)):
        q = torch.empty(D, dtype=torch.uint8)
        assert lib.wb_quantise_fp8(at(q), at(Q[b, h, i].contiguous()), 1, D) == eight[3][b, h, i]
        assert q.equal(eight[0][b, h, i])
    for b, h, t in itertools.product(range(B), range(Hkv), range((Nk - 1) // 64 + 1)):
        k, v = (x[b, h, 64 * t :][:64].contiguous() for x in (K, V))
        K8, V8 = torch.empty(len(k), D, dtype=torch.uint8), torch.empty(D, 64, dtype=torch.uint8)
        assert lib.wb_quantise_fp8(at(K8), at(k), len(k), D) == eight[4][b, h, t]
        assert lib.wb_quantise_fp8_values(at(V8), at(v), len(v), D) == eight[5][b, h, t]
        assert K8.equal(eight[1][b, h, 64 * t :][:64]) and V8.equal(eight[2][b, h, t])
    if bf16 and full_has_gradients():
        Q, K, V = (randn(B, h, n, D) for h, n in ((Hq, Nq), (Hkv, Nk), (Hkv, Nk)))
        spread = quantise_fp8(Q, K, V, hadamard=True)
        assert torch.equal(spread.V_exponent, quantise_fp8(Q, K, V).V_exponent)
        close(attention_fp8(*spread, causal=False), oracle(Q, K, V, bottom_right(Nq, Nk), D**-0.5)[0], 2**-3)
        with pytest.raises(Refused, match="in bf16"):
            quantise_fp8(Q.float(), K, V, hadamard=True)


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
    eight = quantise_fp8(Q, K, V)
    levels, visible = chance.choice([1, 2]), bottom_right(Nq, Nk, ALL, 0 if causal else ALL)
    O, logs = attention_fp8(*eight, causal=causal, levels=levels, return_lse=True)
    # P meets V in e4m3, 2^-4 of it off at most; tests/16_flash_fp8.c derives this element by element.
    close(O, oracle(*meant(eight, Nk), visible, D**-0.5)[0], 2**-4)
    assert torch.equal(O, attention_fp8(Q, K, V, causal=causal, levels=levels))
    shuffled = eight._replace(V=eight.V.view(torch.uint8).flip(-1).view(eight.V.dtype))
    assert Nk == 1 or far(attention_fp8(*shuffled, causal=causal),
                          oracle(*meant(eight, Nk), visible, D**-0.5)[0]) > 2**-4


# ------------------------ operators of PyTorch's


KINDS = {
    "gqa": {},
    "full": {"causal": False},
    "window": {"window": 17},
    "sinks": {"window": 17, "sink_tokens": 3},
    "logits": {"window": 17, "logits": True},
}


def inputs(B, Hq, Hkv, N, D, how):
    """Tensors that want gradients, dO, and the other arguments of attention."""
    torch.manual_seed(N)
    how = dict(how)
    Q, K, V, dO = (torch.randn(B, h, N, D, device=device).bfloat16() for h in (Hq, Hkv, Hkv, Hq))
    sinks = [torch.randn(Hq, device=device)] if how.pop("logits", False) else []
    if how.get("causal") is False and library().lib.wb_device_capability() != 9:
        pytest.skip("has a backward pass only on sm_90")
    return [x.requires_grad_() for x in (Q, K, V, *sinks)], dO, how


@pytest.fixture(params=KINDS)
def case(request):
    return inputs(1, 4, 2, 70, 64, KINDS[request.param])


def results(function, case, same_bits=True):
    """O, dQ, dK, dV, and dsinks if there are any."""
    tensors, dO, how = case
    O = function(*tensors[:3], **how, **({"sink_logits": tensors[3]} if len(tensors) > 3 else {}), same_bits=same_bits)
    return [O, *torch.autograd.grad(O, tensors, dO)]


def same(some, others):
    return all(torch.equal(a, b) for a, b in zip(some, others, strict=True))


def operators():
    """Each with arguments."""
    (Q, K), (q, k) = ([randn(1, 4, n, 64), randn(1, 2, m, 64)] for n, m in ((20, 70), (40, 40)))
    wants = lambda *x: [y.detach().requires_grad_() for y in x]
    cu, slopes, sinks = ints(0, 15, 40), torch.rand(1, 4, 40, device=device), torch.randn(4, device=device)
    for some, cap in ((None, 0.0), (slopes[:, :, :20].contiguous(), 2.0)):
        yield flash_attn.band, (*wants(Q, K, K), some, 5, 3, 0, cap, 0.25, "")
    yield flash_attn.scored, (Q, K, K, ints(3, 50, 9)[:, None].expand(3, 20).contiguous(), some, 2.0, 0.25, "")
    for used, some in ((None, None), (ints(9, 25), slopes)):
        yield flash_attn.varlen, (*wants(q, k, k), sinks, cu, None, cu, used, some, ALL, 0, 0, 0.0, 0.25, True, "")
    new, cache, table, n = randn(2, 4, 1, 64), randn(5, 16, 2, 64), ints(0, 1, 4, 2).view(2, 2), ints(5, 30)
    cache8, scales = quantise_cache(cache)
    yield flash_attn.decode, (new, cache, cache, None, None, table, n, 0.1, "")
    yield flash_attn.decode, (new, cache8, cache8, scales, scales, table, n, 0.1, "")
    yield arguments.in_range, (table, n, None, 0, 16, 5)
    mask = block_mask_of(20, 70)
    yield masks.masked, (Q, K, K, *mask.fitting(Q, K), 0.1, "")
    if full_has_gradients():
        eight = quantise_fp8(Q, K, K)
        yield flash_workbook.fp8.fp8, (*eight, 2, False, 0.1, "")
        yield flash_workbook.fp8.quantised, (Q, K, K, True, "")
    for causal, window, tokens, s in [(False, 0, 0, None)] * full_has_gradients() + [
            (True, 0, 0, None), (True, 17, 0, None), (True, 17, 3, None), (True, 17, 0, sinks)]:
        x, rest = wants(q, k, k), (causal, window, tokens, 0.125, True, "")
        yield flash_workbook.forward, (*x, s, *rest)
        O, L = (y.detach() for y in flash_workbook.forward(*x, s, *rest))
        yield flash_workbook.backward, (torch.randn_like(O), q, k, k, s, O, L, *rest, torch.randn_like(L))
    for dims in ((24, 24, 40), (192, 192, 128), (160, 160, 160))[: 3 if full_has_gradients() else 1]:
        x = [randn(1, h, 33, D) for h, D in zip((4, 2, 2), dims)]
        yield flash_workbook.forward, (*(wants(*x) if dims[0] == 24 else x), None, True, 0, 0, None, True, "")


def block_mask_of(Nq, Nk):
    return flash_workbook.block_mask(create_block_mask(lambda b, h, i, j: j <= i, None, None, Nq, Nk, device=device))


def test_operators_are_as_torch_wants_them():
    for operator, given in operators():
        # test_schema multiplies e4m3 numbers, which torch cannot
        some = {"test_utils": ("test_autograd_registration", "test_faketensor")} if "fp8" in str(operator) else {}
        torch.library.opcheck(operator, given, **some)


def whole():
    """Calls, and their tensors."""
    f, cu, band = flash_workbook, ints(0, 15, 40), {"deterministic": True}
    x, mask = [randn(1, 40, h, 64, wants=True) for h in (4, 2, 2)], block_mask_of(40, 40)
    for how in ({"causal": True}, {"causal": True, "window_size": (9, 0)}, {"window_size": (9, 2), "softcap": 3.0}):
        yield lambda q, k, v: f.flash_attn_func(q, k, v, **how, **band), x
    yield lambda q, k, v: f.flash_attn_varlen_func(q[0], k[0], v[0], cu, cu, 25, 25, causal=True, **band), x
    x = [y.detach() for y in x]
    yield lambda q, k, v: f.attention(*(y.transpose(1, 2) for y in (q, k, v)), block_mask=mask), x
    yield lambda q, k, v: f.flash_attn_with_kvcache(q[:, :1], *[k[:, :16].clone() for _ in "kv"], v[:, :1], v[:, :1],
                                                    cache_seqlens=5), x
    if full_has_gradients():
        yield lambda q, k, v: f.attention_fp8(*(y.transpose(1, 2) for y in (q, k, v))), x
    for D, DV, wants in ((24, 40, True), (192, 128, False), (160, 160, False))[: 3 if full_has_gradients() else 1]:
        yield lambda q, k, v: f.attention(q, k, v, same_bits=True), [randn(1, h, 33, d, wants=wants)
                                                                     for h, d in ((4, D), (2, D), (2, DV))]


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_whole(case, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(attention, fullgraph=True, dynamic=dynamic, backend="aot_eager" if dynamic else "inductor")
    assert same(results(compiled, case), results(attention, case))
    with torch.inference_mode():
        assert same([compiled(*case[0][:3])], [attention(*case[0][:3])])


@pytest.mark.parametrize("way", [lambda f: f, lambda f: torch.compile(f, fullgraph=True, backend="aot_eager")],
                         ids=["eager", "compiled"])
def test_autocast(case, way):
    torch._dynamo.reset()
    tensors, dO, how = case
    exact = [x.detach().float().requires_grad_() for x in tensors]
    with torch.autocast(device, torch.bfloat16):
        O, *gradients = results(way(attention), (exact, dO, how))
    assert O.dtype == torch.bfloat16 and all(x.dtype == torch.float32 for x in gradients)
    assert same([O, *(x.to(t.dtype) for x, t in zip(gradients, tensors))], results(attention, case))
    with torch.autocast(device, torch.float16), pytest.raises(TypeError, match="bfloat16"):
        results(attention, (exact, dO, how))


def test_calls_compile_whole():
    for call, x in whole():
        torch._dynamo.reset()
        with torch.no_grad():
            assert torch.equal(call(*x), torch.compile(call, fullgraph=True)(*x))
        if x[0].requires_grad:
            both = (torch.autograd.grad(f(*x).sum(), x) for f in (call, torch.compile(call, fullgraph=True)))
            assert all(map(torch.equal, *both))


class Asked(TorchDispatchMode):
    """Which operators are called, with what."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, arguments=(), how=None):
        self.calls.append((str(function), arguments))
        return function(*arguments, **how or {})


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("all", [False, True])
def test_deterministic_is_obeyed(flag, all):
    """By argument, or PyTorch's flag."""
    q, cu = randn(1, 70, 2, 64, wants=True), ints(0, 30, 70)
    how = {} if all else {"deterministic": flag}
    torch.use_deterministic_algorithms(all and flag)
    try:
        O = [flash_attn_func(q, q, q, causal=True, **how),
             flash_attn_varlen_func(q[0], q[0], q[0], cu, cu, 40, 40, causal=True, **how)]
        with Asked() as asked:
            sum(x.sum() for x in O).backward()
    finally:
        torch.use_deterministic_algorithms(False)
    backward = "flash_workbook.attention_backward", "flash_workbook.varlen_backward"
    assert [x[-2] for name, x in asked.calls if name.startswith(backward)] == [flag] * 2


# ------------------------ refused


def refusals():
    """What ends, with what, by which word."""
    f, func, varlen, cached = flash_workbook, flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
    q, cache, wide = randn(1, 5, 2, 64), randn(1, 64, 2, 64), randn(1, 64, 2, 136)
    Q, K, wants = randn(1, 2, 256, 64), randn(1, 2, 200, 64), randn(1, 2, 70, 64, wants=True)
    (int8, scales), e4m3, cu = f.quantise_cache(cache), cache.to(flash_attn.E4M3), ints(0, 2, 5)
    mask = lambda H=None, **how: create_block_mask(lambda b, h, i, j: j <= i, None, H, 256, 200, device=device, **how)
    eight, number = f.quantise_fp8(*[wants.detach()] * 3), torch.tensor(0.25, requires_grad=True)
    # what another function, or flash-attn 3, would take
    yield Refused, "dropout_p=0.125.*softmax_scale", lambda: func(q, q, q, 0.125)
    yield TypeError, "q is float16, .*bfloat16", lambda: func(q.half(), q, q)
    meta = [q.to("meta")]
    yield ValueError, f"tensors on device {device}, but .* on meta", lambda: f.library().call("flash_gqa", meta, None)
    for scale, n in itertools.product((-1.0, float("nan"), float("inf")), (None, 0)):
        yield ValueError, "softmax_scale = ", lambda: func(*[q[:n]] * 3, softmax_scale=scale)
        yield ValueError, "scale = ", lambda: f.attention(*[q[:n]] * 3, scale=scale)
    yield ValueError, "sink_tokens = -1", lambda: f.attention(q, q, q, sink_tokens=-1)
    yield TypeError, "k is float8_e4m3fn", lambda: varlen(q[0], e4m3, cache, cu, seqused_k=cu[1:],
                                                                   block_table=cu[1:, None])
    yield Refused, "4 queries and 5 keys", lambda: f.attention(Q[:, :, :4], Q[:, :, :5], Q[:, :, :5])
    compiled = torch.compile(f.attention, fullgraph=True)
    yield NotImplementedError, "head_dim = 264", lambda: compiled(*[randn(1, 2, 10, 264)] * 3)
    yield TypeError, "q is list", lambda: func([q], q, q)
    yield TypeError, "s_aux is list", lambda: func(q, q, q, s_aux=[1.0, 2.0])
    yield ValueError, r"s_aux is \[3\]", lambda: cached(q, cache, cache, s_aux=torch.ones(3, device=device))
    for how in ({"softcap": 2.0}, {"window_size": (3, 0)}):
        yield Refused, "head_dim = 136: above 128", lambda: func(wide, wide, wide, causal=True, **how)
    yield Refused, "4097 sequences of 16", lambda: cached(*[cache.expand(4097, *cache.shape[1:])[:, :16]] * 3)
    yield ValueError, "meta", lambda: cached(*(x.to("meta") for x in (q, cache, cache)))
    for name, wrong in (("softcap", -1.0), ("softcap", float("inf")), ("alibi_slopes", torch.ones(3, device=device))):
        yield ValueError, name, lambda: func(q, q, q, **{name: wrong})
    for name, given in (("rotary_cos", {"rotary_cos": q}),
                        ("no keys or no heads", {"k_cache": cache[:, :0], "v_cache": cache[:, :0]}),
                        ("head_dim = 136", {"q": wide[:, :1], "k_cache": wide, "v_cache": wide}),
                        ("contiguous", {"causal": True, "k_cache": randn(1, 64, 2, 128)[..., ::2]}),
                        ("q in float8_e4m3fn", {"q": q.to(e4m3.dtype), "k_cache": e4m3, "v_cache": e4m3})):
        yield Refused, name, lambda: cached(**{"q": q, "k_cache": cache, "v_cache": cache, **given})
    yield TypeError, "int8", lambda: cached(q, int8, int8, causal=True)
    for name, x, how in (("k_descale", e4m3, {"k_descale": scales}),
                         ("v_descale", e4m3, {"v_descale": scales[0, :, 0].double()})):
        yield ValueError, name + " must be", lambda: cached(q, x, x, **how)
    for x, how in ((e4m3, {"v_scale": scales}), (int8, {"k_scale": scales}),
                   (int8, {"k_scale": scales, "v_scale": scales.double()})):
        yield TypeError, "_scale is (float64|NoneType), expected ", lambda: cached(q, x, x, **how)
    # masks, and eight bits
    for error, word, given in ((TypeError, "block_mask is Tensor", cu), (Refused, "H=2", mask(2)),
                               (Refused, "BLOCK_SIZE", mask(BLOCK_SIZE=32))):
        yield error, word, lambda: f.attention(Q, K, K, block_mask=given)
    yield Refused, "no gradients", lambda: f.attention(Q.clone().requires_grad_(), K, K, block_mask=mask())
    yield ValueError, "256 x 200", lambda: f.attention(K, K, K, block_mask=mask())
    yield Exception, "build the mask outside", lambda: compiled(K, K, K, block_mask=mask())
    for error, word, how in ((ValueError, "V is .* 5 dimensions", {"V": eight.K}),
                             (TypeError, "K_exponent", {"K_exponent": eight.K_exponent.int()})):
        yield error, word, lambda: f.attention_fp8(*eight._replace(**how))
    yield Refused, "head_dim|sm_90", lambda: f.attention_fp8(*[Q[..., :32]] * 3)
    yield Refused, "levels|sm_90", lambda: f.attention_fp8(*eight, levels=3)
    yield Refused, "no gradients", lambda: f.attention_fp8(wants, wants, wants)
    for call, name, n in itertools.product((f.attention_fp8, f.quantise_fp8), "KV", ((1, 2, 8, 64), (2, 2, 4, 64),
                                           (2, 1, 8, 64), (2, 2, 8, 128), (2, 3, 8, 64))):
        Q, *K = (randn(2, h, 8, 64) for h in (4, 2, 2))
        yield ValueError, "is .*is ", lambda: call(**{"Q": Q, **dict(zip("KV", K)), name: randn(*n)})
    # derivatives that there are not
    calls = (lambda x: func(x, q, q, causal=True), lambda x: f.attention(x, q, q), lambda x: func(x, q, q, softcap=2.0),
             lambda x: varlen(x[0], q[0], q[0], cu, cu), lambda x: cached(x, cache, cache))
    for call in calls:
        total = lambda x: call(x).float().sum()
        for wrong in (lambda: torch.func.jvp(call, (q,), (q,)), lambda: torch.func.grad(total)(q),
                      lambda: torch.func.vmap(torch.func.grad(total))(q[None])):
            yield NotImplementedError, "torch.func|forward-mode", wrong
        with torch.autograd.forward_ad.dual_level():
            yield NotImplementedError, "forward-mode", lambda: call(torch.autograd.forward_ad.make_dual(q, q))
    for call in calls[:4]:
        first, = torch.autograd.grad(call(x := q.clone().requires_grad_()).float().square().sum(), x, create_graph=True)
        yield NotImplementedError, "second derivatives|not implemented", lambda: first.float().square().sum().backward()
    calls = (lambda **how: func(q, q, q, **how), lambda **how: varlen(q[0], q[0], q[0], cu, cu, **how),
             lambda **how: cached(q, cache, cache, **how))
    for call, (name, x), _ in itertools.product(calls, (("softmax_scale", number), ("alibi_slopes", torch.ones(
            2, device=device, requires_grad=True))), "12"):
        yield Refused, name + " has no gradient", lambda: call(**{name: x})
    yield Refused, "scale has no gradient", lambda: f.attention(q, q, q, scale=number)
    # starts, and lengths
    q, cache = randn(4, 1, 16), randn(2, 16, 1, 16)
    call = lambda **how: cached(q, cache, cache, **{"cu_seqlens_q": ints(0, 2, 4), **how})
    for cu, entry in ((ints(0, 2, 9), r"\[2\] = 9"), (ints(0, 4, 2), r"\[2\] = 2"), (ints(-3, 2, 4), r"\[0\] = -3")):
        yield RuntimeError, "cu_seqlens_q" + entry, lambda: call(cu_seqlens_q=cu)
        yield RuntimeError, "cu_seqlens_q" + entry, lambda: varlen(q, q, q, cu, cu)
        if device == "cpu":
            yield RuntimeError, "cu_seqlens_k_new" + entry, lambda: call(cu_seqlens_k_new=cu, k=q, v=q, cache_seqlens=3)
    for most in (1, 0, -1) if device == "cpu" else (-1,):
        yield ValueError, f"max_seqlen_q = {most}", lambda: call(max_seqlen_q=most)
    yield ValueError, "cu_seqlens_q is empty", lambda: call(cu_seqlens_q=ints())
    yield ValueError, "cu_seqlens_q is empty", lambda: varlen(q, q, q, ints(), ints())
    cu = ints(0, 2, 4)
    yield RuntimeError, r"seqused_k\[0\] = 9999", lambda: varlen(q, q, q, cu, cu, seqused_k=ints(9999, 1))
    if device == "cpu":  # on a GPU the next call tells
        table = ints(9999, 0)[:, None]
        yield RuntimeError, r"block_table\[0, 0\] = 9999", lambda: varlen(q, cache, cache, cu, cu, block_table=table)


def test_refusals_say_why():
    for n, (error, word, call) in enumerate(refusals()):
        with pytest.raises(error, match=word):
            call()
    assert n > 80


def test_kvcache_under_autocast():
    (q, new), cache = torch.randn(2, 1, 1, 2, 16, device=device), randn(1, 16, 2, 16)
    copies = lambda: cache.repeat(2, 1, 1, 1, 1)
    call = lambda q, *new: flash_attn_with_kvcache(q, *copies(), *new, cache_seqlens=3)
    with torch.autocast(device, torch.bfloat16):
        assert torch.equal(call(q, new, new), call(*(x.bfloat16() for x in (q, new, new))))
        for k, v, name in ((new.half(), new, "k"), (new, new.half(), "v")):
            with pytest.raises(TypeError, match=f"{name} is float16, expected bfloat16"):
                call(q, k, v)


# ------------------------ wrong once


def test_who_writes_to_what_is_kept_is_told():
    Q = torch.zeros(1, 20, 2, 64, dtype=torch.bfloat16, device=device)
    for q in (Q, Q.transpose(1, 2).contiguous().transpose(1, 2)):  # copied, or not
        leaf = q.clone(memory_format=torch.preserve_format).requires_grad_()
        given = leaf * 1
        O = flash_attn_func(given, q, q, causal=True)
        if q is not Q:
            with torch.no_grad():
                given.add_(1)
            with pytest.raises(RuntimeError, match="in-?place"):
                O.sum().backward()
        O = flash_attn_func(leaf, q, q, causal=True)
        O.mul_(2)
        with pytest.raises(RuntimeError, match="in-?place"):
            O.sum().backward()


@pytest.mark.skipif(not os.path.exists("pyproject.toml") or not importlib.util.find_spec("pip"),
                    reason="needs a checkout, and pip")
def test_pip_installs(tmp_path):
    backend = os.environ.get("BACKEND") or ("cuda" if device == "cuda" else "cpu")
    as_built = {"WERROR": "1"} if "-Werror" in open(f"build/{backend}/flags.mk").read() else {}
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(tmp_path), "."]
    subprocess.run(pip, check=True, env={**os.environ, **as_built, "BACKEND": backend})
    alone = {**{k: v for k, v in os.environ.items() if k != "WB_LIBRARY"}, "PYTHONPATH": str(tmp_path)}
    says = [sys.executable, "-c", "import flash_workbook; print(flash_workbook.check())"]
    said = subprocess.run(says, check=True, cwd="/", env=alone, capture_output=True, text=True).stdout
    assert f" {tmp_path}/flash_workbook/libworkbook.so, version" in said


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_default_dtype_and_device_are_not_the_kernels(dtype):
    q, cache = torch.zeros(1, 1, 1, 16, device=device).bfloat16(), torch.ones(1, 16, 1, 16, device=device)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        torch.set_default_device("meta")
        O = flash_attn_with_kvcache(q, *[cache.to(flash_attn.E4M3)] * 2)
        arguments.told.cache_clear()
        more = [flash_attn_with_kvcache(q, *[cache.bfloat16()] * 2, window_size=(3, 0)),
                flash_attn_func(q, *[cache.bfloat16()] * 2, window_size=(2, 1)),
                flash_attn_varlen_func(q, *[cache.bfloat16()] * 2, softcap=3.0)]
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(before)
    assert all((x == 1).all() for x in (O, *more))


def test_new_lengths_in_the_same_tensor():
    """Written to, or through .data, which nobody counts: seen on the host, and on a GPU after forget_mask()."""
    v = torch.arange(1, 13, device=device).bfloat16()[:, None, None].expand(12, 1, 16)
    cu, q = ints(0, 3, 12), torch.zeros_like(v)
    call = lambda cu: flash_attn_varlen_func(q, q, v, cu, cu)[[0, 11], 0, 0].tolist()
    assert call(cu) == [2, 8]
    cu[1] = 4
    assert call(cu) == [2.5, 8.5]
    cu.data[1] = 6
    if device != "cpu":
        flash_workbook.forget_mask()
    assert call(cu) == [3.5, 9.5]
    with torch.inference_mode():
        inside = cu.clone()
        assert call(inside) == call(inside) == [3.5, 9.5]


def test_refusals_travel():
    again = pickle.loads(pickle.dumps(Refused(3, "so")))
    assert (again.status, str(again)) == (3, "so") and copy.copy(again).status == 3


# ------------------------ GPUs


@needs_gpu
@pytest.mark.parametrize("what", ["func", "varlen", "kvcache"])
def test_captured_in_a_graph(what):
    q, k = randn(2, 3, 4, 64), randn(2, 64, 2, 64)
    cu_q, cu_k = (ints(0, n, 2 * n) for n in (3, 64))
    calls = {"func": lambda: flash_attn_func(q, k, k, causal=True),
             "varlen": lambda: flash_attn_varlen_func(q.flatten(0, 1), k.flatten(0, 1), k.flatten(0, 1), cu_q, cu_k, 3,
                                                      64, causal=True),
             "kvcache": lambda: flash_attn_with_kvcache(q, k, k, causal=True)}
    want, graph = calls[what](), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        got = calls[what]()
    flash_attn.band_mask.cache_clear()  # the graph keeps what it reads
    calls["varlen"] = lambda q=q: flash_attn_varlen_func(
        q.flatten(0, 1), k.flatten(0, 1), k.flatten(0, 1), cu_q.clone(), cu_k, causal=True)
    calls[what](), q.copy_(randn(*q.shape))
    graph.replay()
    assert torch.equal(got, calls[what]()) and not torch.equal(got, want)
    with torch.inference_mode():
        refused = pytest.raises(Refused, match="outside of torch.inference_mode")
        with refused if what == "varlen" else contextlib.nullcontext(), torch.cuda.graph(torch.cuda.CUDAGraph()):
            calls[what]()


@needs_gpu
def test_streams():
    """Calls on two streams, whose inputs come late: each waits for its own stream's, and for nothing else."""
    side, out = [torch.cuda.Stream() for _ in range(2)], []
    held = [inputs(2, 8, 2, 1000, 64, {}) for _ in side]
    want = [results(attention, x) for x in held]
    late = [[torch.full_like(x, torch.nan).requires_grad_() for x in tensors] for tensors, _, _ in held]
    torch.cuda.synchronize()
    for stream, (tensors, dO, how), arriving in zip(side, held, late):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
            for to, x in zip(arriving, tensors):
                to.data.copy_(x, non_blocking=True)
            out.append(results(attention, (arriving, dO, how)))
    waited = all(stream.query() for stream in side)
    torch.cuda.synchronize()
    assert not waited and all(far <= LIMIT for got, w in zip(out, want) for far in distances(got, w))


@needs_gpu
def test_graph_captures_forward_and_backward(case):
    # whose graph is gone: it would tie the default stream to the capture
    want = [x.detach() for x in results(attention, case)]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = results(attention, case)
    graph.replay()
    torch.cuda.synchronize()
    assert same(got, want)


@needs_gpu
def test_compiled_with_graphs(case):
    torch._dynamo.reset()
    compiled = torch.compile(attention, fullgraph=True, mode="reduce-overhead")
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        got = [x.clone() for x in results(compiled, case)]
    assert same(got, results(attention, case))
