"""What was computed, step by step, and the way back.

A step keeps its operator, what it was called with, and how often each storage had been written.
Its pullback is the operator's own function differentiated by the table (:mod:`ge2rt.autodiff`),
compiled once for each kind of call; so a pullback is an operator like any other, and can be
recorded itself.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.locks import ForkLock
from ge2rt.jit.derive.directions import cotangents_of
from ge2rt.jit.scope import active, where
from ge2rt.tensors import dispatch
from ge2rt.tensors.operators import Operator
from ge2rt.tensors.storage import Storage, of_array
from ge2rt.tensors.tensor import Tensor, hooks_of, is_stale

_MOST_PULLBACKS = 1024
_adding = ForkLock()  # threads may go back to the same leaf: a sum is read and written as one
Origin: TypeAlias = "tuple[Tensor, tuple[Step, int] | None]"  # a tensor and a history of it


class Step:
    """One recorded call.

    ``leaves`` are its tensors and other values, ``wanted`` the places of those whose gradient is
    wanted, ``origins`` these tensors with the history that each had: a change in place gives it
    another. ``hooks`` are those of outputs, by number.
    """

    __slots__ = (
        "__weakref__", "count", "hooks", "leaves", "name", "origins", "pull", "saved", "types",
        "versions", "wanted",
    )  # fmt: skip

    def __init__(
        self, name: str, leaves: list[Any], wanted: tuple[int, ...],
        pull: Callable[..., Sequence[Any]],
    ) -> None:  # fmt: skip
        self.name = name
        self.leaves: list[Any] | None = leaves
        self.wanted = wanted
        self.pull = pull
        self.versions: dict[int, tuple[Storage, int, Any]] = {
            n: _version(each) for n, each in enumerate(leaves) if isinstance(each, Tensor)
        }
        self.origins: list[Origin] = [(leaves[n], leaves[n].history) for n in wanted]
        self.hooks: dict[int, list[Any]] | None = None
        self.saved: list[Tensor] = []  # outputs, where the pullback may want them
        self.count = 0
        self.types: list[tuple[tuple[int, ...], Any, Any]] = []

    def produced(self, result: Any) -> Any:
        """Mark the tensors of a result as this step's outputs."""
        tensors = [result] if isinstance(result, Tensor) else list(result)
        keep = getattr(self.pull, "keeps_outputs", None)
        kept = [each.detach() for each in tensors] if keep is not None and keep() else []
        first = len(self.leaves or ())
        self.versions |= {first + n: _version(each) for n, each in enumerate(kept)}
        self.saved = kept
        for tensor in tensors:
            tensor.history = (self, self.count)
            tensor.requires_grad = tensor.dtype.is_float
            self.types.append((tensor.shape, tensor.dtype, tensor._device))
            self.count += 1
        return result

    def gradients(self, cotangents: Sequence[Tensor]) -> Sequence[Tensor]:
        """Those of the wanted leaves. ValueError where a saved value was changed meanwhile."""
        leaves = self.leaves
        if leaves is None:
            raise InvalidArgumentError(
                f"the record of {self.name} was given up by an earlier backward",
                next_step="call backward(retain_graph=True) the first time",
            )  # fmt: skip
        moved = self._left_behind(leaves)
        for place, (storage, version, _) in self.versions.items():
            changed = storage.version != version or (place in moved and dispatch.mode.recording)
            if changed and self.needs(place, cotangents):
                what = f"operand {place}" if place < len(leaves) else "its result"
                raise InvalidArgumentError(
                    f"a tensor that the gradient of {self.name} needs was changed in place",
                    argument=what, got=f"version {storage.version}, saved at version {version}",
                    next_step="work on a copy: x = x.clone(), or write x = x + y",
                )  # fmt: skip
        return self.pull(self._recorded(leaves), self._outputs(), cotangents)

    def give_up(self) -> None:
        """Let go of all that was kept for the way back."""
        self.leaves, self.saved, self.versions = None, [], {}

    def _left_behind(self, leaves: list[Any]) -> set[int]:
        """Put what operands were in the place of those that were moved to other memory since.

        Returns the places of leaves: what stands there is a constant, which will not do where the
        way back is recorded itself.
        """
        for place, (storage, _, array) in self.versions.items():
            if place < len(leaves) and leaves[place].storage() is not storage:
                leaves[place] = was = Tensor(array, storage.device)
                was._storage, was._geometry = storage, of_array(array, storage.device)[1]
        pairs = zip(self.wanted, self.origins, strict=True)
        return {n for n, (leaf, history) in pairs if history is None and leaves[n] is not leaf}

    def set_aside(self, storage: Storage, result: Tensor) -> None:
        """Copy operands in a storage that ``result`` is about to be written to, if needed."""
        from ge2rt.tensors.making import clone

        leaves = self.leaves or []
        leafs = {n for n, (_, history) in zip(self.wanted, self.origins, strict=True)
                 if history is None}  # fmt: skip
        for place, leaf in enumerate(leaves):
            # a leaf stays what it is: it is by its identity that it gets its gradient
            shares = isinstance(leaf, Tensor) and leaf.storage() is storage and place not in leafs
            if shares and self.needs(place, [result.detach()]):
                with recording(False):
                    leaves[place] = kept = clone(leaf)
                kept.history, kept.requires_grad = leaf.history, leaf.requires_grad
                self.versions[place] = _version(kept)

    def _recorded(self, leaves: list[Any]) -> list[Any]:
        """The leaves with the histories that they had, where the way back is recorded itself."""
        if not dispatch.mode.recording:
            return leaves
        found = list(leaves)
        histories = {n: origin[1] for n, origin in zip(self.wanted, self.origins, strict=True)}
        for place, leaf in enumerate(leaves):
            history = histories.get(place)
            if isinstance(leaf, Tensor) and (leaf.history is not history or is_stale(leaf)):
                found[place] = leaf.detach()
                found[place].history, found[place].requires_grad = history, history is not None
        return found

    def _outputs(self) -> list[Tensor]:
        """Those that were saved; as results of this step where the way back is recorded itself."""
        if not dispatch.mode.recording:
            return self.saved
        found = [each.detach() for each in self.saved]
        for number, each in enumerate(found):
            if each.dtype.is_float:
                each.history, each.requires_grad = (self, number), True
        return found

    def needs(self, place: int, cotangents: Sequence[Tensor]) -> bool:
        """Whether the pullback reads the values of a leaf, or (counted on) of an output."""
        reads = getattr(self.pull, "reads", None)
        return reads is None or reads(self.leaves, self.saved, cotangents, place)


def _version(x: Tensor) -> tuple[Storage, int, Any]:
    """What a tensor is now: it may be written, and may be moved to other memory."""
    storage = x.storage()
    return storage, storage.version, x.array


# -- recording ------------------------------------------------------------------------------------
def record(op: Operator, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Run an operator and note how it was done."""
    bound = op.signature.bind(*args, **options)
    leaves, fill = _taken_apart(op, bound)
    wanted = tuple(
        n for n, each in enumerate(leaves)
        if isinstance(each, Tensor) and each.requires_grad and each.dtype.is_float
    )  # fmt: skip
    result = dispatch.run(op, args, options)
    if not wanted:
        return result
    pull = Pull(op, fill, wanted) if op.derive is None else op.derive(fill, wanted)
    return Step(op.name, leaves, wanted, pull).produced(result)


def renew(tensors: Iterable[Any]) -> None:
    """Give views whose base was written since a history again, as parts of what it is now."""
    for each in tensors:
        if isinstance(each, Tensor) and is_stale(each):
            from ge2rt.tensors.through import show  # late: it needs this module

            show(each)


def _taken_apart(op: Operator, bound: inspect.BoundArguments) -> tuple[list[Any], Fill]:
    """The arguments' values one by one (lists opened), and how to call with other ones."""
    leaves: list[Any] = []
    shape: list[tuple[str, int | None, type | None]] = []
    static: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if name in op.static:
            static[name] = dispatch._option(op, name, value)
        elif isinstance(value, (list, tuple)):
            shape.append((name, len(value), type(value)))
            leaves += value
        else:
            shape.append((name, None, None))
            leaves.append(value)
    return leaves, Fill(tuple(shape), tuple(static.items()))


class Fill:
    """How the values of one kind of call are handed to an operator's function."""

    __slots__ = ("key", "shape", "static")

    def __init__(
        self, shape: tuple[tuple[str, int | None, type | None], ...],
        static: tuple[tuple[str, Any], ...],
    ) -> None:  # fmt: skip
        self.shape = shape
        self.static = static
        self.key = (shape, static)

    def keywords(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Arguments by name."""
        found: dict[str, Any] = dict(self.static)
        rest = iter(leaves)
        for name, count, kind in self.shape:
            if count is None:
                found[name] = next(rest)
            else:
                found[name] = (kind or list)(next(rest) for _ in range(count))
        return found


class Pull:
    """The pullback of an operator for one kind of call."""

    __slots__ = ("fill", "op", "wanted")

    def __init__(self, op: Operator, fill: Fill, wanted: tuple[int, ...]) -> None:
        self.op, self.fill, self.wanted = op, fill, wanted

    def __call__(
        self, leaves: Sequence[Any], saved: Sequence[Tensor], cotangents: Sequence[Tensor]
    ) -> Sequence[Tensor]:
        """Gradients of the wanted leaves."""
        op = _pullback(self.op, self.fill, self.wanted)
        found = dispatch.call(op, (list(leaves), list(saved), list(cotangents)), {})
        result: Sequence[Tensor] = found
        return result

    def keeps_outputs(self) -> bool:
        """Whether outputs are to be kept: unless the pullback is known not to read them."""
        form = _last_form(_pullback(self.op, self.fill, self.wanted))
        if form is None:
            return self.op.kind != "view"
        count = sum(name.startswith("leaves") for name in form.call.names)
        outputs = sum(name.startswith("saved") for name in form.call.names)
        used = _inputs_read(form)
        return any(place in used for place in range(count, count + outputs))

    def reads(
        self, leaves: Sequence[Any], saved: Sequence[Tensor], cotangents: Sequence[Tensor],
        place: int,
    ) -> bool:  # fmt: skip
        """Whether the pullback's graph has the values of a leaf, or of an output, in it."""
        op = _pullback(self.op, self.fill, self.wanted)
        # another call of the kind, of an empty tensor say, may read less
        op.jitted.compile(*(dispatch.bare(list(each)) for each in (leaves, saved, cotangents)))
        return place in _inputs_read(_last_form(op))


def _inputs_read(form: Any) -> set[int]:
    """Numbers of the leaves of a call that its optimised graph reads."""
    graph = form.built.optimised
    used = {operand for node in graph.nodes for operand in node.inputs} | set(graph.outputs)
    return {
        place for place, node in zip(form.traced.inputs, graph.inputs, strict=False)
        if node in used
    }  # fmt: skip


def _last_form(op: Operator) -> Any:
    forms = op.jitted._forms
    return next(reversed(forms.values()), None) if forms else None


_pullbacks: OrderedDict[Any, Operator] = OrderedDict()


def _pullback(op: Operator, fill: Fill, wanted: tuple[int, ...]) -> Operator:
    """The operator that computes gradients of an operator, made once a kind of call."""
    key = (op.name, op.function, fill.key, wanted)
    found = _pullbacks.get(key)
    if found is None:
        found = _pullbacks[key] = _make_pullback(op, fill, wanted)
        if len(_pullbacks) > _MOST_PULLBACKS:
            _pullbacks.popitem(last=False)
    return found


def _make_pullback(op: Operator, fill: Fill, wanted: tuple[int, ...]) -> Operator:
    function = op.function

    def pullback(leaves: Any, saved: Any, cotangents: Any) -> Any:
        def of_wanted(*values: Any) -> Any:
            filled = list(leaves)
            for place, value in zip(wanted, values, strict=True):
                filled[place] = value
            result = function(**fill.keywords(filled))
            return list(result) if isinstance(result, (tuple, list)) else [result]

        return cotangents_of(of_wanted, [leaves[place] for place in wanted], saved, cotangents)

    return Operator(
        f"{op.name} backward", "backward", pullback, inspect.signature(pullback), (),
        f"the pullback of {op.meaning}",
    )  # fmt: skip


def clear() -> None:
    """Forget the pullbacks that were compiled."""
    _pullbacks.clear()


# -- the way back ---------------------------------------------------------------------------------
def backward(
    outputs: Sequence[Tensor], cotangents: Sequence[Any], *, retain_graph: bool = False,
    create_graph: bool = False,
) -> None:  # fmt: skip
    """Add to ``.grad`` of all leaves with ``requires_grad`` that led to the outputs.

    InvalidTypeError inside a jitted function, where it would happen once, at the trace.
    """
    if active() is not None:
        raise InvalidTypeError(
            "backward() inside a jitted function happens once, while the function is traced, and"
            " not at its calls", where=where(),
            next_step="take ge2rt.value_and_grad of a function of the weights (docs/training.md)",
        )  # fmt: skip
    taken = {id(c.storage()) for c in cotangents if isinstance(c, Tensor)}
    for leaf, gradient in _walk(
        outputs, cotangents, create_graph, retain_graph or create_graph, None
    ):
        if leaf.history is not None:
            continue
        gradient = _beside(gradient, leaf)
        with _adding:
            if leaf.grad is None:
                leaf.grad = _own(gradient, taken, create_graph)
            else:
                leaf.grad = _sum(leaf.grad, gradient, create_graph)


def _beside(gradient: Any, leaf: Tensor) -> Any:
    """The gradient where its leaf is and in its dtype: a module may have been moved meanwhile."""
    from ge2rt.tensors.making import to

    same = gradient.dtype == leaf.dtype and gradient.device == leaf.device
    return (
        gradient
        if same or not isinstance(gradient, Tensor)
        else to(gradient, leaf.device, leaf.dtype)
    )


def _own(gradient: Any, taken: set[int], create_graph: bool) -> Any:
    """The gradient, or a copy where its memory is another's: what changes one changes no other."""
    from ge2rt.tensors.making import clone

    if not isinstance(gradient, Tensor):
        return gradient
    if id(gradient.storage()) in taken:
        with recording(create_graph):
            return clone(gradient)
    taken.add(id(gradient.storage()))
    return gradient


def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], cotangents: Any = None,
    *, retain_graph: bool | None = None, create_graph: bool = False, allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of ``inputs``, without touching any ``.grad``.

    ValueError for an input that no output depends on, unless ``allow_unused``: then None.
    """
    ends = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = [None] * len(ends) if cotangents is None else cotangents
    given = [given] if isinstance(given, Tensor) else list(given)
    keep = create_graph if retain_graph is None else retain_graph
    found = {id(each): gradient
             for each, gradient in _walk(ends, given, create_graph, keep, wanted)}  # fmt: skip
    missing = [n for n, each in enumerate(wanted) if id(each) not in found]
    if missing and not allow_unused:
        raise InvalidArgumentError(
            f"nothing that was recorded leads from input {missing[0]} to the outputs",
            next_step="pass allow_unused=True, or check requires_grad and detach()",
        )
    return tuple(found.get(id(each)) for each in wanted)


def _walk(
    outputs: Sequence[Tensor], cotangents: Sequence[Any], create_graph: bool, retain: bool,
    only: Sequence[Tensor] | None,
) -> Iterator[tuple[Tensor, Tensor]]:  # fmt: skip
    """(tensor, gradient) of leaves, or of the tensors in ``only``."""
    renew((*outputs, *(only or ())))
    starts = [_start(o, c) for o, c in zip(outputs, cotangents, strict=True)]
    sums: dict[Any, Tensor] = {}  # (id of a step, output) or id of a leaf -> gradient
    hooks: dict[Any, Any] = {}
    for output, cotangent in zip(outputs, starts, strict=True):
        _add(sums, hooks, (output, output.history), cotangent, create_graph)
    wanted = {_place((each, each.history)): each for each in only or ()}
    leaves = {id(output): output for output in outputs if output.history is None}
    found: list[tuple[Tensor, Tensor]] = []
    with recording(create_graph):
        for step in _order(outputs):
            slots = [
                _hooked(sums.pop((id(step), n), None), hooks.get((id(step), n)))
                for n in range(step.count)
            ]
            found += [(wanted[id(step), n], g) for n, g in enumerate(slots)
                      if g is not None and (id(step), n) in wanted]  # fmt: skip
            if all(slot is None for slot in slots):
                continue
            full = [
                _zeros(t) if s is None else s if isinstance(s, Tensor) else s.to_dense()
                for s, t in zip(slots, step.types, strict=True)
            ]
            for origin, gradient in zip(step.origins, step.gradients(full), strict=True):
                if origin[1] is None:
                    leaves[id(origin[0])] = origin[0]
                _add(sums, hooks, origin, gradient, create_graph)
            if not retain:
                step.give_up()
        for key, leaf in leaves.items():
            if key in sums and (only is None or key in wanted):
                found.append((leaf, _hooked(sums[key], hooks.get(key))))
    yield from found


def _hooked(gradient: Any, hooks: Any) -> Any:
    """What a tensor's hooks make of its whole gradient."""
    for hook in () if gradient is None else hooks or ():
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    return gradient


def _place(origin: Origin) -> Any:
    tensor, history = origin
    return id(tensor) if history is None else (id(history[0]), history[1])


def _start(output: Tensor, cotangent: Any) -> Tensor:
    from ge2rt.tensors.making import ones, tensor

    if not output.requires_grad:
        raise InvalidArgumentError(
            "nothing is recorded for this tensor",
            next_step="call requires_grad_() on what it is computed from, before computing it",
        )
    if cotangent is None:
        if output.shape:
            raise InvalidArgumentError(
                "only a 0-d tensor has a gradient of its own: 1", got=str(output.shape),
                next_step="reduce it, e.g. by .sum(), or pass its gradient",
            )  # fmt: skip
        return ones((), dtype=output.dtype, device=output.device)
    given = cotangent if isinstance(cotangent, Tensor) else tensor(cotangent, dtype=output.dtype)
    if given.shape != output.shape or given.dtype != output.dtype:
        raise InvalidTypeError(
            "the gradient is not like the tensor", expected=f"{output.dtype}{list(output.shape)}",
            got=f"{given.dtype}{list(given.shape)}", next_step="cast or reshape it",
        )  # fmt: skip
    return given


def _add(
    sums: dict[Any, Tensor], hooks: dict[Any, Any], origin: Origin, gradient: Tensor,
    create_graph: bool,
) -> None:  # fmt: skip
    key = _place(origin)
    found = hooks_of(*origin)
    if found:
        hooks[key] = found
    before = sums.get(key)
    sums[key] = gradient if before is None else _sum(before, gradient, create_graph)


def _sum(a: Tensor, b: Tensor, create_graph: bool) -> Tensor:
    from ge2rt.tensors.operators import table

    with recording(create_graph):
        total: Tensor = dispatch.call(table()["add"], (a, b), {})
    return total


def _zeros(type_: tuple[tuple[int, ...], Any, Any]) -> Tensor:
    from ge2rt.tensors.making import zeros

    shape, dtype, device = type_
    return zeros(shape, dtype=dtype, device=device.name)


def _order(outputs: Sequence[Tensor]) -> list[Step]:
    """Steps, each before those that it reads from; no recursion, however long the chain."""
    done: set[int] = set()
    order: list[Step] = []
    for output in outputs:
        if output.history is None:
            continue
        first: Step = output.history[0]
        stack: list[tuple[Step, Iterator[Origin]]] = [(first, iter(first.origins))]
        while stack:
            step, origins = stack[-1]
            if id(step) in done:
                stack.pop()
                continue
            for _, history in origins:
                if history is not None and id(history[0]) not in done:
                    stack.append((history[0], iter(history[0].origins)))
                    break
            else:
                done.add(id(step))
                order.append(step)
                stack.pop()
    return order[::-1]


@contextmanager
def recording(wanted: bool) -> Iterator[None]:
    """Record derivatives inside, or not."""
    before = dispatch.mode.recording
    dispatch.mode.recording = wanted
    try:
        yield
    finally:
        dispatch.mode.recording = before


def no_grad() -> Any:
    """A context in which nothing is recorded."""
    return recording(False)


def enable_grad() -> Any:
    """A context in which derivatives are recorded."""
    return recording(True)
