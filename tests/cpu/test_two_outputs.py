"""A kernel of several outputs: what ``out`` may say, and parameter lists written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ge2rt
from ge2rt.base.errors import CompileError, InvalidArgumentError

DECLARATION = """\
api_version: 1
kernels:
  - name: both_signs
    op: BOTH_SIGNS
    template: both_signs.cu.j2
    score: 1
    inputs: [{name: x, dtype: f32, shape: [N]}]
    outputs:
      - {name: y, dtype: f32, shape: [N]}
      - {name: z, dtype: f32, shape: [N]}
      - {name: w, dtype: f32, shape: [N], optional: true}
    attrs: {scale: {type: float, default: 1.0, runtime: true}}
    launch: {grid: ["ceildiv(N, 64)"], block: [64]}
"""
TEMPLATE = """\
extern "C" __global__ void {{ kernel }}(PARAMETERS) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < {{ N }}) {
    y[i * {{ y.strides[0] }}] = scale * x[i * {{ x.strides[0] }}];
    z[i * {{ z.strides[0] }}] = -scale * x[i * {{ x.strides[0] }}];
    {% if w.present %}w[i * {{ w.strides[0] }}] = 0.0f;{% endif %}
  }
}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Path]:
    """The declaration; a test writes its template to the path that it gets."""
    ge2rt.clear_caches()
    (tmp_path / "mine.yaml").write_text(DECLARATION)
    template = tmp_path / "both_signs.cu.j2"
    template.write_text(TEMPLATE.replace("PARAMETERS", "{{ params }}"))
    ge2rt.load_registry(tmp_path / "mine.yaml")
    yield template
    ge2rt.clear_caches()


def test_out_may_be_a_list_or_leave_some_to_be_allocated(kernel: Path) -> None:
    x = np.arange(8, dtype=np.float32)
    y, z, w = ge2rt.launch("both_signs", x, device="cpu")
    assert w is None
    assert np.array_equal(y, x)
    assert np.array_equal(z, -x)
    mine = np.empty_like(x)
    for out in ([mine, None, None], (mine, None, np.ones_like(x))):
        mine.fill(7)
        y, z, w = ge2rt.launch("both_signs", x, device="cpu", out=out)
        assert y is mine
        assert np.array_equal(mine, x)
        assert np.array_equal(z, -x)
        assert w is out[2]
    assert not w.any()
    with pytest.raises(InvalidArgumentError, match="wrong number of outputs; expected 3, got 2"):
        ge2rt.launch("both_signs", x, device="cpu", out=[mine, mine])


BUFFERS = "const float* x, float* y, float* z"


@pytest.mark.parametrize(
    ("parameters", "fault"),
    [
        (BUFFERS + ", float scale", ""),
        (
            "const float* x, float* y, float scale",
            r"the kernel has 3 parameters; expected 4: x \(a pointer, 8 bytes\), y",
        ),
        (
            BUFFERS + ", double scale",
            r"parameter 4 is f64 \(8 bytes\); expected scale \(f32, 4 bytes",
        ),
        (
            BUFFERS + ", int scale",
            r"parameter 4 is [us]32 \(4 bytes\); expected scale \(f32, 4 bytes",
        ),
        (
            "float scale, " + BUFFERS,
            r"parameter 1 is f32 \(4 bytes\); expected x \(a pointer, 8 bytes",
        ),
    ],
)
def test_written_parameters_must_agree_with_the_declaration(
    kernel: Path, parameters: str, fault: str
) -> None:
    kernel.write_text(
        f'extern "C" __global__ void {{{{ kernel }}}}({parameters}) '
        "{ y[threadIdx.x] = scale * x[threadIdx.x]; }"
    )
    x = np.arange(64, dtype=np.float32)
    if not fault:
        assert np.array_equal(ge2rt.launch("both_signs", x, device="cpu")[0], x)
        return
    with pytest.raises(CompileError, match=fault) as caught:
        ge2rt.launch("both_signs", x, device="cpu")
    assert "{{ params }}" in caught.value.record.next_step
