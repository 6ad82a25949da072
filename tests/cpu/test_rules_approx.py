"""Approximate functions within the error that the PTX manual states, and their special values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from exact_floats import FORMATS, assert_same, edges
from rules_machine import Case, run

LANES = pytest.mark.parametrize("lanes", [32, 0])
INF, NAN, TINY = math.inf, math.nan, 2.0**-140


def grid(low: float, high: float, count: int = 4000) -> np.ndarray:
    return np.random.default_rng(1).uniform(low, high, count).astype(np.float32)


def magnitudes(count: int = 4000) -> np.ndarray:
    """Positive floats of all exponents, subnormals included."""
    return np.random.default_rng(2).integers(1, 0x7F800000, count, dtype=np.uint32).view(np.float32)


Bound = tuple[str, np.ndarray, Callable[[np.ndarray], np.ndarray], float, float]

# form, arguments, function in double, greatest relative error, greatest absolute error
BOUNDS: list[Bound] = [
    ("ex2.approx.f32", grid(-126, 128), np.exp2, 2.0**-22.5, 0),
    ("ex2.approx.ftz.f32", grid(-126, 128), np.exp2, 2.0**-22.5, 0),
    ("ex2.approx.f32", grid(-1, 1), np.exp2, 2.0**-22.5, 0),
    ("ex2.approx.f32", grid(-150, -126), np.exp2, 0, 2.0**-149),
    ("lg2.approx.f32", grid(0.5, 2), np.log2, 0, 2.0**-22.6),
    ("lg2.approx.ftz.f32", grid(0.999, 1.001), np.log2, 2.0**-22, 0),
    ("lg2.approx.f32", magnitudes(), np.log2, 2.0**-22, 0),
    ("sin.approx.f32", grid(-2 * math.pi, 2 * math.pi), np.sin, 0, 2.0**-20.5),
    ("cos.approx.f32", grid(-2 * math.pi, 2 * math.pi), np.cos, 0, 2.0**-20.5),
    ("sin.approx.f32", grid(-100 * math.pi, 100 * math.pi), np.sin, 0, 2.0**-14.7),
    ("cos.approx.ftz.f32", grid(-100 * math.pi, 100 * math.pi), np.cos, 0, 2.0**-14.7),
    ("sin.approx.f32", grid(-0.01, 0.01), np.sin, 2.0**-21, 0),
    ("tanh.approx.f32", grid(-12, 12), np.tanh, 2.0**-21, 0),  # the manual asks for 2^-11
    ("tanh.approx.f32", grid(-0.01, 0.01), np.tanh, 2.0**-21, 0),
    ("rsqrt.approx.f32", magnitudes(), lambda x: 1 / np.sqrt(x), 2.0**-22.9, 0),
    ("sqrt.approx.f32", magnitudes(), np.sqrt, 2.0**-23, 0),
    ("rcp.approx.f32", grid(1e-3, 1e3), lambda x: 1 / x, 2.0**-23, 0),
]


@LANES
def test_errors_stay_within_the_manuals_bounds(lanes: int) -> None:
    cases = [Case(form, [x]) for form, x, *_ in BOUNDS]
    run(cases, lanes=lanes)
    for case, (form, x, function, relative, absolute) in zip(cases, BOUNDS, strict=True):
        exact = function(x.astype(np.float64))
        error = np.abs(case.results[0].astype(np.float64) - exact)
        allowed = np.abs(exact) * relative + absolute
        worst = int(np.argmax(error - allowed))
        assert (error <= allowed).all(), (form, x[worst], case.results[0][worst], exact[worst])


# form, (argument, result)...
SPECIAL: dict[str, list[tuple[float, float]]] = {
    "ex2.approx.f32": [
        (0.0, 1.0),
        (-0.0, 1.0),
        (1.0, 2.0),
        (-3.0, 0.125),
        (127.0, 2.0**127),
        (128.0, INF),
        (1e30, INF),
        (INF, INF),
        (-INF, 0.0),
        (-1e30, 0.0),
        (-149.0, 2.0**-149),
        (-127.0, 2.0**-127),
        (NAN, NAN),
        (-160.0, 0.0),
    ],
    "ex2.approx.ftz.f32": [
        (0.0, 1.0),
        (TINY, 1.0),
        (-126.0, 2.0**-126),
        (-126.5, 0.0),
        (-127.0, 0.0),
        (-INF, 0.0),
        (128.0, INF),
        (INF, INF),
        (NAN, NAN),
        (-1e30, 0.0),
    ],
    "lg2.approx.f32": [
        (1.0, 0.0),
        (2.0, 1.0),
        (0.5, -1.0),
        (2.0**-149, -149.0),
        (0.0, -INF),
        (-0.0, -INF),
        (-1.0, NAN),
        (INF, INF),
        (-INF, NAN),
        (NAN, NAN),
        (2.0**-126, -126.0),
        (-TINY, NAN),
    ],
    "lg2.approx.ftz.f32": [
        (1.0, 0.0),
        (8.0, 3.0),
        (TINY, -INF),
        (-TINY, -INF),
        (INF, INF),
        (-1.0, NAN),
        (NAN, NAN),
    ],
    "rcp.approx.f32": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (NAN, NAN), (4.0, 0.25)],
    "rcp.approx.ftz.f32": [(TINY, INF), (-TINY, -INF), (INF, 0.0), (2.0**127, 0.0), (NAN, NAN)],
    "rsqrt.approx.f32": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN), (NAN, NAN), (4.0, 0.5)],
    "rsqrt.approx.ftz.f32": [(TINY, INF), (-TINY, -INF), (16.0, 0.25)],
    "sqrt.approx.ftz.f32": [(TINY, 0.0), (-0.0, -0.0), (-1.0, NAN), (INF, INF), (9.0, 3.0)],
    "sin.approx.f32": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "sin.approx.ftz.f32": [(TINY, 0.0), (-TINY, -0.0)],
    "cos.approx.f32": [(0.0, 1.0), (INF, NAN), (NAN, NAN)],
    "tanh.approx.f32": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (INF, 1.0),
        (-INF, -1.0),
        (20.0, 1.0),
        (NAN, NAN),
    ],
}


@LANES
def test_special_values(lanes: int) -> None:
    cases = [
        Case(form, [np.array([x for x, _ in rows], np.float32)]) for form, rows in SPECIAL.items()
    ]
    run(cases, lanes=lanes)
    f = FORMATS["f32"]
    for case, (form, rows) in zip(cases, SPECIAL.items(), strict=True):
        got = case.results[0]
        if form.startswith(("cos", "ex2")):  # within the bound, not to the bit
            np.testing.assert_allclose(got, [y for _, y in rows], rtol=2e-7, atol=0, err_msg=form)
            continue
        assert_same("f32", form, got, [f.round(v, "rn") for _, v in rows], [case.sources[0]])


@LANES
def test_sine_stays_in_range_far_out(lanes: int) -> None:
    x = np.concatenate([magnitudes(), -magnitudes()])
    cases = [Case(f"{op}.approx.f32", [x]) for op in ("sin", "cos", "tanh")]
    run(cases, lanes=lanes)
    for case in cases:
        assert (np.abs(case.results[0]) <= 1).all(), case.form


@LANES
def test_halves_within_their_own_bounds(lanes: int) -> None:
    """ex2 to 2^-9.9 and tanh to 2^-10.987 (f16); 2^-7 and 2^-8 (bf16)."""
    rules = {"ex2": np.exp2, "tanh": np.tanh}
    bounds = {("ex2", "f16"): 2**-9.9, ("ex2", "bf16"): 2.0**-7,
              ("tanh", "f16"): 2**-10.987, ("tanh", "bf16"): 2.0**-8}  # fmt: skip
    cases = {}
    for name in ("f16", "bf16"):
        f = FORMATS[name]
        words = np.array([f.round(float(v), "rn") for v in grid(-8, 8, 500)], np.uint16)
        cases["ex2", name] = Case(
            "ex2.approx.f16" if name == "f16" else "ex2.approx.ftz.bf16", [words]
        )
        cases["tanh", name] = Case(f"tanh.approx.{name}", [words])
    run(list(cases.values()), lanes=lanes)
    for (op, name), case in cases.items():
        f = FORMATS[name]
        x, got = (
            np.array([f.decode(int(w)) for w in v]) for v in (case.sources[0], case.results[0])
        )
        exact = rules[op](x)
        assert (np.abs(got - exact) <= bounds[op, name] * np.maximum(np.abs(exact), 2.0**-14)).all()


def test_half_functions_keep_special_values() -> None:
    words = np.array(edges("f16"), np.uint16)
    case = Case("ex2.approx.f16", [words])
    run([case])
    f = FORMATS["f16"]
    for word, got in zip(words.tolist(), case.results[0].tolist(), strict=True):
        x = f.decode(word)
        if math.isnan(x):
            assert got == 0x7FFF
        elif abs(x) >= 32:
            assert got == (f.infinity if x > 0 else 0)
