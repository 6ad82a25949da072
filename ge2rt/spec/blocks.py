"""C parameter blocks of legacy clients: layouts as tables, and the calls they stand for.

The block is copied at once: its owner may free it as soon as the call returns.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import InvalidArgumentError, UnsupportedError
from ge2rt.base.shapes import canonical_strides
from ge2rt.spec.model import BufferDesc, KernelSpec

# name -> fields in order; a field is a C int unless it ends in ":f" (a C float)
_FORWARD = (
    "M N K lda ldb ldc ldd alpha:f beta:f use_C has_bias bias_kind act_kind leaky_slope:f"
    " save_preact ldZ"
)
_BACKWARD = (
    "M N K lda ldb ldc ldgY ldZ ldgA ldgB ldgC alpha:f beta:f bias_kind act_kind leaky_slope:f"
)
BLOCKS: Mapping[str, str] = {
    "gemm_basic": "M N K has_bias act",
    "gemm_forward_ex": _FORWARD,
    "gemm_backward_ex": _BACKWARD,
}
BIAS_KINDS = ("scalar", "per_m", "per_n")
ACT_KINDS = ("none", "relu", "leaky_relu", "gelu", "sigmoid", "tanh")

Block = Mapping[str, Any]


class BlockCall(NamedTuple):
    """A call in the common form: descriptors, attributes and pointers, inputs then outputs."""

    descs: tuple[BufferDesc | None, ...]
    attrs: dict[str, Any]
    pointers: list[int]


@dataclass(frozen=True)
class _Slot:
    """One buffer of a block's call: when it is there, its shape and its leading dimension."""

    name: str
    there: Callable[[Block], bool]
    rows: str  # field names, or "" for a vector
    columns: str
    lead: str = ""  # field with the leading dimension


def read_block(name: str, address: int) -> dict[str, Any]:
    """The fields of the block ``name`` at a host address, with the layout's defaults filled in."""
    fields = [field.partition(":") for field in BLOCKS[name].split()]
    layout = struct.Struct("=" + "".join("f" if kind else "i" for _, _, kind in fields))
    if isinstance(address, bool) or not hasattr(address, "__index__"):
        raise _bad("an address", repr(address), "parameter block")
    place = operator.index(address)
    if place <= 0 or place % 4:
        raise _bad("a host address, a multiple of 4", hex(place), "parameter block")
    values = layout.unpack(ctypes.string_at(place, layout.size))
    block = dict(zip((f for f, _, _ in fields), values, strict=True))
    if name == "gemm_forward_ex" and block["alpha"] == 0:
        block["alpha"] = 1.0  # a zeroed struct
    for extent in ("M", "N", "K"):
        if block[extent] < 0:
            raise _bad("at least 0", str(block[extent]), extent)
    return block


def block_to_call(kernel: KernelSpec, buffers: Sequence[Any], device: str = "cpu") -> BlockCall:
    """The call of ``buffers``, whose last entry is the address of ``kernel.param_block``.

    The kernel's own dtypes hold (the first of a type variable). Raises
    :class:`InvalidArgumentError`, or :class:`UnsupportedError` for a feature the kernel has not.
    """
    name = kernel.param_block
    if not buffers:
        raise _bad(f"pointers and the address of a {name} block", "nothing", "buffers")
    block = read_block(name, buffers[-1])
    pointers = [_pointer(value) for value in buffers[:-1]]
    slots = _slots(name, block, len(pointers))
    given = dict(zip((s.name for s in slots), pointers, strict=True))
    used = {s.name: s for s in slots if s.there(block) or (s.there is _if_given and given[s.name])}
    descs = [_desc(kernel, i, used, block, device) for i in range(len(kernel.buffers))]
    known = {b.name for b in kernel.buffers}
    for extra in used.keys() - known:
        raise UnsupportedError(
            f"the kernel has no buffer {extra}", kernel=kernel.name, argument="parameter block"
        )
    ordered = [given[b.name] for b, d in zip(kernel.buffers, descs, strict=True) if d is not None]
    return BlockCall(tuple(descs), _attributes(kernel, block), ordered)


def _slots(name: str, block: Block, count: int) -> tuple[_Slot, ...]:
    """The slots that ``count`` pointers fill: all of them, or only those that the block names."""
    every = _SLOTS[name]
    named = tuple(s for s in every if s.there(block))
    if count == len(every):
        return every
    if count != len(named) or name == "gemm_backward_ex":
        wanted = every if name == "gemm_backward_ex" else named
        expected = f"{len(wanted)}: {', '.join(s.name for s in wanted)}, and the block"
        raise _bad(expected, f"{count} and the block", "buffers")
    return named


def _pointer(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _bad("device pointers as ints", type(value).__name__, "buffers")
    return operator.index(value)


def _desc(
    kernel: KernelSpec, index: int, used: Mapping[str, _Slot], block: Block, device: str
) -> BufferDesc | None:
    spec = kernel.buffers[index]
    slot = used.get(spec.name)
    if slot is None:
        return None
    dtype = DTYPES[kernel.types.get(spec.dtype, (spec.dtype,))[0]]
    if not slot.rows:
        extent = _bias_extent(block)
        shape: tuple[int, ...] = (extent,)
        strides: tuple[int, ...] = (1,)
    else:
        shape = (block[slot.rows], block[slot.columns])
        strides = (_lead(slot, block), 1)
    return BufferDesc(shape, dtype, canonical_strides(shape, strides), device=device)


def _lead(slot: _Slot, block: Block) -> int:
    width = int(block[slot.columns])
    lead = int(block.get(slot.lead, 0))
    if slot.lead == "ldZ" and lead <= 0:
        lead = int(block.get("ldd", 0))
    if lead <= 0:
        return width
    if lead < width:
        raise _bad(f"at least {width}", str(lead), slot.lead)
    return lead


def _bias_extent(block: Block) -> int:
    kind = block.get("bias_kind", 2)
    if kind not in (0, 1, 2):
        raise _bad("0 scalar, 1 per M, 2 per N", str(kind), "bias_kind")
    return (1, int(block["M"]), int(block["N"]))[kind]


def _attributes(kernel: KernelSpec, block: Block) -> dict[str, Any]:
    """Attributes of the kernel's that the block sets; UnsupportedError for one it needs."""
    field = "act" if "act" in block else "act_kind"
    number = block[field]
    limit = 2 if field == "act" else len(ACT_KINDS)
    if not 0 <= number < limit:
        names = ", ".join(f"{i} {n}" for i, n in enumerate(ACT_KINDS[:limit]))
        raise _bad(names, str(number), field)
    wanted: dict[str, tuple[Any, Any]] = {"act": (ACT_KINDS[number], "none")}
    if "bias_kind" in block:
        wanted["bias_kind"] = (BIAS_KINDS[block["bias_kind"]], "per_n")
        wanted["leaky_slope"] = (block["leaky_slope"], block["leaky_slope"])
        wanted["alpha"], wanted["beta"] = (block["alpha"], 1.0), (block["beta"], block["beta"])
    for name, (value, neutral) in wanted.items():
        if name not in kernel.attrs and value != neutral:
            raise UnsupportedError(
                f"the kernel has no attribute {name}", kernel=kernel.name,
                argument="parameter block", got=f"{name} = {value}",
            )  # fmt: skip
    return {name: value for name, (value, _) in wanted.items() if name in kernel.attrs}


def _bad(expected: str, got: str, argument: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the parameter block cannot be used", argument=argument, expected=expected, got=got
    )


def _always(_: Block) -> bool:
    return True


def _flag(name: str) -> Callable[[Block], bool]:
    return lambda block: bool(block[name])


def _if_given(_: Block) -> bool:
    return False  # no field speaks of it: a pointer other than 0 does


# Buffers in the order of the call. In the backward every slot is there, absent ones as 0.
_SLOTS: Mapping[str, tuple[_Slot, ...]] = {
    "gemm_basic": (
        _Slot("A", _always, "M", "K"),
        _Slot("B", _always, "K", "N"),
        _Slot("bias", _flag("has_bias"), "", ""),
        _Slot("D", _always, "M", "N"),
    ),
    "gemm_forward_ex": (
        _Slot("A", _always, "M", "K", "lda"),
        _Slot("B", _always, "K", "N", "ldb"),
        _Slot("C", _flag("use_C"), "M", "N", "ldc"),
        _Slot("D", _always, "M", "N", "ldd"),
        _Slot("bias", _flag("has_bias"), "", ""),
        _Slot("Z", _flag("save_preact"), "M", "N", "ldZ"),
    ),
    "gemm_backward_ex": (
        _Slot("A", _always, "M", "K", "lda"),
        _Slot("B", _always, "K", "N", "ldb"),
        _Slot("C", _if_given, "M", "N", "ldc"),
        _Slot("gY", _always, "M", "N", "ldgY"),
        _Slot("Z", _if_given, "M", "N", "ldZ"),
        _Slot("gA", _if_given, "M", "K", "ldgA"),
        _Slot("gB", _if_given, "K", "N", "ldgB"),
        _Slot("gC", _if_given, "M", "N", "ldgC"),
        _Slot("gBias", _if_given, "", ""),
    ),
}
