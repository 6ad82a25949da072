"""A specialisation: the function traced and built for one kind of call, and its stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.jit.arguments import (
    ArrayKey,
    Binder,
    Call,
    NumberKey,
    array_key,
    carried,
    overlap,
    settled,
)
from ge2rt.jit.backend import Built
from ge2rt.jit.faults import RangeError
from ge2rt.jit.noted import Captures
from ge2rt.jit.quick import NUMBERS, missed, write_quick
from ge2rt.jit.tracing import TracedCall
from ge2rt.jit.trees import LEAF

Quick = Callable[..., Any]


@dataclass(frozen=True)
class Form:
    """What one trace and one build made: everything that a call needs."""

    call: Call
    traced: TracedCall
    built: Built
    captures: Captures
    captured_keys: tuple[ArrayKey, ...]
    reason: str
    quicks: dict[tuple[int, tuple[str, ...]], Quick | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls, call: Call, traced: TracedCall, built: Built, captures: Captures, reason: str
    ) -> Form:
        """The form, with the keys of the captured arrays."""
        bare = Call([], call.names, call.structure, call.keys)  # the leaves may be freed
        keys = tuple(array_key(array) for array in traced.captured)
        return cls(bare, traced, built, captures, keys, reason)

    def stale(self) -> str:
        """What differs from the time of the trace among all that was captured; empty if nothing."""
        changed = self.captures.changed()
        if changed:
            return f"captured {changed} is another value now"
        for array, key in zip(self.traced.captured, self.captured_keys, strict=True):
            if array_key(array) != key:
                return "a captured array changed its shape, dtype or strides"
        for array, copy in self.traced.pinned:
            if not np.array_equal(array, copy, equal_nan=copy.dtype.kind == "f"):
                return "a captured array whose values shaped the program holds other values now"
        return ""

    def run(self, leaves: Sequence[Any]) -> Any:
        """The result of a call with these leaves."""
        keys = self.call.keys
        arrays = [_array(leaves[place], keys[place]) for place in self.traced.inputs]
        self._check_writeable(leaves)
        self._check_overlap(leaves)
        arrays += [
            settled(array, key)
            for array, key in zip(self.traced.captured, self.captured_keys, strict=True)
        ]
        arrays = [carried(array, self.built.device) for array in arrays]
        outputs = self.built.run(arrays) if self.built.graph.outputs else []
        for place, output in self.traced.written:
            leaves[place][...] = outputs[output]
        return self.traced.result.tree(outputs)

    def _check_writeable(self, leaves: Sequence[Any]) -> None:
        for place, _ in self.traced.written:
            flags = getattr(leaves[place], "flags", None)
            if isinstance(leaves[place], np.generic) or not getattr(flags, "writeable", True):
                raise InvalidArgumentError(
                    "the function changes this argument in place, and it is read-only",
                    argument=self.call.names[place],
                    next_step="pass a copy, or write x = x + y instead of x += y",
                )  # fmt: skip

    def _check_overlap(self, leaves: Sequence[Any]) -> None:
        """What is written may not lie in memory that was read afterwards, or is captured."""
        names = self.call.names
        pairs = [(leaves[a], leaves[b], names[a], names[b]) for a, b in self.traced.later]
        pairs += [
            (leaves[place], array, names[place], "a captured array")
            for place, _ in self.traced.written for array in self.traced.captured
        ]  # fmt: skip
        for first, second, name, other in pairs:
            if overlap(first, second):
                raise InvalidTypeError(
                    f"the function changes this argument in place, and it shares memory with "
                    f"{other}, which the function uses afterwards", argument=name,
                    next_step="pass a copy of one of them",
                )  # fmt: skip

    def quick(self, binder: Binder, style: tuple[int, tuple[str, ...]]) -> Quick | None:
        """A quick function for calls of this style (see :mod:`ge2rt.jit.quick`), or None."""
        if self.traced.written or self.traced.pinned or not self.built.graph.outputs:
            return None  # contents are compared, arguments written: that is for the long way
        result = self.traced.result
        native = self.built.function(missed, single=result.single)
        if native is None:
            return write_quick(self, binder, style, None)
        plain = all(type(key) is ArrayKey for key in self.call.keys)
        flat = all(structure == LEAF for _, structure in self.call.structure)  # type: ignore[union-attr]
        bare = not (style[1] or self.captures.noted or self.traced.captured)
        if plain and flat and bare and (result.single or result.flat):
            return native
        return write_quick(self, binder, style, native)


def _array(leaf: Any, key: Any) -> Any:
    if isinstance(key, NumberKey):
        try:
            return np.array(leaf, NUMBERS[key.kind])
        except OverflowError:
            raise RangeError(
                f"Python integer {leaf} does not fit int64", next_step="pass a float"
            ) from None
    return settled(leaf, key)


class Compiled:
    """A function compiled for one kind of call. Calling it with another is a TypeError.

    ``constants`` are the captured arrays: they are inputs behind the arguments, read on each call.
    """

    def __init__(self, form: Form, bind: Callable[..., Call], name: str) -> None:
        self._form = form
        self._bind = bind
        self._concrete = frozenset(
            place for place, key in enumerate(form.call.keys)
            if not isinstance(key, (ArrayKey, NumberKey))
        )  # fmt: skip
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result; TypeError ("specialization") for arguments of another kind."""
        call = self._bind(args, kwargs)
        if call.structure == self._form.call.structure:
            numbers = frozenset(
                place for place in self._concrete if isinstance(call.keys[place], NumberKey)
            )
            call = call.with_static(numbers)
        if call.key != self._form.call.key or self._form.traced.outside(call.leaves):
            raise self._refused(call)
        stale = self._form.stale()
        if stale:
            raise InvalidTypeError(
                f"{self.__name__}: the specialization no longer holds: {stale}",
                next_step="compile it again, or call the jitted function itself",
            )
        return self._form.run(call.leaves)

    def _refused(self, call: Call) -> InvalidTypeError:
        expected, got = self.signature, _listed(call)
        return InvalidTypeError(
            f"{self.__name__}: the call does not match this specialization",
            expected=expected, got=got,
            next_step="call the jitted function itself, which compiles for any kind of call",
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Compiled {self.__name__}({self.signature})>"

    @property
    def signature(self) -> str:
        """The arguments it was compiled for."""
        return _listed(self._form.call)

    @property
    def constants(self) -> tuple[Any, ...]:
        """The captured arrays, in the order of the inputs behind the arguments."""
        return self._form.traced.captured

    @property
    def built(self) -> Built:
        """All that the build left: graphs, program, executable."""
        return self._form.built

    @property
    def stages(self) -> Mapping[str, Any]:
        """The stages by name: graph, optimised, selection, cuda, ptx, llvm or sass, plan."""
        from ge2rt.jit.stages import stages_of  # late: for readers only

        return stages_of(self._form.built)

    def report(self, path: str) -> None:
        """Write one self-contained HTML page about all stages."""
        import importlib

        importlib.import_module("ge2rt.report.program").write_report(self, path)


def _listed(call: Call) -> str:
    return ", ".join(f"{n}: {k}" for n, k in zip(call.names, call.keys, strict=True))
