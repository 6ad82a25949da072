"""PTX floats as LLVM floats to compute in, and back: f16 and bf16 are computed in float.

A packed pair opens as a vector of twice the lanes. Closing rounds to nearest even; NaN becomes the
canonical NaN (PTX ISA, "Half Precision Floating Point Instructions").
"""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.ast import Instr
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.rules.operands import PtxType, cast_all, integer, number, repack, unpack

SMALLEST_NORMAL = {"f32": 2.0**-126, "f64": 2.0**-1022, "f16": 2.0**-14, "bf16": 2.0**-126}


def open_floats(e: Emitter, values: Sequence[Value], type: PtxType) -> list[Value]:
    """The operands as LLVM float (f16, bf16, f32) or double values."""
    if type.llvm in ("float", "double"):
        return cast_all(e, values, type.llvm)
    return [open_half(e, v, type.name.startswith("bf")) for v in unpack(e, values, type)]


def open_half(e: Emitter, bits: Value, brain: bool) -> Value:
    """An i16 as a float: bf16 is the upper half of a float."""
    if not brain:
        return e.convert("fpext", e.bitcast(bits, "half"), "float")
    word = e.binary("shl", e.convert("zext", bits, "i32"), integer("i32", 16))
    return e.bitcast(word, "float")


def close_float(e: Emitter, value: Value, type: PtxType) -> Value:
    """A result in the instruction's own type."""
    if type.llvm in ("float", "double"):
        return value
    return repack(e, close_half(e, value, type.name.startswith("bf")), type)


def close_half(e: Emitter, value: Value, brain: bool) -> Value:
    """A float rounded to nearest even, as i16.

    bf16 is rounded by hand: the processor's own conversion flushes subnormals.
    """
    nan = e.compare("fcmp uno", value, value)
    if not brain:
        bits = e.bitcast(e.convert("fptrunc", value, "half"), "i16")
        return e.select(nan, integer("i16", 0x7FFF), bits)
    word = e.bitcast(value, "i32")
    odd = e.binary("and", e.binary("lshr", word, integer("i32", 16)), integer("i32", 1))
    word = e.binary("add", e.binary("add", word, integer("i32", 0x7FFF)), odd)
    bits = e.convert("trunc", e.binary("lshr", word, integer("i32", 16)), "i16")
    return e.select(nan, integer("i16", 0x7FFF), bits)


def flush(e: Emitter, value: Value, type: PtxType) -> Value:
    """Subnormals of ``type`` become zeros of the same sign."""
    smallest = number(value.type, SMALLEST_NORMAL[type.name.removesuffix("x2")])
    tiny = e.compare("fcmp olt", e.call("llvm.fabs", (value,)), smallest)
    zero = e.binary("fmul", value, number(value.type, 0.0))
    return e.select(tiny, zero, value)


def opened(e: Emitter, i: Instr, values: Sequence[Value], type: PtxType) -> list[Value]:
    """:func:`open_floats`, flushed where the instruction says ``.ftz``."""
    given = open_floats(e, values, type)
    return [flush(e, v, type) for v in given] if i.has("ftz") else given


_CLOSING = frozenset(("sat", "relu", "ftz"))


def closed(e: Emitter, i: Instr, value: Value, type: PtxType) -> Value:
    """Apply ``.sat``, ``.relu`` and ``.ftz`` to a result and close it.

    The flush of a half comes after its rounding.
    """
    if _CLOSING.isdisjoint(i.mods):
        return close_float(e, value, type)
    if i.has("sat"):
        value = saturate(e, value)
    if i.has("relu"):
        value = relu(e, value)
    if not i.has("ftz"):
        return close_float(e, value, type)
    if type.llvm in ("float", "double"):
        return flush(e, value, type)
    bits = close_half(e, value, type.name.startswith("bf"))
    rounded = flush(e, open_half(e, bits, type.name.startswith("bf")), type)
    return close_float(e, rounded, type)


def saturate(e: Emitter, value: Value) -> Value:
    """Clamp to [0, 1]; NaN becomes +0."""
    zero, one = number(value.type, 0.0), number(value.type, 1.0)
    low = e.select(e.compare("fcmp ogt", value, zero), value, zero)
    return e.select(e.compare("fcmp olt", low, one), low, one)


def relu(e: Emitter, value: Value) -> Value:
    """Negative numbers become +0; NaN stays."""
    zero = number(value.type, 0.0)
    return e.select(e.compare("fcmp ugt", value, zero), value, zero)
