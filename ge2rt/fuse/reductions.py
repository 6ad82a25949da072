"""Text of kernels with reductions: accumulators, passes over a row, what is kept between them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ge2rt.base.dtypes import DTYPES
from ge2rt.fuse import expression
from ge2rt.fuse.body import FREE, Output, Writer, wanted_by
from ge2rt.fuse.values import EXPENSIVE, FULL, ROW, Value
from ge2rt.ir.ops import OPS

_WORD = re.compile(r"[A-Za-z_]\w*")
_ARGS = frozenset({"argmax", "argmin"})
_LOW = ("max", "argmax")


@dataclass(frozen=True)
class Accumulator:
    """One reduction: its fields, their start values, and how two of them combine.

    ``combine`` are statements that set ``r`` from ``a`` and ``b``, structs with these fields.
    """

    value: Value
    fields: tuple[tuple[str, str, str], ...]  # name, C type, start
    combine: str
    result: str  # an expression of the struct `totalN`

    @property
    def plain(self) -> Mapping[str, Any]:
        """For a template."""
        return {"fields": self.fields, "combine": self.combine}


def accumulator(value: Value, number: int, group: int = 0) -> Accumulator:
    """The accumulator of a reduction: one of several of pass ``group``."""
    assert value.node is not None
    total = f"total{group}"
    op, name = value.node.op, f"a{number}"
    dtype = value.args[0].dtype
    ctype = expression.calc_type(dtype)
    field = (name, ctype, start_of(op, dtype))
    text = _renamed(OPS[op].expression(DTYPES[dtype].kind), f"a.{name}", f"b.{name}", ctype)
    if op not in _ARGS:
        result = f"{total}.{name}"
        if op == "sum" and DTYPES[dtype].is_float:
            result = f"reduced > 0 ? {result} : {ctype}(0)"  # the start, -0, is never seen
        combine = f"r.{name} = {text};"
        return Accumulator(value, (field,), combine, expression.rounded(result, dtype))
    place = f"n{number}"
    combine = (
        f"{{ const bool same = (a.{name} == b.{name}) | ((a.{name} != a.{name}) & "
        f"(b.{name} != b.{name})); const bool later = same ? b.{place} < a.{place} : {text}; "
        f"r.{name} = later ? b.{name} : a.{name}; r.{place} = later ? b.{place} : a.{place}; }}"
    )
    fields = (field, (place, "index_t", "INDEX_MAX"))
    return Accumulator(value, fields, combine, f"static_cast<long long>({total}.{place})")


def start_of(op: str, dtype: str) -> str:
    """The value that changes nothing; for sums -0.0, since -0.0 + x is x for every x."""
    if DTYPES[dtype].is_float:
        infinite = float("-inf") if op in _LOW else float("inf")
        number: float = {"sum": -0.0, "prod": 1.0}.get(op, infinite)
        return expression.constant_literal(number, dtype)
    if dtype == "bool":
        return "true" if op in ("min", "all", "argmin") else "false"
    if op in ("sum", "prod"):
        return str(int(op == "prod"))
    bits, signed = DTYPES[dtype].itemsize * 8, DTYPES[dtype].kind == "int"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return expression.constant_literal(low if op in _LOW else high, dtype)


def _renamed(text: str, a: str, b: str, ctype: str) -> str:
    words = {"a": a, "b": b, "T": ctype, "R": ctype}
    return _WORD.sub(lambda m: words.get(m.group(), m.group()), text)


def item_lines(writer: Writer, accumulators: Sequence[Accumulator]) -> list[str]:
    """Statements that set the fields of ``one`` from the values at a point."""
    lines = []
    for each in accumulators:
        name = writer.name(each.value.args[0])
        lines.append(f"one.{each.fields[0][0]} = {name};")
        lines += [f"one.{field[0]} = at;" for field in each.fields[1:]]
    return lines


def result_lines(writer: Writer, accumulators: Sequence[Accumulator]) -> list[str]:
    """Statements that name the results of combined accumulators."""
    return [
        f"const {expression.calc_type(a.value.dtype)} {writer.fresh(a.value)} = {a.result};"
        for a in accumulators
    ]


# -- one pass: the reduce template


def is_simple(writer: Writer) -> bool:
    """Whether one pass over the points of each row does it, and only row values are stored."""
    reductions = reductions_of(writer)
    return all(r.depth == 1 for r in reductions) and all(o.on_row for o in writer.outputs)


def reductions_of(writer: Writer) -> list[Value]:
    """The reductions that the outputs need."""
    wanted = _everything([output.value for output in writer.outputs])
    return [v for v in writer.region.values if v.kind == "reduce" and id(v) in wanted]


def _everything(roots: Sequence[Value]) -> set[int]:
    found: set[int] = set()
    stack = list(roots)
    while stack:
        value = stack.pop()
        if id(value) not in found:
            found.add(id(value))
            stack += value.args
            stack += [branch.value for branch in value.branches]
    return found


def reduce_texts(writer: Writer) -> dict[str, Any]:
    """What the reduce template prints: the item at a point, and what follows for a row."""
    region = writer.region
    assert region.row is not None
    accumulators = [accumulator(v, i) for i, v in enumerate(reductions_of(writer))]
    wanted = _everything([a.value.args[0] for a in accumulators])
    item = writer.emit(region.row, wanted) + writer.emit(region.full, wanted)
    item += item_lines(writer, accumulators)
    item_inputs = _named_inputs(writer, wanted)
    finish = result_lines(writer, accumulators)
    after = wanted_by([output.value for output in writer.outputs])
    finish += writer.emit(region.row, after)
    finish += [store_line(writer, output) for output in writer.outputs]
    return {
        "accumulators": tuple(a.plain for a in accumulators),
        "item": "\n".join(item),
        "item_inputs": item_inputs,
        "finish": "\n".join(finish),
        "row_inputs": row_inputs(writer),
    }


def store_line(writer: Writer, output: Output) -> str:
    """Sets an output's element."""
    value, dtype = writer.name(output.value), output.node.dtype
    half = dtype in expression.HALVES
    text = f"static_cast<{DTYPES[dtype].ctype}>({value})" if half else value
    return f"{output.name}_value = {text};"


def row_inputs(writer: Writer) -> tuple[str, ...]:
    """Names of the inputs that are read once a row."""
    inputs = writer.operands.inputs.values()
    return tuple(i.name for i in inputs if i.on_row and i.kind != FREE)


def _named_inputs(writer: Writer, wanted: set[int]) -> tuple[str, ...]:
    """Names of the inputs that wanted values read at every point."""
    names: dict[str, None] = {}
    for value in writer.region.values:
        if value.kind == "load" and id(value) in wanted and value.place.kind == FULL:
            names[writer.input_of(value).name] = None
    return tuple(names)


# -- several passes: the rows template


@dataclass(frozen=True)
class Kept:
    """A value of one pass that later passes need: held in registers, or left in an output."""

    value: Value
    first: int
    stash: str


def rows_texts(writer: Writer) -> dict[str, Any]:
    """What the rows template prints: a record for each pass."""
    region = writer.region
    reductions = reductions_of(writer)
    last = max((r.depth for r in reductions), default=0)
    full = [output for output in writer.outputs if not output.on_row]
    final = [o for o in full if _pass_of(o.value, last) == last]
    count = last + bool(final)
    kept = _kept_values(writer, reductions, full, last)
    passes = []
    done: list[Accumulator] = []
    assert region.row is not None
    seen: set[int] = set()
    for number in range(count):
        here = [r for r in reductions if r.depth == number + 1]
        outputs = [o for o in full if _pass_of(o.value, last) == number]
        roots = [r.args[0] for r in here] + [o.value for o in outputs]
        before, seen = _row_lines(writer, done, _rows_read(roots, region.values), seen)
        done = [accumulator(r, i, number) for i, r in enumerate(here)]
        passes.append({"before": before, **_pass(writer, number, roots, done, outputs, kept)})
    rows = [output for output in writer.outputs if output.on_row]
    after, _ = _row_lines(writer, done, wanted_by([o.value for o in rows]), seen)
    finish = [store_line(writer, output) for output in rows]
    return {
        "passes": tuple(passes),
        "after": after,
        "finish": "\n".join(finish),
        "row_outputs": tuple(output.name for output in rows),
        "row_inputs": row_inputs(writer),
    }


def _pass_of(value: Value, last: int) -> int:
    return min(value.depth, last)


def _rows_read(roots: Sequence[Value], values: Sequence[Value]) -> set[int]:
    """The row values that values of a pass read, and what those need."""
    wanted = wanted_by(roots)
    by_id = {id(v): v for v in values}
    return wanted_by([v for i in wanted if (v := by_id.get(i)) is not None and v.place.kind == ROW])


def _row_lines(
    writer: Writer, done: Sequence[Accumulator], wanted: set[int], seen: set[int]
) -> tuple[str, set[int]]:
    """Results of the pass before, and statements for row values that are not there yet."""
    assert writer.region.row is not None
    lines = result_lines(writer, done)
    lines += writer.emit(writer.region.row, wanted - seen)
    return "\n".join(lines), seen | wanted


def _pass(
    writer: Writer, number: int, roots: Sequence[Value], accumulators: Sequence[Accumulator],
    outputs: Sequence[Output], kept: Sequence[Kept],
) -> dict[str, Any]:  # fmt: skip
    mine = [k for k in kept if k.first == number]
    given = [k for k in kept if k.first < number and id(k.value) in wanted_by(roots)]
    body, inputs = _body(writer, roots, accumulators, outputs, ())
    short, short_inputs = body, inputs
    if given:
        short, short_inputs = _body(writer, roots, accumulators, outputs, [k.value for k in given])
    return {
        "accumulators": tuple(a.plain for a in accumulators),
        "outputs": tuple(output.name for output in outputs),
        "body": body,
        "inputs": inputs,
        "short": short,
        "short_inputs": short_inputs,
        "keeps": tuple(_plain_kept(writer, k) for k in mine),
        "given": tuple(_plain_kept(writer, k) for k in given),
    }


def _plain_kept(writer: Writer, kept: Kept) -> dict[str, str]:
    ctype = expression.calc_type(kept.value.dtype)
    return {"name": writer.fresh(kept.value), "ctype": ctype, "stash": kept.stash}


def _body(
    writer: Writer, roots: Sequence[Value], accumulators: Sequence[Accumulator],
    outputs: Sequence[Output], given: Sequence[Value],
) -> tuple[str, tuple[str, ...]]:  # fmt: skip
    """Statements of a pass and the inputs they read, where the values ``given`` are there."""
    wanted = wanted_by(roots, through_rows=False, given=given)
    lines = writer.emit(writer.region.full, wanted - {id(v) for v in given})
    lines += item_lines(writer, accumulators)
    lines += [store_line(writer, output) for output in outputs]
    return "\n".join(lines), _named_inputs(writer, wanted - {id(v) for v in given})


def _kept_values(
    writer: Writer, reductions: Sequence[Value], full: Sequence[Output], last: int
) -> list[Kept]:
    """Values with a function in them that more than one pass needs, the last of each chain."""
    roots: dict[int, list[Value]] = {}
    for reduction in reductions:
        roots.setdefault(reduction.depth - 1, []).append(reduction.args[0])
    for output in full:
        roots.setdefault(_pass_of(output.value, last), []).append(output.value)
    needs = {number: wanted_by(r, through_rows=False) for number, r in roots.items()}
    firsts: dict[int, int] = {}
    for number in sorted(needs):
        for identity in needs[number]:
            firsts.setdefault(identity, number)
    heavy: set[int] = set()
    found: list[Kept] = []
    free = {o.name: o for o in full if _pass_of(o.value, last) == last}
    for value in writer.region.values:
        if value.place.kind != FULL or id(value) not in firsts:
            continue
        if value.cost >= EXPENSIVE or any(id(a) in heavy for a in value.args):
            heavy.add(id(value))
        if id(value) in heavy and _is_frontier(value, writer.region.values, needs, firsts):
            stash = next((n for n, o in free.items() if o.node.dtype == value.dtype), "")
            free.pop(stash, None)
            found.append(Kept(value, firsts[id(value)], stash))
    return found


def _is_frontier(
    value: Value, values: Sequence[Value], needs: Mapping[int, set[int]], firsts: Mapping[int, int]
) -> bool:
    """Whether a later pass needs the value itself: not only within one that is older too."""
    first = firsts[id(value)]
    for number, wanted in needs.items():
        if number <= first or id(value) not in wanted:
            continue
        users = [v for v in values if id(v) in wanted and any(a is value for a in v.args)]
        if not users or any(firsts[id(u)] > first for u in users):
            return True
    return False
