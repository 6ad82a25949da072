"""``mbarrier``: a word in shared memory that counts arrivals and bytes of a phase.

The layout is our own: bits 0-19 arrivals still to come, 20-39 arrivals of a phase, 40-60 bytes
still to come, 61-63 the phase. A block runs on one thread, so plain loads and stores will do; a
copy is done when it is issued.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Address, Imm, Instr, Operand
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.lanewise import by_lane
from ge2rt.ptx.lower.address import pointers_of, where
from ge2rt.ptx.lower.checks import ATOMIC, RELEASE, WRITE
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.rules.operands import cast

_FIELD = (1 << 20) - 1
_ARRIVE = f"""define internal i64 @mbarrier_arrive(ptr %at, i32 %count4, i32 %bytes4, i32 %drop4)
noinline {{
  %old = load i64, ptr %at, align 8
  %count = zext i32 %count4 to i64
  %drop = zext i32 %drop4 to i64
  %bytes0 = sext i32 %bytes4 to i64
  %moved = shl i64 %bytes0, 40
  %kept = and i64 %old, {-(1 << 61)}
  %rest = and i64 %old, {(1 << 61) - 1}
  %more0 = add i64 %rest, %moved
  %more = and i64 %more0, {(1 << 61) - 1}
  %fewer = sub i64 %more, %count
  %dropped = shl i64 %drop, 20
  %next = sub i64 %fewer, %dropped
  %pending = and i64 %next, {_FIELD}
  %bytes = lshr i64 %next, 40
  %both = or i64 %pending, %bytes
  %over = icmp eq i64 %both, 0
  %all0 = lshr i64 %next, 20
  %all = and i64 %all0, {_FIELD}
  %full = or i64 %next, %all
  %phase = add i64 %kept, {1 << 61}
  %now = select i1 %over, i64 %full, i64 %next
  %turn = select i1 %over, i64 %phase, i64 %kept
  %word = or i64 %now, %turn
  store i64 %word, ptr %at, align 8
  ret i64 %old
}}"""


def lower_mbarrier(scope: Scope, instr: Instr) -> list[Value]:
    """All ``mbarrier`` instructions."""
    kind = instr.mods[0]
    if kind == "inval":
        return []
    if kind == "pending_count":
        e = scope.e
        state = cast(e, scope.vector(instr.operands[1]), "i64")
        low = e.binary("and", state, e.const("i64", _FIELD, state.lanes))
        return [e.convert("trunc", low, "i32")]
    has_state = not isinstance(instr.operands[0], Address)
    operands: list[Operand] = list(instr.operands[int(has_state) :])
    if kind == "init":
        return _init(scope, instr, operands)
    if kind in ("test_wait", "try_wait"):
        return _wait(scope, instr, operands)
    given = operands[1] if len(operands) > 1 else Imm(1)
    parts: dict[str, Operand] = {"count": Imm(0), "bytes": Imm(0), "drop": Imm(0)}
    if kind == "complete_tx":
        return arrive(scope, instr, operands[0], {**parts, "bytes": given}, less=True)
    if kind == "expect_tx":
        return arrive(scope, instr, operands[0], {**parts, "bytes": given})
    if kind not in ("arrive", "arrive_drop"):
        raise UnsupportedError(f"{instr.form} is not there on cpu", where=f"ptx:{instr.line}")
    parts["count"] = given
    if instr.has("expect_tx"):
        parts["count"], parts["bytes"] = Imm(1), given
    if kind == "arrive_drop":
        parts["drop"] = parts["count"]
    return arrive(scope, instr, operands[0], parts)


def arrive(
    scope: Scope,
    instr: Instr,
    address: Operand,
    parts: Mapping[str, Operand],
    *,
    less: bool = False,
) -> list[Value]:
    """Arrive lane after lane; the state before. ``less``: the bytes have come."""
    e, width = scope.e, scope.code.width
    e.declarations["mbarrier_arrive"] = _ARRIVE
    values = {n: e.splat(cast(e, scope.vector(o), "i32"), width) for n, o in parts.items()}
    if less:
        values["bytes"] = e.binary("sub", e.const("i32", 0, width), values["bytes"])

    def step(inner: Emitter, args: Sequence[Value]) -> list[Value]:
        listed = ", ".join(map(str, args))
        return [inner.raw(f"call i64 @mbarrier_arrive({listed})", "i64")]

    vectors = (_pointers(scope, instr, address, ATOMIC | RELEASE), *values.values())
    return by_lane(e, "mbarrier.arrive", scope.active(instr), vectors, results=("i64",), step=step)


def _pointers(scope: Scope, instr: Instr, address: Operand, how: int) -> Value:
    assert isinstance(address, Address)
    place = where(scope, address, "shared")
    if (watch := scope.code.watch) is not None:
        active = scope.active(instr)
        watch.access(scope, instr, place, "i64", 1, how=how, space="shared", active=active)
    if scope.code.width == 1:
        return scope.e.splat(place.pointer, 1)
    return pointers_of(scope, place)


def _init(scope: Scope, instr: Instr, operands: list[Operand]) -> list[Value]:
    e = scope.e
    count = e.convert("zext", e.splat(cast(e, scope.vector(operands[1]), "i32")), "i64")
    word = e.binary("or", count, e.binary("shl", count, e.const("i64", 20, count.lanes)))

    def step(inner: Emitter, args: Sequence[Value]) -> list[Value]:
        inner.line(f"store {args[1]}, {args[0]}, align 8")
        return []

    vectors = (_pointers(scope, instr, operands[0], WRITE), word)
    return by_lane(e, "mbarrier.init", scope.active(instr), vectors, results=(), step=step)


def _wait(scope: Scope, instr: Instr, operands: list[Operand]) -> list[Value]:
    """Whether the phase of a state, or the last one of a parity, is over."""
    e, width = scope.e, scope.code.width
    parity = instr.has("parity")

    def step(inner: Emitter, args: Sequence[Value]) -> list[Value]:
        now = inner.raw(f"load volatile i64, {args[0]}, align 8", "i64")
        phase = inner.binary("lshr", now, Value("i64", "61"))
        asked = args[1]
        if parity:
            phase = inner.binary("and", phase, Value("i64", "1"))
            asked = inner.binary("and", asked, Value("i64", "1"))
        else:
            asked = inner.binary("lshr", asked, Value("i64", "61"))
        return [inner.convert("zext", inner.compare("icmp ne", phase, asked), "i32")]

    asked = scope.vector(operands[1])
    wide = e.convert("zext", asked, "i64") if asked.type != "i64" else asked
    vectors = (_pointers(scope, instr, operands[0], ATOMIC), e.splat(wide, width))
    name = f"mbarrier.wait.{'parity' if parity else 'state'}"
    (answer,) = by_lane(e, name, scope.active(instr), vectors, results=("i32",), step=step)
    return [e.compare("icmp ne", answer, e.const("i32", 0, width))]
