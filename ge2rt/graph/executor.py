"""From a graph to launches: passes, selection, buffers, then ``launch_kernel`` for each op."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ge2rt.base.errors import (
    STATUS_TABLE,
    Ge2rtError,
    InternalError,
    InvalidArgumentError,
    Status,
    UnsupportedError,
)
from ge2rt.base.shapes import canonical_strides, contiguous_strides
from ge2rt.base.text import show
from ge2rt.device.api import Device, DeviceProps
from ge2rt.device.pointers import Operand, address_of, describe
from ge2rt.device.registry import get_device
from ge2rt.graph.convert import with_casts
from ge2rt.graph.model import Graph, Op, Tensor
from ge2rt.graph.native import find_native
from ge2rt.graph.passes import PassManager
from ge2rt.graph.selection import Selection, select
from ge2rt.run.program_arrays import Arena
from ge2rt.run.program_memory import lives, plan_memory
from ge2rt.spec.registry import default_registry

_BASIC = struct.Struct("=5i")  # M N K has_bias act: ge_v2's basic block
_BASIC_ACTS = {"none": 0, "relu": 1}
_FAMILIES = {row.status: row.exception for row in STATUS_TABLE}


@dataclass(frozen=True)
class Launch:
    """One launch: the kernel and why, its buffers by name, what is passed along."""

    kernel: str
    op: Op
    buffers: tuple[str | None, ...]
    descs: Mapping[str, Any]
    selection: Selection
    block: bytes = b""  # a parameter block that goes along as one more buffer

    def __str__(self) -> str:
        parts = [
            "-" if name is None else f"{name} {desc['dtype']}{desc['shape']}"
            for name, desc in zip(self.buffers, self.descs["buffers"], strict=True)
        ]
        attrs = ", ".join(f"{k}={v!r}" for k, v in sorted(self.descs.get("attrs", {}).items()))
        block = f" block[{len(self.block)}]" if self.block else ""
        return f"{self.kernel}({', '.join(parts)}){f' {{{attrs}}}' if attrs else ''}{block}"


@dataclass(frozen=True)
class Result:
    """What a run gave: the outputs by name, the launches, and the status of the last one."""

    outputs: Mapping[str, Any]
    launches: tuple[Launch, ...]
    code: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.outputs[name]

    def __repr__(self) -> str:
        held = ", ".join(f"{n}: {getattr(v, 'dtype', '?')}{list(getattr(v, 'shape', ()))}"
                         for n, v in self.outputs.items())  # fmt: skip
        return f"Result({{{held}}}, {len(self.launches)} launches, code {self.code})"


@dataclass
class _Values:
    """Where the tensors of one run lie."""

    addresses: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)


class Executor:
    """Runs graphs through ``launch_kernel`` of ge2rt or of an injected module.

    Args:
        device_caps: the device to select for and to run on: a device, its name, its
            :class:`DeviceProps`, or a mapping of changes to the default device's properties
            (``{"tensor_cores": False}``).
        stream: 0 or a stream handle, passed to every launch.
        dry_run: print the launches and make none.
        native: a module or object with ge_v2's functions, or a module's name; by default what
            ``GE_NATIVE`` names, else ge2rt itself.
        raising: whether a launch that fails raises the exception of its code. Otherwise the run
            ends with :attr:`Result.code` set.
        param_block: pass products the way ge_v2's native module takes them: without attributes,
            with the address of a parameter block as one more buffer.
        passes: what rewrites the graph first.
        out: where a dry run's lines go.

    """

    def __init__(
        self,
        device_caps: Device | DeviceProps | Mapping[str, Any] | str | None = None,
        stream: int = 0,
        dry_run: bool = False,
        *,
        native: Any = None,
        raising: bool = True,
        param_block: bool = False,
        passes: PassManager | None = None,
        out: Callable[[str], Any] = print,
    ) -> None:
        self.device, self.props = _device(device_caps)
        self.stream = stream
        self.dry_run = dry_run
        self.native = find_native(native, self.props)
        self.raising = raising
        self.param_block = param_block
        self.passes = passes if passes is not None else PassManager()
        self._out = out

    def prepare(self, graph: Graph, feeds: Mapping[str, Any] | None = None) -> list[Launch]:
        """The launches for a graph, with the reasons of each choice; nothing is run."""
        operands = self._operands(graph, feeds or {})
        return list(self._selected(self.passes.run(graph), operands)[1])

    def run(self, graph: Graph, feeds: Mapping[str, Any] | None = None) -> Result:
        """Run a graph.

        ``feeds`` gives data by tensor name; other tensors use their own ``data``. Outputs with data
        are written in place, the others are allocated: arrays of the library of the first input.
        """
        feeds = feeds or {}
        operands = self._operands(graph, feeds)
        final, launches = self._selected(self.passes.run(graph), operands)
        if self.dry_run:
            for number, launch in enumerate(launches):
                self._out(f"{number}: {launch}")
                self._out(f"   {launch.selection}")
            return Result({}, launches)
        values = self._place(final, feeds, operands)
        code = 0
        for launch in launches:
            code = self._launch(launch, values)
            if code:
                break
        self.device.keep_alive(values.held, self.stream)
        return Result({} if code else values.outputs, launches, code)

    # -- descriptors and selection ----------------------------------------------------------------
    def _operands(self, graph: Graph, feeds: Mapping[str, Any]) -> dict[str, Operand]:
        """Data that is an array, described, and checked against its tensor; pointers are not."""
        unknown = sorted(set(feeds) - set(graph.tensors))
        if unknown:
            raise InvalidArgumentError(
                f"{graph.name} has no tensor {unknown[0]!r}", expected=", ".join(graph.tensors),
                argument="feeds",
            )  # fmt: skip
        found = {}
        for name, tensor in graph.tensors.items():
            data = feeds.get(name, tensor.data)
            if data is None or isinstance(data, int) or _is_pointer(data):
                continue
            operand = found[name] = describe(data, name)
            if operand.shape != tensor.shape or operand.dtype != tensor.element:
                raise InvalidArgumentError(
                    "the data is not what its tensor says", argument=name, expected=str(tensor),
                    got=f"{operand.dtype}{list(operand.shape)}",
                    detail="shape" if operand.dtype == tensor.element else "dtype",
                )  # fmt: skip
        return found

    def _selected(
        self, graph: Graph, operands: Mapping[str, Operand]
    ) -> tuple[Graph, tuple[Launch, ...]]:
        """The launches; where an op has no kernel, of the graph with casts around it."""
        try:
            return graph, tuple(self._launches(graph, operands))
        except UnsupportedError:
            changed = with_casts(graph, lambda t: self._desc(t, operands), self.props)
            if changed is graph:
                raise
            return changed, tuple(self._launches(changed, operands))

    def _launches(self, graph: Graph, operands: Mapping[str, Operand]) -> Iterator[Launch]:
        for op in graph.ops:
            attrs = op.kernel_attrs
            inputs = [self._desc(t, operands) if t is not None else None for t in op.inputs]
            outputs = [self._desc(t, operands) for t in op.outputs]
            selection = select(
                op, {"buffers": inputs, "attrs": attrs}, {"buffers": outputs, "attrs": attrs},
                self.native, self.props,
            )  # fmt: skip
            before, behind = _left_out(selection.kernel, op)
            tensors = (*op.inputs, *before, *op.outputs, *behind)
            buffers = tuple(t.name if t is not None else None for t in tensors)
            listed = [*inputs, *before, *outputs, *behind]
            descs = {"buffers": listed, "kernel": selection.kernel, "attrs": attrs}
            launch = Launch(selection.kernel, op, buffers, descs, selection)
            yield _with_block(launch) if self.param_block else launch

    def _desc(self, tensor: Tensor, operands: Mapping[str, Operand]) -> dict[str, Any]:
        desc: dict[str, Any] = {
            "shape": list(tensor.shape), "dtype": tensor.dtype, "layout": tensor.layout,
            "device": tensor.device or self.device.name,
        }  # fmt: skip
        operand = operands.get(tensor.name)
        if operand is not None and tensor.layout == "rowmajor":
            dense = canonical_strides(tensor.shape, contiguous_strides(tensor.shape))
            if canonical_strides(tensor.shape, operand.strides) != dense:
                desc["strides"] = list(operand.strides)
        return desc

    # -- buffers ----------------------------------------------------------------------------------
    def _place(
        self, graph: Graph, feeds: Mapping[str, Any], operands: Mapping[str, Operand]
    ) -> _Values:
        values = _Values()
        like = next((o.source for o in operands.values()), None)
        inner: dict[str, Tensor] = {}
        for name, tensor in graph.tensors.items():
            data = feeds.get(name, tensor.data)
            if data is not None:
                operand = operands.get(name)
                values.addresses[name] = operand.address if operand else address_of(data)
                values.held.append(operand.keepalive if operand else data)
            elif name in graph.outputs:
                data = self.device.empty(tensor.shape, tensor.element, like)
                values.addresses[name] = describe(data).address
                values.held.append(data)
            elif name in graph.producers:
                inner[name] = tensor
            else:
                raise InvalidArgumentError(
                    "no data for an input", argument=name, expected=str(tensor),
                    detail="missing_input", next_step=f"run(graph, {{{name!r}: array}})",
                )  # fmt: skip
            if name in graph.outputs:
                values.outputs[name] = data
        self._place_inner(graph, inner, values)
        return values

    def _place_inner(self, graph: Graph, inner: Mapping[str, Tensor], values: _Values) -> None:
        """One arena for what lies between; tensors that are never needed together share memory."""
        if not inner:
            return
        numbers = {name: number for number, name in enumerate(inner)}
        touched = [
            [
                numbers[t.name]
                for t in (*op.inputs, *op.outputs)
                if t is not None and t.name in inner
            ]
            for op in graph.ops
        ]
        sizes = {numbers[name]: tensor.nbytes for name, tensor in inner.items()}
        layout = plan_memory(lives(touched, sizes))
        arena = Arena(self.device, layout.nbytes, 0)
        values.held.append(arena)
        for name, number in numbers.items():
            values.addresses[name] = arena.address + layout.offsets[number]

    # -- launching --------------------------------------------------------------------------------
    def _launch(self, launch: Launch, values: _Values) -> int:
        pointers = [0 if n is None else values.addresses[n] for n in launch.buffers]
        descs: Mapping[str, Any] = launch.descs
        memory = bytearray(launch.block)
        if launch.block:
            pointers = [pointer for pointer, n in zip(pointers, launch.buffers, strict=True) if n]
            pointers.append(_address(memory))
            descs = {"buffers": []}
        code = self.native.launch_kernel(launch.kernel, pointers, descs, self.stream)
        code = 0 if code is None else int(code)  # the old binding returned nothing
        if code and self.raising:
            raise self._error(code, launch)
        return code

    def _error(self, code: int, launch: Launch) -> Ge2rtError:
        status = Status(code) if code in Status._value2member_map_ else Status.INTERNAL
        family = _FAMILIES[status] or InternalError
        ask = getattr(self.native, "last_error", None)
        record = ask() if ask is not None else None
        if record is not None and getattr(record, "code", None) == code:
            parts = {k: v for k, v in vars(record).items() if k not in ("code", "message")}
            fault: Ge2rtError = family(record.message, **parts)
            return fault.about(where=str(launch.op))
        return family(
            f"launch_kernel gave {code}", kernel=launch.kernel, where=str(launch.op),
            next_step="see the module's own log",
        )  # fmt: skip


def _left_out(kernel: str, op: Op) -> tuple[list[None], list[None]]:
    """Optional inputs and outputs that the op does not list, beside one that it says is absent.

    A call lists all absent buffers or none: with some of them it is not clear which they are.
    """
    spec = default_registry().find(kernel)
    if spec is None or spec.many or None not in op.inputs:
        return [], []
    rest = spec.inputs[len(op.inputs) :], spec.outputs[len(op.outputs) :]
    if not all(buffer.optional for part in rest for buffer in part):
        return [], []
    return [None] * len(rest[0]), [None] * len(rest[1])


def _with_block(launch: Launch) -> Launch:
    """A product with ge_v2's basic parameter block; other launches as they are."""
    if launch.op.op_type != "GEMM_BIAS_ACT":
        return launch
    attrs = launch.op.attrs
    act = attrs.get("act", "none")
    if act not in _BASIC_ACTS or set(attrs) - {"act", "mnk"}:
        raise UnsupportedError(
            f"ge_v2's basic parameter block cannot say {launch.op}", kernel=launch.kernel,
            expected="act none or relu, no other attribute",
            next_step="param_block=False, for a module that reads descs",
        )  # fmt: skip
    a = launch.op.inputs[0]
    assert a is not None
    m, n = launch.op.outputs[0].shape
    has_bias = len(launch.op.inputs) > 2 and launch.op.inputs[2] is not None
    return replace(launch, block=_BASIC.pack(m, n, a.shape[1], int(has_bias), _BASIC_ACTS[act]))


def _address(memory: bytearray) -> int:
    import ctypes  # only parameter blocks need it

    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _is_pointer(data: Any) -> bool:
    """Whether data only says where it lies: an object with ``.ptr`` or ``.device_ptr``."""
    if hasattr(data, "__array_interface__") or hasattr(data, "__cuda_array_interface__"):
        return False
    if hasattr(data, "data_ptr") or hasattr(data, "__dlpack__"):
        return False
    inner = getattr(data, "t", None)
    if inner is not None and inner is not data and not callable(inner):
        return isinstance(inner, int) or _is_pointer(inner)
    return hasattr(data, "ptr") or hasattr(data, "device_ptr")


def _device(
    caps: Device | DeviceProps | Mapping[str, Any] | str | None,
) -> tuple[Device, DeviceProps]:
    """The device to run on and the properties to select for."""
    if isinstance(caps, Device):
        return caps, caps.props
    if isinstance(caps, DeviceProps):
        return get_device(caps.kind if caps.kind in ("cpu", "cuda", "null") else None), caps
    if isinstance(caps, Mapping):
        device = get_device(caps.get("device"))
        changes: dict[str, Any] = {k: v for k, v in caps.items() if k != "device"}
        unknown: Sequence[str] = sorted(set(changes) - set(vars(device.props)))
        if unknown:
            raise InvalidArgumentError(
                "no such property of a device", argument="device_caps", got=show(unknown[0]),
                expected=", ".join(vars(device.props)),
            )  # fmt: skip
        return device, replace(device.props, **changes)
    device = get_device(caps)
    return device, device.props
