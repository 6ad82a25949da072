"""Mixed precision: products in a half precision, sums and losses in f32.

``autocast`` says in which dtype the products of a block are computed; weights and their gradients
stay f32. With f16, whose gradients would vanish, losses are scaled:
:class:`ge2rt.optim.GradScaler`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import InvalidTypeError
from ge2rt.jit.scope import active

_HALVES = ("f16", "bf16")
# the dtype of the innermost block, and the trace that the block stands in
_now: ContextVar[tuple[str, Any]] = ContextVar("ge2rt.autocast", default=("", None))


@contextmanager
def autocast(dtype: Any = "f16", enabled: bool = True) -> Iterator[None]:
    """Compute products (linear, conv2d, attention) of the block in ``dtype``, on f32 operands too.

    A jitted function is the same whoever calls it: a block reaches what is traced inside of it, or
    run outside of any trace. Normalisations and losses are computed in f32 whatever comes in.
    Gradients have the operands' dtypes. InvalidTypeError for a dtype that is no half precision.
    """
    name = dtype_of(dtype).name
    if name not in _HALVES:
        raise InvalidTypeError(
            f"autocast to {name}", argument="dtype", expected=" or ".join(_HALVES),
            next_step="leave the block out for full precision",
        )  # fmt: skip
    token = _now.set((name if enabled else "", active()))
    try:
        yield
    finally:
        _now.reset(token)


def cast_for(role: str, values: Sequence[Any]) -> list[Any]:
    """Operands of a function whose role is ``half`` or ``full``, cast where a block asks for it."""
    half, trace = _now.get()
    if not half or not role or trace is not active():
        return list(values)
    wanted, others = (half, ("f32",)) if role == "half" else ("f32", _HALVES)
    return [_cast(value, wanted) if _name(value) in others else value for value in values]


def _name(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return "" if dtype is None else dtype_of(dtype).name


def _cast(value: Any, name: str) -> Any:
    from ge2rt.tensors.tensor import Tensor

    return value.astype(name if isinstance(value, Tensor) else dtype_of(name).numpy)
