"""Passes over graphs: each is ``run(graph) -> graph`` in a file of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.ir.graph import Graph

DEFAULT: tuple[str, ...] = (
    "canonicalise", "fold", "cse", "dce", "canonicalise", "attention", "gemm_epilogue", "views",
    "canonicalise", "fold", "cse",
)  # fmt: skip
NAMES: tuple[str, ...] = tuple(dict.fromkeys(DEFAULT))


def optimise(
    graph: Graph,
    passes: Sequence[str] | None = None,
    *,
    seen: Callable[[str, Graph], object] | None = None,
) -> Graph:
    """The graph after ``passes`` (names; None: the default list).

    ``seen`` is called with each pass's name and its result: to check, print or keep it.
    """
    for name in DEFAULT if passes is None else passes:
        graph = pass_named(name)(graph)
        if seen is not None:
            seen(name, graph)
    return graph


def pass_named(name: str) -> Callable[[Graph], Graph]:
    """The pass of this name. Raises :class:`InvalidArgumentError` for an unknown one."""
    if name not in NAMES:
        raise InvalidArgumentError(
            f"unknown pass {name!r}", expected=", ".join(NAMES),
            next_step="see ge2rt.ir.passes.NAMES",
        )  # fmt: skip
    run: Callable[[Graph], Graph] = import_module(f"ge2rt.ir.passes.{name}").run
    return run
