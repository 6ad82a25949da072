"""Arguments and results: trees, static names, numbers, specialisations, compiled objects."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ge2rt.jit
from ge2rt.base import events
from ge2rt.jit import JitFunction, jit
from ge2rt.jit.backend import build_kernels, build_reference
from ge2rt.jit.quick import MISS

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def traced(function: Any, **options: Any) -> JitFunction:
    return JitFunction(function, build=build_reference, **options)


class Layer(NamedTuple):
    weight: Any
    bias: Any


@dataclass
class State:
    x: Any
    steps: int


def _step(state: State, layers: list[Layer], options: dict[str, Any]) -> Any:
    x = state.x
    for layer in layers:
        x = x @ layer.weight + layer.bias
    result = {"y": x * options["scale"], "first": (x[0], [x.sum()])}
    return State(x, state.steps), result


def _arguments() -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    layers = [Layer(rng.random((4, 4)), rng.random(4)) for _ in range(2)]
    return State(rng.random((3, 4)), 7), layers, {"scale": 2.0, "name": "net"}


@pytest.mark.parametrize("build", [build_reference, build_kernels])
def test_trees_in_and_out(build: Any) -> None:
    f = JitFunction(_step, build=build)
    arguments = _arguments()
    want_state, want = _step(*arguments)
    for _ in range(3):  # the long way, then the quick one
        state, got = f(*arguments)
        assert type(state) is State
        assert set(got) == {"y", "first"}
        np.testing.assert_allclose(state.x, want_state.x)
        np.testing.assert_allclose(got["y"], want["y"])
        np.testing.assert_allclose(got["first"][1][0], want["first"][1][0])
    assert f.stats().traces == 1
    changed = (arguments[0], arguments[1][:1], arguments[2])
    np.testing.assert_allclose(f(*changed)[1]["y"], _step(*changed)[1]["y"])
    assert f.stats().traces == 2


@pytest.mark.parametrize("build", [build_reference, build_kernels])
def test_quick_calls_see_every_difference(build: Any) -> None:
    def g(p: Any, n: Any, mode: Any = "a") -> Any:
        return p["x"] * n if mode == "a" else p["x"] + n

    f = JitFunction(g, build=build)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (({"x": X}, 2.0), {}), (({"x": X}, 3.0), {}), (({"x": X}, 3), {}),
        (({"x": X}, 2.0), {"mode": "b"}), (({"x": X}, 2.0, "b"), {}), (({"x": X[:2]}, 2.0), {}),
        (({"x": X.T}, 2.0), {}), (({"x": X.astype(np.float64)}, 2.0), {}),
        (({"x": X}, np.float32(2)), {}), (({"x": X, "y": X}, 2.0), {}),
        ((), {"p": {"x": X}, "n": 4.0}), (({"x": X},), {"n": 5.0, "mode": "b"}),
    ]  # fmt: skip
    for _ in range(3):
        for args, kwargs in calls:
            want, got = g(*args, **kwargs), f(*args, **kwargs)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    assert f.stats().traces <= len(calls)


def test_plain_values_come_back_as_they_are() -> None:
    f = traced(lambda x: {"n": 3, "none": None, "text": "t", "x": x, "scalar": np.float32(2)})
    got = f(X)
    assert (got["n"], got["none"], got["text"]) == (3, None, "t")
    assert got["scalar"] == 2
    assert got["scalar"].shape == ()
    assert traced(lambda x: 5)(X) == 5
    assert traced(lambda: np.ones(3) * 2)().shape == (3,)


@pytest.mark.parametrize("build", [build_reference, build_kernels])
def test_numbers_made_of_numbers_stay_python_numbers(build: Any) -> None:
    def descend(x: Any, rate: float, steps: int) -> Any:
        return x - rate * x, rate * 0.5, steps + 1

    f = JitFunction(descend, build=build)
    want = got = (X, 0.1, 0)
    for _ in range(3):  # were the rate an array, x would become float64
        want, got = descend(*want), f(*got)
        assert got[0].dtype == np.float32
        np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
        assert got[1:] == want[1:]
        assert [type(each) for each in got[1:]] == [float, int]
    assert f.stats().traces == 1
    assert type(JitFunction(lambda n: n * 2, build=build)(3)) is int


def test_outputs_are_fresh_and_apart() -> None:
    for build in (build_reference, build_kernels):
        f = JitFunction(lambda x: (x, x, x.T, x[1:], x.copy()), build=build)
        got = f(X)
        for place, array in enumerate(got):
            assert array.flags.c_contiguous
            assert not np.shares_memory(array, X)
            assert not any(np.shares_memory(array, other) for other in got[:place])
        assert not np.shares_memory(f(X)[0], got[0])
        np.testing.assert_array_equal(got[2], X.T)


def test_aliased_inputs_are_safe() -> None:
    f = jit(lambda x, y, z: (x + y.T[:3, :3].sum() * z[0], z * 2))
    for _ in range(2):
        got = f(X, X, X[::-1])
        np.testing.assert_allclose(got[0], X + X.T[:3, :3].sum() * X[-1])
        np.testing.assert_array_equal(got[1], X[::-1] * 2)


def test_static_arguments() -> None:
    calls: list[Any] = []

    @jit(static=("power", "keep"))
    def f(x: Any, power: int, *, keep: Any = False) -> Any:
        calls.append(power)
        for _ in range(power):
            x = x * x
        return x.sum(keepdims=keep)

    assert f(X, 2) == (X**4).sum()
    assert f(X, power=2) == (X**4).sum()
    assert f(X, 2, keep=True).shape == (1, 1)
    assert f(X, 1, keep=False) == (X**2).sum()
    assert f(X, True) == (X**2).sum()  # True is not 1
    assert len(calls) == 4
    with pytest.raises(TypeError, match="hashable"):
        f(X, [2])


def test_numbers_whose_value_is_asked_for_are_compiled_in() -> None:
    def g(x: Any, n: int, lr: float) -> Any:
        x = x.reshape(n, -1) if n > 2 else x
        return x[: n - 1] * lr + np.arange(n // 2 + 1)[-1]

    f = traced(g)
    for n in (3, 2, 6, 3):
        for lr in (0.5, 0.25):
            np.testing.assert_allclose(f(X, n, lr), g(X, n, lr))
    assert f.stats().traces == 3
    assert "n: 6, lr: float" in str(f.stats())


def test_numbers_are_passed_on_each_call() -> None:
    f = jit(lambda x, lr, k: x - lr * 0.5 * x + k)
    for lr, k in ((0.5, 1), (0.25, 2), (-1.0, 3)):
        np.testing.assert_allclose(f(X, lr, k), X - np.float32(lr * 0.5) * X + k)
    assert f.stats().traces == 1
    np.testing.assert_allclose(f(X, 0.5, 2**70), X - np.float32(0.25) * X + 2**70)


def test_specialisations_and_their_reasons() -> None:
    f = traced(lambda x: x * 2)
    f(X), f(X), f(X[:2]), f(X.astype(np.float64)), f(X.T), f(X[:, :1]), f(X[::2, :1])
    reasons = [each.reason for each in f.stats().specialisations]
    assert reasons[0] == "first call"
    assert reasons[1] == "x is f32[2,4], not f32[3,4]"
    assert "f64[3,4]" in reasons[2]
    assert "strides" in reasons[3]
    assert len(reasons) == 6  # a column of a matrix is strided, whatever else lies between
    assert f.stats().traces == 6
    f.clear()
    f(X)
    assert f.stats().traces == 7


def norm_of_layer(x: Any, w: Any, b: Any) -> Any:
    h = np.maximum(x @ w + b, 0)
    return (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + 1e-5), h.sum(0)


def exponents_and_orders(x: Any, w: Any, b: Any) -> Any:
    z = np.exp(x * 2 + 1 - np.max(x))
    return z / z.sum(), np.cumsum(x, 0), np.sort(x, 0)


def scaled_rows(x: Any, w: Any, b: Any) -> Any:
    return np.tanh(x) * x.sum(1, keepdims=True)


@pytest.mark.parametrize("function", [norm_of_layer, exponents_and_orders, scaled_rows])
def test_64_lengths_need_few_compilations(
    function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "GE2RT_CACHE_DIR", str(tmp_path)
    )  # nothing compiled before, whatever is kept
    rng = np.random.default_rng(1)
    w, b = rng.standard_normal((16, 32), np.float32), rng.standard_normal(32, np.float32)
    f, before = jit(function), events.counts().get("compile", 0)
    for n in range(1, 65):
        x = rng.standard_normal((n, 16), np.float32)
        got, wanted = f(x, w, b), function(x, w, b)
        pairs = zip(got, wanted, strict=True) if isinstance(got, tuple) else [(got, wanted)]
        for have, want in pairs:
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)
    assert f.stats().traces == 64
    assert 0 < f.stats().compiled <= events.counts()["compile"] - before <= 8


def test_strides_of_axes_that_never_matter() -> None:
    f = traced(lambda x: x * 2)
    f(np.zeros((1, 4), np.float32))
    f(np.zeros((3, 8), np.float32)[::3, :4])
    f(np.zeros((4, 1), np.float32).T)
    assert f.stats().traces == 1
    f(np.zeros((0, 4), np.float32))
    f(np.zeros((4, 0), np.float32).T)
    assert f.stats().traces == 2


def test_compiled_objects() -> None:
    weights = np.ones((4, 2), np.float32)
    f = jit(lambda x, n: x @ weights * n)
    compiled = f.compile(X, 2.0)
    np.testing.assert_array_equal(compiled(X, 3.0), X @ weights * 3)
    assert compiled.constants[0] is weights
    assert len(compiled.constants) == 1
    assert "x: f32[3,4]" in repr(compiled)
    for bad in ((X[:2], 2.0), (X.astype(np.float64), 2.0), (X.T, 2.0), (X, 2), (X, X)):
        with pytest.raises(TypeError, match="specialization"):
            compiled(*bad)
    assert f.stats().traces == 1


def test_compiled_for_a_static_value() -> None:
    compiled = jit(lambda x, n: x[:n], static="n").compile(X, 2)
    assert compiled(X, n=2).shape == (2, 4)
    with pytest.raises(TypeError, match="specialization"):
        compiled(X, 3)
    on_demand = jit(lambda x, n: x[:n]).compile(X, 2)
    assert on_demand(X, 2).shape == (2, 4)
    with pytest.raises(TypeError, match="specialization"):
        on_demand(X, 3)


def test_stages_print() -> None:
    compiled = jit(lambda x: np.tanh(x * 2 + 1)).compile(X)
    stages = compiled.stages
    assert list(stages)[:5] == ["graph", "optimised", "program", "selection", "cuda"]
    assert "tanh" in str(stages["graph"])
    assert "__global__" in str(stages["cuda"])
    assert ".visible .entry" in str(stages["ptx"])
    assert "define void" in str(stages["llvm"])
    assert "1 steps" in str(stages["plan"])
    assert "== plan" in str(stages)


def test_nested_functions_are_part_of_the_graph() -> None:
    inner = traced(lambda x, n: x * n)
    outer = traced(lambda x: inner(x, 2.0) + inner(x + 1, 3.0))
    np.testing.assert_array_equal(outer(X), X * 2 + (X + 1) * 3)
    assert inner.stats().traces == 0
    assert [n.op for n in outer.compile(X).built.graph.nodes].count("mul") == 2


def test_a_jitted_function_of_captured_arrays_only() -> None:
    inner = jit(lambda w: w * 2)
    weights = np.ones(4, np.float32)
    outer = jit(lambda x: x + inner(weights))
    np.testing.assert_array_equal(outer(X), X + 2)


def test_methods() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = np.float32(scale)

        @jit(static=("self",))
        def forward(self, x: Any) -> Any:
            return x * self.scale

    first, second = Model(2), Model(3)
    np.testing.assert_array_equal(first.forward(X), X * 2)
    np.testing.assert_array_equal(second.forward(X), X * 3)


def test_var_arguments_and_defaults() -> None:
    def g(x: Any, *more: Any, scale: float = 2.0, **named: Any) -> Any:
        total = x * scale
        for each in more:
            total = total + each
        return total + sum(named.values())

    f = traced(g)
    np.testing.assert_array_equal(f(X), X * 2)
    np.testing.assert_array_equal(f(X, X, X), X * 4)
    np.testing.assert_array_equal(f(X, X, scale=3.0, a=X, b=X), X * 6)


def test_the_package_is_the_decorator() -> None:
    from ge2rt import jit as first
    from ge2rt.jit import jit as second

    for decorator in (first, second, ge2rt.jit, sys.modules["ge2rt.jit"]):
        f = decorator(lambda x: x + 1)  # type: ignore[operator]
        assert isinstance(f, JitFunction)
        np.testing.assert_array_equal(f(X), X + 1)
        g = decorator(static="n")(lambda x, n: x + n)  # type: ignore[operator]
        np.testing.assert_array_equal(g(X, 2), X + 2)
    assert repr(MISS) == "MISS"


def test_zero_size_and_0d() -> None:
    f = jit(lambda x: (x * 2 + 1, x.sum(), np.exp(x).sum(axis=0)))
    for shape in ((0,), (0, 3), (3, 0)):
        x = np.zeros(shape, np.float32)
        for got, want in zip(f(x), (x * 2 + 1, x.sum(), np.exp(x).sum(axis=0)), strict=True):
            assert got.shape == np.shape(want)
            np.testing.assert_array_equal(got, want)
    g = jit(lambda x: (x + 1, np.sqrt(x)))
    a, b = g(np.float32(4))
    assert a.shape == b.shape == ()
    assert (a, b) == (5, 2)
    assert a.dtype == np.float32
    assert g(np.array(9.0))[1] == 3


@pytest.mark.parametrize("build", [build_reference, build_kernels])
def test_a_keyword_behind_a_default_that_is_left_out(build: Any) -> None:
    def f(x: Any, b: Any = None, c: int = 2, *, d: int = 0) -> Any:
        return (x if b is None else x + b) * c + d

    compiled = JitFunction(f, build=build)
    for _ in range(2):
        for options in ({"c": 5}, {"c": 5, "d": 1}, {"d": 3}, {"b": X, "d": 2}, {"d": 1, "c": 3}):
            np.testing.assert_array_equal(compiled(X, **options), f(X, **options))
        np.testing.assert_array_equal(compiled(X, X, d=4), f(X, X, d=4))
