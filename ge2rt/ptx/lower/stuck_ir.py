"""LLVM IR: warps that wait at barriers or call, and blocks whose warps all wait for ever.

Part of the text of :mod:`ge2rt.ptx.lower.crew_ir`, whose layout and numbers it shares.
"""

from __future__ import annotations

STUCK = """
; Let the other warps come first; this one can go on when a barrier is passed, and only then.
define internal void @crew_hold(ptr %strand) noinline {
  %held_p = getelementptr i8, ptr %strand, i64 28
  store i32 1, ptr %held_p
  call void @crew_yield(ptr %strand)
  store i32 0, ptr %held_p
  ret void
}

define internal void @crew_meet(ptr %strand, i32 %id, i32 %count, i32 %gen) noinline {
  br label %try
try:
  %passed = call i1 @crew_passed(ptr %strand, i32 %id, i32 %count, i32 %gen)
  br i1 %passed, label %done, label %wait
wait:
  call void @crew_hold(ptr %strand)
  br label %try
done:
  ret void
}

; Whether the stack has room for another call. Now and then the scheduler looks at signals.
define internal i1 @crew_room(ptr %strand, ptr %here) noinline {
  %crew_p = getelementptr i8, ptr %strand, i64 8
  %crew = load ptr, ptr %crew_p
  %number = ptrtoint ptr %crew to i64
  %stacks0 = add i64 %number, $STACKS
  %stacks = and i64 %stacks0, -64
  %warp_p = getelementptr i8, ptr %strand, i64 16
  %warp = load i32, ptr %warp_p
  %wide = zext i32 %warp to i64
  %before = mul i64 %wide, $STACK
  %bottom = add i64 %stacks, %before
  %least = add i64 %bottom, $RESERVE
  %at = ptrtoint ptr %here to i64
  %room = icmp ugt i64 %at, %least
  %calls_p = getelementptr i8, ptr %strand, i64 32
  %calls0 = load i32, ptr %calls_p
  %calls = add i32 %calls0, 1
  store i32 %calls, ptr %calls_p
  %low = and i32 %calls, 4095
  %due = icmp eq i32 %low, 0
  br i1 %due, label %rest, label %done
rest:
  call void @crew_yield(ptr %strand)
  br label %done
done:
  ret i1 %room
}

; Whether a crew has only warps at barriers; asked after rounds in which nothing happened.
define internal i1 @crew_stuck(ptr %first) noinline {
entry:
  br label %crews
crews:
  %crew = phi ptr [ %first, %entry ], [ %following, %next ]
  %end = icmp eq ptr %crew, null
  br i1 %end, label %no, label %strands
strands:
  %w = phi i64 [ 0, %crews ], [ %more, %strands ]
  %all = phi i1 [ true, %crews ], [ %both, %strands ]
  %step = mul i64 %w, $STRAND_BYTES
  %past = add i64 %step, $HEAD
  %strand = getelementptr i8, ptr %crew, i64 %past
  %ended_p = getelementptr i8, ptr %strand, i64 20
  %ended = load i32, ptr %ended_p
  %held_p = getelementptr i8, ptr %strand, i64 28
  %held = load i32, ptr %held_p
  %either = or i32 %ended, %held
  %stands = icmp ne i32 %either, 0
  %both = and i1 %all, %stands
  %more = add i64 %w, 1
  %last = icmp eq i64 %more, $WARPS
  br i1 %last, label %next, label %strands
next:
  %following = load ptr, ptr %crew
  br i1 %both, label %yes, label %crews
no:
  ret i1 false
yes:
  ret i1 true
}
"""
