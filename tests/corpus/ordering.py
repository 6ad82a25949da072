"""Scans, histograms, transposes, sorts and what is made of them."""

from __future__ import annotations

import numpy as np

from corpus.program import Data, Launch, Program

Random = np.random.Generator
I32 = np.int32


def _hillis(r: Random) -> Data:
    return {
        "x": r.standard_normal(700, np.float32), "y": np.zeros(700, np.float32),
        "totals": np.zeros(4, np.float32), "n": I32(700),
    }  # fmt: skip


def _hillis_scans(d: Data) -> Data:
    x = np.zeros(768)
    x[:700] = d["x"]
    scans = x.reshape(4, 192).cumsum(1)
    return {"y": scans.ravel()[:700], "totals": scans[:, -1]}


def _blelloch(r: Random) -> Data:
    return {
        "x": r.integers(-50, 50, 950, I32), "y": np.zeros(950, I32), "totals": np.zeros(8, I32),
        "offsets": np.zeros(8, I32), "all": np.zeros(1, I32), "n": I32(950), "m": I32(8),
    }  # fmt: skip


def _blelloch_scan(d: Data) -> Data:
    x = np.zeros(1024, I32)
    x[:950] = d["x"]
    scan = np.concatenate([[0], x.cumsum()]).astype(I32)
    return {
        "y": scan[:950], "totals": x.reshape(8, 128).sum(1), "offsets": scan[:1024:128],
        "all": scan[-1:],
    }  # fmt: skip


def _lookback(r: Random) -> Data:
    x = r.integers(0, 2**32, 20_000, np.uint32)
    return {
        "x": x, "y": np.zeros_like(x), "state": np.zeros(40, np.uint64),
        "ticket": np.zeros(1, np.uint32), "n": I32(20_000),
    }  # fmt: skip


def _lookback_scan(d: Data) -> Data:
    return {"y": d["x"].cumsum(dtype=np.uint32), "ticket": [40]}


def _bytes(r: Random) -> Data:
    return {
        "x": np.minimum(r.integers(0, 256, 8000), r.integers(0, 300, 8000)).astype(np.uint8),
        "part": np.zeros((5, 256), np.uint32), "bins": np.zeros(256, np.uint32),
        "words": I32(2000), "blocks": np.uint32(5),
    }  # fmt: skip


def _byte_bins(d: Data) -> Data:
    rows = np.zeros((5, 256), np.uint32)
    block = np.arange(2000) // 128 % 5
    np.add.at(rows, (block.repeat(4), d["x"]), 1)
    return {"part": rows, "bins": rows.sum(0)}


def _few(r: Random) -> Data:
    return {
        "x": (r.integers(0, 9, 40_000) % 6).astype(np.uint8), "n": I32(40_000),
        "bins": np.zeros(8, np.uint32),
    }  # fmt: skip


def _few_bins(d: Data) -> Data:
    return {"bins": np.bincount(d["x"], minlength=8)}


def _matrix(r: Random) -> Data:
    d: Data = {"x": r.standard_normal((70, 101), np.float32), "w": I32(101), "h": I32(70)}
    return {**d, **{f"y{k}": np.zeros((101, 70), np.float32) for k in range(4)}}


def _transposed(d: Data) -> Data:
    return {f"y{k}": d["x"].T for k in range(4)}


def _pairs(r: Random) -> Data:
    d: Data = {"keys": r.integers(0, 2**32, 512, np.uint32), "size": np.uint32(512)}
    d["values"] = d["keys"] ^ np.uint32(0x5A5A5A5A)
    return {**d, **{f"s{k}": np.uint32(1 << k) for k in range(9)}}


def _sorted_pairs(d: Data) -> Data:
    keys = np.sort(d["keys"])
    return {"keys": keys, "values": keys ^ np.uint32(0x5A5A5A5A)}


def _radix(r: Random) -> Data:
    x = r.integers(0, 2**32, (3, 512), np.uint32)
    x[1] &= 0xFF00F
    return {"x": x, "y": np.zeros_like(x)}


def _merge(r: Random) -> Data:
    d: Data = {}
    for tag, kind in (("i", np.int64), ("f", np.float32)):
        d[tag + "a"] = np.sort(r.integers(-99, 99, 500)).astype(kind)
        d[tag + "b"] = np.sort(r.integers(-99, 150, 341)).astype(kind)
        d[tag + "out"] = np.zeros(841, kind)
    return {**d, "na": I32(500), "nb": I32(341)}


def _merged(d: Data) -> Data:
    return {t + "out": np.sort(np.concatenate([d[t + "a"], d[t + "b"]])) for t in "if"}


def _sieve(r: Random) -> Data:
    return {
        "x": r.standard_normal(1500, np.float32), "n": I32(1500), "blocks": I32(8),
        "counts": np.zeros(8, I32), "starts": np.zeros(9, I32), "y": np.zeros(1500, np.float32),
        "at": np.full(1500, -1, I32),
    }  # fmt: skip


def _kept(d: Data) -> Data:
    keep = d["x"] > 0.25
    blocks = np.zeros(8 * 192, bool)
    blocks[:1500] = keep
    counts = blocks.reshape(8, 192).sum(1)
    places = np.flatnonzero(keep)
    y, at = d["y"].copy(), d["at"].copy()
    y[: places.size], at[: places.size] = d["x"][places], places
    return {"counts": counts, "starts": np.concatenate([[0], counts.cumsum()]), "y": y, "at": at}


def _runs(r: Random) -> Data:
    x = r.integers(0, 5, 200).repeat(r.integers(1, 6, 200))[:500].astype(np.uint8)
    return {
        "x": x, "n": I32(500), "values": np.zeros(512, np.uint8), "lengths": np.zeros(512, I32),
        "runs": np.zeros(1, I32),
    }  # fmt: skip


def _encoded(d: Data) -> Data:
    x = d["x"]
    heads = np.flatnonzero(np.concatenate([[True], x[1:] != x[:-1]]))
    values, lengths = d["values"].copy(), d["lengths"].copy()
    values[: heads.size] = x[heads]
    lengths[: heads.size] = np.diff(np.append(heads, 500))
    return {"values": values, "lengths": lengths, "runs": [heads.size]}


def _scores(r: Random) -> Data:
    x = r.integers(-300, 300, (8, 400)).astype(np.float32) / 4
    return {
        "x": x, "n": I32(400), "values": np.zeros((8, 5), np.float32),
        "places": np.zeros((8, 5), I32),
    }  # fmt: skip


def _top(d: Data) -> Data:
    places = np.argsort(-d["x"], axis=1, kind="stable")[:, :5]
    return {"places": places, "values": np.take_along_axis(d["x"], places, 1)}


def _unsorted(r: Random) -> Data:
    return {"x": r.integers(-999, 999, (64, 61), I32), "n": I32(61), "deepest": np.zeros(1, I32)}


def _depth_is_small(before: Data, after: Data) -> None:
    assert 1 <= after["deepest"][0] <= 6  # the smaller part is always taken first


PROGRAMS = (
    Program(
        "scan_hillis_steele", _hillis, (Launch((4,), (192,), "x y totals n", shared=1536),),
        _hillis_scans, atol=1e-4,
    ),
    Program(
        "scan_blelloch", _blelloch,
        (Launch((8,), (64,), "x y totals n", "scan_blocks", shared=528),
         Launch((1,), (4,), "totals offsets all m", "scan_blocks", shared=64),
         Launch((8,), (64,), "y offsets n", "add_offsets")),
        _blelloch_scan, follows="GPU Gems 3, chapter 39: parallel prefix sum",
    ),
    Program(
        "scan_lookback", _lookback, (Launch((40,), (128,), "x y state ticket n"),),
        _lookback_scan, scratch="state", follows="CUB: decoupled look-back scan",
    ),
    Program(
        "histogram_warps", _bytes,
        (Launch((5,), (128,), "x words part", "count"),
         Launch((256,), (64,), "part bins blocks", "merge")),
        _byte_bins, follows="GPU toolkit samples: histogram",
    ),
    Program("histogram_registers", _few, (Launch((2,), (64,), "x n bins"),), _few_bins, since=80),
    Program(
        "transposes", _matrix,
        tuple(Launch((4, 4), (32, 8), f"x y{k} w h", e)
              for k, e in enumerate(("naive", "tiled", "padded", "diagonal"))),
        _transposed, follows="GPU toolkit samples: transpose",
    ),
    Program(
        "bitonic_sort", _pairs,
        (Launch((2,), (128,), "keys values", "sort_blocks"),
         *(Launch((2,), (128,), f"keys values size s{k}", "merge_global")
           for k in range(8, -1, -1))),
        _sorted_pairs, follows="GPU toolkit samples: sortingNetworks",
    ),
    Program(
        "radix_sort", _radix, (Launch((3,), (256,), "x y"),), lambda d: {"y": np.sort(d["x"], 1)}
    ),
    Program(
        "merge_path", _merge,
        (Launch((3,), (64,), "ia na ib nb iout", "merge<long long, 5>"),
         Launch((2,), (96,), "fa na fb nb fout", "merge<float, 7>")),
        _merged, names=("merge<long long, 5>", "merge<float, 7>"),
        follows="Moderngpu: merge path",
    ),
    Program(
        "compaction", _sieve,
        (Launch((8,), (192,), "x n counts", "count"),
         Launch((1,), (1,), "counts starts blocks", "offsets"),
         Launch((8,), (192,), "x n starts y at", "compact")),
        _kept,
    ),
    Program(
        "run_length", _runs, (Launch((1,), (512,), "x n values lengths runs", shared=4096),),
        _encoded,
    ),
    Program(
        "top_k", _scores, (Launch((2,), (32, 4), "x n values places", "top<5>"),), _top,
        names=("top<5>",),
    ),
    Program(
        "quicksort_stack", _unsorted, (Launch((2,), (32,), "x n deepest"),),
        lambda d: {"x": np.sort(d["x"], 1)}, judged="deepest", verify=_depth_is_small,
        follows="GPU toolkit samples: quicksort",
    ),
)  # fmt: skip
