"""C++ spellings of values: literals that compile for every value, and names of arguments."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from ge2rt.base.dtypes import DTYPES, DType
from ge2rt.base.errors import CompileError

_INT_SUFFIX = {"u32": "u", "i64": "LL", "u64": "ULL"}


def literal(value: Any, dtype: DType) -> str:
    """``value`` as a C++ expression of ``dtype``: inf, nan, -0.0 and every 64-bit integer included.

    Raises :class:`CompileError` for an integer out of the dtype's range.
    """
    if dtype.kind == "bool":
        return "true" if value else "false"
    if dtype.is_float:
        return _float(float(value), dtype)
    return _integer(value, dtype)


def _float(value: float, dtype: DType) -> str:
    if dtype.name == "f64":
        return _f64(value)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = float(np.float64(value).astype(dtype.numpy))
    text = _f32(rounded)
    convert = {"f16": "__float2half_rn", "bf16": "__float2bfloat16_rn"}.get(dtype.name)
    return f"{convert}({text})" if convert else text


def _f32(value: float) -> str:
    if math.isnan(value):
        return "__int_as_float(0x7fffffff)"
    if math.isinf(value):
        return f"__int_as_float({'0x7f800000' if value > 0 else '(int)0xff800000'})"
    return _signed(f"{value!r}f", value)


def _f64(value: float) -> str:
    if math.isnan(value):
        return "__longlong_as_double(0x7fffffffffffffffLL)"
    if math.isinf(value):
        bits = "0x7ff0000000000000LL" if value > 0 else "(long long)0xfff0000000000000ULL"
        return f"__longlong_as_double({bits})"
    return _signed(repr(value), value)


def _signed(text: str, value: float) -> str:
    return f"({text})" if math.copysign(1.0, value) < 0 else text


def _integer(value: Any, dtype: DType) -> str:
    number = int(value)
    bits = dtype.itemsize * 8
    low, high = (0, 2**bits) if dtype.kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if number != value or not low <= number < high:
        raise CompileError(
            "a value does not fit its dtype", expected=f"a whole number of {dtype.name}",
            got=str(value),
        )  # fmt: skip
    suffix = _INT_SUFFIX.get(dtype.name, "")
    if number == low < 0 and bits >= 32:
        # the magnitude alone would not fit the type
        return f"({number + 1}{suffix} - 1)"
    return f"({number}{suffix})" if number < 0 else f"{number}{suffix}"


class Literal(int):
    """A whole number that prints as a C++ literal; arithmetic in a template keeps its width."""

    wide: bool

    def __new__(cls, value: int, wide: bool = False) -> Literal:
        """``wide`` literals are ``long long``; so are those that do not fit an int."""
        self = super().__new__(cls, value)
        self.wide = wide or not -(2**31) <= value < 2**31
        return self

    def __str__(self) -> str:
        return literal(int(self), DTYPES["i64" if self.wide else "i32"])

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)

    def _kept(self, value: Any) -> Any:
        return Literal(value, self.wide) if isinstance(value, int) else value

    def __add__(self, other: Any) -> Any:
        return self._kept(int.__add__(self, other))

    def __sub__(self, other: Any) -> Any:
        return self._kept(int.__sub__(self, other))

    def __mul__(self, other: Any) -> Any:
        return self._kept(int.__mul__(self, other))

    def __floordiv__(self, other: Any) -> Any:
        return self._kept(int.__floordiv__(self, other))

    def __mod__(self, other: Any) -> Any:
        return self._kept(int.__mod__(self, other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Any:
        return self._kept(int.__rsub__(self, other))


class Symbol:
    """A kernel argument: prints as its C name; its value is not known while rendering."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def _unknown(self, *_: Any) -> NoReturn:
        raise CompileError(
            f"the value of {self.text} is not known in a shape-generic kernel",
            next_step=f"guard it: {{% if {self.text} is static and ... %}}, or compute it in C++",
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _unknown
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = _unknown
    __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __bool__ = _unknown
    __index__ = __int__ = __float__ = __len__ = __iter__ = _unknown
    __hash__ = None  # type: ignore[assignment]


def is_static(value: Any) -> bool:
    """Whether a value is known while rendering (the template test ``is static``)."""
    return not isinstance(value, Symbol)
