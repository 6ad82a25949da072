"""Device functions that stay functions: those that call themselves, and targets of pointers.

All others are copied into their callers. A function that stays is native code for one warp under a
mask (:mod:`ge2rt.ptx.lower.strands`); its results and arguments lie in a block of memory a lane,
one after the other, which the caller owns. Its address is a number, the same in all kernels of the
module, so that tables of functions can lie in variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Address, Function, Instr, Module, Operand, Reg, Symbol
from ge2rt.ptx.emit import Value
from ge2rt.ptx.lanes import Lanes
from ge2rt.ptx.lower.address import Where, where
from ge2rt.ptx.lower.loads import load
from ge2rt.ptx.lower.places import function_number, round_up
from ge2rt.ptx.lower.shape import flatten
from ge2rt.ptx.lower.stores import store
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.native import ABORT_TRAP


@dataclass(frozen=True)
class Callee:
    """A function that stays one, as callers see it."""

    name: str
    symbol: str
    number: int
    sizes: tuple[int, ...]  # bytes of the results, then of the arguments


def staying(module: Module, entry: Function) -> tuple[str, ...]:
    """Names of the functions that ``entry`` reaches and that cannot be copied in."""
    taken = tuple(sorted(addressed(module)))
    reached: dict[str, set[str]] = {}
    todo, pointers = [entry.name], False
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        calls = list(_calls(module.functions[name]))
        targets = {c for c in calls if c is not None and c in module.functions}
        reached[name] = targets
        todo += targets
        if None in calls and not pointers:
            pointers = True
            todo += taken
    rounds = {name for name in reached if _meets(reached, name)}
    return tuple(n for n in module.functions if n in rounds or (pointers and n in taken))


def _meets(calls: dict[str, set[str]], start: str) -> bool:
    """Whether a function calls itself, also through others."""
    seen: set[str] = set()
    todo = list(calls[start])
    while todo:
        name = todo.pop()
        if name == start:
            return True
        if name not in seen:
            seen.add(name)
            todo += calls.get(name, ())
    return False


def _calls(function: Function) -> Iterator[str | None]:
    """Targets of calls; None for a pointer."""
    for block in function.blocks:
        for instr in block.instrs:
            if instr.op == "call":
                target = instr.operands[1]
                yield target.name if isinstance(target, Symbol) else None


def addressed(module: Module) -> set[str]:
    """Functions whose address is taken."""
    found = {
        item.name
        for function in module.functions.values()
        for block in function.blocks
        for instr in block.instrs
        if instr.op != "call"
        for operand in instr.operands
        if type(operand) is not Reg and type(operand) is not Address
        for item in flatten(operand)
        if isinstance(item, Symbol) and item.name in module.functions
    }
    for variable in module.variables:
        found |= {name for _, name, _ in variable.relocations if name in module.functions}
    return found


def callees(module: Module, names: Iterable[str]) -> tuple[Callee, ...]:
    """What callers need to know of the functions that stay."""
    found = []
    for name in names:
        function, number = module.functions[name], function_number(module, name)
        sizes = tuple(p.nbytes for p in (*function.returns, *function.params))
        found.append(Callee(name, f"ge2rt_fn.{number}", number, sizes))
    return tuple(found)


def block_layout(sizes: Iterable[int]) -> tuple[tuple[int, ...], int]:
    """Offsets of results and arguments of the given bytes in a lane's block, and its bytes."""
    offsets, at = [], 0
    for size in sizes:
        at = round_up(at, min(16, 1 << max(size - 1, 0).bit_length()))
        offsets.append(at)
        at += size
    return tuple(offsets), max(round_up(at, 16), 16)


def call_function(scope: Scope, instr: Instr) -> None:
    """Call the function, or those that the lanes' pointers name."""
    target = instr.operands[1]
    results, arguments = flatten(instr.operands[0]), flatten(instr.operands[2])
    variables = [_variable(o, instr) for o in (*results, *arguments) if o is not None]
    sizes = tuple(scope.code.places.sizes[v.name] for v in variables)
    offsets, nbytes = block_layout(sizes)
    e, code = scope.e, scope.code
    area = code.alloca(f"call.{nbytes}", f"[{code.width * nbytes} x i8]")
    active = scope.active(instr)
    pairs = list(zip(variables, offsets, sizes, strict=True))
    count = len([r for r in results if r is not None])
    for variable, offset, size in pairs[count:]:
        _copy(scope, (Address(variable), None), (area, offset, nbytes), size, active)
    mask = active if active is not None else e.const("i1", "true", code.width)
    bits = e.raw(f"bitcast {mask} to i{code.width}", f"i{code.width}")
    e.line(f"store i{code.width} 0, ptr {code.alloca('mask.gone', f'i{code.width}')}")
    if isinstance(target, Symbol):
        _enter(scope, next(c for c in code.callees if c.name == target.name), area, bits)
    else:
        _dispatch(scope, scope.vector(target), [c for c in code.callees if c.sizes == sizes],
                  area, bits)  # fmt: skip
    for variable, offset, size in pairs[:count]:
        _copy(scope, (Address(variable), area), (area, offset, nbytes), size, active)


def _variable(operand: Operand, instr: Instr) -> Symbol:
    if not isinstance(operand, Symbol):
        raise UnsupportedError("a call with registers as arguments", where=f"ptx:{instr.line}")
    return operand


def _copy(
    scope: Scope, variable: tuple[Address, str | None], block: tuple[str, int, int], size: int,
    active: Value | None,
) -> None:  # fmt: skip
    """Between a variable and the block: into the block, or out of it where ``variable`` says so."""
    e, width = scope.e, scope.code.width
    (address, back), (area, offset, nbytes) = variable, block
    assert isinstance(address.base, Symbol)
    lanes = Lanes(tuple(k * nbytes for k in range(width)) if width > 1 else ())
    at = 0
    while at < size:
        step = min(8, size - at)
        step = 1 << step.bit_length() - 1
        spot = e.raw(f"getelementptr i8, ptr {area}, i64 {offset + at}", "ptr")
        inside = Where(spot, lanes)
        outside = where(scope, Address(Symbol(address.base.name, at)), "local")
        source, target = (inside, outside) if back else (outside, inside)
        (value,) = load(scope, source, f"i{8 * step}", 1, active)
        store(scope, target, [e.splat(value) if width > 1 else value], active)
        at += step


def _enter(scope: Scope, callee: Callee, area: str, bits: Value) -> None:
    """Call one function; the lanes that ended in it are kept for ``gone``."""
    e, here, type = scope.e, scope.here, bits.type
    places = ", ".join(map(str, (*here.ctaid, here.warp)))
    ended = e.raw(
        f"call {type} @{callee.symbol}(ptr %launch, ptr %arena, ptr %strand, ptr {area}, {places}, "
        f"{bits})", type,
    )  # fmt: skip
    slot = scope.code.alloca("mask.gone", type)
    before = e.raw(f"load {type}, ptr {slot}", type)
    e.line(f"store {e.binary('or', before, ended)}, ptr {slot}")


def _dispatch(
    scope: Scope, target: Value, candidates: list[Callee], area: str, bits: Value
) -> None:
    """One function after the other, with the lanes that name it."""
    e, none = scope.e, Value(bits.type, "0")
    left = bits
    for callee in candidates:
        same = e.splat(e.compare("icmp eq", target, Value(target.type, str(callee.number))))
        chosen = e.binary("and", e.raw(f"bitcast {same} to {bits.type}", bits.type), bits)
        enter, passed = e.name("enter"), e.name("passed")
        some = e.compare("icmp ne", chosen, none)
        e.line(f"br {some}, label %{enter}, label %{passed}")
        e.label(enter)
        _enter(scope, callee, area, chosen)
        e.line(f"br label %{passed}")
        e.label(passed)
        left = e.binary("xor", left, chosen)
    wrong, right = e.name("wrong"), e.name("right")
    lost = e.compare("icmp ne", left, none)
    e.line(f"br {lost}, label %{wrong}, label %{right}")
    e.label(wrong)
    e.line(f"cmpxchg ptr %abort, i32 0, i32 {ABORT_TRAP} seq_cst seq_cst, align 4")
    e.line(f"br label %{right}")
    e.label(right)
