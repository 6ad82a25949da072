"""Where variables lie: shared and local memory in the arena, module variables, parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Address, Function, Module, Symbol, Variable
from ge2rt.ptx.lanes import Lanes, constant, counted
from ge2rt.ptx.lower.shape import flatten
from ge2rt.ptx.native import ARENA_ALIGN, GlobalImage, GlobalSlot

_LOCAL_ALIGN = 16
_SHARED_ALIGN = 16


def round_up(value: int, align: int) -> int:
    """The next multiple of ``align``."""
    return -(-value // align) * align


@dataclass(frozen=True)
class Place:
    """A variable's state space and its offset there (for local: in a lane's area)."""

    space: str
    offset: int


@dataclass(frozen=True)
class Places:
    """All symbols a function can name."""

    table: dict[str, Place]
    shared_bytes: int  # static
    local_bytes: int  # a lane
    width: int

    def place(self, symbol: Symbol, line: int = 0) -> Place:
        """The place of a symbol; UnsupportedError for a function or label."""
        found = self.table.get(symbol.name)
        if found is None:
            raise UnsupportedError(
                f"the address of {symbol.name} cannot be taken on the cpu device",
                where=f"ptx:{line}" if line else "",
            )
        return Place(found.space, found.offset + symbol.offset)

    def lanes_of(self, symbol: Symbol) -> Lanes:
        """Lanes of a variable's address."""
        place = self.place(symbol)
        if place.space == "shared":
            return constant(place.offset)
        if place.space == "local":
            steps = [lane * self.local_bytes for lane in range(self.width)]
            return counted(steps, 4 if place.offset % _LOCAL_ALIGN == 0 else 0)
        return Lanes((), 4, place.offset % _SHARED_ALIGN)


def places(module: Module, function: Function, image: GlobalImage, width: int) -> Places:
    """Lay out the variables that ``function`` (calls inlined) can name."""
    table: dict[str, Place] = {s.name: Place("global", s.offset) for s in image.slots}
    for param in function.params:
        table[param.name] = Place("param", param.offset)
    named = _symbols(function)
    own = [*function.variables, *(v for v in module.variables if v.name in named)]
    shared_bytes = _shared(own, table)
    local = 0
    for variable in own:
        if variable.space == "local":
            local = round_up(local, max(variable.align, 1))
            table[variable.name] = Place("local", local)
            local += variable.nbytes
    return Places(table, shared_bytes, round_up(local, _LOCAL_ALIGN), width)


def _symbols(function: Function) -> set[str]:
    named: set[str] = set()
    for block in function.blocks:
        for instr in block.instrs:
            for operand in instr.operands:
                for item in flatten(operand):
                    base = item.base if isinstance(item, Address) else item
                    if isinstance(base, Symbol):
                        named.add(base.name)
    return named


def _shared(variables: Iterable[Variable], table: dict[str, Place]) -> int:
    at, dynamic = 0, []
    for variable in variables:
        if variable.space != "shared":
            continue
        if variable.nbytes == 0 or variable.extern:
            dynamic.append(variable)
            continue
        at = round_up(at, max(variable.align, 1))
        table[variable.name] = Place("shared", at)
        at += variable.nbytes
    align = max([_SHARED_ALIGN, *(v.align for v in dynamic)])
    at = round_up(at, align) if dynamic or at else 0
    for variable in dynamic:
        table[variable.name] = Place("shared", at)
    return at


def global_image(module: Module) -> GlobalImage:
    """The initial bytes of all ``.global`` and ``.const`` variables of a module."""
    data = bytearray()
    slots: list[GlobalSlot] = []
    offsets: dict[str, int] = {}
    for variable in module.variables:
        if variable.space not in ("global", "const") or variable.extern:
            continue
        at = round_up(len(data), max(variable.align, 1))
        data.extend(bytes(at - len(data)))
        init = variable.init or b""
        data.extend(init)
        data.extend(bytes(variable.nbytes - len(init)))
        offsets[variable.name] = at
        slots.append(GlobalSlot(variable.name, variable.space, at, variable.nbytes))
    relocations: list[tuple[int, int]] = []
    for variable in module.variables:
        for offset, target, addend in variable.relocations:
            if variable.name not in offsets or target not in offsets:
                continue  # the address of a function: calls through pointers are refused anyway
            relocations.append((offsets[variable.name] + offset, offsets[target] + addend))
    return GlobalImage(tuple(slots), bytes(data), tuple(relocations))


@dataclass(frozen=True)
class Frames:
    """The part of the arena behind shared memory: one frame a warp, then the lanes' local areas."""

    frame_bytes: int
    warps: int
    local_bytes: int  # a warp

    @property
    def total(self) -> int:
        """Bytes in all."""
        return round_up(self.warps * (self.frame_bytes + self.local_bytes), ARENA_ALIGN)

    @property
    def local_start(self) -> int:
        """Where the local areas start."""
        return self.warps * self.frame_bytes
