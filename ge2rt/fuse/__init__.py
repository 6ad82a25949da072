"""Fusion and code generation: an optimised graph becomes a program of kernel launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ge2rt.fuse.lower import lower
    from ge2rt.fuse.program import Choices, Program

__all__ = ["Choices", "Program", "lower"]


def __getattr__(name: str) -> Any:
    """``lower``, ``Program``, ``Choices``, loaded on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("ge2rt.fuse.lower" if name == "lower" else _PROGRAM), name)


_PROGRAM = "ge2rt.fuse.program"
