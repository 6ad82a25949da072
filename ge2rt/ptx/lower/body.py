"""One instruction after the other: which table or function writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ge2rt.base.errors import Ge2rtError, UnsupportedError
from ge2rt.ptx.ast import Instr, Operand, Reg, Symbol
from ge2rt.ptx.emit import Value
from ge2rt.ptx.lanes import UNIFORM, Lanes, counts_from_top
from ge2rt.ptx.lower import fragments, functions, heap, leaving, messages, stack, tiles
from ge2rt.ptx.lower.atomic import lower_atomic
from ge2rt.ptx.lower.geometry import PTX_WARP
from ge2rt.ptx.lower.groups import groups
from ge2rt.ptx.lower.kinds import result_lanes
from ge2rt.ptx.lower.mbarriers import lower_mbarrier
from ge2rt.ptx.lower.memory import MEMORY_TYPES, forget, lower_load, lower_store, space_of
from ge2rt.ptx.lower.shape import CARRY, shape_of
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.rules import PURE, WARP, writes_carry
from ge2rt.ptx.rules.operands import cast

Handler = Callable[[Scope, Instr], "list[Value]"]


def lower_node(scope: Scope, instrs: Sequence[Instr]) -> None:
    """Write the instructions of a node."""
    if scope.code.watch is None:  # checks want each access by itself
        scope.groups = groups(instrs, scope.code.kinds.lanes, MEMORY_TYPES)
    for at, instr in enumerate(instrs):
        scope.at = at
        lower_instr(scope, instr)


def lower_instr(scope: Scope, instr: Instr) -> None:
    """Write one instruction that does not transfer control. Errors name the PTX line."""
    try:
        handler = _HANDLERS.get(instr.op)
        if handler is not None:
            _assign(scope, instr, handler(scope, instr), None)
        elif instr.op in WARP:
            _assign(scope, instr, _warp(scope, instr), None)
        elif instr.op in PURE:
            _pure(scope, instr)
        else:
            raise UnsupportedError(f"PTX instruction {instr.form} is not there on the cpu device")
    except Ge2rtError as error:
        raise error.about(where=f"ptx:{instr.line}") from None


def _assign(scope: Scope, instr: Instr, results: list[Value], lanes: Lanes | None) -> None:
    targets: tuple[Operand | None, ...] = shape_of(instr).results
    if writes_carry(instr):
        targets = (*targets, Reg(CARRY))
    for target, value in zip(targets, results, strict=False):
        if isinstance(target, Reg):
            scope.write(instr, target.name, value, lanes)


def _pure(scope: Scope, instr: Instr) -> None:
    shape = shape_of(instr)
    operands, of_register = shape.sources, scope.code.kinds.lanes.get
    given = [
        scope.lanes(o) if name is None else of_register(name, UNIFORM)
        for o, name in zip(operands, shape.registers, strict=True)
    ]
    lanes = result_lanes(instr, shape, given, scope.code.width, scope.code.kinds.trusted)
    known = [v for v in given if v is not None]
    if lanes is None or len(known) < len(given):
        values = [scope.spread(o, v) for o, v in zip(operands, given, strict=True)]
    else:
        values = [scope.scalar(o) for o in operands]
        if counts_from_top(instr, known):
            _assign(scope, instr, [_from_top(scope, instr, values, known)], lanes)
            return
    _assign(scope, instr, PURE[instr.op](scope.e, instr, values), lanes)


def _from_top(scope: Scope, instr: Instr, values: list[Value], given: list[Lanes]) -> Value:
    """Zero extension counted from the lane with the greatest offset (see ``lanes.transfer``)."""
    e = scope.e
    moved, back = list(values), 0
    factor = 1
    for at, lanes in enumerate(given[:2]):
        if lanes.offsets:
            back = max(lanes.offsets)
            moved[at] = e.binary("add", values[at], e.const(values[at].type, back))
        elif at == 1:
            factor = lanes.residue
    if instr.op != "cvt" and given[1].offsets:
        factor = given[0].residue
    result = PURE[instr.op](e, instr, moved)[0]
    return e.binary("sub", result, e.const(result.type, back * factor))


def _warp(scope: Scope, instr: Instr) -> list[Value]:
    e, width = scope.e, scope.code.width
    values = [e.splat(scope.vector(o)) for o in shape_of(instr).sources]
    if scope.code.watch is not None:
        scope.code.watch.warp(scope, instr, values)
    mask = scope.active(instr)
    if mask is None:
        mask = e.const("i1", "true", width)
    return WARP[instr.op](e, instr, values, mask)


def _nothing(scope: Scope, instr: Instr) -> list[Value]:
    return []


def _load(scope: Scope, instr: Instr) -> list[Value]:
    return lower_load(scope, instr)


def _store(scope: Scope, instr: Instr) -> list[Value]:
    lower_store(scope, instr)
    return []


def _cp(scope: Scope, instr: Instr) -> list[Value]:
    tiles.copy_async(scope, instr)
    return []


def _stmatrix(scope: Scope, instr: Instr) -> list[Value]:
    tiles.store_matrix(scope, instr)
    return []


def _mapa(scope: Scope, instr: Instr) -> list[Value]:
    """A block is a cluster of its own: its shared memory is where it was."""
    return [scope.vector(instr.operands[1])]


def _policy(scope: Scope, instr: Instr) -> list[Value]:
    """A cache policy, which nobody looks at."""
    return [Value("i64", "0")]


def _cluster_rank(scope: Scope, instr: Instr) -> list[Value]:
    return [Value("i32", "0")]


def _wmma(scope: Scope, instr: Instr) -> list[Value]:
    moved = fragments.wmma(scope, instr)
    return _warp(scope, instr) if moved is None else moved


def _warp_barrier(scope: Scope, instr: Instr) -> list[Value]:
    """``bar.warp.sync``: the lanes of a native warp walk together anyway."""
    geometry = scope.code.geometry
    if instr.has("cluster"):
        return []
    if geometry.width < PTX_WARP and geometry.threads > geometry.width:
        raise UnsupportedError(f"{instr.form} needs warps of 32 lanes, not {geometry.width}")
    if scope.code.watch is not None:
        scope.code.watch.warp(scope, instr, [scope.vector(instr.operands[0])])
    return []


def _fence(scope: Scope, instr: Instr) -> list[Value]:
    if scope.code.watch is not None:
        scope.code.watch.fence(scope)
    if not instr.has("cta"):
        scope.e.line("fence seq_cst")
    else:
        forget(scope)
    return []


def _cvta(scope: Scope, instr: Instr) -> list[Value]:
    """Only shared addresses differ from generic ones: offset against arena + offset."""
    source = instr.operands[1]
    lanes = scope.lanes(source)
    value = scope.scalar(source)
    e = scope.e
    if not instr.has("shared") and not instr.has("shared::cta"):
        result = value
    else:
        value = e.convert("sext", value, "i64") if value.type == "i32" else value
        op = "sub" if instr.has("to") else "add"
        result = e.binary(op, value, Value("i64", "%arena.int"))
    target = instr.operands[0]
    if isinstance(target, Reg):
        scope.write(instr, target.name, result, lanes)
    return []


def _mov(scope: Scope, instr: Instr) -> list[Value]:
    """A symbol's address is this room's matter; all else is a rule."""
    source = instr.operands[1]
    target = instr.operands[0]
    if isinstance(source, Symbol) and isinstance(target, Reg):
        value = cast(scope.e, scope.symbol(source), scope.code.type_of(target.name))
        scope.write(instr, target.name, value, scope.lanes(source))
        return []
    _pure(scope, instr)
    return []


def _isspacep(scope: Scope, instr: Instr) -> list[Value]:
    e = scope.e
    value = cast(e, scope.vector(instr.operands[1]), "i64")
    below = _span(scope, value, Value("i64", "%arena.int"), Value("i64", "%frames.int"))
    local = _span(scope, value, Value("i64", "%frames.int"), Value("i64", "%arena.end"))
    first, last = scope.code.places.constants
    start = Value("i64", "%globals.int")
    low, high = (e.binary("add", start, Value("i64", str(at))) for at in (first, last))
    constant = _span(scope, value, low, high)
    space = space_of(instr) or next((m.split("::")[0] for m in instr.mods), "")
    if space == "shared":
        return [below]
    if space == "local":
        return [local]
    if space == "const":
        return [constant]
    if space != "global":
        return [e.const("i1", "false", value.lanes)]
    either = e.binary("or", e.binary("or", below, local), constant)
    return [e.binary("xor", either, e.const("i1", "true", value.lanes))]


def _span(scope: Scope, value: Value, low: Value, high: Value) -> Value:
    e = scope.e
    offset = e.binary("sub", value, low)
    size = e.binary("sub", high, low)
    return e.compare("icmp ult", offset, size)


_WITHOUT_BODY: dict[str, Handler] = {
    "__assertfail": messages.fail_assert, "__assert_fail": messages.fail_assert,
    "vprintf": messages.print_text, "malloc": heap.allocate, "free": heap.release,
}  # fmt: skip


def _call(scope: Scope, instr: Instr) -> list[Value]:
    """Functions without a body that CUDA knows, and those that stay; others were copied in."""
    target = instr.operands[1]
    name = target.name if isinstance(target, Symbol) else ""
    known = _WITHOUT_BODY.get(name)
    if known is not None:
        return known(scope, instr)
    if not name or any(callee.name == name for callee in scope.code.callees):
        functions.call_function(scope, instr)
        return []
    raise UnsupportedError(f"call of {name} is not there on cpu")


def _nanosleep(scope: Scope, instr: Instr) -> list[Value]:
    if "sse2" in scope.e.features:
        scope.e.line('call void asm sideeffect "pause", "~{memory}"()')
    else:
        forget(scope)
    return []


_HANDLERS: dict[str, Handler] = {
    "mov": _mov, "ld": _load, "ldu": _load, "st": _store, "atom": lower_atomic,
    "red": lower_atomic, "cp": _cp, "ldmatrix": tiles.load_matrix, "stmatrix": _stmatrix,
    "wmma": _wmma, "mbarrier": lower_mbarrier, "mapa": _mapa, "getctarank": _cluster_rank,
    "createpolicy": _policy,
    "membar": _fence, "fence": _fence, "cvta": _cvta, "isspacep": _isspacep,
    "trap": messages.fail_trap, "call": _call, "quit": leaving.quit_function,
    "gone": leaving.gone, "overflow": stack.overflow, "nanosleep": _nanosleep,
    "bar": _warp_barrier, "barrier": _warp_barrier,
    **dict.fromkeys(
        ("prefetch", "prefetchu", "discard", "applypriority", "griddepcontrol", "pmevent", "brkpt"),
        _nothing,
    ),
}  # fmt: skip
