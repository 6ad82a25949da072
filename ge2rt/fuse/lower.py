"""Graph -> program: buffers, kernels, and the order of the launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import InternalError
from ge2rt.fuse.access import Layout, ViewOp, dense, resolve, view_of
from ge2rt.fuse.body import Writer
from ge2rt.fuse.merge import Part
from ge2rt.fuse.opaque import opaque_step, view_of_layout
from ge2rt.fuse.prepare import prepared
from ge2rt.fuse.program import Buffer, Choices, KernelStep, Program, Step, View
from ge2rt.fuse.regions import Partition, partition
from ge2rt.fuse.specs import pointwise_spec, reduction_spec
from ge2rt.ir.graph import Graph, Node

_DEFAULT = Choices()


def lower(
    graph: Graph,
    strides: Sequence[Sequence[int] | None] | None = None,
    *,
    choose: Choices = _DEFAULT,
) -> Program:
    """The program of an optimised graph.

    ``strides`` are those of the input arrays in elements; None is row-major, for one of them or for
    all. Outputs are row-major and fresh: an output that is an input, or a view of one, is copied.
    """
    given = strides if strides is not None else [None] * len(graph.inputs)
    homes = {
        node: dense(node.shape) if steps is None else Layout(node.shape, tuple(steps))
        for node, steps in zip(graph.inputs, given, strict=True)
    }
    ready = prepared(graph, choose)
    return _Lowering(ready, partition(ready, homes, choose), choose).program()


class _Lowering:
    def __init__(self, graph: Graph, cut: Partition, choose: Choices) -> None:
        self.graph = graph
        self.cut = cut
        self.choose = choose
        self.buffers: list[Buffer] = []
        self.order = {node: i for i, node in enumerate((*graph.inputs, *graph.nodes))}
        self.where: dict[Node, int] = {}  # the buffer in which a node is read
        self.written: dict[tuple[Node, int], int] = {}  # node, output number -> buffer
        self._make_buffers()

    def _make_buffers(self) -> None:
        for index, node in enumerate(self.graph.inputs):
            home = self.cut.homes[node]
            self.where[node] = self._add(node, home.strides, "input", index)
        outputs = {
            index: self._add(node, dense(node.shape).strides, "output", index)
            for index, node in enumerate(self.graph.outputs)
        }
        for node, stored in self.cut.places.items():
            for place in stored:
                at = outputs.get(place.output)
                if at is None:
                    at = self._add(node, dense(node.shape).strides, "temp", -1)
                self.written[node, place.output] = at
                self.where.setdefault(node, at)

    def _add(self, node: Node, strides: tuple[int, ...], kind: str, index: int) -> int:
        self.buffers.append(Buffer(len(self.buffers), node.type, strides, kind, index))
        return len(self.buffers) - 1

    def program(self) -> Program:
        inputs = tuple(b.id for b in self.buffers if b.kind == "input")
        outputs = tuple(b.id for b in self.buffers if b.kind == "output")
        steps = tuple(self._steps())
        check_steps(self.graph.name, steps, inputs, outputs)
        return Program(self.graph, tuple(self.buffers), steps, inputs, outputs)

    def _steps(self) -> Iterator[Step]:
        made = [(self._first(part.nodes), self._part_step(part)) for part in self.cut.parts]
        made += [(self.order[node], self._opaque_step(node)) for node in self.cut.opaque]
        made.sort(key=lambda each: each[0])
        yield from in_order([step for _, step in made])

    def _first(self, nodes: Iterable[Node]) -> int:
        return min(self.order[node] for node in nodes)

    def _opaque_step(self, node: Node) -> Step:
        place = self.cut.places[node][0]
        out = view_of_layout(self.written[node, place.output], place.layout)
        step = opaque_step(node, self._seen, out, self.choose)
        return replace(step, members=(self.order[node],))

    def _seen(self, node: Node) -> View:
        """The view of a buffer that an operand is."""
        chain: tuple[ViewOp, ...] = ()
        while node not in self.cut.homes:
            chain = (view_of(node), *chain)
            node = node.inputs[0]
        return view_of_layout(self.where[node], resolve(chain, self.cut.homes[node]))

    def _part_step(self, part: Part) -> Step:
        writer = Writer(part.region)
        spec = reduction_spec(writer) if part.region.is_reduction else pointwise_spec(writer)
        views: list[View | None] = []
        for given in writer.operands.inputs.values():
            views.append(view_of_layout(self.where[given.source], given.layout))
        for output, target in zip(writer.outputs, part.targets, strict=True):
            views.append(view_of_layout(self.written[target.node, target.output], output.layout))
        count = len(writer.outputs)
        if writer.operands.fault:
            views.append(None)
            count += 1
        attrs = scalar_attrs(writer)
        computed = [n for n in self.graph.nodes if n in part.region.visited]
        nodes, members = tuple(n.op for n in computed), tuple(self.order[n] for n in computed)
        return KernelStep(
            spec, tuple(views), count, attrs, _label(nodes), nodes, writer.operands.fault, members
        )


def scalar_attrs(writer: Writer) -> Mapping[str, int | float]:
    """Values of the numbers that a generated kernel takes as arguments."""
    attrs: dict[str, int | float] = {}
    for scalar in writer.operands.scalars.values():
        is_float = DTYPES[scalar.dtype].is_float
        attrs[scalar.name] = float(scalar.value) if is_float else int(scalar.value)
    attrs.update({name: value for value, name in writer.operands.sized.items()})
    return attrs


def in_order(steps: Sequence[Step]) -> Iterator[Step]:
    """Steps so that each stands behind those whose buffers it reads; else in the given order."""
    writers = {buffer: number for number, step in enumerate(steps) for buffer in step.writes}
    done: set[int] = set()
    begun: set[int] = set()  # those that wait for what stands above them on the stack
    for first in range(len(steps)):
        stack = [first]
        while stack:
            number = stack[-1]
            before = {writers[b] for b in steps[number].reads if b in writers}
            waiting = sorted(before - done - {number})
            if not begun.isdisjoint(waiting):
                raise InternalError(f"steps wait for each other: {steps[number]}")
            if number in done or not waiting:
                stack.pop()
                begun.discard(number)
                if number not in done:
                    done.add(number)
                    yield steps[number]
            else:
                begun.add(number)
                stack += waiting


def check_steps(
    name: str, steps: Sequence[Step], inputs: Iterable[int], outputs: Iterable[int]
) -> None:
    """Refuse steps that read what they write, or what nothing has written before."""
    ready = set(inputs)
    for number, step in enumerate(steps):
        written = set(step.writes)
        for buffer in step.reads:
            if buffer in written:
                raise InternalError(f"step {number} of {name} reads %{buffer}, which it writes")
            if buffer not in ready:
                raise InternalError(f"step {number} of {name} reads %{buffer} before it is written")
        if not written.isdisjoint(ready):
            again = min(written & ready)
            raise InternalError(f"step {number} of {name} writes %{again} once more")
        ready |= written
    for buffer in outputs:
        if buffer not in ready:
            raise InternalError(f"no step of {name} writes output %{buffer}")


def _label(nodes: Sequence[str]) -> str:
    names = list(dict.fromkeys(nodes))
    return " ".join(names[:6]) + (" ..." if len(names) > 6 else "")
