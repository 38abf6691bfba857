#!/usr/bin/env python3
"""What a user would call instead of a reference solution, timed the way `bench` times it.

    python3 reference/peers.py > plots/data/h200/peers.tsv        wants a GPU and PyTorch, make lib; about a minute
    python3 reference/peers.py errors > plots/data/h200/16_flash_fp8_errors.tsv        on an H100 or H200

fa2 is FlashAttention-2 as PyTorch ships it, cudnn NVIDIA's library, flex FlexAttention compiled for the mask, torch the
plain formula; fa4 FlashAttention-4, fa3 FlashAttention-3, flashinfer FlashInfer (`pip install flashinfer-python`). A
peer that is not installed, or declines, is named in a line that starts with #. Of 13 cudnn and fa2 read a cache in one
piece, so sequences of one length alone. Of 14 bf16 is problem 13 and library problem 14 itself, on the same keys;
flashinfer reads a cache of float8, e4m3, which has no scales. Of 15 flex sees the masks of the bench by formulas, in
tiles of 128 x 128; libworkbook_all.so, beside the library (WB_LIBRARY), says what is drawn of them. Of 16 library is 16
itself, in two levels and in one, quantise what makes its inputs, and bf16 problem 10. In which shapes: shapes.py.
Columns and times as in plots/README.md.

errors: how far off O of 16 is, ours and theirs, on the same inputs: |O - truth| / |truth| in the Euclidean norm, and
bias, the mean of (O - truth) sign(truth) over the mean of |truth|. truth is of what was drawn, in bf16; of `mean_one`
it is of the same e4m3 inputs, so that what is left is the sums' and P's. Peers have one scale a tensor, amax / 448,
which is what their interfaces take; cuDNN's O is e4m3 too (bf16 it declines).
"""
import ctypes, functools, importlib.util, math, os, sys
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from shapes import listed, pairs
from timing import COLUMNS, RUNS, heading, times, told


class Package:
    """Imported when something of it is asked for; who asks is told if it is not installed."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __bool__(self):
        return importlib.util.find_spec(self.module) is not None

    def __getattr__(self, attribute):
        try:
            return getattr(importlib.import_module(self.module), attribute)
        except ModuleNotFoundError:
            raise ImportError(f"{self.name} is not installed") from None


fa4_interface = Package("flash_attn.cute.interface", "flash-attn-4")
fa3_interface = Package("fa3_fwd_interface", "fa3-fwd")
cudnn, flashinfer = Package("cudnn", "nvidia-cudnn-frontend"), Package("flashinfer", "flashinfer")
flash_workbook = Package("flash_workbook", "flash_workbook")

torch._dynamo.config.recompile_limit = 256
torch.manual_seed(0)
flex_compiled = torch.compile(flex_attention, dynamic=False)
partial = functools.partial
randn = lambda *size: torch.randn(*size, device="cuda", dtype=torch.bfloat16)
first = lambda out: out[0] if isinstance(out, tuple) else out
tokens_first = lambda x: x.transpose(1, 2).contiguous()

# ------------------------ dense, causal, windows, sinks: (q, k, v, causal, W, S)


def visible(i, j, W, S):
    return (j <= i) & ((j > i - W) | (j < S))


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


@partial(torch.compile, dynamic=False)
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


def fa4(q, k, v, causal, W, S, sink=None, **how):  # q, k, v: [B, N, H, D]
    return first(fa4_interface.flash_attn_func(q, k, v, causal=causal, window_size=(W - 1, 0) if W else (None, None),
                                               learnable_sink=sink, **how))


def fa3(q, k, v, causal, W, S):  # as fa4
    return first(fa3_interface.flash_attn_func(q, k, v, causal=causal, window_size=(W - 1, 0) if W else (-1, -1)))


PEERS = {"fa4": fa4, "fa4_same_bits": partial(fa4, deterministic=True), "fa3": fa3,
         "fa2": partial(sdpa, SDPBackend.FLASH_ATTENTION), "cudnn": partial(sdpa, SDPBackend.CUDNN_ATTENTION),
         "flex": flex, "torch": plain}


def dense(name, q, k, v, causal, W, S, sink=None, dO=None):
    """What is timed: the forward pass of a peer, or with dO its backward pass alone."""
    ours = not name.startswith(("fa4", "fa3"))  # whose order of dimensions it is
    inputs = [x if ours else tokens_first(x) for x in (q, k, v)]
    inputs += [] if sink is None else [sink if ours else sink.bfloat16()]
    if dO is None:
        return partial(PEERS[name], *inputs[:3], causal, W, S, *inputs[3:])
    inputs = [x.detach() for x in inputs]
    of = [x.requires_grad_() for x in inputs[: None if ours else 3]]  # FlashAttention-4 has no gradient of the sink
    O = PEERS[name](*inputs[:3], causal, W, S, *inputs[3:])
    return partial(torch.autograd.grad, O, of, dO if ours else tokens_first(dO), retain_graph=True)


# ------------------------ masks as data


class NamedMask(ctypes.Structure):  # wb_named_mask of workbook/named_mask.h
    _fields_ = [("name", ctypes.c_int), ("size", ctypes.c_int), ("seed", ctypes.c_uint64), ("masks", ctypes.c_int),
                ("q_len", ctypes.c_int), ("kv_len", ctypes.c_int), ("table", ctypes.POINTER(ctypes.c_int))]


def mask_mod(name, size, masks, Nq, Nk):
    """The mask that the bench draws with its seed, as one would write it for FlexAttention: a formula over a small
    table."""
    path = os.environ.get("WB_LIBRARY") or "build/cuda/lib/libworkbook.so"
    lib = ctypes.CDLL(path.replace("libworkbook.so", "libworkbook_all.so"))  # which exports it
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


def masked(c):
    """Of a shape: the formula, all pairs [B, Nq, Nk], and the BlockMask."""
    name, size = c.mask.split("/")
    sees = mask_mod(name, int(size), c.B, c.Nq, c.Nk)
    i, j = torch.arange(c.Nq, device="cuda")[:, None], torch.arange(c.Nk, device="cuda")
    seen = torch.stack([sees(torch.tensor(b, device="cuda"), 0, i, j) for b in range(c.B)])
    return sees, seen, create_block_mask(sees, c.B, None, c.Nq, c.Nk, device="cuda")


def flex_masked(q, k, v, mask):
    return partial(flex_compiled, q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


# ------------------------ decoding: q [B, Hq, Nq, D], pages [pages, page, Hkv, D]


def pages_of(c):
    """q, k, v, the page table and the lengths."""
    columns = -(-c.Nk // c.page)
    table = torch.randperm(c.B * columns, device="cuda").int().view(c.B, columns)
    k, v = (randn(c.B * columns, c.page, c.Hkv, c.D) for _ in range(2))
    return randn(c.B, c.Hq, c.Nq, c.D), k, v, table, torch.tensor(c.keys, dtype=torch.int32, device="cuda")


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
                 kv_data_type=k.dtype, **({"q_len_per_req": Nq} if Nq > 1 else {}))
    rows = q.transpose(1, 2).reshape(B * Nq, Hq, D)
    return lambda: wrapper.run(rows, (k, v))


def decoding(name, q, k, v, table, lens, int8=False):
    """What is timed of a peer, of the newest queries. int8: where ours has a cache of int8."""
    if name == "fa4":
        return lambda: first(fa4_interface.flash_attn_varlen_func(q.transpose(1, 2), k, v, seqused_k=lens,
                                                                  page_table=table, causal=True))
    if name == "flashinfer":
        return flashinfer_pages(q, k, v, table, lens, torch.float8_e4m3fn if int8 else None)
    if name in ("bf16", "library"):  # problem 13, and 14 on the same keys quantised
        (k, ks), (v, vs) = (flash_workbook.quantise_cache(x) if name == "library" else (x, None) for x in (k, v))
        return lambda: flash_workbook.flash_attn.decode(q, k, v, ks, vs, table, lens, q.shape[3] ** -0.5, "")
    one = [x[table.long()].flatten(1, 2) for x in (k, v)]  # in one piece for each sequence
    if name == "fa3":  # which has no pages
        return partial(fa3_interface.flash_attn_with_kvcache, tokens_first(q), *one, cache_seqlens=lens, causal=True)
    # where one query sees all keys: no mask
    return partial(PEERS[name], q, *(tokens_first(x[:, :int(lens.max())]) for x in one), False, 0, 0)


# ------------------------ eight bits
# Each makes a call that is to be timed, and says what its result means: in float32, [B, H, N, D].


def scaled(x):
    """e4m3 with one scale for all, and the scale: 1 for what is e4m3 already."""
    same = x.to(torch.float8_e4m3fn)
    if torch.equal(same.to(x.dtype), x):
        return same, torch.ones((), device=x.device)
    scale = x.float().abs().amax() / 448
    return (x / scale).to(torch.float8_e4m3fn), scale


def fa3_fp8(q, k, v, causal):
    eight, scales = zip(*((tokens_first(y), s) for y, s in map(scaled, (q, k, v))))
    heads = dict(zip(("q_descale", "k_descale", "v_descale"),
                     (s.reshape(1, 1).expand(k.shape[:2]).contiguous() for s in scales)))
    call = partial(fa3_interface.flash_attn_func, *eight, causal=causal, **heads)
    return call, lambda out: first(out).transpose(1, 2).float()


def cudnn_fp8(q, k, v, causal):
    kind = cudnn.data_type
    handle = cudnn.create_handle()
    cudnn.set_stream(handle, torch.cuda.current_stream().cuda_stream)
    graph = cudnn.pygraph(io_data_type=kind.FP8_E4M3, intermediate_data_type=kind.FLOAT, compute_data_type=kind.FLOAT,
                          handle=handle)
    # In memory [B, N, H, D]: of the two orders it takes, the one that was not slower. torch transposes no e4m3, but
    # bytes.
    in_order = lambda x: tokens_first(x.view(torch.int8)).transpose(1, 2).view(torch.float8_e4m3fn)
    eight, scales = zip(*map(scaled, (q, k, v)))
    eight = [in_order(x) for x in eight]
    ends = 2.0 ** math.floor(math.log2(448 / v.abs().amax().item()))  # O is no larger than V
    factors = dict(zip(("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o"),
                       (*map(float, scales), 1 / 256, 256.0, ends)))
    at = lambda name, x: graph.tensor(name=name, dim=list(x.shape), stride=list(x.stride()), data_type=kind.FP8_E4M3)
    inputs = [at(name, x) for name, x in zip("qkv", eight)]
    ones = {name: graph.tensor(name=name, dim=[1] * 4, stride=[1] * 4, data_type=kind.FLOAT) for name in factors}
    o, _, *largest = graph.sdpa_fp8(q=inputs[0], k=inputs[1], v=inputs[2], **ones, is_inference=True,
                                    attn_scale=q.shape[3] ** -0.5, use_causal_mask=causal, name="sdpa")
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


# Planned once, as above. Rows of all sequences stand one behind the other: [B N, H, D].
def flashinfer_fp8(q, k, v, causal):
    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(torch.empty(2**27, device="cuda", dtype=torch.uint8),
                                                              backend="fa3")
    eight, scales = zip(*((tokens_first(y).flatten(0, 1), s.item()) for y, s in map(scaled, (q, k, v))))
    first_rows = [torch.arange(len(x) + 1, dtype=torch.int32) * x.shape[2] for x in (q, k)]
    wrapper.plan(*first_rows, q.shape[1], k.shape[1], q.shape[3], causal=causal, q_data_type=eight[0].dtype,
                 o_data_type=torch.bfloat16)
    return partial(wrapper.run, *eight, *scales), lambda O: O.unflatten(0, (len(q), -1)).transpose(1, 2).float()


def ours(levels, hadamard, q, k, v, causal):
    eight = flash_workbook.quantise_fp8(q, k, v, hadamard)
    return partial(flash_workbook.attention_fp8, *eight, causal=causal, levels=levels), lambda O: O.float()


def bf16(q, k, v, causal):
    return partial(flash_workbook.attention, q, k, v, causal=causal), lambda O: O.float()


def quantise(hadamard, q, k, v, causal):
    """wb_quantise_fp8_inputs alone, into the same memory each time."""
    eight = flash_workbook.quantise_fp8(q, k, v, hadamard)
    shape = flash_workbook.Shape(*q.shape[:2], k.shape[1], q.shape[2], k.shape[2], q.shape[3], q.shape[3] ** -0.5, 0, 0,
                                 0)
    return lambda: flash_workbook.library().call("wb_quantise_fp8_inputs", [*eight, q, k, v], shape,
                                                 after=[ctypes.c_int(hadamard)]), None


EIGHT = {"library": partial(ours, 2, False), "library_one_level": partial(ours, 1, False), "fa3": fa3_fp8,
         "cudnn": cudnn_fp8, "flashinfer": flashinfer_fp8, "bf16": bf16, "quantise": partial(quantise, False),
         "quantise_hadamard": partial(quantise, True)}

# ------------------------ times


def prepared(problem, c):
    """What makes the calls of a shape, by name; operations, and the bytes of a name's call where they are counted."""
    backward, flop, bytes = problem in ("08", "09", "12"), 4.0 * c.Hq * c.D, lambda name: None
    if c.page:  # lengths are of another draw than the bench's, from the same distribution
        c.keys = [c.Nk if c.lens == "same" else max(1, int(c.Nk ** x)) for x in torch.rand(c.B).tolist()]
        given, total, row = pages_of(c), sum(c.keys), {"13": 2 * c.D, "bf16": 2 * c.D, "flashinfer": c.D}
        bytes = lambda name: (4 * c.B * c.Hq * c.Nq * (c.D + 1) + 4 * c.B + 4 * total // c.page
                              + 2 * total * c.Hkv * row.get(problem, row.get(name, c.D + 4)))
        return lambda name: decoding(name, *given, problem == "14"), flop * pairs(c), bytes
    q, k, v = randn(c.B, c.Hq, c.Nq, c.D), randn(c.B, c.Hkv, c.Nk, c.D), randn(c.B, c.Hkv, c.Nk, c.D)
    if problem == "15":
        _, seen, mask = masked(c)
        return lambda name: flex_masked(q, k, v, mask), flop * seen.sum().item(), bytes
    if problem == "16":  # what reads Q, K and V in bf16 and writes them in e4m3 is counted in bytes
        moved = lambda name: 3 * (q.numel() + 2 * k.numel()) if name.startswith("quantise") else None
        return lambda name: EIGHT[name](q, k, v, c.mask == "causal")[0], flop * pairs(c), moved
    sink = 2 + 2 * torch.randn(c.Hq, device="cuda") if problem in ("11", "12") else None
    dO = randn(*q.shape) if backward else None
    return (lambda name: dense(name, q, k, v, c.mask == "causal", c.W, c.S, sink, dO),
            flop * pairs(c) * (2.5 if backward else 1), bytes)


def measure(problem, names, N, D=128, Hq=None, Hkv=None, B=4, mask="causal", W=0, S=0, Nq=None, page=0, lens=""):
    """Rows of a shape that shapes.py lists."""
    Hq = Hq or (64 if page else 16)
    c = SimpleNamespace(B=B, Hq=Hq, Hkv=Hkv or (8 if page else Hq), Nq=Nq or N, Nk=N, D=D, W=W, S=S, page=page,
                        lens=lens, mask="full" if problem == "03" else mask)
    make, flop, bytes = prepared(problem, c)
    seen = "--" if problem > "12" else (W or N, "-") if problem > "10" else (W, S)
    causal = c.mask == "causal" and not page and problem != "15"
    shape = c.B, c.Hq, c.Hkv, c.Nq, c.Nk, c.D, *seen, "-", "-", int(causal)
    data = page or "-", lens or "-", *((mask, 128) if problem == "15" else "--")
    for name in {"14": ("bf16", "library", "flashinfer"), "16": EIGHT}.get(problem, names):
        with told(f"{problem} {name} B={B} N={N} D={D}", 100):
            ms, low, high = times(make(name))
            moved, rate = bytes(name), 0 if name.startswith("quantise") else flop / ms / 1e9
            print(problem, name, *shape, *(f"{x:.5g}" for x in (ms, low, high, rate)),
                  f"{moved / ms / 1e6:.5g}" if moved else "-", "-", "-", "-", RUNS, *data, sep="\t", flush=True)


# ------------------------ errors of 16

QUERIES, D = 192, 128


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


def errors():
    print("problem impl input B Hq Hkv Nk D error bias".replace(" ", "\t"))
    ways = {"bf16": bf16, "one_level": EIGHT["library_one_level"], "two_levels": EIGHT["library"],
            "hadamard": partial(ours, 2, True), **{name: EIGHT[name] for name in ("fa3", "cudnn", "flashinfer")}}
    for kind in ("normal", "mean_one", "outliers", "column"):
        for keys in (1024, 4096, 8192, 16384, 65536):
            q, k, v = drawn(kind, keys)
            if kind == "mean_one":  # e4m3 already: what is left is not the inputs'
                q, k, v = (x.to(torch.float8_e4m3fn).bfloat16() for x in (q, k, v))
            want = F.softmax(q.double() @ k.double().mT * D**-0.5, -1) @ v.double()
            for name, way in ways.items():
                with told(f"16 {name} {kind} {keys}", 100):
                    call, meant = way(q, k, v, False)
                    off = meant(call()).double() - want
                    bias = (off * want.sign()).mean() / want.abs().mean()
                    print("16", name, kind, 1, 1, 1, keys, D, f"{(off.norm() / want.norm()).item():.4g}",
                          f"{bias.item():+.4g}", sep="\t", flush=True)


if __name__ == "__main__":
    heading(True)
    if sys.argv[1:] == ["errors"]:
        sys.exit(errors())
    print(*COLUMNS, sep="\t")
    for problem in sys.argv[1:] or [f"{number:02}" for number in range(3, 17)]:
        for names, shape in listed(problem):
            measure(problem, names, **shape)
