from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from report.report_samples import HOSTILE, chain, hostile, node, report, step

from ge2rt.report.drawing import homes_of, items_of
from ge2rt.report.records import GraphRecord
from ge2rt.report.svg import Drawing, draw_graph, draw_steps, standalone

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing: Drawing) -> list[str]:
    root = ET.fromstring(drawing.svg)
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_a_graph_is_well_formed_with_a_box_a_node() -> None:
    drawing = draw_graph(chain(3))
    root = ET.fromstring(drawing.svg)
    boxes = [e for e in root.iter(f"{SVG}g") if (e.get("class") or "").startswith("node")]
    assert len(boxes) == 10
    assert [e.get("class") for e in boxes].count("node input") == 1
    assert [e.get("class") for e in boxes].count("node output") == 1
    assert drawing.note == ""


def test_each_edge_is_drawn_once() -> None:
    root = ET.fromstring(draw_graph(chain(3)).svg)
    # mul(x, x), exp(mul), sub(exp, x): four lines a layer, though mul reads x twice
    assert len(list(root.iter(f"{SVG}path"))) == 12


def test_constants_stand_in_the_boxes_that_read_them() -> None:
    nodes = (
        node(0, "input", attrs="name='x'"),
        node(1, "full", attrs="shape=(), dtype='f32', value=0.5"),
        node(2, "broadcast", 1, attrs="shape=(4,)"),
        node(3, "sub", 2, 0, output=0),
    )
    shown = texts(draw_graph(GraphRecord("g", "", nodes)))
    assert shown == ["input x", "f32[4]", "sub 0.5, ·", "f32[4]"]


def test_a_constant_result_is_drawn() -> None:
    nodes = (node(0, "full", attrs="shape=(), dtype='f32', value=0.5", output=0),)
    assert len(items_of(nodes)) == 1


def test_a_large_graph_shows_a_repeated_group_once() -> None:
    drawing = draw_graph(chain(40), limit=30)
    assert "40 times" in drawing.note or "39 times" in drawing.note
    assert "group of 3 nodes" in drawing.note
    assert sum(text.startswith("mul") for text in texts(drawing)) <= 2
    assert any(text.endswith("\N{MULTIPLICATION SIGN}40") for text in texts(drawing))


def test_groups_that_differ_in_numbers_alone_repeat() -> None:
    nodes = [node(0, "input")]
    for layer in range(40):
        last = len(nodes) - 1
        nodes.append(node(last + 1, "slice", last, attrs=f"start=({layer},)"))
        nodes.append(node(last + 2, "exp", last + 1))
    drawing = draw_graph(GraphRecord("g", "", tuple(nodes)), limit=30)
    assert drawing.note == "A group of 2 nodes that occurs 40 times is drawn once."


def test_too_large_a_graph_is_told() -> None:
    nodes = [node(0, "input")]
    nodes += [node(i, f"op{i}", i - 1) for i in range(1, 60)]
    drawing = draw_graph(GraphRecord("g", "", tuple(nodes)), limit=30)
    assert drawing.svg == ""
    assert "60 nodes" in drawing.note
    with pytest.raises(ValueError, match="60 nodes"):
        standalone(drawing)


def test_each_step_is_a_frame_and_a_link() -> None:
    drawing = draw_steps(chain(3, cut=True), [step(0), step(1, kernel="b"), step(2)])
    root = ET.fromstring(drawing.svg)
    links = [(e.get("href"), e.get("class")) for e in root.iter(f"{SVG}a")]
    assert links == [("#step-0", "step k0"), ("#step-1", "step k1"), ("#step-2", "step k0")]
    assert "2  fused" in texts(drawing)


def test_nodes_lie_within_their_frame() -> None:
    root = ET.fromstring(draw_steps(chain(2, cut=True), [step(0), step(1)]).svg)
    rects = [tuple(float(e.get(k) or 0) for k in ("x", "y", "width", "height"))
             for e in root.iter(f"{SVG}rect") if e.get("rx") == "8"]  # fmt: skip
    inner = [tuple(float(e.get(k) or 0) for k in ("x", "y", "width", "height"))
             for e in root.iter(f"{SVG}rect") if e.get("rx") == "4"]  # fmt: skip
    assert len(rects) == 2
    assert len(inner) == 7
    for x, y, w, h in inner:
        assert any(
            fx <= x and fy <= y and x + w <= fx + fw and y + h <= fy + fh
            for fx, fy, fw, fh in rects
        )


def test_repeated_steps_are_drawn_once() -> None:
    steps = [step(i, kernel=f"k{i % 2}") for i in range(40)]
    drawing = draw_steps(chain(40, cut=True), steps, limit=30)
    assert drawing.note == "A group of 2 steps that occurs 20 times is drawn once."
    assert sum("\N{MULTIPLICATION SIGN}20" in text for text in texts(drawing)) == 2


def test_homes_of_views_and_inputs() -> None:
    nodes = (
        node(0, "input"), node(1, "input"),  # read by one step; by two
        node(2, "broadcast", 0), node(3, "add", 2, 1, step=0),
        node(4, "reshape", 3), node(5, "mul", 4, 1, step=1),
        node(6, "transpose", 5, output=0),
    )  # fmt: skip
    homes = homes_of(GraphRecord("g", "", nodes))
    assert homes == {0: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 1}


def test_a_real_graph_is_well_formed_and_stands_alone() -> None:
    found = report("layered")
    for drawing in (draw_graph(found.before), draw_steps(found.after, found.steps)):
        text = standalone(drawing)
        assert ET.fromstring(text).tag == f"{SVG}svg"
        assert "prefers-color-scheme: dark" in text


def test_texts_are_escaped() -> None:
    bad = hostile()
    for drawing in (draw_graph(bad.before), draw_steps(bad.after, bad.steps)):
        root = ET.fromstring(drawing.svg)  # well-formed in spite of it
        assert not list(root.iter("img"))
        assert any(HOSTILE in (e.text or "") for e in root.iter(f"{SVG}title"))
