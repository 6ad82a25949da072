"""LLVM IR of the checks: where an access lies, and whether it may.

A template: :func:`ge2rt.device.checks_ir.checks_ir` puts the numbers in.
"""

from __future__ import annotations

TEXT = """
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
