"""Forms that few programs use, against direct statements of the PTX manual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpu.native_run import ptx_of, run

WMMA = {
    # type of A and B: (CUDA type of a register, registers of A, of B)
    "f16": ("r", {"m16n16k16": (8, 8), "m8n32k16": (8, 8), "m32n8k16": (8, 8)}),
    "bf16": ("r", {"m16n16k16": (4, 4), "m8n32k16": (2, 8), "m32n8k16": (8, 2)}),
    "s8": ("r", {"m16n16k16": (2, 2), "m8n32k16": (1, 4), "m32n8k16": (4, 1)}),
    "u8": ("r", {"m16n16k16": (2, 2), "m8n32k16": (1, 4), "m32n8k16": (4, 1)}),
    "tf32": ("r", {"m16n16k8": (4, 4)}),
    "f64": ("fd", {"m8n8k4": (1, 1)}),
}
SUMS = {"f16": ("f32", "f", 8), "bf16": ("f32", "f", 8), "s8": ("s32", "r", 8),
        "u8": ("s32", "r", 8), "tf32": ("f32", "f", 8), "f64": ("f64", "fd", 2)}  # fmt: skip
NUMPY: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "s8": np.int8, "u8": np.uint8,
    "tf32": np.float32, "f64": np.float64, "f32": np.float32, "s32": np.int32,
}  # fmt: skip


def kernel(body: Sequence[str], params: int, arch: int = 90) -> str:
    """A kernel with pointers in %rd1, %rd2, ...; %r1 is the thread's number."""
    listed = ", ".join(f".param .u64 p{k}" for k in range(1, params + 1))
    loads = [f"ld.param.u64 %rd{k}, [p{k}];" for k in range(1, params + 1)]
    return "\n".join([
        f".version 8.7\n.target sm_{arch}\n.address_size 64\n.visible .entry k({listed})\n{{",
        ".reg .pred %p<9>; .reg .b16 %rs<40>; .reg .b32 %r<60>; .reg .b64 %rd<40>;",
        ".reg .f32 %f<60>; .reg .f64 %fd<40>; .reg .b128 %rq<9>; .reg .b32 %x<99>;",
        ".shared .align 128 .b8 tile[2048];",
        *loads, "mov.u32 %r1, %tid.x;", *body, "ret;", "}",
    ])  # fmt: skip


def registers(kind: str, first: int, count: int) -> str:
    return "{" + ", ".join(f"%{kind}{first + k}" for k in range(count)) + "}"


@pytest.mark.parametrize(("layouts", "stride"), [("row.col", "fixed"), ("col.row", "register")])
@pytest.mark.parametrize(
    ("type", "shape"), [(t, s) for t, (_, shapes) in WMMA.items() for s in shapes]
)
def test_wmma_moves_and_multiplies(type: str, shape: str, layouts: str, stride: str) -> None:
    m, n, k = (int(v) for v in shape.replace("m", " ").replace("n", " ").replace("k", " ").split())
    kind, shapes = WMMA[type]
    count_a, count_b = shapes[shape]
    total, sum_kind, count_c = SUMS[type]
    layout_a, layout_b = layouts.split(".")
    pad = 8
    ld_a = (k if layout_a == "row" else m) + pad
    ld_b = (n if layout_b == "row" else k) + pad
    names = ["%r50", "%r51", "%r52"] if stride == "register" else [ld_a, ld_b, n + pad]
    a = registers("x" if kind == "r" else "fd", 1, count_a)
    b = registers("x" if kind == "r" else "fd", 20, count_b)
    c = registers("f" if sum_kind == "f" else "fd" if sum_kind == "fd" else "x", 30, count_c)
    types = "f32.f32" if type == "f16" else ".".join([total, type, type, total])
    text = kernel([
        f"mov.u32 %r50, {ld_a};", f"mov.u32 %r51, {ld_b};", f"mov.u32 %r52, {n + pad};",
        f"wmma.load.a.sync.aligned.{layout_a}.{shape}.global.{type} {a}, [%rd1], {names[0]};",
        f"wmma.load.b.sync.aligned.{layout_b}.{shape}.global.{type} {b}, [%rd2], {names[1]};",
        f"wmma.load.c.sync.aligned.row.{shape}.global.{total} {c}, [%rd3], {names[2]};",
        f"wmma.mma.sync.aligned.{layouts}.{shape}{'.rn' if type == 'f64' else ''}.{types} "
        f"{c}, {a}, {b}, {c};",
        f"wmma.store.d.sync.aligned.row.{shape}.global.{total} [%rd3], {c}, {names[2]};",
    ], 3)  # fmt: skip
    chance = np.random.default_rng(4)
    whole = type in ("s8", "u8")
    left = chance.integers(0, 9, (m, k)) if whole else chance.integers(-8, 8, (m, k)) / 4
    right = chance.integers(0, 9, (k, n)) if whole else chance.integers(-8, 8, (k, n)) / 4
    given = chance.integers(-9, 9, (m, n))
    stored = []
    for matrix, layout in ((left, layout_a), (right, layout_b)):
        lines = matrix if layout == "row" else matrix.T
        padded = np.zeros((lines.shape[0], lines.shape[1] + pad), NUMPY[type])
        padded[:, : lines.shape[1]] = lines
        stored.append(padded)
    out = np.zeros((m, n + pad), NUMPY[total])
    out[:, :n] = given
    arguments = [v.view(np.uint16) if v.dtype == ml_dtypes.bfloat16 else v for v in (*stored, out)]
    assert run(text, "k", (1,), (32,), arguments) == 0
    np.testing.assert_array_equal(out[:, :n].astype("f8"), left @ right + given)
    assert not out[:, n:].any()


@pytest.mark.parametrize(
    ("kind", "dtype", "step"), [("add", "f2", 0.5), ("min", "f2", -2.0), ("max", "f2", 3.0)]
)
def test_atomics_on_vectors_of_halves(kind: str, dtype: str, step: float) -> None:
    text = kernel([
        "ld.global.b32 %r2, [%rd2];",
        f"atom.global.{kind}.noftz.v2.f16x2 {{%r3, %r4}}, [%rd1], {{%r2, %r2}};",
    ], 2)  # fmt: skip
    cells = np.arange(4, dtype=dtype)
    before = cells.astype("f8")
    operand = np.full(2, step, dtype)
    assert run(text, "k", (1,), (8,), [cells, operand]) == 0
    how = {"add": lambda x: x + 8 * step, "min": lambda x: np.minimum(x, step),
           "max": lambda x: np.maximum(x, step)}  # fmt: skip
    np.testing.assert_array_equal(cells.astype("f8"), how[kind](before))


def test_atomics_on_vectors_of_floats() -> None:
    text = kernel([
        "cvt.rn.f32.u32 %f1, %r1;", "mul.wide.u32 %rd3, %r1, 16;", "add.u64 %rd4, %rd2, %rd3;",
        "mov.f32 %f2, 0f3F800000;",
        "atom.global.add.v4.f32 {%f5, %f6, %f7, %f8}, [%rd1], {%f1, %f2, %f2, %f1};",
        "st.global.v4.f32 [%rd4], {%f5, %f6, %f7, %f8};",
    ], 2)  # fmt: skip
    cells, old = np.zeros(4, "f4"), np.zeros((40, 4), "f4")
    assert run(text, "k", (1,), (40,), [cells, old]) == 0
    t = np.arange(40)
    np.testing.assert_array_equal(cells, [t.sum(), 40, 40, t.sum()])
    np.testing.assert_array_equal(old[:, 1], t)  # lowest lane first


@pytest.mark.parametrize("operation", ["cas", "exch"])
def test_atomics_of_128_bits(operation: str) -> None:
    new = "%rq1, " if operation == "cas" else ""
    text = kernel([
        "mov.b64 %rd5, 7;", "mov.b64 %rd6, -1;", "mov.b128 %rq2, {%rd5, %rd6};",
        "ld.global.b128 %rq1, [%rd1];", "setp.ne.u32 %p1, %r1, 3;", "@%p1 ret;",
        f"atom.global.{operation}.b128 %rq3, [%rd1], {new}%rq2;",
        "st.global.b128 [%rd2], %rq3;",
    ], 2)  # fmt: skip
    raw = np.zeros(8, "u8")
    start = -raw.ctypes.data % 16 // 8
    cell, out = raw[start : start + 2], raw[start + 2 : start + 4]
    cell[:] = (1, 2)
    assert run(text, "k", (1,), (8,), [cell, out]) == 0
    np.testing.assert_array_equal(cell, np.array([7, 2**64 - 1], "u8"))
    np.testing.assert_array_equal(out, [1, 2])


def test_functions_of_turns() -> None:
    x = np.array([0.0, -0.0, 0.25, 0.5, 1.125, -7.375, 1e6 + 0.25, np.inf, np.nan], "f4")
    text = kernel([
        "mul.wide.u32 %rd4, %r1, 4;", "add.u64 %rd5, %rd1, %rd4;", "add.u64 %rd6, %rd2, %rd4;",
        "add.u64 %rd7, %rd3, %rd4;", "ld.global.f32 %f1, [%rd5];",
        "sin.approx.2pi.ftz.f32 %f2, %f1;", "cos.approx.2pi.ftz.f32 %f3, %f1;",
        "st.global.f32 [%rd6], %f2;", "st.global.f32 [%rd7], %f3;",
    ], 3)  # fmt: skip
    sines, cosines = np.zeros(9, "f4"), np.zeros(9, "f4")
    assert run(text, "k", (1,), (9,), [x, sines, cosines]) == 0
    turns = 2 * np.pi * (x[:7].astype("f8") % 1)
    np.testing.assert_allclose(sines[:7], np.sin(turns), atol=4e-7)
    np.testing.assert_allclose(cosines[:7], np.cos(turns), atol=4e-7)
    assert np.signbit(sines[1])
    assert np.isnan([*sines[7:], *cosines[7:]]).all()


def test_a_block_is_a_cluster_of_its_own() -> None:
    text = kernel([
        "mov.u32 %r2, %cluster_ctarank;", "mov.u32 %r3, %cluster_nctarank;",
        "mov.u32 %r4, %clusterid.x;", "mov.u32 %r5, %nclusterid.x;",
        "mov.u32 %r6, tile;", "mapa.shared::cluster.u32 %r7, %r6, 0;",
        "shl.b32 %r8, %r1, 2;", "add.u32 %r9, %r7, %r8;", "xor.b32 %r10, %r8, 124;",
        "st.shared::cluster.u32 [%r9], %r1;",
        "barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;",
        "add.u32 %r11, %r6, %r10;", "ld.shared.u32 %r12, [%r11];",
        "mad.lo.u32 %r13, %r4, 64, %r1;", "mul.wide.u32 %rd3, %r13, 4;",
        "add.u64 %rd4, %rd1, %rd3;", "mad.lo.u32 %r14, %r5, 1000, %r12;",
        "mad.lo.u32 %r14, %r3, 100000, %r14;", "add.u32 %r14, %r14, %r2;",
        "st.global.u32 [%rd4], %r14;",
    ], 1)  # fmt: skip
    out = np.zeros((3, 64), "u4")
    assert run(text, "k", (3,), (64,), [out]) == 0
    t = np.arange(64)
    np.testing.assert_array_equal(out, np.tile((t ^ 31) + 103_000, (3, 1)))


@pytest.mark.parametrize("cut", ["size", "predicate"])
def test_cp_async_with_less_than_it_copies(cut: str) -> None:
    last = "%r2" if cut == "size" else "%p1"
    text = kernel([
        "and.b32 %r2, %r1, 15;", "setp.ge.u32 %p1, %r2, 8;", "mul.wide.u32 %rd3, %r1, 16;",
        "add.u64 %rd4, %rd1, %rd3;", "add.u64 %rd5, %rd2, %rd3;", "mov.u32 %r3, tile;",
        "shl.b32 %r4, %r1, 4;", "add.u32 %r5, %r3, %r4;",
        f"cp.async.cg.shared.global.L2::128B [%r5], [%rd4], 16, {last};",
        "cp.async.commit_group;", "cp.async.wait_group 0;",
        "ld.shared.v4.b32 {%r6, %r7, %r8, %r9}, [%r5];",
        "st.global.v4.b32 [%rd5], {%r6, %r7, %r8, %r9};",
    ], 2)  # fmt: skip
    source = np.random.default_rng(3).integers(1, 255, (40, 16)).astype("u1")
    out = np.full((40, 16), 9, "u1")
    assert run(text, "k", (1,), (40,), [source, out]) == 0
    lane = np.arange(40)[:, None] & 15
    kept = np.arange(16) < lane if cut == "size" else np.broadcast_to(lane < 8, (40, 16))
    np.testing.assert_array_equal(out, np.where(kept, source, 0))


def test_loads_of_a_polled_word_are_not_hoisted() -> None:
    source = """extern "C" __global__ void k(volatile int *a, int *b) {
        int s = 0; for (int i = 0; i < 4; ++i) { s += a[0]; b[0] += 1; } b[1] = s; }"""
    cells = np.array([5, 0], "i4")  # a and b are the same word
    assert run(ptx_of(source), "k", (1,), (1,), [cells, cells]) == 0
    assert cells[1] == 5 + 6 + 7 + 8
