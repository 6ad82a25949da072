"""Which operands of an instruction are written and which are read, flattened to single items."""

from __future__ import annotations

from typing import NamedTuple

from ge2rt.ptx.ast import Address, Imm, Instr, Not, Operand, Pair, Reg, Vector

# Opcodes whose first operand is read, not written.
NO_RESULT = frozenset(
    [
        "st",
        "red",
        "bar",
        "barrier",
        "bra",
        "brx",
        "ret",
        "exit",
        "quit",
        "overflow",
        "trap",
        "prefetch",
        "prefetchu",
        "membar",
        "fence",
        "stmatrix",
        "cp",
        "nanosleep",
        "griddepcontrol",
        "discard",
        "applypriority",
        "pmevent",
        "brkpt",
        "setmaxnreg",
        "bar_cluster",
    ]
)
BARRIER = frozenset(("bar", "barrier"))
_SOMETIMES = BARRIER | {"mbarrier", "wmma"}  # by their form, see ``has_result``


def is_barrier(instr: Instr) -> bool:
    """Whether all warps of the block may have to meet here."""
    if instr.op not in BARRIER or instr.has("warp"):
        return False
    return not (instr.has("cluster") and instr.has("arrive"))  # they meet at barrier.cluster.wait


def syncs_warp(instr: Instr) -> bool:
    """Whether it is ``bar.warp.sync``."""
    return instr.op in BARRIER and instr.has("warp")


def takes_warp(instr: Instr) -> bool:
    """Whether an instruction is meant for all lanes of the warp together."""
    if instr.op in ("mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"):
        return True
    if instr.op not in ("shfl", "vote", "match", "redux", "bar", "barrier"):
        return False
    members = instr.operands[-1]
    return isinstance(members, Imm) and members.value & 0xFFFFFFFF == 0xFFFFFFFF


def has_result(instr: Instr) -> bool:
    """Whether the first operand is a destination."""
    op = instr.op
    if op not in _SOMETIMES:
        return op not in NO_RESULT and bool(instr.operands)
    if op == "mbarrier":
        return not isinstance(instr.operands[0], Address)
    return not instr.has("store") if op == "wmma" else instr.has("red")


def flatten(operand: Operand | None) -> tuple[Operand | None, ...]:
    """A vector or pair as its items; anything else alone."""
    if isinstance(operand, Vector):
        return operand.items
    if isinstance(operand, Pair):
        return (*flatten(operand.first), *flatten(operand.second))
    return (operand,)


def register_of(operand: Operand | None) -> Reg | None:
    """The register that an operand reads, if any."""
    if isinstance(operand, Reg):
        return operand
    if isinstance(operand, Not):
        return register_of(operand.operand)
    if isinstance(operand, Address) and isinstance(operand.base, Reg):
        return operand.base
    return None


class Shape(NamedTuple):
    """What an instruction reads and writes, vectors and pairs as their items."""

    results: tuple[Operand | None, ...]  # the destinations (None for the sink ``_``)
    written: tuple[str, ...]
    read: tuple[str, ...]  # the guard included
    sources: tuple[Operand, ...]  # in textual order, addresses whole; a condition code read is last
    registers: tuple[str | None, ...]  # what each source reads, if it reads a register


def shape_of(instr: Instr) -> Shape:
    """The shape, worked out once an instruction and kept in the record."""
    found: Shape | None = getattr(instr, "_shape", None)
    if found is None:  # not by ``__dict__``: Python would make a dictionary for each record
        found = _shape(instr)
        object.__setattr__(instr, "_shape", found)
    return found


def _shape(instr: Instr) -> Shape:
    op, operands = instr.op, instr.operands
    if op == "call":  # returns, target, arguments, prototype
        target = operands[1:2] if isinstance(operands[1], Reg) else ()
        targets, given = operands[:1], (operands[2], *target)
    else:
        first = has_result(instr)
        targets, given = operands[:first], operands[first:]
    results: tuple[Operand | None, ...] = targets
    sources = given
    if not _SEVERAL.isdisjoint(map(type, operands)):
        results = tuple([item for part in targets for item in flatten(part)])
        sources = tuple([item for part in given for item in flatten(part) if item is not None])
    if op in _READS_CARRY:
        sources = (*sources, Reg(CARRY))
    written = tuple([o.name for o in results if type(o) is Reg]) if results else ()
    registers = tuple([o.name if type(o) is Reg else _name_of(o) for o in sources])
    read = tuple([name for name in registers if name is not None])
    if instr.guard is not None:
        read = (*read, instr.guard.reg.name)
    if "cc" in instr.mods:
        written = (*written, CARRY)
    return Shape(results, written, read, sources, registers)


def _name_of(operand: Operand) -> str | None:
    if type(operand) is Address:  # most of what is no register itself
        base = operand.base
        return base.name if type(base) is Reg else None
    register = register_of(operand)
    return None if register is None else register.name


_SEVERAL = frozenset((Vector, Pair))
_READS_CARRY = frozenset(("addc", "subc", "madc"))
CARRY = "%carry"  # the condition code of add.cc and its kin, as a register of type pred


def written_names(instr: Instr) -> tuple[str, ...]:
    """Names of the registers that an instruction writes."""
    return shape_of(instr).written


def read_names(instr: Instr) -> tuple[str, ...]:
    """Names of the registers that an instruction reads, its guard included."""
    return shape_of(instr).read
