"""Writing into parts of tensors while a derivative is recorded, against differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from differences import slopes

import ge2rt
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError

RNG = np.random.default_rng(9)
X = RNG.standard_normal((4, 3))
C = RNG.standard_normal((4, 3))


def same(module: Any, x: Any) -> Any:
    """A fresh array of the values of ``x``, with its history."""
    return x * 1


def a_row_from_another(np: Any, x: Any) -> Any:
    y = same(np, x)
    y[1] = x[0] * x[2]
    return y * y


def a_view_scaled(np: Any, x: Any) -> Any:
    y = same(np, x)
    row = y[2]
    row *= 3
    return y * row


def turned(np: Any, x: Any) -> Any:
    y = same(np, x)
    y.T[::-1][1:, ::2] = x[:2, 0] * 2
    return y * y


def a_constant(np: Any, x: Any) -> Any:
    y = x * x
    y[:, 1] = 5.0
    return y * y


def twice(np: Any, x: Any) -> Any:
    y = same(np, x)
    y[0] = y[1]
    y[1:3] += y[0:2] * 2
    return y * y


def spread(np: Any, x: Any) -> Any:
    y = same(np, x)
    y[1:] = x[0]
    return y * y * y


def where_a_mask_holds(np: Any, x: Any) -> Any:
    y = x * x
    y[x > 0] = 2.0
    return y * y


def set_to_zero(np: Any, x: Any) -> Any:
    y = x * x
    if np is ge2rt:
        y[0].zero_()
        y.T[1].fill_(3.0)
    else:
        y[0], y.T[1] = 0, 3
    return y * x


def rows_at_indices(np: Any, x: Any) -> Any:
    y = x * x
    y[[0, 2]] = x[1] * 3  # one row into both
    y[[3, 1], [2, -1]] = 7.0
    return y * y


def the_last_of_equal_indices(np: Any, x: Any) -> Any:
    y = same(np, x)
    y[[1, 1, 0]] = x[1:] * 2
    return y * x


def a_view_at_indices(np: Any, x: Any) -> Any:
    y = same(np, x)
    turned = y.T[::-1]
    turned[:, [0, 3]] = x[:2].T * x[1:3].T
    return y * y


def packed_where_a_mask_holds(np: Any, x: Any) -> Any:
    y = same(np, x)
    y[X > 0] = x.reshape(-1)[: int((X > 0).sum())] * 3
    y[X[:, 0] > 0, 1:] = x[0, 1:] * 2
    return y * y


def read_where_a_mask_holds(np: Any, x: Any) -> Any:
    y = x * 1
    y[[0, 2]] = (x[:2] * 2)[None, None]
    taken = (x * x)[X < 0.3]
    y.T[:, X[:, 1] > 0] += taken[0]
    return y * taken.sum()


CASES = [
    packed_where_a_mask_holds,
    read_where_a_mask_holds,
    rows_at_indices,
    the_last_of_equal_indices,
    a_view_at_indices,
    where_a_mask_holds,
    set_to_zero,
    a_row_from_another,
    a_view_scaled,
    turned,
    a_constant,
    twice,
    spread,
]


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_gradients_of_what_is_written(f: Callable[..., Any]) -> None:
    x = ge2rt.tensor(X, requires_grad=True)
    y = f(ge2rt, x)
    np.testing.assert_allclose(y.detach().numpy(), f(np, X), rtol=1e-12)
    y.backward(ge2rt.tensor(C))
    want = slopes(lambda v: f(np, v), X, C)
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("f", [a_row_from_another, twice], ids=lambda f: f.__name__)
def test_second_derivatives_of_what_is_written(f: Callable[..., Any]) -> None:
    def slope(v: Any) -> Any:
        x = ge2rt.tensor(v, requires_grad=True)
        (g,) = ge2rt.autograd.grad(f(ge2rt, x).sum(), [x], create_graph=True)
        return x, g

    x, g = slope(X)
    (second,) = ge2rt.autograd.grad((g * ge2rt.tensor(C)).sum(), [x])
    want = slopes(lambda v: slope(v)[1].detach().numpy(), X, C)
    np.testing.assert_allclose(second.numpy(), want, rtol=1e-5, atol=1e-6)


def test_what_was_computed_before_keeps_its_way() -> None:
    x = ge2rt.tensor(X, requires_grad=True)
    seen = []
    y = x * 1
    y.register_hook(lambda g: seen.append(g.numpy().copy()))
    before = y * 2
    y *= 3
    (before + y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full_like(X, 5))
    np.testing.assert_array_equal(seen, [np.full_like(X, 5)])  # of what y was when it was hooked
    x.grad = None
    y = x * x
    before, y[0] = y * 2, 7.0
    (g,) = ge2rt.autograd.grad((before * y).sum(), [x], create_graph=True)
    want = slopes(lambda v: 2 * v * v * np.concatenate([np.full((1, 3), 7), v[1:] ** 2]), X, 1.0)
    np.testing.assert_allclose(g.detach().numpy(), want, rtol=1e-6)
    (second,) = ge2rt.autograd.grad(g.sum(), [x])
    want = np.concatenate([np.full((1, 3), 28.0), 24 * X[1:] ** 2])
    np.testing.assert_allclose(second.numpy(), want, rtol=1e-9)


def test_an_array_filled_row_by_row() -> None:
    x = ge2rt.tensor(X, requires_grad=True)
    rows = ge2rt.zeros(3, 3, dtype="f64")
    for k in range(3):
        rows[k] = (x[k] * x[k + 1]).exp()
    rows.sum().backward()
    want = slopes(lambda v: np.exp(v[:3] * v[1:]).sum(), X, 1.0)
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-6, atol=1e-7)


def test_the_view_goes_on_as_a_part_of_the_new_base() -> None:
    x = ge2rt.tensor(X, requires_grad=True)
    y = x * 2
    row = y[1]
    row.multiply_(3.0)
    row += x[0]
    np.testing.assert_array_equal(row.detach().numpy(), y[1].detach().numpy())
    (row * row).sum().backward()
    want = slopes(lambda v: ((6 * v[1] + v[0]) ** 2).sum(), X, 1.0)
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-6, atol=1e-7)


def test_what_cannot_be_written_is_refused_and_nothing_changes() -> None:
    x = ge2rt.tensor(X, requires_grad=True)
    with pytest.raises(InvalidArgumentError, match="gradient is wanted is changed in place"):
        x[0] = 1.0
    with pytest.raises(InvalidArgumentError, match="gradient is wanted is changed in place"):
        x[0].multiply_(2.0)
    y = x * 1
    y[1] = 0.0
    with pytest.raises(InvalidArgumentError, match="does not fit into"):
        y[0] = x[:, 0]
    whole = ge2rt.zeros(3, dtype="i64")
    with pytest.raises(InvalidTypeError, match="cannot be written to a tensor of i64"):
        whole[0] = x[0, 0]
    want = X.copy()
    want[1] = 0
    np.testing.assert_array_equal(y.detach().numpy(), want)
    z = y * x
    y[2] = 1.0  # z needs what y was
    with pytest.raises(InvalidArgumentError, match="changed in place"):
        z.sum().backward()


def rows_scaled_one_by_one(np: Any, x: Any) -> Any:
    y = same(np, x)
    a, b = y[0], y[1]
    a *= 2
    b *= a
    return y * y


def rows_of_a_list(np: Any, x: Any) -> Any:
    y = same(np, x)
    for k, row in enumerate(list(y)):
        row *= k + 2
    return y * x


def a_reshaped_one(np: Any, x: Any) -> Any:
    h = (x * 2).reshape(3, 4)
    h[0] = 0.0
    h[1:, ::2] *= 3
    return (h * h).reshape(4, 3)


def a_part_of_a_part(np: Any, x: Any) -> Any:
    h = same(np, x)[1:]
    part = h.T[:2]
    h[0] += 7
    part[1] *= h[:, 0]
    return h[[0, 0, 1, 2]] * x + part.T[[0, 1, 2, 0], :1]


VIEWS = [rows_scaled_one_by_one, rows_of_a_list, a_reshaped_one, a_part_of_a_part]


@pytest.mark.parametrize("f", VIEWS, ids=lambda f: f.__name__)
def test_views_from_before_a_write_go_on(f: Callable[..., Any]) -> None:
    test_gradients_of_what_is_written(f)


def test_second_derivatives_by_way_of_a_view_from_before_a_write() -> None:
    test_second_derivatives_of_what_is_written(rows_scaled_one_by_one)


def chained(np: Any, x: Any) -> Any:
    y = same(np, x)
    if np is ge2rt:
        y.sin_().multiply_(x * 2).multiply_(y).maximum_(0.1)
        y.T[1].exp_()
    else:
        y = np.maximum((np.sin(y) * x * 2) ** 2, 0.1)
        y.T[1] = np.exp(y.T[1])
    return y * x


def constants_scaled(np: Any, x: Any) -> Any:
    y = np.arange(3.0).astype("f8")
    y = y * 1
    y *= x[0] * x[1]
    y *= x[2] + 2
    return x * y


@pytest.mark.parametrize("f", [chained, constants_scaled], ids=lambda f: f.__name__)
def test_in_place_forms_keep_what_their_gradients_need(f: Callable[..., Any]) -> None:
    test_gradients_of_what_is_written(f)
    test_second_derivatives_of_what_is_written(f)


def test_in_place_forms_copy_nothing_that_no_gradient_needs(monkeypatch: Any) -> None:
    x = ge2rt.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y, made = x * 2, []
    clone = ge2rt.tensors.making.clone
    monkeypatch.setattr(ge2rt.tensors.making, "clone", lambda t: made.append(t) or clone(t))
    y += 1
    y *= 3
    y -= x * x
    assert not made
    y.sin_()
    assert len(made) == 1
    y.sum().backward()
    v = np.array([1, -2, 3.0])
    np.testing.assert_allclose(x.grad.numpy(), np.cos(6 * v + 3 - v * v) * (6 - 2 * v), rtol=1e-5)


@pytest.mark.parametrize(
    ("use", "want"),
    [
        (lambda v: v.sum(), [1, 1, 0]), (lambda v: v[0:1] * 5, [5, 0, 0]),
        (lambda v: v + v, [2, 2, 0]), (lambda v: v.T, [1, 1, 0]), (lambda v: v, [1, 1, 0]),
        (lambda v: v.multiply_(7.0), [7, 7, 0]), (lambda v: v.fill_(7.0), [0, 0, 0]),
        (lambda v: v.__setitem__([0], 1.0) or v, [0, 1, 0]),
        (lambda v: ge2rt.zeros(2).copy_(v), [1, 1, 0]),
    ],
)  # fmt: skip
def test_a_view_from_before_its_base_had_a_history_gets_one(use: Any, want: Any) -> None:
    w = ge2rt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = ge2rt.zeros(3)
    early = y[0:2]
    y.add_(w)
    assert not early.is_leaf
    with pytest.raises(InvalidTypeError, match="no plain array"):
        early.numpy()
    with ge2rt.no_grad():
        assert early.sum().item() == 3
    made = use(early)
    made.backward(ge2rt.ones(made.shape))
    np.testing.assert_array_equal(w.grad.numpy(), want)


def test_hooks_of_a_view_are_of_the_history_that_it_had() -> None:
    x = ge2rt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    view, seen = y[0:2], []
    view.register_hook(lambda g: seen.append("old"))
    before = view * 2
    y.multiply_(2.0)
    view.register_hook(lambda g: seen.append(g.tolist()))
    view.sum().backward(retain_graph=True)
    assert seen == [[1, 1]]
    before.sum().backward()
    assert seen == [[1, 1], "old"]
    np.testing.assert_array_equal(x.grad.numpy(), [4, 4, 0])


def test_a_view_made_without_a_record_stays_without_one() -> None:
    x = ge2rt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    with ge2rt.no_grad():
        quiet = y[0:2]
    apart = y.detach()[0:2]
    y.multiply_(3.0)
    for view in (quiet, quiet[0:2], apart):
        assert (view * 2).tolist() == [6, 12]
        assert not (view * 2).requires_grad
    with pytest.raises(InvalidArgumentError, match="nothing was recorded"):
        quiet[0:1].fill_(1.0)


def test_a_view_made_without_a_record_is_not_written_with_one() -> None:
    x = ge2rt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    with ge2rt.no_grad():
        quiet, of_leaf = y[0:2], x[0:2]
    assert quiet.sum().item() == 6  # a constant
    for change in (lambda: quiet.fill_(5.0), lambda: quiet.__setitem__(0, 1.0),
                   lambda: of_leaf.multiply_(3.0)):  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=r"nothing was recorded|gradient is wanted"):
            change()
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2, 2])
    late = ge2rt.tensor([1.0, 2.0])
    part = late[0:1]
    late.requires_grad_()
    with pytest.raises(InvalidArgumentError, match="gradient is wanted"):
        part.multiply_(3.0)


def test_empty_views_and_a_tensor_onto_itself(capfd: Any) -> None:
    x = ge2rt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    y[0:0] = 5.0
    y[3:].multiply_(2.0)
    with ge2rt.no_grad():
        y[:] = y
        y.copy_(y)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 1, 1])
    assert "overlaps" not in capfd.readouterr().err


@pytest.mark.parametrize("index", [slice(0, 0), [], [False] * 3])
def test_a_write_of_nothing_leads_to_a_gradient_of_zero(index: Any) -> None:
    w = ge2rt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = ge2rt.zeros(3)
    y[index] = w.sum()
    assert y.requires_grad
    (y + w).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [1, 1, 1])
    w.grad, z = None, w * 2
    z[index] = w.sum()
    z[index] = 5.0
    z.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [2, 2, 2])


@pytest.mark.parametrize(
    "write",
    [lambda y, w: y.copy_(w * 3), lambda y, w: y.fill_(w.sum()),
     lambda y, w: y.__setitem__(..., w * 3)],
)  # fmt: skip
def test_what_a_recorded_value_hides_has_a_gradient_of_zero(write: Any) -> None:
    x, w = (ge2rt.ones(3, requires_grad=True) for _ in range(2))
    y = x * 2
    write(y, w)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros(3))
    np.testing.assert_array_equal(w.grad.numpy(), np.full(3, 3.0))


@pytest.mark.parametrize(
    "write",
    [lambda y: y.zero_(), lambda y: y.fill_(math.nan), lambda y: y.copy_(ge2rt.ones(4)),
     lambda y: y.__setitem__(slice(None), 2.0)],
)  # fmt: skip
def test_what_a_whole_write_hides_has_a_gradient_of_zero(write: Any) -> None:
    w = ge2rt.tensor(np.arange(4, dtype=np.float32), requires_grad=True)
    y = w * 2
    earlier = y + 0  # was computed from what y was before
    write(y)
    assert y.requires_grad
    (y.sum() + (earlier * 3).sum()).backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.full(4, 6, np.float32))
