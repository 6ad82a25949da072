"""CuPy's parameter language: ``"T x, raw T y, float32 z"``, and the types that a call gives it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DTYPES, DType, dtype_of
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError

_PARAMETER = re.compile(r"((?:(?:raw|const|_non_const)\s+)*)(\w+)\s+(\w+)")
_WEAK = {bool: "bool", int: "i64", float: "f64"}
_TYPES = (
    "float16, float32, float64, bfloat16, int8 to int64, uint8 to uint64, bool, "
    "or one letter for a type that the arguments decide"
)
_RESERVED = ("i", "n")


@dataclass(frozen=True)
class Spec:
    """One parameter. ``type`` is the placeholder's letter, or "" where ``dtype`` is given."""

    name: str
    type: str
    dtype: DType | None
    raw: bool


def parse_params(text: str, kernel: str) -> tuple[Spec, ...]:
    """The parameters of a comma-separated list; InvalidArgumentError says what is wrong."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    return tuple(_parse(part, kernel) for part in parts)


def _parse(part: str, kernel: str) -> Spec:
    match = _PARAMETER.fullmatch(part)
    if match is None:
        raise InvalidArgumentError(
            "parameter cannot be read", kernel=kernel, expected="[raw] TYPE NAME", got=repr(part),
            next_step=f"TYPE is {_TYPES}",
        )  # fmt: skip
    qualifiers, type_, name = match.groups()
    if name in _RESERVED or name.startswith("_") or not name.isidentifier():
        raise InvalidArgumentError(
            "this name is reserved", kernel=kernel, argument=name,
            expected="a name other than i and n that does not begin with _",
        )  # fmt: skip
    raw = "raw" in qualifiers.split()
    if len(type_) == 1:
        return Spec(name, type_, None, raw)
    try:
        return Spec(name, "", dtype_of(type_), raw)
    except InvalidTypeError:
        raise InvalidTypeError(
            "no type for a parameter", kernel=kernel, argument=name, expected=_TYPES,
            got=repr(type_), detail="dtype", next_step=f"mend the text {part!r}",
        ) from None  # fmt: skip


def check_names(specs: Sequence[Spec], kernel: str) -> None:
    """Refuse a name that two parameters share."""
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentError("name stands twice", kernel=kernel, argument=name)


def is_scalar(value: Any) -> bool:
    """Whether an argument is passed by value."""
    return isinstance(value, (bool, int, float, np.generic))


def resolve_types(
    specs: Sequence[Spec], dtypes: Sequence[DType | None], values: Sequence[Any], kernel: str
) -> dict[str, DType]:
    """The dtype of each placeholder: by arrays, else by NumPy scalars, else by Python numbers.

    ``dtypes`` are those of array arguments (None for a scalar, or for an output to allocate). An
    array whose dtype is not the parameter's is an :class:`InvalidTypeError`: nothing is cast.
    """
    found: dict[str, DType] = {}
    for spec, dtype in zip(specs, dtypes, strict=True):
        wanted = spec.dtype or found.get(spec.type)
        if dtype is not None and wanted is not None and dtype.name != wanted.name:
            of = f" (type {spec.type} of an earlier argument)" if spec.type else ""
            raise InvalidTypeError(
                "an array of another dtype", kernel=kernel, argument=spec.name,
                expected=f"{wanted.numpy_name}{of}", got=dtype.numpy_name, detail="dtype",
                next_step="cast it with .astype, or give the parameter another type",
            )  # fmt: skip
        if dtype is not None and spec.type:
            found[spec.type] = dtype
    for strong in (True, False):
        for spec, value in zip(specs, values, strict=True):
            if spec.type and spec.type not in found and is_scalar(value):
                if isinstance(value, np.generic):
                    found[spec.type] = dtype_of(value.dtype)
                elif not strong:
                    found[spec.type] = DTYPES[_WEAK[type(value)]]
    unknown = sorted({spec.type for spec in specs if spec.type} - set(found))
    if unknown:
        raise InvalidTypeError(
            f"type {unknown[0]} follows from no argument", kernel=kernel, detail="dtype",
            next_step="give the output array, or name its dtype in the parameter",
        )  # fmt: skip
    return found


def dtype_for(spec: Spec, types: dict[str, DType]) -> DType:
    """The dtype of a parameter in a call."""
    return spec.dtype or types[spec.type]


def as_scalar(value: Any, dtype: DType, spec: Spec, kernel: str) -> Any:
    """A number as a NumPy scalar of the parameter's dtype; one that does not fit is refused."""
    is_float = isinstance(value, (float, np.floating)) or (
        isinstance(value, np.generic) and dtype_of(value.dtype).is_float
    )
    fits = dtype.is_float or not is_float
    if fits and dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        fits = limits.min <= int(value) <= limits.max
    if not fits or (dtype.kind == "bool" and not isinstance(value, (bool, np.bool_))):
        raise InvalidTypeError(
            "the number does not fit the parameter", kernel=kernel, argument=spec.name,
            expected=dtype.numpy_name, got=repr(value), detail="dtype",
            next_step="cast the number, or give the parameter another type",
        )  # fmt: skip
    return dtype.numpy.type(value)
