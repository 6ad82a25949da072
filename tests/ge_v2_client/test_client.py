"""A compiler written for ge_v2 runs on ge2rt unchanged: what its real callers do, by number."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ge2rt
from ge_v2_client import arrays
from ge_v2_client.arrays import address, floats
from ge_v2_client.executor import Executor
from ge_v2_client.ir import Graph, Op, Tensor
from ge_v2_client.native import Basic, call_with_block, load_native, pointer_of
from ge_v2_client.passes import run_passes
from ge_v2_client.selector import native_scores, select

M, N, K = 20, 24, 16
NATIVE_NAMES = ("graph_executor", "graph_executor_v2")
HANDLES = [
    address, arrays.as_torch, arrays.as_cupy, arrays.as_pointer, arrays.as_device_pointer,
    arrays.wrapped,
]  # fmt: skip


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """As on the machine of a client: descs say cuda, GE_NATIVE names the module."""
    monkeypatch.setenv("GE_NATIVE", "ge2rt.compat")
    monkeypatch.setenv("GE2RT_EMULATE_CUDA", "1")
    for name in (*NATIVE_NAMES, "ge2rt.compat"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    ge2rt.clear_caches()
    yield
    for name in (*NATIVE_NAMES, "ge2rt.compat"):
        sys.modules.pop(name, None)
    ge2rt.clear_caches()


def chain(handle=address, act="Relu", dtype="f32"):
    """act(A @ B + bias) as the client's front end would write it, and the arrays."""
    kind = {"f32": np.float32, "f16": np.float16}[dtype]
    a, b, bias = floats(M, K, dtype=kind), floats(K, N, dtype=kind), floats(N)
    d = np.full((M, N), np.nan, kind)
    tensors = {
        name: Tensor(name, array.shape, {2: "f16", 4: "f32"}[array.itemsize], data=handle(array))
        for name, array in (("A", a), ("B", b), ("bias", bias), ("D", d))
    }
    h, s = Tensor("h", (M, N)), Tensor("s", (M, N))
    graph = Graph([
        Op("matmul", [tensors["A"], tensors["B"]], [h]),
        Op("Bias", [h, tensors["bias"]], [s]),
        Op(act, [s], [tensors["D"]]),
    ])  # fmt: skip
    return graph, (a, b, bias, d)


def relu_of(a, b, bias):
    return np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)


def test_the_module_is_the_one_that_is_named():
    assert load_native().__name__ == "ge2rt.compat"
    assert load_native().launch_kernel is ge2rt.launch_kernel


def test_passes_make_one_op_of_the_chain():
    fused = run_passes(chain(act="GELU")[0])
    assert [op.op_type for op in fused.ops] == ["GEMM_BIAS_ACT"]
    assert fused.ops[0].attrs == {"act": "gelu", "mnk": (M, N, K)}
    assert [t.name for t in fused.ops[0].inputs] == ["A", "B", "bias"]


@pytest.mark.parametrize("handle", HANDLES)
def test_from_graph_to_values_with_any_handle(handle):
    graph, (a, b, bias, d) = chain(handle)
    assert Executor().run(graph) == ["gemm_bias_act_f32"]
    np.testing.assert_allclose(d, relu_of(a, b, bias), rtol=1e-5, atol=1e-4)


def test_the_absent_handle_is_0_and_a_foreign_one_is_refused():
    assert pointer_of(None) == 0
    with pytest.raises(TypeError, match="no address in a str"):
        pointer_of("tensor")


def test_a_dry_run_prints_and_launches_nothing(capsys):
    graph, (*_, d) = chain()
    Executor(dry_run=True).run(graph)
    assert capsys.readouterr().out == "GEMM_BIAS_ACT -> gemm_bias_act_f32\n"
    assert np.isnan(d).all()


# -- what a naive runtime breaks on, point by point


def test_1_the_selector_asks_graph_executor_for_bare_names():
    load_native()
    scores = native_scores("GEMM_BIAS_ACT")
    plain = {name: scores[name] for name in ("gemm_bias_act_f32", "gemm_bias_act_tc_f16")}
    assert plain == {"gemm_bias_act_f32": 80, "gemm_bias_act_tc_f16": 40}
    assert sorted(scores, key=scores.get)[::-1][:2] == list(plain)
    raw = sys.modules["graph_executor"].ge_v2_capability_table_raw()
    assert raw["GEMM_BIAS_ACT__gemm_bias_act_f32"] == 80
    assert raw["GEMM_BIAS_ACT__gemm_bias_act_tc_f16"] == 40


def test_1_in_a_process_of_its_own_with_nothing_imported_first():
    code = (
        "from ge_v2_client.executor import Executor\n"
        "from ge_v2_client.selector import native_scores\n"
        "native = Executor().native\n"
        "print(native.__name__, native_scores('GEMM_BIAS_ACT')['gemm_bias_act_f32'])"
    )
    tests = str(Path(__file__).parents[1])
    path = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.stdout == "ge2rt.compat 80\n"


def test_2_a_dropped_result_is_logged_and_can_be_raised(caplog, monkeypatch):
    graph, (*_, d) = chain()
    graph.ops[0].inputs[0].data = None
    with caplog.at_level(logging.ERROR, "ge2rt"):
        Executor().run(graph)
    assert [r.levelname for r in caplog.records] == ["ERROR"]
    assert "gemm_bias_act_f32" in caplog.text
    assert np.isnan(d).all()
    monkeypatch.setenv("GE2RT_RAISE", "1")
    ge2rt.clear_caches()
    with pytest.raises(ge2rt.InvalidArgumentError):
        Executor().run(graph)


def test_3_scores_keep_f32_first_whatever_the_dtypes_are():
    graph, _ = chain(dtype="f16")
    op = run_passes(graph).ops[0]
    load_native()
    assert select(op, tensor_cores=True) == "gemm_bias_act_f32"  # 80 > 40 + 30


def test_3_descs_of_the_wrong_dtype_are_refused_and_a_bare_block_is_believed():
    graph, (a, b, bias, d) = chain(dtype="f16")
    native, op = load_native(), run_passes(graph).ops[0]
    tensors = [*op.inputs, *op.outputs]
    pointers = [pointer_of(t.data) for t in tensors]
    descs = {"buffers": [t.desc() for t in tensors]}
    assert native.launch_kernel("gemm_bias_act_f32", pointers, descs, 0) == -1
    assert native.last_error().argument == "A"
    block = Basic(M, N, K, 1, 1)
    assert call_with_block(native, "gemm_bias_act_tc_f16", pointers, block) == 0  # f32 bias
    np.testing.assert_allclose(d.astype(float), relu_of(a, b, bias), rtol=2e-3, atol=1e-2)


def with_block(descs):
    native, (a, b, bias, d) = load_native(), chain()[1]
    block = Basic(M, N, K, 1, 1)
    call = [address(x) for x in (a, b, bias, d)] + [ctypes.addressof(block)]
    code = native.launch_kernel("gemm_bias_act_f32", call, descs, 0)
    return code, d, relu_of(a, b, bias)


def listed(**extra):
    shapes = ([M, K], [K, N], [N], [M, N])
    return {
        "buffers": [
            {"shape": s, "dtype": "f32", "layout": "rowmajor", "device": "cuda", **extra}
            for s in shapes
        ],
        "kernel": "gemm_bias_act_f32", "version": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    "descs", [None, {}, {"buffers": []}, {"buffers": [], "note": 1}, listed(), listed(extra=1)]
)
def test_4_any_form_of_descs_goes_with_a_block(descs):
    code, d, right = with_block(descs)
    assert code == 0
    np.testing.assert_allclose(d, right, rtol=1e-5, atol=1e-4)


def test_4_no_descs_without_a_block_are_refused():
    native, x = load_native(), floats(8)
    assert native.launch_kernel("copy", [address(x), address(x)], None, 0) == -1


def test_5_the_block_is_gone_when_the_call_returns():
    native, (a, b, bias, d) = load_native(), chain()[1]
    call = [address(x) for x in (a, b, bias, d)]
    for act in (0, 1):
        assert call_with_block(native, "gemm_bias_act_f32", call, Basic(M, N, K, 1, act)) == 0
        gc.collect()
        right = a @ b + bias
        np.testing.assert_allclose(d, np.maximum(right, 0) if act else right, rtol=1e-5, atol=1e-4)


def test_8_gelu_comes_as_1_and_is_what_1_means():
    graph, (a, b, bias, d) = chain(act="gelu")
    Executor().run(graph)
    np.testing.assert_allclose(d, relu_of(a, b, bias), rtol=1e-5, atol=1e-4)


def test_the_smoke_copy():
    x, y = floats(1024), np.zeros(1024, np.float32)
    tensors = [Tensor(n, (1024,), data=address(v)) for n, v in (("in", x), ("out", y))]
    assert Executor().run(Graph([Op("COPY", tensors[:1], tensors[1:])])) == ["copy"]
    np.testing.assert_array_equal(x, y)


def test_without_scores_of_the_module_the_rules_alone_decide(monkeypatch):
    monkeypatch.setitem(sys.modules, "graph_executor", None)
    assert native_scores("GEMM_BIAS_ACT") == {}
    assert select(run_passes(chain()[0]).ops[0]) == "gemm_bias_act_f32"
