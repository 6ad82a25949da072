"""The legacy call: pointers, and the address of a C parameter block as one last buffer."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys

import numpy as np
import pytest

import ge2rt

M, N, K = 33, 20, 47


class Basic(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("M", "N", "K", "has_bias", "act")]


@pytest.fixture(autouse=True)
def _fresh():
    ge2rt.clear_caches()
    yield
    ge2rt.clear_caches()


def operands(dtype):
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((M, K)).astype(dtype), rng.standard_normal((K, N)).astype(dtype)
    return a, b, rng.standard_normal(N).astype(np.float32), np.full((M, N), np.nan, dtype)


def address(array):
    return int(array.__array_interface__["data"][0])


@pytest.mark.parametrize(
    ("kernel", "dtype", "bound"),
    [("gemm_bias_act_f32", np.float32, 1e-5), ("gemm_bias_act_tc_f16", np.float16, 2e-3)],
)
@pytest.mark.parametrize("act", [0, 1])
@pytest.mark.parametrize("has_bias", [0, 1])
@pytest.mark.parametrize("descs", [{"buffers": []}, {}, None, {"buffers": [], "kernel": "x"}])
def test_block_is_the_whole_description(kernel, dtype, bound, act, has_bias, descs):
    a, b, bias, d = operands(dtype)
    block = Basic(M, N, K, has_bias, act)
    pointers = [address(x) for x in ((a, b, bias, d) if has_bias else (a, b, d))]
    code = ge2rt.launch_kernel(kernel, [*pointers, ctypes.addressof(block)], descs, 0)
    assert code == 0, ge2rt.last_error()
    expected = a.astype(np.float64) @ b.astype(np.float64) + (bias if has_bias else 0)
    expected = np.maximum(expected, 0) if act else expected
    error = np.abs(d.astype(np.float64) - expected).max() / np.abs(expected).max()
    assert error < bound


def test_an_absent_bias_may_be_a_null_slot():
    a, b, _, d = operands(np.float32)
    block = Basic(M, N, K, 0, 0)
    call = [address(a), address(b), 0, address(d), ctypes.addressof(block)]
    assert ge2rt.launch_kernel("gemm_bias_act_f32", call, {"buffers": []}) == 0
    np.testing.assert_allclose(d, a @ b, rtol=1e-4, atol=1e-4)


def test_the_block_may_be_freed_and_changed_after_the_call():
    a, b, bias, d = operands(np.float32)
    pointers = [address(x) for x in (a, b, bias, d)]

    def call(*fields):
        block = Basic(*fields)
        code = ge2rt.launch_kernel(
            "gemm_bias_act_f32", [*pointers, ctypes.addressof(block)], {"buffers": []}
        )
        ctypes.memset(ctypes.addressof(block), 0xFF, ctypes.sizeof(block))
        return code

    assert call(M, N, K, 1, 0) == 0
    gc.collect()
    first = d.copy()
    assert call(M, N, K, 1, 1) == 0
    np.testing.assert_array_equal(d, np.maximum(first, 0))
    # the same memory with other extents: a corner of the product
    d[...] = np.nan
    assert call(2, N, K, 1, 0) == 0
    np.testing.assert_allclose(d[:2], first[:2], rtol=1e-5, atol=1e-5)
    assert np.isnan(d[2:]).all()


@pytest.mark.parametrize("has_bias", [0, 1])
def test_wrong_counts_are_refused(has_bias):
    a, b, bias, d = operands(np.float32)
    block = Basic(M, N, K, has_bias, 0)
    here = ctypes.addressof(block)
    for pointers in ([], [a, b], [a, b, bias, d, d], [d]):
        call = [*map(address, pointers), here]
        assert ge2rt.launch_kernel("gemm_bias_act_f32", call, {"buffers": []}) == -1, len(call)
        assert ge2rt.last_error().kernel == "gemm_bias_act_f32"
    assert ge2rt.launch_kernel("gemm_bias_act_f32", [], {"buffers": []}) == -1
    assert np.isnan(d).all()


@pytest.mark.parametrize(
    "fields", [(-1, N, K, 0, 0), (M, N, K, 0, 2), (M, N, K, 0, -1), (M, N, K, 1, 0)]
)
def test_bad_fields_and_missing_pointers_are_refused(fields):
    a, b, _, d = operands(np.float32)
    block = Basic(*fields)
    bias = (0,) if fields[3] else ()  # asked for, and null
    call = [address(a), address(b), *bias, address(d), ctypes.addressof(block)]
    assert ge2rt.launch_kernel("gemm_bias_act_f32", call, {"buffers": []}) == -1
    assert np.isnan(d).all()


@pytest.mark.parametrize("last", [0, None, 3, "block", 1.5])
def test_an_address_that_is_none_is_refused(last):
    a, b, _, d = operands(np.float32)
    call = [address(a), address(b), address(d), last]
    assert ge2rt.launch_kernel("gemm_bias_act_f32", call, {"buffers": []}) == -1


def test_no_descs_without_a_block_is_invalid():
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    assert ge2rt.launch_kernel("copy", [address(x), address(y)], None) == -1
    assert "descs are missing" in ge2rt.last_error().message
    assert ge2rt.launch_kernel("copy", [address(x), address(y)], {"buffers": []}) == -1
    assert not y.any()


def test_descs_with_a_block_behind_them():
    """Descs of the buffers and one buffer more: the block."""
    a, b, bias, d = operands(np.float32)
    block = Basic(M, N, K, 1, 1)
    descs = {
        "buffers": [
            {"shape": list(x.shape), "dtype": "f32", "layout": "rowmajor", "device": "cpu"}
            for x in (a, b, bias, d)
        ]
    }
    call = [*(address(x) for x in (a, b, bias, d)), ctypes.addressof(block)]
    assert ge2rt.launch_kernel("gemm_bias_act_f32", call, descs) == 0
    np.testing.assert_allclose(d, np.maximum(a @ b + bias, 0), rtol=1e-4, atol=1e-4)


def test_empty_extents_are_no_launch():
    block = Basic(0, N, K, 0, 0)
    call = [0, 4096, 0, ctypes.addressof(block)]
    assert ge2rt.launch_kernel("gemm_bias_act_f32", call, {"buffers": []}) == 0


def test_descs_that_say_cuda_run_here_under_emulation(monkeypatch):
    monkeypatch.setenv("GE2RT_EMULATE_CUDA", "1")
    a, b, bias, d = operands(np.float16)
    descs = {
        "buffers": [
            {"shape": list(x.shape), "dtype": {2: "f16", 4: "f32"}[x.itemsize],
             "layout": "rowmajor", "device": "cuda"}
            for x in (a, b, bias, d)
        ],
        "kernel": "gemm_bias_act_tc_f16", "attrs": {"act": "relu"},
    }  # fmt: skip
    pointers = [address(x) for x in (a, b, bias, d)]
    assert ge2rt.launch_kernel("gemm_bias_act_tc_f16", pointers, descs, 0) == 0
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
    np.testing.assert_allclose(d.astype(np.float64), expected, atol=3e-2, rtol=2e-3)
    block = Basic(M, N, K, 1, 1)
    d[...] = 0
    call = [*pointers, ctypes.addressof(block)]
    assert ge2rt.launch_kernel("gemm_bias_act_tc_f16", call, {"buffers": []}) == 0
    np.testing.assert_allclose(d.astype(np.float64), expected, atol=3e-2, rtol=2e-3)


def test_compat_is_found_by_the_native_names():
    code = (
        "import ge2rt.compat, graph_executor, graph_executor_v2, importlib\n"
        "assert graph_executor is graph_executor_v2 is ge2rt.compat\n"
        "native = importlib.import_module('graph_executor_v2')\n"
        "print(native.query_capability('GEMM_BIAS_ACT', {}, {}))\n"
        "print(native.launch_kernel('nothing', [], {'buffers': []}, 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    table, code_line = done.stdout.splitlines()
    assert "'gemm_bias_act_f32': 80, 'gemm_bias_act_tc_f16': 40" in table
    assert code_line == "-1"


def test_compat_leaves_a_real_native_module_alone(tmp_path):
    (tmp_path / "graph_executor_v2.py").write_text("real = True\n")
    code = "import ge2rt.compat, graph_executor_v2, graph_executor; print(graph_executor_v2.real)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "True\n"
