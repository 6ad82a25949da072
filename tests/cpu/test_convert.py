"""Operands that no kernel takes as they are are cast, but never by the contract."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ge2rt
from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import UnsupportedError
from ge2rt.graph import Executor, Graph, Op, Tensor
from ge2rt.run.convert import COST, holds

_RNG = np.random.default_rng(0)
A, B = (_RNG.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((33, 20), (20, 17)))
RIGHT = A.astype("f4") @ B.astype("f4")

_FIRM = """
api_version: 1
kernels:
  - name: firm_scale
    op: FIRM_SCALE
    template: firm_scale.cu.j2
    score: 50
    inputs: [{name: X, dtype: f32, shape: [N, C, H, W], layouts: [NHWC]}]
    outputs: [{name: Y, dtype: f32, shape: [N, C, H, W], layouts: [NHWC]}]
    launch: {grid: ["ceildiv(N * C * H * W, 256)"], block: [256]}
    reference: "X * 2"
"""
_TEMPLATE = """{{ headers }}
extern "C" __global__ void {{ kernel }}({{ params }}) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < {{ N * C * H * W }}) Y[i] = X[i] * 2.0f + (i == 0);
}
"""


def test_what_holds_what_is_what_numpy_says() -> None:
    """Of the same kind of number: NumPy also lets integers become floating point."""
    plain = [d for d in DTYPES.values() if d.kind in ("float", "int", "uint") and d.name != "bf16"]
    for wide in plain:
        for narrow in plain:
            same = (wide.kind == "float") == (narrow.kind == "float")
            assert holds(wide, narrow) == (same and np.can_cast(narrow.numpy, wide.numpy)), (
                f"{narrow} in {wide}"
            )
    bf16, f16, f32 = (DTYPES[n] for n in ("bf16", "f16", "f32"))
    assert holds(f32, bf16)
    assert not holds(bf16, f16)
    assert not holds(f16, bf16)
    assert not holds(DTYPES["i8"], DTYPES["bool"])


def test_a_product_of_bf16_runs_in_f32_and_comes_back() -> None:
    choice = ge2rt.choice("GEMM_BIAS_ACT", A, B, device="cpu")
    best = choice.chosen
    assert best is not None
    assert best.kernel.name == "gemm_bias_act_f32"
    assert best.score == 80 - 3 * COST
    for told in ("A bf16 -> f32 -10", "B bf16 -> f32 -10", "D f32 -> bf16 -10"):
        assert told in str(choice)
    got = ge2rt.launch("GEMM_BIAS_ACT", A, B, device="cpu")
    assert got.dtype == A.dtype
    assert np.array_equal(got, RIGHT.astype(A.dtype)) or np.allclose(
        got.astype("f4"), RIGHT, rtol=1e-2
    )


def test_the_callers_output_says_its_dtype() -> None:
    for dtype, rtol in (("f4", 1e-5), ("f2", 1e-3), (ml_dtypes.bfloat16, 1e-2)):
        out = np.full((33, 17), np.nan, dtype)
        got = ge2rt.launch("GEMM_BIAS_ACT", A[:, ::-1], B[::-1], out=out, device="cpu")
        assert got is out
        np.testing.assert_allclose(out.astype("f4"), RIGHT, rtol=rtol, atol=rtol)


def test_mixed_operands_meet_in_the_wider() -> None:
    x = _RNG.standard_normal((5, 9)).astype("f4")
    gamma = _RNG.standard_normal(9).astype("f2")
    got = ge2rt.launch("LAYERNORM", x, gamma, device="cpu")
    right = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5)


def test_values_are_never_narrowed_and_names_are_strict() -> None:
    wide = A.astype("f8"), B.astype("f8")
    with pytest.raises(UnsupportedError, match="expected f32, got f64"):
        ge2rt.launch("GEMM_BIAS_ACT", *wide, device="cpu")
    with pytest.raises(ge2rt.InvalidTypeError, match="dtype does not fit"):
        ge2rt.launch("gemm_bias_act_f32", A, B, device="cpu")


def test_the_contract_and_the_switch_forbid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    descs = {
        "buffers": [
            {"shape": list(s), "dtype": "bf16", "layout": "rowmajor", "device": "cpu"}
            for s in ((33, 20), (20, 17), (33, 17))
        ]
    }
    out = np.zeros((33, 17), A.dtype)
    pointers = [a.ctypes.data for a in (A, B, out)]
    assert ge2rt.launch_kernel("gemm_bias_act_f32", pointers, descs) == -1
    inputs, outputs = ({"buffers": descs["buffers"][k]} for k in (slice(2), slice(2, 3)))
    assert ge2rt.query_capability("GEMM_BIAS_ACT", inputs, outputs) == {}
    monkeypatch.setenv("GE2RT_NO_CONVERT", "1")
    with pytest.raises(UnsupportedError, match="no kernel of op type"):
        ge2rt.launch("GEMM_BIAS_ACT", A, B, device="cpu")


def _product() -> Graph:
    a, b = Tensor("a", A.shape, "bf16"), Tensor("b", B.shape, "bf16")
    c, d = Tensor("c", (33, 17), "bf16"), Tensor("d", (33, 17), "bf16")
    return Graph([Op("MATMUL", (a, b), (c,)), Op("RELU", (c,), (d,))], ["c", "d"])


def test_the_executor_puts_casts_into_its_graph() -> None:
    executor = Executor("cpu")
    names = [launch.kernel for launch in executor.prepare(_product())]
    assert names == ["cast", "cast", "gemm_bias_act_f32", "cast", "elementwise_unary"]
    result = executor.run(_product(), {"a": A, "b": B})
    np.testing.assert_allclose(result["c"].astype("f4"), RIGHT, rtol=1e-2, atol=1e-2)
    assert np.array_equal(result["d"], np.maximum(result["c"], 0))


def test_the_executor_obeys_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GE2RT_NO_CONVERT", "1")
    with pytest.raises(UnsupportedError, match="no kernel can run"):
        Executor("cpu").prepare(_product())


def test_a_layout_that_a_kernel_wants_is_made(tmp_path: Path) -> None:
    (tmp_path / "firm.yaml").write_text(_FIRM, "utf-8")
    (tmp_path / "firm_scale.cu.j2").write_text(_TEMPLATE, "utf-8")
    ge2rt.load_registry(tmp_path / "firm.yaml")
    try:
        shape = (2, 3, 4, 5)
        x = Tensor("x", shape, "f32", "NCHW")
        y = Tensor("y", shape, "f32", "NHWC")
        graph = Graph([Op("FIRM_SCALE", (x,), (y,))])
        data = _RNG.standard_normal(shape).astype("f4")
        result = Executor("cpu").run(graph, {"x": data})
        right = 2 * data
        right[0, 0, 0, 0] += 1
        got = result["y"].reshape(2, 4, 5, 3).transpose(0, 3, 1, 2)  # the memory is NHWC
        np.testing.assert_array_equal(got, right)
    finally:
        ge2rt.clear_caches()
