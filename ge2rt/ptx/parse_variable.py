"""Declarations: variables with their initialisers, parameters, registers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ge2rt.base.errors import CompileError, UnsupportedError
from ge2rt.ptx.ast import Imm, Param, Variable
from ge2rt.ptx.scan import (
    NAME,
    TYPE_BYTES,
    bits_float,
    excerpt,
    float_bits,
    integer,
    literal,
    words,
)

MAX_INITIAL_BYTES = 1 << 26
"""More initial bytes than this in one variable are refused."""
MAX_ALIGN = 1 << 20
"""A larger alignment of a variable is refused."""

_PREFIX = re.compile(r"\s*((?:\.\w+(?:\s*\((?:[^()]|\([^()]*\))*\)|\s+\d+(?!\w))?\s*)+)", re.ASCII)
_QUALIFIER = re.compile(r"\.(\w+)(?:\s*\((?:[^()]|\([^()]*\))*\)|\s+(\d+))?", re.ASCII)
_BRACES = r"\{[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*\}"  # nested three deep
_DECLARATOR = re.compile(
    rf"\s*({NAME})(?:<(\d{{1,9}})>)?\s*((?:\[[^\][]*\]\s*)*)"
    rf'(?:=\s*({_BRACES}|(?:"(?:[^"\\]|\\.)*"|[^,;{{}}"])*?))?\s*(?:,|$)',
    re.ASCII,
)
_RELOCATION = re.compile(rf"(?:generic\s*\(\s*({NAME})\s*\)|({NAME}))\s*([+-]\s*\d+)?", re.ASCII)
_MASKED = re.compile(r"(0[xX][fF]{2}0*)\s*\((.*)\)", re.ASCII | re.DOTALL)
_ITEM = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^,"]+?)\s*(?:,|$)', re.ASCII)
_SIMPLE = re.compile(
    r"(\.(?:global|const) \.align \d+ \.[busf]\d+) "
    rf"({NAME})(?:\[(\d{{1,12}})\])?(?: = ([^;\"]*))?;",
    re.ASCII,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_IGNORED = words("visible weak common attribute")
_SPACES = words("global const shared local param reg")
_OPAQUE = words("texref samplerref surfref tex")


@dataclass(frozen=True)
class Qualifiers:
    """What stands before the name: ``.extern .shared .align 16 .v4 .f32``."""

    space: str
    type: str
    align: int
    lanes: int = 1
    extern: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return TYPE_BYTES[self.type] * self.lanes


@dataclass(frozen=True)
class Declarator:
    """A name with what stands after it: ``name[2][3] = {...}`` or ``%r<14>``."""

    name: str
    count: int | None  # of a numbered range
    extent: int | None  # product of the array extents; None is no array, -1 is ``[]``
    initial: str | None


@lru_cache(maxsize=1024)
def qualifiers(text: str) -> Qualifiers:
    """Read the qualifiers of a declaration."""
    space, kind, align, lanes, extern = "", "", 0, 1, False
    for word, number in _QUALIFIER.findall(text):
        if word == "ptr":
            break  # .ptr .global .align 16 speaks of what is pointed to
        if word == "align":
            align = int(number or 0)
        elif word in ("v2", "v4", "v8"):
            lanes = int(word[1:])
        elif word in TYPE_BYTES or word == "pred":
            kind = word
        elif word in _OPAQUE:
            raise UnsupportedError(f".{word} variables are not supported")
        elif word == "extern":
            extern = True
        elif word in _SPACES:
            space = space or word
        elif word not in _IGNORED:
            raise CompileError(f"unknown qualifier .{word}")
    if not kind or not space:
        raise CompileError(f"no {'type' if space else 'state space'} in {excerpt(text)!r}")
    if kind == "pred" and space != "reg":
        raise CompileError("only registers can be .pred")
    natural = 1 if kind == "b8" else TYPE_BYTES.get(kind, 1) * lanes
    if align and align & (align - 1):
        raise CompileError(f".align {align} is not a power of two")
    if align > MAX_ALIGN:
        raise UnsupportedError(f".align {align} is more than {MAX_ALIGN}")
    return Qualifiers(space, kind, max(align, natural), lanes, extern)


def split_declaration(text: str) -> tuple[Qualifiers, list[Declarator]]:
    """Qualifiers and declarators of a declaration (without its semicolon)."""
    found = _PREFIX.match(text)
    if found is None:
        raise CompileError(f"cannot read the declaration {excerpt(text)!r}")
    return qualifiers(found[1].strip()), list(_declarators(text, found.end()))


def _declarators(text: str, position: int) -> Iterator[Declarator]:
    while True:
        found = _DECLARATOR.match(text, position)
        if found is None:
            raise CompileError(f"cannot read the declaration {excerpt(text)!r}")
        name, count, extents, initial = found.groups()
        yield Declarator(
            name, int(count) if count else None, _extent(extents) if extents else None, initial
        )
        position = found.end()
        if text[position - 1] != ",":
            return


def _extent(text: str) -> int:
    product = 1
    for piece in re.findall(r"\[([^\]]*)\]", text):
        size = -1 if not piece.strip() else integer(piece.strip())
        if size is None or (size < 0 and product != 1):
            raise CompileError(f"cannot read the array extent [{piece}]")
        product *= size
    if product.bit_length() > 48:
        raise CompileError(f"the array extent {excerpt(text)} is too large")
    return product


def variables(text: str, line: int) -> list[Variable]:
    """The variables that one declaration makes."""
    kind, declarators = split_declaration(text)
    return [_variable(kind, declared, line) for declared in declarators]


def plain_variable(text: str, position: int, line: int) -> tuple[Variable, int] | None:
    """The variable declared at ``position`` in the compiler's usual spelling, and where it ends.

    Cooperative groups bring a thousand of them; None sends the caller to :func:`variables`.
    """
    found = _SIMPLE.match(text, position)
    if found is None:
        return None
    prefix, name, extent, initial = found.groups()
    declared = Declarator(name, None, int(extent) if extent else None, initial)
    return _variable(qualifiers(prefix), declared, line), found.end()


def _variable(kind: Qualifiers, declared: Declarator, line: int) -> Variable:
    if declared.count is not None:
        raise CompileError(f"{declared.name}<{declared.count}> can only be registers")
    extent = 1 if declared.extent is None else declared.extent
    init: bytes | None = None
    relocations: tuple[tuple[int, str, int], ...] = ()
    if declared.initial is not None:
        if kind.space not in ("global", "const"):
            raise CompileError(f"a .{kind.space} variable cannot have an initial value")
        init, relocations = _initial(kind.type, declared.initial)
        extent = len(init) // kind.nbytes if extent < 0 else extent
        nbytes = kind.nbytes * extent
        if len(init) > nbytes:
            raise CompileError(f"too many initial values for {declared.name}")
        if nbytes > MAX_INITIAL_BYTES:
            raise UnsupportedError(f"{declared.name} has more than {MAX_INITIAL_BYTES} bytes")
        init = init.ljust(nbytes, b"\0")
    elif extent < 0 and not kind.extern and kind.space != "param":
        raise CompileError(f"{declared.name} has no size")
    nbytes = kind.nbytes * max(extent, 0)
    return Variable(
        declared.name, kind.space, kind.type, kind.align, nbytes, init, kind.extern, relocations,
        line,
    )  # fmt: skip


def _initial(type: str, text: str) -> tuple[bytes, tuple[tuple[int, str, int], ...]]:
    size = TYPE_BYTES[type]
    if type == "b8" or type == "u8":
        try:  # the common case, a list of plain bytes
            return bytes(map(int, text.strip("{} \t\n").split(","))), ()
        except ValueError:
            pass
    if text.count("{") != text.count("}"):
        raise CompileError(f"braces do not match in {excerpt(text)!r}")
    flat = text.replace("{", " ").replace("}", " ").strip() if text[:1] == "{" else text.strip()
    data = bytearray()
    relocations: list[tuple[int, str, int]] = []
    for item in _items(flat):
        if item[0] == '"':
            data += _string(item[1:-1])
            continue
        immediate = literal(item)
        if immediate is None:
            relocations.append((len(data), *_relocation(item)))
            data += bytes(size)
        else:
            data += _encode(immediate, type, size)
    return bytes(data), tuple(relocations)


def _string(text: str) -> bytes:
    """The bytes of a string; of the escapes of C, those with one letter."""
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text).encode(
        "latin-1", "replace"
    )


def _items(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        found = _ITEM.match(text, position)
        if found is None:
            raise CompileError(f"cannot read the initial value {excerpt(text, position)!r}")
        yield found[1]
        position = found.end()


def _relocation(item: str) -> tuple[str, int]:
    found = _RELOCATION.fullmatch(item)
    if found is None:
        if _MASKED.fullmatch(item):
            raise UnsupportedError(f"byte-masked addresses are not supported: {excerpt(item)!r}")
        raise CompileError(f"cannot read the initial value {excerpt(item)!r}")
    addend = found[3].replace(" ", "") if found[3] else "0"
    return found[1] or found[2], int(addend)


def _encode(immediate: Imm, type: str, size: int) -> bytes:
    value = immediate.value
    if type in ("f32", "f64"):
        number = float(value) if immediate.kind == "int" else bits_float(immediate)
        value = float_bits(number, type) if immediate.kind != type else value
    elif immediate.kind != "int":
        raise CompileError(f"a floating-point initial value for .{type}")
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def parameters(text: str) -> tuple[Param, ...]:
    """The parameter list between two parentheses, packed with natural alignment as CUDA does."""
    if not text.strip():
        return ()
    found: list[Param] = []
    end = 0
    for piece in text.split(","):
        kind, declarators = split_declaration(piece)
        if kind.space not in ("param", "reg"):
            raise CompileError(f"a parameter in state space .{kind.space}")
        declared = declarators[0]
        extent = 1 if declared.extent is None else max(declared.extent, 0)
        nbytes = (1 if kind.type == "pred" else kind.nbytes) * extent
        offset = -(-end // kind.align) * kind.align
        found.append(
            Param(declared.name, kind.type, kind.align, nbytes, offset, kind.space == "reg")
        )
        end = offset + nbytes
    return tuple(found)


def names_twice(parameters: Sequence[Param]) -> str | None:
    """A name that two parameters share (``_`` aside)."""
    seen: set[str] = set()
    for parameter in parameters:
        if parameter.name in seen and parameter.name != "_":
            return parameter.name
        seen.add(parameter.name)
    return None


def clear() -> None:
    """Drop the cache of qualifiers."""
    qualifiers.cache_clear()
