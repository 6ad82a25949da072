"""What a function's code names: what it loads from outside, and attributes of whatever it holds.

Read from the bytecode; nothing is run.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_ANY_ATTRIBUTE = _ATTRIBUTES | {"LOAD_SUPER_ATTR", "IMPORT_FROM"}


def named_in(code: types.CodeType) -> tuple[str, ...]:
    """What the code, and functions made in it, load from outside."""
    return tuple(dict.fromkeys(name for name, _ in chains(code)))


@functools.lru_cache(maxsize=512)
def chains(code: types.CodeType) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """(name, steps behind it) of what the code loads from outside, nested functions included."""
    found = list(_own_chains(code))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += chains(constant)
    return tuple(dict.fromkeys(found))


@functools.lru_cache(maxsize=512)
def attributes(code: types.CodeType) -> frozenset[str]:
    """Names of all attributes that the code loads, of whatever object; nested functions too.

    Texts in it that may be names count: ``getattr(x, "k")``, ``vars(x)["k"]``.
    """
    own = {row.argval for row in dis.get_instructions(code) if row.opname in _ANY_ATTRIBUTE}
    own |= {text for text in code.co_consts if isinstance(text, str) and text.isidentifier()}
    inner = [attributes(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset(own).union(*inner)


@functools.lru_cache(maxsize=512)
def imported(code: types.CodeType) -> frozenset[str]:
    """Names of the modules that the code imports while it runs; nested functions too."""
    own = {row.argval for row in dis.get_instructions(code) if row.opname == "IMPORT_NAME"}
    inner = [imported(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset(own).union(*inner)


def _own_chains(code: types.CodeType) -> Iterator[tuple[str, tuple[Any, ...]]]:
    rows = [row for row in dis.get_instructions(code) if row.opname != "CACHE"]
    own = set(code.co_cellvars)
    for place, row in enumerate(rows):
        if row.opname not in _LOADS or row.argval in own:
            continue
        chain: list[Any] = []
        rest = place + 1
        while rest < len(rows):
            step = rows[rest]
            if step.opname in _ATTRIBUTES:
                chain.append(("attribute", step.argval))
                rest += 1
            elif step.opname == "LOAD_CONST" and _is_item(rows, rest + 1):
                chain.append(("item", step.argval))
                rest += 2
            else:
                break
        yield row.argval, tuple(chain)


def _is_item(rows: list[dis.Instruction], place: int) -> bool:
    if place >= len(rows):
        return False
    row = rows[place]
    return row.opname == "BINARY_SUBSCR" or (row.opname == "BINARY_OP" and row.argrepr == "[]")
