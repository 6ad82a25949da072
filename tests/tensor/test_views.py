"""Views against NumPy: values, memory shared both ways, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ge2rt
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError


def pair(*shape: int) -> tuple[Any, Any]:
    """A tensor and an array with the same values."""
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return ge2rt.tensor(values), values.copy()


def same(x: Any, array: Any) -> None:
    assert x.shape == array.shape
    np.testing.assert_array_equal(x.detach().numpy(), array)


VIEWS = {
    "row": lambda x: x[1],
    "column": lambda x: x[:, 2],
    "steps": lambda x: x[::2, ::-3],
    "new axis": lambda x: x[None, ..., 0, None],
    "last": lambda x: x[-1, -2, ...],
    "none of it": lambda x: x[2:2],
    "all": lambda x: x[...],
    "turned": lambda x: x.T,
    "reshape": lambda x: x.reshape(2, -1),
    "turned and cut": lambda x: x.T[1:3][:, ::-1],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory_both_ways(name: str) -> None:
    x, array = pair(4, 6)
    view, want = VIEWS[name](x), VIEWS[name](array)
    same(view, want)
    assert view.storage() is x.storage()
    assert (
        view.strides
        == tuple(0 if e == 1 else s // 4 for s, e in zip(want.strides, want.shape, strict=True))
        or not want.size
    )
    want[...] = -1
    view.fill_(-1)
    same(x, array)
    x[0] = 7
    array[0] = 7
    same(view, want)


def slices(extent: int) -> st.SearchStrategy[Any]:
    at = st.integers(-extent - 2, extent + 2) | st.none()
    step = st.integers(-3, 3).filter(bool) | st.none()
    return st.builds(slice, at, at, step) | st.integers(-extent, extent - 1) | st.none()


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_basic_index(data: Any) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple))
    x, array = pair(*shape)
    parts = []
    for extent in shape[: data.draw(st.integers(0, len(shape)))]:
        parts.append(data.draw(slices(extent).filter(lambda p: p is not None)))
        if data.draw(st.booleans()):
            parts.append(None)
    if data.draw(st.booleans()):
        parts.append(Ellipsis)
    index = tuple(parts)
    view, want = x[index], array[index]
    same(view, want)
    again = data.draw(st.permutations(range(view.ndim)))
    same(view.permute(*again) if again else view, want.transpose(again))
    flat = view.reshape(-1)
    same(flat, want.reshape(-1))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_reshape_is_a_view_where_numpy_makes_one(data: Any) -> None:
    x, array = pair(4, 6, 2)
    order = data.draw(st.permutations(range(3)))
    step = data.draw(st.sampled_from([1, -1, 2]))
    x, array = x.permute(*order)[::step], array.transpose(order)[::step]
    shapes = [s for s in ((-1,), (2, -1), (4, -1), (-1, 2, 3), (array.shape[0], -1), (1, -1, 1))
              if array.size % abs(int(np.prod(s))) == 0]  # fmt: skip
    shape = data.draw(st.sampled_from(shapes))
    want = array.reshape(shape)
    got = x.reshape(shape)
    same(got, want)
    assert (got.storage() is x.storage()) == np.shares_memory(want, array)


def test_named_views() -> None:
    x, array = pair(3, 4, 5)
    same(x.transpose(0, 2), array.swapaxes(0, 2))
    same(x.mT, array.swapaxes(1, 2))
    same(x.flip((0, -1)), array[::-1, :, ::-1])
    same(x.flip(), array[::-1, ::-1, ::-1])
    same(x.diagonal(1, 1, 2), np.diagonal(array, 1, 1, 2))
    same(x.diagonal(-1), np.diagonal(array, -1))
    same(x.diagonal(9), np.diagonal(array, 9))
    same(x.unfold(1, 2, 1), np.lib.stride_tricks.sliding_window_view(array, 2, 1))
    same(x.unfold(2, 2, 3), np.lib.stride_tricks.sliding_window_view(array, 2, 2)[:, :, ::3])
    same(x.unsqueeze(-1), array[..., None])
    same(x[:1].squeeze(), array[0])
    same(x[:1].squeeze(0), array[0])
    same(x[0, :, :1].expand(2, -1, 7), np.broadcast_to(array[0, :, :1], (2, 4, 7)))
    same(x.flatten(1), array.reshape(3, 20))
    same(x.narrow(1, 1, 2), array[:, 1:3])
    same(x.as_strided((2, 3), (1, 5), 2), np.lib.stride_tricks.as_strided(
        array.reshape(-1)[2:], (2, 3), (4, 20)))  # fmt: skip
    for view in (
        x.mT,
        x.flip(),
        x.diagonal(),
        x.unfold(1, 2, 1),
        x.unsqueeze(0),
        x.narrow(0, 1, 1),
    ):
        assert view.storage() is x.storage()


REFUSED = [
    (lambda x: x[4], InvalidArgumentError, "outside axis 0 of 4"),
    (lambda x: x[0, 0, 0], InvalidArgumentError, "3 indices for 2 axes"),
    (lambda x: x[..., ...], InvalidArgumentError, "more than one"),
    (lambda x: x.reshape(5, 5), InvalidArgumentError, "24 elements"),
    (lambda x: x.reshape(-1, -1), InvalidArgumentError, "24 elements"),
    (lambda x: x.T.view(24), InvalidArgumentError, "use reshape"),
    (lambda x: x.as_strided((5,), (6,)), InvalidArgumentError, "of a storage of 24"),
    (lambda x: x.as_strided((2,), (1,), -1), InvalidArgumentError, "of a storage of 24"),
    (lambda x: x.permute(0, 0), InvalidArgumentError, "named once"),
    (lambda x: x.expand(4, 7), InvalidArgumentError, "does not broadcast"),
    (lambda x: x.expand(6), InvalidArgumentError, "does not broadcast"),
    (lambda x: x.squeeze(0), InvalidArgumentError, "not of extent 1"),
    (lambda x: x.diagonal(0, 1, -1), InvalidArgumentError, "the same"),
    (lambda x: x.unfold(0, 5, 1), InvalidArgumentError, "windows of 5"),
    (lambda x: x.transpose(0, 2), InvalidArgumentError, "axis 2"),
    (lambda x: x.reshape("a"), InvalidTypeError, "not integers"),
    (lambda x: x.narrow(0, 3, 2), InvalidArgumentError, "elements 3 to 5"),
    (lambda x: x[(x > 3)[:2]], InvalidArgumentError, "boolean index did not match"),
    (lambda x: x[[1.5]], InvalidTypeError, "must be an integer"),
    (lambda x: x["a"], InvalidTypeError, "must be an integer"),
    (lambda x: x[np.array(1.5)], InvalidTypeError, "must be an integer"),
    (lambda x: x.__setitem__(x > 20, [1.0, 2.0]), InvalidArgumentError, "assign 2 input values"),
    (lambda x: x.__setitem__(x > 20, [[1.0], [2.0]]), InvalidArgumentError, "1-dimensional"),
    (lambda x: x.__setitem__([0, 9], 1.0), InvalidArgumentError, "out of bounds"),
    (lambda x: x.astype("i32").__setitem__(x > 2, 1.5), InvalidTypeError, "cannot be written"),
]


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED)
def test_what_is_refused(call: Any, kind: type[Exception], text: str) -> None:
    x, _ = pair(4, 6)
    with pytest.raises(kind, match=text):
        call(x)
    with pytest.raises(IndexError):
        x[9]


def test_a_small_view_keeps_its_base_and_a_clone_does_not() -> None:
    x, array = pair(100, 100)
    view = x[0, :3]
    assert view.storage().nbytes == 40000
    copy = view.clone()
    assert copy.storage().nbytes == 12
    assert copy.data_ptr() != view.data_ptr()
    copy[0] = 99
    assert view[0].item() == 0
    del x
    same(view, array[0, :3])


def test_a_tensor_over_an_array_shows_its_writes() -> None:
    array = np.zeros((3, 4), np.float32)
    for shown in (array, array[:, ::-1], array.T, np.asfortranarray(array)[1:]):
        x = ge2rt.from_numpy(shown)
        assert x.data_ptr() == shown.__array_interface__["data"][0]
        x[0] = 5
        assert (shown[0] == 5).all()
        shown[...] = 3
        assert (x == 3).all()
        shown[...] = 0


def test_reading_at_arrays_of_indices() -> None:
    x, array = pair(4, 6)
    i, j = [0, 2, 2], np.array([[1], [-1]])
    same(x[i], array[i])
    same(x[i, 1:3], array[i, 1:3])
    same(x[i, j], array[i, j])
    same(x[:, ge2rt.tensor(i)], array[:, i])
    with pytest.raises(ValueError, match="outside"):
        x[[9]]


def test_writing_where_a_mask_holds() -> None:
    x, array = pair(4, 6)
    x[x > 10] = -1.0
    array[array > 10] = -1.0
    same(x, array)
    x[[0, 1]] = 3
    array[[0, 1]] = 3
    same(x, array)


ROWS = np.array([True, False, False, True])
MASKED = {
    "whole": lambda a: a > 10, "rows": lambda a: ROWS, "list": lambda a: ROWS.tolist(),
    "none of it": lambda a: a > 99, "rows and a slice": lambda a: (ROWS, slice(1, None, 2)),
    "columns": lambda a: (slice(None), a[0] > 2), "rows and indices": lambda a: (ROWS, [2, -1]),
    "two": lambda a: (ROWS, np.arange(6) % 3 == 0), "new axis": lambda a: (None, a > 10),
    "true": lambda a: True, "false": lambda a: np.bool_(False), "range": lambda a: range(2),
    "empty": lambda a: [], "rows, last": lambda a: (ROWS, -1), "dots": lambda a: (..., a[0] > 2),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKED)
def test_masks_and_lists_mean_what_numpy_means(name: str) -> None:
    x, array = pair(4, 6)
    index = MASKED[name](array)
    tensors = MASKED[name](x)
    same(x[tensors], array[index])
    same(x.T.T[index], array[index])
    count = array[index].size
    packed = np.arange(count, dtype=np.float32).reshape(array[index].shape) - 100
    deep = [] if array[index].ndim == 1 else [[[[5.0]]], packed[None, None]]
    for value in (7.0, [5.0], packed, *deep):  # one mask alone takes one axis of values
        x, array = pair(4, 6)
        x[tensors], array[index] = value, value
        same(x, array)
        x[index] = ge2rt.tensor(value) if isinstance(value, np.ndarray) else value
        same(x, array)


def test_values_of_lists_and_dtypes_are_written_exactly() -> None:
    x = ge2rt.zeros(3, dtype="f64")
    x[[True, False, True]] = [0.1, 0.2]
    assert x.tolist() == [0.1, 0.0, 0.2]
    x[:] = [0.1, 0.2, 0.3]
    assert x.tolist() == [0.1, 0.2, 0.3]
    assert x.copy_([0.3, 0.2, 0.1]).tolist() == [0.3, 0.2, 0.1]
    big = ge2rt.tensor(np.array([2**63 + 1, 5], np.uint64))
    big[big == 5] = ge2rt.tensor(np.array([2**62 + 1]))
    assert big.tolist() == [2**63 + 1, 2**62 + 1]
    x = ge2rt.tensor([0.0, 1.0, 2.0, 3.0])
    x[[1, 0]] = x[0:2]
    x[[False, True, True, True]] = x[:3]
    assert x.tolist() == [1.0, 1.0, 0.0, 2.0]
    x[0:2] = np.ones((1, 1, 2), np.float32) * 4
    assert x.tolist() == [4.0, 4.0, 0.0, 2.0]


def test_overlapping_copies_read_before_they_write() -> None:
    x, array = pair(10)
    x[1:] = x[:-1]
    array[1:] = array[:-1].copy()
    same(x, array)
    x[:-1] += x[1:]
    array[:-1] += array[1:].copy()
    same(x, array)
    x.copy_(x.flip())
    same(x, array[::-1])
    with pytest.raises(InvalidArgumentError, match="one in memory"):
        x[:1].expand(3).fill_(1)


def test_to_takes_every_name_of_a_dtype() -> None:
    x = ge2rt.ones(2)
    for name in ("f16", "float16", np.float16, np.dtype("f2")):
        assert str(x.to(name).dtype) == str(x.to("cpu", name).dtype) == "f16"
    with pytest.raises(InvalidArgumentError, match=r"a dtype stands in the place of the device"):
        x.to("f16", "cpu")
    with pytest.raises(InvalidArgumentError, match=r"no such device.*got 'gpu'"):
        x.to("gpu")
