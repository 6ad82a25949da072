"""``act(x @ w + b)`` as one GEMM_BIAS_ACT, however it is written.

The product and all between it and the activation must have no other user. Bias: rows ``[N]``,
columns ``[M, 1]``, a batch of these, or one value. The fused activation may differ from the chain
of ops in rounding (f16 and bf16 round once), and in the sign of a zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.ops import OPS
from ge2rt.ir.passes.canonicalise import Simplifier
from ge2rt.ir.patterns.activations import Activation, activation
from ge2rt.ir.rewrite import Builder, replaced
from ge2rt.ir.rules.views import stripped

_REACH = 32  # nodes of the longest activation
_DTYPES = frozenset({"f32", "f16", "bf16", "f64"})


@dataclass(frozen=True)
class Epilogue:
    """A product with what follows it; ``root`` is the last node that is replaced."""

    product: Node
    root: Node
    bias: Node | None
    act: Activation


def run(graph: Graph) -> Graph:
    """The graph with bias and activation inside its products."""
    finder = _Finder(graph)
    found = {}
    for node in graph.nodes:
        epilogue = finder.epilogue(node) if node.op == "matmul" else None
        if epilogue is not None:
            found[epilogue.root] = epilogue
    if not found:
        return graph
    builder = Simplifier()
    new: dict[Node, Node] = {node: builder.keep(node) for node in graph.inputs}
    for node in graph.nodes:
        if node in found:
            new[node] = _made(builder, found[node], new)
        else:
            new[node] = builder.like(node, map(new.__getitem__, node.inputs))
    return replaced(graph, new)


def _made(builder: Builder, found: Epilogue, new: dict[Node, Node]) -> Node:
    product, root = found.product, found.root
    operands = [new[x] for x in product.inputs]
    if found.bias is not None:
        operands.append(_small(builder, found.bias, new))
    fused = builder.make(
        "gemm_bias_act", *operands, act=found.act.name, slope=found.act.slope, where=root.where
    )
    return builder.make("reshape", fused, shape=root.shape, where=root.where)


def _small(builder: Builder, bias: Node, new: dict[Node, Node]) -> Node:
    """The bias before its broadcast, without leading axes of extent 1."""
    if bias.op == "full":
        return builder.make("full", shape=(), dtype=bias.dtype, value=bias.attrs["value"])
    small = new[bias.inputs[0]]
    return builder.make("reshape", small, shape=stripped(small.shape), where=bias.where)


class _Finder:
    """Walks from a product to the end of its activation."""

    def __init__(self, graph: Graph) -> None:
        self.users = graph.users
        self.place = {node: i for i, node in enumerate(graph.nodes)}
        self.outputs = set(graph.outputs)

    def epilogue(self, product: Node) -> Epilogue | None:
        """What can go into the product; None where nothing can."""
        if product.dtype not in _DTYPES:
            return None
        z = product
        step = self.only_user(z)
        if step is not None and step.op == "reshape" and step.shape[-1:] == z.shape[-1:]:
            z = step
        bias = None
        step = self.only_user(z)
        if step is not None and step.op == "add":
            bias = self.bias(step, z, product)
            z = step if bias is not None else z
        root, act = self.activation(z)
        if bias is None and act is None:
            return None
        return Epilogue(product, root, bias, act or Activation("none"))

    def only_user(self, node: Node) -> Node | None:
        """The one node that reads ``node``, once."""
        users = self.users[node]
        return users[0] if len(users) == 1 and node not in self.outputs else None

    def bias(self, total: Node, z: Node, product: Node) -> Node | None:
        """The operand that ``total`` adds to ``z``, if it is one value or broadcast."""
        left, right = total.inputs
        other = right if left is z else left
        if other.op == "full":
            return other
        if other.op != "broadcast":
            return None
        small = stripped(other.inputs[0].shape)
        if z is not product and small not in ((), product.shape[-1:]):
            return None  # the product has other rows
        return other

    def activation(self, z: Node) -> tuple[Node, Activation | None]:
        """The nearest node that is an activation of ``z`` and hides it from all others."""
        region: dict[Node, None] = {}
        waiting = set(self.users[z])
        pending = len(self.users[z])  # reads of z and of the region that are not in the region
        blocked = z in self.outputs
        while waiting and not blocked and len(region) < _REACH:
            node = min(waiting, key=self.place.__getitem__)
            waiting.discard(node)
            if not OPS[node.op].pointwise:
                break
            pending -= sum(x is z or x in region for x in node.inputs)
            region[node] = None
            if pending == 0:
                act = activation(node, z, region) if node.dtype == z.dtype else None
                if act is not None:
                    return node, act
            blocked = node in self.outputs
            waiting |= set(self.users[node])
            pending += len(self.users[node])
        return z, None
