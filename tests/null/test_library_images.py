"""Meanings of convolution, pooling and upsampling against hand values and other statements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ge2rt.spec.library import images

RNG = np.random.default_rng(5)
Array = Any

GEOMETRIES = [  # size, stride, pad, dilation, ceil_mode
    ((2, 2), (2, 2), (0, 0), (1, 1), False),
    ((3, 2), (2, 1), (1, 1), (1, 2), False),
    ((3, 3), (2, 2), (1, 1), (1, 1), True),
    ((3, 2), (4, 3), (0, 0), (2, 1), True),
    ((5, 7), (1, 1), (2, 3), (1, 1), False),
]


def outputs(extent: int, size: int, stride: int, pad: int, dilation: int, ceil: bool) -> int:
    """PyTorch's formula."""
    rest = extent + 2 * pad - dilation * (size - 1) - 1
    count = (-(-rest // stride) if ceil else rest // stride) + 1
    return count - 1 if ceil and (count - 1) * stride >= extent + pad else count


def windows(x: Array, geometry: Any, fill: float) -> Array:
    """All windows of ``x`` filled up with ``fill``, as a list of (oh, ow, elements)."""
    size, stride, pad, dilation, ceil = geometry
    far = [s + d * (k - 1) + 1 for s, d, k in zip(stride, dilation, size, strict=True)]
    widths = [(p, p + f) for p, f in zip(pad, far, strict=True)]
    padded = np.pad(x, [(0, 0), (0, 0), *widths], constant_values=fill)
    found = []
    for oh in range(outputs(x.shape[2], size[0], stride[0], pad[0], dilation[0], ceil)):
        for ow in range(outputs(x.shape[3], size[1], stride[1], pad[1], dilation[1], ceil)):
            h, w = oh * stride[0], ow * stride[1]
            rows = slice(h, h + dilation[0] * (size[0] - 1) + 1, dilation[0])
            columns = slice(w, w + dilation[1] * (size[1] - 1) + 1, dilation[1])
            found.append((oh, ow, padded[:, :, rows, columns]))
    return found


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_largest_of_each_window(geometry: Any) -> None:
    x = RNG.normal(size=(2, 3, 9, 11))
    y, numbers = images.pool2d(x, "max", *geometry, True)
    assert numbers is not None
    found = windows(x, geometry, -np.inf)
    assert y.size == 6 * len(found)
    for oh, ow, elements in found:
        np.testing.assert_array_equal(y[:, :, oh, ow], elements.max((2, 3)))
    picked = np.take_along_axis(x.reshape(2, 3, -1), numbers.reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(picked.reshape(y.shape), y)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_means_count_what_they_should(geometry: Any) -> None:
    x = RNG.normal(size=(1, 2, 9, 11))
    y, none = images.pool2d(x, "avg", *geometry, False)
    assert none is None
    for oh, ow, elements in windows(x, geometry, np.nan):
        np.testing.assert_allclose(y[:, :, oh, ow], np.nanmean(elements, (2, 3)), rtol=1e-12)
    pad = geometry[2]
    zeros = np.pad(x, [(0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2])
    padded, _ = images.pool2d(x, "avg", *geometry, True)
    inside = (geometry[0], geometry[1], (0, 0), geometry[3], geometry[4])
    for oh, ow, elements in windows(zeros, inside, np.nan):
        if oh < padded.shape[2] and ow < padded.shape[3]:
            np.testing.assert_allclose(padded[:, :, oh, ow], np.nanmean(elements, (2, 3)))


def test_first_of_equals_nan_and_empty_windows() -> None:
    x = np.array([[[[1.0, 3.0, 3.0], [3.0, 0.0, 3.0]]]])
    assert images.pool2d(x, "max", (2, 3), (1, 1), (0, 0), (1, 1), False, True)[1] == 1
    x[0, 0, 1, 1] = x[0, 0, 1, 2] = np.nan
    y, number = images.pool2d(x, "max", (2, 3), (1, 1), (0, 0), (1, 1), False, True)
    assert np.isnan(y).all()
    assert number == 4
    one = np.ones((1, 1, 1, 1))
    y, number = images.pool2d(one, "max", (2, 2), (1, 1), (1, 1), (2, 2), False, True)
    assert y == -np.inf
    assert number == -1


def test_a_last_window_starts_inside() -> None:
    x = np.arange(1.0, 6.0).reshape(1, 1, 1, 5)
    y, _ = images.pool2d(x, "max", (1, 2), (1, 2), (0, 0), (1, 1), True, True)
    assert y.ravel().tolist() == [2, 4, 5]
    # a window at 5 would lie in the padding after the image
    y, _ = images.pool2d(x, "max", (1, 2), (1, 3), (0, 1), (1, 1), True, True)
    assert y.ravel().tolist() == [1, 4]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("include_pad", [True, False])
def test_the_gradient_of_a_mean_is_its_transpose(geometry: Any, include_pad: bool) -> None:
    x = RNG.normal(size=(2, 1, 9, 11))
    y, _ = images.pool2d(x, "avg", *geometry, include_pad)
    g = RNG.normal(size=y.shape)
    gx = images.pool2d_bwd(g, x.shape, None, None, "avg", *geometry, include_pad)
    np.testing.assert_allclose((gx * x).sum(), (g * y).sum(), rtol=1e-10)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_gradient_of_the_largest(geometry: Any) -> None:
    x = RNG.permutation(99.0 * np.arange(9 * 11)).reshape(1, 1, 9, 11)
    y, numbers = images.pool2d(x, "max", *geometry, True)
    g = RNG.normal(size=y.shape)
    step = np.zeros_like(x)
    expected = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        step[at] = 1.0
        up, down = (images.pool2d(x + s * step, "max", *geometry, True)[0] for s in (1, -1))
        expected[at] = (g * (up - down)).sum() / 2
        step[at] = 0.0
    for given in (None, numbers):
        gx = images.pool2d_bwd(g, x.shape, x, given, "max", *geometry, True)
        np.testing.assert_allclose(gx, expected, atol=1e-9)


def test_upsampling_by_hand() -> None:
    x = np.array([[[[0.0, 1.0, 4.0]]]])

    def row(out: int, mode: str, scale: float = 0.0, align: bool = False) -> list[float]:
        y = images.upsample2d(x, mode, 1, out, 1.0 if scale else 0.0, scale, align)
        return [round(float(v), 9) for v in y.ravel()]

    assert row(6, "nearest") == [0, 0, 1, 1, 4, 4]
    assert row(5, "nearest") == [0, 0, 1, 1, 4]  # floor(o * 3 / 5)
    assert row(7, "nearest", 2.5) == [0, 0, 0, 1, 1, 4, 4]  # floor(o / 2.5)
    assert row(2, "nearest") == [0, 1]
    assert row(6, "bilinear") == [0, 0.25, 0.75, 1.75, 3.25, 4]
    assert row(6, "bilinear", 2.0) == [0, 0.25, 0.75, 1.75, 3.25, 4]
    assert row(5, "bilinear", align=True) == [0, 0.5, 1, 2.5, 4]
    assert row(1, "bilinear", align=True) == [0]
    # the scale that was given counts, not that of the extents, 4 / 3
    assert row(4, "bilinear", 1.5) == [0, 0.5, 1.5, 3.5]


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize(
    ("oh", "ow", "scales"), [(7, 9, (0, 0)), (3, 2, (0, 0)), (10, 13, (2.1, 2.7))]
)
def test_the_gradient_of_upsampling_is_its_transpose(
    mode: str, oh: int, ow: int, scales: tuple[float, float]
) -> None:
    x = RNG.normal(size=(2, 3, 5, 5))
    for align in {False, mode == "bilinear" and not scales[0]}:
        y = images.upsample2d(x, mode, oh, ow, *scales, align)
        g = RNG.normal(size=y.shape)
        gx = images.upsample2d_bwd(g, 5, 5, mode, *scales, align)
        np.testing.assert_allclose((gx * x).sum(), (g * y).sum(), rtol=1e-10)
        constant = images.upsample2d(np.ones_like(x), mode, oh, ow, *scales, align)
        np.testing.assert_allclose(constant, 1.0)


CONVOLUTIONS = [  # stride, pad, dilation, groups, channels of X and Y, extents of W
    ((1, 1), (1, 1), (1, 1), 1, 3, 4, (3, 3)),
    ((2, 1), (0, 2), (1, 2), 2, 4, 6, (2, 3)),
    ((3, 2), (1, 0), (2, 1), 4, 4, 4, (3, 1)),
]


@pytest.mark.parametrize(("stride", "pad", "dilation", "groups", "c", "o", "size"), CONVOLUTIONS)
def test_convolution_is_a_sum_over_each_window(
    stride: Any, pad: Any, dilation: Any, groups: int, c: int, o: int, size: Any
) -> None:
    x, w = RNG.normal(size=(2, c, 9, 11)), RNG.normal(size=(o, c // groups, *size))
    bias = RNG.normal(size=o)
    y, z = images.conv2d(x, w, bias, stride, pad, dilation, groups, "leaky_relu", 0.2)
    found = windows(x, (size, stride, pad, dilation, False), 0.0)
    assert z.size == 2 * o * len(found)
    for oh, ow, elements in found:
        for k in range(o):
            first = k // (o // groups) * (c // groups)
            part = elements[:, first : first + c // groups]
            expected = (part * w[k]).sum((1, 2, 3)) + bias[k]
            np.testing.assert_allclose(z[:, k, oh, ow], expected, atol=1e-12)
    np.testing.assert_array_equal(y, np.where(z < 0, 0.2 * z, z))


def test_a_convolution_by_hand() -> None:
    x, w = np.arange(1.0, 10.0).reshape(1, 1, 3, 3), np.array([[[[1.0, 2.0], [3.0, 4.0]]]])
    y, z = images.conv2d(x, w, None, (1, 1), (0, 0), (1, 1), 1, "none", 0.0)
    assert y.ravel().tolist() == [37, 47, 67, 77]  # not turned: a correlation, as in PyTorch
    np.testing.assert_array_equal(y, z)
