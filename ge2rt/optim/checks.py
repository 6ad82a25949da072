"""What an optimiser is given: parameters, groups and rates; and where it may not run."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.text import show
from ge2rt.jit.scope import active, where
from ge2rt.tensors import inplace
from ge2rt.tensors.tensor import Tensor

STEPPED = ("f32", "f16", "bf16")  # what the fused kernels are declared for (``kernels.yaml``)


def grouped(optimiser: str, params: Any, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Groups of parameters with all options; TypeError or ValueError for what cannot be stepped."""
    listed = _listed(optimiser, params)
    many = bool(listed) and isinstance(listed[0], Mapping)
    groups = [
        _complete(optimiser, options, group)
        for group in (listed if many else [{"params": listed}])
    ]  # fmt: skip
    every = [each for group in groups for each in group["params"]]
    if not every:
        raise InvalidArgumentError(
            "an optimiser without parameters", where=where(),
            next_step="pass module.parameters(), a list where it is used a second time",
        )  # fmt: skip
    if not any(each.requires_grad for each in every):
        raise InvalidArgumentError(
            f"{optimiser}: no parameter requires a gradient", where=where(),
            next_step="p.requires_grad_() of those that are to be trained",
        )  # fmt: skip
    _refuse_twice(optimiser, every)
    for group in groups:
        _refuse_options(optimiser, options, group)
    return groups


def added(
    optimiser: str, group: Any, options: Mapping[str, Any], others: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """One more group beside ``others``, with all options; refused as :func:`grouped` refuses."""
    if not isinstance(group, Mapping) or "params" not in group:
        raise InvalidTypeError(
            f"{optimiser}: a group is a dict with its parameters", argument="group", where=where(),
            got=show(sorted(group)) if isinstance(group, Mapping) else type(group).__name__,
            next_step='pass {"params": module.parameters(), "lr": 0.1}, say',
        )  # fmt: skip
    made = _complete(optimiser, options, group)
    _refuse_twice(optimiser, [p for each in (*others, made) for p in each["params"]])
    _refuse_options(optimiser, options, made)
    return made


def _complete(
    optimiser: str, options: Mapping[str, Any], group: Mapping[str, Any]
) -> dict[str, Any]:
    given = list(_parameters(optimiser, group.get("params", ())))
    return {**options, **group, "params": given}


def _refuse_twice(optimiser: str, every: Sequence[Tensor]) -> None:
    if len({id(each) for each in every}) < len(every):
        raise InvalidArgumentError(
            f"{optimiser}: a parameter stands twice, and would be moved twice", where=where(),
            next_step="list each once, in one group",
        )  # fmt: skip


def refuse_incomplete(
    optimiser: str, number: int, group: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """ValueError for a group that lacks options: one that was appended, or taken apart."""
    missing = [name for name in ("params", *options) if name not in group]
    if missing:
        raise InvalidArgumentError(
            f"{optimiser}: group {number} lacks options", got=", ".join(group), where=where(),
            expected=", ".join(("params", *options)),
            next_step="add a group by optimiser.add_param_group({...}), which fills in the rest",
        )  # fmt: skip


def _listed(optimiser: str, params: Any) -> list[Any]:
    if isinstance(params, Tensor) or not isinstance(params, Iterable) or hasattr(params, "forward"):
        raise InvalidTypeError(
            f"{optimiser}: parameters are given as a list", argument="params", where=where(),
            got=type(params).__name__,
            next_step="pass model.parameters(), or [x] for one tensor",
        )  # fmt: skip
    return list(params)


def _parameters(optimiser: str, params: Any) -> Iterator[Tensor]:
    for place, each in enumerate(_listed(optimiser, params)):
        if not isinstance(each, Tensor):
            raise InvalidTypeError(
                f"{optimiser}: parameter {place} is no tensor", argument="params", where=where(),
                got=type(each).__name__,
                next_step="pass model.parameters(); nn.Parameter(array) makes one of an array",
            )  # fmt: skip
        inplace.refuse_read_only(each, f"{optimiser}: parameter {place}")
        if not each.dtype.is_float:
            raise InvalidTypeError(
                f"{optimiser}: parameter {place} holds no floats", argument="params", where=where(),
                got=f"{each.dtype}{list(each.shape)}",
                next_step="leave it out; a module keeps integers as a tensor that is no Parameter",
            )  # fmt: skip
        if each.dtype.name not in STEPPED:
            raise InvalidTypeError(
                f"{optimiser}: parameter {place} is of a dtype that no optimiser steps",
                argument="params", expected=", ".join(STEPPED), where=where(), detail="dtype",
                got=f"{each.dtype}{list(each.shape)}",
                next_step="train in f32: module.to(dtype='f32'), or x.astype('f32')",
            )  # fmt: skip
        if type(each) is Tensor and not each.requires_grad:  # a module's own may be frozen
            raise InvalidArgumentError(
                f"{optimiser}: parameter {place} does not require a gradient", argument="params",
                got=f"{each.dtype}{list(each.shape)}", where=where(),
                next_step="x.requires_grad_(), or leave it out of the list",
            )  # fmt: skip
        if not each.is_leaf:
            raise InvalidArgumentError(
                f"{optimiser}: parameter {place} was computed from others", argument="params",
                got=f"history={each.history[0].name!r}", where=where(),
                next_step="pass the tensors that it was computed from",
            )  # fmt: skip
        yield each


_NOT_NEGATIVE = ("lr", "eps", "weight_decay", "momentum", "lr_decay", "dampening")


def _refuse_options(optimiser: str, options: Mapping[str, Any], group: Mapping[str, Any]) -> None:
    unknown = sorted(group.keys() - options.keys() - {"params"})
    if unknown:
        raise InvalidArgumentError(
            f"{optimiser}: a group has an option that this optimiser does not have",
            got=unknown[0], expected=", ".join(("params", *options)), where=where(),
            next_step="leave it out",
        )  # fmt: skip
    bounds = {name: (group[name],) for name in _NOT_NEGATIVE if name in group}
    for name, values in bounds.items():
        _refuse_outside(optimiser, name, values, math.inf)
    if "betas" in group:
        _refuse_outside(optimiser, "betas", group["betas"], 1, count=2)
    if "alpha" in group:
        _refuse_outside(optimiser, "alpha", (group["alpha"],), 1)
    if group.get("nesterov") and (not group["momentum"] or group["dampening"]):
        raise InvalidArgumentError(
            f"{optimiser}: nesterov needs a momentum and no dampening", argument="nesterov",
            got=f"momentum={show(group['momentum'])}, dampening={show(group['dampening'])}",
            where=where(), next_step="give momentum=0.9, say, or leave nesterov out",
        )  # fmt: skip


def _refuse_outside(optimiser: str, name: str, values: Any, most: float, count: int = 1) -> None:
    plain = isinstance(values, (tuple, list)) and all(
        isinstance(v, numbers.Real) and not isinstance(v, bool) for v in values
    )
    if not (plain and len(values) == count and all(0 <= v < most for v in values)):
        raise InvalidArgumentError(
            f"{optimiser}: {name} is out of range", argument=name, where=where(),
            got=", ".join(show(v) for v in values) if plain else show(values),
            expected=("" if count == 1 else f"{count} numbers, ")
            + f"0 <= {name}" + ("" if most == math.inf else f" < {most}"),
            next_step="pass a number; rates that change with the steps are a schedule"
            if name == "lr" else "pass a number in these bounds",
        )  # fmt: skip


def refuse_gradients(optimiser: str, group: int, parameters: Iterable[Tensor]) -> None:
    """TypeError for a gradient of another dtype than its parameter."""
    for place, each in enumerate(parameters):
        if each.grad is not None and each.grad.dtype != each.dtype:
            raise InvalidTypeError(
                f"{optimiser}: parameter {place} of group {group} has a gradient of another dtype",
                expected=str(each.dtype), got=str(each.grad.dtype), where=where(), detail="dtype",
                next_step=f"convert it: p.grad = p.grad.astype({each.dtype.name!r})",
            )  # fmt: skip


def refuse_traced(what: str) -> None:
    """InvalidTypeError inside a trace: nothing would happen when the compiled code runs."""
    if active() is not None:
        raise InvalidTypeError(
            f"{what} inside a jitted function happens once, while the function is traced, and not"
            " at its calls", where=where(),
            next_step="return the gradients and step outside, or return new weights: w - lr * g"
            " (docs/training.md shows both)",
        )  # fmt: skip
