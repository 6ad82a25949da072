"""A small reader of PTX text: modules, functions, scopes, operands.

It knows no instruction: an opcode is only a list of dotted parts. Names are resolved here, so
that registers of nested scopes (inline assembly, call sequences) get names of their own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

SIZES = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8,
    "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip


@dataclass(frozen=True)
class Reg:
    """A register under its unique name."""

    name: str
    type: str


@dataclass(frozen=True)
class Imm:
    """A constant: ``value`` is an int, or a float with ``kind`` naming its width."""

    kind: str
    value: int | float


@dataclass(frozen=True)
class Special:
    """A read-only register such as ``%tid.x``."""

    name: str


@dataclass
class Var:
    """A variable of some state space; ``name`` is unique, ``init`` the raw initialiser."""

    name: str
    space: str
    type: str
    align: int
    size: int
    init: str = ""


@dataclass(frozen=True)
class Sym:
    """The address of a variable or function plus an offset."""

    target: Var | str
    offset: int = 0


@dataclass(frozen=True)
class Addr:
    """A bracketed address."""

    base: Reg | Sym | Imm
    offset: int = 0


@dataclass(frozen=True)
class Vec:
    """A braced or parenthesised list."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """Two destinations, ``d|p``."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Not:
    """A negated predicate."""

    item: Operand


@dataclass(frozen=True)
class Label:
    """A place in the function's code."""

    index: int


@dataclass(frozen=True)
class Sink:
    """The destination ``_``."""


Operand = Reg | Imm | Special | Sym | Addr | Vec | Pair | Not | Label | Sink


@dataclass
class Instr:
    """One instruction: guard, opcode parts, operands, and the text it came from."""

    op: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Reg | None
    negated: bool
    text: str
    function: str = ""


@dataclass
class Function:
    """An entry or a device function."""

    name: str
    entry: bool
    params: list[Var]
    results: list[Var]
    code: list[Instr] = field(default_factory=list)
    vars: list[Var] = field(default_factory=list)
    defined: bool = True


@dataclass
class Module:
    """All functions and module-scope variables by name."""

    functions: dict[str, Function]
    vars: dict[str, Var]


class Scope:
    """Names of one pair of braces."""

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.names: dict[str, Reg | Var | Label | str] = {}
        self.ranges: dict[str, tuple[int, str, str]] = {}

    def find(self, name: str) -> Reg | Var | Label | str | None:
        """What ``name`` means here, looking outwards."""
        if name in self.names:
            return self.names[name]
        stem = name.rstrip("0123456789")
        if stem in self.ranges and stem != name:
            count, kind, prefix = self.ranges[stem]
            if int(name[len(stem) :]) < count:
                return Reg(prefix + name, kind)
        return self.parent.find(name) if self.parent else None


def parse(text: str) -> Module:
    """Read a whole module."""
    return _Reader(text).module()


def split_commas(text: str) -> list[str]:
    """Pieces of ``text`` between commas that stand in no bracket."""
    pieces, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            pieces.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*pieces, last] if last else pieces


def number(text: str) -> Imm | None:
    """The constant that ``text`` spells, or None."""
    text = text.strip()
    sign = -1 if text.startswith("-") else 1
    body = text.lstrip("+-").strip()
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", body):
        value = struct.unpack(">f", bytes.fromhex(body[2:]))[0]
        return Imm("bits32", int(body[2:], 16)) if sign > 0 else Imm("float", -value)
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", body):
        value = struct.unpack(">d", bytes.fromhex(body[2:]))[0]
        return Imm("bits64", int(body[2:], 16)) if sign > 0 else Imm("float", -value)
    if re.fullmatch(r"0[xX][0-9a-fA-F]+U?", body):
        return Imm("int", sign * int(body.rstrip("U"), 16))
    if re.fullmatch(r"0[bB][01]+U?", body):
        return Imm("int", sign * int(body.rstrip("U")[2:], 2))
    if re.fullmatch(r"\d+U?", body):
        digits = body.rstrip("U")
        return Imm("int", sign * int(digits, 8 if digits[0] == "0" else 10))
    if re.fullmatch(r"\d+\.\d*([eE][+-]?\d+)?|\d+[eE][+-]?\d+", body):
        return Imm("float", sign * float(body))
    return Imm("int", 32) if body == "WARP_SZ" else None


_LINES = re.compile(r"^[ \t]*\.(loc|file|version|target|address_size)\b[^\n]*", re.M)
_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_SECTION = re.compile(r"^[ \t]*\.section\b[^{]*\{[^}]*\}", re.M)
_HEAD = re.compile(r"\.(entry|func)\s*(\([^)]*\))?\s*([\w$%.]+)\s*(\([^)]*\))?", re.S)
_LABEL = re.compile(r"([\w$%]+)\s*:(?!:)\s*")
_DECL = re.compile(
    r"(?:\.(?:visible|extern|weak|common|managed)\s+)*\.(global|const|shared|local|param)\s+"
    r"(.*?)\s*([\w$%]+)\s*((?:\[[^\]]*\]\s*)*)(?:=\s*(.*))?$",
    re.S,
)


class _Reader:
    def __init__(self, text: str) -> None:
        text = _COMMENTS.sub(" ", text)
        self.text = _LINES.sub("", _SECTION.sub("", text))
        self.at = 0
        self.unique = 0
        self.root = Scope(None)
        self.out = Module({}, {})

    def module(self) -> Module:
        while self._skip():
            if self.text[self.at] in "{}":
                raise SyntaxError(f"stray brace near {self.text[self.at : self.at + 60]!r}")
            ends = [self.text.find(c, self.at) for c in ";{"]
            semi, brace = (e if e >= 0 else len(self.text) for e in ends)
            head = _HEAD.search(self.text, self.at, min(semi, brace))
            if head:
                self._function(head, brace < semi)
            else:
                self._module_statement(self._statement())
        return self.out

    def _skip(self) -> bool:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at < len(self.text)

    def _statement(self) -> str:
        i, quoted = self.at, False
        while self.text[i] != ";" or quoted:
            quoted ^= self.text[i] == '"'
            i += 1
        piece, self.at = self.text[self.at : i], i + 1
        return " ".join(piece.split())

    def _module_statement(self, text: str) -> None:
        if text.startswith((".pragma", ".alias")):
            return
        for var in self._declaration(text):
            self.out.vars.setdefault(var.name, var)
            self.root.names[var.name] = var

    def _declaration(self, text: str, prefix: str = "") -> Iterator[Var]:
        match = _DECL.match(text)
        if not match:
            raise SyntaxError(f"not a declaration: {text!r}")
        space, quals, name, dims, init = match.groups()
        align = re.search(r"\.align\s+(\d+)", quals)
        kind = next((q for q in re.findall(r"\.(\w+)", quals) if q in SIZES), "b8")
        wide = re.search(r"\.v([248])\b", quals)
        size = SIZES[kind] * (int(wide.group(1)) if wide else 1)
        for dim in re.findall(r"\[([^\]]*)\]", dims):
            given = number(dim)
            size *= int(given.value) if given else self._open_length(init)
        least = int(align.group(1)) if align else SIZES[kind]
        yield Var(prefix + name, space, kind, least, size, init or "")

    @staticmethod
    def _open_length(init: str | None) -> int:
        return len(split_commas(init.strip()[1:-1])) if init else 0

    def _function(self, head: re.Match[str], defined: bool) -> None:
        kind, results, name, params = head.groups()
        if kind == "entry" or params is None:
            results, params = ("", results) if kind == "entry" and params is None else (
                results, params)  # fmt: skip
        scope = Scope(self.root)
        function = Function(
            name,
            kind == "entry",
            self._formals(params, scope, name),
            self._formals(results, scope, name),
            defined=defined,
        )
        self.root.names[name] = name
        self.at = head.end()
        while self.text[self.at] not in ";{":
            self.at += 1
        self.at += 1
        if defined:
            self._body(function, scope)
        if defined or name not in self.out.functions:
            self.out.functions[name] = function

    def _formals(self, text: str | None, scope: Scope, name: str) -> list[Var]:
        out = []
        for piece in split_commas((text or "()").strip()[1:-1]):
            piece = re.sub(
                r"\.ptr(\s+\.(global|shared|const|local))?(\s+\.align\s+\d+)?", "", piece
            )
            given = " ".join(piece.split())
            if given.startswith(".reg"):
                raise NotImplementedError(f"register parameter of {name}: {given}")
            for var in self._declaration(given, name + "::"):
                scope.names[var.name.split("::")[1]] = var
                out.append(var)
        return out

    def _body(self, function: Function, scope: Scope) -> None:
        pending: list[tuple[str, Scope]] = []
        depth = 1
        while depth:
            self._skip()
            c = self.text[self.at]
            if c == "{":
                scope, depth, self.at = Scope(scope), depth + 1, self.at + 1
            elif c == "}":
                parent = scope.parent
                assert parent is not None
                scope, depth, self.at = parent, depth - 1, self.at + 1
            elif label := _LABEL.match(self.text, self.at):
                self.at = label.end()
                self._label(label.group(1), scope, len(pending))
            else:
                self._inner(self._statement(), function, scope, pending)
        for text, where in pending:
            instr = _instruction(text, where)
            instr.function = function.name
            function.code.append(instr)
        function.code.append(Instr(("ret",), (), None, False, "ret", function.name))

    def _label(self, name: str, scope: Scope, index: int) -> None:
        self._skip()
        if self.text.startswith(".branchtargets", self.at):
            scope.names[name] = "," + self._statement().partition(" ")[2]
        elif self.text.startswith(".callprototype", self.at):
            self._statement()
        else:
            scope.names[name] = Label(index)

    def _inner(
        self, text: str, function: Function, scope: Scope, pending: list[tuple[str, Scope]]
    ) -> None:
        if not text or text.startswith(".pragma"):
            return
        self.unique += 1
        if text.startswith(".reg"):
            self._registers(text, scope)
        elif text.startswith("."):
            for var in self._declaration(text, f"{function.name}::{self.unique}::"):
                scope.names[var.name.rsplit("::", 1)[1]] = var
                function.vars.append(var)
        else:
            pending.append((text, scope))

    def _registers(self, text: str, scope: Scope) -> None:
        match = re.match(r"\.reg\s*\.(\w+)\s+(.*)", text)
        if not match:
            raise SyntaxError(f"register declaration: {text!r}")
        kind, names = match.groups()
        for name in split_commas(names):
            many = re.fullmatch(r"([\w$%]+)<(\d+)>", name)
            if many:
                scope.ranges[many.group(1)] = (int(many.group(2)), kind, f"{self.unique}:")
            else:
                scope.names[name] = Reg(f"{self.unique}:{name}", kind)


def _instruction(text: str, scope: Scope) -> Instr:
    guard, negated, body = None, False, text
    if text.startswith("@"):
        match = re.match(r"@\s*(!?)\s*([\w$%]+)\s+(.*)", text)
        if not match:
            raise SyntaxError(f"guard: {text!r}")
        found = scope.find(match.group(2))
        assert isinstance(found, Reg), f"guard of {text!r}"
        guard, negated, body = found, bool(match.group(1)), match.group(3)
    op, _, rest = body.partition(" ")
    operands = tuple(_operand(piece, scope) for piece in split_commas(rest))
    return Instr(tuple(op.split(".")), operands, guard, negated, text)


def _operand(text: str, scope: Scope) -> Operand:
    text = text.strip()
    if text[0] in "{(":
        return Vec(tuple(_operand(p, scope) for p in split_commas(text[1:-1])))
    if text[0] == "[":
        return _address(text[1:-1], scope)
    if text[0] == "!":
        return Not(_operand(text[1:], scope))
    if "|" in text:
        first, _, second = text.partition("|")
        return Pair(_operand(first, scope), _operand(second, scope))
    if text == "_":
        return Sink()
    constant = number(text)
    return constant if constant is not None else _name(text, scope)


def _name(text: str, scope: Scope) -> Operand:
    found = scope.find(text)
    if isinstance(found, Reg | Label):
        return found
    if isinstance(found, Var):
        return Sym(found)
    if found is not None:
        if found.startswith(","):
            return Vec(tuple(_operand(p, scope) for p in split_commas(found.strip(", "))))
        return Sym(found)
    plus = re.fullmatch(r"([\w$%]+)\s*\+\s*(-?\w+)", text)
    if plus and (offset := number(plus.group(2))):
        base = _name(plus.group(1), scope)
        assert isinstance(base, Sym), text
        return Sym(base.target, int(offset.value))
    return Special(text) if text.startswith("%") else Sym(text)


def _address(text: str, scope: Scope) -> Operand:
    pieces = split_commas(text)
    if len(pieces) > 1:
        raise NotImplementedError(f"address form [{text}]")
    match = re.fullmatch(r"([\w$%]+)\s*(?:\+\s*(-?\s*\w+)|(-\s*\w+))?", text.strip())
    if not match:
        raise SyntaxError(f"address [{text}]")
    offset = number(match.group(2) or match.group(3) or "0")
    base = _operand(match.group(1), scope)
    assert offset is not None
    assert isinstance(base, Reg | Sym | Imm), text
    return Addr(base, int(offset.value))
