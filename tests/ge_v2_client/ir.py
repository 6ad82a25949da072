"""Tensors, ops and graphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DTYPES = ("f16", "f32", "i8", "i32")
LAYOUTS = ("rowmajor", "NCHW", "NHWC")


@dataclass
class Tensor:
    """A value; ``data`` is a handle that ``native.pointer_of`` gets an address from."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "f32"
    layout: str = "rowmajor"
    device: str = "cuda"
    data: Any = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES or self.layout not in LAYOUTS:
            raise ValueError(f"{self.name}: {self.dtype}, {self.layout}")

    def desc(self) -> dict[str, Any]:
        """What the native module is told of it."""
        return {
            "shape": list(self.shape), "dtype": self.dtype, "layout": self.layout,
            "device": self.device,
        }  # fmt: skip


@dataclass
class Op:
    """One step."""

    op_type: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Graph:
    """Steps in order."""

    ops: list[Op]
