"""NumPy meanings of optimiser steps and gradient clipping.

Formulas are those of ``torch.optim``; LAMB is that of You et al. 2019 (arXiv 1904.00962, algorithm
2 with phi the identity), Lion that of Chen et al. 2023 (arXiv 2302.06675). Each takes lists of
arrays, one a tensor, and gives the lists of what changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Arrays: TypeAlias = "list[np.ndarray[Any, Any]]"


def _each(step: Callable[..., tuple[Any, ...]], *lists: Any) -> tuple[Arrays, ...]:
    """``step`` of the items at each place; what it gives, as lists."""
    columns = [step(*items) for items in zip(*lists, strict=True)]
    return tuple(list(column) for column in zip(*columns, strict=True))


def sgd(P: Arrays, G: Arrays, lr: float, weight_decay: float) -> Arrays:
    """Plain descent."""
    return [p - lr * (g + weight_decay * p) for p, g in zip(P, G, strict=True)]


def sgd_momentum(
    P: Arrays, G: Arrays, V: Arrays, lr: float, momentum: float, dampening: float,
    weight_decay: float, nesterov: bool, step: int,
) -> tuple[Arrays, ...]:  # fmt: skip
    """Descent with momentum; the first step's momentum is the gradient itself."""

    def one(p: Array, g: Array, v: Array) -> tuple[Array, Array]:
        d = g + weight_decay * p
        v = d if step == 1 else momentum * v + (1 - dampening) * d
        return p - lr * (d + momentum * v if nesterov else v), v

    return _each(one, P, G, V)


def _averages(
    g: Array, m: Array, v: Array, beta1: float, beta2: float, step: int
) -> tuple[Array, Array, Array, Array]:
    """Running averages of the gradient and its square, then both without their bias."""
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    return m, v, m / (1 - beta1**step), v / (1 - beta2**step)


def adam(
    P: Arrays, G: Arrays, M: Arrays, V: Arrays, lr: float, beta1: float, beta2: float, eps: float,
    weight_decay: float, step: int,
) -> tuple[Arrays, ...]:  # fmt: skip
    """Adam; the decay is part of the gradient."""

    def one(p: Array, g: Array, m: Array, v: Array) -> tuple[Array, ...]:
        m, v, mean, square = _averages(g + weight_decay * p, m, v, beta1, beta2, step)
        return p - lr * mean / (np.sqrt(square) + eps), m, v

    return _each(one, P, G, M, V)


def adamw(
    P: Arrays, G: Arrays, M: Arrays, V: Arrays, lr: float, beta1: float, beta2: float, eps: float,
    weight_decay: float, step: int,
) -> tuple[Arrays, ...]:  # fmt: skip
    """Adam on parameters that shrink first."""
    shrunk = [p - lr * weight_decay * p for p in P]
    return adam(shrunk, G, M, V, lr, beta1, beta2, eps, 0.0, step)


def amsgrad(
    P: Arrays, G: Arrays, M: Arrays, V: Arrays, W: Arrays, lr: float, beta1: float, beta2: float,
    eps: float, weight_decay: float, step: int, decoupled: bool,
) -> tuple[Arrays, ...]:  # fmt: skip
    """Adam (or AdamW) that divides by the largest average square so far."""

    def one(p: Array, g: Array, m: Array, v: Array, w: Array) -> tuple[Array, ...]:
        if decoupled:
            p = p * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * p
        m, v, mean, _ = _averages(g, m, v, beta1, beta2, step)
        w = np.maximum(w, v)
        return p - lr * mean / (np.sqrt(w / (1 - beta2**step)) + eps), m, v, w

    return _each(one, P, G, M, V, W)


def adagrad(
    P: Arrays, G: Arrays, V: Arrays, lr: float, lr_decay: float, weight_decay: float, eps: float,
    step: int,
) -> tuple[Arrays, ...]:  # fmt: skip
    """Steps divided by the root of all former squares."""

    def one(p: Array, g: Array, v: Array) -> tuple[Array, Array]:
        d = g + weight_decay * p
        v = v + d * d
        return p - lr / (1 + (step - 1) * lr_decay) * d / (np.sqrt(v) + eps), v

    return _each(one, P, G, V)


def rmsprop(
    P: Arrays, G: Arrays, V: Arrays, A: Arrays | None, B: Arrays | None, lr: float, alpha: float,
    eps: float, weight_decay: float, momentum: float,
) -> tuple[Arrays, ...]:  # fmt: skip
    """Steps divided by the root of the average square, or (``A``) of the variance."""

    def one(p: Array, g: Array, v: Array, *state: Array) -> tuple[Array, ...]:
        left = list(state)
        d = g + weight_decay * p
        v = alpha * v + (1 - alpha) * d * d
        changed, spread = [v], v
        if A is not None:
            changed.append(alpha * left.pop(0) + (1 - alpha) * d)
            spread = np.maximum(v - changed[-1] ** 2, 0.0)
        u = d / (np.sqrt(spread) + eps)
        if B is not None:
            u = momentum * left.pop(0) + u
            changed.append(u)
        return (p - lr * u, *changed)

    return _each(one, P, G, V, *(state for state in (A, B) if state is not None))


def lion(
    P: Arrays, G: Arrays, M: Arrays, lr: float, beta1: float, beta2: float, weight_decay: float
) -> tuple[Arrays, ...]:
    """Steps of one size, by the sign of an average."""

    def one(p: Array, g: Array, m: Array) -> tuple[Array, Array]:
        way = np.sign(beta1 * m + (1 - beta1) * g)
        return p - lr * (way + weight_decay * p), beta2 * m + (1 - beta2) * g

    return _each(one, P, G, M)


def lamb(
    P: Arrays, G: Arrays, M: Arrays, V: Arrays, lr: float, beta1: float, beta2: float, eps: float,
    weight_decay: float, step: int,
) -> tuple[Arrays, ...]:  # fmt: skip
    """Adam's direction with decay, as long as the tensor's norm says."""

    def one(p: Array, g: Array, m: Array, v: Array) -> tuple[Array, ...]:
        m, v, mean, square = _averages(g, m, v, beta1, beta2, step)
        r = mean / (np.sqrt(square) + eps) + weight_decay * p
        of_p, of_r = np.sqrt((p**2).sum()), np.sqrt((r**2).sum())
        return p - lr * (of_p / of_r if of_p and of_r else 1.0) * r, m, v

    return _each(one, P, G, M, V)


def clipped(G: Arrays, max_norm: float, norm_type: float) -> tuple[Arrays, Any]:
    """The gradients, scaled so that the norm of all together is at most ``max_norm``; that norm."""
    every = np.concatenate([g.ravel() for g in G])
    norm = np.sqrt((every**2).sum()) if norm_type == 2 else np.abs(every).max(initial=0.0)
    return [g * min(1.0, max_norm / (norm + 1e-6)) for g in G], norm


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "sgd": sgd,
    "sgd_momentum": sgd_momentum,
    "adam": adam,
    "adamw": adamw,
    "amsgrad": amsgrad,
    "adagrad": adagrad,
    "rmsprop": rmsprop,
    "lion": lion,
    "lamb": lamb,
    "clipped": clipped,
}
