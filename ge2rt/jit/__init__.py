"""``ge2rt.jit``: plain NumPy code traced, fused, compiled and run.

The package itself is the decorator: ``@ge2rt.jit`` and ``from ge2rt.jit import jit`` are the same.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from ge2rt.jit.function import JitFunction
from ge2rt.jit.function import jit as _jit


class _Callable(types.ModuleType):
    """A module that can be called, so that its name serves as the decorator as well."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _jit(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
jit = _jit

__all__ = ["JitFunction", "jit"]
