"""The user's function with symbols in place of the arrays that it captured.

Arrays among the globals and closure cells that the code names, alone or in plain containers, become
inputs of the graph, so that what is computed from them is part of it as well. The function itself
is left alone: a copy is made that sees the symbols. Arrays that are reached in other ways (through
attributes of objects) become inputs when a traced value meets them.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidTypeError
from ge2rt.jit.chains import named_in
from ge2rt.jit.reflection import is_library
from ge2rt.jit.scope import current
from ge2rt.jit.traced import Traced
from ge2rt.jit.trees import flatten, parts_of, unflatten

_MOST_LEAVES = 4096


def substituted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of ``function`` that sees symbols, or itself where it captured no arrays."""
    known = current().copies
    found = known.get(id(function))
    if found is None:
        known[id(function)] = (function, function)  # what calls itself calls the original
        known[id(function)] = found = (function, _copy(function))
    copy: Callable[..., Any] = found[1]
    return copy


def _copy(function: Any) -> Any:
    if isinstance(function, types.MethodType):
        inner = substituted(function.__func__)
        return (
            function if inner is function.__func__ else types.MethodType(inner, function.__self__)
        )
    if type(function) is not types.FunctionType or _writes(function.__code__):
        return function
    names = named_in(function.__code__)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    fresh_cells = {
        name: types.CellType(value)
        for name, cell in cells.items()
        if (value := _replaced(_content(cell))) is not _SAME
    }
    scope = {
        name: value
        for name in names
        if name not in cells and name in function.__globals__
        if (value := _replaced(function.__globals__[name])) is not _SAME
    }
    if not fresh_cells and not scope:
        return function
    made = types.FunctionType(
        function.__code__, {**function.__globals__, **scope}, function.__name__,
        function.__defaults__, tuple(fresh_cells.get(name, cell) for name, cell in cells.items()),
    )  # fmt: skip
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


_SAME = object()


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet set
        return None


def _replaced(value: Any) -> Any:
    """What a name stands for in the copy; ``_SAME`` where nothing changes."""
    if _is_data(value):
        return _symbol(value)
    if isinstance(value, (types.FunctionType, types.MethodType)):
        if is_library(value):
            return _SAME
        copy = substituted(value)
        return _SAME if copy is value else copy
    if type(value) is not type and parts_of(value) is not None:
        return _container(value)
    return _SAME


def _container(value: Any) -> Any:
    try:
        leaves, structure, _ = flatten(value)
    except InvalidTypeError:  # nested in itself
        return _SAME
    if len(leaves) > _MOST_LEAVES or not any(_is_data(leaf) for leaf in leaves):
        return _SAME
    return unflatten(structure, [_symbol(x) if _is_data(x) else x for x in leaves])


def _symbol(array: Any) -> Traced:
    trace = current()
    found = trace.symbols.get(id(array))
    if found is None:
        found = trace.symbols[id(array)] = Traced(trace.capture(array))
    return found


def _is_data(value: Any) -> bool:
    if type(value) is not np.ndarray:
        return False
    try:
        return dtype_of(value.dtype).kind != "storage"
    except InvalidTypeError:
        return False


@lru_cache(maxsize=512)
def _writes(code: types.CodeType) -> bool:
    """Whether the code sets globals or cells of others: a copy would set its own instead."""
    free = set(code.co_freevars)
    for row in dis.get_instructions(code):
        if row.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            return True
        if row.opname in ("STORE_DEREF", "DELETE_DEREF") and row.argval in free:
            return True
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return any(_writes_outside(each, free) for each in inner)


def _writes_outside(code: types.CodeType, free: set[str]) -> bool:
    for row in dis.get_instructions(code):
        if row.opname == "STORE_GLOBAL" or (row.opname == "STORE_DEREF" and row.argval in free):
            return True
    return any(_writes_outside(c, free) for c in code.co_consts if isinstance(c, types.CodeType))
