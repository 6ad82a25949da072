"""The fast and the slow copy of a piece of the flow, one warp at a time.

The fast copy runs with all lanes and knows no masks. Where a branch parts the lanes, their masks
are left at both targets and the slow copy takes over at the earlier one: it walks over its nodes
in order, passes those that no lane waits for, and jumps back at a loop's last node while lanes go
round. At a join where all lanes are together again it returns to the fast copy.

Where lanes wait for other lanes in a loop (a lock), the walk does not jump back at the loop's last
node: it goes on with the lanes that left, and starts anew at its end. Code for the whole warp and
barriers let it go by until no lane waits in such a loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.emit import Value
from ge2rt.ptx.lower.body import lower_node
from ge2rt.ptx.lower.flow import Flow, Node
from ge2rt.ptx.lower.geometry import Here
from ge2rt.ptx.lower.graph import Loop
from ge2rt.ptx.lower.regions import Region
from ge2rt.ptx.lower.shape import takes_warp
from ge2rt.ptx.lower.values import Code, Scope
from ge2rt.ptx.lower.waits import ends_by_counting, waiting_loops

ATTEND_EVERY = 1 << 16  # passes of a loop without a known end between two looks at signals
# A branch sets its targets' masks, and each node on the walk passes all of them on: with many nodes
# their phis would be most of the code. A volatile load keeps them in memory.
MANY_MASKS = 64
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


class LoopFacts:
    """Which loops of a flow wait for other threads, and which end by counting."""

    def __init__(self, flow: Flow) -> None:
        self.waiting: Sequence[Loop] = waiting_loops(flow)
        self.counted = [loop for loop in flow.loops if ends_by_counting(flow, loop)]


class Walker:
    """Writes the nodes of a region; ``next`` is the label behind it."""

    here: Here

    def __init__(self, code: Code, region: Region, following: str, loops: LoopFacts) -> None:
        self.code, self.region, self.next, self.loops = code, region, following, loops
        self.e, self.flow, self.width = code.e, code.flow, code.width
        self.slow = [n for n in region.nodes if n in region.slow]
        self.turns = [t for t in code.kinds.spread.turns if t in region.slow]
        self.word = f"i{self.width}"
        self.tag = f"r{region.index}"
        self.ahead = False  # whether loads are worth a prefetch for the next block

    def _arrive(self, scope: Scope, at: int, mask: Value | None, after: str) -> None:
        """At a barrier node, with all lanes (None) or those of a mask; ends the LLVM block."""
        raise NotImplementedError

    def write_nodes(self) -> None:
        """Both copies of all nodes."""
        for node in self.region.nodes:
            self._fast(node)
        for position, node in enumerate(self.slow):
            self._slow(node, position)
        if self.slow:
            self._walked()

    # -- the fast copy -----------------------------------------------------------------------
    def _fast(self, at: int) -> None:
        e, node = self.e, self.flow.nodes[at]
        e.label(f"{self.tag}.f{at}")
        scope = Scope(self.code, self.here, ahead=self.ahead)
        lower_node(scope, node.instrs)
        if node.kind == "barrier":
            self._arrive(scope, at, None, self.next)
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
        if not loops or loops[-1] in self.loops.counted:
            return
        if any(lp in self.loops.waiting for lp in loops):
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
        if self.code.watch is not None:
            self.code.watch.wait(Scope(self.code, self.here))
        self.e.line('call void asm sideeffect "", "~{memory}"()')

    def _fast_label(self, target: int) -> str:
        return self.next if target == self.flow.exit else f"{self.tag}.f{target}"

    def _fast_branch(self, scope: Scope, at: int) -> None:
        e, node = self.e, self.flow.nodes[at]
        assert node.control is not None
        taken, fall = node.targets
        value = scope.guard(node.control)
        if value.lanes == 1:  # a single lane never parts
            value = e.raw(f"extractelement {value}, i32 0", "i1")
        if not value.lanes:
            yes, no = self._fast_label(taken), self._fast_label(fall)
            if self.code.watch is not None:
                every = Value(self.word, "-1")
                bits = e.select(value, every, Value(self.word, "0"))
                self._tell(scope, at, {taken: bits, fall: e.binary("xor", bits, every)})
            e.line(f"br {value}, label %{yes}, label %{no}")
            return
        bits = self._bits(value)
        mixed = e.name("mixed")
        other = e.binary("xor", bits, Value(self.word, "-1"))
        self._tell(scope, at, {taken: bits, fall: other})
        e.line(
            f"switch {bits}, label %{mixed} [ {self.word} -1, label %{self._fast_label(taken)} "
            f"{self.word} 0, label %{self._fast_label(fall)} ]"
        )
        e.label(mixed)
        self._leave_masks(scope, {taken: bits, fall: other})

    def _tell(self, scope: Scope, at: int, masks: dict[int, Value]) -> None:
        """Let the checks know where lanes go from node ``at``."""
        watch = self.code.watch
        if watch is not None:
            watch.branch(scope, at, masks)

    def _bits(self, value: Value) -> Value:
        frozen = self.e.raw(f"freeze {value}", "i1", value.lanes)
        return self.e.raw(f"bitcast {frozen} to {self.word}", self.word)

    def _leave_masks(self, scope: Scope, masks: dict[int, Value]) -> None:
        """From the fast copy into the slow one."""
        e = self.e
        if self.code.watch is not None and self.flow.exit in masks:
            self.code.watch.leave(scope, masks[self.flow.exit])
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
        self._leave_masks(scope, self._switch_masks(index, node.targets))

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
        kind = "load volatile" if len(self.slow) > MANY_MASKS else "load"
        mask = e.raw(f"{kind} {word}, ptr {self._mask(at)}", word)
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
            self._arrive(scope, at, mask, after)
            return
        scope.flush(self.flow.live_out(at))
        masks = self._slow_masks(scope, at, mask)
        self._tell(scope, at, masks)
        if self.code.watch is not None and self.flow.exit in masks:
            self.code.watch.leave(scope, masks[self.flow.exit])
        self._walk_on(at, masks, after)

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
        back = [t for t in masks if t <= at and t != self.flow.exit and t not in self.turns]
        if not back:
            e.line(f"br label %{after}")
            return
        target = min(back)
        self._poll(at)
        if len(masks) == 1:
            e.line(f"br label %{self.tag}.s{target}")
            return
        looping = masks[target]
        for other in back:  # one node may be the last of two loops
            looping = looping if other == target else e.binary("or", looping, masks[other])
        some = e.compare("icmp ne", looping, Value(self.word, "0"))
        e.line(f"br {some}, label %{self.tag}.s{target}, label %{after}")

    def _turning(self) -> Value | None:
        """The lanes that wait in loops for other lanes; None where there are no such loops."""
        found: Value | None = None
        for turn in self.turns:
            mask = self.e.raw(f"load {self.word}, ptr {self._mask(turn)}", self.word)
            found = mask if found is None else self.e.binary("or", found, mask)
        return found

    def _held_back(self) -> Value:
        """The lanes that stand before gates (see :meth:`_gate`) while others wait in loops."""
        found = Value(self.word, "0")
        for at in self.slow if self.turns else ():
            if _is_gate(self.flow.nodes[at]):
                mask = self.e.raw(f"load {self.word}, ptr {self._mask(at)}", self.word)
                found = self.e.binary("or", found, mask)
        return found

    def _gate(self, node: Node, after: str) -> None:
        """Lanes at a barrier or at code for the whole warp let those that wait come first."""
        if not _is_gate(node):
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


def _is_gate(node: Node) -> bool:
    return node.kind == "barrier" or any(takes_warp(i) for i in node.instrs)
