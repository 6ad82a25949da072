"""Kernels files for the tests of the spec room."""

from __future__ import annotations

from pathlib import Path

from ge2rt.spec.model import KernelSpec
from ge2rt.spec.registry import Registry

GEMM = """\
api_version: 1
kernels:
  - name: gemm
    op: GEMM_BIAS_ACT
    template: k.cu.j2
    score: 80
    aliases: [gemm_ex]
    types: {T: [f32, f16]}
    inputs:
      - {name: A, dtype: T, shape: [M, K]}
      - {name: B, dtype: T, shape: [K, N]}
      - {name: bias, dtype: f32, shape: [N], optional: true}
    outputs:
      - {name: D, dtype: T, shape: [M, N]}
    attrs:
      act: {choices: [none, relu], default: none}
      slope: {type: float, default: 0.01, min: 0, max: 1, runtime: true}
      level: {default: 1, min: 1}
      fast: {default: false}
      axes: {type: ints, default: []}
    let: {MN: "M * N", TWICE: "2 * MN"}
    tunables: {BM: [64, 128]}
    prefer: {BM: "128 if M >= 4096 and kind == 'cuda' else 64"}
    requires: ["cc >= 7.0", "K > 0  # an empty sum is not for this kernel"]
    launch: {grid: ["ceildiv(N, 64)", "ceildiv(M, BM)"], block: [256]}
    reference: "act(A @ B + bias)"
    tolerance: {f32: {rtol: 1e-5, atol: 1e-5}}
    param_block: gemm_basic
"""


def write_file(folder: Path, text: str, name: str = "kernels.yaml") -> Path:
    """A kernels file in ``folder`` with the template ``k.cu.j2`` beside it."""
    (folder / "templates").mkdir(exist_ok=True)
    (folder / "templates" / "k.cu.j2").write_text("// empty\n")
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def one_kernel(folder: Path, **changes: str) -> KernelSpec:
    """The only kernel of a small file: sections given by name replace those of the base."""
    sections = {
        "types": "{T: [f32, f16]}",
        "inputs": "[{name: X, dtype: T, shape: ['*S']}]",
        "outputs": "[{name: Y, dtype: T, shape: ['*S']}]",
        "launch": "{grid: [1], block: [32]}",
        **changes,
    }
    lines = ["api_version: 1", "kernels:", "  - name: k", "    op: K", "    template: k.cu.j2"]
    lines += ["    score: 1", *(f"    {name}: {text}" for name, text in sections.items())]
    registry = Registry()
    registry.add_file(write_file(folder, "\n".join(lines) + "\n"))
    return registry.get("k")
