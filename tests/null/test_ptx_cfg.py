"""Control-flow analyses, against brute force on random graphs."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from ge2rt.ptx import cfg, liveness
from ge2rt.ptx.ast import Function
from ge2rt.ptx.parse import parse_module

DIAMOND = cfg.Graph({"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ()})
NESTED = cfg.Graph(
    {
        "entry": ("outer",), "outer": ("inner", "exit"), "inner": ("inner", "latch"),
        "latch": ("outer", "side"), "side": ("exit",), "exit": (),
    }
)  # fmt: skip


def function_of(body: str) -> Function:
    return parse_module(
        ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func f;\n.entry k() "
        "{ .reg .b32 a, b, c, d, e; .reg .b64 q, s; .reg .pred p, o;\n" + body + "\n}"
    ).functions["k"]


def random_graph(chance: random.Random) -> cfg.Graph:
    labels = [f"n{i}" for i in range(chance.randrange(1, 9))]
    return cfg.Graph(
        {
            label: tuple(chance.choices(labels, k=chance.choice((0, 1, 1, 2, 2, 3))))
            for label in labels
        }
    )


def test_diamond() -> None:
    assert DIAMOND.predecessors["d"] == ("b", "c")
    assert DIAMOND.reverse_post_order[0] == "a"
    assert DIAMOND.reverse_post_order[-1] == "d"
    assert DIAMOND.idom == {"a": None, "b": "a", "c": "a", "d": "a"}
    assert DIAMOND.ipdom == {"a": "d", "b": "d", "c": "d", "d": None}
    assert DIAMOND.loops == ()


def test_loops() -> None:
    outer, inner = NESTED.loops
    assert outer.header == "outer"
    assert outer.body == {"outer", "inner", "latch"}
    assert outer.latches == ("latch",)
    assert outer.exits == (("outer", "exit"), ("latch", "side"))
    assert inner == cfg.Loop("inner", frozenset({"inner"}), ("inner",), (("inner", "latch"),))
    assert NESTED.ipdom["outer"] == "exit"
    assert NESTED.irreducible_edges == ()


def test_irreducible_edges_are_found() -> None:
    graph = cfg.Graph({"a": ("b", "c"), "b": ("c",), "c": ("b", "d"), "d": ()})
    assert len(graph.irreducible_edges) == 1
    assert graph.loops == ()


def test_endless_loops_have_the_virtual_exit() -> None:
    graph = cfg.Graph({"a": ("b", "c"), "b": ("b",), "c": ()})
    assert graph.ipdom == {"a": "c", "b": None, "c": None}


@pytest.mark.parametrize("seed", range(60))
def test_dominators_against_brute_force(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    alive = graph.reachable([graph.entry])
    assert set(graph.reverse_post_order) == alive
    leaves = {label for label, targets in graph.successors.items() if not targets}
    leaving = {label for label in graph.successors if graph.reachable([label]) & leaves}
    for a in alive:
        cut = graph.reachable([graph.entry], without=[a])
        for b in alive:
            assert graph.dominates(a, b) == (b not in cut or a == b)
    for a in leaving:
        for b in leaving:
            meets_leaf = bool(graph.reachable([b], without=[a]) & leaves)
            assert graph.post_dominates(a, b) == (a == b or not meets_leaf)


@pytest.mark.parametrize("seed", range(60))
def test_the_order_is_topological_but_for_back_edges(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    place = {label: i for i, label in enumerate(graph.reverse_post_order)}
    back = {(latch, loop.header) for loop in graph.loops for latch in loop.latches}
    back |= set(graph.irreducible_edges)
    for a in place:
        for b in graph.successors[a]:
            assert place[a] < place[b] or (a, b) in back


def test_reachable_without_crossing() -> None:
    assert NESTED.reachable(["inner"], without=["outer"]) == {"inner", "latch", "side", "exit"}
    assert NESTED.reachable(["inner"], without=["latch"], through=True) == {"inner", "latch"}
    assert NESTED.reachable(["latch"], without=["latch"]) == frozenset()


def test_subgraph() -> None:
    part = cfg.subgraph(NESTED, "inner", ["latch", "side"])
    assert part.entry == "inner"
    assert part.successors == {"inner": ("inner", "latch"), "latch": ("side",), "side": ()}


def test_blocks_are_split_after_barriers() -> None:
    function = function_of("bar.sync 0; L: mov.u32 a, 1; bar.sync 0; mov.u32 b, a; @p bra L; ret;")
    parts = cfg.split_blocks(function, lambda block, i: block.instrs[i].op == "bar")
    assert [(b.label, b.successors) for b in parts] == [
        ("bb.0", ("L",)), ("L", ("L.after.1",)), ("L.after.1", ("L", "bb.5")), ("bb.5", ()),
    ]  # fmt: skip
    before = [i for block in function.blocks for i in block.instrs]
    assert [i for block in parts for i in block.instrs] == before
    for first, second in pairwise(parts):
        assert first.label != second.label


DEFS_AND_USES = {
    "add.u32 a, b, c;": ("a", "b c"), "@p add.u32 a, a, b;": ("a", "p a b"),
    "st.global.v2.u32 [q+4], {a, b};": ("", "q a b"), "ld.global.v2.u32 {a, _}, [q];": ("a", "q"),
    "setp.eq.and.u32 p|o, a, b, !p;": ("p o", "a b p"), "mov.b64 {a, b}, q;": ("a b", "q"),
    "mov.b64 q, {a, b};": ("q", "a b"), "red.global.add.u32 [q], a;": ("", "q a"),
    "atom.global.add.u32 _, [q], a;": ("", "q a"), "bar.sync a, b;": ("", "a b"),
    "bar.red.popc.u32 a, 0, p;": ("a", "p"), "shfl.sync.bfly.b32 a|p, b, 1, c, -1;": ("a p", "b c"),
    "call (a), f, (b, c);": ("a", "b c"), "call f;": ("", ""), "call (a), q, (b), t;": ("a", "q b"),
    "ret;": ("", ""), "mov.u32 a, %tid.x;": ("a", ""),
    "cp.async.ca.shared.global [a], [q], 16, b;": ("", "a q b"),
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [a];": ("", "a"),
    "wmma.store.d.sync.aligned.row.m16n16k16.f32 [q], {a, b}, c;": ("", "q a b c"),
}  # fmt: skip


@pytest.mark.parametrize("text", DEFS_AND_USES)
def test_defs_and_uses(text: str) -> None:
    instr = function_of(text).blocks[0].instrs[0]
    defs, uses = DEFS_AND_USES[text]
    assert liveness.defs(instr) == tuple(defs.split())
    assert liveness.uses(instr) == tuple(uses.split())


def test_liveness_over_a_loop() -> None:
    function = function_of(
        "mov.u32 a, 1; mov.u32 b, 2; mov.u32 e, 3;\n"
        "L: add.u32 a, a, b; setp.eq.u32 p, a, 7; @p bra L;\n mov.u32 c, a; mov.u32 d, c; ret;"
    )
    live = liveness.liveness(function.blocks)
    assert live.live_in["bb.0"] == frozenset()
    assert live.live_out["bb.0"] == live.live_in["L"] == {"a", "b"}
    assert live.live_out["L"] == {"a", "b"}
    loop = function.blocks[1]
    assert live.before(loop, 1) == {"a", "b"}
    assert live.before(loop, 2) == {"a", "b", "p"}
    assert live.before(function.blocks[2], 1) == {"c"}


def test_a_guarded_definition_does_not_kill() -> None:
    function = function_of("bra L; L: @p mov.u32 a, 1; mov.u32 b, a; ret;")
    assert liveness.liveness(function.blocks).live_in["L"] == {"a", "p"}


def test_successors_outside_are_ignored() -> None:
    function = function_of("mov.u32 a, 1; bra L; L: mov.u32 b, a; ret;")
    live = liveness.liveness(function.blocks[:1])
    assert live.live_out["bb.0"] == frozenset()
