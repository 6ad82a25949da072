"""Does a kernel fit a call? Pure: descriptors in, :class:`Bound` or :class:`Refusal` out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from ge2rt.base.dtypes import DTYPES, DType
from ge2rt.base.errors import Ge2rtError, InvalidArgumentError, Status, UnsupportedError
from ge2rt.base.shapes import canonical_strides, contiguous_strides, may_self_overlap
from ge2rt.spec.attrs import bind_attrs
from ge2rt.spec.expr import Expression
from ge2rt.spec.lists import counts_wanted, items_in, with_items
from ge2rt.spec.model import Bound, BufferDesc, BufferSpec, KernelSpec, Refusal

Descs = Sequence["BufferDesc | None"]

DEVICE_NAMES = ("cc", "kind", "tensor_cores")
INVALID_NOTE = "invalid: "  # begins the comment of a requirement whose breach is -1, not -3
_EXACT_OVERLAP = 1 << 16  # up to this size overlap inside one output is decided exactly


class Props(Protocol):
    """The part of a device's properties that matching reads."""

    @property
    def kind(self) -> str:
        """``cpu``, ``cuda``..."""

    @property
    def cc(self) -> float:
        """Compute capability, such as 8.0."""

    @property
    def tensor_cores(self) -> bool:
        """Whether there are any."""


def device_names(props: Props | None) -> dict[str, Any]:
    """``cc``, ``kind`` and ``tensor_cores`` for expressions; empty without a device."""
    return {} if props is None else {name: getattr(props, name) for name in DEVICE_NAMES}


def match(
    kernel: KernelSpec,
    descs: Descs,
    attrs: Mapping[str, Any] | None = None,
    props: Props | None = None,
) -> Bound | Refusal:
    """Bind ``kernel`` to a call, inputs then outputs; or say why it cannot run it.

    Entries that are None, and a short count, mean absent optional buffers: those are dropped from
    the last until the counts agree. Lists have as many items as the count says.
    Without ``props``, requirements on a device are not looked at.
    """
    try:
        kernel = counted(kernel, descs)
        binding = _Binding(kernel, attrs or {}, place(kernel, descs))
        binding.dtypes()
        binding.layouts()
        binding.inputs()
        binding.lets(final=False)
        binding.outputs()
        binding.lets(final=True)
        binding.strides()
        binding.wanted()
        binding.requirements(props)
        binding.spaces()
    except _Refused as stop:
        return stop.refusal
    return binding.bound()


def match_all_reasons(
    kernels: Iterable[KernelSpec],
    descs: Descs,
    attrs: Mapping[str, Any] | None = None,
    props: Props | None = None,
) -> list[tuple[KernelSpec, Bound | Refusal]]:
    """:func:`match` for each kernel, in order: who can run the call, and why the others cannot."""
    return [(kernel, match(kernel, descs, attrs, props)) for kernel in kernels]


def infer_outputs(
    kernel: KernelSpec,
    in_descs: Descs,
    attrs: Mapping[str, Any] | None = None,
    *,
    optional: Sequence[str] = (),
    given: Descs = (),
) -> tuple[BufferDesc | None, ...]:
    """Row-major descriptors of the outputs, parallel to ``kernel.outputs`` (lists written out).

    Optional outputs are None unless named in ``optional`` or given. ``given`` are the outputs that
    are known (None: not): their number is that of the outputs, an ``inout`` one is taken as it is.
    Raises :class:`InvalidArgumentError` (or :class:`UnsupportedError`) when the inputs do not fit.
    """
    try:
        kernel = counted_among(kernel, in_descs, given)
        inputs = place_among(kernel.inputs, in_descs, "input")
        outputs = place_among(kernel.outputs, given, "output", whole=False)
        known = tuple(
            desc if spec.inout else None for spec, desc in zip(kernel.outputs, outputs, strict=True)
        )
        for spec, desc in zip(kernel.outputs, known, strict=True):
            if given and spec.inout and spec.pattern and not (desc or spec.optional):
                _refuse_missing(spec)
        binding = _Binding(kernel, attrs or {}, inputs + known)
        binding.dtypes()
        binding.inputs()
        binding.lets(final=False)
        if any(known):
            binding.outputs()
            binding.lets(final=False)
        device = next((d.device for d in inputs + known if d is not None), "cpu")
        wanted = (
            not spec.optional or spec.name in optional or desc is not None
            for spec, desc in zip(kernel.outputs, outputs, strict=True)
        )
        return tuple(
            desc or (binding.infer(spec, device) if want else None)
            for spec, desc, want in zip(kernel.outputs, known, wanted, strict=True)
        )
    except _Refused as stop:
        raise refusal_error(kernel, stop.refusal) from None


def refusal_error(kernel: KernelSpec | str, refusal: Refusal) -> Ge2rtError:
    """The exception that a refusal becomes."""
    kind = UnsupportedError if refusal.code is Status.NOT_IMPLEMENTED else InvalidArgumentError
    return kind(
        refusal.message, kernel=kernel if isinstance(kernel, str) else kernel.name,
        argument=refusal.argument, expected=refusal.expected, got=refusal.got,
        detail=refusal.detail, next_step=refusal.next_step,
    )  # fmt: skip


def counted(kernel: KernelSpec, descs: Descs) -> KernelSpec:
    """The kernel with its lists as long as a call with these descriptors has them."""
    if not kernel.many:
        return kernel
    count = items_in(kernel.buffers, len(descs))
    if count is None:
        _refuse("wrong number of buffers", expected=counts_wanted(kernel.buffers),
                got=str(len(descs)))  # fmt: skip
    return with_items(kernel, count)


def counted_among(kernel: KernelSpec, inputs: Descs, outputs: Descs) -> KernelSpec:
    """The same where the inputs are known, or the outputs."""
    if not kernel.many:
        return kernel
    for specs, descs, what in (
        (kernel.inputs, inputs, "inputs"), (kernel.outputs, outputs, "outputs"),
    ):  # fmt: skip
        if not any(spec.many for spec in specs) or (what == "outputs" and not outputs):
            continue
        count = items_in(specs, len(descs))
        if count is None:
            _refuse(f"wrong number of {what}", expected=counts_wanted(specs), got=str(len(descs)))
        return with_items(kernel, count)
    return _refuse_missing(next(spec for spec in kernel.outputs if spec.many))


def place(kernel: KernelSpec, descs: Descs) -> tuple[BufferDesc | None, ...]:
    """Descriptors parallel to ``kernel.buffers``; raises when the count cannot be right."""
    return place_among(kernel.buffers, descs, "buffer")


def place_among(
    specs: Sequence[BufferSpec], descs: Descs, what: str, *, whole: bool = True
) -> tuple[BufferDesc | None, ...]:
    """Give each of ``specs`` its descriptor, dropping optional ones from the last.

    Not ``whole``: they are all there, or none, and those that are None are not known yet.
    """
    if not whole and not descs:
        return (None,) * len(specs)
    missing = len(specs) - len(descs)
    optional = [i for i, spec in enumerate(specs) if spec.optional]
    if missing < 0 or missing > len(optional):
        names = ", ".join(f"[{s.name}]" if s.optional else s.name for s in specs)
        absent = next((s for s in specs[len(descs) :] if not s.optional), None)
        detail = "argument" if missing < 0 or absent is None else f"missing_{absent.role}"
        _refuse(f"wrong number of {what}s", expected=names, got=str(len(descs)), detail=detail)
    dropped = set(optional[len(optional) - missing :]) if missing else set()
    rest = iter(descs)
    placed = tuple(None if i in dropped else next(rest) for i in range(len(specs)))
    for spec, desc in zip(specs, placed, strict=True):
        if desc is None and whole and not spec.optional:
            _refuse(f"required {spec.role} is missing", argument=spec.name,
                    detail=f"missing_{spec.role}")  # fmt: skip
    return placed


def _refuse_missing(spec: BufferSpec) -> NoReturn:
    _refuse("this output's contents are read", argument=spec.name, detail="missing_output",
            next_step="give the array to be changed in `out=`")  # fmt: skip


class _Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.message)


def _refuse(message: str, **parts: Any) -> NoReturn:
    raise _Refused(Refusal(message, **parts))


class _Binding:
    """A match in progress."""

    def __init__(
        self,
        kernel: KernelSpec,
        attrs: Mapping[str, Any],
        descs: tuple[BufferDesc | None, ...],
    ) -> None:
        self.kernel, self.descs = kernel, descs
        bound = bind_attrs(kernel, attrs)
        if isinstance(bound, Refusal):
            raise _Refused(bound)
        self.attrs = bound
        self.types: dict[str, DType] = {}
        self.origin: dict[str, str] = {}  # dimension or type variable -> the buffer that bound it
        self.names: dict[str, Any] = {**bound}
        for spec, desc in zip(kernel.buffers, descs, strict=True):
            self.names[spec.name] = desc
            if spec.group and desc is not None:
                self.names[spec.group] = (*self.names.get(spec.group, ()), desc)

    def bound(self) -> Bound:
        return Bound(self.kernel, self.descs, self.types, self.attrs, self.names)

    def present(self) -> list[tuple[BufferSpec, BufferDesc]]:
        pairs = zip(self.kernel.buffers, self.descs, strict=True)
        return [(spec, desc) for spec, desc in pairs if desc is not None]

    # dtypes and layouts

    def dtypes(self) -> None:
        for spec, desc in self.present():
            allowed = self.allowed(spec)
            if desc.dtype.name not in allowed:
                expected = " | ".join(allowed)
                if spec.dtype in self.types:
                    expected += f" as {self.origin[spec.dtype]}"
                _refuse("dtype does not fit", argument=spec.name, expected=expected,
                        got=str(desc.dtype), detail="dtype")  # fmt: skip
            if spec.dtype in self.kernel.types and spec.dtype not in self.types:
                self.types[spec.dtype] = desc.dtype
                self.origin[spec.dtype] = spec.name
        self.default_types()

    def allowed(self, spec: BufferSpec) -> tuple[str, ...]:
        if spec.dtype.startswith("attr:"):
            return (str(self.attrs[spec.dtype[5:]]),)
        if spec.dtype in self.types:
            return (self.types[spec.dtype].name,)
        return self.kernel.types.get(spec.dtype, (spec.dtype,))

    def default_types(self) -> None:
        """Type variables that only absent buffers would bind, and all names of types."""
        for name, dtypes in self.kernel.types.items():
            self.types.setdefault(name, DTYPES[dtypes[0]])
            self.names[name] = self.types[name].name

    def layouts(self) -> None:
        for spec, desc in self.present():
            if desc.layout not in spec.layouts:
                _refuse("layout does not fit", argument=spec.name,
                        expected=" | ".join(spec.layouts), got=desc.layout,
                        detail="layout")  # fmt: skip

    # shapes

    def inputs(self) -> None:
        for spec, desc in self.present():
            if spec.role == "input":
                self.bind_shape(spec, desc)

    def outputs(self) -> None:
        for spec, desc in self.present():
            if spec.role != "output":
                continue
            if spec.pattern is not None:
                self.bind_shape(spec, desc)
            elif (shape := self.formula(spec)) != desc.shape:
                _refuse("shape does not fit", argument=spec.name, expected=_axes(shape),
                        got=_axes(desc.shape), detail="shape")  # fmt: skip

    def bind_shape(self, spec: BufferSpec, desc: BufferDesc) -> None:
        pattern = spec.pattern or ()
        star = next((i for i, p in enumerate(pattern) if _is_star(p)), None)
        if len(desc.shape) < len(pattern) - 1 or (star is None and len(desc.shape) != len(pattern)):
            self.misfit(spec, desc)
        if star is None:
            parts: list[Any] = list(desc.shape)
        else:
            tail = len(pattern) - star - 1
            end = len(desc.shape) - tail
            parts = [*desc.shape[:star], desc.shape[star:end], *desc.shape[end:]]
        for name, value in zip(pattern, parts, strict=True):
            self.bind_dim(spec, desc, name, value)

    def bind_dim(self, spec: BufferSpec, desc: BufferDesc, name: int | str, value: Any) -> None:
        if isinstance(name, int):
            if value != name:
                self.misfit(spec, desc)
            return
        key = name.lstrip("*")
        if key not in self.names:
            self.names[key] = value
            self.origin[key] = spec.name
        elif self.names[key] != value:
            known = self.names[key]
            known = _axes(known) if isinstance(known, tuple) else known
            self.misfit(spec, desc, f" with {key} = {known} as in {self.where(key)}")

    def where(self, key: str) -> str:
        return self.origin.get(key, "the attributes" if key in self.attrs else "`let`")

    def misfit(self, spec: BufferSpec, desc: BufferDesc, why: str = "") -> None:
        wanted = ", ".join(str(p) for p in spec.pattern or ())
        _refuse("shape does not fit", argument=spec.name, expected=f"[{wanted}]{why}",
                got=_axes(desc.shape), detail="shape")  # fmt: skip

    def formula(self, spec: BufferSpec) -> tuple[int, ...]:
        assert spec.formula is not None
        shape = self.evaluate(spec.formula, spec.name)
        valid = isinstance(shape, tuple) and all(
            isinstance(e, int) and not isinstance(e, bool) and e >= 0 for e in shape
        )
        if not valid:
            _refuse("shape does not fit", argument=spec.name, detail="shape",
                    expected=f"a shape from {spec.formula}", got=str(shape)[:80])  # fmt: skip
        return tuple(shape)

    def evaluate(self, expression: Expression, argument: str) -> Any:
        try:
            return expression.evaluate(self.names)
        except Ge2rtError as fault:
            _refuse(fault.record.message, argument=self.blamed(expression) or argument,
                    expected=fault.record.expected, got=fault.record.got,
                    detail="invalid" if self.blamed(expression) else "shape")  # fmt: skip

    def blamed(self, expression: Expression) -> str:
        """The attributes that an expression reads: what a caller can change where it fails."""
        return ", ".join(name for name in self.kernel.attrs if name in expression.names)

    def lets(self, *, final: bool) -> None:
        """Derived values; before the outputs are bound, those that need them are left for later."""
        for name, expression in self.kernel.lets:
            if name in self.names:
                continue
            if final or expression.names <= self.names.keys():
                self.names[name] = self.evaluate(expression, name)

    def infer(self, spec: BufferSpec, device: str) -> BufferDesc:
        if spec.pattern is None:
            shape = self.formula(spec)
        else:
            shape = tuple(e for part in spec.pattern for e in self.extents(spec, part))
        dtype = DTYPES[self.allowed(spec)[0]]
        strides = canonical_strides(shape, contiguous_strides(shape))
        return BufferDesc(shape, dtype, strides, device=device)

    def extents(self, spec: BufferSpec, part: int | str) -> tuple[int, ...]:
        value = part if isinstance(part, int) else self.names.get(part.lstrip("*"))
        if value is None and spec.inout:
            _refuse_missing(spec)
        if value is None:
            _refuse(f"extent {part} does not follow from the inputs", argument=spec.name,
                    detail="shape", next_step="give the output's descriptor")  # fmt: skip
        return tuple(value) if isinstance(value, tuple) else (int(value),)

    # strides and requirements

    def strides(self) -> None:
        for spec, desc in self.present():
            if spec.role == "output" and overlaps_itself(desc.shape, desc.strides):
                zero = any(s == 0 and e > 1 for s, e in zip(desc.strides, desc.shape, strict=True))
                what = "has a zero stride" if zero else "overlaps itself"
                _refuse(f"output {what}", argument=spec.name,
                        expected="each element at its own address", detail="stride",
                        got=f"shape {_axes(desc.shape)}, strides {_axes(desc.strides)}",
                        next_step="write into a dense array and copy")  # fmt: skip

    def wanted(self) -> None:
        if self.kernel.wants_any and not any(s.role == "output" for s, _ in self.present()):
            _refuse("no output is wanted", expected="one of "
                    + ", ".join(s.name for s in self.kernel.outputs), detail="invalid",
                    next_step="give the arrays to be written in `out=`")  # fmt: skip

    def requirements(self, props: Props | None) -> None:
        device = device_names(props)
        names = {**self.names, **device}
        for expression in self.kernel.requires:
            if props is None and expression.names & set(DEVICE_NAMES):
                continue
            try:
                holds = expression.evaluate(names)
            except Ge2rtError as fault:  # an axis or an entry that is not there
                _refuse(fault.record.message, argument=self.blamed(expression), detail="invalid")
            if not holds:
                wrong = expression.note.startswith(INVALID_NOTE)  # no kernel could run such a call
                _refuse(expression.note.removeprefix(INVALID_NOTE)
                        or "a requirement of the kernel does not hold",
                        code=Status.INVALID if wrong else Status.NOT_IMPLEMENTED,
                        expected=_bare(expression), got=_values(expression, names),
                        detail="invalid" if wrong else "unimplemented")  # fmt: skip

    def spaces(self) -> None:
        """The axes of spaces that attributes name must be there."""
        for space in self.kernel.iterate:
            if space.axes is not None and self.blamed(space.axes):
                self.evaluate(space.axes, space.name)


def _is_star(part: int | str) -> bool:
    return isinstance(part, str) and part.startswith("*")


def _axes(shape: Iterable[int]) -> str:
    return f"[{', '.join(str(e) for e in shape)}]"


def _bare(expression: Expression) -> str:
    return expression.text.rpartition("#")[0].strip() if expression.note else expression.text


def _values(expression: Expression, names: Mapping[str, Any]) -> str:
    return ", ".join(f"{n} = {names[n]}" for n in sorted(expression.names) if n in names)


def overlaps_itself(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two indices name one element: exact for small arrays, else on the safe side."""
    if not may_self_overlap(shape, strides):
        return False
    if any(s == 0 and e > 1 for s, e in zip(strides, shape, strict=True)):
        return True
    if math.prod(shape) > _EXACT_OVERLAP:
        return True
    offsets = {0}
    for extent, stride in zip(shape, strides, strict=True):
        reached = [o + i * stride for o in offsets for i in range(extent)]
        offsets = set(reached)
        if len(offsets) < len(reached):
            return True
    return False
