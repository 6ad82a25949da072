"""The repeated call: a function written for one form, which looks at what it must and no more.

It checks what was captured, takes containers apart by what they were, and hands the arrays on: to
native code, which compares types, dtypes, shapes and strides itself, or, after comparing them here,
to a program that is run from Python. Whatever differs is a MISS: the long way owns all messages.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.shapes import contiguous_strides
from ge2rt.device.array import DeviceArray
from ge2rt.jit.arguments import (
    ArrayKey,
    Binder,
    NumberKey,
    ScalarKey,
    StaticKey,
    carried,
    essence,
)
from ge2rt.jit.noted import layout_of
from ge2rt.jit.trees import Branch, Structure

NUMBERS = {int: np.dtype(np.int64), float: np.dtype(np.float64)}
_BY_EQUALITY = (bool, int, str, bytes)  # equal ones of one of these types are alike


class _Miss:
    """The answer to a call that a form is not for."""

    def __repr__(self) -> str:
        return "MISS"


MISS = _Miss()


def missed(*arrays: Any) -> Any:
    """What native code does with arrays that it does not know."""
    return MISS


class _Writer:
    """Lines of the function, and the objects that they name."""

    def __init__(
        self, keys: tuple[Any, ...], ranges: tuple[tuple[int, int, int], ...], *, native: bool
    ) -> None:
        self.keys = keys
        self.ranges = {place: (least, most) for place, least, most in ranges}
        self.native = native
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {
            "MISS": MISS, "ndarray": np.ndarray, "device_array": DeviceArray,
        }  # fmt: skip
        if "cupy" in sys.modules:
            self.scope["cuda_array"] = sys.modules["cupy"].ndarray
        self.leaves: list[str] = []

    def name(self, value: Any) -> str:
        """A name for an object."""
        name = f"v{len(self.scope)}"
        self.scope[name] = value
        return name

    def require(self, condition: str) -> None:
        """A miss unless the condition holds."""
        self.lines.append(f"if not ({condition}): return MISS")

    def let(self, expression: str) -> str:
        """A local variable."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def take_apart(self, expression: str, structure: Structure | None) -> None:
        """Collect the leaves of an argument."""
        if not isinstance(structure, Branch):
            self._leaf(expression)
            return
        local, kind = self.let(expression), structure.kind
        self.require(f"type({local}) is {self.name(kind)}")
        if not dataclasses.is_dataclass(kind):
            self.require(f"len({local}) == {len(structure.parts)}")
        if issubclass(kind, dict):  # equal keys in another order are another tree
            self.require(f"tuple({local}) == {self.name(tuple(structure.names))}")
        for part, place in zip(structure.parts, _places(structure), strict=True):
            key = self.name(place[1])
            self.take_apart(f"{local}.{place[1]}" if place[0] else f"{local}[{key}]", part)

    def _leaf(self, expression: str) -> None:
        key = self.keys[len(self.leaves)]
        if isinstance(key, ScalarKey):
            local, kind = self.let(expression), DTYPES[key.dtype].numpy.type
            self.require(f"type({local}) is {self.name(kind)}")
            self.leaves.append(f"{self.name(np.asarray)}({local})")
        elif isinstance(key, ArrayKey):
            self.leaves.append(self.array(expression, key))
        elif isinstance(key, NumberKey):
            local = self.let(expression)
            self.require(f"type({local}) is {key.kind.__name__}")
            if key.kind is int:
                least, most = self.ranges[len(self.leaves)]
                self.require(f"{least} <= {local} <= {most}")
            array, dtype = self.name(np.array), self.name(NUMBERS[key.kind])
            self.leaves.append(f"{array}({local}, {dtype})")
        else:
            self._static(self.let(expression), key)
            self.leaves.append("")

    def array(self, expression: str, key: ArrayKey) -> str:
        """An array; native code looks at it by itself."""
        if self.native:  # a plain place cannot be missing, a name or a key can
            return expression if expression.startswith("_a[") else self.let(expression)
        local, dtype = self.let(expression), DTYPES[key.dtype].numpy
        steps = contiguous_strides(key.shape) if key.strides is None else key.strides
        strides = tuple(step * dtype.itemsize for step in steps)
        place, _, number = key.home.partition(":")
        kind = {"cpu": "ndarray", "cuda": "cuda_array"}.get(place, "device_array")
        self.require(
            f"type({local}) is {kind} and {local}.dtype is {self.name(dtype)} and "
            f"{local}.shape == {key.shape} and {local}.strides == {strides}"
        )
        if place == "cuda":
            self.require(f"{local}.device.id == {int(number)}")
        elif place != "cpu":
            self.require(f"{local}.device.name == {key.home!r}")
        return local

    def _static(self, local: str, key: StaticKey) -> None:
        value = self.name(key.value)
        same = f"{local} is {value}"
        if key.kind in _BY_EQUALITY:
            same += f" or type({local}) is {self.name(key.kind)} and {local} == {value}"
        elif key.essence != (key.kind, id(key.value)):  # 0.0 is not -0.0, (1,) not (1.0,)
            same += f" or {self.name(essence)}({local}) == {self.name(key.essence)}"
        self.require(same)


def _places(structure: Branch) -> list[tuple[bool, Any]]:
    """(is an attribute, key) of each part."""
    kind = structure.kind
    if issubclass(kind, dict):
        return [(False, key) for key in structure.names]
    if dataclasses.is_dataclass(kind):
        return [(True, f.name) for f in dataclasses.fields(kind) if f.init]
    return [(False, index) for index in range(len(structure.parts))]


def write_quick(
    form: Any, binder: Binder, style: tuple[int, tuple[str, ...]],
    native: Callable[..., Any] | None,
) -> Callable[..., Any] | None:  # fmt: skip
    """The function for calls of this style: (positional arguments, names of the others).

    ``native`` takes the arrays; without it they are run as a list, from Python.
    """
    expressions = _expressions(form.call.structure, binder, style)
    if expressions is None:
        return None
    writer = _Writer(form.call.keys, form.traced.ranges, native=native is not None)
    count, names = style
    writer.require(f"len(_a) == {count}" + (f" and len(_k) == {len(names)}" if names else ""))
    for noted in form.captures.noted:
        if noted.fresh:
            writer.require(f"{writer.name(noted.unchanged)}()")
        else:
            writer.require(f"{writer.name(noted.read)}() is {writer.name(noted.value)}")
    for _, array, layout in form.captures.layouts:
        writer.require(f"{writer.name(layout_of)}({writer.name(array)}) == {writer.name(layout)}")
    for expression, (_, structure) in zip(expressions, form.call.structure, strict=True):
        writer.take_apart(expression, structure)
    arrays = [writer.leaves[place] for place in form.traced.inputs]
    arrays += [
        writer.array(writer.name(array), key)
        for array, key in zip(form.traced.captured, form.captured_keys, strict=True)
    ]
    result = form.traced.result
    call = f"{writer.name(native)}({', '.join(arrays)})"
    if native is None:
        call = f"{writer.name(_runner(form.built))}([{', '.join(arrays)}])"
        call = f"{call}[0]" if result.single else f"tuple({call})" if result.flat else call
    if result.single or result.flat:
        writer.lines.append(f"return {call}")
    else:
        local = writer.let(call)
        writer.lines.append(
            f"return MISS if {local} is MISS else {writer.name(result.tree)}({local})"
        )
    return _compiled(writer, bool(names))


def _runner(built: Any) -> Callable[[list[Any]], Any]:
    """What runs a program from Python; numbers and captured host arrays go to its device."""
    device = built.device
    if device is None or device.accepts("cpu"):
        made: Callable[[list[Any]], Any] = built.run
        return made
    return lambda arrays: built.run([carried(array, device) for array in arrays])


def _compiled(writer: _Writer, named: bool) -> Callable[..., Any]:
    faults = writer.name((KeyError, IndexError, AttributeError, ValueError, TypeError))
    head = "def quick(*_a, **_k):" if named else "def quick(*_a):"
    looks, last = writer.lines[:-1], writer.lines[-1]
    if last.startswith("return MISS if"):
        looks, last = writer.lines[:-2], f"{writer.lines[-2]}\n    {last}"
    lines = [head, "    try:", *(f"        {line}" for line in looks),
             f"    except {faults}:", "        return MISS", f"    {last}"]  # fmt: skip
    code = compile("\n".join(lines), f"{__file__} (written)", "exec")  # not the user's line
    exec(code, writer.scope)  # the text is made of numbers and of the names above only
    made: Callable[..., Any] = writer.scope["quick"]
    return made


def _expressions(
    structure: Any, binder: Binder, style: tuple[int, tuple[str, ...]]
) -> list[str] | None:
    """Where each bound argument stands in the call; None where that is not plain."""
    if binder.signature is None:
        return None
    count, names = style
    parameters: Mapping[str, inspect.Parameter] = binder.signature.parameters
    free = [name for name, _ in structure if name.startswith("**")]
    if len(free) > 1 and any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None  # their order counts, too
    order = list(parameters)
    found = []
    for name, _ in structure:
        plain = name.removeprefix("**")
        if plain in names and plain.isidentifier():
            found.append(f"_k[{plain!r}]")
            continue
        if name not in parameters or not name.isidentifier():
            return None
        place = order.index(name)
        if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            found.append(f"_a[{place}:]")
        elif place < count:
            found.append(f"_a[{place}]")
        else:
            return None
    return found
