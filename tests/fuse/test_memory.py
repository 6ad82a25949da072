"""What a step reads is written before, and never by the step itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuse.builders import cut, flat, given, graph_of, op, turned
from fuse.random_graphs import Maker
from fuse.runner import compute

from ge2rt.base.errors import InternalError
from ge2rt.fuse.lower import check_steps, in_order, lower
from ge2rt.fuse.program import KernelStep, View
from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Node
from ge2rt.ir.make import make


def step(writes: int, *reads: int) -> KernelStep:
    return KernelStep("f", tuple(View(b, (4,), (1,)) for b in (*reads, writes)))


BROKEN: dict[str, tuple[list[KernelStep], str]] = {
    "itself": ([step(1, 0), step(2, 1, 2)], "step 1 of f reads %2, which it writes"),
    "too early": ([step(1, 2), step(2, 0)], "step 0 of f reads %2 before"),
    "twice": ([step(1, 0), step(2, 1), step(1, 2)], "step 2 of f writes %1 once more"),
    "into an input": ([step(1, 0), step(2, 1), step(0, 2)], "step 2 of f writes %0 once more"),
    "an output is left": ([step(1, 0)], "no step of f writes output %2"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_programs_are_refused(name):
    steps, text = BROKEN[name]
    with pytest.raises(InternalError, match=text):
        check_steps("f", steps, [0], [2])


def test_steps_that_wait_for_each_other_are_refused():
    with pytest.raises(InternalError, match="wait for each other"):
        list(in_order([step(1, 0, 2), step(2, 1)]))


@pytest.mark.parametrize("seed", [58904, 60934, *range(100, 140)])  # two in which many read one
def test_random_programs_read_what_is_written(seed):
    maker = Maker(seed)
    graph = maker.graph(24)
    lower(graph, [tuple(s // a.itemsize for s in a.strides) for a in maker.arrays])


def test_steps_that_many_read_stand_first():
    steps = [step(5, 4, 3, 2, 1), step(4, 3, 2, 1), step(3, 2, 1), step(2, 1), step(1, 0)]
    assert [each.writes[0] for each in in_order(steps)] == [1, 2, 3, 4, 5]


WIDE = given(3, 4)
X = cut(WIDE, (0, 0), (1, 1), (3, 3))
ROW = given(3)


def rolled(x: Node) -> Node:
    y, n = flat(x), x.type.size
    last, rest = cut(y, (n - 1,), (1,), (1,)), cut(y, (0,), (1,), (n - 1,))
    return make("reshape", make("concat", last, rest, axis=0), shape=x.shape)


def spread(x: Node, *shape: int) -> Node:
    return make("broadcast", x, shape=shape)


def shaped(x: Node, *shape: int) -> Node:
    return make("reshape", x, shape=shape)


CASES: dict[str, tuple[Node, Callable[[], list[Node]]]] = {
    "exp of a roll of a part": (WIDE, lambda: [op("exp", rolled(X))]),
    "roll of a roll": (WIDE, lambda: [rolled(op("exp", turned(rolled(X)))), rolled(X)]),
    "sum of a broadcast": (ROW, lambda: [make("sum", spread(ROW, 2, 3), axes=(0,))]),
    "min of a repeated": (
        ROW, lambda: [make("min", flat(spread(shaped(ROW, 3, 1), 3, 2)), axes=(0,))],
    ),
    "transposed reshape": (WIDE, lambda: [turned(shaped(turned(WIDE), 2, 6))]),
    "of a function": (WIDE, lambda: [turned(shaped(turned(op("exp", WIDE)), 2, 6))]),
    "twice": (WIDE, lambda: [turned(shaped(turned(shaped(turned(WIDE), 2, 6)), 3, 4))]),
    "of a reshape": (WIDE, lambda: [shaped(turned(shaped(turned(WIDE), 2, 6)), 3, 4)]),
    "and what is behind it": (
        WIDE, lambda: [turned(y := shaped(turned(WIDE), 2, 6)), y, op("exp", turned(y)), turned(y)],
    ),
    "of an index": (
        WIDE,
        lambda: [turned(shaped(turned(make("iota", shape=(3, 4), dtype="f32", axis=1)), 2, 6))],
    ),
    "of a product": (
        WIDE, lambda: [turned(shaped(turned(make("matmul", WIDE, turned(WIDE))), 1, 9))],
    ),
    "of sums": (
        WIDE, lambda: [turned(shaped(turned(op("neg", make("cumsum", WIDE, axis=0))), 2, 6))],
    ),
}  # fmt: skip


@pytest.mark.daily(4)
@pytest.mark.parametrize("name", CASES)
def test_values_that_no_strides_describe(name):
    given_node, make_outputs = CASES[name]
    graph = graph_of([given_node], *make_outputs())
    array: Any = np.linspace(-1, 1, given_node.type.size, dtype=np.float32)
    array = array.reshape(given_node.shape)
    for got, want in zip(compute(graph, [array]), evaluate(graph, [array]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_copies_of_an_input_are_made_with_what_else_reads_it():
    assert len(lower(graph_of([WIDE], WIDE, turned(WIDE), op("exp", WIDE))).steps) == 1
