from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ge2rt.report.layout import Box, Layout, Repeat, find_repeat, lay_out, pooled


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Box], list[tuple[int, int]]]:
    count = draw(st.integers(1, 14))
    boxes = [Box(draw(st.integers(10, 90)), draw(st.integers(10, 40))) for _ in range(count)]
    pairs = [(a, b) for b in range(count) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=24)) if pairs else []
    return boxes, edges


@settings(deadline=None, max_examples=60)
@given(graphs())
def test_edges_lead_down_and_boxes_do_not_overlap(
    graph: tuple[list[Box], list[tuple[int, int]]],
) -> None:
    boxes, edges = graph
    layout = lay_out(boxes, edges, gap=5, rise=20)
    for (a, b), points in zip(edges, layout.edges, strict=True):
        assert layout.places[a][1] + boxes[a].height < layout.places[b][1] + 1e-6
        heights = [y for _, y in points]
        assert heights == sorted(heights)
        assert points[0][1] == pytest.approx(layout.places[a][1] + boxes[a].height)
        assert points[-1][1] == pytest.approx(layout.places[b][1])
    for one in range(len(boxes)):
        for other in range(one):
            assert not _overlap(layout, boxes, one, other)
    for (x, y), box in zip(layout.places, boxes, strict=True):
        assert x >= -1e-6
        assert y >= -1e-6
        assert x + box.width <= layout.width + 1e-6
        assert y + box.height <= layout.height + 1e-6


def _overlap(layout: Layout, boxes: list[Box], one: int, other: int) -> bool:
    (ax, ay), (bx, by) = layout.places[one], layout.places[other]
    apart = (
        ax + boxes[one].width <= bx + 1e-6 or bx + boxes[other].width <= ax + 1e-6
        or ay + boxes[one].height <= by or by + boxes[other].height <= ay
    )  # fmt: skip
    return not apart


def test_a_chain_is_straight() -> None:
    layout = lay_out([Box(40, 10)] * 4, [(0, 1), (1, 2), (2, 3)])
    assert {x for x, _ in layout.places} == {0.0}


def test_a_long_edge_has_one_vertical_run() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)]
    boxes = [Box(width, 10) for width in (40, 120, 20, 160, 40, 60)]
    inner = lay_out(boxes, edges).edges[5][1:-1]
    assert len(inner) == 8
    assert len({round(x, 6) for x, _ in inner}) == 1


def test_two_crossed_edges_are_uncrossed() -> None:
    layout = lay_out([Box(20, 10)] * 4, [(0, 3), (1, 2)])
    (a, _), (b, _), (c, _), (d, _) = layout.places
    assert (a < b) == (d < c)


def test_what_hangs_on_nothing_stands_above_its_reader() -> None:
    # 0 -> 1 -> 2 -> 3, and the constant 4 with its broadcast 5, read by 3
    layout = lay_out([Box(20, 10)] * 6, [(0, 1), (1, 2), (2, 3), (4, 5), (5, 3)])
    assert layout.places[5][1] == layout.places[2][1]
    assert layout.places[4][1] == layout.places[1][1]


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        lay_out([Box(1, 1)] * 2, [(0, 1), (1, 0)])


def test_nothing_takes_no_room() -> None:
    assert lay_out([], []) == Layout((), (), 0.0, 0.0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([3, 1], [2, 2]),
        ([1, 5, 3, 4], [1, 4, 4, 4]),
        ([4, 3, 2, 1], [2.5] * 4),
    ],
)
def test_pooled_is_the_closest_rising_sequence(values: list[float], expected: list[float]) -> None:
    assert pooled(values, [1.0] * len(values)) == pytest.approx(expected)


def test_pooled_heeds_weights() -> None:
    assert pooled([3, 0], [2, 1]) == pytest.approx([2, 2])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abcd", None),
        ("aaaa", Repeat(0, 2, 2)),
        ("xabcabcabcy", Repeat(1, 3, 3)),
        ("ababab", Repeat(0, 2, 3)),
        ("xyxyzabcdeabcde", Repeat(5, 5, 2)),
    ],
)
def test_the_repetition_that_hides_most(text: str, expected: Repeat | None) -> None:
    assert find_repeat(text) == expected


def test_a_repetition_tells_what_stands_for_what() -> None:
    repeat = Repeat(1, 3, 3)
    assert [repeat.shown(i) for i in range(12)] == [0, 1, 2, 3, 1, 2, 3, 1, 2, 3, 10, 11]
    assert repeat.hidden == 6
