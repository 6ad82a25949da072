"""Order and shape of a control-flow graph of ints: loops, post-dominators, reach. Sets are ints.

The order is a topological one in which every loop stands in one piece, whatever its nesting, so
that a walk over the blocks in this order gathers all lanes of an iteration at the loop's last
block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

Edges = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Loop:
    """A loop: its header and all members (a bit set, the header included)."""

    header: int
    members: int


def bits(mask: int) -> Iterator[int]:
    """The positions of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def bits_of(positions: Collection[int]) -> int:
    """The mask with the bits at these positions set."""
    field = bytearray(max(positions, default=-1) // 8 + 1)
    for position in positions:
        field[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(field, "little")


def components(nodes: set[int], edges: Edges, skip: frozenset[tuple[int, int]]) -> list[list[int]]:
    """Strongly connected components of the subgraph, in topological order (Tarjan, 1972)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in sorted(nodes, reverse=True):
        if root in index:
            continue
        work = [(root, iter(sorted(edges[root], reverse=True)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for target in successors:
                if target not in nodes or (node, target) in skip:
                    continue
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(edges[target], reverse=True))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    found.append(stack[at:])
                    on_stack.difference_update(stack[at:])
                    del stack[at:]
    return found[::-1]


def loop_order(count: int, edges: Edges, entry: int) -> tuple[list[int], list[Loop]]:
    """All nodes reachable from ``entry`` in an order with contiguous loops, and the loops.

    Outer loops stand before the loops inside them. An irreducible cycle counts as a loop headed by
    its first entered node.
    """
    order: list[int] = []
    loops: list[Loop] = []
    alive = set(bits(reach(edges, [entry], (1 << count) - 1)))

    def place(nodes: set[int], skip: frozenset[tuple[int, int]]) -> None:
        for part in components(nodes, edges, skip):
            members = set(part)
            if len(part) == 1 and (part[0] not in edges[part[0]] or (part[0], part[0]) in skip):
                order.append(part[0])
                continue
            header = _header(members, alive, edges, entry)
            loops.append(Loop(header, sum(1 << n for n in members)))
            back = frozenset((n, header) for n in members if header in edges[n])
            place(members, skip | back)

    place(alive, frozenset())
    return order, loops


def _header(members: set[int], alive: set[int], edges: Edges, entry: int) -> int:
    if entry in members:
        return entry
    entered = {t for n in alive - members for t in edges[n] if t in members}
    return min(entered) if entered else min(members)


def reach(edges: Edges, starts: Sequence[int], within: int) -> int:
    """Nodes reachable from ``starts`` by paths that stay in ``within`` (the starts must, too)."""
    seen = 0
    work = [s for s in starts if within >> s & 1]
    while work:
        node = work.pop()
        if seen >> node & 1:
            continue
        seen |= 1 << node
        work.extend(t for t in edges[node] if within >> t & 1 and not seen >> t & 1)
    return seen


def post_dominators(edges: Edges, exit: int) -> list[int]:
    """For each node the set of its post-dominators (itself included); ``exit`` is the last node.

    Nodes of an endless loop count as if they could leave to ``exit`` from their last node.
    """
    count = exit + 1
    leaving = [list(edges[n]) for n in range(count)]
    while True:
        back: list[list[int]] = [[] for _ in range(count)]
        for node in range(count):
            for target in leaving[node]:
                back[target].append(node)
        stuck = [n for n in range(count) if not reach(back, [exit], (1 << count) - 1) >> n & 1]
        if not stuck:
            break
        leaving[stuck[-1]].append(exit)
    everything = (1 << count) - 1
    sets = [everything] * count
    sets[exit] = 1 << exit
    changed = True
    while changed:
        changed = False
        for node in range(exit - 1, -1, -1):
            common = everything
            for target in leaving[node]:
                common &= sets[target]
            common |= 1 << node
            if common != sets[node]:
                sets[node] = common
                changed = True
    return sets


def nearest(candidates: int, sets: Sequence[int], exit: int) -> int:
    """Of post-dominators on one path the first one: the one that has most post-dominators."""
    best, most = exit, 0
    for node in bits(candidates):
        size = sets[node].bit_count()
        if size > most:
            best, most = node, size
    return best
