"""Cross-lane rules against the manual's pseudocode, lane by lane."""

from __future__ import annotations

import numpy as np
import pytest
from rules_machine import PAIR, Case, run

WARPS = 6
FEATURES = pytest.mark.parametrize("features", ["", None], ids=["portable", "host"])


def random_words(seed: int, low: int = 0, high: int = 1 << 32) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, 32 * WARPS, dtype=np.uint64).astype("u4")


def every_lane() -> np.ndarray:
    return np.ones(32 * WARPS, bool)


def masks() -> np.ndarray:
    """All lanes, one lane, none of the upper half, and random ones."""
    rng = np.random.default_rng(9)
    out = rng.integers(0, 2, (WARPS, 32)).astype(bool)
    out[0], out[1] = True, np.arange(32) == 13
    out[2] = np.arange(32) < 16
    out[:, 5] |= ~out.any(axis=1)
    return out.reshape(-1)


def shuffled(
    mode: str, a: np.ndarray, b: np.ndarray, c: np.ndarray
) -> tuple[list[int], list[bool]]:
    """The pseudocode of shfl.sync."""
    values, flags = [], []
    for warp in range(0, len(a), 32):
        for lane in range(32):
            bval, cval = int(b[warp + lane]) & 31, int(c[warp + lane]) & 31
            segmask = int(c[warp + lane]) >> 8 & 31
            max_lane = (lane & segmask) | (cval & ~segmask)
            min_lane = lane & segmask
            if mode == "up":
                j = lane - bval
                inside = j >= max_lane
            elif mode == "down":
                j = lane + bval
                inside = j <= max_lane
            elif mode == "bfly":
                j = lane ^ bval
                inside = j <= max_lane
            else:
                j = min_lane | (bval & ~segmask)
                inside = j <= max_lane
            values.append(int(a[warp + (j if inside else lane)]))
            flags.append(inside)
    return values, flags


CLAMPS = {"up": (0, 0x1800, 0x1C00), "down": (0x1F, 0x181F, 0x1C1F, 0x0707)}


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@FEATURES
def test_shuffles(mode: str, features: str | None) -> None:
    a, full = random_words(1), every_lane()
    clamps = CLAMPS.get(mode, CLAMPS["down"])
    cases = [Case(f"shfl.sync.{mode}.b32", [a, b, c, -1], PAIR, full)
             for b in (0, 1, 2, 7, 16, 31, 33) for c in clamps]  # fmt: skip
    cases += [
        Case(f"shfl.sync.{mode}.b32", [a, random_words(2, 0, 64), c, -1], PAIR, full)
        for c in clamps
    ]
    cases.append(Case(f"shfl.sync.{mode}.b32", [a, random_words(3, 0, 64),
                      random_words(4, 0, 1 << 13), -1],
                      PAIR, full))  # fmt: skip
    run(cases, features=features)
    for case in cases:
        b, c = (np.full(len(a), s) if isinstance(s, int) else s for s in case.sources[1:3])
        values, flags = shuffled(mode, a, b, c)
        assert case.results[0].tolist() == values, case.sources[1:3]
        assert case.results[1].tolist() == flags


def test_shuffle_of_a_float_register_and_no_predicate() -> None:
    x = random_words(5).view(np.float32)
    case = Case("shfl.sync.bfly.b32", [x, 1, 0x1F, -1], mask=every_lane())
    run([case])
    assert len(case.results) == 1
    assert (case.results[0] == x.view("u4").reshape(-1, 2)[:, ::-1].reshape(-1)).all()


def per_warp(rule, *arrays: np.ndarray) -> np.ndarray:
    """``rule`` on the slices of each warp, its result in all lanes."""
    rows = [rule(*(a[k : k + 32] for a in arrays)) for k in range(0, 32 * WARPS, 32)]
    return np.repeat(np.array(rows), 32)


def word(flags: np.ndarray) -> int:
    return sum(int(f) << k for k, f in enumerate(flags))


@pytest.mark.parametrize("member", [-1, 0x0000FFFF, 0xFFFFFFFF])
def test_votes(member: int) -> None:
    p, mask = random_words(6, 0, 2).astype(bool), masks()
    p[64:96] = True
    named = np.resize(np.array([member >> k & 1 for k in range(32)], bool), len(p))
    cases = {m: Case(f"vote.sync.{m}.pred", [p, member], mask=mask) for m in ("all", "any", "uni")}
    ballot = Case("vote.sync.ballot.b32", [p, member], mask=mask)
    active = Case("activemask.b32", [], mask=mask)
    run([*cases.values(), ballot, active])
    lanes = mask & named
    rules = {"all": lambda q, m: q[m].all(), "any": lambda q, m: q[m].any(),
             "uni": lambda q, m: q[m].all() or not q[m].any()}  # fmt: skip
    for name, rule in rules.items():
        assert (cases[name].results[0] == per_warp(rule, p, lanes)).all(), name
    assert (ballot.results[0] == per_warp(lambda q, m: word(q & m), p, lanes)).all()
    assert (active.results[0] == per_warp(word, mask)).all()


@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_matches(kind: str) -> None:
    a = random_words(7, 0, 4).astype("u8" if kind == "b64" else "u4")
    if kind == "b64":
        a <<= np.uint64(33)
    a[:32], mask = 5, masks()
    some = Case(f"match.any.sync.{kind}", [a, -1], mask=mask)
    every = Case(f"match.all.sync.{kind}", [a, -1], PAIR, mask)
    run([some, every])
    for warp in range(0, len(a), 32):
        values, lanes = a[warp : warp + 32], mask[warp : warp + 32]
        for lane in np.flatnonzero(lanes):
            assert some.results[0][warp + lane] == word((values == values[lane]) & lanes)
        same = len(set(values[lanes].tolist())) == 1
        agreed, flags = (result[warp : warp + 32][lanes] for result in every.results)
        assert (agreed == (word(lanes) if same else 0)).all()
        assert (flags == same).all()


REDUCTIONS = {
    "add.u32": lambda v: int(v.sum(dtype=np.uint64)) & 0xFFFFFFFF,
    "add.s32": lambda v: int(v.sum(dtype=np.uint64)) & 0xFFFFFFFF,
    "min.u32": lambda v: int(v.min()), "max.u32": lambda v: int(v.max()),
    "min.s32": lambda v: int(v.view("i4").min()) & 0xFFFFFFFF,
    "max.s32": lambda v: int(v.view("i4").max()) & 0xFFFFFFFF,
    "and.b32": lambda v: int(np.bitwise_and.reduce(v)),
    "or.b32": lambda v: int(np.bitwise_or.reduce(v)),
    "xor.b32": lambda v: int(np.bitwise_xor.reduce(v)),
}  # fmt: skip


def test_reductions() -> None:
    a, mask = random_words(8), masks()
    cases = {form: Case(f"redux.sync.{form}", [a, -1], mask=mask) for form in REDUCTIONS}
    run(list(cases.values()))
    for form, rule in REDUCTIONS.items():
        want = per_warp(lambda v, m, rule=rule: rule(v[m]), a, mask)
        assert (cases[form].results[0] == want).all(), form


def test_election() -> None:
    mask = masks()
    case = Case("elect.sync", [-1], PAIR, mask)
    run([case])
    first = per_warp(lambda m: np.flatnonzero(m)[0], mask)
    assert (case.results[0] == first).all()
    assert (case.results[1] == (np.arange(len(mask)) % 32 == first)).all()


def test_movmatrix_transposes() -> None:
    a = random_words(10)
    case = Case("movmatrix.sync.aligned.m8n8.trans.b16", [a], mask=every_lane())
    run([case])
    matrices = a.view("u2").reshape(WARPS, 8, 8)  # row g in the lanes 4g .. 4g + 3
    assert (case.results[0].view("u2").reshape(WARPS, 8, 8) == matrices.transpose(0, 2, 1)).all()
