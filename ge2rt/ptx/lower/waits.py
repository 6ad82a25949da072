"""Loops that wait for what another thread writes, and loops that surely end by counting.

A loop waits where a way out of it depends on a value that the loop itself reads from memory that
others write: ``volatile``, ``relaxed`` and ``acquire`` loads, atomics, or any load beside a fence
or a ``nanosleep``. The retry loop of a lock-free update (``old = cas(p, old, f(old))``) is not one:
some lane always succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator

from ge2rt.ptx.ast import Imm, Instr, Operand, Reg
from ge2rt.ptx.lower import graph
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.graph import Loop, bits
from ge2rt.ptx.lower.shape import read_names, shape_of, written_names

_OWN_LOADS = frozenset(("const", "param", "nc", "local"))
_SHARED_LOADS = frozenset(("volatile", "relaxed", "acquire", "cv", "cg"))
_STEPS = ("add", "sub", "shr", "shl")  # a shift comes to 0 (or -1) and no loop goes on from there
_READS = frozenset(("ld", "ldu", "mbarrier", "atom"))
_ORDER = frozenset(("membar", "fence", "nanosleep"))


def waiting_loops(flow: Flow) -> tuple[Loop, ...]:
    """The loops that wait for other threads, outer before inner."""
    return tuple(loop for loop in flow.loops if _waits(flow, loop))


def _waits(flow: Flow, loop: Loop) -> bool:
    inner = [lp for lp in flow.loops if lp is not loop and not lp.members & ~loop.members]
    own = loop.members
    for inside in inner:
        own &= ~inside.members
    instrs = [i for at in bits(own) for i in flow.nodes[at].instrs]
    fenced = not _ORDER.isdisjoint([i.op for i in instrs])
    sources = [i for i in instrs if i.op in _READS and _reads_others(i, fenced)]
    if not sources:
        return False
    tainted = _tainted(flow, loop, {n for i in sources for n in written_names(i)})
    if not _leaves_by(flow, loop, tainted):
        return False
    return any(not _retries(i, tainted) for i in sources)


def _reads_others(instr: Instr, fenced: bool) -> bool:
    if instr.op in ("ld", "ldu"):
        if not _OWN_LOADS.isdisjoint(instr.mods):
            return False
        return fenced or not _SHARED_LOADS.isdisjoint(instr.mods)
    if instr.op == "mbarrier":
        return instr.has("test_wait") or instr.has("try_wait")
    return instr.op == "atom"


def _retries(instr: Instr, tainted: set[str]) -> bool:
    """A compare-exchange that expects what the loop read itself."""
    if instr.op != "atom" or not instr.has("cas"):
        return False
    expected = instr.operands[2]
    return isinstance(expected, Reg) and expected.name in tainted


def _tainted(flow: Flow, loop: Loop, names: set[str]) -> set[str]:
    """Registers whose value inside the loop depends on ``names``, through data or branches."""
    tainted = set(names)
    while True:
        before = len(tainted)
        for at in bits(loop.members):
            node = flow.nodes[at]
            for instr in node.instrs:
                if any(n in tainted for n in read_names(instr)):
                    tainted.update(written_names(instr))
            if len(set(node.targets)) > 1 and _controlled(node.control, tainted):
                within = loop.members & ~(1 << flow.joins[at] | 1 << loop.header)
                for inside in bits(graph.reach(flow.edges, flow.edges[at], within)):
                    for instr in flow.nodes[inside].instrs:
                        tainted.update(written_names(instr))
        if len(tainted) == before:
            return tainted


def _controlled(control: Instr | None, tainted: set[str]) -> bool:
    return control is not None and any(n in tainted for n in read_names(control))


def _leaves_by(flow: Flow, loop: Loop, tainted: set[str]) -> bool:
    for at in bits(loop.members):
        leaves = any(not loop.members >> t & 1 for t in flow.edges[at])
        if leaves and _controlled(flow.nodes[at].control, tainted):
            return True
    return False


# -- counting ----------------------------------------------------------------------------------


def ends_by_counting(flow: Flow, loop: Loop) -> bool:
    """Whether each pass takes a way out that compares a register moved by a fixed step."""
    writers: dict[str, list[Instr]] = {}
    for at in bits(loop.members):
        for instr in flow.nodes[at].instrs:
            for name in written_names(instr):
                writers.setdefault(name, []).append(instr)
    for at in {loop.header, loop.members.bit_length() - 1}:
        node = flow.nodes[at]
        guard = node.control.guard if node.kind == "branch" and node.control else None
        if guard is None or all(loop.members >> t & 1 for t in flow.edges[at]):
            continue
        stays = bool(loop.members >> node.targets[0] & 1)
        if _decides(guard.reg.name, "and" if stays != guard.negated else "or", writers):
            return True
    return False


def _decides(name: str, joined: str, writers: dict[str, list[Instr]]) -> bool:
    """Whether a predicate is a test of a count, or joins one so that the test alone decides."""
    found = writers.get(name, ())
    if len(found) != 1:
        return False
    test = found[0]
    if test.op == joined and test.types == ("pred",) and test.guard is None:
        return any(
            isinstance(o, Reg) and _decides(o.name, joined, writers) for o in test.operands[1:]
        )
    return _counts(test, writers)


def _counts(test: Instr, writers: dict[str, list[Instr]]) -> bool:
    if test.op != "setp" or test.guard is not None or len(test.operands) != 3:
        return False
    a, b = test.operands[1:]
    return any(
        isinstance(moved, Reg) and _steps(moved.name, writers) and _fixed(limit, writers)
        for moved, limit in ((a, b), (b, a))
    )


def _fixed(operand: Operand, writers: dict[str, list[Instr]]) -> bool:
    return not isinstance(operand, Reg) or operand.name not in writers


def _steps(name: str, writers: dict[str, list[Instr]]) -> bool:
    """Whether the value is one that an addition of a fixed step moves around the loop."""
    seen: set[str] = set()
    todo, moved = [name], False
    while todo:
        here = todo.pop()
        if here in seen:
            continue
        seen.add(here)
        found = writers.get(here)
        if not found or len(found) != 1 or found[0].guard is not None:
            return False
        sources = list(_carried(found[0], writers))
        if len(sources) != 1:
            return False
        moved = moved or found[0].op in _STEPS
        todo += sources
    return moved


def _carried(instr: Instr, writers: dict[str, list[Instr]]) -> Iterator[str]:
    """The register of the loop that a copy or an addition of something fixed carries on."""
    if instr.op not in ("mov", *_STEPS) or not shape_of(instr).sources:
        return
    first, *rest = shape_of(instr).sources
    if any(isinstance(o, Imm) and o.value == 0 for o in rest):
        return
    if isinstance(first, Reg) and all(_fixed(o, writers) for o in rest):
        yield first.name
    elif instr.op == "add" and _fixed(first, writers) and isinstance(rest[0], Reg):
        yield rest[0].name
