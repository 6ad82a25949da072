"""Refusals of layers and functions: extents, shares, shapes; with the user's line."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.text import show
from ge2rt.jit.scope import where


def extent(layer: str, name: str, value: Any, least: int = 1) -> int:
    """``value`` as an integer. TypeError for no integer, ValueError for one below ``least``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidTypeError(
            f"{layer}: {name} is no integer", argument=name, got=show(value), where=where(),
            next_step="give the number of elements",
        ) from None  # fmt: skip
    if number < least:
        raise InvalidArgumentError(
            f"{layer}: {name} is too small", argument=name, got=str(number), where=where(),
            expected=f"at least {least}", next_step="give the number of elements",
        )  # fmt: skip
    return number


def divides(layer: str, part: tuple[str, int], *wholes: tuple[str, int]) -> None:
    """ValueError for a count that does not divide extents; all are (name, number)."""
    for name, number in wholes:
        if number % part[1]:
            raise InvalidArgumentError(
                f"{layer}: {part[0]} does not divide {name}", argument=part[0], where=where(),
                got=f"{part[0]}={part[1]}, {name}={number}",
                next_step=f"choose {name} as a multiple of {part[0]}",
            )  # fmt: skip


def share(layer: str, value: float) -> None:
    """ValueError for a share that is dropped outside of [0, 1)."""
    if not 0 <= value < 1:
        raise InvalidArgumentError(
            f"{layer}: the share that is dropped lies outside of [0, 1)", argument="p",
            got=str(value), where=where(), next_step="give 0 <= p < 1",
        )  # fmt: skip


def images(function: str, x: Any, channels: int | None = None) -> None:
    """ValueError for what is no ``[N, C, H, W]`` array, or has another number of channels."""
    if len(x.shape) != 4:
        raise InvalidArgumentError(
            f"{function}: not a batch of images", argument="x", got=str(tuple(x.shape)),
            expected="four axes [N, C, H, W]", where=where(), detail="shape",
            next_step="x[None] makes a batch of one [C, H, W] image",
        )  # fmt: skip
    if channels is not None and x.shape[1] != channels:
        last = x.shape[3] == channels
        raise InvalidArgumentError(
            f"{function}: another number of channels than the weight is for", argument="x",
            got=str(tuple(x.shape)), expected=f"[N, {channels}, H, W]", where=where(),
            detail="shape",
            next_step="channels come first: x.permute(0, 3, 1, 2), of an array x.transpose(...)"
            if last else "give the layer as many inputs as x has channels",
        )  # fmt: skip


def windows(function: str, x: Any, size: tuple[int, int], padding: tuple[int, int]) -> None:
    """ValueError for windows that are larger than the padded image."""
    for extent, wide, more in zip(x.shape[2:], size, padding, strict=True):
        if extent + 2 * more < wide:
            raise InvalidArgumentError(
                f"{function}: the window is larger than the image", where=where(), detail="shape",
                got=f"a window of {size} (with dilation) over {tuple(x.shape[2:])} with padding"
                f" {padding}",
                next_step="use a smaller size or more padding",
            )  # fmt: skip


def classes(function: str, logits: Any, target: Any) -> None:
    """TypeError for targets that are no integers, ValueError for axes that do not fit."""
    if np.dtype(target.dtype).kind not in "iu":
        raise InvalidTypeError(
            f"{function}: targets are numbers of classes", argument="target", where=where(),
            got=str(np.dtype(target.dtype)), expected="integers",
            next_step="for probabilities write -(target * log_softmax(logits)).sum(-1).mean()",
        )  # fmt: skip
    if len(logits.shape) != 2 or tuple(target.shape) != tuple(logits.shape[:1]):
        raise InvalidArgumentError(
            f"{function}: one target for each row of logits", argument="target", where=where(),
            got=f"logits {list(logits.shape)}, target {list(target.shape)}",
            expected="logits [N, C], target [N]", detail="shape",
            next_step="logits.reshape(-1, classes) and target.reshape(-1) make these of more axes",
        )  # fmt: skip


def warn_of_broadcast(function: str, x: Any, target: Any) -> None:
    """Warn where a loss compares each element of one array with several of the other."""
    if tuple(x.shape) != tuple(np.shape(target)):
        warnings.warn(
            f"{where()}: {function}: x {list(x.shape)} and target {list(np.shape(target))} differ"
            " in shape and are broadcast, which is seldom meant; give them one shape",
            stacklevel=2,
        )  # fmt: skip
