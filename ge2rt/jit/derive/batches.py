"""``vmap``: a function of one example over many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ge2rt.autodiff.batch import batched
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.ir.graph import Node
from ge2rt.ir.rewrite import Builder
from ge2rt.jit.derive.symbols import Function, called, derived, outcome, symbols
from ge2rt.jit.function import JitFunction
from ge2rt.jit.scope import emit, where
from ge2rt.jit.traced import Traced
from ge2rt.jit.trees import flatten, unflatten


def vmap(
    function: Function, in_axes: int | Sequence[int | None] | None = 0,
    out_axes: int | Sequence[int] = 0, *,
    static: Sequence[str] = (), device: str | None = None,
) -> JitFunction:  # fmt: skip
    """The function over many examples at once: it is written for one.

    ``in_axes`` says along which axis of an argument's arrays examples lie, for all positional
    arguments or one each; None: the argument is the same for all. Results have them along
    ``out_axes``, one for all or one for each part of a tuple that is returned. ValueError where
    arguments differ in the number of examples.
    """

    def transform(inner: Function) -> Function:
        def many(*args: Any, **kwargs: Any) -> Any:
            axes = _axes(in_axes, len(args))
            sizes: dict[int, str] = {}
            chosen = {
                at: symbols(args[at], f"args[{at}]", "vmap", shape=_one_of(axis, sizes))
                for at, axis in enumerate(axes)
                if axis is not None
            }
            size = _only(sizes)
            out = outcome(called(inner, args, kwargs, chosen, "vmap"), "vmap")
            given = {
                symbol: _moved(node, axes[at], 0)
                for at, each in chosen.items()
                for symbol, node in zip(each.symbols, each.given, strict=True)
            }
            nodes = batched(Builder(), out.nodes, given, size)
            parts = unflatten(out.structure, list(range(len(nodes))))
            leaves = [
                Traced(_moved(node, 0, _place(axis, node)))
                for node, axis in zip(nodes, _out(out_axes, parts, len(nodes)), strict=True)
            ]
            return unflatten(out.structure, leaves)

        return many

    sides = (in_axes if isinstance(in_axes, (int, type(None))) else tuple(in_axes),
             out_axes if isinstance(out_axes, int) else tuple(out_axes))  # fmt: skip
    return derived(function, transform, static, device, ("vmap", *sides))


def _axes(in_axes: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    axes = [in_axes] * count if in_axes is None or isinstance(in_axes, int) else list(in_axes)
    if len(axes) != count or all(axis is None for axis in axes):
        raise InvalidArgumentError(
            "vmap: in_axes does not fit the arguments", got=f"{in_axes} for {count} arguments",
            expected="an axis, or one for each positional argument; not all None",
            next_step="give one axis for each argument",
        )  # fmt: skip
    return axes


def _one_of(axis: int, sizes: dict[int, str]) -> Function:
    def shape(whole: tuple[int, ...], path: str) -> tuple[int, ...]:
        if not -len(whole) <= axis < len(whole):
            raise InvalidArgumentError(
                f"vmap: an array of shape {whole} has no axis {axis}", argument=path,
                next_step="name another axis in in_axes, or None for what all examples share",
            )  # fmt: skip
        at = axis % len(whole)
        sizes.setdefault(whole[at], path)
        return (*whole[:at], *whole[at + 1 :])

    return shape


def _only(sizes: dict[int, str]) -> int:
    if len(sizes) > 1:
        told = ", ".join(f"{path} has {size}" for size, path in sizes.items())
        raise InvalidArgumentError(
            f"vmap: arguments differ in the number of examples: {told}", where=where(),
            next_step="compare the shapes, or name other axes in in_axes",
        )  # fmt: skip
    return next(iter(sizes))


def _out(out_axes: int | Sequence[int], parts: Any, count: int) -> list[int]:
    """The axis of each leaf; ``parts`` is what the function returned, with numbers for leaves."""
    if isinstance(out_axes, int):
        return [out_axes] * count
    several = isinstance(parts, (tuple, list))
    if not several or len(parts) != len(out_axes):
        raise InvalidArgumentError(
            "vmap: out_axes does not fit what the function returns", where=where(),
            expected=f"an axis, or {len(parts)} of them" if several else "an axis",
            got=str(tuple(out_axes)), next_step="give one axis for each part of the tuple",
        )  # fmt: skip
    return [axis for axis, part in zip(out_axes, parts, strict=True) for _ in flatten(part)[0]]


def _place(out_axes: int, node: Node) -> int:
    rank = node.type.rank
    if not -rank <= out_axes < rank:
        raise InvalidArgumentError(
            f"vmap: a result of {rank} axes has no axis {out_axes}", where=where(),
            next_step="name another axis in out_axes",
        )  # fmt: skip
    return out_axes % rank


def _moved(node: Node, axis: int | None, to: int) -> Node:
    """The node with one axis in another place."""
    assert axis is not None
    rank = node.type.rank
    order = [a for a in range(rank) if a != axis % rank]
    order.insert(to, axis % rank)
    return node if order == list(range(rank)) else emit("transpose", node, perm=tuple(order))
