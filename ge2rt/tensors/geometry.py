"""Views as pure data: sizes, strides and offset in elements, and how each kind changes them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.shapes import (
    broadcast_strides,
    contiguous_strides,
    element_span,
    is_contiguous,
    size_of,
)
from ge2rt.base.text import show

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Geometry:
    """Where the elements of a tensor lie in its storage."""

    shape: Ints
    strides: Ints
    offset: int = 0

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie row-major without gaps."""
        return is_contiguous(self.shape, self.strides)

    def span(self) -> tuple[int, int]:
        """Lowest and highest element of the storage that is touched; ``(0, -1)`` if none is."""
        low, high = element_span(self.shape, self.strides)
        return (0, -1) if high < low else (low + self.offset, high + self.offset)


def dense(shape: Sequence[int]) -> Geometry:
    """Row-major from the start."""
    return Geometry(tuple(shape), contiguous_strides(shape))


def refuse(what: str, message: str, *, got: Any = "", hint: str = "") -> InvalidArgumentError:
    """The error for a view that cannot be."""
    return InvalidArgumentError(
        f"{what}: {message}", got=show(got) if got != "" else "", detail="shape", next_step=hint
    )


def ints(what: str, values: Any) -> Ints:
    """A shape or axes, given as one int or several."""
    given = values if isinstance(values, (tuple, list)) else (values,)
    try:
        return tuple(operator.index(value) for value in given)
    except TypeError:
        raise InvalidTypeError(
            f"{what}: not integers", got=show(values), expected="an int or several",
            next_step="convert them by int()",
        ) from None  # fmt: skip


def axis_of(what: str, axis: Any, rank: int) -> int:
    """An axis counted from 0; IndexError's text where it is outside."""
    (at,) = ints(what, axis)
    if not -rank <= at < rank:
        raise refuse(what, f"axis {at} of a tensor of {rank} axes",
                     hint=f"axes are from {-rank} to {rank - 1}")  # fmt: skip
    return at % rank


# -- kinds of view --------------------------------------------------------------------------------
def permuted(g: Geometry, axes: Sequence[int]) -> Geometry:
    """Axes in another order."""
    order = [axis_of("permute", axis, g.rank) for axis in axes]
    if sorted(order) != list(range(g.rank)):
        raise refuse("permute", "every axis must be named once", got=tuple(axes))
    return Geometry(tuple(g.shape[a] for a in order), tuple(g.strides[a] for a in order), g.offset)


def expanded(g: Geometry, shape: Sequence[int]) -> Geometry:
    """Axes of extent 1 repeated; -1 keeps an extent."""
    lead = len(shape) - g.rank
    wanted = tuple(
        g.shape[at - lead] if extent == -1 and at >= lead else extent
        for at, extent in enumerate(shape)
    )
    fits = lead >= 0 and all(
        have in (1, want) for have, want in zip(g.shape, wanted[max(lead, 0) :], strict=True)
    )  # fmt: skip
    if not fits or min(wanted, default=0) < 0:
        raise refuse("expand", f"{g.shape} does not broadcast to {tuple(shape)}",
                     hint="an extent must be 1 or equal, counted from the last axis")  # fmt: skip
    return Geometry(wanted, broadcast_strides(g.shape, g.strides, wanted), g.offset)


def reshaped(g: Geometry, shape: Sequence[int]) -> Geometry | None:
    """The same elements in another shape, or None where that needs a copy."""
    wanted = inferred(g, shape)
    if g.contiguous:
        return Geometry(wanted, contiguous_strides(wanted), g.offset)
    strides = _split(g, wanted)
    return None if strides is None else Geometry(wanted, strides, g.offset)


def inferred(g: Geometry, shape: Sequence[int]) -> Ints:
    """``shape`` with its -1 worked out; ValueError where the elements do not fit."""
    total, given = size_of(g.shape), tuple(shape)
    known = size_of([e for e in given if e != -1])
    unknown = given.count(-1)
    fits = unknown <= 1 and min(given, default=0) >= -1
    if fits and unknown == 1:
        fits = known > 0 and total % known == 0
        given = tuple(total // max(known, 1) if e == -1 else e for e in given)
    if not fits or size_of(given) != total:
        raise refuse("reshape", f"{total} elements of shape {g.shape} do not make {tuple(shape)}",
                     hint="the product of the extents must stay the same")  # fmt: skip
    return given


def _split(g: Geometry, wanted: Ints) -> Ints | None:
    """Strides for ``wanted``, where each run of evenly spaced axes can be cut up as it asks."""
    if 0 in g.shape:
        return contiguous_strides(wanted)
    runs = _runs(g)
    strides: list[int] = []
    at = len(wanted) - 1
    for extent, step in reversed(runs):
        left = extent
        while at >= 0 and left % wanted[at] == 0 and (left > 1 or wanted[at] == 1):
            strides.append(step)
            step *= wanted[at]
            left //= wanted[at]
            at -= 1
        if left != 1:
            return None
    strides += [0] * (at + 1)  # extents of 1 are left
    return tuple(reversed(strides)) if all(e == 1 for e in wanted[: at + 1]) else None


def _runs(g: Geometry) -> list[tuple[int, int]]:
    """(elements, stride) of runs of neighbouring axes that lie evenly; extents of 1 left out."""
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(g.shape, g.strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == stride * extent:
            runs[-1] = (runs[-1][0] * extent, stride)
        else:
            runs.append((extent, stride))
    return runs or [(1, 1)]


def diagonal(g: Geometry, offset: int, axis1: int, axis2: int) -> Geometry:
    """Elements ``i, i + offset`` of two axes, as a new last axis."""
    first, second = (axis_of("diagonal", a, g.rank) for a in (axis1, axis2))
    if first == second:
        raise refuse("diagonal", "the axes are the same", got=(axis1, axis2))
    rows, columns = g.shape[first], g.shape[second]
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = g.strides[second] * offset if offset > 0 else -g.strides[first] * offset
    rest = [a for a in range(g.rank) if a not in (first, second)]
    return Geometry(
        (*(g.shape[a] for a in rest), count),
        (*(g.strides[a] for a in rest), g.strides[first] + g.strides[second]),
        g.offset + (start if count else 0),
    )


def unfolded(g: Geometry, axis: int, size: int, step: int) -> Geometry:
    """Windows of ``size`` elements, ``step`` apart, as a new last axis."""
    at = axis_of("unfold", axis, g.rank)
    if not 0 <= size <= g.shape[at] or step <= 0:
        raise refuse("unfold", f"windows of {size}, {step} apart, of {g.shape[at]} elements",
                     hint="0 <= size <= the extent, and step > 0")  # fmt: skip
    count = (g.shape[at] - size) // step + 1
    shape, strides = list(g.shape), list(g.strides)
    shape[at], strides[at] = count, g.strides[at] * step
    return Geometry((*shape, size), (*strides, g.strides[at]), g.offset)


def squeezed(g: Geometry, axes: Sequence[int] | None) -> Geometry:
    """Without axes of extent 1: all of them, or those that are named."""
    named = range(g.rank) if axes is None else [axis_of("squeeze", a, g.rank) for a in axes]
    gone = {a for a in named if g.shape[a] == 1}
    if axes is not None and len(gone) < len(set(named)):
        raise refuse("squeeze", f"an axis of {g.shape} that is named is not of extent 1", got=axes)
    kept = [a for a in range(g.rank) if a not in gone]
    return Geometry(tuple(g.shape[a] for a in kept), tuple(g.strides[a] for a in kept), g.offset)


def unsqueezed(g: Geometry, axis: int) -> Geometry:
    """With a new axis of extent 1."""
    at = axis_of("unsqueeze", axis, g.rank + 1)
    shape, strides = list(g.shape), list(g.strides)
    shape.insert(at, 1)
    strides.insert(at, 0)
    return Geometry(tuple(shape), tuple(strides), g.offset)


def flipped(g: Geometry, axes: Sequence[int]) -> Geometry:
    """Axes reversed, by negative strides."""
    offset, strides = g.offset, list(g.strides)
    for axis in {axis_of("flip", a, g.rank) for a in axes}:
        offset += max(g.shape[axis] - 1, 0) * strides[axis]
        strides[axis] = -strides[axis]
    return Geometry(g.shape, tuple(strides), offset)


def strided(shape: Ints, strides: Ints, offset: int, elements: int) -> Geometry:
    """Any geometry that stays within a storage of ``elements``."""
    if len(shape) != len(strides) or min(shape, default=0) < 0:
        raise refuse("as_strided", "a stride is needed for each extent", got=(shape, strides))
    made = Geometry(shape, strides, offset)
    low, high = made.span()
    if high >= low and not 0 <= low <= high < elements:
        raise refuse(
            "as_strided", f"elements {low} to {high} of a storage of {elements}",
            hint="sizes, strides and offset must stay inside the storage",
        )  # fmt: skip
    return made


# -- indexing -------------------------------------------------------------------------------------
def is_basic(index: Any) -> bool:
    """Whether an index makes a view: ints, slices, ``...`` and None, alone or in a tuple."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(map(is_basic_part, parts))


def is_basic_part(part: Any) -> bool:
    """Whether a part of an index is an int, a slice, ``...`` or None; True and False are masks."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return True
    if isinstance(part, bool) or not hasattr(type(part), "__index__"):
        return False
    dtype = getattr(part, "dtype", None)  # of a 0-d array or tensor
    return dtype is None or (dtype_of(dtype).is_integer and not part.shape)


def indexed(g: Geometry, index: Any) -> Geometry:
    """The view of a basic index."""
    parts = list(index) if isinstance(index, tuple) else [index]
    taken = sum(part is not None and part is not Ellipsis for part in parts)
    if taken > g.rank:
        raise refuse("index", f"{taken} indices for {g.rank} axes", got=index)
    if sum(part is Ellipsis for part in parts) > 1:
        raise refuse("index", "more than one ...", got=index)
    fill = [slice(None)] * (g.rank - taken)
    at = next((n for n, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[at : at + 1] = fill
    shape, strides, offset, axis = [], [], g.offset, 0
    for part in parts:
        if part is None:
            shape.append(1)
            strides.append(0)
            continue
        extent, stride = g.shape[axis], g.strides[axis]
        if isinstance(part, slice):
            start, stop, step = part.indices(extent)
            count = len(range(start, stop, step))
            offset += start * stride if count else 0
            shape.append(count)
            strides.append(stride * step)
        else:
            offset += _place(part, extent, axis) * stride
        axis += 1
    return Geometry(tuple(shape), tuple(strides), offset)


def _place(part: Any, extent: int, axis: int) -> int:
    at = operator.index(part)
    if not -extent <= at < extent:
        raise OutsideError(
            f"index {at} is outside axis {axis} of {extent} elements", detail="shape",
            next_step=f"indices are from {-extent} to {extent - 1}",
        )  # fmt: skip
    return at % extent


class OutsideError(InvalidArgumentError, IndexError):
    """-1: an index outside its axis. An IndexError, so that ``for`` over a tensor ends."""
