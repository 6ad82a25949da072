"""LLVM IR of the thread pool for Linux: pthreads that sleep on futexes.

A template: :func:`ge2rt.device.pool_ir.pool_ir` puts offsets and system call numbers in.
"""

from __future__ import annotations

TEXT = """
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
define internal void @shared(ptr %ctx, ptr %args, ptr %job, ptr %pool, i64 %blocks,
                             i64 %estimate) noinline {
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
