"""Captured arrays are read on each call; captured values are guarded."""

from __future__ import annotations

import copy
import functools
import types
from typing import Any

import numpy as np
import pytest

from ge2rt.jit import JitFunction, jit
from ge2rt.jit.backend import build_kernels, build_reference

X = np.arange(6, dtype=np.float32).reshape(2, 3)
SCALE: Any = 2.0
WEIGHTS: Any = np.ones(3, np.float32)
CONFIG: Any = {"depth": 2, "sizes": [1, 2], "w": np.ones(3, np.float32)}
SPACE = types.SimpleNamespace(gain=3.0, w=np.ones(3, np.float32))


@pytest.fixture(params=[build_reference, build_kernels], ids=["reference", "kernels"])
def build(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCALE", "WEIGHTS", "CONFIG", "SPACE"):
        monkeypatch.setitem(globals(), name, copy.deepcopy(globals()[name]))


def test_content_is_read_on_each_call(build: Any) -> None:
    weights = np.ones(3, np.float32)
    f = JitFunction(lambda x: x * weights, build=build)
    for value in (1, 2, 5):
        weights[:] = value
        np.testing.assert_array_equal(f(X), X * value)
    assert f.stats().traces == 1
    assert f.compile(X).constants == (weights,) or f.compile(X).constants[0] is weights


def test_another_array_of_the_name(build: Any) -> None:
    global WEIGHTS
    f = JitFunction(lambda x: x * WEIGHTS, build=build)
    for _ in range(2):
        np.testing.assert_array_equal(f(X), X)
    WEIGHTS = np.full(3, 7, np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(f(X), X * 7)
    WEIGHTS = np.full((2, 3), 4, np.float64)
    for _ in range(2):
        np.testing.assert_array_equal(f(X), X * 4.0)
        assert f(X).dtype == np.float64
    assert f.stats().traces == 3
    assert "WEIGHTS" in f.stats().specialisations[1].reason


def test_numbers_are_guarded(build: Any) -> None:
    global SCALE
    f = JitFunction(lambda x: x * SCALE, build=build)
    for value in (2.0, 3.0, 3, -0.0, 0.0, np.float64(2)):
        SCALE = value
        for _ in range(2):
            got, want = f(X), X * value
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
            assert got.dtype == want.dtype
    traces = f.stats().traces
    SCALE = float("2.5")
    f(X)
    SCALE = float("2.50")  # equal, another object: no trace, and quick again afterwards
    f(X), f(X)
    assert f.stats().traces == traces + 1


def test_closures_containers_and_attributes(build: Any) -> None:
    count = 2

    def g(x: Any) -> Any:
        for _ in range(count):
            x = x + CONFIG["w"] * SPACE.gain
        return x * CONFIG["depth"] + sum(CONFIG["sizes"]) + SPACE.w

    f = JitFunction(g, build=build)

    def agree() -> None:
        for _ in range(2):
            np.testing.assert_allclose(f(X), g(X))

    agree()
    count = 3
    agree()
    CONFIG["depth"] = 5
    agree()
    CONFIG["sizes"].append(9)
    agree()
    CONFIG["w"] = np.full(3, 2, np.float32)
    agree()
    SPACE.gain = 1.5
    agree()
    SPACE.w = np.zeros(3, np.float32)
    agree()
    assert f.stats().traces == 7
    CONFIG["w"][:] = 4
    agree()
    SPACE.w[:] = 5
    agree()


def test_functions_that_are_called_are_looked_into(build: Any) -> None:
    global SCALE

    def helper(x: Any) -> Any:
        return x * SCALE

    f = JitFunction(lambda x: helper(x) + 1, build=build)
    for value in (2.0, 4.0):
        SCALE = value
        np.testing.assert_array_equal(f(X), X * value + 1)


def test_values_computed_from_captured_arrays(build: Any) -> None:
    """``weights * 2`` is part of the graph, and captured values may shape it."""
    weights = np.ones(3, np.float32)
    f = JitFunction(lambda x: x @ (weights * 2) + weights.sum(), build=build)
    for value in (1, 3):
        weights[:] = value
        np.testing.assert_allclose(f(X), X @ (weights * 2) + weights.sum())
    assert f.stats().traces == 1
    assert f.compile(X).constants[0] is weights

    def g(x: Any) -> Any:
        return x * np.linalg.inv(np.diag(weights))[0, 0] if weights[1] > 2 else -x

    f = JitFunction(g, build=build)
    for value in (1, 4, 8):
        weights[:] = value
        for _ in range(2):
            np.testing.assert_allclose(f(X), g(X))
    assert f.stats().traces == 3


def test_boolean_masks_that_are_captured(build: Any) -> None:
    masked = np.array([True, False, True])
    g = JitFunction(lambda x: x[:, masked], build=build)
    assert g(X).shape == (2, 2)
    masked[1] = True
    assert g(X).shape == (2, 3)


def test_views_of_captured_arrays_are_not_computed(build: Any) -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    f = JitFunction(lambda x: x @ weights.T, build=build)
    for value in (1, 3):
        weights[:] = value
        np.testing.assert_allclose(f(X), X @ weights.T)
    assert f.stats().traces == 1


def test_a_captured_array_that_changes_its_shape() -> None:
    weights = np.ones(6, np.float32)
    f = jit(lambda x: x.sum() * weights)
    for shape in ((6,), (2, 3), (9,)):
        weights.resize(shape, refcheck=False)
        np.testing.assert_allclose(f(X), X.sum() * weights)


def test_what_the_function_itself_changes_is_no_guard(build: Any) -> None:
    traces: list[int] = []
    count = 0

    def g(x: Any) -> Any:
        nonlocal count
        count += 1
        traces.append(1)
        return x + 1

    f = JitFunction(g, build=build)
    for _ in range(3):
        f(X)
    assert len(traces) == count == 1


def test_a_compiled_object_whose_captures_changed() -> None:
    global SCALE
    f = jit(lambda x: x * SCALE)
    compiled = f.compile(X)
    np.testing.assert_array_equal(compiled(X), X * 2)
    SCALE = 9.0
    with pytest.raises(TypeError, match="specialization"):
        compiled(X)
    np.testing.assert_array_equal(f(X), X * 9)


def test_one_array_many_times_is_one_input() -> None:
    weights = np.ones(3, np.float32)
    f = JitFunction(lambda x: x * weights + weights - weights.T, build=build_reference)
    assert len(f.compile(X).constants) == 1


def test_helpers_share_what_they_capture(build: Any) -> None:
    weights = np.full(3, 2, np.float32)

    def helper(x: Any) -> Any:
        return x * (weights + 1)

    inner = JitFunction(lambda x: x + WEIGHTS * 2, build=build)
    f = JitFunction(lambda x: inner(helper(x)) + weights, build=build)
    for value in (2, 5):
        weights[:] = value
        WEIGHTS[:] = value
        np.testing.assert_allclose(f(X), X * (value + 1) + 3 * value)
    assert f.stats().traces == 1
    assert {id(c) for c in f.compile(X).constants} == {id(weights), id(WEIGHTS)}


def test_functions_that_set_globals_are_traced_as_they_are(build: Any) -> None:
    def g(x: Any) -> Any:
        global SCALE
        SCALE = "set"
        return x * WEIGHTS

    np.testing.assert_array_equal(JitFunction(g, build=build)(X), X)
    assert SCALE == "set"


def test_recursion(build: Any) -> None:
    def power(x: Any, n: int) -> Any:
        return x * WEIGHTS * 2 if n == 0 else power(x, n - 1) * 2

    f = JitFunction(power, build=build, static=("n",))
    np.testing.assert_array_equal(f(X, 3), X * 16)


def _agree(f: Any, plain: Any) -> None:
    for _ in range(3):
        np.testing.assert_allclose(f(X), plain(X))


class _Gain:
    def __init__(self) -> None:
        self.value = 3.0


@pytest.mark.parametrize("way", ["itself", "helper"])
def test_what_is_exchanged_on_a_function(way: str, build: Any) -> None:
    items, gain = [2.0], _Gain()

    def scaled(x: Any, k: float = 2.0, m: Any = items, o: Any = gain, *, n: float = 1.0) -> Any:
        return x * k + m[0] * n * o.value

    def other(x: Any, k: float = 2.0, m: Any = None, o: Any = None, *, n: float = 1.0) -> Any:
        return x - k

    plain = scaled if way == "itself" else lambda x: scaled(x)
    f = JitFunction(plain, build=build)
    _agree(f, plain)
    items[0] = 9.0
    _agree(f, plain)
    gain.value = 0.5
    _agree(f, plain)
    scaled.__defaults__ = (5.0, [7.0], gain)
    _agree(f, plain)
    scaled.__kwdefaults__ = {"n": 4.0}
    _agree(f, plain)
    scaled.__code__ = other.__code__
    _agree(f, plain)


def test_the_default_of_a_given_argument_does_not_count() -> None:
    def g(x: Any, w: Any = WEIGHTS) -> Any:
        return x * w

    f = jit(g)
    f(X, WEIGHTS * 2)
    g.__defaults__ = (WEIGHTS * 3,)
    f(X, WEIGHTS * 2)
    assert f.stats().traces == 1
    np.testing.assert_array_equal(f(X), X * 3)


def _decorated(function: Any, factors: list[float]) -> Any:
    @functools.wraps(function)
    def wrapper(x: Any) -> Any:
        return function(x) * factors[0] + SCALE

    return wrapper


@pytest.mark.parametrize("way", ["itself", "helper"])
def test_every_layer_of_decorators(way: str, build: Any) -> None:
    global SCALE
    inner, outer, offset = [2.0], [3.0], [1.0]
    made = _decorated(_decorated(lambda x: x + offset[0], inner), outer)
    plain = made if way == "itself" else lambda x: made(x)
    f = JitFunction(plain, build=build)
    _agree(f, plain)
    for each in (inner, outer, offset):
        each[0] += 4.0
        _agree(f, plain)
    SCALE = 11.0
    _agree(f, plain)


def test_what_partials_bind(build: Any) -> None:
    first = functools.partial(lambda x, k, items: x * k + items[0], k=2.0, items=[1.0])
    second = functools.partial(lambda items, g, x: g(x) - items[0], [4.0], first)
    f = JitFunction(second, build=build)
    _agree(f, second)
    first.keywords["items"][0] = 9.0
    _agree(f, second)
    second.args[0][0] = 7.0
    _agree(f, second)
    first.keywords["k"] = 3.0
    _agree(f, second)


def test_one_list_under_two_names() -> None:
    first = [1.0]
    second = first

    def g(x: Any) -> Any:
        return x * sum(first) + sum(second)

    f = jit(g)
    _agree(f, g)
    second = [5.0]
    _agree(f, g)
    second[0] = 6.0
    _agree(f, g)
