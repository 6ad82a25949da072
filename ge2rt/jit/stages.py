"""The stages of a compiled function, made when asked for; each prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
            "cuda": lambda built: Texts({n: v.source.text for n, v in _variants(built).items()}),
            "ptx": _ptx,
            "llvm" if on_cpu else "sass": _llvm if on_cpu else _sass,
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


def _variants(built: Built) -> dict[str, Any]:
    """The compiled variant of each different kernel."""
    found: dict[str, Any] = {}
    for run in _runs(built):
        if not run.is_empty:
            found.setdefault(
                run.plan.kernel, run.plan.compiled(aligned=run.is_aligned(frozenset()))
            )
    return found


def _selection(built: Built) -> str:
    steps = getattr(built.runner, "steps", ())
    return "\n".join(f"{number}: {run.label}: {run.reason}" for number, run in enumerate(steps))


def _ptx(built: Built) -> Texts:
    texts = {}
    for name, variant in _variants(built).items():
        binary = variant.binary
        if binary.kind != "ptx":  # a cubin was loaded: the PTX is made for the reader
            from ge2rt.build.compile import build

            binary = build(variant.problem, "ptx")
        texts[name] = binary.data.rstrip(b"\0").decode()
    return Texts(texts)


def _llvm(built: Built) -> Texts:
    from ge2rt.device.translate import default_translator, lower_options

    texts = {}
    for name, variant in _variants(built).items():
        translator = default_translator()
        module = translator.parse(variant.binary.data.rstrip(b"\0").decode())
        options = lower_options(variant.problem.block)
        texts[name] = translator.lower(module, variant.binary.entry, options).llvm_ir
    return Texts(texts)


def _sass(built: Built) -> str:
    return "machine code is shown by nvdisasm, of the cubins in the compile cache"
