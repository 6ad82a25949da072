"""Exact rounding: one rounder for every narrow format, fused multiply-add, directed modes.

Method: carry the value in float64 rounded to odd (Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums", 2008), then round once to the format asked for. float64 results in
directed modes go through exact rational numbers, one element at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# name: (precision in bits, least exponent, largest finite value)
FORMATS: dict[str, tuple[int, int, float]] = {
    "f64": (53, -1022, float(np.finfo(np.float64).max)),
    "f32": (24, -126, float(np.finfo(np.float32).max)),
    "tf32": (11, -126, float((2 - 2.0**-10) * 2.0**127)),
    "f16": (11, -14, 65504.0),
    "bf16": (8, -126, float((2 - 2.0**-7) * 2.0**127)),
    "e4m3": (4, -6, 448.0),
    "e5m2": (3, -14, 57344.0),
}
STORED: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "tf32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}

_STEP: dict[str, Callable[[Array], Array]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}


def narrow(x: Array, to: str, mode: str = "rn", *, saturate: bool = False) -> Array:
    """Round float64 (exact or rounded to odd) once to the format ``to``."""
    if to == "f64":
        return x
    precision, least, largest = FORMATS[to]
    _, exponent = np.frexp(x)
    scale = np.maximum(exponent - 1, least) - (precision - 1)
    unit = np.where(np.isfinite(x), np.ldexp(1.0, scale), 1.0)
    rounded = np.where(np.isfinite(x), _STEP[mode](x / unit) * unit, x)
    rounded = np.where(rounded == 0, np.copysign(0.0, x), rounded)
    over = (np.abs(rounded) > largest) & np.isfinite(x)
    clamps = {"rn": False, "rna": False, "rz": True}.get(mode)
    clamp = (rounded < 0) == (mode == "rp") if clamps is None else np.full(x.shape, clamps)
    rounded = np.where(over, np.copysign(np.where(clamp, largest, np.inf), x), rounded)
    if saturate:
        rounded = np.where(np.isnan(x), x, np.clip(rounded, -largest, largest))
    return rounded.astype(np.float32).astype(STORED[to]) if to != "f32" else rounded.astype("f4")


def odd_sum(a: Array, b: Array) -> Array:
    """``a + b`` in float64, rounded to odd."""
    total, error = two_sum(a, b)
    even = (np.atleast_1d(total).view(np.uint64).reshape(total.shape) & 1) == 0
    move = np.isfinite(total) & np.isfinite(error) & (error != 0) & even
    return np.where(move, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Rounded sum and its exact error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Rounded product and its exact error (Dekker, Veltkamp splitting)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _split(a: Array) -> tuple[Array, Array]:
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def fma(a: Array, b: Array, c: Array, to: str, mode: str = "rn") -> Array:
    """``a * b + c`` rounded once to ``to``; the inputs hold values of that format."""
    a, b, c = (np.asarray(v).astype(np.float64) for v in (a, b, c))
    if to != "f64":
        return narrow(signed_zero(odd_sum(a * b, c), a * b, c, mode), to, mode)
    if mode != "rn":
        plain = signed_zero(a * b + c, np.copysign(1.0, a) * b, c, mode)
        return exact64(lambda x, y, z: x * y + z, (a, b, c), mode, plain)
    high, low = two_product(a, b)
    inner, inner_low = two_sum(c, low)
    outer, outer_low = two_sum(high, inner)
    result = outer + odd_sum(inner_low, outer_low)
    zero = (a == 0) | (b == 0) | (c == 0)
    result = np.where(zero, a * b + c, result)
    hard = ~_middling(a, b, c)
    if hard.any():
        parts = tuple(v[hard] for v in (a, b, c))
        plain = parts[0] * parts[1] + parts[2]
        result[hard] = exact64(lambda x, y, z: x * y + z, parts, "rn", plain)
    return result


def signed_zero(total: Array, x: Array, y: Array, mode: str) -> Array:
    """``total`` of x + y: an exact zero is -0 when rounding down, unless both addends are +0."""
    if mode != "rm":
        return total
    positive = ~(np.signbit(x) | np.signbit(y))
    return np.where((total == 0) & ~positive, -0.0, total)


def _middling(*values: Array) -> Array:
    fine = np.ones(values[0].shape, bool)
    for v in values:
        size = np.abs(v)
        fine &= (size == 0) | ((size > 1e-120) & (size < 1e120))
    return fine


def exact64(f: Callable[..., Fraction], args: tuple[Array, ...], mode: str, plain: Array) -> Array:
    """Round the rational function ``f`` to float64; zeros and non-finite cases take ``plain``."""
    out = np.array(plain, np.float64).reshape(-1)
    columns = [np.asarray(a, np.float64).reshape(-1) for a in args]
    for i, row in enumerate(zip(*columns, strict=True)):
        if all(math.isfinite(v) for v in row):
            try:
                value = f(*(Fraction(float(v)) for v in row))
            except ZeroDivisionError:
                continue
            if value != 0:
                out[i] = round_fraction(value, "f64", mode)
    return out.reshape(np.shape(plain))


def round_fraction(value: Fraction, to: str, mode: str = "rn") -> float:
    """Round an exact rational number to a format; the result is a Python float."""
    precision, least, largest = FORMATS[to]
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    steps = value / unit
    whole = {
        "rn": round(steps),
        "rz": math.trunc(steps),
        "rm": math.floor(steps),
        "rp": math.ceil(steps),
    }[mode]
    result = whole * unit
    if abs(result) > Fraction(largest):
        clamp = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
        return (largest if clamp else math.inf) * (1 if value > 0 else -1)
    return float(result) if result else (-0.0 if value < 0 else 0.0)


def square_root(a: Array, to: str, mode: str) -> Array:
    """Correctly rounded square root in any mode."""
    root = np.sqrt(a.astype(np.float64))
    if mode == "rn":
        return np.sqrt(a) if to in ("f32", "f64") else narrow(root, to)
    flat, source = root.reshape(-1), a.astype(np.float64).reshape(-1)
    out = [_root(float(s), float(r), to, mode) for s, r in zip(source, flat, strict=True)]
    return np.array(out).reshape(a.shape).astype(STORED[to])


def _root(value: float, plain: float, to: str, mode: str) -> float:
    if not math.isfinite(value) or value <= 0:
        return plain
    exact = Fraction(value)
    shift = 300 + 2 * max(0, exact.denominator.bit_length())
    whole = math.isqrt(exact.numerator * (1 << (2 * shift)) // exact.denominator)
    near = Fraction(whole, 1 << shift)
    if near * near != exact:
        near += Fraction(1, 1 << (shift + 1))
    return round_fraction(near, to, mode)


def arithmetic(op: str, args: tuple[Array, ...], to: str, mode: str) -> Array:
    """add, sub, mul, div or fma of values of format ``to``, rounded once in ``mode``."""
    if op == "fma":
        return fma(args[0], args[1], args[2], to, mode)
    native = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
    if mode == "rn" and to in ("f32", "f64"):
        plain: Array = native(*args)
        return plain
    a, b = (v.astype(np.float64) for v in args)
    if to == "f64" or op == "div":
        exact = {
            "add": lambda x, y: x + y,
            "sub": lambda x, y: x - y,
            "mul": lambda x, y: x * y,
            "div": lambda x, y: x / y,
        }[op]
        plain = native(a, b)
        if op in ("add", "sub"):
            plain = signed_zero(plain, a, b if op == "add" else -b, mode)
        return _directed(exact, (a, b), to, mode, plain)
    if op == "mul":
        return narrow(a * b, to, mode)
    b = b if op == "add" else -b
    return narrow(signed_zero(odd_sum(a, b), a, b, mode), to, mode)


def _directed(
    f: Callable[..., Fraction], args: tuple[Array, ...], to: str, mode: str, plain: Array
) -> Array:
    if to == "f64":
        return exact64(f, args, mode, plain)
    flat = np.array(plain, np.float64).reshape(-1)
    for i, (x, y) in enumerate(zip(*(a.reshape(-1) for a in args), strict=True)):
        if math.isfinite(x) and math.isfinite(y) and y != 0 and x != 0:
            flat[i] = round_fraction(f(Fraction(float(x)), Fraction(float(y))), to, mode)
    return flat.reshape(plain.shape).astype(STORED[to])


def flush(x: Array) -> Array:
    """Subnormal float32 values become zeros of the same sign."""
    tiny = np.abs(x) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), x), x).astype(np.float32)
