#!/usr/bin/env python3
"""Shapes drawn by chance, and in each the library beside everything else that is installed: who is ahead, and where.

    make duel BACKEND=cuda SEED=1 LIMIT=300 (seconds) ONLY="decode window_backward"
    python3 reference/duel.py [LIBRARY] >duel.tsv    the same
    python3 reference/duel.py --draw 100             the first shapes of a seed, no more: wants no GPU, no PyTorch

The rule is drawn() of shapes.py: a family, then N and D; then, until it fits, heads, batch and mask. Full attention
with D 16 or 32 has Hq = Hkv and no backward, for the library had no more. LARGEST: FLOPs of a forward at most.

Peers: FlashAttention-4 (fa4), FlashAttention-3 (fa3; forward, no sinks; decoding from a cache without pages), cuDNN and
FlashAttention-2 by PyTorch (cudnn, fa2), FlexAttention (flex), FlashInfer; each where it knows the mask; PEERS="fa3
cudnn" asks these alone, PEERS=none nobody. flex is compiled for each shape, for seconds: it is asked where no other
knows the mask. same_bits: gradients that are the same each time; only fa4 can. fa4 computes no gradient of sink logits.
Of int8, flashinfer reads float8 and the others bf16. Who declines is named in a line with a #.

Times are the device's: all is queued beforehand, L2 is cold, the median of 5 to 15, in turns. Whoever took half as long
again as the best peer the first time is asked no more, and that time stands. ratio: best peer / ours, so above 1 ours
is ahead. kernel: what the library took. all: ms of each of its kernels, and predicted: us that each should take
(workbook/predict.h; reference/fit.py compares them). error: |x - want| / |want| of drawn rows, the largest of O, L and
the gradients; want is float32 from the same inputs; verdict: WRONG above 2^-7 or where a number was not written.
plots/duel.awk sums up. Exit status 1: one is WRONG.
"""
import ctypes, functools, importlib.util, itertools, math, os, random, re, sys, time, warnings
from types import SimpleNamespace

from shapes import SHAPE, drawn, pairs, shape_of

KINDS = """forward backward same_bits window_forward window_backward sinks_forward sinks_backward
    logits_forward logits_backward decode int8 mask""".split()
PEERS = "fa4 fa3 cudnn fa2 flex flashinfer".split()
KNOW = {"attention": "fa4 fa3 cudnn fa2", "window": "fa4 fa3", "sinks": "flex", "logits": "fa4"}  # their masks
LIMIT = 2**-7  # of errors: flash_attn_test.py says why

if __name__ == "__main__" and sys.argv[1:2] == ["--draw"]:
    print("family", *SHAPE, "gflop", sep="\t")
    for c in itertools.islice(drawn(os.environ.get("SEED") or 1), int(sys.argv[2])):
        print(c.family, *shape_of(c), f"{4e-9 * c.Hq * c.D * pairs(c):.5g}", sep="\t")
    sys.exit()

# ------------------------ timing
if not importlib.util.find_spec("torch") or not __import__("torch").cuda.is_available():
    sys.exit("duel: needs PyTorch, and a GPU that PyTorch finds")
os.environ["WB_LIBRARY"] = (sys.argv[1:2] or [os.environ.get("WB_LIBRARY", "build/cuda/lib/libworkbook_all.so")])[0]
import torch
import peers
from flash_workbook import Library, Shape, block_mask, quantise_cache
from flash_workbook.library import BlockMask, DecodeShape
from peers import randn
from timing import heading, once, percentiles, said

warnings.filterwarnings("ignore")
asked = (os.environ.get("PEERS") or " ".join(PEERS)).split()
if not {*asked} <= {*PEERS, "none"}:
    sys.exit(f"duel: what is {' '.join({*asked} - {*PEERS})} in PEERS? They are {', '.join(PEERS)}, or none")
asked = [] if "none" in asked else asked
lib = Library(os.environ["WB_LIBRARY"])
lib.lib.wb_library_kernel.restype = lib.lib.wb_library_decode_kernel.restype = ctypes.c_char_p
lib.lib.wb_library_microseconds.restype = ctypes.c_double
source_name = lambda source: re.sub(r"^solutions/|\.cu$", "", source.decode())
tensor, told, bad = functools.partial(torch.tensor, device="cuda"), set(), False
unwritten = lambda like: torch.full_like(like, math.nan)


def contend(kind, makers):
    """{name: median ms}. Each maker returns what is timed. Who raises is told of once a kind; but "ours" may not."""
    calls, ms = {}, {}
    makers = {name: make for name, make in makers.items() if name not in PEERS or name in asked}
    hold = 4_000_000 if asked else 400_000  # ours are queued in microseconds
    for name, make in makers.items():
        try:
            calls[name] = make()
            calls[name]()
            ms[name] = [once(calls[name], hold=hold)]
        except Exception as error:
            if name == "ours":
                raise
            if (kind, name) not in told:
                print(f"# {kind}: no {name}: {said(error)}", flush=True)
            told.add((kind, name))
    best = min((ms[name][0] for name in PEERS if name in ms), default=0)
    field = [name for name in ms if name == "ours"
             or ms[name][0] < (1.5 * best if name in PEERS else 1.2 * ms["ours"][0])]
    for turn in range(max(4, min(14, int(100 / sum(ms[name][0] for name in field))))):
        for name in field[turn % len(field):] + field[:turn % len(field)]:
            ms[name].append(once(calls[name], hold=hold))
    return {name: percentiles(t)[0] for name, t in ms.items()}


@functools.lru_cache(None)
def kernels(function):
    """{source: (function, what says how large its workspace is, or None)} of the rows of a function in
    solutions/kernels.h."""
    rows, found = open("solutions/kernels.h").read(), {}
    for row, source, name, form in re.findall(rf'^(\w+)\(\w+, {function}, "([^"]*)",\s+(\w+), (\w+)\)', rows, re.M):
        found[source] = (f"{name}_in_{form}" if row == "KERNEL_IN" else f"{name}_{form}",
                         None if row == "KERNEL" else f"{name}_workspace_{form}")
    return found | (kernels("flash_hopper") if f"BY_HOPPER({function})" in rows else {})


def predicted(function, source, shape):
    """Microseconds (workbook/predict.h)."""
    return lib.lib.wb_library_microseconds(function.encode(), f"solutions/{source}.cu".encode(), ctypes.byref(shape),
                                           None)


def maker(symbol, size, tensors, shape, behind=False):
    """Makes a call in a workspace of its own, which SIZE, a function, wants: before the tensors, or behind them."""
    def make():
        room, memory = (), None
        if size:
            name, _, kernel = size.partition("_workspace")
            *room, memory = lib.workspace(name, shape, tensors[0].device, kernel)
        before, after = ((), room) if behind else (room, ())
        return lambda keep=memory: lib.call(symbol, tensors, shape, *before, after=after)
    return make


def ours(function, tensors, shape):
    """Which source serves, and makers of the library's function and of the other kernels of its table."""
    serves = source_name(lib.lib.wb_library_kernel(function.encode(), ctypes.byref(shape)))
    size = function.removesuffix("_fastest") + "_workspace"
    whole = maker(function + "_in" * lib.has(function + "_in"), size if lib.has(size) else None, tensors, shape)
    if function == "flash_hopper" and not shape.causal:  # as the library calls them
        shape = Shape(shape.batch, shape.kv_heads, shape.kv_heads, shape.q_heads // shape.kv_heads * shape.q_len,
                      shape.kv_len, shape.head_dim, shape.scale, 0, shape.window, 0)
    return serves or "key", {"ours": whole, **{source: maker(*of, tensors, shape)
                                               for source, of in kernels(function).items() if source != serves}}


def report(kind, c, gflop, ms, kernel, error, function, shape):
    global bad
    others = {name: ms[name] for name in PEERS if name in ms}
    best = min(others, key=others.get, default="-")
    own = {kernel: ms["ours"], **{name: ms[name] for name in ms if name not in ("ours", *PEERS)}}
    bad |= not error <= LIMIT
    print(kind, *shape_of(c), f"{gflop:.5g}", f"{ms['ours']:.5g}",
          *(f"{ms[name]:.5g}" if name in ms else "-" for name in PEERS), best,
          f"{others[best] / ms['ours']:.4f}" if others else "-", kernel, f"{error:.2g}",
          "ok" if error <= LIMIT else "WRONG", ",".join(f"{name}:{own[name]:.5g}" for name in own),
          ",".join(f"{name}:{predicted(function, name, shape):.4g}" for name in own), sep="\t", flush=True)


# ------------------------ what is right
def far(got, want, size=None):
    """|got - want| / |want|, each row's, their mean by squares; size: what chance would leave of terms that may cancel,
    instead of |want|."""
    d = ((got.float() - want).norm(dim=-1) / (want.norm(dim=-1) if size is None
                                              else size).clamp(min=1e-30)).square().mean().sqrt().item()
    return d if d == d else math.inf


def some(rnd, n, how_many=8):
    return tensor(sorted({0, n - 1, *(rnd.randrange(n) for _ in range(how_many))}))


def written_out(q, K, V, seen, sink=None):
    """O, L and P of rows q [n, D], in float32."""
    S = (q.float() @ K.mT * q.shape[-1] ** -0.5).masked_fill(~seen, -torch.inf)
    if sink is not None:
        S = torch.cat([S, sink.expand(len(S), 1)], -1)
    P = S.softmax(-1).nan_to_num(0)[:, : len(K)]  # a row that sees nothing: 0
    return P @ V, S.logsumexp(-1), P


def forward_error(rnd, q, k, v, sees, sink, O, L):
    worst = 0 if O.isfinite().all() else math.inf
    for _ in range(3):
        b, h, i = rnd.randrange(len(q)), rnd.randrange(q.shape[1]), some(rnd, q.shape[2])
        K, V = (x[b, h * k.shape[1] // q.shape[1]].float() for x in (k, v))
        o, l, _ = written_out(q[b, h, i], K, V, sees(b, h, i[:, None], torch.arange(len(K), device="cuda")),
                              sink[0][h] if sink else None)
        worst = max(worst, far(O[b, h, i], o), far(L[b, h, i].nan_to_num(neginf=0), l.nan_to_num(neginf=0)))
    return worst


def size_of_dS(G, V, O):
    """What dP = G V^T and delta = rowsum(G * O) are by the sizes of their terms. In a row of one or two keys both may
    be small by chance, and what O has lost to bf16 is not."""
    return (G.square() @ V.square().mT).sqrt() + (G * O).norm(dim=-1, keepdim=True)


def backward_error(rnd, q, k, v, sees, sink, O, L, dO, gradients):
    dQ, dK, dV, *dsinks = gradients
    worst = 0 if all(x.isfinite().all() for x in gradients) else math.inf
    g, scale, all_keys = q.shape[1] // k.shape[1], q.shape[3] ** -0.5, torch.arange(k.shape[2], device="cuda")
    b, hk, i, j = rnd.randrange(len(q)), rnd.randrange(k.shape[1]), some(rnd, q.shape[2]), some(rnd, k.shape[2])
    K, V, of_group = k[b, hk].float(), v[b, hk].float(), slice(hk * g, hk * g + g)
    h = hk * g + rnd.randrange(g)
    o, _, P = written_out(q[b, h, i], K, V, sees(b, h, i[:, None], all_keys), sink[0][h] if sink else None)
    G = dO[b, h, i].float()
    dP, delta = G @ V.mT, (G * o).sum(-1, keepdim=True)
    worst = max(worst, far(dQ[b, h, i], P * (dP - delta) @ K * scale, (P * size_of_dS(G, V, o)).norm(dim=-1)))
    Q, G, delta = q[b, of_group].float(), dO[b, of_group].float(), (dO[b, of_group].float() * O[b,
        of_group].float()).sum(-1, keepdim=True)
    P = ((Q @ K[j].mT * scale).masked_fill(~sees(b, h, all_keys[:, None], j), -torch.inf) - L[b, of_group, :,
        None]).exp()
    dP = G @ V[j].mT
    worst = max(worst, far(dV[b, hk, j], (P.mT @ G).sum(0), P.norm(dim=(0, 1)) / scale))
    worst = max(worst, far(dK[b, hk, j], ((P * (dP - delta)).mT @ Q).sum(0) * scale,
                           (P * size_of_dS(G, V[j], O[b, of_group].float())).norm(dim=(0, 1))))
    for d in dsinks:
        terms = (sink[0][h] - L[:, h]).exp() * (dO[:, h].float() * O[:, h].float()).sum(-1)
        worst = max(worst, far(d[h, None], -terms.sum()[None], terms.norm()))
    return worst


# ------------------------ the families
def attend(c, rnd, wanted):
    q, k, v, dO = (randn(c.B, H, N, c.D) for H, N in ((c.Hq, c.Nq), (c.Hkv, c.Nk), (c.Hkv, c.Nk), (c.Hq, c.Nq)))
    sink = [2 + 2 * torch.randn(c.Hq, device="cuda")] if c.family == "logits" else []
    O, L, causal = unwritten(q), unwritten(q[..., 0].float()), c.mask == "causal"
    shape = Shape(c.B, c.Hq, c.Hkv, c.Nq, c.Nk, c.D, c.D ** -0.5, causal, c.W or c.Nk, c.S)
    sees = lambda b, h, i, j: peers.visible(i, j, c.W or c.Nk, c.S) | (not causal)
    flop, more, grouped = 4.0 * c.Hq * c.D * pairs(c), sink, c.Hq != c.Hkv
    names = {"logits": "sink_logits", "mask": "block_mask",
             "attention": ("gqa" if grouped else "causal") if causal else "hopper" if grouped else "forward"}
    function = "flash_" + names.get(c.family, c.family)
    if c.family == "mask":
        sees, seen, seen_by_flex = peers.masked(c)
        made = block_mask(seen_by_flex)
        mask = BlockMask(made.q_tile, 64, c.B, *(x.data_ptr() for x in made[3:]))
        flop, more = 4.0 * c.Hq * c.D * seen.sum().item(), [SimpleNamespace(data_ptr=lambda: ctypes.addressof(mask))]
    kind = {"attention": "forward", "mask": "mask"}.get(c.family, c.family + "_forward")
    kernel, contenders = ours(function, [O, L, q, k, v, *more], shape)
    contenders["ours"]()()
    peer = lambda name, *dO: lambda: peers.dense(name, q, k, v, causal, c.W, c.S, *(sink or [None]), *dO)
    if wanted(kind):
        error = forward_error(rnd, q, k, v, sees, sink, O, L)
        contenders |= ({"flex": lambda: peers.flex_masked(q, k, v, seen_by_flex)} if c.family == "mask" else
                       {name: peer(name) for name in KNOW[c.family].split()})
        report(kind, c, flop / 1e9, contend(kind, contenders), kernel, error, function, shape)
    if c.family == "mask" or (not causal and c.D < 64):
        return
    backwards = {"attention": {"backward": "flash_gqa_backward_fastest", "same_bits": "flash_gqa_backward"},
                 "logits": {"logits_backward": "flash_sink_logits_backward"}}.get(c.family,
                     {c.family + "_backward": "flash_sinks_backward"})
    for kind, function in backwards.items():
        if wanted(kind):
            gradients, delta = [unwritten(x) for x in (q, k, v, *sink)], unwritten(L)
            kernel, contenders = ours(function, [*gradients, delta, q, k, v, *sink, O, L, dO], shape)
            contenders["ours"]()()
            error = backward_error(rnd, q, k, v, sees, sink, O, L, dO, gradients)
            contenders |= ({"fa4": peer("fa4_same_bits", dO)} if kind == "same_bits" else
                           {name: peer(name, dO) for name in KNOW[c.family].split() if name != "fa3"})
            report(kind, c, 2.5 * flop / 1e9, contend(kind, contenders), kernel, error, function, shape)


def decode(c, rnd, wanted):
    q, k, v, pages, keys = peers.pages_of(c)
    cache, scales = [k, v], []
    if c.family == "int8":
        cache, scales = zip(*map(quantise_cache, (k, v)))
    function = "flash_decode_int8" if scales else "flash_decode"
    shape = DecodeShape(c.B, c.Hq, c.Hkv, c.Nq, c.D, c.D ** -0.5, c.page, len(k), pages.shape[1])
    O, L = unwritten(q), unwritten(q[..., 0].float())
    made = functools.partial(maker, tensors=[O, L, q, *cache, *scales, pages, keys], shape=shape, behind=True)
    step = made(function, function + "_workspace")
    step()()
    worst = 0 if O.isfinite().all() else math.inf
    for b in {0, rnd.randrange(c.B), rnd.randrange(c.B)}:
        h, n = rnd.randrange(c.Hq), c.keys[b]
        at = pages[b, : -(-n // c.page)].long()
        K, V = (x[at, :, h * c.Hkv // c.Hq].float() for x in cache)
        if scales:
            K, V = (x * s[at, h * c.Hkv // c.Hq, :, None] for x, s in zip((K, V), scales))
        i, j = torch.arange(c.Nq, device="cuda")[:, None], torch.arange(n, device="cuda")
        o, l, _ = written_out(q[b, h], K.flatten(0, 1)[:n], V.flatten(0, 1)[:n], j <= n - c.Nq + i)
        worst = max(worst, far(O[b, h], o), far(L[b, h], l))
    kernel = source_name(lib.lib.wb_library_decode_kernel(function.encode(), ctypes.byref(shape)))
    contenders = {source: made(symbol, size or function + "_workspace_key")
                  for source, (symbol, size) in kernels(function).items() if source != kernel}
    know = ["fa4", "fa3", *["flashinfer"] * bool(peers.flashinfer),
            *["cudnn", "fa2"] * (c.lens == "same" and c.Nq == 1)]
    contenders |= {"ours": step, **{name: lambda name=name: peers.decoding(name, q, k, v, pages, keys, bool(scales))
                                    for name in know}}
    report(c.family, c, 4e-9 * c.Hq * c.D * pairs(c), contend(c.family, contenders), kernel, worst, function, shape)


def main():
    global bad
    seed, limit = os.environ.get("SEED") or 1, float(os.environ.get("LIMIT") or 300)
    only, begun = (os.environ.get("ONLY") or "").split(), time.time()
    if not {*only} <= {*KINDS}:
        sys.exit(f"duel: unknown {' '.join({*only} - {*KINDS})} in ONLY; the kinds are {', '.join(KINDS)}")
    wanted = lambda kind: not only or kind in only
    heading(True)
    print(f"# seed: {seed}, {limit:g} s{', only ' * bool(only)}{' '.join(only)}")
    print("# not installed:", " ".join(package for package in ("flash_attn", "fa3_fwd", "flashinfer")
                                       if not importlib.util.find_spec(package)) or "none")
    print("kind", *SHAPE, "gflop", "ours", *PEERS, "best", "ratio", "kernel", "error", "verdict", "all", "predicted",
          sep="\t", flush=True)
    for number, c in enumerate(drawn(seed)):
        if time.time() - begun > limit:
            break
        if not any(map(wanted, KINDS[:3] if c.family == "attention"
                       else (kind for kind in KINDS if kind.startswith(c.family)))):
            continue
        torch.manual_seed(number)
        try:
            (decode if c.page else attend)(c, random.Random(number), wanted)
        except Exception as error:
            bad = True
            print(f"# FAILED {c.family} {' '.join(map(str, shape_of(c)))}: {said(error, 300)}", flush=True)
        if torch.cuda.memory_reserved() > 60 * 2**30:
            torch.cuda.empty_cache()
    sys.exit(bad)


if __name__ == "__main__":
    main()
