"""What the examples need around them: safetensors files, PNG pictures, packages not there."""

from __future__ import annotations

import importlib
import json
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

_DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8,
    "BOOL": np.bool_,
}  # fmt: skip


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """All tensors of a file, as views of its memory map.

    The format: the header's length (u64), the header (JSON), the bytes of all tensors.
    """
    data = np.memmap(path, np.uint8, "r")
    (length,) = struct.unpack("<Q", data[:8].tobytes())
    header = json.loads(data[8 : 8 + length].tobytes())
    body = data[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            flat = np.frombuffer(body[first:last], _DTYPES[entry["dtype"]])
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


def write_png(path: Path, picture: np.ndarray) -> None:
    """Write an array of shape [height, width, 3] and dtype uint8."""
    height, width, _ = picture.shape
    rows = np.zeros((height, 1 + width * 3), np.uint8)  # each row begins with its filter: 0, none
    rows[:, 1:] = picture.reshape(height, -1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 6)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


def need(module: str, package: str, *others: str) -> Any:
    """The module; where it is not installed, the program ends and says how to get it.

    ``others`` are the packages that the example needs besides, so that all are named at once.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        packages = " ".join((package, *others))
        plural = "s" if others else ""
        sys.exit(f"this example needs the package{plural} {packages}: pip install {packages}")
