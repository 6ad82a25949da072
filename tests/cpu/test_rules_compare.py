"""Comparison and selection, and what the table does with forms it does not know."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np
import pytest
from exact_floats import FORMATS, edges
from rules_machine import PAIR, Case, operands, run, signed, some, wrap

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Instr, Reg
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.rules import PURE, WARP, find_row, reads_carry, writes_carry

REGISTER = {"f16": np.uint16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64}
LANES = pytest.mark.parametrize("lanes", [32, 0])
ORDERED: dict[str, Callable[[float, float], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def float_compare(op: str, a: float, b: float) -> bool:
    """Manual: the plain comparisons are false with a NaN, those with u are true."""
    nan = math.isnan(a) or math.isnan(b)
    if op in ("num", "nan"):
        return nan == (op == "nan")
    return op.endswith("u") if nan else ORDERED[op.removesuffix("u")](a, b)


FLOAT_OPS = [*ORDERED, *(f"{op}u" for op in ORDERED), "num", "nan"]


@LANES
def test_float_comparisons(lanes: int) -> None:
    cases = []
    for name in REGISTER:
        every = np.array(edges(name), f"u{FORMATS[name].bits // 8}")
        pair = [np.repeat(every, len(every)), np.tile(every, len(every))]
        pair = [some(w, lanes).view(REGISTER[name]) for w in pair]
        cases += [Case(f"setp.{op}.{name}", pair) for op in FLOAT_OPS]
        cases += [Case(f"set.{op}.u32.{name}", pair) for op in ("lt", "neu")]
    run(cases, lanes=lanes)
    for case in cases:
        op, name = case.form.split(".")[1], case.form.rsplit(".", 1)[1]
        f = FORMATS[name]
        a, b = ([f.decode(w) for w in s.view(f"u{f.bits // 8}").tolist()] for s in case.sources)
        want = [float_compare(op, x, y) for x, y in zip(a, b, strict=True)]
        got = case.results[0]
        if case.form.startswith("set."):
            assert set(got.tolist()) <= {0, 0xFFFFFFFF}
        assert (got != 0).tolist() == want, case.form


@LANES
def test_integer_comparisons(lanes: int) -> None:
    cases = []
    for kind in ("u16", "s16", "u32", "s32", "u64", "s64", "b32"):
        pair = [some(x, lanes) for x in operands((int(kind[1:]),) * 2, 4)]
        ops = ["eq", "ne"] if kind[0] == "b" else list(ORDERED)
        cases += [
            Case(f"setp.{op}.{kind}", pair)
            for op in ops + (list(UNSIGNED) if kind[0] == "u" else [])
        ]
    run(cases, lanes=lanes)
    for case in cases:
        _, op, kind = case.form.split(".")
        read = signed if kind[0] == "s" else wrap
        a, b = ([read(v, int(kind[1:])) for v in s.tolist()] for s in case.sources)
        rule = ORDERED[UNSIGNED.get(op, op)]
        assert case.results[0].tolist() == [rule(x, y) for x, y in zip(a, b, strict=True)], (
            case.form
        )


@LANES
def test_combination_with_a_third_predicate(lanes: int) -> None:
    a, b = operands((32, 32), 6)
    c = np.arange(len(a)) % 3 == 0
    joins = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
    cases = {j: Case(f"setp.lt.{j}.u32", [a, b, c], PAIR) for j in joins}
    alone = Case("setp.lt.u32", [a, b], PAIR)
    value = Case("set.lt.and.f32.u32", [a, b, c])
    run([*cases.values(), alone, value], lanes=lanes)
    less = a < b
    for join, case in cases.items():
        assert (case.results[0] == joins[join](less, c)).all()
        assert (case.results[1] == joins[join](~less, c)).all()
    assert (alone.results[1] == ~less).all()
    assert (value.results[0] == np.where(less & c, np.float32(1), np.float32(0))).all()


@LANES
def test_packed_comparisons(lanes: int) -> None:
    every = np.array(edges("f16"), np.uint32)
    a, b = np.repeat(every, len(every)), np.tile(every, len(every))
    x, y = a | b << np.uint32(16), b | b[::-1] << np.uint32(16)
    both = Case("setp.lt.f16x2", [x, y], PAIR)
    ones, one = (
        Case("set.ge.f16x2.f16x2", [x, y]),
        Case("set.ge.f16.f16", [a.astype("u2"), b.astype("u2")]),
    )
    run([both, ones, one], lanes=lanes)
    f = FORMATS["f16"]
    read = lambda words: np.array([f.decode(int(w)) for w in words])  # noqa: E731
    low, high = (read(a), read(b)), (read(b), read(b[::-1]))
    assert (both.results[0] == (low[0] < low[1])).all()
    assert (both.results[1] == (high[0] < high[1])).all()
    want = np.where(low[0] >= low[1], 0x3C00, 0)
    assert (one.results[0] == want).all()
    assert (ones.results[0] == (want | np.where(high[0] >= high[1], 0x3C000000, 0))).all()


@LANES
def test_selections(lanes: int) -> None:
    a, b = operands((32, 32), 3)
    p = a % 2 == 0
    x = np.resize(np.array(edges("f32"), np.uint32), len(a)).view(np.float32)
    by_flag, by_float = Case("selp.b32", [a, b, p]), Case("slct.u32.f32", [a, b, x])
    by_int, fixed = Case("slct.u32.s32", [a, b, b]), Case("selp.f32", [x, 1.0, p])
    flushed = Case("slct.ftz.u32.f32", [a, b, x])
    run([by_flag, by_float, by_int, fixed, flushed], lanes=lanes)
    assert (by_flag.results[0] == np.where(p, a, b)).all()
    assert (by_float.results[0] == np.where(x >= 0, a, b)).all()
    assert (by_int.results[0] == np.where(b.view(np.int32) >= 0, a, b)).all()
    assert (fixed.results[0].view("u4") == np.where(p, x, np.float32(1)).view("u4")).all()
    with np.errstate(invalid="ignore"):
        assert (flushed.results[0] == np.where((x >= 0) | (np.abs(x) < 2.0**-126), a, b)).all()


# -- the table -----------------------------------------------------------------------------------


def instr(form: str) -> Instr:
    op, *mods = form.split(".")
    return Instr(op, tuple(mods), (Reg("%d"),), None, 42)


@pytest.mark.parametrize("form", [
    "add.f8", "add.rn.e4m3x2", "fma.rn.oob.f16", "mul.foo.f32", "cvt.rs.f16x2.f32",
    "cvt.f32.f16.f32",
    "setp.lt.b128", "ex2.f64", "cvt.s32.f32", "setp.lo.f32", "setp.ltu.s32", "cvt.rn.f16x2.f64",
])  # fmt: skip
def test_unknown_forms_are_named(form: str) -> None:
    sources = [Value("i64", "1"), Value("i64", "1"), Value("i64", "1")]
    with pytest.raises(UnsupportedError, match=form.replace(".", r"\.")) as caught:
        PURE[form.split(".")[0]](Emitter(32), instr(form), sources)
    assert caught.value.record.where == "ptx:42"
    assert caught.value.record.next_step


def test_narrow_pieces_of_a_warp_are_refused() -> None:
    mask = Value("i1", "%m", 16)
    with pytest.raises(UnsupportedError, match="warps of 32 lanes"):
        WARP["shfl"](Emitter(16), instr("shfl.sync.bfly.b32"), [], mask)


def test_carry_protocol() -> None:
    assert reads_carry(instr("addc.u32"))
    assert writes_carry(instr("addc.cc.u32"))
    assert not reads_carry(instr("add.cc.u32"))
    assert not writes_carry(instr("madc.hi.u32"))


def test_a_row_is_found_by_its_last_type() -> None:
    assert "f32" in find_row(instr("add.rn.f32")).types
    assert "f32" not in find_row(instr("add.s32")).types
