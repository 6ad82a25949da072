"""Registers in the native code: storage, operands in, results out.

A register is an alloca (scalar, or a vector where it is varying); LLVM promotes them. Within one
node values are passed on directly, and only what lives on is stored.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Imm, Instr, Not, Operand, Reg, Special, Symbol
from ge2rt.ptx.emit import BITS, Emitter, Value
from ge2rt.ptx.lanes import UNIFORM, Lanes, constant
from ge2rt.ptx.lower.flow import Flow
from ge2rt.ptx.lower.geometry import Geometry, Here
from ge2rt.ptx.lower.kinds import Kinds
from ge2rt.ptx.lower.places import Places
from ge2rt.ptx.lower.shape import CARRY
from ge2rt.ptx.lower.ssa import origin
from ge2rt.ptx.rules.operands import cast

if TYPE_CHECKING:
    from ge2rt.ptx.lower.checks import Watch
    from ge2rt.ptx.lower.functions import Callee

_STORAGE = {"pred": "i1", "b8": "i8", "b16": "i16", "b32": "i32", "b64": "i64", "b128": "i128",
            "f32": "float", "f64": "double", "f16": "i16", "bf16": "i16",
            "f16x2": "i32"}  # fmt: skip


def storage_type(declared: str) -> str:
    """The LLVM type of a register declared as ``.TYPE``."""
    if declared in _STORAGE:
        return _STORAGE[declared]
    if declared[:1] in ("u", "s") and declared[1:] in ("8", "16", "32", "64"):
        return f"i{declared[1:]}"
    raise UnsupportedError(f"registers of type .{declared} are not there on the cpu device")


_BASES = {"global": "%globals.int", "param": "%params.int", "local": "%local.int",
          "block": "%args.int"}  # fmt: skip


class Slot(NamedTuple):
    """Where a register is kept: an address, its full type, a lane's type, lanes (0: a scalar)."""

    address: str
    full: str
    element: str
    lanes: int


@dataclass
class Code:
    """The LLVM function in the making."""

    e: Emitter
    flow: Flow
    kinds: Kinds
    geometry: Geometry
    places: Places
    types: dict[str, str]  # register -> PTX type
    allocas: dict[str, str] = field(default_factory=dict)  # LLVM name -> type
    prologue: list[str] = field(default_factory=list)
    params: dict[tuple[int, str], Value] = field(default_factory=dict)
    steps: Mapping[str, int | None] = field(
        default_factory=dict
    )  # see ``ahead``; empty: no prefetch
    counts: dict[str, int] = field(default_factory=dict)  # for notes: forms of memory access
    callees: tuple[Callee, ...] = ()  # functions that can be called
    is_callee: bool = False  # such a function itself: its local memory lies on the stack
    alone: bool = False  # launches must not overlap
    log_bytes: int = 0  # of the launch's log, for what the kernel prints
    watch: Watch | None = None  # of an instrumented kernel
    _storage: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _slots: dict[str, Slot] = field(default_factory=dict, init=False, repr=False)

    @property
    def width(self) -> int:
        """Lanes of a warp."""
        return self.geometry.width

    def type_of(self, name: str) -> str:
        """A register's LLVM element type."""
        known = self._storage.get(name)
        if known is None:
            known = "i1" if name == CARRY else storage_type(self.types[origin(name)])
            self._storage[name] = known
        return known

    def alloca(self, name: str, type: str) -> str:
        """A named stack slot of the function, made once."""
        self.allocas.setdefault(name, type)
        return f"%{name}"

    def slot(self, name: str) -> Slot:
        """Where a register is kept."""
        found = self._slots.get(name)
        if found is None:
            element = self.type_of(name)
            lanes = self.width if self.kinds.varying(name) else 0
            full = f"<{lanes} x {element}>" if lanes else element
            address = self.alloca(f"r.{self.flow.registers[name]}", full)
            found = self._slots[name] = Slot(address, full, element, lanes)
        return found

    def count(self, what: str) -> None:
        """Count an event for the notes."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def param(self, offset: int, type: str) -> Value:
        """A parameter, loaded once at the start of the function."""
        key = (offset, type)
        if key not in self.params:
            name = f"%param.{offset}.{type}"
            self.prologue.append(
                f"  {name}.p = getelementptr i8, ptr %params, i64 {offset}\n"
                f"  {name} = load {type}, ptr {name}.p, align 1, !invariant.load !0"
            )
            self.params[key] = Value(type, name)
        return self.params[key]


@dataclass
class Scope:
    """Values while one node (or a region's start) is written.

    ``mask`` is None where all lanes run, else the i1 vector of those that do.
    """

    code: Code
    here: Here
    mask: Value | None = None
    blends: int = 0
    scalars: dict[str, Value] = field(default_factory=dict)
    vectors: dict[str, Value] = field(default_factory=dict)
    dirty: dict[str, None] = field(default_factory=dict)
    ahead: bool = False  # whether loads are worth a prefetch for the next block
    at: int = 0  # position of the instruction in its node
    groups: dict[int, tuple[int, ...]] = field(default_factory=dict)
    waiting: dict[int, Value] = field(default_factory=dict)  # members' values, by position

    @property
    def e(self) -> Emitter:
        """The emitter."""
        return self.code.e

    # -- reading -----------------------------------------------------------------------------
    def lanes(self, operand: Operand | None) -> Lanes | None:
        """What the analysis says of a source."""
        if isinstance(operand, Reg):
            return self.code.kinds.lanes.get(operand.name, UNIFORM)
        if isinstance(operand, Not):
            return self.lanes(operand.operand)
        if isinstance(operand, Imm) and operand.kind == "int":
            return constant(operand.value)
        if isinstance(operand, Special):
            self.code.alone = self.code.alone or operand.name.startswith("envreg")
            return self.code.geometry.lanes_of(operand)
        if isinstance(operand, Symbol):
            return self.code.places.lanes_of(operand)
        return UNIFORM

    def register(self, name: str) -> Value:
        """A register as it is stored: a scalar (lane 0's value) or a vector."""
        known = self.scalars.get(name)
        if known is None:
            slot = self.code.slot(name)
            load = f"load {slot.full}, ptr {slot.address}"
            known = self.e.raw(load, slot.element, slot.lanes)
            self.scalars[name] = known
        return known

    def scalar(self, operand: Operand) -> Value:
        """A source as stored: lane 0's value where it is not varying."""
        if isinstance(operand, Reg):
            return self.scalars.get(operand.name) or self.register(operand.name)
        if isinstance(operand, Not):
            value = self.scalar(operand.operand)
            return self.e.binary("xor", value, self.e.const("i1", "true", value.lanes))
        if isinstance(operand, Imm):
            return immediate(operand)
        if isinstance(operand, Special):
            self.code.alone = self.code.alone or operand.name.startswith("envreg")
            return self.code.geometry.value_of(self.e, operand, self.here)
        if isinstance(operand, Symbol):
            return self.symbol(operand)
        raise UnsupportedError(f"operand {operand} cannot stand here")

    def symbol(self, symbol: Symbol) -> Value:
        """The address of a variable as an i64: an offset for shared, else a flat address."""
        place = self.code.places.place(symbol)
        if place.space == "shared":
            return Value("i64", str(place.offset))
        if place.space == "function":
            return Value("i64", str(place.offset))
        base = _BASES[place.space]
        if place.space == "local":
            base = local_base(self)
        return self.e.binary("add", Value("i64", base), Value("i64", str(place.offset)))

    def vector(self, operand: Operand) -> Value:
        """A source with its lanes' offsets applied (uniform ones stay scalars)."""
        return self.spread(operand, self.lanes(operand))

    def spread(self, operand: Operand, lanes: Lanes | None) -> Value:
        """As :meth:`vector`, where the operand's lanes are at hand."""
        value = self.scalar(operand)
        if lanes is None or value.lanes or not lanes.offsets:
            return value
        key = operand.name if isinstance(operand, Reg) else ""
        if key and key in self.vectors:
            return self.vectors[key]
        full = spread_lanes(self.e, value, lanes)
        if key:
            self.vectors[key] = full
        return full

    # -- writing -----------------------------------------------------------------------------
    def write(self, instr: Instr, name: str, value: Value, lanes: Lanes | None) -> None:
        """Set a register, under the guard and (where the analysis asks for it) the mask."""
        code, e = self.code, self.code.e
        type = code.type_of(name)
        if value.type != type:
            value = fit(e, instr, value, type)
        if code.kinds.varying(name) and code.width > 1:
            if not value.lanes:
                affine = lanes is not None and not lanes.uniform
                value = spread_lanes(e, value, lanes) if affine and lanes else e.splat(value)
            keep = self._condition(instr, name)
            if keep is not None:
                value = e.select(e.splat(keep), value, self.register(name))
        elif instr.guard is not None:
            value = e.select(self.guard(instr), value, self.register(name))
        self.scalars[name] = value
        self.vectors.pop(name, None)
        self.dirty[name] = None

    def _condition(self, instr: Instr, name: str) -> Value | None:
        condition = self.guard(instr) if instr.guard is not None else None
        if self.mask is not None and self.blends >> self.code.flow.registers[name] & 1:
            if condition is None:
                return self.mask
            return self.e.binary("and", self.e.splat(condition), self.mask)
        return condition

    def guard(self, instr: Instr) -> Value:
        """The value of an instruction's guard, negation applied."""
        assert instr.guard is not None
        value = self.register(instr.guard.reg.name)
        if instr.guard.negated:
            value = self.e.binary("xor", value, self.e.const("i1", "true", value.lanes))
        return value

    def active(self, instr: Instr) -> Value | None:
        """The lanes that execute an instruction, as an i1 vector; None for all of them."""
        if instr.guard is None:
            return self.mask
        guard = self.e.splat(self.guard(instr))
        return guard if self.mask is None else self.e.binary("and", guard, self.mask)

    def flush(self, live: int) -> None:
        """Store the registers that were written and live on."""
        number = self.code.flow.registers
        for name in self.dirty:
            if live >> number[name] & 1:
                self.e.line(f"store {self.scalars[name]}, ptr {self.code.slot(name).address}")
        self.dirty.clear()


def local_base(scope: Scope) -> str:
    """Lane 0's local memory area of the warp, as an i64's name."""
    e, code = scope.e, scope.code
    if code.is_callee:
        return "%local.int"
    size = code.places.local_bytes * code.width
    warp = e.convert("zext", scope.here.warp, "i64")
    step = e.binary("mul", warp, Value("i64", str(size)))
    return e.binary("add", Value("i64", "%local.int"), step).text


def spread_lanes(e: Emitter, value: Value, lanes: Lanes) -> Value:
    """Lane 0's value plus each lane's offset."""
    vector = e.splat(value)
    if lanes.uniform:
        return vector
    return e.binary("add", vector, e.per_lane(value.type, lanes.offsets))


def immediate(operand: Imm) -> Value:
    """A literal: integers as i64, floats by their kind."""
    if operand.kind == "f32":
        number = struct.unpack("<f", struct.pack("<I", operand.value & 0xFFFFFFFF))[0]
        return Value("float", f"0x{_double_bits(number, operand.value):016X}")
    if operand.kind == "f64":
        return Value("double", f"0x{operand.value & 0xFFFFFFFFFFFFFFFF:016X}")
    value = operand.value & 0xFFFFFFFFFFFFFFFF
    return Value("i64", str(value - (1 << 64) if value >> 63 else value))


def _double_bits(number: float, bits: int) -> int:
    """The bits of the double equal to a float; NaN keeps its payload."""
    if number != number:
        sign, payload = bits >> 31 & 1, bits & 0x7FFFFF
        return sign << 63 | 0x7FF << 52 | payload << 29
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])


def fit(e: Emitter, instr: Instr, value: Value, type: str) -> Value:
    """A result in a register's storage type (narrow integers extend by the instruction's sign)."""
    if value.type == type:
        return value
    if value.type.startswith("i") and type.startswith("i") and BITS[value.type] < BITS[type]:
        signed = bool(instr.types) and instr.types[0].startswith("s") and value.type != "i1"
        return e.convert("sext" if signed else "zext", value, type)
    return cast(e, value, type)


def truth(e: Emitter, bits: Sequence[bool]) -> Value:
    """A constant i1 vector."""
    return Value("i1", "<" + ", ".join(f"i1 {int(b)}" for b in bits) + ">", len(bits))
