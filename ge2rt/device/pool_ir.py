"""The launcher and thread pool of the CPU device, as LLVM IR text: no C compiler is needed.

How it works. ``launch(context, args)`` is the one entry: it fills a job on its stack (the
:mod:`ge2rt.ptx.native` ``Launch`` record first), and either runs all blocks on the calling thread or
opens the pool: workers that see the open bit of ``state`` enter by compare-exchange (``state`` counts
them), take ranges of blocks by ``atomicrmw`` tickets, and leave; the caller works too, then closes the
pool and waits until the count is zero. A late wake therefore costs no join, and no worker can touch a
job that is over. The caller's thread looks after signals: each ``poll`` ticks it calls back into
Python, which may ask for the end of the launch by the abort word.
"""

from __future__ import annotations

from string import Template

MAX_WORKERS = 255
CALLER_SLOTS = 128  # arenas for threads that launch at the same time
SLOTS = CALLER_SLOTS + MAX_WORKERS + 1
ABORT_MEMORY = 6  # one more abort code than ptx.native has: no memory for an arena

# Byte offsets. What changes together shares a cache line; what threads fight for has its own.
CONTEXT = {
    "KERNEL": 0, "POOL": 8, "GLOBALS": 16, "LOG": 24, "GRID": 32, "SHARED": 44,
    "BLOCKS": 48, "ARENA": 56, "ESTIMATE": 64,
}  # fmt: skip
CONTEXT_BYTES = 128
JOB = {"CONTEXT": 64, "ABORT": 72, "WORK": 80, "CHUNK": 88, "DIVISOR": 96}
JOB_BYTES = 128
POOL = {
    "BUSY": 0, "STATE": 64, "EPOCH": 128, "SLEEPERS": 132, "JOB": 192, "LIMIT": 200,
    "WANTED": 256, "STARTED": 260, "QUIT": 264, "CALLER_CPU": 268, "PIN": 272,
    "T_SPIN": 320, "T_SLEEP": 328, "T_WORKER": 336, "T_CHUNK": 344, "T_GROW": 352, "T_POLL": 360,
    "POLL": 368, "T_RECENT": 376, "LAST_END": 384, "ALLOWED": 448, "TAKEN": 576,
}  # fmt: skip
POOL["BYTES"] = POOL["TAKEN"] + 4 * SLOTS
POOL["RAW"] = POOL["BYTES"] + 8 * SLOTS
POOL["THREADS"] = POOL["RAW"] + 8 * SLOTS
POOL["SEATS"] = POOL["THREADS"] + 8 * (MAX_WORKERS + 1)  # {pool, index, tid} a worker
POOL_BYTES = POOL["SEATS"] + 16 * (MAX_WORKERS + 1)

_SYSCALLS = {
    "x86_64": {"FUTEX": 202, "AFFINITY": 203, "GETTID": 186},
    "aarch64": {"FUTEX": 98, "AFFINITY": 122, "GETTID": 178},
}

_MACHINE = {
    "x86_64": """
declare i64 @llvm.readcyclecounter()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal i64 @now() alwaysinline {
  %t = call i64 @llvm.readcyclecounter()
  ret i64 %t
}
define internal void @pause() alwaysinline {
  call void asm sideeffect "pause", "~{memory}"()
  ret void
}
; Kernels keep subnormals, whatever mode the host program left in the control register.
define internal i64 @float_enter() alwaysinline {
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %old = load i32, ptr %word
  %mode = and i32 %old, -64
  %plain = icmp eq i32 %mode, 8064
  br i1 %plain, label %done, label %set
set:
  store i32 8064, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  br label %done
done:
  %wide = zext i32 %old to i64
  ret i64 %wide
}
define internal void @float_leave(i64 %wide) alwaysinline {
  %word = alloca i32
  %old = trunc i64 %wide to i32
  %mode = and i32 %old, -64
  %plain = icmp eq i32 %mode, 8064
  br i1 %plain, label %done, label %set
set:
  store i32 %old, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  br label %done
done:
  ret void
}
""",
    "aarch64": """
define internal i64 @now() alwaysinline {
  %t = call i64 asm sideeffect "mrs $0, cntvct_el0", "=r"()
  ret i64 %t
}
define internal void @pause() alwaysinline {
  call void asm sideeffect "isb", "~{memory}"()
  ret void
}
define internal i64 @float_enter() alwaysinline {
  %old = call i64 asm sideeffect "mrs $0, fpcr", "=r"()
  %plain = icmp eq i64 %old, 0
  br i1 %plain, label %done, label %set
set:
  call void asm sideeffect "msr fpcr, $0", "r"(i64 0)
  br label %done
done:
  ret i64 %old
}
define internal void @float_leave(i64 %old) alwaysinline {
  %plain = icmp eq i64 %old, 0
  br i1 %plain, label %done, label %set
set:
  call void asm sideeffect "msr fpcr, $0", "r"(i64 %old)
  br label %done
done:
  ret void
}
""",
}

_WORK = """
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
  br label %loop
loop:
  %t0 = phi i64 [ %start, %begin ], [ %t1, %again ]
  %polled = phi i64 [ %start, %begin ], [ %polled1, %again ]
  %chunk = phi i64 [ %chunk0, %begin ], [ %chunk1, %again ]
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

; Let Python see pending signals; what it answers ends the launch.
define internal void @look_after(ptr %pool, ptr %abort) noinline {
  %poll_p = getelementptr i8, ptr %pool, i64 $P_POLL
  %poll = load ptr, ptr %poll_p
  %answer = call i32 %poll()
  %quiet = icmp eq i32 %answer, 0
  br i1 %quiet, label %done, label %end
end:
  %ignored = cmpxchg ptr %abort, i32 0, i32 $ABORT_HOST monotonic monotonic
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

_NO_THREADS = """
define i32 @launch(ptr %ctx, ptr %args) {
  %job = alloca [$JOB_BYTES x i8], align 64
  %status = call i32 @alone(ptr %ctx, ptr %args, ptr %job)
  ret i32 %status
}
define void @stop(ptr %pool) {
  ret void
}
"""

_THREADS = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i64 @syscall(i64, ...)
declare i32 @sched_getcpu()

@poll_time = internal constant { i64, i64 } { i64 0, i64 50000000 }

define i32 @launch(ptr %ctx, ptr %args) {
entry:
  %job = alloca [$JOB_BYTES x i8], align 64
  %blocks_p = getelementptr i8, ptr %ctx, i64 $C_BLOCKS
  %blocks = load i64, ptr %blocks_p
  %several = icmp sgt i64 %blocks, 1
  br i1 %several, label %threads, label %run_alone
threads:
  %pool_p = getelementptr i8, ptr %ctx, i64 $C_POOL
  %pool = load ptr, ptr %pool_p
  %wanted_p = getelementptr i8, ptr %pool, i64 $P_WANTED
  %wanted = load i32, ptr %wanted_p
  %some = icmp sgt i32 %wanted, 0
  br i1 %some, label %worth, label %run_alone
worth:
  %estimate_p = getelementptr i8, ptr %ctx, i64 $C_ESTIMATE
  %estimate = load atomic i64, ptr %estimate_p monotonic, align 8
  %started_p = getelementptr i8, ptr %pool, i64 $P_STARTED
  %started = load atomic i32, ptr %started_p monotonic, align 4
  %sleepers_p = getelementptr i8, ptr %pool, i64 $P_SLEEPERS
  %sleepers = load atomic i32, ptr %sleepers_p monotonic, align 4
  %asleep = icmp sge i32 %sleepers, %started
  %spin_p = getelementptr i8, ptr %pool, i64 $P_T_SPIN
  %t_spin = load i64, ptr %spin_p
  %sleep_p = getelementptr i8, ptr %pool, i64 $P_T_SLEEP
  %t_sleep = load i64, ptr %sleep_p
  ; Launches that follow at once on one another are worth a wake: the next finds the worker awake.
  %now = call i64 @now()
  %end_p = getelementptr i8, ptr %pool, i64 $P_LAST_END
  %end = load atomic i64, ptr %end_p monotonic, align 8
  %gap = sub i64 %now, %end
  %recent_p = getelementptr i8, ptr %pool, i64 $P_T_RECENT
  %t_recent = load i64, ptr %recent_p
  %far = icmp sgt i64 %gap, %t_recent
  %cold = and i1 %asleep, %far
  %least = select i1 %cold, i64 %t_sleep, i64 %t_spin
  %enough = icmp sge i64 %estimate, %least
  %unknown = icmp slt i64 %estimate, 0
  %share = or i1 %enough, %unknown
  br i1 %share, label %ask, label %run_alone
ask:
  %pair = cmpxchg ptr %pool, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %pair, 1
  br i1 %got, label %run_shared, label %run_alone
run_alone:
  %status = call i32 @alone(ptr %ctx, ptr %args, ptr %job)
  ret i32 %status
run_shared:
  call void @shared(ptr %ctx, ptr %args, ptr %job, ptr %pool, i64 %blocks, i64 %estimate)
  store atomic i32 0, ptr %pool release, align 4
  %status2 = call i32 @finish(ptr %ctx, ptr %job)
  ret i32 %status2
}

; One launch by several threads. The caller holds BUSY.
define internal void @shared(ptr %ctx, ptr %args, ptr %job, ptr %pool, i64 %blocks, i64 %estimate) noinline {
entry:
  %wanted_p = getelementptr i8, ptr %pool, i64 $P_WANTED
  %wanted0 = load i32, ptr %wanted_p
  %started_p = getelementptr i8, ptr %pool, i64 $P_STARTED
  %started = load i32, ptr %started_p
  %missing = icmp slt i32 %started, %wanted0
  br i1 %missing, label %hire, label %ready
hire:
  call void @start(ptr %pool, i32 %started, i32 %wanted0)
  br label %ready
ready:
  %wanted = load i32, ptr %wanted_p
  %wanted64 = sext i32 %wanted to i64
  %others = sub i64 %blocks, 1
  %most = call i64 @llvm.smin.i64(i64 %wanted64, i64 %others)
  %worker_p = getelementptr i8, ptr %pool, i64 $P_T_WORKER
  %t_worker = load i64, ptr %worker_p
  %fair0 = udiv i64 %estimate, %t_worker
  %fair = add i64 %fair0, 1
  %unknown = icmp slt i64 %estimate, 0
  %useful = select i1 %unknown, i64 %most, i64 %fair
  %extra = call i64 @llvm.smin.i64(i64 %most, i64 %useful)
  %people = add i64 %extra, 1
  call void @prepare(ptr %ctx, ptr %args, ptr %job, i64 %people)
  %limit = trunc i64 %extra to i32
  %limit_p = getelementptr i8, ptr %pool, i64 $P_LIMIT
  store i32 %limit, ptr %limit_p
  %job_p = getelementptr i8, ptr %pool, i64 $P_JOB
  store ptr %job, ptr %job_p
  call void @pin(ptr %pool, i64 %estimate, i32 %wanted)
  %state = getelementptr i8, ptr %pool, i64 $P_STATE
  store atomic i32 -2147483648, ptr %state release, align 4
  %epoch = getelementptr i8, ptr %pool, i64 $P_EPOCH
  %old_epoch = atomicrmw add ptr %epoch, i32 1 seq_cst
  %sleepers_p = getelementptr i8, ptr %pool, i64 $P_SLEEPERS
  %sleepers = load atomic i32, ptr %sleepers_p seq_cst, align 4
  %any = icmp sgt i32 %sleepers, 0
  br i1 %any, label %wake, label %help
wake:
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %epoch, i32 129, i32 %limit)
  br label %help
help:
  call void @work(ptr %job, i32 0, i32 $CALLER_SLOTS, i32 1)
  %closed = atomicrmw and ptr %state, i32 2147483647 acq_rel
  %left0 = and i32 %closed, 2147483647
  br label %wait
wait:
  %spins = phi i32 [ 0, %help ], [ %spins1, %spin ], [ %spins, %signals ]
  %left = load atomic i32, ptr %state acquire, align 4
  %free = icmp eq i32 %left, 0
  br i1 %free, label %done, label %linger
linger:
  %patient = icmp slt i32 %spins, 500
  br i1 %patient, label %spin, label %asleep
spin:
  call void @pause()
  %spins1 = add i32 %spins, 1
  br label %wait
asleep:
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %state, i32 128, i32 %left, ptr @poll_time)
  %after = load atomic i32, ptr %state acquire, align 4
  %over = icmp eq i32 %after, 0
  br i1 %over, label %done, label %signals
signals:
  %abort = getelementptr i8, ptr %job, i64 $J_ABORT
  call void @look_after(ptr %pool, ptr %abort)
  br label %wait
done:
  ret void
}

; Keep the workers off the caller's CPU: a wake that lands there gains nothing.
define internal void @pin(ptr %pool, i64 %estimate, i32 %wanted) {
entry:
  %mask = alloca [128 x i8], align 8
  %pin_p = getelementptr i8, ptr %pool, i64 $P_PIN
  %pinning = load i32, ptr %pin_p
  %on = icmp ne i32 %pinning, 0
  br i1 %on, label %look, label %done
look:
  %cpu = call i32 @sched_getcpu()
  %cpu_p = getelementptr i8, ptr %pool, i64 $P_CALLER_CPU
  %known = load i32, ptr %cpu_p
  %moved = icmp ne i32 %cpu, %known
  %in = icmp ult i32 %cpu, 1024
  %act = and i1 %moved, %in
  br i1 %act, label %weigh, label %done
weigh:
  %worker_p = getelementptr i8, ptr %pool, i64 $P_T_WORKER
  %t_worker = load i64, ptr %worker_p
  %many = zext i32 %wanted to i64
  %cost = mul i64 %t_worker, %many
  %dear = icmp ult i64 %estimate, %cost
  br i1 %dear, label %done, label %set
set:
  store i32 %cpu, ptr %cpu_p
  %allowed = getelementptr i8, ptr %pool, i64 $P_ALLOWED
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %mask, ptr align 8 %allowed, i64 128, i1 false)
  %byte = lshr i32 %cpu, 3
  %byte64 = zext i32 %byte to i64
  %cell = getelementptr i8, ptr %mask, i64 %byte64
  %bits = load i8, ptr %cell
  %low = and i32 %cpu, 7
  %low8 = trunc i32 %low to i8
  %bit = shl i8 1, %low8
  %keep = xor i8 %bit, -1
  %less = and i8 %bits, %keep
  store i8 %less, ptr %cell
  br label %each
each:
  %i = phi i32 [ 0, %set ], [ %i1, %next ]
  %more = icmp slt i32 %i, %wanted
  br i1 %more, label %one, label %done
one:
  %i64 = zext i32 %i to i64
  %seats = getelementptr i8, ptr %pool, i64 $P_SEATS
  %at = shl i64 %i64, 4
  %seat = getelementptr i8, ptr %seats, i64 %at
  %tid_p = getelementptr i8, ptr %seat, i64 12
  %tid = load atomic i32, ptr %tid_p monotonic, align 4
  %born = icmp ne i32 %tid, 0
  br i1 %born, label %move, label %next
move:
  %r = call i64 (i64, ...) @syscall(i64 $AFFINITY, i32 %tid, i64 128, ptr %mask)
  br label %next
next:
  %i1 = add i32 %i, 1
  br label %each
done:
  ret void
}

; Hire workers FROM .. TO-1; fewer where the system refuses. The caller holds BUSY.
define internal void @start(ptr %pool, i32 %from, i32 %to) noinline {
entry:
  %cpu_p = getelementptr i8, ptr %pool, i64 $P_CALLER_CPU
  store i32 -1, ptr %cpu_p
  br label %each
each:
  %i = phi i32 [ %from, %entry ], [ %i1, %hired ]
  %more = icmp slt i32 %i, %to
  br i1 %more, label %one, label %done
one:
  %i64 = zext i32 %i to i64
  %threads = getelementptr i8, ptr %pool, i64 $P_THREADS
  %thread = getelementptr i64, ptr %threads, i64 %i64
  %seats = getelementptr i8, ptr %pool, i64 $P_SEATS
  %at = shl i64 %i64, 4
  %seat = getelementptr i8, ptr %seats, i64 %at
  store ptr %pool, ptr %seat
  %index_p = getelementptr i8, ptr %seat, i64 8
  store i32 %i, ptr %index_p
  %tid_p = getelementptr i8, ptr %seat, i64 12
  store i32 0, ptr %tid_p
  %r = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %seat)
  %bad = icmp ne i32 %r, 0
  br i1 %bad, label %fewer, label %hired
hired:
  %i1 = add i32 %i, 1
  %started_p = getelementptr i8, ptr %pool, i64 $P_STARTED
  store atomic i32 %i1, ptr %started_p monotonic, align 4
  br label %each
fewer:
  %wanted_p = getelementptr i8, ptr %pool, i64 $P_WANTED
  store i32 %i, ptr %wanted_p
  br label %done
done:
  ret void
}

define internal ptr @worker(ptr %seat) {
entry:
  %signals = alloca [128 x i8], align 8
  call void @llvm.memset.p0.i64(ptr align 8 %signals, i8 -1, i64 128, i1 false)
  %masked = call i32 @pthread_sigmask(i32 0, ptr %signals, ptr null)
  %pool = load ptr, ptr %seat
  %index_p = getelementptr i8, ptr %seat, i64 8
  %index = load i32, ptr %index_p
  %low = add i32 %index, $CALLER_SLOTS
  %high = add i32 %low, 1
  %tid_p = getelementptr i8, ptr %seat, i64 12
  %tid64 = call i64 (i64, ...) @syscall(i64 $GETTID)
  %tid = trunc i64 %tid64 to i32
  store atomic i32 %tid, ptr %tid_p monotonic, align 4
  ; The next launch that looks will pin this worker too.
  %cpu_p = getelementptr i8, ptr %pool, i64 $P_CALLER_CPU
  store i32 -1, ptr %cpu_p
  %epoch_p = getelementptr i8, ptr %pool, i64 $P_EPOCH
  %sleepers_p = getelementptr i8, ptr %pool, i64 $P_SLEEPERS
  %quit_p = getelementptr i8, ptr %pool, i64 $P_QUIT
  %state_p = getelementptr i8, ptr %pool, i64 $P_STATE
  %limit_p = getelementptr i8, ptr %pool, i64 $P_LIMIT
  %job_p = getelementptr i8, ptr %pool, i64 $P_JOB
  br label %look
look:
  %seen = load atomic i32, ptr %epoch_p seq_cst, align 4
  %quit = load atomic i32, ptr %quit_p monotonic, align 4
  %go = icmp ne i32 %quit, 0
  br i1 %go, label %exit, label %enter
enter:
  %s = load atomic i32, ptr %state_p monotonic, align 4
  %open = icmp slt i32 %s, 0
  br i1 %open, label %room, label %idle
room:
  %count = and i32 %s, 2147483647
  %limit = load atomic i32, ptr %limit_p monotonic, align 4
  %fits = icmp slt i32 %count, %limit
  br i1 %fits, label %join, label %idle
join:
  %s1 = add i32 %s, 1
  %pair = cmpxchg ptr %state_p, i32 %s, i32 %s1 acq_rel monotonic
  %got = extractvalue { i32, i1 } %pair, 1
  br i1 %got, label %help, label %enter
help:
  %job = load ptr, ptr %job_p
  call void @work(ptr %job, i32 %low, i32 %high, i32 0)
  %before = atomicrmw sub ptr %state_p, i32 1 acq_rel
  %last = icmp eq i32 %before, 1
  br i1 %last, label %tell, label %idle
tell:
  %told = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %state_p, i32 129, i32 1)
  br label %idle
idle:
  %spins = phi i32 [ 0, %enter ], [ 0, %room ], [ 0, %help ], [ 0, %tell ], [ %spins1, %spin ]
  %now = load atomic i32, ptr %epoch_p monotonic, align 4
  %news = icmp ne i32 %now, %seen
  br i1 %news, label %look, label %linger
linger:
  %patient = icmp slt i32 %spins, 500
  br i1 %patient, label %spin, label %sleep
spin:
  call void @pause()
  %spins1 = add i32 %spins, 1
  br label %idle
sleep:
  %in = atomicrmw add ptr %sleepers_p, i32 1 seq_cst
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %epoch_p, i32 128, i32 %seen, ptr null)
  %out = atomicrmw sub ptr %sleepers_p, i32 1 seq_cst
  br label %look
exit:
  ret ptr null
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; Send the workers home. Leaves them where another thread is launching at this moment.
define void @stop(ptr %pool) {
entry:
  %pair = cmpxchg ptr %pool, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %pair, 1
  br i1 %got, label %tell, label %out
tell:
  %quit_p = getelementptr i8, ptr %pool, i64 $P_QUIT
  store atomic i32 1, ptr %quit_p seq_cst, align 4
  %epoch_p = getelementptr i8, ptr %pool, i64 $P_EPOCH
  %old = atomicrmw add ptr %epoch_p, i32 1 seq_cst
  %woken = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %epoch_p, i32 129, i32 2147483647)
  %started_p = getelementptr i8, ptr %pool, i64 $P_STARTED
  %started = load i32, ptr %started_p
  br label %each
each:
  %i = phi i32 [ 0, %tell ], [ %i1, %one ]
  %more = icmp slt i32 %i, %started
  br i1 %more, label %one, label %done
one:
  %i64 = zext i32 %i to i64
  %threads = getelementptr i8, ptr %pool, i64 $P_THREADS
  %thread_p = getelementptr i64, ptr %threads, i64 %i64
  %thread = load i64, ptr %thread_p
  %r = call i32 @pthread_join(i64 %thread, ptr null)
  %i1 = add i32 %i, 1
  br label %each
done:
  store atomic i32 0, ptr %started_p monotonic, align 4
  store atomic i32 0, ptr %quit_p monotonic, align 4
  store atomic i32 0, ptr %pool release, align 4
  br label %out
out:
  ret void
}
"""


def pool_ir(machine: str, threads: bool) -> str:
    """The module for ``machine`` (``x86_64`` or ``aarch64``); without threads it runs alone."""
    numbers: dict[str, int] = {
        "ABORT_MEMORY": ABORT_MEMORY,
        "ABORT_HOST": 4,
        "CALLER_SLOTS": CALLER_SLOTS,
        "JOB_BYTES": JOB_BYTES,
    }
    for prefix, offsets in (("C", CONTEXT), ("J", JOB), ("P", POOL)):
        numbers.update({f"{prefix}_{name}": at for name, at in offsets.items()})
    numbers.update(_SYSCALLS[machine])
    return _MACHINE[machine] + Template(_WORK + (_THREADS if threads else _NO_THREADS)).substitute(
        numbers
    )
