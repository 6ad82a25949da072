"""Data parallel: two processes give what one with the double batch gives."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ge2rt
from ge2rt import nn
from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.parallel import Alone, Nccl, Team, team

SCRIPT = Path(__file__).with_name("parallel_run.py")


def _run(*command: str) -> dict[str, Any]:
    done = subprocess.run(
        [*command, sys.executable, str(SCRIPT), "mpi" if command else "alone"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _mpiexec() -> str:
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec") or ""


def test_two_processes_give_the_losses_of_one_with_the_double_batch() -> None:
    pytest.importorskip("mpi4py")
    both, one = _run(_mpiexec(), "-n", "2"), _run()
    assert (both["size"], one["size"]) == (2, 1)
    np.testing.assert_allclose(both["losses"], one["losses"], rtol=1e-5)
    np.testing.assert_allclose(both["weights"], one["weights"], rtol=1e-3, atol=1e-5)
    assert one["losses"][0] != one["losses"][-1]


class Meeting:
    """An engine for threads: what a process adds up is there once all have come."""

    def __init__(self, size: int) -> None:
        self.barrier, self.arrays = threading.Barrier(size), [None] * size

    def engine(self, rank: int) -> Any:
        meeting = self

        class Member:
            size = len(meeting.arrays)

            def __init__(self) -> None:
                self.rank = rank

            def add_up(self, array: Any) -> None:
                meeting.arrays[rank] = array.copy()
                meeting.barrier.wait()
                array[:] = sum(meeting.arrays)
                meeting.barrier.wait()

            def broadcast(self, array: Any) -> None:
                meeting.arrays[rank] = array.copy()
                meeting.barrier.wait()
                array[:] = meeting.arrays[0]
                meeting.barrier.wait()

        return Member()


def _together(count: int, work: Any) -> list[Any]:
    meeting, found = Meeting(count), [None] * count

    def run(rank: int) -> None:
        found[rank] = work(Team(meeting.engine(rank)))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64"])
def test_gradients_of_any_dtype_are_averaged_in_place(dtype: str) -> None:
    def work(together: Team) -> Any:
        parameters = [
            ge2rt.tensor(np.zeros(s), dtype=dtype, requires_grad=True) for s in ((2, 3), (), (4,))
        ]
        for number, each in enumerate(parameters):
            each.grad = ge2rt.full(each.shape, float(together.rank * 10 + number), dtype=dtype)
        together.average_gradients([*parameters, ge2rt.tensor([1.0])])  # one without a gradient
        return [p.grad.numpy() for p in parameters], together.average(together.rank)

    for gradients, mean in _together(3, work):
        assert mean == 1
        for number, each in enumerate(gradients):
            np.testing.assert_array_equal(each, 10.0 + number)


def test_everybody_has_what_the_first_has() -> None:
    def work(together: Team) -> Any:
        net = nn.Linear(4, 3, seed=together.rank)
        together.broadcast(net.state_dict().values())
        return net.weight.detach().numpy(), net.bias.detach().numpy()

    first, *others = _together(3, work)
    for other in others:
        for one, two in zip(first, other, strict=True):
            np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(first[0], nn.Linear(4, 3, seed=0).weight.detach().numpy())


def test_parts_of_a_batch() -> None:
    parts = [Team(Meeting(4).engine(rank)).part(12) for rank in range(4)]
    assert [i for part in parts for i in range(12)[part]] == list(range(12))
    with pytest.raises(InvalidArgumentError, match="multiple of 4"):
        Team(Meeting(4).engine(0)).part(13)


def test_nccl_is_called_as_cupyx_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Backend:
        def all_reduce(self, given: Any, out: Any, op: str) -> None:
            calls.append(("all_reduce", given is out, op))

        def broadcast(self, array: Any, root: int) -> None:
            calls.append(("broadcast", root))

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    engine = Nccl(Backend())
    assert (engine.rank, engine.size) == (1, 2)
    engine.add_up(np.ones(3))
    engine.broadcast(np.ones(3))
    assert calls == [("all_reduce", True, "sum"), ("broadcast", 0)]


def test_engines_are_chosen_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"):
        monkeypatch.delenv(name, raising=False)
    assert isinstance(team().engine, Alone)
    assert repr(team("alone")) == "<Team 0 of 1 by Alone>"
    with pytest.raises(InvalidArgumentError, match="alone, mpi, nccl"):
        team("smoke signals")
    with pytest.raises(UnsupportedError, match="RANK"):
        team("nccl")
