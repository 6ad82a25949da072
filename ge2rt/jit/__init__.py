"""``@ge2rt.jit``: a function of NumPy (or CuPy) arrays, traced, fused, compiled and run as kernels.

    jit(function, *, static=(), dynamic=None, device=None, graph=False)

    @jit
    def layer(x, w): ...

    @jit(static=("n",))        # the values of these parameters are compiled in
    @jit(dynamic={"x": {0: "batch"}})   # kernels for any extent at once
    @jit(device="cuda:0")      # instead of the arrays' own device
    @jit(graph=True)           # launches captured as one CUDA graph

What it gives is a :class:`JitFunction`: call it, ``f.stats()`` tells what was compiled and why,
``f.compile(*args)`` gives one compiled form (``.stages``, ``.report("out.html")``), ``f.clear()``
forgets. ``ge2rt.jit.functions`` has what NumPy lacks (``softmax``, ``gelu``, ``topk``...).
docs/jit.md says what is covered. TypeError for code that cannot be traced, with its line.

The package itself is the decorator: ``@ge2rt.jit``, ``from ge2rt import jit`` and ``from ge2rt.jit
import jit`` are all the same object.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from ge2rt.base.errors import InvalidTypeError
from ge2rt.jit.function import JitFunction, Stats
from ge2rt.jit.function import jit as _jit

if TYPE_CHECKING:
    from ge2rt.jit.function import jit


class _Decorator(types.ModuleType):
    """A module that can be called, so that its name serves as the decorator as well."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        foreign = sorted({"static_argnums", "static_argnames"} & kwargs.keys())
        if foreign:
            raise InvalidTypeError(
                f"jit has no parameter {foreign[0]}",
                next_step='name the parameters that are compiled in: jit(f, static=("n",))',
            )
        return _jit(*args, **kwargs)


sys.modules[__name__].__class__ = _Decorator
if not TYPE_CHECKING:
    jit = sys.modules[__name__]

__all__ = ["JitFunction", "Stats", "jit"]
