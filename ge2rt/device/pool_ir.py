"""The launcher and thread pool of the CPU device, as LLVM IR text: no C compiler is needed.

How it works. ``launch(context, args)`` is the one entry: it fills a job on its stack (the
:mod:`ge2rt.ptx.native` ``Launch`` record first), and either runs all blocks on the calling thread
or opens the pool: workers that see the open bit of ``state`` enter by compare-exchange (``state``
counts them), take ranges of blocks by ``atomicrmw`` tickets, and leave; the caller works too, then
closes the pool and waits until the count is zero. A late wake therefore costs no join, and no
worker can touch a job that is over. The caller's thread looks after signals: each ``T_POLL`` ticks
it lets Python handle pending signals; an exception of a handler ends the launch by the abort word.
"""

from __future__ import annotations

from string import Template

from ge2rt.device import pool_threads, pool_work
from ge2rt.ptx.native import CHECKS_AT

MAX_WORKERS = 255
CALLER_SLOTS = 128  # arenas for threads that launch at the same time
SLOTS = CALLER_SLOTS + MAX_WORKERS + 1
ABORT_MEMORY = 6  # one more abort code than ptx.native has: no memory for an arena

# Byte offsets. What changes together shares a cache line; what threads fight for has its own.
CONTEXT = {
    "KERNEL": 0, "POOL": 8, "GLOBALS": 16, "LOG": 24, "GRID": 32, "SHARED": 44,
    "BLOCKS": 48, "ARENA": 56, "ESTIMATE": 64, "CHECKS": CHECKS_AT,
}  # fmt: skip
CONTEXT_BYTES = 128
JOB = {"CONTEXT": 64, "ABORT": 72, "WORK": 80, "CHUNK": 88, "DIVISOR": 96,
       "ARENA": 104, "LOOKED": 112}  # fmt: skip
JOB_BYTES = 128
POOL = {
    "BUSY": 0, "STATE": 64, "EPOCH": 128, "SLEEPERS": 132, "JOB": 192, "LIMIT": 200,
    "WANTED": 256, "STARTED": 260, "QUIT": 264, "CALLER_CPU": 268, "PIN": 272,
    "T_SPIN": 320, "T_SLEEP": 328, "T_WORKER": 336, "T_CHUNK": 344, "T_GROW": 352, "T_POLL": 360,
    "T_RECENT": 368, "CLOSED": 376, "LAST_END": 384,
    "PY_ENSURE": 400, "PY_RELEASE": 408, "PY_SIGNALS": 416,
    "PY_FETCH": 424, "PY_NORMALIZE": 432, "PY_DECREF": 440, "KEEP": 448, "ALLOWED": 512,
    "TAKEN": 640,
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
    return _MACHINE[machine] + Template(
        pool_work.TEXT + (pool_threads.TEXT if threads else _NO_THREADS)
    ).substitute(numbers)
