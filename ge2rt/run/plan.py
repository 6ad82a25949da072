"""A plan: one kernel prepared for one set of descriptors, ready for repeated launches."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ge2rt.base import switches
from ge2rt.base.errors import Ge2rtError, InternalError, InvalidArgumentError
from ge2rt.base.locks import ForkLock
from ge2rt.base.once import cached_property
from ge2rt.base.shapes import size_of
from ge2rt.build.compile import build
from ge2rt.build.front import front_key
from ge2rt.build.problem import make_problem
from ge2rt.build.records import Binary, Problem, Source
from ge2rt.device.api import Device, Function, Launcher, LaunchShape, Module
from ge2rt.run.checks import as_pointers, check_pointers, check_values, place
from ge2rt.run.fastpath import Run, Target, compile_fast
from ge2rt.run.modules import load_module
from ge2rt.run.parameters import check_parameters
from ge2rt.run.report import answer
from ge2rt.run.scratch import Scratch
from ge2rt.run.select import Choice, refused
from ge2rt.run.specialize import is_static
from ge2rt.run.stub import Record, fits, get_stub, prepare_record
from ge2rt.spec.attrs import bind_attr
from ge2rt.spec.model import Bound, KernelSpec, Refusal

_VECTOR_BYTES = 16
_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Compiled:
    """One compiled variant of a plan: every stage of the way from problem to launcher.

    ``function`` and ``launcher`` are those of the first launch, ``launchers`` all in order.
    """

    problem: Problem
    binary: Binary
    function: Function
    launcher: Launcher
    packer: struct.Struct
    launchers: tuple[Launcher, ...] = ()

    @cached_property
    def source(self) -> Source:
        """The CUDA text, rendered again if it came from the cache."""
        from ge2rt.build.render import render  # late: a cached call never renders

        return render(self.problem)

    def pack(
        self, pointers: Sequence[int], workspace: int = 0, scalars: Mapping[str, Any] = _NONE
    ) -> bytes:
        """The packed parameter block for these pointers (parallel to the kernel's buffers).

        ``scalars`` are other values of scalar arguments than the plan's.
        """
        bases = {"workspace": workspace}
        values = [
            pointers[slot.value] + slot.offset if slot.kind == "pointer"
            else bases[slot.kind] + slot.offset if slot.kind in bases
            else scalars.get(slot.name, slot.value)
            for slot in self.problem.args
        ]  # fmt: skip
        return self.packer.pack(*values)


def free_values(kernel: KernelSpec, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Checked values of attributes; None is the default. Raises what they are refused for."""
    values = {}
    for name, given in attrs.items():
        value = bind_attr(kernel.attrs[name], given)
        if isinstance(value, Refusal):
            raise refused(value, kernel.name)
        values[name] = value
    return values


def is_wide(value: Any) -> bool:
    """Whether an attribute is an int that 32 bits do not hold."""
    return isinstance(value, int) and not -(2**31) <= value < 2**31


class Plan:
    """Call it with ``(buffers, stream=0)``; returns the contract's status code.

    Attributes: ``kernel`` (name), ``bound``, ``device``, ``choice`` (None when the kernel was
    named), ``workspace`` (bytes; 0 for kernels that need none), ``is_empty`` (nothing to launch).
    Plans are safe to share between threads. Where a workspace is needed, ``plan(buffers, stream,
    workspace)`` takes its address (a multiple of 256); without one the plan keeps memory of its
    own, allocated at its first call on each stream.
    """

    def __init__(
        self, bound: Bound, device: Device, *, choice: Choice | None = None,
        tunables: Mapping[str, int] | None = None, dynamic: bool = False,
    ) -> None:  # fmt: skip
        self.bound = bound
        self.device = device
        self.choice = choice
        self._tunables = tunables
        self._static = is_static(bound, device.props.arch, dynamic=dynamic)
        switches.get("GE2RT_NO_STUB")  # a malformed one is told before anything is launched
        self._variants: dict[bool, Compiled] = {}
        self._lock = ForkLock()
        outputs = bound.descs[len(bound.kernel.inputs) :]
        self.is_empty = all(d is None or size_of(d.shape) == 0 for d in outputs)
        self._scratch = Scratch(device, self.kernel)
        self.record: Record | None = None  # for the launch stub, once the plan has run
        # values that the host can see are looked at before each launch
        self._is_watched = device.accepts("cpu") and any(b.within for b in bound.kernel.inputs)
        self.run: Run = self._slow

    def __call__(self, buffers: Sequence[int], stream: int = 0, workspace: int = 0) -> int:
        """Launch; 0 or a negative status. Never raises unless ``GE2RT_RAISE`` is on."""
        try:
            if workspace:
                return self._slow(buffers, stream, workspace)
            return self.run(buffers, stream)
        except Exception as fault:  # noqa: BLE001 - a code is the answer, whatever happens
            return answer(fault, self.kernel)

    def __repr__(self) -> str:
        listed = ", ".join(str(d) if d else "-" for d in self.bound.descs)
        return f"<Plan {self.kernel}({listed}) on {self.device.name}>"

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return self.bound.kernel.name

    @property
    def is_single(self) -> bool:
        """Whether a call is one launch without memory of its own, as native code can do it."""
        kernel = self.bound.kernel
        return not (kernel.then or kernel.workspace or self._is_watched)

    @cached_property
    def workspace(self) -> int:
        """Bytes of memory of its own that a launch needs, however its buffers are aligned."""
        if not self.bound.kernel.workspace or self.is_empty:
            return 0
        return max(self._problem(aligned).workspace for aligned in (True, False))

    def compiled(self, *, aligned: bool = True) -> Compiled:
        """The variant for 16-byte aligned pointers, or for any; compiled on first use."""
        variant = self._variants.get(aligned)
        if variant is None:
            with self._lock:
                variant = self._variants.get(aligned) or self._compile(aligned)
                self._variants[aligned] = variant
        return variant

    def find(self) -> None:
        """Look for the compiled kernel where it would be kept."""
        front_key(self._problem(True), self.device.props.binary_kind)

    def launch(
        self, buffers: Sequence[Any], stream: int = 0, attrs: Mapping[str, Any] = _NONE
    ) -> None:
        """Like a call, but raises the exception of the code.

        ``attrs`` are other values of runtime attributes for this launch alone, such as a learning
        rate: nothing is made anew for them. Those that an expression of the kernel's declaration
        reads need a plan of their own (:class:`InvalidArgumentError`).
        """
        if attrs:
            self._slow(buffers, stream, scalars=self._scalars(attrs))
        else:
            self.run(buffers, stream)

    def _scalars(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        kernel = self.bound.kernel
        for name in attrs:
            if name not in kernel.free:
                raise InvalidArgumentError(
                    "this attribute cannot change from launch to launch", kernel=kernel.name,
                    argument=name, expected=", ".join(sorted(kernel.free)) or "none",
                    next_step="prepare a plan with its value",
                )  # fmt: skip
        values = free_values(kernel, attrs)
        for name, value in values.items():
            if is_wide(value) and not is_wide(self.bound.attrs[name]):
                raise InvalidArgumentError(
                    "the plan takes 32 bits here", kernel=kernel.name, argument=name,
                    got=str(value), next_step="prepare a plan with such a value",
                )  # fmt: skip
        return values

    def _problem(self, aligned: bool) -> Problem:
        return make_problem(
            self.bound, self.device.props, aligned=aligned, static=self._static,
            tunables=self._tunables,
        )  # fmt: skip

    def _compile(self, aligned: bool) -> Compiled:
        problem = self._problem(aligned)
        built = build(problem, self.device.props.binary_kind)
        module = load_module(self.device, built)
        functions: list[Function] = []
        launchers: list[Launcher] = []
        for geometry in problem.launches:
            suffix = f"_{geometry.entry}" if geometry.entry else ""
            function = _entry(module, built.entry + suffix, suffix)
            if self.device.name == "cpu":  # a cubin does not tell its parameters
                check_parameters(problem, function.param_layout)
            shape = LaunchShape(geometry.grid, geometry.block, geometry.shared)
            functions.append(function)
            launchers.append(function.launcher(shape))
        packer = struct.Struct("@" + "".join(slot.format for slot in problem.args))
        pairs = zip(problem.launches, launchers, strict=True)
        wanted = tuple(launcher for geometry, launcher in pairs if geometry.wanted)
        return Compiled(problem, built, functions[0], launchers[0], packer, wanted)

    def _slow(
        self, buffers: Any, stream: int = 0, workspace: int = 0, scalars: Mapping[str, Any] = _NONE
    ) -> int:
        """Everything checked; afterwards repeated calls take the fast path."""
        self.device.check_stream(stream)
        given = as_pointers(buffers, self.kernel)
        pointers = place(self.bound, given)
        check_pointers(self.bound, pointers)
        if self.is_empty:
            return 0
        if self._is_watched:
            check_values(self.bound, pointers)
        aligned = self._is_aligned(pointers)
        variant = self.compiled(aligned=aligned)
        with self._scratch.lent(self.workspace, stream, workspace) as scratch:
            try:
                self._launch(variant, pointers, stream, scratch, scalars)
            except Ge2rtError as fault:
                raise fault.replaced(kernel=self.kernel) from None
        watched = getattr(variant.launcher, "watching", None) is not None
        if self.is_single and self.run == self._slow and not (watched or scalars):
            with self._lock:  # one record only: its address is handed on
                if self.run == self._slow:
                    self._quicken(variant, aligned)
        return 0

    def _launch(
        self, variant: Compiled, pointers: Sequence[int], stream: int, scratch: int,
        scalars: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """All launches of a call, in order."""
        packed = variant.pack(pointers, scratch, scalars)
        for launcher in variant.launchers:
            watching = getattr(launcher, "watching", None)
            if watching is not None:
                from ge2rt.run.spans import all_spans  # late: for checked launches only

                launcher = watching(all_spans(self.bound, pointers, variant.problem, scratch))
            launcher(packed, stream)

    def _quicken(self, variant: Compiled, aligned: bool) -> None:
        """Give repeated calls a function of their own, native where that is possible."""
        target = self._target(variant, aligned)
        fast = compile_fast(self.bound, target, self._slow)
        entry = target.native
        if entry is not None and entry.estimate and fast != self._slow and (stub := get_stub()):
            prepared = prepare_record(self.bound, target, variant.packer, entry)
            if fits(prepared):
                self.record = Record(prepared, target.fault)
                state = (self.record.address, fast, 0, self.record)  # the last only to keep it
                fast = stub.function("plan", state, b"plan")
        self.run = fast

    def _is_aligned(self, pointers: Sequence[int]) -> bool:
        # an absent or empty buffer is 0 and never spoils the alignment
        starts = (
            pointer + (desc.offset * desc.dtype.itemsize if desc else 0)
            for desc, pointer in zip(self.bound.descs, pointers, strict=True)
        )
        return not any(start % _VECTOR_BYTES for start in starts)

    def _target(self, variant: Compiled, aligned: bool) -> Target:
        slots = variant.problem.args
        launcher: Any = variant.launcher
        native = getattr(launcher, "native", None)

        def fault(status: int) -> NoReturn:
            try:
                launcher.fault(status)
            except Ge2rtError as raised:
                raise raised.replaced(kernel=self.kernel) from None
            raise InternalError(f"the device reports status {status} without a reason")

        offsets = any(slot.offset % _VECTOR_BYTES for slot in slots if slot.kind == "pointer")
        return Target(
            pack=variant.packer.pack,
            pointers=tuple((s.value, s.offset) for s in slots if s.kind == "pointer"),
            scalars=tuple(s.value for s in slots if s.kind == "scalar"),
            launcher=launcher,
            fault=fault,
            native=native,
            aligned=aligned and not offsets,
        )


def _entry(module: Module, name: str, suffix: str) -> Function:
    """A kernel of a rendered template; the refusal says how templates name theirs."""
    try:
        return module.function(name)
    except InvalidArgumentError as fault:
        raise fault.replaced(
            next_step="begin it with: "
            f'extern "C" __global__ void {{{{ kernel }}}}{suffix}({{{{ params }}}})'
        ) from None
