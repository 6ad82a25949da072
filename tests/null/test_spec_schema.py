"""Every fault of a kernels file at once, each with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_files import GEMM, write_file

from ge2rt.base.errors import RegistryError, VersionError
from ge2rt.spec.registry import Registry

BROKEN = """\
api_version: 1
kernelz: 3
kernels:
  - name: Layernorm
    op: LAYERNORM
    template: kk.cu.j2
    score: high
    types: {T: [f32, f17]}
    inputs:
      - {name: X, dtype: T, shape: ["*B", N], optinal: true}
      - {name: gamma, dtype: float32, shape: [N]}
    outputs: [{name: Y, dtype: T, shape: "broadcst(N)", overlap: [Z]}]
    attrs: {eps: {type: flot, default: 1e-5}}
    launch: {grid: ["ceildiv(N, BN"], block: [256], sharedd: "0"}
    tolerance: {f33: {rtol: 1e-5}}
  - name: a
    name: b
    op: X
    template: ../x
    score: 1
    inputs: [{name: A, dtype: f32, shape: [M, K]}]
    outputs: [{name: D, dtype: f31, shape: [M], overlap: [Q]}]
    let: {R: "M * L", L: "K"}
    prefer: {BK: 3}
    tunables: {BM: [1]}
    attrs: {act: {choices: [none, relu], default: gelu}, z: {}}
    launch: {grid: ["ceildiv(MM, BM)"], block: ["cc + BX"]}
    reference: "act(A) + foo"
"""

FAULTS = """\
2:1 kernelz: unknown key. Did you mean 'kernels'?
4:11 kernels[0].name: expected a lower case name, got 'Layernorm'
6:15 kernels[0].template: no template 'kk.cu.j2' here. Did you mean 'k.cu.j2'?
7:12 kernels[0].score: expected a whole number, got 'high'
8:22 kernels[0].types.T[1]: unknown dtype 'f17'. Did you mean 'f16'?
10:47 kernels[0].inputs[0].optinal: unknown key. Did you mean 'optional'?
11:30 kernels[0].inputs[1].dtype: unknown dtype 'float32'. Did you mean 'f32'?
12:42 kernels[0].outputs[0].shape: expression 'broadcst(N)', column 1: unknown function \
'broadcst'. Did you mean 'broadcast'?
13:25 kernels[0].attrs.eps.type: expected int | float | bool | str | ints | dtype, got 'flot'. \
Did you mean 'float'?
14:21 kernels[0].launch.grid[0]: expression 'ceildiv(N, BN', column 8: syntax: '(' was never closed
14:53 kernels[0].launch.sharedd: unknown key. Did you mean 'shared'?
15:17 kernels[0].tolerance.f33: unknown dtype 'f33'. Did you mean 'f32'?
17:5 kernels[1].name: duplicate key, first on line 16
19:15 kernels[1].template: a template's name cannot leave its folder
22:32 kernels[1].outputs[0].dtype: unknown dtype 'f31'. Did you mean 'f32'?
22:59 kernels[1].outputs[0].overlap[0]: unknown input 'Q'; known: A
23:14 kernels[1].let.R: unknown name 'L' in 'M * L'; known: A, D, K, M, act, z
24:14 kernels[1].prefer.BK: unknown tunable 'BK'; known: BM
26:51 kernels[1].attrs.act.default: the default does not fit: expected none | relu, got 'gelu'
26:58 kernels[1].attrs.z: the type is not clear from default and choices; add `type:`
27:21 kernels[1].launch.grid[0]: unknown name 'MM' in 'ceildiv(MM, BM)'. Did you mean 'M'?
27:49 kernels[1].launch.block[0]: unknown name 'BX' in 'cc + BX'; known: A, BM, D, K, L, M, R, \
act, cc, kind, tensor_cores, z
28:16 kernels[1].reference: unknown name 'foo' in 'act(A) + foo'; known: A, D, K, L, M, R, act, z
"""


def faults_of(folder: Path, text: str) -> list[str]:
    path = write_file(folder, text)
    registry = Registry()
    with pytest.raises(RegistryError) as caught:
        registry.add_file(path)
    assert len(registry) == 0
    assert all(fault.startswith(f"{path}:") for fault in caught.value.faults)
    assert all(fault in str(caught.value) for fault in caught.value.faults)
    return [fault.removeprefix(f"{path}:") for fault in caught.value.faults]


def test_all_faults_at_once(tmp_path: Path) -> None:
    assert faults_of(tmp_path, BROKEN) == FAULTS.splitlines()


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("    score: 80\n", "", "3:5 kernels[0]: missing key 'score'"),
        ("name: gemm\n", "name: 3\n", "3:11 kernels[0].name: expected a string, got 3"),
        ("name: gemm\n", "name: []\n", "3:11 kernels[0].name: expected a string, got a list"),
        ("api_version: 1", "# none", "2:1 missing key 'api_version'"),
        ("api_version: 1", "api_version: '1'", "1:14 api_version: expected a whole number, got "
         "'1'"),
        ("name: bias, dtype: f32", "name: bias", "12:9 kernels[0].inputs[2]: missing key 'dtype'"),
        ("optional: true", "optional: yes", "12:56 kernels[0].inputs[2].optional: expected true or "
         "false, got 'yes'"),
        ("name: bias", "name: A", "12:16 kernels[0].inputs[2].name: the name 'A' is used twice: "
         "a buffer and a buffer"),
        ("name: B,", "name: cc,", "11:16 kernels[0].inputs[1].name: the name 'cc' is a fact of the "
         "device"),
        ("name: B,", "name: K,", "11:16 kernels[0].inputs[1].name: the name 'K' is used twice: a "
         "dimension and a buffer"),
        ("name: B,", "name: class,", "11:16 kernels[0].inputs[1].name: 'class' cannot be a name: "
         "letters, digits and _, no word of C++ or Python"),
        ("shape: [M, K]", 'shape: ["*M", "*K"]', '10:36 kernels[0].inputs[0].shape: a shape can '
         'have '
         'one "*NAME" only'),
        ("shape: [M, K]", "shape: [M, -1]", '10:36 kernels[0].inputs[0].shape: a shape takes '
         'names, '
         '"*NAME" and numbers, not -1'),
        ("shape: [M, K]", 'shape: "M"', "10:36 kernels[0].inputs[0].shape: an input's shape is a "
         "list "
         "of names, not an expression"),
        ("act: {choices", "act: {runtime: true, choices", "16:22 kernels[0].attrs.act.runtime: "
         "only "
         "int and float can be runtime, not str"),
        ("default: 0.01", "default: 1.5", "17:37 kernels[0].attrs.slope.default: the default "
         "does not "
         "fit: expected float >= 0 and <= 1, got 1.5"),
        ("block: [256]", "block: []", "25:65 kernels[0].launch.block: expected at least 1 items, "
         "got 0"),
        ("block: [256]", "block: [true]", "25:66 kernels[0].launch.block[0]: expected an "
         "expression, "
         "got True"),
        ("rtol: 1e-5", "rtol: -1", "27:29 kernels[0].tolerance.f32.rtol: input should be greater "
         "than "
         "or equal to 0, got -1"),
        ("param_block: gemm_basic", "param_block: gemm_basik", "28:18 kernels[0].param_block: "
         "expected "
         "gemm_basic | gemm_forward_ex | gemm_backward_ex, got 'gemm_basik'. Did you mean "
         "'gemm_basic'?"),
        ("let: {MN:", "let: {M-N:", "21:11 kernels[0].let.M-N: 'M-N' cannot be a name: letters, "
         "digits "
         "and _, no word of C++ or Python"),
        ("aliases: [gemm_ex]", "aliases: [gemm]", "7:15 kernels[0].aliases[0]: 'gemm' is taken by "
         "kernels[0]"),
        ("param_block: gemm_basic", "cases: {dims: {Q: [1]}, attrs: [{akt: relu}]}", "28:20 "
         "kernels[0]"
         ".cases.dims.Q: unknown dimension 'Q'; known: K, M, N"),
        ("M, N]}\n    attrs", "M, N], dtype: 'attr:nope'}\n    attrs", "14:44 kernels[0].outputs[0]"
         ".dtype: duplicate key, first on line 14"),
        ("{name: D, dtype: T", "{name: D, dtype: 'attr:act'", "14:26 "
         "kernels[0].outputs[0].dtype: no "
         "attribute 'act' of type dtype"),
        ("let: {MN:", "let: {M:", "21:11 kernels[0].let.M: the name 'M' is used twice: a dimension "
         "and in 'let'"),
        ("slope: {type: float", "N: {type: float", "17:7 kernels[0].attrs.N: the name 'N' is used "
         "twice: a dimension and a float in 'attrs'"),
        ("shape: [M, K]", "shape: [block, K]", "10:37 kernels[0].inputs[0].shape[0]: every "
         "template has a name 'block' of its own"),
        ("shape: [M, K]", "shape: [cc, K]", "10:37 kernels[0].inputs[0].shape[0]: the name 'cc' is "
         "a fact of the device"),
        ('"ceildiv(N, 64)"', '"N / 64 + 1"', "25:21 kernels[0].launch.grid[0]: N / 64 + 1 is no "
         "whole number; write ceildiv(N, 64) or N // 64"),
        ('"ceildiv(N, 64)"', '"(N + 63) / 64"', "25:21 kernels[0].launch.grid[0]: (N + 63) / 64 "
         "is no whole number; write ceildiv(N, 64) or N // 64"),
        ('"ceildiv(N, 64)"', '"M * N / 64 / 2"', "25:21 kernels[0].launch.grid[0]: M * N / 64 / 2 "
         "is no whole number; write ceildiv(N, 256) or N // 256"),
        ("block: [256]", "block: [2.5]", "25:66 kernels[0].launch.block[0]: 2.5 is no whole "
         "number; write ceildiv(N, 256) or N // 256"),
    ],
)  # fmt: skip
def test_one_fault(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in GEMM
    assert fault in faults_of(tmp_path, GEMM.replace(old, new, 1))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "1:1 expected a mapping, got nothing"),
        ("- 1", "1:1 expected a mapping, got a list"),
        ("api_version: 1\nkernels: 3", "2:10 kernels: expected a list, got 3"),
        ("api_version: 1\nkernels: [3]", "2:11 kernels[0]: expected a mapping, got 3"),
        (
            "a: [1,\n",
            "2:1 YAML syntax: while parsing a flow node: did not find expected node content; close "
            "the bracket, or give a value",
        ),
    ],
)
def test_not_a_kernels_file(tmp_path: Path, text: str, fault: str) -> None:
    assert fault in faults_of(tmp_path, text)


def test_output_extents_follow_from_the_rest(tmp_path: Path) -> None:
    text = GEMM.replace("    param_block: gemm_basic\n", "")
    wide = text.replace("dtype: T, shape: [M, N]", "dtype: T, shape: [M, Q]")
    (fault,) = faults_of(tmp_path, wide)
    assert fault == (
        "14:40 kernels[0].outputs[0].shape[1]: output extent Q is not bound by any input, "
        'attribute or let; give a formula, such as shape: "(2 * N,)"'
    )
    bound = ("let: {MN", "let: {Q: 4, MN"), ("attrs:\n", "attrs:\n      Q: {default: 4}\n")
    for old, new in (*bound, ("[M, Q]", "[M, 7]"), ("[M, Q]", '"(M, int(N / 2))"')):
        Registry().add_file(write_file(tmp_path, wide.replace(old, new, 1)))


def test_a_whole_number_may_come_from_a_division(tmp_path: Path) -> None:
    Registry().add_file(write_file(tmp_path, GEMM.replace("ceildiv(N, 64)", "int(N / 64) + 1")))


def test_another_api_version(tmp_path: Path) -> None:
    path = write_file(tmp_path, GEMM.replace("api_version: 1", "api_version: 2"))
    with pytest.raises(VersionError, match="expected api_version: 1, got 2") as caught:
        Registry().add_file(path)
    assert caught.value.record.where == f"{path}:1:14"


def test_the_base_file_is_right(tmp_path: Path) -> None:
    registry = Registry()
    registry.add_file(write_file(tmp_path, GEMM))
    assert registry.names() == ["gemm"]
