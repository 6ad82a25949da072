"""Gradients of parameters, and their product with a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.base.shapes import may_self_overlap
from ge2rt.jit.scope import where
from ge2rt.tensors.sparse import Coo
from ge2rt.tensors.tape import no_grad
from ge2rt.tensors.tensor import Tensor


def writable(what: str, parameters: Iterable[Tensor]) -> Iterator[Tensor]:
    """The dense part of each parameter's gradient; of one that stands twice, once.

    ValueError for a gradient that shows an element of memory more than once.
    """
    every = list(parameters)
    place = {id(each): n for n, each in reversed(list(enumerate(every)))}
    for n, each in enumerate(every):
        if each.grad is None or place[id(each)] != n:
            continue
        if isinstance(each.grad, Coo):
            each.grad = each.grad.coalesce()  # places that stand twice count once
        found = each.grad.values if isinstance(each.grad, Coo) else each.grad
        if may_self_overlap(found.shape, found.geometry.strides):
            raise InvalidArgumentError(
                f"{what}: several elements of the gradient of parameter {n} are one in memory",
                got=f"strides {found.strides}", where=where(), detail="shape",
                next_step="give it a copy: p.grad = p.grad.clone()",
            )  # fmt: skip
        yield found


def scale_(gradient: Tensor, factor: float) -> None:
    """Multiply in place, in f32 where it is of halves, whose range may not hold the factor."""
    alone = gradient.detach()
    with no_grad():
        if gradient.dtype.name in ("f16", "bf16"):
            alone.copy_(alone.astype("f32") * factor)  # type: ignore[attr-defined]
        else:
            alone.multiply_(factor)  # type: ignore[attr-defined]
