#!/usr/bin/env python3
"""flash_workbook's ring_attention beside what else there is for one sequence on several GPUs, in one process group, in
turns.

    torchrun --nproc-per-node 4 reference/ring_peers.py > ring_peers.tsv    from the workbook's root after make lib

ring is ours, torch_ring and torch_allgather are PyTorch's context_parallel with its two ways to move keys, ulysses
trades rows for heads and back, each of the latter over cuDNN and FlashAttention-2; one_gpu is attention() on one GPU,
over N queries, in an R-th of its time: what perfect ranks would take. Columns as in plots/README.md, and ranks; problem
17 is the forward pass, 18 the backward pass alone. Times: ways take turns, run by run; each begins after a barrier,
with launches queued beforehand; device events, the slowest rank, median and percentiles. tflops: a GPU's. peak_bytes:
beyond what was there before. max_error: |O - want| / |want| at CHECK rows beside attention() on one GPU. What a
machine cannot run is a line that starts with #.
"""
import contextlib, datetime, os, sys, time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.attention import SDPBackend, sdpa_kernel

from flash_workbook import attention, ring_attention, shard
from timing import COLUMNS, distances, heading, once, percentiles, said


on_gpu = torch.cuda.is_available() and os.environ.get("BACKEND") != "cpu"
# CHECK: rows of the check. Without a GPU shapes are small, to try it.
LENGTHS, HEADS, D, RUNS, CHECK = (((8192, 32768, 131072), (32, 8), 128, 9, 2048) if on_gpu
                                  else ((64,), (4, 2), 64, 2, 64))


def everywhere(x):
    """The largest of all ranks."""
    t = torch.tensor([float(x)], device=device)
    dist.all_reduce(t, dist.ReduceOp.MAX)
    return t.item()


class Trade(torch.autograd.Function):  # equal pieces to all: its own transpose
    @staticmethod
    def forward(ctx, x):
        came = torch.empty_like(x, memory_format=torch.contiguous_format)
        dist.all_to_all_single(came, x.contiguous())
        return came

    backward = staticmethod(lambda ctx, x: Trade.forward(ctx, x))


def sdpa(q, k, v, causal):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def ulysses(q, k, v, causal):  # [1, H, n, D] -> [1, H / R, R n, D], and back
    def there(x):
        _, H, n, D = x.shape
        return Trade.apply(x).view(R, H // R, n, D).transpose(0, 1).reshape(1, H // R, R * n, D)

    o = sdpa(there(q), there(k), there(v), causal)
    (_, h, _, D), n = o.shape, q.shape[2]
    return Trade.apply(o.view(h, R, n, D).transpose(0, 1).contiguous()).view(1, R * h, n, D)


@contextlib.contextmanager
def context_parallel(backend, method, causal):
    try:
        from torch.distributed.tensor.experimental._context_parallel import _attention as cp
    except ImportError:
        from torch.distributed.tensor.experimental import _attention as cp
    cp.set_rotate_method(method)
    cp._cp_options.enable_load_balance = causal
    with sdpa_kernel(backend), cp.context_parallel(mesh, buffers=[torch.zeros(16 * R, device=device)],
                                                   buffer_seq_dims=[0]):
        try:
            yield
        except Exception:
            cp._disable_context_parallel_dispatcher_impl()  # what it does not do itself then: SDPA would stay replaced
            raise


def ways(causal):
    """A way's name, what it calls, the context around it, and whether its shards are zigzag, contiguous or the
    whole."""
    backends = {"cudnn": SDPBackend.CUDNN_ATTENTION,
                "fa2": SDPBackend.FLASH_ATTENTION} if on_gpu else {"cpu": SDPBackend.MATH}
    yield "ring", lambda q, k, v: ring_attention(q, k, v, group=dist.group.WORLD,
                                                 causal=causal), contextlib.nullcontext, "zigzag"
    for name, backend in backends.items():
        for way, method in ("torch_ring", "alltoall"), ("torch_allgather", "allgather"):
            around = lambda backend=backend, method=method: context_parallel(backend, method, causal)
            yield f"{way}_{name}", lambda q, k, v: sdpa(q, k, v, causal), around, "zigzag" if causal else "contiguous"
        around = lambda backend=backend: sdpa_kernel(backend)
        yield f"ulysses_{name}", lambda q, k, v: ulysses(q, k, v, causal), around, "contiguous"
    yield "one_gpu", lambda q, k, v: attention(q, k, v, causal=causal), contextlib.nullcontext, "whole"


def cut(x, shards):
    return {"zigzag": lambda: shard(x, dist.group.WORLD), "contiguous": lambda: x.chunk(R, 2)[rank],
            "whole": lambda: x}[shards]().contiguous()


def randn(heads, rows, of_all=False):
    chance = torch.Generator(device).manual_seed(heads if of_all else 1000 * rank + heads)
    return torch.randn(1, heads, rows, D, device=device, generator=chance).bfloat16()


def error_of(call, around, shards, causal):
    whole = [randn(heads, CHECK, True) for heads in (HEADS[0], HEADS[1], HEADS[1])]
    with torch.no_grad(), around():
        got = call(*(cut(x, shards) for x in whole))
    return everywhere(distances([got], [cut(attention(*whole, causal=causal), shards).float()])[0])


def timed(call):
    if not on_gpu:
        dist.barrier()
        start = time.perf_counter()
        call()
        return everywhere(time.perf_counter() - start) * 1e3
    together = lambda: (dist.barrier(), torch.cuda.synchronize())
    return everywhere(once(call, before=together, hold=20_000_000))  # some 10 ms, in which the host queues all of it


def prepared(way, N, backward):
    """What is timed: the forward pass, or the backward pass alone; after it has run once."""
    name, call, around, shards = way
    rows = N if shards == "whole" else N // R
    q, k, v = (randn(heads, rows).requires_grad_(backward) for heads in (HEADS[0], HEADS[1], HEADS[1]))
    if not backward:
        run = torch.no_grad()(lambda: call(q, k, v))
    else:
        with around():
            O = call(q, k, v)
        run = lambda: torch.autograd.grad(O, (q, k, v), dO, retain_graph=True)
        dO = torch.randn_like(O)
    with around():
        run()
    return run, around


def measure(N, causal, backward):
    ready, errors, memory, ms = {}, {}, {}, {}
    at = f"N={N} {'causal' if causal else 'full'} {'backward' if backward else 'forward'}"
    for way in ways(causal):
        name, why = way[0], ""
        try:
            if name.startswith("torch_") and not on_gpu:
                raise NotImplementedError("context_parallel does not support CPU kernels")
            if name.startswith("ulysses") and any(heads % R for heads in HEADS):
                raise NotImplementedError(f"ulysses needs heads that are divisible among {R} ranks")
            if not backward:
                errors[name] = error_of(*way[1:], causal)
            before = on_gpu and (torch.cuda.reset_peak_memory_stats(), torch.cuda.memory_allocated())[1]
            ready[name], ms[name] = prepared(way, N, backward), []
            memory[name] = int(everywhere(torch.cuda.max_memory_allocated() - before)) if on_gpu else "-"
        except Exception as error:  # out of memory, or a backend that declines
            why = said(error, 100)
        if everywhere(bool(why)):
            ready.pop(name, None)
            say(f"# {name} {at}: {why or 'another rank could not'}")
    for _ in range(RUNS):
        for name, (run, around) in ready.items():
            with around():
                ms[name].append(timed(run) / (R if name == "one_gpu" else 1))
    pairs = N * (N + 1) / 2 if causal else N * N
    for name in ready:
        median, low, high = percentiles(ms[name])
        tflops = 4 * HEADS[0] * D * pairs * (2.5 if backward else 1) / R / median / 1e9
        numbers = [f"{x:.5g}" for x in (median, low, high, tflops)]
        say(18 if backward else 17, name, 1, *HEADS, N, N, D, *"----", int(causal), *numbers, "-", memory[name], "-",
            f"{errors[name]:.3g}" if name in errors else "-", RUNS, *"----", R)


def say(*fields):
    if rank == 0:
        print(*fields, sep="\t", flush=True)


if __name__ == "__main__":
    if "RANK" not in os.environ:
        sys.exit("start it with torchrun: torchrun --nproc-per-node RANKS reference/ring_peers.py")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
        # for all ways: where a product fills the GPU first, its message waits
        os.environ.setdefault("TORCH_NCCL_HIGH_PRIORITY", "1")
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=datetime.timedelta(minutes=3))
    rank, R = dist.get_rank(), dist.get_world_size()
    if CHECK % (2 * R):  # the lengths are multiples of it
        sys.exit("ring_peers: the other methods need lengths that are multiples of twice the ranks")
    mesh = init_device_mesh(device.type, (R,))
    if rank == 0:
        nccl = f", NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}" if on_gpu else ""
        heading(on_gpu, f"cuDNN {torch.backends.cudnn.version()}{nccl}")
        on_gpu and print("# gpus:", R)
    say(*COLUMNS, "ranks")
    for N in LENGTHS:
        for causal in (True, False):
            measure(N, causal, False), measure(N, causal, True)
    dist.barrier(), dist.destroy_process_group()
    os._exit(0)  # gloo's threads abort one exit in some ("terminate called without an active exception", PyTorch 2.11)
