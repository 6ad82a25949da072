"""ge2rt: a kernel runtime that compiles from source at run time, for GPUs and for CPUs."""

from __future__ import annotations

__version__ = "0.1.0"
