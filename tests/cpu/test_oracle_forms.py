from __future__ import annotations

import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oracle.ptx_interp import MemoryFault, Oracle, run

HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"


def kernel(body: str, extra: str = "") -> str:
    return f"""{HEAD}{extra}
.visible .entry k(.param .u64 k_in, .param .u64 k_out) {{
  .reg .pred p<9>; .reg .b16 h<9>; .reg .b32 r<20>; .reg .b64 d<9>; .reg .f32 f<9>;
  .reg .f64 g<9>; .reg .b64 in, out, at;
  ld.param.u64 in, [k_in]; ld.param.u64 out, [k_out];
  mov.u32 r19, %tid.x; mul.wide.u32 at, r19, 16; add.s64 in, in, at; add.s64 out, out, at;
  {body}
  ret;
}}"""


def once(body: str, words: list[int], extra: str = "", threads: int = 1) -> list[int]:
    """Run one body on 32-bit words r0.. and return the four words that it stores at [out]."""
    a = np.array(words + [0] * (-len(words) % 4 or 4 * (not words)), np.uint32)
    o = np.zeros(4 * threads, np.uint32)
    load = "ld.global.v4.b32 {r0, r1, r2, r3}, [in];"
    run(kernel(load + body, extra), "k", 1, threads, [a, o])
    return [int(v) for v in o]


def f32(x: float) -> int:
    return int(struct.unpack("I", struct.pack("f", x))[0])


def half2(low: float, high: float) -> int:
    return int(np.array([low, high], np.float16).view(np.uint32)[0])


def brain2(low: float, high: float) -> int:
    return int(np.array([low, high], ml_dtypes.bfloat16).view(np.uint32)[0])


M = 0xFFFFFFFF

# (body, words in r0.., word that r4 must hold)
CASES: list[tuple[str, list[int], int]] = [
    ("add.s32 r4, r0, r1;", [M, 3], 2),
    ("add.sat.s32 r4, r0, r1;", [0x7FFFFFFF, 3], 0x7FFFFFFF),
    ("sub.sat.s32 r4, r0, r1;", [0x80000000, 3], 0x80000000),
    ("mul.hi.s32 r4, r0, r1;", [M, M], 0),
    ("mul.hi.u32 r4, r0, r1;", [M, M], M - 1),
    ("mad.lo.s32 r4, r0, r1, r2;", [7, M, 1], M - 5),
    ("mad.hi.u32 r4, r0, r1, r2;", [M, M, 5], 3),
    ("mul24.lo.s32 r4, r0, r1;", [0xFF000002, 3], 6),
    ("div.s32 r4, r0, r1;", [M - 6, 2], M - 2),
    ("rem.s32 r4, r0, r1;", [M - 6, 2], M),
    ("div.s32 r4, r0, r1;", [0x80000000, M], 0x80000000),
    ("shl.b32 r4, r0, 32;", [5], 0),
    ("shr.u32 r4, r0, r1;", [M, 40], 0),
    ("shr.s32 r4, r0, r1;", [0x80000000, 400], M),
    ("shf.l.wrap.b32 r4, r0, r1, 36;", [0xF0000000, 1], 0x1F),
    ("shf.l.clamp.b32 r4, r0, r1, 36;", [0xF0000000, 1], 0xF0000000),
    ("shf.r.clamp.b32 r4, r0, r1, 4;", [0xF0, 1], 0x1000000F),
    ("bfe.s32 r4, r0, 4, 4;", [0x80], M - 7),
    ("bfe.u32 r4, r0, 28, 20;", [0xA0000000], 10),
    ("bfe.s32 r4, r0, 28, 20;", [0xA0000000], M - 5),
    ("bfe.s32 r4, r0, 3, 0;", [M], 0),
    ("bfi.b32 r4, r0, r1, 8, 4;", [0xAB, 0], 0xB00),
    ("bfind.u32 r4, r0;", [0x00010000], 16),
    ("bfind.s32 r4, r0;", [M], M),
    ("bfind.shiftamt.u32 r4, r0;", [0x00010000], 15),
    ("brev.b32 r4, r0;", [1], 0x80000000),
    ("popc.b32 r4, r0;", [0xF0F], 8),
    ("clz.b32 r4, r0;", [0], 32),
    ("bmsk.clamp.b32 r4, r0, r1;", [4, 8], 0xFF0),
    ("szext.wrap.s32 r4, r0, r1;", [0x8F, 8], M - 0x70),
    ("prmt.b32 r4, r0, r1, 0x7210;", [0x44332211, 0x88776655], 0x88332211),
    ("prmt.b32 r4, r0, r1, 0xBA98;", [0x80017F80, 0], 0xFF0000FF),
    ("prmt.b32.f4e r4, r0, r1, 1;", [0x44332211, 0x88776655], 0x55443322),
    ("prmt.b32.b4e r4, r0, r1, 1;", [0x44332211, 0x88776655], 0x77881122),
    ("prmt.b32.rc8 r4, r0, r1, 2;", [0x44332211, 0], 0x33333333),
    ("prmt.b32.ecl r4, r0, r1, 1;", [0x44332211, 0], 0x44332222),
    ("prmt.b32.ecr r4, r0, r1, 1;", [0x44332211, 0], 0x22222211),
    ("prmt.b32.rc16 r4, r0, r1, 1;", [0x44332211, 0], 0x44334433),
    ("lop3.b32 r4, r0, r1, r2, 0x96;", [0xF0, 0xCC, 0xAA], 0xF0 ^ 0xCC ^ 0xAA),
    ("lop3.b32 r4, r0, r1, r2, 0xCA;", [0xF0, 0xCC, 0xAA], 0xCC & 0xF0 | 0xAA & 0x0F),
    ("dp4a.s32.u32 r4, r0, r1, r2;", [0xFF02FE01, 0x01010101, 10], 10),
    ("dp2a.lo.s32.s32 r4, r0, r1, r2;", [0xFFFF0002, 0x04030201, 1], 1 + 2 - 2),
    ("dp2a.hi.s32.s32 r4, r0, r1, r2;", [0xFFFF0002, 0x04030201, 1], 1 + 6 - 4),
    ("sad.s32 r4, r0, r1, r2;", [M, 5, 1], 7),
    ("cnot.b32 r4, r0;", [0], 1),
    ("add.cc.u32 r5, r0, r1; addc.u32 r4, r2, r3;", [M, 1, 10, 20], 31),
    ("sub.cc.u32 r5, r0, r1; subc.u32 r4, r2, r3;", [0, 1, 10, 4], 5),
    ("mad.lo.cc.u32 r5, r0, r1, r2; madc.hi.u32 r4, r0, r1, r3;", [M, M, M, 0], M),
    ("slct.u32.s32 r4, r0, r1, r2;", [7, 8, M], 8),
    ("set.lt.u32.s32 r4, r0, r1;", [M, 0], M),
    ("set.gt.f32.u32 f0, r0, r1; mov.b32 r4, f0;", [M, 0], f32(1.0)),
    ("setp.lt.and.s32 p0|p1, r0, r1, p2; selp.b32 r4, 3, 4, p0;", [1, 2], 4),
    ("setp.lo.u32 p0|p1, r0, r1; selp.b32 r4, 3, 4, p1;", [1, 2], 4),
    ("setp.leu.f32 p0, f0, f1; selp.b32 r4, 3, 4, p0;", [], 3),
    ("mov.b32 f0, r0; setp.le.f32 p0, f0, f0; selp.b32 r4, 3, 4, p0;", [0x7FC00000], 4),
    ("mov.b32 f0, r0; setp.nan.f32 p0, f0, f0; selp.b32 r4, 3, 4, p0;", [0x7FC00000], 3),
    ("not.pred p0, p1; and.pred p0, p0, !p1; selp.b32 r4, 3, 4, p0;", [], 3),
    ("mov.b64 d0, {r0, r1}; mov.b64 {r5, r4}, d0;", [1, 2], 2),
    ("mov.b32 {h0, h1}, r0; mov.b32 r4, {h1, h0};", [0x00010002], 0x00020001),
    ("cvt.s32.s8 r4, r0;", [0x1FF], M),
    ("cvt.u16.u32 h0, r0; cvt.s32.s16 r4, h0;", [0x18000], M - 0x7FFF),
    ("cvt.sat.s8.s32 r4, r0;", [300], 127),
    ("cvt.sat.u8.s32 r4, r0;", [M], 0),
    ("mov.b32 f0, r0; cvt.rzi.s32.f32 r4, f0;", [f32(-1e20)], 0x80000000),
    ("mov.b32 f0, r0; cvt.rni.u32.f32 r4, f0;", [f32(2.5)], 2),
    ("mov.b32 f0, r0; cvt.rzi.s32.f32 r4, f0;", [0x7FC00000], 0),
    ("cvt.rp.f32.u32 f0, r0; mov.b32 r4, f0;", [2**24 + 1], f32(2**24 + 2)),
    ("cvt.rn.f32.s32 f0, r0; mov.b32 r4, f0;", [M], f32(-1)),
    ("mov.b32 f0, r0; cvt.rmi.f32.f32 f1, f0; mov.b32 r4, f1;", [f32(-1.5)], f32(-2)),
    ("mov.b32 f0, r0; cvt.sat.f32.f32 f1, f0; mov.b32 r4, f1;", [f32(1.5)], f32(1)),
    ("mov.b32 f0, r0; cvt.rz.f16.f32 h0, f0; cvt.u32.u16 r4, h0;", [f32(2.9999)], 0x41FF),
    ("mov.b32 f0, r0; mov.b32 f1, r1; cvt.rn.f16x2.f32 r4, f0, f1;",
     [f32(1.0), f32(-2.0)], half2(-2.0, 1.0)),
    ("mov.b32 f0, r0; mov.b32 f1, r1; cvt.rn.relu.bf16x2.f32 r4, f0, f1;",
     [f32(3.0), f32(-2.0)], brain2(0.0, 3.0)),
    ("mov.b32 f0, r0; cvt.rna.tf32.f32 r4, f0;", [0x3F801000], 0x3F802000),
    ("mov.b32 f0, r0; mov.b32 f1, r1; cvt.rn.satfinite.e4m3x2.f32 h0, f0, f1;"
     "cvt.u32.u16 r4, h0;", [f32(1000.0), f32(-1.0)], 0x7EB8),
    ("mov.b32 {h0, h1}, r0; cvt.rn.f16x2.e5m2x2 r4, h0;", [0x3CBC], half2(-1.0, 1.0)),
    ("add.f16x2 r4, r0, r1;", [half2(1, 2), half2(0.5, -4)], half2(1.5, -2)),
    ("fma.rn.relu.f16x2 r4, r0, r1, r2;", [half2(2, 2), half2(3, -3), half2(1, 1)], half2(7, 0)),
    ("fma.rn.bf16x2 r4, r0, r1, r2;", [brain2(2, 2), brain2(3, -3), brain2(1, 1)], brain2(7, -5)),
    ("max.f16x2 r4, r0, r1;", [half2(np.nan, 2), half2(1, 3)], half2(1, 3)),
    ("set.gt.f16x2.f16x2 r4, r0, r1;", [half2(2, 2), half2(1, 3)], half2(1, 0)),
    ("setp.gt.f16x2 p0|p1, r0, r1; selp.b32 r4, 3, 4, p1;", [half2(2, 2), half2(1, 3)], 4),
    ("mov.b32 f0, r0; mov.b32 f1, r1; min.f32 f2, f0, f1; mov.b32 r4, f2;",
     [0x80000000, 0], 0x80000000),
    ("mov.b32 f0, r0; mov.b32 f1, r1; max.NaN.f32 f2, f0, f1; testp.notanumber.f32 p0, f2;"
     "selp.b32 r4, 3, 4, p0;", [0x7FC00000, 0], 3),
    ("mov.b32 f0, r0; mov.b32 f1, r1; copysign.f32 f2, f0, f1; mov.b32 r4, f2;",
     [f32(-1.0), f32(5.0)], f32(-5.0)),
    ("mov.b32 f0, r0; mul.ftz.f32 f1, f0, 0f3F800000; mov.b32 r4, f1;", [5], 0),
    ("mov.b32 f0, r0; add.sat.f32 f1, f0, f0; mov.b32 r4, f1;", [0x7FC00000], 0),
    ("mov.b32 f0, r0; ex2.approx.f32 f1, f0; mov.b32 r4, f1;", [f32(-3)], f32(0.125)),
    ("mov.b32 f0, r0; rcp.rz.f32 f1, f0; mov.b32 r4, f1;", [f32(3)], 0x3EAAAAAA),
    ("cvt.rn.f64.u32 g0, r0; mul.f64 g0, g0, 0d3FE0000000000000; cvt.rzi.u32.f64 r4, g0;",
     [9], 4),
    ("tanh.approx.f16x2 r4, r0;", [half2(0, 20)], half2(0, 1)),
    ("cvta.shared.u64 d0, 8; isspacep.shared p0, d0; selp.b32 r4, 3, 4, p0;", [], 3),
    ("isspacep.global p0, in; selp.b32 r4, 3, 4, p0;", [], 3),
    ("{ .reg .b32 r0; mov.u32 r0, 9; add.u32 r4, r0, 1; } add.u32 r4, r4, r0;", [5], 15),
    ("mov.u32 r4, WARP_SZ;", [], 32),
    ("mov.u32 r4, %lanemask_ge;", [], M),
    ("ld.global.s8 r4, [in+1];", [0xFF00], M),
    ("ld.global.u8 r4, [in+1];", [0xFF00], 0xFF),
]  # fmt: skip


@pytest.mark.parametrize(("body", "words", "want"), CASES, ids=[c[0][:40] for c in CASES])
def test_single_forms(body: str, words: list[int], want: int) -> None:
    got = once(body + "st.global.b32 [out], r4;", words)[0]
    assert f"{got:#010x}" == f"{want:#010x}"


def test_wide_and_64_bit_forms() -> None:
    body = """mul.wide.s32 d0, r0, r1; st.global.b64 [out], d0; mov.b64 d1, {r0, r1};
    shr.s64 d1, d1, 4; bfe.u64 d1, d1, 8, 40; st.global.u64 [out+8], d1;"""
    out = np.array(once(body, [M, 5]), np.uint32).view(np.int64).tolist()
    assert out == [-5, ((((5 << 32) | M) >> 4) >> 8) & ((1 << 40) - 1)]


def test_unknown_form_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"vadd2\.s32\.s32 r4"):
        once("vadd2.s32.s32 r4, r0, r1, r2;", [])


def test_atomics_return_the_old_value_in_turn() -> None:
    body = "atom.shared.add.u32 r4, [s], 2; st.global.b32 [out], r4;"
    out = once(body, [0] * 16, ".shared .align 4 .b32 s;", threads=4)
    assert sorted(out[::4]) == [0, 2, 4, 6]


def test_packed_and_wrapping_atomics() -> None:
    body = """atom.global.add.noftz.f16x2 r4, [in], r1; red.global.inc.u32 [in+8], 1;
    red.global.inc.u32 [in+8], 1; atom.global.cas.b32 r5, [in+12], 7, 8;
    ld.global.v4.b32 {r0, r1, r2, r3}, [in]; st.global.v4.b32 [out], {r0, r4, r2, r3};"""
    out = once(body, [half2(1, 2), half2(0.5, 3), 0, 7])
    assert out == [half2(1.5, 5), half2(1, 2), 0, 8]


def test_collectives_of_newer_targets() -> None:
    body = """elect.sync r4|p0, 0xffffffff; selp.b32 r5, 1, 0, p0; match.all.sync.b32 r6|p1, r0, -1;
    redux.sync.or.b32 r7, r19, 0xffffffff; st.global.v4.b32 [out], {r4, r5, r6, r7};"""
    out = np.array(once(body, [4, 0, 0, 0] * 32, threads=32)).reshape(32, 4)
    assert out[:, 0].tolist() == [0] * 32
    assert out[:, 1].tolist() == [1] + [0] * 31
    assert out[:, 2].tolist() == [M] * 32
    assert out[:, 3].tolist() == [31] * 32


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_undoes_ldmatrix(trans: str) -> None:
    extra = ".shared .align 16 .b8 s[1024];"
    body = f"""mov.u32 r8, s; mul.lo.u32 r9, r19, 16; add.u32 r8, r8, r9;
    st.shared.v4.b32 [r8], {{r0, r1, r2, r3}}; bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{r4, r5, r6, r7}}, [r8];
    stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [r8+512], {{r4, r5, r6, r7}};
    bar.warp.sync -1; ld.shared.v4.b32 {{r0, r1, r2, r3}}, [r8+512];
    st.global.v4.b32 [out], {{r0, r1, r2, r3}};"""
    words = [int(v) for v in np.random.default_rng(0).integers(0, 2**32, 128)]
    assert once(body, words, extra, threads=32) == words


def test_movmatrix_transposes() -> None:
    body = "movmatrix.sync.aligned.m8n8.trans.b16 r4, r0; st.global.b32 [out], r4;"
    tile = np.arange(64, dtype=np.uint16).reshape(8, 8)
    words = np.zeros((32, 4), np.uint32)
    words[:, 0] = tile.reshape(-1).view(np.uint32)
    out = once(body, words.reshape(-1).tolist(), threads=32)[::4]
    assert np.array(out, np.uint32).view(np.uint16).reshape(8, 8).T.tolist() == tile.tolist()


FAULTS = [
    ("ld.global.b32 r0, [in+4096];", "out of bounds: 4 bytes"),
    ("st.global.b32 [out+-4], r0;", "out of bounds"),
    ("ld.global.b32 r0, [in+2];", "misaligned: 4 bytes"),
    ("ld.global.v2.b32 {r0, r1}, [in+4];", "misaligned vector"),
    ("mov.u64 d0, 0; ld.b32 r0, [d0];", "no memory at generic address 0x0"),
    ("ld.shared.b32 r0, [s+64];", "out of bounds"),
    ("mov.u64 d0, c; cvta.const.u64 d0, d0; st.b32 [d0], r0;", "constant memory"),
]


@pytest.mark.parametrize(("body", "text"), FAULTS)
def test_faults_say_what_and_where(body: str, text: str) -> None:
    extra = ".shared .align 4 .b8 s[64];\n.const .align 4 .b32 c = 5;"
    with pytest.raises(MemoryFault, match=text):
        run(kernel(body, extra), "k", 1, 1, [np.zeros(4, "u4"), np.zeros(4, "u4")])


def test_half_a_warp_waiting_for_ever_is_a_deadlock() -> None:
    body = "setp.lt.u32 p0, r19, 3; @p0 bar.sync 0, 64; bar.sync 1, 32;"
    with pytest.raises(RuntimeError, match="deadlock"):
        run(kernel(body), "k", 1, 32, [np.zeros(128, "u4"), np.zeros(128, "u4")])


def test_endless_loop_is_stopped() -> None:
    oracle = Oracle(kernel("L: bra L;"))
    with pytest.raises(RuntimeError, match="no end after 1000 steps"):
        oracle.launch("k", 1, 1, [np.zeros(4, "u4"), np.zeros(4, "u4")], limit=1000)


def test_a_collective_waits_for_lanes_that_come_from_below() -> None:
    body = """setp.lt.u32 p0, r19, 16; mov.u32 r4, r19; @p0 bra LATE;
    BACK: shfl.sync.idx.b32 r5, r4, 0, 31, -1; st.global.b32 [out], r5; ret;
    LATE: add.u32 r4, r4, 77; bra BACK;"""
    assert once(body, [0] * 128, threads=32)[::4] == [77] * 32


def test_a_spinning_lane_does_not_starve_the_one_it_waits_for() -> None:
    extra = ".global .align 4 .u32 flag;"
    body = """setp.eq.u32 p0, r19, 0; @p0 bra SET;
    WAIT: ld.volatile.global.u32 r4, [flag]; setp.eq.u32 p1, r4, 0; @p1 bra WAIT; bra END;
    SET: mov.u32 r4, 5; st.volatile.global.u32 [flag], r4;
    END: st.global.b32 [out], r4;"""
    assert once(body, [0] * 128, extra, threads=32)[::4] == [5] * 32


def test_ranges_of_an_inner_scope_are_their_own() -> None:
    body = "{ .reg .b32 r<2>; mov.u32 r0, 9; add.u32 r4, r0, 1; } add.u32 r4, r4, r0;"
    assert once(body + "st.global.b32 [out], r4;", [5])[0] == 15


def test_tf32_operands_lose_their_low_bits() -> None:
    body = """mov.f32 f0, 0f00000000;
    mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {f1, f2, f3, f4}, {r0, r1}, {r2},
      {f0, f0, f0, f0};
    st.global.v4.f32 [out], {f1, f2, f3, f4};"""
    out = once(body, [0x3F801FFF, 0x3F800000, 0x3F800000, 0] * 32, threads=32)
    assert out == [f32(4.0)] * 128


def test_trap_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="trap"):
        once("trap;", [])


def test_globals_last_over_launches() -> None:
    extra = ".visible .global .align 4 .u32 count = 5;"
    oracle = Oracle(kernel("atom.global.add.u32 r4, [count], 1; st.global.b32 [out], r4;", extra))
    seen = []
    for _ in range(3):
        out: np.ndarray[Any, Any] = np.zeros(4, np.uint32)
        oracle.launch("k", 1, 1, [np.zeros(4, "u4"), out])
        seen.append(int(out[0]))
    assert seen == [5, 6, 7]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match=r"parameters of \[8, 8\] bytes, got \[8, 4\]"):
        run(kernel(""), "k", 1, 1, [np.zeros(4, "u4"), np.int32(4)])
    with pytest.raises(TypeError, match="contiguous"):
        run(kernel(""), "k", 1, 1, [np.zeros((4, 4), "u4")[:, 1], np.zeros(1, "u4")])


def test_ptx_words_of_a_debug_build_are_skipped() -> None:
    extra = '.file 1 "a.cu"\n.section .debug_str\n{\n.b8 1, 2\n}\n'
    body = '\n.loc 1 5 3\n.pragma "nounroll";\nst.global.b32 [out], 7; // end\n/* { */'
    assert once(body, [], extra)[0] == 7
