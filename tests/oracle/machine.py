"""Lanes, registers and the schedule: which lanes run which instruction next.

All blocks of a batch run together. Every lane has a program counter of its own, and the lanes
with the smallest one go first, so that the others wait where paths join again. Barriers and warp
collectives hold lanes back until all that must come are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from oracle.memory import CODE, LOCAL, SHARED, MemoryFault, Space
from oracle.syntax import (
    SIZES,
    Addr,
    Imm,
    Instr,
    Not,
    Operand,
    Pair,
    Reg,
    Sink,
    Special,
    Sym,
    Var,
    Vec,
)

Array = NDArray[Any]

RUN, AT_COLLECTIVE, AT_BARRIER, DONE = range(4)
FAR = np.int64(1) << 60
FAIR_EVERY = 1024

DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{k}{8 * w}": np.dtype(f"u{w}") for k in "bu" for w in (1, 2, 4, 8)},
    **{f"s{8 * w}": np.dtype(f"i{w}") for w in (1, 2, 4, 8)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "tf32": np.dtype(np.float32),
    "pred": np.dtype(bool),
}
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16", "f32x2": "f32"}


@dataclass
class Frame:
    """Registers and ``.param`` variables of one call depth, a row a lane."""

    regs: dict[str, Array] = field(default_factory=dict)
    params: dict[str, Array] = field(default_factory=dict)
    back: Array | None = None
    stack: Array | None = None


@dataclass
class Program:
    """All code in one list; functions by name, with the place of every variable."""

    code: list[Instr]
    starts: dict[str, int]
    addresses: dict[str, int]
    globals: Space
    shared_size: int
    local_size: int
    frame_size: dict[str, int]
    formals: dict[str, tuple[list[Var], list[Var]]]
    dynamic_shared: int = 0


Handler = Callable[["Machine", Instr, Array], None]


class Machine:
    """A batch of blocks in flight."""

    def __init__(
        self, program: Program, blocks: range, grid: tuple[int, ...], block: tuple[int, ...]
    ) -> None:
        self.program, self.grid, self.block = program, grid, block
        threads = block[0] * block[1] * block[2]
        self.warps = -(-threads // 32)
        self.blocks = len(blocks)
        per = self.warps * 32
        self.count = self.blocks * per
        lane = np.arange(self.count)
        self.linear = lane % per
        self.block_of = lane // per
        number = self.block_of + blocks.start
        self.special = _positions(self.linear, number, grid, block, self.warps)
        self.pc = np.zeros(self.count, np.int64)
        self.status = np.where(self.linear < threads, RUN, DONE)
        self.depth = np.zeros(self.count, np.int64)
        self.frames = [Frame(stack=np.zeros(self.count, np.uint64))]
        self.shared = Space("shared", SHARED, program.shared_size, self.blocks)
        self.shared.allow(0, program.shared_size)
        self.local = Space("local", LOCAL, program.local_size, self.count)
        self.local.allow(0, program.local_size)
        self.carry = np.zeros(self.count, bool)
        self.bar_id = np.zeros(self.count, np.int64)
        self.bar_need = np.zeros(self.count, np.int64)
        self.bar_value = np.zeros(self.count, bool)
        self.bar_early: dict[int, Array] = {}
        self.steps = 0
        self.level = 0

    # -- schedule ---------------------------------------------------------------------------

    def run(self, start: int, table: dict[str, Handler], control: dict[str, Handler],
            limit: int) -> None:  # fmt: skip
        """Run from ``start`` until every lane has left."""
        self.pc[:] = start
        rounds = 0
        while True:
            key = np.where(self.status == RUN, self.pc, FAR)
            low = key.min()
            if low == FAR:
                if (self.status == DONE).all():
                    return
                raise RuntimeError(f"deadlock: lanes wait for ever at {self._where()}")
            rounds += 1
            if rounds % FAIR_EVERY == 0:
                ready = np.unique(key[key < FAR])
                low = ready[(rounds // FAIR_EVERY) % ready.size]
            lanes = np.flatnonzero(key == low)
            depths = self.depth[lanes]
            self.level = int(depths.max())
            later = key[key > low].min(initial=FAR)
            if depths.min() != self.level:
                lanes, later = lanes[depths == self.level], low + 1
            self._straight(int(low), lanes, int(later), table, control)
            if self.steps > limit:
                raise RuntimeError(f"no end after {limit} steps, now at {self._where()}")

    def _straight(self, pc: int, lanes: Array, later: int, table: dict[str, Handler],
                  control: dict[str, Handler]) -> None:  # fmt: skip
        code = self.program.code
        while True:
            ins = code[pc]
            self.steps += 1
            active = lanes if ins.guard is None else self._guarded(ins, lanes)
            name = ins.op[0]
            try:
                if name in control:
                    self.pc[lanes] = pc + 1
                    self.pc[active] = pc
                    if active.size:
                        control[name](self, ins, active)
                    return
                if active.size:
                    table[name](self, ins, active)
            except KeyError as error:
                if error.args == (name,):
                    raise NotImplementedError(f"PTX form: {ins.text}") from None
                raise
            except MemoryFault as error:
                raise MemoryFault(f"{error}; in {ins.function}: {ins.text}") from error
            pc += 1
            if pc >= later:
                self.pc[lanes] = pc
                return

    def _guarded(self, ins: Instr, lanes: Array) -> Array:
        assert ins.guard is not None
        return lanes[self._reg(ins.guard)[lanes] != ins.negated]

    def _where(self) -> str:
        left = np.flatnonzero(self.status != DONE)
        return "; ".join(self.program.code[p].text for p in np.unique(self.pc[left])[:4])

    def leave(self, lanes: Array) -> None:
        """End these lanes; whoever waited for them looks again."""
        self.status[lanes] = DONE
        self.status[self.status == AT_COLLECTIVE] = RUN

    # -- operands ---------------------------------------------------------------------------

    def _reg(self, reg: Reg) -> Array:
        regs = self.frames[self.level].regs
        if reg.name not in regs:
            dtype = DTYPES["pred" if reg.type == "pred" else f"b{8 * SIZES[reg.type]}"]
            regs[reg.name] = np.zeros(self.count, dtype)
        return regs[reg.name]

    def get(self, operand: Operand, kind: str, lanes: Array) -> Array:
        """Values of ``operand`` read as ``kind``; packed kinds give two columns."""
        if kind in PACKED:
            width = 2 * DTYPES[PACKED[kind]].itemsize
            raw = self.get(operand, f"b{width * 8}", lanes)
            return raw.view(DTYPES[PACKED[kind]]).reshape(-1, 2)
        dtype = DTYPES[kind]
        if isinstance(operand, Reg):
            raw = self._reg(operand)[lanes]
            return raw if dtype.kind == "b" else raw.astype(f"u{dtype.itemsize}").view(dtype)
        if isinstance(operand, Imm):
            return np.full(lanes.size, constant(operand, dtype))
        if isinstance(operand, Not):
            return ~self.get(operand.item, kind, lanes)
        if isinstance(operand, Special):
            return self._special(operand.name, lanes).astype(f"u{dtype.itemsize}").view(dtype)
        if isinstance(operand, Sym):
            return self.address(operand, lanes).astype(f"u{dtype.itemsize}").view(dtype)
        if isinstance(operand, Vec):
            return self._joined(operand, dtype, lanes)
        raise NotImplementedError(f"operand {operand}")

    def _joined(self, operand: Vec, dtype: np.dtype[Any], lanes: Array) -> Array:
        width = dtype.itemsize * 8 // len(operand.items)
        parts = [self.get(item, f"b{width}", lanes) for item in operand.items]
        return np.stack(parts, axis=1).reshape(-1).view(dtype)

    def put(self, operand: Operand, kind: str, lanes: Array, values: Array) -> None:
        """Write ``values`` of ``kind``; wider registers are sign or zero extended."""
        if isinstance(operand, Sink):
            return
        if isinstance(operand, Pair):
            raise NotImplementedError(f"two destinations: {operand}")
        if kind in PACKED:
            flat = np.ascontiguousarray(values.astype(DTYPES[PACKED[kind]])).reshape(-1)
            kind = f"b{2 * flat.itemsize * 8}"
            values = flat.view(DTYPES[kind])
        if isinstance(operand, Vec):
            width = DTYPES[kind].itemsize * 8 // len(operand.items)
            parts = np.ascontiguousarray(values).view(f"u{width // 8}")
            parts = parts.reshape(-1, len(operand.items))
            for i, item in enumerate(operand.items):
                self.put(item, f"b{width}", lanes, parts[:, i])
            return
        assert isinstance(operand, Reg), operand
        target = self._reg(operand)
        values = values.astype(DTYPES[kind], copy=False)
        if target.dtype != bool and kind[0] != "s":
            values = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
        target[lanes] = values.astype(target.dtype, copy=False)

    def address(self, sym: Sym, lanes: Array) -> Array:
        """Address of a symbol within its own space, one a lane."""
        if isinstance(sym.target, str):
            if sym.target not in self.program.starts:
                raise NotImplementedError(f"unknown name {sym.target}")
            start = self.program.starts[sym.target]
            return np.full(lanes.size, CODE + 16 * start, np.uint64)
        name, space = sym.target.name, sym.target.space
        where = np.full(lanes.size, self.program.addresses[name] + sym.offset, np.uint64)
        if space == "local":
            stack = self.frames[self.level].stack
            assert stack is not None
            where += stack[lanes]
        return where

    def effective(self, addr: Operand, lanes: Array) -> Array:
        """Byte address of a bracketed operand as 64 bits."""
        assert isinstance(addr, Addr), addr
        base = addr.base
        if isinstance(base, Sym):
            return self.address(Sym(base.target, base.offset + addr.offset), lanes)
        if isinstance(base, Imm):
            return np.full(lanes.size, int(base.value) + addr.offset, np.uint64)
        raw = self._reg(base)[lanes].astype(np.uint64)
        return raw + np.uint64(addr.offset & (2**64 - 1))

    def _special(self, name: str, lanes: Array) -> Array:
        if name in self.special:
            return self.special[name][lanes]
        if name in ("%clock", "%clock64", "%globaltimer", "%clock_hi", "%globaltimer_lo"):
            return np.full(lanes.size, self.steps, np.uint64)
        if name == "%dynamic_smem_size":
            return np.full(lanes.size, self.program.dynamic_shared, np.uint64)
        if name == "%total_smem_size":
            return np.full(lanes.size, self.program.shared_size, np.uint64)
        raise NotImplementedError(f"special register {name}")


def constant(imm: Imm, dtype: np.dtype[Any]) -> Any:
    """An immediate as a scalar of ``dtype``."""
    if dtype.kind == "b":
        return bool(imm.value)
    if imm.kind == "int":
        bits = int(imm.value) & ((1 << (8 * dtype.itemsize)) - 1)
        return np.array([bits], f"u{dtype.itemsize}").view(dtype)[0]
    if imm.kind == "float":
        return np.array([imm.value]).astype(dtype)[0]
    width = 4 if imm.kind == "bits32" else 8
    raw = np.array([imm.value], f"u{width}")
    if dtype.itemsize == width:
        return raw.view(dtype)[0]
    return raw.view(f"f{width}").astype(dtype)[0]


def _positions(
    linear: Array, number: Array, grid: tuple[int, ...], block: tuple[int, ...], warps: int
) -> dict[str, Array]:
    out: dict[str, Array] = {}
    for prefix, index, extent in (("tid", linear, block), ("ctaid", number, grid)):
        rest = index
        for axis, size in zip("xyz", extent, strict=True):
            out[f"%{prefix}.{axis}"] = rest % size
            out[f"%n{prefix}.{axis}"] = np.full(linear.size, size)
            rest = rest // size
    lane = (linear % 32).astype(np.uint64)
    bit = np.uint64(1) << lane
    below = bit - np.uint64(1)
    zero = np.zeros(linear.size, np.int64)
    full = np.uint64(0xFFFFFFFF)
    out |= {
        "%laneid": lane,
        "%warpid": linear // 32,
        "%nwarpid": zero + warps,
        "%smid": zero,
        "%nsmid": zero + 1,
        "%gridid": zero,
        "%lanemask_eq": bit,
        "%lanemask_lt": below,
        "%lanemask_le": below | bit,
        "%lanemask_ge": full & ~below,
        "%lanemask_gt": full & ~(below | bit),
    }
    return out | {f"%envreg{i}": zero for i in range(32)}
