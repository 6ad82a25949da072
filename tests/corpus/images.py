"""Filters, resampling and transforms of signals and pictures."""

from __future__ import annotations

import numpy as np

from corpus.program import Array, Data, Launch, Program

Random = np.random.Generator
I32, F32 = np.int32, np.float32


def _signal(r: Random) -> Data:
    return {
        "x": r.standard_normal(1000, F32), "y": np.zeros(1000, F32), "n": I32(1000),
        "f": r.standard_normal(13, F32),
    }  # fmt: skip


def _correlated(d: Data) -> Data:
    return {"y": np.correlate(np.pad(d["x"].astype(float), 6), d["f"].astype(float))}


def _picture(r: Random) -> Data:
    return {
        "x": r.integers(0, 256, (37, 50), np.uint8), "y": np.zeros((37, 50), np.uint8),
        "w": I32(50), "h": I32(37), "f": (r.integers(-3, 8, (5, 5)) / 64).astype(F32),
    }  # fmt: skip


def _windows(x: Array, size: int, mode: str = "edge") -> Array:
    padded = np.pad(x, size // 2, mode=mode)  # type: ignore[call-overload]
    return np.lib.stride_tricks.sliding_window_view(padded, (size, size))


def _filtered(d: Data) -> Data:
    sums = (_windows(d["x"].astype(float), 5) * d["f"]).sum((2, 3))
    return {"y": np.clip(np.rint(sums), 0, 255).astype(np.uint8)}


def _plane(r: Random) -> Data:
    d: Data = {"x": r.standard_normal((64, 128), F32), "f": r.standard_normal(9, F32)}
    d |= {n: np.zeros((64, 128), F32) for n in ("mid", "y")}
    return {**d, "w": I32(128), "h": I32(64)}


def _both_passes(d: Data) -> Data:
    def pass_over(x: Array) -> Array:
        return np.stack([np.convolve(row, d["f"].astype(float), "same") for row in x])

    mid = pass_over(d["x"].astype(float))
    return {"mid": mid, "y": pass_over(mid.T).T}


def _words(r: Random) -> Data:
    return {
        "x": r.integers(0, 65536, (5, 150), np.uint16), "y": np.zeros((5, 150), np.uint16),
        "w": I32(150), "r": I32(7),
    }  # fmt: skip


def _boxes(d: Data) -> Data:
    x = d["x"].astype(np.int64)
    y = np.zeros_like(x)
    for at in range(150):
        part = x[:, max(at - 7, 0) : at + 8]
        y[:, at] = (part.sum(1) + part.shape[1] // 2) // part.shape[1]
    return {"y": y}


def _pixels(r: Random) -> Data:
    return {
        "x": r.random((31, 43, 4), F32), "w": I32(43), "h": I32(31), "y": np.zeros((16, 22, 4), F32)
    }  # fmt: skip


def _halved(d: Data) -> Data:
    weight = np.array([1, 4, 6, 4, 1]) / 16
    windows = _windows_3d(d["x"].astype(float))[::2, ::2]
    return {"y": np.einsum("yxcji,j,i->yxc", windows, weight, weight)}


def _windows_3d(x: Array) -> Array:
    padded = np.pad(x, ((2, 2), (2, 2), (0, 0)), mode="reflect")
    return np.lib.stride_tricks.sliding_window_view(padded, (5, 5), axis=(0, 1))


def _grey(r: Random) -> Data:
    return {
        "x": r.integers(0, 256, (20, 80), np.uint8), "y": np.zeros((20, 80), np.uint8),
        "words": I32(20), "h": I32(20),
    }  # fmt: skip


def _medians(d: Data) -> Data:
    return {"y": np.median(_windows(d["x"], 3), axis=(2, 3))}


def _blobs(r: Random) -> Data:
    y, x = np.mgrid[:40, :52]
    wave = 120 + 100 * np.sin(x / 5) * np.cos(y / 4) + r.integers(-15, 15, (40, 52))
    return {
        "x": np.clip(wave, 0, 255).astype(np.uint8), "w": I32(52), "h": I32(40),
        "g": np.zeros((40, 52, 2), np.int16), "p": np.zeros((40, 52), I32),
        "edges": np.zeros((40, 52), np.uint8), "least": I32(4000),
    }  # fmt: skip


def _edges(d: Data) -> Data:
    windows = _windows(d["x"].astype(np.int64), 3)
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    gx, gy = ((windows * f).sum((2, 3)) for f in (across, across.T))
    power = gx * gx + gy * gy
    edges = np.zeros((40, 52), np.uint8)
    for y in range(1, 39):
        for x in range(1, 51):
            ax, ay = abs(gx[y, x]), abs(gy[y, x])
            dx, dy = (1, 0) if 5 * ay < 2 * ax else (0, 1)
            if 5 * ay >= 2 * ax and 5 * ax >= 2 * ay:
                dx, dy = 1, -1 if (gx[y, x] < 0) != (gy[y, x] < 0) else 1
            here = power[y, x]
            if here >= 4000 and here > power[y - dy, x - dx] and here >= power[y + dy, x + dx]:
                edges[y, x] = 2 if here >= 16000 else 1
    return {"g": np.stack([gx, gy], -1), "p": power, "edges": edges}


def _colours(r: Random) -> Data:
    return {
        "x": r.integers(0, 256, (24, 30, 3), np.uint8), "w": I32(30), "h": I32(24),
        "y": np.zeros((37, 41, 3), np.uint8), "ow": I32(41), "oh": I32(37),
    }  # fmt: skip


def _positions(n: int, out: int) -> tuple[Array, Array, Array]:
    ratio = F32(n) / F32(out)
    at = np.maximum((np.arange(out, dtype=F32) + F32(0.5)) * ratio - F32(0.5), 0)
    low = np.minimum(np.floor(at), n - 1).astype(int)
    weight = np.rint((at - low.astype(F32)) * F32(2048)).astype(np.int64)
    return low, np.minimum(low + 1, n - 1), weight


def _resized(before: Data, after: Data) -> None:
    x = before["x"].astype(np.int64)
    y0, y1, wy = _positions(24, 37)
    x0, x1, wx = _positions(30, 41)
    wx, wy = wx[None, :, None], wy[:, None, None]
    rows = [x[y][:, x0] * (2048 - wx) + x[y][:, x1] * wx for y in (y0, y1)]
    want = (rows[0] * (2048 - wy) + rows[1] * wy + (1 << 21)) >> 22
    # one fused operation in a position may move a weight by one step of 1/2048
    assert np.abs(after["y"].astype(int) - want).max() <= 1
    assert (after["y"] == want).mean() > 0.9


def _maps(r: Random) -> Data:
    d: Data = {"x": r.standard_normal((6, 13, 17), F32), "h": I32(13), "w": I32(17)}
    d |= {"win": np.array([3, 2, 1], I32).tobytes(), "oh": I32(7), "ow": I32(9)}
    d["total"] = I32(6 * 63)
    for name in ("max", "mean"):
        d[name], d[name + "_at"] = np.zeros((6, 7, 9), F32), np.zeros((6, 7, 9), I32)
    return d


def _pooled(d: Data) -> Data:
    x = np.pad(d["x"].astype(float), ((0, 0), (1, 1), (1, 1)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))[:, ::2, ::2]
    flat = windows.reshape(6, 7, 9, 9)
    best = np.nanargmax(flat, -1)
    yy = 2 * np.arange(7)[:, None] + best // 3 - 1
    xx = 2 * np.arange(9) + best % 3 - 1
    return {
        "max": np.nanmax(flat, -1), "max_at": yy * 17 + xx, "mean": np.nanmean(flat, -1),
        "mean_at": (~np.isnan(flat)).sum(-1),
    }  # fmt: skip


def _field(r: Random) -> Data:
    y, x = np.mgrid[:21, :27]
    f = np.sin(x / 2.5) + np.cos(y / 3) + 0.3 * r.standard_normal((21, 27))
    return {
        "f": f.astype(F32), "w": I32(27), "h": I32(21), "level": F32(0.4),
        "cases": np.zeros(520, np.uint8), "total": np.zeros(1, np.uint32),
        "segments": np.zeros((1040, 4), F32), "owner": np.full(1040, -1, I32),
    }  # fmt: skip


def _corners(d: Data) -> Array:
    f = d["f"]
    return np.stack([f[:-1, :-1], f[:-1, 1:], f[1:, 1:], f[1:, :-1]])


_LINES = np.array([0, 1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 1, 1, 1, 1, 0])


def _cases(d: Data) -> Data:
    inside = _corners(d) > F32(0.4)
    which = (inside * (1 << np.arange(4))[:, None, None]).sum(0).ravel()
    return {"cases": which, "total": [_LINES[which].sum()]}


def _segments_lie_on_the_level(before: Data, after: Data) -> None:
    want = _cases(before)
    which, total = want["cases"], int(want["total"][0])
    owner, segments = after["owner"], after["segments"].astype(float)
    expected = np.repeat(np.arange(520), _LINES[which])
    np.testing.assert_array_equal(np.sort(owner[:total]), expected)
    assert (owner[total:] == -1).all()
    f = before["f"].astype(float)
    for x, y in (segments[:total, :2].T, segments[:total, 2:].T):
        x0, y0 = np.minimum(x.astype(int), 25), np.minimum(y.astype(int), 19)
        u, v = x - x0, y - y0
        low = f[y0, x0] * (1 - u) + f[y0, x0 + 1] * u
        high = f[y0 + 1, x0] * (1 - u) + f[y0 + 1, x0 + 1] * u
        np.testing.assert_allclose(low * (1 - v) + high * v, 0.4, atol=1e-4)


def _tiles(r: Random) -> Data:
    x = r.standard_normal((32, 48), F32)
    return {"x": x, "y": np.zeros_like(x), "z": np.zeros_like(x), "w": I32(48)}


def _cosines(d: Data) -> Data:
    u, x = np.mgrid[:8, :8]
    c = np.where(u == 0, np.sqrt(1 / 8), 0.5) * np.cos((2 * x + 1) * u * np.pi / 16)
    tiles = d["x"].astype(float).reshape(4, 8, 6, 8)
    y = np.einsum("ui,aibj,vj->aubv", c, tiles, c).reshape(32, 48)
    return {"y": y, "z": d["x"]}


def _haar(r: Random) -> Data:
    return {"x": r.standard_normal((3, 512), F32), "y": np.zeros((3, 512), F32), "n": I32(7)}


def _haar_levels(d: Data) -> Data:
    x = d["x"].astype(float)
    y = np.zeros_like(x)
    for _ in range(7):
        low, high = (x[:, ::2] + x[:, 1::2]) / 2**0.5, (x[:, ::2] - x[:, 1::2]) / 2**0.5
        y[:, low.shape[1] : 2 * low.shape[1]] = high
        x = low
    y[:, : x.shape[1]] = x
    return {"y": y}


PROGRAMS = (
    Program(
        "convolution_1d", _signal, (Launch((8,), (128,), "x y n"),), _correlated, atol=1e-4,
        symbols={"filter": "f"}, follows="Programming Massively Parallel Processors: convolution",
    ),
    Program(
        "convolution_2d", _picture, (Launch((4, 3), (20, 20), "x y w h"),), _filtered,
        symbols={"mask": "f"}, follows="Programming Massively Parallel Processors: convolution",
    ),
    Program(
        "separable_filter", _plane,
        (Launch((2, 16), (16, 4), "mid x w h w", "rows"),
         Launch((8, 2), (16, 8), "y mid w h w", "columns")),
        _both_passes, atol=1e-4, symbols={"c_kernel": "f"},
        follows="GPU toolkit samples: convolutionSeparable",
    ),
    Program("box_blur", _words, (Launch((5,), (32,), "x y w r", shared=1216),), _boxes),
    Program(
        "gaussian_pyramid", _pixels, (Launch((3, 2), (8, 8), "x w h y", "down"),), _halved,
        rtol=1e-5, atol=1e-6,
    ),
    Program("median_filter", _grey, (Launch((1, 20), (32,), "x y words h"),), _medians),
    Program(
        "canny_edges", _blobs,
        (Launch((4, 5), (16, 8), "x w h g p", "sobel"),
         Launch((4, 5), (16, 8), "g p w h least edges", "thin")),
        _edges, follows="GPU toolkit samples: SobelFilter",
    ),
    Program(
        "bilinear_resize", _colours, (Launch((6, 10), (8, 4), "x w h y ow oh"),), lambda d: {},
        judged="y", verify=_resized,
    ),
    Program(
        "pooling", _maps,
        tuple(Launch((3,), (64,), f"x h w win {n} {n}_at oh ow total", f"pool<{policy}>")
              for n, policy in (("max", "Maximum"), ("mean", "Average"))),
        _pooled, rtol=1e-5, atol=1e-6, names=("pool<Maximum>", "pool<Average>"),
    ),
    Program(
        "marching_squares", _field,
        (Launch((9,), (64,), "f w h level cases total segments owner"),), _cases,
        judged="segments owner", verify=_segments_lie_on_the_level,
        follows="GPU toolkit samples: marchingCubes",
    ),
    Program(
        "dct_8x8", _tiles,
        (Launch((3, 4), (8, 8, 2), "x y w", "forward"),
         Launch((3, 4), (8, 8, 2), "y z w", "inverse")),
        _cosines, atol=1e-5, follows="GPU toolkit samples: dct8x8",
    ),
    Program(
        "haar_wavelet", _haar, (Launch((3,), (256,), "x y n", shared=2048),), _haar_levels,
        atol=1e-5, follows="GPU toolkit samples: dwtHaar1D",
    ),
)  # fmt: skip
