"""Where an argument lies: address, shape, strides, dtype and device of arrays of any library.

Nothing is imported for this: Torch, CuPy and the rest are known by what their objects offer.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DType, dtype_of
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.shapes import contiguous_strides
from ge2rt.device.array import DeviceArray

_DLPACK_CPU = (1, 3)  # kDLCPU, kDLCUDAHost
_MOST_WRAPPERS = 8
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


@dataclass(frozen=True)
class Operand:
    """An array as kernels see it. ``strides`` are in elements and may be negative.

    ``source`` is the object that was described, ``keepalive`` what holds the memory. ``device`` is
    ``"cpu"``, ``"cuda:N"`` or that of a device from outside.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    device: str
    source: Any
    keepalive: Any
    readonly: bool = False

    def copy(self) -> Operand:
        """The same values, contiguous, in fresh memory of the same device."""
        if self.device == "cpu":
            return describe(np.array(_as_numpy(self), order="C", copy=True))
        clone = getattr(self.keepalive, "clone", None) or self.keepalive.copy
        return describe(clone())


def describe(obj: Any, argument: str = "") -> Operand:
    """What ``obj`` is to a kernel.

    NumPy arrays and scalars, Torch tensors, ``__cuda_array_interface__`` (CuPy, Numba...), anything
    with ``__array_interface__`` or DLPack, and wrappers that hold one of these in ``.t``. Raises
    :class:`InvalidTypeError` for other types, and for object, complex, string or big-endian data.
    """
    try:
        found = _describe(obj)
    except InvalidTypeError as fault:
        raise fault.about(argument=argument) from None
    if found is None:
        raise InvalidTypeError(
            "not an array that kernels can use", argument=argument, got=type(obj).__name__,
            expected="NumPy, CuPy or Torch, or an object with DLPack or __cuda_array_interface__",
            next_step="convert it with numpy.asarray first",
        )  # fmt: skip
    return found


def address_of(obj: Any) -> int:
    """The device pointer that ``obj`` stands for; None is 0.

    An int is taken as it is; an array gives the address of its first element; else ``.ptr``,
    ``.device_ptr``, or a wrapped object in ``.t``. InvalidTypeError for anything else.
    """
    if obj is None:
        return 0
    if isinstance(obj, (int, np.integer)) and not isinstance(obj, bool):
        return int(obj)
    if isinstance(obj, np.ndarray):
        return int(obj.__array_interface__["data"][0])
    for name in ("data_ptr", "ptr", "device_ptr"):
        value = getattr(obj, name, None)
        if value is not None:
            return int(value() if callable(value) else value)
    inner = getattr(obj, "t", None)
    if inner is not None and inner is not obj:
        return address_of(inner)
    return describe(obj).address


def _describe(obj: Any, depth: int = 0) -> Operand | None:
    masked = sys.modules.get("numpy.ma")  # 7 ms to import, and only it makes masked arrays
    if masked is not None and isinstance(obj, masked.MaskedArray):
        raise InvalidTypeError("masked arrays are not supported", next_step="fill the mask first")
    if isinstance(obj, (np.ndarray, np.generic)):
        return _from_numpy(np.asarray(obj), obj)
    if isinstance(obj, DeviceArray):
        return _from_device(obj)
    if hasattr(obj, "data_ptr") and hasattr(obj, "stride"):
        return _from_torch(obj)
    cuda = getattr(obj, "__cuda_array_interface__", None)
    if cuda is not None:
        return _from_interface(cuda, obj, f"cuda:{_device_index(obj)}")
    host = getattr(obj, "__array_interface__", None)
    if host is not None:
        return _from_interface(host, obj, "cpu")
    if hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__"):
        return _from_dlpack(obj)
    inner = getattr(obj, "t", None)
    if inner is None or callable(inner) or depth > _MOST_WRAPPERS:
        return None
    return _describe(inner, depth + 1)


def _from_numpy(array: np.ndarray[Any, Any], source: Any) -> Operand:
    dtype = dtype_of(array.dtype)
    return Operand(
        address=int(array.__array_interface__["data"][0]),
        shape=array.shape,
        strides=_in_elements(array.strides, array.shape, dtype),
        dtype=dtype, device="cpu", source=source, keepalive=array,
        readonly=not array.flags.writeable,
    )  # fmt: skip


def _from_device(array: DeviceArray) -> Operand:
    dtype = dtype_of(array.dtype)
    return Operand(
        address=array.address, shape=array.shape,
        strides=_in_elements(array.strides, array.shape, dtype),
        dtype=dtype, device=array.device.name, source=array, keepalive=array,
    )  # fmt: skip


def _from_torch(tensor: Any) -> Operand:
    _refuse_lazy_torch(tensor)
    kind = tensor.device.type
    if kind not in ("cpu", "cuda"):
        raise InvalidTypeError(
            "tensor lies on a device that is not supported", expected="cpu or cuda", got=kind,
            detail="device",
        )  # fmt: skip
    return Operand(
        address=int(tensor.data_ptr()), shape=tuple(tensor.shape), strides=tuple(tensor.stride()),
        dtype=dtype_of(tensor.dtype),
        device="cpu" if kind == "cpu" else f"cuda:{tensor.device.index or 0}",
        source=tensor, keepalive=tensor,
    )  # fmt: skip


def _refuse_lazy_torch(tensor: Any) -> None:
    """What only the library would apply when reading: conjugation, negation, sparse layouts."""
    lazy = [name for name in ("is_conj", "is_neg") if getattr(tensor, name, bool)()]
    layout = str(getattr(tensor, "layout", "torch.strided"))
    if lazy or layout != "torch.strided":
        raise InvalidTypeError(
            "tensor's memory does not hold its values as they are", got=layout, detail="layout",
            next_step="call .resolve_conj().resolve_neg(), or .to_dense(), first",
        )  # fmt: skip


def _from_interface(interface: dict[str, Any], source: Any, device: str) -> Operand:
    """NumPy's array interface, or Numba's CUDA array interface (both version 3)."""
    try:
        mask, typestr = interface.get("mask"), interface["typestr"]
        shape = tuple(int(extent) for extent in interface["shape"])
        strides = interface.get("strides")
        address, readonly = interface["data"]
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        raise InvalidTypeError(
            "the array interface cannot be read", expected="typestr, shape, data and strides",
            got=f"{type(fault).__name__}: {fault}",
        ) from None  # fmt: skip
    if mask is not None:
        raise InvalidTypeError("masked arrays are not supported", next_step="fill the mask first")
    dtype = dtype_of(np.dtype(typestr))
    return Operand(
        address=int(address or 0), shape=shape,
        strides=contiguous_strides(shape) if strides is None
        else _in_elements(strides, shape, dtype),
        dtype=dtype, device=device, source=source, keepalive=source, readonly=bool(readonly),
    )  # fmt: skip


def _from_dlpack(obj: Any) -> Operand:
    kind, index = obj.__dlpack_device__()
    if int(kind) in _DLPACK_CPU:
        try:
            array = np.from_dlpack(obj)
        except (BufferError, RuntimeError, TypeError) as fault:
            raise InvalidTypeError(
                f"DLPack import failed: {fault}", got=type(obj).__name__
            ) from None
        return _from_numpy(array, obj)
    cupy = sys.modules.get("cupy")
    if int(kind) in _DLPACK_CUDA and cupy is not None:
        array = cupy.from_dlpack(obj)
        return _from_interface(array.__cuda_array_interface__, array, f"cuda:{int(index)}")
    raise InvalidTypeError(
        "array lies on a device that is not supported", got=f"DLPack device {int(kind)}",
        expected="cpu or cuda", detail="device",
    )  # fmt: skip


def _device_index(obj: Any) -> int:
    device = getattr(obj, "device", None)
    index = getattr(device, "id", getattr(device, "index", None))
    return index if isinstance(index, int) else 0


def _in_elements(strides: Sequence[int], shape: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    """Byte strides as elements; those that never matter may be anything."""
    empty = math.prod(shape) == 0
    result = []
    for stride, extent in zip(strides, shape, strict=True):
        if stride % dtype.itemsize and extent > 1 and not empty:
            raise InvalidArgumentError(
                "stride is not a whole number of elements", got=f"{stride} bytes of {dtype}",
                detail="stride", next_step="copy the array first",
            )  # fmt: skip
        result.append(stride // dtype.itemsize)
    return tuple(result)


def _as_numpy(operand: Operand) -> np.ndarray[Any, Any]:
    """The host memory of an operand as an array."""
    if isinstance(operand.keepalive, np.ndarray):
        return operand.keepalive

    face = _Face(
        {
            "version": 3, "shape": operand.shape, "data": (operand.address, operand.readonly),
            "typestr": f"|V{operand.dtype.itemsize}",
            "strides": tuple(s * operand.dtype.itemsize for s in operand.strides),
        }
    )  # fmt: skip
    return np.asarray(face).view(operand.dtype.numpy)


@dataclass
class _Face:
    __array_interface__: dict[str, Any]


def torch_empty(shape: Sequence[int], dtype: DType, like: Any) -> Any:
    """A fresh Torch tensor beside ``like``, or None where that is not one."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(like, torch.Tensor):
        return None
    return torch.empty(tuple(shape), dtype=getattr(torch, dtype.numpy_name), device=like.device)
