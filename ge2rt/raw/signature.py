"""A kernel's parameters as PTX has them, joined with what the CUDA text says of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.ptx.parse_variable import parameters, split_declaration
from ge2rt.raw.declarations import Declared, declared_parameters

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?")
_VARIABLE = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|common)\s+)?\.(?:global|const)\s[^\n=;\[]*?"
    r"([\w$]+)(?:\[\d*\])*\s*[=;]",
    re.MULTILINE,
)
_LOCAL = re.compile(r"\.local\s+\.align\s+\d+\s+\.b8\s+[\w$]+\[(\d+)\]")


@dataclass(frozen=True)
class Parameter:
    """One parameter: its place in the packed block, and what is known of its C type."""

    index: int
    type: str  # PTX type without dot; "b8" with nbytes > 1 is a struct
    nbytes: int
    offset: int
    declared: Declared

    @property
    def pointer(self) -> bool | None:
        """Whether it is a pointer; None where neither PTX nor text tells."""
        if self.nbytes != 8 or self.type not in ("u64", "s64", "b64"):
            return False
        return self.declared.pointer

    @property
    def aggregate(self) -> bool:
        """Whether it is a struct, a vector type, a half..., passed as bytes."""
        return self.type == "b8"

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"args[{self.index}]" + (f" {self.declared.name}" if self.declared.name else "")

    def __str__(self) -> str:
        if self.declared.text:
            return self.declared.text
        return f"{self.nbytes}-byte struct" if self.aggregate else f".{self.type}"


@dataclass(frozen=True)
class Signature:
    """A kernel's parameters, and the size of the packed block."""

    kernel: str
    parameters: tuple[Parameter, ...]
    nbytes: int

    def __str__(self) -> str:
        return f"{self.kernel}({', '.join(map(str, self.parameters))})"


def entries_of(ptx: str) -> list[str]:
    """Names of the kernels in PTX text."""
    return [match[1] for match in _ENTRY.finditer(ptx)]


def signature_of(ptx: str, symbol: str, code: str, shown: str) -> Signature:
    """The signature of entry ``symbol``; ``shown`` is the name that the caller uses for it."""
    match = re.search(rf"\.entry\s+{re.escape(symbol)}(?![\w$])\s*(?:\(([^)]*)\))?", ptx)
    if match is None:
        raise InvalidArgumentError(
            "no such kernel in the module", kernel=shown,
            expected=", ".join(entries_of(ptx)) or "none: the module has no kernels",
        )  # fmt: skip
    params = parameters(match[1] or "")
    texts = declared_parameters(code, shown, len(params)) or (Declared(""),) * len(params)
    rows = tuple(
        Parameter(i, p.type, p.nbytes, p.offset, d)
        for i, (p, d) in enumerate(zip(params, texts, strict=True))
    )
    return Signature(shown, rows, max((p.offset + p.nbytes for p in rows), default=0))


def local_bytes(ptx: str, symbol: str) -> int:
    """Bytes of local memory a thread that the entry declares."""
    start = re.search(rf"\.entry\s+{re.escape(symbol)}(?![\w$])", ptx)
    if start is None:
        return 0
    end = ptx.find("\n}", start.end())
    return sum(int(m[1]) for m in _LOCAL.finditer(ptx, start.end(), end if end > 0 else len(ptx)))


def variables_of(ptx: str) -> list[str]:
    """Symbols of the module's variables in PTX text, without those that the compiler made."""
    return [name for name in _VARIABLE.findall(ptx) if not name.startswith(("$", "__"))]


def variable_bytes(ptx: str, symbol: str) -> int:
    """Size of a module variable; 0 where the text has none of that name."""
    match = re.search(
        rf"^[ \t]*((?:\.\w+\s+)*\.(?:global|const)\s[^\n=;]*?(?<![\w$]){re.escape(symbol)}"
        rf"(?:\[\d*\])*)\s*[=;]",
        ptx, re.MULTILINE,
    )  # fmt: skip
    if match is None:
        return 0
    kind, declared = split_declaration(match[1])
    extent = declared[0].extent
    return kind.nbytes * (1 if extent is None else max(extent, 0))
