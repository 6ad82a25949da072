"""Random CUDA kernels and what they must leave in memory, computed by NumPy from the same tree.

A statement writes its text and runs all threads at once under a mask; expressions likewise
(tests/cpu/random_expr.py). Nothing here knows PTX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from cpu.native_run import load, ptx_of
from cpu.random_expr import Expr, Expressions
from cpu.random_state import (
    DTYPES,
    FLOATS,
    HELPERS,
    INPUT,
    LOCAL,
    SLOTS,
    WORDS,
    State,
    across_warp,
    leave,
    put,
)


@dataclass
class Stmt:
    """``text`` has ``{}`` for each body."""

    text: str
    run: Callable[[State, np.ndarray, list[list[Stmt]]], None]
    bodies: list[list[Stmt]] = field(default_factory=list)

    def source(self, depth: int = 1) -> str:
        inner = ["\n" + "".join(s.source(depth + 1) for s in b) + "  " * depth for b in self.bodies]
        text = self.text
        for part in inner:
            text = text.replace("{}", "{" + part + "}", 1)
        return "  " * depth + text + "\n"


def execute(stmts: list[Stmt], state: State, mask: np.ndarray) -> None:
    for stmt in stmts:
        living = mask & ~state.off
        if living.any():
            stmt.run(state, living, stmt.bodies)


@dataclass
class Program:
    """One kernel and one launch."""

    seed: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    stmts: list[Stmt]
    variables: dict[str, str]
    warps: bool  # uses instructions that look across lanes

    def source(self) -> str:
        """The CUDA text."""
        size = int(np.prod(self.block))
        given = ", ".join(f"const {t}* in_{d}" for t, d in DTYPES.items())
        outs = ", ".join(f"{t}* out_{d}" for t, d in DTYPES.items())
        names = list(self.variables)
        lines = [
            HELPERS,
            f'extern "C" __global__ void k({given}, {outs}, int* acc_i4, unsigned* acc_u4,'
            " unsigned long long* acc_u8, float* acc_f4, long long* result,"
            " int n, unsigned u, long long q, float f) {",
            f"  __shared__ int sh[{size}];",
            "  const unsigned lin ="
            " threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);",
            f"  const unsigned gid = lin + {size}u *"
            " (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));",
            f"  const unsigned wn = min(32u, {size}u - lin / 32u * 32u);",
            f"  int loc[{LOCAL}];",
            f"  for (int z = 0; z < {LOCAL}; z++) loc[z] = 0;",
            "  sh[lin] = 0; __syncthreads();",
        ]
        lines += [f"  {self.variables[v]} {v} = 0;" for v in names]
        lines += [s.source() for s in self.stmts]
        lines += [
            f"  result[gid * {len(names)}u + {k}u] = {_as_word(self.variables[v], v)};"
            for k, v in enumerate(names)
        ]
        return "\n".join([*lines, "}", ""])

    def memory(self) -> dict[str, np.ndarray]:
        """Fresh arguments by name, from the seed."""
        r = np.random.default_rng(self.seed)
        threads = int(np.prod(self.block) * np.prod(self.grid))
        out: dict[str, np.ndarray] = {}
        for d in DTYPES.values():
            if d[0] == "f":
                values = np.round(r.standard_normal(INPUT) * 50, 2)
                values[:3] = np.nan, np.inf, -0.0
            else:
                info = np.iinfo(d)
                values = np.where(
                    r.random(INPUT) < 0.7,
                    r.integers(0, 100, INPUT),
                    r.integers(info.min, info.max, INPUT, dtype=d),
                )
            out[f"in_{d}"] = values.astype(d)
        for d in DTYPES.values():
            out[f"out_{d}"] = np.zeros(4 * max(threads, 64), d)
        for d in ("i4", "u4", "u8", "f4"):
            out[f"acc_{d}"] = np.zeros(SLOTS, d)
        out["result"] = np.zeros(threads * len(self.variables), "i8")
        out |= {
            "n": np.int32(r.integers(1, 9)),
            "u": np.uint32(r.integers(0, 1 << 32)),
            "q": np.int64(r.integers(-(1 << 62), 1 << 62)),
            "f": np.float32(1.5),
        }
        return out

    def expected(self) -> dict[str, np.ndarray]:
        """The arguments after the launch."""
        memory = self.memory()
        state = State(self.grid, self.block, memory)
        with np.errstate(all="ignore"):
            for name, kind in self.variables.items():
                state.vars[name] = state.spread(0, DTYPES[kind])
            execute(self.stmts, state, np.ones(state.threads, bool))
            for k, (name, kind) in enumerate(self.variables.items()):
                living = ~state.off
                at = np.arange(state.threads) * len(self.variables) + k
                memory["result"][at[living]] = _words(kind, state.vars[name])[living]
        return memory


def _as_word(kind: str, name: str) -> str:
    # NaN is told by its bits: NVRTC takes 0.0 / 0.0 for a number when it folds ``v != v``.
    if kind == "float":
        raw = f"__float_as_int({name} + 0.0f)"
        return f"({raw} & 0x7fffffff) > 0x7f800000 ? -1ll : (long long){raw}"
    if kind == "double":
        raw = f"__double_as_longlong({name} + 0.0)"
        return f"({raw} & 0x7fffffffffffffffll) > 0x7ff0000000000000ll ? -1ll : {raw}"
    return f"(long long){name}"


def _words(kind: str, value: np.ndarray) -> np.ndarray:
    if kind not in FLOATS:
        return value.astype("i8")
    raw = (value + value.dtype.type(0)).view("i4" if kind == "float" else "i8").astype("i8")
    return np.where(np.isnan(value), -1, raw)


class Maker(Expressions):
    """Makes one program from a seed."""

    def program(self) -> Program:
        stmts = [self.assign(v) for v in self.variables]
        for _ in range(self.r.randrange(1, self.size + 1)):
            stmts += self.statement(0, True, None)
        return Program(self.seed, self.grid, self.block, stmts, self.variables, self.warps)

    # -- statements ----------------------------------------------------------------------------
    def statement(self, depth: int, together: bool, loop: str | None) -> list[Stmt]:
        """``together``: all threads that still live arrive here; ``loop``: inside of which."""
        r = self.r
        pick = r.random()
        if depth > 2 or pick < 0.3:
            return [self.assign(r.choice(list(self.variables)))]
        if pick < 0.45:
            return [self.branch(depth, loop)]
        if pick < 0.62:
            return [self.loop(depth, together)]
        if pick < 0.68:
            return [self.switch(depth)]
        if pick < 0.76:
            return [self.store()]
        if pick < 0.82:
            return [self.atomic()]
        if pick < 0.86:
            return [self.local_store()]
        if pick < 0.9 and loop and not together:
            c = self.condition(2)
            word = r.choice(["break", "continue"])
            return [Stmt(f"if ({c.text}) {word};", lambda s, m, b: leave(s, m & c.value(s), word))]
        if pick < 0.92 and not self.calm and not self.warps:
            self.exits = True
            c = self.condition(2)
            rare = Expr(
                "bool",
                f"(({c.text}) && (gid & 3u) == 1u)",
                lambda s: c.value(s) & (s.vars["gid"] & 3 == 1),
            )
            return [
                Stmt(
                    f"if ({rare.text}) return;",
                    lambda s, m, b: leave(s, m & rare.value(s), "return"),
                )
            ]
        if together and r.random() < 0.6:
            return self.exchange()
        if together:
            return self.across(depth)
        return [self.assign(r.choice(list(self.variables)))]

    def body(self, depth: int, together: bool, loop: str | None) -> list[Stmt]:
        out: list[Stmt] = []
        for _ in range(self.r.randrange(1, 4)):
            out += self.statement(depth + 1, together, loop)
        return out

    def assign(self, name: str) -> Stmt:
        kind = self.variables[name]
        e = self.expr(kind)
        return Stmt(f"{name} = {e.text};", lambda s, m, b: put(s, m, name, e.value(s)))

    def branch(self, depth: int, loop: str | None) -> Stmt:
        c = self.condition()
        bodies = [self.body(depth, False, loop)]
        text = f"if ({c.text}) {{}}"
        if self.r.random() < 0.5:
            bodies.append(self.body(depth, False, loop))
            text += " else {}"

        def run(s: State, m: np.ndarray, b: list[list[Stmt]]) -> None:
            taken = m & c.value(s).astype(bool)
            execute(b[0], s, taken)
            if len(b) > 1:
                execute(b[1], s, m & ~taken)

        return Stmt(text, run, bodies)

    def loop(self, depth: int, together: bool) -> Stmt:
        r = self.r
        i = self.name()
        uniform = r.random() < 0.5
        if uniform:
            k = r.randrange(1, 6)
            bound = r.choice(
                [
                    Expr("int", str(k), lambda s: s.spread(k, "i4")),
                    Expr("int", "n", lambda s: s.spread(s.memory["n"], "i4")),
                ]
            )
        else:
            e = self.expr("int", 1)
            bound = Expr("int", f"({e.text} & 7)", lambda s: e.value(s) & 7)
        whole = together and uniform
        start, step = r.choice([(0, 1), (0, 1), (1, 2), (0, 3)])
        t = self.name()
        self.counters.append(i)
        inner = self.body(depth, whole, "loop")
        self.counters.remove(i)
        ends = not whole and r.random() < 0.3
        c = self.condition(2)
        tail = f" if ({c.text}) break; " if ends else ""
        head = f"for (int {i} = {start}; {i} < {t}; {i} += {step})"
        text = f"{{ const int {t} = {bound.text}; {head} {{}} }}"
        if ends:
            inner.append(
                Stmt(tail.strip(), lambda s, m, b: leave(s, m & c.value(s).astype(bool), "break"))
            )

        def run(s: State, m: np.ndarray, b: list[list[Stmt]]) -> None:
            count = bound.value(s)
            outer = s.exits
            s.exits = {"break": np.zeros(s.threads, bool), "continue": np.zeros(s.threads, bool)}
            s.vars[i] = s.spread(start, "i4")
            while True:
                living = m & ~s.off & (s.vars[i] < count)
                if not living.any():
                    break
                execute(b[0], s, living)
                s.off &= ~s.exits["continue"]
                s.exits["continue"][:] = False
                s.vars[i] = np.where(living, s.vars[i] + step, s.vars[i]).astype("i4")
            s.off &= ~s.exits["break"]
            s.exits = outer

        return Stmt(text, run, [inner])

    def switch(self, depth: int) -> Stmt:
        r = self.r
        count = r.randrange(2, 6)
        e = self.expr("unsigned", 1)
        falls = [r.random() < 0.4 for _ in range(count)]
        bodies = [self.body(depth + 1, False, None) for _ in range(count)]
        default = r.random() < 0.5
        parts = []
        for k in range(count):
            head = "default:" if default and k == count - 1 else f"case {k}:"
            parts.append(f"{head} {{}}" + ("" if falls[k] else " break;"))
        # A switch has room for one more value than cases: some lanes take none.
        text = f"switch ({e.text} % {count + 1}u) {{ {' '.join(parts)} }}"

        def run(s: State, m: np.ndarray, b: list[list[Stmt]]) -> None:
            value = e.value(s) % (count + 1)
            running = np.zeros(s.threads, bool)
            for k in range(len(b)):
                last = default and k == count - 1
                running |= m & ((value >= k) if last else (value == k))
                execute(b[k], s, running)
                if not falls[k]:
                    running = np.zeros(s.threads, bool)

        return Stmt(text, run, bodies)

    def store(self) -> Stmt:
        r = self.r
        kind = r.choice([*WORDS, "short", "unsigned char", "signed char", "float"])
        d = DTYPES[kind]
        e = self.small(kind, 1) if kind not in (*WORDS, "float") else self.expr(kind)
        k, c = r.choice([(1, 0), (1, 7), (2, 1), (3, 2), (4, 0)])
        forms = ["up", "down", "vector"] if d in ("i4", "i2", "u1", "f4") else ["up", "down"]
        # Two layouts of one array would let threads race.
        k, c, form = self.layouts.setdefault(d, (k, c, r.choice(forms)))
        threads = int(np.prod(self.block) * np.prod(self.grid))
        room = 4 * max(threads, 64)
        if form == "vector":
            short = {"i4": "int4", "i2": "short4", "u1": "uchar4", "f4": "float4"}[d]
            zero = f"({kind})0"
            text = (
                f"(({short}*)out_{d})[gid] = make_{short}({e.text}, {zero}, ({kind})3, {e.text});"
            )

            def wide(s: State, m: np.ndarray, b: list[list[Stmt]]) -> None:
                at = np.arange(s.threads)[m] * 4
                value = e.value(s).astype(d)[m]
                for n, v in enumerate((value, 0, 3, value)):
                    s.memory[f"out_{d}"][at + n] = v

            return Stmt(text, wide)
        if form == "up":
            if k * threads + c > room:
                c = 0
            text, at = f"gid * {k}u + {c}u", lambda s: np.arange(s.threads) * k + c
        else:
            text, at = (
                f"{threads * k - 1}u - gid * {k}u",
                lambda s: threads * k - 1 - np.arange(s.threads) * k,
            )

        def run(s: State, m: np.ndarray, b: list[list[Stmt]]) -> None:
            s.memory[f"out_{d}"][at(s)[m]] = e.value(s).astype(d)[m]

        return Stmt(f"out_{d}[{text}] = {e.text};", run)

    def local_store(self) -> Stmt:
        i, e = self.expr("unsigned", 1), self.expr("int")

        def run(s: State, m: np.ndarray, b: list[list[Stmt]]) -> None:
            at = (i.value(s) & (LOCAL - 1)).astype("i8")
            value = e.value(s)
            s.local[np.flatnonzero(m), at[m]] = value[m]

        return Stmt(f"loc[{i.text} & {LOCAL - 1}] = {e.text};", run)

    def atomic(self) -> Stmt:
        """Order-free updates of shared counters; each counter has one operation."""
        r = self.r
        d, ops = r.choice(
            [
                ("i4", ["Add", "Min", "Max"]),
                ("u4", ["Add", "Min", "Max", "And", "Or", "Xor"]),
                ("u8", ["Add", "Max", "Or", "Xor"]),
                ("f4", ["Add"]),
            ]
        )
        names = {
            "Add": np.add,
            "Min": np.minimum,
            "Max": np.maximum,
            "And": np.bitwise_and,
            "Or": np.bitwise_or,
            "Xor": np.bitwise_xor,
        }
        op = r.choice(ops)
        kind = {v: k for k, v in DTYPES.items()}[d]
        i = self.expr("unsigned", 1)
        spread = 2
        first = ops.index(op) * spread
        e = self.expr(kind, 1) if d != "f4" else self.expr("unsigned", 1)
        value = e.text if d != "f4" else f"(float)({e.text} & 63u)"

        def run(s: State, m: np.ndarray, b: list[list[Stmt]]) -> None:
            v = e.value(s) if d != "f4" else (e.value(s) & 63).astype("f4")
            at = first + (i.value(s) % spread).astype("i8")
            names[op].at(s.memory[f"acc_{d}"], at[m], v.astype(d)[m])

        return Stmt(f"atomic{op}(&acc_{d}[{first}u + {i.text} % {spread}u], {value});", run)

    # -- across threads ------------------------------------------------------------------------
    def exchange(self) -> list[Stmt]:
        """Words through shared memory between barriers, or a count over the block."""
        r = self.r
        size = int(np.prod(self.block))
        target = r.choice(list(self.variables))
        kind = self.variables[target]
        if r.random() < 0.25:
            c = self.condition(1)
            name = r.choice(["count", "and", "or"])

            def count(s: State, m: np.ndarray, b: list[list[Stmt]]) -> None:
                true = c.value(s).astype(bool) & m
                n = np.bincount(s.block, true, minlength=s.threads // size)
                alive = np.bincount(s.block, m, minlength=s.threads // size)
                per = {"count": n, "and": n == alive, "or": n > 0}[name]
                put(s, m, target, per[s.block].astype("i4"))

            return [Stmt(f"{target} = ({kind})__syncthreads_{name}((int)({c.text}));", count)]
        e = self.expr("int", 1)
        k, c2 = r.choice([1, 1, 3, size - 1]), r.randrange(size)
        forms: list[tuple[str, Callable[[State], np.ndarray]]] = [
            (f"(lin * {k}u + {c2}u) % {size}u", lambda s: (s.linear * k + c2) % size),
            (f"{size - 1}u - lin", lambda s: size - 1 - s.linear),
            ("lin / 2u", lambda s: s.linear // 2),
        ]
        text, place = r.choice(forms)

        def run(s: State, m: np.ndarray, b: list[list[Stmt]]) -> None:
            s.shared[m] = e.value(s)[m]
            got = s.shared[s.block * size + place(s)]
            put(s, m, target, got)

        return [
            Stmt(
                f"sh[lin] = {e.text}; __syncthreads(); {target} = ({kind})sh[{text}];"
                " __syncthreads();",
                run,
            )
        ]

    def across(self, depth: int) -> list[Stmt]:
        """Warp instructions: whole warps, or the lanes of a branch by their ballot."""
        r = self.r
        size = int(np.prod(self.block))
        self.warps = True
        target = r.choice(list(self.variables))
        kind = self.variables[target]
        c, p = self.condition(1), self.condition(1)
        e = self.expr("int", 1)
        if self.exits or r.random() < 0.5:
            m0 = self.name()
            what = r.choice(["ballot", "count", "sum", "first", "any", "all"])
            text = {
                "ballot": f"__ballot_sync({m0}, {p.text})",
                "count": f"__popc(__ballot_sync({m0}, {p.text}))",
                "sum": f"__reduce_add_sync({m0}, {e.text})",
                "first": f"__shfl_sync({m0}, {e.text}, __ffs({m0}) - 1)",
                "any": f"__any_sync({m0}, {p.text})",
                "all": f"__all_sync({m0}, {p.text})",
            }[what]

            def run(s: State, m: np.ndarray, b: list[list[Stmt]]) -> None:
                inside = m & c.value(s).astype(bool)
                got = across_warp(s, inside, what, p.value(s).astype(bool), e.value(s))
                put(s, inside, target, got.astype("u4") if what == "ballot" else got.astype("i4"))

            return [
                Stmt(
                    f"{{ unsigned {m0} = __ballot_sync(__activemask(), {c.text}); if ({c.text}) "
                    f"{target} = ({kind}){text}; }}",
                    run,
                )
            ]
        forms: list[tuple[str, Callable[[State], np.ndarray]]] = [
            (
                "__shfl_sync(__activemask(), {}, (lin * 5u + 3u) % wn)",
                lambda s: (s.linear * 5 + 3) % np.minimum(32, size - s.linear // 32 * 32),
            ),
        ]
        if size % 32 == 0:
            x, up = r.choice([1, 2, 4, 8, 16, 3]), r.choice([1, 2, 5, 16])
            forms += [
                (f"__shfl_xor_sync(0xffffffffu, {{}}, {x})", lambda s: s.linear % 32 ^ x),
                (
                    f"__shfl_up_sync(0xffffffffu, {{}}, {up})",
                    lambda s: np.where(s.linear % 32 >= up, s.linear % 32 - up, s.linear % 32),
                ),
                (
                    f"__shfl_down_sync(0xffffffffu, {{}}, {up}, 8)",
                    lambda s: np.where(s.linear % 8 + up < 8, s.linear % 32 + up, s.linear % 32),
                ),
            ]
        text, source = r.choice(forms)

        def move(s: State, m: np.ndarray, b: list[list[Stmt]]) -> None:
            at = np.arange(s.threads) - s.linear % 32 + source(s)
            put(s, m, target, e.value(s)[at])

        return [Stmt(f"{target} = ({kind}){text.format(e.text)};", move)]


def differences(program: Program, lanes: int, *options: str) -> list[str]:
    """What the CPU device leaves that NumPy does not, as text."""
    ptx = ptx_of(program.source(), "--fmad=false", *options)
    wanted, got = program.expected(), program.memory()
    word = load(ptx, "k", program.block, lanes)(program.grid, list(got.values()))
    found = [f"abort word {word}"] if word else []
    for name, want in wanted.items():
        if not isinstance(want, np.ndarray):
            continue
        have = got[name]
        wrong = np.flatnonzero(~((want == have) | ((want != want) & (have != have))))
        if wrong.size:
            at = wrong[:4]
            found.append(f"{name} at {at.tolist()}: {have[at].tolist()}, not {want[at].tolist()}")
    return found
