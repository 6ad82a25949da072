"""Reductions in many styles: trees, shuffles, atomics, cooperative groups, merged moments."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from corpus.program import Data, Launch, Program

Random = np.random.Generator


def _tree(r: Random) -> Data:
    return {
        "x": r.standard_normal(4000, np.float32), "part": np.zeros(8, np.float32),
        "out": np.zeros(1, np.float32), "n": np.uint32(4000), "m": np.uint32(8),
    }  # fmt: skip


def _tree_sums(d: Data) -> Data:
    x = np.zeros(4096)
    x[:4000] = d["x"]
    part = x.reshape(8, 512).sum(1)
    return {"part": part, "out": [part.sum()]}


def _unrolled(r: Random) -> Data:
    return {
        "x": r.standard_normal(6000), "out": np.zeros(4), "odd": np.zeros(3),
        "n": np.uint32(4096), "m": np.uint32(5999),
    }  # fmt: skip


def _strided_sums(x: np.ndarray, stride: int, blocks: int) -> np.ndarray:
    whole = np.zeros(-(-x.size // (stride * blocks)) * stride * blocks)
    whole[: x.size] = x
    return whole.reshape(-1, blocks, stride).sum((0, 2))


def _unrolled_sums(d: Data) -> Data:
    return {
        "out": _strided_sums(d["x"][:4096], 256, 4), "odd": _strided_sums(d["x"][:5999], 1024, 3)
    }  # fmt: skip


def _stats(r: Random) -> Data:
    return {
        "x": r.standard_normal((9, 700), np.float32), "out": np.zeros((9, 3), np.float32),
        "n": np.int32(700),
    }  # fmt: skip


def _stats_of_rows(d: Data) -> Data:
    x = d["x"].astype(np.float64)
    return {"out": np.stack([x.sum(1), x.min(1), x.max(1)], 1)}


def _atomics(r: Random) -> Data:
    return {
        "x": r.integers(-(2**31), 2**31, 5000, np.int32), "n": np.int64(5000),
        "total": np.zeros(1, np.uint64), "mean": np.zeros(1),
    }  # fmt: skip


def _atomic_sums(d: Data) -> Data:
    total = 2 * d["x"].astype(np.int64).sum()
    return {"total": np.array([total]).astype(np.uint64), "mean": [total / 5000]}


def _groups(r: Random) -> Data:
    x = r.integers(-99, 99, 512, np.int32)
    return {
        "x": x, "blocks": np.zeros(4, np.int32), "tiles": np.zeros(64, np.int32),
        "odd": np.zeros(16, np.int32),
    }  # fmt: skip


def _group_sums(d: Data) -> Data:
    x = d["x"]
    return {
        "blocks": x.reshape(4, -1).sum(1), "tiles": x.reshape(-1, 8).sum(1),
        "odd": (x & 1).reshape(-1, 32).sum(1),
    }  # fmt: skip


def _tiles(r: Random) -> Data:
    x = r.integers(-99, 99, 256, np.int32)
    return {"x": x, **{n: np.zeros_like(x) for n in ("sums", "highest", "scans", "shifted")}}


def _tile_results(d: Data) -> Data:
    x = d["x"].reshape(-1, 16)
    rank = np.arange(16)[:, None] % 8
    return {
        "sums": x.sum(1).repeat(16), "highest": x.max(1).repeat(16),
        "scans": x.cumsum(1, dtype=np.int32).ravel(),
        "shifted": (np.roll(x, -3, 1) + rank).ravel(),
    }  # fmt: skip


def _bfloat(r: Random) -> Data:
    a, b = (r.standard_normal((8, 300)).astype(ml_dtypes.bfloat16) for _ in range(2))
    return {
        "a": a.view(np.uint16), "b": b.view(np.uint16), "out": np.zeros(8, np.float32),
        "rounded": np.zeros(8, np.uint16), "n": np.int32(150),
    }  # fmt: skip


def _dots(d: Data) -> Data:
    a, b = (d[n].view(ml_dtypes.bfloat16).astype(np.float64) for n in "ab")
    return {"out": (a * b).sum(1)}


def _rounded_dots(before: Data, after: Data) -> None:
    want = after["out"].astype(ml_dtypes.bfloat16).view(np.uint16)
    np.testing.assert_array_equal(after["rounded"], want)


def _rows(r: Random) -> Data:
    x = r.integers(-500, 500, (7, 333)).astype(np.float32) / 7
    return {
        "x": x, "n": np.int32(333), "best": np.zeros(7, np.float32), "place": np.zeros(7, np.int32)
    }  # fmt: skip


def _argmax(d: Data) -> Data:
    return {"best": d["x"].max(1), "place": d["x"].argmax(1)}


def _moments(r: Random) -> Data:
    x = 5 + 3 * r.standard_normal((6, 500))
    d: Data = {"x": x, "y": x.astype(np.float32), "n": np.int32(500)}
    for name, kind in (("mean", np.float64), ("fmean", np.float32)):
        d[name], d[name + "_var"] = np.zeros(6, kind), np.zeros(6, kind)
    return d


def _mean_and_variance(d: Data) -> Data:
    mean, var = d["x"].mean(1), d["x"].var(1)
    return {"mean": mean, "mean_var": var, "fmean": mean, "fmean_var": var}


PROGRAMS = (
    Program(
        "reduce_tree", _tree,
        (Launch((8,), (256,), "x part n", shared=1024),
         Launch((1,), (8,), "part out m", shared=32)),
        _tree_sums, atol=1e-4, follows="GPU toolkit samples: reduction",
    ),
    Program(
        "reduce_unrolled", _unrolled,
        (Launch((4,), (128,), "x out n", "sum<128, true>"),
         Launch((3,), (512,), "x odd m", "sum<512, false>")),
        _unrolled_sums, rtol=1e-11, atol=1e-11, names=("sum<128, true>", "sum<512, false>"),
        follows="GPU toolkit samples: reduction",
    ),
    Program(
        "reduce_shuffle", _stats, (Launch((9,), (224,), "x out n"),), _stats_of_rows, atol=1e-4
    ),
    Program(
        "reduce_atomics", _atomics, (Launch((6,), (96,), "x n total mean", repeat=2),),
        _atomic_sums, rtol=1e-15, follows="GPU toolkit samples: threadFenceReduction",
    ),
    Program(
        "reduce_groups", _groups, (Launch((4,), (128,), "x blocks tiles odd", shared=512),),
        _group_sums, follows="GPU toolkit samples: simpleCooperativeGroups",
    ),
    Program(
        "groups_reduce_scan", _tiles, (Launch((2,), (128,), "x sums highest scans shifted"),),
        _tile_results,
    ),
    Program(
        "dot_bfloat", _bfloat, (Launch((2,), (128,), "a b out rounded n"),), _dots,
        rtol=1e-5, atol=1e-4, judged="rounded", verify=_rounded_dots,
    ),
    Program("argmax_rows", _rows, (Launch((7,), (128,), "x n best place"),), _argmax),
    Program(
        "welford", _moments,
        (Launch((6,), (128,), "x n mean mean_var", "moments<double, 4>"),
         Launch((6,), (64,), "y n fmean fmean_var", "moments<float, 2>")),
        _mean_and_variance, rtol=1e-5, names=("moments<double, 4>", "moments<float, 2>"),
    ),
)  # fmt: skip
