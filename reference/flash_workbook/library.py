"""libworkbook.so by ctypes: its structs, its calls on torch's stream, its errors; and the operators of operators.cpp,
built for the PyTorch that is there, once, and kept in the user's cache."""
import ctypes, fcntl, functools, hashlib, os, shlex, subprocess, sys
from typing import Optional

import torch


def operator(name, waits=False):
    """waits: for the GPU, to read numbers; torch.compile then leaves it out of CUDA graphs."""
    tags = [torch.Tag.cudagraph_unsafe] if waits and hasattr(torch.Tag, "cudagraph_unsafe") else []
    return torch.library.custom_op("flash_workbook::" + name, mutates_args=(), **({"tags": tags} if tags else {}))


def like_forward(Q, K, V, *_):
    """O and L, with nothing in them."""
    return Q.new_empty(*Q.shape[:3], V.shape[3]), Q.new_empty(Q.shape[:3], dtype=torch.float32)


def struct(name, floats, fields):
    types = [(field, ctypes.c_float if field in floats else ctypes.c_int) for field in fields.split()]
    return type(name, (ctypes.Structure,), {"_fields_": types})


# attention_shape, decode_shape and block_mask of workbook/workbook.h
Shape = struct("Shape", ["scale"], "batch q_heads kv_heads q_len kv_len head_dim scale causal window sinks")
DecodeShape = struct("DecodeShape", ["scale"], "batch q_heads kv_heads q_len head_dim scale page_size pages max_pages")


class BlockMask(ctypes.Structure):
    lists = "whole_start whole part_start part bits".split()
    _fields_ = [(name, ctypes.c_int) for name in "q_tile kv_tile masks".split()] + [(name, ctypes.c_void_p)
        for name in lists]


class Scores(ctypes.Structure):  # wb_scores
    _fields_ = [*((name, ctypes.c_void_p) for name in ("first", "last", "at", "slopes")), ("softcap", ctypes.c_float),
                ("sinks", ctypes.c_int)]


class Refused(NotImplementedError):  # a RuntimeError
    """A function's status that is not WB_OK, with the text of wb_last_message(); or what no function of the library
    does: status 3."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status

    def __reduce__(self):
        return Refused, (self.status, str(self))


def refuse(text):
    raise Refused(3, text)


class Library:
    """Functions of workbook.h on torch tensors: of libworkbook.so, or of another library that has some of them."""

    def __init__(self, path):
        if not os.path.exists(path):
            raise OSError(f"flash_workbook: {path} does not exist. In a checkout, make lib builds it; pip install . "
                          "builds and installs it. WB_LIBRARY may name another file")
        self.path, self.lib = path, ctypes.CDLL(path)
        self.lib.wb_last_message.restype = self.lib.wb_device_name.restype = ctypes.c_char_p

    def __reduce__(self):  # copy.deepcopy of a model that keeps one, and pickle
        return library, (self.path,)

    @functools.cached_property
    def version(self):
        self.lib.wb_version.restype = ctypes.c_char_p
        return self.lib.wb_version().decode()

    def has(self, name):
        return hasattr(self.lib, name)

    @functools.cached_property
    def device_type(self):
        return "cpu" if self.lib.wb_device_name() == b"CPU execution layer" else "cuda"

    def call(self, name, tensors, shape, *before, after=()):
        """On torch's current stream of the tensors' device; `before` and `after` are arguments around the tensors."""
        device = tensors[0].device
        if device.type != self.device_type:
            raise ValueError(f"{self.path} works on tensors on device {self.device_type}, but these tensors are on "
                             f"{device.type}")
        on_gpu = device.type == "cuda"  # else the CPU execution layer, whose device memory is the host's
        with torch.cuda.device(device if on_gpu else -1):  # -1: as it is
            stream = torch.cuda.current_stream().cuda_stream if on_gpu else None
            pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
            status = getattr(self.lib, name)(*before, *pointers, *after, ctypes.byref(shape), ctypes.c_void_p(stream))
        if status != 0:
            raise Refused(status, self.lib.wb_last_message().decode())

    def workspace(self, name, shape, device, kernel=""):
        """What NAME, or one KERNEL of it ("_key"), wants for this shape, in torch's memory: its address, its size, and
        the tensor to keep until the call has returned."""
        with torch.cuda.device(device if device.type == "cuda" else -1):
            size = getattr(self.lib, name + "_workspace" + kernel)
            size.restype = ctypes.c_size_t
            bytes = size(ctypes.byref(shape))
        # Freed when the caller returns, it goes to nobody but who comes after it on this stream.
        memory = torch.empty(bytes + 256, dtype=torch.uint8, device=device)
        return ctypes.c_void_p((memory.data_ptr() + 255) // 256 * 256), ctypes.c_size_t(bytes), memory


def usual_path():
    beside = os.environ.get("WB_LIBRARY") or os.path.join(os.path.dirname(__file__), "libworkbook.so")
    if os.environ.get("WB_LIBRARY") or os.path.exists(beside):
        return beside
    # asked last: a process that has asked for GPUs can no longer fork
    return f"build/{os.environ.get('BACKEND') or ('cuda' if torch.cuda.is_available() else 'cpu')}/lib/libworkbook.so"


@functools.lru_cache(None)
def library(path=None):
    """The Library of that path; of the usual one."""
    return Library(path or usual_path())


# ------------------------ the operators

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
                  f"takes half a minute", file=sys.stderr, flush=True)
            made = subprocess.run([*command, "-o", path + ".part"], capture_output=True, text=True)
            if made.returncode:
                said = next((x for x in made.stderr.splitlines() if "error" in x), made.stderr.strip())
                raise RuntimeError(said or f"{command[0]} ended with status {made.returncode} without a message")
            os.rename(path + ".part", path)
    return path


def load(default_library):
    """torch.ops.flash_workbook with the operators in it."""
    try:
        path = built()
        torch.ops.load_library(path)
        ctypes.CDLL(path).flash_workbook_default(os.fsencode(default_library))
    except (OSError, RuntimeError, AttributeError) as error:
        raise ImportError("flash_workbook: a C++ compiler (CXX, or c++) builds its operators for this PyTorch; "
                          f"that failed: {error}") from None
    return torch.ops.flash_workbook


operators = load(usual_path())


FUNCTIONS = """flash_forward flash_gqa flash_gqa_backward flash_window flash_sinks flash_sinks_backward flash_hopper
    flash_sink_logits flash_sink_logits_backward flash_decode flash_decode_int8 flash_decode_e4m3 flash_block_mask
    flash_fp8 flash_wide""".split()


def check(path: Optional[str] = None) -> str:
    """What is there, in a few lines: the library, its version and device, and which functions it has."""
    one = library(path)
    has = [name for name in FUNCTIONS if one.has(name)]
    capability = one.lib.wb_device_capability()
    return (f"library     {one.path}, version {one.version}\n"
            f"device      {one.lib.wb_device_name().decode()}, tensors on {one.device_type}, capability {capability}\n"
            f"PyTorch     {torch.__version__}, CUDA {torch.version.cuda}, GPU found: {torch.cuda.is_available()}\n"
            f"functions   {' '.join(has)}\n"
            f"missing     {' '.join(name for name in FUNCTIONS if name not in has) or 'none'}")
