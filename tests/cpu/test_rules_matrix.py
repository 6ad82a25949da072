"""``mma.sync`` against a matrix product over the fragment layouts drawn in the PTX manual."""

from __future__ import annotations

import re

import numpy as np
import pytest
from exact_floats import FORMATS
from rules_machine import Case, run

from ge2rt.base.errors import UnsupportedError
from ge2rt.ptx.rules.operands import TYPES
from ge2rt.ptx.rules.wmma import places

LANE = np.arange(32)
G, T = LANE // 4, LANE % 4
WARPS = 3

# Fragment tables of the manual: element i of a lane -> (row, column), by shape and width.
A_FRAGMENTS = {
    ("m16n8k8", 16): lambda i: (G + (8 if i >= 2 else 0), T * 2 + (i & 1)),
    ("m16n8k16", 16): lambda i: (
        G + (0 if i in (0, 1, 4, 5) else 8), T * 2 + (i & 1) + (8 if i >= 4 else 0)),
    ("m16n8k4", 32): lambda i: (G + (8 if i == 1 else 0), T),
    ("m16n8k8", 32): lambda i: (G + (0 if i in (0, 2) else 8), T + (4 if i >= 2 else 0)),
    ("m8n8k4", 64): lambda i: (G, T),
    ("m16n8k8", 64): lambda i: (G + (0 if i in (0, 2) else 8), T + (4 if i >= 2 else 0)),
    ("m8n8k16", 8): lambda i: (G, T * 4 + i),
    ("m16n8k16", 8): lambda i: (G + (0 if i < 4 else 8), T * 4 + (i & 3)),
    ("m16n8k32", 8): lambda i: (
        G + (0 if i < 4 or 8 <= i < 12 else 8), T * 4 + (i & 3) + (16 if i >= 8 else 0)),
}  # fmt: skip
B_FRAGMENTS = {
    ("m16n8k8", 16): lambda i: (T * 2 + (i & 1), G),
    ("m16n8k16", 16): lambda i: (T * 2 + (i & 1) + (8 if i >= 2 else 0), G),
    ("m16n8k4", 32): lambda i: (T, G),
    ("m16n8k8", 32): lambda i: (T + 4 * i, G),
    ("m8n8k4", 64): lambda i: (T, G),
    ("m16n8k8", 64): lambda i: (T + 4 * i, G),
    ("m8n8k16", 8): lambda i: (T * 4 + i, G),
    ("m16n8k16", 8): lambda i: (T * 4 + i, G),
    ("m16n8k32", 8): lambda i: (T * 4 + (i & 3) + (16 if i >= 4 else 0), G),
}


def c_fragment(i: int) -> tuple[np.ndarray, np.ndarray]:
    return G + 8 * (i // 2), T * 2 + (i & 1)


def decode(words: np.ndarray, kind: str) -> np.ndarray:
    """Bits as numbers in double."""
    if kind in FORMATS and kind in ("f16", "bf16"):
        f = FORMATS[kind]
        return np.array([f.decode(int(w)) for w in words.ravel()]).reshape(words.shape)
    if kind == "tf32":
        return (words & np.uint32(0xFFFFE000)).view(np.float32).astype(float)
    return words.astype(float) if kind != "f64" else words.view(np.float64)


def encode(values: np.ndarray, kind: str) -> np.ndarray:
    """Numbers as bits of a type (they fit)."""
    if kind in ("f16", "bf16"):
        f = FORMATS[kind]
        return np.array([f.round(float(v), "rn") for v in values.ravel()], "u2").reshape(
            values.shape
        )
    if kind == "tf32":
        return values.astype(np.float32).view("u4")
    if kind == "f64":
        return values
    return values.astype(kind.replace("s", "i").replace("u8", "u1").replace("i8", "i1"))


def fragments(matrices: np.ndarray, layout, count: int) -> list[np.ndarray]:
    """Element i of all lanes of all warps, for each i."""
    return [matrices[:, layout(i)[0], layout(i)[1]].reshape(-1) for i in range(count)]


def registers(elements: list[np.ndarray], bits: int) -> list[np.ndarray]:
    """Neighbouring elements packed to 32-bit registers, the first lowest."""
    if bits >= 32:
        return elements
    pack = 32 // bits
    stacked = [np.stack(elements[k : k + pack], axis=1) for k in range(0, len(elements), pack)]
    return [np.ascontiguousarray(s).view(np.uint32).reshape(-1) for s in stacked]


WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8}
FORMS = [
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
    "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
    "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64",
    "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32",
    "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32",
    "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32",
    "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32",
]


def build(form: str, rng: np.random.Generator) -> tuple[Case, np.ndarray]:
    """A case with random matrices and the exact product in double."""
    shape = form.split(".")[3]
    m, k = map(int, re.fullmatch(r"m(\d+)n8k(\d+)", shape).groups())
    kind_a, kind_b, kind_c = form.split(".")[-3:]
    bits = WIDTH[kind_a]
    a, b = (draw(rng, kind, size) for kind, size in
            ((kind_a, (WARPS, m, k)), (kind_b, (WARPS, k, 8))))  # fmt: skip
    c = draw(rng, kind_c, (WARPS, m, 8))
    given_a = registers(fragments(a, A_FRAGMENTS[shape, bits], m * k // 32), bits)
    given_b = registers(fragments(b, B_FRAGMENTS[shape, bits], k * 8 // 32), bits)
    given_c = registers(fragments(c, c_fragment, m * 8 // 32), 16 if kind_c == "f16" else 32)
    if kind_c == "f64":
        given_a, given_b, given_c = (
            [x.view(np.float64) for x in v] for v in (given_a, given_b, given_c)
        )
    if kind_c == "s32":
        given_c = [x.view("u4") for x in given_c]
    case = Case(form, [*given_a, *given_b, *given_c], mask=np.ones(32 * WARPS, bool))
    exact = decode(a, kind_a) @ decode(b, kind_b) + decode(c, kind_c)
    return case, exact


def draw(rng: np.random.Generator, kind: str, size: tuple[int, ...]) -> np.ndarray:
    if kind == "f32":
        return rng.standard_normal(size).astype(np.float32)
    if kind == "s32":
        return rng.choice(np.array([2**31 - 1, -(2**31), 12345, -7], np.int32), size)
    if kind in ("s8", "u8"):
        low, high = (-128, 128) if kind == "s8" else (0, 256)
        return rng.integers(low, high, size).astype("i1" if kind == "s8" else "u1")
    return encode(rng.standard_normal(size), kind)


def test_products_over_the_manuals_layouts() -> None:
    rng = np.random.default_rng(0)
    cases = [build(form, rng) for form in FORMS]
    run([case for case, _ in cases])
    for case, exact in cases:
        kind = case.form.split(".")[-4]
        want = fragments(exact, c_fragment, exact.shape[1] * 8 // 32)
        if kind == "s32":
            for got, x in zip(case.results, want, strict=True):
                whole = np.clip(x, -(2**31), 2**31 - 1) if "satfinite" in case.form else x
                assert (got.view("i4") == whole.astype(np.int64).astype("i4")).all(), case.form
            continue
        if kind == "f16":
            got = [h for r in case.results for h in (r & np.uint32(0xFFFF), r >> np.uint32(16))]
            results = [decode(h.astype("u2"), "f16") for h in got]
        else:
            results = case.results
        allowed = {"f32": 2e-5, "f16": 2e-2, "f64": 1e-14}[kind]
        for got, x in zip(results, want, strict=True):
            np.testing.assert_allclose(got, x, rtol=0, atol=allowed, err_msg=case.form)


def test_float_sums_run_in_k_order_with_fma() -> None:
    """1 + 2^-24 k times stays 1 in float, whatever a reordered sum would give."""
    m = k = 16
    a, b = np.zeros((1, m, k)), np.zeros((1, k, 8))
    a[:, :, 0], a[:, :, 1:], b[:] = 1.0, 2.0**-12, 1.0
    b[:, 1:, :] = 2.0**-12
    ea, eb = encode(a, "f16"), encode(b, "f16")
    given = registers(fragments(ea, A_FRAGMENTS["m16n8k16", 16], 8), 16)
    given += registers(fragments(eb, B_FRAGMENTS["m16n8k16", 16], 4), 16)
    case = Case(FORMS[0], [*given, *[np.zeros(32, np.float32)] * 4], mask=np.ones(32, bool))
    run([case])
    assert all((r == 1.0).all() for r in case.results)


WMMA = {
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32": ("f16", 8, 8),
    "wmma.mma.sync.aligned.row.row.m32n8k16.f16.f16": ("f16", 8, 8),
    "wmma.mma.sync.aligned.col.col.m8n32k16.f32.f32": ("f16", 8, 8),
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32": ("bf16", 4, 4),
    "wmma.mma.sync.aligned.row.col.m8n32k16.f32.bf16.bf16.f32": ("bf16", 2, 8),
    "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32": ("tf32", 4, 4),
    "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32": ("s8", 2, 2),
    "wmma.mma.sync.aligned.row.col.m32n8k16.s32.u8.u8.s32": ("u8", 4, 1),
    "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64": ("f64", 1, 1),
}


def spread(matrix: np.ndarray, registers_of: list) -> list[np.ndarray]:
    """A matrix as the registers of its fragment."""
    out = []
    for lanes in registers_of:
        parts = np.array([[matrix[at] for at in elements] for elements in lanes])
        out.append(parts.view(np.uint64 if parts.itemsize == 8 else np.uint32).reshape(-1))
    return out


@pytest.mark.parametrize("form", WMMA)
def test_wmma_over_its_own_layout(form: str) -> None:
    kind, count_a, count_b = WMMA[form]
    m, n, k = map(int, re.search(r"m(\d+)n(\d+)k(\d+)", form).groups())
    c_kind, rng = form.rsplit(".", 1)[1], np.random.default_rng(4)
    a, b, c = (draw(rng, t, s) for t, s in ((kind, (m, k)), (kind, (k, n)), (c_kind, (m, n))))
    tables = [places(x, (m, n, k), TYPES[t]) for x, t in (("a", kind), ("b", kind), ("c", c_kind))]
    assert [len(t) for t in tables[:2]] == [count_a, count_b]  # as PTX declares them
    for table, matrix in zip(tables, (a, b, c), strict=True):
        reached = {at for lanes in table for elements in lanes for at in elements}
        assert reached == set(np.ndindex(matrix.shape))
    given = [r for x, t in zip((a, b, c), tables, strict=True) for r in spread(x, t)]
    if kind == "f64":
        given = [g.view(np.float64) for g in given]
    case = Case(form, given, mask=np.ones(32, bool))
    run([case])
    exact = decode(a, kind) @ decode(b, kind) + decode(c, c_kind)
    if c_kind == "s32":
        exact = exact.astype(np.int64).astype("i4")
    want = [np.array([[exact[at] for at in row] for row in lanes]) for lanes in tables[2]]
    for got, x in zip(case.results, want, strict=True):
        if c_kind == "f16":
            got = decode(got.view("u2").reshape(32, 2), "f16")
        elif c_kind == "s32":
            got = got.view("i4")
        allowed = {"f32": 2e-5, "f16": 2e-2, "f64": 1e-14, "s32": 0}[c_kind]
        np.testing.assert_allclose(got.reshape(x.shape), x, rtol=0, atol=allowed)


@pytest.mark.parametrize("form", [
    "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16",
    "mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.or.popc",
    "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32",
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
])  # fmt: skip
def test_other_forms_are_refused(form: str) -> None:
    case = Case(form, [np.zeros(32, np.uint32)] * 10, mask=np.ones(32, bool))
    with pytest.raises(UnsupportedError, match="mma"):
        run([case])
