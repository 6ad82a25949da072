"""Operands that an instruction cannot do with: a guard of numbers, an access without an address."""

from __future__ import annotations

from ge2rt.base.errors import CompileError
from ge2rt.ptx.ast import Address, Function, Instr, Reg

# opcode -> numbers of the operands that must be addresses
_ADDRESSES: dict[str, tuple[int, ...]] = {
    "ld": (1,), "ldu": (1,), "st": (0,), "atom": (1,), "red": (0,), "ldmatrix": (1,),
    "stmatrix": (0,), "prefetch": (0,), "prefetchu": (0,),
}  # fmt: skip


def check_operands(function: Function, instr: Instr) -> None:
    """Raise :class:`CompileError` that names the line and the operand."""
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
    target = instr.operands[0] if instr.op == "setp" else None
    if isinstance(target, Reg) and function.registers.get(target.name) != "pred":
        raise _wrong(instr, f"the result {target.name}", "a .pred register")


def _wrong(instr: Instr, what: str, expected: str) -> CompileError:
    return CompileError(
        f"{instr.form}: {what} is of the wrong kind", where=f"ptx:{instr.line}", expected=expected
    )
