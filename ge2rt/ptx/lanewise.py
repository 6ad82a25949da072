"""What processors do only one lane at a time, as a function with a loop over the lanes.

LLVM writes such code out lane by lane, with a branch each under a mask: 5 ms of compile time and
1 kB a time. The loop takes as long to run and is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ge2rt.ptx.emit import Emitter, Value

Step = Callable[[Emitter, Sequence[Value]], Sequence[Value]]


def by_lane(
    e: Emitter, name: str, mask: Value | None, vectors: Sequence[Value], *,
    results: Sequence[str], step: Step,
) -> list[Value]:  # fmt: skip
    """Run ``step`` on the scalars of each active lane, in the order of lanes; others give 0.

    ``name`` must tell all that ``step`` depends on besides the types of ``vectors``.
    """
    width = vectors[0].lanes
    if mask is None:
        word = Value(f"i{width}", "-1")
    else:
        word = e.raw(f"bitcast {mask} to i{width}", f"i{width}")

    def body(inner: Emitter, args: Sequence[Value]) -> Sequence[Value]:
        return _loop(inner, args, results, step)

    return e.outline(f"lanes.{name}", (word, *vectors), body)


def _loop(e: Emitter, args: Sequence[Value], results: Sequence[str], step: Step) -> Sequence[Value]:
    word, vectors = args[0], args[1:]
    width = vectors[0].lanes
    held = [_room(e, v, v.text) for v in vectors]
    made = [_room(e, Value(t, "", width), "zeroinitializer") for t in results]
    start, top, done = "start", "top", "done"
    e.line(f"br label %{start}")
    e.label(start)
    some = e.compare("icmp ne", word, Value(word.type, "0"))
    e.line(f"br {some}, label %{top}, label %{done}")
    e.label(top)
    left = e.raw(f"phi {word.type} [ {word.text}, %{start} ], [ %left, %{top} ]", word.type)
    count = f"llvm.cttz.{word.type}"
    e.declarations[count] = f"declare {word.type} @{count}({word.type}, i1)"
    lane = e.raw(f"call {word.type} @{count}({left}, i1 true)", word.type)
    at = e.convert("zext", lane, "i64")
    given = [
        e.raw(f"load {v.type}, {_spot(e, v.type, room, at)}", v.type)
        for v, room in zip(vectors, held, strict=True)
    ]
    for value, room in zip(step(e, given), made, strict=True):
        e.line(f"store {value}, {_spot(e, value.type, room, at)}")
    less = e.binary("add", left, Value(word.type, "-1"))
    e.line(f"%left = and {left}, {less.text}")
    more = e.compare("icmp ne", Value(word.type, "%left"), Value(word.type, "0"))
    e.line(f"br {more}, label %{top}, label %{done}")
    e.label(done)
    return [
        e.raw(f"load <{width} x {t}>, {room}", t, width)
        for t, room in zip(results, made, strict=True)
    ]


def _room(e: Emitter, shape: Value, content: str) -> Value:
    room = e.raw(f"alloca {shape.full_type}", "ptr")
    e.line(f"store {shape.full_type} {content}, {room}")
    return room


def _spot(e: Emitter, type: str, room: Value, at: Value) -> Value:
    return e.raw(f"getelementptr {type}, {room}, {at}", "ptr")
