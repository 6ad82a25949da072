"""``cp.async``, ``ldmatrix`` and ``stmatrix``: tiles between memories and registers."""

from __future__ import annotations

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Address, Imm, Instr
from ge2rt.ptx.emit import Value
from ge2rt.ptx.lower.address import Where, full_lanes, moved, where
from ge2rt.ptx.lower.checks import COPY, READ, WRITE
from ge2rt.ptx.lower.loads import load
from ge2rt.ptx.lower.mbarriers import arrive
from ge2rt.ptx.lower.shape import flatten
from ge2rt.ptx.lower.stores import store
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.rules.operands import cast

_ONE_ARRIVAL = {"count": Imm(1), "bytes": Imm(0), "drop": Imm(0)}
_ROW = 16  # bytes of a row of an 8x8 matrix of 16-bit elements


def copy_async(scope: Scope, instr: Instr) -> None:
    """``cp.async``: copied at once, so that groups and waits have nothing left to do."""
    _groups(scope, instr)
    if instr.has("mbarrier"):
        if instr.has("noinc"):  # else the arrival that is counted is also expected: nothing changes
            arrive(scope, instr, instr.operands[0], _ONE_ARRIVAL)
        return
    if "bulk" in instr.mods or "reduce" in instr.mods:
        raise UnsupportedError(f"{instr.form} is not there on cpu", where=f"ptx:{instr.line}")
    if instr.has("commit_group") or instr.has("wait_group") or instr.has("wait_all"):
        return
    target, source, size = instr.operands[:3]
    if not (isinstance(target, Address) and isinstance(source, Address) and isinstance(size, Imm)):
        raise UnsupportedError(f"{instr.form} with these operands", where=f"ptx:{instr.line}")
    active, e = scope.active(instr), scope.e
    words = size.value // 4
    to = where(scope, target, "shared")
    given = where(scope, source, "global")
    _watch(scope, instr, to, "i32", words, how=COPY)
    if len(instr.operands) < 4 or (
        isinstance(instr.operands[3], Imm) and instr.operands[3].value == size.value
    ):
        _watch(scope, instr, given, "i32", words, how=READ, space="global")
        store(scope, to, load(scope, given, "i32", words, active), active)
        return
    limit = scope.vector(instr.operands[3])
    values: list[Value] = []
    for word in range(words):
        if limit.type == "i1":  # ignore-src
            wanted = e.binary("xor", e.splat(limit), e.const("i1", "true", scope.code.width))
            rest = None
        else:
            rest = e.binary("sub", cast(e, e.splat(limit), "i32"), e.const("i32", 4 * word))
            wanted = e.compare("icmp sgt", rest, e.const("i32", 0))
        mask = wanted if active is None else e.binary("and", wanted, active)
        here = Where(_ahead(scope, given.pointer, 4 * word), given.lanes)
        if (watch := scope.code.watch) is not None:
            watch.access(scope, instr, here, "i32", 1, how=READ, space="global", active=mask)
        got = e.splat(load(scope, here, "i32", 1, mask)[0])
        got = e.select(mask, got, e.const("i32", 0))
        values.append(got if rest is None else _cut(scope, got, rest))
    store(scope, to, values, active)


def _groups(scope: Scope, instr: Instr) -> None:
    """Tell the checks what is waited for; an mbarrier's waits count as made at the arrival."""
    watch = scope.code.watch
    if watch is None:
        return
    if instr.has("commit_group") or instr.has("wait_all") or instr.has("mbarrier"):
        watch.copies(scope, instr, None)
    if instr.has("wait_all") or instr.has("mbarrier"):
        watch.copies(scope, instr, 0)
    elif instr.has("wait_group"):
        pending = instr.operands[0]
        watch.copies(scope, instr, pending.value if isinstance(pending, Imm) else 0)


def _watch(
    scope: Scope, instr: Instr, place: Where, type: str, count: int, *, how: int,
    space: str = "shared",
) -> None:  # fmt: skip
    if (watch := scope.code.watch) is not None:
        active = scope.active(instr)
        watch.access(scope, instr, place, type, count, how=how, space=space, active=active)


def _cut(scope: Scope, word: Value, rest: Value) -> Value:
    """Zero the bytes of a word from ``rest`` on."""
    e = scope.e
    bits = e.binary("mul", rest, e.const("i32", 8))
    inside = e.compare("icmp ult", rest, e.const("i32", 4))
    count = e.select(inside, bits, e.const("i32", 0))
    mask = e.binary("sub", e.binary("shl", e.const("i32", 1), count), e.const("i32", 1))
    return e.binary("and", word, e.select(inside, mask, e.const("i32", -1)))


def _ahead(scope: Scope, pointer: Value, offset: int) -> Value:
    if not offset:
        return pointer
    step = scope.e.const("i64", offset, pointer.lanes)
    return scope.e.raw(f"getelementptr i8, {pointer}, {step}", "ptr", pointer.lanes)


def _matrices(scope: Scope, instr: Instr) -> int:
    if scope.code.width != 32:
        raise UnsupportedError(
            f"{instr.form} needs 32 lanes", where=f"ptx:{instr.line}",
            next_step="unset GE2RT_LANES",
        )  # fmt: skip
    if not instr.has("m8n8") or "b16" not in instr.types:
        raise UnsupportedError(f"{instr.form} is not there on cpu", where=f"ptx:{instr.line}")
    return next((int(m[1:]) for m in instr.mods if m in ("x1", "x2", "x4")), 1)


def load_matrix(scope: Scope, instr: Instr) -> list[Value]:
    """``ldmatrix.m8n8.x1|x2|x4{.trans}.b16``: lane l gets row l/4, columns 2(l%4) and 2(l%4)+1."""
    count = _matrices(scope, instr)
    address = instr.operands[1]
    assert isinstance(address, Address)
    rows = where(scope, address, "shared")
    active, e = scope.active(instr), scope.e
    if scope.code.watch is not None:
        scope.code.watch.warp(scope, instr, ())
    results = []
    for matrix in range(count):
        if not instr.has("trans"):
            place = _rows(scope, rows, [(8 * matrix + k // 4, 4 * (k % 4)) for k in range(32)])
            _watch(scope, instr, place, "i32", 1, how=READ)
            results.append(e.splat(load(scope, place, "i32", 1, active)[0]))
            continue
        halves = []
        for half in range(2):
            place = _rows(
                scope, rows, [(8 * matrix + 2 * (k % 4) + half, 2 * (k // 4)) for k in range(32)]
            )
            _watch(scope, instr, place, "i16", 1, how=READ)
            got = e.splat(load(scope, place, "i16", 1, active)[0])
            halves.append(e.convert("zext", got, "i32"))
        high = e.binary("shl", halves[1], e.const("i32", 16))
        results.append(e.binary("or", halves[0], high))
    return results


def store_matrix(scope: Scope, instr: Instr) -> None:
    """``stmatrix``: the inverse of :func:`load_matrix`."""
    count = _matrices(scope, instr)
    address = instr.operands[0]
    assert isinstance(address, Address)
    rows = where(scope, address, "shared")
    active, e = scope.active(instr), scope.e
    if scope.code.watch is not None:
        scope.code.watch.warp(scope, instr, ())
    for matrix, operand in enumerate(o for o in flatten(instr.operands[1]) if o is not None):
        assert matrix < count
        value = e.splat(cast(e, scope.vector(operand), "i32"))
        if not instr.has("trans"):
            place = _rows(scope, rows, [(8 * matrix + k // 4, 4 * (k % 4)) for k in range(32)])
            _watch(scope, instr, place, "i32", 1, how=WRITE)
            store(scope, place, [value], active)
            continue
        for half in range(2):
            place = _rows(
                scope, rows, [(8 * matrix + 2 * (k % 4) + half, 2 * (k // 4)) for k in range(32)]
            )
            part = e.binary("lshr", value, e.const("i32", 16 * half))
            _watch(scope, instr, place, "i16", 1, how=WRITE)
            store(scope, place, [e.convert("trunc", part, "i16")], active)


def _rows(scope: Scope, rows: Where, picks: list[tuple[int, int]]) -> Where:
    """For each lane: the row address that lane ``pick[0]`` holds, plus ``pick[1]`` bytes."""
    e = scope.e
    if rows.lanes is not None:
        first = rows.lanes.lane(picks[0][0]) + picks[0][1]
        offsets = [rows.lanes.lane(lane) + extra - first for lane, extra in picks]
        return moved(Where(_ahead(scope, rows.pointer, first), None), offsets)
    numbers = full_lanes(scope, rows)
    listed = ", ".join(f"i32 {lane}" for lane, _ in picks)
    taken = e.raw(
        f"shufflevector {numbers}, {numbers.full_type} poison, <32 x i32> <{listed}>", "i64", 32
    )
    taken = e.binary("add", taken, e.per_lane("i64", [extra for _, extra in picks]))
    return Where(e.raw(f"inttoptr {taken} to <32 x ptr>", "ptr", 32), None)
