"""Gradients of products with zeros, infinities and NaN: the product of the others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ge2rt

VALUES = [np.nan, np.inf, -np.inf, 0.0, 2.0, -3.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("repeats", [1, 500])
def test_each_element_gets_the_product_of_the_others(dtype: Any, repeats: int) -> None:
    """All triples of values; then with many ones between them, so that blocks share a row."""
    rows = np.array(list(itertools.product(VALUES, repeat=3)))
    with np.errstate(invalid="ignore"):
        want = np.stack([rows[:, 1] * rows[:, 2], rows[:, 0] * rows[:, 2], rows[:, 0] * rows[:, 1]])
    x = np.ones((len(rows), 3, repeats))
    x[:, :, repeats // 2] = rows
    x = x.reshape(len(rows), -1).astype(dtype)
    got = ge2rt.launch("REDUCE_BWD", np.ones(len(rows), dtype), x, op="prod", axes=[1])
    places = np.arange(3) * repeats + repeats // 2
    np.testing.assert_array_equal(got[:, places], want.T.astype(dtype))
