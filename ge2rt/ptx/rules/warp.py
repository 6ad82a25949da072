"""Instructions that look across the lanes of a warp of 32: ``shfl vote match redux``..."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ge2rt.ptx.ast import Instr, Pair
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.rules.api import WarpRule
from ge2rt.ptx.rules.operands import cast, integer, types_of, uniform_constant, unsupported

WARP = 32
LANES = tuple(range(WARP))


def whole_warp(rule: WarpRule) -> WarpRule:
    """The rule, refusing code that runs a warp in narrower pieces."""

    def checked(e: Emitter, i: Instr, src: Sequence[Value], mask: Value) -> list[Value]:
        if e.lanes != WARP:
            raise unsupported(i, f"it needs warps of 32 lanes, not pieces of {e.lanes}")
        return rule(e, i, src, mask)

    return checked


def lane_bits(e: Emitter, flags: Value) -> Value:
    """An i1 vector as one scalar word, lane 0 lowest."""
    return e.reinterpret(flags, "i32", 0)


def lane_flags(e: Emitter, word: Value) -> Value:
    """The inverse of :func:`lane_bits`."""
    return e.reinterpret(word, "i1", WARP)


def has_second(i: Instr) -> bool:
    """Whether the destination is ``d|p``."""
    return bool(i.operands) and isinstance(i.operands[0], Pair)


# -- shfl --------------------------------------------------------------------------------------


def _sources(mode: str, b: int, c: int) -> tuple[list[int], list[int]]:
    """Source lane and predicate of each lane for constant operands, as the manual states them."""
    lanes, flags = [], []
    segment, clamp, b = c >> 8 & 31, c & 31, b & 31
    for lane in LANES:
        low = lane & segment
        high = low | (clamp & ~segment & 31)
        j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | (b & ~segment)}[mode]
        inside = j >= high if mode == "up" else j <= high
        lanes.append(j if inside else lane)
        flags.append(int(inside))
    return lanes, flags


def _source_vector(e: Emitter, mode: str, b: Value, c: Value) -> tuple[Value, Value]:
    """As :func:`_sources` for operands known at run time."""
    lane, low5 = e.per_lane("i32", LANES), integer("i32", 31)
    b, clamp = e.binary("and", b, low5), e.binary("and", c, low5)
    segment = e.binary("and", e.binary("lshr", c, integer("i32", 8)), low5)
    inverse = e.binary("xor", segment, low5)
    low = e.binary("and", lane, segment)
    high = e.binary("or", low, e.binary("and", clamp, inverse))
    if mode == "idx":
        j = e.binary("or", low, e.binary("and", b, inverse))
    else:
        j = e.binary({"up": "sub", "down": "add", "bfly": "xor"}[mode], lane, b)
    inside = e.compare("icmp sge" if mode == "up" else "icmp sle", j, high)
    return e.select(inside, j, lane), inside


def permute(e: Emitter, value: Value, index: Value) -> Value:
    """``value[index]`` for lane numbers below 32 known at run time; i32 elements."""
    if "+avx512f" not in e.features:
        return _permute_by_element(e, value, index)
    name = "llvm.x86.avx512.vpermi2var.d.512"
    full = "<16 x i32>"
    e.declarations[name] = f"declare {full} @{name}({full}, {full}, {full})"
    low, high = (e.shuffle(value, None, range(k, k + 16)) for k in (0, 16))
    halves = []
    for k in (0, 16):
        part = e.shuffle(index, None, range(k, k + 16))
        halves.append(e.raw(f"call {full} @{name}({low}, {part}, {high})", "i32", 16))
    return e.shuffle(halves[0], halves[1], range(WARP))


def _permute_by_element(e: Emitter, value: Value, index: Value) -> Value:
    result = Value("i32", "poison", WARP)
    for k in LANES:
        at = e.raw(f"extractelement {index}, i32 {k}", "i32")
        item = e.raw(f"extractelement {value}, {at}", "i32")
        result = e.raw(f"insertelement {result}, {item}, i32 {k}", "i32", WARP)
    return result


def shuffle(e: Emitter, i: Instr, src: Sequence[Value], mask: Value) -> list[Value]:
    """``shfl.sync``; constant lane and clamp operands give a constant shuffle."""
    mode = next((m for m in i.mods if m in ("up", "down", "bfly", "idx")), None)
    if mode is None:
        raise unsupported(i)
    a = cast(e, src[0], "i32")
    b, c = uniform_constant(src[1]), uniform_constant(src[2])
    if b is not None and c is not None:
        lanes, flags = _sources(mode, b, c)
        result, inside = e.shuffle(a, None, lanes), e.per_lane("i1", flags)
    else:
        index, inside = _source_vector(e, mode, cast(e, src[1], "i32"), cast(e, src[2], "i32"))
        result = permute(e, a, index)
    return [result, inside] if has_second(i) else [result]


# -- votes, matches, reductions ------------------------------------------------------------------


def _members(e: Emitter, member: Value, mask: Value) -> Value:
    """The word of executing lanes that each lane's member mask names.

    One scalar for a constant mask. Else a word a lane: groups of lanes with masks of their own may
    execute one instruction together (tiles of half a warp do).
    """
    word = lane_bits(e, mask)
    named = uniform_constant(member)
    if named in (-1, 0xFFFFFFFF):
        return word
    if named is not None:
        return e.binary("and", word, integer("i32", named))
    return e.binary("and", e.splat(word, WARP), cast(e, member, "i32"))


def vote(e: Emitter, i: Instr, src: Sequence[Value], mask: Value) -> list[Value]:
    """``vote.sync``: ``all any uni`` as predicates, ``ballot`` as a word."""
    members = _members(e, src[1], mask) if len(src) > 1 else lane_bits(e, mask)
    yes = e.binary("and", lane_bits(e, cast(e, src[0], "i1")), members)
    if i.has("ballot"):
        return [e.splat(yes, WARP)]
    zero = integer("i32", 0)
    none, every = e.compare("icmp eq", yes, zero), e.compare("icmp eq", yes, members)
    if i.has("any"):
        answer = e.compare("icmp ne", yes, zero)
    elif i.has("all"):
        answer = every
    elif i.has("uni"):
        answer = e.binary("or", none, every)
    else:
        raise unsupported(i)
    return [e.splat(answer, WARP)]


def match(e: Emitter, i: Instr, src: Sequence[Value], mask: Value) -> list[Value]:
    """``match.any``: lanes with the same value; ``match.all``: all of them, or 0."""
    a = cast(e, src[0], types_of(i)[-1].llvm)
    members = _members(e, src[1], mask)
    found = e.const("i32", 0, WARP)
    for k in LANES:
        value = e.raw(f"extractelement {a}, i32 {k}", a.type)
        same = e.compare("icmp eq", a, value)
        found = e.binary("or", found, e.select(same, integer("i32", 1 << k), integer("i32", 0)))
    found = e.binary("and", found, members)
    if not i.has("all"):
        return [found]
    every = e.compare("icmp eq", found, members)
    word = e.select(every, found, integer("i32", 0))
    return [word, every] if has_second(i) else [word]


def _lowest(e: Emitter, word: Value) -> Value:
    """Number of the lowest set bit; 0 for an empty word."""
    full = e.const("i32", 0, word.lanes).full_type
    name = f"llvm.cttz.{f'v{word.lanes}' if word.lanes else ''}i32"
    e.declarations[name] = f"declare {full} @{name}({full}, i1)"
    at = e.raw(f"call {full} @{name}({word}, i1 false)", "i32", word.lanes)
    return e.binary("and", at, integer("i32", 31))


_REDUCTIONS: dict[tuple[str, str], tuple[str, int]] = {
    ("add", "u"): ("add", 0),
    ("add", "s"): ("add", 0),
    ("min", "u"): ("umin", -1),
    ("max", "u"): ("umax", 0),
    ("min", "s"): ("smin", 0x7FFFFFFF),
    ("max", "s"): ("smax", 0x80000000),
    ("and", "b"): ("and", -1),
    ("or", "b"): ("or", 0),
    ("xor", "b"): ("xor", 0),
}


def reduce(e: Emitter, i: Instr, src: Sequence[Value], mask: Value) -> list[Value]:
    """``redux.sync``: the same result in all lanes; lanes outside give the neutral element."""
    op = next((m for m in i.mods if m in ("add", "min", "max", "and", "or", "xor")), "")
    t = types_of(i)[-1]
    if t.llvm != "i32" or (op, t.kind) not in _REDUCTIONS:
        raise unsupported(i)
    name, neutral = _REDUCTIONS[op, t.kind]
    a, members = cast(e, src[0], "i32"), _members(e, src[1], mask)
    if members.lanes:
        return e.outline(f"redux.{name}", (a, members), _reduce_by_lane(name, neutral))
    given = e.select(lane_flags(e, members), a, integer("i32", neutral))
    full = f"llvm.vector.reduce.{name}.v{WARP}i32"
    return [e.splat(e.call_named(full, (given,), "i32"), WARP)]


def _reduce_by_lane(
    name: str, neutral: int
) -> Callable[[Emitter, Sequence[Value]], Sequence[Value]]:
    """Each lane's own group: every lane's value in turn goes to those that name it."""

    def body(e: Emitter, args: Sequence[Value]) -> Sequence[Value]:
        a, members = args
        result = e.const("i32", neutral, WARP)
        for k in LANES:
            bit = e.binary("and", members, integer("i32", 1 << k))
            named = e.compare("icmp ne", bit, integer("i32", 0))
            item = e.raw(f"extractelement {a}, i32 {k}", "i32")
            given = e.select(named, e.splat(item, WARP), integer("i32", neutral))
            result = (
                e.call(f"llvm.{name}", (result, given))
                if name[1:] in ("min", "max")
                else e.binary(name, result, given)
            )
        return [result]

    return body


def active_mask(e: Emitter, i: Instr, src: Sequence[Value], mask: Value) -> list[Value]:
    """``activemask``: the executing lanes."""
    return [e.splat(lane_bits(e, mask), WARP)]


def elect(e: Emitter, i: Instr, src: Sequence[Value], mask: Value) -> list[Value]:
    """``elect.sync``: the lowest member is the leader; its lane number, and who it is."""
    leader = _lowest(e, _members(e, src[0], mask))
    chosen = e.compare("icmp eq", e.per_lane("i32", LANES), leader)
    return [e.splat(leader, WARP), chosen]


_ALL: dict[str, Callable[[Emitter, Instr, Sequence[Value], Value], list[Value]]] = {
    "shfl": shuffle,
    "vote": vote,
    "match": match,
    "redux": reduce,
    "activemask": active_mask,
    "elect": elect,
}

RULES: dict[str, WarpRule] = {op: whole_warp(rule) for op, rule in _ALL.items()}
