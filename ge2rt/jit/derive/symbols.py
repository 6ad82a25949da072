"""A function run on fresh symbols: what goes in, what comes out, and the way back."""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.text import show
from ge2rt.ir.graph import Node
from ge2rt.ir.make import input_node
from ge2rt.ir.rewrite import substituted
from ge2rt.jit.function import JitFunction
from ge2rt.jit.promote import cast, full, lift
from ge2rt.jit.scope import active, where
from ge2rt.jit.traced import Traced
from ge2rt.jit.trees import Structure, flatten, unflatten

Function: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class Symbols:
    """A tree of arrays, and the symbols in their place."""

    given: list[Node]
    symbols: list[Node]
    weak: list[type | None]
    structure: Structure
    tree: Any  # of traced symbols

    def refuse_writes(self, what: str) -> None:
        """TypeError if the function changed what it was given in place: nobody would see it."""
        for leaf in flatten(self.tree)[0]:
            if leaf.memory.version:
                raise InvalidTypeError(
                    f"the function under {what} changes its argument in place",
                    where=leaf.memory.writer,
                    next_step="write x = x + y instead of x += y, or work on a copy",
                )  # fmt: skip

    def put_together(self, nodes: Sequence[Node]) -> Any:
        """Nodes, one a leaf, as the tree that was given."""
        leaves = [Traced(n, weak=w) for n, w in zip(nodes, self.weak, strict=True)]
        return unflatten(self.structure, leaves)


def symbols(value: Any, name: str, what: str, *, shape: Function | None = None) -> Symbols:
    """Fresh symbols for a tree; ``shape`` gives that of a symbol for the leaf's own."""
    leaves, structure, paths = flatten(value, name)
    given, symbols, weak = [], [], []
    for leaf, path in zip(leaves, paths, strict=True):
        if leaf is None or isinstance(leaf, str):
            raise InvalidTypeError(
                f"{what}: this argument is no array", argument=path, got=show(leaf),
                next_step="leave it out, or name other arguments in argnums",
            )  # fmt: skip
        traced = lift(leaf)
        node = traced.node
        given.append(node)
        extents = node.shape if shape is None else shape(node.shape, path)
        symbols.append(input_node(extents, node.dtype, path, where=where()))
        weak.append(traced.weak)
    tree = unflatten(structure, [Traced(s, weak=w) for s, w in zip(symbols, weak, strict=True)])
    return Symbols(given, symbols, weak, structure, tree)


@dataclass(frozen=True)
class Outcome:
    """What a function returned, as nodes."""

    nodes: list[Node]
    weak: list[type | None]
    structure: Structure
    paths: list[str]

    def put_together(self, nodes: Sequence[Node]) -> Any:
        """Other nodes, one a leaf, as the tree that was returned."""
        leaves = [Traced(n, weak=w) for n, w in zip(nodes, self.weak, strict=True)]
        return unflatten(self.structure, leaves)


def outcome(value: Any, what: str) -> Outcome:
    """The nodes of what a function returned; TypeError where it returned nothing."""
    leaves, structure, paths = flatten(value, "result")
    for leaf, path in zip(leaves, paths, strict=True):
        if leaf is None:
            raise InvalidTypeError(
                f"{what}: the function returns None", got=path if leaves[1:] else "", where=where(),
                next_step="end it with `return` and what is to be differentiated or mapped",
            )  # fmt: skip
    traced = [lift(leaf) for leaf in leaves]
    return Outcome([t.node for t in traced], [t.weak for t in traced], structure, paths)


def refuse_no_float(nodes: Sequence[Node], paths: Sequence[str], what: str) -> None:
    """TypeError for what is no floating point array."""
    for node, path in zip(nodes, paths, strict=True):
        if not node.type.element.is_float:
            raise InvalidTypeError(
                f"{what}: only floating point values have derivatives", argument=path,
                got=str(node.type), where=where(),
                next_step="cast it first, e.g. x.astype(numpy.float32), or leave it out of argnums",
            )  # fmt: skip


def zeros(node: Node) -> Node:
    """Zeros of a node's type."""
    return full(node.shape, node.type.element.numpy, 0)


def places_of(what: str, argnums: Any) -> tuple[int, ...]:
    """``argnums`` as a tuple of places; TypeError for names and the like."""
    places = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    if not all(isinstance(place, int) and not isinstance(place, bool) for place in places):
        raise InvalidTypeError(
            f"{what}: argnums are places of positional arguments", got=show(argnums),
            expected="an int, or a tuple of ints", argument="argnums",
            next_step="count the function's parameters from 0: argnums=0, or argnums=(0, 2)",
        )  # fmt: skip
    return tuple(places)


def argument_at(what: str, args: Sequence[Any], place: int) -> int:
    """The number of a positional argument; ValueError where there is none."""
    at = place + len(args) if place < 0 else place
    if not 0 <= at < len(args):
        raise InvalidArgumentError(
            f"{what}: argument {place} is no positional argument", got=f"{len(args)} arguments",
            next_step="pass the argument by position",
        )  # fmt: skip
    return at


def chosen_symbols(what: str, args: Sequence[Any], places: Sequence[int]) -> dict[int, Symbols]:
    """Symbols for the arguments at these places, which must be floats."""
    found = {}
    for place in places:
        at = argument_at(what, args, place)
        found[at] = symbols(args[at], f"args[{at}]", what)
        refuse_no_float(found[at].given, flatten(args[at], f"args[{at}]")[2], what)
    return found


def called(
    function: Function,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    chosen: dict[int, Symbols],
    what: str,
) -> Any:
    """The function's result on symbols in place of some arguments."""
    given = [chosen[at].tree if at in chosen else arg for at, arg in enumerate(args)]
    result = function(*given, **kwargs)
    for each in chosen.values():
        each.refuse_writes(what)
    return result


def resolved(nodes: Sequence[Node], symbols: Any) -> list[Node]:
    """The nodes with what was given in place of symbols."""
    pairs = {s: g for each in symbols for s, g in zip(each.symbols, each.given, strict=True)}
    return substituted(nodes, pairs)


def like(
    value: Any, nodes: Sequence[Node], structure: Structure, what: str, name: str
) -> list[Node]:
    """The leaves of a tree, which must be of these nodes' structure and types."""
    leaves, found, paths = flatten(value, name)
    if found != structure:
        raise InvalidArgumentError(
            f"{what}: the trees differ", expected=str(structure), got=str(found), where=where(),
            next_step="give one array for each, in the same containers",
        )  # fmt: skip
    given = []
    for leaf, node, path in zip(leaves, nodes, paths, strict=True):
        traced = lift(leaf)
        if traced.weak and not node.shape:  # a Python number takes the dtype
            traced = Traced(cast(traced.node, node.type.element.numpy))
        if traced.node.type != node.type:
            raise InvalidArgumentError(
                f"{what}: an array of another type", argument=path, expected=str(node.type),
                got=str(traced.node.type), where=where(), next_step="cast or broadcast it first",
            )  # fmt: skip
        given.append(traced.node)
    return given


def is_traced(*values: Any) -> bool:
    """Whether a trace is in progress and one of the arrays belongs to it."""
    return active() is not None and any(
        isinstance(leaf, Traced) for value in values for leaf in flatten(value)[0]
    )


_KEPT = "__ge2rt_derived__"


def derived(
    function: Function, transform: Function, static: Sequence[str], device: str | None,
    kind: Hashable,
) -> JitFunction:  # fmt: skip
    """A jitted function that runs what ``transform`` makes of the user's.

    ``kind`` tells transforms apart: the same of the same function is the same object, so that
    ``grad(f)(w)`` in a loop is compiled once. It is kept with the function and goes with it.
    """
    if not callable(function):
        raise InvalidTypeError(
            "not a function", got=show(function), next_step="hand over the function itself"
        )
    made = JitFunction(function, static=static, device=device, transform=transform)
    if not isinstance(function, types.FunctionType):
        return made  # a method's object may have changed
    of = (function, function.__code__, function.__defaults__, function.__kwdefaults__)
    then, known = function.__dict__.get(_KEPT, (of, {}))
    if any(a is not b for a, b in zip(of, then, strict=True)):
        known = {}  # exchanged; or a wrapper, which has the attributes of what it wraps
    function.__dict__[_KEPT] = of, known
    kept: JitFunction = known.setdefault((kind, tuple(static), device), made)
    return kept
