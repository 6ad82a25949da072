"""Which operands of an instruction are written and which are read, flattened to single items."""

from __future__ import annotations

from dataclasses import dataclass

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
    if instr.op in BARRIER:
        return instr.has("red")
    if instr.op == "mbarrier":
        return not isinstance(instr.operands[0], Address)
    if instr.op == "wmma":
        return not instr.has("store")
    return instr.op not in NO_RESULT and bool(instr.operands)


def flatten(operand: Operand | None) -> tuple[Operand | None, ...]:
    """A vector or pair as its items; anything else alone."""
    if isinstance(operand, Vector):
        return operand.items
    if isinstance(operand, Pair):
        return (*flatten(operand.first), *flatten(operand.second))
    return (operand,)


def destinations(instr: Instr) -> tuple[Operand | None, ...]:
    """The written operands (None for the sink ``_``)."""
    if instr.op == "call":
        return flatten(instr.operands[0])
    return flatten(instr.operands[0]) if has_result(instr) else ()


def sources(instr: Instr) -> tuple[Operand, ...]:
    """The read operands in textual order, vectors flattened; addresses stay whole.

    The condition code stands last where it is read, as the rules want it.
    """
    if instr.op == "call":
        given = tuple(o for o in flatten(instr.operands[2]) if o is not None)
        return (*given, instr.operands[1]) if isinstance(instr.operands[1], Reg) else given
    first = int(has_result(instr))
    found = tuple(o for part in instr.operands[first:] for o in flatten(part) if o is not None)
    return (*found, Reg(CARRY)) if instr.op in ("addc", "subc", "madc") else found


def register_of(operand: Operand | None) -> Reg | None:
    """The register that an operand reads, if any."""
    if isinstance(operand, Reg):
        return operand
    if isinstance(operand, Not):
        return register_of(operand.operand)
    if isinstance(operand, Address) and isinstance(operand.base, Reg):
        return operand.base
    return None


@dataclass(frozen=True)
class Shape:
    """What an instruction reads and writes."""

    written: tuple[str, ...]
    read: tuple[str, ...]  # the guard included
    sources: tuple[Operand, ...]
    registers: tuple[str | None, ...]  # what each source reads, if it reads a register


def shape_of(instr: Instr) -> Shape:
    """The shape, worked out once an instruction (kept in the record, as cached properties are)."""
    found: Shape | None = instr.__dict__.get("_shape")
    if found is None:
        found = instr.__dict__["_shape"] = _shape(instr)
    return found


def _shape(instr: Instr) -> Shape:
    operands = sources(instr)
    written = [o.name for o in destinations(instr) if isinstance(o, Reg)]
    registers = tuple(None if r is None else r.name for r in map(register_of, operands))
    read = [name for name in registers if name is not None]
    if instr.guard is not None:
        read.append(instr.guard.reg.name)
    if "cc" in instr.mods:
        written.append(CARRY)
    return Shape(tuple(written), tuple(read), operands, registers)


CARRY = "%carry"  # the condition code of add.cc and its kin, as a register of type pred


def written_names(instr: Instr) -> tuple[str, ...]:
    """Names of the registers that an instruction writes."""
    return shape_of(instr).written


def read_names(instr: Instr) -> tuple[str, ...]:
    """Names of the registers that an instruction reads, its guard included."""
    return shape_of(instr).read
