"""Warps that run in turn, each on a stack of its own.

For barriers of a part of the block, and for threads that wait for each other without a barrier. The
function of a strand holds the whole flow of one warp. A barrier blocks the warp in place, or
parks those lanes that came while the others walk on (see :mod:`ge2rt.ptx.lower.crew_ir`).
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Imm, Instr, Operand
from ge2rt.ptx.emit import BITS, Value
from ge2rt.ptx.lanes import UNIFORM
from ge2rt.ptx.lower.crew_ir import DECLARATIONS, FIRST_OF_WARPS, CrewSizes, crew_ir
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.geometry import Geometry, Here
from ge2rt.ptx.lower.head import head
from ge2rt.ptx.lower.places import Frames, round_up
from ge2rt.ptx.lower.regions import Plan
from ge2rt.ptx.lower.shape import syncs_warp, written_names
from ge2rt.ptx.lower.values import Code, Scope
from ge2rt.ptx.lower.waits import waiting_loops
from ge2rt.ptx.lower.walk import ATTEND, LoopFacts, Walker
from ge2rt.ptx.native import ABORT_STACK

_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_STACK = 64 * 1024  # beside the registers of the kernel
_CALL_STACK = 4 << 20  # where functions call functions
SIGNATURE = (
    "(ptr %launch, ptr align 128 %arena, ptr %strand, ptr %args, i32 %ctaid.x, i32 %ctaid.y, "
    "i32 %ctaid.z, i32 %warp, i{width} %given)"
)


@dataclass(frozen=True)
class Meeting:
    """A barrier: its number, threads (None: the whole block), and how a warp takes part."""

    number: Operand
    count: Operand | None
    waits: bool
    vote: Operand | None


def meeting(instr: Instr) -> Meeting:
    """The operands of a ``bar`` or ``barrier``; of ``bar.warp.sync`` the count is of members."""
    if syncs_warp(instr):
        return Meeting(Imm(FIRST_OF_WARPS), instr.operands[0], True, None)
    operands = list(instr.operands)
    vote = None
    if instr.has("red"):
        vote, operands = operands[-1], operands[1:-1]
    count = operands[1] if len(operands) > 1 else None
    return Meeting(operands[0] if operands else Imm(0), count, not instr.has("arrive"), vote)


def needs_crew(flow: Flow, geometry: Geometry) -> bool:
    """Whether threads may wait for each other other than at barriers of the whole block."""
    return bool(waiting_loops(flow)) or any(
        node.control is not None and _of_a_part(node.control, geometry.threads)
        for node in flow.nodes
        if node.kind == "barrier"
    )


def _of_a_part(instr: Instr, threads: int) -> bool:
    found = meeting(instr)
    if not found.waits:
        return True
    if found.count is None:
        return not isinstance(found.number, Imm)
    return not isinstance(found.count, Imm) or -(-found.count.value // 32) * 32 < threads


class Strand(Walker):
    """Writes the function of one warp."""

    def __init__(self, code: Code, plan: Plan, symbol: str) -> None:
        super().__init__(code, plan.regions[0], "warp.done", LoopFacts(code.flow))
        self.symbol = symbol
        self.frames = Frames(0, code.geometry.warps, code.places.local_bytes * self.width)
        self.barriers = [n for n in self.slow if self.flow.nodes[n].kind == "barrier"]

    def write(self) -> str:
        """The text of the function."""
        e, word = self.e, self.word
        x, y, z = (Value("i32", f"%ctaid.{a}") for a in "xyz")
        gx, gy, gz = (Value("i32", f"%grid.{a}") for a in "xyz")
        self.here = Here(
            Value("i32", "%warp"), (x, y, z), (gx, gy, gz), Value("i32", "%dynamic"),
            self.code.places.shared_bytes,
        )  # fmt: skip
        e.label("begin")
        if self.code.is_callee:
            self._guard_stack()
        if self.region.entry in self.region.slow:
            e.line(f"%whole = icmp eq {word} %given, -1")
            e.line(f"br i1 %whole, label %{self.tag}.f0, label %partly")
            e.label("partly")
            e.line(f"store {word} %given, ptr {self._mask(0)}")
            e.line(f"br label %{self.tag}.s0")
        else:
            e.line(f"br label %{self.tag}.f0")
        self.write_nodes()
        e.label("leave")
        e.line("br label %warp.done")
        e.label("warp.done")
        if self.code.is_callee:
            ended = e.raw(f"load {word}, ptr {self.code.alloca('mask.quit', word)}", word)
            e.line(f"ret {ended}")
        else:
            e.line("ret void")
        result = word if self.code.is_callee else "void"
        start = [
            f"define internal {result} @{self.symbol}{SIGNATURE.format(width=self.width)} #0 {{",
            *head(self.code, self.frames), *self.code.prologue, "  br label %begin",
        ]  # fmt: skip
        return "\n".join([*start, *e.lines, "}"])

    def _guard_stack(self) -> None:
        """Recursion that is too deep ends the launch; so does a stop that the host asked for."""
        e = self.e
        e.declarations["llvm.frameaddress.p0"] = "declare ptr @llvm.frameaddress.p0(i32)"
        e.line("%stack.here = call ptr @llvm.frameaddress.p0(i32 0)")
        e.line("%stack.room = call i1 @crew_room(ptr %strand, ptr %stack.here)")
        e.line("br i1 %stack.room, label %deep.enough, label %too.deep")
        e.label("too.deep")
        e.line(f"cmpxchg ptr %abort, i32 0, i32 {ABORT_STACK} seq_cst seq_cst, align 4")
        e.line("br label %leave")
        e.label("deep.enough")
        e.line("%stop.word = load atomic i32, ptr %abort monotonic, align 4")
        e.line("%stopped = icmp ne i32 %stop.word, 0")
        e.line("br i1 %stopped, label %leave, label %called, !prof !1")
        e.label("called")

    @property
    def stack(self) -> int:
        """Bytes of stack that the function surely gets along with."""
        kinds, size = self.code.kinds, 0
        for name in self.flow.registers:
            each = max(BITS[self.code.type_of(name)] // 8, 1)
            size += each * self.width if kinds.varying(name) else 8
        return round_up(_STACK + size, 4096)

    # -- barriers ----------------------------------------------------------------------------
    def _arrive(self, scope: Scope, at: int, mask: Value | None, after: str) -> None:
        e, node = self.e, self.flow.nodes[at]
        assert node.control is not None
        found = meeting(node.control)
        number = self._one(scope, found.number, mask)
        count = self._one(scope, found.count, mask) if found.count else Value("i32", "0")
        if syncs_warp(node.control):
            number = e.binary("add", Value("i32", "%warp"), number)
            count = e.call("llvm.ctpop", [count])
        here = mask or Value(self.word, "-1")
        target = node.targets[0]
        if not found.waits or mask is None:
            generation = self._come(scope, found, number, count, here)
            if found.waits:
                e.line(f"call void @crew_meet(ptr %strand, {number}, {count}, {generation})")
                self._result(scope, node.control, number)
            scope.flush(self.flow.live_out(at))
            if mask is None:
                e.line(f"br label %{self._fast_label(target)}")
            else:
                self._walk_on(at, {target: mask}, after)
            return
        self._unpark(at)  # lanes that came before, if they may pass: this is another meeting
        generation = self._come(scope, found, number, count, here)
        scope.flush(self.flow.live_out(at))
        for name, value in (("id", number), ("count", count), ("gen", generation)):
            e.line(f"store {value}, ptr {self.code.alloca(f'{name}.{at}', 'i32')}")
        parked = e.raw(f"load {self.word}, ptr {self._park(at)}", self.word)
        e.line(f"store {e.binary('or', parked, here)}, ptr {self._park(at)}")
        e.line(f"br label %{after}")

    def _one(self, scope: Scope, operand: Operand, mask: Value | None) -> Value:
        """An operand as one i32 for the warp: the lowest lane's."""
        e, value = self.e, scope.vector(operand)
        if value.lanes:
            lane = Value("i32", "0")
            if mask is not None:
                e.declarations[f"llvm.cttz.{self.word}"] = (
                    f"declare {self.word} @llvm.cttz.{self.word}({self.word}, i1)"
                )
                lane = e.raw(f"call {self.word} @llvm.cttz.{self.word}({mask}, i1 false)",
                             self.word)  # fmt: skip
            value = e.raw(f"extractelement {value}, {lane}", value.type)
        if value.type == "i32":
            return value
        if not value.text.startswith("%"):
            return Value("i32", value.text)
        return e.convert("trunc" if BITS[value.type] > 32 else "zext", value, "i32")

    def _come(
        self, scope: Scope, found: Meeting, number: Value, count: Value, here: Value
    ) -> Value:
        e = self.e
        lanes = self._ones(here)
        yes = Value("i32", "0")
        if found.vote is not None:
            vote = e.splat(scope.vector(found.vote))
            bits = e.raw(f"bitcast {vote} to {self.word}", self.word)
            yes = self._ones(e.binary("and", bits, here))
        return e.raw(
            f"call i32 @crew_arrive(ptr %strand, {number}, {count}, {lanes}, {yes}, {lanes})", "i32"
        )

    def _ones(self, bits: Value) -> Value:
        count = self.e.call("llvm.ctpop", [bits]) if self.width > 1 else bits
        return self.e.convert("zext", count, "i32")

    def _result(self, scope: Scope, control: Instr, number: Value) -> None:
        """Write what ``bar.red`` yields, under the scope's mask."""
        if not written_names(control):
            return
        e = self.e
        two = e.raw(f"call i64 @crew_votes(ptr %strand, {number})", "i64")
        yes = e.convert("trunc", two, "i32")
        every = e.convert("trunc", e.binary("lshr", two, Value("i64", "32")), "i32")
        if control.has("popc"):
            answer = yes
        elif control.has("or"):
            answer = e.compare("icmp ne", yes, Value("i32", "0"))
        else:
            answer = e.compare("icmp eq", yes, every)
        plain = Instr(control.op, control.mods, control.operands, None, control.line, control.types)
        scope.write(plain, written_names(control)[0], answer, UNIFORM)

    def _park(self, at: int) -> str:
        return self.code.alloca(f"mask.parked.{at}", self.word)

    def _unpark(self, at: int) -> Value:
        """Move the lanes parked at a barrier behind it if it has been passed; whether any moved."""
        e, node, word = self.e, self.flow.nodes[at], self.word
        assert node.control is not None
        moved = self.code.alloca("moved", "i1")
        e.line(f"store i1 false, ptr {moved}")
        look, move, done = e.name("look"), e.name("move"), e.name("unparked")
        parked = e.raw(f"load {word}, ptr {self._park(at)}", word)
        some = e.compare("icmp ne", parked, Value(word, "0"))
        e.line(f"br {some}, label %{look}, label %{done}")
        e.label(look)
        held = [
            e.raw(f"load i32, ptr {self.code.alloca(f'{name}.{at}', 'i32')}", "i32")
            for name in ("id", "count", "gen")
        ]
        passed = e.raw(f"call i1 @crew_passed(ptr %strand, {', '.join(map(str, held))})", "i1")
        e.line(f"br {passed}, label %{move}, label %{done}")
        e.label(move)
        e.line(f"store {word} 0, ptr {self._park(at)}")
        e.line(f"store i1 true, ptr {moved}")
        if written_names(node.control):
            lanes = e.raw(f"bitcast {parked} to <{self.width} x i1>", "i1", self.width)
            scope = Scope(self.code, self.here, lanes, -1)
            self._result(scope, node.control, held[0])
            scope.flush(-1)
        target = node.targets[0]
        if target != self.flow.exit:
            slot = self._mask(target)
            waiting = e.raw(f"load {word}, ptr {slot}", word)
            e.line(f"store {e.binary('or', waiting, parked)}, ptr {slot}")
        e.line(f"br label %{done}")
        e.label(done)
        return e.raw(f"load i1, ptr {moved}", "i1")

    def _wait(self) -> None:
        super()._wait()
        self.e.line("call void @crew_yield(ptr %strand)")

    def _attend(self) -> None:
        """The scheduler looks at signals: this stack is too small for Python."""
        self.e.line("call void @crew_yield(ptr %strand)")

    def _walked(self) -> None:
        """Go on with the lanes that wait for lanes, and with those whose barrier let them pass."""
        if not self.barriers:
            super()._walked()
            return
        e, word, none = self.e, self.word, Value(self.word, "0")
        e.label(f"{self.tag}.walked")
        turning = self._turning() or none
        parked = none
        for at in self.barriers:
            parked = e.binary("or", parked, e.raw(f"load {word}, ptr {self._park(at)}", word))
        held_back = self._held_back()
        living = self._ones(e.binary("or", e.binary("or", turning, parked), held_back))
        held, look = e.name("held"), e.name("look")
        e.line(f"br {e.compare('icmp ne', living, Value('i32', '0'))}, label %{held}, "
               f"label %{self.next}")  # fmt: skip
        e.label(held)
        if not self.code.is_callee:
            e.line(f"call void @crew_living(ptr %strand, {living})")
        e.line(f"br label %{look}")
        e.label(look)
        any_moved = e.compare("icmp ne", turning, none)
        for at in self.barriers:
            any_moved = e.binary("or", any_moved, self._unpark(at))
        idle = e.name("idle")
        first = f"{self.tag}.s{self.slow[0]}"
        again = first
        if self.turns:
            again = e.name("again")
        e.line(f"br {any_moved}, label %{again}, label %{idle}")
        if self.turns:
            e.label(again)
            self._poll(self.turns[0])
            e.line(f"br label %{first}")
        e.label(idle)
        e.line("call void @crew_hold(ptr %strand)")
        e.line(f"br label %{look}")


def crew_text(strand: Strand, symbol: str, others: Sequence[Strand]) -> tuple[str, int]:
    """The scheduler of the blocks, and the arena's bytes; ``others`` are functions it calls."""
    geometry = strand.code.geometry
    machine = _MACHINES.get(platform.machine().lower())
    if machine is None or sys.platform != "linux":
        raise UnsupportedError(
            "threads that wait for each other run on the cpu device under Linux only",
            next_step="run the kernel on a GPU or under Linux",
        )
    sizes = CrewSizes(
        symbol, strand.symbol, geometry.width, geometry.warps, geometry.threads,
        strand.code.places.shared_bytes, strand.frames.total,
        max([strand.stack, *(_CALL_STACK + 2 * other.stack for other in others)]),
        max([_STACK // 2, *(other.stack for other in others)]),
    )  # fmt: skip
    strand.e.declarations.update(DECLARATIONS, ge2rt_attend=ATTEND)
    return crew_ir(sizes, machine), sizes.arena
