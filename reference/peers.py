#!/usr/bin/env python3
"""What a user would call instead of a reference solution, timed the way `bench` times it: PyTorch's attention backends.

    python3 reference/peers.py > plots/data/h200/peers.tsv        needs a GPU and PyTorch; about a minute

fa2 is FlashAttention-2 as PyTorch ships it, cudnn NVIDIA's library, flex FlexAttention compiled for the mask, torch the
plain formula, fa4 FlashAttention-4 where `pip install flash-attn-4` has put it beside PyTorch; where not, a line of the
table says so. Of problem 11 fa4 has a learnable_sink, in bfloat16, and flex scales its output by the share of the keys,
1 / (1 + exp(s - L)), in the same compiled function. What documents and trees of problem 15 are drawn says the library
that `make lib` builds (WB_LIBRARY, or build/cuda/lib/libworkbook.so): flex sees those of the bench, by the formulas
that one would write for it. Its tiles are 128 x 128, whatever those of the bench are. Of problem 13 fa4 reads pages,
cudnn and fa2 a cache in one piece, so with sequences of one length alone; flashinfer reads pages where it is installed.
Of problem 14 bf16 is problem 13 and library problem 14 itself, both from that library, on the same keys; flashinfer
reads a cache of float8, e4m3, which has no scales. Of problem 16 library is 16 itself, in two levels and in one,
quantise what makes its inputs, and bf16 problem 10, all from that library; fa3 is FlashAttention-3 (`pip install
fa3-fwd`), cudnn cuDNN's sdpa_fp8 (`pip install nvidia-cudnn-frontend`), whose O is e4m3, too, flashinfer FlashInfer's
kernel for Hopper; see peers_fp8.py.
In which shapes: shapes.txt. Columns as in plots/README.md. Each time: cold L2, launches queued beforehand, median and
percentiles of 25 runs by device events.
"""
import ctypes, functools, os, sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from timing import COLUMNS, RUNS, heading, said, shapes, times

try:
    from flash_attn.cute.interface import flash_attn_func, flash_attn_varlen_func
except ImportError:
    def flash_attn_func(*_, **__):
        raise ImportError("flash-attn-4 is not installed")
    flash_attn_varlen_func = flash_attn_func
try:
    from fa3_fwd_interface import flash_attn_func as flash_attn_3, flash_attn_with_kvcache
except ImportError:
    def flash_attn_3(*_, **__):
        raise ImportError("fa3-fwd is not installed")
    flash_attn_with_kvcache = flash_attn_3
try:
    import flashinfer
except ImportError:
    flashinfer = None

torch._dynamo.config.recompile_limit = 256
torch.manual_seed(0)
flex_compiled = torch.compile(flex_attention, dynamic=False)


def print_times(problem, name, shape, call, flop, bytes=None, page="-", lens="-", mask="-", q_tile="-", at=""):
    """A row of the table; `call` makes what is timed. shape: columns B to causal."""
    try:
        ms, low, high = times(call())
    except Exception as error:  # out of memory, or a backend that declines
        print(f"# {problem} {name} {at}: {said(error, 100)}", flush=True)
        return
    print(problem, name, *shape, f"{ms:.5g}", f"{low:.5g}", f"{high:.5g}", f"{flop / ms / 1e9:.5g}",
          f"{bytes / ms / 1e6:.5g}" if bytes else "-", "-", "-", "-", RUNS, page, lens, mask, q_tile, sep="\t",
          flush=True)


def visible(i, j, W, S):
    return (j <= i) & ((j > i - W) | (j < S))


def pairs(N, causal, W, S):
    if not causal:
        return N * N
    return sum(min(i + 1, W or N) + max(0, min(S, i + 1 - (W or N))) for i in range(N))


def sdpa(backend, q, k, v, causal, W, S):
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


@functools.lru_cache(None)
def block_mask(N, W, S):
    return create_block_mask(lambda b, h, i, j: visible(i, j, W, S), None, None, N, N, device="cuda")


def flex(q, k, v, causal, W, S, sink=None):
    mask = block_mask(q.shape[2], W or q.shape[2], S) if causal else None
    if sink is not None:
        return flex_with_sink(q, k, v, sink, mask, q.shape[1] != k.shape[1])
    return flex_compiled(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


@functools.partial(torch.compile, dynamic=False)
def flex_with_sink(q, k, v, sink, mask, grouped):
    out, lse = flex_attention(q, k, v, block_mask=mask, enable_gqa=grouped, return_lse=True)
    return out * torch.sigmoid(lse - sink[:, None])[..., None].to(out.dtype)


def plain(q, k, v, causal, W, S):
    if q.shape[1] != k.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        i = torch.arange(q.shape[2], device="cuda")
        s = s.masked_fill(~visible(i[:, None], i[None, :], W or q.shape[2], S), float("-inf"))
    return torch.softmax(s, -1, dtype=torch.float32).to(q.dtype) @ v


def fa4(q, k, v, causal, W, S, sink=None, **how):  # q, k, v: [B, N, H, D], see measure
    out = flash_attn_func(q, k, v, causal=causal, window_size=(W - 1, 0) if W else (None, None), learnable_sink=sink,
                          **how)
    return out[0] if isinstance(out, tuple) else out


def fa3(q, k, v, causal, W):  # as fa4
    out = flash_attn_3(q, k, v, causal=causal, window_size=(W - 1, 0) if W else (-1, -1))
    return out[0] if isinstance(out, tuple) else out


class NamedMask(ctypes.Structure):  # wb_named_mask of workbook/named_mask.h
    _fields_ = [("name", ctypes.c_int), ("size", ctypes.c_int), ("seed", ctypes.c_uint64), ("masks", ctypes.c_int),
                ("q_len", ctypes.c_int), ("kv_len", ctypes.c_int), ("table", ctypes.POINTER(ctypes.c_int))]


def mask_mod(name, size, masks, Nq, Nk):
    """The mask that the bench draws with its seed, as one would write it for FlexAttention: a formula over a small
    table."""
    lib = ctypes.CDLL(os.environ.get("WB_LIBRARY", "build/cuda/lib/libworkbook.so"))
    names = (ctypes.c_char_p * 12).in_dll(lib, "wb_mask_names")
    mask = NamedMask(list(names).index(name.encode()), size, 7, masks, Nq, Nk, None)
    lib.wb_named_mask_draw(ctypes.byref(mask))
    table = torch.tensor(mask.table[:masks * Nk], dtype=torch.int32).reshape(masks, Nk)
    drafts = torch.zeros(masks, size, size, dtype=torch.bool)  # a draft sees what its parent sees, and itself
    for b in range(masks if name == "tree" else 0):
        for n in range(size):
            drafts[b, n] = drafts[b, table[b, n]] if table[b, n] >= 0 else False
            drafts[b, n, n] = True
    sees = lambda b, j: lib.wb_named_mask_sees(ctypes.byref(mask), b, 0, j)
    prefix = torch.tensor([sum(sees(b, j) for j in range(2 * size)) if name == "prefix" else 0 for b in range(masks)])
    lib.wb_named_mask_free(ctypes.byref(mask))
    first, drafts, prefix, prompt, past = table.cuda(), drafts.cuda(), prefix.cuda(), Nk - size, Nk - Nq
    return {"documents": lambda b, h, i, j: (j <= i + past) & (first[b, j] == first[b, i + past]),
            "tree": lambda b, h, i, j: (j <= i + past) & ((j < prompt) | (i + past < prompt) | drafts[b,
                (i + past - prompt).clamp(min=0), (j - prompt).clamp(min=0)]),
            "prefix": lambda b, h, i, j: (j <= i + past) | (j < prefix[b]),
            "strided": lambda b, h, i, j: (j <= i + past)
            & ((j // size == (i + past) // size) | (j % size >= size - size // 8))}[name]


def measure_masked(name, size, B, Hq, Nq, Nk, D):
    sees = mask_mod(name, int(size), B, Nq, Nk)
    i, j = torch.arange(Nq, device="cuda")[:, None], torch.arange(Nk, device="cuda")[None]
    flop = 4.0 * Hq * D * sum(sees(torch.tensor(b, device="cuda"), 0, i, j).sum().item() for b in range(B))
    q, k, v = (torch.randn(B, Hq, N, D, device="cuda", dtype=torch.bfloat16) for N in (Nq, Nk, Nk))
    print_times("15", "flex", (B, Hq, Hq, Nq, Nk, D, "-", "-", "-", "-", 0),
                lambda: functools.partial(flex_compiled, q, k, v,
                                          block_mask=create_block_mask(sees, B, None, Nq, Nk, device="cuda")),
                flop, mask=f"{name}/{size}", q_tile=128, at=f"{name}/{size} N={Nq} D={D}")


PEERS = {"fa4": fa4, "fa4_same_bits": functools.partial(fa4, deterministic=True), "fa2": functools.partial(sdpa,
    SDPBackend.FLASH_ATTENTION), "cudnn": functools.partial(sdpa, SDPBackend.CUDNN_ATTENTION),
         "flex": flex, "torch": plain}


def measure(problem, names, B, Hq, Hkv, N, D, causal, W=0, S=0, backward=False, logits=False):
    make = lambda heads: torch.randn(B, heads, N, D, device="cuda", dtype=torch.bfloat16, requires_grad=backward)
    flop = 4.0 * B * Hq * D * pairs(N, causal, W, S) * (2.5 if backward else 1)

    def made(name):
        q, k, v = make(Hq), make(Hkv), make(Hkv)
        if name.startswith("fa4"):  # its own order of dimensions
            q, k, v = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        call = functools.partial(PEERS[name], q, k, v, causal, W, S)
        if logits:
            sink = 2 + 2 * torch.randn(Hq, device="cuda", requires_grad=backward)
            call = functools.partial(call, sink.bfloat16() if name.startswith("fa4") else sink)
        if backward:
            out = call()
            # FlashAttention-4 has no gradient of the sink
            inputs = (q, k, v, sink) if logits and not name.startswith("fa4") else (q, k, v)
            call = functools.partial(torch.autograd.grad, out, inputs, torch.randn_like(out), retain_graph=True)
        return call

    shape = (B, Hq, Hkv, N, N, D, W or (N if logits else W), "-" if logits else S, "-", "-", int(causal))
    for name in names:
        print_times(problem, name, shape, lambda: made(name), flop, at=f"N={N} D={D}")


def lengths(B, Nk, lens):  # of another draw than the bench's, from the same distribution
    return torch.full((B,), Nk) if lens == "same" else (Nk ** torch.rand(B)).int().clamp(1, Nk)


def fa4_pages(q, k, v, table, lens):
    out = flash_attn_varlen_func(q.transpose(1, 2), k, v, seqused_k=lens, page_table=table, causal=True)
    return out[0] if isinstance(out, tuple) else out


def fa3_cache(q, k, v, table, lens):  # fa3-fwd has no pages: a cache in one piece for each sequence
    q, k, v = q.transpose(1, 2).contiguous(), *(x[table.long()].flatten(1, 2) for x in (k, v))
    return lambda: flash_attn_with_kvcache(q, k, v, cache_seqlens=lens, causal=True)


# Planned once, outside of the clock, as a model does for all of its layers.
def flashinfer_pages(q, k, v, table, lens, kv_type=None):
    if kv_type:
        k, v = k.to(kv_type), v.to(kv_type)
    B, Hq, Nq, D = q.shape
    page, used = k.shape[1], (lens + k.shape[1] - 1) // k.shape[1]
    indptr = torch.cat([torch.zeros(1, device="cuda"), used.cumsum(0)]).int()
    indices = torch.cat([row[:n] for row, n in zip(table, used.tolist())])
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(torch.empty(2**27, device="cuda", dtype=torch.uint8), "NHD",
                                                            use_tensor_cores=True)
    wrapper.plan(indptr, indices, (lens - 1) % page + 1, Hq, k.shape[2], D, page, q_data_type=q.dtype,
                 kv_data_type=k.dtype,
                 **({"q_len_per_req": Nq} if Nq > 1 else {}))
    rows = q.transpose(1, 2).reshape(B * Nq, Hq, D)
    return lambda: wrapper.run(rows, (k, v))


# The same keys in one piece: [B, Hkv, Nk, D].
def in_one_piece(x, table, Nk):
    return x[table.long()].flatten(1, 2)[:, :Nk].transpose(1, 2).contiguous()


# Problem 13, and 14 on the same keys quantised.
def decode_of_library(q, k, v, table, lens, int8):
    from flash_workbook import flash_attn, quantise_cache
    (k, k_scale), (v, v_scale) = (quantise_cache(x) if int8 else (x, None) for x in (k, v))
    return lambda: flash_attn.decode(q, k, v, k_scale, v_scale, table, lens, q.shape[3] ** -0.5, "")


def measure_decode(names, B, Hq, Hkv, Nq, Nk, D, page, lens, problem="13"):
    keys = lengths(B, Nk, lens).int().cuda()
    columns = (Nk + page - 1) // page
    table = torch.randperm(B * columns, device="cuda").int().view(B, columns)
    q = torch.randn(B, Hq, Nq, D, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(B * columns, page, Hkv, D, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    total = int(keys.sum())
    flop = 4.0 * Hq * D * sum(max(0, n - Nq + 1 + i) for n in keys.tolist() for i in range(Nq))

    def made(name):
        if name == "fa4":
            return functools.partial(fa4_pages, q, k, v, table, keys)
        if name == "flashinfer":
            if not flashinfer:
                raise ImportError("flashinfer is not installed")
            return flashinfer_pages(q, k, v, table, keys, torch.float8_e4m3fn if problem == "14" else None)
        if problem == "14":
            return decode_of_library(q, k, v, table, keys, name == "library")
        one = [in_one_piece(x, table, Nk) for x in (k, v)]  # where one query sees all keys: no mask
        return functools.partial(PEERS[name], q, *one, False, 0, 0)

    for name in names:
        # bytes of a row of K or V
        a_row = {"13": 2 * D, "14": 2 * D if name == "bf16" else D if name == "flashinfer" else D + 4}[problem]
        read = 2 * q.nbytes + 4 * B * Hq * Nq + 2 * total * Hkv * a_row + 4 * B + 4 * total // page
        print_times(problem, name, (B, Hq, Hkv, Nq, Nk, D, "-", "-", "-", "-", 0), lambda: made(name), flop, read, page,
                    lens,
                    at=f"B={B} Nk={Nk} D={D} page={page}")


def timed(problem, names, N, D=128, B=4, Hq=16, Hkv=None, mask="causal", W=0, S=0, Nq=None, page=0, lens=""):
    """A shape of shapes.txt."""
    Hkv = Hkv or Hq
    if page:
        measure_decode(names, B, 64, 8, Nq, N, D, page, lens, problem)
    elif problem == "15":
        measure_masked(*mask.split("/"), B, Hq, Nq, N, D)
    elif problem == "16":
        import peers_fp8

        peers_fp8.time_all(print_times, B, Hq, Hkv, N, D, mask == "causal")
    else:
        causal = mask == "causal" and problem != "03"
        backward, logits = problem in ("08", "09", "12"), problem in ("11", "12")
        measure(problem, names, B, Hq, Hkv, N, D, causal, W, S, backward, logits)


def main():
    heading(True)
    print(*COLUMNS, sep="\t")
    for problem in sys.argv[1:] or [f"{number:02}" for number in range(3, 17)]:
        for names, shape in shapes(problem):
            timed(problem, names, **shape)


if __name__ == "__main__":
    main()
