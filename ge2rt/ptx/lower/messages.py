"""``printf``, ``assert`` and ``trap``: records in the launch's log, in the order of lanes.

Layout of the log (``Launch.log``)::

     0 ptr  the host's look at signals: void attend(Launch *, char *arena), or null
     8 i64  bytes for records      16 i64  bytes used      24 i64  records that found no room
    32 ...  the grid's workspace, zero at first
    64 ...  records: i64 bytes, i64 block, i32 thread, i32 kind, 8 unused, then by kind
            printf: ptr format, 8 bytes an argument as the caller packed them
            assert: ptr expression, ptr file, ptr function, i64 line
            trap:   i64 line of the PTX
"""

from __future__ import annotations

from collections.abc import Sequence

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.ast import Address, Instr, Operand, Symbol
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.lanewise import by_lane
from ge2rt.ptx.lower.address import where
from ge2rt.ptx.lower.loads import load
from ge2rt.ptx.lower.shape import flatten
from ge2rt.ptx.lower.stores import store
from ge2rt.ptx.lower.values import Scope
from ge2rt.ptx.native import ABORT_ASSERT, ABORT_TRAP, LOG_HEAD, LOG_RECORD, LogKind
from ge2rt.ptx.rules.operands import cast

PRINT_BYTES = 4 << 20  # of the log of a kernel that prints
FAULT_BYTES = 64 << 10  # of one that can only fail

_RECORD = f"""define internal ptr @ge2rt_record(ptr %launch, i64 %block, i32 %thread, i32 %kind,
i64 %payload) noinline cold {{
  %log_p = getelementptr i8, ptr %launch, i64 24
  %log = load ptr, ptr %log_p
  %none = icmp eq ptr %log, null
  br i1 %none, label %fail, label %take
take:
  %total = add i64 %payload, {LOG_RECORD}
  %used = getelementptr i8, ptr %log, i64 16
  %at = atomicrmw add ptr %used, i64 %total monotonic
  %end = add i64 %at, %total
  %room_p = getelementptr i8, ptr %log, i64 8
  %room = load i64, ptr %room_p
  %over = icmp sgt i64 %end, %room
  br i1 %over, label %drop, label %write
drop:
  %dropped = getelementptr i8, ptr %log, i64 24
  %ignored = atomicrmw add ptr %dropped, i64 1 monotonic
  br label %fail
fail:
  ret ptr null
write:
  %past = add i64 %at, {LOG_HEAD}
  %record = getelementptr i8, ptr %log, i64 %past
  store i64 %total, ptr %record
  %block_p = getelementptr i8, ptr %record, i64 8
  store i64 %block, ptr %block_p
  %thread_p = getelementptr i8, ptr %record, i64 16
  store i32 %thread, ptr %thread_p
  %kind_p = getelementptr i8, ptr %record, i64 20
  store i32 %kind, ptr %kind_p
  %body = getelementptr i8, ptr %record, i64 {LOG_RECORD}
  ret ptr %body
}}"""

_COPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
_PRINT = f"""define internal i32 @ge2rt_print(ptr %launch, i64 %block, i32 %thread, i64 %format,
i64 %args) noinline cold {{
entry:
  %text = inttoptr i64 %format to ptr
  %given = inttoptr i64 %args to ptr
  br label %scan
scan:
  %at = phi ptr [ %text, %entry ], [ %after, %next ]
  %count = phi i64 [ 0, %entry ], [ %more, %next ]
  %char = load i8, ptr %at
  %second = getelementptr i8, ptr %at, i64 1
  switch i8 %char, label %next [ i8 0, label %done  i8 37, label %percent  i8 42, label %next ]
percent:
  %follow = load i8, ptr %second
  %twice = icmp eq i8 %follow, 37
  %skip = select i1 %twice, i64 2, i64 1
  %one = select i1 %twice, i64 0, i64 1
  br label %next
next:
  %step = phi i64 [ 1, %scan ], [ 1, %scan ], [ %skip, %percent ]
  %plus = phi i64 [ 0, %scan ], [ 0, %scan ], [ %one, %percent ]
  %star = icmp eq i8 %char, 42
  %wide = zext i1 %star to i64
  %sum = add i64 %plus, %wide
  %more = add i64 %count, %sum
  %after = getelementptr i8, ptr %at, i64 %step
  br label %scan
done:
  %bytes = mul i64 %count, 8
  %payload = add i64 %bytes, 8
  %body = call ptr @ge2rt_record(ptr %launch, i64 %block, i32 %thread, i32 {LogKind.PRINTF},
    i64 %payload)
  %full = icmp eq ptr %body, null
  br i1 %full, label %leave, label %copy
copy:
  store i64 %format, ptr %body
  %rest = getelementptr i8, ptr %body, i64 8
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %given, i64 %bytes, i1 false)
  br label %leave
leave:
  %answer = trunc i64 %count to i32
  ret i32 %answer
}}"""


def print_text(scope: Scope, instr: Instr) -> list[Value]:
    """``vprintf(format, arguments)``."""
    scope.code.log_bytes = max(scope.code.log_bytes, PRINT_BYTES)
    scope.code.alone = True
    values = [argument(scope, instr, k, "i64") for k in range(2)]
    scope.e.declarations["ge2rt_record"] = _RECORD
    scope.e.declarations["ge2rt_print"] = _PRINT
    scope.e.declarations["llvm.memcpy.p0.p0.i64"] = _COPY

    def step(e: Emitter, args: Sequence[Value]) -> list[Value]:
        return [e.raw(f"call i32 @ge2rt_print({', '.join(map(str, args))})", "i32")]

    (count,) = _each(scope, instr, "print", values, ("i32",), step)
    target = flatten(instr.operands[0])[0]
    if isinstance(target, Symbol):
        place = where(scope, Address(target), "local")
        store(scope, place, [count], scope.active(instr))
        return []
    return [count]


def fail_assert(scope: Scope, instr: Instr) -> list[Value]:
    """``__assertfail(expression, file, line, function, bytes a character)``."""
    texts = [argument(scope, instr, k, "i64") for k in (0, 1, 3)]
    line = scope.e.convert("zext", argument(scope, instr, 2, "i32"), "i64")
    _fault(scope, instr, LogKind.ASSERT, [*texts, line])
    abort(scope, ABORT_ASSERT)
    return []


def fail_trap(scope: Scope, instr: Instr) -> list[Value]:
    """``trap``."""
    _fault(scope, instr, LogKind.TRAP, [Value("i64", str(instr.line))])
    abort(scope, ABORT_TRAP)
    return []


def abort(scope: Scope, reason: int) -> None:
    """Set the abort word if nobody has set it yet."""
    scope.e.line(f"cmpxchg ptr %abort, i32 0, i32 {reason} seq_cst seq_cst, align 4")


def _fault(scope: Scope, instr: Instr, kind: int, payload: list[Value]) -> None:
    scope.code.log_bytes = max(scope.code.log_bytes, FAULT_BYTES)
    scope.e.declarations["ge2rt_record"] = _RECORD
    size = 8 * len(payload)

    def step(e: Emitter, args: Sequence[Value]) -> list[Value]:
        where = ", ".join(map(str, args[:3]))
        body = e.raw(f"call ptr @ge2rt_record({where}, i32 {kind}, i64 {size})", "ptr")
        full = e.compare("icmp eq", body, Value("ptr", "null"))
        # Without room the words go to a place that nobody reads.
        sink = e.raw(f"alloca [{size} x i8]", "ptr")
        body = e.select(full, sink, body)
        for at, value in enumerate(args[3:]):
            slot = e.raw(f"getelementptr i8, {body}, i64 {8 * at}", "ptr")
            e.line(f"store {value}, {slot}")
        return []

    _each(scope, instr, f"fault.{kind}", payload, (), step)


def _each(
    scope: Scope, instr: Instr, name: str, values: list[Value], results: tuple[str, ...],
    step: object,
) -> list[Value]:  # fmt: skip
    e, code = scope.e, scope.code
    threads = e.splat(code.geometry.thread_numbers(e, scope.here))
    given = [Value("ptr", "%launch"), _block_number(scope), threads, *values]
    vectors = [e.splat(v, code.width) for v in given]
    return by_lane(
        e, name, scope.active(instr), vectors, results=results, step=step,  # type: ignore[arg-type]
    )  # fmt: skip


def _block_number(scope: Scope) -> Value:
    e, here = scope.e, scope.here
    x, y, z = (e.convert("zext", v, "i64") for v in here.ctaid)
    gx, gy, _ = (e.convert("zext", v, "i64") for v in here.grid)
    row = e.binary("add", e.binary("mul", z, gy), y)
    return e.binary("add", e.binary("mul", row, gx), x)


def argument(scope: Scope, instr: Instr, number: int, type: str) -> Value:
    """An argument of a call: a register, or what was stored to a parameter in local memory."""
    given: tuple[Operand | None, ...] = flatten(instr.operands[2])
    operand = given[number] if number < len(given) else None
    if operand is None:
        raise UnsupportedError(f"{instr.form} with other arguments than CUDA declares")
    if isinstance(operand, Symbol):
        place = where(scope, Address(operand), "local")
        return load(scope, place, type, 1, scope.active(instr))[0]
    return cast(scope.e, scope.vector(operand), type)
