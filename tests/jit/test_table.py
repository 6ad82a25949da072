"""Each function of the table against NumPy: dtypes, layouts, and errors where NumPy has them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
import pytest
from jit.cases import CASES, Case
from jit.compare import LAYOUTS, check, sample, strided

from ge2rt.jit.backend import Build, build_kernels, build_reference

_DAILY = 10
# neighbours are different functions, so that a day's cases are of many kinds
PAIRS = sorted(
    ((case, place) for case in CASES for place in range(len(case.dtypes))), key=lambda pair: pair[1]
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_traced_graph_means_what_numpy_does(case: Case) -> None:
    _compare(case, range(len(case.dtypes)), build_reference)


@pytest.mark.daily(_DAILY)
@pytest.mark.parametrize(
    "pair", PAIRS, ids=lambda pair: f"{pair[0].name}-{pair[0].dtypes[pair[1]]}"
)
def test_kernels_give_what_numpy_does(pair: tuple[Case, int]) -> None:
    case, place = pair
    _compare(case, (place,), build_kernels)


def _compare(case: Case, places: Iterable[int], build: Build) -> None:
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    for place in places:
        dtype = case.dtypes[place]
        arrays = [sample(rng, shape, dtype, case.low, case.high) for shape in case.shapes]
        layout = LAYOUTS[place % len(LAYOUTS)]
        try:
            given = [strided(array, layout) for array in arrays]
            check(case.call, given, sums=case.sums, loose=case.loose, build=build)
        except AssertionError as fault:
            raise AssertionError(f"{case.name} of {dtype}, {layout}: {fault}") from fault
