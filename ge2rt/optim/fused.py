"""Optimisers: one kernel launch for up to 32 tensors, in place.

The formulas are those of the kernels in ``docs/operations.md``, which are PyTorch's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ge2rt.optim.checks import (
    added,
    grouped,
    refuse_gradients,
    refuse_incomplete,
    refuse_traced,
)
from ge2rt.optim.schedules import Schedule
from ge2rt.optim.states import Held, Saved, numbered
from ge2rt.run.launch import plan_for
from ge2rt.run.plan import Plan
from ge2rt.spec.registry import default_registry
from ge2rt.tensors.forgetting import forget
from ge2rt.tensors.making import zeros
from ge2rt.tensors.sparse import Coo
from ge2rt.tensors.tape import no_grad
from ge2rt.tensors.tensor import Tensor

_MOST = 32  # tensors of one launch
_MOST_PLANS = 64


class Optimizer:
    """Parameters, their state, and one kernel that steps them.

    ``params`` are leaves of one's own with ``requires_grad`` (f32, f16 or bf16), or dicts
    ``{"params": [...], "lr": ...}`` with options of their own. ``lr`` is the rate; ``schedule``
    gives a factor of it for the number of steps done. ``weight_decay`` is a share of the parameter
    that counts as gradient, ``eps`` is added to a divisor. States are f32 and made at the first
    step. TypeError and ValueError for parameters that cannot be stepped and options out of range.
    """

    op: ClassVar[str] = ""
    states: ClassVar[tuple[str, ...]] = ()  # all that a parameter may have
    counted: ClassVar[bool] = True  # whether the kernel wants the number of the step

    def __init__(
        self, params: Iterable[Any], *, schedule: Schedule | None = None, **options: Any
    ) -> None:
        self.groups = grouped(type(self).__name__, params, options)
        self.defaults = options
        self.steps = 0
        self.schedule = schedule
        self.state: dict[int, Held] = {}  # of each parameter, by name
        self.done: dict[int, int] = {}  # steps of each parameter: some have no gradient at times
        self._plans: dict[Any, Plan] = {}  # by what a launch is for; only "lr" and "step" change

    def __repr__(self) -> str:
        lines = [
            f"\n  {len(group['params'])} tensors: "
            + ", ".join(f"{name}={value}" for name, value in group.items() if name != "params")
            for group in self.groups
        ]
        return f"{type(self).__name__}({self.steps} steps)" + "".join(lines)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """``groups``, by PyTorch's name: options may be set there."""
        return self.groups

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add ``{"params": [...], ...}``; options that it leaves out are the optimiser's.

        TypeError and ValueError as at construction, and for a parameter that is there already.
        """
        self.groups.append(added(type(self).__name__, group, self.defaults, self.groups))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or with ``set_to_none=False`` fill them with zeros in place."""
        for _, parameter, _ in numbered(self.groups):
            forget(parameter, set_to_none)

    def step(self) -> None:
        """Move all parameters that have a gradient, by one more step of the schedule.

        InvalidTypeError inside a jitted function, where it would happen once, at the trace.
        """
        refuse_traced(f"{type(self).__name__}.step()")
        for g, group in enumerate(self.groups):
            refuse_incomplete(type(self).__name__, g, group, self.defaults)
            refuse_gradients(type(self).__name__, g, group["params"])
        factor = 1.0 if self.schedule is None else self.schedule(self.steps)
        self.steps += 1
        for group in self.groups:
            options = {k: v for k, v in group.items() if k != "params"}
            options["lr"] = options["lr"] * factor
            counts: dict[int, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    count = self.done[id(parameter)] = self.done.get(id(parameter), 0) + 1
                    counts[count].append(parameter)
            for count, moved in counts.items():
                self._move(moved, {**options, "step": count} if self.counted else options)

    def _move(self, moved: Sequence[Tensor], options: Mapping[str, Any]) -> None:
        """Move parameters that have made equally many steps."""
        for parameter in moved:
            if isinstance(parameter.grad, Coo):
                self._step_rows(parameter, parameter.grad.coalesce(), options)
        names = self._names(options)
        for batch in batches([p for p in moved if isinstance(p.grad, Tensor)]):
            gradients = [each.grad for each in batch]
            states = [self._state(each, names) for each in batch]
            self._launch(batch, gradients, states, options)
            for each in batch:
                each.storage().version += 1

    def _step_rows(self, parameter: Tensor, gradient: Coo, options: Mapping[str, Any]) -> None:
        """Move the rows that a sparse gradient names, and their part of the state, alone."""
        rows = gradient.indices[0]
        with no_grad():
            whole = (parameter.detach(), *self._state(parameter, self._names(options)))
            part, *states = (each[rows] for each in whole)
            self._launch([part], [gradient.values.detach()], [tuple(states)], options)
            for each, changed in zip(whole, (part, *states), strict=True):
                each[rows] = changed

    def _launch(
        self, batch: Sequence[Tensor], gradients: Sequence[Any],
        states: Sequence[tuple[Tensor, ...]], options: Mapping[str, Any],
    ) -> None:  # fmt: skip
        columns = [each for column in zip(*states, strict=True) for each in column]
        tensors = [*gradients, *batch, *columns]
        attrs = self._attrs(options)
        now: dict[str, Any] = {n: attrs.pop(n) for n in ("lr", "step") if n in attrs}
        where = batch[0]._device
        descs = tuple(each.desc for each in tensors)
        key = default_registry().version, where.name, descs, tuple(attrs.items())
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:  # sparse gradients name other numbers of rows
                self._plans.clear()
            plan = self._plans[key] = plan_for(self.op, descs, {**attrs, **now}, where)
        plan.launch([each.data_ptr() for each in tensors], 0, now)
        where.keep_alive([each.array for each in tensors], 0)

    def _attrs(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return dict(options)

    def _names(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The states that a group with these options has."""
        return self.states

    def _state(self, parameter: Tensor, names: Iterable[str]) -> tuple[Tensor, ...]:
        held = self.state.setdefault(id(parameter), {})
        for name in names:
            if name not in held:
                held[name] = zeros(parameter.shape, dtype="f32", device=parameter.device)
        return tuple(held[name] for name in names)

    # -- copies ----------------------------------------------------------------------------------
    def __getstate__(self) -> dict[str, Any]:
        """States in the order of the parameters, whose copies have other ids; no plans."""
        known = [(self.state.get(id(p)), self.done.get(id(p))) for _, p, _ in numbered(self.groups)]
        return {**vars(self), "state": known, "done": {}, "_plans": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, state={})
        places = numbered(self.groups)
        for (_, parameter, _), (held, done) in zip(places, state["state"], strict=True):
            if held is not None:
                self.state[id(parameter)] = held
            if done is not None:
                self.done[id(parameter)] = done

    # -- resuming --------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Steps done, and each state that there is by ``group.number.name``; a copy."""
        found: dict[str, Any] = {"steps": self.steps}
        for prefix, each, _ in numbered(self.groups):
            found[f"{prefix}.steps"] = self.done.get(id(each), 0)
            held = self.state.get(id(each), {})
            found |= {f"{prefix}.{name}": value.clone() for name, value in held.items()}  # type: ignore[attr-defined]
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another optimiser of the same build was, with the states that it had.

        ValueError that names what is missing, unknown or of another shape; nothing is changed then.
        A momentum may be missing, which begins with the next step.
        """
        saved = Saved(state)
        steps, done, states = saved.number("steps"), {}, {}
        for prefix, each, group in numbered(self.groups):
            count = done[id(each)] = saved.number(f"{prefix}.steps")
            needed = self._names(group) if count > 0 else ()
            held = saved.of(prefix, each, self.states, needed)
            if held:
                states[id(each)] = held
        saved.refuse()
        self.steps, self.done, self.state = steps, done, states


def batches(parameters: Sequence[Tensor]) -> Iterable[Sequence[Tensor]]:
    """Parameters of one dtype and device, up to 32 at a time."""
    kinds: dict[Any, list[Tensor]] = defaultdict(list)
    for each in parameters:
        kinds[each.dtype.name, each.device].append(each)
    for same in kinds.values():
        yield from (same[at : at + _MOST] for at in range(0, len(same), _MOST))


class SGD(Optimizer):
    """``p -= lr * (g + weight_decay * p)``, with a momentum where it is given.

    With ``momentum`` m the step is ``v = m * v + (1 - dampening) * g``, and with ``nesterov`` it is
    ``g + m * v``. Parameters, groups and ``schedule`` as :class:`Optimizer` says.
    """

    op = "SGD"
    states = ("momentum",)

    def __init__(
        self, params: Iterable[Any], lr: float, momentum: float = 0.0, *, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False, schedule: Schedule | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
            nesterov=nesterov, schedule=schedule,
        )  # fmt: skip

    def _names(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return self.states if options["momentum"] else ()

    def _move(self, moved: Sequence[Tensor], options: Mapping[str, Any]) -> None:
        if options["momentum"]:  # one that was given later begins with the gradient as well
            fresh = [each for each in moved if "momentum" not in self.state.get(id(each), {})]
            super()._move(fresh, {**options, "step": 1})
            moved = [each for each in moved if not any(each is other for other in fresh)]
        super()._move(moved, options)

    def _attrs(self, options: Mapping[str, Any]) -> dict[str, Any]:
        attrs = dict(options)
        if not attrs["momentum"]:  # one that was set to 0 later; the step is that without
            attrs.update(nesterov=False, dampening=0.0)
        return attrs


class _Adam(Optimizer):
    states: ClassVar[tuple[str, ...]] = ("mean", "square")

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), *,
        eps: float = 1e-8, weight_decay: float = 0.0, schedule: Schedule | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                         schedule=schedule)  # fmt: skip

    def _attrs(self, options: Mapping[str, Any]) -> dict[str, Any]:
        attrs = dict(options)
        attrs["beta1"], attrs["beta2"] = attrs.pop("betas")
        return attrs


class Adam(_Adam):
    """Adam (Kingma and Ba, 2015); the decay is added to the gradient.

    ``betas`` are the shares of the running means of the gradient and of its square that are kept
    each step, ``eps`` is added to the root of the latter. Others as :class:`Optimizer` says.
    """

    op = "ADAM"


class AMSGrad(_Adam):
    """Adam by the largest second moment so far (Reddi et al., 2018). Arguments as :class:`Adam`."""

    op = "AMSGRAD"
    states = ("mean", "square", "largest")


class AdamW(_Adam):
    """Adam with decoupled decay (Loshchilov and Hutter, 2019): ``p -= lr * weight_decay * p``.

    Other arguments as :class:`Adam`.
    """

    op = "ADAMW"

    def __init__(self, params: Iterable[Any], lr: float = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), *, eps: float = 1e-8,
                 weight_decay: float = 0.01, schedule: Schedule | None = None) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps=eps, weight_decay=weight_decay, schedule=schedule)


class LAMB(_Adam):
    """Adam with a step scaled by ``|p| / |step|`` of each tensor (You et al., 2020).

    Arguments as :class:`Adam`.
    """

    op = "LAMB"

    def __init__(self, params: Iterable[Any], lr: float = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), *, eps: float = 1e-6,
                 weight_decay: float = 0.01, schedule: Schedule | None = None) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps=eps, weight_decay=weight_decay, schedule=schedule)


class Lion(_Adam):
    """Steps of ``lr`` by the sign of a momentum (Chen et al., 2023), with decoupled decay.

    ``betas`` are the shares kept: in the sign, and in the momentum. Rates are a third to a tenth of
    Adam's. Others as :class:`Optimizer` says.
    """

    op = "LION"
    states = ("mean",)
    counted = False

    def __init__(self, params: Iterable[Any], lr: float = 1e-4,
                 betas: tuple[float, float] = (0.9, 0.99), *, weight_decay: float = 0.0,
                 schedule: Schedule | None = None) -> None:  # fmt: skip
        super().__init__(params, lr, betas, weight_decay=weight_decay, schedule=schedule)

    def _attrs(self, options: Mapping[str, Any]) -> dict[str, Any]:
        attrs = super()._attrs(options)
        del attrs["eps"]
        return attrs


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of squares, plus ``eps`` (Duchi et al., 2011).

    The rate of step t is ``lr / (1 + (t - 1) * lr_decay)``. Others as :class:`Optimizer` says.
    """

    op = "ADAGRAD"
    states = ("sum",)

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, *, lr_decay: float = 0.0,
                 eps: float = 1e-10, weight_decay: float = 0.0,
                 schedule: Schedule | None = None) -> None:  # fmt: skip
        super().__init__(params, lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                         schedule=schedule)  # fmt: skip


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of squares, plus ``eps`` (Hinton, 2012).

    ``alpha`` is the share of the mean that is kept; with ``centered`` the square of the gradient's
    mean is taken away from it. ``momentum`` as in :class:`SGD`. Others as :class:`Optimizer` says.
    """

    op = "RMSPROP"
    states = ("square", "mean", "momentum")
    counted = False

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, *, eps: float = 1e-8,
        weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False,
        schedule: Schedule | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay,
                         momentum=momentum, centered=centered, schedule=schedule)  # fmt: skip

    def _names(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        if options["centered"]:
            return self.states
        return ("square", "momentum") if options["momentum"] else ("square",)
