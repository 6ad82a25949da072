"""Writing LLVM IR as text: typed values and an emitter that names and collects lines.

A :class:`Value` is a scalar (the same for all lanes of a warp) or a vector of one element a lane.
Rules (``rules/``) are written once for both: they ask :meth:`Emitter.type` for the right spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

BITS = {
    "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128,
    "half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64,
}  # fmt: skip


class Value(NamedTuple):  # of these there are many: a tuple is made in half of a record's time
    """An LLVM value: element type, SSA name or constant text, and lane count (0 = scalar)."""

    type: str
    text: str
    lanes: int = 0

    @property
    def full_type(self) -> str:
        """The LLVM spelling of the whole type."""
        return f"<{self.lanes} x {self.type}>" if self.lanes else self.type

    def __str__(self) -> str:
        type, text, lanes = self
        return f"<{lanes} x {type}> {text}" if lanes else f"{type} {text}"


class Emitter:
    """Collects the lines of one LLVM function and the declarations it needs.

    ``lanes`` is the warp width W of the code being written (32, 16, ... 1). ``cpu`` and
    ``features`` are the target's, as LLVM spells them (``"znver3"``, ``"+avx512f,+fma"``); rules
    may use them for a quicker form.
    """

    def __init__(self, lanes: int, *, cpu: str = "", features: str = "") -> None:
        self.lanes = lanes
        self.cpu = cpu
        self.features = features
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self._outlined: dict[str, list[Value]] = {}  # symbol -> results, for their types
        self._next = 0

    # -- names and raw lines -----------------------------------------------------------------
    def name(self, hint: str = "v") -> str:
        """A fresh SSA or label name without its sigil."""
        self._next += 1
        return f"{hint}.{self._next}"

    def line(self, text: str) -> None:
        """Append one instruction that yields nothing."""
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{name}:")

    def raw(self, rhs: str, type: str, lanes: int = 0) -> Value:
        """Append ``%new = rhs`` and return it as a value of the given element type and lanes."""
        self._next += 1
        name = f"%v.{self._next}"
        self.lines.append(f"  {name} = {rhs}")
        return Value(type, name, lanes)

    # -- constants and shape -------------------------------------------------------------------
    def const(self, type: str, value: int | str, lanes: int = 0) -> Value:
        """A constant; floats are given as LLVM text (``"0x3FF0000000000000"``) or via casts."""
        if not lanes:
            return Value(type, str(value))
        if str(value) == "0" or value == "zeroinitializer":
            return Value(type, "zeroinitializer", lanes)
        return Value(type, f"splat ({type} {value})", lanes)

    def per_lane(self, type: str, values: Sequence[int]) -> Value:
        """A vector constant, one integer a lane."""
        return Value(type, "<" + ", ".join(f"{type} {v}" for v in values) + ">", len(values))

    def splat(self, value: Value, lanes: int | None = None) -> Value:
        """Broadcast a scalar over the lanes; a vector is returned as it is."""
        width = self.lanes if lanes is None else lanes
        if value.lanes or not width:
            return value
        if not value.text.startswith("%"):
            return self.const(value.type, value.text, width)
        full = f"<{width} x {value.type}>"
        first = self.raw(f"insertelement {full} poison, {value}, i32 0", value.type, width)
        return self.raw(
            f"shufflevector {first}, {full} poison, <{width} x i32> zeroinitializer",
            value.type, width,
        )  # fmt: skip

    def alike(self, values: Iterable[Value]) -> list[Value]:
        """Splat the scalars if any of the values is a vector."""
        given = list(values)
        lanes = {v.lanes for v in given}
        if len(lanes) < 2:
            return given
        width = max(lanes)
        return [v if v.lanes else self.splat(v, width) for v in given]

    def reinterpret(self, value: Value, type: str, lanes: int) -> Value:
        """Bitcast the whole value: ``<32 x i32>`` to ``<64 x i16>``, an i32 to ``<2 x i16>``."""
        if (value.type, value.lanes) == (type, lanes):
            return value
        full = f"<{lanes} x {type}>" if lanes else type
        return self.raw(f"bitcast {value} to {full}", type, lanes)

    def shuffle(self, a: Value, b: Value | None, indices: Sequence[int]) -> Value:
        """A constant shuffle of one or two vectors; the second counts on from the first's end."""
        other = "poison" if b is None else b.text
        picks = ", ".join(f"i32 {i}" for i in indices)
        mask = f"<{len(indices)} x i32> <{picks}>"
        rhs = f"shufflevector {a}, {a.full_type} {other}, {mask}"
        return self.raw(rhs, a.type, len(indices))

    # -- operations ----------------------------------------------------------------------------
    def binary(self, op: str, a: Value, b: Value) -> Value:
        """``op`` is the LLVM opcode with its flags: ``add``, ``fmul``, ``shl``..."""
        if a.lanes != b.lanes:
            a, b = self.alike((a, b))
        return self.raw(f"{op} {a}, {b.text}", a.type, a.lanes)

    def unary(self, op: str, a: Value) -> Value:
        """A one-operand opcode such as ``fneg``."""
        return self.raw(f"{op} {a}", a.type, a.lanes)

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """``op`` is ``"icmp slt"``, ``"fcmp uno"``...; the result is i1 a lane."""
        a, b = self.alike((a, b))
        return self.raw(f"{op} {a}, {b.text}", "i1", a.lanes)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Lane-wise choice; a scalar condition chooses whole values."""
        a, b = self.alike((a, b))
        if condition.lanes and not a.lanes:
            a, b = self.splat(a, condition.lanes), self.splat(b, condition.lanes)
        return self.raw(f"select {condition}, {a}, {b}", a.type, a.lanes)

    def convert(self, op: str, a: Value, type: str) -> Value:
        """``op`` is ``zext``, ``sext``, ``trunc``, ``bitcast``, ``sitofp``, ``fpext``..."""
        if a.type == type and op in ("zext", "sext", "trunc", "bitcast", "fpext", "fptrunc"):
            return a
        full = f"<{a.lanes} x {type}>" if a.lanes else type
        return self.raw(f"{op} {a} to {full}", type, a.lanes)

    def bitcast(self, a: Value, type: str) -> Value:
        """Reinterpret the bits of each element; the widths must agree."""
        if BITS[a.type] != BITS[type]:
            raise ValueError(f"bitcast {a.type} -> {type}")
        return self.convert("bitcast", a, type)

    def call(self, intrinsic: str, args: Sequence[Value], type: str | None = None) -> Value:
        """Call an overloaded LLVM intrinsic (``"llvm.fma"``), elementwise over the lanes.

        The name is completed with the type of the result (``llvm.fma.v32f32``).
        """
        given = self.alike(args)
        lanes, result = given[0].lanes, type or given[0].type
        full, suffix = _spelled(result, lanes)
        name = f"{intrinsic}.{suffix}"
        if name not in self.declarations:
            signature = ", ".join(v.full_type for v in given)
            self.declarations[name] = f"declare {full} @{name}({signature})"
        return self.raw(f"call {full} @{name}({', '.join(map(str, given))})", result, lanes)

    def call_named(self, name: str, args: Sequence[Value], type: str, lanes: int = 0) -> Value:
        """Call a function or fully named intrinsic, declaring it by the types of the arguments."""
        full = f"<{lanes} x {type}>" if lanes else type
        signature = ", ".join(v.full_type for v in args)
        self.declarations[name] = f"declare {full} @{name}({signature})"
        return self.raw(f"call {full} @{name}({', '.join(map(str, args))})", type, lanes)

    def outline(
        self,
        name: str,
        args: Sequence[Value],
        body: Callable[[Emitter, Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Call a function of its own that ``body`` writes once a module: large code stays one copy.

        ``name`` must tell everything that ``body`` depends on besides the types of ``args``.
        """
        kinds = [v.full_type for v in args]
        symbol = f'"{name}({", ".join(kinds)})"'
        if symbol not in self._outlined:
            inner = Emitter(self.lanes, cpu=self.cpu, features=self.features)
            given = [Value(v.type, f"%a{k}", v.lanes) for k, v in enumerate(args)]
            self._outlined[symbol] = results = list(body(inner, given))
            full = _struct([v.full_type for v in results])
            packed = Value(full, "poison")
            for at, value in enumerate(results):
                packed = inner.raw(f"insertvalue {packed}, {value}, {at}", full)
            inner.line(f"ret {packed}")
            head = f"define internal {full} @{symbol}({', '.join(map(str, given))}) noinline #0 {{"
            self.declarations.update(inner.declarations)
            self.declarations[symbol] = "\n".join([head, *inner.lines, "}"])
        shapes = self._outlined[symbol]
        full = _struct([v.full_type for v in shapes])
        answer = self.raw(f"call {full} @{symbol}({', '.join(map(str, args))})", full)
        return [
            self.raw(f"extractvalue {answer}, {at}", v.type, v.lanes) for at, v in enumerate(shapes)
        ]


def _struct(kinds: Sequence[str]) -> str:
    return f"{{ {', '.join(kinds)} }}"


_SHORT = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}


@cache
def _spelled(type: str, lanes: int) -> tuple[str, str]:
    """A type as it is written, and as it ends an intrinsic's name."""
    name = _SHORT.get(type, type)
    return (f"<{lanes} x {type}>", f"v{lanes}{name}") if lanes else (type, name)
