"""The stages of a compiled function, made when asked for; each prints."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ge2rt.jit.backend import Built

Steps = Mapping[str, Any]  # kernel's name -> its variant


class Texts(Mapping[str, str]):
    """One text a kernel, by the kernel's name; printed one below the other."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __str__(self) -> str:
        return "\n\n".join(f"// ---- {name}\n{text.rstrip()}" for name, text in self._texts.items())

    __repr__ = __str__


class Stages(Mapping[str, Any]):
    """Stage by name, in the order of the way."""

    def __init__(self, built: Built) -> None:
        self._built = built
        on_cpu = built.device is None or built.device.accepts("cpu")
        self._rows: dict[str, Callable[[Built], Any]] = {
            "graph": lambda built: built.graph,
            "optimised": lambda built: built.optimised,
            "program": lambda built: built.program,
            "selection": _selection,
            "cuda": _each(lambda variant: str(variant.source.text)),
            "ptx": _each(ptx_of),
            "llvm" if on_cpu else "sass": _each(llvm_of if on_cpu else sass_of),
            "plan": lambda built: str(built.runner),
        }

    def __getitem__(self, name: str) -> Any:
        return self._rows[name](self._built)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __str__(self) -> str:
        return "\n\n".join(f"== {name}\n{self[name]}" for name in self)

    def __repr__(self) -> str:
        return f"<stages {', '.join(self)}>"


def stages_of(built: Built) -> Stages:
    """The stages of what was built."""
    return Stages(built)


def _runs(built: Built) -> list[Any]:
    return [run for run in getattr(built.runner, "steps", ()) if hasattr(run, "plan")]


def variants_of(built: Built) -> dict[str, Any]:
    """The different kernels by name; the second of a name (other extents) is ``name #2``."""
    found: dict[str, Any] = {}
    seen: set[bytes] = set()
    for run in _runs(built):
        if run.is_empty:
            continue
        variant = run.plan.compiled(aligned=run.is_aligned(frozenset()))
        if variant.binary.data in seen:
            continue
        seen.add(variant.binary.data)
        name, count = run.plan.kernel, 1
        while name in found:
            count += 1
            name = f"{run.plan.kernel} #{count}"
        found[name] = variant
    return found


def _each(text_of: Callable[[Any], str]) -> Callable[[Built], Texts]:
    return lambda built: Texts({n: text_of(v) for n, v in variants_of(built).items()})


def _selection(built: Built) -> str:
    steps = getattr(built.runner, "steps", ())
    return "\n".join(f"{number}: {run.label}: {run.reason}" for number, run in enumerate(steps))


def ptx_of(variant: Any) -> str:
    """The PTX of a compiled variant; where a cubin was loaded it is made now."""
    binary = variant.binary
    if binary.kind != "ptx":
        from ge2rt.build.compile import build

        binary = build(variant.problem, "ptx")
    text: str = binary.data.rstrip(b"\0").decode()
    return text


def llvm_of(variant: Any) -> str:
    """The LLVM IR that the cpu device compiles, before LLVM optimises it."""
    from ge2rt.device.translate import default_translator, lower_options

    translator = default_translator()
    module = translator.parse(ptx_of(variant))
    options = lower_options(variant.problem.block)
    return translator.lower(module, variant.binary.entry, options).llvm_ir


def sass_of(variant: Any) -> str:
    """Machine code as ``nvdisasm`` prints it, or how to get that."""
    tool = shutil.which("nvdisasm")
    if tool is None:
        return "no nvdisasm on the PATH: it comes with the CUDA toolkit and prints machine code"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(variant.binary.data)
        done = subprocess.run([tool, "-c", str(path)], capture_output=True, text=True, check=False)
    return done.stdout or f"nvdisasm failed: {done.stderr.strip()}"
