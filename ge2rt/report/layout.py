"""Layered drawing of a directed acyclic graph: layers, order within them, coordinates.

After Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System
Structures" (1981): layers by longest paths, barycentre sweeps for the order, and coordinates by
least squares under the order (pool adjacent violators). No randomness: equal graphs, equal
drawings.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 8
_PASSES = 12
_BOTH = 6  # of these at the end look up and down
_DUMMY_WIDTH = 10.0
_STRAIGHT = 3.0  # weight of a long edge's inner points: they should stand in one line
_MOST_DUMMIES = 6000  # more than that are no drawing for people


@dataclass(frozen=True)
class Box:
    """What is laid out: width and height."""

    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """Upper left corners by box, points of each edge from top to bottom, and the whole size."""

    places: tuple[tuple[float, float], ...]
    edges: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def lay_out(
    boxes: Sequence[Box], edges: Sequence[tuple[int, int]], *, gap: float = 18.0, rise: float = 26.0
) -> Layout:
    """Place boxes so that every edge leads down. ``edges`` are pairs of indices without a cycle.

    ``gap`` is between neighbours of a layer, ``rise`` between layers.
    """
    if not boxes:
        return Layout((), (), 0.0, 0.0)
    layer = _layers(len(boxes), edges)
    if sum(layer[b] - layer[a] - 1 for a, b in edges) > _MOST_DUMMIES:
        layer = list(range(len(boxes)))  # a column: still true, if plain
        edges = [edge for edge in edges if edge[1] - edge[0] == 1]
    net = _Net(boxes, edges, layer)
    net.order()
    return net.draw(gap, rise)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Longest path from above; then chains that hang on nothing are let down to their reader."""
    below: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for a, b in edges:
        below[a].append(b)
        waiting[b] += 1
    fed = list(waiting)
    layer = [0] * count
    ready = [i for i in range(count) if not waiting[i]]
    for node in ready:  # grows as it is read
        for reader in below[node]:
            layer[reader] = max(layer[reader], layer[node] + 1)
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    if len(ready) != count:
        raise ValueError("the graph has a cycle")
    hangs = [not fed[node] for node in range(count)]
    for node in ready:
        if hangs[node] and len(below[node]) == 1 and fed[below[node][0]] == 1:
            hangs[below[node][0]] = True
    for node in reversed(ready):
        if hangs[node] and below[node]:
            layer[node] = min(layer[reader] for reader in below[node]) - 1
    return layer


class _Net:
    """Boxes and the inner points of long edges, in layers."""

    def __init__(
        self, boxes: Sequence[Box], edges: Sequence[tuple[int, int]], layer: Sequence[int]
    ) -> None:
        self.boxes = boxes
        self.widths = [box.width for box in boxes]
        self.rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
        for node, at in enumerate(layer):
            self.rows[at].append(node)
        self.layer = list(layer)
        self.paths: list[list[int]] = []
        for a, b in edges:
            self.paths.append([a, *self._dummies(layer[a] + 1, layer[b]), b])
        self.up: list[list[int]] = [[] for _ in self.widths]
        self.down: list[list[int]] = [[] for _ in self.widths]
        for path in self.paths:
            for a, b in pairwise(path):
                self.down[a].append(b)
                self.up[b].append(a)

    def _dummies(self, first: int, last: int) -> list[int]:
        made = []
        for at in range(first, last):
            made.append(len(self.widths))
            self.rows[at].append(len(self.widths))
            self.widths.append(_DUMMY_WIDTH)
            self.layer.append(at)
        return made

    # -- order --------------------------------------------------------------------------------

    def order(self) -> None:
        """Barycentre sweeps down and up; the order with the fewest crossings stays."""
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for sweep in range(_SWEEPS):
            if not fewest:
                break
            downward = sweep % 2 == 0
            rows = self.rows[1:] if downward else self.rows[-2::-1]
            for row in rows:
                self._sort(row, self.up if downward else self.down)
            now = self._crossings()
            if now < fewest:
                best, fewest = [list(row) for row in self.rows], now
        self.rows = best

    def _sort(self, row: list[int], near: Sequence[Sequence[int]]) -> None:
        if not row:
            return
        at = self.layer[row[0]]
        places: dict[int, int] = {}
        for other in (at - 1, at + 1):
            if 0 <= other < len(self.rows):
                places.update({node: i for i, node in enumerate(self.rows[other])})
        centre = {
            node: sum(places[n] for n in near[node]) / len(near[node]) if near[node] else float(i)
            for i, node in enumerate(row)
        }
        row.sort(key=centre.__getitem__)

    def _crossings(self) -> int:
        total = 0
        for upper, lower in pairwise(self.rows):
            places = {node: i for i, node in enumerate(lower)}
            seen: list[int] = []
            for node in upper:
                ends = sorted(places[n] for n in self.down[node])
                total += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total

    # -- coordinates --------------------------------------------------------------------------

    def draw(self, gap: float, rise: float) -> Layout:
        """Coordinates of all boxes and of the edges' points."""
        x = self._centres(gap)
        low = min(x[i] - self.widths[i] / 2 for i in range(len(x)))
        high = max(x[i] + self.widths[i] / 2 for i in range(len(x)))
        tops, y = [], 0.0
        heights = []
        for row in self.rows:
            heights.append(
                max((self.boxes[n].height for n in row if n < len(self.boxes)), default=0.0)
            )
            tops.append(y)
            y += heights[-1] + rise
        places = tuple(
            (x[i] - box.width / 2 - low, tops[self.layer[i]]) for i, box in enumerate(self.boxes)
        )
        edges = tuple(self._points(path, x, low, tops, heights) for path in self.paths)
        return Layout(places, edges, high - low, y - rise)

    def _points(
        self, path: Sequence[int], x: Sequence[float], low: float, tops: Sequence[float],
        heights: Sequence[float],
    ) -> tuple[tuple[float, float], ...]:  # fmt: skip
        first, *inner, last = path
        points = [(x[first] - low, tops[self.layer[first]] + self.boxes[first].height)]
        for node in inner:
            top = tops[self.layer[node]]
            points += [(x[node] - low, top), (x[node] - low, top + heights[self.layer[node]])]
        return (*points, (x[last] - low, tops[self.layer[last]]))

    def _centres(self, gap: float) -> list[float]:
        x = [0.0] * len(self.widths)
        for row in self.rows:
            at = 0.0
            for node in row:
                x[node] = at + self.widths[node] / 2
                at += self.widths[node] + gap
        for number in range(_PASSES):
            downward = number % 2 == 0
            near = self.up if downward else self.down
            if number >= _PASSES - _BOTH:
                near = [[*a, *b] for a, b in zip(self.up, self.down, strict=True)]
            for row in self.rows if downward else reversed(self.rows):
                self._settle(row, near, x, gap)
        self._straighten(x)
        return x

    def _straighten(self, x: list[float]) -> None:
        """Inner points of long edges in as few vertical runs as the room beside them allows."""
        place = {node: (row, i) for row in self.rows for i, node in enumerate(row)}
        for path in self.paths:
            run: list[int] = []
            low, high = float("-inf"), float("inf")
            for node in path[1:-1]:
                left, right = self._room(node, *place[node], x)
                if max(low, left) > min(high, right):
                    self._align(run, low, high, x[path[0]], x)
                    run, low, high = [], float("-inf"), float("inf")
                run.append(node)
                low, high = max(low, left), min(high, right)
            self._align(run, low, high, x[path[-1]], x)

    def _room(
        self, node: int, row: Sequence[int], at: int, x: Sequence[float]
    ) -> tuple[float, float]:
        """Between the neighbours' borders."""
        half = self.widths[node] / 2
        before, after = row[:at][-1:], row[at + 1 : at + 2]
        left = max((x[n] + self.widths[n] / 2 + half for n in before), default=float("-inf"))
        right = min((x[n] - self.widths[n] / 2 - half for n in after), default=float("inf"))
        return min(left, x[node]), max(right, x[node])

    def _align(
        self, run: Sequence[int], low: float, high: float, wanted: float, x: list[float]
    ) -> None:
        for node in run:
            x[node] = min(max(wanted, low), high)

    def _settle(
        self, row: Sequence[int], near: Sequence[Sequence[int]], x: list[float], gap: float
    ) -> None:
        """Each node of a row as close to its neighbours' mean as order and gaps allow."""
        offsets, at = [], 0.0
        for node in row:
            offsets.append(at + self.widths[node] / 2)
            at += self.widths[node] + gap
        pulls = [[(self._pull(node, n), x[n]) for n in near[node]] for node in row]
        weights = [sum(weight for weight, _ in pull) or 0.1 for pull in pulls]
        wanted = [
            sum(weight * to for weight, to in pull) / weights[i] if pull else x[node]
            for i, (node, pull) in enumerate(zip(row, pulls, strict=True))
        ]
        levels = pooled([w - o for w, o in zip(wanted, offsets, strict=True)], weights)
        for node, level, offset in zip(row, levels, offsets, strict=True):
            x[node] = level + offset

    def _pull(self, a: int, b: int) -> float:
        return (_STRAIGHT if a >= len(self.boxes) else 1.0) * (
            _STRAIGHT if b >= len(self.boxes) else 1.0
        )


def pooled(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing sequence closest to ``values`` in weighted squares."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, length
    for value, weight in zip(values, weights, strict=True):
        mean, total, length = value, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, heavy, count = blocks.pop()
            mean = (before * heavy + mean * total) / (heavy + total)
            total, length = total + heavy, length + count
        blocks.append((mean, total, length))
    return [mean for mean, _, length in blocks for _ in range(length)]


@dataclass(frozen=True)
class Repeat:
    """A run of equal groups in a sequence: ``count`` times ``period`` items from ``start``."""

    start: int
    period: int
    count: int

    @property
    def hidden(self) -> int:
        """Items that need not be shown."""
        return self.period * (self.count - 1)

    def shown(self, index: int) -> int:
        """The item that stands for ``index``."""
        if not self.start <= index < self.start + self.period * self.count:
            return index
        return self.start + (index - self.start) % self.period


def find_repeat(keys: Sequence[object]) -> Repeat | None:
    """The repetition that hides most items, each group at least two items; None without any."""
    numbers: Mapping[object, int] = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    codes = [numbers[key] for key in keys]
    best: Repeat | None = None
    for period in range(2, len(codes) // 2 + 1):
        run = 0
        for index in range(len(codes) - period):
            run = run + 1 if codes[index] == codes[index + period] else 0
            count = run // period + 1
            if count > 1 and (best is None or period * (count - 1) > best.hidden):
                best = Repeat(index + 1 - period * (count - 1), period, count)
    return best
