"""``jacobian`` and ``hessian``: all derivatives at once, by batched pullbacks or tangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidTypeError
from ge2rt.jit.derive.batches import vmap
from ge2rt.jit.derive.directions import jvp, vjp
from ge2rt.jit.derive.gradients import grad
from ge2rt.jit.derive.symbols import Function, argument_at, derived, places_of
from ge2rt.jit.function import JitFunction
from ge2rt.jit.scope import where
from ge2rt.jit.traced import Traced


def jacobian(
    function: Function, argnums: int | Sequence[int] = 0, *, static: Sequence[str] = (),
    device: str | None = None, argnum: int | None = None,
) -> JitFunction:  # fmt: skip
    """A function that gives ``d y[i...] / d x[j...]`` with axes ``i... j...``.

    ``x`` is the array at ``argnums``, ``y`` the one array that the function returns; for a tuple of
    places it is a tuple with one for each. The shorter of both decides whether it goes forward or
    backward. ``static`` and ``device`` are those of :func:`ge2rt.jit`; ``argnum`` is another name
    of ``argnums``. TypeError for trees.
    """
    argnums = argnums if argnum is None else argnum
    places = places_of("jacobian", argnums)

    def transform(inner: Function) -> Function:
        def all_slopes(*args: Any, **kwargs: Any) -> Any:
            found = tuple(_slopes(inner, args, kwargs, place) for place in places)
            return found[0] if isinstance(argnums, int) else found

        return all_slopes

    kind = "jacobian", argnums if isinstance(argnums, int) else places
    return derived(function, transform, static, device, kind)


def _slopes(inner: Function, args: tuple[Any, ...], kwargs: dict[str, Any], place: int) -> Any:
    at = argument_at("jacobian", args, place)
    x = _one(args[at], "the argument")

    def of_x(value: Any) -> Any:
        return inner(*args[:at], value, *args[at + 1 :], **kwargs)

    y, pull = vjp(of_x, x)
    y = _one(y, "the result")
    if y.size <= x.size:
        rows = vmap(lambda g: pull(g)[0])(_basis(y))
        return rows.reshape(*y.shape, *x.shape)
    columns = vmap(lambda t: jvp(of_x, (x,), (t,))[1], out_axes=-1)(_basis(x))
    return columns.reshape(*y.shape, *x.shape)


def hessian(
    function: Function, argnums: int | Sequence[int] = 0, *, static: Sequence[str] = (),
    device: str | None = None, argnum: int | None = None,
) -> JitFunction:  # fmt: skip
    """A function that gives ``d2 y / d x[i...] d x[j...]`` of one that returns a 0-d float.

    ``x`` is the array at ``argnums``. For a tuple of places it gives a tuple of tuples: first by
    the argument of the first derivative, then by that of the second. ``static`` and ``device`` are
    those of :func:`ge2rt.jit`; ``argnum`` is another name of ``argnums``. TypeError for trees and
    for a value that is no 0-d float.
    """
    argnums = argnums if argnum is None else argnum
    places = places_of("hessian", argnums)

    def transform(inner: Function) -> Function:
        def curvature(*args: Any, **kwargs: Any) -> Any:
            rows = [
                tuple(_slopes(grad(inner, first), args, kwargs, second) for second in places)
                for first in places
            ]
            return rows[0][0] if isinstance(argnums, int) else tuple(rows)

        return curvature

    kind = "hessian", argnums if isinstance(argnums, int) else places
    return derived(function, transform, static, device, kind)


def _one(value: Any, what: str) -> Any:
    if not isinstance(value, Traced):
        raise InvalidTypeError(
            f"jacobian: {what} is not one array", got=type(value).__name__, where=where(),
            next_step="join the arrays to one, e.g. by numpy.concatenate",
        )  # fmt: skip
    return value


def _basis(like: Any) -> Any:
    """All unit arrays of a shape, one below the other."""
    return np.eye(like.size, dtype=like.dtype).reshape(like.size, *like.shape)
