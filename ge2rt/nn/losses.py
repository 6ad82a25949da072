"""The losses of ``functional`` as modules; they have no parameters."""

from __future__ import annotations

from typing import Any

from ge2rt.nn import functional as F
from ge2rt.nn.module import Module


class _Loss(Module):
    """``reduction`` is ``mean``, ``sum`` or ``none``."""

    def __init__(self, reduction: str = "mean") -> None:
        F.refuse_reduction(reduction)
        self.reduction = reduction

    def describe(self) -> str:
        """How the values are joined."""
        return f"reduction={self.reduction!r}"


class MSELoss(_Loss):
    """``functional.mse_loss``: ``(x - target) ** 2``."""

    def forward(self, x: Any, target: Any) -> Any:
        """Two arrays of one shape to a loss."""
        return F.mse_loss(x, target, reduction=self.reduction)


class L1Loss(_Loss):
    """``functional.l1_loss``: ``|x - target|``."""

    def forward(self, x: Any, target: Any) -> Any:
        """Two arrays of one shape to a loss."""
        return F.l1_loss(x, target, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """``functional.binary_cross_entropy_with_logits``."""

    def forward(self, x: Any, target: Any) -> Any:
        """Logits and targets in [0, 1], of one shape, to a loss."""
        return F.binary_cross_entropy_with_logits(x, target, reduction=self.reduction)


class CrossEntropyLoss(_Loss):
    """``functional.cross_entropy``: ``-log softmax(logits)[target]``."""

    def __init__(
        self, label_smoothing: float = 0.0, reduction: str = "mean", ignore_index: int = -100
    ) -> None:
        super().__init__(reduction)
        self.label_smoothing = label_smoothing
        self.ignore_index = ignore_index

    def forward(self, logits: Any, target: Any) -> Any:
        """Logits ``[N, C]`` and integers ``[N]`` below C to a loss."""
        return F.cross_entropy(
            logits, target, self.label_smoothing, self.reduction, self.ignore_index
        )
