#!/usr/bin/env python3
"""flash_workbook as Hugging Face's `kernels` loads one, so that transformers takes it by name; from the workbook's root, after make lib.

    python3 reference/hub_kernel.py FOLDER          FOLDER and BACKEND= as you like; then, in the same shell,
    export LOCAL_KERNELS=workbook/flash-workbook=FOLDER
    ... model.set_attn_implementation("workbook/flash-workbook", allow_all_kernels=True)

FOLDER/build/VARIANT is what a repository on the Hub has (docs: kernel requirements), with one library, that of this machine's platform; the rest is what
kernel-builder makes such a folder from: build.toml and torch-ext. Nobody has uploaded it, and kernel-builder has not been tried on it.
"""
import base64, glob, hashlib, json, os, shutil, sys

BUILD = """[general]
name = "flash-workbook"
version = 1
edition = 5
license = "MIT"
backends = ["{backend}"]

[torch-noarch]
pyext = ["py", "so"]
"""


def main(folder, backend):
    here = os.path.join(os.path.dirname(__file__), "flash_workbook")
    files = {os.path.basename(path): open(path, "rb").read() for path in glob.glob(here + "/*.py")}
    files["libworkbook.so"] = open(f"build/{backend}/lib/libworkbook.so", "rb").read()
    source = os.path.join(folder, "torch-ext", "flash_workbook")
    shutil.rmtree(source, ignore_errors=True)
    write(source, files)
    write(folder, {"build.toml": BUILD.format(backend=backend).encode()})

    # What follows kernel-builder would do. Operators get a name that has these files' sum in it: several versions may be loaded side by side.
    digest = hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()[:8]
    id = f"_flash_workbook_{backend}_{digest}"
    files["_ops.py"] = f'def add_op_namespace_prefix(name):\n    return f"{id}::{{name}}"\n'.encode()
    variant = os.path.join(folder, "build", "torch-cuda" if backend == "cuda" else "torch-universal")  # the CPU layer runs where torch is built for CUDA, too
    shutil.rmtree(variant, ignore_errors=True)
    write(variant, files)
    sums = {name: base64.b64encode(hashlib.sha256(data).digest()).decode() for name, data in sorted(files.items())}
    about = {"name": "flash-workbook", "id": id, "version": 1, "license": "MIT", "python-depends": [], "backend": {"type": backend},
             "digest": {"algorithm": "sha256", "files": sums}}
    if backend == "cuda":
        import torch

        about["backend"]["archs"] = ["%d.%d" % torch.cuda.get_device_capability()] if torch.cuda.is_available() else []
    write(variant, {"metadata.json": json.dumps(about, indent=2).encode()})


def write(folder, files):
    os.makedirs(folder, exist_ok=True)
    for name, data in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python3 reference/hub_kernel.py FOLDER")
    main(sys.argv[1], os.environ.get("BACKEND") or ("cuda" if os.path.exists("build/cuda/lib/libworkbook.so") else "cpu"))
