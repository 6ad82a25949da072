"""Modules of modules: ``Sequential`` calls them in turn, ``ModuleList`` holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, overload

from ge2rt.base.errors import InvalidTypeError
from ge2rt.nn.module import Module


class Sequential(Module):
    """Modules and functions one after the other, ``parts``: each takes what the last one gave.

    ``model[0]``, ``model[-1]``, ``len(model)`` and loops go over the parts; a slice is a
    ``Sequential`` of the same parts. TypeError for a part that cannot be called.
    """

    def __init__(self, *parts: Callable[..., Any]) -> None:
        for part in parts:
            if not callable(part):
                raise InvalidTypeError(
                    "a part of a Sequential is neither a module nor a function", argument="parts",
                    got=type(part).__name__, next_step="list them one by one: Sequential(a, b)",
                )  # fmt: skip
        self.parts = list(parts)

    def forward(self, x: Any) -> Any:
        """The last part's result."""
        for part in self.parts:
            x = part(x)
        return x

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter(self.parts)

    def __getitem__(self, at: int | slice) -> Any:
        return Sequential(*self.parts[at]) if isinstance(at, slice) else self.parts[at]


class ModuleList(Module):
    """A list of modules; their names are ``name.0``, ``name.1``... as those of a plain list.

    A plain list that is an attribute of a module does as well. TypeError for what is no module.
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.items: list[Module] = []
        self.extend(modules)

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end."""
        if not isinstance(module, Module):
            raise InvalidTypeError(
                "an item of a ModuleList is no module", argument="modules",
                got=type(module).__name__, next_step="keep functions in a plain list",
            )  # fmt: skip
        self.items.append(module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def members(self) -> Iterator[tuple[str, Any]]:
        """The items by number."""
        return ((str(number), item) for number, item in enumerate(self.items))

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.items)

    @overload
    def __getitem__(self, at: int) -> Module: ...

    @overload
    def __getitem__(self, at: slice) -> ModuleList: ...

    def __getitem__(self, at: int | slice) -> Module | ModuleList:
        return ModuleList(self.items[at]) if isinstance(at, slice) else self.items[at]
