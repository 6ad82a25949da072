"""The workspace of a plan's launches: given by the caller, or kept by the plan."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.base.locks import ForkLock
from ge2rt.device.api import Device

ALIGNMENT = 256  # bytes, as an allocation of a device


class Scratch:
    """Memory that launches of one plan write and read between them.

    Work of one stream happens in order, so that its launches share one piece; calls of several
    threads at once have pieces of their own.
    """

    def __init__(self, device: Device, kernel: str) -> None:
        self._device, self._kernel = device, kernel
        self._lock = ForkLock()
        self._idle: dict[int, list[int]] = {}

    @contextlib.contextmanager
    def lent(self, nbytes: int, stream: int, given: int) -> Iterator[int]:
        """An address for one call: ``given``, or memory of the plan's; 0 where none is needed."""
        if not nbytes or given:
            if given % ALIGNMENT or (given and not nbytes):
                raise InvalidArgumentError(
                    "the workspace cannot be used", kernel=self._kernel, argument="workspace",
                    expected=f"a multiple of {ALIGNMENT}" if nbytes else "0: the plan needs none",
                    got=hex(given), next_step="ask plan.workspace for the bytes that are needed",
                )  # fmt: skip
            yield given
            return
        with self._lock:
            idle = self._idle.setdefault(stream, [])
            address = idle.pop() if idle else 0
        if not address:
            address = self._device.memory.allocate(nbytes)
        try:
            yield address
        finally:
            with self._lock:
                self._idle[stream].append(address)

    def __del__(self) -> None:
        for addresses in self._idle.values():
            for address in addresses:
                with contextlib.suppress(Exception):  # at exit the device may be gone
                    self._device.memory.free(address)
