"""Selection: rule scores, reasons, forcing and excluding. No device runs anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.device.limits import virtual_gpu
from ge2rt.run.select import Refusal, choose, complete, require, rule_parts
from ge2rt.spec.descs import desc_of
from ge2rt.spec.registry import Registry, load_registry

YAML = """
api_version: 1
kernels:
  - name: plain
    op: MUL
    template: k.cu.j2
    score: 80
    inputs: [{name: A, dtype: f32, shape: [M, K]}, {name: B, dtype: f32, shape: [K, N]}]
    outputs: [{name: D, dtype: f32, shape: [M, N]}]
    launch: {grid: [1], block: [32]}
  - name: tensor
    op: MUL
    template: k.cu.j2
    score: 40
    types: {T: [f16, f32]}
    inputs: [{name: A, dtype: T, shape: [M, K]}, {name: B, dtype: T, shape: [K, N]}]
    outputs: [{name: D, dtype: T, shape: [M, N]}]
    requires: ["cc >= 8.0"]
    flags: {tensor_core: true}
    min_mnk: [128, 128, 64]
    launch: {grid: [1], block: [32]}
"""


@pytest.fixture
def kernels(tmp_path):
    (tmp_path / "k.cu.j2").write_text("")
    (tmp_path / "k.yaml").write_text(YAML)
    registry = load_registry(tmp_path / "k.yaml", into=Registry())
    return registry.kernels_of("MUL")


def inputs(m, n, k, dtype="f32"):
    return [desc_of((m, k), dtype), desc_of((k, n), dtype)]


def test_rule_scores_are_ge_v2s(kernels):
    props = virtual_gpu("sm_80", 1)
    small = choose(kernels, inputs(8, 8, 8), {}, props, infer=True)
    assert [(c.kernel.name, c.score) for c in small.candidates] == [("plain", 80), ("tensor", 70)]
    large = choose(kernels, inputs(128, 128, 64), {}, props, infer=True)
    assert large.chosen.kernel.name == "tensor"
    assert large.chosen.parts == {"declared": 40, "tensor_core": 30, "min_mnk": 20}
    almost = choose(kernels, inputs(128, 128, 63), {}, props, infer=True)
    assert almost.chosen.kernel.name == "plain"


def test_no_tensor_cores_no_bonus(kernels):
    props = replace(virtual_gpu("sm_80", 1), tensor_cores=False)
    assert rule_parts(kernels[1], props, None) == {"declared": 40}


def test_a_kernel_turned_down_keeps_its_reason(kernels):
    choice = choose(kernels, inputs(8, 8, 8, "f16"), {}, virtual_gpu("sm_80", 1), infer=True)
    assert choice.chosen.kernel.name == "tensor"
    refused = choice.candidates[1]
    assert refused.kernel.name == "plain"
    assert "f16" in refused.refusal.got
    assert "turned down" in str(choice)
    assert "-> tensor: 70 = declared 40 + tensor_core 30" in str(choice)


def test_requires_is_a_reason_with_code_minus_3(kernels):
    choice = choose(kernels, inputs(8, 8, 8, "f16"), {}, virtual_gpu("sm_75", 1), infer=True)
    assert choice.chosen is None
    with pytest.raises(UnsupportedError, match=r"cc >= 8\.0"):
        require(choice)


def test_a_wrong_attribute_is_minus_1_and_a_wrong_count_minus_3(kernels):
    props, given = virtual_gpu("sm_80", 1), inputs(8, 8, 8)
    with pytest.raises(InvalidArgumentError, match="plain, argument 'akt': unknown attribute"):
        require(choose(kernels, given, {"akt": 1}, props, infer=True))
    with pytest.raises(UnsupportedError, match=r"plain: turned down.*tensor: turned down"):
        require(choose(kernels, [*given, *given], {}, props))


def test_an_excluded_kernel_is_not_chosen(kernels):
    props = virtual_gpu("sm_80", 1)
    choice = choose(kernels, inputs(8, 8, 8), {}, props, exclude=["plain"], infer=True)
    assert choice.chosen.kernel.name == "tensor"
    assert "plain: excluded by the call" in str(choice)
    with pytest.raises(UnsupportedError, match="no kernel is left"):
        require(
            choose(kernels, inputs(8, 8, 8), {}, props, exclude=["plain", "tensor"], infer=True)
        )


def test_outputs_follow_from_inputs(kernels):
    descs = complete(kernels[0], inputs(2, 3, 4), {})
    assert descs[-1].shape == (2, 3)
    mismatch = complete(kernels[0], [desc_of((2, 4), "f32"), desc_of((5, 3), "f32")], {})
    assert isinstance(mismatch, Refusal)
    assert "K" in mismatch.message + mismatch.expected + mismatch.got


def test_query_capability_is_the_plain_table_without_descs():
    assert ge2rt.query_capability("GEMM_BIAS_ACT", {}, {}) == {
        "gemm_bias_act_f32": 80, "gemm_bias_act_tc_f16": 40, "gemm_bias_act_f32_ex": 30,
        "gemm_bias_act_any_ex": 20,
    }  # fmt: skip
    assert ge2rt.query_capability("GEMM_BIAS_ACT") == ge2rt.query_capability(
        "GEMM_BIAS_ACT", None, []
    )
    assert ge2rt.query_capability("NO_SUCH_OP", {}, {}) == {}


def test_query_capability_filters_by_descs():
    def desc(shape, dtype):
        return {"shape": shape, "dtype": dtype, "device": "cpu"}

    half = [desc([16, 32], "f16"), desc([32, 8], "f16")]
    single = [desc([16, 32], "f32"), desc([32, 8], "f32")]
    query = ge2rt.query_capability
    assert query("GEMM_BIAS_ACT", half, {}) == {
        "gemm_bias_act_tc_f16": 40, "gemm_bias_act_any_ex": 20,
    }  # fmt: skip
    assert query("GEMM_BIAS_ACT", {"buffers": single}, {}) == {
        "gemm_bias_act_f32": 80, "gemm_bias_act_f32_ex": 30,
    }  # fmt: skip
    assert query("GEMM_BIAS_ACT", {"A": single[0], "B": single[1]}, [desc([16, 8], "f32")]) == {
        "gemm_bias_act_f32": 80, "gemm_bias_act_f32_ex": 30,
    }  # fmt: skip
    assert query("GEMM_BIAS_ACT", single, [desc([16, 9], "f32")]) == {}
    with pytest.raises(InvalidArgumentError, match="dtype"):
        query("GEMM_BIAS_ACT", [desc([16, 32], "c64")], {})


def test_raw_tables():
    raw = ge2rt.ge_v2_capability_table_raw()
    assert raw["GEMM_BIAS_ACT__gemm_bias_act_tc_f16"] == 40
    assert raw["GEMM_BIAS_ACT__gemm_bias_act_f32"] == 80
    table = ge2rt.ge_v2_kernel_table_raw()
    assert sorted(table) == ge2rt.query_kernels()
    assert table["copy"]([1], {"buffers": []}) == -1
