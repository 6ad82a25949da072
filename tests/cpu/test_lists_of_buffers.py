"""Kernels over lists of buffers: as many items as the call has, each with a shape of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import InvalidArgumentError, RegistryError
from ge2rt.device.registry import get_device
from ge2rt.run.case_arrays import make_arrays
from ge2rt.run.check import chosen, run_case
from ge2rt.run.launch import plan_for, prepare
from ge2rt.spec import reference
from ge2rt.spec.registry import Registry, default_registry

# P -= rate * G and C += 1 for each of a list of tensors; `total` is the number of elements.
DECLARED = """\
api_version: 1
kernels:
  - name: steps
    op: STEPS
    template: steps.cu.j2
    score: 10
    types: {T: [f32, f64]}
    inputs:
      - {name: G, many: 8, dtype: T, shape: ["*S?"]}
      - {name: rate, dtype: T, shape: []}
    outputs:
      - {name: P, many: 8, dtype: T, shape: ["*S?"], inout: true}
      - {name: C, many: 8, dtype: i32, shape: ["*S?"], inout: true}
      - {name: total, dtype: i64, shape: []}
    let: {ALL: "sum(size(P))"}
    iterate: {it: {over: [P, G, C]}}
    launch: {grid: ["max(sum(ceildiv(it_size, 64)), 1)"], block: [64]}
    reference: "stepped(P, G, C, rate)"
    cases: {ranks: {S: [[5], [7, 3], [], [0, 2], [2, 1, 70]]}}
  - name: glue
    op: GLUE
    template: glue.cu.j2
    score: 10
    types: {T: [f32, i32]}
    inputs: [{name: X, many: 8, dtype: T, shape: [N?, M]}]
    outputs: [{name: Y, dtype: T, shape: "joined(X, 0)"}]
    launch: {grid: [len(X)], block: [32]}
    reference: "glued(X)"
    cases: {dims: {N: [1, 4, 0, 7], M: [3, 40]}}
  - name: pick
    op: PICK
    template: pick.cu.j2
    score: 10
    inputs: [{name: X, dtype: f32, shape: [N]}, {name: at, dtype: i32, shape: [M], within: [0, N]}]
    outputs: [{name: Y, dtype: f32, shape: [M]}]
    launch: {grid: [M], block: [1]}
    reference: "picked(X, at)"
"""

PICK = """\
extern "C" __global__ void {{ kernel }}({{ params }}) {
  const int i = at[blockIdx.x * {{ at.strides[0] }}];
  Y[blockIdx.x * {{ Y.strides[0] }}] = X[(i < 0 || i >= {{ N }} ? 0 : i) * {{ X.strides[0] }}];
}
"""

STEPS = """\
extern "C" __global__ void {{ kernel }}({{ params }}) {
  int left = blockIdx.x;
  if (left == 0 && threadIdx.x == 0) *total = {{ ALL }};
{% for space in it %}
{% set p, g, c = P[loop.index0], G[loop.index0], C[loop.index0] %}
  if (left >= 0 && left < ({{ space.size }} + 63) / 64) {
    const int i = left * 64 + threadIdx.x;
    if (i < {{ space.size }}) {
      {{ accessor.locate(space, [p.name, g.name, c.name], "i") }}
      {{ p }}[{{ p }}_at] -= *rate * {{ g }}[{{ g }}_at];
      {{ c }}[{{ c }}_at] += 1;
    }
  }
  left -= ({{ space.size }} + 63) / 64;
{% endfor %}
}
"""

GLUE = """\
extern "C" __global__ void {{ kernel }}({{ params }}) {
  int first = 0;
{% for x in X %}
  if (blockIdx.x == {{ loop.index0 }}) {
    for (int i = threadIdx.x; i < {{ x.shape[0] }} * {{ M }}; i += 32)
      Y[(first + i / {{ M }}) * {{ Y.strides[0] }} + i % {{ M }} * {{ Y.strides[1] }}] =
        {{ x }}[i / {{ M }} * {{ x.strides[0] }} + i % {{ M }} * {{ x.strides[1] }}];
  }
  first += {{ x.shape[0] }};
{% endfor %}
}
"""


def stepped(P: Any, G: Any, C: Any, rate: Any) -> Any:
    moved = [p - rate * g for p, g in zip(P, G, strict=True)]
    return moved, [c + 1 for c in C], sum(p.size for p in P)


def picked(x: Any, at: Any) -> Any:
    return x[at]


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, function in (("stepped", stepped), ("glued", np.concatenate), ("picked", picked)):
        monkeypatch.setitem(reference._FUNCTIONS, name, function)
    accessor = '{% import "_accessor.cuh.j2" as accessor with context %}\n'
    (tmp_path / "steps.cu.j2").write_text(accessor + STEPS)
    (tmp_path / "glue.cu.j2").write_text(GLUE)
    (tmp_path / "pick.cu.j2").write_text(PICK)
    (tmp_path / "kernels.yaml").write_text(DECLARED)
    yield ge2rt.load_registry(tmp_path / "kernels.yaml")
    default_registry.clear()


def arrays(*shapes: tuple[int, ...]) -> tuple[list[Any], list[Any], list[Any]]:
    rng = np.random.default_rng(3)
    floats = [rng.standard_normal(s).astype(np.float32) for s in shapes * 2]
    return floats[: len(shapes)], floats[len(shapes) :], [np.zeros(s, np.int32) for s in shapes]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ["steps", "glue"])
def test_their_cases(registry: Any, name: str, dynamic: bool) -> None:
    drawn = chosen(registry.get(name))
    assert len({len(case.kernel.inputs) for case in drawn}) == 5
    device, arguments = get_device("cpu"), set()
    few = 3 if name == "glue" else 6  # its loops are slow to compile
    for case in sorted(drawn, key=lambda case: case.empty)[:few]:
        made = make_arrays(case)
        plan = plan_for(name, made.descs, case.attrs, device, dynamic=dynamic)
        plan.launch(made.pointers)
        assert not made.faults()
        arguments |= {slot.name for slot in plan._problem(True).args if slot.kind == "scalar"}
    assert bool(arguments) == dynamic


def test_launch_takes_the_items_one_by_one(registry: Any) -> None:
    g, p, c = arrays((3,), (2, 5), ())
    wanted = [a - np.float32(0.5) * b for a, b in zip(p, g, strict=True)]
    for name in ("steps", "STEPS"):
        mine = [a.copy() for a in p]
        result = ge2rt.launch(name, *g, np.float32(0.5), out=[*mine, *c, None])
        for got, right in zip(result[:3], wanted, strict=True):
            np.testing.assert_array_equal(got, right)
        assert result[0] is mine[0]
        assert result[-1] == 3 + 10 + 1
    assert [a.max() for a in c] == [2, 2, 2]


def test_the_contract_counts_descs(registry: Any) -> None:
    x, y, z = (
        np.ones((2, 3), np.float32),
        np.zeros((1, 3), np.float32),
        np.empty((3, 3), np.float32),
    )
    descs = {"buffers": [{"shape": list(a.shape), "dtype": "f32"} for a in (x, y, z)]}
    for _ in range(3):
        z[...] = 7
        assert ge2rt.launch_kernel("glue", [a.ctypes.data for a in (x, y, z)], descs) == 0
        np.testing.assert_array_equal(z, [[1] * 3, [1] * 3, [0] * 3])
    plan = prepare("glue", descs)
    assert [b.name for b in plan.bound.kernel.buffers] == ["X0", "X1", "Y"]
    assert plan([x.ctypes.data, z.ctypes.data]) == -1


def test_other_counts_are_other_kernels(registry: Any) -> None:
    one = np.ones((1, 3), np.int32)
    for count in (1, 4, 2):
        assert ge2rt.launch("glue", *[one] * count).shape == (count, 3)


def test_faults_name_the_item(registry: Any) -> None:
    g, p, c = arrays((3,), (4,))
    with pytest.raises(InvalidArgumentError) as caught:
        ge2rt.launch("steps", *g, np.float32(1), out=[p[0], np.ones(5, np.float32), *c, None])
    assert caught.value.record.argument == "P1"
    assert "S1 = [4] as in G1" in caught.value.record.expected
    with pytest.raises(InvalidArgumentError) as caught:
        ge2rt.launch("steps", *g, np.float32(1), out=[p[0], None, *c, None])
    assert caught.value.record.argument == "P1"
    assert "contents are read" in caught.value.record.message
    with pytest.raises(InvalidArgumentError) as caught:
        ge2rt.launch("glue", np.ones((1, 3), np.float32), np.ones((1, 4), np.float32))
    assert caught.value.record.argument == "X1"


def test_wrong_counts_are_told(registry: Any) -> None:
    x = [np.ones((1, 3), np.float32)] * 9
    with pytest.raises(InvalidArgumentError, match="wrong number of inputs") as caught:
        ge2rt.launch("glue", *x)
    assert caught.value.record.expected == "X... (1 to 8 of X)"
    descs = {"buffers": [{"shape": [1], "dtype": "f32"}] * 6}
    assert ge2rt.launch_kernel("steps", [64] * 6, descs) == -1
    assert "G..., rate, P..., C..., total (1 to 8 each of G, P, C)" in str(ge2rt.last_error())
    g, p, c = arrays((3,))
    with pytest.raises(InvalidArgumentError, match="wrong number of outputs"):
        ge2rt.launch("steps", *g, np.float32(1), out=[*p, *c])
    with pytest.raises(InvalidArgumentError, match="contents are read"):
        ge2rt.launch("steps", *g, np.float32(1))


def test_values_have_bounds_where_the_host_sees_them(registry: Any) -> None:
    x, at = np.arange(5, dtype=np.float32), np.array([4, 0, 2, 1], np.int32)
    for _ in range(3):  # also once the plan has run
        np.testing.assert_array_equal(ge2rt.launch("pick", x, at[::2]), [4, 2])
        for wrong in (5, -1):
            at[2] = wrong
            with pytest.raises(ValueError, match="value out of range") as caught:
                ge2rt.launch("pick", x, at[::2])
            assert caught.value.record.argument == "at"
            assert caught.value.record.expected == "0 <= at < 5"
            assert caught.value.record.got == f"{wrong} at [1]"
        at[2] = 2
    assert not [o.faults for c in chosen(registry.get("pick"))[:4]
                if (o := run_case(c, get_device("cpu"))).faults]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("within: [0, N]", "within: [0, K]", "unknown name 'K'"),
        ("over: [P, G, C]", "over: [P, G, C], view: {rate: rate}", "unknown operand 'rate'"),
        ("over: [P, G, C]", 'over: [P, G, C], view: {P: "dropped(P, K)"}', "unknown name 'K'"),
        ("Y, dtype: f32, shape: [M]", "Y, dtype: f32, shape: [M], within: [0, 1]", "only the"),
        ("many: 8, dtype: i32", "many: 9, dtype: i32", "all lists have as many items: 8, as in G"),
        ("shape: [N?, M]", 'shape: [N?, M], optional: true', "beside lists no buffer is optional"),
        ("name: rate, dtype: T, shape: []", "name: rate, dtype: T, shape: [R?]", "this is no list"),
        ("name: rate", "name: P3", "'P3' is that of an item of 'P'"),
        ("name: rate, dtype: T, shape: []", "name: rate, dtype: T, shape: [S7]", "an item of 'S'"),
        ("name: rate, dtype: T, shape: []", 'name: rate, dtype: T, shape: ["*S"]', "used twice"),
        ("many: 8, dtype: T, shape: [N?", "many: 0, dtype: T, shape: [N?", "greater than or equal"),
        ("ranks: {S:", "ranks: {Q:", "unknown dimension 'Q'"),
        ('["*S?"], inout: true}\n      - {name: C', '["*S?"], overlap: [rate]}\n      - {name: C',
         "a list overlaps a list"),
    ],
)  # fmt: skip
def test_faults_of_a_declaration(
    tmp_path: Path, registry: Any, old: str, new: str, fault: str
) -> None:
    assert old in DECLARED
    (tmp_path / "other.yaml").write_text(DECLARED.replace(old, new, 1))
    with pytest.raises(RegistryError) as caught:
        Registry().add_file(tmp_path / "other.yaml")
    assert fault in str(caught.value)
