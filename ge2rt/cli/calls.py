"""A call written on the command line: ``f32[128,64] f32[64:1,32:64] --attr act=relu``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click
import yaml

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.spec.descs import desc_of
from ge2rt.spec.model import BufferDesc

_DESC = re.compile(r"^(?P<dtype>\w+)\[(?P<axes>[^\]]*)\](@(?P<device>[\w:]+))?$")

# at the end of the help of each command that takes a call
CALL_HELP = (
    "DESCS are the inputs in declared order, as dtype[extents]: f32[128,64]; with strides in"
    " elements f32[128:1,64:128]; - for an absent optional one. Quote them: shells expand brackets."
)

descs_argument = click.argument("descs", nargs=-1)
attrs_option = click.option(
    "--attr", "attrs", multiple=True, help="An attribute: NAME=VALUE, e.g. act=relu."
)


def parse_desc(text: str, device: str) -> BufferDesc | None:
    """``dtype[extent,extent]``; ``extent:stride`` gives a stride; ``-`` is an absent input."""
    if text == "-":
        return None
    found = _DESC.match(text)
    if found is None:
        raise InvalidArgumentError(
            "descriptor cannot be read", got=repr(text),
            expected="dtype[extent,...] such as f32[128,64] or f32[128:1,64:128]",
        )  # fmt: skip
    parts = [part for part in found["axes"].split(",") if part.strip()]
    pairs = [[_whole(n, text) for n in part.split(":")] for part in parts]
    strided = [p for p in pairs if len(p) == 2]
    if len(strided) not in (0, len(pairs)):
        raise InvalidArgumentError("give a stride for every axis or for none", got=repr(text))
    strides = [p[1] for p in pairs] if strided else None
    return desc_of(
        [p[0] for p in pairs], found["dtype"], strides=strides, device=found["device"] or device
    )


def parse_inputs(texts: Sequence[str], device: str) -> list[BufferDesc | None]:
    """The descriptors of a call's inputs."""
    return [parse_desc(text, device) for text in texts]


def parse_attrs(texts: Sequence[str]) -> dict[str, Any]:
    """``NAME=VALUE`` pairs; the value is read as YAML: numbers, true, [0, 1]..."""
    attrs = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InvalidArgumentError("attribute cannot be read", expected="NAME=VALUE", got=text)
        attrs[name] = yaml.safe_load(value)
    return attrs


def _whole(text: str, whole: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidArgumentError(
            "extent or stride is not a whole number",
            expected="a number",
            got=f"{text!r} in {whole!r}",
        ) from None
