"""The meaning of each op against statements of its own: Python numbers, one element at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ir.samples import ALL_DTYPES, SPECIAL, array, dtypes_of

from ge2rt.base.dtypes import DTYPES
from ge2rt.ir.evaluate import apply, evaluate
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.make import input_node, make
from ge2rt.ir.ops import OPS

NAN, INF = math.nan, math.inf


def wrapped(value: int, dtype: str) -> int:
    bits = DTYPES[dtype].itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if DTYPES[dtype].kind == "int" and value >> (bits - 1) else value


def rounded(value: float, dtype: str) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(value).astype(np.float32).astype(DTYPES[dtype].numpy))


def guarded(function: Callable[..., float]) -> Callable[..., float]:
    """``math`` functions raise where IEEE gives NaN; those cases are left to other tests."""

    def call(*values: float) -> float:
        try:
            return float(function(*values))
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.nan

    return call


# op -> statement on Python numbers, for each kind of dtype
FLOATS: dict[str, Callable[..., float]] = {
    "detach": lambda x: x, "neg": lambda x: -x, "abs": abs, "square": lambda x: x * x,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x), "reciprocal": lambda x: 1 / x, "exp": math.exp,
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x), "exp2": lambda x: 2.0**x,
    "expm1": math.expm1, "log": math.log, "log2": math.log2, "log10": math.log10,
    "log1p": math.log1p, "sin": math.sin, "cos": math.cos, "tan": math.tan, "arcsin": math.asin,
    "arccos": math.acos, "arctan": math.atan, "sinh": math.sinh, "cosh": math.cosh,
    "tanh": math.tanh, "arcsinh": math.asinh, "arccosh": math.acosh, "arctanh": math.atanh,
    "erf": math.erf, "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "floor": math.floor,
    "ceil": math.ceil, "trunc": math.trunc, "round": round,
    "sign": lambda x: (x > 0) - (x < 0), "isnan": math.isnan, "isinf": math.isinf,
    "isfinite": math.isfinite, "signbit": lambda x: math.copysign(1, x) < 0,
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b, "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b,
    "pow": math.pow, "atan2": math.atan2, "hypot": math.hypot, "fmod": math.fmod,
    "maximum": lambda a, b: a if a > b else b, "minimum": lambda a, b: a if a < b else b,
    "fmax": lambda a, b: a if a > b else b, "fmin": lambda a, b: a if a < b else b,
    "copysign": math.copysign,
    "logaddexp": lambda a, b: max(a, b) + math.log1p(math.exp(-abs(a - b))),
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "select": lambda c, a, b: a if c else b, "clamp": lambda x, lo, hi: min(max(x, lo), hi),
}  # fmt: skip


def _shifted(a: int, b: int, dtype: str, left: bool) -> int:
    bits = DTYPES[dtype].itemsize * 8
    if not 0 <= b < bits:
        return 0 if left or a >= 0 else -1
    return a << b if left else a >> b


def _power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return 0 if a not in (1, -1) else a ** (b & 1)


INTEGERS: dict[str, Callable[..., int]] = {
    "detach": lambda x: x, "neg": lambda x: -x, "abs": abs, "square": lambda x: x * x,
    "invert": lambda x: ~x,
    "sign": lambda x: (x > 0) - (x < 0), "add": lambda a, b: a + b, "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b, "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0, "pow": _power,
    "fmod": lambda a, b: int(math.copysign(abs(a) % abs(b), a)) if b and abs(a) < 2**50 else 0,
    "maximum": max, "minimum": min, "bitand": lambda a, b: a & b, "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "select": lambda c, a, b: a if c else b,
    "clamp": lambda x, lo, hi: min(max(x, lo), hi),
}  # fmt: skip
BOOLS: dict[str, Callable[..., bool]] = {
    "detach": lambda x: x, "logical_not": lambda x: not x, "invert": lambda x: not x,
    "add": lambda a, b: a or b,
    "mul": lambda a, b: a and b, "maximum": lambda a, b: a or b, "minimum": lambda a, b: a and b,
    "bitand": lambda a, b: a and b, "bitor": lambda a, b: a or b, "bitxor": lambda a, b: a != b,
    "logical_and": lambda a, b: a and b, "logical_or": lambda a, b: a or b,
    "logical_xor": lambda a, b: a != b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "select": lambda c, a, b: a if c else b,
    "clamp": lambda x, lo, hi: min(max(x, lo), hi),
}  # fmt: skip
BY_KIND = {"float": FLOATS, "int": INTEGERS, "uint": INTEGERS, "bool": BOOLS}
CASES = [
    (name, dtype)
    for name, spec in OPS.items()
    if spec.pointwise and name != "cast"
    for dtype in dtypes_of(name)
]


def operands_of(op: str, dtype: str, shape: tuple[int, ...]) -> tuple[list[Node], list[Any]]:
    rng = np.random.default_rng([len(op), len(dtype), *op.encode()])
    kinds = ["bool" if o.types == "bool" else dtype for o in OPS[op].operands]
    values = [array(rng, shape, kind, special=False) for kind in kinds]
    return [input_node(shape, kind) for kind in kinds], values


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_elements(op: str, dtype: str) -> None:
    inputs, values = operands_of(op, dtype, (40,))
    node = make(op, *inputs)
    found = apply(node, values)
    statement = BY_KIND[DTYPES[dtype].kind].get(op)
    if op in ("shl", "shr"):

        def statement(a: int, b: int) -> int:
            return _shifted(a, b, dtype, op == "shl")

    assert statement is not None, f"{op} of {dtype} has no statement"
    for i, items in enumerate(zip(*values, strict=True)):
        numbers = [v.item() if v.dtype.kind != "V" else float(v) for v in items]
        got = found[i]
        if node.dtype == "bool":
            assert bool(got) == bool(statement(*numbers)), numbers
        elif DTYPES[dtype].is_float:
            wanted = guarded(statement)(*map(float, numbers))
            if math.isnan(wanted):
                continue
            close = {"f64": 1e-12, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}[dtype]
            with np.errstate(all="ignore"):
                limit = np.float64(wanted).astype(DTYPES[dtype].numpy).astype(np.float64)
            if np.isinf(limit):
                assert math.isinf(float(got)) or abs(wanted) < 7e4, numbers
                continue
            assert math.isclose(float(got), wanted, rel_tol=close, abs_tol=1e-6), numbers
        elif op == "fmod" and abs(numbers[0]) >= 2**50:
            continue
        else:
            assert int(got) == wrapped(int(statement(*numbers)), dtype), numbers


# op, operands, result: the rules that a kernel is likely to break
EDGES: list[tuple[str, tuple[float, ...], float]] = [
    ("maximum", (NAN, 1), NAN), ("maximum", (1, NAN), NAN), ("minimum", (NAN, 1), NAN),
    ("minimum", (1, NAN), NAN), ("fmax", (NAN, 1), 1), ("fmin", (1, NAN), 1),
    ("sign", (NAN,), NAN), ("sign", (-0.0,), 0.0), ("sqrt", (-1,), NAN), ("sqrt", (-0.0,), -0.0),
    ("rsqrt", (0,), INF), ("reciprocal", (-0.0,), -INF), ("log", (0,), -INF), ("log", (-1,), NAN),
    ("exp", (INF,), INF), ("exp", (-INF,), 0), ("exp", (1000,), INF), ("tanh", (INF,), 1),
    ("sigmoid", (-1000,), 0), ("sigmoid", (1000,), 1), ("div", (1, 0), INF), ("div", (0, 0), NAN),
    ("div", (-1, 0), -INF), ("floordiv", (7, -2), -4), ("mod", (7, -2), -1), ("mod", (-7, 2), 1),
    ("mod", (1, 0), NAN), ("fmod", (-7, 2), -1), ("pow", (0, 0), 1), ("pow", (-8, 1 / 3), NAN),
    ("pow", (NAN, 0), 1), ("pow", (1, NAN), 1), ("round", (0.5,), 0), ("round", (1.5,), 2),
    ("round", (-0.5,), -0.0), ("floor", (-0.5,), -1), ("ceil", (-0.5,), -0.0),
    ("logaddexp", (INF, INF), INF), ("logaddexp", (-INF, -INF), -INF), ("logaddexp", (-INF, 1), 1),
    ("logaddexp", (0, 0), math.log(2)), ("hypot", (INF, NAN), INF), ("atan2", (0.0, -0.0), math.pi),
    ("atan2", (-0.0, -0.0), -math.pi), ("copysign", (2, -0.0), -2), ("clamp", (NAN, 0, 1), NAN),
    ("clamp", (5, NAN, 1), NAN), ("clamp", (5, 0, NAN), NAN), ("clamp", (5, 2, 1), 1),
    ("clamp", (0.5, 2, 1), 1), ("add", (INF, -INF), NAN), ("neg", (0.0,), -0.0),
    ("abs", (-0.0,), 0),
    ("erf", (INF,), 1), ("arcsin", (2,), NAN), ("arccosh", (0,), NAN), ("arctanh", (1,), INF),
    ("square", (1e30,), INF), ("expm1", (1e-7,), 1e-7), ("log1p", (1e-7,), 1e-7),
]  # fmt: skip


@pytest.mark.parametrize(("op", "numbers", "wanted"), EDGES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_edges_of_floats(op: str, numbers: tuple[float, ...], wanted: float, dtype: str) -> None:
    numpy = DTYPES[dtype].numpy
    with np.errstate(over="ignore"):
        values = [np.array(n, numpy) for n in numbers]
        inputs = [input_node((), dtype) for _ in numbers]
        got = float(apply(make(op, *inputs), values))
        stored = float(np.array(wanted, numpy))
    if math.isnan(wanted):
        assert math.isnan(got)
        return
    close = {"f32": 1e-6, "f16": 1e-3, "bf16": 8e-3}[dtype]
    assert got == pytest.approx(stored, rel=close)
    assert math.copysign(1, got) == math.copysign(1, stored)


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64"])
def test_edges_of_integers(dtype: str) -> None:
    low, high = np.iinfo(DTYPES[dtype].numpy).min, np.iinfo(DTYPES[dtype].numpy).max
    rows = [
        ("add", (high, 1), low), ("sub", (low, 1), high), ("mul", (high, 2), -2),
        ("neg", (low,), low), ("abs", (low,), low), ("floordiv", (low, -1), low),
        ("mod", (low, -1), 0), ("fmod", (low, -1), 0), ("floordiv", (5, 0), 0), ("mod", (5, 0), 0),
        ("fmod", (5, 0), 0), ("pow", (2, -1), 0), ("pow", (-1, -3), -1), ("pow", (1, -3), 1),
        ("pow", (0, -1), 0), ("shl", (1, 200 if dtype != "i8" else 100), 0), ("shr", (-5, 99), -1),
        ("shl", (1, -1), 0), ("shr", (-1, -1), -1), ("floordiv", (-7, 2), -4), ("mod", (-7, 2), 1),
    ]  # fmt: skip
    for op, numbers, wanted in rows:
        values = [np.array(n, DTYPES[dtype].numpy) for n in numbers]
        got = apply(make(op, *[input_node((), dtype) for _ in numbers]), values)
        assert got == wanted, f"{op}{numbers}"


@pytest.mark.parametrize(("source", "target"), list(itertools.product(ALL_DTYPES, ALL_DTYPES)))
def test_casts(source: str, target: str) -> None:
    numbers = [0, 1, 2, 100] if source != "bool" else [0, 1]
    if DTYPES[source].kind in ("float", "int"):
        numbers += [-1, -100]
    if DTYPES[source].is_float:
        numbers += [2.75, -2.75, -0.0]
    values = np.array(numbers, np.float64).astype(DTYPES[source].numpy)
    found = apply(make("cast", input_node(values.shape, source), dtype=target), [values])
    for number, got in zip(numbers, found, strict=True):
        kind = DTYPES[target].kind
        if kind == "bool":
            assert bool(got) == (number != 0)
        elif kind == "float":
            assert float(got) == rounded(float(number), target)
            assert math.copysign(1, float(got)) == math.copysign(1, number)
        else:
            assert int(got) == wrapped(math.trunc(number), target)


def test_casts_of_floats_out_of_range() -> None:
    values = np.array([NAN, INF, -INF, 1e30], np.float32)
    for target, lowest in (("i32", -(2**31)), ("i64", -(2**63)), ("i8", 0), ("u16", 0)):
        found = apply(make("cast", input_node((4,), "f32"), dtype=target), [values])
        assert found.tolist() == [lowest] * 4, target
    assert apply(make("cast", input_node((4,), "f32"), dtype="bool"), [values]).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_narrow_sums_are_kept_in_f32(dtype: str) -> None:
    x = np.full((4096,), 1.0).astype(DTYPES[dtype].numpy)
    x[0] = 256.0
    node = input_node((4096,), dtype)
    assert float(apply(make("sum", node, axes=(0,)), [x])) == rounded(4351.0, dtype)
    running = apply(make("cumsum", node, axis=0), [x])
    assert float(running[-1]) == rounded(4351.0, dtype)
    row, column = x.reshape(1, -1), np.ones((4096, 1), x.dtype)
    product = make("matmul", input_node((1, 4096), dtype), input_node((4096, 1), dtype))
    assert float(apply(product, [row, column])[0, 0]) == rounded(4351.0, dtype)


def test_narrow_values_round_after_each_node() -> None:
    x, tiny = input_node((), "f16"), np.array(1.0, np.float16)
    step = make("full", shape=(), dtype="f16", value=0.0004)
    twice = make("add", make("add", x, step), step)
    assert evaluate(Graph("g", (x,), (twice,)), [tiny])[0] == np.float16(1.0)


REDUCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum, "prod": math.prod, "max": max, "min": min, "any": any, "all": all,
    "argmax": lambda v: v.index(max(v)), "argmin": lambda v: v.index(min(v)),
}  # fmt: skip


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 3, 4), (1, 1), (3, 0)])
def test_reductions(op: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    for dtype in dtypes_of(op):
        element = DTYPES[dtype]
        x = rng.integers(0, 4, shape).astype(element.numpy)
        one = OPS[op].shape == "reduce_one"
        for axes in [(0,)] if one else [(0,), tuple(range(len(shape)))]:
            if 0 in shape and op not in ("sum", "prod", "any", "all"):
                continue
            attrs = {"axis": 0} if one else {"axes": axes}
            node = make(op, input_node(shape, dtype), **attrs)
            found = apply(node, [x])
            assert found.shape == node.shape
            moved = np.moveaxis(x, axes, range(-len(axes), 0))
            moved = moved.reshape(*node.shape, math.prod(shape[a] for a in axes))
            for at in np.ndindex(node.shape):
                items = moved[at].tolist() if dtype != "bf16" else [float(v) for v in moved[at]]
                wanted = REDUCTIONS[op](items)
                if element.is_integer and not one:
                    wanted = wrapped(wanted, dtype)
                assert found[at] == wanted


def test_extremes_pass_nan_and_the_first_wins() -> None:
    x = np.array([[1, NAN, 3, NAN], [5, 2, 5, 2]], np.float32)
    node = input_node((2, 4), "f32")
    assert apply(make("argmax", node, axis=1), [x]).tolist() == [1, 0]
    assert apply(make("argmin", node, axis=1), [x]).tolist() == [1, 1]
    found = apply(make("max", node, axes=(1,)), [x])
    assert math.isnan(found[0])
    assert found[1] == 5


def test_no_start_value_shows() -> None:
    low = np.full((3,), -INF, np.float32)
    assert apply(make("max", input_node((3,), "f32"), axes=(0,)), [low]) == -INF
    zeros = np.full((3,), -0.0, np.float32)
    assert math.copysign(1, apply(make("max", input_node((3,), "f32"), axes=(0,)), [zeros])) == -1


def test_views_are_what_numpy_has() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    node = input_node((2, 3, 4), "i64")
    rows = [
        (make("transpose", node, perm=(2, 0, 1)), x.transpose(2, 0, 1)),
        (make("reshape", node, shape=(6, 4)), x.reshape(6, 4)),
        (make("slice", node, start=(1, 2, 3), step=(-1, -2, 1), shape=(2, 2, 1)),
         x[::-1, ::-2, 3:]),
        (make("slice", node, start=(0, 0, 0), step=(1, 1, 1), shape=(0, 3, 4)), x[:0]),
        (make("broadcast", node, shape=(5, 2, 3, 4)), np.stack([x] * 5)),
        (make("concat", node, node, axis=1), np.concatenate([x, x], 1)),
        (make("pad", node, low=(0, 1, 0), high=(2, 0, 0), value=-7),
         np.pad(x, [(0, 2), (1, 0), (0, 0)], constant_values=-7)),
    ]  # fmt: skip
    for made, wanted in rows:
        found = apply(made, [x] * len(made.inputs))
        assert found.shape == made.shape
        np.testing.assert_array_equal(found, wanted)


def test_gather() -> None:
    x = np.arange(12).reshape(4, 3)
    rows, columns = np.array([[3, 0], [1, 1]]), np.array([[2, 0], [1, 0]])
    index = input_node((2, 2), "i32")
    one = make("gather", input_node((4, 3), "i64"), index)
    np.testing.assert_array_equal(apply(one, [x, rows]), x[rows])
    two = make("gather", input_node((4, 3), "i64"), index, index)
    np.testing.assert_array_equal(apply(two, [x, rows, columns]), x[rows, columns])
    for wrong in (4, -1):
        with pytest.raises(ValueError, match=f"index {wrong} is outside axis 0 of 4"):
            apply(one, [x, np.full((2, 2), wrong)])


def test_sorting_is_stable_and_puts_nan_last() -> None:
    x = np.array([3, NAN, 1, 3, -INF, INF], np.float32)
    node = input_node((6,), "f32")
    assert apply(make("argsort", node, axis=0), [x]).tolist() == [4, 2, 0, 3, 5, 1]
    found = apply(make("sort", node, axis=0), [x])
    assert found[:5].tolist() == [-INF, 1, 3, 3, INF]
    assert math.isnan(found[5])


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i32", "u8", "bool"])
def test_products(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 2, s).astype(DTYPES[dtype].numpy) for s in ((2, 3, 4), (2, 4, 5)))
    node = make("matmul", input_node((2, 3, 4), dtype), input_node((2, 4, 5), dtype))
    found = apply(node, [a, b])
    for i, j, k in np.ndindex(2, 3, 5):
        items = [x * y for x, y in zip(a[i, j].tolist(), b[i, :, k].tolist(), strict=True)]
        assert found[i, j, k] == (any(items) if dtype == "bool" else sum(items))


@pytest.mark.parametrize("special", SPECIAL)
def test_constants_hold_every_value(special: float) -> None:
    node = make("full", shape=(2, 3), dtype="f32", value=special)
    found = apply(node, [])
    wanted = np.full((2, 3), special, np.float32)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_constants_of_any_extent_take_no_memory() -> None:
    huge = make("full", shape=(10**6, 10**6), dtype="f64", value=2.0)
    assert apply(huge, []).strides == (0, 0)
    some = make("slice", huge, start=(5, 5), step=(7, 1), shape=(2, 2))
    assert evaluate(Graph("g", (), (some,)), [])[0].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    seen = make("reshape", huge, shape=(10**12,))
    part = make("slice", seen, start=(1,), step=(1,), shape=(1,))
    assert evaluate(Graph("g", (), (part,)), [])[0].tolist() == [2.0]
