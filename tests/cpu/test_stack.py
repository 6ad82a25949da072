"""``alloca``, ``stacksave`` and ``stackrestore``, which other compilers than NVRTC emit."""

from __future__ import annotations

import numpy as np
import pytest
from cpu.native_run import run

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.native import ABORT_STACK

# Each lane takes an array of n + lane words, fills it, and adds it up from its end.
FILL = """.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 sum) total(.param .b32 count)
{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
ld.param.u32 %r1, [count]; mul.wide.u32 %rd1, %r1, 4;
alloca.u64 %rd2, %rd1, 16;
cvta.local.u64 %rd3, %rd2;
mov.u32 %r2, 0; mov.u32 %r5, 0;
FILL: setp.ge.u32 %p1, %r2, %r1; @%p1 bra READ;
mul.lo.u32 %r3, %r2, %r1; mul.wide.u32 %rd4, %r2, 4;
add.u64 %rd5, %rd2, %rd4; st.local.u32 [%rd5], %r3;
add.u32 %r2, %r2, 1; bra FILL;
READ: setp.eq.u32 %p1, %r2, 0; @%p1 bra DONE;
sub.u32 %r2, %r2, 1; mul.wide.u32 %rd4, %r2, 4; add.u64 %rd5, %rd3, %rd4;
ld.u32 %r4, [%rd5]; add.u32 %r5, %r5, %r4; bra READ;
DONE: st.param.b32 [sum], %r5; ret; }
.visible .entry k(.param .u64 out, .param .u32 n, .param .u32 rounds)
{ .reg .b32 %r<9>; .reg .b64 %rd<12>; .reg .pred %p<3>;
ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; ld.param.u32 %r6, [rounds];
mov.u32 %r2, %tid.x; add.u32 %r3, %r1, %r2; mov.u32 %r5, 0; mov.u32 %r7, 0;
alloca.u64 %rd6, 4; st.local.u32 [%rd6], %r2;
AGAIN: stacksave.u64 %rd7;
alloca.u64 %rd8, 1000; st.local.u32 [%rd8], %r7;
{ .param .b32 sum; .param .b32 count; st.param.b32 [count], %r3;
call (sum), total, (count); ld.param.b32 %r4, [sum]; }
add.u32 %r5, %r5, %r4;
stackrestore.u64 %rd7;
add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, %r6; @%p1 bra AGAIN;
ld.local.u32 %r4, [%rd6]; mul.lo.u32 %r4, %r4, 1000000; add.u32 %r5, %r5, %r4;
mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r5; ret; }
"""


def expected(block: int, n: int, rounds: int) -> np.ndarray:
    t = np.arange(block)
    count = n + t
    return t * 1000000 + rounds * count * (count * (count - 1) // 2)


@pytest.mark.parametrize("lanes", [32, 16, 1])
def test_arrays_of_each_lane(lanes: int) -> None:
    out = np.zeros(70, "i4")
    assert run(FILL, "k", (1,), (70,), [out, np.int32(3), np.int32(20)], lanes) == 0
    np.testing.assert_array_equal(out, expected(70, 3, 20))


def test_what_is_not_given_back_fills_the_stack() -> None:
    out = np.zeros(70, "i4")
    leaky = FILL.replace("stackrestore.u64 %rd7;", "")
    assert run(leaky, "k", (1,), (70,), [out, np.int32(3), np.int32(2)]) == 0
    assert run(leaky, "k", (1,), (70,), [out, np.int32(3), np.int32(20)]) == ABORT_STACK
    assert run(FILL, "k", (1,), (70,), [out, np.int32(3000), np.int32(1)]) == ABORT_STACK


def test_a_guard_takes_for_its_lanes_only() -> None:
    text = """.version 8.0
    .target sm_80
    .address_size 64
    .visible .entry k(.param .u64 out, .param .u64 size)
    { .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd6, [size]; mov.u32 %r1, %tid.x;
    stacksave.u64 %rd2; setp.lt.u32 %p1, %r1, 5;
    @!%p1 mov.u64 %rd6, 1000000;
    @%p1 alloca.u64 %rd3, %rd6, 8;
    stacksave.u64 %rd4; sub.u64 %rd5, %rd2, %rd4; cvt.u32.u64 %r2, %rd5;
    mul.wide.u32 %rd7, %r1, 4; add.u64 %rd8, %rd1, %rd7; st.global.u32 [%rd8], %r2; ret; }
    """
    out = np.zeros(40, "i4")
    assert run(text, "k", (1,), (40,), [out, np.int64(13)]) == 0
    np.testing.assert_array_equal(out, [16] * 5 + [0] * 35)


def test_what_is_missing_is_named() -> None:
    for text, match in (
        (FILL.replace("%rd2, %rd1, 16", "%rd2, %rd1, 64"), "alignment"),
        (FILL.replace("alloca.u64 %rd2, %rd1, 16", "alloca.u32 %r8, %r1, 16"), r"alloca\.u32"),
    ):
        with pytest.raises(UnsupportedError, match=match):
            run(text, "k", (1,), (32,), [np.zeros(32, "i4"), np.int32(1), np.int32(1)])
