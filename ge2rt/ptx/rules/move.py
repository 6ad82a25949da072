"""``mov``: copies, and packing of vectors into one register and back."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.ast import Instr, Vector
from ge2rt.ptx.emit import BITS, Emitter, Value
from ge2rt.ptx.rules.operands import cast, cast_all, integer, types_of


def move(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``mov``: the first element of a vector is the low part."""
    t = types_of(i)[-1]
    target, source = i.operands[0], i.operands[-1]
    if isinstance(target, Vector) and not isinstance(source, Vector):
        return _unpack(e, cast(e, src[0], f"i{BITS[t.llvm]}"), len(target.items))
    if isinstance(source, Vector) and not isinstance(target, Vector):
        return [cast(e, _pack(e, src, BITS[t.llvm]), t.llvm)]
    return cast_all(e, src, t.llvm)


def _unpack(e: Emitter, word: Value, parts: int) -> list[Value]:
    bits = BITS[word.type] // parts
    if word.lanes:  # shuffles, which meet those of a warp: shifts did not, and took longer
        flat = e.reinterpret(word, f"i{bits}", word.lanes * parts)
        return [e.shuffle(flat, None, range(k, flat.lanes, parts)) for k in range(parts)]
    out = []
    for k in range(parts):
        moved = e.binary("lshr", word, integer(word.type, k * bits)) if k else word
        out.append(e.convert("trunc", moved, f"i{bits}"))
    return out


def _pack(e: Emitter, parts: Sequence[Value], bits: int) -> Value:
    each, wide = bits // len(parts), f"i{bits}"
    if len(parts) == 2 and any(part.lanes for part in parts):
        low, high = e.alike([cast(e, part, f"i{each}") for part in parts])
        lanes = low.lanes
        woven = e.shuffle(low, high, [lane + side for lane in range(lanes) for side in (0, lanes)])
        return e.reinterpret(woven, wide, lanes)
    result = e.convert("zext", cast(e, parts[0], f"i{each}"), wide)
    for k, part in enumerate(parts[1:], 1):
        up = e.convert("zext", cast(e, part, f"i{each}"), wide)
        result = e.binary("or", result, e.binary("shl", up, integer(wide, k * each)))
    return result


ROWS = (("mov", "pred u8 s8 b8 u16 u32 u64 s16 s32 s64 b16 b32 b64 b128 f32 f64", "", move),)
