"""The approximate functions of f32: ``ex2 lg2 sin cos tanh``, in few vector instructions.

Coefficients are minimax fits of our own (Lawson's reweighted least squares in double); the stated
bounds are those of the fit, to which rounding in float adds about one unit in the last place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.rules.operands import integer, number

# (2^f - 1) / f on [0, 1]; relative error of 2^f below 2.1e-9.
_EX2 = (0.693147044442841, 0.2402293055574797, 0.055485280598813067, 0.009675451600978805,
        0.0012467846173456194, 0.0002161291578188884)  # fmt: skip
# log2(1 + r) / r on [-1/3, 1/3]; relative error below 2.6e-8.
_LG2 = (1.4426950460323396, -0.721346541173745, 0.48089597191265493, -0.36078956915354266,
        0.2887113271346385, -0.2367865224484627, 0.20179917118864477, -0.22222117790729512,
        0.20278673193030144)  # fmt: skip
# (sin(r) / r - 1) / r^2 in r^2 on [0, pi/2]; relative error of sin below 6.2e-9.
_SIN = (-0.16666659491813227, 0.00833306461159386, -0.00019809474931560938, 2.605481527451759e-06)
# tanh(x) / x = P(x^2) / Q(x^2) on [0, 9.1]; relative error below 6.6e-8.
_TANH_P = (0.999999934870936, 0.1291294276640774, 0.0029140140191026994, 9.206143110435945e-06,
           -1.2598593246960844e-08, 1.7796890954538924e-11)  # fmt: skip
_TANH_Q = (1.0, 0.46246221716401986, 0.023735516268097813, 0.000227169237598089)
# pi in three parts; the first two have few bits, so that k * part is exact for small k.
_PI = (3.140625, 0.0009676535898, -2.0679515313825692e-13)


def _f(value: float) -> Value:
    return number("float", value)


def _clamp(e: Emitter, x: Value, low: float, high: float) -> Value:
    """NaN stays; each half is one instruction."""
    x = e.select(e.compare("fcmp ogt", _f(low), x), _f(low), x)
    return e.select(e.compare("fcmp olt", _f(high), x), _f(high), x)


def _polynomial(e: Emitter, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule by fma, lowest coefficient first."""
    result = _f(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = e.call("llvm.fma", e.alike((result, x, _f(c))))
    return result


def _to_int(e: Emitter, x: Value) -> Value:
    """An integral float as i32; anything for NaN and large numbers, where the caller overrides."""
    raw = e.convert("fptosi", x, "i32")
    return e.raw(f"freeze {raw}", "i32", raw.lanes)


def ex2(e: Emitter, x: Value, flushing: bool) -> Value:
    """2^x = 2^floor(x) * p(x - floor(x)), p in [1, 2).

    The scale's exponent field becomes 0 (the number 0) at -127 and 255 (infinity) at 128, so the
    clamped ends are right by themselves. Without ``.ftz``, small x are moved up by 64 first.
    """
    small = None
    if not flushing:
        small = e.compare("fcmp olt", x, _f(-126.0))
        x = e.binary("fadd", x, e.select(small, _f(64.0), _f(0.0)))
    x = _clamp(e, x, -127.0, 128.0)
    floor = e.call("llvm.floor", (x,))
    part = e.binary("fsub", x, floor)
    power = e.call("llvm.fma", e.alike((_polynomial(e, part, _EX2), part, _f(1.0))))
    field = e.binary("add", _to_int(e, floor), integer("i32", 127))
    scale = e.bitcast(e.binary("shl", field, integer("i32", 23)), "float")
    result = e.binary("fmul", power, scale)
    if small is None:
        return result
    return e.binary("fmul", result, e.select(small, _f(2.0**-64), _f(1.0)))


def lg2(e: Emitter, x: Value, flushing: bool) -> Value:
    """log2 of the exponent's and the mantissa's share, the mantissa in [2/3, 4/3)."""
    shift = _f(0.0)
    scaled = x
    if not flushing:
        small = e.compare("fcmp olt", x, _f(2.0**-126))
        scaled = e.select(small, e.binary("fmul", x, _f(2.0**24)), x)
        shift = e.select(small, _f(-24.0), _f(0.0))
    word = e.bitcast(scaled, "i32")
    offset = e.binary("sub", word, integer("i32", 0x3F2AAAAB))
    exponent = e.binary("ashr", offset, integer("i32", 23))
    rest = e.binary("sub", word, e.binary("shl", exponent, integer("i32", 23)))
    r = e.binary("fadd", e.bitcast(rest, "float"), _f(-1.0))
    whole = e.binary("fadd", e.convert("sitofp", exponent, "float"), shift)
    result = e.call("llvm.fma", e.alike((_polynomial(e, r, _LG2), r, whole)))
    infinity = float("inf")
    result = e.select(e.compare("fcmp olt", x, _f(infinity)), result, x)  # infinity and NaN
    result = e.select(e.compare("fcmp olt", x, _f(0.0)), _f(float("nan")), result)
    return e.select(e.compare("fcmp oeq", x, _f(0.0)), _f(-infinity), result)


def _half_turns(e: Emitter, x: Value, shift: float) -> Value:
    """sin(x + shift * pi): k half turns off, then a polynomial, then the sign of k."""
    turns = e.call("llvm.fma", e.alike((x, _f(0.3183098861837907), _f(shift))))
    k = e.call("llvm.roundeven", (turns,))
    offset = e.binary("fsub", k, _f(shift)) if shift else k
    back = e.unary("fneg", offset)
    r = x
    for part in _PI:
        r = e.call("llvm.fma", e.alike((back, _f(part), r)))
    r = _clamp(e, r, -1.5708, 1.5708)  # beyond 2^24 turns nothing is left to be right
    square = e.binary("fmul", r, r)
    cubic = e.binary("fmul", square, r)
    result = e.call("llvm.fma", e.alike((_polynomial(e, square, _SIN), cubic, r)))
    odd = e.binary("shl", _to_int(e, k), integer("i32", 31))
    return e.bitcast(e.binary("xor", e.bitcast(result, "i32"), odd), "float")


def sin(e: Emitter, x: Value, flushing: bool) -> Value:
    """Absolute error about 1e-7 up to some thousand turns; zero keeps its sign."""
    return e.select(e.compare("fcmp oeq", x, _f(0.0)), x, _half_turns(e, x, 0.0))


def cos(e: Emitter, x: Value, flushing: bool) -> Value:
    """As :func:`sin`, a quarter turn on."""
    return _half_turns(e, x, 0.5)


def turned(e: Emitter, x: Value) -> Value:
    """``2 pi x`` without its whole turns (``.2pi``); zero keeps its sign, infinity gives NaN."""
    rest = e.binary("fsub", x, e.call("llvm.roundeven", (x,)))
    rest = e.select(e.compare("fcmp oeq", x, _f(0.0)), x, rest)
    return e.binary("fmul", rest, _f(6.283185307179586))


def tanh(e: Emitter, x: Value, flushing: bool) -> Value:
    """A rational function, clamped to [-1, 1]; relative error about 2e-7."""
    x = _clamp(e, x, -9.1, 9.1)
    square = e.binary("fmul", x, x)
    top = e.binary("fmul", x, _polynomial(e, square, _TANH_P))
    return _clamp(e, e.binary("fdiv", top, _polynomial(e, square, _TANH_Q)), -1.0, 1.0)


FUNCTIONS: dict[str, Callable[[Emitter, Value, bool], Value]] = {
    "ex2": ex2, "lg2": lg2, "sin": sin, "cos": cos, "tanh": tanh,
}  # fmt: skip
