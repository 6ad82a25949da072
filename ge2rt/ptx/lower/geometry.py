"""Special registers: what a lane knows of its place in the block and grid.

Thread t of a block (x fastest) is lane ``t % W`` of warp ``t // W`` of the native code, with W the
vector width. ``%laneid`` and ``%warpid`` count in PTX warps of 32 whatever W is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ge2rt.base.errors import UnsupportedError
from ge2rt.base.once import cached_property
from ge2rt.ptx.ast import Special
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.lanes import UNIFORM, Lanes, constant, counted
from ge2rt.ptx.native import LOG_WORKSPACE

PTX_WARP = 32
_AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True)
class Here:
    """Run-time values at some place in the native code: warp number, block index, grid, sizes."""

    warp: Value  # i32
    ctaid: tuple[Value, Value, Value]
    grid: tuple[Value, Value, Value]
    dynamic_shared: Value
    static_shared: int


@dataclass(frozen=True)
class Geometry:
    """A block shape cut into warps of ``width`` lanes."""

    block: tuple[int, int, int]
    width: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Native warps of a block."""
        return -(-self.threads // self.width)

    @property
    def last_mask(self) -> int:
        """Lanes of the last warp that exist, as a bit set."""
        rest = self.threads % self.width
        return (1 << (rest or self.width)) - 1

    @property
    def partial(self) -> bool:
        """Whether the last warp lacks lanes."""
        return self.threads % self.width != 0

    @cached_property
    def linear(self) -> bool:
        """Whether x is the thread number itself."""
        return self.block[1] == 1 and self.block[2] == 1

    def coordinate(self, axis: int, thread: int) -> int:
        """``tid`` along an axis."""
        x, y, _ = self.block
        if self.linear:
            return thread if axis == 0 else 0
        return (thread % x, thread // x % y, thread // (x * y))[axis]

    @cached_property
    def _tids(self) -> tuple[Lanes | None, ...]:
        return tuple(self._pattern(axis) for axis in range(3))

    def _pattern(self, axis: int) -> Lanes | None:
        """Lanes of ``tid`` where all warps show the same offsets."""
        width, bases, offsets = self.width, set(), None
        for warp in range(self.warps):
            first = warp * width
            base = self.coordinate(axis, first)
            bases.add(base)
            here = [self.coordinate(axis, first + k) - base for k in range(width)]
            alive = min(width, self.threads - first)
            if offsets is None:
                offsets = here
            elif here[:alive] != offsets[:alive]:
                return None
        assert offsets is not None
        start = min(bases)
        differing = 0
        for base in bases:
            differing |= base ^ start
        known = (differing & -differing).bit_length() - 1 if differing else 31
        low, high = 0, max(max(bases) + max(offsets), 0)
        lanes = counted(offsets, 0, low, high)
        if not differing and lanes.uniform:
            return constant(start)
        return Lanes(lanes.offsets, known, start & ((1 << known) - 1), low, high)

    # -- analysis ----------------------------------------------------------------------------
    def lanes_of(self, special: Special) -> Lanes | None:
        """Lanes of a special register; UnsupportedError for one that is not there."""
        row = _row(special)
        if special.name == "tid":
            return self._tids[_AXES[special.axis]]
        return row.lanes(self, special.axis)

    def laneid(self) -> Lanes:
        """Lanes of ``%laneid``."""
        if self.width >= PTX_WARP:
            return counted(range(self.width), 5, 0, PTX_WARP - 1)
        known = self.width.bit_length() - 1
        return counted(range(self.width), known, 0, PTX_WARP - 1)

    # -- code --------------------------------------------------------------------------------
    def value_of(self, e: Emitter, special: Special, here: Here) -> Value:
        """The value: lane 0's scalar, or a vector where the lanes have no fixed offsets."""
        return _row(special).value(self, e, special.axis, here)

    def first_thread(self, e: Emitter, here: Here) -> Value:
        """Number of the warp's first thread, as i32."""
        return e.binary("mul", here.warp, Value("i32", str(self.width)))

    def thread_numbers(self, e: Emitter, here: Here) -> Value:
        """All lanes' thread numbers."""
        first = self.first_thread(e, here)
        return e.binary("add", first, e.per_lane("i32", range(self.width)))


@dataclass(frozen=True)
class _Row:
    lanes: Callable[[Geometry, str], Lanes | None]
    value: Callable[[Geometry, Emitter, str, Here], Value]


def _row(special: Special) -> _Row:
    row = _ROWS.get(special.name)
    if row is None or (special.axis and special.axis not in _AXES):
        dotted = f".{special.axis}" if special.axis else ""
        raise UnsupportedError(f"special register %{special.name}{dotted} is not there on cpu")
    return row


def _const(text: str) -> Value:
    return Value("i32", text)


def _tid(g: Geometry, e: Emitter, axis: str, here: Here) -> Value:
    at = _AXES[axis]
    lanes = g.lanes_of(Special("tid", axis))
    if lanes is not None and lanes.known >= 31 and lanes.uniform:
        return _const(str(lanes.residue))
    thread = g.first_thread(e, here) if lanes is not None else g.thread_numbers(e, here)
    x, y, z = g.block
    if g.linear:
        return thread
    if at == 0:
        return e.binary("urem", thread, _const(str(x)))
    row = e.binary("udiv", thread, _const(str(x)))
    if at == 2:
        return e.binary("udiv", row, _const(str(y)))
    return e.binary("urem", row, _const(str(y))) if z > 1 else row


def _laneid(g: Geometry, e: Emitter, axis: str, here: Here) -> Value:
    if g.width >= PTX_WARP:
        return _const("0")
    return e.binary("and", g.first_thread(e, here), _const(str(PTX_WARP - 1)))


def _warpid(g: Geometry, e: Emitter, axis: str, here: Here) -> Value:
    return e.binary("udiv", g.first_thread(e, here), _const(str(PTX_WARP)))


def _lane_mask(kind: str) -> _Row:
    def value(g: Geometry, e: Emitter, axis: str, here: Here) -> Value:
        numbers: Value
        if g.width >= PTX_WARP:
            numbers = e.per_lane("i32", range(PTX_WARP))
        else:
            numbers = e.binary("and", g.thread_numbers(e, here), _const(str(PTX_WARP - 1)))
        one = e.binary("shl", e.splat(_const("1"), g.width), numbers)
        below = e.binary("sub", one, _const("1"))
        if kind == "eq":
            return one
        if kind == "lt":
            return below
        if kind == "le":
            return e.binary("or", below, one)
        upto = e.binary("or", below, one)
        return e.binary("xor", below if kind == "ge" else upto, _const("-1"))

    return _Row(lambda g, a: None if g.width > 1 else UNIFORM, value)


def _fixed(value: int) -> _Row:
    return _Row(lambda g, a: constant(value), lambda g, e, a, h: _const(str(value)))


def _clock(type: str) -> _Row:
    def value(g: Geometry, e: Emitter, axis: str, here: Here) -> Value:
        ticks = e.call_named("llvm.readcyclecounter", [], "i64")
        return e.convert("trunc", ticks, type) if type != "i64" else ticks

    return _Row(lambda g, a: UNIFORM, value)


def _clock_high() -> _Row:
    def value(g: Geometry, e: Emitter, axis: str, here: Here) -> Value:
        ticks = e.call_named("llvm.readcyclecounter", [], "i64")
        return e.convert("trunc", e.binary("lshr", ticks, Value("i64", "32")), "i32")

    return _Row(lambda g, a: UNIFORM, value)


def _grid_workspace(high: bool) -> _Row:
    """Half of the address of the words that cooperative groups meet over the grid with."""

    def value(g: Geometry, e: Emitter, axis: str, here: Here) -> Value:
        log = e.raw("ptrtoint ptr %log to i64", "i64")
        there = e.compare("icmp ne", log, Value("i64", "0"))
        at = e.binary("add", log, Value("i64", str(LOG_WORKSPACE)))
        at = e.select(there, at, Value("i64", "0"))
        if high:
            at = e.binary("lshr", at, Value("i64", "32"))
        return e.convert("trunc", at, "i32")

    return _Row(lambda g, a: UNIFORM, value)


_COUNT = Lanes((), 0, 0, 0, (1 << 31) - 1)

_ROWS: dict[str, _Row] = {
    "tid": _Row(lambda g, a: None, _tid),
    "ntid": _Row(lambda g, a: constant(g.block[_AXES[a]]),
                 lambda g, e, a, h: _const(str(g.block[_AXES[a]]))),
    "ctaid": _Row(lambda g, a: _COUNT, lambda g, e, a, h: h.ctaid[_AXES[a]]),
    "nctaid": _Row(lambda g, a: _COUNT, lambda g, e, a, h: h.grid[_AXES[a]]),
    "laneid": _Row(lambda g, a: g.laneid(), _laneid),
    "warpid": _Row(lambda g, a: Lanes((), 0, 0, 0, 31), _warpid),
    "nwarpid": _Row(lambda g, a: constant(-(-g.threads // PTX_WARP)),
                    lambda g, e, a, h: _const(str(-(-g.threads // PTX_WARP)))),
    "lanemask_eq": _lane_mask("eq"), "lanemask_lt": _lane_mask("lt"),
    "lanemask_le": _lane_mask("le"), "lanemask_gt": _lane_mask("gt"),
    "lanemask_ge": _lane_mask("ge"),
    "clusterid": _Row(lambda g, a: _COUNT, lambda g, e, a, h: h.ctaid[_AXES[a]]),
    "nclusterid": _Row(lambda g, a: _COUNT, lambda g, e, a, h: h.grid[_AXES[a]]),
    "smid": _fixed(0), "nsmid": _fixed(1), "gridid": _fixed(0),
    "is_explicit_cluster": _fixed(0), "cluster_ctaid": _fixed(0), "cluster_ctarank": _fixed(0),
    "cluster_nctaid": _fixed(1), "cluster_nctarank": _fixed(1),
    "clock": _clock("i32"), "clock_hi": _clock_high(), "clock64": _clock("i64"),
    "globaltimer": _clock("i64"), "globaltimer_lo": _clock("i32"),
    "globaltimer_hi": _clock_high(), "envreg1": _grid_workspace(True),
    "envreg2": _grid_workspace(False),
    **{f"pm{k}": _fixed(0) for k in range(8)},  # performance counters
    "dynamic_smem_size": _Row(lambda g, a: UNIFORM, lambda g, e, a, h: h.dynamic_shared),
    "total_smem_size": _Row(
        lambda g, a: UNIFORM,
        lambda g, e, a, h: e.binary("add", h.dynamic_shared, _const(str(h.static_shared)))),
    "aggr_smem_size": _Row(
        lambda g, a: UNIFORM,
        lambda g, e, a, h: e.binary("add", h.dynamic_shared, _const(str(h.static_shared)))),
}  # fmt: skip
BLOCK_WIDE = frozenset((
    "ntid", "ctaid", "nctaid", "nwarpid", "smid", "nsmid", "gridid", "dynamic_smem_size",
    "total_smem_size",
))  # fmt: skip
PLACE_ONLY = BLOCK_WIDE | {"tid", "laneid", "warpid"}
