"""Operands that an instruction cannot do with: a guard of numbers, an access without an address."""

from __future__ import annotations

from ge2rt.base.errors import CompileError
from ge2rt.ptx.ast import Address, Function, Instr, Not, Reg, Vector

# opcode -> numbers of the operands that must be addresses
_ADDRESSES: dict[str, tuple[int, ...]] = {
    "ld": (1,), "ldu": (1,), "st": (0,), "atom": (1,), "red": (0,), "ldmatrix": (1,),
    "stmatrix": (0,), "prefetch": (0,), "prefetchu": (0,),
}  # fmt: skip
# opcode -> number of the operand that must be a predicate
_PREDICATES = {"setp": 0, "selp": -1, "vote": 1}
_ASKED = frozenset((*_ADDRESSES, *_PREDICATES, "cp", "bar", "barrier", "mov"))
_PIECES = (8, 16, 32, 64)


def check_operands(function: Function, instr: Instr) -> None:
    """Raise :class:`CompileError` that names the line and the operand."""
    if instr.guard is None and instr.op not in _ASKED:
        return
    if instr.guard is not None and function.registers.get(instr.guard.reg.name) != "pred":
        raise _wrong(instr, f"the guard @{instr.guard.reg.name}", "a .pred register")
    if instr.op in ("ld", "ldu", "st") and not instr.types:
        raise CompileError(f"{instr.form} names no type", where=f"ptx:{instr.line}")
    numbers = _ADDRESSES.get(instr.op, ())
    if instr.op == "cp" and len(instr.operands) > 1:
        numbers = (0, 1)
    for number in numbers:
        if number < len(instr.operands) and not isinstance(instr.operands[number], Address):
            raise _wrong(instr, f"operand {number + 1}", "an address in brackets")
    _check_predicate(function, instr)
    if instr.op == "mov":
        _check_pieces(instr)


def _check_predicate(function: Function, instr: Instr) -> None:
    reduces = instr.op in ("bar", "barrier") and instr.has("red")
    number = -1 if reduces else _PREDICATES.get(instr.op)
    if number is None or not instr.operands:
        return
    operand = instr.operands[number]
    operand = operand.operand if isinstance(operand, Not) else operand
    if isinstance(operand, Reg) and function.registers.get(operand.name) != "pred":
        raise _wrong(instr, f"operand {operand.name}", "a .pred register")


def _check_pieces(instr: Instr) -> None:
    """A vector in a ``mov`` splits its type into registers."""
    bits = instr.types[-1].lstrip("bufs") if instr.types else ""
    for operand in instr.operands:
        if isinstance(operand, Vector):
            size = int(bits) if bits.isdigit() else 0
            if size % len(operand.items) or size // len(operand.items) not in _PIECES:
                raise _wrong(instr, "the vector", "a type that the registers share out evenly")


def _wrong(instr: Instr, what: str, expected: str) -> CompileError:
    return CompileError(
        f"{instr.form}: {what} is of the wrong kind", where=f"ptx:{instr.line}", expected=expected
    )
