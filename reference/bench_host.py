"""How long a call holds up the host that makes it: ours beside PyTorch's SDPA, and flash-attn where it is installed, in
turns, in one process.

    make bench-host               wants a GPU; build/cuda/results/bench_host.tsv

us: microseconds a call, the median of ROUNDS rounds of CALLS calls, which only queue work; then the round waits for the
GPU. of_sdpa: to that of SDPA in the same rounds. What the GPU needs is another matter (duel.py): where it takes longer
than the host, nobody sees these.
"""
import functools, gc, time

import torch
import torch.nn.functional as F

import flash_workbook
from timing import heading, percentiles, told

SHAPES = [(1, 8, 8, 128, 64), (2, 16, 4, 512, 64), (4, 32, 8, 2048, 128)]  # B, Hq, Hkv, N, D: all causal
ROUNDS, CALLS = 30, 40
COLUMNS = "what B Hq Hkv N D impl us us_p10 us_p90 of_sdpa".split()


def report(what, shape, calls):
    """Rows of those that can be called at all, in turns; the others say why not."""
    able, took = {}, {}
    for name, call in calls.items():
        with told(f"{what} {shape} {name}"):
            for _ in range(5):
                call()
            able[name], took[name] = call, []
    gc.collect(), gc.disable()
    for _ in range(ROUNDS):
        for name, call in able.items():
            torch.cuda.synchronize()
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            took[name].append((time.perf_counter_ns() - start) / CALLS / 1000)
    gc.enable()
    for name in able:
        us, low, high = percentiles(took[name])
        ratio = us / percentiles(took["SDPA"])[0] if "SDPA" in able else float("nan")
        print(what, *shape, name, *(f"{x:.2f}" for x in (us, low, high, ratio)), sep="\t", flush=True)


def both(function, *tensors):
    """A forward and a backward pass."""
    dO = torch.ones_like(function(*tensors))
    return lambda: torch.autograd.grad(function(*tensors), tensors, dO)


def main():
    heading(True)
    print(*COLUMNS, sep="\t")
    theirs = None
    with told("flash-attn"):
        from flash_attn import flash_attn_func as theirs
    for shape in SHAPES:
        B, Hq, Hkv, N, D = shape
        torch.manual_seed(N)
        Q, K, V = (torch.randn(B, h, N, D, device="cuda").bfloat16() for h in (Hq, Hkv, Hkv))
        leaves = [x.clone().requires_grad_() for x in (Q, K, V)]
        tokens = [x.transpose(1, 2).contiguous() for x in (Q, K, V)]
        token_leaves = [x.clone().requires_grad_() for x in tokens]
        sdpa = functools.partial(F.scaled_dot_product_attention, is_causal=True, enable_gqa=Hq != Hkv)
        sdpa_of_tokens = lambda q, k, v: sdpa(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)
        func = functools.partial(flash_workbook.flash_attn_func, causal=True)
        others = {"flash-attn": functools.partial(theirs, causal=True)} if theirs else {}
        asked = lambda functions, x: {name: functools.partial(f, *x) for name, f in functions.items()}
        passes = lambda functions, x: {name: both(f, *x) for name, f in functions.items()}
        ours = {"SDPA": sdpa, "ours": flash_workbook.attention}
        report("forward", shape, asked(ours, (Q, K, V)))
        report("forward_that_saves", shape, asked(ours, leaves))
        report("both", shape, passes(ours, leaves))
        of_tokens = {"SDPA": sdpa_of_tokens, "ours": func, **others}
        report("flash_attn_func", shape, asked(of_tokens, tokens))
        report("flash_attn_func_views", shape, asked(of_tokens, [x.transpose(1, 2) for x in (Q, K, V)]))
        report("flash_attn_func_both", shape, passes(of_tokens, token_leaves))
        starts = torch.arange(0, (B + 1) * N, N, dtype=torch.int32, device="cuda")
        packed = [x.flatten(0, 1) for x in tokens]
        varlen = lambda q, k, v: flash_workbook.flash_attn_varlen_func(q, k, v, starts, starts, N, N, causal=True)
        report("flash_attn_varlen_func", shape, {"SDPA": functools.partial(sdpa_of_tokens, *tokens),
                                                 "ours": functools.partial(varlen, *packed)})
        if shape == SHAPES[-1]:
            continue
        torch._dynamo.reset()
        compiled = {name: torch.compile(f, fullgraph=True, dynamic=False) for name, f in ours.items()}
        with torch.no_grad():
            report("compiled_forward", shape, asked(compiled, (Q, K, V)))
        report("compiled_both", shape, passes(compiled, leaves))


if __name__ == "__main__":
    main()
