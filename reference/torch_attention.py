#!/usr/bin/env python3
"""flash_workbook's attention (flash_workbook/) beside the same written out, and its times.

    make torch BACKEND=cuda        or    python3 reference/torch_attention.py [LIBRARY] >torch_attention.tsv

checks O and all gradients against attention written out in float32, on 22 ragged shapes, then, on a GPU, order on
torch's streams, and times beside torch's own backends (reference/peers.py) in the same run. A mistake planted for each
kind of mask must be seen. Printed: lines that start with # say where the numbers come from, then what, impl, at, value,
limit, verdict. Exit status 1: a limit was not kept, or a mistake not seen.

The limit of |x - want| / |want| is 2^-7. A number rounded to bf16 is off by 2^-9 at most, and no more than four
roundings add up in any of these results: of P or dS before it enters a product, of O and then delta, of what dS was
made of, and of the result itself.
"""
import functools, os, sys

try:
    import torch
except ImportError as error:
    if __name__ != "__main__":
        raise
    sys.exit(f"torch_attention.py wants PyTorch, and here: {error}.")
from flash_workbook import attention, library
from timing import Verdicts, heading, said, shapes, times

# ------------------------ the check


def written_out(Q, K, V, causal=True, window=None, sink_tokens=0, sink_logits=None):
    """The same in the inputs' own type, with all of the score matrix."""
    i, j = torch.arange(Q.shape[2], device=Q.device)[:, None], torch.arange(K.shape[2], device=Q.device)
    hidden = (j > i) & causal
    if window:
        hidden |= (j <= i - window) & (j >= sink_tokens)
    group = Q.shape[1] // K.shape[1]
    S = (Q @ K.repeat_interleave(group, 1).mT / Q.shape[3] ** 0.5).masked_fill(hidden, -torch.inf)
    if sink_logits is not None:
        S = torch.cat([S, sink_logits[:, None, None].expand(*S.shape[:3], 1)], -1)
    return S.softmax(-1)[..., : K.shape[2]] @ V.repeat_interleave(group, 1)


RAGGED = [  # B, Hq, Hkv, N, D, and what is visible
    *((*sizes, {"causal": False}) for sizes in ((1, 2, 2, 65, 64), (2, 3, 3, 129, 128), (1, 4, 2, 201, 64),
                                                (1, 2, 2, 330, 16), (2, 4, 2, 129, 32))),
    *((*sizes, {}) for sizes in ((1, 2, 2, 33, 16), (2, 2, 2, 97, 32), (1, 3, 3, 131, 64))),
    *((*sizes, {}) for sizes in ((2, 6, 2, 35, 16), (1, 8, 1, 130, 64), (1, 8, 2, 257, 128), (1, 5, 1, 67, 128))),
    *((*sizes, {"window": W}) for *sizes, W in ((1, 2, 1, 100, 64, 17), (2, 4, 2, 129, 32, 64),
                                                (1, 8, 2, 150, 16, 40))),
    *((*sizes, {"window": W, "sink_tokens": S}) for *sizes, W, S in ((1, 4, 2, 150, 64, 32, 4), (1, 2, 1, 97, 128, 16,
        1), (2, 4, 1, 70, 16, 8, 3))),
    *((*sizes, {"window": W, "logits": True}) for *sizes, W in ((1, 4, 2, 150, 64, 32), (1, 8, 1, 129, 64, None),
                                                                (2, 4, 2, 97, 128, None), (1, 2, 2, 61, 32, 16))),
]
MISTAKES = {  # what is asked for instead, where it is something else
    "causal": lambda how: not how.get("causal", True) and {**how, "causal": True},
    "window_one_long": lambda how: how.get("window") and {**how, "window": how["window"] + 1},
    "one_sink_fewer": lambda how: how.get("sink_tokens") and {**how, "sink_tokens": how["sink_tokens"] - 1},
    "next_heads_sink": lambda how: "sink_logits" in how and {**how, "sink_logits": how["sink_logits"].roll(1)},
    "scale": lambda how: {**how, "scale": 0.1},
}
LIMIT = 2**-7


def inputs(B, Hq, Hkv, N, D, how, device):
    torch.manual_seed(N)
    Q, K, V, dO = (torch.randn(B, h, N, D, device=device).bfloat16() for h in (Hq, Hkv, Hkv, Hq))
    how = dict(how)
    sinks = [torch.randn(Hq, device=device)] if how.pop("logits", False) else []
    return [x.requires_grad_() for x in (Q, K, V, *sinks)], dO, how


def results(function, tensors, dO, how):
    """O, dQ, dK, dV, and dsinks if there are any."""
    if len(tensors) == 4:
        how = {**how, "sink_logits": tensors[3]}
    O = function(*tensors[:3], **how)
    return [O.detach(), *torch.autograd.grad(O, tensors, dO)]


def distances(got, want):
    return [((a.float() - b).norm() / b.norm()).item() for a, b in zip(got, want)]


def text(B, Hq, Hkv, N, D, how):
    seen = " ".join(f"{name}={value}" for name, value in how.items() if value is not None)
    return f"B{B} H{Hq}/{Hkv} N{N} D{D} {seen or 'causal=True'}"


def check(device):
    full_has_gradients = library().lib.wb_device_capability() == 9
    for *sizes, kind in RAGGED:
        at, (tensors, dO, how) = text(*sizes, kind), inputs(*sizes, kind, device)
        if not how.get("causal", True) and not full_has_gradients:
            print(f"# {at}: has a backward on sm_90 alone")
            continue
        exact = [x.detach().float().requires_grad_() for x in tensors]
        want = results(written_out, exact, dO.float(), how)
        for impl, same_bits in (("workbook", False), ("workbook_same_bits", True)):
            got = results(functools.partial(attention, same_bits=same_bits), tensors, dO, how)
            for what, far in zip(("O", "dQ", "dK", "dV", "dsinks"), distances(got, want)):
                verdicts.row(what, impl, at, far, LIMIT, "ok" if far <= LIMIT else "TOO FAR")
        again = results(functools.partial(attention, same_bits=True), tensors, dO, how)
        other = sum((a != b).sum().item() for a, b in zip(got, again))
        verdicts.row("other_bits", "workbook_same_bits", at, other, 0, "ok" if other == 0 else "FAILED")
        for name, change in MISTAKES.items():
            with_sinks = {**how, "sink_logits": tensors[3]} if len(tensors) == 4 else how
            if changed := change(with_sinks):
                wrong = distances(results(functools.partial(attention, **changed), tensors[:3], dO, {}), want)
                far = min(wrong)  # in what shows it least
                verdicts.row("least of O dQ dK dV", name, at, far, LIMIT, "rejected" if far > LIMIT else "NOT SEEN")


def streams():
    """Calls on two streams, whose inputs come late: each waits for its own stream's, and for nothing else."""
    sizes = (2, 8, 2, 1000, 64, {})
    side = [torch.cuda.Stream() for _ in range(2)]
    held, out = [inputs(*sizes, device) for _ in side], []
    want = [results(attention, *x) for x in held]
    late = [[torch.full_like(x, torch.nan).requires_grad_() for x in tensors] for tensors, _, _ in held]
    torch.cuda.synchronize()
    for stream, (tensors, dO, how), arriving in zip(side, held, late):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
            for to, x in zip(arriving, tensors):
                to.data.copy_(x, non_blocking=True)
            out.append(results(functools.partial(attention, same_bits=True), arriving, dO, how))
    waited = all(stream.query() for stream in side)
    torch.cuda.synchronize()
    far = max(max(distances(got, [x.float() for x in w])) for got, w in zip(out, want))
    verdicts.row("two_streams", "workbook_same_bits", text(*sizes), far, LIMIT,
                 "ok" if far <= LIMIT and not waited else "FAILED")


# ------------------------ the times

def time_all():
    import peers  # the others

    ours = {"workbook": functools.partial(attention, same_bits=False),
            "workbook_same_bits": functools.partial(attention, same_bits=True)}

    def theirs(name, Q, K, V, causal=True, window=None, sink_tokens=0, sink_logits=None):
        sink = {} if sink_logits is None else {"sink": sink_logits}
        return peers.PEERS[name](Q, K, V, causal, window, sink_tokens, **sink)

    for names, c in shapes("torch"):
        logits, W = "logits" in c, c.get("W")
        if logits:
            kind = {"window": W or None, "logits": True}
        else:
            kind = {"window": W, "sink_tokens": c["S"]} if W else {"causal": c["mask"] == "causal"}
        sizes = [c["B"], c["Hq"], c.get("Hkv", c["Hq"]), c["N"], c["D"]]
        at = text(*sizes, kind)
        for impl in (*ours, *names):
            tensors, dO, how = inputs(*sizes, kind, device)
            if logits:
                how["sink_logits"] = tensors[3]
            if impl.startswith("fa4"):  # its own order of dimensions
                tensors = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in tensors]
                dO = dO.transpose(1, 2).contiguous()
            function = ours.get(impl) or functools.partial(theirs, impl)
            try:
                verdicts.row("forward_ms", impl, at, times(lambda: function(*tensors[:3], **how))[0])
                O = function(*tensors[:3], **how)
                backward = lambda: torch.autograd.grad(O, tensors, dO, retain_graph=True)
                verdicts.row("backward_ms", impl, at, times(backward)[0])
            except Exception as error:  # out of memory, or a backend that declines
                print(f"# {at} {impl}: {said(error, 100)}", flush=True)
            tensors = dO = how = O = None


if __name__ == "__main__":
    if sys.argv[1:]:
        os.environ["WB_LIBRARY"] = sys.argv[1]
    on_gpu = torch.cuda.is_available() and os.environ.get("BACKEND") != "cpu"
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    heading(on_gpu)
    verdicts = Verdicts()
    check(device)
    if on_gpu:
        streams()
        time_all()
    sys.exit(verdicts.failed)
