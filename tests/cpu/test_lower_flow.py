"""Order, loops, joins and blends of small graphs against what they must be."""

from __future__ import annotations

import random

import numpy as np
import pytest

import ge2rt
from ge2rt.ptx.emit import Emitter, Value
from ge2rt.ptx.lower import flow, graph, spread
from ge2rt.ptx.lower.graph import bits
from ge2rt.ptx.lower.weave import unwoven, woven
from ge2rt.ptx.parse import parse_module

_HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{ .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<3>;
"""


def _flow(body: str) -> flow.Flow:
    return flow.build(parse_module(_HEAD + body + "\n}").functions["k"])


def _random_graph(seed: int) -> list[tuple[int, ...]]:
    chance = random.Random(seed)
    count = chance.randrange(2, 12)
    return [
        tuple(chance.sample(range(1, count), chance.randrange(0, min(3, count - 1) + 1)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(60))
def test_order_is_topological_with_whole_loops(seed: int) -> None:
    edges = _random_graph(seed)
    order, loops = graph.loop_order(len(edges), edges, 0)
    assert sorted(order) == sorted(bits(graph.reach(edges, [0], -1)))
    place = {node: at for at, node in enumerate(order)}
    headers = {(node, lp.header) for lp in loops for node in bits(lp.members)}
    for node in order:
        for target in edges[node]:
            assert place[target] > place[node] or (node, target) in headers
    for loop in loops:
        spots = sorted(place[n] for n in bits(loop.members))
        assert spots == list(range(spots[0], spots[0] + len(spots)))


@pytest.mark.parametrize("seed", range(60))
def test_post_dominators_are_what_every_way_out_passes(seed: int) -> None:
    edges = [*_random_graph(seed), ()]
    end = len(edges) - 1
    edges = [(*e, end) if not e and at != end else e for at, e in enumerate(edges)]
    everything = (1 << len(edges)) - 1
    back = [n for n in range(end) if graph.reach(edges, [n], everything) >> end & 1]
    if len(back) < end:
        return  # endless loops: the way out is made up
    sets = graph.post_dominators(edges, end)
    for node in range(end):
        for other in range(end + 1):
            without = graph.reach(edges, [node], everything & ~(1 << other))
            passes = other in (node, end) or not without >> end & 1
            assert bool(sets[node] >> other & 1) == passes


def test_a_loop_gets_one_last_node() -> None:
    found = _flow(
        "H: setp.eq.u32 %p1, %r1, 0; @%p1 bra A; add.u32 %r1, %r1, 1; bra H;\n"
        "A: setp.eq.u32 %p2, %r2, 0; @%p2 bra H; ret;"
    )
    loop = found.loops[0]
    assert sum(loop.header in found.edges[n] for n in bits(loop.members)) == 1


_BLEND = [
    # (body, register, its node's first instruction number, blended)
    ("mov.u32 %r2, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; mov.u32 %r2, 2; A: "
     "st.global.u32 [%rd1], %r2; ret;", "%r2", True),
    ("mov.u32 %r2, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; mov.u32 %r2, 2; "
     "st.global.u32 [%rd1], %r2; A: ret;", "%r2", False),
    ("mov.u32 %r2, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; L: add.u32 %r2, %r2, 1; "
     "setp.lt.u32 %p2, %r2, 9; @%p2 bra L; A: ret;", "%r2", False),
    ("mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; "
     "st.global.u32 [%rd1], %r2; ret;", "%r2", True),
    ("mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; ret;",
     "%r2", False),
]  # fmt: skip


@pytest.mark.parametrize(("body", "register", "blended"), _BLEND)
def test_a_write_is_blended_only_where_lanes_wait_for_the_old(
    body: str, register: str, blended: bool
) -> None:
    found = _flow(body)
    parting = [
        at for at, n in enumerate(found.nodes)
        if n.control is not None and n.control.guard and n.control.guard.reg.name == "%p1"
    ]  # fmt: skip
    number = found.registers[register]
    blends = spread.spread(found, parting).blends
    assert any(b >> number & 1 for b in blends) == blended


@pytest.mark.parametrize("lanes", [2, 4, 16])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_weaving_is_undone_by_unweaving(count: int, lanes: int) -> None:
    e = Emitter(lanes)
    values = {f"%in{k}": [k * lanes + n for n in range(lanes)] for k in range(count)}
    given = [Value("i32", name, lanes) for name in values]
    fields = unwoven(e, given)
    back = woven(e, fields)
    _interpret(e.lines, values)
    for k, field in enumerate(fields):
        assert values[field.text] == [k + count * n for n in range(lanes)]
    assert [values[v.text] for v in back] == [values[v.text] for v in given]


def _interpret(lines: list[str], values: dict[str, list[int]]) -> None:
    for line in lines:
        target, rest = line.strip().split(" = shufflevector ")
        a, b, mask = rest.replace("> ", ">|").split(", <")[0], rest, rest.rsplit("> <", 1)[1]
        first = a.split("|")[-1]
        second = b.split(", <")[1].split("> ")[1].split(",")[0]
        source = values[first] + values.get(second, [])
        picks = [int(p.split()[-1]) for p in mask.rstrip(">").split(",")]
        values[target] = [source[p] for p in picks]


def test_a_register_that_is_a_constant_on_one_way_only():
    """Its names are merged into that of the constant, but what is known of it is not."""
    kernel = ge2rt.RawKernel(
        r"""
        extern "C" __global__ void pick(const float* x, const int* next, float* y, int n) {
          const int t = threadIdx.x;
          int i;
          if (n > 3) { i = next[n]; if (n > 5) y[64] = i; } else { i = 7; y[65] = n; }
          y[t] = x[t * i];
        }""",
        "pick",
    )
    x, y = np.arange(4096, dtype=np.float32), np.zeros(66, np.float32)
    following = ((np.arange(16) * 5 + 2) % 16).astype(np.int32)
    for n in (1, 4, 9):
        kernel((1,), (64,), (x, following, y, np.int32(n)))
        np.testing.assert_array_equal(y[:64], np.arange(64) * (following[n] if n > 3 else 7))
