"""From a function to analysed code, and a kernel with its functions to the text of a crew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ge2rt.ptx.ast import Function
from ge2rt.ptx.emit import Emitter
from ge2rt.ptx.lower import flow as flows
from ge2rt.ptx.lower import regions, ssa
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.functions import Callee, block_layout
from ge2rt.ptx.lower.kinds import Analysis
from ge2rt.ptx.lower.places import places_of_callee
from ge2rt.ptx.lower.regions import Plan
from ge2rt.ptx.lower.shape import takes_warp
from ge2rt.ptx.lower.strands import Strand, crew_text
from ge2rt.ptx.lower.values import Code
from ge2rt.ptx.lower.waits import waiting_loops


def flow_of(function: Function) -> Flow:
    """The flow, cut before code for the whole warp where lanes wait for each other."""
    flow = flows.build(function)
    return flows.build(function, takes_warp) if waiting_loops(flow) else flow


def analysed(code: Code, *, parks: bool) -> Code:
    """The code with live ranges apart where that helps, and with its kinds."""
    flow = code.flow
    apart = ssa.split(flow, code.types)
    kinds = Analysis(apart, code.geometry, code.places, parks=parks).run()
    if apart is flow:
        return replace(code, kinds=kinds)
    together = ssa.merge(apart, kinds)
    if together is not apart:
        kinds = Analysis(together, code.geometry, code.places, parks=parks).run()
    return replace(code, flow=together, kinds=kinds)


def crew_of(
    start: Code, symbol: str, others: Sequence[Function], callees: tuple[Callee, ...]
) -> tuple[Code, Plan, str, int]:
    """The code of the kernel, its plan, the text of all its functions, and the arena's bytes."""
    code = replace(analysed(start, parks=True), callees=callees)
    plan = regions.uncut(code.flow, code.kinds, partial=code.geometry.partial)
    strand = Strand(code, plan, symbol + ".warp")
    texts, called = [strand.write()], []
    for function, callee in zip(others, callees, strict=True):
        below = _callee_code(start, function, callee, callees)
        whole = regions.uncut(below.flow, below.kinds, partial=True)
        called.append(Strand(below, whole, callee.symbol))
        texts.append(called[-1].write())
        code.e.declarations.update(below.e.declarations)
        code.log_bytes = max(code.log_bytes, below.log_bytes)
        code.alone = code.alone or below.alone
    scheduler, arena = crew_text(strand, symbol, called)
    return code, plan, "\n".join([*texts, scheduler]), arena


def _callee_code(
    start: Code, function: Function, callee: Callee, callees: tuple[Callee, ...]
) -> Code:
    offsets, nbytes = block_layout(callee.sizes)
    place = places_of_callee(start.places, function, offsets, nbytes)
    code = replace(
        start, e=Emitter(start.width, features=start.e.features), flow=flow_of(function),
        places=place, types=function.registers, allocas={}, prologue=[], params={}, counts={},
        callees=callees, is_callee=True,
    )  # fmt: skip
    return analysed(code, parks=True)
