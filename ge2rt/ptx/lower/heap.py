"""``malloc`` and ``free`` of device code: the host's, lane after lane."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.ast import Address, Instr, Symbol
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.lanewise import by_lane
from ge2rt.ptx.lower.address import where
from ge2rt.ptx.lower.messages import argument
from ge2rt.ptx.lower.shape import flatten
from ge2rt.ptx.lower.stores import store
from ge2rt.ptx.lower.values import Scope


def allocate(scope: Scope, instr: Instr) -> list[Value]:
    """``malloc(bytes)``: null where the host has no memory."""
    e = scope.e
    e.declarations["malloc"] = "declare ptr @malloc(i64)"

    def step(inner: Emitter, args: Sequence[Value]) -> list[Value]:
        got = inner.raw(f"call ptr @malloc({args[0]})", "ptr")
        return [inner.raw(f"ptrtoint {got} to i64", "i64")]

    size = e.splat(argument(scope, instr, 0, "i64"), scope.code.width)
    (address,) = by_lane(e, "malloc", scope.active(instr), [size], results=("i64",), step=step)
    target = flatten(instr.operands[0])[0]
    if isinstance(target, Symbol):
        store(scope, where(scope, Address(target), "local"), [address], scope.active(instr))
        return []
    return [address]


def release(scope: Scope, instr: Instr) -> list[Value]:
    """``free(pointer)``."""
    e = scope.e
    e.declarations["free"] = "declare void @free(ptr)"

    def step(inner: Emitter, args: Sequence[Value]) -> list[Value]:
        pointer = inner.raw(f"inttoptr {args[0]} to ptr", "ptr")
        inner.line(f"call void @free({pointer})")
        return []

    address = e.splat(argument(scope, instr, 0, "i64"), scope.code.width)
    return by_lane(e, "free", scope.active(instr), [address], results=(), step=step)
