from __future__ import annotations

import pytest

from ge2rt.report.instructions import CLASSES, class_of, count_instructions, link_lines
from ge2rt.report.records import LineLink

PTX = """\
.version 8.8
.target sm_80
.visible .entry f(
\t.param .u64 f_param_0
)
{
\t.reg .pred \t%p<2>;
\t.reg .f32 \t%f<5>;
\t.loc\t1 10 0


\tld.param.u64 \t%rd1, [f_param_0];  // one; two; three
\t.loc\t1 12 3
\tcvta.to.global.u64 \t%rd2, %rd1;
\t.loc\t1 3 1, function_name $L__info_string0, inlined_at 1 12 3
\t.loc\t1 1 1, function_name $L__info_string1, inlined_at 1 3 1
\tld.global.nc.f32 \t%f1, [%rd2];
\t.loc\t2 99 9
\tmov.f32 \t%f2, 0f3F800000;
\t.loc\t2 98 9, function_name $L__info_string2, inlined_at 1 13 5
\tadd.f32 \t%f3, %f1, %f2;
$L__BB0_1: { @%p1 bra $L__BB0_1; ex2.approx.ftz.f32 %f4, %f3; }
\tst.global.f32 \t[%rd2], %f4;
\tret;
}
\t.file\t1 "fused.cu.j2"
\t.file\t2 "/include/cuda_fp16.hpp"
\t.section\t.debug_str
\t{
.b8 95,0
\t}
"""


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("ld.global.nc.v4.f32", "global memory"), ("ld.f32", "global memory"),
        ("st.shared.b32", "shared memory"), ("ld.local.u32", "local memory"),
        ("ld.param.u64", "parameters"), ("atom.shared.add.u32", "shared memory"),
        ("red.global.add.f32", "global memory"), ("cp.async.cg.shared.global", "global memory"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "shared memory"),
        ("st.shared::cta.u32", "shared memory"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "tensor cores"),
        ("fma.rn.f32", "float arithmetic"), ("add.f16x2", "float arithmetic"),
        ("add.s32", "integer and bits"), ("shl.b32", "integer and bits"),
        ("rsqrt.approx.f32", "special functions"), ("setp.lt.f32", "compare and select"),
        ("cvt.rn.f16.f32", "move and convert"), ("bra", "control"), ("ret", "control"),
        ("shfl.sync.bfly.b32", "warps and barriers"), ("bar.sync", "warps and barriers"),
    ],
)  # fmt: skip
def test_class_of_an_opcode(opcode: str, expected: str) -> None:
    assert class_of(opcode) == expected
    assert expected in CLASSES


def test_instructions_are_counted_once_each() -> None:
    found = count_instructions(PTX)
    assert found.classes == {
        "float arithmetic": 1, "special functions": 1, "global memory": 2, "parameters": 1,
        "move and convert": 2, "control": 2,
    }  # fmt: skip
    assert found.total == 9
    assert found.registers == {"pred": 1, "f32": 4}


def test_lines_stem_from_the_innermost_and_its_callers() -> None:
    text, links = link_lines(PTX, "fused.cu.j2")
    lines = text.splitlines()
    by_text = {lines[link.ptx - 1].split()[0]: link.cuda for link in links}
    assert by_text["ld.param.u64"] == (10,)
    assert by_text["cvta.to.global.u64"] == (12,)
    assert by_text["ld.global.nc.f32"] == (1, 3, 12)
    assert "mov.f32" not in by_text  # a line of a header
    assert by_text["add.f32"] == (13,)  # the header's caller
    assert by_text["ret;"] == (13,)


def test_the_shown_text_has_no_lines_for_debuggers() -> None:
    text, _ = link_lines(PTX, "fused.cu.j2")
    for word in (".loc", ".file", ".section", ".b8"):
        assert word not in text
    assert "\n\n\n" not in text
    assert text.startswith(".version")


def test_text_without_line_numbers_has_no_links() -> None:
    text, links = link_lines("mov.u32 %r1, 1;\nret;\n", "x.cu")
    assert text == "mov.u32 %r1, 1;\nret;"
    assert links == ()


def test_a_place_inlined_into_itself_ends() -> None:
    ptx = ".loc 1 5 1, function_name f, inlined_at 1 5 1\nret;\n"
    assert link_lines(ptx, "x.cu")[1] == (LineLink(1, (5,)),)
