"""Arrays made from nothing or from another's shape: zeros, arange, eye, tril, diag, linspace."""

from __future__ import annotations

from typing import Any

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.ir.graph import Node
from ge2rt.jit.promote import broadcast, full, kind_of, known, lift, materialise
from ge2rt.jit.rules.shapes import integer, integers, reshaped
from ge2rt.jit.scope import current, emit
from ge2rt.jit.table import rule
from ge2rt.jit.traced import Traced


def _like(value: Any) -> Any:
    def build(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None,
              *, device: Any = None) -> Traced:  # fmt: skip
        array = lift(a)
        extents = array.shape if shape is None else integers(shape, "an extent")
        return Traced(full(extents, array.dtype if dtype is None else known(dtype), value))

    return build


rule(np.zeros_like, np.empty_like)(_like(0))
rule(np.ones_like)(_like(1))


@rule(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, *, device: Any = None,
) -> Traced:  # fmt: skip
    """``numpy.full_like``."""
    array = lift(a)
    extents = array.shape if shape is None else integers(shape, "an extent")
    return Traced(materialise(fill_value, array.dtype if dtype is None else known(dtype), extents))


def _filled(value: int) -> Any:
    def build(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None) -> Traced:
        kind = np.dtype(np.float64) if dtype is None else known(dtype)
        return Traced(full(integers(shape, "an extent"), kind, value))

    return build


rule(np.zeros, np.empty)(_filled(0))
rule(np.ones)(_filled(1))


@rule(np.full)
def filled(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None
) -> Traced:
    """``numpy.full``."""
    kind = kind_of(fill_value) if dtype is None else known(dtype)
    kind = np.dtype(kind) if isinstance(kind, type) else kind
    return Traced(materialise(fill_value, kind, integers(shape, "an extent")))


@rule(np.asarray, np.array, np.ascontiguousarray, np.asanyarray, np.asfortranarray)
def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, **more: Any) -> Any:
    """``numpy.asarray(x, like=traced)``."""
    value = lift(a)
    return value if dtype is None else value.astype(dtype)


@rule(getattr(np, "astype", None))
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Traced:
    """``numpy.astype``."""
    return lift(x).astype(dtype)


@rule(np.arange)
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *,
           device: Any = None) -> Traced:  # fmt: skip
    """``numpy.arange``: the extents must be known, integers are counted, floats are listed."""
    first, last = (0, start) if stop is None else (start, stop)
    numbers = [integer(v, "arange's bound") if not isinstance(v, float) else v
               for v in (first, last, step)]  # fmt: skip
    made = np.arange(*numbers, dtype=dtype)
    if not dtype_of(made.dtype).is_integer:
        return Traced(current().capture(made))
    return counted(made.size, made.dtype, numbers[0], numbers[2])


def counted(count: int, dtype: Any, first: Any = 0, step: Any = 1) -> Traced:
    """``first + step * i`` for ``i < count``."""
    steps = Traced(emit("iota", shape=(count,), dtype=dtype_of(dtype).name, axis=0))
    scaled = steps * step if step != 1 else steps
    return scaled + first if first else scaled


@rule(np.linspace)
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """``numpy.linspace``."""
    first, last = lift(start) * 1.0, lift(stop) * 1.0
    parts = num - 1 if endpoint else num
    count = counted(num, np.float64).reshape((num,) + (1,) * max(first.ndim, last.ndim))
    step = (last - first) / max(parts, 1)
    points = first + count.astype(step.dtype) * step
    points = points if dtype is None else points.astype(dtype)
    points = np.moveaxis(points, 0, axis)
    return (points, step) if retstep else points


def _grid(shape: tuple[int, ...], axis: int) -> Node:
    return emit("iota", shape=shape, dtype="i64", axis=axis)


def below(shape: tuple[int, ...], k: int) -> Node:
    """Where the column is at most the row plus ``k``, over the last two axes."""
    rows, columns = _grid(shape, len(shape) - 2), _grid(shape, len(shape) - 1)
    if k:
        rows = emit("add", rows, full(shape, np.int64, k))
    return emit("le", columns, rows)


@rule(np.tril)
def tril(m: Any, k: int = 0) -> Traced:
    """``numpy.tril``."""
    value = _matrix(m)
    zero = full(value.shape, value.dtype, 0)
    return Traced(emit("select", below(value.shape, integer(k, "k")), value.node, zero))


@rule(np.triu)
def triu(m: Any, k: int = 0) -> Traced:
    """``numpy.triu``."""
    value = _matrix(m)
    zero = full(value.shape, value.dtype, 0)
    return Traced(emit("select", below(value.shape, integer(k, "k") - 1), zero, value.node))


def _matrix(m: Any) -> Traced:
    value = lift(m)
    if value.ndim == 1:  # NumPy repeats a row
        return Traced(broadcast(value.node, (*value.shape, *value.shape)))
    return value


@rule(np.tri)
def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Traced:
    """``numpy.tri``."""
    return Traced(below((N, N if M is None else M), k)).astype(dtype)


@rule(np.eye, np.identity)
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, order: str = "C", *,
        device: Any = None) -> Traced:  # fmt: skip
    """``numpy.eye``."""
    shape = (N, N if M is None else M)
    rows = emit("add", _grid(shape, 0), full(shape, np.int64, k))
    return Traced(emit("eq", _grid(shape, 1), rows)).astype(dtype)


@rule(np.diag)
def diag(v: Any, k: int = 0) -> Traced:
    """``numpy.diag``: a diagonal taken out, or a matrix made of one."""
    value = lift(v)
    if value.ndim != 1:
        return value.diagonal(k)  # type: ignore[no-any-return]
    size = value.shape[0] + abs(k)
    low, right = max(-k, 0), max(k, 0)
    shape = (size, size)
    rows = emit("add", _grid(shape, 0), full(shape, np.int64, right - low))
    padded = emit("pad", value.node, low=(low,), high=(size - low - value.shape[0],), value=0)
    spread = broadcast(reshaped(padded, (size, 1)), shape)
    on = emit("eq", _grid(shape, 1), rows)
    return Traced(emit("select", on, spread, full(shape, value.dtype, 0)))


@rule(np.kron)
def kron(a: Any, b: Any) -> Traced:
    """``numpy.kron``."""
    x, y = lift(a), lift(b)
    rank = max(x.ndim, y.ndim)
    left = (1,) * (rank - x.ndim) + x.shape
    right = (1,) * (rank - y.ndim) + y.shape
    wide = x.reshape([e for extent in left for e in (extent, 1)])
    tall = y.reshape([e for extent in right for e in (1, extent)])
    return (wide * tall).reshape([p * q for p, q in zip(left, right, strict=True)])  # type: ignore[no-any-return]
