"""Kernels to be: what each stores, and joining those that read or compute the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ge2rt.base.once import cached_property
from ge2rt.fuse.access import Layout, NotAView, inverse, resolve, view_of
from ge2rt.fuse.trace import Signature
from ge2rt.fuse.values import Region
from ge2rt.ir.graph import Node

# Ops with kernels of their own.
OPAQUE = frozenset({
    "matmul", "gemm_bias_act", "attention", "scatter_rows", "cumsum", "cumprod", "sort", "argsort",
})  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """Where a node lies: an output's number or -1 for a temporary, and its layout there.

    ``base`` is what a kernel computes to fill it, in the layout ``over``: the node, or what it is a
    reshape or transposition of.
    """

    node: Node
    layout: Layout
    output: int
    base: Node
    over: Layout

    @classmethod
    def of(cls, node: Node, layout: Layout, output: int = -1) -> Stored:
        """With the base found."""
        base, over = stripped(node, layout)
        return cls(node, layout, output, base, over)

    @property
    def is_copy(self) -> bool:
        """Whether it is filled from where the base lies already."""
        return self.base.op == "input" or self.base.op in OPAQUE


@dataclass(eq=False)
class Part:
    """One kernel to be: the nodes it stores, its reductions, and its traced values."""

    targets: tuple[Stored, ...]
    signature: Signature | None
    region: Region

    @cached_property
    def nodes(self) -> frozenset[Node]:
        """The nodes it stores."""
        return frozenset(target.node for target in self.targets)

    @cached_property
    def written(self) -> frozenset[Node]:
        """The nodes whose buffers it fills where others read them: all but further copies."""
        return frozenset(t.node for t in self.targets if t.node is not t.base or not t.is_copy)

    @property
    def count(self) -> int:
        """Number of its pointwise values, long functions counted as many."""
        return self.region.weight

    @property
    def cost(self) -> int:
        """What its values cost at one point."""
        return sum(max(v.cost, v.kind == "reduce") for v in self.region.values)


def stripped(node: Node, layout: Layout) -> tuple[Node, Layout]:
    """The node behind reshapes and transpositions, and its layout where ``node`` has ``layout``."""
    while node.op in ("reshape", "transpose"):
        back = inverse(view_of(node), node.inputs[0].shape)
        assert back is not None
        try:
            layout = resolve((back,), layout)
        except NotAView:
            break
        node = node.inputs[0]
    return node, layout


def merge(
    parts: list[Part], opaque: Mapping[Node, set[Node]], join: Callable[[Part, Part], Part | None]
) -> list[Part]:
    """Join related parts as long as ``join`` agrees and nothing must run between the two.

    ``opaque`` maps the ops with kernels of their own to the stored nodes that they read.
    """
    refused: set[tuple[int, int]] = set()
    gone: list[Part] = []  # they stay alive, so that no other part gets their id
    kept = list(parts)
    order = _Order(kept, opaque)
    at = 0
    while at < len(kept):
        first = kept[at]
        for second in _candidates(first, kept[at + 1 :]):
            pair = (id(first), id(second))
            if pair in refused or order.is_between(first, second):
                continue
            joined = join(first, second)
            if joined is not None:
                kept[at] = joined
                kept.remove(second)
                gone += [first, second]
                if not order.join(first, second, joined):
                    order = _Order(kept, opaque)
                break
            refused.add(pair)
        else:
            at += 1
    return kept


def _candidates(first: Part, others: list[Part]) -> Iterator[Part]:
    return (other for other in others if _related(first, other))


def _related(first: Part, second: Part) -> bool:
    a, b = first.region, second.region
    if not first.written.isdisjoint(b.leaves) or not second.written.isdisjoint(a.leaves):
        return True
    if not a.visited.isdisjoint(b.visited):
        return True
    if (first.signature is None) != (second.signature is None):
        return False
    # only what is read at most points is worth sharing
    return any(2 * leaf.type.size >= max(a.size, 2) for leaf in a.leaves & b.leaves)


class _Order:
    """Which kernels must have run before which, as sets of bits."""

    def __init__(self, parts: list[Part], opaque: Mapping[Node, set[Node]]) -> None:
        self.number = {id(part): i for i, part in enumerate(parts)}
        owner = {node: i for i, part in enumerate(parts) for node in part.written}
        for node in opaque:
            owner.setdefault(node, len(parts) + len(owner))
        self.owner = owner
        reads = [(self.number[id(part)], part.region.leaves) for part in parts]
        reads += [(owner[node], read) for node, read in opaque.items()]
        self.direct = {unit: {owner[n] for n in nodes if n in owner} for unit, nodes in reads}
        self.before: dict[int, int] = {}
        for unit in self.direct:
            self._close(unit)

    def _close(self, unit: int) -> None:
        stack = [unit]
        while stack:
            top = stack[-1]
            waiting = [d for d in self.direct[top] if d not in self.before and d != top]
            if top in self.before or not waiting:
                stack.pop()
                bits = 0
                for below in self.direct[top] - {top}:
                    bits |= self.before[below] | 1 << below
                self.before[top] = bits
            else:
                stack += waiting

    def join(self, first: Part, second: Part, joined: Part) -> bool:
        """Have one part in place of two; False where it reads or writes other than both did.

        What had to run before either now runs before all that either had to run before.
        """
        a, b = self.number[id(first)], self.number[id(second)]
        if joined.written != first.written | second.written:
            return False
        self.owner.update(dict.fromkeys(second.written, a))
        reads = {self.owner[node] for node in joined.region.leaves if node in self.owner}
        if reads - {a} != (self.direct[a] | self.direct[b]) - {a, b}:
            return False
        self.number[id(joined)] = a
        self.direct[a] = reads
        del self.direct[b]
        both = 1 << a | 1 << b
        below = (self.before[a] | self.before.pop(b)) & ~both
        for unit, bits in self.before.items():
            if bits & both:
                self.before[unit] = bits & ~both | 1 << a | below
        self.before[a] = below
        for unit, direct in self.direct.items():
            if b in direct:
                self.direct[unit] = direct - {b} | {a}
        return True

    def is_between(self, first: Part, second: Part) -> bool:
        """Whether something else must run after one and before the other."""
        a, b = self.number[id(first)], self.number[id(second)]
        return self._through(a, b) or self._through(b, a)

    def _through(self, early: int, late: int) -> bool:
        return any(self.before[d] >> early & 1 for d in self.direct[late] - {early, late})
