"""``jacobian`` and ``hessian``: all derivatives at once, by batched pullbacks or tangents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidTypeError
from ge2rt.jit.derive.batches import vmap
from ge2rt.jit.derive.directions import jvp, vjp
from ge2rt.jit.derive.gradients import grad
from ge2rt.jit.derive.symbols import Function, argument_at, derived
from ge2rt.jit.function import JitFunction
from ge2rt.jit.scope import where
from ge2rt.jit.traced import Traced


def jacobian(
    function: Function, argnum: int = 0, *, static: Sequence[str] = (), device: str | None = None
) -> JitFunction:
    """A function that gives ``d y[i...] / d x[j...]`` with axes ``i... j...``.

    ``x`` is the array at ``argnum``, ``y`` the one array that the function returns. The shorter of
    both decides whether it goes forward or backward. TypeError for trees.
    """

    def transform(inner: Function) -> Function:
        def all_slopes(*args: Any, **kwargs: Any) -> Any:
            at = argument_at("jacobian", args, argnum)
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

        return all_slopes

    return derived(function, transform, static, device)


def hessian(
    function: Function, argnum: int = 0, *, static: Sequence[str] = (), device: str | None = None
) -> JitFunction:
    """A function that gives ``d2 y / d x[i...] d x[j...]`` of one that returns a 0-d float."""
    return jacobian(grad(function, argnum), argnum, static=static, device=device)


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
