"""``Module``: parameters and buffers by name, modules in modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.tensors.making import tensor
from ge2rt.tensors.tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module counts among its parameters."""

    def __init__(self, data: Any) -> None:
        made = data if isinstance(data, Tensor) else tensor(data)
        super().__init__(made.array, made._device)
        self.requires_grad = made.dtype.is_float


class Module:
    """A part of a network: set parameters, buffers and modules as attributes, write ``forward``."""

    training = True

    def forward(self, *args: Any, **options: Any) -> Any:
        """What the module computes."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **options: Any) -> Any:  # noqa: D102 - it is forward
        return self.forward(*args, **options)

    # -- what it holds ---------------------------------------------------------------------------
    def children(self) -> Iterator[tuple[str, Module]]:
        """Modules that are attributes, and items of lists and dicts that are."""
        for name, value in vars(self).items():
            yield from ((path, item) for path, item in _items(name, value)
                        if isinstance(item, Module))  # fmt: skip

    def modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """The module and all below it, with dotted names."""
        yield prefix, self
        for name, child in self.children():
            yield from child.modules(f"{prefix}.{name}" if prefix else name)

    def named_tensors(self) -> Iterator[tuple[str, Module, str, Tensor]]:
        """(dotted name, module, attribute, tensor) of parameters and buffers."""
        for path, module in self.modules():
            for name, value in vars(module).items():
                if isinstance(value, Tensor):
                    yield f"{path}.{name}" if path else name, module, name, value

    def named_parameters(self) -> dict[str, Parameter]:
        """Parameters by dotted name; one that is shared stands once, under its first name."""
        found: dict[str, Parameter] = {}
        seen: set[int] = set()
        for name, _, _, value in self.named_tensors():
            if isinstance(value, Parameter) and id(value) not in seen:
                seen.add(id(value))
                found[name] = value
        return found

    def parameters(self) -> list[Parameter]:
        """All parameters, each once."""
        return list(self.named_parameters().values())

    def buffers(self) -> dict[str, Tensor]:
        """Tensors that are no parameters, by dotted name."""
        return {name: value for name, _, _, value in self.named_tensors()
                if not isinstance(value, Parameter)}  # fmt: skip

    # -- what is done to it ----------------------------------------------------------------------
    def train(self, mode: bool = True) -> Module:
        """Switch all modules to training, or off it."""
        for _, module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Switch training off."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters():
            parameter.grad = None

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by dotted name, without a history; they share memory."""
        return {name: value.detach() for name, _, _, value in self.named_tensors()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy values in. ValueError that names what is missing, unknown or of another shape.

        Nothing is written then.
        """
        own = {name: value for name, _, _, value in self.named_tensors()}
        faults = [f"missing: {name}" for name in own if name not in state]
        faults += [f"unknown: {name}" for name in state if name not in own]
        faults += [
            f"{name}: {tuple(state[name].shape)} is not {value.shape}"
            for name, value in own.items()
            if name in state and tuple(state[name].shape) != value.shape
        ]  # fmt: skip
        if faults:
            raise InvalidArgumentError(
                "the state does not fit the module", got="; ".join(faults[:8]),
                next_step="load the state of a module of the same build",
            )  # fmt: skip
        from ge2rt.tensors.tape import no_grad

        with no_grad():
            for name, value in own.items():
                value.copy_(state[name])  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        inside = "".join(
            f"\n  {name}: {line}" for name, child in self.children()
            for line in [repr(child).replace("\n", "\n  ")]
        )  # fmt: skip
        return f"{type(self).__name__}({self.describe()})" + inside

    def describe(self) -> str:
        """What ``repr`` puts in parentheses."""
        return ""


def _items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    if isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield f"{name}.{number}", item
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{name}.{key}", item


@contextmanager
def holding(module: Module, values: Mapping[str, Any]) -> Iterator[None]:
    """The module with other values under these dotted names, inside the block."""
    places: dict[str, tuple[Module, str]] = {
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
            owner, attribute = places[name]
            object.__setattr__(owner, attribute, value)
        yield
    finally:
        for name, value in before.items():
            owner, attribute = places[name]
            object.__setattr__(owner, attribute, value)


def functional_call(module: Module, values: Mapping[str, Any], *args: Any, **options: Any) -> Any:
    """The module's result with other values for its parameters and buffers.

    Inside ``@jit`` the values are arguments of the jitted function, so that gradients by
    ``ge2rt.grad`` flow to them. A parameter that is shared takes its value under its first name.
    """
    shared: dict[int, str] = {}
    given = dict(values)
    for name, _, _, value in module.named_tensors():
        first = shared.setdefault(id(value), name)
        if first in values:
            given.setdefault(name, values[first])
    with holding(module, given):
        return module(*args, **options)


def apply(module: Module, change: Callable[[Module], None]) -> None:
    """Call ``change`` with every module."""
    for _, each in module.modules():
        change(each)
