"""Derivatives of recorded computations: ``ge2rt.autograd.grad`` and functions of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ge2rt.base.errors import InvalidTypeError
from ge2rt.tensors import dispatch
from ge2rt.tensors.tape import Step, backward, enable_grad, grad, no_grad, recording, renew
from ge2rt.tensors.tensor import Tensor

__all__ = ["Context", "Function", "backward", "enable_grad", "grad", "no_grad", "recording"]


class Context:
    """What a function of one's own keeps from its forward for its backward."""

    def __init__(self) -> None:
        self.saved: tuple[Tensor, ...] = ()
        self._versions: tuple[int, ...] = ()

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors; one that is changed in place before the backward is an error there."""
        self.saved = tensors
        self._versions = tuple(each.storage().version for each in tensors)

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that were kept. ValueError for one that was changed meanwhile."""
        from ge2rt.base.errors import InvalidArgumentError

        for number, (tensor, version) in enumerate(zip(self.saved, self._versions, strict=True)):
            if tensor.storage().version != version:
                raise InvalidArgumentError(
                    f"saved tensor {number} was changed in place before the backward",
                    next_step="save a copy: x.clone()",
                )
        return self.saved


class Function:
    """A function with a derivative of one's own; call it by ``apply``.

    Static methods ``forward(ctx, *args)`` and ``backward(ctx, *cotangents)``, which returns a
    gradient (or None) for each argument.
    """

    @staticmethod
    def forward(ctx: Context, *args: Any) -> Any:
        """The result: a tensor or a tuple of them."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Context, *cotangents: Tensor) -> Any:
        """Gradients of the arguments."""
        raise NotImplementedError

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run ``forward``, and record the call where a gradient is wanted."""
        context = Context()
        if dispatch.mode.recording:
            renew(args)
        with recording(False):
            result = cls.forward(context, *args)
        wanted = tuple(
            n for n, each in enumerate(args) if isinstance(each, Tensor) and each.requires_grad
        )
        if not (wanted and dispatch.mode.recording):
            return result
        outputs = [result] if isinstance(result, Tensor) else list(result)
        fresh = [each.detach() if any(each is arg for arg in args) else each for each in outputs]
        step = Step(cls.__name__, list(args), wanted, cls._pull(context, wanted, len(args)))
        step.versions = {}  # the context looks after what it saved
        made = step.produced(fresh)
        return made[0] if isinstance(result, Tensor) else type(result)(made)

    @classmethod
    def _pull(cls, context: Context, wanted: tuple[int, ...], count: int) -> Any:
        def pull(
            leaves: Sequence[Any], saved: Sequence[Tensor], cotangents: Sequence[Tensor]
        ) -> Sequence[Tensor]:
            found = cls.backward(context, *cotangents)
            given = list(found) if isinstance(found, (tuple, list)) else [found]
            if len(given) != count:
                raise InvalidTypeError(
                    f"{cls.__name__}.backward gives {len(given)} gradients for {count} arguments",
                    next_step="return one for each argument of forward, None where there is none",
                )
            from ge2rt.tensors.making import zeros

            for place in wanted:
                leaf, gradient = leaves[place], given[place]
                if gradient is None:
                    given[place] = zeros(leaf.shape, dtype=leaf.dtype, device=leaf.device)
                elif gradient.shape != leaf.shape:
                    raise InvalidTypeError(
                        f"{cls.__name__}.backward: gradient {place} is not of its argument's shape",
                        expected=str(leaf.shape), got=str(gradient.shape),
                        next_step="a gradient has the shape of its argument",
                    )  # fmt: skip
            return [given[place] for place in wanted]

        return pull
