"""NumPy meanings of normalisation and dropout, with gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def _over_rows(x: Any) -> Any:
    """Sums over all axes but the last."""
    return np.sum(x, axis=tuple(range(x.ndim - 1)))


def _scaled(g: Any, gamma: Any) -> Any:
    return g if gamma is None else g * gamma


def layernorm_bwd(gY: Any, X: Any, gamma: Any = None, eps: Any = 1e-5) -> Any:
    """Gradients by X, gamma and beta.

    The Jacobian of a row of N is ``(delta_ij - 1/N - n_i n_j / N) / sigma``, n the row normalised.
    """
    count = X.shape[-1]
    centred = X - np.mean(X, axis=-1, keepdims=True)
    sigma = np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps)
    n = centred / sigma
    g = _scaled(gY, gamma)
    inner = np.sum(g * n, axis=-1, keepdims=True)
    gX = (g - np.sum(g, axis=-1, keepdims=True) / count - n * inner / count) / sigma
    return gX, _over_rows(gY * n), _over_rows(gY)


def rmsnorm_bwd(gY: Any, X: Any, gamma: Any = None, eps: Any = 1e-6) -> Any:
    """Gradients by X, gamma and beta; a row's Jacobian is ``(delta_ij - n_i n_j / N) / rms``."""
    count = X.shape[-1]
    rms = np.sqrt(np.mean(X**2, axis=-1, keepdims=True) + eps)
    n = X / rms
    g = _scaled(gY, gamma)
    gX = (g - n * np.sum(g * n, axis=-1, keepdims=True) / count) / rms
    return gX, _over_rows(gY * n), _over_rows(gY)


def _by_channel(v: Any, x: Any) -> Any:
    """A vector of channels (None: nothing), to go with ``x`` [N, C, ...]."""
    return None if v is None else np.reshape(v, (1, -1, *(1 for _ in x.shape[2:])))


def batchnorm(
    X: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any,
    eps: Any = 1e-5, momentum: Any = 0.1, training: Any = True,
) -> Any:  # fmt: skip
    """Y, the running moments afterwards, and mean and 1 / sqrt(variance + eps) of the batch."""
    axes = (0, *range(2, X.ndim))
    mean, variance = np.mean(X, axis=axes), np.var(X, axis=axes)
    running: tuple[Any, ...] = (running_mean, running_var)
    if training:
        count = X.size / mean.size
        batch = (mean, variance * count / (count - 1))
        running = tuple(
            None if old is None else (1 - momentum) * old + momentum * new
            for old, new in zip(running, batch, strict=True)
        )
    else:
        mean, variance = running
    invstd = 1 / np.sqrt(variance + eps)
    y = _scaled((X - _by_channel(mean, X)) * _by_channel(invstd, X), _by_channel(gamma, X))
    return y if beta is None else y + _by_channel(beta, X), *running, mean, invstd


def batchnorm_bwd(
    gY: Any, X: Any, gamma: Any, running_mean: Any, running_var: Any, save_mean: Any,
    save_invstd: Any, eps: Any = 1e-5, training: Any = True,
) -> Any:  # fmt: skip
    """Gradients by X, gamma and beta; in training mean and variance depend on X too."""
    axes = (0, *range(2, X.ndim))
    mean = save_mean if training else running_mean
    invstd = save_invstd if training else 1 / np.sqrt(running_var + eps)
    n = (X - _by_channel(mean, X)) * _by_channel(invstd, X)
    ggamma, gbeta = np.sum(gY * n, axis=axes), np.sum(gY, axis=axes)
    gX = gY
    if training:
        count = X.size / gbeta.size
        gX = gY - _by_channel(gbeta, X) / count - n * _by_channel(ggamma, X) / count
    return _scaled(gX * _by_channel(invstd, X), _by_channel(gamma, X)), ggamma, gbeta


_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox4x32(counter: Any, key: Any) -> Any:
    """Ten rounds of Philox4x32: counters [n, 4] and a key [2] of 32-bit words to words [n, 4].

    Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    a, b, c, d = (np.asarray(counter, dtype=np.uint64)[:, i] for i in range(4))
    k, m = (int(word) for word in key)
    for _ in range(10):
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, c = (second >> _HALF) ^ b ^ np.uint64(k), (first >> _HALF) ^ d ^ np.uint64(m)
        b, d = second & _LOW, first & _LOW
        k, m = (k + 0x9E3779B9) & 0xFFFFFFFF, (m + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([a, b, c, d], axis=-1).astype(np.uint32)


def philox_stream(size: int, seed: int, counter_base: int, sequence: int = 0) -> Any:
    """``size`` words: word i is number i % 4 of counter ``counter_base + i // 4``."""
    numbers = [(counter_base + i) % 2**64 for i in range(-(-size // 4))]
    upper = [sequence % 2**32, (sequence >> 32) % 2**32]
    counters = np.array([[n % 2**32, n >> 32, *upper] for n in numbers], np.uint64).reshape(-1, 4)
    return philox4x32(counters, (seed % 2**32, (seed >> 32) % 2**32)).reshape(-1)[:size]


def drawn(
    y: Any, distribution: str, seed: int, counter_base: int, low: float, width: float, dtype: str
) -> Any:
    """Random numbers of ``y``'s shape: uniform in [0, 1), or normal by Box and Muller, scaled."""
    words = philox_stream(-(-y.size // 4) * 4, seed, counter_base).astype(np.float64)
    if dtype != "f64":
        words = np.floor(words / 256) * 256
    r = words / 2**32
    if distribution == "normal":
        length = np.sqrt(-2 * np.log1p(-r[0::2]))
        angle = 2 * np.pi * r[1::2]
        r = np.stack([length * np.cos(angle), length * np.sin(angle)], -1).reshape(-1)
    return low + width * r[: y.size].reshape(y.shape)


def dropout(
    X: Any, p: Any = 0.5, seed: Any = 0, counter_base: Any = 0, scale_in_train: Any = True
) -> Any:
    """``X`` with elements set to zero, the others times ``1 / (1 - p)``; and which are kept."""
    words = philox_stream(X.size, seed, counter_base).astype(np.uint64)
    kept = (words >= round(p * 2**32)).reshape(X.shape)
    return np.where(kept, X / (1 - p) if scale_in_train else X, 0.0), kept


def dropout_bwd(
    gY: Any, mask: Any = None, p: Any = 0.5, seed: Any = 0, counter_base: Any = 0,
    scale_in_train: Any = True,
) -> Any:  # fmt: skip
    """Dropout of the cotangent, with the same elements kept."""
    if mask is None:
        return dropout(gY, p, seed, counter_base, scale_in_train)[0]
    return np.where(mask != 0, gY / (1 - p) if scale_in_train else gY, 0.0)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "batchnorm": batchnorm,
    "batchnorm_bwd": batchnorm_bwd,
    "drawn": drawn,
    "dropout": dropout,
    "dropout_bwd": dropout_bwd,
    "layernorm_bwd": layernorm_bwd,
    "rmsnorm_bwd": rmsnorm_bwd,
}
