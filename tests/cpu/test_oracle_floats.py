from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oracle import floats

MODES = ("rn", "rz", "rm", "rp")
rng = np.random.default_rng


def values(seed: int, n: int = 300) -> np.ndarray[Any, Any]:
    r = rng(seed)
    return r.standard_normal(n) * 2.0 ** r.integers(-30, 30, n)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", ["f32", "f16", "bf16", "tf32", "e5m2"])
def test_narrow_is_the_rounded_fraction(to: str, mode: str) -> None:
    x = np.r_[values(1), 2.0**-24, 2.0**-25, 3 * 2.0**-26, 65519.999, 65520.0, 1e-45, 7e-46, 1e39]
    x = np.r_[x, -x]
    want = [floats.round_fraction(Fraction(float(v)), to, mode) for v in x]
    np.testing.assert_array_equal(floats.narrow(x, to, mode).astype(np.float64), want)


@pytest.mark.parametrize(
    ("to", "dtype"), [("f32", np.float32), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16)]
)
def test_round_to_nearest_agrees_with_the_dtype(to: str, dtype: Any) -> None:
    x = values(2).astype(np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(floats.narrow(x.astype(np.float64), to), x.astype(dtype))


def test_narrow_keeps_specials_and_signs() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, -1e-60])
    out = floats.narrow(x, "f16")
    assert np.isnan(out[0])
    assert out[1:].tolist() == [np.inf, -np.inf, 0.0, 0.0]
    assert np.signbit(out[3:]).all()


def test_saturation_to_e4m3() -> None:
    out = floats.narrow(np.array([1e4, -500.0, 17.0, 0.01]), "e4m3", saturate=True)
    assert out.astype(np.float32).tolist() == [448.0, -448.0, 16.0, 0.009765625]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64"])
def test_fma_rounds_once(to: str, mode: str) -> None:
    a, b, c = (floats.narrow(rng(s).standard_normal(200), to) for s in (3, 4, 5))
    c[:80] = floats.narrow(-(a[:80].astype("f8") * b[:80].astype("f8")), to)
    c[80:100] = c[80:100] * floats.STORED[to](2.0**-9)
    want = [
        floats.round_fraction(
            Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), to, mode
        )
        for x, y, z in zip(a, b, c, strict=True)
    ]
    np.testing.assert_array_equal(floats.fma(a, b, c, to, mode).astype(np.float64), want)


def test_fma_next_to_a_tie_looks_at_the_far_bits() -> None:
    a, b = (np.full(3, v, np.float32) for v in (97.0, 172961.0))  # the product is 2**24 + 1
    c = np.array([2.0**-40, 0.0, -(2.0**-40)], np.float32)
    assert floats.fma(a, b, c, "f32").tolist() == [2.0**24 + 2, 2.0**24, 2.0**24]


def test_fma_double_at_the_edges() -> None:
    a = np.array([1e200, 2.0**-600, np.inf, 0.0, 1e-200, np.nan, 2.0**-537])
    b = np.array([1e200, 2.0**-460, 0.0, 5.0, 1e-200, 1.0, 2.0**-537])
    c = np.array([-1e300, 2.0**-1060, 1.0, 7.0, 1e-310, 1.0, 2.0**-1074])
    with np.errstate(all="ignore"):
        out = floats.fma(a, b, c, "f64")
    assert out[0] == np.inf
    assert out[1] == 2.0**-1060 + 2.0**-1060
    assert np.isnan(out[[2, 5]]).all()
    assert out[3] == 7.0
    assert out[4] == 1e-310
    assert out[6] == 2.0**-1073


OPS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", sorted(OPS))
@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64"])
def test_arithmetic_in_every_mode(to: str, op: str, mode: str) -> None:
    a, b = (floats.narrow(rng(s).standard_normal(100), to) for s in (6, 7))
    want = [
        floats.round_fraction(OPS[op](Fraction(float(x)), Fraction(float(y))), to, mode)
        for x, y in zip(a, b, strict=True)
    ]
    out = floats.arithmetic(op, (a, b), to, mode)
    np.testing.assert_array_equal(out.astype(np.float64), want)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", ["f32", "f64"])
def test_square_root_brackets_its_argument(to: str, mode: str) -> None:
    a = np.abs(floats.narrow(rng(8).standard_normal(100), to))
    a[:3] = [4.0, 0.0, 2.25]
    for x, root in zip(a, floats.square_root(a, to, mode), strict=True):
        below, above = (np.nextafter(root, root.dtype.type(s)) for s in (-np.inf, np.inf))
        low, at, high = (Fraction(float(v)) ** 2 for v in (below, root, above))
        exact = Fraction(float(x))
        if exact == at:
            continue
        if mode in ("rm", "rz"):
            assert at < exact < high
        elif mode == "rp":
            assert low < exact < at
        else:
            middle = Fraction(float(root)) + Fraction(float(above))
            under = Fraction(float(root)) + Fraction(float(below))
            assert (under / 2) ** 2 <= exact <= (middle / 2) ** 2


def test_flush_keeps_the_sign() -> None:
    out = floats.flush(np.array([1e-40, -1e-40, 2.0**-126, np.nan], np.float32))
    assert out[:3].tolist() == [0.0, 0.0, 2.0**-126]
    assert math.copysign(1, out[1]) == -1
