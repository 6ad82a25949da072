"""Matrix instructions of one warp: mma, ldmatrix and kin, wmma (sections 9.7.14.3 to 9.7.14.5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle import floats
from oracle.integers import reject
from oracle.loads import read, space_of, write
from oracle.machine import DTYPES, Machine
from oracle.syntax import Instr, Operand, Vec

Array = NDArray[Any]
WIDTH = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "s8": 1, "u8": 1, "s32": 4, "f64": 8,
         "e4m3": 1, "e5m2": 1}  # fmt: skip
SMALL = {"s4": 4, "u4": 4, "b1": 1}  # bits of elements below a byte


def _shape(ins: Instr) -> tuple[int, int, int]:
    for part in ins.op:
        match = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", part)
        if match:
            m, n, k = (int(v) for v in match.groups())
            return m, n, k
    raise reject(ins)


def _kinds(ins: Instr) -> list[str]:
    return [part for part in ins.op if part in WIDTH or part in SMALL]


def _check(ins: Instr, lanes: Array) -> None:
    whole = lanes.size % 32 == 0 and (lanes % 32 == np.arange(lanes.size) % 32).all()
    if not whole:
        raise RuntimeError(f"a matrix instruction needs whole warps: {ins.text}")


def _slots(m: Machine, operand: Operand, kind: str, lanes: Array) -> Array:
    """Fragment elements as [warp, lane, register, element]."""
    items = operand.items if isinstance(operand, Vec) else (operand,)
    if kind in SMALL:
        return _small_slots(m, items, kind, lanes)
    width = WIDTH[kind]
    register = f"b{8 * max(width, 4)}"
    raw = np.stack([m.get(item, register, lanes) for item in items], axis=1)
    if kind == "tf32":
        raw = raw & np.uint32(0xFFFFE000)
    stored = floats.STORED.get(kind) or DTYPES[kind]
    flat = np.ascontiguousarray(raw).view(stored)
    return flat.reshape(-1, 32, len(items), max(width, 4) // width)


def _small_slots(m: Machine, items: Sequence[Operand], kind: str, lanes: Array) -> Array:
    """As :func:`_slots` for elements below a byte, the lowest bits first."""
    bits = SMALL[kind]
    words = np.stack([m.get(item, "b32", lanes) for item in items], axis=1)
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    parts = (words[..., None] >> shifts & np.uint32(2**bits - 1)).astype(np.int64)
    if kind == "s4":
        parts -= (parts & 8) << 1
    return parts.reshape(-1, 32, len(items), 32 // bits)


def _unslot(m: Machine, operand: Operand, kind: str, lanes: Array, slots: Array) -> None:
    items = operand.items if isinstance(operand, Vec) else (operand,)
    register = f"b{8 * max(WIDTH[kind], 4)}"
    raw = np.ascontiguousarray(slots).reshape(lanes.size, -1).view(DTYPES[register])
    for i, item in enumerate(items):
        m.put(item, register, lanes, np.ascontiguousarray(raw[:, i]))


def _inner(shape: tuple[int, ...], tall: bool) -> tuple[Array, Array]:
    """Row (or column) of the outer side and depth ``k`` of every slot of an A or B fragment."""
    _, registers, elements = shape
    lane = np.arange(32)[:, None, None]
    register = np.arange(registers)[None, :, None]
    element = np.arange(elements)[None, None, :]
    group, member = lane >> 2, lane & 3
    outer = group + (8 * (register & 1) if tall else 0) + 0 * element
    step = register >> 1 if tall else register
    depth = step * 4 * elements + member * elements + element + 0 * group
    return np.broadcast_to(outer, shape), np.broadcast_to(depth, shape)


def _result_places(shape: tuple[int, ...]) -> tuple[Array, Array]:
    lane = np.arange(32)[:, None]
    slot = np.arange(shape[1] * shape[2])[None, :]
    row = (lane >> 2) + 8 * (slot >> 1)
    column = 2 * (lane & 3) + (slot & 1) + 0 * row
    return row.reshape(shape), column.reshape(shape)


def _multiply(
    a: Array, b: Array, c: Array, kind: str, saturate: bool, ops: Sequence[str] = ()
) -> Array:
    if "popc" in ops:
        pairs = a[..., :, :, None] & b[..., None, :, :]
        if "xor" in ops:
            pairs = a[..., :, :, None] ^ b[..., None, :, :]
        return (pairs.sum(axis=-2) + c).astype(np.int32)
    if kind == "s32":
        total = a.astype(np.int64) @ b.astype(np.int64) + c.astype(np.int64)
        if saturate:
            total = np.clip(total, -(2**31), 2**31 - 1)
        return total.astype(np.int32)
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    return floats.narrow(exact, kind)


def mma(m: Machine, ins: Instr, lanes: Array, members: Array) -> None:
    """``mma.sync`` of all shapes whose fragments follow the m16n8 pattern, and m8n8k4 of halves."""
    _check(ins, lanes)
    rows, columns, depth = _shape(ins)
    kinds = _kinds(ins)
    if len(kinds) != 4 or columns != 8:
        raise reject(ins)
    if rows == 8 and kinds[1] == "f16":
        _mma_of_quads(m, ins, lanes, kinds)
        return
    left, right, add = (_slots(m, o, k, lanes) for o, k in zip(ins.operands[1:4], kinds[1:],
                                                                strict=True))  # fmt: skip
    count = left.shape[0]
    a = np.zeros((count, rows, depth), left.dtype)
    b = np.zeros((count, depth, columns), right.dtype)
    c = np.zeros((count, rows, columns), add.dtype)
    row, at = _inner(left.shape[1:], rows == 16)
    a[:, row, at] = left
    column, at = _inner(right.shape[1:], False)
    b[:, at, column] = right
    row, column = _result_places(add.shape[1:])
    c[:, row, column] = add
    out = _multiply(a, b, c, kinds[0], "satfinite" in ins.op, ins.op)
    registers = ins.operands[0].items if isinstance(ins.operands[0], Vec) else ()
    shape = (32, len(registers), max(1, 4 // WIDTH[kinds[0]]))
    row, column = _result_places(shape)
    _unslot(m, ins.operands[0], kinds[0], lanes, out[:, row, column])


def _mma_of_quads(m: Machine, ins: Instr, lanes: Array, kinds: list[str]) -> None:
    """Four products of 8 x 4 by 4 x 8: lanes 4q .. 4q + 3 and those 16 further on hold one."""
    left, right, add = (_slots(m, o, k, lanes) for o, k in zip(ins.operands[1:4], kinds[1:],
                                                                strict=True))  # fmt: skip
    layouts = [part for part in ins.op if part in ("row", "col")]
    lane, i = np.arange(32)[:, None], np.arange(4)[None, :]
    quad = lane // 4 % 4 + 0 * i
    low, upper = lane % 4 + 0 * i, 4 * (lane // 16) + 0 * i
    a = np.zeros((left.shape[0], 4, 8, 4), left.dtype)
    b = np.zeros((left.shape[0], 4, 4, 8), right.dtype)
    row, column = (low + upper, i + 0 * lane) if layouts[0] == "row" else (i + upper, low)
    a[:, quad, row, column] = left.reshape(-1, 32, 4)
    row, column = (low, i + upper) if layouts[1] == "row" else (i + 0 * lane, low + upper)
    b[:, quad, row, column] = right.reshape(-1, 32, 4)
    c = np.zeros((left.shape[0], 4, 8, 8), add.dtype)
    c[(slice(None), *_quad_places(kinds[3]))] = add.reshape(-1, 32, 8)
    out = _multiply(a, b, c, kinds[0], False)
    _unslot(m, ins.operands[0], kinds[0], lanes, out[(slice(None), *_quad_places(kinds[0]))])


def _quad_places(kind: str) -> tuple[Array, Array, Array]:
    """Product, row and column of each lane's eight sums."""
    lane, i = np.arange(32)[:, None], np.arange(8)[None, :]
    upper = 4 * (lane // 16)
    if kind == "f16":
        row, column = lane % 4 + upper + 0 * i, i + 0 * lane
    else:
        row, column = (lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1)
    return lane // 4 % 4 + 0 * i, row, column


def _matrix_lanes(lanes: Array, count: int) -> Array:
    """[warp, matrix, row] -> position in ``lanes`` of the lane that holds the address."""
    warps = np.arange(lanes.size // 32)[:, None, None] * 32
    return warps + np.arange(count)[None, :, None] * 8 + np.arange(8)[None, None, :]


def _eight_by_eight(trans: bool) -> tuple[Array, Array]:
    lane = np.arange(32)[:, None]
    outer, inner = (lane >> 2) + np.zeros((1, 2), int), 2 * (lane & 3) + np.arange(2)[None, :]
    return (inner, outer) if trans else (outer, inner)


def _matrix_count(ins: Instr) -> int:
    if "m8n8" not in ins.op or "b16" not in ins.op:
        raise reject(ins)
    return next((int(p[1:]) for p in ins.op if p in ("x1", "x2", "x4")), 1)


def load_matrix(m: Machine, ins: Instr, lanes: Array, members: Array) -> None:
    """``ldmatrix``."""
    _check(ins, lanes)
    count = _matrix_count(ins)
    addr = m.effective(ins.operands[1], lanes)
    if (addr[_matrix_lanes(lanes, count)] % np.uint64(16)).any():
        raise RuntimeError(f"matrix rows start at multiples of 16 bytes: {ins.text}")
    holder = _matrix_lanes(lanes, count).reshape(-1)
    tiles = np.stack(
        [
            read(m, space_of(ins), addr[holder] + np.uint64(2 * i), 2, lanes[holder])
            for i in range(8)
        ],
        axis=1,
    ).reshape(-1, count, 8, 8)
    row, column = _eight_by_eight("trans" in ins.op)
    slots = tiles[:, :, row, column].transpose(0, 2, 1, 3)
    _unslot(m, ins.operands[0], "f16", lanes, np.ascontiguousarray(slots))


def store_matrix(m: Machine, ins: Instr, lanes: Array, members: Array) -> None:
    """``stmatrix``."""
    _check(ins, lanes)
    count = _matrix_count(ins)
    addr = m.effective(ins.operands[0], lanes)
    slots = _slots(m, ins.operands[1], "f16", lanes).view(np.uint16)
    tiles = np.zeros((slots.shape[0], count, 8, 8), np.uint16)
    row, column = _eight_by_eight("trans" in ins.op)
    tiles[:, :, row, column] = slots.transpose(0, 2, 1, 3)
    holder = _matrix_lanes(lanes, count).reshape(-1)
    flat = tiles.reshape(-1, 8)
    for i in range(8):
        values = np.ascontiguousarray(flat[:, i])
        write(m, space_of(ins), addr[holder] + np.uint64(2 * i), values, lanes[holder])


def move_matrix(m: Machine, ins: Instr, lanes: Array, members: Array) -> None:
    """``movmatrix``: transpose one 8 by 8 tile across the warp."""
    _check(ins, lanes)
    slots = _slots(m, ins.operands[1], "f16", lanes).view(np.uint16)[:, :, 0, :]
    tile = np.zeros((slots.shape[0], 8, 8), np.uint16)
    row, column = _eight_by_eight(False)
    tile[:, row, column] = slots
    _unslot(m, ins.operands[0], "f16", lanes, tile[:, column, row])


# -- wmma: the layout of fragments is the implementation's own ------------------------------


def wmma(m: Machine, ins: Instr, lanes: Array, members: Array) -> None:
    """``wmma.load``, ``wmma.store`` and ``wmma.mma``: element e of a fragment is slot e."""
    _check(ins, lanes)
    {"load": _wmma_load, "store": _wmma_store, "mma": _wmma_mma}[ins.op[1]](m, ins, lanes)


def _extent(ins: Instr, role: str) -> tuple[int, int]:
    rows, columns, depth = _shape(ins)
    return {"a": (rows, depth), "b": (depth, columns)}.get(role, (rows, columns))


def _fragment_shape(operand: Operand, kind: str, lanes: Array) -> tuple[int, int]:
    items = len(operand.items) if isinstance(operand, Vec) else 1
    return lanes.size // 32, 32 * items * (max(WIDTH[kind], 4) // WIDTH[kind])


def _wmma_places(m: Machine, ins: Instr, lanes: Array, at: int, total: int) -> Array:
    """Byte address of each slot, [warp, slot]; slots beyond the matrix start again."""
    rows, columns = _extent(ins, ins.op[2])
    by_row = "row" in ins.op
    default = columns if by_row else rows
    stride = np.full(lanes.size, default, np.uint32)
    if len(ins.operands) > 2:
        stride = m.get(ins.operands[2], "u32", lanes)
    row, column = np.divmod(np.arange(total) % (rows * columns), columns)
    major, minor = (row, column) if by_row else (column, row)
    base = m.effective(ins.operands[at], lanes)[::32, None]
    step = stride[::32, None].astype(np.uint64)
    index = major.astype(np.uint64) * step + minor.astype(np.uint64)
    width = np.uint64(WIDTH[_kinds(ins)[-1]])
    return base + index * width


def _wmma_load(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = _kinds(ins)[-1]
    count, total = _fragment_shape(ins.operands[0], kind, lanes)
    places = _wmma_places(m, ins, lanes, 1, total).reshape(-1)
    owners = np.repeat(lanes[::32], total)
    values = read(m, space_of(ins), places, WIDTH[kind], owners)
    _unslot(m, ins.operands[0], kind, lanes, values.reshape(count, total))


def _wmma_store(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = _kinds(ins)[-1]
    count, total = _fragment_shape(ins.operands[1], kind, lanes)
    rows, columns = _extent(ins, "d")
    places = _wmma_places(m, ins, lanes, 0, total)[:, : rows * columns]
    values = _slots(m, ins.operands[1], kind, lanes).view(f"u{WIDTH[kind]}")
    values = np.ascontiguousarray(values.reshape(count, total)[:, : rows * columns])
    owners = np.repeat(lanes[::32], rows * columns)
    write(m, space_of(ins), places.reshape(-1), values.reshape(-1), owners)


def _wmma_mma(m: Machine, ins: Instr, lanes: Array) -> None:
    kinds = _kinds(ins)
    if len(kinds) == 2:
        kinds = [kinds[0], "f16", "f16", kinds[1]]
    if len(kinds) != 4:
        raise reject(ins)
    matrices = []
    for role, kind, operand in zip("abc", kinds[1:], ins.operands[1:4], strict=True):
        rows, columns = _extent(ins, role)
        flat = _slots(m, operand, kind, lanes).reshape(lanes.size // 32, -1)
        matrices.append(flat[:, : rows * columns].reshape(-1, rows, columns))
    out = _multiply(matrices[0], matrices[1], matrices[2], kinds[0], "satfinite" in ins.op)
    count, total = _fragment_shape(ins.operands[0], kinds[0], lanes)
    flat = out.reshape(count, -1)
    places = np.arange(total) % flat.shape[1]
    _unslot(m, ins.operands[0], kinds[0], lanes, flat[:, places])
