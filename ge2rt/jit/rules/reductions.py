"""Reductions and scans: sum, prod, max, min, any, all, arg-extremes, cumulative ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.base.shapes import reduced_shape
from ge2rt.ir.graph import Node
from ge2rt.jit.faults import not_covered
from ge2rt.jit.promote import cast, full, known, lift, materialise, view
from ge2rt.jit.rules.pointwise import outer
from ge2rt.jit.rules.shapes import axes_of, axis_of, ravel, reshaped
from ge2rt.jit.scope import emit, where
from ge2rt.jit.table import METHODS, UFUNCS, rule
from ge2rt.jit.traced import Traced

_ABSENT: Any = np._NoValue
_WIDE = {"int": np.dtype(np.int64), "bool": np.dtype(np.int64), "uint": np.dtype(np.uint64)}


@dataclass(frozen=True)
class Reduction:
    """One reducing op: the ufunc that joins an initial value, the dtype it is computed in."""

    op: str
    ufunc: str
    result: Callable[[np.dtype[Any], Any], np.dtype[Any]]
    identity: Callable[[np.dtype[Any]], Any]
    needs_elements: bool = False

    def __call__(
        self, a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False,
        initial: Any = _ABSENT, where: Any = True,
    ) -> Traced:  # fmt: skip
        """What NumPy's function with these options builds."""
        value = lift(a)
        if not value.shape and axis in (0, -1):  # NumPy lets a number have one axis here
            axis = None
        kind = self.result(value.dtype, dtype)
        axes = tuple(sorted(axes_of(axis, value.ndim)))
        node = cast(value.node, kind)
        self._check(node, axes, initial)
        if where is not True:
            node = self._masked(node, where, initial)
        if axes or not node.shape:
            node = reduced(self.op, node, axes)
        made = Traced(node)
        if initial is not _ABSENT and initial is not None:
            ufunc = getattr(np, self.ufunc)
            made = UFUNCS[self.ufunc](ufunc, made, np.asarray(initial).astype(kind)[()])
        return kept(made, value.shape, axes, keepdims)

    def _check(self, node: Node, axes: tuple[int, ...], initial: Any) -> None:
        empty = any(node.shape[axis] == 0 for axis in axes)
        if self.needs_elements and empty and initial is _ABSENT:
            raise InvalidArgumentError(
                f"zero-size array to reduction {self.ufunc}, which has no identity",
                where=_where(), next_step="pass initial=, or check the shape first",
            )  # fmt: skip

    def _masked(self, node: Node, mask: Any, initial: Any) -> Node:
        if self.needs_elements and initial is _ABSENT:
            raise InvalidArgumentError(
                f"{self.ufunc} with where= needs an initial value", where=_where(),
                next_step="pass initial=",
            )  # fmt: skip
        held = materialise(mask, np.bool_, node.shape)
        neutral = full(node.shape, node.dtype, self.identity(node.type.element.numpy))
        return emit("select", held, node, neutral)


def _where() -> str:
    return where()


def reduced(op: str, node: Node, axes: tuple[int, ...]) -> Node:
    """The reducing node; of a 0-d array it is what one element gives."""
    if op in ("max", "min") and any(node.shape[axis] == 0 for axis in axes):
        # nothing to compare, and an initial value follows: start from what every value replaces
        shape = reduced_shape(node.shape, axes, False)
        element = node.type.element.numpy
        return full(shape, element, _lowest(element) if op == "max" else _highest(element))
    return emit(op, node, axes=axes) if node.shape else node


def kept(value: Traced, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: Any) -> Traced:
    """The result with the reduced axes as 1 where ``keepdims`` asks for it."""
    if keepdims is _ABSENT or not keepdims:
        return value
    return view(reshaped(value.node, reduced_shape(shape, axes, True)), value)


def _summed(have: np.dtype[Any], asked: Any) -> np.dtype[Any]:
    if asked is not None:
        return known(asked)
    kind = dtype_of(have).kind
    return _WIDE.get(kind, have)


def _itself(have: np.dtype[Any], asked: Any) -> np.dtype[Any]:
    return have if asked is None else known(asked)


def _boolean(have: np.dtype[Any], asked: Any) -> np.dtype[Any]:
    return np.dtype(np.bool_)


def _lowest(dtype: np.dtype[Any]) -> Any:
    element = dtype_of(dtype)
    if element.kind == "bool":
        return False
    return -np.inf if element.is_float else int(np.iinfo(dtype).min)


def _highest(dtype: np.dtype[Any]) -> Any:
    element = dtype_of(dtype)
    if element.kind == "bool":
        return True
    return np.inf if element.is_float else int(np.iinfo(dtype).max)


SUM = Reduction("sum", "add", _summed, lambda dtype: 0)
PROD = Reduction("prod", "multiply", _summed, lambda dtype: 1)
MAX = Reduction("max", "maximum", _itself, _lowest, needs_elements=True)
MIN = Reduction("min", "minimum", _itself, _highest, needs_elements=True)
ANY = Reduction("any", "logical_or", _boolean, lambda dtype: False)
ALL = Reduction("all", "logical_and", _boolean, lambda dtype: True)


def _options(reduction: Reduction, names: tuple[str, ...]) -> Callable[..., Traced]:
    """The reduction with the options that NumPy's function has, in NumPy's order."""
    order = ("axis", *names)

    def build(
        a: Any, *positional: Any, axis: Any = None, dtype: Any = None, out: None = None,
        keepdims: Any = False, initial: Any = _ABSENT, where: Any = True,
    ) -> Traced:  # fmt: skip
        given = {
            "axis": axis, "dtype": dtype, "keepdims": keepdims, "initial": initial, "where": where,
        }  # fmt: skip
        given.update(zip(order, positional, strict=False))
        if given.pop("out", None) is not None:
            raise not_covered(
                f"numpy.{reduction.op}(out=...)", _where(), next_step="assign the result instead"
            )
        return reduction(a, **given)

    return build


rule(np.sum)(_options(SUM, ("dtype", "out", "keepdims", "initial", "where")))
rule(np.prod)(_options(PROD, ("dtype", "out", "keepdims", "initial", "where")))
rule(np.max, np.amax)(_options(MAX, ("out", "keepdims", "initial", "where")))
rule(np.min, np.amin)(_options(MIN, ("out", "keepdims", "initial", "where")))
rule(np.any)(_options(ANY, ("out", "keepdims")))
rule(np.all)(_options(ALL, ("out", "keepdims")))


def _ufunc_reduce(reduction: Reduction) -> Callable[..., Traced]:
    def build(
        array: Any, axis: Any = 0, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = _ABSENT, where: Any = True,
    ) -> Traced:  # fmt: skip
        return reduction(array, axis, dtype, keepdims, initial, where)

    return build


METHODS.update({
    ("reduce", reduction.ufunc): _ufunc_reduce(reduction)
    for reduction in (SUM, PROD, MAX, MIN, ANY, ALL)
})  # fmt: skip
METHODS.update({
    ("outer", name): outer(name)
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "equal",
                 "less", "greater", "less_equal", "greater_equal", "not_equal", "floor_divide",
                 "remainder", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "hypot",
                 "arctan2")
})  # fmt: skip


def _extreme(op: str) -> Callable[..., Traced]:
    def build(a: Any, axis: Any = None, out: None = None, *, keepdims: Any = False) -> Traced:
        value = lift(a)
        flat = ravel(value) if axis is None or value.ndim == 0 else value
        if axis is not None:
            axis_of(axis, max(value.ndim, 1))
        place = 0 if axis is None else axis_of(axis, flat.ndim)
        if flat.shape[place] == 0:
            raise InvalidArgumentError(
                f"attempt to get {op} of an empty sequence", where=where(),
                next_step="check the shape first",
            )  # fmt: skip
        made = Traced(emit(op, flat.node, axis=place))
        axes = tuple(range(value.ndim)) if axis is None else (place,)
        return kept(made, value.shape, axes, keepdims)

    return build


rule(np.argmax)(_extreme("argmax"))
rule(np.argmin)(_extreme("argmin"))


def _scan(op: str) -> Callable[..., Traced]:
    def build(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Traced:
        value = lift(a)
        flat = ravel(value) if axis is None or value.ndim == 0 else value
        place = 0 if axis is None else axis_of(axis, flat.ndim)
        return Traced(emit(op, cast(flat.node, _summed(value.dtype, dtype)), axis=place))

    return build


rule(np.cumsum)(_scan("cumsum"))
rule(np.cumprod)(_scan("cumprod"))


def _accumulate(op: str) -> Callable[..., Traced]:
    scan = _scan(op)

    def build(array: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Traced:
        return scan(array, axis, dtype)

    return build


METHODS[("accumulate", "add")] = _accumulate("cumsum")
METHODS[("accumulate", "multiply")] = _accumulate("cumprod")


@rule(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Traced:
    """``numpy.count_nonzero``."""
    held = cast(lift(a).node, np.bool_)
    return SUM(Traced(held), axis, np.int64, keepdims)


@rule(np.ptp)
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: Any = False) -> Any:
    """``numpy.ptp``."""
    return MAX(a, axis, keepdims=keepdims) - MIN(a, axis, keepdims=keepdims)
