"""LLVM IR of a launch: arenas, the ticket loop, the estimate of a launch's work.

A template: :func:`ge2rt.device.pool_ir.pool_ir` puts the offsets in.
"""

from __future__ import annotations

TEXT = """
declare ptr @malloc(i64)
declare void @free(ptr)

define i64 @clock() {
  %t = call i64 @now()
  ret i64 %t
}

; An arena of at least BYTES for this thread: the index of its slot, or -1 without memory.
define internal i32 @slot_take(ptr %pool, i32 %low, i32 %high, i64 %bytes) {
entry:
  br label %try
try:
  %i = phi i32 [ %low, %entry ], [ %wrapped, %next ]
  %i64 = zext i32 %i to i64
  %takens = getelementptr i8, ptr %pool, i64 $P_TAKEN
  %taken = getelementptr i32, ptr %takens, i64 %i64
  %pair = cmpxchg ptr %taken, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %pair, 1
  br i1 %got, label %have, label %next
next:
  call void @pause()
  %after = add i32 %i, 1
  %over = icmp sge i32 %after, %high
  %wrapped = select i1 %over, i32 %low, i32 %after
  br label %try
have:
  %sizes = getelementptr i8, ptr %pool, i64 $P_BYTES
  %size = getelementptr i64, ptr %sizes, i64 %i64
  %held = load i64, ptr %size
  %enough = icmp sge i64 %held, %bytes
  br i1 %enough, label %done, label %grow
grow:
  %raws = getelementptr i8, ptr %pool, i64 $P_RAW
  %raw = getelementptr ptr, ptr %raws, i64 %i64
  %old = load ptr, ptr %raw
  call void @free(ptr %old)
  %more = add i64 %bytes, 128
  %fresh = call ptr @malloc(i64 %more)
  store ptr %fresh, ptr %raw
  %none = icmp eq ptr %fresh, null
  %now_held = select i1 %none, i64 0, i64 %bytes
  store i64 %now_held, ptr %size
  br i1 %none, label %fail, label %done
fail:
  store atomic i32 0, ptr %taken release, align 4
  ret i32 -1
done:
  ret i32 %i
}

; Take ranges of blocks until none is left; the caller's thread (POLL = 1) looks after signals.
define void @work(ptr %job, i32 %low, i32 %high, i32 %poll) {
entry:
  %ctx_p = getelementptr i8, ptr %job, i64 $J_CONTEXT
  %ctx = load ptr, ptr %ctx_p
  %kernel = load ptr, ptr %ctx
  %pool_p = getelementptr i8, ptr %ctx, i64 $C_POOL
  %pool = load ptr, ptr %pool_p
  %arena_p = getelementptr i8, ptr %ctx, i64 $C_ARENA
  %bytes = load i64, ptr %arena_p
  %blocks_p = getelementptr i8, ptr %job, i64 48
  %blocks = load i64, ptr %blocks_p
  %ticket = getelementptr i8, ptr %job, i64 56
  %abort = getelementptr i8, ptr %job, i64 $J_ABORT
  %chunk_p = getelementptr i8, ptr %job, i64 $J_CHUNK
  %chunk0 = load i64, ptr %chunk_p
  %divisor_p = getelementptr i8, ptr %job, i64 $J_DIVISOR
  %divisor = load i64, ptr %divisor_p
  %grow_p = getelementptr i8, ptr %pool, i64 $P_T_GROW
  %t_grow = load i64, ptr %grow_p
  %shrink_p = getelementptr i8, ptr %pool, i64 $P_T_CHUNK
  %t_chunk = load i64, ptr %shrink_p
  %every_p = getelementptr i8, ptr %pool, i64 $P_T_POLL
  %t_poll = load i64, ptr %every_p
  %slot = call i32 @slot_take(ptr %pool, i32 %low, i32 %high, i64 %bytes)
  %no_arena = icmp slt i32 %slot, 0
  br i1 %no_arena, label %starve, label %begin
starve:
  %ignored = cmpxchg ptr %abort, i32 0, i32 $ABORT_MEMORY monotonic monotonic
  ret void
begin:
  %slot64 = zext i32 %slot to i64
  %raws = getelementptr i8, ptr %pool, i64 $P_RAW
  %raw_p = getelementptr ptr, ptr %raws, i64 %slot64
  %raw = load ptr, ptr %raw_p
  %raw_i = ptrtoint ptr %raw to i64
  %up = add i64 %raw_i, 127
  %aligned = and i64 %up, -128
  %arena = inttoptr i64 %aligned to ptr
  %mode = call i64 @float_enter()
  %start = call i64 @now()
  %looks = icmp ne i32 %poll, 0
  br i1 %looks, label %mark, label %loop
mark:
  %mine_p = getelementptr i8, ptr %job, i64 $J_ARENA
  store ptr %arena, ptr %mine_p
  %looked_p = getelementptr i8, ptr %job, i64 $J_LOOKED
  store i64 %start, ptr %looked_p
  br label %loop
loop:
  %t0 = phi i64 [ %start, %begin ], [ %start, %mark ], [ %t1, %again ]
  %polled = phi i64 [ %start, %begin ], [ %start, %mark ], [ %polled1, %again ]
  %chunk = phi i64 [ %chunk0, %begin ], [ %chunk0, %mark ], [ %chunk1, %again ]
  %first = atomicrmw add ptr %ticket, i64 %chunk monotonic
  %over = icmp sge i64 %first, %blocks
  br i1 %over, label %done, label %run
run:
  %end = add i64 %first, %chunk
  %past = icmp sgt i64 %end, %blocks
  %last = select i1 %past, i64 %blocks, i64 %end
  call void %kernel(ptr %job, ptr %arena, i64 %first, i64 %last)
  %t1 = call i64 @now()
  %stop = load atomic i32, ptr %abort monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  %left = sub i64 %blocks, %last
  %none_left = icmp sle i64 %left, 0
  %finish = or i1 %stopped, %none_left
  br i1 %finish, label %done, label %adapt
adapt:
  %took = sub i64 %t1, %t0
  %quick = icmp slt i64 %took, %t_grow
  %slow = icmp sgt i64 %took, %t_chunk
  %double = shl i64 %chunk, 1
  %half = lshr i64 %chunk, 1
  %grown = select i1 %quick, i64 %double, i64 %chunk
  %fitted = select i1 %slow, i64 %half, i64 %grown
  %share = udiv i64 %left, %divisor
  %capped = call i64 @llvm.smin.i64(i64 %fitted, i64 %share)
  %chunk1 = call i64 @llvm.smax.i64(i64 %capped, i64 1)
  %since = sub i64 %t1, %polled
  %due = icmp sgt i64 %since, %t_poll
  %mine = icmp ne i32 %poll, 0
  %ask = and i1 %due, %mine
  br i1 %ask, label %signals, label %again
signals:
  call void @look_after(ptr %pool, ptr %abort)
  br label %again
again:
  %polled1 = phi i64 [ %polled, %adapt ], [ %t1, %signals ]
  br label %loop
done:
  %t_end = phi i64 [ %t0, %loop ], [ %t1, %run ]
  call void @float_leave(i64 %mode)
  %spent = sub i64 %t_end, %start
  %work_p = getelementptr i8, ptr %job, i64 $J_WORK
  %sum = atomicrmw add ptr %work_p, i64 %spent release
  %takens = getelementptr i8, ptr %pool, i64 $P_TAKEN
  %taken = getelementptr i32, ptr %takens, i64 %slot64
  store atomic i32 0, ptr %taken release, align 4
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Let Python see pending signals; what a handler raises is kept, and ends the launch. In native code
; since a Python function would already raise when it is entered, before it can catch.
define internal void @look_after(ptr %pool, ptr %abort) noinline {
  ; A thread that asks for the interpreter while that ends is ended, too: its job would be gone
  ; while workers still take blocks from it.
  %type = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  %closed_p = getelementptr i8, ptr %pool, i64 $P_CLOSED
  %closed = load atomic i32, ptr %closed_p seq_cst, align 4
  %shut = icmp ne i32 %closed, 0
  br i1 %shut, label %nothing, label %entry
nothing:
  ret void
entry:
  %ensure_p = getelementptr i8, ptr %pool, i64 $P_PY_ENSURE
  %ensure = load ptr, ptr %ensure_p
  %signals_p = getelementptr i8, ptr %pool, i64 $P_PY_SIGNALS
  %signals = load ptr, ptr %signals_p
  %gil = call i32 %ensure()
  %answer = call i32 %signals()
  %quiet = icmp eq i32 %answer, 0
  br i1 %quiet, label %done, label %end
end:
  %fetch_p = getelementptr i8, ptr %pool, i64 $P_PY_FETCH
  %fetch = load ptr, ptr %fetch_p
  call void %fetch(ptr %type, ptr %value, ptr %trace)
  %normalize_p = getelementptr i8, ptr %pool, i64 $P_PY_NORMALIZE
  %normalize = load ptr, ptr %normalize_p
  call void %normalize(ptr %type, ptr %value, ptr %trace)
  %raised = load ptr, ptr %value
  %keep_p = getelementptr i8, ptr %pool, i64 $P_KEEP
  %keep = load ptr, ptr %keep_p
  call void %keep(ptr %raised)
  %decref_p = getelementptr i8, ptr %pool, i64 $P_PY_DECREF
  %decref = load ptr, ptr %decref_p
  %type_o = load ptr, ptr %type
  %trace_o = load ptr, ptr %trace
  call void %decref(ptr %type_o)
  call void %decref(ptr %raised)
  call void %decref(ptr %trace_o)
  %ignored = cmpxchg ptr %abort, i32 0, i32 $ABORT_HOST monotonic monotonic
  br label %done
done:
  %release_p = getelementptr i8, ptr %pool, i64 $P_PY_RELEASE
  %release = load ptr, ptr %release_p
  call void %release(i32 %gil)
  ret void
}

; Kernels call it now and then from loops whose end is not known: the caller's thread, which is told
; by its arena, looks after signals.
define void @attend(ptr %job, ptr %arena) {
entry:
  %mine_p = getelementptr i8, ptr %job, i64 $J_ARENA
  %mine = load atomic ptr, ptr %mine_p monotonic, align 8
  %same = icmp eq ptr %mine, %arena
  br i1 %same, label %look, label %done
look:
  %ctx_p = getelementptr i8, ptr %job, i64 $J_CONTEXT
  %ctx = load ptr, ptr %ctx_p
  %pool_p = getelementptr i8, ptr %ctx, i64 $C_POOL
  %pool = load ptr, ptr %pool_p
  %every_p = getelementptr i8, ptr %pool, i64 $P_T_POLL
  %every = load i64, ptr %every_p
  %looked_p = getelementptr i8, ptr %job, i64 $J_LOOKED
  %looked = load i64, ptr %looked_p
  %now = call i64 @now()
  %since = sub i64 %now, %looked
  %due = icmp sgt i64 %since, %every
  br i1 %due, label %ask, label %done
ask:
  store i64 %now, ptr %looked_p
  %abort = getelementptr i8, ptr %job, i64 $J_ABORT
  call void @look_after(ptr %pool, ptr %abort)
  br label %done
done:
  ret void
}

; Fill a job for PEOPLE threads.
define void @prepare(ptr %ctx, ptr %args, ptr %job, i64 %people) {
entry:
  store ptr %args, ptr %job
  %globals_p = getelementptr i8, ptr %ctx, i64 $C_GLOBALS
  %globals = load ptr, ptr %globals_p
  %globals_q = getelementptr i8, ptr %job, i64 8
  store ptr %globals, ptr %globals_q
  %abort = getelementptr i8, ptr %job, i64 $J_ABORT
  store i32 0, ptr %abort
  %abort_q = getelementptr i8, ptr %job, i64 16
  store ptr %abort, ptr %abort_q
  %log_p = getelementptr i8, ptr %ctx, i64 $C_LOG
  %log = load ptr, ptr %log_p
  %log_q = getelementptr i8, ptr %job, i64 24
  store ptr %log, ptr %log_q
  %grid_p = getelementptr i8, ptr %ctx, i64 $C_GRID
  %grid_q = getelementptr i8, ptr %job, i64 32
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %grid_q, ptr align 8 %grid_p, i64 24, i1 false)
  %ticket = getelementptr i8, ptr %job, i64 56
  store i64 0, ptr %ticket
  %ctx_p = getelementptr i8, ptr %job, i64 $J_CONTEXT
  store ptr %ctx, ptr %ctx_p
  %work = getelementptr i8, ptr %job, i64 $J_WORK
  store i64 0, ptr %work
  %arena_p = getelementptr i8, ptr %job, i64 $J_ARENA
  store ptr null, ptr %arena_p
  %single = icmp eq i64 %people, 1
  %doubled = shl i64 %people, 1
  %divisor = select i1 %single, i64 1, i64 %doubled
  %divisor_p = getelementptr i8, ptr %job, i64 $J_DIVISOR
  store i64 %divisor, ptr %divisor_p
  %blocks_p = getelementptr i8, ptr %ctx, i64 $C_BLOCKS
  %blocks = load i64, ptr %blocks_p
  %chunk_p = getelementptr i8, ptr %job, i64 $J_CHUNK
  %estimate_p = getelementptr i8, ptr %ctx, i64 $C_ESTIMATE
  %estimate = load atomic i64, ptr %estimate_p monotonic, align 8
  %unknown = icmp slt i64 %estimate, 0
  br i1 %unknown, label %careful, label %known
careful:
  store i64 1, ptr %chunk_p
  ret void
known:
  %pool_p = getelementptr i8, ptr %ctx, i64 $C_POOL
  %pool = load ptr, ptr %pool_p
  %target_p = getelementptr i8, ptr %pool, i64 $P_T_CHUNK
  %target = load i64, ptr %target_p
  %share = udiv i64 %blocks, %divisor
  %short = icmp slt i64 %estimate, %target
  br i1 %short, label %done, label %scale
scale:
  %f_blocks = sitofp i64 %blocks to double
  %f_target = sitofp i64 %target to double
  %f_estimate = sitofp i64 %estimate to double
  %ratio = fdiv double %f_target, %f_estimate
  %wanted = fmul double %f_blocks, %ratio
  %whole = fptosi double %wanted to i64
  %fewer = call i64 @llvm.smin.i64(i64 %whole, i64 %share)
  br label %done
done:
  %chunk = phi i64 [ %share, %known ], [ %fewer, %scale ]
  %least = call i64 @llvm.smax.i64(i64 %chunk, i64 1)
  store i64 %least, ptr %chunk_p
  ret void
}

; Fold what this launch took into the estimate, and return its abort word.
define i32 @finish(ptr %ctx, ptr %job) {
entry:
  %work_p = getelementptr i8, ptr %job, i64 $J_WORK
  %work = load i64, ptr %work_p
  %estimate_p = getelementptr i8, ptr %ctx, i64 $C_ESTIMATE
  %estimate = load atomic i64, ptr %estimate_p monotonic, align 8
  %unknown = icmp slt i64 %estimate, 0
  %gap = sub i64 %work, %estimate
  %step = ashr i64 %gap, 2
  %moved = add i64 %estimate, %step
  %next = select i1 %unknown, i64 %work, i64 %moved
  store atomic i64 %next, ptr %estimate_p monotonic, align 8
  %pool_p = getelementptr i8, ptr %ctx, i64 $C_POOL
  %pool = load ptr, ptr %pool_p
  %end = call i64 @now()
  %end_p = getelementptr i8, ptr %pool, i64 $P_LAST_END
  store atomic i64 %end, ptr %end_p monotonic, align 8
  %abort_p = getelementptr i8, ptr %job, i64 $J_ABORT
  %abort = load i32, ptr %abort_p
  ret i32 %abort
}

define internal i32 @alone(ptr %ctx, ptr %args, ptr %job) {
  call void @prepare(ptr %ctx, ptr %args, ptr %job, i64 1)
  call void @work(ptr %job, i32 0, i32 $CALLER_SLOTS, i32 1)
  %status = call i32 @finish(ptr %ctx, ptr %job)
  ret i32 %status
}
"""
