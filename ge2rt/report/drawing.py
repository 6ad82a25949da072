"""What of a graph is drawn: constants within the ops that read them, repeated groups once, frames.

A frame is a step with the nodes it computes. Views, and inputs with one reader, stand in the frame
of the step that reads them: they cost nothing of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ge2rt.report.layout import Box, Layout, Repeat, find_repeat, lay_out
from ge2rt.report.records import GraphRecord, NodeRecord, StepRecord

CHAR = 6.7  # width of a character of the 11 px fixed-width face
NODE_HEIGHT = 34.0
PAD, TITLE = 10.0, 24.0

_LONG = 34  # characters of a line in a box
_TOLD = ("name", "axes", "axis", "perm", "act", "causal", "start")
_VIEWS = frozenset({"broadcast", "reshape", "transpose"})

Edges = list[tuple[int, int]]


@dataclass(frozen=True)
class Item:
    """A node as it is drawn: its words, the drawn nodes that it reads, how many it stands for."""

    node: NodeRecord
    words: str
    inputs: tuple[int, ...]
    count: int = 1

    @property
    def type(self) -> str:
        """The second line."""
        return cut(self.node.type)

    @property
    def box(self) -> Box:
        """Its size."""
        longest = max(len(self.words) + 4 * (self.count > 1), len(self.type) + 1)
        return Box(max(CHAR * longest + 18, 56.0), NODE_HEIGHT)


@dataclass(frozen=True)
class Frame:
    """A step with its nodes and their places, or (``step`` is None) one item that stands alone."""

    step: StepRecord | None
    items: tuple[Item, ...]
    inner: Layout
    count: int = 1

    @property
    def heading(self) -> str:
        """The frame's own text."""
        assert self.step is not None
        what = self.step.library or self.step.kernel or "nothing"
        return f"{self.step.number}  {cut(what)}"

    @property
    def box(self) -> Box:
        """Its size."""
        if self.step is None:
            return self.items[0].box
        wide = CHAR * (len(self.heading) + 5 * (self.count > 1))
        high = self.inner.height + TITLE + (PAD if self.items else 0.0)
        return Box(max(self.inner.width, wide) + 2 * PAD, high)


def cut(text: str, most: int = _LONG) -> str:
    """A text with an ellipsis where it is long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


# -- nodes ---------------------------------------------------------------------------------------


def items_of(nodes: Iterable[NodeRecord]) -> list[Item]:
    """The nodes that are drawn; constants become words of those that read them."""
    constants: dict[int, str] = {}
    found = []
    for node in nodes:
        attrs = dict(split_attrs(node.attrs))
        if node.output < 0 and node.op == "full":
            constants[node.id] = _number(attrs.get("value", ""))
        elif node.output < 0 and node.op in _VIEWS and node.inputs[0] in constants:
            constants[node.id] = constants[node.inputs[0]]
        else:
            inputs = tuple(i for i in node.inputs if i not in constants)
            found.append(Item(node, _words(node, attrs, constants), inputs))
    return found


def _words(node: NodeRecord, attrs: Mapping[str, str], constants: Mapping[int, str]) -> str:
    told = [attrs[name] for name in _TOLD if name in attrs][:1]
    if any(i in constants for i in node.inputs):
        told.append(", ".join(constants.get(i, "·") for i in node.inputs))
    return cut(" ".join([node.op, *told]))


def split_attrs(attrs: str) -> Iterator[tuple[str, str]]:
    """Names and values of attributes as a graph prints them."""
    depth, start = 0, 0
    for at, char in enumerate(attrs + ","):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth <= 0:
            name, _, value = attrs[start:at].strip().partition("=")
            yield name, value.strip("'\"")
            start = at + 1


def _number(value: str) -> str:
    try:
        return f"{float(value):.6g}"
    except ValueError:
        return value


def edges_of(items: Sequence[Item]) -> Edges:
    """Edges among items, by their places in the list."""
    index = {item.node.id: i for i, item in enumerate(items)}
    return list(dict.fromkeys(
        (index[operand], index[item.node.id])
        for item in items for operand in item.inputs if operand in index
    ))  # fmt: skip


def collapse(items: Sequence[Item]) -> tuple[list[Item], Repeat | None]:
    """A group of nodes that repeats is shown once; inputs that only hidden ones read go, too."""
    body = [item for item in items if item.node.op != "input"]
    repeat = find_repeat([(item.node.op, item.node.type) for item in body])
    if repeat is None:
        return list(items), None
    stands = {item.node.id: body[repeat.shown(i)].node.id for i, item in enumerate(body)}
    shown = [
        replace(item, count=repeat.count if repeat.start <= i < repeat.start + repeat.period else 1)
        for i, item in enumerate(body) if repeat.shown(i) == i
    ]  # fmt: skip
    read = {operand for item in shown for operand in item.inputs}
    inputs = [item for item in items if item.node.op == "input" and item.node.id in read]
    place = {item.node.id: i for i, item in enumerate(inputs + shown)}
    moved = [
        # an edge from a hidden repetition up to a shown one would be a cycle
        replace(item, inputs=tuple(
            stands.get(i, i) for i in item.inputs
            if place[stands.get(i, i)] < place[item.node.id]
        ))
        for item in shown
    ]  # fmt: skip
    return merged(inputs + moved), repeat


def merged(items: Sequence[Item]) -> list[Item]:
    """Nodes that look alike, read the same drawn nodes and are read by the same, as one."""
    own = {item.node.id for item in items}
    readers: dict[int, list[int]] = {}
    for item in items:
        for operand in item.inputs:
            readers.setdefault(operand, []).append(item.node.id)
    groups: dict[object, list[Item]] = {}
    for item in items:
        read = tuple(i for i in item.inputs if i in own)
        key: object = (item.words, item.node.type, read, tuple(readers.get(item.node.id, ())))
        groups.setdefault(item.node.id if item.node.output >= 0 else key, []).append(item)
    return [replace(group[0], count=max(g.count for g in group) + len(group) - 1)
            for group in groups.values()]  # fmt: skip


# -- frames --------------------------------------------------------------------------------------


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


def frame_of(step: StepRecord, items: Sequence[Item], count: int) -> Frame:
    """A step's frame."""
    kept = merged(items)
    inner = lay_out([item.box for item in kept], edges_of(kept), gap=12.0, rise=16.0)
    return Frame(step, tuple(kept), inner, count)


def alone(item: Item) -> Frame:
    """An item outside of all steps."""
    return Frame(None, (item,), Layout((), (), 0.0, 0.0))


def frame_edges(
    graph: GraphRecord, frames: Sequence[Frame], homes: Mapping[int, int], repeat: Repeat | None
) -> Edges:
    """Edges among frames, by their places in the list."""
    of_step = {f.step.number: i for i, f in enumerate(frames) if f.step is not None}
    of_node = {f.items[0].node.id: i for i, f in enumerate(frames) if f.step is None}

    def place(node: int) -> int | None:
        home = homes.get(node, -1)
        if home < 0:
            return of_node.get(node)
        return of_step.get(repeat.shown(home) if repeat else home)

    found: dict[tuple[int, int], None] = {}
    for node in graph.nodes:
        for operand in node.inputs:
            a, b = place(operand), place(node.id)
            if a is not None and b is not None and a < b:
                found[a, b] = None
    return list(found)
