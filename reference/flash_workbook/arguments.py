"""Arguments as people's programs have them, in the forms that the library takes, or an error that names them; and
numbers that are addresses, which are looked at before a kernel follows them."""
import torch
from torch import Tensor

from .library import refuse

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
            raise TypeError(f"{name}: one number is wanted, and it is {type(value).__name__} of several") from None
    if not isinstance(value, (int, float, torch.SymInt, torch.SymFloat)) or (kind is int and isinstance(value, float)):
        raise TypeError(f"{name}={value!r} is {type(value).__name__}, and {kind.__name__} is wanted")
    if kind is int:
        return value if -MOST <= value <= MOST else MOST if value > 0 else -MOST
    try:
        return kind(value)
    except OverflowError:
        raise ValueError(f"{name}={value} is no number of float32") from None


def pair(name, value):
    """window_size: two ints, -1 for all. From a tuple, list, array or tensor of two, each of which may be None."""
    value = (-1, -1) if value is None else value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"{name}={value!r}: two numbers are wanted, of keys to the left and to the right")
    return tuple(-1 if x is None else max(-1, number(name, x, int)) for x in value)


def is_off(value):
    """Whether what is given for an option is None, False or 0."""
    if isinstance(value, Tensor) and value.dim():
        return False
    return value is None or (isinstance(value, (bool, int, float)) or hasattr(value, "item")) and not value


def tensors(function, **given):
    """Each (value, dimensions): a strided tensor of so many, all on one device; or an error. Less than 0: or None."""
    first = None
    for name, (x, dims) in given.items():
        if x is None and dims < 0:
            continue
        if not isinstance(x, Tensor):
            raise TypeError(f"{function}: {name} is {type(x).__name__}, and a tensor is wanted")
        if x.layout != torch.strided or x.is_nested:
            raise TypeError(f"{function}: {name} is sparse or nested, and a dense tensor is wanted")
        if x.dim() != abs(dims):
            raise ValueError(f"{function}: {name} is {list(x.shape)}, and {abs(dims)} dimensions are wanted")
        first = first or (name, x.device)
        if x.device != first[1]:
            raise ValueError(f"{function}: {name} is on {x.device}, and {first[0]} is on {first[1]}")


def integers(name, x, device, *shape):
    """An error unless x is a tensor of int32 or int64 on the device, of a shape whose None is any number."""
    if not isinstance(x, Tensor) or x.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name}: a tensor of int32 or int64 is wanted")
    if x.dim() != len(shape) or any(want not in (None, n) for want, n in zip(shape, x.shape)):
        raise ValueError(f"{name} is {list(x.shape)}, and {['any' if n is None else n for n in shape]} is wanted")
    if x.device != device:
        raise ValueError(f"{name} is on {x.device}, and the other tensors are on {device}")


# ------------------------ numbers that are addresses


def expect(name, x, low, high, where=None):
    """An error that names the first entry that is not in low ... high, of those where it matters. In a GPU's memory
    nothing is looked at: that would wait for it."""
    if x.is_cuda:
        return
    bad = (x < low) | (x > high)
    bad = bad if where is None else bad & where
    if bad.any():
        at = bad.nonzero()[0].tolist()
        raise RuntimeError(f"{name}[{', '.join(map(str, at))}] = {x[tuple(at)].item()}, and {low} to {high} is allowed")


def expect_starts(name, starts, total):
    """The same of cu_seqlens, as a list: none is less than the one before it."""
    for s, (before, start) in enumerate(zip([0, *starts], starts)):
        if not before <= start <= total:
            raise RuntimeError(f"{name}[{s}] = {start}, and {before} to {total} is allowed")
