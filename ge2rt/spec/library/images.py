"""NumPy meanings of convolution, pooling and upsampling, with gradients.

Images are ``[N, C, H, W]``. Windows are looked at place by place: for each ``(i, j)`` in the
window, all windows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from ge2rt.spec import numeric
from ge2rt.spec.library.rows import unary_bwd

Array: TypeAlias = "np.ndarray[Any, Any]"
Pair: TypeAlias = "tuple[int, int]"


def _axis(o: Any, k: Any, stride: int, pad: int, dilation: int) -> Any:
    """Where element ``k`` of window ``o`` lies along an axis."""
    return o * stride - pad + k * dilation


def _windows(extent: int, size: int, stride: int, pad: int, dilation: int, ceil: bool) -> int:
    """How many windows there are along an axis: the last one ends in the padded image.

    With ``ceil`` the last one has to start in the image or the padding before it, and it is the
    first that reaches the padded end.
    """
    count = 0
    while True:
        start = _axis(count, 0, stride, pad, dilation)
        end = _axis(count, size - 1, stride, pad, dilation)
        if end > extent + pad - 1 and not ceil:
            return count
        before = _axis(count - 1, size - 1, stride, pad, dilation)
        covered = count > 0 and before >= extent + pad - 1
        if ceil and (start >= extent or covered):
            return count
        count += 1


def _both_windows(
    shape: Pair, size: Pair, stride: Pair, pad: Pair, dilation: Pair, ceil: bool
) -> Pair:
    h, w = (_windows(shape[a], size[a], stride[a], pad[a], dilation[a], ceil) for a in (0, 1))
    return h, w


def _places(
    shape: Pair, windows: Pair, size: Pair, stride: Pair, pad: Pair, dilation: Pair
) -> Iterator[tuple[int, int, Array, Array, Array]]:
    """For each place of a window: ``(i, j, h, w, inside)`` over all windows, ``h`` a column."""
    o = [np.arange(n) for n in windows]
    for i in range(size[0]):
        for j in range(size[1]):
            h = _axis(o[0], i, stride[0], pad[0], dilation[0])[:, None]
            w = _axis(o[1], j, stride[1], pad[1], dilation[1])[None, :]
            yield i, j, h, w, (h >= 0) & (h < shape[0]) & (w >= 0) & (w < shape[1])


def _at(x: Array, h: Array, w: Array, inside: Array) -> Array:
    """``x`` at the places, 0 where they are outside."""
    if not inside.any():
        return np.zeros((*x.shape[:2], *inside.shape))
    values = x[:, :, np.clip(h, 0, x.shape[2] - 1), np.clip(w, 0, x.shape[3] - 1)]
    return np.where(inside, values, 0.0)


def _largest(x: Array, windows: Pair, *geometry: Pair) -> tuple[Array, Array]:
    """Largest element of each window and its number ``h * W + w``: -inf and -1 if it has none."""
    best = np.full((*x.shape[:2], *windows), -np.inf)
    number = np.full(best.shape, -1)
    for _, _, h, w, inside in _places((x.shape[2], x.shape[3]), windows, *geometry):
        value = _at(x, h, w, inside)
        first_nan = np.isnan(value) & ~np.isnan(best)
        better = inside & ((number < 0) | (value > best) | first_nan)
        best = np.where(better, value, best)
        number = np.where(better, h * x.shape[3] + w, number)
    return best, number


def _counts(shape: Pair, windows: Pair, pad: Pair, include_pad: bool, *geometry: Pair) -> Array:
    """How many elements of each window a mean counts."""
    count = np.zeros(windows, int)
    size, stride, dilation = geometry
    for _, _, h, w, inside in _places(shape, windows, size, stride, pad, dilation):
        padded = (h < shape[0] + pad[0]) & (w < shape[1] + pad[1])
        count += padded if include_pad else inside
    return count


def pool2d(
    x: Array, mode: str, size: Pair, stride: Pair, pad: Pair, dilation: Pair,
    ceil_mode: bool, count_include_pad: bool,
) -> tuple[Array, Array | None]:  # fmt: skip
    """Largest values with their numbers, or means and None; as PyTorch's max_pool2d, avg_pool2d."""
    shape = (x.shape[2], x.shape[3])
    windows = _both_windows(shape, size, stride, pad, dilation, ceil_mode)
    if mode == "max":
        return _largest(x, windows, size, stride, pad, dilation)
    total = np.zeros((*x.shape[:2], *windows))
    for _, _, h, w, inside in _places(shape, windows, size, stride, pad, dilation):
        total += _at(x, h, w, inside)
    count = _counts(shape, windows, pad, count_include_pad, size, stride, dilation)
    return total / np.maximum(count, 1), None


def pool2d_bwd(
    gy: Array, x_shape: tuple[int, ...], x: Array | None, indices: Array | None, mode: str,
    size: Pair, stride: Pair, pad: Pair, dilation: Pair, ceil_mode: bool, count_include_pad: bool,
) -> Array:  # fmt: skip
    """What each window's cotangent gives to the elements: all to the largest, or equal parts."""
    gx = np.zeros(x_shape)
    shape, windows = (x_shape[2], x_shape[3]), (gy.shape[2], gy.shape[3])
    if mode == "max" and indices is None:
        assert x is not None
        indices = _largest(x, windows, size, stride, pad, dilation)[1]
    if mode == "avg":
        count = _counts(shape, windows, pad, count_include_pad, size, stride, dilation)
        gy = gy / np.maximum(count, 1)
    for _, _, h, w, inside in _places(shape, windows, size, stride, pad, dilation):
        for o in np.argwhere(inside):
            p, q = int(h[o[0], 0]), int(w[0, o[1]])
            part = gy[:, :, o[0], o[1]]
            if indices is not None:
                part = np.where(indices[:, :, o[0], o[1]] == p * shape[1] + q, part, 0.0)
            gx[:, :, p, q] += part
    return gx


def _read(out: int, extent: int, mode: str, scale: float, align: bool) -> Array:
    """How much row ``o`` of an upsampled axis takes of row ``i`` of ``extent``, as a matrix.

    ``scale`` is 0 where the size was given. The nearest row is ``floor(o / scale)``; bilinear
    counts from the middles of the elements, as PyTorch's interpolate does.
    """
    taken = np.zeros((out, extent))
    for o in range(out):
        if mode == "nearest":
            at = float(o * extent // out) if scale == 0 else np.floor(o / scale)
        elif align:
            at = o * (extent - 1) / (out - 1) if out > 1 else 0.0
        else:
            at = max((o + 0.5) / (scale or out / extent) - 0.5, 0.0)
        first = int(at)
        taken[o, first] += 1 - (at - first)
        taken[o, min(first + 1, extent - 1)] += at - first
    return taken


def upsample2d(
    x: Array, mode: str, oh: int, ow: int, scale_h: float, scale_w: float, align_corners: bool
) -> Array:
    """Rows and columns each read by a matrix of shares."""
    rows = _read(oh, x.shape[2], mode, scale_h, align_corners)
    columns = _read(ow, x.shape[3], mode, scale_w or scale_h, align_corners)
    return np.asarray(np.einsum("oh,nchw,pw->ncop", rows, x, columns))


def upsample2d_bwd(
    gy: Array, h: int, w: int, mode: str, scale_h: float, scale_w: float, align_corners: bool
) -> Array:
    """Each element gets the cotangents of those that read it, times what they take."""
    rows = _read(gy.shape[2], h, mode, scale_h, align_corners)
    columns = _read(gy.shape[3], w, mode, scale_w or scale_h, align_corners)
    return np.asarray(np.einsum("oh,ncop,pw->nchw", rows, gy, columns))


def conv2d(
    x: Array, w: Array, bias: Array | None, stride: Pair, pad: Pair, dilation: Pair, groups: int,
    act: str, leaky_slope: float,
) -> tuple[Array, Array]:  # fmt: skip
    """``(act(Z), Z)``; Z adds up, place by place of a window, ``W[o, c, i, j]`` times X there."""
    shape, size = (x.shape[2], x.shape[3]), (w.shape[2], w.shape[3])
    windows = _both_windows(shape, size, stride, pad, dilation, False)
    z = np.zeros((x.shape[0], w.shape[0], *windows))
    for i, j, row, column, inside in _places(shape, windows, size, stride, pad, dilation):
        part = _at(x, row, column, inside)
        for own, other in _groups(w.shape[0], x.shape[1], groups):
            z[:, own] += np.einsum("nchw,oc->nohw", part[:, other], w[own, :, i, j])
    if bias is not None:
        z += bias[:, None, None]
    return np.asarray(numeric.unary(act, z, leaky_slope)), z


def _groups(outputs: int, inputs: int, groups: int) -> Iterator[tuple[slice, slice]]:
    """The output and the input channels of each group."""
    per_o, per_i = outputs // groups, inputs // groups
    for g in range(groups):
        yield slice(g * per_o, (g + 1) * per_o), slice(g * per_i, (g + 1) * per_i)


def conv2d_bwd(
    gy: Array, x: Array, w: Array, z: Array | None, stride: Pair, pad: Pair, dilation: Pair,
    groups: int, act: str, leaky_slope: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """``gX, gW, gbias`` of :func:`conv2d`: each product of its sum gives to both of its factors."""
    if act == "relu_where":
        assert z is not None  # the kernel requires it
        gy = np.where(z > 0, gy, 0.0)
    elif act != "none":
        gy = unary_bwd(act, gy, z, alpha=leaky_slope)
    gx, gw = np.zeros(x.shape), np.zeros(w.shape)
    shape, size = (x.shape[2], x.shape[3]), (w.shape[2], w.shape[3])
    windows = (gy.shape[2], gy.shape[3])
    for i, j, row, column, inside in _places(shape, windows, size, stride, pad, dilation):
        part = _at(x, row, column, inside)
        for own, other in _groups(w.shape[0], x.shape[1], groups):
            gw[own, :, i, j] = np.einsum("nohw,nchw->oc", gy[:, own], part[:, other])
            back = np.einsum("nohw,oc->nchw", gy[:, own], w[own, :, i, j])
            for o in np.argwhere(inside):
                gx[:, other, row[o[0], 0], column[0, o[1]]] += back[:, :, o[0], o[1]]
    return gx, gw, gy.sum((0, 2, 3))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "pool2d": pool2d, "pool2d_bwd": pool2d_bwd,
    "upsample2d": upsample2d, "upsample2d_bwd": upsample2d_bwd,
    "conv2d": conv2d, "conv2d_bwd": conv2d_bwd,
}  # fmt: skip
