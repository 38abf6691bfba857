"""What pyproject.toml has pip ask for a wheel: make builds the library, which knows nothing of PyTorch's ABI, so one
wheel serves each version. What knows it, operators.cpp, is built where the package is first imported."""
import base64, glob, hashlib, os, platform, subprocess, sysconfig, tempfile, zipfile


def build_wheel(directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as prefix:
        subprocess.run(["make", f"-j{os.cpu_count()}", "install", f"PREFIX={prefix}", "DESTDIR="], check=True)
        files = {path.removeprefix("reference/"): open(path, "rb").read()
                 for path in glob.glob("reference/flash_workbook/*.[pct]*")}  # .py, operators.cpp, py.typed
        files["flash_workbook/workbook.h"] = open("workbook/workbook.h", "rb").read()  # what that file includes
        files["flash_workbook/libworkbook.so"] = open(f"{prefix}/lib/libworkbook.so", "rb").read()
    version, platform = open("VERSION").read().strip(), sysconfig.get_platform().replace("-", "_").replace(".", "_")
    name, about = f"flash_workbook-{version}-py3-none-{platform}.whl", f"flash_workbook-{version}.dist-info/"
    files[about + "METADATA"] = f"""Metadata-Version: 2.4
Name: flash_workbook
Version: {version}
Summary: The FlashAttention workbook's kernels as operators of PyTorch
Author: The FlashAttention workbook's authors
License-Expression: MIT
License-File: LICENSE
Requires-Python: >=3.9
Requires-Dist: torch>=2.4
Provides-Extra: transformers
Requires-Dist: transformers>=5; extra == "transformers"
Description-Content-Type: text/markdown

`from flash_workbook import attention; help(attention)`. On a CPU its library needs the C++ runtime, OpenMP and
OpenBLAS of the machine that built it; on a GPU it needs only the driver. NumPy is not required.
""".encode()
    files[about + "licenses/LICENSE"] = open("LICENSE", "rb").read()
    files[about + "WHEEL"] = ("Wheel-Version: 1.0\nGenerator: pip_wheel\nRoot-Is-Purelib: false\n"
                              f"Tag: py3-none-{platform}\n").encode()
    sum_of = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    sums = [f"{path},sha256={sum_of(data)},{len(data)}\n" for path, data in files.items()]
    files[about + "RECORD"] = "".join([*sums, f"{about}RECORD,,\n"]).encode()
    with zipfile.ZipFile(os.path.join(directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            wheel.writestr(path, data)
    return name


def build_sdist(directory, config_settings=None):
    raise NotImplementedError("flash_workbook is built from a checkout of the workbook; there is no source package")


if __name__ == "__main__":  # make wheel: for other machines than this one
    os.environ.setdefault("ARCH", "80 90a 120")
    if platform.machine() == "x86_64":
        os.environ.setdefault("MARCH", "x86-64-v3")
    os.makedirs("dist", exist_ok=True)
    path = "dist/" + build_wheel("dist")
    print(f"{path}: {os.path.getsize(path) / 2**20:.1f} MiB")
