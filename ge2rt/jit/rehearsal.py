"""What the first call of a jitted function would load and fill, done before it comes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ge2rt.fuse.lower import lower
from ge2rt.fuse.program import Choices
from ge2rt.ir.graph import Graph
from ge2rt.ir.ops import OPS
from ge2rt.ir.passes import NAMES, optimise, pass_named
from ge2rt.jit.backend import Built
from ge2rt.jit.function import JitFunction
from ge2rt.run.program_steps import look_up


def warmup(device: str | None) -> None:
    """Load the op table, the passes, fusion and execution, and take a small function through them.

    It is traced, fused, and its kernel looked for; nothing is compiled or launched.
    """
    len(OPS)  # reads the file
    for name in NAMES:
        pass_named(name)
    import_module("ge2rt.run.program")  # what runs the real ones
    values = np.zeros((2, 4), np.float32)
    JitFunction(_small, device=device, build=_looked_up)(values, values)


def _small(x: Any, y: Any) -> Any:
    return x * 2 + y


def _looked_up(
    graph: Graph, strides: Sequence[Any], device: str, dynamic: bool, capture: bool
) -> Built:
    from ge2rt.device.registry import get_device

    home = get_device(device)
    optimised = optimise(graph)
    look_up(lower(optimised, strides, choose=Choices(kind=home.props.kind)), home)
    return Built(graph, optimised, _Zeros(graph))


class _Zeros:
    """In place of the program."""

    def __init__(self, graph: Graph) -> None:
        self._shapes = [node.shape for node in graph.outputs]

    def run(self, arrays: Sequence[Any], stream: int = 0) -> list[Any]:
        """The outputs, without values."""
        return [np.zeros(shape, np.float32) for shape in self._shapes]
