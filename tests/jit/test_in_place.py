"""In-place forms: what NumPy does, arguments included, or a refusal; never something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ge2rt.ir.passes import optimise
from ge2rt.jit import JitFunction, jit
from ge2rt.jit.backend import build_kernels, build_reference


def traced(function: Any) -> JitFunction:
    return JitFunction(function, build=build_reference)


def X() -> Any:
    return np.arange(12, dtype=np.float32).reshape(3, 4)


def _local(x: Any) -> Any:
    y = x * 1
    alias = y
    y += 2
    y *= x
    y /= 3
    return y, alias


def _argument(x: Any) -> Any:
    x += 1
    x[0] *= 2
    return x.sum()


def _rows(x: Any) -> Any:
    y = x + 0
    y[1] = 5
    y[:, 2] += y[:, 1]
    y[y > 8] = -1
    return y


@pytest.mark.parametrize("function", [_local, _argument, _rows])
def test_like_numpy(function: Any) -> None:
    for wrap in (traced, jit):
        for _ in range(2):
            mine, theirs = X(), X()
            got, want = wrap(function)(mine), function(theirs)
            for a, b in zip(np.atleast_1d(got), np.atleast_1d(want), strict=True):
                np.testing.assert_allclose(a, b)
            np.testing.assert_array_equal(mine, theirs)


def test_the_dtype_stays() -> None:
    def g(x: Any) -> Any:
        y = x.astype(np.int32)
        y += np.int8(3)
        return y

    assert traced(g)(X()).dtype == np.int32

    def worse(x: Any) -> Any:
        y = x.astype(np.int32)
        y += 0.5
        return y

    with pytest.raises(TypeError, match="cast"):
        traced(worse)(X())


def test_a_base_behind_a_written_view_may_not_be_read() -> None:
    def g(x: Any) -> Any:
        y = x * 1
        row = y[0]
        row += 1
        return y

    with pytest.raises(TypeError, match="shares memory") as caught:
        traced(g)(X())
    assert "test_in_place.py" in str(caught.value)

    def fine(x: Any) -> Any:
        q, _ = np.split(x * 1, 2, axis=1)
        q *= 2
        return q

    np.testing.assert_array_equal(traced(fine)(X()), X()[:, :2] * 2)


def test_a_view_behind_a_written_base_may_not_be_read() -> None:
    def g(x: Any) -> Any:
        y = x * 1
        row = y[0]
        y += 1
        return row

    with pytest.raises(TypeError, match="shares memory"):
        traced(g)(X())


def test_read_only_arguments() -> None:
    x = X()
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        traced(_argument)(x)


def test_assignment_at_a_traced_place() -> None:
    def put(cache: Any, row: Any, at: Any) -> Any:
        cache = cache.copy()
        cache[:, at] = row
        return cache

    f = jit(put)
    for at in (0, 2, -1):
        want = put(X(), np.float32(9), at)
        np.testing.assert_array_equal(f(X(), np.float32(9), at), want)
        np.testing.assert_array_equal(f(X(), np.float32(9), np.int64(at)), want)
    assert f.stats().traces == 2
    with pytest.raises(ValueError, match="outside"):
        f(X(), np.float32(9), 4)


def test_captured_arrays_are_not_written_to() -> None:
    weights = X()

    def g(x: Any) -> Any:
        weights[0] = x[1]
        return x + weights

    with pytest.raises(TypeError, match="captured array") as caught:
        traced(g)(X())
    assert "test_in_place.py" in str(caught.value)
    np.testing.assert_array_equal(weights, X())


def test_sort_and_fill() -> None:
    def g(x: Any) -> Any:
        y = -x
        y.sort(axis=0)
        z = x * 1
        z.fill(3)
        return y, z

    for got, want in zip(traced(g)(X()), g(X()), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("build", [build_reference, build_kernels])
def test_a_sort_written_by_elements(build: Any) -> None:
    def exchange(x: Any) -> Any:
        x = x.copy()
        for end in range(len(x) - 1, 0, -1):
            for i in range(end):
                low, high = np.minimum(x[i], x[i + 1]), np.maximum(x[i], x[i + 1])
                x[i], x[i + 1] = low, high
        return x

    f = JitFunction(exchange, build=build)
    x = np.random.default_rng(3).standard_normal(9, np.float32)
    np.testing.assert_array_equal(f(x), np.sort(x))
    (form,) = f._forms.values()
    assert len(optimise(form.built.graph).nodes) < 150  # each exchange stays a few operations
