"""``backward`` of tensors: gradients against differences, saved values, hooks, what is refused."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from differences import slopes

import ge2rt
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError

RNG = np.random.default_rng(5)
X, W = RNG.standard_normal((4, 3)), RNG.standard_normal((3, 5))


def leaf(values: Any) -> Any:
    return ge2rt.tensor(values, requires_grad=True)


def near(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-6, atol=1e-7)


def test_a_chain_of_operators_and_views() -> None:
    x, w, b = leaf(X), leaf(W), leaf(np.zeros(5))
    h = (x @ w + b).tanh()
    y = (h.T[::2, 1:].reshape(-1) ** 2).sum() + h[0, 1:4].mean() - h.flip(0)[:, None].max()
    y.backward()

    def f(xv: Any, wv: Any, bv: Any) -> Any:
        h = np.tanh(xv @ wv + bv)
        return (h.T[::2, 1:] ** 2).sum() + h[0, 1:4].mean() - h.max()

    near(x.grad, slopes(lambda v: f(v, W, np.zeros(5)), X, 1.0))
    near(w.grad, slopes(lambda v: f(X, v, np.zeros(5)), W, 1.0))
    near(b.grad, slopes(lambda v: f(X, W, v), np.zeros(5), 1.0))


VIEWS = {
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "expand": lambda x: x[:, :1].expand(-1, 4),
    "steps": lambda x: x[::-2, 1],
    "new axis": lambda x: x[:, None, 1:, None],
    "squeeze": lambda x: x[1:2].squeeze(0),
    "permute": lambda x: x.unsqueeze(0).permute(2, 0, 1),
    "indices": lambda x: x[[0, 2, 0]],
    "concat": lambda x: ge2rt.ops.concat([x, x[:1]], axis=0),
    "clone": lambda x: x.clone(),
    "astype": lambda x: x.astype("f32").astype("f64"),
    "where": lambda x: ge2rt.ops.where(x > 0, x, 0.5),
}


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_through(name: str) -> None:
    x = leaf(X)
    y = VIEWS[name](x)
    g = RNG.standard_normal(y.shape)
    y.backward(g)
    close = 1e-2 if name == "astype" else 1e-6
    want = slopes(lambda v: VIEWS[name](ge2rt.tensor(v)).numpy(), X, g,
                  1e-3 if name == "astype" else 1e-6)  # fmt: skip
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=close, atol=close)


def test_gradients_add_up_and_broadcast_inputs_are_summed() -> None:
    b = leaf(np.zeros(3))
    for _ in range(2):
        (ge2rt.tensor(X) * b).sum().backward()
    near(b.grad, 2 * X.sum(0))


def test_gradients_of_gradients() -> None:
    x = leaf(np.array([0.3, -0.7, 1.1]))
    (first,) = ge2rt.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    near(first, np.cos(x.detach().numpy()) * x.detach().numpy() + np.sin(x.detach().numpy()))
    (second,) = ge2rt.autograd.grad(first.sum(), x, create_graph=True)
    values = x.detach().numpy()
    near(second, 2 * np.cos(values) - values * np.sin(values))
    second.sum().backward()
    near(x.grad, -3 * np.sin(values) - values * np.cos(values))


def test_a_saved_value_that_was_changed_is_an_error_that_names_the_operator() -> None:
    x = leaf(X)
    y = ge2rt.tensor(X)
    z = (x * y).sum()
    y += 1
    with pytest.raises(InvalidArgumentError, match="gradient of multiply needs was changed"):
        z.backward()
    x, y = leaf(X), ge2rt.tensor(X)
    z = (x + y).sum()
    y += 1  # a sum does not need its operands
    z.backward()
    near(x.grad, np.ones_like(X))


def test_in_place_forms_go_on_with_the_record() -> None:
    x = leaf(X)
    y = x * 2
    y += x
    y.exp_()
    y.sum().backward()
    near(x.grad, 3 * np.exp(3 * X))
    with pytest.raises(InvalidArgumentError, match="whose gradient is wanted"):
        x += 1
    with pytest.raises(InvalidArgumentError, match="whose gradient is wanted"):
        x[0] = 1
    y = x * 2
    y.copy_(x)
    y.sum().backward()
    near(x.grad, 3 * np.exp(3 * X) + 1)
    y = x * 2
    y.copy_(np.ones_like(X))  # a constant from now on: as in PyTorch its gradient is zero
    x.grad = None
    y.sum().backward()
    near(x.grad, 0 * X)
    with ge2rt.no_grad():
        x -= 0.5
    near(x, X - 0.5)


def test_views_of_what_is_changed_meanwhile_go_on_with_it() -> None:
    x = leaf(X)
    y = x * 1
    row = y[0]
    y *= 2
    row.sum().backward()
    want = 0 * X
    want[0] = 2
    near(x.grad, want)


def test_a_record_that_is_given_up_holds_no_memory() -> None:
    x = leaf(np.ones(3))
    factor = ge2rt.tensor(np.full(3, 2.0))
    z = x * factor
    kept = [weakref.ref(factor.array), weakref.ref(factor.storage())]
    z.backward(np.ones(3))
    del factor
    gc.collect()
    assert z.history is not None
    assert all(each() is None for each in kept)


def test_threads_add_to_one_gradient() -> None:
    x = leaf(np.ones(3))

    def go_back() -> None:
        for _ in range(100):
            (x * 1.0).sum().backward()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=go_back) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(before)
    near(x.grad, np.full(3, 400.0))


def test_the_record_is_given_up_by_backward_unless_it_is_retained() -> None:
    x = leaf(X)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    near(x.grad, 4 * X)
    with pytest.raises(InvalidArgumentError, match="retain_graph"):
        y.backward()


def test_hooks_see_and_change_gradients() -> None:
    x = leaf(X)
    seen = []
    y = x * 3
    remove = y.register_hook(lambda g: seen.append(g.shape))
    x.register_hook(lambda g: g * 10)
    y.sum().backward()
    near(x.grad, np.full_like(X, 30))
    assert seen == [(4, 3)]
    remove()
    y = x * 3
    y.sum().backward()
    assert len(seen) == 1


def test_nothing_is_recorded_without_need() -> None:
    x = leaf(X)
    with ge2rt.no_grad():
        y = x * 2
        with ge2rt.enable_grad():
            z = x * 2
    assert not y.requires_grad
    assert z.requires_grad
    assert not (ge2rt.tensor(X) * 2).requires_grad
    assert not (x > 0).requires_grad
    assert not x.detach().requires_grad
    assert x.detach().storage() is x.storage()
    assert (x.argmax() * 1).history is None


def test_another_thread_records_by_itself() -> None:
    x, seen = leaf(X), []
    with ge2rt.no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * 2).requires_grad))
        thread.start()
        thread.join()
        seen.append((x * 2).requires_grad)
    assert seen == [True, False]


def test_a_record_holds_no_more_than_it_needs() -> None:
    x = leaf(X)
    y = (x * 2).sum()
    gone = weakref.ref(y.history[0])
    del y
    gc.collect()
    assert gone() is None


def test_long_chains_need_no_recursion() -> None:
    x = leaf(np.ones(2))
    y = x
    for _ in range(3000):
        y = y * 1.0
    y.sum().backward()
    near(x.grad, [1, 1])


class Cube(ge2rt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * x * scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * ctx.scale * x * x, None


def test_a_function_of_ones_own() -> None:
    x = leaf(X)
    y = Cube.apply(x, 2.0)
    y.sum().backward()
    near(x.grad, 6 * X**2)
    assert y.history[0].name == "Cube"
    with ge2rt.no_grad():
        assert not Cube.apply(x, 2.0).requires_grad
    z = ge2rt.tensor(X)
    x = leaf(X)
    y = Cube.apply(x * 1, 2.0)
    first = y.history[0].leaves[0]
    with ge2rt.no_grad():
        first.fill_(0)
    with pytest.raises(InvalidArgumentError, match="saved tensor 0 was changed"):
        y.sum().backward()
    del z


def test_a_jitted_function_is_one_step() -> None:
    @ge2rt.jit
    def layer(p: Any, x: Any) -> Any:
        return {"y": np.tanh(x @ p["w"]), "rows": x.shape[0]}

    w, x = leaf(W), leaf(X)
    out = layer({"w": w}, x)
    assert out["rows"] == 4
    assert out["y"].history[0].name == "layer"
    out["y"].sum().backward()
    near(w.grad, slopes(lambda v: np.tanh(X @ v), W, np.ones((4, 5))))
    near(x.grad, slopes(lambda v: np.tanh(v @ W), X, np.ones((4, 5))))


REFUSED = [
    (lambda x: (x * 2).backward(), InvalidArgumentError, "only a 0-d tensor"),
    (lambda x: x.detach().sum().backward(), InvalidArgumentError, "nothing is recorded"),
    (lambda x: (x * 2).backward(ge2rt.ones(3, 4, dtype="f64")), InvalidTypeError, "not like"),
    (lambda x: x.numpy(), InvalidTypeError, "detach"),
    (lambda x: ge2rt.tensor([1, 2], requires_grad=True), InvalidTypeError, "floating point"),
    (lambda x: (x * 2).requires_grad_(False), InvalidArgumentError, "keeps its record"),
    (lambda x: ge2rt.autograd.grad(x.sum(), leaf(X)), InvalidArgumentError, "allow_unused"),
    (lambda x: x.as_strided((2,), (1,)), InvalidTypeError, "no derivative"),
    (lambda x: ge2rt.ops.exp(x, out=ge2rt.empty(4, 3, dtype="f64")), InvalidArgumentError, "out="),
    (lambda x: x.detach().register_hook(print), InvalidArgumentError, "no gradient"),
]


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED)
def test_what_is_refused(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(leaf(X))
