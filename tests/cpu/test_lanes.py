"""Lane facts against brute force: each transfer must hold for every lane's value."""

from __future__ import annotations

import itertools
import operator
import random

import pytest

from ge2rt.ptx import lanes
from ge2rt.ptx.ast import Imm, Instr, Reg
from ge2rt.ptx.lanes import Lanes, constant, counted, transfer

WIDTH = 32


def _instr(form: str, *operands: object) -> Instr:
    op, *mods = form.split(".")
    types = tuple(m for m in mods if m[0] in "bus" and m[1:].isdigit())
    given = tuple(Reg("%d") if o is None else Imm(0) for o in (None, *operands))
    if op == "lop3":
        given = (*given[:4], Imm(operands[3]))  # type: ignore[arg-type]
    return Instr(op, tuple(mods), given, None, 1, types)


def _signed(value: int, bits: int) -> int:
    return lanes.wrap(value, bits)


def _wide(values: list[int], bits: int, signed: bool) -> list[int]:
    return [_signed(v, bits) if signed else v & (2**bits - 1) for v in values]


def _run(form: str, columns: list[list[int]], lut: int = 0) -> tuple[list[int], int]:
    """What the PTX manual says, lane by lane: values and result width."""
    op, *mods = form.split(".")
    type = mods[-1]
    bits, signed = int(type[1:]), type[0] == "s"
    table = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "and": lambda a, b: a & b,
        "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "neg": lambda a: -a,
        "not": lambda a: ~a, "mov": lambda a: a,
    }  # fmt: skip
    if op in table:
        return [table[op](*row) for row in zip(*columns, strict=True)], bits
    if op in ("mul", "mad"):
        wide = "wide" in mods
        a, b = (_wide(c, bits, signed) for c in columns[:2])
        c = columns[2] if op == "mad" else [0] * WIDTH
        return [x * y + z for x, y, z in zip(a, b, c, strict=True)], bits * (2 if wide else 1)
    if op == "shl":
        return [a << b if b < bits else 0 for a, b in zip(*columns, strict=True)], bits
    if op in ("shr", "div", "rem"):
        a = _wide(columns[0], bits, signed)
        if op == "shr":
            return [x >> min(s, bits) for x, s in zip(a, columns[1], strict=True)], bits
        pairs = zip(a, columns[1], strict=True)
        assert min(a) >= 0
        return [x // y if op == "div" else x % y for x, y in pairs], bits
    if op == "cvt":
        to, given = mods[-2], mods[-1]
        return _wide(columns[0], int(given[1:]), given[0] == "s"), int(to[1:])
    if op == "lop3":
        rows = zip(*columns, strict=True)
        return [
            sum((lut >> ((a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1)) & 1) << k
                for k in range(32)) for a, b, c in rows], 32  # fmt: skip
    if op == "bfi":
        a, b, p, n = (c[:] for c in columns)
        mask = ((1 << n[0]) - 1) << p[0]
        return [(x << p[0]) & mask | y & ~mask for x, y in zip(a, b, strict=True)], bits
    if op == "bfe":
        return [((x & (2**bits - 1)) >> p) & ((1 << n) - 1)
                for x, p, n in zip(*columns, strict=True)], bits  # fmt: skip
    raise AssertionError(op)


def _sample(rng: random.Random, facts: Lanes, bits: int) -> list[int]:
    """Values of the lanes that agree with the facts."""
    if facts.known == lanes.FULL:
        first = facts.residue
    elif facts.low is not None and facts.high is not None:
        top = max((facts.high - max(facts.offsets or (0,))) >> facts.known, 0)
        first = (rng.randrange(top + 1) << facts.known) + facts.residue
    else:
        first = (rng.getrandbits(bits) << facts.known) + facts.residue
    return [(first + facts.lane(k)) & (2**bits - 1) for k in range(WIDTH)]


AFFINE = {
    "lane": counted(range(WIDTH), 5, 0, 1023),
    "tile": counted([k & 15 for k in range(WIDTH)], 4, 0, 15),
    "rows": counted([k >> 4 for k in range(WIDTH)], 1, 0, 15),
    "index": counted(range(WIDTH), 5, 0, None),
    "odd": Lanes(tuple(range(WIDTH)), 5, 1),
    "block": Lanes((), 0, 0, 0, 2**31 - 1),
    "aligned": Lanes((), 6, 0),
    "any": Lanes(),
}


@pytest.mark.parametrize("form", [
    "add.s32", "sub.u32", "mul.lo.s32", "mul.wide.s32", "mul.wide.u32", "mad.lo.u32", "and.b32",
    "or.b32", "xor.b32", "shl.b32", "shr.u32", "shr.s32", "neg.s32", "not.b32", "cvt.u64.u32",
    "cvt.s64.s32", "cvt.u16.u32", "rem.u32", "div.u32", "lop3.b32", "bfi.b32", "bfe.u32",
])  # fmt: skip
def test_transfer_holds_for_every_lane(form: str) -> None:
    rng = random.Random(form)
    affine = 0
    op = form.split(".")[0]
    arity = {"neg": 1, "not": 1, "cvt": 1, "mad": 3, "lop3": 3, "bfi": 4, "bfe": 3}.get(op, 2)
    small = [constant(v) for v in (0, 1, 4, 5, 8, 16, 31)]
    others = list(AFFINE.values()) if arity < 4 and op not in ("shl", "shr", "bfe") else []
    others += small + ([constant(-8), constant(0xFF0)] if op not in ("shl", "shr", "bfe") else [])
    if op in ("rem", "div"):
        others = [constant(v) for v in (1, 2, 8, 16, 32)]
    rest = [others] * (arity - 1)
    if op == "bfi":
        rest = [[AFFINE["tile"], AFFINE["lane"], AFFINE["aligned"]], small[2:5], small[2:5]]
    if op == "bfe":
        rest = [small[:4], small[1:4]]
    for given in itertools.product(AFFINE.values(), *rest):
        lut = rng.choice([0xE2, 0x80, 0xF8, 0x3C])
        instr = _instr(form, *given[:3], lut)
        result = transfer(instr, list(given))
        if result is None or (op in ("rem", "div") and given[0].low is None):
            continue
        for _ in range(4):
            columns = [_sample(rng, facts, 32) for facts in given]
            if op in ("rem", "div", "shr") and given[0].high is not None:
                assert max(columns[0]) <= given[0].high
            values, bits = _run(form, columns, lut)
            wanted = [v & (2**bits - 1) for v in values]
            got = [(wanted[0] + result.lane(k)) & (2**bits - 1) for k in range(WIDTH)]
            assert got == wanted, (given, result)
            known = min(result.known, bits)
            assert (wanted[0] - result.residue) % 2**known == 0, (given, result)
            if result.low is not None and result.high is not None:
                assert all(result.low <= _signed(v, bits) <= result.high for v in wanted)
            affine += bool(result.offsets)
    assert affine > 3


COMPARE = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "lo": operator.lt, "ls": operator.le,
    "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip


@pytest.mark.parametrize("type", ["s32", "u32"])
@pytest.mark.parametrize("compare", COMPARE)
def test_a_uniform_comparison_has_one_answer(compare: str, type: str) -> None:
    rng = random.Random(compare + type)
    shifted = {
        f"{name} + {by}": lanes.add(facts, constant(by), 32)
        for name, facts in AFFINE.items() for by in (31, -1)
    }  # fmt: skip
    literals = [constant(v) for v in (0, 1, 16, 31, 32, 33, 62, 63, 64, -1, -32)]
    found = 0
    sides = [*AFFINE.values(), *shifted.values()]
    for a, b in [*itertools.product(sides, literals), *itertools.product(literals, sides),
                 *itertools.product(sides, sides)]:  # fmt: skip
        instr = Instr("setp", (compare, type), (Reg("%p"), Reg("%a"), Reg("%b")), None, 1, (type,))
        if transfer(instr, [a, b]) is None or (a.uniform and b.uniform):
            continue
        found += 1
        for _ in range(4):
            columns = [_wide(_sample(rng, v, 32), 32, type[0] == "s") for v in (a, b)]
            answers = {COMPARE[compare](x, y) for x, y in zip(*columns, strict=True)}
            assert len(answers) == 1, (a, b)
    assert found > 10


@pytest.mark.parametrize(("first", "compare", "second"), [
    ("lane", "lt", 64), ("lane + 31", "lt", 63), ("lane", "ge", 32), ("lane", "gt", 31),
    ("lane", "le", 95), ("lane + 31", "gt", 62), ("lane", "lt", "aligned"),
])  # fmt: skip
def test_whole_warps_on_one_side_of_a_limit(first: str, compare: str, second: int | str) -> None:
    name, _, by = first.partition(" + ")
    a = lanes.add(AFFINE[name], constant(int(by or 0)), 32)
    b = AFFINE[second] if isinstance(second, str) else constant(second)
    instr = Instr("setp", (compare, "u32"), (Reg("%p"), Reg("%a"), Reg("%b")), None, 1, ("u32",))
    assert transfer(instr, [a, b]) == lanes.UNIFORM


def test_trusted_extension_counts_from_the_top_lane() -> None:
    below = lanes.add(AFFINE["index"], constant(1), 32, -1)
    instr = _instr("mul.wide.u32", 0, 4)
    assert transfer(instr, [below, constant(4)]) is None
    trusted = transfer(instr, [below, constant(4)], True)
    assert trusted is not None
    assert trusted.offsets[1] == 4
    assert lanes.counts_from_top(instr, [below, constant(4)])
    assert not lanes.counts_from_top(instr, [AFFINE["index"], constant(4)])


def test_join_gives_up_what_differs() -> None:
    assert lanes.join(AFFINE["lane"], AFFINE["tile"], False) is None
    both = lanes.join(constant(4), constant(20), False)
    assert both is not None
    assert (both.known, both.residue, both.low, both.high) == (4, 4, 4, 20)
    assert lanes.join(both, constant(36), True) == Lanes((), 4, 4)
