"""What can be known of GPU code without a GPU: registers and spills by ptxas, instructions by name.

For each kernel and architecture NVRTC builds a cubin with ``--ptxas-options=-v``, whose log tells
registers, stack frame and spills. Instructions are looked for in the PTX (``mma.sync``,
``ldmatrix``, ``cp.async``, 128-bit accesses) and, where nvdisasm is found (pip install
nvidia-cuda-nvdisasm), in the machine code too (``HMMA``, ``LDSM``, ``LDGSTS``, ``LDG.*128``).

Usage: python scripts/static_check.py [--arch sm_80,sm_90]
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ge2rt.base.errors import CompileError
from ge2rt.build import nvrtc
from ge2rt.build.compile import source_of
from ge2rt.build.problem import make_problem
from ge2rt.build.records import Problem
from ge2rt.cli.calls import parse_inputs
from ge2rt.run.case_arrays import make_arrays
from ge2rt.run.cases import cases_for
from ge2rt.run.offline import arch_props, problem_for
from ge2rt.spec.match import match
from ge2rt.spec.model import KernelSpec, Refusal
from ge2rt.spec.registry import default_registry

ARCHES = ("sm_80", "sm_90")

_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")

TENSOR = {"mma.sync": r"\bHMMA\b", "ldmatrix": r"\bLDSM\b", "cp.async": r"\bLDGSTS\b"}
WIDE = {r"ld\.global[.\w]*\.v4\.\w*32|ld\.global[.\w]*\.v2\.\w*64": r"\bLDG\.[.\w]*128\b"}


@dataclass(frozen=True)
class Promise:
    """A call whose code must hold instructions: PTX pattern -> pattern of the machine code."""

    kernel: str
    inputs: tuple[str, ...]
    wanted: Mapping[str, str]
    attrs: Mapping[str, Any] = field(default_factory=dict)


PROMISES = (
    Promise("gemm_bias_act_tc_f16", ("f16[1024,1024]", "f16[1024,1024]", "f32[1024]"), TENSOR),
    Promise("gemm_bias_act_tc_f16", ("f16[256,128]", "f16[128,96]"), TENSOR, {"act": "gelu"}),
    Promise("copy", ("f32[1048576]",), WIDE),
    Promise("copy", ("f16[1024,1024]",), WIDE),
    Promise("elementwise_unary", ("f32[1048576]",), WIDE, {"op": "gelu"}),
    Promise("elementwise_binary", ("f32[1048576]", "f32[1048576]"), WIDE, {"op": "add"}),
    Promise("softmax", ("f32[4096,1024]",), WIDE),
    Promise("layernorm", ("f32[4096,1024]", "f32[1024]", "f32[1024]"), WIDE),
    Promise("reduce", ("f32[1048576]",), WIDE, {"op": "sum"}),
    Promise("attention", ("f32[8,512,64]",) * 3, WIDE, {"causal": True}),
    Promise("attention", ("f16[8,1,128]", "f16[8,512,128]", "f16[8,512,128]"), WIDE),
    Promise("scan", ("f32[4096,1024]",), WIDE, {"op": "cumsum"}),
)


@dataclass(frozen=True)
class Code:
    """One compiled specialisation and what is known of it."""

    kernel: str
    call: str
    arch: str
    registers: int
    frame: int
    spills: int
    shared: int
    missing: tuple[str, ...] = ()
    fault: str = ""

    @property
    def good(self) -> bool:
        """No spills, and everything promised is there."""
        return not (self.fault or self.spills or self.missing)

    def __str__(self) -> str:
        text = f"{self.kernel}({self.call}) {self.arch}: {self.registers} registers"
        text += f", {self.shared} B shared" if self.shared else ""
        text += f", {self.frame} B stack" if self.frame else ""
        text += f", {self.spills} B SPILLED" if self.spills else ""
        text += f", WITHOUT {', '.join(self.missing)}" if self.missing else ""
        return text + (f", {self.fault}" if self.fault else "")


def nvdisasm() -> str:
    """Path of the disassembler: on PATH, or as its wheel installs it; "" if there is none."""
    places = (Path(root) / "nvidia" for root in sys.path if root)
    wheels = (p for place in places if place.is_dir() for p in place.glob("*/bin/nvdisasm*"))
    return shutil.which("nvdisasm") or str(next(wheels, ""))


def machine_code(cubin: bytes) -> str:
    """The cubin's instructions as text, "" without a disassembler."""
    tool = nvdisasm()
    if not tool:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([tool, "-c", path], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def inspect(problem: Problem, call: str, wanted: Mapping[str, str]) -> Code:
    """Compile one specialisation; look into ptxas's report, the PTX and the machine code."""
    source, arch = source_of(problem), problem.arch
    built = nvrtc.compile_cuda(
        source.text, source.name, arch=arch, kind="cubin",
        options=(*source.options, "--ptxas-options=-v"),
    )  # fmt: skip
    if not built.ok:
        return Code(problem.kernel.name, call, arch, 0, 0, 0, 0, fault=built.log.strip())
    frames = [[int(n) for n in found] for found in _FRAME.findall(built.log)]
    if not frames:
        return Code(problem.kernel.name, call, arch, 0, 0, 0, 0, fault="ptxas reported nothing")
    return Code(
        problem.kernel.name, call, arch,
        registers=max((int(n) for n in _REGISTERS.findall(built.log)), default=0),
        frame=max(frame for frame, _, _ in frames),
        spills=sum(stores + loads for _, stores, loads in frames),
        shared=max((int(n) for n in _SHARED.findall(built.log)), default=0),
        missing=_missing(problem, built.data, wanted),
    )  # fmt: skip


def _missing(problem: Problem, cubin: bytes, wanted: Mapping[str, str]) -> tuple[str, ...]:
    if not wanted:
        return ()
    source = source_of(problem)
    ptx = nvrtc.compile_cuda(
        source.text, source.name, arch=problem.arch, kind="ptx", options=source.options
    ).data.decode()
    machine = machine_code(cubin)
    lost = [pattern for pattern in wanted if not re.search(pattern, ptx)]
    lost += [p for p in wanted.values() if machine and not re.search(p, machine)]
    return tuple(lost)


def _of_types(kernel: KernelSpec, arch: str) -> Iterator[tuple[str, Problem]]:
    """One specialisation for each choice of dtypes, from the kernel's own cases."""
    props, seen = arch_props(arch), set()
    for case in cases_for(kernel):
        types = ",".join(case.types.values()) or "-"
        if types in seen or any(0 in shape for shape in case.shapes.values()):
            continue
        bound = match(kernel, make_arrays(case).descs, case.attrs, props)
        if not isinstance(bound, Refusal):
            seen.add(types)
            yield types, make_problem(bound, props)


def check(arch: str) -> Iterator[Code]:
    """Every kernel for one architecture: one call a choice of dtypes, and all promised calls."""
    for name in default_registry().names():
        for types, problem in _of_types(default_registry().get(name), arch):
            yield inspect(problem, types, {})
    for promise in PROMISES:
        inputs = parse_inputs(promise.inputs, "cuda")
        problem = problem_for(promise.kernel, inputs, promise.attrs, arch_props(arch))
        attrs = [f"{name}={value}" for name, value in promise.attrs.items()]
        yield inspect(problem, ", ".join((*promise.inputs, *attrs)), promise.wanted)


def report(arches: tuple[str, ...]) -> tuple[list[dict[str, Any]], int]:
    """Print what is wrong and a summary; the rows for JSON and the number of faults."""
    rows, bad = [], 0
    tool = nvdisasm()
    print(f"static check for {', '.join(arches)}; instructions by {tool or 'PTX alone'}")
    for arch in arches:
        codes = list(check(arch))
        faults = [code for code in codes if not code.good]
        for code in faults:
            print(f"  FAIL {code}")
        most = max(codes, key=lambda code: code.registers)
        framed = sum(1 for code in codes if code.frame)
        spilled = sum(1 for code in codes if code.spills)
        print(
            f"  {arch}: {len(codes) - len(faults)} of {len(codes)} good; {spilled} spill, {framed}"
            f" have a stack frame; at most {most.registers} registers ({most.kernel})"
        )
        rows += [asdict(code) for code in codes]
        bad += len(faults)
    return rows, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default=",".join(ARCHES))
    try:
        return 1 if report(tuple(parser.parse_args().arch.split(",")))[1] else 0
    except CompileError as fault:
        print(fault)
        return 1


if __name__ == "__main__":
    sys.exit(main())
