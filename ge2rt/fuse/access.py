"""Views as address arithmetic: a chain of views over a buffer is strides and an offset, or is not.

A :class:`Layout` says where the elements of a tensor lie, in elements from the buffer's start. A
view maps one layout to another without moving anything. Only a reshape can fail: where neighbouring
axes do not lie one after the other in memory, no strides describe the result.

The same arithmetic serves for coordinates: the tensor whose value is its own index along an axis is
a layout whose "address" is that index (:func:`ramp`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ge2rt.base.shapes import contiguous_strides, size_of
from ge2rt.ir.graph import Node

Shape: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True)
class Layout:
    """Shape, strides and offset in elements."""

    shape: Shape
    strides: Shape
    offset: int = 0

    @property
    def key(self) -> tuple[Shape, int]:
        """Equal for layouts of one shape that name the same addresses."""
        if 0 in self.shape:
            return (0,) * len(self.shape), 0
        steps = zip(self.shape, self.strides, strict=True)
        return tuple(0 if extent == 1 else step for extent, step in steps), self.offset


@dataclass(frozen=True)
class ViewOp:
    """One view: its op and its parameters; ``node`` is where it stands in the graph, if it does."""

    op: str
    values: tuple[Any, ...]
    node: Node | None = None


Chain: TypeAlias = "tuple[ViewOp, ...]"


class NotAView(Exception):
    """A chain of views that no strides describe; ``view`` is the link that fails."""

    def __init__(self, view: ViewOp) -> None:
        self.view = view
        super().__init__(f"{view.op}{view.values}")


def dense(shape: Shape) -> Layout:
    """The row-major layout."""
    return Layout(shape, contiguous_strides(shape))


def ramp(shape: Shape, axis: int) -> Layout:
    """The layout whose addresses are the indices along ``axis``."""
    return Layout(shape, tuple(int(a == axis) for a in range(len(shape))))


def view_of(node: Node) -> ViewOp:
    """The view that a view node is."""
    names = _PARAMETERS[node.op]
    return ViewOp(node.op, tuple(node.attrs[name] for name in names), node)


def is_view(node: Node) -> bool:
    """Whether a node only looks at its operand in another way."""
    return node.op in _PARAMETERS


_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "broadcast": ("shape",), "transpose": ("perm",), "reshape": ("shape",),
    "slice": ("start", "step", "shape"),
}  # fmt: skip


def resolve(chain: Chain, layout: Layout) -> Layout:
    """The layout after all views of the chain; :class:`NotAView` says which of them has none."""
    for view in chain:
        found: Layout | None = _APPLY[view.op](layout, *view.values)
        if found is None:
            raise NotAView(view)
        layout = found
    return layout


def _broadcast(layout: Layout, shape: Shape) -> Layout:
    pad = len(shape) - len(layout.shape)
    steps = zip(layout.shape, layout.strides, shape[pad:], strict=True)
    kept = tuple(0 if have == 1 and want != 1 else step for have, step, want in steps)
    return Layout(shape, (0,) * pad + kept, layout.offset)


def _transpose(layout: Layout, perm: Shape) -> Layout:
    return Layout(
        tuple(layout.shape[a] for a in perm), tuple(layout.strides[a] for a in perm), layout.offset
    )


def _slice(layout: Layout, start: Shape, step: Shape, shape: Shape) -> Layout:
    if 0 in shape:
        return Layout(shape, (0,) * len(shape), layout.offset)
    moved = sum(s * stride for s, stride in zip(start, layout.strides, strict=True))
    strides = tuple(s * stride for s, stride in zip(step, layout.strides, strict=True))
    return Layout(shape, strides, layout.offset + moved)


def _reshape(layout: Layout, shape: Shape) -> Layout | None:
    """NumPy's rule: runs of old axes that step evenly become runs of new axes."""
    if 0 in shape:
        return Layout(shape, (0,) * len(shape), layout.offset)
    pairs = zip(layout.shape, layout.strides, strict=True)
    old = [(extent, step) for extent, step in pairs if extent != 1]
    strides = [0] * len(shape)
    new = [axis for axis, extent in enumerate(shape) if extent != 1]
    at = 0
    while new:
        taken, group = [new.pop(0)], 1
        count, old_count = shape[taken[0]], old[at][0]
        while count != old_count:
            if count < old_count:
                taken.append(new.pop(0))
                count *= shape[taken[-1]]
            else:
                old_count *= old[at + group][0]
                group += 1
        run = old[at : at + group]
        if any(a[1] != b[0] * b[1] for a, b in itertools.pairwise(run)):
            return None
        step = run[-1][1]
        for axis in reversed(taken):
            strides[axis] = step
            step *= shape[axis]
        at += group
    return Layout(shape, tuple(strides), layout.offset)


_APPLY: Mapping[str, Callable[..., Layout | None]] = {
    "broadcast": _broadcast, "transpose": _transpose, "reshape": _reshape, "slice": _slice,
}  # fmt: skip


def inverse(view: ViewOp, shape: Shape) -> ViewOp | None:
    """The view that undoes a reshape or a transposition of a tensor of ``shape``; else None."""
    if view.op == "reshape":
        return ViewOp("reshape", (shape,))
    if view.op == "transpose":
        (perm,) = view.values
        return ViewOp("transpose", (tuple(perm.index(a) for a in range(len(perm))),))
    return None


def merge_axes(shape: Shape, riders: Sequence[Shape]) -> list[list[int]]:
    """Runs of axes that all riders (strides over ``shape``) step through evenly, without size 1."""
    runs: list[list[int]] = []
    for axis in (a for a, extent in enumerate(shape) if extent != 1):
        before = runs[-1][-1] if runs else -1
        if runs and all(r[before] == r[axis] * shape[axis] for r in riders):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def merged(values: Shape, runs: Sequence[Sequence[int]], *, extents: bool) -> Shape:
    """Extents (their products) or strides (the last of each run) of merged axes; at least one."""
    if extents:
        return tuple(size_of([values[a] for a in run]) for run in runs) or (1,)
    return tuple(values[run[-1]] for run in runs) or (0,)
