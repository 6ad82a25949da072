"""The CUDA text of generated kernels, with the origin of each line, and the types they offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ge2rt.base.dtypes import DType
from ge2rt.build.records import LineMap

# Where a line of our own comes from: the kernel's name and this.
GENERATED = " (generated)"

# CuPy's half type: converts to float and back by itself, so that any float expression works.
_NARROW = """struct {name} {{
  {store} value;
  {name}() = default;
  __device__ {name}({store} x) : value(x) {{}}
  __device__ {name}(float x) : value({narrow}(x)) {{}}
  __device__ {name}(double x) : value({narrow}(float(x))) {{}}
  __device__ {name}(int x) : value({narrow}(float(x))) {{}}
  __device__ {name}(long long x) : value({narrow}(float(x))) {{}}
  __device__ operator float() const {{ return {widen}(value); }}
  __device__ {name}& operator+=(float x) {{ return *this = {name}(float(*this) + x); }}
  __device__ {name}& operator-=(float x) {{ return *this = {name}(float(*this) - x); }}
  __device__ {name}& operator*=(float x) {{ return *this = {name}(float(*this) * x); }}
  __device__ {name}& operator/=(float x) {{ return *this = {name}(float(*this) / x); }}
}};"""
_NARROW_TYPES = {
    "f16": ("cuda_fp16.h", {"name": "float16", "store": "__half", "narrow": "__float2half_rn",
                            "widen": "__half2float"}),
    "bf16": ("cuda_bf16.h", {"name": "bfloat16", "store": "__nv_bfloat16",
                             "narrow": "__float2bfloat16_rn", "widen": "__bfloat162float"}),
}  # fmt: skip

ARRAY_TEXT = """template <typename T, int N, bool Dense>
struct CArray {
  typedef T value_type;
  static const int ndim = N;
  T* data_;
  long long size_, shape_[N ? N : 1], strides_[N ? N : 1];
  __device__ long long size() const { return size_; }
  __device__ const long long* shape() const { return shape_; }
  __device__ const long long* strides() const { return strides_; }
  __device__ T& operator[](const long long* index) const {
    char* at = (char*)data_;
#pragma unroll
    for (int axis = 0; axis < N; ++axis) at += index[axis] * strides_[axis];
    return *(T*)at;
  }
  __device__ T& operator[](long long i) const {
    if (Dense || N == 0) return data_[i];
    char* at = (char*)data_;
#pragma unroll
    for (int axis = N - 1; axis > 0; --axis) {
      at += i % shape_[axis] * strides_[axis];
      i /= shape_[axis];
    }
    return *(T*)(at + i * strides_[0]);
  }
};"""

INDEXER_TEXT = """template <int N>
struct CIndexer {
  static const int ndim = N;
  long long size_, index_[N ? N : 1];
  __device__ long long size() const { return size_; }
  __device__ const long long* get() const { return index_; }
};"""


def ctype(dtype: DType) -> str:
    """The C++ type of elements in generated kernels."""
    return _NARROW_TYPES[dtype.name][1]["name"] if dtype.name in _NARROW_TYPES else dtype.ctype


def type_texts(types: dict[str, DType], dtypes: Sequence[DType]) -> list[str]:
    """Definitions of the narrow floats in use, and of the placeholders."""
    texts = []
    for name, (header, parts) in _NARROW_TYPES.items():
        if any(dtype.name == name for dtype in dtypes):
            texts += [f"#include <{header}>", _NARROW.format(**parts)]
    return texts + [f"typedef {ctype(dtype)} {name};" for name, dtype in sorted(types.items())]


class Text:
    """Lines of a text, each with where it came from."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: list[str] = []
        self._origins: list[tuple[str, int]] = []

    def add(self, *texts: str) -> None:
        """Lines of our own."""
        for text in texts:
            for line in text.split("\n"):
                self._lines.append(line)
                self._origins.append((f"{self._name}{GENERATED}", len(self._lines)))

    def quote(self, part: str, text: str) -> None:
        """The caller's text: messages of the compiler name ``part`` and the line in it."""
        for number, line in enumerate(text.split("\n"), 1):
            self._lines.append(line)
            self._origins.append((f"{self._name} {part}", number))

    @property
    def code(self) -> str:
        """The whole text."""
        return "\n".join(self._lines) + "\n"

    @property
    def line_map(self) -> LineMap:
        """Line of the text -> part and line in it."""
        return LineMap(tuple(self._origins))


@dataclass(frozen=True)
class Walk:
    """How a linear index becomes offsets: a collapsed space and how each operand goes through it.

    ``steps`` has for each operand ``"dense"`` (the offset is the index), ``"still"`` (0) or
    ``"strided"``. Extents and strides are arguments ``PREFIX_e0``, ``PREFIX_NAME_s0``...
    """

    prefix: str
    shape: tuple[int, ...]
    strides: dict[str, tuple[int, ...]]
    steps: dict[str, str]

    @property
    def strided(self) -> list[str]:
        """Operands that need the coordinates."""
        return [name for name, step in self.steps.items() if step == "strided"]

    @property
    def key(self) -> tuple[object, ...]:
        """What the text depends on."""
        rank = len(self.shape) if self.strided else 0
        return rank, tuple(self.steps.items())

    def parameters(self, index: str) -> list[str]:
        """Declarations of the kernel's arguments for this walk."""
        axes = range(len(self.shape)) if self.strided else ()
        found = [f"{index} {self.prefix}_e{axis}" for axis in axes if axis]
        for name in self.strided:
            found += [f"{index} {self.prefix}_{name}_s{axis}" for axis in axes]
        return found

    def arguments(self) -> list[int]:
        """Values for :meth:`parameters`."""
        if not self.strided:
            return []
        found = list(self.shape[1:])
        for name in self.strided:
            found += self.strides[name]
        return found

    def lines(self, linear: str, index: str) -> list[str]:
        """Statements that declare ``PREFIX_at_NAME`` for each operand."""
        p, rank = self.prefix, len(self.shape)
        found = []
        if self.strided:
            found.append(f"{index} {p}_rest = {linear};")
            for axis in range(rank - 1, 0, -1):
                found.append(f"const {index} {p}_c{axis} = {p}_rest % {p}_e{axis};")
                found.append(f"{p}_rest /= {p}_e{axis};")
            found.append(f"const {index} {p}_c0 = {p}_rest;")
        for name, step in self.steps.items():
            terms = [f"{p}_c{axis} * {p}_{name}_s{axis}" for axis in range(rank)]
            offset = {"dense": linear, "still": "0"}.get(step) or " + ".join(terms)
            found.append(f"const {index} {p}_at_{name} = {offset};")
        return found
