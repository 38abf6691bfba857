"""The ways to the library that need more than PyTorch: a kernel of Hugging Face's Hub, transformers, the notebook, Modal. Skipped by name where these are
not installed; the versions that were tried are in README.md.
"""
import os, subprocess, sys

import pytest
import torch

import hub_kernel

on_gpu = torch.cuda.is_available() and os.environ.get("BACKEND") != "cpu"
device, backend = ("cuda", "cuda") if on_gpu else ("cpu", "cpu")
NAME = "workbook/flash-workbook"
pytestmark = pytest.mark.skipif(not os.path.exists(f"build/{backend}/lib/libworkbook.so"), reason="wants the workbook's root, after make lib")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    os.environ["HF_HUB_OFFLINE"] = "1"
    kernels, folder = pytest.importorskip("kernels"), tmp_path_factory.mktemp("hub")
    hub_kernel.main(str(folder), backend)
    os.environ["LOCAL_KERNELS"] = f"{NAME}={folder}"
    kernels.folder = folder
    os.environ.setdefault("WB_LIBRARY", os.path.abspath(f"build/{backend}/lib/libworkbook.so"))
    return kernels


ALONE = f"""
import kernels, torch
kernel = kernels.get_kernel("{NAME}", version=1, trust_remote_code=True)
q = torch.ones(1, 50, 2, 64, device="{device}").bfloat16()
print(kernel.library().path, kernel.forward._qualname, kernel.flash_attn_func(q, q, q, causal=True).float().mean().item())
"""


def test_kernel_loads(kernels):
    # In a process of its own: two copies of the CPU layer have no room in one process's static TLS.
    alone = {k: v for k, v in os.environ.items() if k != "WB_LIBRARY"}
    path, name, mean = subprocess.run([sys.executable, "-c", ALONE], env=alone, cwd="/", check=True, capture_output=True, text=True).stdout.split()
    assert path.startswith(str(kernels.folder)) and name.startswith("_flash_workbook_") and mean == "1.0"


def test_build_toml(kernels):
    tomllib = pytest.importorskip("tomllib")
    told = tomllib.loads((kernels.folder / "build.toml").read_text())
    assert told["general"]["backends"] == [backend] and (kernels.folder / "torch-ext" / told["general"]["name"].replace("-", "_") / "__init__.py").exists()


@pytest.mark.parametrize("padded", [False, True])
def test_transformers_takes_it_by_name(kernels, padded):
    """As far from eager in float32 as eager in bf16 is, at most twice, as in gpt_oss.py: logits and gradients, with padding by way of varlen."""
    transformers = pytest.importorskip("transformers", minversion="5")
    sizes = dict(hidden_size=256, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=64, initializer_range=0.1)

    def model_of(dtype):
        torch.manual_seed(1)
        return transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**sizes), dtype=dtype, attn_implementation="eager").to(device)

    exact, model = model_of(torch.float32), model_of(torch.bfloat16)
    exact.load_state_dict(model.state_dict())
    torch.manual_seed(2)
    tokens, mask = torch.randint(0, 64, (2, 90), device=device), torch.ones(2, 90, dtype=torch.long, device=device)
    mask[0, : 25 * padded] = 0
    labels = tokens.masked_fill(mask == 0, -100)
    labels[0, 25 * padded] = -100  # what a padded row says of the first token is anybody's

    def results(m):
        m.zero_grad()
        out = m(tokens, attention_mask=mask, labels=labels, use_cache=False)
        out.loss.backward()
        return [out.logits[mask.bool()].detach(), *(p.grad for p in m.parameters())]

    want, eager = results(exact), results(model)
    try:
        model.set_attn_implementation(NAME, allow_all_kernels=True)
    except ImportError as error:
        pytest.skip(str(error))
    assert model.config._attn_implementation == NAME
    far = lambda got: torch.tensor([((a.float() - b).norm() / b.norm()).item() for a, b in zip(got, want)])
    ours, theirs = far(results(model)), far(eager)
    assert (ours <= 2 * theirs).all() and not all(torch.equal(a, b) for a, b in zip(results(model), eager)), (ours / theirs).max()
    prompt = tokens[1:, :40]
    assert model.generate(prompt, max_new_tokens=5, do_sample=False).shape == (1, 45)


def test_modal_script_is_an_app(monkeypatch):
    pytest.importorskip("modal")
    import importlib.util

    spec = importlib.util.spec_from_file_location("gpu_modal", "examples/gpu_modal.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert "run" in script.app.registered_functions and "main" in script.app.registered_entrypoints


@pytest.mark.skipif(not os.environ.get("NOTEBOOK"), reason="builds a bundle, some minutes: NOTEBOOK=1")
def test_notebook_runs():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    where, book = "build/notebook", nbformat.read("examples/gpu.ipynb", 4)
    nbformat.validate(book)
    os.makedirs(where, exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    os.environ.update(REPOSITORY=os.getcwd(), COMMIT=commit, PROBLEMS="02", BACKEND=backend)
    nbclient.NotebookClient(book, timeout=3000, kernel_name="python3", resources={"metadata": {"path": where}}).execute()
    said = "".join(out.get("text", "") for cell in book.cells for out in cell.get("outputs", []))
    assert "== 02 (solutions)" in said and "results/02_weighted_row_sum.tsv" in said
