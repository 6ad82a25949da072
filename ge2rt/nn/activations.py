"""Pointwise functions and softmax as modules, for ``Sequential``."""

from __future__ import annotations

from typing import Any

from ge2rt.nn import functional as F
from ge2rt.nn.module import Module
from ge2rt.tensors import ops


class Activation(Module):
    """An operator of one operand as a module, by its name in ``ge2rt.ops``: ``Activation("gelu")``.

    AttributeError, with the name that was perhaps meant, for an unknown one.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        getattr(ops, name)

    def forward(self, x: Any) -> Any:
        """The same shape."""
        return getattr(ops, self.name)(x)

    def describe(self) -> str:
        """Its name."""
        return self.name


class _Named(Activation):
    def __init__(self) -> None:
        super().__init__(type(self).__name__.lower())

    def describe(self) -> str:
        """Nothing: the class says it."""
        return ""


class ReLU(_Named):
    """``max(x, 0)``."""


class SiLU(_Named):
    """``x * sigmoid(x)``."""


class Sigmoid(_Named):
    """``1 / (1 + exp(-x))``."""


class Tanh(_Named):
    """The hyperbolic tangent."""


class GELU(Module):
    """``functional.gelu``: exact, or by ``approximate="tanh"`` as ``Activation("gelu")`` is."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Any) -> Any:
        """The same shape."""
        return F.gelu(x, self.approximate)

    def describe(self) -> str:
        """How it is computed."""
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """``x`` where it is positive, else ``slope * x``."""

    def __init__(self, slope: float = 0.01) -> None:
        self.slope = slope

    def forward(self, x: Any) -> Any:
        """The same shape."""
        return F.leaky_relu(x, self.slope)

    def describe(self) -> str:
        """Its slope."""
        return str(self.slope)


class Softmax(Module):
    """``exp(x) / sum(exp(x))`` along ``axis``."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Any) -> Any:
        """The same shape."""
        return F.softmax(x, self.axis)

    def describe(self) -> str:
        """Its axis."""
        return f"axis={self.axis}"


class Flatten(Module):
    """All axes but the first joined."""

    def forward(self, x: Any) -> Any:
        """``[N, ...]`` to ``[N, size]``."""
        return x.reshape(x.shape[0], -1)


class Identity(Module):
    """What it is given."""

    def forward(self, x: Any) -> Any:
        """``x`` itself."""
        return x
