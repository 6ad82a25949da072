"""What NVRTC 12.9 and 13 emit becomes the right records."""

from __future__ import annotations

from pathlib import Path

import pytest

from ge2rt.ptx import cfg, isa, liveness
from ge2rt.ptx.ast import Address, Guard, Imm, Instr, Module, Param, Reg, Special, Symbol, Vector
from ge2rt.ptx.parse import clear, parse_module

GOLDEN = Path(__file__).parent.parent / "golden" / "ptx"
SAMPLES = sorted(GOLDEN.glob("*.ptx"))


def sample(name: str) -> Module:
    return parse_module((GOLDEN / name).read_text())


def instrs(module: Module, function: str) -> list[Instr]:
    return [i for block in module.functions[function].blocks for i in block.instrs]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples_are_consistent(path: Path) -> None:
    module = parse_module(path.read_text())
    isa.check_module(module)
    assert len(module.entries()) == 1
    for function in module.functions.values():
        labels = [block.label for block in function.blocks]
        assert len(set(labels)) == len(labels)
        graph = cfg.graph_of(function)
        assert set(graph.reverse_post_order) == set(labels)
        for block in function.blocks:
            assert block.instrs
            assert set(block.successors) <= set(labels)
            for instr in block.instrs[:-1]:
                assert instr.op not in ("bra", "brx", "ret", "exit", "trap")
            for instr in block.instrs:
                assert set(liveness.defs(instr)) | set(liveness.uses(instr)) <= set(
                    function.registers
                )
        live = liveness.liveness(function.blocks)
        assert live.live_in[labels[0]] == frozenset()  # nothing is read before it is written


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_no_instruction_is_lost(path: Path) -> None:
    text = path.read_text()
    module = parse_module(text)
    for op in ("fma", "shfl", "atom", "setp", "call", "st", "printf"):
        written = sum(
            line.strip().lstrip("{").startswith((f"{op}.", f"{op} ")) for line in text.splitlines()
        )
        asm = text.count("setp.ne.u32 p,") if op == "setp" else 0
        found = [i for name in module.functions for i in instrs(module, name) if i.op == op]
        assert len(found) == written + asm, op


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_lines_point_into_the_text(path: Path) -> None:
    lines = path.read_text().splitlines()
    module = parse_module(path.read_text())
    for name, function in module.functions.items():
        assert name in lines[function.line - 1]
        for instr in instrs(module, name):
            if instr.op != "ret":
                assert instr.form in lines[instr.line - 1]


@pytest.mark.parametrize("cuda", ["cuda12", "cuda13"])
def test_parameters_are_packed_like_cuda(cuda: str) -> None:
    module = sample(f"calls.{cuda}.ptx")
    entry = module.functions["calls"]
    assert [(p.align, p.nbytes, p.offset) for p in entry.params] == [
        (1, 1, 0), (1, 1, 1), (2, 2, 2), (8, 8, 8), (8, 32, 16), (8, 8, 48), (8, 8, 56),
    ]  # fmt: skip
    assert entry.param_bytes == 64
    assert entry.is_entry
    assert entry.directives == {"maxntid": (256, 1, 1), "minnctapersm": (2,)}


@pytest.mark.parametrize("cuda", ["cuda12", "cuda13"])
def test_module_variables(cuda: str) -> None:
    module = sample(f"calls.{cuda}.ptx")
    variables = {v.name: v for v in module.variables}
    assert variables["counter"].init == (7).to_bytes(4, "little")
    assert variables["table"].init == bytes.fromhex("0000803f 000020c0 7684df50 00000000")
    assert variables["names"].relocations == ((0, "$str", 0), (8, "$str$1", 0))
    assert variables["inside"].relocations == ((0, "table", 8),)
    assert [name for _, name, _ in variables["steps"].relocations] == ["_Z2upi", "_Z4downi"]
    assert variables["$str"].init == b"hello\0"
    assert variables["weights"].space == "const"
    dynamic = variables["dynamic"]
    assert (dynamic.space, dynamic.extern, dynamic.nbytes) == ("shared", True, 0)
    assert dynamic.align >= 8
    assert module.externs == ("vprintf",)


def test_header_and_files() -> None:
    module = sample("calls.cuda12.ptx")
    assert (module.version, module.target, module.address_size) == ((8, 8), "sm_75", 64)
    assert module.files == {1: "calls.cu"}
    assert sample("half.cuda13.ptx").target == "sm_100"
    located = [i for i in instrs(module, "_Z2upi") if i.op == "mad"]
    assert located[0].loc == (1, 10)
    assert instrs(sample("calls.cuda13.ptx"), "calls")[0].loc is None


@pytest.mark.parametrize("cuda", ["cuda12", "cuda13"])
def test_calls(cuda: str) -> None:
    module = sample(f"calls.{cuda}.ptx")
    calls = [i for i in instrs(module, "calls") if i.op == "call"]
    indirect = [i for i in calls if isinstance(i.operands[1], Reg)]
    assert len(indirect) == 1
    returns, _, arguments, prototype = indirect[0].operands
    assert isinstance(returns, Vector)
    assert isinstance(arguments, Vector)
    assert prototype == Symbol("prototype_0")
    declared = {v.name: v for v in module.functions["calls"].variables if v.space == "param"}
    used: set[str] = set()
    for call in calls:
        for part in (call.operands[0], call.operands[2]):
            assert isinstance(part, Vector)
            for item in part.items:
                assert isinstance(item, Symbol)
                assert item.name in declared
                assert item.name not in used  # every call has its own
                used.add(item.name)
    printf = next(i for i in calls if i.operands[1] == Symbol("vprintf"))
    assert len(printf.operands) == 3


@pytest.mark.parametrize("cuda", ["cuda12", "cuda13"])
def test_scopes_of_inline_asm_are_renamed_apart(cuda: str) -> None:
    function = sample(f"calls.{cuda}.ptx").functions["calls"]
    assert {"t", "t.1", "p"} <= set(function.registers)
    assert function.registers["p"] == "pred"
    block = next(b for b in function.blocks if "DONE" in b.successors)
    last = block.instrs[-1]
    assert (last.op, last.guard, last.operands) == ("bra", Guard(Reg("p")), (Symbol("DONE"),))
    assert block.successors[0] == "DONE"


def test_half_scopes() -> None:
    found = instrs(sample("half.cuda12.ptx"), "half_math")
    fma = next(i for i in found if i.form == "fma.rn.f16x2")
    assert fma.types == ("f16x2",)
    assert all(isinstance(operand, Reg) for operand in fma.operands)
    shuffle = next(i for i in found if i.op == "shfl")
    assert len(shuffle.operands) == 5


def test_a_struct_parameter_is_bytes() -> None:
    given = sample("calls.cuda12.ptx").functions["calls"].params[4]
    assert given == Param("calls_param_4", "b8", 8, 32, 16)


def test_every_kind_of_operand() -> None:
    module = parse_module(
        ".version 8.0\n.target sm_80, debug\n.address_size 64\n"
        ".global .u32 g[4];\n"
        ".entry k() { .reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .pred %p<3>; .reg .f64 %fd<2>;\n"
        " mov.u32 %r0, %tid.x; ld.global.u32 %r1, [g+4]; ld.global.u32 %r1, [%rd1 + -8];\n"
        " ld.global.v4.u32 {%r0, _, %r2, %r3}, [%rd1]; mov.u32 %r1, %laneid;\n"
        " setp.eq.and.s32 %p1|%p2, %r0, -0x10, !%p0; mov.u32 %r1, WARP_SZ;\n"
        " mov.u32 %r1, 0xFFU; mov.u32 %r1, 017; mov.u32 %r1, 0b101; mov.f64 %fd1, -1.5;\n"
        " mov.f32 %r1, 1.5; mov.f32 %r1, 0F3fc00000; mov.u64 %rd0, g+8; ld.u32 %r1, [4096];\n"
        " atom.global.add.u32 _, [%rd1], 1; @!%p1 ret; }"
    )
    got = [i.operands for i in instrs(module, "k")]
    assert got[0] == (Reg("%r0"), Special("tid", "x"))
    assert got[1][1] == Address(Symbol("g"), 4)
    assert got[2][1] == Address(Reg("%rd1"), -8)
    assert got[3][0] == Vector((Reg("%r0"), None, Reg("%r2"), Reg("%r3")))
    assert got[4][1] == Special("laneid")
    assert repr(got[5]) == (
        "(Pair(first=Reg(name='%p1'), second=Reg(name='%p2')), Reg(name='%r0'), "
        "Imm(value=-16, kind='int'), Not(operand=Reg(name='%p0')))"
    )
    assert [g[1] for g in got[6:10]] == [Imm(32), Imm(255), Imm(15), Imm(5)]
    assert got[10][1] == Imm(0xBFF8000000000000, "f64")
    assert got[11][1] == got[12][1] == Imm(0x3FC00000, "f32")
    assert got[13][1] == Symbol("g", 8)
    assert got[14][1] == Address(None, 4096)
    assert got[15][0] == Vector((None,))
    assert instrs(module, "k")[16].guard == Guard(Reg("%p1"), True)


def test_clear_keeps_results() -> None:
    text = (GOLDEN / "half.cuda12.ptx").read_text()
    before = parse_module(text)
    clear()
    assert parse_module(text) == before
