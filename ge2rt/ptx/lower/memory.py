"""Loads and stores: from what is known of the lanes' addresses to wide, shuffled or single accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Address, Imm, Instr, Operand, Reg, Symbol
from ge2rt.ptx.emit import BITS, Value
from ge2rt.ptx.lanes import Lanes, constant
from ge2rt.ptx.lower.groups import few
from ge2rt.ptx.lower.values import Scope, spread_lanes
from ge2rt.ptx.rules.operands import cast

_SPACES = ("global", "shared", "local", "const", "param")
MEMORY_TYPES = {"b8": "i8", "u8": "i8", "s8": "i8", "b16": "i16", "u16": "i16", "s16": "i16",
           "b32": "i32", "u32": "i32", "s32": "i32", "b64": "i64", "u64": "i64", "s64": "i64",
           "f32": "float", "f64": "double", "f16": "i16", "bf16": "i16", "f16x2": "i32",
           "bf16x2": "i32", "b128": "i128"}  # fmt: skip
MAX_HOLE = 4096  # bytes between two accessed elements that may be read along: less than a page
MAX_RUNS = 8


@dataclass(frozen=True)
class Where:
    """Addresses of the lanes: ``pointer`` is lane 0's, or a vector of pointers (offsets unknown)."""

    pointer: Value
    lanes: Lanes | None

    def offsets(self, width: int) -> tuple[int, ...] | None:
        """Byte offsets from lane 0, or None."""
        if self.lanes is None:
            return None
        return self.lanes.offsets or (0,) * width


def space_of(instr: Instr) -> str:
    """The state space an access names; "" for generic."""
    for mod in instr.mods:
        space = mod.split("::", 1)[0]
        if space in _SPACES:
            return space
    return ""


def memory_type(instr: Instr) -> str:
    """The LLVM type of one element in memory."""
    name = instr.types[-1] if instr.types else ""
    found = MEMORY_TYPES.get(name)
    if found is None:
        raise UnsupportedError(f"{instr.form} has no known type", where=f"ptx:{instr.line}")
    return found


def vector_length(instr: Instr) -> int:
    """Elements a lane: 1, or 2, 4, 8 with ``.v2`` and so on."""
    for mod in instr.mods:
        if mod in ("v2", "v4", "v8"):
            return int(mod[1:])
    return 1


def where(scope: Scope, address: Address, space: str, extra: int = 0) -> Where:
    """The pointers of an address operand in a state space."""
    e = scope.e
    offset = address.offset + extra
    base: Operand = address.base if address.base is not None else Imm(0)
    if isinstance(base, Symbol):
        base, offset = Symbol(base.name, base.offset + offset), 0
    lanes = scope.lanes(base)
    if lanes is not None:
        number = scope.scalar(base)
        lanes = Lanes(lanes.offsets)
    else:
        number = scope.vector(base)
    number = _wide(scope, number)
    shared = space == "shared" or (
        isinstance(base, Symbol) and scope.code.places.place(base).space == "shared"
    )
    if number.lanes:
        lanes = None
    if offset:
        number = e.binary("add", number, e.const("i64", offset, number.lanes))
    return Where(pointer(scope, number, shared), lanes)


def _wide(scope: Scope, number: Value) -> Value:
    """A register as a 64-bit address: 32-bit ones are offsets below 2**31 where they are used."""
    e = scope.e
    if number.type == "i64":
        return number
    if number.text.lstrip("-").isdigit():
        return Value("i64", number.text)
    return e.convert("sext", number, "i64")


def pointer(scope: Scope, number: Value, shared: bool) -> Value:
    """An address (or shared offset) as a pointer or vector of pointers."""
    e = scope.e
    full = f"<{number.lanes} x ptr>" if number.lanes else "ptr"
    if shared:
        return e.raw(f"getelementptr i8, ptr %arena, {number}", "ptr", number.lanes)
    return e.raw(f"inttoptr {number} to {full}", "ptr", number.lanes)


def at(scope: Scope, base: Value, offset: int) -> Value:
    """A scalar pointer moved by a constant."""
    if not offset:
        return base
    return scope.e.raw(f"getelementptr i8, {base}, i64 {offset}", "ptr")


# -- loads -----------------------------------------------------------------------------------


def load(
    scope: Scope, place: Where, type: str, count: int, active: Value | None, suffix: str = ""
) -> list[Value]:
    """``count`` consecutive elements a lane; ``active`` None means all lanes. Scalars if uniform."""
    width = scope.code.width
    offsets = place.offsets(width)
    size = BITS[type] // 8
    if offsets is None:
        return _load_unknown(scope, place.pointer, type, count, active, suffix)
    if not any(offsets):
        return _load_uniform(scope, place.pointer, type, count, active, suffix)
    if _steps(offsets, size * count):
        return _load_wide(scope, place.pointer, type, count, active, suffix)
    if active is None:
        found = _load_pattern(scope, place.pointer, type, count, offsets, suffix)
        if found is not None:
            return found
    vector = _pointers(scope, place)
    return [_gather(scope, vector, type, k * size, active) for k in range(count)]


def _steps(offsets: Sequence[int], step: int) -> bool:
    return all(o == k * step for k, o in enumerate(offsets))


def _pointers(scope: Scope, place: Where) -> Value:
    """A vector of pointers from lane 0's and the offsets."""
    e, width = scope.e, scope.code.width
    if place.pointer.lanes:
        return place.pointer
    offsets = e.per_lane("i64", place.offsets(width) or ())
    return e.raw(f"getelementptr i8, {place.pointer}, {offsets}", "ptr", width)


def _load_uniform(
    scope: Scope, base: Value, type: str, count: int, active: Value | None, suffix: str
) -> list[Value]:
    e = scope.e
    scope.code.count("scalar loads")
    size = BITS[type] // 8
    if active is None or active is scope.mask:
        return [
            e.raw(f"load {type}, {at(scope, base, k * size)}, align 1{suffix}", type)
            for k in range(count)
        ]
    some = any_lane(scope, active)
    one = e.raw(f"insertelement <1 x i1> poison, {some}, i32 0", "i1", 1)
    results = []
    for k in range(count):
        zero = e.const(type, "zeroinitializer", 1)
        got = _masked_load(scope, at(scope, base, k * size), type, 1, one, zero)
        results.append(e.raw(f"extractelement {got}, i32 0", type))
    return results


def any_lane(scope: Scope, mask: Value) -> Value:
    """Whether a mask has any lane, as a scalar i1."""
    e = scope.e
    bits = e.raw(f"bitcast {mask} to i{mask.lanes}", f"i{mask.lanes}")
    return e.compare("icmp ne", bits, Value(bits.type, "0"))


def _masked_load(
    scope: Scope, base: Value, type: str, lanes: int, mask: Value, passed: Value
) -> Value:
    e = scope.e
    name = f"llvm.masked.load.v{lanes}{_short(type)}.p0"
    full = f"<{lanes} x {type}>"
    e.declarations[name] = f"declare {full} @{name}(ptr, <{lanes} x i1>, {full})"
    return e.raw(f"call {full} @{name}(ptr align 1 {base.text}, {mask}, {passed})", type, lanes)


def _short(type: str) -> str:
    return {"float": "f32", "double": "f64"}.get(type, type)


def _load_wide(
    scope: Scope, base: Value, type: str, count: int, active: Value | None, suffix: str
) -> list[Value]:
    e, width = scope.e, scope.code.width
    scope.code.count("wide loads")
    total = width * count
    if active is None:
        got = e.raw(f"load <{total} x {type}>, {base}, align 1{suffix}", type, total)
    else:
        mask = active if count == 1 else _shuffle(
            scope, active, [k // count for k in range(total)]
        )  # fmt: skip
        zero = e.const(type, "zeroinitializer", total)
        got = _masked_load(scope, base, type, total, mask, zero)
    if count == 1:
        return [got]
    return [_shuffle(scope, got, [lane * count + k for lane in range(width)]) for k in range(count)]


def _shuffle(scope: Scope, value: Value, picks: Sequence[int]) -> Value:
    """Elements of one vector by number (-1: any)."""
    e = scope.e
    listed = ", ".join(f"i32 {p}" if p >= 0 else "i32 poison" for p in picks)
    full = f"<{value.lanes} x {value.type}>"
    return e.raw(
        f"shufflevector {value}, {full} poison, <{len(picks)} x i32> <{listed}>",
        value.type, len(picks),
    )  # fmt: skip


def _load_pattern(
    scope: Scope, base: Value, type: str, count: int, offsets: Sequence[int], suffix: str
) -> list[Value] | None:
    """Repeated, permuted or gapped lanes: few wide loads and shuffles. None where that is no gain."""
    size = BITS[type] // 8
    starts = sorted(set(offsets))
    if any((o - starts[0]) % size for o in starts):
        return None
    runs: list[list[int]] = []  # [first offset, bytes]
    for start in starts:
        gap = start - (runs[-1][0] + runs[-1][1]) if runs else 0
        if runs and gap < min(MAX_HOLE, 3 * size * count + 1):
            runs[-1][1] = max(runs[-1][1], start + size * count - runs[-1][0])
        else:
            runs.append([start, size * count])
    if len(runs) > MAX_RUNS:
        return None
    scope.code.count("shuffled loads")
    e, width = scope.e, scope.code.width
    if count == 1 and len(starts) <= few(width):
        return [_load_few(scope, base, type, offsets, starts, suffix)]
    pieces = []
    for first, nbytes in runs:
        lanes = nbytes // size
        got = e.raw(f"load <{lanes} x {type}>, {at(scope, base, first)}, align 1{suffix}",
                    type, lanes)  # fmt: skip
        pieces.append((first, nbytes, got))
    results = []
    for k in range(count):
        result: Value | None = None
        for first, nbytes, got in pieces:
            inside = [first <= o < first + nbytes for o in offsets]
            picks = [(o - first) // size + k if i else -1
                     for o, i in zip(offsets, inside, strict=True)]  # fmt: skip
            moved = _shuffle(scope, got, picks)
            result = moved if result is None else _merge(scope, result, moved, inside)
        assert result is not None
        results.append(Value(type, result.text, width))
    return results


def _load_few(
    scope: Scope, base: Value, type: str, offsets: Sequence[int], starts: Sequence[int], suffix: str
) -> Value:
    """Few distinct addresses: a broadcast each."""
    e = scope.e
    result: Value | None = None
    for start in starts:
        got = e.splat(e.raw(f"load {type}, {at(scope, base, start)}, align 1{suffix}", type))
        here = [o == start for o in offsets]
        result = got if result is None else _merge(scope, result, got, here)
    assert result is not None
    return result


def _merge(scope: Scope, a: Value, b: Value, from_b: Sequence[bool]) -> Value:
    width = scope.code.width
    listed = ", ".join(f"i32 {k + width if b_here else k}" for k, b_here in enumerate(from_b))
    return scope.e.raw(f"shufflevector {a}, {b}, <{width} x i32> <{listed}>", a.type, width)


def _gather(scope: Scope, pointers: Value, type: str, offset: int, active: Value | None) -> Value:
    e, width = scope.e, scope.code.width
    scope.code.count("gathers")
    if offset:
        pointers = e.raw(
            f"getelementptr i8, {pointers}, {e.const('i64', offset, width)}", "ptr", width
        )
    mask = active if active is not None else e.const("i1", "true", width)
    name = f"llvm.masked.gather.v{width}{_short(type)}.v{width}p0"
    full = f"<{width} x {type}>"
    e.declarations[name] = f"declare {full} @{name}(<{width} x ptr>, <{width} x i1>, {full})"
    zero = e.const(type, "zeroinitializer", width)
    marked = f"<{width} x ptr> align 1 {pointers.text}"
    return e.raw(f"call {full} @{name}({marked}, {mask}, {zero})", type, width)


# -- addresses that only the run shows -------------------------------------------------------


def _load_unknown(
    scope: Scope, pointers: Value, type: str, count: int, active: Value | None, suffix: str
) -> list[Value]:
    """One wide load where the lanes turn out to be neighbours, else gathers."""
    e, size = scope.e, BITS[type] // 8
    base, near = _neighbours(scope, pointers, size * count, active)
    wide, apart, done = e.name("near"), e.name("apart"), e.name("loaded")
    e.line(f"br {near}, label %{wide}, label %{apart}")
    e.label(wide)
    first = _load_wide(scope, base, type, count, active, suffix)
    e.line(f"br label %{done}")
    e.label(apart)
    second = [_gather(scope, pointers, type, k * size, active) for k in range(count)]
    e.line(f"br label %{done}")
    e.label(done)
    return [
        e.raw(f"phi {a.full_type} [ {a.text}, %{wide} ], [ {b.text}, %{apart} ]", a.type, a.lanes)
        for a, b in zip(first, second, strict=True)
    ]


def _neighbours(
    scope: Scope, pointers: Value, step: int, active: Value | None
) -> tuple[Value, Value]:
    """Where lane 0 would be and whether all active lanes lie ``step`` bytes apart from there."""
    e, width = scope.e, scope.code.width
    numbers = e.raw(f"ptrtoint {pointers} to <{width} x i64>", "i64", width)
    starts = e.binary("sub", numbers, e.per_lane("i64", [step * k for k in range(width)]))
    if active is None:
        first = e.raw(f"extractelement {starts}, i32 0", "i64")
    else:
        living = e.select(active, starts, e.const("i64", 0, width))
        first = e.call_named(f"llvm.vector.reduce.umax.v{width}i64", [living], "i64")
    agree = e.compare("icmp eq", starts, e.splat(first))
    if active is not None:
        dead = e.binary("xor", active, e.const("i1", "true", width))
        agree = e.binary("or", agree, dead)
    bits = e.raw(f"bitcast {agree} to i{width}", f"i{width}")
    near = e.compare("icmp eq", bits, Value(bits.type, "-1"))
    return e.raw(f"inttoptr {first} to ptr", "ptr"), near


def _store_unknown(
    scope: Scope, pointers: Value, values: Sequence[Value], active: Value | None
) -> None:
    """As :func:`_load_unknown`."""
    e = scope.e
    size = BITS[values[0].type] // 8
    base, near = _neighbours(scope, pointers, size * len(values), active)
    wide, apart, done = e.name("near"), e.name("apart"), e.name("stored")
    e.line(f"br {near}, label %{wide}, label %{apart}")
    e.label(wide)
    _store_wide(scope, base, values, active)
    e.line(f"br label %{done}")
    e.label(apart)
    for k, value in enumerate(values):
        _scatter(scope, pointers, value, k * size, active)
    e.line(f"br label %{done}")
    e.label(done)


# -- stores ----------------------------------------------------------------------------------


def store(scope: Scope, place: Where, values: Sequence[Value], active: Value | None) -> None:
    """Consecutive elements a lane; of lanes with one address the last wins."""
    width = scope.code.width
    offsets = place.offsets(width)
    size = BITS[values[0].type] // 8
    if offsets is not None and not any(offsets):
        _store_uniform(scope, place.pointer, values, active)
        return
    vectors = [scope.e.splat(v) for v in values]
    if offsets is not None and _steps(offsets, size * len(values)):
        _store_wide(scope, place.pointer, vectors, active)
    elif offsets is not None and active is None:
        spots = [o + k * size for o in offsets for k in range(len(vectors))]
        _store_runs(scope, place.pointer, _interleave(scope, vectors), spots)
    elif offsets is None:
        _store_unknown(scope, place.pointer, vectors, active)
    else:
        pointers = _pointers(scope, place)
        for k, value in enumerate(vectors):
            _scatter(scope, pointers, value, k * size, active)


def _store_uniform(
    scope: Scope, base: Value, values: Sequence[Value], active: Value | None
) -> None:
    e = scope.e
    scope.code.count("scalar stores")
    guarded = active is not None and active is not scope.mask
    for k, value in enumerate(values):
        target = at(scope, base, k * BITS[value.type] // 8)
        single = last_lane(scope, value, active)
        if not guarded:
            e.line(f"store {single}, {target}, align 1")
            continue
        assert active is not None
        some = any_lane(scope, active)
        one = e.raw(f"insertelement <1 x i1> poison, {some}, i32 0", "i1", 1)
        boxed = e.raw(f"insertelement <1 x {single.type}> poison, {single}, i32 0", single.type, 1)
        _masked_store(scope, target, boxed, one)


def last_lane(scope: Scope, value: Value, active: Value | None) -> Value:
    """The value of the last active lane (any, if there is none)."""
    if not value.lanes:
        return value
    e, width = scope.e, scope.code.width
    if active is None:
        return e.raw(f"extractelement {value}, i32 {width - 1}", value.type)
    bits = e.raw(f"bitcast {active} to i{width}", f"i{width}")
    e.declarations[f"llvm.ctlz.i{width}"] = f"declare i{width} @llvm.ctlz.i{width}(i{width}, i1)"
    zeros = e.raw(f"call i{width} @llvm.ctlz.i{width}({bits}, i1 false)", f"i{width}")
    index = e.binary("sub", Value(f"i{width}", str(width - 1)), zeros)
    index = e.binary("and", index, Value(f"i{width}", str(width - 1)))
    return e.raw(f"extractelement {value}, {index}", value.type)


def _masked_store(scope: Scope, base: Value, value: Value, mask: Value) -> None:
    e = scope.e
    name = f"llvm.masked.store.v{value.lanes}{_short(value.type)}.p0"
    e.declarations[name] = f"declare void @{name}({value.full_type}, ptr, <{value.lanes} x i1>)"
    e.line(f"call void @{name}({value}, ptr align 1 {base.text}, {mask})")


def _store_wide(scope: Scope, base: Value, values: Sequence[Value], active: Value | None) -> None:
    e = scope.e
    scope.code.count("wide stores")
    value = _interleave(scope, values)
    if active is None:
        e.line(f"store {value}, {base}, align 1")
        return
    mask = active
    if len(values) > 1:
        mask = _shuffle(scope, active, [k // len(values) for k in range(value.lanes)])
    _masked_store(scope, base, value, mask)


def _interleave(scope: Scope, values: Sequence[Value]) -> Value:
    """Lane by lane: all values of lane 0, then all of lane 1..."""
    width, count = scope.code.width, len(values)
    if count == 1:
        return values[0]
    joined = list(values)
    while len(joined) > 1:
        joined = [_concat(scope, joined[k], joined[k + 1]) for k in range(0, len(joined), 2)]
    picks = [k * width + lane for lane in range(width) for k in range(count)]
    return _shuffle(scope, joined[0], picks)


def _concat(scope: Scope, a: Value, b: Value) -> Value:
    total = a.lanes + b.lanes
    listed = ", ".join(f"i32 {k}" for k in range(total))
    return scope.e.raw(f"shufflevector {a}, {b}, <{total} x i32> <{listed}>", a.type, total)


def _store_runs(scope: Scope, base: Value, value: Value, offsets: Sequence[int]) -> None:
    """Static offsets, all lanes: neighbours in memory and lane order are stored together."""
    e = scope.e
    size = BITS[value.type] // 8
    scope.code.count("split stores")
    first = 0
    for lane in range(1, len(offsets) + 1):
        if lane < len(offsets) and offsets[lane] == offsets[lane - 1] + size:
            continue
        target = at(scope, base, offsets[first])
        if lane - first == 1:
            single = e.raw(f"extractelement {value}, i32 {first}", value.type)
            e.line(f"store {single}, {target}, align 1")
        else:
            part = _shuffle(scope, value, range(first, lane))
            e.line(f"store {part}, {target}, align 1")
        first = lane


def _scatter(
    scope: Scope, pointers: Value, value: Value, offset: int, active: Value | None
) -> None:
    e, width = scope.e, scope.code.width
    scope.code.count("scatters")
    if offset:
        pointers = e.raw(
            f"getelementptr i8, {pointers}, {e.const('i64', offset, width)}", "ptr", width
        )
    mask = active if active is not None else e.const("i1", "true", width)
    name = f"llvm.masked.scatter.v{width}{_short(value.type)}.v{width}p0"
    e.declarations[name] = (
        f"declare void @{name}({value.full_type}, <{width} x ptr>, <{width} x i1>)"
    )
    e.line(f"call void @{name}({value}, <{width} x ptr> align 1 {pointers.text}, {mask})")


# -- the instructions ------------------------------------------------------------------------


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
    values = load(scope, where(scope, address, space), type, count, scope.active(instr), suffix)
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
    return any(instr.has(m) for m in ("volatile", "relaxed", "acquire", "release"))


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
    store(scope, where(scope, address, space), values, scope.active(instr))
    if _ordered(instr):
        forget(scope)


def moved(place: Where, offsets: Sequence[int]) -> Where:
    """The same lane 0 with other offsets."""
    return Where(place.pointer, Lanes(tuple(offsets)))


def full_lanes(scope: Scope, place: Where) -> Value:
    """All lanes' addresses as an i64 vector."""
    e = scope.e
    if place.lanes is None:
        return e.raw(
            f"ptrtoint {place.pointer} to <{place.pointer.lanes} x i64>", "i64",
            place.pointer.lanes,
        )  # fmt: skip
    number = e.raw(f"ptrtoint {place.pointer} to i64", "i64")
    return spread_lanes(e, number, place.lanes if place.lanes.offsets else constant(0))
