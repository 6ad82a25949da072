"""The body of a PTX function: statements to instructions, instructions to basic blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ge2rt.base.errors import CompileError, Ge2rtError
from ge2rt.ptx import isa
from ge2rt.ptx.ast import (
    Block,
    Guard,
    Imm,
    Instr,
    Operand,
    Param,
    Symbol,
    Variable,
    Vector,
)
from ge2rt.ptx.parse_operand import Names, Operands, Scope, guard_of
from ge2rt.ptx.parse_variable import split_declaration, variables
from ge2rt.ptx.scan import STATEMENT, bits_float, excerpt, float_bits, line_at, split_form

_TRANSFERS = frozenset(("bra", "brx", "ret", "exit", "trap"))
_NUMBER = re.compile(r"(?<=\s)\d+\b")
_CALL = re.compile(
    r"\s*(?:\(([^()]*)\)\s*,\s*)?([%\w$]+)\s*(?:,\s*\(([^()]*)\)\s*)?(?:,\s*([%\w$]+)\s*)?",
    re.ASCII,
)


@dataclass(frozen=True)
class Body:
    """What the text between the outer braces of a function holds."""

    registers: dict[str, str]
    variables: tuple[Variable, ...]
    blocks: tuple[Block, ...]
    loose: frozenset[str]  # symbols that only the module can declare
    end: int  # position after the closing brace


class BodyParser:
    """Parses one body. ``text`` is free of comments; ``position`` is after the opening brace."""

    def __init__(self, text: str, position: int, parameters: Iterable[Param]) -> None:
        self._text = text
        self._position = position
        self._line = line_at(text, position)
        self._names = Names()
        self._stack: list[Operands] = []
        self._operands = Operands(self._names)
        self._guards: dict[str, Guard] = {}
        self._instrs: list[Instr] = []
        self._variables: list[Variable] = []
        self._labels: dict[int, list[str]] = {}  # position among the instructions -> labels there
        self._jumps: list[tuple[int, Scope]] = []  # bra and brx, resolved at the end
        self._tables: dict[str, tuple[str, Scope]] = {}
        self._inlined: dict[tuple[int, ...], tuple[int, ...]] = {}  # position -> place of the call
        for parameter in parameters:
            if parameter.is_register:
                self._names.declare_register(parameter.name, parameter.type)
            elif parameter.name != "_":
                self._names.declare_symbol(parameter.name)

    def parse(self) -> Body:
        """Read to the closing brace. Errors carry the line."""
        try:
            end = self._statements()
            blocks = self._blocks()
        except Ge2rtError as error:
            raise error.about(where=f"ptx:{self._line}") from None
        names = self._names
        return Body(names.registers, tuple(self._variables), blocks, frozenset(names.loose), end)

    # -- statements --------------------------------------------------------------------------
    def _statements(self) -> int:
        """The hot loop: one regular expression match a statement."""
        text, match, instrs = self._text, STATEMENT.match, self._instrs
        position = counted = self._position
        loc: tuple[int, int] | None = None
        guard: Guard | None
        while True:
            found = match(text, position)
            if found is None:
                self._line += text.count("\n", counted, self._skip_blank(position))
                raise self._unreadable(position)
            kind = found.lastindex
            start = found.start(2 if kind == 3 else kind or 0)
            self._line += text.count("\n", counted, start)
            counted = start
            position = found.end()
            if kind == 3:
                at, form, rest = found.group(1, 2, 3)
                op, mods, types = split_form(form)
                line = self._line
                guard = self._guard(at) if at else None
                if op in ("call", "bra", "brx"):
                    operands = self._transfer(op, rest)
                else:
                    try:
                        operands = self._operands.all(rest)
                    except CompileError as error:
                        raise self._refused(error, op, mods, line) from None
                    if types and types[-1] == "f32" and "." in rest:
                        operands = _as_single(operands)
                instrs.append(Instr(op, mods, operands, guard, line, types, loc))
            elif kind == 5:
                loc = self._location(found) if "inlined" in found[0] else (
                    int(found[4]), int(found[5])
                )  # fmt: skip
            elif kind is not None and self._other(kind, found):
                return position

    def _location(self, found: re.Match[str]) -> tuple[int, int]:
        """Of inlined code: the innermost place in the file that the chain of calls begins in."""
        numbers = [int(n) for n in _NUMBER.findall(found[0])]
        file, line, column = numbers[:3]
        caller = self._inlined.get((numbers[-3], numbers[-2], numbers[-1]), tuple(numbers[-3:-1]))
        chosen = (file, line) if file == caller[0] else (caller[0], caller[1])
        self._inlined[file, line, column] = chosen
        return chosen

    def _refused(
        self, error: CompileError, op: str, mods: tuple[str, ...], line: int
    ) -> Ge2rtError:
        """Unknown instructions have unknown operands: name the instruction then."""
        self._line = line
        instr = Instr(op, mods, (), None, line)
        return error if isa.is_known(instr) else isa.unsupported(instr)

    def _other(self, kind: int, found: re.Match[str]) -> bool:
        """Braces, labels and declarations; True at the end of the body."""
        if kind == 6:
            return self._brace(found[6])
        if kind == 9:
            if found[8] == "branchtargets":
                self._tables[found[7]] = (found[9], self._names.scope)
        elif kind == 10:
            unique = self._names.declare_label(found[10])
            self._labels.setdefault(len(self._instrs), []).append(unique)
        else:
            self._declare(found[11], found[12])
        return False

    def _skip_blank(self, position: int) -> int:
        rest = self._text[position:]
        return position + len(rest) - len(rest.lstrip())

    def _unreadable(self, position: int) -> CompileError:
        words = excerpt(self._text, position)
        if not words:
            return CompileError("the text ends inside a function")
        return CompileError(f"cannot read the statement {words!r}")

    def _brace(self, brace: str) -> bool:
        if brace == "{":
            self._names.push()
            self._stack.append(self._operands)
            return False
        if not self._names.pop():
            return True
        self._operands = self._stack.pop()
        self._guards = {}
        return False

    def _declare(self, space: str, rest: str) -> None:
        text = f".{space}{rest}"
        names = self._names
        if space == "reg":
            kind, declarators = split_declaration(text)
            if kind.lanes > 1:
                raise CompileError("vector registers are not supported")
            for declared in declarators:
                if declared.extent is not None or declared.initial is not None:
                    raise CompileError(f"cannot read the declaration {excerpt(text)!r}")
                if declared.count is None:
                    names.declare_register(declared.name, kind.type)
                else:
                    names.declare_range(declared.name, declared.count, kind.type)
        else:
            for variable in variables(text, self._line):
                unique = names.declare_symbol(variable.name)
                renamed = variable if unique == variable.name else replace(variable, name=unique)
                self._variables.append(renamed)
        self._operands = Operands(names)  # what was parsed so far may mean something else now
        self._guards = {}

    def _guard(self, text: str) -> Guard:
        guard = self._guards.get(text)
        if guard is None:
            guard = self._guards[text] = guard_of(text, self._names)
        return guard

    def _transfer(self, op: str, rest: str) -> tuple[Operand, ...]:
        if op == "call":
            return self._call(rest)
        self._jumps.append((len(self._instrs), self._names.scope))
        if op == "bra":
            return (Symbol(rest.strip()),)
        index, _, table = rest.partition(",")
        return (self._operands[index.strip()], Symbol(table.strip()))

    def _call(self, rest: str) -> tuple[Operand, ...]:
        """``(returns), target, (arguments), prototype`` as vector, symbol or register, vector."""
        found = _CALL.fullmatch(rest)
        if found is None:
            raise CompileError(f"cannot read the call {excerpt(rest)!r}")
        returns, target, arguments, prototype = found.groups()
        operands = self._operands
        parts: list[Operand] = [
            Vector(operands.all(returns or "")),
            operands[target],
            Vector(operands.all(arguments or "")),
        ]
        if prototype:
            parts.append(Symbol(prototype))
        return tuple(parts)

    # -- blocks ------------------------------------------------------------------------------
    def _blocks(self) -> tuple[Block, ...]:
        instrs = self._instrs
        if (
            not instrs
            or instrs[-1].op not in _TRANSFERS
            or instrs[-1].guard
            or (len(instrs) in self._labels)
        ):
            instrs.append(Instr("ret", (), (), None, self._line))  # falling off the end returns
        names, canonical = self._block_names()
        targets = self._targets(canonical)
        starts = sorted(names)
        blocks: dict[str, Block] = {}
        for start, end in zip(starts, [*starts[1:], len(instrs)], strict=True):
            following = names.get(end)
            successors = _successors(instrs[end - 1], targets.get(end - 1, ()), following)
            label = names[start]
            blocks[label] = Block(label, tuple(instrs[start:end]), successors)
        alive = _reachable(blocks, names[0])
        return tuple([block for label, block in blocks.items() if label in alive])

    def _block_names(self) -> tuple[dict[int, str], dict[str, str]]:
        """Start of each block -> its label, and all labels -> that label."""
        total = len(self._instrs)
        starts = {0, *self._labels}
        starts.update(i + 1 for i, instr in enumerate(self._instrs) if instr.op in _TRANSFERS)
        names: dict[int, str] = {}
        canonical: dict[str, str] = {}
        for start in starts:
            if start >= total:
                continue
            written = self._labels.get(start)
            names[start] = written[0] if written else f"bb.{start}"
            for label in written or ():
                canonical[label] = names[start]
        return names, canonical

    def _targets(self, canonical: dict[str, str]) -> dict[int, tuple[str, ...]]:
        """Jump targets by position; operands get the names of the blocks."""
        found: dict[int, tuple[str, ...]] = {}
        for at, scope in self._jumps:
            instr = self._instrs[at]
            self._line = instr.line
            symbol = instr.operands[-1]
            written = symbol.name if isinstance(symbol, Symbol) else ""
            if instr.op == "bra":
                target = _label(scope, written, canonical)
                found[at] = (target,)
                if target != written:
                    self._instrs[at] = replace(instr, operands=(Symbol(target),))
            else:
                if written not in self._tables:
                    raise CompileError(f"no .branchtargets {written}")
                text, table_scope = self._tables[written]
                found[at] = tuple(
                    [_label(table_scope, name.strip(), canonical) for name in text.split(",")]
                )
        return found


def _label(scope: Scope, written: str, canonical: dict[str, str]) -> str:
    unique = scope.label(written)
    if unique is None or unique not in canonical:
        raise CompileError(f"no label {written!r}")
    return canonical[unique]


def _successors(last: Instr, targets: tuple[str, ...], following: str | None) -> tuple[str, ...]:
    if last.op not in _TRANSFERS:
        return (following,) if following else ()
    if last.guard is None or following is None:
        return targets
    return (*targets, following)


def _reachable(blocks: dict[str, Block], entry: str) -> set[str]:
    seen = {entry}
    todo = [entry]
    while todo:
        for label in blocks[todo.pop()].successors:
            if label not in seen:
                seen.add(label)
                todo.append(label)
    return seen


def _as_single(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """Decimal literals of an f32 instruction, rounded to f32 (``0d`` literals likewise)."""
    if not any(isinstance(operand, Imm) and operand.kind == "f64" for operand in operands):
        return operands
    return tuple(
        Imm(float_bits(bits_float(operand), "f32"), "f32")
        if isinstance(operand, Imm) and operand.kind == "f64"
        else operand
        for operand in operands
    )
