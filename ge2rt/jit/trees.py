"""Trees of values: tuples, lists, dicts, NamedTuples and dataclasses taken apart and put together.

A structure is a hashable description of all that is not a leaf. ``None`` is a leaf.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ge2rt.base.errors import InvalidTypeError


@dataclass(frozen=True)
class Leaf:
    """The place of a leaf."""

    def __str__(self) -> str:
        return "*"


@dataclass(frozen=True)
class Branch:
    """A container: how it is rebuilt (``kind``, ``names``) and what it holds."""

    kind: type
    names: tuple[Hashable, ...]
    parts: tuple[Structure, ...]

    def __str__(self) -> str:
        named = self.names or ("",) * len(self.parts)
        listed = [f"{n}={p}" if n != "" else str(p) for n, p in zip(named, self.parts, strict=True)]
        return f"{self.kind.__name__}({', '.join(listed)})"


Structure = Leaf | Branch
LEAF = Leaf()
_DEEPEST = 64


def flatten(value: Any, path: str = "") -> tuple[list[Any], Structure, list[str]]:
    """Leaves, structure, and a name for each leaf such as ``params['w'][0]``."""
    leaves: list[Any] = []
    names: list[str] = []
    structure = _take_apart(value, path, leaves, names, 0)
    return leaves, structure, names


def _take_apart(
    value: Any, path: str, leaves: list[Any], names: list[str], depth: int
) -> Structure:
    parted = parts_of(value)
    if parted is None:
        leaves.append(value)
        names.append(path)
        return LEAF
    if depth == _DEEPEST:
        raise InvalidTypeError(
            "containers nested too deep, or in themselves", argument=path,
            expected=f"at most {_DEEPEST} levels", next_step="pass the arrays themselves",
        )  # fmt: skip
    keys, values, spell = parted
    parts = tuple(
        _take_apart(item, spell(path, key), leaves, names, depth + 1)
        for key, item in zip(keys, values, strict=True)
    )
    return Branch(type(value), keys if isinstance(value, dict) else (), parts)


Parts = tuple[tuple[Any, ...], Sequence[Any], Callable[[str, Any], str]]


def parts_of(value: Any) -> Parts | None:
    """Keys, values and how a place is spelt; None for a leaf."""
    kind = type(value)
    if kind in (tuple, list):
        return tuple(range(len(value))), value, _item
    if isinstance(value, dict):
        return tuple(value), list(value.values()), _item
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(value._fields), value, _attribute
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(f.name for f in dataclasses.fields(value) if f.init)
        return names, [getattr(value, name) for name in names], _attribute
    if isinstance(value, (tuple, list)):
        return tuple(range(len(value))), value, _item
    return None


def _item(path: str, key: Any) -> str:
    return f"{path}[{key!r}]"


def _attribute(path: str, key: Any) -> str:
    return f"{path}.{key}"


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of this structure with these leaves."""
    return _put_together(structure, iter(leaves))


def _put_together(structure: Structure, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Leaf):
        return next(leaves)
    parts = [_put_together(part, leaves) for part in structure.parts]
    kind = structure.kind
    if issubclass(kind, dict):
        pairs = zip(structure.names, parts, strict=True)
        return dict(pairs) if kind is dict else _like_dict(kind, pairs)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return kind(*parts)
    if dataclasses.is_dataclass(kind):
        names = (f.name for f in dataclasses.fields(kind) if f.init)
        return kind(**dict(zip(names, parts, strict=True)))
    return kind(parts)  # type: ignore[call-arg]


def _like_dict(kind: type, pairs: Any) -> Any:
    made = kind()
    made.update(pairs)
    return made
