"""The front key: from a problem to its binary without rendering it.

Rendering is a pure function of the declaration, the template files, the problem's facts and this
library's own renderer. Their digest names an index entry that tells the key of the binary, so that
a cached call in a new process needs neither Jinja nor NVRTC.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from ge2rt.base.errors import CompileError
from ge2rt.build import headers, nvrtc, templates
from ge2rt.build.facts import facts
from ge2rt.build.fields import Fields, binary_fields, pack_fields, unpack_fields
from ge2rt.build.key import Includes, file_digest
from ge2rt.build.records import Binary, Key, Problem
from ge2rt.build.store import Store
from ge2rt.spec.expr import Expression
from ge2rt.spec.model import KernelSpec

_SCHEMA = "front 1"
_RENDERER = (
    "names", "spaces", "problem", "facts", "views", "literals", "linemarks", "render", "templates",
)  # fmt: skip
# Parts of a declaration that no source depends on.
_SILENT = frozenset({
    "doc", "aliases", "score", "reference", "tolerance", "backward", "requires", "source", "folder",
    "min_mnk", "param_block", "cases", "parity", "within", "counted",
})  # fmt: skip

_kernels: dict[int, tuple[KernelSpec, str]] = {}


def clear() -> None:
    """Forget the digests of declarations."""
    _kernels.clear()


def warmup() -> None:
    """Read what all keys depend on: the renderer's files, the toolkit."""
    _renderer()
    _environment()


def front_key(problem: Problem, kind: str) -> Key | None:
    """Key of the index entry, or None where a template includes a file by a computed name."""
    kernel = problem.kernel
    try:
        files = templates.digests(kernel.template, kernel.folder)
    except CompileError as fault:
        raise fault.about(kernel=kernel.name) from None
    if files is None:
        return None
    return Key(
        (
            ("schema", _SCHEMA),
            ("renderer", _renderer()),
            ("kernel", _kernel_digest(kernel)),
            ("templates", " ".join(f"{name}={digest}" for name, digest in files)),
            ("facts", repr(facts(problem))),
            ("kind", kind),
        )
    )


@cache
def _renderer() -> str:
    """Digest of the code that renders: a changed renderer must not find old indices."""
    folder = os.path.dirname(__file__)
    found = [file_digest(os.path.join(folder, f"{name}.py")) for name in _RENDERER]
    if not all(found):
        from importlib.metadata import version  # no files: a frozen program

        found = [version("ge2rt")]
    return hashlib.sha256(" ".join(found).encode("ascii")).hexdigest()


def _kernel_digest(kernel: KernelSpec) -> str:
    known = _kernels.get(id(kernel))
    if known is None or known[0] is not kernel:
        text = repr(_canonical(kernel))
        known = (kernel, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        _kernels[id(kernel)] = known
    return known[1]


def _canonical(value: Any) -> Any:
    """Plain tuples and values whose repr is the same in every process."""
    kind: Any = type(value)
    if kind is str or kind is int:
        return value
    if kind is tuple or kind is list:
        return tuple([_canonical(v) for v in value])
    if kind is Expression:
        return value.text
    if dataclasses.is_dataclass(value):
        return tuple([(name, _canonical(getattr(value, name))) for name in _shown(kind)])
    if isinstance(value, Mapping):
        return tuple(sorted((k, _canonical(v)) for k, v in value.items()))
    return value


@cache
def _shown(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind) if f.name not in _SILENT)


def _environment() -> str:
    """The compiler and headers of this machine; a bundle's may differ."""
    told = f"{nvrtc.version()} {headers.toolkit().fingerprint}"
    return hashlib.sha256(told.encode("utf-8")).hexdigest()[:16]


def find_index(store: Store, front: Key, any_compiler: bool) -> Fields | None:
    """The fields of the binary for ``front``, if what was included is still the same.

    ``any_compiler`` takes what another NVRTC made too: a bundle, where nothing can be compiled.
    """
    entry = store.get(front.digest)
    if entry is None:
        return None
    wanted = [f"index.{_environment()}"]
    if any_compiler:
        wanted += [n for n in entry.names if n.startswith("index.") and n not in wanted]
    for name in wanted:
        data = entry.read(name)
        fields = unpack_fields(data) if data is not None else {}
        if fields and (any_compiler or _current(fields.get("user", ""))):
            return fields
    return None


def _current(user: str) -> bool:
    pairs = (line.rpartition("=") for line in user.split("\n") if line)
    return all(file_digest(path) == digest for path, _, digest in pairs)


def add_index(store: Store, front: Key, binary: Binary, includes: Includes) -> None:
    """Remember the binary of ``front``. Not if a header is missing: it may appear."""
    if includes.missing:
        return
    fields = binary_fields(binary)
    fields["user"] = "\n".join(f"{path}={digest}" for path, digest in includes.user)
    name = f"index.{_environment()}"
    blobs = {name: pack_fields(fields)}
    if store.get(front.digest) is None:
        store.put(front, blobs)
    else:
        store.add_blob(front.digest, name, blobs[name])
