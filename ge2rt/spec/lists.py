"""Lists of buffers (``many: 32``): a kernel as its calls with n items have it.

All lists of a kernel have n items in one call. Item 3 of the list ``X`` is the buffer ``X3``, its
own dimension ``N?`` is ``N3``, and an iteration space over lists is one an item, ``it3`` of ``it``
(in whose views the name of a list means the item).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from ge2rt.spec.model import BufferSpec, IterateSpec, KernelSpec, ShapePattern

MOST_ITEMS = 64  # with more, the parameters of a kernel get beyond 4 KB


def with_items(kernel: KernelSpec, count: int) -> KernelSpec:
    """The kernel with its lists written out as ``count`` buffers each."""
    found = kernel.counted.get(count)
    if found is None:
        found = kernel.counted.setdefault(count, _expanded(kernel, count))
    return found


def items_in(specs: Sequence[BufferSpec], given: int) -> int | None:
    """How many items each list among ``specs`` has in ``given`` buffers; None where none fits."""
    lists = sum(1 for spec in specs if spec.many)
    count, rest = divmod(given - (len(specs) - lists), lists)
    most = max(spec.many for spec in specs)
    return count if rest == 0 and 1 <= count <= most else None


def counts_wanted(specs: Sequence[BufferSpec]) -> str:
    """``G..., P..., norm (1 to 32 each of G, P)``."""
    names = [f"{s.name}..." if s.many else s.name for s in specs]
    lists = [s for s in specs if s.many]
    each = " each" if len(lists) > 1 else ""
    of = ", ".join(s.name for s in lists)
    return f"{', '.join(names)} (1 to {max(s.many for s in lists)}{each} of {of})"


def declared(specs: Iterable[BufferSpec]) -> list[str]:
    """The names in the declaration, a list's once."""
    return list(dict.fromkeys(spec.group or spec.name for spec in specs))


def _expanded(kernel: KernelSpec, count: int) -> KernelSpec:
    lists = {b.name for b in kernel.buffers if b.many}
    own = {name for b in kernel.buffers if b.many for name in _own_dims(b.pattern or ())}
    spaces = {s.name for s in kernel.iterate if lists & set(s.over)}
    names = lists | own | spaces
    return replace(
        kernel,
        inputs=tuple(chain.from_iterable(_buffers(b, lists, count) for b in kernel.inputs)),
        outputs=tuple(chain.from_iterable(_buffers(b, lists, count) for b in kernel.outputs)),
        iterate=tuple(chain.from_iterable(_spaces(s, lists, count) for s in kernel.iterate)),
        items={f"{name}{i}": name for name in sorted(names) for i in range(count)},
    )


def _own_dims(pattern: ShapePattern) -> list[str]:
    return [p.strip("*?") for p in pattern if isinstance(p, str) and p.endswith("?")]


def _buffers(spec: BufferSpec, lists: set[str], count: int) -> Iterable[BufferSpec]:
    if not spec.many:
        yield spec
        return
    for i in range(count):
        pattern = spec.pattern and tuple(
            f"{p[:-1]}{i}" if isinstance(p, str) and p.endswith("?") else p for p in spec.pattern
        )
        overlap = tuple(f"{name}{i}" if name in lists else name for name in spec.overlap)
        yield replace(
            spec, name=f"{spec.name}{i}", pattern=pattern, overlap=overlap, many=0, group=spec.name
        )


def _spaces(space: IterateSpec, lists: set[str], count: int) -> Iterable[IterateSpec]:
    if not lists & set(space.over):
        yield space
        return
    for i in range(count):
        over = tuple(f"{name}{i}" if name in lists else name for name in space.over)
        views = {f"{n}{i}" if n in lists else n: text for n, text in space.views.items()}
        yield replace(space, name=f"{space.name}{i}", over=over, views=views)
