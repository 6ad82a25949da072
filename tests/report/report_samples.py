"""Reports of small functions, and one made by hand with hostile texts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ge2rt.jit import jit
from ge2rt.jit.compiled import Compiled
from ge2rt.report.collect import collect
from ge2rt.report.records import (
    BufferRecord,
    CandidateRecord,
    GraphRecord,
    Instructions,
    KernelRecord,
    LineLink,
    MemoryRecord,
    NodeRecord,
    Report,
    StepRecord,
    TimingRecord,
    ViewRecord,
)

HOSTILE = "</script><img src=x onerror=alert(1)>&\"'"


def scaled(x, b):  # type: ignore[no-untyped-def]
    return (x + b) * 2


def layered(x, w, v, i):  # type: ignore[no-untyped-def]
    h = np.tanh(x @ w)
    y = x + h @ v
    e = np.exp(y - y.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True), np.sort(y, axis=-1), y[i]


def arrays(name: str) -> list[Any]:
    rng = np.random.default_rng(7)
    if name == "scaled":
        return [rng.random((64, 256), np.float32), rng.random(256, np.float32)]
    x, w, v = (rng.random(s, np.float32) for s in ((96, 128), (128, 192), (192, 128)))
    return [x, w, v, np.array([3, 1, 4])]


@cache
def compiled(name: str) -> Compiled:
    return jit({"scaled": scaled, "layered": layered}[name]).compile(*arrays(name))


@cache
def report(name: str) -> Report:
    return collect(compiled(name), arrays(name))


def node(number: int, op: str, *inputs: int, **more: Any) -> NodeRecord:
    given: dict[str, Any] = {"type": "f32[4]", "attrs": "", "where": "model.py:3", **more}
    return NodeRecord(number, op, inputs=inputs, **given)


def chain(layers: int, *, cut: bool = False) -> GraphRecord:
    """An input, then groups of mul, exp and sub that are all alike; each group is a step."""
    nodes = [node(0, "input", attrs="name='x'")]
    for layer in range(layers):
        last = len(nodes) - 1
        step = layer if cut else -1
        nodes.append(node(last + 1, "mul", last, last, step=step))
        nodes.append(node(last + 2, "exp", last + 1, step=step))
        nodes.append(node(last + 3, "sub", last + 2, last, step=step))
    nodes[-1] = replace(nodes[-1], output=0)
    return GraphRecord("chain", "graph chain { ... }", tuple(nodes))


def step(number: int, **more: Any) -> StepRecord:
    given: dict[str, Any] = {
        "label": "mul exp sub", "kernel": "fused", "library": "", "nodes": ("mul", "exp", "sub"),
        "members": (), "grid": (2, 1, 1), "block": (128, 1, 1),
        "views": (ViewRecord(0, "%0[4:1]", 2048, False), ViewRecord(1, "%1[4:1]", 2048, True)),
        **more,
    }  # fmt: skip
    return StepRecord(number, **given)


def kernel(name: str = "fused", **more: Any) -> KernelRecord:
    given: dict[str, Any] = {
        "title": name, "template": "fused.cu.j2", "generated": True, "static": True,
        "cached": "", "cuda": "line one\nline two\n",
        "template_lines": (("fused.cu.j2", 7), ("fused.cu.j2", 8)),
        "ptx": "a;\nb;\nc;", "links": (LineLink(1, (2,)), LineLink(2, (2,)), LineLink(3, (1, 2))),
        "native": "define void @f()", "native_title": "LLVM IR",
        "instructions": Instructions({"float arithmetic": 3, "control": 1}, {"f32": 4}),
        "registers": -1, "shared_static": 0, **more,
    }  # fmt: skip
    return KernelRecord(name, **given)


def made(**more: Any) -> Report:
    """A report by hand: two steps of one kernel."""
    steps = (
        step(0, seconds=3e-6, start=0.0, lasted=2e-6),
        step(1, seconds=1e-6, start=2e-6, lasted=1e-6),
    )
    given: dict[str, Any] = {
        "name": "f", "signature": "x: f32[4]", "device": "cpu", "arch": "sm_80",
        "before": chain(2), "after": chain(2, cut=True), "optimised": "graph f { ... }",
        "steps": steps, "kernels": (kernel(),),
        "memory": MemoryRecord((
            BufferRecord(0, "f32[4]", "input", 0, 16, -1, 0, 0),
            BufferRecord(1, "f32[4]", "temp", -1, 16, 0, 0, 1),
        ), 128, 384),
        "plan": "plan f on cpu", "timing": TimingRecord(3.5e-6, 9, "given"),
        "compile_seconds": 0.25, "compiled": 1, **more,
    }  # fmt: skip
    return Report(**given)


def hostile() -> Report:
    """Every text of a report that comes from outside is HTML."""
    bad = HOSTILE
    graph = GraphRecord(bad, bad, (node(0, bad, attrs=bad, type=bad, where=bad, step=0),))
    candidates = (
        CandidateRecord(bad, 60, bad, True), CandidateRecord(bad, 0, bad, False, True),
    )  # fmt: skip
    views = (ViewRecord(0, bad, 16, False),)
    return made(
        name=bad, signature=bad, device=bad, arch=bad, before=graph, after=graph, optimised=bad,
        plan=bad, notes=(bad,), timing=TimingRecord(1.0, 1, bad, bad),
        kernels=(kernel(bad, cuda=bad, ptx=bad, native=bad, native_title=bad, template=bad,
                        template_lines=((bad, 1),)),),
        steps=(
            step(0, label=bad, kernel=bad, nodes=(bad,), views=views, reason=bad, seconds=1.0,
                 candidates=candidates),
            step(1, label=bad, kernel="", library=bad, reason=bad, seconds=1.0),
        ),
        memory=MemoryRecord((BufferRecord(0, bad, bad, 0, 16),
                             BufferRecord(1, bad, "temp", -1, 16, 0, 0, 1)), 128, 128),
    )  # fmt: skip
