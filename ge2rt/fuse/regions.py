"""Partition of a graph: which nodes get a buffer, and which are computed together in one kernel.

Everything is fused that can be, then cut where it must be: values that several kernels would
compute anew, reductions that rows do not share, views that no strides describe. A cut gives a node
a buffer (it becomes *stored*) and the partition starts again: the result depends on the graph only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ge2rt.base.errors import InternalError
from ge2rt.base.shapes import size_of
from ge2rt.fuse.access import Layout, NotAView, ViewOp, dense, is_view, resolve, view_of
from ge2rt.fuse.merge import OPAQUE, Part, Stored, merge, stripped
from ge2rt.fuse.program import Choices
from ge2rt.fuse.trace import (
    REDUCTIONS,
    Limits,
    Signature,
    Target,
    squeezed,
    trace,
)
from ge2rt.fuse.values import cost_of
from ge2rt.ir.graph import Graph, Node

_FEW_ROWS = 4
_SMALL = 1 << 15
_ROUNDS = 64
_TRIVIAL = 2  # ops on one buffer that are computed again rather than stored
_REPEATS = 64  # points of a kernel at which one element is computed anew rather than stored


@dataclass
class Partition:
    """Where every stored node lies, and what computes it."""

    places: dict[Node, list[Stored]]
    parts: list[Part]
    opaque: list[Node]
    homes: dict[Node, Layout] = field(default_factory=dict)


def partition(graph: Graph, homes: Mapping[Node, Layout], choices: Choices) -> Partition:
    """Cut a graph into kernels. ``homes`` says how the inputs lie in memory."""
    return _Partitioner(graph, homes, choices).run()


class _Partitioner:
    def __init__(self, graph: Graph, homes: Mapping[Node, Layout], choices: Choices) -> None:
        self.graph = graph
        self.limits = Limits(choices.max_values, choices.max_operands)
        self.most = choices.max_operands
        self.order = {node: i for i, node in enumerate((*graph.inputs, *graph.nodes))}
        self.homes: dict[Node, Layout] = dict(homes)
        self.places: dict[Node, list[Stored]] = {}
        self.opaque = [node for node in graph.nodes if node.op in OPAQUE]
        self.traced: dict[Node, Part] = {}

    def run(self) -> Partition:
        self._place_outputs()
        for node in self.opaque:
            self._store(node)
        for node in self.opaque:
            for operand in node.inputs:
                self.require(operand)
        parts: list[Part] = []
        for _ in range(_ROUNDS):
            missing = self._trace_all()
            if not missing:
                parts = self._merge()
                missing = self._repeated(parts) or self._shared(parts)
            if not missing:
                break
            stored = len(self.homes)
            for node in missing:
                self.require(node)
            if len(self.homes) == stored:  # views of what is stored already: no strides will do
                for node in missing:
                    self._store(node)
        else:
            raise InternalError(f"graph {self.graph.name} cannot be cut into kernels")
        parts = self._computed_where_read(self._without_idle(parts))
        return Partition(self.places, parts, self.opaque, self.homes)

    # -- buffers --------------------------------------------------------------------------------

    def _place_outputs(self) -> None:
        for number, output in enumerate(self.graph.outputs):
            base, layout = stripped(output, dense(output.shape))
            if base.op == "reshape":
                # what is behind it has no strides there: filled from a dense reshape, if need be
                stored = Stored(output, dense(output.shape), number, base, layout)
            else:
                stored = Stored(base, layout, number, base, layout)
            node = stored.node
            self.places.setdefault(node, []).append(stored)
            if node.op != "input":
                self.homes.setdefault(node, self.places[node][0].layout)

    def _store(self, node: Node) -> None:
        """Give a node a buffer of its own, if it has none."""
        if node not in self.homes:
            self.homes[node] = dense(node.shape)
            self.places[node] = [Stored.of(node, self.homes[node])]
            stale = [p for p in self.traced.values() if node in p.region.passed]
            for part in stale:
                self.traced.pop(part.targets[0].node, None)

    def require(self, node: Node) -> None:
        """Store a node, or what it is a view of, so that strides describe it."""
        chain: tuple[ViewOp, ...] = ()
        base = node
        while is_view(base) and base not in self.homes:
            chain = (view_of(base), *chain)
            base = base.inputs[0]
        try:
            resolve(chain, self.homes.get(base, dense(base.shape)))
        except NotAView as fault:
            view = fault.view.node or base
            if not self._lay_out(base, view):
                self._store(view)
            self.require(node)
            return
        self._store(base)

    def _lay_out(self, base: Node, view: Node) -> bool:
        """Let an op of its own write its result so that a reshape of it is dense: heads merged."""
        stored = self.places.get(base, [])
        behind, over = stripped(view, dense(view.shape))
        fresh = base.op in OPAQUE and [s.layout for s in stored] == [dense(base.shape)]
        if behind is not base or not fresh or stored[0].output >= 0:
            return False
        self.homes[base] = over
        self.places[base] = [Stored(base, over, -1, base, over)]
        for part in [p for p in self.traced.values() if base in p.region.leaves]:
            self.traced.pop(part.targets[0].node, None)
        return True

    # -- kernels --------------------------------------------------------------------------------

    def _trace_all(self) -> list[Node]:
        missing: dict[Node, None] = {}
        for node in sorted(self.places, key=self._rank):
            if node in self.traced:
                continue
            # what an op of its own writes is copied to further places; an input to every one
            fresh = self.places[node][1 if node.op in OPAQUE else 0 :]
            if fresh:
                part, lacking = self._part_of(tuple(fresh))
                missing.update(dict.fromkeys(lacking))
                if not lacking:
                    self.traced[node] = part
        return list(missing)

    def _rank(self, node: Node) -> int:
        return self.order[node]

    def _part_of(self, targets: tuple[Stored, ...]) -> tuple[Part, tuple[Node, ...]]:
        """The kernel for one node: with the reductions that cost the fewest cuts."""
        best: tuple[Part, tuple[Node, ...]] | None = None
        for signature in self._signatures(targets[0]):
            found = self._trace(targets, signature)
            if best is None or len(found[1]) < len(best[1]):
                best = found
            if not best[1]:
                break
        assert best is not None
        return best

    def _trace(
        self, targets: tuple[Stored, ...], signature: Signature | None
    ) -> tuple[Part, tuple[Node, ...]]:
        own = {t.node for t in targets if t.node is t.base and not t.is_copy}
        region, missing = trace(
            [Target(t.base, t.over) for t in targets], self.homes, own, signature, self.limits
        )
        if signature is not None and not missing and not region.is_walked:
            # nothing tells the extents: the operands of the reductions are stored first
            missing = tuple(
                dict.fromkeys(
                    v.node.inputs[0] for v in region.values if v.kind == "reduce" and v.node
                )
            )
        return Part(targets, signature, region), missing

    def _signatures(self, stored: Stored) -> list[Signature | None]:
        """The reductions that a node's kernel could contain, the most promising first."""
        node = stored.base
        if stored.is_copy or (node is not stored.node and node in self.homes):
            return [None]
        if node.op in REDUCTIONS:
            return [Signature.of(node)]
        found: dict[Signature, int] = {}
        for reduction in self._reductions_below(node):
            signature = Signature.of(reduction)
            if self._suits(node, signature):
                found[signature] = found.get(signature, 0) + 1
        ordered = sorted(found, key=lambda s: -found[s])  # stable: ties keep the graph's order
        return [*ordered[:3], None]

    def _reductions_below(self, node: Node) -> list[Node]:
        found, seen, stack = [], {node}, list(reversed(node.inputs))
        while stack:
            below = stack.pop()
            if below in seen or below in self.homes:
                continue
            seen.add(below)
            if below.op in REDUCTIONS:
                found.append(below)
            elif below.op not in OPAQUE:
                stack += reversed(below.inputs)
        return found

    def _suits(self, node: Node, signature: Signature) -> bool:
        """Whether a node is a row value, or a value at every point, of such a kernel."""
        shape = squeezed(node.shape)
        if shape == squeezed(signature.shape):
            # a few long rows keep few threads busy: better a kernel for the reduction alone
            return signature.rows >= _FEW_ROWS or node.type.size <= _SMALL
        return shape == signature.row_shape

    # -- larger kernels -------------------------------------------------------------------------

    def _merge(self) -> list[Part]:
        """Join kernels that read the same, or each other's values at the same points."""
        parts = [self.traced[n] for n in sorted(self.traced, key=self._rank)]
        return merge(parts, {node: self._reads(node) for node in self.opaque}, self._joined)

    def _reads(self, node: Node) -> set[Node]:
        """The stored nodes that an op of its own reads."""
        found = set()
        for operand in node.inputs:
            while is_view(operand) and operand not in self.homes:
                operand = operand.inputs[0]
            found.add(operand)
        return found

    def _joined(self, first: Part, second: Part) -> Part | None:
        """One kernel for the targets of both, if that costs no more than two."""
        signature = first.signature or second.signature
        if None not in (first.signature, second.signature):
            if first.signature != second.signature:
                return None
        elif signature is None:
            if first.region.full.shape != second.region.full.shape:
                return None
        else:
            alone = first if first.signature is None else second
            if not all(self._suits(stored.base, signature) for stored in alone.targets):
                return None
        targets = first.targets + second.targets
        if len(targets) + len(first.region.leaves | second.region.leaves) > self.most:
            return None
        part, missing = self._trace(targets, signature)
        large = part.count > self.limits.values
        if part.written & part.region.leaves:  # it would read, at other points, what it writes
            return None
        return None if missing or large or part.cost > first.cost + second.cost else part

    def _without_idle(self, parts: list[Part]) -> list[Part]:
        """Values that were stored for another kernel, which then became the same, stay inside."""
        read = {leaf for part in parts for leaf in part.region.leaves}
        read |= {leaf for node in self.opaque for leaf in self._reads(node)}
        found = []
        for part in parts:
            kept = tuple(t for t in part.targets if t.output >= 0 or t.node in read)
            idle = [t.node for t in part.targets if t not in kept]
            if not idle or not kept:
                found.append(part)
                continue
            homes = {node: self.homes.pop(node) for node in idle}
            fewer, missing = self._trace(kept, part.signature)
            if missing:
                self.homes.update(homes)
            else:
                for node in idle:
                    del self.places[node]
            found.append(part if missing else fewer)
        return found

    def _computed_where_read(self, parts: list[Part]) -> list[Part]:
        """A value that one other kernel alone reads is computed there, if that reads less then.

        Cuts fall where a kernel becomes too large, which leaves, say, both ``x`` and ``sin(x)``
        stored for a kernel that could do with ``x``.
        """
        found = list(parts)
        for node in [t.node for part in parts for t in part.targets if t.output < 0]:
            owner = next((p for p in found if node in p.written), None)
            readers = [p for p in found if node in p.region.leaves and p is not owner]
            opaque = any(node in self._reads(each) for each in self.opaque)
            if owner is None or len(readers) != 1 or opaque or len(self.places[node]) > 1:
                continue
            reader, home = readers[0], self.homes.pop(node)
            rest = tuple(t for t in owner.targets if t.node is not node)
            moved = [self._trace(reader.targets, reader.signature)]
            moved += [self._trace(rest, owner.signature)] if rest else []
            made = [part for part, missing in moved if not missing]
            if (
                len(made) < len(moved)
                or made[0].count > self.limits.values
                or not made[0].region.leaves < reader.region.leaves
                or sum(p.cost for p in made) > owner.cost + reader.cost
            ):
                self.homes[node] = home
                continue
            del self.places[node]
            found[found.index(reader)] = made[0]
            at = found.index(owner)
            found[at : at + 1] = made[1:]
        return found

    # -- values that several kernels compute ----------------------------------------------------

    def _shared(self, parts: list[Part]) -> list[Node]:
        """Nodes that more than one kernel computes and that are dear enough to be stored."""
        owners: dict[Node, set[int]] = {}
        for number, part in enumerate(parts):
            for node in part.region.visited:
                owners.setdefault(node, set()).add(number)
        found = []
        for node, numbers in owners.items():
            if len(numbers) < 2 or node in self.homes:
                continue
            users = [u for u in self._readers(node) if owners.get(u) == numbers]
            if not users and not self._is_trivial(node):
                found.append(node)
        return sorted(found, key=self._rank)

    def _repeated(self, parts: list[Part]) -> list[Node]:
        """Nodes of few elements that one kernel computes at very many points: stored, if dear.

        So a normalised row that is multiplied with a matrix is normalised once.
        """
        found: dict[Node, None] = {}
        for part in parts:
            points = size_of(part.region.full.shape)
            few = {
                v.node for v in part.region.values
                if v.kind == "op" and v.place is part.region.full and v.node is not None
                and v.node.type.size * _REPEATS <= points
            }  # fmt: skip
            ends = [n for n in few if not any(user in few for user in self._readers(n))]
            found.update((n, None) for n in ends if n not in self.homes and not self._is_trivial(n))
        return sorted(found, key=self._rank)

    def _readers(self, node: Node) -> list[Node]:
        """The nodes that use a node, through views."""
        found, stack = [], list(self.graph.users[node])
        while stack:
            user = stack.pop()
            if is_view(user):
                stack += self.graph.users[user]
            else:
                found.append(user)
        return found

    def _is_trivial(self, node: Node) -> bool:
        """Whether a node is computed again from one buffer with hardly more than a load."""
        cost, leaves, stack, seen = 0, 0, [node], {node}
        while stack:
            below = stack.pop()
            if below in self.homes:
                leaves += below.type.size > 1
            elif below.op in REDUCTIONS:
                return False
            elif below.op not in ("full", "iota"):
                cost += 0 if is_view(below) else cost_of(below.op)
                stack += [n for n in below.inputs if n not in seen]
                seen.update(below.inputs)
            if cost > _TRIVIAL or leaves > 1:
                return False
        return True
