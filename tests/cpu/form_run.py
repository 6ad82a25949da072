"""Runs batches of instruction forms on the CPU device and on the interpreter, and compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cpu.form_bounds import outside
from cpu.form_kernels import CELL, Fragment, body, module, space_of
from cpu.form_values import Words, bits_of, feed
from cpu.native_run import load
from exact_floats import FORMATS
from numpy.typing import NDArray
from oracle.ptx_interp import Oracle

BLOCK = 64
# Opcodes whose result is any NaN where it is one: the manual leaves the payload open.
_ANY_NAN = frozenset((
    "add", "sub", "mul", "fma", "div", "rcp", "sqrt", "min", "max", "abs", "neg", "cvt", "atom",
))  # fmt: skip
_FP8_NAN = {"e4m3x2": 0x7E, "e5m2x2": 0x7C}  # larger without the sign: NaN


@dataclass(frozen=True)
class Way:
    """How to lower a kernel: lanes at a time, features that the rules may use, optimisation."""

    lanes: int
    features: str = ""
    level: int = 1

    def __str__(self) -> str:
        return f"{self.lanes} lanes{', all features' * bool(self.features)}, O{self.level}"


@dataclass
class Batch:
    """Forms of one space in one kernel, with their operands and memory."""

    fragments: Sequence[Fragment]
    count: int  # operands of each sort; threads are three times as many
    uniform: bool = False  # the last operand is the same for a block
    given: NDArray[np.uint64] = field(init=False)
    memory: NDArray[np.uint8] = field(init=False)
    rows: list[tuple[int, int, int]] = field(init=False)
    text: str = field(init=False)

    def __post_init__(self) -> None:
        threads = 3 * self.count
        assert threads % BLOCK == 0
        given: list[Words] = []
        cells: list[Words] = []
        self.rows, targets, bodies = [], 0, []
        for f in self.fragments:
            self.rows.append((len(given), targets, len(cells)))
            columns = feed([s.kind for s in f.sources], self.count, f.example)
            last = len(f.sources) - 1 if self.uniform else -1
            if last >= 0:
                columns[last] = columns[last].reshape(-1, BLOCK)[:, :1].repeat(BLOCK, 1).reshape(-1)
            if f.cell:
                cells.append(_cells(f, self.count))
            if "cas" in f.mods:
                columns[0] = _hits(f, columns[0], cells[-1])
            given += columns
            bodies.append(body(f, self.rows[-1], threads, last))
            targets += len(f.targets)
        self.given = np.array(given or [np.zeros(threads)], np.uint64)
        self.memory = np.array(cells or [np.zeros(4 * threads)], np.uint64).view(np.uint8)
        self._targets = max(targets, 1)
        self.text = module(bodies, space_of(self.fragments[0].example), BLOCK)

    def _arrays(self) -> list[Any]:
        kept = np.full((self._targets, 3 * self.count), 0xA5A5A5A5A5A5A5A5, np.uint64)
        return [self.given.copy(), kept, _aligned(self.memory)]

    def on_the_device(self, way: Way) -> list[Any]:
        """Results and memory afterwards."""
        arrays = self._arrays()
        kernel = load(self.text, "k", (BLOCK,), way.lanes, features=way.features,
                      opt_level=way.level)  # fmt: skip
        assert kernel((3 * self.count // BLOCK,), arrays) == 0
        return arrays[1:]

    def on_the_oracle(self) -> list[Any]:
        """The same from the interpreter."""
        arrays = self._arrays()
        Oracle(self.text).launch("k", 3 * self.count // BLOCK, BLOCK, arrays)
        return arrays[1:]

    def differences(self, device: Sequence[Any], oracle: Sequence[Any]) -> list[str]:
        """What is wrong, a line a form."""
        found = []
        for f, rows in zip(self.fragments, self.rows, strict=True):
            columns = self.given[rows[0] : rows[0] + len(f.sources)]
            for k in range(len(f.targets)):
                got, want = device[0][rows[1] + k], oracle[0][rows[1] + k]
                bad = differ(f, k, got, want, columns)
                if bad.any():
                    at = int(np.argmax(bad))
                    texts = ", ".join(f"{int(c[at]):#x}" for c in columns)
                    found.append(
                        f"{f.example} of {texts}: {int(got[at]):#x}, not "
                        f"{int(want[at]):#x} ({int(bad.sum())} of {bad.size})"
                    )
            if f.cell:
                found += _cell_faults(f, *(m[rows[2]] for m in (device[1], oracle[1])))
        return found


def _aligned(memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
    raw = np.empty(memory.size + CELL, np.uint8)
    start = -raw.ctypes.data % CELL
    out = raw[start : start + memory.size].reshape(memory.shape)
    out[...] = memory
    return out


def _cells(f: Fragment, count: int) -> Words:
    """Typed words, 32 bytes a thread, as 64-bit words."""
    bits = bits_of(f.cell)
    words = feed([f.cell], count * CELL * 8 // bits, f"cells of {f.example}")[0]
    return words.astype(f"u{bits // 8}").view(np.uint64)


def _hits(f: Fragment, compare: Words, cells: Words) -> Words:
    """Half the operands of a compare-and-swap are what the cell holds."""
    mine = (np.arange(compare.size) // f.joined) * 4
    held = cells[mine] & np.uint64((1 << bits_of(f.cell)) - 1)
    return np.where(np.arange(compare.size) % 2 == 0, held, compare)


def _elements(words: Words, kind: str) -> list[tuple[Words, str]]:
    """The parts of packed words with the type of each."""
    if kind.endswith("x2"):
        inner = kind[:-2]
        width = np.uint64(bits_of(kind) // 2)
        low = np.uint64((1 << int(width)) - 1)
        return [(words & low, kind if kind[0] == "e" else inner),
                (words >> width & low, kind if kind[0] == "e" else inner)]  # fmt: skip
    return [(words & np.uint64((1 << bits_of(kind)) - 1), kind)]


def _nan(words: Words, kind: str) -> NDArray[np.bool_]:
    if kind in _FP8_NAN:
        return (words & np.uint64(0x7F)) > _FP8_NAN[kind]
    if kind not in FORMATS:
        return np.zeros(words.shape, bool)
    f = FORMATS[kind]
    return (words & np.uint64((1 << (f.bits - 1)) - 1)) > f.infinity


def result_kind(f: Fragment) -> str:
    """The type of a form's result."""
    return f.types[0] if f.mods[0] in ("cvt", "set") else f.types[-1] if f.types else "b32"


def differ(
    f: Fragment, target: int, got: Words, want: Words, columns: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """Which results are wrong: other bits, or beyond the manual's bound."""
    if f.targets[target] == "%w" or f.mods[0] == "setp":
        return got != want
    if {"approx", "full"} & set(f.mods):
        return outside(f, got, columns)
    bad = got != want
    kind = result_kind(f)
    if f.mods[0] in _ANY_NAN and bad.any():
        width = np.uint64(bits_of(kind))
        above = (got >> width != want >> width) if width < 64 else np.zeros(bad.shape, bool)
        bad = above
        for (g, part), (w, _) in zip(_elements(got, kind), _elements(want, kind), strict=True):
            bad = bad | ((g != w) & ~(_nan(g, part) & _nan(w, part)))
    return bad


def _cell_faults(f: Fragment, got: NDArray[np.uint8], want: NDArray[np.uint8]) -> list[str]:
    kind = f.cell
    g, w = (m.view(f"u{bits_of(kind) // 8}").astype(np.uint64) for m in (got, want))
    bad = g != w
    if f.mods[0] == "atom":
        bad = np.zeros(g.shape, bool)
        for (a, part), (b, _) in zip(_elements(g, kind), _elements(w, kind), strict=True):
            bad |= (a != b) & ~(_nan(a, part) & _nan(b, part))
    if not bad.any():
        return []
    at = int(np.argmax(bad))
    return [f"{f.example} leaves {int(g[at]):#x} in word {at} of memory, not {int(w[at]):#x}"]
