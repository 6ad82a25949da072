"""Faults of a kernels file, as the one error that lists them all."""

from __future__ import annotations

from pathlib import Path as FilePath

from ge2rt.base.errors import RegistryError, VersionError
from ge2rt.base.text import one_line
from ge2rt.spec.marks import Document, MarksFault, Path, read_yaml
from ge2rt.spec.version import GE2_API_VERSION


def read_document(path: FilePath, data: bytes) -> Document:
    """The YAML document of a kernels file whose ``api_version``, if stated, is ours.

    Raises :class:`RegistryError` for YAML that cannot be read, and :class:`VersionError`.
    """
    try:
        document = read_yaml(data)
    except MarksFault as fault:
        line, column = fault.mark
        raise registry_error(path, [f"{path}:{line}:{column} {fault.message}"]) from None
    value = document.value
    version = value.get("api_version") if isinstance(value, dict) else None
    if isinstance(version, int) and not isinstance(version, bool) and version != GE2_API_VERSION:
        line, column = document.mark(("api_version",))
        raise VersionError(
            "the kernels file is written for another API version", where=f"{path}:{line}:{column}",
            expected=f"api_version: {GE2_API_VERSION}", got=str(version),
        )  # fmt: skip
    return document


def registry_error(path: FilePath, faults: list[str]) -> RegistryError:
    """The error for a list of faults; its message shows all of them."""
    count = f"{len(faults)} faults" if len(faults) > 1 else "1 fault"
    return RegistryError("\n  ".join([f"{count} in {path}", *faults]), faults=tuple(faults))


def path_text(path: Path) -> str:
    """``kernels[0].inputs[1].dtype``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return one_line(text, 300)
