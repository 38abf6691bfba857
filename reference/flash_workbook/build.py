"""The operators of operators.cpp: built for the PyTorch that is there, once, and kept in the user's cache."""
import ctypes, fcntl, hashlib, os, shlex, subprocess, sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "operators.cpp")
HEADER = os.path.join(HERE, "workbook.h")  # here where it was installed; else in the checkout
if not os.path.exists(HEADER):
    HEADER = os.path.join(HERE, "../../workbook/workbook.h")


def recipe():
    """The compiler's command, up to where the result goes."""
    torch_is = os.path.dirname(torch.__file__)
    libraries = os.path.join(torch_is, "lib")
    cuda = torch.version.cuda and os.path.exists(os.path.join(libraries, "libtorch_cuda.so"))
    compiler = shlex.split(os.environ.get("CXX") or "c++")  # "ccache g++"
    # PyTorch's own: with a second one inside, as some compilers link it, a number in a message ends the process
    standard = subprocess.run([*compiler, "-print-file-name=libstdc++.so.6"], capture_output=True, text=True)
    standard = [x for x in [standard.stdout.strip()] if os.path.isabs(x)]
    return [*compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", *["-DWITH_CUDA"] * bool(cuda),
            f"-I{os.path.dirname(HEADER)}", f"-isystem{torch_is}/include",
            f"-isystem{torch_is}/include/torch/csrc/api/include", SOURCE, f"-L{libraries}",
            f"-Wl,-rpath,{libraries}", *standard, "-ltorch_cpu", "-lc10", *["-ltorch_cuda"] * bool(cuda)]


def built():
    """The path of the operators for this PyTorch, source and compiler; built here unless it is there."""
    command = recipe()
    asked = [x for x in command if x != SOURCE and not x.startswith("-I")]  # where this package lies is no matter
    named = hashlib.sha256(repr([torch.version.git_version, asked]).encode())
    for path in (SOURCE, HEADER):
        named.update(open(path, "rb").read())
    folder = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "flash_workbook")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"operators-{torch.__version__}-{named.hexdigest()[:16]}.so")
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may want it at once
        if not os.path.exists(path):
            print(f"flash_workbook: building the operators for PyTorch {torch.__version__}; this is done once and "
                  f"takes half a minute",
                  file=sys.stderr, flush=True)
            made = subprocess.run([*command, "-o", path + ".part"], capture_output=True, text=True)
            if made.returncode:
                said = next((x for x in made.stderr.splitlines() if "error" in x), made.stderr.strip())
                raise RuntimeError(said or f"{command[0]} ended with status {made.returncode} without a message")
            os.rename(path + ".part", path)
    return path


def load(default_library):
    """torch.ops.flash_workbook with the operators in it. WB_OPERATORS: the path of built ones."""
    try:
        path = os.environ.get("WB_OPERATORS") or built()
        torch.ops.load_library(path)
        ctypes.CDLL(path).flash_workbook_default(os.fsencode(default_library))
    except (OSError, RuntimeError, AttributeError) as error:
        raise ImportError("flash_workbook: a C++ compiler (CXX, or c++) builds its operators for this PyTorch; "
                          f"that failed: {error}") from None
    return torch.ops.flash_workbook
