"""Barriers in functions that stay functions, where a part of a warp may come to them.

A call returns for all of its lanes together. Lanes that wait in a function for lanes of their own
warp that are elsewhere would wait for ever: such kernels run one lane at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.ast import Function, Instr, Reg, Symbol
from ge2rt.ptx.lower.crews import analysed, barriers_apart, callee_code
from ge2rt.ptx.lower.functions import Callee
from ge2rt.ptx.lower.shape import is_barrier, syncs_warp, takes_warp
from ge2rt.ptx.lower.values import Code

_WARP_OPS = frozenset(("activemask",))


def waits_in_parts(
    start: Code, kernel: Function, others: Sequence[Function], callees: tuple[Callee, ...]
) -> bool:
    """Whether lanes may wait in a function for other lanes of their warp that are not in it.

    False where an instruction looks across lanes: the kernel needs whole warps.
    """
    waiting = _that_wait(others)
    instrs = (i for f in (kernel, *others) for b in f.blocks for i in b.instrs)
    if not waiting or any(map(_needs_warp, instrs)):
        return False

    def stops(instr: Instr) -> bool:
        return instr.op == "call" and (_target(instr) or next(iter(waiting))) in waiting

    codes = [analysed(start, parks=True)]
    codes += [callee_code(start, f, c, callees) for f, c in zip(others, callees, strict=True)]
    return any(
        barriers_apart(code, stops, returns=code.is_callee) or _calls_apart(code) for code in codes
    )


def _calls_apart(code: Code) -> bool:
    """Whether lanes of one warp may call different functions."""
    calls = [i for node in code.flow.nodes for i in node.instrs if i.op == "call"]
    targets = [i.operands[1] for i in calls]
    return any(isinstance(t, Reg) and code.kinds.varying(t.name) for t in targets)


def _needs_warp(instr: Instr) -> bool:
    shuffles = instr.op in ("shfl", "vote", "match", "redux")
    return shuffles or takes_warp(instr) or syncs_warp(instr) or instr.op in _WARP_OPS


def _target(instr: Instr) -> str | None:
    target = instr.operands[1]
    return target.name if isinstance(target, Symbol) else None


def _that_wait(functions: Sequence[Function]) -> frozenset[str]:
    """Names of the functions in which lanes may come to a barrier of the block."""
    bodies = {f.name: [i for b in f.blocks for i in b.instrs] for f in functions}
    found = {name for name, instrs in bodies.items() if any(map(is_barrier, instrs))}
    while True:
        more = {
            name
            for name, instrs in bodies.items()
            if any(
                i.op == "call" and (_target(i) in found or (found and _target(i) is None))
                for i in instrs
            )
        }
        if more <= found:
            return frozenset(found)
        found |= more
