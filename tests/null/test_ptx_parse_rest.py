"""Handwritten PTX: blocks, scopes, declarations, and what is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ge2rt.base.errors import CompileError, Ge2rtError, UnsupportedError
from ge2rt.ptx import cfg, isa, liveness
from ge2rt.ptx.ast import Function, Module, Reg, Symbol, Variable
from ge2rt.ptx.parse import parse_module
from ge2rt.ptx.scan import integer, literal

GOLDEN = Path(__file__).parent.parent / "golden" / "ptx"
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>; .reg .f32 %f<9>;\n"


def module_of(body: str, *, before: str = "", after: str = "") -> Module:
    return parse_module(
        f"{HEADER}{before}\n.entry k(.param .u64 a) {{ {REGISTERS}{body}\n}}{after}"
    )


def function_of(body: str, *, before: str = "") -> Function:
    return module_of(body, before=before).functions["k"]


def shape(function: Function) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    return {b.label: (tuple(i.op for i in b.instrs), b.successors) for b in function.blocks}


def variable_of(text: str) -> Variable:
    return parse_module(HEADER + text).variables[0]


BLOCKS = {
    "straight": ("ret;", {"bb.0": (("ret",), ())}),
    "falls off the end": ("mov.u32 %r1, 0;", {"bb.0": (("mov", "ret"), ())}),
    "empty": ("", {"bb.0": (("ret",), ())}),
    "guarded branch: taken first": (
        "@%p1 bra L; mov.u32 %r1, 0; L: ret;",
        {"bb.0": (("bra",), ("L", "bb.1")), "bb.1": (("mov",), ("L",)), "L": (("ret",), ())},
    ),
    "guarded ret falls through only": (
        "@%p1 ret; exit;", {"bb.0": (("ret",), ("bb.1",)), "bb.1": (("exit",), ())},
    ),
    "guarded trap": (
        "@%p1 trap; ret;", {"bb.0": (("trap",), ("bb.1",)), "bb.1": (("ret",), ())},
    ),
    "trap ends": ("trap; mov.u32 %r1, 0; ret;", {"bb.0": (("trap",), ())}),
    "calls and barriers do not end a block": (
        "bar.sync 0; call f; bar.sync 0; ret;", {"bb.0": (("bar", "call", "bar", "ret"), ())},
    ),
    "unreachable code is dropped": (
        "bra L; M: mov.u32 %r1, 0; bra M; L: ret;",
        {"bb.0": (("bra",), ("L",)), "L": (("ret",), ())},
    ),
    "two labels, one block": (
        "@%p1 bra A; bra B; A: B: ret;",
        {"bb.0": (("bra",), ("A", "bb.1")), "bb.1": (("bra",), ("A",)), "A": (("ret",), ())},
    ),
    "label at the end": (
        "@%p1 bra E; ret; E:",
        {"bb.0": (("bra",), ("E", "bb.1")), "bb.1": (("ret",), ()), "E": (("ret",), ())},
    ),
    "table jump in order": (
        "T: .branchtargets A, B, A; brx.idx %r1, T; A: ret; B: ret;",
        {"bb.0": (("brx",), ("A", "B", "A")), "A": (("ret",), ()), "B": (("ret",), ())},
    ),
    "loop": (
        "L: mov.u32 %r1, 0; @!%p1 bra L; ret;",
        {"L": (("mov", "bra"), ("L", "bb.2")), "bb.2": (("ret",), ())},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str) -> None:
    body, expected = BLOCKS[name]
    assert shape(function_of(body, before=".extern .func f;")) == expected


def test_jump_operands_name_the_block() -> None:
    function = function_of("@%p1 bra B; bra A; A: B: ret;")
    assert function.blocks[0].instrs[-1].operands == (Symbol("A"),)


def test_scopes_rename_registers_variables_and_labels() -> None:
    function = function_of(
        "{ .reg .b32 t; .reg .b64 %rd1; mov.u32 t, 1; @%p1 bra L; L: mov.u32 %r1, t; }\n"
        "{ .reg .b32 t; mov.u32 t, 2; @%p1 bra L; L: { .reg .f32 t; mov.f32 t, 0f00000000; }\n"
        "  mov.u32 %r2, t; .param .b32 x; st.param.b32 [x], t; }\n"
        "{ .param .b64 x; st.param.b64 [x+0], %rd1; { .reg .pred r<3>; setp.eq.u32 r1, %r1, 0; } }"
    )
    moves = [i.operands for b in function.blocks for i in b.instrs if i.op == "mov"]
    assert moves[1][1] == Reg("t")
    assert [m[0] for m in moves] == [Reg("t"), Reg("%r1"), Reg("t.1"), Reg("t.2"), Reg("%r2")]
    assert moves[4][1] == Reg("t.1")
    assert [(v.name, v.nbytes) for v in function.variables] == [("x", 4), ("x.1", 8)]
    assert function.registers["t.2"] == "f32"
    assert function.registers["r1"] == "pred"
    targets = [b.successors[0] for b in function.blocks if b.instrs[-1].op == "bra"]
    assert targets == ["L", "L.1"]


def test_only_used_registers_are_listed() -> None:
    assert function_of("mov.u32 %r3, %r4;").registers == {"%r3": "b32", "%r4": "b32"}


def test_huge_ranges_cost_nothing() -> None:
    assert function_of(".reg .b32 %x<999999999>; mov.u32 %x7, 1;").registers == {"%x7": "b32"}


VARIABLES = {
    ".global .align 8 .u64 p = generic(p)+8;": (8, 8, bytes(8), ((0, "p", 8),)),
    ".visible .global .f32 f = 1.5;": (4, 4, bytes.fromhex("0000c03f"), ()),
    ".global .f32 f = 2;": (4, 4, bytes.fromhex("00000040"), ()),
    ".global .f64 f = 0d3FF0000000000000;": (8, 8, bytes.fromhex("000000000000f03f"), ()),
    ".weak .const .s16 s[3] = {-1, 0x10};": (2, 6, bytes.fromhex("ffff10000000"), ()),
    ".global .u8 m[2][2] = {{1, 2}, {3, 4}};": (1, 4, bytes([1, 2, 3, 4]), ()),
    '.global .b8 s[] = "a\\n";': (1, 2, b"a\n", ()),
    ".global .v4 .f32 q[2];": (16, 32, None, ()),
    ".global .align 4 .b8 z[16];": (4, 16, None, ()),
    ".extern .shared .align 16 .b8 dyn[];": (16, 0, None, ()),
    ".global .attribute(.managed) .align 4 .u32 w;": (4, 4, None, ()),
    ".global .u32 a[2] = {1, 2}, b = 3;": (4, 8, bytes.fromhex("0100000002000000"), ()),
}


@pytest.mark.parametrize("text", VARIABLES)
def test_variables(text: str) -> None:
    v = variable_of(text)
    assert (v.align, v.nbytes, v.init, v.relocations) == VARIABLES[text]
    assert v.line == 4


def test_functions_aliases_and_externs() -> None:
    module = parse_module(
        HEADER + ".func (.reg .b32 %r) f (.reg .b32 %a, .param .align 8 .b8 s[12], .param .u8 c)\n"
        "{ add.s32 %r, %a, 1; ret; }\n"
        ".func (.param .b32 r) g (.param .b32 x);\n.alias g, f;\n"
        ".extern .func (.param .b32 r) malloc (.param .b64 x) .noreturn ;\n"
        ".weak .entry k() .maxntid 128 .reqnctapercluster 2, 1, 1 .explicitcluster { exit; }"
    )
    f = module.functions["f"]
    assert [(p.name, p.offset, p.is_register) for p in f.params] == [
        ("%a", 0, True), ("s", 8, False), ("c", 20, False),
    ]  # fmt: skip
    assert f.returns[0].is_register
    assert module.functions["g"].blocks == f.blocks
    assert module.functions["g"].name == "g"
    assert module.externs == ("malloc",)
    assert module.entries() == ["k"]
    assert module.functions["k"].directives["explicitcluster"] == ()


def test_comments_and_debug_sections_do_not_move_lines() -> None:
    module = module_of(
        '/* two\nlines */ .pragma "nounroll"; // not; this\n.loc 1 7 3\n'
        ".loc 2 9 1, function_name $L__info0, inlined_at 1 6 3\nmov.u32 %r1, 0;",
        before='.file 1 "a//b.cu"\n',
        after='\n.section .debug_str\n{\n$L__info0:\n.b8 1,2,0\n}\n.file 2 "c.h"\n',
    )
    move = module.functions["k"].blocks[0].instrs[0]
    assert (move.line, move.loc) == (11, (1, 6))  # where the call stands
    assert module.files == {1: "a//b.cu", 2: "c.h"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("0x1fU", 31),
        ("0b11", 3),
        ("010", 8),
        ("09", 9),
        ("0xg", None),
        ("", None),
    ],
)
def test_integers(text: str, value: int | None) -> None:
    assert integer(text) == value


def test_floats_keep_their_bits() -> None:
    for text, bits in (("0f7FC00001", 0x7FC00001), ("-0f00000000", 0x80000000)):
        found = literal(text)
        assert found is not None
        assert (found.value, found.kind) == (bits, "f32")


REFUSED = {
    "nonsense": "mov.u32 %r1 ?? 3;",
    "register %r9 is not declared": "mov.u32 %r9, 0;",
    "label 'L'": "bra L;",
    "label L is defined twice": "L: L: ret;",
    "symbol nowhere is not declared": "mov.u64 %rd1, nowhere;",
    "cannot read the operand ''": "add.u32 %r1, , 3;",
    "cannot read the address '[]'": "ld.u32 %r1, [];",
    "cannot read the statement '@%p1;": "@%p1; mov.u32 %r1, 0;",
    "no .branchtargets T": "brx.idx %r1, T;",
    "the text ends inside a function": "{ ret;",
    "comment is not closed": "/* ret;",
    "t is declared twice": ".reg .b32 t; .reg .b32 t;",
    "is not a predicate register": "@a ret;",
    "cannot read the call": "call (x;",
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals_name_line_and_text(message: str) -> None:
    body = "\n" + REFUSED[message]
    with pytest.raises(CompileError) as caught:
        function_of(body)
    if message != "nonsense":
        assert message in str(caught.value)
    assert caught.value.record.where.startswith("ptx:")


def test_the_line_of_an_error() -> None:
    with pytest.raises(CompileError, match="ptx:8:"):
        function_of("mov.u32 %r1, 0;\n\nmov.u32 %r77, 0;")


def test_unknown_instructions_with_strange_operands_are_named() -> None:
    with pytest.raises(UnsupportedError, match=r"ptx:6.*cp\.async\.bulk\.tensor\.1d") as caught:
        function_of("cp.async.bulk.tensor.1d.shared::cluster.global [%r1], [%rd1, {%r2}], [%r3];")
    assert "not supported" in str(caught.value)


def attempt(text: str) -> bool:
    """Parse and analyse; False for an error of the library that names a line."""
    try:
        module = parse_module(text)
        isa.check_module(module)
        for function in module.functions.values():
            graph = cfg.graph_of(function)
            assert graph.idom.keys() <= graph.ipdom.keys()
            assert len(graph.loops) <= len(function.blocks)
            liveness.liveness(function.blocks)
    except Ge2rtError as error:
        if error.record.where.startswith("ptx:"):
            return False
        raise
    return True


PIECES = (
    "{", "}", ";", ":", ",", "[", "]", "(", ")", "@", "%", '"', "/*", "//", "0x", "\n", "é", "\0",
    "<99999999>", "= {", "_", "!", "|", "-", "+", ".loc", ".reg .b32 t;", "²", ".b8",
)  # fmt: skip


@pytest.mark.parametrize("name", ["calls.cuda12.ptx", "half.cuda13.ptx"])
def test_damaged_text_never_breaks_the_parser(name: str) -> None:
    text = (GOLDEN / name).read_text()
    assert attempt(text)
    chance = random.Random(7)
    refused = 0
    for round_ in range(150):
        at = chance.randrange(len(text))
        length = chance.choice((1, 1, 3, 40))
        damaged = (
            text[:at],
            text[:at] + text[at + length :],
            text[:at] + chance.choice(PIECES) + text[at:],
            text[:at] + chr(chance.randrange(256)) + text[at + 1 :],
        )[round_ % 4]
        refused += not attempt(damaged)
    assert refused > 60
