"""What objects hold is noted as captured values are: of ``self``, of layers, of a model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ge2rt.jit import JitFunction, jit
from ge2rt.jit.backend import build_kernels, build_reference

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(params=[build_reference, build_kernels], ids=["reference", "kernels"])
def build(request: pytest.FixtureRequest) -> Any:
    return request.param


class Layer:
    def __init__(self, gain: float) -> None:
        self.w = np.ones(3, np.float32)
        self.gain = gain
        self.unused = 0

    def __call__(self, x: Any) -> Any:
        return x * self.w + self.gain


class Slotted:
    __slots__ = ("power",)

    def __init__(self, power: int) -> None:
        self.power = power


class Model:
    offset = 0.5

    def __init__(self) -> None:
        self.layers = [Layer(1.0), Layer(2.0)]
        self.slotted = Slotted(2)
        self.activation: Callable[[Any], Any] = np.tanh
        self.scale = 2.0
        self.calls = 0

    @property
    def twice(self) -> float:
        return self.scale * 2

    def helper(self, x: Any) -> Any:
        return x * self.twice

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        slotted = self.slotted
        return self.activation(self.helper(x) ** slotted.power / 100) + self.offset


def _agree(f: Any, plain: Any, *args: Any) -> None:
    for _ in range(3):
        np.testing.assert_allclose(f(*args), plain(*args), rtol=1e-5)


CHANGES: dict[str, Callable[[Model], None]] = {
    "a number": lambda m: setattr(m, "scale", 3.0),
    "an attribute of the class, set on the object": lambda m: setattr(m, "offset", 7.0),
    "a function": lambda m: setattr(m, "activation", np.arctan),
    "an array of a layer": lambda m: setattr(m.layers[1], "w", np.full(3, 3, np.float32)),
    "an array in place": lambda m: m.layers[0].w.fill(5),
    "a number of a layer": lambda m: setattr(m.layers[0], "gain", -1.0),
    "a layer": lambda m: m.layers.__setitem__(0, Layer(9.0)),
    "one layer more": lambda m: m.layers.append(Layer(0.25)),
    "a slot": lambda m: setattr(m.slotted, "power", 3),
    "an object": lambda m: setattr(m, "slotted", Slotted(1)),
}


@pytest.mark.parametrize("way", ["static", "method", "partial", "closure", "callable"])
@pytest.mark.parametrize("change", list(CHANGES))
def test_what_an_object_holds(way: str, change: str) -> None:
    model = Model()
    f, args = {
        "static": lambda: (
            JitFunction(Model.forward, static=("self",), build=build_reference), (model, X),
        ),
        "method": lambda: (JitFunction(model.forward, build=build_reference), (X,)),
        "partial": lambda: (
            JitFunction(functools.partial(Model.forward, model), build=build_reference), (X,),
        ),
        "closure": lambda: (JitFunction(lambda x: model.forward(x), build=build_reference), (X,)),
        "callable": lambda: (JitFunction(_Wrapper(model), build=build_reference), (X,)),
    }[way]()  # fmt: skip

    def plain(*_: Any) -> Any:
        return model.forward(X)

    _agree(f, plain, *args)
    CHANGES[change](model)
    _agree(f, plain, *args)
    CHANGES["a number of a layer"](model)
    model.layers[0].gain = 11.0
    _agree(f, plain, *args)


class _Wrapper:
    def __init__(self, model: Model) -> None:
        self.model = model

    def __call__(self, x: Any) -> Any:
        model = self.model
        return model.forward(x)


def test_a_jitted_method(build: Any) -> None:
    class Scaled:
        def __init__(self) -> None:
            self.w, self.scale, self.note = np.ones((3, 2), np.float32), 2.0, ""

        def plain(self, x: Any) -> Any:
            return (x @ self.w) * self.scale

        f = JitFunction(plain, static=("self",), build=build)

    one, two = Scaled(), Scaled()
    two.scale = 5.0
    for each in (one, two):
        _agree(each.f, each.plain, X)
    one.scale = 10.0
    for each in (one, two):
        _agree(each.f, each.plain, X)
    one.w = one.w * 2
    _agree(one.f, one.plain, X)
    one.w[:] = 7
    _agree(one.f, one.plain, X)
    log = Scaled.f.stats()
    assert log.traces == 4
    assert "self.scale" in log.specialisations[2].reason
    assert "self.w" in log.specialisations[3].reason


def test_what_the_code_does_not_read_may_change() -> None:
    model = Model()
    f = jit(Model.forward, static=("self",))
    f(model, X)
    model.calls += 1
    model.layers[0].unused = 3
    f(model, X)
    assert f.stats().traces == 1


def test_what_the_method_itself_changes_is_no_guard() -> None:
    class Counting:
        def __init__(self) -> None:
            self.traced = 0

        @jit(static=("self",))
        def f(self, x: Any) -> Any:
            self.traced += 1
            return x + 1

    counting = Counting()
    for _ in range(3):
        counting.f(X)
    assert counting.traced == 1


def test_an_array_of_an_object_that_shapes_the_program() -> None:
    class Choosing:
        def __init__(self) -> None:
            self.table = np.zeros(3, np.float32)

        def plain(self, x: Any) -> Any:
            return x * 2 if self.table[0] > 0 else x * 3 + np.sqrt(self.table)

        f = jit(plain, static=("self",))

    choosing = Choosing()
    _agree(choosing.f, choosing.plain, X)
    choosing.table[1] = 4
    _agree(choosing.f, choosing.plain, X)
    choosing.table[0] = 1
    _agree(choosing.f, choosing.plain, X)


def test_what_a_function_given_as_an_argument_captured() -> None:
    gain = 2.0
    f = jit(lambda act, x: act(x) + 1)

    def act(x: Any) -> Any:
        return x * gain

    np.testing.assert_array_equal(f(act, X), X * 2 + 1)
    gain = 3.0
    np.testing.assert_array_equal(f(act, X), X * 3 + 1)


def test_an_object_under_a_local_name() -> None:
    model = Model()

    def g(x: Any) -> Any:
        own = model
        inner = own.slotted
        return x * own.scale**inner.power

    f = jit(g)
    _agree(f, g, X)
    model.scale = 4.0
    _agree(f, g, X)
    model.slotted.power = 3
    _agree(f, g, X)


class Named:
    """Equal by its name, whatever it holds."""

    def __init__(self, name: str, gain: float) -> None:
        self.name, self.gain = name, gain

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


@dataclasses.dataclass(frozen=True)
class Record:
    gain: float
    note: str = dataclasses.field(default="", compare=False)
    named: Named | None = None


def test_equal_objects_that_differ(build: Any) -> None:
    first, second = Named("a", 2.0), Named("a", 5.0)
    f = JitFunction(lambda x, e: x * e.gain, static=("e",), build=build)
    g = JitFunction(lambda x, e: x * e[0].gain, static=("e",), build=build)
    h = JitFunction(lambda x, e: x * e.named.gain, static=("e",), build=build)
    for _ in range(2):
        for each in (first, second):
            for _ in range(2):
                np.testing.assert_array_equal(f(X, each), X * each.gain)
                np.testing.assert_array_equal(g(X, (each,)), X * each.gain)
                np.testing.assert_array_equal(h(X, Record(1.0, named=each)), X * each.gain)
        second.gain = 9.0
    assert [each.stats().traces for each in (f, g, h)] == [3, 3, 3]


def test_equal_plain_values_share_a_form() -> None:
    f = JitFunction(lambda x, r: x * r.gain + len(r.note), static=("r",), build=build_reference)
    for record in (Record(2.0), Record(2.0), Record(0.0), Record(-0.0), Record(2.0, "ab")):
        for _ in range(2):
            got, want = f(X, record), X * record.gain + len(record.note)
            np.testing.assert_array_equal(got, want)
    assert f.stats().traces == 4
    g = JitFunction(lambda x, t: x * t[0], static=("t",), build=build_reference)
    for pair in ((2.0, "a"), (float("2"), "a"), (2, "a"), (True, "a")):
        g(X, pair), g(X, pair)
    assert g.stats().traces == 3


def _patchable() -> tuple[type, type, Any]:
    """A class, one derived from it, and an object of that: each time others."""

    class Base:
        gain = 2.0

        def helper(self, x: Any) -> Any:
            return x * 2

        def above(self, x: Any) -> Any:
            return x + 1

        @property
        def k(self) -> float:
            return 3.0

        @staticmethod
        def fixed(x: Any) -> Any:
            return x - 4

        @classmethod
        def of_class(cls, x: Any) -> Any:
            return x * cls.gain

        def __call__(self, x: Any) -> Any:
            return x + 100

    class Derived(Base):
        def above(self, x: Any) -> Any:
            return super().above(x) * 2

        def f(self, x: Any) -> Any:
            called = self(x) + self.of_class(x)
            return called + self.helper(x) * self.k + self.above(x) * self.fixed(x)

    return Base, Derived, Derived()


def _turn(base: type, derived: type, one: Any) -> None:
    one.__class__ = type("Other", (derived,), {"helper": lambda self, x: x * 11})


def _rebase(base: type, derived: type, one: Any) -> None:
    derived.__bases__ = (type("Between", (base,), {"fixed": staticmethod(lambda x: x * 5)}),)


PATCHES: dict[str, Callable[[Any, Any, Any], None]] = {
    "a method": lambda base, derived, one: setattr(base, "helper", lambda self, x: x + 5),
    "one that hides it": lambda base, derived, one: setattr(
        derived, "helper", lambda self, x: x - 7
    ),
    "the object's own": lambda base, derived, one: setattr(one, "helper", lambda x: x * 9),
    "what super() finds": lambda base, derived, one: setattr(base, "above", lambda self, x: x - 3),
    "a property": lambda base, derived, one: setattr(base, "k", property(lambda self: 8.0)),
    "a static method": lambda base, derived, one: setattr(base, "fixed", staticmethod(np.sin)),
    "a class method": lambda base, derived, one: setattr(
        base, "of_class", classmethod(lambda cls, x: x * 13)
    ),
    "a class's attribute": lambda base, derived, one: setattr(base, "gain", 6.0),
    "the operator": lambda base, derived, one: setattr(base, "__call__", lambda self, x: x - 6),
    "the class": _turn,
    "the base": _rebase,
}


@pytest.mark.parametrize("way", ["static", "closure"])
@pytest.mark.parametrize("patch", list(PATCHES))
def test_methods_that_are_exchanged(way: str, patch: str) -> None:
    base, derived, one = _patchable()
    f, args = {
        "static": lambda: (
            JitFunction(derived.f, static=("self",), build=build_reference), (one, X),
        ),
        "closure": lambda: (JitFunction(lambda x: one.f(x), build=build_reference), (X,)),
    }[way]()  # fmt: skip

    def plain(*_: Any) -> Any:
        return one.f(X)

    _agree(f, plain, *args)
    PATCHES[patch](base, derived, one)
    _agree(f, plain, *args)
    assert f.stats().traces == 2


def test_a_function_that_an_object_holds() -> None:
    one = _patchable()[2]
    one.helper = lambda x: x * 9
    f = jit(lambda x: one.f(x))
    _agree(f, one.f, X)
    one.helper = lambda x: x * 10
    _agree(f, one.f, X)
    del one.helper
    _agree(f, one.f, X)
