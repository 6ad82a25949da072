"""Attributes of a call against their declaration."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from ge2rt.base.dtypes import dtype_of
from ge2rt.base.errors import Ge2rtError
from ge2rt.spec.model import AttrSpec, KernelSpec, Refusal
from ge2rt.spec.suggest import did_you_mean, listing

_INT64 = 2**63
_UNKNOWN, _MISSING = "unknown attribute", "attribute is missing"
_UNUSABLE = "attribute cannot be used"


def bind_attrs(kernel: KernelSpec, attrs: Mapping[str, Any]) -> dict[str, Any] | Refusal:
    """Every declared attribute with its checked value, or why one cannot be used."""
    for name in attrs:
        if name not in kernel.attrs:
            return unknown_attr(kernel, str(name))
    values: dict[str, Any] = {}
    for name, spec in kernel.attrs.items():
        value = bind_attr(spec, attrs.get(name))
        if isinstance(value, Refusal):
            return value
        values[name] = value
    return values


def unknown_attr(kernel: KernelSpec, name: str) -> Refusal:
    """The refusal of a name that ``kernel`` does not declare as an attribute."""
    hint = did_you_mean(name, kernel.attrs)
    if any(name.lower() == spec.name.lower() for spec in kernel.inputs):
        hint = f"{name} is an input: give it by position, after the name of the kernel"
    elif any(name.lower() == spec.name.lower() for spec in kernel.outputs):
        hint = f"{name} is an output: give it in out="
    return Refusal(
        _UNKNOWN, argument=name, expected=listing(kernel.attrs) or "no attributes",
        next_step=hint,
    )  # fmt: skip


def is_about_attr(refusal: Refusal) -> bool:
    """Whether a call was refused for one of its attributes."""
    return refusal.message in (_UNKNOWN, _MISSING, _UNUSABLE)


def bind_attr(spec: AttrSpec, given: Any) -> Any:
    """The checked value of one attribute, or a :class:`Refusal`; None is the default."""
    if given is None:
        if spec.required:
            return Refusal(_MISSING, argument=spec.name, expected=_expected(spec))
        return spec.default
    try:
        value = CONVERT[spec.type](given)
    except OverflowError:
        return _refuse(spec, given, span=_span(spec))
    except (TypeError, ValueError, Ge2rtError):
        return _refuse(spec, given)
    if spec.type == "int" and value >= _INT64:
        if not spec.wide:
            return _refuse(spec, given, span=_span(spec))
        value -= 2 * _INT64  # the same 64 bits
    if spec.choices and value not in spec.choices:
        near = did_you_mean(str(value), [str(c) for c in spec.choices])
        return _refuse(spec, given, near)
    return value if _in_range(spec, value) else _refuse(spec, given)


def _in_range(spec: AttrSpec, value: Any) -> bool:
    low, high = spec.minimum, spec.maximum
    if low is None and high is None:
        return True
    items = value if isinstance(value, tuple) else (value,)
    # written so that NaN is out of every range
    return all((low is None or v >= low) and (high is None or v <= high) for v in items)


def _span(spec: AttrSpec) -> str:
    """What the type holds: 64 bits, and a wide int may be unsigned as well."""
    if spec.type == "float":
        return " (of an int: one that 53 bits hold)"
    return f", -2**63 to 2**{64 if spec.wide else 63} - 1"


def _refuse(spec: AttrSpec, given: Any, next_step: str = "", span: str = "") -> Refusal:
    plain = isinstance(given, (bool, int, float, str, tuple, list))
    got = repr(given)[:80] if plain else f"an object of type {type(given).__name__}"
    return Refusal(
        _UNUSABLE, argument=spec.name, expected=_expected(spec) + span, got=got,
        next_step=next_step,
    )  # fmt: skip


def _expected(spec: AttrSpec) -> str:
    if spec.choices:
        return " | ".join(str(c) for c in spec.choices)
    text = {"ints": "a list of whole numbers", "str": "a string"}.get(spec.type, spec.type)
    if spec.minimum is not None:
        text += f" >= {spec.minimum:g}"
    if spec.maximum is not None:
        text += f"{' and' if spec.minimum is not None else ''} <= {spec.maximum:g}"
    return text


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def _int(value: Any) -> int:
    if _is_bool(value):
        raise TypeError
    number = operator.index(value)
    if not -_INT64 <= number < 2 * _INT64:
        raise OverflowError
    return int(number)


def _signed(value: Any) -> int:
    number = _int(value)
    if number >= _INT64:
        raise OverflowError
    return number


def _float(value: Any) -> float:
    if _is_bool(value) or isinstance(value, (str, bytes)):
        raise TypeError
    number = float(value)
    if isinstance(value, int) and number != value:
        raise OverflowError  # its last digits would be lost
    return number


def _bool(value: Any) -> bool:
    if not _is_bool(value):
        raise TypeError
    return bool(value)


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return str(value)


def _ints(value: Any) -> tuple[int, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(_signed(v) for v in value)
    if type(value).__name__ == "ndarray":
        return _ints(value.tolist())
    return (_signed(value),)


CONVERT: Mapping[str, Callable[[Any], Any]] = {
    "int": _int,
    "float": _float,
    "bool": _bool,
    "str": _str,
    "ints": _ints,
    "dtype": lambda value: dtype_of(value).name,
}
