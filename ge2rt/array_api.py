"""The Python array API standard (2024.12) on ge2rt's tensors: ``import ge2rt.array_api as xp``.

Functions have the standard's names and signatures. What it leaves to a library is as in NumPy.
Not covered: complex numbers, functions whose result's shape depends on values (``nonzero``,
``unique_*``), ``searchsorted``, ``fft``, and of ``linalg`` what is no product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DTYPES, DType, dtype_of
from ge2rt.base.errors import InvalidTypeError
from ge2rt.device.registry import get_device
from ge2rt.spec.suggest import did_you_mean
from ge2rt.tensors import geometry as geo
from ge2rt.tensors import making, ops, views
from ge2rt.tensors.operators import table
from ge2rt.tensors.tensor import Tensor

__array_api_version__ = "2024.12"

e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None
_DTYPES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "float32": "f32", "float64": "f64",
    "float16": "f16", "bfloat16": "bf16",
}  # fmt: skip
_KINDS = {
    "bool": ("bool",), "signed integer": ("int",), "unsigned integer": ("uint",),
    "integral": ("int", "uint"), "real floating": ("float",), "complex floating": (),
    "numeric": ("int", "uint", "float"),
}  # fmt: skip
# operators whose names the standard has too, or writes otherwise
_SAME = [
    "abs", "acos", "acosh", "add", "all", "any", "argmax", "argmin", "asin", "asinh", "atan",
    "atan2", "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "ceil", "copysign", "cos", "cosh", "count_nonzero",
    "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal",
    "hypot", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p",
    "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul",
    "max", "maximum", "mean", "min", "minimum", "multiply", "negative", "not_equal", "positive",
    "pow", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt",
    "square", "std", "subtract", "sum", "take", "take_along_axis", "tan", "tanh", "tensordot",
    "tril", "triu", "trunc", "var", "where", "diff", "prod",
]  # fmt: skip
_REST = [
    "arange", "asarray", "astype", "broadcast_arrays", "broadcast_to", "can_cast", "clip",
    "concat", "cumulative_prod", "cumulative_sum", "empty", "empty_like", "expand_dims", "eye",
    "finfo", "flip", "from_dlpack", "full", "full_like", "iinfo", "argsort", "isdtype",
    "linspace", "matrix_transpose", "meshgrid", "moveaxis", "ones", "ones_like", "permute_dims",
    "repeat", "reshape", "result_type", "roll", "sort", "squeeze", "stack", "tile", "unstack",
    "vecdot", "zeros", "zeros_like",
]  # fmt: skip
__all__ = sorted([*_SAME, *_DTYPES, *_REST, "e", "inf", "nan", "newaxis", "pi"])


def __getattr__(name: str) -> Any:
    if name in _DTYPES:
        return DTYPES[_DTYPES[name]]
    if name in _SAME and name in table():
        return getattr(ops, name)
    raise AttributeError(f"ge2rt.array_api has no {name!r}. {did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return __all__


# -- making ----------------------------------------------------------------------------------------
def _kind(dtype: Any, default: str) -> Any:
    return default if dtype is None else dtype_of(dtype)


def asarray(obj: Any, /, *, dtype: Any = None, device: str | None = None,
            copy: bool | None = None) -> Tensor:  # fmt: skip
    """A tensor of ``obj``; Python floats are float64 here, as in NumPy."""
    kind = dtype
    if kind is None and not hasattr(obj, "dtype"):
        kind = dtype_of(np.asarray(obj).dtype)
    if copy:
        return making.tensor(obj, kind, device)
    return making.asarray(obj, kind, device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None,
           device: str | None = None) -> Tensor:  # fmt: skip
    """Numbers from ``start`` up to ``stop``: int64 or float64 without a dtype."""
    whole = all(isinstance(v, int) for v in (start, stop, step) if v is not None)
    return making.arange(start, stop, step, _kind(dtype, "i64" if whole else "f64"), device)


def empty(shape: Any, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """A tensor of whatever is in memory; float64 without a dtype."""
    return making.empty(geo.ints("shape", shape), dtype=_kind(dtype, "f64"), device=device)


def zeros(shape: Any, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Zeros; float64 without a dtype."""
    return making.zeros(geo.ints("shape", shape), dtype=_kind(dtype, "f64"), device=device)


def ones(shape: Any, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Ones; float64 without a dtype."""
    return making.ones(geo.ints("shape", shape), dtype=_kind(dtype, "f64"), device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """One value: bool, int64 or float64 by its kind without a dtype."""
    kinds = {bool: "bool", int: "i64", float: "f64"}
    kind = _kind(dtype, kinds.get(type(fill_value), "f64"))
    return making.full(geo.ints("shape", shape), fill_value, kind, device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None,
        device: str | None = None) -> Tensor:  # fmt: skip
    """Ones on a diagonal; float64 without a dtype."""
    return making.eye(n_rows, n_cols, k, _kind(dtype, "f64"), device)


def linspace(start: float, stop: float, /, num: int, *, dtype: Any = None,
             device: str | None = None, endpoint: bool = True) -> Tensor:  # fmt: skip
    """Evenly spaced numbers; float64 without a dtype."""
    return making.linspace(start, stop, num, _kind(dtype, "f64"), device, endpoint=endpoint)


def _like(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def like(x: Tensor, /, *args: Any, dtype: Any = None, device: str | None = None) -> Tensor:
        kind = x.dtype if dtype is None else dtype
        return make(x.shape, *args, dtype=kind, device=device or x.device)

    like.__doc__ = f"As ``{make.__name__}``, in the shape and, without others, dtype of ``x``."
    return like


empty_like, zeros_like, ones_like = _like(empty), _like(zeros), _like(ones)
full_like = _like(full)
from_dlpack = making.from_dlpack


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid."""
    rank = len(arrays)
    seen = [a.reshape((1,) * n + (-1,) + (1,) * (rank - n - 1)) for n, a in enumerate(arrays)]  # type: ignore[attr-defined]
    full_grid = broadcast_arrays(*seen)
    swapped = indexing == "xy" and rank > 1
    return [views.transpose(each, 0, 1) for each in full_grid] if swapped else list(full_grid)


# -- shapes ----------------------------------------------------------------------------------------
def reshape(x: Tensor, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The same elements in another shape."""
    return views.reshape(making.clone(x) if copy else x, geo.ints("reshape", shape))


def permute_dims(x: Tensor, /, axes: Any) -> Tensor:
    """Axes in another order."""
    return views.permute(x, tuple(axes))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    return views.transpose(x)


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Axes moved to other places."""
    sources = [geo.axis_of("moveaxis", a, x.ndim) for a in geo.ints("moveaxis", source)]
    places = [geo.axis_of("moveaxis", a, x.ndim) for a in geo.ints("moveaxis", destination)]
    order = [a for a in range(x.ndim) if a not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return views.permute(x, tuple(order))


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """Without axes of extent 1."""
    return views.squeeze(x, axis)


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """With a new axis."""
    return views.unsqueeze(x, axis)


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """Axes reversed."""
    return views.flip(x, axis)


def broadcast_to(x: Tensor, /, shape: Any) -> Tensor:
    """Repeated along axes of extent 1 and new ones."""
    return views.expand(x, tuple(shape))


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """All in one shape."""
    from ge2rt.base.shapes import broadcast_shapes

    shape = broadcast_shapes(*(a.shape for a in arrays))
    return tuple(views.expand(a, shape) for a in arrays)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """One after the other along an axis; flattened without one."""
    if axis is None:
        arrays, axis = [views.reshape(a, -1) for a in arrays], 0
    result: Tensor = ops.concat(list(arrays), axis=axis)
    return result


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Side by side along a new axis."""
    result: Tensor = ops.stack(list(arrays), axis=axis)
    return result


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Views along an axis."""
    at = geo.axis_of("unstack", axis, x.ndim)
    return tuple(x[(slice(None),) * at + (n,)] for n in range(x.shape[at]))


def tile(x: Tensor, repetitions: Any, /) -> Tensor:
    """Repeated as a whole."""
    return ops.tile(x, reps=tuple(repetitions))  # type: ignore[no-any-return]


def repeat(x: Tensor, repeats: int, /, *, axis: int | None = None) -> Tensor:
    """Elements repeated."""
    return ops.repeat(x, repeats=repeats, axis=axis)  # type: ignore[no-any-return]


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Moved round along axes."""
    return ops.roll(x, shift=shift, axis=axis)  # type: ignore[no-any-return]


# -- the rest --------------------------------------------------------------------------------------
def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Raised to ``min``, lowered to ``max``, in the dtype of ``x``."""
    if min is None and max is None:
        return making.clone(x)
    result: Tensor = ops.clip(x, min=min, max=max)
    return making.astype(result, x.dtype)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """In order along an axis."""
    result: Tensor = ops.sort(x, axis=axis)
    return views.flip(result, axis) if descending else result


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Indices that sort; equal elements keep their order."""
    if not descending:
        result: Tensor = ops.argsort(x, axis=axis)
        return result
    turned: Tensor = ops.argsort(views.flip(x, axis), axis=axis)
    last: Any = x.shape[axis] - 1
    return views.flip(last - turned, axis)


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: Any = None,
                   include_initial: bool = False) -> Tensor:  # fmt: skip
    """Running sums."""
    return _running("cumsum", x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(x: Tensor, /, *, axis: int | None = None, dtype: Any = None,
                    include_initial: bool = False) -> Tensor:  # fmt: skip
    """Running products."""
    return _running("cumprod", x, axis, dtype, 1 if include_initial else None)


def _running(name: str, x: Tensor, axis: int | None, dtype: Any, first: int | None) -> Tensor:
    if axis is None and x.ndim != 1:
        raise InvalidTypeError(f"{name}: an axis is needed", got=f"{x.ndim} axes",
                               next_step="name it: axis=0")  # fmt: skip
    at = 0 if axis is None else geo.axis_of(name, axis, x.ndim)
    result: Tensor = getattr(ops, name)(x, axis=at, dtype=dtype)
    if first is None:
        return result
    start = making.full((*x.shape[:at], 1, *x.shape[at + 1 :]), first, result.dtype, x.device)
    return concat([start, result], axis=at)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sums of products along an axis."""
    result: Tensor = (x1 * x2).sum(axis=axis)  # type: ignore[operator]
    return result


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """In another dtype."""
    made = making.astype(x, dtype, copy=copy)
    return made if device is None else making.to(made, device)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype of a result of these."""
    given = [a.dtype.numpy if isinstance(a, Tensor) else a.numpy if isinstance(a, DType) else a
             for a in arrays_and_dtypes]  # fmt: skip
    return dtype_of(np.result_type(*given))


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether every value survives."""
    have = from_.dtype if isinstance(from_, Tensor) else dtype_of(from_)
    return bool(np.can_cast(have.numpy, dtype_of(to).numpy))


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind (``"integral"``...), another dtype, or one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return dtype_of(dtype).kind in _KINDS[kind]
    return dtype_of(dtype) == dtype_of(kind)


def finfo(type: Any, /) -> Any:
    """Limits of a floating point dtype."""
    return np.finfo(_numpy(type))


def iinfo(type: Any, /) -> Any:
    """Limits of an integer dtype."""
    return np.iinfo(_numpy(type))


def _numpy(given: Any) -> Any:
    return (given.dtype if isinstance(given, Tensor) else dtype_of(given)).numpy


class _Info:
    """What the library says of itself."""

    def capabilities(self) -> dict[str, Any]:
        """Masks are indices; of functions, no result's shape depends on values."""
        return {"boolean indexing": True, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays are made."""
        return get_device(None).name

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        """Dtypes of what is made without one."""
        return {"real floating": DTYPES["f64"], "integral": DTYPES["i64"],
                "indexing": DTYPES["i64"]}  # fmt: skip

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, DType]:
        """Dtypes by the standard's names."""
        rows = {name: DTYPES[ours] for name, ours in _DTYPES.items() if name != "bfloat16"}
        return {n: d for n, d in rows.items() if kind is None or isdtype(d, kind)}

    def devices(self) -> list[str]:
        """Devices that are there."""
        return ["cpu"]


def __array_namespace_info__() -> _Info:
    """What the library says of itself."""
    return _Info()
