"""Modules and functions inside of traces: what is taken from outside is refused, with a way out."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import ge2rt
import ge2rt.nn.functional as F
from ge2rt import nn
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError

F32 = np.float32
IMAGES = np.ones((2, 3, 6, 6), F32)
ROWS = np.ones((2, 5, 8), F32)
WEIGHT, BIAS = ge2rt.ones(8, 8), ge2rt.ones(8)

CALLS: dict[str, tuple[Any, Any]] = {
    "Linear": (nn.Linear(8, 4), ROWS),
    "Conv2d": (nn.Conv2d(3, 4, 3), IMAGES),
    "Embedding": (nn.Embedding(9, 4), np.array([1, 2])),
    "sparse Embedding": (nn.Embedding(9, 4, sparse=True), np.array([1, 2])),
    "LayerNorm": (nn.LayerNorm(8), ROWS),
    "RMSNorm": (nn.RMSNorm(8), ROWS),
    "BatchNorm that is trained": (nn.BatchNorm(3).eval(), IMAGES),
    "MultiHeadAttention": (nn.MultiHeadAttention(8, 2), ROWS),
    "Sequential": (nn.Sequential(nn.Activation("relu"), nn.Linear(8, 4)), ROWS),
    "RNN": (nn.RNN(8, 4), ROWS),
    "GRU": (nn.GRU(8, 4), ROWS),
    "LSTM": (nn.LSTM(8, 4), ROWS),
    "linear": (lambda x: F.linear(x, WEIGHT), ROWS),
    "layer_norm": (lambda x: F.layer_norm(x, BIAS), ROWS),
    "attention": (lambda x: F.scaled_dot_product_attention(x, ge2rt.ones(2, 5, 8), x), ROWS),
    "mse_loss": (lambda x: F.mse_loss(x, ge2rt.ones(2, 5, 8)), ROWS),
    "cross_entropy": (lambda x: F.cross_entropy(x[0], ge2rt.zeros(5, dtype="i64")), ROWS),
    "operator": (lambda x: ge2rt.ops.add(x, BIAS), ROWS),
    "method": (lambda x: WEIGHT.matmul(x[0, 0]), ROWS),
    "mark": (lambda x: x @ WEIGHT, ROWS),
    "mark, reflected": (lambda x: WEIGHT @ x[0, 0], ROWS),
    "index": (lambda i: WEIGHT[i], np.array([1, 2])),
    "assignment": (lambda x: ge2rt.zeros(5, 8).__setitem__(0, x[0, 0]), ROWS),
    "NumPy's function": (lambda x: np.stack([BIAS, x[0, 0]]), ROWS),
    "one without operator": (lambda x: np.trapezoid(BIAS, x[0, 0]), ROWS),
    "ufunc": (lambda x: np.add(BIAS, x), ROWS),
    "jitted function": (lambda x: ge2rt.jit(lambda a, b: a * b)(x, BIAS), ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_that_is_captured_is_refused_with_the_line_and_a_way_out(name: str) -> None:
    call, x = CALLS[name]
    wanted = rf"{__name__.rpartition('.')[2]}\.py:\d+: .*taken from outside of a jitted function"
    with pytest.raises(InvalidTypeError, match=rf"{wanted}.*functional_call\(module, values, x\)"):
        ge2rt.jit(lambda given: call(given))(x)


def test_the_line_is_that_of_the_call() -> None:
    model = nn.Linear(8, 4)

    def loss(x: Any) -> Any:
        return (model(x) ** 2).sum()  # here

    line = loss.__code__.co_firstlineno + 1
    for run in (ge2rt.grad(loss), ge2rt.jit(loss), ge2rt.vmap(loss)):
        with pytest.raises(
            InvalidTypeError, match=rf"test_in_traces\.py:{line}: a tensor is taken"
        ):
            run(ROWS)
    line = sys._getframe().f_lineno + 2
    with pytest.raises(InvalidTypeError, match=rf"test_in_traces\.py:{line}: a tensor is taken"):
        ge2rt.jit(model)(ROWS)


def test_jitted_dropout_is_refused_without_its_counter_and_follows_the_stream_with_it() -> None:
    drop = nn.Dropout(0.5, seed=3)
    x = np.ones((9, 11), F32)
    for run in (ge2rt.jit(drop), ge2rt.jit(lambda x: nn.functional_call(drop, {}, x))):
        with pytest.raises(InvalidTypeError, match=r"Dropout in a jitted.*'used'.*stateful_call"):
            run(x)
    assert drop.used.item() == 0
    step = ge2rt.jit(lambda buffers, x: nn.stateful_call(drop, buffers, x))
    given: Any = {"used": np.zeros((), np.int64)}
    eager = nn.Dropout(0.5, seed=3)
    for number in range(3):
        y, given = step(given, x)
        np.testing.assert_array_equal(y, eager(ge2rt.tensor(x)).numpy())
        assert given["used"] == (number + 1) * 25  # ceil(99 / 4)
    y, state = nn.stateful_call(drop, {"used": ge2rt.tensor(25)}, ge2rt.tensor(x))
    assert (state["used"].item(), drop.used.item()) == (50, 0)
    still = ge2rt.jit(drop.eval())(x)
    np.testing.assert_array_equal(still, x)


def test_jitted_batch_normalisation_gives_its_averages_back() -> None:
    norm = nn.BatchNorm(3)
    x = np.random.default_rng(0).normal(2, 3, (4, 3, 5)).astype(F32)
    with pytest.raises(InvalidTypeError, match=r"BatchNorm in a jitted function.*running_mean"):
        ge2rt.jit(lambda x: norm(x))(x)
    values = {name: value.numpy() for name, value in norm.state_dict().items()}
    y, after = ge2rt.jit(lambda values, x: nn.stateful_call(norm, values, x))(values, x)
    want = norm(ge2rt.tensor(x))
    np.testing.assert_allclose(y, want.detach().numpy(), atol=1e-5)
    assert after.keys() == {"running_mean", "running_var"}
    for name, value in after.items():
        np.testing.assert_allclose(value, getattr(norm, name).numpy(), rtol=1e-5)
    np.testing.assert_allclose(after["running_mean"], 0.1 * x.mean((0, 2)), rtol=1e-5)


def test_functional_dropout() -> None:
    x = ge2rt.ones(8, 33)
    ge2rt.manual_seed(4)
    one, two = F.dropout(x, 0.25).numpy(), F.dropout(x, 0.25).numpy()
    assert (one != two).any()
    assert set(np.unique(one)) == {F32(0), F32(1 / F32(0.75))}
    assert 0.6 < (one != 0).mean() < 0.9
    ge2rt.manual_seed(4)
    np.testing.assert_array_equal(F.dropout(x, 0.25).numpy(), one)
    assert F.dropout(x, 0.25, training=False) is x
    with pytest.raises(InvalidArgumentError, match="pass seed= and base="):
        ge2rt.jit(lambda x: F.dropout(x))(ROWS)
    jitted = ge2rt.jit(lambda x, base: F.dropout(x, 0.25, seed=4, base=base))
    np.testing.assert_array_equal(jitted(x.numpy(), np.int64(0)), one)
