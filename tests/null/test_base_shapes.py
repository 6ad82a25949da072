"""Shape algebra against NumPy itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ge2rt.base import shapes
from ge2rt.base.errors import InvalidArgumentError

small_shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@st.composite
def views(draw):
    """A NumPy view with transposed, sliced, reversed, broadcast axes, and its element strides."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = draw(st.lists(st.sampled_from([1, -1, 2]), min_size=array.ndim, max_size=array.ndim))
    array = array[tuple(slice(None, None, step) for step in steps)]
    if draw(st.booleans()):
        array = np.broadcast_to(array, (draw(st.integers(1, 3)), *array.shape))
    return array, tuple(s // array.itemsize for s in array.strides)


@given(small_shapes)
def test_contiguous_strides_are_numpys(shape):
    array = np.empty(shape, np.float32)
    assert shapes.size_of(shape) == array.size
    if array.size:
        numpys = shapes.canonical_strides(shape, [s // 4 for s in array.strides])
        ours = shapes.canonical_strides(shape, shapes.contiguous_strides(shape))
        assert ours == numpys


@given(views())
def test_contiguity_is_numpys(view):
    array, strides = view
    assert shapes.is_contiguous(array.shape, strides) == array.flags.c_contiguous


@given(views())
def test_element_span_covers_exactly_what_is_touched(view):
    array, strides = view
    offsets = [
        sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(array.shape)
    ]
    assert shapes.element_span(array.shape, strides) == (min(offsets), max(offsets))
    assert shapes.byte_span(array.shape, strides, 8) == (8 * min(offsets), 8 * max(offsets) + 8)


@given(views())
def test_self_overlap_is_found(view):
    array, strides = view
    offsets = [
        sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(array.shape)
    ]
    assert shapes.may_self_overlap(array.shape, strides) == (len(set(offsets)) < len(offsets))


@given(st.lists(small_shapes, min_size=1, max_size=3))
def test_broadcast_is_numpys(given_shapes):
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(InvalidArgumentError, match="do not broadcast"):
            shapes.broadcast_shapes(*given_shapes)
    else:
        assert shapes.broadcast_shapes(*given_shapes) == expected


@given(views(), st.integers(1, 3))
def test_broadcast_strides_are_numpys(view, lead):
    array, strides = view
    target = (lead, *array.shape)
    seen = shapes.broadcast_strides(array.shape, strides, target)
    expected = [s // array.itemsize for s in np.broadcast_to(array, target).strides]
    assert shapes.canonical_strides(target, seen) == shapes.canonical_strides(target, expected)


@given(views())
def test_collapse_visits_the_same_elements_in_the_same_order(view):
    array, strides = view
    dense = shapes.contiguous_strides(array.shape)
    shape, (a, b) = shapes.collapse(array.shape, (strides, dense))
    assert 1 not in shape

    def walk(extents, steps):
        return [
            sum(i * s for i, s in zip(index, steps, strict=True)) for index in np.ndindex(extents)
        ]

    assert walk(shape, a) == walk(array.shape, strides)
    assert walk(shape, b) == walk(array.shape, dense)


def test_collapse_merges_what_is_dense():
    assert shapes.collapse((2, 3, 4), ((12, 4, 1), (12, 4, 1))) == ((24,), ((1,), (1,)))
    assert shapes.collapse((2, 3, 4), ((12, 4, 1), (0, 0, 0))) == ((24,), ((1,), (0,)))
    assert shapes.collapse((2, 3), ((1, 2), (3, 1))) == ((2, 3), ((1, 2), (3, 1)))
    assert shapes.collapse((1, 1), ((5, 7),)) == ((), ((),))


def test_index_width_comes_from_the_byte_span_not_from_the_element_count():
    # 745*745*256*256 elements over 8 MB by overlapping strides: the elements fit no 32-bit number
    assert shapes.index_bits((745, 745, 256, 256), (1024, 1, 1024, 1), 4) == 64
    # few elements, far apart
    assert shapes.index_bits((2, 2), (2**30, 1), 4) == 64
    assert shapes.index_bits((2, 2), (-(2**30), 1), 4) == 64
    assert shapes.index_bits((1024, 1024), (1024, 1), 4) == 32


@pytest.mark.parametrize(
    ("axes", "rank", "expected"),
    [(None, 3, (0, 1, 2)), (-1, 3, (2,)), ((0, -1), 3, (0, 2)), ((), 3, ())],
)
def test_axes_are_normalised(axes, rank, expected):
    assert shapes.normalize_axes(axes, rank) == expected


@pytest.mark.parametrize(("axes", "text"), [(3, "out of range"), ((0, -3), "twice")])
def test_bad_axes_are_refused(axes, text):
    with pytest.raises(InvalidArgumentError, match=text):
        shapes.normalize_axes(axes, 3)


def test_reduced_shape():
    assert shapes.reduced_shape((2, 3, 4), (1,), False) == (2, 4)
    assert shapes.reduced_shape((2, 3, 4), (1,), True) == (2, 1, 4)
