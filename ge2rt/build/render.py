"""Template -> CUDA source, in a sandbox, with a map of lines back to the template."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import TracebackType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ge2rt.base import events
from ge2rt.base.dtypes import DType, dtype_of
from ge2rt.base.errors import CompileError, Ge2rtError
from ge2rt.base.locks import ForkLock
from ge2rt.base.paths import resource
from ge2rt.build import bounds, templates
from ge2rt.build.bytecode import StoredTemplates
from ge2rt.build.linemarks import LineMarks, take_marks
from ge2rt.build.literals import Literal, Symbol, is_static, literal
from ge2rt.build.records import Problem, Source
from ge2rt.build.views import BufferView, SpaceView, TypeView, entry_name, namespace
from ge2rt.spec.suggest import did_you_mean

# What evaluating a template may raise besides Jinja's own errors.
_FAULTS = (
    jinja2.TemplateError, Ge2rtError, TypeError, ValueError, ArithmeticError, LookupError,
    AttributeError, RecursionError, MemoryError,
)  # fmt: skip
_MAX_NAMES = 60
_NO_ATTRIBUTE = re.compile(r"'[\w.]*?(\w+) object' has no attribute '(\w+)'")
_VIEWS = {BufferView: "a buffer", TypeView: "a type", SpaceView: "an iteration space"}

_environments: dict[str, Environment] = {}
_lock = ForkLock()


class _Loader(jinja2.BaseLoader):
    """Reads through :mod:`ge2rt.build.templates`, which holds the fences."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str, Callable[[], bool]]:
        file = templates.load(template, self.folder)

        def unchanged() -> bool:
            return templates.load(template, self.folder) is file

        return file.text, file.path, unchanged


class Environment(ImmutableSandboxedEnvironment):
    """The sandbox: undefined names are errors, sizes are bounded, values print as C++."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})
    code_generator_class = bounds.Generator
    concatenated = staticmethod(bounds.concatenated)

    def __init__(self, folder: str) -> None:
        super().__init__(
            loader=_Loader(folder), undefined=jinja2.StrictUndefined, autoescape=False,
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
            finalize=_printed, bytecode_cache=StoredTemplates(),
            extensions=[LineMarks, "jinja2.ext.do", "jinja2.ext.loopcontrols"],
        )  # fmt: skip
        self.tests["static"] = is_static
        for name in bounds.DROPPED_FILTERS:
            self.filters.pop(name, None)
        self.filters.update(
            lit=_lit, format=bounds.formatted, replace=bounds.replaced,
            indent=bounds.indented(self.filters["indent"]),
            sum=bounds.summed,
        )  # fmt: skip
        self.globals = {
            "range": bounds.bounded_range, "namespace": self.globals["namespace"], "fail": _fail,
        }  # fmt: skip

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any
    ) -> Any:
        """Jinja's hook for the operators that could ask for all of the memory."""
        bounds.check_operator(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(
        self, context: jinja2.runtime.Context, function: Any, /, *args: Any, **named: Any
    ) -> Any:
        """Jinja's hook for every call in a template."""
        bounds.check_call(function, args, named)
        return super().call(context, function, *args, **named)


def _printed(value: Any) -> Any:
    """How ``{{ value }}`` prints."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return literal(value, dtype_of("f64"))
    if isinstance(value, int) and not isinstance(value, Literal):
        return str(Literal(value))
    if value is None or isinstance(value, (tuple, list, dict)):
        raise CompileError(f"{value!r} has no spelling in C++")
    return value


def _lit(value: Any, dtype: Any) -> str:
    """Filter: the value as a C++ literal of a dtype (a type variable, a buffer or a name)."""
    if isinstance(value, Symbol):
        return str(value)
    return literal(value, _dtype(dtype))


def _dtype(value: Any) -> DType:
    if isinstance(value, TypeView):
        return dtype_of(value.name)
    return dtype_of(value.dtype if isinstance(value, BufferView) else value)


def _fail(message: str) -> None:
    """Global: stop rendering with the template author's own message."""
    raise CompileError(str(message))


def clear() -> None:
    """Forget compiled templates."""
    with _lock:
        _environments.clear()
    templates.clear()


def warmup() -> None:
    """Start Jinja, and load the parts that the shipped templates share."""
    shipped = resource("templates")
    environment = _environment(str(shipped))
    for part in sorted(shipped.glob("_*")):
        environment.get_template(part.name)


def _environment(folder: str) -> Environment:
    with _lock:
        if folder not in _environments:
            _environments[folder] = Environment(folder)
        return _environments[folder]


def render(problem: Problem) -> Source:
    """CUDA text of a problem. The same problem gives the same text in every process.

    Raises :class:`CompileError` with the template's file and line.
    """
    kernel = problem.kernel
    names = namespace(problem)
    events.emit("render", kernel=kernel.name)
    text, line_map = take_marks(_run(kernel.folder, kernel.template, kernel.name, names))
    return Source(text, entry_name(problem), kernel.template, kernel.options, line_map)


def _run(folder: str, template: str, kernel: str, names: dict[str, Any]) -> str:
    environment = _environment(folder)
    pieces: list[str] = []
    length = 0
    bounds.begin()
    try:
        for piece in environment.get_template(template).generate(names):
            length += len(piece)
            if length > bounds.MAX_TEXT:
                raise CompileError(f"the rendered text has more than {bounds.MAX_TEXT} characters")
            pieces.append(piece)
    except _FAULTS as fault:
        raise _explained(fault, kernel, template, folder, names) from fault
    return "".join(pieces)


def _explained(
    fault: Exception, kernel: str, template: str, folder: str, names: dict[str, Any]
) -> CompileError:
    where = _where(fault, template)
    if isinstance(fault, Ge2rtError):
        kept = {"expected": fault.record.expected, "got": fault.record.got}
        return CompileError(
            fault.record.message, kernel=kernel, where=where, next_step=fault.record.next_step,
            **kept,
        )  # fmt: skip
    if isinstance(fault, jinja2.UndefinedError):
        message, step = _undefined(str(fault), names)
        return CompileError(message, kernel=kernel, where=where, next_step=step)
    if isinstance(fault, jinja2.TemplateSyntaxError):
        return CompileError(f"template syntax: {fault.message}", kernel=kernel, where=where)
    return CompileError(f"template: {fault}", kernel=kernel, where=where)


def _undefined(text: str, names: dict[str, Any]) -> tuple[str, str]:
    """Message and next step for Jinja's text about something that is not there."""
    if "has no element" in text:
        return text, "axes count from 0 to rank - 1"
    found = _NO_ATTRIBUTE.fullmatch(text)
    view = next((v for v in names.values() if found and type(v).__name__ == found[1]), None)
    if found is None or view is None:
        return text, f"names: {_listed(names)}"
    known = sorted(vars(view))
    what = _VIEWS.get(type(view), "this")
    return f"{what} has no attribute {found[2]!r}", (
        did_you_mean(found[2], known) or f"it has {', '.join(known)}"
    )


def _listed(names: dict[str, Any]) -> str:
    known = sorted(names)
    more = f" and {len(known) - _MAX_NAMES} more" if len(known) > _MAX_NAMES else ""
    return ", ".join(known[:_MAX_NAMES]) + more


def _where(fault: Exception, template: str) -> str:
    if isinstance(fault, jinja2.TemplateSyntaxError):
        return f"{fault.filename or fault.name or template}:{fault.lineno}"
    found = template
    trace: TracebackType | None = fault.__traceback__
    while trace is not None:
        # Jinja rewrites the frames of a template so that they carry its path and lines
        if "__jinja_exception__" in trace.tb_frame.f_globals:
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def undeclared(text: str, folder: str = "") -> frozenset[str]:
    """Names a template's text uses without setting them: for checks of kernels files."""
    from jinja2 import meta

    tree: nodes.Template = _environment(folder).parse(text)
    return frozenset(meta.find_undeclared_variables(tree))
