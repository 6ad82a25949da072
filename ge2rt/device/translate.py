"""From PTX to native objects for the CPU device, through a store that spares both steps.

A module entry in the store tells what can be known without the PTX's text (kernels, parameters, the
image of the variables); an object entry holds one kernel's code for one block shape.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ge2rt.base import events, switches
from ge2rt.base.errors import CompileError
from ge2rt.base.locks import compilers
from ge2rt.device import objects
from ge2rt.device.api import Dim3
from ge2rt.device.limits import KernelNeeds
from ge2rt.device.objects import Key, ObjectStore
from ge2rt.device.tiers import LARGE
from ge2rt.ptx.native import (
    Checked,
    GlobalImage,
    GlobalSlot,
    LowerOptions,
    NativeKernel,
    Site,
)

Layout = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Translator:
    """What the device needs of ``ge2rt.ptx``; tests put something else in its place."""

    parse: Callable[[str], Any]
    check: Callable[[Any], None]
    lower: Callable[[Any, str, LowerOptions], NativeKernel]  # without the object
    emit: Callable[[NativeKernel, LowerOptions], NativeKernel]  # with it
    image: Callable[[Any], GlobalImage]
    static_shared: Callable[[Any, str], int]
    version: str


@dataclass(frozen=True)
class EntryFacts:
    """What a launch needs to know of a kernel before it is lowered."""

    param_layout: Layout
    param_bytes: int
    needs: KernelNeeds


@dataclass(frozen=True)
class ModuleFacts:
    """What loading needs to know of a module."""

    target: str
    entries: dict[str, EntryFacts]
    image: GlobalImage


def default_translator() -> Translator:
    """The translator of this library."""
    from ge2rt.ptx import isa, lower, parse  # late: a call that hits the store needs none of them

    return Translator(
        parse=parse.parse_module, check=isa.check_module, lower=lower.lower_to_ir,
        emit=lower.emit, image=lower.global_image, static_shared=isa.static_shared,
        version=translator_version(),
    )  # fmt: skip


@cache
def translator_version() -> str:
    """A digest over the translator's files as they lie on disk (name, size, time)."""
    import ge2rt.ptx

    root = Path(ge2rt.ptx.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        stat = path.stat()
        digest.update(f"{path.relative_to(root)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


class Translation:
    """One PTX text on its way to native code; parsed at most once, and only if the store misses."""

    def __init__(
        self, ptx: bytes, store: ObjectStore | None, make: Callable[[], Translator] | None = None
    ) -> None:
        self._ptx = ptx
        self._store = store
        self._make = make
        self._digest = hashlib.sha256(ptx).hexdigest()
        self._module: Any = None
        self._translator: Translator | None = None

    def facts(self) -> ModuleFacts:
        """The module's facts, from the store or from the text."""
        key = self._key("cpu-module")
        found = _facts_from(objects.decode(self._read(key)))
        if found is None:
            found = self._read_text()
            self._write(key, {"facts": _facts_to(found)}, found.image.image)
        return found

    def kernel(
        self, entry: str, options: LowerOptions
    ) -> tuple[NativeKernel, Callable[[], NativeKernel] | None]:
        """The native form of ``entry``, from the store or lowered now.

        That of a large kernel is the quick tier; then the second value makes the full one.
        """
        key = self._key(
            "cpu-object", entry=entry, block="x".join(map(str, options.block)),
            lanes=str(options.lanes), cpu=options.cpu, features=options.features,
            opt_level=str(options.opt_level), checks=",".join(sorted(options.checks)),
            seed=str(options.seed), llvmlite=objects.llvm_version(),
        )  # fmt: skip
        found = _kernel_from(objects.decode(self._read(key)))
        if found is None:
            events.emit("ptx.lower", entry=entry, block=options.block)
            translator, module = self._parsed()
            lowered = translator.lower(module, entry, options)

            def finish() -> NativeKernel:
                with compilers:
                    full = translator.emit(lowered, options)
                self._write(key, {"kernel": _kernel_to(full)}, full.object_code)
                return full

            large = lowered.llvm_ir.count("\n") > LARGE and not lowered.strands
            if large and options.opt_level:
                with compilers:
                    return translator.emit(lowered, replace(options, opt_level=0)), finish
            found = finish()
        return found, None

    def _read_text(self) -> ModuleFacts:
        translator, module = self._parsed()
        entries = {}
        for name in module.entries():
            function = module.functions[name]
            shared = translator.static_shared(module, name)
            entries[name] = EntryFacts(
                param_layout=tuple((p.type, p.offset, p.nbytes) for p in function.params),
                param_bytes=function.param_bytes,
                needs=KernelNeeds.from_directives(name, shared, function.directives),
            )
        return ModuleFacts(module.target, entries, translator.image(module))

    def _parsed(self) -> tuple[Translator, Any]:
        if self._translator is None:
            self._translator = (self._make or default_translator)()
        if self._module is None:
            try:
                text = self._ptx.rstrip(b"\0").decode()
            except UnicodeDecodeError as fault:
                raise CompileError(
                    "PTX text is not UTF-8", where=f"ptx:byte {fault.start}"
                ) from None
            module = self._translator.parse(text)
            self._translator.check(module)
            self._module = module
        return self._translator, self._module

    def _key(self, kind: str, **parts: str) -> Key:
        # The version is known without the translator's import, unless a test brought its own.
        own = self._make().version if self._make is not None else translator_version()
        head = (("kind", kind), ("ptx", self._digest), ("translator", own))
        return (*head, *parts.items())

    def _read(self, key: Key) -> bytes | None:
        return self._store.get(key) if self._store is not None else None

    def _write(self, key: Key, meta: dict[str, Any], payload: bytes) -> None:
        if self._store is not None:
            self._store.put(key, objects.encode(meta, payload))


def lower_options(block: Dim3) -> LowerOptions:
    """What the switches ask for, for one block shape."""
    host = objects.host_target()
    checks = switches.get("GE2RT_CHECK")
    return LowerOptions(
        block=block, lanes=switches.get("GE2RT_LANES") or 0, cpu=host.cpu, features=host.features,
        opt_level=0 if checks else 1, checks=checks, seed=switches.get("GE2RT_SEED"),
    )  # fmt: skip


def _facts_to(facts: ModuleFacts) -> dict[str, Any]:
    image = facts.image
    return {
        "target": facts.target,
        "entries": {name: asdict(entry) for name, entry in facts.entries.items()},
        "slots": [asdict(slot) for slot in image.slots],
        "relocations": image.relocations,
    }


def _facts_from(entry: tuple[dict[str, Any], bytes] | None) -> ModuleFacts | None:
    if entry is None:
        return None
    meta, payload = entry
    facts = meta["facts"]
    entries = {
        name: EntryFacts(
            param_layout=_layout(item["param_layout"]), param_bytes=item["param_bytes"],
            needs=_needs(item["needs"]),
        )
        for name, item in facts["entries"].items()
    }  # fmt: skip
    image = GlobalImage(
        slots=tuple(GlobalSlot(**slot) for slot in facts["slots"]), image=payload,
        relocations=tuple((at, to) for at, to in facts["relocations"]),
    )  # fmt: skip
    return ModuleFacts(facts["target"], entries, image)


def _needs(item: dict[str, Any]) -> KernelNeeds:
    return KernelNeeds(**{**item, "exact_threads": tuple(item["exact_threads"])})


_KERNEL_FIELDS = (
    "entry",
    "symbol",
    "param_bytes",
    "shared_bytes",
    "arena_bytes",
    "log_bytes",
    "alone",
)


def _kernel_to(kernel: NativeKernel) -> dict[str, Any]:
    kept = {name: getattr(kernel, name) for name in _KERNEL_FIELDS}
    lists = {name: list(getattr(kernel, name)) for name in ("param_layout", "externs", "notes")}
    checked = asdict(kernel.checked) if kernel.checked is not None else None
    return {**kept, **lists, "lines": list(kernel.lines.items()), "checked": checked}


def _kernel_from(entry: tuple[dict[str, Any], bytes] | None) -> NativeKernel | None:
    if entry is None:
        return None
    meta, payload = entry
    kernel = meta["kernel"]
    return NativeKernel(
        **{name: kernel[name] for name in _KERNEL_FIELDS},
        object_code=payload, llvm_ir="", param_layout=_layout(kernel["param_layout"]),
        externs=tuple(kernel["externs"]), notes=tuple(kernel["notes"]),
        lines={int(at): int(line) for at, line in kernel["lines"]},
        checked=_checked(kernel["checked"]),
    )  # fmt: skip


def _checked(item: dict[str, Any] | None) -> Checked | None:
    if item is None:
        return None
    sites = tuple(Site(**site) for site in item["sites"])
    return Checked(**{**item, "checks": tuple(item["checks"]), "sites": sites})


def _layout(rows: list[list[Any]]) -> Layout:
    return tuple((str(kind), int(offset), int(nbytes)) for kind, offset, nbytes in rows)
