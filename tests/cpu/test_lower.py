"""Lowered kernels on the CPU: widths, block shapes, divergence, barriers, memory forms, aborts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from cpu.native_run import load, ptx_of, run
from cpu.random_ptx import REGISTERS, Maker

from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.ptx.lower import global_image, lower_to_ir
from ge2rt.ptx.native import ABORT_ASSERT, ABORT_TRAP, LowerOptions
from ge2rt.ptx.parse import parse_module

KERNELS = r"""
extern "C" __global__ void axpb(const float* x, float* o, float b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) o[i] = 2.f * x[i] + b; }

extern "C" __global__ void early(const float* x, float* o, int n) {
  __shared__ float t[256]; int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  t[threadIdx.x] = x[i]; __syncthreads();
  int j = threadIdx.x ^ 1; float v = 0;
  if (blockIdx.x * blockDim.x + j < n && j < blockDim.x) v = t[j];
  __syncthreads(); o[i] = v + t[threadIdx.x]; }

extern "C" __global__ void tree(const int* x, int* o) {
  extern __shared__ int t[]; t[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (int d = 128; d > 0; d >>= 1) {
    if (threadIdx.x < d && threadIdx.x + d < blockDim.x) t[threadIdx.x] += t[threadIdx.x + d];
    __syncthreads(); }
  if (threadIdx.x == 0) o[blockIdx.x] = t[0]; }

extern "C" __global__ void steps(const int* x, int* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
  int v = x[i], k = 0, last = -1;
  for (k = 0; k < 40; k++) {            // k leaves the loop at another count in each lane
    if (v == 1) break;
    if (v & 1) { v = 3 * v + 1; if (v > 900) { last = k; continue; } }
    else v >>= 1;
    for (int j = 0; j < (v & 3); j++) if ((v + j) % 7 == 0) { last += j; break; } }
  o[3 * i] = k; o[3 * i + 1] = v; o[3 * i + 2] = last; }

extern "C" __global__ void cube(int* o) {
  int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  o[b * blockDim.x * blockDim.y * blockDim.z + t] =
    threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z + 1000000 * b; }

extern "C" __global__ void shapes(const float4* a, const float2* b, float4* o, float* p, float* q) {
  int i = threadIdx.x; float4 v = a[i]; float2 w = b[i >> 1];
  o[i] = make_float4(v.w, v.z, w.y, w.x); p[(i & 15) * 32 + (i >> 4)] = v.x; q[3 * i] = v.y; }

extern "C" __global__ void below(const float* x, float* o, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = (i > 0 ? x[i - 1u] : 0.f) + (i + 1u < n ? x[i + 1u] : 0.f); }

__device__ int counter; __constant__ int offsets[4] = {5, 6, 7, 8};
__device__ const int* pointer = offsets;
extern "C" __global__ void state(int* o) {
  int old = atomicAdd(&counter, 1); o[threadIdx.x] = old * 10 + offsets[threadIdx.x & 3]; }

extern "C" __global__ void stop(int* o) { if (threadIdx.x == 40) __trap(); o[threadIdx.x] = 1; }
extern "C" __global__ void verify(int* o) {
  if (threadIdx.x == 3) asm volatile("trap;"); o[threadIdx.x] = 1; }
"""


@cache
def _ptx() -> str:
    return ptx_of(KERNELS)


def _blocks(n: int, block: int) -> tuple[int]:
    return (-(-n // block),)


@pytest.mark.parametrize("lanes", [32, 16, 8, 1])
@pytest.mark.parametrize("block", [256, 100, 33, 1])
def test_every_width_and_block_size_gives_the_same(block: int, lanes: int) -> None:
    n = 345 if block > 1 else 40
    x = np.arange(n, dtype="f4")
    out = np.full(n + 40, -1, "f4")
    args = [x, out, np.float32(3), np.int32(n)]
    assert run(_ptx(), "axpb", _blocks(n, block), (block,), args, lanes) == 0
    np.testing.assert_array_equal(out, np.r_[2 * x + 3, np.full(40, -1)].astype("f4"))


@pytest.mark.parametrize("block", [256, 224, 100, 77, 33, 31, 1])
def test_early_return_before_a_barrier(block: int) -> None:
    n = 2 * block - block // 3
    x, out = np.arange(1, n + 1, dtype="f4"), np.zeros(n, "f4")
    assert run(_ptx(), "early", (2,), (block,), [x, out, np.int32(n)]) == 0
    i = np.arange(n)
    j = i % block ^ 1
    other = i - i % block + j
    seen = np.where((other < n) & (j < block), x[np.minimum(other, n - 1)], 0)
    np.testing.assert_array_equal(out, seen + x)


@pytest.mark.parametrize(("block", "lanes"), [(256, 32), (77, 32), (77, 16), (96, 1), (31, 8)])
def test_tree_reduction_in_dynamic_shared_memory(block: int, lanes: int) -> None:
    x, out = np.arange(3 * block, dtype="i4"), np.zeros(3, "i4")
    kernel = load(_ptx(), "tree", (block,), lanes)
    assert kernel((3,), [x, out], 4 * block) == 0
    if block & (block - 1) == 0 or block == 96 or block == 77 or block == 31:
        np.testing.assert_array_equal(out, x.reshape(3, -1).sum(1))


def _steps(v: int) -> tuple[int, int, int]:
    last, k = -1, 0
    while k < 40:
        if v == 1:
            break
        skip = False
        if v & 1:
            v = 3 * v + 1
            if v > 900:
                last, skip = k, True
        else:
            v >>= 1
        if not skip:
            for j in range(v & 3):
                if (v + j) % 7 == 0:
                    last += j
                    break
        k += 1
    return k, v, last


@pytest.mark.parametrize("lanes", [32, 16, 1])
def test_values_that_leave_loops_at_different_times(lanes: int) -> None:
    x = np.arange(1, 151, dtype="i4")
    out = np.zeros((150, 3), "i4")
    assert run(_ptx(), "steps", (2,), (96,), [x, out, np.int32(150)], lanes) == 0
    np.testing.assert_array_equal(out, [_steps(int(v)) for v in x])


@pytest.mark.parametrize("block", [(8, 4, 2), (16, 2, 3), (5, 3, 2), (64, 1, 2), (3, 1, 1)])
def test_places_in_three_dimensions(block: tuple[int, int, int]) -> None:
    threads = block[0] * block[1] * block[2]
    out = np.zeros(12 * threads, "i4")
    assert run(_ptx(), "cube", (3, 2, 2), block, [out]) == 0
    z, y, x = np.indices(block[::-1])
    one = (x + 100 * y + 10000 * z).ravel()
    wanted = (np.arange(12)[:, None] * 1000000 + one).ravel()
    np.testing.assert_array_equal(out, wanted)


def test_a_part_of_the_grid_runs_alone() -> None:
    out = np.zeros(12 * 4, "i4")
    load(_ptx(), "cube", (4,))((3, 2, 2), [out], blocks=(5, 8))
    wanted = np.zeros((12, 4), "i4")
    wanted[5:8] = np.arange(4) + 1000000 * np.arange(5, 8)[:, None]
    np.testing.assert_array_equal(out, wanted.ravel())


@pytest.mark.parametrize("lanes", [32, 16, 1])
def test_vector_accesses_tiles_and_strides(lanes: int) -> None:
    a, b = np.arange(128, dtype="f4").reshape(32, 4), np.arange(32, dtype="f4") + 500
    o, p, q = np.zeros((32, 4), "f4"), np.zeros(512, "f4"), np.zeros(96, "f4")
    assert run(_ptx(), "shapes", (1,), (32,), [a, b, o, p, q], lanes) == 0
    w = b.reshape(16, 2)[np.arange(32) >> 1]
    np.testing.assert_array_equal(o, np.c_[a[:, 3], a[:, 2], w[:, 1], w[:, 0]])
    i = np.arange(32)
    np.testing.assert_array_equal(p[(i & 15) * 32 + (i >> 4)], a[:, 0])
    assert np.count_nonzero(p) == 31
    np.testing.assert_array_equal(q, np.c_[a[:, 1], np.zeros((32, 2))].ravel())


@pytest.mark.parametrize("lanes", [32, 1])
def test_an_unsigned_index_below_zero_is_not_read(lanes: int) -> None:
    x, out = np.arange(1, 101, dtype="f4"), np.zeros(100, "f4")
    assert run(_ptx(), "below", (4,), (32,), [x, out, np.uint32(100)], lanes) == 0
    np.testing.assert_array_equal(out, np.r_[0, x[:-1]] + np.r_[x[1:], 0])


@pytest.mark.parametrize("lanes", [32, 1])
def test_module_variables_keep_their_values(lanes: int) -> None:
    kernel = load(_ptx(), "state", (40,), lanes)
    out = np.zeros(40, "i4")
    for launch in range(2):
        assert kernel((1,), [out]) == 0
        ids = np.sort(out // 10 * 10)
        np.testing.assert_array_equal(ids, 10 * (np.arange(40) + 40 * launch))
        np.testing.assert_array_equal(out % 10, 5 + np.arange(40) % 4)
    slots = {s.name: s for s in kernel.slots.values()}
    at = slots["pointer"].offset
    value = int(kernel.globals[at : at + 8].view("u8")[0])
    assert value == kernel.globals.ctypes.data + slots["offsets"].offset


def test_trap_stops_its_lanes_and_the_launch() -> None:
    out = np.zeros(64, "i4")
    kernel = load(_ptx(), "stop", (64,))
    assert kernel((3,), [out]) == ABORT_TRAP
    assert out[40] == 0
    assert run(_ptx(), "verify", (1,), (64,), [out]) == ABORT_TRAP


def test_assert_sets_its_own_word() -> None:
    source = """extern "C" __device__ void __assertfail(const char*, const char*, unsigned,
      const char*, size_t);
    extern "C" __global__ void k(int n) { if (n >= 3) __assertfail("n < 3", "f", 2, "k", 1); }"""
    ptx = ptx_of(source)
    assert run(ptx, "k", (1,), (32,), [np.int32(2)]) == 0
    assert run(ptx, "k", (1,), (32,), [np.int32(5)]) == ABORT_ASSERT


_CLASH = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{ .reg .pred %p<2>; .reg .b32 %r<3>;
mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;
@%p1 bra A;
bar.sync 0;
bra B;
A: bar.sync 0;
B: ret; }
"""


def test_whole_warps_at_two_barriers_need_no_turns() -> None:
    out = np.zeros(4, "i4")
    split = _CLASH.replace("and.b32 %r2, %r1, 1", "and.b32 %r2, %r1, 32")
    kernel = load(split, "k", (64,))
    assert kernel((1,), [out]) == 0
    assert any("mode set" in note for note in kernel.kernel.notes)


_LOOP = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{ .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 100;
H: add.u32 %r2, %r2, 1;
mov.u32 %r4, %r3;
add.u32 %r3, %r3, 2;
setp.ge.u32 %p1, %r2, %r1;
@%p1 bra E;
bra H;
E: ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 12; add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r2; st.global.u32 [%rd3+4], %r3; st.global.u32 [%rd3+8], %r4; ret; }
"""


@pytest.mark.parametrize("lanes", [32, 8, 1])
def test_scalars_of_a_loop_turn_varying_where_lanes_leave_it(lanes: int) -> None:
    out = np.zeros((40, 3), "u4")
    assert run(_LOOP, "k", (1,), (40,), [out], lanes) == 0
    trips = np.maximum(np.arange(40), 1)
    np.testing.assert_array_equal(out, np.c_[trips, 100 + 2 * trips, 98 + 2 * trips])


@pytest.mark.parametrize("kind", ["plain", "wild", "barriers"])
def test_random_control_flow_agrees_with_one_lane_at_a_time(kind: str) -> None:
    for seed in range(900, 902 if kind == "barriers" else 904):
        source = Maker(seed, barriers=kind == "barriers", wild=kind == "wild").kernel()
        block = 77 if kind == "barriers" else (64, 77, 33)[seed % 3]
        x = np.random.default_rng(seed).integers(0, 2**32, 2 * block, dtype="u4")
        found = []
        for lanes in (1, 32, 16):
            out = np.zeros(2 * block * REGISTERS, "u4")
            assert run(source, "k", (2,), (block,), [out, x, np.uint32(7)], lanes) == 0
            found.append(out)
        np.testing.assert_array_equal(found[1], found[0], err_msg=f"seed {seed}")
        np.testing.assert_array_equal(found[2], found[0], err_msg=f"seed {seed}")


def _ir(entry: str, block: tuple[int, int, int] = (256, 1, 1)) -> tuple[str, tuple[str, ...]]:
    kernel = lower_to_ir(parse_module(_ptx()), entry, LowerOptions(block=block))
    return kernel.llvm_ir, kernel.notes


def test_simple_kernels_have_neither_gathers_nor_frames() -> None:
    for entry in ("axpb", "tree", "early"):
        text, notes = _ir(entry)
        if entry != "early":
            assert "gather" not in text, entry
            assert "scatter" not in text, entry
            assert "mode plain" in notes[2]
    kernel = lower_to_ir(parse_module(_ptx()), "tree", LowerOptions(block=(256, 1, 1)))
    assert kernel.arena_bytes <= 2048  # only uniform and remade values cross its barriers
    assert "mode lockstep" in _ir("early")[1][2]


def test_phased_kernels_fetch_for_the_next_block() -> None:
    text, _ = _ir("tree")
    ahead = [line for line in text.splitlines() if "call void @llvm.prefetch" in line]
    assert len(ahead) == 2  # 32 lanes of 4 bytes: two lines of 64
    assert "i64 1024" in text  # 256 threads of 4 bytes further on
    assert "prefetch" not in _ir("axpb")[0]


def test_what_is_missing_is_named_when_lowering() -> None:
    text = _CLASH.replace("bra B;", "tex.2d.v4.f32.s32 {%r1, %r1, %r1, %r1}, [x, {%r1, %r2}];")
    with pytest.raises((UnsupportedError, InvalidArgumentError), match=r"tex\.2d"):
        run(text, "k", (1,), (32,), [np.zeros(4, "i4")])
    with pytest.raises(InvalidArgumentError, match="no such kernel"):
        lower_to_ir(parse_module(_ptx()), "nothing", LowerOptions(block=(32, 1, 1)))


def test_the_width_is_chosen_where_none_is_asked_for() -> None:
    chosen = lower_to_ir(parse_module(_ptx()), "axpb", LowerOptions(block=(64, 1, 1), lanes=0))
    assert chosen.notes[0] == "width: 32 lanes"
    source = (
        "\n".join(f"ld.global.f32 %f{k}, [%rd2+{4 * k}];" for k in range(20))
        + "\nL: "
        + "\n".join(f"add.f32 %f{k}, %f{k}, %f{(k + 1) % 20};" for k in range(20))
    )
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a)\n{"
        ".reg .f32 %f<20>; .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<2>;\n"
        "mov.u32 %r2, 0; mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [a]; mul.wide.u32 %rd3, %r1, 80;"
        f"add.u64 %rd2, %rd1, %rd3;\n{source}\nadd.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 4;\n"
        "@%p1 bra L;\n"
        + "\n".join(f"st.global.f32 [%rd2+{4 * k}], %f{k};" for k in range(20))
        + "ret;\n}"
    )
    for features, lanes in (("+avx2,+avx512f", 16), ("+avx2,+fma", 8)):
        options = LowerOptions(block=(64, 1, 1), lanes=0, features=features)
        assert lower_to_ir(parse_module(text), "k", options).notes[0] == f"width: {lanes} lanes"
    outs = []
    for lanes in (0, 32, 1):
        data = np.arange(64 * 20, dtype="f4") % 17
        assert run(text, "k", (1,), (64,), [data], lanes) == 0
        outs.append(data)
    np.testing.assert_array_equal(outs[0], outs[2])
    np.testing.assert_array_equal(outs[1], outs[2])


def test_a_seed_changes_the_order_of_warps_only() -> None:
    x, wanted, out = np.arange(512, dtype="i4"), np.zeros(2, "i4"), np.zeros(2, "i4")
    load(_ptx(), "tree", (256,))((2,), [x, wanted], 1024)
    for seed in range(3):
        shuffled = load(_ptx(), "tree", (256,), seed=seed)
        shuffled((2,), [x, out], 1024)
        np.testing.assert_array_equal(out, wanted)
    orders = set()
    for seed in (None, 1, 2, 3):
        ids = np.zeros(96, "i4")
        load(_ptx(), "state", (96,), seed=seed)((1,), [ids])
        orders.add(tuple(ids // 10))
    assert len(orders) > 1


def test_an_endless_wait_can_be_stopped() -> None:
    text = _LOOP.replace(
        "setp.ge.u32 %p1, %r2, %r1;",
        "ld.param.u64 %rd1, [out]; ld.volatile.global.u32 %r5, [%rd1]; setp.ne.u32 %p1, %r5, 0;",
    )
    kernel = lower_to_ir(parse_module(text), "k", LowerOptions(block=(32, 1, 1)))
    assert kernel.llvm_ir.count("load atomic i32, ptr %abort") > 1


def test_the_image_holds_initial_values_at_aligned_places() -> None:
    image = global_image(parse_module(_ptx()))
    slots = {s.name: s for s in image.slots}
    at = slots["offsets"].offset
    assert np.frombuffer(image.image[at : at + 16], "i4").tolist() == [5, 6, 7, 8]
    assert slots["pointer"].offset % 8 == 0
