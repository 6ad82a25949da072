"""Integer and bit instructions (PTX ISA 8.7, sections 9.7.1, 9.7.2 and 9.7.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.machine import DTYPES, PACKED, Machine
from oracle.syntax import Instr

Array = NDArray[Any]
WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def types(ins: Instr) -> list[str]:
    """The type parts of an opcode, in order."""
    return [part for part in ins.op[1:] if part in DTYPES or part in PACKED]


def reject(ins: Instr) -> NotImplementedError:
    """The error for a form that the oracle does not know."""
    return NotImplementedError(f"PTX form: {ins.text}")


def high_product(a: Array, b: Array) -> Array:
    """Upper half of the full product."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{a.dtype.itemsize * 2}")
        return ((a.astype(wide) * b.astype(wide)) >> bits).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    middle = (x & low) * (y & low) >> half
    first = (x >> half) * (y & low) + middle
    second = (x & low) * (y >> half) + (first & low)
    top = (x >> half) * (y >> half) + (first >> half) + (second >> half)
    if a.dtype.kind == "i":
        top = top - np.where(a < 0, y, 0).astype("u8") - np.where(b < 0, x, 0).astype("u8")
    return top.view(a.dtype)


def magnitude(a: Array) -> Array:
    """Absolute value as an unsigned number of the same width."""
    raw = a.view(f"u{a.dtype.itemsize}")
    return np.where(a < 0, (~raw) + raw.dtype.type(1), raw)


def divide(a: Array, b: Array) -> Array:
    """Quotient rounded towards zero; all ones for a zero divisor."""
    x, y = magnitude(a), magnitude(b)
    q = x // np.where(y == 0, y.dtype.type(1), y)
    q = np.where((a < 0) != (b < 0), (~q) + q.dtype.type(1), q)
    return np.where(b == 0, ~np.zeros_like(q), q).view(a.dtype)


def remainder(a: Array, b: Array) -> Array:
    """Remainder with the dividend's sign; the dividend itself for a zero divisor."""
    x, y = magnitude(a), magnitude(b)
    r = x % np.where(y == 0, y.dtype.type(1), y)
    r = np.where(a < 0, (~r) + r.dtype.type(1), r)
    return np.where(b == 0, a.view(r.dtype), r).view(a.dtype)


def shift_left(a: Array, count: Array) -> Array:
    """Left shift; counts of the width and above give zero."""
    bits = 8 * a.dtype.itemsize
    kept = np.minimum(count, bits - 1).astype(a.dtype)
    return np.where(count >= bits, a.dtype.type(0), a << kept)


def shift_right(a: Array, count: Array) -> Array:
    """Right shift, filled with the sign for signed types; large counts shift everything out."""
    bits = 8 * a.dtype.itemsize
    kept = np.minimum(count, bits - 1).astype(a.dtype)
    shifted = a >> kept
    return shifted if a.dtype.kind == "i" else np.where(count >= bits, a.dtype.type(0), shifted)


def to_bits(a: Array) -> Array:
    """One row of bits a value, least significant first."""
    raw = np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1)
    return np.unpackbits(raw, axis=1, bitorder="little")


def from_bits(bits: Array, dtype: np.dtype[Any]) -> Array:
    """Inverse of :func:`to_bits`."""
    return np.packbits(bits, axis=1, bitorder="little").reshape(-1).view(dtype)


def top_bit(a: Array) -> Array:
    """Position of the highest set bit, -1 for zero."""
    bits = to_bits(a)
    width = bits.shape[1]
    return np.where(a == 0, -1, width - 1 - np.argmax(bits[:, ::-1], axis=1)).astype(np.int64)


def extract(a: Array, pos: Array, length: Array) -> Array:
    """``bfe``."""
    bits = to_bits(a)
    width = bits.shape[1]
    pos, length = pos & 0xFF, length & 0xFF
    rows = np.arange(a.size)
    sign = bits[rows, np.minimum(pos.astype(int) + length - 1, width - 1)] * (length > 0)
    fill = sign if a.dtype.kind == "i" else np.zeros(a.size, int)
    out = np.empty_like(bits)
    for i in range(width):
        inside = (i < length) & (pos.astype(int) + i < width)
        out[:, i] = np.where(inside, bits[rows, np.minimum(pos + i, width - 1)], fill)
    return from_bits(out, a.dtype)


def insert(a: Array, b: Array, pos: Array, length: Array) -> Array:
    """``bfi``: bits of ``a`` into ``b``."""
    field, out = to_bits(a), to_bits(b)
    width = out.shape[1]
    pos, length = (pos & 0xFF).astype(int), (length & 0xFF).astype(int)
    for i in range(width):
        rows = np.flatnonzero((i < length) & (pos + i < width))
        out[rows, pos[rows] + i] = field[rows, i]
    return from_bits(out, b.dtype)


def permute(a: Array, b: Array, selector: Array, mode: str) -> Array:
    """``prmt`` in all its modes."""
    pool = np.stack([a, b], axis=1).view(np.uint8).reshape(-1, 8)
    low = (selector & 3).astype(int)
    out = np.empty((a.size, 4), np.uint8)
    rows = np.arange(a.size)
    for i in range(4):
        if mode == "":
            nibble = (selector >> np.uint32(4 * i)) & 0xF
            byte = pool[rows, (nibble & 7).astype(int)]
            out[:, i] = np.where(nibble & 8, np.where(byte & 0x80, 0xFF, 0), byte)
            continue
        index = {
            "f4e": low + i,
            "b4e": (low - i) % 8,
            "rc8": low,
            "ecl": np.maximum(low, i),
            "ecr": np.minimum(low, i),
            "rc16": (low & 1) * 2 + (i & 1),
        }[mode]
        out[:, i] = pool[rows, index]
    return out.reshape(-1).view(np.uint32)


def _saturated(ins: Instr, exact: Array) -> Array:
    return np.clip(exact, -(2**31), 2**31 - 1).astype(np.int32)


def _sum(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1]
    a, b = (m.get(o, kind, lanes) for o in ins.operands[1:3])
    sign = 1 if ins.op[0] == "add" else -1
    if "sat" in ins.op:
        m.put(ins.operands[0], kind, lanes, _saturated(ins, a.astype(int) + sign * b.astype(int)))
        return
    out = a + b if sign > 0 else a - b
    if "cc" in ins.op:
        x, y = (v.view(f"u{v.dtype.itemsize}") for v in (a, b))
        m.carry[lanes] = out.view(x.dtype) < x if sign > 0 else x < y
    m.put(ins.operands[0], kind, lanes, out)


def _carried_sum(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1]
    unsigned = "u" + kind[1:]
    a, b = (m.get(o, unsigned, lanes) for o in ins.operands[1:3])
    _finish_carry(m, ins, lanes, a, b, ins.op[0] == "subc")


def _finish_carry(m: Machine, ins: Instr, lanes: Array, a: Array, b: Array, minus: bool) -> None:
    carry = m.carry[lanes].astype(a.dtype)
    if minus:
        out = a - b - carry
        after = (a < b) | ((a == b) & (carry > 0))
    else:
        out = a + b + carry
        after = (out < a) | ((out == a) & (carry > 0) & (b != 0))
    if "cc" in ins.op:
        m.carry[lanes] = after
    m.put(ins.operands[0], f"u{8 * a.dtype.itemsize}", lanes, out)


def _product(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1]
    a, b = (m.get(o, kind, lanes) for o in ins.operands[1:3])
    add = ins.op[0].startswith("mad")
    out_kind = WIDER[kind] if "wide" in ins.op else kind
    if ins.op[0] in ("mul24", "mad24"):
        a, b = (_low24(v) for v in (a, b))
        full = a.astype(np.int64) * b.astype(np.int64)
        out = (full if "lo" in ins.op else full >> 16).astype(a.dtype)
    elif "wide" in ins.op:
        out = a.astype(DTYPES[out_kind]) * b.astype(DTYPES[out_kind])
    else:
        out = high_product(a, b) if "hi" in ins.op else a * b
    if add:
        c = m.get(ins.operands[3], out_kind, lanes)
        if "sat" in ins.op:
            out = _saturated(ins, out.astype(int) + c.astype(int))
        elif ins.op[0] == "madc" or "cc" in ins.op:
            return _product_carry(m, ins, lanes, out, c)
        else:
            out = out + c
    m.put(ins.operands[0], out_kind, lanes, out)
    return None


def _product_carry(m: Machine, ins: Instr, lanes: Array, product: Array, c: Array) -> None:
    if ins.op[0] == "mad":
        m.carry[lanes] = False
    unsigned = f"u{product.dtype.itemsize}"
    _finish_carry(m, ins, lanes, product.view(unsigned), c.view(unsigned), False)


def _low24(a: Array) -> Array:
    moved = a << a.dtype.type(8)
    return moved >> a.dtype.type(8)


Simple = Callable[..., Array]

_SAME: dict[str, Simple] = {
    "div": divide,
    "rem": remainder,
    "min": np.minimum,
    "max": np.maximum,
    "abs": lambda a: np.where(a < 0, -a, a),
    "neg": lambda a: -a,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "cnot": lambda a: (a == 0).astype(a.dtype),
    "brev": lambda a: from_bits(to_bits(a)[:, ::-1], a.dtype),
    "sad": lambda a, b, c: c + (np.maximum(a, b) - np.minimum(a, b)),
}  # fmt: skip

_COUNTS: dict[str, Simple] = {
    "popc": lambda a: to_bits(a).sum(axis=1),
    "clz": lambda a: 8 * a.dtype.itemsize - 1 - top_bit(a),
}


def _same(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1]
    args = [m.get(o, kind, lanes) for o in ins.operands[1:]]
    out = _SAME[ins.op[0]](*args)
    if "relu" in ins.op:
        out = np.maximum(out, 0)
    m.put(ins.operands[0], kind, lanes, out)


def _count(m: Machine, ins: Instr, lanes: Array) -> None:
    a = m.get(ins.operands[1], types(ins)[-1], lanes)
    m.put(ins.operands[0], "u32", lanes, _COUNTS[ins.op[0]](a))


def _find(m: Machine, ins: Instr, lanes: Array) -> None:
    a = m.get(ins.operands[1], types(ins)[-1], lanes)
    top = top_bit(np.where(a < 0, ~a, a))
    if "shiftamt" in ins.op:
        top = np.where(top < 0, -1, 8 * a.dtype.itemsize - 1 - top)
    m.put(ins.operands[0], "u32", lanes, top.astype(np.int32).view(np.uint32))


def _shift(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1]
    a, count = m.get(ins.operands[1], kind, lanes), m.get(ins.operands[2], "u32", lanes)
    out = shift_left(a, count) if ins.op[0] == "shl" else shift_right(a, count)
    m.put(ins.operands[0], kind, lanes, out)


def _funnel(m: Machine, ins: Instr, lanes: Array) -> None:
    a, b, c = (m.get(o, "b32", lanes).astype(np.uint64) for o in ins.operands[1:4])
    c = np.minimum(c, np.uint64(32)) if "clamp" in ins.op else c & np.uint64(31)
    both = b << np.uint64(32) | a
    out = (both << c) >> np.uint64(32) if "l" in ins.op else both >> c
    m.put(ins.operands[0], "b32", lanes, out.astype(np.uint32))


def _bfe(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1]
    pos, length = (m.get(o, "u32", lanes) for o in ins.operands[2:4])
    out = extract(m.get(ins.operands[1], kind, lanes), pos, length)
    m.put(ins.operands[0], kind, lanes, out)


def _bfi(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1]
    a, b = (m.get(o, kind, lanes) for o in ins.operands[1:3])
    pos, length = (m.get(o, "u32", lanes) for o in ins.operands[3:5])
    m.put(ins.operands[0], kind, lanes, insert(a, b, pos, length))


def _mask(m: Machine, ins: Instr, lanes: Array) -> None:
    a, b = (m.get(o, "u32", lanes).astype(np.uint64) for o in ins.operands[1:3])
    if "clamp" in ins.op:
        a, b = np.minimum(a, 32), np.minimum(b, 32)
    else:
        a, b = a & np.uint64(31), b & np.uint64(31)
    out = ((np.uint64(1) << b) - np.uint64(1)) << a
    m.put(ins.operands[0], "b32", lanes, (out & np.uint64(0xFFFFFFFF)).astype(np.uint32))


def _sign_extend(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1]
    a, b = m.get(ins.operands[1], kind, lanes), m.get(ins.operands[2], "u32", lanes)
    b = np.minimum(b, 32) if "clamp" in ins.op else b & np.uint32(31)
    m.put(ins.operands[0], kind, lanes, extract(a, np.zeros_like(b), b))


def _prmt(m: Machine, ins: Instr, lanes: Array) -> None:
    a, b, c = (m.get(o, "b32", lanes) for o in ins.operands[1:4])
    mode = ins.op[2] if len(ins.op) > 2 else ""
    m.put(ins.operands[0], "b32", lanes, permute(a, b, c, mode))


def _lop3(m: Machine, ins: Instr, lanes: Array) -> None:
    if len(ins.operands) != 5:
        raise reject(ins)
    a, b, c = (m.get(o, "b32", lanes) for o in ins.operands[1:4])
    lut = int(m.get(ins.operands[4], "u32", lanes)[0])
    out = np.zeros_like(a)
    for term in range(8):
        if lut >> term & 1:
            x = a if term & 4 else ~a
            y = b if term & 2 else ~b
            out |= x & y & (c if term & 1 else ~c)
    m.put(ins.operands[0], "b32", lanes, out)


def _dot(m: Machine, ins: Instr, lanes: Array) -> None:
    first, second = types(ins)[-2:]
    a, b = (m.get(o, "b32", lanes) for o in ins.operands[1:3])
    left = 1 if ins.op[0] == "dp4a" else 2
    bytes_a = a.view(f"{'i' if first[0] == 's' else 'u'}{left}").reshape(-1, 4 // left).astype(int)
    bytes_b = b.view("i1" if second[0] == "s" else "u1").reshape(-1, 4).astype(int)
    if left == 2:
        bytes_b = bytes_b[:, 2:] if "hi" in ins.op else bytes_b[:, :2]
    signed = "s" in (first[0], second[0])
    kind = "s32" if signed else "u32"
    total = (bytes_a * bytes_b).sum(axis=1) + m.get(ins.operands[3], kind, lanes)
    m.put(ins.operands[0], kind, lanes, total.astype(DTYPES[kind]))


def _differences(m: Machine, ins: Instr, lanes: Array) -> None:
    """``vabsdiff2`` and ``vabsdiff4``: elements one by one, or with ``.add`` their sum plus c."""
    count = int(ins.op[0][-1])
    kinds = types(ins)
    views = [f"{'i' if k[0] == 's' else 'u'}{4 // count}" for k in kinds]
    a, b = (m.get(o, "b32", lanes).view(v).reshape(-1, count).astype(np.int64)
            for o, v in zip(ins.operands[1:3], views[1:], strict=True))  # fmt: skip
    apart = np.abs(a - b)
    if "sat" in ins.op or any(p in ("b0", "h0") for p in ins.op):
        raise reject(ins)
    c = m.get(ins.operands[3], "u32", lanes)
    if "add" in ins.op:
        out = (apart.sum(axis=1) + c).astype(np.uint32)
    else:
        out = np.ascontiguousarray(apart.astype(f"u{4 // count}")).reshape(-1).view(np.uint32)
    m.put(ins.operands[0], "u32", lanes, out)


def _find_nth(m: Machine, ins: Instr, lanes: Array) -> None:
    """``fns``: the nth set bit from ``base`` on, upwards or downwards; n = 0: is base set?"""
    mask, base = (m.get(o, "u32", lanes) for o in ins.operands[1:3])
    offset = m.get(ins.operands[3], "s32", lanes)
    out = np.full(lanes.size, 0xFFFFFFFF, np.uint32)
    for k, (word, start, n) in enumerate(zip(mask.tolist(), base.tolist(), offset.tolist(),
                                             strict=True)):  # fmt: skip
        step = -1 if n < 0 else 1
        stop = start + 1 if n == 0 else -1 if n < 0 else 32
        found = [i for i in range(start, stop, step) if word >> i & 1]
        if len(found) >= max(abs(n), 1):
            out[k] = found[max(abs(n), 1) - 1]
    m.put(ins.operands[0], "b32", lanes, out)


def _copy(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1]
    m.put(ins.operands[0], kind, lanes, m.get(ins.operands[1], kind, lanes))


def _select(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1]
    a, b = (m.get(o, kind, lanes) for o in ins.operands[1:3])
    chosen = m.get(ins.operands[3], "pred", lanes)
    m.put(ins.operands[0], kind, lanes, np.where(chosen, a, b))


def _select_sign(m: Machine, ins: Instr, lanes: Array) -> None:
    kind, by = types(ins)[-2:]
    a, b = (m.get(o, kind, lanes) for o in ins.operands[1:3])
    c = m.get(ins.operands[3], by, lanes)
    m.put(ins.operands[0], kind, lanes, np.where(c >= 0, a, b))


INTEGER: dict[str, Callable[[Machine, Instr, Array], None]] = {
    "add": _sum, "sub": _sum, "addc": _carried_sum, "subc": _carried_sum,
    "mul": _product, "mad": _product, "madc": _product, "mul24": _product, "mad24": _product,
    **dict.fromkeys(_SAME, _same), **dict.fromkeys(_COUNTS, _count),
    "bfind": _find, "shl": _shift, "shr": _shift, "shf": _funnel, "bfe": _bfe, "bfi": _bfi,
    "bmsk": _mask, "szext": _sign_extend, "prmt": _prmt, "lop3": _lop3, "dp4a": _dot,
    "dp2a": _dot, "vabsdiff2": _differences, "vabsdiff4": _differences, "fns": _find_nth,
    "mov": _copy, "selp": _select, "slct": _select_sign,
}  # fmt: skip
