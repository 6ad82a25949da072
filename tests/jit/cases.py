"""One row a function of the table: what is called, on which shapes, dtypes and ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jit.compare import FLOATS, INTS

NARROW = ("bf16", "f16", "f32", "i8", "i32", "u8", "bool")
ALL = (*FLOATS, *INTS, "bool")
REAL = (*FLOATS, "i32", "u8")


@dataclass(frozen=True)
class Case:
    """``call`` on one array a shape, for each dtype, with values between ``low`` and ``high``."""

    name: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...] = NARROW
    low: float = -3.0
    high: float = 3.0
    sums: bool = False
    loose: float = 1.0


ONE = ((3, 5),)
PAIR = ((3, 5), (5,))


def _ufunc(name: str, shapes: tuple[tuple[int, ...], ...], low: float = -3.0, high: float = 3.0,
           dtypes: tuple[str, ...] = ALL) -> Case:  # fmt: skip
    return Case(name, getattr(np, name), shapes, dtypes, low, high)


UNARY = [
    _ufunc(name, ONE)
    for name in ("negative", "positive", "absolute", "fabs", "sign", "square", "cbrt", "exp",
                 "exp2", "expm1", "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh", "arcsinh",
                 "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite", "signbit",
                 "logical_not", "invert", "deg2rad", "rad2deg", "radians", "degrees", "conjugate",
                 "modf")
] + [
    _ufunc("sqrt", ONE, 0.0), _ufunc("log", ONE, 0.2), _ufunc("log2", ONE, 0.2),
    _ufunc("log10", ONE, 0.2), _ufunc("log1p", ONE, 0.0), _ufunc("arcsin", ONE, -0.9, 0.9),
    _ufunc("arccos", ONE, -0.9, 0.9), _ufunc("arctanh", ONE, -0.9, 0.9),
    _ufunc("arccosh", ONE, 1.0), _ufunc("reciprocal", ONE, 0.3),
]  # fmt: skip

BINARY = [
    _ufunc(name, PAIR)
    for name in ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod",
                 "divmod", "maximum", "minimum", "fmax", "fmin", "copysign", "hypot", "arctan2",
                 "logaddexp", "logaddexp2", "equal", "not_equal", "less", "less_equal", "greater",
                 "greater_equal", "logical_and", "logical_or", "logical_xor", "bitwise_and",
                 "bitwise_or", "bitwise_xor", "heaviside")
] + [
    _ufunc("power", PAIR, 0.0), _ufunc("float_power", PAIR, 0.2),
    _ufunc("left_shift", PAIR, 0.0, 1.0), _ufunc("right_shift", PAIR, 0.0, 1.0),
]  # fmt: skip

OPERATORS = [
    Case("+ - *", lambda x, y: x + y - x * y, PAIR),
    Case("reflected", lambda x: (2 + x, 3 - x, 4 * x, 7 // (x * x + 1), 1.5 - x, 2.0 * x), ONE,
         (*FLOATS, *INTS, "bool")),
    Case("/ of numbers", lambda x: (x / 2, 2 / (x * x + 1)), ONE, (*FLOATS, "i32", "u8")),
    Case("% //", lambda x: (x % 3, x // 2, x % 2.5), ONE, (*FLOATS, "i32", "u8")),
    Case("** 2", lambda x: x**2, ONE), Case("** 3", lambda x: x**3, ONE),
    Case("** 0.5", lambda x: x**0.5, ONE, FLOATS, 0.1),
    Case("** -1", lambda x: x**-1, ONE, FLOATS, 0.3),
    Case("2 ** x", lambda x: 2.0**x, ONE, FLOATS),
    Case("bits", lambda x: (x & 6, x | 9, x ^ 5, ~x, 1 ^ x), ONE, INTS),
    Case("shifts", lambda x: (x << 2, x >> 1, 1 << (x & 3)), ONE, INTS, 0),
    Case("compare", lambda x: (x < 1, x <= 1, x > 1, x >= 1, x == 1, x != 1, x > 1), ONE, ALL),
    Case("abs neg", lambda x: (abs(x), -x, +x), ONE, (*FLOATS, *INTS)),
    Case("divmod", lambda x: divmod(x, 3), ONE, (*FLOATS, *INTS)),
    Case("round", lambda x: round(x, 1), ONE, ("f32", "f64")),
    Case("numpy scalars", lambda x: (x * np.float32(2), np.float64(0.5) + x, np.int16(3) * x),
         ONE, (*FLOATS, *INTS, "bool")),
    Case("@", lambda x, y: x @ y, ((3, 4), (4, 5)), (*FLOATS, "i32", "u8"), sums=True),
]  # fmt: skip

CHOICE = [
    Case("where", lambda x, y: np.where(x > y, x, y), PAIR, ALL),
    Case("where weak", lambda x: (np.where(x > 0, x, 0), np.where(x > 0, x, 0.5)), ONE,
         (*FLOATS, *INTS)),
    Case("clip", lambda x: (np.clip(x, 1, 2), x.clip(0, None), np.clip(x, None, 1)), ONE,
         (*FLOATS, *INTS)),
    Case("clip arrays", lambda x, y: np.clip(x, y, y + 1), PAIR, (*FLOATS, "i32")),
    Case("select", lambda x: np.select([x > 1, x > 0], [x, x * 2], 7), ONE, (*FLOATS, "i32")),
    Case("nan_to_num", lambda x: np.nan_to_num(np.log(x), nan=5.0), ONE, ("f32", "f64"), -1.0),
    Case("around", lambda x: (np.round(x, 2), np.around(x), x.round(1)), ONE, ("f32", "f64")),
    Case("fix", lambda x: np.fix(x), ONE, FLOATS),
    Case("isclose", lambda x, y: np.isclose(x, y, atol=1.0), PAIR, ("f32", "f64")),
    Case("sinc", lambda x: np.sinc(x), ONE, ("f32", "f64")),
    Case("real", lambda x: (np.real(x), x.real), ONE),
]  # fmt: skip


def _reduced(f: Any, x: Any) -> Any:
    return f(x), f(x, axis=0), f(x, axis=(0, 2)), f(x, axis=-1, keepdims=True), f(x, 1)


REDUCTIONS = [
    Case(name, partial(_reduced, getattr(np, name)), ((3, 4, 5),), ALL, -1.0, 1.0, sums=True)
    for name in ("sum", "prod", "max", "min", "any", "all", "mean")
] + [
    Case("var std", lambda x: (x.var(), x.std(axis=1), x.var(0, ddof=1), x.std((0, 1)),
                               np.var(x, axis=-1, keepdims=True)), ((3, 4, 5),),
         (*FLOATS, "i32", "u8"), sums=True, loose=4.0),
    Case("argmax", lambda x: (x.argmax(), np.argmax(x, 0), x.argmin(axis=-1),
                              np.argmax(x, axis=1, keepdims=True)), ((3, 4, 5),), (*FLOATS, *INTS)),
    Case("cumsum", lambda x: (np.cumsum(x), x.cumsum(0), x.cumsum(axis=-1)), ((3, 4),), ALL,
         sums=True),
    Case("cumprod", lambda x: (np.cumprod(x, 1), x.cumprod(0)), ((3, 4),), REAL, sums=True),
    Case("sum dtype", lambda x: (x.sum(dtype=np.float32), np.sum(x, axis=0, dtype=np.int64)),
         ((3, 4),), ("i8", "u8", "i32"), sums=True),
    Case("sum where", lambda x: (np.sum(x, where=x > 0), np.max(x, initial=-9, where=x > 0)),
         ((3, 4),), ("f32", "f64", "i32"), sums=True),
    Case("initial", lambda x: (np.sum(x, initial=3), np.max(x, axis=0, initial=2)), ((3, 4),),
         ("f32", "i32"), sums=True),
    Case("ufunc.reduce", lambda x: (np.add.reduce(x), np.maximum.reduce(x, axis=1),
                                    np.multiply.reduce(x, axis=None), np.add.accumulate(x, 1)),
         ((3, 4),), ("f32", "i32", "u8"), sums=True),
    Case("ufunc.outer", lambda x, y: (np.add.outer(x, y), np.multiply.outer(x, y)),
         ((3,), (4,)), ("f32", "i32")),
    Case("count_nonzero", lambda x: (np.count_nonzero(x, axis=0), np.ptp(x, axis=1)), ((3, 4),),
         ("f32", "i32", "u8")),
    Case("average", lambda x, y: (np.average(x), np.average(x, axis=1, weights=y)),
         ((3, 4), (4,)), ("f32", "f64"), 0.1, sums=True),
    Case("norm", lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=1),
                            np.linalg.norm(x, 1, axis=0), np.linalg.norm(x, np.inf, axis=0)),
         ((3, 4),), ("f32", "f64"), sums=True),
    Case("nan reductions", lambda x: (np.nansum(np.sqrt(x), axis=0), np.nanmax(np.sqrt(x), axis=1),
                                      np.nanmean(np.sqrt(x)), np.nanmin(np.sqrt(x))), ((6, 5),),
         ("f32", "f64"), sums=True),
    Case("diff", lambda x: (np.diff(x), np.diff(x, axis=0), np.diff(x, 2)), ((3, 5),),
         ("f32", "i32", "bool")),
    Case("trace", lambda x: (np.trace(x), x.trace(1), x.diagonal(), np.diagonal(x, 1),
                             np.diag(x, -1)),
         ((4, 5),), ("f32", "i32"), sums=True),
]  # fmt: skip

SHAPES = [
    Case("reshape", lambda x: (x.reshape(5, 12), x.reshape(-1, 6), np.reshape(x, -1), x.ravel(),
                               x.flatten(), x.reshape((2, 30), order="F")), ((3, 4, 5),)),
    Case("transpose", lambda x: (x.T, x.transpose(1, 0, 2), np.transpose(x, (2, 0, 1)),
                                 x.swapaxes(0, 2), np.moveaxis(x, 0, -1), np.rollaxis(x, 2),
                                 np.matrix_transpose(x)), ((3, 4, 5),)),
    Case("squeeze", lambda x: (x.squeeze(), np.squeeze(x, 1), np.expand_dims(x, (0, -1))),
         ((3, 1, 5, 1),)),
    Case("flip", lambda x: (np.flip(x), np.flip(x, 1), np.flipud(x), np.fliplr(x), np.rot90(x),
                            np.rot90(x, 2), np.rot90(x, 3)), ((3, 4),)),
    Case("roll", lambda x: (np.roll(x, 2), np.roll(x, -1, axis=1), np.roll(x, (1, 2), (0, 1))),
         ((3, 4),)),
    Case("split", lambda x: (np.split(x, 2), np.split(x, [1, 3], axis=1), np.array_split(x, 3),
                             np.hsplit(x, 3), np.vsplit(x, 2)), ((4, 6),)),
    Case("broadcast", lambda x, y: (np.broadcast_to(y, (3, 5)), *np.broadcast_arrays(x, y)), PAIR),
    Case("atleast", lambda x: (np.atleast_1d(x), np.atleast_2d(x), np.atleast_3d(x)), ((4,),)),
    Case("copy", lambda x: (x.copy(), np.copy(x), x.astype(np.float64), x.conj()), ONE),
    Case("casts", lambda x: (x.astype("f4"), x.astype(np.int32), x.astype(bool),
                             x.astype(np.float16)), ONE, (*FLOATS, *INTS, "bool")),
]  # fmt: skip

JOINS = [
    Case("concatenate", lambda x, y: (np.concatenate([x, y]), np.concatenate((x, y), axis=None),
                                      np.vstack([x, y]), np.append(x, y, axis=0)),
         ((3, 4), (2, 4))),
    Case("stack", lambda x, y: (np.stack([x, y]), np.stack([x, y], axis=-1), np.hstack([x, y]),
                                np.dstack([x, y]), np.column_stack([x, y])), ((3, 4), (3, 4))),
    Case("tile repeat", lambda x: (np.tile(x, 2), np.tile(x, (2, 1, 3)), np.repeat(x, 3),
                                   np.repeat(x, 2, axis=0), np.repeat(x, [1, 0, 2], axis=0)),
         ((3, 4),)),
    Case("pad", lambda x: (np.pad(x, 1), np.pad(x, ((1, 2), (0, 3)), constant_values=1),
                           np.pad(x, 2, mode="edge"), np.pad(x, 2, mode="reflect"),
                           np.pad(x, (1, 2), mode="symmetric"), np.pad(x, 1, mode="wrap"),
                           np.pad(x, 1, constant_values=((0, 1), (1, 0)))), ((3, 4),)),
    Case("meshgrid", lambda x, y: np.meshgrid(x, y) + np.meshgrid(x, y, indexing="ij"),
         ((3,), (4,)), ("f32",)),
    Case("mixed dtypes", lambda x: np.concatenate([x, np.ones(3, np.float32)]), ((3,),),
         ("f16", "i8", "i32", "f64", "bool")),
]  # fmt: skip

INDEXING = [
    Case("basic", lambda x: (x[0], x[-1, 2], x[1:, ::2], x[..., 1], x[:, None, 1:3], x[::-1, ::-2],
                             x[5:2], x[None], x[1, ..., None], x[2:0:-1]), ((4, 5, 3),)),
    Case("integer arrays", lambda x: (x[[0, 2, -1]], x[:, [1, 0]], x[[0, 1], [2, 3]],
                                      x[np.array([[0], [1]]), np.array([2, 3])],
                                      x[[0, 1], :, [2, 0]], x[0, :, [2, 0]], x[:, [0, 1], [1, 2]],
                                      x[None, [0, 1]], x[1:, [0, 2]], x[..., [0, 1], None]),
         ((4, 5, 3),), ("f32", "i8", "bool")),
    Case("traced index", lambda x: x[x[0] % 4], ((4, 3),), ("i8", "i32", "i64", "u8"), 0),
    Case("take", lambda x: (np.take(x, [0, 2]), x.take([1, -1], axis=1),
                            np.take(x, [7, -9], axis=0, mode="clip"),
                            np.take(x, [7, -9], axis=0, mode="wrap")), ((4, 5),)),
    Case("masks", lambda x: (x[np.array([True, False, True, True])],
                             x[:, np.array([True, False, False, True, True])]), ((4, 5),)),
    Case("take_along_axis", lambda x: (np.take_along_axis(x, np.argsort(x, axis=1), axis=1),),
         ((4, 5),), ("f32", "i32")),
    Case("iterate", lambda x: sum(row * 2 for row in x), ((4, 5),), ("f32", "i32"), sums=True),
]  # fmt: skip


def _assigned(x: Any, index: Any, value: Any) -> Any:
    x = x + x.dtype.type(0)
    x[index] = value
    return x


ASSIGNMENT = [
    Case("set basic", lambda x: (_assigned(x, 0, 1), _assigned(x, (slice(1, 3), 2), 7),
                                 _assigned(x, (slice(None), -1), x[:, 0]),
                                 _assigned(x, slice(None, None, 2), 3),
                                 _assigned(x, (slice(None, None, -1), slice(1, 4)), x[:, 1:4]),
                                 _assigned(x, (slice(3, 0, -2), slice(0, None, 3)), 5),
                                 _assigned(x, Ellipsis, 2)), ((4, 5),), ("f32", "i32", "u8")),
    Case("set mask", lambda x: (_assigned(x, x > 1, 0), _assigned(x, (x > 1)[:, 0], x[0])),
         ((4, 5),), ("f32", "i32")),
    Case("in place", lambda x: _in_place(x), ((4, 5),), ("f16", "f32", "i32")),
]  # fmt: skip


def _in_place(x: Any) -> Any:
    x = x * 2
    other = x
    x += 1
    x *= 3
    x -= x
    x[0] += 5
    x[1:, 2] -= 1
    return x, other


PRODUCTS = [
    Case("matmul", lambda x, y: (np.matmul(x, y), x @ y[0, 0], x[0, 0, 0] @ y, x[0] @ y[0, 0, :, 0],
                                 x[0, 0, 0] @ y[0, 0, :, 0]), ((2, 3, 4, 5), (2, 1, 5, 6)),
         (*FLOATS, "i32", "u8", "bool"), sums=True),
    Case("dot", lambda x, y: (np.dot(x, y), x.dot(y[:, 0]), np.dot(x[0, 0], y[:, 0]),
                              np.inner(x, y.T), np.vdot(x[0, 0], y[:, 0]), np.outer(x[0, 0], y)),
         ((2, 3, 4), (4, 5)), (*FLOATS, "i32"), sums=True),
    Case("tensordot", lambda x, y: (np.tensordot(x, y, 1), np.tensordot(x, y, ([2, 1], [0, 1])),
                                    np.tensordot(x, y, 0)), ((2, 3, 4), (4, 3)), (*FLOATS, "i32"),
         sums=True),
    Case("einsum", lambda x, y: (
        np.einsum("ij,jk->ik", x, y), np.einsum("ij,jk", x, y), np.einsum("ij->ji", x),
        np.einsum("ij->j", x), np.einsum("ij,ij->", x, x), np.einsum("ij,kj->ik", x, y.T),
        np.einsum("i...,...k->...ik", x, y[0]), np.einsum("ij,jk,kl->il", x, y, y.T),
        np.einsum("ij,jk->kij", x, y), np.einsum(x, [0, 1], y, [1, 2], [0, 2])),
         ((3, 4), (4, 5)), (*FLOATS, "i32"), sums=True),
    Case("einsum batch", lambda x, y: (
        np.einsum("bhqd,bhkd->bhqk", x, y), np.einsum("bhqd,bhkd->bqhk", x, y),
        np.einsum("bhqd->bdq", x), np.einsum("...qd,...kd->...qk", x, y),
        np.einsum("bhqd,bhkd->hq", x, y)), ((2, 3, 4, 5), (2, 3, 6, 5)), ("f32", "f64"), sums=True),
    Case("einsum diagonal", lambda x: (np.einsum("ii->i", x), np.einsum("ii", x),
                                       np.einsum("ii,i->i", x, x[0])), ((4, 4),), ("f32", "i32"),
         sums=True),
]  # fmt: skip

MAKING = [
    Case("like", lambda x: (np.zeros_like(x), np.ones_like(x, dtype=np.float32),
                            np.full_like(x, 3), np.zeros_like(x, shape=(2, 2))), ONE),
    Case("tril", lambda x: (np.tril(x), np.triu(x), np.tril(x, 1), np.triu(x, -1), np.tril(x, -2)),
         ((2, 4, 5),)),
    Case("like=", lambda x: (np.arange(4, like=x) + x[:4], np.zeros((4,), like=x),
                             np.eye(3, like=x), np.full((2,), 7, like=x), np.tri(3, like=x),
                             np.arange(1, 9, 2, like=x), np.ones(3, np.int32, like=x)),
         ((4,),), ("f32", "i32")),
    Case("linspace", lambda x: np.linspace(x[0], x[1], 7), ((2, 3),), ("f32", "f64")),
    Case("diag", lambda x: (np.diag(x), np.diag(x, 1), np.diag(x, -2)), ((4,),), ("f32", "i32")),
    Case("kron", lambda x, y: np.kron(x, y), ((2, 3), (2, 2)), ("f32", "i32")),
    Case("queries", lambda x: x * len(x) + x.ndim + np.ndim(x) + x.size + np.shape(x)[0], ONE,
         ("f32",)),
    Case("python sum", lambda x: sum([x, x, x]), ONE, ("f32", "i32")),
]  # fmt: skip

ORDERING = [
    Case("sort", lambda x: (np.sort(x), np.sort(x, axis=0), np.sort(x, axis=None)), ((4, 7),), ALL),
    Case("argsort", lambda x: (np.argsort(x, axis=0, kind="stable"),
                               x.argsort(kind="stable")), ((4, 7),), (*FLOATS, *INTS)),
    Case("median", lambda x: (np.median(x, axis=1), np.median(x), np.percentile(x, 30, axis=0),
                              np.quantile(x, [0.1, 0.9])), ((4, 7),), ("f32", "f64"), loose=4.0),
    Case("median of axes", lambda x: (np.median(x, axis=(0, 2)), np.quantile(x, 0.9, (1, 0)),
                                      np.percentile(x, 30, axis=(2, 1), keepdims=True)),
         ((3, 2, 4),), ("f32", "f64"), loose=4.0),
]  # fmt: skip

CASES = [
    *UNARY, *BINARY, *OPERATORS, *CHOICE, *REDUCTIONS, *SHAPES, *JOINS, *INDEXING, *ASSIGNMENT,
    *PRODUCTS, *MAKING, *ORDERING,
]  # fmt: skip
