"""Moving data on the device: what `ge2rt check` does not ask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError


def descs(*arrays: Any, **attrs: Any) -> dict[str, Any]:
    names = {"float32": "f32", "int32": "i32"}
    listed = [{"shape": list(a.shape), "dtype": names[a.dtype.name]} for a in arrays]
    return {"buffers": listed, "attrs": attrs}


def test_an_index_out_of_range_is_refused_before_the_launch() -> None:
    w, idx, y = (
        np.ones((5, 3), np.float32),
        np.array([0, 5], np.int32),
        np.zeros((2, 3), np.float32),
    )
    pointers = [a.ctypes.data for a in (w, idx, y)]
    for index, code in ((5, -1), (4, 0), (-1, -1)):  # also once the kernel has run
        idx[1] = index
        y[...] = 0
        assert ge2rt.launch_kernel("embedding", pointers, descs(w, idx, y)) == code
        assert y.all() == (code == 0)
    assert "0 <= idx < 5" in str(ge2rt.last_error())
    with pytest.raises(ValueError, match="value out of range"):
        ge2rt.launch("gather", w, np.full((5, 3), 3), axis=1)


def test_nothing_is_added_where_there_is_nothing_to_add() -> None:
    """An input without elements needs no launch, while the output has some."""
    y, index = np.ones((40, 5), np.float32), np.zeros((3, 0), np.int32)
    ge2rt.launch("SCATTER_ADD", np.zeros((3, 0), np.float32), index, out=y, axis=0)
    ge2rt.launch("GATHER_BWD", np.zeros((3, 0), np.float32), index, out=y, axis=0)
    none = {"starts": (0, 0), "sizes": (0, 5)}
    ge2rt.launch("SLICE_BWD", np.zeros((0, 5), np.float32), out=y, **none)
    assert (y == 1).all()


def test_gradients_are_added_in_place() -> None:
    gx = np.ones((4, 3), np.float32)
    got = ge2rt.launch(
        "SLICE_BWD", np.full((2, 3), 2, np.float32), out=gx, starts=(1, 0), sizes=(2, 3)
    )
    assert got is gx
    assert gx[:, 0].tolist() == [1, 3, 3, 1]
    parts = [np.zeros((n, 3), np.float32) for n in (1, 3)]
    ge2rt.launch("concat_bwd", gx, out=parts)
    assert [p[:, 0].tolist() for p in parts] == [[1], [3, 3, 1]]
    with pytest.raises(InvalidArgumentError, match="contents are read"):
        ge2rt.launch("CONCAT_BWD", gx)
    with pytest.raises(InvalidArgumentError, match="shape of the whole"):
        ge2rt.launch("concat_bwd", gx, out=[np.zeros((5, 3), np.float32)])


def test_what_does_not_fit_is_told() -> None:
    x = np.ones((4, 3), np.float32)
    with pytest.raises(InvalidArgumentError, match="no 5 from 0 on"):
        ge2rt.launch("slice", x, starts=(0, 0), sizes=(5, 1))
    with pytest.raises(InvalidArgumentError, match="no order of 2 axes"):
        ge2rt.launch("permute", x, axes=(0, 0))
    with pytest.raises(InvalidArgumentError, match="along axis 0 only"):
        ge2rt.launch("concat", x, np.ones((4, 2), np.float32))
    with pytest.raises(InvalidArgumentError, match="does not lie within"):
        ge2rt.launch("gather", x, np.zeros((1, 4), np.int32), axis=0)


def test_sums_are_the_same_bits_every_time() -> None:
    rng = np.random.default_rng(0)
    gy, idx = rng.standard_normal((300, 5)).astype(np.float32), rng.integers(0, 4, 300)
    results = set()
    for _ in range(4):
        gw = np.zeros((4, 5), np.float32)
        ge2rt.launch("embedding_bwd", gy, idx, out=gw)
        results.add(gw.tobytes())
    assert len(results) == 1
