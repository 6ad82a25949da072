"""Cooperative launches: all blocks must fit the virtual GPU at once, as the driver wants it."""

from __future__ import annotations

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.device.api import LaunchShape
from ge2rt.device.limits import ARCHS, RESIDENT, KernelNeeds, check_shape, virtual_gpu

MEET = r"""
#include <cooperative_groups.h>
extern "C" __global__ void meet(int *seen, int *out) {
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    if (threadIdx.x == 0) atomicAdd(seen, 1);
    grid.sync();
    if (threadIdx.x == 0) out[blockIdx.x] = *(volatile int *)seen;
}"""


def limit(arch: str, threads: int, shared: int = 0, static: int = 0, processors: int = 3) -> int:
    """The largest grid that is let through, found by trying."""
    props, needs = virtual_gpu(arch, processors), KernelNeeds("k", shared=static)
    low, high = 0, 10_000
    while low < high:
        middle = (low + high + 1) // 2
        try:
            check_shape(props, needs, LaunchShape((middle, 1, 1), (threads, 1, 1), shared, True))
            low = middle
        except InvalidArgumentError:
            high = middle - 1
    return low


@pytest.mark.parametrize(("arch", "threads", "shared", "static", "each"), [
    ("sm_75", 1024, 0, 0, 1), ("sm_75", 128, 0, 0, 8), ("sm_75", 32, 0, 0, 16),
    ("sm_75", 32, 32 << 10, 0, 2), ("sm_80", 1024, 0, 0, 2), ("sm_80", 65, 0, 0, 21),
    ("sm_80", 32, 0, 0, 32), ("sm_80", 32, 40 << 10, 0, 4), ("sm_80", 32, 40 << 10, 1 << 10, 3),
    ("sm_86", 512, 0, 0, 3), ("sm_86", 32, 0, 0, 16), ("sm_89", 32, 0, 0, 24),
    ("sm_90", 256, 113 << 10, 0, 2), ("sm_90", 256, 113 << 10, 1, 1),
])  # fmt: skip
def test_blocks_on_a_multiprocessor(
    arch: str, threads: int, shared: int, static: int, each: int
) -> None:
    assert limit(arch, threads, shared, static) == 3 * each
    assert limit(arch, threads, shared, static, processors=1) == each


def test_every_architecture_has_its_limits() -> None:
    assert RESIDENT.keys() == ARCHS.keys()


def test_a_cooperative_grid_meets_and_a_larger_one_is_refused() -> None:
    kernel = ge2rt.RawKernel(MEET, "meet", enable_cooperative_groups=True, device="cpu")
    props = kernel.module.load().device.props
    most = RESIDENT[round(props.cc * 10)][0] // 256 * props.multiprocessors
    seen, out = np.zeros(1, "i4"), np.zeros(most + 1, "i4")
    with pytest.raises(InvalidArgumentError, match=f"too many blocks.*at most {most} blocks"):
        kernel((most + 1,), (256,), (seen, out))
    assert seen[0] == 0
    kernel((most,), (256,), (seen, out))
    np.testing.assert_array_equal(out, [most] * most + [0])


def test_the_same_grid_may_be_larger_where_blocks_need_not_meet() -> None:
    source = """extern "C" __global__ void k(int *out) { out[blockIdx.x] = 1; }"""
    kernel = ge2rt.RawKernel(source, "k", device="cpu")
    out = np.zeros(5000, "i4")
    kernel((5000,), (1024,), (out,))
    assert out.all()
    with pytest.raises(InvalidArgumentError, match="CooperativeLaunchTooLarge"):
        kernel((5000,), (1024,), (out,), enable_cooperative_groups=True)
