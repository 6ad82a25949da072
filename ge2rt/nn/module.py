"""``Module``: parameters and buffers by name, modules in modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from reprlib import recursive_repr
from typing import Any, TypeVar

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.jit.scope import active, where
from ge2rt.jit.traced import Traced
from ge2rt.tensors import inplace
from ge2rt.tensors.forgetting import forget
from ge2rt.tensors.making import move_, moved, tensor
from ge2rt.tensors.sparse import Coo
from ge2rt.tensors.tape import no_grad
from ge2rt.tensors.targets import target
from ge2rt.tensors.tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module counts among its parameters: a leaf that requires a gradient.

    ``data`` is a tensor, an array or lists (f32, as ``ge2rt.tensor`` takes them). The memory of a
    tensor is shared. Integers are kept without a gradient. InvalidArgumentError for a tensor over
    read-only memory, which no optimiser could step.
    """

    def __init__(self, data: Any) -> None:
        made = data if isinstance(data, Tensor) else tensor(data)
        super().__init__(made.array, made._device)
        self._storage, self._geometry = made.storage(), made.geometry  # writes to it count here
        inplace.refuse_read_only(self, "nn.Parameter")
        self.requires_grad = made.dtype.is_float


class Module:
    """A part of a network: set parameters, buffers and modules as attributes, write ``forward``.

    Modules may also stand in lists, tuples and dicts that are attributes. ``copy.deepcopy`` and
    ``pickle`` copy a module with its parameters, buffers and gradients.
    """

    training = True

    def forward(self, *args: Any, **options: Any) -> Any:
        """What the module computes."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **options: Any) -> Any:  # noqa: D102 - it is forward
        return self.forward(*args, **options)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. InvalidTypeError for what would take the place of a parameter."""
        now = vars(self).get(name)
        if isinstance(now, Parameter) and value is not None and not isinstance(value, Parameter):
            raise InvalidTypeError(
                f"{type(self).__name__}.{name} is a parameter", argument=name, where=where(),
                got=type(value).__name__, next_step=f"assign nn.Parameter(value), or write into it:"
                f" with ge2rt.no_grad(): module.{name}.copy_(value)",
            )  # fmt: skip
        super().__setattr__(name, value)

    # -- what it holds ---------------------------------------------------------------------------
    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) of attributes, and of items of lists and dicts that are attributes."""
        for name, value in self.members():
            if isinstance(value, Module):
                yield name, value

    def children(self) -> Iterator[Module]:
        """Modules that are attributes, and items of lists and dicts that are."""
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """(dotted name, module) of the module itself, as ``""``, and of all below it, each once."""
        seen: set[int] = set()
        for name, module in self._walk(prefix):
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self) -> Iterator[Module]:
        """The module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_tensors(self) -> Iterator[tuple[str, Module, str, Tensor]]:
        """(dotted name, module, attribute, tensor) of parameters and buffers, shared ones too."""
        for path, module in self._walk(""):
            for name, value in list(vars(module).items()):
                if isinstance(value, Tensor):
                    yield f"{path}.{name}" if path else name, module, name, value

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter); one that is shared comes once, under its first name."""
        return _each_once(self.named_tensors(), Parameter)

    def parameters(self) -> Iterator[Parameter]:
        """All parameters, each once; ``list(...)`` of it to go over them again."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, tensor) of tensors that are no parameters, each once."""
        rest = (row for row in self.named_tensors() if not isinstance(row[3], Parameter))
        return _each_once(rest, Tensor)

    def buffers(self) -> Iterator[Tensor]:
        """Tensors that are no parameters, each once."""
        return (buffer for _, buffer in self.named_buffers())

    def members(self) -> Iterator[tuple[str, Any]]:
        """Attributes by name, and items of lists, tuples and dicts by ``name.key``."""
        for name, value in list(vars(self).items()):
            yield from _items(name, value)

    def _walk(self, prefix: str, above: tuple[Module, ...] = ()) -> Iterator[tuple[str, Module]]:
        """The module and all below it under each of their names, but for those ``above`` it."""
        yield prefix, self
        way = (*above, self)
        for name, child in self.named_children():
            if not any(child is each for each in way):  # a part may know the whole
                yield from child._walk(f"{prefix}.{name}" if prefix else name, way)

    # -- what is done to it ----------------------------------------------------------------------
    def train(self, mode: bool = True) -> Module:
        """Switch all modules to training, or off it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Switch training off."""
        return self.train(False)

    def to(self, device: Any = None, dtype: Any = None) -> Module:
        """Move all parameters, buffers and gradients; to ``dtype`` those that hold floats.

        ``device`` may be left out: ``module.to("f16")``. The parameters stay the same objects; make
        optimisers afterwards, since their states do not move. InvalidTypeError for a dtype that is
        no float, nothing is moved then.
        """
        device, kind = target("Module.to", device, dtype)
        if kind is not None and not kind.is_float:
            raise InvalidTypeError(
                "the parameters of a module can only be floats", argument="dtype", got=str(kind),
                next_step="choose f16, bf16, f32 or f64",
            )  # fmt: skip
        for _, value in (*self.named_parameters(), *self.named_buffers()):
            gradient = value.grad
            parts = (
                (gradient.indices, gradient.values) if isinstance(gradient, Coo) else (gradient,)
            )
            for each in (value, *parts):
                if isinstance(each, Tensor):
                    move_(each, device, kind if each.dtype.is_float else None)
        return self

    def apply(self, change: Callable[[Module], Any]) -> Module:
        """Call ``change`` with every module, those below first; the module itself is returned."""
        for module in reversed(list(self.modules())):
            change(module)
        return self

    def register_buffer(self, name: str, value: Any) -> None:
        """Set ``value`` as the buffer ``name``: a tensor of the state that is not trained.

        ``self.name = tensor`` does the same; arrays and lists are made tensors here.
        InvalidArgumentError for a name that is taken or has a dot.
        """
        if "." in name or hasattr(self, name):
            raise InvalidArgumentError(
                f"no buffer can have the name {name!r}", argument="name",
                got="an attribute of this name" if "." not in name else "a name with a dot",
                next_step="choose another name, or assign to the attribute",
            )  # fmt: skip
        setattr(self, name, value if isinstance(value, Tensor) else tensor(value))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or with ``set_to_none=False`` fill them with zeros in place."""
        for parameter in self.parameters():
            forget(parameter, set_to_none)

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by dotted name, without a history; they share memory."""
        return {name: value.detach() for name, _, _, value in self.named_tensors()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy values in. ValueError that names what is missing, unknown or of another shape.

        TypeError for floats where integers are kept. Nothing is written in either case.
        """
        own = {name: value for name, _, _, value in self.named_tensors()}
        given = {
            name: moved(value, own[name].device) for name, value in state.items() if name in own
        }
        faults = [f"missing: {name}" for name in own if name not in state]
        faults += [f"unknown: {name}" for name in state if name not in own]
        faults += [
            f"{name}: {value.shape} is not {own[name].shape}"
            for name, value in given.items()
            if value.shape != own[name].shape
        ]  # fmt: skip
        if faults:
            raise InvalidArgumentError(
                "the state does not fit the module", got="; ".join(faults[:8]),
                next_step="load the state of a module of the same build",
            )  # fmt: skip
        for name, value in own.items():
            _refuse_unwritable(name, value, given[name])
        with no_grad():
            for name, value in own.items():
                value.copy_(given[name])  # type: ignore[attr-defined]

    @recursive_repr()  # "..." for a module inside of itself
    def __repr__(self) -> str:
        inside = "".join(
            f"\n  {name}: {line}" for name, child in self.named_children()
            for line in [repr(child).replace("\n", "\n  ")]
        )  # fmt: skip
        return f"{type(self).__name__}({self.describe()})" + inside

    def describe(self) -> str:
        """What ``repr`` puts in parentheses."""
        return ""


def _refuse_unwritable(name: str, own: Tensor, given: Tensor) -> None:
    """What ``copy_`` would refuse, in words that name the state."""
    inplace.refuse_cast(own, given, f"load_state_dict: {name}")
    inplace.refuse_overlap(own, f"load_state_dict: {name}")


def refuse_lost(module: Module, buffer: str, x: Any) -> None:
    """InvalidTypeError for a buffer that a call on a trace's symbols ``x`` would change unseen."""
    if active() is not None and isinstance(x, Traced):
        raise InvalidTypeError(
            f"{type(module).__name__} in a jitted function changes its buffer {buffer!r}, which the"
            " compiled code could not do", where=where(),
            next_step="pass the buffers and take the new ones: result, buffers ="
            " nn.stateful_call(module, {**weights, **buffers}, x); or call module.eval()",
        )  # fmt: skip


_Kind = TypeVar("_Kind", bound=Tensor)


def _each_once(
    rows: Iterator[tuple[str, Module, str, Tensor]], kind: type[_Kind]
) -> Iterator[tuple[str, _Kind]]:
    seen: set[int] = set()
    for name, _, _, value in rows:
        if isinstance(value, kind) and id(value) not in seen:
            seen.add(id(value))
            yield name, value


def _items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    if isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield f"{name}.{number}", item
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{name}.{key}", item
