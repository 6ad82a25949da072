"""The dtypes of the contract, their NumPy and CUDA spellings, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidTypeError


@dataclass(frozen=True, eq=False, repr=False)
class DType:
    """One element type. ``kind`` is float, int, uint, bool, or storage (without arithmetic).

    It equals its other spellings: ``"f32"``, ``"float32"``, ``numpy.float32``, a NumPy dtype. As
    with those of NumPy, a hash is the same for equal ones of this class alone; it is that of the
    name as well, so that ``"f32"`` finds it in a set or dict.
    """

    name: str
    itemsize: int
    kind: str
    ctype: str
    numpy_name: str
    accumulate: str  # dtype in which sums are kept

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype (bf16 and fp8 by ml_dtypes)."""
        return _numpy_dtype(self.numpy_name)

    @property
    def is_float(self) -> bool:
        """Whether it holds floating point numbers with arithmetic."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer (not bool)."""
        return self.kind in ("int", "uint")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DType):
            return self.name == other.name
        found = _spelt(other)
        return NotImplemented if found is None else self.name == found.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"dtype({self.name!r})"


def _spelt(value: object) -> DType | None:
    """The DType that a value names; None for what names none. Python's float is no dtype here."""
    scalar = isinstance(value, type) and issubclass(value, np.generic)
    torch = str(type(value)) == "<class 'torch.dtype'>"
    if not (scalar or torch or isinstance(value, (str, np.dtype))):
        return None
    try:
        return dtype_of(value)
    except (TypeError, ValueError, SyntaxError):  # NumPy parses strings, and has its own ways
        return None


_ROWS = (
    DType("f16", 2, "float", "__half", "float16", "f32"),
    DType("bf16", 2, "float", "__nv_bfloat16", "bfloat16", "f32"),
    DType("f32", 4, "float", "float", "float32", "f32"),
    DType("f64", 8, "float", "double", "float64", "f64"),
    DType("i8", 1, "int", "signed char", "int8", "i64"),
    DType("i16", 2, "int", "short", "int16", "i64"),
    DType("i32", 4, "int", "int", "int32", "i64"),
    DType("i64", 8, "int", "long long", "int64", "i64"),
    DType("u8", 1, "uint", "unsigned char", "uint8", "u64"),
    DType("u16", 2, "uint", "unsigned short", "uint16", "u64"),
    DType("u32", 4, "uint", "unsigned int", "uint32", "u64"),
    DType("u64", 8, "uint", "unsigned long long", "uint64", "u64"),
    DType("bool", 1, "bool", "bool", "bool", "i64"),
    DType("fp8_e4m3", 1, "storage", "unsigned char", "float8_e4m3fn", "f32"),
    DType("fp8_e5m2", 1, "storage", "unsigned char", "float8_e5m2", "f32"),
    DType("q8", 1, "storage", "signed char", "int8", "i32"),
)

DTYPES: dict[str, DType] = {row.name: row for row in _ROWS}
_BY_NUMPY: dict[str, DType] = {row.numpy_name: row for row in _ROWS if row.name != "q8"}


@cache
def _numpy_dtype(name: str) -> np.dtype[Any]:
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        import ml_dtypes  # late: most programs never touch these types

        name = getattr(ml_dtypes, name)
    found: np.dtype[Any] = np.dtype(name)
    return found


@lru_cache(maxsize=256)
def _of_numpy(given: np.dtype[Any]) -> DType | None:
    """The answer for most arrays: NumPy makes a dtype's name anew each time it is asked."""
    return _BY_NUMPY.get(given.name) if given.isnative else None


def dtype_of(value: Any) -> DType:
    """The :class:`DType` for a contract name, a NumPy dtype or type, or a Torch dtype.

    Raises :class:`InvalidTypeError` for anything else: complex, strings, big-endian...
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, np.dtype):
        known = _of_numpy(value)
        if known is not None:
            return known
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value]
    text = str(value)
    if text.startswith("torch."):
        text = value = text[6:]
    try:
        given = np.dtype(value)
    except TypeError:
        given = None
    found = _BY_NUMPY.get(given.name if given is not None else text)
    if found is None or (given is not None and not given.isnative):
        raise InvalidTypeError(
            "dtype cannot be used",
            expected=", ".join(DTYPES), got=repr(value), detail="dtype",
            next_step="cast the array first, e.g. x.astype(numpy.float32)"
            if given is not None else "name one of these, or NumPy's name of one",
        )  # fmt: skip
    return found
