"""Float arithmetic: f32 and f64, and f16/bf16 (scalar and packed) through float.

Sum, product, quotient and root of two halves are right when computed in float and rounded once more
(24 >= 2 * 11 + 2 bits); fma is not, so it goes through a rounding to odd.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ge2rt.ptx.ast import Instr
from ge2rt.ptx.emit import BITS, Emitter, Value
from ge2rt.ptx.rules import approx
from ge2rt.ptx.rules.operands import (
    PtxType,
    cast,
    cast_all,
    float_constant,
    integer,
    number,
    repack,
    types_of,
    unpack,
    unsupported,
)
from ge2rt.ptx.rules.rounding import MODES, fma_to_odd, rounded
from ge2rt.ptx.rules.views import close_half, closed, opened


def mode_of(i: Instr) -> str:
    """The rounding mode; nearest even where none is named."""
    return _mode_of(i.mods)


@lru_cache(maxsize=4096)
def _mode_of(mods: tuple[str, ...]) -> str:
    return next((m for m in mods if m in MODES), "rn")


def is_half(type: PtxType) -> bool:
    """Whether the type is f16 or bf16, single or packed."""
    return type.kind == "f" and type.bits == 16


_SAME_AS = {"sub": "add", "mad": "fma"}


def arithmetic(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``add``, ``sub``, ``mul``, ``fma`` (and ``mad``) in all rounding modes."""
    t = types_of(i)[-1]
    values = opened(e, i, src, t)
    if i.op == "sub":
        values[1] = e.unary("fneg", values[1])
    op = _SAME_AS.get(i.op, i.op)
    if op == "fma" and is_half(t):
        wide = t.name.startswith("bf")
        return [closed(e, i, fma_to_odd(e, *values, wide=wide), t)]
    return [closed(e, i, rounded(e, op, values, mode_of(i)), t)]


def divide(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``div``: ``.approx`` and ``.full`` get the exact quotient too.

    ``.approx`` multiplies by the reciprocal, which is zero for divisors beyond 2^126.
    """
    t = types_of(i)[-1]
    a, b = opened(e, i, src, t)
    quotient = rounded(e, "div", (a, b), mode_of(i))
    if i.has("approx"):
        beyond = e.compare("fcmp ogt", e.call("llvm.fabs", (b,)), number(t.llvm, 2.0**126))
        none = e.call("llvm.copysign", e.alike((number(t.llvm, 0.0), b)))
        quotient = e.select(beyond, e.binary("fmul", a, none), quotient)
    return [closed(e, i, quotient, t)]


def reciprocal(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``rcp``; the approximate f64 form works on the upper 32 bits alone."""
    t = types_of(i)[-1]
    one = number(t.llvm, 1.0)
    if i.has("approx") and t.name == "f64":
        (a,) = (_upper(e, v) for v in opened(e, i, src, t))
        return [_upper(e, closed(e, i, rounded(e, "div", (one, a), "rn"), t))]
    (a,) = opened(e, i, src, t)
    return [closed(e, i, rounded(e, "div", (one, a), mode_of(i)), t)]


def square_root(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``sqrt``: ``.approx`` gets the exact root too."""
    t = types_of(i)[-1]
    return [closed(e, i, rounded(e, "sqrt", opened(e, i, src, t), mode_of(i)), t)]


def reciprocal_root(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``rsqrt.approx``: one over the root (1.5 units in the last place)."""
    t = types_of(i)[-1]
    (a,) = opened(e, i, src, t)
    if t.name == "f64" and i.has("ftz"):
        a = _upper(e, a)
    result = e.binary("fdiv", number(t.llvm, 1.0), e.call("llvm.sqrt", (a,)))
    result = closed(e, i, result, t)
    return [_upper(e, result) if t.name == "f64" and i.has("ftz") else result]


def _upper(e: Emitter, value: Value) -> Value:
    word = e.binary("and", e.bitcast(value, "i64"), integer("i64", -1 << 32))
    return e.bitcast(word, "double")


def function(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``ex2 lg2 sin cos tanh`` (``.approx``), on halves through float."""
    t = types_of(i)[-1]
    (a,) = opened(e, i, src, t)
    if i.has("2pi"):
        a = approx.turned(e, a)
    flushing = i.has("ftz") and t.llvm == "float"
    return [closed(e, i, approx.FUNCTIONS[i.op](e, a, flushing), t)]


def absolute(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``abs`` clears and ``neg`` flips the sign bit; ``.ftz`` flushes first."""
    t = types_of(i)[-1]
    if is_half(t) and not i.has("ftz"):
        (bits,) = unpack(e, src, t)
        mask = integer("i16", 0x7FFF if i.op == "abs" else 0x8000)
        return [repack(e, e.binary("and" if i.op == "abs" else "xor", bits, mask), t)]
    (a,) = opened(e, i, src, t)
    value = e.call("llvm.fabs", (a,)) if i.op == "abs" else e.unary("fneg", a)
    if is_half(t):
        value = repack(e, close_half(e, value, t.name.startswith("bf")), t)
    return [value]


def min_max(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``min`` and ``max`` of two or three: -0 < +0; NaN loses, or wins with ``.NaN``."""
    t = types_of(i)[-1]
    values = opened(e, i, src, t)
    if i.has("abs"):
        flips = e.alike([_sign(e, v) for v in values])
        sign = e.binary("xor", flips[0], flips[1])
        values = [e.call("llvm.fabs", (v,)) for v in values]
    result = values[0]
    for other in values[1:]:
        result = extreme(e, i.op, result, other, i.has("NaN"))
    if i.has("abs"):
        result = _flip(e, result, sign)
    return [closed(e, i, result, t)]


def _sign(e: Emitter, value: Value) -> Value:
    bits = f"i{BITS[value.type]}"
    return e.binary("and", e.bitcast(value, bits), integer(bits, 1 << (BITS[bits] - 1)))


def _flip(e: Emitter, value: Value, sign: Value) -> Value:
    return e.bitcast(e.binary("xor", e.bitcast(value, sign.type), sign), value.type)


def extreme(e: Emitter, op: str, a: Value, b: Value, nan_wins: bool) -> Value:
    """The smaller or larger number of two floats."""
    if float_constant(a) is not None:
        a, b = b, a
    fixed = float_constant(b)
    if fixed is not None and fixed == fixed and not nan_wins:
        return _against_constant(e, op, a, b, fixed)
    a, b = e.alike((a, b))
    wins = "fcmp olt" if op == "min" else "fcmp ogt"
    first, second = e.select(e.compare(wins, a, b), a, b), e.select(e.compare(wins, b, a), b, a)
    bits = f"i{BITS[a.type]}"  # the two differ in the sign of zero alone, or one is NaN
    join = "or" if op == "min" else "and"
    result = e.bitcast(e.binary(join, e.bitcast(first, bits), e.bitcast(second, bits)), a.type)
    nan = number(a.type, float("nan"))
    if nan_wins:
        return e.select(e.compare("fcmp uno", a, b), nan, result)
    result = e.select(e.compare("fcmp uno", b, b), a, result)
    return e.select(e.compare("fcmp uno", a, a), b, result)


def _against_constant(e: Emitter, op: str, a: Value, b: Value, fixed: float) -> Value:
    """One compare: NaN yields the constant; equal zeros pick the right sign."""
    positive = str(fixed)[0] != "-"
    ties = (op == "min") == positive  # a may be the winning zero
    wins = {"min": "ol", "max": "og"}[op] + ("e" if ties and fixed == 0 else "t")
    return e.select(e.compare(f"fcmp {wins}", a, b), a, b)


def copy_sign(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``copysign d, a, b``: the magnitude of b with the sign of a."""
    a, b = cast_all(e, src, types_of(i)[-1].llvm)
    return [e.call("llvm.copysign", (b, a))]


def test_property(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``testp``: finite, infinite, number, notanumber, normal, subnormal (zero is neither)."""
    t = types_of(i)[-1]
    a = cast(e, src[0], t.llvm)
    size = e.call("llvm.fabs", (a,))
    infinite, smallest = number(t.llvm, float("inf")), number(t.llvm, _SMALLEST[t.name])
    if i.has("number") or i.has("notanumber"):
        return [e.compare("fcmp ord" if i.has("number") else "fcmp uno", a, a)]
    if i.has("finite") or i.has("infinite"):
        return [e.compare("fcmp olt" if i.has("finite") else "fcmp oeq", size, infinite)]
    if i.has("normal"):
        above = e.compare("fcmp oge", size, smallest)
        return [e.binary("and", above, e.compare("fcmp olt", size, infinite))]
    if i.has("subnormal"):
        above = e.compare("fcmp ogt", size, number(t.llvm, 0.0))
        return [e.binary("and", above, e.compare("fcmp olt", size, smallest))]
    raise unsupported(i)


_SMALLEST = {"f32": 2.0**-126, "f64": 2.0**-1022}
_HALF = "f16 f16x2 bf16 bf16x2"

ROWS = (
    ("add", f"f32 f64 {_HALF}", "rn rz rm rp ftz sat", arithmetic),
    ("sub", f"f32 f64 {_HALF}", "rn rz rm rp ftz sat", arithmetic),
    ("mul", f"f32 f64 {_HALF}", "rn rz rm rp ftz sat", arithmetic),
    ("fma", f"f32 f64 {_HALF}", "rn rz rm rp ftz sat relu", arithmetic),
    ("mad", "f32 f64", "rn rz rm rp ftz sat", arithmetic),
    ("div", "f32 f64", "rn rz rm rp approx full ftz", divide),
    ("rcp", "f32 f64", "rn rz rm rp approx ftz", reciprocal),
    ("sqrt", "f32 f64", "rn rz rm rp approx ftz", square_root),
    ("rsqrt", "f32 f64", "approx ftz", reciprocal_root),
    ("ex2", f"f32 {_HALF}", "approx ftz", function),
    ("tanh", f"f32 {_HALF}", "approx", function),
    ("lg2", "f32", "approx ftz", function),
    ("sin", "f32", "approx ftz 2pi", function),
    ("cos", "f32", "approx ftz 2pi", function),
    ("abs", f"f32 f64 {_HALF}", "ftz", absolute),
    ("neg", f"f32 f64 {_HALF}", "ftz", absolute),
    ("min", f"f32 f64 {_HALF}", "ftz NaN xorsign abs", min_max),
    ("max", f"f32 f64 {_HALF}", "ftz NaN xorsign abs", min_max),
    ("copysign", "f32 f64", "", copy_sign),
    ("testp", "f32 f64", "finite infinite number notanumber normal subnormal", test_property),
)
