"""Values to nodes: NEP 50 promotion (Python numbers weak, NumPy's not), casts, broadcasts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ge2rt.base.dtypes import DTYPES, dtype_of
from ge2rt.base.errors import Ge2rtError, InvalidTypeError
from ge2rt.base.shapes import broadcast_shapes
from ge2rt.ir.graph import Node
from ge2rt.jit.faults import RangeError
from ge2rt.jit.intervals import EXACT, hold
from ge2rt.jit.scope import current, emit, where
from ge2rt.jit.table import refuse_type
from ge2rt.jit.traced import Traced, shared

Kind: TypeAlias = "np.dtype[Any] | type"  # a dtype, or int or float for a weak number

_WEAK = {int: np.dtype(np.int64), float: np.dtype(np.float64)}
_OF_BITS = frozenset({
    "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift",
})  # fmt: skip
_BITS_HINT = "it works on the bits of integers and bools: cast, e.g. x.astype(numpy.int64)"
_CASTING_HINT = "cast explicitly, e.g. x.astype(numpy.float32)"


def kind_of(value: Any) -> Kind:
    """What promotion sees of a value; TypeError for what is neither array nor number."""
    if isinstance(value, Traced):
        return value.weak if value.weak in (int, float) else value.dtype
    if isinstance(value, bool):
        return np.dtype(np.bool_)
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return int if isinstance(value, int) else float
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        if isinstance(value, (list, tuple)) and not isinstance(value, str):
            return kind_of(as_array(value))
        if isinstance(value, complex):
            dtype = np.dtype(complex)
        else:
            raise refuse_type(value)
    return known(dtype)


def known(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype for a spelling of one that kernels have; TypeError for others."""
    try:
        return dtype_of(_read_by_numpy(dtype)).numpy
    except InvalidTypeError as fault:
        if getattr(dtype, "kind", "") == "c" or dtype is complex:
            raise InvalidTypeError(
                "complex numbers are not covered by ge2rt.jit", got=str(dtype), where=where(),
                next_step="keep the real and the imaginary part in two arrays",
            ) from None  # fmt: skip
        raise fault.about(where=where()) from None


def _read_by_numpy(dtype: Any) -> Any:
    """A user's ``"i8"`` has eight bytes; what NumPy does not know may be a name of the contract."""
    if not isinstance(dtype, str):
        return dtype
    try:
        return np.dtype(dtype)
    except TypeError:
        return dtype


def name_of(dtype: Any) -> str:
    """The contract's name of a dtype."""
    return dtype_of(dtype).name


def as_array(values: Any) -> Any:
    """A list of plain numbers as an array; traced ones are stacked."""
    if any(isinstance(value, Traced) for value in _leaves(values)):
        from ge2rt.jit.rules.joining import nested_stack  # late: it needs this module

        return nested_stack(values)
    array = np.asarray(values)
    if array.dtype.kind in "OUSMmV" and not hasattr(array.dtype, "itemsize"):
        raise refuse_type(values)
    return array


def _leaves(values: Any) -> list[Any]:
    if isinstance(values, (list, tuple)):
        return [leaf for value in values for leaf in _leaves(value)]
    return [values]


def join(kinds: Sequence[Kind]) -> np.dtype[Any]:
    """The dtype that holds all of these: ``numpy.result_type``, bf16 included."""
    return _join(tuple(kinds))


@lru_cache(maxsize=1024)
def _join(kinds: tuple[Kind, ...]) -> np.dtype[Any]:
    strong = [kind for kind in kinds if isinstance(kind, np.dtype)]
    if not strong:
        return _WEAK[float] if float in kinds else _WEAK[int]
    base = np.result_type(*strong)
    if float in kinds and not dtype_of(base).is_float:
        return np.result_type(base, np.float64)
    if int in kinds and base == np.bool_:
        return _WEAK[int]
    return known(base)


def resolve(ufunc: np.ufunc, kinds: tuple[Kind, ...], dtype: Any = None) -> tuple[Any, ...]:
    """Dtypes of a ufunc's loop for these operands: (inputs..., outputs...). TypeError if none."""
    try:
        return _resolve(ufunc, kinds, None if dtype is None else known(dtype))
    except TypeError as fault:
        if isinstance(fault, Ge2rtError):
            raise
        listed = ", ".join(kind.__name__ if isinstance(kind, type) else kind.name for kind in kinds)
        raise InvalidTypeError(
            f"numpy.{ufunc.__name__} has no meaning for these dtypes", got=listed, where=where(),
            next_step=_BITS_HINT if ufunc.__name__ in _OF_BITS else _CASTING_HINT,
        ) from None  # fmt: skip


@lru_cache(maxsize=1024)
def _resolve(ufunc: np.ufunc, kinds: tuple[Kind, ...], dtype: Any) -> tuple[Any, ...]:
    bf16 = DTYPES["bf16"].numpy if any(_is_bf16(kind) for kind in kinds) else None
    # ml_dtypes promotes bf16 with a Python float to f32; weak numbers are weak here for all dtypes
    given = tuple(bf16 if bf16 is not None and kind is float else kind for kind in kinds)
    if not any(isinstance(kind, np.dtype) for kind in kinds):  # Python's numbers among themselves
        given = tuple(_WEAK[kind] for kind in kinds if isinstance(kind, type))
    asked = (*given, *(None,) * ufunc.nout)
    if dtype is None:
        found = ufunc.resolve_dtypes(asked)
    else:
        signature = (*(None,) * ufunc.nin, *(dtype,) * ufunc.nout)
        found = ufunc.resolve_dtypes(asked, signature=signature)
    for each in found:
        dtype_of(each)
    return tuple(found)


def _is_bf16(kind: Kind) -> bool:
    return isinstance(kind, np.dtype) and kind.name == "bfloat16"


# -- constants -------------------------------------------------------------------------------------
def full(shape: Sequence[int], dtype: Any, value: Any) -> Node:
    """A constant node; the value is checked against the dtype's range and rounded to it."""
    element = dtype_of(dtype)
    return emit("full", shape=tuple(shape), dtype=element.name, value=constant(value, dtype))


def constant(value: Any, dtype: Any) -> bool | int | float:
    """``value`` as a Python number that ``dtype`` holds exactly; OverflowError where it cannot."""
    element = dtype_of(dtype)
    if element.kind == "bool":
        return bool(value)
    if element.is_float:
        return _rounded(value, element.numpy)
    info = np.iinfo(element.numpy)
    number = int(value)
    if not info.min <= number <= info.max:
        raise RangeError(
            f"Python integer {number} is out of range for {element.numpy.name}", where=where(),
            expected=f"{info.min} to {info.max}", next_step="cast the array to a wider dtype first",
        )  # fmt: skip
    return number


def _rounded(value: Any, dtype: np.dtype[Any]) -> float:
    try:
        number = float(value)
    except OverflowError:
        raise RangeError(
            f"Python integer is too large for {dtype.name}", where=where(),
            next_step="write it as a float",
        ) from None  # fmt: skip
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return float(np.asarray(number).astype(dtype))


def plain_number(value: Any) -> Any:
    """The Python or NumPy number that ``value`` is while tracing, or None."""
    if isinstance(value, (bool, int, float, np.generic)):
        return value
    return None


# -- nodes -----------------------------------------------------------------------------------------
def lift(value: Any) -> Traced:
    """Any operand as a traced array of its own shape and dtype."""
    if isinstance(value, Traced):
        return value
    kind = kind_of(value)
    if plain_number(value) is not None:
        dtype = _WEAK[kind] if isinstance(kind, type) else kind
        return Traced(full((), dtype, value), weak=kind if isinstance(kind, type) else None)
    if isinstance(value, (list, tuple)):
        made = as_array(value)
        return made if isinstance(made, Traced) else Traced(current().capture(made))
    return Traced(current().capture(value))


def shape_of(value: Any) -> tuple[int, ...]:
    """Shape of any operand."""
    if plain_number(value) is not None:
        return ()
    shape = getattr(value, "shape", None)
    return tuple(np.shape(value)) if shape is None else tuple(shape)


def materialise(value: Any, dtype: Any, shape: Sequence[int]) -> Node:
    """``value`` as a node of exactly this dtype and shape, by a cast and a broadcast."""
    if plain_number(value) is not None:
        kind = kind_of(value)
        if not isinstance(kind, type):
            with np.errstate(all="ignore"):
                value = np.asarray(value).astype(known(dtype))[()]
        return full(shape, dtype, value)
    return broadcast(cast(fitting(lift(value), dtype).node, dtype), shape)


def fitting(value: Traced, dtype: Any) -> Traced:
    """``value``; where it is a Python integer of the call, the graph is for what ``dtype`` holds.

    Another value of it, and one computed from such integers, is compiled in.
    """
    element = dtype_of(dtype)
    if value.weak is int and value.leaves and element.name not in ("i64", "f64"):
        if element.is_integer:
            info = np.iinfo(element.numpy)
            hold(value, (int(info.min), min(int(info.max), 2**63 - 1)))
        elif element.is_float:
            hold(value, EXACT)  # NumPy rounds to f64 first
    return value


def cast(node: Node, dtype: Any) -> Node:
    """The node in another dtype."""
    name = name_of(dtype)
    if node.dtype == name:
        return node
    if node.op == "full" and name != "bool" and DTYPES[name].is_float:
        return full(node.shape, name, node.attrs["value"])
    return emit("cast", node, dtype=name)


def broadcast(node: Node, shape: Sequence[int]) -> Node:
    """The node seen in another shape by NumPy's rules."""
    wanted = tuple(shape)
    if node.shape == wanted:
        return node
    if node.op == "full":
        return emit("full", shape=wanted, dtype=node.dtype, value=node.attrs["value"])
    return emit("broadcast", node, shape=wanted)


def common_shape(*values: Any) -> tuple[int, ...]:
    """The shape that all broadcast to; ValueError where they do not."""
    return joint(*(shape_of(value) for value in values))


def joint(*shapes: Sequence[int]) -> tuple[int, ...]:
    """As :func:`common_shape`, of shapes."""
    try:
        return broadcast_shapes(*shapes)
    except Ge2rtError as fault:
        raise fault.about(
            where=where(), next_step="compare the shapes, or insert axes by x[:, None]"
        ) from None


def convert(value: Any, dtype: Any, casting: str = "unsafe") -> Traced:
    """``astype``: the array in another dtype, always a fresh one."""
    array, to = lift(value), known(dtype)
    allow(array.dtype, to, casting)
    return Traced(cast(array.node, to))


def allow(have: np.dtype[Any], to: np.dtype[Any], casting: str) -> None:
    """TypeError where NumPy's casting rule forbids the cast."""
    if casting == "unsafe" or np.can_cast(have, to, casting):  # type: ignore[arg-type]
        return
    if casting == "same_kind" and _is_bf16(to) and dtype_of(have).is_float:
        return
    raise InvalidTypeError(
        f"cannot cast from {have.name} to {to.name} by the rule {casting!r}", where=where(),
        next_step=_CASTING_HINT,
    )  # fmt: skip


def fitted(value: Any, target: Traced, name: str) -> Node:
    """``value`` as what an in-place operation stores in ``target``."""
    array = lift(value)
    if joint(array.shape, target.shape) != target.shape:
        raise_shape(array.shape, target.shape, name)
    if array.weak is None:
        allow(array.dtype, target.dtype, "same_kind")
    return broadcast(cast(fitting(array, target.dtype).node, target.dtype), target.shape)


def raise_shape(have: tuple[int, ...], want: tuple[int, ...], name: str) -> None:
    """The refusal of an in-place result that does not fit."""
    from ge2rt.base.errors import InvalidArgumentError

    raise InvalidArgumentError(
        f"in-place {name}: the result's shape {have} does not fit into {want}", where=where(),
        next_step="write x = x + y instead of x += y",
    )  # fmt: skip


def view(node: Node, base: Traced) -> Traced:
    """A traced array that would share memory with ``base``."""
    return shared(node, base)
