"""Exact rounding without touching the processor's rounding mode.

The directed modes start from the result rounded to nearest and the sign of its error, then move one
step. Errors come from TwoSum and from products that are exact in double (Muller et al., "Handbook
of Floating-Point Arithmetic", chapters 4 and 5). With AVX-512 the rounding sits in the instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.emit import BITS, Emitter, Value
from ge2rt.ptx.rules.operands import integer, number

MODES = ("rn", "rz", "rm", "rp")

_SMALL, _LIFT = 2.0**-400, 2.0**537  # below the one, errors may underflow; the other helps
_FAR = integer("i64", -200)
_X86_MODE = {"rm": 9, "rp": 10, "rz": 11}  # with exceptions suppressed
_X86_NAME = {"fma": "vfmadd", "add": "add", "mul": "mul", "div": "div", "sqrt": "sqrt"}


def nudge(e: Emitter, nearest: Value, error: Value, mode: str) -> Value:
    """From the value rounded to nearest to the one rounded by ``mode``.

    ``error`` is any number with the sign of (exact - nearest), 0 where exact, NaN for "leave it".
    """
    bits = f"i{BITS[nearest.type]}"
    word = e.bitcast(nearest, bits)
    zero = number(error.type, 0.0)
    sign = e.binary("ashr", word, integer(bits, BITS[bits] - 1))
    if mode == "rz":
        negative = e.compare("icmp slt", word, integer(bits, 0))
        toward = e.select(negative, e.unary("fneg", error), error)
        moved, needed = (
            e.binary("add", word, integer(bits, -1)),
            e.compare("fcmp olt", toward, zero),
        )
    else:  # one step down is -1 on positive and +1 on negative numbers
        down = e.binary("xor", e.binary("shl", sign, integer(bits, 1)), integer(bits, -1))
        moved = e.binary("add" if mode == "rm" else "sub", word, down)
        needed = e.compare("fcmp olt" if mode == "rm" else "fcmp ogt", error, zero)
    return e.bitcast(e.select(needed, moved, word), nearest.type)


def _below(e: Emitter, value: Value, limit: float) -> Value:
    return e.compare("fcmp olt", e.call("llvm.fabs", (value,)), number(value.type, limit))


def _factor(e: Emitter, condition: Value, factor: float) -> Value:
    return e.select(condition, number("double", factor), number("double", 1.0))


def two_sum(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    """The rounded sum and its exact error."""
    total = e.binary("fadd", a, b)
    part = e.binary("fsub", total, a)
    left = e.binary("fsub", a, e.binary("fsub", total, part))
    return total, e.binary("fadd", left, e.binary("fsub", b, part))


def narrow(e: Emitter, wide: Value, type: str, mode: str, rest: Value | None = None) -> Value:
    """Round ``wide`` (+ ``rest``, smaller than half a unit of it) to a narrower type."""
    nearest = e.convert("fptrunc", wide, type)
    if mode == "rn":
        return nearest
    error = e.binary("fsub", wide, e.convert("fpext", nearest, wide.type))
    if rest is not None:
        exact = e.compare("fcmp oeq", error, number(wide.type, 0.0))
        error = e.select(exact, rest, error)
    return nudge(e, nearest, error, mode)


def to_odd(e: Emitter, total: Value, rest: Value) -> Value:
    """``total + rest`` rounded to odd: a later rounding to fewer bits then is the only one."""
    bits = f"i{BITS[total.type]}"
    zero = number(total.type, 0.0)
    word = e.bitcast(nudge(e, total, rest, "rz"), bits)
    inexact = e.compare("fcmp one", rest, zero)
    return e.bitcast(e.binary("or", word, e.convert("zext", inexact, bits)), total.type)


def narrow_to_odd(e: Emitter, wide: Value) -> Value:
    """A double as a float rounded to odd."""
    nearest = e.convert("fptrunc", wide, "float")
    return to_odd_by(e, nearest, e.binary("fsub", wide, e.convert("fpext", nearest, "double")))


def to_odd_by(e: Emitter, nearest: Value, error: Value) -> Value:
    """As :func:`to_odd`, with an error of another float type."""
    bits = f"i{BITS[nearest.type]}"
    word = e.bitcast(nudge(e, nearest, error, "rz"), bits)
    inexact = e.compare("fcmp one", error, number(error.type, 0.0))
    return e.bitcast(e.binary("or", word, e.convert("zext", inexact, bits)), nearest.type)


def rounded(e: Emitter, op: str, args: Sequence[Value], mode: str) -> Value:
    """``fma``, ``add``, ``mul``, ``div`` or ``sqrt`` of floats or doubles in any rounding mode."""
    if mode == "rn":
        return _nearest(e, op, args)
    values = e.alike(args)
    if _can_embed(e, values[0]):
        return _embedded(e, op, values, mode)
    return _directed[op](e, values, mode)


def fma_to_odd(e: Emitter, a: Value, b: Value, c: Value, *, wide: bool) -> Value:
    """The fma of floats rounded to odd; ``wide`` where their product may leave float's range."""
    a, b, c = e.alike((a, b, c))
    if _can_embed(e, a):  # of two neighbours one is odd; equal ones are exact
        low, high = (_embedded(e, "fma", (a, b, c), mode) for mode in ("rm", "rp"))
        odd = e.convert("trunc", e.bitcast(low, "i32"), "i1")
        return e.select(odd, low, high)
    if not wide:
        return to_odd(e, *two_sum(e, e.binary("fmul", a, b), c))
    a, b, c = _wide(e, (a, b, c))
    return narrow_to_odd(e, to_odd(e, *two_sum(e, e.binary("fmul", a, b), c)))


def _can_embed(e: Emitter, value: Value) -> bool:
    step = 512 // BITS[value.type]
    return "+avx512f" in e.features and value.lanes > 0 and value.lanes % step == 0


def _nearest(e: Emitter, op: str, values: Sequence[Value]) -> Value:
    if op in ("fma", "sqrt"):
        return e.call(f"llvm.{op}", values)
    return e.binary(f"f{op}", values[0], values[1])


def _embedded(e: Emitter, op: str, values: Sequence[Value], mode: str) -> Value:
    first, step = values[0], 512 // BITS[values[0].type]
    pieces = []
    for start in range(0, first.lanes, step):
        picks = range(start, start + step)
        parts = [v if v.lanes == step else e.shuffle(v, None, picks) for v in values]
        pieces.append(_embedded_call(e, op, parts, mode))
    while len(pieces) > 1:
        pieces = [
            e.shuffle(a, b, range(2 * a.lanes))
            for a, b in zip(pieces[::2], pieces[1::2], strict=True)
        ]
    return pieces[0]


def _embedded_call(e: Emitter, op: str, parts: Sequence[Value], mode: str) -> Value:
    first = parts[0]
    name = f"llvm.x86.avx512.{_X86_NAME[op]}.p{'s' if first.type == 'float' else 'd'}.512"
    kinds = ", ".join([p.full_type for p in parts] + ["i32"])
    e.declarations[name] = f"declare {first.full_type} @{name}({kinds})"
    given = ", ".join([str(p) for p in parts] + [f"i32 {_X86_MODE[mode]}"])
    return e.raw(f"call {first.full_type} @{name}({given})", first.type, first.lanes)


def _sum(e: Emitter, a: Value, b: Value, mode: str) -> tuple[Value, Value]:
    """TwoSum in which an exact zero has the sign that rounding down wants (-0)."""
    total, rest = two_sum(e, a, b)
    if mode == "rm":
        total = e.unary("fneg", e.binary("fsub", e.unary("fneg", a), b))
    return total, rest


def _wide(e: Emitter, values: Sequence[Value]) -> list[Value]:
    return [e.convert("fpext", v, "double") for v in values]


def _directed_add(e: Emitter, values: Sequence[Value], mode: str) -> Value:
    a, b = _wide(e, values)
    total, rest = _sum(e, a, b, mode)
    if values[0].type == "double":
        return _overflowing(e, total, rest, values, mode)
    return narrow(e, total, "float", mode, rest)


def _directed_mul(e: Emitter, values: Sequence[Value], mode: str) -> Value:
    a, b = _wide(e, values)
    product = e.binary("fmul", a, b)
    if values[0].type == "float":
        return narrow(e, product, "float", mode)
    small = _below(e, product, _SMALL)
    lifts = [_factor(e, e.binary("and", small, _below(e, v, 1.0)), _LIFT) for v in (a, b)]
    a, b = (e.binary("fmul", v, lift) for v, lift in zip((a, b), lifts, strict=True))
    lifted = e.binary("fmul", e.binary("fmul", product, lifts[0]), lifts[1])
    rest = e.call("llvm.fma", (a, b, e.unary("fneg", lifted)))
    return _overflowing(e, product, rest, values, mode)


def _directed_fma(e: Emitter, values: Sequence[Value], mode: str) -> Value:
    a, b, c = _wide(e, values)
    if values[0].type == "float":
        total, rest = _sum(e, e.binary("fmul", a, b), c, mode)
        return narrow(e, total, "float", mode, rest)
    nearest = e.call("llvm.fma", (a, b, c))
    if mode == "rm":
        nearest = e.unary("fneg", e.call("llvm.fma", (e.unary("fneg", a), b, e.unary("fneg", c))))
    (error,) = e.outline("fma.error", (a, b, c, nearest), _scaled_fma_error)
    return _overflowing(e, nearest, error, values, mode)


def _scaled_fma_error(e: Emitter, args: Sequence[Value]) -> Sequence[Value]:
    """The sign of ``a * b + c - nearest``, found where nothing leaves the range of doubles.

    Product and addend are scaled by one power of two, so that the larger lies in [1, 4). One that
    is smaller by more than 2^200 stands for any so small: only its sign counts.
    """
    a, b, c, nearest = args
    (a, a_power), (b, b_power), (c, c_power) = (_parted(e, v) for v in (a, b, c))
    product = e.binary("add", a_power, b_power)
    top = e.call("llvm.smax", (product, c_power))
    a, c = (
        e.binary("fmul", v, _power(e, e.call("llvm.smax", (e.binary("sub", power, top), _FAR))))
        for v, power in ((a, product), (c, c_power))
    )
    back = e.binary("sub", integer("i64", 0), top)
    quarter = e.binary("ashr", back, integer("i64", 2))
    rest = e.binary("sub", back, e.binary("mul", quarter, integer("i64", 3)))
    scaled = nearest
    for power in (quarter, quarter, quarter, rest):
        scaled = e.binary("fmul", scaled, _power(e, power))
    finite = _below(e, nearest, float("inf"))
    error = _fma_error(e, a, b, c, scaled)
    return [e.select(finite, error, number("double", 0.0))]


def _parted(e: Emitter, value: Value) -> tuple[Value, Value]:
    """A double as a number in [1, 2) with its sign, and a power of two; zero has a tiny power."""
    tiny = _below(e, value, 2.0**-1022)
    word = e.bitcast(e.binary("fmul", value, _factor(e, tiny, 2.0**54)), "i64")
    field = e.binary("and", e.binary("lshr", word, integer("i64", 52)), integer("i64", 0x7FF))
    bias = e.select(tiny, integer("i64", 1023 + 54), integer("i64", 1023))
    mantissa = e.binary("and", word, integer("i64", 0x800FFFFFFFFFFFFF))
    one = e.binary("or", mantissa, integer("i64", 0x3FF << 52))
    zero = e.compare("fcmp oeq", value, number("double", 0.0))
    power = e.select(zero, integer("i64", -2100), e.binary("sub", field, bias))
    return e.select(zero, value, e.bitcast(one, "double")), power


def _power(e: Emitter, exponent: Value) -> Value:
    """Two to an integer; beyond a double's range anything."""
    field = e.binary("add", exponent, integer("i64", 1023))
    return e.bitcast(e.binary("shl", field, integer("i64", 52)), "double")


def _fma_error(e: Emitter, a: Value, b: Value, c: Value, nearest: Value) -> Value:
    """Boldo and Muller's ErrFmaNearest, summed up: it has the exact error's sign."""
    high = e.binary("fmul", a, b)
    low = e.call("llvm.fma", (a, b, e.unary("fneg", high)))
    alpha, small = two_sum(e, c, low)
    beta, beta_low = two_sum(e, high, alpha)
    gamma = e.binary("fadd", e.binary("fsub", beta, nearest), beta_low)
    return e.binary("fadd", gamma, small)


def _overflowing(
    e: Emitter, nearest: Value, error: Value, values: Sequence[Value], mode: str
) -> Value:
    """Nudge a double; an infinity from finite operands counts as too far out."""
    infinite = number("double", float("inf"))
    blown = e.compare("fcmp oeq", e.call("llvm.fabs", (nearest,)), infinite)
    for v in values:
        blown = e.binary("and", blown, e.compare("fcmp olt", e.call("llvm.fabs", (v,)), infinite))
    return nudge(e, nearest, e.select(blown, e.unary("fneg", nearest), error), mode)


def _directed_div(e: Emitter, values: Sequence[Value], mode: str) -> Value:
    quotient = e.binary("fdiv", values[0], values[1])
    a, b, q = _wide(e, (*values, quotient))
    if values[0].type == "double":
        lift = _factor(e, _below(e, a, _SMALL), _LIFT)
        less = _below(e, q, 1.0)
        one = number("double", 1.0)
        a, b = e.binary("fmul", a, lift), e.binary("fmul", b, e.select(less, one, lift))
        q = e.binary("fmul", q, e.select(less, lift, one))
    residual = e.call("llvm.fma", (e.unary("fneg", q), b, a))
    sign = e.call("llvm.copysign", e.alike((number("double", 1.0), b)))
    return nudge(e, quotient, e.binary("fmul", residual, sign), mode)


def _directed_sqrt(e: Emitter, values: Sequence[Value], mode: str) -> Value:
    root = e.call("llvm.sqrt", values)
    a, r = _wide(e, (values[0], root))
    if root.type == "double":
        small = _below(e, a, _SMALL)
        a = e.binary("fmul", a, _factor(e, small, 2.0**1000))
        r = e.binary("fmul", r, _factor(e, small, 2.0**500))
    return nudge(e, root, e.call("llvm.fma", (e.unary("fneg", r), r, a)), mode)


_directed = {
    "add": _directed_add,
    "mul": _directed_mul,
    "fma": _directed_fma,
    "div": _directed_div,
    "sqrt": _directed_sqrt,
}
