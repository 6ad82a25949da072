"""What a tester found by comparing with NumPy, differences and PyTorch."""

from __future__ import annotations

import types
from functools import partial
from typing import Any

import numpy as np
import pytest
from differences import slopes

import ge2rt
from ge2rt import nn, optim
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from ge2rt.nn import functional
from ge2rt.sparse import Coo, from_dense

F32 = np.float32
X = np.array([0.5, -1.0, 2.0])


def second(function: Any, x: np.ndarray) -> np.ndarray:
    t = ge2rt.tensor(x, requires_grad=True)
    (g,) = ge2rt.autograd.grad(function(t).sum(), t, create_graph=True)
    return ge2rt.autograd.grad(g.sum(), t)[0].numpy()


READ_THEIR_RESULT = {
    "exp": (lambda t: t.exp(), X, np.exp(X)),
    "tanh": (lambda t: t.tanh(), X, -2 * np.tanh(X) * (1 - np.tanh(X) ** 2)),
    "divide": (lambda t: t / (t + 1), X + 2, -2 / (X + 3) ** 3),
    "sqrt": (lambda t: (t * t).sqrt(), X, 0 * X),
    "jitted": (ge2rt.jit(lambda a: np.exp(a)), X, np.exp(X)),
    "cumprod": (lambda t: t.cumprod(0), np.arange(1.0, 5), [32, 24, 17, 11]),
    "softmax": (None, X, None),
}


@pytest.mark.parametrize("name", READ_THEIR_RESULT)
def test_second_derivatives_through_what_a_pullback_keeps(name: str) -> None:
    function, x, wanted = READ_THEIR_RESULT[name]
    if wanted is None:

        def soft(t: Any) -> Any:
            e = np.exp(t - t.max())
            return (e / e.sum() * t).sum()

        total = ge2rt.hessian(soft)(x).sum(0)
        np.testing.assert_allclose(second(lambda t: ge2rt.softmax(t) * t, x), total, atol=1e-10)
        return
    np.testing.assert_allclose(second(function, x), wanted, rtol=1e-7, atol=1e-9)


def test_a_kernel_without_a_second_derivative_says_so() -> None:
    x = ge2rt.tensor(np.ones((2, 3), F32), requires_grad=True)
    y = (ge2rt.kernel_operator("SOFTMAX")(x) * x * x).sum()
    (g,) = ge2rt.autograd.grad(y, x, create_graph=True)
    with pytest.raises(UnsupportedError, match="gradient of SOFTMAX has no gradient"):
        ge2rt.autograd.grad(g.sum(), x)


def test_what_is_needed_is_asked_for_the_call_at_hand() -> None:
    z = ge2rt.zeros(0, requires_grad=True)
    t = ge2rt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = t * 1
    y = (h * h).sum()
    (z * z).sum().backward()  # a form of the same pullback that reads nothing
    h.add_(10.0)
    with pytest.raises(InvalidArgumentError, match="changed in place"):
        y.backward()


class Twice(ge2rt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        return a + b

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return cotangents[0], cotangents[0]


def test_each_leaf_has_a_gradient_of_its_own() -> None:
    a, b = (ge2rt.ones(2, requires_grad=True) for _ in range(2))
    (Twice.apply(a, b) * 8).sum().backward()
    assert optim.GradScaler(factor=2.0).step(optim.SGD([a, b], lr=0.0))
    np.testing.assert_array_equal([a.grad.numpy(), b.grad.numpy()], 4)
    leaf, given = ge2rt.ones(2, requires_grad=True), ge2rt.ones(2)
    leaf.backward(given)
    leaf.grad.multiply_(3.0)
    np.testing.assert_array_equal(given.numpy(), 1)


def test_hooks_see_the_whole_gradient_once() -> None:
    t = ge2rt.ones(2, requires_grad=True)
    seen: list[float] = []
    t.register_hook(lambda g: seen.append(g[0].item()) or g.clip(-1, 1))
    middle = t * 1.0
    middle.register_hook(lambda g: seen.append(g[0].item()) or g * 2)
    (middle * 3 + middle * 4).sum().backward()
    assert seen == [7, 14]
    np.testing.assert_array_equal(t.grad.numpy(), 1)


def test_sparse_integers_and_operators_from_numpy() -> None:
    c = Coo([[0, 1, 1, 1], [0, 1, 2, 2]], [1, 2, 3, 4], (2, 3))
    np.testing.assert_array_equal(c.to_dense().numpy(), [[1, 0, 0], [0, 2, 7]])
    np.testing.assert_array_equal((c @ np.array([1, 2, 3])).numpy(), [1, 25])
    np.testing.assert_array_equal(c.coalesce().values.numpy(), [1, 2, 7])
    mask = ge2rt.tensor(np.array([[False, True], [True, False]]))
    np.testing.assert_array_equal(from_dense(mask).to_dense().numpy(), mask.numpy())
    left = np.arange(4.0, dtype=F32).reshape(2, 2)
    f = Coo([[0, 1], [0, 2]], np.array([2.0, 3], F32), (2, 3))
    np.testing.assert_array_equal((left @ f).numpy(), left @ f.to_dense().numpy())
    np.testing.assert_array_equal((f - f).to_dense().numpy(), 0)
    np.testing.assert_array_equal((f / 2).to_dense().numpy(), f.to_dense().numpy() / 2)


act: Any = np.tanh
cfg = types.SimpleNamespace(act=np.tanh)
kind: Any = np.float32
part: Any = slice(0, 2)
chosen: Any = {1}
scaled: Any = partial(lambda s, x: x * s, 2.0)


def test_another_object_under_a_captured_name_is_another_function() -> None:
    global act, kind, part, scaled
    x = np.arange(1.0, 5)
    made = {
        "ufunc": ge2rt.jit(lambda x: act(x)), "attribute": ge2rt.jit(lambda x: cfg.act(x)),
        "type": ge2rt.jit(lambda x: x.astype(kind)), "slice": ge2rt.jit(lambda x: x[part]),
        "set": ge2rt.jit(lambda x: x * len(chosen)), "partial": ge2rt.jit(lambda x: scaled(x)),
        "grad": ge2rt.grad(lambda x: act(x).sum()),
    }  # fmt: skip
    for f in made.values():
        f(x)
    act, cfg.act, kind, part = np.sin, np.sin, np.float64, slice(1, 4)
    chosen.add(3)
    scaled = partial(scaled.func, 5.0)
    wanted = {"ufunc": np.sin(x), "attribute": np.sin(x), "type": x, "slice": x[1:4],
              "set": 2 * x, "partial": 5 * x, "grad": np.cos(x)}  # fmt: skip
    for name, f in made.items():
        found = f(x)
        assert found.dtype == wanted[name].dtype, name
        np.testing.assert_allclose(found, wanted[name], rtol=1e-12, err_msg=name)


def test_autocast_is_where_it_is_written() -> None:
    w, q = np.ones((4, 33), F32), np.ones((2, 33), F32)
    plain = ge2rt.jit(lambda x, w: functional.linear(x, w))
    with nn.autocast("f16"):
        assert plain(q, w).dtype == np.float32
    assert plain(q, w).dtype == np.float32

    def inside(x: Any, w: Any) -> Any:
        with nn.autocast("f16"):
            return functional.linear(x, w)

    assert ge2rt.jit(inside)(q, w).dtype == np.float16


def test_arguments_by_name_mean_the_same_inside_a_trace() -> None:
    a = np.arange(6.0).reshape(2, 3)
    w = a + 1
    v = ge2rt.vmap(lambda a, s=None: a * s.sum())
    shared = a * w.sum()
    np.testing.assert_array_equal(v(a, s=w), shared)
    np.testing.assert_array_equal(ge2rt.jit(lambda a, w: v(a, s=w))(a, w), shared)
    np.testing.assert_array_equal(ge2rt.vmap(lambda a, s=1.0: a * s)(a, s=2.0), 2 * a)
    x = np.arange(1.0, 5)
    g = ge2rt.grad(lambda a, b=None: (a * b * b).sum(), argnums=-1)
    for found in (g(x, b=3 * x), ge2rt.jit(lambda x, y: g(x, b=y))(x, 3 * x)):
        np.testing.assert_allclose(found, 9 * x * x)  # the last positional argument is a
    both = ge2rt.grad(lambda a: (a * a).sum(), argnums=(0, 0))(x)
    assert len(both) == 2


def test_static_tuples_are_told_apart() -> None:
    times = ge2rt.jit(lambda x, c: x * c[0], static=("c",))
    n = np.arange(3)
    assert [times(n, (c,)).dtype.kind for c in (2, 2.0)] == ["i", "f"]
    over = ge2rt.jit(lambda x, c: x / c[0], static=("c",))
    with np.errstate(divide="ignore"):
        assert [over(np.ones(1), (z,))[0] for z in (0.0, -0.0)] == [np.inf, -np.inf]


def test_assignment_at_indices_casts_as_the_other_forms_do() -> None:
    i = ge2rt.tensor([1, 2, 3])
    for value in (9.7, ge2rt.tensor([2.6])):
        with pytest.raises(InvalidTypeError, match="cannot be written"):
            i[[0]] = value
    np.testing.assert_array_equal(i.numpy(), [1, 2, 3])


@pytest.mark.parametrize("function", [np.fmax, np.fmin])
def test_the_gradient_goes_to_the_operand_that_is_a_number(function: Any) -> None:
    g = ge2rt.grad(lambda a, b: function(a, b).sum(), argnums=(0, 1))
    one, nan = np.ones(1), np.full(1, np.nan)
    assert [s[0] for s in g(one, nan)] == [1, 0]
    assert [s[0] for s in g(nan, one)] == [0, 1]


@pytest.mark.parametrize("x", [[2.0, 0, 3], [0.0, 0, 3], [1.0, 2, 3], [0.0], [2.0, 0, 3, 0, 5]])
def test_products_with_zeros_have_gradients(x: list[float]) -> None:
    values = np.array(x)
    pull = np.arange(1.0, len(x) + 1)
    for function in (np.prod, lambda a: (np.cumprod(a) * pull).sum()):
        found = ge2rt.grad(function)(values)
        np.testing.assert_allclose(found, slopes(function, values, 1.0), atol=1e-7)


def test_a_method_is_read_anew() -> None:
    class Model:
        k = 2.0

        def f(self, x: Any) -> Any:
            return x * self.k

    m, x = Model(), np.arange(3.0)
    np.testing.assert_array_equal(ge2rt.vjp(m.f, x)[1](np.ones(3))[0], 2)
    m.k = 5.0
    value, pull = ge2rt.vjp(m.f, x)
    np.testing.assert_array_equal(value, 5 * x)
    np.testing.assert_array_equal(pull(np.ones(3))[0], 5)
    np.testing.assert_array_equal(ge2rt.jvp(m.f, (x,), (np.ones(3),))[1], 5)


def test_modules_without_a_seed_drop_apart() -> None:
    x = ge2rt.ones(4, 33)
    assert (nn.Dropout()(x).numpy() != nn.Dropout()(x).numpy()).any()


def test_each_parameter_counts_its_own_steps() -> None:
    """One whose gradient comes later is corrected as if it had begun then, as PyTorch does it."""
    early, late = (nn.Parameter(np.ones(2, F32)) for _ in range(2))
    both = optim.Adam([early, late], 0.1)
    for step in range(4):
        early.grad = ge2rt.full((2,), 0.5)
        late.grad = ge2rt.full((2,), 0.5) if step >= 2 else None
        both.step()
    alone = nn.Parameter(np.ones(2, F32))
    single = optim.Adam([alone], 0.1)
    for _ in range(2):
        alone.grad = ge2rt.full((2,), 0.5)
        single.step()
    np.testing.assert_array_equal(late.detach().numpy(), alone.detach().numpy())
    other = optim.Adam([early, late], 0.1)
    other.load_state_dict(both.state_dict())
    assert other.done == both.done


def test_a_tensor_from_outside_of_a_jitted_function_is_refused() -> None:
    w = ge2rt.ones(3)
    with pytest.raises(InvalidTypeError, match="pass it as an argument"):
        ge2rt.jit(lambda x: x * w)(np.ones(3, F32))
    norm = nn.BatchNorm(3).eval()
    with pytest.raises(InvalidTypeError, match="functional_call"):
        ge2rt.jit(lambda x: norm(x))(np.ones((4, 3), F32))
