"""A module called with other values in the place of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.nn.module import Module, Parameter

_Places = dict[str, tuple[Module, str]]  # dotted name -> module and attribute


@contextmanager
def holding(module: Module, values: Mapping[str, Any]) -> Iterator[_Places]:
    """The module with other values under these dotted names, inside the block.

    It gives the places of those whose own tensors are buffers.
    """
    places: _Places = {
        name: (owner, attribute) for name, owner, attribute, _ in module.named_tensors()
    }
    unknown = [name for name in values if name not in places]
    if unknown:
        raise InvalidArgumentError(
            "the module has no tensor of this name", got=unknown[0], expected=", ".join(places)
        )
    before = {name: getattr(*places[name]) for name in values}
    try:
        for name, value in values.items():
            object.__setattr__(*places[name], value)
        yield {n: places[n] for n, own in before.items() if not isinstance(own, Parameter)}
    finally:
        for name, value in before.items():
            object.__setattr__(*places[name], value)


def functional_call(module: Module, values: Mapping[str, Any], *args: Any, **options: Any) -> Any:
    """``module(*args, **options)`` with other values for its parameters and buffers.

    ``values`` has tensors or arrays by dotted name (``named_parameters``, ``named_buffers``), of
    the shapes and dtypes of the module's own; names may be left out. Inside ``@jit`` the values are
    arguments of the jitted function, so that gradients by ``ge2rt.grad`` flow to them. A parameter
    that is shared takes its value under its first name.

    The module itself is as before afterwards, and what the call made of buffers (the counter of a
    Dropout, running averages) is gone with it: :func:`stateful_call` gives it back.
    InvalidArgumentError for a name that the module does not have.
    """
    return stateful_call(module, values, *args, **options)[0]


def stateful_call(
    module: Module, values: Mapping[str, Any], *args: Any, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """As :func:`functional_call`, and the buffers among ``values`` as the call leaves them.

    In training a jitted step hands them on to the next one::

        def loss_of(weights):
            scores, after = nn.stateful_call(model, {**weights, **buffers}, x)
            return F.cross_entropy(scores, y), after

        (loss, buffers), slopes = ge2rt.value_and_grad(loss_of, has_aux=True)(weights)
    """
    shared: dict[int, str] = {}
    given = dict(values)
    for name, _, _, value in module.named_tensors():
        first = shared.setdefault(id(value), name)
        if first in values:
            given.setdefault(name, values[first])
    with holding(module, given) as buffers:
        result = module(*args, **options)
        return result, {name: getattr(*buffers[name]) for name in values if name in buffers}
