"""A function as numbered nodes in walking order: barriers end nodes, each loop has one last node.

The guarantees that :mod:`ge2rt.ptx.lower.spread` builds on:

- nodes stand in an order from :func:`graph.loop_order`: topological but for edges to loop headers,
  and every loop in one piece;
- every loop has at most one node with an edge back to its header, hence it is the loop's last node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ge2rt.base.errors import UnsupportedError
from ge2rt.base.once import cached_property
from ge2rt.ptx.ast import Function, Instr, Symbol
from ge2rt.ptx.lower import graph
from ge2rt.ptx.lower.graph import Loop
from ge2rt.ptx.lower.shape import BARRIER, Shape, is_barrier, shape_of

_STOPS = frozenset(("trap", "quit", "overflow"))
# What a node may end at; ``meets`` asks about barriers only.
_CUTS = frozenset(("bra", "brx", "ret", "exit", "call")) | _STOPS | BARRIER
_EXIT = ""  # the label of the virtual node that all ends lead to


@dataclass(frozen=True)
class Node:
    """A straight piece of code and how it ends.

    ``kind``: ``goto`` (one target), ``branch`` (targets: the guard of ``control`` holds, does not
    hold), ``switch`` (targets by index), ``barrier`` (``control`` is the barrier, one target) or
    ``exit``.
    """

    label: str
    instrs: tuple[Instr, ...]
    kind: str
    targets: tuple[int, ...]
    control: Instr | None = None

    @cached_property
    def steps(self) -> tuple[tuple[Instr, Shape], ...]:
        """Each instruction with its shape, ``control`` last."""
        control = () if self.control is None else (self.control,)
        return tuple([(instr, shape_of(instr)) for instr in (*self.instrs, *control)])


@dataclass
class _Draft:
    label: str
    instrs: list[Instr] = field(default_factory=list)
    kind: str = "goto"
    targets: list[str] = field(default_factory=list)
    control: Instr | None = None


@dataclass(frozen=True)
class Flow:
    """The nodes in walking order (the entry is node 0); ``exit`` = ``len(nodes)`` is the end."""

    nodes: tuple[Node, ...]
    loops: tuple[Loop, ...]  # outer before inner

    @property
    def exit(self) -> int:
        """The number of the virtual end node."""
        return len(self.nodes)

    @cached_property
    def edges(self) -> tuple[tuple[int, ...], ...]:
        """Distinct targets of each node, the end node's (none) included."""
        return (*(tuple(dict.fromkeys(n.targets)) for n in self.nodes), ())

    @cached_property
    def post_dominators(self) -> list[int]:
        """Sets of post-dominators by node."""
        return graph.post_dominators(self.edges, self.exit)

    @cached_property
    def joins(self) -> tuple[int, ...]:
        """Where the lanes of each node are together again: its nearest post-dominator.

        One inside of a loop counts only if no lane comes to the end of the iteration without it.
        """
        sets = self.post_dominators
        return tuple(self._join(n, sets[n] & ~(1 << n)) for n in range(len(self.nodes)))

    def _join(self, at: int, candidates: int) -> int:
        around = (
            [lp for lp in self.loops if lp.members >> at & 1] if len(self.edges[at]) > 1 else []
        )
        while True:
            join = graph.nearest(candidates, self.post_dominators, self.exit)
            missed = [lp for lp in around if lp.members >> join & 1 and self._misses(at, join, lp)]
            if not missed:
                return join
            candidates &= ~(1 << join)

    def _misses(self, at: int, join: int, loop: Loop) -> bool:
        """Whether a lane at ``at`` can come back to the loop's header before it comes to a node."""
        way = loop.members & ~(1 << join) & ~(1 << loop.header)
        starts = self.edges[at]
        seen = graph.reach(self.edges, starts, way)
        return loop.header in starts or any(loop.header in self.edges[n] for n in graph.bits(seen))

    @cached_property
    def registers(self) -> dict[str, int]:
        """A number for each register that is read or written."""
        names: list[str] = []
        for node in self.nodes:
            for _, shape in node.steps:
                names += shape.written
                names += shape.read
        return {name: number for number, name in enumerate(dict.fromkeys(names))}

    @cached_property
    def written(self) -> tuple[int, ...]:
        """Sets of registers written by each node (bar.red's result counts as the target's)."""
        number = self.registers
        return tuple(
            graph.bits_of({number[name] for _, shape in node.steps for name in shape.written})
            for node in self.nodes
        )

    @cached_property
    def live_in(self) -> tuple[int, ...]:
        """Sets of registers live at the start of each node (and of the end: none)."""
        number = self.registers
        count = len(self.nodes)
        gen, kill = [0] * count, [0] * count
        for at, node in enumerate(self.nodes):
            first_read, overwritten = set[str](), set[str]()
            for instr, shape in reversed(node.steps):
                if instr.guard is None:
                    overwritten.update(shape.written)
                    first_read.difference_update(shape.written)
                first_read.update(shape.read)
            gen[at] = graph.bits_of([number[name] for name in first_read])
            kill[at] = graph.bits_of([number[name] for name in overwritten])
        live = [0] * (count + 1)
        changed = True
        while changed:
            changed = False
            for at in range(count - 1, -1, -1):
                out = 0
                for target in self.edges[at]:
                    out |= live[target]
                now = gen[at] | out & ~kill[at]
                if now != live[at]:
                    live[at] = now
                    changed = True
        return tuple(live)

    def live_out(self, at: int) -> int:
        """Registers live at the end of node ``at``."""
        out = 0
        for target in self.edges[at]:
            out |= self.live_in[target]
        return out


def build(
    function: Function, apart: Callable[[Instr], bool] | None = None,
    meets: Callable[[Instr], bool] = is_barrier,
) -> Flow:  # fmt: skip
    """Cut at barriers, give each loop one last node, and number the nodes in walking order.

    ``apart`` says before which further instructions to cut, ``meets`` what a barrier is.
    """
    drafts: list[_Draft] = []
    for block in function.blocks:
        _Cutter(drafts, block.label, apart, meets).cut(block.instrs, block.successors)
    entry = drafts[0].label
    table = {draft.label: draft for draft in drafts}
    order, loops = _arrange(table, entry)
    while (outer := _part_headers(table, loops, entry)) is not None:
        entry = outer
        order, loops = _arrange(table, entry)
    if _unify_latches(table, order, loops):
        order, loops = _arrange(table, entry)
    number = {label: at for at, label in enumerate(order)} | {_EXIT: len(order)}
    nodes = tuple(
        Node(d.label, tuple(d.instrs), d.kind, tuple(number[t] for t in d.targets), d.control)
        for d in (table[label] for label in order)
    )
    if number[entry] != 0:
        # A loop around the entry: the walk must still start at node 0.
        raise UnsupportedError(
            "the first block of the kernel is inside a loop that another block heads",
            where=f"ptx:{function.line}",
        )
    renumbered = tuple(
        Loop(number[header], sum(1 << number[m] for m in members)) for header, members in loops
    )
    return Flow(nodes, renumbered)


def _arrange(table: dict[str, _Draft], entry: str) -> tuple[list[str], list[tuple[str, list[str]]]]:
    labels = list(table)
    number = {label: at for at, label in enumerate(labels)}
    edges = [
        tuple(dict.fromkeys(number[t] for t in table[label].targets if t != _EXIT))
        for label in labels
    ]
    order, loops = graph.loop_order(len(labels), edges, number[entry])
    named = [(labels[lp.header], [labels[m] for m in graph.bits(lp.members)]) for lp in loops]
    return [labels[n] for n in order], named


def _part_headers(
    table: dict[str, _Draft], loops: list[tuple[str, list[str]]], entry: str
) -> str | None:
    """Give the outer one of two loops that share a header a header of its own, if there are any.

    ``do { do a; while (p); b; } while (q);`` is one block with two edges back to it. All lanes must
    have left the inner loop when they come to b, where they may shuffle. Returns the entry.
    """
    labels = [*table, _EXIT]
    number = {label: at for at, label in enumerate(labels)}
    edges = [tuple(number[t] for t in table[label].targets) for label in table] + [()]
    after: list[int] = []
    for header, members in loops:
        latches = [m for m in members if header in table[m].targets]
        if len(latches) < 2:
            continue
        after = after or graph.post_dominators(edges, number[_EXIT])
        inside = sum(1 << number[m] for m in members)
        inner = _inner_latches(edges, after, number[header], inside, [number[m] for m in latches])
        if inner:
            label = f"{header}.outer{len(table)}"
            for other, draft in table.items():
                if number[other] not in inner:
                    draft.targets = [label if t == header else t for t in draft.targets]
            table[label] = _Draft(label, targets=[header])
            return label if entry == header else entry
    return None


def _inner_latches(
    edges: graph.Edges, after: list[int], header: int, inside: int, latches: list[int]
) -> set[int]:
    """The latches that lanes reach before a node of the loop that all lanes must come to."""
    stops = list(graph.bits(after[header] & inside & ~(1 << header)))
    for stop in sorted(stops, key=lambda node: -after[node].bit_count()):  # the nearest first
        before = graph.reach(edges, [header], inside & ~(1 << stop))
        inner = {m for m in latches if before >> m & 1}
        if inner:
            return inner if len(inner) < len(latches) else set()
    return set()


def _unify_latches(
    table: dict[str, _Draft], order: list[str], loops: list[tuple[str, list[str]]]
) -> bool:
    changed = False
    position = {label: at for at, label in enumerate(order)}
    for header, members in reversed(loops):  # inner first
        latches = [m for m in members if m in table and header in table[m].targets]
        latches = sorted(set(latches), key=lambda label: position.get(label, 0))
        if len(latches) < 2:
            continue
        label = f"{header}.latch{len(table)}"
        for latch in latches:
            table[latch].targets = [label if t == header else t for t in table[latch].targets]
        table[label] = _Draft(label, targets=[header])
        for _, outer in loops:
            if set(members) <= set(outer):
                outer.append(label)
        changed = True
    return changed


class _Cutter:
    """Cuts one block at barriers, traps and control transfers."""

    def __init__(
        self, drafts: list[_Draft], label: str, apart: Callable[[Instr], bool] | None,
        meets: Callable[[Instr], bool],
    ) -> None:  # fmt: skip
        self._drafts = drafts
        self._meets = meets
        self._apart = apart
        self._label = label
        self._pieces = 0
        self._open(label)

    def _open(self, label: str) -> None:
        self._now = _Draft(label)
        self._drafts.append(self._now)

    def _fresh(self) -> str:
        self._pieces += 1
        return f"{self._label}.{self._pieces}"

    def _end(self, kind: str, targets: list[str], control: Instr | None = None) -> None:
        self._now.kind, self._now.targets, self._now.control = kind, targets, control

    def cut(self, instrs: tuple[Instr, ...], successors: tuple[str, ...]) -> None:
        """Append the pieces."""
        for at, instr in enumerate(instrs):
            if instr.op not in _CUTS and self._apart is None:
                self._now.instrs.append(instr)
                continue
            last = at == len(instrs) - 1
            if instr.op == "bra":
                target = _label_of(instr)
                if instr.guard is None:
                    self._end("goto", [target])
                    return
                fall = successors[-1] if last else self._fresh()
                self._end("branch", [target, fall], instr)
                if last:
                    return
                self._open(fall)
            elif instr.op == "brx":
                self._end("switch", list(successors), instr)
                return
            elif instr.op in ("ret", "exit") or stops(instr):
                if self._leave(instr, successors, last):
                    return
            elif self._meets(instr):
                self._barrier(instr)
            elif self._apart is not None and self._now.instrs and self._apart(instr):
                after = self._fresh()
                self._end("goto", [after])
                self._open(after)
                self._now.instrs.append(instr)
            else:
                self._now.instrs.append(instr)
        self._end("goto", [successors[0] if successors else _EXIT])

    def _leave(self, instr: Instr, successors: tuple[str, ...], last: bool) -> bool:
        """A return or trap; True where nothing follows in this block."""
        stop = stops(instr)
        if instr.guard is None:
            if stop:
                self._now.instrs.append(instr)
            self._end("exit", [_EXIT])
            return True
        fall = successors[-1] if last and successors else self._fresh()
        taken = self._fresh() if stop else _EXIT
        self._end("branch", [taken, fall], instr)
        if stop:
            self._open(taken)
            self._now.instrs.append(
                Instr(instr.op, instr.mods, instr.operands, None, instr.line, instr.types)
            )
            self._end("exit", [_EXIT])
        if last and successors:
            return True
        self._open(fall)
        return False

    def _barrier(self, instr: Instr) -> None:
        after = self._fresh()
        if instr.guard is not None:
            taken = self._fresh()
            self._end("branch", [taken, after], instr)
            self._open(taken)
            instr = Instr(
                instr.op, instr.mods, instr.operands, None, instr.line, instr.types, instr.loc
            )
        self._end("barrier", [after], instr)
        self._open(after)


def stops(instr: Instr) -> bool:
    """Whether lanes that execute it go no further (what follows it in the PTX is dead)."""
    if instr.op in _STOPS:
        return True
    if instr.op != "call":
        return False
    target = instr.operands[1]
    return isinstance(target, Symbol) and target.name in ("__assertfail", "__assert_fail")


def _label_of(instr: Instr) -> str:
    target = instr.operands[0]
    if not isinstance(target, Symbol):
        raise UnsupportedError(f"{instr.form} to a register", where=f"ptx:{instr.line}")
    return target.name
