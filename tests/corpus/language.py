"""C++ as people write it in kernels: structs, templates, lambdas, unions; and small simulations."""

from __future__ import annotations

import math

import numpy as np

from corpus.program import Array, Data, Launch, Program

Random = np.random.Generator
I32, U32, F32 = np.int32, np.uint32, np.float32


def _signal(r: Random) -> Data:
    x = r.standard_normal((3, 256, 2), F32)
    return {
        "x": x, "y": np.zeros_like(x), "z": np.zeros_like(x), "one": F32(1), "share": F32(1 / 256)
    }  # fmt: skip


def _spectrum(d: Data) -> Data:
    y = np.fft.fft(d["x"].astype(float) @ [1, 1j], axis=1)
    return {"y": np.stack([y.real, y.imag], -1), "z": d["x"]}


def _scene(r: Random) -> Data:
    spheres = np.zeros((5, 8), F32)
    spheres[:, :3] = r.uniform((-1.2, -0.7, -0.5), (1.2, 0.9, 2), (5, 3))
    spheres[:, 3] = r.uniform(0.2, 0.5, 5)
    spheres[:, 4:] = r.uniform(0.1, 1, (5, 4))
    spheres[2, 7] = 0
    spheres[4] = (0, -101, 0, 100, 0.6, 0.6, 0.5, 0.2)
    return {
        "scene": spheres, "y": np.zeros((36, 52, 4), np.uint8), "c": np.zeros((36, 52, 3), F32),
        "w": I32(52), "h": I32(36),
    }  # fmt: skip


def _nearest(s: Array, start: Array, to: Array) -> tuple[Array, Array]:
    best, which = np.full(len(start), 1e20), np.full(len(start), -1)
    for i, (x, y, z, radius, *_) in enumerate(s):
        oc = start - (x, y, z)
        b = (oc * to).sum(1)
        d = b * b - (oc * oc).sum(1) + radius * radius
        root = np.sqrt(np.maximum(d, 0))
        t = np.where(-b - root > 1e-3, -b - root, -b + root)
        closer = (d > 0) & (t > 1e-3) & (t < best)
        best, which = np.where(closer, t, best), np.where(closer, i, which)
    return best, which


def _traced(s: Array, w: int, h: int) -> Array:
    y, x = np.mgrid[:h, :w].reshape(2, -1)
    to = np.stack([(x - 0.5 * w) / h, (0.5 * h - y) / h, np.ones(w * h)], 1)
    to /= np.linalg.norm(to, axis=1, keepdims=True)
    start = np.tile((0.0, 0.0, -3.0), (w * h, 1))
    light = np.array((0.5, 0.8, -0.4)) / np.linalg.norm((0.5, 0.8, -0.4))
    colour, weight, alive = np.zeros((w * h, 3)), np.ones(w * h), np.ones(w * h, bool)
    for _ in range(3):
        t, which = _nearest(s, start, to)
        sky = (0.5 * (to[:, 1] + 1))[:, None]
        above = np.array((0.3, 0.5, 0.9)) * sky + np.array((0.9, 0.9, 0.8)) * (1 - sky)
        out = alive & (which < 0)
        colour += np.where(out[:, None], above * weight[:, None], 0)
        alive = alive & (which >= 0)
        ball = s[which]
        start = start + to * t[:, None]
        normal = start - ball[:, :3]
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        lit = np.maximum(normal @ light, 0)
        shadow = _nearest(s, start, np.broadcast_to(light, start.shape))[1] >= 0
        lit = np.where((lit > 0) & shadow, 0, lit)
        shade = weight * (1 - ball[:, 7]) * (0.2 + 0.8 * lit)
        colour += np.where(alive[:, None], ball[:, 4:7] * shade[:, None], 0)
        weight = weight * ball[:, 7]
        alive &= weight >= 0.01
        to = to - normal * (2 * (to * normal).sum(1))[:, None]
    return colour.reshape(h, w, 3)


def _picture_is_right(before: Data, after: Data) -> None:
    want = _traced(before["scene"].astype(float), 52, 36)
    close = np.isclose(after["c"], want, atol=2e-3).all(2)
    assert close.mean() > 0.985  # edges and shadow borders may fall to either side
    byte = 255 * np.clip(after["c"].astype(float), 0, 1) ** (1 / 2.2) + 0.5
    np.testing.assert_allclose(after["y"][..., :3], np.floor(byte), atol=1)
    assert (after["y"][..., 3] == 255).all()


def _path(r: Random) -> Data:
    keys = r.standard_normal((4, 4)).astype(F32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    keys[3] = -keys[2] + F32(0.001)
    keys[3] /= np.linalg.norm(keys[3])
    point = r.standard_normal(3).astype(F32)
    return {
        "path": keys.tobytes() + point.tobytes() + I32(20).tobytes(),
        "out": np.zeros((60, 3), F32), "q": np.zeros((60, 4), F32),
    }  # fmt: skip


def _product(a: Array, b: Array) -> Array:
    w = a[0] * b[0] - a[1:] @ b[1:]
    return np.array([w, *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))])


def _turned(d: Data) -> Data:
    numbers = np.frombuffer(d["path"][:76], F32).astype(float)
    keys, point = numbers[:16].reshape(4, 4), numbers[16:]
    turns, places = [], []
    for i in range(60):
        a, b, t = keys[i // 20], keys[i // 20 + 1], (i % 20) / 20
        dot = a @ b
        angle = math.acos(min(abs(dot), 1))
        u, v = 1 - t, t
        if abs(dot) < 0.9995:
            u, v = (math.sin(s * angle) / math.sin(angle) for s in (u, v))
        q = u * a + math.copysign(v, dot) * b
        turns.append(q)
        places.append(_product(_product(q, np.array([0, *point])), q * [1, -1, -1, -1])[1:])
    return {"q": turns, "out": places}


def _fours(r: Random) -> Data:
    m = r.standard_normal((70, 4, 4)) + 3 * np.eye(4)
    m[5, 2] = 0
    m[6] = 0
    return {
        "m": m.astype(F32), "y": np.ones((70, 4, 4), F32), "regular": np.zeros(70, bool),
        "n": I32(70),
    }  # fmt: skip


def _inverses(d: Data) -> Data:
    m = d["m"].astype(float)
    regular = np.ones(70, bool)
    regular[5:7] = False
    m[~regular] = np.eye(4)
    return {"y": np.linalg.inv(m) * regular[:, None, None], "regular": regular}


def _sizes(r: Random) -> Data:
    return {
        "size": r.uniform(0.5, 3, (70, 2)), "a": np.zeros(70), "r": np.zeros(70), "n": I32(70)
    }  # fmt: skip


def _areas(d: Data) -> Data:
    w, h = d["size"].T
    e = ((w - h) / (w + h)) ** 2
    around = np.pi * (w + h) * (1 + 3 * e / (10 + np.sqrt(4 - 3 * e)))
    ratios = np.stack([w * h / (2 * (w + h)) ** 2, np.full(70, 1 / 16), np.pi * w * h / around**2])
    areas = w * h + w * w + np.pi * w * h + w * np.sqrt(2)
    return {"a": areas, "r": ratios[np.arange(70) % 3, np.arange(70)]}


def _lists(r: Random) -> Data:
    d: Data = {"x": r.integers(0, 100, (64, 9), I32), "n": I32(9)}
    return {**d, **{n: np.zeros(64, I32) for n in ("sum", "kept", "top", "kept2")}}


def _folded(d: Data) -> Data:
    low = np.arange(64)[:, None] % 7
    keep = d["x"] % 7 >= low
    mapped = d["x"] * 3 - np.arange(64)[:, None]
    kept = keep.sum(1) * 100 + 9
    return {
        "sum": 5 + np.where(keep, mapped, 0).sum(1), "kept": kept, "kept2": kept,
        "top": np.maximum(np.where(keep, mapped, -1000).max(1), -50),
    }  # fmt: skip


def _keyed(r: Random) -> Data:
    keys = r.integers(0, 24, 256, I32)
    keys[64:96] = r.integers(16, 24, 32)
    return {
        "keys": keys, "values": r.integers(-500, 500, 256, I32), "n": I32(500),
        "x": r.integers(0, 1000, 500, I32), "y": np.full(500, -1, I32), "used": np.zeros(1, I32),
        "count": np.zeros(24, I32), "top": np.full(24, -999, I32), "leaders": np.zeros(1, I32),
    }  # fmt: skip


def _by_key(d: Data) -> Data:
    keys = d["keys"]
    top = d["top"].copy()
    np.maximum.at(top, keys, d["values"])
    warps = keys.reshape(8, 32)
    alike = sum(len(set((w >> 4).tolist())) == 1 for w in warps)
    leaders = sum(len(set(w.tolist())) for w in warps) + 1000 * alike
    used = int((d["x"] % 3 == 0).sum())
    count = np.bincount(keys, minlength=24)
    return {"count": count, "top": top, "leaders": [leaders], "used": [used]}


def _filtered(before: Data, after: Data) -> None:
    want = before["x"][before["x"] % 3 == 0]
    np.testing.assert_array_equal(np.sort(after["y"][: want.size]), np.sort(want))
    assert (after["y"][want.size :] == -1).all()


_RECORD = np.dtype([("key", "u1"), ("gap", "u1"), ("weight", "i2"), ("value", "f4")])


def _records(r: Random) -> Data:
    x = np.zeros(100, _RECORD)
    x["key"], x["weight"] = r.integers(0, 256, 100), r.integers(-99, 99, 100)
    x["value"] = r.integers(0, 64, 100) / 8
    return {
        "x": x.view(U32).reshape(100, 2), "y": np.zeros((100, 2), U32), "sums": np.ones(16),
        "n": I32(100),
    }  # fmt: skip


def _bucket_sums(d: Data) -> Data:
    x = d["x"].view(_RECORD).ravel()
    weights = x["weight"].astype(float) * x["value"]
    return {"sums": np.bincount(x["key"] & 15, weights=weights, minlength=16)}


def _in_buckets(before: Data, after: Data) -> None:
    old, new = (d[n].view(_RECORD).ravel() for d, n in ((before, "x"), (after, "y")))
    np.testing.assert_array_equal(new["key"] & 15, np.sort(old["key"] & 15))
    fields = ["key", "weight", "value"]
    np.testing.assert_array_equal(np.sort(new[fields]), np.sort(old[fields]))


def _reals(r: Random) -> Data:
    x = (r.standard_normal(120) * 2.0 ** r.integers(-30, 18, 120)).astype(F32)
    return {
        "x": x, "root": np.zeros(120, F32), "half": np.zeros(120, np.uint16),
        "above": np.zeros(120, F32), "parts": np.zeros((120, 4), I32),
        "morton": np.zeros(120, np.uint64), "n": I32(120),
    }  # fmt: skip


def _bits(d: Data) -> Data:
    x = d["x"]
    u = x.view(U32)
    fraction, exponent = np.frexp(x)
    last = np.ldexp(fraction, 24).astype(I32) ^ exponent
    codes = []
    for v in u.tolist():
        pairs = [(v >> k & 1) << 2 * k | (v >> (k + 16) & 1) << (2 * k + 1) for k in range(16)]
        ones = bin(v).count("1") + bin(~v & 0xFFFFFFFF).count("1")
        codes.append((64 - (v | 1).bit_length()) << 56 | sum(pairs) << 8 | ones)
    with np.errstate(over="ignore"):
        half = x.astype(np.float16).view(np.uint16)
    return {
        "root": 1 / np.sqrt(np.abs(x.astype(float))), "half": half,
        "above": np.nextafter(x, F32(1e30)), "morton": np.array(codes, np.uint64),
        "parts": np.stack([u >> 31, u >> 23 & 255, u & 0x7FFFFF, last.view(U32)], 1).astype(I32),
    }  # fmt: skip


def _pixels(r: Random) -> Data:
    a, b = (r.integers(0, 2**32, 70, U32) for _ in range(2))
    return {"a": a, "b": b, "y": np.zeros((70, 16), U32), "n": I32(70)}


def _video(d: Data) -> Data:
    return {"y": [_word(i, *ab) for i, ab in enumerate(zip(d["a"], d["b"], strict=True))]}


def _word(i: int, a: U32, b: U32) -> Array:
    x, y = int(a), int(b)
    u, v = (np.array([w], U32).view(np.uint8).astype(int) for w in (a, b))
    s, t = (np.array([w], U32).view(np.int16).astype(int) for w in (a, b))

    def bytes_of(values: Array) -> int:
        return int((values & 255).astype(np.uint8).view(U32)[0])

    def halves_of(values: Array) -> int:
        return int((values & 0xFFFF).astype(np.uint16).view(U32)[0])

    signed_b = v.astype(np.int8).astype(int)
    both = [*u, *v]
    order = [(0x6240 | (i & 7)) >> 4 * k & 15 for k in range(4)]
    picked = np.array([both[k & 7] for k in order])
    start, length = y & 31, y >> 8 & 15
    field = 127 << min(x >> 27, 32) & 0xFFFFFFFF
    left, right = (w - (w >> 31 << 32) for w in (x, y))
    mixed = max(x, y) - min(x, y) + 5
    reverse = int(f"{x:032b}"[::-1], 2)
    return np.array(
        [
            bytes_of(u + v), bytes_of(u - v), bytes_of(np.minimum(u + v, 255)),
            bytes_of(np.maximum(u - v, 0)), bytes_of((u + v + 1) // 2), bytes_of(np.abs(u - v)),
            np.abs(u - v).sum(), bytes_of(np.where(u > v, 255, 0)), halves_of(np.maximum(s, t)),
            halves_of(np.clip(s + t, -32768, 32767)), int(u @ v) + 7,
            int(s @ signed_b[:2]) - 9, bytes_of(picked), x >> start & ((1 << length) - 1),
            (y & ~field) | (x << (x >> 27) & field),
            mixed ^ reverse ^ (left + right + 1 >> 1) ^ (x & 0xFFFFFF) * (y & 0xFFFFFF),
        ],
        object,
    ) % 2**32  # fmt: skip


PROGRAMS = (
    Program(
        "fft_shared", _signal,
        (Launch((3,), (64,), "x y one", "fft<8, -1>"),
         Launch((3,), (128,), "y z share", "fft<8, 1>")),
        _spectrum, rtol=1e-5, atol=1e-4, names=("fft<8, -1>", "fft<8, 1>"),
    ),
    Program(
        "ray_spheres", _scene, (Launch((4, 5), (16, 8), "y c w h"),), lambda d: {}, judged="y c",
        verify=_picture_is_right, symbols={"scene": "scene"},
        follows="CUDA by Example: ray tracing",
    ),
    Program(
        "quaternions", _path, (Launch((1,), (64,), "path out q"),), _turned, rtol=1e-4, atol=1e-5
    ),
    Program(
        "matrix_inverse", _fours, (Launch((2,), (64,), "m y regular n"),), _inverses,
        rtol=1e-2, atol=1e-3,
    ),
    Program("class_hierarchy", _sizes, (Launch((2,), (64,), "size a r n"),), _areas, rtol=1e-13),
    Program(
        "lambdas", _lists,
        (Launch((2,), (32,), "x sum kept n", "fold<Sum, 5>"),
         Launch((2,), (32,), "x top kept2 n", "fold<Larger, -50>")),
        _folded, names=("fold<Sum, 5>", "fold<Larger, -50>"),
    ),
    Program(
        "warp_aggregated", _keyed,
        (Launch((2,), (96,), "x n y used", "filter"),
         Launch((2,), (128,), "keys values count top leaders", "by_key")),
        _by_key, judged="y", verify=_filtered, follows="NVIDIA blog: warp-aggregated atomics",
    ),
    Program(
        "carved_shared", _records, (Launch((1,), (64,), "x y sums n", shared=1280),), _bucket_sums,
        judged="y", verify=_in_buckets,
    ),
    Program(
        "float_bits", _reals, (Launch((2,), (64,), "x root half above parts morton n"),), _bits,
        rtol=1e-5, atol=1e-30,
    ),
    Program("video_words", _pixels, (Launch((2,), (64,), "a b y n"),), _video),
)  # fmt: skip
