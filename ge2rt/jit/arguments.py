"""The arguments of a call: bound to names, taken apart, and the key of their specialisation."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import sys
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.shapes import canonical_strides, is_contiguous
from ge2rt.base.text import show
from ge2rt.device.api import Device
from ge2rt.device.array import DeviceArray
from ge2rt.device.pointers import address_of
from ge2rt.jit.faults import tensor_outside
from ge2rt.jit.scope import where
from ge2rt.jit.traced import Traced
from ge2rt.jit.trees import Structure, flatten

_STATIC = (bool, str, bytes, type(None), np.dtype, enum.Enum, type, types.FunctionType,
           types.BuiltinFunctionType, np.ufunc, type(Ellipsis), range, slice)  # fmt: skip
_VALUES = (bool, int, float, complex, str, bytes, range, slice)  # equal ones are alike


@dataclass(frozen=True)
class ArrayKey:
    """What the compiled code knows of an array. ``strides`` are in elements, None if row-major."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    home: str  # "cpu" or "cuda:N"

    def __str__(self) -> str:
        strides = "" if self.strides is None else f" strides {self.strides}"
        home = "" if self.home == "cpu" else f" on {self.home}"
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{strides}{home}"

    @property
    def on_host(self) -> bool:
        """Whether it lies in host memory."""
        return self.home == "cpu"


@dataclass(frozen=True)
class ScalarKey(ArrayKey):
    """A NumPy scalar: an array without axes that nothing changes."""


@dataclass(frozen=True)
class NumberKey:
    """A Python number whose value is passed on each call; it is weak in promotion."""

    kind: type

    def __str__(self) -> str:
        return self.kind.__name__


@dataclass(frozen=True)
class StaticKey:
    """A value that the code was compiled for; equal to those that it serves as well."""

    kind: type
    value: Hashable = field(compare=False)  # kept, so that no other object gets its id
    essence: Hashable

    def __str__(self) -> str:
        return told(self.value)


LeafKey = ArrayKey | NumberKey | StaticKey


@dataclass(frozen=True)
class Call:
    """A call's leaves with their names, and the keys of what they are."""

    leaves: list[Any]
    names: list[str]
    structure: Structure
    keys: tuple[LeafKey, ...]

    @property
    def key(self) -> tuple[Hashable, ...]:
        """Equal for calls that one compiled form may serve."""
        return (self.structure, self.keys)

    @property
    def family(self) -> tuple[Hashable, ...]:
        """Equal for calls that differ in extents and in compiled-in integers only."""
        return (self.structure, tuple(_without_extents(key) for key in self.keys))

    @property
    def traced(self) -> bool:
        """Whether it comes from inside another trace."""
        return any(isinstance(leaf, Traced) for leaf in self.leaves)

    def with_static(self, places: frozenset[int]) -> Call:
        """The same call where these Python numbers are compiled in."""
        keys = tuple(
            static_key(leaf) if place in places else key
            for place, (leaf, key) in enumerate(zip(self.leaves, self.keys, strict=True))
        )
        return Call(self.leaves, self.names, self.structure, keys)


def _without_extents(key: LeafKey) -> Hashable:
    if isinstance(key, ArrayKey):
        return (len(key.shape), key.strides is None, key.dtype, key.home)
    return int if isinstance(key, StaticKey) and key.kind is int else key


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Binder:
    """Binds calls to a function's parameters; ``static`` names those that are compiled in.

    With ``apart`` what was given by name is handed on by name, else by place.
    """

    def __init__(
        self, function: Callable[..., Any], static: Sequence[str], *, apart: bool = False
    ) -> None:
        self.static = frozenset(static)
        self.apart = apart
        self.name = str(getattr(function, "__name__", type(function).__name__))
        try:
            self.signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            self.signature = None
        self._check(static)

    def _check(self, static: Sequence[str]) -> None:
        known = self.signature.parameters if self.signature else {}
        several = any(p.kind is p.VAR_KEYWORD for p in known.values())
        for name in static:
            if name not in known and not several:
                raise InvalidArgumentError(
                    f"static names {name!r}, which is no parameter", got=show(name),
                    expected=", ".join(known), next_step="name parameters of the function",
                )  # fmt: skip

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """The call taken apart; TypeError for an argument that is neither data nor static."""
        leaves: list[Any] = []
        names: list[str] = []
        structures, keys = [], []
        for name, value in self._named(args, kwargs):
            if name.removeprefix("**") in self.static:
                parts: tuple[list[Any], Any, list[str]] = [value], None, [name]
            else:
                parts = flatten(value, name)
            leaves += parts[0]
            names += parts[2]
            structures.append((name, parts[1]))
            keys += [
                leaf_key(leaf, path, static=parts[1] is None)
                for leaf, path in zip(parts[0], parts[2], strict=True)
            ]
        return Call(leaves, names, tuple(structures), tuple(keys))  # type: ignore[arg-type]

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        if self.signature is None:
            return [("*args", args), ("**kwargs", dict(kwargs))]
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as fault:
            raise InvalidTypeError(
                f"{self.name}: {fault}", next_step=f"the function is {self.name}{self.signature}"
            ) from None
        named = []
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                named += [(f"**{key}", item) if key not in self.static else (key, item)
                          for key, item in value.items()]  # fmt: skip
            elif self.apart and name in kwargs:
                named.append((f"**{name}", value))
            else:
                named.append((name, value))
        return named

    def invoke(self, function: Callable[..., Any], values: list[tuple[str, Any]]) -> Any:
        """Call ``function`` with values in the order that :meth:`bind` named them."""
        named = dict(values)
        if self.signature is None:
            return function(*named["*args"], **named["**kwargs"])
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        parameters = self.signature.parameters
        in_order = list(parameters)
        for place, (name, value) in enumerate(values):
            plain = name.removeprefix("**")
            kind = parameters[name].kind if name in parameters else None
            if kind is inspect.Parameter.VAR_POSITIONAL:
                positional += value
            elif kind in _BY_PLACE and in_order[place] == name:
                positional.append(value)  # behind one that was left out, the place would be its own
            else:
                keywords[plain] = value
        return function(*positional, **keywords)


def leaf_key(leaf: Any, name: str, *, static: bool) -> LeafKey:
    """What a leaf is to the compiled code."""
    if static:
        return static_key(leaf, name)
    if isinstance(leaf, np.ndarray) or _lies_elsewhere(leaf):
        return array_key(leaf, name)
    if isinstance(leaf, np.generic):
        return ScalarKey((), None, _dtype_name(leaf, name), "cpu")
    if isinstance(leaf, Traced):
        return NumberKey(Traced)  # of a call that is inlined
    if isinstance(leaf, _STATIC):
        return static_key(leaf, name)
    if isinstance(leaf, (int, float)):
        return NumberKey(int if isinstance(leaf, int) else float)
    raise InvalidTypeError(
        "argument is neither an array, a number, nor a container of these", argument=name,
        got=type(leaf).__name__, expected="NumPy or CuPy arrays, numbers, tuples, lists, dicts",
        next_step=f"if it is no data, name it in static=: static=({name!r},)",
    )  # fmt: skip


def static_key(value: Any, name: str = "") -> StaticKey:
    """The key of a value that is compiled in; TypeError where it cannot be compared."""
    try:
        hash(essence(value) if isinstance(value, slice) else value)
    except TypeError:
        raise InvalidTypeError(
            "a static argument must be hashable", argument=name, got=type(value).__name__,
            next_step="use a tuple instead of a list, or pass it as data",
        ) from None  # fmt: skip
    return StaticKey(type(value), value, essence(value))


def essence(value: Any) -> Hashable:
    """What is equal for values that compute the same, and for no others.

    Plain values are told apart where Python takes them for equal: 1, 1.0 and True, 0.0 and -0.0.
    Other objects may be equal and yet hold different things: each is its own.
    """
    if isinstance(value, (tuple, frozenset)):
        parts = map(essence, value)
        return type(value), tuple(parts) if isinstance(value, tuple) else frozenset(parts)
    if _is_record(value):
        fields = dataclasses.fields(value)
        return type(value), tuple(essence(getattr(value, each.name)) for each in fields)
    if isinstance(value, slice):  # has no hash before Python 3.12
        return slice, essence(value.start), essence(value.stop), essence(value.step)
    if type(value) in _VALUES or isinstance(value, np.generic):
        return type(value), value, repr(value)
    if isinstance(value, (np.dtype, enum.Enum)):
        return type(value), value
    return type(value), id(value)


def _is_record(value: Any) -> bool:
    """Whether it is an object of a frozen dataclass."""
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def told(value: Any) -> str:
    """A static value in messages."""
    if isinstance(value, (tuple, frozenset)):
        parts = [told(each) for each in value]
        inside = ", ".join(parts if isinstance(value, tuple) else sorted(parts))
        return f"{type(value).__name__}({inside})"
    return repr(value) if isinstance(value, (int, float, str, bool)) else type(value).__name__


def array_key(array: Any, name: str = "") -> ArrayKey:
    """The key of an array; TypeError for dtypes without kernels, masked arrays and matrices."""
    dtype = _dtype_name(array, name)
    if isinstance(array, np.ndarray):
        home = "cpu"
        if type(array) is not np.ndarray and type(array) is not np.memmap:
            raise InvalidTypeError(
                "subclasses of ndarray have rules of their own", argument=name,
                got=type(array).__name__, next_step="pass numpy.asarray(x)",
            )  # fmt: skip
    elif isinstance(array, DeviceArray):
        home = array.device.name
    elif isinstance(array.device, str):
        raise tensor_outside(array, where(), argument=name)
    else:
        home = f"cuda:{array.device.id}"
    shape, steps = tuple(array.shape), array.strides
    item = array.dtype.itemsize
    odd = any(step % item for step, extent in zip(steps, shape, strict=True) if extent > 1)
    if odd or (home == "cpu" and not array.flags.aligned):
        return ArrayKey(shape, None, dtype, home)  # such an array is copied, see `settled`
    elements = canonical_strides(shape, [step // item for step in steps])
    plain = is_contiguous(shape, elements)
    return ArrayKey(shape, None if plain else elements, dtype, home)


def settled(leaf: Any, key: ArrayKey) -> Any:
    """The array that is handed to the kernels: a copy where memory is laid out in odd bytes."""
    if key.home != "cpu":
        return leaf
    array = np.asarray(leaf)
    odd = any(
        step % array.itemsize
        for step, extent in zip(array.strides, array.shape, strict=True) if extent > 1
    )  # fmt: skip
    return np.array(array, order="C") if odd or not array.flags.aligned else array


def overlap(first: Any, second: Any) -> bool:
    """Whether two arrays share memory, or may where that is hard to tell."""
    if not isinstance(first, np.ndarray) or not isinstance(second, np.ndarray):
        return first is second
    try:
        return np.shares_memory(first, second, max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def carried(array: Any, device: Device | None) -> Any:
    """A host array copied to a device whose kernels cannot read host memory."""
    if device is None or type(array) is not np.ndarray or device.accepts("cpu"):
        return array
    made = device.empty(array.shape, dtype_of(array.dtype))
    if array.nbytes:
        device.memory.write(address_of(made), array.tobytes())
    return made


def _dtype_name(array: Any, name: str) -> str:
    try:
        found = dtype_of(array.dtype)
    except InvalidTypeError as fault:
        if array.dtype.kind == "c":
            raise InvalidTypeError(
                "complex arrays are not covered by ge2rt.jit", argument=name, got=str(array.dtype),
                next_step="pass the real and the imaginary part as two arrays",
            ) from None  # fmt: skip
        raise fault.about(argument=name) from None
    if found.kind == "storage":
        raise InvalidTypeError(
            f"{found.name} has no arithmetic", argument=name,
            next_step="cast the array first, e.g. x.astype(numpy.float32)",
        )  # fmt: skip
    return found.name


def _lies_elsewhere(leaf: Any) -> bool:
    """Whether it is an array of a device: CuPy's, or that of a device without a library."""
    cupy = sys.modules.get("cupy")
    return isinstance(leaf, DeviceArray) or (cupy is not None and isinstance(leaf, cupy.ndarray))
