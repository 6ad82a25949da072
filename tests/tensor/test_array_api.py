"""The array API standard: names, dtypes and their promotion, broadcasting, special values."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ge2rt
import ge2rt.array_api as xp
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError

inf, nan = math.inf, math.nan

# the standard's table of promotion within one kind, and of integers of both signs
PROMOTED = [
    ("int8", "int8", "int8"), ("int8", "int16", "int16"), ("int16", "int32", "int32"),
    ("int32", "int64", "int64"), ("uint8", "uint16", "uint16"), ("uint16", "uint32", "uint32"),
    ("uint32", "uint64", "uint64"), ("int8", "uint8", "int16"), ("int16", "uint8", "int16"),
    ("int16", "uint16", "int32"), ("int32", "uint32", "int64"), ("int64", "uint32", "int64"),
    ("float32", "float32", "float32"), ("float32", "float64", "float64"), ("bool", "bool", "bool"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "both"), PROMOTED)
def test_promotion(a: str, b: str, both: str) -> None:
    one, other, want = (getattr(xp, name) for name in (a, b, both))
    assert xp.result_type(one, other) == xp.result_type(other, one) == want
    if a != "bool":
        x, y = xp.ones((2,), dtype=one), xp.ones((2,), dtype=other)
        assert xp.add(x, y).dtype == (x + y).dtype == want
        assert (x + 1).dtype == one  # a Python number gives way


# name, operands, value: the special cases that the standard lists
SPECIAL: list[tuple[str, tuple[float, ...], float]] = [
    ("abs", (-0.0,), 0.0), ("abs", (-inf,), inf), ("acos", (1.5,), nan), ("acos", (1.0,), 0.0),
    ("acosh", (0.5,), nan), ("acosh", (inf,), inf), ("asin", (2.0,), nan), ("asinh", (-inf,), -inf),
    ("atan", (inf,), math.pi / 2), ("atanh", (1.0,), inf), ("atanh", (1.5,), nan),
    ("ceil", (-0.5,), -0.0), ("cos", (inf,), nan), ("cosh", (-inf,), inf), ("exp", (-inf,), 0.0),
    ("exp", (0.0,), 1.0), ("expm1", (-inf,), -1.0), ("expm1", (-0.0,), -0.0),
    ("floor", (0.5,), 0.0),
    ("log", (-1.0,), nan), ("log", (0.0,), -inf), ("log1p", (-1.0,), -inf),
    ("log1p", (-0.0,), -0.0),
    ("log2", (inf,), inf), ("log10", (1.0,), 0.0), ("round", (2.5,), 2.0), ("round", (-0.4,), -0.0),
    ("sign", (nan,), nan), ("sign", (-3.0,), -1.0), ("sin", (inf,), nan), ("sin", (-0.0,), -0.0),
    ("sqrt", (-1.0,), nan), ("sqrt", (-0.0,), -0.0), ("tan", (inf,), nan), ("tanh", (inf,), 1.0),
    ("trunc", (-0.9,), -0.0), ("reciprocal", (0.0,), inf), ("signbit", (-0.0,), 1),
    ("add", (inf, -inf), nan), ("add", (-0.0, -0.0), -0.0), ("divide", (0.0, 0.0), nan),
    ("divide", (1.0, -0.0), -inf), ("floor_divide", (7.0, -2.0), -4.0), ("pow", (1.0, nan), 1.0),
    ("pow", (nan, 0.0), 1.0), ("pow", (0.5, -inf), inf), ("pow", (-8.0, 1 / 3), nan),
    ("remainder", (-5.0, 3.0), 1.0), ("remainder", (5.0, 0.0), nan), ("maximum", (nan, 1.0), nan),
    ("minimum", (1.0, nan), nan), ("hypot", (inf, nan), inf), ("atan2", (0.0, -0.0), math.pi),
    ("copysign", (1.0, -0.0), -1.0), ("logaddexp", (-inf, 2.0), 2.0), ("multiply", (inf, 0.0), nan),
]  # fmt: skip


def test_special_values() -> None:
    for name, operands, want in SPECIAL:
        got = getattr(xp, name)(*(xp.asarray([v], dtype=xp.float64) for v in operands)).item()
        told = f"{name}{operands} = {got}, not {want}"
        assert (math.isnan(got) and math.isnan(want)) or got == pytest.approx(want, rel=1e-15), told
        assert math.copysign(1, got) == math.copysign(1, want) or math.isnan(want), told


def test_functions_of_the_standard() -> None:
    values = np.arange(12.0).reshape(3, 4)
    x = xp.asarray(values)
    assert x.dtype == xp.float64
    assert x.__array_namespace__() is xp
    pairs = [
        (xp.permute_dims(x, (1, 0)), values.T), (xp.flip(x, axis=1), values[:, ::-1]),
        (xp.expand_dims(x, axis=1), values[:, None]), (xp.squeeze(x[:1], 0), values[0]),
        (xp.broadcast_to(x[0], (2, 4)), np.tile(values[0], (2, 1))),
        (xp.concat([x, x], axis=None), np.tile(values.reshape(-1), 2)),
        (xp.stack([x, x], axis=1), np.stack([values, values], 1)),
        (xp.moveaxis(xp.ones((2, 3, 4)), 0, -1), np.ones((3, 4, 2))),
        (xp.unstack(x, axis=1)[2], values[:, 2]), (xp.roll(x, 1, axis=0), np.roll(values, 1, 0)),
        (xp.tile(x, (2, 1)), np.tile(values, (2, 1))),
        (xp.repeat(x, 2, axis=0), values.repeat(2, 0)),
        (xp.sort(x, axis=1, descending=True), values[:, ::-1]),
        (xp.argsort(xp.asarray([1, 3, 3, 2]), descending=True), np.array([1, 2, 3, 0])),
        (xp.cumulative_sum(x, axis=0, include_initial=True),
         np.concatenate([np.zeros((1, 4)), values.cumsum(0)])),
        (xp.clip(x, 2, 5), values.clip(2, 5)), (xp.vecdot(x, x), (values * values).sum(-1)),
        (xp.meshgrid(xp.arange(2), xp.arange(3))[0], np.meshgrid(np.arange(2), np.arange(3))[0]),
        (xp.meshgrid(xp.arange(2), xp.arange(3), indexing="ij")[1],
         np.meshgrid(np.arange(2), np.arange(3), indexing="ij")[1]),
        (xp.full_like(x, 3), np.full_like(values, 3)), (xp.eye(2, 3, k=1), np.eye(2, 3, 1)),
        (xp.linspace(0, 1, 5), np.linspace(0, 1, 5)),
        (xp.var(x, axis=0, correction=1), values.var(0, ddof=1)),
        (xp.matrix_transpose(x), values.T),
        (xp.tensordot(x, x, axes=((1,), (1,))), values @ values.T),
    ]  # fmt: skip
    for got, want in pairs:
        assert got.shape == want.shape
        assert got.numpy().dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-14)


def test_dtypes_are_asked() -> None:
    assert xp.isdtype(xp.int8, "integral")
    assert xp.isdtype(xp.uint8, ("real floating", "unsigned integer"))
    assert not xp.isdtype(xp.float32, "integral")
    assert xp.isdtype(xp.float32, xp.float32)
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(xp.ones((1,)), xp.float32)
    assert xp.finfo(xp.float32).eps == np.finfo(np.float32).eps
    assert xp.iinfo(xp.int16).max == 32767
    assert xp.astype(xp.ones((1,)), xp.int8).dtype == xp.int8
    assert xp.full((2,), True).dtype == xp.bool
    assert xp.full((2,), 1).dtype == xp.int64
    info = xp.__array_namespace_info__()
    assert info.dtypes(kind="signed integer").keys() == {"int8", "int16", "int32", "int64"}
    assert info.default_dtypes()["real floating"] == xp.float64


def test_broadcasting() -> None:
    x, y = xp.ones((3, 1, 2)), xp.ones((4, 1))
    assert (x + y).shape == (3, 4, 2)
    assert [a.shape for a in xp.broadcast_arrays(x, y)] == [(3, 4, 2)] * 2
    assert (xp.ones(()) + xp.ones((0, 3))).shape == (0, 3)
    with pytest.raises(InvalidArgumentError):
        xp.ones((3,)) + xp.ones((4,))
    with pytest.raises(InvalidTypeError, match="an axis is needed"):
        xp.cumulative_sum(xp.ones((2, 2)))
    with pytest.raises(AttributeError, match="nonzero"):
        xp.nonzero  # noqa: B018


def test_every_name_is_there() -> None:
    for name in xp.__all__:
        assert getattr(xp, name) is not None or name == "newaxis"
    assert ge2rt.array_api is xp
