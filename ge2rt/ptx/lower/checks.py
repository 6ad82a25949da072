"""Instrumentation for ``GE2RT_CHECK``: calls of the host's checks at accesses and barriers.

``code.watch`` is None in a plain kernel, and nothing here is called then. In an instrumented one
each method writes a call of a function of the checks' state (``CHECK_CALLS`` in
:mod:`ge2rt.ptx.native`); what may find a fault answers 1, and the code leaves at once, before the
access is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ge2rt.ptx.ast import Address, Imm, Instr, Operand, Reg, Symbol
from ge2rt.ptx.emit import BITS, Emitter, Value
from ge2rt.ptx.lower import graph
from ge2rt.ptx.lower.address import Where, full_lanes
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.regions import between
from ge2rt.ptx.lower.shape import flatten, read_names, written_names
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.native import CHECK_CALLS, CHECKS_AT, LAUNCH_BYTES, WHAT, Checked, Site
from ge2rt.ptx.rules.operands import cast

READ, WRITE = WHAT["READ"], WHAT["WRITE"]
COPY = WRITE | WHAT["ASYNC"]
ATOMIC = READ | WRITE | WHAT["STRONG"]
RELEASE = WHAT["ORDERS"]
_SPACES = {"global": 1, "shared": 2, "local": 3, "const": 5}  # 0: found out by the address
_STRONG = ("volatile", "relaxed", "acquire", "release", "acq_rel", "sc")
_RELEASES = ("release", "acq_rel", "sc")
_WHOLE = ("mma", "wmma", "ldmatrix", "stmatrix", "movmatrix")  # all lanes take part


@dataclass(frozen=True)
class Part:
    """A branch that may part the block before barriers: ``to`` leads to them, ``past`` does not."""

    number: int
    branch: int
    to: int
    past: int
    barriers: frozenset[int]


def deciding(flow: Flow, parting: Iterable[int]) -> tuple[Part, ...]:
    """Branches with barriers on one side only, out of those that may differ within the block.

    Threads may end early: a branch whose sides meet only at the end of the kernel is left out.
    """
    barriers = sum(1 << at for at, n in enumerate(flow.nodes) if n.kind == "barrier")
    found: list[Part] = []
    for branch in parting:
        node = flow.nodes[branch]
        if node.kind != "branch" or _is_end(flow, flow.joins[branch]):
            continue
        inside = between(flow, branch) & ~(1 << branch)
        sides = [graph.reach(flow.edges, [t], inside) & barriers for t in node.targets]
        if bool(sides[0]) != bool(sides[1]):
            to = 0 if sides[0] else 1
            found.append(Part(len(found), branch, node.targets[to], node.targets[1 - to],
                              frozenset(graph.bits(sides[to]))))  # fmt: skip
    return tuple(found)


def _is_end(flow: Flow, at: int) -> bool:
    while at != flow.exit:
        node = flow.nodes[at]
        if node.instrs or node.kind not in ("goto", "exit"):
            return False
        at = node.targets[0]
    return True


class Watch:
    """The sites and calls of one kernel in the making."""

    def __init__(self, checks: frozenset[str], files: Mapping[int, str]) -> None:
        self.checks = checks
        self.parts: tuple[Part, ...] = ()
        self._files = files
        self._looks: frozenset[int] = frozenset()  # lines of reads before atomics
        self._copies: frozenset[int] = frozenset()  # lines of reads whose values are not used
        self._sites: dict[Site, int] = {}
        self._granule = 8

    def result(self, width: int, lane_bytes: int) -> Checked:
        """What the host must know."""
        return Checked(
            tuple(sorted(self.checks)), tuple(self._sites), width, self._granule, lane_bytes,
            len(self.parts),
        )  # fmt: skip

    def look_at(self, flow: Flow) -> None:
        """Find plain reads that an atomic of the same place follows, and reads that only copy."""
        places = _Places(flow)
        last: dict[tuple[str, int], int] = {}
        instrs = [i for node in flow.nodes for i in node.instrs]
        for at, instr in enumerate(instrs):
            if instr.op in ("atom", "red"):
                last[places.find(instr.operands[int(instr.op == "atom")])] = at
        self._looks = frozenset(
            instr.line
            for at, instr in enumerate(instrs)
            if instr.op == "ld" and last.get(places.find(instr.operands[1]), -1) > at
        )
        used = {name for i in instrs for name in read_names(i) if name not in _copied(i)}
        used |= {name for n in flow.nodes if n.control for name in read_names(n.control)}
        self._copies = frozenset(
            i.line for i in instrs if i.op == "ld" and used.isdisjoint(written_names(i))
        )

    def _site(self, instr: Instr) -> Value:
        index, line = instr.loc or (0, 0)
        site = Site(instr.line, self._files.get(index, "") if line else "", line, instr.form)
        return Value("i32", str(self._sites.setdefault(site, len(self._sites))))

    # -- the function's frame ------------------------------------------------------------------
    def head(self, shared: int) -> list[str]:
        """Lines for the function's start: the checks' functions, and where memory lies."""
        lines = [
            f"  %host.p = getelementptr i8, ptr %launch, i64 {LAUNCH_BYTES}",
            "  %host = load ptr, ptr %host.p",
            f"  %checks.p = getelementptr i8, ptr %host, i64 {CHECKS_AT}",
            "  %checks = load ptr, ptr %checks.p",
        ]
        for at, name in enumerate(CHECK_CALLS):
            lines += [
                f"  %check.{name}.p = getelementptr i8, ptr %checks, i64 {8 * at}",
                f"  %check.{name} = load ptr, ptr %check.{name}.p, !invariant.load !0",
            ]
        return [
            *lines,
            f"  %shared.size = add i64 %dynamic.wide, {shared}",
            "  call void %check.attach(ptr %checks, ptr %abort, ptr %arena, i64 %shared.size, "
            "i64 %frames.int, i64 %local.int, i64 %arena.end, i64 %params.int)",
        ]

    def begin(self, e: Emitter) -> None:
        """A block begins."""
        e.line("call void %check.begin(ptr %checks, i64 %block)")

    def phase(self, e: Emitter) -> None:
        """All warps have come to a barrier."""
        e.line("call void %check.phase(ptr %checks)")

    # -- memory ----------------------------------------------------------------------------------
    def access(
        self, scope: Scope, instr: Instr, place: Where, type: str, count: int, *, how: int,
        space: str, active: Value | None, values: Sequence[Value] = (),
    ) -> None:  # fmt: skip
        """An access of ``count`` elements a lane; ``values`` are what a plain store writes."""
        if not self.checks & {"memory", "race", "init"}:
            return
        e, size = scope.e, BITS[type] // 8
        if any(instr.has(m) for m in _STRONG):
            how |= WHAT["STRONG"] | (WHAT["DECLARED"] if instr.op in ("ld", "st") else 0)
        if any(instr.has(m) for m in _RELEASES):
            how |= WHAT["ORDERS"]
        if how == READ and instr.line in self._looks:
            how |= WHAT["LOOKS"]
        if how == READ and instr.line in self._copies:
            how |= WHAT["COPIES"]
        if space != "local":
            self._granule = min(self._granule, size)
        what = size * count | size << 8 | _SPACES.get(space, 0) << WHAT["SPACE"] | how
        lanes = e.splat(full_lanes(scope, place), scope.code.width)
        addresses = _spill(scope, "addresses", [lanes])
        given = _spill(scope, "values", values) if values else "null"
        self._ask(
            scope, "access", _word(scope, active), Value("ptr", addresses), Value("ptr", given),
            self._site(instr), Value("i32", str(what)),
        )  # fmt: skip

    def copies(self, scope: Scope, instr: Instr, pending: int | None) -> None:
        """A group of copies is committed (None), or all but the last ``pending`` are waited for."""
        if "race" in self.checks:
            commit, left = Value("i32", str(int(pending is None))), Value("i32", str(pending or 0))
            self._ask(scope, "copies", _word(scope, scope.active(instr)), commit, left)

    def fence(self, scope: Scope) -> None:
        """A memory fence."""
        if "race" in self.checks:
            scope.e.line(f"call void %check.fence(ptr %checks, {scope.here.warp})")

    # -- barriers and the lanes of a warp ----------------------------------------------------------
    def arrive(self, scope: Scope, at: int, mask: Value | None) -> None:
        """Lanes come to the barrier that ends node ``at``."""
        control = scope.code.flow.nodes[at].control
        if "sync" not in self.checks or control is None:
            return
        lanes, site = _lanes(scope, mask), self._site(control)
        self._ask(scope, "arrive", lanes, site)
        for part in self.parts:
            if at in part.barriers:
                self._ask(scope, "commit", lanes, Value("i32", str(part.number)), site)

    def branch(self, scope: Scope, at: int, masks: Mapping[int, Value]) -> None:
        """Lanes part at node ``at``: ``masks`` are words by target."""
        part = next((p for p in self.parts if p.branch == at), None)
        if part is None:
            return
        barrier = scope.code.flow.nodes[min(part.barriers)].control
        assert barrier is not None
        to, past = (_lanes(scope, masks[t]) for t in (part.to, part.past))
        number = Value("i32", str(part.number))
        self._ask(scope, "part", to, past, number, self._site(barrier))

    def wait(self, scope: Scope) -> None:
        """A pass of a loop that waits for other threads."""
        self._ask(scope, "wait")

    def leave(self, scope: Scope, mask: Value) -> None:
        """Lanes end."""
        if "sync" in self.checks:
            lanes = _lanes(scope, mask)
            scope.e.line(f"call void %check.leave(ptr %checks, {scope.here.warp}, {lanes})")

    def warp(self, scope: Scope, instr: Instr, values: Sequence[Value]) -> None:
        """An instruction for several lanes of a warp; ``values`` are its sources."""
        if not self.checks & {"sync", "race"}:
            return
        e, width = scope.e, scope.code.width
        orders = instr.op in ("bar", "barrier")
        members: Value | None = None
        if instr.op in _WHOLE:
            members = Value("i32", "-1")
        elif instr.has("sync") and values:
            members = values[0 if instr.op == "elect" else -1]
        if members is None or not (orders or "sync" in self.checks):
            return
        held = _spill(scope, "members", [e.splat(cast(e, members, "i32"), width)])
        self._ask(
            scope, "warp", _word(scope, scope.active(instr)), Value("ptr", held),
            Value("i32", str(int(orders))), self._site(instr),
        )  # fmt: skip

    def _ask(self, scope: Scope, name: str, *args: Value) -> None:
        e = scope.e
        listed = ", ".join(map(str, (Value("ptr", "%checks"), scope.here.warp, *args)))
        answer = e.raw(f"call i32 %check.{name}({listed})", "i32")
        bad, good = e.compare("icmp ne", answer, Value("i32", "0")), e.name("good")
        e.line(f"br {bad}, label %leave, label %{good}")
        e.label(good)


class _Places:
    """Addresses as a register or variable and an offset, followed through additions."""

    def __init__(self, flow: Flow) -> None:
        self._steps: dict[str, tuple[Operand, int] | None] = {}
        for node in flow.nodes:
            for instr in node.instrs:
                for name in written_names(instr):
                    self._steps[name] = None if name in self._steps else _step(instr)

    def find(self, operand: Operand | None) -> tuple[str, int]:
        """The place; ("", 0) for what is no address."""
        if not isinstance(operand, Address) or operand.base is None:
            return "", 0
        base: Operand = operand.base
        offset = operand.offset
        while isinstance(base, Reg) and (step := self._steps.get(base.name)) is not None:
            base, offset = step[0], offset + step[1]
        name = base.name if isinstance(base, (Reg, Symbol)) else ""
        return name, offset + (base.offset if isinstance(base, Symbol) else 0)


def _copied(instr: Instr) -> tuple[str, ...]:
    """Registers that an instruction only stores to local memory."""
    if instr.op != "st" or not instr.has("local"):
        return ()
    address = instr.operands[0]
    base = address.base if isinstance(address, Address) else None
    data = [o.name for o in flatten(instr.operands[1]) if isinstance(o, Reg) and o != base]
    return tuple(name for name in data if instr.guard is None or name != instr.guard.reg.name)


def _step(instr: Instr) -> tuple[Operand, int] | None:
    """What an instruction adds to what, if it only moves an address."""
    if instr.guard is not None or len(instr.operands) < 2:
        return None
    if instr.op in ("mov", "cvta"):
        return instr.operands[1], 0
    added = instr.operands[2] if len(instr.operands) > 2 else None
    if instr.op == "add" and isinstance(added, Imm) and added.kind == "int":
        return instr.operands[1], added.value
    return None


def _word(scope: Scope, active: Value | None) -> Value:
    """The executing lanes, as an i32."""
    width = scope.code.width
    if active is None:
        return Value("i32", str((1 << width) - 1))
    e = scope.e
    return _lanes(scope, e.raw(f"bitcast {e.splat(active, width)} to i{width}", f"i{width}"))


def _lanes(scope: Scope, mask: Value | None) -> Value:
    """A word of a bit a lane (None: all lanes), as an i32."""
    if mask is None:
        return Value("i32", str((1 << scope.code.width) - 1))
    if mask.type == "i32":
        return mask
    return scope.e.convert("zext", mask, "i32")


def _spill(scope: Scope, name: str, values: Sequence[Value]) -> str:
    """The values, each a vector of all lanes, one behind the other in memory."""
    e, width, type = scope.e, scope.code.width, values[0].type
    slot = scope.code.alloca(
        f"check.{name}.{len(values)}.{type}", f"[{len(values) * width} x {type}]"
    )
    for k, value in enumerate(values):
        at = e.raw(f"getelementptr {type}, ptr {slot}, i64 {k * width}", "ptr")
        e.line(f"store {e.splat(value, width)}, {at}, align 1")
    return slot
