"""What elementwise and reduction kernels share: parameters, variants by types and layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ge2rt.base.dtypes import DType
from ge2rt.base.errors import CompileError, InvalidArgumentError
from ge2rt.device.api import Device
from ge2rt.device.pointers import Operand
from ge2rt.device.registry import get_device
from ge2rt.raw.faults import retold
from ge2rt.raw.module import RawFunction, RawModule, stream_handle
from ge2rt.raw.operands import Argument, placed, raw_bytes, raw_shape_key
from ge2rt.raw.params import Spec, as_scalar, check_names, dtype_for, parse_params
from ge2rt.raw.text import ARRAY_TEXT, Text, ctype, type_texts

_KEPT = 1024
_T = TypeVar("_T")


class Generated:
    """A kernel whose text is made from expressions, once for each set of types and layouts."""

    def __init__(
        self, in_params: str, out_params: str, name: str, preamble: str, options: Sequence[str],
        device: str | Device | None,
    ) -> None:  # fmt: skip
        if not name.isidentifier():
            raise InvalidArgumentError("not a name for a kernel", argument="name", got=repr(name))
        self.name = name
        self.preamble = preamble
        self.options = tuple(options)
        self.in_specs = parse_params(in_params, name)
        self.out_specs = parse_params(out_params, name)
        check_names((*self.in_specs, *self.out_specs), name)
        self._device = device
        self._variants: dict[tuple[Any, ...], RawFunction] = {}
        self._prepared: dict[tuple[Any, ...], Any] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def target(self, arguments: Sequence[Argument]) -> Device:
        """Where a call runs: the device given, else where its arrays lie."""
        homes = {a.operand.device: a for a in arguments if a.operand is not None}
        if len(homes) > 1:
            raise InvalidArgumentError(
                "arrays lie on different devices", kernel=self.name, got=", ".join(sorted(homes)),
                detail="device", next_step="move them to one device first",
            )  # fmt: skip
        home = next(iter(homes), None)
        if isinstance(self._device, Device):
            device = self._device
        else:
            device = get_device(self._device)
            if self._device is None and home is not None and not device.accepts(home):
                device = get_device(home)
        if home is not None and not device.accepts(home):
            raise InvalidArgumentError(
                "arrays lie on another device", kernel=self.name, expected=device.name, got=home,
                detail="device",
            )  # fmt: skip
        return device

    def variant(self, key: tuple[Any, ...], write: Callable[[], Text]) -> RawFunction:
        """The compiled function for a key; ``write`` makes its text where it is new."""
        found = self._variants.get(key)
        if found is None:
            text = write()
            module = RawModule(text.code, options=self.options, device=self._device)
            module.title, module.line_map = f"{self.name}.cu", text.line_map
            found = self._variants[key] = RawFunction(module, self.name)
        return found

    def prepared(self, key: tuple[Any, ...], make: Callable[[], _T]) -> _T:
        """What follows from the layouts of a call, kept for the next call of the same layouts."""
        found: _T | None = self._prepared.get(key)
        if found is None:
            if len(self._prepared) >= _KEPT:
                self._prepared.pop(next(iter(self._prepared)), None)
            found = self._prepared[key] = make()
        return found

    def run(
        self, function: RawFunction, device: Device, grid: tuple[int, ...], block: int,
        values: Sequence[Any], stream: Any, keep: Sequence[Any],
    ) -> None:  # fmt: skip
        """Launch a variant."""
        try:
            loaded = function.module.load(device.name)
        except CompileError as fault:
            raise retold(fault, function.module.source()) from None
        function.launch(loaded, (grid, (block,), 0), values, stream)
        loaded.device.keep_alive(keep, stream_handle(stream, loaded.device))

    def count_error(self, given: int) -> InvalidArgumentError:
        """The error for a wrong number of arguments."""
        names = [*(s.name for s in self.in_specs), *(f"{s.name}?" for s in self.out_specs)]
        return InvalidArgumentError(
            "wrong number of arguments", kernel=self.name, got=str(given),
            expected=f"{len(self.in_specs)} inputs, perhaps with all outputs: {', '.join(names)}",
        )  # fmt: skip


def begin_text(
    kernel: Generated, types: dict[str, DType], specs: Sequence[Spec], has_raw: bool
) -> Text:
    """The text up to the kernel: types, the caller's preamble."""
    text = Text(kernel.name)
    text.add(*type_texts(types, [dtype_for(spec, types) for spec in specs]))
    if has_raw:
        text.add(ARRAY_TEXT)
    if kernel.preamble:
        text.quote("preamble", kernel.preamble)
    return text


def declarations(
    arguments: Sequence[Argument], types: dict[str, DType], writable: int
) -> list[str]:
    """The kernel's parameters for its arguments; those from index ``writable`` on are outputs."""
    found = []
    for index, argument in enumerate(arguments):
        spec = argument.spec
        element = ctype(dtype_for(spec, types))
        if argument.operand is None:
            found.append(f"const {element} {spec.name}")
        elif spec.raw:
            rank, dense = raw_shape_key(argument)
            found.append(f"const CArray<{element}, {rank}, {str(dense).lower()}> {spec.name}")
        else:
            const = "" if index >= writable else "const "
            found.append(f"{const}{element}* _p_{spec.name}")
    return found


def values_of(arguments: Sequence[Argument], types: dict[str, DType], kernel: str) -> list[Any]:
    """The values for :func:`declarations`."""
    found: list[Any] = []
    for argument in arguments:
        operand, spec = argument.operand, argument.spec
        if operand is None:
            scalar = as_scalar(argument.value, dtype_for(spec, types), spec, kernel)
            found.append(scalar)
        else:
            found.append(raw_bytes(operand) if spec.raw else placed(operand))
    return found


def argument_key(arguments: Sequence[Argument], types: dict[str, DType]) -> tuple[Any, ...]:
    """What the declarations depend on."""
    layouts = tuple(
        "scalar" if a.operand is None else raw_shape_key(a) if a.spec.raw else "array"
        for a in arguments
    )
    return tuple(sorted((name, dtype.name) for name, dtype in types.items())), layouts


def layouts(arguments: Sequence[Argument]) -> tuple[Any, ...]:
    """Shapes and strides of the arrays, None for scalars."""
    operands = [a.operand for a in arguments]
    return tuple(None if o is None else (o.shape, o.strides) for o in operands)


def returned(operands: Sequence[Operand], as_tuple: bool) -> Any:
    """One array, or a tuple of them; None without outputs."""
    sources = tuple(operand.source for operand in operands)
    if len(sources) == 1 and not as_tuple:
        return sources[0]
    return sources or None
