"""``vjp`` and ``jvp``: cotangents back through a function, tangents forward through it."""

from __future__ import annotations

import functools
import types
from collections.abc import Sequence
from typing import Any

from ge2rt.autodiff.reverse import pullback, pushforward
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.ir.rewrite import Builder, substituted
from ge2rt.jit.derive.symbols import (
    Function,
    called,
    chosen_symbols,
    is_traced,
    like,
    outcome,
    refuse_no_float,
    resolved,
    zeros,
)
from ge2rt.jit.function import JitFunction
from ge2rt.jit.promote import lift
from ge2rt.jit.traced import Traced


def vjp(function: Function, *primals: Any) -> tuple[Any, Function]:
    """The function's result, and its pullback: from its cotangents to a tuple of the primals'.

    Cotangents have the structure, shapes and dtypes of the result. Outside of ``@jit`` the pullback
    computes the function once more.
    """
    if is_traced(primals):
        return _vjp(function, primals)
    out = _compiled("result", function)(*primals)
    return out, lambda cotangents: _compiled("vjp", function)(primals, cotangents)


def _vjp(function: Function, primals: tuple[Any, ...]) -> tuple[Any, Function]:
    chosen = chosen_symbols("vjp", primals, range(len(primals)))
    out = outcome(called(function, primals, {}, chosen, "vjp"), "vjp")
    wrt = [symbol for each in chosen.values() for symbol in each.symbols]

    def pull(cotangents: Any) -> Any:
        given = like(cotangents, out.nodes, out.structure, "vjp", "cotangents")
        back = pullback(Builder(), out.nodes, given, wrt)
        slopes = [b or zeros(n) for b, n in zip(back, wrt, strict=True)]
        nodes = iter(resolved(slopes, chosen.values()))
        return tuple(
            each.put_together([next(nodes) for _ in each.symbols]) for each in chosen.values()
        )

    return out.put_together(resolved(out.nodes, chosen.values())), pull


def cotangents_of(
    function: Function, primals: Sequence[Any], saved: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Cotangents of primals, inside a trace; ``saved`` are outputs that are known already, or none.

    What the pullback wants of an output is then read, not computed again.
    """
    chosen = chosen_symbols("backward", primals, range(len(primals)))
    out = outcome(called(function, primals, {}, chosen, "backward"), "backward")
    wrt = [symbol for each in chosen.values() for symbol in each.symbols]
    given = like(list(cotangents), out.nodes, out.structure, "backward", "cotangents")
    back = pullback(Builder(), out.nodes, given, wrt)
    slopes = [b or zeros(n) for b, n in zip(back, wrt, strict=True)]
    nodes = resolved([*out.nodes, *slopes], chosen.values())
    outputs, found = nodes[: len(out.nodes)], nodes[len(out.nodes) :]
    known = {
        node: lift(value).node
        for node, value in zip(outputs, saved, strict=False)
        if node.op != "input"
    }
    return [Traced(node) for node in (substituted(found, known) if known else found)]


def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The function's result, and its derivative along ``tangents``, which are like ``primals``."""
    if not (isinstance(primals, (tuple, list)) and isinstance(tangents, (tuple, list))):
        raise InvalidTypeError(
            "jvp: primals and tangents are tuples, with one array for each argument",
            got=f"{type(primals).__name__} and {type(tangents).__name__}",
            next_step="write jvp(f, (x,), (t,))",
        )  # fmt: skip
    if len(primals) != len(tangents):
        raise InvalidArgumentError(
            "jvp: primals and tangents differ in number", got=f"{len(primals)} and {len(tangents)}",
            next_step="give one tangent for each primal",
        )  # fmt: skip
    found: tuple[Any, Any]
    if is_traced(primals, tangents):
        found = _jvp(function, tuple(primals), tuple(tangents))
    else:
        found = _compiled("jvp", function)(tuple(primals), tuple(tangents))
    return found


def _jvp(
    function: Function, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Any, Any]:
    chosen = chosen_symbols("jvp", primals, range(len(primals)))
    out = outcome(called(function, primals, {}, chosen, "jvp"), "jvp")
    refuse_no_float(out.nodes, out.paths, "jvp")
    wrt = [symbol for each in chosen.values() for symbol in each.symbols]
    moves = [
        move
        for at, (each, tangent) in enumerate(zip(chosen.values(), tangents, strict=True))
        for move in like(tangent, each.symbols, each.structure, "jvp", f"tangents[{at}]")
    ]
    moved = pushforward(Builder(), out.nodes, wrt, moves)
    filled = [m or zeros(n) for m, n in zip(moved, out.nodes, strict=True)]
    nodes = resolved([*out.nodes, *filled], chosen.values())
    return out.put_together(nodes[: len(filled)]), out.put_together(nodes[len(filled) :])


def _compiled(what: str, function: Function) -> JitFunction:
    """What a call outside of ``@jit`` runs."""
    # a method reads its object, which may have changed since: only functions are kept
    return (_kept if isinstance(function, types.FunctionType) else _made)(what, function)


def _made(what: str, function: Function) -> JitFunction:

    def pulled(primals: Any, cotangents: Any) -> Any:
        return _vjp(function, primals)[1](cotangents)

    def moved(primals: Any, tangents: Any) -> Any:
        return _jvp(function, primals, tangents)

    return JitFunction({"result": function, "vjp": pulled, "jvp": moved}[what])


_kept = functools.lru_cache(maxsize=64)(_made)  # a second call compiles nothing


def clear() -> None:
    """Forget what calls outside of ``@jit`` compiled."""
    _kept.cache_clear()
