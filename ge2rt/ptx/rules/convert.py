"""``cvt``: between integers, floats and packed narrow floats (PTX ISA, "cvt")."""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.ptx.ast import Instr
from ge2rt.ptx.emit import BITS, Emitter, Value
from ge2rt.ptx.rules import fp8
from ge2rt.ptx.rules.operands import PtxType, cast, integer, number, repack, types_of, unsupported
from ge2rt.ptx.rules.rounding import MODES, narrow, narrow_to_odd, nudge, to_odd, two_sum
from ge2rt.ptx.rules.views import close_half, flush, open_floats, open_half, relu, saturate

_TO_INTEGRAL = {
    "rni": "llvm.roundeven", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil",
}  # fmt: skip
_LARGEST = {
    "f16": 65504.0, "bf16": 3.3895313892515355e38, "tf32": 3.4011621342146535e38,
    "f32": 3.4028234663852886e38,
}  # fmt: skip


def convert(e: Emitter, i: Instr, src: Sequence[Value]) -> list[Value]:
    """Choose by the kinds of source and target."""
    kinds = types_of(i)
    if len(kinds) != 2:
        raise unsupported(i)
    out, given = kinds
    if out.kind == "f" and (out.packed == 2 or given.packed == 2):
        return [_packed(e, i, src, out, given)]
    if given.packed == 2:
        raise unsupported(i)
    if out.kind == "f":
        if given.kind == "f":
            return [_float_to_float(e, i, src[0], out, given)]
        return [_int_to_float(e, i, src[0], out, given)]
    if given.kind == "f":
        return [_extended(e, _float_to_int(e, i, src[0], out, given), out)]
    return [_extended(e, _int_to_int(e, i, src[0], out, given), out)]


def _extended(e: Emitter, value: Value, out: PtxType) -> Value:
    """Bytes live in wider registers, extended by their sign."""
    if out.bits > 8:
        return value
    return e.convert("sext" if out.signed else "zext", value, "i64")


def _int_to_int(e: Emitter, i: Instr, src: Value, out: PtxType, given: PtxType) -> Value:
    value = cast(e, src, given.llvm)
    if i.has("sat"):
        value = _clamp_int(e, value, out, given)
    if out.bits > given.bits:
        return e.convert("sext" if given.signed else "zext", value, out.llvm)
    return e.convert("trunc", value, out.llvm)


def _range(t: PtxType) -> tuple[int, int]:
    return (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.signed else (0, (1 << t.bits) - 1)


def _clamp_int(e: Emitter, value: Value, out: PtxType, given: PtxType) -> Value:
    (low, high), (have_low, have_high) = _range(out), _range(given)
    sign = "s" if given.signed else "u"
    if low > have_low:
        value = e.call(f"llvm.{sign}max", (value, integer(given.llvm, low)))
    if high < have_high:
        value = e.call(f"llvm.{sign}min", (value, integer(given.llvm, high)))
    return value


def _float_to_int(e: Emitter, i: Instr, src: Value, out: PtxType, given: PtxType) -> Value:
    """Saturating. NaN gives 0, or the top bit alone where an f64 or 64 bits take part."""
    (x,) = open_floats(e, (src,), given)
    if i.has("ftz") and given.name == "f32":
        x = flush(e, x, given)
    how = next((m for m in i.mods if m in _TO_INTEGRAL), None)
    if how is None:
        raise unsupported(i, "no rounding to an integer named")
    if how != "rzi":
        x = e.call(_TO_INTEGRAL[how], (x,))
    low, high = _range(out)
    wide = "i64" if out.bits == 64 else "i32"
    raw = e.convert("fptosi" if out.signed else "fptoui", x, wide)
    inside = e.compare("fcmp oge", x, number(x.type, float(low)))
    below = e.compare("fcmp ult", x, number(x.type, float(high + 1)))
    low_value = e.select(inside, raw, integer(wide, low))
    result = e.select(below, low_value, integer(wide, high))
    for_nan = 1 << (out.bits - 1) if given.name == "f64" or out.bits == 64 else 0
    if for_nan != low & ((1 << out.bits) - 1):
        result = e.select(e.compare("fcmp uno", x, x), integer(wide, for_nan), result)
    return e.convert("trunc", result, out.llvm)


def _int_to_float(e: Emitter, i: Instr, src: Value, out: PtxType, given: PtxType) -> Value:
    value = cast(e, src, given.llvm)
    mode, op = _mode(i), "sitofp" if given.signed else "uitofp"
    if out.llvm in ("float", "double") and (mode == "rn" or given.bits < BITS[out.llvm]):
        result = e.convert(op, value, out.llvm)
        if mode != "rn" and out.llvm == "float" and given.bits > 16:
            result = narrow(e, e.convert(op, value, "double"), "float", mode)
        return saturate(e, result) if i.has("sat") else result
    total, rest = _exact_sum(e, value, op, given)
    if out.llvm == "double":
        result = nudge(e, total, rest, mode)
        return saturate(e, result) if i.has("sat") else result
    if out.llvm == "float":
        result = narrow(e, total, "float", mode, rest)
        return saturate(e, result) if i.has("sat") else result
    odd = narrow_to_odd(e, to_odd(e, total, rest))
    return _close(e, i, odd, out)


def _exact_sum(e: Emitter, value: Value, op: str, given: PtxType) -> tuple[Value, Value]:
    """An integer as an unevaluated sum of two doubles."""
    if given.bits < 64:
        whole = e.convert(op, value, "double")
        return whole, e.binary("fsub", whole, whole)
    by32 = integer("i64", 32)
    top = e.convert(op, e.binary("ashr" if given.signed else "lshr", value, by32), "double")
    low = e.convert("uitofp", e.binary("and", value, integer("i64", 0xFFFFFFFF)), "double")
    return two_sum(e, e.binary("fmul", top, number("double", 2.0**32)), low)


def _mode(i: Instr) -> str:
    return next((m for m in i.mods if m in MODES), "rn")


def _float_to_float(e: Emitter, i: Instr, src: Value, out: PtxType, given: PtxType) -> Value:
    (x,) = open_floats(e, (src,), given)
    if i.has("ftz") and given.name == "f32":
        x = flush(e, x, given)
    how = next((m for m in i.mods if m in _TO_INTEGRAL), None)
    if how is not None:
        x = e.call(_TO_INTEGRAL[how], (x,))
    if out.llvm == "double":
        x = e.convert("fpext", x, "double")
    elif x.type == "double":
        x = narrow(e, x, "float", _mode(i)) if out.llvm == "float" else narrow_to_odd(e, x)
    return _close(e, i, x, out)


def _close(e: Emitter, i: Instr, x: Value, out: PtxType) -> Value:
    """Clamp as the instruction says, then round to the target's storage."""
    if i.has("sat"):
        x = saturate(e, x)
    if i.has("relu"):
        x = relu(e, x)
    if i.has("satfinite"):
        x = _limit(e, x, _LARGEST[out.name.removesuffix("x2")])
    if out.name == "tf32":
        return _to_tf32(e, i, x)
    if out.llvm == "float":
        return flush(e, x, out) if i.has("ftz") else x
    return x if out.llvm == "double" else _to_half(e, x, out, _mode(i))


def _limit(e: Emitter, x: Value, largest: float) -> Value:
    for op, bound in (("fcmp olt", -largest), ("fcmp ogt", largest)):
        limit = number(x.type, bound)
        x = e.select(e.compare(op, x, limit), limit, x)
    return x


def _to_half(e: Emitter, x: Value, out: PtxType, mode: str) -> Value:
    """A float as i16 bits of f16 or bf16 in any mode."""
    brain = out.name.startswith("bf")
    nearest = close_half(e, x, brain)
    if mode == "rn":
        return nearest
    return nudge(e, nearest, e.binary("fsub", x, open_half(e, nearest, brain)), mode)


def _to_tf32(e: Emitter, i: Instr, x: Value) -> Value:
    """The upper 19 bits of a float; ``.rna`` rounds ties away from zero."""
    word = e.bitcast(x, "i32")
    kept = word
    if i.has("rna"):
        kept = e.binary("add", word, integer("i32", 0x1000))
    elif not i.has("rz"):
        odd = e.binary("and", e.binary("lshr", word, integer("i32", 13)), integer("i32", 1))
        kept = e.binary("add", e.binary("add", word, integer("i32", 0xFFF)), odd)
    kept = e.binary("and", kept, integer("i32", ~0x1FFF))
    return e.select(e.compare("fcmp uno", x, x), integer("i32", 0x7FFFFFFF), kept)


def _packed(e: Emitter, i: Instr, src: Sequence[Value], out: PtxType, given: PtxType) -> Value:
    if out.name in fp8.FORMATS:
        if given.name == "f32" and len(src) == 2:
            high, low = e.alike([fp8.close(e, _relu(e, i, v), out.name) for v in _f32s(e, src)])
            return _join(e, high, low, "i16")
        if given.name in ("f16x2", "bf16x2"):
            (x,) = open_floats(e, src, given)
            return repack(e, fp8.close(e, _relu(e, i, x), out.name), out)
    elif out.name in ("f16x2", "bf16x2"):
        if given.name == "f32" and len(src) == 2:
            high, low = e.alike([_close(e, i, v, out) for v in _f32s(e, src)])
            return _join(e, high, low, "i32")
        if given.name in fp8.FORMATS and out.name == "f16x2":
            return repack(e, _close(e, i, fp8.open_pair(e, src[0], given), out), out)
    raise unsupported(i)


def _f32s(e: Emitter, src: Sequence[Value]) -> list[Value]:
    return [cast(e, v, "float") for v in src]


def _relu(e: Emitter, i: Instr, x: Value) -> Value:
    return relu(e, x) if i.has("relu") else x


def _join(e: Emitter, high: Value, low: Value, type: str) -> Value:
    """The first source is the upper half."""
    up = e.binary("shl", e.convert("zext", high, type), integer(type, BITS[high.type]))
    return e.binary("or", up, e.convert("zext", low, type))


_INTS = "u8 u16 u32 u64 s8 s16 s32 s64 b8 b16 b32 b64"
_FLOATS = "f16 bf16 f32 f64 f16x2 bf16x2 e4m3x2 e5m2x2"

ROWS = (
    ("cvt", _INTS, "rn rz rm rp sat", convert),
    ("cvt", _FLOATS, "rn rz rm rp rna rni rzi rmi rpi ftz sat relu satfinite", convert),
)
