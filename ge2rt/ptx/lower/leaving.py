"""``exit`` in functions that stay functions: their lanes end, the callers' others go on.

A function returns the mask of the lanes that ended in it. Two instructions of our own stand for
that: ``quit`` in place of ``exit`` in the function, and ``gone`` behind each call, which yields
whether a lane ended; those lanes ``exit`` there (a ``quit`` in turn where the caller is such a
function itself).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ge2rt.ptx.ast import Block, Function, Guard, Instr, Reg, Symbol
from ge2rt.ptx.emit import Value
from ge2rt.ptx.lower.values import Scope

_GONE = Reg("%gone")


def with_leaving(
    kernel: Function, others: Sequence[Function], names: Sequence[str]
) -> tuple[Function, list[Function]]:
    """The kernel and the functions ``names`` that it may call, so that lanes can end in these."""
    if not any(i.op == "exit" for f in others for b in f.blocks for i in b.instrs):
        return kernel, list(others)
    watched = [_watching(function, names) for function in (kernel, *others)]
    return watched[0], [_quitting(function) for function in watched[1:]]


def _watching(function: Function, names: Sequence[str]) -> Function:
    blocks = tuple(
        replace(b, instrs=tuple(n for i in b.instrs for n in _watched(i, names)))
        for b in function.blocks
    )
    return replace(function, blocks=blocks, registers={**function.registers, _GONE.name: "pred"})


def _watched(instr: Instr, names: Sequence[str]) -> tuple[Instr, ...]:
    target = instr.operands[1] if instr.op == "call" else None
    if target is None or (isinstance(target, Symbol) and target.name not in names):
        return (instr,)
    ended = Instr("gone", ("pred",), (_GONE,), None, instr.line, ("pred",), instr.loc)
    leave = Instr("exit", (), (), Guard(_GONE), instr.line, (), instr.loc)
    return instr, ended, leave


def _quitting(function: Function) -> Function:
    def quit(block: Block) -> Block:
        instrs = (replace(i, op="quit") if i.op == "exit" else i for i in block.instrs)
        return replace(block, instrs=tuple(instrs))

    return replace(function, blocks=tuple(quit(b) for b in function.blocks))


def quit_function(scope: Scope, instr: Instr) -> list[Value]:
    """The active lanes end: no barrier waits for them any more."""
    e, code = scope.e, scope.code
    word = f"i{code.width}"
    active = scope.active(instr)
    bits = e.raw(f"bitcast {active} to {word}", word) if active else Value(word, "-1")
    slot = code.alloca("mask.quit", word)
    before = e.raw(f"load {word}, ptr {slot}", word)
    e.line(f"store {e.binary('or', before, bits)}, ptr {slot}")
    count = e.convert("zext", e.call("llvm.ctpop", [bits]) if code.width > 1 else bits, "i32")
    e.line(f"call void @crew_fewer(ptr %strand, {count})")
    return []


def gone(scope: Scope, instr: Instr) -> list[Value]:
    """Which lanes ended in the last call."""
    e, code = scope.e, scope.code
    word = f"i{code.width}"
    bits = e.raw(f"load {word}, ptr {code.alloca('mask.gone', word)}", word)
    if code.width == 1:
        return [bits]
    return [e.raw(f"bitcast {bits} to <{code.width} x i1>", "i1", code.width)]
