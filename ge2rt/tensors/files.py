"""Tensors in files: safetensors, the format in which models are published.

A file is the length of the header (u64, little endian), the header (JSON: name, dtype, shape, range
of bytes) and the bytes of all tensors.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.tensors.making import tensor
from ge2rt.tensors.tensor import Tensor

_NAMES = {
    "f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64", "i32": "I32",
    "i16": "I16", "i8": "I8", "u64": "U64", "u32": "U32", "u16": "U16", "u8": "U8", "bool": "BOOL",
    "fp8_e4m3": "F8_E4M3", "fp8_e5m2": "F8_E5M2",
}  # fmt: skip
_DTYPES = {theirs: ours for ours, theirs in _NAMES.items()}
_MOST_HEADER = 100_000_000
_ALIGN = 8


def save(
    tensors: Mapping[str, Any], path: str | Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors (or arrays) by name. The file is there whole or not at all."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts: list[bytes] = []
    at = 0
    for name, value in tensors.items():
        made = value if isinstance(value, Tensor) else tensor(value)
        array = np.asarray(made.detach()._host(), order="C")
        data = array.tobytes()
        header[name] = {"dtype": _NAMES[made.dtype.name], "shape": list(array.shape),
                        "data_offsets": [at, at + len(data)]}  # fmt: skip
        parts.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGN)
    aside = Path(f"{path}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def load(path: str | Path, device: str | None = None) -> dict[str, Tensor]:
    """All tensors of a file by name. ValueError that says what is wrong with a damaged one."""
    data = Path(path).read_bytes()
    header, start = _header(data, path)
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            found[name] = tensor(_array(data, start, name, entry, path), device=device)
    return found


def metadata(path: str | Path) -> dict[str, str]:
    """What the file says of itself."""
    with Path(path).open("rb") as file:
        first = file.read(8)
        length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
        header, _ = _header(first + file.read(min(length, _MOST_HEADER)), path)
    return dict(header.get("__metadata__", {}))


def _header(data: bytes, path: str | Path) -> tuple[dict[str, Any], int]:
    length = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else -1
    if not 0 <= length <= min(len(data) - 8, _MOST_HEADER):
        raise _damaged(path, "the header is longer than the file")
    try:
        header = json.loads(data[8 : 8 + length])
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise _damaged(path, "the header is no JSON") from None
    if not isinstance(header, dict):
        raise _damaged(path, "the header is no mapping")
    return header, 8 + length


def _array(data: bytes, start: int, name: str, entry: Any, path: str | Path) -> Any:
    try:
        kind, shape = entry["dtype"], tuple(int(e) for e in entry["shape"])
        first, last = (int(e) for e in entry["data_offsets"])
    except (TypeError, KeyError, ValueError):
        raise _damaged(path, f"the entry of {name!r} lacks dtype, shape or data_offsets") from None
    if kind not in _DTYPES:
        raise InvalidTypeError(
            f"{path}: {name!r} is of dtype {kind!r}", expected=", ".join(_DTYPES)
        )
    dtype = DTYPES[_DTYPES[kind]].numpy
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    inside = 0 <= first <= last <= len(data) - start
    if min(shape, default=0) < 0 or last - first != size or not inside:
        what = f"{name!r} of {kind}{list(shape)} does not fit its bytes {first} to {last}"
        raise _damaged(path, what)
    return np.frombuffer(data, dtype, size // dtype.itemsize, start + first).reshape(shape)


def _damaged(path: str | Path, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{path} is no safetensors file: {what}", next_step="write it by ge2rt.save, or get it anew"
    )
