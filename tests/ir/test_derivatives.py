"""Each derivative text against finite differences, run with the NumPy meanings."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from derivative_cases import DIFFERENTIABLE, sample

from ge2rt.base.dtypes import DTYPES
from ge2rt.ir.evaluate import apply
from ge2rt.ir.formula import OPERATORS, parse
from ge2rt.ir.make import input_node, make
from ge2rt.ir.meaning import MEANING
from ge2rt.ir.ops import OPS, derivative_functions

Array = Any


def sum_to(g: Array, x: Array) -> Array:
    extra = g.ndim - x.ndim
    axes = [*range(extra), *(a + extra for a, e in enumerate(x.shape) if e == 1)]
    return g.sum(axis=tuple(axes)).reshape(x.shape)


def unslice(g: Array, x: Array, start: Any, step: Any) -> Array:
    places = [s + k * np.arange(n) for s, k, n in zip(start, step, g.shape, strict=True)]
    result = np.zeros_like(x)
    result[np.ix_(*places)] = g
    return result


def expand(v: Array, x: Array, axes: Any) -> Array:
    return np.broadcast_to(np.expand_dims(v, axes), x.shape)


def scatter_add(g: Array, x: Array, i: Array) -> Array:
    result = np.zeros_like(x)
    np.add.at(result, i, g)
    return result


# the functions of `derivative_functions`, in NumPy
FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "sum_to": sum_to,
    "cast_to": lambda v, x: v.astype(x.dtype),
    "reshape_to": lambda g, x: g.reshape(x.shape),
    "untranspose": lambda g, perm: g.transpose(np.argsort(perm)),
    "unslice": unslice,
    "expand": expand,
    "swap": lambda x: np.swapaxes(x, -1, -2),
    "flip": lambda v, axis: np.flip(v, axis),
    "part": lambda g, x, axis: g.take(range(x.shape[axis]), axis),
    "unpad": lambda g, x, low: g[tuple(slice(a, a + e) for a, e in zip(low, x.shape, strict=True))],
    "scatter_add": scatter_add,
    "take_along": lambda v, i, axis: np.take_along_axis(v, i, axis),
}


class Run:
    """One text on these values; a number takes the shape and dtype of its neighbour."""

    def __init__(self, text: str, values: Mapping[str, Any]) -> None:
        self.values = values
        self.result = self.run(parse(text))

    def run(self, tree: ast.expr) -> Any:
        if isinstance(tree, ast.Constant):
            return tree.value
        if isinstance(tree, ast.Name):
            return self.values[tree.id]
        if isinstance(tree, ast.BinOp):
            return self.op(OPERATORS[type(tree.op)], tree.left, tree.right)
        if isinstance(tree, ast.UnaryOp):
            return self.op(OPERATORS[type(tree.op)], tree.operand)
        if isinstance(tree, ast.Compare):
            return self.op(OPERATORS[type(tree.ops[0])], tree.left, tree.comparators[0])
        assert isinstance(tree, ast.Call)
        assert isinstance(tree.func, ast.Name)
        attrs = {str(k.arg): self.run(k.value) for k in tree.keywords}
        if tree.func.id in FUNCTIONS:
            return FUNCTIONS[tree.func.id](*map(self.run, tree.args), **attrs)
        return self.op(tree.func.id, *tree.args, **attrs)

    def op(self, name: str, *trees: ast.expr, **attrs: Any) -> Any:
        values = [self.run(tree) for tree in trees]
        near = next((v for v in reversed(values) if isinstance(v, np.ndarray)), None)
        if near is None:
            assert name == "neg"
            return -values[0]
        values = [
            v if isinstance(v, np.ndarray) else np.full(near.shape, v, near.dtype) for v in values
        ]
        with np.errstate(all="ignore"):
            return MEANING[name](*values, **attrs)


def test_the_functions_are_those_of_the_table() -> None:
    assert set(FUNCTIONS) == set(derivative_functions())


@pytest.mark.parametrize("op", DIFFERENTIABLE)
def test_against_finite_differences(op: str) -> None:
    operands, attrs = sample(op)
    kinds = {"float64": "f64", "bool": "bool", "int64": "i64"}
    node = make(op, *[input_node(v.shape, kinds[str(v.dtype)]) for v in operands], **attrs)
    y = apply(node, operands)
    g = np.random.default_rng(1).uniform(0.5, 1.5, y.shape).astype(y.dtype)
    spec = OPS[op]
    names = [o.name for o in spec.operands]
    values = {**dict(zip(names, operands, strict=True)), **attrs, "g": g, "y": y}
    if op == "cast":
        values["dtype"] = DTYPES["f32"].numpy
    for at, name in enumerate(names):
        if name not in spec.derivative:
            assert operands[at].dtype.kind in "bi"
            continue
        found = Run(spec.derivative[name], values).result
        found = np.broadcast_to(np.asarray(found, np.float64), operands[at].shape)
        wanted = _slope(node, operands, at, g)
        close = 2e-2 if op == "cast" else 1e-5
        np.testing.assert_allclose(found, wanted, rtol=close, atol=close)


def _slope(node: Any, operands: list[Any], at: int, g: Any) -> Any:
    """The derivative of ``sum(g * y)`` by each element of one operand."""
    h = 1e-3 if node.op == "cast" else 1e-6
    slope = np.zeros(operands[at].shape)
    for place in np.ndindex(slope.shape):
        sides = []
        for sign in (1, -1):
            moved = [v.copy() for v in operands]
            moved[at][place] += sign * h
            sides.append(float((apply(node, moved).astype(np.float64) * g).sum()))
        slope[place] = (sides[0] - sides[1]) / (2 * h)
    return slope


def test_ties_share_the_gradient() -> None:
    a = np.array([1.0, 2.0])
    g = np.ones(2)
    values = {"a": a, "b": a, "g": g, "y": a}
    for op in ("maximum", "minimum", "fmax", "fmin"):
        parts = [Run(OPS[op].derivative[name], values).result for name in "ab"]
        np.testing.assert_array_equal(parts[0] + parts[1], g)
    x = np.array([3.0, 3.0, 1.0])
    shared = Run(
        OPS["max"].derivative["x"], {"x": x, "y": np.array(3.0), "g": np.array(1.0), "axes": (0,)}
    )
    np.testing.assert_array_equal(shared.result, [0.5, 0.5, 0.0])


def test_powers_at_zero() -> None:
    zero, two = np.zeros(1), np.full(1, 2.0)
    values = {"a": zero, "b": two, "g": np.ones(1), "y": zero}
    assert Run(OPS["pow"].derivative["a"], values).result == 0
    assert Run(OPS["pow"].derivative["b"], values).result == 0
    values = {"a": zero, "b": zero, "g": np.ones(1), "y": np.ones(1)}
    assert Run(OPS["pow"].derivative["a"], values).result == 0
