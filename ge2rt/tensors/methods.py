"""The methods and operators of ``Tensor``, made from the tables; and the functional forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.jit.quick import MISS
from ge2rt.tensors import dispatch, inplace, making, protocols, views
from ge2rt.tensors import geometry as geo
from ge2rt.tensors.operators import Operator, table
from ge2rt.tensors.tensor import Tensor, is_stale


def functional(op: Operator) -> Callable[..., Any]:
    """``f(x, ..., out=None)``."""

    def call(*args: Any, out: Tensor | None = None, **options: Any) -> Any:
        bound = _bound(op, args, options)
        result = dispatch.call(op, *bound)
        return result if out is None else inplace.into(out, result, op.name)

    return _named(call, op.name, f"``{op}``: as ``{op.meaning}``; ``out`` takes the result.")


def _bound(
    op: Operator, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arrays by position, options by name; TypeError that shows the signature."""
    try:
        bound = op.signature.bind(*args, **options)
    except TypeError as fault:
        from ge2rt.base.errors import InvalidTypeError

        raise InvalidTypeError(f"{op.name}: {fault}", expected=str(op)) from None
    positional, named = [], {}
    for name, value in bound.arguments.items():
        if op.signature.parameters[name].default is op.signature.empty:
            positional.append(value)
        else:
            named[name] = value
    return positional, named


def _method(op: Operator) -> Callable[..., Any]:
    call = functional(op)

    def method(self: Tensor, *args: Any, **options: Any) -> Any:
        return call(self, *args, **options)

    return _named(method, op.name, call.__doc__ or "")


def _in_place(op: Operator) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        positional, named = _bound(op, (self, *args), options)
        return inplace.in_place(op, self, positional[1:], named)

    return _named(method, f"{op.name}_", f"``{op}``, written over the tensor itself.")


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "pow", "matmul": "matmul",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
_COMPARE = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
_OPERANDS = (Tensor, bool, int, float, np.ndarray, np.generic)


def _operator(name: str) -> Callable[..., Any]:
    """``a + b``: the quick way for two tensors without derivatives, else through all layers."""
    quick: Mapping[tuple[Any, ...], Callable[..., Any]] | None = None

    def binary(self: Tensor, other: Any) -> Any:
        nonlocal quick
        if quick is None:
            quick = table()[name].jitted.quick_forms()
        plain = type(self) is type(other) is Tensor and self._device is other._device
        if plain and not (
            self.requires_grad or other.requires_grad or is_stale(self) or is_stale(other)
        ):
            a, b = self._array, other._array
            run = quick.get((a.shape, b.shape, a.dtype.num, b.dtype.num))
            if run is not None:
                result = run(a, b)
                if result is not MISS:
                    return Tensor(result, self._device)
        return dispatch.call(table()[name], (self, other), {}) if _fits(other) else NotImplemented

    return binary


def _reflected(name: str) -> Callable[..., Any]:
    def binary(self: Tensor, other: Any) -> Any:
        return dispatch.call(table()[name], (other, self), {}) if _fits(other) else NotImplemented

    return binary


def _fits(other: Any) -> bool:
    return isinstance(other, _OPERANDS) or hasattr(type(other), "__ge2rt_function__")


def _unary(name: str) -> Callable[..., Any]:
    return lambda self: dispatch.call(table()[name], (self,), {})


def _changing(name: str) -> Callable[..., Any]:
    return lambda self, other: getattr(self, f"{name}_")(other)


def method_of(name: str) -> Callable[..., Any] | None:
    """The method of an operator, or with ``_`` at its end the in-place one; None without either."""
    op = table().get(name)
    if op is not None and _takes_itself(op):
        return _method(op)
    op = table().get(name.removesuffix("_")) if name.endswith("_") else None
    return _in_place(op) if op is not None and op.kind == "pointwise" else None


def _takes_itself(op: Operator) -> bool:
    return next(iter(op.signature.parameters), "") in ("x", "a")


def _look_up(self: Tensor, name: str) -> Any:
    """Methods of operators are made when they are first asked for."""
    found = None if name.startswith("_") else method_of(name)
    if found is None:
        from ge2rt.spec.habits import TENSORS, hint  # late: it is for a message

        known = () if name.startswith("_") else _names(self)
        raise AttributeError(f"a tensor has no attribute {name!r}.{hint(name, TENSORS, known)}")
    setattr(Tensor, name, found)
    return getattr(self, name)


def _names(self: Tensor) -> list[str]:
    rows = [op for op in table().values() if _takes_itself(op)]
    forms = [f"{op.name}_" for op in rows if op.kind == "pointwise"]
    return sorted({*object.__dir__(self), *(op.name for op in rows), *forms})


def attach() -> None:
    """Give ``Tensor`` its operators and views; once, when the room is loaded."""
    for mark, name in _BINARY.items():
        setattr(Tensor, f"__{mark}__", _operator(name))
        setattr(Tensor, f"__r{mark}__", _reflected(name))
        if mark != "matmul":
            setattr(Tensor, f"__i{mark}__", _changing(name))
    for mark, name in _COMPARE.items():
        setattr(Tensor, f"__{mark}__", _operator(name))
    for mark, name in _UNARY.items():
        setattr(Tensor, f"__{mark}__", _unary(name))
    for method in _VIEWS:
        setattr(Tensor, method.__name__, method)
    for name, function in _OTHERS.items():
        setattr(Tensor, name, function)


_VIEWS = (
    views.permute, views.transpose, views.reshape, views.flatten, views.expand, views.squeeze,
    views.unsqueeze, views.flip, views.diagonal, views.unfold, views.as_strided, making.clone,
    making.contiguous, making.astype, making.to, making.fill_,
)  # fmt: skip


def _turned(x: Tensor) -> Tensor:
    return views.permute(x, tuple(reversed(range(x.ndim))))


def _copy_(x: Tensor, source: Any) -> Tensor:
    """Write another tensor's elements over this one, broadcast and cast."""
    inplace.refuse_leaf(x, "copy_")
    given = source if isinstance(source, Tensor) else inplace.like(source, x)
    return inplace.write(x, given, "copy_")


def _zero_(x: Tensor) -> Tensor:
    """Set all elements to 0, in place."""
    return making.fill_(x, 0)


def _narrow(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """The view of ``length`` elements from ``start`` on along an axis."""
    at = geo.axis_of("narrow", axis, x.ndim)
    if not 0 <= start <= start + length <= x.shape[at]:
        raise InvalidArgumentError(
            f"narrow: elements {start} to {start + length} of {x.shape[at]}", detail="shape",
            next_step="0 <= start and start + length <= the extent",
        )  # fmt: skip
    return x[(slice(None),) * at + (slice(start, start + length),)]


_OTHERS: dict[str, Any] = {
    "view": views.as_shape, "copy_": _copy_, "zero_": _zero_, "narrow": _narrow,
    "T": property(_turned, doc="Axes reversed: a view."),
    "mT": property(views.transpose, doc="The last two axes exchanged: a view."),
    "__getattr__": _look_up, "__dir__": _names,
    "__array_ufunc__": protocols.array_ufunc, "__array_function__": protocols.array_function,
}  # fmt: skip
