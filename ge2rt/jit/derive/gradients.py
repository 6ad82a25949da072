"""``grad`` and ``value_and_grad``: gradients of functions that return one number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ge2rt.autodiff.reverse import pullback
from ge2rt.base.errors import InvalidTypeError
from ge2rt.ir.rewrite import Builder
from ge2rt.jit.derive.symbols import (
    Function,
    called,
    chosen_symbols,
    derived,
    outcome,
    resolved,
    zeros,
)
from ge2rt.jit.function import JitFunction
from ge2rt.jit.promote import full
from ge2rt.jit.scope import where


def value_and_grad(
    function: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False,
    static: Sequence[str] = (), device: str | None = None,
) -> JitFunction:  # fmt: skip
    """A function that gives ``(value, gradient)`` of one that returns a 0-d float.

    ``argnums`` are the places of positional arguments (trees of floating point arrays); the
    gradient has the structure of the argument, or is a tuple where ``argnums`` is one. With
    ``has_aux`` the function returns ``(value, more)`` and this ``((value, more), gradient)``.
    ``static`` and ``device`` are those of :func:`ge2rt.jit`. TypeError for integers, and for a
    value that is no 0-d float.
    """
    return derived(
        function, _gradient("value_and_grad", argnums, has_aux, both=True), static, device
    )


def grad(
    function: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False,
    static: Sequence[str] = (), device: str | None = None,
) -> JitFunction:  # fmt: skip
    """A function that gives the gradient of one that returns a 0-d float.

    As :func:`value_and_grad`, without the value; with ``has_aux`` it gives ``(gradient, more)``.
    """
    return derived(function, _gradient("grad", argnums, has_aux, both=False), static, device)


def _gradient(what: str, argnums: int | Sequence[int], has_aux: bool, *, both: bool) -> Function:
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def transform(function: Function) -> Function:
        def derived(*args: Any, **kwargs: Any) -> Any:
            chosen = chosen_symbols(what, args, places)
            result = called(function, args, kwargs, chosen, what)
            value, aux = result if has_aux else (result, None)
            out, more = outcome(value), outcome(aux) if has_aux else None
            if len(out.nodes) != 1 or out.nodes[0].shape or not out.nodes[0].type.element.is_float:
                raise InvalidTypeError(
                    f"{what}: the function does not return one 0-d float", where=where(),
                    got=", ".join(str(node.type) for node in out.nodes) or "nothing",
                    next_step="reduce it, e.g. by .mean(), or use ge2rt.vjp or ge2rt.jacobian",
                )  # fmt: skip
            wrt = [symbol for each in chosen.values() for symbol in each.symbols]
            one = full((), out.nodes[0].type.element.numpy, 1)
            back = pullback(Builder(), out.nodes, [one], wrt)
            slopes = [b or zeros(n) for b, n in zip(back, wrt, strict=True)]
            kept = more.nodes if more is not None else []
            nodes = iter(resolved([*out.nodes, *slopes, *kept], chosen.values()))
            told = out.put_together([next(nodes)])
            trees = {
                at: each.put_together([next(nodes) for _ in each.symbols])
                for at, each in chosen.items()
            }
            wanted = [trees[at % len(args)] for at in places]
            gradient = wanted[0] if isinstance(argnums, int) else tuple(wanted)
            if more is None:
                return (told, gradient) if both else gradient
            extra = more.put_together(list(nodes))
            return ((told, extra), gradient) if both else (gradient, extra)

        return derived

    return transform
