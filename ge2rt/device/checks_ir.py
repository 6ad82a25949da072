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

from ge2rt.ptx.native import CHECK_CALLS, WHAT

MEMORY, RACE, INIT, SYNC = 1, 2, 4, 8  # bits of FLAGS
FLAGS = {"memory": MEMORY, "race": RACE, "init": INIT, "sync": SYNC}

_TABLE = 8 * len(CHECK_CALLS)
_WORDS = (
    "ABORT", "BLOCK", "ARENA", "SHARED_END", "FRAMES", "LOCAL", "ARENA_END", "PARAMS",
    "PARAM_BYTES", "LANE_BYTES", "RANGES", "RANGE_COUNT", "LAST_HIT", "CELLS", "WRITTEN",
    "WRITTEN_BYTES", "WARP_SYNC", "WARP_FENCE", "WARP_RELEASED", "WARP_STRONG", "WARP_LIVE",
    "BLOCK_RELEASED", "BLOCK_MASK", "VISITS", "PARTS", "FAULT_ADDRESS", "FAULT_BLOCK",
    "OTHER_BLOCK",
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

# What FAULT says.
OUTSIDE, MISALIGNED, RACING, UNWRITTEN, BARRIERS, BYPASSED, NOT_NAMED, INACTIVE, STUCK = range(
    1, 10
)
MOST_WAITS = 1 << 22  # passes of waiting loops without a plain write

SPACES = ("generic", "global", "shared", "local", "param", "const")

_ACCESSORS = """
define internal i64 @g64(ptr %s, i64 %at) alwaysinline {
  %p = getelementptr i8, ptr %s, i64 %at
  %v = load i64, ptr %p, align 4
  ret i64 %v
}
define internal ptr @gp(ptr %s, i64 %at) alwaysinline {
  %p = getelementptr i8, ptr %s, i64 %at
  %v = load ptr, ptr %p, align 4
  ret ptr %v
}
define internal i32 @g32(ptr %s, i64 %at) alwaysinline {
  %p = getelementptr i8, ptr %s, i64 %at
  %v = load i32, ptr %p, align 4
  ret i32 %v
}
define internal i32 @g16(ptr %s, i64 %at) alwaysinline {
  %p = getelementptr i8, ptr %s, i64 %at
  %v = load i16, ptr %p, align 2
  %w = zext i16 %v to i32
  ret i32 %w
}
define internal void @p64(ptr %s, i64 %at, i64 %v) alwaysinline {
  %p = getelementptr i8, ptr %s, i64 %at
  store i64 %v, ptr %p, align 4
  ret void
}
define internal void @p32(ptr %s, i64 %at, i32 %v) alwaysinline {
  %p = getelementptr i8, ptr %s, i64 %at
  store i32 %v, ptr %p, align 4
  ret void
}
define internal i32 @of_warp(ptr %s, i64 %array, i32 %warp) alwaysinline {
  %base = call ptr @gp(ptr %s, i64 %array)
  %p = getelementptr i32, ptr %base, i32 %warp
  %v = load i32, ptr %p
  ret i32 %v
}
define internal void @to_warp(ptr %s, i64 %array, i32 %warp, i32 %v) alwaysinline {
  %base = call ptr @gp(ptr %s, i64 %array)
  %p = getelementptr i32, ptr %base, i32 %warp
  store i32 %v, ptr %p
  ret void
}
define internal i1 @asked(ptr %s, i32 %bits) alwaysinline {
  %flags = call i32 @g32(ptr %s, i64 $FLAGS)
  %both = and i32 %flags, %bits
  %yes = icmp ne i32 %both, 0
  ret i1 %yes
}
define internal i1 @bit(i32 %what, i32 %bit) alwaysinline {
  %both = and i32 %what, %bit
  %yes = icmp ne i32 %both, 0
  ret i1 %yes
}
define internal i32 @tick(ptr %s) alwaysinline {
  %old = call i32 @g32(ptr %s, i64 $TICK)
  %new = add i32 %old, 1
  call void @p32(ptr %s, i64 $TICK, i32 %new)
  ret i32 %new
}
define internal i32 @thread(ptr %s, i32 %warp, i32 %lane) alwaysinline {
  %width = call i32 @g32(ptr %s, i64 $WIDTH)
  %first = mul i32 %warp, %width
  %t = add i32 %first, %lane
  ret i32 %t
}
declare i32 @llvm.cttz.i32(i32, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

_EVENTS = """
define void @attach(ptr %s, ptr %abort, ptr %arena, i64 %shared, i64 %frames, i64 %local,
                    i64 %end, i64 %params) {
  %abort_i = ptrtoint ptr %abort to i64
  %arena_i = ptrtoint ptr %arena to i64
  %shared_end = add i64 %arena_i, %shared
  call void @p64(ptr %s, i64 $ABORT, i64 %abort_i)
  call void @p64(ptr %s, i64 $ARENA, i64 %arena_i)
  call void @p64(ptr %s, i64 $SHARED_END, i64 %shared_end)
  call void @p64(ptr %s, i64 $FRAMES, i64 %frames)
  call void @p64(ptr %s, i64 $LOCAL, i64 %local)
  call void @p64(ptr %s, i64 $ARENA_END, i64 %end)
  call void @p64(ptr %s, i64 $PARAMS, i64 %params)
  ret void
}

; A block begins.
define void @begin(ptr %s, i64 %block) {
  call void @p32(ptr %s, i64 $WAITS, i32 0)
  %t = call i32 @tick(ptr %s)
  call void @p32(ptr %s, i64 $BARRIER, i32 %t)
  call void @p32(ptr %s, i64 $BLOCK_START, i32 %t)
  call void @p64(ptr %s, i64 $BLOCK, i64 %block)
  call void @p32(ptr %s, i64 $NOW_STRONG, i32 0)
  call void @p32(ptr %s, i64 $BLOCK_FENCE, i32 0)
  call void @p32(ptr %s, i64 $ARRIVED, i32 -1)
  %warps = call i32 @g32(ptr %s, i64 $WARPS)
  %wide = zext i32 %warps to i64
  %bytes = mul i64 %wide, 16
  %times = call ptr @gp(ptr %s, i64 $WARP_SYNC)
  call void @llvm.memset.p0.i64(ptr %times, i8 0, i64 %bytes, i1 false)
  %quarter = lshr i64 %bytes, 2
  %live = call ptr @gp(ptr %s, i64 $WARP_LIVE)
  call void @llvm.memset.p0.i64(ptr %live, i8 -1, i64 %quarter, i1 false)
  %last = sub i32 %warps, 1
  %mask = call i32 @g32(ptr %s, i64 $LAST_MASK)
  call void @to_warp(ptr %s, i64 $WARP_LIVE, i32 %last, i32 %mask)
  %written = call ptr @gp(ptr %s, i64 $WRITTEN)
  %size = call i64 @g64(ptr %s, i64 $WRITTEN_BYTES)
  call void @llvm.memset.p0.i64(ptr %written, i8 0, i64 %size, i1 false)
  ret void
}

; All warps of the block have come to their barriers.
define void @phase(ptr %s) {
  call void @p32(ptr %s, i64 $WAITS, i32 0)
  %t = call i32 @tick(ptr %s)
  call void @p32(ptr %s, i64 $BARRIER, i32 %t)
  call void @p32(ptr %s, i64 $ARRIVED, i32 -1)
  ret void
}

define void @fence(ptr %s, i32 %warp) {
  %t = call i32 @tick(ptr %s)
  call void @to_warp(ptr %s, i64 $WARP_FENCE, i32 %warp, i32 %t)
  call void @p32(ptr %s, i64 $BLOCK_FENCE, i32 %t)
  ret void
}

; An atomic or volatile access: what the warp did before its last fence is released.
define internal void @strong(ptr %s, i32 %warp) {
  %t = call i32 @tick(ptr %s)
  call void @to_warp(ptr %s, i64 $WARP_STRONG, i32 %warp, i32 %t)
  %fence = call i32 @of_warp(ptr %s, i64 $WARP_FENCE, i32 %warp)
  call void @to_warp(ptr %s, i64 $WARP_RELEASED, i32 %warp, i32 %fence)
  call void @p32(ptr %s, i64 $NOW_STRONG, i32 %t)
  %all = call i32 @g32(ptr %s, i64 $BLOCK_FENCE)
  %slot = call ptr @released_by(ptr %s)
  store i32 %all, ptr %slot
  ret void
}
define internal ptr @released_by(ptr %s) alwaysinline {
  %block = call i64 @g64(ptr %s, i64 $BLOCK)
  %p = call ptr @slot_of(ptr %s, i64 %block)
  ret ptr %p
}
define internal ptr @slot_of(ptr %s, i64 %block) alwaysinline {
  %mask = call i64 @g64(ptr %s, i64 $BLOCK_MASK)
  %at = and i64 %block, %mask
  %base = call ptr @gp(ptr %s, i64 $BLOCK_RELEASED)
  %p = getelementptr i32, ptr %base, i64 %at
  ret ptr %p
}

; A pass of a loop that waits for other threads; no other warp or block runs meanwhile.
define i32 @wait(ptr %s, i32 %warp) {
  %old = call i32 @g32(ptr %s, i64 $WAITS)
  %new = add i32 %old, 1
  call void @p32(ptr %s, i64 $WAITS, i32 %new)
  %stuck = icmp ugt i32 %new, $MOST_WAITS
  br i1 %stuck, label %stop, label %on
on:
  ret i32 0
stop:
  %thread = call i32 @thread(ptr %s, i32 %warp, i32 0)
  %r = call i32 @fault(ptr %s, i32 $STUCK, i32 0, i32 %thread, i64 0, i32 0)
  ret i32 %r
}

define void @leave(ptr %s, i32 %warp, i32 %mask) {
  %live = call i32 @of_warp(ptr %s, i64 $WARP_LIVE, i32 %warp)
  %others = xor i32 %mask, -1
  %now = and i32 %live, %others
  call void @to_warp(ptr %s, i64 $WARP_LIVE, i32 %warp, i32 %now)
  ret void
}

; The first fault stays; the launch stops.
define internal i32 @fault(ptr %s, i32 %kind, i32 %site, i32 %thread, i64 %address, i32 %extra) {
  %had = call i32 @g32(ptr %s, i64 $FAULT)
  %first = icmp eq i32 %had, 0
  br i1 %first, label %keep, label %stop
keep:
  call void @p32(ptr %s, i64 $FAULT, i32 %kind)
  call void @p32(ptr %s, i64 $FAULT_SITE, i32 %site)
  call void @p32(ptr %s, i64 $FAULT_THREAD, i32 %thread)
  call void @p64(ptr %s, i64 $FAULT_ADDRESS, i64 %address)
  call void @p32(ptr %s, i64 $EXTRA, i32 %extra)
  %block = call i64 @g64(ptr %s, i64 $BLOCK)
  call void @p64(ptr %s, i64 $FAULT_BLOCK, i64 %block)
  br label %stop
stop:
  %abort = call ptr @gp(ptr %s, i64 $ABORT)
  %pair = cmpxchg ptr %abort, i32 0, i32 $ABORT_CHECK seq_cst seq_cst, align 4
  ret i32 1
}
define internal void @second(ptr %s, i32 %thread, i32 %site, i64 %block) {
  call void @p32(ptr %s, i64 $OTHER_THREAD, i32 %thread)
  call void @p32(ptr %s, i64 $OTHER_SITE, i32 %site)
  call void @p64(ptr %s, i64 $OTHER_BLOCK, i64 %block)
  ret void
}
"""

_SYNC = """
; Lanes come to a barrier: all threads that meet must meet at the same one.
define i32 @arrive(ptr %s, i32 %warp, i32 %mask, i32 %site) {
  %lane = call i32 @llvm.cttz.i32(i32 %mask, i1 false)
  %thread = call i32 @thread(ptr %s, i32 %warp, i32 %lane)
  %former = call i32 @g32(ptr %s, i64 $ARRIVED)
  %none = icmp slt i32 %former, 0
  br i1 %none, label %first, label %compare
first:
  call void @p32(ptr %s, i64 $ARRIVED, i32 %site)
  call void @p32(ptr %s, i64 $ARRIVED_BY, i32 %thread)
  ret i32 0
compare:
  %same = icmp eq i32 %former, %site
  br i1 %same, label %fine, label %bad
fine:
  ret i32 0
bad:
  %by = call i32 @g32(ptr %s, i64 $ARRIVED_BY)
  %block = call i64 @g64(ptr %s, i64 $BLOCK)
  call void @second(ptr %s, i32 %by, i32 %former, i64 %block)
  %r = call i32 @fault(ptr %s, i32 $BARRIERS, i32 %site, i32 %thread, i64 0, i32 0)
  ret i32 %r
}

define internal ptr @part_of(ptr %s, i32 %branch) {
  %base = call ptr @gp(ptr %s, i64 $PARTS)
  %at = mul i32 %branch, $PART_BYTES
  %p = getelementptr i8, ptr %base, i32 %at
  %phase = call i32 @g32(ptr %s, i64 $BARRIER)
  %former = load i32, ptr %p
  %same = icmp eq i32 %phase, %former
  br i1 %same, label %done, label %fresh
fresh:
  store i32 %phase, ptr %p
  call void @p64(ptr %p, i64 16, i64 0)
  call void @p64(ptr %p, i64 24, i64 0)
  br label %done
done:
  ret ptr %p
}
define internal ptr @visit_of(ptr %s, i32 %branch, i32 %thread) {
  %base = call ptr @gp(ptr %s, i64 $VISITS)
  %warps = call i32 @g32(ptr %s, i64 $WARPS)
  %row = call i32 @thread(ptr %s, i32 %warps, i32 0)
  %start = mul i32 %row, %branch
  %index = add i32 %start, %thread
  %at = mul i32 %index, $VISIT_BYTES
  %p = getelementptr i8, ptr %base, i32 %at
  %phase = call i32 @g32(ptr %s, i64 $BARRIER)
  %former = load i32, ptr %p
  %same = icmp eq i32 %phase, %former
  br i1 %same, label %done, label %fresh
fresh:
  store i32 %phase, ptr %p
  call void @p32(ptr %p, i64 4, i32 0)
  br label %done
done:
  ret ptr %p
}

; A branch that decides on a barrier: lanes TO go towards it, lanes PAST do not.
define i32 @part(ptr %s, i32 %warp, i32 %to, i32 %past, i32 %branch, i32 %site) {
entry:
  %part = call ptr @part_of(ptr %s, i32 %branch)
  %all = or i32 %to, %past
  br label %loop
loop:
  %rest = phi i32 [ %all, %entry ], [ %left, %next ]
  %none = icmp eq i32 %rest, 0
  br i1 %none, label %fine, label %run
run:
  %lane = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %less = sub i32 %rest, 1
  %left = and i32 %rest, %less
  %thread = call i32 @thread(ptr %s, i32 %warp, i32 %lane)
  %visit = call ptr @visit_of(ptr %s, i32 %branch, i32 %thread)
  %count = call i32 @g32(ptr %visit, i64 4)
  %more = add i32 %count, 1
  call void @p32(ptr %visit, i64 4, i32 %more)
  %moved = lshr i32 %to, %lane
  %goes = and i32 %moved, 1
  call void @p32(ptr %visit, i64 8, i32 %goes)
  %towards = icmp ne i32 %goes, 0
  %late = icmp ugt i32 %count, 63
  %skip = or i1 %towards, %late
  br i1 %skip, label %next, label %mark
mark:
  %wide = zext i32 %count to i64
  %bit = shl i64 1, %wide
  %before = call i64 @g64(ptr %part, i64 24)
  %now = or i64 %before, %bit
  call void @p64(ptr %part, i64 24, i64 %now)
  call void @p32(ptr %part, i64 12, i32 %thread)
  %there = call i64 @g64(ptr %part, i64 16)
  %both = and i64 %there, %bit
  %good = icmp eq i64 %both, 0
  br i1 %good, label %next, label %bad
next:
  br label %loop
bad:
  %r = call i32 @bypassed(ptr %s, ptr %part)
  ret i32 %r
fine:
  ret i32 0
}
; Lanes come to a barrier that BRANCH decided on.
define i32 @commit(ptr %s, i32 %warp, i32 %mask, i32 %branch, i32 %site) {
entry:
  %part = call ptr @part_of(ptr %s, i32 %branch)
  br label %loop
loop:
  %rest = phi i32 [ %mask, %entry ], [ %left, %next ]
  %none = icmp eq i32 %rest, 0
  br i1 %none, label %fine, label %run
run:
  %lane = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %less = sub i32 %rest, 1
  %left = and i32 %rest, %less
  %thread = call i32 @thread(ptr %s, i32 %warp, i32 %lane)
  %visit = call ptr @visit_of(ptr %s, i32 %branch, i32 %thread)
  %count = call i32 @g32(ptr %visit, i64 4)
  %last = sub i32 %count, 1
  %went = call i32 @g32(ptr %visit, i64 8)
  %seen = icmp ult i32 %last, 64
  %there = icmp ne i32 %went, 0
  %counts = and i1 %seen, %there
  br i1 %counts, label %mark, label %next
mark:
  %wide = zext i32 %last to i64
  %bit = shl i64 1, %wide
  %before = call i64 @g64(ptr %part, i64 16)
  %now = or i64 %before, %bit
  call void @p64(ptr %part, i64 16, i64 %now)
  call void @p32(ptr %part, i64 4, i32 %thread)
  call void @p32(ptr %part, i64 8, i32 %site)
  %past = call i64 @g64(ptr %part, i64 24)
  %both = and i64 %past, %bit
  %good = icmp eq i64 %both, 0
  br i1 %good, label %next, label %bad
next:
  br label %loop
bad:
  %r = call i32 @bypassed(ptr %s, ptr %part)
  ret i32 %r
fine:
  ret i32 0
}
define internal i32 @bypassed(ptr %s, ptr %part) {
  %at = call i32 @g32(ptr %part, i64 4)
  %site = call i32 @g32(ptr %part, i64 8)
  %past = call i32 @g32(ptr %part, i64 12)
  %block = call i64 @g64(ptr %s, i64 $BLOCK)
  call void @second(ptr %s, i32 %at, i32 %site, i64 %block)
  %r = call i32 @fault(ptr %s, i32 $BYPASSED, i32 %site, i32 %past, i64 0, i32 0)
  ret i32 %r
}

; An instruction for the lanes that each lane's MEMBERS name; ORDERS: it orders memory, too.
define i32 @warp(ptr %s, i32 %warp, i32 %active, ptr %members, i32 %orders, i32 %site) {
entry:
  %order = icmp ne i32 %orders, 0
  br i1 %order, label %note, label %ask
note:
  %t = call i32 @tick(ptr %s)
  call void @to_warp(ptr %s, i64 $WARP_SYNC, i32 %warp, i32 %t)
  br label %ask
ask:
  %wanted = call i1 @asked(ptr %s, i32 $SYNC)
  br i1 %wanted, label %begin, label %fine
begin:
  %live = call i32 @of_warp(ptr %s, i64 $WARP_LIVE, i32 %warp)
  %dead = xor i32 %active, -1
  %waiting = and i32 %live, %dead
  br label %loop
loop:
  %rest = phi i32 [ %active, %begin ], [ %left, %next ]
  %none = icmp eq i32 %rest, 0
  br i1 %none, label %fine, label %run
run:
  %lane = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %less = sub i32 %rest, 1
  %left = and i32 %rest, %less
  %thread = call i32 @thread(ptr %s, i32 %warp, i32 %lane)
  %p = getelementptr i32, ptr %members, i32 %lane
  %named = load i32, ptr %p
  %moved = lshr i32 %named, %lane
  %own = and i32 %moved, 1
  %itself = icmp ne i32 %own, 0
  br i1 %itself, label %others, label %stranger
stranger:
  %r1 = call i32 @fault(ptr %s, i32 $NOT_NAMED, i32 %site, i32 %thread, i64 0, i32 %named)
  ret i32 %r1
others:
  %missing = and i32 %named, %waiting
  %good = icmp eq i32 %missing, 0
  br i1 %good, label %next, label %bad
next:
  br label %loop
bad:
  %r2 = call i32 @fault(ptr %s, i32 $INACTIVE, i32 %site, i32 %thread, i64 0, i32 %missing)
  ret i32 %r2
fine:
  ret i32 0
}
"""

_ACCESS = """
; One access by the lanes of MASK. VALUES: what a plain store writes, element by element, or null.
define i32 @access(ptr %s, i32 %warp, i32 %mask, ptr %addresses, ptr %values, i32 %site,
                   i32 %what) {
entry:
  %is_strong = call i1 @bit(i32 %what, i32 $W_STRONG)
  br i1 %is_strong, label %note, label %plain
plain:
  %writes = call i1 @bit(i32 %what, i32 $W_WRITE)
  br i1 %writes, label %moves, label %begin
moves:
  call void @p32(ptr %s, i64 $WAITS, i32 0)
  br label %begin
note:
  %orders = call i1 @bit(i32 %what, i32 $W_ORDERS)
  br i1 %orders, label %release, label %tell
release:
  call void @fence(ptr %s, i32 %warp)
  br label %tell
tell:
  call void @strong(ptr %s, i32 %warp)
  br label %begin
begin:
  br label %loop
loop:
  %rest = phi i32 [ %mask, %begin ], [ %left, %run ]
  %none = icmp eq i32 %rest, 0
  br i1 %none, label %fine, label %run
run:
  %lane = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %less = sub i32 %rest, 1
  %left = and i32 %rest, %less
  %bad = call i32 @by_lane(ptr %s, i32 %warp, i32 %lane, i32 %mask, ptr %addresses, ptr %values,
                           i32 %site, i32 %what)
  %good = icmp eq i32 %bad, 0
  br i1 %good, label %loop, label %stop
stop:
  ret i32 1
fine:
  ret i32 0
}

; The space that a generic address lies in.
define internal i32 @resolve(ptr %s, i64 %a, i32 %space) {
  %known = icmp ne i32 %space, 0
  br i1 %known, label %given, label %shared
given:
  ret i32 %space
shared:
  %in_shared = call i1 @between(ptr %s, i64 %a, i64 $ARENA, i64 $FRAMES)
  br i1 %in_shared, label %is_shared, label %local
is_shared:
  ret i32 $SHARED
local:
  %in_local = call i1 @between(ptr %s, i64 %a, i64 $LOCAL, i64 $ARENA_END)
  br i1 %in_local, label %is_local, label %param
is_local:
  ret i32 $LOCALS
param:
  %start = call i64 @g64(ptr %s, i64 $PARAMS)
  %size = call i64 @g64(ptr %s, i64 $PARAM_BYTES)
  %off = sub i64 %a, %start
  %in_param = icmp ult i64 %off, %size
  %other = select i1 %in_param, i32 $PARAMETER, i32 $GLOBAL
  ret i32 %other
}
define internal i1 @between(ptr %s, i64 %a, i64 %low, i64 %high) alwaysinline {
  %start = call i64 @g64(ptr %s, i64 %low)
  %end = call i64 @g64(ptr %s, i64 %high)
  %r = call i1 @within(i64 %a, i64 1, i64 %start, i64 %end)
  ret i1 %r
}
define internal i1 @within(i64 %a, i64 %size, i64 %start, i64 %end) alwaysinline {
  %over = icmp uge i64 %a, %start
  %stop = add i64 %a, %size
  %under = icmp ule i64 %stop, %end
  %both = and i1 %over, %under
  ret i1 %both
}

; The row of the ranges that holds the access, or null.
define internal ptr @row_of(ptr %s, i64 %a, i64 %size) {
entry:
  %rows = call ptr @gp(ptr %s, i64 $RANGES)
  %count = call i64 @g64(ptr %s, i64 $RANGE_COUNT)
  %last = call i64 @g64(ptr %s, i64 $LAST_HIT)
  br label %loop
loop:
  %tried = phi i64 [ 0, %entry ], [ %more, %next ]
  %at = phi i64 [ %last, %entry ], [ %wrapped, %next ]
  %over = icmp uge i64 %tried, %count
  br i1 %over, label %none, label %look
look:
  %from = mul i64 %at, $RANGE_BYTES
  %row = getelementptr i8, ptr %rows, i64 %from
  %low = call i64 @g64(ptr %row, i64 0)
  %high = call i64 @g64(ptr %row, i64 8)
  %hit = call i1 @within(i64 %a, i64 %size, i64 %low, i64 %high)
  br i1 %hit, label %found, label %next
next:
  %more = add i64 %tried, 1
  %up = add i64 %at, 1
  %end = icmp uge i64 %up, %count
  %wrapped = select i1 %end, i64 0, i64 %up
  br label %loop
found:
  call void @p64(ptr %s, i64 $LAST_HIT, i64 %at)
  ret ptr %row
none:
  ret ptr null
}

; Where the local memory of a lane begins.
define internal i64 @own_local(ptr %s, i32 %warp, i32 %lane) {
  %thread = call i32 @thread(ptr %s, i32 %warp, i32 %lane)
  %wide = zext i32 %thread to i64
  %bytes = call i64 @g64(ptr %s, i64 $LANE_BYTES)
  %off = mul i64 %wide, %bytes
  %base = call i64 @g64(ptr %s, i64 $LOCAL)
  %r = add i64 %base, %off
  ret i64 %r
}

define internal i1 @inside(ptr %s, i32 %warp, i32 %lane, i64 %a, i64 %size, i32 %space,
                           ptr %row) {
  switch i32 %space, label %global [ i32 $SHARED, label %shared  i32 $LOCALS, label %local
                                     i32 $PARAMETER, label %param ]
global:
  %known = icmp ne ptr %row, null
  ret i1 %known
shared:
  %s0 = call i64 @g64(ptr %s, i64 $ARENA)
  %s1 = call i64 @g64(ptr %s, i64 $SHARED_END)
  %r1 = call i1 @within(i64 %a, i64 %size, i64 %s0, i64 %s1)
  ret i1 %r1
local:
  %l0 = call i64 @own_local(ptr %s, i32 %warp, i32 %lane)
  %bytes = call i64 @g64(ptr %s, i64 $LANE_BYTES)
  %l1 = add i64 %l0, %bytes
  %r2 = call i1 @within(i64 %a, i64 %size, i64 %l0, i64 %l1)
  ret i1 %r2
param:
  %p0 = call i64 @g64(ptr %s, i64 $PARAMS)
  %psize = call i64 @g64(ptr %s, i64 $PARAM_BYTES)
  %p1 = add i64 %p0, %psize
  %r3 = call i1 @within(i64 %a, i64 %size, i64 %p0, i64 %p1)
  ret i1 %r3
}

define internal i32 @by_lane(ptr %s, i32 %warp, i32 %lane, i32 %mask, ptr %addresses, ptr %values,
                             i32 %site, i32 %what) {
entry:
  %ap = getelementptr i64, ptr %addresses, i32 %lane
  %a = load i64, ptr %ap, align 1
  %size32 = and i32 %what, 255
  %size = zext i32 %size32 to i64
  %space_up = lshr i32 %what, $W_SPACE
  %space_given = and i32 %space_up, 15
  %space = call i32 @resolve(ptr %s, i64 %a, i32 %space_given)
  call void @p32(ptr %s, i64 $FAULT_SPACE, i32 %space)
  %thread = call i32 @thread(ptr %s, i32 %warp, i32 %lane)
  %is_global = icmp eq i32 %space, $GLOBAL
  %is_const = icmp eq i32 %space, $CONST
  %has_row = or i1 %is_global, %is_const
  br i1 %has_row, label %look, label %judge
look:
  %found = call ptr @row_of(ptr %s, i64 %a, i64 %size)
  br label %judge
judge:
  %row = phi ptr [ null, %entry ], [ %found, %look ]
  %good = call i1 @inside(ptr %s, i32 %warp, i32 %lane, i64 %a, i64 %size, i32 %space, ptr %row)
  %memory = call i1 @asked(ptr %s, i32 $MEMORY)
  br i1 %good, label %align, label %out
out:
  br i1 %memory, label %outside, label %fine
outside:
  %r1 = call i32 @fault(ptr %s, i32 $OUTSIDE, i32 %site, i32 %thread, i64 %a, i32 %what)
  ret i32 %r1
align:
  %ones = sub i64 %size, 1
  %low = and i64 %a, %ones
  %crooked = icmp ne i64 %low, 0
  %tell = and i1 %crooked, %memory
  br i1 %tell, label %misaligned, label %spaces
misaligned:
  %r2 = call i32 @fault(ptr %s, i32 $MISALIGNED, i32 %site, i32 %thread, i64 %a, i32 %what)
  ret i32 %r2
spaces:
  switch i32 %space, label %fine [ i32 $SHARED, label %shared  i32 $LOCALS, label %local
                                   i32 $GLOBAL, label %global ]
shared:
  %watched = call i1 @asked(ptr %s, i32 $RACE_INIT)
  br i1 %watched, label %cells_s, label %fine
cells_s:
  %arena = call i64 @g64(ptr %s, i64 $ARENA)
  %cells_all = call ptr @gp(ptr %s, i64 $CELLS)
  br label %shadow
global:
  %raced = call i1 @asked(ptr %s, i32 $RACE)
  br i1 %raced, label %cells_g, label %fine
cells_g:
  %base_g = call i64 @g64(ptr %row, i64 16)
  %cells_row = call ptr @gp(ptr %row, i64 24)
  br label %shadow
shadow:
  %base = phi i64 [ %arena, %cells_s ], [ %base_g, %cells_g ]
  %cells = phi ptr [ %cells_all, %cells_s ], [ %cells_row, %cells_g ]
  %shift = call i32 @g32(ptr %s, i64 $SHIFT)
  %shift_w = zext i32 %shift to i64
  %off = sub i64 %a, %base
  %first = lshr i64 %off, %shift_w
  %stop = add i64 %off, %ones
  %final = lshr i64 %stop, %shift_w
  %span = sub i64 %final, %first
  %count = add i64 %span, 1
  %at = mul i64 %first, $CELL_BYTES
  %cell = getelementptr i8, ptr %cells, i64 %at
  %is_shared = icmp eq i32 %space, $SHARED
  %r3 = call i32 @shadowed(ptr %s, ptr %cell, i64 %count, i1 %is_shared, i32 %warp, i32 %lane,
                           i32 %mask, ptr %addresses, ptr %values, i32 %site, i32 %what)
  ret i32 %r3
local:
  %r4 = call i32 @own(ptr %s, i32 %warp, i32 %lane, i64 %a, i64 %size, i32 %site, i32 %what)
  ret i32 %r4
fine:
  ret i32 0
}

; Local memory: bytes are marked when written; a read must find one mark at least (padding of
; structs is copied, too).
define internal i32 @own(ptr %s, i32 %warp, i32 %lane, i64 %a, i64 %size, i32 %site, i32 %what) {
entry:
  %asked = call i1 @asked(ptr %s, i32 $INIT)
  %copies = call i1 @bit(i32 %what, i32 $W_COPIES)
  %counts = xor i1 %copies, true
  %wanted = and i1 %asked, %counts
  br i1 %wanted, label %begin, label %fine
begin:
  %base = call i64 @g64(ptr %s, i64 $LOCAL)
  %off = sub i64 %a, %base
  %marks = call ptr @gp(ptr %s, i64 $WRITTEN)
  %p = getelementptr i8, ptr %marks, i64 %off
  %writes = call i1 @bit(i32 %what, i32 $W_WRITE)
  br i1 %writes, label %mark, label %look
mark:
  call void @llvm.memset.p0.i64(ptr %p, i8 1, i64 %size, i1 false)
  br label %fine
look:
  %i = phi i64 [ 0, %begin ], [ %more, %next ]
  %over = icmp uge i64 %i, %size
  br i1 %over, label %bad, label %next
next:
  %q = getelementptr i8, ptr %p, i64 %i
  %set = load i8, ptr %q
  %more = add i64 %i, 1
  %is_set = icmp ne i8 %set, 0
  br i1 %is_set, label %fine, label %look
bad:
  %thread = call i32 @thread(ptr %s, i32 %warp, i32 %lane)
  %r = call i32 @fault(ptr %s, i32 $UNWRITTEN, i32 %site, i32 %thread, i64 %a, i32 %what)
  ret i32 %r
fine:
  ret i32 0
}
"""

_CELLS = """
; Whether the access of a record may run at the same time as the present one.
define internal i1 @conflict(ptr %s, ptr %record, i1 %shared, i32 %warp, i32 %thread, i32 %what) {
  %then = call i32 @g32(ptr %record, i64 0)
  %never = icmp eq i32 %then, 0
  br i1 %never, label %no, label %kinds
kinds:
  %who = call i32 @g16(ptr %record, i64 8)
  %was_strong = call i1 @bit(i32 %who, i32 32768)
  %is_strong = call i1 @bit(i32 %what, i32 $W_ATOMIC)
  %atomic = and i1 %was_strong, %is_strong
  %was_declared = call i1 @bit(i32 %who, i32 16384)
  %is_declared = call i1 @bit(i32 %what, i32 $W_DECLARED)
  %declared = or i1 %was_declared, %is_declared
  %meant = or i1 %atomic, %declared
  br i1 %meant, label %no, label %blocks
blocks:
  %its = call i32 @g32(ptr %record, i64 4)
  %block = call i64 @g64(ptr %s, i64 $BLOCK)
  %mine = trunc i64 %block to i32
  %together = icmp eq i32 %its, %mine
  br i1 %together, label %same, label %apart
apart:
  br i1 %shared, label %no, label %foreign
foreign:
  %its_w = zext i32 %its to i64
  %slot = call ptr @slot_of(ptr %s, i64 %its_w)
  %out = load i32, ptr %slot
  %gone = icmp ugt i32 %out, %then
  %heard = call i32 @g32(ptr %s, i64 $NOW_STRONG)
  %hears = icmp ne i32 %heard, 0
  %told = and i1 %gone, %hears
  %loose = xor i1 %told, true
  ret i1 %loose
same:
  %other = and i32 %who, 16383
  %itself = icmp eq i32 %other, %thread
  %barrier = call i32 @g32(ptr %s, i64 $BARRIER)
  %old = icmp ult i32 %then, %barrier
  %quiet = or i1 %itself, %old
  br i1 %quiet, label %no, label %warps
warps:
  %width = call i32 @g32(ptr %s, i64 $WIDTH)
  %its_warp = udiv i32 %other, %width
  %one_warp = icmp eq i32 %its_warp, %warp
  %synced = call i32 @of_warp(ptr %s, i64 $WARP_SYNC, i32 %warp)
  %before = icmp ugt i32 %synced, %then
  %in_step = and i1 %one_warp, %before
  br i1 %in_step, label %no, label %fences
fences:
  %released = call i32 @of_warp(ptr %s, i64 $WARP_RELEASED, i32 %its_warp)
  %sent = icmp ugt i32 %released, %then
  %strong = call i32 @of_warp(ptr %s, i64 $WARP_STRONG, i32 %warp)
  %came = icmp ugt i32 %strong, %then
  %passed = and i1 %sent, %came
  %free = xor i1 %passed, true
  ret i1 %free
no:
  ret i1 false
}

; Whether a plain store writes what the record's store has left there.
define internal i1 @same_value(ptr %s, ptr %record, i32 %warp, i32 %lane, i32 %mask,
                               ptr %addresses, ptr %values, i64 %from, i32 %site, i32 %what) {
entry:
  %none = icmp eq ptr %values, null
  br i1 %none, label %no, label %begin
begin:
  %ap = getelementptr i64, ptr %addresses, i32 %lane
  %a = load i64, ptr %ap, align 1
  %here = add i64 %a, %from
  %memory = inttoptr i64 %here to ptr
  %mine = call ptr @value_at(ptr %s, ptr %values, i32 %lane, i64 %from, i32 %what)
  %width = call i32 @g32(ptr %s, i64 $WIDTH)
  %who = call i32 @g16(ptr %record, i64 8)
  %thread = and i32 %who, 16383
  %first = mul i32 %warp, %width
  %its_lane = sub i32 %thread, %first
  %its_site = call i32 @g16(ptr %record, i64 10)
  %then = call i32 @g32(ptr %record, i64 0)
  %tick = call i32 @g32(ptr %s, i64 $TICK)
  %site16 = and i32 %site, 65535
  %c1 = icmp ult i32 %its_lane, %lane
  %c2 = icmp eq i32 %its_site, %site16
  %c3 = icmp eq i32 %then, %tick
  %c12 = and i1 %c1, %c2
  %c123 = and i1 %c12, %c3
  br i1 %c123, label %now, label %compare
now:
  %bits = lshr i32 %mask, %its_lane
  %runs = call i1 @bit(i32 %bits, i32 1)
  %bp = getelementptr i64, ptr %addresses, i32 %its_lane
  %b = load i64, ptr %bp, align 1
  %spot = icmp eq i64 %a, %b
  %both = and i1 %runs, %spot
  %theirs = call ptr @value_at(ptr %s, ptr %values, i32 %its_lane, i64 %from, i32 %what)
  %source = select i1 %both, ptr %theirs, ptr %memory
  br label %compare
compare:
  %held = phi ptr [ %memory, %begin ], [ %source, %now ]
  %shift = call i32 @g32(ptr %s, i64 $SHIFT)
  %bytes = shl i32 1, %shift
  br label %loop
loop:
  %i = phi i32 [ 0, %compare ], [ %more, %next ]
  %over = icmp uge i32 %i, %bytes
  br i1 %over, label %yes, label %next
next:
  %p = getelementptr i8, ptr %held, i32 %i
  %q = getelementptr i8, ptr %mine, i32 %i
  %x = load i8, ptr %p
  %y = load i8, ptr %q
  %more = add i32 %i, 1
  %equal = icmp eq i8 %x, %y
  br i1 %equal, label %loop, label %no
yes:
  ret i1 true
no:
  ret i1 false
}
; Byte FROM of what a lane stores: elements stand apart by the width of the warp.
define internal ptr @value_at(ptr %s, ptr %values, i32 %lane, i64 %from, i32 %what) {
  %up = lshr i32 %what, 8
  %element = and i32 %up, 255
  %from32 = trunc i64 %from to i32
  %index = udiv i32 %from32, %element
  %rest = urem i32 %from32, %element
  %width = call i32 @g32(ptr %s, i64 $WIDTH)
  %row = mul i32 %index, %width
  %at = add i32 %row, %lane
  %start = mul i32 %at, %element
  %byte = add i32 %start, %rest
  %p = getelementptr i8, ptr %values, i32 %byte
  ret ptr %p
}

define internal void @put(ptr %s, ptr %record, i32 %thread, i32 %site, i32 %what) {
  %tick = call i32 @g32(ptr %s, i64 $TICK)
  %block = call i64 @g64(ptr %s, i64 $BLOCK)
  %mine = trunc i64 %block to i32
  %strong = call i1 @bit(i32 %what, i32 $W_ATOMIC)
  %flag = select i1 %strong, i32 32768, i32 0
  %declared = call i1 @bit(i32 %what, i32 $W_DECLARED)
  %second = select i1 %declared, i32 16384, i32 0
  %flags = or i32 %flag, %second
  %who = or i32 %thread, %flags
  %up = shl i32 %site, 16
  %word = or i32 %who, %up
  call void @p32(ptr %record, i64 0, i32 %tick)
  call void @p32(ptr %record, i64 4, i32 %mine)
  call void @p32(ptr %record, i64 8, i32 %word)
  ret void
}
define internal i1 @stale(ptr %s, ptr %record, i1 %shared) {
  %then = call i32 @g32(ptr %record, i64 0)
  %never = icmp eq i32 %then, 0
  %barrier = call i32 @g32(ptr %s, i64 $BARRIER)
  %old = icmp ult i32 %then, %barrier
  %its = call i32 @g32(ptr %record, i64 4)
  %block = call i64 @g64(ptr %s, i64 $BLOCK)
  %mine = trunc i64 %block to i32
  %here = icmp eq i32 %its, %mine
  %ours = or i1 %here, %shared
  %past = and i1 %ours, %old
  %r = or i1 %never, %past
  ret i1 %r
}
; Keep two readers, of different warps where there are any.
define internal void @reader(ptr %s, ptr %cell, i1 %shared, i32 %warp, i32 %thread, i32 %site,
                             i32 %what) {
  %one = getelementptr i8, ptr %cell, i64 12
  %two = getelementptr i8, ptr %cell, i64 24
  %block = call i64 @g64(ptr %s, i64 $BLOCK)
  %mine = trunc i64 %block to i32
  %its = call i32 @g32(ptr %one, i64 4)
  %here = icmp eq i32 %its, %mine
  %who = call i32 @g16(ptr %one, i64 8)
  %other = and i32 %who, 16383
  %equal = icmp eq i32 %other, %thread
  %same = and i1 %here, %equal
  %old = call i1 @stale(ptr %s, ptr %one, i1 %shared)
  %take = or i1 %same, %old
  br i1 %take, label %first, label %second
first:
  call void @put(ptr %s, ptr %one, i32 %thread, i32 %site, i32 %what)
  ret void
second:
  %width = call i32 @g32(ptr %s, i64 $WIDTH)
  %its_warp = udiv i32 %other, %width
  %far = icmp ne i32 %its_warp, %warp
  %away = xor i1 %here, true
  %differs = or i1 %far, %away
  %free = call i1 @stale(ptr %s, ptr %two, i1 %shared)
  %want = or i1 %differs, %free
  br i1 %want, label %keep, label %done
keep:
  call void @put(ptr %s, ptr %two, i32 %thread, i32 %site, i32 %what)
  br label %done
done:
  ret void
}

; Whether the cells of one element were all left alone since the block began.
define internal i1 @untouched(ptr %s, ptr %cell, i64 %count) {
entry:
  %start = call i32 @g32(ptr %s, i64 $BLOCK_START)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %more, %next ]
  %over = icmp uge i64 %i, %count
  br i1 %over, label %yes, label %next
next:
  %off = mul i64 %i, $CELL_BYTES
  %p = getelementptr i8, ptr %cell, i64 %off
  %then = load i32, ptr %p, align 4
  %more = add i64 %i, 1
  %old = icmp ult i32 %then, %start
  br i1 %old, label %loop, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i32 @shadowed(ptr %s, ptr %cell, i64 %count, i1 %shared, i32 %warp, i32 %lane,
                              i32 %mask, ptr %addresses, ptr %values, i32 %site, i32 %what) {
entry:
  %ap = getelementptr i64, ptr %addresses, i32 %lane
  %a = load i64, ptr %ap, align 1
  %thread = call i32 @thread(ptr %s, i32 %warp, i32 %lane)
  %shift = call i32 @g32(ptr %s, i64 $SHIFT)
  %shift_w = zext i32 %shift to i64
  %reads = call i1 @bit(i32 %what, i32 $W_READ)
  %writes = call i1 @bit(i32 %what, i32 $W_WRITE)
  %init = call i1 @asked(ptr %s, i32 $INIT)
  %race = call i1 @asked(ptr %s, i32 $RACE)
  %look1 = and i1 %reads, %init
  %look = and i1 %look1, %shared
  br i1 %look, label %elements, label %cells
elements:
  %up = lshr i32 %what, 8
  %element32 = and i32 %up, 255
  %element = zext i32 %element32 to i64
  %each0 = lshr i64 %element, %shift_w
  %none = icmp eq i64 %each0, 0
  %each = select i1 %none, i64 1, i64 %each0
  br label %element_loop
element_loop:
  %e = phi i64 [ 0, %elements ], [ %e_more, %element_run ]
  %e_over = icmp uge i64 %e, %count
  br i1 %e_over, label %cells, label %element_run
element_run:
  %e_off = mul i64 %e, $CELL_BYTES
  %e_cell = getelementptr i8, ptr %cell, i64 %e_off
  %left = sub i64 %count, %e
  %short = icmp ult i64 %left, %each
  %here = select i1 %short, i64 %left, i64 %each
  %fresh = call i1 @untouched(ptr %s, ptr %e_cell, i64 %here)
  %e_more = add i64 %e, %each
  br i1 %fresh, label %unwritten, label %element_loop
unwritten:
  %e_from = shl i64 %e, %shift_w
  %e_at = add i64 %a, %e_from
  %r1 = call i32 @fault(ptr %s, i32 $UNWRITTEN, i32 %site, i32 %thread, i64 %e_at, i32 %what)
  ret i32 %r1
cells:
  br label %loop
loop:
  %i = phi i64 [ 0, %cells ], [ %more, %next ]
  %over = icmp uge i64 %i, %count
  br i1 %over, label %fine, label %run
run:
  %off = mul i64 %i, $CELL_BYTES
  %c = getelementptr i8, ptr %cell, i64 %off
  %from = shl i64 %i, %shift_w
  %more = add i64 %i, 1
  br i1 %race, label %writer, label %update
writer:
  %clash = call i1 @conflict(ptr %s, ptr %c, i1 %shared, i32 %warp, i32 %thread, i32 %what)
  br i1 %clash, label %maybe, label %readers
maybe:
  %plain = xor i1 %reads, true
  br i1 %plain, label %compare, label %racing
compare:
  %equal = call i1 @same_value(ptr %s, ptr %c, i32 %warp, i32 %lane, i32 %mask, ptr %addresses,
                               ptr %values, i64 %from, i32 %site, i32 %what)
  br i1 %equal, label %readers, label %racing
readers:
  br i1 %writes, label %one, label %update
one:
  %c1 = getelementptr i8, ptr %c, i64 12
  %clash1 = call i1 @conflict(ptr %s, ptr %c1, i1 %shared, i32 %warp, i32 %thread, i32 %what)
  br i1 %clash1, label %racing, label %two
two:
  %c2 = getelementptr i8, ptr %c, i64 24
  %clash2 = call i1 @conflict(ptr %s, ptr %c2, i1 %shared, i32 %warp, i32 %thread, i32 %what)
  br i1 %clash2, label %racing, label %update
racing:
  %record = phi ptr [ %c, %maybe ], [ %c, %compare ], [ %c1, %one ], [ %c2, %two ]
  %who = call i32 @g16(ptr %record, i64 8)
  %other = and i32 %who, 16383
  %its_site = call i32 @g16(ptr %record, i64 10)
  %its = call i32 @g32(ptr %record, i64 4)
  %its_block = zext i32 %its to i64
  call void @second(ptr %s, i32 %other, i32 %its_site, i64 %its_block)
  %spot = add i64 %a, %from
  %r2 = call i32 @fault(ptr %s, i32 $RACING, i32 %site, i32 %thread, i64 %spot, i32 %what)
  ret i32 %r2
update:
  br i1 %writes, label %wrote, label %read
wrote:
  ; A thread's atomic does not hide its plain write from others.
  %w_who = call i32 @g16(ptr %c, i64 8)
  %w_mine = icmp eq i32 %w_who, %thread
  %w_gone = call i1 @stale(ptr %s, ptr %c, i1 %shared)
  %w_live = xor i1 %w_gone, true
  %w_block = call i64 @g64(ptr %s, i64 $BLOCK)
  %w_now = trunc i64 %w_block to i32
  %w_then = call i32 @g32(ptr %c, i64 4)
  %w_here = icmp eq i32 %w_now, %w_then
  %w_strong = call i1 @bit(i32 %what, i32 $W_STRONG)
  %w_1 = and i1 %w_mine, %w_live
  %w_2 = and i1 %w_here, %w_strong
  %w_keep = and i1 %w_1, %w_2
  br i1 %w_keep, label %next, label %replace
replace:
  call void @put(ptr %s, ptr %c, i32 %thread, i32 %site, i32 %what)
  br label %next
read:
  br i1 %race, label %note, label %next
note:
  call void @reader(ptr %s, ptr %c, i1 %shared, i32 %warp, i32 %thread, i32 %site, i32 %what)
  br label %next
next:
  br label %loop
fine:
  ret i32 0
}
"""


def checks_ir() -> str:
    """The module's text."""
    from ge2rt.ptx.native import ABORT_CHECK

    numbers: dict[str, int] = {
        **STATE, "ABORT_CHECK": ABORT_CHECK, "CELL_BYTES": CELL_BYTES, "RANGE_BYTES": RANGE_BYTES,
        "VISIT_BYTES": VISIT_BYTES, "PART_BYTES": PART_BYTES, "MEMORY": MEMORY, "RACE": RACE,
        "INIT": INIT, "SYNC": SYNC, "RACE_INIT": RACE | INIT, "OUTSIDE": OUTSIDE,
        "MISALIGNED": MISALIGNED, "RACING": RACING, "UNWRITTEN": UNWRITTEN, "BARRIERS": BARRIERS,
        "BYPASSED": BYPASSED, "NOT_NAMED": NOT_NAMED, "INACTIVE": INACTIVE, "GLOBAL": 1,
        "SHARED": 2, "LOCALS": 3, "PARAMETER": 4, "CONST": 5,
        "STUCK": STUCK, "MOST_WAITS": MOST_WAITS, "W_ATOMIC": WHAT["STRONG"] | WHAT["LOOKS"],
        **{f"W_{name}": value for name, value in WHAT.items()},
    }  # fmt: skip
    return Template(_ACCESSORS + _EVENTS + _SYNC + _ACCESS + _CELLS).substitute(numbers)
