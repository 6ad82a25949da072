"""A stand-in for the native modules ``graph_executor_v2`` and ``graph_executor``.

For clients that import the native module by name: set ``GE_NATIVE=ge2rt.compat``, or import this
module first. It registers itself under both names where no real module of that name exists.
"""

from __future__ import annotations

import importlib.util
import sys

from ge2rt.abi import (
    GE2_API_VERSION,
    check_api_version,
    ge_v2_capability_table_raw,
    ge_v2_kernel_table_raw,
    last_error,
    launch_kernel,
    query_capability,
    query_kernels,
)

__all__ = [
    "GE2_API_VERSION",
    "check_api_version",
    "ge_v2_capability_table_raw",
    "ge_v2_kernel_table_raw",
    "last_error",
    "launch_kernel",
    "query_capability",
    "query_kernels",
]

NATIVE_NAMES = ("graph_executor", "graph_executor_v2")


def _register() -> None:
    for name in NATIVE_NAMES:
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = sys.modules[__name__]


_register()
