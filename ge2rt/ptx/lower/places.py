"""Where variables lie: shared and local memory in the arena, module variables, parameters."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ge2rt.base.errors import OutOfMemoryError, UnsupportedError
from ge2rt.ptx.ast import Address, Function, Module, Reg, Symbol, Variable
from ge2rt.ptx.lanes import Lanes, constant, counted
from ge2rt.ptx.lower.shape import flatten
from ge2rt.ptx.native import ARENA_ALIGN, GlobalImage, GlobalSlot

_LOCAL_ALIGN = 16
_SHARED_ALIGN = 16
_NUMBER_STEP = 16  # between the numbers that stand for addresses of functions
MAX_IMAGE_BYTES = 1 << 32  # of a module's variables


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
    sizes: dict[str, int] = field(default_factory=dict)  # of local variables
    block_bytes: int = 0  # a lane, of a function's results and arguments
    constants: tuple[int, int] = (0, 0)  # offsets of the constants among the global variables

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
        if place.space == "function":
            return constant(place.offset)
        if place.space == "block":
            return counted([lane * self.block_bytes for lane in range(self.width)])
        if place.space == "local":
            steps = [lane * self.local_bytes for lane in range(self.width)]
            return counted(steps, 4 if place.offset % _LOCAL_ALIGN == 0 else 0)
        return Lanes((), 4, place.offset % _SHARED_ALIGN)


def function_number(module: Module, name: str) -> int:
    """What stands for a function's address; never 0."""
    return _NUMBER_STEP * (list(module.functions).index(name) + 1)


def places(
    module: Module, function: Function, image: GlobalImage, width: int,
    others: Sequence[Function] = (),
) -> Places:  # fmt: skip
    """Lay out the variables that a kernel and the functions it calls (the rest inlined) can name.

    Local variables are those of ``function``.
    """
    table: dict[str, Place] = {s.name: Place("global", s.offset) for s in image.slots}
    for number, name in enumerate(module.functions):
        table.setdefault(name, Place("function", _NUMBER_STEP * (number + 1)))
    for param in function.params:
        table[param.name] = Place("param", param.offset)
    named = _symbols(function).union(*(_symbols(other) for other in others))
    common = [v for v in module.variables if v.name in named]
    within = [v for other in others for v in other.variables if v.space == "shared"]
    shared_bytes = _shared([*function.variables, *within, *common], table)
    start = Places(table, shared_bytes, 0, width, constants=constants_span(image))
    return _with_locals(start, [*function.variables, *common])


def places_of_callee(
    kernel: Places, function: Function, offsets: Sequence[int], block_bytes: int
) -> Places:
    """As a function sees them that the kernel calls; ``offsets`` of its results and arguments."""
    table = {n: p for n, p in kernel.table.items() if p.space not in ("local", "param")}
    for param, offset in zip((*function.returns, *function.params), offsets, strict=True):
        table[param.name] = Place("block", offset)
    start = Places(
        table, kernel.shared_bytes, 0, kernel.width, block_bytes=block_bytes,
        constants=kernel.constants,
    )  # fmt: skip
    return _with_locals(start, function.variables)


def _with_locals(start: Places, variables: Iterable[Variable]) -> Places:
    table, sizes, local = dict(start.table), dict[str, int](), 0
    for variable in variables:
        if variable.space == "local":
            local = round_up(local, max(variable.align, 1))
            table[variable.name] = Place("local", local)
            sizes[variable.name] = variable.nbytes
            local += variable.nbytes
    return replace(start, table=table, local_bytes=round_up(local, _LOCAL_ALIGN), sizes=sizes)


def _symbols(function: Function) -> set[str]:
    named: set[str] = set()
    for block in function.blocks:
        for instr in block.instrs:
            for operand in instr.operands:
                if type(operand) is Reg:
                    continue
                for item in flatten(operand):
                    base = item.base if isinstance(item, Address) else item
                    if isinstance(base, Symbol):
                        named.add(base.name)
    return named


def _shared(variables: Iterable[Variable], table: dict[str, Place]) -> int:
    at, dynamic = 0, []
    for variable in variables:
        if variable.space != "shared" or variable.name in table:
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
    """The initial bytes of all ``.global`` variables of a module, then of the ``.const`` ones."""
    data = bytearray()
    slots: list[GlobalSlot] = []
    offsets: dict[str, int] = {}
    own = [v for v in module.variables if v.space in ("global", "const") and not v.extern]
    for variable in sorted(own, key=lambda v: v.space == "const"):
        at = round_up(len(data), max(variable.align, 1))
        if at + variable.nbytes > MAX_IMAGE_BYTES:
            raise OutOfMemoryError(
                "the module's variables are too large for the cpu device",
                where=f"ptx:{variable.line}", expected=f"at most {MAX_IMAGE_BYTES} bytes",
                got=f"{at + variable.nbytes} bytes up to {variable.name}",
            )  # fmt: skip
        data.extend(bytes(at - len(data)))
        init = variable.init or b""
        data.extend(init)
        data.extend(bytes(variable.nbytes - len(init)))
        offsets[variable.name] = at
        slots.append(GlobalSlot(variable.name, variable.space, at, variable.nbytes))
    relocations: list[tuple[int, int]] = []
    for variable in module.variables:
        for offset, target, addend in variable.relocations:
            if variable.name not in offsets:
                continue
            if target in module.functions:
                number = function_number(module, target) + addend
                struct.pack_into("<Q", data, offsets[variable.name] + offset, number)
                continue
            if target not in offsets:
                continue  # of a function without a body: a call through it is a trap
            relocations.append((offsets[variable.name] + offset, offsets[target] + addend))
    return GlobalImage(tuple(slots), bytes(data), tuple(relocations))


def constants_span(image: GlobalImage) -> tuple[int, int]:
    """Where the ``.const`` variables begin in an image, and where they end."""
    starts = [slot.offset for slot in image.slots if slot.space == "const"]
    return (min(starts), len(image.image)) if starts else (0, 0)


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
