"""Each function of the table against NumPy: dtypes, layouts, and errors where NumPy has them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from jit.cases import CASES, Case
from jit.compare import LAYOUTS, check, sample, strided


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_like_numpy(case: Case) -> None:
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    for place, dtype in enumerate(case.dtypes):
        arrays = [sample(rng, shape, dtype, case.low, case.high) for shape in case.shapes]
        layout = LAYOUTS[place % len(LAYOUTS)]
        try:
            check(case.call, [strided(a, layout) for a in arrays], sums=case.sums, loose=case.loose)
        except AssertionError as fault:
            raise AssertionError(f"{case.name} of {dtype}, {layout}: {fault}") from fault
