"""The 8-bit floats e4m3 and e5m2 (OCP "8-bit Floating Point Specification"), always saturating."""

from __future__ import annotations

from dataclasses import dataclass

from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.rules.operands import PtxType, integer, number, unpack
from ge2rt.ptx.rules.views import open_half


@dataclass(frozen=True)
class Format:
    """Mantissa bits, exponent bias and largest number."""

    mantissa: int
    bias: int
    largest: float


FORMATS = {"e4m3x2": Format(3, 7, 448.0), "e5m2x2": Format(2, 15, 57344.0)}


def close(e: Emitter, x: Value, name: str) -> Value:
    """A float as i8: nearest even; beyond the largest number that number; NaN is 0x7f."""
    f = FORMATS[name]
    size = e.call("llvm.fabs", (x,))
    size = e.select(e.compare("fcmp ogt", size, number("float", f.largest)),
                    number("float", f.largest), size)  # fmt: skip
    word, drop = e.bitcast(size, "i32"), 23 - f.mantissa
    odd = e.binary("and", e.binary("lshr", word, integer("i32", drop)), integer("i32", 1))
    word = e.binary("add", e.binary("add", word, odd), integer("i32", (1 << (drop - 1)) - 1))
    word = e.binary("lshr", word, integer("i32", drop))
    normal = e.binary("sub", word, integer("i32", (127 - f.bias) << f.mantissa))
    # Adding a number whose last place is the smallest subnormal rounds to that place.
    magic = number("float", 2.0 ** (24 - f.bias - f.mantissa))
    shifted = e.bitcast(e.binary("fadd", size, magic), "i32")
    subnormal = e.binary("and", shifted, integer("i32", 0x7F))
    tiny = e.compare("fcmp olt", size, number("float", 2.0 ** (1 - f.bias)))
    bits = e.select(tiny, subnormal, normal)
    sign = e.binary("lshr", e.bitcast(x, "i32"), integer("i32", 24))
    bits = e.binary("or", bits, e.binary("and", sign, integer("i32", 0x80)))
    bits = e.select(e.compare("fcmp uno", x, x), integer("i32", 0x7F), bits)
    return e.convert("trunc", bits, "i8")


def open_pair(e: Emitter, pair: Value, type: PtxType) -> Value:
    """Both numbers of a register as floats: twice the lanes."""
    (bits,) = unpack(e, (pair,), type)
    return open_bytes(e, bits, type.name[:4])


def open_bytes(e: Emitter, bits: Value, name: str) -> Value:
    """i8 as floats; ``name`` is ``"e4m3"`` or ``"e5m2"``."""
    word = e.convert("zext", bits, "i16")
    if name == "e5m2":
        return open_half(e, e.binary("shl", word, integer("i16", 8)), False)
    size = e.binary("and", word, integer("i16", 0x7F))
    sign = e.binary("shl", e.binary("and", word, integer("i16", 0x80)), integer("i16", 8))
    half = e.binary("or", e.binary("shl", size, integer("i16", 7)), sign)
    value = e.binary("fmul", open_half(e, half, False), number("float", 256.0))
    nan = e.compare("icmp eq", size, integer("i16", 0x7F))
    return e.select(nan, number("float", float("nan")), value)
