"""Selection among the kernels of an op type. Pure: describe, list, compare, return the reasons.

The score of a candidate is the one it declares plus ge_v2's rule score: +30 when it is flagged
``tensor_core`` and the device has tensor cores, +20 when it declares ``min_mnk`` and M, N, K reach
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError, Status, UnsupportedError
from ge2rt.device.api import DeviceProps
from ge2rt.spec.attrs import bind_attr, is_about_attr, unknown_attr
from ge2rt.spec.match import infer_outputs, match
from ge2rt.spec.model import AttrSpec, Bound, BufferDesc, KernelSpec, Refusal

if TYPE_CHECKING:
    from ge2rt.run.convert import Conversion

TENSOR_CORE_BONUS = 30
MIN_MNK_BONUS = 20
_MOST_TRIED = 256  # values of required attributes, in a query that gives none


@dataclass(frozen=True)
class Candidate:
    """One kernel of the op type: its score parts, or the reason it was turned down.

    ``conversions`` are casts and copies behind which alone it runs; ``bound`` is what it then sees.
    """

    kernel: KernelSpec
    parts: Mapping[str, int]
    bound: Bound | None
    refusal: Refusal | None = None
    conversions: tuple[Conversion, ...] = ()

    @property
    def score(self) -> int:
        """Declared score plus rule scores."""
        return sum(self.parts.values())

    def __str__(self) -> str:
        if self.refusal is not None:
            return f"{self.kernel.name}: turned down, {explain(self.refusal)}"
        listed = " + ".join(f"{name} {value}" for name, value in self.parts.items())
        return f"{self.kernel.name}: {self.score} = {listed}"


@dataclass(frozen=True)
class Choice:
    """The chosen kernel and everything it was compared with, best first, refused ones last."""

    op: str
    candidates: tuple[Candidate, ...]
    excluded: tuple[str, ...] = ()

    @property
    def chosen(self) -> Candidate | None:
        """The best candidate that can run, or None."""
        first = self.candidates[0] if self.candidates else None
        return first if first is not None and first.bound is not None else None

    def __str__(self) -> str:
        rows = [f"{self.op}:"]
        for candidate in self.candidates:
            mark = "->" if candidate is self.chosen else "  "
            rows.append(f" {mark} {candidate}")
        rows += [f"    {name}: excluded by the call" for name in self.excluded]
        return "\n".join(rows)


def explain(refusal: Refusal) -> str:
    """One line: argument, message, expected, got."""
    text = f"{refusal.argument}: {refusal.message}" if refusal.argument else refusal.message
    if refusal.expected:
        text += f"; expected {refusal.expected}"
    return text + (f", got {refusal.got}" if refusal.got else "")


def refused(refusal: Refusal, kernel: str) -> InvalidArgumentError | UnsupportedError:
    """The exception that says why ``kernel`` cannot run this call."""
    family: type[InvalidArgumentError] | type[UnsupportedError] = InvalidArgumentError
    if refusal.code == Status.NOT_IMPLEMENTED:
        family = UnsupportedError
    elif refusal.detail == "dtype":
        family = InvalidTypeError
    return family(
        refusal.message, kernel=kernel, argument=refusal.argument, expected=refusal.expected,
        got=refusal.got, detail=refusal.detail, next_step=refusal.next_step,
    )  # fmt: skip


def rule_parts(
    kernel: KernelSpec, props: DeviceProps, names: Mapping[str, Any] | None
) -> dict[str, int]:
    """The named parts of a kernel's score on a device; ``names`` may have M, N and K."""
    parts = {"declared": kernel.score}
    if kernel.flags.get("tensor_core") and props.tensor_cores:
        parts["tensor_core"] = TENSOR_CORE_BONUS
    if (
        kernel.min_mnk
        and names
        and all(
            isinstance(names.get(axis), int) and names[axis] >= least
            for axis, least in zip("MNK", kernel.min_mnk, strict=True)
        )
    ):
        parts["min_mnk"] = MIN_MNK_BONUS
    return parts


def choose(
    kernels: Sequence[KernelSpec],
    descs: Sequence[BufferDesc | None],
    attrs: Mapping[str, Any],
    props: DeviceProps,
    *,
    exclude: Collection[str] = (),
    infer: bool = False,
    given: Sequence[BufferDesc | None] = (),
) -> Choice:
    """Rank the kernels (of one op type) for a call. Ties go to the earlier declared one.

    With ``infer``, ``descs`` are the inputs only and each kernel's outputs follow from them and
    from ``given`` (see :func:`complete`).
    """
    ranked = []
    mistake = _mistake(kernels, attrs)
    for kernel in kernels:
        if kernel.name in exclude:
            continue
        if mistake is not None:
            ranked.append(Candidate(kernel, {"declared": kernel.score}, None, mistake))
            continue
        full = complete(kernel, descs, attrs, given) if infer else tuple(descs)
        result = full if isinstance(full, Refusal) else match(kernel, full, attrs, props)
        if isinstance(result, Refusal):
            ranked.append(Candidate(kernel, {"declared": kernel.score}, None, result))
        else:
            ranked.append(Candidate(kernel, rule_parts(kernel, props, result.names), result))
    ranked.sort(key=lambda c: (c.bound is None, -c.score))
    op = kernels[0].op if kernels else ""
    return Choice(op, tuple(ranked), tuple(k.name for k in kernels if k.name in exclude))


def _mistake(kernels: Sequence[KernelSpec], attrs: Mapping[str, Any]) -> Refusal | None:
    """Why every kernel refuses one of the attributes, whatever the operands; None if none does."""
    for name, value in attrs.items():
        found = [
            bind_attr(kernel.attrs[name], value) if name in kernel.attrs else None
            for kernel in kernels
        ]
        refusals = [r for r in found if isinstance(r, Refusal)]
        if refusals and len(refusals) == len(found):
            expected = " or ".join(dict.fromkeys(r.expected for r in refusals))
            return replace(refusals[0], expected=expected, detail="invalid")
    return None


def require(choice: Choice) -> Candidate:
    """The chosen candidate; an error that says why where there is none.

    Where no kernel could run such a call (-1) it is told by the one that fits best, else (-3) the
    error lists every reason.
    """
    if choice.chosen is not None:
        return choice.chosen
    wrong = _wrong_call([(c, c.refusal) for c in choice.candidates if c.refusal is not None])
    if wrong is not None:
        candidate, refusal = wrong
        raise refused(refusal, candidate.kernel.name)
    reasons = "; ".join(str(c) for c in choice.candidates) or "no kernel is left to choose from"
    raise UnsupportedError(
        f"no kernel of op type {choice.op} can run this call: {reasons}",
        next_step="cast or lay out the operands as one of these kernels wants them",
    )


_Refused = tuple[Candidate, Refusal]


def _wrong_call(refused: Sequence[_Refused]) -> _Refused | None:
    """The refusal to tell where the call itself is wrong, whatever the kernel."""
    if len(refused) == 1:
        return refused[0]
    if any(refusal.detail == "invalid" for _, refusal in refused):
        # one knows that nobody could; those that got as far as the shapes may say it better
        return next((c for c in refused if c[1].detail in ("shape", "invalid")), None)
    reasons = {(refusal.argument, refusal.message) for _, refusal in refused}
    if len(reasons) == 1 and is_about_attr(refused[0][1]):
        return max(refused, key=lambda c: len(c[1].expected))  # who takes the most
    return None


def complete(
    kernel: KernelSpec,
    inputs: Sequence[BufferDesc | None],
    attrs: Mapping[str, Any],
    given: Sequence[BufferDesc | None] = (),
    optional: Sequence[str] = (),
) -> tuple[BufferDesc | None, ...] | Refusal:
    """Input descs (optional ones filled in as None) plus the outputs that follow from them.

    ``given`` are the outputs that the caller has, for kernels that read their outputs; ``optional``
    names optional outputs that are wanted.
    """  # fmt: skip
    missing = 0 if kernel.many else len(kernel.inputs) - len(inputs)
    padded = (*inputs, *(None,) * max(missing, 0))
    try:
        if kernel.reads_outputs and given:
            return (*padded, *infer_outputs(kernel, padded, attrs, given=given))
        return (*padded, *infer_outputs(kernel, padded, attrs, optional=optional))
    except InvalidArgumentError as fault:
        record = fault.record
        named = next((name for name in attrs if name not in kernel.attrs), None)
        if record.detail == "missing_input" and named is not None:
            return unknown_attr(kernel, str(named))  # that is where the input went
        return Refusal(
            record.message, argument=record.argument, expected=record.expected, got=record.got,
            detail=record.detail, next_step=record.next_step,
        )  # fmt: skip


def missing_attrs(
    kernel: KernelSpec, attrs: Mapping[str, Any], descs: Sequence[BufferDesc | None]
) -> Iterator[dict[str, Any]]:
    """Values to try for the required attributes that a call does not give, all combinations."""
    named = [a for a in kernel.attrs.values() if a.required and a.name not in attrs]
    tried = [_values_to_try(a, [d for d in descs if d is not None]) for a in named]
    for values in islice(product(*tried), _MOST_TRIED):
        yield dict(zip((a.name for a in named), values, strict=True))


def _values_to_try(attr: AttrSpec, descs: Sequence[BufferDesc]) -> list[Any]:
    if attr.choices:
        return list(attr.choices)
    if attr.type == "dtype":
        return [*dict.fromkeys(d.dtype.name for d in reversed(descs)), *DTYPES]
    if attr.type != "ints":
        return [max(1, attr.minimum or 0)]
    ranks = dict.fromkeys(len(d.shape) for d in descs)
    lists = [(value,) * rank for rank in ranks for value in (0, 1)]
    first, last = (descs[0].shape, descs[-1].shape) if descs else ((), ())
    grown = tuple(b - a for a, b in zip(first, last, strict=False))
    return list(dict.fromkeys([last, first, grown, *lists, (1, 1), (2, 2)]))


def capable(
    kernel: KernelSpec,
    inputs: Sequence[BufferDesc | None],
    outputs: Sequence[BufferDesc | None] | None,
    attrs: Mapping[str, Any],
    props: DeviceProps,
) -> bool:
    """Whether the kernel can run a call; outputs of None follow from the inputs."""
    # of outputs that are all optional a call wants one at least
    optional = [b.name for b in kernel.outputs[:1] if kernel.wants_any]
    full = (
        (*inputs, *outputs) if outputs is not None
        else complete(kernel, inputs, attrs, optional=optional)
    )  # fmt: skip
    return not isinstance(full, Refusal) and isinstance(match(kernel, full, attrs, props), Bound)
