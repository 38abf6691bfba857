"""What PyTorch asks of flash_workbook's operators, by pytest: python3 -m pytest reference/torch_test.py, from the
workbook's root after make lib. On the CPU layer, or on a GPU where torch finds one and BACKEND is not cpu. How right
they are: flash_attn_test.py.
"""
import importlib.util, os, subprocess, sys

import pytest
import torch

import flash_workbook
from flash_workbook import attention
from timing import distances
from torch.utils._python_dispatch import TorchDispatchMode

device = "cuda" if torch.cuda.is_available() and os.environ.get("BACKEND") != "cpu" else "cpu"
torch.set_num_threads(1)  # of tensors as small as these a second one costs more than it does
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
    if how.get("causal") is False and flash_workbook.library().lib.wb_device_capability() != 9:
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


# ------------------------ how right

# Of |x - want| / |want|. A number rounded to bf16 is off by 2^-9 at most, and no more than four roundings add up in any
# result: of P or dS before it enters a product, of O and then delta, of what dS was made of, and of the result itself.
LIMIT = 2**-7


@pytest.mark.skipif(device == "cpu", reason="needs a GPU")
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


# ------------------------ an operator of PyTorch's


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


class Asked(TorchDispatchMode):
    """Which operators are called, with what."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, arguments=(), how=None):
        self.calls.append((str(function), arguments))
        return function(*arguments, **how or {})


def test_who_writes_to_what_is_kept_is_told():
    Q = torch.zeros(1, 20, 2, 64, dtype=torch.bfloat16, device=device)
    for q in (Q, Q.transpose(1, 2).contiguous().transpose(1, 2)):  # copied, or not
        leaf = q.clone(memory_format=torch.preserve_format).requires_grad_()
        given = leaf * 1
        O = flash_workbook.flash_attn_func(given, q, q, causal=True)
        if q is not Q:
            with torch.no_grad():
                given.add_(1)
            with pytest.raises(RuntimeError, match="in-?place"):
                O.sum().backward()
        O = flash_workbook.flash_attn_func(leaf, q, q, causal=True)
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


@pytest.mark.skipif(device == "cpu", reason="needs a GPU")
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


@pytest.mark.skipif(device == "cpu", reason="needs a GPU")
def test_compiled_with_graphs(case):
    torch._dynamo.reset()
    compiled = torch.compile(attention, fullgraph=True, mode="reduce-overhead")
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        got = [x.clone() for x in results(compiled, case)]
    assert same(got, results(attention, case))
