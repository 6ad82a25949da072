"""The parsed form of a PTX module: frozen records between the parser and everything after it.

Names follow the PTX ISA manual. A ``line`` is the 1-based line of the PTX text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Reg:
    """A virtual register, with its leading ``%`` where the text has one."""

    name: str


@dataclass(frozen=True)
class Special:
    """A special register: ``%tid.x`` is ``Special("tid", "x")``, ``%laneid`` has no axis."""

    name: str
    axis: str = ""


@dataclass(frozen=True)
class Imm:
    """A literal. Floats (``0f...``, ``0d...``, ``1.5``) keep their bit pattern in ``value``.

    ``kind`` is ``"int"`` (``value`` may be negative), ``"f32"`` or ``"f64"``.
    """

    value: int
    kind: str = "int"


@dataclass(frozen=True)
class Symbol:
    """The name of a variable, parameter, function or label, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """``[base+offset]``; ``base`` is a register, a variable, or None for an absolute address."""

    base: Reg | Symbol | None
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """``{a, b, ...}``; an element is None where the text has the sink ``_``."""

    items: tuple[Operand | None, ...]


@dataclass(frozen=True)
class Pair:
    """``d|p``: a destination with a second, predicate destination (setp, shfl, ...)."""

    first: Operand | None
    second: Operand | None


@dataclass(frozen=True)
class Not:
    """``!p`` as a source predicate."""

    operand: Operand


Operand: TypeAlias = Reg | Special | Imm | Symbol | Address | Vector | Pair | Not


@dataclass(frozen=True)
class Guard:
    """``@p`` or ``@!p`` before an instruction."""

    reg: Reg
    negated: bool = False


@dataclass(frozen=True)
class Instr:
    """One instruction.

    ``op`` is the base opcode (``"ld"``), ``mods`` the dotted parts after it in order
    (``("global", "nc", "v4", "f32")``), ``operands`` all operands in textual order (destination
    first where there is one). ``types`` are those of ``mods`` that are PTX types, in order:
    ``cvt.rn.f16.f32`` has ``("f16", "f32")``.
    """

    op: str
    mods: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    types: tuple[str, ...] = ()
    loc: tuple[int, int] | None = None  # (file index, source line); a header's: of the call

    @property
    def form(self) -> str:
        """The full dotted name, for messages and coverage tables."""
        return ".".join((self.op, *self.mods))

    def has(self, mod: str) -> bool:
        """Whether the dotted part ``mod`` is present."""
        return mod in self.mods


@dataclass(frozen=True)
class Variable:
    """A variable of state space ``space``: global, const, shared, local or param.

    ``nbytes`` is the whole size (0 for ``extern .shared x[]``), ``init`` the initial bytes or None.
    ``relocations`` are (byte offset, symbol, addend) where the initialiser holds addresses.
    """

    name: str
    space: str
    type: str
    align: int
    nbytes: int
    init: bytes | None = None
    extern: bool = False
    relocations: tuple[tuple[int, str, int], ...] = ()
    line: int = 0


@dataclass(frozen=True)
class Param:
    """A parameter of an entry or function; ``offset`` is its place in the parameter block."""

    name: str
    type: str  # "u64", "f32", ..., or "b8" for an aggregate
    align: int
    nbytes: int
    offset: int
    is_register: bool = False  # device functions may take .reg parameters


@dataclass(frozen=True)
class Block:
    """A basic block: instructions of which at most the last ones transfer control.

    ``label`` is unique in its function. ``successors`` are labels: for a guarded branch the taken
    target first, then the fall-through; for ``brx.idx`` the table in order. Empty after
    ret/exit/trap.
    """

    label: str
    instrs: tuple[Instr, ...]
    successors: tuple[str, ...]


@dataclass(frozen=True)
class Function:
    """An entry or a device function; ``blocks`` stand in textual order, the first is the entry."""

    name: str
    is_entry: bool
    params: tuple[Param, ...]
    returns: tuple[Param, ...]
    registers: dict[str, str]  # register name -> declared type without dot: "pred", "b32", "f64"
    variables: tuple[Variable, ...]  # .shared and .local declared inside, and call .param space
    blocks: tuple[Block, ...]
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)  # maxntid, minnctapersm...
    line: int = 0

    @property
    def param_bytes(self) -> int:
        """Size of the packed parameter block."""
        return max((p.offset + p.nbytes for p in self.params), default=0)


@dataclass(frozen=True)
class Module:
    """A whole PTX file."""

    version: tuple[int, int]
    target: str  # "sm_80", "sm_90a"
    address_size: int
    variables: tuple[Variable, ...]
    functions: dict[str, Function]
    externs: tuple[str, ...] = ()  # declared without a body: vprintf, __assertfail, malloc
    files: dict[int, str] = field(default_factory=dict)  # .file index -> path

    def entries(self) -> list[str]:
        """Names of the entries (kernels), in textual order."""
        return [name for name, function in self.functions.items() if function.is_entry]
