from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ge2rt.fuse.access import Layout, NotAView, ViewOp, dense, inverse, merge_axes, ramp, resolve


def picture(layout: Layout, base: np.ndarray) -> np.ndarray:
    """What the layout shows of the flat array."""
    strides = tuple(s * base.itemsize for s in layout.strides)
    start = base.ravel()[layout.offset :]
    return np.lib.stride_tricks.as_strided(start, layout.shape, strides)


@st.composite
def chains(draw: st.DrawFn) -> tuple[tuple[int, ...], list[ViewOp], np.ndarray]:
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    value = np.arange(int(np.prod(shape))).reshape(shape)
    views: list[ViewOp] = []
    first = shape
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["transpose", "slice", "reshape", "broadcast"]))
        if kind == "transpose":
            perm = tuple(draw(st.permutations(range(value.ndim))))
            views.append(ViewOp(kind, (perm,)))
            value = value.transpose(perm)
        elif kind == "slice":
            start, step, size = [], [], []
            for extent in value.shape:
                count = draw(st.integers(1, extent))
                back = draw(st.booleans())
                at = draw(st.integers(0, extent - count))
                start.append(at + count - 1 if back else at)
                step.append(-1 if back else 1)
                size.append(count)
            views.append(ViewOp(kind, (tuple(start), tuple(step), tuple(size))))
            index = [s + k * np.arange(n) for s, k, n in zip(start, step, size, strict=True)]
            value = value[np.ix_(*index)]
        elif kind == "reshape":
            to = (*draw(st.permutations([e for e in value.shape if e != 1])), 1)
            views.append(ViewOp(kind, (to,)))
            value = value.reshape(to)
        else:
            to = (2, *(3 if e == 1 else e for e in value.shape))
            if value.ndim > 5:
                continue
            views.append(ViewOp(kind, (to,)))
            value = np.broadcast_to(value, to)
    return first, views, value


@given(chains())
def test_a_chain_shows_what_numpy_shows_or_says_that_it_cannot(case):
    shape, views, value = case
    base = np.arange(int(np.prod(shape)))
    try:
        layout = resolve(tuple(views), dense(shape))
    except NotAView as fault:
        failed = fault.view.op
        layout = None
    if layout is None:
        assert failed == "reshape"
        return
    assert layout.shape == value.shape
    np.testing.assert_array_equal(picture(layout, base), value)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_a_dense_tensor_can_always_be_reshaped(shape, data):
    to = tuple(data.draw(st.permutations(shape)))
    assert resolve((ViewOp("reshape", (to,)),), dense(tuple(shape))).key == dense(to).key


def test_a_transposed_matrix_is_not_a_row():
    turned = ViewOp("transpose", ((1, 0),))
    flat = ViewOp("reshape", ((6,),))
    with pytest.raises(NotAView) as caught:
        resolve((turned, flat), dense((2, 3)))
    assert caught.value.view is flat


def test_an_empty_tensor_takes_every_shape():
    assert resolve((ViewOp("reshape", ((0, 7),)),), dense((3, 0))).shape == (0, 7)


def test_a_ramp_counts_along_its_axis():
    views = (ViewOp("slice", ((1, 4), (1, -2), (2, 3))), ViewOp("transpose", ((1, 0),)))
    layout = resolve(views, ramp((3, 5), 1))
    np.testing.assert_array_equal(picture(layout, np.arange(16)), [[4, 4], [2, 2], [0, 0]])


@pytest.mark.parametrize("view", [ViewOp("transpose", ((2, 0, 1),)), ViewOp("reshape", ((4, 6),))])
def test_the_inverse_leads_back(view):
    shape = (2, 3, 4)
    back = inverse(view, shape)
    assert back is not None
    there = resolve((view,), dense(shape))
    assert resolve((back,), there).key == dense(shape).key


def test_slices_have_no_inverse():
    assert inverse(ViewOp("slice", ((0,), (2,), (2,))), (4,)) is None


def test_axes_merge_where_every_rider_steps_evenly():
    assert merge_axes((2, 3, 4), [(12, 4, 1)]) == [[0, 1, 2]]
    assert merge_axes((2, 3, 4), [(12, 4, 1), (0, 4, 1)]) == [[0], [1, 2]]
    assert merge_axes((2, 1, 4), [(4, 99, 1)]) == [[0, 2]]
    assert merge_axes((1, 1), [(7, 7)]) == []
