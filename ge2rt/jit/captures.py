"""What a function takes from elsewhere: globals, closure cells and attributes that its code names.

Before a trace their values are noted; a later call compares. Numbers and strings are compared by
value, arrays by identity (their content is read on each call), containers item by item, all other
objects by identity. Functions that the code names are looked into as well, each layer of decorators
and partials, with their defaults, and so are objects, a static argument's too: of each object that
can be reached, the attributes and methods whose names occur in any of that code are noted, since it
may read them through a local variable.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from ge2rt.jit.chains import attributes, chains, imported
from ge2rt.jit.noted import Captures, Items, Noted
from ge2rt.jit.reflection import (
    HOLDERS,
    MAPPINGS,
    MISSING,
    OURS,
    PLAIN,
    SEQUENCES,
    SINGLE,
    SUBCLASSED,
    defaults,
    has_attributes,
    implicit,
    in_library,
    is_cupy,
    is_known,
    is_library,
    layers,
    methods,
    present,
    read_step,
    read_with,
    step,
    typed,
    values_of,
)

_MOST = 4096  # values noted a function; what lies beyond is not seen


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
        self._layers = layers(function)  # even those of this library: they may hold the user's
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
        for place, part in enumerate(layers(value)):
            self._look_into_layer(f"{name}({place})" if place else name, part)

    def _look_into_layer(self, name: str, part: Any) -> None:
        if isinstance(part, types.FunctionType):
            if not in_library(part) or any(part is layer for layer in self._layers):
                self._visit(part)
        elif isinstance(part, functools.partial):
            self._note(f"{name}.args", functools.partial(getattr, part, "args"), part.args)
            keywords = functools.partial(getattr, part, "keywords")
            self._note(f"{name}.keywords", keywords, part.keywords)
        elif has_attributes(part) and id(part) not in self._objects:
            self._objects[id(part)] = name, part
            for key in implicit(type(part)):
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
        for name in imported(function.__code__):
            if name in sys.modules and not is_known(name):
                self._note(name, functools.partial(sys.modules.get, name), sys.modules[name])

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
        for name, read, value in defaults(function):
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
                for key in sorted(present(value) & self._attributes):
                    if (id(value), key) not in self._followed and len(self.noted) < _MOST:
                        self._followed.add((id(value), key))
                        self._follow_attribute(f"{name}.{key}", value, key)

    def _follow_attribute(self, name: str, value: Any, key: str) -> None:
        self._follow_method(name, value, key)
        found = step(value, "attribute", key)
        if found is not MISSING:
            self._note(name, functools.partial(getattr, value, key), found)

    def _follow_method(self, name: str, value: Any, key: str) -> None:
        """Note which functions run where an attribute is loaded or called, and look into them."""
        kind = value if isinstance(value, type) else type(value)
        found = list(methods(kind, key))
        if not found:
            return
        for method in found:
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
            if isinstance(value, types.ModuleType) and value.__name__.split(".")[0] in OURS:
                return
            following = step(value, kind, key)
            if following is MISSING:
                break
            read = functools.partial(read_step, read, kind, key)
            name += f".{key}" if kind == "attribute" else f"[{key!r}]"
            value = following
        self._note(name, read, value)

    def _note(self, name: str, read: Callable[[], Any], value: Any) -> None:
        if len(self.noted) >= _MOST or (name, id(value)) in self._names:
            return
        self._names.add((name, id(value)))
        self._note_text(value)
        if isinstance(value, (*PLAIN, np.ndarray)) or is_cupy(value):
            self.noted.append(Noted(name, read, value))
        elif isinstance(value, (*SEQUENCES, *MAPPINGS)):
            self._note_items(name, read, value)
        elif isinstance(value, (set, frozenset)):
            elements = functools.partial(read_with, typed, read)
            self.noted.append(Noted(name, elements, typed(value), fresh=True))
            for each in value:
                self.look_into(f"an element of {name}", each)
        else:  # another object is another value
            self.noted.append(Noted(name, read, value))
            for kind, held in HOLDERS:
                if isinstance(value, kind):
                    self._note_held(name, functools.partial(read_with, held, read), held(value))
                    return
            self.look_into(name, value)
        if isinstance(value, SUBCLASSED) and has_attributes(value):
            self._look_into_layer(name, value)  # a class of the user's own, with methods

    def _note_text(self, value: Any) -> None:
        """A text may be what ``getattr`` or ``attrgetter`` is asked for."""
        if isinstance(value, str):
            self._attributes.update(part for part in value.split(".") if part.isidentifier())

    def _note_held(self, name: str, read: Callable[[], Any], value: Any) -> None:
        if isinstance(value, (bytes, str)):
            self.noted.append(Noted(f"content of {name}", read, value, fresh=True))
        else:
            self._note(f"content of {name}", read, value)

    def _note_items(self, name: str, read: Callable[[], Any], value: Any) -> None:
        if id(value) in self._inside:  # what it holds is noted under another name
            self.noted.append(Noted(name, read, value))
            return
        self._inside.add(id(value))
        keys: Any = range(len(value))
        if isinstance(value, MAPPINGS):
            keys = list(value)
            ordered = functools.partial(read_with, tuple, read)
            self.noted.append(Items(f"keys of {name}", ordered, tuple(keys), fresh=True))
            for key in keys:
                self.look_into(f"a key of {name}", key)
        held = [value[key] for key in keys]
        if all(type(each) in SINGLE for each in held):
            items = functools.partial(read_with, values_of, read)
            self.noted.append(Items(f"items of {name}", items, tuple(held), fresh=True))
            for text in held:
                self._note_text(text)
            return
        length = functools.partial(read_with, len, read)
        self.noted.append(Noted(f"len({name})", length, len(value), fresh=True))
        for key in keys:
            self._note(f"{name}[{key!r}]", functools.partial(read_step, read, "item", key),
                       value[key])  # fmt: skip
