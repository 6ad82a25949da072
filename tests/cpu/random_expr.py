"""Random CUDA expressions: C++ text beside a function of the state of all threads."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cpu.random_state import (
    DTYPES,
    FLOATS,
    INPUT,
    LOCAL,
    TABLE,
    UNSIGNED,
    WORDS,
    State,
    brev,
    clz,
    popc,
    steps_of,
    to_int,
)


@dataclass(frozen=True)
class Expr:
    kind: str
    text: str
    value: Callable[[State], np.ndarray]


class Expressions:
    """Makes expressions over the variables and the launch that a seed chooses."""

    def __init__(self, seed: int, size: int = 6) -> None:
        self.size = size
        self.r = random.Random(seed)
        self.seed = seed
        r = self.r
        self.block = r.choice(
            [
                (r.randrange(1, 130), 1, 1),
                (32, 1, 1),
                (64, 1, 1),
                (96, 1, 1),
                (33, 1, 1),
                (256, 1, 1),
                (r.choice([3, 7, 8, 16, 17, 24, 48]), r.randrange(1, 6), 1),
                (16, 16, 1),
                (32, 4, 1),
                (r.choice([2, 3, 4, 5]), r.randrange(1, 5), r.randrange(1, 5)),
            ]
        )
        self.grid = r.choice([(1, 1, 1), (3, 1, 1), (2, 2, 1), (1, 2, 2)])
        self.variables = {
            f"v{k}": r.choice([*WORDS, *WORDS, "int", "unsigned", "float", "double"])
            for k in range(r.randrange(3, 7))
        }
        self.counters: list[str] = []
        self.names = 0
        self.layouts: dict[str, tuple[int, int, str]] = {}
        self.exits = False
        self.warps = False
        self.calm = r.random() < 0.3  # no returns

    def name(self) -> str:
        self.names += 1
        return f"t{self.names}"

    # -- expressions ---------------------------------------------------------------------------
    def expr(self, kind: str, depth: int = 0) -> Expr:
        r = self.r
        if depth > 3 or r.random() < 0.15 + 0.12 * depth:
            return self.leaf(kind)
        if kind in FLOATS:
            return self.floating(kind, depth + 1)
        pick = r.random()
        if pick < 0.12:
            other = r.choice(
                [t for t in (*WORDS, "short", "unsigned char", "signed char") if t != kind]
            )
            return self.cast(
                self.small(other, depth + 1) if other not in WORDS else self.expr(other, depth + 1),
                kind,
            )
        if pick < 0.2:
            c, a, b = (
                self.condition(depth + 1),
                self.expr(kind, depth + 1),
                self.expr(kind, depth + 1),
            )
            return Expr(
                kind,
                f"({c.text} ? {a.text} : {b.text})",
                lambda s: np.where(c.value(s), a.value(s), b.value(s)),
            )
        if pick < 0.3:
            return self.load(kind, depth + 1)
        if pick < 0.42 and kind in ("int", "unsigned"):
            return self.special(kind, depth + 1)
        return self.integer(kind, depth + 1)

    def small(self, kind: str, depth: int) -> Expr:
        if self.r.random() < 0.5:
            return self.load(kind, depth)
        return self.cast(self.expr(self.r.choice(WORDS), depth), kind)

    def cast(self, a: Expr, kind: str) -> Expr:
        d = DTYPES[kind]
        if a.kind in FLOATS and kind not in FLOATS:
            raise ValueError("a plain cast of a float may be undefined")
        return Expr(kind, f"(({kind}){a.text})", lambda s: a.value(s).astype(d))

    def constant(self, kind: str) -> Expr:
        r = self.r
        d = DTYPES[kind]
        if kind in FLOATS:
            v: Any = r.choice(
                [0.0, 1.0, -1.0, 0.5, 3.25, -100.0, 1e10, 1e-3 if kind == "double" else 0.125]
            )
            text = f"{v!r}f" if kind == "float" else repr(v)
        else:
            info = np.iinfo(d)
            v = r.choice(
                [
                    0,
                    1,
                    2,
                    3,
                    5,
                    7,
                    8,
                    31,
                    32,
                    63,
                    255,
                    1000,
                    65535,
                    info.max,
                    info.max - 1,
                    info.max // 3,
                ]
            )
            if info.min < 0 and r.random() < 0.3:
                v = -v
            tail = {"int": "", "unsigned": "u", "long long": "ll", "unsigned long long": "ull"}[
                kind
            ]
            text = f"({v}{tail})"
        return Expr(kind, text, lambda s: s.spread(v, d))

    def leaf(self, kind: str) -> Expr:
        r = self.r
        d = DTYPES[kind]
        mine = [v for v, t in self.variables.items() if t == kind]
        if mine and r.random() < 0.5:
            return self.variable(r.choice(mine), kind)
        if kind in FLOATS:
            if r.random() < 0.3:
                return self.load(kind, 9)
            if kind == "float" and r.random() < 0.2:
                return Expr(kind, "f", lambda s: s.spread(s.memory["f"], "f4"))
            return self.constant(kind)
        if r.random() < 0.3:
            return self.constant(kind)
        place = r.choice(
            [
                "threadIdx.x",
                "threadIdx.x",
                "threadIdx.y",
                "threadIdx.z",
                "blockIdx.x",
                "lin",
                "gid",
                "lin",
                "n",
                "u",
                "q",
                *self.counters,
            ]
        )
        if place in "nuq":
            return Expr(
                kind,
                f"(({kind}){place})",
                lambda s: s.spread(s.memory[place], s.memory[place].dtype).astype(d),
            )
        return Expr(kind, f"(({kind}){place})", lambda s: s.vars[place].astype(d))

    def variable(self, name: str, kind: str) -> Expr:
        return Expr(kind, name, lambda s: s.vars[name])

    def integer(self, kind: str, depth: int) -> Expr:
        r = self.r
        d = DTYPES[kind]
        a, b = self.expr(kind, depth), self.expr(kind, depth)
        u = UNSIGNED.get(kind, kind)
        bits = 8 * np.dtype(d).itemsize
        wrap: dict[str, Any] = {"+": np.add, "-": np.subtract, "*": np.multiply}
        logic: dict[str, Any] = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
        pick = r.random()
        if pick < 0.35:
            op = r.choice("++-**")
            return Expr(
                kind,
                f"(({kind})(({u}){a.text} {op} ({u}){b.text}))",
                lambda s: wrap[op](a.value(s), b.value(s)),
            )
        if pick < 0.42:  # signed arithmetic that cannot overflow
            low = np.array(r.choice([15, 255, 1023])).astype(d)
            op = r.choice("+-*")
            return Expr(
                kind,
                f"(({a.text} & {low}) {op} ({b.text} & {low}))",
                lambda s: wrap[op](a.value(s) & low, b.value(s) & low),
            )
        if pick < 0.58:
            op = r.choice("&|^")
            return Expr(
                kind, f"({a.text} {op} {b.text})", lambda s: logic[op](a.value(s), b.value(s))
            )
        if pick < 0.72:
            return self.shift(kind, a, b, bits)
        if pick < 0.88:
            return self.division(kind, a, b)
        if pick < 0.93:
            op = r.choice(["min", "max"])
            both: dict[str, Any] = {"min": np.minimum, "max": np.maximum}
            return Expr(
                kind, f"{op}({a.text}, {b.text})", lambda s: both[op](a.value(s), b.value(s))
            )
        if pick < 0.97:
            return Expr(kind, f"(~{a.text})", lambda s: ~a.value(s))
        c = self.condition(depth)
        return Expr(kind, f"(({kind})({c.text}))", lambda s: c.value(s).astype(d))

    def shift(self, kind: str, a: Expr, b: Expr, bits: int) -> Expr:
        d = DTYPES[kind]
        left = self.r.random() < 0.5
        u = UNSIGNED.get(kind, kind)
        if self.r.random() < 0.6:
            k = np.array(self.r.randrange(bits)).astype(d)
            text, by = str(int(k)), (lambda s: s.spread(k, d))
        else:
            text, by = (
                f"(int)({b.text} & {bits - 1})",
                (lambda s: b.value(s) & b.value(s).dtype.type(bits - 1)),
            )
        if left:
            return Expr(kind, f"(({kind})(({u}){a.text} << {text}))", lambda s: a.value(s) << by(s))
        return Expr(kind, f"({a.text} >> {text})", lambda s: a.value(s) >> by(s))

    def division(self, kind: str, a: Expr, b: Expr) -> Expr:
        d = DTYPES[kind]
        op = self.r.choice("/%")
        if self.r.random() < 0.7:
            k = self.r.choice([2, 3, 4, 5, 7, 8, 10, 16, 24, 100, 641, 1 << 16])
            text, by = str(k), (lambda s: s.spread(k, d))
        else:
            one, low = np.array(1).astype(d), np.array(31).astype(d)
            text, by = f"(({b.text} & 31) + 1)", (lambda s: (b.value(s) & low) + one)

        def value(s: State) -> np.ndarray:
            x, y = a.value(s), by(s)
            if x.dtype.kind == "u":
                return x // y if op == "/" else x % y
            rest = np.fmod(x, y)
            return (x - rest) // y if op == "/" else rest

        if d[0] == "i":  # x - rest may wrap only where x is the least value: not with |rest| < y
            return Expr(kind, f"({a.text} {op} {text})", value)
        return Expr(kind, f"({a.text} {op} ({kind}){text})", value)

    def special(self, kind: str, depth: int) -> Expr:
        r = self.r
        d = DTYPES[kind]
        a, b = self.expr("unsigned", depth), self.expr("unsigned", depth)
        i = self.expr("int", depth)
        q = self.expr("long long", depth)
        x = self.expr("float", depth)
        k = r.randrange(14)
        table: list[tuple[str, Callable[[State], np.ndarray]]] = [
            (f"__popc({a.text})", lambda s: popc(a.value(s))),
            (f"__clz((int){a.text})", lambda s: clz(a.value(s))),
            (f"__brev({a.text})", lambda s: brev(a.value(s))),
            (
                f"__umulhi({a.text}, {b.text})",
                lambda s: (a.value(s).astype("u8") * b.value(s).astype("u8")) >> np.uint64(32),
            ),
            (
                f"clamped_shl({a.text}, {b.text})",
                lambda s: np.where(b.value(s) > 31, 0, a.value(s) << (b.value(s) & 31)),
            ),
            (
                f"clamped_shr({i.text}, {b.text})",
                lambda s: i.value(s) >> np.minimum(b.value(s), 31).astype("i4"),
            ),
            (f"steps({a.text})", lambda s: steps_of(a.value(s))),
            (
                f"divisor({a.text}, {b.text})",
                lambda s: np.gcd(a.value(s) % 1000 + 1, b.value(s) % 1000 + 1),
            ),
            (f"apart({q.text}, {i.text}).low", lambda s: q.value(s).astype("i4") ^ i.value(s)),
            (
                f"apart({q.text}, {i.text}).high",
                lambda s: np.where(
                    q.value(s) < 0, q.value(s) >> (i.value(s).astype("i8") & 31), q.value(s)
                ),
            ),
            (f"__float2int_rz({x.text})", lambda s: to_int(x.value(s))),
            (f"table[{a.text} & 15]", lambda s: TABLE[a.value(s) & 15]),
            (
                f"loc[{a.text} & {LOCAL - 1}]",
                lambda s: s.local[np.arange(s.threads), (a.value(s) & (LOCAL - 1)).astype("i8")],
            ),
            (
                f"narrow_add({a.text}, {b.text})",
                lambda s: (a.value(s) + b.value(s)) & np.uint32(0xFFFF),
            ),
        ]
        text, value = table[k]
        return Expr(kind, f"(({kind}){text})", lambda s: value(s).astype(d))

    def floating(self, kind: str, depth: int) -> Expr:
        r = self.r
        d = DTYPES[kind]
        tail = "f" if kind == "float" else ""
        a, b = self.expr(kind, depth), self.expr(kind, depth)
        ops: dict[str, Any] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
        pick = r.random()
        if pick < 0.4:
            op = r.choice("++-**/")
            return Expr(
                kind, f"({a.text} {op} {b.text})", lambda s: ops[op](a.value(s), b.value(s))
            )
        if pick < 0.55:
            i = self.expr(r.choice(["int", "unsigned"]), depth)
            return Expr(kind, f"(({kind}){i.text})", lambda s: i.value(s).astype(d))
        if pick < 0.65:
            op = r.choice(["fmin", "fmax"])
            both: dict[str, Any] = {"fmin": np.fmin, "fmax": np.fmax}
            return Expr(
                kind,
                f"({op}{tail}({a.text}, {b.text}) + ({kind})0)",
                lambda s: both[op](a.value(s), b.value(s)) + s.spread(0, d),
            )
        if pick < 0.8:
            name = r.choice(["floor", "ceil", "trunc", "rint", "fabs"])
            plain: dict[str, Any] = {
                "floor": np.floor,
                "ceil": np.ceil,
                "trunc": np.trunc,
                "rint": np.rint,
                "fabs": np.abs,
            }
            return Expr(kind, f"{name}{tail}({a.text})", lambda s: plain[name](a.value(s)))
        if pick < 0.9:
            c = self.condition(depth)
            return Expr(
                kind,
                f"({c.text} ? {a.text} : {b.text})",
                lambda s: np.where(c.value(s), a.value(s), b.value(s)),
            )
        if kind == "double" and r.random() < 0.5:
            x = self.expr("float", depth)
            return Expr(kind, f"((double){x.text})", lambda s: x.value(s).astype("f8"))
        return Expr(
            kind, f"sqrt{tail}(fabs{tail}({a.text}))", lambda s: np.sqrt(np.abs(a.value(s)))
        )

    def condition(self, depth: int = 0) -> Expr:
        r = self.r
        if depth < 3 and r.random() < 0.2:
            a, b = self.condition(depth + 1), self.condition(depth + 1)
            op = r.choice(["&&", "||"])
            return Expr(
                "bool",
                f"({a.text} {op} {b.text})",
                lambda s: a.value(s) & b.value(s) if op == "&&" else a.value(s) | b.value(s),
            )
        kind = r.choice([*WORDS, "int", "unsigned", "unsigned", "float", "double"])
        a, b = self.expr(kind, depth + 1), self.expr(kind, depth + 1)
        if kind == "unsigned" and r.random() < 0.4:
            bit = 1 << r.randrange(6)
            return Expr("bool", f"(({a.text} & {bit}u) != 0u)", lambda s: (a.value(s) & bit) != 0)
        op = r.choice(["<", "<=", ">", ">=", "==", "!="])
        ops: dict[str, Any] = {
            "<": np.less,
            "<=": np.less_equal,
            ">": np.greater,
            ">=": np.greater_equal,
            "==": np.equal,
            "!=": np.not_equal,
        }
        return Expr("bool", f"({a.text} {op} {b.text})", lambda s: ops[op](a.value(s), b.value(s)))

    def index(self, depth: int) -> Expr:
        """Something that runs over the lanes as addresses do, often affine."""
        r = self.r
        place = r.choice(
            ["threadIdx.x", "lin", "gid", "threadIdx.y", *self.counters, "threadIdx.x"]
        )
        base = Expr("unsigned", place, lambda s: s.vars[place].astype("u4"))
        k, c = r.choice([1, 1, 1, 2, 3, 4, 5, 8, 17]), r.randrange(0, 300)
        one, two = np.uint32(k), np.uint32(c)
        extra = self.expr("unsigned", depth) if r.random() < 0.4 else None
        forms: list[tuple[str, Callable[[np.ndarray], np.ndarray]]] = [
            (f"({base.text} * {k}u + {c}u)", lambda v: v * one + two),
            (f"({c}u - {base.text} * {k}u)", lambda v: two - v * one),
            (f"({base.text} / {k}u + {c}u)", lambda v: v // one + two),
            (f"({base.text} % {k + 2}u * {k}u)", lambda v: v % (one + np.uint32(2)) * one),
            (f"(({base.text} ^ {c}u) * {k}u)", lambda v: (v ^ two) * one),
            (f"(({base.text} & {c}u) + {k}u)", lambda v: (v & two) + one),
            (
                f"(({base.text} >> 3) * {k}u + ({base.text} & 7u))",
                lambda v: (v >> np.uint32(3)) * one + (v & np.uint32(7)),
            ),
            (
                f"((unsigned)((int){base.text} / -{k + 1} + {c}))",
                lambda v: (two.astype("i8") - v.astype("i8") // (k + 1)).astype("u4"),
            ),
            (f"({base.text} - {k}u)", lambda v: v - one),
        ]
        text, value = r.choice(forms)
        if extra is None:
            return Expr("unsigned", text, lambda s: value(base.value(s)))
        kept = extra
        return Expr(
            "unsigned", f"({text} + {kept.text})", lambda s: value(base.value(s)) + kept.value(s)
        )

    def load(self, kind: str, depth: int) -> Expr:
        r = self.r
        d = DTYPES[kind]
        i = self.index(depth + 1) if r.random() < 0.7 else self.expr("unsigned", depth + 2)
        pick = r.random()
        size = np.dtype(d).itemsize
        if (
            pick < 0.2
            and size <= 8
            and kind not in ("long long", "unsigned long long", "double", "signed char")
        ):
            short = {
                "int": "int",
                "unsigned": "uint",
                "short": "short",
                "unsigned char": "uchar",
                "float": "float",
            }[kind]
            lanes = r.choice([2, 4])
            part = r.randrange(lanes)
            return Expr(
                kind,
                f"((const {short}{lanes}*)in_{d})[{i.text} % {INPUT // lanes}u].{'xyzw'[part]}",
                lambda s: s.memory[f"in_{d}"][
                    (i.value(s) % (INPUT // lanes)).astype("i8") * lanes + part
                ],
            )
        if pick < 0.45:
            return Expr(
                kind,
                f"in_{d}[{i.text} & {INPUT - 1}u]",
                lambda s: s.memory[f"in_{d}"][(i.value(s) & (INPUT - 1)).astype("i8")],
            )
        if pick < 0.6:
            return Expr(
                kind,
                f"__ldg(in_{d} + {i.text} % {INPUT}u)",
                lambda s: s.memory[f"in_{d}"][(i.value(s) % INPUT).astype("i8")],
            )
        other = "0"
        return Expr(
            kind,
            f"({i.text} < {INPUT}u ? in_{d}[{i.text}] : ({kind}){other})",
            lambda s: np.where(
                i.value(s) < INPUT,
                s.memory[f"in_{d}"][np.minimum(i.value(s), INPUT - 1).astype("i8")],
                np.array(0, d),
            ),
        )
