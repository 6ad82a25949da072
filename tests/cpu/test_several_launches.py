"""Kernels of several launches, with memory of their own, and outputs whose contents are read."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.base import switches
from ge2rt.base.errors import InvalidArgumentError, RegistryError
from ge2rt.device.registry import get_device
from ge2rt.run.check import chosen, run_case
from ge2rt.spec.registry import Registry, default_registry

# Y += the sum of X (or its mean), by partial sums of blocks in a workspace.
DECLARED = """\
api_version: 1
kernels:
  - name: add_sum
    op: ADD_SUM
    template: add_sum.cu.j2
    score: 10
    types: {T: [f32, f64]}
    inputs: [{name: X, dtype: T, shape: [N]}]
    outputs: [{name: Y, dtype: T, shape: [1], inout: true}]
    attrs: {mean: {default: false}}
    tunables: {TH: [64]}
    workspace:
      count: {dtype: i32, size: "1"}
      partial: {dtype: T, size: "ceildiv(N, TH)"}
    launch: {grid: ["ceildiv(N, TH)"], block: [TH]}
    then:
      - {entry: finish, grid: [1], block: [32]}
      - {entry: divide, grid: [1], block: [1], when: mean}
    reference: "(Y + reduce('sum', X, (), True)) / (N if mean else 1)"
    tolerance: {f32: {rtol: 1.0e-5, atol: 1.0e-4}}
    cases: {dims: {N: [64, 1, 1000, 65, 129]}, values: {X: ["-N", N]}}
"""

TEMPLATE = """\
extern "C" __global__ void {{ kernel }}({{ params }}) {
  __shared__ {{ T }} part[{{ TH }}];
  const int i = blockIdx.x * {{ TH }} + threadIdx.x;
  part[threadIdx.x] = i < {{ N }} ? X[i * {{ X.strides[0] }}] : 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    {{ T }} sum = 0;
    for (int k = 0; k < {{ TH }}; ++k) sum += part[k];
    partial[blockIdx.x] = sum;
    if (blockIdx.x == 0) *count = gridDim.x;
  }
}
extern "C" __global__ void {{ kernel }}_finish({{ params }}) {
  if (threadIdx.x == 0) for (int k = 0; k < *count; ++k) *Y += partial[k];
}
extern "C" __global__ void {{ kernel }}_divide({{ params }}) { *Y /= {{ N }}; }
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Any:
    (tmp_path / "add_sum.cu.j2").write_text(TEMPLATE)
    (tmp_path / "kernels.yaml").write_text(DECLARED)
    yield ge2rt.load_registry(tmp_path / "kernels.yaml").get("add_sum")
    default_registry.clear()


def descs(n: int, **attrs: Any) -> dict[str, Any]:
    return {
        "buffers": [{"shape": [n], "dtype": "f32"}, {"shape": [1], "dtype": "f32"}],
        "attrs": attrs,
    }


def test_its_cases(kernel: Any) -> None:
    cases = chosen(kernel)
    assert {c.attrs.get("mean", False) for c in cases} == {False, True}
    assert not [o.faults for o in (run_case(c, get_device("cpu")) for c in cases) if o.faults]


@pytest.mark.parametrize("check", ["", "memory,race,init,sync"])
def test_contents_are_read_and_launches_follow_each_other(kernel: Any, check: str) -> None:
    x, y = np.arange(200, dtype=np.float32), np.array([5], np.float32)
    with switches.setting("GE2RT_CHECK", check):
        ge2rt.launch("add_sum", x, out=y)
        ge2rt.launch("add_sum", x, out=y, mean=True)
    assert y[0] == (5 + 2 * x.sum()) / 200


def test_a_missing_inout_output_is_told(kernel: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="contents are read") as caught:
        ge2rt.launch("add_sum", np.ones(3, np.float32))
    assert "out=" in caught.value.record.next_step


def test_the_workspace_can_be_asked_for_and_given(kernel: Any) -> None:
    plan = ge2rt.prepare("add_sum", descs(1000))
    assert plan.workspace == 256 + 256  # 1 count, 16 sums, each from a multiple of 256 on
    x, y = np.ones(1000, np.float32), np.zeros(1, np.float32)
    room = np.zeros(plan.workspace + 256, np.uint8)
    address = -(-room.ctypes.data // 256) * 256
    assert plan([x.ctypes.data, y.ctypes.data], 0, address) == 0
    assert y[0] == 1000
    assert room.any()  # it was used
    assert plan([x.ctypes.data, y.ctypes.data], 0, address + 4) == -1
    assert "multiple of 256" in str(ge2rt.last_error())
    assert y[0] == 1000


def test_a_workspace_for_a_kernel_without_one_is_told() -> None:
    plan = ge2rt.prepare("copy", {"buffers": [{"shape": [4], "dtype": "f32"}] * 2})
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    assert plan.workspace == 0
    assert plan([x.ctypes.data, y.ctypes.data], 0, 4096) == -1
    assert not y.any()


def test_threads_at_once_have_workspaces_of_their_own(kernel: Any) -> None:
    plan, wrong = ge2rt.prepare("add_sum", descs(5000)), []

    def work(value: float) -> None:
        x, y = np.full(5000, value, np.float32), np.zeros(1, np.float32)
        for _ in range(50):
            y[0] = 0
            plan([x.ctypes.data, y.ctypes.data])
            if y[0] != 5000 * value:
                wrong.append((value, float(y[0])))

    threads = [threading.Thread(target=work, args=(v,)) for v in (1.0, 2.0, 3.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_missing_function_is_told(tmp_path: Path, kernel: Any) -> None:
    (tmp_path / "add_sum.cu.j2").write_text(TEMPLATE.replace("_divide(", "_other("))
    with pytest.raises(Exception, match="_divide") as caught:
        ge2rt.prepare("add_sum", descs(10, mean=True))
    assert "_divide({{ params }})" in caught.value.record.next_step


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("entry: divide", "entry: finish", "'finish' is launched already"),
        ("dtype: i32", "dtype: int", "unknown dtype 'int'"),
        ('size: "1"', "size: M", "unknown name 'M'"),
        ("when: mean", "when: median", "unknown name 'median'"),
        ("values: {X:", "values: {Z:", "unknown buffer 'Z'"),
        ("shape: [N]}", "shape: [N], inout: true}", "stands among the outputs"),
        ("{entry: finish, ", "{", "missing key 'entry'"),
    ],
)
def test_faults_of_a_declaration(tmp_path: Path, old: str, new: str, fault: str) -> None:
    (tmp_path / "add_sum.cu.j2").write_text(TEMPLATE)
    assert old in DECLARED
    (tmp_path / "kernels.yaml").write_text(DECLARED.replace(old, new, 1))
    with pytest.raises(RegistryError) as caught:
        Registry().add_file(tmp_path / "kernels.yaml")
    assert fault in str(caught.value)
