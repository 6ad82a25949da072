"""The tables of opcodes and targets, against what ptxas says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ge2rt.base.errors import CompileError, UnsupportedError
from ge2rt.ptx import isa, isa_targets
from ge2rt.ptx.ast import Instr, Module
from ge2rt.ptx.parse import parse_module

GOLDEN = Path(__file__).parent.parent / "golden" / "ptx"
TARGETS = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120",
           "sm_120a"]  # fmt: skip
ROWS = [
    tuple(line.split(maxsplit=1))
    for line in (GOLDEN / "targets.txt").read_text().splitlines()
    if not line.startswith("#")
]


def module_of(body: str, *, target: str = "sm_90", shared: str = "") -> Module:
    return parse_module(
        f".version 9.3\n.target {target}\n.address_size 64\n{shared}\n"
        ".entry k(.param .u32 x) {.reg .b16 h; .reg .b32 r, f; .reg .b64 d; .reg .pred p, q;"
        f" .reg .b128 b;\n{body}\nret; }}"
    )


def accepted(form: str, target: str) -> bool:
    try:
        isa.check_module(module_of(form, target=target))
    except CompileError as error:
        if error.record.where == "ptx:6" and target in str(error):
            return False
        raise
    return True


@pytest.mark.parametrize(("first", "form"), ROWS, ids=[form for _, form in ROWS])
def test_first_target_is_that_of_ptxas(first: str, form: str) -> None:
    found = next(target for target in TARGETS if accepted(form, target))
    assert found == first


def test_every_target_row_is_about_a_known_opcode() -> None:
    bases = {name.partition(".")[0] for name in isa.OPCODES}
    assert isa_targets.TARGETS.keys() <= bases


KINDS = {
    "add.s32 r, r, r;": ("pure", 1), "ld.global.u32 r, [d];": ("memory", 1),
    "st.global.u32 [d], r;": ("memory", 0), "red.global.add.u32 [d], r;": ("memory", 0),
    "atom.global.add.u32 r, [d], r;": ("memory", 1),
    "shfl.sync.idx.b32 r|p, r, r, r, r;": ("warp", 1),
    "bar.sync 0;": ("barrier", 0), "barrier.sync.aligned 0;": ("barrier", 0),
    "bar.red.popc.u32 r, 0, p;": ("barrier", 1),
    "barrier.cta.red.popc.u32 r, 0, p;": ("barrier", 1),
    "bar.warp.sync r;": ("warp", 0), "membar.gl;": ("memory", 0), "nanosleep.u32 r;": ("hint", 0),
    "wmma.load.a.sync.aligned.row.m16n16k16.f16 {r}, [d];": ("warp", 1),
    "wmma.store.d.sync.aligned.row.m16n16k16.f32 [d], {f};": ("warp", 0),
    "cp.async.ca.shared.global [r], [d], 16;": ("memory", 0),
    "mbarrier.arrive.shared.b64 d, [r];": ("memory", 1), "trap;": ("control", 0),
    "cvt.pack.sat.s16.s32 r, r, r;": ("pure", 1),
}  # fmt: skip


@pytest.mark.parametrize("text", KINDS)
def test_kinds_and_destinations(text: str) -> None:
    instr = module_of(text).functions["k"].blocks[0].instrs[0]
    row = isa.opcode(instr)
    assert row is not None
    assert (row.kind, row.dests) == KINDS[text]
    assert isa.kind(instr) == row.kind


@pytest.mark.parametrize(
    "form",
    [
        "wgmma.fence.sync.aligned",
        "tcgen05.wait::ld.sync.aligned",
        "cp.async.bulk.wait_group",
        "vadd.s32",
    ],
)
def test_unknown_instructions_are_named_with_their_line(form: str) -> None:
    operand = "" if form.startswith(("wgmma", "tcgen05")) else " 0"
    with pytest.raises(UnsupportedError, match=form) as caught:
        isa.check_module(module_of(f"{form}{operand};", target="sm_90a"))
    assert caught.value.record.where == "ptx:6"
    with pytest.raises(UnsupportedError):
        isa.kind(Instr("wgmma", ("fence",), (), None, 3))


def test_wrong_number_of_operands() -> None:
    with pytest.raises(CompileError, match=r"add\.s32 has 2 operands; expected 3"):
        isa.check_module(module_of("add.s32 r, r;"))


def test_static_shared_memory_is_bounded() -> None:
    exact = module_of("", shared=".shared .align 4 .b8 s[49152];")
    assert isa.static_shared(exact, "k") == 0  # not named by the entry
    isa.check_module(module_of("mov.u32 r, s;", shared=".shared .align 4 .b8 s[49152];"))
    over = module_of("{ .shared .b8 t[1]; mov.u32 r, s; }", shared=".shared .align 4 .b8 s[49152];")
    assert isa.static_shared(over, "k") > 49152
    with pytest.raises(CompileError, match="too much shared data"):
        isa.check_module(over)


def test_shared_memory_of_called_functions_counts() -> None:
    module = parse_module(
        ".version 9.0\n.target sm_90\n.address_size 64\n.shared .b8 s[100];\n"
        ".func f() { .reg .b32 r; mov.u32 r, s; ret; }\n.entry k() { call f; ret; }"
    )
    assert isa.static_shared(module, "k") == 100


def test_directives_need_targets_too() -> None:
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() .maxclusterrank 4 { ret; }"
    with pytest.raises(CompileError, match=r"\.maxclusterrank needs sm_90"):
        isa.check_module(parse_module(text))


@pytest.mark.parametrize(("target", "parts"), [("sm_90a", (90, "a")), ("sm_120", (120, ""))])
def test_target_names(target: str, parts: tuple[int, str]) -> None:
    assert isa.sm_of(target) == parts
    with pytest.raises(CompileError, match="unknown"):
        isa.sm_of("compute_90")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("@%r1 add.u32 %r2, %r2, 1;", "guard @%r1"),
        ("@%f1 bra DONE;", "guard @%f1"),
        ("ld.global.u32 %r1, %rd1;", "operand 2"),
        ("st.global.u32 %rd1, %r1;", "operand 1"),
        ("atom.global.add.u32 %r1, %rd1, 3;", "operand 2"),
        ("setp.eq.u32 %r1, %r2, 0;", "operand %r1"),
        ("selp.b32 %r1, %r2, %r3, %r3;", "operand %r3"),
        ("bar.red.popc.u32 %r1, 0, !%r2;", "operand %r2"),
        ("vote.sync.ballot.b32 %r1, %r2, -1;", "operand %r2"),
        ("mov.b32 {%r1, %r2, %r3}, %r1;", "the vector"),
        ("mov.s8 {%r1, %r2}, %r1;", "the vector"),
        ("mov.pred %rd1, {%r1, %r2};", "the vector"),
        ("ld.global %r1, [%rd1];", "no type"),
    ],
)
def test_operands_of_the_wrong_kind(line: str, told: str) -> None:
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{ .reg .b32 %r<4>;"
        f" .reg .f32 %f<4>; .reg .b64 %rd<4>; .reg .pred %p<4>;\n{line}\nDONE: ret;\n}}\n"
    )
    with pytest.raises(CompileError, match=re.escape(told)) as caught:
        isa.check_module(parse_module(text))
    assert "ptx:6" in str(caught.value)
