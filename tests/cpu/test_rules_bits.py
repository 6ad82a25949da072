"""Logic, shifts and bit fields against the manual's loops over bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from rules_machine import PAIR, Case, operands, run, signed, some, wrap


def bits_of(x: int, n: int) -> list[int]:
    return [x >> k & 1 for k in range(n)]


def word(bits: list[int]) -> int:
    return sum(b << k for k, b in enumerate(bits))


def extract(sign: bool, n: int) -> Callable[[int, int, int], int]:
    def rule(a: int, b: int, c: int) -> int:
        pos, size, top = b & 255, c & 255, n - 1
        given = bits_of(a, n)
        fill = given[min(pos + size - 1, top)] if sign and size else 0
        return word([given[pos + k] if k < size and pos + k <= top else fill for k in range(n)])

    return rule


def insert(n: int) -> Callable[[int, int, int, int], int]:
    def rule(a: int, b: int, c: int, d: int) -> int:
        pos, size = c & 255, d & 255
        out = bits_of(b, n)
        for k in range(size):
            if pos + k < n:
                out[pos + k] = a >> k & 1
        return word(out)

    return rule


def find(sign: bool, n: int, amount: bool) -> Callable[[int], int]:
    def rule(a: int) -> int:
        if sign and a >> (n - 1):
            a = wrap(~a, n)
        top = a.bit_length() - 1
        return n - 1 - top if amount and top >= 0 else wrap(top, 32)

    return rule


def nth_set(mask: int, base: int, offset: int) -> int:
    base, offset = wrap(base, 32), signed(offset, 32)
    if offset == 0:
        return base if base < 32 and mask >> base & 1 else 0xFFFFFFFF
    left, place = abs(offset) - 1, base
    while 0 <= place < 32:
        if mask >> place & 1:
            if left == 0:
                return place
            left -= 1
        place += 1 if offset > 0 else -1
    return 0xFFFFFFFF


def pick(a: int, b: int, selector: int) -> int:
    byte = (a | b << 32) >> 8 * (selector & 7) & 255
    return (255 if byte & 128 else 0) if selector & 8 else byte


def permute(a: int, b: int, c: int) -> int:
    return word_of([pick(a, b, c >> 4 * k) for k in range(4)])


def word_of(items: list[int]) -> int:
    return sum(v << 8 * k for k, v in enumerate(items))


def mode(rows: str) -> Callable[[int, int, int], int]:
    """The manual's table: for controls 0 to 3 the source of bytes 3, 2, 1, 0."""
    return lambda a, b, c: word_of([pick(a, b, int(k)) for k in rows.split()[c & 3][::-1]])


def extend(sign: bool, clamps: bool) -> Callable[[int, int], int]:
    def rule(a: int, b: int) -> int:
        size = min(b, 32) if clamps else b & 31
        low = wrap(a, size) if size else 0
        return low | (wrap(-1 << size, 32) if sign and size and low >> (size - 1) else 0)

    return rule


def shifted(op: str, sign: bool, n: int) -> Callable[[int, int], int]:
    def rule(a: int, b: int) -> int:
        b = min(b, n)
        return a << b if op == "shl" else (signed(a, n) if sign else a) >> b

    return rule


def funnel(left: bool, clamps: bool) -> Callable[[int, int, int], int]:
    def rule(a: int, b: int, c: int) -> int:
        n = min(c, 32) if clamps else c & 31
        return ((b << 32 | a) << n) >> 32 if left else (b << 32 | a) >> n

    return rule


W = (32, 32, 32)
FORMS: dict[str, tuple[tuple[int, ...], Callable[..., int], int]] = {
    **{f"{op}.b{n}": ((n, n), rule, n) for n in (16, 32, 64) for op, rule in {
        "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}.items()},
    **{f"not.b{n}": ((n,), lambda a: ~a, n) for n in (16, 32, 64)},
    **{f"cnot.b{n}": ((n,), lambda a: int(a == 0), n) for n in (16, 32, 64)},
    **{f"shl.b{n}": ((n, 32), shifted("shl", False, n), n) for n in (16, 32, 64)},
    **{f"shr.{s}{n}": ((n, 32), shifted("shr", s == "s", n), n)
       for s in "usb" for n in (16, 32, 64)},
    "shf.l.wrap.b32": (W, funnel(True, False), 32),
    "shf.r.wrap.b32": (W, funnel(False, False), 32),
    "shf.l.clamp.b32": (W, funnel(True, True), 32),
    "shf.r.clamp.b32": (W, funnel(False, True), 32),
    **{f"bfe.{s}{n}": ((n, 32, 32), extract(s == "s", n), n) for s in "us" for n in (32, 64)},
    **{f"bfind.{s}{n}": ((n,), find(s == "s", n, False), 32) for s in "us" for n in (32, 64)},
    **{f"bfind.shiftamt.{s}{n}": ((n,), find(s == "s", n, True), 32)
       for s in "us" for n in (32, 64)},
    **{f"popc.b{n}": ((n,), lambda a: a.bit_count(), 32) for n in (32, 64)},
    **{f"clz.b{n}": ((n,), lambda a, n=n: n - a.bit_length(), 32) for n in (32, 64)},
    **{f"brev.b{n}": ((n,), lambda a, n=n: word(bits_of(a, n)[::-1]), n) for n in (32, 64)},
    "fns.b32": (W, nth_set, 32),
    "prmt.b32": (W, permute, 32),
    "prmt.b32.f4e": (W, mode("3210 4321 5432 6543"), 32),
    "prmt.b32.b4e": (W, mode("5670 6701 7012 0123"), 32),
    "prmt.b32.rc8": (W, mode("0000 1111 2222 3333"), 32),
    "prmt.b32.ecl": (W, mode("3210 3211 3222 3333"), 32),
    "prmt.b32.ecr": (W, mode("0000 1110 2210 3210"), 32),
    "prmt.b32.rc16": (W, mode("1010 3232 1010 3232"), 32),
    "szext.wrap.u32": (W[:2], extend(False, False), 32),
    "szext.clamp.s32": (W[:2], extend(True, True), 32),
    "szext.wrap.s32": (W[:2], extend(True, False), 32),
    "bmsk.clamp.b32": (W[:2], lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32), 32),
    "bmsk.wrap.b32": (W[:2], lambda a, b: ((1 << (b & 31)) - 1) << (a & 31), 32),
}  # fmt: skip


@pytest.mark.parametrize("lanes", [32, 0])
def test_bit_instructions(lanes: int) -> None:
    cases = [
        Case(form, [some(x, lanes) for x in operands(widths, k)])
        for k, (form, (widths, _, _)) in enumerate(FORMS.items())
    ]
    run(cases, lanes=lanes)
    for case in cases:
        _, rule, bits = FORMS[case.form]
        rows = zip(*[x.tolist() for x in case.sources], strict=True)
        for row, value in zip(rows, case.results[0].tolist(), strict=True):
            assert value == wrap(rule(*row), bits), (case.form, [hex(v) for v in row])


@pytest.mark.parametrize("lanes", [32, 0])
def test_bit_field_insert(lanes: int) -> None:
    rng = np.random.default_rng(3)
    place = [rng.integers(0, 300, 300).astype("u4") % k for k in (70, 300)]
    for n in (32, 64):
        a, b = operands((n, n), n)
        case = Case(f"bfi.b{n}", [a[:300], b[:300], *place])
        run([case], lanes=lanes)
        rows = zip(*[x.tolist() for x in case.sources], strict=True)
        assert case.results[0].tolist() == [insert(n)(*row) for row in rows]


@pytest.mark.parametrize(("lanes", "splatted"), [(32, False), (0, False), (32, True)])
def test_immediate_operands(lanes: int, splatted: bool) -> None:
    a, b, c = operands(W, 9)
    amounts = [0, 1, 31, 32, 33, 100, -1]
    tables = [0, 0x96, 0xE8, 0xCA, 0xFF, 0x01, 0x80, 0x3C, 0xB8]
    controls = [0x3210, 0x5410, 0x7632, 0x0123, 0xBA98, 0x7F3C]
    cases = [Case(f"{op}", [a, k]) for op in ("shl.b32", "shr.s32", "shr.u32") for k in amounts]
    cases += [Case("lop3.b32", [a, b, c, k]) for k in tables]
    cases += [Case("prmt.b32", [a, b, k]) for k in controls]
    for case in cases:
        case.splatted = splatted
    run(cases, lanes=lanes)
    for case in cases:
        k = case.sources[-1]
        for j, value in enumerate(case.results[0].tolist()):
            x, y, z = int(a[j]), int(b[j]), int(c[j])
            if case.form == "lop3.b32":
                want = word([k >> (4 * p + 2 * q + r) & 1 for p, q, r in zip(
                    bits_of(x, 32), bits_of(y, 32), bits_of(z, 32), strict=True)])  # fmt: skip
            elif case.form == "prmt.b32":
                want = permute(x, y, k)
            else:
                want = shifted(case.form[:3], case.form[4] == "s", 32)(x, wrap(k, 32))
            assert value == wrap(want, 32), (case.form, k, hex(x), hex(y), hex(z))


def test_lop3_with_predicate() -> None:
    a, b, c = operands(W, 9)
    q = np.arange(len(a)) % 2 == 0
    case = Case("lop3.or.b32", [a, b, c, 0x80, q], operands=PAIR)
    run([case])
    assert (case.results[0] == (a & b & c)).all()
    assert (case.results[1] == (((a & b & c) != 0) | q)).all()


@pytest.mark.parametrize("lanes", [32, 0])
def test_predicate_logic(lanes: int) -> None:
    a, b = (np.array(x, bool) for x in ([0, 0, 1, 1] * 8, [0, 1, 0, 1] * 8))
    cases = {op: Case(f"{op}.pred", [a, b]) for op in ("and", "or", "xor")}
    flip = Case("not.pred", [a])
    run([*cases.values(), flip], lanes=lanes)
    assert (cases["and"].results[0] == (a & b)).all()
    assert (cases["or"].results[0] == (a | b)).all()
    assert (cases["xor"].results[0] == (a ^ b)).all()
    assert (flip.results[0] == ~a).all()
