"""Puts a harvested instruction into a kernel that loads its operands and stores its results.

An example such as ``fma.rn.f32 %f1, %f2, %f3, %f4;`` becomes a scope of its own: declarations,
loads of the source registers, the instruction to the letter, stores of the registers it writes.
Operand k of a thread lies at ``given[k, thread]``, and its result k goes to ``kept[k, thread]``;
forms that touch memory have a cell of 32 bytes a thread, in global memory or copied from there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from cpu.form_values import NAMED, bits_of

CELL = 32  # bytes of memory a thread has
REGISTER = re.compile(r"%(p|rb|rs|rd|r|fd|f)(\d+)\b")
DECLARED = {"p": "pred", "rb": "b8", "rs": "b16", "r": "b32", "rd": "b64", "f": "f32",
            "fd": "f64"}  # fmt: skip
_TYPE = re.compile(r"pred|[usb](8|16|32|64|128)|f16(x2)?|bf16(x2)?|f32|f64|e[45]m[23]x2|[us]16x2")
# What an operand is where it is not of the instruction's last type: opcode -> {place: type}.
_OPERANDS: dict[str, dict[int, str]] = {
    "shl": {2: "count"}, "shr": {2: "count"}, "shf": {3: "count"}, "bfe": {2: "count", 3: "count"},
    "bfi": {3: "count", 4: "count"}, "bmsk": {1: "count", 2: "count"},
    "fns": {2: "lane", 3: "nth"}, "vabsdiff4": {1: "u8x4", 2: "u8x4"},
    "vabsdiff2": {1: "u16x2", 2: "u16x2"}, "dp4a": {1: "u8x4", 2: "u8x4"},
    "dp2a": {1: "u16x2", 2: "u8x4"}, "shfl": {2: "count", 3: "clamp", 4: "everyone"},
    "vote": {1: "vote", 2: "members"}, "match": {1: "few", 2: "members"}, "redux": {2: "members"},
    "elect": {1: "members"}, "bar": {2: "vote"},
}  # fmt: skip


@dataclass
class Source:
    """A register to fill: its type says with which values."""

    register: str
    kind: str


@dataclass
class Fragment:
    """One form in a kernel. ``cell`` is the type of the words in memory, "" where it has none."""

    example: str
    sources: list[Source] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    cell: str = ""
    joined: int = 1  # threads that share a cell
    guard: str = ""

    @property
    def form(self) -> str:
        """The dotted name."""
        return form_of(self.example)

    @property
    def mods(self) -> list[str]:
        """The dotted parts, the opcode first."""
        return self.form.split(".")

    @property
    def types(self) -> list[str]:
        """Types among the dotted parts."""
        return [p for p in self.mods if _TYPE.fullmatch(p)]


def form_of(example: str) -> str:
    """``add.s32`` of ``add.s32 %r1, %r2, %r3;``."""
    return re.split(r"[ ;]", example, maxsplit=1)[0]


def operands(example: str) -> list[str]:
    """The operands' texts."""
    rest = example.rstrip(";").partition(" ")[2]
    pieces, depth, start = [], 0, 0
    for i, c in enumerate(rest):
        depth += (c in "[{") - (c in "]}")
        if c == "," and not depth:
            pieces.append(rest[start:i].strip())
            start = i + 1
    return [p for p in [*pieces, rest[start:].strip()] if p]


def registers(text: str) -> list[str]:
    """Names of the registers in a text, each once."""
    return list(dict.fromkeys(m.group(0) for m in REGISTER.finditer(text)))


def prefix(register: str) -> str:
    """``r`` of ``%r12``."""
    found = REGISTER.match(register)
    assert found is not None, register
    return found.group(1)


def kind_at(mods: Sequence[str], place: int) -> str:
    """The type of the operand at a place, as far as the opcode tells."""
    named = _OPERANDS.get(mods[0], {}).get(place)
    return named or next((p for p in reversed(mods) if _TYPE.fullmatch(p)), "")


def fragment(example: str, joined: int = 1) -> Fragment:
    """The form with its sources and targets told apart, and its memory set up."""
    out = Fragment(example, joined=joined)
    opcode = out.mods[0]
    for place, text in enumerate(operands(example)):
        if text.startswith("["):
            continue
        if place == 0 and opcode != "st":
            out.targets += registers(text)
            continue
        for register in registers(text):
            if all(s.register != register for s in out.sources):
                out.sources.append(Source(register, _fitting(register, kind_at(out.mods, place))))
    if "cc" in out.mods or opcode in ("addc", "subc", "madc"):
        _carry(out)
    if opcode in ("ld", "st", "atom"):
        _memory(out)
    return out


def _fitting(register: str, kind: str) -> str:
    """The type, or plain bits where the register is of another width."""
    name = prefix(register)
    if name == "p":
        return kind if kind == "vote" else "pred"
    width = bits_of(DECLARED[name])
    return kind if kind and (kind in NAMED or bits_of(kind) == width) else f"b{width}"


def _carry(f: Fragment) -> None:
    """Carry in from an operand of its own, carry out to a result of its own."""
    minus = f.mods[0].startswith("sub")
    if f.mods[0] in ("addc", "subc", "madc"):
        f.sources.append(Source("%carry", "bit"))
        f.before.append(f"{'sub.cc.u32 %w, 0, %carry' if minus else 'add.cc.u32 %w, %carry, -1'};")
    if "cc" in f.mods:
        f.after.append(f"{'subc' if minus else 'addc'}.u32 %w, 0, 0;")
        f.targets.append("%w")


# -- memory --------------------------------------------------------------------------------------

SPACES = ("shared", "local", "const", "param")


def space_of(example: str) -> str:
    """The space whose cells need a copy of their own; "global" for all else."""
    parts = form_of(example).split(".")
    named = (p.partition("::")[0] for p in parts[1:])
    return next((p for p in named if p in SPACES), "global")


def _memory(f: Fragment) -> None:
    space = space_of(f.example)
    if space == "param":
        _call(f)
        return
    f.cell = f.types[-1]
    address = next(t for t in operands(f.example) if t.startswith("["))[1:-1]
    if space == "global":
        f.before.append(f"mov.u64 {address}, cell;")
    elif space == "const":
        f.before += [f"mov.u64 {address}, variable;", "mul.wide.u32 %x, t, 4;",
                     "and.b64 %x, %x, 60;", f"add.u64 {address}, {address}, %x;"]  # fmt: skip
    elif address == "variable":
        f.before += ["setp.eq.u32 %q, t0, 0;", *_copy(space, "variable", "%q"), "bar.sync 0;"]
        f.after += ["bar.sync 0;", *_copy_back(space, "variable", "%q")]
        f.guard = "@%q " if f.mods[0] == "st" else ""
    else:
        size = 32 if prefix(address) == "r" else 64
        f.before += [f"cvt.u{size}.u64 {address}, place;" if size == 32 else
                     f"mov.u64 {address}, place;", *_copy(space, "place")]  # fmt: skip
        f.after += _copy_back(space, "place")


def _copy(space: str, to: str, guard: str = "") -> list[str]:
    when = f"@{guard} " if guard else ""
    return [line for at in range(0, CELL, 8)
            for line in (f"ld.global.b64 %x, [cell+{at}];",
                         f"{when}st.{space}.b64 [{to}+{at}], %x;")]  # fmt: skip


def _copy_back(space: str, origin: str, guard: str = "") -> list[str]:
    when = f"@{guard} " if guard else ""
    return [line for at in range(0, CELL, 8)
            for line in (f"ld.{space}.b64 %x, [{origin}+{at}];",
                         f"{when}st.global.b64 [cell+{at}], %x;")]  # fmt: skip


def _call(f: Fragment) -> None:
    """A parameter of a call: it goes through a function that returns it."""
    kind = f.types[-1]
    bits = bits_of(kind)
    name, call = f"same{bits}", f"call.uni (%back), same{bits}, (variable);"
    f.before.append(f".param .b{bits} variable; .param .b{bits} %back;")
    if f.mods[0] == "st":
        f.after += [call, f"ld.param.b{bits} {'%w' if bits == 32 else '%x'}, [%back];"]
        f.targets.append("%w" if bits == 32 else "%x")
        return
    register = f.targets[0]
    f.sources.append(Source("%w" if bits == 32 else "%x", f"b{bits}"))
    f.before += [f"st.param.b{bits} [%back], {f.sources[0].register};",
                 f"call.uni (variable), {name}, (%back);"]  # fmt: skip
    f.targets = [register]


OUTSIDE = {
    "global": "",
    "shared": ".shared .align 16 .b8 area[{room}]; .shared .align 16 .b8 variable[32];",
    "local": "",
    "const": ".const .align 16 .b32 variable[16] = {{{words}}};",
    "param": """.func (.param .b32 o) same32(.param .b32 i)
{{ .reg .b32 %r1; ld.param.b32 %r1, [i]; st.param.b32 [o], %r1; ret; }}
.func (.param .b64 o) same64(.param .b64 i)
{{ .reg .b64 %r1; ld.param.b64 %r1, [i]; st.param.b64 [o], %r1; ret; }}""",
}
_INSIDE = {"shared": "mov.u64 place, area; mul.wide.u32 at, t0, 32; add.u64 place, place, at;",
           "local": ".local .align 16 .b8 area[32]; mov.u64 place, area;"}  # fmt: skip


# -- text ----------------------------------------------------------------------------------------


def _fill(register: str, at: str) -> str:
    if register in ("%carry", "%w", "%x"):
        return f"ld.global.b{64 if register == '%x' else 32} {register}, {at};"
    if prefix(register) == "p":
        return f"ld.global.u32 %w, {at}; setp.ne.u32 {register}, %w, 0;"
    return f"ld.global.{DECLARED[prefix(register)]} {register}, {at};"


def _keep(register: str, at: str) -> str:
    if register in ("%w", "%x"):
        return f"st.global.b{64 if register == '%x' else 32} {at}, {register};"
    if prefix(register) == "p":
        return f"selp.u32 %w, 1, 0, {register}; st.global.u32 {at}, %w;"
    return f"st.global.{DECLARED[prefix(register)]} {at}, {register};"


def body(f: Fragment, rows: tuple[int, int, int], count: int, uniform: int = -1) -> str:
    """The scope of one form; ``rows`` are the first ones of its operands, results and cells.

    The operand numbered ``uniform`` is the same for a whole block.
    """
    lines = ["{", ".reg .b32 %w, %carry; .reg .b64 %x; .reg .pred %q;"]
    lines += [f".reg .{DECLARED[prefix(r)]} {r};" for r in registers(f.example)]
    if f.cell:
        lines += [f"div.u32 %w, t, {f.joined}; mul.wide.u32 %x, %w, {CELL};",
                  f"add.u64 cell, memory, %x; add.u64 cell, cell, {rows[2] * CELL * count};",
                  ]  # fmt: skip
    for k, source in enumerate(f.sources):
        base = "first" if k == uniform else "given"
        lines.append(_fill(source.register, f"[{base}+{8 * count * (rows[0] + k)}]"))
    lines += [*f.before, f.guard + f.example, *f.after]
    for k, register in enumerate(f.targets):
        lines.append(_keep(register, f"[kept+{8 * count * (rows[1] + k)}]"))
    return "\n".join([*lines, "}"])


_HEAD = """.version 8.7
.target sm_90
.address_size 64
{outside}
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c)
{{
.reg .b32 t, t0, u; .reg .b64 given, first, kept, memory, at, cell, place;
mov.u32 t0, %tid.x; mov.u32 u, %ctaid.x; mul.lo.u32 u, u, {block}; add.u32 t, t0, u;
ld.param.u64 given, [a]; ld.param.u64 kept, [b]; ld.param.u64 memory, [c];
mul.wide.u32 at, u, 8; add.u64 first, given, at;
mul.wide.u32 at, t, 8; add.u64 given, given, at; add.u64 kept, kept, at;
{inside}
{text}
ret;
}}
"""


def module(bodies: Sequence[str], space: str, block: int) -> str:
    """A module with one kernel ``k``: operands, results and memory are its parameters."""
    words = ", ".join(str((k * 0x9E3779B9 + 0x80000001) % 2**32) for k in range(16))
    return _HEAD.format(outside=OUTSIDE[space].format(room=CELL * block, words=words),
                        inside=_INSIDE.get(space, ""), block=block,
                        text="\n".join(bodies))  # fmt: skip
