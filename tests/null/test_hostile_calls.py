"""Calls with foreign, endless, cyclic and changing objects: a code and a sensible text, always."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError, last_error
from ge2rt.base.text import one_line, show
from ge2rt.device.null import NullDevice
from ge2rt.run import launch as launching
from ge2rt.spec.registry import RegistryError

A, B = 1 << 20, 2 << 20


@pytest.fixture
def device():
    """A fresh recording device under the name ``null``."""
    ge2rt.clear_caches()
    made = NullDevice()
    ge2rt.register_device("null", lambda index: made)
    yield made
    ge2rt.clear_caches()


def desc(shape=(8,), **extra):
    return {"shape": list(shape), "dtype": "f32", "device": "null", **extra}


def descs(shape=(8,), **extra):
    return {"buffers": [desc(shape, **extra), desc(shape)]}


class Foreign:
    """Raises from every question."""

    def __repr__(self):
        raise RuntimeError("repr")

    def __eq__(self, other):
        raise RuntimeError("eq")

    def __index__(self):
        raise RuntimeError("index")

    def __iter__(self):
        raise RuntimeError("iter")

    __hash__ = None


def cyclic():
    made = {}
    made["buffers"] = [made, made]
    return made


def deep(levels):
    made = []
    for _ in range(levels):
        made = [made]
    return {**descs(), "note": made}


FOREIGN_DESCS = [
    cyclic(), {**descs(), "note": Foreign()}, descs(offset=Foreign()), descs(dtype=Foreign()),
    descs(layout=Foreign()), Foreign(), {**descs(), "attrs": {1: 2}}, {**descs(), 3: Foreign()},
]  # fmt: skip


@pytest.mark.parametrize("call", FOREIGN_DESCS, ids=range(len(FOREIGN_DESCS)))
def test_foreign_descs_give_a_code_first_and_later(device, call):
    assert ge2rt.launch_kernel("copy", [A, B], descs()) == 0
    codes = {ge2rt.launch_kernel("copy", [A, B], call) for _ in range(3)}
    assert codes in ({0}, {-1})
    assert ge2rt.launch_kernel("copy", [A, B], descs()) == 0


@pytest.mark.parametrize("shape", [np.array([8]), np.array([2, 4]), (np.int64(8),), (8,)])
def test_numpy_shapes_work_each_time(device, shape):
    entry = {"shape": shape, "dtype": "f32", "device": "null"}
    for _ in range(3):
        assert ge2rt.launch_kernel("copy", [A, B], {"buffers": [entry, dict(entry)]}) == 0
    assert len(device.launches) == 3


def test_descs_nested_deeply_are_launched_once_and_succeed(device):
    for _ in range(2):
        assert ge2rt.launch_kernel("copy", [A, B], deep(1500)) == 0
    assert len(device.launches) == 2


@pytest.mark.parametrize(
    ("buffers", "text"),
    [
        (itertools.repeat(A), "too many buffers"),
        ([Foreign(), B], "an object of the call raised RuntimeError: index"),
        (Foreign(), "an object of the call raised RuntimeError: iter"),
        ([A, 10**400], "a number of 1329 bits"),
        ([A, 2**63], "beyond the address space"),
        ([2**64 - 8, B], "beyond the address space"),
    ],
)
def test_foreign_and_impossible_buffers(device, buffers, text):
    assert ge2rt.launch_kernel("copy", buffers, descs()) == -1
    assert text in str(last_error())
    assert not device.launches


@pytest.mark.parametrize(
    "extra", [{"offset": -(2**30)}, {"offset": 2**62}, {"strides": [-(2**20)]}]
)
def test_offsets_and_strides_that_leave_the_address_space(device, extra):
    assert ge2rt.launch_kernel("copy", [A, B], descs(**extra)) == -1
    assert "beyond the address space" in last_error().message
    assert not device.launches


def test_a_repeated_call_with_a_tiny_pointer_is_refused_too(device):
    call = descs(strides=[-1])
    assert ge2rt.launch_kernel("copy", [A, B], call) == 0
    assert ge2rt.launch_kernel("copy", [16, B], call) == -1


@pytest.mark.parametrize(
    "name", [Foreign(), [], {}, None, 3, b"copy", np.zeros(3), "n" * 10**6, "a\nb"]
)
def test_names_that_are_none(device, name):
    assert ge2rt.launch_kernel(name, [A, B], descs()) == -1
    text = str(last_error())
    assert "no kernel of this name" in text
    assert len(text) < 600
    assert text.isprintable()
    with pytest.raises(InvalidArgumentError, match="no kernel of this name"):
        ge2rt.prepare(name, descs())


@pytest.mark.parametrize("stream", [Foreign(), [], "0", 1.5, None, np.zeros(2)])
def test_streams_that_are_none(device, stream):
    for _ in range(2):
        assert ge2rt.launch_kernel("copy", [A, B], descs(), stream) == -1
        assert ge2rt.prepare("copy", descs())([A, B], stream) == -1
    with pytest.raises(InvalidArgumentError, match="stream"):
        ge2rt.launch("copy", np.zeros(3, np.float32), stream=stream)


def test_descs_that_change_while_the_call_runs_are_not_remembered_as_they_end(device):
    call = descs((4,))
    check_stream = device.check_stream

    def change(stream):  # any other thread might
        call["buffers"][0]["shape"] = call["buffers"][1]["shape"] = [8]
        check_stream(stream)

    device.check_stream = change
    assert ge2rt.launch_kernel("copy", [A, B], call) == 0
    device.check_stream = check_stream
    del device.launches[:]
    assert ge2rt.launch_kernel("copy", [A, B], descs((8,))) == 0
    assert ge2rt.prepare("copy", descs((8,)))([A, B]) == 0
    first, second = device.launches
    assert (first.args, first.shape) == (second.args, second.shape)
    assert launching._recent["copy"][0].snapshot == descs((8,))


def test_a_replaced_kernel_is_the_one_that_runs(device, tmp_path):
    assert ge2rt.launch_kernel("copy", [A, B], descs()) == 0
    (tmp_path / "mine.cu.j2").write_text(
        'extern "C" __global__ void {{ kernel }}({{ params }}) { y[threadIdx.x] = 7; }\n'
    )
    (tmp_path / "mine.yaml").write_text("""api_version: 1
kernels:
  - name: copy
    op: COPY
    replace: true
    template: mine.cu.j2
    score: 1
    inputs: [{name: x, dtype: f32, shape: [N]}]
    outputs: [{name: y, dtype: f32, shape: [N]}]
    launch: {grid: [1], block: [8]}
""")
    ge2rt.load_registry(tmp_path / "mine.yaml")
    assert ge2rt.launch_kernel("copy", [A, B], descs()) == 0
    assert device.launches[-1].shape.block == (8, 1, 1)


def test_a_malformed_raising_mode_does_not_raise(device, monkeypatch):
    monkeypatch.setenv("GE2RT_RAISE", "maybe")
    assert ge2rt.launch_kernel("copy", [A], descs()) == -1


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"exclude": 5}, "'exclude': .*expected kernel names, got 5"),
        ({"exclude": [None]}, "'exclude': .*got None"),
        ({"tunables": [1]}, "'tunables': .*got"),
        ({"tunables": {"BM": "64"}}, "'BM': .*expected a whole number, got '64'"),
        ({"device": 3}, "not the name of a device.*got 3"),
        ({"device": "cuda:²"}, "not the name of a device"),
        ({"device": "cuda:" + "9" * 5000}, "not the name of a device"),
    ],
)
def test_keywords_of_the_wrong_kind(device, keywords, text):
    with pytest.raises(InvalidArgumentError, match=text):
        ge2rt.prepare("copy", descs(), **keywords)
    with pytest.raises(InvalidArgumentError, match=text):
        ge2rt.launch("copy", np.zeros(3, np.float32), **keywords)


def test_one_excluded_name_needs_no_list(device):
    inputs = [np.zeros((4, 4), np.float32)] * 2
    ranked = ge2rt.choice("GEMM_BIAS_ACT", *inputs, device="null", exclude="gemm_bias_act_f32")
    able = {c.kernel.name for c in ranked.candidates if c.refusal is None}
    assert "gemm_bias_act_f32" not in able


class Wrapped:
    """A wrapper that holds itself."""

    def __init__(self):
        self.t = self


@pytest.mark.parametrize(
    "array",
    [Wrapped(), type("X", (), {"__array_interface__": {"no": 1}})(),
     type("X", (), {"__array_interface__": "x"})(), np.ma.masked_array([1.0], mask=[True])],
)  # fmt: skip
def test_arrays_that_are_none(array):
    with pytest.raises(InvalidTypeError):
        ge2rt.launch("copy", array)


@pytest.mark.parametrize("path", [None, 3, b"x", [], "a\0b"])
def test_paths_that_are_none(path):
    with pytest.raises((InvalidTypeError, RegistryError)):
        ge2rt.load_registry(path)


def test_a_factory_of_devices_must_make_one():
    with pytest.raises(InvalidTypeError, match="not a factory"):
        ge2rt.register_device("mine", None)
    ge2rt.register_device("mine", lambda index: None)
    with pytest.raises(InvalidTypeError, match="gave no device"):
        ge2rt.get_device("mine")


def test_capability_of_what_is_no_op_or_desc():
    assert ge2rt.query_capability(np.zeros(3)) == {}
    with pytest.raises(InvalidArgumentError, match="descs cannot be read"):
        ge2rt.query_capability("COPY", np.zeros(3))


def test_errors_survive_a_pickle():
    fault = RegistryError("two faults", faults=("a", "b"), kernel="k", argument="x")
    again = pickle.loads(pickle.dumps(fault))
    assert (again.record, again.faults, str(again)) == (fault.record, ("a", "b"), str(fault))
    assert fault.about(where="f:1").faults == ("a", "b")


def test_texts_of_foreign_objects_run_none_of_their_code():
    class Number(int):
        def __repr__(self):
            raise RuntimeError

    assert show(Number(3)) == "an object of type Number"
    assert show([1, Foreign()]) == "an object of type list"
    assert show([1, "a", None]) == "[1, 'a', None]"
    assert show("x" * 100) == repr("x" * 60) + "..."
    assert one_line("a\nb\x00", 10) == "a\\nb\\x00"
    assert one_line("x" * 20, 5) == "xxxxx... (20 characters)"
