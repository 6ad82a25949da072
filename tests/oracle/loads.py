"""Loads, stores, atomics and address arithmetic (sections 9.7.9 and 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.floating import least
from oracle.integers import reject, types
from oracle.machine import DTYPES, PACKED, Machine
from oracle.memory import GLOBAL, LOCAL, SHARED, MemoryFault, Space
from oracle.syntax import SIZES, Addr, Instr, Operand, Sym, Vec

Array = NDArray[Any]
WINDOWS = {"shared": SHARED, "local": LOCAL, "global": 0, "const": 0, "param": 0}
OFFSET = np.uint64(0xFFFFFFFF)


def space_of(ins: Instr) -> str:
    """The state space that an opcode names, or ``generic``."""
    names = (part.split("::")[0] for part in ins.op[1:])
    return next((name for name in names if name in WINDOWS), "generic")


def regions(m: Machine, space: str, addr: Array, lanes: Array) -> Iterator[tuple[Space, Array]]:
    """Which space each lane's address lies in: (space, positions within ``lanes``)."""
    everything = np.arange(lanes.size)
    if space == "shared":
        yield m.shared, everything
    elif space == "local":
        yield m.local, everything
    elif space != "generic":
        yield m.program.globals, everything
    else:
        window = np.minimum(addr >> np.uint64(32), np.uint64(16))
        for number in np.unique(window):
            where = np.flatnonzero(window == number)
            if int(number) << 32 not in (SHARED, LOCAL, GLOBAL):
                raise MemoryFault(f"no memory at generic address {int(addr[where[0]]):#x}")
            yield (
                {SHARED: m.shared, LOCAL: m.local, GLOBAL: m.program.globals}[int(number) << 32],
                where,
            )


def _relative(m: Machine, space: Space, addr: Array, generic: bool, lanes: Array) -> tuple[
    Array, Array
]:  # fmt: skip
    if space is m.program.globals:
        return addr - np.uint64(GLOBAL), np.zeros(lanes.size, np.int64)
    inside = addr & OFFSET if generic else addr
    return inside, m.block_of[lanes] if space is m.shared else lanes


def read(m: Machine, space: str, addr: Array, width: int, lanes: Array) -> Array:
    """Unsigned elements of ``width`` bytes at ``addr``."""
    out = np.empty(lanes.size, f"u{width}")
    for where, at in regions(m, space, addr, lanes):
        inside, copy = _relative(m, where, addr[at], space == "generic", lanes[at])
        out[at] = where.view(width)[where.places(inside, copy, width)]
    return out


def write(m: Machine, space: str, addr: Array, values: Array, lanes: Array) -> None:
    """Store unsigned elements; of several lanes at one place the last wins."""
    width = values.dtype.itemsize
    for where, at in regions(m, space, addr, lanes):
        inside, copy = _relative(m, where, addr[at], space == "generic", lanes[at])
        where.view(width)[where.places(inside, copy, width, write=True)] = values[at]


def _in_frame(m: Machine, operand: Operand) -> Sym | None:
    """The call parameter that an address names, if it names one."""
    if isinstance(operand, Addr) and isinstance(operand.base, Sym):
        target = operand.base.target
        if not isinstance(target, str) and target.name not in m.program.addresses:
            return Sym(target, operand.base.offset + operand.offset)
    return None


def frame_param(m: Machine, sym: Sym) -> Array:
    """Bytes of a call parameter in the current frame, a row a lane."""
    assert not isinstance(sym.target, str)
    params = m.frames[m.level].params
    if sym.target.name not in params:
        params[sym.target.name] = np.zeros((m.count, sym.target.size), np.uint8)
    return params[sym.target.name]


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vec) else (operand,)


def _load(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1] if types(ins) else "b128"
    if kind == "b128":
        raise reject(ins)
    width, space = SIZES[kind], space_of(ins)
    items = _items(ins.operands[0])
    raw_kind = kind if kind[0] == "s" else f"u{8 * width}"
    sym = _in_frame(m, ins.operands[1]) if space == "param" else None
    if sym is None:
        addr = m.effective(ins.operands[1], lanes)
        if len(items) > 1 and (addr % np.uint64(width * len(items))).any():
            raise MemoryFault(f"misaligned vector access: {ins.text}")
    for i, item in enumerate(items):
        if sym is not None:
            at = sym.offset + i * width
            raw = np.ascontiguousarray(frame_param(m, sym)[lanes, at : at + width])
            raw = raw.reshape(-1).view(f"u{width}")
        else:
            raw = read(m, space, addr + np.uint64(i * width), width, lanes)
        m.put(item, raw_kind, lanes, raw.view(DTYPES[raw_kind]))


def _store(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1] if types(ins) else "b128"
    if kind == "b128":
        raise reject(ins)
    width, space = SIZES[kind], space_of(ins)
    items = _items(ins.operands[1])
    sym = _in_frame(m, ins.operands[0]) if space == "param" else None
    if sym is None:
        addr = m.effective(ins.operands[0], lanes)
        if len(items) > 1 and (addr % np.uint64(width * len(items))).any():
            raise MemoryFault(f"misaligned vector access: {ins.text}")
    for i, item in enumerate(items):
        values = m.get(item, kind if kind not in PACKED else f"b{8 * width}", lanes)
        raw = np.ascontiguousarray(values).view(f"u{width}")
        if sym is not None:
            at = sym.offset + i * width
            frame_param(m, sym)[lanes, at : at + width] = raw.view(np.uint8).reshape(-1, width)
        else:
            write(m, space, addr + np.uint64(i * width), raw, lanes)


# -- addresses ------------------------------------------------------------------------------


def _cvta(m: Machine, ins: Instr, lanes: Array) -> None:
    kind = types(ins)[-1]
    addr = m.get(ins.operands[1], kind, lanes)
    window = addr.dtype.type(WINDOWS[space_of(ins)])
    m.put(ins.operands[0], kind, lanes, addr - window if "to" in ins.op else addr + window)


def _isspacep(m: Machine, ins: Instr, lanes: Array) -> None:
    window = m.get(ins.operands[1], "u64", lanes) >> np.uint64(32)
    wanted = {"shared": SHARED, "local": LOCAL, "global": GLOBAL}.get(space_of(ins))
    if wanted is None:
        raise reject(ins)
    m.put(ins.operands[0], "pred", lanes, window == np.uint64(wanted >> 32))


# -- atomics --------------------------------------------------------------------------------

_INC: dict[str, Callable[..., Array]] = {
    "inc": lambda old, b: np.where(old >= b, 0, old + old.dtype.type(1)),
    "dec": lambda old, b: np.where((old == 0) | (old > b), b, old - old.dtype.type(1)),
}
_UPDATE: dict[str, Callable[..., Array]] = {
    "add": lambda old, b: old + b,
    "min": lambda old, b: _least(old, b, 1),
    "max": lambda old, b: _least(old, b, -1),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, b: b,
    "cas": lambda old, b, c: np.where(old == b, c, old),
    **_INC,
}


def _least(old: Array, b: Array, sign: int) -> Array:
    if old.dtype.kind in "iu":
        return np.minimum(old, b) if sign > 0 else np.maximum(old, b)
    return least(old, b, False, sign).astype(old.dtype)


def turns(addr: Array) -> Array:
    """For each position, how many earlier positions hold the same address."""
    order = np.argsort(addr, kind="stable")
    ordered = addr[order]
    fresh = np.r_[True, ordered[1:] != ordered[:-1]]
    start = np.maximum.accumulate(np.where(fresh, np.arange(addr.size), 0))
    out = np.empty(addr.size, np.int64)
    out[order] = np.arange(addr.size) - start
    return out


def _atomic(m: Machine, ins: Instr, lanes: Array) -> None:
    fetch = ins.op[0] == "atom"
    kind = types(ins)[-1]
    name = next((part for part in ins.op[1:] if part in _UPDATE), "")
    if not name or kind == "b128":
        raise reject(ins)
    addr = m.effective(ins.operands[int(fetch)], lanes)
    given = ins.operands[1 + fetch : 3 + fetch if name == "cas" else 2 + fetch]
    columns = [_items(o) for o in given]
    for at, parts in enumerate(zip(*columns, strict=True)):  # a vector: each element by itself
        args = [m.get(o, kind, lanes) for o in parts]
        place = addr + np.uint64(at * SIZES[kind])
        result = _in_turn(m, ins, lanes, place, _UPDATE[name], kind, args)
        if fetch:
            m.put(_items(ins.operands[0])[at], f"u{8 * SIZES[kind]}", lanes, result)


def _in_turn(m: Machine, ins: Instr, lanes: Array, addr: Array, update: Callable[..., Array],
             kind: str, args: list[Array]) -> Array:  # fmt: skip
    """Update each lane's place, the lowest lane first where several meet; the values before."""
    width, space = SIZES[kind], space_of(ins)
    dtype = DTYPES[PACKED.get(kind, kind)]
    result = np.empty(lanes.size, f"u{width}")
    order = turns(addr)
    for turn in range(int(order.max()) + 1):
        at = np.flatnonzero(order == turn)
        raw = read(m, space, addr[at], width, lanes[at])
        result[at] = raw
        old = raw.view(dtype).reshape(args[0][at].shape)
        new = np.ascontiguousarray(update(old, *(a[at] for a in args)).astype(dtype))
        write(m, space, addr[at], new.reshape(-1).view(f"u{width}"), lanes[at])
    return result


# -- asynchronous copies, made at once ------------------------------------------------------


def _cp(m: Machine, ins: Instr, lanes: Array) -> None:
    if ins.op[1:3] in (("async", "commit_group"), ("async", "wait_group"), ("async", "wait_all")):
        return
    if ins.op[1] != "async" or ins.op[2] not in ("ca", "cg"):
        raise reject(ins)
    to, source = (m.effective(o, lanes) for o in ins.operands[:2])
    size = int(m.get(ins.operands[2], "u32", lanes)[0])
    if (to % np.uint64(size)).any() or (source % np.uint64(size)).any():
        raise MemoryFault(f"misaligned copy: {ins.text}")
    taken = np.full(lanes.size, size)
    plain = [part for part in ins.op if "cache_hint" in part]
    if len(ins.operands) > 3 + len(plain):
        taken = m.get(ins.operands[3], "u32", lanes).astype(np.int64)
    for offset in range(0, size, 4):
        value = np.zeros(lanes.size, np.uint32)
        for byte in range(4):
            at = np.flatnonzero(offset + byte < taken)
            where = source[at] + np.uint64(offset + byte)
            value[at] |= read(m, "global", where, 1, lanes[at]).astype("u4") << np.uint32(8 * byte)
        write(m, "shared", to + np.uint64(offset), value, lanes)


def _nothing(m: Machine, ins: Instr, lanes: Array) -> None:
    """Fences and hints: this interpreter's memory is always in order."""


MEMORY: dict[str, Callable[[Machine, Instr, Array], None]] = {
    "ld": _load, "ldu": _load, "st": _store, "cvta": _cvta, "isspacep": _isspacep,
    "atom": _atomic, "red": _atomic, "cp": _cp,
    **dict.fromkeys(
        ("membar", "fence", "prefetch", "prefetchu", "nanosleep", "discard", "applypriority",
         "griddepcontrol", "createpolicy", "pmevent", "setmaxnreg"),
        _nothing,
    ),
}  # fmt: skip
