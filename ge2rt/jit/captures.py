"""What a function takes from elsewhere: globals, closure cells and attributes that its code names.

Before a trace their values are noted; a later call compares. Numbers and strings are compared by
value, arrays by identity (their content is read on each call), containers item by item, all other
objects by identity. Functions that the code names are looked into as well, each layer of decorators
and partials, with their defaults, and so are objects, a static argument's too: of each object that
can be reached, the attributes and methods whose names occur in any of that code are noted, since it
may read them through a local variable.
"""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import inspect
import operator
import sys
import threading
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ge2rt.jit.chains import attributes, chains

_MISSING = object()
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
_BY_VALUE = (frozenset, slice, range)
_MOST = 4096  # values noted a function; what lies beyond is not seen
_OURS = ("numpy", "ge2rt", "cupy")
_SEQUENCES = (list, tuple, collections.deque, collections.UserList)
_MAPPINGS = (dict, collections.UserDict, collections.ChainMap, types.MappingProxyType)
_HOLDERS: tuple[tuple[type, Callable[[Any], Any]], ...] = (  # and how to see what they hold
    (bytearray, bytes), (array.array, bytes), (memoryview, memoryview.tobytes),
    (contextvars.ContextVar, lambda variable: variable.get(None)),
    (weakref.ref, lambda reference: reference()),
    (weakref.ProxyType, lambda proxy: proxy.__repr__.__self__),
    (operator.attrgetter, lambda getter: getter.__reduce__()[1]),
)  # fmt: skip
_DEEPEST = 64  # layers of wrappers
_CALLABLE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)
_NO_PART = frozenset({  # these make, show and compare objects: they are no part of a computation
    "__init__", "__new__", "__post_init__", "__init_subclass__", "__del__", "__repr__", "__str__",
    "__format__", "__eq__", "__ne__", "__hash__", "__reduce__", "__reduce_ex__", "__copy__",
    "__deepcopy__", "__getstate__", "__setstate__", "__setattr__", "__delattr__",
    "__getnewargs__", "__dir__", "__sizeof__",
})  # fmt: skip


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


Layout: TypeAlias = tuple[str, Any, tuple[Any, ...]]  # name, array, what may be set in place


def layout_of(array: Any) -> tuple[Any, ...]:
    """What of an array may be set in place, besides its elements."""
    return array.shape, array.strides, array.dtype


@dataclass
class Captures:
    """All values that a function's code names."""

    noted: list[Noted] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)

    def changed(self) -> str:
        """Name of a value that is not what it was; empty if none."""
        for each in self.noted:
            if not each.unchanged():
                return each.name
        for name, held, layout in self.layouts:
            if layout_of(held) != layout:
                return f"{name}.shape"
        return ""

    def watch_layouts(self, inputs: Collection[Any]) -> None:
        """Note the shapes of arrays that the code can reach, but for the ``inputs`` of its graph.

        Those are compared as inputs are; of others it may have read the shape alone.
        """
        known = {id(array) for array in inputs}
        self.layouts = [
            (name, held, layout_of(held)) for name, held in self.arrays if id(held) not in known
        ]  # fmt: skip

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


def capture(
    function: Any, statics: Iterable[tuple[str, Any]] = (), given: Collection[str] = ()
) -> Captures:
    """The values that ``function`` and the functions it names take from elsewhere, as they are.

    ``statics`` are (name, value) of arguments that are compiled in: which they are is known, what
    they hold is not. ``given`` are the parameters that the call gives: their defaults do not count.
    """
    collector = _Collector(function, given)
    collector.look_into(getattr(function, "__name__", "function"), function)
    for name, value in statics:
        collector.look_into(name, value)
    collector.follow_attributes()
    return Captures(collector.all_noted())


class _Collector:
    def __init__(self, function: Any, given: Collection[str]) -> None:
        self._layers = _layers(function)  # even those of this library: they may hold the user's
        self._given = {id(getattr(function, "__func__", function)): given}
        self.noted: list[Noted] = []
        self._functions: set[int] = set()
        self._own_code: list[Noted] = []  # of the function's own layers
        self._labels: dict[str, int] = {}
        self._names: set[tuple[str, int]] = set()
        self._found_of: set[tuple[str, int]] = set()  # (attribute, object or class)
        self._inside: set[int] = set()
        self._attributes: set[str] = set()  # that the code loads
        self._objects: dict[int, tuple[str, Any]] = {}  # that it can reach
        self._followed: set[tuple[int, str]] = set()  # (object, attribute)

    def look_into(self, name: str, value: Any) -> None:
        """Note what belongs to a value that is itself known."""
        if isinstance(value, (tuple, frozenset)):
            for place, each in enumerate(value):
                self.look_into(f"{name}[{place}]", each)
            return
        for place, part in enumerate(_layers(value)):
            self._look_into_layer(f"{name}({place})" if place else name, part)

    def _look_into_layer(self, name: str, part: Any) -> None:
        if isinstance(part, types.FunctionType):
            if not _in_library(part) or any(part is layer for layer in self._layers):
                self._visit(part)
        elif isinstance(part, functools.partial):
            self._note(f"{name}.args", functools.partial(getattr, part, "args"), part.args)
            keywords = functools.partial(getattr, part, "keywords")
            self._note(f"{name}.keywords", keywords, part.keywords)
        elif _has_attributes(part) and id(part) not in self._objects:
            self._objects[id(part)] = name, part
            for key in _implicit(type(part)):
                self._follow_method(f"{name}.{key}", part, key)

    def _visit(self, function: types.FunctionType) -> None:
        """Note what a plain Python function names, its defaults, and its code."""
        if id(function) in self._functions:
            return
        self._functions.add(id(function))
        self._attributes |= attributes(function.__code__)
        label = self._label(function)
        self._note_own(label, function)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for root, chain in chains(function.__code__):
            read = self._root(function, cells, root)
            if read is not None:
                self._follow(f"{label}:{root}", read, chain)

    def _label(self, function: types.FunctionType) -> str:
        """A function's name; functions made by the same lines are numbered."""
        name = function.__qualname__
        self._labels[name] = self._labels.get(name, 0) + 1
        return name if self._labels[name] == 1 else f"{name}({self._labels[name]})"

    def _note_own(self, label: str, function: types.FunctionType) -> None:
        """Note what is exchanged on a function itself, and what its defaults hold."""
        read_code = functools.partial(getattr, function, "__code__")
        code = Noted(f"{label}.__code__", read_code, function.__code__)
        if not any(function is layer for layer in self._layers):
            self.noted.append(code)
        else:
            self._own_code.append(code)
        given = self._given.get(id(function), ())
        for name, read, value in _defaults(function):
            if name not in given:
                self._note(f"{label}({name}=)", read, value)

    def all_noted(self) -> list[Noted]:
        """What was noted. A function that takes nothing from elsewhere has no code noted either.

        Calls of such a function run native code at once, without a look at anything.
        """
        return self.noted + self._own_code if self.noted else []

    def follow_attributes(self) -> None:
        """Note the attributes that code names, of all objects there are, until there are no more.

        They are read from the object itself: that it is the same one is noted where it was found.
        """
        before = -1
        while before != (before := len(self._objects) + len(self._attributes)):
            for name, value in list(self._objects.values()):
                for key in sorted(_present(value) & self._attributes):
                    if (id(value), key) not in self._followed and len(self.noted) < _MOST:
                        self._followed.add((id(value), key))
                        self._follow_attribute(f"{name}.{key}", value, key)

    def _follow_attribute(self, name: str, value: Any, key: str) -> None:
        self._follow_method(name, value, key)
        found = _step(value, "attribute", key)
        if found is not _MISSING:
            self._note(name, functools.partial(getattr, value, key), found)

    def _follow_method(self, name: str, value: Any, key: str) -> None:
        """Note which functions run where an attribute is loaded or called, and look into them."""
        kind = value if isinstance(value, type) else type(value)
        methods = list(_methods(kind, key))
        if not methods:
            return
        for method in methods:
            self.look_into(name, method)
        if kind is not value:
            self._note_of(value, "its class", functools.partial(type, value), kind)
            own = getattr(value, "__dict__", None)
            if isinstance(own, dict) and key not in own:
                self._note_of(value, key, functools.partial(own.get, key), None)
        bases = functools.partial(getattr, kind, "__mro__")
        self._note_of(kind, "its bases", bases, kind.__mro__)
        for each in kind.__mro__:
            if not is_library(each):
                read = functools.partial(each.__dict__.get, key)
                self._note_of(each, key, read, read())

    def _note_of(self, owner: Any, what: str, read: Callable[[], Any], value: Any) -> None:
        """Note once what an object or a class has; nothing that this holds."""
        if len(self.noted) < _MOST and (what, id(owner)) not in self._found_of:
            self._found_of.add((what, id(owner)))
            name = (owner if isinstance(owner, type) else type(owner)).__qualname__
            self.noted.append(Noted(f"{name}: {what}", read, value))

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
        if len(self.noted) >= _MOST or (name, id(value)) in self._names:
            return
        self._names.add((name, id(value)))
        if isinstance(value, str) and value.isidentifier():
            self._attributes.add(value)  # it may be what getattr is asked for
        if isinstance(value, (*_PLAIN, np.ndarray)) or _is_cupy(value):
            self.noted.append(Noted(name, read, value))
        elif isinstance(value, (*_SEQUENCES, *_MAPPINGS)):
            self._note_items(name, read, value)
        elif isinstance(value, (set, frozenset)):
            self.noted.append(Noted(name, lambda: frozenset(read()), frozenset(value)))
        elif not isinstance(value, types.ModuleType):  # another object is another value
            self.noted.append(Noted(name, read, value))
            for kind, held in _HOLDERS:
                if isinstance(value, kind):
                    self._note(f"content of {name}", functools.partial(_read_with, held, read),
                               held(value))  # fmt: skip
                    return
            self.look_into(name, value)

    def _note_items(self, name: str, read: Callable[[], Any], value: Any) -> None:
        if id(value) in self._inside:  # what it holds is noted under another name
            self.noted.append(Noted(name, read, value))
            return
        self._inside.add(id(value))
        self.noted.append(Noted(f"len({name})", functools.partial(_length, read), len(value)))
        keys = list(value) if isinstance(value, _MAPPINGS) else range(len(value))
        for key in keys:
            self._note(f"{name}[{key!r}]", functools.partial(_read_step, read, "item", key),
                       value[key])  # fmt: skip


def _layers(value: Any) -> list[Any]:
    """A value and what it wraps or is bound to, as a method is to its object."""
    found = [value]
    for layer in found:  # it grows meanwhile
        if len(found) > _DEEPEST:
            break
        if isinstance(layer, types.MethodType):
            found += [layer.__func__, layer.__self__]
        elif isinstance(layer, functools.partial):
            found.append(layer.func)
        elif not isinstance(layer, type) and (inner := _wrapped(layer)) is not None:
            found.append(inner)
    return found


def _defaults(function: types.FunctionType) -> Iterator[tuple[str, Callable[[], Any], Any]]:
    """(parameter, how it is read again, value) of each default."""
    code = function.__code__
    behind = functools.partial(getattr, function, "__defaults__")
    values = function.__defaults__ or ()
    for place in range(-len(values), 0):
        read = functools.partial(_read_step, behind, "item", place)
        yield code.co_varnames[code.co_argcount + place], read, values[place]
    named = functools.partial(getattr, function, "__kwdefaults__")
    for name, value in (function.__kwdefaults__ or {}).items():
        yield name, functools.partial(_read_step, named, "item", name), value


def _wrapped(value: Any) -> Any:
    return inspect.getattr_static(value, "__wrapped__", None)


def _has_attributes(value: Any) -> bool:
    """Whether a value is an object whose attributes may be another's business than ours."""
    if isinstance(value, (*_PLAIN, *_BY_VALUE, np.ndarray, types.ModuleType, *_CALLABLE)):
        return False
    if isinstance(value, (list, dict, set, tuple)) or _is_cupy(value):
        return False
    kind = value if isinstance(value, type) else type(value)
    return kind.__module__.split(".")[0] not in (*_OURS, "builtins")


def _present(value: Any) -> set[str]:
    """Names of the attributes that an object and its classes have."""
    kinds = (value if isinstance(value, type) else type(value)).__mro__
    found = {key for kind in kinds if not is_library(kind) for key in vars(kind)}
    return found.union(getattr(value, "__dict__", ()))


def _methods(kind: type, key: str) -> Iterator[Any]:
    """The functions that run where the attribute of a class's objects is loaded or called."""
    for each in kind.__mro__:
        found = vars(each).get(key)
        if isinstance(found, property):
            yield found.fget
        elif isinstance(found, (staticmethod, classmethod)):
            yield found.__func__
        elif isinstance(found, functools.cached_property):
            yield found.func
        elif callable(found) and not isinstance(found, type):
            yield found
        elif isinstance(getter := getattr(type(found), "__get__", None), types.FunctionType):
            yield getter


def _implicit(kind: type) -> Iterator[str]:
    """Methods that Python calls though no code names them, as ``__call__`` and ``__matmul__``."""
    for each in kind.__mro__:
        if not is_library(each):
            for key, found in vars(each).items():
                special = key.startswith("__") and key.endswith("__") and key not in _NO_PART
                if special and isinstance(found, types.FunctionType):
                    yield key


def _read_with(held: Callable[[Any], Any], read: Callable[[], Any]) -> Any:
    return held(read())


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
    if isinstance(value, threading.local):
        return vars(value).get(key, _MISSING)
    try:
        found = inspect.getattr_static(value, key)
    except AttributeError:
        return _MISSING
    if isinstance(found, types.MemberDescriptorType):  # a slot
        return getattr(value, key, _MISSING)
    if isinstance(found, types.FunctionType):
        own = isinstance(value, (types.ModuleType, type)) or key in getattr(value, "__dict__", ())
        return found if own else _MISSING  # else it is bound anew where it is loaded
    return _MISSING if hasattr(type(found), "__get__") else found


def _in_library(function: types.FunctionType) -> bool:
    """Whether a function's code is no user's; a wrapper's ``__module__`` is what it wraps'."""
    module = str(function.__globals__.get("__name__", ""))
    return module.split(".")[0] in (*_OURS, *sys.stdlib_module_names)


def is_library(value: Any) -> bool:
    """Whether a function belongs to Python, NumPy, CuPy or this library."""
    module = getattr(value, "__module__", None) or ""
    return module.split(".")[0] in (*_OURS, *sys.stdlib_module_names)


def _is_cupy(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "cupy"
