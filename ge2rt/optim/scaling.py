"""Loss scaling for gradients in f16, which would vanish otherwise (Micikevicius et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ge2rt.optim.checks import refuse_traced
from ge2rt.optim.fused import Optimizer
from ge2rt.optim.gradients import scale_
from ge2rt.tensors import ops
from ge2rt.tensors.sparse import Coo
from ge2rt.tensors.tensor import Tensor


class GradScaler:
    """Multiplies losses, divides gradients, and leaves out steps whose gradients are not finite.

    After such a step the factor is multiplied by ``backoff``; after ``interval`` steps without one,
    by ``growth``. ``factor`` is the factor now, ``skipped`` the number of steps left out.
    """

    def __init__(
        self, factor: float = 65536.0, growth: float = 2.0, backoff: float = 0.5,
        interval: int = 2000,
    ) -> None:  # fmt: skip
        self.factor, self.skipped = float(factor), 0
        self.growth, self.backoff, self.interval = growth, backoff, interval
        self._since = 0
        self._divided: set[int] = set()  # ids of optimisers whose gradients are divided already

    def scale(self, loss: Tensor) -> Tensor:
        """The loss that ``backward`` is called on."""
        scaled: Tensor = ops.multiply(loss, self.factor)
        return scaled

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients now, as they must be to be clipped; once before a step."""
        refuse_traced("GradScaler.unscale_()")
        if id(optimizer) in self._divided:
            return
        self._divided.add(id(optimizer))
        for gradient in _gradients(optimizer):
            scale_(gradient.values if isinstance(gradient, Coo) else gradient, 1 / self.factor)

    def step(self, optimizer: Optimizer) -> bool:
        """Divide the gradients and step, or leave the step out; whether it was made.

        The factor for the next loss is set here; nothing has to be called behind it.
        """
        refuse_traced("GradScaler.step()")
        self.unscale_(optimizer)
        self._divided.discard(id(optimizer))
        finite = all(bool(each.isfinite().all()) for each in _gradients(optimizer))
        if finite:
            optimizer.step()
            self._since += 1
            if self._since >= self.interval:
                self.factor, self._since = self.factor * self.growth, 0
        else:
            self.factor, self._since = self.factor * self.backoff, 0
            self.skipped += 1
        return finite

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"factor": self.factor, "since": self._since, "skipped": self.skipped}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another scaler was."""
        self.factor, self._since = float(state["factor"]), int(state["since"])
        self.skipped = int(state["skipped"])


def _gradients(optimizer: Optimizer) -> list[Any]:
    return [
        parameter.grad for group in optimizer.groups for parameter in group["params"]
        if parameter.grad is not None
    ]  # fmt: skip
