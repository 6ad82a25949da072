"""Operands that no kernel takes as they are are cast, but never by the contract."""

from __future__ import annotations

from collections.abc import Iterator
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
IMAGES = _RNG.standard_normal((2, 3, 4, 5)).astype(A.dtype)
ONLY_F32 = ("gemm_bias_act_any_ex", "gemm_bias_act_tc_f16")  # the others, to be excluded

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
    choice = ge2rt.choice("GEMM_BIAS_ACT", A, B, exclude=ONLY_F32, device="cpu")
    best = choice.chosen
    assert best is not None
    assert best.kernel.name == "gemm_bias_act_f32"
    assert best.score == 80 - 3 * COST
    for told in ("A bf16 -> f32 -10", "B bf16 -> f32 -10", "D f32 -> bf16 -10"):
        assert told in str(choice)
    got = ge2rt.launch("GEMM_BIAS_ACT", A, B, exclude=ONLY_F32, device="cpu")
    assert got.dtype == A.dtype
    assert np.array_equal(got, RIGHT.astype(A.dtype)) or np.allclose(
        got.astype("f4"), RIGHT, rtol=1e-2
    )


def test_the_callers_output_says_its_dtype() -> None:
    for dtype, rtol in (("f4", 1e-5), ("f2", 1e-3), (ml_dtypes.bfloat16, 1e-2)):
        out = np.full((33, 17), np.nan, dtype)
        got = ge2rt.launch(
            "GEMM_BIAS_ACT", A[:, ::-1], B[::-1], out=out, exclude=ONLY_F32, device="cpu"
        )
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
        ge2rt.launch("GEMM_BIAS_ACT", *wide, exclude=ONLY_F32, device="cpu")
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
    assert list(ge2rt.query_capability("GEMM_BIAS_ACT", inputs, outputs)) == [ONLY_F32[0]]
    monkeypatch.setenv("GE2RT_NO_CONVERT", "1")
    with pytest.raises(UnsupportedError, match="no kernel of op type"):
        ge2rt.launch("GEMM_BIAS_ACT", A, B, exclude=ONLY_F32, device="cpu")


@pytest.fixture
def firm(tmp_path: Path) -> Iterator[Graph]:
    """A graph of two ops over bf16 images in the order NCHW; the first takes f32 as NHWC only."""
    (tmp_path / "firm.yaml").write_text(_FIRM, "utf-8")
    (tmp_path / "firm_scale.cu.j2").write_text(_TEMPLATE, "utf-8")
    ge2rt.load_registry(tmp_path / "firm.yaml")
    x, y, z = (Tensor(name, IMAGES.shape, "bf16", "NCHW") for name in "xyz")
    yield Graph([Op("FIRM_SCALE", (x,), (y,)), Op("RELU", (y,), (z,))], ["y", "z"])
    ge2rt.clear_caches()


def test_the_executor_puts_casts_into_its_graph(firm: Graph) -> None:
    executor = Executor("cpu")
    launches = executor.prepare(firm)
    assert [launch.kernel for launch in launches] == [
        "cast", "firm_scale", "cast", "elementwise_unary"
    ]  # fmt: skip
    assert launches[0].op.outputs[0].layout == "NHWC"
    result = executor.run(firm, {"x": IMAGES})
    right = 2 * IMAGES.astype("f4")
    right[0, 0, 0, 0] += 1  # the first place in memory, whatever the order
    np.testing.assert_array_equal(result["y"], right.astype(IMAGES.dtype))
    np.testing.assert_array_equal(result["z"], np.maximum(result["y"], 0))


def test_the_executor_obeys_the_switch(firm: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GE2RT_NO_CONVERT", "1")
    with pytest.raises(UnsupportedError, match="no kernel can run"):
        Executor("cpu").prepare(firm)
