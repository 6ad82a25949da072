"""A kernel's declaration and a call's descriptors, as frozen records.

``Expression`` objects are parsed once, on load (:mod:`ge2rt.spec.expr`), and keep their text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ge2rt.base.dtypes import DType
from ge2rt.base.errors import Status
from ge2rt.base.once import cached_property

if TYPE_CHECKING:
    from ge2rt.spec.expr import Expression

# A dimension pattern: an int, a name that binds one extent, or "*S", which binds any number. In a
# list of buffers "N?" and "*S?" are an item's own.
ShapePattern: TypeAlias = "tuple[int | str, ...]"


@dataclass(frozen=True)
class BufferSpec:
    """One input or output. Exactly one of ``pattern`` and ``formula`` is given.

    ``dtype`` is a dtype name or a type variable of the kernel. ``pattern`` binds dimension names;
    ``formula`` computes the shape (outputs only), e.g. ``broadcast(SA, SB)``.
    """

    name: str
    role: str  # "input" | "output"
    dtype: str
    pattern: ShapePattern | None = None
    formula: Expression | None = None
    optional: bool = False
    layouts: tuple[str, ...] = ("rowmajor", "strided", "NCHW", "NHWC")
    overlap: tuple[str, ...] = ()  # inputs that may be the same memory as this output, exactly
    inout: bool = False  # an output whose former contents are read
    many: int = 0  # a list of up to so many buffers NAME0, NAME1...; 0: one buffer
    group: str = ""  # the list that this buffer is an item of
    # bounds of an input's values, [low, high), and possibly one value that is allowed besides
    within: tuple[Expression, ...] | None = None
    doc: str = ""


@dataclass(frozen=True)
class AttrSpec:
    """One attribute. ``runtime`` attributes are kernel arguments, the others are compiled in.

    A runtime attribute that is ``sized`` follows from extents: it is compiled in with them, and is
    an argument of the shape-generic kernel only.
    """

    name: str
    type: str  # "int" | "float" | "bool" | "str" | "ints" | "dtype"
    default: Any = None
    required: bool = False
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    runtime: bool = False
    sized: bool = False
    wide: bool = False  # a float that is passed in f64
    doc: str = ""

    def is_argument(self, static: bool) -> bool:
        """Whether a kernel with static or dynamic extents takes it as an argument."""
        return self.runtime and not (self.sized and static)


@dataclass(frozen=True)
class IterateSpec:
    """A collapsed iteration space over operands (TensorIterator's job).

    Without ``axes``: all operands broadcast to the common shape. With ``axes`` (an expression
    giving a tuple of axes of the first operand): only those axes; an operand of the same rank is
    indexed by axis, one whose rank is the number of axes by position. ``views`` are of other shapes
    and strides than their operand (its data offset stays the kernel's job). A ``whole`` space keeps
    the axes and their order, where a kernel's values depend on coordinates.
    """

    name: str
    over: tuple[str, ...]
    axes: Expression | None = None
    whole: bool = False
    views: Mapping[str, Expression] = field(default_factory=dict)  # operand -> what it is seen as


@dataclass(frozen=True)
class LaunchSpec:
    """Grid and block (1 to 3 expressions each) and dynamic shared memory in bytes.

    ``entry`` is the suffix of the function's name; a launch is left out where ``when`` is false.
    """

    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared: Expression | None = None
    entry: str = ""
    when: Expression | None = None


@dataclass(frozen=True)
class WorkspaceSpec:
    """Memory of a launch's own, unset at first: ``size`` elements.

    ``dtype`` is a dtype, a type variable, or ``acc:T``: the dtype in which sums of T are kept.
    """

    name: str
    dtype: str
    size: Expression


@dataclass(frozen=True)
class Tolerance:
    """Allowed difference from the reference: ``|x - y| <= atol + rtol * |y|``."""

    rtol: float
    atol: float


@dataclass(frozen=True)
class KernelSpec:
    """One entry of kernels.yaml."""

    name: str
    op: str
    template: str
    score: int
    inputs: tuple[BufferSpec, ...]
    outputs: tuple[BufferSpec, ...]
    launch: LaunchSpec
    then: tuple[LaunchSpec, ...] = ()  # further launches, in order, with the same arguments
    workspace: tuple[WorkspaceSpec, ...] = ()
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    attrs: Mapping[str, AttrSpec] = field(default_factory=dict)
    lets: tuple[tuple[str, Expression], ...] = ()  # derived values, each may use the former
    iterate: tuple[IterateSpec, ...] = ()
    tunables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    prefer: tuple[tuple[str, Expression], ...] = ()  # tunable -> expression of its default
    requires: tuple[Expression, ...] = ()
    flags: Mapping[str, bool] = field(default_factory=dict)
    min_mnk: tuple[int, int, int] | None = None
    dims: str = "auto"  # "static" | "dynamic" | "auto"
    options: tuple[str, ...] = ()
    reference: Expression | None = None
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    param_block: str = ""  # name of a struct layout: "gemm_basic"
    backward: str = ""
    aliases: tuple[str, ...] = ()
    doc: str = ""
    parity: str = ""  # where ge_v2 computes something else, and what is right
    cases: Mapping[str, Any] = field(default_factory=dict)  # hints for `ge2rt check`
    source: str = ""  # file:line of the entry
    folder: str = ""  # the templates folder of its file
    # of a kernel whose lists are written out (ge2rt.spec.lists): a name -> the one it came from
    items: Mapping[str, str] = field(default_factory=dict)
    counted: dict[int, KernelSpec] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @cached_property
    def many(self) -> int:
        """The most items of its lists of buffers; 0 where it has none, or they are written out."""
        return max(b.many for b in self.buffers)

    @cached_property
    def reads_outputs(self) -> bool:
        """Whether a call's outputs say something that does not follow from its inputs."""
        asked = " ".join(map(str, self.requires))
        return any(
            b.inout or b.many or self.wants_any or (b.optional and f"present({b.name})" in asked)
            for b in self.outputs
        )

    @property
    def wants_any(self) -> bool:
        """Whether all outputs are optional: a call without any would do nothing."""
        return all(b.optional for b in self.outputs)

    @cached_property
    def free(self) -> frozenset[str]:
        """Runtime attributes that no expression reads: a launch may have other values of them."""
        read = _names_read(
            (self.inputs, self.outputs, self.launch, self.then, self.workspace, self.lets,
             self.iterate, self.prefer, self.requires)
        )  # fmt: skip
        return frozenset(n for n, a in self.attrs.items() if a.is_argument(True) and n not in read)

    @property
    def buffers(self) -> tuple[BufferSpec, ...]:
        """Inputs, then outputs: the order of pointers in a call."""
        return self.inputs + self.outputs

    @property
    def table_key(self) -> str:
        """Key of the raw capability table, ``<OPTYPE>__<KERNEL>``."""
        return f"{self.op}__{self.name}"


def _names_read(part: Any) -> set[str]:
    """Names that the expressions in a part of a declaration read."""
    if isinstance(part, (tuple, list)):
        return set().union(*map(_names_read, part))
    if hasattr(part, "evaluate"):
        return set(part.names)
    if is_dataclass(part):
        return set().union(*(_names_read(getattr(part, f.name)) for f in fields(part)))
    return set()


@dataclass(frozen=True)
class BufferDesc:
    """One buffer of a call. ``strides`` are in elements and canonical (0 on size-1 axes)."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]
    offset: int = 0  # elements, added to the pointer
    layout: str = "rowmajor"
    device: str = "cpu"

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Refusal:
    """Why a kernel cannot run a call: the fields of an error record."""

    message: str
    code: Status = Status.INVALID
    argument: str = ""
    expected: str = ""
    got: str = ""
    detail: str = "argument"
    next_step: str = ""


@dataclass(frozen=True)
class Bound:
    """A kernel matched with a call: every name of the declaration has its value.

    ``descs`` is parallel to ``kernel.buffers`` (None: absent optional). ``names`` is what
    expressions see: dimensions (int, or tuple for ``*S``), attributes, lets, dtype names of type
    variables, and the buffers (their descriptors, for ``rank(X)`` and the like; a tuple of them for
    a list). ``kernel`` has its lists written out.
    """

    kernel: KernelSpec
    descs: tuple[BufferDesc | None, ...]
    types: Mapping[str, DType]
    attrs: Mapping[str, Any]
    names: Mapping[str, Any]

    def desc(self, name: str) -> BufferDesc | None:
        """The descriptor of the buffer ``name``."""
        for spec, desc in zip(self.kernel.buffers, self.descs, strict=True):
            if spec.name == name:
                return desc
        raise KeyError(name)
