"""The way from a traced graph to something that runs: one place, so that it can be exchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ge2rt.ir.graph import Graph


class Runner(Protocol):
    """What runs a program on arrays."""

    def run(self, arrays: Sequence[Any], stream: int = 0) -> list[Any]:
        """The outputs, in fresh arrays."""


@dataclass(frozen=True)
class Built:
    """A graph made ready: each stage of the way."""

    graph: Graph
    optimised: Graph
    runner: Runner
    program: Any = None
    device: Any = None
    seconds: float = 0.0
    compiled: int = 0
    reasons: tuple[str, ...] = field(default=())


Build = Callable[[Graph, Sequence[Any], str | None, bool, bool], Built]


class Evaluator:
    """Runs a graph by the reference evaluator: for tests of what was traced."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def run(self, arrays: Sequence[Any], stream: int = 0) -> list[Any]:
        """The outputs, in fresh arrays."""
        from ge2rt.ir.evaluate import evaluate  # late: tests only

        return list(evaluate(self._graph, [np.asarray(array) for array in arrays]))


def build_reference(
    graph: Graph, strides: Sequence[Any], device: str | None, dynamic: bool, capture: bool
) -> Built:
    """A build that compiles nothing."""
    return Built(graph, graph, Evaluator(graph))


default_build: Build = build_reference
