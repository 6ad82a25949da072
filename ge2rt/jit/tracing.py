"""One trace: the user's function run on symbols, and the graph that comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidTypeError
from ge2rt.ir.graph import Graph, Node, walk
from ge2rt.ir.make import input_node
from ge2rt.jit import rules
from ge2rt.jit.arguments import ArrayKey, Binder, Call, NumberKey, ScalarKey
from ge2rt.jit.explain import explained
from ge2rt.jit.faults import CapturedWriteError
from ge2rt.jit.intervals import BITS
from ge2rt.jit.promote import full, lift
from ge2rt.jit.scope import Trace, tracing
from ge2rt.jit.substitute import substituted
from ge2rt.jit.traced import Traced
from ge2rt.jit.trees import Structure, flatten, unflatten

assert rules.__all__  # importing them fills the table

NUMBER_DTYPES = {int: "i64", float: "f64"}
_ANY = (-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Result:
    """The tree that a call returns: ``places`` has, a leaf, an output's index or None for plain.

    ``numbers`` has int or float for a leaf that is a Python number, as the arguments it was
    computed from: were it an array, the next call that gets it would promote it differently.
    """

    structure: Structure
    places: tuple[int | None, ...]
    plain: tuple[Any, ...]
    numbers: tuple[type | None, ...]

    def tree(self, outputs: Sequence[Any]) -> Any:
        """The tree with these outputs; one used twice is copied."""
        seen: set[int] = set()
        leaves = []
        for place, value, number in zip(self.places, self.plain, self.numbers, strict=True):
            if place is None or number is not None:
                leaves.append(value if place is None else outputs[place].item())
                continue
            leaves.append(outputs[place].copy() if place in seen else outputs[place])
            seen.add(place)
        return unflatten(self.structure, leaves)

    @property
    def single(self) -> bool:
        """Whether it is just one array."""
        bare = not hasattr(self.structure, "parts")
        return bare and self.places == (0,) and self.numbers == (None,)

    @property
    def flat(self) -> bool:
        """Whether it is a tuple of different arrays."""
        kind = getattr(self.structure, "kind", None)
        return (
            kind is tuple
            and self.places == tuple(range(len(self.places)))
            and not any(self.numbers)
            and all(
                not hasattr(part, "parts")
                for part in self.structure.parts  # type: ignore[union-attr]
            )
        )


@dataclass(frozen=True)
class TracedCall:
    """What a trace found.

    ``inputs`` are the leaves that are inputs, in order; ``captured`` the arrays behind them;
    ``pinned`` those whose content shaped the graph, with copies; ``symbols`` the ids of those that
    the function saw as symbols, so that nothing but the graph depends on their content;
    ``written`` are (leaf, output) of arguments that the function changes in place; ``later`` are
    (written leaf, one that was read or written afterwards). ``ranges`` are (leaf, least, most) of
    Python integers that the graph holds for.
    """

    graph: Graph
    inputs: tuple[int, ...]
    captured: tuple[Any, ...]
    pinned: tuple[tuple[Any, Any], ...]
    symbols: frozenset[int]
    result: Result
    written: tuple[tuple[int, int], ...]
    later: tuple[tuple[int, int], ...] = ()
    ranges: tuple[tuple[int, int, int], ...] = ()

    def outside(self, leaves: Sequence[Any]) -> frozenset[int]:
        """The integers among a call's leaves that this trace does not hold for."""
        return frozenset(
            place for place, least, most in self.ranges if not least <= leaves[place] <= most
        )


def trace_call(
    function: Callable[..., Any], binder: Binder, call: Call, name: str,
    transform: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function,
    *, bits: int = BITS[0],
) -> TracedCall:  # fmt: skip
    """Run ``function``, or what ``transform`` makes of it, on symbols for the call's leaves.

    Python integers that take part in arithmetic are those of so many ``bits``.

    At first what it captured is replaced by symbols too. Where that does not do (it asks for values
    of captured arrays, or hands them to functions that are not covered) it is run once more, with
    these as they are.
    """
    try:
        first = Trace(name, bits)
        try:
            return _trace(function, binder, call, first, transform)
        except CapturedWriteError:
            raise
        except Exception:  # whatever it was: the second run tells it, if it comes again
            if not first.symbols:
                raise
        plain = Trace(name, bits)
        plain.substitutes = False
        return _trace(function, binder, call, plain, transform)
    except (TypeError, ValueError) as fault:
        told = explained(fault, call)
        if told is None:
            raise
        raise told from fault


def _trace(
    function: Callable[..., Any], binder: Binder, call: Call, trace: Trace,
    transform: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> TracedCall:  # fmt: skip
    with tracing(trace):
        if trace.substitutes:
            function = substituted(function)
        symbols, nodes = _symbols(call)
        trace.arguments = [(place, symbols[place]) for place in nodes]
        given = list(symbols)
        values = []
        rest = iter(given)
        for parameter, structure in call.structure:  # type: ignore[union-attr]
            if structure is None:
                values.append((parameter, next(rest)))
            else:
                values.append((parameter, unflatten(structure, _take(rest, structure))))
        outcome = binder.invoke(transform(function), values)
        if trace.asked is not None:
            raise trace.asked
        _refuse_captured_writes(trace)
        result, outputs = _result(outcome)
        written = _written(symbols, outputs)
    used = set(walk(tuple(outputs)))
    captured = [
        (array, node)
        for array, node in zip(trace.captured, trace.captured_nodes, strict=True) if node in used
    ]  # fmt: skip
    inputs = (*nodes.values(), *(node for _, node in captured))
    _refuse_strays(used.difference(inputs))
    return TracedCall(
        Graph(trace.name, inputs, tuple(outputs)), tuple(nodes), tuple(a for a, _ in captured),
        tuple(trace.pinned), frozenset(trace.symbols), result, written,
        tuple(sorted(trace.later)), tuple(_ranges(call, trace)),
    )  # fmt: skip


def _ranges(call: Call, trace: Trace) -> Iterator[tuple[int, int, int]]:
    for place, key in enumerate(call.keys):
        if isinstance(key, NumberKey) and key.kind is int:
            yield place, *trace.ranges.get(place, _ANY)


def _refuse_strays(nodes: Iterable[Node]) -> None:
    """Symbols of a function under ``grad``, ``vmap``... that were kept beyond it."""
    for node in nodes:
        if node.op == "input":
            raise InvalidTypeError(
                "an array of a function under grad, vjp, jvp or vmap is used outside of it",
                where=node.where, got=f"{node.attrs['name']}: {node.type}",
                next_step="return it from that function, with has_aux=True where it is no result",
            )  # fmt: skip


def _refuse_captured_writes(trace: Trace) -> None:
    for symbol in trace.symbols.values():
        if symbol.memory.version:
            raise CapturedWriteError(
                "the function changes a captured array in place", where=symbol.memory.writer,
                got=str(symbol.node.type),
                next_step="pass the array as an argument, or work on a copy: w = w.copy()",
            )  # fmt: skip


def _take(leaves: Any, structure: Structure) -> list[Any]:
    count = _count(structure)
    return [next(leaves) for _ in range(count)]


def _count(structure: Structure) -> int:
    parts = getattr(structure, "parts", None)
    return 1 if parts is None else sum(_count(part) for part in parts)


def _symbols(call: Call) -> tuple[list[Any], dict[int, Node]]:
    """A symbol for each leaf that is data, the value itself for one that is compiled in."""
    symbols: list[Any] = []
    nodes: dict[int, Node] = {}
    for place, (leaf, key, name) in enumerate(zip(call.leaves, call.keys, call.names, strict=True)):
        if isinstance(key, ArrayKey):
            nodes[place] = input_node(key.shape, key.dtype, name)
            symbols.append(Traced(nodes[place]))
            symbols[-1].scalar = isinstance(key, ScalarKey)
        elif isinstance(key, NumberKey):
            nodes[place] = input_node((), NUMBER_DTYPES[key.kind], name)
            symbols.append(Traced(nodes[place], weak=key.kind, leaves=frozenset({place})))
        else:
            symbols.append(leaf)
    return symbols, nodes


def _result(outcome: Any) -> tuple[Result, list[Node]]:
    leaves, structure, paths = flatten(outcome, "result")
    places: list[int | None] = []
    plain: list[Any] = []
    numbers: list[type | None] = []
    outputs: dict[Node, int] = {}
    for leaf, path in zip(leaves, paths, strict=True):
        node = _output(leaf, path)
        plain.append(None if node is not None else leaf)
        numbers.append(leaf.weak if isinstance(leaf, Traced) else None)
        places.append(None if node is None else outputs.setdefault(node, len(outputs)))
    return Result(structure, tuple(places), tuple(plain), tuple(numbers)), list(outputs)


def _output(leaf: Any, path: str) -> Node | None:
    """The node of a result; None for a plain value, which every call returns as it is."""
    if isinstance(leaf, Traced):
        return leaf.node
    if isinstance(leaf, np.generic):
        return full((), dtype_of(leaf.dtype), leaf)
    if getattr(leaf, "shape", None) is not None and hasattr(leaf, "dtype"):
        return lift(leaf).node
    if isinstance(leaf, Iterator) or (callable(leaf) and not isinstance(leaf, type)):
        raise InvalidTypeError(
            "the jitted function returns a function or an iterator, which would run after it",
            argument=path, got=type(leaf).__name__,
            next_step="return arrays, numbers or containers of these",
        )  # fmt: skip
    return None


def _written(symbols: Sequence[Any], outputs: list[Node]) -> tuple[tuple[int, int], ...]:
    """The arguments whose memory was written, with the output that holds what they are now."""
    written = []
    for place, symbol in enumerate(symbols):
        if isinstance(symbol, Traced) and symbol.memory.version and not symbol.weak:
            node = symbol.node  # refused where it was changed through a view that is still apart
            if node not in outputs:
                outputs.append(node)
            written.append((place, outputs.index(node)))
    return tuple(written)
