"""CUDA programs whose threads wait for each other; run as a script, in a process that may hang.

``python waiting_programs.py`` runs all and prints ``NAME ok`` or ``NAME`` and what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from cpu.native_run import pack, ptx_of

from ge2rt.device.api import LaunchShape
from ge2rt.device.cpu import CpuDevice

Program = Callable[[], bool]
PROGRAMS: dict[str, Program] = {}
DEVICE: list[CpuDevice] = []


def program(run: Program) -> Program:
    """Register a program."""
    PROGRAMS[run.__name__] = run
    return run


def launch(
    source: str, grid: int, block: int | tuple[int, int, int], args: Sequence[Any], shared: int = 0
) -> None:
    """Run the kernel ``k`` on the device's threads."""
    if not DEVICE:
        DEVICE.append(CpuDevice())
    module = DEVICE[0].load(ptx_of(source).encode(), "ptx", "test")
    shape = (block, 1, 1) if isinstance(block, int) else block
    launcher = module.function("k").launcher(LaunchShape((grid, 1, 1), shape, shared))
    launcher(pack(args))


def zeros(count: int, dtype: Any = np.int32) -> np.ndarray:
    """Fresh memory."""
    return np.zeros(count, dtype)


@program
def naive_lock() -> bool:
    """A lock taken by ``while (CAS)``: lanes, warps and blocks compete."""
    source = """extern "C" __global__ void k(int *lock, int *count) {
        while (atomicCAS(lock, 0, 1) != 0);
        __threadfence();
        int c = *(volatile int *)count;
        *(volatile int *)count = c + 1;
        __threadfence();
        atomicExch(lock, 0); }"""
    lock, count = zeros(1), zeros(1)
    launch(source, 20, 250, (lock, count))
    return count[0] == 5000


@program
def lock_with_done_flag() -> bool:
    """The lock that pre-Volta code uses, in shared memory, then a barrier."""
    source = """extern "C" __global__ void k(int *out) {
        __shared__ int lock, sum;
        if (threadIdx.x == 0) { lock = 0; sum = 0; }
        __syncthreads();
        bool done = false;
        while (!done) {
            if (atomicCAS(&lock, 0, 1) == 0) {
                sum = sum + threadIdx.x; __threadfence_block();
                atomicExch(&lock, 0); done = true; } }
        __syncthreads();
        if (threadIdx.x == 1) out[blockIdx.x] = sum; }"""
    out = zeros(7)
    launch(source, 7, 96, (out,))
    return bool((out == 96 * 95 // 2).all())


@program
def ticket_lock() -> bool:
    """Tickets served in order."""
    source = """extern "C" __global__ void k(unsigned *next, volatile unsigned *serving, int *log) {
        unsigned mine = atomicAdd(next, 1u);
        while (*serving != mine) ;
        log[mine] = blockIdx.x * blockDim.x + threadIdx.x;
        __threadfence();
        *serving = mine + 1; }"""
    log = zeros(300)
    launch(source, 5, 60, (zeros(1), zeros(1), log))
    return sorted(log) == list(range(300))


@program
def lanes_in_turn() -> bool:
    """Each lane waits for the one before, then all shuffle."""
    source = """extern "C" __global__ void k(volatile int *turn, int *out) {
        int t = threadIdx.x;
        while (*turn != t) ;
        out[t] = *turn * 3;
        __threadfence();
        *turn = t + 1;
        __syncwarp();
        out[32 + t] = __shfl_xor_sync(~0u, out[t], 1); }"""
    out = zeros(64)
    launch(source, 1, 32, (zeros(1), out))
    lane = np.arange(32)
    return bool((out[:32] == 3 * lane).all() and (out[32:] == 3 * (lane ^ 1)).all())


@program
def warps_in_turn() -> bool:
    """Warps of a block wait for the next one in shared memory, without a barrier."""
    source = """extern "C" __global__ void k(int *out) {
        __shared__ volatile int turn;
        int warp = threadIdx.x / 32, warps = blockDim.x / 32;
        if (threadIdx.x == 0) turn = warps - 1;
        __syncthreads();
        while (turn != warp) ;
        out[blockIdx.x * blockDim.x + threadIdx.x] = turn;
        __threadfence_block();
        __syncwarp();
        if (threadIdx.x % 32 == 0) turn = warp - 1; }"""
    out = zeros(3 * 256)
    launch(source, 3, 256, (out,))
    return bool((out == np.tile(np.arange(256) // 32, 3)).all())


@program
def blocks_wait_for_later_ones() -> bool:
    """Block 0 needs a word from the last block."""
    source = """extern "C" __global__ void k(volatile int *word, int *out) {
        if (blockIdx.x == gridDim.x - 1) { if (threadIdx.x == 0) *word = 42; }
        else while (*word == 0) ;
        out[blockIdx.x * blockDim.x + threadIdx.x] = *word; }"""
    out = zeros(40 * 64)
    launch(source, 40, 64, (zeros(1), out))
    return bool((out == 42).all())


@program
def grid_barrier() -> bool:
    """A hand-written barrier over the grid, three rounds."""
    source = """__device__ void meet(unsigned *count, unsigned goal) {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence(); atomicAdd(count, 1u);
            while (atomicAdd(count, 0u) < goal) ;
            __threadfence(); }
        __syncthreads(); }
        extern "C" __global__ void k(unsigned *count, int *a, int *b) {
        int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
        a[i] = i; meet(count, gridDim.x);
        b[i] = a[n - 1 - i]; meet(count, 2 * gridDim.x);
        a[i] = b[(i + 100) % n] + 1; }"""
    n = 50 * 128
    a, b = zeros(n), zeros(n)
    launch(source, 50, 128, (zeros(1), a, b))
    i = (np.arange(n) + 100) % n
    return bool((a == n - 1 - i + 1).all())


@program
def look_back() -> bool:
    """A scan in one pass: blocks take tickets and look back at what earlier ones published."""
    source = """extern "C" __global__ void k(const int *x, int *y, unsigned *ticket,
                                            volatile unsigned long long *state) {
        __shared__ unsigned mine; __shared__ int before, sums[8];
        if (threadIdx.x == 0) mine = atomicAdd(ticket, 1u);
        __syncthreads();
        int i = mine * blockDim.x + threadIdx.x, v = x[i];
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        for (int d = 1; d < 32; d *= 2) {
            int u = __shfl_up_sync(~0u, v, d); if (lane >= d) v += u; }
        if (lane == 31) sums[warp] = v;
        __syncthreads();
        for (int w = 0; w < warp; ++w) v += sums[w];
        if (threadIdx.x == blockDim.x - 1) {
            state[mine] = (mine ? 1ull : 2ull) << 32 | (unsigned)v;
            __threadfence();
            int sum = 0;
            for (int b = (int)mine - 1; b >= 0; --b) {
                unsigned long long s;
                do { s = state[b]; } while (s >> 32 == 0);
                sum += (int)(unsigned)s;
                if (s >> 32 == 2) break; }
            if (mine) { state[mine] = 2ull << 32 | (unsigned)(sum + v); }
            __threadfence();
            before = sum; }
        __syncthreads();
        y[i] = v + before; }"""
    n = 256 * 300
    x = np.random.default_rng(5).integers(0, 100, n).astype(np.int32)
    y = zeros(n)
    launch(source, 300, 256, (x, y, zeros(1), zeros(300, np.uint64)))
    return bool((y == np.cumsum(x)).all())


@program
def producer_and_consumer() -> bool:
    """Named barriers of a part of the block; producers only arrive."""
    source = """extern "C" __global__ void k(const int *x, int *y, int rounds) {
        __shared__ int box[64];
        int t = threadIdx.x;
        for (int r = 0; r < rounds; ++r) {
            if (t < 64) {
                asm volatile("bar.sync 2, 128;" ::: "memory");
                box[t] = x[r * 64 + t] * 2;
                __threadfence_block();
                asm volatile("bar.arrive 1, 128;" ::: "memory");
            } else {
                asm volatile("bar.arrive 2, 128;" ::: "memory");
                asm volatile("bar.sync 1, 128;" ::: "memory");
                y[r * 64 + t - 64] = box[127 - t] + 1;
            } } }"""
    x, y = np.arange(640, dtype=np.int32), zeros(640)
    launch(source, 2, 128, (x, y, 10))
    return bool((y.reshape(10, 64) == x.reshape(10, 64)[:, ::-1] * 2 + 1).all())


@program
def barriers_by_number() -> bool:
    """Each pair of warps has its own barrier, by a register."""
    source = """extern "C" __global__ void k(int *out) {
        __shared__ int s[256];
        int t = threadIdx.x, pair = t / 64;
        for (int r = 0; r <= pair; ++r) {
            s[t] = t + r;
            asm volatile("bar.sync %0, %1;" :: "r"(pair + 1), "r"(64) : "memory");
            int v = s[t ^ 63];
            asm volatile("bar.sync %0, %1;" :: "r"(pair + 1), "r"(64) : "memory");
            out[t] = v; } }"""
    out = zeros(256)
    launch(source, 1, 256, (out,))
    t = np.arange(256)
    return bool((out == (t ^ 63) + t // 64).all())


@program
def halves_of_a_warp_at_two_barriers() -> bool:
    """Lanes of one warp meet their partners at different places (barrier.sync counts threads)."""
    source = """extern "C" __global__ void k(int *out) {
        __shared__ int s[64];
        int t = threadIdx.x, lane = t % 32;
        if (lane < 16) {
            s[t] = t;
            asm volatile("barrier.sync 1, 32;" ::: "memory");
            out[t] = s[t ^ 32];
        } else {
            s[t] = 2 * t;
            asm volatile("barrier.sync 2, 32;" ::: "memory");
            out[t] = s[t ^ 32] + 1;
        } }"""
    out = zeros(64)
    launch(source, 1, 64, (out,))
    t = np.arange(64)
    return bool((out == np.where(t % 32 < 16, t ^ 32, 2 * (t ^ 32) + 1)).all())


@program
def votes_of_a_part() -> bool:
    """bar.red over one half of the block while the other half goes its own way."""
    source = """extern "C" __global__ void k(const int *x, int *out) {
        int t = threadIdx.x, n = 0, any = 0;
        if (t < 96) {
            asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; bar.red.popc.u32 %0, 3, 96, p; }"
                         : "=r"(n) : "r"(x[t]) : "memory");
            asm volatile("{ .reg .pred p, q; setp.gt.s32 p, %1, 1; bar.red.or.pred q, 3, 96, p;"
                         " selp.s32 %0, 1, 0, q; }" : "=r"(any) : "r"(x[t]) : "memory");
        } else n = 1000 + x[t];
        out[t] = n * 2 + any; }"""
    x = (np.arange(160) % 3 == 0).astype(np.int32)
    out = zeros(160)
    launch(source, 1, 160, (x, out))
    t = np.arange(160)
    return bool((out == np.where(t < 96, 2 * x[:96].sum(), 2 * (1000 + x))).all())


@program
def spinning_before_a_barrier() -> bool:
    """Early returns, a spin loop and barriers; the block is no multiple of the warp."""
    source = """extern "C" __global__ void k(volatile int *flag, int *out, int n) {
        __shared__ int s[128];
        int t = threadIdx.x;
        if (t >= n) return;
        s[t] = t;
        if (t == 40) { __threadfence(); *flag = 7; }
        if (t % 5 == 0) while (*flag == 0) ;
        __syncthreads();
        out[t] = s[n - 1 - t] + *flag; }"""
    out = zeros(100)
    launch(source, 1, 100, (zeros(1), out, 77))
    t = np.arange(100)
    return bool((out == np.where(t < 77, 76 - t + 7, 0)).all())


_GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"


@program
def cooperative_grid() -> bool:
    """Cooperative groups' grid.sync(), several times and in several launches."""
    source = (
        _GROUPS
        + """extern "C" __global__ void k(int *a, int *b) {
        auto g = cg::this_grid(); int i = g.thread_rank(), n = g.size();
        for (int r = 0; r < 3; ++r) {
            a[i] = b[n - 1 - i] + 1; g.sync(); b[i] = a[(i + 1) % n] * 2; g.sync(); } }"""
    )
    n = 45 * 96
    a, b = zeros(n), np.arange(n, dtype=np.int32) % 7
    x, y = a.copy(), b.copy()
    for _ in range(2):
        launch(source, 45, 96, (a, b))
        for _ in range(3):
            x = y[::-1] + 1
            y = np.roll(x, -1) * 2
    return bool((a == x).all() and (b == y).all())


@program
def barrier_objects() -> bool:
    """Arrival and wait apart, on a barrier in shared memory (mbarrier)."""
    source = """
    __device__ unsigned at(void *p) { return (unsigned)__cvta_generic_to_shared(p); }
    extern "C" __global__ void k(const int *x, int *y, int rounds) {
        __shared__ unsigned long long bar; __shared__ int s[2][96]; int t = threadIdx.x;
        if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(&bar)), "r"(96));
        __syncthreads();
        int sum = 0;
        for (int r = 0; r < rounds; ++r) {
            s[r & 1][t] = x[t] + r;
            unsigned long long state;
            asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at(&bar))
                         : "memory");
            unsigned done;
            do { asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2;"
                              " selp.u32 %0, 1, 0, p; }"
                              : "=r"(done) : "r"(at(&bar)), "l"(state) : "memory"); } while (!done);
            sum += s[r & 1][95 - t]; }
        y[t] = sum; }"""
    x, y = np.arange(96, dtype=np.int32), zeros(96)
    launch(source, 3, 96, (x, y, 6))
    return bool((y == 6 * x[::-1] + 15).all())


@program
def producer_with_barrier_objects() -> bool:
    """One warp fills a ring of buffers, the others empty it; waits by parity, bytes expected."""
    source = """
    __device__ unsigned at(void *p) { return (unsigned)__cvta_generic_to_shared(p); }
    __device__ void wait(unsigned long long *b, int parity) {
        unsigned done;
        do { asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"
                          " selp.u32 %0, 1, 0, p; }"
                          : "=r"(done) : "r"(at(b)), "r"(parity) : "memory"); } while (!done); }
    __device__ void arrive(unsigned long long *b) { unsigned long long s;
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(s) : "r"(at(b)) : "memory"); }
    extern "C" __global__ void k(const int *x, int *y, int n) {
        __shared__ unsigned long long full[2], empty[2]; __shared__ int box[2][32];
        int t = threadIdx.x;
        if (t < 2) {
            asm volatile("mbarrier.init.shared.b64 [%0], 32;" :: "r"(at(full + t)));
            asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at(empty + t))); }
        __syncthreads();
        if (t < 32) {
            for (int i = 0; i < n; ++i) {
                wait(empty + i % 2, (i / 2 + 1) & 1);
                unsigned a = at(&box[i % 2][t]);
                asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(a),
                             "l"(x + i * 32 + t) : "memory");
                asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];"
                             :: "r"(at(full + i % 2)) : "memory"); }
        } else {
            for (int i = 0; i < n; ++i) {
                wait(full + i % 2, i / 2 & 1);
                int v = box[i % 2][31 - t % 32];
                arrive(empty + i % 2);
                if (t < 64) y[i * 32 + t % 32] = v; else y[(n + i) * 32 + t % 32] = v * 2; } } }"""
    x, y = np.arange(320, dtype=np.int32), zeros(640)
    launch(source, 2, 96, (x, y, 10))
    turned = x.reshape(10, 32)[:, ::-1].ravel()
    return bool((y == np.concatenate([turned, 2 * turned])).all())


@program
def sides_of_a_branch_sync_with_each_other() -> bool:
    """``__syncwarp`` at two places: each side waits for the other one, also after some returned."""
    source = """extern "C" __global__ void k(int *out, int n) {
        __shared__ volatile int a[96], b[96]; int t = threadIdx.x;
        if (t >= n) return;
        if (t % 2) {
            a[t] = t * 3; __syncwarp(); int v = b[t - 1]; __syncwarp(); out[t] = v;
        } else {
            b[t] = t * 5; __syncwarp(); int v = t + 1 < n ? a[t + 1] : 1; __syncwarp();
            out[t] = v; } }"""
    out = zeros(96)
    launch(source, 2, 96, (out, 75))
    t = np.arange(96)
    expected = np.where(t % 2, 5 * (t - 1), np.where(t + 1 < 75, 3 * (t + 1), 1))
    return bool((out == np.where(t < 75, expected, 0)).all())


def main() -> None:
    """Run them all, or those named."""
    for name in sys.argv[1:] or list(PROGRAMS):
        try:
            answer = "ok" if PROGRAMS[name]() else "wrong values"
        except Exception as fault:  # noqa: BLE001 - a report for the test that reads it
            answer = f"{type(fault).__name__}: {fault}".replace("\n", " ")
        print(name, answer, flush=True)


if __name__ == "__main__":
    main()
