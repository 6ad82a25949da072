"""Data parallel training: gradients averaged over processes by an engine that is installed.

Every process runs the same script on its part of the batch::

    team = ge2rt.parallel.team()  # NCCL on GPUs, MPI where mpi4py is, or this process alone
    team.broadcast(model.state_dict().values())
    ...
    loss.backward()
    team.average_gradients(model.parameters())
    optimiser.step()

With losses that are means over equal parts this is the step of one process with the whole batch.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.tensors import ops
from ge2rt.tensors.making import tensor
from ge2rt.tensors.sparse import Coo
from ge2rt.tensors.tape import no_grad
from ge2rt.tensors.tensor import Tensor

_LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")  # variables of mpiexec


class Engine(Protocol):
    """What moves arrays between processes. Arrays are contiguous and changed in place."""

    rank: int
    size: int

    def add_up(self, array: Any) -> None:
        """The sum over all processes."""

    def broadcast(self, array: Any) -> None:
        """What process 0 has."""


class Alone:
    """One process."""

    rank, size = 0, 1

    def add_up(self, array: Any) -> None:
        """Nothing to add."""

    def broadcast(self, array: Any) -> None:
        """Nothing to send."""


class Mpi:
    """MPI through mpi4py, for arrays of the host; ``comm`` defaults to all processes."""

    def __init__(self, comm: Any = None) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = MPI.COMM_WORLD if comm is None else comm
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()

    def add_up(self, array: Any) -> None:
        """By Allreduce."""
        self._comm.Allreduce(self._mpi.IN_PLACE, array, op=self._mpi.SUM)

    def broadcast(self, array: Any) -> None:
        """By Bcast."""
        self._comm.Bcast(array, root=0)


class Nccl:
    """NCCL through ``cupyx.distributed``, for arrays of a GPU.

    ``backend`` defaults to one made from the environment: ``RANK``, ``WORLD_SIZE``, and
    ``MASTER_ADDR``, ``MASTER_PORT`` where the processes meet.
    """

    def __init__(self, backend: Any = None, rank: int | None = None, size: int | None = None):
        self.rank = int(os.environ["RANK"]) if rank is None else rank
        self.size = int(os.environ["WORLD_SIZE"]) if size is None else size
        if backend is None:
            from cupyx.distributed import NCCLBackend

            host = os.environ.get("MASTER_ADDR", "127.0.0.1")
            port = int(os.environ.get("MASTER_PORT", "13333"))
            backend = NCCLBackend(self.size, self.rank, host=host, port=port)
        self._backend = backend

    def add_up(self, array: Any) -> None:
        """By all_reduce."""
        self._backend.all_reduce(array, array, "sum")

    def broadcast(self, array: Any) -> None:
        """By broadcast."""
        self._backend.broadcast(array, 0)


class Team:
    """All processes of a run: ``rank``, ``size``, and what they do together."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.rank, self.size = engine.rank, engine.size

    def __repr__(self) -> str:
        return f"<Team {self.rank} of {self.size} by {type(self.engine).__name__}>"

    def average_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace each gradient by its mean over the processes; one message a dtype.

        Each process needs gradients of the same parameters.
        """
        slopes = []
        for each in parameters:
            if isinstance(each.grad, Coo):
                each.grad = each.grad.to_dense()  # others may have used other rows
            if each.grad is not None:
                slopes.append(each.grad)
        self._together(slopes, mean=True)

    def average(self, value: Any) -> float:
        """The mean of a number, such as a loss, over the processes."""
        array = np.asarray(float(value), np.float64).reshape(1)
        self._add_up_host(array)
        return float(array[0]) / self.size

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Give every process what process 0 has, in place."""
        self._together(list(tensors), mean=False)

    def part(self, count: int) -> slice:
        """The process's rows of a batch of ``count``; ValueError where they are not equally many.

        Parts of different sizes would weigh differently in the mean of the gradients.
        """
        if count % self.size:
            raise InvalidArgumentError(
                "a batch cannot be shared out evenly", got=f"{count} rows",
                expected=f"a multiple of {self.size}", next_step="leave out or add rows",
            )  # fmt: skip
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def _add_up_host(self, array: Any) -> None:
        if self.size == 1:
            return
        if isinstance(self.engine, Nccl):
            there = tensor(array, device="cuda")
            self.engine.add_up(there.array)
            array[:] = there.to("cpu").numpy()  # type: ignore[attr-defined]
        else:
            self.engine.add_up(array)

    def _together(self, tensors: Sequence[Tensor], *, mean: bool) -> None:
        if self.size == 1:
            return
        kinds: dict[Any, list[Tensor]] = defaultdict(list)
        for each in tensors:
            kinds[each.dtype.name, each.device].append(each)
        with no_grad():
            for (name, _), same in kinds.items():
                self._move(name, same, mean)

    def _move(self, dtype: str, tensors: Sequence[Tensor], mean: bool) -> None:
        """All tensors of a dtype as one array; halves travel, and are added up, in f32."""
        flat = ops.concat([each.reshape(-1) for each in tensors])  # type: ignore[attr-defined]
        moved = flat.astype("f32") if dtype in ("f16", "bf16") else flat
        if mean:
            self.engine.add_up(moved.array)
            moved = moved * (1 / self.size)
        else:
            self.engine.broadcast(moved.array)
        at = 0
        for each in tensors:
            each.copy_(moved[at : at + each.size].reshape(each.shape))  # type: ignore[attr-defined]
            at += each.size


def team(engine: str | Engine = "auto") -> Team:
    """The processes of this run.

    ``engine`` is ``nccl``, ``mpi``, ``alone``, an object of :class:`Engine`, or ``auto``: NCCL
    where ``RANK`` and ``WORLD_SIZE`` are set and the default device is a GPU, MPI under mpiexec,
    else this process alone. UnsupportedError where the engine is not installed.
    """
    if not isinstance(engine, str):
        return Team(engine)
    if engine == "auto":
        engine = _found()
    makers: dict[str, tuple[Any, str]] = {
        "alone": (Alone, ""), "mpi": (Mpi, "pip install mpi4py (and an MPI, such as mpich)"),
        "nccl": (Nccl, "install CuPy, and start the processes with RANK and WORLD_SIZE set"),
    }  # fmt: skip
    if engine not in makers:
        raise InvalidArgumentError(
            "no such engine", argument="engine", got=engine, expected=", ".join(makers),
            next_step="name one of these, or pass an object of your own",
        )  # fmt: skip
    make, how = makers[engine]
    try:
        return Team(make())
    except (ImportError, KeyError, RuntimeError) as fault:
        raise UnsupportedError(
            f"the engine {engine} cannot be used here: {fault!r}", next_step=how
        ) from None


def _found() -> str:
    from ge2rt.device.registry import get_device

    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several and "RANK" in os.environ and get_device().props.kind == "cuda":
        return "nccl"
    return "mpi" if any(name in os.environ for name in _LAUNCHERS) else "alone"
