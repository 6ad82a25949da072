"""One region of a kernel in phases: its loop over the warps, and what warps leave at barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Imm, Instr
from ge2rt.ptx.emit import Value
from ge2rt.ptx.lanes import UNIFORM
from ge2rt.ptx.lower.body import lower_instr
from ge2rt.ptx.lower.messages import abort
from ge2rt.ptx.lower.regions import Region
from ge2rt.ptx.lower.shape import read_names, shape_of, written_names
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.lower.walk import Walker
from ge2rt.ptx.native import ABORT_BARRIER

if TYPE_CHECKING:
    from ge2rt.ptx.lower.schedule import Schedule


class RegionWriter(Walker):
    """Writes one region."""

    def __init__(self, schedule: Schedule, region: Region) -> None:
        self.schedule, self.plan = schedule, schedule.plan
        self.masked = self.plan.mode != "plain"  # warps keep a mask of living lanes
        self.sets = self.plan.mode == "set" and region.index > 0
        following = "set.next" if self.sets else f"r{region.index}.next"
        super().__init__(schedule.code, region, following, schedule.loops)
        self.ahead = len(self.plan.regions) > 1 and region.index == 0

    # -- the loop over warps -----------------------------------------------------------------
    def write(self) -> None:
        """The whole region."""
        e, code, index = self.e, self.code, self.region.index
        code.alloca("at.warp", "i32")
        if not self.sets:
            self._loop_head()
        e.label(f"{self.tag}.loop")
        warp = self.schedule.warp()
        self.here = self.schedule.here(warp)
        self.frame = self._frame(warp) if len(self.plan.regions) > 1 else ""
        self._enter(warp)
        self.write_nodes()
        if not self.sets:
            self._loop_end()
        if index == 0 and self.plan.mode == "set":
            self._phases()

    def _frame(self, warp: Value) -> str:
        size = self.schedule.frames.frame_bytes
        offset = self.e.binary("mul", warp, Value("i32", str(size)))
        wide = self.e.convert("zext", offset, "i64")
        return self.e.raw(f"getelementptr i8, ptr %frames, {wide}", "ptr").text

    def _loop_head(self) -> None:
        e = self.e
        e.label(f"region.{self.region.index}")
        e.line("store i32 0, ptr %at.warp")
        if len(self.plan.regions) > 1:
            e.line(f"store i32 0, ptr {self.code.alloca('at.region', 'i32')}")
        for name in self.schedule.block_registers:
            held, coming = self._block_slots(name)
            type = self.code.type_of(name)
            value = e.raw(f"load {type}, ptr {held}", type)
            e.line(f"store {value}, ptr {coming}")
        self._clear_votes()
        if self.code.watch is not None and self.region.index:
            self.code.watch.phase(e)
        e.line(f"br label %{self.tag}.loop")

    def _loop_end(self) -> None:
        e, warps = self.e, self.code.geometry.warps
        e.label(self.next)
        now = e.raw("load i32, ptr %at.warp", "i32")
        after = e.binary("add", now, Value("i32", "1"))
        e.line(f"store {after}, ptr %at.warp")
        more = e.compare("icmp ult", after, Value("i32", str(warps)))
        e.line(f"br {more}, label %{self.tag}.loop, label %{self.tag}.done")
        e.label(f"{self.tag}.done")
        self._take_over()
        following = self.plan.following(self.flow, self.region)
        if not following:
            e.line("br label %block.done")
            return
        arrived = e.raw("load i32, ptr %at.region", "i32")
        if self.plan.mode == "set":
            some = e.compare("icmp ne", arrived, Value("i32", "0"))
            e.line(f"br {some}, label %phase, label %block.done")
            return
        if len(following) == 1 and not self._may_end():
            e.line(f"br label %region.{following[0]}")
            return
        cases = " ".join(f"i32 {k}, label %region.{k}" for k in following)
        e.line(f"switch {arrived}, label %block.done [ {cases} ]")

    def _may_end(self) -> bool:
        if self.masked:
            return True
        return any(self.flow.exit in self.flow.edges[n] for n in self.region.nodes)

    def _take_over(self) -> None:
        """What the warps left for the block becomes what the next region finds."""
        for name in self.schedule.block_registers:
            held, coming = self._block_slots(name)
            type = self.code.type_of(name)
            value = self.e.raw(f"load {type}, ptr {coming}", type)
            self.e.line(f"store {value}, ptr {held}")
        self._publish_votes()

    def _phases(self) -> None:
        """Set mode: rounds over the warps, each in its own region, until none waits any more."""
        e, warps = self.e, self.code.geometry.warps
        e.label("phase")
        e.line("store i32 0, ptr %at.warp")
        e.line("store i32 0, ptr %at.region")
        self._clear_votes()
        if self.code.watch is not None:
            self.code.watch.phase(e)
        e.line("br label %set.loop")
        e.label("set.loop")
        frame = self._frame(self.schedule.warp())
        alive = e.raw(f"load i32, ptr {frame}", "i32")
        some = e.compare("icmp ne", alive, Value("i32", "0"))
        e.line(f"br {some}, label %set.run, label %set.next")
        e.label("set.run")
        at = e.raw(f"getelementptr i8, ptr {frame}, i64 4", "ptr")
        region = e.raw(f"load i32, {at}", "i32")
        cases = " ".join(f"i32 {r.index}, label %r{r.index}.loop" for r in self.plan.regions[1:])
        e.line(f"switch {region}, label %set.next [ {cases} ]")
        e.label("set.next")
        after = e.binary("add", e.raw("load i32, ptr %at.warp", "i32"), Value("i32", "1"))
        e.line(f"store {after}, ptr %at.warp")
        more = e.compare("icmp ult", after, Value("i32", str(warps)))
        e.line(f"br {more}, label %set.loop, label %phase.done")
        e.label("phase.done")
        self._publish_votes()
        left = e.raw("load i32, ptr %at.region", "i32")
        again = e.compare("icmp ne", left, Value("i32", "0"))
        e.line(f"br {again}, label %phase, label %block.done")

    # -- entering and leaving ----------------------------------------------------------------
    def _enter(self, warp: Value) -> None:
        """Bring the live registers, then go to the copy that fits the mask."""
        e, region = self.e, self.region
        if region.index:
            scope = Scope(self.code, self.here)
            self._bring(scope)
            scope.flush(self.flow.live_in[region.entry])
        fast = f"{self.tag}.f{region.entry}"
        if region.index == 0:
            if self.masked:
                e.line(f"store i32 0, ptr {self.frame}")
            if not self.code.geometry.partial:
                e.line(f"br label %{fast}")
                return
            last = Value("i32", str(self.code.geometry.warps - 1))
            whole = e.compare("icmp ne", warp, last)
            mask = Value(self.word, str(self.code.geometry.last_mask))
            self._split_entry(whole, mask, fast)
        elif self.masked:
            alive = e.raw(f"load i32, ptr {self.frame}", "i32")
            e.line(f"store i32 0, ptr {self.frame}")
            mask = e.convert("trunc", alive, self.word) if self.width < 32 else alive
            some, living = e.compare("icmp ne", mask, Value(self.word, "0")), e.name("living")
            e.line(f"br {some}, label %{living}, label %{self.next}")
            e.label(living)
            whole = e.compare("icmp eq", mask, Value(self.word, "-1"))
            self._split_entry(whole, mask, fast)
        elif self.code.geometry.partial:
            last = Value("i32", str(self.code.geometry.warps - 1))
            whole = e.compare("icmp ne", warp, last)
            mask = Value(self.word, str(self.code.geometry.last_mask))
            self._split_entry(whole, mask, fast)
        else:
            e.line(f"br label %{fast}")

    def _split_entry(self, whole: Value, mask: Value, fast: str) -> None:
        e = self.e
        partly = e.name("partly")
        e.line(f"br {whole}, label %{fast}, label %{partly}")
        e.label(partly)
        e.line(f"store {mask}, ptr {self._mask(self.region.entry)}")
        e.line(f"br label %{self.tag}.s{self.region.entry}")

    def _bring(self, scope: Scope) -> None:
        schedule, e = self.schedule, self.e
        for name in schedule.recomputed(self.region):
            self._again(scope, name)
        for name in schedule.kept_for_block(self.region):
            type = self.code.type_of(name)
            held, _ = self._block_slots(name)
            scope.scalars[name] = e.raw(f"load {type}, ptr {held}", type)
            scope.dirty[name] = None
        for name in schedule.kept_in_frame(self.region):
            scope.scalars[name] = self._load_slot(name)
            scope.dirty[name] = None
        barrier = self.region.barrier
        if barrier is not None and written_names(barrier):
            name = written_names(barrier)[0]
            scope.write(_unguarded(barrier), name, self._vote(barrier), UNIFORM)

    def _again(self, scope: Scope, name: str) -> None:
        if name in scope.scalars:
            return
        instr = self.plan.recomputed[name]
        for source in read_names(instr):
            self._again(scope, source)
        lower_instr(scope, instr)

    def _slot(self, name: str) -> tuple[str, str, int]:
        """(pointer, element type, lanes) of a register's place in the frame."""
        lanes = self.width if self.code.kinds.varying(name) else 0
        offset = self.schedule.slots[name]
        at = self.e.raw(f"getelementptr i8, ptr {self.frame}, i64 {offset}", "ptr").text
        return at, self.code.type_of(name), lanes

    def _load_slot(self, name: str) -> Value:
        at, type, lanes = self._slot(name)
        e = self.e
        if type != "i1":
            full = f"<{lanes} x {type}>" if lanes else type
            return e.raw(f"load {full}, ptr {at}, align {64 if lanes else 8}", type, lanes)
        word = f"i{max(lanes, 8)}"
        bits = e.raw(f"load {word}, ptr {at}, align 8", word)
        if not lanes:
            return e.convert("trunc", bits, "i1")
        bits = e.convert("trunc", bits, f"i{lanes}")
        return e.raw(f"bitcast {bits} to <{lanes} x i1>", "i1", lanes)

    def _store_slot(self, name: str, value: Value) -> None:
        at, type, lanes = self._slot(name)
        e = self.e
        if type == "i1":
            word = f"i{max(lanes, 8)}"
            bits = e.raw(f"bitcast {value} to i{lanes}", f"i{lanes}") if lanes else value
            e.line(f"store {e.convert('zext', bits, word)}, ptr {at}, align 8")
        else:
            e.line(f"store {value}, ptr {at}, align {64 if lanes else 8}")

    def _block_slots(self, name: str) -> tuple[str, str]:
        number, type = self.flow.registers[name], self.code.type_of(name)
        return (
            self.code.alloca(f"held.{number}", type), self.code.alloca(f"coming.{number}", type),
        )  # fmt: skip

    def _arrive(self, scope: Scope, at: int, mask: Value | None, after: str) -> None:
        """Leave behind what the next region finds."""
        self._leave_behind(scope, at, mask)
        self.e.line(f"br label %{after}")

    def _leave_behind(self, scope: Scope, node: int, mask: Value | None) -> None:
        e = self.e
        control = self.flow.nodes[node].control
        assert control is not None
        _check_barrier(control, self.code.geometry.threads)
        if self.code.watch is not None:
            self.code.watch.arrive(scope, node, mask)
        target = self.plan.regions[self.plan.by_entry[self.flow.nodes[node].targets[0]]]
        for name in self.schedule.kept_for_block(target):
            value = scope.register(name)
            e.line(f"store {value}, ptr {self._block_slots(name)[1]}")
        for name in self.schedule.kept_in_frame(target):
            self._store_slot(name, scope.register(name))
        if written_names(control):
            self._count_votes(scope, control, mask)
        e.line(f"store i32 {target.index}, ptr %at.region")
        if not self.masked:
            return
        if mask is not None:
            self._check_alone(scope)
        living = e.convert("zext", mask or Value(self.word, "-1"), "i32")
        e.line(f"store {living}, ptr {self.frame}")
        if self.plan.mode == "set":
            at = e.raw(f"getelementptr i8, ptr {self.frame}, i64 4", "ptr")
            e.line(f"store i32 {target.index}, {at}")

    def _check_alone(self, scope: Scope) -> None:
        """Lanes of this warp that wait at another barrier already: an error."""
        e = self.e
        parked = e.raw(f"load i32, ptr {self.frame}", "i32")
        clash = e.compare("icmp ne", parked, Value("i32", "0"))
        bad, good = e.name("clash"), e.name("alone")
        e.line(f"br {clash}, label %{bad}, label %{good}")
        e.label(bad)
        abort(scope, ABORT_BARRIER)
        e.line(f"br label %{good}")
        e.label(good)

    # -- bar.red -----------------------------------------------------------------------------
    def _votes(self) -> bool:
        return any(r.barrier is not None and written_names(r.barrier) for r in self.plan.regions)

    def _clear_votes(self) -> None:
        if self._votes():
            for name in ("votes.yes", "votes.all"):
                self.e.line(f"store i32 0, ptr {self.code.alloca(name, 'i32')}")

    def _publish_votes(self) -> None:
        if self._votes():
            for name in ("votes.yes", "votes.all"):
                value = self.e.raw(f"load i32, ptr %{name}", "i32")
                self.e.line(f"store {value}, ptr {self.code.alloca(name + '.held', 'i32')}")

    def _count_votes(self, scope: Scope, control: Instr, mask: Value | None) -> None:
        e, word = self.e, self.word
        vote = e.splat(scope.vector(shape_of(control).sources[-1]))
        bits = e.raw(f"bitcast {vote} to {word}", word)
        here = mask or Value(word, "-1")
        for name, value in (("yes", e.binary("and", bits, here)), ("all", here)):
            count = e.call("llvm.ctpop", [value]) if self.width > 1 else value
            wide = e.convert("zext", count, "i32")
            before = e.raw(f"load i32, ptr %votes.{name}", "i32")
            e.line(f"store {e.binary('add', before, wide)}, ptr %votes.{name}")

    def _vote(self, barrier: Instr) -> Value:
        e = self.e
        yes = e.raw(f"load i32, ptr {self.code.alloca('votes.yes.held', 'i32')}", "i32")
        if barrier.has("popc"):
            return yes
        if barrier.has("or"):
            return e.compare("icmp ne", yes, Value("i32", "0"))
        every = e.raw(f"load i32, ptr {self.code.alloca('votes.all.held', 'i32')}", "i32")
        return e.compare("icmp eq", yes, every)


def _unguarded(instr: Instr) -> Instr:
    return Instr(instr.op, instr.mods, instr.operands, None, instr.line, instr.types, instr.loc)


def _check_barrier(instr: Instr, threads: int) -> None:
    """Only barriers that the whole block takes part in."""
    if instr.has("arrive"):
        raise _of_a_part(instr)
    operands = instr.operands[1:] if instr.has("red") else instr.operands
    counts = [o for o in operands[1:2] if not (instr.has("red") and len(operands) == 2)]
    if not counts:
        return
    only = counts[0]
    if not isinstance(only, Imm) or -(-only.value // 32) * 32 < threads:
        raise _of_a_part(instr)


def _of_a_part(instr: Instr) -> UnsupportedError:
    """Kernels with such barriers run as crews, except under checks."""
    return UnsupportedError(
        f"checks of {instr.form} for a part of the block are not there on the cpu device",
        where=f"ptx:{instr.line}", next_step="unset GE2RT_CHECK",
    )  # fmt: skip
