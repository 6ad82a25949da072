"""Forms whose value is no function of operands alone, against what the PTX manual says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cpu.form_kernels import form_of, fragment, operands, registers
from cpu.form_lists import EXAMPLES, stated
from cpu.form_run import Batch, Way
from cpu.native_run import load, run

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.native import ABORT_TRAP

WIDTHS = pytest.mark.parametrize("lanes", [32, 16, 8, 1])
_DECLARED = """.reg .pred %p<9>; .reg .b16 %rs<20>; .reg .b32 %r<90>; .reg .b64 %rd<60>;
.reg .f32 %f<90>; .reg .f64 %fd<60>; .reg .b128 %rq<9>; .reg .b32 t; .reg .b64 at, a0, a1, a2;"""


def forms(test: str) -> list[str]:
    """The harvested forms that a test here stands for."""
    return [e for e in EXAMPLES if test in stated(e)]


def one(test: str, start: str) -> str:
    """The only harvested form of a test that begins like this."""
    (found,) = (e for e in forms(test) if e.startswith(start))
    return found


def kernel(body: Sequence[str], outside: str = "", inside: str = "") -> str:
    """Pointers a0 to a2; ``t`` is the thread's number in its block, in a word's place ``at``."""
    return "\n".join([
        f".version 8.7\n.target sm_90\n.address_size 64\n{outside}",
        ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{", _DECLARED, inside,
        "ld.param.u64 a0, [p0]; ld.param.u64 a1, [p1]; ld.param.u64 a2, [p2];",
        "mov.u32 t, %tid.x; mul.wide.u32 at, t, 4;", *body, "ret;\n}",
    ])  # fmt: skip


def launched(text: str, block: int, arrays: Sequence[Any], lanes: int = 32, **more: Any) -> None:
    given = [*arrays, None, None, None][:3]
    assert run(text, "k", (1,), (block,), given, lanes, **more) == 0


# -- special registers ---------------------------------------------------------------------------

BLOCK, GRID, DYNAMIC = (5, 3, 4), (2, 3, 2), 48
Expected = Callable[[np.ndarray, np.ndarray], Any]  # of the thread's number and the block's


def _axis(which: int, size: Sequence[int], axis: str) -> Expected:
    k = "xyz".index(axis)
    step = int(np.prod(size[:k]))
    return lambda t, b: (t, b)[which] // step % size[k]


def _lanes(text: str) -> Expected:
    masks = {"eq": lambda x: 1 << x, "lt": lambda x: (1 << x) - 1, "le": lambda x: (2 << x) - 1,
             "gt": lambda x: 2**32 - (2 << x), "ge": lambda x: 2**32 - (1 << x)}  # fmt: skip
    return lambda t, b: masks[text](t % 32)


AXES = {
    **{f"tid.{a}": _axis(0, BLOCK, a) for a in "xyz"},
    **{f"{name}.{a}": _axis(1, GRID, a) for a in "xyz" for name in ("ctaid", "clusterid")},
}
VALUES: dict[str, Expected] = {
    **AXES,
    **{f"n{name}": (lambda t, b, n=name: (BLOCK if n[0] == "t" else GRID)["xyz".index(n[-1])])
       for name in AXES},
    **{f"cluster_ctaid.{a}": lambda t, b: 0 for a in "xyz"},
    **{f"cluster_nctaid.{a}": lambda t, b: 1 for a in "xyz"},
    **{f"lanemask_{m}": _lanes(m) for m in ("eq", "lt", "le", "gt", "ge")},
    "cluster_ctarank": lambda t, b: 0, "cluster_nctarank": lambda t, b: 1,
    "is_explicit_cluster": lambda t, b: 0, "laneid": lambda t, b: t % 32,
    "warpid": lambda t, b: t // 32, "nwarpid": lambda t, b: 2, "smid": lambda t, b: 0,
    "nsmid": lambda t, b: 1, "gridid": lambda t, b: 0,
    "dynamic_smem_size": lambda t, b: DYNAMIC, "total_smem_size": lambda t, b: 128 + DYNAMIC,
}  # fmt: skip
RISING = ("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi",
          "pm0", "pm1", "pm2", "pm3")  # fmt: skip


def _read(example: str, lanes: int) -> np.ndarray:
    """Two readings by each thread of each block."""
    register = registers(example)[0]
    get = {"%p": "selp.u64 %rd50, 1, 0, %p1;", "%rd": f"mov.u64 %rd50, {register};"}.get(
        register.rstrip("0123456789"), f"cvt.u64.u32 %rd50, {register};")  # fmt: skip
    body = [
        "mov.u32 %r50, %tid.y; mov.u32 %r51, %tid.z; mad.lo.u32 %r51, %r51, 3, %r50;",
        "mad.lo.u32 t, %r51, 5, t; mov.u32 %r52, %ctaid.x; mov.u32 %r53, %ctaid.y;",
        "mov.u32 %r54, %ctaid.z; mad.lo.u32 %r54, %r54, 3, %r53; mad.lo.u32 %r54, %r54, 2, %r52;",
        "mad.lo.u32 t, %r54, 60, t; mul.wide.u32 at, t, 16; add.u64 a0, a0, at;",
        example, get, "st.global.u64 [a0], %rd50;", example, get, "st.global.u64 [a0+8], %rd50;",
    ]  # fmt: skip
    out = np.zeros((12, 60, 2), np.uint64)
    text = kernel(body, inside=".shared .align 8 .b8 tile[128];")
    assert run(text, "k", GRID, BLOCK, [out, None, None], lanes, dynamic=DYNAMIC) == 0
    return out


@pytest.mark.parametrize("example", forms("test_special_registers"))
def test_special_registers(example: str, full: bool) -> None:
    """At each width; without ``--full`` at one of them."""
    number = forms("test_special_registers").index(example)
    for lanes in (32, 16, 8, 1) if full else ((32, 16, 8, 1)[number % 4],):
        _check_register(example, lanes)


def _check_register(example: str, lanes: int) -> None:
    name = operands(example)[1].lstrip("%")
    out = _read(example, lanes)
    if name in RISING:  # a thread sees time pass, or stand
        bits = np.uint64(64 if registers(example)[0].startswith("%rd") else 32)
        passed = (out[:, :, 1] - out[:, :, 0]) << (np.uint64(64) - bits)
        assert (passed.astype(np.int64) >= 0).all()
        return
    block, thread = np.meshgrid(np.arange(12), np.arange(60), indexing="ij")
    want = np.broadcast_to(VALUES[name](thread, block), (12, 60)).astype(np.uint64)
    np.testing.assert_array_equal(out, np.stack([want, want], axis=2))


def test_halves_of_the_clocks_fit_together() -> None:
    body = ["mov.u64 %rd1, %globaltimer; mov.u32 %r1, %globaltimer_hi;",
            "mov.u32 %r2, %globaltimer_lo; mov.u64 %rd2, %globaltimer; mov.b64 %rd3, {%r2, %r1};",
            "st.global.u64 [a0], %rd1; st.global.u64 [a0+8], %rd3; st.global.u64 [a0+16], %rd2;",
            ]  # fmt: skip
    out = np.zeros(3, np.uint64)
    launched(kernel(body), 1, [out])
    assert out[0] > 0
    assert (np.diff(out.astype(np.int64)) >= 0).all()


# -- addresses -----------------------------------------------------------------------------------

SPACES = ("global", "shared", "local", "const", "param")


def _variable(space: str) -> tuple[str, str]:
    """A variable of 64 bytes, declared outside or inside of a kernel, and its setting to 77."""
    values = " = {77, 5, 6, 7}" if space in ("global", "const") else ""
    declared = f".{space} .align 16 .b32 variable[4]{values};"
    return ("", declared) if space in ("shared", "local") else (declared, "")


def _in_space(space: str, body: Sequence[str]) -> np.ndarray:
    outside, inside = _variable(space) if space != "param" else ("", "")
    setting = [f"mov.u32 %r9, 77; st.{space}.u32 [variable], %r9;"] if inside else []
    text = kernel([*setting, *body, "st.global.u32 [a0], %r8;"], outside, inside)
    if space == "param":
        text = text.replace("variable", "p2")
    out = np.zeros(1, np.uint32)
    assert run(text, "k", (1,), (1,), [out, None, np.uint64(77)]) == 0
    return out


@pytest.mark.parametrize("space", SPACES)
def test_addresses(space: str) -> None:
    """To a generic address and back: both read the same word."""
    to, back = (one("test_addresses", f"cvta.{p}{space}.") for p in ("", "to."))
    body = [
        "mov.u64 %rd2, variable;",
        to,
        "ld.u32 %r1, [%rd1];",
        "mov.u64 %rd2, %rd1;",
        back,
        f"ld.{space}.u32 %r2, [%rd1];",
        "xor.b32 %r8, %r1, %r2;",
        "add.u32 %r8, %r8, %r1;",
    ]
    assert _in_space(space, body).tolist() == [77]


@pytest.mark.parametrize("space", ["global", "shared", "local", "const"])
def test_the_space_of_an_address(space: str) -> None:
    """``isspacep`` of a generic address is true for its own space alone."""
    to = one("test_addresses", f"cvta.{space}.")
    for other in SPACES[:-1]:
        asked = one("test_the_space_of_an_address", f"isspacep.{other}")
        body = [
            "mov.u64 %rd2, variable;",
            to,
            "mov.u64 %rd2, %rd1;",
            asked,
            "selp.u32 %r8, 1, 0, %p1;",
        ]
        assert _in_space(space, body).tolist() == [int(other == space)], other


@WIDTHS
def test_addresses_of_shared_memory(lanes: int) -> None:
    """As 32 and 64 bits; ``mapa`` of the only block of a cluster is the same place, of rank 0."""
    test = "test_addresses_of_shared_memory"
    small, large = (one(test, f"mov.u{b} %r{d}1, variable") for b, d in ((32, ""), (64, "d")))
    body = [
        small, "add.u32 %r20, %r1, 0;", large, "add.u64 %rd20, %rd1, at;",
        "st.shared.u32 [%rd20], t;", "bar.sync 0;",
        "xor.b32 %r21, t, 31; shl.b32 %r21, %r21, 2; add.u32 %r2, %r20, %r21; mov.u32 %r3, 0;",
        one(test, "mapa.shared::cluster"), "ld.shared::cluster.u32 %r30, [%r1];",
        "cvta.shared.u64 %rd2, %rd20;", one(test, "mapa.u64"), "ld.u32 %r31, [%rd1];",
        "mov.u64 %rd2, %rd1;", one(test, "getctarank"), "add.u64 a0, a0, at;",
        "mad.lo.u32 %r30, %r30, 100, %r31; mad.lo.u32 %r30, %r1, 10000, %r30;",
        "st.global.u32 [a0], %r30;",
    ]  # fmt: skip
    out = np.zeros(96, np.uint32)
    launched(kernel(body, inside=".shared .align 16 .b8 variable[384];"), 96, [out], lanes)
    t = np.arange(96)
    np.testing.assert_array_equal(out, (t ^ 31) * 100 + t)


# -- 128 bits ------------------------------------------------------------------------------------


@WIDTHS
@pytest.mark.parametrize("example", [e for e in forms("test_words_of_128_bits")
                                     if e.startswith("atom")])  # fmt: skip
def test_words_of_128_bits(example: str, lanes: int) -> None:
    """Each thread's own cell; every other comparison finds what is there."""
    join, part = (one("test_words_of_128_bits", f"mov.b128 {s}") for s in ("%rq", "{"))
    swaps = "cas" in example
    new = operands(example)[-1]
    body = [
        "mul.wide.u32 at, t, 16; add.u64 a0, a0, at; add.u64 a1, a1, at; add.u64 a2, a2, at;",
        "ld.global.v2.u64 {%rd2, %rd3}, [a1];", join, "mov.b128 %rq8, %rq1;",
        "ld.global.v2.u64 {%rd2, %rd3}, [a2];", join,
        *(["mov.b128 %rq3, %rq8;", f"mov.b128 {new}, %rq1;"] if swaps else
          [f"mov.b128 {new}, %rq1;"]),
        "mov.u64 %rd2, a0;", example, "mov.b128 %rq3, %rq1;", part,
        "st.global.v2.u64 [a1], {%rd1, %rd2};",
    ]  # fmt: skip
    chance = np.random.default_rng(5)
    cells, new_words = (chance.integers(0, 2**63, (64, 2)).astype(np.uint64) for _ in range(2))
    compared = np.where(np.arange(64)[:, None] % 2 == 0, cells, cells ^ np.uint64(1 << 40))
    compared[1::4, 1] = cells[1::4, 1]  # only one half differs
    raw = [_aligned16(v) for v in (cells, compared, new_words)]
    launched(kernel(body), 64, raw, lanes)
    hit = (compared == cells).all(axis=1) | (not swaps)
    np.testing.assert_array_equal(raw[0], np.where(hit[:, None], new_words, cells))
    np.testing.assert_array_equal(raw[1], cells)


def _aligned16(values: np.ndarray) -> np.ndarray:
    raw = np.zeros(values.nbytes + 16, np.uint8)
    start = -raw.ctypes.data % 16
    out = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    out[...] = values
    return out


@pytest.mark.parametrize("kind", ["f16", "f16x2", "bf16", "bf16x2"])
def test_atomic_sums_of_halves_keep_subnormals(kind: str) -> None:
    """``.noftz``: 129/128 of the smallest normal number less that number."""
    example = next(e for e in EXAMPLES if e.startswith(f"atom.add.noftz.{kind} "))
    old, new = registers(operands(example)[0])[0], operands(example)[2]
    bits = 32 if "x2" in kind else 16
    least = 0x80 if kind[0] == "b" else 0x400
    minus = (least | 0x8000) * (0x10001 if bits == 32 else 1)
    body = [f"mov.u64 %rd2, a0; mov.b{bits} {new}, {minus};", example,
            f"st.global.b{bits} [a1], {old};"]  # fmt: skip
    cell, before = np.array([least + 1] * 2, np.uint16), np.zeros(2, np.uint16)
    launched(kernel(body), 1, [cell, before])
    assert cell.tolist() == ([1, 1] if bits == 32 else [1, least + 1])
    assert before.tolist() == [least + 1, least + 1 if bits == 32 else 0]


# -- matrices ------------------------------------------------------------------------------------

_NUMPY: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "s8": np.int8,
                          "u8": np.uint8, "tf32": np.float32, "f64": np.float64,
                          "f32": np.float32, "s32": np.int32}  # fmt: skip
PRODUCTS = [e for e in forms("test_wmma") if e.startswith("wmma.mma")]


def _renamed(example: str, names: dict[int, str], other: dict[int, str]) -> str:
    """The form with operand lists of its lengths: names of place k are ``names[k]`` 0, 1, ..."""
    parts = []
    for place, text in enumerate(operands(example)):
        count = len(registers(text))
        listed = ", ".join(f"{names.get(place)}{k}" for k in range(count))
        parts.append(other.get(place) or f"{{{listed}}}")
    return f"{form_of(example)} {', '.join(parts)};"


def _parts_of(product: str) -> dict[str, str]:
    """The loads and the store that fit a product."""
    mods = form_of(product).split(".")
    left, right, shape = mods[4:7]
    types = [m for m in mods[7:] if m in _NUMPY]
    total, inner = types[0], types[1] if len(types) == 4 else "f16"
    found = {}
    for role, layout, kind in (("load.a", left, inner), ("load.b", right, inner),
                               ("load.c", left, total), ("store.d", left, total)):  # fmt: skip
        pattern = rf"wmma\.{role}\.sync\.aligned\.{layout}\.{shape}(\.global)?\.{kind} .*"
        (found[role],) = (e for e in forms("test_wmma") if re.fullmatch(pattern, e))
    return found


@pytest.mark.parametrize("product", PRODUCTS, ids=form_of)
def test_wmma(product: str) -> None:
    """The product of two matrices in memory plus a third, exact for small whole numbers."""
    parts = _parts_of(product)
    m, n, k = map(int, re.findall(r"\d+", next(p for p in product.split(".") if "n" in p[1:4]
                                               and p[0] == "m" and p[1].isdigit())))  # fmt: skip
    shapes = {"load.a": (m, k), "load.b": (k, n), "load.c": (m, n), "store.d": (m, n)}
    chance = np.random.default_rng(6)
    kinds = {role: _NUMPY[form_of(e).split(".")[-1]] for role, e in parts.items()}
    low = 0 if kinds["load.a"] == np.uint8 else -5
    values = {r: chance.integers(low if r != "load.c" else -9, 9, s) for r, s in shapes.items()}
    by_row = {r: ".row." in e for r, e in parts.items()}
    stride = {r: shapes[r][1] if by_row[r] else shapes[r][0] for r in shapes}
    memory = {r: np.ascontiguousarray(v if by_row[r] else v.T).astype(kinds[r])
              for r, v in values.items()}  # fmt: skip
    memory["store.d"][...] = 0
    body, text_of = [f"mov.u32 %r8{j}, {stride[r]};" for j, r in enumerate(shapes)], {}
    body.append("ld.global.u64 %rd1, [a0]; ld.global.u64 %rd2, [a0+8]; ld.global.u64 %rd3, [a0+16];"
                "ld.global.u64 %rd4, [a0+24];")  # fmt: skip
    for j, (role, example) in enumerate(parts.items()):
        register = next(r for r in registers(example) if not r.startswith("%rd")) \
            if "f64" not in example else "%fd"  # fmt: skip
        kind = register.rstrip("0123456789")
        at = 1 if role == "store.d" else 0
        text_of[role] = f"{kind}{'1234'[j] if role != 'store.d' else '3'}"
        body.append(_renamed(example, {at: text_of[role]}, {1 - at: f"[%rd{j + 1}]", 2: f"%r8{j}"}))
    names = dict(enumerate((text_of["load.c"], text_of["load.a"], text_of["load.b"],
                            text_of["load.c"])))  # fmt: skip
    body.insert(-1, _renamed(product, names, {}))
    table = np.array([v.ctypes.data for v in memory.values()], np.uint64)
    launched(kernel(body), 32, [table])
    want = values["load.a"] @ values["load.b"] + values["load.c"]
    got = memory["store.d"].astype(np.float64)
    np.testing.assert_array_equal(got if by_row["store.d"] else got.T, want)


def test_every_form_of_wmma_takes_part() -> None:
    used = {e for product in PRODUCTS for e in (product, *_parts_of(product).values())}
    assert used == set(forms("test_wmma"))


@pytest.mark.parametrize("example", forms("test_ldmatrix"), ids=form_of)
def test_ldmatrix(example: str) -> None:
    """Row ``lane / 4``, columns ``2 (lane % 4)`` and one more of each matrix; or transposed."""
    count = len(registers(operands(example)[0]))
    address = registers(operands(example)[1])[0]
    names = registers(operands(example)[0])
    body = ["mov.u32 %r80, tile; mul.lo.u32 %r81, t, 16; add.u32 %r80, %r80, %r81;",
            "mul.wide.u32 at, t, 16; add.u64 a0, a0, at;",
            "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [a0];",
            "st.shared.v4.b32 [%r80], {%r1, %r2, %r3, %r4}; bar.warp.sync -1;",
            f"mov.u32 {address}, %r80;", example, "add.u64 a1, a1, at;",
            *(f"st.global.u32 [a1+{4 * k}], {name};" for k, name in enumerate(names))]  # fmt: skip
    rows = np.arange(256, dtype=np.uint16).reshape(4, 8, 8) * 7 + 3
    out = np.zeros((32, 8), np.uint16)
    launched(kernel(body, inside=".shared .align 16 .b8 tile[512];"), 32, [rows, out])
    tiles = rows.transpose(0, 2, 1) if ".trans" in example else rows
    for k in range(count):
        np.testing.assert_array_equal(out[:, 2 * k : 2 * k + 2], tiles[k].reshape(32, 2))


# -- barriers, fences, copies --------------------------------------------------------------------


def _steps(lines: Sequence[str]) -> list[int]:
    """Runs one thread over a barrier at %r1 = %r2; each ``?`` notes the predicate %p1."""
    body, noted = ["mov.u32 %r40, bar; mov.u32 %r1, %r40; mov.u32 %r2, %r40;"], 0
    for line in lines:
        if line == "?":
            body.append(f"selp.u32 %r50, 1, 0, %p1; st.global.u32 [a0+{4 * noted}], %r50;")
            noted += 1
        else:
            body.append(line)
    out = np.full(noted, 9, np.uint32)
    launched(kernel(body, inside=".shared .align 8 .b64 bar;"), 1, [out])
    return out.tolist()


_M = {form_of(e): e for e in forms("test_mbarrier")}
_COUNT = "mov.u32 %r2, 3;", _M["mbarrier.init.shared.b64"], "mov.u32 %r2, %r40;"
_ARRIVE = _M["mbarrier.arrive.shared.b64"]
_TWICE = "mov.u32 %r3, 2;", _M["mbarrier.arrive.shared::cta.b64"]
_DROP = _M["mbarrier.arrive_drop.shared.b64"]


@pytest.mark.parametrize("wait", [f for f in _M if "wait" in f])
def test_mbarrier(wait: str) -> None:
    """A phase of three arrivals ends with the third; a dropped one is not expected again."""
    parity = "parity" in wait
    keep = () if parity else ("mov.u64 %rd3, %rd1;",)

    def asked(phase: int) -> tuple[str, ...]:
        return (f"mov.u32 %r3, {phase & 1};" if parity else "", _M[wait], "?")

    first = (*_COUNT, _ARRIVE, *keep, *asked(0), *_TWICE, *asked(0))
    second = (_ARRIVE, *keep, *asked(1), _DROP, *asked(1), _ARRIVE, *asked(1))
    third = (_ARRIVE, *keep, *asked(2), _ARRIVE, *asked(2))
    end = ("mov.u32 %r1, %r40;", _M["mbarrier.inval.shared.b64"], *_COUNT[:2], *_COUNT[2:],
           _ARRIVE, *keep, *asked(0))  # fmt: skip
    assert _steps([*first, *second, *third, *end]) == [0, 1, 0, 0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    "lanes",
    [
        32,
        16,
        pytest.param(1),
    ],
)
def test_mbarrier_waits_for_copies(lanes: int) -> None:
    """``cp.async.mbarrier.arrive`` leaves the count as it is and arrives after the copies."""
    arrive = _M["cp.async.mbarrier.arrive.shared.b64"]
    body = [
        "mov.u32 %r40, bar; mov.u32 %r1, %r40; mov.u32 %r2, 32; setp.eq.u32 %p2, t, 0;",
        f"@%p2 {_M['mbarrier.init.shared.b64']}", "bar.sync 0; mov.u32 %r2, %r40;",
        "mov.u32 %r41, tile; shl.b32 %r42, t, 2; add.u32 %r41, %r41, %r42; add.u64 a0, a0, at;",
        "cp.async.ca.shared.global [%r41], [a0], 4;", arrive, _ARRIVE, "mov.u64 %rd3, %rd1;",
        f"L: {_M['mbarrier.test_wait.shared.b64']}", "@!%p1 bra L;",
        "xor.b32 %r42, %r42, 124; mov.u32 %r41, tile; add.u32 %r41, %r41, %r42;",
        "ld.shared.u32 %r43, [%r41]; add.u64 a1, a1, at; st.global.u32 [a1], %r43;",
    ]  # fmt: skip
    source, out = np.arange(32, dtype=np.uint32) * 3 + 1, np.zeros(32, np.uint32)
    text = kernel(body, inside=".shared .align 8 .b64 bar; .shared .align 16 .b8 tile[128];")
    launched(text, 32, [source, out], lanes)
    np.testing.assert_array_equal(out, source[::-1])


COPIES = [e for e in forms("test_asynchronous_copies") if "_group" not in e]


@WIDTHS
@pytest.mark.parametrize("example", COPIES)
def test_asynchronous_copies(example: str, lanes: int) -> None:
    """As many bytes as the last operand says, the rest of them zero."""
    to, origin, size, last = (registers(o)[0] if "%" in o else o for o in operands(example))
    commit, wait = (one("test_asynchronous_copies", f"cp.async.{w}_group") for w in
                    ("commit", "wait"))  # fmt: skip
    wide = to.startswith("%rd")
    body = [
        "mov.u64 %rd20, tile; mul.wide.u32 at, t, 16; add.u64 %rd20, %rd20, at;",
        "add.u64 a0, a0, at; add.u64 a1, a1, at; cvt.u32.u64 %r20, %rd20;",
        *(f"st.shared.u32 [%r20+{k}], -1;" for k in range(0, 16, 4)),
        f"mov.u64 {to}, %rd20;" if wide else f"mov.u32 {to}, %r20;", f"mov.u64 {origin}, a0;",
        f"rem.u32 {last}, t, {int(size) + 1};" if last.startswith("%") else "", example, commit,
        wait, "ld.shared.v4.b32 {%r30, %r31, %r32, %r33}, [%r20];",
        "st.global.v4.b32 [a1], {%r30, %r31, %r32, %r33};",
    ]  # fmt: skip
    source = np.random.default_rng(8).integers(1, 250, (64, 16)).astype(np.uint8)
    out = np.zeros((64, 16), np.uint8)
    raw = [_aligned16(source), _aligned16(out)]
    launched(kernel(body, inside=".shared .align 16 .b8 tile[1024];"), 64, raw, lanes)
    copied = np.arange(64) % (int(size) + 1) if last.startswith("%") else np.full(64, int(last))
    want = np.where(np.arange(16) < copied[:, None], source, 0)
    want[:, int(size) :] = 255
    np.testing.assert_array_equal(raw[1], want)


ORDERS = forms("test_orders")


@WIDTHS
@pytest.mark.parametrize("example", [e for e in ORDERS if not e.startswith(("membar", "fence"))])
def test_orders(example: str, lanes: int) -> None:
    """What a thread wrote before a barrier, another one reads behind it."""
    if "warp" in example and lanes < 32:  # refused: whole warps alone
        with pytest.raises(UnsupportedError, match="warps of 32 lanes"):
            load(kernel([example]), "k", (64,), lanes)
        return
    wait = one("test_orders", "barrier.cluster.wait")
    before = [one("test_orders", "barrier.cluster.arrive;")] if example == wait else []
    after = [wait] if "arrive" in example else []
    partner = 31 if "warp" in example else 63
    body = [
        "mov.u64 %rd20, tile; add.u64 %rd21, %rd20, at; add.u64 a0, a0, at;",
        f"xor.b32 %r20, t, {partner}; mul.wide.u32 %rd22, %r20, 4; add.u64 %rd22, %rd20, %rd22;",
        "mov.u32 %r1, 3; mov.u32 %r2, 64;" if "warp" not in example else "mov.u32 %r1, -1;",
        "mov.u32 %r30, 1;", "L:", "mad.lo.u32 %r31, t, 5, %r30; st.shared.u32 [%rd21], %r31;",
        *before, example, *after, "ld.shared.u32 %r32, [%rd22];", *before, example, *after,
        "st.global.u32 [a0], %r32; add.u64 a0, a0, 256; add.u32 %r30, %r30, 1;",
        "setp.lt.u32 %p1, %r30, 4; @%p1 bra L;",
    ]  # fmt: skip
    out = np.zeros((3, 64), np.uint32)
    launched(kernel(body, inside=".shared .align 16 .b8 tile[256];"), 64, [out], lanes)
    t = np.arange(64)
    np.testing.assert_array_equal(out, (t ^ partner) * 5 + np.arange(1, 4)[:, None])


@pytest.mark.parametrize("example", [e for e in ORDERS if e.startswith(("membar", "fence"))])
def test_orders_of_a_message(example: str) -> None:
    """Who sees the flag sees the data: warps of one block, data and flag in global memory."""
    body = [
        "and.b32 %r1, t, 31; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd2, a0, %rd1;",
        "add.u64 %rd3, a1, %rd1; setp.lt.u32 %p1, t, 32; @!%p1 bra READ;",
        "mad.lo.u32 %r2, t, 3, 7; st.global.u32 [%rd2], %r2;", example,
        "mov.u32 %r3, 1; st.volatile.global.u32 [%rd3], %r3; bra END;",
        "READ: mov.u32 %r5, 0;",
        "AGAIN: ld.volatile.global.u32 %r4, [%rd3]; add.u32 %r5, %r5, 1;",
        "setp.eq.u32 %p2, %r4, 0; setp.lt.and.u32 %p3, %r5, 100000000, %p2; @%p3 bra AGAIN;",
        example, "ld.global.u32 %r6, [%rd2]; add.u64 %rd4, a2, %rd1; st.global.u32 [%rd4], %r6;",
        "END:",
    ]  # fmt: skip
    data, flags, seen = (np.zeros(32, np.uint32) for _ in range(3))
    launched(kernel(body), 64, [data, flags, seen])
    np.testing.assert_array_equal(seen, np.arange(32) * 3 + 7)


@WIDTHS
@pytest.mark.parametrize("level", [0, 1])
def test_barriers_that_reduce(lanes: int, level: int) -> None:
    """Over blocks of which nobody, everybody or some of the threads vote for it."""
    batch = Batch([fragment(e) for e in forms("test_barriers_that_reduce")], 192)
    expected = batch.on_the_oracle()
    assert not batch.differences(batch.on_the_device(Way(lanes, "", level)), expected)
    assert len(np.unique(expected[0][2])) > 3


# -- the end of lanes ----------------------------------------------------------------------------


@WIDTHS
@pytest.mark.parametrize("example", forms("test_hints_change_nothing"))
def test_hints_change_nothing(example: str, lanes: int) -> None:
    body = [
        "mad.lo.u32 %r2, t, 9, 4; mov.u32 %r1, 20;",
        example,
        "add.u64 a0, a0, at;",
        "st.global.u32 [a0], %r2;",
    ]
    out = np.zeros(64, np.uint32)
    launched(kernel(body), 64, [out], lanes)
    np.testing.assert_array_equal(out, np.arange(64) * 9 + 4)


@WIDTHS
@pytest.mark.parametrize("example", forms("test_lanes_that_exit"))
def test_lanes_that_exit(example: str, lanes: int) -> None:
    """They write nothing more, and barriers no longer wait for them."""
    body = ["add.u64 a0, a0, at; mov.u32 %r1, 1; st.global.u32 [a0], %r1; rem.u32 %r2, t, 3;",
            f"setp.eq.u32 %p1, %r2, 0; @%p1 {example}", "bar.sync 0;",
            "mov.u32 %r1, 2; st.global.u32 [a0], %r1;"]  # fmt: skip
    out = np.zeros(96, np.uint32)
    launched(kernel(body), 96, [out], lanes)
    np.testing.assert_array_equal(out, np.where(np.arange(96) % 3 == 0, 1, 2))


@WIDTHS
@pytest.mark.parametrize("example", forms("test_trap_stops_the_launch"))
def test_trap_stops_the_launch(example: str, lanes: int) -> None:
    body = ["add.u64 a0, a0, at; setp.eq.u32 %p1, t, 40;", f"@%p1 {example}",
            "mov.u32 %r1, 2; st.global.u32 [a0], %r1;"]  # fmt: skip
    out = np.zeros(64, np.uint32)
    assert load(kernel(body), "k", (64,), lanes)((5,), [out, None, None]) == ABORT_TRAP
    assert out[40] == 0
