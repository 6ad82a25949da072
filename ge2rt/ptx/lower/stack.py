"""``alloca``, ``stacksave`` and ``stackrestore``: a local array a function, and a register into it.

The stack grows down. What a call takes is free when it is called again; a function that a kernel
copies in has an array of its own for each place it is called from. An array that is too small ends
the launch (``overflow``, an instruction of our own), as a GPU's stack limit does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Block, Function, Guard, Imm, Instr, Module, Operand, Reg, Symbol, Variable
from ge2rt.ptx.emit import Value
from ge2rt.ptx.lower.messages import abort
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.native import ABORT_STACK

STACK_BYTES = 8192  # a thread and function
ALIGN = 16  # the most that an address may ask for: of a lane's local memory
_OPS = frozenset(("alloca", "stacksave", "stackrestore"))
_TOP, _BASE, _ROOM, _FULL = (Reg(f"%stack.{n}") for n in ("top", "base", "room", "full"))
_ARRAY = "%stack.array"


def with_stacks(module: Module) -> Module:
    """The module with the three instructions rewritten to arithmetic."""
    users = {name: f for name, f in module.functions.items() if _uses(f)}
    if not users:
        return module
    rewritten = {name: _rewritten(function) for name, function in users.items()}
    return replace(module, functions={**module.functions, **rewritten})


def _uses(function: Function) -> bool:
    return any(i.op in _OPS for block in function.blocks for i in block.instrs)


def _rewritten(function: Function) -> Function:
    first = function.blocks[0]
    line = first.instrs[0].line if first.instrs else function.line
    start = Block(
        f"{first.label}.stack",
        (
            _step("mov", (_BASE, Symbol(_ARRAY)), line),
            _step("add", (_TOP, _BASE, Imm(STACK_BYTES)), line),
        ),
        (first.label,),
    )
    blocks = tuple(
        replace(b, instrs=tuple(n for i in b.instrs for n in _steps(i))) for b in function.blocks
    )
    types = {_TOP.name: "b64", _BASE.name: "b64", _ROOM.name: "b64", _FULL.name: "pred"}
    array = Variable(_ARRAY, "local", "b8", ALIGN, STACK_BYTES, line=line)
    return replace(
        function, blocks=(start, *blocks), registers={**function.registers, **types},
        variables=(*function.variables, array),
    )  # fmt: skip


def _steps(instr: Instr) -> Iterator[Instr]:
    if instr.op not in _OPS:
        yield instr
        return
    if instr.types not in (("u64",), ("b64",)):
        raise UnsupportedError(
            f"PTX instruction {instr.form} is not there on the cpu device: addresses have 64 bits",
            where=f"ptx:{instr.line}",
        )
    guard, line = instr.guard, instr.line
    if instr.op == "stacksave":
        yield _step("mov", (instr.operands[0], _TOP), line, guard)
    elif instr.op == "stackrestore":
        yield _step("mov", (_TOP, instr.operands[0]), line, guard)
    else:
        target, size = instr.operands[:2]
        align = instr.operands[2] if len(instr.operands) > 2 else Imm(8)
        if not isinstance(align, Imm) or align.value > ALIGN:
            raise UnsupportedError(
                f"an alignment of more than {ALIGN} bytes in alloca", where=f"ptx:{line}"
            )
        yield _step("sub", (_ROOM, _TOP, _BASE), line)
        if guard is not None:  # lanes that do not take part have room
            yield Instr("setp", ("ne", "s32"), (_FULL, Imm(0), Imm(0)), None, line, ("s32",))
        yield Instr("setp", ("gt", "u64"), (_FULL, size, _ROOM), guard, line, ("u64",))
        yield Instr("overflow", (), (), Guard(_FULL), line)
        yield _step("sub", (_TOP, _TOP, size), line, guard)
        yield Instr("and", ("b64",), (_TOP, _TOP, Imm(-align.value)), guard, line, ("b64",))
        yield _step("mov", (target, _TOP), line, guard)


def _step(op: str, operands: tuple[Operand, ...], line: int, guard: Guard | None = None) -> Instr:
    type = "u64" if op == "mov" else "s64"
    return Instr(op, (type,), operands, guard, line, (type,))


def overflow(scope: Scope, instr: Instr) -> list[Value]:
    """The lanes' stack is too small."""
    abort(scope, ABORT_STACK)
    return []
