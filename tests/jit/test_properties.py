"""Hypothesis: shapes, strides, indices, axes and einsum subscripts against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from jit.compare import DTYPES, LAYOUTS, check, strided

_SETTINGS = settings(
    max_examples=30, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
NAMES = st.sampled_from([name for name in DTYPES if name != "bf16"])


@st.composite
def arrays(draw: st.DrawFn, shape: Any = SHAPES, names: Any = NAMES) -> np.ndarray[Any, Any]:
    extents = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
    dtype = DTYPES[draw(names)]
    values = np.arange(int(np.prod(extents, dtype=int))) % 23
    return strided((values - 7).astype(dtype).reshape(extents), draw(st.sampled_from(LAYOUTS)))


@_SETTINGS
@given(st.data())
def test_basic_and_advanced_indices(data: st.DataObject) -> None:
    x = data.draw(arrays())
    basic = hnp.basic_indices(x.shape, allow_newaxis=True, max_dims=6)
    index: Any = data.draw(basic)
    check(lambda a: a[index], [x])
    if x.ndim and x.size:
        advanced = hnp.integer_array_indices(x.shape, result_shape=hnp.array_shapes(max_dims=2))
        picked: Any = data.draw(advanced)
        check(lambda a: a[picked], [x])
        mixed = (*picked[:1], *index) if isinstance(index, tuple) else (*picked[:1], index)
        check(lambda a: a[mixed], [x])


@_SETTINGS
@given(st.data())
def test_assignment_to_basic_indices(data: st.DataObject) -> None:
    x = data.draw(arrays(hnp.array_shapes(max_dims=3, max_side=4)))
    index: Any = data.draw(hnp.basic_indices(x.shape, allow_newaxis=False))

    def put(a: Any) -> Any:
        a = a.copy()
        a[index] = a[index] * a.dtype.type(1) + a.dtype.type(1)
        a[index] = 3
        return a

    check(put, [x])


@_SETTINGS
@given(st.data())
def test_broadcasting(data: st.DataObject) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4))
    a, b = (data.draw(arrays(shape)) for shape in shapes.input_shapes)
    check(lambda x, y: (x + y, np.maximum(x, y), x == y, np.where(x > y, x, y)), [a, b])


@_SETTINGS
@given(st.data())
def test_any_pair_of_shapes_agrees_or_is_refused(data: st.DataObject) -> None:
    a, b = data.draw(arrays()), data.draw(arrays())
    check(lambda x, y: x * y, [a, b])
    check(lambda x, y: x @ y, [a, b], sums=True)
    check(lambda x, y: np.concatenate([x, y]), [a, b])


@_SETTINGS
@given(st.data())
def test_reductions_over_any_axes(data: st.DataObject) -> None:
    x = data.draw(arrays())
    several = st.lists(st.integers(-x.ndim - 1, x.ndim), max_size=3).map(tuple)
    axis: Any = data.draw(st.one_of(st.none(), st.integers(-x.ndim - 1, x.ndim), several))
    keep = data.draw(st.booleans())
    for name in ("sum", "prod", "max", "min", "any", "all"):
        reduce = getattr(np, name)
        check(lambda a, f=reduce: f(a, axis=axis, keepdims=keep), [x], sums=True)
    if x.size:
        check(lambda a: np.mean(a, axis=axis, keepdims=keep), [x], sums=True)


@_SETTINGS
@given(st.data())
def test_reshape_transpose_and_back(data: st.DataObject) -> None:
    x = data.draw(arrays())
    perm = data.draw(st.permutations(range(x.ndim)))
    shape = data.draw(st.lists(st.integers(-1, 6), max_size=3).map(tuple))
    check(lambda a: a.transpose(perm), [x])
    check(lambda a: a.transpose(perm).reshape(shape), [x])
    check(lambda a: (a.transpose(perm).ravel(), a.T.reshape(a.shape)), [x])


@_SETTINGS
@given(st.data())
def test_einsum(data: st.DataObject) -> None:
    extents = {letter: data.draw(st.integers(1, 3)) for letter in "abcd"}
    terms = [
        "".join(data.draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3)))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    letters = sorted(set("".join(terms)))
    result = "".join(data.draw(st.lists(st.sampled_from(letters), unique=True, max_size=3)))
    names = st.sampled_from(["f64", "i64"])
    operands = [data.draw(arrays(tuple(extents[le] for le in term), names)) for term in terms]
    text = f"{','.join(terms)}->{result}"
    check(lambda *given: np.einsum(text, *given), operands, sums=True)
    check(lambda *given: np.einsum(",".join(terms), *given), operands, sums=True)
