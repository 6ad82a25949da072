"""The race check and ``cp.async``: shared data that nobody has waited for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cpu.checked_run import checking, run_text

from ge2rt.base.errors import DeviceError
from ge2rt.device.cpu import CpuDevice

COPY = r"""
__device__ void copy(void *to, const void *from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from) : "memory"); }
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
#define WAIT_ALL asm volatile("cp.async.wait_all;" ::: "memory")
"""
# Two buffers in turn: a thread reads what the thread next to it has copied.
PIPELINE = (
    COPY
    + r"""
extern "C" __global__ void k(const float4 *x, float *out, int rounds) {
    __shared__ float4 tile[2][64];
    int t = threadIdx.x;
    float sum = 0;
    copy(&tile[0][t], &x[t]); COMMIT;
    for (int r = 0; r < rounds; ++r) {
        if (r + 1 < rounds) copy(&tile[(r + 1) & 1][t], &x[(r + 1) * 64 + t]);
        COMMIT;
        FIRST
        float4 v = tile[r & 1][t ^ 1];
        sum += v.x + 2 * v.y + 3 * v.z + 4 * v.w;
        LAST
    }
    out[blockIdx.x * 64 + t] = sum; }"""
)
GOOD = ("WAIT(1); __syncthreads();", "__syncthreads();")


def ran(source: str, *args: Any, checks: str = "race", grid: int = 2) -> None:
    with checking(checks):
        run_text(source, CpuDevice(), args, grid=(grid,))


def pipeline(first: str, last: str) -> np.ndarray:
    rounds = 5
    x = np.random.default_rng(0).integers(-9, 9, (rounds, 64, 4)).astype("f4")
    out = np.zeros((2, 64), "f4")
    ran(PIPELINE.replace("FIRST", first).replace("LAST", last), x, out, np.int32(rounds))
    expected = (x * [1, 2, 3, 4]).sum((0, 2))[np.arange(64) ^ 1]
    np.testing.assert_array_equal(out, np.tile(expected, (2, 1)))
    return out


@pytest.mark.parametrize("first", [
    GOOD[0], "WAIT(0); __syncthreads();", "WAIT_ALL; __syncthreads();",
])  # fmt: skip
def test_a_pipeline_that_waits_is_clean(first: str) -> None:
    pipeline(first, GOOD[1])


@pytest.mark.parametrize(("first", "last"), [
    ("__syncthreads();", GOOD[1]),  # no wait at all
    ("WAIT(2); __syncthreads();", GOOD[1]),  # for one group too few
    ("__syncthreads(); WAIT(1);", GOOD[1]),  # the neighbour may not have waited yet
    ("WAIT(1);", GOOD[1]),  # no barrier
    (GOOD[0], ""),  # the next copy overwrites what is still read
])  # fmt: skip
def test_what_is_read_too_early_is_a_race(first: str, last: str) -> None:
    with pytest.raises(DeviceError, match="race check") as caught:
        pipeline(first, last)
    record = caught.value.record
    assert record.extra["space"] == "shared"
    forms = {record.extra["instruction"].split(".")[0], record.extra["second"]["instruction"][:2]}
    assert "cp" in forms


def test_the_thread_itself_must_wait_too() -> None:
    source = (
        COPY
        + r"""
    extern "C" __global__ void k(const float4 *x, float *out) {
        __shared__ float4 tile[64];
        int t = threadIdx.x;
        copy(&tile[t], &x[t]); COMMIT; SYNC
        out[t] = tile[t].x; }"""
    )
    x, out = np.arange(256, dtype="f4"), np.zeros(64, "f4")
    ran(source.replace("SYNC", "WAIT(0);"), x, out, grid=1)
    np.testing.assert_array_equal(out, x[::4])
    with pytest.raises(DeviceError, match=r"cp\.async\.wait_group") as caught:
        ran(source.replace("SYNC", "__syncthreads();"), x, out, grid=1)
    extra = caught.value.record.extra
    assert extra["thread"] == extra["second"]["thread"] == (0, 0, 0)
    assert extra["second"]["instruction"].startswith("cp.async")


def test_a_copy_that_nobody_reads_harms_no_later_block() -> None:
    source = (
        COPY
        + r"""
    extern "C" __global__ void k(const float4 *x, float *out) {
        __shared__ float4 tile[64];
        int t = threadIdx.x;
        tile[t].x = t; __syncthreads();
        out[t] = tile[t ^ 1].x; __syncthreads();
        copy(&tile[t], &x[t]); COMMIT; }"""
    )
    ran(source, np.zeros(256, "f4"), np.zeros(64, "f4"), grid=4)
