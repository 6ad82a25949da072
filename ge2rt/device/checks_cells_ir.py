"""LLVM IR of the checks: who wrote and read each granule last, and what orders the two.

A template: :func:`ge2rt.device.checks_ir.checks_ir` puts the numbers in.
"""

from __future__ import annotations

TEXT = """
; Whether the access of a record may run at the same time as the present one.
define internal i1 @conflict(ptr %s, ptr %record, i1 %shared, i32 %warp, i32 %thread, i32 %what) {
  %then = call i32 @g32(ptr %record, i64 0)
  %never = icmp eq i32 %then, 0
  br i1 %never, label %no, label %kinds
kinds:
  %who = call i32 @g16(ptr %record, i64 8)
  %copy = call i1 @bit(i32 %who, i32 $COPYING)
  br i1 %copy, label %under_way, label %settled
under_way:  ; nobody may come near, the thread that copies included
  %start = call i32 @g32(ptr %s, i64 $BLOCK_START)
  %now = icmp uge i32 %then, %start
  ret i1 %now
settled:
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
  %other = and i32 %who, 8191
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
  %thread = and i32 %who, 8191
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
  %async = call i1 @bit(i32 %what, i32 $W_ASYNC)
  %third = select i1 %async, i32 $COPYING, i32 0
  %all = or i32 %flags, %third
  %who = or i32 %thread, %all
  %up = shl i32 %site, 16
  %word = or i32 %who, %up
  %group = call i32 @of_warp(ptr %s, i64 $GROUPS, i32 %thread)
  %owner = select i1 %async, i32 %group, i32 %mine
  call void @p32(ptr %record, i64 0, i32 %tick)
  call void @p32(ptr %record, i64 4, i32 %owner)
  call void @p32(ptr %record, i64 8, i32 %word)
  ret void
}

; Lanes commit a group of their copies (COMMIT), or wait for all groups but the last PENDING:
; what was under way is then a write of the present moment.
define i32 @copies(ptr %s, i32 %warp, i32 %mask, i32 %commit, i32 %pending) {
entry:
  %width = call i32 @g32(ptr %s, i64 $WIDTH)
  %groups = call ptr @gp(ptr %s, i64 $GROUPS)
  %first = mul i32 %warp, %width
  %commits = icmp ne i32 %commit, 0
  br i1 %commits, label %lanes, label %begin
lanes:
  %lane = phi i32 [ 0, %entry ], [ %lane_more, %lane_next ]
  %lane_over = icmp uge i32 %lane, %width
  br i1 %lane_over, label %done, label %lane_look
lane_look:
  %lane_more = add i32 %lane, 1
  %lane_bits = lshr i32 %mask, %lane
  %lane_runs = call i1 @bit(i32 %lane_bits, i32 1)
  br i1 %lane_runs, label %lane_count, label %lane_next
lane_count:
  %thread = add i32 %first, %lane
  %count_p = getelementptr i32, ptr %groups, i32 %thread
  %count = load i32, ptr %count_p
  %counted = add i32 %count, 1
  store i32 %counted, ptr %count_p
  br label %lane_next
lane_next:
  br label %lanes
begin:
  %cells = call ptr @gp(ptr %s, i64 $CELLS)
  %arena = call i64 @g64(ptr %s, i64 $ARENA)
  %end = call i64 @g64(ptr %s, i64 $SHARED_END)
  %shift = call i32 @g32(ptr %s, i64 $SHIFT)
  %shift_w = zext i32 %shift to i64
  %bytes = sub i64 %end, %arena
  %number = lshr i64 %bytes, %shift_w
  %start = call i32 @g32(ptr %s, i64 $BLOCK_START)
  %now = call i32 @g32(ptr %s, i64 $TICK)
  %block = call i64 @g64(ptr %s, i64 $BLOCK)
  %mine = trunc i64 %block to i32
  br label %loop
loop:
  %i = phi i64 [ 0, %begin ], [ %more, %next ]
  %over = icmp uge i64 %i, %number
  br i1 %over, label %done, label %run
run:
  %more = add i64 %i, 1
  %off = mul i64 %i, $CELL_BYTES
  %cell = getelementptr i8, ptr %cells, i64 %off
  %who = call i32 @g16(ptr %cell, i64 8)
  %copy = call i1 @bit(i32 %who, i32 $COPYING)
  br i1 %copy, label %recent, label %next
recent:
  %then = call i32 @g32(ptr %cell, i64 0)
  %live = icmp uge i32 %then, %start
  br i1 %live, label %ours, label %next
ours:
  %owner = and i32 %who, 8191
  %its_lane = sub i32 %owner, %first
  %inside = icmp ult i32 %its_lane, %width
  %safe = select i1 %inside, i32 %its_lane, i32 0
  %bits = lshr i32 %mask, %safe
  %runs = call i1 @bit(i32 %bits, i32 1)
  %waits = and i1 %inside, %runs
  br i1 %waits, label %grouped, label %next
grouped:
  %its_group = call i32 @g32(ptr %cell, i64 4)
  %all_p = getelementptr i32, ptr %groups, i32 %owner
  %all = load i32, ptr %all_p
  %after = sub i32 %all, %its_group
  %complete = icmp ugt i32 %after, %pending
  br i1 %complete, label %settle, label %next
settle:
  %word = call i32 @g32(ptr %cell, i64 8)
  %plain = xor i32 %word, $COPYING
  call void @p32(ptr %cell, i64 8, i32 %plain)
  call void @p32(ptr %cell, i64 0, i32 %now)
  call void @p32(ptr %cell, i64 4, i32 %mine)
  br label %next
next:
  br label %loop
done:
  ret i32 0
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
  %other = and i32 %who, 8191
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
  %other = and i32 %who, 8191
  %its_site = call i32 @g16(ptr %record, i64 10)
  %its = call i32 @g32(ptr %record, i64 4)
  %under_way = call i1 @bit(i32 %who, i32 $COPYING)
  %its_wide = zext i32 %its to i64
  %my_block = call i64 @g64(ptr %s, i64 $BLOCK)
  %its_block = select i1 %under_way, i64 %my_block, i64 %its_wide
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
