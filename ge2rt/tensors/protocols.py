"""NumPy's functions on tensors, and jitted functions on them: they meet the same operators."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.jit.adapters import adapt
from ge2rt.jit.function import JitFunction
from ge2rt.jit.trees import flatten, unflatten
from ge2rt.tensors import dispatch
from ge2rt.tensors.inplace import wants_gradient
from ge2rt.tensors.operators import Operator, table
from ge2rt.tensors.outside import refuse_outside
from ge2rt.tensors.tape import Fill, Pull, Step, renew
from ge2rt.tensors.tensor import Tensor


@lru_cache(maxsize=1)
def _by_function() -> Mapping[Any, Operator]:
    """NumPy's function -> the operator whose meaning it is."""
    found: dict[Any, Operator] = {}
    for op in table().values():
        if op.meaning.startswith("np."):
            target: Any = np
            for part in op.meaning.split(".")[1:]:
                target = getattr(target, part)
            found.setdefault(target, op)
    return found


def array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """``np.exp(x)``: the operator of that name. TypeError for methods and ufuncs without one."""
    refuse_outside(inputs)
    out = options.pop("out", None)
    op = _by_function().get(ufunc) if method == "__call__" else None
    if op is None or options:
        what = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        raise _refused(f"{what}({', '.join(options)})" if options else what)
    return _called(op, inputs, {} if out is None else {"out": out[0]})


def array_function(self: Tensor, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """``np.sum(x)``: the operator of that name; TypeError for functions without one."""
    refuse_outside((*args, *kwargs.values()))
    if function is np.einsum and args and isinstance(args[0], str):
        return _called(table()["einsum"], (list(args[1:]),), {**kwargs, "subscripts": args[0]})
    op = _by_function().get(function)
    name = str(getattr(function, "__name__", ""))
    if op is None and getattr(np, name, None) is function:
        op = table().get(name)  # np.take, which the table has as ge2rt's own
    if op is None:
        module = getattr(function, "__module__", None) or "numpy"
        raise _refused(f"{module}.{function.__name__}")
    return _called(op, args, kwargs)


def _called(op: Operator, args: Any, options: Any) -> Any:
    from ge2rt.tensors.methods import functional

    return functional(op)(*args, **options)


def _refused(what: str) -> InvalidTypeError:
    return InvalidTypeError(
        f"{what} has no operator for tensors",
        next_step="use a method of the tensor, or x.detach().numpy()",
    )


# -- jitted functions -----------------------------------------------------------------------------
@adapt(Tensor)
def call_jitted(function: JitFunction, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A jitted function called with tensors: it runs on their arrays and gives tensors.

    With a derivative wanted the call is one step of the record, whose pullback is the whole
    function's.
    """
    leaves, structure, _ = flatten((args, dict(kwargs)))
    refuse_outside(leaves)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if dispatch.mode.recording:
        renew(tensors)
    wanted = tuple(
        n for n, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor) and leaf.requires_grad and leaf.dtype.is_float
    )  # fmt: skip
    positional, named = unflatten(structure, [dispatch.bare(leaf) for leaf in leaves])
    written: list[Tensor] = []

    def watch(arrays: Sequence[Any]) -> None:
        if dispatch.mode.recording:
            _refuse_unseen(function.__name__, tensors)
        written.extend(t for t in tensors if any(t.array is array for array in arrays))

    result = dispatch.wrapped(function.watched(positional, named, watch))
    for each in written:  # what was recorded of this memory before notices it on the way back
        each.storage().version += 1
    if not (wanted and dispatch.mode.recording):
        return result
    return _recorded(function, leaves, structure, wanted, result)


def _refuse_unseen(name: str, tensors: Iterable[Tensor]) -> None:
    """ValueError where a function changes an argument and a derivative is wanted of any."""
    if any(wants_gradient(each) for each in tensors):
        raise InvalidArgumentError(
            f"{name} changes an argument in place, which the record of derivatives would not see",
            next_step="return the new value instead of writing it: y = f(y); or call it inside of"
            " ge2rt.no_grad()",
        )  # fmt: skip


def _recorded(
    function: JitFunction, leaves: list[Any], structure: Any, wanted: tuple[int, ...], result: Any
) -> Any:
    outputs, shape, _ = flatten(result)
    places = [n for n, each in enumerate(outputs) if isinstance(each, Tensor)]
    data = [n for n, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    rest = tuple((n, leaf) for n, leaf in enumerate(leaves) if n not in data)

    def of_arrays(arrays: Any) -> Any:
        filled: list[Any] = [None] * len(leaves)
        for n, value in (*zip(data, arrays, strict=True), *rest):
            filled[n] = value
        args, kwargs = unflatten(structure, filled)
        found = flatten(function(*args, **kwargs))[0]
        return [found[n] for n in places]

    key: Callable[..., Any] = _once(function, of_arrays, structure, rest, tuple(data))
    op = Operator(function.__name__, "jitted", key, inspect.signature(key), (), function.__name__)
    fill = Fill((("arrays", len(data), list),), ())
    pull = Pull(op, fill, tuple(data.index(n) for n in wanted))
    step = Step(function.__name__, [leaves[n] for n in data], pull.wanted, pull)
    step.produced([outputs[n] for n in places])
    return unflatten(shape, outputs)


_kept: dict[Any, Callable[..., Any]] = {}
_MOST_KEPT = 256


def _once(function: JitFunction, made: Callable[..., Any], *parts: Any) -> Callable[..., Any]:
    """The same function object for the same kind of call, so that its pullback is compiled once."""
    try:
        key = (id(function), *parts)
        hash(key)
    except TypeError:
        return made
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    return _kept.setdefault(key, made)


def clear() -> None:
    """Forget the functions of recorded calls."""
    _kept.clear()
