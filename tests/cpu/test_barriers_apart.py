"""Barriers count threads: lanes of one warp may wait at different ``__syncthreads()``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cpu.native_run import load, ptx_of, run
from cpu.random_ptx import REGISTERS, strewn

BLOCKS = [33, 64, 96]


def ran(source: str, block: int, *args: Any, lanes: int = 32, grid: int = 2) -> str:
    """Run the kernel ``k``; the mode that it was written in."""
    kernel = load(ptx_of(source), "k", (block,), lanes)
    assert kernel((grid,), args) == 0
    return next(note for note in kernel.kernel.notes if "mode" in note)


@pytest.mark.parametrize("lanes", [32, 16, 1])
@pytest.mark.parametrize("block", BLOCKS)
def test_both_sides_of_a_branch_have_their_own(block: int, lanes: int) -> None:
    source = """extern "C" __global__ void k(int *out) {
        __shared__ int a[128], b[128];
        int t = threadIdx.x, n = blockDim.x;
        if (t % 3 == 0) {
            a[t] = t * 2; __syncthreads(); b[t] = a[(t + 1) % n] + 1; __syncthreads();
        } else {
            a[t] = t * 5; __syncthreads(); b[t] = a[(t + n - 1) % n] + 2; __syncthreads();
        }
        out[blockIdx.x * n + t] = b[t] * 1000 + b[(t + 7) % n]; }"""
    out = np.zeros(2 * block, "i4")
    ran(source, block, out, lanes=lanes)
    t = np.arange(block)
    a = np.where(t % 3 == 0, t * 2, t * 5)
    b = np.where(t % 3 == 0, np.roll(a, -1) + 1, np.roll(a, 1) + 2)
    np.testing.assert_array_equal(out, np.tile(b * 1000 + np.roll(b, -7), 2))


@pytest.mark.parametrize("block", BLOCKS)
def test_a_loop_with_as_many_barriers_as_the_lane_likes(block: int) -> None:
    """Lanes that leave the loop early wait at the barriers behind it, as often as it takes."""
    source = """extern "C" __global__ void k(int *out) {
        __shared__ int count;
        int t = threadIdx.x, mine = t % 4, seen = 0;
        if (t == 0) count = 0;
        __syncthreads();
        for (int i = 0; i < mine; ++i) { atomicAdd(&count, 1); __syncthreads(); seen += count; }
        for (int i = mine; i < 4; ++i) { __syncthreads(); seen += 100 * count; }
        out[blockIdx.x * blockDim.x + t] = seen; }"""
    out = np.zeros(2 * block, "i4")
    mode = ran(source, block, out)
    assert "crew" in mode
    t = np.arange(block) % 4
    low, high = np.zeros(block, "i4"), np.zeros(block, "i4")
    for i in range(4):  # some lanes read while others count on already
        weight = np.where(t > i, 1, 100)
        low += weight * np.sum(np.minimum(t, i + 1))
        high += weight * np.sum(np.minimum(t, i + 2))
    assert (out.reshape(2, -1) >= low).all()
    assert (out.reshape(2, -1) <= high).all()


@pytest.mark.parametrize("block", BLOCKS)
def test_lanes_that_leave_are_not_waited_for(block: int) -> None:
    """Odd lanes return behind two barriers; even ones go on with three more."""
    source = """extern "C" __global__ void k(int *out) {
        __shared__ int a[128];
        int t = threadIdx.x, n = blockDim.x, sum = 0;
        a[t] = t;
        if (t & 1) { __syncthreads(); __syncthreads(); a[t] += 1000; out[blockIdx.x * n + t] = 1;
                     return; }
        for (int i = 0; i < 5; ++i) { __syncthreads(); if (i % 4 == 0) sum += a[(t + 1) % n]; }
        out[blockIdx.x * n + t] = sum; }"""
    out = np.zeros(2 * block, "i4")
    ran(source, block, out)
    t = np.arange(block)
    sums = 2 * np.roll(t, -1) + np.where(np.roll(t, -1) & 1, 1000, 0)
    np.testing.assert_array_equal(out, np.tile(np.where(t & 1, 1, sums), 2))


@pytest.mark.parametrize("block", BLOCKS)
def test_one_barrier_in_different_passes_of_a_loop(block: int) -> None:
    """Each lane comes to the barrier in half of the passes, but all come equally often."""
    source = """extern "C" __global__ void k(int *out) {
        __shared__ int turn[128];
        int t = threadIdx.x, n = blockDim.x, met = 0;
        for (int i = 0; i < 8; ++i) {
            if ((i + t) & 1) continue;
            turn[t] = met; __syncthreads();
            met += 1 + 10 * (turn[(t + 1) % n] != met);
            __syncthreads();
        }
        out[blockIdx.x * n + t] = met; }"""
    out = np.zeros(2 * block, "i4")
    ran(source, block, out)
    # Threads 0 and n - 1 of an odd block are neighbours with the same parity: also in step.
    np.testing.assert_array_equal(out, 4)


def test_votes_of_both_barriers_count_together() -> None:
    source = """extern "C" __global__ void k(int *out) {
        int t = threadIdx.x, found;
        if (t & 1) found = __syncthreads_count(t % 3 == 0) * 2;
        else found = __syncthreads_count(t % 5 == 0) * 3;
        out[t] = found; }"""
    out = np.zeros(80, "i4")
    ran(source, 80, out, grid=1)
    t = np.arange(80)
    votes = np.count_nonzero(np.where(t & 1, t % 3 == 0, t % 5 == 0))
    np.testing.assert_array_equal(out, np.where(t & 1, 2, 3) * votes)


def test_barriers_of_whole_warps_and_early_returns_stay_in_phases() -> None:
    source = """extern "C" __global__ void k(int *out, int n) {
        __shared__ int s[64];
        int t = threadIdx.x;
        if (t >= n) return;
        s[t] = t; __syncthreads();
        if (t / 32 == 0) { s[t] += 1; __syncthreads(); } else { s[t] += 2; __syncthreads(); }
        if (t % 3 == 0) s[t] += 10;
        __syncthreads();
        out[t] = s[(t + 5) % n]; }"""
    out = np.zeros(64, "i4")
    mode = ran(source, 64, out, np.int32(50), grid=1)
    assert "set" in mode
    t = np.arange(64)
    s = t + np.where(t < 32, 1, 2) + np.where(t % 3 == 0, 10, 0)
    np.testing.assert_array_equal(out, np.where(t < 50, s[(t + 5) % 50], 0))


@pytest.mark.parametrize("seed", [1, 7, 32, 67])
def test_random_flow_with_barriers_anywhere(seed: int) -> None:
    block = (77, 64, 33)[seed % 3]
    x = np.random.default_rng(seed).integers(0, 2**32, 2 * block, dtype="u4")
    found = []
    for lanes in (1, 32):
        out = np.zeros(2 * block * REGISTERS, "u4")
        assert run(strewn(seed), "k", (2,), (block,), [out, x, np.uint32(7)], lanes) == 0
        found.append(out)
    np.testing.assert_array_equal(found[1], found[0])


_TWO_LOOPS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{ .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<3>;
mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 0;
bra OUTER;
LAST: and.b32 %r4, %r1, 1; setp.eq.u32 %p2, %r4, 1; @%p2 bra INNER;
OUTER: add.u32 %r3, %r3, 1;
INNER: add.u32 %r2, %r2, 1;
setp.gt.u32 %p1, %r2, 20; @%p1 bra END;
and.b32 %r4, %r1, 3; setp.ne.u32 %p1, %r4, 2; @%p1 bra LAST;
END: ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 8; add.u64 %rd3, %rd1, %rd2;
st.global.v2.u32 [%rd3], {%r2, %r3}; ret; }
"""


def test_lanes_go_back_to_either_of_two_loops_that_end_at_one_node() -> None:
    """Those of the inner loop are not lost where none goes on with the outer one."""
    out = np.zeros((40, 2), "u4")
    assert run(_TWO_LOOPS, "k", (1,), (40,), [out]) == 0
    t = np.arange(40)
    trips = np.where(t % 4 == 2, 1, 21)
    np.testing.assert_array_equal(out, np.c_[trips, np.where(t % 4 == 0, 21, 1)])
