"""The CUDA text of generated kernels, and what their names depend on."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fuse.builders import causal, cut, gelu, given, graph_of, layernorm, op, softmax

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.shapes import canonical_strides
from ge2rt.build.problem import make_problem
from ge2rt.build.render import render
from ge2rt.device.registry import get_device
from ge2rt.fuse.lower import lower
from ge2rt.fuse.program import Choices, KernelStep
from ge2rt.ir.graph import Graph
from ge2rt.ir.make import make
from ge2rt.spec.expr import parse
from ge2rt.spec.match import match
from ge2rt.spec.model import Bound, BufferDesc

GOLDEN = Path(__file__).parents[1] / "golden" / "fuse"


def text_of(graph: Graph, *, static: bool = True) -> str:
    """The source of the only kernel of a graph, for the CPU device."""
    program = lower(graph, choose=Choices(library=()))
    (step,) = program.kernels
    assert not isinstance(step.kernel, str)
    descs = [
        BufferDesc((1,), DTYPES["i32"], (0,)) if view is None
        else BufferDesc(
            view.shape, DTYPES[program.buffers[view.buffer].type.dtype],
            canonical_strides(view.shape, view.strides),
        )
        for view in step.views
    ]  # fmt: skip
    props = get_device("cpu").props
    bound = match(step.kernel, descs, step.attrs, props)
    assert isinstance(bound, Bound)
    text = render(make_problem(bound, props, static=static)).text
    return text[text.index("using index_t") :] + "\n"


def step_of(graph: Graph) -> KernelStep:
    (step,) = lower(graph).kernels
    return step


X, G, B = given(64, 256), given(256), given(256)
TEXTS: dict[str, Callable[[], str]] = {
    "gelu": lambda: text_of(graph_of([X], gelu(X))),
    "softmax": lambda: text_of(graph_of([X], softmax(X))),
    "softmax_dynamic": lambda: text_of(graph_of([X], softmax(X)), static=False),
    "layernorm": lambda: text_of(graph_of([X, G, B], layernorm(X, G, B))),
    "causal": lambda: text_of(graph_of([X], causal(X))),
    "sum_of_squares": lambda: text_of(graph_of([X], make("sum", op("mul", X, X), axes=(0,)))),
    "rotated": lambda: text_of(
        graph_of(
            [X],
            make(
                "concat",
                op("neg", cut(X, (0, 128), (1, 1), (64, 128))),
                cut(X, (0, 0), (1, 1), (64, 128)),
                axis=1,
            ),
        )
    ),
    "gather": lambda: text_of(graph_of([X, LABELS], op("mul", make("gather", X, LABELS), 0.5))),
}
LABELS = given(7, dtype="i64")


@pytest.mark.parametrize("name", TEXTS)
def test_golden_text(name, update_golden):
    # the end of a name is the digest of the declaration, whose records may gain fields
    text = re.sub(r"(ge2rt_fused_[a-z]+)_[0-9a-f]{12}\b", r"\1", TEXTS[name]())
    file = GOLDEN / f"{name}.cu"
    if update_golden:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["gelu", "softmax", "sum_of_squares"])
def test_what_declarations_say_is_in_the_language(name):
    """They are made without the check that YAML goes through."""
    graphs = {
        "gelu": graph_of([X], gelu(X)), "softmax": graph_of([X], softmax(X)),
        "sum_of_squares": graph_of([X], make("sum", op("mul", X, X), axes=(0,))),
    }  # fmt: skip
    (step,) = lower(graphs[name]).steps
    kernel = step.kernel
    texts = [*kernel.launch.grid, *kernel.launch.block, *(e for _, e in kernel.prefer)]
    texts += [space.axes for space in kernel.iterate if space.axes is not None]
    assert {parse(str(text)).text for text in texts} == {str(text) for text in texts}


def test_a_kernel_does_not_depend_on_extents():
    names = set()
    for rows, columns in ((64, 256), (3, 17), (100, 1000)):
        x, g, b = given(rows, columns), given(columns), given(columns)
        names.add(step_of(graph_of([x, g, b], layernorm(x, g, b))).name)
    assert len(names) == 1


def test_a_kernel_does_not_depend_on_most_numbers():
    steps = [step_of(graph_of([X], op("mul", X, value))) for value in (0.3, 0.7, 123.0)]
    assert len({step.name for step in steps}) == 1
    assert [list(step.attrs.values()) for step in steps] == [
        [pytest.approx(0.3)], [pytest.approx(0.7)], [123.0],
    ]  # fmt: skip


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, float("inf"), float("nan")])
def test_special_numbers_are_part_of_the_text(value):
    assert not step_of(graph_of([X], op("maximum", X, value))).attrs


def test_numbers_of_doubles_are_exact():
    x, y = given(8, dtype="f64"), given(8)
    assert list(step_of(graph_of([x], op("mul", x, 0.1))).attrs.values()) == [0.1]
    inner = make("cast", op("mul", make("cast", y, dtype="f64"), 0.1), dtype="f32")
    step = step_of(graph_of([y], inner))  # no buffer of doubles: an argument would be a float
    assert not step.attrs
    assert "0.1;" in step.kernel.attrs["body"].default


def test_different_structure_is_a_different_kernel():
    h = given(64, 256, dtype="f16")
    graphs = [graph_of([X], op(name, X)) for name in ("exp", "tanh")]
    graphs.append(graph_of([h], op("exp", h)))
    assert len({step_of(graph).name for graph in graphs}) == 3


def test_names_are_the_same_in_another_process():
    code = (
        "from fuse.builders import *; from ge2rt.fuse.lower import lower;"
        "x, g, b = given(64, 256), given(256), given(256);"
        "print(lower(graph_of([x, g, b], layernorm(x, g, b))).steps[0].name)"
    )
    tests = str(Path(__file__).parents[1])
    told = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {tests!r}); {code}"],
        capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"},
    )  # fmt: skip
    assert told.stdout.strip() == step_of(graph_of([X, G, B], layernorm(X, G, B))).name
