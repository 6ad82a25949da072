"""What is known at compile time about a register's values over the lanes of a warp.

A :class:`Lanes` says that lane l holds ``lane 0's value + offsets[l]`` modulo 2**bits: one scalar
(lane 0's value) is computed at run time for the whole warp. No offsets: all lanes hold the same
value ("uniform"). A register of which this cannot be said has ``VARYING`` (None) and lives in a
vector.

Because the scalar is always lane 0's value, the code for an affine result is the same instruction
on the scalars of its sources; only the offsets are worked out here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ge2rt.ptx.ast import Imm, Instr

Offsets = tuple[int, ...]


@dataclass(frozen=True)
class Lanes:
    """Offsets from lane 0 (``()``: all zero) and facts about the values.

    Lane 0's value is ``residue`` modulo ``2**known``; all values lie in ``low..high`` as signed
    integers where these are not None. ``known`` = 64 means a constant.
    """

    offsets: Offsets = ()
    known: int = 0
    residue: int = 0
    low: int | None = None
    high: int | None = None

    @property
    def uniform(self) -> bool:
        """Whether all lanes hold the same value."""
        return not self.offsets

    def carry_free(self) -> bool:
        """Whether adding the offsets to lane 0's value changes only its known low bits."""
        if not self.offsets:
            return True
        return (
            self.known > 0
            and min(self.offsets) + self.residue >= 0
            and max(self.offsets) + self.residue < 1 << self.known
        )

    def fits(self, signed: bool) -> bool:
        """Whether widening each lane equals widening lane 0 and adding the offsets."""
        if self.carry_free():
            return True
        return self.low is not None and (signed or self.low >= 0)

    def lane(self, index: int) -> int:
        """The offset of a lane."""
        return self.offsets[index] if self.offsets else 0


VARYING: Lanes | None = None
UNIFORM = Lanes()
FULL = 64


def constant(value: int) -> Lanes:
    """Facts of a literal."""
    return Lanes((), FULL, value & ((1 << FULL) - 1), value, value)


def counted(
    offsets: Sequence[int], known: int = 0, low: int | None = 0, high: int | None = None
) -> Lanes:
    """Lanes with the given offsets, lane 0 a multiple of ``2**known``, values in low..high."""
    return Lanes(_trim(tuple(offsets)), known, 0, low if high is not None else None, high)


def join(a: Lanes, b: Lanes, widen: bool) -> Lanes | None:
    """What holds for a register with both as definitions; ``widen`` gives up a growing range."""
    if a == b:
        return a
    if a.offsets != b.offsets:
        return VARYING
    known = min(a.known, b.known, _agreeing_bits(a.residue, b.residue))
    low = high = None
    if a.low is not None and b.low is not None and a.high is not None and b.high is not None:
        low, high = min(a.low, b.low), max(a.high, b.high)
        if widen and (low, high) != (a.low, a.high):
            low = high = None
    return Lanes(a.offsets, known, a.residue & ((1 << known) - 1), low, high)


def _agreeing_bits(a: int, b: int) -> int:
    differing = a ^ b
    return FULL if not differing else (differing & -differing).bit_length() - 1


def _trim(offsets: Offsets) -> Offsets:
    return offsets if any(offsets) else ()


def wrap(value: int, bits: int) -> int:
    """A value as a signed integer of ``bits``."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _make(
    offsets: Sequence[int], bits: int, known: int, residue: int, span: tuple[int, int] | None = None
) -> Lanes:
    low = high = None
    if span is not None and -(1 << (bits - 1)) <= span[0] and span[1] < 1 << (bits - 1):
        low, high = span
    wrapped = _trim(tuple([wrap(o, bits) for o in offsets])) if offsets else ()
    if wrapped:
        known = min(known, bits - 1)  # the sign bit stays with the unknown high part
    elif known >= bits:
        known, residue = FULL, wrap(residue, bits)
        low = high = residue
    return Lanes(wrapped, known, residue & ((1 << known) - 1), low, high)


def _span(v: Lanes) -> tuple[int, int] | None:
    return (v.low, v.high) if v.low is not None and v.high is not None else None


# -- arithmetic ------------------------------------------------------------------------------


def add(a: Lanes, b: Lanes, bits: int, sign: int = 1) -> Lanes:
    """``a + sign * b`` modulo 2**bits."""
    if not b.offsets:
        offsets = a.offsets
    elif not a.offsets:
        offsets = tuple([sign * y for y in b.offsets])
    else:
        offsets = tuple([x + sign * y for x, y in zip(a.offsets, b.offsets, strict=True)])
    span, other = _span(a), _span(b)
    if span and other:
        if sign < 0:
            other = (-other[1], -other[0])
        span = (span[0] + other[0], span[1] + other[1])
    else:
        span = None
    return _make(offsets, bits, min(a.known, b.known), a.residue + sign * b.residue, span)


def multiply(a: Lanes, b: Lanes, bits: int) -> Lanes | None:
    """The low ``bits`` of the product."""
    if a.known == FULL and a.uniform:
        a, b = b, a
    if b.known == FULL and b.uniform:
        factor = wrap(b.residue, FULL)
        return scale(a, factor, bits)
    if a.offsets or b.offsets:
        return VARYING
    span = None
    if (x := _span(a)) and (y := _span(b)):
        products = [p * q for p in x for q in y]
        span = (min(products), max(products))
    zeros = _trailing(a) + _trailing(b)
    return _make((), bits, min(zeros, FULL - 1), 0, span)


def _trailing(v: Lanes) -> int:
    """How many low bits of lane 0's value are known to be zero."""
    if v.known == 0:
        return 0
    if v.residue == 0:
        return v.known
    return (v.residue & -v.residue).bit_length() - 1


def scale(a: Lanes, factor: int, bits: int) -> Lanes:
    """``a * factor`` modulo 2**bits."""
    if factor == 0:
        return constant(0)
    span = _span(a)
    if span:
        ends = (span[0] * factor, span[1] * factor)
        span = (min(ends), max(ends))
    zeros = (factor & -factor).bit_length() - 1
    known = a.known if a.known == FULL else a.known + zeros
    return _make([o * factor for o in a.offsets], bits, known, a.residue * factor, span)


def shift_right(a: Lanes, count: int, bits: int, signed: bool) -> Lanes | None:
    """A right shift by a constant (PTX clamps the count)."""
    if count >= bits:
        count = bits - 1 if signed else bits
    span = _span(a)
    if span and not signed and span[0] < 0:
        span = None
    if span:
        span = (span[0] >> count, span[1] >> count)
    if a.known == FULL:
        value = wrap(a.residue, bits) if signed else a.residue & ((1 << bits) - 1)
        return constant(value >> count)
    if span and span[0] == span[1]:
        return constant(span[0])
    if not a.offsets:
        known = max(a.known - count, 0)
        return _make((), bits, known, a.residue >> count, span)
    if not a.carry_free():
        return VARYING
    first = a.residue >> count
    offsets = [((a.residue + o) >> count) - first for o in a.offsets]
    return _make(offsets, bits, max(a.known - count, 0), first, span)


def bitwise(values: Sequence[Lanes], rule: Callable[..., int], bits: int) -> Lanes | None:
    """A bit-by-bit function of up to three values: the known low bits apart from the high ones."""
    if all(v.uniform for v in values):
        known = min(v.known for v in values)
        residue = rule(*(v.residue for v in values))
        return _make((), bits, known, residue, _bitwise_span(values, rule))
    known = min(v.known for v in values)
    if known == 0:
        return VARYING
    mask = (1 << known) - 1
    width = max(len(v.offsets) for v in values)
    lows = [[(v.residue + v.lane(k)) & mask for v in values] for k in range(width)]
    results = [rule(*low) & mask for low in lows]
    offsets = [r - results[0] for r in results]
    if not all(_below(v, known) for v in values) and not _high_bits_vanish(
        values, rule, known, bits
    ):
        return VARYING
    return _make(offsets, bits, known, results[0], _bitwise_span(values, rule))


def _below(v: Lanes, known: int) -> bool:
    """Whether the offsets change only the lowest ``known`` bits."""
    mask = (1 << known) - 1
    first = v.residue & mask
    return not v.offsets or (min(v.offsets) + first >= 0 and max(v.offsets) + first <= mask)


def _high_bits_vanish(
    values: Sequence[Lanes], rule: Callable[..., int], known: int, bits: int
) -> bool:
    """Whether the bits from ``known`` on of the result are 0 whatever the unknown values are."""
    if len(values) != 2:
        return False
    high = ((1 << bits) - 1) >> known << known
    for at, v in enumerate(values):
        if v.known == FULL and v.uniform and not v.residue & high:
            others = [0, high]
            return all(not rule(*((0, o) if at == 0 else (o, 0))) & high for o in others)
    return False


def _bitwise_span(values: Sequence[Lanes], rule: Callable[..., int]) -> tuple[int, int] | None:
    """Non-negative inputs give a result below the next power of two (and ``&`` below each)."""
    if len(values) == 2 and rule(-1, 0) == 0 and rule(0, -1) == 0 and rule(-1, -1) == -1:
        highs = [v.high for v in values if v.low is not None and v.low >= 0 and v.high is not None]
        return (0, min(highs)) if highs else None
    if any(v.low is None or v.low < 0 or v.high is None for v in values):
        return None
    if rule(*(0 for _ in values)) != 0:
        return None
    return 0, (1 << max((v.high or 0).bit_length() for v in values)) - 1


def widen(a: Lanes, bits: int, to: int, signed: bool, trusted: bool) -> Lanes | None:
    """Sign or zero extension. ``trusted``: the result is only an address (see :func:`transfer`)."""
    if not a.fits(signed) and not trusted:
        return VARYING
    span = _span(a)
    if span and not signed and span[0] < 0:
        span = None
    if span is None and not a.offsets and not signed and bits < to:
        span = (0, (1 << bits) - 1)
    if span is None and not a.offsets and signed:
        span = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if a.known == FULL:
        value = wrap(a.residue, bits) if signed else a.residue & ((1 << bits) - 1)
        return _make(a.offsets, to, FULL, value, span)
    return _make(a.offsets, to, min(a.known, bits), a.residue, span)


# -- instructions ----------------------------------------------------------------------------

_WIDTH = {"pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "b32": 32,
          "u32": 32, "s32": 32, "b64": 64, "u64": 64, "s64": 64}  # fmt: skip


def integer_bits(type: str) -> int | None:
    """The width of an integer PTX type, else None."""
    return _WIDTH.get(type)


Rule = Callable[[Instr, "Sequence[Lanes]", int, bool], "Lanes | None"]


def _add(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    return VARYING if instr.has("sat") or instr.has("cc") else add(s[0], s[1], bits)


def _sub(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    return VARYING if instr.has("sat") or instr.has("cc") else add(s[0], s[1], bits, -1)


def _neg(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    return add(constant(0), s[0], bits, -1)


def _not(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    return add(constant(-1), s[0], bits, -1)


def _mul(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    if instr.has("hi") or instr.has("sat") or instr.has("cc"):
        return VARYING
    if not instr.has("wide"):
        return multiply(s[0], s[1], bits)
    signed = instr.types[0].startswith("s")
    a = widen(s[0], bits, 2 * bits, signed, trusted)
    b = widen(s[1], bits, 2 * bits, signed, trusted)
    return VARYING if a is None or b is None else multiply(a, b, 2 * bits)


def _mad(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    product = _mul(instr, s, bits, trusted)
    if product is None:
        return VARYING
    return add(product, s[2], 2 * bits if instr.has("wide") else bits)


def _shl(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    if s[1].known != FULL or s[1].offsets:
        return VARYING
    count = s[1].residue & 0xFFFFFFFF
    return constant(0) if count >= bits else scale(s[0], 1 << count, bits)


def _shr(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    if s[1].known != FULL or s[1].offsets:
        return VARYING
    return shift_right(s[0], s[1].residue & 0xFFFFFFFF, bits, instr.types[0].startswith("s"))


def _and(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    return bitwise(s, lambda a, b: a & b, bits)


def _or(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    return bitwise(s, lambda a, b: a | b, bits)


def _xor(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    return bitwise(s, lambda a, b: a ^ b, bits)


def _lop3(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    table = instr.operands[4] if len(instr.operands) > 4 else None
    if not isinstance(table, Imm) or len(instr.types) != 1:
        return VARYING
    lut = table.value

    def rule(a: int, b: int, c: int) -> int:
        result = 0
        for row in range(8):
            if lut >> row & 1:
                x = a if row & 4 else ~a
                y = b if row & 2 else ~b
                z = c if row & 1 else ~c
                result |= x & y & z
        return result

    return bitwise(s[:3], rule, bits)


def _mov(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    return s[0] if len(s) == 1 else VARYING


def _cvt(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    if len(instr.types) != 2 or instr.has("sat"):
        return VARYING
    to, given = integer_bits(instr.types[0]), integer_bits(instr.types[1])
    if to is None or given is None:
        return VARYING
    source = s[0]
    narrow = narrowed(source, given) if given < FULL else source
    if to <= given:
        return narrowed(narrow, to) if to >= 16 else VARYING  # 8 bits lie extended in a register
    return widen(narrow, given, to, instr.types[1].startswith("s"), trusted)


def narrowed(a: Lanes, bits: int) -> Lanes:
    """The low bits of a wider value."""
    span = _span(a)
    return _make(a.offsets, bits, a.known, a.residue, span)


def _rem(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    divisor = _power_of_two(s)
    if divisor is None or (instr.types[0].startswith("s") and (s[0].low is None or s[0].low < 0)):
        return VARYING
    return bitwise((s[0], constant(divisor - 1)), lambda a, b: a & b, bits)


def _div(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    divisor = _power_of_two(s)
    if divisor is None or (instr.types[0].startswith("s") and (s[0].low is None or s[0].low < 0)):
        return VARYING
    return shift_right(s[0], divisor.bit_length() - 1, bits, False)


def _field(s: Sequence[Lanes], bits: int) -> tuple[int, int] | None:
    """Constant position and length of a bit field that lies inside the register."""
    if any(v.known != FULL or v.offsets for v in s):
        return None
    position, length = s[0].residue & 0xFF, s[1].residue & 0xFF
    return (position, length) if position + length <= bits and length else None


def _bfi(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    field = _field(s[2:4], bits)
    if field is None:
        return VARYING
    mask = ((1 << field[1]) - 1) << field[0]
    inserted = scale(s[0], 1 << field[0], bits)
    high = bitwise((inserted, constant(wrap(mask, bits))), lambda a, b: a & b, bits)
    low = bitwise((s[1], constant(wrap(~mask, bits))), lambda a, b: a & b, bits)
    if high is None or low is None:
        return VARYING
    return bitwise((high, low), lambda a, b: a | b, bits)


def _bfe(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    field = _field(s[1:3], bits)
    if field is None or instr.types[0].startswith("s"):
        return VARYING
    moved = shift_right(s[0], field[0], bits, False)
    if moved is None:
        return VARYING
    mask = constant(wrap((1 << field[1]) - 1, bits))
    return bitwise((moved, mask), lambda a, b: a & b, bits)


def _power_of_two(s: Sequence[Lanes]) -> int | None:
    value = s[1].residue
    exact = s[1].known == FULL and s[1].uniform and value > 0 and not value & (value - 1)
    return value if exact else None


def _setp(instr: Instr, s: Sequence[Lanes], bits: int, trusted: bool) -> Lanes | None:
    """Whether one answer holds for all lanes, as of ``tid < 64`` or ``tid / 32 == 0``."""
    signed = instr.types[0].startswith("s")
    if len(s) != 2 or not all(v.fits(signed) for v in s):
        return VARYING
    a, b = s
    unit = 1 << min(a.known, b.known, bits)  # lane 0's difference is its residue and so many of it
    lanes = max(len(a.offsets), len(b.offsets), 1)
    gaps = [a.lane(k) - b.lane(k) + a.residue - b.residue for k in range(lanes)]
    compare = instr.mods[0]
    if compare in ("eq", "ne"):
        return VARYING if any(gap % unit == 0 for gap in gaps) else UNIFORM
    if compare in ("lt", "ge", "lo", "hs"):
        return UNIFORM if len({gap // unit for gap in gaps}) == 1 else VARYING
    if compare in ("gt", "le", "hi", "ls"):
        return UNIFORM if len({(gap - 1) // unit for gap in gaps}) == 1 else VARYING
    return VARYING


RULES: dict[str, Rule] = {
    "add": _add, "sub": _sub, "neg": _neg, "not": _not, "mul": _mul, "mad": _mad, "shl": _shl,
    "shr": _shr, "and": _and, "or": _or, "xor": _xor, "lop3": _lop3, "mov": _mov, "cvt": _cvt,
    "rem": _rem, "div": _div, "cvta": _mov,
    "bfi": _bfi, "bfe": _bfe, "setp": _setp,
}  # fmt: skip


def transfer(instr: Instr, given: Sequence[Lanes | None], trusted: bool = False) -> Lanes | None:
    """The lanes of the result of a pure instruction with one destination.

    ``trusted`` allows to widen an affine index whose lanes cannot be proved to stay within 32 bits,
    because the result is used as an address only: lanes on both sides of the wrap would be accesses
    4 GiB of elements apart. Zero extension then counts from the lane with the greatest offset (see
    :func:`counts_from_top`), so that ``tid - 1u`` is right in each lane but the one that wraps.
    """
    known = [v for v in given if v is not None]
    if len(known) != len(given):
        return VARYING
    rule = RULES.get(instr.op)
    bits = integer_bits(instr.types[0]) if instr.types else None
    result: Lanes | None = VARYING
    if rule is not None and bits is not None and bits > 1 and known:
        result = rule(instr, known, bits, trusted)
    if result is None and not any(v.offsets for v in known):
        return UNIFORM
    return result


def counts_from_top(instr: Instr, sources: Sequence[Lanes]) -> bool:
    """Whether this is a zero extension of an affine value that might wrap (a trusted one)."""
    if not instr.types or not any(v.offsets for v in sources):
        return False
    if instr.op == "cvt" and len(instr.types) == 2:
        to, given = integer_bits(instr.types[0]), integer_bits(instr.types[1])
        if to is None or given is None or to <= given or not instr.types[1].startswith("u"):
            return False
        return not narrowed(sources[0], given).fits(signed=False)
    if instr.op in ("mul", "mad") and instr.has("wide") and instr.types[0].startswith("u"):
        return not all(v.fits(signed=False) for v in sources[:2])
    return False
