"""Random PTX with wild control flow that always ends: loops, breaks, jumps, long lives."""

from __future__ import annotations

import random

REGISTERS = 7


def strewn(seed: int) -> str:
    """A kernel with barriers anywhere, as many as a lane comes by; half of them count lanes.

    What they count does not depend on how lanes take turns: the lanes' next barriers meet.
    """
    chosen = random.Random(seed)
    head, body = Maker(seed, wild=seed % 2 == 1).kernel().split(_BEGIN)
    start = [f"mov.u32 %r{k}, 0;" for k in (*range(20), *range(30, 40))]
    start += [f"setp.ne.u32 %p{k}, 0, 0;" for k in range(9)]
    lines, end, written = body.split("\n"), False, list[str]()
    for line in lines:
        end = end or line.startswith("mul.lo.u32 %r31")
        written.append(line)
        if not end and chosen.random() < 0.2:
            voter, counted = chosen.randrange(REGISTERS), chosen.randrange(REGISTERS)
            counting = (f"setp.ne.u32 %p6, %r{voter}, 3;",
                        f"barrier.red.popc.u32 %r{counted}, 0, %p6;")  # fmt: skip
            written += ["bar.sync 0;"] if chosen.random() < 0.5 else counting
    return head + "\n".join([*start, _BEGIN, *written])


_BEGIN = "mov.u32 %r30, 0;\n"
_HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n)
{
.reg .b32 %r<40>;
.reg .b64 %rd<10>;
.reg .pred %p<9>;
.shared .align 4 .b8 tile[4096];
ld.param.u64 %rd1, [out];
ld.param.u64 %rd2, [in];
ld.param.u32 %r20, [n];
mov.u32 %r21, %tid.x;
mov.u32 %r22, %ctaid.x;
mov.u32 %r23, %ntid.x;
mad.lo.u32 %r24, %r22, %r23, %r21;
mul.wide.u32 %rd3, %r24, 4;
add.u64 %rd4, %rd2, %rd3;
ld.global.u32 %r25, [%rd4];
mov.u32 %r30, 0;
"""


class Maker:
    """Writes one kernel. ``barriers`` adds them where the whole block passes."""

    def __init__(self, seed: int, *, barriers: bool = False, wild: bool = False) -> None:
        self.random = random.Random(seed)
        self.barriers, self.wild = barriers, wild
        self.lines: list[str] = []
        self.labels = 0

    def kernel(self) -> str:
        """The PTX text."""
        choose = self.random
        starts = ["0", "1", "%r21", "%r25", "%r20", "%r22", "5"]
        for k in range(REGISTERS):
            self.lines.append(f"mov.u32 %r{k}, {choose.choice(starts)};")
        if choose.random() < 0.3:
            self.lines += ["setp.gt.u32 %p8, %r25, 3000000000;", "@%p8 ret;"]
        if self.wild:
            self._wild_part()
        else:
            self._statements(0, [])
        end = [f"mul.lo.u32 %r31, %r24, {4 * REGISTERS};", "cvt.u64.u32 %rd5, %r31;",
               "add.u64 %rd6, %rd1, %rd5;"]  # fmt: skip
        end += [f"st.global.u32 [%rd6+{4 * k}], %r{k};" for k in range(REGISTERS)]
        return _HEAD + "\n".join([*self.lines, *end, "ret;", "}", ""])

    def _label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def _register(self) -> str:
        return f"%r{self.random.randrange(REGISTERS)}"

    def _simple(self) -> str:
        r, choose = self._register, self.random
        guard = ""
        if choose.random() < 0.15:
            self.lines.append(self._compare("%p7"))
            guard = choose.choice(["@%p7 ", "@!%p7 "])
        other = choose.choice([r(), r(), str(choose.randrange(1, 9)), "%r21", "%r25"])
        op = choose.choice(["add.u32", "sub.u32", "xor.b32", "and.b32", "mul.lo.u32", "max.u32"])
        if choose.random() < 0.2:
            return f"{guard}mov.u32 {r()}, {other};"
        return f"{guard}{op} {r()}, {r()}, {other};"

    def _compare(self, target: str) -> str:
        choose = self.random
        kind = choose.random()
        if kind < 0.3:  # the same for the whole block
            return f"setp.lt.u32 {target}, %r22, {choose.randrange(4)};"
        if kind < 0.5:
            return f"setp.lt.u32 {target}, {self._register()}, {choose.choice([3, 40, 1 << 30])};"
        bit = 1 << choose.randrange(6)
        source = choose.choice(["%r21", "%r25", self._register()])
        self.lines.append(f"and.b32 %r32, {source}, {bit};")
        return f"setp.ne.u32 {target}, %r32, 0;"

    def _fuel(self, end: str) -> list[str]:
        """Counts a lane's steps; leaves to ``end`` when there were many."""
        return ["add.u32 %r30, %r30, 1;", "setp.gt.u32 %p1, %r30, 60;", f"@%p1 bra {end};"]

    def _statements(self, depth: int, exits: list[str]) -> None:
        choose = self.random
        for _ in range(choose.randrange(2, 5)):
            kind = choose.random()
            if kind < 0.4 or depth > 3:
                self.lines.append(self._simple())
            elif kind < 0.6:
                self._branch(depth, exits)
            elif kind < 0.8:
                self._loop(depth, exits)
            elif exits and kind < 0.93:
                self.lines.append(self._compare("%p2"))
                self.lines.append(f"@%p2 bra {choose.choice(exits)};")
            elif depth == 0 and self.barriers:
                self._exchange()
            else:
                self.lines.append(self._simple())

    def _branch(self, depth: int, exits: list[str]) -> None:
        other, end = self._label(), self._label()
        self.lines += [self._compare("%p3"), f"@%p3 bra {other};"]
        self._statements(depth + 1, exits)
        if self.random.random() < 0.6:
            self.lines += [f"bra {end};", f"{other}:"]
            self._statements(depth + 1, exits)
            self.lines.append(f"{end}:")
        else:
            self.lines.append(f"{other}:")

    def _loop(self, depth: int, exits: list[str]) -> None:
        head, end = self._label(), self._label()
        counted = self.random.random() < 0.4
        if counted:  # trip count the same for all lanes: a scalar counter
            counter = f"%r{33 + depth}"
            self.lines.append(f"mov.u32 {counter}, 0;")
        self.lines += [f"{head}:", *self._fuel(end)]
        if counted and self.random.random() < 0.5:
            self.lines.append(f"add.u32 {self._register()}, {self._register()}, {counter};")
        self._statements(depth + 1, [head, end, *exits[:2]])
        if counted:
            trips = self.random.randrange(1, 5)
            self.lines.append(f"add.u32 {counter}, {counter}, 1;")
            self.lines.append(f"setp.lt.u32 %p4, {counter}, {trips};")
        else:
            self.lines.append(self._compare("%p4"))
        self.lines += [f"@%p4 bra {head};", f"{end}:"]
        if counted and self.random.random() < 0.5:
            self.lines.append(f"add.u32 {self._register()}, {self._register()}, {counter};")

    def _wild_part(self) -> None:
        """Blocks with jumps to anywhere: irreducible loops, too."""
        count = self.random.randrange(3, 9)
        labels = [self._label() for _ in range(count)]
        end = self._label()
        for k, label in enumerate(labels):
            self.lines += [f"{label}:", *self._fuel(end)]
            for _ in range(self.random.randrange(0, 3)):
                self.lines.append(self._simple())
            targets = labels[1:] if k == 0 else labels
            if self.random.random() < 0.8:
                self.lines.append(self._compare("%p5"))
                self.lines.append(f"@%p5 bra {self.random.choice([*targets, end])};")
            elif self.random.random() < 0.3:
                self.lines.append(f"bra {self.random.choice([*targets[k:], end])};")
        self.lines.append(f"{end}:")

    def _exchange(self) -> None:
        """A barrier with words passed through shared memory."""
        r = self._register()
        self.lines += [
            "mov.u64 %rd7, tile;", "mul.wide.u32 %rd8, %r21, 4;", "add.u64 %rd7, %rd7, %rd8;",
            "bar.sync 0;", f"st.shared.u32 [%rd7], {r};", "bar.sync 0;",
            "xor.b32 %r36, %r21, 1;", "min.u32 %r36, %r36, 76;", "mul.wide.u32 %rd8, %r36, 4;",
            "mov.u64 %rd7, tile;", "add.u64 %rd7, %rd7, %rd8;",
            f"ld.shared.u32 {self._register()}, [%rd7];",
        ]  # fmt: skip
