"""Which kernel runs an op: the module's capability scores plus ge_v2's rule scores.

+30 where the kernel is for tensor cores and the device has them, +20 where M, N and K reach the
kernel's ``min_mnk``. A module without ``query_capability`` leaves it to the rules and the declared
scores of our registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ge2rt.base.errors import UnsupportedError
from ge2rt.device.api import DeviceProps
from ge2rt.graph.model import Op
from ge2rt.graph.native import Native
from ge2rt.run.select import choose, rule_parts
from ge2rt.spec.descs import parse_descs
from ge2rt.spec.registry import default_registry


@dataclass(frozen=True)
class Rival:
    """A kernel that could run an op, and the parts of its score."""

    kernel: str
    parts: Mapping[str, int]

    @property
    def score(self) -> int:
        """The sum of the parts."""
        return sum(self.parts.values())

    def __str__(self) -> str:
        listed = " + ".join(f"{name} {value}" for name, value in self.parts.items())
        return f"{self.kernel} {self.score} = {listed}"


@dataclass(frozen=True)
class Selection:
    """The kernel of an op, and all rivals, best first."""

    op: str
    rivals: tuple[Rival, ...]

    @property
    def kernel(self) -> str:
        """The best rival's name."""
        return self.rivals[0].kernel

    def __str__(self) -> str:
        return f"{self.op}: {'; '.join(map(str, self.rivals))}"


def select(
    op: Op, in_descs: Mapping[str, Any], out_descs: Mapping[str, Any], native: Native,
    props: DeviceProps,
) -> Selection:  # fmt: skip
    """The best kernel for an op; UnsupportedError with every reason where none can run it."""
    scores = _scores(op, in_descs, out_descs, native, props)
    rivals = []
    for name, score in scores.items():
        spec = default_registry().find(name)
        parts = rule_parts(spec, props, _mnk(op)) if spec is not None else {}
        rivals.append(Rival(name, {**parts, "declared": score}))
    if not rivals:
        raise _none(op, in_descs, out_descs, props)
    rivals.sort(key=lambda rival: -rival.score)
    return Selection(op.op_type, tuple(rivals))


def _scores(
    op: Op, in_descs: Mapping[str, Any], out_descs: Mapping[str, Any], native: Native,
    props: DeviceProps,
) -> dict[str, int]:  # fmt: skip
    query = getattr(native, "query_capability", None)
    if query is None:
        kernels = default_registry().kernels_of(op.op_type)
        return {kernel.name: kernel.score for kernel in kernels}
    prefix = f"{op.op_type}__"  # a raw table's keys are taken too
    return {
        name.removeprefix(prefix): int(s)
        for name, s in query(op.op_type, in_descs, out_descs).items()
    }


def _mnk(op: Op) -> dict[str, int]:
    """M, N and K of a product: from its attributes, else from its operands."""
    given = op.attrs.get("mnk")
    if given is None and op.op_type == "GEMM_BIAS_ACT" and op.inputs[0] is not None:
        given = (*op.outputs[0].shape, op.inputs[0].shape[-1])
    return dict(zip("MNK", given, strict=True)) if given is not None and len(given) == 3 else {}


def _none(
    op: Op, in_descs: Mapping[str, Any], out_descs: Mapping[str, Any], props: DeviceProps
) -> UnsupportedError:
    kernels = default_registry().kernels_of(op.op_type)
    reasons = "the module knows none of this type"
    if kernels:
        inputs, outputs = parse_descs(in_descs), parse_descs(out_descs)
        choice = choose(kernels, (*inputs.buffers, *outputs.buffers), inputs.attrs, props)
        reasons = "; ".join(str(candidate) for candidate in choice.candidates)
    return UnsupportedError(
        f"no kernel can run {op}: {reasons}",
        next_step="see `ge2rt kernels`; another op type, dtype or shape may work",
    )
