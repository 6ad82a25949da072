"""PTX types, casts between register storage and what an instruction names, and float constants."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Instr
from ge2rt.ptx.emit import BITS, Emitter, Value


@dataclass(frozen=True)
class PtxType:
    """A PTX type: storage as LLVM type, kind (``u s b f p``), bits and elements packed in it."""

    name: str
    llvm: str
    kind: str
    packed: int = 1

    @property
    def bits(self) -> int:
        """Width of one element."""
        return BITS[self.llvm] // self.packed

    @property
    def signed(self) -> bool:
        """Whether integers of this type are signed."""
        return self.kind == "s"


def _integers() -> dict[str, PtxType]:
    names = {f"{k}{bits}": (f"i{bits}", k) for k in "usb" for bits in (8, 16, 32, 64)}
    return {name: PtxType(name, llvm, kind) for name, (llvm, kind) in names.items()}


TYPES: dict[str, PtxType] = {
    **_integers(),
    "pred": PtxType("pred", "i1", "p"),
    "b128": PtxType("b128", "i128", "b"),
    "f32": PtxType("f32", "float", "f"),
    "f64": PtxType("f64", "double", "f"),
    "f16": PtxType("f16", "i16", "f"),
    "bf16": PtxType("bf16", "i16", "f"),
    "tf32": PtxType("tf32", "i32", "f"),
    "f16x2": PtxType("f16x2", "i32", "f", 2),
    "bf16x2": PtxType("bf16x2", "i32", "f", 2),
    "e4m3x2": PtxType("e4m3x2", "i16", "f", 2),
    "e5m2x2": PtxType("e5m2x2", "i16", "f", 2),
    "s4": PtxType("s4", "i8", "s", 2),
    "u4": PtxType("u4", "i8", "u", 2),
    "b1": PtxType("b1", "i8", "b", 8),
    "e4m3": PtxType("e4m3", "i8", "f"),
    "e5m2": PtxType("e5m2", "i8", "f"),
    "u16x2": PtxType("u16x2", "i32", "u", 2),
    "s16x2": PtxType("s16x2", "i32", "s", 2),
}


def types_of(instr: Instr) -> tuple[PtxType, ...]:
    """The types among the dotted parts, in order."""
    return _types_among(instr.mods)


@lru_cache(maxsize=4096)
def _types_among(mods: tuple[str, ...]) -> tuple[PtxType, ...]:
    return tuple([TYPES[mod] for mod in mods if mod in TYPES])


def unsupported(instr: Instr, why: str = "") -> UnsupportedError:
    """The error for a form that no rule knows."""
    return UnsupportedError(
        f"PTX instruction {instr.form} has no meaning on the cpu device"
        + (f": {why}" if why else ""),
        where=f"ptx:{instr.line}",
        next_step="Use another form in the kernel, or run it on the cuda device.",
    )


def constant(value: Value) -> int | None:
    """The integer of a scalar integer constant, or None."""
    if value.lanes or value.type in ("float", "double", "ptr"):
        return None
    if value.text in ("true", "false"):
        return int(value.text == "true")
    try:
        return int(value.text)
    except ValueError:
        return None


def float_text(number: float) -> str:
    """The LLVM spelling of a float or double constant (the bits of a double)."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def number(type: str, value: float) -> Value:
    """A scalar float or double constant; a float is rounded to 24 bits first."""
    if type == "float" and abs(value) < 3.5e38:
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return Value(type, float_text(value))


def float_constant(value: Value) -> float | None:
    """The number of a scalar float or double constant, or None."""
    if value.lanes or value.type not in ("float", "double") or not value.text.startswith("0x"):
        return None
    return float(struct.unpack("<d", struct.pack("<Q", int(value.text, 16)))[0])


def integer(type: str, value: int) -> Value:
    """A scalar integer constant, wrapped to the type's width and spelled as signed."""
    bits = BITS[type]
    wrapped = value & ((1 << bits) - 1)
    if bits > 1 and wrapped >> (bits - 1):
        wrapped -= 1 << bits
    return Value(type, str(wrapped))


def cast(e: Emitter, value: Value, type: str) -> Value:
    """The low bits of a register (or an immediate) as LLVM type ``type``."""
    if value.type == type:
        return value
    if (const := constant(value)) is not None:
        return _constant_as(const, type)
    if value.type == "double" and type == "float" and value.text.startswith("0x"):
        return number("float", float_constant(value) or 0.0)
    have, want = BITS[value.type], BITS[type]
    if have == want:
        return e.bitcast(value, type)
    whole = e.bitcast(value, f"i{have}") if not value.type.startswith("i") else value
    resized = e.convert("trunc" if have > want else "zext", whole, f"i{want}")
    return e.bitcast(resized, type) if resized.type != type else resized


def _constant_as(value: int, type: str) -> Value:
    if type == "float":
        bits = struct.pack("<I", value & 0xFFFFFFFF)
        return Value(type, float_text(struct.unpack("<f", bits)[0]))
    if type == "double":
        return Value(type, f"0x{value & 0xFFFFFFFFFFFFFFFF:016X}")
    return integer(type, value)


def uniform_constant(value: Value) -> int | None:
    """The integer that a constant, scalar or splatted, has in all lanes, or None."""
    return constant(unsplat(value))


def unsplat(value: Value) -> Value:
    """A splatted constant as the scalar it was made of; other values as they are."""
    if not value.lanes or value.text[0] == "%":
        return value
    if value.text == "zeroinitializer":
        real = value.type in ("float", "double")
        return number(value.type, 0.0) if real else Value(value.type, "0")
    head = f"splat ({value.type} "
    return Value(value.type, value.text[len(head) : -1]) if value.text.startswith(head) else value


def cast_all(e: Emitter, values: Sequence[Value], type: str) -> list[Value]:
    """:func:`cast` for each value."""
    return [v if v.type == type else cast(e, v, type) for v in values]


def unpack(e: Emitter, values: Sequence[Value], type: PtxType) -> list[Value]:
    """Integers of the type's element width; packed types get ``packed`` times the lanes."""
    given = cast_all(e, values, type.llvm)
    if type.packed == 1:
        return given
    return [
        e.reinterpret(v, f"i{type.bits}", type.packed * max(v.lanes, 1)) for v in e.alike(given)
    ]


def repack(e: Emitter, value: Value, type: PtxType) -> Value:
    """The inverse of :func:`unpack`."""
    if type.packed == 1:
        return value
    lanes = value.lanes // type.packed
    return e.reinterpret(value, type.llvm, lanes if lanes > 1 else 0)
