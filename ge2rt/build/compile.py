"""Source -> binary through the caches: memory, disk, NVRTC."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from ge2rt.base import events, switches
from ge2rt.base.errors import CompileError
from ge2rt.base.locks import ForkLock
from ge2rt.build import front, headers, nvrtc
from ge2rt.build import store as stores
from ge2rt.build.diagnostics import failure
from ge2rt.build.fields import binary_fields, binary_of, key_of, pack_fields, unpack_fields
from ge2rt.build.flights import Flights
from ge2rt.build.key import compile_key, explain, find_includes
from ge2rt.build.records import Binary, Key, Problem, Source
from ge2rt.build.store import META, Store

_SOURCE = "source.cu"
_SHOWN = 12  # lines of sources that differ


@dataclass(frozen=True)
class _Memory:
    """What was built in this process with one store: by key, and by front key."""

    binaries: Flights = field(default_factory=Flights)
    fronts: Flights = field(default_factory=Flights)


_memories: WeakKeyDictionary[Store, _Memory] = WeakKeyDictionary()
_memories_lock = ForkLock()


def _memory(store: Store) -> _Memory:
    with _memories_lock:
        return _memories.setdefault(store, _Memory())


def clear() -> None:
    """Forget everything in memory, as a new process would find it."""
    with _memories_lock:
        _memories.clear()
    front.clear()
    stores.clear()


def warmup(compiler: bool = True) -> None:
    """Find the toolkit and what keys depend on; load and start what a first compilation needs.

    ``compiler=False``: only what a call needs whose kernel is in the caches.
    """
    front.warmup()
    if not compiler:
        return
    import filelock  # noqa: F401 - the import is the point

    from ge2rt.build import render

    render.warmup()
    text = 'extern "C" __global__ void ge2rt_warmup() {}\n'
    nvrtc.compile_cuda(text, "warmup.cu", arch="sm_80", kind="ptx")


def build(problem: Problem, kind: str = "ptx", *, store: Store | None = None) -> Binary:
    """The binary of a problem. From the caches it takes neither rendering nor NVRTC.

    Raises :class:`CompileError` (template, CUDA, or nothing cached under ``GE2RT_NO_JIT``).
    """
    store = store or stores.default_store()
    key = front.front_key(problem, kind)
    if key is None:
        return compile_source(source_of(problem), problem.arch, kind, store=store)
    fronts = _memory(store).fronts
    known = fronts.find(key.digest)
    if known is None:
        binary, built = fronts.run(key.digest, lambda: _build(problem, kind, key, store))
        if built:
            return binary
        known = binary
    events.emit("cache.hit", where="memory", kernel=problem.kernel.name)
    return replace(known, cached="memory")


def _build(problem: Problem, kind: str, key: Key, store: Store) -> Binary:
    no_jit = switches.get("GE2RT_NO_JIT")
    fields = front.find_index(store, key, no_jit or not headers.toolkit().library)
    if fields is not None:
        entry = store.get(key_of(fields).digest)
        data = entry.read(_blob(kind)) if entry else None
        if data is not None:
            events.emit("cache.hit", where="disk", kernel=problem.kernel.name)
            return binary_of(fields, data, "disk")
    if no_jit:
        raise _no_jit(problem.kernel.name, problem.arch, kind)
    source = source_of(problem)
    binary = compile_source(source, problem.arch, kind, store=store, kernel=problem.kernel.name)
    front.add_index(store, key, binary, find_includes(source.text, source.options))
    return binary


def source_of(problem: Problem) -> Source:
    """The rendered CUDA of a problem: for stages, dumps and compilation."""
    from ge2rt.build.render import render  # late: brings Jinja

    return render(problem)


def compile_source(
    source: Source, arch: str, kind: str, *, store: Store | None = None, kernel: str = "",
    names: Sequence[str] = (),
) -> Binary:  # fmt: skip
    """Compile rendered CUDA, or take it from the caches; ``names`` are C++ name expressions.

    Raises :class:`CompileError`; the same source fails the same way again and publishes nothing.
    """
    store = store or stores.default_store()
    includes = find_includes(source.text, source.options)
    key = compile_key(source, arch, kind, names=names, includes=includes)
    job = _Job(source, arch, kind, tuple(names), key, kernel or source.name, store)
    binaries = _memory(store).binaries
    known = binaries.find(key.digest)
    if known is None:
        known, built = binaries.run(key.digest, job.run)
        if built:
            return known
    events.emit("cache.hit", where="memory", kernel=job.kernel)
    return replace(known, cached="memory", line_map=source.line_map)


def compile_text(
    code: str,
    arch: str,
    kind: str = "ptx",
    *,
    name: str = "kernel.cu",
    options: Sequence[str] = (),
    names: Sequence[str] = (),
    store: Store | None = None,
) -> Binary:
    """Compile any CUDA C++ text; ``Binary.lowered`` has the symbols of the ``names`` given."""
    source = Source(code, "", name, tuple(options))
    return compile_source(source, arch, kind, store=store, names=names)


class _Job:
    """One compilation: look on disk, else compile under the entry's lock and publish."""

    def __init__(
        self, source: Source, arch: str, kind: str, names: tuple[str, ...], key: Key,
        kernel: str, store: Store,
    ) -> None:  # fmt: skip
        self.source = source
        self.arch = arch
        self.kind = kind
        self.names = names
        self.key = key
        self.kernel = kernel
        self.store = store

    def run(self) -> Binary:
        """The binary, from disk or fresh."""
        found = self._stored()
        if found is not None:
            return found
        if switches.get("GE2RT_NO_JIT"):
            raise _no_jit(self.kernel, self.arch, self.kind)
        with self.store.building(self.key.digest) as held:
            found = self._stored() if held else None
            return found or self._compile()

    def _stored(self) -> Binary | None:
        entry = self.store.get(self.key.digest)
        data = entry.read(_blob(self.kind)) if entry else None
        meta = entry.read(META) if entry and data is not None else None
        if data is None or meta is None:
            return None
        binary = binary_of(unpack_fields(meta), data, "disk")
        if binary.key != self.key:
            return None
        events.emit("cache.hit", where="disk", kernel=self.kernel)
        return replace(binary, line_map=self.source.line_map)

    def _compile(self) -> Binary:
        source, start = self.source, time.perf_counter()
        output = nvrtc.compile_cuda(
            source.text, source.name, arch=self.arch, kind=self.kind, options=source.options,
            names=self.names,
        )  # fmt: skip
        seconds = time.perf_counter() - start
        events.emit("compile", kernel=self.kernel, arch=self.arch, kind=self.kind, seconds=seconds)
        if not output.ok:
            raise failure(output.log, source, self.kernel, self.arch)
        binary = Binary(
            self.key, self.kind, output.data, source.entry, self.arch, output.log,
            line_map=source.line_map, lowered=output.lowered,
        )  # fmt: skip
        blobs = {
            _blob(self.kind): output.data,
            _SOURCE: source.text.encode("utf-8", "surrogatepass"),
            META: pack_fields(binary_fields(binary)),
        }
        self.store.put(self.key, blobs)
        return binary


def _blob(kind: str) -> str:
    return f"kernel.{kind}"


def _no_jit(kernel: str, arch: str, kind: str) -> CompileError:
    return CompileError(
        "not in the cache or bundle, and GE2RT_NO_JIT forbids compiling", kernel=kernel,
        got=f"{kind} for {arch}", next_step="unset GE2RT_NO_JIT, or add it with `ge2rt build`",
    )  # fmt: skip


def why_missed(problem: Problem, kind: str = "ptx", *, store: Store | None = None) -> list[str]:
    """Parts in which a problem differs from the nearest stored entry; empty: it is stored.

    Of sources the lines that differ are shown.
    """
    store = store or stores.default_store()
    source = source_of(problem)
    includes = find_includes(source.text, source.options)
    key = compile_key(source, problem.arch, kind, includes=includes)
    if store.get(key.digest) is not None:
        return []
    near = store.nearest(key)
    if near is None:
        return ["nothing alike is stored"]
    entry = store.get(near.digest)
    theirs = entry.read(_SOURCE) if entry else None
    return [
        _lines_that_differ(theirs.decode("utf-8", "replace"), source.text)
        if theirs is not None and reason.startswith("source:") else reason
        for reason in explain(key, near)
    ]  # fmt: skip


def _lines_that_differ(theirs: str, ours: str) -> str:
    """What stands in one source and not in the other: ``-`` there, ``+`` here."""
    import difflib  # late: only explanations need it

    found = [
        f"{line[0]} {line[1:].strip()}"
        for line in difflib.unified_diff(theirs.splitlines(), ours.splitlines(), n=0, lineterm="")
        if line[0] in "+-" and line[:3] not in ("+++", "---") and line[1:].strip()
    ]
    more = [f"... and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    listed = "".join(f"\n    {line}" for line in found[:_SHOWN] + more)
    return f"source: (- there, + here){listed}"
