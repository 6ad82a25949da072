"""``cvt`` and ``mov`` against their definitions in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from exact_floats import FORMATS, assert_same, edges, samples
from rules_machine import Case, operands, run, signed, some, wrap

from ge2rt.ptx.ast import Imm, Reg, Vector

REGISTER = {"f16": np.uint16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64}
LANES = pytest.mark.parametrize("lanes", [32, 0])


def limits(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def clamp(x: int, kind: str) -> int:
    low, high = limits(kind)
    return max(low, min(high, x))


def read(word: int, kind: str) -> int:
    return (signed if kind[0] == "s" else wrap)(word, int(kind[1:]))


INTS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


@LANES
def test_integers_to_integers(lanes: int) -> None:
    cases = []
    for source in INTS:
        words = some(operands((max(int(source[1:]), 16),), 1)[0], lanes, 2)
        cases += [
            Case(f"cvt{sat}.{target}.{source}", [words]) for target in INTS for sat in ("", ".sat")
        ]
    cases = cases if lanes else cases[::5]
    run(cases, lanes=lanes)
    for case in cases:
        target, source = case.form.split(".")[-2:]
        for word, got in zip(case.sources[0].tolist(), case.results[0].tolist(), strict=True):
            x = read(word, source)
            x = clamp(x, target) if "sat" in case.form else read(x, target)
            assert got == wrap(x, 64 if target[1:] == "8" else int(target[1:])), (
                case.form,
                hex(word),
            )


def to_integer(x: float, how: str, target: str, source: str) -> int:
    bits = int(target[1:])
    if math.isnan(x):
        return 1 << (bits - 1) if source == "f64" or bits == 64 else 0
    if math.isinf(x):
        return limits(target)[x > 0]
    q = Fraction(x)
    whole = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[how](q)
    return clamp(whole, target)


@LANES
def test_floats_to_integers(lanes: int) -> None:
    """Saturating; NaN as the manual says: 0, or the top bit for f64 or 64 bits."""
    cases, rng = [], np.random.default_rng(5)
    wide = np.concatenate([s * b for s in (1, -1) for b in (
        2.0 ** np.arange(-2, 66), 2.0 ** np.arange(-2, 66) - 0.5, 2.0 ** np.arange(0, 66) + 0.5,
        2.0 ** np.arange(3, 66) * (1 - 2.0**-24), rng.uniform(0, 300, 40),
        np.arange(8) + 0.5)])  # fmt: skip
    for source in ("f16", "bf16", "f32", "f64"):
        f = FORMATS[source]
        words = [*edges(source), *(f.round(Fraction(float(v)), "rn") for v in wide)]
        bits = some(np.array(words, f"u{f.bits // 8}"), lanes, 2)
        for how in ("rni", "rzi", "rmi", "rpi"):
            cases += [Case(f"cvt.{how}.{t}.{source}", [bits.view(REGISTER[source])]) for t in INTS]
    cases = cases if lanes else cases[::5]
    run(cases, lanes=lanes)
    for case in cases:
        _, how, target, source = case.form.split(".")
        f = FORMATS[source]
        words = case.sources[0].view(f"u{f.bits // 8}").tolist()
        width = 64 if target[1:] == "8" else int(target[1:])
        for word, got in zip(words, case.results[0].tolist(), strict=True):
            want = to_integer(f.decode(word), how, target, source)
            assert got == wrap(read(want, target), width), (case.form, hex(word))


@LANES
def test_integers_to_floats(lanes: int) -> None:
    cases = []
    for source in INTS:
        words = some(operands((max(int(source[1:]), 16),), 2)[0], lanes, 5)
        for target in REGISTER:
            cases += [Case(f"cvt.{m}.{target}.{source}", [words]) for m in ("rn", "rz", "rm", "rp")]
    cases = cases if lanes else cases[::5]
    run(cases, lanes=lanes)
    for case in cases:
        _, mode, target, source = case.form.split(".")
        words = case.sources[0].tolist()
        want = [FORMATS[target].round(Fraction(read(w, source)), mode) for w in words]
        assert_same(target, case.form, case.results[0], want, [case.sources[0]])


@LANES
def test_floats_to_floats(lanes: int) -> None:
    cases = []
    for source in REGISTER:
        words = some(np.concatenate([samples(source, 1, 100, 3)[0], halfway_points(source)]), lanes)
        for target in REGISTER:
            modes = ("rn", "rz", "rm", "rp") if FORMATS[target].p < FORMATS[source].p else ("",)
            if FORMATS[target].bits == 16 and FORMATS[source].bits == 16 and source != target:
                modes = ("rn",)
            cases += [Case(".".join(filter(None, ("cvt", m, target, source))),
                           [words.view(REGISTER[source])])
                      for m in modes if source != target]  # fmt: skip
    run(cases, lanes=lanes)
    for case in cases:
        target, source = case.form.split(".")[-2:]
        mode = case.form.split(".")[1] if case.form.count(".") == 3 else "rn"
        f = FORMATS[source]
        words = case.sources[0].view(f"u{f.bits // 8}")
        want = [FORMATS[target].round(f.decode(w), mode) for w in words.tolist()]
        assert_same(target, case.form, case.results[0], want, [words])


def halfway_points(source: str) -> np.ndarray:
    """Middles between two numbers of narrower formats, and their neighbours."""
    f = FORMATS[source]
    words = []
    for name in ("f16", "bf16", "f32"):
        narrow = FORMATS[name]
        if narrow.p >= f.p:
            continue
        for word in (
            0,
            1,
            2,
            5,
            narrow.round(1.0, "rn"),
            narrow.round(1.5, "rn"),
            narrow.infinity - 1,
        ):
            low = Fraction(narrow.decode(word))
            up = narrow.decode(word + 1)
            high = Fraction(up) if math.isfinite(up) else low + low / 2**narrow.p
            middle = f.round((low + high) / 2, "rn")
            words += [middle - 1, middle, middle + 1]
    sign = 1 << (f.bits - 1)
    return np.array([max(w, 0) | s for w in words for s in (0, sign)], f"u{f.bits // 8}")


@LANES
def test_to_integral_floats_and_clamps(lanes: int) -> None:
    words = np.concatenate([samples("f32", 1, 120, 8)[0],
                            np.arange(-9, 9, 0.5, np.float32).view(np.uint32)])  # fmt: skip
    x = words.view(np.float32)
    whole = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
    cases = [Case(f"cvt.{how}.f32.f32", [x]) for how in whole]
    sat, relu = Case("cvt.sat.f32.f32", [x]), Case("cvt.rn.relu.f16.f32", [x])
    limit, flush = Case("cvt.rn.satfinite.f16.f32", [x]), Case("cvt.ftz.f64.f32", [x])
    run([*cases, sat, relu, limit, flush], lanes=lanes)
    f, h = FORMATS["f32"], FORMATS["f16"]
    given = [f.decode(w) for w in words.tolist()]
    for case in cases:
        rule = whole[case.form.split(".")[1]]
        want = [f.round(v if not math.isfinite(v) else math.copysign(float(rule(v)), v), "rn")
                for v in given]  # fmt: skip
        assert_same("f32", case.form, case.results[0], want, [words])
    want = [f.round(0.0 if math.isnan(v) or v <= 0 else min(v, 1.0), "rn") for v in given]
    assert_same("f32", "sat", sat.results[0], want, [words])
    want = [h.round(v if math.isnan(v) else v if v > 0 else 0.0, "rn") for v in given]
    assert_same("f16", "relu", relu.results[0], want, [words])
    want = [h.round(v if math.isnan(v) else max(-65504.0, min(v, 65504.0)), "rn") for v in given]
    assert_same("f16", "satfinite", limit.results[0], want, [words])
    want = [
        FORMATS["f64"].round(math.copysign(0, v) if abs(v) < 2**-126 else v, "rn") for v in given
    ]
    assert_same("f64", "ftz", flush.results[0], want, [words])


@LANES
def test_tf32_keeps_ten_bits(lanes: int) -> None:
    words = np.concatenate(
        [samples("f32", 1, 150, 4)[0], np.arange(0x3F800000, 0x3F808000, 0x800, "u4")]
    )
    cases = [Case(f"cvt.{mode}.tf32.f32", [words.view(np.float32)]) for mode in ("rna", "rn", "rz")]
    run(cases, lanes=lanes)
    f = FORMATS["f32"]
    for case in cases:
        mode = case.form.split(".")[1]
        for word, got in zip(words.tolist(), case.results[0].tolist(), strict=True):
            x = f.decode(word)
            if math.isnan(x):
                assert got == 0x7FFFFFFF
                continue
            size, sign = word & 0x7FFFFFFF, word & 0x80000000
            kept, rest = size >> 13, size & 0x1FFF
            up = mode != "rz" and (
                rest > 0x1000 or (rest == 0x1000 and (mode == "rna" or kept & 1))
            )
            assert got == (sign | (kept + up) << 13), (case.form, hex(word))


@LANES
def test_two_floats_to_a_pair(lanes: int) -> None:
    a, b = samples("f32", 2, 150, 6)
    x, y = a.view(np.float32), b.view(np.float32)
    cases = [
        Case(f"cvt.rn{extra}.{n}x2.f32", [x, y]) for n in ("f16", "bf16") for extra in ("", ".relu")
    ]
    cases += [Case("cvt.rz.f16x2.f32", [x, y]), Case("cvt.rz.bf16x2.f32", [x, y])]
    run(cases, lanes=lanes)
    f = FORMATS["f32"]
    for case in cases:
        _, mode, *rest, target, _ = case.form.split(".")
        name = target[:-2]
        for half, words in (
            (case.results[0] & np.uint32(0xFFFF), b),
            (case.results[0] >> np.uint32(16), a),
        ):
            given = [f.decode(w) for w in words.tolist()]
            if rest:
                given = [v if math.isnan(v) or v > 0 else 0.0 for v in given]
            want = [FORMATS[name].round(v, mode) for v in given]
            assert_same(name, case.form, half.astype(np.uint16), want, [words])


# All finite numbers of the two 8-bit formats, from their definitions.
def fp8_table(name: str) -> tuple[float, ...]:
    mantissa, bias, last = (3, 7, 0x7E) if name == "e4m3" else (2, 15, 0x7B)
    out = []
    for code in range(last + 1):
        e, m = code >> mantissa, code & ((1 << mantissa) - 1)
        out.append(math.ldexp(m + (1 << mantissa if e else 0), max(e, 1) - bias - mantissa))
    return tuple(out)


def fp8_nearest(x: float, table: tuple[float, ...]) -> int:
    if math.isnan(x):
        return 0x7F
    size, sign = min(abs(x), table[-1]), 0x80 if math.copysign(1, x) < 0 else 0
    best = min(range(len(table)), key=lambda k: (abs(table[k] - size), k % 2))  # exact in double
    return best | sign


@LANES
@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_eight_bit_floats(lanes: int, name: str) -> None:
    table = fp8_table(name)
    assert table[-1] == {"e4m3": 448.0, "e5m2": 57344.0}[name]
    middles = [(p + q) / 2 for p, q in pairwise(table)]
    values = np.array([*table, *middles, *np.nextafter(np.float32(middles), np.float32(9e9)),
                       0.0, 1e-30, 1e30, math.inf, math.nan, 449.0, 465.0], np.float32)  # fmt: skip
    x = np.concatenate([values, -values])
    y = np.roll(x, 5)
    cases = [Case(f"cvt.rn.satfinite{r}.{name}x2.f32", [x, y]) for r in ("", ".relu")]
    codes = np.arange(256, dtype=np.uint16)
    pairs = codes | codes[::-1] << np.uint16(8)
    back = Case(f"cvt.rn.f16x2.{name}x2", [pairs])
    h = FORMATS["f16"]
    bits = np.array([h.round(float(v), "rn") for v in x], np.uint32)
    halves = Case(f"cvt.rn.satfinite.{name}x2.f16x2", [bits | np.roll(bits, 3) << np.uint32(16)])
    run([*cases, back, halves], lanes=lanes)
    for case in cases:
        keep = (lambda v: v if v > 0 or v != v else 0.0) if "relu" in case.form else float
        want = [fp8_nearest(keep(p), table) << 8 | fp8_nearest(keep(q), table)
                for p, q in zip(x.tolist(), y.tolist(), strict=True)]  # fmt: skip
        assert case.results[0].tolist() == want
    given = [h.decode(int(b)) for b in bits]
    low = [fp8_nearest(v, table) for v in given]
    high = low[-3:] + low[:-3]
    assert halves.results[0].tolist() == [p | q << 8 for p, q in zip(low, high, strict=True)]
    for half, codes_of in ((0, pairs & 255), (16, pairs >> 8)):
        got = ((back.results[0] >> np.uint32(half)) & np.uint32(0xFFFF)).astype(np.uint16)
        want = [h.round(fp8_value(int(c), name, table), "rn") for c in codes_of]
        assert_same("f16", back.form, got, want, [codes_of])


def fp8_value(code: int, name: str, table: tuple[float, ...]) -> float:
    size = code & 0x7F
    value = (
        table[size]
        if size < len(table)
        else math.inf
        if (name, size) == ("e5m2", 0x7C)
        else math.nan
    )
    return -value if code & 0x80 else value


@LANES
def test_moves_pack_and_unpack(lanes: int) -> None:
    a, b = operands((32, 32), 1)
    (q,) = operands((64,), 2)
    h = [(a >> np.uint32(k)).astype(np.uint16) for k in range(4)]
    d, two = (Reg("%d"),), Vector((Reg("%a"), Reg("%b")))
    four = Vector((Reg("%a"),) * 4)
    cases = [
        Case("mov.b64", [a, b], (*d, two)),
        Case("mov.b64", [q], (two, *d)),
        Case("mov.b32", h[:2], (*d, two)),
        Case("mov.b64", h, (*d, four)),
        Case("mov.b64", [q], (four, *d)),
        Case("mov.b32", [a.view(np.float32)], (*d, Reg("%f"))),
        Case("mov.f32", [a], (*d, Reg("%r"))),
        Case("mov.b64", [a, a.view(np.float32)], (*d, two)),
    ]
    run(cases, lanes=lanes)
    u64 = [x.astype(np.uint64) for x in (a, b, *h)]
    assert (cases[0].results[0] == (u64[0] | u64[1] << np.uint64(32))).all()
    assert (cases[1].results[0] == q.astype(np.uint32)).all()
    assert (cases[1].results[1] == (q >> np.uint64(32)).astype(np.uint32)).all()
    assert (cases[2].results[0] == (h[0] | h[1].astype(np.uint32) << np.uint32(16))).all()
    packed = sum(u64[2 + k] << np.uint64(16 * k) for k in range(4))
    assert (cases[3].results[0] == packed).all()
    for k in range(4):
        assert (cases[4].results[k] == (q >> np.uint64(16 * k)).astype(np.uint16)).all()
    assert (cases[5].results[0] == a).all()
    assert (cases[6].results[0].view(np.uint32) == a).all()
    assert (cases[7].results[0] == (u64[0] | u64[0] << np.uint64(32))).all()


def test_immediate_moves() -> None:
    a = np.zeros(32, np.uint32)
    case = Case("or.b32", [a, 0xFFFFFFFF], (Reg("%d"), Reg("%a"), Imm(0xFFFFFFFF)))
    real = Case("add.f32", [a.view(np.float32), 0x3F800000])
    run([case, real])
    assert (case.results[0] == 0xFFFFFFFF).all()
    assert (real.results[0] == 1.0).all()
