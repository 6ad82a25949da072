"""The signature that all instruction rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ge2rt.ptx.ast import Instr
from ge2rt.ptx.emit import Emitter, Value

# (emitter, instruction, source values) -> destination values.
#
# Sources come in textual order with vectors flattened, each in its register's storage type (pred
# i1, 16 bits i16, b32 i32, f32 float, b64 i64, f64 double, b128 i128; immediates as an i64 scalar
# constant or float/double by their kind) and are scalars or vectors of ``emitter.lanes``. A rule
# casts them to the type the instruction names, so an ``f32`` held in a ``.b32`` register (CUDA 13)
# works. Results stand in the order of the flattened destinations (``d|p`` gives two), in the
# instruction's own type; the caller casts them to the register's storage type. If all sources are
# scalar the results must be.
PureRule: TypeAlias = Callable[[Emitter, Instr, Sequence[Value]], list[Value]]

# As above, plus the mask of executing lanes as an i1 vector of ``emitter.lanes``; sources have been
# splatted to vectors. Results are vectors.
WarpRule: TypeAlias = Callable[[Emitter, Instr, Sequence[Value], Value], list[Value]]
