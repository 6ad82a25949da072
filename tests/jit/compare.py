"""Run a function by NumPy and by jit and compare: shapes, dtypes, values, or the error of both."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ge2rt.jit import JitFunction
from ge2rt.jit.backend import Build, build_reference
from ge2rt.jit.trees import flatten

DTYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "bool": np.dtype(np.bool_),
}  # fmt: skip
FLOATS = ("f16", "f32", "f64")
INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")

# relative to the largest magnitude of the result: (pointwise, sums)
TOLERANCE = {"float16": (4e-3, 1e-2), "bfloat16": (3e-2, 6e-2), "float32": (4e-6, 4e-5),
             "float64": (1e-13, 1e-12)}  # fmt: skip


def sample(
    rng: np.random.Generator, shape: Sequence[int], dtype: str, low: float = -3, high: float = 3
) -> np.ndarray[Any, Any]:
    """Values in a range; integers wide enough to tell signed from unsigned arithmetic."""
    kind = DTYPES[dtype]
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if kind.kind in "iu":
        info = np.iinfo(kind)
        least, most = max(int(low * 5), info.min), min(int(high * 5), info.max)
        return rng.integers(least, most, shape, endpoint=True).astype(kind)
    return rng.uniform(low, high, shape).astype(kind)


def strided(array: np.ndarray[Any, Any], how: str) -> np.ndarray[Any, Any]:
    """The same values, laid out in another way."""
    if how == "plain" or array.ndim == 0:
        return array
    if how == "fortran":
        return np.asfortranarray(array)
    wide = np.zeros(tuple(2 * e + 1 for e in array.shape), array.dtype)
    if how == "gaps":
        view = wide[tuple(slice(1, 2 * e + 1, 2) for e in array.shape)]
    else:  # backwards
        view = wide[tuple(slice(2 * e - 1, None, -2) if e else slice(0, 0) for e in array.shape)]
    view[...] = array
    return view


LAYOUTS = ("plain", "fortran", "gaps", "backwards")


def outcome(function: Callable[..., Any], arrays: Sequence[Any]) -> tuple[Any, Exception | None]:
    """The result, or the error that the function ends with."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*arrays), None
        except (TypeError, ValueError, IndexError, OverflowError) as fault:
            return None, fault


def check(
    function: Callable[..., Any], arrays: Sequence[Any], *, sums: bool = False,
    loose: float = 1.0, build: Build = build_reference,
) -> None:  # fmt: skip
    """Equal results, or an error of the same family from both."""
    want, fault = outcome(function, [np.array(a, copy=True) if isinstance(a, np.ndarray) else a
                                     for a in arrays])  # fmt: skip
    got, own = outcome(JitFunction(function, build=build), arrays)
    if fault is not None:
        assert own is not None, f"NumPy raises {fault!r}, jit gives {got!r}"
        assert isinstance(own, (TypeError, ValueError, OverflowError)), own
        return
    if isinstance(own, OverflowError):  # np.where wraps such a number; here all functions refuse
        assert "Python integer" in str(own)
        return
    assert own is None, own
    same(got, want, sums=sums, loose=loose)


def same(got: Any, want: Any, *, sums: bool = False, loose: float = 1.0) -> None:
    """Equal structure, shapes, dtypes; integers and bools bit for bit, floats within tolerance."""
    got_leaves, got_structure, _ = flatten(got)
    want_leaves, want_structure, names = flatten(want)
    assert str(got_structure) == str(want_structure)
    for mine, theirs, name in zip(got_leaves, want_leaves, names, strict=True):
        theirs = np.asarray(theirs)
        assert isinstance(mine, np.ndarray), f"{name} is a {type(mine)}"
        assert mine.shape == theirs.shape, f"{name}: {mine.shape}, not {theirs.shape}"
        assert mine.dtype == theirs.dtype, f"{name}: {mine.dtype}, not {theirs.dtype}"
        near(mine, theirs, sums=sums, loose=loose)


def near(
    mine: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any], *, sums: bool = False,
    loose: float = 1.0,
) -> None:  # fmt: skip
    """Values alone."""
    if theirs.dtype.kind in "iub":
        np.testing.assert_array_equal(mine, theirs)
        return
    relative = TOLERANCE[theirs.dtype.name][sums] * loose
    finite = theirs[np.isfinite(theirs)].astype(np.float64)
    scale = float(np.abs(finite).max()) if finite.size and sums else 0.0
    np.testing.assert_allclose(
        mine.astype(np.float64), theirs.astype(np.float64), rtol=relative,
        atol=relative * max(scale, 1.0 if sums else 0.25),
    )  # fmt: skip
