"""What Python objects are made of: layers, attributes and methods, without running their code."""

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
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

MISSING = object()
PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
OURS = ("numpy", "ge2rt", "cupy")
SEQUENCES = (list, tuple, collections.deque, collections.UserList)
MAPPINGS = (dict, collections.UserDict, collections.ChainMap, types.MappingProxyType,
             weakref.WeakValueDictionary)  # fmt: skip
SUBCLASSED = (*SEQUENCES, *MAPPINGS, set, frozenset, int, float, str, bytes)
SINGLE = (bool, int, float, complex, str, bytes, type(None))
HOLDERS: tuple[tuple[type, Callable[[Any], Any]], ...] = (  # and how to see what they hold
    (bytearray, bytes), (array.array, bytes), (memoryview, memoryview.tobytes),
    (contextvars.ContextVar, lambda variable: variable.get(None)),
    (weakref.ref, lambda reference: reference()),
    (weakref.ProxyType, lambda proxy: proxy.__repr__.__self__),
    (operator.attrgetter, lambda getter: getter.__reduce__()[1]),
    (operator.methodcaller, lambda caller: caller.__reduce__()[1]),
    (collections.UserString, lambda text: text.data),
)  # fmt: skip
_DEEPEST = 64  # layers of wrappers
_CALLABLE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial)
_NO_PART = frozenset({  # these make, show and compare objects: they are no part of a computation
    "__init__", "__new__", "__post_init__", "__init_subclass__", "__del__", "__repr__", "__str__",
    "__format__", "__eq__", "__ne__", "__hash__", "__reduce__", "__reduce_ex__", "__copy__",
    "__deepcopy__", "__getstate__", "__setstate__", "__setattr__", "__delattr__",
    "__getnewargs__", "__dir__", "__sizeof__",
})  # fmt: skip


def layers(value: Any) -> list[Any]:
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


def defaults(function: types.FunctionType) -> Iterator[tuple[str, Callable[[], Any], Any]]:
    """(parameter, how it is read again, value) of each default."""
    code = function.__code__
    behind = functools.partial(getattr, function, "__defaults__")
    values = function.__defaults__ or ()
    for place in range(-len(values), 0):
        read = functools.partial(read_step, behind, "item", place)
        yield code.co_varnames[code.co_argcount + place], read, values[place]
    named = functools.partial(getattr, function, "__kwdefaults__")
    for name, value in (function.__kwdefaults__ or {}).items():
        yield name, functools.partial(read_step, named, "item", name), value


def _wrapped(value: Any) -> Any:
    return inspect.getattr_static(value, "__wrapped__", None)


def has_attributes(value: Any) -> bool:
    """Whether a value is an object whose attributes may be another's business than ours."""
    if isinstance(value, (np.ndarray, *_CALLABLE)):
        return False
    if isinstance(value, types.ModuleType):
        return not is_known(value.__name__)
    kind = value if isinstance(value, type) else type(value)
    return kind.__module__.split(".")[0] not in (*OURS, "builtins")


def is_known(module: str) -> bool:
    """Whether a module is Python's, NumPy's, CuPy's or this library's."""
    return module.split(".")[0] in (*OURS, *sys.stdlib_module_names)


def present(value: Any) -> set[str]:
    """Names of the attributes that an object and its classes have."""
    if isinstance(value, types.ModuleType):
        return set(vars(value))
    kinds = (value if isinstance(value, type) else type(value)).__mro__
    found = {key for kind in kinds if not is_library(kind) for key in vars(kind)}
    return found.union(getattr(value, "__dict__", ()))


def methods(kind: type, key: str) -> Iterator[Any]:
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


def implicit(kind: type) -> Iterator[str]:
    """Methods that Python calls though no code names them, as ``__call__`` and ``__matmul__``."""
    for each in kind.__mro__:
        if not is_library(each):
            for key, found in vars(each).items():
                special = key.startswith("__") and key.endswith("__") and key not in _NO_PART
                if special and isinstance(found, types.FunctionType):
                    yield key


def read_with(held: Callable[[Any], Any], read: Callable[[], Any]) -> Any:
    """What of a value is held, read again."""
    return held(read())


def typed(values: Any) -> frozenset[Any]:
    """The elements of a set, told apart where Python takes 1 and True for equal."""
    return frozenset((type(each), each) for each in values)


def values_of(container: Any) -> tuple[Any, ...]:
    """The items of a container, in order."""
    if isinstance(container, MAPPINGS):
        return tuple([container[key] for key in container])
    return tuple(container)


def read_step(read: Callable[[], Any], kind: str, key: Any) -> Any:
    """An attribute or an item of a value that is read again."""
    return getattr(read(), key) if kind == "attribute" else read()[key]


def step(value: Any, kind: str, key: Any) -> Any:
    """One step of a chain, without running anybody's code."""
    if kind == "item":
        if type(value) not in (dict, list, tuple):
            return MISSING
        try:
            return value[key]
        except (KeyError, IndexError, TypeError):
            return MISSING
    if isinstance(value, (np.ndarray, *PLAIN)) and not has_attributes(value):
        return MISSING
    if isinstance(value, threading.local):
        return vars(value).get(key, MISSING)
    try:
        found = inspect.getattr_static(value, key)
    except AttributeError:
        return MISSING
    if isinstance(found, types.MemberDescriptorType):  # a slot
        return getattr(value, key, MISSING)
    if isinstance(found, types.FunctionType):
        own = isinstance(value, (types.ModuleType, type)) or key in getattr(value, "__dict__", ())
        return found if own else MISSING  # else it is bound anew where it is loaded
    return MISSING if hasattr(type(found), "__get__") else found


def in_library(function: types.FunctionType) -> bool:
    """Whether a function's code is no user's; a wrapper's ``__module__`` is what it wraps'."""
    module = str(function.__globals__.get("__name__", ""))
    return module.split(".")[0] in (*OURS, *sys.stdlib_module_names)


def is_library(value: Any) -> bool:
    """Whether a function belongs to Python, NumPy, CuPy or this library."""
    module = getattr(value, "__module__", None) or ""
    return module.split(".")[0] in (*OURS, *sys.stdlib_module_names)


def is_cupy(value: Any) -> bool:
    """Whether it is an object of CuPy's."""
    return type(value).__module__.split(".")[0] == "cupy"
