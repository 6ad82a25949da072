"""What Python and NumPy say of code that meets symbols, in words that fit: where, and a way out."""

from __future__ import annotations

import traceback

from ge2rt.base.errors import Ge2rtError, InvalidTypeError
from ge2rt.jit.arguments import Call
from ge2rt.jit.faults import ControlFlowError


def explained(fault: TypeError | ValueError, call: Call) -> InvalidTypeError | None:
    """The library's error for one of Python's or NumPy's; None where theirs says it all."""
    if isinstance(fault, Ge2rtError):
        return None
    cause = fault.__cause__
    if isinstance(cause, ControlFlowError):  # NumPy: "setting an array element with a sequence"
        return ControlFlowError(
            "a traced value is assigned to an array that NumPy has made", where=cause.record.where,
            next_step="make that array of the traced kind: numpy.zeros(shape, like=x), or "
            "numpy.zeros_like(x)",
        )  # fmt: skip
    lists = [name for name, part in call.structure if getattr(part, "kind", None) is list]  # type: ignore[union-attr]
    if isinstance(fault, TypeError) and lists and "'list'" in str(fault):
        last = traceback.extract_tb(fault.__traceback__)[-1]
        return InvalidTypeError(
            str(fault), where=f"{last.filename}:{last.lineno}", argument=lists[0],
            got="a list, which is a container of arguments and stays one",
            next_step="pass numpy.array(x)",
        )  # fmt: skip
    return None
