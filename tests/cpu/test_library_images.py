"""Images on the device: what the cases do not reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.device.registry import get_device
from ge2rt.run.launch import plan_for
from ge2rt.spec.descs import desc_of
from ge2rt.spec.library import images

RNG = np.random.default_rng(11)


def test_ties_nan_and_indices_there_and_back() -> None:
    x = RNG.integers(0, 3, (2, 3, 9, 40)).astype(np.float32)
    x[0, 0, 4, ::7] = np.nan
    y, indices = np.empty((2, 3, 5, 20), np.float32), np.empty((2, 3, 5, 20), np.int64)
    attrs: dict[str, Any] = {"kernel_size": [3], "stride": [2], "pad": [1]}
    ge2rt.launch("pool2d", x, out=[y, indices], **attrs)
    pair = [(3, 3), (2, 2), (1, 1), (1, 1)]
    expected = images.pool2d(x.astype(float), "max", *pair, False, True)  # type: ignore[arg-type]
    np.testing.assert_array_equal(y, expected[0])
    np.testing.assert_array_equal(indices, expected[1])
    g = RNG.normal(size=y.shape).astype(np.float32)
    again = ge2rt.launch("pool2d_bwd", g, x, None, **attrs)
    np.testing.assert_array_equal(ge2rt.launch("pool2d_bwd", g, x, indices, **attrs), again)
    np.testing.assert_allclose(again.sum(), g.sum(), rtol=1e-4)


def generic(name: str, arrays: list[Any], **attrs: Any) -> None:
    """Run the shape-generic kernel."""
    descs = [
        None if a is None else desc_of(a.shape, a.dtype, [s // a.itemsize for s in a.strides])
        for a in arrays
    ]
    plan = plan_for(name, descs, attrs, get_device("cpu"), dynamic=True)
    plan.launch([0 if a is None else a.ctypes.data for a in arrays])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_layouts_and_shape_generic_kernels(layout: str) -> None:
    """Both layouts of the same image give the same values, with extents as arguments too."""
    x = RNG.normal(size=(2, 20, 6, 5)).astype(np.float32)
    if layout == "NHWC":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    w = RNG.normal(size=(18, 10, 3, 3)).astype(np.float32)
    y = np.empty((2, 18, 3, 3), np.float32)
    up = np.empty((2, 20, 7, 9), np.float32)
    generic("conv2d", [x, w, None, y, None], stride=[2], pad=[1], groups=2)
    generic("upsample2d", [x, up], mode="bilinear", size=[7, 9])
    same = ((2, 2), (1, 1), (1, 1))
    z = images.conv2d(x.astype(float), w.astype(float), None, *same, 2, "none", 0.0)[1]
    np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-4)
    wanted = images.upsample2d(x.astype(float), "bilinear", 7, 9, 0.0, 0.0, False)
    np.testing.assert_allclose(up, wanted, atol=1e-5)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_gradients_of_conv2d_in_both_layouts(layout: str) -> None:
    """Groups, a stride, an activation and all gradients, with extents as arguments."""
    x = RNG.normal(size=(2, 20, 6, 5)).astype(np.float32)
    g = RNG.normal(size=(2, 18, 3, 3)).astype(np.float32)
    z = RNG.normal(size=g.shape).astype(np.float32)
    if layout == "NHWC":
        x, g, z = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
                   for a in (x, g, z))  # fmt: skip
    w = RNG.normal(size=(18, 10, 3, 3)).astype(np.float32)
    out = [np.empty_like(x), np.empty_like(w), np.empty(18, np.float32)]
    generic("conv2d_bwd", [g, x, w, z, *out], stride=[2], pad=[1], groups=2, act="tanh")
    exact = [a.astype(float) for a in (g, x, w, z)]
    wanted = images.conv2d_bwd(*exact, (2, 2), (1, 1), (1, 1), 2, "tanh", 0.0)  # type: ignore[arg-type]
    for got, right in zip(out, wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)
    only = np.empty_like(w)
    ge2rt.launch("conv2d_bwd", g, x, w, z, out=[None, only, None],
                 stride=[2], pad=[1], groups=2, act="tanh")  # fmt: skip
    np.testing.assert_allclose(only, wanted[1], rtol=1e-4, atol=1e-4)
