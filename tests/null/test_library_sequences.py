"""Meanings of recurrent layers and attention against scalars worked out by hand and differences."""

from __future__ import annotations

from math import exp, log, tanh

import numpy as np
import pytest

from ge2rt.spec.library.norms import philox_stream
from ge2rt.spec.library.sequences import FUNCTIONS

RNG = np.random.default_rng(3)


def sigmoid(z):
    return 1 / (1 + exp(-z))


def draw(*shape):
    return RNG.standard_normal(shape) * 0.7


def one(value):
    return np.full((1, 1), value)


def test_rnn_of_one_unit_by_hand():
    x = np.array([[[2.0], [-1.0]]])
    y, last, z = FUNCTIONS["rnn"](x, one(0.5), one(0.25), np.array([0.1]), one(3.0), "tanh")
    first = tanh(2 * 0.5 + 3 * 0.25 + 0.1)
    second = -0.5 + first * 0.25 + 0.1
    np.testing.assert_allclose(z[0, :, 0], [1.85, second], rtol=1e-14)
    np.testing.assert_allclose(y[0, :, 0], [first, tanh(second)], rtol=1e-14)
    assert last[0, 0] == y[0, 1, 0]


def test_rnn_with_relu_keeps_what_is_positive():
    x = np.array([[[1.0], [-5.0], [2.0]]])
    y = FUNCTIONS["rnn"](x, one(1.0), one(2.0), None, None, "relu")[0]
    assert y[0, :, 0].tolist() == [1, 0, 2]


def test_lstm_of_one_unit_by_hand():
    x, h, c = 0.8, -0.3, 0.6
    wx, wh, bias = [0.5, -0.4, 0.9, 0.2], [0.1, 0.7, -0.6, 0.3], [0.05, -0.1, 0.2, 0.4]
    zi, zf, zg, zo = (x * a + h * b + d for a, b, d in zip(wx, wh, bias, strict=True))
    cell = sigmoid(zf) * c + sigmoid(zi) * tanh(zg)  # the order i f g o
    y, last, last_cell = FUNCTIONS["lstm"](
        np.array([[[x]]]), np.array([wx]), np.array([wh]), np.array(bias), one(h), one(c)
    )
    np.testing.assert_allclose(last_cell[0, 0], cell, rtol=1e-14)
    np.testing.assert_allclose(y[0, 0, 0], sigmoid(zo) * tanh(cell), rtol=1e-14)
    assert last[0, 0] == y[0, 0, 0]


def test_gru_of_one_unit_by_hand():
    x, h = 0.8, -0.3
    wx, wh = [0.5, -0.4, 0.9], [0.1, 0.7, -0.6]
    bx, bh = [0.05, -0.1, 0.2], [0.3, 0.15, -0.25]
    r = sigmoid(x * wx[0] + bx[0] + h * wh[0] + bh[0])
    z = sigmoid(x * wx[1] + bx[1] + h * wh[1] + bh[1])
    n = tanh(x * wx[2] + bx[2] + r * (h * wh[2] + bh[2]))  # r goes with the state's bias too
    y, last = FUNCTIONS["gru"](
        np.array([[[x]]]), np.array([wx]), np.array([wh]), np.array(bx), np.array(bh), one(h)
    )
    np.testing.assert_allclose(y[0, 0, 0], (1 - z) * n + z * h, rtol=1e-14)
    assert last[0, 0] == y[0, 0, 0]


@pytest.mark.parametrize(("name", "gates"), [("rnn", 1), ("lstm", 4), ("gru", 3)])
def test_sequences_know_nothing_of_each_other_and_go_on_from_a_state(name, gates):
    x, wx, wh = draw(3, 5, 2), draw(2, 4 * gates), draw(4, 4 * gates)
    more = {"rnn": ("tanh",), "lstm": (None,), "gru": ()}[name]
    biases = (draw(4 * gates),) * (2 if name == "gru" else 1)
    whole = FUNCTIONS[name](x, wx, wh, *biases, None, *more)
    alone = FUNCTIONS[name](x[1:2], wx, wh, *biases, None, *more)
    np.testing.assert_allclose(alone[0], whole[0][1:2], rtol=1e-13)
    first = FUNCTIONS[name](x[:, :2], wx, wh, *biases, None, *more)
    more = (first[2],) if name == "lstm" else more
    rest = FUNCTIONS[name](x[:, 2:], wx, wh, *biases, first[1], *more)
    np.testing.assert_allclose(rest[0], whole[0][:, 2:], rtol=1e-13)
    np.testing.assert_allclose(rest[1], whole[1], rtol=1e-13)


def differences(forward, inputs, cotangents, step=1e-6):
    """Central differences of the sum of outputs times cotangents, one array an input."""
    found = []
    for number, value in enumerate(inputs):
        gradient = np.zeros(value.shape)
        for index in np.ndindex(value.shape):
            sides = []
            for sign in (1, -1):
                moved = [v.copy() for v in inputs]
                moved[number][index] += sign * step
                outputs = forward(*moved)
                pairs = zip(outputs, cotangents, strict=False)
                sides.append(sum(np.sum(y * g) for y, g in pairs))
            gradient[index] = (sides[0] - sides[1]) / (2 * step)
        found.append(gradient)
    return found


def agree(gradients, wanted):
    for gradient, want in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(gradient, want, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("act", ["tanh", "relu"])
def test_gradients_of_rnn(act):
    inputs = [draw(2, 3, 2), draw(2, 3), draw(3, 3), draw(3), draw(2, 3)]
    gy, ghn = draw(2, 3, 3), draw(2, 3)
    y = FUNCTIONS["rnn"](*inputs, act)[0]
    x, wx, wh, _, h0 = inputs
    got = FUNCTIONS["rnn_bwd"](x, wx, wh, h0, y, gy, ghn, act)
    agree(got, differences(lambda *a: FUNCTIONS["rnn"](*a, act), inputs, (gy, ghn)))


def test_gradients_of_lstm():
    inputs = [draw(2, 3, 2), draw(2, 12), draw(3, 12), draw(12), draw(2, 3), draw(2, 3)]
    gy, ghn, gcn = draw(2, 3, 3), draw(2, 3), draw(2, 3)
    y = FUNCTIONS["lstm"](*inputs)[0]
    got = FUNCTIONS["lstm_bwd"](*inputs, y, gy, ghn, gcn)
    agree(got, differences(FUNCTIONS["lstm"], inputs, (gy, ghn, gcn)))


def test_gradients_of_gru():
    inputs = [draw(2, 3, 2), draw(2, 9), draw(3, 9), draw(9), draw(9), draw(2, 3)]
    gy, ghn = draw(2, 3, 3), draw(2, 3)
    y = FUNCTIONS["gru"](*inputs)[0]
    got = FUNCTIONS["gru_bwd"](*inputs, y, gy, ghn)
    agree(got, differences(FUNCTIONS["gru"], inputs, (gy, ghn)))


def test_attention_by_hand():
    q, k, v = np.array([[2.0]]), np.array([[1.0], [3.0]]), np.array([[10.0], [20.0]])
    y, lse = FUNCTIONS["sdpa"](q, k, v, None, 0.5, False)
    weights = np.exp([1.0, 3.0]) / (exp(1) + exp(3))
    np.testing.assert_allclose(y[0, 0], weights @ [10, 20], rtol=1e-14)
    np.testing.assert_allclose(lse, [log(exp(1) + exp(3))], rtol=1e-14)


def test_attention_scale_of_0_is_one_over_the_root_and_causal_hides_what_follows():
    q, k, v = draw(4, 9), draw(6, 9), draw(6, 2)
    y = FUNCTIONS["sdpa"](q, k, v, None, 0.0, True)[0]
    np.testing.assert_allclose(y[0], v[0], rtol=1e-14)
    scores = np.exp(k[:2] @ q[1] / 3)
    np.testing.assert_allclose(y[1], scores @ v[:2] / scores.sum(), rtol=1e-13)


def test_attention_masks():
    q, k, v = draw(3, 4), draw(5, 4), draw(5, 2)
    drop = np.array([[0, 1, 0, 0, 1], [1, 0, 0, 0, 0], [0, 0, 1, 1, 1]], np.int32)
    want = FUNCTIONS["sdpa"](q, k, v, np.where(drop, -np.inf, 0.0), 0.0, False)
    for mask in (drop, drop == 0):
        for got, right in zip(FUNCTIONS["sdpa"](q, k, v, mask, 0.0, False), want, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-14)
    seen = [0, 2, 3]
    alone = FUNCTIONS["sdpa"](q[:1], k[seen], v[seen], None, 0.0, False)
    np.testing.assert_allclose(want[0][:1], alone[0], rtol=1e-13)


def test_attention_drops_weights_by_the_stream_of_dropout():
    q, k, v = draw(2, 3, 4), draw(2, 5, 4), np.broadcast_to(np.eye(5), (2, 5, 5))
    weights, lse = FUNCTIONS["sdpa"](q, k, v, None, 0.0, False)
    words = philox_stream(30, -3, 0).reshape(2, 3, 5)
    thinned, same = FUNCTIONS["sdpa"](q, k, v, None, 0.0, False, 0.25, -3)
    assert 0 < np.count_nonzero(words < 2**30) < 30
    np.testing.assert_allclose(thinned, np.where(words < 2**30, 0, weights / 0.75), rtol=1e-14)
    np.testing.assert_array_equal(same, lse)


@pytest.mark.parametrize("p", [0.0, 0.5])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_attention(causal, p):
    q, k, v, gy = draw(2, 3, 4), draw(2, 5, 4), draw(2, 5, 2), draw(2, 3, 2)
    mask = draw(1, 3, 5)
    attrs = (0.4, causal, p, 5)

    def forward(*inputs):
        return FUNCTIONS["sdpa"](*inputs, mask, *attrs)

    want = differences(forward, [q, k, v], (gy,))
    agree(FUNCTIONS["sdpa_bwd"](q, k, v, mask, None, None, gy, *attrs), want)
    agree(FUNCTIONS["sdpa_bwd"](q, k, v, mask, *forward(q, k, v), gy, *attrs), want)
