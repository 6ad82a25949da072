"""Layers and steps of the kernel library on the CPU device, against NumPy and torch.

NumPy does what its users would write with care: f32 throughout, products by BLAS, temporaries
written in place. The bar is NumPy; the ratio to torch stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Row, faster, interleave

import ge2rt

F32 = np.float32
Array = Any


def _planned(kernel: str, *arrays: Array | None, **attrs: Any) -> Callable[[], int]:
    """A call of a prepared plan on arrays, None where one is absent; checked once to succeed."""
    buffers = [None if a is None else {"shape": a.shape, "dtype": a.dtype.name} for a in arrays]
    descs = {"buffers": buffers, "attrs": attrs}
    plan = ge2rt.prepare(kernel, descs, device="cpu")
    pointers = [0 if a is None else a.ctypes.data for a in arrays]
    if plan(pointers) != 0:
        raise RuntimeError(ge2rt.last_error())
    return lambda: plan(pointers)


def _normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def _row(name: str, ours: Callable[[], Any], peer: Callable[[], Any], torch: Callable[[], Any]
         ) -> list[Row]:  # fmt: skip
    times = interleave({"ge2rt": ours, "numpy": peer, "torch": torch}, 0.1)
    note = f"{times['torch'] / times['ge2rt']:.2f}x torch"
    return [faster(name, times, "numpy", 1, note=note)]


def conv2d() -> list[Row]:
    """Images of 56 x 56 with 64 channels, padded by one."""
    import torch

    x, w, y = _normal(4, 64, 56, 56), _normal(64, 64, 3, 3, seed=1), np.empty((4, 64, 56, 56), F32)
    ours = _planned("conv2d", x, w, None, y, None, pad=[1])

    def by_columns() -> Array:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(4, 64 * 9, 56 * 56)
        return w.reshape(64, -1) @ columns

    np.testing.assert_allclose(y, by_columns().reshape(y.shape), 1e-3, 1e-3)
    tx, tw = torch.from_numpy(x), torch.from_numpy(w)
    with torch.inference_mode():
        return _row("conv2d 3x3, 4x64x56x56", ours, by_columns,
                    lambda: torch.nn.functional.conv2d(tx, tw, padding=1))  # fmt: skip


def batchnorm() -> list[Row]:
    """Training: the batch's moments, and running ones follow."""
    import torch

    x, gamma, beta = _normal(16, 64, 56, 56), _normal(64, seed=1), _normal(64, seed=2)
    y, mean, var = np.empty_like(x), np.zeros(64, F32), np.ones(64, F32)
    ours = _planned("batchnorm", x, gamma, beta, y, mean, var, None, None)
    own_mean, own_var = mean.copy(), var.copy()
    shape, count = (1, 64, 1, 1), x.size // 64

    def numpy_batchnorm() -> Array:
        middle = x.mean(axis=(0, 2, 3), keepdims=True)
        centred = x - middle
        variance = np.einsum("nchw,nchw->c", centred, centred) / F32(count)
        own_mean[:] = F32(0.9) * own_mean + F32(0.1) * middle.ravel()
        own_var[:] = F32(0.9) * own_var + F32(0.1) * variance * F32(count / (count - 1))
        centred *= (gamma / np.sqrt(variance + F32(1e-5))).reshape(shape)
        centred += beta.reshape(shape)
        return centred

    np.testing.assert_allclose(y, numpy_batchnorm(), 1e-4, 1e-4)
    tensors = [torch.from_numpy(a) for a in (x, mean.copy(), var.copy(), gamma, beta)]
    with torch.inference_mode():
        return _row("batchnorm, 16x64x56x56", ours, numpy_batchnorm,
                    lambda: torch.nn.functional.batch_norm(*tensors, training=True))  # fmt: skip


def sdpa() -> list[Row]:
    """Sixteen heads of 256 queries and keys."""
    import torch

    q, k, v = (_normal(2, 8, 256, 64, seed=s) for s in range(3))
    y = np.empty_like(q)
    ours = _planned("sdpa", q, k, v, None, y, None)

    def numpy_sdpa() -> Array:
        scores = (q * F32(0.125)) @ k.swapaxes(-1, -2)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        mixed = scores @ v
        mixed /= scores.sum(axis=-1, keepdims=True)
        return mixed

    np.testing.assert_allclose(y, numpy_sdpa(), 1e-4, 1e-4)
    tensors = [torch.from_numpy(a) for a in (q, k, v)]
    with torch.inference_mode():
        return _row("sdpa 2x8x256x64", ours, numpy_sdpa,
                    lambda: torch.nn.functional.scaled_dot_product_attention(*tensors))  # fmt: skip


def cross_entropy() -> list[Row]:
    """The mean loss and its gradient, as a step of training needs both."""
    import torch

    x = _normal(4096, 1000)
    target = np.random.default_rng(1).integers(0, 1000, 4096)
    loss, grad, rows = np.empty((), F32), np.empty_like(x), np.arange(4096)
    ours = _planned("cross_entropy", x, target, loss, grad)

    def numpy_cross_entropy() -> tuple[Array, Array]:
        e = x - x.max(axis=1, keepdims=True)
        picked = e[rows, target]
        np.exp(e, out=e)
        total = e.sum(axis=1, keepdims=True)
        e /= total * F32(4096)
        e[rows, target] -= F32(1 / 4096)
        return np.mean(np.log(total[:, 0]) - picked), e

    right = numpy_cross_entropy()
    np.testing.assert_allclose(loss, right[0], 1e-4)
    np.testing.assert_allclose(grad, right[1], 1e-4, 1e-8)
    tx, classes = torch.from_numpy(x).requires_grad_(), torch.from_numpy(target)

    def torch_cross_entropy() -> Any:
        return torch.autograd.grad(torch.nn.functional.cross_entropy(tx, classes), tx)

    name = "cross entropy with gX, 4096x1000"
    return _row(name, ours, numpy_cross_entropy, torch_cross_entropy)


def adamw() -> list[Row]:
    """One tensor of four million parameters, in place."""
    import torch

    size = 1 << 22
    p, g = _normal(size), _normal(size, seed=1)
    m, v = np.zeros(size, F32), np.zeros(size, F32)
    own_p, own_m, own_v, spare, step = (
        p.copy(),
        m.copy(),
        v.copy(),
        np.empty_like(p),
        np.empty_like(p),
    )
    tensor = torch.nn.Parameter(torch.from_numpy(p.copy()))
    tensor.grad = torch.from_numpy(g.copy())
    optimiser = torch.optim.AdamW([tensor], 1e-3, weight_decay=0.01, fused=True)
    ours = _planned("adamw", g, p, m, v, lr=1e-3, step=1)
    rate, root = F32(1e-3 / (1 - 0.9)), F32(1 / np.sqrt(1 - 0.999))

    def numpy_adamw() -> None:
        np.multiply(own_p, F32(1 - 1e-5), out=own_p)
        np.multiply(own_m, F32(0.9), out=own_m)
        np.multiply(g, F32(0.1), out=spare)
        np.add(own_m, spare, out=own_m)
        np.multiply(own_v, F32(0.999), out=own_v)
        np.multiply(g, g, out=spare)
        np.multiply(spare, F32(0.001), out=spare)
        np.add(own_v, spare, out=own_v)
        np.sqrt(own_v, out=spare)
        np.multiply(spare, root, out=spare)
        np.add(spare, F32(1e-8), out=spare)
        np.multiply(own_m, rate, out=step)
        np.divide(step, spare, out=step)
        np.subtract(own_p, step, out=own_p)

    numpy_adamw()
    np.testing.assert_allclose(p, own_p, 1e-5, 1e-6)
    return _row("AdamW, 4M f32", ours, numpy_adamw, optimiser.step)


ROWS: dict[str, Callable[[], list[Row]]] = {
    "conv2d": conv2d,
    "batchnorm": batchnorm,
    "sdpa": sdpa,
    "cross entropy": cross_entropy,
    "adamw": adamw,
}
