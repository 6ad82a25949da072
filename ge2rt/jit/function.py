"""``@jit``: a function of arrays, compiled for each kind of call it gets."""

from __future__ import annotations

import functools
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from ge2rt.base.dtypes import DTYPES
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.locks import ForkLock
from ge2rt.base.text import counted, show
from ge2rt.jit.adapters import ADAPTERS, adapter_of
from ge2rt.jit.arguments import ArrayKey, Binder, Call, StaticKey, array_key
from ge2rt.jit.backend import Build, Built, default_build
from ge2rt.jit.captures import capture
from ge2rt.jit.compiled import Compiled, Form
from ge2rt.jit.intervals import BITS, TooWide
from ge2rt.jit.noted import Captures
from ge2rt.jit.quick import MISS
from ge2rt.jit.reflection import is_library
from ge2rt.jit.scope import active, current
from ge2rt.jit.substitute import substituted
from ge2rt.jit.traced import Concretise
from ge2rt.jit.tracing import TracedCall, trace_call
from ge2rt.jit.trees import flatten

_MOST_QUICK = 4  # native forms tried one after the other
_STATIC = 4  # forms of a function of one kernel that are compiled for fixed extents
_SMALL = 4  # kernels of a function that turns to any extents as a whole
_OF_A_FORM = frozenset({"report", "stages", "constants", "signature", "built"})
_MOST_FORMS = 512  # kept a function; the least recently used goes first


@dataclass(frozen=True)
class Specialisation:
    """One compiled form: for which call, why, how long it took, kernels compiled for it."""

    signature: str
    reason: str
    seconds: float
    compiled: int
    kernels: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = "".join(f"\n    {note}" for note in self.notes)
        return (
            f"({self.signature}): {self.reason}; {counted(self.kernels, 'kernel')},"
            f" {self.compiled} compiled,"
            f" {self.seconds * 1e3:.0f} ms{told}"
        )


@dataclass(frozen=True)
class Stats:
    """What a jitted function compiled so far, and why. It prints well."""

    name: str
    specialisations: tuple[Specialisation, ...] = field(default=())

    @property
    def traces(self) -> int:
        """How often the Python function was run to trace it."""
        return len(self.specialisations)

    @property
    def compiled(self) -> int:
        """Kernels that the compiler had to be asked for."""
        return sum(each.compiled for each in self.specialisations)

    def __str__(self) -> str:
        head = (
            f"{self.name}: {counted(self.traces, 'specialisation')},"
            f" {counted(self.compiled, 'kernel')} compiled"
        )
        return "\n".join([head, *(f"  {each}" for each in self.specialisations)])


@dataclass
class Family:
    """Forms that differ in extents only: how many so far, and kernels of the last one.

    A function of one kernel may have ``_STATIC`` forms for fixed extents, one of a few kernels its
    first form; from then on kernels are for any extents. A large function leaves that to each
    kernel's own budget. What lies in the disk cache counts alike: a second process wants the same
    kernels.
    """

    forms: int = 0
    kernels: int = 0

    @property
    def grown(self) -> bool:
        """Whether the next form's kernels are compiled for any extents."""
        few = 1 if self.kernels > 1 else _STATIC
        return 0 < self.kernels <= _SMALL and self.forms >= few

    def add(self, built: Built) -> None:
        """Count a form."""
        self.kernels = len(getattr(built.program, "steps", ()))
        self.forms += 1


Transform = Callable[[Callable[..., Any]], Callable[..., Any]]
Watch = Callable[[Sequence[Any]], None]


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


class JitFunction:
    """A function that is traced once for each kind of call, compiled, and then run as kernels."""

    def __init__(
        self, function: Callable[..., Any], *, static: Sequence[str] = (),
        dynamic: Mapping[str, Mapping[int, str]] | None = None, device: str | None = None,
        graph: bool = False, build: Build | None = None, transform: Transform | None = None,
        any_extents: bool = False,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, function, updated=())
        self.__name__ = str(getattr(function, "__name__", type(function).__name__))
        self._function = function
        self._static = tuple(static)
        # a transform tells arguments by place from those by name, as its user wrote them
        self._binder = Binder(function, static, apart=transform is not None)
        self._dynamic = dict(dynamic or {})
        self._device = device
        self._graph = graph
        self._build = build or default_build
        self._transform = transform or _as_it_is
        self._any_extents = any_extents
        self._lock = ForkLock(reentrant=True)
        self._forms: OrderedDict[Hashable, Form] = OrderedDict()
        self._concrete: dict[Hashable, frozenset[int]] = {}
        self._tightness: dict[Hashable, int] = {}  # which of BITS traces of a key are for
        self._held: dict[Hashable, TracedCall] = {}  # which integers the forms of a key are for
        self._quick: tuple[Callable[..., Any], ...] = ()  # for positional arguments
        self._named: tuple[Callable[..., Any], ...] = ()  # for keywords as well
        self._by_shape: dict[tuple[Any, ...], Callable[..., Any]] = {}  # of two arrays
        self._families: dict[Hashable, Family] = {}
        self._log: list[Specialisation] = []
        self._check_dynamic()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result, computed by kernels; compiled first where that is needed."""
        if not kwargs:
            for quick in self._quick:
                result = quick(*args)
                if result is not MISS:
                    return result
        else:
            for quick in self._named:
                result = quick(*args, **kwargs)
                if result is not MISS:
                    return result
        return self._slow(args, kwargs)

    def watched(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], watch: Watch) -> Any:
        """As a call of arrays; ``watch`` gets those that it is to change, before it does."""
        for quick in self._named if kwargs else self._quick:  # these change nothing
            result = quick(*args, **kwargs)
            if result is not MISS:
                return result
        return self._slow(args, kwargs, watch)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method: ``self`` is named static, so it is compiled for each object."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit {self.__name__}>"

    def __getattr__(self, name: str) -> Any:
        hint = f": write f.compile(*args).{name}" if name in _OF_A_FORM else ""
        raise AttributeError(f"a jitted function has no attribute {name!r}{hint}", name=name)

    def _again(
        self, static: Sequence[str], dynamic: Mapping[str, Mapping[int, str]] | None,
        device: str | None, graph: bool,
    ) -> JitFunction:  # fmt: skip
        """The same function, derivatives and all, jitted with these settings beside its own."""
        return JitFunction(
            self._function, static=tuple(dict.fromkeys((*self._static, *static))),
            dynamic={**self._dynamic, **(dynamic or {})}, device=device or self._device,
            graph=graph or self._graph, build=self._build, transform=self._transform,
            any_extents=self._any_extents,
        )  # fmt: skip

    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """The compiled form for calls like this one, without running it."""
        form = self._form(self._binder.bind(args, kwargs))
        return Compiled(form, lambda a, k: self._binder.bind(a, k), self.__name__)

    def stats(self) -> Stats:
        """What was compiled so far, and why."""
        return Stats(self.__name__, tuple(self._log))

    def clear(self) -> None:
        """Forget all compiled forms."""
        with self._lock:
            self._forms.clear()
            self._concrete.clear()
            self._held.clear()
            self._tightness.clear()
            self._families.clear()
            self._quick = self._named = ()
            self._by_shape.clear()

    def quick_forms(self) -> Mapping[tuple[Any, ...], Callable[..., Any]]:
        """Native functions of two arrays, by (shape, shape, number of dtype, number of dtype).

        It fills up as calls come; a function still answers MISS to arrays of other strides.
        """
        return self._by_shape

    # -- the long way ------------------------------------------------------------------------------
    def _slow(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], watch: Watch | None = None
    ) -> Any:
        if ADAPTERS:
            adapter = adapter_of(flatten((args, dict(kwargs)))[0])
            if adapter is not None:
                return adapter(self, args, kwargs)
        call = self._binder.bind(args, kwargs)
        # a derivative is part of the trace in any case: its function may see traced values
        if active() is not None and (call.traced or self._transform is not _as_it_is):
            inner = substituted(self._function) if current().substitutes else self._function
            return self._transform(inner)(*args, **kwargs)  # part of the trace in progress
        form = self._form(call)
        if watch is not None and form.traced.written:
            watch([call.leaves[place] for place, _ in form.traced.written])
        result = form.run(call.leaves)
        self._remember(form, (len(args), tuple(sorted(kwargs))))
        return result

    def _form(self, call: Call) -> Form:
        """The compiled form for a call, made where there is none or what it captured changed."""
        with self._lock:
            known = self._compiled_in(call)
            exact = call.with_static(known) if known else call
            form = self._forms.get(exact.key)
            reason = self._reason(exact)
            if form is not None:
                reason = form.stale()
                if not reason:
                    self._forms.move_to_end(exact.key)
                    if form.captures.renew():
                        self._forget(form)
                    return form
                self._forget(form)
            return self._make(call, reason)

    def _compiled_in(self, call: Call) -> frozenset[int]:
        """Python numbers of the call whose values are compiled in."""
        held, known = self._held.get(call.key), self._concrete.get(call.key, frozenset())
        return known | held.outside(call.leaves) if held is not None else known

    def _make(self, call: Call, reason: str) -> Form:
        started = time.perf_counter()
        given = [name.removeprefix("**") for name, _ in call.structure]  # type: ignore[union-attr]
        captures = capture(self._function, _compiled_in(call), given)
        exact, traced = self._trace(call)
        self._check_axes(exact)
        captures.drop_changed()
        captures.watch_layouts(traced.captured)
        traced = replace(traced, pinned=_pins(captures, traced))
        family = self._families.setdefault(exact.family, Family())
        built = self._build(
            traced.graph, self._strides(exact, traced), self._home(exact),
            self._any_extents or bool(self._dynamic) or family.grown, self._graph,
        )  # fmt: skip
        if is_library(self._function):
            built.tell_caller()
        family.add(built)
        form = Form.of(exact, traced, built, captures, reason)
        self._forms[exact.key] = form
        if len(self._forms) > _MOST_FORMS:
            self._forms.popitem(last=False)
        kernels = len(getattr(built.program, "steps", ()))
        listed = ", ".join(f"{n}: {k}" for n, k in zip(exact.names, exact.keys, strict=True))
        self._log.append(Specialisation(
            listed, reason, time.perf_counter() - started, built.compiled, kernels, built.reasons,
        ))  # fmt: skip
        return form

    def _trace(self, call: Call) -> tuple[Call, TracedCall]:
        """Trace, with Python numbers compiled in that the function asks the value of."""
        base = call.key
        places = self._compiled_in(call)
        while True:
            exact = call.with_static(places) if places else call
            try:
                traced = trace_call(
                    self._function, self._binder, exact, self.__name__, self._transform,
                    bits=BITS[self._tightness.get(base, 0)],
                )  # fmt: skip
            except Concretise as wanted:
                tightness = self._tightness.get(base, 0) + 1
                if isinstance(wanted, TooWide) and tightness < len(BITS):
                    self._tightness[base] = tightness
                    continue
                places = places | wanted.leaves
                self._concrete[base] = self._concrete.get(base, frozenset()) | wanted.leaves
                continue
            if places == self._concrete.get(base, frozenset()):
                self._held[base] = traced
            outside = traced.outside(call.leaves)
            if not outside:
                return exact, traced
            places = places | outside

    def _forget(self, form: Form) -> None:
        """Try the form no more before looking for it."""
        gone = [quick for quick in form.quicks.values() if quick is not None]
        self._quick = tuple(quick for quick in self._quick if quick not in gone)
        self._named = tuple(quick for quick in self._named if quick not in gone)
        form.quicks.clear()
        self._by_shape = {key: quick for key, quick in self._by_shape.items() if quick not in gone}

    def _remember(self, form: Form, style: tuple[int, tuple[str, ...]]) -> None:
        """Have further calls of this style try the form at once."""
        with self._lock:
            known = form.quicks.get(style)
            if style not in form.quicks:
                known = form.quicks[style] = form.quick(self._binder, style)
            if known is None:
                return
            if style == (2, ()) and len(form.call.keys) == 2:
                self._remember_shapes(form, known)
            have = self._named if style[1] else self._quick
            kept = (known, *(quick for quick in have if quick is not known))[:_MOST_QUICK]
            if style[1]:
                self._named = kept
            else:
                self._quick = kept

    def _remember_shapes(self, form: Form, quick: Callable[..., Any]) -> None:
        keys = form.call.keys
        if all(isinstance(key, ArrayKey) for key in keys):
            if len(self._by_shape) >= _MOST_FORMS:
                self._by_shape.clear()
            shapes = tuple(each.shape for each in keys)  # type: ignore[union-attr]
            numbers = (DTYPES[each.dtype].numpy.num for each in keys)  # type: ignore[union-attr]
            self._by_shape[shapes + tuple(numbers)] = quick

    def _reason(self, call: Call) -> str:
        if not self._forms:
            return "first call"
        last = next(reversed(self._forms.values())).call
        if last.structure != call.structure:
            return "another structure of arguments"
        for name, have, then in zip(call.names, call.keys, last.keys, strict=True):
            if have != then:
                return f"{name} is {have}, not {then}"
        return "first call"

    def _strides(self, call: Call, traced: TracedCall) -> list[Any]:
        """Strides of the inputs in elements, None for row-major ones."""
        home = self._home(call)
        keys = [call.keys[place] for place in traced.inputs]
        keys += [array_key(array) for array in traced.captured]
        return [  # what is carried to another device is row-major there
            key.strides if isinstance(key, ArrayKey) and key.on_host == (home == "cpu") else None
            for key in keys
        ]

    def _home(self, call: Call) -> str:
        if self._device is not None:
            return self._device
        arrays = [key for key in call.keys if isinstance(key, ArrayKey)]
        homes = {key.home for key in arrays if key.shape or not key.on_host}  # numbers are carried
        if len(homes) > 1:
            raise InvalidTypeError(
                "arguments lie on different devices", got=", ".join(sorted(homes)), detail="device",
                next_step="move them to one device first",
            )  # fmt: skip
        return homes.pop() if homes else "cpu"

    def _check_axes(self, call: Call) -> None:
        """Refuse dynamic axes that an argument does not have."""
        for name, key in zip(call.names, call.keys, strict=True):
            rank = len(key.shape) if isinstance(key, ArrayKey) else 0
            beyond = [axis for axis in self._dynamic.get(name, ()) if not -rank <= axis < rank]
            if beyond:
                raise InvalidArgumentError(
                    f"dynamic names an axis that {name} does not have", argument=name,
                    got=str(beyond[0]), expected=f"-{rank} <= axis < {rank}",
                    next_step="name axes of the array that is passed",
                )  # fmt: skip

    def _check_dynamic(self) -> None:
        parameters = self._binder.signature.parameters if self._binder.signature else {}
        for name, axes in self._dynamic.items():
            if name not in parameters or not isinstance(axes, Mapping):
                raise InvalidArgumentError(
                    "dynamic names no parameter, or no axes", got=f"{{{name!r}: {show(axes)}}}",
                    expected='such as dynamic={"x": {0: "batch"}}',
                    next_step="name a parameter and the axes that vary",
                )  # fmt: skip


def _compiled_in(call: Call) -> list[tuple[str, Any]]:
    """(name, value) of the static arguments, whose attributes may change."""
    return [
        (name, key.value)
        for name, key in zip(call.names, call.keys, strict=True) if isinstance(key, StaticKey)
    ]  # fmt: skip


def _pins(captures: Captures, traced: TracedCall) -> tuple[tuple[Any, Any], ...]:
    """Arrays with copies: those that were not made inputs may have shaped the graph."""
    used = {id(_owner(array)) for array in traced.captured}
    pinned = {id(array) for array, _ in traced.pinned}
    more = [
        (array, array.copy()) for _, array in captures.arrays
        if id(array) not in traced.symbols | pinned and id(_owner(array)) not in used
    ]  # fmt: skip
    return (*traced.pinned, *more)


def _owner(array: Any) -> Any:
    """The object whose memory a view shows."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


@overload
def jit(function: Callable[..., Any]) -> JitFunction: ...


@overload
def jit(
    function: None = None, *, static: Sequence[str] | str = (),
    dynamic: Mapping[str, Mapping[int, str]] | None = None, device: str | None = None,
    graph: bool = False,
) -> Callable[[Callable[..., Any]], JitFunction]: ...  # fmt: skip


def jit(
    function: Callable[..., Any] | None = None, *, static: Sequence[str] | str = (),
    dynamic: Mapping[str, Mapping[int, str]] | None = None, device: str | None = None,
    graph: bool = False,
) -> Any:  # fmt: skip
    """Compile a function of NumPy (or CuPy) arrays: ``@jit``, ``@jit(static=("n",))``, ``jit(f)``.

    The function is run once on symbols for each kind of call (structure, shapes, dtypes, strides,
    static values, device); what it does becomes kernels. ``static`` names parameters whose values
    are compiled in. ``dynamic={"x": {0: "batch"}}`` makes kernels for any extent at once instead of
    after a few different ones. ``device`` is the arrays' own without it. ``graph`` captures the
    launches as a CUDA graph on a cuda device.
    """
    names = (static,) if isinstance(static, str) else tuple(static)

    def wrap(inner: Callable[..., Any]) -> JitFunction:
        if not callable(inner):
            raise InvalidTypeError(
                "jit is given no function", got=show(inner), next_step="write @jit above a def"
            )
        if isinstance(inner, JitFunction):
            return inner._again(names, dynamic, device, graph)
        return JitFunction(inner, static=names, dynamic=dynamic, device=device, graph=graph)

    return wrap if function is None else wrap(function)
