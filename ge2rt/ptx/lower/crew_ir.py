"""LLVM IR of crews: blocks whose warps run in turn, each on a stack of its own.

A crew is a block that is under way; a strand is one of its warps. A strand runs until it ends or
yields; where a round over all strands makes nothing happen, the next block joins in, so that blocks
may wait for later ones (a barrier over the grid). Layout of a crew, in its block's arena::

     0 ptr  next crew              40 i32  living lanes       64  16 barriers of 32 bytes:
     8 ptr  launch                 44 i32  events                 i32 arrived, i32 generation,
    16 ptr  arena                  48 i64  the scheduler's        i32 yes, i32 all (votes),
    24 i32  block x, y, z                  stack pointer          i32 yes, i32 all (result)
    36 i32  strands that live      56 ptr  to free, or null       and one more for each warp, then
                                                                  strands of 64 bytes: i64 stack,
                                                                  ptr crew, i32 warp, i32 ended,
                                                                  i32 living lanes, i32 held,
                                                                  i32 calls

A template: :func:`crew_ir` puts the numbers in.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import Template

from ge2rt.ptx.lower.stuck_ir import STUCK
from ge2rt.ptx.lower.switch_ir import FIRST_FRAME, SWITCH
from ge2rt.ptx.native import ABORT_DEADLOCK

FIRST_OF_WARPS = 16  # number of the first warp's own barrier
STRAND_BYTES = 64
_BAR_BYTES = 32
IDLE_ROUNDS = 8  # rounds without an event before another block joins
MAX_RESIDENT_BYTES = 1 << 30  # of all blocks under way on one thread

DECLARATIONS = {
    "ge2rt_switch": "declare void @ge2rt_switch(ptr, i64)",
    "ge2rt_trampoline": "declare void @ge2rt_trampoline()",
    "malloc": "declare ptr @malloc(i64)",
    "free": "declare void @free(ptr)",
    "sched_yield": "declare i32 @sched_yield()",
    "llvm.umin.i32": "declare i32 @llvm.umin.i32(i32, i32)",
    "llvm.memset.p0.i64": "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
}  # fmt: skip
"""Functions that the text calls, by name."""

_TEXT = """

define internal void @crew_yield(ptr %strand) noinline {
  %crew_p = getelementptr i8, ptr %strand, i64 8
  %crew = load ptr, ptr %crew_p
  %main_p = getelementptr i8, ptr %crew, i64 48
  %main = load i64, ptr %main_p
  call void @ge2rt_switch(ptr %strand, i64 %main)
  ret void
}

define internal void @crew_event(ptr %crew) alwaysinline {
  %p = getelementptr i8, ptr %crew, i64 44
  %n = load i32, ptr %p
  %m = add i32 %n, 1
  store i32 %m, ptr %p
  ret void
}

define internal void @crew_living(ptr %strand, i32 %lanes) noinline {
  %crew_p = getelementptr i8, ptr %strand, i64 8
  %crew = load ptr, ptr %crew_p
  %mine_p = getelementptr i8, ptr %strand, i64 24
  %mine = load i32, ptr %mine_p
  store i32 %lanes, ptr %mine_p
  %gone = sub i32 %mine, %lanes
  %all_p = getelementptr i8, ptr %crew, i64 40
  %all = load i32, ptr %all_p
  %left = sub i32 %all, %gone
  store i32 %left, ptr %all_p
  ret void
}

; Lanes of a warp have ended.
define internal void @crew_fewer(ptr %strand, i32 %gone) noinline {
  %mine_p = getelementptr i8, ptr %strand, i64 24
  %mine = load i32, ptr %mine_p
  %left = sub i32 %mine, %gone
  call void @crew_living(ptr %strand, i32 %left)
  ret void
}

define internal i1 @crew_full(ptr %crew, ptr %bar, i32 %count) noinline {
  %arrived = load i32, ptr %bar
  %all_p = getelementptr i8, ptr %crew, i64 40
  %all = load i32, ptr %all_p
  %open = icmp eq i32 %count, 0
  %most = select i1 %open, i32 %all, i32 %count
  %crew_i = ptrtoint ptr %crew to i64
  %bar_i = ptrtoint ptr %bar to i64
  %offset = sub i64 %bar_i, %crew_i
  %number = sub i64 %offset, $FIRST
  %own = icmp sge i64 %number, 0
  br i1 %own, label %warp, label %compare
warp:  ; lanes that have left are not waited for
  %past = add i64 %number, $HEAD
  %strand = getelementptr i8, ptr %crew, i64 %past
  %living_p = getelementptr i8, ptr %strand, i64 24
  %living = load i32, ptr %living_p
  %least = call i32 @llvm.umin.i32(i32 %living, i32 %most)
  br label %compare
compare:
  %wanted = phi i32 [ %most, %0 ], [ %least, %warp ]
  %full = icmp uge i32 %arrived, %wanted
  br i1 %full, label %release, label %done
release:
  store i32 0, ptr %bar
  %gen_p = getelementptr i8, ptr %bar, i64 4
  %gen = load i32, ptr %gen_p
  %next = add i32 %gen, 1
  store i32 %next, ptr %gen_p
  %votes = getelementptr i8, ptr %bar, i64 8
  %two = load i64, ptr %votes, align 4
  %result = getelementptr i8, ptr %bar, i64 16
  store i64 %two, ptr %result, align 4
  store i64 0, ptr %votes, align 4
  call void @crew_event(ptr %crew)
  br label %done
done:
  ret i1 %full
}

define internal ptr @crew_bar(ptr %crew, i32 %id) alwaysinline {
  %wide = zext i32 %id to i64
  %at = mul i64 %wide, 32
  %past = add i64 %at, 64
  %bar = getelementptr i8, ptr %crew, i64 %past
  ret ptr %bar
}

; LANES lanes arrive, YES of ALL voting for; the barrier's generation.
define internal i32 @crew_arrive(ptr %strand, i32 %id, i32 %count, i32 %lanes, i32 %yes, i32 %all)
noinline {
  %crew_p = getelementptr i8, ptr %strand, i64 8
  %crew = load ptr, ptr %crew_p
  %bar = call ptr @crew_bar(ptr %crew, i32 %id)
  %mine_p = getelementptr i8, ptr %strand, i64 24
  %mine = load i32, ptr %mine_p
  %every = icmp eq i32 %mine, %lanes
  %counted = icmp ne i32 %count, 0
  %round = and i1 %every, %counted
  %adding = select i1 %round, i32 $WIDTH, i32 %lanes
  %arrived = load i32, ptr %bar
  %now = add i32 %arrived, %adding
  store i32 %now, ptr %bar
  %yes_p = getelementptr i8, ptr %bar, i64 8
  %yes0 = load i32, ptr %yes_p
  %yes1 = add i32 %yes0, %yes
  store i32 %yes1, ptr %yes_p
  %all_p = getelementptr i8, ptr %bar, i64 12
  %all0 = load i32, ptr %all_p
  %all1 = add i32 %all0, %all
  store i32 %all1, ptr %all_p
  %gen_p = getelementptr i8, ptr %bar, i64 4
  %gen = load i32, ptr %gen_p
  %ignored = call i1 @crew_full(ptr %crew, ptr %bar, i32 %count)
  ret i32 %gen
}

define internal i1 @crew_passed(ptr %strand, i32 %id, i32 %count, i32 %gen) noinline {
  %crew_p = getelementptr i8, ptr %strand, i64 8
  %crew = load ptr, ptr %crew_p
  %bar = call ptr @crew_bar(ptr %crew, i32 %id)
  %gen_p = getelementptr i8, ptr %bar, i64 4
  %now = load i32, ptr %gen_p
  %over = icmp ne i32 %now, %gen
  br i1 %over, label %yes, label %look
look:
  %full = call i1 @crew_full(ptr %crew, ptr %bar, i32 %count)
  ret i1 %full
yes:
  ret i1 true
}

; How many voted for, and how many at all.
define internal i64 @crew_votes(ptr %strand, i32 %id) noinline {
  %crew_p = getelementptr i8, ptr %strand, i64 8
  %crew = load ptr, ptr %crew_p
  %bar = call ptr @crew_bar(ptr %crew, i32 %id)
  %result = getelementptr i8, ptr %bar, i64 16
  %two = load i64, ptr %result, align 4
  ret i64 %two
}

define internal void @crew_run(ptr %strand) noinline {
  %crew_p = getelementptr i8, ptr %strand, i64 8
  %crew = load ptr, ptr %crew_p
  %launch_p = getelementptr i8, ptr %crew, i64 8
  %launch = load ptr, ptr %launch_p
  %arena_p = getelementptr i8, ptr %crew, i64 16
  %arena = load ptr, ptr %arena_p
  %x_p = getelementptr i8, ptr %crew, i64 24
  %x = load i32, ptr %x_p
  %y_p = getelementptr i8, ptr %crew, i64 28
  %y = load i32, ptr %y_p
  %z_p = getelementptr i8, ptr %crew, i64 32
  %z = load i32, ptr %z_p
  %warp_p = getelementptr i8, ptr %strand, i64 16
  %warp = load i32, ptr %warp_p
  %last = icmp eq i32 %warp, $LAST_WARP
  %mask = select i1 %last, i$WIDTH $LAST_MASK, i$WIDTH -1
  call void @$STRAND(ptr %launch, ptr %arena, ptr %strand, ptr null, i32 %x, i32 %y, i32 %z,
    i32 %warp, i$WIDTH %mask)
  %ended_p = getelementptr i8, ptr %strand, i64 20
  store i32 1, ptr %ended_p
  call void @crew_living(ptr %strand, i32 0)
  %left_p = getelementptr i8, ptr %crew, i64 36
  %left = load i32, ptr %left_p
  %fewer = sub i32 %left, 1
  store i32 %fewer, ptr %left_p
  call void @crew_event(ptr %crew)
  call void @crew_yield(ptr %strand)
  unreachable
}

; Where a crew lies in its arena.
define internal ptr @crew_in(ptr %arena, i64 %dynamic) {
  %all = add i64 %dynamic, $SHARED_UP
  %at = and i64 %all, -128
  %crew_at = add i64 %at, $CREW
  %crew = getelementptr i8, ptr %arena, i64 %crew_at
  %arena_p = getelementptr i8, ptr %crew, i64 16
  store ptr %arena, ptr %arena_p
  ret ptr %crew
}

define internal ptr @crew_new(i64 %dynamic) noinline {
  %bytes = add i64 %dynamic, $ARENA
  %raw = call ptr @malloc(i64 %bytes)
  %none = icmp eq ptr %raw, null
  br i1 %none, label %fail, label %good
fail:
  ret ptr null
good:
  %number = ptrtoint ptr %raw to i64
  %up = add i64 %number, 127
  %aligned = and i64 %up, -128
  %arena = inttoptr i64 %aligned to ptr
  %crew = call ptr @crew_in(ptr %arena, i64 %dynamic)
  %raw_p = getelementptr i8, ptr %crew, i64 56
  store ptr %raw, ptr %raw_p
  ret ptr %crew
}


define internal void @crew_begin(ptr %crew, ptr %launch, i64 %block) noinline {
entry:
  %gx_p = getelementptr i8, ptr %launch, i64 32
  %gx4 = load i32, ptr %gx_p
  %gx = zext i32 %gx4 to i64
  %gy_p = getelementptr i8, ptr %launch, i64 36
  %gy4 = load i32, ptr %gy_p
  %gy = zext i32 %gy4 to i64
  %row = udiv i64 %block, %gx
  %x = urem i64 %block, %gx
  %y = urem i64 %row, %gy
  %z = udiv i64 %row, %gy
  %x4 = trunc i64 %x to i32
  %y4 = trunc i64 %y to i32
  %z4 = trunc i64 %z to i32
  %launch_p = getelementptr i8, ptr %crew, i64 8
  store ptr %launch, ptr %launch_p
  %x_p = getelementptr i8, ptr %crew, i64 24
  store i32 %x4, ptr %x_p
  %y_p = getelementptr i8, ptr %crew, i64 28
  store i32 %y4, ptr %y_p
  %z_p = getelementptr i8, ptr %crew, i64 32
  store i32 %z4, ptr %z_p
  %left_p = getelementptr i8, ptr %crew, i64 36
  store i32 $WARPS, ptr %left_p
  %living_p = getelementptr i8, ptr %crew, i64 40
  store i32 $THREADS, ptr %living_p
  %bars = getelementptr i8, ptr %crew, i64 64
  call void @llvm.memset.p0.i64(ptr %bars, i8 0, i64 $BARS, i1 false)
  %number = ptrtoint ptr %crew to i64
  %stacks0 = add i64 %number, $STACKS
  %stacks = and i64 %stacks0, -64
  br label %loop
loop:
  %w = phi i64 [ 0, %entry ], [ %next, %loop ]
  %w4 = trunc i64 %w to i32
  %step = mul i64 %w, $STRAND_BYTES
  %past = add i64 %step, $HEAD
  %strand = getelementptr i8, ptr %crew, i64 %past
  %next = add i64 %w, 1
  %high = mul i64 %next, $STACK
  %top = add i64 %stacks, %high
  %sp = sub i64 %top, $FRAME
  store i64 %sp, ptr %strand
  %crew_p = getelementptr i8, ptr %strand, i64 8
  store ptr %crew, ptr %crew_p
  %warp_p = getelementptr i8, ptr %strand, i64 16
  store i32 %w4, ptr %warp_p
  %ended_p = getelementptr i8, ptr %strand, i64 20
  store i32 0, ptr %ended_p
  %last = icmp eq i32 %w4, $LAST_WARP
  %lanes = select i1 %last, i32 $LAST_LANES, i32 $WIDTH
  %lanes_p = getelementptr i8, ptr %strand, i64 24
  store i32 %lanes, ptr %lanes_p
  %held_p = getelementptr i8, ptr %strand, i64 28
  store i32 0, ptr %held_p
  %calls_p = getelementptr i8, ptr %strand, i64 32
  store i32 0, ptr %calls_p
  %frame = inttoptr i64 %sp to ptr
  call void @llvm.memset.p0.i64(ptr %frame, i8 0, i64 $FRAME, i1 false)
  %arg_p = getelementptr i8, ptr %frame, i64 $FRAME_STRAND
  store ptr %strand, ptr %arg_p
  %run_p = getelementptr i8, ptr %frame, i64 $FRAME_RUN
  store ptr @crew_run, ptr %run_p
  %ret_p = getelementptr i8, ptr %frame, i64 $FRAME_RETURN
  store ptr @ge2rt_trampoline, ptr %ret_p
  %more = icmp ult i64 %next, $WARPS
  br i1 %more, label %loop, label %done
done:
  ret void
}

; One turn for each strand; how many events there were.
define internal i32 @crew_round(ptr %crew) noinline {
entry:
  %events_p = getelementptr i8, ptr %crew, i64 44
  store i32 0, ptr %events_p
  %main_p = getelementptr i8, ptr %crew, i64 48
  br label %loop
loop:
  %w = phi i64 [ 0, %entry ], [ %next, %after ]
  %step = mul i64 %w, $STRAND_BYTES
  %past = add i64 %step, $HEAD
  %strand = getelementptr i8, ptr %crew, i64 %past
  %ended_p = getelementptr i8, ptr %strand, i64 20
  %ended = load i32, ptr %ended_p
  %lives = icmp eq i32 %ended, 0
  br i1 %lives, label %turn, label %after
turn:
  %sp = load i64, ptr %strand
  call void @ge2rt_switch(ptr %main_p, i64 %sp)
  br label %after
after:
  %next = add i64 %w, 1
  %more = icmp ult i64 %next, $WARPS
  br i1 %more, label %loop, label %done
done:
  %events = load i32, ptr %events_p
  ret i32 %events
}

define void @$SYMBOL(ptr %launch, ptr %arena, i64 %first, i64 %last) {
entry:
  %at = alloca i64
  store i64 %first, ptr %at
  %head = alloca ptr
  store ptr null, ptr %head
  %spare = alloca ptr
  %idle = alloca i32
  store i32 0, ptr %idle
  %resident = alloca i32
  store i32 0, ptr %resident
  %rounds = alloca i32
  store i32 0, ptr %rounds
  %abort_p = getelementptr i8, ptr %launch, i64 16
  %abort = load ptr, ptr %abort_p
  %blocks_p = getelementptr i8, ptr %launch, i64 48
  %blocks = load i64, ptr %blocks_p
  %ticket = getelementptr i8, ptr %launch, i64 56
  %dynamic_p = getelementptr i8, ptr %launch, i64 44
  %dynamic4 = load i32, ptr %dynamic_p
  %dynamic = zext i32 %dynamic4 to i64
  %crew0 = call ptr @crew_in(ptr %arena, i64 %dynamic)
  store ptr null, ptr %crew0
  %raw0 = getelementptr i8, ptr %crew0, i64 56
  store ptr null, ptr %raw0
  store ptr %crew0, ptr %spare
  br label %empty

empty:
  %stop0 = load atomic i32, ptr %abort monotonic, align 4
  %go0 = icmp eq i32 %stop0, 0
  %own0 = load i64, ptr %at
  %more0 = icmp slt i64 %own0, %last
  %start0 = and i1 %go0, %more0
  br i1 %start0, label %own, label %leave

own:
  %mine = load i64, ptr %at
  %after_mine = add i64 %mine, 1
  store i64 %after_mine, ptr %at
  br label %begin

begin:
  %block = phi i64 [ %mine, %own ], [ %other, %others ]
  %kept = load ptr, ptr %spare
  %has = icmp ne ptr %kept, null
  br i1 %has, label %reuse, label %fresh
fresh:
  %made = call ptr @crew_new(i64 %dynamic)
  %made_none = icmp eq ptr %made, null
  br i1 %made_none, label %starve, label %enter
starve:
  %ignored = cmpxchg ptr %abort, i32 0, i32 6 monotonic monotonic
  br label %leave
reuse:
  %kept_next = load ptr, ptr %kept
  store ptr %kept_next, ptr %spare
  br label %enter
enter:
  %crew1 = phi ptr [ %made, %fresh ], [ %kept, %reuse ]
  call void @crew_begin(ptr %crew1, ptr %launch, i64 %block)
  store ptr null, ptr %crew1
  br label %append
append:
  %link = phi ptr [ %head, %enter ], [ %linked, %along ]
  %linked = load ptr, ptr %link
  %end = icmp eq ptr %linked, null
  br i1 %end, label %put, label %along
along:
  br label %append
put:
  store ptr %crew1, ptr %link
  %n0 = load i32, ptr %resident
  %n1 = add i32 %n0, 1
  store i32 %n1, ptr %resident
  br label %round

round:
  %turn = load i32, ptr %rounds
  %turn1 = add i32 %turn, 1
  store i32 %turn1, ptr %rounds
  %low = and i32 %turn1, 1023
  %due = icmp eq i32 %low, 0
  br i1 %due, label %attend, label %walk
attend:
  call void @ge2rt_attend(ptr %launch, ptr %arena)
  br label %walk
walk:
  %slot = phi ptr [ %head, %round ], [ %head, %attend ], [ %crew, %stay ], [ %slot, %drop ]
  %events = phi i32 [ 0, %round ], [ 0, %attend ], [ %sum, %stay ], [ %sum, %drop ]
  %crew = load ptr, ptr %slot
  %past_end = icmp eq ptr %crew, null
  br i1 %past_end, label %walked, label %visit
visit:
  %got = call i32 @crew_round(ptr %crew)
  %sum = add i32 %events, %got
  %left_p = getelementptr i8, ptr %crew, i64 36
  %left = load i32, ptr %left_p
  %over = icmp eq i32 %left, 0
  br i1 %over, label %drop, label %stay
stay:
  br label %walk
drop:
  %follow = load ptr, ptr %crew
  store ptr %follow, ptr %slot
  %spares = load ptr, ptr %spare
  store ptr %spares, ptr %crew
  store ptr %crew, ptr %spare
  %m0 = load i32, ptr %resident
  %m1 = sub i32 %m0, 1
  store i32 %m1, ptr %resident
  br label %walk

walked:
  %stop1 = load atomic i32, ptr %abort monotonic, align 4
  %go1 = icmp eq i32 %stop1, 0
  br i1 %go1, label %living, label %leave
living:
  %first_crew = load ptr, ptr %head
  %nobody = icmp eq ptr %first_crew, null
  br i1 %nobody, label %empty, label %stuck
stuck:
  %quiet = icmp eq i32 %events, 0
  br i1 %quiet, label %count, label %busy
busy:
  store i32 0, ptr %idle
  br label %round
count:
  %idle0 = load i32, ptr %idle
  %idle1 = add i32 %idle0, 1
  store i32 %idle1, ptr %idle
  %long = icmp uge i32 %idle1, $IDLE
  br i1 %long, label %admit, label %round
admit:
  store i32 0, ptr %idle
  %oldest = load ptr, ptr %head
  %dead = call i1 @crew_stuck(ptr %oldest)
  br i1 %dead, label %give_up, label %welcome
give_up:
  %ignored1 = cmpxchg ptr %abort, i32 0, i32 $DEADLOCK monotonic monotonic
  br label %leave
welcome:
  %people = load i32, ptr %resident
  %room = icmp ult i32 %people, $RESIDENT
  br i1 %room, label %choose, label %sleep
choose:
  %own1 = load i64, ptr %at
  %more1 = icmp slt i64 %own1, %last
  br i1 %more1, label %own, label %others
others:
  %other = atomicrmw add ptr %ticket, i64 1 monotonic
  %valid = icmp slt i64 %other, %blocks
  br i1 %valid, label %begin, label %sleep
sleep:
  %slept = call i32 @sched_yield()
  br label %round

leave:
  br label %free_live
free_live:
  %live = load ptr, ptr %head
  %live_end = icmp eq ptr %live, null
  br i1 %live_end, label %free_spare, label %free_one
free_one:
  %live_next = load ptr, ptr %live
  store ptr %live_next, ptr %head
  %live_raw_p = getelementptr i8, ptr %live, i64 56
  %live_raw = load ptr, ptr %live_raw_p
  call void @free(ptr %live_raw)
  br label %free_live
free_spare:
  %idle_crew = load ptr, ptr %spare
  %spare_end = icmp eq ptr %idle_crew, null
  br i1 %spare_end, label %gone, label %free_two
free_two:
  %idle_next = load ptr, ptr %idle_crew
  store ptr %idle_next, ptr %spare
  %idle_raw_p = getelementptr i8, ptr %idle_crew, i64 56
  %idle_raw = load ptr, ptr %idle_raw_p
  call void @free(ptr %idle_raw)
  br label %free_spare
gone:
  ret void
}
"""


@dataclass(frozen=True)
class CrewSizes:
    """What the template needs to know of a kernel."""

    symbol: str
    strand: str  # name of the function that runs one warp
    width: int
    warps: int
    threads: int
    shared: int  # static shared memory, bytes
    before: int  # bytes of local memory between shared memory and the crew
    stack: int  # bytes of a strand's stack
    reserve: int  # bytes of it that must be free where a function is entered

    @property
    def head(self) -> int:
        """Where the strands start."""
        return 64 + _BAR_BYTES * (FIRST_OF_WARPS + self.warps)

    @property
    def bytes(self) -> int:
        """Crew and stacks."""
        return self.head + STRAND_BYTES * self.warps + 64 + self.stack * self.warps

    @property
    def arena(self) -> int:
        """The whole arena, but for dynamic shared memory."""
        return self.shared + self.before + self.bytes + 256


def crew_ir(sizes: CrewSizes, machine: str) -> str:
    """The text for one kernel; ``machine`` is ``x86_64`` or ``aarch64``."""
    frame, strand, run, back = FIRST_FRAME[machine]
    rest = sizes.threads - (sizes.warps - 1) * sizes.width
    numbers = {
        "SYMBOL": sizes.symbol, "STRAND": sizes.strand, "WIDTH": sizes.width, "WARPS": sizes.warps,
        "THREADS": sizes.threads, "LAST_WARP": sizes.warps - 1, "LAST_LANES": rest,
        "LAST_MASK": (1 << rest) - 1, "SHARED_UP": sizes.shared + 127, "CREW": sizes.before,
        "ARENA": sizes.arena + 128, "HEAD": sizes.head, "BARS": sizes.head - 64,
        "FIRST": 64 + _BAR_BYTES * FIRST_OF_WARPS, "STRAND_BYTES": STRAND_BYTES,
        "STACKS": sizes.head + STRAND_BYTES * sizes.warps + 63, "STACK": sizes.stack,
        "RESERVE": sizes.reserve,
        "FRAME": frame, "FRAME_STRAND": strand, "FRAME_RUN": run, "FRAME_RETURN": back,
        "DEADLOCK": ABORT_DEADLOCK, "IDLE": IDLE_ROUNDS,
        "RESIDENT": max(2, MAX_RESIDENT_BYTES // sizes.arena),
    }  # fmt: skip
    return SWITCH[machine] + Template(STUCK + _TEXT).substitute(numbers)
