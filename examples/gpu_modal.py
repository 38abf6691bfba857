"""The same as gpu.ipynb on a GPU that Modal lends: from the workbook's root, with an account there,

    pip install modal==1.6.4 && GPU=H100 ARCH=90a modal run examples/gpu_modal.py --problems "05 10"

builds the bundle of what is committed in an image (no GPU is paid for meanwhile), runs suites and bench on the GPU, and leaves results/*.tsv here.
"""
import os, subprocess

import modal

GPU, ARCH = os.environ.get("GPU", "H100"), os.environ.get("ARCH", "90a")
image = modal.Image.from_registry("nvidia/cuda:12.6.3-devel-ubuntu24.04", add_python="3.12")
image = image.apt_install("git", "make", "ca-certificates")
if modal.is_local():
    # A bundle of git's: what is committed, and nothing else of this folder.
    subprocess.run(["git", "bundle", "create", "-q", "/tmp/workbook.git-bundle", "HEAD"], check=True)
    image = image.add_local_file("/tmp/workbook.git-bundle", "/workbook.git-bundle", copy=True)
    image = image.run_commands("git clone -q /workbook.git-bundle /workbook", "cd /workbook && ./setup.sh",
                               f"cd /workbook && make bundle BACKEND=cuda ARCH={ARCH}")
app = modal.App("flashattention-workbook", image=image)


@app.function(gpu=GPU, timeout=3600)
def run(problems):
    """Exit status of the suites, and the bench's tables by name."""
    bundle = "/workbook/build/cuda/bundle"
    status = subprocess.run(f"./run.sh test solutions {problems}", shell=True, cwd=bundle).returncode
    subprocess.run(f"./run.sh bench {problems}", shell=True, cwd=bundle, check=True)
    folder = bundle + "/results"
    return status, {name: open(f"{folder}/{name}").read() for name in sorted(os.listdir(folder))}


@app.local_entrypoint()
def main(problems: str = "05 10"):
    status, tables = run.remote(problems)
    os.makedirs("results", exist_ok=True)
    for name, table in tables.items():
        open(f"results/{name}", "w").write(table)
        print(f"results/{name}")
    if status:
        raise SystemExit("a suite failed: see above")
