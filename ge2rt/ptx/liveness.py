"""Definitions, uses and liveness of registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ge2rt.ptx.ast import Address, Block, Instr, Not, Operand, Pair, Reg, Vector
from ge2rt.ptx.isa import opcode, unsupported


def registers_in(operand: Operand | None) -> Iterator[str]:
    """The registers that an operand names, in order, address bases included."""
    if isinstance(operand, Reg):
        yield operand.name
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from registers_in(item)
    elif isinstance(operand, Address):
        yield from registers_in(operand.base)
    elif isinstance(operand, Pair):
        yield from registers_in(operand.first)
        yield from registers_in(operand.second)
    elif isinstance(operand, Not):
        yield from registers_in(operand.operand)


def destinations(instr: Instr) -> int:
    """How many leading operands are written. Raises :class:`UnsupportedError` if unknown."""
    if instr.op == "call":
        return 1
    found = opcode(instr)
    if found is None:
        raise unsupported(instr)
    if instr.op == "mbarrier" and found.dests and isinstance(instr.operands[0], Address):
        return 0  # arrive on a remote barrier returns no state
    return found.dests


def defs(instr: Instr) -> tuple[str, ...]:
    """The registers that an instruction writes, in textual order."""
    return _all(instr.operands[: destinations(instr)])


def uses(instr: Instr) -> tuple[str, ...]:
    """The registers that an instruction reads: guard first, then in textual order, each once."""
    count = destinations(instr)
    read = _all(instr.operands[count:])
    if instr.guard is not None:
        read = (instr.guard.reg.name, *read)
    return tuple(dict.fromkeys(read))


def _all(operands: Iterable[Operand]) -> tuple[str, ...]:
    return tuple([name for operand in operands for name in registers_in(operand)])


@dataclass(frozen=True)
class Liveness:
    """Registers live at the edges of blocks, as sets by label."""

    live_in: Mapping[str, frozenset[str]]
    live_out: Mapping[str, frozenset[str]]

    def before(self, block: Block, index: int) -> frozenset[str]:
        """Registers live before instruction ``index`` of ``block``."""
        live = set(self.live_out[block.label])
        for instr in reversed(block.instrs[index:]):
            if instr.guard is None:
                live.difference_update(defs(instr))
            live.update(uses(instr))
        return frozenset(live)


def liveness(blocks: Iterable[Block]) -> Liveness:
    """Live registers of each block. A guarded definition does not end a life: it may not happen."""
    listed = list(blocks)
    bits: dict[str, int] = {}
    use, kill = {}, {}
    for block in listed:
        use[block.label], kill[block.label] = _summary(block, bits)
    inside = {block.label for block in listed}
    live_in = dict.fromkeys(inside, 0)
    live_out = dict.fromkeys(inside, 0)
    changed = True
    while changed:
        changed = False
        for block in reversed(listed):
            label, out = block.label, 0
            for target in block.successors:
                out |= live_in.get(target, 0)
            live_out[label] = out
            new = use[label] | (out & ~kill[label])
            if new != live_in[label]:
                live_in[label] = new
                changed = True
    names = list(bits)
    return Liveness(
        {label: _names(mask, names) for label, mask in live_in.items()},
        {label: _names(mask, names) for label, mask in live_out.items()},
    )


def _summary(block: Block, bits: dict[str, int]) -> tuple[int, int]:
    """Registers read before they are written, and registers surely written, as bit sets."""
    use = kill = 0
    for instr in block.instrs:
        for name in uses(instr):
            bit = 1 << bits.setdefault(name, len(bits))
            if not kill & bit:
                use |= bit
        if instr.guard is None:
            for name in defs(instr):
                kill |= 1 << bits.setdefault(name, len(bits))
    return use, kill


def _names(mask: int, names: list[str]) -> frozenset[str]:
    found = []
    while mask:
        low = mask & -mask
        found.append(names[low.bit_length() - 1])
        mask ^= low
    return frozenset(found)
