"""Matrices and the layers of neural networks: sparse, dense, on tensor cores, normalised."""

from __future__ import annotations

import numpy as np

from corpus.program import Array, Data, Launch, Program, Table

Random = np.random.Generator
I32, F32, F16 = np.int32, np.float32, np.float16


def _sparse(r: Random) -> Data:
    full = r.standard_normal((130, 90), F32) * (r.random((130, 90)) < 0.15)
    full[7] = 0
    start = np.concatenate([[0], (full != 0).sum(1).cumsum()]).astype(I32)
    width = int((full != 0).sum(1).max())
    ell_c, ell_v = np.full((width, 130), -1, I32), np.zeros((width, 130), F32)
    for row in range(130):
        columns = np.flatnonzero(full[row])
        ell_c[: columns.size, row], ell_v[: columns.size, row] = columns, full[row, columns]
    d: Data = {"start": start, "column": np.nonzero(full)[1].astype(I32), "value": full[full != 0]}
    d |= {"ell_c": ell_c, "ell_v": ell_v, "x": r.standard_normal(90, F32), "width": I32(width)}
    return {**d, **{f"y{k}": np.zeros(130, F32) for k in range(3)}, "rows": I32(130)}


def _product(d: Data) -> Data:
    full = np.zeros((130, 90))
    rows = np.repeat(np.arange(130), np.diff(d["start"]))
    full[rows, d["column"]] = d["value"]
    return {f"y{k}": full @ d["x"] for k in range(3)}


def _sgemm(r: Random) -> Data:
    return {
        "a": r.standard_normal((128, 80), F32), "b": r.standard_normal((80, 64), F32),
        "c": r.standard_normal((128, 64), F32), "m": I32(128), "n": I32(64), "k": I32(80),
        "alpha": F32(0.5), "beta": F32(-2),
    }  # fmt: skip


def _hgemm(r: Random) -> Data:
    return {
        "a": r.standard_normal((64, 160)).astype(F16),
        "b": r.standard_normal((160, 128)).astype(F16),
        "c": np.zeros((64, 128), F16), "m": I32(64), "n": I32(128), "k": I32(160),
    }  # fmt: skip


def _bytes(r: Random) -> Data:
    return {
        "a": r.integers(-128, 128, (32, 128), np.int8),
        "b": r.integers(-128, 128, (48, 128), np.int8),
        "scale": r.uniform(0.0005, 0.003, 32).astype(F32), "c": np.zeros((32, 48), np.int8),
        "raw": np.zeros((32, 48), I32), "n": I32(48), "words": I32(32),
    }  # fmt: skip


def _requantised(d: Data) -> Data:
    raw = d["a"].astype(I32) @ d["b"].astype(I32).T
    scaled = raw.astype(F32) * d["scale"][:, None]
    return {"raw": raw, "c": np.clip(np.rint(scaled), -128, 127).astype(np.int8)}


def _batch(r: Random) -> Data:
    return {
        "a": r.standard_normal((11, 7, 6)), "b": r.standard_normal((11, 5, 7)),
        "c": r.standard_normal((11, 6, 5)), "as": Table("a", 336, 11), "bs": Table("b", 280, 11),
        "cs": Table("c", 240, 11), "batch": I32(11),
        "shape": np.array([6, 5, 7], I32).tobytes() + b"\1\1\0\0" + np.float64(1.5).tobytes(),
    }  # fmt: skip


def _batch_products(d: Data) -> Data:
    return {"c": d["c"] + 1.5 * np.einsum("zki,zjk->zij", d["a"], d["b"])}


def _rows(r: Random) -> Data:
    x = (4 * r.standard_normal((6, 333))).astype(F32)
    x[2, ::3] = -np.inf
    x[4] = -np.inf
    return {"x": x, "y": np.ones((6, 333), F32), "n": I32(333)}


def _softmax(d: Data) -> Data:
    x = d["x"].astype(float)
    y = np.zeros_like(x)
    rows = np.arange(6) != 4
    e = np.exp(x[rows] - x[rows].max(1, keepdims=True))
    y[rows] = e / e.sum(1, keepdims=True)
    return {"y": y}


def _heads(r: Random) -> Data:
    d: Data = {n: r.standard_normal((2, 75, 16), F32) for n in "qkv"}
    d |= {"y": np.zeros((2, 75, 16), F32), "lse": np.zeros((2, 75), F32), "n": I32(75)}
    return {**d, "scale": F32(16**-0.5)}


def _attention(d: Data) -> Data:
    q, k, v = (d[n].astype(float) for n in "qkv")
    s = q @ k.transpose(0, 2, 1) * 16**-0.5
    s[:, np.triu(np.ones((75, 75), bool), 1)] = -np.inf
    e = np.exp(s - s.max(2, keepdims=True))
    total = e.sum(2, keepdims=True)
    return {"y": e / total @ v, "lse": (s.max(2, keepdims=True) + np.log(total))[..., 0]}


def _features(r: Random) -> Data:
    return {
        "x": (2 + r.standard_normal((12, 200))).astype(F32), "gamma": r.random(200, F32),
        "beta": r.random(200, F32), "y": np.zeros((12, 200), F32), "quads": I32(50),
        "eps": F32(1e-5), "h": (3 * r.standard_normal((5, 300))).astype(F16),
        "w": r.random(300).astype(F16), "g": np.zeros((5, 300), F16), "pairs": I32(150),
    }  # fmt: skip


def _normalised(d: Data) -> Data:
    x, h = d["x"].astype(float), d["h"].astype(float)
    y = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    g = h / np.sqrt((h * h).mean(1, keepdims=True) + 1e-5) * d["w"]
    return {"y": y * d["gamma"] + d["beta"], "g": g}


def _logits(r: Random) -> Data:
    labels = r.integers(0, 91, 10)
    labels[3] = -100
    return {
        "x": (3 * r.standard_normal((10, 91))).astype(F32), "labels": labels,
        "loss": np.ones(10, F32), "grad": np.ones((10, 91), F32), "n": I32(91),
        "smoothing": F32(0.1), "ignored": np.int64(-100),
    }  # fmt: skip


def _losses(d: Data) -> Data:
    x, labels = d["x"].astype(float), d["labels"]
    used = labels >= 0
    e = np.exp(x - x.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    target = np.full_like(p, 0.1 / 91)
    target[np.arange(10), np.maximum(labels, 0)] += 0.9
    loss = -(target * np.log(p)).sum(1)
    return {"loss": loss * used, "grad": (p - target) * used[:, None]}


def _words(r: Random) -> Data:
    ids = r.integers(-1, 9, 40, I32)
    return {
        "table": r.standard_normal((9, 16), F32), "ids": ids, "y": np.ones((40, 16), F32),
        "grad": (r.integers(-8, 9, (40, 16)) / 4).astype(F32), "dt": np.zeros((9, 16), F32),
        "dh": np.zeros((9, 16), F16), "quads": I32(4), "width": I32(16), "rows": I32(40),
    }  # fmt: skip


def _gathered(d: Data) -> Data:
    ids, known = d["ids"], d["ids"] >= 0
    total = np.zeros((9, 16))
    np.add.at(total, ids[known], d["grad"][known])
    return {"y": np.where(known[:, None], d["table"][ids], 0), "dt": total, "dh": total}


def _gates(r: Random) -> Data:
    d: Data = {
        "gates": r.standard_normal((6, 4, 50), F32), "bias": r.standard_normal((4, 50), F32),
        "peep": r.standard_normal((3, 50), F32), "c": r.standard_normal((6, 50), F32),
        "hidden": I32(50), "batch": I32(6),
    }  # fmt: skip
    return {**d, **{n: np.zeros((6, 50), F32) for n in ("c0", "h0", "c1", "h1")}}


def _cells(d: Data) -> Data:
    def sigmoid(v: Array) -> Array:
        return 1 / (1 + np.exp(-v))

    out: Data = {}
    peep, c = d["peep"].astype(float), d["c"].astype(float)
    for tag, on in (("0", 0.0), ("1", 1.0)):
        i, f, g, o = (d["gates"].astype(float) + d["bias"]).transpose(1, 0, 2)
        new = sigmoid(f + on * peep[1] * c) * c + sigmoid(i + on * peep[0] * c) * np.tanh(g)
        out |= {"c" + tag: new, "h" + tag: sigmoid(o + on * peep[2] * new) * np.tanh(new)}
    return out


def _images(r: Random) -> Data:
    return {
        "x": r.standard_normal((2, 3, 11, 13), F32), "w": r.standard_normal((20, 3, 3, 3), F32),
        "y": np.zeros((2, 20, 6, 7), F32),
        "g": np.array([3, 11, 13, 20, 3, 3, 2, 1, 6, 7], I32).tobytes(),
    }  # fmt: skip


def _convolved(d: Data) -> Data:
    x = np.pad(d["x"].astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    return {"y": np.einsum("ncyxrs,fcrs->nfyx", windows, d["w"])}


def _halves(r: Random) -> Data:
    x, y = ((2 * r.standard_normal(701)).astype(F16) for _ in range(2))
    return {
        "x": x, "y": y, "out": np.zeros(701, F16), "larger": np.zeros(1, I32), "alpha": F32(1.3),
        "n": I32(701),
    }  # fmt: skip


def _axpy(d: Data) -> Data:
    # a product of halves and a sum fit a double exactly: one rounding, as fma has
    exact = float(F16(1.3)) * d["x"].astype(float) + d["y"].astype(float)
    return {"out": np.minimum(exact.astype(F16), F16(3)), "larger": [(d["x"] > d["y"]).sum()]}


def _systems(r: Random) -> Data:
    a = r.standard_normal((5, 5, 70))
    a[:, 3, 10] = 0
    a[3, :, 11] = 0
    a[0, 0, :5] = 0
    return {
        "a": a, "b": r.standard_normal((5, 70)), "x": np.zeros((5, 70)), "det": np.ones(70),
        "batch": I32(70),
    }  # fmt: skip


def _solved(d: Data) -> Data:
    a, b, x = d["a"].transpose(2, 0, 1), d["b"].T, np.zeros((70, 5))
    det = np.linalg.det(a)
    fine = np.abs(det) > 1e-12
    x[fine] = np.linalg.solve(a[fine], b[fine][..., None])[..., 0]
    return {"x": x.T, "det": np.where(fine, det, 0)}


_CSR = "start column value x"

PROGRAMS = (
    Program(
        "spmv", _sparse,
        (Launch((3,), (64,), f"{_CSR} y0 rows", "csr_scalar"),
         Launch((5,), (128,), f"{_CSR} y1 rows", "csr_vector"),
         Launch((3,), (64,), "ell_c ell_v x y2 rows width", "ell")),
        _product, rtol=1e-5, atol=1e-5, follows="Bell and Garland: SpMV kernels",
    ),
    Program(
        "sgemm_float4", _sgemm, (Launch((1, 2), (256,), "a b c m n k alpha beta", "sgemm"),),
        lambda d: {"c": 0.5 * (d["a"].astype(float) @ d["b"]) - 2 * d["c"].astype(float)},
        rtol=1e-5, atol=1e-4, follows="MAGMA/MaxAs: sgemm with register tiles",
    ),
    Program(
        "hgemm_tensor", _hgemm, (Launch((2, 1), (128,), "a b c m n k", "hgemm", shared=24576),),
        lambda d: {"c": d["a"].astype(float) @ d["b"].astype(float)}, rtol=2e-3, atol=5e-3,
        since=80, follows="CUTLASS: multistage tensor-core GEMM",
    ),
    Program(
        "gemm_dp4a", _bytes, (Launch((3, 2), (16, 16), "a b scale c raw n words"),), _requantised
    ),
    Program(
        "batched_gemm", _batch, (Launch((3,), (16, 4), "as bs cs shape batch", shared=2464),),
        _batch_products, rtol=1e-12, atol=1e-12,
    ),
    Program(
        "online_softmax", _rows, (Launch((6,), (96,), "x y n"),), _softmax, rtol=1e-4, atol=1e-6,
        follows="Milakov and Gimelshein: online softmax",
    ),
    Program(
        "flash_attention", _heads, (Launch((3, 2), (32,), "q k v y lse n scale"),), _attention,
        rtol=1e-4, atol=1e-5, follows="FlashAttention: forward",
    ),
    Program(
        "normalisations", _features,
        (Launch((3,), (32, 4), "x gamma beta y quads eps", "layernorm"),
         Launch((5,), (64,), "h w g pairs eps", "rmsnorm")),
        _normalised, rtol=2e-3, atol=1e-3,
    ),
    Program(
        "cross_entropy", _logits,
        (Launch((10,), (64,), "x labels loss grad n smoothing ignored"),), _losses,
        rtol=1e-5, atol=1e-6,
    ),
    Program(
        "embedding", _words,
        (Launch((3,), (64,), "table ids y quads rows", "gather"),
         Launch((2,), (96,), "grad ids dt dh width rows", "scatter")), _gathered,
    ),
    Program(
        "lstm_cell", _gates,
        tuple(Launch((5,), (64,), f"gates bias peep c c{t} h{t} hidden batch", f"cell<{v}>")
              for t, v in (("0", "false"), ("1", "true"))),
        _cells, rtol=1e-5, atol=1e-6, names=("cell<false>", "cell<true>"),
    ),
    Program(
        "conv_implicit", _images, (Launch((3, 2, 2), (16, 16), "x w y g", "conv"),), _convolved,
        rtol=1e-5, atol=1e-5, names=("conv",), follows="cuDNN: implicit GEMM convolution",
    ),
    Program("half2_axpy", _halves, (Launch((2,), (64,), "x y out larger alpha n"),), _axpy),
    Program(
        "lu_small", _systems, (Launch((2,), (64,), "a b x det batch", "solve<5>"),), _solved,
        rtol=1e-8, atol=1e-9, names=("solve<5>",),
    ),
)  # fmt: skip
