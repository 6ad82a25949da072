"""Joining kernels keeps which must run first; the result is that of working it out anew."""

from __future__ import annotations

from typing import Any

import pytest
from fuse.random_graphs import Maker

from ge2rt.fuse import merge
from ge2rt.fuse.lower import lower
from ge2rt.ir.passes import optimise


@pytest.mark.parametrize("seed", range(40))
def test_kept_orders_are_those_worked_out_anew(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = optimise(Maker(seed).graph(40))
    kept = str(lower(graph, None))
    monkeypatch.setattr(merge._Order, "join", lambda *parts: False)  # worked out anew after each
    assert str(lower(graph, None)) == kept


def test_what_ran_before_either_runs_before_both() -> None:
    """The sets of an order after joins are those of a fresh one."""
    seen, whole = 0, merge._Order.join
    for seed in range(20):
        graph = optimise(Maker(seed).graph(40))
        made: list[merge._Order] = []

        def join(self: merge._Order, *parts: merge.Part, _made: Any = made) -> bool:
            done = whole(self, *parts)
            if done:
                before = dict(self.before)
                self.before = {}
                for unit in self.direct:
                    self._close(unit)
                assert self.before == before
                _made.append(self)
            return done

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(merge._Order, "join", join)
            lower(graph, None)
        seen += len(made)
    assert seen > 20
