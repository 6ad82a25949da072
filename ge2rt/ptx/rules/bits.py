"""Logic, shifts and bit fields (PTX ISA, "Logic and Shift", "Bit Field" and ``prmt``)."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.ast import Instr
from ge2rt.ptx.emit import BITS, Emitter, Value
from ge2rt.ptx.rules.operands import cast, cast_all, constant, integer, types_of, unsupported


def logic(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``and``, ``or``, ``xor``."""
    a, b = cast_all(e, src, types_of(i)[-1].llvm)
    return [e.binary(i.op, a, b)]


def invert(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``not``: all bits flipped."""
    (a,) = cast_all(e, src, types_of(i)[-1].llvm)
    return [e.binary("xor", a, integer(a.type, -1))]


def c_not(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``cnot``: 1 for zero, else 0."""
    (a,) = cast_all(e, src, types_of(i)[-1].llvm)
    return [e.convert("zext", e.compare("icmp eq", a, integer(a.type, 0)), a.type)]


def lop3(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``lop3``: the table as an exclusive or of products (Reed-Muller form); LLVM refolds it.

    With ``.or``/``.and`` a second result combines "not zero" with a predicate.
    """
    a, b, c = cast_all(e, src[:3], "i32")
    table = constant(src[3])
    if table is None:
        raise unsupported(i, "the table is no constant")
    result = _reed_muller(e, table, (a, b, c))
    if len(src) == 4:
        return [result]
    some = e.compare("icmp ne", result, integer("i32", 0))
    flag = e.binary("or" if i.has("or") else "and", some, cast(e, src[4], "i1"))
    return [result, flag]


def _reed_muller(e: Emitter, table: int, abc: Sequence[Value]) -> Value:
    coefficients = [table >> k & 1 for k in range(8)]
    for bit in (1, 2, 4):
        for k in range(8):
            if k & bit:
                coefficients[k] ^= coefficients[k ^ bit]
    a, b, c = e.alike(abc)
    result = integer("i32", -1 if coefficients[0] else 0)
    for k in range(1, 8):
        if coefficients[k]:
            term = integer("i32", -1)
            for bit, value in ((4, a), (2, b), (1, c)):
                if k & bit:
                    term = e.binary("and", term, value)
            result = e.binary("xor", result, term)
    return e.splat(result, a.lanes) if a.lanes else result


def shift(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``shl`` and ``shr``: amounts are unsigned and clamp at the width."""
    t = types_of(i)[-1]
    a = cast(e, src[0], t.llvm)
    op = "shl" if i.op == "shl" else ("ashr" if t.signed else "lshr")
    return [clamped_shift(e, op, a, cast(e, src[1], "i32"))]


def clamped_shift(e: Emitter, op: str, a: Value, amount: Value) -> Value:
    """``op`` by an i32 amount: from the width on 0, or copies of the sign for ``ashr``."""
    bits = BITS[a.type]
    fixed = constant(amount)
    if fixed is not None:
        fixed &= 0xFFFFFFFF
        if fixed >= bits and op != "ashr":
            return e.binary("and", a, integer(a.type, 0))
        return e.binary(op, a, integer(a.type, min(fixed, bits - 1)))
    if op == "ashr":
        amount = e.call("llvm.umin", (amount, integer("i32", bits - 1)))
        return e.binary(op, a, e.convert("trunc" if bits < 32 else "zext", amount, a.type))
    inside = e.compare("icmp ult", amount, integer("i32", bits))
    shifted = e.binary(op, a, e.convert("trunc" if bits < 32 else "zext", amount, a.type))
    return e.select(inside, shifted, integer(a.type, 0))


def funnel_shift(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``shf.l`` and ``shf.r``: one word out of the pair b:a, ``.wrap`` or ``.clamp`` at 32."""
    a, b, amount = cast_all(e, src, "i32")
    left = i.has("l")
    result = e.call("llvm.fshl" if left else "llvm.fshr", (b, a, amount))
    if i.has("clamp"):
        outside = e.compare("icmp ugt", amount, integer("i32", 31))
        result = e.select(outside, a if left else b, result)
    return [result]


def _low_ones(e: Emitter, count: Value, type: str) -> Value:
    """A mask of the low ``count`` bits; all ones from the width on."""
    return e.binary("xor", clamped_shift(e, "shl", integer(type, -1), count), integer(type, -1))


def bit_field_extract(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``bfe``: position and length are bytes; past the top come zeros or copies of the sign."""
    t = types_of(i)[-1]
    a = cast(e, src[0], t.llvm)
    byte = integer("i32", 255)
    pos, size = (e.binary("and", cast(e, v, "i32"), byte) for v in src[1:])
    if not t.signed:
        return [e.binary("and", clamped_shift(e, "lshr", a, pos), _low_ones(e, size, t.llvm))]
    moved = clamped_shift(e, "ashr", a, pos)
    width = integer("i32", t.bits)
    spare = e.binary("sub", width, e.call("llvm.umin", e.alike((size, width))))
    up = clamped_shift(e, "ashr", clamped_shift(e, "shl", moved, spare), spare)
    return [e.select(e.compare("icmp eq", size, integer("i32", 0)), integer(t.llvm, 0), up)]


def bit_field_insert(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``bfi``: the low bits of a into b."""
    t = types_of(i)[-1]
    a, b = cast_all(e, src[:2], t.llvm)
    byte = integer("i32", 255)
    pos, size = (e.binary("and", cast(e, v, "i32"), byte) for v in src[2:])
    mask = clamped_shift(e, "shl", _low_ones(e, size, t.llvm), pos)
    kept = e.binary("and", b, e.binary("xor", mask, integer(t.llvm, -1)))
    return [e.binary("or", kept, e.binary("and", clamped_shift(e, "shl", a, pos), mask))]


def find_leading(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``bfind``: place of the top bit unlike the sign; ``.shiftamt`` counts it from above."""
    t = types_of(i)[-1]
    (a,) = cast_all(e, src, t.llvm)
    if t.signed:
        a = e.binary("xor", a, e.binary("ashr", a, integer(t.llvm, t.bits - 1)))
    none = e.compare("icmp eq", a, integer(t.llvm, 0))
    zeros = _to32(e, _ctlz(e, a))
    place = zeros if i.has("shiftamt") else e.binary("sub", integer("i32", t.bits - 1), zeros)
    return [e.select(none, integer("i32", -1), place)]


def _ctlz(e: Emitter, a: Value) -> Value:
    suffix = f"v{a.lanes}{a.type}" if a.lanes else a.type
    name = f"llvm.ctlz.{suffix}"
    e.declarations[name] = f"declare {a.full_type} @{name}({a.full_type}, i1)"
    return e.raw(f"call {a.full_type} @{name}({a}, i1 false)", a.type, a.lanes)


def _to32(e: Emitter, value: Value) -> Value:
    return e.convert("trunc" if BITS[value.type] > 32 else "zext", value, "i32")


def count(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``popc`` and ``clz``: a 32-bit count."""
    (a,) = cast_all(e, src, types_of(i)[-1].llvm)
    return [_to32(e, e.call("llvm.ctpop", (a,)) if i.op == "popc" else _ctlz(e, a))]


def reverse(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``brev``."""
    return [e.call("llvm.bitreverse", cast_all(e, src, types_of(i)[-1].llvm))]


def find_nth_set(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``fns``: place of the offset-th set bit from base on, upwards or downwards; else all ones."""
    mask, base, offset = e.alike(cast_all(e, src, "i32"))
    zero, one, ones = (integer("i32", k) for k in (0, 1, -1))
    down = e.compare("icmp slt", offset, zero)
    step = e.select(down, ones, one)
    missing = e.select(down, e.binary("sub", zero, offset), offset)
    at_base = e.compare("icmp eq", offset, zero)
    missing = e.select(at_base, one, missing)
    found, place = e.select(down, ones, ones), base
    for k in range(32):
        inside = e.compare("icmp ult", place, integer("i32", 32))
        bit = e.binary("and", clamped_shift(e, "lshr", mask, place), one)
        hit = e.binary("and", inside, e.compare("icmp ne", bit, zero))
        if k:  # offset 0 looks at the base alone
            hit = e.binary("and", hit, e.binary("xor", at_base, Value("i1", "true")))
        missing = e.binary("sub", missing, e.convert("zext", hit, "i32"))
        last = e.binary("and", hit, e.compare("icmp eq", missing, zero))
        found = e.select(last, place, found)
        place = e.binary("add", place, step)
    return [e.select(e.compare("icmp ult", base, integer("i32", 32)), found, ones)]


# Byte picked for each result byte, by the low two bits of the control; 4-7 are the bytes of b.
PRMT_MODES: dict[str, tuple[tuple[int, int, int, int], ...]] = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def permute(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``prmt``: four bytes out of b:a; a set top bit of a selector copies the byte's sign."""
    mode = next((m for m in i.mods if m in PRMT_MODES), None)
    a, b, control = e.alike(cast_all(e, src, "i32"))
    fixed = constant(cast(e, src[2], "i32"))
    if mode is None and fixed is not None:
        return [_permute_fixed(e, a, b, [fixed >> 4 * k & 15 for k in range(4)])]
    pair = e.binary("shl", e.convert("zext", b, "i64"), integer("i64", 32))
    pair = e.binary("or", pair, e.convert("zext", a, "i64"))
    selectors = _mode_selectors(e, control, mode) if mode else _selectors(e, control)
    result = integer("i32", 0)
    for k, selector in enumerate(selectors):
        index = e.binary("and", selector, integer("i32", 7))
        amount = e.convert("zext", e.binary("shl", index, integer("i32", 3)), "i64")
        byte = e.convert("trunc", e.binary("lshr", pair, amount), "i8")
        sign = e.compare(
            "icmp ugt", e.binary("and", selector, integer("i32", 8)), integer("i32", 0)
        )
        byte = e.select(sign, e.binary("ashr", byte, integer("i8", 7)), byte)
        up = e.binary("shl", e.convert("zext", byte, "i32"), integer("i32", 8 * k))
        result = e.binary("or", up, result)
    return [result]


def _selectors(e: Emitter, control: Value) -> list[Value]:
    return [e.binary("lshr", control, integer("i32", 4 * k)) for k in range(4)]


def _mode_selectors(e: Emitter, control: Value, mode: str) -> list[Value]:
    low = e.binary("and", control, integer("i32", 3))
    eightfold = e.binary("shl", low, integer("i32", 3))
    out = []
    for k in range(4):  # a table of four bytes in one word, indexed by the control
        table = sum(PRMT_MODES[mode][c][k] << 8 * c for c in range(4))
        byte = e.binary("lshr", integer("i32", table), eightfold)
        out.append(e.binary("and", byte, integer("i32", 7)))
    return out


def _permute_fixed(e: Emitter, a: Value, b: Value, selectors: list[int]) -> Value:
    """A constant byte shuffle."""
    lanes = max(a.lanes, 1)
    x, y = (e.reinterpret(v, "i8", 4 * lanes) for v in (a, b))
    picks = []
    for lane in range(lanes):
        for s in selectors:
            index = s & 7
            picks.append(4 * lane + index if index < 4 else 4 * lanes + 4 * lane + index - 4)
    bytes_ = e.shuffle(x, y, picks)
    if any(s & 8 for s in selectors):
        signs = e.binary("ashr", bytes_, Value("i8", "7"))
        mix = [k if not selectors[k % 4] & 8 else 4 * lanes + k for k in range(4 * lanes)]
        bytes_ = e.shuffle(bytes_, signs, mix)
    return e.reinterpret(bytes_, "i32", a.lanes)


def sign_or_zero_extend(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``szext``: keep the low b bits (modulo 32, or clamped at 32) and extend them."""
    t = types_of(i)[-1]
    a, size = cast_all(e, src, "i32")
    if i.has("wrap"):
        size = e.binary("and", size, integer("i32", 31))
    if not t.signed:
        return [e.binary("and", a, _low_ones(e, size, "i32"))]
    width = integer("i32", 32)
    spare = e.binary("sub", width, e.call("llvm.umin", e.alike((size, width))))
    up = clamped_shift(e, "ashr", clamped_shift(e, "shl", a, spare), spare)
    return [e.select(e.compare("icmp eq", size, integer("i32", 0)), integer("i32", 0), up)]


def bit_mask(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``bmsk``: b ones from position a on; both modulo 32, or clamped."""
    start, size = cast_all(e, src, "i32")
    if i.has("wrap"):
        low = integer("i32", 31)
        start, size = e.binary("and", start, low), e.binary("and", size, low)
    return [clamped_shift(e, "shl", _low_ones(e, size, "i32"), start)]


_BITS = "b16 b32 b64"

ROWS = (
    ("and", f"{_BITS} pred", "", logic),
    ("or", f"{_BITS} pred", "", logic),
    ("xor", f"{_BITS} pred", "", logic),
    ("not", f"{_BITS} pred", "", invert),
    ("cnot", _BITS, "", c_not),
    ("lop3", "b32", "or and", lop3),
    ("shl", _BITS, "", shift),
    ("shr", f"{_BITS} u16 u32 u64 s16 s32 s64", "", shift),
    ("shf", "b32", "l r wrap clamp", funnel_shift),
    ("bfe", "u32 u64 s32 s64", "", bit_field_extract),
    ("bfi", "b32 b64", "", bit_field_insert),
    ("bfind", "u32 u64 s32 s64", "shiftamt", find_leading),
    ("popc", "b32 b64", "", count),
    ("clz", "b32 b64", "", count),
    ("brev", "b32 b64", "", reverse),
    ("fns", "b32", "", find_nth_set),
    ("prmt", "b32", " ".join(PRMT_MODES), permute),
    ("szext", "u32 s32", "clamp wrap", sign_or_zero_extend),
    ("bmsk", "b32", "clamp wrap", bit_mask),
)
