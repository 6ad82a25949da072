"""What the CUDA text says of a kernel's parameters: names, pointers, element types, const.

PTX keeps sizes only: a pointer and a ``long long`` look alike there. The text is read with a few
regular expressions, not parsed; what is not certain is left open and not checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
_QUALIFIERS = re.compile(
    r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__|struct|enum|typename)\b"
)
_SPECIFIER = re.compile(r"\b(?:alignas|__align__|__attribute__)\s*\(+[^()]*\)+")

# C type (words in sorted order) -> NumPy's name
_SCALARS = {
    "float": "float32", "double": "float64", "bool": "bool", "char": "int8", "char signed": "int8",
    "char unsigned": "uint8", "short": "int16", "int short": "int16", "short unsigned": "uint16",
    "int short unsigned": "uint16", "int": "int32", "signed": "int32", "int signed": "int32",
    "unsigned": "uint32", "int unsigned": "uint32", "long": "int64", "int long": "int64",
    "long unsigned": "uint64", "int long unsigned": "uint64", "long long": "int64",
    "int long long": "int64", "long long unsigned": "uint64", "int long long unsigned": "uint64",
    "int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16", "uint16_t": "uint16",
    "int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64",
    "size_t": "uint64", "ptrdiff_t": "int64", "uintptr_t": "uint64", "intptr_t": "int64",
    "__half": "float16", "half": "float16", "__nv_bfloat16": "bfloat16",
}  # fmt: skip
_SCALARS.update({f"std::{name}": kind for name, kind in _SCALARS.items() if name.endswith("_t")})


@dataclass(frozen=True)
class Declared:
    """One parameter as it is written. ``pointer`` is None where the text does not tell."""

    text: str
    name: str = ""
    pointer: bool | None = None
    element: str = ""  # NumPy's name of what is passed or pointed to; "" where it is not certain
    const: bool = False  # the kernel cannot write through the pointer


def declared_parameters(code: str, kernel: str, count: int) -> tuple[Declared, ...]:
    """The parameters of ``kernel`` (without namespaces and template arguments) in ``code``.

    Empty where there is no declaration with ``count`` parameters, or several that differ.
    """
    plain = re.sub(r"<.*", "", kernel).split("::")[-1].strip()
    found = set()
    if re.fullmatch(r"\w+", plain):
        text = _without_noise(code)
        for match in re.finditer(rf"__global__\b[^;{{}}]*?\b{plain}\s*\(", text):
            parts = _split(text, match.end())
            if len(parts) == count:
                found.add(tuple(_declared(part) for part in parts))
    shapes = {tuple((d.pointer, d.element, d.const) for d in one) for one in found}
    return max(found, key=str) if len(shapes) == 1 else ()


@lru_cache(maxsize=16)
def _without_noise(code: str) -> str:
    return _NOISE.sub(lambda m: '""' if m[0][0] in "\"'" else " ", code)


def clear() -> None:
    """Forget the texts read last."""
    _without_noise.cache_clear()


def _split(text: str, start: int) -> list[str]:
    """The comma-separated parts up to the parenthesis that closes; none for an empty list."""
    depth, parts, begin = 0, [], start
    for at in range(start, len(text)):
        char = text[at]
        if char in "([{<":
            depth += 1
        elif char in ")]}>" and depth:
            depth -= 1
        elif char == ")" or (char == "," and not depth):
            parts.append(" ".join(text[begin:at].split()))
            begin = at + 1
            if char == ")":
                return parts if parts not in ([""], ["void"]) else []
    return []


def _declared(text: str) -> Declared:
    text = text.split("=")[0].strip()
    shown = text
    body = _SPECIFIER.sub(" ", text)
    stars = body.count("*") + ("[" in body)
    if "&" in body or "(" in body:  # references and function pointers
        return Declared(shown, pointer=True if "(" in body and "*" in body else None)
    head = body.split("*")[0] if "*" in body else body.split("[")[0]
    words = _QUALIFIERS.sub(" ", head).split()
    tail = _QUALIFIERS.sub(" ", body.split("*")[-1].split("[")[0]).split() if stars else words
    name = tail[-1] if tail and ("*" in body or len(words) > 1) else ""
    if name and "*" not in body:
        words = words[:-1]
    element = _SCALARS.get(" ".join(sorted(words)), "") if stars <= 1 else ""
    if stars:
        return Declared(shown, name, True, element, stars == 1 and "const" in head.split())
    return Declared(shown, name, False if element else None, element)
