"""Shapes: reshape, transpose and their kin, splits, flips, rolls. All are views but rolls."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.shapes import normalize_axes
from ge2rt.ir.graph import Node
from ge2rt.jit.faults import control_flow
from ge2rt.jit.promote import broadcast, join, joint, kind_of, lift, shape_of, view
from ge2rt.jit.scope import emit, where
from ge2rt.jit.table import rule
from ge2rt.jit.traced import Concretise, Traced


def integer(value: Any, what: str) -> int:
    """A plain int, as extents and axes must be; a traced one is refused."""
    try:
        return operator.index(value)
    except (Concretise, InvalidTypeError):
        raise
    except TypeError:
        raise InvalidTypeError(
            f"{what} must be an integer", got=type(value).__name__, where=where(),
            next_step="use an int",
        ) from None  # fmt: skip


def integers(values: Any, what: str) -> tuple[int, ...]:
    """One int or several as a tuple."""
    if isinstance(values, Traced):
        if values.ndim == 0:
            return (integer(values, what),)
        raise control_flow(f"{what} out", where())
    if isinstance(values, (tuple, list, np.ndarray)):
        return tuple(integer(value, what) for value in values)
    return (integer(values, what),)


def axis_of(axis: Any, rank: int) -> int:
    """One axis, from 0; ValueError out of range, TypeError for several."""
    return axes_of(integer(axis, "an axis"), rank)[0]


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """Axes from 0 in the order given; None is all. ValueError out of range or named twice."""
    if axes is None:
        return tuple(range(rank))
    given = integers(axes, "an axis")
    try:
        normalize_axes(given, rank)
    except InvalidArgumentError as fault:
        raise fault.about(
            where=where(),
            next_step=f"the array has {rank} axes: count from 0, or from -1 backwards",
        ) from None
    return tuple(axis % rank for axis in given)


def reshaped(node: Node, shape: Sequence[int]) -> Node:
    """The node in another shape of as many elements."""
    wanted = tuple(shape)
    if wanted == node.shape:
        return node
    if node.op == "full":
        return emit("full", shape=wanted, dtype=node.dtype, value=node.attrs["value"])
    return emit("reshape", node, shape=wanted)


def transposed(node: Node, perm: Sequence[int]) -> Node:
    """The node with its axes in another order."""
    order = tuple(perm)
    return node if order == tuple(range(len(order))) else emit("transpose", node, perm=order)


def sliced(node: Node, axis: int, start: int, count: int, step: int = 1) -> Node:
    """``count`` elements along one axis from ``start`` on."""
    rank = len(node.shape)
    if (start, count, step) == (0, node.shape[axis], 1):
        return node
    return emit(
        "slice", node, start=tuple(start if a == axis else 0 for a in range(rank)),
        step=tuple(step if a == axis else 1 for a in range(rank)),
        shape=tuple(count if a == axis else e for a, e in enumerate(node.shape)),
    )  # fmt: skip


@rule(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None) -> Traced:
    """``numpy.reshape``; one extent may be -1."""
    value = lift(a)
    if order == "F":
        flat = reshape(transpose(value), integers(shape, "an extent")[::-1])
        return transpose(flat)
    wanted = extents(value, shape if shape is not None else newshape)
    return view(reshaped(value.node, wanted), value)


def extents(value: Traced, shape: Any) -> tuple[int, ...]:
    """The shape asked for, -1 worked out; ValueError where the elements do not fit."""
    wanted = integers(shape, "an extent")
    known = math.prod(e for e in wanted if e != -1)
    if wanted.count(-1) == 1 and known and value.size % known == 0:
        return tuple(value.size // known if e == -1 else e for e in wanted)
    if -1 in wanted or known != value.size or min(wanted, default=0) < 0:
        raise InvalidArgumentError(
            f"cannot reshape an array of shape {value.shape} into {wanted}", where=where(),
            expected=f"{value.size} elements", got=f"{wanted}", detail="shape",
            next_step="one extent may be -1, the others must multiply to a divisor of the size",
        )  # fmt: skip
    return wanted


@rule(np.ravel)
def ravel(a: Any, order: str = "C") -> Traced:
    """``numpy.ravel``."""
    return reshape(a, -1, order) if order == "C" else reshape(transpose(a), -1)


@rule(np.transpose, getattr(np, "permute_dims", None))
def transpose(a: Any, axes: Any = None) -> Traced:
    """``numpy.transpose``."""
    value = lift(a)
    perm = tuple(reversed(range(value.ndim))) if axes is None else axes_of(axes, value.ndim)
    if len(perm) != value.ndim:
        raise InvalidArgumentError(
            "axes do not match the array", expected=f"{value.ndim} axes", got=str(perm),
            where=where(), next_step="name each axis once",
        )  # fmt: skip
    return view(transposed(value.node, perm), value)


@rule(getattr(np, "matrix_transpose", None))
def matrix_transpose(x: Any) -> Traced:
    """``numpy.matrix_transpose``."""
    return swapaxes(x, -1, -2)


@rule(np.swapaxes)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Traced:
    """``numpy.swapaxes``."""
    value = lift(a)
    first, second = axis_of(axis1, value.ndim), axis_of(axis2, value.ndim)
    perm = list(range(value.ndim))
    perm[first], perm[second] = second, first
    return view(transposed(value.node, perm), value)


@rule(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Traced:
    """``numpy.moveaxis``."""
    value = lift(a)
    from_axes, to_axes = axes_of(source, value.ndim), axes_of(destination, value.ndim)
    if len(from_axes) != len(to_axes):
        raise InvalidArgumentError(
            "moveaxis needs as many destinations as sources", where=where(),
            next_step="give both the same length",
        )  # fmt: skip
    order = [axis for axis in range(value.ndim) if axis not in from_axes]
    for target, axis in sorted(zip(to_axes, from_axes, strict=True)):
        order.insert(target, axis)
    return view(transposed(value.node, order), value)


@rule(np.rollaxis)
def rollaxis(a: Any, axis: Any, start: int = 0) -> Traced:
    """``numpy.rollaxis``."""
    rank = lift(a).ndim
    place, target = axis_of(axis, rank), start + rank if start < 0 else start
    return moveaxis(a, place, target - 1 if place < target else target)


@rule(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Traced:
    """``numpy.squeeze``; ValueError for an axis that is not 1 long."""
    value = lift(a)
    if axis is None:
        gone: tuple[int, ...] = tuple(i for i, e in enumerate(value.shape) if e == 1)
    else:
        gone = axes_of(axis, value.ndim)
        if any(value.shape[i] != 1 for i in gone):
            raise InvalidArgumentError(
                "cannot squeeze an axis that is not 1 long", got=f"{value.shape}, axis {axis}",
                where=where(), next_step="take one element along it by indexing",
            )  # fmt: skip
    return view(
        reshaped(value.node, [e for i, e in enumerate(value.shape) if i not in gone]), value
    )


@rule(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Traced:
    """``numpy.expand_dims``."""
    value = lift(a)
    given = integers(axis, "an axis")
    places = axes_of(given, value.ndim + len(given))
    rest = iter(value.shape)
    shape = [1 if i in places else next(rest) for i in range(value.ndim + len(given))]
    return view(reshaped(value.node, shape), value)


@rule(np.broadcast_to)
def broadcast_to(array: Any, shape: Any) -> Traced:
    """``numpy.broadcast_to``."""
    value, wanted = lift(array), integers(shape, "an extent")
    if joint(value.shape, wanted) != wanted:
        joint_failed(value.shape, wanted)
    return view(broadcast(value.node, wanted), value)


def joint_failed(have: tuple[int, ...], want: tuple[int, ...]) -> None:
    """The refusal of a broadcast to a smaller shape."""
    raise InvalidArgumentError(
        f"shape {have} does not broadcast to {want}", where=where(), detail="shape",
        next_step="an extent must be 1 or equal, counted from the last axis",
    )  # fmt: skip


@rule(np.broadcast_arrays)
def broadcast_arrays(*args: Any) -> tuple[Traced, ...]:
    """``numpy.broadcast_arrays``."""
    shape = joint(*(shape_of(value) for value in args))
    return tuple(broadcast_to(value, shape) for value in args)


def _at_least(rank: int) -> Any:
    def widen(value: Any) -> Traced:
        array = lift(value)
        if array.ndim >= rank:
            return array
        before = {0: rank // 2, 1: rank - 1 - (rank == 3), 2: 0}[array.ndim]
        shape = (1,) * before + array.shape
        return view(reshaped(array.node, shape + (1,) * (rank - len(shape))), array)

    def build(*arys: Any) -> Any:
        made = tuple(widen(value) for value in arys)
        return made[0] if len(made) == 1 else made

    return build


rule(np.atleast_1d)(_at_least(1))
rule(np.atleast_2d)(_at_least(2))
rule(np.atleast_3d)(_at_least(3))


@rule(np.flip)
def flip(m: Any, axis: Any = None) -> Traced:
    """``numpy.flip``."""
    value = lift(m)
    node = value.node
    for place in axes_of(axis, value.ndim):
        extent = node.shape[place]
        if extent > 1:
            node = sliced(node, place, extent - 1, extent, -1)
    return view(node, value)


@rule(np.flipud)
def flipud(m: Any) -> Traced:
    """``numpy.flipud``."""
    return flip(m, 0)


@rule(np.fliplr)
def fliplr(m: Any) -> Traced:
    """``numpy.fliplr``."""
    return flip(m, 1)


@rule(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Traced:
    """``numpy.rot90``."""
    first, second = axes_of(axes, lift(m).ndim)
    turns = k % 4
    if turns == 0:
        return view(lift(m).node, lift(m))
    if turns == 2:
        return flip(m, (first, second))
    turned = swapaxes(m, first, second)
    return flip(turned, first if turns == 1 else second)


@rule(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Traced:
    """``numpy.roll``: two slices joined an axis."""
    value = lift(a)
    if axis is None:
        return reshape(roll(ravel(value), shift, 0), value.shape)
    places, shifts = axes_of(axis, value.ndim), integers(shift, "a shift")
    node = value.node
    for place, by in zip(*_paired(places, shifts), strict=True):
        extent = node.shape[place]
        cut = -by % extent if extent else 0
        if cut:
            parts = sliced(node, place, cut, extent - cut), sliced(node, place, 0, cut)
            node = emit("concat", *parts, axis=place)
    return Traced(node)


def _paired(places: tuple[int, ...], shifts: tuple[int, ...]) -> tuple[Any, Any]:
    if len(places) == 1:
        return places * len(shifts), shifts
    return places, shifts * len(places) if len(shifts) == 1 else shifts


@rule(np.copy)
def copy(a: Any) -> Traced:
    """``numpy.copy``: the same values in memory of their own."""
    return Traced(lift(a).node)


@rule(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Traced]:
    """``numpy.array_split``."""
    value = lift(ary)
    place = axis_of(axis, value.ndim)
    extent = value.shape[place]
    if isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        cuts = [min(max(c + extent * (c < 0), 0), extent)
                for c in integers(indices_or_sections, "a cut")]  # fmt: skip
        bounds = [0, *cuts, extent]
    else:
        count = integer(indices_or_sections, "the number of parts")
        each, extra = divmod(extent, count)
        bounds = [each * i + min(i, extra) for i in range(count + 1)]
    pairs = pairwise(bounds)
    return [
        view(sliced(value.node, place, min(low, extent), max(high - low, 0)), value)
        for low, high in pairs
    ]


@rule(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Traced]:
    """``numpy.split``; ValueError where the parts would not be equal."""
    value = lift(ary)
    extent = value.shape[axis_of(axis, value.ndim)]
    if not isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        count = integer(indices_or_sections, "the number of parts")
        if count <= 0 or extent % count:
            raise InvalidArgumentError(
                f"cannot split {extent} elements into {count} equal parts", where=where(),
                next_step="use numpy.array_split, or give the indices of the cuts",
            )  # fmt: skip
    return array_split(value, indices_or_sections, axis)


def _split_along(axis: int) -> Any:
    def build(ary: Any, indices_or_sections: Any) -> list[Traced]:
        value = lift(ary)
        return split(value, indices_or_sections, axis if value.ndim > axis else 0)

    return build


rule(np.vsplit)(_split_along(0))
rule(np.hsplit)(_split_along(1))
rule(np.dsplit)(_split_along(2))


@rule(getattr(np, "unstack", None))
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Traced, ...]:
    """``numpy.unstack``."""
    return tuple(moveaxis(x, axis, 0))


@rule(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    """``numpy.shape``."""
    return shape_of(a)


@rule(np.ndim)
def ndim(a: Any) -> int:
    """``numpy.ndim``."""
    return len(shape_of(a))


@rule(np.size)
def size(a: Any, axis: Any = None) -> int:
    """``numpy.size``."""
    extents_ = shape_of(a)
    return math.prod(extents_[place] for place in axes_of(axis, len(extents_)))


@rule(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """``numpy.result_type``."""
    kinds = [
        kind_of(v) if isinstance(v, (Traced, np.ndarray, bool, int, float, np.generic))
        else np.dtype(v) for v in arrays_and_dtypes
    ]  # fmt: skip
    return join(kinds)


@rule(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    """``numpy.iscomplexobj``."""
    return False


@rule(np.isrealobj)
def isrealobj(x: Any) -> bool:
    """``numpy.isrealobj``."""
    return True


@rule(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """``numpy.can_cast``."""
    given = from_.dtype if isinstance(from_, Traced) else from_
    return np.can_cast(given, to, casting)
