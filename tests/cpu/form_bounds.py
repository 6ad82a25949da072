"""The errors that the PTX manual allows the approximate forms, and their special values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cpu.form_kernels import Fragment
from cpu.form_values import Words, bits_of
from exact_floats import FORMATS
from numpy.typing import NDArray

Real = NDArray[np.longdouble]
_TURN = 2 * np.longdouble("3.14159265358979323846264338327950288")


def _divide(f: Fragment, a: Real, b: Real) -> Real:
    """``div.approx`` of a divisor beyond 2^126 is ``a`` times zero."""
    beyond = ("approx" in f.mods) & (np.abs(b) > 2.0**126)
    return np.where(beyond, a * np.copysign(np.longdouble(0), b), a / b)


def _turns(f: Fragment, x: Real, function: Callable[[Real], Real]) -> Real:
    return function(x * _TURN if "2pi" in f.mods else x)


_EXACT: dict[str, Callable[..., Real]] = {
    "ex2": lambda f, x: np.exp2(x),
    "lg2": lambda f, x: np.log2(x),
    "sin": lambda f, x: np.where(x == 0, x, _turns(f, x - _whole(f, x), np.sin)),
    "cos": lambda f, x: _turns(f, x - _whole(f, x), np.cos),
    "tanh": lambda f, x: np.tanh(x),
    "rcp": lambda f, x: 1 / x,
    "rsqrt": lambda f, x: 1 / np.sqrt(x),
    "sqrt": lambda f, x: np.sqrt(x),
    "div": _divide,
}


def _whole(f: Fragment, x: Real) -> Real:
    """Whole turns, exact; infinity stays NaN."""
    return np.rint(x) if "2pi" in f.mods else 0 * x


def _logarithm(x: Real, y: Real) -> Real:
    """2^-22.6 absolute between 0.5 and 2, 2^-22 relative beyond."""
    near = (x > 0.5) & (x < 2)
    return np.where(near, 2.0**-22.6, np.abs(y) * 2.0**-22).astype(np.longdouble)


def _circle(x: Real, y: Real) -> Real:
    """2^-20.5 within one turn, 2^-14.7 within fifty; beyond, the result only stays in [-1, 1]."""
    size = np.abs(x)
    far = np.where(size <= 50 * _TURN, 2.0**-14.7, 2.0)
    return np.where(size <= _TURN, 2.0**-20.5, far).astype(np.longdouble)


def _relative(exponent: float) -> Callable[[Real, Real], Real]:
    return lambda x, y: np.abs(y) * np.longdouble(2) ** exponent


def _absolute(exponent: float) -> Callable[[Real, Real], Real]:
    return lambda x, y: np.full(y.shape, np.longdouble(2) ** exponent)


# What the manual allows. The forms of f64 that it calls gross look at the upper 32 bits: 20 bits
# of a mantissa. For rsqrt.approx.f64 it states nothing; two units in the last place are asked for.
_ALLOWED: dict[tuple[str, str], Callable[[Real, Real], Real]] = {
    ("ex2", "f32"): _relative(-22), ("lg2", "f32"): _logarithm,
    ("sin", "f32"): _circle, ("cos", "f32"): _circle,
    ("tanh", "f32"): _relative(-11), ("tanh", "f16"): _absolute(-10.987),
    ("tanh", "bf16"): _relative(-8), ("rcp", "f32"): _relative(-23), ("rcp", "f64"): _relative(-19),
    ("rsqrt", "f32"): _relative(-22.9), ("rsqrt", "f64"): _relative(-51),
    ("rsqrt.ftz", "f64"): _relative(-19), ("sqrt", "f32"): _relative(-23),
    ("div", "f32"): _relative(-22),
}  # fmt: skip


def decoded(words: Words, kind: str) -> NDArray[np.float64]:
    """The numbers that words stand for."""
    plain: dict[str, Callable[[Words], NDArray[Any]]] = {
        "f64": lambda w: w.view(np.float64),
        "f32": lambda w: w.astype(np.uint32).view(np.float32),
        "f16": lambda w: w.astype(np.uint16).view(np.float16),
        "bf16": lambda w: (w.astype(np.uint32) << np.uint32(16)).view(np.float32),
    }
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        return plain[kind](np.ascontiguousarray(words)).astype(np.float64)


def outside(f: Fragment, got: Words, columns: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which results miss the bound, or a special value."""
    kind = f.types[-1].removesuffix("x2")
    width = np.uint64(bits_of(kind))
    bad = np.zeros(got.shape, bool)
    for part in range(2 if f.types[-1].endswith("x2") else 1):
        low = np.uint64((1 << int(width)) - 1)
        at = np.uint64(part) * width
        numbers = [decoded(c >> at & low, kind) for c in (got, *columns)]
        bad |= _misses(f, kind, numbers[0], numbers[1:])
    return bad


def _misses(
    f: Fragment, kind: str, got: NDArray[np.float64], given: list[NDArray[np.float64]]
) -> NDArray[np.bool_]:
    form = FORMATS[kind]
    tiny = 2.0**form.emin
    flushing = "ftz" in f.mods and kind in ("f32", "f64")
    if flushing:
        given = [np.where(np.abs(x) < tiny, np.copysign(0, x), x) for x in given]
    with np.errstate(all="ignore"):
        wide = [x.astype(np.longdouble) for x in given]
        exact = _EXACT[f.mods[0]](f, *wide)
        name = "rsqrt.ftz" if (f.mods[0], kind, flushing) == ("rsqrt", "f64", True) else f.mods[0]
        allowed = _ALLOWED[name, kind](wide[0], exact)
        least = np.longdouble(tiny) * 2.0 ** (1 - form.p)  # the smallest subnormal
        error = np.abs(got - exact)
        near = error <= allowed + np.where(np.abs(exact) < 2 * tiny, least, 0)
        most = np.longdouble(2 - 2.0 ** (1 - form.p)) * np.longdouble(2) ** form.emax
        over = np.isinf(got) & (np.sign(got) == np.sign(exact)) & (np.abs(exact) + allowed >= most)
        flushed = flushing & (got == 0) & (np.abs(exact) - allowed < tiny)
        zero = (exact == 0) & (got == 0) & (np.signbit(got) == np.signbit(exact))
    special = np.where(np.isnan(exact), np.isnan(got), np.where(exact == 0, zero, got == exact))
    plain = near | over | flushed
    if f.mods[0] in ("sin", "cos"):
        plain &= np.abs(got) <= 1
    return ~np.where(np.isfinite(exact) & (exact != 0), plain, special)
