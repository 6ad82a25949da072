"""The arena of a program: no two temporaries that live at the same time share a byte."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ge2rt.run.program_memory import ALIGN, Arenas, Life, hosted, lives, plan_memory

LIVES = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 30), st.integers(0, 12)), max_size=40
).map(
    lambda rows: [Life(i, nbytes, at, at + span) for i, (nbytes, at, span) in enumerate(rows)]
)  # fmt: skip


def rounded(nbytes):
    return -(-nbytes // ALIGN) * ALIGN


@given(LIVES, st.integers(0, 300))
def test_what_lives_together_lies_apart(given, start):
    layout = plan_memory(given, start=start)
    assert sorted(layout.offsets) == [life.buffer for life in given]
    for life in given:
        at = layout.offsets[life.buffer]
        assert at % ALIGN == 0
        assert start <= at
        assert at + life.nbytes <= layout.nbytes
    for a, b in itertools.combinations(given, 2):
        if a.meets(b) and a.nbytes and b.nbytes:
            at_a, at_b = layout.offsets[a.buffer], layout.offsets[b.buffer]
            assert at_a + a.nbytes <= at_b or at_b + b.nbytes <= at_a


@given(LIVES)
def test_the_arena_is_no_larger_than_all_buffers_and_no_smaller_than_the_busiest_step(given):
    layout = plan_memory(given)
    assert layout.nbytes <= sum(rounded(life.nbytes) for life in given)
    for step in range(45):
        alive = [life for life in given if life.first <= step <= life.last]
        assert layout.nbytes >= sum(rounded(life.nbytes) for life in alive)


def test_a_chain_needs_two_places_however_long_it_is():
    chain = [Life(i, 1000, i, i + 1) for i in range(50)]
    assert plan_memory(chain).nbytes == 2 * 1024


def test_small_ones_fit_into_the_gap_that_a_large_one_left():
    large, first, second = Life(0, 4096, 0, 1), Life(1, 1024, 2, 3), Life(2, 1024, 2, 3)
    layout = plan_memory([large, first, second])
    assert layout.nbytes == 4096
    assert sorted(layout.offsets.values()) == [0, 0, 1024]


def test_the_plan_does_not_depend_on_the_order_of_the_list():
    some = [Life(i, 100 * (i % 7), i % 5, i % 5 + i % 3) for i in range(40)]
    assert plan_memory(some) == plan_memory(some[::-1])


def test_a_life_goes_from_the_first_to_the_last_touch():
    touched = [(1, 2), (2, 3), (9,), (2, 1)]
    found = lives(touched, {1: 10, 2: 20, 3: 30, 4: 40})
    assert found == [Life(1, 10, 0, 3), Life(2, 20, 0, 3), Life(3, 30, 1, 1)]


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 9), st.integers(0, 4)), max_size=12),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 9)), max_size=3),
)
def test_guests_are_gone_when_the_output_is_written(temps, made):
    some = [Life(i, n, first, first + more) for i, (n, first, more) in enumerate(temps)]
    outputs = [Life(100 + i, n, first, 12) for i, (n, first) in enumerate(made)]
    by_id = {life.buffer: life for life in some + outputs}
    hosts = hosted(some, outputs)
    for guest, host in hosts.items():
        assert 0 < by_id[guest].nbytes <= by_id[host].nbytes
        assert by_id[guest].last < by_id[host].first
    for one, other in itertools.combinations(hosts, 2):
        assert hosts[one] != hosts[other] or not by_id[one].meets(by_id[other])


def test_every_other_value_of_a_chain_lies_in_its_output():
    chain = [Life(n, 100, n, n + 1) for n in range(6)]
    assert hosted(chain, [Life(9, 100, 6, 6)]) == {0: 9, 2: 9, 4: 9}
    assert hosted(chain, [Life(9, 99, 6, 6)]) == {}


def test_no_temporaries_need_no_memory():
    assert plan_memory([]).nbytes == 0
    assert plan_memory([], start=4).nbytes == ALIGN


@pytest.fixture
def arenas():
    numbers = itertools.count()
    dropped = []
    return Arenas(lambda: next(numbers), dropped.append), dropped


def test_arenas_are_reused_one_call_after_the_other(arenas):
    pool, dropped = arenas
    first = pool.take()
    other = pool.take()
    assert first != other
    pool.give(first)
    assert pool.take() == first
    assert not dropped


def test_an_arena_goes_to_calls_of_the_same_stream_only(arenas):
    pool, _ = arenas
    first = pool.take(7)
    pool.give(first, 7)
    assert pool.take(8) != first
    assert pool.take(7) == first
    pool.give(first)
    assert pool.take(8) != first


def test_only_a_few_arenas_are_kept_and_clear_drops_them(arenas):
    pool, dropped = arenas
    taken = [pool.take() for _ in range(10)]
    for arena in taken:
        pool.give(arena)
    assert len(dropped) == 6
    pool.clear()
    assert sorted(dropped) == taken
