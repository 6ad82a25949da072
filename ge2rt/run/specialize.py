"""When a kernel stops being compiled for each shape: static up to a budget, then dynamic.

A *family* is everything of a call but its extents and strides (kernel, dtypes, ranks, compiled
attributes, device). Each family may have ``GE2RT_STATIC_BUDGET`` static specialisations; the next
different shape gets a kernel that takes extents and strides as arguments and serves all further
ones.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from ge2rt.base import events, switches
from ge2rt.base.locks import ForkLock
from ge2rt.spec.model import Bound


@dataclass
class Family:
    """The static specialisations of one family and how often it went dynamic."""

    static: set[Hashable] = field(default_factory=set)
    dynamic: set[Hashable] = field(default_factory=set)

    @property
    def reason(self) -> str:
        """Why the next new shape is compiled the way it is."""
        budget = switches.get("GE2RT_STATIC_BUDGET")
        if len(self.static) < budget:
            return f"static: {len(self.static)} of {budget} shapes seen"
        return f"dynamic: the budget of {budget} static shapes is used up"


_lock = ForkLock()
_families: dict[Hashable, Family] = {}


def is_static(bound: Bound, device: str, *, dynamic: bool = False) -> bool:
    """Whether this call is compiled for its exact shapes; remembers it.

    ``dynamic`` asks for the shape-generic kernel at once; one that is declared static stays so.
    """
    mode = bound.kernel.dims
    if mode != "auto" or dynamic:
        return mode == "static"
    specs = bound.kernel.attrs
    family_key = (
        bound.kernel.name, device,
        tuple((d.dtype.name, len(d.shape)) if d else None for d in bound.descs),
        tuple(sorted((k, repr(v)) for k, v in bound.attrs.items() if not specs[k].runtime)),
    )  # fmt: skip
    sized = tuple((k, bound.attrs[k]) for k in sorted(specs) if specs[k].sized)
    shape_key = (sized, *((d.shape, d.strides) if d else None for d in bound.descs))
    with _lock:
        family = _families.setdefault(family_key, Family())
        if shape_key in family.static:
            return True
        if len(family.static) < switches.get("GE2RT_STATIC_BUDGET"):
            family.static.add(shape_key)
            return True
        fresh = shape_key not in family.dynamic
        family.dynamic.add(shape_key)
    if fresh:
        events.emit("specialize.dynamic", kernel=bound.kernel.name)
    return False


def families() -> dict[str, Family]:
    """What was specialised so far, by a readable name."""
    with _lock:
        return {str(key): family for key, family in _families.items()}


def clear() -> None:
    """Forget all families."""
    with _lock:
        _families.clear()
