"""Operands of PTX instructions, and the nested scopes in which their names are looked up."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from dataclasses import dataclass, field

from ge2rt.base.errors import CompileError, UnsupportedError
from ge2rt.ptx.ast import Address, Guard, Not, Operand, Pair, Reg, Special, Symbol, Vector
from ge2rt.ptx.scan import NAME, excerpt, integer, literal, words

SPECIALS: frozenset[str] = words(
    "tid ntid ctaid nctaid laneid warpid nwarpid smid nsmid gridid lanemask_eq lanemask_le "
    "lanemask_lt lanemask_ge lanemask_gt clock clock_hi clock64 globaltimer globaltimer_lo "
    "globaltimer_hi clusterid nclusterid cluster_ctaid cluster_nctaid cluster_ctarank "
    "cluster_nctarank is_explicit_cluster total_smem_size aggr_smem_size dynamic_smem_size "
    "reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap "
    "reserved_smem_offset_0 reserved_smem_offset_1 current_graph_exec"
) | words(" ".join([f"envreg{i} pm{i % 8} pm{i % 8}_64" for i in range(32)]))
"""Special registers, without the percent sign and the axis (PTX ISA, "Special Registers")."""

_NAME = re.compile(NAME, re.ASCII)
_SYMBOL = re.compile(rf"({NAME})\s*(?:([+-].*))?", re.ASCII)
_ADDRESS = re.compile(rf"\[\s*({NAME})?\s*(.*?)\s*\]", re.ASCII)
_PIECE = re.compile(r"\s*(\{[^{}]*\}|[^,{}]*?)\s*(?:,|$)", re.ASCII)


@dataclass
class Scope:
    """Names declared between two braces: registers, variables, numbered ranges and labels."""

    parent: Scope | None = None
    names: dict[str, Reg | Symbol] = field(default_factory=dict)
    ranges: dict[str, tuple[int, str]] = field(default_factory=dict)  # prefix -> (count, type)
    labels: dict[str, str] = field(default_factory=dict)  # as written -> unique

    def label(self, name: str) -> str | None:
        """The unique name of the label visible here under ``name``."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None


class Names:
    """The names of one function; equal names of different scopes are renamed apart.

    A new name has a dot, which no PTX identifier can hold, so it never meets another one.
    ``registers`` collects the declared type of each register that is used. ``loose`` holds symbols
    that no scope of the function declares: functions and variables of the module.
    """

    def __init__(self) -> None:
        self.scope = Scope()
        self.registers: dict[str, str] = {}
        self.symbols: set[str] = set()
        self.loose: set[str] = set()
        self._types: dict[str, str] = {}

    def push(self) -> None:
        """Enter a nested scope."""
        self.scope = Scope(self.scope)

    def pop(self) -> bool:
        """Leave a scope; False at the function's own."""
        if self.scope.parent is None:
            return False
        self.scope = self.scope.parent
        return True

    def declare_register(self, name: str, type: str) -> None:
        """Declare one register in this scope."""
        if name in self.scope.names:
            raise CompileError(f"{name} is declared twice")
        unique = _unique(name, self._types)
        self._types[unique] = type
        self.scope.names[name] = Reg(unique)

    def declare_range(self, prefix: str, count: int, type: str) -> None:
        """Declare ``prefix0`` to ``prefix(count-1)``."""
        if prefix in self.scope.ranges:
            raise CompileError(f"{prefix}<{count}> is declared twice")
        self.scope.ranges[prefix] = (count, type)

    def declare_symbol(self, name: str) -> str:
        """Declare a variable or parameter in this scope; returns its unique name."""
        if name in self.scope.names:
            raise CompileError(f"{name} is declared twice")
        unique = _unique(name, self.symbols)
        self.symbols.add(unique)
        self.scope.names[name] = Symbol(unique)
        return unique

    def declare_label(self, name: str) -> str:
        """Declare a label in this scope; returns its unique name."""
        if name in self.scope.labels:
            raise CompileError(f"label {name} is defined twice")
        unique = _unique(name, self.symbols)
        self.symbols.add(unique)
        self.scope.labels[name] = unique
        return unique

    def resolve(self, name: str) -> Reg | Symbol:
        """What ``name`` means in the current scope; one without meaning is a symbol elsewhere."""
        found = self.known(name)
        if found is not None:
            return found
        if name[0] == "%":
            raise CompileError(f"register {name} is not declared")
        self.loose.add(name)
        return Symbol(name)

    def known(self, name: str) -> Reg | Symbol | None:
        """What ``name`` was declared as, seen from the current scope."""
        scope: Scope | None = self.scope
        prefix, number = _numbered(name)
        while scope is not None:
            found = scope.names.get(name)
            if found is None and number >= 0:
                found = self._of_range(scope, name, prefix, number)
            if found is not None:
                if isinstance(found, Reg):
                    self.registers[found.name] = self._types[found.name]
                return found
            scope = scope.parent
        return None

    def _of_range(self, scope: Scope, name: str, prefix: str, number: int) -> Reg | None:
        count, type = scope.ranges.get(prefix, (0, ""))
        if number >= count:
            return None
        unique = _unique(name, self._types)
        self._types[unique] = type
        register = Reg(unique)
        scope.names[name] = register
        return register


class Operands(dict[str, Operand]):
    """Text -> parsed operand, parsed at the first look-up. It holds for one state of the scopes."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, text: str) -> Operand:
        bare = text.strip()
        operand = self[text] = self._parse(bare) if bare == text else self[bare]
        return operand

    def all(self, text: str) -> tuple[Operand, ...]:
        """The operands of one instruction."""
        if "{" not in text:
            if not text.strip():
                return ()
            # NVRTC's blanks away: each text would be looked up with its blank and without
            return tuple([self[piece] for piece in text.replace(", ", ",").split(",")])
        return tuple([self[piece] for piece in pieces(text)])

    def _parse(self, text: str) -> Operand:
        parser = _BY_FIRST.get(text[:1])
        if parser is not None:
            return parser(self, text)
        if text[:1].isdigit() or text[:1] in "-+." or text == "WARP_SZ":
            immediate = literal(text)
            if immediate is not None:
                return immediate
        elif "|" in text:
            return self._pair(text)
        else:
            return self._symbol(text)
        raise CompileError(f"cannot read the operand {excerpt(text)!r}")

    def _percent(self, text: str) -> Operand:
        if "|" in text:
            return self._pair(text)
        name, dot, axis = text[1:].partition(".")
        if name in SPECIALS and (axis in ("x", "y", "z", "w") or not dot):
            return Special(name, axis)
        if dot:
            raise UnsupportedError(f"parts of a register are not supported: {excerpt(text)!r}")
        return self._name(text)

    def _name(self, text: str) -> Reg | Symbol:
        known = self._names.known(text)
        if known is not None:
            return known
        if not _NAME.fullmatch(text):
            raise CompileError(f"cannot read the operand {excerpt(text)!r}")
        return self._names.resolve(text)

    def _symbol(self, text: str) -> Operand:
        found = _SYMBOL.fullmatch(text)
        if found is None:
            raise CompileError(f"cannot read the operand {excerpt(text)!r}")
        if text == "_":
            return Vector((None,))
        base = self._names.resolve(found[1])
        if not found[2]:
            return base
        if isinstance(base, Reg):
            raise CompileError(f"an offset needs brackets: {excerpt(text)!r}")
        return Symbol(base.name, _offset(found[2]))

    def _address(self, text: str) -> Operand:
        found = _ADDRESS.fullmatch(text)
        if found is None or not (found[1] or found[2]):
            raise CompileError(f"cannot read the address {excerpt(text)!r}")
        offset = _offset(found[2]) if found[2] else 0
        if not found[1]:
            return Address(None, offset)
        return Address(self._names.resolve(found[1]), offset)

    def _vector(self, text: str) -> Operand:
        if text[-1] != "}":
            raise CompileError(f"cannot read the operand {excerpt(text)!r}")
        return Vector(tuple([self._item(piece) for piece in text[1:-1].split(",")]))

    def _item(self, text: str) -> Operand | None:
        item = text.strip()
        if not item or item[0] in "{[(":
            raise CompileError(f"cannot read the vector element {excerpt(text)!r}")
        return None if item == "_" else self[item]

    def _pair(self, text: str) -> Operand:
        first, _, second = text.partition("|")
        if "|" in second:
            raise CompileError(f"cannot read the operand {excerpt(text)!r}")
        return Pair(self._item(first), self._item(second))

    def _not(self, text: str) -> Operand:
        return Not(self._name(text[1:].strip()))


_BY_FIRST: dict[str, Callable[[Operands, str], Operand]] = {
    "%": Operands._percent,
    "[": Operands._address,
    "{": Operands._vector,
    "!": Operands._not,
}


def guard_of(text: str, names: Names) -> Guard:
    """The guard written as ``@%p1`` or ``@!%p1``."""
    name = text[1:].strip()
    negated = name[:1] == "!"
    register = names.resolve(name[1:].strip() if negated else name)
    if not isinstance(register, Reg):
        raise CompileError(f"the guard {text} is not a predicate register")
    return Guard(register, negated)


def pieces(text: str) -> list[str]:
    """``text`` split at the commas outside of braces."""
    found: list[str] = []
    position = 0
    while True:
        match = _PIECE.match(text, position)
        if match is None:
            raise CompileError(f"cannot split the operands {excerpt(text, position)!r}")
        found.append(match[1])
        position = match.end()
        if text[position - 1 : position] != "," or not position:
            return found


def _numbered(name: str) -> tuple[str, int]:
    """A prefix and the number behind it, without leading zeros; -1 where there is none."""
    prefix = name.rstrip(string.digits)
    digits = name[len(prefix) :].lstrip("0") or name[-1:]
    if len(prefix) == len(name) or len(digits) > 10:
        return name, -1
    return name[: -len(digits)], int(digits)


def _offset(text: str) -> int:
    value = integer(re.sub(r"^\+\s*(?=[+-])", "", text))
    if value is None:
        raise CompileError(f"cannot read the offset {excerpt(text)!r}")
    return value


def _unique(name: str, taken: set[str] | dict[str, str]) -> str:
    if name not in taken:
        return name
    number = 1
    while f"{name}.{number}" in taken:
        number += 1
    return f"{name}.{number}"
