"""Functions that stay functions: recursion, pointers, tables, virtual methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cpu.native_run import pack, ptx_of, run

from ge2rt.base.errors import DeviceError
from ge2rt.device.api import LaunchShape
from ge2rt.device.cpu import CpuDevice

WIDTHS = [32, 16, 1]


def ran(source: str, block: int, *args: Any, lanes: int = 32, grid: int = 1) -> None:
    assert run(ptx_of(source), "k", (grid,), (block,), args, lanes) == 0


@pytest.mark.parametrize("lanes", WIDTHS)
def test_two_functions_that_call_each_other(lanes: int) -> None:
    source = """
    __device__ __noinline__ int odd(int n, int *steps);
    __device__ __noinline__ int even(int n, int *steps) {
        ++*steps; return n == 0 ? 1 : odd(n - 1, steps); }
    __device__ __noinline__ int odd(int n, int *steps) {
        ++*steps; return n == 0 ? 0 : even(n - 1, steps); }
    extern "C" __global__ void k(int *out, int *taken) {
        int t = threadIdx.x, steps = 0;
        out[t] = even(t * 7 % 23, &steps); taken[t] = steps; }"""
    out, taken = np.zeros(45, "i4"), np.zeros(45, "i4")
    ran(source, 45, out, taken, lanes=lanes)
    n = np.arange(45) * 7 % 23
    np.testing.assert_array_equal(out, 1 - n % 2)
    np.testing.assert_array_equal(taken, n + 1)


@pytest.mark.parametrize("lanes", WIDTHS)
def test_quicksort_by_each_lane(lanes: int) -> None:
    source = """
    __device__ __noinline__ void sort(float *x, int low, int high) {
        if (low >= high) return;
        float pivot = x[(low + high) / 2]; int i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot) ++i;
            while (x[j] > pivot) --j;
            if (i <= j) { float t = x[i]; x[i++] = x[j]; x[j--] = t; } }
        sort(x, low, j); sort(x, i, high); }
    extern "C" __global__ void k(float *x, int n) {
        sort(x + (blockIdx.x * blockDim.x + threadIdx.x) * n, 0, n - 1); }"""
    x = np.random.default_rng(1).normal(size=(2, 40, 33)).astype("f4")
    expected = np.sort(x, axis=-1)
    ran(source, 40, x, np.int32(33), lanes=lanes, grid=2)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("lanes", WIDTHS)
def test_a_table_of_functions_in_a_variable(lanes: int) -> None:
    source = """
    typedef double (*Op)(double, float, char);
    __device__ double add(double a, float b, char c) { return a + b + c; }
    __device__ double sub(double a, float b, char c) { return a - b - c; }
    __device__ double mul(double a, float b, char c) { return a * b * c; }
    __device__ Op table[3] = {add, sub, mul};
    extern "C" __global__ void k(const int *which, double *out) {
        int t = threadIdx.x;
        if (which[t] >= 0) out[t] = table[which[t]](t, 1.5f, (char)(t % 5 - 2)); }"""
    which = np.random.default_rng(2).integers(-1, 3, 70).astype("i4")
    out = np.full(70, 9.0)
    ran(source, 70, which, out, lanes=lanes)
    t = np.arange(70.0)
    c = t % 5 - 2
    expected = np.select([which == 0, which == 1, which == 2],
                         [t + 1.5 + c, t - 1.5 - c, t * 1.5 * c], 9.0)  # fmt: skip
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("lanes", WIDTHS)
def test_virtual_methods(lanes: int) -> None:
    source = """
    struct Shape { __device__ virtual float area() const = 0;
                   __device__ virtual float scaled(float f) const { return f * area(); } };
    struct Square : Shape { float a; __device__ Square(float a) : a(a) {}
        __device__ float area() const override { return a * a; } };
    struct Box : Shape { float a, b; __device__ Box(float a, float b) : a(a), b(b) {}
        __device__ float area() const override { return a * b; }
        __device__ float scaled(float f) const override { return area() + f; } };
    extern "C" __global__ void k(float *out) {
        int t = threadIdx.x;
        Square s((float)t); Box b((float)t, 2.0f);
        const Shape *p = t % 3 ? (const Shape *)&s : (const Shape *)&b;
        out[t] = p->scaled(10.0f); }"""
    out = np.zeros(50, "f4")
    ran(source, 50, out, lanes=lanes)
    t = np.arange(50.0)
    np.testing.assert_array_equal(out, np.where(t % 3 != 0, 10 * t * t, 2 * t + 10))


def test_a_structure_by_value_and_a_barrier_inside() -> None:
    source = """
    struct Big { int a[5]; double d; };
    __shared__ int common[64];
    __device__ __noinline__ Big turn(Big b, int depth) {
        common[threadIdx.x] = b.a[depth % 5];
        __syncthreads();
        int other = common[threadIdx.x ^ 1];
        __syncthreads();
        b.a[depth % 5] = other; b.d += depth;
        return depth ? turn(b, depth - 1) : b; }
    extern "C" __global__ void k(int *out, double *sum, int depth) {
        Big b; for (int i = 0; i < 5; ++i) b.a[i] = threadIdx.x * 10 + i; b.d = 0.5;
        b = turn(b, depth);
        for (int i = 0; i < 5; ++i) out[threadIdx.x * 5 + i] = b.a[i];
        sum[threadIdx.x] = b.d; }"""
    out, total = np.zeros((64, 5), "i4"), np.zeros(64)
    ran(source, 64, out, total, np.int32(7))
    t, i = np.arange(64)[:, None], np.arange(5)
    moved = np.where(np.isin(i, [3, 4]), t ^ 1, t)  # met once: swapped; twice: back
    np.testing.assert_array_equal(out, moved * 10 + i)
    np.testing.assert_array_equal(total, 0.5 + 28)


def test_endless_recursion_is_a_stack_overflow() -> None:
    source = """
    __device__ __noinline__ int deep(int n, volatile int *p) {
        if (p[n & 31] == 77) return 0;
        int below = deep(n + 1, p); p[n & 31] = below; return below ^ n; }
    extern "C" __global__ void k(int *p) { p[threadIdx.x] = deep(threadIdx.x, p); }"""
    module = CpuDevice().load(ptx_of(source).encode(), "ptx", "test")
    launcher = module.function("k").launcher(LaunchShape((1, 1, 1), (32, 1, 1), 0))
    with pytest.raises(DeviceError, match="stack overflow"):
        launcher(pack([np.zeros(32, "i4")]))


def test_a_wild_pointer_is_a_trap() -> None:
    source = """
    typedef int (*Op)(int);
    __device__ int one(int x) { return x + 1; }
    __device__ Op known = one;
    extern "C" __global__ void k(int *out, Op wild) {
        Op op = threadIdx.x == 3 ? wild : known; out[threadIdx.x] = op(threadIdx.x); }"""
    out = np.zeros(32, "i4")
    ptx = ptx_of(source)
    assert run(ptx, "k", (1,), (32,), [out, np.int64(12345)]) != 0


@pytest.mark.parametrize("lanes", WIDTHS)
def test_exit_deep_in_a_recursion_ends_its_lanes_only(lanes: int) -> None:
    source = """
    __shared__ int left;
    __device__ __noinline__ int down(int n, int *out) {
        if (n == 0) return 1;
        if (n == 9) { atomicSub(&left, 1); out[threadIdx.x] = -9; asm volatile("exit;"); }
        int below = down(n - 1, out);
        return below + n; }
    extern "C" __global__ void k(int *out) {
        int t = threadIdx.x;
        if (t == 0) left = blockDim.x;
        __syncthreads();
        int sum = 0;
        if (t % 4 != 1) sum = down(t % 13, out);
        __syncthreads();
        out[t] = sum * 100 + left; }"""
    out = np.zeros(70, "i4")
    ran(source, 70, out, lanes=lanes)
    t = np.arange(70)
    n = t % 13
    ends = (t % 4 != 1) & (n >= 9)
    sums = np.where(t % 4 != 1, n * (n + 1) // 2 + 1, 0)
    np.testing.assert_array_equal(out, np.where(ends, -9, sums * 100 + 70 - ends.sum()))


@pytest.mark.parametrize("lanes", WIDTHS)
def test_a_barrier_does_not_wait_for_lanes_that_ended_behind_a_pointer(lanes: int) -> None:
    source = """
    typedef int (*Op)(int, int *);
    __shared__ int sum;
    __device__ int meet(int x, int *out) { atomicAdd(&sum, x); __syncthreads(); return sum; }
    __device__ int keep(int x, int *out) { return x; }
    __device__ int leave(int x, int *out) {
        out[x] = 77; if (x % 3 == 0) asm volatile("exit;"); out[x] = 78; return x * 2; }
    __device__ Op table[3] = {keep, leave, meet};
    extern "C" __global__ void k(int *out) {
        int t = threadIdx.x;
        if (t == 0) sum = 0;
        __syncthreads();
        int got = table[t / 4 & 1](t, out);
        int met = table[2 + (got > 1000)](got, out);
        out[t] = got * 10000 + met; }"""
    out = np.zeros(70, "i4")
    ran(source, 70, out, lanes=lanes)
    t = np.arange(70)
    chosen = t // 4 % 2 == 1
    ended = chosen & (t % 3 == 0)
    got = np.where(chosen, 2 * t, t)
    np.testing.assert_array_equal(out, np.where(ended, 77, got * 10000 + got[~ended].sum()))


@pytest.mark.parametrize("lanes", WIDTHS)
def test_lists_on_the_heap(lanes: int) -> None:
    source = """
    struct Node { int value; Node *next; };
    extern "C" __global__ void k(int *out) {
        Node *list = nullptr;
        for (int i = 0; i < threadIdx.x % 5; ++i) list = new Node{i * 10, list};
        int sum = 0;
        while (list) { sum = sum * 2 + list->value; Node *n = list->next; delete list; list = n; }
        out[threadIdx.x] = sum; }"""
    out = np.zeros(40, "i4")
    ran(source, 40, out, lanes=lanes)
    expected = []
    for t in range(40):
        total = 0
        for value in reversed(range(t % 5)):
            total = total * 2 + value * 10
        expected.append(total)
    np.testing.assert_array_equal(out, expected)
