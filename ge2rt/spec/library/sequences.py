"""NumPy meanings of attention and recurrent layers, with gradients.

Recurrent layers run over ``x[n, t, i]`` with weights ``[i, gates * h]`` and ``[h, gates * h]``; the
order of gates and the formulas are those of PyTorch's ``RNN``, ``LSTM`` (i, f, g, o) and ``GRU``
(r, z, n). A gradient of a recurrent layer is a function of the states ``y`` that the forward gave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ge2rt.spec.library.norms import dropout

Array: TypeAlias = "np.ndarray[Any, Any]"


def _sigmoid(z: Any) -> Any:
    return 1 / (1 + np.exp(-z))


def _plus(value: Any, bias: Any) -> Any:
    return value if bias is None else value + bias


def _begin(y: Any, first: Any, hidden: int) -> Any:
    """A copy of the first state, zeros without one."""
    return np.zeros((y.shape[0], hidden)) if first is None else np.array(first)


def _before(y: Any, h0: Any) -> Any:
    """The states before each step: those after it, one step later."""
    first = _begin(y, h0, y.shape[2])
    return np.concatenate([first[:, None], y], axis=1)[:, : y.shape[1]]


def _apart(gates: Any, number: int) -> list[Any]:
    """Equal parts of the last axis."""
    size = gates.shape[-1] // number
    return [gates[..., g * size : (g + 1) * size] for g in range(number)]


def _gradients(x: Any, before: Any, wx: Any, from_x: Any, from_h: Any) -> tuple[Any, ...]:
    """Gradients of x and both weights from those of what ``x @ wx`` and ``before @ wh`` gave."""
    return (
        from_x @ wx.T,
        np.einsum("nti,ntg->ig", x, from_x),
        np.einsum("nth,ntg->hg", before, from_h),
    )


def _scores(q: Any, k: Any, mask: Any, scale: float, causal: bool) -> Any:
    """Scores, -inf for keys not seen: a bool mask says which are, an integer which are not."""
    scores = q @ np.swapaxes(k, -1, -2) * (scale or 1 / np.sqrt(q.shape[-1]))
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    if mask is None:
        return scores
    if np.issubdtype(mask.dtype, np.floating):
        return scores + mask
    return np.where(mask if mask.dtype == np.bool_ else mask == 0, scores, -np.inf)


def _log_sum(scores: Any) -> Any:
    """Logarithm of the sum of exponentials of each row; -inf where no key is seen."""
    top = np.max(scores, axis=-1)
    return top + np.log(np.sum(np.exp(scores - np.maximum(top, -1e300)[..., None]), axis=-1))


def _weights(scores: Any, lse: Any) -> Any:
    """What exponentials of scores are of their sum; 0 for a key that is not seen."""
    return np.where(scores == -np.inf, 0.0, np.exp(scores - lse[..., None]))


def _kept(weights: Any, p: float, seed: int) -> Any:
    """What dropout multiplies each weight by: 0 or ``1 / (1 - p)``."""
    return dropout(np.ones_like(weights), p, seed)[0] if p else 1.0


def sdpa(
    q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool, p: float = 0.0, seed: int = 0
) -> tuple[Any, ...]:
    """Attention, and the logarithm of the sum of exponentials of each row of scores.

    The row of a query that sees no key is 0, as PyTorch has it. Dropout sets weights to zero, not
    scores, so that it does not change the logarithm.
    """
    scores = _scores(q, k, mask, scale, causal)
    lse = _log_sum(scores)
    weights = _weights(scores, lse)
    return (weights * _kept(weights, p, seed)) @ v, lse


def sdpa_bwd(
    q: Any, k: Any, v: Any, mask: Any, y: Any, lse: Any, gy: Any, scale: float, causal: bool,
    p: float = 0.0, seed: int = 0,
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of q, k and v; ``y`` and ``lse`` as given, or computed where one is missing."""
    scores = _scores(q, k, mask, scale, causal)
    if y is None or lse is None:
        y, lse = sdpa(q, k, v, mask, scale, causal, p, seed)
    weights = _weights(scores, lse)
    kept = _kept(weights, p, seed)
    gweights = gy @ np.swapaxes(v, -1, -2) * kept
    gscores = weights * (gweights - np.sum(gy * y, axis=-1, keepdims=True))
    gscores = gscores * (scale or 1 / np.sqrt(q.shape[-1]))
    gv = np.swapaxes(weights * kept, -1, -2) @ gy
    return gscores @ k, np.swapaxes(gscores, -1, -2) @ q, gv


def rnn(x: Any, wx: Any, wh: Any, bias: Any, h0: Any, act: str) -> tuple[Any, ...]:
    """States ``act(x wx + h wh + bias)``, the last one, and what ``act`` was taken of."""
    h = _begin(x, h0, wh.shape[0])
    z = np.zeros((*x.shape[:2], wh.shape[0]))
    y = np.zeros_like(z)
    for t in range(x.shape[1]):
        z[:, t] = _plus(x[:, t] @ wx + h @ wh, bias)
        h = np.tanh(z[:, t]) if act == "tanh" else np.maximum(z[:, t], 0)
        y[:, t] = h
    return y, h, z


def rnn_bwd(
    x: Any, wx: Any, wh: Any, h0: Any, y: Any, gy: Any, ghn: Any, act: str
) -> tuple[Any, ...]:
    """Gradients of x, wx, wh, bias and h0."""
    gh = _begin(y, ghn, wh.shape[0])
    gz = np.zeros_like(gy)
    for t in reversed(range(x.shape[1])):
        slope = 1 - y[:, t] ** 2 if act == "tanh" else np.where(y[:, t] > 0, 1.0, 0.0)
        gz[:, t] = (gy[:, t] + gh) * slope
        gh = gz[:, t] @ wh.T
    return (*_gradients(x, _before(y, h0), wx, gz, gz), gz.sum((0, 1)), gh)


def lstm(x: Any, wx: Any, wh: Any, bias: Any, h0: Any, c0: Any) -> tuple[Any, ...]:
    """All h, the last h, the last c."""
    h, c = (_begin(x, first, wh.shape[0]) for first in (h0, c0))
    y = np.zeros((*x.shape[:2], wh.shape[0]))
    for t in range(x.shape[1]):
        i, f, g, o = _apart(_plus(x[:, t] @ wx + h @ wh, bias), 4)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        y[:, t] = h
    return y, h, c


def lstm_bwd(
    x: Any, wx: Any, wh: Any, bias: Any, h0: Any, c0: Any, y: Any, gy: Any, ghn: Any, gcn: Any
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of x, wx, wh, bias, h0 and c0; gates and c are those that the states ``y`` give."""
    before = _before(y, h0)
    i, f, g, o = _apart(_plus(x @ wx + before @ wh, bias), 4)
    i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
    cells = [_begin(y, c0, wh.shape[0])]
    for t in range(x.shape[1]):
        cells.append(f[:, t] * cells[t] + i[:, t] * g[:, t])
    gh, gc = _begin(y, ghn, wh.shape[0]), _begin(y, gcn, wh.shape[0])
    gz = np.zeros((*y.shape[:2], 4 * wh.shape[0]))
    for t in reversed(range(x.shape[1])):
        gh = gy[:, t] + gh
        c = np.tanh(cells[t + 1])
        gc = gc + gh * o[:, t] * (1 - c**2)
        gi, gf, gg, go = gc * g[:, t], gc * cells[t], gc * i[:, t], gh * c
        slopes = (i[:, t] * (1 - i[:, t]), f[:, t] * (1 - f[:, t]), 1 - g[:, t] ** 2,
                  o[:, t] * (1 - o[:, t]))  # fmt: skip
        parts = [part * slope for part, slope in zip((gi, gf, gg, go), slopes, strict=True)]
        gz[:, t] = np.concatenate(parts, axis=-1)
        gh, gc = gz[:, t] @ wh.T, gc * f[:, t]
    return (*_gradients(x, before, wx, gz, gz), gz.sum((0, 1)), gh, gc)


def gru(x: Any, wx: Any, wh: Any, bias: Any, bias_h: Any, h0: Any) -> tuple[Any, ...]:
    """All h and the last h. ``bias`` goes with x, ``bias_h`` with h."""
    h = _begin(x, h0, wh.shape[0])
    y = np.zeros((*x.shape[:2], wh.shape[0]))
    for t in range(x.shape[1]):
        xr, xz, xn = _apart(_plus(x[:, t] @ wx, bias), 3)
        hr, hz, hn = _apart(_plus(h @ wh, bias_h), 3)
        z = _sigmoid(xz + hz)
        h = (1 - z) * np.tanh(xn + _sigmoid(xr + hr) * hn) + z * h
        y[:, t] = h
    return y, h


def gru_bwd(
    x: Any, wx: Any, wh: Any, bias: Any, bias_h: Any, h0: Any, y: Any, gy: Any, ghn: Any
) -> tuple[Any, ...]:  # fmt: skip
    """Gradients of x, wx, wh, bias, bias_h and h0; gates are those that the states ``y`` give."""
    before = _before(y, h0)
    xr, xz, xn = _apart(_plus(x @ wx, bias), 3)
    hr, hz, hn = _apart(_plus(before @ wh, bias_h), 3)
    r, z = _sigmoid(xr + hr), _sigmoid(xz + hz)
    n = np.tanh(xn + r * hn)
    gh = _begin(y, ghn, wh.shape[0])
    from_x = np.zeros((*y.shape[:2], 3 * wh.shape[0]))
    from_h = np.zeros_like(from_x)
    for t in reversed(range(x.shape[1])):
        gh = gy[:, t] + gh
        gn = gh * (1 - z[:, t]) * (1 - n[:, t] ** 2)
        gr = gn * hn[:, t] * r[:, t] * (1 - r[:, t])
        gz = gh * (before[:, t] - n[:, t]) * z[:, t] * (1 - z[:, t])
        from_x[:, t] = np.concatenate([gr, gz, gn], axis=-1)
        from_h[:, t] = np.concatenate([gr, gz, gn * r[:, t]], axis=-1)
        gh = gh * z[:, t] + from_h[:, t] @ wh.T
    return (
        *_gradients(x, before, wx, from_x, from_h), from_x.sum((0, 1)), from_h.sum((0, 1)), gh,
    )  # fmt: skip


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "sdpa": sdpa,
    "sdpa_bwd": sdpa_bwd,
    "rnn": rnn,
    "rnn_bwd": rnn_bwd,
    "lstm": lstm,
    "lstm_bwd": lstm_bwd,
    "gru": gru,
    "gru_bwd": gru_bwd,
}
