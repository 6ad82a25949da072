"""``ge2rt.launch`` and its companions on arrays: what comes back, what is refused, threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import ge2rt
from ge2rt.base import events
from ge2rt.device.null import NullDevice
from ge2rt.run import specialize

F32 = np.float32


@pytest.fixture(autouse=True)
def _fresh():
    ge2rt.clear_caches()
    yield
    ge2rt.clear_caches()


def ramp(*shape):
    return np.arange(int(np.prod(shape)), dtype=F32).reshape(shape)


def test_output_is_a_fresh_array_of_the_inferred_shape_and_dtype():
    x = ramp(3, 4)
    y = ge2rt.launch("copy", x)
    assert type(y) is np.ndarray
    assert y is not x
    assert (y.shape, y.dtype, y.flags.c_contiguous) == ((3, 4), F32, True)
    assert ge2rt.launch("REDUCE", x, op="argmax", axes=[1], keepdim=True).shape == (3, 1)
    assert ge2rt.launch("COMPARE", x, x, op="eq").dtype == np.bool_


def test_0d_stays_0d():
    for x in (np.array(3, F32), F32(3)):
        y = ge2rt.launch("elementwise_unary", x, op="square")
        assert (y.shape, y.dtype, float(y)) == ((), F32, 9.0)
    assert ge2rt.launch("REDUCE", ramp(5), op="sum").shape == ()
    assert ge2rt.launch("BINARY", np.array(2.0), ramp(3).astype(np.float64), op="mul").shape == (3,)


@pytest.mark.parametrize("view", [np.s_[::-1], np.s_[:, ::-2], np.s_[1:, 2:5], np.s_[..., None]])
def test_strided_inputs_and_outputs(view):
    x, target = ramp(6, 8)[view], np.full((6, 8), -1, F32)
    result = ge2rt.launch("elementwise_unary", x, out=target[view], op="neg")
    np.testing.assert_array_equal(result, -x)
    wanted = np.full((6, 8), -1, F32)
    wanted[view] = -x
    np.testing.assert_array_equal(target, wanted)


def test_out_is_returned_itself_and_may_be_a_tuple():
    x, out = ramp(4), np.zeros(4, F32)
    assert ge2rt.launch("copy", x, out=out) is out
    assert ge2rt.launch("copy", x, out=(out,)) is out
    with pytest.raises(ge2rt.InvalidArgumentError, match="wrong number of outputs"):
        ge2rt.launch("copy", x, out=(out, out))


def test_bad_outputs_are_refused_and_nothing_is_written():
    x, frozen = ramp(4), np.zeros(4, F32)
    frozen.flags.writeable = False
    for out, text in [
        (frozen, "read-only"), (np.zeros(5, F32), "shape does not fit"),
        (np.zeros(4), "dtype"), (np.zeros((2, 2), F32), "shape does not fit|rank|axes"),
        (3, "array"),
    ]:  # fmt: skip
        with pytest.raises(ge2rt.InvalidArgumentError, match=text):
            ge2rt.launch("copy", x, out=out)
    assert not frozen.any()


@pytest.mark.parametrize(
    ("args", "attrs", "family", "text"),
    [
        (("nothing", ramp(3)), {}, ValueError, "no kernel of this name"),
        (("copy",), {}, ValueError, "X"),
        (("copy", ramp(3), ramp(3)), {}, ValueError, "inputs|buffers"),
        (("copy", [1.0, 2.0]), {}, TypeError, r"arrays\[0\].*list.*numpy.asarray"),
        (("copy", "text"), {}, TypeError, "str"),
        (("copy", np.zeros(3, np.complex64)), {}, TypeError, "complex64"),
        (("copy", np.zeros(3, ">f4")), {}, TypeError, ">f4"),
        (("copy", np.zeros(3, object)), {}, TypeError, "object|'O'"),
        (("BINARY", 1.0, 2.0), {"op": "add"}, TypeError, "only Python scalars"),
        (("elementwise_unary", ramp(3)), {}, ValueError, "op"),
        (("elementwise_unary", ramp(3)), {"op": "sqt"}, ValueError, "sqrt"),
        (("softmax", ramp(3)), {"axis": 5}, ValueError, "axis|axes"),
        (
            ("GEMM_BIAS_ACT", ramp(3, 4), ramp(3, 4)),
            {},
            ValueError,
            r"gemm_bias_act_f32, argument 'B': shape does not fit; expected \[K, N\] with K = 4",
        ),
        (
            ("GEMM_BIAS_ACT", ramp(3, 4), ramp(3, 4)),
            {"trans_a": True, "trans_b": True},
            ValueError,
            "gemm_bias_act_f32_ex.*inner extents.*K = 3",
        ),
        (
            ("GEMM_BIAS_ACT", ramp(3, 4), ramp(4, 3)),
            {"act": "swish"},
            ValueError,
            r"\[-1 INVALID\] gemm_bias_act_f32, argument 'act': attribute cannot be used; expected",
        ),
        (
            ("GEMM_BIAS_ACT", ramp(3, 4), ramp(4, 3)),
            {"akt": "relu"},
            ValueError,
            "argument 'akt': unknown attribute; expected act.*trans_a.*Did you mean 'act'",
        ),
        (
            ("GEMM_BIAS_ACT", ramp(3, 4)),
            {"B": ramp(4, 3)},
            ValueError,
            "argument 'B': unknown attribute.*B is an input: give it by position",
        ),
    ],
)
def test_errors_of_a_call(args, attrs, family, text):
    with pytest.raises(family, match=text) as caught:
        ge2rt.launch(*args, **attrs)
    assert isinstance(caught.value, ge2rt.Ge2rtError)


class FarDevice(NullDevice):
    """A device from outside that cannot reach host memory."""

    def accepts(self, home):
        return home == "far"


def test_wrong_device_and_mixed_devices():
    x = ramp(3)
    with pytest.raises(ge2rt.DeviceError, match="cuda:0 does not exist"):
        ge2rt.launch("copy", x, device="cuda")
    ge2rt.register_device("far", lambda index: FarDevice())
    with pytest.raises(ge2rt.InvalidArgumentError, match="another device"):
        ge2rt.launch("copy", x, device="far")


class Elsewhere:
    """An array that says it lies on a GPU."""

    def __init__(self, shape):
        self.__cuda_array_interface__ = {
            "version": 3, "shape": shape, "typestr": "<f4", "data": (4096, False), "strides": None,
        }  # fmt: skip


def test_inputs_of_two_devices_are_refused():
    with pytest.raises(ge2rt.InvalidArgumentError, match="inputs lie on different devices"):
        ge2rt.launch("BINARY", Elsewhere((3,)), ramp(3), op="add")


def test_optional_inputs_may_be_none_or_left_out():
    x, gamma, beta = ramp(2, 5), ramp(5) + 1, ramp(5) - 2
    plain = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + F32(1e-5))
    for args, expected in [
        ((x,), plain), ((x, gamma), plain * gamma), ((x, None, beta), plain + beta),
        ((x, gamma, beta), plain * gamma + beta), ((x, None, None), plain),
    ]:  # fmt: skip
        np.testing.assert_allclose(ge2rt.launch("layernorm", *args), expected, rtol=1e-4, atol=1e-5)


def test_choice_ranks_and_explains():
    a, b = np.ones((4, 8), np.float16), np.ones((8, 4), np.float16)
    found = ge2rt.choice("GEMM_BIAS_ACT", a, b)
    assert found.chosen.kernel.name == "gemm_bias_act_tc_f16"
    assert found.chosen.parts == {"declared": 40, "tensor_core": 30}
    assert "gemm_bias_act_f32: turned down, A: dtype does not fit" in str(found)
    whole = a.astype(np.int32), b.astype(np.int32)
    nothing = ge2rt.choice("GEMM_BIAS_ACT", *whole, exclude=("gemm_bias_act_tc_f16",))
    assert nothing.chosen is None
    assert "gemm_bias_act_tc_f16: excluded by the call" in str(nothing)
    wide = ge2rt.choice("GEMM_BIAS_ACT", a.astype(F32), b.astype(F32))
    assert wide.chosen.kernel.name == "gemm_bias_act_f32"


def test_a_kernel_can_be_forced_or_excluded():
    x = ramp(4, 4)
    names = [f"gemm_bias_act_{kind}" for kind in ("f32", "f32_ex", "any_ex")]
    with pytest.raises(
        ge2rt.InvalidTypeError, match=r"gemm_bias_act_tc_f16.*expected f16, got f32"
    ):
        ge2rt.launch("GEMM_BIAS_ACT", x, x, exclude=names)
    with pytest.raises(ge2rt.UnsupportedError, match="no kernel is left to choose from"):
        ge2rt.launch("SOFTMAX", x, exclude=["softmax"])
    np.testing.assert_allclose(ge2rt.launch("gemm_bias_act_f32", x, x), x @ x)
    with pytest.raises(ge2rt.InvalidArgumentError, match=r"A.*f16"):
        ge2rt.launch("gemm_bias_act_tc_f16", x, x)


def test_tunables_change_the_kernel_not_the_result():
    rng = np.random.default_rng(3)
    a, b = rng.random((70, 40), F32), rng.random((40, 90), F32)
    before = events.counts().get("compile", 0)
    for sizes in ({"BM": 64, "BN": 64}, {"BM": 128, "BN": 64}):
        d = ge2rt.launch("gemm_bias_act_f32", a, b, tunables=sizes)
        np.testing.assert_allclose(d, a @ b, rtol=1e-5)
    with pytest.raises(ge2rt.InvalidArgumentError, match="BM"):
        ge2rt.launch("gemm_bias_act_f32", a, b, tunables={"BM": 100})
    with pytest.raises(ge2rt.InvalidArgumentError, match="BQ"):
        ge2rt.launch("gemm_bias_act_f32", a, b, tunables={"BQ": 1})
    assert events.counts().get("compile", 0) - before <= 2


def test_streams_are_ordered_and_end():
    x, y, z = ramp(1000), np.zeros(1000, F32), np.zeros(1000, F32)
    with ge2rt.Stream() as stream:
        assert stream.handle != 0
        assert repr(stream) == f"<Stream on cpu: handle {stream.handle:#x}>"
        ge2rt.launch("elementwise_unary", x, out=y, op="square", stream=stream)
        ge2rt.launch("elementwise_unary", y, out=z, op="neg", stream=stream.handle)
        stream.synchronize()
    np.testing.assert_array_equal(z, -(x * x))
    assert stream.handle == 0
    assert repr(stream) == "<Stream on cpu: closed>"
    stream.close()


def test_a_stream_that_is_none_is_refused():
    x = ramp(4)
    stream = ge2rt.Stream()
    handle = stream.handle
    stream.close()
    for strange in (12345, handle, -1):
        with pytest.raises(ge2rt.InvalidArgumentError, match="stream"):
            ge2rt.launch("copy", x, stream=strange)


def test_events_measure_and_must_be_recorded():
    start, end = ge2rt.Event(), ge2rt.Event()
    with pytest.raises(ge2rt.InvalidArgumentError, match=r"not recorded.*record"):
        start.synchronize()
    start.record()
    ge2rt.launch("copy", ramp(100))
    end.record()
    end.synchronize()
    assert start.elapsed_ms(end) > 0
    assert end.elapsed_ms(start) < 0
    with ge2rt.Stream() as stream:
        end.record(stream)


def test_warmup_and_synchronize():
    ge2rt.warmup("cpu")
    ge2rt.synchronize()
    ge2rt.synchronize("cpu")


def test_warmup_rehearses_without_compiling():
    before = events.counts().get("compile", 0)
    ge2rt.warmup("cpu", compiler=False)
    assert events.counts().get("compile", 0) == before


def test_clear_caches_prepares_anew_without_compiling_again():
    x = ramp(12)
    ge2rt.launch("copy", x)
    assert specialize.families()
    before = events.counts().get("compile", 0)
    ge2rt.clear_caches()
    assert not specialize.families()
    np.testing.assert_array_equal(ge2rt.launch("copy", x), x)
    assert events.counts().get("compile", 0) == before


def test_settings_are_read_when_a_kernel_is_prepared(monkeypatch):
    x, y = ramp(4), np.zeros(4, F32)
    call = {"buffers": [{"shape": [4], "dtype": "f32", "device": "cuda"}] * 2}
    pointers = [x.ctypes.data, y.ctypes.data]
    assert ge2rt.launch_kernel("copy", pointers, call) == -2
    monkeypatch.setenv("GE2RT_EMULATE_CUDA", "1")
    assert ge2rt.launch_kernel("copy", pointers, call) == 0
    np.testing.assert_array_equal(x, y)


def test_raising_mode(monkeypatch):
    monkeypatch.setenv("GE2RT_RAISE", "1")
    with pytest.raises(ge2rt.InvalidArgumentError, match="no kernel of this name"):
        ge2rt.launch_kernel("nothing", [], {"buffers": []})
    plan = ge2rt.prepare("copy", {"buffers": [{"shape": [4], "dtype": "f32"}] * 2})
    with pytest.raises(ge2rt.InvalidArgumentError, match="null pointer"):
        plan([0, 0])


def test_threads_launch_at_the_same_time():
    """One compilation for all, every result right, and last_error belongs to its thread."""
    events.clear()
    start = threading.Barrier(6)

    def work(seed):
        x = np.random.default_rng(seed).random((33, 50), F32)
        start.wait()
        results = [ge2rt.launch("elementwise_unary", x, op="silu") for _ in range(20)]
        mine = ge2rt.launch_kernel(f"nothing_{seed}", [], {"buffers": []})
        return x, results, mine, ge2rt.last_error().kernel

    with ThreadPoolExecutor(6) as pool:
        for seed, (x, results, code, kernel) in enumerate(pool.map(work, range(6))):
            for y in results:
                np.testing.assert_allclose(y, x / (1 + np.exp(-x)), rtol=2e-6)
            assert (code, kernel) == (-1, f"nothing_{seed}")
    assert events.counts().get("compile", 0) <= 1


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    y = ge2rt.launch("elementwise_unary", x.T, op="neg")
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, -x.T)
    out = torch.zeros(4, 3)
    assert ge2rt.launch("copy", x.T, out=out) is out
    assert torch.equal(out, x.T)
    half = x.to(torch.bfloat16)
    assert ge2rt.launch("copy", half).dtype == torch.bfloat16


class Wrapped:
    """A wrapper that holds an array in ``.t``, as callers of the old runtime have them."""

    def __init__(self, array):
        self.t = array


def test_wrappers_and_dlpack_are_arrays():
    class Capsule:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **kw):
            return self.array.__dlpack__(**kw)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    x = ramp(3, 4)[:, ::2]
    for made in (Wrapped, Capsule):
        np.testing.assert_array_equal(ge2rt.launch("copy", made(x)), x)
