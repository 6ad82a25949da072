"""Sparse tensors against NumPy, derivatives against the dense ones, optimisers on their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ge2rt
from ge2rt import nn, optim
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from ge2rt.nn import functional
from ge2rt.sparse import Coo, Csr, from_dense

F32 = np.float32


def by_hand(indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    dense = np.zeros(shape, values.dtype)
    np.add.at(dense, tuple(indices), values)
    return dense


def drawn(
    seed: int, shape: tuple[int, ...], count: int, axes: int
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    indices = np.stack([rng.integers(0, n, count) for n in shape[:axes]])
    return indices, rng.integers(-9, 9, (count, *shape[axes:])).astype(F32)


@given(
    st.integers(0, 99), st.integers(1, 40), st.integers(1, 2), st.sampled_from([(7, 5), (4, 6, 3)])
)
@settings(max_examples=25, deadline=None)
def test_forms_have_the_same_elements(seed: int, count: int, axes: int, shape: Any) -> None:
    indices, values = drawn(seed, shape, count, axes)
    sparse, dense = Coo(indices, values, shape), by_hand(indices, values, shape)
    np.testing.assert_array_equal(sparse.to_dense().numpy(), dense)
    packed = sparse.coalesce()
    np.testing.assert_array_equal(packed.to_dense().numpy(), dense)
    places = packed.indices.numpy()
    assert len(np.unique(places, axis=1).T) == packed.count
    assert (np.diff(packed.rows()) > 0).all()
    np.testing.assert_array_equal((sparse + sparse).to_dense().numpy(), 2 * dense)
    np.testing.assert_array_equal((sparse + ge2rt.tensor(dense)).numpy(), 2 * dense)
    np.testing.assert_array_equal((ge2rt.tensor(dense) + sparse).numpy(), 2 * dense)
    np.testing.assert_array_equal((-3 * sparse).to_dense().numpy(), -3 * dense)
    np.testing.assert_array_equal(from_dense(ge2rt.tensor(dense)).to_dense().numpy(), dense)
    if axes == 2 == len(shape):
        np.testing.assert_array_equal(sparse.T.to_dense().numpy(), dense.T)
        rows = sparse.to_csr()
        np.testing.assert_array_equal(rows.to_dense().numpy(), dense)
        right, left = (
            np.arange(n * 4.0, dtype=F32).reshape(s) for n, s in ((5, (5, 4)), (7, (4, 7)))
        )
        for form in (sparse, rows):
            np.testing.assert_allclose((form @ ge2rt.tensor(right)).numpy(), dense @ right)
            np.testing.assert_allclose((form @ right[:, 0]).numpy(), dense @ right[:, 0])
            np.testing.assert_allclose((ge2rt.tensor(left) @ form).numpy(), left @ dense)


def test_derivatives_of_values_and_of_the_dense_operand() -> None:
    indices, values = drawn(3, (6, 5), 12, 2)
    right = np.random.default_rng(0).normal(size=(5, 3)).astype(F32)
    pull = np.random.default_rng(1).normal(size=(6, 3)).astype(F32)
    v, b = ge2rt.tensor(values, requires_grad=True), ge2rt.tensor(right, requires_grad=True)
    ((Coo(indices, v, (6, 5)).coalesce() @ b) * ge2rt.tensor(pull)).sum().backward()
    dense = by_hand(indices, values, (6, 5))
    np.testing.assert_allclose(b.grad.numpy(), dense.T @ pull, rtol=1e-5, atol=1e-5)
    slope = (pull @ right.T)[tuple(indices)]
    np.testing.assert_allclose(v.grad.numpy(), slope, rtol=1e-5, atol=1e-5)
    x = ge2rt.tensor(dense, requires_grad=True)
    (from_dense(x).to_dense() * ge2rt.tensor(dense)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), dense)


def test_empty_ones() -> None:
    none = Coo(np.zeros((2, 0), np.int64), np.zeros(0, F32), (3, 4))
    assert (none.to_dense().numpy() == 0).all()
    assert none.coalesce().count == 0
    np.testing.assert_array_equal((none @ np.ones((4, 2), F32)).numpy(), np.zeros((3, 2)))
    assert Csr([0, 0, 0, 0], [], np.zeros(0, F32), (3, 4)).to_dense().shape == (3, 4)


def one(columns: int) -> Coo:
    return Coo([[0], [1]], np.ones(1, F32), (2, columns))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Coo([[0, 3]], np.ones(2, F32), (3,)), "outside of the shape"),
        (lambda: Coo([[0, -1]], np.ones(2, F32), (3,)), "outside of the shape"),
        (lambda: Coo([[0, 1]], np.ones(3, F32), (3,)), "do not fit"),
        (lambda: Coo([0, 1], np.ones(2, F32), (3,)), "do not fit"),
        (lambda: Coo([[0]], np.ones((1, 2), F32), (3, 4)), "does not fit the values"),
        (lambda: Csr([0, 2, 1], [0, 1], np.ones(2, F32), (2, 2)), "starts"),
        (lambda: Csr([0, 1], [0, 1], np.ones(2, F32), (2, 2)), "starts"),
        (lambda: one(2) + one(3), "different shapes"),
        (lambda: Coo([[0]], np.ones(1, F32), (2,)) @ np.ones(2, F32), "sparse matrix"),
        (lambda: Coo([[0], [1]], np.ones(1, F32), (2, 2)) @ np.ones(3, F32), "do not fit"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        make()


def test_operators_say_what_they_take() -> None:
    sparse = Coo([[0], [1]], np.ones(1, F32), (2, 2))
    with pytest.raises(UnsupportedError, match="to_dense"):
        ge2rt.ops.exp(sparse)
    with pytest.raises(InvalidTypeError, match="numbers only"):
        sparse * np.ones((2, 2))
    assert repr(sparse) == "<Coo [2, 2] f32, 1 of 4>"


def test_an_embedding_has_a_sparse_gradient() -> None:
    table = nn.Embedding(50, 4, seed=0, sparse=True)
    dense = nn.Embedding(50, 4, seed=0)
    index = ge2rt.tensor(np.array([[3, 7, 3], [-1, 0, 7]]))
    pull = ge2rt.tensor(np.random.default_rng(0).normal(size=(2, 3, 4)).astype(F32))
    for net in (table, dense):
        (net(index) * pull).sum().backward()
        (net(index) * pull).sum().backward()  # gradients add up
    slope = table.weight.grad
    assert isinstance(slope, Coo)
    assert slope.coalesce().count == 4
    np.testing.assert_allclose(slope.to_dense().numpy(), dense.weight.grad.numpy(), rtol=1e-5)


def test_a_sparse_gradient_of_a_value_that_was_computed_goes_on_dense() -> None:
    weight = ge2rt.tensor(np.ones((5, 2), F32), requires_grad=True)
    functional.sparse_embedding(ge2rt.tensor(np.array([1, 1, 4])), weight * 2.0).sum().backward()
    np.testing.assert_array_equal(weight.grad.numpy()[:, 0], [0, 4, 0, 0, 2])


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, 0.1, momentum=0.9),
        lambda p: optim.AdamW(p, 0.1),
        lambda p: optim.Adagrad(p, 0.1),
    ],
)
def test_optimisers_move_the_rows_that_were_used(make: Any) -> None:
    """Those move as a table of these rows alone would, the others stay as they are."""
    rng = np.random.default_rng(1)
    start = rng.normal(size=(20, 3)).astype(F32)
    rows = [2, 5, 11]
    whole = nn.Parameter(start.copy())
    alone = nn.Parameter(start[rows].copy())
    one, two = make([whole]), make([alone])
    for _ in range(3):
        pull = rng.normal(size=(3, 3)).astype(F32)
        whole.grad = Coo([[11, 2, 5, 2]], np.concatenate([pull[[2, 0, 1]], 0 * pull[:1]]), (20, 3))
        alone.grad = ge2rt.tensor(pull)
        one.step()
        two.step()
    moved = whole.detach().numpy()
    np.testing.assert_allclose(moved[rows], alone.detach().numpy(), rtol=1e-6)
    others = [n for n in range(20) if n not in rows]
    np.testing.assert_array_equal(moved[others], start[others])


def test_norms_of_sparse_gradients() -> None:
    p = nn.Parameter(np.zeros((4, 2), F32))
    p.grad = Coo([[1, 1]], np.array([[3.0, 0], [0, 4.0]], F32), (4, 2))
    assert optim.clip_grad_norm_([p], 1.0) == pytest.approx(5.0)
    np.testing.assert_allclose(p.grad.to_dense().numpy()[1], [0.6, 0.8], rtol=1e-5)
    scaler = optim.GradScaler(2.0)
    assert scaler.step(optim.SGD([p], lr=1.0))
    np.testing.assert_allclose(p.detach().numpy()[1], [-0.3, -0.4], rtol=1e-5)


def test_rows_are_assigned_by_indices() -> None:
    """As NumPy does it, through views too; what does not fit is told and nothing is written."""
    x, wanted = ge2rt.zeros(5, 3), np.zeros((5, 3), F32)
    values = np.arange(6, dtype=F32).reshape(2, 3)
    for index in ([3, -5], np.array([1, 2]), ge2rt.tensor(np.array([0, 4]))):
        x[index] = values
        wanted[index.numpy() if isinstance(index, ge2rt.Tensor) else index] = values
        np.testing.assert_array_equal(x.numpy(), wanted)
    x.T[[0, 2]] = 7.0
    wanted.T[[0, 2]] = 7
    x[[1, 1], [0, 1]] = ge2rt.tensor([8.0, 9.0])
    wanted[[1, 1], [0, 1]] = 8, 9
    np.testing.assert_array_equal(x.numpy(), wanted)
    for index, value in (([5], 1.0), ([0, 1], np.ones((3, 3), F32))):
        with pytest.raises(InvalidArgumentError, match="assignment"):
            x[index] = value
    np.testing.assert_array_equal(x.numpy(), wanted)
    w = ge2rt.tensor([1.0, 2, 3], requires_grad=True)
    x[[0]] = w * 2.0
    (x * x).sum().backward()  # of the row 2 w: d/dw (2 w)^2 = 8 w
    np.testing.assert_array_equal(w.grad.numpy(), [8, 16, 24])
