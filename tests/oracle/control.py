"""Branches, calls, barriers and warp collectives: whatever decides when lanes go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle import tensor
from oracle.integers import reject, types
from oracle.loads import frame_param
from oracle.machine import AT_BARRIER, AT_COLLECTIVE, DONE, DTYPES, RUN, Frame, Machine
from oracle.memory import CODE
from oracle.syntax import Instr, Label, Operand, Pair, Sink, Sym, Vec

Array = NDArray[Any]
Handler = Callable[[Machine, Instr, Array], None]
FULL = np.uint64(0xFFFFFFFF)


def _goto(m: Machine, ins: Instr, lanes: Array, label: Operand) -> None:
    assert isinstance(label, Label), ins.text
    m.pc[lanes] = m.program.starts[ins.function] + label.index


def _bra(m: Machine, ins: Instr, lanes: Array) -> None:
    _goto(m, ins, lanes, ins.operands[0])


def _brx(m: Machine, ins: Instr, lanes: Array) -> None:
    index = m.get(ins.operands[0], "u32", lanes)
    targets = ins.operands[1]
    assert isinstance(targets, Vec), ins.text
    for i, label in enumerate(targets.items):
        _goto(m, ins, lanes[index == i], label)
    if (index >= len(targets.items)).any():
        raise RuntimeError(f"branch index out of range: {ins.text}")


def _ret(m: Machine, ins: Instr, lanes: Array) -> None:
    frame = m.frames[m.level]
    if frame.back is None:
        _exit(m, ins, lanes)
        return
    back = frame.back[lanes]
    m.depth[lanes] -= 1
    _, formals = m.program.formals[ins.function]
    rows = [frame_param(m, Sym(formal))[lanes] for formal in formals]
    m.level -= 1
    for place in np.unique(back):
        at = np.flatnonzero(back == place)
        _, targets, _ = _call_parts(m.program.code[int(place) - 1])
        for target, row in zip(targets, rows, strict=True):
            assert isinstance(target, Sym)
            frame_param(m, target)[lanes[at]] = row[at]
    m.pc[lanes] = back


def _exit(m: Machine, ins: Instr, lanes: Array) -> None:
    m.leave(lanes)
    for number in {0, *np.unique(m.bar_id[m.status == AT_BARRIER]).tolist()}:
        _release(m, number)


def _call_parts(ins: Instr) -> tuple[Operand, tuple[Operand, ...], tuple[Operand, ...]]:
    parts = list(ins.operands)
    results: tuple[Operand, ...] = ()
    if isinstance(parts[0], Vec):
        results = parts.pop(0).items  # type: ignore[union-attr]
    arguments = parts[1].items if len(parts) > 1 and isinstance(parts[1], Vec) else ()
    return parts[0], results, arguments


def _call(m: Machine, ins: Instr, lanes: Array) -> None:
    callee, results, arguments = _call_parts(ins)
    if isinstance(callee, Sym) and isinstance(callee.target, str):
        _enter(m, ins, lanes, callee.target, results, arguments)
        return
    places = (m.get(callee, "u64", lanes) - np.uint64(CODE)) // np.uint64(16)
    names = {start: name for name, start in m.program.starts.items()}
    for place in np.unique(places):
        if int(place) not in names:
            raise RuntimeError(f"call through a pointer to no function: {ins.text}")
        _enter(m, ins, lanes[places == place], names[int(place)], results, arguments)


def _enter(m: Machine, ins: Instr, lanes: Array, name: str, results: tuple[Operand, ...],
           arguments: tuple[Operand, ...]) -> None:  # fmt: skip
    after = m.pc[lanes] + 1
    if name in ("vprintf", "__assertfail"):
        if name == "__assertfail":
            raise AssertionError(f"device assertion in {ins.function}")
        m.pc[lanes] = after
        return
    if name not in m.program.starts:
        raise NotImplementedError(f"call of undefined function: {ins.text}")
    rows = [frame_param(m, a)[lanes] for a in arguments if isinstance(a, Sym)]
    stack = m.frames[m.level].stack
    assert stack is not None
    top = stack[lanes] + np.uint64(m.program.frame_size[ins.function])
    if m.level + 1 == len(m.frames):
        m.frames.append(Frame(back=np.zeros(m.count, np.int64), stack=np.zeros(m.count, "u8")))
    m.level += 1
    frame = m.frames[m.level]
    assert frame.back is not None
    assert frame.stack is not None
    frame.back[lanes], frame.stack[lanes] = after, top
    for formal, row in zip(m.program.formals[name][0], rows, strict=True):
        frame_param(m, Sym(formal))[lanes] = row
    m.depth[lanes] += 1
    m.pc[lanes] = m.program.starts[name]
    m.level -= 1


def _trap(m: Machine, ins: Instr, lanes: Array) -> None:
    raise RuntimeError(f"trap in {ins.function}")


# -- barriers -------------------------------------------------------------------------------


def _barrier(m: Machine, ins: Instr, lanes: Array) -> None:
    parts = [p for p in ins.op[1:] if p not in ("cta", "aligned")]
    if parts[0] == "warp":
        _collective(m, ins, lanes)
        return
    if parts[0] not in ("sync", "red", "arrive"):
        raise reject(ins)
    operands = list(ins.operands)
    target = operands.pop(0) if parts[0] == "red" else None
    vote = operands.pop() if target is not None else None
    number = m.get(operands[0], "u32", lanes).astype(np.int64)
    need = m.get(operands[1], "u32", lanes) if len(operands) > 1 else np.zeros(lanes.size)
    if parts[0] == "arrive":
        _arrive(m, lanes, number)
        m.pc[lanes] += 1
    else:
        m.status[lanes] = AT_BARRIER
        m.bar_need[lanes] = need
        if vote is not None:
            m.bar_value[lanes] = m.get(vote, "pred", lanes)
    m.bar_id[lanes] = number
    for one in np.unique(number):
        _release(m, int(one))


def _weights(m: Machine, here: Array) -> Array:
    """Threads that count as arrived, a block each: a whole warp counts as 32."""
    came = here.reshape(m.blocks, m.warps, 32).sum(axis=2)
    alive = (m.status != DONE).reshape(m.blocks, m.warps, 32).sum(axis=2)
    total: Array = np.where((came == alive) & (came > 0), 32, came).sum(axis=1)
    return total


def _arrive(m: Machine, lanes: Array, number: Array) -> None:
    for one in np.unique(number):
        here = np.zeros(m.count, bool)
        here[lanes[number == one]] = True
        early = m.bar_early.setdefault(int(one), np.zeros(m.blocks, np.int64))
        early += _weights(m, here)


def _release(m: Machine, number: int) -> None:
    here = (m.status == AT_BARRIER) & (m.bar_id == number)
    shape = (m.blocks, -1)
    waiting = here.reshape(shape).sum(axis=1)
    alive = (m.status != DONE).reshape(shape).sum(axis=1)
    need = np.where(here, m.bar_need, 0).reshape(shape).max(axis=1)
    early = m.bar_early.setdefault(number, np.zeros(m.blocks, np.int64))
    enough = np.where(need > 0, _weights(m, here) + early >= need, waiting == alive)
    ready = enough & (waiting > 0)
    if not ready.any():
        return
    early[ready] = 0
    go = np.flatnonzero(here & ready[m.block_of])
    for place in np.unique(m.pc[go]):
        ins = m.program.code[int(place)]
        if "red" in ins.op:
            _reduce_votes(m, ins, go[m.pc[go] == place], here)
    m.pc[go] += 1
    m.status[go] = RUN


def _reduce_votes(m: Machine, ins: Instr, lanes: Array, here: Array) -> None:
    votes = (here & m.bar_value).reshape(m.blocks, -1).sum(axis=1)
    total = here.reshape(m.blocks, -1).sum(axis=1)
    block = m.block_of[lanes]
    if "popc" in ins.op:
        m.put(ins.operands[0], "u32", lanes, votes[block])
    else:
        result = votes == total if "and" in ins.op else votes > 0
        m.put(ins.operands[0], "pred", lanes, result[block])


# -- warp collectives -----------------------------------------------------------------------


def _bits(m: Machine, lanes: Array) -> Array:
    """A mask of 32 lanes for each warp of the batch."""
    here = np.zeros(m.count, bool)
    here[lanes] = True
    weights = np.uint64(1) << np.arange(32, dtype=np.uint64)
    total: Array = (here.reshape(-1, 32) * weights).sum(axis=1).astype(np.uint64)
    return total


def _members(m: Machine, ins: Instr, lanes: Array) -> Array:
    name = ".".join(ins.op)
    if name.startswith(("mma", "ldmatrix", "stmatrix", "wmma", "movmatrix")):
        return np.full(lanes.size, FULL)
    if "sync" not in ins.op and "warp" not in ins.op:
        return _bits(m, lanes)[lanes // 32]
    return m.get(ins.operands[-1], "u32", lanes).astype(np.uint64)


def _collective(m: Machine, ins: Instr, lanes: Array) -> None:
    pc = m.pc[lanes[0]]
    waiting = np.flatnonzero((m.status == AT_COLLECTIVE) & (m.pc == pc))
    lanes = np.union1d(lanes, waiting)
    wanted = _members(m, ins, lanes)
    alive = _bits(m, np.flatnonzero(m.status != DONE))[lanes // 32]
    here = _bits(m, lanes)[lanes // 32]
    ready = (wanted & alive & ~here) == 0
    m.status[lanes[~ready]] = AT_COLLECTIVE
    go = lanes[ready]
    if go.size:
        m.status[go] = RUN
        m.pc[go] += 1
        _ACTS[ins.op[0]](m, ins, go, wanted[ready])


def _shfl(m: Machine, ins: Instr, lanes: Array, members: Array) -> None:
    mode = next(p for p in ins.op if p in ("up", "down", "bfly", "idx"))
    value = m.get(ins.operands[1], "b32", lanes)
    b, c = (m.get(o, "u32", lanes).astype(np.int64) for o in ins.operands[2:4])
    lane = lanes % 32
    b, clamp, segment = b & 31, c & 31, (c >> 8) & 31
    high = (lane & segment) | (clamp & ~segment)
    low = lane & segment
    source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": low | (b & ~segment)}[mode]
    inside = source >= high if mode == "up" else source <= high
    source = np.where(inside, source, lane)
    everyone = np.zeros(m.count, np.uint32)
    everyone[lanes] = value
    out = everyone[lanes - lane + source]
    target = ins.operands[0]
    if isinstance(target, Pair):
        m.put(target.second, "pred", lanes, inside)
        target = target.first
    m.put(target, "b32", lanes, out)


def _vote(m: Machine, ins: Instr, lanes: Array, members: Array) -> None:
    value = m.get(ins.operands[1], "pred", lanes)
    yes = _bits(m, lanes[value])[lanes // 32]
    here = _bits(m, lanes)[lanes // 32] & members
    yes = yes & members
    mode = next(p for p in ins.op if p in ("all", "any", "uni", "ballot"))
    if mode == "ballot":
        m.put(ins.operands[0], "b32", lanes, yes.astype(np.uint32))
        return
    result = {"all": yes == here, "any": yes != 0, "uni": (yes == here) | (yes == 0)}[mode]
    m.put(ins.operands[0], "pred", lanes, result)


def _peers(members: Array, warp: Array) -> list[Array]:
    """Positions of the lanes that act together: same warp, same member mask."""
    key = warp.astype(np.uint64) << np.uint64(32) | members
    return [np.flatnonzero(key == one) for one in np.unique(key)]


def _match(m: Machine, ins: Instr, lanes: Array, members: Array) -> None:
    value = m.get(ins.operands[1], types(ins)[-1], lanes)
    out = np.zeros(lanes.size, np.uint32)
    same = np.zeros(lanes.size, bool)
    for at in _peers(members, lanes // 32):
        bits = np.uint32(1) << (lanes[at] % 32).astype(np.uint32)
        table = (value[at][:, None] == value[at][None, :]) * bits
        out[at] = table.sum(axis=1).astype(np.uint32)
        same[at] = (value[at] == value[at][0]).all()
    target = ins.operands[0]
    if "all" in ins.op:
        first, second = (target.first, target.second) if isinstance(target, Pair) else (
            target, Sink())  # fmt: skip
        m.put(first, "b32", lanes, np.where(same, out, 0).astype(np.uint32))
        m.put(second, "pred", lanes, same)
    else:
        m.put(target, "b32", lanes, out)


_REDUCE: dict[str, Callable[[Array], Any]] = {
    "add": lambda v: v.sum(dtype=v.dtype),
    "min": np.min,
    "max": np.max,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}


def _redux(m: Machine, ins: Instr, lanes: Array, members: Array) -> None:
    kind = types(ins)[-1]
    if kind not in ("s32", "u32", "b32"):
        raise reject(ins)
    reduce = _REDUCE[next(p for p in ins.op if p in _REDUCE)]
    value = m.get(ins.operands[1], kind, lanes)
    out = np.empty(lanes.size, DTYPES[kind])
    for at in _peers(members, lanes // 32):
        out[at] = reduce(value[at])
    m.put(ins.operands[0], kind, lanes, out)


def _elect(m: Machine, ins: Instr, lanes: Array, members: Array) -> None:
    target = ins.operands[0]
    assert isinstance(target, Pair)
    lane = (lanes % 32).astype(np.uint64)
    first = members & (~members + np.uint64(1))
    chosen = np.uint64(1) << lane == first
    leader = np.log2(first.astype(np.float64)).astype(np.uint32)
    m.put(target.first, "b32", lanes, leader)
    m.put(target.second, "pred", lanes, chosen)


def _activemask(m: Machine, ins: Instr, lanes: Array, members: Array) -> None:
    m.put(ins.operands[0], "b32", lanes, _bits(m, lanes)[lanes // 32].astype(np.uint32))


_ACTS: dict[str, Callable[[Machine, Instr, Array, Array], None]] = {
    "shfl": _shfl, "vote": _vote, "match": _match, "redux": _redux, "elect": _elect,
    "activemask": _activemask, "bar": lambda m, ins, lanes, members: None,
    "mma": tensor.mma, "ldmatrix": tensor.load_matrix, "stmatrix": tensor.store_matrix,
    "movmatrix": tensor.move_matrix, "wmma": tensor.wmma,
}  # fmt: skip

CONTROL: dict[str, Handler] = {
    "bra": _bra, "brx": _brx, "ret": _ret, "exit": _exit, "call": _call, "trap": _trap,
    "bar": _barrier, "barrier": _barrier,
    **{name: _collective for name in _ACTS if name != "bar"},
}  # fmt: skip
