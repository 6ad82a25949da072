"""Text and back: the text is the graph."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir.samples import ALL_DTYPES, random_graph

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.ir.graph import Graph
from ge2rt.ir.make import input_node, make
from ge2rt.ir.text import parse_graph, print_graph
from ge2rt.ir.verify import verify

EXAMPLE = """\
graph mlp {
  %0 = input(name='x') : f32[4,8]
  %1 = input(name='w') : f32[8,2]
  %2 = matmul(%0, %1) : f32[4,2]  # model.py:12
  %3 = full(shape=(4, 2), dtype='f32', value=-inf) : f32[4,2]
  %4 = maximum(%2, %3) : f32[4,2]
  %5 = sum(%4, axes=(0, 1)) : f32[]
  return %5, %0
}
"""


def test_an_example() -> None:
    graph = parse_graph(EXAMPLE)
    assert print_graph(graph) == str(graph) == EXAMPLE
    assert [node.op for node in graph.nodes] == ["matmul", "full", "maximum", "sum"]
    assert graph.outputs[1] is graph.inputs[0]
    assert graph.nodes[0].where == "model.py:12"
    assert "model.py" not in print_graph(graph, where=False)


@given(st.integers(0, 10**6))
@settings(max_examples=150, deadline=None, database=None)
def test_random_graphs_come_back(seed: int) -> None:
    text = print_graph(random_graph(seed))
    graph = parse_graph(text)
    assert print_graph(verify(graph)) == text


@given(
    st.text(max_size=20), st.text(max_size=20), st.sampled_from(ALL_DTYPES),
    st.lists(st.integers(0, 9), max_size=4),
)  # fmt: skip
@settings(max_examples=100, deadline=None, database=None)
def test_any_name_comes_back(name: str, title: str, dtype: str, shape: list[int]) -> None:
    x = input_node(shape, dtype, name)
    again = parse_graph(print_graph(Graph(title, (x,), (x,))))
    assert (again.name, again.inputs[0].attrs["name"]) == (title, name)
    assert again.inputs[0].type == x.type


@given(st.floats(), st.sampled_from(["f16", "bf16", "f32", "f64"]))
@settings(max_examples=100, deadline=None, database=None)
def test_any_constant_comes_back(value: float, dtype: str) -> None:
    node = make("full", shape=(), dtype=dtype, value=value)
    again = parse_graph(print_graph(Graph("g", (), (node,)))).outputs[0]
    found = again.attrs["value"]
    assert isinstance(found, float)
    assert repr(found) == repr(node.attrs["value"]) or math.isnan(value)


def test_sources_of_any_form_stay_on_their_line() -> None:
    x = input_node((), "f32", "x", where="a b.py:3\n  %9 = evil() : f32[]")
    again = parse_graph(print_graph(Graph("g", (x,), (x,))))
    assert again.inputs[0].where == "a b.py:3\\n  %9 = evil() : f32[]"


def test_spaces_and_comments_are_free() -> None:
    text = "# two lines\n\n" + EXAMPLE.replace("\n  ", "\n\n      ")
    assert print_graph(parse_graph(text)) == EXAMPLE


WRONG = [
    ("", 1, "a graph begins with"),
    ("graph g", 1, "a graph begins with"),
    (EXAMPLE.replace("  return %5, %0\n}\n", ""), 7, "the line 'return' is missing"),
    (EXAMPLE.replace("}\n", "}\n%9"), 10, "nothing but '}'"),
    (EXAMPLE.replace("%5 = sum(%4", "%5 = sum(%9"), 7, "%9 is not defined above"),
    (EXAMPLE.replace("return %5", "return %7"), 8, "%7 is not defined above"),
    (EXAMPLE.replace("%1 =", "%0 ="), 3, "%0 is defined twice"),
    (EXAMPLE.replace("maximum", "maxim"), 6, "unknown op 'maxim'"),
    (EXAMPLE.replace(": f32[]", ": f32[3]"), 7, "sum gives f32[], not f32[3]"),
    (EXAMPLE.replace("axes=(0, 1)", "axes=(0, 5)"), 7, "axes must be sorted"),
    (EXAMPLE.replace("axes=(0, 1)", "axes=None"), 7, "is no plain value"),
    (EXAMPLE.replace("axes=(0, 1)", "axes=open('x')"), 7, "a node reads"),
    (EXAMPLE.replace("axes=(0, 1)", "axes=1 1"), 7, "attributes"),
    (EXAMPLE.replace("axes=(0, 1)", "3"), 7, "operands go before attributes"),
    (EXAMPLE.replace("f32[4,8]", "f99[4,8]"), 2, "attribute 'dtype' cannot be used"),
    (EXAMPLE.replace("%2 = matmul(%0, %1)", "%2 = matmul(%0, %1"), 4, "a node reads"),
]


@pytest.mark.parametrize(("text", "line", "message"), WRONG)
def test_wrong_texts_are_refused_with_their_line(text: str, line: int, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_graph(text)
    assert message in str(caught.value)
    assert caught.value.record.where == f"line {line}"
