"""Every form of the templates computes the same: wide accesses, groups, held rows, columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fuse.builders import given, graph_of, layernorm, op, softmax
from fuse.random_graphs import difference

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.shapes import canonical_strides
from ge2rt.device.registry import get_device
from ge2rt.fuse.lower import lower
from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Graph
from ge2rt.ir.make import make
from ge2rt.run.plan import Plan
from ge2rt.spec.match import match
from ge2rt.spec.model import Bound, BufferDesc


def run_with(graph: Graph, arrays: list[Any], tunables: dict[str, int]) -> list[Any]:
    """The outputs of the graph's only kernel with these tunables."""
    program = lower(graph)
    (step,) = program.kernels
    fresh = [np.empty(b.type.shape, DTYPES[b.type.dtype].numpy) for b in program.buffers]
    memory = [*arrays, *fresh[len(arrays) :]]
    device = get_device("cpu")
    views = [view for view in step.views if view is not None]
    dtypes = [DTYPES[program.buffers[v.buffer].type.dtype] for v in views]
    descs = [
        BufferDesc(v.shape, dtype, canonical_strides(v.shape, v.strides))
        for v, dtype in zip(views, dtypes, strict=True)
    ]
    assert not isinstance(step.kernel, str)
    bound = match(step.kernel, descs, step.attrs, device.props)
    assert isinstance(bound, Bound)
    pointers = [memory[v.buffer].ctypes.data + v.offset * memory[v.buffer].itemsize for v in views]
    Plan(bound, device, tunables=tunables).launch(pointers)
    return [memory[i] for i in program.outputs]


def agree(graph: Graph, tunables: dict[str, int], limit: float = 1e-4) -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=n.shape).astype(DTYPES[n.dtype].numpy) for n in graph.inputs]
    got, want = run_with(graph, arrays, tunables), evaluate(graph, arrays)
    assert max(difference(a, b) for a, b in zip(got, want, strict=True)) <= limit


@pytest.mark.daily(3)
@pytest.mark.parametrize("wide", [0, 1])
@pytest.mark.parametrize(("group", "items"), [(32, 8), (32, 1), (256, 4), (1, 1)])
def test_rows(wide, group, items):
    x = given(20, 256)
    agree(graph_of([x], softmax(x)), {"WIDE": wide, "GROUP": group, "ITEMS": items})


def test_wide_rows_of_two_dtypes():
    x, g, b = given(20, 512, dtype="f16"), given(512), given(512)
    y = layernorm(make("cast", x, dtype="f32"), g, b)
    agree(graph_of([x, g, b], y), {"WIDE": 1, "GROUP": 32, "ITEMS": 16}, 1e-2)


@pytest.mark.daily(2)
@pytest.mark.parametrize("columns", [1024, 1000])
@pytest.mark.parametrize("items", [4, 8])
def test_wide_pointwise(columns, items):
    x, b = given(6, columns), given(columns)
    agree(graph_of([x, b], op("add", op("tanh", x), b)), {"WIDE": 1, "ITEMS": items, "ROWS": 1})


FORMS = [(0, 0, 32, 1), (1, 0, 32, 1), (0, 0, 256, 8), (1, 0, 256, 8)]
FORMS += [(0, 1, 32, 8), (0, 4, 32, 1), (0, 8, 32, 8)]  # outputs are neighbours


@pytest.mark.daily(3)
@pytest.mark.parametrize("form", FORMS)
def test_reductions(form):
    axis, columns, group, split = form
    x = given(128, 260)
    y = make("sum", op("mul", x, x), axes=(axis,))
    agree(graph_of([x], y), {"COLUMNS": columns, "GROUP": group, "SPLIT": split, "WIDE": 1})
