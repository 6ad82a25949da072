"""Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision")."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.ast import Instr
from ge2rt.ptx.emit import BITS, Emitter, Value
from ge2rt.ptx.lanewise import by_lane
from ge2rt.ptx.rules.operands import (
    PtxType,
    cast,
    cast_all,
    constant,
    integer,
    repack,
    types_of,
    unpack,
)


def _widen(e: Emitter, value: Value, signed: bool, type: str) -> Value:
    return e.convert("sext" if signed else "zext", value, type)


def add_sub(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``add`` and ``sub``, with ``.sat`` (signed) or ``.cc``, whose flag is a second result."""
    t = types_of(i)[-1]
    a, b = unpack(e, src[:2], t)
    if i.has("sat"):
        return [repack(e, e.call(f"llvm.{'s' if t.signed else 'u'}{i.op}.sat", (a, b)), t)]
    result = e.binary(i.op, a, b)
    if not i.has("cc"):
        return [repack(e, result, t)]
    flag = e.compare("icmp ult", result if i.op == "add" else a, a if i.op == "add" else b)
    return [result, flag]


def add_sub_carry(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``addc`` and ``subc``: the carry comes as the last source; ``.cc`` gives a second result."""
    t = types_of(i)[-1]
    a, b = cast_all(e, src[:2], t.llvm)
    return _with_carry(e, i, i.op[:3], a, b, src[2])


def _with_carry(e: Emitter, i: Instr, op: str, a: Value, b: Value, flag: Value) -> list[Value]:
    first = e.binary(op, a, b)
    result = e.binary(op, first, e.convert("zext", cast(e, flag, "i1"), a.type))
    if not i.has("cc"):
        return [result]
    out = []
    for before, term, after in ((a, b, first), (first, None, result)):
        if op == "add":
            out.append(e.compare("icmp ult", after, before))
        elif term is not None:
            out.append(e.compare("icmp ult", before, term))
        else:
            out.append(e.compare("icmp ugt", after, before))
    return [result, e.binary("or", out[0], out[1])]


def high_product(e: Emitter, a: Value, b: Value, signed: bool) -> Value:
    """The upper half of the double-width product."""
    if BITS[a.type] == 64 and max(a.lanes, b.lanes) > 1:
        return _high64(e, a, b, signed)
    wide = f"i{2 * BITS[a.type]}"
    product = e.binary("mul", _widen(e, a, signed, wide), _widen(e, b, signed, wide))
    return e.convert("trunc", e.binary("lshr", product, integer(wide, BITS[a.type])), a.type)


def _high64(e: Emitter, a: Value, b: Value, signed: bool) -> Value:
    """From four 32-bit products: vectors of i128 would become scalar code."""
    low, by32 = integer("i64", 0xFFFFFFFF), integer("i64", 32)
    al, bl = e.binary("and", a, low), e.binary("and", b, low)
    ah, bh = e.binary("lshr", a, by32), e.binary("lshr", b, by32)
    mid = e.binary("add", e.binary("mul", ah, bl), e.binary("lshr", e.binary("mul", al, bl), by32))
    other = e.binary("add", e.binary("mul", al, bh), e.binary("and", mid, low))
    high = e.binary("add", e.binary("mul", ah, bh), e.binary("lshr", mid, by32))
    high = e.binary("add", high, e.binary("lshr", other, by32))
    if signed:
        sign = integer("i64", 63)
        high = e.binary("sub", high, e.binary("and", e.binary("ashr", a, sign), b))
        high = e.binary("sub", high, e.binary("and", e.binary("ashr", b, sign), a))
    return high


def _product(e: Emitter, i: Instr, a: Value, b: Value) -> Value:
    t = types_of(i)[-1]
    if i.has("wide"):
        wide = f"i{2 * t.bits}"
        return e.binary("mul", _widen(e, a, t.signed, wide), _widen(e, b, t.signed, wide))
    return high_product(e, a, b, t.signed) if i.has("hi") else e.binary("mul", a, b)


def mul(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``mul.lo``, ``mul.hi`` and ``mul.wide``, whose result has twice the width."""
    a, b = cast_all(e, src, types_of(i)[-1].llvm)
    return [_product(e, i, a, b)]


def mad(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``mad`` and ``madc``: a product as in ``mul`` plus c, plus the carry (last source)."""
    t = types_of(i)[-1]
    a, b = cast_all(e, src[:2], t.llvm)
    product = _product(e, i, a, b)
    c = cast(e, src[2], product.type)
    if i.has("sat"):
        return [e.call("llvm.sadd.sat", (product, c))]
    flag = src[3] if i.op == "madc" else Value("i1", "false")
    if i.op == "madc" or i.has("cc"):
        return _with_carry(e, i, "add", product, c, flag)
    return [e.binary("add", product, c)]


def mul24(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``mul24`` and ``mad24``: the low or the high 32 bits of a 48-bit product."""
    t = types_of(i)[-1]
    ext = "ashr" if t.signed else "lshr"
    eight = integer("i32", 8)
    a, b = (e.binary(ext, e.binary("shl", v, eight), eight) for v in cast_all(e, src[:2], "i32"))
    a, b = _widen(e, a, t.signed, "i64"), _widen(e, b, t.signed, "i64")
    product = e.binary("mul", a, b)
    if i.has("hi"):
        product = e.binary("lshr", product, integer("i64", 16))
    result = e.convert("trunc", product, "i32")
    if i.op == "mul24":
        return [result]
    c = cast(e, src[2], "i32")
    return [e.call("llvm.sadd.sat", (result, c)) if i.has("sat") else e.binary("add", result, c)]


def sad(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``sad``: c + |a - b|."""
    t = types_of(i)[-1]
    a, b, c = cast_all(e, src, t.llvm)
    sign = "s" if t.signed else "u"
    top, low = e.call(f"llvm.{sign}max", (a, b)), e.call(f"llvm.{sign}min", (a, b))
    return [e.binary("add", c, e.binary("sub", top, low))]


def div_rem(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``div`` and ``rem``: truncating, never trapping; x / 0 is all ones, x % 0 is x."""
    t = types_of(i)[-1]
    a, b = cast_all(e, src, t.llvm)
    one, ones = integer(t.llvm, 1), integer(t.llvm, -1)
    if constant(b) == 0:
        return [e.binary("or", a, ones) if i.op == "div" else e.binary("or", a, integer(t.llvm, 0))]
    op = f"{'s' if t.signed else 'u'}{i.op}"
    if _divides_well(a, constant(b), t):
        return [e.binary(op, a, b)]
    zero = e.compare("icmp eq", b, integer(t.llvm, 0))
    safe = e.select(zero, one, b)
    if t.signed:
        lowest = e.compare("icmp eq", a, integer(t.llvm, 1 << (t.bits - 1)))
        overflow = e.binary("and", lowest, e.compare("icmp eq", b, ones))
        safe = e.select(overflow, one, safe)
    quotient = _quotient(e, a, safe, t.signed)
    if i.op == "div":
        return [e.select(zero, ones, quotient)]
    return [e.select(zero, a, e.binary("sub", a, e.binary("mul", quotient, safe)))]


def _divides_well(a: Value, divisor: int | None, t: PtxType) -> bool:
    """A constant: LLVM multiplies instead, but not vectors of 64 bits (no high halves there)."""
    if divisor is None or (divisor == -1 and t.signed):
        return False
    return not a.lanes or t.bits < 64 or divisor & (divisor - 1) == 0


def _quotient(e: Emitter, a: Value, b: Value, signed: bool) -> Value:
    """Up to 32 bits a float division with twice the precision is exact once truncated."""
    a, b = e.alike((a, b))
    op = "sdiv" if signed else "udiv"
    if not a.lanes:
        return e.binary(op, a, b)
    if BITS[a.type] == 64:

        def step(inner: Emitter, args: Sequence[Value]) -> list[Value]:
            return [inner.binary(op, args[0], args[1])]

        return by_lane(e, op, None, (a, b), results=(a.type,), step=step)[0]
    real, letter = "float" if BITS[a.type] == 16 else "double", "s" if signed else "u"
    x, y = (e.convert(f"{letter}itofp", v, real) for v in (a, b))
    return e.convert(f"fpto{letter}i", e.binary("fdiv", x, y), a.type)


def absolute(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``abs``: the lowest value stays."""
    (a,) = cast_all(e, src, types_of(i)[-1].llvm)
    below = e.compare("icmp slt", a, integer(a.type, 0))
    return [e.select(below, e.binary("sub", integer(a.type, 0), a), a)]


def negate(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``neg``: 0 - a."""
    (a,) = cast_all(e, src, types_of(i)[-1].llvm)
    return [e.binary("sub", integer(a.type, 0), a)]


def min_max(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``min`` and ``max``, with ``.relu``, also on pairs of 16 bits."""
    t = types_of(i)[-1]
    a, b = unpack(e, src, t)
    result = e.call(f"llvm.{'s' if t.signed else 'u'}{i.op}", (a, b))
    if i.has("relu"):
        result = e.call("llvm.smax", (result, integer(result.type, 0)))
    return [repack(e, result, t)]


def _part(e: Emitter, word: Value, bits: int, index: int, signed: bool) -> Value:
    up = e.binary("shl", word, integer("i32", 32 - bits * (index + 1)))
    return e.binary("ashr" if signed else "lshr", up, integer("i32", 32 - bits))


def dot_product(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``dp4a`` (four bytes by four) and ``dp2a`` (two halves by the lo or hi two bytes)."""
    a, b, total = cast_all(e, src, "i32")
    ta, tb = types_of(i)
    count = 4 if i.op == "dp4a" else 2
    first = 2 if i.has("hi") else 0
    for k in range(count):
        x = _part(e, a, 32 // count, k, ta.signed)
        y = _part(e, b, 8, k + first, tb.signed)
        total = e.binary("add", total, e.binary("mul", x, y))
    return [total]


def absolute_differences(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``vabsdiff2`` and ``vabsdiff4``: by halves or bytes of a word; ``.add`` sums them up."""
    a, b, total = cast_all(e, src, "i32")
    _, ta, tb = types_of(i)
    count = int(i.op[-1])
    bits = 32 // count
    result = total if i.has("add") else integer("i32", 0)
    for k in range(count):
        x, y = _part(e, a, bits, k, ta.signed), _part(e, b, bits, k, tb.signed)
        low, high = e.call("llvm.smin", (x, y)), e.call("llvm.smax", (x, y))
        part = e.binary("sub", high, low)
        if i.has("add"):
            result = e.binary("add", result, part)
        else:
            kept = e.binary("and", part, integer("i32", (1 << bits) - 1))
            result = e.binary("or", result, e.binary("shl", kept, integer("i32", bits * k)))
    return [result]


_WORDS = "u16 u32 u64 s16 s32 s64"

ROWS = (
    ("add", f"{_WORDS} b32 u16x2 s16x2", "sat cc", add_sub),
    ("sub", f"{_WORDS} b32", "sat cc", add_sub),
    ("addc", "u32 s32 u64 s64 b32", "cc", add_sub_carry),
    ("subc", "u32 s32 u64 s64 b32", "cc", add_sub_carry),
    ("mul", _WORDS, "lo hi wide", mul),
    ("mad", _WORDS, "lo hi wide sat cc", mad),
    ("madc", "u32 s32 u64 s64", "lo hi cc", mad),
    ("mul24", "u32 s32", "lo hi", mul24),
    ("mad24", "u32 s32", "lo hi sat", mul24),
    ("sad", _WORDS, "", sad),
    ("div", _WORDS, "", div_rem),
    ("rem", _WORDS, "", div_rem),
    ("abs", "s16 s32 s64", "", absolute),
    ("neg", "s16 s32 s64", "", negate),
    ("min", f"{_WORDS} u16x2 s16x2", "relu", min_max),
    ("max", f"{_WORDS} u16x2 s16x2", "relu", min_max),
    ("vabsdiff2", "u32 s32", "add", absolute_differences),
    ("vabsdiff4", "u32 s32", "add", absolute_differences),
    ("dp4a", "u32 s32", "", dot_product),
    ("dp2a", "u32 s32", "lo hi", dot_product),
)
