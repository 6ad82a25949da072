"""LLVM IR of the checks: blocks, barriers, fences, lanes that leave, warp instructions.

A template: :func:`ge2rt.device.checks_ir.checks_ir` puts the numbers in.
"""

from __future__ import annotations

TEXT = """
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
