"""What the machine and its libraries offer: mathematics, conversions, order between threads."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from corpus.program import Array, Data, Launch, Program

Random = np.random.Generator
I32, U32, F32, F64 = np.int32, np.uint32, np.float32, np.float64


def _grid(r: Random) -> Data:
    x, y = 3 * r.standard_normal((2, 150))
    d: Data = {"n": I32(150), "dx": x, "dy": y, "fx": x.astype(F32), "fy": y.astype(F32)}
    d |= {name: np.zeros((150, 12), F32) for name in ("curves", "powers")}
    return {**d, "double": np.zeros((150, 12))}


def _each(f: object, x: Array) -> Array:
    return np.vectorize(f, otypes=[float])(x)


def _powers(a: Array, b: Array) -> Array:
    a, b = a.astype(float), b.astype(float)
    p, u = np.abs(a) + 0.015625, a / (np.abs(a) + 1)
    away = np.copysign(np.floor(np.abs(a) + 0.5), a)
    rows = [
        np.exp2(u) + 10.0**u, np.expm1(u), np.log2(p) + np.log10(p), np.log1p(p), p**u,
        np.cbrt(a) + 1 / np.cbrt(p), np.hypot(a, b), p**-0.5 + p**0.5, np.fmod(a, 0.75),
        np.rint(a) + np.floor(b) * np.ceil(a) + np.trunc(b) + away,
        np.modf(a)[0] + 2 * np.trunc(a) + 4 * (a < 0) + np.floor(np.log2(p)),
        a * b + p + np.maximum(a, b) * np.minimum(a, b) + np.maximum(a - b, 0) + np.copysign(p, b),
    ]  # fmt: skip
    return np.stack(rows, 1)


def _curves(a: Array, b: Array) -> Array:
    a, b = a.astype(float), b.astype(float)
    p, u = np.abs(a) + 0.015625, a / (np.abs(a) + 1)
    rows = [
        np.sin(a) + np.cos(b), np.tan(u), np.arcsin(u) * np.arccos(u), np.arctan2(a, b),
        np.sinh(u) - np.cosh(u), np.tanh(a), np.arcsinh(a) + np.arccosh(p + 1) + np.arctanh(u),
        _each(math.erf, a), _each(math.erfc, u), _each(math.gamma, p), _each(math.lgamma, p),
        np.exp(u) - 0.5 * _each(math.erfc, -a / math.sqrt(2)),
    ]  # fmt: skip
    return np.stack(rows, 1)


def _doubles(before: Data, after: Data) -> None:
    want = _powers(before["dx"], before["dy"])
    np.testing.assert_allclose(after["double"], want, rtol=1e-12, atol=1e-13)


def _colours(r: Random) -> Data:
    return {
        "x": r.uniform(0.01, 2, (90, 3)).astype(F32), "y": np.zeros((90, 3), F32),
        "w": np.zeros(90, F32), "tiny": np.ones(90, F32), "n": I32(90), "e": F32(0.7),
        "s": F32(1.4),
    }  # fmt: skip


def _mapped(d: Data) -> Data:
    x = d["x"].astype(float)
    c, s = x * 2**0.7, 1.4
    light = c @ (0.2126, 0.7152, 0.0722)
    film = np.clip(light * (2.51 * light + 0.03) / (light * (2.43 * light + 0.59) + 0.14), 0, 1)
    m = c * (film / light)[:, None]
    y = np.stack([m[:, 0] ** (1 / 2.2), np.sqrt(m[:, 1]), np.log1p(m[:, 2])], 1)
    w = np.exp(-(x * x).sum(1) / (2 * s * s)) / np.sqrt(2 * np.pi) / s
    return {"y": y, "w": w + np.sin(x[:, 0]) * np.cos(x[:, 1]), "tiny": np.zeros(90)}


def _numbers(r: Random) -> Data:
    f = (r.standard_normal(100) * 10.0 ** r.integers(-3, 11, 100)).astype(F32)
    f[:6] = 0.5, -1.5, 2.5, 65519.99, -65520, 3e-8
    d = r.standard_normal(100) * 10.0 ** r.integers(-3, 11, 100)
    d[:4] = 2.5, -3.5, 1e10 + 0.5, -0.25
    return {
        "f": f, "d": d, "w": r.integers(-(2**62), 2**62, 100) >> r.integers(0, 60, 100),
        "ints": np.zeros((100, 8), I32), "longs": np.zeros((100, 4), np.int64),
        "bytes": np.zeros((100, 3), np.uint8), "shorts": np.zeros((100, 5), np.uint16),
        "floats": np.zeros((100, 5), F32), "doubles": np.zeros((100, 3)), "n": I32(100),
    }  # fmt: skip


def _toward_zero(near: Array, exact: Array) -> Array:
    over = np.abs(near.astype(float)) > np.abs(exact.astype(np.longdouble))
    return np.where(over, np.nextafter(near, near.dtype.type(0)), near)


def _converted(d: Data) -> Data:
    f, b, w = d["f"].astype(float), d["d"], d["w"]

    def to(x: Array, low: int, high: int) -> Array:
        return np.clip(x, low, high).astype(np.int64)

    word = (-(2**31), 2**31 - 1)
    ints = [
        to(np.trunc(f), *word), to(np.rint(f), *word), to(np.ceil(f), *word),
        to(np.floor(f), *word), to(np.trunc(b), *word), to(np.rint(b), *word),
        to(np.trunc(np.abs(f)), 0, 2**32 - 1), w.astype(np.int16).astype(int) + w.astype(np.int8),
    ]  # fmt: skip
    longs = [np.trunc(f), np.floor(b), np.rint(np.abs(b)), w.astype(U32)]
    chars = [w & 255, w >> 8 & 255, np.clip(f, 0, 255).astype(int)]
    with np.errstate(over="ignore"):
        half, from_double = d["f"].astype(np.float16), b.astype(np.float16)
    brain = d["f"].astype(ml_dtypes.bfloat16).view(np.uint16)
    rest = np.fmod(w, 60000).astype(np.float16)
    shorts = [x.view(np.uint16) for x in (half, _toward_zero(half, f), brain, from_double, rest)]
    single = b.astype(F32)
    up = np.where(single < b, np.nextafter(single, F32(np.inf)), single)
    low = (w & 0x7BFF).astype(np.uint16).view(np.float16).astype(F32)
    unsigned = w.astype(np.uint64)
    floats = [w.astype(F32), _toward_zero(w.astype(F32), w), single, up, low + unsigned.astype(F32)]
    odd = (b.view(np.uint64) ^ np.uint64(1)).view(F64) + unsigned.astype(F64)
    return {
        "ints": np.stack(ints, 1).astype(I32), "longs": np.stack(longs, 1).astype(np.int64),
        "bytes": np.stack(chars, 1), "shorts": np.stack(shorts, 1), "floats": np.stack(floats, 1),
        "doubles": np.stack([w.astype(F64), f, odd], 1),
    }  # fmt: skip


def _chain(r: Random) -> Data:
    return {
        "x": r.standard_normal((30, 7)), "y": np.zeros(30), "flags": np.zeros(30, I32),
        "ticket": np.zeros(1, I32), "each": I32(7),
    }  # fmt: skip


def _chained(d: Data) -> Data:
    sums = np.cumsum(d["x"].ravel())  # from left to right, as the blocks do
    return {"y": sums[6::7], "flags": np.ones(30), "ticket": [30]}


def _buckets(r: Random) -> Data:
    return {
        "x": r.integers(0, 50, 90, I32), "nodes": np.zeros((90, 2), I32),
        "heads": np.full(4, -1, I32),
        "locks": np.zeros(4, I32), "n": I32(90), "lengths": np.zeros(4, I32),
        "sums": np.zeros(4, I32),
        "lock": np.zeros(2, U32), "shared": np.array([7], I32), "rounds": I32(4),
    }  # fmt: skip


def _bucket_sums(d: Data) -> Data:
    x, shared = d["x"], 7
    for _ in range(20):
        shared = (shared * 3 + 1) & 0xFFFFFFFF
    return {
        "lengths": np.bincount(x & 3, minlength=4), "lock": [20, 20],
        "sums": np.bincount(x & 3, weights=x, minlength=4),
        "shared": np.array([shared]).astype(I32),
    }  # fmt: skip


def _ranges(r: Random) -> Data:
    ends = np.sort(r.uniform(0.1, 3, (40, 2)), 1)
    return {
        "range": ends, "which": r.integers(0, 3, 40, I32), "y": np.zeros(40), "eps": F64(1e-10),
        "n": I32(40),
    }  # fmt: skip


def _integrals(d: Data) -> Data:
    def primitive(x: Array) -> Array:
        return np.stack([np.arctan(5 * x) / 5, x**4 / 4 - x * x + x, x**1.5 * 2 / 3])

    parts = primitive(d["range"][:, 1]) - primitive(d["range"][:, 0])
    return {"y": parts[d["which"], np.arange(40)]}


def _forest(r: Random) -> Data:
    tree: list[list[int]] = []

    def insert(at: int, key: int) -> int:
        if at < 0:
            tree.append([key, -1, -1])
            return len(tree) - 1
        side = 1 if key < tree[at][0] else 2
        tree[at][side] = insert(tree[at][side], key)
        return at

    roots = []
    for size in r.integers(0, 25, 32).tolist():
        root = -1
        for key in r.choice(100, size, replace=False).tolist():
            root = insert(root, key)
        roots.append(root)
    return {
        "tree": np.array(tree, I32), "roots": np.array(roots, I32),
        "keys": r.integers(0, 100, 32, I32),
        "heights": np.zeros(32, I32), "weights": np.zeros(32, np.int64),
        "depths": np.full(32, 99, I32),
    }  # fmt: skip


def _walked(d: Data) -> Data:
    tree = d["tree"].tolist()

    def keys(at: int) -> list[int]:
        return [*keys(tree[at][1]), tree[at][0], *keys(tree[at][2])] if at >= 0 else []

    def height(at: int) -> int:
        return 1 + max(height(tree[at][1]), height(tree[at][2])) if at >= 0 else 0

    def find(at: int, key: int, depth: int) -> int:
        if at < 0 or tree[at][0] == key:
            return depth if at >= 0 else -depth
        return find(tree[at][1 if key < tree[at][0] else 2], key, depth + 1)

    roots = d["roots"].tolist()
    return {
        "heights": [height(root) for root in roots],
        "weights": [sum(k * (i + 1) for i, k in enumerate(keys(root))) for root in roots],
        "depths": [find(root, k, 0) for root, k in zip(roots, d["keys"].tolist(), strict=True)],
    }  # fmt: skip


def _ring(r: Random) -> Data:
    return {
        "x": r.integers(-20, 20, (3, 7, 64)).astype(F32), "y": np.zeros((3, 64), F32), "n": I32(7)
    }  # fmt: skip


def _emptied(d: Data) -> Data:
    x = 2 * d["x"]
    return {"y": (x[..., ::-1] + x[..., np.arange(64) ^ 1]).sum(1)}


_MODULUS = 2**256 - 189


def _bigs(r: Random) -> Data:
    a, b = r.integers(0, 2**32, (2, 40, 8), U32)
    a[0] = b[0] = b[1] = 0xFFFFFFFF
    a[1] = 0
    a[2], b[2] = _words(_MODULUS - 1), _words(_MODULUS - 1)
    return {
        "a": a, "b": b, "sums": np.zeros((40, 2, 8), U32), "carries": np.zeros(40, U32),
        "products": np.zeros((40, 8), U32), "n": I32(40),
    }  # fmt: skip


def _words(n: int) -> Array:
    return np.frombuffer((n % 2**256).to_bytes(32, "little"), U32)


def _big_results(d: Data) -> Data:
    pairs = [
        tuple(int.from_bytes(row.tobytes(), "little") for row in rows)
        for rows in zip(d["a"], d["b"], strict=True)
    ]
    return {
        "sums": np.stack([[_words(a + b), _words(a - b)] for a, b in pairs]),
        "carries": [2 * (a + b >> 256) + (a < b) for a, b in pairs],
        "products": np.stack([_words(a * b % _MODULUS) for a, b in pairs]),
    }  # fmt: skip


def _tiles(r: Random) -> Data:
    a, b = (r.integers(-16, 17, s).astype(ml_dtypes.bfloat16) for s in ((32, 64), (24, 64)))
    return {
        "ba": a.view(np.uint16), "bb": b.view(np.uint16), "bc": np.zeros((32, 24), F32),
        "ia": r.integers(-128, 128, (32, 64), np.int8),
        "ib": r.integers(-128, 128, (24, 64), np.int8),
        "ic": np.zeros((32, 24), I32), "da": r.standard_normal((16, 12)),
        "db": r.standard_normal((12, 24)), "dc": np.zeros((16, 24)), "n": I32(24), "k": I32(64),
        "dk": I32(12),
    }  # fmt: skip


def _products(d: Data) -> Data:
    a, b = (d[n].view(ml_dtypes.bfloat16).astype(float) for n in ("ba", "bb"))
    return {
        "bc": a @ b.T, "ic": d["ia"].astype(int) @ d["ib"].astype(int).T, "dc": d["da"] @ d["db"]
    }  # fmt: skip


def _items(r: Random) -> Data:
    keys = r.integers(0, 2**32, (2, 192), U32)
    keys[1] &= 0xF00F
    values = r.integers(-99, 99, (2, 192), I32)
    return {
        "keys": keys, "values": values, "sorted": np.zeros((2, 192), U32),
        "moved": np.zeros((2, 192), I32), "scan": np.zeros((2, 192), I32),
        "totals": np.zeros((2, 2), I32),
    }  # fmt: skip


def _block_results(d: Data) -> Data:
    order, v = np.argsort(d["keys"], axis=1, kind="stable"), d["values"]
    return {
        "sorted": np.sort(d["keys"], 1), "moved": np.take_along_axis(v, order, 1),
        "scan": v.cumsum(1) - v, "totals": np.stack([v.sum(1), v.max(1)], 1),
    }  # fmt: skip


def _counted(r: Random) -> Data:
    counters = np.zeros(6, I32)
    return {
        "x": r.integers(0, 10_000, 1000, I32), "counters": counters, "n": I32(1000),
        "low": np.array([2**50]), "slots": np.full(512, -1, I32), "sequence": np.zeros(1, I32),
    }  # fmt: skip


def _totals(d: Data) -> Data:
    x = d["x"]
    mine = [(x[t::288] & 3 == 0).sum() for t in range(288)]
    counts = np.bincount(x & 3, minlength=4)
    return {
        "counters": [*counts, max(mine), np.bitwise_xor.reduce(x[:96])], "low": [x.min()]
    }  # fmt: skip


def _claimed(before: Data, after: Data) -> None:
    taken = np.flatnonzero(after["slots"] >= 0)
    np.testing.assert_array_equal(np.sort(after["slots"][taken]), np.sort(before["x"][:288]))
    assert after["sequence"][0] == taken.sum()


def _rod(r: Random) -> Data:
    return {"a": r.random(200, F32), "b": np.zeros(200, F32), "n": I32(200), "rounds": I32(6)}


def _diffused(d: Data) -> Data:
    x, steps = d["a"].astype(float), []
    for _ in range(6):
        x = 0.5 * x + 0.25 * (np.append(0, x[:-1]) + np.append(x[1:], 0))
        steps.append(x)
    return {"a": steps[5], "b": steps[4]}


def _copied(r: Random) -> Data:
    x = r.integers(-9, 10, (2, 5, 64, 4)).astype(F32)
    return {"x": x, "y": np.zeros((2, 64, 4), F32), "n": I32(5)}


def _gathered(d: Data) -> Data:
    x, z = d["x"][:, :, np.arange(64) ^ 5].sum(1), d["x"][:, :, np.arange(64) ^ 5, 2]
    return {"y": np.stack([x[..., 0], 2 * x[..., 1], np.maximum(z.max(1), 0), -x[..., 3]], -1)}


PROGRAMS = (
    Program(
        "math_library", _grid,
        (Launch((3,), (64,), "dx dy double n", "evaluate<double, false>"),
         Launch((3,), (64,), "fx fy powers n", "evaluate<float, false>"),
         Launch((3,), (64,), "fx fy curves n", "evaluate<float, true>")),
        lambda d: {"curves": _curves(d["fx"], d["fy"]), "powers": _powers(d["fx"], d["fy"])},
        rtol=2e-5, atol=3e-5, judged="double", verify=_doubles,
        names=("evaluate<double, false>", "evaluate<float, false>", "evaluate<float, true>"),
    ),
    Program(
        "fast_math", _colours, (Launch((2,), (64,), "x y w tiny n e s"),), _mapped,
        rtol=1e-4, atol=1e-5, options=("-use_fast_math",),
    ),
    Program(
        "conversions", _numbers,
        (Launch((2,), (64,), "f d w ints longs bytes shorts floats doubles n"),), _converted,
    ),
    Program("block_chain", _chain, (Launch((30,), (32,), "x y flags ticket each"),), _chained),
    Program(
        "spin_lock", _buckets,
        (Launch((2,), (64,), "x nodes heads locks n", "fill"),
         Launch((1,), (4,), "nodes heads lengths sums", "count"),
         Launch((5,), (32,), "lock shared rounds", "tickets")),
        _bucket_sums, scratch="nodes heads",
    ),
    Program(
        "recursive_quadrature", _ranges, (Launch((2,), (32,), "range which y eps n"),), _integrals,
        atol=1e-8, follows="GPU toolkit samples: cdpAdvancedQuicksort and function pointers",
    ),
    Program(
        "tree_walk", _forest, (Launch((1,), (32,), "tree roots keys heights weights depths"),),
        _walked,
    ),
    Program(
        "producer_consumer", _ring, (Launch((3,), (128,), "x y n"),), _emptied,
        follows="CUDA programming guide: warp specialisation",
    ),
    Program(
        "big_numbers", _bigs, (Launch((2,), (32,), "a b sums carries products n"),), _big_results
    ),
    Program(
        "tensor_types", _tiles,
        (Launch((3, 2), (32,), "ba bb bc n k", "bfloat"),
         Launch((3, 2), (32,), "ia ib ic n k", "bytes"),
         Launch((3, 2), (32,), "da db dc n dk", "doubles")),
        _products, rtol=1e-12, atol=1e-13, since=80,
    ),
    Program(
        "cub_block", _items, (Launch((2,), (64,), "keys values sorted moved scan totals"),),
        _block_results, follows="CUB examples: block algorithms",
    ),
    Program(
        "atomic_references", _counted,
        (Launch((3,), (96,), "x counters low slots sequence n"),), _totals,
        judged="slots sequence", verify=_claimed,
    ),
    Program(
        "grid_sync", _rod, (Launch((4,), (64,), "a b n rounds"),), _diffused, rtol=1e-5, atol=1e-6,
        follows="GPU toolkit samples: conjugateGradientMultiBlockCG",
    ),
    Program(
        "async_pipeline", _copied, (Launch((2,), (64,), "x y n"),), _gathered, since=80,
        follows="GPU toolkit samples: globalToShmemAsyncCopy",
    ),
)  # fmt: skip
