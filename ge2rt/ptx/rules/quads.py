"""``mma.sync.m8n8k4`` of halves: four products at once, each by eight lanes.

Product q is that of lanes 4q .. 4q + 3 and 16 + 4q .. 16 + 4q + 3 (PTX ISA, "Matrix Fragments for
mma.m8n8k4 with .f16 floating point type"); A and B may each lie by rows or by columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.ast import Instr
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.rules.operands import PtxType, cast, integer, types_of, unsupported
from ge2rt.ptx.rules.views import close_half, open_half
from ge2rt.ptx.rules.warp import WARP

K = 4
Place = tuple[int, int]  # lane, element


def is_quads(i: Instr) -> bool:
    """Whether it is the form with halves of the shape."""
    return i.has("m8n8k4") and "f16" in i.mods


def _holder(quad: int, outer: int, k: int, *, along: bool) -> Place:
    """Who holds element (outer, k) of A, or (k, outer) of B, of a product.

    ``along``: a lane's four elements are those of four k.
    """
    member, element = (outer % 4, k) if along else (k, outer % 4)
    return 4 * quad + member + 16 * (outer // 4), element


def _place(lane: int, element: int, type: PtxType) -> Place:
    """Row and column of an element of C or D."""
    upper = 4 if lane >= 16 else 0
    if type.name == "f16":
        return lane % 4 + upper, element
    return (lane & 1) + (element & 2) + upper, (element & 4) + (lane & 2) + (element & 1)


def multiply_accumulate(e: Emitter, i: Instr, src: Sequence[Value], mask: Value) -> list[Value]:
    """Products summed in k order by fma, in float."""
    kinds = types_of(i)
    layouts = [m for m in i.mods if m in ("row", "col")]
    if len(kinds) != 4 or len(layouts) != 2 or not i.has("sync"):
        raise unsupported(i)
    d, a, b, c = kinds
    if (a.name, b.name) != ("f16", "f16") or c.name not in ("f16", "f32") or d.name != c.name:
        raise unsupported(i)
    if len(src) != 4 + (4 if c.name == "f16" else 8):
        raise unsupported(i, f"{len(src)} source registers")

    def body(inner: Emitter, given: Sequence[Value]) -> list[Value]:
        left = joined(inner, _halves(inner, given[:2]))
        right = joined(inner, _halves(inner, given[2:4]))
        total = _halves(inner, given[4:]) if c.name == "f16" else list(given[4:])
        along = (layouts[0] == "row", layouts[1] == "col")
        sums = []
        for at, value in enumerate(total):
            places = [_place(lane, at, c) for lane in range(WARP)]
            sums.append(_sum(inner, cast(inner, value, "float"), (left, right), places, along))
        return packed(inner, sums) if c.name == "f16" else sums

    return e.outline(f"ge2rt.{i.form}", src, body)


def _sum(
    e: Emitter, total: Value, matrices: tuple[Value, Value], places: Sequence[Place],
    along: tuple[bool, bool],
) -> Value:  # fmt: skip
    for k in range(K):
        factors = []
        for side, matrix in enumerate(matrices):
            picks = []
            for lane, place in enumerate(places):
                at, element = _holder(lane % 16 // 4, place[side], k, along=along[side])
                picks.append(WARP * element + at)
            factors.append(e.shuffle(matrix, None, picks))
        total = e.call("llvm.fma", (*factors, total))
    return total


def _halves(e: Emitter, registers: Sequence[Value]) -> list[Value]:
    found: list[Value] = []
    for register in registers:
        word = cast(e, register, "i32")
        for shift in (0, 16):
            low = e.binary("lshr", word, integer("i32", shift)) if shift else word
            found.append(open_half(e, e.convert("trunc", low, "i16"), False))
    return found


def joined(e: Emitter, pieces: Sequence[Value]) -> Value:
    """Vectors of one length end to end; a power of two of them."""
    while len(pieces) > 1:
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces = [e.shuffle(x, y, range(2 * x.lanes)) for x, y in pairs]
    return pieces[0]


def packed(e: Emitter, sums: Sequence[Value]) -> list[Value]:
    """Floats rounded to halves, two neighbours in a register."""
    halves = [e.convert("zext", close_half(e, s, False), "i32") for s in sums]
    sixteen = integer("i32", 16)
    return [
        e.binary("or", low, e.binary("shl", high, sixteen))
        for low, high in zip(halves[::2], halves[1::2], strict=True)
    ]
