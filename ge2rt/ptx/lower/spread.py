"""Which writes must be blended with the old value, given the branches on which lanes part.

One storage serves a register for all lanes of a warp. While the lanes of a mask execute node X,
other lanes wait at nodes P, always later in the walking order. A write in X does harm if the
register is live at such a P: it must then keep the waiting lanes' values (a blend), and a scalar
will not do. Where no write does harm, each active lane finds in the storage what it wrote last
itself, so even a scalar is right. Lanes can wait in these ways:

1. a branch parted them: X lies on a path from one successor, P on a path from another one (paths
   without the back edges of loops around the branch, up to its join);
2. lanes left a loop and wait at its exit P while others still run X in the loop;
3. lanes left a loop by different exits;
4. lanes wait at the header of a loop that waits for other threads (see
   :mod:`ge2rt.ptx.lower.waits`), so that those that left it can go on: here P stands before X;
5. lanes wait at a barrier inside the branch that others pass by or have passed (``parks``): here X
   and P may be anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.graph import Loop, bits, nearest, reach


@dataclass(frozen=True)
class Spread:
    """``blends[x]`` is the set of registers whose writes in node x need a blend.

    ``joins`` are the nodes where parted lanes may be complete again; ``turns`` the headers of loops
    in which lanes wait for other lanes.
    """

    blends: tuple[int, ...]
    joins: frozenset[int]
    turns: tuple[int, ...] = ()


def spread(
    flow: Flow, divergent: Iterable[int], waiting: Sequence[Loop] = (), parks: bool = False
) -> Spread:
    """The blends that the divergent branch nodes ask for.

    ``waiting`` are the loops that wait for other threads; ``parks`` says that lanes wait at
    barriers while other lanes of their warp go on.
    """
    blends = [0] * len(flow.nodes)
    joins: set[int] = set()
    parted: dict[Loop, set[int]] = {}
    for branch in sorted(divergent):
        join = flow.joins[branch]
        joins.add(join)
        around = [lp for lp in flow.loops if lp.members >> branch & 1]
        _pairs(flow, flow.edges[branch], around, join, blends)
        if parks:
            _parked(flow, branch, blends)
        for loop in around:
            if not loop.members >> join & 1:
                parted.setdefault(loop, set()).add(branch)
    for loop in parted:
        exits = loop_exits(flow, loop)
        left = 0
        for target in exits:
            left |= flow.live_in[target]
        for node in bits(loop.members):
            blends[node] |= flow.written[node] & left
        outer = [lp for lp in flow.loops if lp is not loop and not loop.members & ~lp.members]
        join = _common_join(flow, exits)
        joins.add(join)
        _pairs(flow, exits, outer, join, blends)
    inside = (1 << flow.exit) - 1
    turns = sorted({loop.header for loop in waiting if loop in parted})
    for loop in waiting:
        if loop in parted:
            for node in bits(reach(flow.edges, loop_exits(flow, loop), inside)):
                blends[node] |= flow.written[node] & flow.live_in[loop.header]
    return Spread(tuple(blends), frozenset(j for j in joins if j != flow.exit), tuple(turns))


def loop_exits(flow: Flow, loop: Loop) -> tuple[int, ...]:
    """Nodes outside of the loop with an edge from inside."""
    found = {t for n in bits(loop.members) for t in flow.edges[n] if not loop.members >> t & 1}
    return tuple(sorted(found))


def _common_join(flow: Flow, targets: Sequence[int]) -> int:
    common = -1
    for target in targets:
        common &= flow.post_dominators[target]
    return nearest(common, flow.post_dominators, flow.exit) if targets else flow.exit


def _pairs(
    flow: Flow, starts: Sequence[int], around: Sequence[Loop], join: int, blends: list[int]
) -> None:
    """Way 1: lanes at X from one start, others waiting at P from another start."""
    if len(starts) < 2:
        return
    edges = _without_back_edges(flow, around)
    inside = (1 << flow.exit) - 1 & ~(1 << join)
    sets = [reach(edges, [s], inside) for s in starts]
    for first, running in enumerate(sets):
        others = 0
        for second, waiting in enumerate(sets):
            if second != first:
                others |= waiting
        for node in bits(running):
            written = flow.written[node]
            if not written or written & ~blends[node] == 0:
                continue
            where = others
            if others >> node & 1:  # lanes of the other side come through here, too: together
                rest = [s for at, s in enumerate(starts) if at != first]
                where = reach(edges, rest, inside & ~(1 << node))
            live = _live(flow, where >> (node + 1) << (node + 1))
            if join != flow.exit and _arrives(edges, where, join, starts, first):
                live |= flow.live_in[join]
            blends[node] |= written & live


def _parked(flow: Flow, branch: int, blends: list[int]) -> None:
    """Lanes of one side wait at a barrier while those of another side go on, also past the join."""
    inside = (1 << flow.exit) - 1
    barriers = sum(1 << at for at, node in enumerate(flow.nodes) if node.kind == "barrier")
    before = reach(flow.edges, flow.edges[branch], inside & ~(1 << flow.joins[branch]))
    if not before & barriers:
        return
    sets = [reach(flow.edges, [target], inside) for target in flow.edges[branch]]
    for first, running in enumerate(sets):
        others = 0
        for second, waiting in enumerate(sets):
            if second != first:
                others |= waiting
        live = _live(flow, others)
        for node in bits(running):
            blends[node] |= flow.written[node] & live


def _arrives(
    edges: Sequence[Sequence[int]], where: int, join: int, starts: Sequence[int], first: int
) -> bool:
    if any(s == join for at, s in enumerate(starts) if at != first):
        return True
    return any(join in edges[node] for node in bits(where))


def _live(flow: Flow, nodes: int) -> int:
    live = 0
    for node in bits(nodes):
        live |= flow.live_in[node]
    return live


def _without_back_edges(flow: Flow, around: Sequence[Loop]) -> list[tuple[int, ...]]:
    edges = list(flow.edges)
    for loop in around:
        for node in bits(loop.members):
            if loop.header in edges[node]:
                edges[node] = tuple(t for t in edges[node] if t != loop.header)
    return edges
