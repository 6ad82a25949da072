"""``ld`` and ``st``: types, state spaces, extension of narrow elements, order."""

from __future__ import annotations

from functools import lru_cache

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Address, Instr, Reg, Symbol
from ge2rt.ptx.emit import BITS, Value
from ge2rt.ptx.lower.address import where
from ge2rt.ptx.lower.ahead import prefetch
from ge2rt.ptx.lower.checks import READ, WRITE
from ge2rt.ptx.lower.loads import load
from ge2rt.ptx.lower.stores import store
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.rules.operands import cast

_SPACES = ("global", "shared", "local", "const", "param")
_ORDERED = frozenset(("volatile", "relaxed", "acquire", "release"))
MEMORY_TYPES = {"b8": "i8", "u8": "i8", "s8": "i8", "b16": "i16", "u16": "i16", "s16": "i16",
           "b32": "i32", "u32": "i32", "s32": "i32", "b64": "i64", "u64": "i64", "s64": "i64",
           "f32": "float", "f64": "double", "f16": "i16", "bf16": "i16", "f16x2": "i32",
           "bf16x2": "i32", "b128": "i128"}  # fmt: skip


def space_of(instr: Instr) -> str:
    """The state space an access names; "" for generic."""
    return _space_of(instr.mods)


@lru_cache(maxsize=4096)
def _space_of(mods: tuple[str, ...]) -> str:
    spaces = (mod.split("::", 1)[0] for mod in mods)
    return next((space for space in spaces if space in _SPACES), "")


def memory_type(instr: Instr) -> str:
    """The LLVM type of one element in memory."""
    name = instr.types[-1] if instr.types else ""
    found = MEMORY_TYPES.get(name)
    if found is None:
        raise UnsupportedError(f"{instr.form} has no known type", where=f"ptx:{instr.line}")
    return found


def vector_length(instr: Instr) -> int:
    """Elements a lane: 1, or 2, 4, 8 with ``.v2`` and so on."""
    return _vector_length(instr.mods)


@lru_cache(maxsize=4096)
def _vector_length(mods: tuple[str, ...]) -> int:
    return next((int(mod[1:]) for mod in mods if mod in ("v2", "v4", "v8")), 1)


def lower_load(scope: Scope, instr: Instr) -> list[Value]:
    """``ld`` and ``ldu``: the values for the destinations."""
    address = instr.operands[1]
    assert isinstance(address, Address)
    type, count, space = memory_type(instr), vector_length(instr), space_of(instr)
    if space == "param" and isinstance(address.base, Symbol):
        held = scope.code.places.place(address.base)
        if held.space == "param":
            size = BITS[type] // 8
            at_offset = held.offset + address.offset
            loaded = [scope.code.param(at_offset + k * size, type) for k in range(count)]
            return [_extend(scope, instr, v) for v in loaded]
    ordered = _ordered(instr)
    if ordered:
        forget(scope)
    suffix = ", !invariant.load !0" if instr.has("nc") or space == "const" else ""
    group = scope.groups.get(scope.at)
    if group is not None:
        if scope.at not in scope.waiting:
            shift = (group.index(scope.at)) * BITS[type] // 8
            place = where(scope, address, space, -shift)
            together = load(scope, place, type, len(group), scope.active(instr), suffix)
            scope.waiting.update(zip(group, together, strict=True))
        return [_extend(scope, instr, scope.waiting[scope.at])]
    place = where(scope, address, space)
    if (watch := scope.code.watch) is not None:
        active = scope.active(instr)
        watch.access(scope, instr, place, type, count, how=READ, space=space, active=active)
    values = load(scope, place, type, count, scope.active(instr), suffix)
    if scope.ahead and space == "global" and isinstance(address.base, Reg):
        step = scope.code.steps.get(address.base.name)
        if step:
            prefetch(scope, place, type, count, step)
    if ordered:
        forget(scope)
    return [_extend(scope, instr, v) for v in values]


def _extend(scope: Scope, instr: Instr, value: Value) -> Value:
    """Elements narrower than any register are extended by their sign."""
    if value.type != "i8" and not (value.type == "i16" and instr.types[-1][0] in "us"):
        return value
    registers = instr.operands[0]
    target = registers if isinstance(registers, Reg) else None
    items = getattr(registers, "items", None)
    if target is None and items:
        target = next((r for r in items if isinstance(r, Reg)), None)
    if target is None:
        return value
    type = scope.code.type_of(target.name)
    if BITS[type] <= BITS[value.type] or not type.startswith("i"):
        return value
    return scope.e.convert("sext" if instr.types[-1].startswith("s") else "zext", value, type)


def _ordered(instr: Instr) -> bool:
    return not _ORDERED.isdisjoint(instr.mods)


def forget(scope: Scope) -> None:
    """Make LLVM forget what it knows of memory: another thread or warp may have written it."""
    scope.e.line('call void asm sideeffect "", "~{memory}"()')


def lower_store(scope: Scope, instr: Instr) -> None:
    """``st``."""
    address = instr.operands[0]
    assert isinstance(address, Address)
    type, space = memory_type(instr), space_of(instr)
    items = instr.operands[1]
    given = getattr(items, "items", None) or (items,)
    values = [cast(scope.e, scope.vector(o), type) for o in given]
    group = scope.groups.get(scope.at)
    if group is not None:
        scope.waiting[scope.at] = values[0]
        if scope.at < max(group):
            return
        values = [scope.waiting[member] for member in group]
        shift = group.index(scope.at) * BITS[type] // 8
        store(scope, where(scope, address, space, -shift), values, scope.active(instr))
        return
    if _ordered(instr):
        forget(scope)
    place, active = where(scope, address, space), scope.active(instr)
    if (watch := scope.code.watch) is not None:
        watch.access(scope, instr, place, type, len(values), how=WRITE, space=space,
                     active=active, values=values)  # fmt: skip
    store(scope, place, values, active)
    if _ordered(instr):
        forget(scope)
