"""What PyTorch asks of flash_workbook's operators, by pytest: python3 -m pytest reference/torch_test.py, from the
workbook's root after make lib.

How right the numbers are, torch_attention.py asks. On the CPU layer, or on a GPU where torch finds one and BACKEND is
not cpu.
"""
import importlib.util, os, subprocess, sys

import pytest
import torch

import flash_workbook
from flash_workbook import attention

device = "cuda" if torch.cuda.is_available() and os.environ.get("BACKEND") != "cpu" else "cpu"
KINDS = {
    "gqa": {},
    "full": {"causal": False},
    "window": {"window": 17},
    "sinks": {"window": 17, "sink_tokens": 3},
    "logits": {"window": 17, "logits": True},
}


@pytest.fixture(params=KINDS)
def case(request):
    """Tensors that want gradients, dO, and the other arguments of attention."""
    torch.manual_seed(1)
    how = dict(KINDS[request.param])
    Q, K, V, dO = (torch.randn(1, h, 70, 64, device=device).bfloat16() for h in (4, 2, 2, 4))
    sinks = [torch.randn(4, device=device)] if how.pop("logits", False) else []
    if how.get("causal") is False and flash_workbook.library().lib.wb_device_capability() != 9:
        pytest.skip("has a backward on sm_90 alone")
    return [x.requires_grad_() for x in (Q, K, V, *sinks)], dO, how


def results(function, case):
    tensors, dO, how = case
    O = function(*tensors[:3], **how, **({"sink_logits": tensors[3]} if len(tensors) > 3 else {}), same_bits=True)
    return [O, *torch.autograd.grad(O, tensors, dO)]


def same(some, others):
    return all(torch.equal(a, b) for a, b in zip(some, others, strict=True))


def test_opcheck(case):
    (Q, K, V, *sinks), dO, how = case
    rest = (how.get("causal", True), how.get("window", 0), how.get("sink_tokens", 0), 0.125, True, "")
    arguments = (Q, K, V, sinks[0] if sinks else None, *rest)
    torch.library.opcheck(flash_workbook.forward, arguments)
    O, L = flash_workbook.forward(*arguments)
    assert O.requires_grad and not L.requires_grad
    with torch.no_grad():
        torch.library.opcheck(flash_workbook.backward, (dO, *(x.detach() if isinstance(x, torch.Tensor) else x
                                                              for x in arguments[:4]), O.detach(), L, *rest))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_whole(case, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(attention, fullgraph=True, dynamic=dynamic)
    assert same(results(compiled, case), results(attention, case))
    with torch.inference_mode():
        assert same([compiled(*case[0][:3])], [attention(*case[0][:3])])


def test_any_strides(case):
    tensors, dO, how = case
    strided = [x.detach().mT.contiguous().mT.requires_grad_() if x.dim() == 4 else x for x in tensors]
    assert not strided[0].is_contiguous()
    assert same(results(attention, (strided, dO.mT.contiguous().mT, how)), results(attention, case))
    torch._dynamo.reset()
    assert same(results(torch.compile(attention, fullgraph=True), (strided, dO, how)), results(attention, case))


@pytest.mark.parametrize("way", [lambda f: f, lambda f: torch.compile(f, fullgraph=True)], ids=["eager", "compiled"])
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


def test_deterministic_flag(monkeypatch):
    Q, K, V = (torch.zeros(1, 2, 70, 64, dtype=torch.bfloat16, device=device, requires_grad=True) for _ in range(3))
    forms = []
    monkeypatch.setattr(flash_workbook.Library, "call_in_workspace", lambda _, name, form, *rest: forms.append(form))
    for flag in (False, True):
        torch.use_deterministic_algorithms(flag)
        try:
            attention(Q, K, V).sum().backward()
        finally:
            torch.use_deterministic_algorithms(False)
    assert forms == ["fastest", "in"]


def test_refusals_say_why():
    Q = torch.zeros(1, 2, 10, 16, dtype=torch.bfloat16, device=device)
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.vmap(attention)(Q[None], Q[None], Q[None])
    with pytest.raises(ValueError, match=f"works on tensors of device {device}, and these are on meta"):
        flash_workbook.library().call("flash_gqa", [Q.to("meta")], None)
    with pytest.raises(flash_workbook.Refused, match="scale = -1"):
        attention(Q, Q, Q, scale=-1.0)
    with pytest.raises(TypeError, match="bfloat16"):
        attention(Q.float(), Q, Q)
    with pytest.raises(flash_workbook.Refused, match="head_dim = 48"):
        torch.compile(attention, fullgraph=True)(*[torch.zeros(1, 2, 10, 48, dtype=torch.bfloat16, device=device)] * 3)
    leaf = Q.clone().requires_grad_()
    (once,) = torch.autograd.grad(attention(leaf, Q, Q).sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="attention_backward"):
        once.sum().backward()


@pytest.mark.skipif(not os.path.exists("pyproject.toml") or not importlib.util.find_spec("pip"),
                    reason="wants a checkout, and pip")
def test_pip_installs(tmp_path):
    backend = os.environ.get("BACKEND") or ("cuda" if device == "cuda" else "cpu")
    as_built = {"WERROR": "1"} if "-Werror" in open(f"build/{backend}/flags.mk").read() else {}
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(tmp_path), "."]
    subprocess.run(pip, check=True, env={**os.environ, **as_built, "BACKEND": backend})
    alone = {**{k: v for k, v in os.environ.items() if k != "WB_LIBRARY"}, "PYTHONPATH": str(tmp_path)}
    says = [sys.executable, "-c", "import flash_workbook; print(flash_workbook.library().path)"]
    said = subprocess.run(says, check=True, cwd="/", env=alone, capture_output=True, text=True).stdout
    assert said.strip() == str(tmp_path / "flash_workbook" / "libworkbook.so")


@pytest.mark.skipif(device == "cpu", reason="wants a GPU")
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


@pytest.mark.skipif(device == "cpu", reason="wants a GPU")
def test_compiled_with_graphs(case):
    torch._dynamo.reset()
    compiled = torch.compile(attention, fullgraph=True, mode="reduce-overhead")
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        got = [x.clone() for x in results(compiled, case)]
    assert same(got, results(attention, case))
