"""Make cases that check a kernel from its declaration: extents, dtypes, attributes, layouts.

``cases:`` in the kernel's entry narrows the choice: ``dims`` (name -> extents, or expressions of
attributes, of extents drawn or worked out before, and of lets that follow from those drawn),
``ranks`` (name of a ``*S`` -> shapes) and ``attrs`` (settings, each of which is tried). The cases
are the same in every process; about half of them are strided, odd-sized or not the default.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import Ge2rtError
from ge2rt.base.once import cached_property
from ge2rt.base.shapes import canonical_strides, contiguous_strides, size_of
from ge2rt.spec.expr import constant
from ge2rt.spec.lists import with_items
from ge2rt.spec.match import infer_outputs, match
from ge2rt.spec.model import AttrSpec, Bound, BufferDesc, BufferSpec, KernelSpec

EXTENTS = (1, 3, 17, 64, 33, 128, 100, 5, 32, 257, 0)
SHAPES: tuple[tuple[int, ...], ...] = (
    (1000,), (33, 70), (5, 7, 3), (), (64, 128), (1, 77), (4097,), (2, 3, 4, 5), (7,), (3, 0),
    (128, 33), (1,), (6, 1, 50), (2, 600), (0,), (40, 17, 9), (300, 20),
)  # fmt: skip
LAYOUTS = ("contiguous", "transposed", "sliced", "negative", "offset", "broadcast")
QUICK, FULL = 32, 96
LARGEST = 1 << 22  # elements of a buffer: beyond, NumPy needs minutes for the right values
_ITEMS = 5  # of a list, at most
_TRIES = 60  # attempts for each case that is wanted

Dims = Mapping[str, "int | tuple[int, ...]"]
Drawn = Mapping[str, "int | str | tuple[int, ...]"]


@dataclass(frozen=True)
class Case:
    """One call of a kernel. ``layouts`` says how each buffer lies in memory, if it is there.

    An output whose layout is the name of an input is that input's memory (in place).
    """

    kernel: KernelSpec
    dims: Dims
    types: Mapping[str, str]
    attrs: Mapping[str, Any]
    layouts: Mapping[str, str]
    seed: int
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def plain(self) -> bool:
        """Whether everything is contiguous, of even extents, and default."""
        even = all(e % 4 == 0 for s in self.shapes.values() for e in s)
        dense = all(layout == "contiguous" for layout in self.layouts.values())
        specs = self.kernel.attrs
        usual = all(v == specs[n].default or specs[n].required for n, v in self.attrs.items())
        return even and dense and usual

    @property
    def empty(self) -> bool:
        """Whether a buffer has no element, so that there is little or nothing to compute."""
        return any(0 in shape for shape in self.shapes.values())

    def __str__(self) -> str:
        parts = [f"{n}={v}" for n, v in {**self.types, **self.attrs}.items()]
        for spec in self.kernel.buffers:
            if spec.name in self.layouts:
                shape = "x".join(str(e) for e in self.shapes[spec.name]) or "0-d"
                layout = self.layouts[spec.name]
                parts.append(f"{spec.name}:{shape}" + f":{layout}" * (layout != "contiguous"))
        return f"{self.kernel.name}({', '.join(parts)})"

    def dtype(self, buffer: BufferSpec) -> str:
        """Contract name of a buffer's dtype."""
        if buffer.dtype.startswith("attr:"):
            return str(self.attrs[buffer.dtype[5:]])
        return self.types.get(buffer.dtype, buffer.dtype)


def cases_for(kernel: KernelSpec, full: bool = False) -> list[Case]:
    """Draw cases that the kernel accepts: 32 or more, 96 or more if ``full``.

    Every dtype of every type variable is among them with something to compute, unless the kernel
    refuses it.
    """
    return _draw(_Maker(kernel), full)


def why_none(kernel: KernelSpec) -> str:
    """Why :func:`cases_for` gives nothing: what the kernel said to most of the draws."""
    maker = _Maker(kernel)
    _draw(maker, False)
    return maker.refusals.most_common(1)[0][0] if maker.refusals else "nothing was drawn"


def _draw(maker: _Maker, full: bool) -> list[Case]:
    wanted = max(FULL if full else QUICK, (2 if full else 1) * maker.longest)
    found: dict[str, Case] = {}
    for attempt in range(wanted * _TRIES):
        case = maker.make(attempt)
        if case is not None and str(case) not in found:
            found[str(case)] = case
            maker.count(case)
        if len(found) >= wanted:
            break
    for number, (name, dtype) in enumerate(maker.unused()):
        for attempt in range(_TRIES * 10):
            case = maker.make((number + 1) * 1_000_000 + attempt, {name: dtype})
            if case is not None and not case.empty:
                found[str(case)] = case
                break
    return list(found.values())


class _Maker:
    """Draws cases. What was used least so far is preferred, so that no choice is left out."""

    def __init__(self, kernel: KernelSpec) -> None:
        self.kernel = kernel
        self.seed = zlib.crc32(kernel.name.encode())
        self.declared = kernel
        self.hints = kernel.cases
        choices = [len(a.choices) for a in kernel.attrs.values()]
        self.longest = max([len(t) for t in kernel.types.values()] + choices, default=1)
        self.random = random.Random(self.seed)
        self.used: Counter[tuple[str, Any]] = Counter()
        self.refusals: Counter[str] = Counter()
        self.number = 0

    def unused(self) -> list[tuple[str, str]]:
        """Dtypes of type variables that no accepted case used."""
        choices = ((name, dtype) for name, types in self.kernel.types.items() for dtype in types)
        return [choice for choice in choices if not self.used[choice]]

    def count(self, case: Case) -> None:
        """Remember what an accepted case used; a dtype counts only where something is launched."""
        self.number += 1
        types = {} if case.empty else case.types
        dims = ((self.base(n), v) for n, v in case.dims.items())
        self.used.update((n, v) for n, v in (*types.items(), *case.attrs.items(), *dims))

    def base(self, name: str) -> str:
        """The declared name of a dimension: that of a list for one of its items'."""
        return self.kernel.items.get(name, name)

    def pick(self, name: str, options: Sequence[Any]) -> Any:
        """One of the options, mostly one that was used least."""
        if self.random.random() < 0.3:
            return self.random.choice(options)
        least = min(self.used[name, option] for option in options)
        return self.random.choice([o for o in options if self.used[name, o] == least])

    def make(self, attempt: int, wanted: Mapping[str, str] | None = None) -> Case | None:
        """Draw a case (with the dtypes ``wanted``); None if the kernel refuses what was drawn."""
        self.random = random.Random(self.seed * 1_000_003 + attempt)
        if self.declared.many:
            count = self.random.randint(1, min(_ITEMS, self.declared.many))
            self.kernel = with_items(self.declared, count)
        dims = self.dims()
        types = {name: self.pick(name, dtypes) for name, dtypes in self.kernel.types.items()}
        types |= wanted or {}
        attrs = self.attrs(dims)
        try:
            dims = self.worked_out(dims, attrs)
        except Ge2rtError as fault:
            self.refusals[fault.record.message] += 1
            return None
        absent = {b.name for b in self.kernel.buffers if b.optional and self.random.random() < 0.4}
        if self.kernel.wants_any and absent.issuperset(b.name for b in self.kernel.outputs):
            absent.discard(self.kernel.outputs[0].name)
        case = Case(self.kernel, dims, types, attrs, {}, self.seed + attempt)
        shapes = self.shapes(case, absent)
        if shapes is None:
            return None
        layouts: dict[str, str] = {}
        for buffer in self.kernel.buffers:
            if buffer.name in shapes:
                layouts[buffer.name] = self.layout(buffer, shapes, layouts)
        return replace(case, layouts=layouts, shapes=shapes)

    def dims(self) -> Drawn:
        """Choose a value for each dimension; further ``*S`` broadcast against the first."""
        result: dict[str, int | str | tuple[int, ...]] = {}
        for buffer in self.kernel.buffers:
            for part in buffer.pattern or ():
                if isinstance(part, str) and (name := part.lstrip("*")) not in result:
                    result[name] = self.star(name, result) if part[0] == "*" else self.extent(name)
        return result

    def extent(self, name: str) -> Any:
        """An extent, or the text of an expression."""
        name = self.base(name)
        return self.pick(name, self.hints.get("dims", {}).get(name, EXTENTS))

    def worked_out(self, dims: Drawn, attrs: Mapping[str, Any]) -> Dims:
        """Extents in place of expressions."""
        known = {name: spec.default for name, spec in self.kernel.attrs.items()} | dict(attrs)
        known |= {name: value for name, value in dims.items() if not isinstance(value, str)}
        texts = {n: constant(v) for n, v in dims.items() if isinstance(v, str)}
        for name, expression in (*self.kernel.lets, *texts.items()):
            if name in texts or expression.names <= known.keys():
                known[name] = expression.evaluate(known)
        return {name: known[name] for name in dims}

    def star(self, name: str, known: Drawn) -> tuple[int, ...]:
        own, name = name in self.kernel.items, self.base(name)
        hinted = [tuple(shape) for shape in self.hints.get("ranks", {}).get(name, ())]
        shapes = [v for v in known.values() if isinstance(v, tuple)]
        scalars = [v for v in known.values() if isinstance(v, int)]
        if hinted or own or not (shapes or scalars):
            picked: tuple[int, ...] = self.pick(name, hinted or SHAPES)
            return picked
        if shapes:
            return self.broadcast(shapes[0])
        return tuple(self.random.sample(scalars, self.random.randint(0, min(2, len(scalars)))))

    def broadcast(self, base: tuple[int, ...]) -> tuple[int, ...]:
        """Return ``base`` or a shape that broadcasts to it."""
        draw = self.random.random()
        if draw < 0.4:
            return base
        thinned = tuple(1 if self.random.random() < 0.4 else e for e in base)
        return thinned if draw < 0.75 else thinned[self.random.randint(0, len(base)) :]

    def attrs(self, dims: Drawn) -> dict[str, Any]:
        hinted: Sequence[Mapping[str, Any]] = self.hints.get("attrs") or ({},)
        result = dict(hinted[self.number % len(hinted)])
        rank = max([len(v) for v in dims.values() if isinstance(v, tuple)], default=2)
        for spec in self.kernel.attrs.values():
            if spec.name in result:
                result[spec.name] = _as_attr(result[spec.name])
            elif spec.required or self.random.random() < 0.6:
                result[spec.name] = self.attr(spec, rank)
        return result

    def attr(self, spec: AttrSpec, rank: int) -> Any:
        if spec.choices:
            return self.pick(spec.name, spec.choices)
        if spec.type == "bool":
            return self.random.random() < 0.5
        if spec.type == "int":
            return self.whole(spec, rank)
        if spec.type == "ints":
            axes = self.random.sample(range(rank), self.random.randint(0, rank)) if rank else []
            return tuple(a - rank if self.random.random() < 0.3 else a for a in sorted(axes))
        if spec.type == "float":
            low = spec.minimum if spec.minimum is not None else -2.0
            high = spec.maximum if spec.maximum is not None else max(low, 0.0) + 2.0
            return self.random.choice([spec.default, round(self.random.uniform(low, high), 3)])
        return spec.default

    def whole(self, spec: AttrSpec, rank: int) -> int:
        if spec.minimum is None and spec.maximum is None:
            return self.random.randint(-max(rank, 1), max(rank, 1) - 1)
        low = int(spec.minimum if spec.minimum is not None else 0)
        high = int(spec.maximum if spec.maximum is not None else low + 8)
        return self.random.randint(low, min(high, low + 64))

    def shapes(self, case: Case, absent: set[str]) -> dict[str, tuple[int, ...]] | None:
        """Find the shape of each buffer; None where the kernel refuses the case."""
        inputs = [None if b.name in absent else _desc(case, b) for b in self.kernel.inputs]
        read = [
            _desc(case, b) if b.inout and b.pattern is not None and b.name not in absent else None
            for b in self.kernel.outputs
        ]
        wanted = [b.name for b in self.kernel.outputs if b.optional and b.name not in absent]
        try:
            outputs = infer_outputs(self.kernel, inputs, case.attrs, optional=wanted, given=read)
        except Ge2rtError as fault:
            self.refusals[fault.record.message] += 1
            return None
        # a dtype that only outputs have is the case's, whatever would be inferred
        written = [
            replace(d, dtype=DTYPES[case.types[b.dtype]]) if d and b.dtype in case.types else d
            for b, d in zip(self.kernel.outputs, outputs, strict=True)
        ]
        descs = [*inputs, *written]
        if any(desc is not None and size_of(desc.shape) > LARGEST for desc in descs):
            self.refusals["the buffers that were drawn are too large"] += 1
            return None
        bound = match(self.kernel, descs, case.attrs)
        if not isinstance(bound, Bound):
            self.refusals[bound.message] += 1
            return None
        pairs = zip(self.kernel.buffers, descs, strict=True)
        return {b.name: d.shape for b, d in pairs if d is not None}

    def layout(
        self, buffer: BufferSpec, shapes: Mapping[str, tuple[int, ...]], before: Mapping[str, str]
    ) -> str:
        if self.number % 2 == 0:
            return "contiguous"
        if self.random.random() < 0.3:
            same = [n for n in buffer.overlap if shapes.get(n) == shapes[buffer.name]]
            same = [n for n in same if before[n] != "broadcast"]
            if same:
                return self.random.choice(same)
        return self.random.choice(LAYOUTS if buffer.role == "input" else LAYOUTS[:-1])


def _desc(case: Case, buffer: BufferSpec) -> BufferDesc:
    """Describe an input as contiguous."""
    shape: list[int] = []
    for part in buffer.pattern or ():
        value = part if isinstance(part, int) else case.dims[part.lstrip("*")]
        shape += value if isinstance(value, tuple) else (value,)
    extents = tuple(shape)
    strides = canonical_strides(extents, contiguous_strides(extents))
    return BufferDesc(extents, DTYPES[case.dtype(buffer)], strides)


def _as_attr(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
