"""Recurrent layers: kernels over whole sequences on tensors, steps written out inside ``@jit``.

Weights lie as the kernels read them: ``[I, G H]`` for what comes in and ``[H, G H]`` for the state,
with G = 1 (RNN), 3 (GRU: r z n) or 4 (LSTM: i f g o). Formulas are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np

from ge2rt.jit import functions
from ge2rt.nn import checks
from ge2rt.nn.layers import uniform_parameter
from ge2rt.nn.module import Module
from ge2rt.tensors.kernels import kernel_operator
from ge2rt.tensors.outside import refuse_outside


def rnn(
    x: Any, wx: Any, wh: Any, bias: Any = None, h0: Any = None, act: str = "tanh"
) -> tuple[Any, Any]:
    """States ``[N, L, H]`` and the last one ``[N, H]``: ``act(x wx + h wh + bias)``."""
    if not refuse_outside((x, wx, wh, bias, h0)):
        y, last = _kernel("RNN", ("hn",))(x, wx, wh, bias, h0, act=act)
        return y, last
    squash = np.tanh if act == "tanh" else functions.relu

    def step(gates: Any, h: Any) -> Any:
        return squash(gates + h @ wh)

    return _unrolled(x, wx, bias, h0, wh.shape[0], step)


def gru(
    x: Any, wx: Any, wh: Any, bias: Any = None, bias_h: Any = None, h0: Any = None
) -> tuple[Any, Any]:
    """States ``[N, L, H]`` and the last one (Cho et al., 2014; the reset after the product)."""
    if not refuse_outside((x, wx, wh, bias, bias_h, h0)):
        y, last = _kernel("GRU", ("hn",))(x, wx, wh, bias, bias_h, h0)
        return y, last
    hidden = wh.shape[0]

    def step(gates: Any, h: Any) -> Any:
        inner = h @ wh if bias_h is None else h @ wh + bias_h
        both = functions.sigmoid(gates[:, : 2 * hidden] + inner[:, : 2 * hidden])
        r, z = both[:, :hidden], both[:, hidden:]
        n = np.tanh(gates[:, 2 * hidden :] + r * inner[:, 2 * hidden :])
        return (1 - z) * n + z * h

    return _unrolled(x, wx, bias, h0, hidden, step)


def lstm(
    x: Any, wx: Any, wh: Any, bias: Any = None, h0: Any = None, c0: Any = None
) -> tuple[Any, tuple[Any, Any]]:
    """States ``[N, L, H]``, and the last state and cell (Hochreiter and Schmidhuber, 1997)."""
    if not refuse_outside((x, wx, wh, bias, h0, c0)):
        y, last, cell = _kernel("LSTM", ("hn", "cn"))(x, wx, wh, bias, h0, c0)
        return y, (last, cell)
    hidden = wh.shape[0]
    state = [_first(x, hidden) if c0 is None else c0]

    def step(gates: Any, h: Any) -> Any:
        gates = gates + h @ wh
        i, f, g, o = (gates[:, n * hidden : (n + 1) * hidden] for n in range(4))
        state[0] = functions.sigmoid(f) * state[0] + functions.sigmoid(i) * np.tanh(g)
        return functions.sigmoid(o) * np.tanh(state[0])

    y, last = _unrolled(x, wx, bias, h0, hidden, step)
    return y, (last, state[0])


@cache
def _kernel(op_type: str, optional: tuple[str, ...]) -> Callable[..., Any]:
    return kernel_operator(op_type, optional=optional)


def _first(x: Any, hidden: int) -> Any:
    return np.zeros((x.shape[0], hidden), x.dtype)


def _unrolled(
    x: Any, wx: Any, bias: Any, h0: Any, hidden: int, step: Callable[[Any, Any], Any]
) -> tuple[Any, Any]:
    gates = x @ wx if bias is None else x @ wx + bias
    h, states = _first(x, hidden) if h0 is None else h0, []
    for t in range(x.shape[1]):
        h = step(gates[:, t], h)
        states.append(h)
    return np.stack(states, 1), h


class _Cells(Module):
    """The weights of one layer."""

    def __init__(self, sizes: tuple[int, int, int], biases: int, seed: int | None) -> None:
        inputs, hidden, gates = sizes
        seeds = [None if seed is None else seed + n for n in range(4)]
        self.wx = uniform_parameter((inputs, gates * hidden), hidden, seeds[0])
        self.wh = uniform_parameter((hidden, gates * hidden), hidden, seeds[1])
        self.bias = uniform_parameter((gates * hidden,), hidden, seeds[2]) if biases else None
        if biases > 1:
            self.bias_h = uniform_parameter((gates * hidden,), hidden, seeds[3])

    def weights(self) -> dict[str, Any]:
        """By the names that the functions above give them."""
        names = ("wx", "wh", "bias", "bias_h")
        return {n: v for n in names if (v := getattr(self, n, None)) is not None}


class _Recurrent(Module):
    gates: ClassVar[int] = 1
    biases: ClassVar[int] = 1  # of a layer

    def __init__(
        self, inputs: int, hidden: int, layers: int = 1, bias: bool = True, seed: int | None = None
    ) -> None:
        for name, value in (("inputs", inputs), ("hidden", hidden), ("layers", layers)):
            checks.extent(type(self).__name__, name, value)
        self.layers = [
            _Cells((hidden if n else inputs, hidden, self.gates), self.biases * bias,
                   None if seed is None else seed + 4 * n)
            for n in range(layers)
        ]  # fmt: skip

    def forward(self, x: Any, state: Any = None) -> tuple[Any, Any]:
        """``x`` ``[N, L, I]`` and a first state a layer; states ``[N, L, H]`` and the last ones."""
        last = []
        for n, layer in enumerate(self.layers):
            x, end = self.run(x, layer, None if state is None else state[n])
            last.append(end)
        return x, last

    def run(self, x: Any, layer: _Cells, state: Any) -> tuple[Any, Any]:
        """One layer."""
        raise NotImplementedError


class RNN(_Recurrent):
    """Layers of ``tanh(x wx + h wh + bias)``; a state is ``[N, H]`` a layer.

    ``inputs``, ``hidden``, ``layers`` are extents (I, H) and their number; ``bias=False`` leaves
    the biases out; ``seed`` draws the weights, uniform in ``+-1 / sqrt(hidden)``.
    """

    def run(self, x: Any, layer: _Cells, state: Any) -> tuple[Any, Any]:
        """One layer."""
        return rnn(x, **layer.weights(), h0=state)


class GRU(_Recurrent):
    """Gated recurrent layers; a state is ``[N, H]`` a layer.

    ``inputs``, ``hidden``, ``layers`` are extents (I, H) and their number; ``bias=False`` leaves
    the biases out; ``seed`` draws the weights, uniform in ``+-1 / sqrt(hidden)``.
    """

    gates = 3
    biases = 2

    def run(self, x: Any, layer: _Cells, state: Any) -> tuple[Any, Any]:
        """One layer."""
        return gru(x, **layer.weights(), h0=state)


class LSTM(_Recurrent):
    """Long short-term memory layers; a state is a pair ``(h, c)`` of ``[N, H]`` a layer.

    ``inputs``, ``hidden``, ``layers`` are extents (I, H) and their number; ``bias=False`` leaves
    the biases out; ``seed`` draws the weights, uniform in ``+-1 / sqrt(hidden)``.
    """

    gates = 4

    def run(self, x: Any, layer: _Cells, state: Any) -> tuple[Any, Any]:
        """One layer."""
        h0, c0 = (None, None) if state is None else state
        return lstm(x, **layer.weights(), h0=h0, c0=c0)
