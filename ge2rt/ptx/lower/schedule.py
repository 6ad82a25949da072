"""The native function: the loop over blocks, and the regions' loops over warps inside it."""

from __future__ import annotations

import math
import random

from ge2rt.base.once import cached_property
from ge2rt.ptx.emit import BITS, Value
from ge2rt.ptx.lower.copies import RegionWriter
from ge2rt.ptx.lower.geometry import Here
from ge2rt.ptx.lower.graph import bits as set_bits
from ge2rt.ptx.lower.head import head
from ge2rt.ptx.lower.places import Frames, round_up
from ge2rt.ptx.lower.regions import Plan, Region
from ge2rt.ptx.lower.shape import written_names
from ge2rt.ptx.lower.values import Code
from ge2rt.ptx.lower.walk import LoopFacts
from ge2rt.ptx.native import ARENA_ALIGN

FRAME_HEAD = 64  # bytes: i32 alive mask, i32 next region


class Schedule:
    """Writes the whole function."""

    def __init__(self, code: Code, plan: Plan, symbol: str, seed: int | None = None) -> None:
        self.code, self.plan, self.symbol = code, plan, symbol
        self.seed = seed  # changes the order of the warps
        self.e = code.e
        self.loops = LoopFacts(code.flow)
        self.slots, size = self._frame_slots()
        geometry = code.geometry
        self.frames = Frames(size, geometry.warps, code.places.local_bytes * geometry.width)
        self.ctaid = tuple(Value("i32", f"%ctaid.{a}") for a in "xyz")
        self.grid = tuple(Value("i32", f"%grid.{a}") for a in "xyz")

    # -- layout ------------------------------------------------------------------------------
    def kept_in_frame(self, region: Region) -> list[str]:
        """Registers that a warp finds in its frame at the start of a region."""
        return [n for n in self._live(region) if self._home(n) == "frame"]

    def kept_for_block(self, region: Region) -> list[str]:
        """Registers that the whole block shares at the start of a region."""
        return [n for n in self._live(region) if self._home(n) == "block"]

    def recomputed(self, region: Region) -> list[str]:
        """Registers that are made again at the start of a region."""
        return [n for n in self._live(region) if self._home(n) == "again"]

    def _live(self, region: Region) -> list[str]:
        live = self.code.flow.live_in[region.entry]
        given = set(written_names(region.barrier)) if region.barrier else set()
        return [n for n in map(self._names.__getitem__, set_bits(live)) if n not in given]

    @cached_property
    def _names(self) -> list[str]:
        return list(self.code.flow.registers)

    @cached_property
    def block_registers(self) -> list[str]:
        """Registers that the whole block shares at the start of any region."""
        kept = (n for r in self.plan.regions[1:] for n in self.kept_for_block(r))
        return list(dict.fromkeys(kept))

    def _home(self, name: str) -> str:
        if name in self.plan.recomputed:
            return "again"
        return "block" if name in self.plan.block_wide else "frame"

    def _frame_slots(self) -> tuple[dict[str, int], int]:
        slots: dict[str, int] = {}
        wanted = dict.fromkeys(n for r in self.plan.regions[1:] for n in self.kept_in_frame(r))
        scalars = [n for n in wanted if not self.code.kinds.varying(n)]
        at = FRAME_HEAD if len(self.plan.regions) > 1 else 0
        for name in scalars:
            slots[name] = at
            at += 16 if self.code.type_of(name) == "i128" else 8
        at = round_up(at, 64)
        for name in wanted:
            if self.code.kinds.varying(name):
                slots[name] = at
                bits = BITS[self.code.type_of(name)] * self.code.width
                at = round_up(at + max(bits // 8, 1), 64)
        return slots, at

    # -- the function ------------------------------------------------------------------------
    def write(self) -> str:
        """The text of the function."""
        e = self.e
        self._block_loop()
        for region in self.plan.regions:
            RegionWriter(self, region).write()
        body = e.lines
        head = self._head()
        return "\n".join(head + body + ["}"])

    def _head(self) -> list[str]:
        watch = self.code.watch
        lines = [
            f"define void @{self.symbol}(ptr noalias %launch, ptr noalias align {ARENA_ALIGN} "
            "%arena, i64 %first, i64 %last) #0 {",
            *head(self.code, self.frames),
            *(watch.head(self.code.places.shared_bytes) if watch else ()),
            "  %grid.x.wide = zext i32 %grid.x to i64",
            "  %grid.y.wide = zext i32 %grid.y to i64",
            "  %first.row = udiv i64 %first, %grid.x.wide",
            "  %first.x = urem i64 %first, %grid.x.wide",
            "  %first.y = urem i64 %first.row, %grid.y.wide",
            "  %first.z = udiv i64 %first.row, %grid.y.wide",
        ]
        for axis in "xyz":
            lines += [
                f"  %start.{axis} = trunc i64 %first.{axis} to i32",
                f"  store i32 %start.{axis}, ptr %at.{axis}",
            ]
        lines += ["  store i64 %first, ptr %at.block", *self.code.prologue]
        return [*lines, "  br label %blocks"]

    def _block_loop(self) -> None:
        e, code = self.e, self.code
        code.alloca("at.block", "i64")
        for axis in "xyz":
            code.alloca(f"at.{axis}", "i32")
        e.label("blocks")
        e.line("%block = load i64, ptr %at.block")
        e.line("%more = icmp slt i64 %block, %last")
        e.line("br i1 %more, label %poll, label %leave")
        e.label("leave")
        e.line("ret void")
        e.label("poll")
        e.line("%stopped = load atomic i32, ptr %abort monotonic, align 4")
        e.line("%go = icmp eq i32 %stopped, 0")
        e.line("br i1 %go, label %block.run, label %leave")
        e.label("block.run")
        for axis in "xyz":
            e.line(f"%ctaid.{axis} = load i32, ptr %at.{axis}")
        if code.watch is not None:
            code.watch.begin(e)
        e.line("br label %region.0")
        e.label("block.done")
        e.line("%block.next = add i64 %block, 1")
        e.line("store i64 %block.next, ptr %at.block")
        carry = "true"
        for axis in "xyz":
            e.line(f"%step.{axis} = zext i1 {carry} to i32")
            e.line(f"%up.{axis} = add i32 %ctaid.{axis}, %step.{axis}")
            if axis == "z":
                e.line("store i32 %up.z, ptr %at.z")
                break
            e.line(f"%full.{axis} = icmp eq i32 %up.{axis}, %grid.{axis}")
            e.line(f"%now.{axis} = select i1 %full.{axis}, i32 0, i32 %up.{axis}")
            e.line(f"store i32 %now.{axis}, ptr %at.{axis}")
            carry = f"%full.{axis}"
        e.line("br label %blocks")

    def warp(self) -> Value:
        """The warp whose turn it is, as a loop over warps begins its body."""
        turn = self.e.raw("load i32, ptr %at.warp", "i32")
        warps = self.code.geometry.warps
        if self.seed is None or warps < 2:
            return turn
        chance = random.Random(self.seed)
        factor = chance.choice([f for f in range(1, warps) if math.gcd(f, warps) == 1])
        scaled = self.e.binary("mul", turn, Value("i32", str(factor)))
        moved = self.e.binary("add", scaled, Value("i32", str(chance.randrange(warps))))
        return self.e.binary("urem", moved, Value("i32", str(warps)))

    def here(self, warp: Value) -> Here:
        """The place of a warp."""
        x, y, z = self.ctaid
        gx, gy, gz = self.grid
        return Here(
            warp, (x, y, z), (gx, gy, gz), Value("i32", "%dynamic"), self.code.places.shared_bytes
        )
