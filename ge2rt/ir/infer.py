"""Shape rules by the names of column ``shape`` of ``ops.yaml``.

A rule takes the op's name, the operands' types and the attributes, and returns the result's shape;
it raises :class:`InvalidArgumentError` (a ``ValueError``) where they do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.base.shapes import Shape, reduced_shape, size_of
from ge2rt.ir.graph import TensorType

Types = Sequence[TensorType]
Attrs = Mapping[str, Any]


def refuse(op: str, message: str, *, expected: str = "", got: str = "", hint: str = "") -> NoReturn:
    """Raise the error for operands or attributes that do not fit."""
    raise InvalidArgumentError(
        f"{op}: {message}", expected=expected, got=got, detail="shape",
        next_step=hint or f"see the row {op!r} of ge2rt/ops.yaml",
    )  # fmt: skip


def _listed(types: Types) -> str:
    return ", ".join(map(str, types))


def _given(op: str, types: Types, attrs: Attrs) -> Shape:
    shape: Shape = attrs["shape"]
    if "axis" in attrs:
        _axis(op, attrs["axis"], len(shape))
    return shape


def _axis(op: str, axis: int, rank: int) -> None:
    if not 0 <= axis < rank:
        refuse(op, "axis out of range", expected=f"0 <= axis < {rank}", got=str(axis),
               hint="count axes from 0; add the rank to a negative axis")  # fmt: skip


def _same(op: str, types: Types, attrs: Attrs) -> Shape:
    shape = types[0].shape
    for other in types:
        if other.shape != shape:
            refuse(op, "operands differ in shape", expected="equal shapes", got=_listed(types),
                   hint="broadcast the operands first")  # fmt: skip
    return shape


def _broadcast(op: str, types: Types, attrs: Attrs) -> Shape:
    have, want = types[0].shape, attrs["shape"]
    tail = want[len(want) - len(have) :]
    if len(have) > len(want) or any(h not in (1, w) for h, w in zip(have, tail, strict=True)):
        refuse(op, f"{types[0]} does not broadcast to {want}",
               hint="an extent must be 1 or equal, counted from the last axis")  # fmt: skip
    return want  # type: ignore[no-any-return]


def _transpose(op: str, types: Types, attrs: Attrs) -> Shape:
    shape, perm = types[0].shape, attrs["perm"]
    if tuple(sorted(perm)) != tuple(range(len(shape))):
        refuse(op, "perm is no permutation of the axes", expected=f"all of 0..{len(shape) - 1}",
               got=str(perm), hint="name each axis once")  # fmt: skip
    return tuple(shape[axis] for axis in perm)


def _reshape(op: str, types: Types, attrs: Attrs) -> Shape:
    want: Shape = attrs["shape"]
    if size_of(want) != types[0].size:
        refuse(op, f"{types[0]} cannot be seen as shape {want}",
               expected=f"{types[0].size} elements", got=str(size_of(want)),
               hint="the product of the extents must stay the same")  # fmt: skip
    return want


def _slice(op: str, types: Types, attrs: Attrs) -> Shape:
    have, want = types[0].shape, attrs["shape"]
    start, step = attrs["start"], attrs["step"]
    if not len(start) == len(step) == len(want) == len(have):
        refuse(op, "start, step and shape need an entry an axis", expected=f"{len(have)} entries",
               got=f"{len(start)}, {len(step)} and {len(want)}")  # fmt: skip
    for axis, (extent, first, by, count) in enumerate(zip(have, start, step, want, strict=True)):
        last = first + by * (count - 1)
        if by == 0 or (count and not (0 <= first < extent and 0 <= last < extent)):
            refuse(op, f"{types[0]} lacks elements {first} + i*{by}, i < {count}, on axis {axis}",
                   hint="every index lies in the operand and a step is not 0")  # fmt: skip
    return want  # type: ignore[no-any-return]


def _reduce(op: str, types: Types, attrs: Attrs) -> Shape:
    shape, axes = types[0].shape, attrs["axes"]
    if tuple(sorted(set(axes))) != axes or any(not 0 <= a < len(shape) for a in axes):
        refuse(op, "axes must be sorted, unique and in range", expected=f"0 <= axis < {len(shape)}",
               got=str(axes))  # fmt: skip
    if not axes and shape:
        refuse(op, "no axis is named", expected="at least one axis", hint="leave the node out")
    if op in ("max", "min") and any(shape[a] == 0 for a in axes) and 0 not in reduced(shape, axes):
        refuse(op, f"{types[0]} has nothing along axes {axes}",
               hint="the extreme of nothing has no value; check the shape first")  # fmt: skip
    return reduced(shape, axes)


def reduced(shape: Sequence[int], axes: Sequence[int]) -> Shape:
    """The shape without ``axes``."""
    return reduced_shape(shape, axes, False)


def _reduce_one(op: str, types: Types, attrs: Attrs) -> Shape:
    shape, axis = types[0].shape, attrs["axis"]
    _axis(op, axis, len(shape))
    rest = reduced(shape, (axis,))
    if shape[axis] == 0 and 0 not in rest:
        refuse(op, f"{types[0]} has nothing along axis {axis}",
               hint="the extreme of nothing has no index; check the shape first")  # fmt: skip
    return rest


def _matmul(op: str, types: Types, attrs: Attrs) -> Shape:
    a, b = types[0].shape, types[1].shape
    if len(a) < 2 or len(a) != len(b) or a[:-2] != b[:-2] or a[-1] != b[-2]:
        refuse(op, "operands do not fit", expected="[B.., M, K] and [B.., K, N]",
               got=_listed(types[:2]),
               hint="broadcast the batch axes and give 1-D operands an axis first")  # fmt: skip
    return (*a[:-1], b[-1])


def _gather(op: str, types: Types, attrs: Attrs) -> Shape:
    x, indices = types[0].shape, types[1:]
    if not 1 <= len(indices) <= len(x):
        refuse(op, f"{len(indices)} indices for {types[0]}", expected=f"1 to {len(x)} indices")
    shape = _same(op, indices, attrs)
    if size_of(shape) and 0 in x[: len(indices)]:
        refuse(op, f"nothing lies in {types[0]}: every index is outside",
               hint="check the shape first")  # fmt: skip
    return shape + x[len(indices) :]


def _concat(op: str, types: Types, attrs: Attrs) -> Shape:
    first, axis = types[0].shape, attrs["axis"]
    _axis(op, axis, len(first))
    for other in types:
        kept = len(other.shape) == len(first) and reduced(other.shape, (axis,))
        if kept != reduced(first, (axis,)):
            refuse(op, "operands differ beyond the axis", expected=f"equal shapes but axis {axis}",
                   got=_listed(types))  # fmt: skip
    return (*first[:axis], sum(t.shape[axis] for t in types), *first[axis + 1 :])


def _pad(op: str, types: Types, attrs: Attrs) -> Shape:
    shape, low, high = types[0].shape, attrs["low"], attrs["high"]
    if len(low) != len(shape) or len(high) != len(shape) or min((*low, *high), default=0) < 0:
        refuse(op, f"low {low} and high {high} do not fit {types[0]}",
               expected="a count that is not negative for each axis")  # fmt: skip
    return tuple(a + e + b for a, e, b in zip(low, shape, high, strict=True))


def _scatter(op: str, types: Types, attrs: Attrs) -> Shape:
    x, index, count = types[0].shape, types[1].shape, attrs["count"]
    if len(x) != 2 or index != x[:1] or count < 0:
        refuse(op, f"operands do not fit {count} rows", expected="[M, N] and indices [M]",
               got=_listed(types))  # fmt: skip
    if count == 0 and x[0]:
        refuse(op, "there are no rows: every index is outside", hint="check the shape first")
    return (count, x[1])


def _along(op: str, types: Types, attrs: Attrs) -> Shape:
    _axis(op, attrs["axis"], types[0].rank)
    return types[0].shape


def _spreads(shape: Sequence[int], to: Sequence[int]) -> bool:
    tail = to[max(len(to) - len(shape), 0) :]
    return len(shape) <= len(to) and all(h in (1, w) for h, w in zip(shape, tail, strict=True))


def _gemm(op: str, types: Types, attrs: Attrs) -> Shape:
    shape = _matmul(op, types, attrs)
    if len(types) > 2 and not _spreads(types[2].shape, shape):
        refuse(op, f"the bias {types[2]} does not broadcast to {shape}")
    return shape


def _attention(op: str, types: Types, attrs: Attrs) -> Shape:
    q, k, v = (t.shape for t in types[:3])
    batch = q[:-2]
    whole = len(q) >= 2 and len(q) == len(k) == len(v) and k[:-2] == batch == v[:-2]
    if not whole or q[-1] != k[-1] or k[-2] != v[-2]:
        refuse(op, "operands do not fit", expected="[B.., S, D], [B.., T, D] and [B.., T, E]",
               got=_listed(types))  # fmt: skip
    scores = (*batch, q[-2], k[-2])
    if len(types) > 3 and not _spreads(types[3].shape, scores):
        refuse(op, f"the mask {types[3]} does not broadcast to {scores}")
    return (*q[:-1], v[-1])


SHAPE_RULES: Mapping[str, Callable[[str, Types, Attrs], Shape]] = {
    "given": _given, "same": _same, "broadcast": _broadcast, "transpose": _transpose,
    "reshape": _reshape, "slice": _slice, "reduce": _reduce, "reduce_one": _reduce_one,
    "matmul": _matmul, "gather": _gather, "concat": _concat, "pad": _pad,
    "scatter": _scatter, "along": _along,
    "gemm": _gemm, "attention": _attention,
}  # fmt: skip
