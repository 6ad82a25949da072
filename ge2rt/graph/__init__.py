"""Graphs built by hand, the ge_v2 way: tensors and ops, passes, selection, launches.

``ge2rt.graph.Tensor`` is a value of such a graph: a name with a shape, a dtype and perhaps data.
"""

from __future__ import annotations

from ge2rt.graph.executor import Executor, Launch, Result
from ge2rt.graph.model import Graph, Op, Tensor
from ge2rt.graph.passes import PassManager

__all__ = ["Executor", "Graph", "Launch", "Op", "PassManager", "Result", "Tensor"]
