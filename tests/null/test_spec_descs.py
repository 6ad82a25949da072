"""Descriptors of calls: every field, its refusals, and anything at all that may come in."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ge2rt.base.errors import Ge2rtError, InvalidArgumentError, InvalidTypeError
from ge2rt.spec.descs import BufferDesc, desc_of, parse_descs

GOOD = {"shape": [2, 3], "dtype": "f32", "layout": "rowmajor", "device": "cuda"}


def one(**changes: Any) -> BufferDesc:
    (desc,) = parse_descs({"buffers": [{**GOOD, **changes}]}).buffers
    assert desc is not None
    return desc


def test_a_plain_call() -> None:
    call = parse_descs({"buffers": [GOOD, None], "attrs": {"act": "relu"}, "kernel": "k", "x": 1})
    assert call.buffers == (desc_of((2, 3), "f32", device="cuda"), None)
    assert call.attrs == {"act": "relu"}
    assert call.kernel == "k"


@pytest.mark.parametrize("descs", [None, {}, {"buffers": []}, {"buffers": None, "attrs": None}])
def test_nothing_at_all(descs: Any) -> None:
    call = parse_descs(descs)
    assert (call.buffers, call.attrs, call.kernel) == ((), {}, None)


def test_strides_are_canonical() -> None:
    assert one().strides == (3, 1)
    assert one(shape=(1, 3)).strides == (0, 1)
    assert one(shape=(1, 3), strides=[77, 1]) == one(shape=(1, 3))
    assert one(strides=(-3, 1)).strides == (-3, 1)
    assert one(shape=[]).strides == ()
    assert one(shape=(2, 0, 4)).strides == (4, 4, 1)


def test_layouts_give_strides() -> None:
    assert one(shape=(2, 3, 4, 5), layout="NCHW").strides == (60, 20, 5, 1)
    assert one(shape=(2, 3, 4, 5), layout="NHWC").strides == (60, 1, 15, 3)
    assert one(shape=(2, 3, 4, 5), layout="NHWC", strides=(60, 20, 5, 1)).strides == (60, 20, 5, 1)


def test_other_spellings() -> None:
    assert one(shape=np.array([2, 3])) == one()
    assert one(shape=(np.int64(2), np.uint8(3)), dtype=np.float32) == one()
    assert one(dtype="float32") == one(dtype="<f4") == one(dtype=np.dtype("f4")) == one()
    assert one(dtype="bfloat16").dtype.name == "bf16"
    assert one(device="cuda:1").device == "cuda:1"
    assert one(device=None).device == ""
    assert one(offset=np.int32(4)).offset == 4
    assert type(one(shape=[np.int64(2)]).shape[0]) is int


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"shape": [2, -1]}, "argument 'buffers[0].shape': the value cannot be used; expected "
         "extents "
         "of at least 0, got [2, -1]"),
        ({"shape": [True, 2]}, "expected a whole number, not a bool, got True"),
        ({"shape": [np.True_]}, "expected a whole number, not a bool"),
        ({"shape": [2.0]}, "buffers[0].shape': the value cannot be used; expected a whole number, "
         "got 2.0"),
        ({"shape": "23"}, "expected a list of whole numbers, got '23'"),
        ({"shape": 3}, "expected a list of whole numbers, got 3"),
        ({"shape": {1: 2}}, "expected a list of whole numbers"),
        ({"shape": [2**63]}, "expected a number that fits 64 bits"),
        ({"shape": [2**400]}, "got a number of 401 bits"),
        ({"shape": [2**32, 2**32]}, "expected fewer than 2**63 elements"),
        ({"shape": [1] * 40}, "expected at most 32 axes, got 40"),
        ({"strides": [1]}, "argument 'buffers[0].strides': the value cannot be used; expected 2 "
         "strides, one an axis, got [1]"),
        ({"strides": [1, None]}, "buffers[0].strides"),
        ({"strides": [2**62, 2**62], "shape": [3, 3]}, "a span of fewer than 2**63 elements"),
        ({"offset": 1.5}, "argument 'buffers[0].offset'"),
        ({"layout": "rowmajr"}, "argument 'buffers[0].layout': the value cannot be used; expected "
         "rowmajor | strided | NCHW | NHWC, got 'rowmajr'. Did you mean 'rowmajor'?"),
        ({"layout": "NHWC"}, "expected a shape of 4 axes for NHWC, got 2"),
        ({"layout": 3}, "buffers[0].layout"),
        ({"device": "the GPU"}, "argument 'buffers[0].device': the value cannot be used; expected "
         "a device such as cpu, cuda or cuda:N, got 'the GPU'"),
        ({"device": "cuda:x"}, "buffers[0].device"),
        ({"dtype": "f31"}, "argument 'buffers[0].dtype': dtype cannot be used"),
        ({"dtype": None}, "buffers[0].dtype"),
        ({"dtype": "complex64"}, "buffers[0].dtype"),
        ({"dtype": np.complex64}, "buffers[0].dtype"),
        ({"dtype": ">f4"}, "buffers[0].dtype"),
        ({"dtype": object()}, "buffers[0].dtype"),
    ],
)  # fmt: skip
def test_refused_fields(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        one(**changes)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("descs", "text"),
    [
        (3, "argument 'descs': the value cannot be used; expected a dict, got 3"),
        ({"buffers": 3}, "argument 'buffers': the value cannot be used; expected a list of dicts"),
        ({"buffers": "ab"}, "argument 'buffers'"),
        (
            {"buffers": [3]},
            "argument 'buffers[0]': the value cannot be used; expected a dict, got 3",
        ),
        ({"buffers": [{}]}, "argument 'buffers[0].shape': shape is missing"),
        ({"buffers": [{"shape": []}]}, "argument 'buffers[0].dtype': dtype is missing"),
        ({"buffers": [{"shap": [], "dtype": "f32"}]}, "the key 'shap' is not known"),
        ({"attrs": 3}, "argument 'attrs': the value cannot be used; expected a dict of names"),
        ({"attrs": {1: 2}}, "argument 'attrs'"),
        ({"kernel": 1}, "argument 'descs.kernel'"),
    ],
)
def test_refused_calls(descs: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_descs(descs)
    assert text in str(caught.value)


def test_details_of_errors() -> None:
    for field, value, detail in [
        ("shape", [-1], "shape"), ("strides", [1], "stride"), ("dtype", "x", "dtype"),
        ("layout", "x", "layout"), ("device", "X", "device"),
    ]:  # fmt: skip
        with pytest.raises(InvalidArgumentError) as caught:
            one(**{field: value})
        assert caught.value.record.detail == detail
    with pytest.raises(InvalidTypeError):
        one(dtype="c64")


def test_cyclic_objects() -> None:
    ring: list[Any] = []
    ring.append(ring)
    for field in GOOD:
        with pytest.raises(InvalidArgumentError, match=f"buffers.0..{field}"):
            one(**{field: ring})


_junk = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
        st.binary(max_size=4), st.just(np.float32(1)), st.just(np.dtype("f4")), st.just(object),
        st.sampled_from(["f32", "cuda", "NHWC", "rowmajor", "float32", ">i8", "torch.float32"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from([*GOOD, "strides", "offset", "buffers", "attrs", "kernel", "x"]),
            inner, max_size=6,
        ),
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(_junk)
def test_only_our_errors(junk: Any) -> None:
    for descs in (junk, {"buffers": junk}, {"buffers": [junk]}):
        with contextlib.suppress(Ge2rtError):
            parse_descs(descs)
    for field in (*GOOD, "strides", "offset"):
        with contextlib.suppress(Ge2rtError):
            one(**{field: junk})
