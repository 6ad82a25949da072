"""The graph: typed, pure, immutable. A node is one operation and its one result.

A graph is its outputs and its inputs; what lies between is found by walking back. Passes never
change a node: they make new ones (:mod:`ge2rt.ir.rewrite`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ge2rt.base.dtypes import DTYPES, DType
from ge2rt.base.once import cached_property
from ge2rt.base.shapes import size_of


@dataclass(frozen=True)
class TensorType:
    """Shape and dtype name (``f32``, ``bool``...) of a value. It has no layout: views are nodes."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return size_of(self.shape)

    @property
    def element(self) -> DType:
        """The dtype's record."""
        return DTYPES[self.dtype]

    @property
    def nbytes(self) -> int:
        """Bytes of a contiguous buffer of this type."""
        return self.size * self.element.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, eq=False)
class Node:
    """One operation: its name in ``ops.yaml`` (or ``input``), operands, attributes and result type.

    Nodes are compared by identity. ``attrs`` holds only hashable plain values (int, float, bool,
    str, tuples of these). ``where`` is ``file:line`` of the user's code.
    """

    op: str
    inputs: tuple[Node, ...]
    type: TensorType
    attrs: Mapping[str, Hashable] = field(default_factory=lambda: MappingProxyType({}))
    where: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return self.type.shape

    @property
    def dtype(self) -> str:
        """Dtype name of the result."""
        return self.type.dtype

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for nodes that compute the same from the same operands (an input: only itself)."""
        if self.op == "input":
            return ("input", id(self))
        # repr keeps 1, 1.0, True, 0.0 and -0.0 apart
        listed = tuple((name, repr(value)) for name, value in sorted(self.attrs.items()))
        return (self.op, tuple(map(id, self.inputs)), listed, self.type)

    def __repr__(self) -> str:
        return f"<{self.op} : {self.type}>"


@dataclass(frozen=True, eq=False)
class Graph:
    """A function of its inputs. ``inputs`` are the ``input`` nodes in order, used or not."""

    name: str
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node but the inputs that an output needs, operands before their users."""
        return tuple(node for node in walk(self.outputs) if node.op != "input")

    @cached_property
    def users(self) -> Mapping[Node, tuple[Node, ...]]:
        """The nodes that read each node, one entry a use, in order of ``nodes``."""
        found: dict[Node, list[Node]] = {node: [] for node in (*self.inputs, *self.nodes)}
        for node in self.nodes:
            for operand in node.inputs:
                found[operand].append(node)
        return {node: tuple(readers) for node, readers in found.items()}

    def __str__(self) -> str:
        from ge2rt.ir.text import print_graph  # late: it needs this module

        return print_graph(self)


def walk(outputs: tuple[Node, ...]) -> Iterator[Node]:
    """All nodes below ``outputs``, each once, operands first; no recursion, however deep."""
    done: set[Node] = set()
    for output in outputs:
        stack: list[tuple[Node, Iterator[Node]]] = [(output, iter(output.inputs))]
        while stack:
            node, operands = stack[-1]
            if node in done:
                stack.pop()
                continue
            for operand in operands:
                if operand not in done:
                    stack.append((operand, iter(operand.inputs)))
                    break
            else:
                done.add(node)
                stack.pop()
                yield node
