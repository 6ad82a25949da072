"""``ge2rt.jit``: plain NumPy code traced, fused, compiled and run.

The package itself is the decorator: ``@ge2rt.jit``, ``from ge2rt import jit`` and ``from ge2rt.jit
import jit`` are all the same object.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from ge2rt.jit.function import JitFunction, Stats
from ge2rt.jit.function import jit as _jit

if TYPE_CHECKING:
    from ge2rt.jit.function import jit


class _Decorator(types.ModuleType):
    """A module that can be called, so that its name serves as the decorator as well."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _jit(*args, **kwargs)


sys.modules[__name__].__class__ = _Decorator
if not TYPE_CHECKING:
    jit = sys.modules[__name__]

__all__ = ["JitFunction", "Stats", "jit"]
