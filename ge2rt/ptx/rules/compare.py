"""Comparison and selection: ``setp set selp slct`` (PTX ISA, "Comparison and Selection")."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.ast import Instr, Pair
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.rules.operands import (
    PtxType,
    cast,
    cast_all,
    integer,
    number,
    repack,
    types_of,
    unsupported,
)
from ge2rt.ptx.rules.views import flush, opened

# PTX comparison -> LLVM predicate for floats; the unsigned letters are integers' own.
FLOAT_COMPARES = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
    "num": "ord", "nan": "uno",
}  # fmt: skip
UNSIGNED_COMPARES = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
_COMPARES = " ".join([*FLOAT_COMPARES, *UNSIGNED_COMPARES])
_JOINS = ("and", "or", "xor")


def _compare(e: Emitter, i: Instr, src: Sequence[Value], t: PtxType) -> Value:
    """i1 an element; packed halves give twice the lanes."""
    op = next((m for m in i.mods if m in FLOAT_COMPARES or m in UNSIGNED_COMPARES), None)
    if op is None:
        raise unsupported(i, "no comparison named")
    if t.kind == "f":
        if op not in FLOAT_COMPARES:
            raise unsupported(i, f"{op} does not compare floats")
        a, b = opened(e, i, src[:2], t)
        return e.compare(f"fcmp {FLOAT_COMPARES[op]}", a, b)
    a, b = cast_all(e, src[:2], t.llvm)
    if op in UNSIGNED_COMPARES:
        return e.compare(f"icmp {UNSIGNED_COMPARES[op]}", a, b)
    if op in ("eq", "ne"):
        return e.compare(f"icmp {op}", a, b)
    if op not in ("lt", "le", "gt", "ge"):
        raise unsupported(i, f"{op} does not compare integers")
    return e.compare(f"icmp {'s' if t.signed else 'u'}{op}", a, b)


def _halves(e: Emitter, flags: Value, lanes: int) -> list[Value]:
    """The even and the odd elements: low and high half of each lane."""
    if lanes:
        return [e.shuffle(flags, None, range(k, 2 * lanes, 2)) for k in (0, 1)]
    return [e.raw(f"extractelement {flags}, i32 {k}", "i1") for k in (0, 1)]


def set_predicate(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``setp``: p = cmp JOIN c and q = !cmp JOIN c; packed halves give p (low) and q (high)."""
    t = types_of(i)[-1]
    flags = _compare(e, i, src, t)
    pair = bool(i.operands) and isinstance(i.operands[0], Pair)
    results = [flags]
    if t.packed == 2:
        results = _halves(e, flags, max(v.lanes for v in src[:2]))
    elif pair:
        results = [flags, e.binary("xor", flags, Value("i1", "true"))]
    return _joined(e, i, results, src)


def _joined(e: Emitter, i: Instr, flags: list[Value], src: Sequence[Value]) -> list[Value]:
    join = next((m for m in i.mods if m in _JOINS), None)
    if join is None:
        return flags
    return [e.binary(join, p, cast(e, src[2], "i1")) for p in flags]


def set_value(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``set``: 1.0 or all ones where the comparison holds."""
    t_out, t_in = types_of(i)
    flags = _compare(e, i, src, t_in)
    if t_in.packed == 2:
        if len(src) > 2:
            raise unsupported(i, "a predicate with packed halves")
        one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(t_out.name, -1)
        chosen = e.select(flags, integer("i16", one), integer("i16", 0))
        return [repack(e, chosen, t_in)]
    (flag,) = _joined(e, i, [flags], src)
    if t_out.llvm in ("float", "double"):
        return [e.select(flag, number(t_out.llvm, 1.0), number(t_out.llvm, 0.0))]
    one = {"f16": 0x3C00, "bf16": 0x3F80}.get(t_out.name, -1)
    return [e.select(flag, integer(t_out.llvm, one), integer(t_out.llvm, 0))]


def select(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``selp``: a where the predicate holds, else b."""
    a, b = cast_all(e, src[:2], types_of(i)[-1].llvm)
    return [e.select(cast(e, src[2], "i1"), a, b)]


def select_by_sign(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """``slct``: a where c >= 0 (-0 counts, NaN does not), else b."""
    t, by = types_of(i)
    a, b = cast_all(e, src[:2], t.llvm)
    c = cast(e, src[2], by.llvm)
    if by.kind == "f":
        c = flush(e, c, by) if i.has("ftz") else c
        return [e.select(e.compare("fcmp oge", c, number(c.type, 0.0)), a, b)]
    return [e.select(e.compare("icmp sge", c, integer(c.type, 0)), a, b)]


_INTS = "u16 u32 u64 s16 s32 s64 b16 b32 b64"
_FLOATS = "f32 f64 f16 f16x2 bf16 bf16x2"
_SETS = f"{_COMPARES} and or xor ftz"

ROWS = (
    ("setp", f"{_INTS} {_FLOATS}", _SETS, set_predicate),
    ("set", f"{_INTS} {_FLOATS}", _SETS, set_value),
    ("selp", f"{_INTS} f32 f64", "", select),
    ("slct", "s32 f32", "ftz", select_by_sign),
)
