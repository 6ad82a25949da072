"""Steps of ops with kernels of their own: products, attention, sums at indices, scans, sorts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeAlias

from ge2rt.fuse.access import Layout
from ge2rt.fuse.prepare import library_of
from ge2rt.fuse.program import Choices, KernelStep, LibraryStep, Step, View
from ge2rt.ir.graph import Node

# Where a node lies: buffer, layout over its shape.
Located: TypeAlias = "Callable[[Node], View]"


def opaque_step(node: Node, seen: Located, out: View, choices: Choices) -> Step:
    """The step of an op that is no part of a generated kernel."""
    return _STEPS[node.op](node, seen, out, choices)


def view_of_layout(buffer: int, layout: Layout) -> View:
    """A layout in a buffer."""
    return View(buffer, layout.shape, layout.strides, layout.offset)


def _matmul(node: Node, seen: Located, out: View, choices: Choices) -> Step:
    views = (*map(seen, node.inputs), out)
    reason = library_of(node, choices)
    shapes = " x ".join(str(n.type) for n in node.inputs)
    if reason:
        return LibraryStep(
            "matmul", views, label=f"matmul {shapes}", reason=reason, nodes=("matmul",)
        )
    if node.dtype == "f32" and len(node.shape) == 2:
        a, b, d = views
        return _step("GEMM_BIAS_ACT", node, (a, b, None, d), {})
    return _step("MATMUL", node, views, {})


def _gemm(node: Node, seen: Located, out: View, choices: Choices) -> Step:
    a, b = map(seen, node.inputs[:2])
    attrs: dict[str, Hashable] = {"act": node.attrs["act"]}
    if node.attrs["act"] == "leaky_relu":
        attrs["leaky_slope"] = node.attrs["slope"]
    bias = seen(node.inputs[2]) if len(node.inputs) > 2 else None
    return _step("GEMM_BIAS_ACT", node, (a, b, bias, out), attrs)


def _attention(node: Node, seen: Located, out: View, choices: Choices) -> Step:
    views: list[View | None] = [seen(operand) for operand in node.inputs]
    views += [None] * (4 - len(views))
    attrs = {name: node.attrs[name] for name in ("scale", "causal", "diagonal")}
    return _step("ATTENTION", node, (*views, out), attrs)


def _scatter_rows(node: Node, seen: Located, out: View, choices: Choices) -> Step:
    return _step("SCATTER_ROWS", node, (*map(seen, node.inputs), out), dict(node.attrs))


def _scan(node: Node, seen: Located, out: View, choices: Choices) -> Step:
    attrs = {"op": node.op, "axis": node.attrs["axis"]}
    return _step("SCAN", node, (seen(node.inputs[0]), out), attrs)


def _sort(node: Node, seen: Located, out: View, choices: Choices) -> Step:
    return _step(node.op.upper(), node, (seen(node.inputs[0]), out), {"axis": node.attrs["axis"]})


def _step(
    op: str, node: Node, views: tuple[View | None, ...], attrs: Mapping[str, Hashable]
) -> KernelStep:
    label = f"{node.op} {' '.join(str(n.type) for n in node.inputs)}"
    return KernelStep(op, views, 1, attrs, label, (node.op,))


_STEPS: Mapping[str, Callable[[Node, Located, View, Choices], Step]] = {
    "matmul": _matmul, "gemm_bias_act": _gemm, "attention": _attention,
    "scatter_rows": _scatter_rows, "cumsum": _scan, "cumprod": _scan, "sort": _sort,
    "argsort": _sort,
}  # fmt: skip
