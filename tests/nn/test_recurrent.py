"""Recurrent layers against loops in NumPy, and gradients of kernels against the steps' own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt import nn
from ge2rt.nn import recurrent

N, L, I, H = 3, 5, 4, 6  # noqa: E741
F32 = np.float32


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def weights(gates: int, biases: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [(I, gates * H), (H, gates * H), *[(gates * H,)] * biases]
    return [rng.normal(0, 0.5, s).astype(F32) for s in shapes]


def by_hand(kind: str, x: np.ndarray, ws: list[np.ndarray], state: Any) -> np.ndarray:
    """States, step by step, in f64: the formulas of PyTorch's documentation."""
    x, *ws = (a.astype(np.float64) for a in (x, *ws))
    h = (state[0] if kind == "lstm" else state).astype(np.float64)
    c = state[1].astype(np.float64) if kind == "lstm" else None
    found = []
    for t in range(x.shape[1]):
        if kind == "rnn":
            h = np.tanh(x[:, t] @ ws[0] + h @ ws[1] + ws[2])
        elif kind == "gru":
            gx, gh = x[:, t] @ ws[0] + ws[2], h @ ws[1] + ws[3]
            (xr, xz, xn), (hr, hz, hn) = np.split(gx, 3, 1), np.split(gh, 3, 1)
            z = sigmoid(xz + hz)
            h = (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h
        else:
            i, f, g, o = np.split(x[:, t] @ ws[0] + h @ ws[1] + ws[2], 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return np.stack(found, 1)


KINDS = {"rnn": (recurrent.rnn, 1, 1), "gru": (recurrent.gru, 3, 2), "lstm": (recurrent.lstm, 4, 1)}


def call(kind: str, function: Any, x: Any, ws: Any, state: Any) -> Any:
    if kind == "lstm":
        y, (h, c) = function(x, *ws, h0=state[0], c0=state[1])
        return y, h, c
    return function(x, *ws, h0=state)


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_steps_and_hand_agree(kind: str) -> None:
    function, gates, biases = KINDS[kind]
    rng = np.random.default_rng(1)
    x, ws = rng.normal(size=(N, L, I)).astype(F32), weights(gates, biases)
    h, c = rng.normal(size=(2, N, H)).astype(F32)
    state = (h, c) if kind == "lstm" else h
    wanted = by_hand(kind, x, ws, state)
    jitted = call(kind, ge2rt.jit(function), x, ws, state)
    states = (h, c) if kind == "lstm" else (h,)
    given = [ge2rt.tensor(a, requires_grad=True) for a in (x, *ws, *states)]
    tensors = given[1 : 1 + len(ws)]
    first = given[1 + len(ws) :]
    made = call(kind, function, given[0], tensors, first if kind == "lstm" else first[0])
    for result in (jitted, [each.detach().numpy() for each in made]):
        np.testing.assert_allclose(result[0], wanted, atol=2e-5)
        np.testing.assert_allclose(result[1], wanted[:, -1], atol=2e-5)
    # gradients of everything that comes out
    pulls = [rng.normal(size=each.shape).astype(F32) for each in made]
    total = sum((each * ge2rt.tensor(g)).sum() for each, g in zip(made, pulls, strict=True))
    total.backward()

    def loss(*args: Any) -> Any:
        inner, rest = args[0], args[1:]
        tail = rest[len(ws) :]
        out = call(kind, function, inner, rest[: len(ws)], tail if kind == "lstm" else tail[0])
        return sum((each * g).sum() for each, g in zip(out, pulls, strict=True))

    arrays = [each.detach().numpy() for each in given]
    slopes = ge2rt.grad(loss, argnums=tuple(range(len(given))))(*arrays)
    for each, slope in zip(given, slopes, strict=True):
        np.testing.assert_allclose(each.grad.numpy(), slope, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("bias", [True, False])
def test_layers_go_on_from_their_state(kind: Any, bias: bool) -> None:
    net = kind(I, H, layers=2, bias=bias, seed=3)
    x = ge2rt.tensor(np.random.default_rng(2).normal(size=(N, L, I)).astype(F32))
    whole, last = net(x)
    first, state = net(x[:, :2])
    second, end = net(x[:, 2:], state)
    both = np.concatenate([first.detach().numpy(), second.detach().numpy()], 1)
    np.testing.assert_allclose(both, whole.detach().numpy(), atol=1e-5)
    for one, other in zip(leaves(last), leaves(end), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    biases = 0 if not bias else 2 if kind is nn.GRU else 1
    assert len(list(net.parameters())) == 2 * (2 + biases)
    again = kind(I, H, layers=2, bias=bias, seed=4)
    again.load_state_dict(net.state_dict())
    np.testing.assert_array_equal(again(x)[0].detach().numpy(), whole.detach().numpy())


def leaves(states: Any) -> list[np.ndarray]:
    flat = [s for each in states for s in (each if isinstance(each, tuple) else (each,))]
    return [s.detach().numpy() for s in flat]
