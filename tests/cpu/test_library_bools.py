"""Bytes of bool arrays other than 0 and 1 (a view of u8): any but 0 is true, as for NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ge2rt

BYTES = np.array([2, 255, 1, 0, 128, 4], np.uint8)


@pytest.mark.parametrize("to", ["i8", "u8", "i32", "i64", "f16", "f32", "f64"])
def test_cast(to: Any) -> None:
    got = ge2rt.launch("CAST", BYTES.view(bool), to=to, device="cpu")
    np.testing.assert_array_equal(got, [1, 1, 1, 0, 1, 1])


@pytest.mark.parametrize(
    ("op", "want"), [("sum", 5), ("prod", 0), ("max", 1), ("min", 0), ("argmax", 0), ("argmin", 3)]
)
def test_reduce(op: str, want: int) -> None:
    got = ge2rt.launch("REDUCE", BYTES.view(bool), op=op, device="cpu")
    assert int(got) == want
    if op == "prod":
        assert int(ge2rt.launch("REDUCE", BYTES[:3].view(bool), op=op, device="cpu")) == 1


@pytest.mark.parametrize("alpha", [1.0, 1e39])
def test_elu_of_0_is_0_whatever_its_slope(alpha: float) -> None:
    x = np.array([0, -0.0, 1], np.float32)
    np.testing.assert_array_equal(ge2rt.launch("UNARY", x, op="elu", alpha=alpha), x)
