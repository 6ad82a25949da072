"""Loads and stores of one node that make one wide access together.

``ld [%rd]``, ``ld [%rd+4]``, ``ld [%rd+8]``, ``ld [%rd+12]`` with lanes 16 bytes apart are one
contiguous stretch of memory: loaded at once and taken apart by shuffles.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ge2rt.ptx.ast import Address, Instr, Reg
from ge2rt.ptx.emit import BITS
from ge2rt.ptx.lanes import Lanes
from ge2rt.ptx.lower.shape import shape_of

_WRITES = frozenset(
    ["st", "atom", "red", "cp", "call", "membar", "fence", "stmatrix", "bar", "barrier"]
)
_ACCESSES = (_WRITES - {"st"}) | {"ld", "ldu", "ldmatrix", "tex"}
_LIMIT = 8  # elements a lane
_APART = frozenset(("volatile", "relaxed", "acquire", "release", "v2", "v4", "v8", "param"))
_Key = tuple[str, str, int, int]


def groups(
    instrs: Sequence[Instr], lanes: Mapping[str, Lanes | None], size_of: Mapping[str, str]
) -> dict[int, tuple[int, ...]]:
    """For each member its whole group, as positions in address order.

    A group of loads has no write to memory between its members, one of stores
    no other access at all.
    """
    found: dict[_Key, list[tuple[int, int]]] = {}
    strides: dict[_Key, tuple[int, int]] = {}
    versions: dict[str, int] = {}
    epoch, run = 0, 0
    last: _Key | None = None
    for at, instr in enumerate(instrs):
        key = None
        if instr.op == "ld":
            key = _key(instr, versions, epoch)
        elif instr.op == "st":
            key = _key(instr, versions, run)
            if key is None or key != last:
                run += 1
                key = _key(instr, versions, run)
            last = key
        if instr.op in _ACCESSES:
            run += 1
            last = None
        if instr.op in _WRITES:
            epoch += 1
        if key is not None:
            stride = _stride(lanes.get(key[1]), BITS[size_of[instr.types[-1]]] // 8)
            if stride is not None:
                strides[key] = stride
                address = instr.operands[1 if instr.op == "ld" else 0]
                assert isinstance(address, Address)
                found.setdefault(key, []).append((address.offset, at))
        for name in shape_of(instr).written:
            versions[name] = versions.get(name, 0) + 1
    result: dict[int, tuple[int, ...]] = {}
    for key, members in found.items():
        for chunk in _chunks(members, *strides[key]):
            result.update(dict.fromkeys(chunk, chunk))
    return result


def few(width: int) -> int:
    """Up to how many distinct addresses of a warp a broadcast each is best."""
    return max(width // 8, 2)


def _key(instr: Instr, versions: Mapping[str, int], epoch: int) -> _Key | None:
    if instr.guard is not None or not instr.types:
        return None
    if not _APART.isdisjoint(instr.mods):
        return None
    address = instr.operands[1 if instr.op == "ld" else 0]
    if not isinstance(address, Address) or not isinstance(address.base, Reg):
        return None
    return instr.form, address.base.name, versions.get(address.base.name, 0), epoch


def _stride(lanes: Lanes | None, size: int) -> tuple[int, int] | None:
    """(element size, elements between neighbouring lanes), where a group could fill the gaps."""
    return None if lanes is None or lanes.uniform else _gap(lanes.offsets, size)


@lru_cache(maxsize=1024)
def _gap(offsets: tuple[int, ...], size: int) -> tuple[int, int] | None:
    starts = sorted(set(offsets))
    if len(starts) <= few(len(offsets)):
        return None
    step = min(b - a for a, b in itertools.pairwise(starts))
    count = step // size
    if step % size or not 2 <= count <= _LIMIT or count & (count - 1):
        return None
    return size, count


def _chunks(members: list[tuple[int, int]], size: int, count: int) -> list[tuple[int, ...]]:
    ordered = sorted(members)
    chunks: list[tuple[int, ...]] = []
    at = 0
    while at + count <= len(ordered):
        part = ordered[at : at + count]
        if all(part[k][0] == part[0][0] + k * size for k in range(count)):
            chunks.append(tuple(index for _, index in part))
            at += count
        else:
            at += 1
    return chunks
