"""Functions of networks against plain NumPy, and their gradients against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from differences import slopes

import ge2rt
import ge2rt.nn.functional as F

RNG = np.random.default_rng(4)


def near(got: Any, want: Any, close: float = 1e-6) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=close, atol=close)


def convolved(x: Any, w: Any, b: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """The definition, element by element."""
    (sy, sx), (py, px), (dy, dx) = stride, padding, dilation
    x = np.pad(x, ((0, 0), (0, 0), (py, py), (px, px)))
    outputs, inner, rows, columns = w.shape
    high = (x.shape[2] - dy * (rows - 1) - 1) // sy + 1
    wide = (x.shape[3] - dx * (columns - 1) - 1) // sx + 1
    y = np.zeros((x.shape[0], outputs, high, wide))
    for n, o, i, j in np.ndindex(*y.shape):
        first = o // (outputs // groups) * inner
        part = x[n, first : first + inner, i * sy : i * sy + dy * rows : dy,
                 j * sx : j * sx + dx * columns : dx]  # fmt: skip
        y[n, o, i, j] = (part * w[o]).sum() + b[o]
    return y


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"),
    [((1, 1), (0, 0), (1, 1), 1), ((2, 1), (1, 2), (1, 1), 2), ((1, 2), (2, 0), (2, 1), 1)],
)
def test_convolution(stride: Any, padding: Any, dilation: Any, groups: int) -> None:
    x, w, b = (RNG.standard_normal(s) for s in ((2, 4, 7, 6), (6, 4 // groups, 3, 2), (6,)))
    want = convolved(x, w, b, stride, padding, dilation, groups)
    leaves = [ge2rt.tensor(v, requires_grad=True) for v in (x, w, b)]
    y = F.conv2d(*leaves, stride=stride, padding=padding, dilation=dilation, groups=groups)
    near(y, want)
    g = RNG.standard_normal(want.shape)
    y.backward(g)
    for at, leaf in enumerate(leaves):

        def f(value: Any, at: int = at) -> Any:
            given = [x, w, b]
            given[at] = value
            return convolved(*given, stride, padding, dilation, groups)

        if at:
            near(leaf.grad, slopes(f, (x, w, b)[at], g), 1e-4)
        else:  # a few elements: the definition is slow
            for place in ((0, 0, 0, 0), (1, 3, 6, 5), (1, 2, 3, 1)):
                up, down = x.copy(), x.copy()
                up[place] += 1e-6
                down[place] -= 1e-6
                slope = ((f(up) - f(down)) * g).sum() / 2e-6
                np.testing.assert_allclose(leaf.grad.numpy()[place], slope, 1e-4, 1e-4)


def test_pooling() -> None:
    x = RNG.standard_normal((2, 3, 6, 8))
    leaf = ge2rt.tensor(x, requires_grad=True)
    blocks = x.reshape(2, 3, 3, 2, 4, 2).transpose(0, 1, 2, 4, 3, 5).reshape(2, 3, 3, 4, 4)
    near(F.max_pool2d(leaf, 2), blocks.max(-1))
    near(F.avg_pool2d(leaf, 2), blocks.mean(-1))
    near(F.max_pool2d(leaf, (3, 1), stride=1, padding=(1, 0)),
         np.maximum(np.maximum(x, np.pad(x, ((0, 0),) * 2 + ((1, 0), (0, 0)),
                                         constant_values=-np.inf)[:, :, :-1]),
                    np.pad(x, ((0, 0),) * 2 + ((0, 1), (0, 0)),
                           constant_values=-np.inf)[:, :, 1:]))  # fmt: skip
    F.max_pool2d(leaf, 2).sum().backward()
    mask = np.repeat(np.repeat(blocks.max(-1), 2, 2), 2, 3) == x
    near(leaf.grad, mask.astype(float))


def softmax(z: Any) -> Any:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def standard(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


X, W, B = RNG.standard_normal((4, 6)), RNG.standard_normal(6), RNG.standard_normal(6)
T = np.array([0, 5, 2, 2])
CASES: dict[str, tuple[Any, Any]] = {
    "linear": (lambda x: F.linear(x, ge2rt.tensor(W[None])), lambda x: x @ W[:, None]),
    "layer_norm": (
        lambda x: F.layer_norm(x, ge2rt.tensor(W), ge2rt.tensor(B)),
        lambda x: standard(x) * W + B,
    ),
    "rms_norm": (
        lambda x: F.rms_norm(x, ge2rt.tensor(W)),
        lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * W,
    ),
    "batch_norm": (
        lambda x: F.batch_norm(x, ge2rt.tensor(B), ge2rt.tensor(W * W), ge2rt.tensor(W)),
        lambda x: (x - B) / np.sqrt(W * W + 1e-5) * W,
    ),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x, x, x, causal=True),
        lambda x: softmax(np.where(np.tri(4, dtype=bool), x @ x.T / np.sqrt(6), -np.inf)) @ x,
    ),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    "softplus": (F.softplus, lambda x: np.log1p(np.exp(x))),
    "mse": (
        lambda x: F.mse_loss(x, ge2rt.tensor(X * 0.5 + B)),
        lambda x: ((x - X * 0.5 - B) ** 2).mean(),
    ),
    "l1": (lambda x: F.l1_loss(x, ge2rt.tensor(B + 0 * X), "sum"), lambda x: np.abs(x - B).sum()),
    "bce": (
        lambda x: F.binary_cross_entropy_with_logits(x, ge2rt.tensor((X > 0.3) * 1.0), "none"),
        lambda x: np.log1p(np.exp(np.where(X > 0.3, -x, x))),
    ),
    "cross_entropy": (
        lambda x: F.cross_entropy(x, ge2rt.tensor(T)),
        lambda x: -np.log(softmax(x)[np.arange(4), T]).mean(),
    ),
    "smoothed": (
        lambda x: F.cross_entropy(x, ge2rt.tensor(T), label_smoothing=0.1, reduction="none"),
        lambda x: -0.9 * np.log(softmax(x)[np.arange(4), T]) - 0.1 * np.log(softmax(x)).mean(-1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    ours, plain = CASES[name]
    x = ge2rt.tensor(X, requires_grad=True)
    y = ours(x)
    want = np.asarray(plain(X))
    near(y, want)
    g = RNG.standard_normal(want.shape)
    y.backward(g)
    near(x.grad, slopes(plain, X, g), 1e-5)


def test_they_serve_inside_of_a_jitted_function() -> None:
    @ge2rt.jit
    def f(x: Any, label: Any) -> Any:
        return ge2rt.value_and_grad(lambda v: F.cross_entropy(F.layer_norm(v), label))(x)

    value, slope = f(X, T)

    def plain(x: Any) -> Any:
        return -np.log(softmax(standard(x))[np.arange(4), T]).mean()

    np.testing.assert_allclose(value, plain(X), rtol=1e-9)
    np.testing.assert_allclose(slope, slopes(plain, X, 1.0), rtol=1e-5, atol=1e-7)


def test_embedding_adds_up_what_is_read_twice_and_refuses_what_is_outside() -> None:
    table = ge2rt.tensor(RNG.standard_normal((5, 3)), requires_grad=True)
    y = F.embedding(ge2rt.tensor([[1, 1], [4, 0]]), table)
    near(y, table.detach().numpy()[[[1, 1], [4, 0]]])
    y.sum().backward()
    near(table.grad, np.array([1, 2, 0, 0, 1])[:, None] * np.ones(3))
    with pytest.raises(ValueError, match="outside"):
        F.embedding(ge2rt.tensor([5]), table)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
@pytest.mark.parametrize("bad", [-1, -4, 4])
def test_cross_entropy_refuses_what_is_no_class(dtype: type, bad: int) -> None:
    logits = RNG.standard_normal((3, 4)).astype(np.float32)
    target = np.array([0, 3, bad]).astype(dtype)
    with pytest.raises(ValueError, match="outside"):
        np.asarray(F.cross_entropy(ge2rt.tensor(logits), ge2rt.tensor(target)))
    with pytest.raises(ValueError, match="outside"):
        ge2rt.jit(F.cross_entropy)(logits, target)


def test_cross_entropy_leaves_out_what_is_ignored() -> None:
    scores = np.random.default_rng(0).standard_normal((4, 3))
    labels = np.array([0, 2, -100, 1])
    logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    each = -logs[np.arange(4), np.maximum(labels, 0)] * (labels >= 0)
    smooth = np.where(labels >= 0, 0.8 * each - 0.2 * logs.mean(-1), 0)
    x = ge2rt.tensor(scores, requires_grad=True)
    target = ge2rt.tensor(labels)
    for got, want in (
        (F.cross_entropy(x, target), each.sum() / 3),
        (F.cross_entropy(x, target, reduction="sum"), each.sum()),
        (F.cross_entropy(x, target, reduction="none"), each),
        (F.cross_entropy(x, target, 0.2), smooth.sum() / 3),
        (ge2rt.nn.CrossEntropyLoss(ignore_index=2)(x[:2], target[:2]), each[0]),
    ):
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12)
    F.cross_entropy(x, target).backward()
    slope = (np.exp(logs) - np.eye(3)[np.maximum(labels, 0)]) * (labels >= 0)[:, None] / 3
    np.testing.assert_allclose(x.grad.numpy(), slope, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("target", "kind", "message"),
    [
        ([0.5, 1.0], TypeError, "targets are numbers of classes.*float32.*log_softmax"),
        ([[0, 1]], ValueError, r"one target for each row.*logits \[2, 3\], target \[1, 2\]"),
        ([0, 3], ValueError, "outside"), ([0, -1], ValueError, "outside"),
    ],
)  # fmt: skip
def test_cross_entropy_refuses(target: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        F.cross_entropy(ge2rt.zeros(2, 3), ge2rt.tensor(target))


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.binary_cross_entropy_with_logits])
def test_losses_warn_of_shapes_that_are_broadcast(loss: Any) -> None:
    with pytest.warns(UserWarning, match=r"x \[4, 1\] and target \[4\] differ in shape"):
        loss(ge2rt.ones(4, 1), ge2rt.ones(4))
