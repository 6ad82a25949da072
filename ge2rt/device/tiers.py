"""Two tiers of native code: a quick one to start with, the full one made behind it.

Large kernels take LLVM a second or so to optimise. Their first code comes from a few passes; a
background thread makes the full code, keeps it in the store, and puts its address into every
launcher that is in use. A launch that runs meanwhile ends on the code it began with.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from weakref import WeakSet

from ge2rt.base import events
from ge2rt.base.errors import Ge2rtError
from ge2rt.base.locks import ForkLock
from ge2rt.device.objects import Linked, link
from ge2rt.ptx.native import NativeKernel

# Lines of LLVM IR from which the full tier takes long enough to be worth two compilations.
LARGE = 3000


class NativeCode:
    """Linked code of one kernel for one block shape, and the launchers that run it."""

    def __init__(self, kernel: NativeKernel) -> None:
        self.kernel = kernel
        self.linked = _linked(kernel)
        self._users: WeakSet[CodeUser] = WeakSet()
        self._retired: list[Linked] = []  # a launch may still be on its way through it
        self._lock = ForkLock()

    @property
    def address(self) -> int:
        """Where the kernel's code begins."""
        return self.linked.address

    def use(self, user: CodeUser) -> None:
        """Tell ``user`` the address now and at each change."""
        with self._lock:
            self._users.add(user)
            user.adopt(self.address)

    def replace(self, kernel: NativeKernel) -> None:
        """Better code of the same kernel."""
        fresh = _linked(kernel)
        with self._lock:
            self._retired.append(self.linked)
            self.kernel, self.linked = kernel, fresh
            for user in self._users:
                user.adopt(fresh.address)


class CodeUser:
    """What runs native code and can be told of better code."""

    def adopt(self, address: int) -> None:
        """Run the code at ``address`` from the next launch on."""
        raise NotImplementedError


def _linked(kernel: NativeKernel) -> Linked:
    return link(kernel.object_code, (kernel.symbol,))[kernel.symbol]


_upgrades: WeakSet[Upgrades] = WeakSet()


class Upgrades:
    """The background thread. It ends when there is nothing to do, and with the main thread."""

    def __init__(self) -> None:
        self.after_fork()
        _upgrades.add(self)

    def after_fork(self) -> None:
        """In the child: the thread is not here; the quick code stays in use."""
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._open = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, code: NativeCode, finish: Callable[[], NativeKernel]) -> None:
        """Replace ``code`` by what ``finish`` makes, some time."""

        def job() -> None:
            try:
                code.replace(finish())
                events.emit("ptx.upgrade", entry=code.kernel.entry)
            except Ge2rtError as fault:  # the quick code stays in use
                events.emit("ptx.upgrade_failed", entry=code.kernel.entry, fault=str(fault))

        with self._changed:
            self._open += 1
            self._jobs.put(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ge2rt-upgrades")
                self._thread.start()

    def wait(self) -> None:
        """Return when all jobs that were added are done."""
        with self._changed:
            self._changed.wait_for(lambda: self._open == 0 or self._thread is None)

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._open == 0 or not threading.main_thread().is_alive():
                    self._thread = None
                    self._changed.notify_all()
                    return
            try:
                self._jobs.get()()
            finally:
                with self._changed:
                    self._open -= 1
                    self._changed.notify_all()


def _after_fork() -> None:
    for upgrades in tuple(_upgrades):
        upgrades.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
