"""f32, f64, f16 and bf16 arithmetic against exact rational arithmetic, in all rounding modes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from exact_floats import (
    FORMATS,
    assert_same,
    edges,
    evaluate,
    exact_div,
    exact_fma,
    exact_sqrt,
    samples,
)
from rules_machine import Case, run, some

REGISTER = {"f16": np.uint16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64}
# Both the portable form of directed rounding and, where the host has it, the processor's.
FEATURES = pytest.mark.parametrize("features", ["", None], ids=["portable", "host"])


def rule_of(op: str, mode: str) -> Callable[..., tuple]:
    return {
        "add": lambda a, b: exact_fma(a, 1.0, b, mode),
        "sub": lambda a, b: exact_fma(a, 1.0, -b, mode),
        "mul": lambda a, b: (lambda x: (x[0], _minus(a, b)))(exact_fma(a, b, 0.0, mode)),
        "fma": lambda a, b, c: exact_fma(a, b, c, mode),
        "div": exact_div,
        "rcp": lambda a: exact_div(1.0, a),
        "sqrt": exact_sqrt,
    }[op]


def _minus(a: float, b: float) -> bool:
    return (math.copysign(1, a) < 0) != (math.copysign(1, b) < 0)


ARITY = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "rcp": 1, "sqrt": 1}


def check(names: str, ops: str, modes: str, lanes: int, features: str | None) -> None:
    cases, given = [], []
    for name in names.split():
        for op in ops.split():
            words = [some(w, lanes, 2) for w in samples(name, ARITY[op], 110, 7)]
            for mode in modes.split():
                sources = [w.view(REGISTER[name]) for w in words]
                cases.append(Case(f"{op}.{mode}.{name}", sources))
                given.append((name, op, mode, words))
    run(cases, lanes=lanes, features=features)
    for case, (name, op, mode, words) in zip(cases, given, strict=True):
        want = evaluate(name, words, rule_of(op, mode), mode)
        assert_same(name, case.form, case.results[0], want, words)


@FEATURES
@pytest.mark.parametrize("lanes", [32, 0])
def test_f32_in_all_modes(lanes: int, features: str | None) -> None:
    check("f32", "add sub mul fma div rcp sqrt", "rn rz rm rp", lanes, features)


@FEATURES
def test_f64_in_all_modes(features: str | None) -> None:
    check("f64", "add mul fma div rcp sqrt", "rn rz rm rp", 32, features)


@FEATURES
@pytest.mark.parametrize("lanes", [32, 0])
def test_halves_round_once(lanes: int, features: str | None) -> None:
    check("f16 bf16", "add sub mul fma", "rn", lanes, features)


@FEATURES
def test_half_fma_at_halfway_cases(features: str | None) -> None:
    """Products next to the middle of two halves, decided by a tiny third operand."""
    for name, scale in (("f16", 2.0**-11), ("bf16", 2.0**-8)):
        f = FORMATS[name]
        big, tiny = f.round(1.0 + 2 * scale, "rn"), [1, 1 | 1 << 15, 0, 1 << 15]
        rows = [(big, f.round(m * scale, "rn"), t) for m in (0.5, 1.0, 1.5) for t in tiny]
        rows += [(f.round(scale, "rn"), f.round(1.0, "rn"), f.round(s, "rn")) for s in (1.0, -1.0)]
        rows += [(f.round(2.0**60 if name == "bf16" else 128.0, "rn"), big, t) for t in tiny]
        words = [np.array(x, np.uint16) for x in zip(*rows, strict=True)]
        case = Case(f"fma.rn.{name}", words)
        run([case], features=features)
        want = evaluate(name, words, rule_of("fma", "rn"), "rn")
        assert_same(name, case.form, case.results[0], want, words)


@pytest.mark.parametrize("lanes", [32, 0])
def test_packed_halves_are_two_scalars(lanes: int) -> None:
    forms = [f"{op}.{name}" for name in ("f16", "bf16") for op in
             ("add.rn", "mul.rn", "fma.rn", "fma.rn.relu", "fma.rn.sat", "min", "max.NaN", "abs",
              "neg",
              "ex2.approx" if name == "f16" else "ex2.approx.ftz", "tanh.approx")]  # fmt: skip
    singles, pairs = [], []
    for form in forms:
        name = form.rsplit(".", 1)[1]
        arity = {"fma": 3, "abs": 1, "neg": 1, "ex2": 1, "tanh": 1}.get(form.split(".")[0], 2)
        low, high = samples(name, arity, 50, 3), samples(name, arity, 50, 4)
        singles += [Case(form, low), Case(form, high)]
        joined = [
            a.astype(np.uint32) | b.astype(np.uint32) << 16 for a, b in zip(low, high, strict=True)
        ]
        pairs.append(Case(form + "x2", joined))
    run([*singles, *pairs], lanes=lanes)
    for k, pair in enumerate(pairs):
        low, high = singles[2 * k].results[0], singles[2 * k + 1].results[0]
        assert (pair.results[0] == (low | high.astype(np.uint32) << 16)).all(), pair.form


@pytest.mark.parametrize("lanes", [32, 0])
def test_saturation_and_flushing(lanes: int) -> None:
    a, b = samples("f32", 2, 200, 11)
    x, y = a.view(np.float32), b.view(np.float32)
    cases = {f: Case(f, [x, y]) for f in (
        "add.sat.f32", "mul.ftz.f32", "mul.ftz.sat.f32", "add.ftz.f32",
        "div.rn.ftz.f32")}  # fmt: skip
    run(list(cases.values()), lanes=lanes)

    def flush(v: float) -> float:
        return math.copysign(0.0, v) if abs(v) < 2.0**-126 else v

    f = FORMATS["f32"]
    for form, case in cases.items():
        op = form.split(".")[0]
        want = []
        for p, q in zip(x.tolist(), y.tolist(), strict=True):
            if "ftz" in form:
                p, q = flush(p), flush(q)
            value = f.decode(f.round(*_arguments(rule_of(op, "rn")(p, q))))
            if "sat" in form:
                value = 0.0 if math.isnan(value) or value <= 0 else min(value, 1.0)
            want.append(f.round(flush(value) if "ftz" in form else value, "rn"))
        assert_same("f32", form, case.results[0], want, [a, b])


def _arguments(exact: tuple) -> tuple:
    return exact[0], "rn", exact[1]


def pick(op: str, a: float, b: float, nan: bool) -> float:
    """Manual: a NaN loses (or wins with .NaN); -0 is below +0."""
    if math.isnan(a) or math.isnan(b):
        return math.nan if nan or (math.isnan(a) and math.isnan(b)) else (b if math.isnan(a) else a)
    return (min if op == "min" else max)(a, b, key=lambda v: (v, math.copysign(1, v)))


@pytest.mark.parametrize("lanes", [32, 0])
def test_minimum_and_maximum(lanes: int) -> None:
    cases, given = [], []
    for name in ("f32", "f64", "f16", "bf16"):
        every = np.array(edges(name), f"u{FORMATS[name].bits // 8}")
        a, b = (some(w, lanes) for w in (np.repeat(every, len(every)), np.tile(every, len(every))))
        for op in ("min", "max"):
            for extra in ("", ".NaN", *([".xorsign.abs"] if name == "f32" else [])):
                cases.append(Case(f"{op}{extra}.{name}", [w.view(REGISTER[name]) for w in (a, b)]))
                given.append((name, op, extra, a, b))
    run(cases, lanes=lanes)
    for case, (name, op, extra, a, b) in zip(cases, given, strict=True):
        f, want = FORMATS[name], []
        for p, q in zip(a.tolist(), b.tolist(), strict=True):
            x, y = f.decode(p), f.decode(q)
            if "abs" in extra:
                sign = -1.0 if (p ^ q) >> (f.bits - 1) else 1.0
                want.append(f.round(math.copysign(pick(op, abs(x), abs(y), False), sign), "rn"))
            else:
                want.append(f.round(pick(op, x, y, extra == ".NaN"), "rn"))
        assert_same(name, case.form, case.results[0], want, [a, b])


def test_minimum_with_an_immediate() -> None:
    every = np.array(edges("f32"), np.uint32)
    cases = [Case(f"{op}.f32", [every.view(np.float32), c]) for op in ("min", "max")
             for c in (0.0, -0.0, 1.0, -1.0)]  # fmt: skip
    cases += [Case(c.form, c.sources[::-1]) for c in cases]
    run(cases)
    f = FORMATS["f32"]
    for case in cases:
        constant = next(s for s in case.sources if isinstance(s, float))
        want = [
            f.round(pick(case.form[:3], f.decode(w), constant, False), "rn") for w in every.tolist()
        ]
        assert_same("f32", f"{case.form} {constant}", case.results[0], want, [every])


@pytest.mark.parametrize("lanes", [32, 0])
def test_signs_and_properties(lanes: int) -> None:
    for name in ("f32", "f64"):
        f = FORMATS[name]
        every = np.array(edges(name), f"u{f.bits // 8}")
        x, y = every.view(REGISTER[name]), np.roll(every, 1).view(REGISTER[name])
        normal = 2.0**f.emin
        tests = {
            "finite": math.isfinite, "infinite": math.isinf, "number": lambda v: v == v,
            "notanumber": math.isnan,
            "normal": lambda v, least=normal: math.isfinite(v) and abs(v) >= least,
            "subnormal": lambda v, least=normal: 0 < abs(v) < least,
        }  # fmt: skip
        probes = {t: Case(f"testp.{t}.{name}", [x]) for t in tests}
        copy, size, minus = (Case(f"{op}.{name}", s) for op, s in
                             (("copysign", [x, y]), ("abs", [x]), ("neg", [x])))  # fmt: skip
        run([*probes.values(), copy, size, minus], lanes=lanes)
        for t, case in probes.items():
            want = [tests[t](f.decode(w)) for w in every.tolist()]
            assert case.results[0].tolist() == want, t
        assert_same(name, "copysign", copy.results[0],
                    words_of(np.copysign(y, x)), [x, y])  # fmt: skip
        assert_same(name, "abs", size.results[0], words_of(np.abs(x)), [x])
        assert_same(name, "neg", minus.results[0], words_of(-x), [x])


def words_of(array: np.ndarray) -> list[int]:
    return array.view(f"u{array.dtype.itemsize}").tolist()


def test_upper_word_reciprocal() -> None:
    """rcp.approx.ftz.f64 looks at, and gives, the upper 32 bits alone."""
    (a,) = samples("f64", 1, 300, 2)
    case = Case("rcp.approx.ftz.f64", [a.view(np.float64)])
    run([case])
    got = case.results[0]
    assert not (got.view(np.uint64) & np.uint64(0xFFFFFFFF)).any()
    given = (a & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    with np.errstate(all="ignore"):
        exact = 1 / given
        usual = np.isfinite(exact) & (np.abs(exact) > 1e-300) & (np.abs(given) > 1e-300)
        assert (np.abs(got[usual] / exact[usual] - 1) < 2.0**-19).all()
