"""Local rules at the places where a careless one would change a bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ir.samples import ALL_DTYPES, SPECIAL, dtypes_of
from ir.written import V, call, graph_of, iota, var

from ge2rt.base.dtypes import DTYPES
from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Graph
from ge2rt.ir.make import make
from ge2rt.ir.ops import OPS
from ge2rt.ir.passes import optimise, pass_named
from ge2rt.ir.passes.canonicalise import run as canonicalise
from ge2rt.ir.passes.fold import run as fold
from ge2rt.ir.rules.logic import holds
from ge2rt.ir.verify import verify

ALL_F16 = np.arange(2**16, dtype=np.uint16).view(np.float16)


def unchanged(graph: Graph, given: list[Any], run: Any = canonicalise) -> Graph:
    """The graph after a pass; every output has the same bits, but for NaN's."""
    after = verify(run(graph))
    for a, b in zip(evaluate(graph, given), evaluate(after, given), strict=True):
        if a.dtype.kind not in "biu":
            a, b = a.astype(np.float64), b.astype(np.float64)
            np.testing.assert_array_equal(
                np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b)
            )
        np.testing.assert_array_equal(b, a)
    return after


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.op != "full"]


@pytest.mark.parametrize("exponent", range(-16, 16))
def test_dividing_by_powers_of_two(exponent: int) -> None:
    x = var(2**16, dtype="f16")
    after = unchanged(graph_of(x / 2.0**exponent, x / -(2.0**exponent)), [ALL_F16])
    if -12 < exponent < 12 and exponent:
        assert ops(after) == ["mul", "mul"]
    wide = var(4)
    edges = np.array([1e-38, 3e38, 1e-45, math.inf], np.float32)
    unchanged(graph_of(wide / 2.0 ** (8 * exponent)), [edges])


def test_numbers_that_do_nothing() -> None:
    for dtype in ("f32", "f16", "bf16", "f64"):
        x = var(len(SPECIAL), dtype=dtype)
        given = [np.array(SPECIAL).astype(DTYPES[dtype].numpy)]
        numbers = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 2.0)
        values = [v for n in numbers for v in (x + n, x - n, x * n, n + x, n - x, n * x, x / n)]
        values += [call(op, x, n) for op in ("maximum", "minimum", "fmax") for n in numbers]
        values += [
            V(make(op, x.lift(n).node, x.node)) for op in ("maximum", "fmin") for n in numbers
        ]
        values += [x - x, x / x, V(make("maximum", x.node, x.node)), x + -x, -x + x, x - -x]
        after = unchanged(graph_of(*values), given)
        assert len(after.nodes) < len(graph_of(*values).nodes)
        unchanged(graph_of(*values), given, optimise)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "u64", "bool"])
def test_integers_that_do_nothing(dtype: str) -> None:
    element = DTYPES[dtype]
    x = var(256, dtype=dtype)
    given = [np.arange(256).astype(element.numpy)]
    highest = 1 if dtype == "bool" else int(np.iinfo(element.numpy).max)
    lowest = 0 if dtype == "bool" else int(np.iinfo(element.numpy).min)
    numbers = sorted({0, 1, 2 if dtype != "bool" else 1, highest, lowest, -1 if lowest else 0})
    binary = [n for n, s in OPS.items() if s.pointwise and len(s.operands) == 2]
    values = []
    for op in binary:
        if dtype not in dtypes_of(op):
            continue
        values += [call(op, x, n) for n in numbers]
        values += [V(make(op, x.lift(n).node, x.node)) for n in numbers]
        values += [V(make(op, x.node, x.node))]
    unchanged(graph_of(*values), given)
    unchanged(graph_of(*values), given, optimise)


@pytest.mark.parametrize("dtype", ["i8", "u8", "f16"])
def test_pairs_of_functions(dtype: str) -> None:
    x = var(256, dtype=dtype)
    given = [np.arange(256).astype(np.uint8).view(np.int8).astype(DTYPES[dtype].numpy)]
    unary = [
        n for n, s in OPS.items()
        if s.pointwise and len(s.operands) == 1 and not s.attrs and dtype in dtypes_of(n)
        and s.result == "same" and n not in ("signbit",)
    ]  # fmt: skip
    values = [call(a, call(b, x)) for a in unary for b in unary]
    unchanged(graph_of(*values), given)


def test_sums_of_constants_are_merged_for_integers_alone() -> None:
    for dtype, merged in (("f32", False), ("i32", True), ("u8", True)):
        x = var(4, dtype=dtype)
        given = [np.array([100, 7, 3, 1]).astype(DTYPES[dtype].numpy)]
        graph = graph_of((x + 100) + 200, (x * 5) * 77, x + 0 + 1)
        after = unchanged(graph, given)
        assert (ops(after).count("add") == 2) is merged
    x = var(1)
    unchanged(graph_of((x + 1e8) + -1e8, (x * 1e30) * 1e30), [np.array([0.3], np.float32)])


CASTS = [
    (a, b, c)
    for a in ("bool", "i8", "u8", "i32", "u32", "i64", "f16", "bf16", "f32", "f64")
    for b in ("bool", "i8", "u8", "i16", "i64", "u64", "f16", "bf16", "f32", "f64")
    for c in ("bool", "i8", "u16", "i32", "i64", "f16", "bf16", "f32", "f64")
]


def test_casts_of_casts() -> None:
    numbers = np.array([0, 1, -1, 3.7, -3.7, 100, 127.5, 200, 255, 256, 2049, 4097, 1e5, 16777217])
    dropped = 0
    for first, middle, last in CASTS:
        x = var(len(numbers), dtype=first)
        with np.errstate(all="ignore"):
            given = [numbers.astype(DTYPES[first].numpy)]
        after = unchanged(graph_of(x.cast(middle).cast(last)), given)
        dropped += len(after.nodes) < 2
    assert dropped > 300


def _corners(dtype: str) -> list[Any]:
    """Values that only a dtype with every value of this one keeps."""
    element = DTYPES[dtype]
    if dtype == "bool":
        return [False, True]
    if element.is_integer:
        info = np.iinfo(element.numpy)
        return [info.min, info.max, info.max // 2 * 2, info.max // 2 + 1]
    import ml_dtypes

    info = ml_dtypes.finfo(element.numpy)
    return [float(v) for v in (info.max, info.smallest_subnormal, 1 + float(info.eps), -math.inf)]


def _keeps(value: Any, dtype: str) -> bool:
    kind = DTYPES[dtype].kind
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "float":
        with np.errstate(all="ignore"):
            # Python compares a float with a whole number of any size exactly
            return bool(float(np.float64(value).astype(DTYPES[dtype].numpy)) == value)
    info = np.iinfo(DTYPES[dtype].numpy)
    return math.isfinite(value) and value == int(value) and info.min <= value <= info.max


def test_which_dtypes_hold_which() -> None:
    for wide in ALL_DTYPES:
        for narrow in ALL_DTYPES:
            kept = all(_keeps(value, wide) for value in _corners(narrow))
            assert holds(wide, narrow) == kept, (wide, narrow)


def test_powers() -> None:
    x = var(2**16, dtype="f16")
    # x ** 0 of a signalling NaN is 1 or NaN in NumPy, as its vector units have it
    bits = ALL_F16.view(np.uint16)
    signalling = np.isnan(ALL_F16) & ((bits & 0x0200) == 0)
    quiet = np.where(signalling, bits | 0x0200, bits).astype(np.uint16).view(np.float16)
    after = unchanged(graph_of(x**2, x**0, x**1, x**-1), [quiet])
    assert "pow" not in ops(after)
    cube = graph_of(x**3)
    assert "pow" not in ops(canonicalise(cube))
    a, b = (evaluate(g, [ALL_F16])[0].astype(np.float64) for g in (cube, canonicalise(cube)))
    np.testing.assert_allclose(b, a, rtol=1e-3)
    whole = var(9, dtype="i8")
    given = [np.arange(-4, 5).astype(np.int8)]
    unchanged(graph_of(whole**2, whole**3, whole**0, whole**-1, whole**5), given)


def test_comparisons_turned_round() -> None:
    x = var(len(SPECIAL))
    given = [np.array(SPECIAL, np.float32)]
    pairs = [("lt", 0), ("le", 0), ("gt", 0), ("ge", 0), ("eq", 0), ("ne", 0)]
    values = [V(make(op, x.lift(n).node, x.node)) for op, n in pairs]
    values += [call("logical_not", value) for value in values]
    values += [V(make(op, x.node, x.node)) for op, _ in pairs]
    unchanged(graph_of(*values), given)
    assert ops(canonicalise(graph_of(call("logical_not", x < 0)))) == ["lt", "logical_not"]


def test_views_that_only_look_like_others() -> None:
    rows, column = var(3), var(3, 1)
    given = np.arange(3, dtype=np.float32)
    unchanged(graph_of(column.to((3, 5)).reshape(5, 3)), [given.reshape(3, 1)])
    unchanged(graph_of(rows.to((5, 3)).reshape(3, 5)), [given])
    unchanged(graph_of(rows.to((2, 3)).reshape(6), rows.to((4, 3)).reshape(2, 2, 3)), [given])
    for made in (
        iota((2, 2), 1).reshape(1, 2, 2), iota((2, 2), 0).reshape(2, 1, 2),
        iota((3, 3), 0).reshape(9), iota((2, 3), 1).reshape(3, 2), iota((4,), 0).reshape(2, 2),
        iota((4, 1), 0).to((4, 3)), iota((1, 3), 0).to((4, 3)), iota((6,), 0)[::-1],
        iota((6,), 0)[1:], iota((6,), 0)[::2], iota((2, 3), 1).transpose(1, 0),
        iota((200,), 0, "i8").cast("i32"), iota((200,), 0, "u8").cast("f16"),
        iota((3, 0), 1).reshape(0, 3),
    ):  # fmt: skip
        unchanged(graph_of(made), [])


def test_slices_of_nothing() -> None:
    x = call("exp", var(4))
    tall = x.reshape(4, 1).node
    cut = V(make("slice", tall, start=(0, 0), step=(1, 1), shape=(4, 0)))
    given = [np.ones(4, np.float32)]
    for name in ("views", "dce", "canonicalise"):
        unchanged(graph_of(cut, x[0:0], x.to((3, 4))[2:2]), given, pass_named(name))
    high = V(make("max", var(4, 3).node, axes=(1,)))[0:0]
    unchanged(graph_of(high), [np.ones((4, 3), np.float32)], pass_named("views"))


def test_a_row_repeated_is_no_matrix() -> None:
    left = var(2, 3, 4)
    given = [np.ones((2, 3, 4), np.float32), np.arange(6, dtype=np.float32).reshape(1, 6)]
    after = unchanged(graph_of(left @ var(1, 6).to((2, 4, 6))), given)
    assert "broadcast" in ops(after)
    given[1] = np.arange(4, dtype=np.float32).reshape(4, 1)
    unchanged(graph_of(left @ var(4, 1).to((2, 4, 5))), given)


def test_reductions_of_reductions() -> None:
    x = var(2, 3, 4)
    given = [np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)]
    twice = [V(make(op, make(op, x.node, axes=(0,)), axes=(1,))) for op in ("max", "min", "sum")]
    after = unchanged(graph_of(*twice), given)
    assert ops(after) == ["max", "min", "sum", "sum"]
    for perm in ((0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)):
        turned = x.transpose(*perm).node
        values = [V(make("max", turned, axes=axes)) for axes in ((0,), (1,), (2,), (0, 2), (0, 1))]
        values += [V(make("argmin", turned, axis=axis)) for axis in range(3)]
        unchanged(graph_of(*values), given)


def test_sums_of_constants_are_folded_where_they_are_exact() -> None:
    def total(dtype: str, value: float, count: int) -> V:
        return V(make("sum", make("full", shape=(count,), dtype=dtype, value=value), axes=(0,)))

    exact = [total("f32", 3.0, 1000), total("f16", 2.0, 1000), total("i8", 100, 5),
             total("u16", 65535, 3), total("i64", -(2**62), 4)]  # fmt: skip
    after = unchanged(graph_of(*exact), [], fold)
    assert ops(after) == []
    rounded = [total("f32", 0.1, 1000), total("f16", 3.0, 1000), total("bf16", 1.0, 300),
               total("f32", 16777216.0, 3), total("f32", math.inf, 3)]  # fmt: skip
    assert ops(fold(graph_of(*rounded))) == ["sum"] * 5
    assert ops(fold(graph_of(total("f32", -0.0, 0)))) == ["sum"]


def test_huge_constants_fold_without_memory() -> None:
    huge = V(make("full", shape=(10**6, 10**6), dtype="f64", value=2.0))
    graph = graph_of(call("exp", huge * 3 + 1).reshape(10**12)[5:7])
    after = verify(optimise(graph))
    assert [node.op for node in after.nodes] == ["full"]
    assert evaluate(after, [])[0].tolist() == [math.exp(7)] * 2


def test_every_pointwise_op_folds_to_what_it_means() -> None:
    for name, spec in OPS.items():
        if not spec.pointwise:
            continue
        for dtype in dtypes_of(name):
            kinds = ["bool" if o.types == "bool" else dtype for o in spec.operands]
            constants = [make("full", shape=(2,), dtype=kind, value=1) for kind in kinds]
            attrs = {"dtype": "i16"} if spec.attrs else {}
            graph = Graph("g", (), (make(name, *constants, **attrs),))
            after = unchanged(graph, [], fold)
            assert [node.op for node in after.nodes] == ["full"], name
