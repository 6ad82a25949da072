"""Integer rules against the manual's statements in Python integers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rules_machine import Case, operands, run, signed, some, wrap


def clamp(x: int, bits: int, sign: bool) -> int:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign else (0, (1 << bits) - 1)
    return max(low, min(high, x))


def quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a - quotient(a, b) * b


def each(word: int, other: int, rule: Callable[[int, int], int], sign: bool) -> int:
    """``rule`` on both halves of a word."""
    read = signed if sign else wrap
    parts = [wrap(rule(read(word >> k, 16), read(other >> k, 16)), 16) << k for k in (0, 16)]
    return parts[0] | parts[1]


def dot(a: int, b: int, c: int, sign_a: bool, sign_b: bool, bits_a: int, first: int) -> int:
    count = 32 // bits_a
    for k in range(count):
        x = (signed if sign_a else wrap)(a >> bits_a * k, bits_a)
        y = (signed if sign_b else wrap)(b >> 8 * (k + first), 8)
        c += x * y
    return c


# form -> (widths of sources, rule on integers read by the form's last type, width of the result)
Rule = tuple[tuple[int, ...], Callable[..., int], int]


def typed(
    op: str, rule: Callable[..., int], arity: int, kinds: str, grow: int = 1
) -> dict[str, Rule]:
    """One row a type; ``grow`` multiplies the result's width."""
    out = {}
    for kind in kinds.split():
        bits = int(kind[1:])
        out[f"{op}.{kind}"] = ((bits,) * arity, rule, bits * grow)
    return out


ALL = "u16 s16 u32 s32 u64 s64"
FORMS: dict[str, Rule] = {
    **typed("add", lambda a, b: a + b, 2, ALL),
    **typed("sub", lambda a, b: a - b, 2, ALL),
    **typed("mul.lo", lambda a, b: a * b, 2, ALL),
    **typed("mul.wide", lambda a, b: a * b, 2, "u16 s16 u32 s32", 2),
    **typed("mad.lo", lambda a, b, c: a * b + c, 3, ALL),
    **typed("sad", lambda a, b, c: c + abs(a - b), 3, ALL),
    **typed("div", quotient, 2, ALL),
    **typed("rem", remainder, 2, ALL),
    **typed("abs", abs, 1, "s16 s32 s64"),
    **typed("neg", lambda a: -a, 1, "s16 s32 s64"),
    **typed("min", min, 2, ALL),
    **typed("max", max, 2, ALL),
    **{f"mul.hi.{k}": ((int(k[1:]),) * 2, lambda a, b, n=int(k[1:]): a * b >> n, int(k[1:]))
       for k in ALL.split()},
    **{f"mad.hi.{k}": ((int(k[1:]),) * 3, lambda a, b, c, n=int(k[1:]): (a * b >> n) + c,
                       int(k[1:]))
       for k in ALL.split()},
    "mad.wide.s32": ((32, 32, 64), lambda a, b, c: a * b + c, 64),
    "mad.wide.u32": ((32, 32, 64), lambda a, b, c: a * b + c, 64),
    "mad.hi.sat.s32": ((32,) * 3, lambda a, b, c: clamp((a * b >> 32) + c, 32, True), 32),
    "add.sat.s32": ((32, 32), lambda a, b: clamp(a + b, 32, True), 32),
    "sub.sat.s32": ((32, 32), lambda a, b: clamp(a - b, 32, True), 32),
    "min.relu.s32": ((32, 32), lambda a, b: max(min(a, b), 0), 32),
    "mul24.lo.s32": ((32, 32), lambda a, b: signed(a, 24) * signed(b, 24), 32),
    "mul24.hi.s32": ((32, 32), lambda a, b: signed(a, 24) * signed(b, 24) >> 16, 32),
    "mul24.lo.u32": ((32, 32), lambda a, b: wrap(a, 24) * wrap(b, 24), 32),
    "mul24.hi.u32": ((32, 32), lambda a, b: wrap(a, 24) * wrap(b, 24) >> 16, 32),
    "mad24.lo.u32": ((32,) * 3, lambda a, b, c: wrap(a, 24) * wrap(b, 24) + c, 32),
    "mad24.hi.sat.s32": (
        (32,) * 3, lambda a, b, c: clamp((signed(a, 24) * signed(b, 24) >> 16) + c, 32, True), 32),
    "add.u16x2": ((32, 32), lambda a, b: each(a, b, lambda x, y: x + y, False), 32),
    "min.s16x2": ((32, 32), lambda a, b: each(a, b, min, True), 32),
    "max.u16x2": ((32, 32), lambda a, b: each(a, b, max, False), 32),
    "max.relu.s16x2": ((32, 32), lambda a, b: each(a, b, lambda x, y: max(x, y, 0), True), 32),
    "dp4a.u32.u32": ((32,) * 3, lambda a, b, c: dot(a, b, c, False, False, 8, 0), 32),
    "dp4a.s32.u32": ((32,) * 3, lambda a, b, c: dot(a, b, c, True, False, 8, 0), 32),
    "dp4a.s32.s32": ((32,) * 3, lambda a, b, c: dot(a, b, c, True, True, 8, 0), 32),
    "dp2a.lo.s32.s32": ((32,) * 3, lambda a, b, c: dot(a, b, c, True, True, 16, 0), 32),
    "dp2a.hi.u32.s32": ((32,) * 3, lambda a, b, c: dot(a, b, c, False, True, 16, 2), 32),
}  # fmt: skip


@pytest.mark.parametrize("lanes", [32, 0, 16])
def test_integer_arithmetic(lanes: int) -> None:
    cases = {
        form: Case(form, [some(x, lanes == 32) for x in operands(widths, k)])
        for k, (form, (widths, _, _)) in enumerate(FORMS.items())
    }
    run(list(cases.values()), lanes=lanes)
    for form, (widths, rule, bits) in FORMS.items():
        last = form.rsplit(".", 1)[1]
        read = signed if last[0] == "s" else wrap
        case = cases[form]
        given = [[read(int(v), w) for v in x] for x, w in zip(case.sources, widths, strict=True)]
        (got,) = case.results
        for row, value in zip(zip(*given, strict=True), got.tolist(), strict=True):
            assert value == wrap(rule(*row), bits), (form, row)


@pytest.mark.parametrize("divisor", [1, 3, -1, 7, 0, 255])
def test_division_by_an_immediate(divisor: int) -> None:
    (a,) = operands((32,), 5)
    cases = [Case(f"{op}.{kind}", [a, divisor]) for op in ("div", "rem") for kind in ("s32", "u32")]
    run(cases)
    for case in cases:
        read = signed if case.form.endswith("s32") else wrap
        rule = quotient if case.form.startswith("div") else remainder
        want = [wrap(rule(read(int(x), 32), read(divisor, 32)), 32) for x in a]
        assert case.results[0].tolist() == want, case.form


@pytest.mark.parametrize("lanes", [32, 0])
def test_carries_chain_to_wide_arithmetic(lanes: int) -> None:
    a0, a1, a2 = operands((32, 32, 32), 1)
    b0, b1, b2 = operands((32, 32, 32), 2)
    b0 = b0[::-1].copy()
    for op, more, last in (
        ("add", "addc", "addc"),
        ("sub", "subc", "subc"),
        ("mad.lo", "madc.hi", ""),
    ):
        if op == "mad.lo":
            first = Case("mad.lo.cc.u32", [a0, b0, a1])
            run([first], lanes=lanes)
            second = Case("madc.hi.u32", [a0, b0, a2, first.results[1]])
            run([second], lanes=lanes)
            for k in range(len(a0)):
                want = int(a0[k]) * int(b0[k]) + int(a1[k]) + (int(a2[k]) << 32)
                got = int(first.results[0][k]) | int(second.results[0][k]) << 32
                assert got == wrap(want, 64)
            continue
        low = Case(f"{op}.cc.u32", [a0, b0])
        run([low], lanes=lanes)
        mid = Case(f"{more}.cc.u32", [a1, b1, low.results[1]])
        run([mid], lanes=lanes)
        high = Case(f"{last}.u32", [a2, b2, mid.results[1]])
        run([high], lanes=lanes)
        sign = 1 if op == "add" else -1
        for k in range(len(a0)):
            x = int(a0[k]) | int(a1[k]) << 32 | int(a2[k]) << 64
            y = int(b0[k]) | int(b1[k]) << 32 | int(b2[k]) << 64
            got = sum(int(c.results[0][k]) << 32 * j for j, c in enumerate((low, mid, high)))
            assert got == wrap(x + sign * y, 96), (op, hex(x), hex(y))
