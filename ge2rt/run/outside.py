"""What to say of an index outside of its array: a kernel tells that there was one, and no more.

Which index, of how many, and on which line of the user's code is found from the program's graph
and its inputs, after the fault. Only what the index is made of is evaluated, by the reference
evaluator; where that would take long, or the inputs lie on another device, the line alone is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge2rt.base.errors import Ge2rtError
from ge2rt.fuse.program import KernelStep, Program
from ge2rt.ir.graph import Graph, Node, walk

_MOST_ELEMENTS = 20_000_000  # of all that is evaluated


@dataclass(frozen=True)
class Outside:
    """A node whose index lies outside: which index, and how many elements there are, if known."""

    node: Node
    index: int | None = None
    extent: int | None = None

    @property
    def got(self) -> str:
        """The index, in words."""
        return "" if self.index is None else f"index {self.index}"

    @property
    def expected(self) -> str:
        """Which indices there are, in words."""
        return "" if self.extent is None else f"-{self.extent} <= index < {self.extent}"


def find_outside(program: Program, step: KernelStep, arrays: Sequence[Any]) -> Outside | None:
    """The node of a step that has met an index outside of its array; None where it has none."""
    numbered = (*program.graph.inputs, *program.graph.nodes)
    computed = [numbered[place] for place in step.members]
    looking = [node for node in computed if node.op in ("gather", "scatter_rows")]
    for node in looking:
        for index, extent in _indices(node):
            wrong = _first_outside(program.graph, index, extent, arrays)
            if wrong is not None:  # a derivative's nodes have no line, but its index has one
                return Outside(node if node.where else index, wrong, extent)
    flagged = step.fault and len({node.where for node in looking}) == 1
    return Outside(looking[0]) if flagged else None


def _indices(node: Node) -> Iterator[tuple[Node, int]]:
    """The indices of a node, each with the number of elements along its axis."""
    if node.op == "gather":
        yield from zip(node.inputs[1:], node.inputs[0].shape, strict=False)
    else:
        yield node.inputs[1], int(str(node.attrs["count"]))


def _first_outside(graph: Graph, index: Node, extent: int, arrays: Sequence[Any]) -> int | None:
    """The first index that is outside, as the user wrote it."""
    from ge2rt.ir.evaluate import evaluate  # late: for faults only

    below = list(walk((index,)))
    if sum(node.type.size for node in below) > _MOST_ELEMENTS:
        return None
    wanted = [place for place, node in enumerate(graph.inputs) if node in below]
    if not all(isinstance(arrays[place], np.ndarray) for place in wanted):
        return None
    inputs = tuple(graph.inputs[place] for place in wanted)
    try:
        found = evaluate(Graph("", inputs, (index,)), [arrays[place] for place in wanted])[0]
    except Ge2rtError:  # an index within the index was outside: that is another step's fault
        return None
    wrong = found[(found < 0) | (found >= extent)]
    if not wrong.size:
        return None
    first = int(wrong.flat[0])  # tracing has added the extent to what is negative
    return first - extent if first < 0 and index.op == "select" else first
