"""``launch_kernel`` and ``prepare``: from a name, pointers and descs to a plan, and through it.

A repeated call compares its descs with snapshots of former ones and runs the plan of the equal one:
no parsing, no matching. Settings that a plan depends on (device, checks) are read when it is made.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ge2rt.base import events, switches
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.base.locks import ForkLock
from ge2rt.base.text import show
from ge2rt.device.api import Device
from ge2rt.device.registry import get_device
from ge2rt.run import modules
from ge2rt.run.arguments import names_of, tunables_of
from ge2rt.run.plan import Plan, free_values, is_wide
from ge2rt.run.report import answer
from ge2rt.run.select import Choice, choose, refused, require
from ge2rt.run.stub import get_stub
from ge2rt.spec.blocks import block_to_call
from ge2rt.spec.descs import CallDescs, parse_descs
from ge2rt.spec.match import match
from ge2rt.spec.model import BufferDesc, KernelSpec, Refusal
from ge2rt.spec.registry import default_registry
from ge2rt.spec.suggest import did_you_mean

_KEPT_SNAPSHOTS = 8
_KEPT_PLANS = 4096
_LARGEST_SNAPSHOT = 10_000
_LONGEST_NAME = 100
_WHERE_LISTED = "ge2rt.query_kernels() lists the names, and `ge2rt kernels` in a shell"


@dataclass(frozen=True)
class _Recent:
    """A former call: its descs as an object, as bytes that tell types apart, and its plan."""

    snapshot: Any
    exact: bytes
    plan: Plan


# kernel name -> former calls, newest first; tuples are replaced as a whole, never mutated
_recent: dict[str, tuple[_Recent, ...]] = {}
# the same for the native stub: (snapshot, address of the plan's record, snapshot, ...)
_native: dict[str, tuple[Any, ...]] = {}
_plans: dict[tuple[Any, ...], Plan] = {}
_lock = ForkLock()


def launch_kernel(
    kernel_name: str, buffers: Sequence[int], descs: Mapping[str, Any] | None, stream: int = 0
) -> int:
    """Run a kernel by name; returns 0 or a negative status code (``docs/contract.md``).

    Args:
        kernel_name: name or alias in the registry.
        buffers: device pointers as ints, inputs then outputs; a kernel with a ``param_block`` also
            takes the host address of its block as one extra last entry.
        descs: ``{"buffers": [{"shape", "dtype", "layout", "device", "strides"?, "offset"?}, ...],
            "attrs"?: {...}}``, one entry a buffer.
        stream: 0 or a stream handle (a ``cudaStream_t`` as int on cuda).

    Nothing is raised for bad input (unless ``GE2RT_RAISE=1``): see ``last_error()``.

    """
    try:
        return _entry(kernel_name, buffers, descs, stream)
    except Exception as fault:  # noqa: BLE001 - a code is the answer, whatever happens
        return answer(fault, kernel_name if type(kernel_name) is str else show(kernel_name))


def _look(name: Any, buffers: Any, descs: Any, stream: int = 0) -> int:
    """Run the plan of an equal former call, or prepare a new one."""
    for former in _recent.get(name, ()) if type(name) is str else ():
        if _is_equal(former, descs):
            return former.plan.run(buffers, stream)
    return _launch_new(name, buffers, descs, stream)


def _is_equal(former: _Recent, descs: Any) -> bool:
    try:
        # == first: it ends at the first difference, however large descs are
        return bool(former.snapshot == descs) and former.exact == _exact(descs)
    except (ValueError, RecursionError):
        return False  # arrays have no truth; cyclic descs have no end


def _exact(descs: Any) -> bytes | None:
    """Bytes that keep 3, 3.0 and True apart; None for descs with values that are not plain."""
    try:
        return marshal.dumps(descs, 0)  # version 0 depends on values only, not on object identity
    except (ValueError, BufferError):
        return None


def _plain_copy(value: Any, room: list[int]) -> Any:
    """A deep copy of dicts with string keys, lists, tuples and plain values; else TypeError."""
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    room[0] -= 1 + len(value) if kind in (dict, list, tuple) else 0
    if room[0] < 0:
        raise TypeError("too large, or without end")
    if kind is dict and all(type(key) is str for key in value):
        return {key: _plain_copy(item, room) for key, item in value.items()}
    if kind is list or kind is tuple:
        return kind([_plain_copy(item, room) for item in value])
    raise TypeError(f"{kind.__name__} is not plain")


def _snapshot(descs: Any) -> Any:
    """A copy of descs that nobody else can change, or None where they hold foreign objects."""
    try:
        return _plain_copy(descs, [_LARGEST_SNAPSHOT])
    except (TypeError, RuntimeError):  # RuntimeError: too deep, or changed by another thread
        return None


# what launch_kernel calls: _look, or the native stub in front of it
_entry: Callable[..., int] = _look


def find_kernel(name: Any) -> KernelSpec:
    """The kernel of that name or alias; an error with the nearest names otherwise."""
    registry = default_registry()
    kernel = registry.find(name) if isinstance(name, str) else None
    if kernel is None:
        text = str(name) if type(name) is str else show(name)
        known = registry.ops() if text.isupper() else registry.names()
        hint = did_you_mean(text[:_LONGEST_NAME], known) or _WHERE_LISTED
        kernels = registry.kernels_of(text)
        if kernels:
            hint = f"this is an op type; its kernels are {', '.join(k.name for k in kernels)}"
        raise InvalidArgumentError(
            "no kernel of this name", kernel=text, detail="argument", next_step=hint
        )
    return kernel


def excluded(exclude: Any) -> tuple[str, ...]:
    """The names of an ``exclude=`` argument, each that of a kernel."""
    names = names_of(exclude, "exclude")
    registry = default_registry()
    for name in names:
        if registry.find(name) is None:
            raise InvalidArgumentError(
                "no kernel of this name", kernel=name, argument="exclude", detail="argument",
                next_step=did_you_mean(name[:_LONGEST_NAME], registry.names())
                or "see ge2rt.query_kernels()",
            )  # fmt: skip
    return names


def prepare(
    name: str,
    descs: Mapping[str, Any] | CallDescs,
    *,
    device: str | Device | None = None,
    exclude: Sequence[str] = (),
    tunables: Mapping[str, int] | None = None,
) -> Plan:
    """Validate, select and compile; the returned plan is called with ``(buffers, stream=0)``.

    ``name`` is a kernel, or an op type (upper case): then the best kernel for the descs is chosen,
    ``plan.choice`` says why, and ``exclude`` names kernels that may not be taken. Raises the
    exception of the code (``InvalidArgumentError``, ``UnsupportedError``, ``CompileError``...).
    """
    call = descs if isinstance(descs, CallDescs) else parse_descs(descs)
    where = device if isinstance(device, Device) else _device_of(call.buffers, device)
    plan = plan_for(name, call.buffers, call.attrs, where, excluded(exclude), tunables_of(tunables))
    if not plan.is_empty:
        plan.compiled(aligned=True)
        where.settle()
    return plan


def clear() -> None:
    """Forget all plans and snapshots: further calls are validated and prepared anew."""
    with _lock:
        _native.clear()  # first: it holds addresses of what the others keep alive
        _recent.clear()
        _plans.clear()
    modules.clear()


def _forget_former_calls(event: str, details: Mapping[str, Any]) -> None:
    """A name may mean another kernel once a registry has changed."""
    if event == "registry.change":
        with _lock:
            _native.clear()
            _recent.clear()


events.subscribe(_forget_former_calls)


def _launch_new(name: Any, buffers: Any, descs: Any, stream: int) -> int:
    kernel = find_kernel(name)
    if kernel.param_block and _has_block(buffers, descs):
        return _launch_block(kernel, list(buffers), stream)
    if descs is None:
        raise InvalidArgumentError(
            "descs are missing", kernel=kernel.name, argument="descs",
            expected='{"buffers": [{"shape": ..., "dtype": ...}, ...]}', got="None",
        )  # fmt: skip
    snapshot = _snapshot(descs)  # first: another thread may change descs at any time
    call = parse_descs(descs if snapshot is None else snapshot)
    plan = plan_for(kernel.name, call.buffers, call.attrs, _device_of(call.buffers, None))
    code = plan.run(buffers, stream)
    if snapshot is not None and type(name) is str:
        _remember(name, snapshot, plan)
    return code


def _has_block(buffers: Any, descs: Any) -> bool:
    """Whether the call is the legacy form: no descs, or one buffer more than descs."""
    listed = descs.get("buffers") if isinstance(descs, Mapping) else None
    count = len(listed) if isinstance(listed, Sequence) else 0
    return count == 0 or (hasattr(buffers, "__len__") and len(buffers) == count + 1)


def _launch_block(kernel: KernelSpec, buffers: list[Any], stream: int) -> int:
    """The legacy form: the last pointer is the host address of a parameter block."""
    descs, attrs, pointers = block_to_call(kernel, buffers, get_device().props.kind)
    plan = plan_for(kernel.name, descs, attrs, _device_of(descs, None))
    return plan.run(pointers, stream)


def _remember(name: str, snapshot: Any, plan: Plan) -> None:
    exact = _exact(snapshot)
    if exact is None:
        return
    call = _Recent(snapshot, exact, plan)
    with _lock:
        former = [f for f in _recent.get(name, ()) if f.exact != exact]
        kept = (call, *former[: _KEPT_SNAPSHOTS - 1])
        # before _recent lets go of the oldest plan, whose record could still be found here
        _native[name] = tuple(
            item
            for entry in kept
            if entry.plan.record is not None
            for item in (entry.snapshot, entry.plan.record.address)
        )
        _recent[name] = kept
        if _native[name]:
            _use_stub()


def _use_stub() -> None:
    """Put the native stub in front, once there is something for it to find."""
    global _entry
    stub = get_stub()
    if stub is not None and _entry is _look:
        _entry = stub.function("launch", (_native, _look, 0), b"launch_kernel")


def _device_of(descs: Sequence[BufferDesc | None], wanted: str | None) -> Device:
    """The device that all descs name; without any, ``wanted`` or the default device."""
    names = {desc.device for desc in descs if desc is not None and desc.device}
    if wanted is not None:
        return get_device(wanted)
    if len(names) > 1:
        raise InvalidArgumentError(
            "buffers lie on different devices", got=", ".join(sorted(names)), detail="device",
            next_step="move them to one device first",
        )  # fmt: skip
    return get_device(names.pop()) if names else get_device()


def plan_for(
    name: str,
    descs: Sequence[BufferDesc | None],
    attrs: Mapping[str, Any],
    device: Device,
    exclude: tuple[str, ...] = (),
    tunables: Mapping[str, int] | None = None,
    *,
    dynamic: bool = False,
) -> Plan:
    """The plan for validated descs on a device, from the cache or made now.

    A ``dynamic`` one is compiled for any extents, unless its kernel is always static.
    """
    if not isinstance(name, str):
        find_kernel(name)  # refuses it
    key = _key(name, descs, attrs, device, exclude, tunables, dynamic)
    plan = _plans.get(key)
    if plan is None:
        made = _make_plan(name, descs, attrs, device, exclude, tunables, dynamic)
        plan = _kept(key, made)
    return plan


def plan_and_values(
    kernel: KernelSpec,
    descs: Sequence[BufferDesc | None],
    attrs: Mapping[str, Any],
    device: Device,
    tunables: Mapping[str, int] | None = None,
) -> tuple[Plan, Mapping[str, Any]]:
    """A plan for a kernel's call, and the values that its launch takes besides.

    Calls that differ in free attributes only (a seed, a learning rate) share the plan of the first.
    """
    values = free_values(kernel, {name: attrs.get(name) for name in kernel.free})
    wide = sorted(name for name, value in values.items() if is_wide(value))
    fixed = {name: value for name, value in attrs.items() if name not in kernel.free}
    key = ("family", *_key(kernel.name, descs, fixed, device, (), tunables, False), *wide)
    plan = _plans.get(key)
    if plan is None:
        made = plan_for(kernel.name, descs, attrs, device, (), tunables)
        plan = _kept(key, made)
    own = {name: plan.bound.attrs[name] for name in values}
    return plan, {} if _frozen(own) == _frozen(values) else values


def _key(
    name: str, descs: Sequence[BufferDesc | None], attrs: Mapping[str, Any], device: Device,
    exclude: tuple[str, ...], tunables: Mapping[str, int] | None, dynamic: bool,
) -> tuple[Any, ...]:  # fmt: skip
    return (
        name, default_registry().version, tuple(descs), _frozen(attrs), device.name,
        device.props.arch, exclude, _frozen(tunables or {}), dynamic, switches.get("GE2RT_CHECK"),
        switches.get("GE2RT_SEED"),
    )  # fmt: skip


def _kept(key: tuple[Any, ...], plan: Plan) -> Plan:
    """The plan that is kept under a key: this one, or another thread's."""
    with _lock:
        if len(_plans) >= _KEPT_PLANS:
            _plans.pop(next(iter(_plans)))
        return _plans.setdefault(key, plan)


def _make_plan(
    name: str,
    descs: Sequence[BufferDesc | None],
    attrs: Mapping[str, Any],
    device: Device,
    exclude: tuple[str, ...],
    tunables: Mapping[str, int] | None,
    dynamic: bool,
) -> Plan:
    op_kernels = default_registry().kernels_of(name)
    if op_kernels:
        choice = choose(op_kernels, descs, attrs, device.props, exclude=exclude)
        candidate = require(choice)
        assert candidate.bound is not None
        return Plan(candidate.bound, device, choice=choice, tunables=tunables, dynamic=dynamic)
    kernel = find_kernel(name)
    bound = match(kernel, descs, attrs, device.props)
    if isinstance(bound, Refusal):
        raise refused(bound, kernel.name)
    return Plan(bound, device, tunables=tunables, dynamic=dynamic)


def _frozen(values: Mapping[str, Any]) -> tuple[Any, ...]:
    """A hashable form that keeps 1, 1.0 and True apart."""
    return tuple(sorted((k, type(v).__name__, repr(v)) for k, v in values.items()))


def explain_choice(
    op: str, descs: Sequence[BufferDesc | None], attrs: Mapping[str, Any], device: Device,
    exclude: Sequence[str] = (),
) -> Choice:  # fmt: skip
    """The ranking of all kernels of an op type for a call, with every reason."""
    kernels = default_registry().kernels_of(op)
    return choose(kernels, descs, attrs, device.props, exclude=tuple(exclude))
