"""Graphs as SVG text: one box a node; in a graph that was cut into steps, one frame a step.

The colours come from ``graph.css``: :func:`standalone` adds it to a drawing that stands alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from ge2rt.report.layout import Box, Layout, Repeat, find_repeat, lay_out
from ge2rt.report.records import GraphRecord, NodeRecord, StepRecord

LIMIT = 300
"""Nodes that are drawn one by one; in larger graphs a repeated group is drawn once."""

HUES = 8
"""Colours of steps, used in turn: classes ``k0`` to ``k7``."""

_CHAR = 6.7  # width of a character of the 11 px fixed-width face
_NODE_HEIGHT = 34.0
_PAD, _TITLE = 10.0, 24.0
_TIMES = "\N{MULTIPLICATION SIGN}"
_LONG = 34  # characters of a line in a box
_TOLD = ("name", "value", "axes", "axis", "perm", "act", "causal", "start")


@dataclass(frozen=True)
class Drawing:
    """An SVG element, and what it leaves out, in words ("" where it shows everything)."""

    svg: str
    note: str = ""


def draw_graph(graph: GraphRecord, *, limit: int = LIMIT) -> Drawing:
    """A graph as it is, one box a node."""
    repeat = None
    if len(graph.nodes) > limit:
        repeat = find_repeat([(n.op, n.type) for n in graph.nodes])
    kept = [n for n in graph.nodes if repeat is None or repeat.shown(n.id) == n.id]
    if len(kept) > limit:
        return Drawing("", f"{len(graph.nodes)} nodes are too many for a drawing; see the text.")
    index = {node.id: i for i, node in enumerate(kept)}
    edges = _edges(graph.nodes, repeat, index)
    canvas = _Canvas()
    canvas.put(kept, edges, lay_out([_box(n) for n in kept], edges), repeat=repeat)
    title = f"graph {graph.name}: {len(kept)} of {len(graph.nodes)} nodes"
    return Drawing(canvas.svg(title), _told(repeat, "nodes"))


def _edges(
    nodes: Iterable[NodeRecord], repeat: Repeat | None, index: Mapping[int, int]
) -> list[tuple[int, int]]:
    found = {}
    for node in nodes:
        for operand in node.inputs:
            a, b = (repeat.shown(i) if repeat else i for i in (operand, node.id))
            if a < b:  # one that leads from a hidden repetition to a shown one would be a cycle
                found[index[a], index[b]] = None
    return list(found)


def _told(repeat: Repeat | None, what: str) -> str:
    if repeat is None:
        return ""
    return f"A group of {repeat.period} {what} that occurs {repeat.count} times is drawn once."


# -- steps ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Frame:
    """A step, or an input that several steps read: its nodes and their places."""

    step: StepRecord | None
    nodes: tuple[NodeRecord, ...]
    edges: tuple[tuple[int, int], ...]
    inner: Layout

    @property
    def box(self) -> Box:
        if self.step is None:
            return _box(self.nodes[0])
        wide = _CHAR * len(_heading(self.step))
        return Box(
            max(self.inner.width, wide) + 2 * _PAD,
            self.inner.height + _TITLE + (_PAD if self.nodes else 0.0),
        )


def draw_steps(graph: GraphRecord, steps: Sequence[StepRecord], *, limit: int = LIMIT) -> Drawing:
    """A graph that was cut into steps: the nodes of a step within one frame."""
    homes = homes_of(graph)
    repeat = None
    if len(graph.nodes) > limit:
        repeat = find_repeat([(s.kernel, s.library, s.label) for s in steps])
    shown = [s for s in steps if repeat is None or repeat.shown(s.number) == s.number]
    hidden = {s.number for s in steps} - {s.number for s in shown}
    nodes = [n for n in graph.nodes if homes.get(n.id, -1) not in hidden]
    brief = len(nodes) > limit
    if len(shown) > limit:
        return Drawing("", f"{len(steps)} steps are too many for a drawing; see the table.")
    frames = _frames(nodes, shown, homes, brief=brief, drop_inputs=bool(hidden))
    edges = _frame_edges(graph, frames, homes, repeat)
    canvas = _Canvas()
    layout = lay_out([frame.box for frame in frames], edges, gap=24.0, rise=30.0)
    canvas.frames(frames, edges, layout, repeat)
    note = _told(repeat, "steps")
    if brief:
        note += " The nodes within the steps are left out; see the text."
    return Drawing(canvas.svg(f"graph {graph.name} in {len(steps)} steps"), note.strip())


def homes_of(graph: GraphRecord) -> dict[int, int]:
    """Node -> the step within whose frame it is drawn.

    Views, constants and inputs belong to their only reader's step, or to the first of several;
    an input with readers in several steps, and what nothing computes, stand alone (no entry).
    """
    homes = {node.id: node.step for node in graph.nodes if node.step >= 0}
    readers: dict[int, list[int]] = {}
    for node in reversed(graph.nodes):
        found = [homes[r] for r in readers.get(node.id, ()) if r in homes]
        if node.id not in homes and found and (node.op != "input" or len(set(found)) == 1):
            homes[node.id] = min(found)
        for operand in node.inputs:
            readers.setdefault(operand, []).append(node.id)
    for node in graph.nodes:
        above = [homes[i] for i in node.inputs if i in homes]
        if node.id not in homes and node.op != "input" and above:
            homes[node.id] = max(above)
    return homes


def _frames(
    nodes: Sequence[NodeRecord], steps: Sequence[StepRecord], homes: Mapping[int, int], *,
    brief: bool, drop_inputs: bool,
) -> list[_Frame]:  # fmt: skip
    inside: dict[int, list[NodeRecord]] = {step.number: [] for step in steps}
    alone: list[_Frame] = []
    for node in nodes:
        home = homes.get(node.id, -1)
        if home >= 0:
            inside[home].append(node)
        elif not drop_inputs or node.op != "input" or not brief:
            alone.append(_Frame(None, (node,), (), Layout((), (), 0.0, 0.0)))
    return alone + [_frame(step, [] if brief else inside[step.number]) for step in steps]


def _frame(step: StepRecord, nodes: Sequence[NodeRecord]) -> _Frame:
    index = {node.id: i for i, node in enumerate(nodes)}
    edges = {
        (index[operand], index[node.id]): None
        for node in nodes for operand in node.inputs if operand in index
    }  # fmt: skip
    inner = lay_out([_box(node) for node in nodes], list(edges), gap=12.0, rise=20.0)
    return _Frame(step, tuple(nodes), tuple(edges), inner)


def _frame_edges(
    graph: GraphRecord, frames: Sequence[_Frame], homes: Mapping[int, int], repeat: Repeat | None
) -> list[tuple[int, int]]:
    of_step = {f.step.number: i for i, f in enumerate(frames) if f.step is not None}
    of_node = {f.nodes[0].id: i for i, f in enumerate(frames) if f.step is None}

    def frame(node: int) -> int | None:
        home = homes.get(node, -1)
        if home < 0:
            return of_node.get(node)
        return of_step.get(repeat.shown(home) if repeat else home)

    found = {}
    for node in graph.nodes:
        for operand in node.inputs:
            a, b = frame(operand), frame(node.id)
            if a is not None and b is not None and a < b:
                found[a, b] = None
    return list(found)


def _heading(step: StepRecord) -> str:
    what = step.library or step.kernel or "nothing"
    return f"{step.number}  {_cut(what)}"


# -- boxes and text ------------------------------------------------------------------------------


def _cut(text: str, most: int = _LONG) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _words(node: NodeRecord) -> str:
    """The op and the attributes that tell most."""
    parts = dict(_split(node.attrs))
    told = [_shortened(parts[name]) for name in _TOLD if name in parts]
    return _cut(" ".join([node.op, *told[:1]]))


def _shortened(value: str) -> str:
    try:
        return f"{float(value):.6g}"
    except ValueError:
        return value


def _split(attrs: str) -> Iterable[tuple[str, str]]:
    depth, start = 0, 0
    for at, char in enumerate(attrs + ","):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth <= 0:
            name, _, value = attrs[start:at].strip().partition("=")
            yield name, value.strip("'\"")
            start = at + 1


def _box(node: NodeRecord) -> Box:
    longest = max(len(_words(node)), len(_cut(node.type)) + 1)
    return Box(max(_CHAR * longest + 18, 56.0), _NODE_HEIGHT)


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

    def put(
        self, nodes: Sequence[NodeRecord], edges: Sequence[tuple[int, int]], layout: Layout, *,
        at: tuple[float, float] = (0.0, 0.0), repeat: Repeat | None = None,
    ) -> None:  # fmt: skip
        """Boxes and edges, shifted by ``at``."""
        self._size(at[0] + layout.width, at[1] + layout.height)
        for points in layout.edges:
            self._edge([(x + at[0], y + at[1]) for x, y in points])
        for node, (x, y) in zip(nodes, layout.places, strict=True):
            again = repeat.count if repeat and _inside(repeat, node.id) else 1
            self._node(node, x + at[0], y + at[1], again)

    def frames(
        self, frames: Sequence[_Frame], edges: Sequence[tuple[int, int]], layout: Layout,
        repeat: Repeat | None,
    ) -> None:  # fmt: skip
        """Frames of steps with their nodes."""
        self._size(layout.width, layout.height)
        for points in layout.edges:
            self._edge(points, "flow")
        for frame, (x, y) in zip(frames, layout.places, strict=True):
            if frame.step is None:
                self._node(frame.nodes[0], x, y, 1)
                continue
            box, step = frame.box, frame.step
            again = f" {_TIMES}{repeat.count}" if repeat and _inside(repeat, step.number) else ""
            self._parts.append(
                f'<a href="#step-{step.number}" class="step k{step.number % HUES}">'
                f"<title>{escape(f'step {step.number}: {step.label}')}</title>"
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
                f' rx="8"/><text x="{x + _PAD:.1f}" y="{y + 16:.1f}">'
                f"{escape(_heading(step) + again)}</text></a>"
            )
            left = x + (box.width - frame.inner.width) / 2
            self.put(frame.nodes, frame.edges, frame.inner, at=(left, y + _TITLE))

    def _node(self, node: NodeRecord, x: float, y: float, again: int) -> None:
        box = _box(node)
        kind = "input" if node.op == "input" else "output" if node.output >= 0 else ""
        words = _words(node) + (f" {_TIMES}{again}" if again > 1 else "")
        where = f"\n{node.where}" if node.where else ""
        middle = x + box.width / 2
        self._parts.append(
            f'<g class="node {kind}"><title>{escape(node.line + where)}</title>'
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
            f' rx="4"/><text x="{middle:.1f}" y="{y + 14:.1f}">{escape(words)}</text>'
            f'<text class="type" x="{middle:.1f}" y="{y + 27:.1f}">{escape(_cut(node.type))}</text>'
            "</g>"
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
        self._parts.append(f'<path class="edge {kind}" d="{"".join(path)}"/>')

    def _size(self, width: float, height: float) -> None:
        self._width, self._height = max(self._width, width), max(self._height, height)


def _inside(repeat: Repeat, index: int) -> bool:
    return repeat.start <= index < repeat.start + repeat.period


def graph_style() -> str:
    """The style sheet of drawings."""
    return files("ge2rt.report").joinpath("graph.css").read_text("utf-8")


def standalone(drawing: Drawing) -> str:
    """A drawing as an SVG file of its own. ValueError where nothing was drawn."""
    if not drawing.svg:
        raise ValueError(drawing.note)
    head, _, rest = drawing.svg.partition("</title>")
    return f"{head}</title><style>{graph_style()}</style>{rest}"
