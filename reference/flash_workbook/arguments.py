"""Arguments as people's programs have them, in the forms that the library takes, or an error that names them; and
numbers that are addresses, which are looked at before a kernel follows them."""
import ctypes, functools
from typing import Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .library import DecodeShape, library, operator, refuse

MOST = 2**31 - 1


def number(name, value, kind):
    """An int, float or bool: from Python's, NumPy's, or a tensor of one element. What is beyond an int of 32 bits is
    its end."""
    if isinstance(value, Tensor) and value.requires_grad and torch.is_grad_enabled():
        refuse(f"{name} has no gradient: pass {name}.detach()")
    if type(value) is not kind and hasattr(value, "item"):
        try:
            value = value.item()
        except (RuntimeError, ValueError):
            raise TypeError(f"{name}: expected one number, got a {type(value).__name__} with several") from None
    if not isinstance(value, (int, float, torch.SymInt, torch.SymFloat)) or (kind is int and isinstance(value, float)):
        raise TypeError(f"{name}={value!r} is {type(value).__name__}, expected {kind.__name__}")
    if kind is int:
        return value if -MOST <= value <= MOST else MOST if value > 0 else -MOST
    try:
        return kind(value)
    except OverflowError:
        raise ValueError(f"{name}={value} does not fit in float32") from None


def scale_of(name, value, D):
    """1 / sqrt(D) unless given."""
    if not 0 < (scale := D**-0.5 if value is None else number(name, value, float)) < float("inf"):
        raise ValueError(f"{name} = {scale}: must be positive and finite")
    return scale


def pair(name, value):
    """window_size: two ints, MOST for all. From a tuple, list, array or tensor of two. None, or a number below 0, is
    all; but where one is None, as flash-attn 4 has it, a number below 0 is one."""
    meta = getattr(value, "is_meta", False)
    value = (-1, -1) if value is None else value.tolist() if hasattr(value, "tolist") and not meta else value
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"{name}={value!r}: expected two numbers, the keys to the left and to the right")
    least = -MOST if None in value else 0
    value = [MOST if x is None else number(name, x, int) for x in value]
    return tuple(MOST if x < least else x for x in value)


def is_off(value):
    """Whether what is given for an option is None, False or 0."""
    if isinstance(value, Tensor) and value.dim():
        return False
    return value is None or (isinstance(value, (bool, int, float)) or hasattr(value, "item")) and not value


def tensors(function, **given):
    """Each (value, "B Hq N D"), or (value, "B Hq N D", dtypes): a strided tensor of so many dimensions, a letter the
    same number everywhere, all on one device; or an error that says which. "?" before the letters: or None. What
    kernels read goes through here."""
    first, known = None, {}
    for name, (x, letters, *dtypes) in given.items():
        if x is None and letters[0] == "?":
            continue
        letters = letters.strip("?").split()
        if not isinstance(x, Tensor):
            raise TypeError(f"{function}: {name} is {type(x).__name__}, expected a tensor")
        if x.layout != torch.strided or x.is_nested:
            raise TypeError(f"{function}: {name} is sparse or nested, expected a dense tensor")
        if x.dim() != len(letters):
            raise ValueError(f"{function}: {name} is {list(x.shape)}, expected {len(letters)} dimensions")
        if dtypes and x.dtype not in dtypes[0]:
            wanted = " or ".join(str(of).removeprefix("torch.") for of in dtypes[0])
            half = f": pass {name}.bfloat16(); kernels do not support float16" if x.dtype == torch.float16 else ""
            raise TypeError(f"{function}: {name} is {str(x.dtype).removeprefix('torch.')}, expected {wanted}{half}")
        if not torch.compiler.is_compiling():
            differentiable(function, x)
        first = first or (name, x.device)
        if x.device != first[1]:
            raise ValueError(f"{function}: {name} is on {x.device}, but {first[0]} is on {first[1]}")
        for letter, n in zip(letters, x.shape):
            other, m = known.setdefault(letter, (name, n))
            if m != n:
                raise ValueError(f"{function}: {name} is {list(x.shape)}, {other} is {list(given[other][0].shape)}, "
                                 f"but {letter} of [{', '.join(letters)}] must be equal")


def differentiable(function, x):
    """Refuses what PyTorch would answer with a tangent of 0, or in words about its C++."""
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        if torch._C._functorch.is_gradtrackingtensor(x):
            refuse(f"{function} does not support torch.func.grad, vjp or jvp: use backward() or torch.autograd.grad")
        x = torch._C._functorch.get_unwrapped(x)
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None:
        refuse(f"{function} has no forward-mode derivatives (dual numbers, jvp)")


def autocast(*tensors):
    """float32 as what torch.autocast asks for, where it is on."""
    kind = next(x.device.type for x in tensors if isinstance(x, Tensor))
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return tensors
    to = torch.get_autocast_dtype(kind)
    return [x.to(to) if isinstance(x, Tensor) and x.dtype == torch.float32 else x for x in tensors]


def starts(name, cu, rows):
    """cu_seqlens as Python's list: from 0 or more, never falling, to `rows` at most; or an error with the entry."""
    cu = cu.tolist()
    for s, (before, start) in enumerate(zip([0, *cu], cu)):
        if not before <= start <= rows:
            raise RuntimeError(f"{name}[{s}] = {start}, but must be between {before} and {rows}")
    return cu


def integers(name, x, device, *shape):
    """An error unless x is a tensor of int32 or int64 on the device, of a shape whose None is any number."""
    if not isinstance(x, Tensor) or x.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name}: expected a tensor of int32 or int64")
    if x.dim() != len(shape) or any(want not in (None, n) for want, n in zip(shape, x.shape)):
        raise ValueError(f"{name} is {list(x.shape)}, expected {['any' if n is None else n for n in shape]}")
    if name.startswith("cu_") and not len(x):
        raise ValueError(f"{name} is empty, expected the start of each sequence and the end of the last one")
    if x.device != device:
        raise ValueError(f"{name} is on {x.device}, but the other tensors are on {device}")


# ------------------------ numbers that are addresses

# Of each device: a word in which kernels tell of such numbers. They are brought into range there; on a GPU who waited
# for the word would wait for the GPU, so that the next call raises.
@functools.lru_cache(None)
def told(device):
    return torch.zeros(1, dtype=torch.int64, device="cpu", pin_memory=device.type == "cuda")


def raise_what_was_told(device):
    if bits := told(device).item():
        told(device).zero_()
        value, sequence, which = bits >> 32, bits >> 16 & 65535, bits & 65535
        name = {1: f"cache_seqlens[{sequence}]", 2: f"cache_batch_idx[{sequence}]"}.get(
            which, f"block_table[{sequence}, {which - 3}]")
        when = "; an earlier call passed it and used the nearest value in range" if device.type == "cuda" else ""
        has = ": it exceeds the cache or block_table" if which == 1 else ""
        raise RuntimeError(f"{name} = {value} is out of range{has}{when}")


def int32(x):
    """As int32; what that cannot hold becomes what is out of range as well."""
    return (x if x.dtype == torch.int32 else x.clamp(-1, MOST).to(torch.int32)).contiguous()


def in_range_now(table: Tensor, lengths: Tensor, rows: Optional[Tensor], new: int, page_size: int,
                 pages: int) -> Tuple[Tensor, Tensor]:
    """wb_check_indices: table and lengths + new of each sequence, int32, that can be followed."""
    B, columns = len(lengths), table.shape[1]
    given = [int32(x) for x in (table, lengths)]
    outputs = [given[0].new_empty(B, columns), given[1].new_empty(B)]
    if not B or not columns:
        return outputs[0], outputs[1].copy_(given[1] + new)
    rows = None if rows is None else int32(rows)
    more = ctypes.c_void_p(None if rows is None else rows.data_ptr()), len(table), new
    library().call("wb_check_indices", [*outputs, *given, told(table.device)],
                   DecodeShape(B, 1, 1, 1, 64, 1, page_size, pages, columns), after=more)
    return tuple(outputs)


in_range = operator("in_range")(in_range_now)


@in_range.register_fake
def like_in_range(table, lengths, *_):
    return (table.new_empty(len(lengths), table.shape[1], dtype=torch.int32),
            lengths.new_empty(len(lengths), dtype=torch.int32))


def told_in_range(table, *rest):
    """in_range, and where somebody can be told of it an error."""
    if torch.compiler.is_compiling():
        return in_range(table, *rest)
    raise_what_was_told(table.device)
    found = in_range_now(table, *rest)
    if table.device.type == "cpu":
        raise_what_was_told(table.device)
    return found
