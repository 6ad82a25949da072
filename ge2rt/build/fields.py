"""Named values as lines of text: quick to read without a parser's import, and plain to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ge2rt.build.records import Binary, Key, LineMap

Fields = dict[str, str]
_KEY = "key "
_PAIR = "\x1f"


def pack_fields(fields: Mapping[str, str]) -> bytes:
    """One line ``name=value`` a field; backslash and newlines escaped."""
    return "".join(f"{n}={_escape(v)}\n" for n, v in fields.items()).encode(
        "utf-8", "surrogatepass"
    )


def unpack_fields(data: bytes) -> Fields:
    """The fields that :func:`pack_fields` wrote."""
    lines = data.decode("utf-8", "surrogatepass").split("\n")
    parted = (line.partition("=") for line in lines if line)
    return {name: _unescape(value) if "\\" in value else value for name, _, value in parted}


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _unescape(text: str) -> str:
    parts = text.split("\\\\")
    return "\\".join(p.replace("\\n", "\n").replace("\\r", "\r") for p in parts)


def key_fields(key: Key) -> Fields:
    """The parts of a key as fields, in order."""
    return {_KEY + name: value for name, value in key.parts}


def key_of(fields: Mapping[str, str]) -> Key:
    """The key in the fields."""
    return Key(tuple((n[len(_KEY) :], v) for n, v in fields.items() if n.startswith(_KEY)))


def binary_fields(binary: Binary) -> Fields:
    """All of a binary but its data."""
    return {
        **key_fields(binary.key), "kind": binary.kind, "entry": binary.entry, "arch": binary.arch,
        "log": binary.log, "lines": _pack_lines(binary.line_map),
        "lowered": _PAIR.join(p for pair in binary.lowered.items() for p in pair),
    }  # fmt: skip


def binary_of(fields: Mapping[str, str], data: bytes, cached: str) -> Binary:
    """The binary that the fields and ``data`` describe."""
    flat = fields["lowered"].split(_PAIR) if fields["lowered"] else []
    return Binary(
        key_of(fields), fields["kind"], data, fields["entry"], fields["arch"], fields["log"],
        cached, _unpack_lines(fields["lines"]), dict(zip(flat[::2], flat[1::2], strict=True)),
    )  # fmt: skip


def _pack_lines(line_map: LineMap) -> str:
    """Runs of following lines as ``file:first:count``."""
    runs: list[tuple[str, int, int]] = []
    for file, line in line_map.lines:
        if runs and runs[-1][0] == file and sum(runs[-1][1:]) == line:
            runs[-1] = (file, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((file, line, 1))
    return ";".join(f"{file}:{first}:{count}" for file, first, count in runs)


def _unpack_lines(text: str) -> LineMap:
    return LineMap(tuple(_expand(text.split(";")))) if text else LineMap(())


def _expand(runs: Iterable[str]) -> Iterable[tuple[str, int]]:
    for run in runs:
        file, first, count = run.rsplit(":", 2)
        yield from ((file, int(first) + i) for i in range(int(count)))
