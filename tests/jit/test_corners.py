"""Corners where a jitted function once gave other answers than NumPy, or none."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ge2rt.fuse.lower import lower
from ge2rt.ir.passes import optimise
from ge2rt.jit import JitFunction, jit
from ge2rt.jit.backend import build_reference

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def reference(function: Any, **options: Any) -> JitFunction:
    return JitFunction(function, build=build_reference, **options)


@pytest.mark.parametrize("text", ["i1", "i2", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "?", "l"])
def test_dtype_strings_are_numpys(text: str) -> None:
    """``"i8"`` has eight bytes for NumPy; kernels call that i64."""

    def f(x: Any) -> Any:
        y = x.astype(text)
        made = np.zeros_like(x, dtype=text), np.full_like(x, 1, dtype=text)
        return y, *made, np.concatenate([y, y], dtype=text)

    for got, want in zip(reference(f)(X), f(X), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_integers_out_of_a_dtypes_range_as_arguments() -> None:
    bytes_ = np.array([0, 200], np.uint8)
    add = reference(lambda x, n: x + n)
    np.testing.assert_array_equal(add(bytes_, 55), bytes_ + 55)
    np.testing.assert_array_equal(add(bytes_, 7), bytes_ + 7)
    assert add.stats().traces == 1
    for number in (256, -1, 2**40, 2**70):
        with pytest.raises(OverflowError):
            add(bytes_, number)
    less = reference(lambda x, n: (x < n, n <= x, x == n))
    for number in (100, -1, 300, 2**70, -(2**70)):
        want = bytes_ < number, number <= bytes_, bytes_ == number
        for _ in range(2):
            np.testing.assert_array_equal(less(bytes_, number), want)
    double = reference(lambda x, n: x + 2 * n)  # 2 n is what must fit
    np.testing.assert_array_equal(double(bytes_, 20), bytes_ + 40)
    with pytest.raises(OverflowError):
        double(bytes_, 200)


def test_integers_beyond_64_bits_are_numbers_all_the_same() -> None:
    scale = jit(lambda x, n: x * n)
    for number in (3, 10**20, 4, -(10**25)):
        np.testing.assert_allclose(scale(X, number), X * np.float32(number))
    assert scale.compile(X, 3)(X, 5).sum() == (X * 5).sum()
    with pytest.raises(TypeError, match="specialization"):
        scale.compile(X, 3)(X, 10**20)


def test_integers_are_checked_where_they_are_stored() -> None:
    def store(x: Any, n: Any) -> Any:
        y = x.copy()
        y[0] = n
        return y

    small = np.zeros(3, np.int8)
    np.testing.assert_array_equal(reference(store)(small, 5), store(small, 5))
    with pytest.raises(OverflowError):
        reference(store)(small, 300)
    with pytest.raises(OverflowError):
        reference(lambda x: store(x, 300))(small)


def test_numpys_functions_of_python_numbers_are_not_weak() -> None:
    def f(x: Any, n: Any) -> Any:
        weak = x + n * 2, x + abs(n), x * -n, n**2 * x, x + n % 2
        return *weak, x * np.sqrt(n), x + np.maximum(n, 1), np.divmod(n, 2)[0] + x, x + np.abs(n)

    for dtype in (np.float16, np.float32):
        x = X.astype(dtype)
        for number in (3, 2.5):
            for got, want in zip(reference(f)(x, number), f(x, number), strict=True):
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=1e-3)


def test_numpy_asks_for_the_value_of_integers() -> None:
    table = {2: 10.0, 3: 20.0}

    def f(x: Any, n: int) -> Any:
        made = np.full(4, n), np.arange(n), np.repeat(np.arange(2), n), np.array([1, n, 2])
        return x * np.float32(n) * table[n] + np.arange(9)[n], *made

    for number in (2, 3):
        for got, want in zip(reference(f)(X, number), f(X, number), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


def test_other_keywords_after_a_quick_call() -> None:
    def f(x: Any, **named: Any) -> Any:
        return x * named.get("b", 2) + named.get("c", 1)

    fast = jit(f)
    for named in ({"b": X}, {"c": X}, {"b": 3}, {"c": X}, {"b": X}):
        np.testing.assert_array_equal(fast(X, **named), f(X, **named))
    pick = jit(lambda tree: tree["a"] + tree.get("b", 1))
    np.testing.assert_array_equal(pick({"a": X, "b": X}), X + X)
    np.testing.assert_array_equal(pick({"a": X, "c": X}), X + 1)


def test_fields_of_structures_lie_unaligned() -> None:
    rows = np.zeros((3, 4), [("a", "u1", 3), ("x", "f4"), ("b", "u1")])
    rows["x"] = X
    for view in (rows["x"], rows["x"].T, rows["x"][::-1]):
        assert not view.flags.aligned
        np.testing.assert_array_equal(jit(lambda x: (x + 1).sum(0))(view), (view + 1).sum(0))


def test_what_is_written_may_not_overlap_what_is_read_later() -> None:
    def add(a: Any, b: Any) -> Any:
        a += b
        return a * 1

    def late(a: Any, b: Any) -> Any:
        a += 1
        return a + b

    x = X.copy()
    np.testing.assert_array_equal(reference(add)(x, x), X + X)  # b was read before
    np.testing.assert_array_equal(x, X + X)
    for a, b in ((x, x), (x[:2], x[1:]), (x, x.T.T)):
        with pytest.raises(TypeError, match="shares memory"):
            reference(late)(a, b)
    np.testing.assert_array_equal(x, X + X)
    np.testing.assert_array_equal(reference(late)(x[:1], x[1:2]), X[:1] * 2 + 1 + X[1:2] * 2)
    with pytest.raises(TypeError, match="captured"):
        reference(lambda a: late(a, x))(x)


@pytest.mark.parametrize("fill", [-1e4, -1e9])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_attention_of_rows_that_keep_nothing(fill: float, scale: float) -> None:
    """With a finite fill, all weights of such a row are equal."""
    rng = np.random.default_rng(3)
    q, k, v = rng.standard_normal((3, 2, 8, 4)).astype(np.float32)
    rows = np.arange(8) % 3 > 0
    pairs = rng.random((8, 8)) < 0.5
    pairs[:, 0] = rows
    pairs[3] = False
    masks = (rows[:, None], pairs, rows, np.broadcast_to(rows[:, None], (8, 8)))

    def attention(q: Any, k: Any, v: Any, keep: Any) -> Any:
        scores = np.where(keep, (q * np.float32(scale)) @ k.swapaxes(1, 2), np.float32(fill))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    fused = jit(attention)
    for keep in masks:
        want = attention(q, k, v, keep)
        np.testing.assert_allclose(fused(q, k, v, keep), want, rtol=1e-4, atol=1e-5)
        ops = {node.op for node in fused.compile(q, k, v, keep).built.optimised.nodes}
        assert "attention" in ops
    k[:, 5] = np.inf  # a key that nobody keeps may be anything
    keep = pairs.copy()
    keep[:, 5] = False
    with np.errstate(invalid="ignore"):
        want = attention(q, k, v, keep)
    np.testing.assert_allclose(fused(q, k, v, keep), want, rtol=1e-4, atol=1e-5)


def test_chains_of_long_functions_are_cut() -> None:
    """Their code would take minutes to compile."""

    def chain(x: Any) -> Any:
        for _ in range(12):
            x = np.sin(x) * 1.5
        return x

    graph = reference(chain).compile(X).built.graph
    bodies = [step.kernel.attrs["body"].default for step in lower(optimise(graph)).steps]
    assert len(bodies) == 3
    assert max(body.count("sin(") for body in bodies) <= 6


def test_copies_and_iterators() -> None:
    def f(x: Any) -> Any:
        shallow, deep = copy.copy(x), copy.deepcopy([x])[0]
        shallow += 1
        deep *= 2
        return x, shallow, deep

    for got, want in zip(reference(f)(X), f(X), strict=True):
        np.testing.assert_array_equal(got, want)

    def steps(x: Any) -> Iterator[Any]:
        yield x + 1

    with pytest.raises(TypeError, match="iterator"):
        reference(steps)(X)


def test_reciprocals_of_integers() -> None:
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64):
        x = np.array([0, 1, 2, 7], dtype)
        with np.errstate(all="ignore"):
            want = np.reciprocal(x), np.reciprocal(-x)
        np.testing.assert_array_equal(jit(lambda f, x: (f(x), f(-x)))(np.reciprocal, x), want)


def test_stencils_in_a_loop_are_cut() -> None:
    """Each step reads the one before at three places: 3**14 of them, were there no cuts."""

    def heat(u: Any) -> Any:
        for _ in range(14):
            u = u + 0.1 * (np.roll(u, 1, 1) + np.roll(u, -1, 1) - 2 * u)
        return u

    np.testing.assert_allclose(jit(heat)(X), heat(X), rtol=1e-4, atol=1e-5)


IN_PYTHON: dict[str, Any] = {
    "a modulus": lambda x, n: x * pow(n, 2, 5),
    "a list times a number": lambda x, n: x * len([0] * n),
    "a number times a tuple": lambda x, n: x * sum(n * (1, 2)),
    "a text times a number": lambda x, n: x * len("ab" * n),
    "str()": lambda x, n: x * len(str(n)),
    "%s": lambda x, n: x * len("%s" % n),  # noqa: UP031 # this is what is asked here
    "format()": lambda x, n: x * len(f"{n}"),
    "a comparison with a tuple": lambda x, n: x * (2 if n == (1, 2) else 3),
}


@pytest.mark.parametrize("name", IN_PYTHON)
def test_what_only_python_does_with_a_number_is_compiled_in(name: str) -> None:
    f = reference(IN_PYTHON[name])
    x = np.arange(1.0, 4.0)
    for n in (3, 12, 3):
        np.testing.assert_array_equal(f(x, n), IN_PYTHON[name](x, n))
    assert f.stats().traces == 2


def test_a_modulus_of_an_array() -> None:
    with pytest.raises(TypeError, match="modulus"):
        reference(lambda x: pow(x, 2, 5))(np.arange(3))


def test_a_sequence_beside_what_numpy_made_of_a_number() -> None:
    f = reference(lambda x, n: x * (np.sqrt(n) * [1.0, 2.0]))
    np.testing.assert_allclose(f(np.ones(2), 4), [2.0, 4.0])
