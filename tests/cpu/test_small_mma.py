"""``mma`` of nibbles, bits and quads of lanes, and ``wmma`` of nibbles and bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cpu.native_run import run
from oracle.ptx_interp import Oracle

WARPS = 3
# Form -> 32-bit registers of A, B, C and D.
FORMS = {
    "m8n8k32.row.col.s32.s4.s4.s32": (1, 1, 2, 2),
    "m8n8k32.row.col.satfinite.s32.u4.s4.s32": (1, 1, 2, 2),
    "m16n8k32.row.col.s32.s4.u4.s32": (2, 1, 4, 4),
    "m16n8k64.row.col.satfinite.s32.s4.s4.s32": (4, 2, 4, 4),
    "m16n8k64.row.col.s32.u4.u4.s32": (4, 2, 4, 4),
    "m8n8k128.row.col.s32.b1.b1.s32.xor.popc": (1, 1, 2, 2),
    "m8n8k128.row.col.s32.b1.b1.s32.and.popc": (1, 1, 2, 2),
    "m16n8k128.row.col.s32.b1.b1.s32.xor.popc": (2, 1, 4, 4),
    "m16n8k256.row.col.s32.b1.b1.s32.and.popc": (4, 2, 4, 4),
    **{f"m8n8k4.{a}.{b}.f32.f16.f16.f32": (2, 2, 8, 8) for a in ("row", "col")
       for b in ("row", "col")},
    **{f"m8n8k4.{a}.{b}.f16.f16.f16.f16": (2, 2, 4, 4) for a in ("row", "col")
       for b in ("row", "col")},
}  # fmt: skip


def kernel(form: str) -> str:
    """PTX that loads each lane's registers, one after the other, and stores those of D."""
    *given, results = FORMS[form]
    count = sum(given)
    type = "f32" if ".f32.f16" in form else "b32"
    lines = [f"ld.global.b32 %r{k}, [%rd5+{4 * k}];" for k in range(count)]
    moved = range(given[0] + given[1], count)
    lines += [f"mov.b32 %f{k}, %r{k};" for k in moved]
    held = [f"%{'f' if type == 'f32' and k in moved else 'r'}{k}" for k in range(count)]
    a, b, c = held[: given[0]], held[given[0] : moved[0]], held[moved[0] :]
    d = [f"%{'g' if type == 'f32' else 's'}{k}" for k in range(results)]
    sets = ["{" + ", ".join(x) + "}" for x in (d, a, b, c)]
    lines += [f"mma.sync.aligned.{form} {', '.join(sets)};"]
    lines += [f"st.global.{type} [%rd6+{4 * k}], {d[k]};" for k in range(results)]
    body = "\n".join(lines)
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{ .reg .b32 %r<40>, %s<40>; .reg .f32 %f<40>, %g<40>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r39, %tid.x;
mul.wide.u32 %rd3, %r39, {4 * count}; mul.wide.u32 %rd4, %r39, {4 * results};
add.u64 %rd5, %rd1, %rd3; add.u64 %rd6, %rd2, %rd4;
{body}
ret; }}
"""


def registers(form: str) -> np.ndarray:
    """Random registers; floats are small enough for every sum to be exact."""
    rng = np.random.default_rng(len(form))
    *given, _ = FORMS[form]
    shape = (32 * WARPS, sum(given))
    if "f16" not in form:
        words = rng.integers(0, 2**32, shape, dtype="u4")
        whole = rng.choice(np.array([5, 0x7FFFFFFE, 0x80000001, 77], "u4"), (shape[0], given[2]))
        words[:, -given[2] :] = whole
        return words
    halves = (rng.integers(-8, 9, (shape[0], 2 * shape[1])) / 4).astype("f2")
    words = halves.view("u4").reshape(shape).copy()
    if ".f32.f16" in form:
        words[:, -8:] = (rng.integers(-99, 99, (shape[0], 8)) / 8).astype("f4").view("u4")
    return words


@pytest.mark.parametrize("form", FORMS)
def test_mma_against_the_interpreter(form: str) -> None:
    text, given = kernel(form), registers(form)
    outs = [np.zeros((32 * WARPS, FORMS[form][3]), "u4") for _ in range(2)]
    assert run(text, "k", (1,), (32 * WARPS,), [given, outs[0]]) == 0
    Oracle(text).launch("k", 1, 32 * WARPS, [given, outs[1]])
    np.testing.assert_array_equal(*outs)
    assert len(np.unique(outs[0])) > 20


def test_a_product_of_quads_by_hand() -> None:
    """Row 5 of A in the second quad is lane 4 + 1 + 16; column 6 of C is its c6 there."""
    form = "m8n8k4.row.col.f16.f16.f16.f16"
    given = np.zeros((32, 8), "u4")
    halves = given.view("f2").reshape(32, 16)
    halves[21, 0:4] = [1, 2, 3, 4]  # A: row 5, k = 0..3
    halves[22, 4:8] = [10, 20, 30, 40]  # B: column 6, k = 0..3
    out = np.zeros((32, 4), "u4")
    assert run(kernel(form), "k", (1,), (32,), [given, out]) == 0
    sums = out.view("f2").reshape(32, 8)
    assert sums[21, 6] == 300
    assert np.count_nonzero(sums) == 1


WMMA = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{ .reg .b32 %r<10>, %c<4>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r9, [n];
wmma.load.a.sync.aligned.row.SHAPE.global.TYPE {%r0}, [%rd1], %r9;
wmma.load.b.sync.aligned.col.SHAPE.global.TYPE {%r1}, [%rd2], STRIDE;
wmma.load.c.sync.aligned.row.SHAPE.global.s32 {%c0, %c1}, [%rd3], 8;
wmma.mma.OPERATION.sync.aligned.row.col.SHAPE.s32.TYPE.TYPE.s32
  {%c0, %c1}, {%r0}, {%r1}, {%c0, %c1};
wmma.store.d.sync.aligned.row.SHAPE.global.s32 [%rd3], {%c0, %c1}, 8;
ret; }
"""


def unpacked(words: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    parts = words[..., None] >> np.arange(0, 32, bits, dtype="u4") & (2**bits - 1)
    parts = parts.astype("i8").reshape(len(words), -1)
    return parts - (parts & 8) * 2 * signed


@pytest.mark.parametrize(("type", "bits", "operation"), [
    ("s4", 4, ""), ("u4", 4, ""), ("b1", 1, "xor.popc."), ("b1", 1, "and.popc."),
])  # fmt: skip
def test_wmma_below_a_byte(type: str, bits: int, operation: str) -> None:
    depth, stride = 128 // bits, 256 // bits  # four of the eight words of a row
    text = WMMA.replace("SHAPE", f"m8n8k{depth}").replace("STRIDE", str(stride))
    text = text.replace("OPERATION.", operation).replace("TYPE", type)
    rng = np.random.default_rng(bits)
    a, b = (rng.integers(0, 2**32, (8, 8), dtype="u4") for _ in range(2))
    c = rng.integers(-9, 9, (8, 8)).astype("i4")
    given: list[Any] = [a, b, c.copy(), np.int32(stride)]
    assert run(text, "k", (1,), (32,), given) == 0
    left, right = (unpacked(m[:, :4], bits, type == "s4") for m in (a, b))
    exact = left @ right.T
    if operation.startswith("xor"):
        exact = (left[:, None] ^ right[None]).sum(-1)
    np.testing.assert_array_equal(given[2], exact + c)
