"""Graphs as SVG text: one box a node; in a graph that was cut into steps, one frame a step.

The colours come from ``graph.css``: :func:`standalone` adds it to a drawing that stands alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from ge2rt.report.drawing import (
    PAD,
    TITLE,
    Frame,
    Item,
    alone,
    collapse,
    edges_of,
    frame_edges,
    frame_of,
    homes_of,
    items_of,
)
from ge2rt.report.layout import Layout, Repeat, find_repeat, lay_out
from ge2rt.report.records import GraphRecord, StepRecord

LIMIT = 300
"""Nodes that are drawn one by one; in larger graphs a repeated group is drawn once."""

HUES = 8
"""Colours of kernels and libraries, used in turn: classes ``k0`` to ``k7``."""

_TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Drawing:
    """An SVG element, and what it leaves out, in words ("" where it shows everything)."""

    svg: str
    note: str = ""


def hues_of(steps: Sequence[StepRecord]) -> dict[int, int]:
    """Step -> its colour: steps of one kernel share one."""
    order: dict[str, int] = {}
    return {
        step.number: order.setdefault(step.kernel or step.library, len(order)) % HUES
        for step in steps
    }


def draw_graph(graph: GraphRecord, *, limit: int = LIMIT) -> Drawing:
    """A graph as it is, one box a node; constants stand within the boxes that read them."""
    items, repeat = items_of(graph.nodes), None
    if len(items) > limit:
        items, repeat = collapse(items)
    if len(items) > limit:
        return Drawing("", f"{len(graph.nodes)} nodes are too many for a drawing; see the text.")
    edges = edges_of(items)
    canvas = _Canvas()
    canvas.put(items, lay_out([item.box for item in items], edges))
    title = f"graph {graph.name}, {len(graph.nodes)} nodes"
    return Drawing(canvas.svg(title), _told(repeat, "nodes"))


def draw_steps(graph: GraphRecord, steps: Sequence[StepRecord], *, limit: int = LIMIT) -> Drawing:
    """A graph that was cut into steps: the nodes of a step within one frame."""
    homes, items, repeat = homes_of(graph), items_of(graph.nodes), None
    if len(items) > limit:
        repeat = find_repeat([(s.kernel, s.library, s.label) for s in steps])
    shown = [s for s in steps if repeat is None or repeat.shown(s.number) == s.number]
    if len(shown) > limit:
        return Drawing("", f"{len(steps)} steps are too many for a drawing; see the table.")
    inside: dict[int, list[Item]] = {step.number: [] for step in shown}
    for item in items:
        inside.get(homes.get(item.node.id, -1), []).append(item)
    brief = sum(map(len, inside.values())) > limit
    frames = [] if brief else [alone(item) for item in items if item.node.id not in homes]
    frames += [
        frame_of(step, [] if brief else inside[step.number], _count(repeat, step.number))
        for step in shown
    ]
    edges = frame_edges(graph, frames, homes, repeat)
    canvas = _Canvas()
    layout = lay_out([frame.box for frame in frames], edges, gap=24.0, rise=30.0)
    canvas.frames(frames, layout, hues_of(steps))
    note = _told(repeat, "steps")
    if brief:
        note += " The nodes within the steps are left out; see the text."
    return Drawing(canvas.svg(f"graph {graph.name} in {len(steps)} steps"), note.strip())


def _count(repeat: Repeat | None, index: int) -> int:
    if repeat is None or not repeat.start <= index < repeat.start + repeat.period:
        return 1
    return repeat.count


def _told(repeat: Repeat | None, what: str) -> str:
    if repeat is None:
        return ""
    return f"A group of {repeat.period} {what} that occurs {repeat.count} times is drawn once."


class _Canvas:
    """Collects the parts of one drawing."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._width = self._height = 0.0

    def svg(self, title: str) -> str:
        """The element."""
        w, h = round(self._width + 8), round(self._height + 8)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" width="{w}"'
            f' height="{h}" viewBox="-4 -4 {w} {h}"><title>{escape(title)}</title>'
        )
        return "".join([head, *self._parts, "</svg>"])

    def put(self, items: Sequence[Item], layout: Layout, x: float = 0.0, y: float = 0.0) -> None:
        """Boxes and edges, shifted."""
        self._grow(x + layout.width, y + layout.height)
        for points in layout.edges:
            self._edge([(px + x, py + y) for px, py in points])
        for item, (px, py) in zip(items, layout.places, strict=True):
            self._node(item, px + x, py + y)

    def frames(self, frames: Sequence[Frame], layout: Layout, hues: Mapping[int, int]) -> None:
        """Frames of steps with their nodes."""
        self._grow(layout.width, layout.height)
        for points in layout.edges:
            self._edge(points, " flow")
        for frame, (x, y) in zip(frames, layout.places, strict=True):
            if frame.step is None:
                self._node(frame.items[0], x, y)
            else:
                self._frame(frame, frame.step, hues[frame.step.number], x, y)

    def _frame(self, frame: Frame, step: StepRecord, hue: int, x: float, y: float) -> None:
        box = frame.box
        again = f" {_TIMES}{frame.count}" if frame.count > 1 else ""
        self._parts.append(
            f'<a href="#step-{step.number}" class="step k{hue}">'
            f"<title>{escape(f'step {step.number}: {step.label}')}</title>"
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
            f' rx="8"/><text x="{x + PAD:.1f}" y="{y + 16:.1f}">{escape(frame.heading + again)}'
            "</text></a>"
        )
        self.put(frame.items, frame.inner, x + (box.width - frame.inner.width) / 2, y + TITLE)

    def _node(self, item: Item, x: float, y: float) -> None:
        box, node = item.box, item.node
        kind = " input" if node.op == "input" else " output" if node.output >= 0 else ""
        words = item.words + (f" {_TIMES}{item.count}" if item.count > 1 else "")
        where = f"\n{node.where}" if node.where else ""
        middle = x + box.width / 2
        self._parts.append(
            f'<g class="node{kind}"><title>{escape(node.line + where)}</title>'
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
            f' rx="4"/><text x="{middle:.1f}" y="{y + 14:.1f}">{escape(words)}</text>'
            f'<text class="type" x="{middle:.1f}" y="{y + 27:.1f}">{escape(item.type)}</text></g>'
        )

    def _edge(self, points: Sequence[tuple[float, float]], kind: str = "") -> None:
        (x, y), *rest = points
        path = [f"M{x:.1f} {y:.1f}"]
        for to_x, to_y in rest:
            if abs(to_x - x) < 0.05:
                path.append(f"L{to_x:.1f} {to_y:.1f}")
            else:
                middle = (y + to_y) / 2
                path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
            x, y = to_x, to_y
        self._parts.append(f'<path class="edge{kind}" d="{"".join(path)}"/>')

    def _grow(self, width: float, height: float) -> None:
        self._width, self._height = max(self._width, width), max(self._height, height)


def graph_style() -> str:
    """The style sheet of drawings."""
    return files("ge2rt.report").joinpath("graph.css").read_text("utf-8")


def standalone(drawing: Drawing) -> str:
    """A drawing as an SVG file of its own. ValueError where nothing was drawn."""
    if not drawing.svg:
        raise ValueError(drawing.note)
    head, _, rest = drawing.svg.partition("</title>")
    return f"{head}</title><style>{graph_style()}</style>{rest}"
