"""Lexical level of PTX text: comments, statement patterns, literals and types.

The grammar is that of the PTX ISA manual, chapter "Syntax". The patterns split whole statements at
once; the parser then works with string methods only, which is what makes it fast.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from ge2rt.base.errors import CompileError
from ge2rt.ptx.ast import Imm

TYPE_BYTES: dict[str, int] = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip
"""Bytes of the types that variables, parameters and registers can have."""


def words(text: str) -> frozenset[str]:
    """The set of the words of ``text``, for tables of names."""
    return frozenset(text.split())


TYPES: frozenset[str] = frozenset(TYPE_BYTES) | words(
    "pred b1 b4 u2 s2 u4 s4 tf32 f32x2 u16x2 s16x2 u8x4 s8x4 e4m3 e5m2 e2m1 e2m3 e3m2 e4m3x2 "
    "e5m2x2 e2m1x2 e2m3x2 e3m2x2 e4m3x4 e5m2x4 e2m1x4 e2m3x4 e3m2x4 ue8m0 ue8m0x2 ue4m3 "
    "b4x16_p64 b6x16_p32 b8x16"
)
"""Dotted parts of an opcode that name a type."""

_BLANKED = re.compile(
    r'\.pragma\s+"[^"\n]*"(?:\s*,\s*"[^"\n]*")*\s*;'
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|//[^\n]*"
    r"|/\*.*?\*/",
    re.DOTALL | re.ASCII,
)

NAME = r"[A-Za-z_$%][\w$]*"

# One statement of a function body. Groups: 1 guard, 2 opcode with its dotted parts, 3 operands;
# 4-5 file and line of .loc; 6 brace; 7-9 table label, kind, text; 10 label; 11-12 declaration.
STATEMENT = re.compile(
    r"\s*(?:"
    r"(?:(@\s*!?\s*[%\w$]+)\s+)?([a-z]\w*(?:\.\w+(?:::\w+)*)*)(?:\s+|(?=[;{\[(]))([^;:]*);"
    r"|\.loc\s+(\d+)\s+(\d+)[^\n]*"
    r"|([{}])"
    rf"|({NAME})\s*:\s*\.(branchtargets|callprototype|calltargets)\b([^;]*);"
    rf"|({NAME})\s*:(?!:)"
    r"|\.file\b[^\n]*"
    r"|\.(reg|param|local|shared|global|const)\b([^;]*);"
    r")",
    re.ASCII,
)

_INTEGER = re.compile(
    r"([+-]?)\s*(?:0[xX]([0-9a-fA-F]{1,64})|0[bB]([01]{1,128})|0([0-7]{1,64})|(\d{1,64}))[uU]?",
    re.ASCII,
)
_HEX_FLOAT = re.compile(r"(-?)0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?", re.ASCII)


def blank_comments(text: str) -> str:
    """``text`` without comments and pragmas; newlines are kept, so lines still count right."""

    def blank(found: re.Match[str]) -> str:
        piece = found[0]
        return piece if piece[0] == '"' else "\n" * piece.count("\n") or " "

    plain = _BLANKED.sub(blank, text)
    at = plain.find("/*")
    if at >= 0 and '"' not in plain[plain.rfind("\n", 0, at) + 1 : at]:
        raise CompileError("comment is not closed", where=f"ptx:{line_at(plain, at)}")
    return plain


def line_at(text: str, position: int) -> int:
    """The 1-based line of a position."""
    return text.count("\n", 0, position) + 1


def excerpt(text: str, position: int = 0) -> str:
    """The start of a statement, on one line, for messages."""
    return " ".join(text[position : position + 120].split())[:60]


def integer(text: str) -> int | None:
    """The value of an integer literal (decimal, 0x, 0b, octal, ``U``), or None."""
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    sign, hexadecimal, binary, octal, decimal = found.groups()
    if hexadecimal:
        value = int(hexadecimal, 16)
    elif binary:
        value = int(binary, 2)
    elif octal:
        value = int(octal, 8)
    else:
        value = int(decimal)
    return -value if sign == "-" else value


@lru_cache(maxsize=4096)
def literal(text: str) -> Imm | None:
    """An integer or floating-point literal, ``WARP_SZ`` included, or None."""
    value = integer(text)
    if value is not None:
        return Imm(value)
    found = _HEX_FLOAT.fullmatch(text)
    if found:
        minus, single, double = found.groups()
        if single:
            return Imm(int(single, 16) ^ (1 << 31 if minus else 0), "f32")
        return Imm(int(double, 16) ^ (1 << 63 if minus else 0), "f64")
    if _DECIMAL.fullmatch(text):
        return Imm(float_bits(float(text), "f64"), "f64")
    return Imm(32) if text == "WARP_SZ" else None


def float_bits(value: float, type: str) -> int:
    """The bit pattern of a number as ``f32`` (rounded, overflowing to infinity) or ``f64``."""
    if type == "f64":
        return int.from_bytes(struct.pack("<d", value), "little")
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return int.from_bytes(packed, "little")


def bits_float(immediate: Imm) -> float:
    """The number that a floating-point immediate stands for."""
    width, code = (4, "<f") if immediate.kind == "f32" else (8, "<d")
    return float(struct.unpack(code, immediate.value.to_bytes(width, "little"))[0])


@lru_cache(maxsize=4096)
def split_form(form: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """``"cvt.rn.f16.f32"`` -> ``("cvt", ("rn", "f16", "f32"), ("f16", "f32"))``."""
    op, *mods = form.split(".")
    return op, tuple(mods), tuple(mod for mod in mods if mod in TYPES)


def clear() -> None:
    """Drop the caches of literals and forms."""
    literal.cache_clear()
    split_form.cache_clear()
