"""The way from a traced graph to something that runs: one place, so that it can be exchanged."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ge2rt.ir.graph import Graph
from ge2rt.jit.scope import where


class Runner(Protocol):
    """What runs a program on arrays."""

    def run(self, arrays: Sequence[Any], stream: int = 0) -> list[Any]:
        """The outputs, in fresh arrays."""


@dataclass(frozen=True)
class Built:
    """A graph made ready: each stage of the way.

    ``runner`` is the executable program, ``captured`` the same as one CUDA graph where that was
    asked for. ``seconds`` is the time of the build, ``compiled`` the kernels that the compiler was
    asked for.
    """

    graph: Graph
    optimised: Graph
    runner: Runner
    program: Any = None
    device: Any = None
    seconds: float = 0.0
    compiled: int = 0
    reasons: tuple[str, ...] = field(default=())
    captured: Any = None

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs, in fresh arrays."""
        runner: Runner = self.captured or self.runner
        return runner.run(arrays)

    def function(self, miss: Callable[..., Any], *, single: bool) -> Callable[..., Any] | None:
        """Native code of the input arrays, or None where there is none."""
        make = getattr(self.runner, "function", None)
        if make is None or self.captured is not None:
            return None
        made: Callable[..., Any] | None = make(miss, single=single)
        return made

    def tell_caller(self) -> None:
        """Have faults name the line that calls, not the one that was traced.

        A function of this library is traced for the line that calls it first.
        """
        if hasattr(self.runner, "place"):
            self.runner.place = lambda node: where()


Build = Callable[[Graph, Sequence[Any], str, bool, bool], Built]


class Evaluator:
    """Runs a graph by the reference evaluator: for tests of what was traced."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def run(self, arrays: Sequence[Any], stream: int = 0) -> list[Any]:
        """The outputs, in fresh arrays."""
        from ge2rt.ir.evaluate import evaluate  # late: tests only

        return list(evaluate(self._graph, [np.asarray(array) for array in arrays]))


def build_reference(
    graph: Graph, strides: Sequence[Any], device: str, dynamic: bool, capture: bool
) -> Built:
    """A build that compiles nothing."""
    return Built(graph, graph, Evaluator(graph))


def build_kernels(
    graph: Graph, strides: Sequence[Any], device: str, dynamic: bool, capture: bool
) -> Built:
    """Passes, fusion, kernels: the way of every call.

    ``dynamic`` has kernels compiled for any extents at once. ``capture`` makes a CUDA
    graph of the launches, on a cuda device.
    """
    from ge2rt.base import events
    from ge2rt.device.registry import get_device
    from ge2rt.fuse.lower import lower
    from ge2rt.fuse.program import Choices
    from ge2rt.ir.passes import optimise
    from ge2rt.run.program import Executable

    started, before = time.perf_counter(), events.counts().get("compile", 0)
    home = get_device(device)
    optimised = optimise(graph)
    program = lower(optimised, strides, choose=Choices(kind=home.props.kind))
    if dynamic:
        program = program.for_any_extents()
    executable = Executable(program, home)
    captured = executable.capture() if capture and home.props.kind == "cuda" else None
    compiled = events.counts().get("compile", 0) - before
    return Built(
        graph, optimised, executable, program, home, time.perf_counter() - started, compiled,
        captured=captured,
    )  # fmt: skip


default_build: Build = build_kernels
