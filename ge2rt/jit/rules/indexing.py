"""Indexing: basic (views) and advanced (gather), take and its kin, with NumPy's placement rules."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidTypeError
from ge2rt.ir.graph import Node
from ge2rt.jit.faults import OutsideError, not_covered
from ge2rt.jit.promote import broadcast, cast, full, joint, lift, shape_of, view
from ge2rt.jit.rules.shapes import axes_of, axis_of, ravel, reshaped, transposed
from ge2rt.jit.scope import current, emit, where
from ge2rt.jit.table import refuse_type, rule
from ge2rt.jit.traced import Traced


@dataclass(frozen=True)
class Span:
    """Elements of one axis: ``start + i * step`` for ``i < count``; ``drop`` for an integer."""

    start: int
    step: int
    count: int
    drop: bool = False


@dataclass(frozen=True)
class Parsed:
    """An index taken apart.

    ``spans`` has one entry an axis of the array; ``arrays`` are index arrays by axis; ``layout``
    lists, in the order of the index, axes, and None for new ones.
    """

    spans: tuple[Span, ...]
    arrays: dict[int, Traced]
    layout: tuple[int | None, ...]

    @property
    def basic(self) -> bool:
        """Whether the result is a view."""
        return not self.arrays


def get_item(x: Traced, index: Any) -> Traced:
    """``x[index]``; ValueError for an index that is outside, TypeError for one not covered."""
    if x.weak:
        x.ask("[]")
    parsed = parse(x, index)
    if parsed.basic:
        node = _spanned(x.node, parsed.spans)
        shape = [
            1 if axis is None else parsed.spans[axis].count
            for axis in parsed.layout if axis is None or not parsed.spans[axis].drop
        ]  # fmt: skip
        if not shape and not _has_ellipsis(index):  # a scalar, which shares nothing
            element = Traced(reshaped(node, shape))
            element.scalar = True
            return element
        seen = view(reshaped(node, shape), x)
        seen.origin = (x, parsed)
        return seen
    gathered = Traced(_gathered(x.node, parsed))
    gathered.scalar = not gathered.shape
    return gathered


def _has_ellipsis(index: Any) -> bool:
    return any(part is Ellipsis for part in (index if isinstance(index, tuple) else (index,)))


# -- taking an index apart -----------------------------------------------------------------------
def parse(x: Traced, index: Any) -> Parsed:
    """The index over the axes of ``x``; masks are turned into index arrays."""
    entries = _entries(x, index)
    spans: list[Span] = []
    arrays: dict[int, Traced] = {}
    layout: list[int | None] = []
    advanced = any(not _is_plain(entry) for entry in entries)
    for entry in entries:
        if entry is None:
            layout.append(None)
            continue
        axis, extent = len(spans), x.shape[len(spans)]
        layout.append(axis)
        if isinstance(entry, slice):
            spans.append(span(entry, extent))
        elif _is_plain(entry) and not advanced:
            spans.append(Span(at(entry, axis, extent), 1, 1, drop=True))
        else:
            spans.append(Span(0, 1, extent))
            arrays[axis] = _index_array(entry, axis, extent)
    return Parsed(tuple(spans), arrays, tuple(layout))


def _entries(x: Traced, index: Any) -> list[Any]:
    """One entry an axis of ``x`` (and None for new ones): Ellipsis and masks spelt out."""
    given = list(index) if isinstance(index, tuple) else [index]
    given = [list(each) if isinstance(each, range) else each for each in given]
    plain = [entry for each in given for entry in _unmasked(each)]
    dots = [place for place, entry in enumerate(plain) if entry is Ellipsis]
    if len(dots) > 1:
        raise OutsideError("an index has two ...", where=where(), next_step="use one ...")
    used = sum(entry is not None and entry is not Ellipsis for entry in plain)
    missing = x.ndim - used
    if missing < 0:
        raise OutsideError(
            f"{used} indices for an array of {x.ndim} axes", where=where(),
            next_step="leave some out, or add axes by None",
        )  # fmt: skip
    place = dots[0] if dots else len(plain)
    return [*plain[:place], *[slice(None)] * missing, *plain[place + 1 :]]


def _is_plain(entry: Any) -> bool:
    """Whether an entry is basic: a slice, None or an int that is known."""
    if entry is None or isinstance(entry, slice):
        return True
    return isinstance(entry, (int, np.integer)) and not isinstance(entry, (bool, np.bool_))


def _unmasked(entry: Any) -> list[Any]:
    """A boolean mask as the index arrays it stands for; other entries as they are."""
    if isinstance(entry, list):
        entry = np.asarray(entry) if entry else np.zeros(0, np.int64)
    if isinstance(entry, (bool, np.bool_)) or getattr(entry, "dtype", None) == np.bool_:
        if isinstance(entry, Traced):
            raise InvalidTypeError(
                "a boolean mask of traced values: the result's shape would depend on them",
                where=where(),
                next_step="use numpy.where(mask, a, b), or a sum weighted by the mask",
            )  # fmt: skip
        if not np.ndim(entry):
            raise not_covered("an index that is True or False", where())
        mask = current().pin(entry)
        return [np.asarray(each) for each in np.nonzero(mask)]
    return [entry]


def span(entry: slice, extent: int) -> Span:
    """A slice over an axis; its bounds must be known."""
    start, stop, step = slice(*map(_bound, (entry.start, entry.stop, entry.step))).indices(extent)
    count = len(range(start, stop, step))
    return Span(start if count else 0, step if count else 1, count)


def _bound(value: Any) -> int | None:
    return None if value is None else operator.index(value)


def at(entry: Any, axis: int, extent: int) -> int:
    """An int index from 0; ValueError outside."""
    place = operator.index(entry)
    if not -extent <= place < extent:
        raise OutsideError(
            f"index {place} is outside axis {axis}, which has {extent} elements", where=where(),
            expected=f"-{extent} to {extent - 1}" if extent else "no index", next_step="check it",
        )  # fmt: skip
    return place % extent


def _index_array(entry: Any, axis: int, extent: int) -> Traced:
    """An index array whose values are not negative (as far as they are inside at all)."""
    if isinstance(entry, (int, np.integer)):
        return Traced(full((), np.int64, at(entry, axis, extent)))
    return wrapped(lift(entry), extent)


def wrapped(index: Traced, extent: int) -> Traced:
    """Integers with those below 0 counted from the end."""
    element = dtype_of(index.dtype)
    if not element.is_integer:
        raise InvalidTypeError(
            "an index must be an integer", got=element.numpy.name, where=where(),
            next_step="cast it, e.g. i.astype(numpy.int64)",
        )  # fmt: skip
    node = index.node if element.name in ("i32", "i64") else cast(index.node, np.int64)
    if element.kind == "uint":
        return Traced(node)
    if node.op == "full":
        value = int(node.attrs["value"])  # type: ignore[call-overload]
        return Traced(full(node.shape, node.dtype, value + extent * (value < 0)))
    negative = emit("lt", node, full(node.shape, node.dtype, 0))
    shifted = emit("add", node, full(node.shape, node.dtype, extent))
    return Traced(emit("select", negative, shifted, node))


# -- writing it down -----------------------------------------------------------------------------
def _spanned(node: Node, spans: Sequence[Span]) -> Node:
    whole = all(
        (s.start, s.step, s.count) == (0, 1, e) for s, e in zip(spans, node.shape, strict=True)
    )
    if whole:
        return node
    return emit(
        "slice", node, start=tuple(s.start for s in spans), step=tuple(s.step for s in spans),
        shape=tuple(s.count for s in spans),
    )  # fmt: skip


def _gathered(node: Node, parsed: Parsed) -> Node:
    """The indexed axes go first, are gathered, and their result goes where NumPy puts it."""
    axes = list(parsed.arrays)
    rest = [axis for axis in range(len(node.shape)) if axis not in parsed.arrays]
    front = transposed(_spanned(node, parsed.spans), [*axes, *rest])
    found = gather(front, [parsed.arrays[axis] for axis in axes])
    rank = len(found.shape) - len(rest)
    kept = [axis for axis in parsed.layout if axis not in parsed.arrays]
    places = [i for i, axis in enumerate(parsed.layout) if axis in parsed.arrays]
    adjacent = places == list(range(places[0], places[0] + len(places)))
    before = places[0] if adjacent else 0
    return _placed(found, rank, before, kept)


def _placed(found: Node, rank: int, before: int, kept: Sequence[int | None]) -> Node:
    """Move the ``rank`` gathered axes behind ``before`` entries of ``kept``, and add new axes."""
    ahead = sum(axis is not None for axis in kept[:before])
    total = len(found.shape)
    others = list(range(rank, total))
    moved = transposed(found, [*others[:ahead], *range(rank), *others[ahead:]])
    extents = iter([found.shape[i] for i in others])
    shape = [1 if axis is None else next(extents) for axis in kept]
    shape[before:before] = found.shape[:rank]
    return reshaped(moved, shape)


def gather(node: Node, indices: Sequence[Traced]) -> Node:
    """``node[i0, i1, ...]`` over its first axes, the indices broadcast and of one dtype."""
    shape = joint(*(index.shape for index in indices))
    dtype = indices[0].dtype if len({i.dtype for i in indices}) == 1 else np.dtype(np.int64)
    listed = [broadcast(cast(index.node, dtype), shape) for index in indices]
    if 0 in shape:
        return full((*shape, *node.shape[len(listed) :]), node.dtype, 0)
    if 0 in node.shape[: len(listed)]:
        raise OutsideError(
            "every index is outside an array without elements", where=where(),
            next_step="check the shape first",
        )  # fmt: skip
    return emit("gather", node, *listed)


def along(value: Traced, axis: int, index: Any) -> Traced:
    """``value`` indexed along one axis."""
    key = (*(slice(None),) * axis, index)
    made: Traced = value[key]
    return made


# -- NumPy's functions ---------------------------------------------------------------------------
@rule(np.take)
def take(
    a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise"
) -> Traced:
    """``numpy.take``; ``mode`` may be raise (ValueError when it runs), clip or wrap."""
    value = ravel(a) if axis is None or not shape_of(a) else lift(a)  # a number as one element
    place = axis_of(0 if axis is None else axis, value.ndim)
    index = lift(np.zeros(0, np.int64) if _is_nothing(indices) else indices)
    if index.weak:
        index = Traced(cast(index.node, np.int64))
    extent = value.shape[place]
    if mode == "clip":
        index = index.clip(0, max(extent - 1, 0))
    elif mode == "wrap":
        index = index % extent
    elif mode != "raise":
        raise refuse_type(mode)
    return along(value, place, index)


def _is_nothing(indices: Any) -> bool:
    return isinstance(indices, (list, tuple)) and not indices


@rule(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Traced:
    """``numpy.take_along_axis``."""
    value = ravel(arr) if axis is None else lift(arr)
    place = axis_of(0 if axis is None else axis, value.ndim)
    index = lift(indices)
    rest = joint(*((*s[:place], 1, *s[place + 1 :]) for s in (value.shape, index.shape)))
    shape = (*rest[:place], index.shape[place], *rest[place + 1 :])
    wide = broadcast(value.node, (*rest[:place], value.shape[place], *rest[place + 1 :]))
    listed = [
        Traced(emit("iota", shape=shape, dtype="i64", axis=axis_)) if axis_ != place
        else wrapped(index, value.shape[place])
        for axis_ in range(value.ndim)
    ]  # fmt: skip
    return Traced(gather(wide, listed))


@rule(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Traced:
    """``numpy.diagonal``."""
    value = lift(a)
    first, second = axes_of((axis1, axis2), value.ndim)
    rest = [axis for axis in range(value.ndim) if axis not in (first, second)]
    node = transposed(value.node, [first, second, *rest])
    rows, columns = node.shape[:2]
    low, right = max(-offset, 0), max(offset, 0)
    count = max(min(rows - low, columns - right), 0)
    steps = Traced(emit("iota", shape=(count,), dtype="i64", axis=0))
    found = gather(node, [steps + low if low else steps, steps + right if right else steps])
    return Traced(transposed(found, [*range(1, len(found.shape)), 0]))


@rule(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """``numpy.trace``."""
    return diagonal(a, offset, axis1, axis2).sum(axis=-1, dtype=dtype)


@rule(np.choose)
def choose_from(a: Any, choices: Any, mode: str = "raise") -> Traced:
    """``numpy.choose``."""
    from ge2rt.jit.rules.joining import stack  # late: it needs this module

    index = lift(a)
    options = stack(list(np.broadcast_arrays(index, *choices))[1:])
    if mode != "raise":
        index = index.clip(0, len(options) - 1) if mode == "clip" else index % len(options)
    wide = broadcast(index.node, options.shape[1:])
    return take_along_axis(options, Traced(reshaped(wide, (1, *wide.shape))), 0)[0]  # type: ignore[no-any-return]


_BY_VALUES = ("nonzero", "flatnonzero", "argwhere", "unique", "compress", "extract", "union1d",
              "intersect1d", "setdiff1d", "unique_values", "trim_zeros")  # fmt: skip


def _depends(name: str) -> Any:
    def build(*args: Any, **kwargs: Any) -> Any:
        raise not_covered(
            f"numpy.{name}", where(), "the result's shape depends on values",
            "use numpy.where(condition, a, b), or call it outside the jitted function",
        )  # fmt: skip

    return build


for _name in _BY_VALUES:
    rule(getattr(np, _name, None))(_depends(_name))
