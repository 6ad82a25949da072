"""``mma.sync`` and ``movmatrix`` on a warp of 32 lanes.

All shapes with eight columns share one fragment layout (PTX ISA, "Matrix Fragments for mma"). With
g = lane / 4, t = lane % 4 and p elements a 32-bit register: register r of A holds row
g + 8 * (r % row blocks) and k = (r / row blocks) * 4p + t * p + (0..p-1); register r of B holds
k = r * 4p + t * p + (0..p-1) of column g; C has columns 2t and 2t + 1 of row g of each row block.

So for one k the A operand of a lane sits in its own group of four lanes (a shuffle within 128
bits), and the B operand is the same for all groups: the product runs as FMAs over 512-bit chunks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ge2rt.ptx.ast import Instr
from ge2rt.ptx.emit import BITS, Emitter, Value
from ge2rt.ptx.rules import fp8, quads
from ge2rt.ptx.rules.api import WarpRule
from ge2rt.ptx.rules.operands import PtxType, cast, integer, number, types_of, unsupported
from ge2rt.ptx.rules.views import open_half
from ge2rt.ptx.rules.warp import WARP, whole_warp

_SHAPE = re.compile(r"m(\d+)n8k(\d+)")
# Accumulator and A element -> shapes (rows, k).
SHAPES: dict[tuple[str, str], tuple[tuple[int, int], ...]] = {
    **{(acc, "f16"): ((16, 8), (16, 16)) for acc in ("f16", "f32")},
    ("f32", "bf16"): ((16, 8), (16, 16)),
    ("f32", "tf32"): ((16, 4), (16, 8)),
    **{("f32", fp): ((16, 16), (16, 32)) for fp in ("e4m3", "e5m2")},
    ("f64", "f64"): ((8, 4), (16, 4), (16, 8), (16, 16)),
    **{("s32", byte): ((8, 16), (16, 16), (16, 32)) for byte in ("s8", "u8")},
    **{("s32", nibble): ((8, 32), (16, 32), (16, 64)) for nibble in ("s4", "u4")},
    ("s32", "b1"): ((8, 128), (16, 128), (16, 256)),
}


@dataclass(frozen=True)
class Tile:
    """A multiply-accumulate: row blocks of eight, depth, types."""

    blocks: int
    k: int
    d: PtxType
    a: PtxType
    b: PtxType
    c: PtxType

    @property
    def pack(self) -> int:
        """Elements in one register of A or B."""
        return max(32 // self.a.bits, 1)

    @property
    def registers(self) -> tuple[int, int, int]:
        """Registers of A, B and C."""
        deep = self.k // (4 * self.pack)
        wide = 2 if self.c.name == "f16" else 1
        return self.blocks * deep, deep, 2 * self.blocks // wide


def read_tile(i: Instr) -> Tile:
    """The shape and types of ``mma.sync.aligned.mMnNkK.row.col.D.A.B.C``."""
    kinds = types_of(i)
    shape = next((m for mod in i.mods if (m := _SHAPE.fullmatch(mod))), None)
    known = {"sync", "aligned", "row", "col", "satfinite", "kind::f8f6f4"}
    if "b1" in i.mods and i.has("popc") and (i.has("xor") or i.has("and")):
        known |= {"popc", "xor", "and"}
    odd = [m for m in i.mods if m not in known and not _SHAPE.fullmatch(m)]
    layouts = [m for m in i.mods if m in ("row", "col")]
    if shape is None or len(kinds) != 4 or len(odd) != 4 or layouts != ["row", "col"]:
        raise unsupported(i)
    d, a, b, c = kinds
    rows, k = int(shape[1]), int(shape[2])
    if (rows, k) not in SHAPES.get((c.name, a.name), ()) or a.bits != b.bits or d.kind != c.kind:
        raise unsupported(i)
    return Tile(rows // 8, k, d, a, b, c)


def accumulate(
    e: Emitter, i: Instr, tile: Tile, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value]
) -> list[Value]:
    """Registers of A, B and C to those of D, eight columns wide."""
    if tile.a.name == "b1":
        return _count_bits(e, i, tile, (a, b), c)
    left, right = ([_elements(e, v, t) for v in vs] for vs, t in ((a, tile.a), (b, tile.b)))
    if tile.c.name == "s32":
        zero = e.splat(number("float", 0.0), WARP)
        sums = _product(e, tile, left, right, [zero] * (2 * tile.blocks))
        return [_add_whole(e, i, s, v) for s, v in zip(sums, c, strict=True)]
    if tile.c.name == "f16":
        given = [part for v in c for part in _elements(e, v, tile.c)]
    else:
        given = [cast(e, v, tile.c.llvm) for v in c]
    return _close(e, tile, _product(e, tile, left, right, given))


def multiply_accumulate(e: Emitter, i: Instr, src: Sequence[Value], mask: Value) -> list[Value]:
    """``mma.sync``: float products summed in k order by fma; whole numbers exactly."""
    if quads.is_quads(i):
        return quads.multiply_accumulate(e, i, src, mask)
    tile = read_tile(i)
    count_a, count_b, count_c = tile.registers
    if len(src) != count_a + count_b + count_c:
        raise unsupported(i, f"{len(src)} source registers")
    split = count_a + count_b

    def body(inner: Emitter, given: Sequence[Value]) -> list[Value]:
        return accumulate(inner, i, tile, given[:count_a], given[count_a:split], given[split:])

    # a kernel has dozens of these, each with hundreds of instructions
    return e.outline(f"ge2rt.{i.form}", src, body)


def _elements(e: Emitter, register: Value, t: PtxType) -> list[Value]:
    """The elements of each lane's register as vectors of float (or double), lowest first."""
    if t.llvm == "double":
        return [cast(e, register, "double")]
    word = cast(e, register, "i32")
    if t.name == "tf32":
        kept = e.binary("and", word, integer("i32", ~0x1FFF))
        return [e.bitcast(kept, "float")]
    if t.name == "bf16":
        low, high = e.binary("shl", word, integer("i32", 16)), integer("i32", -1 << 16)
        return [e.bitcast(low, "float"), e.bitcast(e.binary("and", word, high), "float")]
    return [_element(e, word, t, k) for k in range(32 // t.bits)]


def _element(e: Emitter, word: Value, t: PtxType, k: int) -> Value:
    if t.kind != "f":
        rest = 32 - t.bits
        up = e.binary("shl", word, integer("i32", rest - t.bits * k))
        whole = e.binary("ashr" if t.signed else "lshr", up, integer("i32", rest))
        return e.convert("sitofp", whole, "float")
    low = e.binary("lshr", word, integer("i32", t.bits * k)) if k else word
    bits = e.convert("trunc", low, f"i{t.bits}")
    return open_half(e, bits, False) if t.bits == 16 else fp8.open_bytes(e, bits, t.name)


def _product(
    e: Emitter, tile: Tile, a: list[list[Value]], b: list[list[Value]], c: Sequence[Value]
) -> list[Value]:
    """C + A B; ``c`` holds two columns for each row block."""
    width = 512 // BITS[c[0].type]
    chunks = range(0, WARP, width)
    sums = {
        (j, start): e.shuffle(v, None, range(start, start + width))
        for j, v in enumerate(c)
        for start in chunks
    }
    for k in range(tile.k):
        deep, rest = divmod(k, 4 * tile.pack)
        t, sub = divmod(rest, tile.pack)
        right = [
            e.shuffle(b[deep][sub], None, [4 * (2 * (n % 4) + col) + t for n in range(width)])
            for col in (0, 1)
        ]
        for block in range(tile.blocks):
            left = a[deep * tile.blocks + block][sub]
            for start in chunks:
                rows = e.shuffle(left, None, [start + n - n % 4 + t for n in range(width)])
                for col in (0, 1):
                    at = (2 * block + col, start)
                    sums[at] = e.call("llvm.fma", (rows, right[col], sums[at]))
    return [quads.joined(e, [sums[j, start] for start in chunks]) for j in range(len(c))]


def _count_bits(
    e: Emitter, i: Instr, tile: Tile, matrices: tuple[Sequence[Value], Sequence[Value]],
    c: Sequence[Value],
) -> list[Value]:  # fmt: skip
    """Bits of ``xor`` or ``and`` counted: a register is 32 of k."""
    left, right = ([cast(e, v, "i32") for v in side] for side in matrices)
    lanes = range(WARP)
    sums = [cast(e, v, "i32") for v in c]
    for step in range(tile.k // 32):
        deep, t = divmod(step, 4)
        picked = [
            e.shuffle(right[deep], None, [4 * (2 * (n % 4) + col) + t for n in lanes])
            for col in (0, 1)
        ]
        for at in range(len(sums)):
            block, col = divmod(at, 2)
            word = left[deep * tile.blocks + block]
            rows = e.shuffle(word, None, [n - n % 4 + t for n in lanes])
            both = e.binary("and" if i.has("and") else "xor", rows, picked[col])
            sums[at] = e.binary("add", sums[at], e.call("llvm.ctpop", [both]))
    return sums


def _add_whole(e: Emitter, i: Instr, total: Value, c: Value) -> Value:
    """Sums of bytes' products stay below 2^24, so the float is exact."""
    whole, word = e.convert("fptosi", total, "i32"), cast(e, c, "i32")
    return (
        e.call("llvm.sadd.sat", (whole, word))
        if i.has("satfinite")
        else e.binary("add", whole, word)
    )


def _close(e: Emitter, tile: Tile, sums: list[Value]) -> list[Value]:
    return quads.packed(e, sums) if tile.d.name == "f16" else sums


def transpose(e: Emitter, i: Instr, src: Sequence[Value], mask: Value) -> list[Value]:
    """``movmatrix.sync.aligned.m8n8.trans.b16``: row g, columns 2t and 2t + 1 a lane."""
    if not i.has("m8n8") or not i.has("trans"):
        raise unsupported(i)
    items = e.reinterpret(cast(e, src[0], "i32"), "i16", 2 * WARP)
    picks = []
    for lane in range(WARP):
        g, t = divmod(lane, 4)
        picks += [2 * (4 * (2 * t + s) + g // 2) + g % 2 for s in (0, 1)]
    return [e.reinterpret(e.shuffle(items, None, picks), "i32", WARP)]


RULES: dict[str, WarpRule] = {
    "mma": whole_warp(multiply_accumulate),
    "movmatrix": whole_warp(transpose),
}
