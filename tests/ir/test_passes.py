"""Passes keep what a graph means, on random graphs, and are deterministic and linear."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ir.samples import arrays, random_graph

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.ir.evaluate import evaluate
from ge2rt.ir.graph import Graph, Node
from ge2rt.ir.make import input_node, make
from ge2rt.ir.passes import DEFAULT, NAMES, optimise, pass_named
from ge2rt.ir.text import print_graph
from ge2rt.ir.verify import verify

CLOSE = {"f16": 0.1, "bf16": 0.1, "f32": 1e-4, "f64": 1e-9}
SEEDS = 60


def same_bits(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "biu":
        return bool((a == b).all())
    a, b = a.astype(np.float64), b.astype(np.float64)
    signs = np.signbit(a) == np.signbit(b)
    return bool(np.where(np.isnan(a), np.isnan(b), (a == b) & signs).all())


@pytest.mark.parametrize("name", NAMES)
def test_the_bits_stay_the_same(name: str, full: bool) -> None:
    for seed in range(SEEDS * (10 if full else 1)):
        graph = random_graph(seed, exact=True)
        given = arrays(graph, seed)
        after = verify(pass_named(name)(graph))
        assert after.inputs == graph.inputs
        for i, (a, b) in enumerate(
            zip(evaluate(graph, given), evaluate(after, given), strict=True)
        ):
            assert same_bits(a, b), f"seed {seed}, output {i}:\n{graph}{after}"


def test_all_ops_stay_close(full: bool) -> None:
    for seed in range(SEEDS * (10 if full else 1)):
        graph = random_graph(seed)
        given = arrays(graph, seed, special=False)
        after = optimise(graph, seen=lambda _, made: verify(made))
        wanted, found = evaluate(graph, given), evaluate(after, given)
        close = max((CLOSE.get(node.dtype, 0.0) for node in graph.nodes), default=0.0)
        for a, b in zip(wanted, found, strict=True):
            if a.dtype.kind in "biu":
                continue  # a comparison of almost equal numbers may turn
            a, b = a.astype(np.float64), b.astype(np.float64)
            scale = np.abs(a[np.isfinite(a)]).max(initial=1.0)
            np.testing.assert_allclose(b, a, rtol=close, atol=close * scale, err_msg=f"{seed}")


@pytest.mark.parametrize("name", ["canonicalise", "fold", "cse", "attention", "gemm_epilogue"])
def test_a_second_run_changes_nothing(name: str) -> None:
    for seed in range(SEEDS):
        once = pass_named(name)(random_graph(seed))
        assert print_graph(pass_named(name)(once)) == print_graph(once), f"seed {seed}"


def test_the_whole_list_settles() -> None:
    for seed in range(SEEDS):
        graph = optimise(optimise(optimise(random_graph(seed))))
        assert print_graph(optimise(graph)) == print_graph(graph), f"seed {seed}"


def test_graphs_only_get_smaller() -> None:
    for seed in range(SEEDS):
        graph = random_graph(seed)
        for name in ("canonicalise", "fold", "cse"):
            after = pass_named(name)(graph)
            assert _work(after) <= _work(graph), f"{name} of seed {seed}"


def _work(graph: Graph) -> int:
    """Elements that are computed; a power may become two products."""
    free = ("full", "iota", "broadcast", "transpose", "reshape", "slice")
    cost = {"pow": 4}
    return sum(n.type.size * cost.get(n.op, 1) for n in graph.nodes if n.op not in free)


PRINT = """
import sys
sys.path.insert(0, sys.argv[1])
from ir.samples import random_graph
from ge2rt.ir.passes import optimise
print("".join(str(optimise(random_graph(seed))) for seed in range(20)))
"""


@pytest.mark.parametrize("hashing", ["1", "2"])
def test_the_same_in_every_process(hashing: str) -> None:
    folder = str(Path(__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", PRINT, folder], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": hashing},
    )  # fmt: skip
    here = "".join(str(optimise(random_graph(seed))) for seed in range(20))
    assert run.stdout == here + "\n"


def chain(length: int) -> Graph:
    x = input_node((4, 8), "f32", "x")
    half = make("full", shape=(4, 8), dtype="f32", value=0.5)
    y: Node = x
    for i in range(length // 2):
        y = make("add", make("exp" if i % 3 else "neg", y), x if i % 2 else half)
    return Graph("deep", (x,), (make("transpose", y, perm=(1, 0)),))


def test_deep_graphs_need_no_recursion() -> None:
    graph = chain(10_000)
    after = optimise(graph)
    assert len(after.nodes) < len(graph.nodes)
    verify(after)


def test_work_grows_with_the_graph_alone() -> None:
    """Steps of the interpreter, so that no clock is asked."""
    few, many = _calls(chain(200)), _calls(chain(2_000))
    assert many < 15 * few


def _calls(graph: Graph) -> int:
    count = 0

    def counted(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call"

    assert graph.nodes
    sys.setprofile(counted)
    try:
        optimise(graph)
    finally:
        sys.setprofile(None)
    return count


def test_unchanged_graphs_come_back_as_they_are() -> None:
    x = input_node((3,), "f32", "x")
    graph = Graph("g", (x,), (make("exp", x), x))
    for name in NAMES:
        assert pass_named(name)(graph) is graph


def test_passes_can_be_chosen_and_watched() -> None:
    x = input_node((3,), "f32", "x")
    graph = Graph("g", (x,), (make("neg", make("neg", x)),))
    seen: list[str] = []
    assert optimise(graph, ["fold"], seen=lambda name, _: seen.append(name)) is graph
    assert optimise(graph).outputs == (x,)
    optimise(graph, seen=lambda name, _: seen.append(name))
    assert seen == ["fold", *DEFAULT]
    with pytest.raises(InvalidArgumentError, match=r"unknown pass 'inline'.*expected canonicalise"):
        optimise(graph, ["inline"])


def test_where_is_kept() -> None:
    x = input_node((3,), "f32", "x")
    two = make("full", shape=(3,), dtype="f32", value=2.0)
    graph = Graph("g", (x,), (make("mul", two, x, where="model.py:7"),))
    assert optimise(graph).outputs[0].where == "model.py:7"
