"""What a report knows, as frozen records: plain numbers and texts, no device and no array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NodeRecord:
    """One node of a graph. ``id`` is its number in the printed graph.

    ``step`` is the step that computes it, -1 for inputs and for nodes that cost nothing of their
    own (views, constants). ``output`` is its place among the results, -1 for inner nodes.
    """

    id: int
    op: str
    type: str
    attrs: str
    where: str
    inputs: tuple[int, ...]
    step: int = -1
    output: int = -1

    @property
    def line(self) -> str:
        """The node as its graph prints it."""
        inside = [f"%{number}" for number in self.inputs] + ([self.attrs] if self.attrs else [])
        return f"%{self.id} = {self.op}({', '.join(inside)}) : {self.type}"


@dataclass(frozen=True)
class GraphRecord:
    """A graph: its text, and its nodes, operands before their users."""

    name: str
    text: str
    nodes: tuple[NodeRecord, ...]


@dataclass(frozen=True)
class CandidateRecord:
    """A kernel that was compared: its score and what that is made of, or why it was refused."""

    name: str
    score: int
    reason: str
    chosen: bool
    refused: bool = False


@dataclass(frozen=True)
class Instructions:
    """Instructions in the text of a kernel's PTX, by class, and the registers it declares."""

    classes: Mapping[str, int]
    registers: Mapping[str, int]  # PTX type -> count; virtual ones

    @property
    def total(self) -> int:
        """All instructions."""
        return sum(self.classes.values())


@dataclass(frozen=True)
class LineLink:
    """Where a line of PTX comes from: lines of the CUDA text, the innermost first."""

    ptx: int
    cuda: tuple[int, ...]


@dataclass(frozen=True)
class KernelRecord:
    """One compiled kernel, shared by all steps that launch it.

    ``name`` is unique in a report; ``title`` is the kernel's own name. ``template_lines`` has for
    each line of ``cuda`` where it was written. ``native`` is LLVM IR or machine code.
    """

    name: str
    title: str
    template: str
    generated: bool
    static: bool
    cached: str
    cuda: str
    template_lines: tuple[tuple[str, int], ...]
    ptx: str
    links: tuple[LineLink, ...]
    native: str
    native_title: str
    instructions: Instructions
    registers: int  # of a thread, as the device tells; -1: it does not
    shared_static: int


@dataclass(frozen=True)
class ViewRecord:
    """What a step sees of a buffer. ``bytes`` are those it touches: repeated axes count once."""

    buffer: int
    text: str
    bytes: int
    written: bool


@dataclass(frozen=True)
class StepRecord:
    """One step: a launch of a kernel of ours, or a call of a library."""

    number: int
    label: str
    kernel: str  # the name of a KernelRecord; "" for a library or an empty launch
    library: str
    nodes: tuple[str, ...]
    members: tuple[int, ...]
    views: tuple[ViewRecord, ...]
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    shared: int = 0
    reason: str = ""
    candidates: tuple[CandidateRecord, ...] = ()
    seconds: float | None = None
    start: float | None = None  # in the run that the trace shows
    lasted: float | None = None  # in that run; ``seconds`` is the median of all

    @property
    def bytes_read(self) -> int:
        """Bytes of the inputs' views."""
        return sum(view.bytes for view in self.views if not view.written)

    @property
    def bytes_written(self) -> int:
        """Bytes of the outputs' views."""
        return sum(view.bytes for view in self.views if view.written)

    @property
    def bandwidth(self) -> float | None:
        """Bytes read and written a second; None without a time."""
        if not self.seconds:
            return None
        return (self.bytes_read + self.bytes_written) / self.seconds

    @property
    def launch(self) -> str:
        """Grid, block and shared memory, or what is called."""
        if self.library:
            return f"call of {self.library}"
        if not self.kernel:
            return "nothing to launch"
        grid, block = (
            " x ".join(map(str, dims)) for dims in (_trimmed(self.grid), _trimmed(self.block))
        )
        return f"{grid} block{'s' * (grid != '1')} of {block} thread{'s' * (block != '1')}"


def _trimmed(dims: tuple[int, int, int]) -> tuple[int, ...]:
    """Extents without ones at the end."""
    count = 3
    while count > 1 and dims[count - 1] == 1:
        count -= 1
    return dims[:count]


@dataclass(frozen=True)
class BufferRecord:
    """A buffer: where it lies in the arena (-1: not there) and the steps between which it lives.

    ``host`` is the output in whose memory a temporary lies (-1: none).
    """

    id: int
    type: str
    kind: str
    index: int
    bytes: int
    offset: int = -1
    first: int = -1
    last: int = -1
    host: int = -1


@dataclass(frozen=True)
class MemoryRecord:
    """All buffers, the arena of the temporaries, and what it would be without sharing."""

    buffers: tuple[BufferRecord, ...]
    workspace: int
    apart: int  # bytes of all temporaries side by side

    @property
    def saved(self) -> int:
        """Bytes that temporaries share."""
        return max(self.apart - self.workspace, 0)


@dataclass(frozen=True)
class TimingRecord:
    """How the times were taken. ``whole`` is the median of all steps run together."""

    whole: float | None = None
    rounds: int = 0
    arrays: str = ""  # "given", "made up"...
    note: str = ""


@dataclass(frozen=True)
class Report:
    """All of it."""

    name: str
    signature: str
    device: str
    arch: str
    before: GraphRecord
    after: GraphRecord
    optimised: str
    steps: tuple[StepRecord, ...]
    kernels: tuple[KernelRecord, ...]
    memory: MemoryRecord
    plan: str
    timing: TimingRecord
    compile_seconds: float
    compiled: int
    constants: tuple[str, ...] = ()
    selection: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def seconds(self) -> float:
        """The sum of the steps' times."""
        return sum(step.seconds or 0.0 for step in self.steps)

    @property
    def launches(self) -> int:
        """Steps that launch a kernel."""
        return sum(bool(step.kernel) for step in self.steps)

    def share(self, step: StepRecord) -> float:
        """A step's part of the sum, between 0 and 1."""
        return (step.seconds or 0.0) / self.seconds if self.seconds else 0.0

    def kernel(self, name: str) -> KernelRecord:
        """The kernel of that name. Raises KeyError."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(name)
