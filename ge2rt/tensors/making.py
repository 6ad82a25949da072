"""Making tensors: from values and arrays, filled ones, copies, other dtypes and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ge2rt.base.dtypes import DType, dtype_of
from ge2rt.base.errors import InvalidTypeError
from ge2rt.device.api import Device
from ge2rt.device.registry import get_device
from ge2rt.tensors import dispatch
from ge2rt.tensors import geometry as geo
from ge2rt.tensors.operators import Operator
from ge2rt.tensors.targets import target
from ge2rt.tensors.tensor import Tensor


def tensor(data: Any, dtype: Any = None, device: str | None = None, *,
           requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor with a copy of ``data``: a number, nested lists, an array of any library, a tensor.

    Floats from Python are f32; arrays keep their dtype. TypeError for what holds no numbers.
    """
    made = on(_host_array(data, dtype), _device(device, data))
    return made.requires_grad_() if requires_grad else made


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor over the array's own memory: a write to one shows in the other.

    A tensor over a read-only array is to read only: ValueError where it is written.
    """
    if not isinstance(array, np.ndarray):
        raise InvalidTypeError("no NumPy array", got=type(array).__name__,
                               next_step="use ge2rt.tensor or ge2rt.asarray")  # fmt: skip
    dtype_of(array.dtype)
    return Tensor(array)


def from_dlpack(source: Any) -> Tensor:
    """A tensor over the memory of what has ``__dlpack__``: Torch, CuPy, JAX, NumPy."""
    from ge2rt.device.pointers import describe

    kind, _ = source.__dlpack_device__()
    if kind == 1:
        return Tensor(np.from_dlpack(source))
    found = describe(source)
    return Tensor(found.keepalive)


def asarray(data: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """As :func:`tensor`, without a copy where ``data`` is a tensor or a NumPy array that fits."""
    if isinstance(data, Tensor):
        made = data if device is None else to(data, device)
        return made if dtype is None else astype(made, dtype)
    fits = isinstance(data, np.ndarray) and (
        dtype is None or dtype_of(data.dtype) == dtype_of(dtype)
    )
    if fits and get_device(device or "cpu").accepts("cpu"):
        return from_numpy(data)
    return tensor(data, dtype, device)


def _host_array(data: Any, dtype: Any) -> np.ndarray[Any, Any]:
    wanted = None if dtype is None else dtype_of(dtype).numpy
    if isinstance(data, Tensor):
        data = data.detach().numpy()
    elif hasattr(data, "__cuda_array_interface__") and hasattr(data, "get"):
        data = data.get()
    try:
        array = np.array(data)
    except ValueError as fault:
        raise InvalidTypeError("the lists are not of one shape", next_step=str(fault)) from None
    if wanted is None and array.dtype == np.float64 and not hasattr(data, "dtype"):
        wanted = np.dtype(np.float32)
    array = np.array(array, order="C") if wanted is None else array.astype(wanted, order="C")
    dtype_of(array.dtype)
    return array


def _device(name: str | None, like: Any = None) -> Device:
    if name is None and isinstance(like, Tensor):
        return like._device
    return get_device(name)


def on(array: np.ndarray[Any, Any], device: Device) -> Tensor:
    """A host array's elements on a device."""
    if device.accepts("cpu"):
        return Tensor(array, device)
    made = Tensor(device.empty(array.shape, dtype_of(array.dtype)), device)
    if array.nbytes:
        device.memory.write(made.data_ptr(), np.ascontiguousarray(array).tobytes())
    return made


# -- filled ---------------------------------------------------------------------------------------
def empty(*shape: Any, dtype: Any = "f32", device: str | None = None) -> Tensor:
    """A tensor of whatever is in memory."""
    extents = geo.ints("shape", shape[0] if len(shape) == 1 else shape)
    if min(extents, default=0) < 0:
        raise geo.refuse("empty", f"a negative extent in {extents}")
    home = get_device(device)
    return Tensor(home.empty(extents, dtype_of(dtype)), home)


def full(shape: Any, value: Any, dtype: Any = None, device: str | None = None, *,
         requires_grad: bool = False) -> Tensor:  # fmt: skip
    """One value everywhere: f32 for a Python float, i64 for an int, bool for a bool."""
    kind = dtype if dtype is not None else _DTYPES.get(type(value), "f32")
    made = empty(shape, dtype=kind, device=device)
    fill_(made, value)
    return made.requires_grad_() if requires_grad else made


_DTYPES: dict[type, str] = {bool: "bool", int: "i64", float: "f32"}


def zeros(*shape: Any, dtype: Any = "f32", device: str | None = None,
          requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of zeros."""
    extents = shape[0] if len(shape) == 1 else shape
    return full(extents, 0, dtype, device, requires_grad=requires_grad)


def ones(*shape: Any, dtype: Any = "f32", device: str | None = None,
         requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of ones."""
    extents = shape[0] if len(shape) == 1 else shape
    return full(extents, 1, dtype, device, requires_grad=requires_grad)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None,
           device: str | None = None) -> Tensor:  # fmt: skip
    """Numbers from ``start`` (0 with one argument) up to ``stop``: i64 for ints, else f32."""
    first, last = (0, start) if stop is None else (start, stop)
    values = np.arange(first, last, step)
    kind = dtype or ("f32" if values.dtype.kind == "f" else "i64")
    return on(values.astype(dtype_of(kind).numpy), get_device(device))


def linspace(start: float, stop: float, num: int, dtype: Any = "f32", device: str | None = None,
             *, endpoint: bool = True) -> Tensor:  # fmt: skip
    """``num`` numbers, evenly spaced."""
    values = np.linspace(start, stop, num, endpoint=endpoint)
    return on(values.astype(dtype_of(dtype).numpy), get_device(device))


def eye(n: int, m: int | None = None, k: int = 0, dtype: Any = "f32",
        device: str | None = None) -> Tensor:  # fmt: skip
    """Ones on a diagonal."""
    return on(np.eye(n, m, k, dtype=dtype_of(dtype).numpy), get_device(device))


# -- copies ---------------------------------------------------------------------------------------
def fill_(x: Tensor, value: Any) -> Tensor:
    """Set all elements, in place."""
    from ge2rt.tensors.inplace import refuse_leaf, write  # late: it needs this module

    refuse_leaf(x, "fill_")
    if isinstance(value, Tensor):
        return write(x, value, "fill_")
    return write(x, tensor(value, x.dtype, x.device), "fill_") if x.size else x


def clone(x: Tensor) -> Tensor:
    """The same elements, row-major, in a storage of their own; gradients flow back."""
    result: Tensor = dispatch.call(_CLONE, (x,), {})
    return result


def contiguous(x: Tensor) -> Tensor:
    """``x`` itself where its elements lie row-major, else a copy."""
    return x if x.is_contiguous() else clone(x)


def astype(x: Tensor, dtype: Any, *, copy: bool = False) -> Tensor:
    """The elements in another dtype; ``x`` itself where it has it, unless ``copy``."""
    kind: DType = dtype_of(dtype)
    if kind == x.dtype:
        return clone(x) if copy else x
    result: Tensor = dispatch.call(_ASTYPE, (x,), {"dtype": kind.numpy})
    return result


def to(x: Tensor, device: Any = None, dtype: Any = None) -> Tensor:
    """On another device, in another dtype; ``x`` itself where nothing changes.

    No gradient crosses devices.
    """
    device, kind = target("Tensor.to", device, dtype)
    made = x if kind is None else astype(x, kind)
    if device is None or get_device(device) is made._device:
        return made
    return on(np.asarray(made.detach().numpy(), order="C"), get_device(device))


def moved(value: Any, device: str) -> Tensor:
    """What a state holds, on ``device`` and without a record: of a tensor no copy where it is."""
    return to(value.detach(), device) if isinstance(value, Tensor) else tensor(value, None, device)


def move_(x: Tensor, device: str | None, dtype: Any = None) -> Tensor:
    """``x`` itself, moved: its memory is another from now on, what shared it keeps the old one.

    For records that need its values this is a change in place.
    """
    made = to(x.detach(), device, dtype)
    if made._device is not x._device or made.dtype != x.dtype:
        version = x.storage().version
        x._array, x._device = made._array, made._device
        x._storage = x._geometry = x._base = x._born = None
        x._quiet = False
        x.storage().version = version + 1
    return x


def _clone(x: Any) -> Any:
    return np.copy(x)


def _astype(x: Any, dtype: Any) -> Any:
    return x.astype(dtype)


def _named(name: str, function: Any, static: tuple[str, ...]) -> Operator:
    import inspect

    return Operator(name, "copy", function, inspect.signature(function), static, name)


_CLONE = _named("clone", _clone, ())
_ASTYPE = _named("astype", _astype, ("dtype",))
