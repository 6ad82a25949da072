"""Each function of the table against NumPy: dtypes, layouts, and errors where NumPy has them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import date

import numpy as np
import pytest
from jit.cases import CASES, Case
from jit.compare import LAYOUTS, check, sample, strided

from ge2rt.jit.backend import Build, build_kernels, build_reference

_SLICES = 16


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_traced_graph_means_what_numpy_does(case: Case) -> None:
    _compare(case, case.dtypes, build_reference)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kernels_give_what_numpy_does(case: Case, full: bool) -> None:
    seed = zlib.crc32(case.name.encode())
    today = date.today().toordinal()
    if not full and (seed + today) % _SLICES:
        pytest.skip("not in today's slice; all with --full")
    dtypes = case.dtypes if full else (case.dtypes[(seed + today) % len(case.dtypes)],)
    _compare(case, dtypes, build_kernels)


def _compare(case: Case, dtypes: Sequence[str], build: Build) -> None:
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    for place, dtype in enumerate(dtypes):
        arrays = [sample(rng, shape, dtype, case.low, case.high) for shape in case.shapes]
        layout = LAYOUTS[place % len(LAYOUTS)]
        try:
            given = [strided(array, layout) for array in arrays]
            check(case.call, given, sums=case.sums, loose=case.loose, build=build)
        except AssertionError as fault:
            raise AssertionError(f"{case.name} of {dtype}, {layout}: {fault}") from fault
