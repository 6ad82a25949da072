"""Operators: the section ``operators`` of ``ops.yaml`` as functions that ``@jit`` traces."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from ge2rt.base.once import cached_property
from ge2rt.ir.ops import FILE
from ge2rt.jit import functions
from ge2rt.jit.function import JitFunction


@dataclass(frozen=True)
class Operator:
    """One operator: its function of arrays and options, and what is known of it.

    ``kind`` is the group in the file; ``pointwise`` ones have an in-place form. ``static`` are the
    options that are compiled in. ``derive(fill, wanted)`` gives the pullback of one that is no
    function for ``@jit``.
    """

    name: str
    kind: str
    function: Callable[..., Any]
    signature: inspect.Signature
    static: tuple[str, ...]
    meaning: str
    derive: Callable[..., Any] | None = None

    @cached_property
    def jitted(self) -> JitFunction:
        """The function compiled, for any extents from the first call on."""
        return JitFunction(self.function, static=self.static, any_extents=True)

    def __str__(self) -> str:
        return f"{self.name}{self.signature}"


class Array:
    """Marks an option, written ``T``, that is an array or a number and not compiled in."""


@lru_cache(maxsize=1)
def table() -> Mapping[str, Operator]:
    """All operators by name, in the file's order."""
    from ge2rt.spec.marks import read_yaml  # late: only tensors need it

    groups = read_yaml(FILE.read_text(encoding="utf-8")).value["operators"]
    rows = [
        _operator(kind, signature, meaning)
        for kind, group in groups.items() for signature, meaning in group.items()
    ]  # fmt: skip
    return MappingProxyType({row.name: row for row in rows})


def _operator(kind: str, text: str, meaning: str) -> Operator:
    name = text.partition("(")[0]
    scope: dict[str, Any] = {"T": Array, "Any": Any, "meaning": _find(meaning)}
    _define(f"def {text}: pass", scope)
    signature = inspect.signature(scope[name])
    parameters = signature.parameters.values()
    options = [p.name for p in parameters if p.default is not p.empty]
    static = tuple(p.name for p in parameters if p.name in options and p.annotation is not Array)
    passed = [p.name if p.name not in options else f"{p.name}={p.name}" for p in parameters]
    _define(f"def {text}: return meaning({', '.join(passed)})", scope)
    return Operator(name, kind, scope[name], signature, static, meaning)


def _define(text: str, scope: dict[str, Any]) -> None:
    """Run a row of our own file; with its name a fault is told with the caller's line instead."""
    exec(compile(text, str(FILE), "exec"), scope)


def _find(meaning: str) -> Callable[..., Any]:
    """``np.linalg.norm``, ``ge2rt.softmax``."""
    library, *path = meaning.split(".")
    found: Any = np if library == "np" else functions
    for part in path:
        found = getattr(found, part)
    made: Callable[..., Any] = found
    return made


def pointwise() -> Iterator[Operator]:
    """The operators with an in-place form."""
    return (row for row in table().values() if row.kind == "pointwise")
