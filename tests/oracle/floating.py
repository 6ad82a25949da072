"""Floating-point instructions, comparisons and conversions (sections 9.7.3 to 9.7.7, 9.7.9.21)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle import floats
from oracle.integers import INTEGER, reject, types
from oracle.machine import DTYPES, PACKED, Machine
from oracle.syntax import Instr, Pair

Array = NDArray[Any]
FLOATS = ("f16", "bf16", "tf32", "f32", "f64")
ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")


def element(kind: str) -> str:
    """The type of one element of a packed type."""
    return PACKED.get(kind, kind)


def is_float(kind: str) -> bool:
    """Whether a type name is floating."""
    return element(kind) in FLOATS


def _rounding(ins: Instr) -> str:
    return next((part for part in ins.op if part in ROUNDINGS), "rn")


def _inputs(m: Machine, ins: Instr, lanes: Array, count: int) -> list[Array]:
    kind = types(ins)[-1]
    args = [m.get(o, kind, lanes) for o in ins.operands[1 : 1 + count]]
    if "ftz" in ins.op and element(kind) == "f32":
        args = [floats.flush(a) for a in args]
    return args


def _unit(wide: Array) -> Array:
    """Clamp to [+0, 1]; NaN and -0 become +0."""
    return np.where(wide > 0, np.minimum(wide, 1.0), 0.0)


def _finish(m: Machine, ins: Instr, lanes: Array, out: Array) -> None:
    kind = types(ins)[-1]
    if "ftz" in ins.op and element(kind) == "f32":
        out = floats.flush(out)
    if "sat" in ins.op:
        wide = out.astype(np.float64)
        out = _unit(wide)
    if "relu" in ins.op:
        wide = out.astype(np.float64)
        out = np.where(wide > 0, wide, np.where(np.isnan(wide), wide, 0.0))
    m.put(ins.operands[0], kind, lanes, out.astype(DTYPES[element(kind)]))


def _arithmetic(m: Machine, ins: Instr, lanes: Array) -> None:
    op = {"mad": "fma"}.get(ins.op[0], ins.op[0])
    kind = element(types(ins)[-1])
    args = tuple(_inputs(m, ins, lanes, 3 if op == "fma" else 2))
    _finish(m, ins, lanes, floats.arithmetic(op, args, kind, _rounding(ins)))


def _near(f: Callable[[Array], Array]) -> Callable[[Array, str, str], Array]:
    return lambda a, kind, mode: floats.narrow(f(a.astype(np.float64)), kind, "rn")


def _reciprocal(a: Array, kind: str, mode: str) -> Array:
    return floats.arithmetic("div", (np.ones_like(a), a), kind, mode)


_UNARY: dict[str, Callable[[Array, str, str], Array]] = {
    "neg": lambda a, kind, mode: -a,
    "abs": lambda a, kind, mode: np.abs(a),
    "sqrt": floats.square_root,
    "rcp": _reciprocal,
    "rsqrt": _near(lambda a: 1.0 / np.sqrt(a)),
    "ex2": _near(np.exp2),
    "lg2": _near(np.log2),
    "sin": _near(np.sin),
    "cos": _near(np.cos),
    "tanh": _near(np.tanh),
}


def _unary(m: Machine, ins: Instr, lanes: Array) -> None:
    (a,) = _inputs(m, ins, lanes, 1)
    if "2pi" in ins.op:  # in turns; the whole ones change nothing
        a = 2 * np.pi * (a - np.rint(a)).astype(np.float64)
    _finish(m, ins, lanes, _UNARY[ins.op[0]](a, element(types(ins)[-1]), _rounding(ins)))


def least(a: Array, b: Array, nan: bool, sign: int) -> Array:
    """min (sign 1) or max (-1): a number beats a NaN unless ``nan``; -0 is less than +0."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    first = (x < y) if sign > 0 else (x > y)
    tie = (x == y) & (np.signbit(x) == (sign > 0))
    out = np.where(first | tie, x, y)
    out = np.where(np.isnan(y), x, out)
    out = np.where(np.isnan(x), y, out)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, out) if nan else out


def _extreme(m: Machine, ins: Instr, lanes: Array) -> None:
    count = len(ins.operands) - 1
    args = _inputs(m, ins, lanes, count)
    sign = 1 if ins.op[0] == "min" else -1
    out = args[0]
    if "xorsign" in ins.op:
        negative = np.signbit(args[0]) ^ np.signbit(args[1])
        out = least(np.abs(args[0]), np.abs(args[1]), "NaN" in ins.op, sign)
        out = np.copysign(out, np.where(negative, -1.0, 1.0))
    else:
        for other in args[1:]:
            out = least(out, other, "NaN" in ins.op, sign)
    _finish(m, ins, lanes, out)


def _copysign(m: Machine, ins: Instr, lanes: Array) -> None:
    sign, value = _inputs(m, ins, lanes, 2)
    _finish(m, ins, lanes, np.copysign(value, sign))


_TESTS: dict[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
}


def _test(m: Machine, ins: Instr, lanes: Array) -> None:
    a = m.get(ins.operands[1], types(ins)[-1], lanes)
    m.put(ins.operands[0], "pred", lanes, _TESTS[ins.op[1]](a))


_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b, "ls": lambda a, b: a <= b, "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b, "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}  # fmt: skip
_LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def compare(name: str, a: Array, b: Array) -> Array:
    """One comparison; float operands are ordered unless the name ends in ``u``."""
    if a.dtype.kind not in "iub":
        a, b = a.astype(np.float64), b.astype(np.float64)
        nan = np.isnan(a) | np.isnan(b)
        if name in ("equ", "neu", "ltu", "leu", "gtu", "geu"):
            return _COMPARE[name[:2]](a, b) | nan
        return _COMPARE[name](a, b) & ~nan if name != "nan" else nan
    return _COMPARE[name](a, b)


def _comparison(m: Machine, ins: Instr, lanes: Array) -> tuple[Array, Array]:
    kind = types(ins)[-1]
    a, b = (m.get(o, kind, lanes) for o in ins.operands[1:3])
    if "ftz" in ins.op and kind == "f32":
        a, b = floats.flush(a), floats.flush(b)
    out = compare(ins.op[1], a, b)
    inverse = ~out
    if len(ins.operands) > 3:
        extra = m.get(ins.operands[3], "pred", lanes)
        logic = _LOGIC[ins.op[2]]
        if out.ndim == 2:
            extra = extra[:, None]
        out, inverse = logic(out, extra), logic(inverse, extra)
    return out, inverse


def _setp(m: Machine, ins: Instr, lanes: Array) -> None:
    out, inverse = _comparison(m, ins, lanes)
    target = ins.operands[0]
    if not isinstance(target, Pair):
        m.put(target, "pred", lanes, out if out.ndim == 1 else out[:, 0])
        return
    first, second = (out, inverse) if out.ndim == 1 else (out[:, 0], out[:, 1])
    m.put(target.first, "pred", lanes, first)
    m.put(target.second, "pred", lanes, second)


def _set(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-2]
    out, _ = _comparison(m, ins, lanes)
    if out.ndim == 2 and kind not in PACKED:
        kind = {"u32": "u16x2", "s32": "s16x2"}.get(kind, kind)
    dtype = DTYPES[element(kind)]
    ones = out.astype(dtype) if is_float(kind) else -out.astype(np.int64)
    m.put(ins.operands[0], kind, lanes, ones.astype(dtype))


# -- conversions ----------------------------------------------------------------------------

_WHOLE: dict[str, Callable[[Array], Array]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
_SMALL = {"e4m3x2": "e4m3", "e5m2x2": "e5m2"}


def to_integer(a: Array, kind: str, mode: str) -> Array:
    """Float to integer: out of range saturates.

    NaN gives 0, or the highest bit alone for a double or a 64-bit result (9.7.9.21, "cvt").
    """
    whole = _WHOLE[mode](a.astype(np.float64))
    info = np.iinfo(DTYPES[kind])
    inside = (whole >= float(info.min)) & (whole < float(info.max) + (info.bits < 54))
    out = np.where(inside, whole, 0.0).astype(DTYPES[kind])
    most, smallest = (out.dtype.type(v) for v in (info.max, info.min))
    out = np.where(~inside & (whole > 0), most, out)
    out = np.where(~inside & (whole < 0), smallest, out)
    if a.dtype.itemsize == 8 or info.bits == 64:
        nan = np.array(1 << (info.bits - 1), f"u{info.bits // 8}").astype(out.dtype)
    else:
        nan = np.array(0, out.dtype)
    return np.where(np.isnan(whole), nan, out)


def from_integer(a: Array, kind: str, mode: str) -> Array:
    """Integer to float, rounded once."""
    if a.dtype.itemsize < 8:
        return floats.narrow(a.astype(np.float64), kind, mode)
    if mode == "rn" and kind in ("f32", "f64"):
        return a.astype(DTYPES[kind])
    rounded = [floats.round_fraction(Fraction(int(v)), kind, mode) for v in a]
    return np.array(rounded, np.float64).astype(DTYPES[kind])


def integer_to_integer(a: Array, kind: str, saturate: bool) -> Array:
    """Truncate or saturate."""
    if not saturate:
        return a.astype(DTYPES[kind])
    info = np.iinfo(DTYPES[kind])
    low, high = (np.iinfo(a.dtype).min, np.iinfo(a.dtype).max)
    return np.clip(a, max(info.min, low), min(info.max, high)).astype(DTYPES[kind])


def _cvt(m: Machine, ins: Instr, lanes: Array) -> None:
    parts = [p for p in ins.op[1:] if p in DTYPES or p in PACKED or p in _SMALL]
    if len(parts) != 2:
        raise reject(ins)
    to, source = parts
    if to in PACKED or to in _SMALL or source in _SMALL:
        _cvt_packed(m, ins, lanes, to, source)
        return
    a = m.get(ins.operands[1], source, lanes)
    if "ftz" in ins.op and source == "f32":
        a = floats.flush(a)
    if is_float(to):
        out = _to_float(ins, a, to, source)
        if "ftz" in ins.op and to == "f32":
            out = floats.flush(out)
    elif is_float(source):
        mode = next((p for p in ins.op if p in _WHOLE), "rzi")
        out = to_integer(a, to, mode)
    else:
        out = integer_to_integer(a, to, "sat" in ins.op)
    m.put(ins.operands[0], to, lanes, out)


def _to_float(ins: Instr, a: Array, to: str, source: str) -> Array:
    if not is_float(source):
        return from_integer(a, to, _rounding(ins))
    wide = a.astype(np.float64)
    whole = next((p for p in ins.op if p in _WHOLE), None)
    if whole:
        wide = np.copysign(_WHOLE[whole](wide), wide)
    out = floats.narrow(wide, to, _rounding(ins), saturate="satfinite" in ins.op)
    return _clamped(ins, out)


def _clamped(ins: Instr, out: Array) -> Array:
    if "sat" in ins.op:
        wide = out.astype(np.float64)
        return _unit(wide).astype(out.dtype)
    if "relu" in ins.op:
        wide = out.astype(np.float64)
        return np.where(wide < 0, 0.0, wide).astype(out.dtype)
    return out


def _cvt_packed(m: Machine, ins: Instr, lanes: Array, to: str, source: str) -> None:
    if source in _SMALL:
        raw = m.get(ins.operands[1], "b16", lanes)
        values = raw.view(floats.STORED[_SMALL[source]]).reshape(-1, 2)
    elif source in PACKED:
        values = m.get(ins.operands[1], source, lanes)
    else:
        high, low = (m.get(o, source, lanes) for o in ins.operands[1:3])
        values = np.stack([low, high], axis=1)
    small = to in _SMALL
    kind = _SMALL[to] if small else element(to)
    out = floats.narrow(
        values.astype(np.float64), kind, _rounding(ins), saturate="satfinite" in ins.op
    )
    out = _clamped(ins, out)
    if small:
        m.put(ins.operands[0], "b16", lanes, np.ascontiguousarray(out).reshape(-1).view(np.uint16))
    else:
        m.put(ins.operands[0], to, lanes, out)


Handler = Callable[[Machine, Instr, Array], None]

_FLOAT: dict[str, Handler] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "fma", "mad"), _arithmetic),
    **dict.fromkeys(_UNARY, _unary),
    "min": _extreme,
    "max": _extreme,
    "copysign": _copysign,
}


def _by_type(name: str) -> Handler:
    whole, real = INTEGER.get(name), _FLOAT.get(name)

    def choose(m: Machine, ins: Instr, lanes: Array) -> None:
        kinds = types(ins)
        handler = real if kinds and is_float(kinds[-1]) else whole
        if handler is None:
            raise reject(ins)
        handler(m, ins, lanes)

    return choose


ARITHMETIC: dict[str, Handler] = {
    **INTEGER,
    **{name: _by_type(name) for name in _FLOAT},
    "testp": _test,
    "setp": _setp,
    "set": _set,
    "cvt": _cvt,
}
