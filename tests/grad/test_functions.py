"""``grad`` and its kin on functions of NumPy arrays, run as kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from differences import slopes

import ge2rt
from ge2rt import jit
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError

RNG = np.random.default_rng(11)
X = RNG.standard_normal((4, 3))
W = RNG.standard_normal((3, 5))


def loss(x: Any, w: Any) -> Any:
    return np.mean(np.tanh(x @ w) ** 2)


def near(got: Any, want: Any, close: float = 1e-7) -> None:
    np.testing.assert_allclose(got, want, rtol=close, atol=close)


def test_gradient_of_one_and_of_several_arguments() -> None:
    gx = ge2rt.grad(loss)(X, W)
    near(gx, slopes(lambda x: loss(x, W), X, 1.0))
    gw, gx2 = ge2rt.grad(loss, argnums=(1, 0))(X, W)
    near(gw, slopes(lambda w: loss(X, w), W, 1.0))
    np.testing.assert_array_equal(gx2, gx)
    near(ge2rt.grad(loss, argnums=-1)(X, W), gw)


def test_value_and_gradient_with_more_results() -> None:
    def with_more(x: Any) -> Any:
        y = np.sin(x)
        return y.sum(), {"y": y, "n": 3}

    (value, more), gradient = ge2rt.value_and_grad(with_more, has_aux=True)(X)
    near(value, np.sin(X).sum())
    near(more["y"], np.sin(X))
    assert more["n"] == 3
    near(gradient, np.cos(X))
    only, _ = ge2rt.grad(with_more, has_aux=True)(X)
    near(only, gradient)


@dataclass
class Layer:
    w: Any
    b: Any


def test_trees_keep_their_structure() -> None:
    def f(model: Any, x: Any) -> Any:
        return np.maximum(x @ model["one"].w + model["one"].b, 0).sum() * model["scale"][0]

    model = {"one": Layer(W, RNG.standard_normal(5)), "scale": [np.float64(2.0), np.ones(2)]}
    got = ge2rt.grad(f)(model, X)
    assert isinstance(got["one"], Layer)
    near(got["one"].w, slopes(lambda w: f({**model, "one": Layer(w, model["one"].b)}, X), W, 1.0))
    near(got["scale"][0], f({**model, "scale": [1.0]}, X))
    np.testing.assert_array_equal(got["scale"][1], np.zeros(2))


def test_forward_and_backward_are_one_graph() -> None:
    @jit
    def step(x: Any, w: Any) -> Any:
        value, slope = ge2rt.value_and_grad(loss, argnums=1)(x, w)
        return value, w - 0.1 * slope

    value, moved = step(X, W)
    near(value, loss(X, W))
    near(moved, W - 0.1 * slopes(lambda w: loss(X, w), W, 1.0))
    assert step.stats().traces == 1


def test_a_softmax_layer_in_f32() -> None:
    def cross_entropy(w: Any, x: Any, label: Any) -> Any:
        rows = np.arange(x.shape[0])
        return -np.mean(ge2rt.log_softmax(x @ w)[rows, label])

    x, w = X.astype(np.float32), W.astype(np.float32)
    label = np.array([0, 4, 2, 2])
    logits = X @ W
    share = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    share[np.arange(4), label] -= 1
    got = ge2rt.grad(cross_entropy)(w, x, label)
    assert got.dtype == np.float32
    near(got, X.T @ share / 4, 1e-5)


def test_gradient_of_a_gradient_and_a_closure_over_the_outer_argument() -> None:
    third = ge2rt.grad(ge2rt.grad(ge2rt.grad(lambda x: x**4)))
    near(third(2.0), 48.0)
    # d/dx of x * (d/dy (x * y)^2 at y = 3) = d/dx 6 x^3; mixing up x and y would give another
    got = ge2rt.grad(lambda x: x * ge2rt.grad(lambda y: (x * y) ** 2)(3.0))(2.0)
    near(got, 6 * 3 * 2.0**2)


def test_numbers_and_captured_arrays() -> None:
    assert ge2rt.grad(lambda x: x * x)(3.0) == 6.0
    near(ge2rt.grad(lambda x: (x @ W).sum())(X), np.tile(W.sum(1), (4, 1)))


def test_pullback_and_tangents_are_transposes() -> None:
    def f(x: Any, w: Any) -> Any:
        return np.exp(x @ w), x.sum(0)

    out, pull = ge2rt.vjp(f, X, W)
    near(out[0], np.exp(X @ W))
    g = (RNG.standard_normal((4, 5)), RNG.standard_normal(3))
    gx, gw = pull(g)
    t = RNG.standard_normal(X.shape), RNG.standard_normal(W.shape)
    value, moved = ge2rt.jvp(f, (X, W), t)
    near(value[1], X.sum(0))
    near((moved[0] * g[0]).sum() + (moved[1] * g[1]).sum(), (gx * t[0]).sum() + (gw * t[1]).sum())
    step = 1e-6
    both = [f(X + s * t[0], W + s * t[1])[0] for s in (step, -step)]
    near(moved[0], (both[0] - both[1]) / (2 * step), 1e-5)


def test_the_pullback_inside_of_a_jitted_function() -> None:
    @jit
    def f(x: Any, g: Any) -> Any:
        y, pull = ge2rt.vjp(np.sin, x)
        return y, pull(g)[0]

    g = RNG.standard_normal(X.shape)
    y, back = f(X, g)
    near(y, np.sin(X))
    near(back, g * np.cos(X))


def test_jacobians_both_ways_and_a_hessian() -> None:
    wide = ge2rt.jacobian(lambda x: np.sin(x[:2]) * x[2])  # fewer results than arguments
    tall = ge2rt.jacobian(lambda x: np.outer(x, x))
    x = X[0]
    want = np.zeros((2, 3))
    want[0, 0], want[1, 1] = np.cos(x[:2]) * x[2]
    want[:, 2] = np.sin(x[:2])
    near(wide(x), want)
    eye = np.eye(3)
    near(tall(x), np.einsum("ik,j->ijk", eye, x) + np.einsum("jk,i->ijk", eye, x))
    near(ge2rt.hessian(lambda x: (x[0] * x[1] ** 2) + np.exp(x[2]))(x),
         [[0, 2 * x[1], 0], [2 * x[1], 2 * x[0], 0], [0, 0, np.exp(x[2])]])  # fmt: skip


def test_batches() -> None:
    def one(x: Any, w: Any) -> Any:
        return ge2rt.softmax(x @ w), x.max()

    many = ge2rt.vmap(one, in_axes=(0, None))
    y, top = many(X, W)
    weights = np.exp(X @ W)
    near(y, weights / weights.sum(1, keepdims=True))
    np.testing.assert_array_equal(top, X.max(1))
    turned = ge2rt.vmap(lambda x: x * 2, in_axes=1, out_axes=1)(X)
    np.testing.assert_array_equal(turned, X * 2)
    pair = ge2rt.vmap(lambda x: (x * 2, {"a": x + 1, "b": x[:2]}), out_axes=(1, 0))(X)
    np.testing.assert_array_equal(pair[0], (X * 2).T)
    np.testing.assert_array_equal(pair[1]["a"], X + 1)
    np.testing.assert_array_equal(pair[1]["b"], X[:, :2])
    last = ge2rt.vmap(lambda x: (np.outer(x, x), x), out_axes=[-1, -2])(X)
    np.testing.assert_array_equal(last[0], np.einsum("ni,nj->ijn", X, X))
    np.testing.assert_array_equal(last[1], X)
    each = ge2rt.vmap(ge2rt.grad(loss), in_axes=(0, None))(X[:, None], W)
    near(each, np.stack([slopes(lambda x: loss(x, W), x[None], 1.0) for x in X]))


def test_detached_values_are_constants() -> None:
    near(ge2rt.grad(lambda x: (x * ge2rt.detach(x)).sum())(X), X)


REFUSED = [
    (lambda: ge2rt.grad(lambda x: x)(X), InvalidTypeError, "does not return one 0-d float"),
    (lambda: ge2rt.grad(lambda x: x.sum())(np.arange(3)), InvalidTypeError, "only floating point"),
    (lambda: ge2rt.grad(lambda x: x.sum(), argnums=1)(X), InvalidArgumentError, "no positional"),
    (lambda: ge2rt.grad(3), InvalidTypeError, "not a function"),
    (lambda: ge2rt.vjp(np.sin, X)[1](X[:2]), InvalidArgumentError, "another type"),
    (lambda: ge2rt.vjp(np.sin, X)[1]((X, X)), InvalidArgumentError, "trees differ"),
    (lambda: ge2rt.jvp(np.sin, (X,), ()), InvalidArgumentError, "differ in number"),
    (lambda: ge2rt.vmap(np.add)(X, W), InvalidArgumentError, "number of examples"),
    (lambda: ge2rt.vmap(np.sin, in_axes=3)(X), InvalidArgumentError, "no axis 3"),
    (lambda: ge2rt.vmap(np.sin, in_axes=None)(X), InvalidArgumentError, "in_axes"),
    (lambda: ge2rt.vmap(np.sum, out_axes=1)(X), InvalidArgumentError, "no axis 1"),
    (lambda: ge2rt.vmap(np.sin, out_axes=(0, 1))(X), InvalidArgumentError, "an axis, got"),
    (lambda: ge2rt.vmap(lambda x: (x, x), out_axes=[0])(X), InvalidArgumentError, r"2 of them.*0,"),
    (lambda: ge2rt.jacobian(lambda x: (x, x))(X), InvalidTypeError, "not one array"),
]


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED)
def test_what_is_refused(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_a_symbol_that_is_kept_beyond_its_function_is_refused() -> None:
    kept = []

    def f(x: Any) -> Any:
        kept.append(x)
        return x.sum()

    @jit
    def leaking(x: Any) -> Any:
        return ge2rt.grad(f)(x) + kept[0]

    with pytest.raises(InvalidTypeError, match="used outside of it"):
        leaking(X)


def test_a_function_that_changes_its_argument_is_refused() -> None:
    def f(x: Any) -> Any:
        x *= 2
        return x.sum()

    with pytest.raises(InvalidTypeError, match="in place"):
        ge2rt.grad(f)(X)


TRANSFORMS = {
    "grad": lambda f: ge2rt.grad(f),
    "value_and_grad": lambda f: ge2rt.value_and_grad(f),
    "jacobian": lambda f: ge2rt.jacobian(f),
    "hessian": lambda f: ge2rt.hessian(f),
    "vmap": lambda f: ge2rt.vmap(f),
    "vmap of grad": lambda f: ge2rt.vmap(ge2rt.grad(f)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_jit_of_a_derivative_is_the_derivative(name: str) -> None:
    """And not the function that was differentiated, which ``__wrapped__`` names."""
    made = TRANSFORMS[name](lambda r: (r * r * r).sum())
    x = np.arange(6.0).reshape(3, 2) if "vmap" in name else np.arange(4.0)
    wanted, found = made(x), ge2rt.jit(made)(x)
    again = ge2rt.jit(ge2rt.jit(made))(x)
    for one in (found, again):
        assert type(one) is type(wanted)
        pairs = zip(wanted, one, strict=True) if isinstance(wanted, tuple) else [(wanted, one)]
        for a, b in pairs:
            np.testing.assert_array_equal(a, b)
    if name == "grad":
        np.testing.assert_allclose(found, 3 * x**2)


def test_jit_again_keeps_what_was_static() -> None:
    @ge2rt.jit(static=("n",))
    def power(x, n):
        return sum(x**k for k in range(n))

    x = np.arange(3.0)
    np.testing.assert_allclose(ge2rt.jit(power)(x, n=3), 1 + x + x**2)


def test_vmap_over_tensors_is_recorded() -> None:
    x = ge2rt.tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    y = ge2rt.vmap(lambda r: (r * r).sum())(x)
    np.testing.assert_allclose(y.detach().numpy(), [1, 13, 41])
    (y * ge2rt.tensor([1.0, 2.0, 3.0], dtype="f64")).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.arange(6.0).reshape(3, 2) * [[1], [2], [3]])
    slopes = ge2rt.vmap(ge2rt.grad(lambda r: (r**3).sum()))(x.detach())
    np.testing.assert_allclose(slopes.numpy(), 3 * np.arange(6.0).reshape(3, 2) ** 2)
