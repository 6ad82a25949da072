"""``ElementwiseKernel``: CuPy's kernels from an expression for one element."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ge2rt.base.dtypes import DType
from ge2rt.base.errors import InvalidArgumentError
from ge2rt.base.shapes import broadcast_shapes, size_of
from ge2rt.device.api import Device
from ge2rt.raw.generated import (
    Generated,
    argument_key,
    begin_text,
    declarations,
    layouts,
    returned,
    values_of,
)
from ge2rt.raw.module import RawFunction
from ge2rt.raw.operands import (
    Argument,
    broadcast,
    check_output,
    fresh,
    index_type,
    look_at,
    make_walk,
    separated,
)
from ge2rt.raw.params import dtype_for, resolve_types
from ge2rt.raw.text import INDEXER_TEXT, Text, Walk

_MOST_BLOCKS = 2**16


class ElementwiseKernel(Generated):
    """A kernel that computes its outputs element by element, with broadcasting.

    Args:
        in_params: inputs, such as ``"T x, raw T y, float32 z"``: a NumPy dtype or a one-letter
            placeholder, and a name. ``raw`` arrays are indexed by the operation itself.
        out_params: outputs in the same language.
        operation: C++ statements for one element. ``i`` is its index, ``n`` the number of elements,
            ``_ind.size()`` and ``_ind.get()`` the same as CuPy's.
        name: the kernel's name.
        preamble: C++ text before the kernel.
        loop_prep: statements before the loop over elements.
        after_loop: statements after it.
        reduce_dims: merge dimensions where all arrays allow it.
        return_tuple: return a tuple for one output too.
        no_return: return None.
        options: NVRTC's options.
        doc: the object's docstring.
        device: where it runs; by default where its arrays lie.

    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        operation: str,
        name: str = "kernel",
        reduce_dims: bool = True,
        preamble: str = "",
        no_return: bool = False,
        return_tuple: bool = False,
        *,
        loop_prep: str = "",
        after_loop: str = "",
        options: Sequence[str] = (),
        doc: str = "",
        device: str | Device | None = None,
    ) -> None:
        super().__init__(in_params, out_params, name, preamble, options, device)
        self.operation = operation
        self.loop_prep = loop_prep
        self.after_loop = after_loop
        self._merge = reduce_dims and not re.search(r"\b_ind\b\s*\.\s*get\b", operation)
        self._no_return = no_return
        self._return_tuple = return_tuple
        if doc:
            self.__doc__ = doc

    def __call__(
        self, *args: Any, size: int | None = None, block_size: int = 128, stream: Any = None
    ) -> Any:
        """Compute; the inputs, then all outputs or none. Returns the output(s).

        ``size`` is the number of elements where every array is raw. Inputs that overlap an output
        in memory, other than being the same view, are copied first.
        """
        inputs, outputs = self._arguments(args)
        shape = self._shape(inputs, outputs, size)
        given = [*inputs, *outputs]
        specs = (*self.in_specs, *self.out_specs)
        absent = [None] * (len(specs) - len(given))
        types = resolve_types(
            specs,
            [*(a.operand.dtype if a.operand else None for a in given), *absent],
            [*(a.value for a in given), *absent],
            self.name,
        )
        device = self.target(given)
        for argument in outputs:
            check_output(argument, shape, self.name)
        inputs = separated(inputs, outputs, same_allowed=True)
        outputs = outputs or self._fresh(shape, types, device, inputs)
        if size_of(shape):
            self._launch([*inputs, *outputs], shape, types, device, block_size, stream)
        if self._no_return:
            return None
        return returned([a.operand for a in outputs if a.operand], self._return_tuple)

    def _arguments(self, args: Sequence[Any]) -> tuple[list[Argument], list[Argument]]:
        count = len(self.in_specs)
        if len(args) not in (count, count + len(self.out_specs)):
            raise self.count_error(len(args))
        inputs = look_at(self.in_specs, args[:count], self.name)
        outputs = args[count:]
        specs = self.out_specs if outputs else ()
        return inputs, look_at(specs, outputs, self.name)

    def _shape(
        self, inputs: list[Argument], outputs: list[Argument], size: int | None
    ) -> tuple[int, ...]:
        shapes = [a.operand.shape for a in inputs if a.walked and a.operand]
        shapes += [a.operand.shape for a in outputs if a.walked and a.operand]
        if size is not None:
            if shapes:
                raise InvalidArgumentError(
                    "size is for kernels whose arrays are all raw", kernel=self.name,
                    argument="size",
                )  # fmt: skip
            return (size,)
        if not shapes:
            raise InvalidArgumentError(
                "nothing tells the number of elements", kernel=self.name, argument="size",
                next_step="pass size=, or an array that is not raw",
            )  # fmt: skip
        return broadcast_shapes(*shapes)

    def _fresh(
        self, shape: tuple[int, ...], types: dict[str, DType], device: Device,
        inputs: list[Argument],
    ) -> list[Argument]:  # fmt: skip
        if any(spec.raw for spec in self.out_specs):
            raise InvalidArgumentError(
                "a raw output has no shape of its own", kernel=self.name,
                next_step="pass the output array",
            )  # fmt: skip
        like = next((a.value for a in inputs if a.operand is not None), None)
        return [
            Argument(spec, operand.source, operand)
            for spec in self.out_specs
            for operand in [fresh(shape, dtype_for(spec, types), device, like)]
        ]

    def _launch(
        self, arguments: list[Argument], shape: tuple[int, ...], types: dict[str, DType],
        device: Device, block_size: int, stream: Any,
    ) -> None:  # fmt: skip
        count = size_of(shape)
        key = (argument_key(arguments, types), layouts(arguments), shape)
        function, tail = self.prepared(key, lambda: self._prepare(arguments, shape, types))
        values = [*values_of(arguments, types, self.name), *tail]
        grid = min(-(-count // block_size), _MOST_BLOCKS)
        keep = [a.value for a in arguments]
        self.run(function, device, (grid,), block_size, values, stream, keep)

    def _prepare(
        self, arguments: list[Argument], shape: tuple[int, ...], types: dict[str, DType]
    ) -> tuple[RawFunction, list[Any]]:
        """The variant for these layouts, and its arguments behind the arrays and scalars."""
        count = size_of(shape)
        walked = {a.spec.name: broadcast(a, shape) for a in arguments if a.walked is not None}
        walk = make_walk("_w", shape, walked, merge=self._merge)
        index = index_type(arguments, count)
        key = (argument_key(arguments, types), walk.key, index, self._rank(walk))
        function = self.variant(key, lambda: self._text(arguments, types, walk, index))
        extents = walk.shape if self._rank(walk) else ()
        return function, [count, *extents, *walk.arguments()]

    def _rank(self, walk: Walk) -> int:
        """Rank of the index array that the operation reads; 0 where it reads none."""
        return len(walk.shape) if not self._merge else 0

    def _text(
        self, arguments: list[Argument], types: dict[str, DType], walk: Walk, index: str
    ) -> Text:
        has_raw = any(a.spec.raw for a in arguments)
        text = begin_text(self, types, (*self.in_specs, *self.out_specs), has_raw)
        text.add(INDEXER_TEXT)
        rank = self._rank(walk)
        params = declarations(arguments, types, len(self.in_specs))
        params += [f"{index} _n", *(f"long long _shape{axis}" for axis in range(rank))]
        params += walk.parameters(index)
        text.add(f'extern "C" __global__ void {self.name}(', "    " + ",\n    ".join(params), ") {")
        text.add("const long long n = _n;", f"CIndexer<{rank}> _ind;", "_ind.size_ = n;")
        text.quote("loop_prep", self.loop_prep)
        text.add(
            f"const {index} _step = blockDim.x * gridDim.x;",
            f"{index} _i = blockIdx.x * ({index})blockDim.x + threadIdx.x;",
            "for (; _i < _n; _i += _step) {",
            "const long long i = _i;",
            *self._index_lines(rank),
            *walk.lines("_i", index),
        )  # fmt: skip
        text.add(*self._elements(arguments), "{")
        text.quote("operation", self.operation)
        text.add(";", "}", "}")
        text.quote("after_loop", self.after_loop)
        text.add("}")
        return text

    def _index_lines(self, rank: int) -> list[str]:
        if not rank:
            return []
        lines = ["long long _rest = i;"]
        for axis in range(rank - 1, -1, -1):
            lines.append(f"_ind.index_[{axis}] = _rest % _shape{axis}; _rest /= _shape{axis};")
        return lines

    def _elements(self, arguments: list[Argument]) -> list[str]:
        """Inputs by value, outputs by reference."""
        lines = []
        for position, argument in enumerate(arguments):
            if argument.walked is not None:
                name = argument.spec.name
                mark = " " if position < len(self.in_specs) else "& "
                const = "const " if position < len(self.in_specs) else ""
                lines.append(f"{const}auto{mark}{name} = _p_{name}[_w_at_{name}];")
        return lines
