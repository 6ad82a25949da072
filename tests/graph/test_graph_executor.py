"""From a hand-built graph to values: passes, selection, launches, injection, dry runs, codes."""

from __future__ import annotations

import ctypes
import struct
import sys
import types

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import DeviceError, InvalidArgumentError, UnsupportedError, last_error
from ge2rt.device.registry import get_device
from ge2rt.graph import Executor, Graph, Op, PassManager, Tensor

RNG = np.random.default_rng(5)


def floats(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def network(m=5, k=8, n=6, p=3, **extra):
    """gelu(x @ w + b) @ v, then a softmax along the rows."""
    x, w, b = Tensor("x", (m, k)), Tensor("w", (k, n)), Tensor("b", (n,))
    v, y = Tensor("v", (n, p)), Tensor("y", (m, p))
    h, s, g, z = (Tensor(name, (m, n if name in "hsg" else p)) for name in "hsgz")
    ops = [
        Op("MATMUL", [x, w], [h]), Op("BIAS_ADD", [h, b], [s]), Op("GELU", [s], [g]),
        Op("MATMUL", [g, v], [z]), Op("SOFTMAX", [z], [y]),
    ]  # fmt: skip
    return Graph(ops, name="network", **extra)


def feeds(m=5, k=8, n=6, p=3):
    return {"x": floats(m, k), "w": floats(k, n), "b": floats(n), "v": floats(n, p)}


def expected(x, w, b, v):
    z = gelu(x @ w + b) @ v
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_from_graph_to_values():
    given = feeds()
    result = Executor("cpu").run(network(), given)
    assert np.allclose(result["y"], expected(**given), atol=1e-5)
    assert [launch.kernel for launch in result.launches] == [
        "gemm_bias_act_f32", "gemm_bias_act_f32", "softmax",
    ]  # fmt: skip
    assert result.code == 0
    assert list(result.outputs) == ["y"]
    assert repr(result) == "Result({y: float32[5, 3]}, 3 launches, code 0)"


def test_each_run_gives_fresh_outputs():
    executor, given = Executor("cpu"), feeds()
    first, second = (executor.run(network(), given)["y"] for _ in range(2))
    assert not np.shares_memory(first, second)
    assert np.array_equal(first, second)


def test_outputs_with_data_are_written_in_place():
    given, out = feeds(), np.zeros((5, 3), np.float32)
    result = Executor("cpu").run(network(), {**given, "y": out})
    assert result["y"] is out
    assert np.allclose(out, expected(**given), atol=1e-5)


def test_values_between_can_be_asked_for():
    given = feeds()
    result = Executor("cpu").run(network(outputs=["h", "y"]), given)
    assert np.allclose(result["h"], given["x"] @ given["w"], atol=1e-5)
    assert np.allclose(result["y"], expected(**given), atol=1e-5)


def test_views_are_read_by_their_strides():
    given = feeds()
    given["w"] = np.asfortranarray(given["w"])
    given["b"] = np.repeat(given["b"], 3)[::3]
    given["x"] = given["x"][::-1]
    result = Executor("cpu").run(network(), given)
    assert np.allclose(result["y"], expected(**given), atol=1e-5)
    assert result.launches[0].descs["buffers"][1]["strides"] == [1, 8]


class Pointer:
    def __init__(self, array, name):
        self.array = array
        setattr(self, name, array.ctypes.data)


class Wrapper:
    def __init__(self, t):
        self.t = t


@pytest.mark.parametrize(
    "wrap",
    [
        lambda a: a.ctypes.data,
        lambda a: Pointer(a, "ptr"),
        lambda a: Pointer(a, "device_ptr"),
        lambda a: Wrapper(Pointer(a, "ptr")),
        lambda a: Wrapper(a),
        lambda a: Wrapper(a.ctypes.data),
    ],
    ids=["int", "ptr", "device_ptr", "t.ptr", "t", "t.int"],
)
def test_data_handles(wrap):
    x, y = floats(7), np.zeros(7, np.float32)
    graph = Graph(
        [Op("RELU", [Tensor("x", (7,), data=wrap(x))], [Tensor("y", (7,), data=wrap(y))])]
    )
    Executor("cpu").run(graph)
    assert np.array_equal(y, np.maximum(x, 0))


def test_f16_products_take_the_tensor_core_kernel():
    x, w, y = (
        Tensor("x", (16, 32), "f16"),
        Tensor("w", (32, 16), "f16"),
        Tensor("y", (16, 16), "f16"),
    )
    graph = Graph([Op("MATMUL", [x, w], [y])])
    given = {"x": floats(16, 32, dtype=np.float16), "w": floats(32, 16, dtype=np.float16)}
    result = Executor("cpu").run(graph, given)
    (launch,) = result.launches
    assert launch.kernel == "gemm_bias_act_tc_f16"
    assert launch.selection.rivals[0].parts == {"declared": 40, "tensor_core": 30}
    wanted = given["x"].astype("f4") @ given["w"].astype("f4")
    assert np.allclose(result["y"], wanted, rtol=1e-2, atol=1e-2)


def test_device_caps_decide_what_can_be_chosen():
    x, w, y = (
        Tensor("x", (16, 32), "f16"),
        Tensor("w", (32, 16), "f16"),
        Tensor("y", (16, 16), "f16"),
    )
    caps = {"device": "cpu", "tensor_cores": False}
    product = Graph([Op("MATMUL", [x, w], [y])])
    (launch,) = Executor(caps).prepare(product)
    assert launch.kernel == "gemm_bias_act_any_ex"
    module = types.SimpleNamespace(launch_kernel=Recorder().launch_kernel)
    with_cores, without = (
        Executor(c, native=module).prepare(Graph([Op("MATMUL", [x, w], [y])]))[0].selection
        for c in ("cpu", caps)
    )
    assert {r.kernel: r.score for r in with_cores.rivals}["gemm_bias_act_tc_f16"] == 70
    assert {r.kernel: r.score for r in without.rivals}["gemm_bias_act_tc_f16"] == 40


def test_zero_size():
    x, y = Tensor("x", (0, 4)), Tensor("y", (0, 4))
    out = Executor("cpu").run(Graph([Op("EXP", [x], [y])]), {"x": floats(0, 4)})["y"]
    assert out.shape == (0, 4)


# -- dry runs ------------------------------------------------------------------------------------


def test_a_dry_run_prints_the_launches_and_makes_none(capsys):
    result = Executor("cpu", dry_run=True, native=Recorder()).run(network())
    assert capsys.readouterr().out == (
        "0: gemm_bias_act_f32(x f32[5, 8], w f32[8, 6], b f32[6], g f32[5, 6]) {act='gelu'}\n"
        "   GEMM_BIAS_ACT: gemm_bias_act_f32 80 = declared 80\n"
        "1: gemm_bias_act_f32(g f32[5, 6], v f32[6, 3], -, z f32[5, 3]) {act='none'}\n"
        "   GEMM_BIAS_ACT: gemm_bias_act_f32 80 = declared 80\n"
        "2: softmax(z f32[5, 3], y f32[5, 3])\n"
        "   SOFTMAX: softmax 60 = declared 60\n"
    )
    assert result.outputs == {}
    assert len(result.launches) == 3


# -- injection -----------------------------------------------------------------------------------


class Recorder:
    """Another module: the same functions, every call written down."""

    def __init__(self, codes=()):
        self.calls = []
        self.codes = list(codes)

    def launch_kernel(self, name, buffers, descs, stream=0):
        self.calls.append((name, list(buffers), descs, stream))
        return self.codes.pop(0) if self.codes else 0

    def query_capability(self, op_type, in_descs, out_descs):
        known = {"GEMM_BIAS_ACT": {"gemm_bias_act_f32": 80}, "SOFTMAX": {"softmax": 60}}
        return known.get(op_type, {})


def test_every_launch_goes_to_the_injected_module():
    module, given = Recorder(), feeds()
    result = Executor("cpu", 0, native=module).run(network(), given)
    assert [call[0] for call in module.calls] == ["gemm_bias_act_f32"] * 2 + ["softmax"]
    name, pointers, descs, stream = module.calls[0]
    assert pointers[:3] == [given[n].ctypes.data for n in "xwb"]
    assert descs["kernel"] == name
    assert descs["attrs"] == {"act": "gelu"}
    assert [b["shape"] for b in descs["buffers"]] == [[5, 8], [8, 6], [6], [5, 6]]
    assert {b["device"] for b in descs["buffers"]} == {"cpu"}
    assert stream == 0
    # the value between goes from one launch to the next, the absent bias is 0 and None
    assert module.calls[1][1][0] == pointers[3]
    assert module.calls[1][1][2] == 0
    assert module.calls[1][2]["buffers"][2] is None
    assert result["y"].ctypes.data == module.calls[2][1][-1]


def test_the_stream_is_passed_along():
    device = get_device("cpu")
    stream = device.create_stream()
    module = Recorder()
    Executor(device, stream, native=module).run(network(), feeds())
    assert {call[3] for call in module.calls} == {stream}
    device.destroy_stream(stream)


def test_scores_of_the_module_decide():
    class Better(Recorder):
        def query_capability(self, op_type, in_descs, out_descs):
            return {f"{op_type}__mine": 500, **super().query_capability(op_type, 0, 0)}

    module = Better()
    Executor("cpu", native=module).run(network(), feeds())
    assert [call[0] for call in module.calls] == ["mine"] * 3


def test_without_query_capability_the_rules_alone_decide():
    module = types.SimpleNamespace(launch_kernel=Recorder().launch_kernel)
    launches = Executor("cpu", native=module).prepare(network(512, 512, 512, 512))
    assert [launch.kernel for launch in launches] == ["gemm_bias_act_f32"] * 2 + ["softmax"]
    assert {r.kernel for r in launches[0].selection.rivals} == {
        "gemm_bias_act_f32", "gemm_bias_act_tc_f16", "gemm_bias_act_f32_ex",
        "gemm_bias_act_any_ex",
    }  # fmt: skip


def test_a_module_is_found_by_name_or_by_ge_native(monkeypatch):
    module = types.ModuleType("my_native")
    recorder = Recorder()
    module.launch_kernel = recorder.launch_kernel
    monkeypatch.setitem(sys.modules, "my_native", module)
    Executor("cpu", native="my_native").run(network(), feeds())
    assert len(recorder.calls) == 3
    monkeypatch.setenv("GE_NATIVE", "my_native")
    Executor("cpu").run(network(), feeds())
    assert len(recorder.calls) == 6
    monkeypatch.setenv("GE_NATIVE", "ge2rt.compat")
    given = feeds()
    assert np.allclose(Executor("cpu").run(network(), given)["y"], expected(**given), atol=1e-5)


def test_modules_that_cannot_be_used():
    with pytest.raises(InvalidArgumentError, match="'no_such_module' does not import"):
        Executor("cpu", native="no_such_module")
    with pytest.raises(TypeError, match=r"expected an object with launch_kernel"):
        Executor("cpu", native=types.SimpleNamespace())


def test_a_parameter_block_the_way_ge_v2_sends_it():
    seen = []

    class Native(Recorder):
        def launch_kernel(self, name, buffers, descs, stream=0):
            seen.append((buffers[:-1], descs, ctypes.string_at(buffers[-1], 20)))
            return ge2rt.launch_kernel(name, buffers, descs, stream)

    x, w, b, h, s, y = (Tensor(n, shape) for n, shape in [
        ("x", (5, 8)), ("w", (8, 6)), ("b", (6,)), ("h", (5, 6)), ("s", (5, 6)), ("y", (5, 6)),
    ])  # fmt: skip
    graph = Graph([Op("MATMUL", [x, w], [h]), Op("BIAS_ADD", [h, b], [s]), Op("RELU", [s], [y])])
    given = {n: a for n, a in feeds().items() if n != "v"}
    result = Executor("cpu", native=Native(), param_block=True).run(graph, given)
    assert np.allclose(result["y"], np.maximum(given["x"] @ given["w"] + given["b"], 0), atol=1e-5)
    ((pointers, descs, block),) = seen
    assert len(pointers) == 4
    assert descs == {"buffers": []}
    assert struct.unpack("5i", block) == (5, 6, 8, 1, 1)


def test_what_a_block_cannot_say_is_refused():
    with pytest.raises(UnsupportedError, match=r"basic parameter block cannot say.*gelu"):
        Executor("cpu", param_block=True).run(network(), feeds())


# -- failures ------------------------------------------------------------------------------------


def test_a_code_becomes_the_exception_of_its_class():
    with pytest.raises(
        DeviceError, match=r"softmax\(z\).*launch_kernel gave -2|SOFTMAX\(z\).*gave -2"
    ):
        Executor("cpu", native=Recorder([0, 0, -2])).run(network(), feeds())


def test_without_raising_the_code_is_in_the_result():
    module = Recorder([0, -1, 0])
    result = Executor("cpu", native=module, raising=False).run(network(), feeds())
    assert result.code == -1
    assert result.outputs == {}
    assert len(module.calls) == 2


def test_a_module_that_returns_nothing_counts_as_done():
    class Silent(Recorder):
        def launch_kernel(self, *args):
            super().launch_kernel(*args)

    assert Executor("cpu", native=Silent()).run(network(), feeds()).code == 0


def test_our_own_errors_keep_their_parts():
    x = np.zeros(4, np.float32)
    graph = Graph([Op("COPY", [Tensor("x", (4,))], [Tensor("y", (4,))])])
    with pytest.raises(InvalidArgumentError, match=r"y: f32\[4\] = COPY\(x\).*overlaps input 'X'"):
        Executor("cpu").run(graph, {"x": x, "y": x})
    assert last_error().argument == "Y"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x": None}, r"argument 'x'.*no data for an input.*f32\[5,8\].*run\(graph"),
        ({"q": np.zeros(3)}, "network has no tensor 'q'"),
        ({"x": np.zeros((5, 8))}, r"argument 'x'.*not what its tensor says.*f32\[5,8\].*f64"),
        ({"x": np.zeros((8, 5), "f4")}, r"argument 'x'.*not what its tensor says"),
    ],
)
def test_wrong_data(change, text):
    with pytest.raises(InvalidArgumentError, match=text):
        Executor("cpu").run(network(), {**feeds(), **change})


def test_an_op_that_no_kernel_can_run_lists_the_reasons():
    x, y = Tensor("x", (4,), "i32"), Tensor("y", (4,), "i32")
    with pytest.raises(UnsupportedError, match=r"(?s)y: i32\[4\] = UNARY\(x\).*floating point"):
        Executor("cpu").run(Graph([Op("EXP", [x], [y])]), {"x": np.zeros(4, np.int32)})
    with pytest.raises(UnsupportedError, match="knows none of this type"):
        Executor("cpu").run(Graph([Op("FROBNICATE", [x], [y])]), {"x": np.zeros(4, np.int32)})


def test_unknown_properties_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"no such property of a device.*tensor_core'"):
        Executor({"tensor_core": True})


def test_own_passes_are_used():
    given = feeds()
    executor = Executor("cpu", passes=PassManager().add(lambda graph: graph))
    assert np.allclose(executor.run(network(), given)["y"], expected(**given), atol=1e-5)
    assert len(executor.passes.stages) == 4


@pytest.mark.parametrize("act", [None, "RELU"])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_a_product_without_a_bias_runs_in_any_dtype(dtype, act):
    kind = {"f16": "f2", "f32": "f4", "f64": "f8"}[dtype]
    a, b = floats(4, 6, dtype=kind), floats(6, 3, dtype=kind)
    x, w, c, y = (
        Tensor(name, shape, dtype)
        for name, shape in (("a", (4, 6)), ("b", (6, 3)), ("c", (4, 3)), ("y", (4, 3)))
    )
    ops = [Op("MATMUL", [x, w], [c]), *([Op(act, [c], [y])] if act else [])]
    result = Executor("cpu").run(Graph(ops), {"a": a, "b": b})
    want = np.maximum(a @ b, 0) if act else a @ b
    assert np.allclose(result["y" if act else "c"], want, rtol=1e-2, atol=1e-2)
    assert len(result.launches) == 1
