"""Tables, graphs, strings and searches."""

from __future__ import annotations

import itertools
import re

import numpy as np

from corpus.program import Array, Data, Launch, Program

Random = np.random.Generator
I32, U32, F32, U8 = np.int32, np.uint32, np.float32, np.uint8
EMPTY = 0xFFFFFFFF


def _table(r: Random) -> Data:
    keys = r.choice(2**31, 300, replace=False).astype(U32)[r.integers(0, 300, 700)]
    return {
        "table": np.array([[EMPTY, 0]] * 512, U32), "keys": keys, "capacity": U32(512),
        "values": r.integers(0, 99, 700, U32), "n": I32(700), "used": np.zeros(1, I32),
        "asked": np.concatenate([keys[:100], r.integers(2**31, 2**32 - 1, 60, U32)]),
        "found": np.zeros(160, U32), "gone": np.unique(keys)[:40], "m": I32(160), "g": I32(40),
    }  # fmt: skip


def _looked_up(d: Data) -> Data:
    sums: dict[int, int] = {}
    for key, value in zip(d["keys"].tolist(), d["values"].tolist(), strict=True):
        sums[key] = sums.get(key, 0) + value
    sums |= dict.fromkeys(d["gone"].tolist(), EMPTY)
    return {"found": [sums.get(k, EMPTY) for k in d["asked"].tolist()], "used": [len(sums)]}


def _whole_table(before: Data, after: Data) -> None:
    keys = after["table"][:, 0]
    np.testing.assert_array_equal(np.sort(keys[keys != EMPTY]), np.unique(before["keys"]))


def _graph(r: Random, vertices: int, edges: int) -> tuple[Array, Array]:
    """Edges both ways, as starts and targets."""
    ends = r.integers(0, vertices, (edges, 2))
    both = np.unique(np.concatenate([ends, ends[:, ::-1]]), axis=0)
    start = np.searchsorted(both[:, 0], np.arange(vertices + 1)).astype(I32)
    return start, both[:, 1].astype(I32)


def _frontiers(r: Random) -> Data:
    start, edge = _graph(r, 600, 900)
    level = np.full(600, -1, I32)
    level[0] = 0
    d: Data = {"start": start, "edge": edge, "level": level}
    for depth in range(12):
        d[f"q{depth}"], d[f"n{depth}"] = np.zeros(600, I32), np.zeros(1, I32)
        d[f"d{depth}"] = I32(depth)
    d["n0"][0] = 1
    return d


def _levels(d: Data) -> Data:
    level, front, out = d["level"].copy(), [0], {}
    for depth in range(1, 12):
        new = []
        for v in front:
            for u in d["edge"][d["start"][v] : d["start"][v + 1]].tolist():
                if level[u] < 0:
                    level[u] = depth
                    new.append(u)
        front = new
        out[f"n{depth}"] = [len(new)]
    return {**out, "level": level}


def _frontiers_are_levels(before: Data, after: Data) -> None:
    for depth in range(1, 12):
        found = np.sort(after[f"q{depth}"][: after[f"n{depth}"][0]])
        np.testing.assert_array_equal(found, np.flatnonzero(after["level"] == depth))


def _pieces(r: Random) -> Data:
    edges = r.integers(0, 400, (260, 2), I32)
    return {"parent": np.zeros(400, I32), "edges": edges, "n": I32(400), "m": I32(260)}


def _components(d: Data) -> Data:
    label = np.arange(400)
    for _ in range(400):
        low = np.minimum(label[d["edges"][:, 0]], label[d["edges"][:, 1]])
        new = label.copy()
        np.minimum.at(new, d["edges"][:, 0], low)
        np.minimum.at(new, d["edges"][:, 1], low)
        if (new == label).all():
            break
        label = new
    return {"parent": label}


def _web(r: Random) -> Data:
    links = [r.choice(90, r.integers(0, 40), replace=False) for _ in range(90)]
    start = np.concatenate([[0], np.cumsum([len(x) for x in links])]).astype(I32)
    return {
        "start": start, "link": np.concatenate(links).astype(I32), "n": I32(90), "d": F32(0.85),
        "rank": np.full(90, 1 / 90, F32), "next": np.zeros(90, F32), "lost": np.zeros(1, F32),
    }  # fmt: skip


def _ranks(d: Data) -> Data:
    out = np.diff(d["start"])
    rank = np.full(90, 1 / 90)
    for _ in range(3):
        new = np.zeros(90)
        np.add.at(new, d["link"], np.repeat(rank / np.maximum(out, 1), out))
        rank = 0.15 / 90 + 0.85 * (new + rank[out == 0].sum() / 90)
    return {"rank": rank}


def _text(r: Random) -> Data:
    text = r.choice(list(b"ab"), 2000).astype(U8)
    return {
        "text": text, "n": I32(2000), "pattern": np.frombuffer(b"abbabab".ljust(16, b"\0"), U8),
        "length": I32(7), "marks": np.zeros(64, U32), "counts": np.zeros(16, I32),
    }  # fmt: skip


def _places(d: Data) -> Data:
    hits = np.zeros(2048, bool)
    hits[[m.start() for m in re.finditer(b"(?=abbabab)", d["text"].tobytes())]] = True
    words = np.packbits(hits.reshape(-1, 32), axis=1, bitorder="little").view(U32).ravel()
    return {"marks": words, "counts": hits.reshape(16, 128).sum(1)}


def _records(r: Random) -> Data:
    good = ["12", "-7", "3.25", "-0.5e3", "10e-2", "5e07", "-", "1.", "e5", "1e", "1.5e-", "--1"]
    words = [good[k] + ("" if k % 5 else str(j % 7)) for j, k in enumerate(r.integers(0, 12, 90))]
    data = "".join(w.ljust(10) for w in words).encode()
    return {
        "x": np.frombuffer(data, U8), "width": I32(10), "n": I32(90), "ends": np.zeros(90, I32)
    }  # fmt: skip


def _ends(d: Data) -> Data:
    words = [bytes(row).decode().rstrip() for row in d["x"].reshape(90, 10)]
    states = (r"", r"-", r"-?\d+", r"-?\d+\.", r"-?\d+\.\d+", r"-?\d+(\.\d+)?e",
              r"-?\d+(\.\d+)?e-", r"-?\d+(\.\d+)?e-?\d+")  # fmt: skip

    def end(word: str) -> int:
        state = next((s for s, p in enumerate(states) if re.fullmatch(p, word)), 8)
        return len(word) if state in (2, 4, 7) else -state

    return {"ends": [end(w) for w in words]}


def _pairs(r: Random) -> Data:
    return {
        "a": r.integers(97, 101, (6, 60), U8), "b": r.integers(97, 101, (6, 60), U8),
        "lengths": r.integers(20, 61, (6, 2), I32), "pitch": I32(60), "out": np.zeros(6, I32),
    }  # fmt: skip


def _distances(d: Data) -> Data:
    out = []
    for a, b, (m, n) in zip(d["a"], d["b"], d["lengths"], strict=True):
        row = list(range(n + 1))
        for i in range(1, m + 1):
            before, row[0] = row[0], i
            for j in range(1, n + 1):
                change = before + int(a[i - 1] != b[j - 1])
                before, row[j] = row[j], min(change, row[j] + 1, row[j - 1] + 1)
        out.append(row[n])
    return {"out": out}


def _sequences(r: Random) -> Data:
    a = r.integers(0, 4, (4, 50), U8)
    b = np.where(r.random((4, 50)) < 0.6, np.roll(a, 3, 1), r.integers(0, 4, (4, 50), U8))
    return {"a": a, "b": b.astype(U8), "n": I32(50), "best": np.zeros(4, I32)}


def _alignments(d: Data) -> Data:
    best = []
    for a, b in zip(d["a"].tolist(), d["b"].tolist(), strict=True):
        h = np.zeros((51, 51), int)
        e, f = np.full((51, 51), -999), np.full((51, 51), -999)
        for i, j in itertools.product(range(1, 51), range(1, 51)):
            e[i, j] = max(e[i, j - 1] - 1, h[i, j - 1] - 5)
            f[i, j] = max(f[i - 1, j] - 1, h[i - 1, j] - 5)
            diagonal = h[i - 1, j - 1] + (3 if a[i - 1] == b[j - 1] else -2)
            h[i, j] = max(0, diagonal, e[i, j], f[i, j])
        best.append(h.max())
    return {"best": best}


def _puzzles(r: Random) -> Data:
    grid = np.array([[1, 2, 3, 4], [3, 4, 1, 2], [2, 1, 4, 3], [4, 3, 2, 1]], U8)
    out = np.zeros((40, 16), U8)
    for t in range(40):
        digits = np.concatenate([[0], r.permutation(4) + 1]).astype(U8)
        out[t] = digits[grid].ravel() * (r.random(16) < 0.45)
    return {
        "x": out, "y": np.zeros((40, 16), U8), "count": np.full(40, -1, I32), "n": I32(40),
        "q": I32(7), "ways": np.zeros(1, np.uint64),
    }  # fmt: skip


def _fits(board: list[int], at: int, digit: int) -> bool:
    return all(
        board[k] != digit
        for k in range(16)
        if k != at
        and (k // 4 == at // 4 or k % 4 == at % 4 or (k // 8, k % 4 // 2) == (at // 8, at % 4 // 2))
    )


def _solutions(board: list[int]) -> list[list[int]]:
    if 0 not in board:
        return [board]
    at = board.index(0)
    tries = (d for d in range(1, 5) if _fits(board, at, d))
    return [s for d in tries for s in _solutions([*board[:at], d, *board[at + 1 :]])]


def _all_solved(d: Data) -> Data:
    y, counts = d["y"].copy(), []
    for t, puzzle in enumerate(d["x"].tolist()):
        found = _solutions(puzzle)
        counts.append(len(found))
        if found:
            y[t] = found[0]
    return {"y": y, "count": counts, "ways": [40]}


def _weights(r: Random) -> Data:
    w = r.integers(1, 200, (50, 12, 12)) * (r.random((50, 12, 12)) < 0.25)
    return {"w": w.astype(U8), "out": np.zeros((50, 12), U32), "n": I32(50)}


def _shortest(d: Data) -> Data:
    w = d["w"].astype(float)
    w[w == 0] = np.inf
    w[:, np.arange(12), np.arange(12)] = 0
    for k in range(12):
        w = np.minimum(w, w[:, :, k : k + 1] + w[:, k : k + 1, :])
    return {"out": np.where(np.isinf(w[:, 0]), EMPTY, w[:, 0]).astype(np.int64)}


def _points(r: Random) -> Data:
    middles = 5 * r.standard_normal((3, 5))
    points = middles[:, r.integers(0, 5, 400)] + r.standard_normal((3, 400))
    return {
        "p": points.astype(F32), "c": points[:, :5].T.astype(F32).copy(), "n": I32(400),
        "label": np.full(400, -1, I32), "sums": np.zeros((5, 3), F32), "counts": np.zeros(5, I32),
        "changed": np.zeros(1, I32),
    }  # fmt: skip


def _clusters(d: Data) -> Data:
    p, c, label, changed = d["p"].astype(float), d["c"].astype(float), d["label"], 0
    for _ in range(3):
        new = ((p.T[:, None] - c) ** 2).sum(2).argmin(1)
        changed += int((new != label).sum())
        label = new
        c = np.stack([p[:, label == k].mean(1) for k in range(5)])
    return {"c": c, "label": label, "changed": [changed]}


_STEPS = ("p c label sums counts changed n", "c sums counts")

PROGRAMS = (
    Program(
        "hash_table", _table,
        (Launch((6,), (128,), "table capacity keys values n used", "insert"),
         Launch((1,), (64,), "table capacity gone g", "erase"),
         Launch((3,), (64,), "table capacity asked found m", "lookup")),
        _looked_up, judged="table", verify=_whole_table, follows="SimpleGPUHashTable",
    ),
    Program(
        "bfs_frontier", _frontiers,
        tuple(Launch((2,), (64,), f"start edge level q{d - 1} n{d - 1} q{d} n{d} d{d}", "expand")
              for d in range(1, 12)),
        _levels, judged=" ".join(f"q{d}" for d in range(12)), verify=_frontiers_are_levels,
        follows="Luo et al.: BFS with hierarchical queues",
    ),
    Program(
        "connected_components", _pieces,
        (Launch((4,), (128,), "parent n", "start"), Launch((3,), (96,), "parent edges m", "hook"),
         Launch((4,), (128,), "parent n", "flatten")),
        _components, follows="ECL-CC: connected components",
    ),
    Program(
        "page_rank", _web,
        tuple(launch for _ in range(3) for launch in (
            Launch((2,), (96,), "start link rank next lost n", "push"),
            Launch((1,), (96,), "rank next lost n d", "damp"),
            Launch((1,), (1,), "lost", "clear"))),
        _ranks, rtol=1e-4, atol=1e-7,
    ),
    Program(
        "string_search", _text, (Launch((16,), (128,), "text n length marks counts"),), _places,
        symbols={"pattern": "pattern"},
    ),
    Program("dfa_match", _records, (Launch((2,), (64,), "x width n ends"),), _ends),
    Program(
        "edit_distance", _pairs, (Launch((6,), (32,), "a b lengths pitch out", shared=366),),
        _distances,
    ),
    Program(
        "smith_waterman", _sequences, (Launch((4,), (32,), "a b n best", shared=400),),
        _alignments, since=80, follows="CUDASW++: Smith-Waterman",
    ),
    Program(
        "sudoku_backtrack", _puzzles,
        (Launch((2,), (32,), "x y count n"), Launch((1,), (32,), "q ways", "queens")), _all_solved,
    ),
    Program("priority_queue", _weights, (Launch((2,), (32,), "w out n"),), _shortest),
    Program(
        "kmeans", _points,
        tuple(launch for _ in range(3) for launch in (
            Launch((4,), (128,), _STEPS[0], "assign"), Launch((1,), (5, 3), _STEPS[1], "update"))),
        _clusters, rtol=1e-4, atol=1e-4, scratch="sums counts",
    ),
)  # fmt: skip
