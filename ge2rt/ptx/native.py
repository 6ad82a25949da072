"""What lowering hands to the CPU device: options in, native object and its needs out.

The C view of the binary interface (all CPU kernels share it)::

    struct Launch {                  // written by the host, one per launch
        const void *params;          //  0  packed PTX parameter block
        char       *globals;         //  8  the module's .global and .const variables
        int32_t    *abort;           // 16  0 while running; see ABORT_*; first writer wins
        char       *log;             // 24  what printf, assert and trap left, or null
        int32_t     grid[3];         // 32  gridDim
        int32_t     dynamic_shared;  // 44  bytes
        int64_t     blocks;          // 48  grid[0] * grid[1] * grid[2]
        int64_t     ticket;          // 56  next linear block to take (the pool's atomic counter)
        char       *host;            // 64  instrumented code only: *(void **)(host + CHECKS_AT) is
    };                               //     the state of the checks, which begins with CHECK_CALLS

    void SYMBOL(const struct Launch *launch, char *arena, int64_t first, int64_t last);

``SYMBOL`` runs the blocks ``first <= b < last`` (linear, x fastest) one after the other and polls
``*abort`` once a block. ``arena`` belongs to the calling thread, is aligned to 128 bytes and at
least ``NativeKernel.arena_bytes + dynamic_shared`` long: ``[static shared][dynamic shared][frames,
local]`` (the last part starts at the shared size rounded up to 128).
"""

from __future__ import annotations

from dataclasses import dataclass, field

ABORT_TRAP = 1  # trap instruction
ABORT_ASSERT = 2  # device assert
ABORT_CHECK = 3  # a memory, race, init or sync check failed
ABORT_HOST = 4  # asked from the host: Ctrl-C, time limit
ABORT_BARRIER = 5  # lanes of one warp wait at different barriers
ABORT_STACK = 7  # functions call each other too deeply (6 is the device's: no memory)
ABORT_DEADLOCK = 8  # all threads of a block wait at barriers that nobody else will come to

LOG_HEAD = 64  # bytes before the first record; see ptx/lower/messages.py
LOG_WORKSPACE = 32  # in the log's head: 32 bytes, zero at first, for barriers over the grid
LOG_RECORD = 32  # bytes of a record before what its kind tells


class LogKind:
    """Kinds of records in the log."""

    PRINTF = 1
    ASSERT = 2
    TRAP = 3


LAUNCH_BYTES = 64
ARENA_ALIGN = 128

# What instrumented code calls: the functions' addresses stand at the start of the checks' state.
CHECKS_AT = 72
CHECK_CALLS = (
    "attach", "begin", "phase", "fence", "leave", "arrive", "part", "commit", "warp", "access",
    "wait", "copies",
)  # fmt: skip
# An access in one word: bits 0-7 bytes a lane, 8-15 bytes of an element, and from here on...
# LOOKS: a plain read that only prepares an atomic of the same place; DECLARED: volatile and the
# like; COPIES: a read of local memory whose values only go to local memory; ASYNC: a write that is
# done when its thread has waited for it.
WHAT = {"SPACE": 16, "READ": 1 << 20, "WRITE": 1 << 21, "STRONG": 1 << 22, "ORDERS": 1 << 23,
        "LOOKS": 1 << 24, "DECLARED": 1 << 25, "COPIES": 1 << 26,
        "ASYNC": 1 << 27}  # fmt: skip


@dataclass(frozen=True)
class LowerOptions:
    """What the native code depends on, besides the PTX.

    ``lanes`` is the vector width W (32, 16, 8... 1: one lane at a time, for tests; 0: the lowering
    chooses). ``checks`` are
    names of ``GE2RT_CHECK``. ``cpu`` and ``features`` are LLVM's names for the host.
    """

    block: tuple[int, int, int]
    lanes: int = 32
    cpu: str = ""
    features: str = ""
    opt_level: int = 1
    checks: frozenset[str] = frozenset()
    seed: int | None = None  # shuffles the order of warps between barriers


@dataclass(frozen=True)
class GlobalSlot:
    """Where a module variable lies in ``Launch.globals``."""

    name: str
    space: str
    offset: int
    nbytes: int


@dataclass(frozen=True)
class GlobalImage:
    """The initial bytes of all module variables; ``relocations`` are (offset, target offset)."""

    slots: tuple[GlobalSlot, ...]
    image: bytes
    relocations: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Site:
    """A place in the program that a check can name; ``file`` is "" where there is no ``.loc``."""

    line: int  # of the PTX
    file: str
    source_line: int
    form: str  # the instruction


@dataclass(frozen=True)
class Checked:
    """What the host must know of an instrumented kernel."""

    checks: tuple[str, ...]
    sites: tuple[Site, ...]
    width: int  # lanes of a native warp
    granule: int  # bytes: all elements in shared and global memory are multiples of it
    lane_bytes: int  # local memory
    branches: int  # that decide on a barrier


@dataclass(frozen=True)
class NativeKernel:
    """One entry, lowered for one block shape and emitted as a relocatable object."""

    entry: str
    symbol: str
    object_code: bytes
    llvm_ir: str  # before optimisation; "" when read back from a store
    param_bytes: int
    param_layout: tuple[tuple[str, int, int], ...]  # (PTX type, offset, bytes) a parameter
    shared_bytes: int  # static shared memory
    arena_bytes: int  # static shared (rounded up) + frames + local, without dynamic shared
    log_bytes: int = 0  # room for records in ``Launch.log``; 0: the kernel leaves none
    alone: bool = False  # launches of one launcher must not overlap: it prints, or meets grid-wide
    strands: bool = False  # warps have small stacks of their own: never for the quick tier's code
    externs: tuple[str, ...] = ()  # host functions the object calls (libm and the like)
    notes: tuple[str, ...] = ()  # what lane analysis and region building decided, for people
    lines: dict[int, int] = field(default_factory=dict)
    checked: Checked | None = None
