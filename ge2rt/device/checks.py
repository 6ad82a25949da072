"""Launches under ``GE2RT_CHECK``: the memory they may touch, and what a found fault says.

A checked launch runs on the calling thread alone. The run-time part is
:mod:`ge2rt.device.checks_ir`; this module fills its state before a launch and reads it afterwards.
"""

from __future__ import annotations

import copy
import ctypes
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ge2rt.base.errors import UnsupportedError
from ge2rt.base.locks import ForkLock
from ge2rt.device import objects
from ge2rt.device.api import LaunchShape
from ge2rt.device.checks_ir import (
    CELL_BYTES,
    FLAGS,
    PART_BYTES,
    RANGE_BYTES,
    STATE,
    STATE_BYTES,
    STUCK,
    VISIT_BYTES,
    checks_ir,
)
from ge2rt.device.checks_report import Found, Scene, Span, array_span, describe
from ge2rt.device.cpu import CpuLauncher
from ge2rt.device.host import address_of
from ge2rt.device.objects import ObjectStore
from ge2rt.device.pool import AlignedBytes
from ge2rt.device.pool_ir import CONTEXT
from ge2rt.ptx.native import ABORT_CHECK, CHECK_CALLS, LOG_HEAD, Checked, NativeKernel

_MOST_BLOCKS = 1 << 20  # that are told apart by when they released memory
_ALIGN = 15
_WORKSPACE = 32  # where the grid's workspace lies in the log, see ptx/lower/messages.py


class CheckedLauncher(CpuLauncher):
    """One instrumented kernel with one launch shape; it has no native entry.

    Without :meth:`watching`, a kernel may touch the live allocations of the device's memory and the
    module's variables.
    """

    def __init__(
        self, *args: Any, line_map: Any, variables: Sequence[tuple[str, int, int]]
    ) -> None:
        super().__init__(*args)
        assert self.kernel.checked is not None
        self.native = None
        self._line_map = line_map
        self._variables = [Span(f"variable {name}", low, high) for name, low, high in variables]
        self._calls = _runtime(self._device.store)
        self._one_at_a_time = ForkLock()
        self._run = partial(self._checked, self._known)

    def _known(self, *, live: bool = True) -> list[Span]:
        """What any launch may touch."""
        start = self._log.address
        workspace = Span("the grid's workspace", start + _WORKSPACE, start + LOG_HEAD)
        found = [*self._variables, workspace, *_lent]
        if live:
            memory = self._device.memory.live()
            found += [Span("an allocation", low, low + nbytes) for low, nbytes in memory]
        return found

    def watching(self, spans: Sequence[Span], *, live: bool = False) -> CheckedLauncher:
        """The launcher for launches that may touch ``spans`` and the module's variables.

        ``live``: all live allocations, too.
        """
        other = copy.copy(self)
        other._run = partial(self._checked, lambda: [*spans, *self._known(live=live)])
        return other

    def _checked(self, spans: Callable[[], Sequence[Span]], args: bytes) -> int:
        """Run on this thread; a found fault is raised."""
        checked = self.kernel.checked
        assert checked is not None
        known = tuple(spans())
        state = _State(self.kernel, self.shape, known, self._calls)
        self._memory.put(CONTEXT["CHECKS"], ctypes.c_int64, state.address)
        status = self._pool.launch_alone(self._memory.address, args)
        found = state.found()
        if status != ABORT_CHECK or found is None:
            return status
        self._log.finish(self.name)
        if found.kind == STUCK:
            raise UnsupportedError(
                "a thread waits for one that cannot run meanwhile under checks",
                kernel=self.name, next_step="unset GE2RT_CHECK",
            )  # fmt: skip
        scene = Scene(checked, self.shape, known, state.shared_start, self._line_map)
        raise describe(found, scene, self.name)


class _State:
    """The memory that one checked launch works with."""

    def __init__(
        self, kernel: NativeKernel, shape: LaunchShape, spans: Sequence[Span],
        calls: Sequence[int],
    ) -> None:  # fmt: skip
        checked = kernel.checked
        assert checked is not None
        self._memory = AlignedBytes(STATE_BYTES)
        self.address = self._memory.address
        self._keep: list[Any] = []
        for at, address in enumerate(calls):
            self._memory.put(8 * at, ctypes.c_int64, address)
        threads = shape.block[0] * shape.block[1] * shape.block[2]
        warps = -(-threads // checked.width)
        rest = threads % checked.width or checked.width
        blocks = shape.grid[0] * shape.grid[1] * shape.grid[2]
        slots = 1 << (min(blocks, _MOST_BLOCKS) - 1).bit_length()
        written = warps * checked.width * checked.lane_bytes if "init" in checked.checks else 0
        shared = kernel.shared_bytes + shape.shared
        times = self._zeros(16 * warps)
        for k, name in enumerate(("WARP_SYNC", "WARP_FENCE", "WARP_RELEASED", "WARP_STRONG")):
            self._word(name, times + 4 * warps * k)
        words = {
            "WARP_LIVE": self._zeros(4 * warps), "BLOCK_RELEASED": self._zeros(4 * slots),
            "BLOCK_MASK": slots - 1, "PARAM_BYTES": kernel.param_bytes,
            "LANE_BYTES": checked.lane_bytes, "WRITTEN": self._zeros(written),
            "WRITTEN_BYTES": written,
            "CELLS": self._zeros((shared // checked.granule + 2) * CELL_BYTES),
            "VISITS": self._zeros(checked.branches * warps * checked.width * VISIT_BYTES),
            "GROUPS": self._zeros(4 * warps * checked.width),
            "PARTS": self._zeros(checked.branches * PART_BYTES),
            "RANGES": self._ranges(checked, spans), "RANGE_COUNT": len(spans),
        }  # fmt: skip
        for name, value in words.items():
            self._word(name, value)
        halves = {
            "FLAGS": sum(FLAGS[name] for name in checked.checks), "WIDTH": checked.width,
            "WARPS": warps, "LAST_MASK": (1 << rest) - 1,
            "SHIFT": checked.granule.bit_length() - 1,
        }  # fmt: skip
        for name, value in halves.items():
            self._memory.put(STATE[name], ctypes.c_uint32, value)

    def _word(self, name: str, value: int) -> None:
        self._memory.put(STATE[name], ctypes.c_int64, value)

    def _zeros(self, nbytes: int) -> int:
        """Address of fresh zeroed memory; pages that are not touched cost nothing."""
        memory = np.zeros(nbytes // 8 + 2, np.uint64)
        self._keep.append(memory)
        return address_of(memory)

    def _ranges(self, checked: Checked, spans: Sequence[Span]) -> int:
        """Rows of {first byte, end, byte of the first cell, cells}; what overlaps shares cells."""
        rows = np.zeros((len(spans) + 1, RANGE_BYTES // 8), np.uint64)
        end, base, cells = 0, 0, 0
        order = sorted(range(len(spans)), key=lambda k: spans[k].low)
        for place, k in enumerate(order):
            span = spans[k]
            if span.low >= end:
                end = _segment_end(spans, order[place:])
                base = span.low & ~_ALIGN
                count = (end - base) // checked.granule + 2 if "race" in checked.checks else 0
                cells = self._zeros(count * CELL_BYTES)
            rows[k] = (span.low, span.high, base, cells)
        self._keep.append(rows)
        return address_of(rows)

    @property
    def shared_start(self) -> int:
        """Address of the shared memory of the last block."""
        return self._memory.get(STATE["ARENA"], ctypes.c_int64)

    def found(self) -> Found | None:
        """The fault, if there is one."""

        def half(name: str) -> int:
            return self._memory.get(STATE[name], ctypes.c_int32)

        def word(name: str) -> int:
            return self._memory.get(STATE[name], ctypes.c_uint64)

        if not half("FAULT"):
            return None
        return Found(
            half("FAULT"), half("FAULT_SITE"), word("FAULT_BLOCK"), half("FAULT_THREAD"),
            half("FAULT_SPACE"), word("FAULT_ADDRESS"), half("EXTRA") & 0xFFFFFFFF,
            half("OTHER_SITE"), word("OTHER_BLOCK"), half("OTHER_THREAD"),
        )  # fmt: skip


def _segment_end(spans: Sequence[Span], order: Sequence[int]) -> int:
    """Where the run of overlapping spans ends that the first of ``order`` begins."""
    end = spans[order[0]].high
    for k in order[1:]:
        if spans[k].low >= end:
            break
        end = max(end, spans[k].high)
    return end


_lent: list[Span] = []


@contextmanager
def lent(*arrays: np.ndarray[Any, Any]) -> Iterator[None]:
    """Let checked launches touch the memory of ``arrays``, which they know by address only.

    For pointers in structs and in tables of pointers: what a launch is handed as an array is known.
    """
    spans = [array_span("lent memory", array) for array in arrays]
    with _lock:
        _lent.extend(spans)
    try:
        yield
    finally:
        with _lock:
            for span in spans:
                _lent.remove(span)


_lock = ForkLock()
_linked: list[dict[str, objects.Linked]] = []


def _runtime(store: ObjectStore) -> tuple[int, ...]:
    """Addresses of the functions of :mod:`ge2rt.device.checks_ir`, linked once a process."""
    with _lock:
        if not _linked:
            text = checks_ir()
            host = objects.host_target()
            key = (
                ("kind", "cpu-checks"), ("text", hashlib.sha256(text.encode()).hexdigest()),
                ("cpu", host.cpu), ("features", host.features),
                ("llvmlite", objects.llvm_version()),
            )  # fmt: skip
            entry = objects.decode(store.get(key))
            code = entry[1] if entry is not None else objects.compile_ir(text)
            if entry is None:
                store.put(key, objects.encode({}, code))
            _linked.append(objects.link(code, CHECK_CALLS))
        return tuple(_linked[0][name].address for name in CHECK_CALLS)


def clear() -> None:
    """Forget the linked functions (launchers keep what they use)."""
    with _lock:
        _retired.extend(_linked)
        _linked.clear()


_retired: list[dict[str, objects.Linked]] = []
