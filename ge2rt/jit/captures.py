"""What a function takes from elsewhere: globals, closure cells and attributes that its code names.

Before a trace their values are noted; a later call compares. Numbers and strings are compared by
value, arrays by identity (their content is read on each call), containers item by item, all other
objects by identity. Functions that the code names are looked into as well.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_MISSING = object()
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
_BY_VALUE = (frozenset, slice, range)
_MOST = 4096  # values noted a function; what lies beyond is not seen
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_OURS = ("numpy", "ge2rt", "cupy")


@dataclass(frozen=True)
class Noted:
    """One value: how it is read again, its name, and what it was."""

    name: str
    read: Callable[[], Any]
    value: Any

    def unchanged(self) -> bool:
        """Whether it is what it was."""
        try:
            now = self.read()
        except (KeyError, IndexError, AttributeError, ValueError, TypeError):
            return False
        if now is self.value:
            return True
        plain = isinstance(now, (*_PLAIN, *_BY_VALUE)) and type(now) is type(self.value)
        return plain and _same_number(now, self.value)


def _same_number(now: Any, then: Any) -> bool:
    return bool(now == then) and repr(now) == repr(then)  # 0.0 is not -0.0


@dataclass
class Captures:
    """All values that a function's code names."""

    noted: list[Noted] = field(default_factory=list)

    def changed(self) -> str:
        """Name of a value that is not what it was; empty if none."""
        for each in self.noted:
            if not each.unchanged():
                return each.name
        return ""

    def drop_changed(self) -> None:
        """Forget what is not what it was: the function itself changes it, as a counter is."""
        self.noted = [each for each in self.noted if each.unchanged()]

    def renew(self) -> bool:
        """Note the objects that are there now, equal to those before; whether any is another."""
        fresh = [Noted(each.name, each.read, each.read()) for each in self.noted]
        differ = any(a.value is not b.value for a, b in zip(fresh, self.noted, strict=True))
        self.noted = fresh
        return differ

    @property
    def arrays(self) -> list[tuple[str, Any]]:
        """The arrays among them."""
        return [(n.name, n.value) for n in self.noted if isinstance(n.value, np.ndarray)]


def capture(function: Any) -> Captures:
    """The values that ``function`` and the functions it names take from elsewhere, as they are."""
    collector = _Collector()
    collector.visit(function)
    return Captures(collector.noted)


class _Collector:
    def __init__(self) -> None:
        self.noted: list[Noted] = []
        self._functions: set[int] = set()
        self._names: set[str] = set()
        self._inside: set[int] = set()

    def visit(self, function: Any) -> None:
        """Note what a plain Python function names."""
        function = _unwrapped(function)
        if not isinstance(function, types.FunctionType) or id(function) in self._functions:
            return
        self._functions.add(id(function))
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for root, chain in _chains(function.__code__):
            read = self._root(function, cells, root)
            if read is not None:
                self._follow(f"{function.__qualname__}:{root}", read, chain)

    def _root(
        self, function: types.FunctionType, cells: dict[str, Any], name: str
    ) -> Callable[[], Any] | None:
        if name in cells:
            return functools.partial(getattr, cells[name], "cell_contents")
        if name in function.__globals__:
            return functools.partial(function.__globals__.__getitem__, name)
        return None

    def _follow(self, name: str, read: Callable[[], Any], chain: tuple[Any, ...]) -> None:
        try:
            value = read()
        except ValueError:  # an empty cell
            return
        for kind, key in chain:
            if isinstance(value, types.ModuleType) and value.__name__.split(".")[0] in _OURS:
                return
            following = _step(value, kind, key)
            if following is _MISSING:
                break
            read = functools.partial(_read_step, read, kind, key)
            name += f".{key}" if kind == "attribute" else f"[{key!r}]"
            value = following
        self._note(name, read, value)

    def _note(self, name: str, read: Callable[[], Any], value: Any) -> None:
        if len(self.noted) >= _MOST or name in self._names:
            return
        self._names.add(name)
        if isinstance(value, (*_PLAIN, np.ndarray)) or _is_cupy(value):
            self.noted.append(Noted(name, read, value))
        elif isinstance(value, (list, tuple, dict)):
            self._note_items(name, read, value)
        elif isinstance(value, (set, frozenset)):
            self.noted.append(Noted(name, lambda: frozenset(read()), frozenset(value)))
        elif not isinstance(value, types.ModuleType):  # another object is another value
            self.noted.append(Noted(name, read, value))
            inner = _unwrapped(value)
            if isinstance(inner, types.FunctionType) and not is_library(inner):
                self.visit(value)

    def _note_items(self, name: str, read: Callable[[], Any], value: Any) -> None:
        if id(value) in self._inside:
            return
        self._inside.add(id(value))
        self.noted.append(Noted(f"len({name})", functools.partial(_length, read), len(value)))
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            self._note(f"{name}[{key!r}]", functools.partial(_read_step, read, "item", key),
                       value[key])  # fmt: skip


def _length(read: Callable[[], Any]) -> int:
    return len(read())


def _read_step(read: Callable[[], Any], kind: str, key: Any) -> Any:
    return getattr(read(), key) if kind == "attribute" else read()[key]


def _step(value: Any, kind: str, key: Any) -> Any:
    """One step of a chain, without running anybody's code."""
    if kind == "item":
        if type(value) not in (dict, list, tuple):
            return _MISSING
        try:
            return value[key]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    if isinstance(value, (np.ndarray, *_PLAIN)):
        return _MISSING
    try:
        found = inspect.getattr_static(value, key)
    except AttributeError:
        return _MISSING
    if isinstance(found, types.MemberDescriptorType):  # a slot
        return getattr(value, key, _MISSING)
    if isinstance(found, types.FunctionType):
        return found if isinstance(value, types.ModuleType) else _MISSING
    return _MISSING if hasattr(type(found), "__get__") else found


def _unwrapped(value: Any) -> Any:
    """The Python function inside of wrappers that say what they wrap."""
    for _ in range(16):
        inner = getattr(value, "__wrapped__", None) if not isinstance(value, type) else None
        if isinstance(value, types.MethodType):
            inner = value.__func__
        if isinstance(value, functools.partial):
            inner = value.func
        if inner is None:
            return value
        value = inner
    return value


def is_library(value: Any) -> bool:
    """Whether a function belongs to Python, NumPy, CuPy or this library."""
    module = getattr(value, "__module__", None) or ""
    return module.split(".")[0] in (*_OURS, *sys.stdlib_module_names)


def _is_cupy(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "cupy"


def named_in(code: types.CodeType) -> tuple[str, ...]:
    """What the code, and functions made in it, load from outside."""
    return tuple(dict.fromkeys(name for name, _ in _chains(code)))


@functools.lru_cache(maxsize=512)
def _chains(code: types.CodeType) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """(name, steps behind it) of what the code loads from outside, nested functions included."""
    found = list(_own_chains(code))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _chains(constant)
    return tuple(dict.fromkeys(found))


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
