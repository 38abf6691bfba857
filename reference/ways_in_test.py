"""The ways to a GPU of somebody else's: the notebook, Modal. Skipped by name where these are not installed; the
versions that were tried are in README.md."""
import os, subprocess

import pytest
import torch

backend = "cuda" if torch.cuda.is_available() and os.environ.get("BACKEND") != "cpu" else "cpu"


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
    nbclient.NotebookClient(book, timeout=3000, kernel_name="python3",
                            resources={"metadata": {"path": where}}).execute()
    said = "".join(out.get("text", "") for cell in book.cells for out in cell.get("outputs", []))
    assert "== 02 (solutions)" in said and "results/02_weighted_row_sum.tsv" in said
