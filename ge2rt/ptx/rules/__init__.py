"""Meaning of single instructions as LLVM IR, in tables keyed by base opcode.

``PURE`` rules read registers and write registers, lane by lane: no memory, no control, no other
lane. They must be safe on lanes that are switched off (no trap: a division guards its divisor).
``WARP`` rules see all lanes of a warp and the mask of those that take part.

Protocol beyond ``api.py``:

- The condition code is a register named ``%carry`` (i1). Where :func:`reads_carry` holds, its value
  is appended to the sources; where :func:`writes_carry` holds, its new value is the last result.
  For ``sub`` it is the borrow.
- ``!p`` among the sources arrives negated.
- ``cvt`` to 8 bits gives an i64 already extended by its sign: the register is wider than the type.
- Pairs ``d|p`` always give both results, also for the sink ``_``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ge2rt.ptx.ast import Instr
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.rules import bits, compare, convert, floating, integer, matrix, move, warp, wmma
from ge2rt.ptx.rules.api import PureRule, WarpRule
from ge2rt.ptx.rules.operands import TYPES, unsplat, unsupported


@dataclass(frozen=True)
class Row:
    """A rule with the types and the dotted parts it knows."""

    op: str
    types: frozenset[str]
    mods: frozenset[str]
    rule: PureRule


def _rows() -> dict[str, list[Row]]:
    table: dict[str, list[Row]] = {}
    for family in (move, integer, bits, floating, compare, convert):
        for op, types, mods, rule in family.ROWS:
            row = Row(op, frozenset(types.split()), frozenset(mods.split()), rule)
            table.setdefault(op, []).append(row)
    return table


ROWS: dict[str, list[Row]] = _rows()


def find_row(instr: Instr) -> Row:
    """The row that knows ``instr``; UnsupportedError where no row does."""
    row = _row_of(instr.op, instr.mods)
    if row is None:
        raise unsupported(instr)
    return row


@lru_cache(maxsize=4096)
def _row_of(op: str, mods: tuple[str, ...]) -> Row | None:
    types = [mod for mod in mods if mod in TYPES]
    last = types[-1] if types else ""
    extra = set(mods).difference(TYPES)
    fitting = (row for row in ROWS.get(op, ()) if last in row.types and extra <= row.mods)
    return next(fitting, None)


def _pure(e: Emitter, instr: Instr, sources: Sequence[Value]) -> list[Value]:
    results = find_row(instr).rule(e, instr, [unsplat(v) if v.lanes else v for v in sources])
    lanes = max([v.lanes for v in sources], default=0)
    return [v if v.lanes else e.splat(v, lanes) for v in results] if lanes else results


def reads_carry(instr: Instr) -> bool:
    """Whether the carry flag is a further source."""
    return instr.op in ("addc", "subc", "madc")


def writes_carry(instr: Instr) -> bool:
    """Whether the carry flag is a further result."""
    return "cc" in instr.mods


PURE: dict[str, PureRule] = dict.fromkeys(ROWS, _pure)
WARP: dict[str, WarpRule] = {**warp.RULES, **matrix.RULES, **wmma.RULES}

__all__ = ["PURE", "ROWS", "WARP", "Row", "find_row", "reads_carry", "writes_carry"]
