"""The registry: all declared kernels by name, alias and op type.

A file is checked once, with those it includes; then a snapshot of the entries (plain JSON in the
cache folder, named by the file's digest) spares later processes YAML and checking. Each
:class:`KernelSpec` is built when it is first asked for.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

from ge2rt.base import events, switches
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError, RegistryError
from ge2rt.base.locks import ForkLock
from ge2rt.base.paths import resource
from ge2rt.base.text import counted, one_line, show
from ge2rt.spec import snapshot
from ge2rt.spec.entries import build_kernel, template_folders
from ge2rt.spec.model import KernelSpec
from ge2rt.spec.suggest import did_you_mean

_versions = itertools.count(1)  # no two states of any registries share a version


@dataclass
class _Row:
    """An entry of a file, or a finished kernel."""

    name: str
    op: str
    score: int
    aliases: tuple[str, ...]
    source: str
    mark: tuple[int, int] = (1, 1)
    item: snapshot.Item | None = None
    folders: tuple[Path, ...] = ()  # where its template may lie
    kernel: KernelSpec | None = None

    def built(self) -> KernelSpec:
        if self.kernel is None:
            assert self.item is not None
            entry, places = self.item.entry, self.folders
            folder = next((f for f in places if (f / entry["template"]).is_file()), places[0])
            self.kernel = build_kernel(entry, folder=str(folder), source=self.source)
        return self.kernel


class Registry:
    """Kernels by name. ``version`` changes with each change, so callers can cache by it."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._rows: dict[str, _Row] = {}
        self._aliases: dict[str, str] = {}
        self._files: tuple[str, ...] = ()
        self.version = next(_versions)

    def __repr__(self) -> str:
        kernels, files = counted(len(self._rows), "kernel"), counted(len(self._files), "file")
        return f"<Registry of {kernels} from {files}>"

    @property
    def files(self) -> tuple[str, ...]:
        """The kernels files that were added, in order."""
        return self._files

    def add_file(self, path: str | Path, *, trusted: bool = False) -> None:
        """Add every kernel of a file and of those it includes, or none of them.

        Raises :class:`RegistryError` with all faults, among them names that are taken (an entry may
        say ``replace: true``), and :class:`VersionError`. ``trusted`` files are not checked.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise InvalidTypeError(
                "not a path", argument="path", expected="the path of a .yaml file", got=show(path)
            )
        file = Path(path)
        try:
            data = file.read_bytes()
        except (OSError, ValueError) as fault:  # ValueError: a name that no file can have
            reason = getattr(fault, "strerror", None) or fault
            raise RegistryError(
                f"the kernels file {one_line(str(file), 500)} cannot be read: {reason}",
                next_step="give the path of a .yaml file",
            ) from None  # fmt: skip
        items = snapshot.load(file, data, trusted=trusted)
        homes = {name: _home(file, name) for name in {item.include for item in items}}
        rows = [(_row(item, *homes[item.include]), item.replace) for item in items]
        with self._lock:
            self._check_clashes(file, rows)
            for row, _ in rows:
                self._put(row)
            self._files = (*self._files, str(file))
            self.version = next(_versions)
        events.emit("registry.change", file=str(file))

    def add(self, kernel: KernelSpec, *, replace: bool = False) -> None:
        """Add one finished declaration."""
        row = _Row(
            kernel.name, kernel.op, kernel.score, kernel.aliases, kernel.source, kernel=kernel
        )
        with self._lock:
            self._check_clashes(Path(kernel.source or "-"), [(row, replace)])
            self._put(row)
            self.version = next(_versions)
        events.emit("registry.change", kernel=kernel.name)

    def _check_clashes(self, file: Path, rows: list[tuple[_Row, bool]]) -> None:
        faults = []
        fresh: dict[str, _Row] = {}
        for row, replace in rows:
            for name in (row.name, *row.aliases):
                known = self._aliases.get(name, name)
                owner = fresh.get(name) or self._rows.get(known)
                fresh[name] = row
                if owner is None or (replace and owner.name == row.name):
                    continue
                where = row.source.rpartition(":")[0] or str(file)
                faults.append(
                    f"{where}:{row.mark[0]}:{row.mark[1]} {name}: the name is taken by "
                    f"{owner.name!r} of {owner.source or 'this program'}; "
                    "add `replace: true` to replace it"
                )
        if faults:
            from ge2rt.spec.faults import registry_error  # late: it brings the YAML reader

            raise registry_error(file, faults)

    def _put(self, row: _Row) -> None:
        former = self._rows.get(row.name)
        for alias in former.aliases if former else ():
            self._aliases.pop(alias, None)
        self._rows[row.name] = row
        self._aliases.update(dict.fromkeys(row.aliases, row.name))

    def find(self, name: str) -> KernelSpec | None:
        """The kernel of this name or alias, or None."""
        row = self._rows.get(self._aliases.get(name, name)) if isinstance(name, str) else None
        return row.built() if row is not None else None

    def get(self, name: str) -> KernelSpec:
        """The kernel of this name or alias; InvalidArgumentError suggests the nearest name."""
        kernel = self.find(name)
        if kernel is None:
            hint = did_you_mean(name, [*self._rows, *self._aliases])
            raise InvalidArgumentError(
                "no kernel of this name", kernel=name, detail="argument",
                next_step=hint or "names() lists the names",
            )  # fmt: skip
        return kernel

    def kernels_of(self, op: str) -> list[KernelSpec]:
        """The kernels of an op type, in the order in which they were declared."""
        if not isinstance(op, str):
            return []
        return [row.built() for row in list(self._rows.values()) if row.op == op]

    def names(self) -> list[str]:
        """All names, without aliases, in the order of declaration."""
        return list(self._rows)

    def ops(self) -> list[str]:
        """All op types, in the order in which they first appear."""
        return list(dict.fromkeys(row.op for row in list(self._rows.values())))

    def table(self) -> dict[str, int]:
        """The raw capability table: ``<OPTYPE>__<KERNEL>`` -> score."""
        return {f"{r.op}__{r.name}": r.score for r in list(self._rows.values())}

    def __contains__(self, name: object) -> bool:
        return name in self._rows or name in self._aliases

    def __len__(self) -> int:
        return len(self._rows)


def _home(file: Path, include: str) -> tuple[str, tuple[Path, ...]]:
    """The path of ``file`` or of what it includes, and where templates of that are looked for."""
    beside = template_folders(file.parent)
    if not include:
        return str(file), beside
    place = file.parent / include
    own = () if place.parent == file.parent else template_folders(place.parent)
    return str(place), (*own, *beside)


def _row(item: snapshot.Item, place: str, folders: tuple[Path, ...]) -> _Row:
    return _Row(
        item.name, item.op, item.score, tuple(item.aliases), f"{place}:{item.mark[0]}", item.mark,
        item, folders,
    )  # fmt: skip


class _Default:
    """The default registry: the shipped file and those of ``GE2RT_REGISTRY``, made on first use."""

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._registry: Registry | None = None

    def __call__(self) -> Registry:
        registry = self._registry
        if registry is not None:
            return registry
        with self._lock:
            if self._registry is None:
                registry = Registry()
                registry.add_file(resource("kernels.yaml"), trusted=True)
                for path in switches.get("GE2RT_REGISTRY"):
                    registry.add_file(path)
                self._registry = registry
            return self._registry

    def clear(self) -> None:
        """Forget it, with all that was added; the next call reads the files again."""
        with self._lock:
            self._registry = None


default_registry = _Default()


def load_registry(path: str | Path, *, into: Registry | None = None) -> Registry:
    """Check a kernels file and add its kernels to ``into`` (the default registry when None).

    Raises :class:`RegistryError`, whose ``faults`` are all faults of the file, or
    :class:`VersionError`.
    """
    registry = default_registry() if into is None else into
    registry.add_file(path)
    return registry
