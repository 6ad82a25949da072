"""One region: its loop over the warps, and the fast and slow copies of its nodes.

The fast copy runs with all lanes and knows no masks. Where a branch parts the lanes, their masks
are left at both targets and the slow copy takes over at the earlier one: it walks over its nodes
in order, passes those that no lane waits for, and jumps back at a loop's last node while lanes go
round. At a join where all lanes are together again it returns to the fast copy.

Where lanes wait for other lanes in a loop (a lock), the walk does not jump back at the loop's last
node: it goes on with the lanes that left, and starts anew at its end. Code for the whole warp and
barriers let it go by until no lane waits in such a loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Imm, Instr
from ge2rt.ptx.emit import Value
from ge2rt.ptx.lanes import UNIFORM
from ge2rt.ptx.lower.body import abort, lower_instr, lower_node
from ge2rt.ptx.lower.flow import Node
from ge2rt.ptx.lower.regions import Region
from ge2rt.ptx.lower.shape import read_names, sources, takes_warp, written_names
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.native import ABORT_BARRIER

if TYPE_CHECKING:
    from ge2rt.ptx.lower.schedule import Schedule

ATTEND_EVERY = 1 << 16  # passes of a loop without a known end between two looks at signals
ATTEND = """define internal void @ge2rt_attend(ptr %launch, ptr %arena) noinline cold {
  %at = getelementptr i8, ptr %launch, i64 24
  %log = load ptr, ptr %at
  %none = icmp eq ptr %log, null
  br i1 %none, label %done, label %call
call:
  %look = load ptr, ptr %log
  call void %look(ptr %launch, ptr %arena)
  br label %done
done:
  ret void
}"""


class RegionWriter:
    """Writes one region."""

    def __init__(self, schedule: Schedule, region: Region) -> None:
        self.schedule, self.region = schedule, region
        self.code, self.plan, self.e = schedule.code, schedule.plan, schedule.e
        self.flow, self.width = self.code.flow, self.code.width
        self.slow = [n for n in region.nodes if n in region.slow]
        self.turns = [t for t in self.code.kinds.spread.turns if t in region.slow]
        self.word = f"i{self.width}"
        self.tag = f"r{region.index}"
        self.masked = self.plan.mode != "plain"  # warps keep a mask of living lanes
        self.sets = self.plan.mode == "set" and region.index > 0
        self.next = "set.next" if self.sets else f"{self.tag}.next"

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
        for node in self.region.nodes:
            self._fast(node)
        for at, node in enumerate(self.slow):
            self._slow(node, at)
        if self.slow:
            self._walked()
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
        for name in self._block_registers():
            held, coming = self._block_slots(name)
            type = self.code.type_of(name)
            value = e.raw(f"load {type}, ptr {held}", type)
            e.line(f"store {value}, ptr {coming}")
        self._clear_votes()
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
        for name in self._block_registers():
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

    def _block_registers(self) -> list[str]:
        names = [n for r in self.plan.regions[1:] for n in self.schedule.kept_for_block(r)]
        return list(dict.fromkeys(names))

    def _block_slots(self, name: str) -> tuple[str, str]:
        number, type = self.flow.registers[name], self.code.type_of(name)
        return (
            self.code.alloca(f"held.{number}", type), self.code.alloca(f"coming.{number}", type),
        )  # fmt: skip

    def _arrive(self, scope: Scope, node: int, mask: Value | None) -> None:
        """At a barrier: leave behind what the next region finds."""
        e = self.e
        control = self.flow.nodes[node].control
        assert control is not None
        _check_barrier(control, self.code.geometry.threads)
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
        vote = e.splat(scope.vector(sources(control)[-1]))
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

    # -- the fast copy -----------------------------------------------------------------------
    def _fast(self, at: int) -> None:
        e, node = self.e, self.flow.nodes[at]
        e.label(f"{self.tag}.f{at}")
        phased = len(self.plan.regions) > 1 and self.region.index == 0
        scope = Scope(self.code, self.here, ahead=phased)
        lower_node(scope, node.instrs)
        if node.kind == "barrier":
            self._arrive(scope, at, None)
            e.line(f"br label %{self.next}")
            return
        scope.flush(self.flow.live_out(at))
        if any(target <= at for target in node.targets):
            self._poll(at)
        if node.kind == "branch" and len(set(node.targets)) > 1:
            self._fast_branch(scope, at)
        elif node.kind == "switch":
            self._fast_switch(scope, at)
        else:
            e.line(f"br label %{self._fast_label(node.targets[0])}")

    def _poll(self, at: int) -> None:
        """At a loop's last node: leave the function where the launch is to stop."""
        e = self.e
        loops = [lp for lp in self.flow.loops if lp.members >> at & 1]
        if not loops or loops[-1] in self.schedule.counted:
            return
        if any(lp in self.schedule.waiting for lp in loops):
            self._wait()
        on, beat = e.name("on"), self.code.alloca("beat", "i32")
        word = e.raw("load atomic i32, ptr %abort monotonic, align 4", "i32")
        turn = e.binary("add", e.raw(f"load i32, ptr {beat}", "i32"), Value("i32", "1"))
        e.line(f"store {turn}, ptr {beat}")
        low = e.binary("and", turn, Value("i32", str(ATTEND_EVERY - 1)))
        due = e.compare("icmp eq", low, Value("i32", "0"))
        stop = e.compare("icmp ne", word, Value("i32", "0"))
        look, stay = e.name("look"), e.name("stay")
        e.line(f"br {e.binary('or', due, stop)}, label %{look}, label %{on}, !prof !1")
        e.label(look)
        e.line(f"br {stop}, label %leave, label %{stay}")
        e.label(stay)
        self._attend()
        e.line(f"br label %{on}")
        e.label(on)

    def _attend(self) -> None:
        """Let the host look at signals."""
        self.e.declarations["ge2rt_attend"] = ATTEND
        self.e.line("call void @ge2rt_attend(ptr %launch, ptr %arena)")

    def _wait(self) -> None:
        """Once a pass of a loop that waits for other threads."""
        self.e.line('call void asm sideeffect "", "~{memory}"()')

    def _fast_label(self, target: int) -> str:
        return self.next if target == self.flow.exit else f"{self.tag}.f{target}"

    def _fast_branch(self, scope: Scope, at: int) -> None:
        e, node = self.e, self.flow.nodes[at]
        assert node.control is not None
        taken, fall = node.targets
        value = scope.guard(node.control)
        if not value.lanes:
            yes, no = self._fast_label(taken), self._fast_label(fall)
            e.line(f"br {value}, label %{yes}, label %{no}")
            return
        bits = self._bits(value)
        mixed = e.name("mixed")
        e.line(
            f"switch {bits}, label %{mixed} [ {self.word} -1, label %{self._fast_label(taken)} "
            f"{self.word} 0, label %{self._fast_label(fall)} ]"
        )
        e.label(mixed)
        other = e.binary("xor", bits, Value(self.word, "-1"))
        self._leave_masks({taken: bits, fall: other})

    def _bits(self, value: Value) -> Value:
        frozen = self.e.raw(f"freeze {value}", "i1", value.lanes)
        return self.e.raw(f"bitcast {frozen} to {self.word}", self.word)

    def _leave_masks(self, masks: dict[int, Value]) -> None:
        """From the fast copy into the slow one."""
        e = self.e
        targets = sorted(t for t in masks if t != self.flow.exit)
        for target in targets:
            e.line(f"store {masks[target]}, ptr {self._mask(target)}")
        e.line(f"br label %{self.tag}.s{targets[0]}")

    def _fast_switch(self, scope: Scope, at: int) -> None:
        e, node = self.e, self.flow.nodes[at]
        assert node.control is not None
        index = scope.vector(node.control.operands[0])
        if not index.lanes:
            cases = " ".join(
                f"{index.type} {k}, label %{self._fast_label(t)}"
                for k, t in enumerate(node.targets[:-1])
            )
            last = self._fast_label(node.targets[-1])
            e.line(f"switch {index}, label %{last} [ {cases} ]")
            return
        self._leave_masks(self._switch_masks(index, node.targets))

    def _switch_masks(self, index: Value, targets: tuple[int, ...]) -> dict[int, Value]:
        masks: dict[int, Value] = {}
        for k, target in enumerate(targets):
            here = self._bits(self.e.compare("icmp eq", index, Value(index.type, str(k))))
            masks[target] = self.e.binary("or", masks[target], here) if target in masks else here
        return masks

    # -- the slow copy -----------------------------------------------------------------------
    def _mask(self, node: int) -> str:
        return self.code.alloca(f"mask.{self.region.index}.{node}", self.word)

    def _slow(self, at: int, position: int) -> None:
        e, node, word = self.e, self.flow.nodes[at], self.word
        after = f"{self.tag}.walked"
        if position + 1 < len(self.slow):
            after = f"{self.tag}.s{self.slow[position + 1]}"
        e.label(f"{self.tag}.s{at}")
        mask = e.raw(f"load {word}, ptr {self._mask(at)}", word)
        some = e.compare("icmp ne", mask, Value(word, "0"))
        run = f"{self.tag}.w{at}"
        e.line(f"br {some}, label %{run}, label %{after}")
        e.label(run)
        self._gate(node, after)
        e.line(f"store {word} 0, ptr {self._mask(at)}")
        if at in self.code.kinds.spread.joins:
            whole, parted = e.compare("icmp eq", mask, Value(word, "-1")), e.name("parted")
            e.line(f"br {whole}, label %{self.tag}.f{at}, label %{parted}")
            e.label(parted)
        lanes = e.raw(f"bitcast {mask} to <{self.width} x i1>", "i1", self.width)
        scope = Scope(self.code, self.here, lanes, self.code.kinds.spread.blends[at])
        lower_node(scope, node.instrs)
        if node.kind == "barrier":
            self._arrive(scope, at, mask)
            e.line(f"br label %{after}")
            return
        scope.flush(self.flow.live_out(at))
        self._walk_on(at, self._slow_masks(scope, at, mask), after)

    def _slow_masks(self, scope: Scope, at: int, mask: Value) -> dict[int, Value]:
        e, node = self.e, self.flow.nodes[at]
        if node.kind == "switch":
            assert node.control is not None
            index = e.splat(scope.vector(node.control.operands[0]))
            masks = self._switch_masks(index, node.targets)
            return {t: e.binary("and", m, mask) for t, m in masks.items()}
        if node.kind != "branch" or len(set(node.targets)) < 2:
            return {node.targets[0]: mask}
        assert node.control is not None
        taken, fall = node.targets
        value = scope.guard(node.control)
        none = Value(self.word, "0")
        if not value.lanes:
            return {taken: e.select(value, mask, none), fall: e.select(value, none, mask)}
        bits = e.binary("and", self._bits(value), mask)
        return {taken: bits, fall: e.binary("xor", mask, bits)}

    def _walk_on(self, at: int, masks: dict[int, Value], after: str) -> None:
        """Add the masks to the targets, then go back where lanes loop, else on."""
        e = self.e
        for target, mask in masks.items():
            if target == self.flow.exit:
                continue
            slot = self._mask(target)
            waiting = e.raw(f"load {self.word}, ptr {slot}", self.word)
            e.line(f"store {e.binary('or', waiting, mask)}, ptr {slot}")
        back = [t for t in masks if t <= at and t != self.flow.exit]
        if not back or min(back) in self.turns:
            e.line(f"br label %{after}")
            return
        target = min(back)
        self._poll(at)
        if len(masks) == 1:
            e.line(f"br label %{self.tag}.s{target}")
            return
        some = e.compare("icmp ne", masks[target], Value(self.word, "0"))
        e.line(f"br {some}, label %{self.tag}.s{target}, label %{after}")

    def _turning(self) -> Value | None:
        """The lanes that wait in loops for other lanes; None where there are no such loops."""
        found: Value | None = None
        for turn in self.turns:
            mask = self.e.raw(f"load {self.word}, ptr {self._mask(turn)}", self.word)
            found = mask if found is None else self.e.binary("or", found, mask)
        return found

    def _gate(self, node: Node, after: str) -> None:
        """Lanes at a barrier or at code for the whole warp let those that wait come first."""
        if node.kind != "barrier" and not any(takes_warp(i) for i in node.instrs):
            return
        e, others = self.e, self._turning()
        if others is None:
            return
        alone, through = e.compare("icmp eq", others, Value(self.word, "0")), e.name("through")
        e.line(f"br {alone}, label %{through}, label %{after}")
        e.label(through)

    def _walked(self) -> None:
        """The end of the walk: start anew while lanes wait for other lanes."""
        e = self.e
        e.label(f"{self.tag}.walked")
        others = self._turning()
        if others is None:
            e.line(f"br label %{self.next}")
            return
        again, some = e.name("again"), e.compare("icmp ne", others, Value(self.word, "0"))
        e.line(f"br {some}, label %{again}, label %{self.next}")
        e.label(again)
        self._poll(self.turns[0])
        e.line(f"br label %{self.tag}.s{self.slow[0]}")


def _unguarded(instr: Instr) -> Instr:
    return Instr(instr.op, instr.mods, instr.operands, None, instr.line, instr.types, instr.loc)


def _check_barrier(instr: Instr, threads: int) -> None:
    """Only barriers that the whole block takes part in."""
    if instr.has("arrive"):
        raise UnsupportedError(f"{instr.form} is not there on cpu", where=f"ptx:{instr.line}")
    operands = instr.operands[1:] if instr.has("red") else instr.operands
    counts = [o for o in operands[1:2] if not (instr.has("red") and len(operands) == 2)]
    if not counts:
        return
    only = counts[0]
    if not isinstance(only, Imm) or -(-only.value // 32) * 32 < threads:
        raise UnsupportedError(
            f"{instr.form} of a part of the block is not there on cpu", where=f"ptx:{instr.line}"
        )
