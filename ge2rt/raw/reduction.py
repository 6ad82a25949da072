"""``ReductionKernel``: CuPy's kernels from a map, a reduction and a map of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ge2rt.base.dtypes import DType, dtype_of
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.shapes import (
    Shape,
    broadcast_shapes,
    normalize_axes,
    reduced_shape,
    size_of,
)
from ge2rt.device.api import Device
from ge2rt.device.pointers import Operand
from ge2rt.raw.generated import (
    Generated,
    argument_key,
    begin_text,
    declarations,
    layouts,
    returned,
    values_of,
)
from ge2rt.raw.operands import (
    Argument,
    broadcast,
    check_output,
    fresh,
    index_type,
    look_at,
    make_walk,
    placed,
    separated,
)
from ge2rt.raw.params import dtype_for, resolve_types
from ge2rt.raw.text import Text, Walk, ctype

_THREADS = 256
_INNER_LANES = (8, 32)  # where neighbouring threads read along what is reduced; else all threads
_OUTER_LANES, _MANY_LANES = 8, 64  # where they stand at neighbouring results; few results: many
_MOST_BLOCKS = 2**16
_SPLIT_FROM = 2**16  # elements of one result from which several blocks share its work
_MOST_SPLITS = 64
_FEW_RESULTS = 32


@dataclass(frozen=True)
class Plan:
    """How one call is spread: threads that share a result, results a block, blocks a result."""

    outer: Walk  # over the results: inputs and outputs
    inner: Walk  # over what is reduced: inputs
    results: int
    reduced: int
    lanes: int
    group: int
    inner_first: bool  # neighbouring threads read along the reduced axes
    index: str
    splits: int

    @property
    def key(self) -> tuple[Any, ...]:
        """What the text depends on."""
        walks = self.outer.key, self.inner.key
        return *walks, self.lanes, self.group, self.inner_first, self.index


class ReductionKernel(Generated):
    """A kernel that reduces arrays along axes.

    Args:
        in_params: inputs, as for :class:`ElementwiseKernel`; they are broadcast together.
        out_params: outputs.
        map_expr: expression of the inputs that gives one value to reduce.
        reduce_expr: expression of ``a`` and ``b``.
        post_map_expr: statement that assigns the outputs from the result ``a``.
        identity: the value to begin with; empty or None where there is none (then nothing to
            reduce is an error).
        name: the kernel's name.
        reduce_type: type of ``a`` and ``b``: a placeholder, a NumPy dtype or a C++ type; by default
            that of the first output.
        reduce_dims: accepted for CuPy's sake; dimensions are always merged.
        preamble: C++ text before the kernel.
        options: NVRTC's options.
        device: where it runs; by default where its arrays lie.

    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: str | float | None,
        name: str = "reduce_kernel",
        reduce_type: str | None = None,
        reduce_dims: bool = True,
        preamble: str = "",
        options: Sequence[str] = (),
        *,
        device: str | Device | None = None,
    ) -> None:
        super().__init__(in_params, out_params, name, preamble, options, device)
        if not self.out_specs:
            raise InvalidArgumentError("a reduction needs an output", kernel=name)
        self.map_expr = map_expr
        self.reduce_expr = reduce_expr
        self.post_map_expr = post_map_expr
        self.identity = "" if identity is None else str(identity)
        self.reduce_type = reduce_type

    def __call__(
        self, *args: Any, out: Any = None, axis: int | Sequence[int] | None = None,
        keepdims: bool = False, stream: Any = None,
    ) -> Any:  # fmt: skip
        """Reduce along ``axis`` (all axes by default); returns the output(s).

        Outputs may be given behind the inputs, or as ``out``.
        """
        inputs, outputs = self._arguments(args, out)
        shapes = [a.operand.shape for a in inputs if a.walked and a.operand]
        if not shapes:
            raise InvalidArgumentError(
                "there is no array to reduce",
                kernel=self.name,
                next_step="pass one that is not raw",
            )
        shape = broadcast_shapes(*shapes)
        axes = normalize_axes(None if axis is None else axis, len(shape))
        kept = reduced_shape(shape, axes, keepdims)
        types, device = self._types(inputs, outputs), self.target([*inputs, *outputs])
        reduced = size_of([shape[a] for a in axes])
        if not reduced and size_of(kept) and not self.identity:
            raise InvalidArgumentError(
                "zero-size array to a reduction which has no identity", kernel=self.name,
                got=f"shape {shape}", detail="shape",
            )  # fmt: skip
        for argument in outputs:
            check_output(argument, kept, self.name)
        inputs = separated(inputs, outputs, same_allowed=False)
        outputs = outputs or self._fresh(kept, types, device, inputs)
        if size_of(kept):
            arguments = [*inputs, *outputs]
            key = (argument_key(arguments, types), layouts(arguments), axes, keepdims)
            plan = self.prepared(key, lambda: _plan(inputs, outputs, shape, axes, keepdims))
            self._launch(plan, arguments, types, device, stream)
        return returned([a.operand for a in outputs if a.operand], False)

    def _arguments(self, args: Sequence[Any], out: Any) -> tuple[list[Argument], list[Argument]]:
        count, results = len(self.in_specs), len(self.out_specs)
        behind = args[count:]
        if out is not None:
            behind = (*behind, *(out if isinstance(out, tuple) else (out,)))
        if len(args) < count or len(behind) not in (0, results):
            raise self.count_error(len(args) + (len(behind) - len(args[count:])))
        inputs = look_at(self.in_specs, args[:count], self.name)
        return inputs, look_at(self.out_specs if behind else (), behind, self.name)

    def _types(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> dict[str, DType]:
        given = [*inputs, *outputs]
        specs = (*self.in_specs, *self.out_specs)
        absent = [None] * (len(specs) - len(given))
        dtypes = [*(a.operand.dtype if a.operand else None for a in given), *absent]
        return resolve_types(specs, dtypes, [*(a.value for a in given), *absent], self.name)

    def _fresh(
        self, shape: Shape, types: dict[str, DType], device: Device, inputs: Sequence[Argument]
    ) -> list[Argument]:
        like = next((a.value for a in inputs if a.operand is not None), None)
        found = []
        for spec in self.out_specs:
            if spec.raw:
                raise InvalidArgumentError(
                    "a raw output has no shape of its own", kernel=self.name,
                    argument=spec.name, next_step="pass the output array",
                )  # fmt: skip
            operand = fresh(shape, dtype_for(spec, types), device, like)
            found.append(Argument(spec, operand.source, operand))
        return found

    def _launch(
        self, plan: Plan, arguments: list[Argument], types: dict[str, DType], device: Device,
        stream: Any,
    ) -> None:  # fmt: skip
        kind = self._reduce_dtype(types)
        splits = plan.splits if kind is not None else 1
        keep: list[Any] = [a.value for a in arguments]
        grid = min(-(-plan.results // plan.group), _MOST_BLOCKS)
        key = (argument_key(arguments, types), plan.key)
        values = values_of(arguments, types, self.name)
        values += [*plan.outer.arguments(), *plan.inner.arguments(), plan.results]

        def launch(stage: str, reduced: int, chunk: int, partial: Operand | None) -> None:
            function = self.variant(
                (*key, stage), lambda: self._text(plan, arguments, types, stage)
            )
            last = [reduced, chunk, placed(partial) if partial else None]
            self.run(
                function, device, (grid, -(-reduced // chunk) if reduced else 1),
                plan.lanes * plan.group, [*values, *last], stream, keep,
            )  # fmt: skip

        if splits == 1 or kind is None:
            launch("whole", plan.reduced, max(plan.reduced, 1), None)
            return
        chunk = -(-plan.reduced // splits)
        splits = -(-plan.reduced // chunk)
        partial = fresh((splits, plan.results), kind, device, None)
        keep.append(partial.keepalive)
        launch("partial", plan.reduced, chunk, partial)
        launch("final", splits, splits, partial)

    def _reduce_dtype(self, types: dict[str, DType]) -> DType | None:
        """The dtype of ``a`` and ``b``; None for a C++ type that NumPy does not know."""
        if self.reduce_type is None:
            return dtype_for(self.out_specs[0], types)
        if self.reduce_type in types:
            return types[self.reduce_type]
        try:
            return dtype_of(self.reduce_type)
        except InvalidTypeError:
            return None

    def _text(
        self, plan: Plan, arguments: list[Argument], types: dict[str, DType], stage: str
    ) -> Text:
        has_raw = any(a.spec.raw for a in arguments)
        text = begin_text(self, types, (*self.in_specs, *self.out_specs), has_raw)
        kind = self._reduce_dtype(types)
        text.add("typedef")
        if kind is None:
            text.quote("reduce_type", self.reduce_type or "")
        text.add(ctype(kind) if kind else "", "_type_reduce;")
        params = declarations(arguments, types, len(self.in_specs))
        params += plan.outer.parameters(plan.index) + plan.inner.parameters(plan.index)
        params += [f"{plan.index} {name}" for name in ("_results", "_reduced", "_chunk")]
        text.add(
            f'extern "C" __global__ void {self.name}(',
            "    " + ",\n    ".join([*params, "_type_reduce* _partial"]) + ") {",
            f"constexpr int _lanes = {plan.lanes}, _group = {plan.group};",
            "__shared__ __align__(16) char _memory[sizeof(_type_reduce) * _lanes * _group];",
            "_type_reduce* const _shared = (_type_reduce*)_memory;",
            *_PLACE[plan.inner_first],
            "const auto _reduce = [&](_type_reduce a, _type_reduce b) -> _type_reduce {",
            "return (",
        )
        text.quote("reduce_expr", self.reduce_expr)
        text.add(
            ");", "};", f"const {plan.index} _begin = blockIdx.y * _chunk;",
            f"const {plan.index} _end = min(_begin + _chunk, _reduced);",
            f"for ({plan.index} _first = blockIdx.x * _group; _first < _results;"
            " _first += gridDim.x * _group) {",
            f"const {plan.index} _i = _first + _local;",
        )  # fmt: skip
        if self.identity:
            text.add("_type_reduce _s = _type_reduce(")
            text.quote("identity", self.identity)
            text.add(");")
        else:
            text.add("_type_reduce _s; bool _any = false;")
        self._add_loop(text, plan, arguments, stage)
        text.add(*_COMBINE[bool(self.identity)])
        self._add_result(text, plan, arguments, stage)
        text.add("__syncthreads();" if plan.lanes > 1 else "", "}", "}")
        return text

    def _add_loop(self, text: Text, plan: Plan, arguments: list[Argument], stage: str) -> None:
        text.add("if (_i < _results) {")
        if stage != "final":
            text.add(*plan.outer.lines("_i", plan.index))
        text.add(f"for ({plan.index} _J = _begin + _lane; _J < _end; _J += _lanes) {{")
        if stage == "final":
            text.add("const _type_reduce _v = _partial[_J * _results + _i];")
        else:
            text.add(*plan.inner.lines("_J", plan.index))
            for argument in arguments[: len(self.in_specs)]:
                if argument.walked is not None:
                    name = argument.spec.name
                    text.add(f"const auto {name} = _p_{name}[_o_at_{name} + _r_at_{name}];")
            text.add("const _type_reduce _v = static_cast<_type_reduce>(")
            text.quote("map_expr", self.map_expr)
            text.add(");")
        text.add(
            "_s = _reduce(_s, _v);" if self.identity
            else "_s = _any ? _reduce(_s, _v) : _v; _any = true;",
            "}", "}",
        )  # fmt: skip

    def _add_result(self, text: Text, plan: Plan, arguments: list[Argument], stage: str) -> None:
        text.add("if (_lane == 0 && _i < _results) {")
        if stage == "partial":
            text.add("_partial[blockIdx.y * _results + _i] = _s;", "}")
            return
        text.add(*plan.outer.lines("_i", plan.index))
        for argument in arguments[len(self.in_specs) :]:
            if argument.walked is not None:
                name = argument.spec.name
                text.add(f"auto& {name} = _p_{name}[_o_at_{name}];")
        text.add("_type_reduce a = _s;")
        text.quote("post_map_expr", self.post_map_expr)
        text.add(";", "}")


# where a thread stands: along what is reduced, and at which result of the block
_PLACE = {
    True: ("const int _lane = threadIdx.x % _lanes, _local = threadIdx.x / _lanes;",),
    False: ("const int _local = threadIdx.x % _group, _lane = threadIdx.x / _group;",),
}

# the tree over a block's lanes; without an identity only lanes that had an element take part
_COMBINE = {
    has_identity: (
        "if (_lanes > 1) {",
        "_shared[_lane * _group + _local] = _s;",
        "__syncthreads();",
        "#pragma unroll 1",
        "for (int _half = _lanes / 2; _half > 0; _half /= 2) {",
        "if (_lane < _half" + ("" if has_identity else " && _lane + _half < _end - _begin") + ")",
        "_shared[_lane * _group + _local] = _reduce(_shared[_lane * _group + _local],"
        " _shared[(_lane + _half) * _group + _local]);",
        "__syncthreads();",
        "}",
        "_s = _shared[_local];",
        "}",
    )
    for has_identity in (True, False)
}


def _plan(
    inputs: Sequence[Argument], outputs: Sequence[Argument], shape: Shape, axes: Shape,
    keepdims: bool,
) -> Plan:  # fmt: skip
    strides = {a.spec.name: broadcast(a, shape) for a in inputs if a.walked is not None}
    kept = [a for a in range(len(shape)) if a not in axes]
    outer = {name: [steps[a] for a in kept] for name, steps in strides.items()}
    for argument in outputs:
        if argument.walked is not None:
            steps = argument.walked.strides
            outer[argument.spec.name] = [steps[a] for a in kept] if keepdims else list(steps)
    inner = {name: [steps[a] for a in axes] for name, steps in strides.items()}
    results, reduced = size_of([shape[a] for a in kept]), size_of([shape[a] for a in axes])
    inner_first = _reads_along(strides, shape, axes) or results == 1
    lanes, group = _spread(results, reduced, inner_first)
    wanted = _MOST_SPLITS if reduced >= _SPLIT_FROM and results <= _FEW_RESULTS else 1
    return Plan(
        make_walk("_o", [shape[a] for a in kept], outer),
        make_walk("_r", [shape[a] for a in axes], inner),
        results, reduced, lanes, group, inner_first,
        index_type([*inputs, *outputs], results * max(reduced, 1)), wanted,
    )  # fmt: skip


def _reads_along(strides: dict[str, Shape], shape: Shape, axes: Shape) -> bool:
    """Whether the axis with the smallest step in memory is one of those reduced."""
    steps = [
        (abs(step), axis not in axes)
        for of_one in strides.values()
        for axis, step in enumerate(of_one)
        if step and shape[axis] > 1
    ]
    return not min(steps, default=(0, False))[1]


def _spread(results: int, reduced: int, inner_first: bool) -> tuple[int, int]:
    """(threads a result, results a block), out of few: each pair is compiled by itself."""
    if inner_first:
        lanes = next((lanes for lanes in _INNER_LANES if reduced <= 4 * lanes), _THREADS)
    else:
        lanes = _OUTER_LANES if results > _THREADS // _MANY_LANES else _MANY_LANES
    return lanes, _THREADS // lanes
