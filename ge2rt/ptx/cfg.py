"""Control flow of a PTX function: order, dominators, loops, and what reaches what.

Everything is computed on labels and their successors, so that parts of a function (the region
between two barriers) can be analysed like a whole one. Dominators follow Cooper, Harvey, Kennedy,
"A Simple, Fast Dominance Algorithm" (2001).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ge2rt.base.once import cached_property
from ge2rt.ptx.ast import Block, Function


@dataclass(frozen=True)
class Loop:
    """A natural loop. ``exits`` are edges (from inside, to outside); ``latches`` jump back."""

    header: str
    body: frozenset[str]  # with the header
    latches: tuple[str, ...]
    exits: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Graph:
    """Labels with their successors, in textual order; the first label is the entry.

    Labels that the entry does not reach have no place in the orders and trees below.
    """

    successors: Mapping[str, tuple[str, ...]]

    @property
    def entry(self) -> str:
        """The entry's label."""
        return next(iter(self.successors))

    @cached_property
    def predecessors(self) -> dict[str, tuple[str, ...]]:
        """Label -> labels that jump to it, each once, in textual order."""
        found: dict[str, list[str]] = {label: [] for label in self.successors}
        for label, targets in self.successors.items():
            for target in dict.fromkeys(targets):
                found[target].append(label)
        return {label: tuple(sources) for label, sources in found.items()}

    @cached_property
    def reverse_post_order(self) -> tuple[str, ...]:
        """Reachable labels; each stands before its successors, back edges aside."""
        return tuple(reversed(_post_order((self.entry,), self.successors)))

    @cached_property
    def idom(self) -> dict[str, str | None]:
        """Immediate dominator of each reachable label; None for the entry."""
        order = self.reverse_post_order
        return _dominator_tree(order, self.predecessors, roots=(self.entry,))

    @cached_property
    def ipdom(self) -> dict[str, str | None]:
        """Immediate post-dominator; None is the virtual exit.

        A label that cannot leave the function (an endless loop) is given the virtual exit, too.
        """
        leaves = [label for label, targets in self.successors.items() if not targets]
        post = _post_order(leaves, self.predecessors)
        tree = _dominator_tree(tuple(reversed(post)), self.successors, roots=leaves)
        return {label: tree.get(label) for label in self.successors}

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Natural loops, outer before inner; back edges to one header make one loop."""
        latches: dict[str, list[str]] = {}
        for label in self.reverse_post_order:
            for target in dict.fromkeys(self.successors[label]):
                if self.dominates(target, label):
                    latches.setdefault(target, []).append(label)
        found = [self._loop(header, sources) for header, sources in latches.items()]
        place = {label: i for i, label in enumerate(self.reverse_post_order)}
        return tuple(sorted(found, key=lambda loop: place[loop.header]))

    def _loop(self, header: str, latches: Sequence[str]) -> Loop:
        body, todo = {header}, list(latches)
        while todo:
            label = todo.pop()
            if label not in body:
                body.add(label)
                todo.extend(self.predecessors[label])
        inside = [label for label in self.successors if label in body]
        exits = [(a, b) for a in inside for b in self.successors[a] if b not in body]
        return Loop(header, frozenset(body), tuple(latches), tuple(dict.fromkeys(exits)))

    def dominates(self, a: str, b: str) -> bool:
        """Whether every way from the entry to ``b`` passes ``a`` (also if they are the same)."""
        return _above(self.idom, a, b)

    def post_dominates(self, a: str, b: str) -> bool:
        """Whether every way from ``b`` to the virtual exit passes ``a``."""
        return _above(self.ipdom, a, b)

    @cached_property
    def irreducible_edges(self) -> tuple[tuple[str, str], ...]:
        """Edges that go back in the order to a label that does not dominate their source."""
        place = {label: i for i, label in enumerate(self.reverse_post_order)}
        return tuple(
            (a, b)
            for a in place
            for b in dict.fromkeys(self.successors[a])
            if place[b] <= place[a] and not self.dominates(b, a)
        )

    def reachable(
        self, starts: Iterable[str], *, without: Iterable[str] = (), through: bool = False
    ) -> frozenset[str]:
        """Labels reached from ``starts`` (which count) without entering a label of ``without``.

        With ``through`` the labels of ``without`` count when reached, but are not left.
        """
        stops = frozenset(without)
        seen: set[str] = set()
        todo = [label for label in starts if through or label not in stops]
        while todo:
            label = todo.pop()
            if label in seen:
                continue
            seen.add(label)
            if label not in stops:
                todo.extend(t for t in self.successors[label] if through or t not in stops)
        return frozenset(seen)


def graph_of(function: Function) -> Graph:
    """The control-flow graph of a function."""
    return Graph({block.label: block.successors for block in function.blocks})


def subgraph(graph: Graph, entry: str, labels: Iterable[str]) -> Graph:
    """The part of ``graph`` on ``labels``, entered at ``entry``, without edges that leave it."""
    inside = {*labels, entry}
    order = [entry, *(label for label in graph.successors if label in inside and label != entry)]
    return Graph(
        {label: tuple(t for t in graph.successors[label] if t in inside) for label in order}
    )


def split_blocks(function: Function, cut_after: Callable[[Block, int], bool]) -> tuple[Block, ...]:
    """The blocks, cut after each instruction for which ``cut_after(block, index)`` is true.

    The parts of ``b`` are called ``b``, ``b.after.1``, ...; jumps to ``b`` keep their meaning.
    """
    parts: list[Block] = []
    for block in function.blocks:
        cuts = [i + 1 for i in range(len(block.instrs) - 1) if cut_after(block, i)]
        names = [block.label, *(f"{block.label}.after.{n + 1}" for n in range(len(cuts)))]
        for at, (start, end) in enumerate(zip([0, *cuts], [*cuts, None], strict=True)):
            following = block.successors if end is None else (names[at + 1],)
            parts.append(Block(names[at], block.instrs[start:end], following))
    return tuple(parts)


def _post_order(starts: Sequence[str], successors: Mapping[str, Sequence[str]]) -> list[str]:
    seen: set[str] = set()
    order: list[str] = []
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        stack = [(start, iter(successors[start]))]
        while stack:
            label, rest = stack[-1]
            for target in rest:
                if target not in seen:
                    seen.add(target)
                    stack.append((target, iter(successors[target])))
                    break
            else:
                order.append(label)
                stack.pop()
    return order


def _dominator_tree(
    order: tuple[str, ...], predecessors: Mapping[str, Sequence[str]], *, roots: Sequence[str]
) -> dict[str, str | None]:
    """Immediate dominators over a reverse post order; a virtual root stands above ``roots``."""
    place = {label: i + 1 for i, label in enumerate(order)}
    sources = [[0] if label in roots else [] for label in order]
    for found, label in zip(sources, order, strict=True):
        found.extend(place[p] for p in predecessors[label] if p in place)
    parent = [0] + [-1] * len(order)
    changed = True
    while changed:
        changed = False
        for at, found in enumerate(sources, 1):
            new = -1
            for source in found:
                if source == 0 or parent[source] >= 0:
                    new = source if new < 0 else _meet(parent, new, source)
            if parent[at] != new:
                parent[at] = new
                changed = True
    return {label: order[parent[i] - 1] if parent[i] else None for label, i in place.items()}


def _meet(parent: Sequence[int], a: int, b: int) -> int:
    while a != b:
        if a > b:
            a = parent[a]
        else:
            b = parent[b]
    return a


def _above(tree: Mapping[str, str | None], a: str, b: str) -> bool:
    label: str | None = b
    while label is not None:
        if label == a:
            return True
        label = tree.get(label)
    return False
