"""Block phases: the graph cut at barriers, and where registers wait while other warps run.

A region is what can be reached from the entry or from behind a barrier without crossing a barrier;
it becomes one loop over the warps of the block. Modes: ``plain`` (every branch that decides on a
barrier is the same for the whole block), ``lockstep`` (lanes or warps may leave for good, those
that stay meet at the same barriers) and ``set`` (warps may wait at different barriers).
"""

from __future__ import annotations

from dataclasses import dataclass

from ge2rt.ptx.ast import Address, Instr, Reg, Special, Symbol
from ge2rt.ptx.lower import graph
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.geometry import BLOCK_WIDE, PLACE_ONLY
from ge2rt.ptx.lower.kinds import Kinds
from ge2rt.ptx.lower.places import Places
from ge2rt.ptx.lower.shape import Shape, read_names
from ge2rt.ptx.rules import PURE, writes_carry


@dataclass(frozen=True)
class Region:
    """Nodes in walking order; ``slow`` are those that need a copy under masks."""

    index: int
    entry: int
    nodes: tuple[int, ...]
    slow: frozenset[int]
    barrier: Instr | None  # the barrier before the entry


@dataclass(frozen=True)
class Plan:
    """The regions, how they follow each other, and where registers live across barriers."""

    regions: tuple[Region, ...]
    by_entry: dict[int, int]
    mode: str
    block_wide: frozenset[str]
    recomputed: dict[str, Instr]

    def following(self, flow: Flow, region: Region) -> list[int]:
        """Regions that may follow, as far as barriers inside tell."""
        targets = [
            flow.nodes[n].targets[0] for n in region.nodes if flow.nodes[n].kind == "barrier"
        ]
        return sorted({self.by_entry[t] for t in targets})


def plan(flow: Flow, kinds: Kinds, places: Places, partial: bool) -> Plan:
    """Cut into regions and decide the mode."""
    wide = block_wide(flow, kinds, places)
    mode = _mode(flow, wide)
    inside = (1 << flow.exit) - 1
    edges = [() if n.kind == "barrier" else flow.edges[at] for at, n in enumerate(flow.nodes)]
    entries: dict[int, Instr | None] = {0: None}
    for node in flow.nodes:
        if node.kind == "barrier":
            entries[node.targets[0]] = node.control
    regions = []
    for index, (entry, barrier) in enumerate(entries.items()):
        nodes = tuple(graph.bits(graph.reach(edges, [entry], inside)))
        starts = [t for n in nodes if n in kinds.divergent for t in edges[n] if t != flow.exit]
        if partial or (mode != "plain" and index):
            starts.append(entry)
        slow = frozenset(graph.bits(graph.reach(edges, starts, inside)))
        regions.append(Region(index, entry, nodes, slow, barrier))
    by_entry = {r.entry: r.index for r in regions}
    kept = frozenset(wide.registers) if mode != "set" else frozenset()
    return Plan(tuple(regions), by_entry, mode, kept, _recomputed(flow, kinds))


def uncut(flow: Flow, kinds: Kinds, *, partial: bool) -> Plan:
    """One region for all; ``partial``: it may be entered by some lanes only."""
    inside = (1 << flow.exit) - 1
    nodes = tuple(range(flow.exit))
    starts = [t for n in nodes if n in kinds.divergent for t in flow.edges[n] if t != flow.exit]
    slow = graph.reach(flow.edges, [*starts, *([0] if partial else [])], inside)
    region = Region(0, 0, nodes, frozenset(graph.bits(slow)), None)
    return Plan((region,), {0: 0}, "crew", frozenset(), {})


@dataclass(frozen=True)
class BlockWide:
    """Registers with one value for the whole block, and branch nodes whose outcome may differ."""

    registers: frozenset[str]
    parting: tuple[int, ...]


def block_wide(flow: Flow, kinds: Kinds, places: Places) -> BlockWide:
    """A greatest fixpoint: assume all uniform registers block-wide, drop what cannot be shown."""
    names = list(flow.registers)
    good = {n for n in names if (v := kinds.lanes.get(n)) is not None and v.uniform}
    while True:
        before = len(good)
        for node in flow.nodes:
            for instr, shape in node.steps:
                if shape.written and not _keeps(instr, shape, good, places):
                    good.difference_update(shape.written)
        parting = tuple(at for at in range(len(flow.nodes)) if _may_part(flow, at, good))
        for branch in parting:
            join = flow.joins[branch]
            if join == flow.exit:
                continue
            differing = 0
            for at in graph.bits(between(flow, branch)):
                differing |= flow.written[at]
            differing &= flow.live_in[join]
            good.difference_update(names[r] for r in graph.bits(differing))
        if len(good) == before:
            return BlockWide(frozenset(good), parting)


def between(flow: Flow, branch: int) -> int:
    """Nodes reachable from a branch before its join."""
    inside = (1 << flow.exit) - 1 & ~(1 << flow.joins[branch])
    return graph.reach(flow.edges, flow.edges[branch], inside)


def _may_part(flow: Flow, at: int, good: set[str]) -> bool:
    node = flow.nodes[at]
    if len(set(node.targets)) < 2 or node.control is None:
        return False
    if node.kind == "branch":
        return node.control.guard is None or node.control.guard.reg.name not in good
    return not all(name in good for name in read_names(node.control))


def _keeps(instr: Instr, shape: Shape, good: set[str], places: Places) -> bool:
    """Whether an instruction yields one value for the block from block-wide sources."""
    if instr.op in ("bar", "barrier"):
        return instr.guard is None
    if not good.issuperset(shape.read):
        return False
    if instr.op in ("ld", "ldu"):
        return _reads_constant(instr, places)
    if instr.op not in PURE and instr.op not in ("mov", "cvta"):
        return False
    operands = shape.sources
    if any(isinstance(o, Special) and o.name not in BLOCK_WIDE for o in operands):
        return False
    return not any(isinstance(o, Symbol) and places.place(o).space == "local" for o in operands)


def _reads_constant(instr: Instr, places: Places) -> bool:
    if "const" in instr.mods or "nc" in instr.mods:
        return True
    address = instr.operands[1]
    if "param" not in instr.mods or not isinstance(address, Address):
        return False
    return not isinstance(address.base, Symbol) or places.place(address.base).space == "param"


def _mode(flow: Flow, wide: BlockWide) -> str:
    barriers = sum(1 << at for at, n in enumerate(flow.nodes) if n.kind == "barrier")
    inside = (1 << flow.exit) - 1
    mode = "plain"
    for branch in wide.parting:
        if not between(flow, branch) & barriers:
            continue
        meeting = [t for t in flow.edges[branch] if graph.reach(flow.edges, [t], inside) & barriers]
        if len(meeting) > 1:
            return "set"
        mode = "lockstep"
    return mode


def _recomputed(flow: Flow, kinds: Kinds) -> dict[str, Instr]:
    """Scalar registers made only of parameters, constants and places, by their one definition."""
    found: dict[str, Instr] = {}
    counts: dict[str, int] = {}
    for node in flow.nodes:
        for _, shape in node.steps:
            for name in shape.written:
                counts[name] = counts.get(name, 0) + 1
    for node in flow.nodes:  # definitions stand before uses in this order
        for instr, shape in node.steps:
            if len(shape.written) != 1 or instr is node.control:
                continue
            (written,) = shape.written
            if counts[written] != 1 or kinds.varying(written):
                continue
            if instr.guard is None and _from_places(instr, shape, found):
                found[written] = instr
    return found


def _from_places(instr: Instr, shape: Shape, found: dict[str, Instr]) -> bool:
    if writes_carry(instr) or any(name not in found for name in shape.read):
        return False
    if any(isinstance(o, Special) and o.name not in PLACE_ONLY for o in shape.sources):
        return False
    if instr.op == "ld":
        address = instr.operands[1]
        named = isinstance(address, Address) and isinstance(address.base, Symbol)
        return named and "param" in instr.mods and isinstance(instr.operands[0], Reg)
    return instr.op in PURE or instr.op in ("mov", "cvta")
