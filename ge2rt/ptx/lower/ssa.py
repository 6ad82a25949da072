"""Live ranges of a register apart, so that a scalar one does not suffer from a varying one.

NVRTC uses one register for ``tid`` and for the loop counter that starts at it. :func:`split` gives
each definition its own name (static single assignment, Braun et al. 2013, with a copy at the end
of each predecessor in place of a phi); after a first analysis :func:`merge` takes back the copies
between names of one kind. The names of one register never live at once, hence any of them may be
merged.
"""

from __future__ import annotations

from dataclasses import replace

from ge2rt.ptx.ast import Address, Guard, Instr, Not, Operand, Pair, Reg, Vector
from ge2rt.ptx.lower.flow import Flow, Node
from ge2rt.ptx.lower.kinds import Kinds
from ge2rt.ptx.lower.shape import CARRY, has_result

_MARK = "'"
_Copy = tuple[str, str]  # target, source


def origin(name: str) -> str:
    """The PTX register that a split name stands for."""
    return name.split(_MARK, 1)[0]


def split(flow: Flow, types: dict[str, str]) -> Flow:
    """The same code with one name a definition; the same object where nothing is to be split."""
    twice = _defined_twice(flow)
    if not twice:
        return flow
    many = set(twice)
    leaving = [_last_names(node, at, many) for at, node in enumerate(flow.nodes)]
    before: list[list[int]] = [[] for _ in range(flow.exit + 1)]
    for at, targets in enumerate(flow.edges):
        for target in targets:
            before[target].append(at)
    entering: list[dict[str, str]] = [{} for _ in flow.nodes]
    numbers = [(name, flow.registers[name]) for name in twice]
    live = [[name for name, n in numbers if field[n >> 3] >> (n & 7) & 1] for field in _live(flow)]
    entering[0] = {n: n for n in live[0]}  # read before any definition
    changed = True
    while changed:
        changed = False
        for at in range(1, len(flow.nodes)):
            for name in live[at]:
                met = {_out(leaving, entering, p, name) for p in before[at]} - {""}
                now = met.pop() if len(met) == 1 else _phi(name, at) if met else ""
                old = entering[at].get(name, "")
                if now != old and old != _phi(name, at):
                    entering[at][name] = now
                    changed = True
    nodes = []
    for at, node in enumerate(flow.nodes):
        copies = dict[str, str]()
        for target in flow.edges[at]:
            if target == flow.exit:
                continue
            for name in live[target]:
                source = _out(leaving, entering, at, name)
                wanted = entering[target].get(name, "")
                if source and wanted == _phi(name, target) and wanted != source:
                    copies[wanted] = source
        nodes.append(_renamed_node(node, at, many, dict(entering[at]), copies, types))
    return Flow(tuple(nodes), flow.loops)


def _live(flow: Flow) -> list[bytes]:
    """The registers live at the start of each node; single bits of bytes are quick to look at."""
    size = len(flow.registers) // 8 + 1
    return [live.to_bytes(size, "little") for live in flow.live_in[:-1]]


def _phi(name: str, at: int) -> str:
    return f"{name}{_MARK}{at}"


def _out(leaving: list[dict[str, str]], entering: list[dict[str, str]], at: int, name: str) -> str:
    return leaving[at].get(name) or entering[at].get(name, "")


def _defined_twice(flow: Flow) -> list[str]:
    counts: dict[str, int] = {}
    for node in flow.nodes:
        for instr, shape in node.steps:
            for name in shape.written:  # those of the control are written between nodes
                counts[name] = counts.get(name, 0) + 1 if instr is not node.control else -1 << 30
    return [name for name, count in counts.items() if count > 1 and name != CARRY]


def _last_names(node: Node, at: int, many: set[str]) -> dict[str, str]:
    last: dict[str, str] = {}
    for index, (instr, shape) in enumerate(node.steps[: len(node.instrs)]):
        if instr.guard is None:
            for name in shape.written:
                if name in many:
                    last[name] = f"{name}{_MARK}{at}.{index}"
    return last


def _renamed_node(
    node: Node, at: int, many: set[str], current: dict[str, str], copies: dict[str, str],
    types: dict[str, str],
) -> Node:  # fmt: skip
    instrs: list[Instr] = []
    for index, (instr, shape) in enumerate(node.steps[: len(node.instrs)]):
        written = [n for n in shape.written if n in many]
        if not written and many.isdisjoint(shape.read):
            instrs.append(instr)
            continue
        if instr.guard is None:
            fresh = {name: f"{name}{_MARK}{at}.{index}" for name in written}
            instrs.append(rename(instr, fresh, current))
            current.update(fresh)
        else:
            instrs.append(rename(instr, current, current))
    line = node.instrs[-1].line if node.instrs else 0
    instrs += [_copy(target, source, types, line) for target, source in copies.items()]
    control = node.control and rename(node.control, current, current)
    return replace(node, instrs=tuple(instrs), control=control)


def _copy(target: str, source: str, types: dict[str, str], line: int) -> Instr:
    type = types[origin(target)]
    if type != "pred" and not type.startswith("f"):
        type = f"b{type.lstrip('bus')}"
    return Instr("mov", (type,), (Reg(target), Reg(source)), None, line, (type,))


def is_copy(instr: Instr) -> _Copy | None:
    """Target and source of a copy that :func:`split` made."""
    if instr.op != "mov" or len(instr.operands) != 2:
        return None
    target, source = instr.operands
    if not isinstance(target, Reg) or not isinstance(source, Reg) or _MARK not in target.name:
        return None
    same = origin(target.name) == origin(source.name)
    return (target.name, source.name) if same else None


def merge(flow: Flow, kinds: Kinds) -> tuple[Flow, dict[str, str]]:
    """Drop the copies between names of one kind: both varying, or both with the same offsets.

    Returns the new name of each register that got one, too.
    """
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while name in leader:
            name = leader[name]
        return name

    for node in flow.nodes:
        for instr in node.instrs:
            copy = is_copy(instr) if instr.op == "mov" else None
            if copy is None:
                continue
            a, b = find(copy[0]), find(copy[1])
            if a != b and _alike(kinds, copy[0], copy[1]):
                leader[a] = b
    if not leader:
        return flow, {}
    names = {name: find(name) for name in leader}
    merged = names.keys()
    nodes = []
    for node in flow.nodes:
        instrs = []
        for instr, shape in node.steps[: len(node.instrs)]:
            copy = is_copy(instr) if instr.op == "mov" else None
            if copy is not None and find(copy[0]) == find(copy[1]):
                continue
            touched = not (merged.isdisjoint(shape.read) and merged.isdisjoint(shape.written))
            instrs.append(rename(instr, names, names) if touched else instr)
        control = node.control and rename(node.control, names, names)
        nodes.append(replace(node, instrs=tuple(instrs), control=control))
    return Flow(tuple(nodes), flow.loops), names


def _alike(kinds: Kinds, a: str, b: str) -> bool:
    first, second = kinds.lanes.get(a), kinds.lanes.get(b)
    if first is None or second is None:
        return first is second
    return first.offsets == second.offsets


# -- renaming --------------------------------------------------------------------------------


def rename(instr: Instr, written: dict[str, str], read: dict[str, str]) -> Instr:
    """An instruction with other names for its destinations and its sources."""
    first = 1 if instr.op != "call" and has_result(instr) else 0
    operands = tuple(
        [_operand(o, written if at < first else read) for at, o in enumerate(instr.operands)]
    )
    guard = instr.guard
    if guard is not None and guard.reg.name in read:
        guard = Guard(Reg(read[guard.reg.name]), guard.negated)
    return Instr(instr.op, instr.mods, operands, guard, instr.line, instr.types, instr.loc)


def _operand(operand: Operand, names: dict[str, str]) -> Operand:
    if isinstance(operand, Reg):
        found = names.get(operand.name)
        return Reg(found) if found else operand
    if isinstance(operand, Address) and isinstance(operand.base, Reg):
        found = names.get(operand.base.name)
        return Address(Reg(found), operand.offset) if found else operand
    if isinstance(operand, Vector):
        return Vector(tuple(o and _operand(o, names) for o in operand.items))
    if isinstance(operand, Pair):
        first, second = operand.first, operand.second
        return Pair(first and _operand(first, names), second and _operand(second, names))
    if isinstance(operand, Not):
        return Not(_operand(operand.operand, names))
    return operand
