"""From nodes to the values of one kernel: walk back from what is stored to what can be read.

Views are carried along as a chain and end up in strides. A node that this kernel cannot compute is
reported as *missing*: the caller gives it a buffer of its own and tries again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ge2rt.base.shapes import size_of
from ge2rt.fuse.access import (
    Chain,
    Layout,
    NotAView,
    Shape,
    ViewOp,
    dense,
    is_view,
    ramp,
    resolve,
    view_of,
)
from ge2rt.fuse.values import (
    BRANCH,
    EXPENSIVE,
    FULL,
    ROW,
    Branch,
    Place,
    Region,
    Store,
    Value,
    cost_of,
    weight_of,
)
from ge2rt.ir.graph import Node
from ge2rt.ir.ops import OPS

REDUCTIONS = frozenset({"sum", "prod", "max", "min", "any", "all", "argmax", "argmin"})
_MOST_BRANCHES = 8
_MUCH = 1 << 14  # points from which repeated work is worth a kernel of its own

Visit: TypeAlias = "Generator[Any, Any, Value]"


def axes_of(node: Node) -> Shape:
    """The axes a reduction reduces."""
    axes = node.attrs.get("axes", ())
    if node.op in ("argmax", "argmin"):
        axes = (node.attrs["axis"],)
    assert isinstance(axes, tuple)
    return axes


@dataclass(frozen=True)
class Signature:
    """The reductions of one kernel: the shape they see and the axes they reduce."""

    shape: Shape
    axes: Shape

    @property
    def kept(self) -> Shape:
        """Axes that stay."""
        return tuple(a for a in range(len(self.shape)) if a not in self.axes)

    @property
    def row_shape(self) -> Shape:
        """Extents of the kept axes, those of 1 left out."""
        return squeezed(self.shape[a] for a in self.kept)

    @property
    def full_shape(self) -> Shape:
        """Kept axes, then reduced ones, those of extent 1 left out."""
        return self.row_shape + squeezed(self.shape[a] for a in self.axes)

    @property
    def chain(self) -> Chain:
        """From a tensor of ``shape`` to ``full_shape``."""
        turned = ViewOp("transpose", (self.kept + self.axes,))
        return (turned, ViewOp("reshape", (self.full_shape,)))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return size_of(self.row_shape)

    @classmethod
    def of(cls, node: Node) -> Signature:
        """The signature of a reduction."""
        return cls(node.inputs[0].shape, axes_of(node))


def squeezed(shape: Any) -> Shape:
    """A shape without its extents of 1."""
    return tuple(extent for extent in shape if extent != 1)


@dataclass(frozen=True)
class Target:
    """A node to store and the layout of its buffer over the node's shape."""

    node: Node
    layout: Layout


@dataclass(frozen=True)
class Limits:
    """How large one kernel may become."""

    values: int = 1000
    operands: int = 64


def trace(
    targets: Sequence[Target], leaves: Mapping[Node, Layout], own: set[Node],
    signature: Signature | None, limits: Limits,
) -> tuple[Region, tuple[Node, ...]]:  # fmt: skip
    """The kernel that computes ``targets``, and the nodes it cannot compute.

    It reads the buffers of ``leaves`` and computes the nodes in ``own`` itself. Where the second is
    not empty, those nodes need buffers before the region means anything.
    """
    tracer = _Tracer(targets, leaves, own, signature, limits)
    for target in targets:
        tracer.add(target)
    return tracer.region, tuple(dict.fromkeys(tracer.missing))


class _Tracer:
    def __init__(
        self, targets: Sequence[Target], leaves: Mapping[Node, Layout], own: set[Node],
        signature: Signature | None, limits: Limits,
    ) -> None:  # fmt: skip
        self.leaves = leaves
        self.own = own
        self.signature = signature
        self.limits = limits
        self.missing: list[Node] = []
        self.memo: dict[Any, Value] = {}
        self.cut: set[Node] = set()
        self.since_cut = 0
        self.leaves_cut = 0
        if signature is None:
            self.region = Region(Place(FULL, targets[0].node.shape), None, 0)
        else:
            row = Place(ROW, signature.row_shape)
            self.region = Region(Place(FULL, signature.full_shape), row, len(row.shape))

    def add(self, target: Target) -> None:
        place, chain = self.place_of(target.node)
        value = _run(self.visit(target.node, chain, place))
        layout = resolve(chain, target.layout)
        self.region.stores.append(Store(target.node, self.at(value, place), layout))

    def at(self, value: Value, place: Place) -> Value:
        """A row value or constant that is stored at every point becomes a value of that place."""
        if value.place is place:
            return value
        if value.kind == "const":
            return self.keep(replace(value, place=place))
        return self.keep(Value("same", value.dtype, place, args=(value,), depth=value.depth))

    def place_of(self, node: Node) -> tuple[Place, Chain]:
        signature, region = self.signature, self.region
        if signature is None:
            return region.full, ()
        assert region.row is not None
        if node.shape == signature.shape:
            return region.full, signature.chain
        if squeezed(node.shape) == squeezed(signature.shape):
            return region.full, (ViewOp("reshape", (signature.shape,)), *signature.chain)
        return region.row, (ViewOp("reshape", (region.row.shape,)),)

    # -- one node at the coordinates of a place -------------------------------------------------

    def visit(self, node: Node, chain: Chain, place: Place) -> Visit:
        flat = _flat(node, chain)
        if flat is not None and flat.key == dense(place.shape).key and node.shape == place.shape:
            chain = ()
        chain, place = self.lifted(flat, chain, place)
        shown: Any = flat.key if flat is not None else tuple((v.op, v.values) for v in chain)
        key = (node, shown, place)
        known = self.memo.get(key)
        if known is None:
            try:
                known = yield from self.make(node, chain, place)
            except NotAView as fault:
                known = self.lack(fault.view.node or node, node, place)
            self.memo[key] = known
        return known

    def lifted(self, flat: Layout | None, chain: Chain, place: Place) -> tuple[Chain, Place]:
        """A value that is the same along the row is computed once a row."""
        region = self.region
        if region.row is None or place is not region.full or flat is None:
            return chain, place
        behind = zip(flat.shape[region.kept :], flat.strides[region.kept :], strict=True)
        if any(step and extent != 1 for extent, step in behind) or 0 in place.shape:
            return chain, place
        rank = len(place.shape)
        one = (*region.row.shape, *(1,) * (rank - region.kept))
        first = ViewOp("slice", ((0,) * rank, (1,) * rank, one))
        return (*chain, first, ViewOp("reshape", (region.row.shape,))), region.row

    def make(self, node: Node, chain: Chain, place: Place) -> Visit:
        if node in self.leaves and node not in self.own:
            return self.load(node, self.leaves[node], chain, place)
        self.region.passed.add(node)
        if is_view(node):
            value: Value = yield self.visit(node.inputs[0], (view_of(node), *chain), place)
            return value
        if node.op == "full":
            return self.keep(Value("const", node.dtype, place, node, constant=_constant(node)))
        if node.op == "iota":
            axis = node.attrs["axis"]
            assert isinstance(axis, int)
            layout = resolve(chain, ramp(node.shape, axis))
            return self.keep(Value("coord", node.dtype, place, node, layout=layout))
        if node.op in REDUCTIONS:
            return (yield from self.reduce(node, chain, place))
        if node.op in _JOINS:
            joined: Value = yield from _JOINS[node.op](self, node, chain, place)
            return joined
        if OPS[node.op].pointwise:
            return (yield from self.pointwise(node, chain, place))
        return self.lack(node, node, place)

    def load(self, node: Node, home: Layout, chain: Chain, place: Place) -> Value:
        self.region.leaves.add(node)
        layout = resolve(chain, home)
        return self.keep(Value("load", node.dtype, place, node, source=node, layout=layout))

    def pointwise(self, node: Node, chain: Chain, place: Place) -> Visit:
        cost = cost_of(node.op)
        size = size_of(place.shape)
        repeated = size >= 4 * max(node.type.size, 1) and size >= _MUCH
        if node in self.cut or (node not in self.own and cost >= EXPENSIVE and repeated):
            return self.lack(node, node, place)
        args = []
        for operand in node.inputs:
            args.append((yield self.visit(operand, chain, place)))
        self.region.visited.add(node)
        depth = max(arg.depth for arg in args)
        self.since_cut += weight_of(node)
        if node not in self.own and self.is_large():
            self.cut.add(node)  # at other places as well: stencils see a node at very many
            return self.lack(node, node, place)
        return self.keep(Value("op", node.dtype, place, node, tuple(args), depth=depth, cost=cost))

    def is_large(self) -> bool:
        """Whether the kernel has grown by as much as it may since the last cut."""
        leaves = len(self.region.leaves)
        if (
            self.since_cut <= self.limits.values
            and leaves - self.leaves_cut <= self.limits.operands
        ):
            return False
        self.since_cut, self.leaves_cut = 0, leaves - 1  # the node cut off is one more to read
        return True

    def reduce(self, node: Node, chain: Chain, place: Place) -> Visit:
        signature, region = self.signature, self.region
        if signature is None or place is not region.row or not self.fits(node, chain):
            return self.lack(node, node, place)
        operand = node.inputs[0]
        back: Chain = ()
        if operand.shape != signature.shape:
            back = (ViewOp("reshape", (signature.shape,)),)
        value = yield self.visit(operand, (*back, *signature.chain), region.full)
        region.visited.add(node)
        if value.place is not region.full:
            value = self.at(value, region.full)
        return self.keep(Value("reduce", node.dtype, place, node, (value,), depth=value.depth + 1))

    def fits(self, node: Node, chain: Chain) -> bool:
        """Whether a reduction is one of this kernel, seen by each row at its own place."""
        signature, region = self.signature, self.region
        assert signature is not None
        assert region.row is not None
        other = Signature.of(node)
        same = other == signature or (
            other.row_shape == signature.row_shape
            and other.full_shape == signature.full_shape
            and squeezed(other.shape) == squeezed(signature.shape)
        )
        flat = _flat(node, chain)
        return same and flat is not None and flat.key == dense(region.row.shape).key

    # -- joins ----------------------------------------------------------------------------------

    def gather(self, node: Node, chain: Chain, place: Place) -> Visit:
        source, indices = node.inputs[0], node.inputs[1:]
        base, home = self.stored(source)
        if home is None:
            return self.lack(base, node, place)
        shape, count = indices[0].shape, len(indices)
        rest = source.shape[count:]
        kept = Layout(shape + rest, (0,) * len(shape) + home.strides[count:], home.offset)
        behind = resolve(chain, kept)
        layout = Layout(
            source.shape[:count] + behind.shape, home.strides[:count] + behind.strides,
            behind.offset,
        )  # fmt: skip
        spread = (
            ViewOp("reshape", (shape + (1,) * len(rest),)), ViewOp("broadcast", (shape + rest,)),
        )  # fmt: skip
        args = []
        for index in indices:
            args.append((yield self.visit(index, (*spread, *chain), place)))
        self.region.leaves.add(base)
        self.region.visited.add(node)
        depth = max(arg.depth for arg in args)
        return self.keep(
            Value("gather", node.dtype, place, node, tuple(args), base, layout, depth=depth, cost=2)
        )

    def stored(self, node: Node) -> tuple[Node, Layout | None]:
        """The buffer behind views of it, and what the node is in it; None if it has none."""
        chain: Chain = ()
        base = node
        while is_view(base) and base not in self.leaves:
            chain = (view_of(base), *chain)
            base = base.inputs[0]
        if base not in self.leaves or base in self.own:
            return node, None
        try:
            return base, resolve(chain, self.leaves[base])
        except NotAView as fault:
            return fault.view.node or node, None

    def concat(self, node: Node, chain: Chain, place: Place) -> Visit:
        axis = node.attrs["axis"]
        assert isinstance(axis, int)
        if len(node.inputs) > _MOST_BRANCHES and node not in self.own:
            return self.lack(node, node, place)
        at = [resolve(chain, ramp(node.shape, a)) for a in range(len(node.shape))]
        start, branches = 0, []
        for operand in node.inputs:
            extent = operand.shape[axis]
            moved = [_moved(c, start if a == axis else 0) for a, c in enumerate(at)]
            inner = Place(BRANCH, operand.shape, place, tuple(moved))
            if extent:
                value = yield self.visit(operand, (), inner)
                where = ((at[axis], start, start + extent),)
                branches.append(Branch(where, inner, self.at(value, inner)))
            start += extent
        return self.join(node, place, branches)

    def pad(self, node: Node, chain: Chain, place: Place) -> Visit:
        (operand,) = node.inputs
        low = node.attrs["low"]
        assert isinstance(low, tuple)
        at = [resolve(chain, ramp(node.shape, a)) for a in range(len(node.shape))]
        moved = tuple(_moved(c, low[a]) for a, c in enumerate(at))
        inner = Place(BRANCH, operand.shape, place, moved)
        value = yield self.visit(operand, (), inner)
        where = tuple(
            (at[a], low[a], low[a] + extent)
            for a, extent in enumerate(operand.shape)
            if extent != node.shape[a]
        )
        outside = Place(BRANCH, node.shape, place, tuple(at))
        fill = Value("const", node.dtype, outside, node, constant=node.attrs["value"])  # type: ignore[arg-type]
        branches = [
            Branch(where, inner, self.at(value, inner)), Branch((), outside, self.keep(fill)),
        ]  # fmt: skip
        return self.join(node, place, branches if where else branches[:1])

    def join(self, node: Node, place: Place, branches: list[Branch]) -> Value:
        self.region.visited.add(node)
        depth = max(branch.value.depth for branch in branches)
        return self.keep(
            Value("choose", node.dtype, place, node, branches=tuple(branches), depth=depth, cost=2)
        )

    # -- records --------------------------------------------------------------------------------

    def keep(self, value: Value) -> Value:
        self.region.values.append(value)
        return value

    def lack(self, missing: Node, node: Node, place: Place) -> Value:
        """Note what has no buffer yet, and go on with something in its place."""
        self.missing.append(missing)
        return Value("const", node.dtype, place, node)


_JOINS: Mapping[str, Any] = {
    "gather": _Tracer.gather, "concat": _Tracer.concat, "pad": _Tracer.pad,
}  # fmt: skip


def _flat(node: Node, chain: Chain) -> Layout | None:
    try:
        return resolve(chain, dense(node.shape))
    except NotAView:
        return None


def _moved(layout: Layout, by: int) -> Layout:
    return Layout(layout.shape, layout.strides, layout.offset - by)


def _constant(node: Node) -> Any:
    return node.attrs["value"]


def _run(visit: Visit) -> Value:
    """Run nested visits on a stack of our own, however deep the graph is."""
    stack: list[Visit] = [visit]
    result: Any = None
    while stack:
        try:
            stack.append(stack[-1].send(result))
            result = None
        except StopIteration as done:
            stack.pop()
            result = done.value
    assert isinstance(result, Value)
    return result
