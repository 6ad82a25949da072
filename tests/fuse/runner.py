"""Runs a program on the CPU device, one plan a step: a small stand-in for the executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DTYPES
from ge2rt.device.registry import get_device
from ge2rt.fuse.lower import lower
from ge2rt.fuse.program import Choices, KernelStep, LibraryStep, Program, View
from ge2rt.ir.graph import Graph, Node
from ge2rt.run.launch import plan_for
from ge2rt.run.plan import Plan
from ge2rt.run.select import refused
from ge2rt.spec.match import match
from ge2rt.spec.model import BufferDesc, Refusal

NO_LIBRARY = Choices(library=())


def graph_of(inputs: Sequence[Node], *outputs: Node, name: str = "f") -> Graph:
    return Graph(name, tuple(inputs), tuple(outputs))


def run(program: Program, arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The outputs of a program for input arrays of its shapes and strides."""
    memory: list[np.ndarray[Any, Any]] = []
    given = iter(arrays)
    for buffer in program.buffers:
        dtype = DTYPES[buffer.type.dtype].numpy
        if buffer.kind == "input":
            array = next(given)
            assert array.shape == buffer.type.shape
            assert array.dtype == dtype
        else:
            array = np.empty(buffer.type.shape, dtype)
            array.view(np.uint8 if array.ndim else dtype)[...] = 0xA5 if array.ndim else 1
        memory.append(array)
    flag = np.zeros(1, np.int32)
    for step in program.steps:
        if isinstance(step, LibraryStep):
            a, b, out = (_shown(memory, view) for view in step.views)
            np.matmul(a, b, out=out)
        else:
            _launch(step, memory, flag)
    if flag[0]:
        raise ValueError("an index lies outside its array")
    return [memory[i] for i in program.outputs]


def _launch(step: KernelStep, memory: list[np.ndarray[Any, Any]], flag: Any) -> None:
    device = get_device("cpu")
    descs: list[BufferDesc | None] = []
    pointers: list[int] = []
    for view in step.views:
        if view is None:
            descs.append(None)
            pointers.append(0)
            continue
        dtype = DTYPES[_contract_name(memory[view.buffer])]
        strides = tuple(0 if e == 1 else s for e, s in zip(view.shape, view.strides, strict=True))
        descs.append(BufferDesc(view.shape, dtype, strides))
        pointers.append(memory[view.buffer].ctypes.data + view.offset * dtype.itemsize)
    if step.fault:
        descs[-1], pointers[-1] = BufferDesc((1,), DTYPES["i32"], (0,)), flag.ctypes.data
    if isinstance(step.kernel, str):
        plan = plan_for(step.kernel, descs, step.attrs, device)
    else:
        bound = match(step.kernel, descs, step.attrs, device.props)
        if isinstance(bound, Refusal):
            raise refused(bound, step.kernel.name)
        plan = Plan(bound, device)
    plan.launch(pointers)


def _contract_name(array: np.ndarray[Any, Any]) -> str:
    from ge2rt.base.dtypes import dtype_of

    return dtype_of(array.dtype).name


def _shown(memory: list[np.ndarray[Any, Any]], view: View | None) -> np.ndarray[Any, Any]:
    assert view is not None
    array = memory[view.buffer]
    start = array.ctypes.data + view.offset * array.itemsize
    assert start >= array.ctypes.data
    flat = np.lib.stride_tricks.as_strided(array, (array.size,), (array.itemsize,))
    strides = tuple(s * array.itemsize for s in view.strides)
    return np.lib.stride_tricks.as_strided(flat[view.offset :], view.shape, strides)


def compute(
    graph: Graph, arrays: Sequence[np.ndarray[Any, Any]], choices: Choices = NO_LIBRARY
) -> list[np.ndarray[Any, Any]]:
    """Lower a graph for these arrays and run it."""
    strides = [tuple(s // a.itemsize for s in a.strides) for a in arrays]
    return run(lower(graph, strides, choose=choices), arrays)
