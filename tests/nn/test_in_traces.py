"""Modules and functions inside of traces: what is taken from outside is refused, with a way out."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import ge2rt
import ge2rt.nn.functional as F
from ge2rt import nn
from ge2rt.base.errors import InvalidTypeError

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
    "BatchNorm": (nn.BatchNorm(3), IMAGES),
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
