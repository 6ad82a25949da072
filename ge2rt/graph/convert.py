"""Casts and relayouts around ops that no kernel takes as they are, as ops of the graph.

Which ones, and what they cost: :mod:`ge2rt.run.convert`. They become ``CAST`` ops with tensors of
their own, so that memory is planned for them as for everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ge2rt.device.api import DeviceProps
from ge2rt.graph.model import Graph, Op, Tensor
from ge2rt.run.convert import Conversion, with_conversions
from ge2rt.run.select import choose
from ge2rt.spec.descs import parse_buffers
from ge2rt.spec.registry import default_registry

Describe: TypeAlias = Callable[[Tensor], Mapping[str, Any]]


def with_casts(graph: Graph, describe: Describe, props: DeviceProps) -> Graph:
    """The graph with what its ops need, or the graph itself where that helps none of them."""
    made: dict[str, Tensor] = {}
    ops: list[Op] = []
    for op in graph.ops:
        ops += _around(op, _conversions(op, describe, props), graph, made)
    return Graph(ops, graph.outputs, graph.name) if len(ops) > len(graph.ops) else graph


def _conversions(op: Op, describe: Describe, props: DeviceProps) -> tuple[Conversion, ...]:
    kernels = default_registry().kernels_of(op.op_type)
    inputs = parse_buffers([describe(t) if t is not None else None for t in op.inputs])
    outputs = parse_buffers([describe(t) for t in op.outputs])
    attrs = op.kernel_attrs
    choice = choose(kernels, (*inputs, *outputs), attrs, props)
    best = with_conversions(choice, inputs, attrs, props, outputs=outputs, relabel=True).chosen
    return best.conversions if best is not None else ()


def _around(
    op: Op, conversions: Sequence[Conversion], graph: Graph, made: dict[str, Tensor]
) -> list[Op]:
    """The op between the casts of its operands and those of its results."""
    before, behind = [], []
    inputs, outputs = list(op.inputs), list(op.outputs)
    for conversion in conversions:
        if conversion.result:
            wanted = outputs[conversion.index]
            outputs[conversion.index] = tensor = _converted(wanted, conversion, graph)
            behind.append(Op("CAST", (tensor,), (wanted,), {"to": wanted.dtype}))
            continue
        given = inputs[conversion.index]
        assert given is not None
        tensor = _converted(given, conversion, graph)
        if tensor.name not in made:  # ops that want the same share it
            made[tensor.name] = tensor
            before.append(Op("CAST", (given,), (tensor,), {"to": tensor.dtype}))
        inputs[conversion.index] = made[tensor.name]
    return [*before, Op(op.op_type, inputs, outputs, op.attrs), *behind] if conversions else [op]


def _converted(tensor: Tensor, conversion: Conversion, graph: Graph) -> Tensor:
    """The tensor as the kernel has it, under a name that is free."""
    wanted = conversion.kernels
    layout = "rowmajor" if wanted.layout == "strided" else wanted.layout
    name = f"{tensor.name}.{wanted.dtype}.{layout}"
    while name in graph.tensors:
        name += "_"
    return Tensor(name, tensor.shape, wanted.dtype.name, layout, tensor.device)
