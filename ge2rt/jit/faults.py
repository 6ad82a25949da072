"""The errors of tracing: Python's and NumPy's own exception types, in the library's family."""

from __future__ import annotations

from typing import Any

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError


class RangeError(InvalidArgumentError, OverflowError):
    """-1: a Python number that the dtype it meets cannot hold."""


class OutsideError(InvalidArgumentError, IndexError):
    """-1: an index, known while tracing, outside its axis."""


class ControlFlowError(InvalidTypeError):
    """-1: Python asked for the value of a traced array (``if``, ``int()``, ``range()``...)."""


class CapturedWriteError(InvalidTypeError):
    """-1: the function writes to an array that is no argument of it."""


_CHOOSE = (
    "choose by numpy.where(condition, a, b); an argument that is no data may be named in static=..."
)
_OUTSIDE = "return the array, and convert the result outside of this function"
_COUNT = "take it from a shape, or name the argument that it comes from in static=..."
_WAYS_OUT = {
    "int()": f"{_OUTSIDE}; for other elements use x.astype(numpy.int64)",
    "float()": f"{_OUTSIDE}; instead of math.exp and the like use numpy.exp",
    "complex()": _OUTSIDE, "item()": _OUTSIDE, "tolist()": _OUTSIDE, "tobytes()": _OUTSIDE,
    "format()": "return the array, and put the result into a text outside of this function",
    "round()": "use numpy.round(x, digits)",
    "index()": _COUNT,
    "in": "use (x == value).any()",
}  # fmt: skip


def control_flow(asked: str, where: str, **parts: Any) -> ControlFlowError:
    """The refusal of ``asked`` (such as ``bool()``) on a traced value."""
    return ControlFlowError(
        f"{asked} of a traced array: Python control flow cannot depend on its values, "
        "which are not known while the function is traced",
        where=where,
        next_step=parts.pop("next_step", "") or _WAYS_OUT.get(asked, _CHOOSE),
        **parts,
    )


def tensor_outside(tensor: Any, where: str, **parts: Any) -> InvalidTypeError:
    """The refusal of a tensor that a traced function takes from elsewhere."""
    return InvalidTypeError(
        "a tensor is taken from outside of a jitted function", where=where,
        got=f"{tensor.dtype}{list(tensor.shape)} on {tensor.device}",
        next_step="pass it as an argument, a module's by nn.functional_call(module, values, x)",
        **parts,
    )  # fmt: skip


def not_covered(name: str, where: str, reason: str = "", next_step: str = "") -> InvalidTypeError:
    """The refusal of a function, method or option that tracing does not cover."""
    return InvalidTypeError(
        f"{name} is not covered by ge2rt.jit" + (f": {reason}" if reason else ""),
        where=where,
        next_step=next_step
        or "call it outside the jitted function, or write it with functions listed in docs/jit.md",
    )
