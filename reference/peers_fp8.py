#!/usr/bin/env python3
"""Attention in e4m3 beside what others have for it: FlashAttention-3 (`pip install fa3-fwd`), cuDNN's sdpa_fp8 (`pip
install nvidia-cudnn-frontend`) and FlashInfer's kernel for Hopper (`pip install flashinfer-python`).

    python3 reference/peers_fp8.py > plots/data/h200/16_flash_fp8_errors.tsv        needs an H100 or H200, PyTorch and
    make lib

prints how far off O is, of ours and theirs on the same inputs: |O - truth| / |truth| in the
Euclidean norm, and bias, the mean of (O - truth) sign(truth) over the mean of |truth|. truth is of what was drawn, in
bf16; of `mean_one` it is of the same e4m3 inputs, so that what is left is the sums' and P's. They have one scale a
tensor, amax / 448, which is what their interfaces take; cuDNN's O is e4m3 too (bf16 it declines). The times of 16 are
rows of peers.py, which takes them from here. A peer that is not installed is named in a line that starts with #.
"""
import functools, math

import torch
import torch.nn.functional as F

try:
    import fa3_fwd_interface
except ImportError:
    fa3_fwd_interface = None
try:
    import cudnn
except ImportError:
    cudnn = None
try:
    import flashinfer
except ImportError:
    flashinfer = None
import flash_workbook
from flash_workbook import Shape
from flash_workbook.library import library
from timing import heading, said

QUERIES, D = 192, 128


def scaled(x):
    """e4m3 with one scale for all, and the scale: 1 for what is e4m3 already."""
    same = x.to(torch.float8_e4m3fn)
    if torch.equal(same.to(x.dtype), x):
        return same, torch.ones((), device=x.device)
    scale = x.float().abs().amax() / 448
    return (x / scale).to(torch.float8_e4m3fn), scale


# ------------------------ the peers
# Each makes a call that is to be timed, and says what its result means: in float32, [B, H, N, D].


def fa3(q, k, v, causal):
    if not fa3_fwd_interface:
        raise ImportError("fa3-fwd is not installed")
    eight, scales = zip(*((y.transpose(1, 2).contiguous(), s) for y, s in map(scaled, (q, k, v))))
    heads = dict(zip(("q_descale", "k_descale", "v_descale"),
                     (s.reshape(1, 1).expand(k.shape[:2]).contiguous() for s in scales)))
    call = functools.partial(fa3_fwd_interface.flash_attn_func, *eight, causal=causal, **heads)
    return call, lambda out: (out[0] if isinstance(out, tuple) else out).transpose(1, 2).float()


def cudnn_fp8(q, k, v, causal):
    if not cudnn:
        raise ImportError("nvidia-cudnn-frontend is not installed")
    kind = cudnn.data_type
    handle = cudnn.create_handle()
    cudnn.set_stream(handle, torch.cuda.current_stream().cuda_stream)
    graph = cudnn.pygraph(io_data_type=kind.FP8_E4M3, intermediate_data_type=kind.FLOAT, compute_data_type=kind.FLOAT,
                          handle=handle)
    # In memory [B, N, H, D]: of the two orders it takes, the one that was not slower. torch transposes no e4m3, but
    # bytes.
    in_order = lambda x: x.view(torch.int8).transpose(1, 2).contiguous().transpose(1, 2).view(torch.float8_e4m3fn)
    eight, scales = zip(*map(scaled, (q, k, v)))
    eight = [in_order(x) for x in eight]
    ends = 2.0 ** math.floor(math.log2(448 / v.abs().amax().item()))  # O is no larger than V
    factors = dict(zip(("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o"),
                       (*map(float, scales), 1 / 256, 256.0, ends)))
    at = lambda name, x: graph.tensor(name=name, dim=list(x.shape), stride=list(x.stride()), data_type=kind.FP8_E4M3)
    inputs = [at(name, x) for name, x in zip("qkv", eight)]
    ones = {name: graph.tensor(name=name, dim=[1] * 4, stride=[1] * 4, data_type=kind.FLOAT) for name in factors}
    o, _, *largest = graph.sdpa_fp8(q=inputs[0], k=inputs[1], v=inputs[2], **ones, is_inference=True,
                                    attn_scale=q.shape[3] ** -0.5,
                                    use_causal_mask=causal, name="sdpa")
    O = in_order(torch.zeros(q.shape, device="cuda", dtype=torch.float8_e4m3fn))
    o.set_output(True).set_dim(list(O.shape)).set_stride(list(O.stride())).set_data_type(kind.FP8_E4M3)
    maxima = torch.zeros(2, device="cuda")
    for x in largest:
        x.set_output(True).set_dim([1] * 4).set_stride([1] * 4).set_data_type(kind.FLOAT)
    graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    numbers = {name: torch.full((1,), factor, device="cuda") for name, factor in factors.items()}
    workspace = torch.empty(max(1, graph.get_workspace_size()), device="cuda", dtype=torch.uint8)
    pointers = {**{t: x.data_ptr() for t, x in zip(inputs, eight)},
                **{ones[name]: x.data_ptr() for name, x in numbers.items()}, o: O.data_ptr(),
                **{t: maxima[n:].data_ptr() for n, t in enumerate(largest)}}
    alive = eight, numbers, maxima  # the pointers keep nothing
    return lambda: graph.execute(pointers, workspace.data_ptr(),
                                 handle=handle), lambda _: O.float() / ends if alive else None


# Planned once, outside of the clock, as a model does for all of its layers. Rows of all sequences stand one behind the
# other: [B N, H, D].
def flashinfer_fp8(q, k, v, causal):
    if not flashinfer:
        raise ImportError("flashinfer is not installed")
    eight, scales = zip(*((y.transpose(1, 2).contiguous().flatten(0, 1), s.item()) for y, s in map(scaled, (q, k, v))))
    first_rows = [torch.arange(len(x) + 1, dtype=torch.int32) * x.shape[2] for x in (q, k)]
    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(torch.empty(2**27, device="cuda", dtype=torch.uint8),
                                                              backend="fa3")
    wrapper.plan(*first_rows, q.shape[1], k.shape[1], q.shape[3], causal=causal, q_data_type=eight[0].dtype,
                 o_data_type=torch.bfloat16)
    return functools.partial(wrapper.run, *eight, *scales), lambda O: O.unflatten(0, (len(q), -1)).transpose(1,
        2).float()


def ours(levels, hadamard, q, k, v, causal):
    eight = flash_workbook.quantise_fp8(q, k, v, hadamard)
    return functools.partial(flash_workbook.attention_fp8, *eight, causal=causal, levels=levels), lambda O: O.float()


def bf16(q, k, v, causal):
    return functools.partial(flash_workbook.attention, q, k, v, causal=causal), lambda O: O.float()


def quantise(hadamard, q, k, v, causal):
    """wb_quantise_fp8_inputs alone, into the same memory each time."""
    eight = flash_workbook.quantise_fp8(q, k, v, hadamard)
    shape = Shape(*q.shape[:2], k.shape[1], q.shape[2], k.shape[2], q.shape[3], q.shape[3] ** -0.5, 0, 0, 0)
    import ctypes
    return lambda: library().call("wb_quantise_fp8_inputs", [*eight, q, k, v], shape,
                                  after=[ctypes.c_int(hadamard)]), None


WAYS = {"library": functools.partial(ours, 2, False), "library_one_level": functools.partial(ours, 1, False),
        "fa3": fa3, "cudnn": cudnn_fp8,
        "flashinfer": flashinfer_fp8, "bf16": bf16, "quantise": functools.partial(quantise, False),
        "quantise_hadamard": functools.partial(quantise, True)}


def time_all(print_times, B, Hq, Hkv, N, D, causal):
    """Rows of peers.py. What reads Q, K and V in bf16 and writes them in e4m3 is counted in bytes."""
    q, k, v = (torch.randn(B, h, N, D, device="cuda", dtype=torch.bfloat16) for h in (Hq, Hkv, Hkv))
    flop = 2.0 * B * Hq * D * N * (N + 1 if causal else 2 * N)
    for name, way in WAYS.items():
        moved = name.startswith("quantise")
        print_times("16", name, (B, Hq, Hkv, N, N, D, "-", "-", "-", "-", int(causal)), lambda: way(q, k, v, causal)[0],
                    0 if moved else flop,
                    3 * (q.numel() + 2 * k.numel()) if moved else None, at=f"N={N} D={D}")


# ------------------------ errors


def drawn(kind, keys):
    """outliers: one element of 1000 has a normal deviate of 10 more (Shah et al. 2024). column: one column of K is 16
    times as large, and the same of Q as much smaller, so that the scores are what they were."""
    torch.manual_seed(keys)
    q, k, v = (torch.randn(1, 1, n, D, device="cuda") for n in (QUERIES, keys, keys))
    if kind == "mean_one":
        v += 1
    if kind == "outliers":
        q, k, v = (x + 10 * torch.randn_like(x) * (torch.rand_like(x) < 0.001) for x in (q, k, v))
    if kind == "column":
        q[..., D // 3] /= 16
        k[..., D // 3] *= 16
    return [x.bfloat16() for x in (q, k, v)]


def truth(q, k, v):
    return F.softmax(q.double() @ k.double().mT * D**-0.5, -1) @ v.double()


def main():
    heading(True)
    print("problem impl input B Hq Hkv Nk D error bias".replace(" ", "\t"))
    hadamard = functools.partial(ours, 2, True)
    ways = {"bf16": bf16, "one_level": WAYS["library_one_level"], "two_levels": WAYS["library"], "hadamard": hadamard,
            "fa3": fa3, "cudnn": cudnn_fp8,
            "flashinfer": flashinfer_fp8}
    for kind in ("normal", "mean_one", "outliers", "column"):
        for keys in (1024, 4096, 8192, 16384, 65536):
            q, k, v = drawn(kind, keys)
            if kind == "mean_one":  # e4m3 already: what is left is not the inputs'
                q, k, v = (x.to(torch.float8_e4m3fn).bfloat16() for x in (q, k, v))
            want = truth(q, k, v)
            for name, way in ways.items():
                try:
                    call, meant = way(q, k, v, False)
                    off = meant(call()).double() - want
                except Exception as error:  # a peer that is not there, or declines
                    print(f"# 16 {name} {kind} {keys}: {said(error, 100)}")
                    continue
                bias = (off * want.sign()).mean() / want.abs().mean()
                print("16", name, kind, 1, 1, 1, keys, D, f"{(off.norm() / want.norm()).item():.4g}",
                      f"{bias.item():+.4g}", sep="\t", flush=True)


if __name__ == "__main__":
    main()
