"""The checks of GE2RT_CHECK at run time, as LLVM IR: what instrumented kernels call.

One thread runs a checked launch, block after block, so nothing here needs a lock and a fault is
the same in each run. ``tick`` counts barriers, fences, warp barriers and strong accesses (atomics,
volatile). Each granule of shared and global memory has a cell of three records, its last writer and
two readers; a record is {tick, block, thread and flags, site}. An earlier access *a* stands
before the present one *b* where one of these lies between: the program order of one thread; a
barrier of their block; a ``bar.warp.sync`` of their warp; a fence and then a strong access by
*a*'s warp (for another block: by *a*'s block), and a strong access by *b*'s. Less is asked of *b*
than the memory model wants, so that no good program is reported.
"""

from __future__ import annotations

from string import Template

from ge2rt.device import checks_access_ir, checks_cells_ir, checks_events_ir
from ge2rt.ptx.native import ABORT_CHECK, CHECK_CALLS, WHAT

MEMORY, RACE, INIT, SYNC = 1, 2, 4, 8  # bits of FLAGS
FLAGS = {"memory": MEMORY, "race": RACE, "init": INIT, "sync": SYNC}

_TABLE = 8 * len(CHECK_CALLS)
_WORDS = (
    "ABORT", "BLOCK", "ARENA", "SHARED_END", "FRAMES", "LOCAL", "ARENA_END", "PARAMS",
    "PARAM_BYTES", "LANE_BYTES", "RANGES", "RANGE_COUNT", "LAST_HIT", "CELLS", "WRITTEN",
    "WRITTEN_BYTES", "WARP_SYNC", "WARP_FENCE", "WARP_RELEASED", "WARP_STRONG", "WARP_LIVE",
    "BLOCK_RELEASED", "BLOCK_MASK", "VISITS", "PARTS", "FAULT_ADDRESS", "FAULT_BLOCK",
    "OTHER_BLOCK", "GROUPS",
)  # fmt: skip
_HALVES = (
    "TICK", "BARRIER", "BLOCK_START", "NOW_STRONG", "BLOCK_FENCE", "FLAGS", "WIDTH", "WARPS",
    "LAST_MASK", "SHIFT", "ARRIVED", "ARRIVED_BY", "FAULT", "FAULT_SITE", "FAULT_THREAD",
    "FAULT_SPACE", "OTHER_THREAD", "OTHER_SITE", "EXTRA", "WAITS",
)  # fmt: skip
_SPLIT = _TABLE + 8 * len(_WORDS)
STATE = {name: _TABLE + 8 * k for k, name in enumerate(_WORDS)} | {
    name: _SPLIT + 4 * k for k, name in enumerate(_HALVES)
}
STATE_BYTES = (_SPLIT + 4 * len(_HALVES) + 63) & -64
CELL_BYTES = 36  # three records of {i32 tick, i32 block, i16 thread and flags, i16 site}
RANGE_BYTES = 32  # {first byte, end, byte of the first cell, cells}
VISIT_BYTES = 12  # {phase, visits, whether the last one went to the barrier}
PART_BYTES = 32  # {phase, thread at the barrier, its site, thread past it, visits there, past it}

COPYING = (
    1 << 13
)  # a record's flag beside the thread: cp.async is under way, of a group, not a block

# What FAULT says.
OUTSIDE, MISALIGNED, RACING, UNWRITTEN, BARRIERS, BYPASSED, NOT_NAMED, INACTIVE, STUCK = range(
    1, 10
)
MOST_WAITS = 1 << 20  # passes of waiting loops without a plain write

SPACES = ("generic", "global", "shared", "local", "param", "const")


def checks_ir() -> str:
    """The module's text."""
    numbers: dict[str, int] = {
        **STATE, "ABORT_CHECK": ABORT_CHECK, "CELL_BYTES": CELL_BYTES, "RANGE_BYTES": RANGE_BYTES,
        "VISIT_BYTES": VISIT_BYTES, "PART_BYTES": PART_BYTES, "MEMORY": MEMORY, "RACE": RACE,
        "INIT": INIT, "SYNC": SYNC, "RACE_INIT": RACE | INIT, "OUTSIDE": OUTSIDE,
        "MISALIGNED": MISALIGNED, "RACING": RACING, "UNWRITTEN": UNWRITTEN, "BARRIERS": BARRIERS,
        "BYPASSED": BYPASSED, "NOT_NAMED": NOT_NAMED, "INACTIVE": INACTIVE, "GLOBAL": 1,
        "SHARED": 2, "LOCALS": 3, "PARAMETER": 4, "CONST": 5,
        "COPYING": COPYING, "STUCK": STUCK,
        "MOST_WAITS": MOST_WAITS, "W_ATOMIC": WHAT["STRONG"] | WHAT["LOOKS"],
        **{f"W_{name}": value for name, value in WHAT.items()},
    }  # fmt: skip
    return Template(
        checks_events_ir.TEXT + checks_access_ir.TEXT + checks_cells_ir.TEXT
    ).substitute(numbers)
