"""From a call's Python arguments to the packed parameter block, checked against the signature.

Nothing is guessed: what would reach the kernel as other bits than the caller meant is refused.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.device.api import Device
from ge2rt.device.pointers import address_of, describe
from ge2rt.raw.signature import Parameter, Signature

# Scalars and structs that are passed as they are; most calls are answered by the exact type.
_EXACT = frozenset((bool, int, float, np.float32, np.float64, np.int32, np.int64, type(None)))
_PLAIN = (bool, int, float, complex, type(None), bytes, bytearray, memoryview, np.generic)
_C_DATA = (ctypes.Structure, ctypes.Union, ctypes._SimpleCData)
_NO_ARRAYS = (dict, list, tuple, set, frozenset, str)
_RAW_BYTES = ("int8", "uint8", "")  # arrays of these are memory of any type
_FLOATS = {"f32": ("<f", 4), "f64": ("<d", 8)}
_COMPLEX = {8: np.complex64, 16: np.complex128}


@dataclass(frozen=True)
class Placed:
    """An array argument: where its first element lies, and on which device."""

    address: int
    home: str
    dtype: str
    readonly: bool
    source: Any


def look(value: Any, index: int) -> Any:
    """``value`` as it is where it is a scalar or a struct, else the :class:`Placed` of an array.

    What is none of these is kept as it is, too: the packer refuses it, who knows the parameter.
    """
    if type(value) in _EXACT:
        return value
    if isinstance(value, np.ndarray):
        address = value.__array_interface__["data"][0]
        return Placed(address, "cpu", _dtype_name(value.dtype), not value.flags.writeable, value)
    if isinstance(value, _PLAIN + _C_DATA):
        return value
    if _is_number(value):
        return operator.index(value)
    try:
        found = describe(value, f"args[{index}]")
    except InvalidTypeError:
        loose = value if isinstance(value, _NO_ARRAYS) else _complex_array(value)
        if loose is None:
            raise
        return loose
    return Placed(found.address, found.device, found.dtype.numpy_name, found.readonly, value)


@lru_cache(maxsize=256)
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return str(dtype.name)  # NumPy makes the text anew each time


def clear() -> None:
    """Forget the names of dtypes."""
    _dtype_name.cache_clear()


def _is_number(value: Any) -> bool:
    return hasattr(value, "__index__") and not hasattr(value, "shape")


def _complex_array(value: Any) -> Placed | None:
    """Arrays whose dtype no shipped kernel knows (complex, structured): the pointer is enough."""
    if not (hasattr(value, "data_ptr") or hasattr(value, "__cuda_array_interface__")):
        return None
    device = getattr(value, "device", None)
    index = getattr(device, "id", getattr(device, "index", None)) or 0
    home = "cpu" if getattr(device, "type", "cuda") == "cpu" else f"cuda:{index}"
    face = getattr(value, "__cuda_array_interface__", None) if home != "cpu" else None
    address = int(face["data"][0]) if face else address_of(value)
    return Placed(address, home, str(value.dtype).removeprefix("torch."), False, value)


def home_of(values: Sequence[Any]) -> str | None:
    """The device on which the array arguments lie; a GPU before the host, None without arrays."""
    homes = {v.home for v in values if isinstance(v, Placed) and not _by_value(v)}
    return max(homes, key=lambda home: home != "cpu") if homes else None


def _by_value(value: Placed) -> bool:
    """Whether a NumPy array may stand for a struct: then it says nothing of the device."""
    source = value.source
    return isinstance(source, np.ndarray) and source.ndim == 0


class Packer:
    """Packs the arguments of one kernel for one device."""

    def __init__(self, signature: Signature, device: Device) -> None:
        self.signature = signature
        self._device = device
        self._steps = [_step(p) for p in signature.parameters]
        self._pads = _pads(signature)

    def pack(self, values: Sequence[Any]) -> bytes:
        """The parameter block for values that :func:`look` has seen."""
        if len(values) != len(self._steps):
            raise InvalidArgumentError(
                "wrong number of arguments", kernel=self.signature.kernel,
                expected=f"{len(self._steps)}: {self.signature}", got=str(len(values)),
            )  # fmt: skip
        pieces = []
        for parameter, step, pad, value in zip(
            self.signature.parameters, self._steps, self._pads, values, strict=True
        ):
            if pad:
                pieces.append(pad)
            try:
                pieces.append(step(parameter, value, self._device))
            except _Refused as fault:
                raise self._error(parameter, value, fault) from None
        return b"".join(pieces)

    def _error(self, parameter: Parameter, value: Any, fault: _Refused) -> InvalidArgumentError:
        kind = InvalidTypeError if fault.dtype else InvalidArgumentError
        advice = f"{fault.next_step}; " if fault.next_step else ""
        return kind(
            fault.what, kernel=self.signature.kernel, argument=parameter.name,
            expected=fault.expected or str(parameter), got=_shown(value),
            detail="dtype" if fault.dtype else "argument",
            next_step=f"{advice}the kernel is {self.signature}",
        )  # fmt: skip


class _Refused(Exception):
    """Why an argument does not fit its parameter."""

    def __init__(
        self, what: str, *, expected: str = "", next_step: str = "", dtype: bool = True
    ) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.next_step = next_step
        self.dtype = dtype


def _shown(value: Any) -> str:
    if isinstance(value, Placed):
        return f"an array of {value.dtype} on {value.home}"
    if isinstance(value, np.generic):
        return f"numpy.{type(value).__name__}"
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value)} bytes"
    kind = type(value).__name__
    return f"{kind} {value!r}"[:80] if isinstance(value, (bool, int, float, complex)) else kind


def _pads(signature: Signature) -> list[bytes]:
    pads, end = [], 0
    for parameter in signature.parameters:
        pads.append(bytes(parameter.offset - end))
        end = parameter.offset + parameter.nbytes
    return pads


Step = Callable[[Parameter, Any, Device], bytes]


def _step(parameter: Parameter) -> Step:
    if parameter.pointer or parameter.pointer is None:
        return _pack_address
    if parameter.aggregate:
        return _pack_struct
    return _pack_float if parameter.type in _FLOATS else _pack_integer


def _pack_address(parameter: Parameter, value: Any, device: Device) -> bytes:
    """A pointer, or 8 bytes of which nobody knows what they are."""
    if isinstance(value, Placed):
        _check_array(parameter, value, device)
        return value.address.to_bytes(8, "little")
    if value is None:
        return bytes(8)
    if parameter.pointer is None:
        return _pack_integer(parameter, value, device)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not 0 <= value < 2**64:
            raise _Refused("not an address", expected="0 .. 2**64 - 1", dtype=False)
        return int(value).to_bytes(8, "little")
    raise _Refused("a pointer is needed", next_step=_pointer_advice(parameter, value))


def _pointer_advice(parameter: Parameter, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        dtype = f", numpy.{parameter.declared.element}" if parameter.declared.element else ""
        return f"make an array of it, numpy.array(x{dtype}), and keep it for the results"
    return "pass an array, an address as int, or None"


def _check_array(parameter: Parameter, value: Placed, device: Device) -> None:
    if not device.accepts(value.home):
        raise _Refused(
            f"the array lies on another device than {device.name}", dtype=False,
            expected=f"memory of {device.name}", next_step="move it, or give device=",
        )  # fmt: skip
    declared = parameter.declared
    if declared.pointer and value.readonly and not declared.const:
        raise _Refused(
            "the array is read-only and the parameter is not const", dtype=False,
            next_step="pass a writable array, or declare the parameter const",
        )  # fmt: skip
    if not declared.element or declared.element in _RAW_BYTES:
        return
    if value.dtype not in _RAW_BYTES and not _same_bits(declared.element, value.dtype):
        raise _Refused(
            "an array of another dtype", expected=f"{declared.element} for {declared.text!r}",
            next_step="cast it with .astype, or reinterpret its bytes with .view",
        )  # fmt: skip
    size = _BYTES[declared.element]
    if value.address % size:
        raise _Refused(
            "the array is not aligned", expected=f"a multiple of {size} bytes", dtype=False,
            next_step="copy it first",
        )  # fmt: skip


_BYTES = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "bool": 1, "int16": 2, "uint16": 2,
    "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
}  # fmt: skip
# complex and structured arrays reinterpreted as their parts, as cuFFT and the like do
_PARTS = {"complex64": "float32", "complex128": "float64"}


def _same_bits(wanted: str, given: str) -> bool:
    """Whether arrays of ``given`` may be read as ``wanted``: signedness does not matter."""
    given = _PARTS.get(given, given)
    known = given in _BYTES
    return not known or wanted.removeprefix("u") == given.removeprefix("u")


def _pack_float(parameter: Parameter, value: Any, device: Device) -> bytes:
    code, size = _FLOATS[parameter.type]
    value = _scalar(value)
    if isinstance(value, np.generic):
        if value.dtype.kind != "f" or value.dtype.itemsize != size:
            raise _Refused(
                "a scalar of another dtype", expected=f"numpy.float{8 * size} or a Python float",
                next_step=f"cast it: numpy.float{8 * size}(x), or float(x)",
            )  # fmt: skip
        return _bits(value)
    if isinstance(value, _C_DATA):
        return _c_bytes(value, size)
    if not isinstance(value, (int, float)):
        raise _Refused("a number is needed")
    try:
        return struct.pack(code, value)
    except OverflowError:
        raise _Refused("out of range", dtype=False) from None


def _pack_integer(parameter: Parameter, value: Any, device: Device) -> bytes:
    size = parameter.nbytes
    value = _scalar(value)
    if isinstance(value, np.generic):
        if value.dtype.kind not in "iub" or value.dtype.itemsize != size:
            raise _Refused(
                "a scalar of another dtype", expected=f"numpy.int{8 * size} or a Python int",
                next_step=f"cast it: numpy.int{8 * size}(x), or int(x)",
            )  # fmt: skip
        return _bits(value)
    if isinstance(value, _C_DATA):
        return _c_bytes(value, size)
    if not isinstance(value, int):
        raise _Refused("an integer is needed")
    low, high = _int_range(parameter)
    if not low <= value <= high:
        raise _Refused("out of range", expected=f"{low} .. {high}", dtype=False)
    mask: int = 2 ** (8 * size) - 1
    return (int(value) & mask).to_bytes(size, "little")


def _int_range(parameter: Parameter) -> tuple[int, int]:
    """PTX does not tell signs: where the text does not either, both ranges will do."""
    bits, element = 8 * parameter.nbytes, parameter.declared.element
    low = 0 if element.startswith(("u", "bool")) else -(2 ** (bits - 1))
    high = 2 ** (bits - 1) if element.startswith("int") else 2**bits
    return low, 1 if element == "bool" else high - 1


def _pack_struct(parameter: Parameter, value: Any, device: Device) -> bytes:
    size = parameter.nbytes
    if isinstance(value, Placed) and isinstance(value.source, np.ndarray):
        data = value.source.tobytes() if value.source.nbytes == size else b""
    elif isinstance(value, (bytes, bytearray, memoryview, *_C_DATA)):
        data = bytes(value)
    elif isinstance(value, np.generic):
        data = _bits(value)
    elif isinstance(value, complex) and size in _COMPLEX:
        data = _bits(_COMPLEX[size](value))
    else:
        raise _Refused(
            "a struct is passed by value here", expected=f"{size} bytes: {parameter}",
            next_step=_struct_advice(parameter),
        )  # fmt: skip
    if len(data) != size:
        raise _Refused(
            "a struct of another size", expected=f"{size} bytes: {parameter}",
            next_step=_struct_advice(parameter),
        )  # fmt: skip
    return data


def _struct_advice(parameter: Parameter) -> str:
    element = parameter.declared.element
    if element in ("float16", "bfloat16"):
        return f"pass a scalar of dtype {element}"
    return "pass bytes, a numpy.void or 0-d array of a structured dtype, or a ctypes.Structure"


def _scalar(value: Any) -> Any:
    """A 0-d NumPy array as its scalar; any other array is refused."""
    if not isinstance(value, Placed):
        return value
    if isinstance(value.source, np.ndarray) and value.source.ndim == 0:
        return value.source[()]
    raise _Refused("a scalar is needed, not an array")


def _bits(value: np.generic) -> bytes:
    data: bytes = value.tobytes()
    return data


def _c_bytes(value: Any, size: int) -> bytes:
    if ctypes.sizeof(value) != size:
        raise _Refused("a C value of another size", expected=f"{size} bytes")
    return bytes(value)


def pack_unchecked(values: Sequence[Any]) -> bytes:
    """The block for a kernel without a known signature (a cubin): CuPy's sizes, aligned to them."""
    block = bytearray()
    for value in values:
        data = _natural(value)
        align = min(len(data), 8) if len(data) in (1, 2, 4, 8) else 8
        block += bytes(-len(block) % align) + data
    return bytes(block)


def _natural(value: Any) -> bytes:
    if isinstance(value, Placed):
        return value.address.to_bytes(8, "little")
    if isinstance(value, np.generic):
        return _bits(value)
    if isinstance(value, (bytes, bytearray, memoryview, *_C_DATA)):
        return bytes(value)
    if isinstance(value, complex):
        return _bits(np.complex128(value))
    if isinstance(value, bool):
        return bytes([value])
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, _NO_ARRAYS):
        raise InvalidTypeError(
            "not an argument for a kernel", got=type(value).__name__,
            next_step="pass arrays, numbers, and structs as bytes or ctypes structures",
        )  # fmt: skip
    return (int(value or 0) & (2**64 - 1)).to_bytes(8, "little")
