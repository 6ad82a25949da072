"""Barriers in functions, and waits that never end: told or interrupted, never a hang."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
from cpu.native_run import load, ptx_of

import ge2rt
from ge2rt.base.errors import DeviceError
from ge2rt.ptx.native import ABORT_DEADLOCK

# Lanes call themselves as often as they like; each call has a barrier, and so has the end.
RECURSION = """
__device__ __noinline__ int f(int *s, int t, int n, int depth) {
    s[t] = depth * 10 + t; __syncthreads();
    int seen = s[(t + 1) % n]; __syncthreads();
    return depth > 0 ? seen + 3 * f(s, t, n, depth - 1) : seen;
}
extern "C" __global__ void k(int *out) {
    __shared__ int s[128];
    int t = threadIdx.x, n = blockDim.x;
    int found = f(s, t, n, t % 3);
    for (int i = t % 3; i < 2; ++i) {
        s[t] = i; __syncthreads(); found += 100 * s[(t + 1) % n]; __syncthreads();
    }
    out[blockIdx.x * n + t] = found;
}"""


def _recursion(n: int) -> np.ndarray:
    """All threads meet three times two barriers: in step ``k`` each in its own place."""
    t = np.arange(n)
    depth = t % 3
    neighbour = np.roll(t, -1)
    deep = depth[neighbour]
    found = np.zeros(n, int)
    weight = np.ones(n, int)
    for step in range(3):
        inside = step <= deep
        value = np.where(inside, (deep - step) * 10 + neighbour, step - 1)
        mine = step <= depth
        found += np.where(mine, weight * value, 100 * value)
        weight = weight * 3
    return found


@pytest.mark.parametrize("lanes", [0, 1])
@pytest.mark.parametrize("block", [33, 64])
def test_barriers_in_a_recursion_that_differs_by_lane(block: int, lanes: int) -> None:
    out = np.zeros(2 * block, "i4")
    assert load(ptx_of(RECURSION), "k", (block,), lanes)((2,), [out]) == 0
    np.testing.assert_array_equal(out, np.tile(_recursion(block), 2))


def test_lanes_that_wait_for_lanes_outside_of_their_function_are_told() -> None:
    out = np.zeros(64, "i4")
    assert load(ptx_of(RECURSION), "k", (64,), 32)((1,), [out]) == ABORT_DEADLOCK


@pytest.mark.parametrize("lanes", [0, 1])
def test_functions_with_barriers_by_pointers(lanes: int) -> None:
    source = """
    __device__ __noinline__ int a(int *s, int t) { s[t] = t; __syncthreads(); return s[t ^ 1]; }
    __device__ __noinline__ int b(int *s, int t) { s[t] = 7 * t; __syncthreads(); return s[t ^ 1]; }
    __device__ int (*table[2])(int *, int) = {a, b};
    extern "C" __global__ void k(int *out) {
        __shared__ int s[64];
        out[threadIdx.x] = table[(threadIdx.x >> 1) & 1](s, threadIdx.x); }"""
    out = np.zeros(64, "i4")
    assert load(ptx_of(source), "k", (64,), lanes)((1,), [out]) == 0
    t = np.arange(64)
    np.testing.assert_array_equal(out, (t ^ 1) * np.where(t & 2, 7, 1))


def test_whole_warps_keep_their_width() -> None:
    source = """
    __device__ __noinline__ int f(int *s, int t, int depth) {
        s[t] = depth; __syncthreads(); int seen = s[t ^ 1]; __syncthreads();
        return seen + 1; }
    __device__ int (*pointer)(int *, int, int) = f;
    extern "C" __global__ void k(int *out, int n) {
        __shared__ int s[64];
        if (threadIdx.x >= n) return;
        out[threadIdx.x] = pointer(s, threadIdx.x, 5); }"""
    out = np.zeros(64, "i4")
    kernel = load(ptx_of(source), "k", (64,), 0)
    assert kernel((1,), [out, np.int32(64)]) == 0
    assert (out == 6).all()
    assert "width: 32 lanes" in kernel.kernel.notes


def test_a_barrier_that_too_few_threads_come_to_is_an_error() -> None:
    kernel = ge2rt.RawKernel(
        """extern "C" __global__ void k(int *out) {
        if (threadIdx.x < 32) asm volatile("bar.sync 1, 96;");
        else if (threadIdx.x < 64) asm volatile("bar.sync 2, 64;");
        out[threadIdx.x] = 1; }""",
        "k", device="cpu",
    )  # fmt: skip
    with pytest.raises(DeviceError, match="no other thread will come to"):
        kernel((3,), (128,), (np.zeros(128, "i4"),))


def test_a_recursion_without_end_can_be_interrupted() -> None:
    kernel = ge2rt.RawKernel(
        """__device__ __noinline__ long long f(long long a) {
            return a < 3 ? a : f(a - 1) + f(a - 2); }
        extern "C" __global__ void k(long long *out, int n) {
            out[threadIdx.x] = f(n + (threadIdx.x & 1)); }""",
        "k", device="cpu",
    )  # fmt: skip
    out = np.zeros(32, "i8")
    kernel((1,), (32,), (out, 8))
    assert (out == np.where(np.arange(32) & 1, 55, 34)).all()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        kernel((1,), (32,), (out, 80))
    timer.join()
    signal.signal(signal.SIGINT, before)
