"""The instruction set as tables, and the checks that ptxas would make on a module.

Sources: PTX ISA 8.8 and 9.x, the "Instructions" chapter and each instruction's "Target ISA Notes".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ge2rt.base.errors import CompileError, UnsupportedError
from ge2rt.ptx.ast import Function, Instr, Module, Special, Symbol, Vector
from ge2rt.ptx.isa_operands import check_operands
from ge2rt.ptx.isa_targets import DIRECTIVE_TARGETS, SPECIAL_TARGETS, TARGETS, Requirement

MAX_STATIC_SHARED = 48 * 1024
"""Bytes of static shared memory that a kernel may have on every architecture."""

Kind: TypeAlias = Literal["pure", "memory", "warp", "control", "barrier", "call", "hint"]


@dataclass(frozen=True)
class Opcode:
    """What is true of all forms of a base opcode, or of a sub-opcode such as ``wmma.load``.

    ``dests`` is the number of leading operands that are written; a pair or vector counts as one.
    """

    kind: Kind
    dests: int


def _rows(kind: Kind, dests: int, names: str) -> Iterator[tuple[str, Opcode]]:
    opcode = Opcode(kind, dests)
    for name in names.split():
        yield name, opcode


OPCODES: dict[str, Opcode] = dict([
    *_rows("pure", 1, "add sub mul mad mul24 mad24 div rem abs neg min max sad fma rcp sqrt rsqrt"),
    *_rows("pure", 1, "sin cos lg2 ex2 tanh copysign testp addc subc madc dp2a dp4a popc clz"),
    *_rows("pure", 1, "vabsdiff2 vabsdiff4"),
    *_rows("pure", 1, "bfind fns brev bfe bfi bmsk szext and or xor not cnot lop3 shf shl shr"),
    *_rows("pure", 1, "set setp selp slct mov prmt cvt cvta isspacep cvt.pack"),
    *_rows("pure", 1, "mapa getctarank"),
    *_rows("memory", 1, "ld ldu atom mbarrier.arrive mbarrier.arrive_drop mbarrier.test_wait"),
    *_rows("memory", 1, "mbarrier.try_wait mbarrier.pending_count createpolicy alloca stacksave"),
    *_rows("memory", 0, "st red cp.async cp.async.commit_group cp.async.wait_group"),
    *_rows("memory", 0, "cp.async.wait_all cp.async.mbarrier mbarrier.init mbarrier.inval"),
    *_rows("memory", 0, "mbarrier.expect_tx mbarrier.complete_tx membar fence stackrestore"),
    *_rows("warp", 1, "shfl vote match redux activemask elect mma ldmatrix movmatrix"),
    *_rows("warp", 1, "wmma.load wmma.mma"),
    *_rows("warp", 0, "wmma.store stmatrix bar.warp"),
    *_rows("control", 0, "bra brx ret exit trap"),
    *_rows("barrier", 0, "bar barrier barrier.cluster"),
    *_rows("barrier", 1, "bar.red barrier.red bar.cta.red barrier.cta.red"),
    *_rows("call", 0, "call"),
    *_rows("hint", 0, "prefetch prefetchu discard applypriority nanosleep pmevent brkpt"),
    *_rows("hint", 0, "griddepcontrol setmaxnreg"),
])  # fmt: skip
"""Known opcodes. Where sub-opcodes differ the longer name has its own row."""

_SUBDIVIDED: dict[str, frozenset[str]] = {
    base: frozenset(name[len(base) + 1 :] for name in OPCODES if name.startswith(base + "."))
    for base in {name.partition(".")[0] for name in OPCODES if "." in name}
}


_ARITY: dict[str, tuple[int, int]] = {
    name: (low, high)
    for low, high, names in (
        (0, 0, "ret exit trap"),
        (1, 1, "bra activemask"),
        (2, 2, "abs neg rcp sqrt rsqrt sin cos lg2 ex2 tanh popc clz brev bfind not cnot testp"),
        (2, 2, "mov cvta isspacep getctarank ldmatrix stmatrix movmatrix brx"),
        (2, 3, "ld st red vote"),
        (2, 4, "cvt"),
        (3, 3, "add sub mul mul24 div rem and or xor shl shr copysign addc subc bmsk szext mapa"),
        (3, 3, "match redux"),
        (3, 4, "min max set setp call"),
        (3, 5, "atom"),
        (4, 4, "mad mad24 fma sad madc dp2a dp4a vabsdiff2 vabsdiff4 shf prmt bfe selp slct fns"),
        (4, 5, "shfl"),
        (5, 5, "bfi"),
        (5, 6, "lop3"),
    )
    for name in names.split()
}  # fmt: skip

# Forms of known opcodes that have no counterpart here: opcode and a dotted part.
_GAPS: frozenset[tuple[str, str]] = frozenset(
    [("cp", "bulk"), ("st", "async"), ("st", "bulk"), ("red", "async"), ("prefetch", "tensormap")]
)


def opcode(instr: Instr) -> Opcode | None:
    """The table row of an instruction, or None where this version does not know it."""
    subdivided = _SUBDIVIDED.get(instr.op)
    if subdivided is not None:
        mods = instr.mods
        for length in (2, 1):
            rest = ".".join(mods[:length])
            if rest in subdivided:
                return OPCODES[f"{instr.op}.{rest}"]
    return OPCODES.get(instr.op)


def is_known(instr: Instr) -> bool:
    """Whether the tables know the form; the rules may still lack it."""
    return opcode(instr) is not None and not any((instr.op, mod) in _GAPS for mod in instr.mods)


def kind(instr: Instr) -> Kind:
    """The kind of a known instruction; raises :class:`UnsupportedError` for another."""
    found = opcode(instr)
    if found is None:
        raise unsupported(instr)
    return found.kind


def unsupported(instr: Instr, reason: str = "") -> UnsupportedError:
    """The error for an instruction that cannot run here."""
    return UnsupportedError(
        f"the PTX instruction {instr.form} is not supported{reason and ': ' + reason}",
        where=f"ptx:{instr.line}",
        next_step="Build the kernel for an older target, or run it on a GPU.",
    )


def requirement(instr: Instr) -> Requirement | None:
    """The most demanding target note that applies to the form, or None."""
    mods = frozenset(instr.mods)
    rows = [row for row in TARGETS.get(instr.op, ()) if row.applies(mods, len(instr.operands))]
    return max(rows, key=lambda row: row.order, default=None)


def sm_of(target: str) -> tuple[int, str]:
    """``"sm_90a"`` -> ``(90, "a")``."""
    digits = target[3:].rstrip("abcdefghijklmnopqrstuvwxyz")
    if not target.startswith("sm_") or not digits.isdigit():
        raise CompileError(f"unknown .target {target!r}", where="ptx:1", expected="sm_NN")
    return int(digits), target[3 + len(digits) :]


def check_module(module: Module) -> None:
    """Refuse what ptxas would refuse, and what this library does not know.

    Raises :class:`CompileError` for forms above ``.target`` and too much static shared memory, and
    :class:`UnsupportedError` for unknown instructions; both name the line.
    """
    if module.address_size != 64:
        raise UnsupportedError(f".address_size {module.address_size} is not supported")
    sm, suffix = sm_of(module.target)
    needs: dict[tuple[str, tuple[str, ...], int], Requirement | None] = {}
    for function in module.functions.values():
        _check_directives(function, sm, module.target)
        for block in function.blocks:
            for instr in block.instrs:
                form = (instr.op, instr.mods, len(instr.operands))
                if form not in needs:
                    needs[form] = _known_requirement(instr)
                needed = needs[form]
                if needed is not None and not needed.met(sm, suffix):
                    raise _above(instr.form, needed, module.target, instr.line)
                check_operands(function, instr)
                if sm < 90 and instr.op == "mov":
                    _check_special(instr, sm, module.target)
    _check_shared(module)


def _known_requirement(instr: Instr) -> Requirement | None:
    if not is_known(instr):
        raise unsupported(instr)
    count = len(instr.operands)
    low, high = _ARITY.get(instr.op, (count, count))
    if not low <= count <= high:
        raise CompileError(
            f"{instr.form} has {count} operands",
            where=f"ptx:{instr.line}",
            expected=str(low) if low == high else f"{low} to {high}",
        )
    return requirement(instr)


def _check_special(instr: Instr, sm: int, target: str) -> None:
    source = instr.operands[-1]
    needed = SPECIAL_TARGETS.get(source.name, 0) if isinstance(source, Special) else 0
    if isinstance(source, Special) and sm < needed:
        raise _above(f"%{source.name}", Requirement(needed), target, instr.line)


def _above(what: str, needed: Requirement, target: str, line: int) -> CompileError:
    return CompileError(
        f"{what} needs {needed}, the module's .target is {target}",
        where=f"ptx:{line}",
        next_step=f"Compile for {needed} or newer.",
    )


def _check_directives(function: Function, sm: int, target: str) -> None:
    for name in function.directives:
        needed = DIRECTIVE_TARGETS.get(name, 0)
        if sm < needed:
            raise _above(f".{name}", Requirement(needed), target, function.line)


def static_shared(module: Module, entry: str) -> int:
    """Bytes of static shared memory that an entry and the functions it reaches declare or name."""
    shared = {v.name: v for v in module.variables if v.space == "shared" and not v.extern}
    seen, used = {entry}, set[str]()
    todo, sizes = [entry], 0
    while todo:
        function = module.functions[todo.pop()]
        for variable in function.variables:
            if variable.space == "shared" and not variable.extern:
                sizes = -(-sizes // variable.align) * variable.align + variable.nbytes
        for name in _symbols(function):
            if name in shared:
                used.add(name)
            elif name in module.functions and name not in seen:
                seen.add(name)
                todo.append(name)
    for name in sorted(used):
        sizes = -(-sizes // shared[name].align) * shared[name].align + shared[name].nbytes
    return sizes


def _check_shared(module: Module) -> None:
    declared = list(module.variables)
    for function in module.functions.values():
        declared.extend(function.variables)
    if sum(v.nbytes + v.align for v in declared if v.space == "shared") <= MAX_STATIC_SHARED:
        return
    for name in module.entries():
        size = static_shared(module, name)
        if size > MAX_STATIC_SHARED:
            raise CompileError(
                f"entry {name} uses too much shared data ({size} bytes, {MAX_STATIC_SHARED} max)",
                where=f"ptx:{module.functions[name].line}",
                next_step="Use dynamic shared memory (extern __shared__), or smaller tiles.",
            )


def _symbols(function: Function) -> Iterator[str]:
    for block in function.blocks:
        for instr in block.instrs:
            for operand in instr.operands:
                base = getattr(operand, "base", operand)
                for item in operand.items if isinstance(operand, Vector) else (base,):
                    if isinstance(item, Symbol):
                        yield item.name
