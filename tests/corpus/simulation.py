"""Stencils, particles, iterations, fractals, random numbers and finance."""

from __future__ import annotations

import math

import numpy as np

from corpus.program import Array, Data, Launch, Program

Random = np.random.Generator
I32, U32, F32 = np.int32, np.uint32, np.float32


def _heat(r: Random) -> Data:
    x = r.random((43, 70), F32)
    return {"a": x, "b": np.zeros_like(x), "w": I32(70), "h": I32(43), "c": F32(0.2)}


def _heat_steps(d: Data) -> Data:
    x = d["a"].astype(float)
    steps = []
    for _ in range(4):
        y = x.copy()
        around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        y[1:-1, 1:-1] += float(d["c"]) * (around - 4 * x[1:-1, 1:-1])
        x = y
        steps.append(x)
    return {"a": steps[3], "b": steps[2]}


def _seven(r: Random) -> Data:
    x = r.standard_normal((9, 14, 35))
    return {
        "x": x, "y": np.zeros_like(x), "nx": I32(35), "ny": I32(14), "nz": I32(9),
        "a": np.float64(0.4), "b": np.float64(0.1),
    }  # fmt: skip


def _seven_points(d: Data) -> Data:
    x, y, c = d["x"], d["y"].copy(), slice(1, -1)
    around = x[:-2, c, c] + x[2:, c, c] + x[c, :-2, c] + x[c, 2:, c] + x[c, c, :-2] + x[c, c, 2:]
    y[c, c, c] = 0.4 * x[c, c, c] + 0.1 * around
    return {"y": y}


def _wave(r: Random) -> Data:
    x = r.standard_normal((6 + 8, 12 + 8, 24 + 8), F32)
    return {
        "x": x, "y": np.zeros_like(x), "dx": I32(24), "dy": I32(12), "dz": I32(6),
        "c": r.standard_normal(5, F32),
    }  # fmt: skip


def _wave_step(d: Data) -> Data:
    x, y, c, i = d["x"].astype(float), d["y"].astype(float), d["c"].astype(float), slice(4, -4)
    sums = c[0] * x[i, i, i]
    for k in range(1, 5):
        for axis in range(3):
            for way in (-k, k):
                sums += c[k] * np.roll(x, way, axis)[i, i, i]
    y[i, i, i] = sums
    return {"y": y}


def _cells(r: Random) -> Data:
    x = r.integers(0, 2**32, (40, 3), U32) & r.integers(0, 2**32, (40, 3), U32)
    return {"a": x, "b": np.zeros_like(x), "words": I32(3), "h": I32(40)}


def _generation(x: Array) -> Array:
    cells = np.unpackbits(x.view(np.uint8), axis=1, bitorder="little").astype(int)
    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    around = sum(np.roll(cells, shift, (0, 1)) for shift in shifts)
    alive = (around == 3) | ((around == 2) & (cells == 1))
    return np.packbits(alive, axis=1, bitorder="little").view(U32)


def _generations(d: Data) -> Data:
    first = _generation(d["a"])
    return {"a": _generation(first), "b": first}


def _bodies(r: Random) -> Data:
    p = r.standard_normal((150, 4), F32)
    p[:, 3] = r.random(150)
    return {
        "p": p, "q": np.zeros_like(p), "v": r.standard_normal((150, 4), F32), "n": I32(150),
        "dt": F32(0.01), "soft": F32(0.05),
    }  # fmt: skip


def _kicked(d: Data) -> Data:
    p, v = d["p"].astype(float), d["v"].astype(float)
    away = p[None, :, :3] - p[:, None, :3]
    inverse = ((away**2).sum(-1) + 0.05) ** -1.5
    v[:, :3] += 0.01 * (away * (inverse * p[:, 3])[..., None]).sum(1)
    q = p.copy()
    q[:, :3] += 0.01 * v[:, :3]
    return {"v": v, "q": q}


def _plane(r: Random) -> Data:
    d: Data = {"w": I32(45), "h": I32(30), "most": I32(200)}
    for tag, kind in (("f", F32), ("d", np.float64)):
        d[tag] = np.zeros((30, 45), I32)
        d |= {tag + "x": kind(-2.1), tag + "y": kind(-1.2), tag + "s": kind(0.07)}
    return d


def _escapes(kind: type, most: int) -> Array:
    y, x = np.mgrid[:30, :45].astype(kind)
    total = np.zeros((30, 45), int)
    for s in range(4):
        cx = kind(-2.1) + kind(0.07) * (x + kind(0.5 * (s & 1)))
        cy = kind(-1.2) + kind(0.07) * (y + kind(0.5 * (s >> 1)))
        z, c = np.zeros((30, 45), complex), cx + 1j * cy.astype(complex)
        count = np.zeros((30, 45), int)
        for _ in range(most):
            with np.errstate(over="ignore", invalid="ignore"):
                going = (z.real**2 + z.imag**2 < 4) & (count >= 0)
                z = np.where(going, z * z + c, z)
            count += going
        total += count
    return total


def _nearly_all_escapes(before: Data, after: Data) -> None:
    for tag, kind, share in (("f", F32, 0.93), ("d", np.float64, 0.99)):
        assert (after[tag] == _escapes(kind, 200)).mean() > share
    assert (after["f"] == after["d"]).mean() < 1


def _square(r: Random) -> Data:
    return {"y": np.zeros((96, 96, 4), np.uint8), "n": I32(96)}


def _julia(d: Data) -> Data:
    at = F32(1.5) * (48 - np.arange(96)).astype(F32) / F32(48)
    im, re = np.meshgrid(at, at, indexing="ij")
    count = np.full((96, 96), 120)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(120):
            re, im = re * re - im * im + F32(-0.8), im * re + re * im + F32(0.156)
            count = np.where((re * re + im * im > 1000) & (count == 120), i, count)
    parts = (count * 2 & 255, np.where(count == 120, 255, 0), count & 7, np.full_like(count, 255))
    return {"y": np.stack(parts, -1)}


def _dense(r: Random) -> Data:
    a = r.standard_normal((70, 70))
    a[np.arange(70), np.arange(70)] = 100
    return {
        "a": a, "b": r.standard_normal(70), "x": np.zeros(70), "y": np.zeros(70), "n": I32(70),
        "changes": np.zeros(1, np.uint64),
    }  # fmt: skip


def _jacobi(d: Data) -> Data:
    a, b = d["a"], d["b"]
    diagonal = np.diag(a)
    y, most = np.zeros(70), 0.0
    for at in range(7):
        x, y = y, (b - (a @ y - diagonal * y)) / diagonal
        most = max(most, np.abs(y - x).max())
        if at == 5:
            even = y
    return {"y": y, "x": even, "changes": np.array([most]).view(np.uint64)}


def _close_change(before: Data, after: Data) -> None:
    want = _jacobi(before)["changes"].view(np.float64)
    np.testing.assert_allclose(after["changes"].view(np.float64), want, rtol=1e-13)


def _tridiagonal(r: Random) -> Data:
    off = r.uniform(-1, 1, 257)
    off[0] = off[256] = 0
    return {
        "low": off[:256].copy(), "d": r.uniform(2.5, 4, 256), "high": off[1:].copy(),
        "b": r.standard_normal(256), "x": np.zeros(256), "it": np.zeros(1, I32),
        "tol": np.float64(1e-12), "most": I32(300),
    }  # fmt: skip


def _solution(d: Data) -> Data:
    a = np.diag(d["d"]) + np.diag(d["high"][:-1], 1) + np.diag(d["low"][1:], -1)
    return {"x": np.linalg.solve(a, d["b"])}


def _few_iterations(before: Data, after: Data) -> None:
    assert 10 < after["it"][0] < 100


def _options(r: Random) -> Data:
    d: Data = {
        "s": r.uniform(5, 30, 500).astype(F32), "x": r.uniform(1, 100, 500).astype(F32),
        "t": r.uniform(0.25, 10, 500).astype(F32), "r": F32(0.02), "v": F32(0.3), "n": I32(500),
    }  # fmt: skip
    for name, kind in (("call", F32), ("put", F32), ("dcall", np.float64), ("dput", np.float64)):
        d[name] = np.zeros(500, kind)
    return d


def _prices(d: Data) -> Data:
    s, x, t = (d[n].astype(float) for n in "sxt")
    r, v = float(d["r"]), float(d["v"])
    d1 = (np.log(s / x) + (r + v * v / 2) * t) / (v * np.sqrt(t))

    def normal(z: Array) -> Array:
        return np.array([0.5 * math.erfc(-u / math.sqrt(2)) for u in z])

    n1, n2, discount = normal(d1), normal(d1 - v * np.sqrt(t)), np.exp(-r * t)
    call, put = s * n1 - x * discount * n2, x * discount * (1 - n2) - s * (1 - n1)
    return {"call": call, "put": put, "dcall": call, "dput": put}


def _doubles_are_close(before: Data, after: Data) -> None:
    want = _prices(before)
    for name in ("dcall", "dput"):
        np.testing.assert_allclose(after[name], want[name], rtol=1e-11, atol=1e-11)


def _darts(r: Random) -> Data:
    return {"seed": np.uint64(r.integers(2**60)), "n": I32(20), "hits": np.zeros(1, np.uint64)}


def _hits(d: Data) -> Data:
    a, c, m = 6364136223846793005, 1442695040888963407, 2**64 - 1
    state, values = int(d["seed"]), []
    for _ in range(2 * 20 * 192):
        state = (state * a + c) & m
        values.append(state >> 40)
    x = np.array(values, np.float64).astype(F32).reshape(-1, 2) * F32(2**-24)
    squares = x * x
    return {"hits": [(squares[:, 0] + squares[:, 1] < 1).sum()]}


def _counters(r: Random) -> Data:
    return {
        "seed": np.uint64(r.integers(2**63)), "w": np.zeros((128, 5, 4), U32),
        "z": np.zeros((128, 5, 2), F32), "n": I32(5),
    }  # fmt: skip


def _philox(d: Data) -> Data:
    stream, at = np.mgrid[:128, :5].astype(np.uint64)
    offset = np.uint64(0xFFFFFFFE) + at
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c = [offset & mask, offset >> half, stream, np.zeros_like(at)]
    k0, k1 = int(d["seed"]) & 0xFFFFFFFF, int(d["seed"]) >> 32
    for _ in range(10):
        p, q = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [q >> half ^ c[1] ^ np.uint64(k0), q & mask, p >> half ^ c[3] ^ np.uint64(k1), p & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    u, v = ((x.astype(F32) * F32(2.3283064e-10) + F32(1.1641532e-10)).astype(float) for x in c[:2])
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    normals = np.stack([radius * np.sin(angle), radius * np.cos(angle)], -1)
    return {"w": np.stack(c, -1), "z": normals}


def _streams(r: Random) -> Data:
    return {
        "states": np.zeros((64, 6), U32), "seed": np.uint64(r.integers(2**60)),
        "bound": U32(3_000_000_000), "a": np.zeros((64, 9), U32), "b": np.zeros((64, 9), U32),
        "n": I32(9),
    }  # fmt: skip


def _xorwow(d: Data) -> Data:
    full, word = 2**64 - 1, 2**32 - 1
    states, draws = [], []
    for t in range(64):
        z, v, weyl, drawn = (int(d["seed"]) + 0x9E3779B97F4A7C15 * (t + 1)) & full, [], 6615241, []
        for _ in range(5):
            z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & full
            z = (z ^ z >> 27) * 0x94D049BB133111EB & full
            z ^= z >> 31
            v.append(z & word | 1)
        while len(drawn) < 18:
            s = v[0] ^ v[0] >> 2
            v = [*v[1:], v[4] ^ v[4] << 4 & word ^ s ^ s << 1 & word]
            weyl = (weyl + 362437) & word
            value = (v[4] + weyl) & word
            if value < 3_000_000_000:
                drawn.append(value)
        states.append([weyl, *v])
        draws.append(drawn)
    out = np.array(draws, U32)
    return {"states": np.array(states, U32), "a": out[:, :9], "b": out[:, 9:]}


def _lists(r: Random) -> Data:
    return {
        "states": r.integers(0, 2**32, 96, U32), "x": np.zeros((96, 6), F32),
        "turns": np.zeros(96, I32), "n": I32(6),
    }  # fmt: skip


def _accepted(d: Data) -> Data:
    states, x, turns = d["states"].copy(), d["x"].copy(), np.zeros(96, int)
    for t in range(96):
        s, found, turn = int(states[t]), 0, -1
        while found < 6:
            turn += 1
            pair = []
            for _ in range(2):
                s = s * 1664525 + 1013904223 & 0xFFFFFFFF
                pair.append(F32(s >> 8) * F32(2**-24))
            if pair[1] <= 4 * pair[0] * (1 - pair[0]):
                x[t, found] = pair[0]
                found += 1
        states[t], turns[t] = s, turn
    return {"states": states, "x": x, "turns": turns}


PROGRAMS = (
    Program("acceptance", _lists, (Launch((2,), (48,), "states x turns n"),), _accepted),
    Program(
        "stencil_heat", _heat,
        tuple(Launch((3, 6), (32, 8), a) for a in ("a b w h c", "b a w h c") * 2),
        _heat_steps, rtol=1e-5, atol=1e-6,
    ),
    Program(
        "stencil_7_points", _seven, (Launch((2, 3), (32, 4), "x y nx ny nz a b"),), _seven_points,
        rtol=1e-13, atol=1e-14,
    ),
    Program(
        "stencil_25_points", _wave, (Launch((2, 2), (16, 8), "x y dx dy dz"),), _wave_step,
        atol=1e-4, symbols={"coefficient": "c"}, follows="GPU toolkit samples: FDTD3d",
    ),
    Program(
        "life_bits", _cells,
        (Launch((2,), (64,), "a b words h"), Launch((2,), (64,), "b a words h")), _generations,
    ),
    Program(
        "nbody_tiles", _bodies, (Launch((3,), (64,), "p q v n dt soft"),), _kicked,
        rtol=1e-4, atol=1e-5, follows="GPU Gems 3, chapter 31: n-body simulation",
    ),
    Program(
        "mandelbrot", _plane,
        tuple(Launch((3, 8), (16, 4), f"{t} w h {t}x {t}y {t}s most", f"mandelbrot<{kind}>")
              for t, kind in (("f", "float"), ("d", "double"))),
        lambda d: {}, judged="f d", verify=_nearly_all_escapes,
        names=("mandelbrot<float>", "mandelbrot<double>"),
        follows="GPU toolkit samples: Mandelbrot",
    ),
    Program(
        "julia", _square, (Launch((96,), (96,), "y n"),), _julia, options=("--fmad=false",),
        follows="CUDA by Example: Julia set",
    ),
    Program(
        "jacobi_double", _dense,
        tuple(Launch((9,), (256,), f"a b {xy} n changes") for xy in [*("x y", "y x") * 3, "x y"]),
        _jacobi, rtol=1e-11, atol=1e-12, judged="changes", verify=_close_change,
    ),
    Program(
        "conjugate_gradient", _tridiagonal,
        (Launch((1,), (256,), "low d high b x it tol most"),), _solution, rtol=1e-9, atol=1e-9,
        judged="it", verify=_few_iterations, follows="GPU toolkit samples: conjugateGradient",
    ),
    Program(
        "black_scholes", _options,
        (Launch((4,), (128,), "call put s x t r v n", "quick"),
         Launch((2,), (96,), "dcall dput s x t r v n", "exact")),
        _prices, rtol=1e-4, atol=1e-4, verify=_doubles_are_close,
        follows="GPU toolkit samples: BlackScholes",
    ),
    Program(
        "monte_carlo_pi", _darts, (Launch((2,), (96,), "seed n hits"),), _hits,
        follows="GPU toolkit samples: MC_EstimatePiP",
    ),
    Program(
        "philox", _counters, (Launch((2,), (64,), "seed w z n"),), _philox, atol=1e-5, rtol=1e-5
    ),
    Program(
        "xorwow", _streams,
        (Launch((2,), (32,), "states seed", "seed"),
         Launch((2,), (32,), "states bound a n", "draw"),
         Launch((2,), (32,), "states bound b n", "draw")),
        _xorwow,
    ),
)  # fmt: skip
