"""The NumPy meaning of a kernel: evaluates ``reference:`` of its declaration.

Floating point arrays (f16, bf16, f32) are computed in f64, so that the reference is more exact than
any kernel; only the result is rounded to the declared output dtype. Integers keep their dtype and
wrap in it. An absent optional buffer is None, and ``+ - * /`` leave an absent operand out, so that
``act(A @ B + bias)`` holds with and without a bias.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ge2rt.base.errors import Ge2rtError, InvalidArgumentError
from ge2rt.spec import library, numeric
from ge2rt.spec.expr import ARITHMETIC, Binary, Expression, Language
from ge2rt.spec.functions import HOST_FUNCTIONS
from ge2rt.spec.lists import declared
from ge2rt.spec.model import Bound, BufferDesc

Array: TypeAlias = "np.ndarray[Any, Any]"


def _lenient(function: Binary) -> Binary:
    def apply(left: Any, right: Any) -> Any:
        if left is None or right is None:
            return right if left is None else left
        return function(left, right)

    return apply


def _floor(binary: Binary, op: str) -> Binary:
    def apply(left: Any, right: Any) -> Any:
        if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
            return numeric.binary(op, left, right)
        return binary(left, right)

    return apply


_BINARY: Mapping[type[ast.operator], Binary] = {
    **ARITHMETIC,
    **{op: _lenient(ARITHMETIC[op]) for op in (ast.Add, ast.Sub, ast.Mult, ast.Div)},
    ast.FloorDiv: _floor(ARITHMETIC[ast.FloorDiv], "floordiv"),
    ast.Mod: _floor(ARITHMETIC[ast.Mod], "mod"),
}


def _either(host: Callable[..., Any], array: Callable[..., Any]) -> Callable[..., Any]:
    """``array`` when an argument is an array, else ``host``."""

    @functools.wraps(array)
    def apply(*args: Any, **kw: Any) -> Any:
        arrays = any(isinstance(a, (np.ndarray, np.generic)) for a in args)
        return (array if arrays else host)(*args, **kw)

    return apply


_SHARED = {
    name: _either(HOST_FUNCTIONS[name], numeric.FUNCTIONS[name])
    for name in HOST_FUNCTIONS
    if name in numeric.FUNCTIONS
}

# Of an array these mean what they mean of a buffer's descriptor.
_OF_ARRAYS: dict[str, Callable[..., Any]] = {
    "rank": lambda x: x.ndim if isinstance(x, np.ndarray) else HOST_FUNCTIONS["rank"](x),
    "shape": lambda x: x.shape if isinstance(x, np.ndarray) else HOST_FUNCTIONS["shape"](x),
    "extent": lambda x, a: x.shape[a] if isinstance(x, np.ndarray) else x[a],
    "size": lambda x: x.size if isinstance(x, np.ndarray) else HOST_FUNCTIONS["size"](x),
}

_FUNCTIONS = {
    **HOST_FUNCTIONS, **numeric.FUNCTIONS, **library.functions(), **_SHARED, **_OF_ARRAYS,
}  # fmt: skip
REFERENCE = Language(_FUNCTIONS, _BINARY)


def evaluate_reference(bound: Bound, arrays: Sequence[Array | None]) -> list[Array]:
    """What the outputs of ``bound`` must hold, one array an output that is there.

    A list of buffers is a list of arrays, and the expression gives one for a list of outputs.

    ``arrays`` are the inputs in the kernel's order (None: absent), or inputs and outputs, in which
    case the outputs' former contents may be named by the expression too.
    """
    kernel = bound.kernel
    if kernel.reference is None:
        raise InvalidArgumentError(
            "the kernel declares no reference", kernel=kernel.name,
            next_step="add `reference:` to its entry",
        )  # fmt: skip
    try:
        return _evaluate(bound, kernel.reference, arrays)
    except Ge2rtError as fault:
        raise fault.about(kernel=kernel.name, where=kernel.source) from None


def _evaluate(bound: Bound, reference: Expression, arrays: Sequence[Array | None]) -> list[Array]:
    kernel = bound.kernel
    names: dict[str, Any] = dict(bound.names)
    for spec, array, desc in zip(kernel.buffers, arrays, bound.descs, strict=False):
        value = None if array is None else _widen(np.asarray(array), desc)
        names[spec.name] = value
        if spec.group:
            of_arrays = names[spec.group] if isinstance(names[spec.group], list) else []
            names[spec.group] = [*of_arrays, value]
    act = names.get("act")
    functions = dict(_FUNCTIONS)
    functions["act"] = lambda *args, **kw: _act(act, args, kw)
    with np.errstate(all="ignore"):
        value = reference.evaluate(names, Language(functions, _BINARY))
        return _results(bound, value)


def _act(default: Any, args: tuple[Any, ...], kw: dict[str, Any]) -> Any:
    """``act(x)`` takes the attribute ``act``; ``act("relu", x)`` names it."""
    named = args and isinstance(args[0], str)
    return numeric.unary(*args, **kw) if named else numeric.unary(default or "none", *args, **kw)


def _widen(array: Array, desc: BufferDesc | None) -> Array:
    if desc is not None and desc.dtype.is_float:
        return array.astype(np.float64)
    return array


def _results(bound: Bound, value: Any) -> list[Array]:
    specs = bound.kernel.outputs
    names = declared(specs)
    values = value if isinstance(value, tuple) and len(names) > 1 else (value,)
    if len(values) == len(names):
        lists = {spec.group for spec in specs}
        pairs = zip(names, values, strict=True)
        values = tuple(v for n, each in pairs for v in (each if n in lists else (each,)))
    if len(values) != len(specs):
        raise InvalidArgumentError(
            "the reference gives another number of outputs", kernel=bound.kernel.name,
            expected=str(len(specs)), got=str(len(values)),
        )  # fmt: skip
    descs = bound.descs[len(bound.kernel.inputs) :]
    triples = zip(specs, values, descs, strict=True)
    return [_fit(bound, s.name, v, d) for s, v, d in triples if d is not None]


def _fit(bound: Bound, name: str, value: Any, desc: BufferDesc) -> Array:
    result = np.asarray(value)
    if result.shape != desc.shape:
        try:
            result = np.broadcast_to(result, desc.shape)
        except ValueError:
            raise InvalidArgumentError(
                "the reference has another shape", kernel=bound.kernel.name, argument=name,
                expected=str(desc.shape), got=str(result.shape), detail="shape",
            ) from None  # fmt: skip
    return np.array(numeric.cast(result, desc.dtype.name), order="C")
