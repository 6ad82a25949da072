"""Atomics: ``atom`` and ``red`` as an ordered loop over the active lanes."""

from __future__ import annotations

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Address, Instr
from ge2rt.ptx.emit import BITS, Value
from ge2rt.ptx.lower.address import Where, full_lanes, where
from ge2rt.ptx.lower.checks import ATOMIC
from ge2rt.ptx.lower.memory import space_of, vector_length
from ge2rt.ptx.lower.shape import flatten
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.rules.operands import TYPES, cast, types_of
from ge2rt.ptx.rules.views import close_half, open_half

_OPS = frozenset(["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"])
_HALVES = ("f16", "bf16", "f16x2", "bf16x2")
_PLAIN_OPS = {"exch": "xchg", "and": "and", "or": "or", "xor": "xor", "inc": "uinc_wrap",
              "dec": "udec_wrap"}  # fmt: skip
_REDUCE = {"add": "add", "and": "and", "or": "or", "xor": "xor", "umin": "umin", "umax": "umax",
           "min": "smin", "max": "smax"}  # fmt: skip
_NEUTRAL = {"add": 0, "or": 0, "xor": 0, "and": -1, "umax": 0, "umin": -1}


def lower_atomic(scope: Scope, instr: Instr) -> list[Value]:
    """``atom`` (results) and ``red`` (none); the elements of a vector one after the other."""
    is_red = instr.op == "red"
    address = instr.operands[0 if is_red else 1]
    assert isinstance(address, Address)
    operation = next((m for m in instr.mods if m in _OPS), "")
    kinds = types_of(instr)
    if not operation or not kinds or instr.has("async"):
        raise UnsupportedError(f"atomic {instr.form}", where=f"ptx:{instr.line}")
    operands = instr.operands[1 if is_red else 2 :]
    if "L2::cache_hint" in instr.mods:
        operands = operands[:-1]
    type, space = kinds[-1].llvm, space_of(instr)
    task = _Task(scope, operation, kinds[-1].name, type, space == "shared")
    results: list[Value] = []
    for element in range(vector_length(instr)):
        parts = [flatten(o)[element] for o in operands]
        values = [cast(scope.e, scope.vector(o), type) for o in parts if o is not None]
        place = where(scope, address, space, element * BITS[type] // 8)
        results += _one(scope, instr, task, place, values)
    return results


def _one(scope: Scope, instr: Instr, task: _Task, place: Where, values: list[Value]) -> list[Value]:
    active, is_red = scope.active(instr), instr.op == "red"
    if (watch := scope.code.watch) is not None:
        space = space_of(instr)
        watch.access(scope, instr, place, task.type, 1, how=ATOMIC, space=space, active=active)
    if scope.code.width == 1:
        return task.single(place.pointer, values, active, is_red)
    if is_red and place.lanes is not None and place.lanes.uniform and task.combines():
        task.combined(place.pointer, values[0], active)
        return []
    return task.each_lane(place, values, active, is_red)


class _Task:
    def __init__(self, scope: Scope, operation: str, kind: str, type: str, shared: bool) -> None:
        self.scope, self.e = scope, scope.e
        self.operation, self.kind, self.type, self.shared = operation, kind, type, shared

    def once(self, pointer: Value, values: list[Value]) -> Value:
        """One lane's operation; returns the old value."""
        e, type = self.e, self.type
        order = "monotonic"
        align = f"align {BITS[type] // 8}"
        if self.operation == "cas":
            word = f"i{BITS[type]}"
            old, new = (cast(e, v, word) for v in values)
            pair = e.raw(
                f"cmpxchg {pointer}, {old}, {new} seq_cst seq_cst, {align}", f"{{ {word}, i1 }}"
            )
            return cast(e, e.raw(f"extractvalue {pair}, 0", word), type)
        if self._packed():
            return self._packed_update(pointer, values[0])
        return e.raw(f"atomicrmw {self._name()} {pointer}, {values[0]} {order}, {align}", type)

    def _name(self) -> str:
        known = TYPES[self.kind]
        if known.kind == "f" and self.operation != "exch":
            return {"add": "fadd", "min": "fmin", "max": "fmax"}[self.operation]
        if self.operation in ("min", "max"):
            return self.operation if known.signed else f"u{self.operation}"
        return _PLAIN_OPS.get(self.operation, self.operation)

    def _packed(self) -> bool:
        return self.kind in _HALVES and self.operation in ("add", "min", "max")

    def _packed_update(self, pointer: Value, value: Value) -> Value:
        """Half-width floats by a compare-exchange loop over their word."""
        e, type = self.e, self.type
        brain = self.kind.startswith("bf")
        count = 2 if self.kind.endswith("x2") else 1
        cell = "%" + e.name("old")
        start, loop, done = e.name("cas.start"), e.name("cas"), e.name("cas.done")
        first = e.raw(f"load {type}, {pointer}, align {BITS[type] // 8}", type)
        e.line(f"br label %{start}")
        e.label(start)
        e.line(f"br label %{loop}")
        e.label(loop)
        again = "%" + e.name("again")
        e.line(f"{cell} = phi {type} [ {first.text}, %{start} ], [ {again}, %{loop} ]")
        whole = f"<{count} x i16>"
        a, b = (
            open_half(e, e.raw(f"bitcast {word} to {whole}", "i16", count), brain)
            for word in (f"{type} {cell}", value)
        )
        if self.operation == "add":
            total = e.binary("fadd", a, b)
        else:
            total = e.call(f"llvm.{self.operation}num", [a, b])
        word = e.raw(f"bitcast {close_half(e, total, brain)} to {type}", type)
        pair = e.raw(
            f"cmpxchg {pointer}, {type} {cell}, {word} seq_cst seq_cst, align {BITS[type] // 8}",
            f"{{ {type}, i1 }}",
        )
        e.line(f"{again} = extractvalue {pair}, 0")
        won = e.raw(f"extractvalue {pair}, 1", "i1")
        e.line(f"br {won}, label %{done}, label %{loop}")
        e.label(done)
        return Value(type, cell)

    def combines(self) -> bool:
        """Whether lanes may be combined before one operation on memory."""
        return TYPES[self.kind].kind != "f" and self._name() in _REDUCE

    def combined(self, pointer: Value, value: Value, active: Value | None) -> None:
        """``red`` of all lanes to one address."""
        e, name = self.e, self._name()
        value = e.splat(value)
        neutral = _NEUTRAL.get(name)
        if neutral is None:
            top = 1 << (BITS[self.type] - 1)
            neutral = top - 1 if name == "min" else -top
        if active is not None:
            value = e.select(active, value, e.const(self.type, neutral, value.lanes))
        call = f"llvm.vector.reduce.{_REDUCE[name]}.v{value.lanes}{self.type}"
        total = e.call_named(call, [value], self.type)
        self.once(pointer, [total])

    def single(
        self, pointer: Value, values: list[Value], active: Value | None, is_red: bool
    ) -> list[Value]:
        """Width 1."""
        if active is None:
            old = self.once(pointer, values)
            return [] if is_red else [old]
        cell = self.scope.code.alloca(f"atom.{self.type}", self.type)
        e = self.e
        run, done = e.name("atom"), e.name("atom.done")
        condition = e.raw(f"extractelement {active}, i32 0", "i1")
        e.line(f"br {condition}, label %{run}, label %{done}")
        e.label(run)
        e.line(f"store {self.once(pointer, values)}, ptr {cell}")
        e.line(f"br label %{done}")
        e.label(done)
        return [] if is_red else [e.raw(f"load {self.type}, ptr {cell}", self.type)]

    def each_lane(
        self, place: Where, values: list[Value], active: Value | None, is_red: bool
    ) -> list[Value]:
        """A loop over the set bits of the mask, lowest lane first."""
        e, width, code = self.e, self.scope.code.width, self.scope.code
        word = f"i{width}"
        bits = Value(word, "-1") if active is None else e.raw(f"bitcast {active} to {word}", word)
        addresses = full_lanes(self.scope, place)
        cells = [self._cell("addr", addresses)]
        cells += [self._cell(f"arg{k}", e.splat(v)) for k, v in enumerate(values)]
        result = code.alloca(f"atom.result.{self.type}", f"[{width} x {self.type}]")
        before, loop, body, done = (e.name(n) for n in ("lanes", "lane", "lane.run", "lanes.done"))
        e.line(f"br label %{before}")
        e.label(before)
        e.line(f"br label %{loop}")
        e.label(loop)
        rest, left = "%" + e.name("rest"), "%" + e.name("left")
        latch = e.name("lane.next")
        e.line(f"{rest} = phi {word} [ {bits.text}, %{before} ], [ {left}, %{latch} ]")
        none = e.compare("icmp eq", Value(word, rest), Value(word, "0"))
        e.line(f"br {none}, label %{done}, label %{body}")
        e.label(body)
        e.declarations[f"llvm.cttz.{word}"] = f"declare {word} @llvm.cttz.{word}({word}, i1)"
        index = e.raw(f"call {word} @llvm.cttz.{word}({word} {rest}, i1 true)", word)
        index = e.convert("zext", index, "i64") if width < 64 else index
        picked = [self._pick(cell, v, index) for cell, v in zip(cells, [addresses, *values],
                                                                strict=True)]  # fmt: skip
        pointer = e.raw(f"inttoptr {picked[0]} to ptr", "ptr")
        old = self.once(pointer, picked[1:])
        target = e.raw(f"getelementptr {self.type}, ptr {result}, {index}", "ptr")
        if not is_red:
            e.line(f"store {old}, {target}")
        e.line(f"br label %{latch}")
        e.label(latch)
        low = e.binary("sub", Value(word, rest), Value(word, "1"))
        e.line(f"{left} = and {word} {rest}, {low.text}")
        e.line(f"br label %{loop}")
        e.label(done)
        if is_red:
            return []
        return [e.raw(f"load <{width} x {self.type}>, ptr {result}, align 1", self.type, width)]

    def _cell(self, name: str, value: Value) -> str:
        slot = self.scope.code.alloca(
            f"atom.{name}.{value.type}", f"[{value.lanes} x {value.type}]"
        )
        self.e.line(f"store {value}, ptr {slot}, align 1")
        return slot

    def _pick(self, cell: str, value: Value, index: Value) -> Value:
        at = self.e.raw(f"getelementptr {value.type}, ptr {cell}, {index}", "ptr")
        return self.e.raw(f"load {value.type}, {at}", value.type)
