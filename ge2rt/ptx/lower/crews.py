"""From a function to analysed code, and a kernel with its functions to the text of a crew."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace

from ge2rt.ptx.ast import Function, Instr
from ge2rt.ptx.emit import Emitter
from ge2rt.ptx.lower import flow as flows
from ge2rt.ptx.lower import graph, regions, ssa
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.functions import Callee, block_layout
from ge2rt.ptx.lower.kinds import Analysis, Start
from ge2rt.ptx.lower.places import places_of_callee
from ge2rt.ptx.lower.regions import Plan
from ge2rt.ptx.lower.shape import is_barrier, syncs_warp, takes_warp
from ge2rt.ptx.lower.strands import Strand, crew_text
from ge2rt.ptx.lower.values import Code
from ge2rt.ptx.lower.waits import waiting_loops


def flow_of(function: Function, meets: Callable[[Instr], bool] = is_barrier) -> Flow:
    """The flow, cut before code for the whole warp where lanes wait for each other."""
    flow = flows.build(function, meets=meets)
    return flows.build(function, takes_warp, meets) if waiting_loops(flow) else flow


def parts_meet(code: Code) -> bool:
    """Whether lanes of both sides of a branch meet at a ``bar.warp.sync`` each has for itself."""
    flow = code.flow
    if not code.kinds.divergent:
        return False
    syncs = sum(1 << at for at, n in enumerate(flow.nodes) if any(map(syncs_warp, n.instrs)))
    inside = (1 << flow.exit) - 1
    for branch in code.kinds.divergent if syncs else ():
        within = inside & ~(1 << flow.joins[branch])
        sides = [graph.reach(flow.edges, [t], within) & syncs for t in flow.edges[branch]]
        if any(a & ~b and b & ~a for a in sides for b in sides):
            return True
    return False


def _never(instr: Instr) -> bool:
    return False


def barriers_apart(
    code: Code, stops: Callable[[Instr], bool] = _never, *, returns: bool = False
) -> bool:
    """Whether lanes of one warp may wait at two barriers, or at one in two passes of a loop.

    ``stops`` names instructions that count as barriers; with ``returns`` the end is one.
    """
    flow = code.flow
    if not code.kinds.divergent:
        return False
    stations = (1 << flow.exit) * returns
    for at, node in enumerate(flow.nodes):
        if node.kind == "barrier" or any(map(stops, node.instrs)):
            stations |= 1 << at
    return any(_wait_apart(flow, branch, stations) for branch in code.kinds.divergent)


def _wait_apart(flow: Flow, branch: int, barriers: int) -> bool:
    """Whether the lanes that a branch parts may come to different barriers first."""
    cut = [() if barriers >> at & 1 else edges for at, edges in enumerate(flow.edges)]
    ends = barriers & 1 << flow.exit
    inside, join = (1 << flow.exit) - 1 | ends, flow.joins[branch]
    ways = [graph.reach(cut, [t], inside & ~(1 << join)) for t in flow.edges[branch]]
    first = [way & barriers for way in ways]
    if not any(first):
        return False
    if (join != flow.exit or ends) and graph.reach(cut, [join], inside) & barriers:
        past = [t == join or any(join in cut[n] for n in graph.bits(way))
                for t, way in zip(flow.edges[branch], ways, strict=True)]  # fmt: skip
        if any(past):
            return True
    met = [b for b in first if b]
    some = functools.reduce(operator.or_, met)
    if len(met) > 1 and some != some & -some:
        return True
    rounds = [lp for lp in flow.loops if lp.members >> branch & 1 and lp.members & some]
    return any(way >> lp.header & 1 for way in ways for lp in rounds)


def _for_a_strand(start: Code, function: Function) -> Code:
    code = analysed(start, parks=True)
    if not parts_meet(code):
        return code
    flow = flow_of(function, lambda instr: is_barrier(instr) or syncs_warp(instr))
    return analysed(replace(start, flow=flow), parks=True)


def analysed(code: Code, *, parks: bool) -> Code:
    """The code with live ranges apart where that helps, and with its kinds."""
    flow = code.flow
    apart = ssa.split(flow, code.types)
    kinds = Analysis(apart, code.geometry, code.places, parks=parks).run()
    if apart is flow:
        return replace(code, kinds=kinds)
    together, names = ssa.merge(apart, kinds)
    if names:
        start = Start.of_merged(kinds, names)
        kinds = Analysis(together, code.geometry, code.places, parks=parks, start=start).run()
    return replace(code, flow=together, kinds=kinds)


def crew_of(
    start: Code, symbol: str, functions: Sequence[Function], callees: tuple[Callee, ...]
) -> tuple[Code, Plan, str, int]:
    """The code of the kernel, its plan, the text of all its functions, and the arena's bytes.

    ``functions`` are the kernel's and those of ``callees``.
    """
    function, *others = functions
    code = replace(_for_a_strand(start, function), callees=callees)
    plan = regions.uncut(code.flow, code.kinds, partial=code.geometry.partial)
    strand = Strand(code, plan, symbol + ".warp")
    texts, called = [strand.write()], []
    for function, callee in zip(others, callees, strict=True):
        below = callee_code(start, function, callee, callees)
        whole = regions.uncut(below.flow, below.kinds, partial=True)
        called.append(Strand(below, whole, callee.symbol))
        texts.append(called[-1].write())
        code.e.declarations.update(below.e.declarations)
        code.log_bytes = max(code.log_bytes, below.log_bytes)
        code.alone = code.alone or below.alone
    scheduler, arena = crew_text(strand, symbol, called)
    return code, plan, "\n".join([*texts, scheduler]), arena


def callee_code(
    start: Code, function: Function, callee: Callee, callees: tuple[Callee, ...]
) -> Code:
    """The code of a function that stays one."""
    offsets, nbytes = block_layout(callee.sizes)
    place = places_of_callee(start.places, function, offsets, nbytes)
    code = replace(
        start, e=Emitter(start.width, cpu=start.e.cpu, features=start.e.features),
        flow=flow_of(function),
        places=place, types=function.registers, allocas={}, prologue=[], params={}, counts={},
        callees=callees, is_callee=True,
    )  # fmt: skip
    return _for_a_strand(code, function)
