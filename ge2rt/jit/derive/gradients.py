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
    places_of,
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
    return _derived("value_and_grad", function, argnums, has_aux, static, device)


def grad(
    function: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False,
    static: Sequence[str] = (), device: str | None = None,
) -> JitFunction:  # fmt: skip
    """A function that gives the gradient of one that returns a 0-d float.

    ``argnums`` are the places of positional arguments, 0 for the first: arrays of f64, f32, f16 or
    bf16, or trees (tuples, lists, dicts, dataclasses) of these. The gradient has the shapes, dtypes
    and containers of the argument; for a tuple of places it is a tuple. With ``has_aux`` the
    function returns ``(value, more)``, and this gives ``(gradient, more)``. ``static`` names
    parameters whose values are compiled in, ``device`` is where it runs (``"cpu"``, ``"cuda:0"``;
    the arrays' own without it), as for :func:`ge2rt.jit`.

    Keep what it returns: ``g = grad(f)`` compiles once, and ``g(w)`` again and again only runs.
    It may be used inside of ``@ge2rt.jit`` and under ``grad``, ``vmap``... again.

    Raises TypeError for arguments of integers, for a value that is no 0-d float and for a function
    that changes its argument in place; ValueError for a place without a positional argument.

    >>> slope = ge2rt.grad(lambda w, x: ((x @ w) ** 2).mean())
    >>> slope(w, x).shape == w.shape
    True
    """
    return _derived("grad", function, argnums, has_aux, static, device)


def _derived(
    what: str, function: Function, argnums: int | Sequence[int], has_aux: bool,
    static: Sequence[str], device: str | None,
) -> JitFunction:  # fmt: skip
    transform = _gradient(what, argnums, has_aux, both=what == "value_and_grad")
    kind = what, argnums if isinstance(argnums, int) else tuple(argnums), has_aux
    return derived(function, transform, static, device, kind)


def _with_aux(result: Any, what: str) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise InvalidTypeError(
            f"{what}: with has_aux the function returns a pair", where=where(),
            got=type(result).__name__, next_step="return (value, more), or leave has_aux out",
        )  # fmt: skip
    return result


def _gradient(what: str, argnums: int | Sequence[int], has_aux: bool, *, both: bool) -> Function:
    places = places_of(what, argnums)

    def transform(function: Function) -> Function:
        def derived(*args: Any, **kwargs: Any) -> Any:
            chosen = chosen_symbols(what, args, places)
            result = called(function, args, kwargs, chosen, what)
            value, aux = _with_aux(result, what) if has_aux else (result, None)
            out, more = outcome(value, what), outcome(aux, what) if has_aux else None
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
