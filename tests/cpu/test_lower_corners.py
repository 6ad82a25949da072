"""Corners of the lowering: loops that share a header, values in a circle, frames of quick code."""

from __future__ import annotations

import numpy as np
import pytest
from cpu.native_run import Loaded, load, ptx_of, run

from ge2rt.ptx import codegen
from ge2rt.ptx.lower import flow, global_image, lower_kernel
from ge2rt.ptx.lower.graph import bits
from ge2rt.ptx.native import LowerOptions
from ge2rt.ptx.parse import parse_module

# do { do x += 1; while (x & lane bits); y += sum over the warp of x; } while (y small);
SHARED_HEADER = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{ .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<3>;
mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r6, 0;
HEAD: add.u32 %r2, %r2, 1; and.b32 %r4, %r2, %r1; and.b32 %r4, %r4, 7;
setp.ne.u32 %p1, %r4, 0; @%p1 bra HEAD;
shfl.sync.idx.b32 %r5, %r2, 5, 31, -1;
add.u32 %r3, %r3, %r5; add.u32 %r6, %r6, 1;
setp.lt.u32 %p2, %r6, 6; @%p2 bra HEAD;
ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 8; add.u64 %rd3, %rd1, %rd2;
st.global.v2.u32 [%rd3], {%r2, %r3}; ret; }
"""


def test_loops_with_one_header_get_one_each() -> None:
    made = flow.build(parse_module(SHARED_HEADER).functions["k"])
    outer, inner = made.loops
    assert outer.header != inner.header
    assert inner.members & ~outer.members == 0
    shuffle = next(
        at for at, n in enumerate(made.nodes) if any(i.op == "shfl" for i in n.instrs)
    )  # fmt: skip
    assert outer.members >> shuffle & 1
    assert not inner.members >> shuffle & 1
    for loop in made.loops:  # the last node alone goes back
        backs = [n for n in bits(loop.members) if loop.header in made.edges[n]]
        assert len(backs) == 1


@pytest.mark.parametrize("lanes", [32, 1])
def test_all_lanes_have_left_the_inner_loop_before_they_shuffle(lanes: int) -> None:
    out = np.zeros((32, 2), "u4")
    if lanes == 1:
        text = SHARED_HEADER.replace("shfl.sync.idx.b32 %r5, %r2, 5, 31, -1;", "mov.u32 %r5, 0;")
    else:
        text = SHARED_HEADER
    assert run(text, "k", (1,), (32,), [out], lanes) == 0
    t = np.arange(32)
    x, y = np.zeros(32, int), 0
    for _ in range(6):
        x += 1
        while (turning := (x & t & 7) != 0).any():
            x[turning] += 1
        y += int(x[5])
    np.testing.assert_array_equal(out[:, 0], x)
    if lanes == 32:
        np.testing.assert_array_equal(out[:, 1], y)


# %r4 and %r5 only get each other's value, %r6 is a sum of itself; %r8 is the lane all the same.
CIRCLE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{ .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<3>;
mov.u32 %r1, %tid.x; mov.u32 %r2, 3; mov.u32 %r3, 100;
AGAIN: mov.u32 %r4, %r5; mov.u32 %r5, %r4; add.u32 %r6, %r6, %r4;
setp.eq.u32 %p1, %r2, 9; @%p1 add.u32 %r3, %r3, %r6;
add.u32 %r3, %r3, %r2; sub.u32 %r2, %r2, 1; setp.gt.s32 %p2, %r2, 0; @%p2 bra AGAIN;
and.b32 %r7, %r4, 0; add.u32 %r8, %r7, %r1; mad.lo.u32 %r3, %r8, 1000, %r3;
ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r3; ret; }
"""


@pytest.mark.parametrize("lanes", [32, 16, 1])
def test_values_that_start_nowhere(lanes: int) -> None:
    """Such registers are read, but what they hold decides nothing."""
    out = np.zeros(40, "u4")
    assert run(CIRCLE, "k", (1,), (40,), [out], lanes) == 0
    np.testing.assert_array_equal(out, 1000 * np.arange(40) + 100 + 3 + 2 + 1)


# Long straight code of values that live for a moment only.
MANY = """extern "C" __global__ void k(const float *x, float *out) {
  float s = x[threadIdx.x];
STEPS
  out[threadIdx.x] = s; }""".replace(
    "STEPS", "\n".join(f"  s = s * 0.99f + {k}.5f; s = s - s * s * 0.001f;" for k in range(100))
)


def test_quick_code_with_large_frames_is_made_by_the_careful_generator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = parse_module(ptx_of(MANY))
    options = LowerOptions(block=(64, 1, 1), opt_level=0)
    quick = lower_kernel(module, "k", options)
    monkeypatch.setattr(codegen, "_QUICK_BYTES", len(quick.object_code) - 1)
    careful = lower_kernel(module, "k", options)
    monkeypatch.setattr(codegen, "_QUICK_BYTES", len(quick.object_code))
    assert lower_kernel(module, "k", options).object_code == quick.object_code
    assert frame(careful.llvm_ir, 1) < frame(quick.llvm_ir, 0) / 2
    assert len(careful.object_code) < len(quick.object_code)
    x, outs = np.random.default_rng(0).uniform(-1, 1, 64).astype("f4"), []
    for kernel in (quick, careful, load(ptx_of(MANY), "k", (64,)).kernel):
        out = np.zeros(64, "f4")
        assert Loaded(kernel, global_image(module))((1,), [x, out]) == 0
        outs.append(out)
    np.testing.assert_array_equal(outs[0], outs[1])
    np.testing.assert_array_equal(outs[0], outs[2])


def frame(text: str, level: int) -> int:
    """The largest stack frame, in bytes, that the code generator of a level makes."""
    host = codegen.host()
    module = codegen.optimise(text, host, 0)
    lines = codegen._machine(host, level).emit_assembly(module).splitlines()
    sizes = [abs(int(part.split("$")[1].split(",")[0])) for part in lines
             if part.strip().startswith("subq\t$") and part.endswith("%rsp")]  # fmt: skip
    return max(sizes, default=0)
