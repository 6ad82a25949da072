"""Device functions copied into their callers, and call parameters turned into registers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import (
    Address,
    Block,
    Function,
    Guard,
    Instr,
    Module,
    Not,
    Operand,
    Pair,
    Param,
    Reg,
    Symbol,
    Variable,
    Vector,
)

MAX_INSTRUCTIONS = 100_000  # of a kernel with all calls copied in
_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


def inlined(module: Module, function: Function, stay: Collection[str] = ()) -> Function:
    """The function without calls of functions that have a body, but for those named in ``stay``."""
    if not any(i.op == "call" for b in function.blocks for i in b.instrs):
        return function
    body = _Body(module, frozenset(stay))
    blocks = body.expand(function, "", {}, (function.name,))
    merged = replace(
        function,
        blocks=tuple(blocks),
        registers={**function.registers, **body.registers},
        variables=(*function.variables, *body.variables),
    )
    return _without_call_parameters(merged)


@dataclass
class _Body:
    module: Module
    stay: frozenset[str]
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    calls: int = 0
    size: int = 0

    def expand(
        self, function: Function, tag: str, names: dict[str, str], stack: tuple[str, ...]
    ) -> list[Block]:
        """Copies of the blocks with names under ``tag`` and with calls replaced by bodies."""
        blocks: list[Block] = []
        rename = _renamer(function, tag, names)
        for block in function.blocks:
            label, open_instrs = tag + block.label, list[Instr]()
            for instr in block.instrs:
                self.size += 1
                now = _renamed(instr, rename)
                callee = self._callee(now)
                if callee is None:
                    open_instrs.append(now)
                    continue
                if self.size > MAX_INSTRUCTIONS or callee.name in stack:
                    why = "recursion" if callee.name in stack else "too much code in calls"
                    raise UnsupportedError(f"{why}: {callee.name}", where=f"ptx:{instr.line}")
                self.calls += 1
                after = f"{tag}{block.label}.after{self.calls}"
                inside = f"{callee.name}.{self.calls}."
                start = inside + callee.blocks[0].label
                jump = Instr("bra", (), (Symbol(start),), now.guard, now.line)
                targets = (start, after) if now.guard else (start,)
                moves, mapping = _bind(callee, now, inside)
                if moves and now.guard:
                    raise UnsupportedError("guarded call", where=f"ptx:{instr.line}")
                blocks.append(Block(label, (*open_instrs, *moves, jump), targets))
                self._declare(callee, inside, mapping)
                for copied in self.expand(callee, inside, mapping, (*stack, callee.name)):
                    blocks.append(_returning(copied, after))
                label, open_instrs = after, []
            successors = tuple(tag + s for s in block.successors)
            blocks.append(Block(label, tuple(open_instrs), successors))
        return blocks

    def _callee(self, instr: Instr) -> Function | None:
        if instr.op != "call":
            return None
        target = instr.operands[1]
        if not isinstance(target, Symbol) or target.name in self.stay:
            return None
        return self.module.functions.get(target.name)

    def _declare(self, callee: Function, tag: str, mapping: dict[str, str]) -> None:
        for name, type in callee.registers.items():
            self.registers[tag + name] = type
        for variable in callee.variables:
            if variable.space == "shared":
                if all(v.name != variable.name for v in self.variables):
                    self.variables.append(variable)
            else:
                self.variables.append(replace(variable, name=tag + variable.name))


def _bind(callee: Function, call: Instr, tag: str) -> tuple[list[Instr], dict[str, str]]:
    """Moves into register parameters, and the caller's names for the others."""
    moves: list[Instr] = []
    mapping: dict[str, str] = {}
    given = [*_items(call.operands[0]), *_items(call.operands[2])]
    wanted: list[Param] = [*callee.returns, *callee.params]
    if len(given) != len(wanted):
        raise UnsupportedError(f"call of {callee.name} with other arguments than declared",
                               where=f"ptx:{call.line}")  # fmt: skip
    for number, (argument, parameter) in enumerate(zip(given, wanted, strict=True)):
        if isinstance(argument, Symbol) and not parameter.is_register:
            mapping[parameter.name] = argument.name
        elif number >= len(callee.returns) and parameter.is_register and argument is not None:
            target = Reg(tag + parameter.name)
            moves.append(Instr("mov", (parameter.type,), (target, argument), None, call.line,
                               (parameter.type,)))  # fmt: skip
        else:
            raise UnsupportedError(f"call of {callee.name} by registers", where=f"ptx:{call.line}")
    return moves, mapping


def _items(operand: Operand) -> tuple[Operand | None, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _returning(block: Block, after: str) -> Block:
    """``ret`` of a copied body becomes a jump behind the call."""
    instrs: list[Instr] = []
    successors = block.successors
    for instr in block.instrs:
        if instr.op == "ret":
            instr = Instr("bra", (), (Symbol(after),), instr.guard, instr.line)
            successors = (after, *successors) if instr.guard else (after,)
        instrs.append(instr)
    return Block(block.label, tuple(instrs), successors)


Rename = Callable[[str], str]


def _renamer(function: Function, tag: str, names: dict[str, str]) -> Rename:
    if not tag:
        return lambda name: name
    shared = {v.name for v in function.variables if v.space == "shared"}
    own = {v.name for v in function.variables} - shared
    own |= set(function.registers) | {b.label for b in function.blocks}

    def rename(name: str) -> str:
        if name in names:
            return names[name]
        return tag + name if name in own else name

    return rename


def _renamed(instr: Instr, rename: Rename) -> Instr:
    operands = tuple(_operand(o, rename) for o in instr.operands)
    guard = instr.guard and Guard(Reg(rename(instr.guard.reg.name)), instr.guard.negated)
    return replace(instr, operands=operands, guard=guard)


def _operand(operand: Operand, rename: Rename) -> Operand:
    if isinstance(operand, Reg):
        return Reg(rename(operand.name))
    if isinstance(operand, Symbol):
        return Symbol(rename(operand.name), operand.offset)
    if isinstance(operand, Address) and operand.base is not None:
        base = _operand(operand.base, rename)
        assert isinstance(base, Reg | Symbol)
        return Address(base, operand.offset)
    if isinstance(operand, Vector):
        return Vector(tuple(o and _operand(o, rename) for o in operand.items))
    if isinstance(operand, Pair):
        first, second = operand.first, operand.second
        return Pair(first and _operand(first, rename), second and _operand(second, rename))
    if isinstance(operand, Not):
        return Not(_operand(operand.operand, rename))
    return operand


# -- call parameters -------------------------------------------------------------------------


def _without_call_parameters(function: Function) -> Function:
    """Variables of .param space inside: registers where all accesses agree, else local memory."""
    own = {v.name for v in function.variables if v.space == "param"}
    chunks: dict[str, set[tuple[int, int]]] = {name: set() for name in own}
    loose: set[str] = set()
    for instr in _instructions(function):
        touched = _access(instr, own)
        if touched is not None:
            name, offset, size, count = touched
            chunks[name] |= {(offset + k * size, size) for k in range(count)}
            if size == 1 or instr.guard is not None:
                loose.add(name)
        else:
            loose |= {n for n in _symbols(instr) if n in own}
    loose |= {name for name in own if _overlap(chunks[name])}
    registers = dict(function.registers)
    for name in own - loose:
        for offset, size in chunks[name]:
            registers[_register(name, offset)] = f"b{8 * size}"
    blocks = tuple(
        replace(b, instrs=tuple(n for i in b.instrs for n in _rewritten(i, own, loose)))
        for b in function.blocks
    )
    variables = tuple(
        replace(v, space="local") if v.name in loose else v
        for v in function.variables
        if v.name not in own - loose
    )
    return replace(function, blocks=blocks, registers=registers, variables=variables)


def _instructions(function: Function) -> Iterator[Instr]:
    for block in function.blocks:
        yield from block.instrs


def _access(instr: Instr, own: set[str]) -> tuple[str, int, int, int] | None:
    """(variable, offset, element size, elements) of a direct parameter access."""
    if instr.op not in ("ld", "st") or "param" not in instr.mods:
        return None
    address = instr.operands[1 if instr.op == "ld" else 0]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return None
    if address.base.name not in own:
        return None
    items = instr.operands[0 if instr.op == "ld" else 1]
    size = _SIZES.get(instr.types[-1].lstrip("bufs"))
    if size is None:
        return None
    return address.base.name, address.base.offset + address.offset, size, len(_items(items))


def _symbols(instr: Instr) -> Iterator[str]:
    if instr.op == "call":
        for operand in (*_items(instr.operands[0]), *_items(instr.operands[2])):
            if isinstance(operand, Symbol):
                yield operand.name
        return
    for operand in instr.operands:
        base = operand.base if isinstance(operand, Address) else operand
        if isinstance(base, Symbol):
            yield base.name


def _overlap(chunks: set[tuple[int, int]]) -> bool:
    ordered = sorted(chunks)
    return any(a + size > b for (a, size), (b, _) in itertools.pairwise(ordered))


def _register(name: str, offset: int) -> str:
    return f"{name}+{offset}"


def _rewritten(instr: Instr, own: set[str], loose: set[str]) -> list[Instr]:
    touched = _access(instr, own)
    if touched is None or touched[0] in loose:
        if touched is None and not (instr.op in ("ld", "st") and "param" in instr.mods):
            return [instr]
        if not any(n in loose for n in _symbols(instr)):
            return [instr]
        mods = tuple("local" if m == "param" else m for m in instr.mods)
        return [replace(instr, mods=mods)]
    name, offset, size, _ = touched
    is_load = instr.op == "ld"
    moves: list[Instr] = []
    for k, item in enumerate(_items(instr.operands[0 if is_load else 1])):
        if item is None:
            continue
        cell = Reg(_register(name, offset + k * size))
        type = f"b{8 * size}"
        pair = (item, cell) if is_load else (cell, item)
        moves.append(Instr("mov", (type,), pair, None, instr.line, (type,), instr.loc))
    return moves
