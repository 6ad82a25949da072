"""launch_kernel and plans on the null device: codes, refusals, what is packed. Nothing is run."""

from __future__ import annotations

import logging
import operator
import struct

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError, last_error
from ge2rt.device.null import NullDevice
from ge2rt.run import launch as launching


@pytest.fixture
def device(monkeypatch):
    """A fresh recording device under the name ``null``."""
    ge2rt.clear_caches()
    made = NullDevice()
    ge2rt.register_device("null", lambda index: made)
    yield made
    ge2rt.clear_caches()


def descs(*shapes, dtype="f32", attrs=None, **extra):
    buffers = [{"shape": list(s), "dtype": dtype, "device": "null", **extra} for s in shapes]
    return {"buffers": buffers, **({"attrs": attrs} if attrs else {})}


A, B, C, D = 1 << 20, 2 << 20, 3 << 20, 4 << 20


def test_a_launch_packs_inputs_then_outputs(device):
    assert ge2rt.launch_kernel("copy", [A, B], descs([1000], [1000]), 0) == 0
    (call,) = device.launches
    assert call.args[:16] == struct.pack("QQ", A, B)
    assert ge2rt.launch_kernel("copy", [B, C], descs([1000], [1000]), 0) == 0
    assert device.launches[1].args[:16] == struct.pack("QQ", B, C)


def test_offset_is_added_to_the_pointer(device):
    call = descs([8], [8])
    call["buffers"][0]["offset"] = 3
    assert ge2rt.launch_kernel("copy", [A, B], call) == 0
    assert device.launches[0].args[:16] == struct.pack("QQ", A + 12, B)


@pytest.mark.parametrize(
    ("buffers", "call", "text"),
    [
        ([A], descs([4], [4]), "wrong number of buffers"),
        ([A, B, C], descs([4], [4]), "wrong number of buffers"),
        ([A, 0], descs([4], [4]), "null pointer"),
        ([A, None], descs([4], [4]), "null pointer"),
        ([A + 2, B], descs([4], [4]), "misaligned pointer"),
        ([A, "B"], descs([4], [4]), "not a pointer"),
        ([A, 1.5], descs([4], [4]), "not a pointer"),
        ([A, True], descs([4], [4]), "not a pointer"),
        ([A, -8], descs([4], [4]), "pointer out of range"),
        ([A, 2**64], descs([4], [4]), "pointer out of range"),
        (A, descs([4], [4]), "buffers cannot be read"),
        ("AB", descs([4], [4]), "buffers cannot be read"),
        ([A, B], None, "descs are missing"),
        ([A, B], descs([4], [5]), "4"),
        ([A, B], descs([4], [2, 2]), "rank|shape|extent|axes"),
        ([A, B], descs([4], [4], dtype="c64"), "dtype"),
        ([A, B], {"buffers": [{"shape": [4]}] * 2}, "dtype is missing"),
        ([A, B], descs([4], [4], attrs={"speed": 1}), "speed"),
        ([A, A], descs([4], [4]), "overlaps input"),
        ([A, A + 8], descs([4], [4]), "overlaps input"),
        ([A, B], descs([4], [4], strides=[0]), "stride"),
    ],
)
def test_bad_calls_are_refused_before_a_launch(device, buffers, call, text):
    assert ge2rt.launch_kernel("copy", buffers, call, 0) == -1
    import re

    assert re.search(text, str(last_error())), last_error()
    assert last_error().kernel == "copy"
    assert device.launches == []


def test_bad_calls_are_refused_after_a_good_one_too(device):
    good = descs([4], [4])
    assert ge2rt.launch_kernel("copy", [A, B], good) == 0
    for buffers in ([A, A], [A, A + 8], [A + 1, B], [A, 0], [A], [A, B, C], [A, 2.0], "AB"):
        assert ge2rt.launch_kernel("copy", buffers, good) == -1, buffers
    assert len(device.launches) == 1


def test_equal_numbers_of_other_types_are_not_the_same_descs(device):
    assert ge2rt.launch_kernel("copy", [A, B], descs([1], [1])) == 0
    for shape in ([1.0], [True], ["1"]):
        assert ge2rt.launch_kernel("copy", [A, B], descs(shape, shape)) == -1, shape
    assert ge2rt.launch_kernel("copy", [A, B], descs([np.int64(1)], [np.int64(1)])) == 0


def test_a_changed_dict_is_seen(device):
    call = descs([8], [8])
    assert ge2rt.launch_kernel("copy", [A, B], call) == 0
    call["buffers"][1]["shape"][0] = 9
    assert ge2rt.launch_kernel("copy", [A, B], call) == -1


def test_interleaved_views_do_not_overlap(device):
    call = descs([8], [8], strides=[2])
    assert ge2rt.launch_kernel("copy", [A, A + 4], call) == 0
    assert ge2rt.launch_kernel("copy", [A, A + 8], call) == -1


def test_in_place_is_allowed_where_the_kernel_says_so(device):
    call = descs([8], [8], attrs={"op": "relu"})
    assert ge2rt.launch_kernel("elementwise_unary", [A, A], call) == 0
    assert ge2rt.launch_kernel("elementwise_unary", [A, A + 4], call) == -1


@pytest.mark.parametrize("shape", [[0], [3, 0], [0, 3]])
def test_zero_size_is_ok_without_a_launch(device, shape):
    assert ge2rt.launch_kernel("copy", [0, 0], descs(shape, shape)) == 0
    assert device.launches == []


def test_unknown_kernel_names_the_nearest(device):
    assert ge2rt.launch_kernel("coppy", [A, B], descs([4], [4])) == -1
    assert "Did you mean 'copy'" in last_error().next_step


def test_failures_are_logged_and_can_be_raised(device, caplog, monkeypatch):
    with caplog.at_level(logging.ERROR, "ge2rt"):
        assert ge2rt.launch_kernel("copy", [A, 0], descs([4], [4])) == -1
    assert "null pointer" in caplog.text
    monkeypatch.setenv("GE2RT_RAISE", "1")
    with pytest.raises(InvalidArgumentError, match="null pointer"):
        ge2rt.launch_kernel("copy", [A, 0], descs([4], [4]))
    plan = ge2rt.prepare("copy", descs([4], [4]))
    with pytest.raises(InvalidArgumentError, match="null pointer"):
        plan([A, 0])


def test_what_a_callers_object_raises_is_minus_1(device):
    class Hostile(dict):
        def get(self, *_):
            raise RuntimeError("boom")

    assert ge2rt.launch_kernel("copy", [A, B], Hostile(descs([4], [4]))) == -1
    assert "an object of the call raised RuntimeError: boom" in str(last_error())


def test_what_no_room_foresaw_is_minus_7(device, monkeypatch):
    monkeypatch.setattr(launching, "parse_descs", operator.itemgetter("nothing"))
    assert ge2rt.launch_kernel("copy", [A, B], descs([4], [4])) == -7
    assert last_error().message == "unexpected KeyError: 'nothing'"


def test_missing_device_is_minus_2():
    call = {"buffers": [{"shape": [4], "dtype": "f32", "device": "cuda:77"}] * 2}
    assert ge2rt.launch_kernel("copy", [A, B], call) == -2
    assert "cuda:77" in last_error().message
    mixed = {"buffers": [{"shape": [4], "dtype": "f32", "device": d} for d in ("cpu", "cuda")]}
    assert ge2rt.launch_kernel("copy", [A, B], mixed) == -1
    assert "different devices" in last_error().message


def test_a_stream_that_is_none_is_refused(device):
    assert ge2rt.launch_kernel("copy", [A, B], descs([4], [4]), 12345) == -1
    stream = device.create_stream()
    assert ge2rt.launch_kernel("copy", [A, B], descs([4], [4]), stream) == 0
    assert device.launches[-1].stream == stream


def test_plans_check_like_launch_kernel(device):
    plan = ge2rt.prepare("copy", descs([4], [4]))
    assert plan([A, B]) == 0
    assert plan([A, B], 0) == 0
    assert plan([A, A]) == -1
    assert plan([A]) == -1
    assert plan([A, B], 999) == -1
    assert plan((A, B)) == 0
    assert len(device.launches) == 3


def test_a_plan_by_op_type_keeps_the_choice(device):
    plan = ge2rt.prepare("GEMM_BIAS_ACT", descs([4, 8], [8, 4], [4, 4]))
    assert plan.kernel == "gemm_bias_act_f32"
    assert "turned down" in str(plan.choice)


def test_an_absent_optional_input_may_be_null_or_left_out(device):
    short = descs([4, 8], [8, 4], [4, 4])
    assert ge2rt.launch_kernel("gemm_bias_act_f32", [A, B, D], short) == 0
    full = descs([4, 8], [8, 4], [4, 4])
    full["buffers"].insert(2, None)
    assert ge2rt.launch_kernel("gemm_bias_act_f32", [A, B, 0, D], full) == 0
    assert device.launches[0].args == device.launches[1].args


def test_unaligned_pointers_get_a_kernel_of_their_own(device):
    plan = ge2rt.prepare("copy", descs([4096], [4096]))
    assert plan([A, B]) == plan([A + 4, B]) == plan([A, B]) == 0
    keys = [call.key for call in device.launches]
    assert keys[0] == keys[2] != keys[1]


def test_a_device_from_outside_runs_calls_that_name_it():
    made = NullDevice()
    ge2rt.register_device("fpga", lambda index: made)
    call = {"buffers": [{"shape": [8], "dtype": "f32", "device": "fpga"}] * 2}
    assert ge2rt.launch_kernel("copy", [A, B], call) == 0
    assert len(made.launches) == 1
    plan = ge2rt.prepare("copy", call)
    assert plan.device is made
    unknown = {"buffers": [{"shape": [8], "dtype": "f32", "device": "tpu"}] * 2}
    assert ge2rt.launch_kernel("copy", [A, B], unknown) == -1
    assert "no such device" in last_error().message
