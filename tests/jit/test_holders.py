"""What is held by the standard library's containers, references and look-ups is watched too."""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import operator
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from ge2rt.jit import jit
from ge2rt.jit.quick import MISS

X = np.ones(3, np.float32)


class Plain:
    k = 1


class Reads:
    """A descriptor of the user's own."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        return instance.held


class Described:
    k = Reads()
    held = 1


class Computed:
    def __init__(self) -> None:
        self.__dict__["data"] = {"k": 1}

    def __getattr__(self, name: str) -> Any:
        return self.data[name]


class Cached:
    n = 1

    @functools.cached_property
    def k(self) -> int:
        return self.n * 2


def _containers() -> dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]]:
    """(what is traced, what is changed after its first call)."""
    deque, users = collections.deque([1, 2]), collections.UserDict(k=1)
    listed, chain = collections.UserList([1]), collections.ChainMap({"k": 1})
    hidden = {"k": 1}
    shown = types.MappingProxyType(hidden)
    numbers, letters = array.array("i", [1, 2]), bytearray(b"ab")
    window = memoryview(letters)
    context: contextvars.ContextVar[int] = contextvars.ContextVar("context", default=1)
    return {
        "deque": (lambda x: x * deque[0], lambda: deque.appendleft(5)),
        "UserDict": (lambda x: x * users["k"], lambda: users.update(k=3)),
        "UserList": (lambda x: x * listed[0], lambda: listed.insert(0, 3)),
        "ChainMap": (lambda x: x * chain["k"], lambda: chain.update(k=3)),
        "MappingProxyType": (lambda x: x * shown["k"], lambda: hidden.update(k=3)),
        "array": (lambda x: x * numbers[0], lambda: numbers.insert(0, 9)),
        "bytearray": (lambda x: x * letters[0], lambda: letters.__setitem__(0, 9)),
        "memoryview": (lambda x: x * window[1], lambda: letters.__setitem__(1, 9)),
        "ContextVar": (lambda x: x * context.get(), lambda: context.set(5)),
    }


def _objects() -> dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]]:
    local = threading.local()
    local.k = 1
    held, plain, described, computed = Plain(), Plain(), Described(), Computed()
    cached, resized = Cached(), np.arange(6.0, dtype=np.float32)
    reference, proxy = weakref.ref(held), weakref.proxy(held)
    name, getter = "k", operator.attrgetter("k")

    def change_cached() -> None:
        cached.n = 5
        del cached.__dict__["k"]

    def set_plain() -> None:
        plain.k += 1

    def set_held() -> None:
        held.k += 1

    return {
        "local": (lambda x: x * local.k, lambda: setattr(local, "k", 4)),
        "reference": (lambda x: x * reference().k, set_held),  # type: ignore[union-attr]
        "proxy": (lambda x: x * proxy.k, set_held),
        "descriptor": (lambda x: x * described.k, lambda: setattr(described, "held", 3)),
        "__getattr__": (lambda x: x * computed.k, lambda: computed.data.update(k=8)),
        "cached_property": (lambda x: x * cached.k, change_cached),
        "vars": (lambda x: x * vars(plain).get("k", 1), set_plain),
        "getattr": (lambda x: x * getattr(plain, "k"), set_plain),  # noqa: B009
        "getattr of a name": (lambda x: x * getattr(plain, name), set_plain),
        "attrgetter": (lambda x: x * getter(plain), set_plain),
        "shape": (lambda x: x * resized.shape[0], lambda: resized.resize(3, refcheck=False)),
    }


@pytest.mark.parametrize("name", [*_containers(), *_objects()])
def test_a_change_is_seen(name: str) -> None:
    function, change = {**_containers(), **_objects()}[name]
    compiled = jit(function)
    before = compiled(X)
    np.testing.assert_array_equal(before, function(X))
    np.testing.assert_array_equal(compiled(X), before)
    assert compiled.stats().traces == 1  # what is watched has not changed by itself
    change()
    np.testing.assert_array_equal(compiled(X), function(X))
    assert not np.array_equal(function(X), before)


def test_many_captured_arrays_keep_the_quick_way() -> None:
    weights = {f"w{number}": np.ones(3, np.float32) for number in range(40)}

    def total(x: Any) -> Any:
        for weight in weights.values():
            x = x + weight
        return x

    compiled = jit(total)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(X), np.full(3, 41, np.float32))
    (quick,) = compiled._quick
    assert quick(X) is not MISS
    weights["w0"].resize((1, 3), refcheck=False)  # as an input it is compared as inputs are
    np.testing.assert_array_equal(compiled(X), np.full((1, 3), 41, np.float32))


N = 2


class Pair(NamedTuple):
    a: float

    def scaled(self) -> float:
        return self.a * N


class Keyed(dict):  # type: ignore[type-arg]
    def scaled(self) -> int:
        return N


class Whole(int):
    k: int


def _imports(x: Any) -> Any:
    import cfg_of_a_test

    return x * cfg_of_a_test.N


def _imports_a_name(x: Any) -> Any:
    from cfg_of_a_test import N

    return x * N


def _more(module: types.ModuleType) -> dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]]:
    """Modules, objects in sets, classes of the user's own below built-in ones."""
    plain, pair, keyed, whole = Plain(), Pair(1.5), Keyed(a=1), Whole(3)
    whole.k = 2
    in_set, as_key, ordered = {plain}, {plain: 1}, {"a": 1.0, "b": 2.0}
    weak: Any = weakref.WeakValueDictionary()
    weak["plain"] = plain
    text, holder = collections.UserString("3"), types.SimpleNamespace(a=types.SimpleNamespace(b=2))
    getter, many = operator.attrgetter("a.b"), {str(n): n for n in range(5000)}
    place = "7"

    def change_module() -> None:
        module.N += 1  # type: ignore[attr-defined]

    def change_global() -> None:
        globals()["N"] += 1

    def change_plain() -> None:
        plain.k += 1

    def through_local(x: Any) -> Any:
        local = module
        return x * local.N

    def of_whole(x: Any) -> Any:
        local = whole
        return x * local.k

    def over(values: Any) -> Callable[[Any], Any]:
        def product(x: Any) -> Any:
            for each in values:
                x = x * each.k
            return x

        return product

    def in_order(x: Any) -> Any:
        for value in ordered.values():
            x = x * 2 + value
        return x

    return {
        "import": (_imports, change_module), "from": (_imports_a_name, change_module),
        "local module": (through_local, change_module),
        "getattr of a module": (lambda x: x * getattr(module, "N"), change_module),  # noqa: B009
        "set": (over(in_set), change_plain), "keys": (over(as_key), change_plain),
        "order": (in_order, lambda: ordered.update(a=ordered.pop("a"))),
        "NamedTuple": (lambda x: x * pair.scaled(), change_global),
        "dict of one's own": (lambda x: x * keyed.scaled(), change_global),
        "int of one's own": (of_whole, lambda: setattr(whole, "k", 9)),
        "WeakValueDictionary": (lambda x: x * weak["plain"].k, change_plain),
        "UserString": (lambda x: x * int(text.data), lambda: setattr(text, "data", "4")),
        "dots": (lambda x: x * getter(holder), lambda: setattr(holder.a, "b", 5)),
        "many": (lambda x: x * many[place], lambda: many.update({"7": 70})),
    }  # fmt: skip


@pytest.mark.parametrize("name", _more(types.ModuleType("none")))
def test_more_changes_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("cfg_of_a_test")
    module.N = 2  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cfg_of_a_test", module)
    function, change = _more(module)[name]
    compiled = jit(function)
    before = compiled(X)
    np.testing.assert_array_equal(compiled(X), before)
    assert compiled.stats().traces == 1
    (quick,) = compiled._quick
    assert quick(X) is not MISS
    change()
    np.testing.assert_array_equal(compiled(X), function(X))
    assert not np.array_equal(function(X), before)
