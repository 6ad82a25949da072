"""The lane analysis of a function: a kind for every register, and what follows from it.

A fixpoint over all definitions of each register (:mod:`ge2rt.ptx.lanes`), together with the
branches on which lanes part and the blends they ask for (:mod:`ge2rt.ptx.lower.spread`): a
register that needs a blend is varying, which may part more branches, and so on until nothing
changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from ge2rt.ptx.ast import Address, Guard, Imm, Instr, Not, Operand, Reg, Special, Symbol
from ge2rt.ptx.lanes import UNIFORM, Lanes, constant, join, transfer
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.geometry import Geometry
from ge2rt.ptx.lower.graph import bits
from ge2rt.ptx.lower.places import Places
from ge2rt.ptx.lower.shape import Shape
from ge2rt.ptx.lower.spread import Spread, spread
from ge2rt.ptx.lower.waits import waiting_loops

_WARP = frozenset(
    [
        "shfl",
        "vote",
        "match",
        "activemask",
        "redux",
        "mma",
        "wmma",
        "elect",
        "movmatrix",
        "ldmatrix",
        "atom",
        "mbarrier",
        "gone",
    ]
)
_ADDRESS_STEPS = frozenset(["add", "sub", "mov", "cvta", "mad", "shl", "mul"])


@dataclass(frozen=True)
class Kinds:
    """``lanes[name]`` is None for a varying register; ``divergent``: nodes that part lanes."""

    lanes: dict[str, Lanes | None]
    divergent: frozenset[int]
    spread: Spread
    trusted: frozenset[str]  # registers used as addresses only

    @staticmethod
    def empty() -> Kinds:
        """Before the analysis."""
        return Kinds({}, frozenset(), Spread((), frozenset()), frozenset())

    def varying(self, name: str) -> bool:
        """Whether the register lives in a vector."""
        return self.lanes.get(name) is None


@dataclass(frozen=True)
class Start:
    """What is known before the analysis: lanes that are the least there can be, and the trusted."""

    lanes: dict[str, Lanes | None]
    changed: frozenset[str]  # whose readers have not been looked at since
    trusted: frozenset[str] | None  # None: to be worked out

    @staticmethod
    def of_merged(kinds: Kinds, names: dict[str, str]) -> Start:
        """After registers got the names of others whose lanes have the same offsets.

        A merged register has the definitions of all that went into it: its lanes are at least what
        those of each join to. All else is as it was.
        """
        lanes, changed = dict(kinds.lanes), set[str]()
        for name, leader in names.items():
            own, its = lanes.pop(name), lanes[leader]
            if own != its:
                changed.add(leader)
                lanes[leader] = own and its and join(own, its, widen=False)
        for name, leader in names.items():
            if kinds.lanes[name] != lanes[leader]:
                changed.add(leader)
        mixed = any((a in kinds.trusted) != (b in kinds.trusted) for a, b in names.items())
        trusted = None if mixed else kinds.trusted.difference(names)
        return Start(lanes, frozenset(changed), trusted)


class Analysis:
    """The fixpoint."""

    def __init__(
        self, flow: Flow, geometry: Geometry, places: Places, *, parks: bool = False,
        start: Start | None = None,
    ) -> None:  # fmt: skip
        self._flow = flow
        self._parks = parks
        self._geometry = geometry
        self._places = places
        self._lanes: dict[str, Lanes | None] = start.lanes if start is not None else {}
        self._steps: dict[str, int] = {}
        trusted = start.trusted if start is not None else None
        self._trusted = addresses_only(flow) if trusted is None else trusted
        self._writers = [step for node in flow.nodes for step in node.steps if step[1].written]
        self._defined = {name for _, shape in self._writers for name in shape.written}
        self._readers = readers = defaultdict[str, list[int]](list)  # places among the writers
        for at, (_, shape) in enumerate(self._writers):
            for name in shape.read:
                readers[name].append(at)
        self._again = set[int]()
        if start is None:
            self._again.update(range(len(self._writers)))
        else:
            self._look_again(start.changed)

    def run(self) -> Kinds:
        """Iterate to the end."""
        flow = self._flow
        waiting = waiting_loops(flow)
        names = list(flow.registers)
        while True:
            self._settle()
            divergent = frozenset(n for n in range(len(flow.nodes)) if self._parts(n))
            found = spread(flow, divergent, waiting, self._parks)
            blended = (names[r] for r in bits(reduce(or_, found.blends, 0)))
            varying = [name for name in blended if self._lanes.get(name, UNIFORM) is not None]
            if not varying:
                break
            self._lanes.update(dict.fromkeys(varying))
            self._look_again(varying)
        for name in names:
            self._lanes.setdefault(name, UNIFORM)  # read but never written
        return Kinds(self._lanes, divergent, found, self._trusted)

    def _settle(self) -> None:
        """Sweep to the end. Definitions in a circle that starts from no value start uniform."""
        while True:
            while self._sweep():
                pass
            stuck = self._defined - self._lanes.keys()
            if not stuck:
                return
            self._lanes.update(dict.fromkeys(stuck, UNIFORM))
            self._look_again(stuck)

    def _sweep(self) -> bool:
        """Look again, in textual order, at what reads a changed register."""
        again, self._again = self._again, set[int]()
        due = bytearray(len(self._writers))
        for at in again:
            due[at] = 1
        at = due.find(1)
        while at >= 0:
            for name in self._step(*self._writers[at]):
                for reader in self._readers.get(name, ()):
                    if reader <= at:
                        self._again.add(reader)
                    else:
                        due[reader] = 1
            at = due.find(1, at + 1)
        return bool(self._again)

    def _look_again(self, names: Iterable[str]) -> None:
        for name in names:
            self._again.update(self._readers.get(name, ()))

    def _step(self, instr: Instr, shape: Shape) -> list[str]:
        """Registers whose lanes an instruction changed."""
        result = self._result(instr, shape)
        if isinstance(result, str):
            return []
        if instr.guard is not None and self._guard(instr.guard) is None:
            result = None
        return [name for name in shape.written if self._define(name, result)]

    def _define(self, name: str, result: Lanes | None) -> bool:
        if name not in self._lanes:
            self._lanes[name] = result
            return True
        old = self._lanes[name]
        if old is None:
            return False
        steps = self._steps.get(name, 0)
        new = None if result is None else join(old, result, steps > 2)
        if new == old:
            return False
        self._steps[name] = steps + 1
        self._lanes[name] = new
        return True

    def _guard(self, guard: Guard) -> Lanes | None:
        return self._lanes.get(guard.reg.name, UNIFORM)

    def _parts(self, at: int) -> bool:
        node = self._flow.nodes[at]
        if len(set(node.targets)) < 2 or node.control is None:
            return False
        if node.kind == "branch":
            assert node.control.guard is not None
            return self._guard(node.control.guard) is None
        index = node.control.operands[0]
        if isinstance(index, Reg) and index.name not in self._lanes:
            return False  # read but never written
        lanes = self.operand(index)
        return lanes is None or not lanes.uniform

    def operand(self, operand: Operand) -> Lanes | None:
        """Lanes of a source; a register without a definition yet raises KeyError."""
        if isinstance(operand, Reg):
            return self._lanes[operand.name]
        if isinstance(operand, Not):
            return self.operand(operand.operand)
        if isinstance(operand, Imm):
            return constant(operand.value) if operand.kind == "int" else UNIFORM
        if isinstance(operand, Special):
            return self._geometry.lanes_of(operand)
        if isinstance(operand, Symbol):
            return self._places.lanes_of(operand)
        if isinstance(operand, Address):
            return UNIFORM if operand.base is None else self.operand(operand.base)
        return UNIFORM

    def _result(self, instr: Instr, shape: Shape) -> Lanes | str | None:
        """Lanes of the destinations, or ``"unknown"`` while a source has no definition yet."""
        lanes, given = self._lanes, list[Lanes | None]()
        for at, name in enumerate(shape.registers):
            if name is None:
                given.append(self.operand(shape.sources[at]))
            elif name in lanes:
                given.append(lanes[name])
            elif name in self._defined:
                return "unknown"
            else:
                given.append(UNIFORM)  # read but never written: any value will do
        return result_lanes(instr, shape, given, self._geometry.width, self._trusted)


def result_lanes(
    instr: Instr, shape: Shape, given: list[Lanes | None], width: int, trusted: frozenset[str]
) -> Lanes | None:
    """Lanes of what ``instr`` yields from sources with the given lanes."""
    if width == 1:
        return transfer(instr, [v or UNIFORM for v in given], True) or UNIFORM
    if instr.op in _WARP:
        return None
    if instr.op in ("ld", "ldu", "isspacep"):
        return UNIFORM if given and given[0] is not None and given[0].uniform else None
    if instr.op in ("bar", "barrier", "call"):
        return UNIFORM
    if len(shape.results) != 1:
        return UNIFORM if all(v is not None and v.uniform for v in given) else None
    only = shape.results[0]
    return transfer(instr, given, isinstance(only, Reg) and only.name in trusted)


def addresses_only(flow: Flow) -> frozenset[str]:
    """Registers whose value ends in addresses of memory accesses and nowhere else."""
    doubtful: set[str] = set()
    feeds: dict[str, list[str]] = {}
    for node in flow.nodes:
        for instr, shape in node.steps:
            if instr.op in _ADDRESS_STEPS and len(shape.written) == 1:
                named = [name for name in shape.registers if name is not None]
                feeds.setdefault(shape.written[0], []).extend(named)
            elif Address not in map(type, shape.sources):
                doubtful.update(shape.read)
            else:
                for operand, name in zip(shape.sources, shape.registers, strict=True):
                    if name is not None and type(operand) is not Address:
                        doubtful.add(name)
            if instr.guard is not None:
                doubtful.add(instr.guard.reg.name)
    work = list(doubtful)
    while work:
        for source in feeds.get(work.pop(), ()):
            if source not in doubtful:
                doubtful.add(source)
                work.append(source)
    return frozenset(flow.registers) - doubtful
