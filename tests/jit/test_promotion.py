"""NEP 50: Python numbers are weak, NumPy's are not; casts stand in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from jit.compare import DTYPES, check, outcome

from ge2rt.jit import JitFunction
from ge2rt.jit.backend import build_reference

BF16 = np.dtype(ml_dtypes.bfloat16)
NUMPY_DTYPES = [name for name in DTYPES if name != "bf16"]
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "divide": lambda a, b: a / b, "maximum": np.maximum,
    "where": lambda a, b: np.where(a == a, a, b), "less": np.less, "hypot": np.hypot,
    "concatenate": lambda a, b: np.concatenate([np.atleast_1d(a), np.atleast_1d(b)]),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_pairs_of_dtypes(name: str) -> None:
    call = OPERATIONS[name]
    for first in NUMPY_DTYPES:
        for second in NUMPY_DTYPES:
            check(call, [np.ones(3, DTYPES[first]), np.ones(3, DTYPES[second])])


@pytest.mark.parametrize("number", [2, 2.5, True, -1], ids=repr)
def test_python_numbers_are_weak(number: Any) -> None:
    for dtype in NUMPY_DTYPES:
        x = np.ones(3, DTYPES[dtype])
        for call in OPERATIONS.values():
            check(lambda a, c=call: c(a, number), [x])
            check(lambda a, c=call: c(number, a), [x])


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, np.uint64, np.bool_])
def test_numpy_numbers_are_not(kind: Any) -> None:
    for dtype in NUMPY_DTYPES:
        for call in OPERATIONS.values():
            check(lambda a, c=call: c(a, kind(1)), [np.ones(3, DTYPES[dtype])])


def test_python_numbers_as_arguments_are_weak_too() -> None:
    f = JitFunction(lambda x, n: (x + n, x * n, n * 2 + x), build=build_reference)
    for dtype in ("f16", "f32", "i8", "u8", "i64"):
        x = np.ones(3, DTYPES[dtype])
        assert {str(y.dtype) for y in f(x, 2)} == {str(x.dtype)}
    assert {str(y.dtype) for y in f(np.ones(3, np.float32), 0.5)} == {"float32"}
    assert {str(y.dtype) for y in f(np.ones(3, np.int8), 0.5)} == {"float64"}
    (text,) = {str(y.dtype) for y in f(np.ones(3, np.float32), np.float64(2))}
    assert text == "float64"


def test_bf16_takes_python_floats_for_weak() -> None:
    """NEP 50 for all dtypes; ml_dtypes itself gives float32 here."""
    f = JitFunction(
        lambda x: (x * 0.5, x + 2, np.where(x > 0, x, 0.0), np.clip(x, 0.0, 1.0), x @ x.T),
        build=build_reference,
    )
    for y in f(np.ones((2, 3), BF16)):
        assert y.dtype == BF16
    wide = JitFunction(lambda x, y: x + y, build=build_reference)
    assert wide(np.ones(3, BF16), np.ones(3, np.float32)).dtype == np.float32
    assert wide(np.ones(3, BF16), np.ones(3, np.float16)).dtype == np.float32


@pytest.mark.parametrize("limit", [300, -1, 2**64, -(2**70)])
def test_comparisons_with_integers_out_of_range(limit: int) -> None:
    x = np.array([0, 200], np.uint8)
    check(lambda a: (a < limit, a >= limit, a == limit, limit > a, limit != a), [x])


def test_signed_with_unsigned_by_value() -> None:
    a = np.array([-1, 5, 2**62], np.int64)
    b = np.array([2**64 - 1, 5, 2**62], np.uint64)
    check(lambda x, y: (x < y, x == y, x >= y, y > x, y != x), [a, b])


def test_casts_are_nodes() -> None:
    f = JitFunction(lambda x, y: x + y, build=build_reference)
    compiled = f.compile(np.ones(3, np.int32), np.ones(3, np.float32))
    ops = [node.op for node in compiled.built.graph.nodes]
    assert ops == ["cast", "cast", "add"]
    assert f(np.ones(3, np.int32), np.ones(3, np.float32)).dtype == np.float64


@pytest.mark.parametrize("scalar", [3, 3.0, True, np.float32(3)], ids=repr)
def test_products_with_a_scalar_take_no_number_for_weak(scalar: Any) -> None:
    """``dot`` and ``inner`` make arrays of both operands first."""
    for dtype in NUMPY_DTYPES:
        x = np.ones(3, DTYPES[dtype])
        for call in (np.dot, np.inner):
            check(lambda a, c=call: (c(a, scalar), c(scalar, a)), [x])


CLIPS = [(-3, 5), (0, 300), (None, 300), (-5, None), (5, 300), (-300, 300), (-3, -1), (300, 400),
         (300, None), (None, -1), (2**70, -(2**70)), (-(2**70), 2**70)]  # fmt: skip


@pytest.mark.parametrize("bounds", CLIPS, ids=repr)
def test_bounds_of_clip_beyond_the_dtype(bounds: Any) -> None:
    """On their own side they fall away; on the other no number of the dtype is that large."""
    for dtype in ("u8", "i8", "i16"):
        info = np.iinfo(DTYPES[dtype])
        x = np.array([info.min, 0, 3, info.max], DTYPES[dtype])
        clipped = JitFunction(lambda a: np.clip(a, *bounds), build=build_reference)
        want, fault = outcome(lambda a: np.clip(a, *bounds), [x])
        got, own = outcome(clipped, [x])
        assert (own is None) == (fault is None), own
        if fault is None:
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("casting", ["safe", "same_kind", "unsafe"])
def test_astype_casting(casting: Any) -> None:
    for to in (np.int32, np.float16, np.float64):
        x = np.ones(3, np.float32)
        want, fault = outcome(lambda a, t=to: a.astype(t, casting=casting), [x])
        got, own = outcome(
            JitFunction(lambda a, t=to: a.astype(t, casting=casting), build=build_reference), [x]
        )
        assert (fault is None) == (own is None)
        assert fault is not None or got.dtype == want.dtype


@pytest.mark.parametrize("exponent", [2.0, 1.0, 0.5, 2, 1], ids=repr)
def test_powers_of_integers(exponent: Any) -> None:
    """A float exponent makes floats, whatever short cut there is for it."""
    for name in ("i8", "i16", "u8", "i32", "i64"):
        check(lambda x: x**exponent, [np.array([3, 100], DTYPES[name])])
    check(lambda x: x**exponent * 0.5, [np.array([50000], np.int32)])
