"""``wmma.mma`` and the fragment layout that ``wmma.load`` and ``wmma.store`` must share with it.

PTX leaves the layout open. Here a fragment is a row of ``mma`` fragments (see ``matrix.py``): all
rows of A at once, B and C cut into blocks of eight columns. Where PTX has more registers than that
needs (f16 A and B), the upper ones repeat the lower.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ge2rt.ptx.ast import Instr
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.rules.api import WarpRule
from ge2rt.ptx.rules.matrix import Tile, accumulate
from ge2rt.ptx.rules.operands import TYPES, PtxType, types_of, unsupported
from ge2rt.ptx.rules.warp import LANES, whole_warp

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_SHAPES = {
    "f16": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "bf16": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "s8": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "u8": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
    "s4": ("m8n8k32",),
    "u4": ("m8n8k32",),
    "b1": ("m8n8k128",),
}

Place = tuple[int, int]


def shape_of(i: Instr) -> tuple[int, int, int]:
    """M, N and K of a ``wmma`` instruction."""
    found = next((m for mod in i.mods if (m := _SHAPE.fullmatch(mod))), None)
    if found is None:
        raise unsupported(i, "no shape")
    return int(found[1]), int(found[2]), int(found[3])


def places(matrix: str, shape: tuple[int, int, int], type: PtxType) -> list[list[list[Place]]]:
    """For each register, lane and element in it, its (row, column) in matrix ``a``, ``b``, ``c``.

    ``d`` is as ``c``. The row of ``b`` and the column of ``a`` is k.
    """
    m, n, k = shape
    pack = max(32 // type.bits, 1)
    blocks, deep = m // 8, k // (4 * pack)
    if matrix == "a":
        rows = [(8 * block, 4 * pack * d) for d in range(deep) for block in range(blocks)]
        out = [[[(row + lane // 4, col + lane % 4 * pack + s) for s in range(pack)]
                for lane in LANES] for row, col in rows]  # fmt: skip
    elif matrix == "b":
        cols = [(4 * pack * d, 8 * block) for block in range(n // 8) for d in range(deep)]
        out = [[[(row + lane % 4 * pack + s, col + lane // 4) for s in range(pack)]
                for lane in LANES] for row, col in cols]  # fmt: skip
    else:
        return _accumulator(m, n, 2 if type.bits == 16 else 1)
    return out * (8 // len(out)) if type.name == "f16" else out


def _accumulator(m: int, n: int, pack: int) -> list[list[list[Place]]]:
    corners = [(8 * block, 8 * column) for column in range(n // 8) for block in range(m // 8)]
    single = [[[(row + lane // 4, col + lane % 4 * 2 + s)] for lane in LANES]
              for row, col in corners for s in (0, 1)]  # fmt: skip
    if pack == 1:
        return single
    pairs = zip(single[::2], single[1::2], strict=True)
    return [[x + y for x, y in zip(low, high, strict=True)] for low, high in pairs]


def _types(i: Instr) -> tuple[PtxType, PtxType, PtxType, PtxType]:
    kinds = types_of(i)
    if len(kinds) == 2:  # half: only the accumulators are named
        return kinds[0], TYPES["f16"], TYPES["f16"], kinds[1]
    if len(kinds) != 4:
        raise unsupported(i)
    return kinds[0], kinds[1], kinds[2], kinds[3]


def multiply_accumulate(e: Emitter, i: Instr, src: Sequence[Value], mask: Value) -> list[Value]:
    """``wmma.mma.sync``: block by block of eight columns."""
    if not i.has("mma"):
        raise unsupported(i, "fragments are loaded and stored elsewhere")
    d, a, b, c = _types(i)
    m, n, k = shape_of(i)
    if f"m{m}n{n}k{k}" not in _SHAPES.get(a.name, ()):
        raise unsupported(i)
    tile = Tile(m // 8, k, d, a, b, c)
    count_a, deep, count_c = tile.registers
    given_a, given_b = len(places("a", (m, n, k), a)), len(places("b", (m, n, k), b))
    columns = n // 8
    if len(src) != given_a + given_b + count_c * columns:
        raise unsupported(i, f"{len(src)} source registers")
    right, total = src[given_a : given_a + given_b], src[given_a + given_b :]
    out: list[Value] = []
    for column in range(columns):
        b_part = right[column * deep : (column + 1) * deep]
        c_part = total[column * count_c : (column + 1) * count_c]
        out += accumulate(e, i, tile, src[:count_a], b_part, c_part)
    return out


RULES: dict[str, WarpRule] = {"wmma": whole_warp(multiply_accumulate)}
