#!/usr/bin/env python3
"""The workbook's attention as one differentiable function of PyTorch, from libworkbook.so by ctypes.

    from torch_attention import attention                      with reference/ in sys.path, after make lib BACKEND=cuda
    O = attention(Q, K, V)                                     causal, grouped heads: 05 and 08
    O = attention(Q, K, V, causal=False)                       every query sees every key: 03, or 10, and 08's kernels for Hopper
    O = attention(Q, K, V, window=128, sink_tokens=4)          06 or 07, and 09
    O = attention(Q, K, V, window=128, sink_logits=s)          as in gpt-oss: 11 and 12, with the gradient of s

    make torch BACKEND=cuda        or    python3 reference/torch_attention.py [LIBRARY] >torch_attention.tsv

checks O and all gradients against attention written out in float32, on 20 ragged shapes, then, on a GPU, order on torch's streams, and times
beside torch's own backends (reference/peers.py) in the same run. A mistake planted for each kind of mask must be seen. Printed: lines
that start with # say where the numbers come from, then what, impl, at, value, limit, verdict. Exit status 1: a limit was not kept, or a mistake not seen.

The limit of |x - want| / |want| is 2^-7. A number rounded to bf16 is off by 2^-9 at most, and no more than four roundings add up in any of
these results: of P or dS before it enters a product, of O and then delta, of what dS was made of, and of the result itself.
"""
import ctypes, datetime, functools, os, subprocess, sys

try:
    import torch
except ImportError as error:
    if __name__ != "__main__":
        raise
    sys.exit(f"torch_attention.py wants PyTorch, and here: {error}.")


class Shape(ctypes.Structure):  # attention_shape of workbook/workbook.h
    names = "batch q_heads kv_heads q_len kv_len head_dim scale causal window sinks".split()
    _fields_ = [(name, ctypes.c_float if name == "scale" else ctypes.c_int) for name in names]


class Refused(RuntimeError):
    """A function's status that is not WB_OK; its text is wb_last_message()."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Library:
    """Functions of workbook.h on torch tensors: of libworkbook.so, or of another library that has some of them."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.wb_last_message.restype = ctypes.c_char_p

    def has(self, name):
        return hasattr(self.lib, name)

    def call(self, name, tensors, shape, *before):
        """On torch's current stream of the tensors' device; `before` are arguments that come before the tensors."""
        device = tensors[0].device
        on_gpu = device.type == "cuda"  # else the CPU execution layer, whose device memory is the host's
        with torch.cuda.device(device if on_gpu else -1):  # -1: as it is
            stream = torch.cuda.current_stream().cuda_stream if on_gpu else None
            pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
            status = getattr(self.lib, name)(*before, *pointers, ctypes.byref(shape), ctypes.c_void_p(stream))
        if status != 0:
            raise Refused(status, self.lib.wb_last_message().decode())

    def call_in_workspace(self, name, form, tensors, shape):
        """NAME_FORM, with a workspace of torch's; NAME where the library has no such form, or needs no workspace."""
        if not self.has(f"{name}_{form}"):
            return self.call(name, tensors, shape)
        device = tensors[0].device
        with torch.cuda.device(device if device.type == "cuda" else -1):
            size = getattr(self.lib, name + "_workspace")
            size.restype = ctypes.c_size_t
            bytes = size(ctypes.byref(shape))
        # Freed when we return, it goes to nobody but who comes after us on this stream.
        memory = torch.empty(bytes + 256, dtype=torch.uint8, device=device)
        aligned = ctypes.c_void_p((memory.data_ptr() + 255) // 256 * 256)
        self.call(f"{name}_{form}", tensors, shape, aligned, ctypes.c_size_t(bytes))


@functools.lru_cache(None)
def library(path=None):
    default = "cuda" if torch.cuda.is_available() else "cpu"
    return Library(path or os.environ.get("WB_LIBRARY") or f"build/{os.environ.get('BACKEND') or default}/lib/libworkbook.so")


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, lib, shape, same_bits, Q, K, V, sink_logits):
        inputs = [Q, K, V] if sink_logits is None else [Q, K, V, sink_logits]
        if sink_logits is not None:
            name = "flash_sink_logits"
        elif not shape.causal:
            name = "flash_forward" if shape.q_heads == shape.kv_heads else "flash_hopper"
        elif shape.window:
            name = "flash_sinks" if shape.sinks else "flash_window"
        else:
            name = "flash_gqa"
        O, L = torch.empty_like(Q), torch.empty(Q.shape[:3], device=Q.device)
        lib.call(name, [O, L, *inputs], shape)
        ctx.lib, ctx.shape, ctx.same_bits = lib, shape, same_bits
        ctx.save_for_backward(*inputs, O, L)
        return O

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dO):
        *inputs, O, L = ctx.saved_tensors
        gradients = [torch.empty_like(x) for x in inputs]
        tensors = [*gradients, torch.empty_like(L), *inputs, O, L, dO.contiguous()]
        if len(inputs) == 4:
            ctx.lib.call_in_workspace("flash_sink_logits_backward", "in", tensors, ctx.shape)
        elif ctx.shape.window:
            ctx.lib.call_in_workspace("flash_sinks_backward", "in", tensors, ctx.shape)
        else:
            ctx.lib.call_in_workspace("flash_gqa_backward", "in" if ctx.same_bits else "fastest", tensors, ctx.shape)
        return None, None, None, *gradients, *[None] * (4 - len(inputs))


def attention(Q, K, V, *, causal=True, window=None, sink_tokens=0, sink_logits=None, scale=None, same_bits=None, lib=None):
    """softmax(scale Q K^T) V over the keys that a query sees. Q [B, Hq, N, D], K and V [B, Hkv, N, D]: bf16; sink_logits [Hq]: float32.

    window: query i sees the `window` keys up to its own, and the first sink_tokens keys. sink_logits: one more term a head of the softmax's
    denominator. scale: 1 / sqrt(D) unless given. same_bits: of gradients, each time; unless given, what
    torch.use_deterministic_algorithms says. What no function of the library does raises Refused, with its words.
    """
    if any(x.dtype != torch.bfloat16 for x in (Q, K, V)) or (sink_logits is not None and sink_logits.dtype != torch.float32):
        raise TypeError("attention takes Q, K and V in bfloat16, and sink_logits in float32")
    if any(x.device != Q.device for x in (K, V) + (() if sink_logits is None else (sink_logits,))):
        raise ValueError("attention takes tensors of one device")
    (B, Hq, N, D), (Bk, Hkv, Nk, Dk) = Q.shape, K.shape
    if K.shape != V.shape or Bk != B or Dk != D or (sink_logits is not None and sink_logits.shape != (Hq,)):
        raise ValueError(f"attention of Q {list(Q.shape)}, K {list(K.shape)}, V {list(V.shape)}: [B, Hq, N, D], [B, Hkv, N, D] twice, and sink_logits [Hq]")
    if not causal and (window or sink_tokens or sink_logits is not None):
        raise ValueError("a window, sink_tokens and sink_logits are for causal attention")
    if sink_logits is not None and sink_tokens:
        raise ValueError("no function of the library has both sink_tokens and sink_logits")
    if same_bits is None:
        same_bits = torch.are_deterministic_algorithms_enabled()
    W = (window or N) if sink_logits is not None else (window or 0)
    shape = Shape(B, Hq, Hkv, N, Nk, D, D ** -0.5 if scale is None else scale, int(causal), W, sink_tokens if window else 0)
    if sink_logits is not None:
        sink_logits = sink_logits.contiguous()
    return Attention.apply(lib or library(), shape, same_bits, Q.contiguous(), K.contiguous(), V.contiguous(), sink_logits)


def asked(variable, *command):
    return os.environ.get(variable) or subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def heading(on_gpu, software):
    """What the first lines of a table say."""
    print("# commit:", asked("WB_COMMIT", "git", "describe", "--always", "--dirty", "--abbrev=10"))
    print("# backend:", "cuda" if on_gpu else "cpu")
    if on_gpu:
        print("# gpu:", torch.cuda.get_device_name())
        print("# driver:", asked("WB_DRIVER", "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"))
    print(f"# date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC")
    print(f"# software: PyTorch {torch.__version__}, {software}")
    print("# command: python3", " ".join([f"reference/{os.path.basename(sys.argv[0])}", *sys.argv[1:]]))


# ---------------------------------------------------------------------------------------------------------------- the check


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
    *((*sizes, {"causal": False}) for sizes in ((1, 2, 2, 65, 64), (2, 3, 3, 129, 128), (1, 4, 2, 201, 64))),
    *((*sizes, {}) for sizes in ((1, 2, 2, 33, 16), (2, 2, 2, 97, 32), (1, 3, 3, 131, 64))),
    *((*sizes, {}) for sizes in ((2, 6, 2, 35, 16), (1, 8, 1, 130, 64), (1, 8, 2, 257, 128), (1, 5, 1, 67, 128))),
    *((*sizes, {"window": W}) for *sizes, W in ((1, 2, 1, 100, 64, 17), (2, 4, 2, 129, 32, 64), (1, 8, 2, 150, 16, 40))),
    *((*sizes, {"window": W, "sink_tokens": S}) for *sizes, W, S in ((1, 4, 2, 150, 64, 32, 4), (1, 2, 1, 97, 128, 16, 1), (2, 4, 1, 70, 16, 8, 3))),
    *((*sizes, {"window": W, "logits": True}) for *sizes, W in ((1, 4, 2, 150, 64, 32), (1, 8, 1, 129, 64, None), (2, 4, 2, 97, 128, None), (1, 2, 2, 61, 32, 16))),
]
MISTAKES = {  # what is asked for instead, where it is something else
    "causal": lambda how: not how.get("causal", True) and {**how, "causal": True},
    "window_one_long": lambda how: how.get("window") and {**how, "window": how["window"] + 1},
    "one_sink_fewer": lambda how: how.get("sink_tokens") and {**how, "sink_tokens": how["sink_tokens"] - 1},
    "next_heads_sink": lambda how: "sink_logits" in how and {**how, "sink_logits": how["sink_logits"].roll(1)},
    "scale": lambda how: {**how, "scale": 0.1},
}
LIMIT = 2**-7
failed = False


def row(what, impl, at, value, limit=None, verdict="-"):
    global failed
    failed |= verdict in ("TOO FAR", "NOT SEEN", "FAILED")
    print(what, impl, at, f"{value:.5g}", "-" if limit is None else f"{limit:.5g}", verdict, sep="\t", flush=True)


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
                row(what, impl, at, far, LIMIT, "ok" if far <= LIMIT else "TOO FAR")
        again = results(functools.partial(attention, same_bits=True), tensors, dO, how)
        other = sum((a != b).sum().item() for a, b in zip(got, again))
        row("other_bits", "workbook_same_bits", at, other, 0, "ok" if other == 0 else "FAILED")
        for name, change in MISTAKES.items():
            with_sinks = {**how, "sink_logits": tensors[3]} if len(tensors) == 4 else how
            if changed := change(with_sinks):
                wrong = distances(results(functools.partial(attention, **changed), tensors[:3], dO, {}), want)
                far = min(wrong)  # in what shows it least
                row("least of O dQ dK dV", name, at, far, LIMIT, "rejected" if far > LIMIT else "NOT SEEN")
    refusals()


def refusals():
    """Errors are exceptions, and say what the library says."""
    Q, K, V = (torch.zeros(1, 2, 10, 48, dtype=torch.bfloat16, device=device) for _ in range(3))
    for what, error, word, call in (
        ("head_dim", Refused, "head_dim = 48", lambda: attention(Q, K, V)),
        ("scale", Refused, "scale = -1", lambda: attention(Q[..., :16], K[..., :16], V[..., :16], scale=-1.0)),
        ("float32", TypeError, "bfloat16", lambda: attention(Q.float(), K, V)),
    ):
        try:
            call()
            said = ""
        except error as refused:
            said = str(refused)
        row("refused", "workbook", what, float(word in said), 1, "ok" if word in said else "FAILED")


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
    row("two_streams", "workbook_same_bits", text(*sizes), far, LIMIT, "ok" if far <= LIMIT and not waited else "FAILED")


# ---------------------------------------------------------------------------------------------------------------- the times

TIMED = [  # B, Hq, Hkv, N, D, what is visible, and whom to ask
    *((B, H, H, N, D, {"causal": causal}, "fa2 cudnn flex" if causal else "fa4 fa4_same_bits fa2 cudnn flex")  # problem 08's peers have causal
      for causal in (False, True) for B, H, N, D in ((4, 16, 4096, 128), (1, 16, 16384, 128), (4, 32, 4096, 64), (1, 32, 16384, 64))),
    *((2, 64, 8, 4096, D, {"causal": True}, "fa2 cudnn flex") for D in (64, 128)),
    *((1, 64, 8, N, 64, {"window": 128, "sink_tokens": 4}, "flex") for N in (4096, 16384, 65536)),
    *((1, 64, 8, N, 64, {"window": W, "logits": True}, "flex") for W in (128, None) for N in (4096, 16384)),
]


def times():
    import peers  # the others, and how to time

    def theirs(name):
        def call(Q, K, V, causal=True, window=None, sink_tokens=0, sink_logits=None):
            return peers.PEERS[name](Q, K, V, causal, window, sink_tokens, **({} if sink_logits is None else {"sink": sink_logits}))

        return call

    ours = {"workbook": functools.partial(attention, same_bits=False), "workbook_same_bits": functools.partial(attention, same_bits=True)}
    for *sizes, kind, names in TIMED:
        at = text(*sizes, kind)
        for impl in (*ours, *names.split()):
            tensors, dO, how = inputs(*sizes, kind, device)
            if len(tensors) == 4:
                how["sink_logits"] = tensors[3]
            if impl.startswith("fa4"):  # its own order of dimensions
                tensors, dO = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in tensors], dO.transpose(1, 2).contiguous()
            function = ours.get(impl) or theirs(impl)
            try:
                row("forward_ms", impl, at, peers.times(lambda: function(*tensors[:3], **how))[0])
                O = function(*tensors[:3], **how)
                row("backward_ms", impl, at, peers.times(lambda: torch.autograd.grad(O, tensors, dO, retain_graph=True))[0])
                O = None
                torch.cuda.synchronize()
                before = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
                torch.autograd.grad(function(*tensors[:3], **how), tensors, dO)
                row("mib_beyond_inputs", impl, at, (torch.cuda.max_memory_allocated() - before) / 2**20)
            except Exception as error:  # out of memory, or a backend that declines: said, not hidden
                print(f"# {at} {impl}: {str(error).splitlines()[0][:100]}", flush=True)
            tensors = dO = how = O = None


if __name__ == "__main__":
    if sys.argv[1:]:
        os.environ["WB_LIBRARY"] = sys.argv[1]
    on_gpu = torch.cuda.is_available() and os.environ.get("BACKEND") != "cpu"
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    heading(on_gpu, f"cuDNN {torch.backends.cudnn.version()}")
    print("what\timpl\tat\tvalue\tlimit\tverdict")
    check(device)
    if on_gpu:
        streams()
        times()
    sys.exit(failed)
