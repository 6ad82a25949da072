"""Loaded modules, shared by the plans of one code: a shape-generic kernel is loaded once."""

from __future__ import annotations

from weakref import WeakKeyDictionary, WeakValueDictionary

from ge2rt.build.records import Binary
from ge2rt.device.api import Device, Module

_modules: WeakKeyDictionary[Device, WeakValueDictionary[tuple[str, str], Module]] = (
    WeakKeyDictionary()
)


def load_module(device: Device, binary: Binary) -> Module:
    """The module of a binary on a device: the one in use, or loaded now.

    Modules live as long as a plan uses them. Threads that come at the same time may load twice.
    """
    loaded = _modules.setdefault(device, WeakValueDictionary())
    key = binary.kind, binary.key.digest
    module = loaded.get(key)
    if module is None:
        module = device.load(binary.data, binary.kind, binary.key.digest, binary.line_map)
        loaded[key] = module
    return module


def clear() -> None:
    """Forget the modules: plans made from now on load their own."""
    _modules.clear()
